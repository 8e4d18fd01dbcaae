// Statement and expression emission of one launch. Private to codegen/llvm.
//
// A value is either the same for all lanes (scalar) or one per lane of the vectorized loop that is being emitted.
// Unrolled loops bind their variable to a constant, so the LLVM builder folds indices while it emits. f16 and bf16
// values are float in registers and are rounded after every operation.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/analysis/lanes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/interval.h"
#include "tcc/ir/kernel.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"

namespace tcc::codegen {

using analysis::flatten;
using analysis::LaneRange;
using analysis::LaneSplit;
using analysis::split_lanes;

struct Val {
  llvm::Value* v = nullptr;
  bool vec = false;  // one value per lane
};

// A buffer as the code of one launch sees it.
struct BufferSlot {
  const ir::Buffer* buffer = nullptr;
  llvm::Value* pointer = nullptr;
  std::vector<int64_t> strides;                  // row-major, in elements; empty when a layout decides
  int64_t elements = 0;                          // physical
  int64_t alignment = 1;                         // bytes, of the first element
  bool local = false;                            // an alloca of this launch
  std::set<std::pair<int64_t, int64_t>> pieces;  // of a local buffer: (first element, elements) stored as one value
  int64_t tile = -1;                             // number of its first AMX tile register; -1: memory
  int64_t lanes = 1;  // > 1: made inside a vectorized loop, element i of lane l is at i * lanes + l
};

// A load or store whose lanes are apart: lane l at element `at + offsets[l]` from a common place.
struct LaneAccess {
  llvm::Instruction* made = nullptr;
  int64_t at = 0;
  std::vector<int64_t> offsets;
  int64_t on = 0;     // the first lanes; others are off
  int64_t order = 0;  // of emission
};
// Accesses to one buffer in a basic block, with nothing between them that may touch the same elements.
struct LaneRun {
  ir::Type type = ir::Type::kF32;
  std::vector<ir::Term> base;  // the common place
  llvm::BasicBlock* block = nullptr;
  bool stores = false;
  int64_t widest = 0;  // rows and columns of a square at most
  std::vector<LaneAccess> list;
};

// Physical elements of a buffer, or nullopt when its shape is symbolic.
std::optional<int64_t> physical_elements(const ir::Buffer& buffer);
// Bytes that a launch's code assumes the buffer's first element to be aligned to.
int64_t assumed_alignment(const ir::Buffer& buffer);

class Emitter {
 public:
  Emitter(llvm::Module& module, const target::Target& target, const ir::Kernel& kernel, ir::Builder& index_builder);

  // Emits `body` (or [begin, end) of the parallel loop `range`) into `function`, whose arguments are one pointer per
  // buffer of `buffers` followed by begin and end.
  Result<void> emit(llvm::Function* function, std::span<const ir::Buffer* const> buffers, ir::Stmt body,
                    const ir::Loop* range);
  int64_t local_bytes() const { return local_bytes_; }
  // Vectorized loops that are emitted as scalar code: all of their iterations store to one place.
  int64_t scalar_vector_loops() const { return std::ssize(scalar_vector_loops_); }

 private:
  struct Binding {
    Val value;
    ir::Interval range;
    int depth = 0;
    bool bound = false;
  };
  // The flat address of one access, split once per (node, piece of the vector loop).
  struct FlatAddress {
    ir::Expr flat = nullptr;
    std::optional<LaneSplit> split;
  };

  // Which executions of a load read, and what the others yield.
  struct Guard {
    Val mask;   // all conditions together; .v == nullptr: always
    Val other;  // .v == nullptr: executions that are off are not looked at
  };

  // --- statements (emitter.cpp) ---
  void stmt(ir::Stmt s);
  void loop(const ir::Loop& l);
  void within(const ir::Loop& l, const std::function<void()>& body);
  void loop_by_kind(const ir::Loop& l);
  void rolled_loop(const ir::Loop& l, llvm::Value* begin, llvm::Value* end, bool may_be_empty, ir::Interval range);
  void unrolled_loop(const ir::Loop& l, int64_t extent, bool complete_tiles = false);
  void pin_tiles(ir::Stmt body);
  void pin_values(llvm::ArrayRef<llvm::Value*> places, llvm::ArrayRef<llvm::Type*> types);
  void vector_loop(const ir::Loop& l, int64_t extent);
  bool tree_loop(const ir::Loop& l, int64_t extent);
  void lane_bounded_loop(const ir::Loop& l, Val extent);
  bool can_vectorize(const ir::Loop& l, int64_t extent);
  bool stores_differ_by_lane(const ir::Loop& l, int64_t extent);
  void if_stmt(const ir::If& s);
  bool stores_local_only(ir::Stmt s);
  void forget_contents(BufferSlot& slot, llvm::BasicBlock* block, llvm::Instruction* after);
  void alloc(const ir::Alloc& s);
  void guarded(llvm::Value* condition, const std::function<void()>& body);
  bool make_local(const ir::Buffer& buffer);
  void bind_buffer(const ir::Buffer& buffer, llvm::Value* pointer);
  int64_t max_lanes() const;

