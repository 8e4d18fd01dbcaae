// What the modules for GPUs share. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "space/access.h"
#include "tcc/space/space.h"

namespace tcc::space {

// No loop around the block has a kind or an annotation.
bool is_unscheduled(const ir::Kernel& k, ir::Id block);
// One of the candidates, each with the same probability. Not empty.
schedule::ExprRv sample_uniform(schedule::Schedule& s, const std::vector<int64_t>& candidates);
// Elements of a vector: a power of two up to `widest`, each twice as probable as the one before.
schedule::ExprRv sample_widths(schedule::Schedule& s, int64_t widest);
// One loop out of consecutive ones, outermost first. Not empty.
schedule::LoopRv fuse_all(schedule::Schedule& s, std::span<const schedule::LoopRv> loops);
// Names of the blocks that nothing has scheduled yet, in program order.
std::vector<std::string> unscheduled_blocks(const ir::Kernel& k);

// Fuses the loops below `depth` loops of a copy into shared memory and has all threads of the block do it together,
// with a sampled vector length.
void cooperative_fetch(schedule::Schedule& s, schedule::BlockRv copy, size_t depth,
                       std::vector<int64_t> vector_lengths);

// A reduction that nothing has scheduled, with an initialization and iterators bound one to one, in which values read
// serve several results: what multi-level tiling is for (MetaSchedule, appendix A: "needs multi-level tiling").
std::optional<NaiveNest> find_reuse(const ir::Kernel& k);

}  // namespace tcc::space
