#include "op_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "bench.h"
#include "bench_measurer.h"
#include "sample_tasks.h"
#include "tcc/backend/backend.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/importer.h"

namespace tcc::benchmarks {
namespace {
constexpr int kRounds = 7;
constexpr double kPrepareTimeout = 120, kRunTimeout = 60;
constexpr double kTrialTimeout = 20;  // a trial of a peer that tunes
}  // namespace

Result<std::vector<task::Task>> case_tasks(const OpCase& c) {
  if (c.get("bf16")) {
    return std::vector<task::Task>{task::make_gemm(
        {.m = c.get("m"), .n = c.get("n"), .k = c.get("k"), .constant_weights = true, .dtype = graph::DType::kBF16})};
  }
  TCC_TRY(graph::Graph graph, onnx::import_bytes(std::make_shared<const std::string>(case_model(c)), c.name));
  TCC_TRY_VOID(graph::optimize(graph, nullptr));
  TCC_TRY(task::TaskList list, task::extract_tasks(graph, graph::fuse(graph)));
  return std::move(list.tasks);
}

Result<std::shared_ptr<const measure::MeasureTask>> References::get(const ir::Kernel& naive) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<const measure::MeasureTask>& known = known_[ir::hash_kernel(naive)];
  if (known == nullptr) {
    TCC_TRY(known, measurer_.prepare(naive, host_));
  }
  return known;
}

namespace {

// Tunes the tasks of an operator together, unless the store says that this has been done with as many trials. Returns
// the seconds it took.
Result<double> tune_tasks(std::span<const task::Task> tasks, OpBench& bench) {
  std::string keys;
  for (const task::Task& task : tasks) keys += (keys.empty() ? "" : "+") + task.key;
  const std::string key = fmt::format("{}/{}/{}/{}/{}", bench.suite, keys,
                                      record::hash_text(target::feature_hash(bench.host)), bench.threads, bench.trials);
  TCC_TRY(std::optional<std::string> done, bench.store.load_session(key));
  if (done) {
    const nlohmann::json before = nlohmann::json::parse(*done, nullptr, false);
    return before.is_object() ? before.value("seconds", 0.0) : 0.0;
  }
  search::TuneOptions tune = bench.tune;
  use_default_model(tune, bench.host);
  tune.trials = bench.trials;
  tune.threads = bench.threads;
  Stopwatch watch;
  BenchMeasurer measurer(bench.measurer, [&bench](const ir::Kernel& naive) { return bench.references.get(naive); });
  const search::Environment environment{.store = &bench.store, .measurer = &measurer, .pool = &bench.pool};
  TCC_TRY(search::TuneResult result, search::tune(tasks, bench.host, tune, environment));
  const double seconds = watch.seconds();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const search::TaskResult& r = result.tasks.at(i);
    std::fprintf(stderr, "%s: tuned %s, threads %d: %lld trials, best %.1f GFLOP/s %s\n", bench.suite.c_str(),
                 tasks[i].workload.c_str(), bench.threads, static_cast<long long>(r.trials), r.best_gflops,
                 r.failure.c_str());
    if (!r.failure.empty()) return environment_error("{}", r.failure);
  }
  const search::PhaseSeconds& p = result.phases;
  std::fprintf(stderr,
               "%s: %lld trials in %.1f s: proposed in %.1f, learned in %.1f, compiled in %.1f, measured in "
               "%.1f, finals %.1f\n",
               bench.suite.c_str(), static_cast<long long>(result.trials), seconds, p.propose, p.learn, p.compile,
               p.measure, p.finals);
  TCC_TRY_VOID(bench.store.save_session(key, nlohmann::json{{"seconds", seconds}}.dump()));
  return seconds;
}

}  // namespace

void use_default_model(search::TuneOptions& tune, const target::Target& target) {
  tune.cost_model = backend::backend_of(target).search_model;
  tune.pretrained = std::string(cost::kShipped);
}

