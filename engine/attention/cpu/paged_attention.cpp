// softmax(Q K^T) V over block tables: paged attention on the CPU.
//
// The layout is that of engine/attention/base.py. A task is some rows of one sequence and some KV heads, each with its whole
// group of query heads (GQA). It walks the sequence in chunks of 64 positions, always counted from position 0, and keeps the
// softmax of each query running (Milakov and Gimelshein 2018): what comes out for a row does not depend on the rows computed
// beside it, so a prompt gives the same bits whole, in chunks, and token by token.
//
// In a chunk K is turned round, so that lanes run along positions: Q K^T then needs no sum over lanes, and the softmax works
// on a register of positions at once. In P V lanes run along the head's dimensions. Both are the same product of a tile.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "product.h"
#include "vectors.h"

using namespace vectors;

namespace {

constexpr int CHUNK = 64;         // positions
constexpr int TASK_QUERIES = 64;  // rows times group of a task, about
constexpr float INFINITE = std::numeric_limits<float>::infinity();

struct Task {
    int sequence, first_row, end_row, first_head, end_head;  // rows of the sequence and KV heads, each without its end
};

struct Step {  // what all tasks of a call share
    const void *q, *k_cache, *v_cache;
    void* out;                              // [tokens, heads, dim], contiguous
    const int32_t *starts, *contexts, *tables;
    const float *k_scale, *v_scale;
    int64_t table_width, q_token_stride, q_head_stride;
    int heads, kv_heads, dim, block_size, q_type;
    float scale;

    int first_position(const Task& task) const { return before(task.sequence) + task.first_row; }
    int last_position(const Task& task) const { return before(task.sequence) + task.end_row - 1; }
    int before(int sequence) const { return contexts[sequence] - (starts[sequence + 1] - starts[sequence]); }
};

// Working memory of a thread: matrices whose rows are padded to whole vectors. What is of each KV head lies head by head.
struct Scratch {
    std::vector<Floats> memory;
    float *queries, *sums;    // [heads][queries][width]
    float *maxima, *totals;   // [heads][queries]
    float *keys, *values;     // [width][CHUNK], [CHUNK][width]
    float *scores, *factors;  // [queries][CHUNK], [queries]

    void resize(int64_t queries_count, int64_t heads, int64_t width) {
        const int64_t all = queries_count * heads, sizes[] = {all * width, all * width, all, all, width * CHUNK,
                                                              width * CHUNK, queries_count * CHUNK, queries_count};
        float** const parts[] = {&queries, &sums, &maxima, &totals, &keys, &values, &scores, &factors};
        int64_t vectors = 0;
        for (int64_t size : sizes) vectors += (size + LANES - 1) / LANES;
        if (int64_t(memory.size()) < vectors) memory.resize(vectors);
        Floats* next = memory.data();
        for (int i = 0; i < 8; i++) {
            *parts[i] = (float*)next;
            next += (sizes[i] + LANES - 1) / LANES;
        }
    }
};

// Where the rows of K and V of a chunk lie, at the first head of the task: `count` of them. Behind these stands some address
// that may be fetched.
template <class Cache>
struct Rows {
    const Cache *keys[CHUNK], *values[CHUNK];
    int count;

    void find(const Step& step, const Task& task, int chunk) {
        const int32_t* table = step.tables + task.sequence * step.table_width;
        count = std::min(CHUNK, step.last_position(task) + 1 - chunk);
        int block = chunk / step.block_size, slot = chunk % step.block_size;
        int64_t at = 0;
        for (int i = 0; i < CHUNK; i++) {
            if (i < count) {
                at = ((int64_t(table[block]) * step.block_size + slot) * step.kv_heads + task.first_head) * step.dim;
                if (++slot == step.block_size) block++, slot = 0;
            }
            keys[i] = (const Cache*)step.k_cache + at;
            values[i] = (const Cache*)step.v_cache + at;
        }
    }
};

// Fetches the line of an element that begins a line of its row.
template <class Cache>
INLINE void fetch(const Cache* row, int d) {
    if (d * sizeof(Cache) % 64 == 0) __builtin_prefetch(row + d, 0, 2);
}

template <class Cache>
struct Attention {
    const Step& step;
    const Task &task, &next_task;  // the next one is the same for the last
    Scratch& scratch;

    const int group = step.heads / step.kv_heads, dim = step.dim, width = (dim + LANES - 1) / LANES * LANES;
    const int first_position = step.first_position(task), last_position = step.last_position(task);
    const int queries = (task.end_row - task.first_row) * group;  // of each KV head
    int head = 0;                                                 // KV head, counted from the task's first
    Rows<Cache> rows = {}, next = {};  // of the chunk, and of what comes after, which is fetched meanwhile

