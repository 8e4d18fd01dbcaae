#include "counts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "count_masks.h"
#include "count_places.h"
#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

bool is_nonnegative(const NodeContext& c, ValueId id, int depth = 0) {
  const graph::Value& v = c.value(id);
  if (v.is_constant()) {
    if (graph::is_float(v.dtype) || v.elements() > kMaxTable) return false;
    const auto numbers = graph::constant_integers(*v.constant, v.dtype, v.elements());
    return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n >= 0; });
  }
  const graph::Node* node = c.producer(id);
  if (node == nullptr || depth > 32) return false;
  auto all = [&] {
    return std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](ValueId input) { return is_nonnegative(c, input, depth + 1); });
  };
  switch (node->op) {
    case Op::kFind:
    case Op::kTopK:
    case Op::kArg:
      return true;
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kIdentity:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
      return is_nonnegative(c, node->inputs[0], depth + 1);
    case Op::kConcat:
    case Op::kDiv:
    case Op::kMul:
      return all();
    case Op::kBinary:
      return node->as<graph::BinaryAttrs>().fn == BinaryFn::kMod && is_nonnegative(c, node->inputs[1], depth + 1);
    default:
      return false;
  }
}

// --- operators ----------------------------------------------------------------------------------------------------

// Gives one operator's node on inputs with counts.
class Follower {
 public:
  Follower(NodeContext& c, Op op, graph::Attributes attrs, std::vector<ValueId> inputs)
      : c_(c), op_(op), attrs_(std::move(attrs)), in_(std::move(inputs)) {
    for (ValueId id : in_) counts_.push_back(counts_of(c, id));
  }

  Made run() {
    switch (graph::op_class(op_)) {
      case graph::OpClass::kElementwise:
        return op_ == Op::kBatchNorm ? leading(1) : elementwise();
      case graph::OpClass::kReduction:
        return reduce();
      case graph::OpClass::kWindow:
        return op_ == Op::kFold ? leading(2, 2 + as<graph::FoldAttrs>().image.size()) : leading(1);
      default:
        break;
    }
    switch (op_) {
      case Op::kIdentity:
        return done(counts_[0]);
      case Op::kTranspose: {
        Counts counts;
        for (int64_t axis : as<graph::TransposeAttrs>().perm) counts.push_back(counts_[0][static_cast<size_t>(axis)]);
        return done(counts);
      }
      case Op::kReshape:
        return reshape();
      case Op::kSlice:
        return slice();
      case Op::kExpand: {
        Counts counts(as<graph::ReshapeAttrs>().shape.size(), graph::kNone);
        std::copy(counts_[0].begin(), counts_[0].end(), counts.end() - std::ssize(counts_[0]));
        return done(counts);
      }
      case Op::kConcat:
        return concat();
      case Op::kPad:
        for (size_t a = 0; a < counts_[0].size(); ++a)
          if (counted(0, a) && (as<graph::PadAttrs>().begin[a] != 0 || as<graph::PadAttrs>().end[a] != 0))
            return refused(0, a, "cannot be padded");
        return done(counts_[0]);
      case Op::kGather:
      case Op::kGatherElements:
        return gather();
      case Op::kGatherNd:
        return gather_nd();
      case Op::kScatter:
        return scatter();
      case Op::kSoftmax:
      case Op::kLogSoftmax:
        mask(0, static_cast<size_t>(as<graph::AxisAttrs>().axis), Fill::kLeast);
        return done(counts_[0]);
      case Op::kLayerNorm:
        for (size_t a = static_cast<size_t>(as<graph::LayerNormAttrs>().axis); a < counts_[0].size(); ++a)
          if (counted(0, a)) return refused(0, a, "is normalized");
        return done(counts_[0]);
      case Op::kScan:
        if (as<graph::ScanAttrs>().reverse)
          mask(0, static_cast<size_t>(as<graph::ScanAttrs>().axis),
               as<graph::ScanAttrs>().product ? Fill::kOne : Fill::kZero);
        return done(counts_[0]);
      case Op::kTopK:
        return top_k();
      case Op::kArg:
        return arg();
      case Op::kMatMul:
        return matmul();
      case Op::kGemm:
        return gemm();
      case Op::kConv:
        return leading(1);
      case Op::kDeterminant:
        return leading(1, 1);
      case Op::kPackedMatMul:
        return leading(shape(0).size() - 1);
      case Op::kFind: {
        mask(0, 0, Fill::kZero);
        return done({graph::kNone});
      }
      default:
        for (size_t i = 0; i < in_.size(); ++i)
          for (size_t a = 0; a < counts_[i].size(); ++a)
            if (counted(i, a)) return refused(i, a, "is not supported by this operator");
        return done(Counts(counts_[0].size(), graph::kNone));
    }
  }

