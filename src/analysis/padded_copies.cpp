#include "tcc/analysis/padded_copies.h"

#include <algorithm>
#include <map>

#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

struct Copy {
  const Store* store = nullptr;
  Expr condition = nullptr;
  std::map<Id, Expr> extents;  // of loops around the store
  std::vector<const Load*> loads;
  bool other = false;  // something else than one such store and loads
};

class Finder {
 public:
  Finder(Builder& b, const Kernel& k) : b_(b), k_(k) {}

  std::vector<PaddedCopy> run() {
    std::vector<PaddedCopy> out;
    // Kernels without conditions on registers end here.
    look_for_readers(k_.root);
    if (copies_.empty()) return out;
    look_at(k_.root, nullptr);
    for (const auto& [id, copy] : copies_)
      if (Expr constant = pads(*k_.buffer(id), copy)) out.push_back({id, constant});
    return out;
  }

 private:
  void look_for_readers(Stmt root) {
    visit_loads(root, [&](const Load& l) {
      if (l.predicate != nullptr && k_.buffer(l.buffer)->scope == Scope::kLocal) copies_[l.buffer];
    });
  }

  // `condition`: of the If right around the statement.
  void look_at(Stmt s, Expr condition) {
    if (const Loop* l = as<Loop>(s)) {
      extents_[l->id] = l->extent;
      look_at(l->body, nullptr);
      extents_.erase(l->id);
      return;
    }
    if (const If* branch = as<If>(s); branch != nullptr && branch->else_case == nullptr) {
      look_for_loads(branch->condition);
      return look_at(branch->then_case, branch->condition);
    }
    if (const Store* store = as<Store>(s)) return look_at(*store, condition);
    if (const InstrCall* call = as<InstrCall>(s))
      for (const Operand& o : call->operands)
        if (auto found = copies_.find(o.buffer); found != copies_.end()) found->second.other = true;
    visit_children(s, [&](Stmt child) { look_at(child, nullptr); });
  }

  void look_at(const Store& store, Expr condition) {
    for (Expr i : store.indices) look_for_loads(i);
    look_for_loads(store.value);
    look_for_loads(store.predicate);
    auto found = copies_.find(store.buffer);
    if (found == copies_.end()) return;
    Copy& copy = found->second;
    copy.other |= copy.store != nullptr;
    copy.store = &store;
    copy.condition = b_.logical_and(condition, store.predicate);
    copy.extents = extents_;
  }

  void look_for_loads(Expr e) {
    if (e == nullptr) return;
    visit(e, [&](Expr x) {
      const Load* l = as<Load>(x);
      if (l == nullptr) return true;
      if (auto found = copies_.find(l->buffer); found != copies_.end()) found->second.loads.push_back(l);
      return true;
    });
  }

  // Each index is a loop over the whole dimension, or the only position of it.
  static bool fills(const Buffer& buffer, const Copy& copy) {
    std::vector<Id> seen;
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      if (is_int(copy.store->indices[d], 0) && is_int(buffer.shape[d], 1)) continue;
      const Var* v = as<Var>(copy.store->indices[d]);
      if (v == nullptr || std::find(seen.begin(), seen.end(), v->id) != seen.end()) return false;
      const auto extent = copy.extents.find(v->id);
      if (extent == copy.extents.end() || !equal(extent->second, buffer.shape[d])) return false;
      seen.push_back(v->id);
    }
    return true;
  }

  static bool same_conjuncts(Expr x, Expr y) {
    std::vector<Expr> left, right;
    split_conjunction(x, left);
    split_conjunction(y, right);
    auto has = [](const std::vector<Expr>& all, Expr e) {
      return std::any_of(all.begin(), all.end(), [&](Expr o) { return equal(o, e); });
    };
    return std::all_of(left.begin(), left.end(), [&](Expr e) { return has(right, e); }) &&
           std::all_of(right.begin(), right.end(), [&](Expr e) { return has(left, e); });
  }

  // The constant; nullptr: not such a copy.
  Expr pads(const Buffer& buffer, const Copy& copy) {
    if (copy.other || copy.store == nullptr || copy.condition == nullptr || copy.loads.empty()) return nullptr;
    const Load* from = as<Load>(copy.store->value);
    if (from == nullptr || from->predicate != nullptr || from->type != buffer.type || !fills(buffer, copy))
      return nullptr;
    const Expr constant = copy.loads[0]->other;
    if (constant == nullptr || (constant->kind != ExprKind::kFloatConst && constant->kind != ExprKind::kIntConst))
      return nullptr;
    for (const Load* l : copy.loads) {
      if (l->predicate == nullptr || l->other == nullptr || !equal(l->other, constant)) return nullptr;
      Substitution element;
      for (size_t d = 0; d < buffer.shape.size(); ++d)
        if (const Var* v = as<Var>(copy.store->indices[d])) element.set(v->id, l->indices[d]);
      if (!same_conjuncts(substitute(b_, copy.condition, element), l->predicate)) return nullptr;
    }
    return constant;
  }

  Builder& b_;
  const Kernel& k_;
  std::map<Id, Copy> copies_;
  std::map<Id, Expr> extents_;
};

}  // namespace

std::vector<PaddedCopy> padded_copies(Builder& b, const Kernel& kernel) {
  return Finder(b, kernel).run();
}

}  // namespace tcc::analysis
