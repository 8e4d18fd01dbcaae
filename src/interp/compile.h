// Kernel -> Region. Index arithmetic is hoisted to the outermost loop where its variables are known and shared there.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "interp/bytecode.h"
#include "tcc/ir/build.h"
#include "tcc/ir/interval.h"

namespace tcc::interp {

// Buffers of a kernel in slot order; a temporary without an Alloc lives at a loop.
struct KernelInfo {
  ir::Kernel kernel;
  std::vector<const ir::Buffer*> slots;
  std::vector<int32_t> slot_of;                                  // by id; -1
  std::vector<bool> written;                                     // by slot: some statement writes it
  std::unordered_map<ir::Id, std::vector<int32_t>> loop_resets;  // loop id -> slots undefined at each iteration
};
KernelInfo inspect_kernel(const ir::Kernel& kernel);

// The layout that decides addresses: none for row-major buffers and for ones spread over lanes, which the interpreter
// keeps by logical index.
const ir::Layout* address_layout(const ir::Buffer& buffer);

// How an element of a type is read and written.
struct AccessOps {
  Op load, store;
};
AccessOps access_ops(ir::Type type);

// The launches of a Lowered kernel, or the root alone.
std::vector<ir::Stmt> split_regions(const ir::Kernel& kernel);
bool is_simt(ir::Stmt root);

Region compile_region(const KernelInfo& info, ir::Stmt root);

class Compiler {
 public:
  Compiler(const KernelInfo& info, bool simt);
  Region compile(ir::Stmt root);

 private:
  struct Variable {
    int32_t reg = -1;
    int32_t depth = 0;
    bool hoistable = true;
    ir::Interval range;
  };
  struct Place {
    bool hoistable = true;
    int32_t depth = 0;
  };
  struct Scope {
    Code prologue;
    std::unordered_map<uint64_t, std::vector<std::pair<ir::Expr, int32_t>>> values;
    std::map<std::vector<int64_t>, int32_t> sums;
  };

  // compile_expr.cpp
  int32_t expr(ir::Expr e);
  int32_t expr_at(ir::Expr e, Code& code);
  int32_t sum(const ir::Sum& s);
  int32_t binary(const ir::Binary& e, Code& code);
  int32_t arithmetic(const ir::Binary& e, Code& code);
  int32_t floor_op(const ir::Binary& e, Code& code);
  int32_t select(const ir::Select& e);
  int32_t load(const ir::Load& e);
  int32_t cast(const ir::Unary& e, Code& code);
  int32_t call(const ir::Call& e, Code& code);
  int32_t logical(const ir::Binary& e, Code& code);
  void round_result(ir::Type type, int32_t reg, Code& code);
  Place place(ir::Expr e);
  // Intervals of index expressions from loop extents: what needs no bounds check when run.
  ir::Interval interval(ir::Expr e);
  ir::Expr settle(ir::Expr index);
  int32_t address(int32_t slot, std::span<const ir::Expr> indices);
  int32_t layout_address(const ir::Layout& layout, std::span<const ir::Expr> indices);
  // Emits the checks of an access; returns the jumps that leave on failure.
  std::vector<int32_t> bounds(int32_t slot, std::span<const ir::Expr> indices, int32_t zeroed);
  void patch(std::span<const int32_t> jumps);
  void alignment(int32_t slot, std::span<const ir::Expr> indices, int32_t address);

  // Code that runs where the condition holds (nullptr: always).
  template <class F>
  void when(ir::Expr condition, F body) {
    const int32_t skip = condition == nullptr ? -1 : emit(*code_, {.op = Op::kJumpIfFalse, .a = expr(condition)});
    body();
    if (skip >= 0) patch(std::span(&skip, 1));
  }
  // Code whose operations count only where it runs.
  template <class F>
  void counted(F body) {
    const int32_t outer = std::exchange(operations_, 0);
    body();
    if (operations_ > 0) emit(*code_, {.op = Op::kCount, .b = operations_});
    operations_ = outer;
  }

  int32_t emit(Code& code, Ins ins);
  int32_t emit_value(Code& code, Ins ins);  // with a new destination register
  int32_t new_reg();
  int32_t constant(int64_t value);
  int32_t constant_real(double value);
  int32_t scalar(ir::Id id);

  // compile_stmt.cpp
  void stmt(ir::Stmt s);
  void loop(const ir::Loop& l);
  void bound_loop(const ir::Loop& l);
  void block(const ir::Block& b);
  void store(const ir::Store& s);
  void if_then(const ir::If& s);
  void alloc(const ir::Alloc& s);
  void instr(const ir::InstrCall& s);
  void roles(const ir::Roles& s);
  int32_t axis_register(ir::Axis axis);
  int32_t role_axis(ir::Axis axis);
  void bind(ir::Id id, const Variable& variable);
  void loop_body(const ir::Loop& l, Code& body);
  void note_bound_loops(ir::Stmt root);

  const KernelInfo& info_;
  Region region_;
  ArenaPtr arena_;
  ir::Builder builder_;
  std::vector<Scope> scopes_;
  Code* code_ = nullptr;  // body under construction
  ir::Stmt current_ = nullptr;
  const ir::Block* reduction_ = nullptr;
  std::vector<Variable> variables_;  // by id
  std::unordered_map<int64_t, int32_t> constants_, reals_;
  int32_t operations_ = 0;  // of the straight-line code under construction
  struct Vector {
    ir::Id id;
    int64_t extent;
  };
  std::vector<Vector> vectors_;  // enclosing vectorized loops (threads only)
  const ir::Role* role_ = nullptr;
  std::map<std::pair<int32_t, int32_t>, int32_t> role_axes_;  // (first warp, axis) -> register
};

}  // namespace tcc::interp
