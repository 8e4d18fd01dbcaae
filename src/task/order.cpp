// Loops of TopK, of ArgMax and ArgMin, and of Find and Suppress. TopK: the rank of an element is the number of those
// before it, and the element of rank r is the r-th. Both are reductions over a row, so that work grows with the square
// of a row's length and every element is independent. sort.cpp does less work, in order.
#include <algorithm>
#include <array>
#include <cmath>

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

// Boxes are given as low y, low x, high y and high x.
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

// One row of Suppress. Few of many boxes are looked at as a rule, so they are not sorted: the best of those left is
// searched for, time after time. The best score of each group of elements is kept, which makes a search short:
//
//   left = scores, -inf where they do not count;  tops[g] = the best of group g
//   for k in N:  if kept < wanted:
//     best = the greatest of tops
//     if -inf < best:
//       number = the first element that is the best, in the first group whose top it is
//       left[number] = -inf;  tops[group] = the best of the group
//       if no box that stays overlaps box `number`:  stayed[kept] = box;  out[kept] = number;  kept = kept + 1
//     else:  wanted = 0
//
// The corners of the boxes that stay are side by side, and a box is held against vectors of them.
class GroupNest::SuppressRow {
 public:
  SuppressRow(GroupNest& nest, const graph::Node& node, const Tensor& out)
      : nest_(nest),
        attrs_(node.as<graph::SuppressAttrs>()),
        across_(nest.options_.in_order ? LoopKind::kVectorized : LoopKind::kSerial),
        boxes_(nest.operand(node.inputs[0])),
        scores_(nest.operand(node.inputs[1])),
        out_(out),
        extent_(scores_.shape[2]),
        most_(out.shape[2]),
        groups_((extent_ + kGroup - 1) / kGroup),
        top_vectors_((groups_ + kLanes - 1) / kLanes),
        stayed_vectors_(std::max<int64_t>((most_ + kLanes - 1) / kLanes, 1)) {
    left_ = make("left", Type::kF32, groups_ * kGroup);
    tops_ = make("tops", Type::kF32, top_vectors_ * kLanes);
    best_ = make("best", Type::kF32, kLanes);
    place_ = make("place", Type::kI32, kLanes);
    hidden_ = make("hidden", Type::kBool, kLanes);
    group_ = make("group", Type::kI64, 1);
    number_ = make("number", Type::kI64, 1);
    kept_ = make("kept", Type::kI64, 1);
    wanted_ = make("wanted", Type::kI64, 1);
    static constexpr const char* kStayed[] = {"low_y", "low_x", "high_y", "high_x", "areas"};
    for (size_t i = 0; i < stayed_.size(); ++i) stayed_[i] = make(kStayed[i], Type::kF32, stayed_vectors_ * kLanes);
  }

  Stmt emit(const Exprs& row) {
    row_ = row;
    const Stmt pick = seq(
        {search_top(), b().if_then(b().lt(none(), load(best_, zero())), seq({take(), keep()}), set(wanted_, zero()))});
    const Stmt steps = loop("k", extent_, [&](Expr) { return b().if_then(b().lt(get(kept_), get(wanted_)), pick); });
    const Stmt no_number = loop("j", most_, [&](Expr j) { return store(out_, j, b().integer(-1)); });
    return seq({start(), no_number, set(kept_, zero()), set(wanted_, b().integer(most_)), steps});
  }

 private:
  static constexpr int64_t kLanes = 16, kGroup = 4 * kLanes;

