#include "lower/place_inits.h"

#include "tcc/analysis/init_nest.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {

using namespace ir;

Kernel place_inits(const Kernel& kernel, const ArenaPtr& arena) {
  KernelEditor edit(kernel, arena);
  Builder& b = edit.b;
  for (const Block* found : collect_blocks(kernel.root)) {
    if (found->init == nullptr) continue;
    Path path = find_path(edit.k.root, found->id);
    const Block* block = as<Block>(path.nodes.back());
    size_t at = analysis::first_reduce_loop(path);
    Id init_id = kNoId;
    Stmt init = analysis::make_init_nest(edit, path, at, &init_id);
    Stmt update = b.with_body(*block, block->body, nullptr);
    // One rewrite: the path below `at` ends in the update, the node at `at` becomes {init; node}.
    Stmt node = update;
    for (size_t i = path.nodes.size() - 1; i-- > at;) {
      Stmt child = path.nodes[i + 1];
      node = rewrite_children(b, path.nodes[i], [&](Stmt s) { return s == child ? node : s; });
    }
    Stmt pair[2] = {init, node};
    Path upper;
    upper.nodes.assign(path.nodes.begin(), path.nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    edit.k.root = replace_at(b, upper, b.seq(pair));
  }
  return edit.k;
}

}  // namespace tcc::lower
