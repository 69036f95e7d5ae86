// Paged attention on the CPU: writing K and V into their slots, and softmax(Q K^T) V over block tables.
//
// The layout is that of engine/attention/base.py. A task is some rows of one sequence and one KV head with its whole group of
// query heads (GQA). It walks the sequence in chunks of 64 positions, always counted from position 0, and keeps the softmax
// of each query running (Milakov and Gimelshein 2018): what comes out for a row does not depend on the rows computed beside
// it, so a prompt gives the same bits whole, in chunks, and token by token.
//
// In a chunk K is turned round, so that lanes run along positions: Q K^T then needs no sum over lanes, and the softmax works
// on sixteen positions at once. In P V lanes run along the head's dimensions. Both are the same product of a tile.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "vectors.h"

using namespace vectors;

namespace {

constexpr int CHUNK = 64;         // positions
constexpr int TASK_QUERIES = 64;  // rows times group of a task, about
constexpr float INFINITE = std::numeric_limits<float>::infinity();

// ---- write ------------------------------------------------------------------------------------------------------------

template <class From, class To>
INLINE void copy_row(const From* from, To* to, int dim, float scale) {
    constexpr bool scaled = sizeof(To) == 1;
    for (int d = 0; d < dim; d += LANES) {
        const Floats v = load_row(from, d, dim);
        store_row(to, d, dim, scaled ? v / scale : v);
    }
}

// ---- attend -----------------------------------------------------------------------------------------------------------

struct Task {
    int sequence, kv_head, first_row, last_row;  // rows of the sequence, the last one excluded
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
    int last_position(const Task& task) const { return before(task.sequence) + task.last_row - 1; }
    int before(int sequence) const { return contexts[sequence] - (starts[sequence + 1] - starts[sequence]); }
};

// Working memory of a thread: matrices whose rows are padded to whole vectors.
struct Scratch {
    std::vector<Floats> memory;
    float *queries, *sums;             // [queries][width]
    float *keys, *values;              // [width][CHUNK], [CHUNK][width]
    float* scores;                     // [queries][CHUNK]
    float *maxima, *totals, *factors;  // [queries]

    void resize(int queries_count, int width) {
        const int64_t padded = (queries_count + LANES - 1) / LANES * LANES;
        const int64_t sizes[] = {padded * width, padded * width, int64_t(width) * CHUNK, int64_t(width) * CHUNK,
                                 padded * CHUNK, padded, padded, padded};
        float** const parts[] = {&queries, &sums, &keys, &values, &scores, &maxima, &totals, &factors};
        int64_t total = 0;
        for (int64_t size : sizes) total += size;
        if (int64_t(memory.size()) * LANES < total) memory.resize(total / LANES);
        float* next = (float*)memory.data();
        for (int i = 0; i < 8; i++, next += sizes[i - 1]) *parts[i] = next;
    }
};

// out[r] = out[r] * factors[r] + a[r] B, or a[r] B without factors: ROWS rows, VECTORS vectors of columns.
template <int ROWS, int VECTORS>
INLINE void product_tile(const float* a, int a_stride, const float* b, int b_stride, int depth, float* out, int out_stride,
                         const float* factors) {
    Floats sums[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++)
            sums[r][c] = factors ? load(out + r * out_stride + c * LANES) * factors[r] : Floats{};
    for (int k = 0; k < depth; k++) {
        Floats columns[VECTORS];
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++) columns[c] = load(b + k * b_stride + c * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats factor = broadcast(a[r * a_stride + k]);
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++) sums[r][c] += factor * columns[c];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++) store(out + r * out_stride + c * LANES, sums[r][c]);
}

template <int VECTORS>
INLINE void product_rows(int rows, const float* a, int a_stride, const float* b, int b_stride, int depth, float* out,
                         int out_stride, const float* factors) {
    int r = 0;
#define TILE(ROWS)                                                                                               \
    product_tile<ROWS, VECTORS>(a + r * a_stride, a_stride, b, b_stride, depth, out + r * out_stride, out_stride, \
                                factors ? factors + r : nullptr)
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS) TILE(TILE_ROWS);
    if (rows - r == 5) TILE(5);
    if (rows - r == 4) TILE(4);
    if (rows - r == 3) TILE(3);
    if (rows - r == 2) TILE(2);
    if (rows - r == 1) TILE(1);
