// Equality and order of expressions, and structural equality of statements.
#include "tcc/ir/expr.h"

#include <algorithm>
#include <cmath>

#include "tcc/ir/kinds.h"
#include "tcc/ir/stmt.h"

namespace tcc::ir {
namespace {

bool equal_optional(Expr a, Expr b) {
  return a == b || (a != nullptr && b != nullptr && equal(a, b));
}
bool equal_annotations(std::span<const Annotation> a, std::span<const Annotation> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].key != b[i].key || !equal(a[i].value, b[i].value)) return false;
  return true;
}
bool equal_optional(Stmt a, Stmt b) {
  return a == b || (a != nullptr && b != nullptr && equal(a, b));
}

int sign(int64_t x) {
  return x < 0 ? -1 : x > 0 ? 1 : 0;
}

}  // namespace

bool equal(std::span<const Expr> a, std::span<const Expr> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Expr x, Expr y) { return equal(x, y); });
}

bool equal(Expr a, Expr b) {
  if (a == b) return true;
  if (a->hash != b->hash || a->kind != b->kind || a->type != b->type) return false;
  switch (a->kind) {
    case ExprKind::kIntConst:
      return int_value(a) == int_value(b);
    case ExprKind::kFloatConst: {
      double x = as<FloatConst>(a)->value, y = as<FloatConst>(b)->value;
      return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
    }
    case ExprKind::kVar:
      return as<Var>(a)->id == as<Var>(b)->id;
    case ExprKind::kSum: {
      const Sum *x = as<Sum>(a), *y = as<Sum>(b);
      if (x->constant != y->constant || x->terms.size() != y->terms.size()) return false;
      for (size_t i = 0; i < x->terms.size(); ++i)
        if (x->terms[i].coefficient != y->terms[i].coefficient || !equal(x->terms[i].atom, y->terms[i].atom))
          return false;
      return true;
    }
    case ExprKind::kProd:
      return equal(as<Prod>(a)->factors, as<Prod>(b)->factors);
    case TCC_BINARY_KINDS:
      return equal(as<Binary>(a)->a, as<Binary>(b)->a) && equal(as<Binary>(a)->b, as<Binary>(b)->b);
    case ExprKind::kNot:
    case ExprKind::kCast:
      return equal(as<Unary>(a)->a, as<Unary>(b)->a);
    case ExprKind::kSelect: {
      const Select *x = as<Select>(a), *y = as<Select>(b);
      return equal(x->condition, y->condition) && equal(x->a, y->a) && equal(x->b, y->b);
    }
    case ExprKind::kLoad: {
      const Load *x = as<Load>(a), *y = as<Load>(b);
      return x->buffer == y->buffer && equal(x->indices, y->indices) && equal_optional(x->predicate, y->predicate) &&
             equal_optional(x->other, y->other);
    }
    case ExprKind::kCall:
      return as<Call>(a)->fn == as<Call>(b)->fn && equal(as<Call>(a)->args, as<Call>(b)->args);
  }
  return false;
}

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->kind == ExprKind::kVar) return sign(int64_t{as<Var>(a)->id} - as<Var>(b)->id);
  if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
  return equal(a, b) ? 0 : (a->ids < b->ids ? -1 : 1);  // a 64-bit collision of unequal atoms: order by content mask
}

bool equal(Stmt a, Stmt b) {
  if (a == b) return true;
  if (a->hash != b->hash || a->kind != b->kind) return false;
  switch (a->kind) {
    case StmtKind::kSeq: {
      auto x = as<Seq>(a)->stmts, y = as<Seq>(b)->stmts;
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!equal(x[i], y[i])) return false;
      return true;
    }
    case StmtKind::kLoop: {
      const Loop *x = as<Loop>(a), *y = as<Loop>(b);
      return x->id == y->id && x->loop_kind == y->loop_kind && x->axis == y->axis && equal(x->extent, y->extent) &&
             equal_annotations(x->annotations, y->annotations) && equal(x->body, y->body);
    }
    case StmtKind::kBlock: {
      const Block *x = as<Block>(a), *y = as<Block>(b);
      if (x->id != y->id || x->reducer != y->reducer || x->iters.size() != y->iters.size()) return false;
      for (size_t i = 0; i < x->iters.size(); ++i) {
        const Iter &p = x->iters[i], &q = y->iters[i];
        if (p.id != q.id || p.kind != q.kind || !equal(p.extent, q.extent) || !equal(p.binding, q.binding))
          return false;
      }
      return equal_optional(x->predicate, y->predicate) && equal_optional(x->init, y->init) &&
             equal(x->body, y->body) && equal_annotations(x->annotations, y->annotations);
    }
    case StmtKind::kStore: {
      const Store *x = as<Store>(a), *y = as<Store>(b);
      return x->buffer == y->buffer && equal(x->indices, y->indices) && equal(x->value, y->value) &&
             equal_optional(x->predicate, y->predicate);
    }
    case StmtKind::kIf: {
      const If *x = as<If>(a), *y = as<If>(b);
      return equal(x->condition, y->condition) && equal(x->then_case, y->then_case) &&
             equal_optional(x->else_case, y->else_case);
    }
    case StmtKind::kAlloc: {
      const Alloc *x = as<Alloc>(a), *y = as<Alloc>(b);
      return std::equal(x->buffers.begin(), x->buffers.end(), y->buffers.begin(), y->buffers.end()) &&
             equal(x->body, y->body);
    }
    case StmtKind::kInstrCall: {
      const InstrCall *x = as<InstrCall>(a), *y = as<InstrCall>(b);
      if (x->instr != y->instr || x->operands.size() != y->operands.size()) return false;
      for (size_t i = 0; i < x->operands.size(); ++i)
        if (x->operands[i].buffer != y->operands[i].buffer || !equal(x->operands[i].indices, y->operands[i].indices))
          return false;
      return equal(x->args, y->args) && equal_optional(x->predicate, y->predicate);
    }
    case StmtKind::kRoles: {
      auto x = as<Roles>(a)->roles, y = as<Roles>(b)->roles;
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (x[i].first_warp != y[i].first_warp || x[i].warps != y[i].warps || x[i].registers != y[i].registers ||
            !equal(x[i].body, y[i].body))
          return false;
      return true;
    }
  }
  return false;
}

}  // namespace tcc::ir
