// Statements of the loop IR. Plain nodes in an arena, built by `Builder` (ir/build.h).
//
// A kernel's meaning at Stage::Built and Stage::Scheduled is sequential: loops run in order whatever their kind;
// parallel, vectorized and bound loops promise that the order does not matter. At Stage::Lowered bound loops are
// threads that run concurrently and InstrCalls act on whole warps.
#pragma once

#include <cstdint>
#include <span>

#include "tcc/ir/expr.h"

namespace tcc::ir {

#define TCC_IR_STMT_KINDS(X) X(Seq) X(Loop) X(Block) X(Store) X(If) X(Alloc) X(InstrCall) X(Roles)

enum class StmtKind : uint8_t {
#define TCC_X(kind) k##kind,
  TCC_IR_STMT_KINDS(TCC_X)
#undef TCC_X
};

struct StmtNode {
  StmtKind kind;
  uint64_t hash;
  uint64_t ids;  // bit (id % 64) of every loop, block, iterator, buffer and variable in the subtree
};
using Stmt = const StmtNode*;

enum class LoopKind : uint8_t { kSerial, kUnrolled, kVectorized, kParallel, kBound };
// Where a bound loop runs. warpgroup/warp/lane and thread.xyz are two spellings of one linear thread id; a kernel
// uses one of the two. vthread loops are serial repetition of the thread block's work, expanded as an unrolled loop.
enum class Axis : uint8_t {
  kNone,
  kGridX,
  kGridY,
  kGridZ,
  kClusterX,
  kClusterY,
  kWarpgroup,
  kWarp,
  kLane,
  kThreadX,
  kThreadY,
  kThreadZ,
  kVthread
};
std::string_view loop_kind_name(LoopKind kind);
std::string_view axis_name(Axis axis);  // "grid.x", "lane", "thread.y", ...; "" for kNone
inline bool is_grid(Axis a) {
  return a == Axis::kGridX || a == Axis::kGridY || a == Axis::kGridZ;
}
inline bool is_cluster(Axis a) {
  return a == Axis::kClusterX || a == Axis::kClusterY;
}
inline bool is_thread(Axis a) {
  return a >= Axis::kWarpgroup && a <= Axis::kThreadZ;
}

// Annotation keys are fixed: what a pass does not know cannot be attached. Values are index expressions.
//   pipeline_*: stages, roles and asynchronous copies of a pipelined loop; its meaning is the sequential loop.
//   unroll_max: expand inner loops while at most this many statements result.
//   persistent_blocks: at most this many blocks of a grid run; each computes several tiles.
//   cooperative_fetch: the threads of a block share the loop's copies, this many elements a thread and round.
//   min_threads: a grid loop whose blocks have fewer threads is rejected.
//   prefetch, nontemporal: hints to the CPU emitter. prefetch_lines: accesses of more cache lines ask for none.
//   prefetch_weights: weights are asked for this many iterations ahead.
//   launch_bounds: this many blocks are resident on a multiprocessor.
//   tail: what becomes of the predicates that a non-dividing tile puts on the loop (TailMode).
//   tree_reduce: the iterations of a loop that combines values into one place may be combined in any order; on a loop
//     with roles, in at most this many parts that different blocks sum.
//   complete_tiles: of a loop that is written out; 1: the local elements that it updates are complete after each copy
//     of its body, and the compiler moves no loads of the next copy ahead.
//   transpose_accesses: accesses below the loop whose lanes are apart in memory are made by squares of at most this
//   many
//     rows and columns, which are transposed in registers.
//   access_bytes: of a vectorized loop on a GPU; its lanes become accesses of at most this many bytes.
// clang-format off
#define TCC_IR_ANNOTATIONS(X)              \
  X(PipelineAsync, "pipeline_async")       \
  X(PipelineRole, "pipeline_role")         \
  X(PipelineDepth, "pipeline_depth")       \
  X(UnrollMax, "unroll_max")               \
  X(PersistentBlocks, "persistent_blocks") \
  X(CooperativeFetch, "cooperative_fetch") \
  X(MinThreads, "min_threads")             \
  X(Prefetch, "prefetch")                  \
  X(NonTemporal, "nontemporal")            \
  X(LaunchBounds, "launch_bounds")         \
  X(Tail, "tail")                          \
  X(TreeReduce, "tree_reduce")             \
  X(CompleteTiles, "complete_tiles")       \
  X(PrefetchLines, "prefetch_lines")       \
  X(TransposeAccesses, "transpose_accesses") \
  X(AccessBytes, "access_bytes")         \
  X(PrefetchWeights, "prefetch_weights") \
  X(PrefetchPanel, "prefetch_panel")     \
  X(PrefetchBlock, "prefetch_block")
// clang-format on
enum class AnnotationKey : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_IR_ANNOTATIONS(TCC_X)
#undef TCC_X
};
std::string_view annotation_name(AnnotationKey key);
enum class TailMode : uint8_t {
  kMask,   // every access keeps its predicate
  kPeel,   // whole tiles run without predicates, the last one in a copy with them
  kPad,    // values in local buffers are computed for the overhang too, from zeros; only what leaves them is predicated
  kShift,  // of a map: the last tile begins earlier and ends with the loop, and stores some elements twice
};
struct Annotation {
  AnnotationKey key;
  Expr value;
};

