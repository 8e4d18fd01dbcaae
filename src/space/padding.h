// What schedules do with the block that pads (ir::kPadBlock). Private to the room.
#pragma once

#include "tcc/ir/block_names.h"
#include "tcc/schedule/schedule.h"

namespace tcc::space {

using ir::kPadBlock;

bool has_padding(const schedule::Schedule& s);

// The positions of one row where the block copies those that a stride leaves; 0: it copies a border, or the kernel has
// no such block.
int64_t gathered_row(const ir::Kernel& k);

// Copies the part that an iteration of the loop reads in that iteration: a halo, which neighbors copy too. False: a
// step was rejected.
bool stage_padding(schedule::Schedule& s, schedule::LoopRv loop);

// Copies the whole input in front of its readers, with vectors along a row and all that is around a row in parallel;
// gathered positions with all that is around an image in parallel. `row_dims`: innermost dimensions that are a row, 2
// where its last one is a block of channels. `phases`: elements of a row that far apart are neighbors in the copy.
// Does nothing where there is no padding or a step is rejected.
void copy_padding(schedule::Schedule& s, size_t row_dims, int64_t phases = 1);

}  // namespace tcc::space
