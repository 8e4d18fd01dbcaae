// Steps that other programs do: PyTorch beside the operators, and `tcc` tuning whole models.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gpu/child.h"
#include "gpu/run.h"
#include "tcc/support/text.h"

namespace tcc::gpu_check {
namespace {

using nlohmann::json;

constexpr double kMinSeconds = 20;  // of a child: a shorter one shows nothing

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// --- PyTorch -------------------------------------------------------------------------------------------------------

std::vector<json> torch_cases() {
  std::vector<json> cases;
  for (const char* type : {"bf16", "f16", "f32"})
    cases.push_back({{"name", fmt::format("gemm.4096x4096x4096.{}", type)},
                     {"kind", "gemm"},
                     {"type", type},
                     {"m", 4096},
                     {"n", 4096},
                     {"k", 4096}});
  cases.push_back({{"name", "softmax.8192x4096"}, {"kind", "softmax"}, {"rows", 8192}, {"columns", 4096}});
  cases.push_back({{"name", "layernorm.16384x1024"}, {"kind", "layernorm"}, {"rows", 16384}, {"columns", 1024}});
  cases.push_back({{"name", "reduce_sum.8192x8192"}, {"kind", "reduce_sum"}, {"rows", 8192}, {"columns", 8192}});
  cases.push_back({{"name", "attention.1x16x2048x64.f16"},
                   {"kind", "attention"},
                   {"type", "f16"},
                   {"batch", 1},
                   {"heads", 16},
                   {"tokens", 2048},
                   {"depth", 64}});
  cases.push_back({{"name", "conv.1x64x56x56.f64.k3.s1.f32"},
                   {"kind", "conv"},
                   {"batch", 1},
                   {"channels", 64},
                   {"height", 56},
                   {"width", 56},
                   {"filters", 64},
                   {"kernel", 3},
                   {"stride", 1},
                   {"pad", 1},
                   {"group", 1}});
  return cases;
}

Result<void> take_torch(Run& run, const std::string& line) {
  const json answer = json::parse(line, nullptr, false);
  if (!answer.is_object() || !answer.contains("name") || !answer.contains("way")) return {};
  const std::string name =
      fmt::format("torch.{}.{}", answer["way"].get<std::string>(), answer["name"].get<std::string>());
  if (answer.contains("error")) {
    run.absent(fmt::format("{}: {}", name, sanitize(answer["error"].get<std::string>())));
    return {};
  }
  return run.row({name, answer.value("seconds", 0.0) * 1e6, "us", "", 0});
}

// --- tcc -----------------------------------------------------------------------------------------------------------

// The program: as told, beside this one, or in a build's folder; "" = none.
std::string find_tcc(const Run& run) {
  if (!run.options.tcc.empty()) return run.options.tcc;
  for (const std::string& path : {run.options.self + "/tcc", run.options.self + "/../tools/tcc"})
    if (file_exists(path)) return path;
  return "";
}

std::string database(const Run& run) {
  return run.options.out + ".db";
}

// The last line of what `tcc ... --json` printed.
json last_line(const std::string& text) {
  json last;
  for (const std::string& line : split_lines(text))
    if (json parsed = json::parse(line, nullptr, false); parsed.is_object()) last = std::move(parsed);
  return last;
}

struct Tuning {
  std::string model;
  int64_t trials = 0;
  double seconds = 0;
};

Result<void> tune_model(Run& run, const std::string& tcc, const Tuning& t) {
  const bool device = run.backend.is_device();
  const std::string name = fmt::format("tune.{}", t.model);
  std::vector<std::string> words = {tcc,
                                    "tune",
                                    "zoo:" + t.model,
                                    "--target",
                                    device ? fmt::format("cuda:{}", run.options.device) : run.options.target,
                                    "--trials",
                                    std::to_string(t.trials),
                                    "--time",
                                    fmt::format("{}s", static_cast<int64_t>(t.seconds)),
                                    "--db",
                                    database(run),
                                    "--json"};
  if (!run.options.driver.empty()) {  // what the dry run has in the place of a device
    words.insert(words.end(), {"--cuda-driver", run.options.driver});
    words[4] = "cuda";
  }
  // The clock of `tcc` is looked at between programs, and finals come behind it.
  TCC_TRY(const ChildOutcome outcome, run_child(words, "", t.seconds * 1.5 + 60));
  const json report = last_line(outcome.out);
  if (outcome.timed_out || outcome.exit_code != 0 || !report.is_object()) {
    run.fail(fmt::format("{}: `{}` {}", name, fmt::join(words, " "),
                         outcome.timed_out ? "did not end in time" : fmt::format("ended with {}", outcome.exit_code)));
    return {};
  }
  const json counts = report.value("counts", json::object());
  TCC_TRY_VOID(run.row({name + ".trials", report.value("trials", 0.0), "programs", "", 0}));
  for (const char* what : {"measured", "wrong", "crashed", "hung", "compile_failed"})
    TCC_TRY_VOID(run.row({fmt::format("{}.{}", name, what), counts.value(what, 0.0), "programs", "", 0}));
  if (counts.value("wrong", 0) > 0) run.fail(fmt::format("{}: {} programs were wrong", name, counts.value("wrong", 0)));
  const bool predicted = report.value("predicted", false);
  ++run.tests;
  return run.row(
      {name + (predicted ? ".predicted" : ".kernels"), report.value("best_seconds", 0.0) * 1e3, "ms", "", 0});
}

Result<void> tune_all(Run& run, const std::vector<Tuning>& tunings) {
  const std::string tcc = find_tcc(run);
  if (tcc.empty()) {
    run.absent("the program tcc is not beside this one: no model is tuned (name it with --tcc FILE)");
    return {};
  }
  for (const Tuning& t : tunings) {
    if (run.seconds_left() < kMinSeconds) return {};
    Tuning one = t;
    one.seconds = std::min(t.seconds, run.seconds_left());
    TCC_TRY_VOID(tune_model(run, tcc, one));
  }
  return {};
}

}  // namespace

Result<void> torch_peers(Run& run) {
  const std::string script = run.options.self + "/torch_peer.py",
                    source = std::string(TCC_SOURCE_DIR) + "/tools/gpu/torch_peer.py";
  const std::string path = file_exists(script) ? script : source;
  if (!file_exists(path)) {
    run.absent("torch_peer.py is not beside this program: nothing is measured in PyTorch");
    return {};
  }
  std::string input;
  for (const json& c : torch_cases()) input += c.dump() + "\n";
  auto outcome = run_child({run.options.python, path}, input, std::max(run.seconds_left(), kMinSeconds));
  if (!outcome) {
    run.absent(fmt::format("Python: {}", outcome.error().message));
    return {};
  }
  if (outcome->exit_code == 3) {
    run.absent("PyTorch with a CUDA device: nothing is measured in it");
    return {};
  }
  for (const std::string& line : split_lines(outcome->out)) TCC_TRY_VOID(take_torch(run, line));
  if (outcome->exit_code != 0 && !outcome->timed_out)
    run.fail(fmt::format("torch_peer.py ended with {}", outcome->exit_code));
  return {};
}

Result<void> models(Run& run) {
  if (!run.backend.is_device()) return tune_all(run, {{"mlp", 4, 120}});
  // Half of what is left is for the first, which the others are compared by.
  const double left = run.seconds_left();
  return tune_all(run, {{"resnet50", 2000, left / 2}, {"bert-base", 600, left / 4}, {"mobilenet_v2", 600, left / 4}});
}

Result<void> collection(Run& run) {
  if (!run.options.collect) return {};
  if (!run.backend.is_device()) return tune_all(run, {{"mlp", 6, 120}});
  std::vector<Tuning> tunings;
  const std::vector<std::string> names = {"resnet50", "bert-base", "mobilenet_v2", "resnet18", "vgg16", "mlp"};
  for (const std::string& name : names)
    tunings.push_back({name, 100000, run.seconds_left() / static_cast<double>(names.size())});
  return tune_all(run, tunings);
}

}  // namespace tcc::gpu_check
