// compute_inline and reverse_compute_inline.
#include "common.h"

namespace tcc::schedule {
namespace {

const Store* single_store(const Block& block) {
  return block.init == nullptr ? as<Store>(block.body) : nullptr;
}

bool spatial_only(const Block& block) {
  return std::all_of(block.iters.begin(), block.iters.end(),
                     [](const Iter& it) { return it.kind == IterKind::kSpatial; });
}

// Replaces loads of `buffer` by value(indices).
struct ReplaceLoads {
  Builder& b;
  Id buffer;
  FunctionRef<Expr(const Load&)> value;
  Expr operator()(Expr e) const {
    if (!may_mention(e, buffer)) return e;
    Expr out = rewrite_children(b, e, *this);
    const Load* l = as<Load>(out);
    if (l == nullptr || l->buffer != buffer) return out;
    Expr v = value(*l);
    return l->predicate == nullptr ? v : b.select(l->predicate, v, l->other);
  }
};

Stmt replace_loads(Builder& b, Stmt s, const ReplaceLoads& replace) {
  if (!may_mention(s, replace.buffer)) return s;
  return rewrite_children(b, s, [&](Stmt child) { return replace_loads(b, child, replace); }, replace);
}

}  // namespace

Legal<Kernel> compute_inline(const Kernel& k, Id block_id) {
  Path path = find_path(k.root, block_id);
  const Block* block = path.found() ? as<Block>(path.nodes.back()) : nullptr;
  if (block == nullptr) return unknown(k, "block", block_id);
  const Store* store = single_store(*block);
  if (store == nullptr || !spatial_only(*block) || block->predicate != nullptr || store->predicate != nullptr)
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " is not a single unpredicated spatial store");
  const Buffer* buffer = k.buffer(store->buffer);
  if (buffer->role != BufferRole::kTemp)
    return reject(RejectReason::kIsOutput, describe(k, block_id) + " writes an output of the kernel");
  std::optional<std::vector<int>> plain = plain_indices(*block, store->indices);
  if (!plain) return reject(RejectReason::kNotInlinable, describe(k, block_id) + " stores at computed indices");
  std::vector<bool> covered(block->iters.size(), false);
  for (int i : *plain)
    if (i >= 0) covered[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < covered.size(); ++i)
    if (!covered[i] && !is_int(block->iters[i].extent, 1))
      return reject(RejectReason::kNotInlinable, describe(k, block_id) + " has iterators that its result lacks");
  if (reads_buffer(block, store->buffer))
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " reads its own result");
  if (consumers_of(k, block_id).empty())
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " has no consumer");
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && writes_buffer(other, store->buffer))
      return reject(RejectReason::kManyWriters, describe(k, store->buffer));
  if (has_operand(k.root, store->buffer))
    return reject(RejectReason::kNotInlinable, describe(k, store->buffer) + " is an instruction's operand");

  Editor edit(k);
  Builder& b = edit.b;
  auto value = [&](const Load& l) {
    Substitution at;
    for (size_t d = 0; d < plain->size(); ++d)
      if ((*plain)[d] >= 0) at.set(block->iters[static_cast<size_t>((*plain)[d])].id, l.indices[d]);
    for (size_t i = 0; i < covered.size(); ++i)
      if (!covered[i]) at.set(block->iters[i].id, b.integer(0));
    return substitute(b, store->value, at);
  };
  Stmt root = replace_at(b, path, nullptr);
  if (root == nullptr) return reject(RejectReason::kNotInlinable, "nothing would remain");
  root = replace_loads(b, root, ReplaceLoads{b, store->buffer, value});
  edit.drop_buffer(store->buffer);
  return edit.finish(root);
}

Legal<Kernel> reverse_compute_inline(const Kernel& k, Id block_id) {
  Path path = find_path(k.root, block_id);
  const Block* block = path.found() ? as<Block>(path.nodes.back()) : nullptr;
  if (block == nullptr) return unknown(k, "block", block_id);
  const Store* store = single_store(*block);
  if (store == nullptr || !spatial_only(*block) || block->predicate != nullptr || store->predicate != nullptr)
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " is not a single unpredicated spatial store");
  std::vector<Id> producers = producers_of(k, block_id);
  if (producers.size() != 1)
    return reject(RejectReason::kNotInlinable,
                  fmt::format("{} has {} producers", describe(k, block_id), producers.size()));
  const Block* producer = find_block(k.root, producers[0]);
  const Store* made = single_store(*producer);
  if (made == nullptr || !spatial_only(*producer))
    return reject(RejectReason::kNotInlinable, describe(k, producers[0]) + " is a reduction");
  if (consumers_of(k, producers[0]).size() != 1)
    return reject(RejectReason::kNotInlinable, describe(k, producers[0]) + " has other consumers");

  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && other->id != producers[0] &&
        (writes_buffer(other, store->buffer) || writes_buffer(other, made->buffer)))
      return reject(RejectReason::kManyWriters, describe(k, other->id) + " writes one of the two buffers too");

  // The consumer's loads of the intermediate: one index list of distinct iterators that covers all of them.
  std::optional<std::vector<int>> plain;
  bool same = true;
  visit_roots(block->body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e); l != nullptr && l->buffer == made->buffer) {
        std::optional<std::vector<int>> here = plain_indices(*block, l->indices);
        if (!here || l->predicate != nullptr || (plain && *plain != *here)) same = false;
        plain = here;
      }
      return true;
    });
  });
  if (!same || !plain)
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " reads its producer at computed indices");
  std::vector<bool> covered(block->iters.size(), false);
  for (int i : *plain)
    if (i >= 0) covered[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < covered.size(); ++i)
    if (!covered[i] && !is_int(block->iters[i].extent, 1))
      return reject(RejectReason::kNotInlinable, describe(k, block_id) + " has iterators that its producer lacks");

  Editor edit(k);
  Builder& b = edit.b;
  Substitution at;
  for (size_t d = 0; d < plain->size(); ++d)
    if ((*plain)[d] >= 0) at.set(block->iters[static_cast<size_t>((*plain)[d])].id, made->indices[d]);
  for (size_t i = 0; i < covered.size(); ++i)
    if (!covered[i]) at.set(block->iters[i].id, b.integer(0));
  // What the consumer does not read of the intermediate is not stored.
  const analysis::Ranges ranges = all_ranges(k);
  Expr predicate = made->predicate;
  for (size_t d = 0; d < plain->size(); ++d) {
    Expr wanted = (*plain)[d] < 0 ? b.integer(1) : block->iters[static_cast<size_t>((*plain)[d])].extent;
    if (ranges.prove_equal(b, k.buffer(made->buffer)->shape[d], wanted)) continue;
    if ((*plain)[d] < 0)
      return reject(RejectReason::kNotInlinable, describe(k, block_id) + " reads a part of its producer");
    predicate = b.logical_and(predicate, b.lt(made->indices[d], wanted));
  }
  auto value = [&](const Load&) { return made->value; };
  ReplaceLoads replace{b, made->buffer, value};
  // Substituting iterators first: the producer's iterators are other variables.
  std::vector<Expr> indices;
  for (Expr i : store->indices) indices.push_back(substitute(b, i, at));
  Stmt merged = b.store(store->buffer, indices, replace(substitute(b, store->value, at)), predicate);
  Stmt root = replace_at(b, find_path(k.root, producers[0]),
                         b.block(producer->id, producer->iters, merged, nullptr, producer->predicate, producer->reducer,
                                 producer->annotations));
  root = replace_at(b, find_path(root, block_id), nullptr);
  edit.drop_buffer(made->buffer);
  return edit.finish(root);
}

}  // namespace tcc::schedule
