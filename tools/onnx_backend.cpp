// onnx_backend: runs ONNX's own test cases through the whole of tcc. Each case is imported, compiled without tuning,
// made a library, loaded and run as a user would, in a process of its own; its outputs must equal the stored ones (same
// number, shapes and types; |a - b| <= 1e-7 + 1e-3 |b|; NaN equals NaN). What a model's shapes depend on is fixed to
// the stored value before compiling, as --freeze does, and named in the report.
//
// Exit status: 0 every case is as the expectation file says, 1 some are not, 2 usage.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "onnx_backend_tiers.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/graph/error_bound.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/refusal.h"
#include "tcc/onnx/importer.h"
#include "tcc/package/loaded_model.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::onnx_backend {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kUsage[] =
    "usage: onnx_backend [--target host] [--data DIR] [--expect FILE] [--json FILE] [--filter TEXT] [--every N]\n"
    "                    [--schedule plain|default] [--jobs N] [--timeout SECONDS] [--write FILE]\n"
    "                    [--bounded yes]\n"
    "  --data DIR      folder with node, simple, pytorch-converted, pytorch-operator (default: Debian's "
    "libonnx-testdata)\n"
    "  --expect FILE   what each case must do (default: tests/onnx_backend/expectations.txt); --write FILE makes one\n"
    "  --filter TEXT   only cases whose name contains the text; --every N: only each Nth case\n"
    "  --schedule      plain: the loops as they are (default); default: the schedule that an untuned build uses\n"
    "  --bounded yes   compare with the reference in double, too: allowed is what rounding explains, element by "
    "element\n";

struct Options {
  std::string data = "/usr/share/libonnx-testdata/data", expect, json, filter, write;
  bool scheduled = false, bounded = false;
  int jobs = 2, timeout = 20, every = 1;
};

struct Case {
  std::string name;  // "node/test_abs"
  fs::path folder;
};

struct Outcome {
  std::string status;  // passed, refused, wrong, crashed, hung
  std::string reason;  // of a refusal
  std::string detail;
  std::vector<std::string> frozen;
};

std::string joined(const Error& error) {
  return sanitize(error.message, 300);
}

// --- one case, in the child ------------------------------------------------------------------------------------------

Outcome failure_of(const Error& error) {
  auto reason = graph::refusal_of(error);
  if (reason) return {"refused", std::string(graph::refusal_code(*reason)), joined(error), {}};
  // An error that no reason of the list explains: tcc should have served the case.
  return {"wrong", "", joined(error), {}};
}

using Tensors = std::map<int, Result<onnx::TensorFile>>;

// input_0.pb, input_1.pb, ... of a case. NumPy, which wrote them, has no bfloat16: its bits are uint16.
Tensors read_tensors(const fs::path& folder, const std::string& stem, bool bfloat16_as_uint16 = true) {
  Tensors tensors;
  for (int i = 0; fs::exists(folder / fmt::format("{}_{}.pb", stem, i)); ++i) {
    tensors.emplace(i,
                    onnx::read_tensor_file((folder / fmt::format("{}_{}.pb", stem, i)).string(), bfloat16_as_uint16));
  }
  return tensors;
}

// Imports; what shapes depend on is fixed to the stored inputs.
Result<graph::Graph> import_case(const std::string& path, const std::vector<std::string>& names, const Tensors& inputs,
                                 std::vector<std::string>& frozen) {
  onnx::ImportOptions options;
  while (true) {
    std::vector<std::string> wanted;
    options.inputs_to_freeze = &wanted;
    auto graph = onnx::import_model(path, options);
    if (graph) return graph;
    bool more = false;
    // Dimensions that the model leaves open are those of the stored inputs, as --shape would say.
    if (graph.error().cls == ErrorClass::kUsage && options.input_shapes.empty()) {
      for (const auto& [i, tensor] : inputs) {
        if (!tensor || static_cast<size_t>(i) >= names.size()) continue;
        options.input_shapes.emplace(names[static_cast<size_t>(i)], tensor->shape);
        more = true;
      }
    }
    for (const std::string& name : wanted) {
      auto at = std::find(names.begin(), names.end(), name);
      auto tensor = inputs.find(static_cast<int>(at - names.begin()));
      if (at == names.end() || tensor == inputs.end() || !tensor->second) continue;
      if (!options.frozen.emplace(name, *tensor->second).second) continue;
      frozen.push_back(name);
      more = true;
    }
    if (!more) return graph;
  }
}

