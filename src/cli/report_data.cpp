#include "cli/report_data.h"

#include <algorithm>
#include <map>

#include "cli/explain_json.h"
#include "cli/output.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/records.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

Json row(const std::string& name, const std::string& value) {
  return Json::array({name, value});
}

Json roof(const char* name, double rate) {
  return {{"name", name}, {"rate", rate}};
}

// The lines of the roofline, and whose rates they are.
Json roofs_json(const target::Target& target, const driver::MachineFacts* facts) {
  Json compute = Json::array(), memory = Json::array();
  const auto add = [](Json& list, const char* name, double rate) {
    if (rate > 0) list.push_back(roof(name, rate));
  };
  if (facts != nullptr) {
    const target::ProbeResult& probe = facts->probe;
    add(compute, "f32, all cores", probe.fp32.all_cores);
    add(compute, "f32, one core", probe.fp32.one_core);
    add(memory, "second-level cache", probe.l2_read.all_cores);
    add(memory, "third-level cache", probe.l3_read.all_cores);
    add(memory, "memory", probe.dram_read.all_cores);
    return {{"compute", compute}, {"memory", memory}, {"source", "The rates were measured on this machine."}};
  }
  add(compute, "f32", target.peak.fp32);
  add(compute, "tf32 products", target.peak.tf32);
  add(compute, "f16 products", target.peak.fp16);
  add(memory, "memory", target.memory_bandwidth);
  return {{"compute", compute},
          {"memory", memory},
          {"source", fmt::format("The rates are nominal ones of '{}'.", target.name)}};
}

std::string now_text() {
  return format_minute(static_cast<int64_t>(Clock::system().unix_seconds())) + " UTC";
}

Json page_json(const char* kind, const std::string& title, const std::string& subtitle) {
  return {{"schema_version", kJsonSchema}, {"kind", kind}, {"title", sanitize(title)}, {"subtitle", subtitle}};
}

// A trial as an array: there are thousands.
Json trials_json(const std::vector<driver::ReportTrial>& trials) {
  Json list = Json::array();
  for (const driver::ReportTrial& t : trials)
    list.push_back(Json::array({t.record, t.unix_time, t.seconds, t.predicted, t.form}));
  return list;
}

Json reported_task_json(const driver::ReportedTask& t) {
  Json json = explanation_json(t.explanation);
  json.update(
      TCC_JSON(t, number, weight, bytes, default_seconds, plain_seconds, threads, nest, program, code, code_note));
  json["schedule_text"] = t.schedule;
  json["launch_models"] = cost::launch_models_to_json<Json>(t.launch_models);
  json["forms"] = Json::array();
  for (const driver::ReportedForm& f : t.forms)
    json["forms"].push_back(TCC_JSON(f, form, key, built, trials, best_seconds));
  json["trials"] = trials_json(t.trials);
  // Of all forms on this machine. The explanation counts those of the built form on all machines.
  json["records"] = Json::array();
  for (const driver::RecordedFailure& f : t.failures) json["records"].push_back(TCC_JSON(f, status, count, example));
  return json;
}

