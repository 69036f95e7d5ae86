// Decode on tensor cores: all query heads of a group are columns of one matrix product, so that the cache is read once
// however large the group. fp16 and bf16, products summed in fp32; probabilities are rounded to the operand type before they meet V.
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

// A warp takes 16 tokens at a time: S = K Q^T (16 tokens x HEADS), softmax, O += V^T P (dims x HEADS). Query heads are the
// columns of an mma, 8 in a tile.
//
// The sum over dims in K Q^T may run in any order, and the dims of O may be assigned to rows in any order. So operands come
// straight from 16-byte loads, without a detour through shared memory (g = lane / 4, t = lane % 4; see mma.cuh):
//   K  lane loads for tokens g and g + 8 the dims t * K_N .. + K_N - 1 of each 4 * K_N. Of an mma's 16 dims, the lane's 4
//      (columns 2t, 2t + 1, 2t + 8, 2t + 9) are 4 neighbours of those; Q is laid out likewise.
//   V  lane loads for tokens 2t, 2t + 1, 2t + 8, 2t + 9 the dims g * V_N .. + V_N - 1 of each 8 * V_N. Two neighbours i and
//      i + 1 of every lane are the 16 rows of an mma.
//   S  lane gets tokens g and g + 8 of heads 2t and 2t + 1 of each tile; P for the second product is their transpose.
template <class KV, int D, int HEADS>
__global__ void __launch_bounds__(THREADS, 2) decode_tensor_cores(DecodeArguments a) {
  static_assert(HEADS % 8 == 0);
  using T = typename Operand<KV>::type;
  constexpr int TILES = HEADS / 8, TOKENS = 16;
  constexpr int K_N = neighbours(sizeof(KV), D, 4), V_N = neighbours(sizeof(KV), D, 8);
  constexpr int K_LOADS = D / (4 * K_N), V_LOADS = D / (8 * V_N);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, sequence = blockIdx.y;
  const Span span = span_of(a.context_lens[sequence], a.splits, blockIdx.z);
  if (span.begin == span.end && blockIdx.z > 0) return;  // the first block of a row of padding writes zeros
  const Heads heads = heads_of_block<HEADS>(a);
  float scale = a.scale, v_scale = 1.f;
  if constexpr (SAME<KV, Fp8>) { scale *= a.k_scale[heads.kv_head]; v_scale = a.v_scale[heads.kv_head]; }

  unsigned q[TILES][K_LOADS][K_N / 4][2];  // of head g of each tile
  with_activations(a.q, a.dtype, [&](const auto* activations) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
      for (int c = 0; c < K_LOADS; ++c) {
        float x[K_N] = {};
        const int head = tile * 8 + g;
        if (head < heads.count)
          load_floats(activations + sequence * a.q_stride + (heads.first + head) * D + (c * 4 + t) * K_N, x);
#pragma unroll
        for (int i = 0; i < K_N; i += 2) q[tile][c][i / 4][i / 2 % 2] = pair_of_floats<T>(x[i], x[i + 1]);
      }
  });
  float o[TILES][V_LOADS][V_N / 2][4] = {};  // dims i, i, i + 1, i + 1 of heads 2t, 2t + 1, 2t, 2t + 1
  float m[TILES][2], l[TILES][2] = {};       // of heads 2t, 2t + 1; l of the lane's own tokens
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) m[tile][0] = m[tile][1] = NO_SCORE;

  const int* table = a.block_tables + static_cast<long long>(sequence) * a.table_stride;
  const KV* k_cache = static_cast<const KV*>(a.k_cache) + heads.kv_head * D + t * K_N;
  const KV* v_cache = static_cast<const KV*>(a.v_cache) + heads.kv_head * D + g * V_N;
  const int row = a.kv_heads * D, first = span.begin + warp * TOKENS;
  int next_slot = first < span.end ? slot_of(table, a.block_shift, first + lane, span.end) : 0;
  for (int start = first; start < span.end; start += WARPS * TOKENS) {  // the same way for a whole warp
    const int slot = next_slot;  // of token start + lane
    const int next = start + WARPS * TOKENS;
    if (next < span.end) next_slot = slot_of(table, a.block_shift, next + lane, span.end);
    Vec<KV, K_N> k[2][K_LOADS];
    Vec<KV, V_N> v[4][V_LOADS];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const long long from = __shfl_sync(ALL_LANES, slot, j * 8 + g);
#pragma unroll
      for (int c = 0; c < K_LOADS; ++c) k[j][c] = load<KV, K_N>(k_cache + from * row + c * 4 * K_N);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long from = __shfl_sync(ALL_LANES, slot, 2 * t + j % 2 + j / 2 * 8);
#pragma unroll
      for (int c = 0; c < V_LOADS; ++c) v[j][c] = load<KV, V_N>(v_cache + from * row + c * 8 * V_N);
    }

    float score[TILES][4] = {};  // tokens g, g, g + 8, g + 8 of heads 2t, 2t + 1, 2t, 2t + 1
