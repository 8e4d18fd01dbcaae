// One cycle model of a CPU core, for everything that estimates loops before they run: the tilings of space, the rule
// model of cost and the layouts of graph. A target description holds these numbers under "cpu": {"core": ...}.
#pragma once

#include <algorithm>

namespace tcc::target {

struct Target;

// X(field, default, least value). Rates are per cycle, costs in cycles.
// clang-format off
#define TCC_CORE_MODEL(X) \
  /* Of current x86 cores: two ports for vector multiply-adds, two for vector loads, results after four cycles. */ \
  X(fmas_per_cycle, 2, 0.1) \
  X(loads_per_cycle, 2, 0.1) \
  X(fma_latency, 4, 1) \
  /* In vector loads. A load that crosses a cache line counts twice, and every other unaligned one does; a stride of */ \
  /* two takes two loads and two shuffles; a scalar that serves a vector of results takes half a load. */ \
  X(unaligned_load, 1.5, 1) \
  X(stride_two_load, 4, 1) \
  X(broadcast_load, 0.5, 0) \
  /* Rows of memory that a core has to read side by side to reach its share of the memory's rate. Measured on Zen 3: */ \
  /* 24 GB/s from one, 40 GB/s from four. */ \
  X(memory_streams, 4, 1) \
  /* Set by hand for the rule model, for AVX2 and AVX-512 cores; not measured. Bytes into a cache level, statements */ \
  /* of an unrolled loop that the cache of decoded instructions holds, one launch, one iteration of a parallel loop. */ \
  X(l1_bytes_per_cycle, 48, 0.1) \
  X(l2_bytes_per_cycle, 8, 0.1) \
  X(decoded_statements, 600, 1) \
  X(launch_cycles, 4000, 0) \
  X(task_cycles, 20, 0) \
  /* Set by hand for register tiles on AVX2 and AVX-512 cores; not measured. In cycles: a load of a step of a */ \
  /* convolution or of a window, beside the time of the ports; */ \
  X(exposed_load, 0.02, 0) \
  X(exposed_window_load, 0.1, 0) \
  /* a vector of results that leaves its tile; each element of one that is transposed first, or that is scattered; */ \
  X(result_cycles, 2, 0) \
  X(transposed_element_cycles, 1.5, 0) \
  X(scattered_element_cycles, 0.75, 0) \
  /* the start of a tile of a convolution or of a window. */ \
  X(tile_cycles, 20, 0) \
  X(window_tile_cycles, 6, 0) \
  /* Factors: a step of a tile with more vectors than scalars; a tile or a vector that overhangs, in whole ones. */ \
  X(wide_tile, 1.2, 1) \
  X(overhanging_tile, 1.3, 1) \
  X(overhanging_vector, 1.2, 1) \
  /* Shares of its rate that a tile of a product loses: for each load of a multiply-add, and divided by its rows. */ \
  X(product_load_share, 0.05, 0) \
  X(product_row_share, 0.2, 0) \
  /* One multiply-add of a Winograd transform, in those of a product. */ \
  X(winograd_transform, 4, 0) \
  /* Measured with AVX2: dense convolutions of plain operands reach the rate of blocked ones. */ \
  X(plain_convolution_share, 1, 0.01) \
  /* Measured with AVX2, blocks of 8 channels and images of 7 to 112 columns. Blocked depthwise convolutions reach */ \
  /* this share of the peak at every width. Plain ones, in units of it: what long rows tend to, the vectors of */ \
  /* columns at which they reach half of that, the most that they reach, and the part left with a stride above 1. */ \
  X(depthwise_share, 0.55, 0.01) \
  X(depthwise_long_rows, 2, 0.01) \
  X(depthwise_half_row, 4, 0) \
  X(depthwise_cap, 1.4, 0.01) \
  X(depthwise_strided, 0.4, 0.01)
// clang-format on

struct CoreModel {
#define TCC_X(name, value, least) double name = value;
  TCC_CORE_MODEL(TCC_X)
#undef TCC_X
  bool operator==(const CoreModel&) const = default;

  // Cycles that the ports are busy with these vector operations.
  double throughput(double fmas, double loads) const {
    return std::max(fmas / fmas_per_cycle, loads / loads_per_cycle);
  }
  // Cycles of one step of sums, each of which waits for its own last step.
  double step(double fmas, double loads) const { return std::max(throughput(fmas, loads), fma_latency); }
  // Independent sums that keep the multiply-add ports busy.
  double sums_in_flight() const { return fmas_per_cycle * fma_latency; }
};
// Of a CPU target.
const CoreModel& core_model(const Target& target);

}  // namespace tcc::target
