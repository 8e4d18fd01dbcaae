// The time of a launch is that of the part of the machine with most to do, over how busy the multiprocessors are. To
// hide latency a multiprocessor needs warps times independent work of each (Little's law; Volkov, "Understanding
// Latency Hiding on GPUs", UC Berkeley 2016): with less, all rates fall in proportion.
#include "tcc/cost/gpu_model.h"

#include <algorithm>
#include <limits>

namespace tcc::cost {
namespace {

// Share of a multiprocessor's warps times independent instructions at which arithmetic and memory run at full rate.
constexpr double kEnough = 0.5;
constexpr double kUsefulParallelism = 8;  // more independent sums of a thread hide no more

constexpr double kWarpsForMatrices = 2;  // of a scheduler, that keep its matrix unit busy: one loads, one multiplies

// Copies, shared memory and arithmetic run beside each other as far as there is other work while one of them is waited
// for: that of other blocks on the multiprocessor, and of a pipeline's other stages.
double launch_time(const features::LaunchFacts& f, double cache_share) {
  if (f.blocks_per_sm < 1) return std::numeric_limits<double>::infinity();
  const double concurrency = f.occupancy * std::min(f.parallelism, kUsefulParallelism);
  double busy = f.wave_share * std::min(1.0, concurrency / kEnough);
  if (f.matrix_seconds > 0) busy *= std::min(1.0, f.scheduler_warps / kWarpsForMatrices);
  const double memory = f.memory_seconds * (1 - cache_share);
  const double most = std::max({f.compute_seconds, memory, f.shared_seconds, f.copy_seconds});
  const double rest = f.compute_seconds + memory + f.shared_seconds + f.copy_seconds - most;
  const double exposed = rest / (f.blocks_per_sm * f.stages);
  const double waits = f.step_cycles / std::max(f.clock_hz, 1.0);
  // Other blocks of the multiprocessor work while one waits for its tile's first step.
  const double fill = f.fill_cycles / std::max(f.clock_hz, 1.0) / f.blocks_per_sm;
  return (most + exposed) / std::max(busy, 1e-6) + waits / f.stages + fill;
}

}  // namespace

double predict_gpu_seconds(const features::GpuFacts& facts, double launch_seconds, double cache_share) {
  double seconds = 0;
  for (const features::LaunchFacts& f : facts.launches) seconds += launch_seconds + launch_time(f, cache_share);
  return seconds;
}

}  // namespace tcc::cost
