// blockize: the loops from one loop down and the block below them become the body of a new block around which the outer
// loops stay (TensorIR, Feng et al., ASPLOS 2023, section 3.2 and 4.2).
//
// Each iterator's binding is divided into a part of the outer loops and a part of the inner loops (subspace
// division): binding = q * n + r, where r runs over [0, n) below and q moves with the loops above only. The new block
// gets an iterator for each q; the old block keeps its iterators, bound to q * n + r, and so keeps its body. A
// reduction some of whose iterations are chosen above is initialized by the new block, over the inner loops of the
// result.
#include "common.h"
#include "tcc/analysis/injective.h"
#include "tcc/ir/text.h"

namespace tcc::schedule {
namespace {

// One iterator's division; q is nullptr where the outer loops do not move it.
struct Division {
  Expr outer = nullptr;   // the terms of the loops above: q * n
  Expr inner = nullptr;   // r
  Expr n = nullptr;       // extent of r
  Expr q = nullptr;       // over the outer loops
  Expr extent = nullptr;  // of q
  Id id = kNoId;          // the new block's iterator for q
};

// e / n where that is certainly exact, term by term; nullptr otherwise.
Expr exact_quotient(Builder& b, Expr e, Expr n) {
  if (is_int(n, 1) || is_int(e, 0)) return e;
  Term single{1, e};
  std::span<const Term> terms(&single, 1);
  int64_t constant = 0;
  if (const Sum* s = as<Sum>(e)) terms = s->terms, constant = s->constant;
  if (is_int(e)) terms = {}, constant = int_value(e);
  int64_t divisor = 1;
  std::vector<Expr> needed;
  if (is_int(n)) {
    divisor = int_value(n);
  } else {
    Expr atom = n;
    if (const Sum* s = as<Sum>(n)) {
      if (s->constant != 0 || s->terms.size() != 1) return nullptr;
      divisor = s->terms[0].coefficient;
      atom = s->terms[0].atom;
    }
    if (const Prod* p = as<Prod>(atom))
      needed.assign(p->factors.begin(), p->factors.end());
    else
      needed.push_back(atom);
  }
  if (constant != 0 && (!needed.empty() || constant % divisor != 0)) return nullptr;
  Expr out = b.integer(constant / divisor);
  for (const Term& t : terms) {
    if (t.coefficient % divisor != 0) return nullptr;
    std::vector<Expr> factors = {t.atom};
    if (const Prod* p = as<Prod>(t.atom)) factors.assign(p->factors.begin(), p->factors.end());
    for (Expr want : needed) {
      auto it = std::find_if(factors.begin(), factors.end(), [&](Expr f) { return equal(f, want); });
      if (it == factors.end()) return nullptr;
      factors.erase(it);
    }
    out = b.add(out, b.scale(b.product(factors), t.coefficient / divisor));
  }
  return out;
}

class Blockizer {
 public:
  Blockizer(const Kernel& k, Path path) : edit_(k), path_(std::move(path)), ranges_(all_ranges(k)) {}

  Legal<Kernel> run(Id& out) {
    TCC_TRY_VOID(find_chain());
    TCC_TRY_VOID(divide());
    TCC_TRY_VOID(divide_predicate());
    out = edit_.fresh_named(name_hint(edit_.k, block_->id) + "_o");
    return edit_.finish(replace_at(b(), path_, outer_block(out)));
  }

 private:
  Builder& b() { return edit_.b; }
  std::string name(Id id) const { return describe(edit_.k, id); }
  bool is_inner(Expr e) const { return mentions_any(e, inner_); }
  bool is_outer(Expr e) const {
    return mentions_any(e, [&](Id id) {
      return std::find(inner_.begin(), inner_.end(), id) == inner_.end() && ranges_.extent(id) != nullptr;
    });
  }

