// The cost of a statement is 1, and more where it becomes more: a condition makes blocks, a math function is what it is
// inlined to, and a division of a variable that is unrolled becomes a multiplication and shifts.
#include "lower/gpu/plan_unrolling.h"

#include <algorithm>
#include <bit>

#include "lower/gpu/edit.h"
#include "tcc/analysis/gpu_unrolling.h"
#include "tcc/analysis/injective.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr double kMaxGpuStatements = 1000;  // of a launch
constexpr double kCondition = 4, kFunction = 10;

// Products of matrices, and what loads their operands: one instruction each.
bool has_products(Stmt s) {
  bool found = false;
  visit(s, [&](Stmt part) {
    const InstrCall* call = as<InstrCall>(part);
    found = found || (call != nullptr && instruction(call->instr).flops > 0);
    return !found;
  });
  return found;
}

double cost_of_value(Expr e, std::span<const Id> copied) {
  double cost = 0;
  visit(e, [&](Expr part) {
    if (part->kind == ExprKind::kFloorDiv || part->kind == ExprKind::kFloorMod)
      cost += std::any_of(copied.begin(), copied.end(), [&](Id id) { return mentions(part, id); }) ? 1 : 0;
    if (const Call* call = as<Call>(part))
      cost += call->fn == Intrinsic::kAbs || call->fn == Intrinsic::kFma || takes_bits(call->fn) ? 0 : kFunction;
    if (const Load* load = as<Load>(part)) cost += load->predicate != nullptr ? kCondition : 0;
    return true;
  });
  return cost;
}

class GpuUnrollPlanner {
 public:
  explicit GpuUnrollPlanner(Edit& edit) : edit_(edit), b_(edit.b) {}

  Stmt launch(Stmt body) {
    share_ = std::min(1.0, kMaxGpuStatements / std::max(cost_of(body), 1.0));
    multiplies_ = has_products(body);
    return rewrite(body);
  }

