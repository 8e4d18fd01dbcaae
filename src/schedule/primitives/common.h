// Shared by the primitives: finding things, and rebuilding the kernel.
#pragma once

#include <algorithm>

#include "tcc/analysis/ranges.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/edit.h"
#include "tcc/ir/query.h"
#include "tcc/schedule/primitives.h"

namespace tcc::schedule {

using namespace ir;

class Editor : public ir::KernelEditor {
 public:
  explicit Editor(const Kernel& kernel) : KernelEditor(kernel, kernel.arena) { k.stage = Stage::kScheduled; }
};

// "loop i_0", for messages.
inline std::string describe(const Kernel& k, Id id) {
  return "'" + name_hint(k, id) + "'";
}
inline tl::unexpected<Reject> unknown(const Kernel& k, const char* what, Id id) {
  if (id < 0) return reject(RejectReason::kUnknownHandle, fmt::format("expected the handle of a {}", what));
  return reject(RejectReason::kUnknownHandle, fmt::format("{} is not a {} of the kernel", describe(k, id), what));
}

// The same places for the elements of another shape.
inline const Layout* of_shape(Arena& arena, Layout layout, std::span<const int64_t> shape) {
  layout.shape = shape;
  return copy_layout(arena, layout);
}

// The way to a loop or a block.
inline Legal<Path> path_to_block(const Kernel& k, Id id) {
  Path path = find_path(k.root, id);
  if (!path.found() || as<Block>(path.nodes.back()) == nullptr) return unknown(k, "block", id);
  return path;
}
inline Legal<Path> path_to_loop(const Kernel& k, Id id) {
  Path path = find_path(k.root, id);
  if (!path.found() || as<Loop>(path.nodes.back()) == nullptr) return unknown(k, "loop", id);
  return path;
}

// Where the loop is among the nodes on the way to a block.
inline Legal<size_t> position_of_loop(const Kernel& k, const Path& to_block, Id loop) {
  for (size_t i = 0; i < to_block.nodes.size(); ++i)
    if (const Loop* l = as<Loop>(to_block.nodes[i]); l != nullptr && l->id == loop) return i;
  return reject(RejectReason::kNotInScope,
                describe(k, loop) + " is not around " + describe(k, as<Block>(to_block.nodes.back())->id));
}

// Loads or stores of a buffer anywhere below s.
bool reads_buffer(Stmt s, Id buffer);
bool writes_buffer(Stmt s, Id buffer);

// An instruction touches the buffer: such uses cannot be rewritten as loads and stores are.
bool has_operand(Stmt s, Id buffer);

// The loops of a path, outermost first.
inline std::vector<const Loop*> loops_on(const Path& path) {
  std::vector<const Loop*> loops;
  for (Stmt s : path.nodes)
    if (const Loop* l = as<Loop>(s)) loops.push_back(l);
  return loops;
}
// const and tensor memory cannot be written by copies.
Legal<void> check_scope(Scope scope);
// Blocks that write the buffer; blocks within blocks are counted with the outermost.
int count_writers(const Kernel& k, Id buffer);
// None of `others` is in the nest of the path: what is put beside the nest would miss them.
Legal<void> check_apart(const Kernel& k, const Path& path, std::span<const Id> others);
// Declares all loops of the kernel and all iterators of blocks.
analysis::Ranges all_ranges(const Kernel& k);

// The plain iterators a store or load is indexed by: index d -> position in block.iters, -1 for the constant 0, or
// nullopt when any index is something else or an iterator comes twice.
std::optional<std::vector<int>> plain_indices(const Block& block, std::span<const Expr> indices);

// The statement that holds the block among the children of the root (the root itself when it is not a Seq).
size_t top_level_position(const Path& path);

// Adds `condition` (over loop variables) to the predicate of every block below s.
Stmt add_predicate(Builder& b, Stmt s, Expr condition);
// Replaces loads of `from` by loads of `to` with the same indices, and the same for stores.
Stmt rename_buffer(Builder& b, Stmt s, Id from, Id to, bool loads, bool stores);

// Inserts before/after the node at path position `at`.
Stmt insert_beside(Builder& b, const Path& path, size_t at, Stmt extra, bool before);
Path prefix(const Path& path, size_t length);

}  // namespace tcc::schedule
