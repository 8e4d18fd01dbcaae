// The analytical model by which constructed tiles are ordered. On GPUs it is Roller's (its artifact's warp-based
// performance model): the slowest of arithmetic, main memory and shared memory, by waves of blocks. On CPUs it has the
// same form: the ports of a core for a register tile, and each cache's traffic by its rate, by waves of parallel tasks.
//
//   cycles of a CPU = bodies * max(multiply-adds, loads, latency) + sums that are cleared, moved and stored
//   loads           = vectors of an operand * (unaligned, strided or gathered) * (under a mask at the border)
//
// The factors below come from a random search over their values, rounded by hand: by how well the model orders some
// 5,000 measured programs (Zen 5, AVX-512) of products, convolutions, depthwise convolutions and poolings of 21 shapes.
#include <algorithm>
#include <cmath>

#include "construct/tiles.h"
#include "tcc/target/core_model.h"

namespace tcc::construct {
namespace {

constexpr double kGatherLoads = 3;            // vector loads of one gathered element
constexpr double kLoopCycles = 4;             // of entering a loop over a block of a sum
constexpr double kBodyCycles = 2;             // of one iteration of it
constexpr double kOverlap = 0.3;              // share of the shorter of arithmetic and traffic that is not hidden
constexpr double kPrefetched = 0.5;           // share of the traffic into the second cache that hides behind prefetches
constexpr double kTail = 1.3;                 // of the last tile of an axis, beside its share of a whole one
constexpr double kStore = 2;                  // cycles of one aligned vector
constexpr double kWindow = 200;               // vector operations that a core has in flight
constexpr double kPromotedStatements = 1024;  // as lower/promote_registers.cpp has it
// A long body waits for instructions: multiply-adds, and the factor beyond.
constexpr double kLongBody = 120, kLongBodyFactor = 1.17;
constexpr double kUsual = 0.3;  // share of the tiles without a mask that lowering (split_tails.cpp) makes a copy for
// Loads under a mask, in loads: the mask is a constant where the lanes are a whole row and the window is written out.
constexpr double kConstantMask = 1.3, kMask = 3;

}  // namespace

double Problem::seconds(const Tiles& tiles) const {
  return machine_.gpu ? gpu_seconds(tiles) : cpu_seconds(tiles);
}

// The body that a core runs over and over: a register tile, with the steps of the sum that are written out in it.
struct Problem::Body {
  size_t vector = kMaxAxes;                // the axis of the lanes
  double rows = 1, vectors = 1;            // of the tile
  double steps = 1;                        // of the sums
  std::array<double, kMaxAxes> size = {};  // elements of each axis
  bool whole_sum = false;                  // all steps are in it: no loop is left
  bool held = false;                       // registers hold the sums from the first step to the last one
};

// Tiles of an axis. The last one counts with the part that it covers, since its copy of the body is smaller, except
// where a tile of a slower level overhangs by whole ones: those are skipped by tests.
double Problem::tiles_along(const Tiles& tiles, size_t axis, double size) const {
  const auto extent = static_cast<double>(nest_.axes[axis].extent);
  const double least = ceil_div(extent, size) * size;
  double covered = least;
  for (size_t l = 0; l < levels() && nest_.axes[axis].free; ++l) {
    const double outer = elements(tiles, l, axis);
    if (outer > size) covered = std::max(covered, ceil_div(extent, outer) * outer);
  }
  const double whole = std::floor(extent / size + 1e-9), rest = extent - whole * size;
  if (covered > least || rest < 0.5) return covered / size;
  const double unit = nest_.axes[axis].is_vector ? static_cast<double>(machine_.lanes) : 1;
  return whole + std::min(kTail * ceil_div(rest, unit) / ceil_div(size, unit), 1.0);
}

Problem::Body Problem::body_of(const Tiles& tiles, double most) const {
  Body body;
  // Sums that fit the registers as a whole stay in them (lower/promote_registers.h): loops over parts of their tile are
  // written out.
  const std::array<double, kMaxAxes> sums = sizes(tiles, static_cast<size_t>(nest_.sums_level));
  double words = 1, rows = 1;
  for (size_t a = 0; a < axes(); ++a) {
    if (nest_.axes[a].reduce) continue;
    words *= sums[a];
    if (!nest_.axes[a].is_vector) rows *= sums[a];
  }
  const double registers = static_cast<double>(target_.cpu.num_vector_registers);
  body.held = words <= registers * static_cast<double>(machine_.lanes) && rows <= kPromotedStatements;
  body.size = sizes(tiles, body.held ? 1 : 0);
  for (size_t a = 0; a < axes(); ++a) {
    const Axis& axis = nest_.axes[a];
    body.size[a] = axis.reduce ? 1 : std::min(body.size[a], static_cast<double>(axis.extent));
    if (axis.is_vector)
      body.vector = a;
    else
      body.rows *= body.size[a];
  }
  if (body.vector < axes()) {
    const double all = body.size[body.vector], tile = std::min(elements(tiles, 0, body.vector), all);
    body.vectors = ceil_div(all, tile) * ceil_div(tile, static_cast<double>(machine_.lanes));
  }
  // Loops of the sum, the innermost one first, are written out while their statements are few enough.
  std::vector<std::pair<int, size_t>> loops;
  for (size_t a = 0; a < axes(); ++a)
    if (nest_.axes[a].reduce && !nest_.axes[a].factors.empty())
      loops.emplace_back(-nest_.axes[a].factors.back().place, a);
  std::sort(loops.begin(), loops.end());
  body.whole_sum = true;
  bool fits = true;
  for (const auto& [place, a] : loops) {
    const double size = elements(tiles, 1, a);
    fits = fits && body.rows * body.steps * size <= most;
    if (fits) body.steps *= size, body.size[a] = size;
    body.whole_sum &= body.size[a] >= static_cast<double>(nest_.axes[a].extent);
  }
  return body;
}

// Registers beside the sums: a scalar, and the vectors of a step.
double Problem::operand_registers(const Body& body) const {
  double registers = 1;
  for (const Access& access : nest_.accesses)
    if (!access.output && body.vector < axes() && access.stride[body.vector] != 0) registers += body.vectors;
  return registers;
}

// Whether vectors along the axis of the lanes begin at whole vectors of the buffer's rows.
bool Problem::begins_aligned(const Access& access, const Body& body) const {
  if (access.block[body.vector] > 0) return true;
  bool aligned = std::fmod(body.size[body.vector], static_cast<double>(machine_.lanes)) == 0;
  for (const AccessDim& dim : access.dims) {
    const bool along =
        std::any_of(dim.terms.begin(), dim.terms.end(), [&](const IndexTerm& t) { return t.axis == body.vector; });
    if (along) aligned &= dim.terms.size() == 1 && dim.extent % machine_.lanes == 0;
  }
  return aligned;
}

// A vector that does not begin aligned touches a second cache line this often.
double Problem::unaligned() const {
  const auto bytes = static_cast<double>(target_.cpu.vector_bits / 8);
  return 1 + std::min(bytes / static_cast<double>(std::max<int64_t>(target_.cpu.cache_line_bytes, 1)), 1.0);
}

// Of a load among the body's, for lanes that must not read beyond the buffer's ends.
double Problem::mask_factor(const Access& access, const Tiles& tiles, const Body& body) const {
  double rows_inside = 1, lanes_inside = 1, lane_tiles = 1;
  for (const AccessDim& dim : access.dims) {
    const double ends = (nest_.below(dim) ? 1 : 0) + (nest_.beyond(dim) ? 1 : 0);
    if (ends == 0) continue;
    for (const IndexTerm& t : dim.terms) {
      const Axis& axis = nest_.axes[t.axis];
      if (axis.reduce || axis.extent < 2) continue;
      const bool lanes = t.axis == body.vector;
      const double size = lanes ? elements(tiles, 0, t.axis) : body.size[t.axis];
      const double count = ceil_div(static_cast<double>(axis.extent), size);
      (lanes ? lanes_inside : rows_inside) *= std::max(1 - ends / count, 0.0);
      if (lanes) lane_tiles = count;
    }
  }
  if (rows_inside < kUsual) rows_inside = 0;
  if (lanes_inside < kUsual) lanes_inside = 0;
  const double masked = lane_tiles == 1 && body.steps > 1 ? kConstantMask : kMask;
  return rows_inside * (lanes_inside + (1 - lanes_inside) * masked) + (1 - rows_inside) * kMask;
}

// Vector loads of the body.
double Problem::loads_of(const Access& access, const Tiles& tiles, const Body& body) const {
  const target::CoreModel& core = target::core_model(target_);
  const auto lanes = static_cast<double>(machine_.lanes);
  const double masks = mask_factor(access, tiles, body);
  const int64_t stride = body.vector < axes() ? access.stride[body.vector] : 0;
  if (stride == 0) {
    // Each step loads its scalars.
    std::array<double, kMaxAxes> step = body.size;
    for (size_t a = 0; a < axes(); ++a)
      if (nest_.axes[a].reduce) step[a] = 1;
    const double scalars = input_footprint(access, step) / static_cast<double>(access.bytes);
    return scalars * body.steps * core.broadcast_load * masks;
  }
  // What several steps of the body read is loaded once. Vectors that begin at different elements are different ones.
  double vectors = 1;
  for (const AccessDim& dim : access.dims) {
    double reach = 1, starts = 1;
    bool along = false;
    for (const IndexTerm& t : dim.terms) {
      along |= t.axis == body.vector;
      if (t.axis == body.vector) continue;
      starts *= body.size[t.axis];
      reach += static_cast<double>(std::abs(t.coefficient)) * (steps_of(t, body.size) - 1);
    }
    vectors *= along ? starts : std::min({reach, starts, static_cast<double>(dim.extent)});
  }
  // A tile that straddles the blocks of a packed constant is gathered.
  const double tile = std::min(elements(tiles, 0, body.vector), static_cast<double>(nest_.axes[body.vector].extent));
  const auto block = static_cast<double>(access.block[body.vector]);
  const bool straddles =
      block > 0 && std::fmod(block, tile) != 0 && (std::fmod(tile, lanes) != 0 || std::fmod(block, lanes) != 0);
  double one = begins_aligned(access, body) ? 1 : unaligned();
  if (straddles || stride < 0 || stride > 2)
    one = lanes * kGatherLoads;
  else if (stride == 2)
    one = core.stride_two_load;
  return vectors * body.vectors * one * masks;
}

double Problem::cpu_seconds(const Tiles& tiles) const {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t statements : unroll_candidates())
    least = std::min(least, cpu_seconds(tiles, static_cast<double>(statements)));
  return least;
}

