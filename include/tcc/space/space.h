// Design spaces: what could be tried for a kernel on a target. A design space is a trace skeleton; search draws its
// decisions. A module takes a schedule so far and returns its ways to go on; modules are composed per target
// (MetaSchedule, section 4.2: post-order application of schedule rules).
#pragma once

#include <memory>
#include <vector>

#include "tcc/schedule/schedule.h"
#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::space {

struct SpaceOptions {
  uint64_t seed = 1;           // of the decisions that the returned traces carry
  int64_t max_innermost = 64;  // largest innermost tile
  int64_t max_unroll = 16;     // largest register tile in rows
  bool pack_weights = true;    // constants may get blocked layouts
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

std::unique_ptr<Module> make_auto_inline();
std::unique_ptr<Module> make_vector_dot();
std::unique_ptr<Module> make_matmul_tiling();
std::unique_ptr<Module> make_conv_tiling();
std::unique_ptr<Module> make_blocked_conv_tiling();
std::unique_ptr<Module> make_gemv_tiling();
std::unique_ptr<Module> make_window_tiling();
std::unique_ptr<Module> make_multi_level_tiling();
std::unique_ptr<Module> make_row_tiling();
std::unique_ptr<Module> make_parallel_vectorize_unroll();
// The modules of a target in the order of their application.
std::vector<std::unique_ptr<Module>> modules_for(const target::Target& target);

// Traces that replay on `start` (Stage::Built) and differ in their skeletons; never empty: the trace without
// instructions is the last resort. The first ones are those most likely to be good.
std::vector<schedule::Trace> generate_space(const ir::Kernel& start, const target::Target& target,
                                            const SpaceOptions& options = {});

}  // namespace tcc::space
