// Trace: the one record of a schedule. A skeleton of instructions and the decisions of its sampling instructions
// (MetaSchedule, section 4). Everything that makes a program makes a trace; everything else replays it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tcc/schedule/primitives.h"
#include "tcc/support/result.h"
#include "tcc/support/rng.h"

namespace tcc::schedule {

// X(Kind, "text"). One row and one .cpp a primitive.
#define TCC_SCHEDULE_OPS(X)                           \
  X(GetBlock, "get_block")                            \
  X(GetLoops, "get_loops")                            \
  X(GetProducers, "get_producers")                    \
  X(GetConsumers, "get_consumers")                    \
  X(SamplePerfectTile, "sample_perfect_tile")         \
  X(SampleTile, "sample_tile")                        \
  X(SampleCategorical, "sample_categorical")          \
  X(SampleComputeLocation, "sample_compute_location") \
  X(Split, "split")                                   \
  X(Fuse, "fuse")                                     \
  X(Reorder, "reorder")                               \
  X(ComputeAt, "compute_at")                          \
  X(ReverseComputeAt, "reverse_compute_at")           \
  X(ComputeInline, "compute_inline")                  \
  X(ReverseComputeInline, "reverse_compute_inline")   \
  X(CacheRead, "cache_read")                          \
  X(CacheWrite, "cache_write")                        \
  X(DecomposeReduction, "decompose_reduction")        \
  X(Parallel, "parallel")                             \
  X(Vectorize, "vectorize")                           \
  X(Unroll, "unroll")                                 \
  X(Bind, "bind")                                     \
  X(Annotate, "annotate")                             \
  X(TransformLayout, "transform_layout")              \
  X(Rfactor, "rfactor")                               \
  X(PadEinsum, "pad_einsum")                          \
  X(Tensorize, "tensorize")                           \
  X(SetScope, "set_scope")                            \
  X(StorageAlign, "storage_align")                    \
  X(Unannotate, "unannotate")                         \
  X(AddUnitLoop, "add_unit_loop")                     \
  X(Blockize, "blockize")                             \
  X(GetChildBlocks, "get_child_blocks")               \
  X(GetOutputBlocks, "get_output_blocks")             \
  X(ReadAt, "read_at")                                \
  X(WriteAt, "write_at")                              \
  X(Reindex, "reindex")                               \
  X(DecomposePadding, "decompose_padding")            \
  X(TransformBlockLayout, "transform_block_layout") X(StreamReduction, "stream_reduction")

enum class Op : uint8_t {
#define TCC_X(kind, text) k##kind,
  TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
};
std::string_view op_name(Op op);
bool is_sampling(Op op);

// An input: a random variable of the trace, an integer literal, or "inferred" (split factors only).
struct Input {
  enum class Kind : uint8_t { kVariable, kLiteral, kInferred } kind;
  int64_t value;
  bool operator==(const Input&) const = default;
};
inline Input variable(int rv) {
  return {Input::Kind::kVariable, rv};
}
inline Input literal(int64_t v) {
  return {Input::Kind::kLiteral, v};
}
inline constexpr Input kInferred{Input::Kind::kInferred, 0};

struct Instruction {
  Op op;
  std::vector<Input> inputs;
  std::vector<int64_t> attrs;  // per op, see schedule/ops.cpp
  std::string text;            // get_block: the name; tensorize: the instruction
  int first_output = 0;        // outputs are variables first_output .. first_output + outputs - 1
  int outputs = 0;
  int decision = -1;  // sampling: offset into the decisions
  int decision_length = 0;
  bool operator==(const Instruction&) const = default;
};

struct Trace {
  std::vector<Instruction> instructions;
  std::vector<int64_t> decisions;  // of all sampling instructions, in order
  int variables = 0;

  bool operator==(const Trace&) const = default;
};
// Hash of the instructions alone.
uint64_t skeleton_hash(const Trace& trace);

// What a variable holds during execution: a loop, a block or an integer expression.
struct Value {
  Id id = ir::kNoId;
  Expr expr = nullptr;
};

enum class Mode : uint8_t {
  kSample,    // draw decisions from the generator
  kReplay,    // take decisions from the trace; sample_perfect_tile repairs lists that no longer divide
  kSymbolic,  // integer decisions become decision scalars of the kernel; structural ones are taken from the trace
};

// Runs instructions on a kernel. The kernel's new nodes go to `arena`, which keeps the start kernel's arena alive.
class Executor {
 public:
  Executor(const Kernel& start, const ArenaPtr& arena, Mode mode, Rng* rng);

  // decision: in (kReplay, kSymbolic) and out (what was used).
  Legal<void> run(const Instruction& instruction, std::span<int64_t> decision);

  const Kernel& kernel() const { return kernel_; }
  Kernel& kernel() { return kernel_; }
  const Value& value(int rv) const { return values_[static_cast<size_t>(rv)]; }
  // Symbolic mode: scalar id of each decision slot, kNoId for structural ones.
  const std::vector<Id>& symbols() const { return symbols_; }
  // Number of outputs the last get_loops, get_producers, ... produced (recording needs it).
  int last_outputs() const { return last_outputs_; }

 private:
  friend struct Ops;
  Kernel kernel_;
  Mode mode_;
  Rng* rng_;
  std::vector<Value> values_;
  std::vector<Id> symbols_;
  int last_outputs_ = 0;
};

// Replays a trace with the given decisions (normally trace.decisions). `used` receives the repaired decisions if given.
Legal<Kernel> replay(const Trace& trace, std::span<const int64_t> decisions, const Kernel& start, const ArenaPtr& arena,
                     std::vector<int64_t>* used = nullptr);
// The same with every decision drawn afresh; the drawn decisions replace `decisions`.
Legal<Kernel> sample(const Trace& trace, std::vector<int64_t>& decisions, const Kernel& start, const ArenaPtr& arena,
                     Rng& rng);

// Redraws every decision that is not structural, without running the trace: `decisions` must be those of a successful
// replay, whose tiles tell the extents.
void draw_decisions(const Trace& trace, std::span<int64_t> decisions, Rng& rng);

// Changes one decision of `decisions` at random so that it stays in range; false when the trace has nothing to mutate.
// Weights by kind as in MetaSchedule's mutators (tile 0.9, rest shared).
bool mutate(const Trace& trace, std::span<int64_t> decisions, Rng& rng);

// Text (for people) and JSON (for records); both round-trip.
std::string print_trace(const Trace& trace);
Result<Trace> parse_trace(std::string_view text, std::string_view file = "<trace>");
std::string trace_to_json(const Trace& trace);
Result<Trace> trace_from_json(std::string_view text, std::string_view file = "<trace>");

}  // namespace tcc::schedule
