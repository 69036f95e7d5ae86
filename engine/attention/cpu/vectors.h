// A register of floats at a time, and the element types that are read and written as such.
//
// Floats is GCC's vector extension: one register of AVX-512 or AVX2, two of NEON. It is never wider than a register of x86:
// g++ keeps wider ones in memory. All arithmetic is fp32; fp16, bf16 and fp8-e4m3 exist in memory alone.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace vectors {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint16_t Shorts __attribute__((vector_size(2 * LANES)));
typedef uint8_t Bytes __attribute__((vector_size(LANES)));

// How many Floats of accumulators fit into registers beside operands, as rows x columns of a tile of a matrix product.
constexpr int TILE_ROWS = 6;
#if defined(__AVX512F__)
constexpr int TILE_COLUMNS = 4;
#else
constexpr int TILE_COLUMNS = 2;
#endif

#define INLINE inline __attribute__((always_inline))

// Through integers, for `Floats{} + value` would add: 0 + -0 is 0.
INLINE Floats broadcast(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (Floats)(Ints{} + bits);
}

template <class V>
INLINE V load_raw(const void* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

INLINE Floats max(Floats a, Floats b) { return a > b ? a : b; }

INLINE Ints lane_numbers() {
#if defined(__AVX512F__)
    return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
    return Ints{0, 1, 2, 3, 4, 5, 6, 7};
#endif
}

// ---- element types ----------------------------------------------------------------------------------------------------

struct Bf16 {
    uint16_t bits;
};
struct Fp16 {
    uint16_t bits;
};
struct Fp8 {  // e4m3fn: no infinity, NaN is 0x7f and 0xff, the largest value 448
    uint8_t bits;
};

INLINE Floats load(const float* from) { return load_raw<Floats>(from); }

INLINE Floats load(const Bf16* from) { return (Floats)(__builtin_convertvector(load_raw<Shorts>(from), Ints) << 16); }

INLINE Floats load(const Fp16* from) {
#if defined(__F16C__) && !defined(__AVX512F__)  // g++ would convert one by one
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
#else
    typedef _Float16 Halves __attribute__((vector_size(2 * LANES)));
    return __builtin_convertvector(load_raw<Halves>(from), Floats);
#endif
}

// The seven bits below the sign, put at the top of a float's mantissa and exponent, are the value times 2^-120; this holds
// for the subnormal ones too.
INLINE Floats load(const Fp8* from) {
    const Ints bits = __builtin_convertvector(load_raw<Bytes>(from), Ints);
    const Ints magnitude = bits & 0x7f, sign = (bits & 0x80) << 24;
    const Floats value = (Floats)(magnitude << 20) * 0x1p120f;
    return (Floats)(((Ints)value | sign) | (magnitude == 0x7f));
}

INLINE void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

// To the nearest, ties to even: adding 0x7fff, and 1 if the last bit that stays is odd, carries into the kept half.
INLINE void store(Bf16* to, Floats v) {
    const Ints bits = (Ints)v;
    const Ints rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Shorts kept = __builtin_convertvector((v == v) ? rounded : ((bits >> 16) | 0x40), Shorts);
    std::memcpy(to, &kept, sizeof kept);
}

INLINE void store(Fp16* to, Floats v) {
#if defined(__F16C__) && !defined(__AVX512F__)
    const __m128i halves = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    typedef _Float16 Halves __attribute__((vector_size(2 * LANES)));
    const Halves halves = __builtin_convertvector(v, Halves);
#endif
    std::memcpy(to, &halves, sizeof halves);
}

// Clamped to +-448, to the nearest, ties to even. Below 2^-6 the steps are 2^-9: as those of a float near 2^14.
INLINE void store(Fp8* to, Floats v) {
    const Ints sign = ((Ints)v >> 24) & 0x80;
    Floats size = (Floats)((Ints)v & 0x7fffffff);
    size = size > broadcast(448.0f) ? broadcast(448.0f) : size;  // a NaN stays
    const Ints bits = (Ints)size;
    const Ints normal = ((bits + 0x7ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3);
    const Ints subnormal = (Ints)(size + 0x1p14f) - (Ints)broadcast(0x1p14f);
    const Ints magnitude = (size == size) ? (size < broadcast(0x1p-6f) ? subnormal : normal) : Ints{} + 0x7f;
    const Bytes kept = __builtin_convertvector(magnitude | sign, Bytes);
    std::memcpy(to, &kept, sizeof kept);
}

// The first `count` < LANES elements, zeros behind them; nothing past them is touched.
template <class T>
INLINE Floats load_part(const T* from, int count) {
    T all[LANES] = {};
    std::memcpy(all, from, count * sizeof(T));
    return load(all);
}

template <class T>
INLINE void store_part(T* to, Floats v, int count) {
    T all[LANES];
    store(all, v);
    std::memcpy(to, all, count * sizeof(T));
}

// The elements `from` .. `from` + LANES - 1 of a row, as far as it goes.
template <class T>
INLINE Floats load_row(const T* row, int64_t from, int64_t length) {
    return length - from >= LANES ? load(row + from) : load_part(row + from, int(length - from));
}

template <class T>
INLINE void store_row(T* row, int64_t from, int64_t length, Floats v) {
    if (length - from >= LANES) store(row + from, v);
    else store_part(row + from, v, int(length - from));
}

enum Type { FP32, BF16, FP16, FP8 };  // as library.py numbers them

// Calls f with a null pointer to the element type: how a number becomes a template argument.
template <class F>
void with_float_type(int type, F f) {
    if (type == FP32) f((float*)nullptr);
    else if (type == BF16) f((Bf16*)nullptr);
    else f((Fp16*)nullptr);
}

template <class F>
void with_cache_type(int type, F f) {
    if (type == FP8) f((Fp8*)nullptr);
    else with_float_type(type, f);
}

// ---- across lanes -----------------------------------------------------------------------------------------------------

#if defined(__AVX512F__)
INLINE Floats other_half(Floats v) {
    return __builtin_shuffle(v, Ints{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
}
INLINE Floats other_quarter(Floats v) {
    return __builtin_shuffle(v, Ints{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
}
INLINE Floats other_eighth(Floats v) {
    return __builtin_shuffle(v, Ints{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
}
#else  // a register is half as wide
INLINE Floats other_half(Floats v) { return __builtin_shuffle(v, Ints{4, 5, 6, 7, 0, 1, 2, 3}); }
INLINE Floats other_quarter(Floats v) { return __builtin_shuffle(v, Ints{2, 3, 0, 1, 6, 7, 4, 5}); }
INLINE Floats other_eighth(Floats v) { return __builtin_shuffle(v, Ints{1, 0, 3, 2, 5, 4, 7, 6}); }
#endif

INLINE float sum(Floats v) {
    v += other_half(v);
    v += other_quarter(v);
    v += other_eighth(v);
    return LANES == 16 ? v[0] + v[1] : v[0];
}

INLINE float largest(Floats v) {
    v = max(v, other_half(v));
    v = max(v, other_quarter(v));
    v = max(v, other_eighth(v));
    return v[0] > v[1] ? v[0] : v[1];
}

// Rows become columns.
INLINE void transpose(Floats (&rows)[LANES]) {
#if defined(__AVX512F__)  // four times every row of the upper half is interleaved with one of the lower half
    const Ints first = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const Ints second = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#pragma GCC unroll 4
    for (int pass = 0; pass < 4; pass++) {
        Floats next[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = __builtin_shuffle(rows[i], rows[i + LANES / 2], first);
            next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + LANES / 2], second);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) rows[i] = next[i];
    }
#elif defined(__AVX2__)  // squares of four by four within the halves of a register, then the halves
    const Ints low = {0, 8, 1, 9, 4, 12, 5, 13}, high = {2, 10, 3, 11, 6, 14, 7, 15};
    const Ints even = {0, 1, 8, 9, 4, 5, 12, 13}, odd = {2, 3, 10, 11, 6, 7, 14, 15};
    const Ints lower = {0, 1, 2, 3, 8, 9, 10, 11}, upper = {4, 5, 6, 7, 12, 13, 14, 15};
    Floats square[LANES];
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i += 4) {
        const Floats a = __builtin_shuffle(rows[i], rows[i + 1], low), b = __builtin_shuffle(rows[i], rows[i + 1], high);
        const Floats c = __builtin_shuffle(rows[i + 2], rows[i + 3], low);
        const Floats d = __builtin_shuffle(rows[i + 2], rows[i + 3], high);
        square[i] = __builtin_shuffle(a, c, even), square[i + 1] = __builtin_shuffle(a, c, odd);
        square[i + 2] = __builtin_shuffle(b, d, even), square[i + 3] = __builtin_shuffle(b, d, odd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES / 2; i++) {
        rows[i] = __builtin_shuffle(square[i], square[i + 4], lower);
        rows[i + 4] = __builtin_shuffle(square[i], square[i + 4], upper);
    }
#else  // without shuffles of two whole registers, memory is quicker
    float square[LANES][LANES], turned[LANES][LANES];
    std::memcpy(square, rows, sizeof square);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) turned[j][i] = square[i][j];
    std::memcpy(rows, turned, sizeof turned);
#endif
}

// ---- exponentials -----------------------------------------------------------------------------------------------------

// 2^x for x <= 127, within 2 units of the last place; 0 below -126, NaN of NaN. Taylor's series of 2^f on |f| <= 1/2.
INLINE Floats exp2(Floats power) {
    const Floats magic = broadcast(0x1.8p23f);  // adding it leaves x, rounded, in the lowest bits
    const Ints tiny = power < broadcast(-126.0f);
    const Floats x = max(power, broadcast(-126.0f));
    const Floats shifted = x + magic;
    const Floats f = x - (shifted - magic);
    Floats p = broadcast(1.5252733804e-5f);
    p = p * f + 1.5403530393e-4f;
    p = p * f + 1.3333558146e-3f;
    p = p * f + 9.6181291076e-3f;
    p = p * f + 5.5504108665e-2f;
    p = p * f + 2.4022650696e-1f;
    p = p * f + 6.9314718056e-1f;
    p = p * f + 1.0f;
    const Ints scaled = (Ints)p + (((Ints)shifted - (Ints)magic) << 23);
    return power == power ? (Floats)(scaled & ~tiny) : power;
}

constexpr float LOG2_E = 1.44269504088896341f;

}  // namespace vectors
