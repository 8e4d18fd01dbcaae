// Loops of Scatter, in two forms. In order: a copy of the data, then one update after the other, so that work is
// linear. Else each element of the result looks for its updates: a reduction over all updates that could be its own.
// Elements are independent then, and no store has an index from memory, but work grows with the product of both counts.
#include <algorithm>

#include "nest.h"
#include "scalar_functions.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::ScatterReduction;

// What the nests of one node are made from. Of ScatterElements an update is a position along the axis; of ScatterND a
// row of the indices, and `depth` axes of the data are indexed.
struct GroupNest::ScatterNest {
  const graph::ScatterAttrs& attrs;
  Tensor data, indices, updates;
  graph::DType dtype;  // of data and updates
  size_t depth = 0;
  std::vector<NestAxis> rows;  // counts the updates that an element looks at

  bool elements() const { return attrs.axis >= 0; }
};

namespace {

constexpr const char* kRowNames[] = {"u0", "u1", "u2",  "u3",  "u4",  "u5",  "u6",  "u7",
                                     "u8", "u9", "u10", "u11", "u12", "u13", "u14", "u15"};
constexpr int64_t kSliceLanes = 16;  // of the vectors that write a slice

}  // namespace

Expr GroupNest::scatter_hits(const ScatterNest& s, const Exprs& at, const Exprs& over) {
  auto means = [&](const Exprs& entry, Expr predicate, size_t axis) {
    Expr other = predicate == nullptr ? nullptr : b().constant(0, s.indices.buffer->type);
    Expr index = b().cast(b().load(*s.indices.buffer, entry, predicate, other), Type::kI64);
    Expr position = b().select(b().lt(index, b().integer(0)), b().offset(index, s.data.shape[axis]), index);
    return b().eq(position, at[axis]);
  };
  if (s.elements()) {
    const auto axis = static_cast<size_t>(s.attrs.axis);
    Exprs entry = at;
    entry[axis] = over[0];
    Expr covered = scatter_covers(s, at);
    return b().logical_and(covered, means(entry, covered, axis));
  }
  Expr hit = nullptr;
  for (size_t d = 0; d < s.depth; ++d) {
    Exprs entry = over;
    entry.push_back(b().integer(static_cast<int64_t>(d)));
    hit = b().logical_and(hit, means(entry, nullptr, d));
  }
  return hit;
}

// Do the updates of ScatterElements reach the element's place on the other axes? nullptr: always.
Expr GroupNest::scatter_covers(const ScatterNest& s, const Exprs& at) {
  Expr covered = nullptr;
  for (size_t i = 0; s.elements() && i < at.size(); ++i)
    if (static_cast<int64_t>(i) != s.attrs.axis && s.indices.shape[i] < s.data.shape[i])
      covered = b().logical_and(covered, b().lt(at[i], b().integer(s.indices.shape[i])));
  return covered;
}

Expr GroupNest::scatter_update(const ScatterNest& s, const Exprs& at, const Exprs& over, Expr predicate) {
  Exprs from = over;
  if (s.elements()) {
    from = at;
    from[static_cast<size_t>(s.attrs.axis)] = over[0];
  } else {
    from.insert(from.end(), at.begin() + static_cast<std::ptrdiff_t>(s.depth), at.end());
  }
  return read(s.updates, from, predicate);
}

// The number of the last update of each place, -1 for places without one, and the elements that follow from it.
Stmt GroupNest::emit_scatter_last(const ScatterNest& s, const std::string& name, const Tensor& out) {
  std::vector<NestAxis> places = axes_of(s.data.shape);
  if (!s.elements()) places.resize(s.depth);
  graph::Shape shape;
  for (const NestAxis& axis : places) shape.push_back(axis.extent);
  Tensor last;
  const Stmt find = computing(Type::kI64, [&] {
    last = make_temp("last_update", shape);
    return reduce_nest("last_update", places, s.rows, ReducerKind::kMax, last, nullptr,
                       [&](const Exprs& at, const Exprs& over) {
                         Expr number = b().integer(0);
                         for (size_t i = 0; i < over.size(); ++i)
                           number = b().add(b().scale(number, s.rows[i].extent), over[i]);
                         return b().select(scatter_hits(s, at, over), number, b().integer(-1));
                       });
  });
  const Stmt pick = map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
    Exprs place(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(shape.size())), over(s.rows.size());
    Expr number = b().load(*last.buffer, place);
    Expr updated = b().le(b().integer(0), number);
    Expr rest = b().max(number, b().integer(0));
    for (size_t i = s.rows.size(); i-- > 0;) {
      over[i] = i == 0 ? rest : b().floor_mod(rest, b().integer(s.rows[i].extent));
      rest = b().floor_div(rest, b().integer(s.rows[i].extent));
    }
    return b().select(updated, scatter_update(s, at, over, updated), read(s.data, at));
  });
  return b().seq(std::array<Stmt, 2>{find, pick});
}

