// Schedule: records a trace while it executes it. What modules, tests and people program against.
//
// The first illegal step is remembered; later calls do nothing and return invalid handles. Check ok() where it matters
// and once at the end.
#pragma once

#include <optional>

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

struct BlockRv {
  int rv = -1;
};
struct LoopRv {
  int rv = -1;
};
struct ExprRv {  // a sampled integer, a literal, or "inferred"
  Input input = kInferred;
};
inline ExprRv lit(int64_t v) {
  return {literal(v)};
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

  BlockRv get_block(const std::string& name);
  std::vector<LoopRv> get_loops(BlockRv block);
  std::vector<BlockRv> get_producers(BlockRv block);
  std::vector<BlockRv> get_consumers(BlockRv block);

  // n factors whose product is the extent; the last is at most max_innermost.
  std::vector<ExprRv> sample_perfect_tile(LoopRv loop, int n, int64_t max_innermost);
  // n factors, the first inferred as a ceiling: any tile size is possible. The last is at most max_innermost and a
  // multiple of `multiple` unless the extent is smaller.
  // The tail mode is sampled too, from `modes` (bits of TailMode); annotate the outermost tile with it (key kTail).
  std::vector<ExprRv> sample_tile(LoopRv loop, int n, int64_t max_innermost, int64_t multiple = 1,
                                  ExprRv* tail = nullptr, int64_t modes = 1 << static_cast<int>(ir::TailMode::kMask));
  ExprRv sample_categorical(std::span<const int64_t> candidates, std::span<const double> probabilities);
  // A loop to compute the block at, or an invalid handle that compute_at understands as "leave it" or "inline it".
  LoopRv sample_compute_location(BlockRv block);

  std::vector<LoopRv> split(LoopRv loop, std::span<const ExprRv> factors);
  LoopRv fuse(std::span<const LoopRv> loops);
  LoopRv merge(LoopRv first, LoopRv second) {
    return {step(Op::kMerge, {variable(first.rv), variable(second.rv)}, {}, 1)};
  }
  void reorder(std::span<const LoopRv> loops);
  void compute_at(BlockRv block, LoopRv loop);
  void reverse_compute_at(BlockRv block, LoopRv loop);
  void compute_inline(BlockRv block);
  void reverse_compute_inline(BlockRv block);
  BlockRv cache_read(BlockRv block, int read_index, ir::Scope scope);
  BlockRv cache_write(BlockRv block, ir::Scope scope);
  BlockRv decompose_reduction(BlockRv block, LoopRv loop);
  BlockRv rfactor(BlockRv block, LoopRv loop);
  void parallel(LoopRv loop);
  void vectorize(LoopRv loop);
  void unroll(LoopRv loop);
  void bind(LoopRv loop, ir::Axis axis);
  void annotate(LoopRv loop, ir::AnnotationKey key, ExprRv value);
  void annotate(BlockRv block, ir::AnnotationKey key, ExprRv value);
  // Blocked layout of the block's read_index-th read buffer; see primitives.h.
  void transform_layout(BlockRv block, int read_index, std::span<const int32_t> order,
                        std::span<const std::pair<int32_t, int64_t>> tiles);
  void pad_einsum(BlockRv block, std::span<const int64_t> multiples);
  void tensorize(LoopRv loop, std::string_view instruction);
  void tensorize(BlockRv blockized, std::string_view instruction);
  void set_scope(BlockRv block, ir::Scope scope);
  void storage_align(BlockRv block, int dim, int64_t factor, int64_t offset);
  void unannotate(LoopRv loop, ir::AnnotationKey key);
  void unannotate(BlockRv block, ir::AnnotationKey key);
  LoopRv add_unit_loop(LoopRv loop);
  LoopRv add_unit_loop(BlockRv block);
  BlockRv blockize(LoopRv loop);
  std::vector<BlockRv> get_child_blocks(LoopRv loop);
  std::vector<BlockRv> get_child_blocks(BlockRv block);
  std::vector<BlockRv> get_output_blocks();
  BlockRv read_at(BlockRv block, LoopRv loop, int read_index, ir::Scope scope);
  BlockRv write_at(BlockRv block, LoopRv loop, ir::Scope scope);
  // read_index -1: the result.
  BlockRv reindex(BlockRv block, int read_index);
  BlockRv decompose_padding(BlockRv block, LoopRv loop);
  // The loop over tiles of keys; see primitives.h. With `group`, tiles are whole.
  LoopRv stream_reduction(BlockRv block, ExprRv tile_keys, ExprRv tile_rows, std::optional<ExprRv> group = {});
  void transform_block_layout(BlockRv block, std::span<const std::vector<IterDigit>> map);

 private:
  // Runs and records; returns the first output variable, -1 after a reject.
  int step(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs, int outputs, int decision_length = 0,
           std::string text = {});

  Executor executor_;
  Trace trace_;
  std::optional<Reject> reject_;
};

}  // namespace tcc::schedule
