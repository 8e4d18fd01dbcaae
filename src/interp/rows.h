// The semantics of instruction rows, compiled, and the tiles they run on.
#pragma once

#include "interp/machine.h"
#include "tcc/ir/instr.h"

namespace tcc::interp {

struct RowProgram {
  const ir::Instruction* row = nullptr;
  KernelInfo info;  // of the semantics; rows without any have none
  Region region;
  ArenaPtr arena;                          // of the layouts
  std::vector<const ir::Layout*> layouts;  // by operand; nullptr: a plain tile
  std::vector<std::string> names;          // of the operands
};
std::shared_ptr<const RowProgram> compile_row(int32_t row);

// The instruction at `at` with the lanes' present register values, ready to run now or later. Checks alignment.
Deferred gather_call(Machine& m, std::span<Thread* const> lanes, const Ins* at);
// One element of an operand: its tile index is given, its place found. at -1: outside of the buffer.
struct ElementRef {
  Memory* memory;
  int64_t at;
  Thread* lane;
};
ElementRef find_element(Machine& m, const Deferred& d, size_t operand, std::span<const int64_t> tile_index);
std::vector<int64_t> tile_shape(const ir::OperandSpec& spec, std::span<const int64_t> args);
// Runs it now: reads the operand tiles, runs the semantics, writes back. `as` is the writer's epoch for the
// asynchronous proxy; tick 0: the lanes themselves.
void run_call(Machine& m, const Deferred& d, const Epoch& as);
// Checks and marks the operands of an instruction that completes later.
void issue_call(Machine& m, Deferred& d, const Epoch& as);
void finish_call(Machine& m, const Deferred& d, const Epoch& as);

}  // namespace tcc::interp
