// The operators of bind_dims: where a size reaches, and what has to be masked.
#include <cmath>
#include <limits>

#include "dynamic_binder.h"
#include "tcc/graph/integer_range.h"
#include "tcc/support/check.h"

namespace tcc::graph {

namespace {

double least(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return integer_range(dtype).least;
}
double greatest(DType dtype) {
  if (is_float(dtype)) return std::numeric_limits<double>::infinity();
  return integer_range(dtype).greatest;
}

SymbolicShape permuted(const SymbolicShape& shape, const std::vector<int64_t>& perm) {
  if (perm.empty()) return shape;
  SymbolicShape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}
// Where axis `axis` of the permuted tensor is before.
size_t before(const std::vector<int64_t>& perm, size_t axis) {
  return perm.empty() ? axis : static_cast<size_t>(perm[axis]);
}

}  // namespace

template <class Get>
std::vector<int64_t> DimBinder::at_probes(const Node& node, Get get) const {
  std::vector<int64_t> numbers;
  for (size_t p = 0; p < probes_.size(); ++p) numbers.push_back(get(in_probe(p, node)));
  return numbers;
}

Result<SymbolicShape> DimBinder::broadcast(const Node& node, const SymbolicShape& a, const SymbolicShape& b) const {
  SymbolicShape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const SymbolicAxis x = i < a.size() ? a[a.size() - 1 - i] : SymbolicAxis{},
                       y = i < b.size() ? b[b.size() - 1 - i] : SymbolicAxis{};
    if (!x.empty() && !y.empty() && x != y)
      return cannot(node, fmt::format("shapes {} and {} agree for some sizes only", symbolic_text(a, names_),
                                      symbolic_text(b, names_)));
    result[result.size() - 1 - i] = x.empty() ? y : x;
  }
  return result;
}

// The node as it is.
Result<ValueId> DimBinder::plain(const Node& node, SymbolicShape result) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(in(node, i));
  return emit(&node, node.op, node.attrs, std::move(inputs), std::move(result));
}

Result<ValueId> DimBinder::bind(const Node& node) {
  bool any = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) any = any || is_dynamic(shape(in(node, i)));
  if (node.op == Op::kExpand) return expand(node);
  if (node.op == Op::kSlice) return slice(node);
  if (!any) return otherwise(node);
  switch (node.op) {
    case Op::kReshape:
      return reshape(node);
    case Op::kIdentity:
      return plain(node, shape(in(node, 0)));
    case Op::kSoftmax:
    case Op::kLogSoftmax:
      return softmax(node);
    case Op::kLayerNorm:
      return layer_norm(node);
    case Op::kMatMul:
      return matmul(node);
    case Op::kGemm:
      return gemm(node);
    case Op::kConv:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kLrn:
    case Op::kResample:
    case Op::kFold:
      return window(node);
    case Op::kTranspose:
      return transpose(node);
    case Op::kConcat:
      return concat(node);
    case Op::kPad:
      return pad(node);
    case Op::kGather:
    case Op::kGatherElements:
      return gather(node);
    case Op::kScan:
      return scan(node);
    case Op::kTopK:
      return top_k(node);
    case Op::kArg:
      return arg(node);
    case Op::kPackedMatMul:
      return packed_matmul(node);
    case Op::kDeterminant:
      if (is_dynamic(shape(in(node, 0))[1])) return cannot(node, "its matrices have no fixed size");
      return plain(node, {shape(in(node, 0))[0]});
    case Op::kBatchNorm:
      if (is_dynamic(shape(in(node, 0))[1])) return cannot(node, "its channels have no fixed number");
      return plain(node, shape(in(node, 0)));
    default:
      if (op_class(node.op) == OpClass::kReduction) return reduce(node);
      if (op_class(node.op) == OpClass::kElementwise) return elementwise(node);
      return otherwise(node);
  }
}

// A node none of whose inputs has a size that is not known; or one that has no rule.
Result<ValueId> DimBinder::otherwise(const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (is_dynamic(shape(in(node, i)))) return cannot(node, "the operator has no rule for such a dimension");
  SymbolicShape result;
  for (int64_t extent : in_.value(node.output).shape) result.push_back(static_axis(extent));
  return plain(node, result);
}

