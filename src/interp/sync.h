// Instructions with a meaning of their own: barriers, groups, fences.
#pragma once

#include "interp/machine.h"

namespace tcc::interp {

struct Place {
  Memory* memory;
  int64_t at;  // -1: outside of the buffer, which is reported
};
Place operand_place(Machine& m, Thread& t, const CallOperand& operand);

// Computes now, or issues what completes later. The lanes are at the instruction; the first one waits for it.
void start_call(Machine& m, std::span<Thread* const> lanes, const ir::Instruction& row);
void fence(Machine& m, Thread& t, ir::Behaviour behaviour);

// Performs the instruction at the thread's pc, or blocks the thread at it. True: done, go on behind it.
bool perform(Machine& m, Thread& t);

}  // namespace tcc::interp
