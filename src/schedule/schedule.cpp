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
std::vector<ExprRv> expr_list(int first, int n) {
  std::vector<ExprRv> out;
  for (int i = 0; i < n; ++i) out.push_back({variable(first < 0 ? -1 : first + i)});
  return out;
}
}  // namespace

std::vector<ExprRv> Schedule::sample_perfect_tile(LoopRv loop, int n, int64_t max_innermost) {
  return expr_list(step(Op::kSamplePerfectTile, {loop}, {n, max_innermost}, n, n), n);
}
std::vector<ExprRv> Schedule::sample_tile(LoopRv loop, int n, int64_t max_innermost, int64_t multiple, ExprRv* tail,
                                          int64_t modes) {
  const ir::Loop* l = ok() ? ir::find_loop(kernel().root, id(loop)) : nullptr;
  int64_t extent = l != nullptr && ir::is_int(l->extent) ? ir::int_value(l->extent) : 0;
  int first = step(Op::kSampleTile, {loop}, {n, max_innermost, multiple, extent, modes}, n + 1, n + 1);
  if (tail != nullptr) *tail = {variable(first < 0 ? -1 : first + n)};
  return expr_list(first, n);
}
ExprRv Schedule::sample_categorical(std::span<const int64_t> candidates, std::span<const double> probabilities) {
  std::vector<int64_t> attrs(candidates.begin(), candidates.end());
  for (double p : probabilities) attrs.push_back(static_cast<int64_t>(p * 1e6 + 0.5));
  return {variable(step(Op::kSampleCategorical, {}, std::move(attrs), 1, 1))};
}
std::vector<LoopRv> Schedule::split(LoopRv loop, std::span<const ExprRv> factors) {
  std::vector<Input> inputs = {loop};
  inputs.insert(inputs.end(), factors.begin(), factors.end());
  const int n = static_cast<int>(factors.size()), first = step(Op::kSplit, std::move(inputs), {}, n);
  std::vector<LoopRv> out;
  for (int i = 0; i < n; ++i) out.push_back({first < 0 ? -1 : first + i});
  return out;
}
void Schedule::transform_layout(BlockRv block, int read_index, std::span<const int32_t> order,
                                std::span<const std::pair<int32_t, int64_t>> tiles) {
  std::vector<int64_t> attrs = {read_index, static_cast<int64_t>(order.size())};
  attrs.insert(attrs.end(), order.begin(), order.end());
  for (const auto& [d, tile] : tiles) attrs.push_back(d), attrs.push_back(tile);
  step(Op::kTransformLayout, {block}, std::move(attrs), 0);
}
LoopRv Schedule::stream_reduction(BlockRv block, ExprRv tile_keys, ExprRv tile_rows, std::optional<ExprRv> group) {
  std::vector<Input> inputs = {block, tile_keys, tile_rows};
  if (group) inputs.push_back(*group);
  return {step(Op::kStreamReduction, std::move(inputs), {}, 1)};
}
void Schedule::transform_block_layout(BlockRv block, std::span<const std::vector<IterDigit>> map) {
  std::vector<int64_t> attrs;
  for (const std::vector<IterDigit>& digits : map) {
    attrs.push_back(static_cast<int64_t>(digits.size()));
    for (const IterDigit& d : digits) attrs.insert(attrs.end(), {d.iter, d.divisor, d.extent});
  }
  step(Op::kTransformBlockLayout, {block}, std::move(attrs), 0);
}

}  // namespace tcc::schedule
