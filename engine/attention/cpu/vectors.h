// Sixteen floats at a time, and the element types that are read and written as such.
//
// Vector<float> is GCC's vector extension: one AVX-512 register, two of AVX2, four of NEON. All arithmetic is fp32; fp16,
// bf16 and fp8-e4m3 exist in memory alone.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace vectors {

constexpr int LANES = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

// How many Floats of accumulators fit into registers beside operands, as rows x columns of a tile of a matrix product.
constexpr int TILE_ROWS = 6;
#if defined(__AVX512F__)
constexpr int TILE_COLUMNS = 4;
#else
constexpr int TILE_COLUMNS = 1;
#endif

#define INLINE inline __attribute__((always_inline))

INLINE Floats broadcast(float value) { return Floats{} + value; }

template <class V>
INLINE V load_raw(const void* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

INLINE Floats max(Floats a, Floats b) { return a > b ? a : b; }

INLINE Ints lane_numbers() { return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

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
    typedef _Float16 Halves __attribute__((vector_size(32)));
    return __builtin_convertvector(load_raw<Halves>(from), Floats);
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
    typedef _Float16 Halves __attribute__((vector_size(32)));
    const Halves halves = __builtin_convertvector(v, Halves);
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

INLINE float sum(Floats v) {
    v += __builtin_shuffle(v, Ints{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
    v += __builtin_shuffle(v, Ints{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
    v += __builtin_shuffle(v, Ints{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
    return v[0] + v[1];
}

INLINE float largest(Floats v) {
    v = max(v, __builtin_shuffle(v, Ints{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
    v = max(v, __builtin_shuffle(v, Ints{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
    v = max(v, __builtin_shuffle(v, Ints{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
    return v[0] > v[1] ? v[0] : v[1];
}

// The four sums, in order, into `to`.
INLINE void sums_of_four(float* to, Floats a, Floats b, Floats c, Floats d) {
    const Ints even = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
    const Ints odd = {2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
    const Floats ab = __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, odd);
    const Floats cd = __builtin_shuffle(c, d, even) + __builtin_shuffle(c, d, odd);
    const Ints low = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
    const Ints high = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
    Floats s = __builtin_shuffle(ab, cd, low) + __builtin_shuffle(ab, cd, high);
    s += __builtin_shuffle(s, Ints{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
    s += __builtin_shuffle(s, Ints{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
    std::memcpy(to, &s, 4 * sizeof(float));
}

// Rows become columns: four times every row of the upper half is interleaved with one of the lower half.
INLINE void transpose(Floats (&rows)[LANES]) {
#if defined(__AVX512F__)
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
