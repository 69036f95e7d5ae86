// What both decode kernels share: arguments, the share of a block in a context, and how partial results come together.
//
// One thread block computes the attention of up to HEADS query heads of one KV head of one sequence over one span of its
// context. Each of its warps goes through tiles of tokens of its own with a running softmax
//     m = max of scores, l = sum of exp(score - m), o = sum of exp(score - m) V
// (Milakov and Gimelshein 2018; Dao et al. 2022). States of parts are merged by rescaling to the larger m: warps of a block
// in shared memory, spans of a context in a kernel of its own ("split KV", Dao et al., Flash-Decoding, 2023).
#pragma once

#include "numbers.cuh"

// Shared with library.py, field by field.
struct DecodeArguments {
  const void* q;            // activations [sequences, heads, dim], rows of a sequence q_stride elements apart
  const void* k_cache;      // [slots, kv_heads, dim]
  const void* v_cache;      // likewise
  const int* block_tables;  // [sequences, table_stride]
  const int* context_lens;  // [sequences]; 0: a row of padding
  const float* k_scale;     // [kv_heads], for an fp8 cache
  const float* v_scale;
  void* out;                // activations [sequences, heads, dim]
  float* partial;           // [sequences, heads, splits, dim + 2]: o, m, l of a span; unused when splits is 1
  void* stream;
  long long q_stride;
  float scale;              // of the scores
  int dtype;                // of q and out
  int sequences;
  int kv_heads;
  int group;                // query heads a KV head
  int block_shift;          // log2 of the tokens a block
  int table_stride;
  int splits;               // spans that a context is cut into at most
};

constexpr int WARPS = 4, THREADS = WARPS * 32, SPAN_UNIT = WARPS * 16;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr float NO_SCORE = -1e30f;  // below every score, and finite: exp(NO_SCORE - NO_SCORE) is no NaN

// Tokens begin .. end - 1 of a context are the share of one split. Spans are all alike but the last; `count` are not empty.
struct Span { int begin, end, count; };

__device__ __forceinline__ Span span_of(int context, int splits, int split) {
  const int units = (context + SPAN_UNIT - 1) / SPAN_UNIT;
  const int length = (units + splits - 1) / splits * SPAN_UNIT;
  const int count = length ? (context + length - 1) / length : 0;
  return {min(split * length, context), min((split + 1) * length, context), count};
}

// Slot of the cache that holds token `t` of a span that ends at `end`; past the end, the slot of the last token. So kernels
// load without asking and leave out what they must not count: it is a token of the sequence's own, never a stranger's NaN.
__device__ __forceinline__ int slot_of(const int* table, int block_shift, int t, int end) {
  const int token = min(t, end - 1);
  return (__ldg(table + (token >> block_shift)) << block_shift) + (token & ((1 << block_shift) - 1));
}

// Shared memory of a block. The first three are [WARPS][HEADS].
template <int HEADS, int D>
struct Shared {
  float *maxima, *sums;  // m and l of each warp
  float* factors;        // exp(m - the largest m of the block)
  float* o;              // [HEADS][D], of the block
  static constexpr int BYTES = (3 * WARPS + D) * HEADS * int(sizeof(float));
  __device__ explicit Shared(float* memory)
      : maxima(memory), sums(memory + WARPS * HEADS), factors(memory + 2 * WARPS * HEADS), o(memory + 3 * WARPS * HEADS) {}
};

// Which query heads a block computes: `count` (at most HEADS) from `first` on, and the KV head they read.
struct Heads { int kv_head, first, count; };

template <int HEADS>
__device__ __forceinline__ Heads heads_of_block(const DecodeArguments& a) {
  const int tiles = (a.group + HEADS - 1) / HEADS, kv_head = blockIdx.x / tiles, start = blockIdx.x % tiles * HEADS;
  return {kv_head, kv_head * a.group + start, min(HEADS, a.group - start)};
}