#pragma unroll
    for (int c = 0; c < K_LOADS; ++c)
#pragma unroll
      for (int i = 0; i < K_N / 4; ++i) {
        const KV *x = k[0][c].at + 4 * i, *y = k[1][c].at + 4 * i;
        const unsigned rows[4] = {pair(x[0], x[1]), pair(y[0], y[1]), pair(x[2], x[3]), pair(y[2], y[3])};
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) mma_m16n8k16(score[tile], rows, q[tile][c][i], T());
      }

    unsigned p[TILES][2];
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      float factor[2];
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        float largest = m[tile][head];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = score[tile][j * 2 + head];
          s = start + j * 8 + g < span.end ? s * scale : NO_SCORE;
          largest = fmaxf(largest, s);
        }
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2)
          largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
        factor[head] = __expf(m[tile][head] - largest);
        m[tile][head] = largest;
        l[tile][head] *= factor[head];
#pragma unroll
        for (int j = 0; j < 2; ++j) {  // there is a token, so `largest` is a score, and exp(NO_SCORE - largest) is 0
          float& s = score[tile][j * 2 + head];
          s = __expf(s - largest);
          l[tile][head] += s;
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) p[tile][j] = transpose_8x8(pair_of_floats<T>(score[tile][j * 2], score[tile][j * 2 + 1]));
#pragma unroll
      for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
        for (int i = 0; i < V_N / 2; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) o[tile][c][i][e] *= factor[e % 2];
    }
#pragma unroll
    for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
      for (int i = 0; i < V_N; i += 2) {
        const unsigned rows[4] = {pair(v[0][c].at[i], v[1][c].at[i]), pair(v[0][c].at[i + 1], v[1][c].at[i + 1]),
                                  pair(v[2][c].at[i], v[3][c].at[i]), pair(v[2][c].at[i + 1], v[3][c].at[i + 1])};
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) mma_m16n8k16(o[tile][c][i / 2], rows, p[tile], T());
      }
  }

  SHARED_MEMORY(memory);
  const Shared<HEADS, D> shared(memory);
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
    for (int head = 0; head < 2; ++head) {
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2)
        l[tile][head] += __shfl_xor_sync(ALL_LANES, l[tile][head], distance);
      if (g == 0) {
        shared.maxima[warp * HEADS + tile * 8 + 2 * t + head] = m[tile][head];
        shared.sums[warp * HEADS + tile * 8 + 2 * t + head] = l[tile][head];
      }
    }
  finish(a, shared, heads, span, v_scale, [&](auto add) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
      for (int c = 0; c < V_LOADS; ++c)
#pragma unroll
        for (int i = 0; i < V_N / 2; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            add(tile * 8 + 2 * t + e % 2, (c * 8 + g) * V_N + 2 * i + e / 2, o[tile][c][i][e]);
  });
}