Result<std::string> build_case(graph::Graph graph, const std::string& folder, bool scheduled) {
  driver::Model model;
  model.source.model = "case.onnx";
  model.graph = std::move(graph);
  model.hash = "0000000000000000";
  driver::BuildOptions options;
  options.targets = {target::host_target()};
  options.folder = folder;
  options.id = "model";
  if (scheduled) {
    TCC_TRY(driver::BuildReport report, driver::build_model(model, options));
    return report.package.library;
  }
  TCC_TRY(driver::Program program, driver::make_program(model));
  const graph::MemoryPlan memory = graph::plan_memory(program.graph, program.groups);
  package::PackagePlan plan;
  plan.graph = &program.graph;
  plan.groups = &program.groups;
  plan.memory = &memory;
  plan.tasks = &program.tasks;
  plan.dynamic = program.dynamic ? &*program.dynamic : nullptr;
  plan.target = options.targets[0];
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    TCC_TRY(const search::Chosen plain, search::unscheduled_program(program.tasks.tasks[i], plan.target));
    TCC_TRY(codegen::Artifact artifact,
            backend::backend_of(plan.target).compile(plain.lowered, plan.target, {.prefix = fmt::format("k{}", i)}));
    plan.codes.push_back({std::move(artifact), 0, "", ""});
  }
  package::PackageOptions package_options;
  package_options.folder = folder;
  package_options.id = options.id;
  package_options.tool_version = driver::tool_version();
  TCC_TRY(package::PackageReport report, package::build_library(plan, package_options));
  return report.library;
}

// Of a model with random operators only types and shapes can be compared: ONNX fixes no generator.
bool draws_numbers(const graph::Graph& graph) {
  static const std::set<std::string> kRandom = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                                "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return std::any_of(graph.sources.begin(), graph.sources.end(),
                     [](const graph::SourceNode& node) { return kRandom.contains(node.type); });
}

