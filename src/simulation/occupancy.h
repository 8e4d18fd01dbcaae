// How many blocks a launch has, and how many of them a multiprocessor holds at once. Private to the room.
#pragma once

#include "simulation/warp_state.h"
#include "tcc/simulation/multiprocessor.h"

namespace tcc::simulation {

struct Occupancy {
  int64_t blocks = 1;    // of the launch
  int64_t resident = 1;  // of one multiprocessor
  double slowdown = 1;   // by registers that do not fit: their values are in memory
};

// Errors: a grid that is not constant, a block that does not fit a multiprocessor.
Result<Occupancy> find_occupancy(const LaunchCode& code, const target::Target& target, const Machine& m);

}  // namespace tcc::simulation
