// Auto-inline for GPUs, into consumers and into producers and without restrictions: what a block computes from one
// element goes to where that element is read or made. So the padding of a convolution goes into the copy to shared
// memory, and bias, activation and residual into the copy of the accumulators. Copies that a tiling made stay.
#include "space/gpu.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

void inline_one(Schedule& s, const std::string& name, bool into_producer) {
  const Block* block = find_block(s.kernel().root, schedule::find_block_by_name(s.kernel(), name));
  if (block == nullptr || block->init != nullptr) return;
  Schedule trial = s;
  if (into_producer) {
    // A producer in a nest of its own would only move the work.
    for (Id p : schedule::producers_of(s.kernel(), block->id))
      if (is_unscheduled(s.kernel(), p)) return;
    trial.reverse_compute_inline(trial.get_block(name));
  } else {
    trial.compute_inline(trial.get_block(name));
  }
  if (trial.ok()) s = std::move(trial);
}

}  // namespace

Ways gpu_inline(const Schedule& state, const target::Target&, const SpaceOptions&) {
  Schedule s = state;
  std::vector<std::string> names = unscheduled_blocks(s.kernel());
  // Consumers before producers, so that a chain collapses into its end.
  for (size_t i = names.size(); i-- > 0;) inline_one(s, names[i], false);
  // What is left of a chain behind a tiled block, from its start.
  for (const std::string& name : unscheduled_blocks(s.kernel())) inline_one(s, name, true);
  return {std::move(s)};
}

}  // namespace tcc::space
