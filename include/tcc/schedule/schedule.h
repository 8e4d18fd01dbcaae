// Schedule: records a trace while it executes it. What modules, tests and people program against.
//
// The first illegal step is remembered; later calls do nothing and return invalid handles. Check ok() where it matters
// and once at the end.
#pragma once

#include <initializer_list>
#include <optional>

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

struct BlockRv {
  int rv = -1;
  operator Input() const { return variable(rv); }
};
struct LoopRv {
  int rv = -1;
  operator Input() const { return variable(rv); }
};
struct ExprRv {  // a sampled integer, a literal, or "inferred"
  Input input = kInferred;
  operator Input() const { return input; }
};
inline ExprRv lit(int64_t v) {
  return {literal(v)};
}

inline void append(std::vector<LoopRv>& loops, LoopRv loop) {
  loops.push_back(loop);
}
inline void append(std::vector<LoopRv>& loops, std::span<const LoopRv> more) {
  loops.insert(loops.end(), more.begin(), more.end());
}
// One list of loops and lists of loops.
template <class... Parts>
std::vector<LoopRv> joined(const Parts&... parts) {
  std::vector<LoopRv> loops;
  (append(loops, parts), ...);
  return loops;
}

class Schedule {
 public:
  Schedule(const Kernel& start, const ArenaPtr& arena, Rng* rng);

  bool ok() const { return !reject_.has_value(); }
  const Reject& reject() const { return *reject_; }
  const Kernel& kernel() const { return executor_.kernel(); }
  const Trace& trace() const { return trace_; }
  Id id(BlockRv b) const { return b.rv < 0 ? ir::kNoId : executor_.value(b.rv).id; }
  Id id(LoopRv l) const { return l.rv < 0 ? ir::kNoId : executor_.value(l.rv).id; }
  // Forgets a failed step, so that a module can try another way.
  void clear_reject() { reject_.reset(); }

  BlockRv get_block(const std::string& name) { return {step(Op::kGetBlock, {}, {}, 1, 0, name)}; }
  std::vector<LoopRv> get_loops(BlockRv block) { return found<LoopRv>(Op::kGetLoops, {block}); }
  std::vector<BlockRv> get_producers(BlockRv block) { return found<BlockRv>(Op::kGetProducers, {block}); }
  std::vector<BlockRv> get_consumers(BlockRv block) { return found<BlockRv>(Op::kGetConsumers, {block}); }

  // n factors whose product is the extent; the last is at most max_innermost.
  std::vector<ExprRv> sample_perfect_tile(LoopRv loop, int n, int64_t max_innermost);
  // n factors, the first inferred as a ceiling: any tile size is possible. The last is at most max_innermost and a
  // multiple of `multiple` unless the extent is smaller.
  // The tail mode is sampled too, from `modes` (bits of TailMode); annotate the outermost tile with it (key kTail).
  std::vector<ExprRv> sample_tile(LoopRv loop, int n, int64_t max_innermost, int64_t multiple = 1,
                                  ExprRv* tail = nullptr, int64_t modes = 1 << static_cast<int>(ir::TailMode::kMask));
  ExprRv sample_categorical(std::span<const int64_t> candidates, std::span<const double> probabilities);
  ExprRv sample_categorical(std::initializer_list<int64_t> candidates, std::initializer_list<double> probabilities) {
    return sample_categorical(std::span(candidates.begin(), candidates.size()),
                              std::span(probabilities.begin(), probabilities.size()));
  }
  // A loop to compute the block at, or an invalid handle that compute_at understands as "leave it" or "inline it".
  LoopRv sample_compute_location(BlockRv block) { return {step(Op::kSampleComputeLocation, {block}, {}, 1, 1)}; }