Stmt GroupNest::emit_scatter_reduction(const ScatterNest& s, const std::string& name, const Tensor& out) {
  const ScatterReduction reduction = s.attrs.reduction;
  const ReducerKind reducer = reduction == ScatterReduction::kAdd   ? ReducerKind::kSum
                              : reduction == ScatterReduction::kMul ? ReducerKind::kProd
                              : reduction == ScatterReduction::kMax ? ReducerKind::kMax
                                                                    : ReducerKind::kMin;
  Expr identity = real(reduction == ScatterReduction::kMul ? 1 : 0);
  if (reduction == ScatterReduction::kMax) identity = real(lowest_value());
  // No double is the greatest i64.
  if (reduction == ScatterReduction::kMin)
    identity = is_float(compute_) ? real(HUGE_VAL) : b().integer(integer_range(compute_).high, compute_);
  // Sums and products of u32 and u64 wrap as those of the signed types that hold them do.
  const bool ordered = reduction == ScatterReduction::kMax || reduction == ScatterReduction::kMin;
  const bool flips = ordered && graph::is_wide_unsigned(s.dtype);
  auto flip = [&](Expr x) { return flips ? flip_order(b(), x) : x; };
  const Tensor all = make_temp("updates", out.shape);
  const Stmt collect = reduce_nest("updates", axes_of(out.shape), s.rows, reducer, all, nullptr,
                                   [&](const Exprs& at, const Exprs& over) {
                                     Expr update = flip(scatter_update(s, at, over, scatter_covers(s, at)));
                                     return b().select(scatter_hits(s, at, over), update, identity);
                                   });
  const Stmt combine = map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
    Expr x = flip(read(s.data, at)), y = read(all, at);
    switch (reduction) {
      case ScatterReduction::kAdd:
        return b().add(x, y);
      case ScatterReduction::kMul:
        return b().mul(x, y);
      case ScatterReduction::kMax:
        return is_float(compute_) ? b().select(b().lt(x, y), y, x) : flip(b().max(x, y));
      default:
        return is_float(compute_) ? b().select(b().lt(y, x), y, x) : flip(b().min(x, y));
    }
  });
  return b().seq(std::array<Stmt, 2>{collect, combine});
}

Expr GroupNest::scatter_combined(ScatterReduction reduction, bool wide_unsigned, Expr x, Expr y) {
  const bool flips = wide_unsigned && (reduction == ScatterReduction::kMax || reduction == ScatterReduction::kMin);
  auto flip = [&](Expr e) { return flips ? flip_order(b(), e) : e; };
  // NaN stays, of the data and of the updates.
  auto better = [&](Expr p, Expr q) {
    return is_float(y->type) ? b().logical_or(b().lt(p, q), b().ne(y, y)) : b().lt(flip(p), flip(q));
  };
  switch (reduction) {
    case ScatterReduction::kNone:
      return y;
    case ScatterReduction::kAdd:
      return b().add(x, y);
    case ScatterReduction::kMul:
      return b().mul(x, y);
    case ScatterReduction::kMax:
      return b().select(better(x, y), y, x);
    case ScatterReduction::kMin:
      return b().select(better(y, x), y, x);
  }
  TCC_UNREACHABLE();
}

