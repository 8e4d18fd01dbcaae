// Products with weights of 4 bits: PackedMatMul.
#include "op.h"

namespace tcc::graph {

double packed_weight(const PackedMatMulAttrs& a, int64_t terms, const std::vector<double>& numbers,
                     const std::vector<double>& scales, const std::vector<double>& zeros, int64_t k, int64_t n) {
  const int64_t panel = n / kPackedColumns, lane = n % kPackedColumns;
  const auto byte =
      static_cast<int>(numbers[static_cast<size_t>((panel * (terms / 2) + k / 2) * kPackedColumns + lane)]);
  const auto at = static_cast<size_t>((panel * (terms / a.block) + k / a.block) * kPackedColumns + lane);
  return ((k % 2 == 0 ? byte & 15 : byte >> 4) - zeros[at]) * scales[at];
}

Result<TensorType> Typing::packed_matmul() const {
  const auto& a = node_.as<PackedMatMulAttrs>();
  if (in(0).dtype != DType::kF32 || in(1).dtype != DType::kU8 || in(2).dtype != DType::kF32 ||
      in(3).dtype != DType::kF32 || shape(0).empty() || a.columns < 1 || a.block < 2 || a.block % 2 != 0 ||
      shape(0).back() % a.block != 0)
    return input_error("{} {} and {} columns of {} in blocks of {} do not fit", dtype_name(in(0).dtype),
                       shape_text(shape(0)), a.columns, dtype_name(in(1).dtype), a.block);
  const int64_t terms = shape(0).back(), panels = (a.columns + kPackedColumns - 1) / kPackedColumns;
  const Shape each{panels, terms / a.block, kPackedColumns};
  if (shape(1) != Shape{panels, terms / 2, kPackedColumns} || shape(2) != each || shape(3) != each)
    return input_error("packed weights {}, scales {} and zero points {} do not fit {} in blocks of {}",
                       shape_text(shape(1)), shape_text(shape(2)), shape_text(shape(3)), shape_text(shape(0)), a.block);
  Shape out = shape(0);
  out.back() = a.columns;
  return done(std::move(out));
}

void Runner::packed_matmul() {
  const auto& a = node_.as<PackedMatMulAttrs>();
  const int64_t terms = in(0).shape.back(), rows = terms == 0 ? 0 : std::ssize(in(0).data) / terms;
  in_parallel(a.columns, 1, [&](int64_t n) {
    std::vector<double> weights;
    for (int64_t k = 0; k < terms; ++k)
      weights.push_back(packed_weight(a, terms, in(1).data, in(2).data, in(3).data, k, n));
    for (int64_t m = 0; m < rows; ++m) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += in(0).data[static_cast<size_t>(m * terms + k)] * weights[static_cast<size_t>(k)];
      out_.data[static_cast<size_t>(m * a.columns + n)] = sum;
    }
  });
}

}  // namespace tcc::graph
