// Decode on CUDA cores: fp32 arithmetic throughout, for any pair of dtypes. For groups of one, and wherever the queries or
// the cache are fp32.
#pragma once

#include "decode.cuh"

__host__ __device__ constexpr int power_of_two_from(int x) {
  int power = 1;
  while (power < x) power *= 2;
  return power;
}

// A row of K or V is read by LANES lanes, 16 bytes at a time; a warp reads ROWS rows at once. Every group of LANES lanes
// has its own running softmax until the end. Where the chunks of a row are no power of two, some lanes are idle.
//
// The least number of blocks a multiprocessor is no wish but a leave: with it the compiler uses the registers it needs (128
// or 255), without it it spills a few to reach an occupancy of its own choice.
template <class KV, int D, int HEADS>
__global__ void __launch_bounds__(THREADS, HEADS == 1 && sizeof(KV) > 1 ? 4 : 2) decode_cuda_cores(DecodeArguments a) {
  constexpr int N = 16 / sizeof(KV), CHUNKS = D / N, LANES = CHUNKS > 32 ? 32 : power_of_two_from(CHUNKS);
  constexpr int PER_LANE = (CHUNKS + LANES - 1) / LANES, ROWS = 32 / LANES;
  constexpr int UNROLL = HEADS * PER_LANE * N > 16 ? 2 : 4, TILE = ROWS * UNROLL;
  static_assert(TILE <= 32, "each token of a tile has a lane that looks up its slot");

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / LANES, sequence = blockIdx.y;
  const int context = a.context_lens[sequence];
  const Span span = span_of(context, a.splits, blockIdx.z);
  if (span.begin == span.end && blockIdx.z > 0) return;  // the first block of a row of padding writes zeros
  const Heads heads = heads_of_block<HEADS>(a);
  float k_scale = 1.f, v_scale = 1.f;
  if constexpr (SAME<KV, Fp8>) { k_scale = a.k_scale[heads.kv_head]; v_scale = a.v_scale[heads.kv_head]; }

  const auto dim_of = [&](int chunk) { return (chunk * LANES + lane % LANES) * N; };
  float q[HEADS][PER_LANE][N] = {}, o[HEADS][PER_LANE][N] = {}, m[HEADS], l[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    m[h] = NO_SCORE;
    l[h] = 0.f;
  }
  with_activations(a.q, a.dtype, [&](const auto* activations) {
#pragma unroll
    for (int h = 0; h < HEADS; ++h)
#pragma unroll
      for (int c = 0; c < PER_LANE; ++c) {
        if (h >= heads.count || dim_of(c) >= D) continue;
        load_floats(activations + sequence * a.q_stride + (heads.first + h) * D + dim_of(c), q[h][c]);
#pragma unroll
        for (int i = 0; i < N; ++i) q[h][c][i] *= a.scale * k_scale;
      }
  });

  const int* table = a.block_tables + static_cast<long long>(sequence) * a.table_stride;
  const KV *k_cache = static_cast<const KV*>(a.k_cache), *v_cache = static_cast<const KV*>(a.v_cache);
  const int first = span.begin + warp * TILE;
  int next_slot = first < span.end ? slot_of(table, a.block_shift, first + lane, span.end) : 0;
  for (int t = first; t < span.end; t += WARPS * TILE) {  // the same way for a whole warp
    const int slot = next_slot;  // of token t + lane
    const int next = t + WARPS * TILE;
    if (next < span.end) next_slot = slot_of(table, a.block_shift, next + lane, span.end);
    Vec<KV, N> k[UNROLL][PER_LANE] = {}, v[UNROLL][PER_LANE] = {};
    bool live[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const long long slot_of_row = __shfl_sync(ALL_LANES, slot, u * ROWS + row);
      live[u] = t + u * ROWS + row < span.end;
      const long long at = (slot_of_row * a.kv_heads + heads.kv_head) * D;
#pragma unroll
      for (int c = 0; c < PER_LANE; ++c) {
        if (dim_of(c) >= D) continue;
        k[u][c] = load<KV, N>(k_cache + at + dim_of(c));
        v[u][c] = load<KV, N>(v_cache + at + dim_of(c));
      }
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float score[UNROLL], largest = m[h];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        score[u] = 0.f;
#pragma unroll
        for (int c = 0; c < PER_LANE; ++c)
#pragma unroll
          for (int i = 0; i < N; ++i) score[u] += q[h][c][i] * to_float(k[u][c].at[i]);
#pragma unroll
        for (int distance = LANES / 2; distance; distance /= 2)
          score[u] += __shfl_xor_sync(ALL_LANES, score[u], distance);
        if (live[u]) largest = fmaxf(largest, score[u]);
      }
      const float factor = __expf(m[h] - largest);
      m[h] = largest;
      l[h] *= factor;
#pragma unroll
      for (int c = 0; c < PER_LANE; ++c)
#pragma unroll
        for (int i = 0; i < N; ++i) o[h][c][i] *= factor;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const float p = live[u] ? __expf(score[u] - largest) : 0.f;
        l[h] += p;
#pragma unroll
        for (int c = 0; c < PER_LANE; ++c)
#pragma unroll
          for (int i = 0; i < N; ++i) o[h][c][i] += p * to_float(v[u][c].at[i]);
      }
    }
  }

  // The ROWS states of the warp become one, in all its lanes.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
      const float other = __shfl_xor_sync(ALL_LANES, m[h], distance), largest = fmaxf(m[h], other);
      const float factor = __expf(m[h] - largest), other_factor = __expf(other - largest);
      m[h] = largest;
      l[h] = l[h] * factor + __shfl_xor_sync(ALL_LANES, l[h], distance) * other_factor;
#pragma unroll
      for (int c = 0; c < PER_LANE; ++c)
#pragma unroll
        for (int i = 0; i < N; ++i)
          o[h][c][i] = o[h][c][i] * factor + __shfl_xor_sync(ALL_LANES, o[h][c][i], distance) * other_factor;
    }
  }
  SHARED_MEMORY(memory);
  const Shared<HEADS, D> shared(memory);
  if (lane == 0) {
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      shared.maxima[warp * HEADS + h] = m[h];
      shared.sums[warp * HEADS + h] = l[h];
    }
  }
  finish(a, shared, heads, span, v_scale, [&](auto add) {
    if (row > 0) return;
#pragma unroll
    for (int h = 0; h < HEADS; ++h)
#pragma unroll
      for (int c = 0; c < PER_LANE; ++c)
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (dim_of(c) < D) add(h, dim_of(c) + i, o[h][c][i]);
  });
}
