// Design spaces: what could be tried for a kernel on a target. A design space is a trace skeleton; search draws its
// decisions. A module takes a schedule so far and returns its ways to go on; modules are composed per target
// (MetaSchedule, section 4.2: post-order application of schedule rules).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tcc/schedule/schedule.h"
#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::space {

// What the modules for GPUs choose from: MetaSchedule's defaults (Shao et al., NeurIPS 2022, appendix; the rule lists
// of TVM v0.14, "CUDA" and "CUDA tensor core"). One candidate of a list is drawn, each with the same probability.
struct GpuSpaceOptions {
  int64_t max_innermost = 64;                                  // multi-level-tiling, last factor
  int64_t max_vthreads = 8;                                    // verify-gpu-code
  std::vector<int64_t> vector_lengths = {1, 2, 3, 4, 8, 16};   // cooperative fetch; legal ones have 16 bytes at most
  std::vector<int64_t> unroll_steps = {0, 16, 64, 512, 1024};  // parallel-vectorize-unroll
  // cross-thread-reduction: parts of a warp and whole warps
  std::vector<int64_t> reduction_threads = {4,   8,   16,  32,  64,  96,  128, 160, 192, 224, 256, 288,
                                            320, 352, 384, 416, 448, 480, 512, 576, 640, 768, 896, 1024};
  std::vector<int64_t> row_unroll = {0, 8, 16, 32, 64, 128, 256, 512};  // statements of rows and of windows
  std::vector<int64_t> reduction_inner = {1, 2, 4, 8};                  // cross-thread-reduction, neighbors of a thread
  std::vector<int64_t> attention_threads = {64, 128, 256};              // gpu-attention, of a block
  int64_t max_blocks = 256;                                             // auto-bind
  std::vector<int64_t> bind_threads = {32, 64, 128, 256, 512, 1024};    // auto-bind
  std::vector<int64_t> stream_threads = {128, 256, 512, 1024};          // gpu-elementwise, gpu-transpose, gpu-columns
  std::vector<int64_t> stream_unroll = {1, 2, 4, 8};                    // vectors of a thread that are loaded together
  std::vector<int64_t> column_lanes = {8, 16, 32, 64};                  // gpu-columns, vectors of a row side by side
  std::vector<int64_t> column_rows = {2, 4, 8, 16, 32, 64, 128};  // rows that the threads of a block add up at a time
  std::vector<int64_t> column_parts = {2, 4, 8, 16, 32, 64};      // of the rows, in blocks of their own
  std::vector<int64_t> rows_of_block = {1, 2, 4, 8, 16, 32};      // gpu-rows, rows that share a block
  std::vector<int64_t> transpose_lanes = {4, 8, 16, 32};          // gpu-transpose, vectors of a row of its tile
  std::vector<int64_t> transpose_rows = {8, 16, 32, 64};          // rows that its threads write at a time
  std::vector<int64_t> transpose_steps = {1, 2, 4};               // times that they do so
  int64_t tensor_max_innermost = 4;                               // multi-level-tiling for tensor cores
  std::vector<int64_t> tensor_vector_bytes = {4, 8, 16};          // its copies into shared memory
  std::vector<int64_t> tensor_stages = {2, 3, 4};    // its copies: iterations that are in shared memory at a time
  std::vector<int64_t> wgmma_stages = {3, 4, 5, 6};  // those of products by warpgroups
  int64_t wgmma_group = 16;                          // rows of blocks that follow each other in the grid, at most
  int64_t wgmma_cluster = 2;                         // blocks of a cluster along rows and along columns, at most
  // Blocks of a grid of products by warpgroups that run at a time, in multiprocessors of the device; 0: all.
  std::vector<int64_t> wgmma_walkers = {0, 1, 2};
  std::vector<int64_t> wgmma_parts = {1, 2, 4, 8};  // of the sums of tiles that do not fill the last wave of walkers
  std::vector<int64_t> stages = {1, 2};             // those of multi-level-tiling
  std::vector<int64_t> split_k = {2, 4, 8, 16};     // parts of long sums of few results
  bool allow_tf32 = false;                          // single precision by tf32 products
};

struct SpaceOptions {
  uint64_t seed = 1;           // of the decisions that the returned traces carry
  int64_t max_innermost = 64;  // largest innermost tile
  int64_t max_unroll = 16;     // largest register tile in rows
  bool pack_weights = true;    // constants may get blocked layouts
  GpuSpaceOptions gpu;
  // Names of the modules to apply, for comparing spaces; empty = all of the target's. "none": the plain loops only.
  std::vector<std::string> modules;
  // Also the design spaces that the rules of MetaSchedule make alone: wide spaces, which hold slow programs too.
  bool metaschedule = false;
};
inline constexpr std::string_view kDefaultSpace = "default", kWideSpace = "wide";
// "default", "wide" (metaschedule), or the names of the modules with commas between them.
std::string space_name(const SpaceOptions& options);

