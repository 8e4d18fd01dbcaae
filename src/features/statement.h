// The program as a list of statements with what surrounds them. Private to the room.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::features {

struct LoopInfo {
  ir::Id id;
  ir::LoopKind kind;
  int64_t extent;
  int64_t unroll_max;  // 0: no annotation
};

// One load or store of a statement. Coefficients are those of the statement's loops, outermost first.
struct Access {
  const ir::Buffer* buffer;
  bool write;
  bool predicated;
  std::vector<int64_t> stride;             // of the row-major (or blocked) address, in elements, per loop
  std::vector<bool> moves;                 // the loop appears in some index
  std::vector<bool> irregular;             // it appears other than linearly
  std::vector<std::vector<int64_t>> dims;  // [dimension][loop]: coefficient of the index; irregular ones count as 1
};

struct Statement {
  std::vector<LoopInfo> loops;
  double executions = 1;
  double flops = 0, int_ops = 0, calls = 0, divisions = 0;  // of one execution
  bool predicated = false;                                  // by an If or a predicate of its own
  std::vector<Access> accesses;                             // the store last
};

std::vector<Statement> list_statements(const ir::Kernel& nest);

// Bytes that the loops from position `depth` on touch in one go: the boxes of the accesses, clipped to the buffers.
double touched_bytes(const Statement& s, size_t depth);

}  // namespace tcc::features
