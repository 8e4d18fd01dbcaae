// The machine as a row of numbers, after TCL (section on hardware features), which takes data sheets. Rates are those
// of the target: measured ones where the target was measured. A value x is log2(1 + x) / log2(1 + limit): it is in
// [0, 1], and machines of different centuries stay apart. TCL gives neither scale nor place.
#include <algorithm>

#include "features/workspace.h"

namespace tcc::features {
namespace {

constexpr std::string_view kColumns[] = {"cpu.cores",
                                         "cpu.threads",
                                         "cpu.clock",
                                         "cpu.fp32_rate_of_core",
                                         "cpu.l1",
                                         "cpu.l2",
                                         "cpu.l3",
                                         "cpu.bandwidth_of_thread",
                                         "cpu.memory",
                                         "cpu.bandwidth",
                                         "cpu.vector_bytes",  // for CPUs
                                         "gpu.fp32_lanes",
                                         "gpu.clock",
                                         "gpu.multiprocessors",
                                         "gpu.shared_bytes",
                                         "gpu.memory",
                                         "gpu.l2",
                                         "gpu.bandwidth",
                                         "gpu.tf32_rate",
                                         "gpu.fp32_rate",
                                         "gpu.fp16_rate",
                                         "gpu.int8_rate",
                                         "gpu.bf16_rate"};  // for GPUs
static_assert(std::size(kColumns) == kCpuFacts + kGpuFacts);

constexpr double kCount = 4096, kHertz = 1e10, kBytes = 1e13, kBytesPerSecond = 1e14, kRate = 1e16;

float share(double x, double limit) {
  return static_cast<float>(std::clamp(std::log2(1 + std::max(x, 0.0)) / std::log2(1 + limit), 0.0, 1.0));
}

void extract_row(const Program& program, Workspace&, std::vector<float>& out) {
  const auto row = hardware_row(program.target, program.threads);
  out.insert(out.end(), row.begin(), row.end());
}

}  // namespace

std::array<float, kCpuFacts + kGpuFacts> hardware_row(const target::Target& target, int64_t threads) {
  auto count = [](int64_t n) { return share(static_cast<double>(n), kCount); };
  auto bytes = [](int64_t n) { return share(static_cast<double>(n), kBytes); };
  const auto used = static_cast<double>(std::max<int64_t>(threads, 1));
  if (target.cuda.sm_count == 0) {  // a CPU
    const target::CpuInfo& cpu = target.cpu;
    const auto cores = static_cast<double>(std::max<int64_t>(cpu.cores, 1));
    return {count(cpu.cores),
            share(used, kCount),
            share(target.clock_hz, kHertz),
            share(target.peak.fp32 / cores, kRate),
            bytes(cpu.l1_bytes),
            bytes(cpu.l2_bytes),
            bytes(cpu.l3_bytes),
            share(target.memory_bandwidth / std::min(used, cores), kBytesPerSecond),
            bytes(target.memory_bytes),
            share(target.memory_bandwidth, kBytesPerSecond),
            count(cpu.vector_bits / 8)};
  }
  const target::CudaInfo& gpu = target.cuda;
  std::array<float, kCpuFacts + kGpuFacts> row = {};
  const float facts[kGpuFacts] = {share(static_cast<double>(gpu.sm_count * gpu.fp32_lanes_per_sm), 1e6),
                                  share(target.clock_hz, kHertz),
                                  count(gpu.sm_count),
                                  bytes(gpu.shared_per_sm),
                                  bytes(target.memory_bytes),
                                  bytes(gpu.l2_bytes),
                                  share(target.memory_bandwidth, kBytesPerSecond),
                                  share(target.peak.tf32, kRate),
                                  share(target.peak.fp32, kRate),
                                  share(target.peak.fp16, kRate),
                                  share(target.peak.int8, kRate),
                                  share(target.peak.bf16, kRate)};
  std::copy(std::begin(facts), std::end(facts), row.begin() + kCpuFacts);
  return row;
}

constinit const Table kHardware = {
    "hardware", "the machine: sizes and rates, measured where the target was", 1, kColumns, 1, true, extract_row};

}  // namespace tcc::features
