// An analytical prediction for GPU programs that nobody has run, and the schema of their rows.
#pragma once

#include "tcc/cost/gpu_facts.h"
#include "tcc/features/schema.h"

namespace tcc::cost {

// Seconds of the launches one after the other; infinite for a block that does not fit a multiprocessor.
// `launch_seconds` is the cost of a launch. An order of programs first: on most devices nothing is fitted.
double predict_gpu_seconds(const GpuFacts& facts, double launch_seconds);

// X(name). Of the launch that takes longest by the analytical model, log2(1 + x) unless said otherwise.
//  expected       log2 of the nanoseconds that the model expects of the whole program
//  launches       number of them
//  share_*        in [0, 1]
//  *_time         nanoseconds if nothing but this were to be done
// clang-format off
#define TCC_GPU_COLUMNS(X) \
  X(expected) \
  X(launches) \
  X(blocks) \
  X(threads) \
  X(registers) \
  X(shared_bytes) \
  X(flops) \
  X(matrix_flops) \
  X(global_bytes) \
  X(bytes_in_flight) \
  X(cluster) \
  X(shared_accesses) \
  X(blocks_per_sm) \
  X(share_occupancy) \
  X(share_wave) \
  X(parallelism) \
  X(stages) \
  X(step_cycles) \
  X(scheduler_warps) \
  X(compute_time) \
  X(memory_time) \
  X(shared_time) \
  X(cache_time) \
  X(issue_time) \
  X(latency_time) \
  X(matrix_time) \
  X(bytes_per_least) \
  X(flops_per_byte)
// clang-format on

enum class GpuColumn : int32_t {
#define TCC_X(name) name,
  TCC_GPU_COLUMNS(TCC_X)
#undef TCC_X
};
// Only for CUDA targets.
extern const features::Schema kLongestLaunch;

}  // namespace tcc::cost
