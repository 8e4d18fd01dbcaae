// What the names of the device prelude mean on the host; the functions of the instruction rows are generated beside it
// (host_prelude.cpp). Included by generated source, and by the runtime for the types they share.
//
// Buffers in global and shared memory are regions whose every access is checked: inside, aligned, written before it is
// read. A thread is a fiber of the runtime, which keeps `thread` and `block` right.
#pragma once

namespace tcc_host_device {

// What is known of a byte. From kDefined on it is the number of the region that wrote it last: buffers in shared memory
// may share memory, and values that another one wrote are not theirs. Pending: a copy not yet waited for.
enum Contents : unsigned char { kUndefined, kPending, kDefined };

struct Region {
  unsigned char* data;
  unsigned char* contents;  // by byte
  long long elements;
  int element_bytes;
  unsigned char defined;  // what its writes leave in contents
  const char* name;
  // Of shared memory, by byte; nullptr elsewhere. stamps: who wrote it, for the fences of the asynchronous proxy;
  // reading: asynchronous reads under way.
  unsigned* stamps = nullptr;
  unsigned char* reading = nullptr;

  unsigned char state(long long element) const { return contents[element * element_bytes]; }
  void mark(long long first, long long count, unsigned char what) const {
    for (long long i = first * element_bytes; i < (first + count) * element_bytes; ++i) contents[i] = what;
  }
};
// Registers of the thread, a place in a region, or what stands for a box or a matrix.
struct Operand {
  const Region* region;
  long long offset;
  void* registers;
  long long pitch = 0;  // of a matrix in a region: elements between its rows
};
struct Index {
  unsigned x, y, z;
};
// A box of a tensor: number of the launch's tensor map, coordinates innermost first.
struct Box {
  int map, rank;
  int at[5];
};
// What the hardware is told of a matrix in shared memory, in bytes.
struct Matrix {
  const Region* region;
  long long offset;
  int swizzle, leading, stride;
};
enum class Fault : int { kOutside, kUndefined, kPending, kMisaligned, kBusy };

// What the runtime does for generated source.
struct Host {
  Index thread, block;
  unsigned stamp;  // of what the thread writes now
  // The block's shared buffer of that name; made by the first thread that asks. offset -1: apart from all others.
  const Region* (*shared)(const char* name, long long elements, int element_bytes, int alignment, long long offset);
  // Reports and ends the launch; does not return.
  void (*fault)(Fault fault, const Region* region, long long element);
  // A row of the instruction table for this thread. compute: its semantics on tiles.
  void (*row)(int row, int line, const Operand* operands, const long long* arguments,
              void (*compute)(void* const* tiles, const long long* arguments));
  // Runs `run` on a copy of the closure when the thread has waited for its copies.
  void (*defer)(int line, const Operand* destination, long long elements, void (*run)(const void* closure),
                const void* closure, int bytes);
};

}  // namespace tcc_host_device

#ifdef TCC_HOST_SOURCE

#include <cmath>
#include <cstring>

static tcc_host_device::Host* tcc_host;
extern "C" __attribute__((visibility("default"))) void tcc_bind(tcc_host_device::Host* host) {
  tcc_host = host;
}

using TccRegion = tcc_host_device::Region;
using TccOperand = tcc_host_device::Operand;
using TccFault = tcc_host_device::Fault;
using TccBox = tcc_host_device::Box;
using tcc_matrix = tcc_host_device::Matrix;
struct tcc_tensor_map {
  int number;
};
// The line of a call; not an int, because coordinates are ints and tell overloads apart.
struct TccLine {
  int number;
  TccLine(int line) : number(line) {}
  operator int() const { return number; }
};

