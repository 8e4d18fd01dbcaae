#include "lower/gpu/vectorize_stores.h"

#include <algorithm>
#include <bit>

#include "lower/gpu/edit.h"
#include "tcc/analysis/injective.h"
#include "tcc/analysis/vector_access.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxStoreLanes = 16;

// No two iterations of the loops have the same value of `flat`.
bool is_injective(Expr flat, const std::vector<const Loop*>& nest) {
  if (as<Sum>(flat) == nullptr) return false;
  const std::optional<std::vector<analysis::LoopStep>> steps = analysis::loop_steps(flat, nest);
  return steps && steps->size() == nest.size() && analysis::are_distinct(*steps);
}

class Vectorizer {
 public:
  explicit Vectorizer(Edit& edit) : edit_(edit), b_(edit.b), ranges_(edit.k) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    if (Stmt nest = vectorized(*l)) return nest;
    Expr outer = ranges_.set(l->id, l->extent);
    Stmt body = rewrite(l->body);
    ranges_.set(l->id, outer);
    return b_.with_body(*l, body);
  }

 private:
  // nullptr: a loop of another form, or the order of its iterations might matter.
  Stmt vectorized(const Loop& l) {
    std::vector<const Loop*> nest;
    Stmt s = &l;
    for (const Loop* at = &l; at != nullptr; at = as<Loop>(s)) {
      const bool unrolled = at->loop_kind == LoopKind::kUnrolled || at->axis == Axis::kVthread;
      if (!unrolled || !is_int(at->extent)) return nullptr;
      nest.push_back(at);
      s = at->body;
    }
    const Store* store = as<Store>(s);
    if (store == nullptr || store->predicate != nullptr) return nullptr;
    const Buffer& target = *edit_.k.buffer(store->buffer);
    if (target.layout != nullptr || (target.scope != Scope::kGlobal && target.scope != Scope::kShared)) return nullptr;
    if (loads_from(store->value, store->buffer)) return nullptr;
    Expr flat = analysis::flat_address(b_, target, store->indices);
    if (!is_injective(flat, nest)) return nullptr;
    for (const Loop* inner : nest) {
      if (int_value(inner->extent) > kMaxStoreLanes) continue;
      if (analysis::vector_width(b_, edit_.k, ranges_, target, flat, inner->id, int_value(inner->extent)) < 2) continue;
      if (!starts_whole(*inner, *store)) continue;
      Stmt out = b_.loop(inner->id, inner->extent, store, LoopKind::kVectorized);
      for (auto outer = nest.rbegin(); outer != nest.rend(); ++outer)
        if (*outer != inner) out = b_.loop((*outer)->id, (*outer)->extent, out, LoopKind::kUnrolled);
      return out;
    }
    return nullptr;
  }

  // What a Vectorized loop promises: contiguous accesses of memory start at multiples of their width, but for loads
  // whose predicates differ between the lanes, which are read element by element.
  bool starts_whole(const Loop& l, const Store& store) {
    bool whole = starts_whole(l, store.buffer, store.indices);
    visit(store.value, [&](Expr e) {
      const Load* load = as<Load>(e);
      if (load != nullptr && !mentions(load->predicate, l.id))
        whole = whole && starts_whole(l, load->buffer, load->indices);
      return whole;
    });
    return whole;
  }
  bool starts_whole(const Loop& l, Id id, std::span<const Expr> indices) {
    const Buffer& buffer = *edit_.k.buffer(id);
    if (buffer.scope == Scope::kLocal || indices.empty() || !steps_by_one(indices.back(), l.id)) return true;
    const int64_t extent = int_value(l.extent), width = std::min(extent, kMaxAccessBytes / type_bytes(buffer.type));
    if (width <= 1 || !std::has_single_bit(static_cast<uint64_t>(width)) || extent % width != 0) return true;
    Expr flat = analysis::flat_address(b_, buffer, indices);
    if (buffer.layout != nullptr)
      return analysis::vector_width(b_, edit_.k, ranges_, buffer, flat, l.id, extent) >= width;
    return analysis::known_divisor(edit_.k, analysis::at_lane(b_, ranges_, flat, l.id, 0)) % width == 0;
  }
  static bool steps_by_one(Expr index, Id id) {
    if (const Var* v = as<Var>(index)) return v->id == id;
    const Sum* sum = as<Sum>(index);
    return sum != nullptr && std::any_of(sum->terms.begin(), sum->terms.end(), [&](const Term& t) {
             const Var* v = as<Var>(t.atom);
             return v != nullptr && v->id == id && t.coefficient == 1;
           });
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
};

}  // namespace

Kernel vectorize_stores(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = Vectorizer(edit).rewrite(kernel.root);
  return edit.k;
}

}  // namespace tcc::lower
