#include "lower/gpu/insert_barriers.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;

bool meet(const std::set<Id>& x, const std::set<Id>& y) {
  return std::any_of(x.begin(), x.end(), [&](Id id) { return y.contains(id); });
}

class Inserter {
 public:
  Inserter(Edit& edit, int64_t threads) : edit_(edit), threads_(threads) {}

  // Below the thread loops.
  Stmt run(Stmt body) {
    const Touched all = touched_buffers(body);
    for (Id id : all.writes)
      if (const Buffer* b = edit_.k.buffer(id); b->scope != Scope::kLocal && all.reads.contains(id))
        tracked_.insert(id);
    if (tracked_.empty() || threads_ == 1) return body;
    State state;
    return place(body, state);
  }

 private:
  struct State {
    std::set<Id> reads, writes;  // since the last barrier
    bool operator==(const State&) const = default;
  };

  Touched tracked(Stmt s) const {
    Touched t = touched_buffers(s);
    std::erase_if(t.reads, [&](Id id) { return !tracked_.contains(id); });
    std::erase_if(t.writes, [&](Id id) { return !tracked_.contains(id); });
    return t;
  }

  Stmt place(Stmt s, State& state) {
    switch (s->kind) {
      case StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (Stmt c : as<Seq>(s)->stmts) stmts.push_back(place(c, state));
        return edit_.b.seq(stmts);
      }
      case StmtKind::kAlloc:
        return edit_.b.alloc(as<Alloc>(s)->buffers, place(as<Alloc>(s)->body, state));
      case StmtKind::kLoop:
        // A loop that does not read what it writes is one piece: its iterations touch different elements.
        if (as<Loop>(s)->loop_kind != LoopKind::kVectorized)
          if (const Touched t = tracked(s); meet(t.reads, t.writes)) return loop(*as<Loop>(s), state);
        break;
      case StmtKind::kStore:
      case StmtKind::kIf:
      case StmtKind::kInstrCall:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        break;
    }
    const Touched t = tracked(s);
    Stmt out = s;
    if (meet(t.reads, state.writes) || meet(t.writes, state.reads) || meet(t.writes, state.writes)) {
      Stmt pair[2] = {barrier(), s};
      out = edit_.b.seq(pair);
      state = {};
    }
    state.reads.insert(t.reads.begin(), t.reads.end());
    state.writes.insert(t.writes.begin(), t.writes.end());
    return out;
  }

  // What the last iteration leaves open meets the next one: the state at the start of the body grows until it is what
  // both ways into it leave.
  Stmt loop(const Loop& l, State& state) {
    State entry = state;
    while (true) {
      State end = entry;
      Stmt body = place(l.body, end);
      State next = entry;
      next.reads.insert(end.reads.begin(), end.reads.end());
      next.writes.insert(end.writes.begin(), end.writes.end());
      if (next == entry) {
        state = entry;  // the loop may not run at all
        return edit_.b.with_body(l, body);
      }
      entry = std::move(next);
    }
  }

  Stmt barrier() {
    const Expr args[2] = {edit_.b.integer(0), edit_.b.integer(threads_)};
    return edit_.b.instr(find_instruction("bar.sync"), {}, args);
  }

  Edit& edit_;
  int64_t threads_;
  std::set<Id> tracked_;
};

// Below the grid and thread loops; `threads`: those of the loops around.
Stmt in_launch(Edit& edit, Stmt s, int64_t threads) {
  const Loop* l = as<Loop>(s);
  if (l == nullptr || l->loop_kind != LoopKind::kBound) return Inserter(edit, threads).run(s);
  return edit.b.with_body(*l, in_launch(edit, l->body, is_thread(l->axis) ? threads * int_value(l->extent) : threads));
}

}  // namespace

Kernel insert_barriers(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = map_launches(edit, kernel.root, [&](Stmt s) { return in_launch(edit, s, 1); });
  return edit.k;
}

}  // namespace tcc::lower