// The stored result and the library's are rounded results of the same definition.
std::string compare_bounded(const package::TensorSpec& spec, const graph::Constant& actual,
                            const onnx::TensorFile& expected, const graph::BoundedTensor& bounded) {
  int64_t flips = 0;
  const int64_t count = graph::element_count(spec.shape);
  // What rounds the stored result where the importer folds constants without rounding: a few operators, or all of them,
  // among which exponentials and powers grow errors.
  constexpr double kOfSome = 16, kOfAll = 1024;
  const bool all = std::all_of(bounded.allowed.begin(), bounded.allowed.end(), [](double a) { return a == 0; });
  double folded = 0;
  for (int64_t i = 0; graph::is_float(spec.dtype) && i < count; ++i) {
    const double v = std::fabs(graph::constant_element(expected.constant, spec.dtype, i));
    const double unit = std::max(graph::unit_roundoff(spec.dtype), all ? graph::unit_roundoff(graph::DType::kF32) : 0);
    if (std::isfinite(v)) folded = std::max(folded, (all ? kOfAll : kOfSome) * unit * v);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double own = graph::constant_element(actual, spec.dtype, i);
    const double stored = graph::constant_element(expected.constant, spec.dtype, i);
    const double exact = bounded.value.data[static_cast<size_t>(i)];
    const double allowed = bounded.allowed[static_cast<size_t>(i)];
    const auto near = [&](double a, double b, double most) {
      return (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= most;
    };
    // The same as stored: the reference has no rounding to f16 between operators.
    if (std::isinf(allowed) || own == stored || (std::isnan(own) && std::isnan(stored))) continue;
    if ((bounded.unsure || near(own, exact, allowed)) && near(own, stored, 4 * allowed + folded + 1e-6)) continue;
    if (++flips <= bounded.may_flip) continue;
    return fmt::format("output '{}' at {}: {}, stored is {}, the reference says {}, {} is allowed", sanitize(spec.name),
                       i, own, stored, exact, allowed);
  }
  return "";
}

std::string compare(const package::TensorSpec& spec, const std::vector<std::byte>& bytes,
                    const onnx::TensorFile& expected, bool random, const graph::BoundedTensor* bounded) {
  if (spec.dtype != expected.dtype || spec.shape != expected.shape) {
    return fmt::format("output '{}' is {} {}, expected {} {}", sanitize(spec.name), graph::dtype_name(spec.dtype),
                       graph::shape_text(spec.shape), graph::dtype_name(expected.dtype),
                       graph::shape_text(expected.shape));
  }
  if (random) return "";
  int64_t count = graph::element_count(spec.shape);
  graph::Constant actual = graph::make_constant(bytes);
  if (bounded != nullptr) return compare_bounded(spec, actual, expected, *bounded);
  // The stored bf16 results were cut off, not rounded: they may be one unit of the last place away.
  const double relative = spec.dtype == graph::DType::kBF16 ? 0x1p-7 : 1e-3;
  for (int64_t i = 0; i < count; ++i) {
    double a = graph::constant_element(actual, spec.dtype, i),
           b = graph::constant_element(expected.constant, spec.dtype, i);
    const bool near = std::isfinite(b) && std::fabs(a - b) <= 1e-7 + relative * std::fabs(b);
    const bool equal = (std::isnan(a) && std::isnan(b)) || a == b || near;
    if (!equal) return fmt::format("output '{}' at {}: {} instead of {}", sanitize(spec.name), i, a, b);
  }
  return "";
}

// `unread`: inputs that no operator reads (CastLike wants their type only); their data may have any shape.
Result<Outcome> run_library(const std::string& path, const std::vector<std::string>& names,
                            const std::set<std::string>& unread, const Tensors& inputs, const Tensors& outputs,
                            bool random, const std::vector<graph::BoundedTensor>& bounded) {
  TCC_TRY(auto library, package::LoadedModel::open(path));
  if (library->outputs().size() != outputs.size())
    return Outcome{"wrong", "", fmt::format("{} outputs instead of {}", library->outputs().size(), outputs.size()), {}};
  std::vector<std::vector<std::byte>> storage, results;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const package::TensorSpec& spec : library->inputs()) {
    if (unread.contains(spec.name)) {
      storage.emplace_back(static_cast<size_t>(spec.bytes), std::byte{0});
      continue;
    }
    auto at = std::find(names.begin(), names.end(), spec.name) - names.begin();
    auto tensor = inputs.find(static_cast<int>(at));
    if (tensor == inputs.end()) return input_error("no data for input '{}'", sanitize(spec.name));
    if (!tensor->second) return tl::make_unexpected(tensor->second.error());
    const onnx::TensorFile& data = *tensor->second;
    if (data.dtype != spec.dtype || data.shape != spec.shape)
      return input_error("the data for input '{}' has another type or shape", sanitize(spec.name));
    storage.emplace_back(data.constant.bytes.begin(), data.constant.bytes.end());
  }
  for (auto& bytes : storage) input_pointers.push_back(bytes.data());
  for (const package::TensorSpec& spec : library->outputs())
    results.emplace_back(static_cast<size_t>(spec.bytes), std::byte{0xff});
  for (auto& bytes : results) output_pointers.push_back(bytes.data());
  TCC_TRY(auto context, library->create_context({1}));
  TCC_TRY_VOID(context->run(input_pointers, output_pointers));
  for (const auto& [i, expected] : outputs) {
    if (!expected) return tl::make_unexpected(expected.error());
    auto n = static_cast<size_t>(i);
    package::TensorSpec spec = library->outputs()[n];
    const bool counted = spec.shape != context->output_shape(n);  // the reference has all of its elements
    spec.shape = context->output_shape(n);
    results[n].resize(static_cast<size_t>(graph::element_count(spec.shape) * graph::dtype_size(spec.dtype)));
    std::string difference =
        compare(spec, results[n], *expected, random, !counted && n < bounded.size() ? &bounded[n] : nullptr);
    if (!difference.empty()) return Outcome{"wrong", "", difference, {}};
  }
  return Outcome{"passed", "", "", {}};
}

