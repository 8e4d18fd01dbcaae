#include <nlohmann/json.hpp>

#include "model_data.h"
#include "tcc/support/check.h"

namespace tcc::package {
namespace {

using Json = nlohmann::ordered_json;

Json tensors_json(const graph::Graph& graph, const std::vector<graph::ValueId>& values,
                  const std::vector<std::string>* names) {
  Json list = Json::array();
  for (size_t i = 0; i < values.size(); ++i) {
    const graph::Value& v = graph.value(values[i]);
    list.push_back({{"name", names != nullptr ? (*names)[i] : v.name},
                    {"type", graph::dtype_name(v.dtype)},
                    {"shape", v.shape},
                    {"bytes", v.bytes()}});
  }
  return list;
}

Json task_json(const task::Task& task, const TaskCode& code) {
  double bytes = 0;  // of the parameters
  for (const codegen::BufferInfo& buffer : code.artifact.buffers)
    if (buffer.role != ir::BufferRole::kTemp) bytes += static_cast<double>(buffer.bytes);
  Json json = {{"key", task.key},
               {"workload", task.workload},
               {"count", task.weight},
               {"flops", task.flops},
               {"bytes", bytes},
               {"tuned", !code.trace.empty()},
               {"launches", code.artifact.launches.size()},
               {"code_bytes", code.artifact.code.size()}};
  if (code.seconds > 0) json["seconds"] = code.seconds;
  if (!code.trace.empty()) {
    Json trace = Json::parse(code.trace, nullptr, false);
    json["trace"] = trace.is_discarded() ? Json(code.trace) : trace;
  }
  return json;
}

}  // namespace

std::string make_metadata(const PackagePlan& plan, const ModelLayout& layout, const PackageOptions& options) {
  const graph::Graph& g = *plan.graph;
  Json json = {{"id", options.id},
               {"tool", "tcc"},
               {"tool_version", options.tool_version},
               {"abi_version", TCC_MODEL_ABI_VERSION},
               {"model", g.name},
               {"target",
                {{"name", plan.target.name},
                 {"kind", plan.target.is_cpu() ? "cpu" : "cuda"},
                 {"features", plan.target.is_cpu() ? target::llvm_feature_string(plan.target) : ""}}},
               {"inputs", tensors_json(g, g.inputs, nullptr)},
               {"outputs", tensors_json(g, g.outputs, &g.output_names)},
               {"workspace_bytes", layout.workspace_bytes},
               {"weights_bytes", layout.weights_bytes},
               {"tasks", Json::array()},
               {"steps", Json::array()}};
  if (!options.source_json.empty()) {
    Json source = Json::parse(options.source_json, nullptr, false);
    TCC_CHECK(source.is_object(), "source_json is no JSON object");
    json["source"] = std::move(source);
  }
  for (size_t i = 0; i < plan.codes.size(); ++i)
    json["tasks"].push_back(task_json(plan.tasks->tasks[i], plan.codes[i]));
  for (const task::GroupBinding& binding : plan.tasks->bindings) json["steps"].push_back(binding.task);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tcc::package
