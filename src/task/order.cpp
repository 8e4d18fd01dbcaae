// Loops of TopK, of ArgMax and ArgMin, and of Find and Suppress. TopK: the rank of an element is the number of those
// before it, and the element of rank r is the r-th. Both are reductions over a row, so that work grows with the square
// of a row's length and every element is independent. sort.cpp does less work, in order.
#include "nest.h"
#include "scalar_functions.h"

namespace tcc::task {

using namespace ir;

namespace {

constexpr int64_t kSuppressLanes = 16;

}  // namespace

void GroupNest::plan_top_k(const graph::Node& node) {
  add_stage("top_k", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::TopKAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const graph::Shape shape = operand(node.inputs[0]).shape;
    if (sorts_in_order(a, shape[axis])) return emit_in_order(node, name, out);
    auto with = [&](Exprs at, Expr position) {
      at[axis] = position;
      return at;
    };
    // Does element j come before element i of its row?
    auto before = [&](const Exprs& at, Expr j) {
      Expr p = read_own(node.inputs[0], with(at, j), shape), q = read_own(node.inputs[0], at, shape);
      if (graph::is_wide_unsigned(value(node.inputs[0]).dtype)) p = flip_order(b(), p), q = flip_order(b(), q);
      Expr ahead = a.largest ? b().lt(q, p) : b().lt(p, q), tied = b().eq(p, q);
      if (is_float(p->type)) {
        Expr nan_p = b().ne(p, p), nan_q = b().ne(q, q);
        Expr greater = a.largest ? nan_p : nan_q, less = a.largest ? nan_q : nan_p;
        ahead = b().logical_or(ahead, b().logical_and(greater, b().logical_not(less)));
        tied = b().logical_or(tied, b().logical_and(nan_p, nan_q));
      }
      return b().logical_or(ahead, b().logical_and(tied, b().lt(j, at[axis])));
    };
    const NestAxis along = {"k", shape[axis]};
    Tensor rank;
    const Stmt ranks = computing(Type::kI32, [&] {
      rank = make_temp("rank", shape);
      return reduce_nest(
          "rank", axes_of(shape), {along}, ReducerKind::kSum, rank, nullptr,
          [&](const Exprs& at, const Exprs& over) { return b().select(before(at, over[0]), real(1), real(0)); });
    });
    Tensor found;
    const Stmt picks = computing(Type::kI64, [&] {
      found = make_temp(name, out.shape);
      return reduce_nest(name, axes_of(out.shape), {along}, ReducerKind::kMax, found, nullptr,
                         [&](const Exprs& at, const Exprs& over) {
                           Expr own = b().cast(b().load(*rank.buffer, with(at, over[0])), Type::kI64);
                           return b().select(b().eq(own, at[axis]), over[0], b().integer(0));
                         });
    });
    const Stmt copy =
        map_nest("order", axes_of(out.shape), out, [&](const Exprs& at) { return b().load(*found.buffer, at); });
    return b().seq(std::array<Stmt, 3>{ranks, picks, copy});
  });
}

