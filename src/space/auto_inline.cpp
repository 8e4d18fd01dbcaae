// Auto-inline: elementwise producers go into their consumers, so that no value is stored that can be recomputed at no
// cost. Before: relu(bias(conv)) in three nests; after: conv, and one nest that adds the bias and clips.
#include <algorithm>

#include "space/access.h"
#include "space/padding.h"
#include "space/window.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

// Worth computing again for every reader.
bool is_cheap(const Block& block) {
  bool cheap = true;
  visit_roots(block.body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Call* c = as<Call>(e))
        cheap &= c->fn == Intrinsic::kAbs || c->fn == Intrinsic::kFma || c->fn == Intrinsic::kSqrt || takes_bits(c->fn);
      return cheap;
    });
  });
  return cheap;
}

double instances(const Block& block) {
  double n = 1;
  for (const Iter& it : block.iters) n *= is_int(it.extent) ? static_cast<double>(int_value(it.extent)) : 1;
  return n;
}

// A value for each row that costs a division or a function is not computed again for each element of the row.
bool is_shared_work(const Block& producer, const Block& consumer) {
  if (instances(consumer) <= instances(producer)) return false;
  bool costly = false;
  visit_roots(producer.body, [&](Expr root) {
    visit(root, [&](Expr e) {
      costly |= e->kind == ExprKind::kCall || (e->kind == ExprKind::kDiv && is_float(e->type));
      return !costly;
    });
  });
  return costly;
}

constexpr double kManyReads = 128;  // of each value: a copy costs little beside them

// How often a value that the block makes is read, on average.
double reads_of(const Kernel& k, Id id) {
  double reads = 0;
  for (Id consumer : schedule::consumers_of(k, id)) reads += instances(*find_block(k.root, consumer));
  return reads / instances(*find_block(k.root, id));
}

schedule::Schedule inline_all(const schedule::Schedule& state, bool keep_pad) {
  schedule::Schedule s = state;
  // Consumers before producers, so that a chain collapses into its end.
  std::vector<std::string> names;
  for (const Block* block : collect_blocks(s.kernel().root))
    names.insert(names.begin(), name_hint(s.kernel(), block->id));
  for (const std::string& block_name : names) {
    Id id = schedule::find_block_by_name(s.kernel(), block_name);
    if (id == kNoId || (keep_pad && block_name == kPadBlock) || has_scheduled_loop(s.kernel(), id)) continue;
    const Block* block = find_block(s.kernel().root, id);
    std::vector<Id> consumers = schedule::consumers_of(s.kernel(), id);
    // Into one spatial consumer anything goes; into reductions and several consumers only what costs nothing.
    bool one_spatial = consumers.size() == 1 && find_block(s.kernel().root, consumers[0])->init == nullptr;
    bool shared = std::any_of(consumers.begin(), consumers.end(),
                              [&](Id c) { return is_shared_work(*block, *find_block(s.kernel().root, c)); });
    if (shared) continue;
    if (!one_spatial && !is_cheap(*block)) continue;
    keep_if_legal(s, [&](Schedule& trial) { trial.compute_inline(trial.get_block(block_name)); });
  }
  return s;
}

}  // namespace

Ways auto_inline(const Schedule& state, const target::Target&, const SpaceOptions&) {
  // Where each value is read by one window only, a copy costs as much as it saves.
  if (find_window(state.kernel())) return {inline_all(state, false)};
  // A padded copy costs a pass over the input and frees the inner loops of predicates.
  Id pad = schedule::find_block_by_name(state.kernel(), kPadBlock);
  if (pad != kNoId && reads_of(state.kernel(), pad) >= kManyReads) return {inline_all(state, true)};
  // Vectors of positions need them side by side.
  if (gathered_row(state.kernel()) > 0) return {inline_all(state, true)};
  Ways ways(inline_all(state, false));
  if (pad != kNoId) ways.states.push_back(inline_all(state, true));
  return ways;
}

}  // namespace tcc::space
