// A row-major view of float features: rows x cols, no ownership.
#pragma once

#include <cstddef>
#include <span>

namespace tcc {

template <class T>
class Span2D {
 public:
  Span2D() = default;
  Span2D(T* data, size_t rows, size_t cols) : data_(data), rows_(rows), cols_(cols) {}
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  std::span<T> row(size_t i) const { return {data_ + i * cols_, cols_}; }
  T& operator()(size_t i, size_t j) const { return data_[i * cols_ + j]; }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  size_t rows_ = 0, cols_ = 0;
};

}  // namespace tcc
