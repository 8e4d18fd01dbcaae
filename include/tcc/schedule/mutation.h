// MetaSchedule's mutators and their weights (its released lists; the paper names the mutators only). A mutator changes
// the decision of one sampling instruction; which mutator an instruction belongs to is told by what its value is used
// for.
#pragma once

#include <array>
#include <optional>

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

enum class Mutator : uint8_t { kTile, kComputeLocation, kUnroll, kParallel, kThreadBinding };
inline constexpr size_t kMutators = 5;
using MutatorWeights = std::array<double, kMutators>;  // by Mutator

// CPU: tile 0.90, compute location 0.05, unroll 0.03, parallel 0.02. GPU: tile 0.90, unroll 0.08, thread binding 0.02;
// and parallel as on CPUs, which MetaSchedule has no use for there: how many blocks run at a time is drawn for walkers
// over a grid (space::make_gpu_wgmma). Weights are relative: without such a draw the released proportions hold.
MutatorWeights mutator_weights(bool gpu);

// Tiles, and choices of split factors, vector widths and the like, belong to the tile mutator. A choice that an unroll
// or parallel annotation takes belongs to theirs, and so does a factor of a split whose loop is bound to threads.
// Nothing: no mutator changes it (one candidate, one part).
std::optional<Mutator> mutator_of(const Trace& trace, const Instruction& instruction);

// One mutation by one mutator, drawn by weight among those that `trace` has an instruction for. Compute locations
// change the structure: they are left to the caller, and false when nothing else is there.
bool mutate(const Trace& trace, std::span<int64_t> decisions, const MutatorWeights& weights, Rng& rng);

}  // namespace tcc::schedule
