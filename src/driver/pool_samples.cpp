#include "tcc/driver/pool_samples.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tcc/space/sketch.h"

namespace tcc::driver {
namespace {

using schedule::Instruction;
using schedule::Op;

// Could a draw have made this decision? `legal`: one of the same instruction that replayed.
bool could_be_drawn(const Instruction& in, std::span<const int64_t> decision, std::span<const int64_t> legal) {
  const auto product = [](std::span<const int64_t> factors) -> std::optional<int64_t> {
    int64_t p = 1;
    for (int64_t f : factors)
      if (f < 1 || __builtin_mul_overflow(p, f, &p)) return std::nullopt;
    return p;
  };
  switch (in.op) {
    case Op::kSamplePerfectTile: {
      const auto all = product(decision);
      return all && all == product(legal) &&
             decision.back() <= std::max(schedule::integer(in, "max_innermost"), legal.back());
    }
    case Op::kSampleTile: {
      const std::span<const int64_t> factors = decision.first(decision.size() - 1);
      const int64_t extent = schedule::integer(in, "extent"), tail = decision.back();
      // Each factor takes at most what the inner ones leave, rounded up; the first one takes the rest.
      int64_t inner = 1;
      for (size_t i = factors.size(); i-- > 1; inner *= factors[i])
        if (factors[i] < 1 || factors[i] > (extent + inner - 1) / inner) return false;
      return factors[0] == (extent + inner - 1) / inner && tail >= 0 && tail < 3 &&
             (schedule::integer(in, "tails") >> tail & 1) != 0;
    }
    case Op::kSampleCategorical:
      return decision[0] >= 0 && decision[0] < std::ssize(schedule::attribute(in, "candidates"));
    default:  // structural: part of the sketch's key
      return true;
  }
}

// The sketches of one group, by skeleton and structural decisions.
class Sketches {
 public:
  Sketches(const data::Group& group) : group_(group) {
    for (const schedule::Trace& t : group.sketches) legal_.push_back(legal_decisions(t));
  }

  // nullptr: the program is not legal.
  const space::Sketch* find(const data::Entry& e) {
    const auto at = static_cast<size_t>(e.sketch);
    const schedule::Trace& trace = group_.sketches[at];
    if (!legal_[at]) return nullptr;
    for (const Instruction& in : trace.instructions) {
      if (in.decision < 0) continue;
      const auto from = static_cast<size_t>(in.decision), n = static_cast<size_t>(in.decision_length);
      if (!could_be_drawn(in, std::span(e.decisions).subspan(from, n), std::span(*legal_[at]).subspan(from, n)))
        return nullptr;
    }
    const uint64_t key = space::structural_key(trace, e.decisions);
    auto [found, fresh] = made_.try_emplace(key);
    if (fresh) {
      schedule::Trace exact = trace;
      exact.decisions = e.decisions;
      if (auto sketch = space::make_sketch(exact, group_.task.kernel, group_.platform.target))
        found->second = std::move(*sketch);
    }
    return found->second ? &*found->second : nullptr;
  }

 private:
  // What a replay makes of the decisions that the file gives.
  std::optional<std::vector<int64_t>> legal_decisions(const schedule::Trace& trace) const {
    std::vector<int64_t> used;
    const auto kernel = schedule::replay(trace, trace.decisions, group_.task.kernel, std::make_shared<Arena>(), &used);
    if (!kernel) return std::nullopt;
    return used;
  }

  const data::Group& group_;
  std::vector<std::optional<std::vector<int64_t>>> legal_;
  std::map<uint64_t, std::optional<space::Sketch>> made_;
};

}  // namespace

PoolSamples pool_samples(const data::Pool& pool, const features::Needs& needs, ThreadPool* threads) {
  struct Worker {
    ArenaPtr arena = std::make_shared<Arena>();
    features::Workspace features = {};
  };
  std::vector<Worker> workers(static_cast<size_t>(threads != nullptr ? threads->size() : 1));
  PoolSamples out;
  for (size_t g = 0; g < pool.groups.size(); ++g) {
    const data::Group& group = pool.groups[g];
    Sketches sketches(group);
    std::vector<const space::Sketch*> sketch_of;
    for (const data::Entry& e : group.entries) sketch_of.push_back(sketches.find(e));
    std::vector<features::Sample> samples(group.entries.size());
    auto extract = [&](int64_t i, int worker) {
      const auto at = static_cast<size_t>(i);
      if (sketch_of[at] == nullptr) return;
      Worker& w = workers[static_cast<size_t>(worker)];
      w.arena->reset();
      const std::vector<int64_t>& decisions = group.entries[at].decisions;
      auto nest = space::instantiate(*sketch_of[at], decisions, group.platform.target, w.arena);
      if (!nest) return;
      const features::Program program = {group.task, sketch_of[at]->trace,  decisions,
                                         *nest,      group.platform.target, group.platform.threads};
      features::extract(needs, program, w.features, samples[at]);
    };
    if (threads != nullptr)
      threads->parallel_for(std::ssize(samples), extract);
    else
      for (int64_t i = 0; i < std::ssize(samples); ++i) extract(i, 0);
    const double best = group.best_seconds();
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].empty()) {
        ++out.dropped;
        continue;
      }
      const double seconds = group.entries[i].seconds;
      out.samples.push_back(std::move(samples[i]));
      out.throughputs.push_back(seconds > 0 ? static_cast<float>(best / seconds) : 0.f);
      out.tasks.push_back(group.key());
      out.groups.push_back(static_cast<int32_t>(g)), out.entries.push_back(static_cast<int32_t>(i));
    }
  }
  return out;
}

}  // namespace tcc::driver
