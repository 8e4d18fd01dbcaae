// The time of a launch is that of the part of the machine with most to do, over how busy the multiprocessors are, and
// what does not overlap with it. Loads that threads wait for one after the other bound it from below: bytes in flight
// over latency are the rate of memory (Little's law; Volkov, "Understanding Latency Hiding on GPUs", UC Berkeley 2016).
#include "tcc/cost/gpu_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tcc/cost/cost_model.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::cost {
namespace {

// Copies, caches, shared memory and arithmetic run beside each other as far as there is other work while one of them is
// waited for: that of other blocks on the multiprocessor or of warps that wait for nobody, and of a pipeline's other
// stages.
double launch_time(const LaunchFacts& f) {
  if (f.blocks_per_sm < 1) return std::numeric_limits<double>::infinity();
  const double share = std::max(f.wave_share, 1e-9), busy = std::max(share * f.busy, 1e-9);
  const double issue = f.issue_seconds / (share * std::min(1.0, f.scheduler_warps));
  const double parts[] = {f.compute_seconds / busy, f.shared_seconds / busy, f.cache_seconds / share, f.memory_seconds,
                          issue};
  double most = 0, all = 0;
  for (double seconds : parts) most = std::max(most, seconds), all += seconds;
  const double work = most + (all - most) / std::max(f.overlap, 1.0);
  const double clock = std::max(f.clock_hz, 1.0), latency = f.latency_cycles / clock;
  // Neither is hidden whole by the other where they are alike.
  const double both = std::cbrt(work * work * work + latency * latency * latency);
  // Other blocks of the multiprocessor work while one waits for its tile's first step.
  return both + f.step_cycles / clock / f.stages + f.fill_cycles / clock / f.blocks_per_sm;
}

constexpr double kNever = 1e18;  // nanoseconds of a program that does not fit the device

}  // namespace

double predict_gpu_seconds(const GpuFacts& facts, double launch_seconds) {
  double seconds = 0;
  for (const LaunchFacts& f : facts.launches) seconds += launch_seconds + launch_time(f);
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
  put_log(GpuColumn::bytes_in_flight, f.bytes_in_flight);
  put_log(GpuColumn::cluster, f.cluster);
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
  put_log(GpuColumn::cache_time, f.cache_seconds * 1e9);
  put_log(GpuColumn::issue_time, f.issue_seconds * 1e9);
  put_log(GpuColumn::latency_time, f.latency_cycles / std::max(f.clock_hz, 1.0) * 1e9);
  put_log(GpuColumn::matrix_time, f.matrix_seconds * 1e9);
  put_log(GpuColumn::bytes_per_least, f.global_bytes / std::max(facts.least_bytes, 1.0));
  put_log(GpuColumn::flops_per_byte, (f.flops + f.matrix_flops) / std::max(f.global_bytes, 1.0));
}

class GpuModel : public CostModel {
 public:
  const features::Schema& schema() const override { return kLongestLaunch; }
  void predict(const features::Batch& rows, std::span<float> scores) const override {
    TCC_CHECK(rows.size() == scores.size());
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = -rows[i][static_cast<size_t>(GpuColumn::expected)];
  }
  double expected_seconds(const features::Row& row) const override {
    return 1e-9 * std::exp2(static_cast<double>(row[static_cast<size_t>(GpuColumn::expected)]));
  }
  // Tiles show in the number of blocks and in the shared memory of one, which is their area and their edges.
  uint64_t family(const features::Row& row) const override {
    auto bits = [&](GpuColumn c) { return uint64_t{std::bit_cast<uint32_t>(row[static_cast<size_t>(c)])}; };
    uint64_t hash = 1;
    for (GpuColumn c : {GpuColumn::blocks, GpuColumn::cluster, GpuColumn::stages, GpuColumn::shared_bytes})
      hash = combine_hash(hash, bits(c));
    return bits(GpuColumn::shared_bytes) == 0 ? combine_hash(hash, bits(GpuColumn::threads)) : hash;
  }
};

}  // namespace

constinit const features::Schema kLongestLaunch = {"cuda-longest-launch", 2, kColumns, extract_longest_launch};

std::unique_ptr<CostModel> make_gpu_model() {
  return std::make_unique<GpuModel>();
}

}  // namespace tcc::cost
