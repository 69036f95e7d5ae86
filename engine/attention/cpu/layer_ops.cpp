// What a layer does beside its products and attention, each in one pass: RMSNorm, the residual's sum, RoPE, SwiGLU.
//
// All is computed in fp32 and rounded once, where the result goes to memory. Rows may lie apart, by strides in elements.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "vectors.h"

using namespace vectors;

namespace {

constexpr int64_t WORTH_THREADS = 1 << 15;  // elements

template <class F>
void for_rows(int64_t rows, int64_t dim, int threads, F f) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && rows * dim > WORTH_THREADS)
    for (int64_t row = 0; row < rows; row++) f(row);
}

template <class T>
INLINE void normalise(const T* x, const T* weight, T* out, int64_t dim, float eps) {
    Floats even = {}, odd = {};  // two chains of sums: half the waiting, and less is lost to rounding
    for (int64_t d = 0; d < dim; d += 2 * LANES) {
        const Floats v = load_row(x, d, dim), w = d + LANES < dim ? load_row(x, d + LANES, dim) : Floats{};
        even += v * v;
        odd += w * w;
    }
    const float factor = 1.0f / std::sqrt(sum(even + odd) / float(dim) + eps);
    for (int64_t d = 0; d < dim; d += LANES)
        store_row(out, d, dim, load_row(x, d, dim) * factor * load_row(weight, d, dim));
}

// Halves of a head turn against each other, in place.
template <class T>
INLINE void turn(T* head, const float* cos, const float* sin, int64_t half) {
    for (int64_t d = 0; d < half; d += LANES) {
        const Floats a = load_row(head, d, half), b = load_row(head + half, d, half);
        const Floats c = load_row(cos, d, half), s = load_row(sin, d, half);
        store_row(head, d, half, a * c - b * s);
        store_row(head + half, d, half, b * c + a * s);
    }
}

// x / (1 + e^-x), by e^-|x| for either sign: nothing overflows.
INLINE Floats silu(Floats x) {
    const Floats e = exp2((x < 0.0f ? x : -x) * LOG2_E);
    return x * (x < 0.0f ? e : broadcast(1.0f)) / (1.0f + e);
}

}  // namespace

// out [outer, inner, dim], contiguous, of x with strides: x / sqrt(mean(x^2) + eps) * weight [dim].
extern "C" void twin_rms_norm(const void* x, const void* weight, void* out, int64_t outer, int64_t inner, int64_t dim,
                              int64_t outer_stride, int64_t inner_stride, float eps, int type, int threads) {
    with_float_type(type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        for_rows(outer * inner, dim, threads, [&](int64_t row) {
            const T* from = (const T*)x + row / inner * outer_stride + row % inner * inner_stride;
            normalise(from, (const T*)weight, (T*)out + row * dim, dim, eps);
        });
    });
}

// residual += x, rounded, and out as above of the sum; x and residual [rows, dim].
extern "C" void twin_add_rms_norm(const void* x, void* residual, const void* weight, void* out, int64_t rows, int64_t dim,
                                  int64_t x_stride, int64_t residual_stride, float eps, int type, int threads) {
    with_float_type(type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        for_rows(rows, dim, threads, [&](int64_t row) {
            const T* from = (const T*)x + row * x_stride;
            T* to = (T*)residual + row * residual_stride;
            for (int64_t d = 0; d < dim; d += LANES)
                store_row(to, d, dim, load_row(to, d, dim) + load_row(from, d, dim));
            normalise(to, (const T*)weight, (T*)out + row * dim, dim, eps);
        });
    });
}

// q [tokens, heads, dim] and k [tokens, kv_heads, dim] with strides of tokens and heads; cos, sin [positions, dim / 2].
extern "C" void twin_rope(void* q, void* k, const float* cos, const float* sin, const int64_t* positions, int64_t tokens,
                          int64_t heads, int64_t kv_heads, int64_t dim, int64_t q_token, int64_t q_head, int64_t k_token,
                          int64_t k_head, int type, int threads) {
    with_float_type(type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        for_rows(tokens, (heads + kv_heads) * dim, threads, [&](int64_t token) {
            const float *c = cos + positions[token] * (dim / 2), *s = sin + positions[token] * (dim / 2);
            for (int64_t h = 0; h < heads; h++) turn((T*)q + token * q_token + h * q_head, c, s, dim / 2);
            for (int64_t h = 0; h < kv_heads; h++) turn((T*)k + token * k_token + h * k_head, c, s, dim / 2);
        });
    });
}

// out [rows, dim] = silu(gate) * up of gate_up [rows, 2 dim], gate first.
extern "C" void twin_silu_mul(const void* gate_up, void* out, int64_t rows, int64_t dim, int64_t stride, int type,
                              int threads) {
    with_float_type(type, [&](auto* t) {
        using T = std::remove_pointer_t<decltype(t)>;
        for_rows(rows, dim, threads, [&](int64_t row) {
            const T *gate = (const T*)gate_up + row * stride, *up = gate + dim;
            for (int64_t d = 0; d < dim; d += LANES)
                store_row((T*)out + row * dim, d, dim, silu(load_row(gate, d, dim)) * load_row(up, d, dim));
        });
    });
}
