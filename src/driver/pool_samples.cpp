#include "tcc/driver/pool_samples.h"

#include <algorithm>

#include "tcc/lower/lower.h"

namespace tcc::driver {

using schedule::Instruction;
using schedule::Op;

bool are_legal(const schedule::Trace& trace, std::span<const int64_t> decisions, std::span<const int64_t> used) {
  if (decisions.size() != trace.decisions.size()) return false;
  for (const Instruction& in : trace.instructions) {
    if (in.decision < 0 || in.op == Op::kSampleComputeLocation) continue;
    const auto from = static_cast<size_t>(in.decision), n = static_cast<size_t>(in.decision_length);
    if (!std::ranges::equal(decisions.subspan(from, n), used.subspan(from, n))) return false;
  }
  return true;
}

PoolSamples pool_samples(const data::Pool& pool, const features::Needs& needs, ThreadPool* threads) {
  struct Worker {
    ArenaPtr arena = std::make_shared<Arena>();
    features::Workspace features = {};
    std::vector<int64_t> decisions = {};
  };
  std::vector<Worker> workers(static_cast<size_t>(threads != nullptr ? threads->size() : 1));
  PoolSamples out;
  for (size_t g = 0; g < pool.groups.size(); ++g) {
    const data::Group& group = pool.groups[g];
    std::vector<features::Sample> samples(group.entries.size());
    auto extract = [&](int64_t i, int worker) {
      const auto at = static_cast<size_t>(i);
      Worker& w = workers[static_cast<size_t>(worker)];
      w.arena->reset();
      const data::Entry& entry = group.entries[at];
      const schedule::Trace& trace = group.sketches[static_cast<size_t>(entry.sketch)];
      ir::Legal<ir::Kernel> nest = schedule::replay(trace, entry.decisions, group.task.kernel, w.arena, &w.decisions);
      if (!nest || !are_legal(trace, entry.decisions, w.decisions)) return;
      nest = lower::lower(*nest, group.platform.target, ir::Stage::kNest, w.arena);
      if (!nest) return;
      const features::Program program = {
          group.task, trace, entry.decisions, *nest, group.platform.target, group.platform.threads};
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
