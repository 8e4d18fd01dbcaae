// GPU programs as rows for the cost models, in the place of features::extract.
#pragma once

#include "tcc/features/features.h"
#include "tcc/features/gpu_facts.h"

namespace tcc::cost {

// X(name). Of the launch that takes longest by the analytical model, log2(1 + x) unless said otherwise.
//  expected       log2 of the nanoseconds that the model expects of the whole program
//  launches       number of them
//  share_*        in [0, 1]
//  *_time         nanoseconds if nothing but this were to be done
#define TCC_GPU_COLUMNS(X) \
  X(expected)              \
  X(launches)              \
  X(blocks)                \
  X(threads)               \
  X(registers)             \
  X(shared_bytes)          \
  X(flops)                 \
  X(matrix_flops)          \
  X(global_bytes)          \
  X(shared_accesses)       \
  X(blocks_per_sm)         \
  X(share_occupancy)       \
  X(share_wave)            \
  X(parallelism)           \
  X(stages)                \
  X(step_cycles)           \
  X(scheduler_warps) X(compute_time) X(memory_time) X(shared_time) X(matrix_time) X(bytes_per_least) X(flops_per_byte)

enum class GpuColumn : int32_t {
#define TCC_X(name) name,
  TCC_GPU_COLUMNS(TCC_X)
#undef TCC_X
};

// Rows of GPU programs and of CPU programs never meet in one model. A GPU's has no vector lanes, by which
// is_gpu_row() tells them apart.
features::Row gpu_row(const features::GpuFacts& facts, double launch_seconds);
inline bool is_gpu_row(std::span<const float> row) {
  return row[static_cast<size_t>(features::Feature::vector_lanes)] == 0;
}

}  // namespace tcc::cost
