// Random-compute-location: what tiling and inlining have left in a nest of its own may as well be computed below a loop
// of its reader. Which loop is sampled (MetaSchedule's rule of this name); a search sees each place as a sketch of its
// own (structural_variants). The schedule as it was comes first: in front of its readers is where modules left a block.

#include "space/access.h"
#include "space/padding.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

// Nothing has scheduled it, it has readers, and it does not share a nest already. Where the padded input of a
// window is made the tilings of windows decide.
bool may_move(const Kernel& k, const std::string& name) {
  if (name == kPadBlock) return false;
  const Id id = schedule::find_block_by_name(k, name);
  const Block* block = id == kNoId ? nullptr : find_block(k.root, id);
  if (block == nullptr || has_scheduled_loop(k, id) || schedule::consumers_of(k, id).empty()) return false;
  return naive_nest(k, *block).has_value();
}

}  // namespace

Ways random_compute_location(const Schedule& state, const target::Target&, const SpaceOptions&) {
  Ways ways(state);
  Schedule s = state;
  bool moved = false;
  // Readers first: where they go decides where their producers may.
  const std::vector<const Block*> blocks = collect_blocks(state.kernel().root);
  for (size_t i = blocks.size(); i-- > 0;) {
    const std::string block = name_hint(state.kernel(), blocks[i]->id);
    if (!may_move(s.kernel(), block)) continue;
    moved |= keep_if_legal(s, [&](Schedule& trial) {
      const BlockRv rv = trial.get_block(block);
      trial.compute_at(rv, trial.sample_compute_location(rv));
    });
  }
  if (moved) ways.states.push_back(std::move(s));
  return ways;
}

}  // namespace tcc::space
