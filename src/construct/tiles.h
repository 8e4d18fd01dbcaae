// Sizes of tiles for the loops of a nest, what they touch and move, and which of them a machine can hold. Both
// constructions ask here; neither instantiates a kernel. Private to the room.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tcc/construct/tile_nest.h"

namespace tcc::construct {

inline constexpr size_t kMaxAxes = 16;

// size[l][a]: units (Axis::unit) of axis a that level l holds; a level that an axis has no factor of repeats the faster
// one's. vthreads[a]: parts of size[0][a] that are a stride apart (GPUs), or independent accumulators (CPUs).
struct Tiles {
  std::array<std::array<int64_t, kMaxAxes>, kMaxLevels> size = {};
  std::array<int64_t, kMaxAxes> vthreads = {};
  bool operator==(const Tiles&) const = default;
};
uint64_t hash_tiles(const Tiles& tiles);

// Parts of at most b that a falls into; a and b are whole numbers up to the error of their products.
inline double ceil_div(double a, double b) {
  return std::ceil(a / b - 1e-9);
}

// Values that the term takes over a tile of these elements of each axis.
double steps_of(const IndexTerm& term, const std::array<double, kMaxAxes>& sizes);

// A memory that holds tiles. Bytes of one core or multiprocessor; bytes per second of the whole machine.
struct MemoryLevel {
  double capacity = 0;
  double bandwidth = 0;  // into this memory, from the next slower one
};

struct Machine {
  std::array<MemoryLevel, kMaxLevels> levels = {};
  double peak = 1;            // operations per second of the whole machine, in the nest's type
  double memory = 1;          // bytes per second of the main memory
  int64_t workers = 1;        // cores that run programs, or multiprocessors
  int64_t transaction = 32;   // bytes that the main memory moves at once
  int64_t lanes = 1;          // elements of a vector register
  double clock = 1e9;         // hertz
  double sums_in_flight = 1;  // independent sums that keep the arithmetic of a core busy
  bool gpu = false;
};

class Problem {
 public:
  // `tolerance`: free tiles may pad an axis by this share (Roller's epsilon).
  Problem(const TileNest& nest, const target::Target& target, int64_t threads, double tolerance);

  const TileNest& nest() const { return nest_; }
  const Machine& machine() const { return machine_; }
  size_t axes() const { return nest_.axes.size(); }
  size_t levels() const { return nest_.levels; }

  // Whether the level has a sampled factor of the axis that may take any of several sizes.
  bool adjustable(size_t level, size_t axis) const { return adjustable_[level] >> axis & 1; }
  // Every tile as small as it can be.
  Tiles smallest() const;
  struct Step {
    bool aligned = false;                                // by the level's alignment rule
    int64_t most = std::numeric_limits<int64_t>::max();  // units
    int64_t within = 0;  // it divides this size of a slower level; 0: the slower levels follow
  };
  // The next larger size of a tile, a multiple of the faster level's; 0: none.
  int64_t next(const Tiles& tiles, size_t level, size_t axis, const Step& step) const;
  // The next smaller one; 0: none.
  int64_t previous(const Tiles& tiles, size_t level, size_t axis, int64_t within = 0) const;
  // The largest size of at most half of it, rounded up, in which the faster level's tile nests; 0: none.
  int64_t halved(const Tiles& tiles, size_t level, size_t axis) const;
  // Sets a size. Slower levels that have no factor of the axis follow.
  void put(Tiles& tiles, size_t level, size_t axis, int64_t size) const;
  // The same where slower levels are not chosen yet: all of them follow. False: the size is above a factor's limit.
  bool set(Tiles& tiles, size_t level, size_t axis, int64_t size) const;
  // The same where all levels have sizes: faster levels shrink and slower ones grow until the sizes nest. False: they
  // cannot.
  bool place(Tiles& tiles, size_t level, size_t axis, int64_t size) const;
  const std::vector<int64_t>& candidates(size_t axis) const { return candidates_[axis]; }
  bool has_vthreads(size_t axis) const;