  Legal<void> find_chain() {
    Stmt s = path_.nodes.back();
    for (; as<Loop>(s) != nullptr; s = as<Loop>(s)->body) {
      chain_.push_back(as<Loop>(s));
      inner_.push_back(as<Loop>(s)->id);
    }
    block_ = as<Block>(s);
    if (block_ == nullptr)
      return reject(RejectReason::kNotALoopChain, "several statements below " + name(chain_[0]->id));
    for (const Loop* l : chain_) {
      if (is_outer(l->extent))
        return reject(RejectReason::kDependentExtent, "extent of " + name(l->id) + " depends on a loop around it");
      if (mentions_any(l->extent, inner_)) return reject(RejectReason::kDependentExtent, "extent of " + name(l->id));
    }
    for (const Iter& it : block_->iters)
      if (it.kind != IterKind::kSpatial && it.kind != IterKind::kReduce)
        return reject(RejectReason::kReductionOrder, name(block_->id) + " runs in order");
    if (!analysis::is_injective(b(), *block_, chain_, ranges_))
      return reject(
          RejectReason::kNotAffine,
          name(block_->id) + " is not one instance for each iteration of the loops below " + name(chain_[0]->id));
    return {};
  }

  Legal<void> divide() {
    auto inner = [&](Id v) { return std::find(inner_.begin(), inner_.end(), v) != inner_.end(); };
    for (const Iter& it : block_->iters) {
      Division d;
      std::vector<Term> above, below;
      Term single{1, it.binding};
      std::span<const Term> terms(&single, 1);
      int64_t constant = 0;
      if (const Sum* s = as<Sum>(it.binding)) terms = s->terms, constant = s->constant;
      if (is_int(it.binding)) terms = {}, constant = int_value(it.binding);
      for (const Term& t : terms) {
        if (is_inner(t.atom) && is_outer(t.atom))
          return reject(RejectReason::kNotAffine,
                        fmt::format("the binding of {} mixes loops above and below {} in one term", name(it.id),
                                    name(chain_[0]->id)));
        (is_inner(t.atom) ? below : above).push_back(t);
      }
      d.outer = b().sum(constant, above);
      d.inner = b().sum(0, below);
      Expr low = ranges_.lower(b(), d.inner, inner), high = ranges_.upper(b(), d.inner, inner);
      if (low == nullptr || high == nullptr || !is_int(low, 0))
        return reject(RejectReason::kNotAffine,
                      fmt::format("what {} takes from the loops below does not start at zero", name(it.id)));
      d.n = ranges_.apply_products(b(), b().offset(high, 1));
      d.q = exact_quotient(b(), d.outer, d.n);
      if (d.q == nullptr)
        return reject(RejectReason::kNotAffine,
                      fmt::format("cannot blockize: expected the binding of {} in the form outer * {} + inner",
                                  name(it.id), ir::print(edit_.k, d.n)));
      d.extent = b().ceil_div(it.extent, d.n);
      if (!is_int(d.q, 0)) d.id = edit_.fresh(it.id, 0);
      // Loops that overhang by more than a tile: the new iterator stays in its range.
      if (d.id != kNoId && !ranges_.prove_less(b(), d.q, d.extent))
        outer_predicate_ = b().logical_and(outer_predicate_, b().lt(d.q, d.extent));
      divisions_.push_back(d);
    }
    return {};
  }

  // The value of an iterator over the new block's iterators and the inner loops.
  Expr recombined(const Division& d) {
    Expr outer = d.id == kNoId ? d.outer : b().mul(b().var(d.id), d.n);
    return b().add(outer, d.inner);
  }

