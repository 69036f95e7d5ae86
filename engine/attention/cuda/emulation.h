// CUDA on the host: just as much of it as the kernels of this folder use, so that g++ builds their very source.
//
// A block runs at a time, each of its threads as a fiber with a stack of its own. Fibers switch only where threads meet:
// __syncthreads, __syncwarp, a shuffle, an mma. After each meeting they go on in an order drawn from the seed. So
//   - a missing barrier shows as a wrong answer (shared memory is NaN when a block begins),
//   - threads that meet at different places, or never, stop the launch with an error,
//   - shared and global memory are plain heap memory, which AddressSanitizer watches.
// What it cannot show: races between blocks, and all that is about speed.
#pragma once

#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef void* cudaStream_t;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

namespace emulation {

constexpr unsigned WARP_SIZE = 32;
constexpr size_t STACK_BYTES = 256 << 10, EXCHANGE_BYTES = 32;

enum class Place { RUNNING, BLOCK_BARRIER, WARP_BARRIER, SHUFFLE, MMA, TRANSPOSE, EXIT };

struct Fiber {
  std::vector<char> stack = std::vector<char>(STACK_BYTES);
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it goes on
  bool started;
  Place at;
  unsigned thread;     // index in the block
  unsigned exchanges;  // shuffles and mma so far
  void* sanitizer_stack;
};

constexpr const char* INVALID_CONFIGURATION = "invalid configuration of a launch";

struct Machine {
  std::vector<Fiber> fibers;
  Fiber* current = nullptr;
  jmp_buf scheduler;
  void* scheduler_sanitizer_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_size = 0;
  dim3 block_index, block_size, grid_size;
  std::vector<char> exchange;  // two buffers in turn, EXCHANGE_BYTES a thread
  std::vector<float> shared;
  std::function<void()> kernel;
  unsigned seed = 1;
  std::string error;  // of the launches since it was last asked for
};

inline Machine& machine() {
  static Machine m;
  return m;
}

// AddressSanitizer has to be told about each change of stacks.
inline void leave_for([[maybe_unused]] void** own, [[maybe_unused]] const void* stack, [[maybe_unused]] size_t size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(own, stack, size);
#endif
}
inline void arrived([[maybe_unused]] void* own, [[maybe_unused]] const void** from, [[maybe_unused]] size_t* from_size) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(own, from, from_size);
#endif
}

// Called on a fiber: it waits at a meeting place until the scheduler lets it go on.
inline void wait(Place place) {
  Machine& m = machine();
  Fiber* self = m.current;
  self->at = place;
  if (_setjmp(self->place) == 0) {
    leave_for(place == Place::EXIT ? nullptr : &self->sanitizer_stack, m.scheduler_stack, m.scheduler_stack_size);
    _longjmp(m.scheduler, 1);
  }
  arrived(self->sanitizer_stack, nullptr, nullptr);
}

inline void fiber_main() {
  Machine& m = machine();
  arrived(nullptr, &m.scheduler_stack, &m.scheduler_stack_size);
  m.kernel();
  wait(Place::EXIT);
}

// Called on the scheduler's stack: returns when the fiber waits.
inline void resume(Fiber& fiber) {
  Machine& m = machine();
  m.current = &fiber;
  fiber.at = Place::RUNNING;
  if (_setjmp(m.scheduler) == 0) {
    leave_for(&m.scheduler_sanitizer_stack, fiber.stack.data(), fiber.stack.size());
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }
  arrived(m.scheduler_sanitizer_stack, nullptr, nullptr);
}

inline void prepare(Fiber& fiber, unsigned thread) {
  fiber.thread = thread;
  fiber.started = false;
  fiber.at = Place::RUNNING;
  fiber.exchanges = 0;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
}

// All threads from `first` on, `count` of them, wait at one and the same place.
inline bool all_at(unsigned first, unsigned count, Place place) {
  const auto& fibers = machine().fibers;
  return std::all_of(fibers.begin() + first, fibers.begin() + first + count, [&](const Fiber& f) { return f.at == place; });
}