Result<ValueId> DimBinder::elementwise(const Node& node) {
  SymbolicShape result = shape(in(node, 0));
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    TCC_TRY(result, broadcast(node, result, shape(in(node, i))));
  }
  return plain(node, std::move(result));
}

// Factors keep their order; numbers split where an axis ends.
Result<ValueId> DimBinder::reshape(const Node& node) {
  const Shape& target = in_.value(node.output).shape;
  std::vector<Factor> left;
  for (const SymbolicAxis& axis : shape(in(node, 0)))
    for (const Factor& factor : axis) left.push_back(factor);
  auto refuse = [&] {
    return cannot(node, fmt::format("shape {} has no form {} that is the same for all sizes",
                                    symbolic_text(shape(in(node, 0)), names_), shape_text(target)));
  };
  if (element_count(target) == 0) return refuse();
  size_t next = 0;
  SymbolicShape result;
  for (int64_t extent : target) {
    SymbolicAxis axis;
    while (extent > 1) {
      if (next == left.size()) return refuse();
      Factor& factor = left[next];
      const int64_t own = factor.extent(bounds_);
      if (extent % own == 0) {
        axis.push_back(factor);
        extent /= own;
        ++next;
        continue;
      }
      if (own % extent != 0) return refuse();
      const int64_t inner = own / extent;
      if (factor.symbol >= 0 && (factor.scale % inner != 0 || factor.offset % inner != 0)) return refuse();
      if (factor.symbol >= 0)
        axis.push_back({factor.symbol, factor.scale / inner, factor.offset / inner});
      else
        axis.push_back({-1, 0, extent});
      factor = {-1, 0, inner};
      extent = 1;
    }
    result.push_back(normalized(axis));
  }
  // Factors of extent 1 at the largest sizes would be lost.
  for (; next < left.size(); ++next)
    if (left[next].symbol >= 0 || left[next].offset != 1) return refuse();
  return plain(node, std::move(result));
}

Result<ValueId> DimBinder::softmax(const Node& node) {
  const auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  const SymbolicShape own = shape(in(node, 0));
  const ValueId x = masked(in(node, 0), axis, -std::numeric_limits<double>::infinity());
  const ValueId id = emit(&node, node.op, node.attrs, {x}, own);
  if (is_dynamic(own[axis]) && node.op == Op::kSoftmax) zero_.emplace(id, axis);
  return id;
}

Result<ValueId> DimBinder::layer_norm(const Node& node) {
  const SymbolicShape own = shape(in(node, 0));
  for (size_t axis = static_cast<size_t>(node.as<LayerNormAttrs>().axis); axis < own.size(); ++axis)
    if (is_dynamic(own[axis])) return cannot(node, "it normalizes over that dimension");
  return plain(node, own);
}

Result<ValueId> DimBinder::matmul(const Node& node) {
  const auto& attrs = node.as<MatMulAttrs>();
  ValueId a = in(node, 0), b = in(node, 1);
  const SymbolicShape x = permuted(shape(a), attrs.perm_a), y = permuted(shape(b), attrs.perm_b);
  if (x.size() < 2 || y.size() < 2) return cannot(node, "it multiplies vectors");
  const size_t k_of_a = x.size() - 1, k_of_b = y.size() - 2;
  if (x[k_of_a] != y[k_of_b]) return cannot(node, "its operands agree for some sizes only");
  if (is_dynamic(x[k_of_a])) {
    a = zeroed(a, before(attrs.perm_a, k_of_a));
    b = zeroed(b, before(attrs.perm_b, k_of_b));
  }
  TCC_TRY(SymbolicShape result,
          broadcast(node, SymbolicShape(x.begin(), x.end() - 2), SymbolicShape(y.begin(), y.end() - 2)));
  result.push_back(x[x.size() - 2]);
  result.push_back(y.back());
  return emit(&node, node.op, node.attrs, {a, b}, permuted(result, attrs.perm_out));
}

Result<ValueId> DimBinder::gemm(const Node& node) {
  const auto& attrs = node.as<GemmAttrs>();
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(in(node, i));
  const size_t k_of_a = attrs.trans_a ? 0 : 1, k_of_b = attrs.trans_b ? 1 : 0;
  const SymbolicAxis rows = shape(inputs[0])[1 - k_of_a], columns = shape(inputs[1])[1 - k_of_b];
  if (shape(inputs[0])[k_of_a] != shape(inputs[1])[k_of_b])
    return cannot(node, "its operands agree for some sizes only");
  if (is_dynamic(shape(inputs[0])[k_of_a])) {
    inputs[0] = zeroed(inputs[0], k_of_a);
    inputs[1] = zeroed(inputs[1], k_of_b);
  }
  const SymbolicShape result{rows, columns};
  if (inputs.size() > 2) {
    TCC_TRY_VOID(broadcast(node, result, shape(inputs[2])));
  }
  return emit(&node, node.op, node.attrs, inputs, result);
}

