// Decode on tensor cores: all query heads of a group are rows of one matrix product, so that the cache is read once however
// large the group. fp16 and bf16, products summed in fp32; probabilities are rounded to the operand type before they meet V.
// fp8 is computed in fp16 (queries beyond its range, 65504, become infinite).
#pragma once

#include "decode.cuh"
#include "mma.cuh"

// Elements that a lane loads at once when `lanes` of them share a row of D elements: 16 bytes, less where D does not divide.
__host__ __device__ constexpr int neighbours(int bytes, int d, int lanes) {
  int n = 16 / bytes;
  while (d % (lanes * n)) n /= 2;
  return n;
}

// A warp takes 16 tokens at a time: S = Q K^T (HEADS x 16), softmax, O += P V. Query heads are the 16 rows of an mma; with
// HEADS = 8 the lower 8 rows are zeros and cost no registers.
//
// The sum over dims of Q K^T may run in any order, and dims of O may be assigned to columns in any order. So operands come
// straight from 16-byte loads, without a detour through shared memory (g = lane / 4, t = lane % 4):
//   K  lane loads for token g the dims t * K_N .. + K_N - 1 of each 4 * K_N. Of an mma's 16 dims, the lane's 4 (columns 2t,
//      2t + 1, 2t + 8, 2t + 9) are 4 neighbours of those; Q is laid out likewise.
//   V  lane loads for tokens 2t, 2t + 1, 2t + 8, 2t + 9 the dims g * V_N .. + V_N - 1 of each 8 * V_N; mma i of these
//      computes dim i of every lane's V_N.
// P leaves the first product in the very registers where the second one wants it.
template <class KV, int D, int HEADS>
__global__ void __launch_bounds__(THREADS) decode_tensor_cores(DecodeArguments a) {
  static_assert(HEADS == 8 || HEADS == 16);
  using T = typename Operand<KV>::type;
  constexpr int HALVES = HEADS / 8, TILE = 16;
  constexpr int K_N = neighbours(sizeof(KV), D, 4), V_N = neighbours(sizeof(KV), D, 8);
  constexpr int K_LOADS = D / (4 * K_N), V_LOADS = D / (8 * V_N);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, sequence = blockIdx.y;
  const Span span = span_of(a.context_lens[sequence], a.splits, blockIdx.z);
  if (span.begin == span.end && blockIdx.z > 0) return;  // the first block of a row of padding writes zeros
  const Heads heads = heads_of_block<HEADS>(a);
  float scale = a.scale, v_scale = 1.f;
  if constexpr (SAME<KV, Fp8>) { scale *= a.k_scale[heads.kv_head]; v_scale = a.v_scale[heads.kv_head]; }

  unsigned q[K_LOADS][K_N / 4][HALVES][2];  // rows g and g + 8
#pragma unroll
  for (int half = 0; half < HALVES; ++half)
#pragma unroll
    for (int c = 0; c < K_LOADS; ++c) {
      float x[K_N] = {};
      const int head = half * 8 + g;
      if (head < heads.count)
        load_activations<K_N>(a.q, a.dtype, sequence * a.q_stride + (heads.first + head) * D + (c * 4 + t) * K_N, x);
#pragma unroll
      for (int i = 0; i < K_N; i += 2) q[c][i / 4][half][i / 2 % 2] = pair_of_floats<T>(x[i], x[i + 1]);
    }
  float o[V_LOADS][V_N][HALVES][2] = {}, m[HALVES], l[HALVES];  // l: of the lane's own tokens
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    m[half] = NO_SCORE;
    l[half] = 0.f;
  }

  const int* table = a.block_tables + static_cast<long long>(sequence) * a.table_stride;
  const KV* k_cache = static_cast<const KV*>(a.k_cache) + heads.kv_head * D + t * K_N;
  const KV* v_cache = static_cast<const KV*>(a.v_cache) + heads.kv_head * D + g * V_N;
  const int row = a.kv_heads * D, first = span.begin + warp * TILE;
  int next_slot = slot_of(table, a.block_shift, first + lane, lane < TILE ? span.end : 0);
  for (int start = first; start < span.end; start += WARPS * TILE) {  // the same way for a whole warp
    const int slot = next_slot;  // of token start + lane
    next_slot = slot_of(table, a.block_shift, start + WARPS * TILE + lane, lane < TILE ? span.end : 0);
    Vec<KV, K_N> k[2][K_LOADS] = {};
    Vec<KV, V_N> v[4][V_LOADS] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const long long from = __shfl_sync(ALL_LANES, slot, j * 8 + g);
#pragma unroll
      for (int c = 0; c < K_LOADS; ++c)
        if (from >= 0) k[j][c] = load<KV, K_N>(k_cache + from * row + c * 4 * K_N);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long from = __shfl_sync(ALL_LANES, slot, 2 * t + j % 2 + j / 2 * 8);
#pragma unroll
      for (int c = 0; c < V_LOADS; ++c)
        if (from >= 0) v[j][c] = load<KV, V_N>(v_cache + from * row + c * 8 * V_N);
    }

    float score[2][4] = {};  // of tokens start + j * 8 + 2t, + 2t + 1, for heads g, g and g + 8, g + 8
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int c = 0; c < K_LOADS; ++c)
#pragma unroll
        for (int i = 0; i < K_N / 4; ++i) {
          unsigned rows[4] = {q[c][i][0][0], 0, q[c][i][0][1], 0};
          if constexpr (HALVES == 2) { rows[1] = q[c][i][1][0]; rows[3] = q[c][i][1][1]; }
          const KV* x = k[j][c].at + 4 * i;
          mma_m16n8k16(score[j], rows, {pair(x[0], x[1]), pair(x[2], x[3])}, T());
        }

    unsigned p[4] = {};
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
      float largest = m[half];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& s = score[j / 2][half * 2 + j % 2];
        s = start + j / 2 * 8 + 2 * t + j % 2 < span.end ? s * scale : NO_SCORE;
        largest = fmaxf(largest, s);
      }
      largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
      const float factor = __expf(m[half] - largest);
      m[half] = largest;
      l[half] *= factor;
