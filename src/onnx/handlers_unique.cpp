// Unique. Of elements that only a run knows, a stable sort brings equal ones side by side, in the order in which they
// occur. The first one of each run stays:
//
//   x 3 1 3 2 ──TopK──► order 1 3 0 2 ──Gather──► 1 2 3 3 ──differs from the one before──► flags 1 1 1 0
//   ──Find──► places 0 1 2, count 3 ──Gather of order──► indices 1 3 0 ──Gather of x──► 1 2 3
#include <algorithm>
#include <cmath>
#include <map>

#include "handlers.h"

namespace tcc::onnx {

namespace {

// NaN equals NaN, and is the greatest.
struct SliceOrder {
  bool operator()(const std::vector<double>& p, const std::vector<double>& q) const {
    return std::lexicographical_compare(p.begin(), p.end(), q.begin(), q.end(),
                                        [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
  }
};

constexpr int64_t kMostColumns = 64;  // of a slice; each is a sort

// What the steps below read and make. No value here has counts: what is behind them is cut off at the end.
class RunTimeUnique {
 public:
  RunTimeUnique(NodeContext& c, int64_t extent, ValueId count) : c_(c), extent_(extent), count_(count) {}

  // The order of slices whose elements are columns[0][i], columns[1][i], ...
  Result<void> sort(const std::vector<ValueId>& columns) {
    for (size_t m = columns.size(); m-- > 0;) {
      const bool first = m + 1 == columns.size();
      Made key = first ? Made(columns[m]) : take(columns[m], order_);
      if (key && c_.value(*key).dtype == DType::kBool) key = c_.cast(key, DType::kU8);
      TCC_TRY(const ValueId counted, key);
      TCC_TRY(const ValueId own, copy(counted));
      if (count_ != graph::kNone) c_.set_counts(own, {count_});
      TCC_TRY(const ValueId found, c_.emit(Op::kTopK, graph::TopKAttrs{0, extent_, false}, {own}));
      TCC_TRY(const ValueId places, copy(found));
      TCC_TRY_SET(order_, first ? Made(places) : take(order_, places));
    }
    return {};
  }

  // Where runs of equal slices begin.
  Result<void> find_runs(const std::vector<ValueId>& columns) {
    Made begins = c_.binary(BinaryFn::kEqual, c_.iota(DType::kI64, extent_, 0, 1), c_.scalar(DType::kI64, 0));
    for (ValueId column : columns) {
      TCC_TRY(const ValueId now, take(column, order_));
      if (extent_ == 1) break;
      TCC_TRY(const ValueId before,
              c_.emit(Op::kConcat, graph::AxisAttrs{0}, {c_.slice(now, 0, 0, 1), c_.slice(now, 0, 0, extent_ - 1)}));
      Made same = c_.binary(BinaryFn::kEqual, now, before);
      if (graph::is_float(c_.value(now).dtype))
        same = c_.binary(BinaryFn::kOr, same, c_.binary(BinaryFn::kAnd, is_nan(now), is_nan(before)));
      begins = c_.binary(BinaryFn::kOr, begins, c_.unary(UnaryFn::kNot, same));
    }
    TCC_TRY_SET(begins_, begins);
    TCC_TRY_SET(run_, c_.arithmetic(Op::kSub, running_sum(begins_), c_.scalar(DType::kI64, 1)));
    TCC_TRY(const Found found, find(begins_));
    starts_ = found.places;
    found_ = found.count;
    return {};
  }

  Result<void> finish(ValueId x, int64_t axis, bool sorted) {
    TCC_TRY(ValueId firsts, take(order_, starts_));
    Made number = run_, sizes = c_.wants_output(3) ? run_sizes() : Made(graph::kNone);
    if (!sorted) {
      // Runs get the number of their first slices among the first slices of all runs.
      TCC_TRY(const ValueId is_first,
              put(c_.constant(DType::kBool, {extent_}, graph::make_splat(DType::kBool, 0)), order_, begins_));
      TCC_TRY(const ValueId numbers, c_.arithmetic(Op::kSub, running_sum(is_first), c_.scalar(DType::kI64, 1)));
      const Made of_runs = take(numbers, firsts);
      if (c_.wants_output(3)) {
        const Made beyond = c_.scalar(DType::kI64, static_cast<double>(extent_));
        const Made counts = c_.binary(BinaryFn::kLess, c_.iota(DType::kI64, extent_, 0, 1), found_);
        sizes = put(zeros(), c_.where(counts, of_runs, beyond), sizes);
      }
      number = take(of_runs, run_);
      TCC_TRY(const Found found, find(is_first));
      firsts = found.places;
      found_ = found.count;
    }
    TCC_TRY_VOID(set(1, firsts, found_));
    if (c_.wants_output(2)) TCC_TRY_VOID(set(2, put(zeros(), order_, number), count_));
    if (c_.wants_output(3)) TCC_TRY_VOID(set(3, sizes, found_));
    TCC_TRY(const ValueId places, copy(firsts));
    c_.set_counts(places, {found_});
    return c_.finish(Op::kGather, graph::AxisAttrs{axis}, {x, places});
  }

 private:
  // Without counts.
  Made copy(ValueId x) { return c_.emit_fixed(Op::kIdentity, graph::NoAttrs{}, {x}); }
  Made take(const Made& from, const Made& places) { return c_.emit(Op::kGather, graph::AxisAttrs{0}, {from, places}); }
  Made put(const Made& into, const Made& places, const Made& x) {
    return c_.emit(Op::kScatter, graph::ScatterAttrs{0, ScatterReduction::kNone}, {into, places, x});
  }
  Made zeros() { return c_.constant(DType::kI64, {extent_}, graph::make_splat(DType::kI64, 0)); }
  Made is_nan(ValueId x) { return c_.unary(UnaryFn::kNot, c_.binary(BinaryFn::kEqual, x, x)); }
  Made running_sum(ValueId flags) {
    graph::ScanAttrs attrs;
    attrs.axis = 0;
    return c_.emit(Op::kScan, attrs, {c_.cast(flags, DType::kI64)});
  }
  Result<Found> find(ValueId flags) {
    TCC_TRY(const ValueId own, copy(flags));
    if (count_ != graph::kNone) c_.set_counts(own, {count_});
    return find_true(c_, own, extent_);
  }
  // A run ends where the next one begins, and the last one at the end.
  Made run_sizes() {
    const Made all = count_ != graph::kNone ? Made(count_) : c_.scalar(DType::kI64, static_cast<double>(extent_));
    Made ends = all;
    if (extent_ > 1) {
      const Made next =
          c_.emit(Op::kConcat, graph::AxisAttrs{0}, {c_.slice(starts_, 0, 1, extent_ - 1), c_.slice(starts_, 0, 0, 1)});
      const Made follows = c_.binary(BinaryFn::kLess, c_.iota(DType::kI64, extent_, 0, 1),
                                     c_.arithmetic(Op::kSub, found_, c_.scalar(DType::kI64, 1)));
      ends = c_.where(follows, next, all);
    }
    return c_.arithmetic(Op::kSub, ends, starts_);
  }
  Result<void> set(size_t output, const Made& x, ValueId count) {
    TCC_TRY(const ValueId made, x);
    TCC_TRY(const ValueId own, copy(made));
    if (count != graph::kNone) c_.set_counts(own, {count});
    c_.set_output(output, own);
    return {};
  }

  NodeContext& c_;
  int64_t extent_;
  ValueId count_;                  // of slices; kNone: extent_
  ValueId order_ = graph::kNone;   // of slices, by their elements
  ValueId begins_ = graph::kNone;  // in that order: does a run begin here?
  ValueId run_ = graph::kNone;     // and the number of its run
  ValueId starts_ = graph::kNone;  // of runs, in that order
  ValueId found_ = graph::kNone;   // the number of runs
};

Result<void> unique_at_run_time(NodeContext& c) {
  TCC_TRY(const bool sorted, c.get_flag("sorted", true));
  ValueId x = c.input(0);
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    TCC_TRY_SET(axis, c.get_axis(0, c.rank(0)));
  } else {
    TCC_TRY_SET(x, c.emit_reshape(x, {c.input_value(0).elements()}));
  }
  const auto at = static_cast<size_t>(axis);
  const Shape shape = c.value(x).shape;
  const int64_t elements = c.value(x).elements(), extent = shape[at];
  if (elements == 0 || elements > kMaxTable)
    return refuse(elements == 0 ? Refusal::kNoElements : Refusal::kTooLarge, "{} elements; 1 to {} are supported",
                  elements, kMaxTable);
  ValueId count = graph::kNone;
  if (const Counts* counts = c.counts(x)) {
    for (size_t i = 0; i < counts->size(); ++i)
      if (i != at && (*counts)[i] != graph::kNone) return c.refuse_count(x, i, "is compared by Unique");
    count = (*counts)[at];
  }
  const int64_t width = elements / extent;
  if (width > kMostColumns)
    return refuse(Refusal::kTooLarge,
                  "axis {} has slices of {} elements, which are compared at run time; up to {} are "
                  "supported",
                  axis, width, kMostColumns);
  // Slices as rows.
  std::vector<int64_t> front{axis};
  for (int64_t i = 0; i < std::ssize(shape); ++i)
    if (i != axis) front.push_back(i);
  TCC_TRY(const ValueId plain, c.emit_fixed(Op::kIdentity, graph::NoAttrs{}, {x}));
  TCC_TRY(const ValueId rows, c.rearrange(plain, shape, front, {extent, width}));
  std::vector<ValueId> columns;
  for (int64_t m = 0; m < width; ++m) {
    TCC_TRY(const ValueId column, c.emit_reshape(c.slice(rows, 1, m, 1), {extent}));
    columns.push_back(column);
  }
  RunTimeUnique unique(c, extent, count);
  TCC_TRY_VOID(unique.sort(columns));
  TCC_TRY_VOID(unique.find_runs(columns));
  return unique.finish(plain, axis, sorted);
}

}  // namespace

Result<void> import_unique(NodeContext& c) {
  if (!c.input_value(0).is_constant() || c.is_counted(0)) return unique_at_run_time(c);
  TCC_TRY(const graph::Value* known, c.known_input(0, "the data"));
  TCC_TRY(const bool sorted, c.get_flag("sorted", true));
  if (known->elements() > kMaxTable) return refuse(Refusal::kTooLarge, "{} elements", known->elements());
  const graph::Value x = *known;  // constants made below move it
  Shape shape = x.shape;
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    TCC_TRY(axis, c.get_axis(0, c.rank(0)));
  } else {
    shape = {x.elements()};
  }
  const auto at = static_cast<size_t>(axis);
  const std::vector<double> data = graph::constant_doubles(*x.constant, x.dtype, x.elements());
  const int64_t extent = shape[at], inner = graph::element_count(Shape(shape.begin() + axis + 1, shape.end()));
  const int64_t outer = extent * inner == 0 ? 0 : x.elements() / (extent * inner);
  // What is unique is a slice across the axis.
  std::vector<std::vector<double>> slices(static_cast<size_t>(extent));
  for (int64_t i = 0; i < extent; ++i)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k)
        slices[static_cast<size_t>(i)].push_back(data[static_cast<size_t>((o * extent + i) * inner + k)]);
  std::map<std::vector<double>, int64_t, SliceOrder> number;  // of a slice, in the order of their values
  for (const auto& slice : slices) number.emplace(slice, 0);
  int64_t next = 0;
  for (auto& [slice, n] : number) n = next++;
  std::vector<int64_t> first(static_cast<size_t>(next), -1), counts(static_cast<size_t>(next), 0), order, place;
  for (int64_t i = 0; i < extent; ++i) {
    const auto n = static_cast<size_t>(number.at(slices[static_cast<size_t>(i)]));
    if (first[n] < 0) {
      first[n] = i;
      order.push_back(static_cast<int64_t>(n));
    }
    ++counts[n];
  }
  if (sorted) std::sort(order.begin(), order.end());
  place.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  std::vector<int64_t> firsts, inverse, ordered_counts;
  for (int64_t n : order) {
    firsts.push_back(first[static_cast<size_t>(n)]);
    ordered_counts.push_back(counts[static_cast<size_t>(n)]);
  }
  for (const auto& slice : slices) inverse.push_back(place[static_cast<size_t>(number.at(slice))]);
  auto list = [&](const std::vector<int64_t>& v) {
    return c.constant(DType::kI64, {static_cast<int64_t>(v.size())}, graph::make_constant_i64(v));
  };
  const ValueId indices = list(firsts);
  c.set_output(1, indices);
  c.set_output(2, list(inverse));
  c.set_output(3, list(ordered_counts));
  return c.finish(Op::kGather, graph::AxisAttrs{axis}, {c.emit_reshape(c.input(0), shape), indices});
}

}  // namespace tcc::onnx