namespace {

struct Sliding {
  int64_t kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;
};
std::vector<Sliding> sliding_of(const Node& node) {
  std::vector<Sliding> all;
  auto take = [&](const auto& a) {
    for (size_t i = 0; i < a.kernel.size(); ++i)
      all.push_back({a.kernel[i], a.strides[i], a.dilations[i], a.pads_begin[i], a.pads_end[i]});
  };
  if (node.op == Op::kConv) take(node.as<ConvAttrs>());
  if (node.op == Op::kMaxPool || node.op == Op::kAveragePool) take(node.as<PoolAttrs>());
  return all;
}

}  // namespace

// Images are independent. Positions beyond the actual extent are padding.
Result<ValueId> DimBinder::window(const Node& node) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(in(node, i));
  for (size_t i = 1; i < inputs.size(); ++i)
    if (is_dynamic(shape(inputs[i]))) return cannot(node, "its weights have no fixed shape");
  SymbolicShape result;
  for (int64_t extent : in_.value(node.output).shape) result.push_back(static_axis(extent));
  const SymbolicShape own = shape(inputs[0]);
  if (node.op == Op::kResample || node.op == Op::kLrn || node.op == Op::kFold) {
    for (size_t axis = 0; axis < own.size(); ++axis) {
      bool used = node.op == Op::kLrn ? axis == 1 : node.op == Op::kFold && axis > 1;
      if (node.op == Op::kResample)
        for (int64_t resampled : node.as<ResampleAttrs>().axes) used = used || std::cmp_equal(resampled, axis);
      if (!is_dynamic(own[axis])) continue;
      if (used) return cannot(node, "elements along that dimension are combined");
      result[axis] = own[axis];
    }
    return emit(&node, node.op, node.attrs, inputs, result);
  }
  if (is_dynamic(own[1])) return cannot(node, "its channels have no fixed number");
  result[0] = own[0];
  const std::vector<Sliding> windows = sliding_of(node);
  const bool pool = node.op != Op::kConv;
  for (size_t axis = 2; axis < own.size(); ++axis) {
    if (!is_dynamic(own[axis])) continue;
    const Sliding& w = windows[axis - 2];
    if (own[axis].size() != 1 || own[axis][0].scale % w.stride != 0)
      return cannot(node, fmt::format("windows in steps of {} over an extent of {}", w.stride,
                                      symbolic_text({own[axis]}, names_)));
    if (pool && node.as<PoolAttrs>().ceil_mode) return cannot(node, "ceil_mode depends on the size");
    if (node.op == Op::kAveragePool && (w.begin != 0 || w.end != 0))
      return cannot(node, "it counts the positions inside the input");
    const Factor& from = own[axis][0];
    const int64_t rest = from.offset + w.begin + w.end - ((w.kernel - 1) * w.dilation + 1);
    const int64_t steps = rest >= 0 ? rest / w.stride : -((-rest + w.stride - 1) / w.stride);
    result[axis] = {{from.symbol, from.scale / w.stride, steps + 1}};
    inputs[0] = masked(inputs[0], axis, node.op == Op::kMaxPool ? least(out_.value(inputs[0]).dtype) : 0);
  }
  return emit(&node, node.op, node.attrs, inputs, result);
}