    void run() {
        const int heads = task.end_head - task.first_head;
        scratch.resize(queries, heads, width);
        std::fill_n(scratch.sums, heads * queries * width, 0.0f);
        std::fill_n(scratch.totals, heads * queries, 0.0f);
        std::fill_n(scratch.maxima, heads * queries, -INFINITE);
        for (head = 0; head < heads; head++) with_float_type(step.q_type, [&](auto* type) { read_queries(type); });
        next.find(step, task, 0);
        for (int chunk = 0; chunk <= last_position; chunk += CHUNK) {
            rows = next;
            if (chunk + CHUNK <= last_position) next.find(step, task, chunk + CHUNK);
            else next.find(step, next_task, 0);
            const int before = std::max(0, chunk - first_position) * group;  // queries that stand before the chunk
            for (head = 0; head < heads; head++) {
                score(before);
                softmax(chunk, before, (rows.count + LANES - 1) / LANES);
                add_values(before);
            }
        }
        for (head = 0; head < heads; head++) with_float_type(step.q_type, [&](auto* type) { write_result(type); });
    }

    // Of the head in hand: where its queries and sums lie, its maxima and totals, and its part of a row of the cache.
    float* own_queries() const { return scratch.queries + head * queries * width; }
    float* own_sums() const { return scratch.sums + head * queries * width; }
    float* own_maxima() const { return scratch.maxima + head * queries; }
    float* own_totals() const { return scratch.totals + head * queries; }
    int kv_head() const { return task.first_head + head; }
    int64_t token(int query) const { return step.starts[task.sequence] + task.first_row + query / group; }
    int query_head(int query) const { return kv_head() * group + query % group; }

    // As fp32 [queries][width]; what scores are multiplied with is put in here, for exp2 too.
    template <class Query>
    void read_queries(Query*) {
        const float factor = step.scale * LOG2_E * (sizeof(Cache) == 1 ? step.k_scale[kv_head()] : 1.0f);
        float* to = own_queries();
        for (int i = 0; i < queries; i++, to += width) {
            const Query* row = (const Query*)step.q + token(i) * step.q_token_stride + query_head(i) * step.q_head_stride;
            for (int d = 0; d < dim; d += LANES) store(to + d, load_row(row, d, dim) * factor);
        }
    }

    // LANES positions from `first` on by LANES dimensions from `d` on, turned: square[i] is dimension d + i.
    INLINE void read_square(int first, int d, Floats (&square)[LANES]) const {
        const Cache* const* keys = rows.keys + first;
        const int part = head * dim;
        if (first + LANES <= rows.count && d + LANES <= dim) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) square[i] = load(keys[i] + part + d);
        } else {
            for (int i = 0; i < LANES; i++)
                square[i] = first + i < rows.count ? load_row(keys[i] + part, d, dim) : Floats{};
        }
        for (int i = 0; i < LANES; i++) fetch(next.keys[first + i] + part, d);
        transpose(square);
    }

    // Scores of QUERIES queries, so few that what is turned need not be kept for them.
    template <int QUERIES>
    void score_few() {
        const float* const q = own_queries();
        for (int first = 0; first < rows.count; first += LANES) {
            Floats sums[QUERIES] = {};
            for (int d = 0; d < dim; d += LANES) {
                Floats square[LANES];
                read_square(first, d, square);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++)
#pragma GCC unroll 8
                    for (int r = 0; r < QUERIES; r++) sums[r] += q[r * width + d + i] * square[i];
            }
            for (int r = 0; r < QUERIES; r++) store(scratch.scores + r * CHUNK + first, sums[r]);
        }
    }

    void score_many(int before) {
        float* const keys = scratch.keys;
        for (int first = 0; first < rows.count; first += LANES)
            for (int d = 0; d < dim; d += LANES) {
                Floats square[LANES];
                read_square(first, d, square);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) store(keys + (d + i) * CHUNK + first, square[i]);
            }
        product(queries - before, (rows.count + LANES - 1) / LANES, own_queries() + before * width, width, keys, CHUNK,
                width, scratch.scores + before * CHUNK, CHUNK, nullptr);
    }

    void score(int before) {
        switch (queries) {
            case 1: return score_few<1>();
            case 2: return score_few<2>();
            case 3: return score_few<3>();
            case 4: return score_few<4>();
            default: score_many(before);
        }
    }

    void add_values(int before) {
        float* to = scratch.values;
        const int length = dim, row_width = width, part = head * dim;  // what is stored might, for all g++ knows, be these
        for (int i = 0; i < rows.count; i++, to += row_width) {
            const Cache *row = rows.values[i] + part, *ahead = next.values[i] + part;
            int d = 0;
            for (; d + LANES <= length; d += LANES) {
                store(to + d, load(row + d));
                fetch(ahead, d);
            }
            if (d < length) store(to + d, load_part(row + d, length - d));
        }
        product(queries - before, width / LANES, scratch.scores + before * CHUNK, CHUNK, scratch.values, width, rows.count,
                own_sums() + before * width, width, scratch.factors + before);
    }

    // Scores of the chunk become probabilities under the new maximum; `factors` is what older sums are multiplied with.
    void softmax(int chunk, int before, int vectors) {
        float *maxima = own_maxima(), *totals = own_totals();
        for (int i = before; i < queries; i++) {
            float* scores = scratch.scores + i * CHUNK;
            const int visible = first_position + i / group + 1 - chunk;  // positions of this chunk that the query sees
            Floats top = broadcast(-INFINITE);
            for (int c = 0; c < vectors; c++) {
                Floats s = load(scores + c * LANES);
                if (visible < (c + 1) * LANES) {
                    s = lane_numbers() < visible - c * LANES ? s : broadcast(-INFINITE);
                    store(scores + c * LANES, s);
                }
                top = max(top, s);
            }
            const float maximum = std::max(maxima[i], largest(top));
            scratch.factors[i] = maxima[i] - maximum;
            maxima[i] = maximum;
        }
        for (int i = before; i < queries; i += LANES) {
            const int count = std::min(LANES, queries - i);
            store_part(scratch.factors + i, exp2(load_part(scratch.factors + i, count)), count);
        }
        for (int i = before; i < queries; i++) {
            float* scores = scratch.scores + i * CHUNK;
            Floats total = {};
            for (int c = 0; c < vectors; c++) {
                const Floats p = exp2(load(scores + c * LANES) - maxima[i]);
                store(scores + c * LANES, p);
                total += p;
            }
            totals[i] = totals[i] * scratch.factors[i] + sum(total);
        }
    }

    template <class Query>
    void write_result(Query*) {
        const float v_scale = sizeof(Cache) == 1 ? step.v_scale[kv_head()] : 1.0f;
        for (int i = 0; i < queries; i++) {
            Query* row = (Query*)step.out + (token(i) * step.heads + query_head(i)) * dim;
            const float factor = v_scale / own_totals()[i];
            for (int d = 0; d < dim; d += LANES) store_row(row, d, dim, load(own_sums() + i * width + d) * factor);
        }
    }
};

