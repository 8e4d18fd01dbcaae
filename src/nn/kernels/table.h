// The functions over flat arrays, and the table of the level.
#pragma once

#include "nn/kernels.h"
#include "nn/kernels/gemm.h"
#include "nn/kernels/rows.h"
#include "nn/kernels/scan.h"

namespace tcc::nn::TCC_NN_LEVEL {
namespace {

template <class T>
double rank_pairs(int64_t n, const T* score, const T* label, const T* gain, const T* discount, T sigma, T* grad) {
  constexpr double kLog2E = 1.4426950408889634;
  double loss = 0;
  for (int64_t i = 0; i < n; ++i) {
    V<T> sum{}, own{};
    each_vector<T>(n, [&](int64_t j, int64_t w) {
      // Lanes past the end get the own label, which makes no pair.
      V<T> other = splat(label[i]);
      if (w == kLanes<T>)
        other = load(label + j);
      else
        for (int64_t l = 0; l < w; ++l) other[l] = label[j + l];
      const V<T> z = sigma * (score[i] - get(score + j, w));
      const V<T> weight = abs_of<T>(gain[i] - get(gain + j, w)) * abs_of<T>(discount[i] - get(discount + j, w));
      const V<T> pair = other < label[i] ? weight : V<T>{};
      const V<T> e = exp_of(-abs_of<T>(z)), s = T(1) / (T(1) + e);
      const V<T> slope = pair * (z < T(0) ? s : e * s);  // weight * sigmoid(-z)
      sum += pair * (vmax<T>(-z, V<T>{}) + log1p_of(e));
      own += slope;
      put(grad + j, get(grad + j, w) + slope * static_cast<T>(kLog2E) * sigma, w);
    });
    loss += static_cast<double>(lane_sum<T>(sum)) * kLog2E;
    grad[i] -= lane_sum<T>(own) * static_cast<T>(kLog2E) * sigma;
  }
  return loss;
}

template <class T>
double sum_of_squares(int64_t n, const T* x) {
  double total = 0;
  constexpr int64_t kBlock = 4096;  // float sums of a block, doubles over blocks
  for (int64_t at = 0; at < n; at += kBlock) {
    V<T> sum{};
    each_vector<T>(n - at < kBlock ? n - at : kBlock, [&](int64_t i, int64_t w) {
      const V<T> v = get(x + at + i, w);
      sum += v * v;
    });
    total += static_cast<double>(lane_sum<T>(sum));
  }
  return total;
}

template <class T>
void combine(int64_t n, T alpha, const T* x, T beta, T* y) {
  each_vector<T>(n, [&](int64_t i, int64_t w) { put(y + i, alpha * get(x + i, w) + beta * get(y + i, w), w); });
}

template <class T>
inline V<T> root(V<T> x) {
  V<T> y;
  for (int64_t i = 0; i < kLanes<T>; ++i) y[i] = sqrt_of(x[i]);
  return y;
}

template <class T>
void adam(const Adam<T>& o, int64_t n, const T* grad, T decay, T* m, T* v, T* param) {
  each_vector<T>(n, [&](int64_t i, int64_t w) {
    const V<T> p = get(param + i, w), g = get(grad + i, w) + decay * p;
    const V<T> mean = o.beta1 * get(m + i, w) + (T(1) - o.beta1) * g;
    const V<T> square = o.beta2 * get(v + i, w) + (T(1) - o.beta2) * g * g;
    put(m + i, mean, w);
    put(v + i, square, w);
    put(param + i, p - o.rate * (mean / o.correction1) / (root<T>(square / o.correction2) + o.epsilon), w);
  });
}

template <class T>
constexpr Kernels<T> make_table() {
  return {.panel = kPanel<T>,
          .gemm = gemm<T>,
          .pack = pack_panels<T>,
          .activate = activate<T>,
          .activate_back = activate_back<T>,
          .add = add_rows<T>,
          .copy = copy_rows<T>,
          .scale = scale_rows<T>,
          .multiply = multiply_rows<T>,
          .column_sum = column_sum<T>,
          .layer_norm = layer_norm<T>,
          .layer_norm_back = layer_norm_back<T>,
          .softmax = softmax<T>,
          .softmax_back = softmax_back<T>,
          .conv = conv<T>,
          .conv_back = conv_back<T>,
          .scan = scan<T>,
          .scan_back = scan_back<T>,
          .scan_scratch = scan_scratch<T>,
          .rank_pairs = rank_pairs<T>,
          .sum_of_squares = sum_of_squares<T>,
          .combine = combine<T>,
          .adam = adam<T>};
}

}  // namespace

const Kernels<float> table_f32 = make_table<float>();
const Kernels<double> table_f64 = make_table<double>();

}  // namespace tcc::nn::TCC_NN_LEVEL
