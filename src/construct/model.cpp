// The analytical model by which constructed tiles are ordered. On GPUs it is Roller's (its artifact's warp-based
// performance model): the slowest of arithmetic, main memory and shared memory, by waves of blocks. On CPUs it has the
// same form: the ports of a core for a register tile, and each cache's traffic by its rate, by waves of parallel tasks.
#include <algorithm>
#include <cmath>

#include "construct/tiles.h"
#include "tcc/target/core_model.h"

namespace tcc::construct {
namespace {

constexpr double kGatherLoads = 1.0;     // vector loads of one gathered element
constexpr double kLoopCycles = 4;        // of entering a loop over a block of a sum
constexpr double kOverlap = 0.3;         // share of the shorter of arithmetic and traffic that is not hidden
constexpr double kUnalignedLoad = 1.25;  // of a contiguous operand that is not packed

}  // namespace

double Problem::seconds(const Tiles& tiles) const {
  return machine_.gpu ? gpu_seconds(tiles) : cpu_seconds(tiles);
}

double Problem::cpu_seconds(const Tiles& tiles) const {
  const target::CoreModel& core = target::core_model(target_);
  const auto lanes = static_cast<double>(machine_.lanes);
  size_t vector = axes();
  for (size_t a = 0; a < axes(); ++a)
    if (nest_.axes[a].is_vector) vector = a;
  std::array<double, kMaxAxes> all = sizes(tiles, 0);
  double steps = 1, rows = 1;
  for (size_t a = 0; a < axes(); ++a) {
    if (nest_.axes[a].reduce) {
      steps *= ceil_div(static_cast<double>(nest_.axes[a].extent), elements(tiles, 1, a)) * elements(tiles, 1, a);
      all[a] = 1;
    } else if (a != vector) {
      rows *= all[a];
    }
  }
  const double vectors = vector < axes() ? ceil_div(all[vector], lanes) : 1;

  // One step of the sums of a register tile.
  double loads = 0;
  for (const Access& access : nest_.accesses) {
    if (access.output) continue;
    double elements_read = input_footprint(access, all) / static_cast<double>(access.bytes);
    const int64_t stride = vector < axes() ? access.stride[vector] : 0;
    if (stride == 0) {
      loads += elements_read * core.broadcast_load;
    } else {
      elements_read = std::max(elements_read / std::max(all[vector], 1.0), 1.0);  // rows of it
      loads += elements_read * (stride == 1   ? vectors * kUnalignedLoad
                                : stride == 2 ? vectors * core.stride_two_load
                                              : vectors * lanes * kGatherLoads);
    }
  }
  const double fmas = rows * vectors;
  double step = core.step(fmas, loads);
  const double spilled = register_words(tiles) - static_cast<double>(target_.cpu.num_vector_registers);
  if (spilled > 0) step += 2 * spilled / core.loads_per_cycle;

  const double count = count_tiles(tiles, 0, false);
  double blocks_of_sum = 1;  // times that a register tile is entered for
  for (size_t a = 0; a < axes(); ++a)
    if (nest_.axes[a].reduce)
      blocks_of_sum *= ceil_div(static_cast<double>(nest_.axes[a].extent), elements(tiles, 1, a));
  // Tiles of the sums that share a block of it are read and written for each block.
  const bool stays = count_tiles(tiles, 0, false) <= 1.5 * count_tiles(tiles, 1, false);
  const double entries = count * (stays ? 1 : blocks_of_sum);
  double cycles =
      count * steps * step + entries * 2 * fmas / core.loads_per_cycle + count * blocks_of_sum * kLoopCycles;

  const double into_l1 = traffic(tiles, 1, Count::kWholeReduction) / core.l1_bytes_per_cycle;
  const double into_l2 = traffic(tiles, 2, Count::kWholeReduction) / core.l2_bytes_per_cycle;
  const double moved = std::max(into_l1, into_l2);
  cycles = std::max(cycles, moved) + kOverlap * std::min(cycles, moved);

  const auto workers = static_cast<double>(machine_.workers);
  const double tasks = std::max(blocks(tiles), 1.0);
  const double used = std::max(tasks / std::max(ceil_div(tasks, workers), 1.0), 1.0);
  cycles = cycles / used + core.launch_cycles + core.task_cycles * tasks / workers;
  return cycles / std::max(target_.clock_hz, 1e9);
}

double Problem::gpu_seconds(const Tiles& tiles) const {
  const target::CudaInfo& cuda = target_.cuda;
  const double count = std::max(threads(tiles), 1.0), grid = std::max(blocks(tiles), 1.0);
  const auto sms = static_cast<double>(machine_.workers);
  const double shared = nest_.shared ? stages() * footprint(tiles, 1, false) : 0;
  const double words = register_words(tiles) + 24;  // addresses and counters beside the tile
  double active = std::min(static_cast<double>(cuda.max_threads_per_sm) / count,
                           static_cast<double>(cuda.registers_per_sm) / (words * count));
  if (shared > 0) active = std::min(active, static_cast<double>(cuda.shared_per_sm) / shared);
  active = std::clamp(std::floor(active), 1.0, static_cast<double>(std::max<int64_t>(cuda.max_blocks_per_sm, 1)));

  // Roller: while blocks fit at once, warps beside the schedulers count; beyond, whole waves of blocks.
  const double warps = count / static_cast<double>(cuda.warp_size);
  const auto schedulers = static_cast<double>(cuda.schedulers_per_sm);
  const double places = active * sms;
  double efficiency = 1;
  if (grid <= places) {
    const double units = grid * std::min(warps, schedulers), total = schedulers * sms;
    efficiency = units / (ceil_div(units, total) * total);
  } else {
    efficiency = grid / (ceil_div(grid, places) * places);
  }
  // Arithmetic waits where a multiprocessor has few warps, or few independent sums in each.
  const double latency_hidden = std::min(1.0, active * warps * std::min(independent_sums(tiles), 8.0) /
                                                  (schedulers * cuda.model.arithmetic_latency_cycles * 2));
  const double compute = operations(tiles) / (machine_.peak * std::max(efficiency * latency_hidden, 1e-4));

  // Transactions of which only a part is used.
  double worst = 1;
  for (const Access& access : nest_.accesses)
    for (size_t a = 0; a < axes(); ++a) {
      if (access.output || access.stride[a] != 1) continue;
      const double bytes = elements(tiles, 1, a) * static_cast<double>(access.bytes);
      if (elements(tiles, 1, a) >= static_cast<double>(nest_.axes[a].extent)) continue;
      const auto unit = static_cast<double>(machine_.transaction);
      worst = std::max(worst, ceil_div(bytes, unit) * unit / bytes);
    }
  const double least = whole_bytes();
  const double moved = traffic(tiles, 1, Count::kWholeReduction) * worst;
  const double from_cache = std::max(moved - least, 0.0) / (sms * cuda.model.l2_bytes_per_cycle * target_.clock_hz);
  const double memory = (least + std::max(moved - least, 0.0) * (1 - cuda.model.cache_share)) / machine_.memory;
  const double near = traffic(tiles, 0, Count::kSteps) / machine_.levels[0].bandwidth / std::max(efficiency, 1e-4);
  const double slowest = std::max({compute, memory, from_cache, near});
  const double sum = compute + memory + from_cache + near;
  return slowest + 0.2 * (sum - slowest) + cuda.launch_seconds;
}

}  // namespace tcc::construct
