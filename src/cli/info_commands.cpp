#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/db_command.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/catalogue.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/library.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/show.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json task_json(const driver::TaskSummary& t) {
  return {{"task", t.number}, {"key", t.key},         {"workload", t.workload},        {"weight", t.weight},
          {"flops", t.flops}, {"records", t.records}, {"best_seconds", t.best_seconds}};
}

std::string task_table(const std::vector<driver::TaskSummary>& tasks) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "key", "workload", "weight", "MFLOP", "records", "best", "GFLOP/s"}};
  for (const driver::TaskSummary& t : tasks)
    rows.push_back({std::to_string(t.number), t.key, t.workload, std::to_string(t.weight),
                    fmt::format("{:.2f}", t.flops / 1e6), std::to_string(t.records), format_seconds(t.best_seconds),
                    format_gflops(t.flops, t.best_seconds)});
  return format_table(rows, 3);
}

const char* schedule_text(const driver::TaskDetails& details) {
  if (!details.tuned) return "the default schedule (not tuned)";
  return details.predicted ? "the best schedule by predictions" : "the best schedule measured";
}

Result<int> show_one(const Arguments& a, const driver::Program& program, const record::Database* store,
                     const target::Target& target) {
  TCC_TRY(driver::TaskDetails details, driver::show_task(program, a.task, store, target, threads_or_all(a.threads)));
  if (a.trace_only) {
    remark(a.common.quiet, schedule_text(details));
    print(details.trace);
    return kOk;
  }
  if (a.common.json) {
    Json json = task_json(details.summary);
    json.update({{"nest", details.nest},
                 {"tuned", details.tuned},
                 {"predicted", details.predicted},
                 {"note", details.note},
                 {"trace", details.trace},
                 {"program", details.program}});
    print(dump(json));
    return kOk;
  }
  std::string text = task_table({details.summary});
  text += "\n-- the plain loop nest\n" + details.nest;
  text += fmt::format("\n-- {}\n", schedule_text(details));
  if (details.tuned && !details.note.empty()) text += details.note + "\n";
  text += details.trace.empty() ? "none: the loop nest as it is\n" : details.trace;
  text += "\n-- the program that `tcc build` takes\n" + details.program;
  print(text);
  return kOk;
}

std::string tensor_lines(const char* what, const std::vector<driver::TensorSummary>& tensors) {
  std::string text;
  for (const driver::TensorSummary& t : tensors) text += fmt::format("{:<9}{} {} {}\n", what, t.name, t.type, t.shape);
  return text;
}
Json tensors_json(const std::vector<driver::TensorSummary>& tensors) {
  Json list = Json::array();
  for (const driver::TensorSummary& t : tensors)
    list.push_back({{"name", t.name}, {"type", t.type}, {"shape", t.shape}});
  return list;
}

std::string describe_target(const target::Target& t) {
  if (t.is_cpu())
    return fmt::format("{}, {} vectors of {} bits, {} of {}", target::isa_level_name(target::isa_level(t)),
                       t.cpu.num_vector_registers, t.cpu.vector_bits, plural(t.cpu.threads, "thread"),
                       plural(t.cpu.cores, "core"));
  return fmt::format("{}, {} multiprocessors, {} of memory", target::sm_name(t), t.cuda.sm_count,
                     format_bytes(static_cast<double>(t.memory_bytes)));
}

std::string rate_row(const char* what, const target::ProbeRate& rate, const char* unit) {
  return fmt::format("{:<22}{:>10.1f} {:>10.1f}  {}\n", what, rate.one_core / 1e9, rate.all_cores / 1e9, unit);
}

std::string minute(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32] = {};
  localtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Result<int> print_probe(const Arguments& a) {
  TCC_TRY(driver::MachineFacts facts, driver::machine_facts({cache_folder(), a.refresh, {}}));
  for (const std::string& note : facts.notes) remark(a.common.quiet, "note: " + note);
  if (a.common.json) {
    Json json = Json::parse(driver::machine_facts_to_json(facts));
    json["cached"] = facts.cached;
    json["file"] = sanitize(facts.file);
    print(dump(json));
    return kOk;
  }
  const target::ProbeResult& probe = facts.probe;
  std::string text = fmt::format("{:<22}{:>10} {:>10}\n", "", "one core", "all");
  text += rate_row("f32 arithmetic", probe.fp32, "GFLOP/s");
  text += rate_row("L1 read", probe.l1_read, "GB/s") + rate_row("L2 read", probe.l2_read, "GB/s") +
          rate_row("L3 read", probe.l3_read, "GB/s") + rate_row("memory read", probe.dram_read, "GB/s") +
          rate_row("memory copy", probe.dram_copy, "GB/s");
  text += fmt::format("{:<22}{:>10} {:>10.2f}  us\n", "parallel launch", "", facts.fork_join_seconds * 1e6);
  for (const std::string& note : probe.notes) text += "note: " + note + "\n";
  if (facts.cached)
    text += fmt::format("measured {}; --refresh measures again\n", minute(facts.unix_seconds));
  else if (!facts.file.empty())
    text += fmt::format("measured now and kept in {}\n", sanitize(facts.file));
  else
    text += "measured now and not kept\n";
  print(text);
  return kOk;
}

