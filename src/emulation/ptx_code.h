// PTX in the form that runs: registers are rows of 32 lanes at a byte offset in a warp's register file, constants rows
// in a pool (places below zero), predicates masks, each instruction a function over the lanes of a warp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tcc/emulation/ptx.h"

namespace tcc::emulation {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

// name, text, bytes
// The entries are set by hand, as clang-format sets them anew each time.
// clang-format off
#define TCC_PTX_TYPES(X) \
  X(Pred, "pred", 4) X(B8, "b8", 1) X(B16, "b16", 2) X(B32, "b32", 4) X(B64, "b64", 8) X(B128, "b128", 16) \
  X(U8, "u8", 1) X(U16, "u16", 2) X(U32, "u32", 4) X(U64, "u64", 8) X(S8, "s8", 1) X(S16, "s16", 2) \
  X(S32, "s32", 4) X(S64, "s64", 8) X(F16, "f16", 2) X(BF16, "bf16", 2) X(F16x2, "f16x2", 4) \
  X(BF16x2, "bf16x2", 4) X(F32, "f32", 4) X(TF32, "tf32", 4) X(F64, "f64", 8)
// clang-format on
enum class Type : uint8_t {
#define TCC_X(name, text, bytes) k##name,
  TCC_PTX_TYPES(TCC_X)
#undef TCC_X
};
std::optional<Type> find_type(std::string_view text);  // without the dot
int type_bytes(Type type);
bool is_signed(Type type);
bool is_real(Type type);  // one of the float types, not packed

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam };

enum class Kind : uint8_t {
  kPlain,
  kLabel,   // a branch leads here: lanes may join, a slice may end
  kBranch,  // target
  kExit,
  kBarrier,      // a: number, b: threads (-1: all of the block)
  kWarpBarrier,  // c: lane mask
  kCollective,   // c: lane mask (-1 in `members`: all lanes of the warp)
  kWait,         // poll: lanes stay until it says so
};

struct Warp;
struct Ins;
using Handler = void (*)(Warp& warp, const Ins& ins, uint32_t lanes);
using Poll = bool (*)(Warp& warp, const Ins& ins, int lane);

inline constexpr int32_t kNone = INT32_MIN;

struct Ins {
  Handler run = nullptr;
  Poll poll = nullptr;
  Kind kind = Kind::kPlain;
  Space space = Space::kGeneric;
  bool guard_negated = false;
  bool aligned = false;  // barriers and collectives: all threads of a warp are at this instruction
  bool wide = true;      // addresses are 64 bits
  uint8_t bytes = 0;     // memory: of the whole access
  uint8_t count = 1;     // memory: elements of a vector
  uint8_t mode = 0;      // of the handler's own
  int32_t guard = -1;    // predicate
  int32_t d = kNone, a = kNone, b = kNone, c = kNone;
  int32_t members = kNone;  // place of the lane mask
  int32_t extra = 0;        // first of this instruction's places in KernelCode::extra
  int32_t target = 0;
  int64_t imm = 0;
  int32_t line = 0;
  int32_t uses = 0;  // row of KernelCode::uses; 0: none
};

// What an instruction reads and writes, to follow values that nothing has defined (ptx_undefined.cpp). A register goes
// by its place, a predicate by predicate_value().
struct Flow {
  // What becomes of an undefined operand. kPasses: the results are undefined. kChooses: they are where selp picks it.
  // kAnd, kOr: they are unless the other predicate decides alone. kUses: that is a finding.
  enum class Rule : uint8_t { kPasses, kChooses, kAnd, kOr, kUses };
  Rule rule = Rule::kUses;
  std::vector<int32_t> reads, writes;
};
inline int32_t predicate_value(int32_t number) {
  return -1 - number;
}

