// x W^T + b in fp32 and bf16, for any number of rows, with W packed once so that a product reads it in order.
//
// Everything is counted in *words* of 32 bits along the inputs: one float, or two bf16 whose products one instruction adds.
// W [outputs, inputs] is cut into panels of 48 outputs, and each is laid out word by word:
//
//     packed [panel][word of the inputs][48 outputs], the last panel filled up with zeros
//
// so that the lanes run along outputs: a word of x is multiplied with 48 outputs at once, nothing is summed over lanes, and
// the result lies in memory as it comes. Up to eight rows of x go over a panel together. With few rows all waits for W to
// come from memory once; with many W lies in a cache, and the products are the bound.
//
// Each output is one sum in the order of its inputs, whatever the other rows: a row's result is the same to the bit in any
// batch.
#include <algorithm>

#include "vectors.h"

using namespace vectors;

namespace {

constexpr int VECTORS = 3;
constexpr int PANEL = VECTORS * LANES;
constexpr int LINE_WORDS = 16;  // of a cache line
#if defined(__AVX512F__)
constexpr int ROWS_TOGETHER = 8;  // 24 registers of sums, 3 of W, 1 of x
#else
constexpr int ROWS_TOGETHER = 2;
#endif

struct Float32 {
    using Element = float;
    static INLINE void multiply_add(Floats& sum, Floats x, Floats w) { sum += x * w; }
};

struct Bfloat16 {
    using Element = Bf16;
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
    const int32_t* x;  // words [rows, x_stride]
    const float* w;    // words, packed
    const Element* bias;
    Element* out;  // [rows, outputs]
    int64_t rows, outputs, inputs, x_stride;
};

// ROWS rows from `row` on, by one panel. Meanwhile lines from `ahead` on are fetched, `lines` of them every four words.
template <class Type, int ROWS>
INLINE void tile(const Product<typename Type::Element>& p, int64_t row, int64_t panel, const float* ahead, int lines) {
    const int32_t* x = p.x + row * p.x_stride;
    const float* w = p.w + panel * PANEL * p.inputs;
    Floats sums[ROWS][VECTORS] = {};
    for (int64_t k = 0; k < p.inputs; k++) {
        if (k % 4 == 0)
            for (int i = 0; i < lines; i++, ahead += LINE_WORDS) __builtin_prefetch(ahead, 0, 2);
        Floats ws[VECTORS];
#pragma GCC unroll 3
        for (int c = 0; c < VECTORS; c++) ws[c] = load(w + k * PANEL + c * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats word = (Floats)(Ints{} + x[r * p.x_stride + k]);
#pragma GCC unroll 3
            for (int c = 0; c < VECTORS; c++) Type::multiply_add(sums[r][c], word, ws[c]);
        }
    }
    const int64_t column = panel * PANEL;
    for (int c = 0; c < VECTORS && column + c * LANES < p.outputs; c++) {
        const Floats bias = p.bias ? load_row(p.bias, column + c * LANES, p.outputs) : Floats{};
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++)
            store_row(p.out + (row + r) * p.outputs, column + c * LANES, p.outputs, sums[r][c] + bias);
    }
}

template <class Type>
void panel_product(const Product<typename Type::Element>& p, int64_t panel) {
    // The next panel is fetched in equal parts by all tiles: 3 lines a word.
    const int64_t tiles = (p.rows + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
    const int lines = int((4 * VECTORS + tiles - 1) / tiles);
    const float* ahead = p.w + (panel + 1) * PANEL * p.inputs;
    const float* const end = ahead + PANEL * p.inputs;
    for (int64_t row = 0; row < p.rows; row += ROWS_TOGETHER) {
        const int fetch = ahead < end ? lines : 0;
#define TILE(ROWS) tile<Type, ROWS>(p, row, panel, ahead, fetch)
        switch (std::min<int64_t>(p.rows - row, ROWS_TOGETHER)) {
            case 1: TILE(1); break;
            case 2: TILE(2); break;
            case 3: TILE(3); break;
            case 4: TILE(4); break;
            case 5: TILE(5); break;
            case 6: TILE(6); break;
            case 7: TILE(7); break;
            default: TILE(8);
        }
#undef TILE
        ahead += p.inputs / 4 * lines * LINE_WORDS;
    }
}

template <class Type>
void linear(const Product<typename Type::Element>& p, int threads) {
    const int64_t panels = p.rows ? (p.outputs + PANEL - 1) / PANEL : 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) panel_product<Type>(p, panel);
}

}  // namespace

// Words of W [outputs, inputs] into packed, of panels * inputs * 48 words.
extern "C" void twin_pack(const int32_t* w, int32_t* packed, int64_t outputs, int64_t inputs, int threads) {
    const int64_t panels = (outputs + PANEL - 1) / PANEL;
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
    linear<Float32>({(const int32_t*)x, (const float*)packed, (const float*)bias, (float*)out, rows, outputs, inputs,
                     x_stride}, threads);
}

extern "C" void twin_linear_bf16(const void* x, const void* packed, const void* bias, void* out, int64_t rows,
                                 int64_t outputs, int64_t inputs, int64_t x_stride, int threads) {
    linear<Bfloat16>({(const int32_t*)x, (const float*)packed, (const Bf16*)bias, (Bf16*)out, rows, outputs, inputs,
                      x_stride}, threads);
}