  std::vector<LoopRv> split(LoopRv loop, std::span<const ExprRv> factors);
  std::vector<LoopRv> split(LoopRv loop, std::initializer_list<ExprRv> factors) {
    return split(loop, std::span(factors.begin(), factors.size()));
  }
  LoopRv fuse(std::span<const LoopRv> loops) { return {step(Op::kFuse, {loops.begin(), loops.end()}, {}, 1)}; }
  LoopRv merge(LoopRv first, LoopRv second) { return {step(Op::kMerge, {first, second}, {}, 1)}; }
  void reorder(std::span<const LoopRv> loops) { step(Op::kReorder, {loops.begin(), loops.end()}, {}, 0); }
  // Loops and lists of loops, outermost first.
  template <class First, class... Rest>
    requires(sizeof...(Rest) > 0)
  void reorder(const First& first, const Rest&... rest) {
    reorder(joined(first, rest...));
  }
  void compute_at(BlockRv block, LoopRv loop) { step(Op::kComputeAt, {block, loop}, {}, 0); }
  void reverse_compute_at(BlockRv block, LoopRv loop) { step(Op::kReverseComputeAt, {block, loop}, {}, 0); }
  void compute_inline(BlockRv block) { step(Op::kComputeInline, {block}, {}, 0); }
  void reverse_compute_inline(BlockRv block) { step(Op::kReverseComputeInline, {block}, {}, 0); }
  BlockRv cache_read(BlockRv block, int read_index, ir::Scope scope) {
    return {step(Op::kCacheRead, {block}, {read_index, code(scope)}, 1)};
  }
  BlockRv cache_reads(BlockRv block, int read_index, ir::Scope scope) {
    return {step(Op::kCacheReads, {block}, {read_index, code(scope)}, 1)};
  }
  BlockRv cache_write(BlockRv block, ir::Scope scope) { return {step(Op::kCacheWrite, {block}, {code(scope)}, 1)}; }
  BlockRv decompose_reduction(BlockRv block, LoopRv loop) {
    return {step(Op::kDecomposeReduction, {block, loop}, {}, 1)};
  }
  BlockRv rfactor(BlockRv block, LoopRv loop) { return {step(Op::kRfactor, {block, loop}, {}, 1)}; }
  void parallel(LoopRv loop) { step(Op::kParallel, {loop}, {}, 0); }
  void vectorize(LoopRv loop) { step(Op::kVectorize, {loop}, {}, 0); }
  void unroll(LoopRv loop) { step(Op::kUnroll, {loop}, {}, 0); }
  void bind(LoopRv loop, ir::Axis axis) { step(Op::kBind, {loop}, {code(axis)}, 0); }
  // `at`: a loop or a block.
  void annotate(Input at, ir::AnnotationKey key, ExprRv value) { step(Op::kAnnotate, {at, value}, {code(key)}, 0); }
  // Blocked layout of the block's read_index-th read buffer; see primitives.h.
  void transform_layout(BlockRv block, int read_index, std::span<const int32_t> order,
                        std::span<const std::pair<int32_t, int64_t>> tiles);
  void pad_einsum(BlockRv block, std::span<const int64_t> multiples) {
    step(Op::kPadEinsum, {block}, {multiples.begin(), multiples.end()}, 0);
  }
  // `at`: a loop, or a block that blockize made.
  void tensorize(Input at, std::string_view instruction) {
    step(Op::kTensorize, {at}, {}, 0, 0, std::string(instruction));
  }
  void set_scope(BlockRv block, ir::Scope scope) { step(Op::kSetScope, {block}, {code(scope)}, 0); }
  void storage_align(BlockRv block, int dim, int64_t factor, int64_t offset) {
    step(Op::kStorageAlign, {block}, {dim, factor, offset}, 0);
  }
  void unannotate(Input at, ir::AnnotationKey key) { step(Op::kUnannotate, {at}, {code(key)}, 0); }
  LoopRv add_unit_loop(Input at) { return {step(Op::kAddUnitLoop, {at}, {}, 1)}; }
  BlockRv blockize(LoopRv loop) { return {step(Op::kBlockize, {loop}, {}, 1)}; }
  std::vector<BlockRv> get_child_blocks(Input at) { return found<BlockRv>(Op::kGetChildBlocks, {at}); }
  std::vector<BlockRv> get_output_blocks() { return found<BlockRv>(Op::kGetOutputBlocks, {}); }
  BlockRv read_at(BlockRv block, LoopRv loop, int read_index, ir::Scope scope) {
    return {step(Op::kReadAt, {block, loop}, {read_index, code(scope)}, 1)};
  }
  BlockRv write_at(BlockRv block, LoopRv loop, ir::Scope scope) {
    return {step(Op::kWriteAt, {block, loop}, {code(scope)}, 1)};
  }
  // read_index -1: the result.
  BlockRv reindex(BlockRv block, int read_index) { return {step(Op::kReindex, {block}, {read_index}, 1)}; }
  BlockRv decompose_padding(BlockRv block, LoopRv loop) { return {step(Op::kDecomposePadding, {block, loop}, {}, 1)}; }
  // The loop over tiles of keys; see primitives.h. With `group`, tiles are whole.
  LoopRv stream_reduction(BlockRv block, ExprRv tile_keys, ExprRv tile_rows, std::optional<ExprRv> group = {});
  void transform_block_layout(BlockRv block, std::span<const std::vector<IterDigit>> map);

 private:
  // Runs and records; returns the first output variable, -1 after a reject.
  int step(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs, int outputs, int decision_length = 0,
           std::string text = {});
  // A query's results, as many as there are.
  template <class Rv>
  std::vector<Rv> found(Op op, std::vector<Input> inputs) {
    const int first = step(op, std::move(inputs), {}, -1);
    std::vector<Rv> out;
    for (int i = 0; first >= 0 && i < executor_.last_outputs(); ++i) out.push_back({first + i});
    return out;
  }
  template <class E>
  static int64_t code(E e) {
    return static_cast<int64_t>(e);
  }

  Executor executor_;
  Trace trace_;
  std::optional<Reject> reject_;
};

}  // namespace tcc::schedule