// The states of the block's warps become one, and that the result, or the partial result of its span.
//
// Before: every warp has put its m and l into shared.maxima and shared.sums. `each(add)` calls add(head, dim, o) for the
// numbers o that the calling thread holds, head counted from the block's first; together a warp holds [HEADS][D] of them.
template <int HEADS, int D, class Each>
__device__ __forceinline__ void finish(const DecodeArguments& a, const Shared<HEADS, D>& shared, const Heads& heads,
                                       const Span& span, float v_scale, Each each) {
  const int thread = threadIdx.x, warp = thread / 32;
  __syncthreads();
  const auto largest = [&](int head) {
    float m = shared.maxima[head];
    for (int w = 1; w < WARPS; ++w) m = fmaxf(m, shared.maxima[w * HEADS + head]);
    return m;
  };
  if (thread < WARPS * HEADS) shared.factors[thread] = __expf(shared.maxima[thread] - largest(thread % HEADS));
  __syncthreads();
  for (int turn = 0; turn < WARPS; ++turn) {  // one warp after the other: the order of the sum is always the same
    if (warp == turn)
      each([&](int head, int dim, float o) {
        float& sum = shared.o[head * D + dim];
        sum = (turn ? sum : 0.f) + o * shared.factors[warp * HEADS + head];
      });
    __syncthreads();
  }
  for (int i = thread; i < heads.count * D; i += THREADS) {
    const int head = i / D, dim = i % D;
    float l = 0.f;
    for (int w = 0; w < WARPS; ++w) l += shared.sums[w * HEADS + head] * shared.factors[w * HEADS + head];
    const long long row = static_cast<long long>(blockIdx.y) * a.kv_heads * a.group + heads.first + head;
    const float o = shared.o[i] * v_scale;
    if (span.count <= 1) {
      store_activation(a.out, a.dtype, row * D + dim, l == 0.f ? 0.f : o / l);  // l is 0 for a row of padding alone
    } else {
      float* partial = a.partial + (row * a.splits + blockIdx.z) * (D + 2);
      partial[dim] = o;
      if (dim == 0) partial[D] = largest(head);
      if (dim == 1) partial[D + 1] = l;
    }
  }
}

// One number of a state, with what it needs to be merged with those of other parts.
struct State { float m, l, o; };

// Merges states [.., D + 2] (o, m, l, as in DecodeArguments.partial): first, first + step, ... before end.
template <int D>
__device__ __forceinline__ State merged(const float* states, int first, int end, int step, int dim) {
  State sum = {NO_SCORE, 0.f, 0.f};
#pragma unroll 8  // so many loads are on their way at once
  for (int s = first; s < end; s += step) sum.m = fmaxf(sum.m, states[s * (D + 2) + D]);
#pragma unroll 8
  for (int s = first; s < end; s += step) {
    const float factor = __expf(states[s * (D + 2) + D] - sum.m);
    sum.l += factor * states[s * (D + 2) + D + 1];
    sum.o += factor * states[s * (D + 2) + dim];
  }
  return sum;
}

// Merges the spans of a context: a block for each query head of each sequence, PARTS threads for each dim.
template <int D>
struct Merge {
  static constexpr int PARTS = D <= 128 ? 4 : 2, BYTES = PARTS * (D + 2) * int(sizeof(float));
};

template <int D>
__global__ void __launch_bounds__(Merge<D>::PARTS* D) merge_kernel(DecodeArguments a) {
  constexpr int PARTS = Merge<D>::PARTS;
  const int dim = threadIdx.x % D, part = threadIdx.x / D;
  const long long row = blockIdx.x;
  const int spans = span_of(a.context_lens[row / (a.kv_heads * a.group)], a.splits, 0).count;
  if (spans <= 1) return;  // its only block has written the result
  const State own = merged<D>(a.partial + row * a.splits * (D + 2), part, spans, PARTS, dim);
  SHARED_MEMORY(memory);
  float* state = memory + part * (D + 2);
  state[dim] = own.o;
  if (dim == 0) state[D] = own.m;
  if (dim == 1) state[D + 1] = own.l;
  __syncthreads();
  if (part > 0) return;
  const State all = merged<D>(memory, 0, PARTS, 1, dim);
  store_activation(a.out, a.dtype, row * D + dim, all.o / all.l);
}