struct Seq : StmtNode {
  std::span<const Stmt> stmts;  // at least two, none of them a Seq
};
// for id in [0, extent): body. The loop variable is Var(id).
struct Loop : StmtNode {
  Id id;
  LoopKind loop_kind;
  Axis axis;  // kNone unless loop_kind is kBound
  Expr extent;
  std::span<const Annotation> annotations;
  Stmt body;
};

enum class IterKind : uint8_t {
  kSpatial,  // instances are independent
  kReduce,   // instances are combined by the block's reducer, in any order
  kCarried,  // ordered state (scan, online softmax): never reordered past another carried or reduce loop
};
std::string_view iter_kind_name(IterKind kind);
struct Iter {
  Id id;  // Var(id) inside predicate, init and body
  IterKind kind;
  Expr extent;   // the iterator's range is [0, extent)
  Expr binding;  // its value as an index expression of enclosing loops (and outer block iterators)
};
// A reducer: accumulators, identity and an associative combiner. The block's body spells the combination out and its
// init stores the identity; the kind tells rfactor, cross-thread reduction and split-K what they may assume.
enum class ReducerKind : uint8_t {
  kNone,
  kSum,
  kProd,
  kMax,
  kMin,
};
std::string_view reducer_name(ReducerKind kind);

// An instance of the block runs for each iteration of the enclosing loops where `predicate` holds. A reduction block
// has an init: it runs once per spatial instance before the first update.
struct Block : StmtNode {
  Id id;
  ReducerKind reducer;
  std::span<const Iter> iters;
  Expr predicate;  // over loop variables; nullptr: always
  Stmt init;       // nullptr unless there are reduce iterators
  Stmt body;
  std::span<const Annotation> annotations;
};
struct Store : StmtNode {
  Id buffer;
  std::span<const Expr> indices;
  Expr value;
  Expr predicate;  // nullptr: always
};
struct If : StmtNode {
  Expr condition;
  Stmt then_case;
  Stmt else_case;  // nullptr: nothing
};
// Storage of the buffers lives for one execution of the body; contents start undefined. Stage::Nest and later; before,
// a temporary buffer lives at the innermost loop that encloses all of its accesses.
struct Alloc : StmtNode {
  std::span<const Id> buffers;
  Stmt body;
};
// An operand: the tile of `buffer` whose first element is at `indices`.
struct Operand {
  Id buffer;
  std::span<const Expr> indices;
};
// One instruction of the table in ir/instr.h, `instr` is its row number.
struct InstrCall : StmtNode {
  int32_t instr;
  std::span<const Operand> operands;
  std::span<const Expr> args;  // scalar arguments (group counts, parities, bytes, masks)
  Expr predicate;              // nullptr: always; for per-thread instructions only
};
// Disjoint thread subsets of a block that meet only through barriers.
struct Role {
  int32_t first_warp;  // warps [first_warp, first_warp + warps) of the block run `body`
  int32_t warps;
  int32_t registers;  // per thread (setmaxnreg); 0: unchanged
  Stmt body;
};
struct Roles : StmtNode {
  std::span<const Role> roles;
};

template <class T>
const T* as(Stmt s);

inline bool may_mention(Stmt s, Id id) {
  return (s->ids & id_bit(id)) != 0;
}
bool equal(Stmt a, Stmt b);

namespace detail {
template <class T>
constexpr StmtKind stmt_kind();
#define TCC_X(K)                      \
  template <>                         \
  constexpr StmtKind stmt_kind<K>() { \
    return StmtKind::k##K;            \
  }
TCC_IR_STMT_KINDS(TCC_X)
#undef TCC_X
}  // namespace detail
template <class T>
const T* as(Stmt s) {
  return s->kind == detail::stmt_kind<T>() ? static_cast<const T*>(s) : nullptr;
}

}  // namespace tcc::ir
