#include "tcc/analysis/counts.h"

#include "tcc/analysis/ranges.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

class Counter {
 public:
  explicit Counter(const Kernel& kernel) : ranges_(kernel) {}
  Counts counts;

  void stmt(Stmt s, double times) {
    if (s == nullptr) return;
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) stmt(c, times);
        return;
      case StmtKind::kLoop: {
        const Loop* l = as<Loop>(s);
        ConstBounds n{1, 1};
        if (!ranges_.bounds(l->extent, n)) n.high = 1;
        Expr previous = ranges_.set(l->id, l->extent);
        stmt(l->body, times * static_cast<double>(n.high));
        ranges_.set(l->id, previous);
        return;
      }
      case StmtKind::kBlock:
        stmt(as<Block>(s)->body, times);
        return;
      case StmtKind::kStore:
        counts.stores += times;
        expr(as<Store>(s)->value, times);
        return;
      case StmtKind::kIf:
        stmt(as<If>(s)->then_case, times);
        stmt(as<If>(s)->else_case, times);
        return;
      case StmtKind::kAlloc:
        stmt(as<Alloc>(s)->body, times);
        return;
      case StmtKind::kInstrCall:
        counts.flops += times * static_cast<double>(instruction(as<InstrCall>(s)->instr).flops);
        return;
      case StmtKind::kRoles:
        for (const Role& r : as<Roles>(s)->roles) stmt(r.body, times);
        return;
    }
  }

 private:
  void expr(Expr root, double times) {
    visit(root, [&](Expr e) {
      double& bucket = is_float(e->type) ? counts.flops : counts.int_ops;
      switch (e->kind) {
        case ExprKind::kLoad:
          counts.loads += times;
          return false;
        case ExprKind::kAdd:
        case ExprKind::kSub:
        case ExprKind::kMul:
        case ExprKind::kDiv:
          bucket += times;
          return true;
        case ExprKind::kMin:
        case ExprKind::kMax:
          if (e->type != Type::kI64) bucket += times;
          return true;
        case ExprKind::kCall:
          counts.flops += as<Call>(e)->fn == Intrinsic::kFma ? 2 * times : times;
          return true;
        case ExprKind::kLt:
        case ExprKind::kLe:
        case ExprKind::kEq:
        case ExprKind::kNe:
          if (is_float(as<Binary>(e)->a->type)) counts.flops += times;
          return true;
        case ExprKind::kIntConst:
        case ExprKind::kFloatConst:
        case ExprKind::kVar:
        case ExprKind::kSum:
        case ExprKind::kProd:
        case ExprKind::kFloorDiv:
        case ExprKind::kFloorMod:
        case ExprKind::kAnd:
        case ExprKind::kOr:
        case ExprKind::kNot:
        case ExprKind::kCast:
        case ExprKind::kSelect:
          return true;
      }
      return true;
    });
  }
  Ranges ranges_;
};

}  // namespace

Counts count(const Kernel& kernel) {
  Counter counter(kernel);
  counter.stmt(kernel.root, 1);
  Ranges ranges(kernel);
  for (const Buffer* b : kernel.buffers) {
    if (b->role == BufferRole::kTemp) continue;
    double bytes = static_cast<double>(type_bytes(b->type));
    for (Expr e : b->shape) {
      ConstBounds n{1, 1};
      if (ranges.bounds(e, n)) bytes *= static_cast<double>(n.high);
    }
    counter.counts.param_bytes += bytes;
  }
  return counter.counts;
}

}  // namespace tcc::analysis
