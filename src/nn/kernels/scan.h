// Depthwise causal convolution and the selective scan of Mamba (Gu and Dao, 2023, algorithm 2; TCL, section on its cost
// model). With Delta = softplus(dt) and Abar = exp(Delta A):
//   s_t = Abar_t s_{t-1} + Delta_t B_t x_t,   y_t = C_t s_t + D x_t     (TCL's Eq. 5 prints C z in place of C s)
// Channels are the lanes of a vector, and the states of a vector of channels stay in registers.
#pragma once

#include "nn/kernels.h"
#include "nn/kernels/vector.h"

namespace tcc::nn::TCC_NN_LEVEL {
namespace {

template <class T>
void conv(int64_t steps, int64_t width, int64_t taps, const T* x, int64_t ldx, const T* w, const T* bias, T* y,
          int64_t ldy) {
  each_vector<T>(width, [&](int64_t i, int64_t n) {
    const V<T> b = get(bias + i, n);
    for (int64_t t = 0; t < steps; ++t) {
      V<T> sum = b;
      for (int64_t k = t < taps - 1 ? taps - 1 - t : 0; k < taps; ++k)
        sum += get(w + k * width + i, n) * get(x + (t - taps + 1 + k) * ldx + i, n);
      put(y + t * ldy + i, sum, n);
    }
  });
}

template <class T>
void conv_back(int64_t steps, int64_t width, int64_t taps, const T* x, int64_t ldx, const T* w, const T* dy,
               int64_t lddy, T* dx, int64_t lddx, T* dw, T* dbias) {
  each_vector<T>(width, [&](int64_t i, int64_t n) {
    V<T> db = get(dbias + i, n);
    for (int64_t t = 0; t < steps; ++t) db += get(dy + t * lddy + i, n);
    put(dbias + i, db, n);
    for (int64_t k = 0; k < taps; ++k) {
      const V<T> weight = get(w + k * width + i, n);
      V<T> sum = get(dw + k * width + i, n);
      for (int64_t t = taps - 1 - k; t < steps; ++t) {
        const int64_t from = t - taps + 1 + k;
        const V<T> d = get(dy + t * lddy + i, n);
        sum += d * get(x + from * ldx + i, n);
        put(dx + from * lddx + i, get(dx + from * lddx + i, n) + weight * d, n);
      }
      put(dw + k * width + i, sum, n);
    }
  });
}

constexpr int64_t kMaxStates = 64;

template <class T, int kStates>
void scan_states(const Scan<T>& s) {
  const int64_t states = kStates ? kStates : s.states;
  each_vector<T>(s.width, [&](int64_t i, int64_t n) {
    V<T> a[kStates ? kStates : kMaxStates], h[kStates ? kStates : kMaxStates];
    for (int64_t j = 0; j < states; ++j) {
      a[j] = get(s.a + j * s.width + i, n);
      h[j] = V<T>{};
    }
    const V<T> d = get(s.d + i, n);
    for (int64_t t = 0; t < s.steps; ++t) {
      const V<T> x = get(s.x + t * s.ldx + i, n);
      const V<T> delta = softplus_of<T>(get(s.dt + t * s.lddt + i, n));
      const V<T> dx = delta * x;
      V<T> y = d * x;
      const T *b = s.b + t * s.ldb, *c = s.c + t * s.ldc;
      for (int64_t j = 0; j < states; ++j) {
        h[j] = exp_of(delta * a[j]) * h[j] + dx * b[j];
        y += h[j] * c[j];
      }
      put(s.y + t * s.ldy + i, y, n);
    }
  });
}

template <class T>
void scan(const Scan<T>& s) {
  if (s.states == 8)
    scan_states<T, 8>(s);
  else
    scan_states<T, 0>(s);
}

// Values of s_t and Abar_t for one vector of channels, and the sums of dB and dC over channels, by lanes.
template <class T>
int64_t scan_scratch(int64_t steps, int64_t states) {
  return 4 * steps * states * kLanes<T>;
}

template <class T>
void scan_back(const Scan<T>& s) {
  const int64_t lanes = kLanes<T>, plane = s.steps * s.states * lanes;
  T *state = s.scratch, *decay = state + plane, *sum_b = decay + plane, *sum_c = sum_b + plane;
  for (int64_t i = 0; i < 2 * plane; ++i) sum_b[i] = 0;
  each_vector<T>(s.width, [&](int64_t i, int64_t n) {
    V<T> a[kMaxStates], h[kMaxStates], da[kMaxStates];
    for (int64_t j = 0; j < s.states; ++j) {
      a[j] = get(s.a + j * s.width + i, n);
      h[j] = da[j] = V<T>{};
    }
    for (int64_t t = 0; t < s.steps; ++t) {
      const V<T> x = get(s.x + t * s.ldx + i, n), delta = softplus_of<T>(get(s.dt + t * s.lddt + i, n));
      for (int64_t j = 0; j < s.states; ++j) {
        const V<T> e = exp_of(delta * a[j]);
        h[j] = e * h[j] + delta * x * s.b[t * s.ldb + j];
        store(state + (t * s.states + j) * lanes, h[j]);
        store(decay + (t * s.states + j) * lanes, e);
      }
    }
    const V<T> d = get(s.d + i, n);
    V<T> dd = get(s.dd + i, n);
    for (int64_t j = 0; j < s.states; ++j) h[j] = V<T>{};  // from here: Abar_{t+1} lambda_{t+1}
    for (int64_t t = s.steps - 1; t >= 0; --t) {
      const V<T> x = get(s.x + t * s.ldx + i, n), raw = get(s.dt + t * s.lddt + i, n), delta = softplus_of<T>(raw);
      const V<T> dy = get(s.dy + t * s.ldy + i, n);
      V<T> ddelta{}, through{};
      for (int64_t j = 0; j < s.states; ++j) {
        const int64_t at = (t * s.states + j) * lanes;
        const V<T> lambda = dy * s.c[t * s.ldc + j] + h[j], e = load(decay + at);
        const V<T> before = t > 0 ? load(state + at - s.states * lanes) : V<T>{};
        store(sum_c + at, load(sum_c + at) + dy * load(state + at));
        store(sum_b + at, load(sum_b + at) + lambda * delta * x);
        through += lambda * s.b[t * s.ldb + j];
        ddelta += lambda * (a[j] * e * before);
        da[j] += lambda * before * e * delta;
        h[j] = e * lambda;
      }
      ddelta += through * x;
      dd += dy * x;
      put(s.dx + t * s.ldx + i, get(s.dx + t * s.ldx + i, n) + d * dy + delta * through, n);
      put(s.ddt + t * s.lddt + i, get(s.ddt + t * s.lddt + i, n) + ddelta * sigmoid_of<T>(raw), n);
    }
    put(s.dd + i, dd, n);
    for (int64_t j = 0; j < s.states; ++j) {
      T* to = s.da + j * s.width + i;
      put(to, get(to, n) + da[j], n);
    }
  });
  for (int64_t t = 0; t < s.steps; ++t)
    for (int64_t j = 0; j < s.states; ++j) {
      const int64_t at = (t * s.states + j) * lanes;
      s.db[t * s.ldb + j] += lane_sum<T>(load(sum_b + at));
      s.dc[t * s.ldc + j] += lane_sum<T>(load(sum_c + at));
    }
}

}  // namespace
}  // namespace tcc::nn::TCC_NN_LEVEL
