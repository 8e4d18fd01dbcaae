// How a round's programs are found: one interface, one implementation for each Strategy. Private to the room.
#pragma once

#include "search/task_state.h"
#include "tcc/cost/cost_model.h"

namespace tcc::search {

struct RoundPlan {
  int64_t count = 0;        // programs wanted, spare ones included
  double progress = 0;      // share of the trials that is used up; 0 where there is no limit
  std::vector<Seed> seeds;  // programs of related tasks, best first
};

// All that the proposals of one round may depend on.
struct Round {
  const TaskState& state;
  const cost::CostModel& model;
  const RoundPlan& plan;
  const target::Target& target;
  const TuneOptions& options;
  const Settings& settings;
  const Rng& rng;
  ThreadPool* pool;  // nullptr: this thread
  // True: the round is cut off, its proposals will not be used. May be empty; asked from all threads of the pool.
  std::function<bool()> stop = {};
  // Takes a sentence for the user about the proposals. May be empty.
  std::function<void(const std::string&)> note = {};
};

// Strategies keep nothing between rounds: what they know is in the records, so a run that was cut off goes on exactly.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  // Whether the model is retrained before each round.
  virtual bool learns() const = 0;
  // At most plan.count programs that were never measured and differ from each other, in the order of measuring. A
  // function of the round alone: slot i of a batch draws from rng.fork, whichever thread works on it. Counts what was
  // proposed, rejected and duplicate into `counts`.
  virtual std::vector<Individual> propose(const Round& round, Counts& counts) const = 0;
};

// What is built without a record: draws from the design spaces and what constructions make of them, as one cost model
// orders them.
struct RankedProgram {
  schedule::Trace trace;
  bool constructed = false;
};
struct Ranking {
  std::vector<RankedProgram> programs;  // best first
  std::string rule, reason;             // of the construction, see construct::Construction
  std::string reject;                   // why a design space gives no program; "": all do
};
// At most `count` programs. Errors: those of cost::make_model.
Result<Ranking> rank_programs(const task::Task& task, const target::Target& target, int64_t threads, int64_t count,
                              const Defaults& defaults);

// Programs that Roller and Gensor construct, in turns, each one's best first: what a task's search begins with. At most
// TuneOptions::constructed; none after the first round, and where no construction fits.
std::vector<Seed> constructed_seeds(const Round& round, Counts& counts);

std::unique_ptr<SearchStrategy> make_evolutionary();
std::unique_ptr<SearchStrategy> make_metropolis();
std::unique_ptr<SearchStrategy> make_random();
std::unique_ptr<SearchStrategy> make_replay();
std::unique_ptr<SearchStrategy> make_construction(construct::Method method);
std::unique_ptr<SearchStrategy> make_pruner();
std::unique_ptr<SearchStrategy> make_strategy(Strategy strategy);
// Errors (usage): moa-pruner has nothing to adapt.
Result<void> check_adaptation(const TuneOptions& options, const cost::CostModel& model, const target::Target& target);

}  // namespace tcc::search