// The extremum of the row, then the least (or greatest) position that holds it. Positions of NaN are moved before (or
// behind) all others, and back at the end.
void GroupNest::plan_arg(const graph::Node& node) {
  add_stage("arg", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::ArgAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const graph::Shape shape = operand(node.inputs[0]).shape;
    const int64_t extent = shape[axis];
    const NestAxis along = {"k", extent};
    graph::Shape rows = out.shape;
    rows.erase(rows.begin() + a.axis);
    std::vector<NestAxis> row_axes = axes_of(out.shape);
    row_axes.erase(row_axes.begin() + a.axis);
    auto element = [&](Exprs row, Expr k) {
      row.insert(row.begin() + a.axis, k);
      const Expr x = read_own(node.inputs[0], row, shape);
      return graph::is_wide_unsigned(value(node.inputs[0]).dtype) ? flip_order(b(), x) : x;
    };
    const Type type = widened(value(node.inputs[0]).dtype);
    // Lanes of 32 bits are as wide as those of most elements.
    const Type position = extent < int64_t{1} << 30 ? Type::kI32 : Type::kI64;
    Tensor best, found;
    const Stmt extremum = computing(type, [&] {
      best = make_temp("row_best", rows);
      return reduce_nest("row_best", row_axes, {along}, a.greatest ? ReducerKind::kMax : ReducerKind::kMin, best,
                         nullptr, [&](const Exprs& at, const Exprs& over) { return element(at, over[0]); });
    });
    const int64_t moved = a.last ? extent : -extent;
    const Stmt positions = computing(position, [&] {
      found = make_temp("row_position", rows);
      return reduce_nest("row_position", row_axes, {along}, a.last ? ReducerKind::kMax : ReducerKind::kMin, found,
                         nullptr, [&](const Exprs& at, const Exprs& over) {
                           const Expr x = element(at, over[0]), k = b().cast(over[0], position);
                           const Expr none = b().integer(a.last ? 0 : extent - 1, position);
                           const Expr hit = b().select(b().eq(x, b().load(*best.buffer, at)), k, none);
                           if (!is_float(type)) return hit;
                           return b().select(b().ne(x, x), b().add(k, b().integer(moved, position)), hit);
                         });
    });
    const Stmt copy = map_nest(name, axes_of(out.shape), out, [&](Exprs at) {
      at.erase(at.begin() + a.axis);
      const Expr k = b().load(*found.buffer, at), n = b().integer(extent, position);
      const Expr is_nan = a.last ? b().le(n, k) : b().lt(k, b().integer(0, position));
      return b().cast(b().select(is_nan, a.last ? b().sub(k, n) : b().add(k, n), k), Type::kI64);
    });
    return b().seq(std::array<Stmt, 3>{extremum, positions, copy});
  });
}

// One pass over the elements. Each true one writes its position behind those found so far, so the work is linear:
//
//   for k in N:  block [carried vk]
//     out[found] = vk where x[vk] && found < extent;  found = found + (x[vk] ? 1 : 0)
void GroupNest::plan_find(const graph::Node& node) {
  add_stage("find", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const Tensor x = operand(node.inputs[0]);
    const Expr zero = b().integer(0), one = b().integer(1), room = b().integer(out.shape[0]);
    const Tensor found = computing(Type::kI64, [&] { return make_temp("found", {1}); });
    const Stmt clear = map_nest("clear_positions", axes_of(out.shape), out, [&](const Exprs&) { return zero; });
    const Stmt start = map_nest("start", axes_of(found.shape), found, [&](const Exprs&) { return zero; });
    const Id loop = kernel_.new_id("k"), iter = kernel_.new_id("vk");
    const Expr extent = b().integer(x.shape[0]), at = b().var(iter);
    const Expr so_far = b().load(*found.buffer, std::array<Expr, 1>{zero});
    const Expr hit = b().load(*x.buffer, std::array<Expr, 1>{at});
    const Stmt put =
        b().store(out.buffer->id, std::array<Expr, 1>{so_far}, at, b().logical_and(hit, b().lt(so_far, room)));
    const Stmt count =
        b().store(found.buffer->id, std::array<Expr, 1>{zero}, b().add(so_far, b().select(hit, one, zero)));
    const std::array<Iter, 1> iters{Iter{iter, IterKind::kCarried, extent, b().var(loop)}};
    const Stmt block = b().block(kernel_.new_id(name.c_str()), iters, b().seq(std::array<Stmt, 2>{put, count}));
    return b().seq(std::array<Stmt, 3>{clear, start, b().loop(loop, extent, block)});
  });
}

// What both loops of Suppress compute of boxes, given as low y, low x, high y and high x.
struct GroupNest::BoxExprs {
  using Box = std::array<Expr, 4>;
  Builder& b;
  double most_overlap;

  Expr area(const Box& x) const { return b.mul(b.sub(x[2], x[0]), b.sub(x[3], x[1])); }
  Expr overlaps(const Box& x, Expr area_x, const Box& y, Expr area_y) const {
    auto common = [&](size_t axis) { return b.sub(b.min(x[axis + 2], y[axis + 2]), b.max(x[axis], y[axis])); };
    const Expr height = common(0), width = common(1), shared = b.mul(height, width), none = b.real(0);
    const Expr share = b.div(shared, b.sub(b.add(area_x, area_y), shared));
    return b.logical_and(b.logical_and(b.lt(none, height), b.lt(none, width)), b.lt(b.real(most_overlap), share));
  }
};

