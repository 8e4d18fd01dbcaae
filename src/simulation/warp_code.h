// The program of one warp: the loops of a launch as steps that a warp executes one after the other. Straight code, with
// all loops that are written out, is one step. Private to the room.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/ir/instr.h"
#include "tcc/ir/kernel.h"
#include "tcc/simulation/multiprocessor.h"

namespace tcc::simulation {

// Values of variables by id. Thread axes have those of the warp's first lane.
using Values = std::vector<int64_t>;

// The value of index arithmetic. What memory holds is a number that depends on its place alone.
int64_t evaluate(ir::Expr e, const Values& values);

// A variable of a loop that is written out: this copy's value, or, where part of a loop is, its distance from the
// first.
struct CopyValue {
  ir::Id id;
  int64_t value;
  bool relative;
};

struct WarpAccess {
  const ir::Buffer* buffer = nullptr;
  std::span<const ir::Expr> indices;
  std::vector<CopyValue> copy;
  std::vector<ir::Expr> conditions;
  int64_t bytes = 0;         // of a lane, in one instruction
  int64_t instructions = 1;  // more where the elements of a vector are apart
  bool shared = false, store = false;
  bool asynchronous = false;  // into shared memory, past the registers
  bool past_l1 = false;       // bypasses the first-level cache
  bool matrix_rows = false;   // each lane names a row of 16 bytes
  double address = 0;         // instructions for its index
  // How a warp's lanes touch memory; found when the access is first executed.
  bool known = false;
  double wavefronts = 1;         // of shared memory
  std::vector<int64_t> sectors;  // of 32 bytes, from that of the first lane's address
  double fresh = 1;              // share of its lines that no other multiprocessor reads at about the same time
};

enum class StepKind : uint8_t { kWork, kLoop, kEndLoop, kUnless, kSync, kEnd };

struct Step {
  StepKind kind = StepKind::kWork;
  // kWork
  std::vector<WarpAccess> accesses;
  double arithmetic = 0;    // instructions
  double special = 0;       // instructions of the special function units
  double matrix_flops = 0;  // of one warp
  ir::Type matrix_type = ir::Type::kF32;
  double chain = 0;  // instructions that wait for each other
  // kLoop, kEndLoop
  const ir::Loop* loop = nullptr;
  int64_t stride = 1;  // iterations that one execution of the body does
  int64_t period = 1;  // after which the body's use of buffers and barriers repeats
  bool waits = false;  // for barriers in shared memory
  int32_t jump = 0;    // step after the loop; of its first step; after the condition
  // kUnless
  ir::Expr condition = nullptr;
  bool negated = false;
  // kSync
  const ir::InstrCall* call = nullptr;
};

// A launch: what its blocks need, and the steps of each of their warps.
struct LaunchCode {
  std::vector<const ir::Loop*> grid;  // loops of the grid and of clusters, outermost first
  int64_t warps = 0;                  // of a block
  int64_t shared_bytes = 0;
  int64_t role_registers = 0;  // of the block's threads together, where roles share them out; else 0
  double local_bytes = 0;      // of a thread's arrays, at most
  double pending_bytes = 0;    // that straight code of a thread loads before it uses them, at most
  std::vector<Step> steps;
  std::vector<std::vector<int32_t>> entries;  // by warp: first steps of the sections that it runs, in order
  std::vector<Values> values;                 // by warp: of the variables of thread axes, for the first lane
  // By lane: the values of the same variables; only what differs between lanes.
  std::vector<std::vector<std::vector<std::pair<ir::Id, int64_t>>>> lanes;  // by warp and lane
};

// The launches of a kernel at Stage::Lowered, in order. The code refers to the kernel's nodes and the machine's costs.
std::vector<LaunchCode> compile_launches(const ir::Kernel& lowered, const target::Target& target,
                                         const Machine& machine);

}  // namespace tcc::simulation
