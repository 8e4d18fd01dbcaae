#include "tcc/space/sketch.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tcc/ir/copy.h"
#include "tcc/ir/query.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/nest.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/result.h"

namespace tcc::space {

using namespace ir;
using schedule::Instruction;
using schedule::Op;

namespace {

// Which loops feed a reduction decides where its initialization goes. Quotients by symbols hide that: for some
// decisions a loop drops out of the binding, for others it does not.
bool reductions_depend_on_decisions(const Kernel& k) {
  bool found = false;
  for (const Block* block : collect_blocks(k.root))
    for (const Iter& it : block->iters) {
      if (it.kind == IterKind::kSpatial) continue;
      visit(it.binding, [&](Expr e) {
        if (e->kind == ExprKind::kFloorDiv || e->kind == ExprKind::kFloorMod)
          found |= mentions_any(e, [&](Id id) { return k.scalar(id) != nullptr; });
        return !found;
      });
    }
  return found;
}

// Makes equal values of floats one node again. The values of a Winograd tile are made as a graph, whose parts
// primitives rewrite one by one; instantiate() folds a part that is one node once (lower/fold.cpp).
class ValueSharing {
 public:
  explicit ValueSharing(Arena& arena) : b_(arena) {}
  Stmt stmt(Stmt s) {
    return rewrite_children(b_, s, [&](Stmt child) { return stmt(child); }, [&](Expr e) { return expr(e); });
  }

 private:
  Expr expr(Expr e) {
    if (!is_float(e->type)) return e;
    const auto [first, last] = known_.equal_range(e->hash);
    for (auto at = first; at != last; ++at)
      if (equal(at->second, e)) return at->second;
    Expr made = rewrite_children(b_, e, [&](Expr child) { return expr(child); });
    known_.emplace(e->hash, made);
    return made;
  }