std::string text_of(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
const Json& member(const Json& json, const char* name) {
  static const Json kNone = Json::object();
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found == json.end() ? kNone : *found;
}

std::string trace_text(const Json& trace) {
  record::Record r;
  r.trace = trace.is_string() ? trace.get<std::string>() : trace.dump();
  return driver::record_schedule(r);
}

// What a library's description says of a task. Of several architectures, the first with machine code counts.
Json library_task(const Json& t, int64_t number) {
  Json json = {{"number", number},
               {"key", text_of(t, "key")},
               {"workload", text_of(t, "workload")},
               {"form", driver::form_of(text_of(t, "workload"))},
               {"nodes", task::nodes_to_json<Json>(task::nodes_from_json(member(t, "nodes")))},
               {"weight", std::max(number_of(t, "count"), 1.0)},
               {"flops", number_of(t, "flops")},
               {"bytes", number_of(t, "bytes")},
               {"seconds", number_of(t, "seconds")},
               {"tuned", t.contains("tuned") && t["tuned"] == true}};
  const Json& codes = member(t, "code");
  const Json* code = nullptr;
  for (const Json& c : codes)
    if (code == nullptr && text_of(c, "format") != "ptx") code = &c;
  if (code == nullptr && codes.is_array() && !codes.empty()) code = &codes[0];
  json["schedule"] = json["tuned"] == true ? "tuned" : "default schedule";
  const Json& trace = member(code != nullptr ? *code : t, "trace");
  if (!trace.empty()) json["schedule_text"] = trace_text(trace);
  if (code == nullptr) return json;
  json["schedule"] = text_of(*code, "record");
  json["seconds"] = std::max(number_of(*code, "seconds"), number_of(*code, "predicted_seconds"));
  for (const char* fact : {"registers", "spill_bytes", "stack_bytes", "shared_bytes"})
    if (code->contains(fact)) json["facts"][fact] = number_of(*code, fact);
  if (const Json& models = member(*code, "launch_models"); models.is_array()) json["launch_models"] = models;
  json["launches"] = Json::array();
  for (const Json& l : member(*code, "launches"))
    json["launches"].push_back(fmt::format("launch {}: grid {}, block {}, {} of dynamic shared memory",
                                           text_of(l, "symbol"), member(l, "grid").dump(), member(l, "block").dump(),
                                           format_bytes(number_of(l, "dynamic_shared_bytes"))));
  return json;
}

Json library_tasks(const Json& metadata) {
  Json tasks = Json::array();
  for (const Json& t : member(metadata, "tasks"))
    if (t.is_object()) tasks.push_back(library_task(t, std::ssize(tasks)));
  return tasks;
}

std::string version_line(const Json& metadata) {
  return fmt::format("{}, built by tcc {}", text_of(metadata, "id"), text_of(metadata, "tool_version"));
}

Json library_rows(const std::string& path, const Json& m) {
  const Json &source = member(m, "source"), &target = member(m, "target");
  Json rows = Json::array({row("library", path), row("built by", "tcc " + text_of(m, "tool_version")),
                           row("model", text_of(source, "model")), row("hash of the model", text_of(source, "hash")),
                           row("target", text_of(target, "name") + " " + text_of(target, "features"))});
  if (const std::string precision = text_of(source, "precision"); !precision.empty())
    rows.push_back(row("precision", precision));
  if (source.value("fast_math", Json(false)) == Json(true)) rows.push_back(row("arithmetic", "--fast-math"));
  if (const std::string toolkit = text_of(m, "cuda_toolkit"); !toolkit.empty()) rows.push_back(row("CUDA", toolkit));
  rows.push_back(row("weights", format_bytes(number_of(m, "weights_bytes"))));
  rows.push_back(row("workspace", format_bytes(number_of(m, "workspace_bytes"))));
  return rows;
}

void end_rows(Json& page) {
  page["provenance"].push_back(row("report made by", "tcc " + driver::tool_version()));
  page["provenance"].push_back(row("report made at", now_text()));
}

bool is_cuda(const Json& metadata) {
  return text_of(member(metadata, "target"), "kind") == "cuda";
}

void add_library_roofs(Json& page, const Json& metadata, const driver::MachineFacts* facts) {
  if (is_cuda(metadata)) {
    const std::string name = text_of(member(metadata, "target"), "name");
    if (const auto target = target::find_target(name.substr(0, name.find(','))))
      page["roofs"] = roofs_json(*target, nullptr);
  } else if (facts != nullptr) {
    page["roofs"] = roofs_json(facts->target, facts);
    page["roofs"]["source"] = "The rates were measured on the machine that made this report.";
  }
}

constexpr const char* kPredictions =
    "Each point is a measured program of the records. The prediction is computed for this report by the model of the "
    "target that needs no training: of a GPU its analytical model, of a CPU the draft model. A search ranks by learned "
    "models as well, whose scores the records do not keep.";

}  // namespace

