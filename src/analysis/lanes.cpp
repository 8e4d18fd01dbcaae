#include "tcc/analysis/lanes.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tcc/analysis/simplify.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::analysis {
namespace {

using ir::Expr;
using ir::ExprKind;

int64_t floor_mod_int(int64_t a, int64_t b) {
  return ((a % b) + b) % b;
}

// The constants and the terms of `e` that mention `id` linearly; false when it appears in another way.
struct LinearPart {
  int64_t low = 0, high = 0;  // range of the part that mentions id
  std::vector<ir::Term> with, without;
  int64_t constant = 0;
  bool ok = true;
};
LinearPart linear_part(Expr e, const LaneRange& range) {
  LinearPart part;
  auto add = [&](const ir::Term& t) {
    if (!mentions(t.atom, range.id)) {
      part.without.push_back(t);
    } else if (t.atom->kind == ExprKind::kVar) {
      part.with.push_back(t);
      int64_t reach = t.coefficient * (range.extent - 1);
      part.low += std::min<int64_t>(0, reach);
      part.high += std::max<int64_t>(0, reach);
    } else {
      part.ok = false;
    }
  };
  if (const ir::Sum* s = ir::as<ir::Sum>(e)) {
    part.constant = s->constant;
    for (const ir::Term& t : s->terms) add(t);
  } else if (ir::is_int(e)) {
    part.constant = ir::int_value(e);
  } else {
    add({1, e});
  }
  return part;
}

// Takes the vector variable out of divisions that it cannot carry over: (16 x + v) div 32 is (16 x) div 32 for v < 16.
Expr separate_lanes(ir::Builder& b, Expr e, const LaneRange& range) {
  if (!mentions(e, range.id)) return e;
  Expr r = ir::rewrite_children(b, e, [&](Expr child) { return separate_lanes(b, child, range); });
  if (r->kind != ExprKind::kFloorDiv && r->kind != ExprKind::kFloorMod) return r;
  const ir::Binary* q = ir::as<ir::Binary>(r);
  if (!ir::is_int(q->b) || ir::int_value(q->b) <= 0) return r;
  int64_t c = ir::int_value(q->b);
  LinearPart part = linear_part(q->a, range);
  if (!part.ok || part.with.empty()) return r;
  int64_t g = c;
  for (const ir::Term& t : part.without) g = std::gcd(g, t.coefficient);
  int64_t rest = floor_mod_int(part.constant, g);
  if (part.low + rest < 0 || part.high + rest >= g) return r;
  Expr base = b.sum(part.constant - rest, part.without);
  if (r->kind == ExprKind::kFloorDiv) return b.floor_div(base, q->b);
  return b.add(b.floor_mod(base, q->b), b.sum(rest, part.with));
}

// (c x + k v) div c, or mod c, where v is the vector variable: each lane's part is a number, beside x for quotients.
bool add_quotient(ir::Builder& b, const ir::Term& t, const LaneRange& range, std::vector<ir::Term>& uniform,
                  std::vector<int64_t>& offsets) {
  const bool quotient = t.atom->kind == ExprKind::kFloorDiv;
  const ir::Binary* q = quotient || t.atom->kind == ExprKind::kFloorMod ? ir::as<ir::Binary>(t.atom) : nullptr;
  if (q == nullptr || !ir::is_int(q->b) || ir::int_value(q->b) <= 0 || mentions(q->b, range.id)) return false;
  const int64_t c = ir::int_value(q->b);
  const LinearPart part = linear_part(q->a, range);
  const auto whole = [&](const ir::Term& x) { return x.coefficient % c == 0; };
  if (!part.ok || !std::all_of(part.without.begin(), part.without.end(), whole)) return false;
  for (int64_t l = 0; l < range.lanes; ++l) {
    const int64_t lane = std::min(range.base + l, range.extent - 1);  // as below
    int64_t value = part.constant;
    for (const ir::Term& x : part.with) value += x.coefficient * lane;
    const int64_t rest = floor_mod_int(value, c);
    offsets[static_cast<size_t>(l)] += t.coefficient * (quotient ? (value - rest) / c : rest);
  }
  if (quotient)
    for (const ir::Term& x : part.without) uniform.push_back({t.coefficient * (x.coefficient / c), x.atom});
  return true;
}

}  // namespace

