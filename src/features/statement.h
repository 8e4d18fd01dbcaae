// The program as a list of statements with what surrounds them. Private to the room.
#pragma once

#include <vector>

#include "tcc/ir/instr.h"
#include "tcc/ir/kernel.h"

namespace tcc::features {

struct LoopInfo {
  ir::Id id;
  ir::LoopKind kind;
  int64_t extent;
  int64_t unroll_max;  // 0: no annotation
};

// One load, store or operand of a statement. Coefficients are those of the statement's loops, outermost first.
struct Access {
  const ir::Buffer* buffer;
  bool write;
  bool predicated;
  std::vector<int64_t> stride;             // of the row-major (or blocked) address, in elements, per loop
  std::vector<bool> moves;                 // the loop appears in some index
  std::vector<bool> irregular;             // it appears other than linearly
  std::vector<std::vector<int64_t>> dims;  // [dimension][loop]: coefficient of the index; irregular ones count as 1
  std::vector<int64_t> tile;  // [dimension]: elements that one execution touches; 1 each for loads and stores

  int64_t elements() const;  // of the tile
  int64_t bytes() const;     // of the tile
};

// A store, or a call of an instruction that writes an operand. Calls without one (barriers, set-up of tiles) compute
// nothing and have no statement.
struct Statement {
  const ir::Instruction* instr = nullptr;  // of the call; nullptr: a store
  std::vector<LoopInfo> loops;
  double executions = 1;
  // Of one execution. A call's operations are those of its row in the instruction table: int_ops where the result has
  // integers, as in the loops that the instruction replaces.
  double flops = 0, int_ops = 0, calls = 0, divisions = 0;
  bool predicated = false;       // by an If or a predicate of its own
  std::vector<Access> accesses;  // the store, or the operand that the instruction writes, last

  double operations() const { return flops + int_ops; }
};

// In program order, those of all roles included.
std::vector<Statement> list_statements(const ir::Kernel& nest);

// Bytes that the loops from position `depth` on touch in one go: the boxes of the accesses, clipped to the buffers.
double touched_bytes(const Statement& s, size_t depth);

}  // namespace tcc::features
