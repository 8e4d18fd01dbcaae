#include "tcc/task/task.h"

#include <algorithm>
#include <unordered_map>

#include "nest.h"
#include "tcc/graph/refusal.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::task {

using graph::Op;

std::string_view anchor_name(AnchorKind kind) {
#define TCC_X(name, text) text,
  static constexpr std::string_view kNames[] = {TCC_TASK_ANCHORS(TCC_X)};
#undef TCC_X
  return kNames[static_cast<size_t>(kind)];
}

std::string nodes_text(const GroupNodes& groups) {
  const auto named = std::find_if(groups.begin(), groups.end(), [](const auto& nodes) { return !nodes.empty(); });
  if (named == groups.end()) return "";
  std::string types;
  for (size_t i = 0; i < named->size(); ++i)
    if (i == 0 || (*named)[i].type != (*named)[i - 1].type) types += (i == 0 ? "" : "+") + (*named)[i].type;
  std::string text = fmt::format("{}: {}", named->front().name, types);
  if (groups.size() > 1) text += fmt::format(", {} more", groups.size() - 1);
  return text;
}

AnchorKind anchor_kind(const graph::Graph& graph, const graph::Node& node) {
  switch (graph::op_class(node.op)) {
    case graph::OpClass::kContraction: {
      if (node.op != Op::kConv) return AnchorKind::kGemm;
      int64_t channels = graph.value(node.inputs[0]).shape[1];
      bool depthwise = channels > 1 && node.as<graph::ConvAttrs>().group == channels;
      return depthwise ? AnchorKind::kDepthwiseConv : AnchorKind::kConv;
    }
    case graph::OpClass::kWindow:
      return AnchorKind::kPool;
    case graph::OpClass::kReduction:
      return node.as<graph::ReduceAttrs>().axes.empty() ? AnchorKind::kElementwise : AnchorKind::kReduction;
    case graph::OpClass::kRowwise:
      return AnchorKind::kSoftmax;
    case graph::OpClass::kElementwise:
      return AnchorKind::kElementwise;
    case graph::OpClass::kMove:
      return AnchorKind::kMove;
    case graph::OpClass::kView:
      break;
  }
  TCC_UNREACHABLE("{} makes no code", graph::op_name(node.op));
}

bool is_attention(const graph::Graph& graph, const graph::FusionGroup& group) {
  return graph.node(group.anchor).op == Op::kMatMul &&
         std::any_of(group.nodes.begin(), group.nodes.end(),
                     [&](graph::NodeId id) { return graph.node(id).op == Op::kSoftmax; });
}

ir::Id Task::anchor_id() const {
  for (const ir::Block* block : ir::collect_blocks(kernel.root))
    if (ir::name_hint(kernel, block->id) == anchor_block) return block->id;
  TCC_UNREACHABLE("no block {}", anchor_block);
}

namespace {

// Products of f32 that matrix instructions may serve. Each group of a depthwise convolution is a product with a vector.
bool multiplies_f32(const graph::Graph& graph, const graph::Node& anchor) {
  return graph::op_class(anchor.op) == graph::OpClass::kContraction &&
         graph.value(anchor.inputs[0]).dtype == graph::DType::kF32 &&
         anchor_kind(graph, anchor) != AnchorKind::kDepthwiseConv;
}

}  // namespace

Result<Task> make_task(const graph::Graph& graph, const graph::FusionGroup& group, const TaskOptions& options) {
  for (graph::NodeId id : group.nodes) {
    const graph::Node& node = graph.node(id);
    for (graph::ValueId input : node.inputs) {
      // `optimize` computes what does not depend on other inputs.
      if (node.op == Op::kConcat || graph.value(input).elements() > 0) continue;
      return graph::refusal(
          graph::Refusal::kNoElements,
          fmt::format("{} '{}' reads a tensor of shape {}, which has no elements, beside others",
                      graph::op_name(node.op), sanitize(node.name), graph::shape_text(graph.value(input).shape)),
          "give the model's inputs sizes of at least 1 (--shape, --dim)");
    }
  }
  Task task;
  GroupNest(graph, group, options).build(task);
  task.kernel.tf32 = options.tf32 && multiplies_f32(graph, graph.node(group.anchor));
  task.workload = workload_text(graph, group);
  if (task.kernel.tf32) task.workload += " by tf32";
  task.anchor = is_attention(graph, group) ? AnchorKind::kAttention : anchor_kind(graph, graph.node(group.anchor));
  task.flops = graph::group_flops(graph, group);
  task.key = fmt::format("{:016x}", ir::hash_kernel(task.kernel));
  task.nodes.push_back(graph::sources_of(graph, group.nodes));
  return task;
}

Result<TaskList> extract_tasks(const graph::Graph& graph, const std::vector<graph::FusionGroup>& groups,
                               const TaskOptions& options) {
  TaskList list;
  std::unordered_map<std::string, int64_t> known;
  for (const graph::FusionGroup& group : groups) {
    auto made = make_task(graph, group, options);
    if (!made) {
      return tl::make_unexpected(std::move(made).error().with_context(
          fmt::format("group {} ({})", group.id, graph::group_text(graph, group))));
    }
    auto [it, fresh] = known.emplace(made->key, static_cast<int64_t>(list.tasks.size()));
    list.bindings.push_back({it->second, made->params});
    if (fresh) {
      list.tasks.push_back(std::move(*made));
      continue;
    }
    Task& task = list.tasks[static_cast<size_t>(it->second)];
    ++task.weight;
    task.nodes.push_back(std::move(made->nodes.front()));
  }
  return list;
}

}  // namespace tcc::task