std::optional<LaneSplit> split_lanes(ir::Builder& b, Expr e, const LaneRange& range) {
  if (range.id == ir::kNoId || !mentions(e, range.id)) return LaneSplit{e, {}};
  e = separate_lanes(b, e, range);
  LaneSplit split;
  split.offsets.assign(static_cast<size_t>(range.lanes), 0);
  std::vector<ir::Term> uniform;
  int64_t constant = 0;
  auto add = [&](const ir::Term& t) {
    if (!mentions(t.atom, range.id)) {
      uniform.push_back(t);
      return true;
    }
    if (t.atom->kind == ExprKind::kVar) {
      for (int64_t l = 0; l < range.lanes; ++l) split.offsets[l] += t.coefficient * (range.base + l);
      return true;
    }
    if (add_quotient(b, t, range, uniform, split.offsets)) return true;
    for (int64_t l = 0; l < range.lanes; ++l) {
      ir::Substitution lane;
      // Lanes beyond the loop's end are masked off; they repeat the last one so that addresses stay plain.
      lane.set(range.id, b.integer(std::min(range.base + l, range.extent - 1)));
      Expr value = ir::substitute(b, t.atom, lane);
      if (!ir::is_int(value)) return false;
      split.offsets[l] += t.coefficient * ir::int_value(value);
    }
    return true;
  };
  if (const ir::Sum* s = ir::as<ir::Sum>(e)) {
    constant = s->constant;
    for (const ir::Term& t : s->terms)
      if (!add(t)) return std::nullopt;
  } else if (!add({1, e})) {
    return std::nullopt;
  }
  split.uniform = b.sum(constant, uniform);
  if (std::all_of(split.offsets.begin(), split.offsets.end(), [](int64_t o) { return o == 0; })) split.offsets.clear();
  return split;
}

std::vector<int64_t> row_major_strides(const ir::Buffer& buffer) {
  std::vector<int64_t> strides(buffer.shape.size(), 1);
  for (size_t i = buffer.shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * (ir::is_int(buffer.shape[i]) ? ir::int_value(buffer.shape[i]) : 1);
  return strides;
}

namespace {

// The value of an index where the variable is one and all others are zero; kNoId: where all are zero.
std::optional<int64_t> value_at_unit(ir::Builder& b, Expr e, const std::vector<ir::Id>& variables, ir::Id one) {
  ir::Substitution at;
  for (ir::Id v : variables) at.set(v, b.integer(v == one ? 1 : 0));
  const Expr value = ir::substitute(b, e, at);
  return ir::is_int(value) ? std::optional(ir::int_value(value)) : std::nullopt;
}

// Is the index the digit (place div stride) mod extent? extent 0: it is the highest one, without a modulo.
bool is_digit(ir::Builder& b, Expr index, Expr place, int64_t stride, int64_t extent, const Ranges& ranges) {
  const Expr step = b.integer(stride);
  const Expr quotient = b.floor_div(place, step);
  if (extent == 0) return ir::equal(simplify(b, quotient, ranges), index);
  if (ir::equal(simplify(b, b.floor_mod(quotient, b.integer(extent)), ranges), index)) return true;
  // Loops that were split before they were fused with others have their remainders inside of the division.
  const Expr rest = simplify(b, b.floor_mod(place, b.integer(stride * extent)), ranges);
  return ir::equal(simplify(b, b.floor_div(rest, step), ranges), index);
}

// The indices of an element whose place is a sum of multiples of loop variables, or the remainder of such a sum by the
// number of elements: loops were fused and split in other places. The digits alone show that only together, since each
// was made simple by itself. nullptr: they are not such digits, for all that their forms tell.
Expr linear_place(ir::Builder& b, const ir::Buffer& buffer, std::span<const int64_t> strides,
                  std::span<const Expr> indices, const Ranges& ranges) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  std::vector<ir::Id> variables;
  bool has_division = false, plain = true;
  for (Expr index : indices)
    ir::visit(index, [&](Expr e) {
      has_division |= e->kind == ExprKind::kFloorDiv || e->kind == ExprKind::kFloorMod;
      plain &= ir::as<ir::Load>(e) == nullptr && ir::as<ir::Select>(e) == nullptr;
      const ir::Var* v = ir::as<ir::Var>(e);
      if (v != nullptr && std::find(variables.begin(), variables.end(), v->id) == variables.end())
        variables.push_back(v->id);
      return plain;
    });
  if (!has_division || !plain) return nullptr;
  int64_t elements = 1;
  for (size_t i = indices.size(); i-- > 0;) {
    if (!ir::is_int(buffer.shape[i]) || strides[i] != elements) return nullptr;
    elements *= std::max<int64_t>(ir::int_value(buffer.shape[i]), 1);
    if (elements > kMaxElements) return nullptr;
  }
  std::vector<int64_t> at_zero;
  int64_t constant = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<int64_t> value = value_at_unit(b, indices[i], variables, ir::kNoId);
    if (!value) return nullptr;
    at_zero.push_back(*value);
    constant += *value * strides[i];
  }
  Expr place = b.integer(constant);
  for (ir::Id v : variables) {
    int64_t step = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!ir::mentions(indices[i], v)) continue;
      const std::optional<int64_t> value = value_at_unit(b, indices[i], variables, v);
      if (!value) return nullptr;
      step += (*value - at_zero[i]) * strides[i];
    }
    place = b.add(place, b.scale(b.var(v), step));
  }
  for (size_t i = 1; i < indices.size(); ++i)
    if (!is_digit(b, indices[i], place, strides[i], ir::int_value(buffer.shape[i]), ranges)) return nullptr;
  const int64_t highest = ir::int_value(buffer.shape[0]);
  if (is_digit(b, indices[0], place, strides[0], 0, ranges)) return place;
  if (is_digit(b, indices[0], place, strides[0], highest, ranges))
    return simplify_address(b, b.floor_mod(place, b.integer(elements)), ranges);
  return nullptr;
}

}  // namespace

