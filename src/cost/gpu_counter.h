// Counts what one launch of a kernel at Stage::Nest asks of the machine. Private to the room.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tcc/analysis/shared_plan.h"
#include "tcc/cost/gpu_facts.h"
#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::cost {

// Iterations; 1 where the extent is not constant.
double loop_extent(const ir::Loop& l);
double buffer_bytes(const ir::Buffer& b);
inline bool is_half(ir::Type t) {
  return t == ir::Type::kF16 || t == ir::Type::kBF16;
}

class GpuCounter {
 public:
  // `facts` receives the counts; occupancy and seconds are left to the caller.
  GpuCounter(const ir::Kernel& nest, const target::Target& target, LaunchFacts& facts);
  void run(ir::Stmt launch);
  // Bytes of the buffer that the launch touches, each counted once, at most; 0: its statements do not say.
  double touched(const ir::Buffer& b) const;

 private:
  // Clock cycles for which one thread waits: for accesses of the same straight code, which overlap, and for those that
  // come one after the other.
  struct Wait {
    double together = 0, after = 0;
    double all() const { return together + after; }
  };
  // Of one operation, for each time that a thread computes it; `special`: operations of the special units.
  struct Work {
    double instructions = 0, flops = 0, special = 0;
  };
  enum class Place : uint8_t { kMemory, kShared, kRegisters };
  struct Around {
    const ir::Loop* loop;
    double extent;
    bool expanded;  // all iterations are one piece of straight code
    bool bound;
  };
  // How an access moves with the loops around it; filled by look_at().
  struct Movement {
    std::vector<int64_t> steps;  // elements, one for each loop around; kUnknown: not linear in its variable
    int64_t divisor = 0;         // of the address's other parts, but for the constant
    int64_t constant = 0;        // elements
    bool gathers = false;        // an index is loaded
    bool shared = false;         // of a buffer in shared memory, which all threads of the block see
    size_t from = 0;             // loops around the buffer's allocation
  };
  // Traffic of one buffer.
  struct Traffic {
    const ir::Buffer* buffer;
    double touched = 0;  // bytes that are not the same ones again, at most
    double moved = 0;    // bytes to and from the second-level cache
  };

  // Statements once loops are expanded as the last passes do: as their kind and `limit` (annotation unroll_max) say,
  // and where they choose registers. Finds the places of buffers on the way.
  int64_t scan(ir::Stmt s, bool threads, int64_t limit);
  void scan_loop(const ir::Loop& l, int64_t statements, int64_t limit);
  void scan_access(ir::Id buffer, std::span<const ir::Expr> indices);
  void finish(ir::Stmt launch);

  // `times`: executions of the statement by all threads of all blocks together.
  Wait stmt(ir::Stmt s, double times);
  Wait loop(const ir::Loop& l, double times);
  Wait store(const ir::Store& store, double times);
  void instr(const ir::InstrCall& call, double times);
  Wait value(ir::Expr e, double times, bool converts);
  Wait operation(ir::Expr e, double times, bool converts);
  Work arithmetic(ir::Expr e, ir::FunctionRef<void(ir::Expr)> part) const;
  double load_instructions(const ir::Load& load, bool converts) const;
  double loaded(const ir::Load& load, double times);
  void divide(ir::Expr by, double times, ir::FunctionRef<void(ir::Expr)> part);
  double once(double times) const;
  void combine(double threads, double times);
  void index(ir::Expr e, double times);
  void storage(const ir::Buffer& b);
  void tile(const ir::Store& store);
  Place place(const ir::Buffer& b) const;