// Axes that no index moves along are loops around the block, and may run in parallel: of ScatterElements all but the
// indexed axis and the last one. The others are loops in the block.
Stmt GroupNest::emit_scatter_in_order(const ScatterNest& s, const std::string& name, const Tensor& out) {
  const bool rounds = s.attrs.reduction != ScatterReduction::kNone && out.buffer->type != compute_;
  const Tensor sums = rounds ? make_temp(name, out.shape) : out;
  const Stmt copy = map_nest("copy", axes_of(out.shape), sums, [&](const Exprs& at) { return read(s.data, at); });
  std::vector<NestAxis> outer;
  std::vector<size_t> outer_axes;
  for (size_t i = 0; s.elements() && i + 1 < s.indices.shape.size(); ++i) {
    if (static_cast<int64_t>(i) == s.attrs.axis) continue;
    outer.push_back({axes_of(out.shape)[i].name, s.indices.shape[i]});
    outer_axes.push_back(i);
  }
  const Stmt put = ordered_nest(name, outer, [&](const Exprs& fixed) {
    std::vector<std::pair<Id, int64_t>> loops;
    auto add_loop = [&](const char* hint, int64_t extent) {
      loops.emplace_back(kernel_.new_id(hint), extent);
      return b().var(loops.back().first);
    };
    auto wrap_loops = [&](Stmt body, size_t first) {
      while (loops.size() > first) {
        body = b().loop(loops.back().first, b().integer(loops.back().second), body);
        loops.pop_back();
      }
      return body;
    };
    Exprs entry(s.elements() ? s.indices.shape.size() : s.rows.size()), from, to(out.shape.size());
    for (size_t i = 0; i < outer_axes.size(); ++i) entry[outer_axes[i]] = fixed[i];
    if (s.elements()) {
      const auto axis = static_cast<size_t>(s.attrs.axis);
      entry[axis] = add_loop(s.rows[0].name, s.rows[0].extent);
      if (entry.back() == nullptr) entry.back() = add_loop("j", s.indices.shape.back());
      to = from = entry;
    } else {
      for (size_t i = 0; i < s.rows.size(); ++i) entry[i] = add_loop(s.rows[i].name, s.rows[i].extent);
      from = entry;
    }
    // Each update finds its place first: a place out of range has no element.
    const size_t depth = s.elements() ? 1 : s.depth, rows = loops.size();
    std::vector<Stmt> steps;
    Expr inside = nullptr;
    for (size_t d = 0; d < depth; ++d) {
      const size_t axis = s.elements() ? static_cast<size_t>(s.attrs.axis) : d;
      Exprs at = entry;
      if (!s.elements()) at.push_back(b().integer(static_cast<int64_t>(d)));
      const Tensor place = computing(Type::kI64, [&] { return make_temp("place", {1}); });
      const Expr index = b().cast(b().load(*s.indices.buffer, at), Type::kI64);
      const Expr extent = b().integer(s.data.shape[axis]);
      steps.push_back(row_store(place, {}, b().integer(0),
                                b().select(b().lt(index, b().integer(0)), b().add(index, extent), index)));
      to[axis] = row_load(place, {}, b().integer(0));
      inside = b().logical_and(inside, b().logical_and(b().le(b().integer(0), to[axis]), b().lt(to[axis], extent)));
    }
    const int64_t last = out.shape.back(), lanes = std::clamp<int64_t>(last, 1, kSliceLanes);
    const bool slices = !s.elements() && s.depth < out.shape.size();
    for (size_t d = s.depth; slices && d + 1 < out.shape.size(); ++d)
      from.push_back(to[d] = add_loop("j", out.shape[d]));
    if (slices) from.emplace_back();
    const auto store_at = [&](Expr element) {
      if (element != nullptr) from.back() = to.back() = element;
      const Expr combined =
          scatter_combined(s.attrs.reduction, graph::is_wide_unsigned(s.dtype), read(sums, to), read(s.updates, from));
      return b().store(sums.buffer->id, to, b().cast(combined, sums.buffer->type));
    };
    // The elements of a row that a slice ends in are written by vectors.
    const auto vectors_at = [&](int64_t begin, int64_t count) {
      const Id group = kernel_.new_id("group"), lane = kernel_.new_id("j");
      const int64_t width = std::min(count, lanes);
      const Expr element = b().add(b().offset(b().scale(b().var(group), width), begin), b().var(lane));
      const Stmt vector = b().loop(lane, b().integer(width), store_at(element), LoopKind::kVectorized);
      return b().loop(group, b().integer(count / width), vector);
    };
    const int64_t rest = last % lanes;
    const Stmt store = !slices ? store_at(nullptr)
                       : rest == 0
                           ? vectors_at(0, last)
                           : b().seq(std::array<Stmt, 2>{vectors_at(0, last - rest), vectors_at(last - rest, rest)});
    const Stmt update = wrap_loops(store, rows);
    steps.push_back(inside == nullptr ? update : b().if_then(inside, update));
    return wrap_loops(b().seq(steps), 0);
  });
  if (!rounds) return b().seq(std::array<Stmt, 2>{copy, put});
  const Stmt rounded =
      map_nest(name + "_rounded", axes_of(out.shape), out, [&](const Exprs& at) { return read(sums, at); });
  return b().seq(std::array<Stmt, 3>{copy, put, rounded});
}

void GroupNest::plan_scatter(const graph::Node& node) {
  add_stage("scatter", node, false, [this, &node](const std::string& name, const Tensor& out) {
    ScatterNest s{node.as<graph::ScatterAttrs>(), operand(node.inputs[0]), operand(node.inputs[1]),
                  operand(node.inputs[2]), value(node.inputs[0]).dtype};
    if (s.elements()) {
      s.rows = {{kRowNames[0], s.indices.shape[static_cast<size_t>(s.attrs.axis)]}};
    } else {
      s.depth = static_cast<size_t>(s.indices.shape.back());
      for (size_t i = 0; i + 1 < s.indices.shape.size(); ++i) s.rows.push_back({kRowNames[i], s.indices.shape[i]});
    }
    if (options_.in_order) return emit_scatter_in_order(s, name, out);
    return s.attrs.reduction == ScatterReduction::kNone ? emit_scatter_last(s, name, out)
                                                        : emit_scatter_reduction(s, name, out);
  });
}

}  // namespace tcc::task