// Rejects by reason: how many, and the text of the first one.
struct RejectTally {
  struct Entry {
    int64_t count = 0;
    std::string example;
  };
  std::map<std::string, Entry> by_reason;

  void add(const std::string& reason, const std::string& example);
  void add(const ir::Reject& reject);
  int64_t total() const;
};

// What a module returns: its ways to go on, and what became of those that it tried in vain.
struct Ways {
  std::vector<schedule::Schedule> states;
  RejectTally rejects;

  Ways() = default;
  Ways(schedule::Schedule only) { states.push_back(std::move(only)); }
  // Adds `from` as `make` leaves it, and says whether it did. Where a step is illegal after decisions were drawn, other
  // draws may be legal: `make` gets kDraws tries. Counts a reject where none succeeds.
  template <class Make>
  bool attempt(const schedule::Schedule& from, const Make& make) {
    for (int draw = 1;; ++draw) {
      schedule::Schedule made = from;
      if (make(made)) {
        states.push_back(std::move(made));
        return true;
      }
      const bool drawn = made.trace().decisions.size() > from.trace().decisions.size();
      if (!made.ok() && drawn && draw < kDraws) continue;
      made.ok() ? rejects.add("a condition of the module", "") : rejects.add(made.reject());
      return false;
    }
  }
  static constexpr int kDraws = 4;
  // Adds the state itself.
  Ways& or_also(const schedule::Schedule& state) {
    states.push_back(state);
    return *this;
  }
  // Adds the state itself where there is no other way.
  Ways& or_else(const schedule::Schedule& state) { return states.empty() ? or_also(state) : *this; }
};

struct Module {
  const char* name;
  // The ways to go on from `state`, at least one: a module that does not apply, or whose steps are all rejected,
  // returns the state itself. Copies of a schedule are independent of each other.
  Ways (*apply)(const schedule::Schedule& state, const target::Target& target, const SpaceOptions& options);
};

// The modules for one kind of target, as data. A backend of its own brings a list of its own.
struct ModuleList {
  std::span<const Module> modules;  // in the order of their application
  // Draws of a space's decisions, of which one must give a program within the target's limits; 0: no such demand.
  int draws = 24;
  // Why a kernel's design spaces hold no matrix instruction: a sentence for each condition that does not hold.
  std::vector<std::string> (*unmet_matrix_conditions)(const ir::Kernel& kernel, const target::Target& target) = nullptr;
  // The modules that are rules of MetaSchedule (Shao et al., NeurIPS 2022, appendix; TVM v0.14).
  std::span<const std::string_view> metaschedule = {};
};
extern const ModuleList kCpuModules, kCudaModules;
// The list for the target's kind.
const ModuleList& modules_for(const target::Target& target);
// Sets the list for a kind of target. Call it before the first kernel of that kind is scheduled, from one thread.
void add_modules(target::TargetKind kind, const ModuleList& modules);
// What SpaceOptions::modules may hold for it, in that order, "none" last.
std::vector<std::string> module_names(const target::Target& target);

// What became of all ways that the modules tried.
struct SpaceReport {
  // Traces that replay on the start and differ in their skeletons; never empty: the trace without instructions is the
  // last resort. The first ones are those most likely to be good.
  std::vector<schedule::Trace> traces;
  struct ModuleRejects {
    std::string module;
    RejectTally rejects;
  };
  std::vector<ModuleRejects> modules;  // those that rejected something, in the order of their application
  // Skeletons that were left out, because no draw of their decisions is within the target's limits.
  struct Dropped {
    std::string modules;  // that made its steps, "a, b"
    int64_t draws = 0;
    RejectTally rejects;
  };
  std::vector<Dropped> dropped;
};
// `start`: Stage::Built. With options.metaschedule the design spaces of those rules follow those of all modules, as far
// as they differ.
SpaceReport explore_space(const ir::Kernel& start, const target::Target& target, const ModuleList& modules,
                          const SpaceOptions& options = {});
// The traces of explore_space with the modules for the target's kind.
std::vector<schedule::Trace> generate_space(const ir::Kernel& start, const target::Target& target,
                                            const SpaceOptions& options = {});

}  // namespace tcc::space
