// What a GPU program asks of the machine, read off a kernel at Stage::Nest with constant extents: per launch its
// threads, storage, accesses and arithmetic, and the least time that each part of the machine needs for its share. The
// numbers by which counts become time are those of the target's description (tcc/target/sm_model.h).
#pragma once

#include <span>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::cost {

struct LaunchFacts {
  double blocks = 1;             // of the grid
  double threads = 1;            // a block
  double cluster = 1;            // blocks of a cluster
  double registers = 0;          // a thread: local arrays and what addresses take
  double shared_bytes = 0;       // a block
  double flops = 0;              // of the launch; matrix instructions not included
  double matrix_flops = 0;       // of matrix instructions
  double global_bytes = 0;       // moved between the second-level cache and the multiprocessors, in whole sectors
  double least_bytes = 0;        // touched in memory, each byte counted once
  double memory_bytes = 0;       // least_bytes, and what caches do not serve of the rest
  double shared_accesses = 0;    // of warps, bank conflicts counted; and lines of global memory, which go the same way
  double instructions = 0;       // of warps, issued one a cycle and scheduler; matrix instructions not included
  double copy_instructions = 0;  // of them, for copies that the threads of a block share
  double special_functions = 0;  // of threads: exponentials, reciprocals and the like
  double blocks_per_sm = 0;      // resident at a time, as the grid gives them; 0: the block does not fit
  double occupancy = 0;          // resident warps of those that the multiprocessor can hold, in [0, 1]
  double rounds = 1;             // of resident blocks, one after the other
  double wave_share = 1;         // how full the multiprocessors are over all rounds, in (0, 1]
  double parallelism = 1;        // independent sums of a thread
  double stages = 1;             // iterations that are in shared memory at a time (annotation pipeline_depth)
  double step_cycles = 0;        // least clock cycles of iterations that a block goes through together, over all rounds
  double fill_cycles = 0;        // clock cycles in which a multiprocessor waits for the first iteration of its tiles
  double latency_cycles = 0;     // of the loads that a thread waits for one after the other, over all rounds
  double bytes_in_flight = 0;    // of a multiprocessor: loads of the longest loop that its threads start together
  double scheduler_warps = 0;    // resident warps of each of a multiprocessor's schedulers
  double overlap = 1;            // parts of a multiprocessor's work that do not wait for each other
  double busy = 1;               // share of the rate of arithmetic that these warps and sums reach, in (0, 1]
  // Seconds if nothing but this were to be done, with every multiprocessor busy.
  double compute_seconds = 0, memory_seconds = 0, shared_seconds = 0, cache_seconds = 0, issue_seconds = 0;
  double matrix_seconds = 0;  // of compute_seconds, by matrix instructions
  double clock_hz = 0;
};
struct GpuFacts {
  std::vector<LaunchFacts> launches;
  // Parameters, each byte that is used moved once: of a table at most the rows that are gathered.
  double least_bytes = 0;
};
// What the compiler made of a launch; 0: it did not say.
struct CompiledLaunch {
  double registers = 0;     // a thread
  double shared_bytes = 0;  // a block
};
// Only for CUDA targets. `compiled`: of the launches in order, or empty: then storage is estimated. Registers and
// shared memory decide how many blocks are resident, and with them occupancy, rounds and overlap.
GpuFacts gpu_facts(const ir::Kernel& nest, const target::Target& target, std::span<const CompiledLaunch> compiled = {});

}  // namespace tcc::cost
