#include "lower/cpu/plan_unrolling.h"

#include <algorithm>

#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxStatements = 4096;  // that an unrolled loop may become; beyond it the loop stays a loop

bool becomes_copies(const Loop& l) {
  return l.loop_kind == LoopKind::kUnrolled || l.loop_kind == LoopKind::kVectorized;
}

// Stores that the statement becomes when constant loops of the expanded kinds are written out.
int64_t count_statements(Stmt s, bool expand_serial) {
  if (s->kind == StmtKind::kStore || s->kind == StmtKind::kInstrCall) return 1;
  int64_t n = 0;
  visit(s, [&](Stmt c) {
    if (c == s) return true;
    n += count_statements(c, expand_serial);
    return false;
  });
  const Loop* l = as<Loop>(s);
  const bool copies = l != nullptr && is_int(l->extent) && l->loop_kind != LoopKind::kVectorized &&
                      (l->loop_kind == LoopKind::kUnrolled || expand_serial);
  if (copies) n *= std::max<int64_t>(1, int_value(l->extent));
  return std::min<int64_t>(n, int64_t{1} << 30);
}

class UnrollPlanner {
 public:
  explicit UnrollPlanner(Arena& arena) : b_(arena) {}

  // `limit`: statements that a serial loop may become, of the nearest annotation around it; 0: none.
  Stmt rewrite(Stmt s, int64_t limit) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c, limit); });
    // The launch's own loop is run by the threads.
    if (l->loop_kind != LoopKind::kParallel) limit = annotation_or(*l, AnnotationKey::kUnrollMax, limit);
    std::vector<Annotation> annotations;
    for (const Annotation& a : l->annotations)
      if (a.key != AnnotationKey::kUnrollMax) annotations.push_back(a);
    if (const int64_t most = most_iterations(*l, limit); most >= 0)
      annotations.push_back({AnnotationKey::kUnrollMax, b_.integer(most)});
    return b_.loop(l->id, l->extent, rewrite(l->body, limit), l->loop_kind, l->axis, annotations);
  }

 private:
  // Iterations that may be written out; -1: the loop's kind says it. Extents that depend on loops may become constant
  // when those are written out.
  static int64_t most_iterations(const Loop& l, int64_t limit) {
    const bool whole = becomes_copies(l);
    if (!whole && (l.loop_kind != LoopKind::kSerial || limit <= 0)) return -1;
    const int64_t statements = std::max<int64_t>(1, count_statements(l.body, !whole));
    const int64_t most = (whole ? kMaxStatements : std::min(limit, kMaxStatements)) / statements;
    if (!is_int(l.extent)) return most;
    const bool expands = int_value(l.extent) <= most;
    return expands == whole ? -1 : most;
  }

  Builder b_;
};

}  // namespace

Kernel plan_cpu_unrolling(const Kernel& kernel, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  k.root = UnrollPlanner(*arena).rewrite(kernel.root, 0);
  return k;
}

}  // namespace tcc::lower