std::string dimensions_text(const Json& launch, const char* name) {
  const auto n = launch.value(name, std::vector<int64_t>{});
  return n.size() == 3 ? fmt::format("{}x{}x{}", n[0], n[1], n[2]) : "?";
}

// What a library for GPUs has beside what every library has.
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
  std::vector<std::vector<std::string>> rows = {
      {"key", "workload", "code", "record", "time", "grid", "block", "registers", "spills", "shared"}};
  for (const Json& t : m.contains("tasks") ? m["tasks"] : Json::array())
    for (const Json& c : t.contains("code") ? t["code"] : Json::array()) {
      if (c.value("format", "") == "ptx") continue;  // the driver decides
      const Json first = c.contains("launches") && !c["launches"].empty() ? c["launches"][0] : none;
      const std::string more =
          c.contains("launches") && c["launches"].size() > 1 ? fmt::format(" +{}", c["launches"].size() - 1) : "";
      const double seconds = c.value("seconds", c.value("predicted_seconds", 0.0));
      rows.push_back({text_of(t, "key"), text_of(t, "workload"), text_of(c, "architecture"), text_of(c, "record"),
                      format_seconds(seconds), dimensions_text(first, "grid") + more, dimensions_text(first, "block"),
                      std::to_string(c.value("registers", int64_t{0})), format_bytes(c.value("spill_bytes", 0.0)),
                      format_bytes(c.value("shared_bytes", 0.0))});
    }
  return text + "\n" + format_table(rows, 4);
}

// A library's metadata in words.
std::string library_text(const std::string& path, const Json& m) {
  auto text_of = [](const Json& json, const char* name) { return sanitize(json.value(name, "")); };
  auto bytes_of = [&m](const char* name) { return format_bytes(m.value(name, 0.0)); };
  const Json none = Json::object();
  const Json &target = m.contains("target") ? m["target"] : none, &source = m.contains("source") ? m["source"] : none;
  std::string text = fmt::format("library  {} '{}', made by tcc {}, ABI {}\n", sanitize(path), text_of(m, "id"),
                                 text_of(m, "tool_version"), m.value("abi_version", 0));
  text += fmt::format("model    {}, hash {}\n", text_of(source, "model"), text_of(source, "hash"));
  text += fmt::format("target   {} {}\n", text_of(target, "name"), text_of(target, "features"));
  for (const char* list : {"inputs", "outputs"}) {
    if (!m.contains(list)) continue;
    for (const Json& t : m[list])
      text += fmt::format("{:<9}{} {} {}\n", list[0] == 'i' ? "input" : "output", text_of(t, "name"),
                          text_of(t, "type"), graph::shape_text(t.value("shape", graph::Shape{})));
  }
  text += fmt::format("memory   weights {}, workspace {}\n\n", bytes_of("weights_bytes"), bytes_of("workspace_bytes"));
  if (m.contains("architectures")) return text + gpu_text(m);
  std::vector<std::vector<std::string>> rows = {{"key", "workload", "weight", "MFLOP", "code", "tuned", "measured"}};
  if (m.contains("tasks"))
    for (const Json& t : m["tasks"])
      rows.push_back({text_of(t, "key"), text_of(t, "workload"), std::to_string(t.value("count", int64_t{1})),
                      fmt::format("{:.2f}", t.value("flops", 0.0) / 1e6), format_bytes(t.value("code_bytes", 0.0)),
                      t.value("tuned", false) ? "yes" : "no", format_seconds(t.value("seconds", 0.0))});
  return text + format_table(rows, 2);
}

Result<int> inspect_library(const Arguments& a) {
  TCC_TRY(std::string metadata, driver::library_metadata(a.model.model));
  const Json json = Json::parse(metadata, nullptr, false);
  if (a.common.json || !json.is_object())
    print(metadata);
  else
    print(library_text(a.model.model, json));
  return kOk;
}

}  // namespace

Result<int> run_show(const Arguments& a) {
  if (a.trace_only && a.task.empty())
    return make_error(ErrorClass::kUsage, "--trace is of one task, and none was named",
                      "add --task K; `tcc show MODEL` lists the tasks");
  TCC_TRY(target::Target target, open_target(a));
  TCC_TRY(driver::Model model, open_model(a));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  TCC_TRY(const Records records, open_records(a));
  if (!a.task.empty()) return show_one(a, program, records.all, target);
  TCC_TRY(std::vector<driver::TaskSummary> tasks, driver::summarise_tasks(program, records.all, target));
  if (!a.common.json) {
    print(task_table(tasks));
    return kOk;
  }
  Json json = {{"model", a.model.model}, {"flops", program.flops}, {"tasks", Json::array()}};
  for (const driver::TaskSummary& t : tasks) json["tasks"].push_back(task_json(t));
  print(dump(json));
  return kOk;
}

