// The arithmetic of the networks: functions over raw arrays, compiled once for each level of x86-64 and chosen at run
// time (level.h). The rest of the room is plain code that calls them through this table.
//
// No value depends on the rows beside it: a product sums over k in ascending order, one accumulator for each element,
// and every function of a row or of a segment sees only that row or segment. So a prediction has the same bits in every
// batch and with any number of threads.
//
// Matrices are row-major; ld is the distance between rows in elements. "Panels" are a right-hand matrix (k x n) packed
// as ceil(n / panel) blocks of k rows of `panel` columns, padded with zeros.
#pragma once

#include <cstdint>

#include "tcc/nn/level.h"

namespace tcc::nn {

enum class Act : int { kNone, kRelu, kSilu, kSigmoid, kSoftplus };

// C (m x n) = act(init + A B), init = the old C where `accumulate`, otherwise the bias or 0.
template <class T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;  // element (i, p) is a[i * a_row + p * a_step]; one of the two strides is 1
  int64_t a_row = 0, a_step = 1;
  const T* b = nullptr;  // panels where ldb is 0, otherwise rows of length ldb
  int64_t ldb = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  const T* bias = nullptr;  // n values or nullptr
  bool accumulate = false, relu = false;
};

// One call of the selective scan (Mamba, S6) over one segment of `steps` rows and `width` channels with N states.
template <class T>
struct Scan {
  int64_t steps = 0, width = 0, states = 0;
  const T *x = nullptr, *dt = nullptr, *b = nullptr, *c = nullptr;  // steps x width, width, states, states
  int64_t ldx = 0, lddt = 0, ldb = 0, ldc = 0;
  const T* a = nullptr;  // states x width: A, negative
  const T* d = nullptr;  // width
  T* y = nullptr;        // steps x width
  int64_t ldy = 0;
  // Backward only: dy is the gradient of y; the others are added to.
  const T* dy = nullptr;
  T *dx = nullptr, *ddt = nullptr, *db = nullptr, *dc = nullptr;  // with the strides of x, dt, b, c
  T *da = nullptr, *dd = nullptr;                                 // states x width, width
  T* scratch = nullptr;                                           // scan_scratch(steps, states) elements
};

template <class T>
struct Adam {
  T rate, beta1, beta2, epsilon, correction1, correction2;  // corrections: 1 - beta^t
};

template <class T>
struct Kernels {
  int64_t panel;  // columns of a panel

  void (*gemm)(const Gemm<T>&);
  // dst = panels of the k x n matrix with element (p, j) at src[p * row + j * column].
  void (*pack)(int64_t k, int64_t n, const T* src, int64_t row, int64_t column, T* dst);

  // y = act(x); dx += or = dy * act'(x), from x and y.
  void (*activate)(Act, int64_t rows, int64_t n, const T* x, int64_t ldx, T* y, int64_t ldy);
  void (*activate_back)(Act, int64_t rows, int64_t n, const T* x, int64_t ldx, const T* y, int64_t ldy, const T* dy,
                        int64_t lddy, T* dx, int64_t lddx, bool accumulate);
  // y = a + b; y = y + b where a is y.
  void (*add)(int64_t rows, int64_t n, const T* a, int64_t lda, const T* b, int64_t ldb, T* y, int64_t ldy);
  // y = x, or y += x.
  void (*copy)(int64_t rows, int64_t n, const T* x, int64_t ldx, T* y, int64_t ldy, bool accumulate);
  // y = x * scale (per column), or y += ; shift, where given, is added.
  void (*scale)(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* scale, const T* shift, T* y, int64_t ldy,
                bool accumulate);
  // y = a * b, elementwise, or y +=.
  void (*multiply)(int64_t rows, int64_t n, const T* a, int64_t lda, const T* b, int64_t ldb, T* y, int64_t ldy,
                   bool accumulate);
  // sum += column sums of x; with b: of x * b.
  void (*column_sum)(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* b, int64_t ldb, T* sum);

  // y = gamma (x - mean) rstd + beta for each row; stats = (mean, rstd) per row.
  void (*layer_norm)(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* gamma, const T* beta, T epsilon, T* y,
                     int64_t ldy, T* stats);
  // dx += or =; dgamma and dbeta +=.
  void (*layer_norm_back)(int64_t rows, int64_t n, const T* x, int64_t ldx, const T* gamma, const T* stats, const T* dy,
                          int64_t lddy, T* dx, int64_t lddx, bool accumulate, T* dgamma, T* dbeta);

  // Softmax of scale * x over the first n of `ld` columns of each row, in place; the other columns become 0.
  void (*softmax)(int64_t rows, int64_t n, int64_t ld, T scale, T* x);
  // d = p * (d - sum(d * p)) * scale for each row; columns past n become 0.
  void (*softmax_back)(int64_t rows, int64_t n, int64_t ld, T scale, const T* p, T* d);

  // Depthwise causal convolution over one segment: y_t = bias + sum_k w[k] x_{t - taps + 1 + k}; w is taps x width.
  void (*conv)(int64_t steps, int64_t width, int64_t taps, const T* x, int64_t ldx, const T* w, const T* bias, T* y,
               int64_t ldy);
  void (*conv_back)(int64_t steps, int64_t width, int64_t taps, const T* x, int64_t ldx, const T* w, const T* dy,
                    int64_t lddy, T* dx, int64_t lddx, T* dw, T* dbias);
  void (*scan)(const Scan<T>&);
  void (*scan_back)(const Scan<T>&);
  int64_t (*scan_scratch)(int64_t steps, int64_t states);

  // The loss of LambdaRank (loss.h) over n values in the order of descending score, with gains g and 1 / log2(1 + rank)
  // in `discount`: returns the sum of the pairs, adds the gradient to `grad`.
  double (*rank_pairs)(int64_t n, const T* score, const T* label, const T* gain, const T* discount, T sigma, T* grad);

  // Sums over flat arrays, in a fixed order.
  double (*sum_of_squares)(int64_t n, const T* x);
  // y = alpha x + beta y
  void (*combine)(int64_t n, T alpha, const T* x, T beta, T* y);
  void (*adam)(const Adam<T>&, int64_t n, const T* grad, T decay, T* m, T* v, T* param);
};

// The table of a level. The host must have its instructions.
const Kernels<float>& kernels_f32(Level level);
const Kernels<double>& kernels_f64(Level level);
template <class T>
const Kernels<T>& kernels_of(Level level);

namespace v2 {
extern const Kernels<float> table_f32;
extern const Kernels<double> table_f64;
}  // namespace v2
namespace v3 {
extern const Kernels<float> table_f32;
extern const Kernels<double> table_f64;
}  // namespace v3
namespace v4 {
extern const Kernels<float> table_f32;
extern const Kernels<double> table_f64;
}  // namespace v4

}  // namespace tcc::nn
