// Results of a warpgroup leave through shared memory. Lanes hold them in pairs of neighbors, eight rows a warp, which
// make stores of 4 or 8 bytes; a bulk tensor copy writes whole rows of 128 bytes, and nothing outside of the tensor.
// Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "lower/gpu/edit.h"
#include "tcc/analysis/roles.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {

class ResultStage {
 public:
  // The place of the code: `group` is the number of the warpgroup, warp and lane are loops around.
  struct Thread {
    ir::Expr group;
    ir::Id warp = ir::kNoId, lane = ir::kNoId;
  };
  // `groups` warpgroups have a part of the buffer each.
  ResultStage(Edit& edit, int64_t groups) : edit_(edit), b_(edit.b), groups_(groups) {}

  // A nest of loops around one store to an output, as distribute_fragments leaves it, by way of the shared buffer.
  // nullptr: it is of another form, or another nest has taken the buffer. `again`: loops around it execute it several
  // times, and its first piece waits for the copies of the time before.
  ir::Stmt stage(ir::Stmt nest, const Thread& t, bool again);
  // Waits until shared memory has been read; nullptr: nothing is staged.
  ir::Stmt finish(const Thread& t);
  // The shared buffer; kNoId: nothing is staged.
  ir::Id buffer() const { return buffer_; }

 private:
  struct Nest {
    std::vector<const ir::Loop*> outer;
    const ir::Loop *runs = nullptr, *run = nullptr;  // over registers, and over neighbors among them
    const ir::Store* store = nullptr;
    std::vector<ir::Expr> conditions;
    const ir::Buffer* out = nullptr;
    int64_t columns = 0, runs_of_piece = 0;  // of a piece
    int64_t pieces() const;
  };
  // Rows and columns from `at` on, one piece for a tensor copy.
  struct Piece {
    std::vector<ir::Expr> at;
    ir::Stmt fill;
  };

  std::optional<Nest> read(ir::Stmt nest) const;
  std::optional<Piece> piece(const Nest& n, const ir::Substitution& tile, int64_t number, int64_t slot,
                             const Thread& t);
  ir::Expr guarded(ir::Expr value, ir::Expr condition);
  void make_buffer(const Nest& n);
  ir::Stmt call(ir::Family family, ir::Behaviour behaviour, std::initializer_list<ir::Expr> args);
  ir::Stmt by_one(const Thread& t, ir::Stmt s);

  Edit& edit_;
  ir::Builder& b_;
  int64_t groups_;
  ir::Id buffer_ = ir::kNoId;
};

}  // namespace tcc::lower
