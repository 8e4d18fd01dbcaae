// Making decisions from other decisions. Private to the room.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/schedule/mutation.h"
#include "tcc/space/sketch.h"

namespace tcc::search {

// One to four mutations, few more likely than many; false when the sketch has nothing to mutate.
bool mutate_some(const space::Sketch& sketch, std::span<int64_t> decisions, const schedule::MutatorWeights& weights,
                 Rng& rng);

// All decisions that differ from these in one sampling instruction: another choice, or one prime factor of a tile moved
// from one part to another.
std::vector<std::vector<int64_t>> neighbours(const space::Sketch& sketch, std::span<const int64_t> decisions);

// Every sampling instruction's decision from one of the two parents, as a whole. Both belong to `sketch`.
std::vector<int64_t> cross(const space::Sketch& sketch, std::span<const int64_t> a, std::span<const int64_t> b,
                           Rng& rng);

// Legal decisions of `to` that come as near as possible to what `decisions` say in the trace `from`: the k-th sampling
// instruction of a kind takes over the k-th of the same kind and width; tiles keep their inner factors as far as the
// extent divides. `otherwise` holds legal decisions of `to` for what has no counterpart.
std::vector<int64_t> transfer_decisions(const schedule::Trace& from, std::span<const int64_t> decisions,
                                        const space::Sketch& to, std::span<const int64_t> otherwise);

// Equal for traces that do the same steps, whatever the numbers in them: skeletons of similar tasks.
uint64_t shape_hash(const schedule::Trace& trace);

}  // namespace tcc::search
