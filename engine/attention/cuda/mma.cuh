// The tensor-core instruction mma.m16n8k16, what its operands are made of, and the transpose between two of them.
//
// mma: c += a b for 16 x 16, 16 x 8 and 16 x 8 matrices that lie scattered over the registers of a warp (PTX ISA, "Matrix
// Fragments for mma.m16n8k16 with floating point type"). With g = lane / 4 and t = lane % 4, a lane holds of
//   a  rows g (a[0], a[2]) and g + 8 (a[1], a[3]); columns 2t, 2t + 1 (a[0], a[1]) and 2t + 8, 2t + 9 (a[2], a[3])
//   b  rows 2t, 2t + 1 (b[0]) and 2t + 8, 2t + 9 (b[1]) of column g
//   c  rows g (c[0], c[1]) and g + 8 (c[2], c[3]) of columns 2t, 2t + 1
// movmatrix: an 8 x 8 matrix of which a lane holds columns 2t, 2t + 1 of row g, transposed.
#pragma once

#include "numbers.cuh"

#ifdef __CUDACC__
#define DEFINE_MMA(T, NAME)                                                                                         \
  __device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], T) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 "                                              \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                           \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                            \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                        \
  }
DEFINE_MMA(Half, "f16")
DEFINE_MMA(Bfloat16, "bf16")
#undef DEFINE_MMA

__device__ __forceinline__ unsigned transpose_8x8(unsigned row) {
  unsigned column;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}
#endif

// Two numbers as one register of an operand, the first in the lower half.
template <class T>
__device__ __forceinline__ unsigned pair(T first, T second) {
  static_assert(sizeof(T) == 2);
  unsigned short lower, upper;
  memcpy(&lower, &first, sizeof lower);
  memcpy(&upper, &second, sizeof upper);
  return lower | static_cast<unsigned>(upper) << 16;
}
template <class T>
__device__ __forceinline__ unsigned pair_of_floats(float first, float second) {
  T converted[2];
  convert(first, converted[0]);
  convert(second, converted[1]);
  return pair(converted[0], converted[1]);
}

// fp8 becomes fp16, which holds all its values.
__device__ __forceinline__ unsigned pair(Fp8 first, Fp8 second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  const auto both = static_cast<__nv_fp8x2_storage_t>(first.bits | second.bits << 8);
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(both, __NV_E4M3);
  return halves.x | static_cast<unsigned>(halves.y) << 16;
#else
  return pair_of_floats<Half>(to_float(first), to_float(second));
#endif
}

template <class KV> struct Operand { using type = KV; };
template <> struct Operand<Fp8> { using type = Half; };