Result<OwnOperator> own_operator(const OpCase& c, OpBench& bench) {
  TCC_TRY(std::vector<task::Task> tasks, case_tasks(c));
  OwnOperator out;
  TCC_TRY(out.tuning_seconds, tune_tasks(tasks, bench));
  for (const task::Task& task : tasks) {
    TCC_TRY(search::ChosenArtifact best, search::best_artifact(task, bench.host, &bench.store, bench.threads, "bench"));
    if (!best.program.tuned) return environment_error("{}", best.program.note);
    TCC_TRY(auto prepared, bench.references.get(task.kernel));
    out.kernels.push_back({std::move(prepared), std::make_shared<const codegen::Artifact>(std::move(best.artifact)),
                           task.weight, task.workload});
  }
  return out;
}

Result<double> own_slice(const std::vector<OwnKernel>& kernels, OpBench& bench) {
  double total = 0;
  for (const OwnKernel& kernel : kernels) {
    std::vector<double> samples;
    double timed = 0;
    for (int i = 0; i < 8 && timed < kSlice; ++i) {
      measure::Candidate candidate;
      candidate.task = kernel.task.get();
      candidate.artifact = kernel.artifact;
      TCC_TRY(std::vector<measure::Measurement> measured, bench.measurer.measure({&candidate, 1}));
      const measure::Measurement& m = measured.at(0);
      if (m.status != record::Status::kOk) return environment_error("{}: {}", record::status_name(m.status), m.failure);
      for (double s : m.samples) timed += s * static_cast<double>(m.repeats);
      samples.insert(samples.end(), m.samples.begin(), m.samples.end());
    }
    total += static_cast<double>(kernel.weight) * median(std::move(samples));
  }
  return total;
}

double Contender::median_seconds() const {
  return failure.empty() && !seconds.empty() ? median(seconds) : 0;
}

Contender own_contender(const std::string& name, const OpCase& c, OpBench& bench) {
  Contender contender{name, false, {}};
  Result<OwnOperator> own = own_operator(c, bench);
  if (!own) {
    contender.failure =
        fmt::format("{}{}", own.error().message, own.error().notes.empty() ? "" : ": " + own.error().notes[0]);
    return contender;
  }
  contender.tuning_seconds = own->tuning_seconds;
  contender.slice = [kernels = std::move(own->kernels), &bench] { return own_slice(kernels, bench); };
  return contender;
}

namespace {
// A script of benchmarks/peers in one of the environments that tools/peers makes.
PeerProgram python_peer(const char* name, const char* environment, const char* script) {
  const char* folder = std::getenv("TCC_PEERS_DIR");
  std::string python =
      fmt::format("{}/{}/bin/python", folder != nullptr ? folder : TCC_SOURCE_DIR "/build/peers", environment);
  const bool there = access(python.c_str(), X_OK) == 0;
  return {name,
          {python, fmt::format("{}/benchmarks/peers/{}", TCC_SOURCE_DIR, script)},
          there ? "" : "absent: run tools/peers"};
}
}  // namespace

PeerProgram tvm_program(int64_t trials) {
  PeerProgram out = python_peer("TVM MetaSchedule", "tvm", "tvm_peer.py");
  out.trials = trials;
  return out;
}

std::vector<PeerProgram> peer_programs() {
  std::vector<PeerProgram> out;
#ifdef TCC_DNNL_PEER
  out.push_back({"oneDNN", {TCC_DNNL_PEER}, "", true, true});
  out.push_back({"oneDNN, own layouts", {TCC_DNNL_PEER}, "", false, false});
#else
  out.push_back({"oneDNN", {}, "absent: not found when this was built (libdnnl-dev)"});
#endif
#ifdef TCC_OPENBLAS_PEER
  out.push_back({"OpenBLAS", {TCC_OPENBLAS_PEER}, ""});
#else
  out.push_back({"OpenBLAS", {}, "absent: not found when this was built (libopenblas-dev)"});
#endif
  out.push_back(python_peer("ONNX Runtime", "venv", "ort_peer.py"));
  return out;
}