double Problem::cpu_seconds(const Tiles& tiles, double most) const {
  const target::CoreModel& core = target::core_model(target_);
  const auto registers = static_cast<double>(target_.cpu.num_vector_registers);
  const Body body = body_of(tiles, most);
  double steps = 1, blocks_of_sum = 1;  // times that a register tile is entered for
  for (size_t a = 0; a < axes(); ++a) {
    if (!nest_.axes[a].reduce) continue;
    const double blocks = ceil_div(static_cast<double>(nest_.axes[a].extent), elements(tiles, 1, a));
    blocks_of_sum *= blocks;
    steps *= blocks * elements(tiles, 1, a);
  }
  double count = 1, parts = 1;  // tiles of the body; those that share a block of the sum
  for (size_t a = 0; a < axes(); ++a) {
    if (nest_.axes[a].reduce) continue;
    count *= tiles_along(tiles, a, body.size[a]);
    parts *= std::max(elements(tiles, 1, a) / body.size[a], 1.0);
  }

  double loads = 0, store = kStore, scattered = 0;
  for (const Access& access : nest_.accesses) {
    if (!access.output) {
      loads += loads_of(access, tiles, body);
    } else if (body.vector < axes()) {
      if (access.stride[body.vector] != 1)
        scattered = core.scattered_element_cycles * static_cast<double>(machine_.lanes);
      if (!begins_aligned(access, body)) store *= unaligned();
    }
  }
  const double sums = body.rows * body.vectors, fmas = sums * body.steps;
  // A sum waits for its last step; meanwhile the core works on the next tiles, as far ahead as it looks.
  const double ahead = std::max(kWindow / (fmas + loads), 1.0);
  const double beside = body.whole_sum ? ahead : std::min(ahead, parts);
  double cycles_of_body = std::max(core.throughput(fmas, loads), core.fma_latency * body.steps / beside);
  const double spilled = sums + operand_registers(body) - registers;
  if (spilled > 0) cycles_of_body += 2 * spilled * body.steps / core.loads_per_cycle;
  if (fmas > kLongBody) cycles_of_body *= kLongBodyFactor;

  // Sums in memory are cleared, read and written for each block of the sum unless one tile stays, and copied.
  const double passes = parts < 1.5 ? 1 : blocks_of_sum;
  const double moves = body.held ? store : 2 * kStore + store + passes * (kStore + 1 / core.loads_per_cycle);
  double cycles = count * steps / body.steps * (cycles_of_body + (body.whole_sum ? 0 : kBodyCycles)) +
                  count * sums * (moves + scattered);
  const bool is_loop = !body.whole_sum && (!body.held || blocks_of_sum * body.steps < steps);
  if (is_loop) cycles += count * blocks_of_sum * kLoopCycles;

  const double into_l1 = cached_traffic(tiles, 1) / core.l1_bytes_per_cycle;
  const double into_l2 = cached_traffic(tiles, 2) / core.l2_bytes_per_cycle * (1 - kPrefetched);
  const double moved = std::max(into_l1, into_l2);
  cycles = std::max(cycles, moved) + kOverlap * std::min(cycles, moved);

  const auto workers = static_cast<double>(machine_.workers);
  const double tasks = std::max(blocks(tiles), 1.0);
  const double used = std::max(tasks / std::max(ceil_div(tasks, workers), 1.0), 1.0);
  cycles = cycles / used + core.launch_cycles;
  if (workers > 1) cycles += core.task_cycles * tasks / workers;
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