 private:
  template <class T>
  const T& as() const {
    return std::get<T>(attrs_);
  }
  bool counted(size_t input, size_t axis) const { return counts_[input][axis] != graph::kNone; }
  const Shape& shape(size_t input) const { return c_.value(in_[input]).shape; }

  Made done(Counts counts) {
    if (!failed_) return failed_;
    TCC_TRY(const ValueId id, c_.emit_fixed(op_, attrs_, in_));
    c_.set_counts(id, std::move(counts));
    return id;
  }

  tl::unexpected<Error> refused(size_t input, size_t axis, const char* why) {
    return c_.refuse_count(in_[input], axis, why);
  }

  void mask(size_t input, size_t axis, Fill fill) {
    if (!failed_ || !counted(input, axis)) return;
    failed_ = masked(c_, in_[input], axis, counts_[input][axis], fill);
    if (failed_) in_[input] = *failed_;
  }

  // Operands of one count have one extent in the graph, too, unless another bound of it was found.
  void cut(size_t input, size_t axis, int64_t extent) {
    if (!failed_ || shape(input)[axis] <= extent) return;
    const Shape own = shape(input);
    graph::SliceAttrs attrs{std::vector<int64_t>(own.size(), 0), std::vector<int64_t>(own.size(), 1), own};
    attrs.extents[axis] = extent;
    failed_ = c_.emit_fixed(Op::kSlice, attrs, {in_[input]});
    if (failed_) in_[input] = *failed_;
  }

  // The counts of broadcast operands. `skip`: of that many axes at the end of each, which are not broadcast.
  Result<Counts> broadcast(const std::vector<size_t>& inputs, size_t skip = 0) {
    size_t rank = 0;
    for (size_t i : inputs) rank = std::max(rank, shape(i).size());
    Counts result(rank - skip, graph::kNone);
    for (size_t axis = 0; axis + skip < rank; ++axis) {
      const size_t behind = rank - axis;  // axes from this one on
      int64_t extent = std::numeric_limits<int64_t>::max();
      for (size_t i : inputs) {
        if (shape(i).size() < behind) continue;
        const size_t own = shape(i).size() - behind;
        if (!counted(i, own)) continue;
        if (result[axis] == graph::kNone) result[axis] = counts_[i][own];
        extent = std::min(extent, shape(i)[own]);
        if (counts_[i][own] != result[axis] && !c_.same_number(counts_[i][own], result[axis]))
          return refused(i, own, "meets another extent that is known at run time only, and may differ from it");
      }
      if (result[axis] == graph::kNone) continue;
      for (size_t i : inputs) {
        if (shape(i).size() < behind) continue;
        const size_t own = shape(i).size() - behind;
        if (counted(i, own))
          cut(i, own, extent);
        else if (shape(i)[own] != 1)
          return c_.refuse_count(graph::kNone, own, "is known at run time only in one operand, and fixed in another");
      }
    }
    if (!failed_) return tl::make_unexpected(failed_.error());
    return result;
  }

