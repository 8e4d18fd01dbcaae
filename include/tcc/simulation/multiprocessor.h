// A simulated GPU, for studies of searches on machines without a device. One multiprocessor runs the warps of its
// resident blocks over the lowered loops, event by event. It models caches, barriers, asynchronous copies and units.
//
// The machine's constants are hidden: drawn from a seed around the figures of the target's description. No formula is
// shared with the analytical model (tcc/cost/gpu_model.h) or with features, so a model that ranks well here learned it.
// The times are those of no device. Nothing that ships may be chosen by them.
#pragma once

#include <cstdint>

#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::simulation {

// X(field, value, spread): drawn from [value * (1 - spread), value * (1 + spread)]. Cycles unless said otherwise.
// clang-format off
#define TCC_HIDDEN_CONSTANTS(X) \
  X(arithmetic_latency, 4.5, 0.3) \
  X(shared_latency, 27, 0.2) \
  X(l1_latency, 34, 0.2) \
  X(l2_latency, 240, 0.2) \
  X(memory_latency, 560, 0.25) \
  X(matrix_latency, 26, 0.3) \
  X(special_latency, 22, 0.2)              /* of exponentials, reciprocals, shuffles */ \
  X(special_per_cycle, 16, 0.1)            /* results of one multiprocessor */ \
  X(barrier_latency, 26, 0.4) \
  X(cluster_latency, 190, 0.3) \
  X(arrival_latency, 40, 0.4)              /* of a barrier in shared memory */ \
  X(copy_issue, 2, 0.4)                    /* of an asynchronous copy beside its address */ \
  X(address_instructions, 1.5, 0.5)        /* of an access whose address the loop moves */ \
  X(division_instructions, 5, 0.4)         /* of an index's quotient by a constant */ \
  X(loop_instructions, 3, 0.4) \
  X(conflict_weight, 0.95, 0.1)            /* of each further access to a bank */ \
  X(own_registers, 25, 0.25)               /* of a thread beside its arrays */ \
  X(spill_cost, 0.03, 0.5)                 /* time for each register beyond the limit, in shares */ \
  X(l1_share, 0.8, 0.2)                    /* of the cache that shared memory leaves, for loads */ \
  X(l2_share, 0.75, 0.2)                   /* of the second-level cache that a launch keeps */ \
  X(l2_bytes_per_cycle, 48, 0.25)          /* of one multiprocessor */ \
  X(memory_share, 0.86, 0.06)              /* of the memory's rate */ \
  X(warp_matrix_share, 0.82, 0.15)         /* of the peak, by instructions of a warp */ \
  X(group_matrix_share, 0.88, 0.08)        /* of the peak, by instructions of a warpgroup */ \
  X(block_start, 350, 0.4) \
  X(launch_seconds, 2.4e-6, 0.3)
// clang-format on

struct Machine {
#define TCC_X(name, value, spread) double name = value;
  TCC_HIDDEN_CONSTANTS(TCC_X)
#undef TCC_X
};
// The machine of the seed. Machines of other seeds differ in their best programs.
Machine draw_machine(uint64_t seed);

struct Run {
  double seconds = 0;
  int64_t events = 0;  // that were simulated
};
// One run of a kernel at Stage::Lowered for a CUDA target, launch after launch; without noise. Deterministic.
// Errors: the kernel is not lowered; a block does not fit a multiprocessor; its warps wait for each other forever.
Result<Run> simulate(const ir::Kernel& lowered, const target::Target& target, const Machine& machine);

}  // namespace tcc::simulation
