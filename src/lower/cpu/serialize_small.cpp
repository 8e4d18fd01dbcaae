#include "lower/cpu/serialize_small.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/target/core_model.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kInstructions = 2;  // a cycle, of a vector or of a scalar
constexpr double kCallCycles = 10;   // of a function such as exp, for one vector
constexpr double kInstrCycles = 16;  // of a matrix instruction

class Estimate {
 public:
  explicit Estimate(int64_t vector_bytes) : vector_bytes_(static_cast<double>(vector_bytes)) {}

  // Cycles of one execution, at least; kUnknown where an extent is not a number.
  double cycles(Stmt s) const {
    if (const Store* store = as<Store>(s)) return 1 + expression_cycles(store->value);
    if (s->kind == StmtKind::kInstrCall) return kInstrCycles;
    double inside = 0;
    visit_children(s, [&](Stmt c) { inside += cycles(c); });
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return inside;
    if (!is_int(l->extent)) return kUnknown;
    const auto extent = static_cast<double>(int_value(l->extent));
    return inside * (l->loop_kind == LoopKind::kVectorized ? std::ceil(extent * 4 / vector_bytes_) : extent);
  }

 private:
  static double expression_cycles(Expr e) {
    double instructions = 0, calls = 0;
    visit(e, [&](Expr part) {
      if (part->kind == ExprKind::kLoad) {
        ++instructions;
        return false;  // its indices are addresses
      }
      if (part->kind == ExprKind::kCall)
        ++calls;
      else
        ++instructions;
      return true;
    });
    return instructions / kInstructions + calls * kCallCycles;
  }

  double vector_bytes_;
};

class Serializer {
 public:
  Serializer(const target::Target& target, Arena& arena)
      : b_(arena), estimate_(target.cpu.vector_bits / 8), launch_cycles_(target::core_model(target).launch_cycles) {}

  // Parallel loops are outermost.
  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    if (l->loop_kind != LoopKind::kParallel || estimate_.cycles(s) >= launch_cycles_) return s;
    return b_.loop(l->id, l->extent, l->body, LoopKind::kSerial, l->axis, l->annotations);
  }

 private:
  Builder b_;
  Estimate estimate_;
  double launch_cycles_;
};

}  // namespace

Kernel serialize_small(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  Kernel result = kernel;
  result.arena = arena;
  result.root = Serializer(target, *arena).rewrite(kernel.root);
  return result;
}

}  // namespace tcc::lower