#pragma unroll
      for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
        for (int i = 0; i < V_N; ++i) {
          o[c][i][half][0] *= factor;
          o[c][i][half][1] *= factor;
        }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        // A tile has a token, so `largest` is a score, and exp(NO_SCORE - largest) is 0.
        const float p0 = __expf(score[j][half * 2] - largest), p1 = __expf(score[j][half * 2 + 1] - largest);
        l[half] += p0 + p1;
        p[j * 2 + half] = pair_of_floats<T>(p0, p1);
      }
    }
#pragma unroll
    for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
      for (int i = 0; i < V_N; ++i) {
        float sum[4] = {o[c][i][0][0], o[c][i][0][1]};
        if constexpr (HALVES == 2) { sum[2] = o[c][i][1][0]; sum[3] = o[c][i][1][1]; }
        mma_m16n8k16(sum, p, {pair(v[0][c].at[i], v[1][c].at[i]), pair(v[2][c].at[i], v[3][c].at[i])}, T());
#pragma unroll
        for (int half = 0; half < HALVES; ++half) {
          o[c][i][half][0] = sum[half * 2];
          o[c][i][half][1] = sum[half * 2 + 1];
        }
      }
  }

  SHARED_MEMORY(memory);
  const Shared<HEADS, D> shared(memory);
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    l[half] += __shfl_xor_sync(ALL_LANES, l[half], 1);
    l[half] += __shfl_xor_sync(ALL_LANES, l[half], 2);
    if (t == 0) {
      shared.maxima[warp * HEADS + half * 8 + g] = m[half];
      shared.sums[warp * HEADS + half * 8 + g] = l[half];
    }
  }
  finish(a, shared, heads, span, v_scale, [&](auto add) {
#pragma unroll
    for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
      for (int i = 0; i < V_N; ++i)
#pragma unroll
        for (int half = 0; half < HALVES; ++half)
#pragma unroll
          for (int e = 0; e < 2; ++e) add(half * 8 + g, (c * 8 + 2 * t + e) * V_N + i, o[c][i][half][e]);
  });
}
