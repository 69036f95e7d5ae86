// x W^T + b in fp32 and bf16, for any number of rows, with W packed once so that a product reads it in order.
//
// Everything is counted in *words* of 32 bits along the inputs: one float, or two bf16 whose products are added to one sum.
// W [outputs, inputs] is cut into panels of 48 outputs, and each is laid out word by word:
//
//     packed [panel][word of the inputs][48 outputs], the last panel filled up with zeros
//
// so that the lanes run along outputs: a word of x is multiplied with many outputs at once, nothing is summed over lanes, and
// the result lies in memory as it comes. Rows of x go over a panel together, as many as their sums have registers for, and
// are laid out word by word too. With few rows all waits for W to come from memory once; with many W lies in a cache, and the
// products are the bound.
//
// Each output is one sum in the order of its inputs, whatever the other rows: a row's result is the same to the bit in any
// batch.
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "vectors.h"

using namespace vectors;

namespace {

constexpr int PANEL = 48;
constexpr int VECTORS = PANEL / LANES;  // of a panel
constexpr int LINE_WORDS = 16;          // of a cache line
constexpr int64_t HUGE_PAGE = 1 << 21;  // bytes
#if defined(__AVX512F__)
constexpr int ROWS_TOGETHER = 8;  // 24 registers of sums, 3 of W, 1 of x
#else
constexpr int ROWS_TOGETHER = 6;  // 12 registers of sums, 2 of W, 1 of x
#endif

// How many vectors of outputs go together with so many rows.
constexpr int columns_with(int rows) {
#if defined(__AVX512F__)
    return VECTORS;
#else
    return rows <= 2 ? VECTORS : rows == 3 ? VECTORS / 2 : VECTORS / 3;
#endif
}

INLINE Floats broadcast_word(const int32_t* word) { return (Floats)(Ints{} + *word); }

// How a word of W meets a word of x. `X` words of x, as laid out, stand for one.
struct Float32 {
    using Element = float;
    static constexpr int X = 1;
    static INLINE void lay_out(int32_t word, int32_t* to) { *to = word; }
    template <int ROWS, int COLUMNS>
    static INLINE void multiply_add(Floats (&sums)[ROWS][COLUMNS], const int32_t* x, const float* w) {
        Floats ws[COLUMNS];
#pragma GCC unroll 6
        for (int c = 0; c < COLUMNS; c++) ws[c] = load(w + c * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats word = broadcast_word(x + r);
#pragma GCC unroll 6
            for (int c = 0; c < COLUMNS; c++) sums[r][c] += word * ws[c];
        }
    }
};

struct Bfloat16 {
    using Element = Bf16;
#if defined(__AVX512BF16__)
    static constexpr int X = 1;
    static INLINE void lay_out(int32_t word, int32_t* to) { *to = word; }
    template <int ROWS, int COLUMNS>
    static INLINE void multiply_add(Floats (&sums)[ROWS][COLUMNS], const int32_t* x, const float* w) {
        Floats ws[COLUMNS];
#pragma GCC unroll 6
        for (int c = 0; c < COLUMNS; c++) ws[c] = load(w + c * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats word = broadcast_word(x + r);
#pragma GCC unroll 6
            for (int c = 0; c < COLUMNS; c++)
                sums[r][c] = (Floats)_mm512_dpbf16_ps((__m512)sums[r][c], (__m512bh)word, (__m512bh)ws[c]);
        }
    }
#else
    // The two bf16 of a word as floats: of x once, when it is laid out, of W each time.
    static constexpr int X = 2;
    static INLINE void lay_out(int32_t word, int32_t* to) {
        to[0] = int32_t(uint32_t(word) << 16);
        to[1] = word & int32_t(0xffff0000);
    }
    template <int ROWS, int COLUMNS>
    static INLINE void multiply_add(Floats (&sums)[ROWS][COLUMNS], const int32_t* x, const float* w) {
#pragma GCC unroll 6
        for (int c = 0; c < COLUMNS; c++) {
            const Ints ws = load_raw<Ints>(w + c * LANES);
            const Floats low = (Floats)(ws << 16), high = (Floats)(ws & int32_t(0xffff0000));
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) sums[r][c] += broadcast_word(x + 2 * r) * low;
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) sums[r][c] += broadcast_word(x + 2 * r + 1) * high;
        }
    }
#endif
};

template <class Element>
struct Product {
    const int32_t* x;  // words [groups of rows][inputs][rows together][X]
    const float* w;    // words, packed
    const Element* bias;
    Element* out;  // [rows, outputs]
    int64_t rows, outputs, inputs;
};

