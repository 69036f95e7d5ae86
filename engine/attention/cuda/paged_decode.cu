// Paged attention of decodes: the plain C interface of a library for one head dim and one dtype of the cache.
//
// nvcc -DHEAD_DIM=128 -DCACHE_DTYPE=2 makes kernels for a GPU; g++ -x c++ builds the same source for the CPU (emulation.h).
// CACHE_DTYPE is a code of Dtype. Pointers are to the memory of the device and aligned to 16 bytes; strides are in elements.
// A function returns 0, or an error code that error_text puts into words.

#include "decode_cuda_cores.cuh"
#include "decode_tensor_cores.cuh"
#include "write_kv.cuh"

namespace {

template <int CODE> struct OfCode { using type = float; };
template <> struct OfCode<FP16> { using type = Half; };
template <> struct OfCode<BF16> { using type = Bfloat16; };
template <> struct OfCode<FP8> { using type = Fp8; };
using Cache = OfCode<CACHE_DTYPE>::type;

// Tensor cores want 16-bit operands: queries in the dtype of the cache, or a cache in fp8.
constexpr bool HAS_OPERANDS = CACHE_DTYPE != FP32;
constexpr int MOST_HEADS = HEAD_DIM <= 128 ? 16 : 8;  // on tensor cores, as registers allow; larger groups take several blocks

template <int HEADS>
dim3 grid_of(const DecodeArguments& a) {
  return dim3(a.kv_heads * ((a.group + HEADS - 1) / HEADS), a.sequences, a.splits);
}

template <int HEADS>
void on_cuda_cores(const DecodeArguments& a, cudaStream_t stream) {
  LAUNCH((decode_cuda_cores<Cache, HEAD_DIM, HEADS>), grid_of<HEADS>(a), dim3(THREADS), (Shared<HEADS, HEAD_DIM>::BYTES),
         stream, a);
}

template <int HEADS>
void on_tensor_cores(const DecodeArguments& a, cudaStream_t stream) {
  if constexpr (HAS_OPERANDS)
    LAUNCH((decode_tensor_cores<Cache, HEAD_DIM, HEADS>), grid_of<HEADS>(a), dim3(THREADS), (Shared<HEADS, HEAD_DIM>::BYTES),
           stream, a);
}

}  // namespace

extern "C" int write_kv(const WriteArguments* arguments) {
  const WriteArguments& a = *arguments;
  if (a.tokens > 0)
    LAUNCH((write_kv_kernel<Cache, HEAD_DIM>), dim3(a.tokens), dim3(WRITE_THREADS), 0, static_cast<cudaStream_t>(a.stream), a);
  return cudaGetLastError();
}

extern "C" int paged_decode(const DecodeArguments* arguments) {
  const DecodeArguments& a = *arguments;
  const cudaStream_t stream = static_cast<cudaStream_t>(a.stream);
  const bool has_operands = HAS_OPERANDS && a.dtype != FP32 && (CACHE_DTYPE == FP8 || CACHE_DTYPE == a.dtype);
  if (a.sequences == 0) return 0;
  if (!has_operands) a.group == 1 ? on_cuda_cores<1>(a, stream) : on_cuda_cores<4>(a, stream);
  else if (a.group == 1) on_cuda_cores<1>(a, stream);
  else if (a.group <= 8) on_tensor_cores<8>(a, stream);
  else on_tensor_cores<MOST_HEADS>(a, stream);
  if (a.splits > 1)
    LAUNCH((merge_kernel<HEAD_DIM>), dim3(a.sequences * a.kv_heads * a.group), dim3(Merge<HEAD_DIM>::PARTS * HEAD_DIM),
           Merge<HEAD_DIM>::BYTES, stream, a);
  return cudaGetLastError();
}

extern "C" const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
