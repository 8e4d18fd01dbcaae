#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model_data.h"
#include "tcc/support/check.h"

namespace tcc::package {
namespace {

using Json = nlohmann::ordered_json;

// `shapes`: nullptr, or those of a model with several sizes: for each axis its factors as [dimension, scale, offset].
Json tensors_json(const PackagePlan& plan, const PublicTensors& tensors,
                  const std::vector<graph::SymbolicShape>* shapes) {
  Json list = Json::array();
  for (size_t i = 0; i < tensors.values.size(); ++i) {
    const graph::Value& v = plan.graph->value(tensors.values[i]);
    list.push_back(
        {{"name", tensors.names[i]}, {"type", graph::dtype_name(v.dtype)}, {"shape", v.shape}, {"bytes", v.bytes()}});
    if (shapes == nullptr) continue;
    std::vector<std::string> names;
    for (const graph::DimRange& dim : plan.dynamic->dims) names.push_back(dim.name);
    for (int32_t c = 0; c < plan.dynamic->counts; ++c) names.push_back(fmt::format("n{}", c));
    list.back()["sizes"] = graph::symbolic_text((*shapes)[i], names);
    Json axes = Json::array();
    for (const graph::SymbolicAxis& axis : (*shapes)[i]) {
      Json factors = Json::array();
      for (const graph::Factor& f : axis) factors.push_back(Json::array({f.symbol, f.scale, f.offset}));
      axes.push_back(std::move(factors));
    }
    list.back()["axes"] = std::move(axes);
  }
  return list;
}

Json dims_json(const DynamicPlan& plan) {
  Json list = Json::array();
  for (const graph::DimRange& dim : plan.dims)
    list.push_back({{"name", dim.name}, {"low", dim.low}, {"high", dim.high}, {"tuned", dim.tuned}});
  return list;
}
// The greatest value of each.
Json counts_json(const DynamicPlan& plan) {
  const std::vector<int64_t>& bounds = plan.buckets.back().bounds;
  return std::vector<int64_t>(bounds.begin() + std::ssize(plan.dims), bounds.end());
}
Json buckets_json(const DynamicPlan& plan) {
  Json list = Json::array();
  for (const DynamicPlan::Bucket& bucket : plan.buckets)
    list.push_back({{"bounds", bucket.bounds}, {"first_step", bucket.first_step}, {"steps", bucket.steps}});
  return list;
}

Json trace_json(const std::string& text) {
  Json trace = Json::parse(text, nullptr, false);
  return trace.is_discarded() ? Json(text) : trace;
}

double parameter_bytes(const codegen::Artifact& artifact) {
  double bytes = 0;
  for (const codegen::BufferInfo& buffer : artifact.buffers)
    if (buffer.role != ir::BufferRole::kTemp) bytes += static_cast<double>(buffer.bytes);
  return bytes;
}

// The type of a task's arithmetic: that of its output.
std::string type_of(const task::Task& task) {
  for (const ir::Buffer* buffer : task.kernel.buffers)
    if (buffer->role == ir::BufferRole::kOutput) return std::string(ir::type_name(buffer->type));
  return "";
}

Json task_json(const task::Task& task, const TaskCode& code) {
  Json json = {{"key", task.key},
               {"workload", task.workload},
               {"nodes", task::nodes_to_json<Json>(task.nodes)},
               {"type", type_of(task)},
               {"count", task.weight},
               {"flops", task.flops},
               {"bytes", parameter_bytes(code.artifact)},
               {"tuned", !code.trace.empty()},
               {"launches", code.artifact.launches.size()},
               {"code_bytes", code.artifact.code.size()}};
  if (code.seconds > 0) json["seconds"] = code.seconds;
  if (!code.trace.empty()) json["trace"] = trace_json(code.trace);
  return json;
}

// What one architecture's compiler made of a task.
Json code_json(const ArchitectureCode& architecture, const TaskCode& code) {
  Json json = {{"architecture", target::sm_name(architecture.target)},
               {"format", architecture.ptx ? "ptx" : "cubin"},
               {"record", origin_name(code.origin)},
               {"code_bytes", code.artifact.code.size()}};
  if (code.seconds > 0) json[code.origin == Origin::kMeasured ? "seconds" : "predicted_seconds"] = code.seconds;
  for (const char* fact : {"registers", "spill_bytes", "stack_bytes", "shared_bytes", "serialized_products",
                           "injected_waits", "ignored_register_budgets"})
    if (auto found = code.artifact.facts.find(fact); found != code.artifact.facts.end())
      json[fact] = static_cast<int64_t>(found->second);
  json["launches"] = Json::array();
  for (const codegen::Launch& l : code.artifact.launches)
    json["launches"].push_back(
        {{"symbol", l.symbol}, {"grid", l.grid}, {"block", l.block}, {"dynamic_shared_bytes", l.shared_bytes}});
  if (!code.launch_models.empty()) json["launch_models"] = Json::parse(code.launch_models);
  if (!code.trace.empty() && !architecture.ptx) json["trace"] = trace_json(code.trace);
  return json;
}

Json gpu_task_json(const PackagePlan& plan, size_t index) {
  const task::Task& task = plan.tasks->tasks[index];
  bool tuned = true;
  int64_t code_bytes = 0;
  Json codes = Json::array();
  for (const ArchitectureCode& architecture : plan.architectures) {
    const TaskCode& code = architecture.codes[index];
    tuned = tuned && code.origin != Origin::kDefault;
    code_bytes += static_cast<int64_t>(code.artifact.code.size());
    codes.push_back(code_json(architecture, code));
  }
  return {{"key", task.key},
          {"workload", task.workload},
          {"nodes", task::nodes_to_json<Json>(task.nodes)},
          {"type", type_of(task)},
          {"count", task.weight},
          {"flops", task.flops},
          {"bytes", parameter_bytes(plan.architectures[0].codes[index].artifact)},
          {"tuned", tuned},
          {"code_bytes", code_bytes},
          {"code", codes}};
}

std::string toolkit_text(int64_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Json architectures_json(const PackagePlan& plan) {
  Json list = Json::array();
  for (const ArchitectureCode& a : plan.architectures)
    list.push_back(
        {{"architecture", target::sm_name(a.target)}, {"target", a.target.name}, {"format", a.ptx ? "ptx" : "cubin"}});
  return list;
}

// What is known of the code's correctness on devices. Code is made of plain C++ and functions of the prelude: those
// that no device ever ran are named.
Json conformance_json(const PackagePlan& plan) {
  Json unproven = Json::object();
  bool all = true, measured = true;
  for (const ArchitectureCode& architecture : plan.architectures) {
    const std::string sm = target::sm_name(architecture.target);
    std::set<std::string> missing;
    for (const TaskCode& code : architecture.codes) {
      measured = measured && code.origin == Origin::kMeasured;
      for (const std::string& name : prelude_functions(code.artifact.source))
        if (std::find(plan.conformed.begin(), plan.conformed.end(), fmt::format("{} {}", sm, name)) ==
            plan.conformed.end())
          missing.insert(name);
    }
    all = all && missing.empty();
    if (!missing.empty()) unproven[sm] = missing;
  }
  std::string note;
  if (!all)
    note = "built from functions of the CUDA prelude that were never checked on a device";
  else if (!measured)
    note = "not every kernel was run and checked on a device";
  Json json = {{"checked_on_device", all && measured}};
  if (!note.empty()) json["note"] = note + "; run `tcc verify` on the library on a machine with such a GPU";
  if (!unproven.empty()) json["never_conformed"] = unproven;
  return json;
}

std::string needed_features(target::Target target, const target::CpuFeatures& used) {
  target.cpu.features = used;
  return target::llvm_feature_string(target);
}

Json target_json(const PackagePlan& plan, const ModelLayout& layout) {
  if (plan.architectures.empty())
    return {{"name", plan.target.name},
            {"kind", "cpu"},
            {"features", needed_features(plan.target, layout.used_features[0])},
            {"compiled_for", target::llvm_feature_string(plan.target)}};
  std::string names, features;
  for (const ArchitectureCode& a : plan.architectures) {
    if (!a.ptx) names += (names.empty() ? "" : ",") + a.target.name;
    features += fmt::format("{}{}{}", features.empty() ? "" : " ", target::sm_name(a.target), a.ptx ? "(PTX)" : "");
  }
  return {{"name", names}, {"kind", "cuda"}, {"features", features}};
}

}  // namespace

std::string make_metadata(const PackagePlan& plan, const ModelLayout& layout, const PackageOptions& options) {
  const graph::Graph& g = *plan.graph;
  const DynamicPlan* dynamic = plan.dynamic;
  Json json = {{"id", options.id},
               {"tool", "tcc"},
               {"tool_version", options.tool_version},
               {"abi_version", TCC_MODEL_ABI_VERSION},
               {"model", g.name},
               {"target", target_json(plan, layout)},
               {"inputs", tensors_json(plan, public_inputs(plan), dynamic ? &dynamic->inputs : nullptr)},
               {"outputs", tensors_json(plan, public_outputs(plan), dynamic ? &dynamic->outputs : nullptr)},
               {"workspace_bytes", layout.workspace_bytes},
               {"weights_bytes", layout.weights_bytes},
               {"tasks", Json::array()},
               {"steps", Json::array()}};
  if (dynamic != nullptr) {
    json["dims"] = dims_json(*dynamic);
    if (dynamic->counts > 0) json["counts"] = counts_json(*dynamic);
    json["buckets"] = buckets_json(*dynamic);
  }
  if (!options.source_json.empty()) {
    Json source = Json::parse(options.source_json, nullptr, false);
    TCC_CHECK(source.is_object(), "source_json must be a JSON object");
    json["source"] = std::move(source);
  }
  for (size_t i = 0; i < plan.older.size(); ++i)
    json["older_targets"].push_back({{"name", plan.older[i].target.name},
                                     {"features", needed_features(plan.older[i].target, layout.used_features[i + 1])}});
  if (!plan.architectures.empty()) {
    json["architectures"] = architectures_json(plan);
    json["cuda_toolkit"] = toolkit_text(plan.cuda_toolkit);
    json["conformance"] = conformance_json(plan);
    for (size_t i = 0; i < plan.tasks->tasks.size(); ++i) json["tasks"].push_back(gpu_task_json(plan, i));
  }
  for (size_t i = 0; i < plan.codes.size(); ++i)
    json["tasks"].push_back(task_json(plan.tasks->tasks[i], plan.codes[i]));
  for (const task::GroupBinding& binding : plan.tasks->bindings) json["steps"].push_back(binding.task);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tcc::package