Expr flatten(ir::Builder& b, const ir::Buffer& buffer, std::span<const int64_t> strides, std::span<const Expr> indices,
             const Ranges& ranges) {
  std::vector<ir::Term> terms;
  if (buffer.layout == nullptr) {
    TCC_CHECK(indices.size() == strides.size());
    if (const Expr place = linear_place(b, buffer, strides, indices, ranges)) return place;
    for (size_t i = 0; i < indices.size(); ++i) terms.push_back({strides[i], indices[i]});
  } else {
    for (const ir::Digit& d : buffer.layout->digits) {
      Expr value = b.floor_div(indices[static_cast<size_t>(d.dim)], b.integer(d.divisor));
      if (d.extent > 0) value = b.floor_mod(value, b.integer(d.extent));
      terms.push_back({d.stride, simplify(b, value, ranges)});
    }
  }
  // Digits of fused loops that were split in other places are apart by more than one step, and come together in turns.
  Expr flat = b.sum(0, terms);
  while (true) {
    const Expr simpler = simplify_address(b, flat, ranges);
    if (ir::equal(simpler, flat)) return flat;
    flat = simpler;
  }
}

int64_t run_length(const std::vector<int64_t>& offsets) {
  int64_t n = static_cast<int64_t>(offsets.size()), run = n;
  for (int64_t i = 1; i < n; ++i)
    while (run > 1 && i % run != 0 && offsets[i] != offsets[i - 1] + 1) run /= 2;
  return run;
}

bool lanes_are_apart(const std::vector<int64_t>& offsets, int64_t element_bytes, bool store) {
  const auto lanes = static_cast<int64_t>(offsets.size());
  const auto [low, high] = std::minmax_element(offsets.begin(), offsets.end());
  if (lanes == 0 || *low == *high) return false;
  const int64_t run = run_length(offsets);
  if (run == lanes || is_vector_run(run, element_bytes)) return false;
  if (store) return true;
  const int64_t span = *high - *low + 1;
  return !is_cheap_cover(span, std::min(lanes, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(span)))),
                         lanes);
}

}  // namespace tcc::analysis