  void look_at(const ir::Buffer& b, std::span<const ir::Expr> indices);
  ir::Expr joined_index(const ir::Buffer& b, std::span<const ir::Expr> indices, size_t& from);
  ir::Expr without_lane(ir::Expr atom);
  int64_t divisor_of_rest(const ir::Buffer& b, std::span<const ir::Expr> indices);
  // Clock cycles until a load has its value.
  double access(const ir::Buffer& b, std::span<const ir::Expr> indices, double times, bool loads);
  double count_shared(const ir::Buffer& b, double times);
  double half_warp_share() const;
  double count_memory(const ir::Buffer& b, std::span<const ir::Expr> indices, double times);
  double reused(double times) const;
  double own_run() const;
  double vector_of(int64_t bytes) const;
  double latency(double missing, double bytes);
  std::vector<int64_t> first_warp(const ir::Buffer& b, std::span<const ir::Expr> indices) const;
  std::vector<int64_t> lanes_of_copy(const ir::Buffer& b, std::span<const ir::Expr> indices) const;
  double pieces_of_warp(const std::vector<int64_t>& lanes, int64_t bytes, int64_t of_lane) const;
  double whole_vector(const ir::Loop& l);
  double condition_share(const ir::Loop& l);
  double threads_around() const;
  double lanes() const;
  double warps(double times) const;

  const ir::Kernel& k_;
  const target::Target& target_;
  const target::SmModel& model_;
  LaunchFacts& facts_;
  Arena arena_;
  ir::Builder b_;
  std::vector<Around> loops_;
  std::vector<int32_t> depth_;     // of a loop around, by id; -1
  std::vector<double> copies_;     // of the body that straight code has, by the loop's id
  std::vector<bool> picks_;        // loops that choose registers, by id
  double axes_[16] = {};           // extents
  std::vector<Place> places_;      // of buffers, by id
  std::vector<size_t> made_;       // loops around the allocation of a buffer, by id
  std::vector<bool> padded_;       // buffers whose copies hold the padding (lower/gpu/pad_copies.h), by id
  std::vector<bool> swizzled_;     // shared buffers that copies fill, by id: lowering chooses their layout
  std::vector<uint64_t> counted_;  // hashes of quotients of indices that are counted
  std::vector<uint64_t> stored_;   // bits of the loops around a buffer's stores, by id
  // Values of the statement that are counted: their hashes, and the bits of loops with which they move.
  std::vector<std::pair<uint64_t, uint64_t>> valued_;
  uint64_t around_ = 0;                 // bits of the loops around the statement that is scanned
  int64_t statements_ = 1;              // that it becomes, one for each virtual thread
  uint64_t moves_ = 0;                  // bits of loops with which the operands of the expression move
  const ir::ExprNode* root_ = nullptr;  // the value that the statement stores
  bool to_registers_ = false;           // the statement copies to registers
  bool coarse_ = false;                 // the value is rounded to 16 bits
  std::vector<Traffic> traffic_;
  Movement movement_;
  bool plain_ = true, reads_ = false;  // of the loop that is scanned: no allocations, calls or loops; loads of memory
  size_t straight_ = 0;                // loops from here on hold nothing but the statement
  bool touches_memory_ = false;        // the loop that is scanned loads from it or stores to it
  bool multiplies_ = false;            // the launch has products by matrix instructions
  bool copying_ = false, matrix_ = false, groups_ = false;  // groups: matrix instructions are those of warpgroups
  bool waits_ = false;                                      // threads exchange data in shared memory
  double exchanged_ = 0;                                    // bytes that they write there
  const ir::Loop* role_ = nullptr;
  analysis::SharedRequests requests_;
  double tile_registers_ = 0;  // of a thread, for sums that memory holds
  double condition_ = 1;       // of a condition, for an element: vectors test all of theirs together
  double vector_ = 1;          // elements at a time of the copy around
  double pieces_ = 1;          // of the copy around, for one thread
  double batch_ = 0;           // bytes that one thread loads in the straight code around
  double ahead_ = 1;           // steps that the pipeline around loads before they are used; 1: none
  double copy_wait_ = 0;       // clock cycles until copies of the pipeline around have arrived
  double index_factor_ = 1;
};

}  // namespace tcc::cost
