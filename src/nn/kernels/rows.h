// Functions of rows: activations, sums, normalization, softmax.
#pragma once

#include "nn/kernels.h"
#include "nn/kernels/vector.h"

namespace tcc::nn::TCC_NN_LEVEL {
namespace {

template <class T>
inline V<T> act_of(Act act, V<T> x) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return relu_of<T>(x);
    case Act::kSilu:
      return x * sigmoid_of<T>(x);
    case Act::kSigmoid:
      return sigmoid_of<T>(x);
    case Act::kSoftplus:
      return softplus_of<T>(x);
  }
  return x;
}

// dy * act'(x), where y = act(x).
template <class T>
inline V<T> act_back(Act act, V<T> x, V<T> y, V<T> dy) {
  switch (act) {
    case Act::kNone:
      return dy;
    case Act::kRelu:
      return y > T(0) ? dy : V<T>{};
    case Act::kSilu: {
      const V<T> s = sigmoid_of<T>(x);
      return dy * (s + x * s * (T(1) - s));
    }
    case Act::kSigmoid:
      return dy * y * (T(1) - y);
    case Act::kSoftplus:
      return dy * sigmoid_of<T>(x);
  }
  return dy;
}

template <class T>
void activate(Act act, int64_t rows, int64_t n, const T* x, int64_t ldx, T* y, int64_t ldy) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(n, [&](int64_t i, int64_t w) { put(y + r * ldy + i, act_of<T>(act, get(x + r * ldx + i, w)), w); });
}

template <class T>
void activate_back(Act act, int64_t rows, int64_t n, const T* x, int64_t ldx, const T* y, int64_t ldy, const T* dy,
                   int64_t lddy, T* dx, int64_t lddx, bool accumulate) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      V<T> d =
          act_back<T>(act, x ? get(x + r * ldx + i, w) : V<T>{}, get(y + r * ldy + i, w), get(dy + r * lddy + i, w));
      if (accumulate) d += get(dx + r * lddx + i, w);
      put(dx + r * lddx + i, d, w);
    });
}

template <class T>
void add_rows(int64_t rows, int64_t n, const T* a, int64_t lda, const T* b, int64_t ldb, T* y, int64_t ldy) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(
        n, [&](int64_t i, int64_t w) { put(y + r * ldy + i, get(a + r * lda + i, w) + get(b + r * ldb + i, w), w); });
}

template <class T>
void copy_rows(int64_t rows, int64_t n, const T* x, int64_t ldx, T* y, int64_t ldy, bool accumulate) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      V<T> v = get(x + r * ldx + i, w);
      if (accumulate) v += get(y + r * ldy + i, w);
      put(y + r * ldy + i, v, w);
    });
}

template <class T>
void scale_rows(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* scale, const T* shift, T* y, int64_t ldy,
                bool accumulate) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      V<T> v = get(x + r * ldx + i, w) * get(scale + i, w);
      if (shift) v += get(shift + i, w);
      if (accumulate) v += get(y + r * ldy + i, w);
      put(y + r * ldy + i, v, w);
    });
}

template <class T>
void multiply_rows(int64_t rows, int64_t n, const T* a, int64_t lda, const T* b, int64_t ldb, T* y, int64_t ldy,
                   bool accumulate) {
  for (int64_t r = 0; r < rows; ++r)
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      V<T> v = get(a + r * lda + i, w) * get(b + r * ldb + i, w);
      if (accumulate) v += get(y + r * ldy + i, w);
      put(y + r * ldy + i, v, w);
    });
}

template <class T>
void column_sum(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* b, int64_t ldb, T* sum) {
  each_vector<T>(n, [&](int64_t i, int64_t w) {
    V<T> s = get(sum + i, w);
    for (int64_t r = 0; r < rows; ++r) {
      const V<T> v = get(x + r * ldx + i, w);
      s += b ? v * get(b + r * ldb + i, w) : v;
    }
    put(sum + i, s, w);
  });
}