// How many rows from this one on go together: groups are of even size, or one apart.
INLINE int64_t rows_from(int64_t row, int64_t rows) {
    const int64_t left = rows - row, groups = (left + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
    return (left + groups - 1) / groups;
}

// Fetches the next panel while so many tiles go over this one, evenly, so that memory is as busy at the last of them as at the
// first.
struct Ahead {
    const float *next, *end;
    int64_t tiles, due = 0;  // lines that should be under way by now and are not, times tiles

    INLINE void fetch(int words) {
        for (due += words * (PANEL / LINE_WORDS); due >= tiles && next < end; due -= tiles, next += LINE_WORDS)
            __builtin_prefetch(next, 0, 2);
    }
};

// ROWS rows from `row` on, by the COLUMNS vectors of a panel from `first` on.
template <class Type, int ROWS, int COLUMNS>
INLINE void tile(const Product<typename Type::Element>& p, int64_t row, int64_t panel, int first, Ahead& shared) {
    const int32_t* x = p.x + row * p.inputs * Type::X;
    const float* w = p.w + panel * PANEL * p.inputs + first * LANES;
    Ahead ahead = shared;  // in registers
    Floats sums[ROWS][COLUMNS] = {};
    int64_t k = 0;
    for (; k + 4 <= p.inputs; k += 4) {
        if (ROWS > 2) ahead.fetch(4);  // few rows read so regularly that the processor fetches by itself
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, x += ROWS * Type::X, w += PANEL) Type::multiply_add(sums, x, w);
    }
    for (; k < p.inputs; k++, x += ROWS * Type::X, w += PANEL) Type::multiply_add(sums, x, w);
    shared = ahead;
    const int64_t column = panel * PANEL + first * LANES;
    for (int c = 0; c < COLUMNS && column + c * LANES < p.outputs; c++) {
        const Floats bias = p.bias ? load_row(p.bias, column + c * LANES, p.outputs) : Floats{};
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++)
            store_row(p.out + (row + r) * p.outputs, column + c * LANES, p.outputs, sums[r][c] + bias);
    }
}

template <class Type, int ROWS>
void rows_of_panel(const Product<typename Type::Element>& p, int64_t row, int64_t panel, Ahead& ahead) {
    constexpr int COLUMNS = columns_with(ROWS);
    for (int first = 0; first < VECTORS; first += COLUMNS) tile<Type, ROWS, COLUMNS>(p, row, panel, first, ahead);
}

template <class Type>
void panel_product(const Product<typename Type::Element>& p, int64_t panel) {
    const int64_t groups = (p.rows + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
    const int64_t tiles = groups * (VECTORS / columns_with(int(rows_from(0, p.rows))));
    const float* const next = p.w + (panel + 1) * PANEL * p.inputs;
    Ahead ahead = {next, (panel + 1) * PANEL < p.outputs ? next + PANEL * p.inputs : next, tiles};
    for (int64_t row = 0, together; row < p.rows; row += together) {
        together = rows_from(row, p.rows);
#define ROWS_OF(ROWS) rows_of_panel<Type, ROWS>(p, row, panel, ahead)
        switch (together) {
            case 1: ROWS_OF(1); break;
            case 2: ROWS_OF(2); break;
            case 3: ROWS_OF(3); break;
            case 4: ROWS_OF(4); break;
            case 5: ROWS_OF(5); break;
#if defined(__AVX512F__)
            case 6: ROWS_OF(6); break;
            case 7: ROWS_OF(7); break;
#endif
            default: ROWS_OF(ROWS_TOGETHER);
        }
#undef ROWS_OF
    }
}

// Rows of x that go together, word by word.
template <class Type>
void lay_out(const int32_t* x, int64_t x_stride, int64_t rows, int64_t inputs, int32_t* to) {
    for (int64_t row = 0, together; row < rows; row += together) {
        together = rows_from(row, rows);
        const int32_t* from = x + row * x_stride;
        for (int64_t k = 0; k < inputs; k++)
            for (int64_t r = 0; r < together; r++, to += Type::X) Type::lay_out(from[r * x_stride + k], to);
    }
}

template <class Type>
void linear(const void* x, const void* packed, const void* bias, void* out, int64_t rows, int64_t outputs, int64_t inputs,
            int64_t x_stride, int threads) {
    using Element = typename Type::Element;
    thread_local std::vector<int32_t> kept;  // between calls
    const int32_t* words = (const int32_t*)x;
    if (rows > 1 || Type::X > 1) {
        kept.resize(std::max<size_t>(kept.size(), rows * inputs * Type::X));
        lay_out<Type>(words, x_stride, rows, inputs, kept.data());
        words = kept.data();
    }
    const Product<Element> p = {words, (const float*)packed, (const Element*)bias, (Element*)out, rows, outputs, inputs};
    const int64_t panels = rows ? (outputs + PANEL - 1) / PANEL : 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) panel_product<Type>(p, panel);
}

// Asks for large pages, of which a few hundred hold the whole of a model: no harm where there are none.
void ask_for_huge_pages(void* memory, int64_t bytes) {
    const int64_t start = (int64_t(memory) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const int64_t end = (int64_t(memory) + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (start < end) madvise((void*)start, end - start, MADV_HUGEPAGE);
}

}  // namespace

// Words of W [outputs, inputs] into packed, of panels * inputs * 48 words.
extern "C" void twin_pack(const int32_t* w, int32_t* packed, int64_t outputs, int64_t inputs, int threads) {
    const int64_t panels = (outputs + PANEL - 1) / PANEL;
    ask_for_huge_pages(packed, panels * inputs * PANEL * int64_t(sizeof *packed));
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t k = 0; k < inputs; k++)
            for (int64_t j = 0; j < PANEL; j++) {
                const int64_t output = panel * PANEL + j;
                packed[(panel * inputs + k) * PANEL + j] = output < outputs ? w[output * inputs + k] : 0;
            }
}

// out [rows, outputs] of x [rows, inputs], `inputs` and `x_stride` in words; all of one type.
extern "C" void twin_linear_f32(const void* x, const void* packed, const void* bias, void* out, int64_t rows,
                                int64_t outputs, int64_t inputs, int64_t x_stride, int threads) {
    linear<Float32>(x, packed, bias, out, rows, outputs, inputs, x_stride, threads);
}

extern "C" void twin_linear_bf16(const void* x, const void* packed, const void* bias, void* out, int64_t rows,
                                 int64_t outputs, int64_t inputs, int64_t x_stride, int threads) {
    linear<Bfloat16>(x, packed, bias, out, rows, outputs, inputs, x_stride, threads);
}