  Made elementwise() {
    std::vector<size_t> all;
    for (size_t i = 0; i < in_.size(); ++i) all.push_back(i);
    TCC_TRY(Counts counts, broadcast(all));
    return done(std::move(counts));
  }

  // Only the first `axes` axes of the first input may have counts: rows that do not meet.
  Made leading(size_t axes) { return leading(axes, counts_[0].size()); }
  // For a result of `rank` axes.
  Made leading(size_t axes, size_t rank) {
    for (size_t i = 0; i < in_.size(); ++i)
      for (size_t a = 0; a < counts_[i].size(); ++a)
        if (counted(i, a) && (i > 0 || a >= axes)) return refused(i, a, "is combined");
    Counts counts = counts_[0];
    counts.resize(rank, graph::kNone);
    return done(counts);
  }

  // Groups of axes that hold the same elements before and after. A count stays where it is that of the outermost axis:
  // then the elements that count are the first ones of the group. Elsewhere they are brought there first.
  Made reshape() {
    const Shape from = shape(0), to = as<graph::ReshapeAttrs>().shape;
    Counts counts(to.size(), graph::kNone);
    if (graph::element_count(from) == 0 || graph::element_count(from) != graph::element_count(to)) return done(counts);
    Shape packed;  // the data's shape once all groups are packed that need it
    for (size_t i = 0, j = 0; i < from.size();) {
      size_t i_end = i, j_end = j;
      int64_t a = from[i_end++], b = j_end < to.size() ? to[j_end++] : 1;
      while (a != b) {
        if (a < b)
          a *= from[i_end++];
        else
          b *= to[j_end++];
      }
      // Axes of one element behind the last group belong to it.
      if (i_end == from.size()) j_end = to.size();
      if (j_end == to.size()) i_end = from.size();
      TCC_TRY_VOID(reshape_group(from, to, i, i_end, j, j_end, counts, packed));
      i = i_end;
      j = j_end;
    }
    return done(counts);
  }

  Result<void> reshape_group(const Shape& from, const Shape& to, size_t i, size_t i_end, size_t j, size_t j_end,
                             Counts& counts, Shape& packed) {
    size_t at = i;
    while (at < i_end && !counted(0, at)) ++at;
    if (at == i_end) {
      packed.insert(packed.end(), from.begin() + static_cast<std::ptrdiff_t>(i),
                    from.begin() + static_cast<std::ptrdiff_t>(i_end));
      return {};
    }
    size_t target = j;
    while (target + 1 < j_end && to[target] == 1) ++target;
    if (target >= j_end) return refused(0, at, "disappears");
    bool leads = true;
    for (size_t k = i; k < i_end; ++k) leads = leads && !(k < at && from[k] != 1) && !(k > at && counted(0, k));
    ValueId count = counts_[0][at];
    int64_t inner = 1, now = 1;
    for (size_t k = at + 1; k < i_end; ++k) inner *= from[k];
    for (size_t k = target + 1; k < j_end; ++k) now *= to[k];
    if (leads) {
      packed.insert(packed.end(), from.begin() + static_cast<std::ptrdiff_t>(i),
                    from.begin() + static_cast<std::ptrdiff_t>(i_end));
    } else {
      TCC_TRY_SET(count, pack_group(from, i, i_end, packed));
      inner = 1;
    }
    const int64_t common = std::gcd(inner, now);
    if (inner != common) TCC_TRY_SET(count, derived_count(c_, CountOp::kTimes, count, inner / common));
    if (now != common) TCC_TRY_SET(count, derived_count(c_, CountOp::kOver, count, now / common));
    counts[target] = count;
    return {};
  }

