// The numbers that the strategies and the task scheduler go by. "MetaSchedule": the value of its released defaults.
// "Tuned": found by `tools/bench search` on the operators of benchmarks/ with 64 to 1,000 trials, on one x86 machine.
//
// Every member has 8 bytes, so that a session's key can hash the struct as it is.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tcc/schedule/mutation.h"
#include "tcc/target/target.h"

namespace tcc::search {

struct Settings {
  schedule::MutatorWeights mutators = {};
  int64_t attempts = 10;  // draws for one place of a generation before the place stays empty

  // Metropolis-Hastings: chains * steps proposals a round, as many as evolution makes.
  struct Chains {
    int64_t count = 64, steps = 32;
    double measured_share = 0.2;  // of the chains begin at measured programs (MetaSchedule: init_measured_ratio)
    double temperature = 0.5;     // at first, as a share of the standard deviation of scores
    double cooling = 0.9;         // factor of the temperature after each step
    double exploit_from = 0.75;   // share of the trials after which only the score counts (tuned)
  } chains;

  // Evolution (tuned).
  struct Evolution {
    int64_t elites = 32;       // fastest measured programs that begin a round's population
    int64_t first_draws = 48;  // least number of draws of each sketch before anything is measured
    // A round whose count times bred_for_pick is below TuneOptions::population is small: its generations have that many
    // programs, at least least_population, and their number is small_generations. bred_for_pick 0: no round is small.
    int64_t bred_for_pick = 64, least_population = 128, small_generations = 2;
    double from_elites = 0.35;   // share of children whose parent is an elite
    double within_sketch = 0.3;  // share whose parent's sketch is drawn evenly
    double cross = 0.15;         // share made of two programs of one sketch
    double move = 0.1;           // share that takes its parent's decisions to another sketch
    double sharpness = 4;        // parents are drawn in proportion to this power of the predicted speed
    double curiosity = 1;        // share of the model's uncertainty that is added to a score, at the first trial
    double exploit_from = 0.75;  // share of the trials after which only the score counts
    double trust = 4;            // trials of a sketch after which half of the model's error on it is believed
    int64_t polished = 0;        // best programs of different families whose neighbors are all scored at the end
    int64_t polishings = 0;      // times, while that finds better ones
    double unseen = -0.5;        // log2 of the share of the best speed that a sketch without a valid trial is given
  } evolution;

  // Which candidates of a round are measured (tuned).
  struct Picking {
    double first_random = 0.35;    // share drawn at random in a first round that no model guides
    double early_random = 0.2;     // the same in later rounds; falls to TuneOptions::explore at half of the trials
    double stalled_gain = 0.03;    // a round that gained less than this share of time has stalled
    double stalled_share = 0.5;    // share of fresh draws in the round after a stalled one
    double first_share = 0.6;      // share of a first round that goes to the best of different sketches, by rules
    double informed_share = 0.45;  // the same, by a model
    double bandit_share = 0.125;   // share of later rounds for sketches with few trials (Auer et al. 2002, UCB1)
    double bandit_bonus = 0.5;     // weight of their confidence bound, in doublings of speed
    double alike_first = 0.5;      // penalty for a twin of a picked program, in doublings of speed: first round
    double alike = 0.3;            // in later rounds
    double alike_last = 0.05;      // when only the score counts
    int64_t looked_at = 24;        // candidates that are compared for each pick
    double seeded_share = 0.25;   // of a task's first round for programs that were good elsewhere, whatever their score
    double families = 0;          // share of the picks for the best of different families, where the model knows any
    double family_reach = 1;      // doublings of time that such a one may be behind the best
    double max_sketch_share = 1;  // of a round, while other sketches have candidates left
    int64_t spare = 0;            // further picks, for those that the last passes of lowering refuse
  } picking;

  struct Scheduling {
    double alpha = 0.2;            // weight of the recent slope against the optimistic guess (MetaSchedule)
    int64_t window = 3;            // rounds that the slope is taken over (MetaSchedule)
    int64_t max_waiting = 4;       // turns of all active tasks after which a task gets a round (tuned)
    int64_t rounds = 12;           // of a task: learning pays, proposing costs (tuned)
    int64_t min_rounds = 2;        // into which a task's trials are divided
    int64_t min_round = 8;         // trials of a round, where the budget has them (tuned)
    double trials_per_second = 0;  // that a limit of time is sure to allow: the backend's, by settings_for()
    int64_t max_rounds = 0;        // of a task; 0 = no limit
    int64_t max_empty_rounds = 3;  // rounds without a new program after which a task is exhausted
  } scheduling;
};
static_assert(std::is_trivially_copyable_v<Settings>);

// For a search that measures.
Settings settings_for(const target::Target& target);
// For a search that ranks by the backend's prior and measures nothing: one round of a task takes the best programs, and
// one design space gets at most half of the places, because the prior errs more between design spaces than within one.
Settings ranking_settings_for(const target::Target& target);

}  // namespace tcc::search
