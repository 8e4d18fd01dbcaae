// Parallel-vectorize-unroll for GPUs, where only the unrolling is left: each grid loop around a reduction says how many
// statements may result from writing loops out (the "Random-Unroll" of MetaSchedule).
#include <algorithm>

#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

// The first reduction below each grid loop.
std::vector<std::string> reductions(const Kernel& k) {
  std::vector<std::string> names;
  std::vector<Id> seen;
  for (const Block* block : collect_blocks(k.root)) {
    const std::vector<Id> loops = schedule::loops_of(k, block->id);
    const std::string name = name_hint(k, block->id);
    bool reduces = false;
    for (const Iter& it : block->iters) reduces |= it.kind == IterKind::kReduce;
    if (!reduces || loops.empty() || schedule::find_block_by_name(k, name) != block->id) continue;
    if (!is_grid(find_loop(k.root, loops[0])->axis)) continue;
    if (std::find(seen.begin(), seen.end(), loops[0]) != seen.end()) continue;
    seen.push_back(loops[0]);
    names.push_back(name);
  }
  return names;
}

}  // namespace

Ways gpu_unroll(const Schedule& state, const target::Target&, const SpaceOptions& options) {
  Schedule s = state;
  for (const std::string& name : reductions(s.kernel())) {
    Schedule trial = s;
    std::vector<schedule::LoopRv> loops = trial.get_loops(trial.get_block(name));
    if (!trial.ok() || loops.empty()) continue;
    trial.annotate(loops[0], AnnotationKey::kUnrollMax, sample_uniform(trial, options.gpu.unroll_steps));
    if (trial.ok()) s = std::move(trial);
  }
  return {std::move(s)};
}

}  // namespace tcc::space
