// Determinants of square matrices.
#include <cmath>
#include <utility>

#include "op.h"

namespace tcc::graph {

Result<TensorType> Typing::determinant() const {
  TCC_TRY_VOID(need_float());
  if (shape(0).size() != 3 || shape(0)[1] != shape(0)[2] || shape(0)[1] < 1)
    return input_error("needs square matrices RxNxN, got {}", shape_text(shape(0)));
  return done({shape(0)[0]});
}

void Runner::determinant() {
  const int64_t n = in(0).shape[1];
  std::vector<double> rows;
  auto at = [&](int64_t i, int64_t j) -> double& { return rows[static_cast<size_t>(i * n + j)]; };
  for (size_t r = 0; r < out_.data.size(); ++r) {
    const auto first = in(0).data.begin() + static_cast<std::ptrdiff_t>(r) * n * n;
    rows.assign(first, first + n * n);
    double product = 1;
    for (int64_t k = 0; k < n; ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < n; ++i)
        if (std::fabs(at(i, k)) > std::fabs(at(pivot, k))) pivot = i;
      if (pivot != k) {
        product = -product;
        for (int64_t j = 0; j < n; ++j) std::swap(at(k, j), at(pivot, j));
      }
      const double head = at(k, k);
      product *= head;
      // Of a column of zeros the determinant is 0 whatever follows.
      for (int64_t i = k + 1; i < n && head != 0; ++i) {
        const double factor = at(i, k) / head;
        for (int64_t j = k; j < n; ++j) at(i, j) -= factor * at(k, j);
      }
    }
    out_.data[r] = product;
  }
}

}  // namespace tcc::graph
