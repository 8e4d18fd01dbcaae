// The counts behind the analytical model of GPU programs become seconds of each part of the machine. They follow the
// roofline with occupancy (Williams et al., CACM 2009; CUDA occupancy calculator).
#include "tcc/cost/gpu_facts.h"

#include <algorithm>
#include <cmath>

#include "cost/gpu_counter.h"
#include "tcc/analysis/roles.h"

namespace tcc::cost {
namespace {

using namespace ir;

constexpr double kUsefulParallelism = 8;  // more independent sums of a thread hide no more
// Registers of a thread for what it loads ahead of its sums; the share of its arithmetic that each one too few costs.
constexpr double kAheadRegisters = 16, kShortRegister = 0.02;

// Blocks that one multiprocessor can hold at a time, by threads, registers and shared memory.
double most_blocks(const LaunchFacts& f, const target::CudaInfo& c) {
  const double warp = static_cast<double>(c.warp_size), warps = std::ceil(f.threads / warp);
  double blocks = std::min(static_cast<double>(c.max_blocks_per_sm),
                           std::floor(static_cast<double>(c.max_threads_per_sm) / (warps * warp)));
  const double unit = static_cast<double>(std::max<int64_t>(c.register_allocation_unit, 1));
  const double registers = std::ceil(f.registers * warp / unit) * unit * warps;
  blocks = std::min(blocks, std::floor(static_cast<double>(c.registers_per_sm) / registers));
  if (f.shared_bytes > 0)
    blocks = std::min(blocks, std::floor(static_cast<double>(c.shared_per_sm) /
                                         (f.shared_bytes + static_cast<double>(c.shared_reserved_per_block))));
  return std::max(blocks, 0.0);
}

// How much longer arithmetic takes where the threads of a block share registers that are too few for their sums.
double shortage(const LaunchFacts& f, const target::CudaInfo& c) {
  if (f.matrix_flops > 0 || f.parallelism < kUsefulParallelism) return 1;
  const double warp = static_cast<double>(c.warp_size), warps = std::ceil(f.threads / warp);
  const double most = std::min(static_cast<double>(c.max_registers_per_thread),
                               std::floor(static_cast<double>(c.registers_per_sm) / (warps * warp)));
  return 1 + kShortRegister * std::max(0.0, f.registers + kAheadRegisters - most);
}

// How the blocks of the grid are distributed over the multiprocessors.
void occupancy(LaunchFacts& f, Stmt launch, const target::Target& target) {
  const target::CudaInfo& c = target.cuda;
  const double sms = static_cast<double>(std::max<int64_t>(c.sm_count, 1));
  double running = f.blocks, tiles = 1;  // blocks of the launch, and how many of the grid's one of them makes
  if (analysis::role_loop(launch) != nullptr) {
    const analysis::TileWalk walk = analysis::tile_walk(launch);
    running = static_cast<double>(walk.clusters) * f.cluster;
    tiles = std::ceil(f.blocks / running);
  }
  const double most = most_blocks(f, c);
  // A grid that is smaller than the machine leaves multiprocessors without their share of blocks.
  f.blocks_per_sm = std::min(most, std::ceil(running / sms));
  const double resident = std::max(1.0, f.blocks_per_sm), slots = resident * sms;
  double at_once = slots;
  if (f.cluster > 1)
    at_once =
        std::min(slots, f.cluster * static_cast<double>(target::resident_clusters(
                                        target, static_cast<int64_t>(f.cluster), static_cast<int64_t>(resident))));
  const double fills = std::ceil(running / at_once);
  f.rounds = fills * tiles;
  f.wave_share = std::min(1.0, f.blocks / (f.rounds * slots));
  // Blocks that make one tile after the other fetch the first step of the next one while results of this one leave.
  if (analysis::role_loop(launch) != nullptr) f.fill_cycles = fills * c.model.fill_cycles;
  const double warp = static_cast<double>(c.warp_size), warps = std::ceil(f.threads / warp);
  f.occupancy = f.blocks_per_sm * warps * warp / std::max(1.0, static_cast<double>(c.max_threads_per_sm));
  f.scheduler_warps = f.blocks_per_sm * warps / static_cast<double>(std::max<int64_t>(c.schedulers_per_sm, 1));
  f.step_cycles *= f.rounds;
  f.latency_cycles *= f.rounds;
  f.bytes_in_flight *= f.blocks_per_sm * f.threads;
  // Where copies run ahead, the warps of a block meet once a step and read and multiply beside each other in it.
  const bool ahead = f.stages > 1 && f.matrix_seconds == 0 && analysis::role_loop(launch) == nullptr;
  f.overlap *= f.stages * (ahead && f.overlap <= 1 ? std::max(1.0, f.scheduler_warps) : resident);
  f.busy = std::min(1.0, f.occupancy * std::min(f.parallelism, kUsefulParallelism) / c.model.full_rate_share);
  // Both shares have one cause, too few warps: their product counts it twice. Of 26 programs on an H100 with at most
  // 0.6 warps a scheduler the median was predicted 1.5 times as long as measured by the product, and 0.85 times by the
  // smaller share (models/pools/gpu-h100.pool.gz).
  if (f.matrix_seconds > 0) f.busy = std::min(f.busy, f.scheduler_warps / c.model.matrix_warps);
}

}  // namespace

GpuFacts gpu_facts(const Kernel& nest, const target::Target& target, std::span<const CompiledLaunch> compiled) {
  GpuFacts out;
  std::vector<double> touched(nest.buffers.size(), 0);
  Stmt root = nest.root;
  while (const Alloc* a = as<Alloc>(root)) root = a->body;
  std::vector<Stmt> launches = {root};
  if (const Seq* s = as<Seq>(root)) launches.assign(s->stmts.begin(), s->stmts.end());
  const target::SmModel& m = target.cuda.model;
  const double cycles = std::max(1.0, static_cast<double>(target.cuda.sm_count) * target.clock_hz);
  const bool known = compiled.size() == launches.size();
  for (size_t n = 0; n < launches.size(); ++n) {
    const Stmt launch = launches[n];
    LaunchFacts f;
    GpuCounter counter(nest, target, f);
    counter.run(launch);
    const double longer = shortage(f, target.cuda);
    if (known && compiled[n].registers > 0) f.registers = compiled[n].registers;
    if (known && compiled[n].shared_bytes > 0) f.shared_bytes = compiled[n].shared_bytes;
    for (size_t i = 0; i < touched.size(); ++i) touched[i] += counter.touched(*nest.buffers[i]);
    occupancy(f, launch, target);
    f.clock_hz = target.clock_hz;
    f.compute_seconds = longer * f.flops / std::max(target.peak.fp32, 1.0) + f.matrix_seconds;
    f.memory_seconds = f.memory_bytes / std::max(target.memory_bandwidth * m.copy_share, 1.0);
    f.cache_seconds = f.global_bytes / (cycles * m.l2_bytes_per_cycle);
    f.shared_seconds = f.shared_accesses / cycles;
    const auto schedulers = static_cast<double>(std::max<int64_t>(target.cuda.schedulers_per_sm, 1));
    f.issue_seconds =
        std::max(longer * f.instructions / (cycles * schedulers), f.special_functions / (cycles * m.special_per_cycle));
    out.launches.push_back(f);
  }
  for (size_t i = 0; i < touched.size(); ++i) {
    const Buffer& b = *nest.buffers[i];
    if (b.role == BufferRole::kTemp) continue;
    out.least_bytes += touched[i] > 0 ? std::min(touched[i], buffer_bytes(b)) : buffer_bytes(b);
  }
  return out;
}

}  // namespace tcc::cost