// Returns whether the block came to its end; where it did not, machine().error says why.
inline bool run_block(std::mt19937& random) {
  Machine& m = machine();
  const unsigned threads = m.fibers.size();
  std::fill(m.shared.begin(), m.shared.end(), std::nanf(""));
  std::vector<unsigned> order(threads);
  for (unsigned i = 0; i < threads; ++i) prepare(m.fibers[i], order[i] = i);
  std::vector<unsigned> free_to_go = order;
  while (!free_to_go.empty()) {
    std::shuffle(free_to_go.begin(), free_to_go.end(), random);
    for (unsigned i : free_to_go) resume(m.fibers[i]);
    free_to_go.clear();
    if (all_at(0, threads, Place::EXIT)) return true;
    if (all_at(0, threads, Place::BLOCK_BARRIER)) free_to_go = order;
    for (unsigned warp = 0; warp < threads; warp += WARP_SIZE)
      for (Place place : {Place::WARP_BARRIER, Place::SHUFFLE, Place::MMA, Place::TRANSPOSE})
        if (all_at(warp, WARP_SIZE, place))
          for (unsigned i = warp; i < warp + WARP_SIZE; ++i) free_to_go.push_back(i);
  }
  m.error = "threads of a block wait at different places, or some have left: a barrier in divergent code";
  return false;
}

template <class Kernel>
void launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t, Kernel kernel) {
  Machine& m = machine();
  const unsigned threads = block.x * block.y * block.z;
  if (threads % WARP_SIZE || threads > 1024 || grid.x * grid.y * grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    m.error = INVALID_CONFIGURATION;
    return;
  }
  std::mt19937 random(m.seed);
  m.grid_size = grid;
  m.block_size = block;
  m.kernel = kernel;
  m.fibers.resize(threads);
  m.exchange.assign(2 * threads * EXCHANGE_BYTES, 0);
  m.shared = std::vector<float>(shared_bytes / sizeof(float));  // made anew: its end is watched
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        m.block_index = dim3(x, y, z);
        if (!run_block(random)) return;
      }
}

inline dim3 thread_index() {
  const Machine& m = machine();
  const unsigned i = m.current->thread;
  return dim3(i % m.block_size.x, i / m.block_size.x % m.block_size.y, i / (m.block_size.x * m.block_size.y));
}

// The warp meets with a value of each lane; the result gives the value of lane `lane`. Two buffers in turn, since a quick
// lane may be at the next exchange while a slow one still reads this one's values.
template <class T>
auto exchange(const T& value, Place place) {
  static_assert(sizeof(T) <= EXCHANGE_BYTES);
  Machine& m = machine();
  Fiber* self = m.current;
  char* buffer = m.exchange.data() + (self->exchanges++ % 2) * m.fibers.size() * EXCHANGE_BYTES;
  std::memcpy(buffer + self->thread * EXCHANGE_BYTES, &value, sizeof value);
  wait(place);
  const char* warp = buffer + self->thread / WARP_SIZE * WARP_SIZE * EXCHANGE_BYTES;
  return [warp](unsigned lane) {
    T other;
    std::memcpy(&other, warp + lane * EXCHANGE_BYTES, sizeof other);
    return other;
  };
}

}  // namespace emulation

#define threadIdx (emulation::thread_index())
#define blockIdx (emulation::machine().block_index)
#define blockDim (emulation::machine().block_size)
#define gridDim (emulation::machine().grid_size)
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  emulation::launch(grid, block, shared_bytes, stream, [=] { kernel(__VA_ARGS__); })
#define SHARED_MEMORY(name) float* name = emulation::machine().shared.data()

