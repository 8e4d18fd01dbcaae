// Determinants of square matrices.
#include <algorithm>
#include <cmath>
#include <utility>

#include "op.h"

namespace tcc::graph {
namespace {

// Eliminates what is below the diagonal of the first n columns, with the largest pivot of each; gives the determinant
// of these columns. What is left of a column of zeros stays as it is.
double eliminate(std::vector<double>& rows, int64_t n, int64_t columns) {
  auto at = [&](int64_t i, int64_t j) -> double& { return rows[static_cast<size_t>(i * columns + j)]; };
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(at(i, k)) > std::fabs(at(pivot, k))) pivot = i;
    if (pivot != k) {
      product = -product;
      for (int64_t j = 0; j < columns; ++j) std::swap(at(k, j), at(pivot, j));
    }
    const double head = at(k, k);
    product *= head;
    for (int64_t i = k + 1; i < n && head != 0; ++i) {
      const double factor = at(i, k) / head;
      for (int64_t j = k; j < columns; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  return product;
}

}  // namespace

Result<TensorType> Typing::determinant() const {
  TCC_TRY_VOID(need_float());
  if (shape(0).size() != 3 || shape(0)[1] != shape(0)[2] || shape(0)[1] < 1)
    return input_error("needs square matrices RxNxN, got {}", shape_text(shape(0)));
  return done({shape(0)[0]});
}

void Runner::determinant() {
  const int64_t n = in(0).shape[1];
  for (size_t r = 0; r < out_.data.size(); ++r) {
    const auto first = in(0).data.begin() + static_cast<std::ptrdiff_t>(r) * n * n;
    std::vector<double> rows(first, first + n * n);
    out_.data[r] = eliminate(rows, n, n);
  }
}

double sum_of_cofactors(const double* matrix, int64_t n) {
  std::vector<double> rows(static_cast<size_t>(2 * n * n), 0.0);  // the matrix beside the identity
  auto at = [&](int64_t i, int64_t j) -> double& { return rows[static_cast<size_t>(i * 2 * n + j)]; };
  for (int64_t i = 0; i < n; ++i) {
    std::copy(matrix + i * n, matrix + (i + 1) * n, &at(i, 0));
    at(i, n + i) = 1;
  }
  const double determinant = eliminate(rows, n, 2 * n);
  double sum = 0;
  for (int64_t i = n; i-- > 0;)
    for (int64_t c = n; c < 2 * n; ++c) {
      for (int64_t j = i + 1; j < n; ++j) at(i, c) -= at(i, j) * at(j, c);
      at(i, c) /= at(i, i);
      sum += std::fabs(determinant * at(i, c));
    }
  if (std::isfinite(sum)) return sum;
  // Of a singular matrix: no cofactor is above the product of the lengths of all rows but its own (Hadamard).
  std::vector<double> lengths;
  for (int64_t i = 0; i < n; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < n; ++j) squares += matrix[i * n + j] * matrix[i * n + j];
    lengths.push_back(std::sqrt(squares));
  }
  sum = 0;
  for (size_t own = 0; own < lengths.size(); ++own) {
    double product = static_cast<double>(n);
    for (size_t i = 0; i < lengths.size(); ++i) product *= i == own ? 1 : lengths[i];
    sum += product;
  }
  return sum;
}

}  // namespace tcc::graph
