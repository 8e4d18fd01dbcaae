// A loop nest as flat lists: loops, statements, accesses and index expressions, with the memory of the last nest used
// again. What the tables of sample.h are made of. Private to the room.
#pragma once

#include <array>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::features {

struct NestLoop {
  ir::Id id;
  ir::LoopKind kind;
  ir::Axis axis;
  int64_t extent;
  int64_t unroll_max;  // 0: no annotation
  int32_t number;      // of the loop in the nest
};

// Operations of one execution.
enum class OpKind : uint8_t { kMad, kAddSub, kMul, kDiv, kCompare, kMath, kOther };
inline constexpr size_t kOpKinds = 7;
struct OpCounts {
  std::array<double, kOpKinds> real = {}, integer = {};
  double logic = 0, select = 0;
  double reals() const;
};

// One dimension of one access: constant + sum of coefficient * loop, or an expression of another form.
struct NestIndex {
  ir::Expr expr;              // nullptr where affine
  int64_t constant;           // of the affine form
  int32_t first_coefficient;  // one for each loop around, outermost first
  int64_t tile;               // elements of an instruction's operand along this dimension; 1 otherwise
};

enum class ReuseType : uint8_t { kLoop, kSerial, kNone };
// How often a statement touches one buffer. Counts are doubles: products of extents.
struct NestAccess {
  int32_t buffer;  // position in Kernel::buffers
  bool read, write;
  int32_t first_index, vectors;  // `vectors` index vectors that differ, each of the buffer's rank
  int64_t tile;                  // elements of one execution
  int32_t first_touched;         // elements touched below each loop around; the last one: by one execution
  double bytes, unique_bytes, lines, unique_lines;
  ReuseType reuse;
  double reuse_iterations, reuse_bytes, reuse_count;
  double reuse_chain;  // product of the extents of consecutive loops that repeat the access; 0 without reuse
  double stride;       // of the innermost loop, in elements
};

// A statement that writes a buffer: a store, or an instruction for each operand that it writes.
struct NestStatement {
  int32_t first_loop, loops;
  double executions;
  OpCounts ops;
  int32_t stored;                  // position in Kernel::buffers
  bool constant;                   // stores a constant: the init of a reduction
  int32_t first_access, accesses;  // that of the stored buffer first, then as the value reads them
};

class NestReader {
 public:
  void read(const ir::Kernel& nest);

  const ir::Kernel& kernel() const { return *kernel_; }
  std::span<const NestStatement> statements() const { return statements_; }
  std::span<const NestLoop> loops(const NestStatement& s) const {
    return {loops_.data() + s.first_loop, static_cast<size_t>(s.loops)};
  }
  std::span<const NestAccess> accesses(const NestStatement& s) const {
    return {accesses_.data() + s.first_access, static_cast<size_t>(s.accesses)};
  }
  // Elements that the loops from position `depth` on touch in one go, in the box around them.
  double touched(const NestAccess& a, size_t depth) const {
    return touched_[static_cast<size_t>(a.first_touched) + depth];
  }
  // Bytes of all buffers, by this statement.
  double touched_bytes(const NestStatement& s, size_t depth) const;
  const ir::Buffer& buffer(int32_t at) const { return *kernel_->buffers[static_cast<size_t>(at)]; }
  double elements(int32_t buffer) const { return elements_[static_cast<size_t>(buffer)]; }
  // Product of the extents of the loops outside of the buffer's allocation.
  double allocations(int32_t buffer) const { return allocations_[static_cast<size_t>(buffer)]; }

 private:
  struct Touch {  // of a buffer below a loop, by the statements so far
    int32_t buffer, count, next;
    double least;
  };

  void stmt(ir::Stmt s);
  void store(const ir::Store& s);
  void call(const ir::InstrCall& s);
  NestStatement begin(int32_t stored);
  void finish(NestStatement& s);
  void loads(ir::Expr e, NestStatement& s);
  void access(NestStatement& s, ir::Id buffer, std::span<const ir::Expr> indices, bool write,
              std::span<const int64_t> tile);
  bool same(const NestAccess& a, int32_t vector, int32_t other) const;
  void affine(ir::Expr e, NestIndex& out);
  void measure(const NestStatement& s, NestAccess& a);
  void find_reuse(const NestStatement& s, NestAccess& a);
  double stride_of(const NestAccess& a, int32_t vector, size_t loop);
  bool repeats(const NestAccess& a, size_t loop) const;
  void touch(int32_t loop, int32_t buffer, double elements);
  int32_t position(ir::Id buffer) const;

  const ir::Kernel* kernel_ = nullptr;
  std::vector<NestLoop> stack_, loops_;
  std::vector<NestStatement> statements_;
  std::vector<NestAccess> accesses_;
  std::vector<NestIndex> indices_;
  std::vector<int64_t> coefficients_;
  std::vector<double> touched_, low_, high_;
  std::vector<double> elements_, allocations_;  // of buffers
  std::vector<int32_t> depth_;                  // of a loop around, by id; -1
  std::vector<int32_t> first_touch_;            // of a loop, by its number
  std::vector<double> loop_bytes_;              // touched below a loop, by its number
  std::vector<Touch> touches_;
  std::vector<std::pair<ir::Id, int64_t>> variables_;
  double executions_ = 1;
  int32_t next_loop_ = 0;
};

// Adds the operations of an expression, those of its indices included.
void count_operations(ir::Expr e, OpCounts& ops);
// The operations of an instruction of the table, as its semantics spell them out.
OpCounts instruction_ops(const ir::InstrCall& call);

}  // namespace tcc::features
