#include "target/cpu_targets.h"

#include <fmt/format.h>

namespace tcc::target {
namespace {

// Round figures of a server core of the 2020s; only ratios between candidates come from them.
constexpr double kNominalClock = 3.0e9;
constexpr double kNominalBandwidthPerCore = 15e9;

}  // namespace

// System V ABI, AMD64 supplement, "Micro-architecture levels".
CpuFeatures level_features(int64_t level) {
  CpuFeatures f;
  if (level >= 2) f.cx16 = f.sahf = f.popcnt = f.sse3 = f.sse4_1 = f.sse4_2 = f.ssse3 = true;
  if (level >= 3) f.avx = f.avx2 = f.bmi = f.bmi2 = f.f16c = f.fma = f.lzcnt = f.movbe = true;
  if (level >= 4) f.avx512f = f.avx512bw = f.avx512cd = f.avx512dq = f.avx512vl = true;
  return f;
}

void set_vector_shape(CpuInfo& info) {
  const CpuFeatures& f = info.features;
  const bool wide = f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl;
  info.vector_bits = wide ? 512 : f.avx2 ? 256 : 128;
  info.num_vector_registers = wide ? 32 : 16;
}

void set_nominal_rates(Target& target) {
  const CpuInfo& cpu = target.cpu;
  target.clock_hz = kNominalClock;
  const double lanes = static_cast<double>(cpu.vector_bits) / 32;
  // Two vector units, each a multiply and an add per clock: one instruction with FMA, one of each kind without.
  const double units = cpu.features.fma ? 2 : 1;
  const double fp32 = static_cast<double>(cpu.cores) * lanes * 2 * units * kNominalClock;
  target.peak = {};
  target.peak.fp32 = fp32;
  // One AMX tile product is 16x16x32 bf16 or 16x16x64 int8 in 16 clocks, against 2x16 fp32 FMA a clock.
  if (cpu.features.amx_bf16) target.peak.bf16 = 16 * fp32;
  if (cpu.features.amx_fp16) target.peak.fp16 = 16 * fp32;
  if (cpu.features.amx_int8) {
    target.peak.int8 = 32 * fp32;
  } else if (cpu.features.avx512_vnni || cpu.features.avx_vnni) {
    target.peak.int8 = 4 * fp32;
  }
  target.memory_bandwidth = kNominalBandwidthPerCore * static_cast<double>(cpu.cores);
}

std::vector<Target> generic_cpu_targets() {
  std::vector<Target> all;
  for (int64_t level = 2; level <= 4; ++level) {
    Target t;
    t.name = isa_level_name(level);
    t.kind = TargetKind::kCpu;
    t.source = "System V ABI, AMD64 supplement, micro-architecture levels";
    t.notes = {"a generic machine: four cores, 32 KiB L1, 1 MiB L2, 16 MiB L3 and nominal rates are assumed"};
    t.cpu.features = level_features(level);
    set_vector_shape(t.cpu);
    t.cpu.cores = t.cpu.threads = 4;
    t.cpu.l1_bytes = int64_t{32} << 10;
    t.cpu.l2_bytes = int64_t{1} << 20;
    t.cpu.l3_bytes = int64_t{16} << 20;
    t.memory_bytes = int64_t{16} << 30;
    set_nominal_rates(t);
    all.push_back(std::move(t));
  }
  return all;
}

}  // namespace tcc::target
