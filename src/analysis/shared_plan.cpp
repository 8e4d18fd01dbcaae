#include "tcc/analysis/shared_plan.h"

#include <algorithm>
#include <optional>

#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

Scope scope_of(const Buffer& b, const SharedRequests& requests) {
  auto request = requests.scopes.find(b.id);
  const Scope scope = request == requests.scopes.end() ? b.scope : request->second;
  return scope == Scope::kClusterShared ? Scope::kShared : scope;
}

class LifeFinder {
 public:
  LifeFinder(const Kernel& k, const SharedRequests& requests) : k_(k), requests_(requests) {}

  void stmt(Stmt s) {
    const Loop* l = as<Loop>(s);
    // Threads run side by side; what repeats is the rest.
    const bool repeats = l != nullptr && (l->loop_kind != LoopKind::kBound || l->axis == Axis::kVthread);
    const bool outermost = repeats && !inside_;
    if (outermost) {
      inside_ = true;
      start_ = now_ + 1;
      touched_.clear();
    }
    ++now_;
    expressions(s);
    if (const Store* store = as<Store>(s)) touch(store->buffer);
    if (const InstrCall* call = as<InstrCall>(s))
      for (const Operand& o : call->operands) touch(o.buffer);
    visit(s, [&](Stmt c) {
      if (c == s) return true;
      stmt(c);
      return false;
    });
    if (outermost) {
      inside_ = false;
      for (Id id : touched_) live(id, start_, now_);
    }
  }
  std::map<Id, Life> take() { return std::move(lives_); }

 private:
  // Loads of the statement itself, not of those below it.
  void expressions(Stmt s) {
    auto look = [&](Expr root) {
      if (root == nullptr) return;
      visit(root, [&](Expr e) {
        if (const Load* l = as<Load>(e)) touch(l->buffer);
        return true;
      });
    };
    if (const Store* store = as<Store>(s)) {
      for (Expr e : store->indices) look(e);
      look(store->value);
      look(store->predicate);
    }
    if (const If* branch = as<If>(s)) look(branch->condition);
    if (const Loop* l = as<Loop>(s)) look(l->extent);
    if (const InstrCall* call = as<InstrCall>(s)) {
      for (const Operand& o : call->operands)
        for (Expr e : o.indices) look(e);
      for (Expr e : call->args) look(e);
      look(call->predicate);
    }
  }
  void touch(Id id) {
    const Buffer* b = k_.buffer(id);
    if (b == nullptr || scope_of(*b, requests_) != Scope::kShared) return;
    live(id, now_, now_);
    if (inside_) touched_.push_back(id);
  }
  void live(Id id, int64_t first, int64_t last) {
    auto [life, fresh] = lives_.try_emplace(id, Life{first, last});
    if (fresh) return;
    life->second.first = std::min(life->second.first, first);
    life->second.last = std::max(life->second.last, last);
  }

  const Kernel& k_;
  const SharedRequests& requests_;
  std::map<Id, Life> lives_;
  int64_t now_ = 0, start_ = 0;
  bool inside_ = false;
  std::vector<Id> touched_;
};

std::optional<int64_t> bytes_of(const Buffer& b) {
  if (b.layout != nullptr) return b.layout->size * type_bytes(b.type);
  int64_t n = type_bytes(b.type);
  for (Expr e : b.shape) {
    if (!is_int(e)) return std::nullopt;
    n *= std::max<int64_t>(int_value(e), 1);
  }
  return n;
}

// f(buffer, bytes of all its versions, alignment) for each that is placed, in the order of the Allocs.
template <class F>
void for_placed(const Kernel& kernel, Stmt launch, const SharedRequests& requests, F f) {
  visit(launch, [&](Stmt s) {
    const Alloc* a = as<Alloc>(s);
    if (a == nullptr) return true;
    for (Id id : a->buffers) {
      const Buffer& b = *kernel.buffer(id);
      const std::optional<int64_t> one = scope_of(b, requests) == Scope::kShared ? bytes_of(b) : std::nullopt;
      if (!one) continue;
      auto many = requests.versions.find(id);
      f(b, *one * (many == requests.versions.end() ? 1 : many->second), std::max<int64_t>(b.alignment, 16));
    }
    return true;
  });
}

int64_t aligned(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

std::map<Id, Life> shared_lives(const Kernel& kernel, Stmt launch, const SharedRequests& requests) {
  LifeFinder b(kernel, requests);
  b.stmt(launch);
  return b.take();
}

SharedPlan plan_shared(const Kernel& kernel, Stmt launch, const SharedRequests& requests) {
  SharedPlan plan;
  std::map<Id, Life> lives = shared_lives(kernel, launch, requests);
  // Roles run side by side, and other blocks of a cluster reach into this one: the order of the text says nothing.
  bool side_by_side = false;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    side_by_side = side_by_side || as<Roles>(s) != nullptr ||
                   (l != nullptr && l->loop_kind == LoopKind::kBound &&
                    (l->axis == Axis::kClusterX || l->axis == Axis::kClusterY));
    return !side_by_side;
  });
  if (side_by_side) lives.clear();
  struct Placed {
    Life life;
    int64_t begin, end;
  };
  std::vector<Placed> placed;
  for_placed(kernel, launch, requests, [&](const Buffer& b, int64_t bytes, int64_t align) {
    auto life = lives.find(b.id);
    const Life mine = life == lives.end() ? Life{0, INT64_MAX} : life->second;
    // The first gap between those that live at the same time.
    std::vector<Placed> others;
    for (const Placed& p : placed)
      if (p.life.meets(mine)) others.push_back(p);
    std::sort(others.begin(), others.end(), [](const Placed& x, const Placed& y) { return x.begin < y.begin; });
    int64_t at = 0;
    for (const Placed& p : others) {
      if (at + bytes <= p.begin) break;
      at = std::max(at, aligned(p.end, align));
    }
    placed.push_back({mine, at, at + bytes});
    plan.buffers.push_back(&b);
    plan.offsets.push_back(at);
    plan.total = std::max(plan.total, at + bytes);
    plan.separate = aligned(plan.separate, align) + bytes;
    plan.alignment = std::max(plan.alignment, align);
  });
  return plan;
}

int64_t shared_bytes(const Kernel& kernel, Stmt launch, const SharedRequests& requests, int64_t apart) {
  int64_t separate = 0;
  for_placed(kernel, launch, requests,
             [&](const Buffer&, int64_t bytes, int64_t align) { separate = aligned(separate, align) + bytes; });
  return separate > apart ? plan_shared(kernel, launch, requests).bytes(apart) : separate;
}

}  // namespace tcc::analysis
