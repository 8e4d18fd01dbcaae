// What the strategies and the task scheduler go by, for each kind of target: weights and limits of MetaSchedule's
// released defaults where it has them.
#pragma once

#include <cstdint>

#include "tcc/schedule/mutation.h"
#include "tcc/target/target.h"

namespace tcc::search {

struct Settings {
  schedule::MutatorWeights mutators = {};
  // Metropolis-Hastings: chains * steps proposals a round, as many as evolution makes. The share of the chains that
  // begin at measured programs is the released `init_measured_ratio`.
  int64_t chains = 64, steps = 32;
  double measured_share = 0.2;
  double temperature = 0.5;  // at first, as a share of the standard deviation of scores
  double cooling = 0.9;      // of the temperature, a step
  // Gradient task scheduler: weight of the recent slope against the optimistic guess, and rounds that it looks back.
  double alpha = 0.2;
  int64_t window = 3;
};
Settings settings_for(const target::Target& target);

}  // namespace tcc::search
