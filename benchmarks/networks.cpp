#include "networks.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tcc/record/store.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr double kPrepareNetworkTimeout = 300, kNetworkRunTimeout = 120;  // seconds

// Of the zoo, batch 1, images of 224 x 224 or 128 tokens.
constexpr const char* kZoo[] = {"resnet50", "mobilenet_v2", "bert-base", "resnet18", "bert-tiny", "vgg16", "mlp"};

// Runs `tcc` and returns its exit status. Its output goes to the file, or to standard error.
Result<int> run_tcc(const std::vector<std::string>& words, const std::string& out = "") {
  std::vector<std::string> command{TCC_PROGRAM_PATH};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(out.empty() ? 2 : open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  if (pid < 0) return environment_error("no process: {}", std::strerror(errno));
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<void> must_run(const std::vector<std::string>& words, const std::string& out = "/dev/null") {
  TCC_TRY(int status, run_tcc(words, out));
  if (status == 0 || status == 3) return {};  // 3: stopped early with valid results
  return environment_error("`tcc {}` ended with status {}", fmt::join(words, " "), status);
}

Result<Contestant> start(const std::vector<std::string>& command, const std::string& prepare, const std::string& dump,
                         const std::vector<int>& cpus) {
  Contestant contestant;
  TCC_TRY(std::unique_ptr<PeerProcess> process, PeerProcess::start(command, cpus));
  contestant.process = std::move(process);
  TCC_TRY(nlohmann::json reply, contestant.process->ask(prepare + " dump=" + dump, kPrepareNetworkTimeout));
  contestant.sizes = reply.value("outputs", std::vector<size_t>{});
  TCC_TRY(std::string bytes, read_file(dump));
  contestant.output.resize(bytes.size() / sizeof(float));
  std::memcpy(contestant.output.data(), bytes.data(), contestant.output.size() * sizeof(float));
  return contestant;
}

}  // namespace

Contestant failed(const Error& error) {
  Contestant contestant{error.message};
  for (const std::string& note : error.notes) contestant.failure += "; " + note;
  return contestant;
}

std::string models_folder(const std::string& given) {
  if (!given.empty()) return given;
  const char* folder = std::getenv("TCC_MODELS");
  return folder != nullptr ? folder : TCC_SOURCE_DIR "/../shared/models";
}

std::vector<Network> all_networks(const std::string& folder) {
  std::vector<Network> networks;
  for (const char* name : kZoo) networks.push_back({name, std::string("zoo:") + name, std::nullopt});
  std::vector<Network> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string name = entry.path().stem().string();
    files.push_back({name, entry.path().string(), std::nullopt});
    if (name.starts_with("light_")) files.back().seed = 1;
  }
  std::sort(files.begin(), files.end(), [](const Network& a, const Network& b) { return a.name < b.name; });
  networks.insert(networks.end(), files.begin(), files.end());
  return networks;
}

Result<double> disagreement(const Contestant& a, const Contestant& b, double step) {
  if (a.sizes != b.sizes || a.output.size() != b.output.size())
    return environment_error("the outputs have {} and {} elements", a.output.size(), b.output.size());
  double worst = 0;
  size_t at = 0;
  for (size_t size : b.sizes) {
    double scale = 0, difference = 0;
    for (size_t end = at + size; at < end && at < a.output.size(); ++at) {
      const double x = a.output[at], y = b.output[at];
      if (x == y || (std::isnan(x) && std::isnan(y))) {
        if (std::isfinite(y)) scale = std::max(scale, std::fabs(y));
        continue;
      }
      if (!std::isfinite(x) || !std::isfinite(y))
        return environment_error("an output is not finite where the other one is, or another infinity");
      scale = std::max(scale, std::fabs(y));
      if (std::fabs(x - y) > step) difference = std::max(difference, std::fabs(x - y));
    }
    worst = std::max(worst, difference / std::max(scale, 1e-30));
  }
  return worst;
}

void time_in_turns(Contestant& own, Contestant& peer, const Turns& turns) {
  const auto take_slice = [&](Contestant& contestant) {
    if (!contestant.failure.empty()) return;
    auto answer = contestant.process->ask(fmt::format("run {}", turns.slice), kNetworkRunTimeout);
    if (answer && answer->value("seconds", 0.0) > 0)
      contestant.seconds.push_back(answer->value("seconds", 0.0));
    else
      contestant.failure = answer ? "answered '" + answer->dump() + "'" : answer.error().message;
  };
  Stopwatch watch;
  for (int round = 0; round < turns.rounds || watch.seconds() < turns.seconds; ++round) {
    take_slice(own);
    take_slice(peer);
    if (!own.failure.empty() && !peer.failure.empty()) break;
  }
}

