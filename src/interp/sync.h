// Instructions with a meaning of their own: barriers, groups, fences.
#pragma once

#include "interp/machine.h"

namespace tcc::interp {

// Performs the instruction at the thread's pc, or blocks the thread at it. True: done, go on behind it.
bool perform(Machine& m, Thread& t);

}  // namespace tcc::interp