Result<int> run_inspect(const Arguments& a) {
  if (a.model.model.ends_with(".db")) return print_store(a, a.model.model);
  if (driver::is_library(a.model.model)) return inspect_library(a);
  TCC_TRY(driver::Model model, open_model(a));
  TCC_TRY(driver::ModelSummary s, driver::summarise_model(model));
  if (a.common.json) {
    print(dump({{"model", a.model.model},
                {"name", s.name},
                {"hash", s.hash},
                {"inputs", tensors_json(s.inputs)},
                {"outputs", tensors_json(s.outputs)},
                {"operators", s.operators},
                {"nodes", s.nodes},
                {"constants", s.constants},
                {"constant_bytes", s.constant_bytes},
                {"flops", s.flops},
                {"kernels", s.groups},
                {"tasks", s.tasks},
                {"workspace_bytes", s.workspace_bytes}}));
    return kOk;
  }
  std::string text = fmt::format("model    {} '{}', hash {}\n", sanitize(a.model.model), sanitize(s.name), s.hash);
  text += tensor_lines("input", s.inputs) + tensor_lines("output", s.outputs);
  text += fmt::format("nodes    {}:", s.nodes);
  for (const auto& [op, count] : s.operators) text += fmt::format(" {} {}", count, op);
  text += fmt::format("\nweights  {}, {}\n", plural(s.constants, "constant"),
                      format_bytes(static_cast<double>(s.constant_bytes)));
  text += fmt::format("work     {:.3f} GFLOP a run in {} ({} to tune), workspace {}\n", s.flops / 1e9,
                      plural(s.groups, "kernel"), plural(s.tasks, "task"),
                      format_bytes(static_cast<double>(s.workspace_bytes)));
  print(text);
  return kOk;
}

Result<int> run_targets(const Arguments& a) {
  if (!a.name.empty()) {
    TCC_TRY(target::Target target, driver::find_target(a.name));
    if (a.probe && target.name != "host")
      return make_error(ErrorClass::kUsage, fmt::format("--probe measures this machine, not {}", target.name));
    if (a.probe) return print_probe(a);
    if (a.common.json) {
      print(target::target_to_json(target) + "\n");
      return kOk;
    }
    std::string text = fmt::format("{}: {}\n{}\n", target.name, describe_target(target), target.source);
    text += fmt::format("f32 {:.0f} GFLOP/s, memory {:.0f} GB/s ({})\n", target.peak.fp32 / 1e9,
                        target.memory_bandwidth / 1e9, target.measured ? "measured" : "nominal");
    for (const std::string& note : target.notes) text += "note: " + note + "\n";
    print(text);
    return kOk;
  }
  if (a.probe) return print_probe(a);
  std::vector<std::vector<std::string>> rows;
  Json json = Json::array();
  for (const std::string& name : target::target_names()) {
    TCC_TRY(target::Target target, target::find_target(name));
    rows.push_back({name, describe_target(target)});
    json.push_back({{"name", name}, {"kind", target.is_cpu() ? "cpu" : "cuda"}, {"description", rows.back()[1]}});
  }
  print(a.common.json ? dump(json) : format_table(rows, 2) + driver::describe_cuda() + "\n");
  return kOk;
}

Result<int> run_ops(const Arguments& a) {
  std::vector<std::vector<std::string>> rows = {{"operator", "opsets"}};
  Json json = Json::array();
  for (const onnx::OperatorInfo& op : onnx::supported_operators()) {
    const std::string name = op.domain.empty() ? op.op : op.domain + "." + op.op;
    rows.push_back({name, fmt::format("{} to {}", op.since_version, op.until_version)});
    json.push_back(
        {{"domain", op.domain}, {"operator", op.op}, {"since", op.since_version}, {"until", op.until_version}});
  }
  print(a.common.json ? dump(json) : format_table(rows, 2));
  return kOk;
}

Result<int> run_zoo(const Arguments& a) {
  if (a.name.empty()) {
    std::vector<std::vector<std::string>> rows;
    Json json = Json::array();
    for (const onnx::ZooEntry& entry : onnx::zoo_models()) {
      rows.push_back({entry.name, entry.description});
      json.push_back({{"name", entry.name}, {"description", entry.description}});
    }
    print(a.common.json ? dump(json) : format_table(rows, 2));
    return kOk;
  }
  if (a.output.empty())
    return make_error(ErrorClass::kUsage, "no file to write the model to was named",
                      fmt::format("tcc zoo {0} -o {0}.onnx", sanitize(a.name)));
  TCC_TRY(driver::ModelSource source, parse_model(a.model));
  TCC_TRY_VOID(driver::write_model(a.name, source, a.output));
  remark(a.common.quiet, fmt::format("wrote {}", a.output));
  return kOk;
}

}  // namespace tcc::cli
