// The product of two small matrices in a cache, in tiles that stay in registers.
#pragma once

#include "vectors.h"

namespace vectors {

// out[r] = out[r] * factors[r] + a[r] B, or a[r] B where `factors` is null: ROWS rows, VECTORS vectors of columns.
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

// The whole product, of `rows` rows and `columns` vectors of columns; strides are in floats.
inline void product(int rows, int columns, const float* a, int a_stride, const float* b, int b_stride, int depth, float* out,
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

}  // namespace vectors
