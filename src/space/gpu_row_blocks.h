// The blocks of a kernel that work on the same rows: reductions, and what reads their results. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "space/access.h"

namespace tcc::space {

// Blocks that end in `last`: reductions whose rows `last` reads, or `last` itself.
struct Rows {
  std::string last;
  std::vector<std::string> reductions;  // in program order, `last` not among them
  std::vector<bool> is_row;             // of last's iterators
  bool last_reduces = false;
  int64_t shortest = 0;  // of the rows that are reduced
  double rows = 1;
};

// The last block of the kernel, when it reads rows that reductions make, or is one.
std::optional<Rows> find_rows(const ir::Kernel& k);
// Terms of a sum of the block.
int64_t reduced_extent(const NaiveNest& nest);
// Loops around the block below the outermost `depth`, by what they feed.
struct BlockLoops {
  std::vector<schedule::LoopRv> spatial, terms;
};
BlockLoops loops_below(schedule::Schedule& s, schedule::BlockRv block, size_t depth);

}  // namespace tcc::space
