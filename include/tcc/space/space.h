// Design spaces: what could be tried for a kernel on a target. A design space is a trace skeleton; search draws its
// decisions. A module takes a schedule so far and returns its ways to go on; modules are composed per target
// (MetaSchedule, section 4.2: post-order application of schedule rules).
#pragma once

#include <memory>
#include <string>
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
  std::vector<int64_t> reduction_inner = {1, 2, 4, 8};                // cross-thread-reduction, neighbours of a thread
  std::vector<int64_t> attention_threads = {64, 128, 256};            // gpu-attention, of a block
  int64_t max_blocks = 256;                                           // auto-bind
  std::vector<int64_t> bind_threads = {32, 64, 128, 256, 512, 1024};  // auto-bind
  int64_t tensor_max_innermost = 4;                                   // multi-level-tiling for tensor cores
  std::vector<int64_t> tensor_vector_bytes = {4, 8, 16};              // its copies into shared memory
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
};

class Module {
 public:
  virtual ~Module() = default;
  virtual const char* name() const = 0;
  // The ways to go on from `state`, at least one: a module that does not apply, or whose steps are all rejected,
  // returns the state itself. Copies of a schedule are independent of each other.
  virtual std::vector<schedule::Schedule> apply(const schedule::Schedule& state, const target::Target& target,
                                                const SpaceOptions& options) const = 0;
};

std::unique_ptr<Module> make_inline_constants();
std::unique_ptr<Module> make_attention();
std::unique_ptr<Module> make_auto_inline();
std::unique_ptr<Module> make_vector_dot();
std::unique_ptr<Module> make_lane_dot();
std::unique_ptr<Module> make_matmul_tiling();
std::unique_ptr<Module> make_conv_tiling();
std::unique_ptr<Module> make_blocked_conv_tiling();
std::unique_ptr<Module> make_gemv_tiling();
std::unique_ptr<Module> make_window_tiling();
std::unique_ptr<Module> make_multi_level_tiling();
std::unique_ptr<Module> make_row_tiling();
std::unique_ptr<Module> make_add_rfactor();
std::unique_ptr<Module> make_random_compute_location();
std::unique_ptr<Module> make_parallel_vectorize_unroll();
std::unique_ptr<Module> make_gpu_attention();
std::unique_ptr<Module> make_gpu_split_k();
std::unique_ptr<Module> make_gpu_wgmma();
std::unique_ptr<Module> make_gpu_tensor_core();
std::unique_ptr<Module> make_gpu_tiling();
std::unique_ptr<Module> make_gpu_inline();
std::unique_ptr<Module> make_gpu_store();
std::unique_ptr<Module> make_gpu_reduction();
std::unique_ptr<Module> make_gpu_unroll();
std::unique_ptr<Module> make_gpu_bind();
// The modules of a target in the order of their application.
std::vector<std::unique_ptr<Module>> modules_for(const target::Target& target);
// What SpaceOptions::modules may hold for it, in that order, "none" last.
std::vector<std::string> module_names(const target::Target& target);

// Traces that replay on `start` (Stage::Built) and differ in their skeletons; never empty: the trace without
// instructions is the last resort. The first ones are those most likely to be good.
std::vector<schedule::Trace> generate_space(const ir::Kernel& start, const target::Target& target,
                                            const SpaceOptions& options = {});

}  // namespace tcc::space