Result<ValueId> DimBinder::reduce(const Node& node) {
  const auto& attrs = node.as<ReduceAttrs>();
  ValueId x = in(node, 0);
  const DType dtype = out_.value(x).dtype;
  const SymbolicShape own = shape(x);
  SymbolicShape result;
  SymbolicAxis count;
  bool reduced = false;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (std::find(attrs.axes.begin(), attrs.axes.end(), static_cast<int64_t>(axis)) == attrs.axes.end()) {
      result.push_back(own[axis]);
      continue;
    }
    if (attrs.keep_dims) result.emplace_back();
    count.insert(count.end(), own[axis].begin(), own[axis].end());
    reduced = reduced || is_dynamic(own[axis]);
  }
  if (!reduced) return plain(node, result);
  const double neutral = node.op == Op::kReduceMax    ? least(dtype)
                         : node.op == Op::kReduceMin  ? greatest(dtype)
                         : node.op == Op::kReduceProd ? 1
                                                      : 0;
  for (int64_t axis : attrs.axes) x = masked(x, static_cast<size_t>(axis), neutral);
  if (node.op != Op::kReduceMean) return emit(&node, node.op, node.attrs, {x}, result);
  const ValueId sum = emit(&node, Op::kReduceSum, node.attrs, {x}, result);
  const ValueId terms = emit(&node, Op::kCast, CastAttrs{dtype}, {extent_of(normalized(count))}, {});
  return emit(&node, Op::kDiv, NoAttrs{}, {sum, terms}, result);
}

Result<ValueId> DimBinder::transpose(const Node& node) {
  const auto& perm = node.as<TransposeAttrs>().perm;
  const SymbolicShape result = permuted(shape(in(node, 0)), perm);
  TCC_TRY(const ValueId id, plain(node, result));
  for (size_t axis = 0; axis < perm.size(); ++axis)
    if (zero_.contains({in(node, 0), static_cast<size_t>(perm[axis])})) zero_.emplace(id, axis);
  return id;
}

// Where only the last part has a size that is not known, the others are where they always are. Else a part begins
// where the one before it ends, which is a sum of sizes.
Result<ValueId> DimBinder::concat(const Node& node) {
  const auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  SymbolicShape result = shape(in(node, 0));
  Factor sum{-1, 0, 0};
  std::vector<Factor> starts;
  bool moves = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SymbolicShape& part = shape(in(node, i));
    for (size_t a = 0; a < part.size(); ++a)
      if (a != axis && part[a] != result[a]) return cannot(node, "its inputs agree for some sizes only");
    if (part[axis].size() > 1 ||
        (!part[axis].empty() && part[axis][0].symbol >= 0 && sum.symbol >= 0 && part[axis][0].symbol != sum.symbol))
      return cannot(node, "its extent is the sum of several sizes");
    moves = moves || sum.symbol >= 0;
    starts.push_back(sum);
    const Factor extent = part[axis].empty() ? Factor{} : part[axis][0];
    if (extent.symbol >= 0) sum.symbol = extent.symbol;
    sum.scale += extent.scale;
    sum.offset += extent.offset;
  }
  result[axis] = {sum};
  if (!moves) return plain(node, result);
  const int64_t whole = sum.extent(bounds_);
  ValueId joined = kNone;
  for (size_t i = node.inputs.size(); i-- > 0;) {
    const int64_t own = out_.value(in(node, i)).shape[axis];
    std::vector<double> at;
    for (int64_t p = 0; p < whole; ++p) at.push_back(static_cast<double>(p));
    SymbolicShape line{static_axis(whole)};
    ValueId indices = constant(DType::kI64, {whole}, at);
    const Factor& start = starts[i];
    if (start.symbol >= 0 || start.offset != 0)
      indices = emit(nullptr, Op::kSub, NoAttrs{}, {indices, limit_of(start)}, line);
    indices = emit(nullptr, Op::kClip, ClipAttrs{0, static_cast<double>(own - 1)}, {indices}, line);
    const ValueId part = picked(node, in(node, i), axis, indices, result[axis]);
    if (joined == kNone) {
      joined = part;
      continue;
    }
    // The part counts before the next one starts.
    ValueId wide = emit(nullptr, Op::kBinary, BinaryAttrs{BinaryFn::kLess},
                        {constant(DType::kI64, {whole}, at), limit_of(starts[i + 1])}, line);
    const size_t trailing = result.size() - axis - 1;
    if (trailing > 0) {
      Shape column{whole};
      column.resize(1 + trailing, 1);
      SymbolicShape symbolic{static_axis(whole)};
      symbolic.resize(1 + trailing);
      wide = emit(nullptr, Op::kReshape, ReshapeAttrs{column}, {wide}, symbolic);
    }
    joined = emit(&node, Op::kWhere, NoAttrs{}, {wide, part, joined}, result);
  }
  return joined;
}

