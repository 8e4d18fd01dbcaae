// Builder: the only way to make IR nodes. Checks its arguments (TCC_CHECK), folds constants and keeps index expressions
// canonical. Allocates into the given arena.
#pragma once

#include <initializer_list>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::ir {

class Builder {
 public:
  explicit Builder(Arena& arena) : arena_(arena) {}
  Arena& arena() { return arena_; }

  // --- index arithmetic (i64), canonical -----------------------------------------------------------------------
  Expr integer(int64_t value, Type type = Type::kI64);
  Expr boolean(bool value) { return integer(value ? 1 : 0, Type::kBool); }
  Expr var(Id id, Type type = Type::kI64);
  // Sums, products and quotients of any type: index arithmetic for i64, plain arithmetic otherwise.
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  Expr mul(Expr a, Expr b);
  Expr floor_div(Expr a, Expr b);
  Expr floor_mod(Expr a, Expr b);
  Expr ceil_div(Expr a, Expr b) { return floor_div(sub(add(a, b), integer(1)), b); }
  Expr min(Expr a, Expr b);
  Expr max(Expr a, Expr b);
  Expr scale(Expr a, int64_t factor);           // index arithmetic: a * factor
  Expr offset(Expr a, int64_t by);              // index arithmetic: a + by
  Expr product(std::span<const Expr> factors);  // 1 when empty
  // Builds the canonical sum of unsorted terms (atoms may be any expression of type i64).
  Expr sum(int64_t constant, std::span<const Term> terms);

  // --- values ----------------------------------------------------------------------------------------------------
  Expr real(double value, Type type = Type::kF32);
  Expr constant(double value, Type type);  // real or integer by type
  Expr div(Expr a, Expr b);                // data division
  Expr lt(Expr a, Expr b);
  Expr le(Expr a, Expr b);
  Expr eq(Expr a, Expr b);
  Expr ne(Expr a, Expr b);
  Expr logical_and(Expr a, Expr b);  // nullptr stands for true
  Expr logical_or(Expr a, Expr b);
  Expr logical_not(Expr a);
  Expr select(Expr condition, Expr a, Expr b);  // select(p, load, const) becomes a predicated load
  Expr cast(Expr a, Type type);
  Expr call(Intrinsic fn, std::span<const Expr> args);
  Expr load(const Buffer& buffer, std::span<const Expr> indices, Expr predicate = nullptr, Expr other = nullptr);
  // The same with the element type given, for rewrites that have no Buffer at hand.
  Expr load(Id buffer, Type type, std::span<const Expr> indices, Expr predicate, Expr other);
  // Any binary kind, dispatching to the functions above.
  Expr binary(ExprKind kind, Expr a, Expr b);

  // --- statements ----------------------------------------------------------------------------------------------
  Stmt seq(std::span<const Stmt> stmts);  // flattens; a single statement stays itself; nullptr entries are dropped
  Stmt loop(Id id, Expr extent, Stmt body, LoopKind kind = LoopKind::kSerial, Axis axis = Axis::kNone,
            std::span<const Annotation> annotations = {});
  Stmt with_body(const Loop& loop, Stmt body);  // same pointer when nothing changes
  Stmt with_body(const Block& block, Stmt body, Stmt init);
  Stmt block(Id id, std::span<const Iter> iters, Stmt body, Stmt init = nullptr, Expr predicate = nullptr,
             ReducerKind reducer = ReducerKind::kNone, std::span<const Annotation> annotations = {});
  Stmt store(Id buffer, std::span<const Expr> indices, Expr value, Expr predicate = nullptr);
  Stmt if_then(Expr condition, Stmt then_case, Stmt else_case = nullptr);
  Stmt alloc(std::span<const Id> buffers, Stmt body);
  Stmt instr(int32_t row, std::span<const Operand> operands, std::span<const Expr> args = {}, Expr predicate = nullptr);
  Stmt roles(std::span<const Role> roles);

  const Buffer* buffer(const Buffer& fields);  // copies shape into the arena

 private:
  friend class CanonicalSum;
  Expr make_binary(ExprKind kind, Type type, Expr a, Expr b);
  Expr product_of_atoms(Expr a, Expr b);
  Arena& arena_;
};

// Convenience for building kernels from scratch (tasks, tests): allocates ids and names.
class KernelBuilder {
 public:
  KernelBuilder();
  Builder& b() { return builder_; }
  Id new_id(const char* name);
  const Buffer* add_buffer(const char* name, Type type, std::span<const int64_t> shape, BufferRole role,
                           Scope scope = Scope::kGlobal);
  Kernel finish(Stmt root);  // Stage::kBuilt; temporaries follow parameters

 private:
  ArenaPtr arena_;
  Builder builder_;
  std::vector<const Buffer*> params_, temps_;
  const NameHint* names_ = nullptr;
  Id next_id_ = 0;
};

}  // namespace tcc::ir