  Builder& b() { return nest_.b(); }
  Tensor make(const char* hint, Type type, int64_t count) {
    return nest_.computing(type, [&] { return nest_.make_temp(hint, {out_.shape[0], out_.shape[1], count}); });
  }
  Expr zero() { return b().integer(0); }
  Expr none() { return b().real(-HUGE_VAL, Type::kF32); }
  Expr load(const Tensor& t, Expr i) { return nest_.row_load(t, row_, i); }
  Stmt store(const Tensor& t, Expr i, Expr x) { return nest_.row_store(t, row_, i, x); }
  Expr get(const Tensor& t) { return load(t, zero()); }
  Stmt set(const Tensor& t, Expr x) { return store(t, zero(), x); }
  Stmt seq(std::vector<Stmt> all) { return b().seq(all); }
  template <class Body>
  Stmt loop(const char* name, int64_t extent, Body body, LoopKind kind = LoopKind::kSerial) {
    const Id id = nest_.kernel_.new_id(name);
    return b().loop(id, b().integer(extent), body(b().var(id)), kind);
  }
  template <class Body>
  Stmt each_lane(Body body, int64_t lanes = kLanes) {
    return loop("lane", lanes, body, across_);
  }
  static Expr at_vector(Builder& b, Expr vector, Expr lane) { return b.add(b.scale(vector, kLanes), lane); }
  // t[0] = the combination of all lanes of t.
  template <class Combine>
  Stmt fold(const Tensor& t, Combine combine) {
    std::vector<Stmt> steps;
    for (int64_t half = kLanes / 2; half > 1; half /= 2)
      steps.push_back(each_lane(
          [&](Expr lane) { return store(t, lane, combine(load(t, lane), load(t, b().offset(lane, half)))); }, half));
    steps.push_back(set(t, combine(get(t), load(t, b().integer(1)))));
    return b().seq(steps);
  }
  Expr greater(Expr x, Expr y) { return b().max(x, y); }

  // tops[group] = the best of the group.
  Stmt find_top(Expr group) {
    const Stmt vectors = each_lane([&](Expr lane) {
      const Expr first = b().add(b().scale(group, kGroup), lane);
      Expr top = load(left_, first);
      for (int64_t i = kLanes; i < kGroup; i += kLanes) top = greater(top, load(left_, b().offset(first, i)));
      return store(best_, lane, top);
    });
    return seq({vectors, fold(best_, [&](Expr x, Expr y) { return greater(x, y); }), store(tops_, group, get(best_))});
  }

  Stmt start() {
    const Stmt no_tops = loop("vector", top_vectors_, [&](Expr v) {
      return each_lane([&](Expr lane) { return store(tops_, at_vector(b(), v, lane), none()); });
    });
    const Stmt groups = loop("group", groups_, [&](Expr group) {
      const Stmt scores = each_lane(
          [&](Expr lane) {
            const Expr i = b().add(b().scale(group, kGroup), lane);
            const Expr is_inside = extent_ % kGroup == 0 ? nullptr : b().lt(i, b().integer(extent_));
            const Expr x = nest_.read(scores_, {row_[0], row_[1], i}, is_inside, -HUGE_VAL);
            return store(left_, i, b().select(b().lt(b().real(attrs_.least_score, Type::kF32), x), x, none()));
          },
          kGroup);
      return seq({scores, find_top(group)});
    });
    // Boxes without an area overlap nothing.
    const Stmt no_boxes = loop("vector", stayed_vectors_, [&](Expr v) {
      return each_lane([&](Expr lane) {
        std::vector<Stmt> stores;
        for (const Tensor& t : stayed_) stores.push_back(store(t, at_vector(b(), v, lane), b().real(0, Type::kF32)));
        return b().seq(stores);
      });
    });
    return seq({no_tops, groups, no_boxes});
  }

  // best[0] = the best score of those left.
  Stmt search_top() {
    const Stmt tops = loop("vector", top_vectors_, [&](Expr v) {
      return each_lane([&](Expr lane) {
        return store(best_, lane, greater(load(best_, lane), load(tops_, at_vector(b(), v, lane))));
      });
    });
    return seq({each_lane([&](Expr lane) { return store(best_, lane, none()); }), tops,
                fold(best_, [&](Expr x, Expr y) { return greater(x, y); })});
  }

