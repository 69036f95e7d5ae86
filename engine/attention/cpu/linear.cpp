// x W^T + b, fp32 and bf16, for weights as PyTorch stores them: rows of inputs, nothing packed, nothing copied.
//
// Everything is counted in *words* of 32 bits along the inputs: one float, or two bf16 whose products one instruction adds. Two
// forms of the product:
//
//   few rows    the weights go by once, in the order in which they lie in memory; the lanes run along the inputs, and each
//               output is a sum over lanes. Bound by memory up to some eight rows.
//   many rows   64 rows of x are turned round so that the lanes run along the rows; a word of W is broadcast. No sum over
//               lanes, and W is read from a cache 64 rows at a time. Bound by arithmetic.
#include <algorithm>
#include <vector>

#include "vectors.h"

using namespace vectors;

namespace {

constexpr int ROWS_IN_LANES = 4 * LANES;  // rows of x in one pass of the second form
constexpr int PANEL = 3 * LANES;          // outputs in one piece of work, a multiple of TILE_ROWS and of LANES
constexpr int LINE = 64 / 4;              // words of a cache line

struct Float32 {
    using Element = float;
    static constexpr int PER_WORD = 1;
    static INLINE void multiply_add(Floats& sum, Floats x, Floats w) { sum += x * w; }
};

struct Bfloat16 {
    using Element = Bf16;
    static constexpr int PER_WORD = 2;
    static INLINE void multiply_add(Floats& sum, Floats x, Floats w) {
#if defined(__AVX512BF16__)
        sum = (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)w);
#else
        const Ints high = Ints{} + int32_t(0xffff0000);
        sum += (Floats)((Ints)x << 16) * (Floats)((Ints)w << 16);
        sum += (Floats)((Ints)x & high) * (Floats)((Ints)w & high);
#endif
    }
};

template <class Element>
struct Product {
    const float* x;  // words [rows, x_stride]
    const float* w;  // words [outputs, inputs]
    const Element* bias;  // [outputs] or null
    Element* out;         // [rows, outputs]
    int64_t rows, outputs, inputs, x_stride;  // inputs in words
    int threads;
};

template <class Element>
INLINE float as_float(Element e) {
    return load_part(&e, 1)[0];
}

// ---- few rows ---------------------------------------------------------------------------------------------------------

// ROWS rows of x by COLUMNS rows of W. While it runs, the lines from `ahead` on are fetched, AHEAD of them a step.
template <class Type, int ROWS, int COLUMNS, int AHEAD>
INLINE void dot_tile(const Product<typename Type::Element>& p, int64_t row, int64_t column, const float* ahead) {
    constexpr int SUMS = (ROWS * COLUMNS + 3) / 4 * 4;
    const float *x = p.x + row * p.x_stride, *w = p.w + column * p.inputs;
    Floats sums[SUMS] = {};
    const int64_t whole = p.inputs / LANES * LANES;
    const int rest = int(p.inputs - whole);
    for (int64_t k = 0; k < whole; k += LANES) {
#pragma GCC unroll 8
        for (int j = 0; j < AHEAD; j++, ahead += LINE) __builtin_prefetch(ahead);
        Floats xs[ROWS];
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) xs[i] = load(x + i * p.x_stride + k);
#pragma GCC unroll 8
        for (int j = 0; j < COLUMNS; j++) {
            const Floats ws = load(w + j * p.inputs + k);
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) Type::multiply_add(sums[j * ROWS + i], xs[i], ws);
        }
    }
    if (rest)
        for (int j = 0; j < COLUMNS; j++)
            for (int i = 0; i < ROWS; i++)
                Type::multiply_add(sums[j * ROWS + i], load_part(x + i * p.x_stride + whole, rest),
                                   load_part(w + j * p.inputs + whole, rest));
    float totals[SUMS];
#pragma GCC unroll 8
    for (int s = 0; s < SUMS; s += 4) sums_of_four(totals + s, sums[s], sums[s + 1], sums[s + 2], sums[s + 3]);
    for (int j = 0; j < COLUMNS; j++) {
        const float bias = p.bias ? as_float(p.bias[column + j]) : 0.0f;
        for (int i = 0; i < ROWS; i++)
            store_part(p.out + (row + i) * p.outputs + column + j, broadcast(totals[j * ROWS + i] + bias), 1);
    }
}