template <class T>
void layer_norm(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* gamma, const T* beta, T epsilon, T* y,
                int64_t ldy, T* stats) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * ldx;
    V<T> sum{}, squares{};
    each_vector<T>(n, [&](int64_t i, int64_t w) { sum += get(row + i, w); });
    const T mean = lane_sum<T>(sum) / static_cast<T>(n);
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      V<T> d = get(row + i, w) - mean;
      if (w < kLanes<T>) d = load_part(reinterpret_cast<const T*>(&d), w);
      squares += d * d;
    });
    const T rstd = T(1) / sqrt_of(lane_sum<T>(squares) / static_cast<T>(n) + epsilon);
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      put(y + r * ldy + i, (get(row + i, w) - mean) * rstd * get(gamma + i, w) + get(beta + i, w), w);
    });
    stats[2 * r] = mean;
    stats[2 * r + 1] = rstd;
  }
}

template <class T>
void layer_norm_back(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* gamma, const T* stats, const T* dy,
                     int64_t lddy, T* dx, int64_t lddx, bool accumulate, T* dgamma, T* dbeta) {
  for (int64_t r = 0; r < rows; ++r) {
    const T mean = stats[2 * r], rstd = stats[2 * r + 1];
    const T *row = x + r * ldx, *drow = dy + r * lddy;
    V<T> sum{}, product{};  // of g = dy * gamma, and of g * xhat; lanes past the end have g = 0
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      const V<T> d = get(drow + i, w), g = d * get(gamma + i, w), hat = (get(row + i, w) - mean) * rstd;
      sum += g;
      product += g * hat;
      put(dgamma + i, get(dgamma + i, w) + d * hat, w);
      put(dbeta + i, get(dbeta + i, w) + d, w);
    });
    const T a = lane_sum<T>(sum) / static_cast<T>(n), b = lane_sum<T>(product) / static_cast<T>(n);
    each_vector<T>(n, [&](int64_t i, int64_t w) {
      const V<T> g = get(drow + i, w) * get(gamma + i, w), hat = (get(row + i, w) - mean) * rstd;
      V<T> d = (g - a - hat * b) * rstd;
      if (accumulate) d += get(dx + r * lddx + i, w);
      put(dx + r * lddx + i, d, w);
    });
  }
}

template <class T>
void softmax(int64_t rows, int64_t n, int64_t ld, T scale, T* x) {
  for (int64_t r = 0; r < rows; ++r) {
    T* row = x + r * ld;
    V<T> top = splat(row[0]);
    for (int64_t i = n; i < ld; ++i) row[i] = row[0];  // so that whole vectors may be read
    for (int64_t i = 0; i < ld; i += kLanes<T>) top = vmax<T>(top, load(row + i));
    T most = top[0];
    for (int64_t i = 1; i < kLanes<T>; ++i) most = top[i] > most ? top[i] : most;
    for (int64_t i = 0; i < ld; i += kLanes<T>) store(row + i, exp_of((load(row + i) - most) * scale));
    for (int64_t i = n; i < ld; ++i) row[i] = 0;
    V<T> sum{};
    for (int64_t i = 0; i < ld; i += kLanes<T>) sum += load(row + i);
    const T inverse = T(1) / lane_sum<T>(sum);
    for (int64_t i = 0; i < ld; i += kLanes<T>) store(row + i, load(row + i) * inverse);
  }
}

template <class T>
void softmax_back(int64_t rows, int64_t n, int64_t ld, T scale, const T* p, T* d) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = p + r * ld;
    T* drow = d + r * ld;
    for (int64_t i = n; i < ld; ++i) drow[i] = 0;
    V<T> sum{};
    for (int64_t i = 0; i < ld; i += kLanes<T>) sum += load(row + i) * load(drow + i);
    const T dot = lane_sum<T>(sum);
    for (int64_t i = 0; i < ld; i += kLanes<T>) store(drow + i, load(row + i) * (load(drow + i) - dot) * scale);
  }
}

}  // namespace
}  // namespace tcc::nn::TCC_NN_LEVEL
