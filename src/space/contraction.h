// What the tilings of contractions share: constant operands are packed ahead, and what reads the result goes with the
// tile. Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "space/access.h"

namespace tcc::space {

// A constant operand, packed in blocks of one dimension that become its innermost one.
struct Packing {
  int read_index = -1;  // among the block's distinct reads
  int dim = 0, rank = 0;
  int64_t tile = 0;
};
// Layouts that make `iter` the innermost dimension of the constants that it indexes.
std::vector<Packing> packings_for(const ir::Kernel& k, const NaiveNest& nest, ir::Id iter, int64_t tile);
void pack(schedule::Schedule& s, schedule::BlockRv block, const Packing& packing);

// The only reduction of the kernel, if its accumulator is indexed by plain spatial iterators.
std::optional<NaiveNest> find_contraction(const ir::Kernel& k);

// Some read does not move with the iterator: what is read once serves several of its values.
bool has_reuse(const ir::Kernel& k, const NaiveNest& nest, size_t i);

// Gives the block a local accumulator. The result is the block that reads it: the only consumer of the contraction, or
// a copy where nobody reads it. nullopt: several consumers, or a rejected step.
std::optional<schedule::BlockRv> localise(schedule::Schedule& s, const NaiveNest& nest, schedule::BlockRv block);

// A loop as [parallel, serial, a tile of `size`], the two outer factors sampled; `serial`: nothing of it in parallel.
// Fewer loops where a step was rejected.
std::vector<schedule::LoopRv> split_tile(schedule::Schedule& s, schedule::LoopRv loop, int64_t extent, int64_t size,
                                         bool serial = false);

// Vectorises the epilogue, which stands below `depth` loops, along iterator `v` of the contraction (negative: none) and
// unrolls its other loops.
bool mark_epilogue(schedule::Schedule& s, const NaiveNest& nest, int v, schedule::BlockRv epilogue, size_t depth);

}  // namespace tcc::space
