// One round of breeding under the cost model, from a first generation that a strategy gives. Private to the room.
#pragma once

#include "search/strategy.h"
#include "tcc/search/draft_explorer.h"

namespace tcc::search {

struct FirstGeneration {
  bool elites = true;                    // the fastest measured programs
  std::span<const Drafted> drafts = {};  // proposed by a draft model
  int64_t draws = 0;                     // shared out among the sketches by what they have shown
  int64_t draws_of_sketch = 0;           // of each sketch, at least, before anything is measured
};

// Generations that are bred from all that has been seen, and how many programs each has.
struct Breeding {
  int64_t generations = 0, population = 0;
};

// Programs that were good elsewhere join the first generation. The result is the choice of pick_round.
std::vector<Individual> evolve(const Round& round, const FirstGeneration& first, const Breeding& breeding,
                               Counts& counts);

}  // namespace tcc::search
