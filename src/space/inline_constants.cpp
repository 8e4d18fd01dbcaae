// Inline-constants: a block that reads nothing makes the same numbers in every run, and its readers can make them
// themselves. Before: a nest that fills a buffer with 0.125 and one that multiplies by it; after: one that multiplies.
#include "space/access.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
Ways inline_constants(const Schedule& state, const target::Target&, const SpaceOptions&) {
  Schedule s = state;
  std::vector<std::string> names;
  for (const Block* block : collect_blocks(s.kernel().root))
    if (block->init == nullptr && schedule::read_buffers(s.kernel(), block->id).empty())
      names.push_back(name_hint(s.kernel(), block->id));
  for (const std::string& name : names) {
    keep_if_legal(s, [&](Schedule& trial) { trial.compute_inline(trial.get_block(name)); });
  }
  return {std::move(s)};
}

}  // namespace tcc::space