Result<std::vector<graph::BoundedTensor>> run_bounded(const graph::Graph& graph, const std::vector<std::string>& names,
                                                      const Tensors& inputs) {
  std::vector<graph::HostTensor> values;
  for (graph::ValueId id : graph.inputs) {
    const graph::Value& v = graph.value(id);
    auto tensor = inputs.find(static_cast<int>(std::find(names.begin(), names.end(), v.name) - names.begin()));
    if (tensor == inputs.end()) return input_error("no data for input '{}'", sanitize(v.name));
    if (!tensor->second) return tl::make_unexpected(tensor->second.error());
    values.push_back({v.shape, graph::constant_doubles(tensor->second->constant, v.dtype, v.elements())});
  }
  return graph::run_bounded_reference(graph, values, {}, 1);
}

Outcome run_case(const Case& test, const std::string& folder, const Options& options) {
  const fs::path data = test.folder / "test_data_set_0";
  Tensors inputs = read_tensors(data, "input"), outputs = read_tensors(data, "output");
  const std::string path = (test.folder / "model.onnx").string();
  auto description = onnx::describe_model(path);
  if (!description) return failure_of(description.error());
  if (!description->only_tensors)
    return {"refused",
            std::string(graph::refusal_code(graph::Refusal::kNotATensor)),
            "its data are sequences or optional values, which this tool does not read",
            {}};
  std::vector<std::string> frozen;
  auto finish = [&](Outcome outcome) {
    outcome.frozen = frozen;
    return outcome;
  };
  auto graph = import_case(path, description->inputs, inputs, frozen);
  if (!graph) return finish(failure_of(graph.error()));
  const auto is_u16 = [&](graph::ValueId id) { return graph->value(id).dtype == graph::DType::kU16; };
  if (std::any_of(graph->inputs.begin(), graph->inputs.end(), is_u16) ||
      std::any_of(graph->outputs.begin(), graph->outputs.end(), is_u16))
    inputs = read_tensors(data, "input", false), outputs = read_tensors(data, "output", false);
  std::set<std::string> unread;
  auto consumers = graph::find_consumers(*graph);
  for (graph::ValueId id : graph->inputs) {
    bool returned = std::find(graph->outputs.begin(), graph->outputs.end(), id) != graph->outputs.end();
    if (consumers[static_cast<size_t>(id)].empty() && !returned) unread.insert(graph->value(id).name);
  }
  const bool random = draws_numbers(*graph);
  std::vector<graph::BoundedTensor> bounded;
  if (options.bounded) {
    auto made = run_bounded(*graph, description->inputs, inputs);
    if (!made) return finish(failure_of(made.error()));
    bounded = std::move(*made);
  }
  auto library = build_case(std::move(*graph), folder, options.scheduled);
  if (!library) return finish(failure_of(library.error()));
  auto outcome = run_library(*library, description->inputs, unread, inputs, outputs, random, bounded);
  return finish(outcome ? *outcome : failure_of(outcome.error()));
}

// --- processes -------------------------------------------------------------------------------------------------------

Outcome parse_outcome(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return {"crashed", "", "the process ended without a result", {}};
  return {json["status"], json["reason"], json["detail"], json["frozen"].get<std::vector<std::string>>()};
}

