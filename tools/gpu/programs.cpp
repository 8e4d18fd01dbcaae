#include "gpu/programs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tcc/cost/gpu_facts.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"

namespace tcc::gpu_check {
namespace {

struct Draw {
  size_t space;
  std::vector<int64_t> decisions;
  double seconds;
};

}  // namespace

std::vector<RankedProgram> rank_programs(const task::Task& task, const target::Target& target, int64_t draws,
                                         size_t count, bool tf32) {
  space::SpaceOptions options;
  options.gpu.allow_tf32 = tf32;
  std::vector<space::Sketch> sketches;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target, options))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target))
      sketches.push_back(std::move(*sketch));
  std::vector<Draw> all;
  std::set<uint64_t> seen;
  Rng rng(1);
  auto arena = std::make_shared<Arena>();
  for (int64_t i = 0; i < draws && !sketches.empty(); ++i) {
    const size_t s = static_cast<size_t>(i) % sketches.size();
    std::vector<int64_t> decisions = sketches[s].trace.decisions;
    if (i >= static_cast<int64_t>(sketches.size())) space::draw_decisions(sketches[s], decisions, rng);
    arena->reset();
    ir::Legal<ir::Kernel> nest = space::instantiate(sketches[s], decisions, target, arena);
    if (!nest || !seen.insert(ir::hash_kernel(*nest)).second) continue;
    const double seconds = cost::predict_gpu_seconds(cost::gpu_facts(*nest, target), target.cuda.launch_seconds);
    if (std::isfinite(seconds)) all.push_back({s, std::move(decisions), seconds});
  }
  std::stable_sort(all.begin(), all.end(), [](const Draw& x, const Draw& y) { return x.seconds < y.seconds; });
  std::vector<RankedProgram> programs;
  std::vector<size_t> taken(sketches.size());
  for (const bool second_round : {false, true})
    for (Draw& d : all) {
      if (programs.size() >= count) break;
      const bool used = d.decisions.empty() && taken[d.space] > 0;
      if (d.seconds < 0 || used || (!second_round && 2 * taken[d.space] >= count + 1)) continue;
      auto own = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> kernel = space::instantiate(sketches[d.space], d.decisions, target, own);
      if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kLowered, own);
      const double seconds = d.seconds;
      d.seconds = -1;  // had its turn
      if (!kernel) continue;
      ++taken[d.space];
      programs.push_back({std::move(*kernel), d.space, seconds});
    }
  std::stable_sort(programs.begin(), programs.end(),
                   [](const RankedProgram& x, const RankedProgram& y) { return x.seconds < y.seconds; });
  return programs;
}

}  // namespace tcc::gpu_check
