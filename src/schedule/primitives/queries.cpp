#include "common.h"

namespace tcc::schedule {

Id find_block_by_name(const Kernel& k, std::string_view name) {
  Id found = kNoId;
  for (const Block* block : collect_blocks(k.root)) {
    if (name_hint(k, block->id) != name) continue;
    if (found != kNoId) return kNoId;
    found = block->id;
  }
  return found;
}

std::vector<Id> loops_of(const Kernel& k, Id block) {
  std::vector<Id> out;
  Path path = find_path(k.root, block);
  for (const Loop* l : loops_on(path)) out.push_back(l->id);
  return out;
}

std::vector<Id> read_buffers(const Kernel& k, Id block_id) {
  std::vector<Id> out;
  const Block* block = find_block(k.root, block_id);
  if (block == nullptr) return out;
  Id own = written_buffer(k, block_id);
  visit_loads(block->body, [&](const Load& l) {
    if (l.buffer != own && std::find(out.begin(), out.end(), l.buffer) == out.end()) out.push_back(l.buffer);
  });
  return out;
}

Id written_buffer(const Kernel& k, Id block_id) {
  const Block* block = find_block(k.root, block_id);
  if (block == nullptr) return kNoId;
  Id found = kNoId;
  bool several = false;
  visit(block->body, [&](Stmt s) {
    if (const Store* st = as<Store>(s)) {
      several |= found != kNoId && found != st->buffer;
      found = st->buffer;
    }
    return true;
  });
  return several ? kNoId : found;
}

std::vector<Id> producers_of(const Kernel& k, Id block_id) {
  std::vector<Id> out;
  const Block* block = find_block(k.root, block_id);
  if (block == nullptr) return out;
  for (const Block* other : collect_blocks(k.root)) {
    if (other->id == block_id) continue;
    for (Id buffer : read_buffers(k, block_id))
      if (writes_buffer(other->body, buffer)) {
        out.push_back(other->id);
        break;
      }
  }
  return out;
}

std::vector<Id> child_blocks_of(const Kernel& k, Id id) {
  std::vector<Id> out;
  Path path = find_path(k.root, id);
  if (!path.found()) return out;
  for (const Block* block : collect_blocks(path.nodes.back()))
    if (block->id != id) out.push_back(block->id);
  return out;
}

std::vector<Id> output_blocks_of(const Kernel& k) {
  std::vector<Id> out;
  for (const Block* block : collect_blocks(k.root))
    for (const Buffer* buffer : k.buffers)
      if (buffer->role == BufferRole::kOutput && writes_buffer(block->body, buffer->id)) {
        out.push_back(block->id);
        break;
      }
  return out;
}

std::vector<Id> consumers_of(const Kernel& k, Id block_id) {
  std::vector<Id> out;
  Id buffer = written_buffer(k, block_id);
  if (buffer == kNoId) return out;
  for (const Block* other : collect_blocks(k.root))
    if (other->id != block_id && reads_buffer(other, buffer)) out.push_back(other->id);
  return out;
}

}  // namespace tcc::schedule