// Runs the case in a child: crashes and endless loops cost one case.
Outcome isolated(const Case& test, const Options& options, const std::string& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {"crashed", "", "no pipe", {}};
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Outcome o = run_case(test, folder, options);
    std::string text =
        Json{{"status", o.status}, {"reason", o.reason}, {"detail", o.detail}, {"frozen", o.frozen}}.dump(
            -1, ' ', false, Json::error_handler_t::replace);
    for (size_t at = 0; at < text.size();) {
      ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {"crashed", "", "no process", {}};
  }
  std::string text;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.timeout);
  bool hung = false;
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd wait{ends[0], POLLIN, 0};
    int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      hung = true;
      kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (hung) return {"hung", "", fmt::format("no result within {} seconds", options.timeout), {}};
  if (WIFSIGNALED(status)) return {"crashed", "", fmt::format("signal {}", WTERMSIG(status)), {}};
  return parse_outcome(text);
}

// Workers are processes: forking from threads would copy locks that LLVM may hold.
std::vector<Outcome> run_all(const std::vector<Case>& cases, const Options& options, const std::string& folder) {
  std::vector<std::pair<pid_t, std::string>> workers;
  for (int w = 0; w < options.jobs; ++w) {
    std::string results = fmt::format("{}/results{}", folder, w);
    pid_t child = fork();
    if (child == 0) {
      std::ofstream out(results);
      for (size_t i = static_cast<size_t>(w); i < cases.size(); i += static_cast<size_t>(options.jobs)) {
        std::string own = fmt::format("{}/case{}", folder, i);
        Outcome o = isolated(cases[i], options, own);
        std::error_code ignored;
        fs::remove_all(own, ignored);
        out << Json{{"index", i},
                    {"status", o.status},
                    {"reason", o.reason},
                    {"detail", o.detail},
                    {"frozen", o.frozen}}
                   .dump(-1, ' ', false, Json::error_handler_t::replace)
            << std::endl;
      }
      out.close();
      _exit(0);
    }
    workers.emplace_back(child, results);
  }
  std::vector<Outcome> outcomes(cases.size(), Outcome{"crashed", "", "the worker ended", {}});
  for (const auto& [child, results] : workers) {
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    std::ifstream in(results);
    for (std::string line; std::getline(in, line);) {
      Json json = Json::parse(line, nullptr, false);
      if (!json.is_discarded()) outcomes[json["index"].get<size_t>()] = parse_outcome(line);
    }
  }
  return outcomes;
}

// --- report ----------------------------------------------------------------------------------------------------------

std::vector<Case> find_cases(const Options& options) {
  std::vector<Case> cases;
  for (const char* kind : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(options.data) / kind, error)) {
      if (fs::exists(entry.path() / "model.onnx"))
        cases.push_back({fmt::format("{}/{}", kind, entry.path().filename().string()), entry.path()});
    }
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  std::vector<Case> chosen;
  for (size_t i = 0; i < cases.size(); i += static_cast<size_t>(options.every)) {
    if (cases[i].name.find(options.filter) != std::string::npos) chosen.push_back(cases[i]);
  }
  return chosen;
}

std::string verdict(const Outcome& o) {
  if (o.status == "passed") return "pass";
  return o.status == "refused" ? "refuse " + o.reason : o.status;
}

// Lines "NAME pass", "NAME refuse REASON", "NAME xfail"; # starts a comment.
Result<std::map<std::string, std::string>> read_expectations(const std::string& path) {
  TCC_TRY(std::string text, read_file(path, uint64_t{1} << 24));
  std::map<std::string, std::string> expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t space = line.find(' ');
    if (space == std::string::npos) return input_error("'{}': the line '{}' has no verdict", path, sanitize(line));
    expected[line.substr(0, space)] = line.substr(space + 1);
  }
  return expected;
}

bool as_expected(const std::string& expected, const Outcome& o) {
  return expected == "xfail" ? o.status == "wrong" : expected == verdict(o);
}

