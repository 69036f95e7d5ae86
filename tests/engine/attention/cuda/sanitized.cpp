// Writes and decodes on buffers that end where they must, for AddressSanitizer and UndefinedBehaviorSanitizer to watch.
//
// All values of a sequence and KV head are alike, so the result is that value whatever the scores: weights sum to 1.
// Built with the same -D flags as the source that it includes; prints "right" and returns 0, or says what is wrong.

#include "paged_decode.cu"

#include <cstdio>
#include <limits>

namespace {

constexpr int BLOCK_SIZE = 16, KV_HEADS = 2, MOST_BLOCKS = 10;
const std::vector<int> CONTEXTS = {1, 0, 16, 33, 150, 160};  // the last one fills its row of the table
const int SEQUENCES = CONTEXTS.size();

float value_of(int sequence, int kv_head) { return 1.f + sequence + kv_head * 0.5f; }

int fail(const char* what, int error) {
  std::printf("%s: %s\n", what, error_text(error));
  return 1;
}

template <class T>
int check(int dtype, int group, int splits) {
  std::vector<int> tables(SEQUENCES * MOST_BLOCKS, -1);
  std::vector<long long> slots = {-1};  // the first row is not to be written
  std::vector<float> values = {0.f, 0.f};
  int blocks = 0;
  for (int s = 0; s < SEQUENCES; ++s)
    for (int t = 0; t < CONTEXTS[s]; ++t) {
      int& block = tables[s * MOST_BLOCKS + t / BLOCK_SIZE];
      if (block < 0) block = blocks++;
      slots.push_back(static_cast<long long>(block) * BLOCK_SIZE + t % BLOCK_SIZE);
      for (int h = 0; h < KV_HEADS; ++h) values.push_back(value_of(s, h));
    }
  const int tokens = slots.size(), row = KV_HEADS * HEAD_DIM;
  std::vector<T> k(tokens * row), v(tokens * row), q(SEQUENCES * group * row), out(q.size());
  for (int i = 0; i < tokens * row; ++i) {
    convert(i % 7 * 0.25f - 0.75f, k[i]);
    convert(values[i / HEAD_DIM], v[i]);
  }
  for (size_t i = 0; i < q.size(); ++i) convert(i % 5 * 0.5f - 1.f, q[i]);
  Cache poison;
  convert(std::numeric_limits<float>::quiet_NaN(), poison);
  std::vector<Cache> k_cache(blocks * BLOCK_SIZE * row, poison), v_cache = k_cache;
  const std::vector<float> k_scale(KV_HEADS, 0.5f), v_scale(KV_HEADS, 0.25f);
  std::vector<float> partial(SEQUENCES * KV_HEADS * group * splits * (HEAD_DIM + 2));

  WriteArguments w = {};
  w.k = k.data(), w.v = v.data(), w.k_cache = k_cache.data(), w.v_cache = v_cache.data(), w.slots = slots.data();
  w.k_scale = k_scale.data(), w.v_scale = v_scale.data(), w.k_stride = w.v_stride = row;
  w.dtype = dtype, w.tokens = tokens, w.kv_heads = KV_HEADS;
  if (const int error = write_kv(&w)) return fail("write_kv", error);

  DecodeArguments d = {};
  d.q = q.data(), d.k_cache = k_cache.data(), d.v_cache = v_cache.data(), d.block_tables = tables.data();
  d.context_lens = CONTEXTS.data(), d.k_scale = k_scale.data(), d.v_scale = v_scale.data(), d.out = out.data();
  d.partial = partial.data(), d.q_stride = group * row, d.scale = 0.125f, d.dtype = dtype, d.sequences = SEQUENCES;
  d.kv_heads = KV_HEADS, d.group = group, d.block_shift = 4, d.table_stride = MOST_BLOCKS, d.splits = splits;
  if (const int error = paged_decode(&d)) return fail("paged_decode", error);

  for (size_t i = 0; i < out.size(); ++i) {
    const int head = i / HEAD_DIM % (KV_HEADS * group), sequence = i / HEAD_DIM / (KV_HEADS * group);
    const float expected = CONTEXTS[sequence] ? value_of(sequence, head / group) : 0.f;
    if (!(std::fabs(to_float(out[i]) - expected) <= 0.01f)) {
      std::printf("group %d, splits %d: %g at %zu, not %g\n", group, splits, to_float(out[i]), i, expected);
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main() {
  for (const auto& [group, splits] : {std::pair{1, 1}, {1, 3}, {3, 1}, {11, 3}})
    if (check<Half>(FP16, group, splits) || check<float>(FP32, group, splits)) return 1;
  std::puts("right");
}
