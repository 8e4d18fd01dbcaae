// Products with weights of 4 bits: PackedMatMul.
#include "op.h"

namespace tcc::graph {
namespace {

struct PackedShape {
  int64_t terms, columns, block, blocks, panels;
  PackedShape(const Shape& x, const PackedMatMulAttrs& a)
      : terms(x.back()),
        columns(a.columns),
        block(a.block),
        blocks(terms / a.block),
        panels((a.columns + kPackedColumns - 1) / kPackedColumns) {}
};

}  // namespace

Result<TensorType> Typing::packed_matmul() const {
  const auto& a = node_.as<PackedMatMulAttrs>();
  if (in(0).dtype != DType::kF32 || in(1).dtype != DType::kU8 || in(2).dtype != DType::kF32 ||
      in(3).dtype != DType::kF32 || shape(0).empty() || a.columns < 1 || a.block < 2 || a.block % 2 != 0 ||
      shape(0).back() % a.block != 0)
    return input_error("{} {} and {} columns of {} in blocks of {} do not fit", dtype_name(in(0).dtype),
                       shape_text(shape(0)), a.columns, dtype_name(in(1).dtype), a.block);
  const PackedShape p(shape(0), a);
  const Shape each{p.panels, p.blocks, kPackedColumns};
  if (shape(1) != Shape{p.panels, p.terms / 2, kPackedColumns} || shape(2) != each || shape(3) != each)
    return input_error("packed weights {}, scales {} and zero points {} do not fit {} in blocks of {}",
                       shape_text(shape(1)), shape_text(shape(2)), shape_text(shape(3)), shape_text(shape(0)), a.block);
  Shape out = shape(0);
  out.back() = a.columns;
  return done(std::move(out));
}

void Runner::packed_matmul() {
  const PackedShape p(in(0).shape, node_.as<PackedMatMulAttrs>());
  const int64_t rows = p.terms == 0 ? 0 : std::ssize(in(0).data) / p.terms;
  in_parallel(p.columns, 1, [&](int64_t n) {
    const int64_t panel = n / kPackedColumns, lane = n % kPackedColumns;
    std::vector<double> weights(static_cast<size_t>(p.terms));
    for (int64_t k = 0; k < p.terms; ++k) {
      const auto byte =
          static_cast<int>(in(1).data[static_cast<size_t>((panel * (p.terms / 2) + k / 2) * kPackedColumns + lane)]);
      const auto at = static_cast<size_t>((panel * p.blocks + k / p.block) * kPackedColumns + lane);
      weights[static_cast<size_t>(k)] = ((k % 2 == 0 ? byte & 15 : byte >> 4) - in(3).data[at]) * in(2).data[at];
    }
    for (int64_t m = 0; m < rows; ++m) {
      double sum = 0;
      for (int64_t k = 0; k < p.terms; ++k)
        sum += in(0).data[static_cast<size_t>(m * p.terms + k)] * weights[static_cast<size_t>(k)];
      out_.data[static_cast<size_t>(m * p.columns + n)] = sum;
    }
  });
}

}  // namespace tcc::graph