  // --- hints of the schedule (hints.cpp) ---
  void with_streaming(const ir::Loop& l, const std::function<void()>& body);
  bool is_memory(ir::Id id) const;
  bool can_stream(const BufferSlot& slot, llvm::Type* type, llvm::Align align) const;
  void stream(llvm::StoreInst* store);
  void fence_streams();
  void prefetch(const ir::Loop& l);
  void prefetch(const ir::Loop& l, int64_t distance, int64_t most, bool weights);
  void prefetch_panel(const ir::Loop& l, int64_t lines);
  void prefetch_block(const ir::Loop& l);
  void ask_for(llvm::Value* address, bool write, int locality);

  // --- instructions of the table (instr_call.cpp) ---
  void instr_call(const ir::InstrCall& call);
  void tile_config(const ir::InstrCall& call);
  void configure_first(ir::Stmt body);
  void tile_instruction(const ir::InstrCall& call, const ir::Instruction& row);
  void vector_instruction(const ir::InstrCall& call, const ir::Instruction& row);
  void dot_instruction(const ir::InstrCall& call, const ir::Instruction& row);
  std::optional<int64_t> tile_number(const ir::Operand& operand, const ir::OperandSpec& spec);
  std::optional<int64_t> row_stride(const ir::Operand& operand, const ir::OperandSpec& spec, ir::Expr flat);
  void configure_tiles(uint8_t rows, uint8_t bytes);
  void make_tiles(const ir::Buffer& buffer);
  void release_tiles();

  // --- memory (memory.cpp) ---
  Val load(const ir::Load& l);
  void store(const ir::Store& s);
  const FlatAddress& address(const void* node, const BufferSlot& slot, std::span<const ir::Expr> indices);
  llvm::Value* element_pointer(const BufferSlot& slot, ir::Expr uniform, int64_t extra);
  llvm::Value* apply_xors(const BufferSlot& slot, llvm::Value* index);
  llvm::Value* lane_pointers(const BufferSlot& slot, const FlatAddress& at);
  Val with_other(Val value, const Guard& guard);
  llvm::Value* pick_lanes(llvm::Value* mask, int64_t first, int64_t lanes);
  llvm::Align element_alignment(const BufferSlot& slot, ir::Expr uniform, int64_t extra) const;
  Val load_uniform(const BufferSlot& slot, const FlatAddress& at, const Guard& guard);
  Val load_lanes(const BufferSlot& slot, const FlatAddress& at, const Guard& guard);
  enum class Off { kAny, kZero };  // what a load gives for lanes that are off
  llvm::Value* load_piece(const BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes, Val mask,
                          Off off = Off::kZero);
  bool fits_register(llvm::FixedVectorType* type) const;
  llvm::Value* masked_load(llvm::FixedVectorType* type, llvm::Value* pointer, llvm::Align align, llvm::Value* mask);
  void masked_store(llvm::Value* value, llvm::Value* pointer, llvm::Align align, llvm::Value* mask);
  Val spread_mask(Val mask, const LaneSplit& split, int64_t start, int64_t piece);
  llvm::Value* load_strided(const BufferSlot& slot, const LaneSplit& split, Val mask, Off off);
  void store_scalar(BufferSlot& slot, const FlatAddress& at, Val value, Val mask);
  void store_lanes(BufferSlot& slot, const FlatAddress& at, llvm::Value* value, llvm::Value* mask);
  bool is_off_in_padding(const BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes, llvm::Value* mask);
  void store_piece(BufferSlot& slot, ir::Expr uniform, int64_t offset, llvm::Value* value, llvm::Value* mask);
  int depth_of(ir::Expr e) const;
  bool is_register(const BufferSlot& slot, const FlatAddress& at);
  void note_piece(BufferSlot& slot, ir::Expr uniform, int64_t offset, int64_t lanes);
  bool exists(const BufferSlot& slot, ir::Expr uniform, int64_t first, int64_t last);
  bool in_bounds(const BufferSlot& slot, ir::Expr uniform, int64_t first, int64_t last);
  llvm::Value* to_memory(llvm::Value* value, ir::Type type);
  llvm::Value* from_memory(llvm::Value* value, ir::Type type);
  llvm::Type* memory_type(ir::Type type);
  llvm::Constant* zero_page();

