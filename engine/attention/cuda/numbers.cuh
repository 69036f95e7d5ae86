// Number types of activations and of the cache, and how they are loaded, stored and converted.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstring>
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define SHARED_MEMORY(name) extern __shared__ float name[]
#else
#include "emulation.h"
#endif

using Half = __half;
using Bfloat16 = __nv_bfloat16;
struct Fp8 { __nv_fp8_storage_t bits; };  // e4m3

// Codes of dtypes in the C interface. Activations (q, k, v, out) are never FP8.
enum Dtype { FP32 = 0, FP16 = 1, BF16 = 2, FP8 = 3 };

template <class A, class B> constexpr bool SAME = false;
template <class A> constexpr bool SAME<A, A> = true;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(Bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(Fp8 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // there is an instruction
  const __half_raw raw = __nv_cvt_fp8_to_halfraw(x.bits, __NV_E4M3);
  return __half2float(raw);
#else  // as the upper bits of an fp16 it is too small by 2^8, the difference of the biases of exponents, 15 - 7
  __half_raw raw;
  raw.x = (x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7;
  return (x.bits & 0x7f) == 0x7f ? __builtin_nanf("") : __half2float(raw) * 256.f;
#endif
}

__device__ __forceinline__ void convert(float x, float& to) { to = x; }
__device__ __forceinline__ void convert(float x, Half& to) { to = __float2half(x); }
__device__ __forceinline__ void convert(float x, Bfloat16& to) { to = __float2bfloat16(x); }
__device__ __forceinline__ void convert(float x, Fp8& to) { to.bits = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }

// N neighbours in memory, moved by instructions of at most 16 bytes. Addresses are multiples of their size, or of 16.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Vec { T at[N]; };

template <int BYTES> struct Word { using type = uint4; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<4> { using type = unsigned; };

template <class T, int N>
__device__ __forceinline__ Vec<T, N> load(const T* from) {
  using W = typename Word<N * sizeof(T)>::type;
  Vec<T, N> result;
#pragma unroll
  for (int i = 0; i < int(sizeof(result) / sizeof(W)); ++i) {
    const W word = __ldg(reinterpret_cast<const W*>(from) + i);
    memcpy(reinterpret_cast<char*>(&result) + i * sizeof(W), &word, sizeof(W));
  }
  return result;
}

template <class T, int N>
__device__ __forceinline__ void store(T* to, const Vec<T, N>& value) {
  *reinterpret_cast<Vec<T, N>*>(to) = value;
}

template <class T, int N>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[N]) {
  const Vec<T, N> row = load<T, N>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(row.at[i]);
}

// Calls use(pointer), with the pointer's type that `dtype` says. One branch for all that is loaded within.
template <class Use>
__device__ __forceinline__ void with_activations(const void* from, int dtype, Use use) {
  if (dtype == FP16) use(static_cast<const Half*>(from));
  else if (dtype == BF16) use(static_cast<const Bfloat16*>(from));
  else use(static_cast<const float*>(from));
}

__device__ __forceinline__ void store_activation(void* to, int dtype, long long index, float x) {
  if (dtype == FP16) convert(x, static_cast<Half*>(to)[index]);
  else if (dtype == BF16) convert(x, static_cast<Bfloat16*>(to)[index]);
  else static_cast<float*>(to)[index] = x;
}
