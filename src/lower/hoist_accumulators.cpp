#include "lower/hoist_accumulators.h"

#include <algorithm>
#include <optional>

#include "lower/gpu/edit.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxElements = 64;  // that a thread holds at a time

class Hoister {
 public:
  // Without registers: for a GPU.
  Hoister(Edit& edit, std::optional<RegisterFile> registers) : edit_(edit), b_(edit.b), registers_(registers) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->loop_kind != LoopKind::kBound)
      if (Stmt hoisted = hoist(*l)) return hoisted;
    // Lanes of a CPU's loop share what is allocated within it.
    if (l != nullptr && l->loop_kind == LoopKind::kVectorized && !for_gpu()) return s;
    const bool rolled = l != nullptr && l->loop_kind != LoopKind::kUnrolled;
    if (rolled) rolled_.insert(l->id);
    Stmt out = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    if (rolled) rolled_.erase(l->id);
    return out;
  }

  void add_buffers() {
    if (added_.empty()) return;
    edit_.add_buffers(added_);
  }

 private:
  // What is read in front of a loop and written behind it: an element, or a tile of them where unrolled loops within it
  // choose one.
  struct Tile {
    const Store* store = nullptr;
    std::vector<const Loop*> loops;  // that choose
    std::set<Id> others;             // loops that do not
    std::vector<Expr> conditions;
  };
  bool for_gpu() const { return !registers_; }
  std::optional<Tile> find_tile(Stmt s) const {
    Tile out;
    std::vector<const Loop*> all;
    while (true) {
      if (const Loop* l = as<Loop>(s)) {
        if (l->loop_kind == LoopKind::kBound || l->loop_kind == LoopKind::kParallel) return std::nullopt;
        if (l->loop_kind == LoopKind::kVectorized && for_gpu()) return std::nullopt;
        all.push_back(l);
        s = l->body;
      } else if (const If* i = as<If>(s); i != nullptr && i->else_case == nullptr) {
        out.conditions.push_back(i->condition);
        s = i->then_case;
      } else {
        break;
      }
    }
    out.store = as<Store>(s);
    if (out.store == nullptr) return std::nullopt;
    int64_t elements = 1;
    for (const Loop* l : all) {
      const bool chooses = std::any_of(out.store->indices.begin(), out.store->indices.end(),
                                       [&](Expr i) { return mentions_any(i, {l->id}); });
      if (!chooses && l->loop_kind == LoopKind::kVectorized) return std::nullopt;
      if (!chooses) {
        out.others.insert(l->id);
        continue;
      }
      if (l->loop_kind == LoopKind::kSerial || !is_int(l->extent) || l == all[0]) return std::nullopt;
      out.loops.push_back(l);
      elements *= int_value(l->extent);
    }
    const int64_t size = type_bytes(edit_.k.buffer(out.store->buffer)->type);
    const bool fits =
        for_gpu() ? elements <= kMaxElements : registers_->taken_by(out.loops, size) <= registers_->for_sums();
    return fits ? std::optional(out) : std::nullopt;
  }

  // Where the element is, it is not in registers already.
  bool in_memory(const Store& store) const {
    const Scope scope = edit_.k.buffer(store.buffer)->scope;
    if (for_gpu()) return scope == Scope::kShared || scope == Scope::kGlobal || scope == Scope::kWorkspace;
    // A predicate might keep the store from elements that do not exist.
    return scope == Scope::kLocal && store.predicate == nullptr &&
           std::any_of(store.indices.begin(), store.indices.end(), [&](Expr i) { return mentions_any(i, rolled_); });
  }

  // The value reads the element itself and nothing else of the buffer.
  static bool reads_itself(const Loop& loop, const Store& store) {
    int reads = 0;
    bool same = true;
    visit_loads(&loop, [&](const Load& l) {
      if (l.buffer != store.buffer) return;
      ++reads;
      same &= l.predicate == nullptr && equal(l.indices, store.indices);
    });
    return reads > 0 && same;
  }

  Stmt hoist(const Loop& loop) {
    const std::optional<Tile> tile = find_tile(&loop);
    if (!tile) return nullptr;
    const Store& store = *tile->store;
    const Buffer* buffer = edit_.k.buffer(store.buffer);
    if (!in_memory(store) || !reads_itself(loop, store)) return nullptr;
    const auto [tile_buffer, place] = local_tile(edit_, *buffer, tile->loops);
    added_.push_back(tile_buffer);
    const Id local = tile_buffer->id;
    // Threads that no iteration concerns have no element.
    Expr concerned = nullptr;
    for (Expr c : tile->conditions)
      if (!mentions_any(c, tile->others)) concerned = b_.logical_and(concerned, c);
    Expr other = concerned != nullptr ? b_.constant(0, buffer->type) : nullptr;
    Expr element = b_.load(store.buffer, buffer->type, store.indices, concerned, other);
    Expr held = b_.load(local, buffer->type, place, nullptr, nullptr);
    Stmt all[3] = {for_tile(*tile, b_.store(local, place, element)), replace(&loop, store.buffer, local, place),
                   for_tile(*tile, b_.store(store.buffer, store.indices, held, concerned))};
    return b_.alloc(std::vector{local}, b_.seq(all));
  }

  // The statement for each element, with loops of its own.
  Stmt for_tile(const Tile& tile, Stmt s) {
    Substitution own;
    std::vector<Id> ids;
    for (const Loop* l : tile.loops) {
      ids.push_back(edit_.fresh(l->id));
      own.set(l->id, b_.var(ids.back()));
    }
    Stmt out = ids.empty() ? s : substitute(b_, s, own);
    for (size_t i = ids.size(); i-- > 0;) out = b_.loop(ids[i], tile.loops[i]->extent, out, tile.loops[i]->loop_kind);
    return out;
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
  std::optional<RegisterFile> registers_;
  std::set<Id> rolled_;  // loops around the statement that are not written out
  std::vector<const Buffer*> added_;
};

Kernel hoisted(const Kernel& kernel, const ArenaPtr& arena, std::optional<RegisterFile> registers) {
  Edit edit(kernel, arena);
  Hoister hoister(edit, registers);
  edit.k.root = hoister.rewrite(kernel.root);
  hoister.add_buffers();
  return edit.k;
}

}  // namespace

Kernel hoist_accumulators(const Kernel& kernel, const ArenaPtr& arena) {
  return hoisted(kernel, arena, std::nullopt);
}

Kernel hoist_local_tiles(const Kernel& kernel, const ArenaPtr& arena, RegisterFile registers) {
  return hoisted(kernel, arena, registers);
}

}  // namespace tcc::lower