  Builder b_;
  std::unordered_multimap<uint64_t, Expr> known_;
};

// Runs the skeleton with symbols. Returns why that cannot be done, or "".
std::string make_symbolic(Sketch& sketch, const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  schedule::Executor executor(sketch.start, arena, schedule::Mode::kSymbolic, nullptr);
  std::vector<int64_t> decisions = sketch.trace.decisions;
  std::vector<Expr> places;
  for (const Instruction& in : sketch.trace.instructions) {
    std::span<int64_t> d;
    if (in.decision >= 0)
      d = std::span(decisions).subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
    if (!executor.run(in, d)) return fmt::format("{} needs numbers", schedule::op_name(in.op));
    if (in.op != Op::kSampleComputeLocation || d[0] < 0) continue;
    const Loop* at = find_loop(executor.kernel().root, executor.value(in.first_output).id);
    if (at != nullptr && !is_int(at->extent)) places.push_back(at->extent);
  }
  if (decisions != sketch.trace.decisions) return "with symbols a place is not certain to be legal";
  sketch.symbols = executor.symbols();
  if (sketch.symbols.size() != decisions.size()) return "some decisions have no symbol";
  if (reductions_depend_on_decisions(executor.kernel())) return "the loops of a reduction depend on the decisions";
  Legal<Kernel> nest = lower::build_nest(executor.kernel(), target, arena);
  if (!nest) return fmt::format("lowering needs numbers: {}", nest.error().text);
  Kernel folded = lower::fold(*nest, {}, arena);
  folded.root = ValueSharing(*arena).stmt(folded.root);
  sketch.nest = compact(folded);
  for (Expr extent : places) sketch.places.push_back(copy_expr(*sketch.nest.arena, extent));
  return "";
}

}  // namespace

Legal<Kernel> replay_to_nest(const Sketch& sketch, std::span<const int64_t> decisions, const target::Target& target,
                             const ArenaPtr& arena, std::vector<int64_t>* used) {
  TCC_TRY(const Kernel k, schedule::replay(sketch.trace, decisions, sketch.start, arena, used));
  if (used != nullptr)
    for (const Instruction& in : sketch.trace.instructions)
      if (in.op == Op::kSampleComputeLocation)
        (*used)[static_cast<size_t>(in.decision)] = decisions[static_cast<size_t>(in.decision)];
  return lower::lower(k, target, Stage::kNest, arena);
}

namespace {

// The symbolic kernel must say what replay says. A handful of draws finds every structural difference we know of.
bool agrees_with_replay(const Sketch& sketch, const target::Target& target) {
  Rng rng(sketch.key);
  std::vector<int64_t> decisions = sketch.trace.decisions;
  for (int i = 0; i < 6; ++i) {
    draw_decisions(sketch, decisions, rng);
    auto a = std::make_shared<Arena>(), b = std::make_shared<Arena>();
    Legal<Kernel> x = instantiate(sketch, decisions, target, a);
    Legal<Kernel> y = replay_to_nest(sketch, decisions, target, b);
    if (x.has_value() != y.has_value()) return false;
    if (x && hash_kernel(*x) != hash_kernel(*y)) return false;
  }
  return true;
}

constexpr int64_t kMaxDepth = 24;    // loops around a block that is placed
constexpr size_t kMaxVariants = 16;  // of one skeleton
constexpr int kVariantDraws = 8;

// Some draw of the other decisions gives a program within the target's limits; the trace keeps the first.
bool settle(schedule::Trace& trace, const Kernel& start, const target::Target& target) {
  Rng rng(structural_key(trace, trace.decisions));
  for (int i = 0; i < kVariantDraws; ++i) {
    auto arena = std::make_shared<Arena>();
    std::vector<int64_t> decisions = trace.decisions, used;
    if (i > 0) schedule::draw_decisions(trace, decisions, rng);
    Legal<Kernel> k = schedule::replay(trace, decisions, start, arena, &used);
    if (!k || !lower::lower(*k, target, Stage::kNest, arena)) continue;
    if (structural_key(trace, used) != structural_key(trace, trace.decisions)) continue;
    trace.decisions = std::move(used);
    return true;
  }
  return false;
}

}  // namespace

uint64_t structural_key(const schedule::Trace& trace, std::span<const int64_t> decisions) {
  uint64_t key = schedule::skeleton_hash(trace);
  for (const Instruction& in : trace.instructions)
    if (in.op == Op::kSampleComputeLocation && static_cast<size_t>(in.decision) < decisions.size())
      key = combine_hash(key, static_cast<uint64_t>(decisions[static_cast<size_t>(in.decision)]));
  return key;
}

std::vector<schedule::Trace> structural_variants(const schedule::Trace& trace, const Kernel& start,
                                                 const target::Target& target) {
  std::vector<schedule::Trace> out = {trace};
  std::set<uint64_t> seen = {structural_key(trace, trace.decisions)};
  for (const Instruction& in : trace.instructions) {
    if (in.op != Op::kSampleComputeLocation) continue;
    // Each variant so far with every other place; replay moves an illegal place to the nearest legal one.
    for (size_t v = 0, n = out.size(); v < n; ++v)
      for (int64_t place = -1; place < kMaxDepth && out.size() < kMaxVariants; ++place) {
        schedule::Trace other = out[v];
        other.decisions[static_cast<size_t>(in.decision)] = place;
        auto arena = std::make_shared<Arena>();
        std::vector<int64_t> used;
        if (!schedule::replay(other, other.decisions, start, arena, &used)) continue;
        other.decisions = std::move(used);
        if (!seen.insert(structural_key(other, other.decisions)).second) continue;
        if (settle(other, start, target)) out.push_back(std::move(other));
      }
  }
  return out;
}

Legal<Sketch> make_sketch(const schedule::Trace& trace, const Kernel& start, const target::Target& target) {
  Sketch sketch;
  sketch.trace = trace;
  sketch.start = start;
  sketch.key = structural_key(trace, trace.decisions);
  auto arena = std::make_shared<Arena>();
  TCC_TRY_VOID(schedule::replay(trace, trace.decisions, start, arena, &sketch.trace.decisions));
  sketch.concrete = make_symbolic(sketch, target);
  sketch.symbolic = sketch.concrete.empty();
  if (sketch.symbolic && !agrees_with_replay(sketch, target)) {
#ifdef TCC_CHECK_PASSES
    TCC_UNREACHABLE("the symbolic kernel of a sketch disagrees with replay:\n{}", schedule::print_trace(trace));
#endif
    sketch.symbolic = false, sketch.disagrees = true;
    sketch.concrete = "the symbolic kernel disagrees with replay: a defect of tcc, please report it";
  }
  return sketch;
}

Legal<Kernel> instantiate(const Sketch& sketch, std::span<const int64_t> decisions, const target::Target& target,
                          const ArenaPtr& arena, std::vector<int64_t>* used) {
  if (!sketch.symbolic) return replay_to_nest(sketch, decisions, target, arena, used);
  Builder b(*arena);
  Substitution values;
  values.map.reserve(64);
  for (const Instruction& in : sketch.trace.instructions) {
    if (in.decision < 0) continue;
    for (int i = 0; i < in.decision_length; ++i) {
      size_t slot = static_cast<size_t>(in.decision + i);
      if (sketch.symbols[slot] == kNoId) continue;
      int64_t value = decisions[slot];
      if (in.op == Op::kSampleCategorical) {
        const std::span<const int64_t> candidates = schedule::attribute(in, "candidates");
        if (value < 0 || value >= std::ssize(candidates))
          return reject(RejectReason::kBadDecision, fmt::format("choice {} of {}", value, candidates.size()));
        value = candidates[static_cast<size_t>(value)];
      }
      bool factor = in.op == Op::kSamplePerfectTile || (in.op == Op::kSampleTile && i + 1 < in.decision_length);
      if (value < 1 && factor) return reject(RejectReason::kBadDecision, "a factor below one");
      values.set(sketch.symbols[slot], b.integer(value));
    }
  }
  for (Expr extent : sketch.places)
    if (is_int(substitute(b, extent, values), 1)) return replay_to_nest(sketch, decisions, target, arena, used);
  if (used != nullptr) used->assign(decisions.begin(), decisions.end());
  return lower::finish_nest(sketch.nest, values, target, arena);
}

void draw_decisions(const Sketch& sketch, std::span<int64_t> decisions, Rng& rng) {
  std::copy(sketch.trace.decisions.begin(), sketch.trace.decisions.end(), decisions.begin());
  schedule::draw_decisions(sketch.trace, decisions, rng);
}

}  // namespace tcc::space