 private:
  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    if (Stmt sums = reduction_outside(*l)) return rewrite(sums);
    const double outer = share_;
    const bool counted = l->loop_kind == LoopKind::kSerial || l->loop_kind == LoopKind::kUnrolled;
    const int64_t times = counted && !is_int(l->extent, 1) ? copies_of(*l) : 0;
    Stmt body = rewrite(l->body);
    share_ = outer;
    std::vector<Annotation> annotations;
    for (const Annotation& a : l->annotations)
      if (a.key != AnnotationKey::kUnrollMax) annotations.push_back(a);
    if (times > 0) annotations.push_back({AnnotationKey::kUnrollMax, b_.integer(times)});
    return b_.loop(l->id, l->extent, body, l->loop_kind, l->axis, annotations);
  }

  bool is_unrolled(const Loop& l) {
    if (!is_int(l.extent)) return false;
    if (l.loop_kind == LoopKind::kUnrolled) return true;
    return l.loop_kind == LoopKind::kSerial && int_value(l.extent) <= analysis::kMaxRegisterLoop && picks_registers(l);
  }

  // Copies of the body, 0: what the loop's kind says. Everything below a loop that has got its share is unrolled whole.
  int64_t copies_of(const Loop& l) {
    if (!is_unrolled(l)) return batch_of(l);
    const int64_t extent = int_value(l.extent);
    const bool on_chip = analysis::stays_on_chip(l.body, [&](Id buffer) {
      const Scope scope = edit_.k.buffer(buffer)->scope;
      return scope == Scope::kShared || scope == Scope::kLocal;
    });
    const double most_of_loop = analysis::max_unrolled_statements(on_chip, multiplies_);
    const double share = std::min(share_, most_of_loop / std::max(cost_of(&l), 1.0));
    if (share >= 1 || picks_registers(l) || has_products(&l)) return l.loop_kind == LoopKind::kUnrolled ? 0 : extent;
    const auto most = static_cast<int64_t>(static_cast<double>(extent) * share);
    // A divisor leaves no rest behind; else a power of two.
    int64_t times = 1;
    for (int64_t n = 2; n <= most; ++n)
      if (extent % n == 0) times = n;
    if (times < most / 4) times = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
    share_ = 1;
    return times;
  }

  // A serial loop of sums below loops over the sums in registers goes outside of them: what one of its iterations loads
  // serves all of them.
  //
  //   for n unrolled { for k { for m unrolled {          for k { for n unrolled { for m unrolled {
  //     acc[n, m] = acc[n, m] + A[k, m] * B[k, n]   ->      acc[n, m] = acc[n, m] + A[k, m] * B[k, n]
  //
  // Each sum has its terms in the order that it had. nullptr: another nest.
  Stmt reduction_outside(const Loop& l) {
    std::vector<const Loop*> nest, registers;
    Stmt s = &l;
    for (const Loop* at = &l; at != nullptr; at = as<Loop>(s)) {
      const bool plain = at->loop_kind == LoopKind::kSerial || at->loop_kind == LoopKind::kUnrolled;
      if (!is_int(at->extent) || (!plain && at->axis != Axis::kVthread)) return nullptr;
      nest.push_back(at);
      s = at->body;
    }
    const Store* store = as<Store>(s);
    if (store == nullptr || store->predicate != nullptr || edit_.k.buffer(store->buffer)->scope != Scope::kLocal ||
        !only_reads_own(*store))
      return nullptr;
    const Loop* sums = nullptr;
    std::vector<const Loop*> outer;  // of `sums`
    for (const Loop* at : nest) {
      const bool picks =
          std::any_of(store->indices.begin(), store->indices.end(), [&](Expr e) { return mentions(e, at->id); });
      if (!picks && (sums != nullptr || at->axis == Axis::kVthread)) return nullptr;
      if (!picks) sums = at;
      if (picks) registers.push_back(at);
      if (picks && sums == nullptr) outer.push_back(at);
    }
    if (sums == nullptr || outer.empty() || !are_distinct(*store, registers)) return nullptr;
    Stmt out = sums->body;
    for (auto at = outer.rbegin(); at != outer.rend(); ++at) out = b_.with_body(**at, out);
    return b_.with_body(*sums, out);
  }

  // Of the buffer that it writes, the store reads the element that it writes and no other.
  static bool only_reads_own(const Store& store) {
    bool own = true;
    visit(store.value, [&](Expr e) {
      const Load* load = as<Load>(e);
      if (load == nullptr || load->buffer != store.buffer) return own;
      own = own && std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(), store.indices.end(),
                              [](Expr a, Expr b) { return equal(a, b); });
      return own;
    });
    return own;
  }

  // No two iterations of the loops write one element.
  static bool are_distinct(const Store& store, const std::vector<const Loop*>& loops) {
    std::vector<Id> seen;
    for (Expr index : store.indices) {
      const std::optional<std::vector<analysis::LoopStep>> steps = analysis::loop_steps(index, loops);
      if (!steps || !analysis::are_distinct(*steps)) return false;
      for (const analysis::LoopStep& s : *steps) seen.push_back(s.loop);
    }
    return std::all_of(loops.begin(), loops.end(),
                       [&](const Loop* l) { return std::find(seen.begin(), seen.end(), l->id) != seen.end(); });
  }

  // Copies of the body of an innermost serial loop of loads from memory; 0: not such a loop.
  int64_t batch_of(const Loop& l) {
    if (l.loop_kind != LoopKind::kSerial || !is_int(l.extent) || picks_registers(l) || !is_batchable(l.body)) return 0;
    const int64_t times = analysis::unrolled_loads(int_value(l.extent), std::max(cost_of(l.body), 1.0));
    return times > 1 ? times : 0;
  }

  // Stores of values, some of which are loaded from memory: no instructions, which order memory, and no serial loops.
  bool is_batchable(Stmt body) {
    bool plain = true, reads = false;
    auto look = [&](Expr e) {
      visit(e, [&](Expr part) {
        const Load* load = as<Load>(part);
        reads = reads || (load != nullptr && edit_.k.buffer(load->buffer)->scope != Scope::kLocal);
        return !reads;
      });
    };
    visit(body, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s))
        plain = plain && is_int(l->extent) &&
                (l->loop_kind == LoopKind::kVectorized || l->axis == Axis::kVthread || is_unrolled(*l));
      plain = plain && s->kind != StmtKind::kInstrCall && s->kind != StmtKind::kRoles && s->kind != StmtKind::kAlloc;
      if (const Store* store = as<Store>(s)) look(store->value);
      return plain;
    });
    return plain && reads;
  }

  // Statements once all is unrolled.
  double cost_of(Stmt s) {
    double cost = 0;
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt child : as<Seq>(s)->stmts) cost += cost_of(child);
        return cost;
      case StmtKind::kLoop: {
        const Loop& l = *as<Loop>(s);
        const bool copies =
            is_int(l.extent) && (l.loop_kind == LoopKind::kVectorized || l.axis == Axis::kVthread || is_unrolled(l));
        if (!copies) return cost_of(l.body);
        copied_.push_back(l.id);
        cost = cost_of(l.body) * static_cast<double>(int_value(l.extent));
        copied_.pop_back();
        return cost;
      }
      case StmtKind::kStore:
        cost = 1 + cost_of_value(as<Store>(s)->value, copied_) + (as<Store>(s)->predicate != nullptr ? kCondition : 0);
        for (Expr e : as<Store>(s)->indices) cost += cost_of_value(e, copied_);
        return cost;
      case StmtKind::kIf:
        cost = kCondition + cost_of(as<If>(s)->then_case);
        return cost + (as<If>(s)->else_case != nullptr ? cost_of(as<If>(s)->else_case) : 0);
      case StmtKind::kAlloc:
        return cost_of(as<Alloc>(s)->body);
      case StmtKind::kInstrCall:
        return 1;
      case StmtKind::kRoles:
        for (const Role& r : as<Roles>(s)->roles) cost += cost_of(r.body);
        return cost;
      case StmtKind::kBlock:
        break;
    }
    return cost;
  }

  // The loop's variable chooses elements of a local array.
  bool picks_registers(const Loop& l) {
    bool picks = false;
    auto look = [&](Id id, std::span<const Expr> indices) {
      if (edit_.k.buffer(id)->scope == Scope::kLocal)
        for (Expr e : indices) picks = picks || mentions(e, l.id);
    };
    auto look_into = [&](Expr e) {
      visit(e, [&](Expr part) {
        if (const Load* load = as<Load>(part)) look(load->buffer, load->indices);
        return !picks;
      });
    };
    visit(l.body, [&](Stmt s) {
      if (const Store* store = as<Store>(s)) {
        look(store->buffer, store->indices);
        look_into(store->value);
      }
      if (const InstrCall* call = as<InstrCall>(s))
        for (const Operand& o : call->operands) look(o.buffer, o.indices);
      return !picks;
    });
    return picks;
  }

  Edit& edit_;
  Builder& b_;
  double share_ = 1;         // of what is marked unrolled
  bool multiplies_ = false;  // the launch has products by matrix instructions
  std::vector<Id> copied_;   // variables of the unrolled loops around what is counted
};

}  // namespace

Kernel plan_unrolling(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  GpuUnrollPlanner planner(edit);
  edit.k.root = map_launches(edit, kernel.root, [&](Stmt launch) { return planner.launch(launch); });
  return edit.k;
}

}  // namespace tcc::lower
