// Vectors of the level that is compiled. Included by kernels_v*.cpp only, with TCC_NN_LEVEL defined.
//
// Everything is in an unnamed namespace and uses no function template of the standard library: the linker merges inline
// functions of one name, and a merged one with AVX-512 would then run on machines without it.
#pragma once

#include <cstdint>

namespace tcc::nn::TCC_NN_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kTileRows = 12;  // x 2 vectors: 24 of the 32 registers
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kTileRows = 6;  // x 2 vectors: 12 of the 16 registers
#else
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 6;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};
template <class T>
using V = typename VectorOf<T>::Type;
template <class T>
constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));

template <class T>
inline V<T> load(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::Unaligned*>(p);
}
template <class T>
inline void store(T* p, V<T> v) {
  *reinterpret_cast<typename VectorOf<T>::Unaligned*>(p) = v;
}
template <class T>
inline V<T> splat(T x) {
  return V<T>{} + x;
}
// n < kLanes values; the other lanes are 0.
template <class T>
inline V<T> load_part(const T* p, int64_t n) {
  V<T> v{};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class T>
inline void store_part(T* p, V<T> v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
template <class T>
inline T lane_sum(V<T> v) {
  T sum = 0;
  for (int64_t i = 0; i < kLanes<T>; ++i) sum += v[i];
  return sum;
}
template <class T>
inline V<T> vmax(V<T> a, V<T> b) {
  return a > b ? a : b;
}
template <class T>
inline V<T> vmin(V<T> a, V<T> b) {
  return a < b ? a : b;
}

// 0 for negative values; NaN stays NaN, so that training notices it.
template <class T>
inline V<T> relu_of(V<T> x) {
  return x < T(0) ? V<T>{} : x;
}

// Calls f(offset, count) for whole vectors and once for the rest.
template <class T, class F>
inline void each_vector(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(i, kLanes<T>);
  if (i < n) f(i, n - i);
}
template <class T>
inline V<T> get(const T* p, int64_t n) {
  return n == kLanes<T> ? load(p) : load_part(p, n);
}
template <class T>
inline void put(T* p, V<T> v, int64_t n) {
  if (n == kLanes<T>)
    store(p, v);
  else
    store_part(p, v, n);
}

typedef int32_t VInt __attribute__((vector_size(kVectorBytes)));
typedef uint32_t VUint __attribute__((vector_size(kVectorBytes)));

// e^x. float: range reduction by ln 2 and a polynomial of degree 6; the error is below 2 ulp, x is clamped to
// [-87.3, 88.3]. double, which only tests and losses use: the C library's, lane by lane.
inline V<float> exp_of(V<float> x) {
  x = vmin<float>(vmax<float>(x, splat(-87.3f)), splat(88.3f));
  const V<float> magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer
  const V<float> n = (x * 1.44269504088896f + magic) - magic;
  V<float> r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V<float> p = splat(1.f / 720);
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const VInt exponent = (__builtin_convertvector(n, VInt) + 127) << 23;
  return p * reinterpret_cast<V<float>>(exponent);
}
inline V<double> exp_of(V<double> x) {
  V<double> y;
  for (int64_t i = 0; i < kLanes<double>; ++i) y[i] = __builtin_exp(x[i]);
  return y;
}
// ln(1 + x) for x in [0, 1]. float: atanh series in z = x / (2 + x) <= 1/3; the error is below 3e-7.
inline V<float> log1p_of(V<float> x) {
  const V<float> z = x / (2.f + x), q = z * z;
  V<float> p = splat(1.f / 13);
  p = p * q + 1.f / 11;
  p = p * q + 1.f / 9;
  p = p * q + 1.f / 7;
  p = p * q + 1.f / 5;
  p = p * q + 1.f / 3;
  p = p * q + 1.f;
  return 2.f * z * p;
}
inline V<double> log1p_of(V<double> x) {
  V<double> y;
  for (int64_t i = 0; i < kLanes<double>; ++i) y[i] = __builtin_log1p(x[i]);
  return y;
}
template <class T>
inline V<T> abs_of(V<T> x) {
  return x < T(0) ? -x : x;
}
template <class T>
inline V<T> sigmoid_of(V<T> x) {
  const V<T> e = exp_of(-abs_of<T>(x));
  const V<T> s = T(1) / (T(1) + e);
  return x < T(0) ? e * s : s;
}
template <class T>
inline V<T> softplus_of(V<T> x) {
  return vmax<T>(x, V<T>{}) + log1p_of(exp_of(-abs_of<T>(x)));
}
inline float sqrt_of(float x) {
  return __builtin_sqrtf(x);
}
inline double sqrt_of(double x) {
  return __builtin_sqrt(x);
}

}  // namespace
}  // namespace tcc::nn::TCC_NN_LEVEL
