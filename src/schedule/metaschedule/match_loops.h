// Loops of the same iterations, counted differently: a file's around a block and the kernel's.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tcc/ir/walk.h"

namespace tcc::schedule {

struct LoopFacts {
  ir::Id id = ir::kNoId;
  int64_t extent = 0;       // 0: no constant
  bool spatial = false;     // feeds spatial iterators
  bool ordered = false;     // feeds others
  ir::Id only = ir::kNoId;  // the one iterator that it feeds; kNoId: none or several
};
std::vector<LoopFacts> loop_facts(const ir::Kernel& kernel, ir::Id block, std::span<const ir::Id> loops);

// Pairs of iterators whose loops the file counts as one.
using JoinedIters = std::set<std::pair<ir::Id, ir::Id>>;
// Adds those of other blocks that are the same indices: of the same names, or of the same dimensions of a buffer.
void join_alike(const ir::Kernel& kernel, JoinedIters& joined);

// For each of the file's loops (extent 0: not known), the kernel's neighboring loops that it is: none, where it has
// one iteration; several, where their extents multiply to its, or their iterators are known to be counted as one. With
// as few differences as possible; nothing where the loops are not the same.
std::optional<std::vector<std::vector<size_t>>> match_loops(std::span<const LoopFacts> own,
                                                            std::span<const int64_t> file, const JoinedIters& joined);

}  // namespace tcc::schedule