  // place[0] = the first of `vectors` vectors' elements that is best[0].
  template <class Element>
  Stmt find_best(int64_t vectors, Element element) {
    const Expr behind = b().integer(vectors * kLanes, Type::kI32);
    const Stmt search = loop("vector", vectors, [&](Expr v) {
      return each_lane([&](Expr lane) {
        const Expr i = at_vector(b(), v, lane);
        const Expr here = b().select(b().eq(element(i), get(best_)), b().cast(i, Type::kI32), behind);
        return store(place_, lane, b().min(load(place_, lane), here));
      });
    });
    return seq({each_lane([&](Expr lane) { return store(place_, lane, behind); }), search,
                fold(place_, [&](Expr x, Expr y) { return b().min(x, y); })});
  }

  // number = the first element whose score is best[0], which is left no more.
  Stmt take() {
    const Expr place = b().cast(get(place_), Type::kI64), first = b().scale(get(group_), kGroup);
    return seq({find_best(top_vectors_, [&](Expr i) { return load(tops_, i); }), set(group_, place),
                find_best(kGroup / kLanes, [&](Expr i) { return load(left_, b().add(first, i)); }),
                set(number_, b().add(first, place)), store(left_, get(number_), none()), find_top(get(group_))});
  }

  // Keeps box `number` where it is to stay.
  Stmt keep() {
    const BoxExprs box{b(), attrs_.most_overlap};
    BoxExprs::Box own, other;
    for (size_t c = 0; c < 4; ++c)
      own[c] =
          b().load(*boxes_.buffer, std::array<Expr, 3>{row_[0], get(number_), b().integer(static_cast<int64_t>(c))});
    const Stmt compare = loop("vector", stayed_vectors_, [&](Expr v) {
      return b().if_then(b().lt(b().scale(v, kLanes), get(kept_)), each_lane([&](Expr lane) {
                           const Expr j = at_vector(b(), v, lane);
                           for (size_t c = 0; c < 4; ++c) other[c] = load(stayed_[c], j);
                           const Expr overlaps = nest_.computing(Type::kF32, [&] {
                             return box.overlaps(other, load(stayed_[4], j), own, box.area(own));
                           });
                           return store(hidden_, lane, b().logical_or(load(hidden_, lane), overlaps));
                         }));
    });
    std::vector<Stmt> stay;
    for (size_t c = 0; c < 4; ++c) stay.push_back(store(stayed_[c], get(kept_), own[c]));
    stay.push_back(store(stayed_[4], get(kept_), box.area(own)));
    stay.push_back(store(out_, get(kept_), get(number_)));
    stay.push_back(set(kept_, b().offset(get(kept_), 1)));
    return seq({each_lane([&](Expr lane) { return store(hidden_, lane, b().boolean(false)); }), compare,
                fold(hidden_, [&](Expr x, Expr y) { return b().logical_or(x, y); }),
                b().if_then(b().logical_not(get(hidden_)), b().seq(stay))});
  }

  GroupNest& nest_;
  const graph::SuppressAttrs& attrs_;
  const LoopKind across_;  // vectors where loops run in order; elsewhere a thread has a row
  const Tensor boxes_, scores_, out_;
  const int64_t extent_, most_, groups_, top_vectors_, stayed_vectors_;
  Tensor left_, tops_, best_, place_, hidden_, group_, number_, kept_, wanted_;
  std::array<Tensor, 5> stayed_;
  Exprs row_;
};

void GroupNest::plan_suppress(const graph::Node& node) {
  add_stage("suppress", node, false, [this, &node](const std::string& name, const Tensor& out) {
    return computing(Type::kF32, [&] {
      SuppressRow suppress(*this, node, out);
      return ordered_nest(name, {{"i0", out.shape[0]}, {"i1", out.shape[1]}},
                          [&](const Exprs& row) { return suppress.emit(row); });
    });
  });
}

}  // namespace tcc::task