NetworkBench::NetworkBench(std::string folder, TuningLimits limits)
    : folder_(std::move(folder)), limits_(std::move(limits)) {
  const char* peers = std::getenv("TCC_PEERS_DIR");
  python_ = fmt::format("{}/venv/bin/python", peers != nullptr ? peers : TCC_SOURCE_DIR "/build/peers");
  if (limits_.records.empty()) limits_.records = folder_ + "/records.db";
}

std::vector<std::string> NetworkBench::named(const std::string& command, const Network& network) {
  std::vector<std::string> words{command, network.model, "--quiet"};
  if (network.seed) words.insert(words.end(), {"--reseed-weights", std::to_string(*network.seed)});
  words.insert(words.end(), network.sizes.begin(), network.sizes.end());
  return words;
}

Result<void> NetworkBench::tune(const Network& network, int threads) const {
  std::vector<std::string> words = named("tune", network);
  words.insert(words.end(), {"--db", limits_.records, "--threads", std::to_string(threads)});
  if (!limits_.time.empty()) words.insert(words.end(), {"--time", limits_.time});
  if (limits_.trials > 0) words.insert(words.end(), {"--trials-per-task", std::to_string(limits_.trials)});
  return must_run(words, limits_.table ? "" : "/dev/null");
}

Result<std::string> NetworkBench::build(const Network& network, int threads,
                                        const std::vector<std::string>& options) const {
  // Nothing has been tuned: a build without records takes an empty store, not the user's.
  if (!file_exists(limits_.records)) TCC_TRY_VOID(record::Store::open(limits_.records));
  const std::string out = fmt::format("{}/{}-{}t", folder_, network.name, threads);
  std::vector<std::string> words = named("build", network);
  words.insert(words.end(), {"-o", out, "--id", "bench", "--threads", std::to_string(threads)});
  words.insert(words.end(), {"--db", limits_.records});
  words.insert(words.end(), options.begin(), options.end());
  TCC_TRY_VOID(must_run(words));
  return out + "/libbench.so";
}

Result<nlohmann::json> NetworkBench::verify(const std::string& library, const std::vector<std::string>& options) const {
  const std::string out = folder_ + "/verify.json";
  std::vector<std::string> words{"verify", library, "--json"};
  words.insert(words.end(), options.begin(), options.end());
  TCC_TRY(int status, run_tcc(words, out));
  TCC_TRY(std::string text, read_file(out));
  nlohmann::json report = nlohmann::json::parse(text, nullptr, false);
  if (report.is_object() && report.contains("passed")) return report;
  return environment_error("`tcc verify {}` ended with status {}", library, status);
}

Result<double> NetworkBench::allowed_difference(const std::string& library) const {
  TCC_TRY(const nlohmann::json report, verify(library, {"--against", "onnxruntime", "--python", python_}));
  if (!report.value("passed", false))
    return environment_error("`tcc verify {} --against onnxruntime`: expected that it passes, it did not", library);
  return report.value("tolerance", 0.0);
}

Contestant NetworkBench::start_library(const std::string& library, int threads, const std::vector<int>& cpus) const {
  auto own = start({TCC_MODEL_PEER}, fmt::format("prepare model library={} threads={}", library, threads),
                   folder_ + "/own.f32", cpus);
  return own ? std::move(*own) : failed(own.error());
}

Result<std::string> NetworkBench::onnx_file(const Network& network) const {
  const bool zoo = network.model.starts_with("zoo:");
  if (!zoo && !network.seed) return network.model;
  const std::string file = fmt::format("{}/{}.onnx", folder_, network.name);
  if (file_exists(file)) return file;
  std::vector<std::string> words{"zoo", zoo ? network.name : network.model, "-o", file, "--quiet"};
  if (network.seed) words.insert(words.end(), {"--reseed-weights", std::to_string(*network.seed)});
  TCC_TRY_VOID(must_run(words));
  return file;
}

Contestant NetworkBench::start_onnx_runtime(const Network& network, int threads, const std::vector<int>& cpus) const {
  if (access(python_.c_str(), X_OK) != 0) return Contestant{"absent: run tools/peers"};
  auto file = onnx_file(network);
  if (!file) return failed(file.error());
  auto peer = start({python_, TCC_SOURCE_DIR "/benchmarks/peers/ort_model_peer.py"},
                    fmt::format("prepare model file={} threads={}", *file, threads), folder_ + "/peer.f32", cpus);
  return peer ? std::move(*peer) : failed(peer.error());
}

}  // namespace tcc::benchmarks
