#include <algorithm>

#include "common.h"
#include "tcc/analysis/init_nest.h"
#include "tcc/analysis/injective.h"

namespace tcc::schedule {
namespace {

bool feeds(const Block& block, const Loop& loop, bool spatial) {
  return std::any_of(block.iters.begin(), block.iters.end(), [&](const Iter& it) {
    return (it.kind == IterKind::kSpatial) == spatial && mentions(it.binding, loop.id);
  });
}

}  // namespace

Legal<Kernel> decompose_reduction(const Kernel& k, Id block_id, Id loop_id, Id& out) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  if (block->init == nullptr)
    return reject(RejectReason::kReductionOrder, describe(k, block_id) + " has no initialization to split off");
  TCC_TRY(const size_t at, position_of_loop(k, path, loop_id));
  for (size_t i = at; i + 1 < path.nodes.size(); ++i)
    if (const Block* around = as<Block>(path.nodes[i]))
      return reject(RejectReason::kNotInScope,
                    fmt::format("{} is around the block {}, in which {} is", describe(k, loop_id),
                                describe(k, around->id), describe(k, block_id)));
  if (at > analysis::first_reduce_loop(path))
    return reject(RejectReason::kReductionOrder,
                  describe(k, loop_id) + " is below a reduction loop of " + describe(k, block_id));
  Editor edit(k);
  Builder& b = edit.b;
  std::vector<const Loop*> below;
  for (size_t i = at; i + 1 < path.nodes.size(); ++i)
    if (const Loop* l = as<Loop>(path.nodes[i])) below.push_back(l);
  if (!analysis::is_injective(b, *block, below, all_ranges(k)))
    return reject(RejectReason::kReductionOrder,
                  describe(k, block_id) + " runs several times below " + describe(k, loop_id));
  // Each iteration of such a loop would initialize its element again. Parallel iterations would race.
  for (const Loop* l : below)
    if (feeds(*block, *l, true) && feeds(*block, *l, false))
      return reject(RejectReason::kReductionOrder,
                    fmt::format("{} feeds spatial and reduce iterators of {}: initialize it outside of the loop, or do "
                                "not fuse them",
                                describe(k, l->id), describe(k, block_id)));
  Stmt init = analysis::make_init_nest(edit, path, at, &out);
  Stmt root = replace_at(b, path, b.with_body(*block, block->body, nullptr));
  Path again = find_path(root, loop_id);
  return edit.finish(insert_beside(b, again, again.nodes.size() - 1, init, true));
}

}  // namespace tcc::schedule