#undef TILE
}

// The whole product; `columns` is a number of vectors.
void product(int rows, int columns, const float* a, int a_stride, const float* b, int b_stride, int depth, float* out,
             int out_stride, const float* factors) {
    int c = 0;
#define STRIPE(VECTORS) \
    product_rows<VECTORS>(rows, a, a_stride, b + c * LANES, b_stride, depth, out + c * LANES, out_stride, factors)
    for (; c + TILE_COLUMNS <= columns; c += TILE_COLUMNS) STRIPE(TILE_COLUMNS);
    if (columns - c == 3) STRIPE(3);
    if (columns - c == 2) STRIPE(2);
    if (columns - c == 1) STRIPE(1);
#undef STRIPE
}

// Where the rows of K and V of a chunk lie: `count` of them, and behind these some address that may be fetched.
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
                at = ((int64_t(table[block]) * step.block_size + slot) * step.kv_heads + task.kv_head) * step.dim;
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
    const int queries = (task.last_row - task.first_row) * group;
    Rows<Cache> rows = {}, next = {};  // of the chunk, and of what comes after, which is fetched meanwhile

    void run() {
        scratch.resize(queries, width);
        with_float_type(step.q_type, [&](auto* type) { read_queries(type); });
        std::fill_n(scratch.sums, queries * width, 0.0f);
        std::fill_n(scratch.totals, queries, 0.0f);
        std::fill_n(scratch.maxima, queries, -INFINITE);
        next.find(step, task, 0);
        for (int chunk = 0; chunk <= last_position; chunk += CHUNK) {
            rows = next;
            if (chunk + CHUNK <= last_position) next.find(step, task, chunk + CHUNK);
            else next.find(step, next_task, 0);
            const int before = std::max(0, chunk - first_position) * group;  // queries that stand before the chunk
            score(before);
            softmax(chunk, before, (rows.count + LANES - 1) / LANES);
            add_values(before);
        }
        with_float_type(step.q_type, [&](auto* type) { write_result(type); });
    }

    int64_t token(int query) const { return step.starts[task.sequence] + task.first_row + query / group; }
    int head(int query) const { return task.kv_head * group + query % group; }

    // As fp32 [queries][width]; what scores are multiplied with is put in here, for exp2 too.
    template <class Query>
    void read_queries(Query*) {
        const float factor = step.scale * LOG2_E * (sizeof(Cache) == 1 ? step.k_scale[task.kv_head] : 1.0f);
        for (int i = 0; i < queries; i++) {
            const Query* row = (const Query*)step.q + token(i) * step.q_token_stride + head(i) * step.q_head_stride;
            for (int d = 0; d < dim; d += LANES) store(scratch.queries + i * width + d, load_row(row, d, dim) * factor);
        }
    }

    // Sixteen positions from `first` on by sixteen dimensions from `d` on, turned: square[i] is dimension d + i.
    INLINE void read_square(int first, int d, Floats (&square)[LANES]) const {
        if (first + LANES <= rows.count && d + LANES <= dim) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) square[i] = load(rows.keys[first + i] + d);
        } else {
            for (int i = 0; i < LANES; i++)
                square[i] = first + i < rows.count ? load_row(rows.keys[first + i], d, dim) : Floats{};
        }
        for (int i = 0; i < LANES; i++) fetch(next.keys[first + i], d);
        transpose(square);
    }

    // Scores of QUERIES queries, so few that what is turned need not be kept for them.
    template <int QUERIES>
    void score_few() {
        const float* const q = scratch.queries;
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
        product(queries - before, (rows.count + LANES - 1) / LANES, scratch.queries + before * width, width, keys, CHUNK,
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
        for (int i = 0; i < rows.count; i++, to += width)
            for (int d = 0; d < dim; d += LANES) {
                store(to + d, load_row(rows.values[i], d, dim));
                fetch(next.values[i], d);
            }
        product(queries - before, width / LANES, scratch.scores + before * CHUNK, CHUNK, scratch.values, width, rows.count,
                scratch.sums + before * width, width, scratch.factors + before);
    }

    // Scores of the chunk become probabilities under the new maximum; `factors` is what older sums are multiplied with.
    void softmax(int chunk, int before, int vectors) {
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
            const float maximum = std::max(scratch.maxima[i], largest(top));
            scratch.factors[i] = scratch.maxima[i] - maximum;
            scratch.maxima[i] = maximum;
        }
        for (int i = before; i < queries; i += LANES) {
            const int count = std::min(LANES, queries - i);
            store_part(scratch.factors + i, exp2(load_part(scratch.factors + i, count)), count);
        }
        for (int i = before; i < queries; i++) {
            float* scores = scratch.scores + i * CHUNK;
            Floats total = {};
            for (int c = 0; c < vectors; c++) {
                const Floats p = exp2(load(scores + c * LANES) - scratch.maxima[i]);
                store(scores + c * LANES, p);
                total += p;
            }
            scratch.totals[i] = scratch.totals[i] * scratch.factors[i] + sum(total);
        }
    }

    template <class Query>
    void write_result(Query*) {
        const float v_scale = sizeof(Cache) == 1 ? step.v_scale[task.kv_head] : 1.0f;
        for (int i = 0; i < queries; i++) {
            Query* row = (Query*)step.out + (token(i) * step.heads + head(i)) * dim;
            const float factor = v_scale / scratch.totals[i];
            for (int d = 0; d < dim; d += LANES) store_row(row, d, dim, load(scratch.sums + i * width + d) * factor);
        }
    }
};

}  // namespace