Result<ValueId> DimBinder::pad(const Node& node) {
  const auto& attrs = node.as<PadAttrs>();
  ValueId x = in(node, 0);
  const SymbolicShape own = shape(x);
  SymbolicShape result;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    const int64_t more = attrs.begin[axis] + attrs.end[axis];
    for (size_t p = 0; p < probes_.size(); ++p) {
      const auto& other = in_probe(p, node).as<PadAttrs>();
      if (other.begin[axis] != attrs.begin[axis] || other.end[axis] != attrs.end[axis])
        return cannot(node, "its padding depends on the size");
    }
    if (more == 0 || !is_dynamic(own[axis])) {
      result.push_back(more == 0 ? own[axis] : static_axis(axis_extent(own[axis], bounds_) + more));
      continue;
    }
    if (own[axis].size() != 1) return cannot(node, "it pads a product of sizes");
    result.push_back({{own[axis][0].symbol, own[axis][0].scale, own[axis][0].offset + more}});
    if (attrs.end[axis] > 0) x = masked(x, axis, attrs.value);
  }
  return emit(&node, node.op, node.attrs, {x}, result);
}

Result<ValueId> DimBinder::slice(const Node& node) {
  const auto& attrs = node.as<SliceAttrs>();
  const SymbolicShape own = shape(in(node, 0));
  SliceAttrs fixed = attrs;
  SymbolicShape result;
  struct Moving {
    size_t axis;
    Factor start;
    SymbolicAxis now;
  };
  std::vector<Moving> moving;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    auto number = [&](std::vector<int64_t> SliceAttrs::* which) {
      return fit_number((attrs.*which)[axis],
                        at_probes(node, [&](const Node& other) { return (other.as<SliceAttrs>().*which)[axis]; }));
    };
    const auto start = number(&SliceAttrs::starts), extent = number(&SliceAttrs::extents),
               step = number(&SliceAttrs::steps);
    const bool whole = start && start->symbol < 0 && attrs.starts[axis] == 0 && attrs.steps[axis] == 1 &&
                       attrs.extents[axis] == axis_extent(own[axis], bounds_);
    if (whole) {
      result.push_back(own[axis]);
      continue;
    }
    if (!start || !extent || !step || step->symbol >= 0 || own[axis].size() > 1)
      return cannot(node, "it cuts out a part that is not affine in the size");
    const SymbolicAxis now = extent->symbol < 0 ? static_axis(extent->offset) : SymbolicAxis{*extent};
    result.push_back(now);
    if (start->symbol < 0) continue;
    moving.push_back({axis, *start, now});
    fixed.starts[axis] = 0;
    fixed.steps[axis] = 1;
    fixed.extents[axis] = axis_extent(own[axis], bounds_);
    result.back() = own[axis];
  }
  ValueId x = in(node, 0);
  if (moving.size() < own.size() || own.empty()) x = emit(&node, Op::kSlice, fixed, {x}, result);
  for (const Moving& m : moving) {
    const int64_t extent = out_.value(x).shape[m.axis];
    const ValueId indices = runtime_indices(m.start, attrs.steps[m.axis], axis_extent(m.now, bounds_), extent);
    x = picked(node, x, m.axis, indices, m.now);
  }
  return x;
}

Result<ValueId> DimBinder::expand(const Node& node) {
  const SymbolicShape own = shape(in(node, 0));
  const Shape& target = in_.value(node.output).shape;
  SymbolicShape result;
  for (size_t axis = 0; axis < target.size(); ++axis) {
    const size_t missing = target.size() - own.size();
    if (axis >= missing && !own[axis - missing].empty()) {
      result.push_back(own[axis - missing]);
      continue;
    }
    std::vector<int64_t> others;
    for (const Probe& probe : probes_) others.push_back(probe.graph->value(node.output).shape[axis]);
    const auto fitted = fit_axis(target[axis], others);
    if (!fitted) return cannot(node, fmt::format("axis {} of its result is not affine in one size", axis));
    result.push_back(*fitted);
  }
  return plain(node, result);
}