Result<int> run(const Options& options) {
  std::vector<Case> cases = find_cases(options);
  if (cases.empty()) {
    return make_error(ErrorClass::kInput, fmt::format("no test cases in '{}'", options.data),
                      "install libonnx-testdata, or give --data DIR");
  }
  std::map<std::string, std::string> expected;
  if (!options.expect.empty()) {
    TCC_TRY(expected, read_expectations(options.expect));
  }
  TCC_TRY(auto folder, TemporaryDirectory::create("tcc-onnx-backend"));
  std::vector<Outcome> outcomes = run_all(cases, options, folder->path());

  std::map<std::string, int> counts{{"passed", 0}, {"refused", 0}, {"wrong", 0}, {"crashed", 0}, {"hung", 0}};
  std::map<std::string, int> reasons;
  std::map<std::string, std::map<std::string, int>> tiers;
  Json list = Json::array();
  int unexpected = 0;
  std::string written =
      "# What tools/onnx_backend finds for each case: pass, refuse REASON, or xfail (known to be wrong).\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    const Outcome& o = outcomes[i];
    ++counts[o.status];
    if (o.status == "refused") ++reasons[o.reason];
    auto& tier = tiers[tier_of(cases[i].name, cases[i].folder)];
    ++tier["total"];
    tier["passed"] += o.status == "passed";
    tier["out_of_scope"] += o.reason == "not-a-tensor" || o.reason == "training";
    Json entry{{"name", cases[i].name}, {"status", o.status}};
    if (!o.reason.empty()) entry["reason"] = o.reason;
    if (!o.detail.empty()) entry["detail"] = o.detail;
    if (!o.frozen.empty()) entry["frozen"] = o.frozen;
    list.push_back(entry);
    written += fmt::format("{} {}\n", cases[i].name, o.status == "wrong" ? "xfail" : verdict(o));
    auto it = expected.find(cases[i].name);
    bool fine = options.expect.empty() ? o.status == "passed" || o.status == "refused"
                                       : it != expected.end() && as_expected(it->second, o);
    if (fine) continue;
    ++unexpected;
    std::printf("%-60s %s, expected %s%s%s\n", cases[i].name.c_str(), verdict(o).c_str(),
                it == expected.end() ? "nothing" : it->second.c_str(), o.detail.empty() ? "" : "\n    ",
                o.detail.c_str());
  }
  Json report(counts);
  report["unexpected"] = unexpected;
  report["reasons"] = reasons;
  report["by_tier"] = tiers;
  std::printf("%s\n", report.dump(1).c_str());
  report["cases"] = list;
  if (!options.json.empty()) TCC_TRY_VOID(write_file(options.json, report.dump(1) + "\n"));
  if (!options.write.empty()) TCC_TRY_VOID(write_file(options.write, written));
  return unexpected == 0 ? 0 : 1;
}

bool parse(int argc, char** argv, Options& options) {
  std::map<std::string, std::string*> texts{{"--data", &options.data},
                                            {"--expect", &options.expect},
                                            {"--json", &options.json},
                                            {"--filter", &options.filter},
                                            {"--write", &options.write}};
  std::map<std::string, int*> numbers{
      {"--jobs", &options.jobs}, {"--timeout", &options.timeout}, {"--every", &options.every}};
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (++i == argc) return false;
    std::string value = argv[i];
    if (auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
    } else if (auto number = numbers.find(name); number != numbers.end()) {
      *number->second = std::atoi(value.c_str());
      if (*number->second < 1) return false;
    } else if (name == "--schedule" && (value == "plain" || value == "default")) {
      options.scheduled = value == "default";
    } else if (name == "--bounded" && value == "yes") {
      options.bounded = true;
    } else if (name != "--target" || value != "host") {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace tcc::onnx_backend

int main(int argc, char** argv) {
  using namespace tcc::onnx_backend;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  auto status = run(options);
  if (status) return *status;
  std::fprintf(stderr, "onnx_backend: error: %s\n", status.error().message.c_str());
  if (!status.error().hint.empty()) std::fprintf(stderr, "  %s\n", status.error().hint.c_str());
  return 1;
}
