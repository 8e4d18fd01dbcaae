#include "tcc/schedule/schedule.h"

#include "tcc/ir/walk.h"

namespace tcc::schedule {

Schedule::Schedule(const Kernel& start, const ArenaPtr& arena, Rng* rng)
    : executor_(start, arena, rng != nullptr ? Mode::kSample : Mode::kReplay, rng) {}

int Schedule::step(Op op, std::vector<Input> inputs, std::vector<int64_t> attrs, int outputs, int decision_length,
                   std::string text) {
  if (reject_) return -1;
  for (const Input& i : inputs)
    if (i.kind == Input::Kind::kVariable && i.value < 0) {
      reject_ = Reject{RejectReason::kUnknownHandle, fmt::format("{} of an invalid handle", op_name(op))};
      return -1;
    }
  Instruction in{op, std::move(inputs), std::move(attrs), std::move(text), trace_.variables, outputs,
                 -1, decision_length};
  std::vector<int64_t> decision(static_cast<size_t>(decision_length), 1);
  if (op == Op::kSampleTile && !decision.empty()) decision.back() = 0;
  if (decision_length > 0) in.decision = static_cast<int>(trace_.decisions.size());
  Legal<void> done = executor_.run(in, decision);
  if (!done) {
    reject_ = std::move(done).error();
    return -1;
  }
  in.outputs = outputs < 0 ? executor_.last_outputs() : outputs;
  trace_.decisions.insert(trace_.decisions.end(), decision.begin(), decision.end());
  trace_.variables += in.outputs;
  int first = in.first_output;
  trace_.instructions.push_back(std::move(in));
  return first;
}

namespace {
template <class Rv>
std::vector<Rv> list(int first, int n) {
  std::vector<Rv> out;
  for (int i = 0; i < n; ++i) out.push_back({first < 0 ? -1 : first + i});
  return out;
}
std::vector<ExprRv> expr_list(int first, int n) {
  std::vector<ExprRv> out;
  for (int i = 0; i < n; ++i) out.push_back({variable(first < 0 ? -1 : first + i)});
  return out;
}
}  // namespace

BlockRv Schedule::get_block(const std::string& name) {
  return {step(Op::kGetBlock, {}, {}, 1, 0, name)};
}
std::vector<LoopRv> Schedule::get_loops(BlockRv block) {
  int first = step(Op::kGetLoops, {variable(block.rv)}, {}, -1);
  return first < 0 ? std::vector<LoopRv>{} : list<LoopRv>(first, executor_.last_outputs());
}
std::vector<BlockRv> Schedule::get_producers(BlockRv block) {
  int first = step(Op::kGetProducers, {variable(block.rv)}, {}, -1);
  return first < 0 ? std::vector<BlockRv>{} : list<BlockRv>(first, executor_.last_outputs());
}
std::vector<BlockRv> Schedule::get_consumers(BlockRv block) {
  int first = step(Op::kGetConsumers, {variable(block.rv)}, {}, -1);
  return first < 0 ? std::vector<BlockRv>{} : list<BlockRv>(first, executor_.last_outputs());
}
std::vector<ExprRv> Schedule::sample_perfect_tile(LoopRv loop, int n, int64_t max_innermost) {
  return expr_list(step(Op::kSamplePerfectTile, {variable(loop.rv)}, {n, max_innermost}, n, n), n);
}
std::vector<ExprRv> Schedule::sample_tile(LoopRv loop, int n, int64_t max_innermost, int64_t multiple, ExprRv* tail,
                                          int64_t modes) {
  const ir::Loop* l = ok() ? ir::find_loop(kernel().root, id(loop)) : nullptr;
  int64_t extent = l != nullptr && ir::is_int(l->extent) ? ir::int_value(l->extent) : 0;
  int first = step(Op::kSampleTile, {variable(loop.rv)}, {n, max_innermost, multiple, extent, modes}, n + 1, n + 1);
  if (tail != nullptr) *tail = {variable(first < 0 ? -1 : first + n)};
  return expr_list(first, n);
}
ExprRv Schedule::sample_categorical(std::span<const int64_t> candidates, std::span<const double> probabilities) {
  std::vector<int64_t> attrs(candidates.begin(), candidates.end());
  for (double p : probabilities) attrs.push_back(static_cast<int64_t>(p * 1e6 + 0.5));
  return {variable(step(Op::kSampleCategorical, {}, std::move(attrs), 1, 1))};
}
LoopRv Schedule::sample_compute_location(BlockRv block) {
  return {step(Op::kSampleComputeLocation, {variable(block.rv)}, {}, 1, 1)};
}

std::vector<LoopRv> Schedule::split(LoopRv loop, std::span<const ExprRv> factors) {
  std::vector<Input> inputs = {variable(loop.rv)};
  for (const ExprRv& f : factors) inputs.push_back(f.input);
  int n = static_cast<int>(factors.size());
  return list<LoopRv>(step(Op::kSplit, std::move(inputs), {}, n), n);
}
LoopRv Schedule::fuse(std::span<const LoopRv> loops) {
  std::vector<Input> inputs;
  for (LoopRv l : loops) inputs.push_back(variable(l.rv));
  return {step(Op::kFuse, std::move(inputs), {}, 1)};
}
void Schedule::reorder(std::span<const LoopRv> loops) {
  std::vector<Input> inputs;
  for (LoopRv l : loops) inputs.push_back(variable(l.rv));
  step(Op::kReorder, std::move(inputs), {}, 0);
}
void Schedule::compute_at(BlockRv block, LoopRv loop) {
  step(Op::kComputeAt, {variable(block.rv), variable(loop.rv)}, {}, 0);
}
void Schedule::reverse_compute_at(BlockRv block, LoopRv loop) {
  step(Op::kReverseComputeAt, {variable(block.rv), variable(loop.rv)}, {}, 0);
}
void Schedule::compute_inline(BlockRv block) {
  step(Op::kComputeInline, {variable(block.rv)}, {}, 0);
}
void Schedule::reverse_compute_inline(BlockRv block) {
  step(Op::kReverseComputeInline, {variable(block.rv)}, {}, 0);
}
BlockRv Schedule::cache_read(BlockRv block, int read_index, ir::Scope scope) {
  return {step(Op::kCacheRead, {variable(block.rv)}, {read_index, static_cast<int64_t>(scope)}, 1)};
}
BlockRv Schedule::cache_write(BlockRv block, ir::Scope scope) {
  return {step(Op::kCacheWrite, {variable(block.rv)}, {static_cast<int64_t>(scope)}, 1)};
}
BlockRv Schedule::decompose_reduction(BlockRv block, LoopRv loop) {
  return {step(Op::kDecomposeReduction, {variable(block.rv), variable(loop.rv)}, {}, 1)};
}
BlockRv Schedule::rfactor(BlockRv block, LoopRv loop) {
  return {step(Op::kRfactor, {variable(block.rv), variable(loop.rv)}, {}, 1)};
}
void Schedule::parallel(LoopRv loop) {
  step(Op::kParallel, {variable(loop.rv)}, {}, 0);
}
void Schedule::vectorize(LoopRv loop) {
  step(Op::kVectorize, {variable(loop.rv)}, {}, 0);
}
void Schedule::unroll(LoopRv loop) {
  step(Op::kUnroll, {variable(loop.rv)}, {}, 0);
}
void Schedule::bind(LoopRv loop, ir::Axis axis) {
  step(Op::kBind, {variable(loop.rv)}, {static_cast<int64_t>(axis)}, 0);
}
void Schedule::annotate(LoopRv loop, ir::AnnotationKey key, ExprRv value) {
  step(Op::kAnnotate, {variable(loop.rv), value.input}, {static_cast<int64_t>(key)}, 0);
}
void Schedule::annotate(BlockRv block, ir::AnnotationKey key, ExprRv value) {
  step(Op::kAnnotate, {variable(block.rv), value.input}, {static_cast<int64_t>(key)}, 0);
}
void Schedule::transform_layout(BlockRv block, int read_index, std::span<const int32_t> order,
                                std::span<const std::pair<int32_t, int64_t>> tiles) {
  std::vector<int64_t> attrs = {read_index, static_cast<int64_t>(order.size())};
  attrs.insert(attrs.end(), order.begin(), order.end());
  for (const auto& [d, tile] : tiles) attrs.push_back(d), attrs.push_back(tile);
  step(Op::kTransformLayout, {variable(block.rv)}, std::move(attrs), 0);
}
void Schedule::pad_einsum(BlockRv block, std::span<const int64_t> multiples) {
  step(Op::kPadEinsum, {variable(block.rv)}, {multiples.begin(), multiples.end()}, 0);
}
void Schedule::tensorize(LoopRv loop, std::string_view instruction) {
  step(Op::kTensorize, {variable(loop.rv)}, {}, 0, 0, std::string(instruction));
}
void Schedule::tensorize(BlockRv blockized, std::string_view instruction) {
  step(Op::kTensorize, {variable(blockized.rv)}, {}, 0, 0, std::string(instruction));
}
void Schedule::set_scope(BlockRv block, ir::Scope scope) {
  step(Op::kSetScope, {variable(block.rv)}, {static_cast<int64_t>(scope)}, 0);
}
void Schedule::storage_align(BlockRv block, int dim, int64_t factor, int64_t offset) {
  step(Op::kStorageAlign, {variable(block.rv)}, {dim, factor, offset}, 0);
}
void Schedule::unannotate(LoopRv loop, ir::AnnotationKey key) {
  step(Op::kUnannotate, {variable(loop.rv)}, {static_cast<int64_t>(key)}, 0);
}
void Schedule::unannotate(BlockRv block, ir::AnnotationKey key) {
  step(Op::kUnannotate, {variable(block.rv)}, {static_cast<int64_t>(key)}, 0);
}
LoopRv Schedule::add_unit_loop(LoopRv loop) {
  return {step(Op::kAddUnitLoop, {variable(loop.rv)}, {}, 1)};
}
LoopRv Schedule::add_unit_loop(BlockRv block) {
  return {step(Op::kAddUnitLoop, {variable(block.rv)}, {}, 1)};
}
std::vector<BlockRv> Schedule::get_child_blocks(LoopRv loop) {
  int first = step(Op::kGetChildBlocks, {variable(loop.rv)}, {}, -1);
  return first < 0 ? std::vector<BlockRv>{} : list<BlockRv>(first, executor_.last_outputs());
}
std::vector<BlockRv> Schedule::get_child_blocks(BlockRv block) {
  return get_child_blocks(LoopRv{block.rv});
}
std::vector<BlockRv> Schedule::get_output_blocks() {
  int first = step(Op::kGetOutputBlocks, {}, {}, -1);
  return first < 0 ? std::vector<BlockRv>{} : list<BlockRv>(first, executor_.last_outputs());
}
BlockRv Schedule::read_at(BlockRv block, LoopRv loop, int read_index, ir::Scope scope) {
  return {step(Op::kReadAt, {variable(block.rv), variable(loop.rv)}, {read_index, static_cast<int64_t>(scope)}, 1)};
}
BlockRv Schedule::write_at(BlockRv block, LoopRv loop, ir::Scope scope) {
  return {step(Op::kWriteAt, {variable(block.rv), variable(loop.rv)}, {static_cast<int64_t>(scope)}, 1)};
}
BlockRv Schedule::reindex(BlockRv block, int read_index) {
  return {step(Op::kReindex, {variable(block.rv)}, {read_index}, 1)};
}
BlockRv Schedule::decompose_padding(BlockRv block, LoopRv loop) {
  return {step(Op::kDecomposePadding, {variable(block.rv), variable(loop.rv)}, {}, 1)};
}
LoopRv Schedule::stream_reduction(BlockRv block, ExprRv tile_keys, ExprRv tile_rows, std::optional<ExprRv> group) {
  std::vector<Input> inputs = {variable(block.rv), tile_keys.input, tile_rows.input};
  if (group) inputs.push_back(group->input);
  return {step(Op::kStreamReduction, std::move(inputs), {}, 1)};
}
void Schedule::transform_block_layout(BlockRv block, std::span<const std::vector<IterDigit>> map) {
  std::vector<int64_t> attrs;
  for (const std::vector<IterDigit>& digits : map) {
    attrs.push_back(static_cast<int64_t>(digits.size()));
    for (const IterDigit& d : digits) attrs.insert(attrs.end(), {d.iter, d.divisor, d.extent});
  }
  step(Op::kTransformBlockLayout, {variable(block.rv)}, std::move(attrs), 0);
}
BlockRv Schedule::blockize(LoopRv loop) {
  return {step(Op::kBlockize, {variable(loop.rv)}, {}, 1)};
}

}  // namespace tcc::schedule
