// A fusion group as a tuning task: a plain loop nest (correct, slow), a key that equal computations share, and the
// binding of the kernel's parameters to the group's values.
//
// The nest has one block per operator, written to a temporary each; schedules inline them. Weights, biases and other
// constants are parameters of role kWeight. f16 and bf16 groups compute in f32 and round once, at the output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/kernel.h"

namespace tcc::task {

// X(enumerator, text): what the first operator of the group is.
// clang-format off
#define TCC_TASK_ANCHORS(X) \
  X(Gemm, "gemm") \
  X(Conv, "conv") \
  X(DepthwiseConv, "depthwise_conv") \
  X(Pool, "pool") \
  X(Reduction, "reduction") \
  X(Softmax, "softmax") \
  X(Elementwise, "elementwise") \
  X(Move, "move") \
  X(Attention, "attention")
// clang-format on

enum class AnchorKind : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_TASK_ANCHORS(TCC_X)
#undef TCC_X
};
std::string_view anchor_name(AnchorKind kind);

enum class ParamKind : uint8_t { kInput, kConstant, kOutput };
// Where parameter i of the kernel comes from: a value of the graph that the (first) group belongs to.
struct ParamSource {
  ParamKind kind = ParamKind::kInput;
  graph::ValueId value = graph::kNone;
};

// For each kernel that computes a task, the nodes of the model's file that it computes, in the file's order. Empty
// where the graph is from no file.
using GroupNodes = std::vector<std::vector<graph::SourceNode>>;
// On one line: the first kernel's first node by name, all its operators, and the number of further kernels:
// "/conv1: Conv+BatchNormalization+Relu, 3 more". "" where nothing is known.
std::string nodes_text(const GroupNodes& nodes);
// As JSON, and back: a list of lists of {"name", "type"}. `Json` is a type of nlohmann's. What has another form is left
// out.
template <class Json>
Json nodes_to_json(const GroupNodes& groups) {
  Json list = Json::array();
  for (const auto& group : groups) {
    Json nodes = Json::array();
    for (const graph::SourceNode& node : group) nodes.push_back({{"name", node.name}, {"type", node.type}});
    list.push_back(std::move(nodes));
  }
  return list;
}
template <class Json>
GroupNodes nodes_from_json(const Json& list) {
  GroupNodes groups;
  if (!list.is_array()) return groups;
  for (const Json& group : list) {
    groups.emplace_back();
    if (!group.is_array()) continue;
    for (const Json& node : group)
      if (node.is_object() && node.contains("name") && node["name"].is_string() && node.contains("type") &&
          node["type"].is_string())
        groups.back().push_back({node["name"].template get<std::string>(), node["type"].template get<std::string>()});
  }
  return groups;
}

struct Task {
  std::string key;       // 16 hex digits: the kernel's structural hash; independent of target, names and graph
  std::string workload;  // for people: "conv2d 1x64x56x56 -> 64 k3 s1 p1 + bias + relu f32"
  int64_t weight = 1;    // how often the graph contains it
  ir::Kernel kernel;     // Stage::kBuilt
  AnchorKind anchor = AnchorKind::kElementwise;
  std::string anchor_block;  // name hint of the block that does the work: "conv", "gemm", "row_max", ...
  double flops = 0;
  std::vector<ParamSource> params;  // one per kernel parameter, in order
  GroupNodes nodes;                 // one list for each of the `weight` groups

  // Id of the anchor's block in the kernel.
  ir::Id anchor_id() const;
};

struct TaskOptions {
  bool tf32 = false;              // contractions of f32 may round what they multiply (ir::Kernel::tf32)
  bool in_order = false;          // sorts and scatters are loops that run in order and do less work, as suits a CPU
  int64_t register_floats = 512;  // of f32 in all vector registers, for tiles that are not scheduled
};
// Errors (input): a tensor without elements.
Result<Task> make_task(const graph::Graph& graph, const graph::FusionGroup& group, const TaskOptions& options = {});

struct GroupBinding {
  int64_t task = 0;                 // index into TaskList::tasks
  std::vector<ParamSource> params;  // of this group
};
struct TaskList {
  std::vector<Task> tasks;             // in order of first appearance
  std::vector<GroupBinding> bindings;  // one per group
};
// Equal kernels become one task. Tensors without elements are errors that name the group.
Result<TaskList> extract_tasks(const graph::Graph& graph, const std::vector<graph::FusionGroup>& groups,
                               const TaskOptions& options = {});

}  // namespace tcc::task
