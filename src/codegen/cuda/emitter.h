// Prints one launch of a Lowered kernel as a CUDA kernel. Private to codegen/cuda.
//
// Index arithmetic is `int` where a value and its partial sums provably fit, else `long long`: each expression by
// itself.
//
// Inside a vectorized loop the loop's variable is bound to a lane number and a statement is printed once per lane.
// Loads that are contiguous over the lanes are read into tcc_vec values beforehand, contiguous stores are gathered into
// one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/analysis/vector_access.h"
#include "tcc/codegen/cuda.h"
#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"

namespace tcc::codegen::cuda {

std::string memory_type(ir::Type type);  // as stored
std::string value_type(ir::Type type);   // as computed with

class Emitter {
 public:
  Emitter(const ir::Kernel& kernel, const target::Target& target, std::span<const ir::Buffer* const> params);

  // The text of `extern "C" __global__ void <symbol>(...) {...}`; fills grid, block and shared bytes of `launch`.
  Result<std::string> emit(ir::Stmt body, const std::string& symbol, Launch& launch);
  // The text of a statement by itself, for the semantics of instructions; `scalars` are the names of the run-time
  // scalars, name_of() those of the buffers.
  Result<std::string> statement(ir::Stmt s, std::unordered_map<ir::Id, std::string> scalars);
  std::string name_of(ir::Id id) const { return name(id); }
  int64_t static_shared_bytes() const { return static_shared_bytes_; }

 private:
  // A load of the statement being printed that is in vector registers: <name>_<lane / width>.v[lane % width].
  struct VectorLoad {
    std::string name;
    int64_t width;
  };
  // launch.cpp
  void find_dimensions(ir::Stmt body);
  analysis::SharedPlan plan_shared(ir::Stmt body);
  void check_limits(const analysis::SharedPlan& shared);
  std::string declare_shared(const analysis::SharedPlan& shared, int64_t& dynamic_bytes);
  std::string parameters() const;
  int64_t registers_at_entry() const;

  std::string read_scalars(ir::Stmt body);

  // stmt.cpp
  void stmt(ir::Stmt s);
  void branch(const ir::If& s);
  bool is_warp_uniform(ir::Expr e) const;
  std::string elected(ir::Expr condition, ir::Stmt body);
  void loop(const ir::Loop& l);
  void bound_loop(const ir::Loop& l);
  void body_with(const ir::Loop& l, std::string variable);
  void vector_loop(const ir::Loop& l);
  int64_t width_of(const ir::Buffer& buffer, std::span<const ir::Expr> indices, ir::Id id, int64_t lanes);
  void vector_store(const analysis::LaneStore& s, const ir::Loop& l, int64_t lanes);
  void vector_assign(const ir::Store& s, ir::Id id, int64_t lanes, int64_t width);
  void scalar_lanes(const analysis::LaneStore& s, ir::Id id, int64_t lanes);
  template <class F>
  void each_vector_load(ir::Expr value, ir::Id id, int64_t lanes, const F& found);
  bool has_vector_loads(ir::Expr value, ir::Id id, int64_t lanes);
  void load_vectors(ir::Expr value, ir::Id id, int64_t lanes);
  void vector_load(const ir::Load& l, ir::Id id, int64_t lanes, int64_t width);
  int64_t last_lane(ir::Expr condition, ir::Id id, int64_t lanes);
  std::string all_lanes(ir::Expr predicate, ir::Id id, int64_t lanes);
  void store(const ir::Store& s);
  void alloc(const ir::Alloc& s);
  void roles(const ir::Roles& s);
  void instr(const ir::InstrCall& s);
  std::string operand(const ir::InstrCall& s, const ir::Instruction& row, size_t n);
  void pin_accumulators();

  // matrix_tile.cpp, tensor_map.cpp
  void plan_tiles(ir::Stmt body);
  std::string tensor_map(const ir::InstrCall& s, const ir::Instruction& row, size_t n);
  std::string matrix_tile(const ir::Buffer& b, const ir::OperandSpec& spec, ir::Expr flat);
  int64_t row_pitch(const ir::Buffer& b, const ir::Instruction& row, const ir::OperandSpec& spec);
  int64_t swizzle_of(ir::Id id) const;
  std::string axis_coordinate(ir::Axis axis) const;
  int64_t axis_extent(ir::Axis axis) const;

  // expr.cpp
  std::string expr(ir::Expr e);
  std::string sum(const ir::Sum& e);
  std::string product(const ir::Prod& e);
  std::string quotient(const ir::Binary& e);
  std::string binary(const ir::Binary& e);
  std::string arithmetic(const ir::Binary& e, char op);
  std::string min_max(const ir::Binary& e);
  std::string cast(const ir::Unary& e);
  std::string select(const ir::Select& e);
  std::string load(const ir::Load& e);
  std::string call(const ir::Call& e);
  std::string rounded(ir::Type type, std::string value) const;
  std::string integer(int64_t value, ir::Type type) const;
  std::string address(const ir::Buffer& buffer, std::span<const ir::Expr> indices);
  std::string from_memory(ir::Type type, std::string value) const;
  std::string to_memory(ir::Type type, std::string value) const;
  std::string stored(ir::Type type, ir::Expr value);
  std::string moved_bits(ir::Expr e);
  bool is_wide(ir::Expr e);
  std::string index_type(ir::Expr a, ir::Expr b);  // of what is computed of both
  // Of a loop's variable.
  std::string index_type(const ir::Loop& l);

  const ir::Buffer& buffer(ir::Id id);
  std::string name(ir::Id id) const;
  void line(const std::string& text);
  void open(const std::string& text);
  void close();
  void fail(std::string message);

  const ir::Kernel& kernel_;
  const target::Target& target_;
  std::span<const ir::Buffer* const> params_;
  ArenaPtr arena_;
  ir::Builder b_;
  analysis::Ranges ranges_;
  std::array<int64_t, 3> grid_ = {1, 1, 1}, block_ = {1, 1, 1}, cluster_ = {1, 1, 1};
  std::vector<TensorMap> tensor_maps_;
  std::unordered_set<ir::Id> tf32_tiles_;         // shared buffers of f32 that wgmma reads
  std::unordered_map<ir::Id, int64_t> swizzles_;  // of shared buffers that are copied by boxes or multiplied: bytes
  std::unordered_set<ir::Id> accumulators_;       // of products that complete later
  std::vector<ir::Id> alive_accumulators_;
  std::unordered_set<ir::Id> scalars_;  // read-only buffers of one element, which are read at the beginning
  bool coarse_ = false;                 // what is printed will be rounded to 16 bits
  bool in_address_ = false;             // what is printed is a place in a buffer
  std::unordered_set<ir::Id> lanes_;    // variables of the loops over lanes around a statement
  bool converged_ = true;               // the threads of a warp come to the statement together
  bool linear_ = false;                 // threads are numbered by warps and lanes
  bool budgets_ = false;                // some role has its own number of registers
  bool warpgroups_ = false;
  int64_t role_first_warp_ = 0, role_warps_ = 0;  // 0 warps: outside Roles
  int64_t min_blocks_ = 0;
  int64_t static_shared_bytes_ = 0;
  std::unordered_map<ir::Id, std::string> variables_;
  std::unordered_map<const ir::ExprNode*, VectorLoad> vector_loads_;
  int64_t access_bytes_ = 0;  // of the vectorized loop being printed
  int64_t lane_ = 0;
  int temporaries_ = 0;
  int depth_ = 0;
  std::string text_;
  std::optional<Error> error_;
};

}  // namespace tcc::codegen::cuda
