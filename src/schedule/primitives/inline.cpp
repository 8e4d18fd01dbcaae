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

// One unpredicated spatial store, of which a value can be made anywhere.
Legal<const Store*> inlinable(const Kernel& k, const Block& block) {
  const Store* store = single_store(block);
  if (store == nullptr || !spatial_only(block) || block.predicate != nullptr || store->predicate != nullptr)
    return reject(RejectReason::kNotInlinable, describe(k, block.id) + " is not a single unpredicated spatial store");
  return store;
}

// The values of the block's iterators where the accesses at `plain` iterators are at `indices`. An iterator that is not
// among them has one value; the message says of what it is not one: `whose`.
Legal<Substitution> values_at(Builder& b, const Kernel& k, const Block& block, std::span<const int> plain,
                              std::span<const Expr> indices, const char* whose) {
  Substitution at;
  std::vector<bool> covered(block.iters.size(), false);
  for (size_t d = 0; d < plain.size(); ++d) {
    if (plain[d] < 0) continue;
    covered[static_cast<size_t>(plain[d])] = true;
    at.set(block.iters[static_cast<size_t>(plain[d])].id, indices[d]);
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i]) continue;
    if (!is_int(block.iters[i].extent, 1))
      return reject(RejectReason::kNotInlinable,
                    fmt::format("{} has iterators that {} lacks", describe(k, block.id), whose));
    at.set(block.iters[i].id, b.integer(0));
  }
  return at;
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
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  TCC_TRY(const Store* store, inlinable(k, *block));
  const Buffer* buffer = k.buffer(store->buffer);
  if (buffer->role != BufferRole::kTemp)
    return reject(RejectReason::kIsOutput, describe(k, block_id) + " writes an output of the kernel");
  std::optional<std::vector<int>> plain = plain_indices(*block, store->indices);
  if (!plain) return reject(RejectReason::kNotInlinable, describe(k, block_id) + " stores at computed indices");
  Editor edit(k);
  Builder& b = edit.b;
  TCC_TRY_VOID(values_at(b, k, *block, *plain, store->indices, "its result"));
  if (reads_buffer(block, store->buffer))
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " reads its own result");
  if (consumers_of(k, block_id).empty())
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " has no consumer");
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && writes_buffer(other, store->buffer))
      return reject(RejectReason::kManyWriters, describe(k, store->buffer));
  if (has_operand(k.root, store->buffer))
    return reject(RejectReason::kNotInlinable, describe(k, store->buffer) + " is an instruction's operand");

  auto value = [&](const Load& l) {
    return substitute(b, store->value, *values_at(b, k, *block, *plain, l.indices, "its result"));
  };
  Stmt root = replace_at(b, path, nullptr);
  if (root == nullptr) return reject(RejectReason::kNotInlinable, "nothing would remain");
  root = replace_loads(b, root, ReplaceLoads{b, store->buffer, value});
  edit.drop_buffer(store->buffer);
  return edit.finish(root);
}

Legal<Kernel> reverse_compute_inline(const Kernel& k, Id block_id) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  TCC_TRY(const Store* store, inlinable(k, *block));
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
  visit_loads(block->body, [&](const Load& l) {
    if (l.buffer != made->buffer) return;
    std::optional<std::vector<int>> here = plain_indices(*block, l.indices);
    if (!here || l.predicate != nullptr || (plain && *plain != *here)) same = false;
    plain = here;
  });
  if (!same || !plain)
    return reject(RejectReason::kNotInlinable, describe(k, block_id) + " reads its producer at computed indices");

  Editor edit(k);
  Builder& b = edit.b;
  TCC_TRY(const Substitution at, values_at(b, k, *block, *plain, made->indices, "its producer"));
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
  Stmt merged =
      b.store(store->buffer, substitute(b, store->indices, at), replace(substitute(b, store->value, at)), predicate);
  Stmt root = replace_at(b, find_path(k.root, producers[0]), b.with_body(*producer, merged, nullptr));
  root = replace_at(b, find_path(root, block_id), nullptr);
  edit.drop_buffer(made->buffer);
  return edit.finish(root);
}

}  // namespace tcc::schedule
