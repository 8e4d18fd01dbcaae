// cache_read and cache_write: a copy of a buffer in another scope, one block that fills or drains it. read_at and
// write_at put that block under a loop at once.
#include "common.h"

namespace tcc::schedule {

namespace {

const Buffer* add_copy(Editor& edit, const Buffer& of, Scope scope) {
  return edit.add_temporary(of, fmt::format("{}_{}", name_hint(edit.k, of.id), scope_name(scope)), scope, of.shape);
}

// dst[v...] = src[v...] for all elements.
Stmt copy_all(Editor& edit, const Buffer& dst, const Buffer& src, Id copy, Id& block) {
  return edit.copy_nest(name_hint(edit.k, copy), dst.shape, block,
                        [&](std::span<const Expr> at) { return edit.b.store(dst.id, at, edit.b.load(src, at)); });
}

}  // namespace

Legal<void> check_scope(Scope scope) {
  if (scope == Scope::kConst)
    return reject(RejectReason::kBadFactor, fmt::format("no copy can be written in scope {}", scope_name(scope)));
  return {};
}

int count_writers(const Kernel& k, Id buffer) {
  int writers = 0;
  visit(k.root, [&](Stmt s) {
    const Block* block = as<Block>(s);
    if (block != nullptr) writers += writes_buffer(block->body, buffer) ? 1 : 0;
    return block == nullptr;
  });
  return writers;
}

// The copy is beside the whole nest of the block: a block of the same nest on the other side of the buffer would
// miss it.
Legal<void> check_apart(const Kernel& k, const Path& path, std::span<const Id> others) {
  Stmt nest = path.nodes[top_level_position(path)];
  for (Id other : others)
    if (find_path(nest, other).found())
      return reject(RejectReason::kNotInScope,
                    describe(k, other) + " is in the same nest; cache before moving blocks together");
  return {};
}

namespace {

// A copy of the block's read, which the block alone reads, or everybody.
Legal<Kernel> cache(const Kernel& k, Id block_id, int read_index, Scope scope, bool all, Id& out) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  TCC_TRY_VOID(check_scope(scope));
  std::vector<Id> reads = read_buffers(k, block_id);
  if (read_index < 0 || static_cast<size_t>(read_index) >= reads.size())
    return reject(RejectReason::kBadFactor,
                  fmt::format("block {} has {} read buffers", describe(k, block_id), reads.size()));
  const Buffer* source = k.buffer(reads[static_cast<size_t>(read_index)]);
  if (count_writers(k, source->id) > 1) return reject(RejectReason::kManyWriters, describe(k, source->id));
  std::vector<Id> writers, readers;
  for (const Block* other : collect_blocks(k.root)) {
    if (writes_buffer(other->body, source->id)) writers.push_back(other->id);
    if (other->id == block_id || (all && reads_buffer(other, source->id))) readers.push_back(other->id);
  }
  for (Id reader : readers) TCC_TRY_VOID(check_apart(k, find_path(k.root, reader), writers));
  Editor edit(k);
  const Buffer* copy = add_copy(edit, *source, scope);
  Stmt nest = copy_all(edit, *copy, *source, copy->id, out);
  Stmt root = k.root;
  for (Id reader : readers) {
    Path at = find_path(root, reader);
    root = replace_at(edit.b, at, rename_buffer(edit.b, at.nodes.back(), source->id, copy->id, true, false));
  }
  path = find_path(root, readers.front());
  return edit.finish(insert_beside(edit.b, path, top_level_position(path), nest, true));
}

}  // namespace

Legal<Kernel> cache_read(const Kernel& k, Id block, int read_index, Scope scope, Id& out) {
  return cache(k, block, read_index, scope, false, out);
}
Legal<Kernel> cache_reads(const Kernel& k, Id block, int read_index, Scope scope, Id& out) {
  return cache(k, block, read_index, scope, true, out);
}

Legal<Kernel> cache_write(const Kernel& k, Id block_id, Scope scope, Id& out) {
  TCC_TRY(Path path, path_to_block(k, block_id));
  const Block* block = as<Block>(path.nodes.back());
  TCC_TRY_VOID(check_scope(scope));
  const Buffer* target = k.buffer(written_buffer(k, block_id));
  if (target == nullptr)
    return reject(RejectReason::kManyWriters, describe(k, block_id) + " does not write exactly one buffer");
  if (count_writers(k, target->id) > 1) return reject(RejectReason::kManyWriters, describe(k, target->id));
  TCC_TRY_VOID(check_apart(k, path, consumers_of(k, block_id)));
  Editor edit(k);
  const Buffer* copy = add_copy(edit, *target, scope);
  Stmt nest = copy_all(edit, *target, *copy, copy->id, out);
  Stmt writing = rename_buffer(edit.b, block, target->id, copy->id, true, true);
  Stmt root = replace_at(edit.b, path, writing);
  path = find_path(root, block_id);
  return edit.finish(insert_beside(edit.b, path, top_level_position(path), nest, false));
}

namespace {

// The loop is around the block, which may not exist: caching says so.
Legal<void> check_around(const Kernel& k, Id block, Id loop) {
  TCC_TRY(const Path path, path_to_loop(k, loop));
  if (find_block(k.root, block) != nullptr && !find_path(path.nodes.back(), block).found())
    return reject(RejectReason::kNotInScope, describe(k, loop) + " is not around " + describe(k, block));
  return {};
}

}  // namespace

Legal<Kernel> read_at(const Kernel& k, Id block, int read_index, Id loop, Scope scope, Id& out) {
  TCC_TRY_VOID(check_around(k, block, loop));
  TCC_TRY(const Kernel cached, cache_read(k, block, read_index, scope, out));
  return compute_at(cached, out, loop);
}

Legal<Kernel> write_at(const Kernel& k, Id block, Id loop, Scope scope, Id& out) {
  TCC_TRY_VOID(check_around(k, block, loop));
  TCC_TRY(const Kernel cached, cache_write(k, block, scope, out));
  return reverse_compute_at(cached, out, loop);
}

}  // namespace tcc::schedule
