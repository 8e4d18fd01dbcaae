// The state of blocks and warps while a launch is simulated. Private to the room.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulation/warp_code.h"

namespace tcc::simulation {

struct Arrivals {  // a barrier in shared memory
  int64_t expected = 0, pending = 0, bytes = 0;
  double latest = 0;              // arrival of the phase that is not complete
  std::vector<double> completed;  // when each phase was
  std::vector<int32_t> waiting;   // warps
};
struct Rendezvous {
  int64_t arrived = 0;
  double latest = 0;
  std::vector<int32_t> waiting;
};

struct Block {
  int64_t number = 0;
  int64_t running = 0;  // warps
  double end = 0;
  std::map<int64_t, Rendezvous> meetings;
  std::unordered_map<uint64_t, Arrivals> barriers;
};

struct Frame {
  int32_t step;
  int64_t iteration, extent;
  int64_t measured = -1;  // iteration at which the clock was noted
  double mark = 0;
};

struct Warp {
  int32_t block = 0;
  int64_t number = 0, scheduler = 0;
  size_t section = 0;
  int32_t at = 0;
  int turn = 0;  // of the step
  double time = 0;
  Values values;
  std::vector<Frame> frames;
  std::vector<std::pair<int32_t, int64_t>> masks;  // conditions around: the step after each, the lanes where it holds
  std::deque<double> groups;                       // asynchronous copies that were committed: when each is complete
  double open_group = 0;                           // latest completion of those that are not
  std::deque<double> products;                     // groups of warpgroup products
  double open_products = 0;
  std::map<uint64_t, int64_t> waits;    // of each barrier
  std::map<uint64_t, int64_t> through;  // waits that a fresh barrier lets through
};

}  // namespace tcc::simulation
