#include "count_places.h"

#include <algorithm>

namespace tcc::onnx {

namespace {

using MadeOnce = std::map<std::pair<std::vector<ValueId>, int64_t>, ValueId>;

// Of counts and a number by Add or Mul, with the number that changes nothing.
Made combined(NodeContext& c, MadeOnce& known, Op op, int64_t neutral, std::vector<ValueId> counts, int64_t fixed) {
  std::sort(counts.begin(), counts.end());
  const auto key = std::pair(counts, fixed);
  if (auto found = known.find(key); found != known.end()) return found->second;
  if (counts.empty()) return c.scalar(DType::kI64, static_cast<double>(fixed));
  Made made = counts.back();
  counts.pop_back();
  if (fixed != neutral || !counts.empty())
    made = c.arithmetic(op, combined(c, known, op, neutral, counts, fixed), made);
  if (made) known[key] = *made;
  return made;
}

}  // namespace

Made sum_of(NodeContext& c, std::vector<ValueId> counts, int64_t fixed) {
  return combined(c, c.book().sums, Op::kAdd, 0, std::move(counts), fixed);
}

Made product_of(NodeContext& c, std::vector<ValueId> counts, int64_t fixed) {
  return combined(c, c.book().products, Op::kMul, 1, std::move(counts), fixed);
}

Made joined_places(NodeContext& c, const std::vector<ValueId>& ends, const std::vector<int64_t>& extents) {
  const auto key = std::pair(ends, extents);
  if (auto known = c.book().places.find(key); known != c.book().places.end()) return known->second;
  int64_t whole = 0;
  for (int64_t extent : extents) whole += extent;
  Made from = c.iota(DType::kI64, whole, 0, 1);
  std::vector<ValueId> before;
  int64_t fixed = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    if (ends[i] == graph::kNone) {
      fixed += extents[i];
      continue;
    }
    before.push_back(ends[i]);
    const Made behind = c.binary(BinaryFn::kGreaterOrEqual, c.iota(DType::kI64, whole, 0, 1), sum_of(c, before, fixed));
    const Made lacks = c.arithmetic(Op::kSub, c.scalar(DType::kI64, static_cast<double>(extents[i])), ends[i]);
    from = c.arithmetic(Op::kAdd, from, c.where(behind, lacks, c.scalar(DType::kI64, 0)));
  }
  if (from) c.book().places[key] = *from;
  return from;
}

Made packed_places(NodeContext& c, const std::vector<ValueId>& ends, const Shape& extents) {
  const auto key = std::pair(ends, extents);
  if (auto known = c.book().packed.find(key); known != c.book().packed.end()) return known->second;
  const int64_t whole = graph::element_count(extents);
  auto number = [&](int64_t n) { return Made(c.scalar(DType::kI64, static_cast<double>(n))); };
  Made left = c.iota(DType::kI64, whole, 0, 1), place = number(0);
  // The digits of a position to the actual extents, with the steps of the extents in the graph.
  int64_t step = 1;
  for (size_t k = extents.size(); k-- > 0; step *= extents[k]) {
    if (extents[k] == 1) continue;
    // A group without elements divides by 1.
    const Made extent = ends[k] == graph::kNone ? number(extents[k]) : c.binary(BinaryFn::kMax, ends[k], number(1));
    const Made digit = c.binary(BinaryFn::kMod, left, extent);
    place = c.arithmetic(Op::kAdd, place, c.arithmetic(Op::kMul, digit, number(step)));
    left = c.arithmetic(Op::kDiv, left, extent);
  }
  if (place) c.book().packed[key] = *place;
  return place;
}

}  // namespace tcc::onnx
