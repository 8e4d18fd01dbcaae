// Loops of TopK along another axis than the last one, or of short rows, where loops run in order and few elements are
// wanted. Rows that are side by side, or short ones elsewhere, are lanes of vectors. The first k of each so far
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

// The axes whose places are lanes: those behind the axis, or where these have few places all others.
struct LaneAxes {
  std::vector<size_t> axes;
  int64_t rows = 1;
  bool gathered = false;  // lanes are not side by side in memory
};
LaneAxes lane_axes(const graph::TopKAttrs& a, const graph::Shape& shape) {
  const auto axis = static_cast<size_t>(a.axis);
  int64_t behind = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) behind *= shape[i];
  LaneAxes lanes{.gathered = 2 * behind < kVectorLanes};
  for (size_t i = lanes.gathered ? 0 : axis + 1; i < shape.size(); ++i) {
    if (i == axis) continue;
    lanes.axes.push_back(i);
    lanes.rows *= shape[i];
  }
  return lanes;
}

}  // namespace

// Work grows with k, for as many rows at a time as a vector has lanes. Elements of rows that are not side by side are
// gathered: a row of its own skips most elements once it is long, and the more are wanted the sooner.
bool GroupNest::sorts_in_lanes(const graph::TopKAttrs& a, const graph::Shape& shape) const {
  constexpr int64_t kMostInLanes = 64, kMostGathered = 16, kShortRow = 128, kLongRow = 4096;
  const int64_t extent = shape[static_cast<size_t>(a.axis)];
  const LaneAxes lanes = lane_axes(a, shape);
  if (!lanes.gathered) return a.k <= kMostInLanes;
  // Rows behind each other are ranked in vectors, too. Single elements of rows apart from each other are not.
  const bool apart = a.axis + 1 != std::ssize(shape);
  if (4 * lanes.rows < (apart ? 1 : 8) * kVectorLanes) return false;
  return extent <= kShortRow ? a.k <= kMostInLanes : a.k <= kMostGathered && extent <= kLongRow;
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
  const size_t outer = across.gathered ? 0 : axis;
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
      Exprs at(row.begin(), row.end() - 1);
      at.resize(at.size() + across.axes.size());
      Expr rest = inner;
      for (size_t i = across.axes.size(); i-- > 0;) {
        const Expr n = b().integer(shape[across.axes[i]]);
        at[at.size() - across.axes.size() + i] = i == 0 ? rest : b().floor_mod(rest, n);
        rest = b().floor_div(rest, n);
      }
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