  // --- lanes of a few windows (lane_windows.cpp) ---
  llvm::Value* load_window(const BufferSlot& slot, ir::Expr uniform, ir::Interval window, int64_t width, Val mask);
  llvm::Value* load_windows(const BufferSlot& slot, const LaneSplit& split, Val mask);

  // --- tables of bytes (byte_tables.cpp) ---
  llvm::Value* load_from_table(const BufferSlot& slot, const FlatAddress& at, Val mask);

  // --- transposes (transpose_accesses.cpp) ---
  void note_lanes(const BufferSlot& slot, const FlatAddress& at, llvm::Instruction* made, bool store,
                  llvm::Value* mask);
  void close_run(ir::Id buffer);
  void close_runs();
  void transpose_runs();

  // --- expressions (expr.cpp) ---
  Val eval(ir::Expr e);
  Val eval_binary(const ir::Binary& e);
  Val eval_sum(const ir::Sum& e);
  Val floor_division(const ir::Binary& e);
  // a_number, b_number: that operand is certainly not NaN.
  Val min_max(ir::ExprKind kind, ir::Type type, Val a, Val b, bool a_number, bool b_number);
  void find_numbers();
  bool is_number(ir::Expr e) const;
  Val data_arithmetic(ir::ExprKind kind, ir::Type type, Val a, Val b);
  llvm::Value* divide_as_floats(llvm::Value* a, llvm::Value* b, bool is_unsigned);
  Val integer_divide(Val a, Val b, ir::Type type);
  Val compare(const ir::Binary& e);
  std::optional<Val> compare_lanes(const ir::Binary& e);
  Val select(const ir::Select& e);
  Val call(const ir::Call& e);
  ir::Interval range_of(ir::Expr e) const;
  llvm::Value* scalar_index(ir::Expr e);  // of an expression that is the same in all lanes

  // --- bytes of floats (quantize.cpp) ---
  llvm::Value* clip(llvm::Value* x, double low, double high);
  std::optional<Val> clipped(const ir::Select& e);
  std::optional<Val> quantized(ir::Expr value, ir::Type to);

  // --- conversions (convert.cpp) ---
  Val cast(Val a, ir::Type from, ir::Type to);
  Val cast_of(ir::Expr value, ir::Type to);                   // the same without saturation where the value has bounds
  llvm::Value* round_to(llvm::Value* value, ir::Type type);   // float -> nearest f16 or bf16, still as float
  llvm::Value* half_bits(llvm::Value* value, ir::Type type);  // float -> i16
  llvm::Value* from_half_bits(llvm::Value* bits, ir::Type type);
  llvm::Value* narrow_odd(llvm::Value* value);  // double -> float, inexact results get an odd last bit
  llvm::Value* float_to_int(llvm::Value* value, ir::Type to);

  // --- helpers ---
  llvm::Type* value_type(ir::Type type);
  llvm::Type* like(llvm::Type* scalar, llvm::Value* shape);  // scalar or <n x scalar>, after shape's lane count
  llvm::Value* lanes_of(Val a);                              // broadcast when it is a scalar
  void unify(Val& a, Val& b);
  Val poison(ir::Type type);
  Val both_masks(Val a, Val b);  // logical and; .v == nullptr means all true
  void fail(std::string message);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const target::Target& target_;
  const ir::Kernel& kernel_;
  ir::Builder& ib_;
  analysis::Ranges ranges_;             // extents of all loops of the launch
  std::vector<const ir::Loop*> loops_;  // around the present statement, outermost first
  llvm::Function* function_ = nullptr;
  std::vector<Binding> env_;  // by id
  std::unordered_map<ir::Id, BufferSlot> slots_;
  std::unordered_map<const void*, FlatAddress> addresses_;
  LaneRange lane_range_;
  Val mask_;  // lanes (or, in scalar code of a Select arm, executions) that are on; .v == nullptr: all
  int depth_ = 0;
  int64_t local_bytes_ = 0, live_bytes_ = 0;  // at most at once, and of the allocations around the statement
  std::set<ir::Id> scalar_vector_loops_;
  int64_t next_tile_ = 0;
  bool tiles_configured_ = false, tiles_hoisted_ = false;
  std::set<ir::Id> numbers_;             // buffers that never hold NaN
  std::set<ir::Id> streamed_;            // buffers whose whole vectors go past the caches just now
  bool streams_ = false;                 // some store did: the launch ends with a fence
  int64_t transposed_ = 0;               // transpose_accesses of the loop around, 0: single elements
  std::map<ir::Id, LaneRun> open_runs_;  // by buffer
  std::vector<LaneRun> runs_;
  int64_t lane_accesses_ = 0;
  std::optional<Error> error_;
};

}  // namespace tcc::codegen
