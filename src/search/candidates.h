// Making candidates and keeping the new ones: what all strategies share. Private to the room.
#pragma once

#include <functional>
#include <set>

#include "search/strategy.h"

namespace tcc::search {

class Candidates {
 public:
  Candidates(const Round& round, Counts& counts) : round_(round), counts_(counts) {}

  // Fills in sketch and decisions of slot `at`.
  using Make = std::function<void(Individual& out, int64_t at, Rng& rng)>;
  // `count` slots, each filled by `make` until one is legal; those without a legal one are left out.
  std::vector<Individual> generation(int64_t count, uint64_t salt, const Make& make);
  // The same with one attempt a slot; -1 as sketch: it was not legal.
  std::vector<Individual> proposals(int64_t count, uint64_t salt, const Make& make);

  const space::Sketch& sketch_of(const Individual& i) const {
    return round_.state.sketches[static_cast<size_t>(i.sketch)];
  }
  int64_t any_sketch(Rng& rng) const { return rng.below(static_cast<int64_t>(round_.state.sketches.size())); }
  void fresh_draw(Individual& out, int64_t sketch, Rng& rng) const;

  // Has never been measured.
  bool fresh(const Individual& i) const { return round_.state.measured.count(i.nest_hash) == 0; }
  // Kept: what was never measured, each program once. The rest counts as duplicate.
  bool keep_if_new(const Individual& i);
  void collect(const std::vector<Individual>& population) {
    for (const Individual& i : population) keep_if_new(i);
  }
  std::vector<Individual>& kept() { return kept_; }

 private:
  struct Slot;
  struct Worker {
    ArenaPtr arena = std::make_shared<Arena>();
    features::Workspace features = {};
    std::vector<int64_t> decisions = {};
  };
  bool evaluate(Slot& slot, Worker& worker) const;
  std::vector<Slot> fill(int64_t count, uint64_t salt, int64_t attempts, const Make& make);

  const Round& round_;
  Counts& counts_;
  std::vector<Worker> workers_;
  std::vector<Individual> kept_;
  std::set<uint64_t> seen_;
};

// Gives programs the model's scores.
void score_by(const cost::CostModel& model, std::span<Individual> programs);

}  // namespace tcc::search
