// Loops of TopK along another axis than the last one, or of short rows, where loops run in order and few elements are
// wanted. Rows that are side by side, or short ones behind each other, are lanes of vectors. The first k of each so far
// are sorted, and an element moves those that it comes before:
//
//   for i in extent:  x = element i of each row
//     for q in k - 1 .. 0:  before[q] = q is empty or x comes before best[q]
//       best[q] = before[q - 1] ? best[q - 1] : before[q] ? x : best[q];  order[q] likewise, of i
#include <algorithm>

#include "nest.h"

namespace tcc::task {

using namespace ir;

namespace {

// The axes whose places are lanes: those behind the axis, or all in front of the last one.
struct LaneAxes {
  size_t first, last;
  int64_t rows;
};
LaneAxes lane_axes(const graph::TopKAttrs& a, const graph::Shape& shape) {
  const auto axis = static_cast<size_t>(a.axis);
  LaneAxes lanes{axis + 1, shape.size(), 1};
  if (axis + 1 == shape.size()) lanes = {0, axis, 1};
  for (size_t i = lanes.first; i < lanes.last; ++i) lanes.rows *= shape[i];
  return lanes;
}

}  // namespace

// Work grows with k, for as many rows at a time as a vector has lanes. Elements of rows behind each other are gathered:
// a row of its own skips most elements once it is long, and the more are wanted the sooner.
bool GroupNest::sorts_in_lanes(const graph::TopKAttrs& a, const graph::Shape& shape) const {
  constexpr int64_t kMostInLanes = 64, kMostGathered = 16, kShortRow = 128, kLongRow = 4096;
  const int64_t rows = lane_axes(a, shape).rows;
  if (a.axis + 1 == std::ssize(shape))
    return rows >= 2 * kVectorLanes &&
           (shape.back() <= kShortRow ? a.k <= kMostInLanes : a.k <= kMostGathered && shape.back() <= kLongRow);
  return a.k <= kMostInLanes && 2 * rows >= kVectorLanes;
}

Stmt GroupNest::emit_in_lanes(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::TopKAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const graph::Shape shape = operand(node.inputs[0]).shape;
  const LaneAxes across = lane_axes(a, shape);
  const int64_t extent = shape[axis], lanes = kVectorLanes, rows = across.rows;
  const int64_t vectors = (rows + lanes - 1) / lanes;
  const Type key = widened(value(node.inputs[0]).dtype);
  std::vector<NestAxis> axes = axes_of(shape);
  const size_t outer = std::min(axis, across.first);
  axes.resize(outer);
  graph::Shape slots(shape.begin(), shape.begin() + static_cast<int64_t>(outer));
  axes.push_back({"vector", vectors});
  slots.push_back(vectors);
  auto make = [&](const char* hint, Type type, int64_t count) {
    graph::Shape s = slots;
    s.push_back(count);
    return computing(type, [&] { return make_temp(hint, s); });
  };
  const Tensor best = make("best", key, a.k * lanes), order = make("order", Type::kI32, a.k * lanes);
  const Tensor element = make("element", key, lanes);
  return ordered_nest(name, axes, [&](const Exprs& row) {
    auto each_lane = [&](auto&& body) {
      const Id lane = kernel_.new_id("lane");
      const Expr l = b().var(lane), inner = b().add(b().scale(row.back(), lanes), l);
      // The place of the lane's row, without the axis.
      Exprs at(row.begin(), row.end() - 1), behind;
      Expr rest = inner;
      for (size_t i = across.last; i-- > across.first;) {
        const Expr n = b().integer(shape[i]);
        behind.insert(behind.begin(), i == across.first ? rest : b().floor_mod(rest, n));
        rest = b().floor_div(rest, n);
      }
      at.insert(at.end(), behind.begin(), behind.end());
      const Expr is_inside = rows % lanes == 0 ? nullptr : b().lt(inner, b().integer(rows));
      return b().loop(lane, b().integer(lanes), body(l, at, is_inside), LoopKind::kVectorized);
    };
    auto slot = [&](Expr q, Expr lane) { return b().add(b().scale(q, lanes), lane); };
    // Takes elements [first, last), of which those before `filled` find empty slots.
    auto take = [&](int64_t first, int64_t last) {
      const Id loop = kernel_.new_id("i"), slot_loop = kernel_.new_id("q");
      const Expr i = b().offset(b().var(loop), first), down = b().var(slot_loop);
      const bool fills = first < a.k;
      const Stmt read = each_lane([&](Expr lane, const Exprs& at, Expr is_inside) {
        const Expr x = sort_key(node, at, i, is_inside);
        return row_store(element, row, lane, x);
      });
      auto shift = [&](Expr q, bool has_next) {
        return each_lane([&](Expr lane, const Exprs&, Expr) {
          const Expr x = row_load(element, row, lane);
          auto before = [&](Expr p) {
            const Expr ahead = comes_before(a, x, row_load(best, row, slot(p, lane)));
            return fills ? b().logical_or(b().le(i, p), ahead) : ahead;
          };
          auto moved = [&](const Tensor& t, Expr own) {
            const Expr now = b().select(before(q), own, row_load(t, row, slot(q, lane)));
            if (!has_next) return now;
            const Expr next = b().offset(q, -1);
            return b().select(before(next), row_load(t, row, slot(next, lane)), now);
          };
          // The number goes first: the keys say where it goes.
          const std::array<Stmt, 2> stores{row_store(order, row, slot(q, lane), moved(order, b().cast(i, Type::kI32))),
                                           row_store(best, row, slot(q, lane), moved(best, x))};
          return b().seq(stores);
        });
      };
      const Stmt shifts =
          a.k == 1 ? nullptr
                   : b().loop(slot_loop, b().integer(a.k - 1), shift(b().sub(b().integer(a.k - 1), down), true));
      return b().loop(loop, b().integer(last - first),
                      b().seq(std::array<Stmt, 3>{read, shifts, shift(b().integer(0), false)}));
    };
    const Id put_loop = kernel_.new_id("q");
    const Expr q = b().var(put_loop);
    const Stmt put = each_lane([&](Expr lane, Exprs at, Expr is_inside) {
      at.insert(at.begin() + a.axis, q);
      return b().store(out.buffer->id, at, b().cast(row_load(order, row, slot(q, lane)), out.buffer->type), is_inside);
    });
    const Id clear_loop = kernel_.new_id("q");
    const Stmt clear = each_lane([&](Expr lane, const Exprs&, Expr) {
      const Expr to = slot(b().var(clear_loop), lane);
      const std::array<Stmt, 2> stores{row_store(best, row, to, b().constant(0, key)),
                                       row_store(order, row, to, b().integer(0, Type::kI32))};
      return b().seq(stores);
    });
    const std::array<Stmt, 4> all{b().loop(clear_loop, b().integer(a.k), clear), take(0, a.k),
                                  extent == a.k ? nullptr : take(a.k, extent),
                                  b().loop(put_loop, b().integer(a.k), put)};
    return b().seq(all);
  });
}

}  // namespace tcc::task