// Negative indices count from the actual end.
Result<ValueId> DimBinder::gather(const Node& node) {
  const auto axis = static_cast<size_t>(node.as<AxisAttrs>().axis);
  const ValueId data = in(node, 0);
  ValueId indices = in(node, 1);
  const SymbolicShape own = shape(data), at = shape(indices);
  const Value& picks = out_.value(indices);
  bool negative = true;
  if (picks.is_constant()) {
    const auto values = constant_integers(*picks.constant, picks.dtype, picks.elements());
    negative = std::any_of(values.begin(), values.end(), [](int64_t i) { return i < 0; });
  }
  if (is_dynamic(own[axis]) && negative) {
    const DType dtype = picks.dtype;
    ValueId extent = extent_of(own[axis]);
    if (dtype != DType::kI64) extent = emit(&node, Op::kCast, CastAttrs{dtype}, {extent}, {});
    const ValueId below =
        emit(&node, Op::kBinary, BinaryAttrs{BinaryFn::kLess}, {indices, constant(dtype, {}, {0})}, at);
    const ValueId from_end = emit(&node, Op::kAdd, NoAttrs{}, {indices, extent}, at);
    indices = emit(&node, Op::kWhere, NoAttrs{}, {below, from_end, indices}, at);
  }
  SymbolicShape result = at;
  if (node.op == Op::kGatherElements) {
    for (size_t a = 0; a < own.size(); ++a)
      if (a != axis && (is_dynamic(own[a]) || is_dynamic(at[a])) && own[a] != at[a])
        return cannot(node, "its inputs agree for some sizes only");
  } else {
    result.assign(own.begin(), own.begin() + static_cast<ptrdiff_t>(axis));
    result.insert(result.end(), at.begin(), at.end());
    result.insert(result.end(), own.begin() + static_cast<ptrdiff_t>(axis) + 1, own.end());
  }
  return emit(&node, node.op, node.attrs, {data, indices}, result);
}

Result<ValueId> DimBinder::packed_matmul(const Node& node) {
  SymbolicShape result = shape(in(node, 0));
  if (is_dynamic(result.back())) return cannot(node, "its sums have no fixed number of terms");
  result.back() = static_axis(node.as<PackedMatMulAttrs>().columns);
  return plain(node, std::move(result));
}

Result<ValueId> DimBinder::scan(const Node& node) {
  const auto& attrs = node.as<ScanAttrs>();
  ValueId x = in(node, 0);
  const SymbolicShape own = shape(x);
  if (attrs.reverse) x = masked(x, static_cast<size_t>(attrs.axis), attrs.product ? 1 : 0);
  return emit(&node, node.op, node.attrs, {x}, own);
}

Result<ValueId> DimBinder::top_k(const Node& node) {
  const auto& attrs = node.as<TopKAttrs>();
  const auto axis = static_cast<size_t>(attrs.axis);
  ValueId x = in(node, 0);
  SymbolicShape result = shape(x);
  const auto counts = fit_number(attrs.k, at_probes(node, [](const Node& other) { return other.as<TopKAttrs>().k; }));
  if (!counts) return cannot(node, "its k is not affine in the size");
  // Numbers that are NaN come before all others among the greatest, and after all others among the least.
  if (is_dynamic(result[axis]) && !attrs.largest && is_float(out_.value(x).dtype))
    x = masked(x, axis, std::numeric_limits<double>::quiet_NaN());
  else
    x = masked(x, axis, attrs.largest ? least(out_.value(x).dtype) : greatest(out_.value(x).dtype));
  result[axis] = counts->symbol < 0 ? static_axis(attrs.k) : SymbolicAxis{*counts};
  return emit(&node, node.op, node.attrs, {x}, result);
}

Result<ValueId> DimBinder::arg(const Node& node) {
  const auto& attrs = node.as<ArgAttrs>();
  const auto axis = static_cast<size_t>(attrs.axis);
  ValueId x = in(node, 0);
  SymbolicShape result = shape(x);
  const SymbolicAxis extent = std::exchange(result[axis], {});
  if (!is_dynamic(extent)) return plain(node, result);
  const DType dtype = out_.value(x).dtype;
  x = masked(x, axis, attrs.greatest ? least(dtype) : greatest(dtype));
  const ValueId found = emit(&node, node.op, node.attrs, {x}, result);
  if (!attrs.last) return found;
  // What was put behind the row is last where all of it is the least number: then its own last element is as good.
  const ValueId one = constant(DType::kI64, {}, {1});
  const ValueId end = emit(&node, Op::kSub, NoAttrs{}, {extent_of(normalized(extent)), one}, {});
  return emit(&node, Op::kBinary, BinaryAttrs{BinaryFn::kMin}, {found, end}, result);
}

}  // namespace tcc::graph
