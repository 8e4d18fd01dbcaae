// The instruction table: what each hardware instruction needs, does and costs, as constexpr rows in src/ir/instr/*.cpp
// (one file a family). No other room names an instruction: spaces and passes find rows by family, behavior, types and
// shapes, so a new row needs no other edit. tools/check_includes.py refuses quoted names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::ir {

// Rows that are made to work together.
enum class Family : uint8_t {
  kVector,      // x86: vectors of 16 lanes
  kAmx,         // x86: tiles
  kMma,         // mma.sync
  kLdmatrix,    // moves matrices from shared memory to the registers of mma
  kWmma,        // fragments whose registers are the hardware's own affair, with their loads and stores
  kWgmma,       // products of warpgroups, with their fences and groups
  kCopyAsync,   // cp.async, with its groups
  kTensorCopy,  // TMA, with its groups
  kWarp,        // exchange inside a warp, atomics
  kMbarrier,    // barriers in shared memory
  kFlag,        // barriers in global memory
  kSync,        // barriers of threads, fences, register counts
};
enum class Participants : uint8_t { kThread, kWarp, kWarpgroup, kBlock };
enum class Access : uint8_t { kRead, kWrite, kReadWrite };
// When the effect on the operands is complete.
enum class Completion : uint8_t {
  kImmediate,
  kCopyGroup,      // cp.async: after commit and wait_group
  kWgmmaGroup,     // after wgmma commit_group and wait_group
  kMbarrierBytes,  // the destination mbarrier counts the bytes (complete_tx)
};
enum class Proxy : uint8_t { kGeneric, kAsync };  // which proxy reads and writes shared memory
// What the interpreter does. kCompute runs `semantics`; the rest are synchronization with fixed meaning.
enum class Behaviour : uint8_t {
  kCompute,
  kBarSync,     // args: barrier number, thread count
  kWarpSync,    // args: lane mask
  kShuffle,     // operands: dst, src (one register each); args: mode (0 idx, 1 up, 2 down, 3 xor), lane or delta, width
  kCopyCommit,  // cp.async.commit_group
  kCopyWait,    // args: groups that may stay pending
  kCopyWaitRead,      // the same, until the groups have read their sources
  kMbarrierInit,      // operand: barrier; args: expected arrivals
  kMbarrierArrive,    // operand: barrier; args: none, or the rank of the block in the cluster whose barrier is meant
  kMbarrierExpectTx,  // operand: barrier; args: bytes; also arrives
  kMbarrierWait,      // operand: barrier; args: parity; blocks until the phase of that parity is complete
  kFenceProxyAsync,   // orders generic writes before async reads and the reverse
  kFenceMbarrierInit,
  kWgmmaFence,
  kWgmmaCommit,
  kWgmmaWait,  // args: groups that may stay pending
  kClusterSync,
  kSetMaxRegisters,  // args: registers
  kThreadFence,      // device-wide fence
  kAtomicAdd,        // operands: dst (1 element), src
  kTileConfig,       // AMX palette set-up; args: rows, bytes per row
};

struct OperandSpec {
  std::string_view name;
  Type type;
  Scope scope;  // where the operand must live
  Access access;
  int32_t rank;     // of the tile
  int64_t tile[3];  // logical extents; 0: the argument whose number is the dimension's
  // Where element t of the tile is. Without a layout: at Operand::indices with t added to the buffer's last `rank`
  // indices; the indices are the same for all participants. With a layout (parse_layout text over the tile): at the
  // Operand::indices of the thread (warp, lane) of the group, with reg + address added to the buffer's last index. So
  // registers are elements of a `local` array per thread, and a matrix in shared memory may have a row per lane.
  std::string_view layout = {};
  int32_t alignment = 1;   // bytes that the first element of every participant's part is aligned to
  bool zero_fill = false;  // elements outside of the buffer read as zero and are not written
  // Which lane holds what is the hardware's own affair: `layout` stands in for it where semantics are run, and says how
  // many registers a lane has (size / lanes); nothing but the rows with the same layout may read or make the operand,
  // but for one value in all of its elements.
  bool opaque = false;
};

// Rows name what differs from an instruction of one thread that computes and is done when it returns.
struct Instruction {
  std::string_view name;  // "mma.m16n8k16.f32.f16"
  Family family = Family::kSync;
  std::string_view feature = {};  // target feature name, "" = always ("avx512f", "amx_bf16", "sm_80", ...)
  Participants participants = Participants::kThread;
  std::span<const OperandSpec> operands = {};
  int32_t num_args = 0;
  Completion completion = Completion::kImmediate;
  Proxy proxy = Proxy::kGeneric;
  Behaviour behaviour = Behaviour::kCompute;
  // For kCompute: statements over operand names and tile indices in the text form of ir/text.h, for example
  //   "for i in 16 { for j in 8 { for k in 16 { C[i, j] = C[i, j] + f32(A[i, k]) * f32(B[k, j]) } } }".
  // Integer arguments appear as $0, $1, ... What tensorize matches and the interpreter runs.
  std::string_view semantics = {};
  int64_t flops = 0, bytes = 0;
  // Backend text: the asm body, "" where the backend has none. %name is an operand: its registers (braced where there
  // are several) or its address; $0, $1, ... are the arguments.
  std::string_view ptx = {};
  std::string_view llvm = {};  // LLVM intrinsic name, "" where the backend has none
  // The argument that holds the mask of cluster blocks whose shared memory and barrier receive the data; -1: own block.
  int32_t multicast_arg = -1;
};

std::span<const Instruction> instruction_table();
// Row number by name, as traces and kernels in files give it; -1 when unknown.
int32_t find_instruction(std::string_view name);
// Row number of a family's first row that `fits`; -1: none does.
template <class F>
int32_t find_instruction(Family family, F fits) {
  const std::span<const Instruction> table = instruction_table();
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].family == family && fits(table[i])) return static_cast<int32_t>(i);
  return -1;
}
// The family's row with this behavior and, where it is not -1, this number of arguments; the table must have one.
int32_t instruction_row(Family family, Behaviour behaviour, int32_t num_args = -1);
// Rows that add a product of tiles of `type` to a tile of 32-bit elements: D[i, j] += A[i, k] * B[k, j]. Operands are
// D, A, B. The most terms come first.
std::vector<int32_t> find_products(Type type, Participants participants);
// Does the row read the operand with its last two dimensions exchanged: B as [j, k], A as [k, i]?
bool reads_transposed(const Instruction& row, size_t operand);
// Rows that fill `tile`, the operand of a product of the family, from memory or with zeros, and that write it to
// memory.
int32_t find_tile_load(Family family, const OperandSpec& tile);
int32_t find_tile_zero(Family family, const OperandSpec& tile);
int32_t find_tile_store(Family family, const OperandSpec& tile);
// Exchange of registers of `type` between lanes.
int32_t find_shuffle(Type type);
// Bulk copies of boxes of `type` into `to`; multicast: to several blocks of a cluster.
int32_t find_tensor_copy(Type type, Scope to, bool multicast = false);
const Instruction& instruction(int32_t row);
// `semantics` of a kCompute row as a kernel at Stage::kBuilt: the buffers are the operands in order (global, inputs
// when only read, else outputs), the scalars are the arguments in order. Made once; safe from several threads.
const Kernel& instruction_semantics(int32_t row);

}  // namespace tcc::ir
