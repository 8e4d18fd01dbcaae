// Shared by the passes for GPUs: fresh ids, buffers and what a statement touches. Private to the room.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/ir/reject.h"

namespace tcc::lower {

// A kernel under construction in an arena of the caller.
struct Edit {
  Edit(const ir::Kernel& kernel, const ArenaPtr& arena) : k(kernel), b(*arena) { k.arena = arena; }
  ir::Id fresh(ir::Id from) {
    ir::Id id = k.next_id++;
    k.names = b.arena().make<ir::NameHint>(k.names, id, from, 1, nullptr);
    return id;
  }
  ir::Id fresh_named(std::string_view text) {
    ir::Id id = k.next_id++;
    std::string terminated(text);
    auto copy = b.arena().copy(std::span<const char>(terminated.c_str(), terminated.size() + 1));
    k.names = b.arena().make<ir::NameHint>(k.names, id, ir::kNoId, 0, copy.data());
    return id;
  }
  // Applies f to the fields of every buffer of the kernel; f returns whether it changed them.
  void map_buffers(const std::function<bool(ir::Buffer&)>& f) {
    std::vector<const ir::Buffer*> buffers;
    bool any = false;
    for (const ir::Buffer* old : k.buffers) {
      ir::Buffer fields = *old;
      const bool changed = f(fields);
      buffers.push_back(changed ? b.buffer(fields) : old);
      any |= changed;
    }
    if (any) k.buffers = b.arena().copy(buffers);
  }

  ir::Kernel k;
  ir::Builder b;
};

// The statements of the root that become launches, below root Allocs.
std::vector<ir::Stmt> launches_of(const ir::Kernel& k);
// The root with its launches rewritten.
ir::Stmt map_launches(Edit& edit, ir::Stmt root, ir::FunctionRef<ir::Stmt(ir::Stmt)> f);
// The same where f may refuse a launch: the last refusal is the result.
ir::Legal<ir::Stmt> map_legal_launches(Edit& edit, ir::Stmt root, ir::FunctionRef<ir::Legal<ir::Stmt>(ir::Stmt)> f);

struct Touched {
  std::set<ir::Id> reads, writes;
};
Touched touched_buffers(ir::Stmt s);
bool meet(const std::set<ir::Id>& x, const std::set<ir::Id>& y);

// Loads and stores below `s` of buffers in `buffers` are given new index lists.
ir::Stmt reindex(ir::Builder& b, ir::Stmt s,
                 ir::FunctionRef<bool(ir::Id buffer, std::vector<ir::Expr>& indices)> change);

}  // namespace tcc::lower
