// The two constructions for one nest. Private to the room.
#pragma once

#include <vector>

#include "construct/tiles.h"
#include "tcc/construct/construct.h"
#include "tcc/support/rng.h"

namespace tcc::construct {

struct Found {
  std::vector<Tiles> results;  // in the order of discovery, without repetitions
  int64_t looked_at = 0;
};

// Border programs, whose next step does not fit, count where nothing regular is found.
Found roller(const Problem& problem, const Options& options, RollerVariant variant);

// `chains` of them, from the generators rng.fork(0), fork(1), ...
Found gensor(const Problem& problem, const Options& options, int64_t chains, const Rng& rng);

// Gensor's formulas, with the number of steps t in place of -log T: equation 1, the rows of banks that virtual threads
// save, the factor of the probability to schedule the next memory, and the probability that a state is kept.
double tile_benefit(const Problem& problem, const Tiles& from, const Tiles& to, size_t level);
double vthread_benefit(double words, double vthreads);
double cache_growth(double t);
double keep_probability(double t, bool literal);

// The results that every level holds.
bool is_valid(const Problem& problem, const Tiles& tiles);

}  // namespace tcc::construct