void GroupNest::plan_suppress(const graph::Node& node) {
  add_stage("suppress", node, false, [this, &node](const std::string& name, const Tensor& out) {
    return options_.in_order ? suppress_in_order(node, name, out) : suppress_in_turns(node, name, out);
  });
}

// A box that stays hides those behind it that it overlaps. Rows are independent, and only boxes that stay look at
// others: work grows with their number times the length of a row.
Stmt GroupNest::suppress_in_turns(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::SuppressAttrs>();
  const Tensor boxes = operand(node.inputs[0]), counts = operand(node.inputs[1]);
  const int64_t rows = out.shape[0], extent = out.shape[1];
  const BoxExprs box{b(), a.most_overlap};
  const Tensor hidden = computing(Type::kBool, [&] { return make_temp("hidden", {rows, extent}); });
  const Tensor kept = computing(Type::kI64, [&] { return make_temp("kept", {rows}); });
  const Stmt show = map_nest("show", axes_of(hidden.shape), hidden, [&](const Exprs&) { return b().boolean(false); });
  const Stmt start = map_nest("start", axes_of(kept.shape), kept, [&](const Exprs&) { return b().integer(0); });
  const Id row_loop = kernel_.new_id("i0"), loop = kernel_.new_id("k"), other_loop = kernel_.new_id("j");
  const Id row_iter = kernel_.new_id("v0"), iter = kernel_.new_id("vk");
  const Expr row = b().var(row_iter), i = b().var(iter), j = b().var(other_loop);
  auto load_box = [&](Expr number) {
    BoxExprs::Box x;
    for (int64_t c = 0; c < 4; ++c)
      x[static_cast<size_t>(c)] = b().load(*boxes.buffer, std::array<Expr, 3>{row, number, b().integer(c)});
    return x;
  };
  const std::array<Expr, 2> own{row, i}, other{row, j};
  const Expr number = b().load(*kept.buffer, std::array<Expr, 1>{row});
  const Expr stays =
      b().logical_and(b().logical_and(b().load(*counts.buffer, own), b().logical_not(b().load(*hidden.buffer, own))),
                      b().lt(number, b().integer(a.most)));
  const BoxExprs::Box x = load_box(i), y = load_box(j);
  const Expr overlaps = box.overlaps(x, box.area(x), y, box.area(y));
  const Stmt hide = b().store(hidden.buffer->id, other, b().logical_or(b().load(*hidden.buffer, other), overlaps));
  const Stmt count = b().store(kept.buffer->id, std::array<Expr, 1>{row}, b().add(number, b().integer(1)));
  const Stmt then = b().if_then(
      b().load(*out.buffer, own),
      b().seq(std::array<Stmt, 2>{count, b().loop(other_loop, b().integer(extent), b().if_then(b().lt(i, j), hide))}));
  const std::array<Iter, 2> iters{Iter{row_iter, IterKind::kSpatial, b().integer(rows), b().var(row_loop)},
                                  Iter{iter, IterKind::kCarried, b().integer(extent), b().var(loop)}};
  const Stmt nest = b().block(kernel_.new_id(name.c_str()), iters,
                              b().seq(std::array<Stmt, 2>{b().store(out.buffer->id, own, stays), then}));
  return b().seq(std::array<Stmt, 3>{show, start,
                                     b().loop(row_loop, b().integer(rows), b().loop(loop, b().integer(extent), nest))});
}