// name, text: what the special registers are called
// The entries are set by hand, as clang-format sets them anew each time.
// clang-format off
#define TCC_PTX_SPECIALS(X) \
  X(TidX, "%tid.x") X(TidY, "%tid.y") X(TidZ, "%tid.z") X(NtidX, "%ntid.x") X(NtidY, "%ntid.y") \
  X(NtidZ, "%ntid.z") X(CtaidX, "%ctaid.x") X(CtaidY, "%ctaid.y") X(CtaidZ, "%ctaid.z") X(NctaidX, "%nctaid.x") \
  X(NctaidY, "%nctaid.y") X(NctaidZ, "%nctaid.z") X(Laneid, "%laneid") X(Warpid, "%warpid") \
  X(LanemaskEq, "%lanemask_eq") X(LanemaskLt, "%lanemask_lt") X(LanemaskLe, "%lanemask_le") \
  X(LanemaskGt, "%lanemask_gt") X(LanemaskGe, "%lanemask_ge") X(DynamicShared, "%dynamic_smem_size") \
  X(ClusterRank, "%cluster_ctarank") X(ClusterSize, "%cluster_nctarank")
// clang-format on
enum class Special : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_PTX_SPECIALS(TCC_X)
#undef TCC_X
};
std::optional<Special> find_special(std::string_view text);

struct Variable {
  std::string name;
  int64_t alignment = 1;
  int64_t bytes = 0;
  int64_t offset = 0;    // shared and local: in their window
  bool dynamic = false;  // extern shared
  std::vector<std::byte> initial;
};

// A bulk tensor copy: registers and constants of its addresses, what is added to them, coordinates innermost first.
struct BoxCode {
  struct Address {
    int32_t place = kNone;
    bool wide = true;
    int64_t added = 0;
  };
  Address shared, map, barrier;
  std::vector<int32_t> coordinates;
  int32_t mask = kNone;  // of blocks
};

// A product of a warpgroup.
struct ProductCode {
  int columns = 0;                                             // n
  ir::Type type = ir::Type::kF16;                              // of A and B; f32 is read as tf32
  int64_t depth() const { return 32 / ir::type_bytes(type); }  // k
  int32_t d = 0, a = 0;  // first of the places in KernelCode::extra; a: of registers, or the descriptor's place
  bool a_in_registers = false;
  int32_t b = 0;     // the descriptor's place
  int32_t add = -1;  // predicate: D is added to
  bool add_negated = false, negate_a = false, negate_b = false, transpose_a = false, transpose_b = false;
  std::vector<int32_t> accumulators;  // numbers of D's registers
};

inline constexpr int kMapBytes = 128;

struct KernelCode {
  std::string name;
  std::vector<std::string> params;  // pointers, then tensor maps
  size_t pointers = 0;
  std::vector<Ins> code;
  std::vector<Flow> flows;           // of each instruction
  std::vector<int32_t> extra;        // places of vector operands
  std::vector<std::byte> constants;  // rows; place -1 - n is the row at byte n
  int32_t register_bytes = 0;
  int32_t predicates = 0;
  std::vector<std::pair<Special, int32_t>> specials;  // and their rows
  std::vector<Variable> shared;                       // static ones, with offsets
  int64_t dynamic_offset = 0;                         // where dynamic shared memory begins
  int64_t local_bytes = 0;                            // of a thread
  int64_t max_threads = 1024;
  int64_t min_blocks = 1;                       // of a multiprocessor
  std::array<int64_t, 3> required = {0, 0, 0};  // .reqntid
  std::array<int64_t, 3> cluster = {1, 1, 1};   // .reqnctapercluster
  std::vector<BoxCode> boxes;
  std::vector<ProductCode> products;
  bool async_proxy = false;                // bulk copies or products of warpgroups
  std::vector<std::vector<int32_t>> uses;  // accumulators that an instruction names, by number; row 0: none
  int32_t accumulators = 0;
  int shared_granule = 16, global_granule = 16;  // smallest access, bytes
};

struct PtxModule::Impl {
  std::vector<KernelCode> kernels;
  std::vector<Variable> data;      // .global and .const of the module, after the kernel's buffers
  std::vector<std::string> lines;  // of the text, from line 1 at index 0
};

}  // namespace tcc::emulation