  // Conditions on the outer loops stay outside. Others compare a sum whose outer terms are those of one iterator.
  Legal<void> divide_predicate() {
    std::vector<Expr> conjuncts;
    split_conjunction(block_->predicate, conjuncts);
    for (Expr c : conjuncts) {
      if (!is_inner(c)) {
        outer_predicate_ = b().logical_and(outer_predicate_, c);
        continue;
      }
      Expr inside = is_outer(c) ? inside_condition(c) : c;
      if (inside == nullptr)
        return reject(RejectReason::kNotAffine,
                      "the predicate of " + name(block_->id) + " does not divide at " + name(chain_[0]->id));
      inner_conditions_.push_back(inside);
    }
    return {};
  }
  Expr inside_condition(Expr c) {
    bool compares = c->kind == ExprKind::kLt || c->kind == ExprKind::kLe;
    if (!compares) return nullptr;
    Expr sides[2] = {as<Binary>(c)->a, as<Binary>(c)->b};
    for (Expr& side : sides) {
      if (!is_outer(side)) continue;
      auto it = std::find_if(divisions_.begin(), divisions_.end(),
                             [&](const Division& d) { return d.id != kNoId && !is_outer(b().sub(side, d.outer)); });
      if (it == divisions_.end()) return nullptr;
      side = b().add(b().sub(side, it->outer), b().mul(b().var(it->id), it->n));
    }
    return b().binary(c->kind, sides[0], sides[1]);
  }

  Stmt outer_block(Id id) {
    std::vector<Iter> outer, inner(block_->iters.begin(), block_->iters.end());
    bool reduces_outside = false;
    for (size_t i = 0; i < inner.size(); ++i) {
      const Division& d = divisions_[i];
      inner[i].binding = recombined(d);
      if (d.id == kNoId) continue;
      outer.push_back({d.id, inner[i].kind, d.extent, d.q});
      reduces_outside |= inner[i].kind == IterKind::kReduce;
    }
    Expr condition = nullptr;
    for (Expr c : inner_conditions_) condition = b().logical_and(condition, c);
    Stmt init = reduces_outside && block_->init != nullptr ? outer_init() : nullptr;
    Stmt body = b().block(block_->id, inner, block_->body, init == nullptr ? block_->init : nullptr, condition,
                          block_->reducer, block_->annotations);
    for (size_t i = chain_.size(); i-- > 0;) body = b().with_body(*chain_[i], body);
    return b().block(id, outer, body, init, outer_predicate_, reduces_outside ? block_->reducer : ReducerKind::kNone);
  }

  // The identity for every element of the result that the inner loops update.
  Stmt outer_init() {
    Substitution loops, names;
    std::vector<std::pair<const Loop*, Id>> copies;
    std::vector<Id> reducing;
    for (const Loop* l : chain_) {
      bool spatial = std::any_of(block_->iters.begin(), block_->iters.end(), [&](const Iter& it) {
        return it.kind == IterKind::kSpatial && mentions(it.binding, l->id);
      });
      if (!spatial) {
        reducing.push_back(l->id);
        continue;
      }
      copies.emplace_back(l, edit_.fresh(l->id, 0));
      loops.set(l->id, b().var(copies.back().second));
    }
    for (size_t i = 0; i < divisions_.size(); ++i) {
      if (block_->iters[i].kind == IterKind::kReduce)
        reducing.push_back(divisions_[i].id);
      else
        names.set(block_->iters[i].id, substitute(b(), recombined(divisions_[i]), loops));
    }
    Stmt init = substitute(b(), block_->init, names);
    Expr condition = nullptr;
    for (Expr c : inner_conditions_)
      if (!mentions_any(c, reducing)) condition = b().logical_and(condition, substitute(b(), c, loops));
    if (condition != nullptr) init = b().if_then(condition, init);
    for (size_t i = copies.size(); i-- > 0;) init = b().loop(copies[i].second, copies[i].first->extent, init);
    return init;
  }

  Editor edit_;
  Path path_;
  analysis::Ranges ranges_;
  std::vector<const Loop*> chain_;
  std::vector<Id> inner_;
  const Block* block_ = nullptr;
  std::vector<Division> divisions_;
  Expr outer_predicate_ = nullptr;
  std::vector<Expr> inner_conditions_;
};

}  // namespace

Legal<Kernel> blockize(const Kernel& k, Id loop_id, Id& out) {
  TCC_TRY(Path path, path_to_loop(k, loop_id));
  return Blockizer(k, std::move(path)).run(out);
}

}  // namespace tcc::schedule
