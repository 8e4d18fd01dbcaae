#include "driver/slowdown.h"

#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/cost/streams.h"
#include "tcc/runtime/host_kernel.h"
#include "tcc/support/files.h"
#include "tcc/target/core_model.h"
#include "tcc/target/last_cache.h"

namespace tcc::driver {
namespace {

constexpr double kShareWhenNothingIsTuned = 0.5;
constexpr double kSecondsEach = 0.02;
constexpr int kMaxRuns = 20;

// Bytes a second at which `bytes` of operands come from the nearest memory that holds them, on `cores` cores; runs
// follow one another on the same data, of which each core keeps its share. 0: registers and first-level caches hold
// them, and the arithmetic takes longer.
double operand_rate(double bytes, const target::Target& target, double cores) {
  const target::CpuInfo& cpu = target.cpu;
  const target::CoreModel& core = target::core_model(target);
  const double cycles = cores * target.clock_hz;
  if (bytes <= cores * static_cast<double>(cpu.l1_bytes)) return 0;
  if (bytes <= cores * static_cast<double>(cpu.l2_bytes)) return cycles * core.l1_bytes_per_cycle;
  if (bytes <= static_cast<double>(target::last_cache_bytes(cpu)))
    return cycles * cost::kStreams * core.l2_bytes_per_cycle;
  return target.memory_bandwidth;
}

// Hardly a program is faster than this.
double least_seconds(const task::Task& task, const codegen::Artifact& artifact, const target::Target& target,
                     int64_t threads) {
  double bytes = 0;
  for (const codegen::BufferInfo& buffer : artifact.buffers)
    if (buffer.role != ir::BufferRole::kTemp) bytes += static_cast<double>(buffer.bytes);
  const auto cores = static_cast<double>(std::max<int64_t>(target.cpu.cores, 1));
  const double used = std::clamp(static_cast<double>(threads), 1.0, cores);
  const double arithmetic = target.peak.fp32 * used / cores, rate = operand_rate(bytes, target, used);
  double seconds = arithmetic > 0 ? task.flops / arithmetic : 0;
  if (rate > 0) seconds = std::max(seconds, bytes / rate);
  return seconds;
}

// On zeros: whatever the type, they are sane values and indices. The fastest of a few runs.
Result<double> time_once(const codegen::Artifact& artifact, const std::shared_ptr<runtime::HostPool>& pool) {
  TCC_TRY(auto kernel, runtime::HostKernel::load(artifact, pool));
  std::vector<runtime::GuardedBuffer> buffers;
  std::vector<void*> pointers;
  for (const codegen::BufferInfo& info : kernel->buffers()) {
    if (info.role == ir::BufferRole::kTemp) continue;
    TCC_TRY(auto buffer, runtime::GuardedBuffer::allocate(info.bytes, std::max<int64_t>(info.alignment, 64)));
    buffer.fill(0);
    pointers.push_back(buffer.data());
    buffers.push_back(std::move(buffer));
  }
  double best = 0;
  const Stopwatch all;
  for (int i = 0; i < kMaxRuns && (i < 2 || all.seconds() < kSecondsEach); ++i) {
    const Stopwatch one;
    TCC_TRY_VOID(kernel->run(pointers));
    const double seconds = one.seconds();
    if (i == 0 || seconds < best) best = seconds;
  }
  return best;
}

}  // namespace

Result<std::vector<double>> estimate_slowdowns(const std::vector<task::Task>& tasks,
                                               const std::vector<search::ChosenArtifact>& chosen,
                                               const target::Target& target, int64_t threads) {
  std::vector<double> slowdowns(tasks.size(), 0.0), shares;
  if (!backend::backend_of(target).runs_on_host(target)) return slowdowns;
  const target::Target host = target::host_target();
  for (size_t i = 0; i < tasks.size(); ++i)
    if (chosen[i].program.tuned && chosen[i].program.seconds > 0)
      shares.push_back(least_seconds(tasks[i], chosen[i].artifact, host, threads) / chosen[i].program.seconds);
  std::sort(shares.begin(), shares.end());
  const double share = shares.empty() ? kShareWhenNothingIsTuned : std::clamp(shares[shares.size() / 2], 0.05, 1.0);
  TCC_TRY(auto pool, runtime::HostPool::create(static_cast<int>(threads)));
  for (size_t i = 0; i < tasks.size(); ++i) {
    const double least = least_seconds(tasks[i], chosen[i].artifact, host, threads);
    if (chosen[i].program.tuned || !(least > 0)) continue;
    TCC_TRY(double seconds, time_once(chosen[i].artifact, pool));
    slowdowns[i] = std::max(1.0, seconds * share / least);
  }
  return slowdowns;
}

}  // namespace tcc::driver
