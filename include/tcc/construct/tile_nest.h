// The tiles of a trace: the loops that its sampled tiles make of one block, their bindings, and the block's accesses.
// Roller and Gensor choose tile sizes for it; decisions_of() makes the trace's decisions of them.
//
//   trace of SSRSRS on a CPU                         axis i (extent 512), factors outermost first
//   S0 S1 R0 S2 R1 S3, S0 parallel, S3 unrolled      S0 grid | S1 level 2 | S2 level 1 | S3 level 0
//
// A level is a memory, the fastest first: registers (0), then on CPUs the first and second cache, on GPUs shared
// memory. A factor belongs to the fastest level that holds the data of all its iterations at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::construct {

inline constexpr size_t kMaxLevels = 3;
inline constexpr int kOutside = static_cast<int>(kMaxLevels);  // of no level: the grid, or the parallel loop

enum class Part : uint8_t { kGrid, kVthread, kThread, kSerial, kUnrolled, kVector };

// One loop that a split makes.
struct Factor {
  Part part = Part::kSerial;
  int level = kOutside;  // the fastest one that holds the data of all its iterations
  int slot = -1;         // of the decisions; -1: not sampled
  int64_t size = 0;      // of a factor that is not sampled; 0: the ceiling quotient of the others
  int place = 0;         // in the nest, 0 outermost
};

// A loop around the block before any split.
struct Axis {
  int64_t extent = 1;
  bool reduce = false;
  std::vector<Factor> factors;  // outermost first; empty: the loop is not split
  int64_t sampled = 1;          // extent of what the sampled factors tile together
  int slots = 0;                // factors of the sampled tile: all of them are among `factors`
  int64_t unit = 1;             // product of the fixed factors inside of those: elements of a tile of size 1
  bool free = false;            // tiles need not divide `sampled`
  int64_t limit = 1;            // of the innermost sampled factor
  int64_t multiple = 1;         // of the innermost sampled factor, where `sampled` is not smaller
  int tail_slot = -1;           // of the decisions: how tails run; its first allowed mode is `tail`
  int64_t tail = 0;
  int whole = kOutside;  // the fastest level that holds the whole extent: that of the outermost factor
  bool is_vector = false;

  bool is_sampled() const {
    return std::any_of(factors.begin(), factors.end(), [](const Factor& f) { return f.slot >= 0; });
  }
};

// One term of an index: coefficient * (iterator / divisor % modulus).
struct IndexTerm {
  size_t axis = 0;
  int64_t coefficient = 1, divisor = 1, modulus = 0;  // 0: no modulus
};
struct AccessDim {
  std::vector<IndexTerm> terms;
  int64_t extent = 1;  // of the buffer
  bool whole = false;  // the index has another form: all of the dimension is read
  int64_t offset = 0;  // the constant term
};
struct Access {
  int64_t bytes = 4;  // of an element
  bool output = false;
  std::vector<AccessDim> dims;
  std::vector<int64_t> stride;  // per axis, in elements; -1: not linear; 1 also for a packed constant
  std::vector<int64_t> block;   // per axis, of a packed constant: elements that are side by side; 0: not packed
};

// X(purpose): what a sampled choice decides; tells which candidate a construction takes.
enum class Choice : uint8_t { kUnroll, kVectorLength, kStages, kOther };
struct Categorical {
  int slot = -1;
  Choice choice = Choice::kOther;
  std::vector<int64_t> candidates;
};

struct TileNest {
  std::string block;  // its name
  std::vector<Axis> axes;
  std::vector<Access> accesses;  // inputs, then the output
  std::vector<Categorical> choices;
  size_t levels = 0;
  int sums_level = 1;      // whose tile the sums of one local buffer are, on a CPU
  int64_t warp_lanes = 1;  // threads that run one thread loop's iteration: a warp for matrix instructions
  bool matrix = false;     // products by matrix instructions
  bool shared = false;     // inputs are copied to shared memory
  double operations = 0;   // floating point operations of the block, a multiply-add counts as two
  bool fused = false;      // the axes are fused loops: what is read by a tile is not known

  bool has_reduction() const;
  // Some input does not move with some spatial axis: an element that is read once serves several results.
  bool has_reuse() const;
  // Neighboring results read common elements: windows that overlap.
  bool has_overlap() const;
  // Whether indices of the dimension leave the buffer: below its first element, or beyond its last one. Loads are
  // masked there.
  bool below(const AccessDim& dim) const;
  bool beyond(const AccessDim& dim) const;
};

// `why` says in one sentence why the trace has no such nest, where the answer is nullopt: nothing is sampled, the trace
// does not replay, or one loop is tiled twice.
std::optional<TileNest> find_tile_nest(const schedule::Trace& trace, const ir::Kernel& start,
                                       const target::Target& target, std::string& why);

}  // namespace tcc::construct
