#include "tcc/cost/gpu_row.h"

#include <algorithm>
#include <cmath>

#include "tcc/cost/gpu_model.h"

namespace tcc::cost {
namespace {

#define TCC_X(name) +1
static_assert(0 TCC_GPU_COLUMNS(TCC_X) < static_cast<int>(features::Feature::vector_lanes),
              "the columns of GPU programs leave the mark alone");
#undef TCC_X

constexpr double kNever = 1e18;  // nanoseconds of a program that does not fit the device

}  // namespace

features::Row gpu_row(const features::GpuFacts& facts, double launch_seconds) {
  features::Row row{};
  auto put = [&](GpuColumn column, double value) {
    row[static_cast<size_t>(column)] = static_cast<float>(std::isfinite(value) ? value : 0);
  };
  auto put_log = [&](GpuColumn column, double value) { put(column, std::log2(1 + std::max(value, 0.0))); };
  const double expected = predict_gpu_seconds(facts, launch_seconds) * 1e9;
  put(GpuColumn::expected, std::log2(std::clamp(expected, 1.0, kNever)));
  put_log(GpuColumn::launches, static_cast<double>(facts.launches.size()));
  const features::LaunchFacts* longest = nullptr;
  double most = -1;
  for (const features::LaunchFacts& f : facts.launches) {
    const double seconds = predict_gpu_seconds({{f}, facts.least_bytes}, 0);
    if (seconds > most) most = seconds, longest = &f;
  }
  if (longest == nullptr) return row;
  const features::LaunchFacts& f = *longest;
  put_log(GpuColumn::blocks, f.blocks);
  put_log(GpuColumn::threads, f.threads);
  put_log(GpuColumn::registers, f.registers);
  put_log(GpuColumn::shared_bytes, f.shared_bytes);
  put_log(GpuColumn::flops, f.flops);
  put_log(GpuColumn::matrix_flops, f.matrix_flops);
  put_log(GpuColumn::global_bytes, f.global_bytes);
  put_log(GpuColumn::shared_accesses, f.shared_accesses);
  put_log(GpuColumn::blocks_per_sm, f.blocks_per_sm);
  put(GpuColumn::share_occupancy, f.occupancy);
  put(GpuColumn::share_wave, f.wave_share);
  put_log(GpuColumn::parallelism, f.parallelism);
  put_log(GpuColumn::stages, f.stages);
  put_log(GpuColumn::step_cycles, f.step_cycles);
  put_log(GpuColumn::scheduler_warps, f.scheduler_warps);
  put_log(GpuColumn::compute_time, f.compute_seconds * 1e9);
  put_log(GpuColumn::memory_time, f.memory_seconds * 1e9);
  put_log(GpuColumn::shared_time, f.shared_seconds * 1e9);
  put_log(GpuColumn::matrix_time, f.matrix_seconds * 1e9);
  put_log(GpuColumn::bytes_per_least, f.global_bytes / std::max(facts.least_bytes, 1.0));
  put_log(GpuColumn::flops_per_byte, (f.flops + f.matrix_flops) / std::max(f.global_bytes, 1.0));
  return row;
}

}  // namespace tcc::cost
