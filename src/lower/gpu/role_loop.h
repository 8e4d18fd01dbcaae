// What expand_roles reads off a launch: the loop of the pipeline with its copies and products, the grid and the cluster
// around it. Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "tcc/analysis/roles.h"
#include "tcc/ir/build.h"
#include "tcc/ir/reject.h"

namespace tcc::lower {

// A copy of source[lead.., row + i, column + j] to shared[0.., i, j].
struct BoxCopy {
  const ir::Buffer* shared = nullptr;
  const ir::Buffer* source = nullptr;
  std::vector<ir::Expr> lead;
  ir::Expr row = nullptr, column = nullptr;
  int64_t rows = 0, columns = 0;
  // Blocks of the cluster along x and y that want the same box: each loads its part of the rows for all of them.
  int64_t sharers_x = 1, sharers_y = 1;
  int64_t sharers() const { return sharers_x * sharers_y; }
  int64_t bytes() const { return rows * columns * ir::type_bytes(shared->type); }
};

struct RoleLoop {
  const ir::Loop* loop = nullptr;
  int64_t steps = 0, depth = 0;
  std::vector<BoxCopy> copies;
  std::vector<ir::Stmt> work;
  std::vector<const ir::Loop*> grid;                          // outermost first
  const ir::Loop *cluster_x = nullptr, *cluster_y = nullptr;  // below them; nullptr: one block along the axis
  analysis::TileWalk walk;
};

// `launch` at Nest or behind distribute_fragments; `arena` holds new expressions. Rejects: kBadInstruction (a copy that
// tensor copies cannot make), kUnsupported (another form of loop), kNotConstant.
ir::Legal<RoleLoop> read_role_loop(const ir::Kernel& k, ir::Stmt launch, Arena& arena);

// A conjunct of a predicate says no more than that one of the indices, from number `from` on, is inside of the shape.
bool is_bound(ir::Builder& b, ir::Expr conjunct, std::span<const ir::Expr> indices, std::span<const ir::Expr> shape,
              size_t from);

}  // namespace tcc::lower
