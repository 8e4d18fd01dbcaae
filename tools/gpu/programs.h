// Programs of a task as a search would begin with: drawn from the design spaces, ranked by the analytical model.
#pragma once

#include <string>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::gpu_check {

struct RankedProgram {
  ir::Kernel lowered;
  size_t space = 0;    // number of its design space
  double seconds = 0;  // expected
};
// The best `count` of `draws` draws, fastest first, at most half of them of one design space while others have some.
// tf32: products may round their factors to it.
std::vector<RankedProgram> rank_programs(const task::Task& task, const target::Target& target, int64_t draws,
                                         size_t count, bool tf32 = false);

}  // namespace tcc::gpu_check