  // Makes one axis of a group's axes, in which the elements that count are the first ones. Gives how many these are.
  // `packed` has the axes in front of the group and gets the new one; the data takes that shape.
  Made pack_group(const Shape& from, size_t i, size_t i_end, Shape& packed) {
    const auto first = static_cast<std::ptrdiff_t>(i), last = static_cast<std::ptrdiff_t>(i_end);
    const std::vector<ValueId> ends(counts_[0].begin() + first, counts_[0].begin() + last);
    const Shape extents(from.begin() + first, from.begin() + last);
    TCC_TRY(const ValueId places, packed_places(c_, ends, extents));
    const auto axis = static_cast<int64_t>(packed.size());
    packed.push_back(graph::element_count(extents));
    Shape joined = packed;
    joined.insert(joined.end(), from.begin() + last, from.end());
    TCC_TRY(const ValueId data, c_.emit_fixed(Op::kReshape, graph::ReshapeAttrs{joined}, {in_[0]}));
    TCC_TRY_SET(in_[0], c_.emit_fixed(Op::kGather, graph::AxisAttrs{axis}, {data, places}));
    std::vector<ValueId> counts;
    int64_t fixed = 1;
    for (size_t k = 0; k < ends.size(); ++k)
      if (ends[k] == graph::kNone)
        fixed *= extents[k];
      else
        counts.push_back(ends[k]);
    return product_of(c_, counts, fixed);
  }

