// What the tilings of contractions share: constant operands are packed ahead, and what reads the result goes with the
// tile. Private to the room.
#pragma once

#include <algorithm>
#include <limits>
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
// Layouts that make iterator `i` the innermost dimension of the constants that it indexes.
std::vector<Packing> packings_for(const ir::Kernel& k, const NaiveNest& nest, size_t i, int64_t tile);
void pack(schedule::Schedule& s, schedule::BlockRv block, const Packing& packing);

// The only reduction of the kernel, if its accumulator is indexed by plain spatial iterators.
std::optional<NaiveNest> find_contraction(const ir::Kernel& k);

// Tiles by their estimated `cycles`, the cheapest first: at most `count`, none above `worth` times the cheapest.
template <class Tile>
void keep_cheapest(std::vector<Tile>& tiles, size_t count, double worth = std::numeric_limits<double>::infinity()) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.cycles < b.cycles; });
  std::erase_if(tiles, [&](const Tile& t) { return t.cycles > worth * tiles[0].cycles; });
  if (tiles.size() > count) tiles.resize(count);
}

// Terms of a sum of `extent` whose constants, of `bytes` for each term, fill a quarter of the first-level cache: a
// power of two that divides the extent; 0: none from `least` to below the extent.
int64_t cache_block(int64_t extent, int64_t bytes, int64_t least, const target::Target& target);
// Fewer steps of a sum than this do not pay for reading and writing its tile.
inline constexpr int64_t kMinSteps = 32;
// Leaves to the tuner how far ahead an iteration of the loop over a block of `size` terms asks for what it reads.
void prefetch_block(schedule::Schedule& s, schedule::LoopRv loop, int64_t size);

// Gives the block a local accumulator. The result is the block that reads it: the only consumer of the contraction, or
// a copy where nobody reads it. nullopt: several consumers, or a rejected step.
std::optional<schedule::BlockRv> localise(schedule::Schedule& s, const NaiveNest& nest, schedule::BlockRv block);

// A loop as [parallel, serial, a tile of `size`], the two outer factors sampled, or all of it in one of them. Fewer
// loops where a step was rejected.
enum class TileShare : uint8_t { kSampled, kParallel, kSerial };
std::vector<schedule::LoopRv> split_tile(schedule::Schedule& s, schedule::LoopRv loop, int64_t extent, int64_t size,
                                         TileShare share = TileShare::kSampled);

// Vectorizes the epilogue, which has `depth` loops around it, along iterator `v` of the contraction (negative: none)
// and unrolls its other loops. `inner`, one for each iterator of the contraction where given, is the part of the loop
// along it that is vectorized or unrolled (an invalid handle: none of it); the rest stays a loop around.
bool mark_epilogue(schedule::Schedule& s, const NaiveNest& nest, int v, schedule::BlockRv epilogue, size_t depth,
                   std::span<const schedule::ExprRv> inner = {});

// The loops of a contraction's tile after its splits, by their part in the nest.
struct TileLoops {
  std::vector<schedule::LoopRv> outer, inner, sums, rows;  // parallel, around a tile, of the reduction, of a tile
  schedule::LoopRv lanes;                                  // innermost, of one vector
};
// Puts them in that order, from the outermost to the innermost; whether the schedule allows it.
bool reorder_tile(schedule::Schedule& s, const TileLoops& loops);

}  // namespace tcc::space
