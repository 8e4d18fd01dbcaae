// Whole networks on the CPU beside ONNX Runtime: each is tuned and built by `tcc` as a user would, then library and
// peer are timed in turns, slice by slice, on the same cores; whoever does not run is stopped. Both read the same file
// and the same numbers, and their outputs have to agree before anything is timed.
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "peers/peer_process.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr double kSlice = 0.5;  // seconds
constexpr int kRounds = 7;
constexpr double kPrepareTimeout = 300, kRunTimeout = 120;
constexpr double kTolerance = 1e-3;  // of an output's largest magnitude

// Of the zoo, batch 1, images of 224 x 224 or 128 tokens.
constexpr const char* kNetworks[] = {"resnet50", "mobilenet_v2", "bert-base", "resnet18", "bert-tiny", "vgg16", "mlp"};

// Runs `tcc` on the given CPUs with its output on standard error.
Result<void> run_tcc(const std::vector<std::string>& words, const std::vector<int>& cpus) {
  std::vector<std::string> command{TCC_PROGRAM_PATH};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  pid_t pid = fork();
  if (pid == 0) {
    sched_setaffinity(0, sizeof set, &set);
    dup2(2, 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  if (pid < 0) return environment_error("no process: {}", std::strerror(errno));
  int status = 0;
  waitpid(pid, &status, 0);
  // 3: stopped early with valid results.
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3)) return {};
  return environment_error("`tcc {}` ended with status {}", fmt::join(words, " "),
                           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

Result<std::vector<float>> read_floats(const std::string& path) {
  TCC_TRY(std::string bytes, read_file(path));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// The largest difference as a share of its output's largest magnitude.
Result<double> disagreement(const nlohmann::json& sizes, const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return environment_error("the outputs have {} and {} elements", a.size(), b.size());
  double worst = 0;
  size_t at = 0;
  for (const auto& size : sizes) {
    double scale = 0, difference = 0;
    for (size_t end = at + size.get<size_t>(); at < end && at < a.size(); ++at) {
      if (!std::isfinite(a[at]) || !std::isfinite(b[at])) return environment_error("an output is not finite");
      scale = std::max(scale, std::fabs(static_cast<double>(b[at])));
      difference = std::max(difference, std::fabs(static_cast<double>(a[at]) - static_cast<double>(b[at])));
    }
    worst = std::max(worst, difference / std::max(scale, 1e-30));
  }
  return worst;
}

struct Contestant {
  std::string failure;
  std::shared_ptr<PeerProcess> process;
  nlohmann::json sizes;
  std::vector<float> output;
  std::vector<double> seconds = {};
  double median_seconds() const { return seconds.empty() ? 0 : median(seconds); }
};

Result<Contestant> start(const std::vector<std::string>& command, const std::string& prepare, const std::string& dump,
                         const std::vector<int>& cpus) {
  Contestant contestant;
  TCC_TRY(std::unique_ptr<PeerProcess> process, PeerProcess::start(command, cpus));
  contestant.process = std::move(process);
  TCC_TRY(nlohmann::json reply, contestant.process->ask(prepare + " dump=" + dump, kPrepareTimeout));
  contestant.sizes = reply.value("outputs", nlohmann::json::array());
  TCC_TRY(contestant.output, read_floats(dump));
  return contestant;
}

Contestant started(Result<Contestant> result) {
  if (result) return std::move(*result);
  Contestant failed;
  failed.failure = result.error().message;
  for (const std::string& note : result.error().notes) failed.failure += "; " + note;
  return failed;
}

void take_slice(Contestant& contestant) {
  if (!contestant.failure.empty()) return;
  auto answer = contestant.process->ask(fmt::format("run {}", kSlice), kRunTimeout);
  if (answer && answer->value("seconds", 0.0) > 0)
    contestant.seconds.push_back(answer->value("seconds", 0.0));
  else
    contestant.failure = answer ? "answered '" + answer->dump() + "'" : answer.error().message;
}

class ModelBench {
 public:
  ModelBench(std::string folder, double seconds) : folder_(std::move(folder)), seconds_(seconds) {
    const char* peers = std::getenv("TCC_PEERS_DIR");
    python_ = fmt::format("{}/venv/bin/python", peers != nullptr ? peers : TCC_SOURCE_DIR "/build/peers");
  }

  void run(const std::string& name, int threads, std::vector<Row>& rows) {
    const std::vector<int> all = usable_cpus();
    if (static_cast<int>(all.size()) < threads) {
      rows.push_back({fmt::format("{}.{}t", name, threads), 0, "",
                      fmt::format("left out: this process may use {} CPU", all.size()), 0, 0});
      return;
    }
    const std::vector<int> cpus(all.end() - threads, all.end());
    Contestant own = started(own_library(name, threads, cpus));
    Contestant peer = started(onnx_runtime(name, threads, cpus));
    if (own.failure.empty() && peer.failure.empty()) {
      auto apart = disagreement(peer.sizes, own.output, peer.output);
      if (!apart)
        own.failure = apart.error().message;
      else if (!(*apart <= kTolerance))
        own.failure = fmt::format("the outputs differ by {:.3g} of their scale", *apart);
      rows.push_back({fmt::format("{}.{}t [difference]", name, threads), apart ? *apart : NAN, "of the output's scale",
                      apart && *apart <= kTolerance ? "agrees with ONNX Runtime" : "WRONG", 0, 0});
    }
    Stopwatch watch;
    for (int round = 0; round < kRounds || watch.seconds() < seconds_; ++round) {
      take_slice(own);
      take_slice(peer);
      if (!own.failure.empty() && !peer.failure.empty()) break;
    }
    add_row(fmt::format("{}.{}t", name, threads), own, peer, rows);
  }

 private:
  static void add_row(const std::string& name, const Contestant& own, const Contestant& peer, std::vector<Row>& rows) {
    Row row{name, 1e3 * own.median_seconds(), "ms", "ONNX Runtime", 0, 0};
    if (!peer.failure.empty()) row.peer += ": " + peer.failure;
    if (!own.failure.empty()) row.value = 0, row.peer = "did not run: " + own.failure;
    if (own.failure.empty() && peer.failure.empty()) {
      row.peer_value = 1e3 * peer.median_seconds();
      row.ratio = row.peer_value / row.value;
    }
    rows.push_back(row);
    auto spread = [&](const char* who, const Contestant& c) {
      if (c.seconds.size() < 2) return;
      auto [low, high] = std::minmax_element(c.seconds.begin(), c.seconds.end());
      rows.push_back({fmt::format("{} [{} slices, slowest over fastest]", name, who), *high / *low, "x", "", 0, 0});
    };
    spread("tcc", own);
    spread("peer", peer);
  }

  std::string model_file(const std::string& name) const { return fmt::format("{}/{}.onnx", folder_, name); }

  Result<Contestant> own_library(const std::string& name, int threads, const std::vector<int>& cpus) {
    const std::string model = "zoo:" + name, folder = fmt::format("{}/{}-{}t", folder_, name, threads);
    const std::string db = options().db.empty() ? folder_ + "/records.db" : options().db;
    const std::string count = std::to_string(threads);
    if (options().trials > 0) {
      std::vector<std::string> tune{"tune", model, "--db", db, "--threads", count, "--quiet"};
      tune.insert(tune.end(), {"--trials-per-task", std::to_string(options().trials)});
      if (!options().time.empty()) tune.insert(tune.end(), {"--time", options().time});
      TCC_TRY_VOID(run_tcc(tune, cpus));
    }
    TCC_TRY_VOID(run_tcc({"build", model, "-o", folder, "--db", db, "--threads", count, "--id", "bench", "--quiet"},
                         usable_cpus()));
    return start({TCC_MODEL_PEER}, fmt::format("prepare model library={}/libbench.so threads={}", folder, threads),
                 folder_ + "/own.f32", cpus);
  }

  Result<Contestant> onnx_runtime(const std::string& name, int threads, const std::vector<int>& cpus) {
    if (access(python_.c_str(), X_OK) != 0) return environment_error("absent: run tools/peers");
    if (!file_exists(model_file(name)))
      TCC_TRY_VOID(run_tcc({"zoo", name, "-o", model_file(name), "--quiet"}, usable_cpus()));
    return start({python_, TCC_SOURCE_DIR "/benchmarks/peers/ort_model_peer.py"},
                 fmt::format("prepare model file={} threads={}", model_file(name), threads), folder_ + "/peer.f32",
                 cpus);
  }

  std::string folder_;
  double seconds_;
  std::string python_;
};

bool wanted(const std::string& name) {
  const std::vector<std::string>& only = options().only;
  return only.empty() || std::any_of(only.begin(), only.end(),
                                     [&](const std::string& text) { return name.find(text) != std::string::npos; });
}

}  // namespace

std::vector<Row> run_models_suite(double seconds) {
  auto folder = TemporaryDirectory::create("tcc-bench-models");
  if (!folder) return {{"models", 0, "", "did not run: " + folder.error().message, 0, 0}};
  std::vector<Row> rows;
  double load = 0;
  if (getloadavg(&load, 1) == 1) rows.push_back({"load", load, "processes running before", "", 0, 0});
  ModelBench bench((*folder)->path(), seconds);
  for (const char* name : kNetworks)
    for (int threads : {1, 2})
      if (wanted(fmt::format("{}.{}t", name, threads))) bench.run(name, threads, rows);
  return rows;
}

}  // namespace tcc::benchmarks