// A decode's task is all its heads, so that rows of the cache are read whole, unless threads would go without a sequence.
void add_tasks(const Step& step, int sequence, bool spread, std::vector<Task>& tasks) {
    const int group = step.heads / step.kv_heads, rows = step.starts[sequence + 1] - step.starts[sequence];
    const int task_rows = std::min(rows, std::max(1, TASK_QUERIES / group));
    const int task_heads = spread ? 1 : std::clamp(TASK_QUERIES / (task_rows * group), 1, step.kv_heads);
    for (int row = 0; row < rows; row += task_rows)
        for (int head = 0; head < step.kv_heads; head += task_heads)
            tasks.push_back({sequence, row, std::min(rows, row + task_rows), head,
                             std::min(step.kv_heads, head + task_heads)});
}

void zero_rows(const Step& step, int sequence) {
    const int64_t row_bytes = int64_t(step.heads) * step.dim * (step.q_type == FP32 ? 4 : 2);
    const int first = step.starts[sequence], rows = step.starts[sequence + 1] - first;
    std::memset((char*)step.out + first * row_bytes, 0, rows * row_bytes);
}

}  // namespace

// q [tokens, heads, dim] of given strides, in elements, to out, contiguous; the rest as AttentionBatch has it.
extern "C" void twin_attend(const void* q, void* out, const void* k_cache, const void* v_cache, const int32_t* starts,
                            const int32_t* contexts, const int32_t* tables, const float* k_scale, const float* v_scale,
                            int64_t table_width, int64_t q_token_stride, int64_t q_head_stride, int sequences, int heads,
                            int kv_heads, int dim, int block_size, int q_type, int cache_type, float scale, int threads) {
    const Step step = {q, k_cache, v_cache, out, starts, contexts, tables, k_scale, v_scale, table_width, q_token_stride,
                       q_head_stride, heads, kv_heads, dim, block_size, q_type, scale};
    std::vector<Task> tasks;
    for (int i = 0; i < sequences; i++) {
        if (contexts[i]) add_tasks(step, i, sequences < threads, tasks);
        else zero_rows(step, i);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        thread_local Scratch kept;  // between calls
        Scratch& scratch = kept;    // looked up once
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < tasks.size(); i++)
            with_cache_type(cache_type, [&](auto* cache) {
                using Cache = std::remove_pointer_t<decltype(cache)>;
                const Task& next = tasks[std::min(i + 1, tasks.size() - 1)];
                Attention<Cache>{step, tasks[i], next, scratch}.run();
            });
    }
}
