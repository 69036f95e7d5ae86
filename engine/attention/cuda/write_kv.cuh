// K and V of a step's rows go to their slots of the cache.
#pragma once

#include "numbers.cuh"

// Shared with library.py, field by field.
struct WriteArguments {
  const void* k;            // activations [tokens, kv_heads, dim], rows k_stride elements apart
  const void* v;            // likewise
  void* k_cache;            // [slots, kv_heads, dim]
  void* v_cache;            // likewise
  const long long* slots;   // [tokens]; -1: not to be written
  const float* k_scale;     // [kv_heads], for an fp8 cache
  const float* v_scale;
  void* stream;
  long long k_stride;
  long long v_stride;
  int dtype;                // of k and v
  int tokens;
  int kv_heads;
};

constexpr int WRITE_THREADS = 256;

template <class KV>
__device__ __forceinline__ void convert_scaled(float x, float scale, KV& to) {
  if constexpr (SAME<KV, Fp8>) x /= scale;
  convert(x, to);
}

// A block of threads for each token; a thread moves 8 neighbours at a time.
template <class KV, int D>
__global__ void __launch_bounds__(WRITE_THREADS) write_kv_kernel(WriteArguments a) {
  constexpr int N = 8;
  const long long token = blockIdx.x, slot = a.slots[token];
  if (slot < 0) return;
  const int row = a.kv_heads * D;
  for (int i = threadIdx.x * N; i < 2 * row; i += WRITE_THREADS * N) {
    const bool is_value = i >= row;
    const int at = is_value ? i - row : i;
    float x[N];
    with_activations(is_value ? a.v : a.k, a.dtype, [&](const auto* activations) {
      load_floats(activations + token * (is_value ? a.v_stride : a.k_stride) + at, x);
    });
    float scale = 1.f;
    if constexpr (SAME<KV, Fp8>) scale = (is_value ? a.v_scale : a.k_scale)[at / D];
    Vec<KV, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) convert_scaled(x[j], scale, result.at[j]);
    store<KV, N>(static_cast<KV*>(is_value ? a.v_cache : a.k_cache) + slot * row + at, result);
  }
}
