#include "lower/gpu/unroll_loops.h"

#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

// Statements that a subtree expands to once its unrolled loops are written out; the loops below `limit` become so.
struct Unroller {
  Builder b;
  int64_t limit = 0;

  Stmt rewrite(Stmt s, int64_t& steps) {
    int64_t count = 0;
    Stmt out = rewrite_children(b, s, [&](Stmt c) {
      int64_t inner = 0;
      Stmt r = rewrite_child(c, inner);
      count += inner;
      return r;
    });
    steps = as<Store>(s) != nullptr || as<InstrCall>(s) != nullptr ? 1 : count;
    const Loop* l = as<Loop>(out);
    if (l == nullptr) return out;
    if (!is_int(l->extent)) return out;
    const int64_t all = steps * int_value(l->extent);
    if (l->loop_kind == LoopKind::kUnrolled || l->loop_kind == LoopKind::kVectorized) {
      steps = all;
    } else if (l->loop_kind == LoopKind::kSerial && limit > 0 && all <= limit) {
      steps = all;
      return b.loop(l->id, l->extent, l->body, LoopKind::kUnrolled, Axis::kNone, l->annotations);
    }
    return out;
  }
  Stmt rewrite_child(Stmt s, int64_t& steps) {
    const int64_t before = limit;
    if (const Loop* l = as<Loop>(s)) limit = annotation_or(*l, AnnotationKey::kUnrollMax, limit);
    Stmt out = rewrite(s, steps);
    limit = before;
    return out;
  }
};

}  // namespace

Kernel unroll_loops(const Kernel& kernel, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  int64_t steps = 0;
  k.root = Unroller{Builder(*arena)}.rewrite_child(kernel.root, steps);
  return k;
}

}  // namespace tcc::lower
