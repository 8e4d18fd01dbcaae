#include "driver/gpu_search.h"

#include <algorithm>
#include <cmath>

#include "tcc/cost/gpu_facts.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/driver/compile.h"
#include "tcc/lower/lower.h"
#include "tcc/space/space.h"
#include "tcc/support/hash.h"

namespace tcc::driver {
namespace {

constexpr int kDrawsPerTurn = 32;      // of one design space before the next has its turn
constexpr size_t kKeptPerSketch = 64;  // and so many parents of a generation
constexpr size_t kParents = 64;        // of all design spaces
constexpr int kChildren = 4;           // of each parent
constexpr int kIdleTurns = 3;          // rounds without anything new after which a space counts as exhausted
constexpr int kLeastGenerations = 8;

bool before(const GpuCandidate& x, const GpuCandidate& y) {
  return x.seconds != y.seconds ? x.seconds < y.seconds : x.nest < y.nest;
}

}  // namespace

GpuSearch::GpuSearch(const task::Task& task, const target::Target& target, GpuSearchOptions options)
    : task_(task),
      target_(target),
      options_(std::move(options)),
      rng_(combine_hash(task_key_hash(task.key), options_.seed)) {
  space::SpaceOptions space = options_.space;
  space.seed = options_.seed;
  for (schedule::Trace& trace : space::generate_space(task.kernel, target, space))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target))
      sketches_.push_back(std::move(*sketch));
  best_.resize(sketches_.size());
}

void GpuSearch::explore(search::Counts& counts) {
  for (size_t s = 0; s < sketches_.size(); ++s) consider({s, sketches_[s].trace.decisions, 0, 0}, counts);
  draw(counts, options_.ranked / 2);
  int idle = 0;
  for (int g = 0; idle < kIdleTurns && (g < kLeastGenerations || !done()); ++g) {
    if (options_.stop && options_.stop()) return;
    const int64_t known = ranked();
    mutate(counts);
    idle = ranked() == known ? idle + 1 : 0;
  }
  draw(counts, options_.ranked);
}

void GpuSearch::draw(search::Counts& counts, int64_t until) {
  for (int idle = 0; idle < kIdleTurns && ranked() < until;) {
    const int64_t known = ranked();
    for (size_t s = 0; s < sketches_.size(); ++s)
      for (int i = 0; i < kDrawsPerTurn; ++i) {
        if (options_.stop && options_.stop()) return;
        GpuCandidate one{s, sketches_[s].trace.decisions, 0, 0};
        space::draw_decisions(sketches_[s], one.decisions, rng_);
        consider(std::move(one), counts);
      }
    idle = ranked() == known ? idle + 1 : 0;
  }
}

void GpuSearch::mutate(search::Counts& counts) {
  const std::vector<GpuCandidate> parents = finalists(kParents);
  for (const GpuCandidate& parent : parents)
    for (int c = 0; c < kChildren; ++c) {
      if (options_.stop && options_.stop()) return;
      GpuCandidate child = parent;
      if (schedule::mutate(sketches_[child.sketch].trace, child.decisions, rng_)) consider(std::move(child), counts);
    }
}

// Keeps the program if it is legal, new, and among the best of its design space.
void GpuSearch::consider(GpuCandidate one, search::Counts& counts) {
  ++counts.proposed;
  arena_->reset();
  ir::Legal<ir::Kernel> nest = space::instantiate(sketches_[one.sketch], one.decisions, target_, arena_);
  if (!nest) {
    ++counts.rejected;
    const std::string reason(ir::reject_reason_name(nest.error().reason));
    ++counts.rejected_by_reason[reason];
    counts.reject_examples.emplace(reason, nest.error().text);
    return;
  }
  one.nest = ir::hash_kernel(*nest);
  if (!seen_.insert(one.nest).second) {
    ++counts.duplicate;
    return;
  }
  one.seconds = cost::predict_gpu_seconds(cost::gpu_facts(*nest, target_), target_.cuda.launch_seconds);
  if (!std::isfinite(one.seconds)) return;
  std::vector<GpuCandidate>& kept = best_[one.sketch];
  kept.insert(std::upper_bound(kept.begin(), kept.end(), one, before), one);
  if (kept.size() > kKeptPerSketch) kept.pop_back();
}

std::vector<GpuCandidate> GpuSearch::finalists(size_t count) const {
  std::vector<GpuCandidate> all, chosen, left;
  for (const std::vector<GpuCandidate>& kept : best_) all.insert(all.end(), kept.begin(), kept.end());
  std::sort(all.begin(), all.end(), before);
  std::vector<size_t> taken(best_.size());
  for (const GpuCandidate& one : all) {
    const bool room = chosen.size() < count && 2 * taken[one.sketch] < count;
    if (room) ++taken[one.sketch];
    (room ? chosen : left).push_back(one);
  }
  for (size_t i = 0; i < left.size() && chosen.size() < count; ++i) chosen.push_back(left[i]);
  std::sort(chosen.begin(), chosen.end(), before);
  return chosen;
}

schedule::Trace GpuSearch::trace_of(const GpuCandidate& candidate) const {
  schedule::Trace trace = sketches_[candidate.sketch].trace;
  trace.decisions = candidate.decisions;
  return trace;
}

ir::Legal<ir::Kernel> GpuSearch::lower(const GpuCandidate& candidate) const {
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = space::instantiate(sketches_[candidate.sketch], candidate.decisions, target_, arena);
  return kernel ? lower::lower(*kernel, target_, ir::Stage::kLowered, arena) : kernel;
}

double with_spills(double seconds, const codegen::Artifact& artifact) {
  auto fact = [&](const char* name) {
    auto found = artifact.facts.find(name);
    return found == artifact.facts.end() ? 0.0 : found->second;
  };
  return seconds * (1 + fact("spill_bytes") / (4 * std::max(fact("registers"), 1.0)));
}

}  // namespace tcc::driver
