// The time of a launch is that of the part of the machine with most to do, over how busy the multiprocessors are. To
// hide latency a multiprocessor needs warps times independent work of each (Little's law; Volkov, "Understanding
// Latency Hiding on GPUs", UC Berkeley 2016): with less, all rates fall in proportion.
#include "tcc/cost/gpu_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/cost/cost_model.h"
#include "tcc/support/check.h"

namespace tcc::cost {
namespace {

// Share of a multiprocessor's warps times independent instructions at which arithmetic and memory run at full rate.
constexpr double kEnough = 0.5;
constexpr double kUsefulParallelism = 8;  // more independent sums of a thread hide no more

constexpr double kWarpsForMatrices = 2;  // of a scheduler, that keep its matrix unit busy: one loads, one multiplies

// Copies, shared memory and arithmetic run beside each other as far as there is other work while one of them is waited
// for: that of other blocks on the multiprocessor, and of a pipeline's other stages.
double launch_time(const LaunchFacts& f, double cache_share) {
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

constexpr double kNever = 1e18;  // nanoseconds of a program that does not fit the device

}  // namespace

double predict_gpu_seconds(const GpuFacts& facts, double launch_seconds, double cache_share) {
  double seconds = 0;
  for (const LaunchFacts& f : facts.launches) seconds += launch_seconds + launch_time(f, cache_share);
  return seconds;
}

namespace {

constexpr std::string_view kColumns[] = {
#define TCC_X(name) #name,
    TCC_GPU_COLUMNS(TCC_X)
#undef TCC_X
};

void extract_longest_launch(const ir::Kernel& nest, const target::Target& target, int64_t, std::span<float> row) {
  const GpuFacts facts = gpu_facts(nest, target);
  auto put = [&](GpuColumn column, double value) {
    row[static_cast<size_t>(column)] = static_cast<float>(std::isfinite(value) ? value : 0);
  };
  auto put_log = [&](GpuColumn column, double value) { put(column, std::log2(1 + std::max(value, 0.0))); };
  const double expected = predict_gpu_seconds(facts, target.cuda.launch_seconds) * 1e9;
  put(GpuColumn::expected, std::log2(std::clamp(expected, 1.0, kNever)));
  put_log(GpuColumn::launches, static_cast<double>(facts.launches.size()));
  const LaunchFacts* longest = nullptr;
  double most = -1;
  for (const LaunchFacts& f : facts.launches) {
    const double seconds = predict_gpu_seconds({{f}, facts.least_bytes}, 0);
    if (seconds > most) most = seconds, longest = &f;
  }
  if (longest == nullptr) return;
  const LaunchFacts& f = *longest;
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
}

class GpuModel : public CostModel {
 public:
  const features::Schema& schema() const override { return kLongestLaunch; }
  void predict(const features::Rows& rows, std::span<float> scores) const override {
    TCC_CHECK(rows.size() == scores.size());
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = -rows[i][static_cast<size_t>(GpuColumn::expected)];
  }
  double expected_seconds(const features::Row& row) const override {
    return 1e-9 * std::exp2(static_cast<double>(row[static_cast<size_t>(GpuColumn::expected)]));
  }
};

}  // namespace

constinit const features::Schema kLongestLaunch = {"cuda-longest-launch", 1, kColumns, extract_longest_launch};

std::unique_ptr<CostModel> make_gpu_model() {
  return std::make_unique<GpuModel>();
}

}  // namespace tcc::cost