// K and V [tokens] of given strides, in elements, into slots [tokens] of caches [slots, kv_heads, dim].
extern "C" void twin_write(const void* k, const void* v, void* k_cache, void* v_cache, const int64_t* slots,
                           const float* k_scale, const float* v_scale, int64_t tokens, int64_t k_token_stride,
                           int64_t k_head_stride, int64_t v_token_stride, int64_t v_head_stride, int kv_heads, int dim,
                           int type, int cache_type) {
    with_float_type(type, [&](auto* from) {
        with_cache_type(cache_type, [&](auto* to) {
            using From = std::remove_pointer_t<decltype(from)>;
            using To = std::remove_pointer_t<decltype(to)>;
            for (int64_t token = 0; token < tokens; token++) {
                if (slots[token] < 0) continue;
                for (int head = 0; head < kv_heads; head++) {
                    const int64_t at = (slots[token] * kv_heads + head) * dim;
                    copy_row((const From*)k + token * k_token_stride + head * k_head_stride, (To*)k_cache + at, dim,
                             k_scale[head]);
                    copy_row((const From*)v + token * v_token_stride + head * v_head_stride, (To*)v_cache + at, dim,
                             v_scale[head]);
                }
            }
        });
    });
}

extern "C" void twin_attend(const void* q, void* out, const void* k_cache, const void* v_cache, const int32_t* starts,
                            const int32_t* contexts, const int32_t* tables, const float* k_scale, const float* v_scale,
                            int64_t table_width, int64_t q_token_stride, int64_t q_head_stride, int sequences, int heads,
                            int kv_heads, int dim, int block_size, int q_type, int cache_type, float scale, int threads) {
    const Step step = {q, k_cache, v_cache, out, starts, contexts, tables, k_scale, v_scale, table_width, q_token_stride,
                       q_head_stride, heads, kv_heads, dim, block_size, q_type, scale};
    const int task_rows = std::max(1, TASK_QUERIES / (heads / kv_heads));
    std::vector<Task> tasks;
    for (int i = 0; i < sequences; i++) {
        const int rows = starts[i + 1] - starts[i];
        if (contexts[i] == 0) {  // padding
            const int64_t row_bytes = int64_t(heads) * dim * (q_type == FP32 ? 4 : 2);
            std::memset((char*)out + starts[i] * row_bytes, 0, rows * row_bytes);
            continue;
        }
        for (int row = 0; row < rows; row += task_rows)
            for (int head = 0; head < kv_heads; head++) tasks.push_back({i, head, row, std::min(rows, row + task_rows)});
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
