// Launches in which some warps copy and others multiply (annotation pipeline_role; lower/gpu/expand_roles.h).
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// The loop of a launch whose copies a producer makes; nullptr: none.
const ir::Loop* role_loop(ir::Stmt launch);
// Warpgroups that multiply in a launch with such a loop.
int64_t consumer_groups(ir::Stmt launch);

// How a block with that many consumer warpgroups shares the multiprocessor's registers: a thread's at the launch, and
// after producer and consumers have exchanged some (setmaxnreg).
struct RoleShape {
  int64_t threads = 0;  // a block
  int64_t blocks = 0;   // on a multiprocessor at a time, as far as registers go
  int64_t launch_registers = 0, producer_registers = 0, consumer_registers = 0;
};
RoleShape role_shape(int64_t consumers, int64_t registers_per_sm);

}  // namespace tcc::analysis
