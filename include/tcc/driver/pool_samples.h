// From pools to what cost models learn from: the programs are lowered again, and features are read off them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/data/pool.h"
#include "tcc/features/sample.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {

// Programs in the order of the pool.
struct PoolSamples {
  std::vector<features::Sample> samples;
  std::vector<float> throughputs;        // best seconds of the group / seconds, in (0, 1]; 0 = failed
  std::vector<uint64_t> tasks;           // key of the group: equal where times may be compared
  std::vector<int32_t> groups, entries;  // where a sample comes from: numbers in the pool, in its group
  int64_t dropped = 0;                   // programs that this version does not lower, or that are not what they say
};

// `threads` nullptr: this thread. The same samples on any number of threads. Decisions are checked: a program of a
// hostile pool is dropped, not believed.
PoolSamples pool_samples(const data::Pool& pool, const features::Needs& needs, ThreadPool* threads);

// Whether replay takes the decisions as they are; `used`: what it gave. It repairs decisions that no draw makes. A
// place may move: a draw of tiles can take the place away that the sketch names.
bool are_legal(const schedule::Trace& trace, std::span<const int64_t> decisions, std::span<const int64_t> used);

}  // namespace tcc::driver
