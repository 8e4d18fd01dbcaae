#include "count_masks.h"

#include <limits>

#include "tcc/graph/integer_range.h"

namespace tcc::onnx {

namespace {

ValueId fill_of(NodeContext& c, DType dtype, Fill fill) {
  if (fill == Fill::kNan) return c.scalar(dtype, std::numeric_limits<double>::quiet_NaN());
  if (fill == Fill::kZero || fill == Fill::kOne) return c.scalar(dtype, fill == Fill::kOne ? 1 : 0);
  const bool least = fill == Fill::kLeast;
  if (graph::is_float(dtype))
    return c.scalar(dtype, least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  if (dtype == DType::kI64)
    return c.constant(dtype, {},
                      graph::make_constant_i64(std::vector<int64_t>{least ? std::numeric_limits<int64_t>::min()
                                                                          : std::numeric_limits<int64_t>::max()}));
  const graph::IntegerRange range = graph::integer_range(dtype);
  return c.scalar(dtype, least ? range.least : range.greatest);
}

}  // namespace

Made mask_of(NodeContext& c, ValueId count, int64_t extent, size_t trailing) {
  const auto key = std::tuple(count, extent, trailing);
  if (auto known = c.book().masks.find(key); known != c.book().masks.end()) return known->second;
  const Made made = c.binary(BinaryFn::kLess, c.iota(DType::kI32, extent, 0, trailing + 1), c.cast(count, DType::kI32));
  if (made) c.book().masks[key] = *made;
  return made;
}

Counts counts_of(NodeContext& c, ValueId id) {
  const Counts* counts = c.counts(id);
  return counts != nullptr ? *counts : Counts(c.value(id).shape.size(), graph::kNone);
}

Made masked(NodeContext& c, const Made& x, size_t axis, ValueId count, Fill fill) {
  if (!x || count == graph::kNone) return x;
  const graph::Value& v = c.value(*x);
  const Shape shape = v.shape;
  const DType dtype = v.dtype;
  TCC_TRY(const ValueId mask, mask_of(c, count, shape[axis], shape.size() - axis - 1));
  return c.emit_fixed(Op::kWhere, graph::NoAttrs{}, {mask, *x, fill_of(c, dtype, fill)});
}

Result<ValueId> without_counts(NodeContext& c, ValueId mask) {
  const Counts counts = counts_of(c, mask);
  Made x = mask;
  for (size_t axis = 0; axis < counts.size(); ++axis) x = masked(c, x, axis, counts[axis], Fill::kZero);
  return x;
}

Result<Found> find_true(NodeContext& c, ValueId mask, int64_t most) {
  if (auto known = c.book().found.find(mask);
      known != c.book().found.end() && c.value(known->second.first).shape == Shape{most})
    return Found{known->second.first, known->second.second};
  TCC_TRY(const ValueId own, without_counts(c, mask));
  TCC_TRY(const ValueId flat, c.emit_reshape(own, {c.value(own).elements()}));
  TCC_TRY(const ValueId places, c.emit(Op::kFind, graph::FindAttrs{most}, {flat}));
  TCC_TRY(const ValueId count, c.reduce(Op::kReduceSum, c.cast(flat, DType::kI64), {0}, false));
  TCC_TRY(const ValueId some,
          c.value(flat).shape[0] == most ? Made(count) : derived_count(c, CountOp::kAtMost, count, most));
  c.book().numbers[some] = {{0, most, some}};
  c.book().found[mask] = {places, some};
  return Found{places, some};
}

}  // namespace tcc::onnx