using std::max;
using std::min;
inline void __syncthreads() { emulation::wait(emulation::Place::BLOCK_BARRIER); }
inline void __syncwarp() { emulation::wait(emulation::Place::WARP_BARRIER); }
template <class T>
T __shfl_sync(unsigned, T value, int lane) { return emulation::exchange(value, emulation::Place::SHUFFLE)(lane % 32); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const unsigned self = emulation::machine().current->thread % 32;
  return emulation::exchange(value, emulation::Place::SHUFFLE)(self ^ mask);
}
inline float __expf(float x) { return std::exp(x); }
template <class T>
T __ldg(const T* address) { return *address; }

typedef int cudaError_t;
inline std::string& last_error_text() {
  static std::string text;
  return text;
}
inline cudaError_t cudaGetLastError() {
  last_error_text() = std::move(emulation::machine().error);
  emulation::machine().error.clear();
  if (last_error_text().empty()) return 0;
  return last_error_text() == emulation::INVALID_CONFIGURATION ? 9 : 719;  // cudaErrorInvalidConfiguration, cudaErrorLaunchFailure
}
inline const char* cudaGetErrorString(cudaError_t) { return last_error_text().c_str(); }

struct __half_raw { unsigned short x; };
struct __half {
  _Float16 value;
  __half() = default;
  explicit __half(_Float16 x) : value(x) {}
  __half(__half_raw raw) { std::memcpy(&value, &raw, sizeof value); }
};
inline float __half2float(__half x) { return float(x.value); }
inline __half __float2half(float x) { return __half(_Float16(x)); }

struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t wide = uint32_t(x.bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
inline __nv_bfloat16 __float2bfloat16(float x) {
  if (std::isnan(x)) return {0x7fff};
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};  // to nearest, ties to even
}

// e4m3: sign, 4 bits of exponent (bias 7), 3 bits of mantissa; 0x7f and 0xff are NaN, there is no infinity.
typedef uint8_t __nv_fp8_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3 };
enum __nv_saturation_t { __NV_SATFINITE };
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t, __nv_fp8_interpretation_t) {
  if (std::isnan(x)) return 0x7f;
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float size = std::min(std::fabs(x), 448.f);
  const int exponent = std::max(size > 0 ? std::ilogb(size) : -6, -6);
  const int steps = int(std::nearbyint(std::ldexp(size, 3 - exponent)));  // of 2^(exponent - 3); 8 .. 16 if normal
  return sign | uint8_t(steps + (exponent + 6) * 8);                       // 16 carries into the exponent, rightly
}

// Tensor cores: mma.cuh says which lane holds what.
template <class T>
void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], float (*to_float)(T)) {
  struct Operands { unsigned a[4], b[2]; } own{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const unsigned lane = emulation::machine().current->thread % 32;
  const auto of_lane = emulation::exchange(own, emulation::Place::MMA);
  const auto number = [&](unsigned pair, int upper) {
    T value;
    const uint16_t bits = upper ? pair >> 16 : pair;
    std::memcpy(&value, &bits, sizeof value);
    return to_float(value);
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      c[i] += number(of_lane(row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2], k % 2) *
              number(of_lane(column * 4 + k % 8 / 2).b[k / 8], k % 2);
  }
}
inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], __half) {
  mma_m16n8k16<__half>(c, a, b, __half2float);
}
inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], __nv_bfloat16) {
  mma_m16n8k16<__nv_bfloat16>(c, a, b, __bfloat162float);
}

inline unsigned transpose_8x8(unsigned row) {
  const unsigned lane = emulation::machine().current->thread % 32, g = lane / 4, t = lane % 4;
  const auto of_lane = emulation::exchange(row, emulation::Place::TRANSPOSE);
  const auto number = [&](unsigned r, unsigned column) { return of_lane(r * 4 + column / 2) >> column % 2 * 16 & 0xffff; };
  return number(2 * t, g) | number(2 * t + 1, g) << 16;
}

extern "C" void emulation_seed(unsigned seed) { emulation::machine().seed = seed; }
