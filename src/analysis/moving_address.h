// How loops move the address of an access. Private to the room.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "tcc/ir/query.h"

namespace tcc::analysis {

// The address of one access as a sum, and how loops move it.
class MovingAddress {
 public:
  explicit MovingAddress(ir::Expr flat) {
    if (const ir::Sum* s = ir::as<ir::Sum>(flat)) {
      constant = s->constant;
      terms.assign(s->terms.begin(), s->terms.end());
    } else {
      terms.push_back({1, flat});
    }
  }

  bool moves_with(ir::Id loop) const {
    return std::any_of(terms.begin(), terms.end(), [&](const ir::Term& t) { return ir::mentions(t.atom, loop); });
  }
  // The one term with the loop; nullptr: there are several, or none.
  const ir::Term* only_term(ir::Id loop) const {
    const ir::Term* found = nullptr;
    for (const ir::Term& t : terms) {
      if (!ir::mentions(t.atom, loop)) continue;
      if (found != nullptr) return nullptr;
      found = &t;
    }
    return found;
  }
  // By how much an iteration of the loop moves it; nullopt: not by the same amount each time, or backwards.
  std::optional<int64_t> step(ir::Id loop) const {
    const ir::Term* t = only_term(loop);
    if (t == nullptr) return moves_with(loop) ? std::nullopt : std::optional<int64_t>(0);
    if (ir::as<ir::Var>(t->atom) == nullptr || t->coefficient < 0) return std::nullopt;
    return t->coefficient;
  }
  void drop(ir::Id loop) {
    std::erase_if(terms, [&](const ir::Term& t) { return ir::mentions(t.atom, loop); });
  }

  int64_t constant = 0;
  std::vector<ir::Term> terms;
};

// For how many iterations a loop that was fused from others leaves `atom` alone: of `i // d`, `i % e` and `i // d % e`.
inline std::optional<int64_t> period(ir::Expr atom, ir::Id loop) {
  const auto is_loop = [&](ir::Expr e) {
    const ir::Var* v = ir::as<ir::Var>(e);
    return v != nullptr && v->id == loop;
  };
  const ir::Binary* rest = atom->kind == ir::ExprKind::kFloorMod ? ir::as<ir::Binary>(atom) : nullptr;
  if (rest != nullptr && ir::is_int(rest->b)) {
    if (is_loop(rest->a)) return 1;
    atom = rest->a;
  }
  const ir::Binary* division = atom->kind == ir::ExprKind::kFloorDiv ? ir::as<ir::Binary>(atom) : nullptr;
  if (division == nullptr || !ir::is_int(division->b) || !is_loop(division->a)) return std::nullopt;
  return ir::int_value(division->b);
}

}  // namespace tcc::analysis