// The outputs column .. column + COLUMNS - 1 of `rows` rows from `row` on, in tiles of four.
template <class Type, int COLUMNS>
INLINE void dot_rows(const Product<typename Type::Element>& p, int64_t row, int64_t end, int64_t column) {
    const float* ahead = p.w + (column + COLUMNS) * p.inputs;
    const int64_t tiles = (end - row + 3) / 4;
    constexpr int SHARE = (COLUMNS + 1) / 2;
    for (; row + 4 <= end; row += 4) {
        if (tiles == 1) dot_tile<Type, 4, COLUMNS, COLUMNS>(p, row, column, ahead);
        else dot_tile<Type, 4, COLUMNS, SHARE>(p, row, column, ahead);
        ahead += SHARE * p.inputs;
    }
    if (end - row == 3) dot_tile<Type, 3, COLUMNS, COLUMNS>(p, row, column, ahead);
    if (end - row == 2) dot_tile<Type, 2, COLUMNS, COLUMNS>(p, row, column, ahead);
    if (end - row == 1) dot_tile<Type, 1, COLUMNS, COLUMNS>(p, row, column, ahead);
}

template <class Type>
void few_rows(const Product<typename Type::Element>& p, int64_t row, int64_t end) {
    const int64_t panels = (p.outputs + PANEL - 1) / PANEL;
    const int columns = end - row <= 4 ? 2 : TILE_ROWS;
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) {
        int64_t column = panel * PANEL;
        const int64_t stop = std::min(p.outputs, column + PANEL);
        if (columns == 2)
            for (; column + 2 <= stop; column += 2) dot_rows<Type, 2>(p, row, end, column);
        else
            for (; column + TILE_ROWS <= stop; column += TILE_ROWS) dot_rows<Type, TILE_ROWS>(p, row, end, column);
        for (; column < stop; column++) dot_rows<Type, 1>(p, row, end, column);
    }
}

// ---- many rows --------------------------------------------------------------------------------------------------------

// Words [inputs][ROWS_IN_LANES] of the rows row .. row + count - 1; zeros for the lanes without a row.
template <class Element>
void turn(const Product<Element>& p, int64_t row, int64_t count, float* turned) {
    const int64_t groups = (p.inputs + LANES - 1) / LANES;
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
    for (int64_t group = 0; group < groups; group++) {
        const int64_t k = group * LANES;
        const int width = int(std::min<int64_t>(LANES, p.inputs - k));
        for (int first = 0; first < ROWS_IN_LANES; first += LANES) {
            Floats square[LANES];
            for (int i = 0; i < LANES; i++) {
                const float* from = p.x + (row + first + i) * p.x_stride + k;
                square[i] = first + i >= count ? Floats{} : width == LANES ? load(from) : load_part(from, width);
            }
            transpose(square);
            for (int i = 0; i < width; i++) store(turned + (k + i) * ROWS_IN_LANES + first, square[i]);
        }
    }
}

// COLUMNS outputs of VECTORS * LANES rows into sums [COLUMNS][ROWS_IN_LANES].
template <class Type, int COLUMNS, int VECTORS>
INLINE void lane_tile(const float* turned, const float* w, int64_t inputs, float* sums) {
    Floats s[COLUMNS][VECTORS] = {};
    for (int64_t k = 0; k < inputs; k++) {
        if (k % LINE == 0)
#pragma GCC unroll 8
            for (int j = 0; j < COLUMNS; j++) __builtin_prefetch(w + (COLUMNS + j) * inputs + k);
        Floats xs[VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < VECTORS; i++) xs[i] = load(turned + k * ROWS_IN_LANES + i * LANES);
#pragma GCC unroll 8
        for (int j = 0; j < COLUMNS; j++) {
            const Floats word = broadcast(w[j * inputs + k]);
#pragma GCC unroll 4
            for (int i = 0; i < VECTORS; i++) Type::multiply_add(s[j][i], xs[i], word);
        }
    }
    for (int j = 0; j < COLUMNS; j++)
        for (int i = 0; i < VECTORS; i++) store(sums + j * ROWS_IN_LANES + i * LANES, s[j][i]);
}

