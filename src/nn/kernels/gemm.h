// Matrix product with a fixed order of summation. A tile of kTileRows x 2 vectors is kept in registers; k is cut into
// chunks of kChunk so that a panel stays in the first-level cache. An element is summed over k in ascending order
// whatever the tile, so the number of rows beside it changes nothing.
#pragma once

#include "nn/kernels.h"
#include "nn/kernels/vector.h"

namespace tcc::nn::TCC_NN_LEVEL {
namespace {

template <class T>
constexpr int64_t kPanel = 2 * kLanes<T>;
constexpr int64_t kChunk = 256;

template <class T>
struct Tile {
  const T* a;
  int64_t stride;  // between rows (kRowMajor) or between steps of k
  const T* b;
  int64_t ldb, k;
  T* c;
  int64_t ldc, columns;  // columns < kPanel: only those are written
  const T* bias;         // kPanel values, or nullptr
  bool read_c, relu;
};

template <class T, int kRows, bool kRowMajor>
inline void run_tile(const Tile<T>& t) {
  V<T> acc[kRows][2];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* row = t.c + i * t.ldc;
    if (t.read_c) {
      if (t.columns == kPanel<T>) {
        acc[i][0] = load(row);
        acc[i][1] = load(row + kLanes<T>);
      } else {
        const int64_t first = t.columns < kLanes<T> ? t.columns : kLanes<T>;
        acc[i][0] = load_part(row, first);
        acc[i][1] = load_part(row + first, t.columns - first);
      }
    } else if (t.bias) {
      acc[i][0] = load(t.bias);
      acc[i][1] = load(t.bias + kLanes<T>);
    } else {
      acc[i][0] = acc[i][1] = V<T>{};
    }
  }
  const T* b = t.b;
  const T* a = t.a;
  for (int64_t p = 0; p < t.k; ++p) {
    const V<T> b0 = load(b), b1 = load(b + kLanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V<T> x = splat(kRowMajor ? a[i * t.stride] : a[i]);
      acc[i][0] += x * b0;
      acc[i][1] += x * b1;
    }
    b += t.ldb;
    a += kRowMajor ? 1 : t.stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* row = t.c + i * t.ldc;
    if (t.relu) {
      acc[i][0] = relu_of<T>(acc[i][0]);
      acc[i][1] = relu_of<T>(acc[i][1]);
    }
    if (t.columns == kPanel<T>) {
      store(row, acc[i][0]);
      store(row + kLanes<T>, acc[i][1]);
    } else {
      const int64_t first = t.columns < kLanes<T> ? t.columns : kLanes<T>;
      store_part(row, acc[i][0], first);
      store_part(row + first, acc[i][1], t.columns - first);
    }
  }
}

template <class T, bool kRowMajor>
void run_rows(Tile<T> t, int64_t m) {
  const int64_t step = kRowMajor ? t.stride : 1;
  auto advance = [&](int64_t rows) {
    t.a += rows * step;
    t.c += rows * t.ldc;
    m -= rows;
  };
  while (m >= kTileRows) run_tile<T, kTileRows, kRowMajor>(t), advance(kTileRows);
  if (kTileRows > 6 && m >= 6) run_tile<T, 6, kRowMajor>(t), advance(6);
  if (m >= 4) run_tile<T, 4, kRowMajor>(t), advance(4);
  if (m >= 2) run_tile<T, 2, kRowMajor>(t), advance(2);
  if (m >= 1) run_tile<T, 1, kRowMajor>(t);
}

template <class T>
void pack_panels(int64_t k, int64_t n, const T* src, int64_t row, int64_t column, T* dst) {
  for (int64_t j = 0; j < n; j += kPanel<T>) {
    const int64_t columns = n - j < kPanel<T> ? n - j : kPanel<T>;
    for (int64_t p = 0; p < k; ++p) {
      const T* from = src + p * row + j * column;
      for (int64_t c = 0; c < columns; ++c) dst[c] = from[c * column];
      for (int64_t c = columns; c < kPanel<T>; ++c) dst[c] = 0;
      dst += kPanel<T>;
    }
  }
}

template <class T>
void gemm(const Gemm<T>& g) {
  alignas(64) T packed[kChunk * kPanel<T>];
  alignas(64) T bias[kPanel<T>];
  for (int64_t p = 0; p < g.k || p == 0; p += kChunk) {
    const int64_t k = g.k - p < kChunk ? g.k - p : kChunk;
    const bool last = p + kChunk >= g.k;
    for (int64_t j = 0; j < g.n; j += kPanel<T>) {
      const int64_t columns = g.n - j < kPanel<T> ? g.n - j : kPanel<T>;
      Tile<T> t{.a = g.a + p * g.a_step,
                .stride = g.a_step == 1 ? g.a_row : g.a_step,
                .b = nullptr,
                .ldb = kPanel<T>,
                .k = k,
                .c = g.c + j,
                .ldc = g.ldc,
                .columns = columns,
                .bias = nullptr,
                .read_c = g.accumulate || p > 0,
                .relu = g.relu && last};
      if (g.ldb == 0) {
        t.b = g.b + j * g.k + p * kPanel<T>;
      } else if (columns == kPanel<T>) {
        t.b = g.b + p * g.ldb + j;
        t.ldb = g.ldb;
      } else {
        pack_panels(k, columns, g.b + p * g.ldb + j, g.ldb, 1, packed);
        t.b = packed;
      }
      if (g.bias) {
        for (int64_t c = 0; c < kPanel<T>; ++c) bias[c] = c < columns ? g.bias[j + c] : T(0);
        t.bias = bias;
      }
      if (g.a_step == 1)
        run_rows<T, true>(t, g.m);
      else
        run_rows<T, false>(t, g.m);
    }
  }
}

}  // namespace
}  // namespace tcc::nn::TCC_NN_LEVEL
