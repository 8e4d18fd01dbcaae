#include "lower/gpu/hoist_accumulators.h"

#include <algorithm>

#include "lower/gpu/edit.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Hoister {
 public:
  explicit Hoister(Edit& edit) : edit_(edit), b_(edit.b) {}

  Stmt rewrite(Stmt s) {
    if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind != LoopKind::kBound)
      if (Stmt hoisted = hoist(*l)) return hoisted;
    return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); }, [](Expr e) { return e; });
  }

  void add_buffers() {
    if (added_.empty()) return;
    std::vector<const Buffer*> all(edit_.k.buffers.begin(), edit_.k.buffers.end());
    all.insert(all.end(), added_.begin(), added_.end());
    edit_.k.buffers = b_.arena().copy(all);
  }

 private:
  // The one store below loops and conditions; the loops' variables in `inner`.
  static const Store* single_store(Stmt s, std::set<Id>& inner, std::vector<Expr>& conditions) {
    while (true) {
      if (const Loop* l = as<Loop>(s)) {
        if (l->loop_kind == LoopKind::kBound || l->loop_kind == LoopKind::kVectorized) return nullptr;
        inner.insert(l->id);
        s = l->body;
      } else if (const If* i = as<If>(s); i != nullptr && i->else_case == nullptr) {
        conditions.push_back(i->condition);
        s = i->then_case;
      } else {
        return as<Store>(s);
      }
    }
  }

  Stmt hoist(const Loop& loop) {
    std::set<Id> inner;
    std::vector<Expr> conditions;
    const Store* store = single_store(&loop, inner, conditions);
    if (store == nullptr) return nullptr;
    const Buffer* buffer = edit_.k.buffer(store->buffer);
    const bool memory =
        buffer->scope == Scope::kShared || buffer->scope == Scope::kGlobal || buffer->scope == Scope::kWorkspace;
    if (!memory) return nullptr;
    for (Expr i : store->indices)
      if (mentions_any(i, inner)) return nullptr;
    // The value reads the element itself and nothing else of the buffer.
    int reads = 0;
    bool same = true;
    visit_roots(&loop, [&](Expr root) {
      visit(root, [&](Expr e) {
        const Load* l = as<Load>(e);
        if (l == nullptr || l->buffer != store->buffer) return true;
        ++reads;
        same &= l->predicate == nullptr && std::equal(l->indices.begin(), l->indices.end(), store->indices.begin(),
                                                      store->indices.end(), [](Expr x, Expr y) { return equal(x, y); });
        return true;
      });
    });
    if (reads == 0 || !same) return nullptr;
    const Id local = edit_.fresh(store->buffer);
    Expr one = b_.integer(1), zero = b_.integer(0);
    Buffer fields{};
    fields.id = local;
    fields.type = buffer->type;
    fields.scope = Scope::kLocal;
    fields.role = BufferRole::kTemp;
    fields.shape = std::span<const Expr>(&one, 1);
    fields.alignment = static_cast<int32_t>(type_bytes(buffer->type));
    added_.push_back(b_.buffer(fields));
    const std::vector<Expr> place = {zero};
    // Threads that no iteration concerns have no element.
    Expr concerned = nullptr;
    for (Expr c : conditions)
      if (!mentions_any(c, inner)) concerned = b_.logical_and(concerned, c);
    Expr other = concerned != nullptr ? b_.constant(0, buffer->type) : nullptr;
    Expr element = b_.load(store->buffer, buffer->type, store->indices, concerned, other);
    Stmt body = replace(&loop, store->buffer, local, place);
    Stmt all[3] = {
        b_.store(local, place, element), body,
        b_.store(store->buffer, store->indices, b_.load(local, buffer->type, place, nullptr, nullptr), concerned)};
    return b_.alloc(std::vector{local}, b_.seq(all));
  }

  Stmt replace(Stmt s, Id from, Id to, const std::vector<Expr>& place) {
    Stmt out = rewrite_children(
        b_, s, [&](Stmt c) { return replace(c, from, to, place); },
        [&](Expr e) { return replace(e, from, to, place); });
    const Store* st = as<Store>(out);
    return st != nullptr && st->buffer == from ? b_.store(to, place, st->value, st->predicate) : out;
  }
  Expr replace(Expr e, Id from, Id to, const std::vector<Expr>& place) {
    Expr out = rewrite_children(b_, e, [&](Expr c) { return replace(c, from, to, place); });
    const Load* l = as<Load>(out);
    return l != nullptr && l->buffer == from ? b_.load(to, l->type, place, nullptr, nullptr) : out;
  }

  Edit& edit_;
  Builder& b_;
  std::vector<const Buffer*> added_;
};

}  // namespace

Kernel hoist_accumulators(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  Hoister hoister(edit);
  edit.k.root = hoister.rewrite(kernel.root);
  hoister.add_buffers();
  return edit.k;
}

}  // namespace tcc::lower