// The corners of the boxes that stay are side by side. A box is held against vectors of them, and once all are found
// that are wanted no box is looked at.
Stmt GroupNest::suppress_in_order(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::SuppressAttrs>();
  const Tensor boxes = operand(node.inputs[0]), counts = operand(node.inputs[1]);
  const int64_t extent = out.shape[1], most = std::min(a.most, extent), lanes = kSuppressLanes;
  const int64_t groups = std::max<int64_t>((most + lanes - 1) / lanes, 1);
  const BoxExprs box{b(), a.most_overlap};
  auto make = [&](const char* hint, Type type, int64_t count) {
    return computing(type, [&] { return make_temp(hint, {out.shape[0], count}); });
  };
  const std::array<Tensor, 5> stayed{
      make("low_y", Type::kF32, groups * lanes), make("low_x", Type::kF32, groups * lanes),
      make("high_y", Type::kF32, groups * lanes), make("high_x", Type::kF32, groups * lanes),
      make("areas", Type::kF32, groups * lanes)};
  const Tensor hidden = make("hidden", Type::kBool, lanes), kept = make("kept", Type::kI64, 1);
  const Expr zero = b().integer(0);
  return ordered_nest(name, {{"i0", out.shape[0]}}, [&](const Exprs& row) {
    auto each_lane = [&](LoopKind kind, auto&& body) {
      const Id lane = kernel_.new_id("lane");
      return b().loop(lane, b().integer(lanes), body(b().var(lane)), kind);
    };
    const Id clear_loop = kernel_.new_id("group"), loop = kernel_.new_id("k"), group_loop = kernel_.new_id("group");
    const Expr i = b().var(loop), number = row_load(kept, row, zero);
    // Boxes without an area overlap nothing.
    const Stmt clear =
        b().loop(clear_loop, b().integer(groups), each_lane(LoopKind::kVectorized, [&](Expr lane) {
                   std::vector<Stmt> stores;
                   for (const Tensor& t : stayed)
                     stores.push_back(row_store(t, row, b().add(b().scale(b().var(clear_loop), lanes), lane),
                                                b().real(0, Type::kF32)));
                   return b().seq(stores);
                 }));
    BoxExprs::Box own, other;
    auto at = [&](Expr c) { return std::array<Expr, 3>{row[0], i, c}; };
    for (size_t c = 0; c < 4; ++c) own[c] = b().load(*boxes.buffer, at(b().integer(static_cast<int64_t>(c))));
    const Stmt compare = each_lane(LoopKind::kVectorized, [&](Expr lane) {
      const Expr j = b().add(b().scale(b().var(group_loop), lanes), lane);
      for (size_t c = 0; c < 4; ++c) other[c] = row_load(stayed[c], row, j);
      return row_store(hidden, row, lane, b().logical_or(row_load(hidden, row, lane), computing(Type::kF32, [&] {
                                                           return box.overlaps(other, row_load(stayed[4], row, j), own,
                                                                               box.area(own));
                                                         })));
    });
    const std::array<Expr, 2> to{row[0], i};
    const Expr out_of_sight = row_load(hidden, row, zero);
    std::vector<Stmt> keep;
    for (size_t c = 0; c < 4; ++c) keep.push_back(row_store(stayed[c], row, number, own[c]));
    keep.push_back(row_store(stayed[4], row, number, box.area(own)));
    keep.push_back(b().store(out.buffer->id, to, b().boolean(true)));
    keep.push_back(row_store(kept, row, zero, b().offset(number, 1)));
    const std::array<Stmt, 4> look{
        each_lane(LoopKind::kVectorized, [&](Expr lane) { return row_store(hidden, row, lane, b().boolean(false)); }),
        b().loop(group_loop, b().integer(groups),
                 b().if_then(b().lt(b().scale(b().var(group_loop), lanes), number), compare)),
        each_lane(LoopKind::kSerial,
                  [&](Expr lane) {
                    return row_store(hidden, row, zero,
                                     b().logical_or(row_load(hidden, row, zero), row_load(hidden, row, lane)));
                  }),
        b().if_then(b().logical_not(out_of_sight), b().seq(keep))};
    const Expr wanted = b().logical_and(b().load(*counts.buffer, to), b().lt(number, b().integer(most)));
    const std::array<Stmt, 2> step{b().store(out.buffer->id, to, b().boolean(false)),
                                   b().if_then(wanted, b().seq(look))};
    return b().seq(std::array<Stmt, 3>{clear, row_store(kept, row, zero, zero),
                                       b().loop(loop, b().integer(extent), b().seq(step))});
  });
}

}  // namespace tcc::task
