// What a kernel at Stage::Nest says of its candidates, as columns: extents, footprints, steps of addresses, storage.
// The kernel's decision scalars are columns. A kernel without scalars gives constants, by the same rules.
//
//   for i in d0 { for j in d1 {                  touched of A:  from i on d0 * d1, from j on d1, one execution 1
//     A[i * d1 + j] = 0.0              ->        step of A:     d1 along i, 1 along j
//   } }                                          executions:    d0 * d1
//
// Where decisions make a loop one iteration long, lowering drops it; here it stays, with extent 1, and changes nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tcc/analysis/columns.h"
#include "tcc/ir/kernel.h"

namespace tcc::analysis {

struct LoopColumns {
  const ir::Loop* loop;
  int32_t parent;     // the next loop around; -1: none
  Column extent;      // at least 1
  Column unroll_max;  // value of the annotation; 0: none
};

// One load, store or operand of an instruction.
struct AccessColumns {
  const ir::Buffer* buffer;
  bool write;
  bool predicated;
  // Elements of the box that the statement's loops from a position on touch in one go, loops further out being at their
  // first iteration; cut to the buffer, and, where the index comes from memory, to one for each iteration. One more
  // entry at the end: one execution.
  std::vector<Column> touched;
  std::vector<Column> row;   // the same, elements of the innermost dimension
  std::vector<bool> moves;   // the loop at the position appears in an index
  std::vector<Column> step;  // of the address in elements, for one iteration; kNoColumn: not linear in the loop
};

// A store, or a call of an instruction that writes an operand.
struct StatementColumns {
  ir::Stmt stmt;
  std::vector<int32_t> loops;  // around it, outermost first, as positions in NestColumns::loops
  Column executions;
  // Of one execution: arithmetic on floats and on integers (indices do not count), calls of mathematical functions.
  double flops = 0, int_ops = 0, calls = 0;
  bool predicated = false;              // by itself or an If around
  std::vector<AccessColumns> accesses;  // what is written last
};

struct BufferColumns {
  const ir::Buffer* buffer;
  Column elements;            // padding included, at least 1
  std::vector<Column> shape;  // at least 1 each
};

struct NestColumns {
  std::vector<LoopColumns> loops;  // in program order
  std::vector<StatementColumns> statements;
  std::vector<BufferColumns> buffers;             // as in the kernel
  std::vector<std::pair<ir::Id, Column>> values;  // of the kernel's scalars

  const BufferColumns& buffer(ir::Id id) const;
};

// Values of scalars.
using ColumnValues = std::vector<std::pair<ir::Id, Column>>;
// The value of an expression over scalars with values; kNoColumn: it has loads, calls or other variables.
Column column_of(ColumnBuilder& b, ir::Expr e, const ColumnValues& values);

// False where an extent, a shape or an index cannot be written as columns; `why` then names it.
bool nest_columns(ColumnBuilder& b, const ir::Kernel& nest, const ColumnValues& values, NestColumns& out,
                  std::string& why);

}  // namespace tcc::analysis
