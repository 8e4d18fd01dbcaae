#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/db_command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/dynamic.h"
#include "tcc/driver/library.h"
#include "tcc/driver/show.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct InspectArguments {
  Common common;
  ModelArguments model;
};

void declare(Options& options, InspectArguments& a) {
  add_model(options, a.model, "An ONNX file, zoo:NAME, a library built by tcc, or records (.db)");
}

std::string tensor_lines(const char* what, const std::vector<driver::TensorSummary>& tensors) {
  std::string text;
  for (const driver::TensorSummary& t : tensors) text += fmt::format("{:<9}{} {} {}\n", what, t.name, t.type, t.shape);
  return text;
}
Json tensors_json(const std::vector<driver::TensorSummary>& tensors) {
  Json list = Json::array();
  for (const driver::TensorSummary& t : tensors) list.push_back(TCC_JSON(t, name, type, shape));
  return list;
}

std::string dimensions_text(const Json& launch, const char* name) {
  const auto n = launch.value(name, std::vector<int64_t>{});
  return n.size() == 3 ? fmt::format("{}x{}x{}", n[0], n[1], n[2]) : "?";
}

// The model's nodes that a task of a description computes; "" in one of an older tcc.
std::string nodes_of(const Json& task) {
  return task::nodes_text(driver::nodes_from_json(task.contains("nodes") ? task["nodes"] : Json()));
}

// The part of a description that only libraries for GPUs have.
std::string gpu_text(const Json& m) {
  auto text_of = [](const Json& json, const char* name) { return sanitize(json.value(name, "")); };
  std::string text = fmt::format("code     made by CUDA {}:", text_of(m, "cuda_toolkit"));
  for (const Json& a : m["architectures"])
    text += fmt::format(" {} {} for {};", text_of(a, "architecture"), text_of(a, "format"), text_of(a, "target"));
  text.back() = '\n';
  const Json none = Json::object();
  const Json& conformance = m.contains("conformance") ? m["conformance"] : none;
  const std::string note = text_of(conformance, "note");
  if (!note.empty()) text += fmt::format("note     {}\n", note);
  TextTable table({text_column("key", 0, 9),
                   text_column("workload", 24),
                   text_column("nodes", 14, 1),
                   text_column("code"),
                   text_column("record", 0, 5),
                   {"time"},
                   {"grid", 4},
                   {"block", 3},
                   {"registers", 2},
                   {"spills", 6},
                   {"shared", 7}});
  for (const Json& t : m.contains("tasks") ? m["tasks"] : Json::array())
    for (const Json& c : t.contains("code") ? t["code"] : Json::array()) {
      if (c.value("format", "") == "ptx") continue;  // the driver decides
      const Json first = c.contains("launches") && !c["launches"].empty() ? c["launches"][0] : none;
      const std::string more =
          c.contains("launches") && c["launches"].size() > 1 ? fmt::format(" +{}", c["launches"].size() - 1) : "";
      const double seconds = c.value("seconds", c.value("predicted_seconds", 0.0));
      table.add({text_of(t, "key"), text_of(t, "workload"), nodes_of(t), text_of(c, "architecture"),
                 text_of(c, "record"), format_seconds(seconds), dimensions_text(first, "grid") + more,
                 dimensions_text(first, "block"), std::to_string(c.value("registers", int64_t{0})),
                 format_bytes(c.value("spill_bytes", 0.0)), format_bytes(c.value("shared_bytes", 0.0))});
    }
  return text + "\n" + table.text();
}

// "dim      seq from 1 to 512, tuned for 128"
std::string range_line(const driver::DimRange& range) {
  return fmt::format(
      "dim      {} from {} to {}, tuned for {}\n", sanitize(range.name), range.low, range.high,
      range.tuned.empty() ? std::to_string(range.high) : fmt::format("{}", fmt::join(range.tuned, ", ")));
}

