#include "lower/gpu/insert_barriers.h"

#include "lower/gpu/edit.h"
#include "lower/gpu/expand_pipeline.h"
#include "lower/gpu/expand_roles.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Inserter {
 public:
  Inserter(Edit& edit, int64_t threads, bool placed_in_turn)
      : edit_(edit), threads_(threads), in_turn_(placed_in_turn) {}

  // Below the thread loops.
  Stmt run(Stmt body) {
    const Touched all = touched_buffers(body);
    for (Id id : all.writes)
      if (const Buffer* b = edit_.k.buffer(id); b->scope != Scope::kLocal && all.reads.contains(id))
        tracked_.insert(id);
    if (in_turn_) lives_ = analysis::shared_lives(edit_.k, body);
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
    auto ignored = [&](Id id) { return !tracked_.contains(id) || ordered_.contains(id); };
    std::erase_if(t.reads, ignored);
    std::erase_if(t.writes, ignored);
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
        if (const std::set<Id> own = pipelined_buffers(edit_.k, *as<Loop>(s)); !own.empty())
          return pipeline(*as<Loop>(s), own, state);
        // A loop that does not read what it writes is one piece: its iterations touch different elements.
        if (as<Loop>(s)->loop_kind != LoopKind::kVectorized)
          if (const Touched t = tracked(s); meet(t.reads, t.writes)) return loop(*as<Loop>(s), state);
        break;
      case StmtKind::kInstrCall:
        if (instruction(as<InstrCall>(s)->instr).behaviour != Behaviour::kBarSync) break;
        state = {};
        return s;
      case StmtKind::kStore:
      case StmtKind::kIf:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        break;
    }
    const Touched t = tracked(s);
    Stmt out = s;
    if (meet(t.reads, state.writes) || meet(t.writes, state.reads) || meet(t.writes, state.writes) ||
        takes_place(t, state)) {
      Stmt pair[2] = {barrier(), s};
      out = edit_.b.seq(pair);
      state = {};
    }
    state.reads.insert(t.reads.begin(), t.reads.end());
    state.writes.insert(t.writes.begin(), t.writes.end());
    return out;
  }

  // A buffer that may have the place of one that has been used since the last barrier.
  bool takes_place(const Touched& t, const State& state) const {
    for (const std::set<Id>* now : {&t.reads, &t.writes})
      for (Id id : *now)
        for (const std::set<Id>* before : {&state.reads, &state.writes})
          for (Id other : *before) {
            auto x = lives_.find(id), y = lives_.find(other);
            if (x != lives_.end() && y != lives_.end() && !x->second.meets(y->second)) return true;
          }
    return false;
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

  // A pipeline begins each iteration with a barrier, which orders all accesses to its own buffers.
  Stmt pipeline(const Loop& l, const std::set<Id>& own, State& state) {
    std::set<Id> outer = ordered_;
    ordered_.insert(own.begin(), own.end());
    Stmt out = loop(l, state);
    ordered_ = std::move(outer);
    state.reads.insert(own.begin(), own.end());
    state.writes.insert(own.begin(), own.end());
    return out;
  }

  Stmt barrier() {
    const Expr args[2] = {edit_.b.integer(0), edit_.b.integer(threads_)};
    return edit_.b.instr(instruction_row(Family::kSync, Behaviour::kBarSync), {}, args);
  }

  Edit& edit_;
  int64_t threads_;
  bool in_turn_;  // buffers whose lives do not meet have one place
  std::map<Id, analysis::Life> lives_;
  std::set<Id> tracked_, ordered_;  // ordered: by the pipeline around
};

// Below the grid and thread loops; `threads`: those of the loops around.
Stmt in_launch(Edit& edit, Stmt s, int64_t threads, bool in_turn) {
  const Loop* l = as<Loop>(s);
  if (l == nullptr || l->loop_kind != LoopKind::kBound) return Inserter(edit, threads, in_turn).run(s);
  if (is_thread(l->axis)) threads *= int_value(l->extent);
  return edit.b.with_body(*l, in_launch(edit, l->body, threads, in_turn));
}

}  // namespace

Kernel insert_barriers(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = map_launches(edit, kernel.root, [&](Stmt s) {
    if (has_roles(s)) return s;
    const bool in_turn = analysis::plan_shared(kernel, s).separate > target.cuda.shared_per_block;
    return in_launch(edit, s, 1, in_turn);
  });
  return edit.k;
}

}  // namespace tcc::lower
