// Puts K and V of a step into their slots of the cache, in the cache's type.
#include <type_traits>

#include "vectors.h"

using namespace vectors;

namespace {

template <class From, class To>
INLINE void copy_row(const From* from, To* to, int dim, float scale) {
    constexpr bool scaled = sizeof(To) == 1;
    for (int d = 0; d < dim; d += LANES) {
        const Floats v = load_row(from, d, dim);
        store_row(to, d, dim, scaled ? v / scale : v);
    }
}

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
