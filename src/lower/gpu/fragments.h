// Which registers of which lanes hold what of a fragment, read off its layout. Private to the room.
//
// The operands of matrix instructions have layouts in the instruction table. What is computed from them element by
// element follows: a matrix that is made of one has its layout, and a value for each of its rows (the maximum of a row
// of scores, say) is in all lanes that hold a part of the row.
#pragma once

#include <map>
#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {

// A buffer that is an operand with a layout over lanes, or follows one.
struct FragmentOperand {
  const ir::OperandSpec* spec;  // whose layout it is
  int64_t lanes;   // that share it: a warp's, or a warpgroup's; of a vector, those that hold different parts
  int along = -1;  // -1: a matrix in the last two dimensions; 0 or 1: a value for each of its rows, columns
  size_t dim = 0;  // of the buffer, along which a vector's values follow each other
};
std::map<ir::Id, FragmentOperand> fragment_buffers(const ir::Kernel& nest);

// The store that a nest of loops and conditions holds.
struct ElementNest {
  std::vector<const ir::Loop*> loops;  // outermost first
  ir::Expr condition = nullptr;
  const ir::Store* store = nullptr;
};
// nullopt: several statements, or none. Nodes that are made go to the arena of `b`.
std::optional<ElementNest> element_nest(ir::Builder& b, ir::Stmt s);

// The loop that counts within the tiles of `index`, which is a multiple of `tile` beside it; nullptr: another form.
const ir::Loop* tile_loop(ir::Expr index, int64_t tile, const std::vector<const ir::Loop*>& loops);

struct Fragment {
  const ir::OperandSpec* spec = nullptr;
  const ir::Layout* layout = nullptr;  // of a tile; of a vector, the digits of its dimension
  int64_t lanes = 32;                  // of a warp or a warpgroup
  int64_t registers = 1;               // of a lane, for one tile
  int along = -1;
  size_t dim = 0;

  bool is_matrix() const { return along < 0; }
  int64_t tile(int d) const { return along < 0 || along == d ? spec->tile[d] : 1; }
};
Fragment make_fragment(Arena& arena, const FragmentOperand& operand);

// Coordinate `dim` of the element that register `reg` of lane `lane` of warp `warp` holds: the digits of the layout,
// read backwards.
ir::Expr coordinate(ir::Builder& b, const ir::Layout& layout, int dim, ir::Expr warp, ir::Expr lane, ir::Expr reg);
// Register of the element at these coordinates, in all tiles of a row of `tiles`, of the lane that has it.
ir::Expr register_of(ir::Builder& b, const Fragment& f, ir::Expr row, ir::Expr column, int64_t tiles);
// Every lane has in `other` what it needs for its elements of `f`, in registers that are the same for all lanes.
bool same_lanes(const Fragment& f, const Fragment& other);
// Distances between the lanes of a warp that hold other elements of the same row (dim 1), or column, of a tile, as
// powers of two: exchanging along each of them in turn reaches all.
std::vector<int64_t> lane_distances(const Fragment& f, int dim);

}  // namespace tcc::lower