#define __global__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx (tcc_host->thread)
#define blockIdx (tcc_host->block)
#define TCC_DEVICE static inline
#define TCC_GLOBAL(type, name) tcc_pointer<type> name
#define TCC_SHARED(type, name, count, alignment) \
  const tcc_pointer<type> name(tcc_host->shared(#name, count, sizeof(type), alignment, -1))
#define TCC_SHARED_DYNAMIC(alignment)
#define TCC_TENSOR_MAP(name) const tcc_tensor_map name
#define TCC_CLUSTER(x, y, z)
#define TCC_SHARED_AT(type, name, count, offset) \
  const tcc_pointer<type> name(tcc_host->shared(#name, count, sizeof(type), 1, offset))

template <class T, int N>
struct alignas(sizeof(T) * N) tcc_vec {
  T v[N];
};
template <class T>
struct tcc_plain {
  using type = T;
};
template <class T>
struct tcc_plain<const T> {
  using type = T;
};

inline void tcc_check(const TccRegion* r, long long first, long long count, bool reads) {
  if (first < 0 || first + count > r->elements) tcc_host->fault(TccFault::kOutside, r, first);
  if (reads)
    for (long long i = first; i < first + count; ++i)
      if (r->state(i) != r->defined)
        tcc_host->fault(r->state(i) == tcc_host_device::kPending ? TccFault::kPending : TccFault::kUndefined, r, i);
  if (reads) return;
  if (r->reading != nullptr)
    for (long long i = first * r->element_bytes; i < (first + count) * r->element_bytes; ++i) {
      if (r->reading[i] != 0 || r->contents[i] == tcc_host_device::kPending)
        tcc_host->fault(TccFault::kBusy, r, i / r->element_bytes);
      r->stamps[i] = tcc_host->stamp;
    }
  r->mark(first, count, r->defined);
}

// An element that can be read and written.
template <class T>
struct tcc_element {
  const TccRegion* region;
  long long at;
  tcc_element(const TccRegion* r, long long element) : region(r), at(element) {}
  operator T() const {
    tcc_check(region, at, 1, true);
    return ((const T*)region->data)[at];
  }
  T operator=(T value) const {
    tcc_check(region, at, 1, false);
    return ((T*)region->data)[at] = value;
  }
  // A copy of an element is a copy of its value.
  T operator=(const tcc_element& other) const { return *this = (T)other; }
  tcc_element(const tcc_element&) = default;
};

template <class T>
struct tcc_pointer {
  const TccRegion* region;
  long long offset;
  tcc_pointer(const TccRegion* r, long long first = 0) : region(r), offset(first) {}
  template <class U>
    requires(__is_same(T, const U))
  tcc_pointer(tcc_pointer<U> other) : region(other.region), offset(other.offset) {}
  tcc_pointer operator+(long long n) const { return tcc_pointer(region, offset + n); }
  auto operator[](long long i) const {
    if constexpr (__is_same(T, typename tcc_plain<T>::type)) {
      return tcc_element<T>(region, offset + i);
    } else {
      tcc_check(region, offset + i, 1, true);
      return (typename tcc_plain<T>::type)((T*)region->data)[offset + i];
    }
  }
};

template <class T>
TccOperand tcc_operand(tcc_pointer<T> p) {
  return {p.region, p.offset, nullptr};
}
template <class T>
TccOperand tcc_operand(tcc_pointer<T> p, int pitch) {
  return {p.region, p.offset, nullptr, pitch};
}
template <class T>
TccOperand tcc_operand(T* registers) {
  return {nullptr, 0, (void*)registers};
}
inline TccOperand tcc_operand(const TccBox& box) {
  return {nullptr, 0, (void*)&box};
}
inline TccOperand tcc_operand(const tcc_matrix& matrix) {
  return {matrix.region, matrix.offset, (void*)&matrix};
}
template <int Swizzle, int Leading, int Stride, class T>
tcc_matrix tcc_tile(tcc_pointer<T> p, int pieces) {
  return {p.region, p.offset + pieces * (16 / (int)sizeof(T)), Swizzle, Leading, Stride};
}
template <int N>
void tcc_pin(float (&)[N]) {}

template <int N, class T>
void* tcc_vector_place(tcc_pointer<T> p, bool reads) {
  tcc_check(p.region, p.offset, N, reads);
  unsigned char* at = p.region->data + p.offset * sizeof(T);
  if ((unsigned long)at % (N * sizeof(T)) != 0) tcc_host->fault(TccFault::kMisaligned, p.region, p.offset);
  return at;
}
template <int N, class T>
tcc_vec<typename tcc_plain<T>::type, N> tcc_load(tcc_pointer<T> p) {
  tcc_vec<typename tcc_plain<T>::type, N> value;
  std::memcpy(&value, tcc_vector_place<N>(p, true), sizeof value);
  return value;
}
template <int N, class T>
void tcc_store(tcc_pointer<T> p, tcc_vec<T, N> value) {
  std::memcpy(tcc_vector_place<N>(p, false), &value, sizeof value);
}

template <class T>
T tcc_min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T tcc_max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T tcc_floor_div(T a, T b) {
  return a / b - (a % b != 0 && ((a < 0) != (b < 0)) ? 1 : 0);
}
template <class T>
T tcc_floor_mod(T a, T b) {
  return a - tcc_floor_div(a, b) * b;
}
template <class T>
T tcc_xor(T a, int from, T mask, int to) {
  return a ^ (((a >> from) & mask) << to);
}

template <class To, class From>
To tcc_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
TCC_DEVICE float tcc_f32_bits(unsigned bits) {
  return tcc_bits<float>(bits);
}
TCC_DEVICE double tcc_f64_bits(long long bits) {
  return tcc_bits<double>(bits);
}
TCC_DEVICE float tcc_from_f16(unsigned short h) {
  return (float)tcc_bits<_Float16>(h);
}
TCC_DEVICE unsigned short tcc_to_f16(float f) {
  return tcc_bits<unsigned short>((_Float16)f);
}
TCC_DEVICE float tcc_round_f16(float f) {
  return (float)(_Float16)f;
}
TCC_DEVICE float tcc_from_bf16(unsigned short h) {
  return tcc_bits<float>((unsigned)h << 16);
}
TCC_DEVICE unsigned short tcc_to_bf16(float f) {
  const unsigned bits = tcc_bits<unsigned>(f);
  if (f != f) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);  // to nearest, halves to even
}
TCC_DEVICE float tcc_round_bf16(float f) {
  return tcc_from_bf16(tcc_to_bf16(f));
}
// Saturating, NaN becomes 0.
template <class To, class From>
To tcc_to_integer(From x, From limit) {
  if (x != x) return 0;
  if (x >= limit) return (To)(((unsigned long long)1 << (sizeof(To) * 8 - 1)) - 1);
  return x < -limit ? (To)((unsigned long long)1 << (sizeof(To) * 8 - 1)) : (To)x;
}
TCC_DEVICE int tcc_to_i32(float x) {
  return tcc_to_integer<int>(x, 0x1p31f);
}
TCC_DEVICE int tcc_to_i32(double x) {
  return tcc_to_integer<int>(x, 0x1p31);
}
TCC_DEVICE long long tcc_to_i64(float x) {
  return tcc_to_integer<long long>(x, 0x1p63f);
}
TCC_DEVICE long long tcc_to_i64(double x) {
  return tcc_to_integer<long long>(x, 0x1p63);
}
#define TCC_MATH1(name, expression)  \
  TCC_DEVICE float name(float x) {   \
    return expression;               \
  }                                  \
  TCC_DEVICE double name(double x) { \
    return expression;               \
  }
#define TCC_MATH2(name, function)              \
  TCC_DEVICE float name(float x, float y) {    \
    return function(x, y);                     \
  }                                            \
  TCC_DEVICE double name(double x, double y) { \
    return function(x, y);                     \
  }
TCC_DEVICE int tcc_warp() {
  return (int)threadIdx.x / 32;
}
TCC_DEVICE bool tcc_elect() {
  return threadIdx.x % 32 == 0;
}
TCC_MATH1(tcc_exp, std::exp(x))
TCC_MATH1(tcc_log, std::log(x))
TCC_MATH1(tcc_tanh, std::tanh(x))
TCC_MATH1(tcc_erf, std::erf(x))
TCC_MATH1(tcc_erf_near, std::erf(x))
TCC_MATH1(tcc_gelu_near, x * (1 + std::erf(x * 0.70710678118654752)) / 2)
TCC_MATH1(tcc_sqrt, std::sqrt(x))
TCC_MATH1(tcc_rsqrt, 1 / std::sqrt(x))
TCC_MATH1(tcc_abs, std::fabs(x))
TCC_MATH1(tcc_floor, std::floor(x))
TCC_MATH1(tcc_ceil, std::ceil(x))
TCC_MATH1(tcc_round, std::rint(x))
TCC_MATH1(tcc_sin, std::sin(x))
TCC_MATH1(tcc_cos, std::cos(x))
TCC_MATH1(tcc_sigmoid, 1 / (1 + std::exp(-x)))
TCC_MATH2(tcc_fmin, std::fmin)
TCC_MATH2(tcc_fmax, std::fmax)
TCC_MATH2(tcc_pow, std::pow)
TCC_DEVICE float tcc_fma(float a, float b, float c) {
  return std::fma(a, b, c);
}
TCC_DEVICE double tcc_fma(double a, double b, double c) {
  return std::fma(a, b, c);
}

#endif
