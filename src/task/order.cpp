// Loops of TopK, of ArgMax and ArgMin, and of Find. TopK: the rank of an element is the number of those
// before it, and the element of rank r is the r-th. Both are reductions over a row, so that work grows with the square
// of a row's length and every element is independent. sort.cpp does less work, in order.
#include "nest.h"
#include "scalar_functions.h"

namespace tcc::task {

using namespace ir;

void GroupNest::plan_top_k(const graph::Node& node) {
  add_stage("top_k", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::TopKAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const graph::Shape shape = operand(node.inputs[0]).shape;
    if (sorts_in_order(a, shape)) return emit_in_order(node, name, out);
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

}  // namespace tcc::task
