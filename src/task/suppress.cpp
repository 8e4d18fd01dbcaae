// Loops of Suppress. Few of many boxes are looked at as a rule, so they are not sorted: the best of those left is
// searched for, time after time. The best score of each group of elements is kept, which makes a search short. For each
// row:
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
#include <algorithm>
#include <array>
#include <cmath>

#include "nest.h"

namespace tcc::task {

using namespace ir;

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

// Statements about one row, the axes of which are `row`.
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
  static constexpr int64_t kLanes = kVectorLanes, kGroup = 4 * kLanes;

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
  Expr at_vector(Expr vector, Expr lane) { return b().add(b().scale(vector, kLanes), lane); }
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

  // tops[group] = the best of the group.
  Stmt find_top(Expr group) {
    const Stmt vectors = each_lane([&](Expr lane) {
      const Expr first = b().add(b().scale(group, kGroup), lane);
      Expr top = load(left_, first);
      for (int64_t i = kLanes; i < kGroup; i += kLanes) top = b().max(top, load(left_, b().offset(first, i)));
      return store(best_, lane, top);
    });
    return seq({vectors, fold(best_, [&](Expr x, Expr y) { return b().max(x, y); }), store(tops_, group, get(best_))});
  }

  Stmt start() {
    const Stmt no_tops = loop("vector", top_vectors_, [&](Expr v) {
      return each_lane([&](Expr lane) { return store(tops_, at_vector(v, lane), none()); });
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
        for (const Tensor& t : stayed_) stores.push_back(store(t, at_vector(v, lane), b().real(0, Type::kF32)));
        return b().seq(stores);
      });
    });
    return seq({no_tops, groups, no_boxes});
  }

  // best[0] = the best score of those left.
  Stmt search_top() {
    const Stmt tops = loop("vector", top_vectors_, [&](Expr v) {
      return each_lane(
          [&](Expr lane) { return store(best_, lane, b().max(load(best_, lane), load(tops_, at_vector(v, lane)))); });
    });
    return seq({each_lane([&](Expr lane) { return store(best_, lane, none()); }), tops,
                fold(best_, [&](Expr x, Expr y) { return b().max(x, y); })});
  }

  // place[0] = the first of `vectors` vectors' elements that is best[0].
  template <class Element>
  Stmt find_best(int64_t vectors, Element element) {
    const Expr behind = b().integer(vectors * kLanes, Type::kI32);
    const Stmt search = loop("vector", vectors, [&](Expr v) {
      return each_lane([&](Expr lane) {
        const Expr i = at_vector(v, lane);
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
                           const Expr j = at_vector(v, lane);
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
