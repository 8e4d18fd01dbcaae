#include "lower/pad_tails.h"

#include <algorithm>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/query.h"

namespace tcc::lower {

using namespace ir;

namespace {

class TailPadder {
 public:
  TailPadder(const Kernel& kernel, Arena& arena) : kernel_(kernel), b_(arena), ranges_(kernel) {
    visit(kernel.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
  }

  Stmt stmt(Stmt s, Expr condition) {
    switch (s->kind) {
      case StmtKind::kLoop: {
        const Loop* l = as<Loop>(s);
        bool pads = std::any_of(l->annotations.begin(), l->annotations.end(), [](const Annotation& a) {
          return a.key == AnnotationKey::kTail && is_int(a.value, static_cast<int64_t>(TailMode::kPad));
        });
        if (pads) padded_.push_back(l->id);
        Stmt body = stmt(l->body, condition);
        if (pads) padded_.pop_back();
        return b_.with_body(*l, body);
      }
      case StmtKind::kIf: {
        const If* x = as<If>(s);
        if (x->else_case != nullptr || padded_.empty()) break;
        // Conditions of padded tiles travel down to the stores; others stay where they are.
        std::vector<Expr> conjuncts;
        split_conjunction(x->condition, conjuncts);
        Expr keep = nullptr, down = condition;
        for (Expr c : conjuncts) (is_padded(c) ? down : keep) = b_.logical_and(is_padded(c) ? down : keep, c);
        Stmt body = stmt(x->then_case, down);
        return keep == nullptr ? body : b_.if_then(keep, body);
      }
      case StmtKind::kStore: {
        if (condition == nullptr) return s;
        const Store* st = as<Store>(s);
        const Buffer* buffer = kernel_.buffer(st->buffer);
        if (buffer->scope != Scope::kLocal || !overhang_fits(*st))
          return b_.store(st->buffer, st->indices, st->value, b_.logical_and(st->predicate, condition));
        return b_.store(st->buffer, st->indices, predicate_loads(st->value, condition), st->predicate);
      }
      case StmtKind::kInstrCall:
        return condition == nullptr ? s : b_.if_then(condition, s);
      case StmtKind::kSeq:
      case StmtKind::kAlloc:
      case StmtKind::kRoles:
      case StmtKind::kBlock:
        break;
    }
    return rewrite_children(b_, s, [&](Stmt c) { return stmt(c, condition); });
  }

 private:
  bool inside(Id id, std::span<const Expr> indices) const {
    const Buffer* buffer = kernel_.buffer(id);
    for (size_t d = 0; d < indices.size(); ++d) {
      const Interval at = ranges_.bounds(indices[d]);
      if (!is_int(buffer->shape[d]) || at.low < 0 || at.high >= int_value(buffer->shape[d])) return false;
    }
    return true;
  }
  // Local buffers that were cut to the logical size have no room for the overhang.
  bool overhang_fits(const Store& st) const {
    bool fits = inside(st.buffer, st.indices);
    visit(st.value, [&](Expr e) {
      if (const Load* l = as<Load>(e);
          l != nullptr && kernel_.buffer(l->buffer)->scope == Scope::kLocal && l->predicate == nullptr)
        fits = fits && inside(l->buffer, l->indices);
      return fits;
    });
    return fits;
  }
  bool is_padded(Expr condition) const { return mentions_any(condition, padded_); }
  Expr predicate_loads(Expr e, Expr condition) {
    const Load* l = as<Load>(e);
    if (l != nullptr && kernel_.buffer(l->buffer)->scope != Scope::kLocal) {
      Expr other = l->other != nullptr ? l->other : b_.constant(0, l->type);
      return b_.load(l->buffer, l->type, l->indices, b_.logical_and(condition, l->predicate), other);
    }
    return rewrite_children(b_, e, [&](Expr c) { return predicate_loads(c, condition); });
  }

  const Kernel& kernel_;
  Builder b_;
  analysis::Ranges ranges_;
  std::vector<Id> padded_;
};

}  // namespace

Kernel pad_tails(const Kernel& kernel, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  k.root = TailPadder(kernel, *arena).stmt(kernel.root, nullptr);
  return k;
}

}  // namespace tcc::lower
