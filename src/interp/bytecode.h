// Register bytecode. One Region is a piece of a kernel that runs on its own: the whole kernel before Stage::Lowered,
// one launch at Lowered. Registers hold int64 or double; constants are preloaded registers. Jumps are relative.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "interp/value.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/kernel.h"

namespace tcc::interp {

// Fields: d = destination register, a, b, e = source registers unless said otherwise, c = jump offset, x = small
// immediate.
#define TCC_INTERP_OPS(X)                                                                                              \
  X(Halt)                                                                                                              \
  X(Jump)                                                                                                              \
  X(JumpIfFalse)                                                                                                       \
  X(JumpIfTrue) /* a: condition */                                                                                     \
  X(LoopBegin)  /* d = 0; jump when extent a <= 0 */                                                                   \
  X(LoopNext)   /* d += 1; jump while d < a; b: operations of the body */                                              \
  X(ParallelEnter)                                                                                                     \
  X(ParallelLeave)                                                                                                     \
  X(ParallelExit) /* around iterations and the whole of a parallel loop */                                             \
  X(Count)        /* b: operations */                                                                                  \
  X(Move)                                                                                                              \
  X(Bounds)     /* index a in [0, b) of dimension x of buffer slot e; else d = 0 (d >= 0) and jump */                  \
  X(IterBounds) /* block iterator a in [0, b); else jump */                                                            \
  X(Align)      /* address a minus b (>= 0) is a multiple of x elements of slot e */                                   \
  X(AddI)                                                                                                              \
  X(MulI)                                                                                                              \
  X(MAddI)                                                                                                             \
  /* d = a + b * e */ X(ShrI) X(ShlI) X(AndI) X(XorI) X(SubI) X(DivI) X(FloorDivI) X(FloorModI) X(MinI) X(MaxI) X(LtI) \
      X(LeI) X(EqI) X(NeI) X(LtF) X(LeF) X(EqF) X(NeF) X(AndB) X(OrB) X(NotB) X(AddF64) X(SubF64) X(MulF64) X(DivF64)  \
          X(AddF32) X(SubF32) X(MulF32) X(DivF32) X(MinF) X(MaxF) X(WrapI) X(RoundF) /* x: type */                     \
      X(FloatToInt) X(IntToFloat) X(FloatToBool)                                     /* x: type */                     \
      X(Call) /* x: intrinsic, a, b, e: arguments, c: result type */                                                   \
      X(LoadI8) X(LoadU8) X(LoadI16) X(LoadU16) X(LoadI32) X(LoadI64) X(LoadF16) X(LoadBF16) X(LoadF32)                \
          X(LoadF64) /* d = slot e [a] */                                                                              \
      X(StoreI8) X(StoreI16) X(StoreI32) X(StoreI64) X(StoreF16) X(StoreBF16) X(StoreF32)                              \
          X(StoreF64) /* slot e [a] = b */                                                                             \
      X(Reset)        /* slot e becomes undefined */                                                                   \
      X(Instr)        /* e: row of Region::calls */

enum class Op : uint16_t {
#define TCC_X(name) k##name,
  TCC_INTERP_OPS(TCC_X)
#undef TCC_X
};

struct Ins {
  Op op;
  uint16_t x = 0;
  int32_t d = -1, a = -1, b = -1, c = 0, e = -1;
};

// Code under construction: instructions and the statement each came from.
struct Code {
  std::vector<Ins> ins;
  std::vector<ir::Stmt> origin;

  int32_t size() const { return static_cast<int32_t>(ins.size()); }
  void append(const Code& other) {
    ins.insert(ins.end(), other.ins.begin(), other.ins.end());
    origin.insert(origin.end(), other.origin.begin(), other.origin.end());
  }
};

struct CallOperand {
  int32_t slot;
  std::vector<int32_t> indices;  // registers
};
struct CallSite {
  const ir::InstrCall* stmt;
  std::vector<CallOperand> operands;
  std::vector<int32_t> args;
};

inline constexpr int kAxes = 13;
struct BoundLoop {
  ir::Axis axis;
  ir::Expr extent;
};
struct Region {
  bool simt = false;
  bool concurrent_blocks = false;  // blocks of the launch talk to each other
  Code code;
  std::vector<Reg> initial;  // register file at entry
  std::vector<CallSite> calls;
  std::vector<std::pair<int32_t, ir::Id>> scalars;            // registers that take scalar values at entry
  std::array<int32_t, kAxes> axis_registers;                  // -1: unused
  int32_t thread_register = -1;                               // linear thread id
  std::vector<BoundLoop> bound;                               // outside of Roles
  int32_t role_warps = 0;                                     // 0: no Roles
  bool grouped_warps = false;                                 // the warpgroup axis is used
  std::unordered_map<ir::Stmt, const ir::Block*> reductions;  // statements inside reduction blocks
};

}  // namespace tcc::interp