  Made slice() {
    const auto& a = as<graph::SliceAttrs>();
    const Shape own = shape(0);
    Counts counts = counts_[0];
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (!counted(0, axis) || (a.starts[axis] == 0 && a.steps[axis] == 1 && a.extents[axis] == own[axis])) continue;
      if (a.steps[axis] != 1) return refused(0, axis, "is cut in steps");
      if (a.starts[axis] > 0)
        TCC_TRY_SET(counts[axis], derived_count(c_, CountOp::kWithout, counts[axis], a.starts[axis]));
      TCC_TRY_SET(counts[axis], derived_count(c_, CountOp::kAtMost, counts[axis], a.extents[axis]));
    }
    return done(counts);
  }

  // Parts whose ends are known at run time only: a part begins where the one before it ends. Positions of the result
  // are moved by what the parts before them lack.
  Made concat() {
    const auto axis = static_cast<size_t>(as<graph::AxisAttrs>().axis);
    Counts counts(shape(0).size(), graph::kNone);
    for (size_t a = 0; a < counts.size(); ++a) {
      if (a == axis) continue;
      for (size_t i = 0; i < in_.size(); ++i) {
        if (i == 0) counts[a] = counts_[0][a];
        if (counts_[i][a] != counts[a])
          return refused(counted(i, a) ? i : 0, a, "is fixed, or another, in another part");
      }
    }
    std::vector<ValueId> ends, counted_parts;
    std::vector<int64_t> extents;
    int64_t fixed_parts = 0;
    for (size_t i = 0; i < in_.size(); ++i) {
      ends.push_back(counts_[i][axis]);
      extents.push_back(shape(i)[axis]);
      if (counted(i, axis))
        counted_parts.push_back(counts_[i][axis]);
      else
        fixed_parts += shape(i)[axis];
    }
    if (counted_parts.empty()) return done(counts);
    Counts joined = counts;
    TCC_TRY_SET(joined[axis], sum_of(c_, counted_parts, fixed_parts));
    if (counted_parts.size() == 1 && ends.back() != graph::kNone)
      return done(joined);  // only the last part may end early
    TCC_TRY(const ValueId places, joined_places(c_, ends, extents));
    TCC_TRY(const ValueId parts, done(counts));
    c_.set_counts(parts, Counts(counts.size(), graph::kNone));
    TCC_TRY(const ValueId id,
            c_.emit_fixed(Op::kGather, graph::AxisAttrs{static_cast<int64_t>(axis)}, {parts, places}));
    c_.set_counts(id, std::move(joined));
    return id;
  }

  // Negative indices count from the actual end.
  Result<void> count_from_end(size_t axis, ValueId count) {
    if (is_nonnegative(c_, in_[1])) return {};
    const DType dtype = c_.value(in_[1]).dtype;
    TCC_TRY(const ValueId zero, Made(c_.scalar(dtype, 0)));
    TCC_TRY(const ValueId end, c_.cast(count, dtype));
    TCC_TRY(const ValueId below, c_.emit_fixed(Op::kBinary, graph::BinaryAttrs{BinaryFn::kLess}, {in_[1], zero}));
    TCC_TRY(const ValueId moved, c_.emit_fixed(Op::kAdd, graph::NoAttrs{}, {in_[1], end}));
    (void)axis;
    TCC_TRY_SET(in_[1], c_.emit_fixed(Op::kWhere, graph::NoAttrs{}, {below, moved, in_[1]}));
    return {};
  }

  Made gather() {
    const auto axis = static_cast<size_t>(as<graph::AxisAttrs>().axis);
    if (counted(0, axis)) TCC_TRY_VOID(count_from_end(axis, counts_[0][axis]));
    if (op_ == Op::kGatherElements) return done(counts_[1]);
    Counts counts(counts_[0].begin(), counts_[0].begin() + static_cast<std::ptrdiff_t>(axis));
    counts.insert(counts.end(), counts_[1].begin(), counts_[1].end());
    counts.insert(counts.end(), counts_[0].begin() + static_cast<std::ptrdiff_t>(axis) + 1, counts_[0].end());
    return done(counts);
  }

  Made gather_nd() {
    const auto batch = static_cast<size_t>(as<graph::GatherNdAttrs>().batch_dims);
    const auto depth = static_cast<size_t>(std::max<int64_t>(shape(1).empty() ? 0 : shape(1).back(), 0));
    if (shape(1).empty() || batch + depth > shape(0).size() || batch >= shape(1).size()) return done({});
    if (counts_[1].back() != graph::kNone) return refused(1, counts_[1].size() - 1, "is the depth of indices");
    for (size_t a = 0; a < batch + depth; ++a)
      if (counted(0, a) && (a < batch ? counts_[1][a] != counts_[0][a] : !is_nonnegative(c_, in_[1])))
        return refused(0, a, a < batch ? "is another in the indices" : "is indexed by numbers that may be negative");
    Counts counts(counts_[1].begin(), counts_[1].end() - 1);
    counts.insert(counts.end(), counts_[0].begin() + static_cast<std::ptrdiff_t>(batch + depth), counts_[0].end());
    return done(counts);
  }

  // Updates that do not count go to a place that is out of range.
  Made scatter() {
    const auto& a = as<graph::ScatterAttrs>();
    const bool elements = a.axis >= 0;
    const size_t depth = elements || shape(1).empty() ? 0 : static_cast<size_t>(shape(1).back());
    for (size_t axis = 0; axis < counts_[0].size(); ++axis)
      if (counted(0, axis) && (elements ? static_cast<int64_t>(axis) == a.axis : axis < depth) &&
          !is_nonnegative(c_, in_[1]))
        return refused(0, axis, "is indexed by numbers that may be negative");
    if (!elements && !counts_[1].empty() && counts_[1].back() != graph::kNone)
      return refused(1, counts_[1].size() - 1, "is the depth of indices");
    for (size_t axis = 0; axis < counts_[1].size(); ++axis) {
      ValueId count = counts_[1][axis];
      if (count == graph::kNone && axis < counts_[2].size()) count = counts_[2][axis];
      if (!failed_) return failed_;
      if (count != graph::kNone) failed_ = masked(c_, in_[1], axis, count, Fill::kGreatest);
      if (failed_ && count != graph::kNone) in_[1] = *failed_;
    }
    return done(counts_[0]);
  }

  Made reduce() {
    const auto& a = as<graph::ReduceAttrs>();
    const DType dtype = c_.value(in_[0]).dtype;
    Counts counts;
    Made terms = c_.scalar(DType::kI64, 1);
    bool any = false;
    const Fill fill = op_ == Op::kReduceMax    ? Fill::kLeast
                      : op_ == Op::kReduceMin  ? Fill::kGreatest
                      : op_ == Op::kReduceProd ? Fill::kOne
                                               : Fill::kZero;
    for (size_t axis = 0; axis < counts_[0].size(); ++axis) {
      if (std::find(a.axes.begin(), a.axes.end(), static_cast<int64_t>(axis)) == a.axes.end()) {
        counts.push_back(counts_[0][axis]);
        continue;
      }
      if (a.keep_dims) counts.push_back(graph::kNone);
      any = any || counted(0, axis);
      const Made extent =
          counted(0, axis) ? Made(counts_[0][axis]) : Made(c_.scalar(DType::kI64, static_cast<double>(shape(0)[axis])));
      terms = c_.arithmetic(Op::kMul, terms, extent);
      mask(0, axis, fill);
    }
    if (!any || op_ != Op::kReduceMean) return done(counts);
    op_ = Op::kReduceSum;
    TCC_TRY(const ValueId sum, done(counts));
    return c_.arithmetic(Op::kDiv, sum, c_.cast(terms, dtype));
  }

  // Numbers that are NaN come before all others among the greatest, and after all others among the least.
  Made top_k() {
    const auto& a = as<graph::TopKAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const bool real = graph::is_float(c_.value(in_[0]).dtype);
    Counts counts = counts_[0];
    mask(0, axis, a.largest ? Fill::kLeast : real ? Fill::kNan : Fill::kGreatest);
    if (counts[axis] != graph::kNone) TCC_TRY_SET(counts[axis], derived_count(c_, CountOp::kAtMost, counts[axis], a.k));
    return done(counts);
  }

  Made arg() {
    const auto& a = as<graph::ArgAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    Counts counts = counts_[0];
    const ValueId count = std::exchange(counts[axis], graph::kNone);
    mask(0, axis, a.greatest ? Fill::kLeast : Fill::kGreatest);
    TCC_TRY(const ValueId found, done(counts));
    if (!a.last || count == graph::kNone) return found;
    // What is behind the row is last where all of it is the least number: then its own last element is as good.
    const Made end = c_.arithmetic(Op::kSub, count, c_.scalar(DType::kI64, 1));
    return c_.binary(BinaryFn::kMin, found, c_.binary(BinaryFn::kMax, end, c_.scalar(DType::kI64, 0)));
  }

  Made matmul() {
    const auto& a = as<graph::MatMulAttrs>();
    const size_t left = counts_[0].size(), right = counts_[1].size();
    if (!a.perm_a.empty() || !a.perm_b.empty() || !a.perm_out.empty() || left < 2 || right < 2) return leading(0);
    if (counted(0, left - 1) || counted(1, right - 2)) {
      if (counts_[0][left - 1] != counts_[1][right - 2])
        return refused(counted(0, left - 1) ? 0 : 1, counted(0, left - 1) ? left - 1 : right - 2,
                       "is another in the other operand");
      mask(0, left - 1, Fill::kZero);
      mask(1, right - 2, Fill::kZero);
    }
    TCC_TRY(Counts counts, broadcast({0, 1}, 2));
    counts.push_back(counts_[0][left - 2]);
    counts.push_back(counts_[1][right - 1]);
    return done(counts);
  }

  Made gemm() {
    const auto& a = as<graph::GemmAttrs>();
    const size_t row = a.trans_a ? 1 : 0, column = a.trans_b ? 0 : 1;
    if (counts_[0].size() != 2 || counts_[1].size() != 2) return leading(0);
    if (counts_[0][1 - row] != counts_[1][1 - column])
      return refused(counted(0, 1 - row) ? 0 : 1, 1 - (counted(0, 1 - row) ? row : column),
                     "is another in the other operand");
    mask(0, 1 - row, Fill::kZero);
    mask(1, 1 - column, Fill::kZero);
    const Counts counts{counts_[0][row], counts_[1][column]};
    for (size_t axis = 0; in_.size() == 3 && axis < counts_[2].size(); ++axis) {
      const size_t of = axis + 2 - counts_[2].size();
      if (counts_[2][axis] != counts[of] && (counted(2, axis) || shape(2)[axis] != 1))
        return refused(counted(2, axis) ? 2 : of,
                       counted(2, axis) ? axis
                       : of == 0        ? row
                                        : column,
                       "is another in the other operand");
    }
    return done(counts);
  }

  NodeContext& c_;
  Op op_;
  graph::Attributes attrs_;
  std::vector<ValueId> in_;
  std::vector<Counts> counts_;
  Made failed_ = graph::kNone;  // the last mask, or why it could not be made
};

}  // namespace