// A library's metadata in words.
std::string library_text(const std::string& path, const Json& m) {
  auto text_of = [](const Json& json, const char* name) { return sanitize(json.value(name, "")); };
  auto bytes_of = [&m](const char* name) { return format_bytes(m.value(name, 0.0)); };
  const Json none = Json::object();
  const Json &target = m.contains("target") ? m["target"] : none, &source = m.contains("source") ? m["source"] : none;
  std::string text = fmt::format("library  {} '{}', made by tcc {}, ABI {}\n", sanitize(path), text_of(m, "id"),
                                 text_of(m, "tool_version"), m.value("abi_version", 0));
  const std::string precision = text_of(source, "precision");
  text += fmt::format("model    {}, hash {}{}{}\n", text_of(source, "model"), text_of(source, "hash"),
                      precision.empty() ? "" : ", --precision " + precision,
                      source.value("fast_math", Json(false)) == Json(true) ? ", --fast-math" : "");
  const bool cpu = text_of(target, "kind") == "cpu";
  const auto features_of = [&](const Json& json) {
    const std::string features = text_of(json, "features");
    return features.empty() ? "no more than x86-64" : features;
  };
  text += cpu ? fmt::format("target   {}; its code needs {}\n", text_of(target, "name"), features_of(target))
              : fmt::format("target   {} {}\n", text_of(target, "name"), text_of(target, "features"));
  for (const Json& older : m.contains("older_targets") ? m["older_targets"] : Json::array())
    text += fmt::format("or       {}, where this CPU lacks some of these; its code needs {}\n", text_of(older, "name"),
                        features_of(older));
  for (const char* list : {"inputs", "outputs"}) {
    if (!m.contains(list)) continue;
    for (const Json& t : m[list])
      text +=
          fmt::format("{:<9}{} {} {}\n", list[0] == 'i' ? "input" : "output", text_of(t, "name"), text_of(t, "type"),
                      t.contains("sizes") ? text_of(t, "sizes") : graph::shape_text(t.value("shape", graph::Shape{})));
  }
  for (const Json& dim : m.contains("dims") ? m["dims"] : Json::array())
    text += range_line({dim.value("name", ""), dim.value("low", int64_t{1}), dim.value("high", int64_t{1}),
                        dim.value("tuned", std::vector<int64_t>())});
  text += fmt::format("memory   weights {}, workspace {}\n\n", bytes_of("weights_bytes"), bytes_of("workspace_bytes"));
  if (m.contains("architectures")) return text + gpu_text(m);
  TextTable table({text_column("key", 0, 6),
                   text_column("workload", 24),
                   text_column("nodes", 14, 1),
                   {"weight", 3},
                   {"MFLOP", 4},
                   {"code", 5},
                   {"tuned", 2},
                   {"measured"}});
  if (m.contains("tasks"))
    for (const Json& t : m["tasks"])
      table.add({text_of(t, "key"), text_of(t, "workload"), nodes_of(t), std::to_string(t.value("count", int64_t{1})),
                 fmt::format("{:.2f}", t.value("flops", 0.0) / 1e6), format_bytes(t.value("code_bytes", 0.0)),
                 t.value("tuned", false) ? "yes" : "no", format_seconds(t.value("seconds", 0.0))});
  return text + table.text();
}

Result<int> inspect_library(const InspectArguments& a) {
  TCC_TRY(std::string metadata, driver::library_metadata(a.model.model));
  const Json json = Json::parse(metadata, nullptr, false);
  if (a.common.json || !json.is_object()) return print_exact(metadata);
  return print(library_text(a.model.model, json));
}

Result<int> inspect(const InspectArguments& a) {
  if (a.model.model.ends_with(".db")) return print_store(a.common, a.model.model);
  if (driver::is_library(a.model.model)) return inspect_library(a);
  TCC_TRY(driver::Model model, open_model(a.model));
  TCC_TRY(driver::ModelSummary s, driver::summarise_model(model));
  if (a.common.json) {
    Json json = {{"model", a.model.model}};
    json.update(TCC_JSON(s, name, hash));
    json.update({{"inputs", tensors_json(s.inputs)}, {"outputs", tensors_json(s.outputs)}});
    for (const driver::DimRange& range : model.source.ranges)
      json["dims"].push_back(TCC_JSON(range, name, low, high, tuned));
    json.update(TCC_JSON(s, operators, nodes, constants, constant_bytes, flops, kernels, tasks, workspace_bytes));
    return print_json(json);
  }
  std::string text = fmt::format("model    {} '{}', hash {}\n", sanitize(a.model.model), sanitize(s.name), s.hash);
  text += tensor_lines("input", s.inputs) + tensor_lines("output", s.outputs);
  for (const driver::DimRange& range : model.source.ranges) text += range_line(range);
  text += fmt::format("nodes    {}:", s.nodes);
  for (const auto& [op, count] : s.operators) text += fmt::format(" {} {}", count, op);
  text += fmt::format("\nweights  {}, {}\n", plural(s.constants, "constant"),
                      format_bytes(static_cast<double>(s.constant_bytes)));
  text += fmt::format("work     {:.3f} GFLOP a run in {} ({} to tune), workspace {}\n", s.flops / 1e9,
                      plural(s.kernels, "kernel"), plural(s.tasks, "task"),
                      format_bytes(static_cast<double>(s.workspace_bytes)));
  return print(text);
}

}  // namespace

Command inspect_command() {
  return make_command("inspect", "What is in a model, a library or a file of tuning records",
                      "  tcc inspect net.onnx --json\n"
                      "  tcc inspect out/libnet.so\n"
                      "  tcc inspect records.db",
                      declare, inspect);
}

}  // namespace tcc::cli