Result<Models> Models::create() {
  Models models;
  TCC_TRY(models.folder_, TemporaryDirectory::create("tcc-bench"));
  TCC_TRY_VOID(write_file(models.tiny(), tiny_model()));
  return models;
}

Result<std::string> Models::words(const OpCase& c) const {
  if (c.get("bf16")) return std::string();
  TCC_TRY_VOID(write_file(folder_->path() + "/case.onnx", case_model(c)));
  return fmt::format(" model={}/case.onnx tiny={}", folder_->path(), tiny());
}

namespace {

// Starts and prepares a peer. Nothing when its library does not offer the operator. `sum` is the sum of the first
// peer's output, for the others to agree with.
std::optional<Contender> peer_contender(const PeerProgram& peer, const OpCase& c, const std::string& words,
                                        const OpBench& bench, std::optional<double>& sum) {
  Contender contender{peer.name, peer.ranked, {}};
  contender.failure = peer.absent;
  if (!peer.absent.empty()) return contender;
  auto process = PeerProcess::start(peer.command, bench.cpus);
  if (!process) {
    contender.failure = process.error().message;
    return contender;
  }
  std::shared_ptr<PeerProcess> shared = std::move(*process);
  const std::string trials = peer.trials > 0 ? fmt::format(" trials={}", peer.trials) : "";
  auto reply = shared->ask(prepare_line(c, bench.threads, peer.plain) + words + trials,
                           kPrepareTimeout + kTrialTimeout * static_cast<double>(peer.trials));
  if (reply && reply->value("unsupported", false)) return std::nullopt;
  if (!reply) {
    contender.failure = reply.error().message;
    return contender;
  }
  double mine = reply->value("sum", NAN), magnitude = reply->value("abs", NAN);
  if (!sum) sum = mine;
  if (!(std::fabs(mine - *sum) <= (c.get("bf16") ? 2e-2 : 1e-4) * magnitude)) {
    contender.failure =
        fmt::format("computes something else: its output sums up to {}, another peer's to {}", mine, *sum);
    return contender;
  }
  contender.tuning_seconds = reply->value("tuning_seconds", 0.0);
  contender.slice = [shared]() -> Result<double> {
    TCC_TRY(nlohmann::json answer, shared->ask(fmt::format("run {}", kSlice), kRunTimeout));
    double seconds = answer.value("seconds", 0.0);
    if (!(seconds > 0)) return environment_error("answered '{}'", answer.dump());
    return seconds;
  };
  return contender;
}

}  // namespace

std::vector<Contender> peer_contenders(const OpCase& c, const Models& models, const OpBench& bench,
                                       const std::vector<PeerProgram>& peers) {
  std::vector<Contender> out;
  Result<std::string> words = models.words(c);
  std::optional<double> sum;
  for (PeerProgram peer : peers) {
    if (!words) peer.absent = words.error().message;
    if (auto contender = peer_contender(peer, c, words ? *words : "", bench, sum)) out.push_back(std::move(*contender));
  }
  return out;
}

void run_rounds(std::vector<Contender>& contenders, double seconds) {
  Stopwatch watch;
  for (int round = 0; round < kRounds || watch.seconds() < seconds; ++round) {
    bool any = false;
    for (Contender& c : contenders) {
      if (!c.failure.empty()) continue;
      any = true;
      Result<double> slice = c.slice();
      if (slice)
        c.seconds.push_back(*slice);
      else
        c.failure = slice.error().message;
    }
    if (!any) return;
  }
}

const Contender* best_peer(const std::vector<Contender>& contenders) {
  const Contender* best = nullptr;
  for (const Contender& p : contenders)
    if (p.ranked && p.median_seconds() > 0 && (best == nullptr || p.median_seconds() < best->median_seconds()))
      best = &p;
  return best;
}

}  // namespace tcc::benchmarks