Result<ValueId> emit_counted(NodeContext& c, Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
  return Follower(c, op, std::move(attrs), std::move(inputs)).run();
}

Result<ValueId> derived_count(NodeContext& c, CountOp op, ValueId a, int64_t b) {
  const auto key = std::tuple(op, a, b);
  auto& derived = c.book().derived;
  if (auto known = derived.find(key); known != derived.end()) return known->second;
  const Made other = c.constant(DType::kI64, {}, graph::make_constant_i64(std::vector<int64_t>{b}));
  const CountedNumber range = c.number(a);
  if (op == CountOp::kAtMost && range.high <= b) return a;
  Made made = op == CountOp::kAtMost  ? c.binary(BinaryFn::kMin, a, other)
              : op == CountOp::kTimes ? c.arithmetic(Op::kMul, a, other)
              : op == CountOp::kOver
                  ? c.arithmetic(Op::kDiv, a, other)
                  : c.binary(BinaryFn::kMax, c.arithmetic(Op::kSub, a, other), c.scalar(DType::kI64, 0));
  if (made) derived[key] = *made;
  return made;
}

Result<ValueId> choose_counted(NodeContext& c, ValueId condition, ValueId yes, ValueId no) {
  const Counts counts[2] = {counts_of(c, yes), counts_of(c, no)};
  const Shape shapes[2] = {c.value(yes).shape, c.value(no).shape};
  Shape shape = shapes[0];
  Counts chosen(shape.size(), graph::kNone);
  for (size_t a = 0; a < shape.size(); ++a) {
    shape[a] = std::max(shapes[0][a], shapes[1][a]);
    if (counts[0][a] == counts[1][a] && shapes[0][a] == shapes[1][a]) {
      chosen[a] = counts[0][a];
      continue;
    }
    Made extents[2];
    for (size_t k = 0; k < 2; ++k)
      extents[k] = counts[k][a] != graph::kNone ? Made(counts[k][a])
                                                : Made(c.scalar(DType::kI64, static_cast<double>(shapes[k][a])));
    TCC_TRY_SET(chosen[a], c.where(condition, extents[0], extents[1]));
  }
  ValueId wide[2] = {yes, no};
  for (size_t k = 0; k < 2; ++k) {
    if (shapes[k] == shape) continue;
    if (graph::element_count(shapes[k]) == 0) {
      const DType dtype = c.value(wide[k]).dtype;
      wide[k] = c.constant(dtype, shape, graph::make_splat(dtype, 0));
      continue;
    }
    graph::PadAttrs pad{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 0), 0};
    for (size_t a = 0; a < shape.size(); ++a) pad.end[a] = shape[a] - shapes[k][a];
    TCC_TRY_SET(wide[k], c.emit_fixed(Op::kPad, pad, {wide[k]}));
  }
  TCC_TRY(const ValueId id, c.emit_fixed(Op::kWhere, graph::NoAttrs{}, {condition, wide[0], wide[1]}));
  c.set_counts(id, std::move(chosen));
  return id;
}

}  // namespace tcc::onnx
