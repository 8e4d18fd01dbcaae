// Programs of a task for a GPU, ranked by the analytical model: nothing is run, so no device is needed. Private to the
// room.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "tcc/search/search.h"
#include "tcc/space/sketch.h"
#include "tcc/support/rng.h"

namespace tcc::driver {

struct GpuCandidate {
  size_t sketch = 0;
  std::vector<int64_t> decisions;
  uint64_t nest = 0;
  double seconds = 0;  // predicted
};

struct GpuSearchOptions {
  space::SpaceOptions space = {};
  uint64_t seed = 1;
  int64_t ranked = 2400;  // different legal programs to rank, where the spaces have so many
  std::function<bool()> stop = {};
};

// Draws from all design spaces in turn for the first half, then changes the best in generations.
class GpuSearch {
 public:
  GpuSearch(const task::Task& task, const target::Target& target, GpuSearchOptions options);
  // Fills the ranking; `counts` says what became of the proposals.
  void explore(search::Counts& counts);

  // The fastest `count` by the model, fastest first, except that one design space gets at most half of the places while
  // others have programs left: the model is fitted to no device, and errs by design space more than within one.
  std::vector<GpuCandidate> finalists(size_t count) const;

  int64_t ranked() const { return static_cast<int64_t>(seen_.size()); }
  int64_t design_spaces() const { return static_cast<int64_t>(sketches_.size()); }
  schedule::Trace trace_of(const GpuCandidate& candidate) const;
  // At Stage::Lowered.
  ir::Legal<ir::Kernel> lower(const GpuCandidate& candidate) const;

 private:
  bool done() const { return (options_.stop && options_.stop()) || ranked() >= options_.ranked; }
  void draw(search::Counts& counts, int64_t until);
  void mutate(search::Counts& counts);
  void consider(GpuCandidate one, search::Counts& counts);

  const task::Task& task_;
  const target::Target& target_;
  const GpuSearchOptions options_;
  Rng rng_;
  ArenaPtr arena_ = std::make_shared<Arena>();
  std::vector<space::Sketch> sketches_;
  std::vector<std::vector<GpuCandidate>> best_;  // of each sketch, by predicted time
  std::unordered_set<uint64_t> seen_;            // programs that were ranked
};

// What the model's time becomes once the compiler has said how many registers it could not keep: stores and loads of
// spilled values come on top, in proportion. No device was asked.
double with_spills(double seconds, const codegen::Artifact& artifact);

}  // namespace tcc::driver