  // Elements of the axis that a tile of the level covers.
  double elements(const Tiles& tiles, size_t level, size_t axis) const;
  // Bytes of one tile: inputs, and the output where asked for.
  double footprint(const Tiles& tiles, size_t level, bool output = true) const;
  // Bytes that the whole operator moves into the level. Roller's Q: tiles take the whole reduction at once; Gensor's:
  // tiles times their footprints, reductions included.
  enum class Count : uint8_t { kWholeReduction, kSteps };
  double traffic(const Tiles& tiles, size_t level, Count count) const;
  // Roller's Q where what consecutive tiles share stays in the cache: loops around the tile, the innermost first, run
  // from the cache while it holds what they touch.
  double cached_traffic(const Tiles& tiles, size_t level) const;
  // Operations with the padding of tiles that do not divide.
  double operations(const Tiles& tiles) const;
  // Iterations of the grid, threads of a block, tiles of a level in one of the next.
  double blocks(const Tiles& tiles) const;
  double threads(const Tiles& tiles) const;
  double register_words(const Tiles& tiles) const;  // of a thread; of vectors on a CPU
  double independent_sums(const Tiles& tiles) const;

  // Fits the level's memory, and the target's limits on threads, virtual threads and registers.
  bool fits(const Tiles& tiles, size_t level) const;
  // A block has the threads of a warp at least, as gpu_tiling asks for where the result is large enough.
  bool fills_warp(const Tiles& tiles) const;
  // The memory alone: what faster levels make of the tile is not known yet.
  bool fits_memory(const Tiles& tiles, size_t level) const;
  // The level's alignment rule: vectors and registers, threads, transactions of the slower memory.
  bool aligned(const Tiles& tiles, size_t level) const;
  // The arithmetic takes longer than moving the data into the level.
  bool compute_bound(const Tiles& tiles, size_t level) const;
  // The analytical model by which results are ordered.
  double seconds(const Tiles& tiles) const;
  // On a CPU; `most`: statements that a loop of the sum is written out to at most. Above: the best of its candidates.
  double cpu_seconds(const Tiles& tiles, double most) const;

  std::vector<int64_t> decisions(const Tiles& tiles, std::vector<int64_t> given) const;

 private:
  // The size of a level that has no factor of the axis, around tiles of `inner`.
  int64_t follower(size_t level, size_t axis, int64_t inner) const;
  double input_footprint(const Access& access, const std::array<double, kMaxAxes>& sizes) const;
  std::array<double, kMaxAxes> sizes(const Tiles& tiles, size_t level) const;
  double count_tiles(const Tiles& tiles, size_t level, bool reductions) const;
  int64_t alignment(size_t level, size_t axis) const;
  // Whether the level's rule of alignment allows the size: a multiple, or the whole axis. Where no size of a register
  // tile is one of these: the largest one, and whole numbers of it in slower levels. Other long axes that cannot be
  // aligned may have any size there.
  bool is_aligned(size_t level, size_t axis, int64_t size) const;
  bool cannot_align(size_t level, size_t axis) const { return cannot_align_[level] >> axis & 1; }
  struct Body;
  Body body_of(const Tiles& tiles, double most) const;  // `most`: statements of an unrolled loop
  double tiles_along(const Tiles& tiles, size_t axis, double size) const;
  bool begins_aligned(const Access& access, const Body& body) const;
  double unaligned() const;
  double operand_registers(const Body& body) const;
  double mask_factor(const Access& access, const Tiles& tiles, const Body& body) const;
  double loads_of(const Access& access, const Tiles& tiles, const Body& body) const;
  std::vector<int64_t> unroll_candidates() const;  // statements that a loop of the sum is written out to at most
  double cpu_seconds(const Tiles& tiles) const;
  double gpu_seconds(const Tiles& tiles) const;
  bool within_limit(size_t level, size_t axis, int64_t size) const;
  bool gpu_fits(const Tiles& tiles, size_t level) const;
  double stages() const;       // of the copies into shared memory
  double whole_bytes() const;  // of all that the nest reads and writes, each once

  TileNest nest_;
  target::Target target_;
  Machine machine_;
  std::array<uint32_t, kMaxLevels> adjustable_ = {};
  std::array<std::vector<int64_t>, kMaxAxes> candidates_;  // sizes in units, ascending
  std::array<uint32_t, kMaxLevels> cannot_align_ = {};     // axes, by level
  std::array<int64_t, kMaxAxes> unaligned_ = {};           // the largest register tile where no size is aligned, or 0
};

}  // namespace tcc::construct