template <class Type, int COLUMNS>
INLINE void lane_tiles(const float* turned, const float* w, int64_t inputs, int64_t count, float* sums) {
    for (int64_t lane = 0; lane < count; lane += TILE_COLUMNS * LANES)
        lane_tile<Type, COLUMNS, TILE_COLUMNS>(turned + lane, w, inputs, sums + lane);
}

// Sums [outputs of a panel][ROWS_IN_LANES] back to rows of outputs.
template <class Element>
void turn_back(const Product<Element>& p, int64_t row, int64_t count, int64_t column, int64_t width, const float* sums) {
    for (int64_t first = 0; first < width; first += LANES) {
        const int columns = int(std::min<int64_t>(LANES, width - first));
        const Element* from = p.bias ? p.bias + column + first : nullptr;
        const Floats bias = from ? (columns == LANES ? load(from) : load_part(from, columns)) : Floats{};
        for (int64_t lane = 0; lane < count; lane += LANES) {
            Floats square[LANES];
            for (int j = 0; j < LANES; j++) square[j] = load(sums + (first + j) * ROWS_IN_LANES + lane);
            transpose(square);
            const int rows = int(std::min<int64_t>(LANES, count - lane));
            for (int i = 0; i < rows; i++) {
                Element* to = p.out + (row + lane + i) * p.outputs + column + first;
                if (columns == LANES) store(to, square[i] + bias);
                else store_part(to, square[i] + bias, columns);
            }
        }
    }
}

template <class Type>
void many_rows(const Product<typename Type::Element>& p, int64_t row, int64_t count, float* turned) {
    turn(p, row, count, turned);
    const int64_t panels = (p.outputs + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) {
        alignas(64) float sums[PANEL * ROWS_IN_LANES];
        const int64_t column = panel * PANEL, width = std::min<int64_t>(PANEL, p.outputs - column);
        const float* w = p.w + column * p.inputs;
        int64_t j = 0;
        for (; j + TILE_ROWS <= width; j += TILE_ROWS)
            lane_tiles<Type, TILE_ROWS>(turned, w + j * p.inputs, p.inputs, count, sums + j * ROWS_IN_LANES);
        for (; j < width; j++) lane_tiles<Type, 1>(turned, w + j * p.inputs, p.inputs, count, sums + j * ROWS_IN_LANES);
        std::fill(sums + width * ROWS_IN_LANES, sums + PANEL * ROWS_IN_LANES, 0.0f);
        turn_back(p, row, count, column, width, sums);
    }
}

template <class Type>
void linear(const Product<typename Type::Element>& p, int64_t few) {
    thread_local std::vector<Floats> turned;  // kept between calls
    int64_t row = 0;
    for (; p.rows - row > few; row += ROWS_IN_LANES) {
        turned.resize(p.inputs * (ROWS_IN_LANES / LANES));
        many_rows<Type>(p, row, std::min<int64_t>(ROWS_IN_LANES, p.rows - row), (float*)turned.data());
    }
    if (row < p.rows) few_rows<Type>(p, row, p.rows);
}

}  // namespace

// x [rows, inputs] of `x_stride` elements a row, w [outputs, inputs], bias [outputs] or null, out [rows, outputs]; all of
// one type: fp32 or, for even `inputs` and `x_stride`, bf16.
extern "C" void twin_linear_f32(const void* x, const void* w, const void* bias, void* out, int64_t rows, int64_t outputs,
                                int64_t inputs, int64_t x_stride, int threads) {
    linear<Float32>({(const float*)x, (const float*)w, (const float*)bias, (float*)out, rows, outputs, inputs, x_stride,
                     threads}, 24);
}

extern "C" void twin_linear_bf16(const void* x, const void* w, const void* bias, void* out, int64_t rows, int64_t outputs,
                                 int64_t inputs, int64_t x_stride, int threads) {
    linear<Bfloat16>({(const float*)x, (const float*)w, (const Bf16*)bias, (Bf16*)out, rows, outputs, inputs / 2,
                      x_stride / 2, threads}, 24);
}