Json model_page(const ModelOnPage& p) {
  const target::Target& target = p.open.target;
  Json page = page_json("model", p.name,
                        fmt::format("{} kernels of {} tasks, target {}, {}", p.open.program.groups.size(),
                                    p.tasks.size(), target.name, plural(p.threads, "thread")));
  page["tasks"] = Json::array();
  for (const driver::ReportedTask& t : p.tasks) page["tasks"].push_back(reported_task_json(t));
  page["runs"] = Json::array();
  for (const driver::TuningRun& r : p.history.runs)
    page["runs"].push_back({{"began", r.begin},
                            {"seconds", r.end - r.begin},
                            {"trials", r.records},
                            {"tasks", r.tasks},
                            {"model_seconds", r.seconds},
                            {"tool_version", r.version},
                            {"platform", r.platform},
                            {"phases", r.phases}});
  page["roofs"] = roofs_json(target, p.facts);
  page["predictions"] = kPredictions;
  page["provenance"] = Json::array({row("model", p.name), row("hash of the model", p.open.model.hash),
                                    row("target", target.name), row("threads", std::to_string(p.threads))});
  for (const auto& part : p.open.records.parts)
    if (const auto* store = dynamic_cast<const record::Store*>(part.get()))
      page["provenance"].push_back(row("records", store->path()));
  const auto newest =
      std::find_if(p.tasks.begin(), p.tasks.end(), [](const auto& t) { return !t.tool_version.empty(); });
  if (newest != p.tasks.end()) {
    page["provenance"].push_back(row("measured by", "tcc " + newest->tool_version));
    page["provenance"].push_back(row("measured on", newest->platform.empty() ? "not known" : newest->platform));
  }
  if (p.facts != nullptr) page["provenance"].push_back(row("processor", p.facts->machine));
  end_rows(page);
  return page;
}

Json store_page(const std::string& path, const std::vector<driver::StoredTask>& tasks) {
  Json page =
      page_json("store", path, fmt::format("{} in a file of tuning records", plural(std::ssize(tasks), "task")));
  page["tasks"] = Json::array();
  std::map<std::string, int64_t> platforms;
  for (const driver::StoredTask& t : tasks) {
    Json json = reported_task_json(t.task);
    json["target"] = t.target;
    page["tasks"].push_back(std::move(json));
    platforms[t.platform] += std::ssize(t.task.trials);
  }
  page["notes"] =
      Json::array({"A file of records does not know the models that its tasks are of: tcc report MODEL shows nodes, "
                   "loops and code."});
  page["provenance"] = Json::array({row("records", path)});
  for (const auto& [platform, count] : platforms)
    page["provenance"].push_back(
        row("platform", fmt::format("{}: {}", platform.empty() ? "not known" : platform, plural(count, "program"))));
  end_rows(page);
  return page;
}

Json library_page(const std::string& path, const Json& metadata, const driver::MachineFacts* facts) {
  Json page = page_json("library", path, version_line(metadata));
  page["tasks"] = library_tasks(metadata);
  page["notes"] =
      Json::array({"Times are those of tuning: tcc bench LIB --per-kernel measures the kernels in the model."});
  page["provenance"] = library_rows(path, metadata);
  add_library_roofs(page, metadata, facts);
  end_rows(page);
  return page;
}

Json pair_page(const std::string& path_a, const Json& a, const std::string& path_b, const Json& b,
               const driver::MachineFacts* facts) {
  Json page = page_json("pair", fmt::format("a: {}, b: {}", path_a, path_b),
                        fmt::format("a is {}; b is {}", version_line(a), version_line(b)));
  std::map<std::string, size_t> places;
  Json pairs = Json::array();
  for (const auto& [side, metadata] : {std::pair("a", &a), std::pair("b", &b)})
    for (Json& t : library_tasks(*metadata)) {
      const auto [place, fresh] = places.try_emplace(text_of(t, "key"), pairs.size());
      if (fresh) {
        Json pair;
        for (const char* shared : {"key", "workload", "nodes", "weight", "flops", "bytes"}) pair[shared] = t[shared];
        pair["number"] = pairs.size();
        pairs.push_back(std::move(pair));
      }
      Json& one = pairs[place->second][side];
      for (const char* own : {"seconds", "tuned", "schedule", "schedule_text"})
        if (t.contains(own)) one[own] = std::move(t[own]);
    }
  page["pairs"] = std::move(pairs);
  page["notes"] = Json::array();
  if (text_of(member(a, "source"), "hash") != text_of(member(b, "source"), "hash"))
    page["notes"].push_back("The libraries are of different models: tasks with equal keys are compared.");
  page["provenance"] = Json::array();
  for (const auto& [name, metadata] : {std::pair(&path_a, &a), std::pair(&path_b, &b)})
    for (Json& r : library_rows(*name, *metadata)) page["provenance"].push_back(std::move(r));
  add_library_roofs(page, a, facts);
  end_rows(page);
  return page;
}

}  // namespace tcc::cli
