// Shared by the passes for GPUs. Private to the room.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "tcc/ir/edit.h"
#include "tcc/ir/query.h"
#include "tcc/ir/reject.h"

namespace tcc::lower {

using Edit = ir::KernelEditor;

// The mode of a shuffle that exchanges with lane l ^ distance.
inline constexpr int64_t kButterfly = 3;

// The statements of the root that become launches, below root Allocs.
std::vector<ir::Stmt> launches_of(const ir::Kernel& k);
// The root with its launches rewritten.
ir::Stmt map_launches(Edit& edit, ir::Stmt root, ir::FunctionRef<ir::Stmt(ir::Stmt)> f);
// The same where f may refuse a launch: the last refusal is the result.
ir::Legal<ir::Stmt> map_legal_launches(Edit& edit, ir::Stmt root, ir::FunctionRef<ir::Legal<ir::Stmt>(ir::Stmt)> f);

// A local array like the buffer, with an element for each iteration of the loops, and the element's indices.
struct LocalTile {
  const ir::Buffer* buffer = nullptr;
  std::vector<ir::Expr> place;
};
LocalTile local_tile(Edit& edit, const ir::Buffer& like, std::span<const ir::Loop* const> loops);

using ir::Touched;
bool meet(const std::set<ir::Id>& x, const std::set<ir::Id>& y);

// Loads and stores below `s` of buffers in `buffers` are given new index lists.
ir::Stmt reindex(ir::Builder& b, ir::Stmt s,
                 ir::FunctionRef<bool(ir::Id buffer, std::vector<ir::Expr>& indices)> change);

// (m + lane) div n and mod n as (m div n) and (m mod n) + lane, where m and n are multiples of the lanes' number: rows
// that vectors do not cross. That is longer for most, and so no rule of the simplifier, but says what is contiguous.
ir::Stmt keep_vectors_whole(Edit& edit, ir::Stmt s, ir::Id lane, int64_t lanes);

}  // namespace tcc::lower
