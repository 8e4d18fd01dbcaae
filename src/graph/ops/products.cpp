// Matrix products.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "op.h"

namespace tcc::graph {
// c = a * b; strides in elements: a(m, k) = a[m * am + k * ak], b(k, n) = b[k * bk + n * bn]; c is dense.
void Runner::product(const double* a, int64_t am, int64_t ak, const double* b, int64_t bk, int64_t bn, int64_t rows,
                     int64_t columns, int64_t depth, double* c) {
  constexpr int64_t kBlock = 64;
  int64_t blocks = (columns + kBlock - 1) / kBlock;
  const double share = static_cast<double>(rows * columns) / static_cast<double>(std::max<size_t>(out_.data.size(), 1));
  in_parallel(rows * blocks, share, [&](int64_t i) {
    int64_t m = i / blocks, n0 = i % blocks * kBlock, n1 = std::min(columns, n0 + kBlock);
    std::array<double, kBlock> sum{};
    for (int64_t k = 0; k < depth; ++k) {
      double x = a[m * am + k * ak];
      const double* y = b + k * bk + n0 * bn;
      for (int64_t n = 0; n < n1 - n0; ++n) sum[static_cast<size_t>(n)] += x * y[n * bn];
    }
    std::copy(sum.begin(), sum.begin() + (n1 - n0), c + m * columns + n0);
  });
}

Result<TensorType> Typing::gemm() const {
  const auto& a = node_.as<GemmAttrs>();
  TCC_TRY_VOID(need_product_types());
  if (shape(0).size() != 2 || shape(1).size() != 2) {
    return input_error("needs two matrices, got {} and {}", shape_text(shape(0)), shape_text(shape(1)));
  }
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta)) return input_error("alpha and beta must be finite");
  if (!is_float(in(0).dtype) && (a.alpha != std::trunc(a.alpha) || a.beta != std::trunc(a.beta)))
    return refuse(Refusal::kAttribute, "alpha {} and beta {} must be whole for {}", a.alpha, a.beta,
                  dtype_name(in(0).dtype));
  int64_t m = shape(0)[a.trans_a ? 1 : 0], k = shape(0)[a.trans_a ? 0 : 1];
  int64_t n = shape(1)[a.trans_b ? 0 : 1], k2 = shape(1)[a.trans_b ? 1 : 0];
  if (k != k2) {
    return input_error("inner extents differ: {} ({}transposed) and {} ({}transposed)", shape_text(shape(0)),
                       a.trans_a ? "" : "not ", shape_text(shape(1)), a.trans_b ? "" : "not ");
  }
  Shape out{m, n};
  if (node_.inputs.size() == 3 && broadcast_shapes(shape(2), out) != out) {
    return input_error("C of shape {} does not broadcast to {}", shape_text(shape(2)), shape_text(out));
  }
  return summed(out);
}

Result<TensorType> Typing::matmul() const {
  TCC_TRY_VOID(need_product_types());
  const auto& attrs = node_.as<MatMulAttrs>();
  TCC_TRY(Shape a, permuted(shape(0), attrs.perm_a));
  TCC_TRY(Shape b, permuted(shape(1), attrs.perm_b));
  if (a.empty() || b.empty()) return input_error("does not take scalars");
  bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), 1);
  if (vector_b) b.push_back(1);
  auto batch = broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (a.back() != b[b.size() - 2] || !batch) {
    return input_error("shapes {} and {} do not fit", shape_text(shape(0)), shape_text(shape(1)));
  }
  Shape out = *batch;
  if (!vector_a) out.push_back(a[a.size() - 2]);
  if (!vector_b) out.push_back(b.back());
  TCC_TRY(out, permuted(out, attrs.perm_out));
  return summed(out);
}

void Runner::gemm() {
  const auto& a = node_.as<GemmAttrs>();
  int64_t rows = out_.shape[0], columns = out_.shape[1];
  int64_t depth = in(0).shape[a.trans_a ? 0 : 1];
  product(in(0).data.data(), a.trans_a ? 1 : depth, a.trans_a ? rows : 1, in(1).data.data(), a.trans_b ? 1 : columns,
          a.trans_b ? depth : 1, rows, columns, depth, out_.data.data());
  std::vector<int64_t> strides(2, 0);
  if (inputs_.size() == 3) strides = broadcast_strides(in(2).shape, out_.shape);
  IndexWalk walk(out_.shape);
  for (double& y : out_.data) {
    y = a.alpha * y + (inputs_.size() == 3 ? a.beta * in(2).data[static_cast<size_t>(walk.offset(strides))] : 0.0);
    walk.next();
  }
}

void Runner::matmul() {
  const auto& a = node_.as<MatMulAttrs>();
  HostTensor left = permuted(in(0), a.perm_a), right = permuted(in(1), a.perm_b);
  inputs_ = {&left, &right};
  if (!a.perm_out.empty()) {
    Shape plain(out_.shape.size());
    for (size_t i = 0; i < plain.size(); ++i) plain[static_cast<size_t>(a.perm_out[i])] = out_.shape[i];
    out_.shape = plain;
  }
  plain_matmul();
  out_ = permuted(out_, a.perm_out);
}

void Runner::plain_matmul() {
  Shape a = in(0).shape, b = in(1).shape, out = out_.shape;
  if (a.size() == 1) {
    a.insert(a.begin(), 1);
    out.insert(out.end() - (b.size() == 1 ? 0 : 1), 1);
  }
  if (b.size() == 1) {
    b.push_back(1);
    out.push_back(1);
  }
  int64_t rows = a[a.size() - 2], depth = a.back(), columns = b.back();
  Shape batch(out.begin(), out.end() - 2);
  auto sa = broadcast_strides(Shape(a.begin(), a.end() - 2), batch);
  auto sb = broadcast_strides(Shape(b.begin(), b.end() - 2), batch);
  IndexWalk walk(batch);
  for (int64_t i = 0; i < element_count(batch); ++i, walk.next()) {
    product(in(0).data.data() + walk.offset(sa) * rows * depth, depth, 1,
            in(1).data.data() + walk.offset(sb) * depth * columns, columns, 1, rows, columns, depth,
            out_.data.data() + i * rows * columns);
  }
}

}  // namespace tcc::graph
