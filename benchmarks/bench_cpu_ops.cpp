// Operators on the CPU: each is tuned, then timed in turns with the peers, slice by slice, on the same cores.
//
// tcc's program runs in the measuring worker, the peers in their own processes. Every peer gets the same contract: NCHW
// in and out, constant weights packed ahead. The best of them is the row's denominator; a row "name [who]" compares
// with each one, or tells why it did not run.
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "bench.h"
#include "peers/op_case.h"
#include "peers/peer_process.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/importer.h"
#include "tcc/search/search.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/target/probe.h"

namespace tcc::benchmarks {
namespace {

constexpr double kSlice = 0.06;  // seconds
constexpr int kRounds = 7;
constexpr double kPrepareTimeout = 120, kRunTimeout = 60;

// An operator, and another one of tcc's to compare it with (bare GEMM, the f32 one).
struct Entry {
  OpCase op;
  std::optional<OpCase> beside;
};

std::vector<Entry> named_entries() {
  std::vector<Entry> out;
  struct Gemm {
    const char* name;
    int64_t m, n, k;
  };
  for (const Gemm& g : {Gemm{"gemm512", 512, 512, 512},
                        {"gemm1024", 1024, 1024, 1024},
                        {"gemm2048", 2048, 2048, 2048},
                        {"gemm128x768x3072", 128, 3072, 768}}) {
    OpCase bare = gemm_case(g.name, g.m, g.n, g.k);
    out.push_back({bare, {}});
    out.push_back({gemm_case(bare.name + ".bias_relu", g.m, g.n, g.k, true), bare});
  }
  out.push_back({gemm_case("gemm1024.bf16", 1024, 1024, 1024, false, true), gemm_case("gemm1024", 1024, 1024, 1024)});
  out.push_back({gemm_case("gemv4096", 1, 4096, 4096), {}});
  out.push_back({conv_case("conv7x7s2.3-64.224", 3, 64, 224, 7, 2), {}});
  for (auto [channels, size] : {std::pair<int64_t, int64_t>{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    out.push_back({conv_case(fmt::format("conv3x3.{}.{}", channels, size), channels, channels, size, 3, 1), {}});
  out.push_back({conv_case("conv1x1.64-256.56", 64, 256, 56, 1, 1), {}});
  out.push_back({conv_case("depthwise3x3.32.112", 32, 32, 112, 3, 1, 32), {}});
  out.push_back({softmax_case("softmax256x256", {256, 256}), {}});
  out.push_back({softmax_case("softmax12x128x128x128", {12, 128, 128, 128}), {}});
  out.push_back({layernorm_case("layernorm128x768", 128, 768), {}});
  return out;
}

// Four shapes that nobody could have prepared for.
std::vector<Entry> random_entries(uint64_t seed) {
  Rng rng(seed);
  auto draw = [&](int64_t low, int64_t high) { return low + rng.below(high - low + 1); };
  std::vector<Entry> out;
  int64_t m = draw(16, 1024), n = draw(16, 2048), k = draw(16, 2048);
  out.push_back({gemm_case(fmt::format("random.gemm{}x{}x{}", m, k, n), m, n, k), {}});
  int64_t c = draw(8, 256), f = draw(8, 256), size = draw(7, 56), kernel = 1 + 2 * draw(0, 2), stride = draw(1, 2);
  out.push_back({conv_case(fmt::format("random.conv{0}x{0}s{1}.{2}-{3}.{4}", kernel, stride, c, f, size), c, f, size,
                           kernel, stride),
                 {}});
  int64_t channels = draw(8, 128), extent = draw(7, 112);
  out.push_back({conv_case(fmt::format("random.depthwise3x3.{}.{}", channels, extent), channels, channels, extent, 3,
                           draw(1, 2), channels),
                 {}});
  int64_t rows = draw(16, 4096), cols = draw(16, 2048);
  out.push_back({softmax_case(fmt::format("random.softmax{}x{}", rows, cols), {rows, cols}), {}});
  return out;
}

bool wanted(const std::string& name) {
  const std::vector<std::string>& only = options().only;
  return only.empty() || std::any_of(only.begin(), only.end(),
                                     [&](const std::string& text) { return name.find(text) != std::string::npos; });
}

// --- tcc's side ---------------------------------------------------------------------------------------------------

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

// Inputs and reference outputs by task. Making them runs the unscheduled kernel in f64, which takes minutes for the
// large GEMMs, and one serves every number of threads.
class References {
 public:
  References(measure::IsolatedHostMeasurer& measurer, const target::Target& host) : measurer_(measurer), host_(host) {}
  Result<std::shared_ptr<const measure::MeasureTask>> get(const task::Task& task) {
    auto it = known_.find(task.key);
    if (it != known_.end()) return it->second;
    TCC_TRY(auto made, measure::MeasureTask::create(measurer_, task.kernel, host_, {}));
    known_[task.key] = made;
    return made;
  }

 private:
  measure::IsolatedHostMeasurer& measurer_;
  const target::Target& host_;
  std::map<std::string, std::shared_ptr<const measure::MeasureTask>> known_;
};

// What one number of threads needs: the worker and the cores.
struct Bench {
  const target::Target& host;
  record::Store& store;
  ThreadPool& pool;
  References& references;
  measure::IsolatedHostMeasurer& measurer;
  int threads = measurer.options().threads;
  std::vector<int> cpus = measurer.options().cpus;
};

struct OwnKernel {
  std::shared_ptr<const measure::MeasureTask> task;
  std::shared_ptr<const codegen::Artifact> artifact;
};

// Tunes the task unless the store says that this has been done with as many trials.
Result<void> tune_task(const task::Task& task, Bench& bench) {
  std::string key = fmt::format("cpu-ops/{}/{}/{}/{}", task.key, record::hash_text(target::feature_hash(bench.host)),
                                bench.threads, options().trials);
  TCC_TRY(std::optional<std::string> done, bench.store.load_session(key));
  if (done) return {};
  search::TuneOptions tune;
  tune.trials = options().trials;
  tune.threads = bench.threads;
  Stopwatch watch;
  search::Environment environment = search::host_environment(bench.measurer, bench.store, &bench.pool, bench.host);
  environment.prepare = [&bench](const task::Task& t) { return bench.references.get(t); };
  TCC_TRY(search::TuneResult result, search::tune({&task, 1}, bench.host, tune, environment));
  const search::TaskResult& r = result.tasks.at(0);
  std::fprintf(stderr, "cpu-ops: tuned %s, threads %d: %lld trials in %.1f s, best %.1f GFLOP/s %s\n",
               task.workload.c_str(), bench.threads, static_cast<long long>(r.trials), watch.seconds(), r.best_gflops,
               r.failure.c_str());
  if (!r.failure.empty()) return environment_error("{}", r.failure);
  return bench.store.save_session(key, "{}");
}

Result<std::vector<OwnKernel>> own_kernels(const OpCase& c, Bench& bench) {
  TCC_TRY(std::vector<task::Task> tasks, case_tasks(c));
  std::vector<OwnKernel> out;
  for (const task::Task& task : tasks) {
    TCC_TRY_VOID(tune_task(task, bench));
    TCC_TRY(search::ChosenArtifact best, search::best_artifact(task, bench.host, &bench.store, bench.threads, "bench"));
    if (!best.program.tuned) return environment_error("{}", best.program.note);
    TCC_TRY(auto prepared, bench.references.get(task));
    out.push_back({std::move(prepared), std::make_shared<const codegen::Artifact>(std::move(best.artifact))});
  }
  return out;
}

// Seconds of a call. The worker ends a measurement early when it has converged, so several make one slice.
Result<double> own_slice(const std::vector<OwnKernel>& kernels, Bench& bench) {
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
    total += median(std::move(samples));
  }
  return total;
}

// --- both sides -----------------------------------------------------------------------------------------------------

struct Contender {
  std::string name;
  bool ranked = false;  // may be the row's peer
  std::function<Result<double>()> slice;
  std::vector<double> seconds = {};
  std::string failure = {};  // not empty: it ran no more
  double median_seconds() const { return failure.empty() && !seconds.empty() ? median(seconds) : 0; }
};

Contender own_contender(const std::string& name, const OpCase& c, Bench& bench) {
  Contender contender{name, false, {}};
  Result<std::vector<OwnKernel>> kernels = own_kernels(c, bench);
  if (!kernels)
    contender.failure = fmt::format("{}{}", kernels.error().message,
                                    kernels.error().notes.empty() ? "" : ": " + kernels.error().notes[0]);
  else
    contender.slice = [kernels = std::move(*kernels), &bench] { return own_slice(kernels, bench); };
  return contender;
}

struct PeerProgram {
  std::string name;
  std::vector<std::string> command;
  std::string absent;  // why there is none
  bool ranked = true, plain = true;
};

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
  const char* folder = std::getenv("TCC_PEERS_DIR");
  std::string python = fmt::format("{}/venv/bin/python", folder != nullptr ? folder : TCC_SOURCE_DIR "/build/peers");
  bool there = access(python.c_str(), X_OK) == 0;
  out.push_back({"ONNX Runtime",
                 {python, TCC_SOURCE_DIR "/benchmarks/peers/ort_peer.py"},
                 there ? "" : "absent: run tools/peers"});
  return out;
}

// The model files that ONNX Runtime reads.
class Models {
 public:
  static Result<Models> create() {
    Models models;
    TCC_TRY(models.folder_, TemporaryDirectory::create("tcc-bench"));
    TCC_TRY_VOID(write_file(models.tiny(), tiny_model()));
    return models;
  }
  Result<std::string> words(const OpCase& c) const {
    if (c.get("bf16")) return std::string();
    TCC_TRY_VOID(write_file(folder_->path() + "/case.onnx", case_model(c)));
    return fmt::format(" model={}/case.onnx tiny={}", folder_->path(), tiny());
  }

 private:
  std::string tiny() const { return folder_->path() + "/tiny.onnx"; }
  std::unique_ptr<TemporaryDirectory> folder_;
};

// Starts and prepares a peer. Nothing when its library does not offer the operator. `sum` is the sum of the first
// peer's output, for the others to agree with.
std::optional<Contender> peer_contender(const PeerProgram& peer, const OpCase& c, const std::string& words,
                                        const Bench& bench, std::optional<double>& sum) {
  Contender contender{peer.name, peer.ranked, {}};
  contender.failure = peer.absent;
  if (!peer.absent.empty()) return contender;
  auto process = PeerProcess::start(peer.command, bench.cpus);
  if (!process) {
    contender.failure = process.error().message;
    return contender;
  }
  std::shared_ptr<PeerProcess> shared = std::move(*process);
  auto reply = shared->ask(prepare_line(c, bench.threads, peer.plain) + words, kPrepareTimeout);
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
  contender.slice = [shared]() -> Result<double> {
    TCC_TRY(nlohmann::json answer, shared->ask(fmt::format("run {}", kSlice), kRunTimeout));
    double seconds = answer.value("seconds", 0.0);
    if (!(seconds > 0)) return environment_error("answered '{}'", answer.dump());
    return seconds;
  };
  return contender;
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

// contenders[0] is tcc, and contenders[1] the kernel of tcc's own to compare with, where there is one.
void add_rows(const OpCase& c, const std::string& name, const std::vector<Contender>& contenders, bool has_beside,
              std::vector<Row>& rows) {
  double flops = case_flops(c) / 1e9, own = contenders[0].median_seconds();
  auto row = [&](const std::string& row_name, const Contender* peer) {
    Row r{row_name, own > 0 ? flops / own : 0, "GFLOP/s", peer != nullptr ? peer->name : "no peer ran", 0, 0};
    if (peer != nullptr && !peer->failure.empty()) r.peer += ": " + peer->failure;
    if (peer == nullptr || peer->median_seconds() == 0) return r;
    r.peer_value = flops / peer->median_seconds();
    r.ratio = r.value / r.peer_value;
    return r;
  };
  const Contender* best = nullptr;
  for (const Contender& p : contenders)
    if (p.ranked && p.median_seconds() > 0 && (best == nullptr || p.median_seconds() < best->median_seconds()))
      best = &p;
  rows.push_back(row(name, best));
  if (own == 0) rows.push_back({name + " [tcc]", 0, "GFLOP/s", "did not run: " + contenders[0].failure, 0, 0});
  for (size_t i = 1; i < contenders.size(); ++i) {
    const Contender& p = contenders[i];
    if (has_beside && i == 1) {
      double time = own > 0 && p.median_seconds() > 0 ? own / p.median_seconds() : 0;
      rows.push_back({fmt::format("{} [time over {}]", name, p.name), time, "x", p.failure, 0, 0});
    } else {
      rows.push_back(row(fmt::format("{} [{}]", name, p.name), &p));
    }
  }
}

// The geometric mean of the main rows' ratios of the convolutions that are not depthwise, where all of them ran.
void add_mean_row(const std::vector<Entry>& entries, int threads, std::vector<Row>& rows) {
  double log_sum = 0;
  int count = 0;
  for (const Entry& entry : entries) {
    if (!entry.op.name.starts_with("conv")) continue;
    std::string name = fmt::format("{}.{}t", entry.op.name, threads);
    auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (it == rows.end() || !(it->ratio > 0)) return;
    log_sum += std::log(it->ratio);
    ++count;
  }
  rows.push_back({fmt::format("conv.mean.{}t", threads), std::exp(log_sum / count), "x of the best peers", "", 0, 0});
}

void run_entry(const Entry& entry, const std::string& name, const Models& models, Bench& bench, double seconds,
               std::vector<Row>& rows) {
  std::vector<Contender> contenders = {own_contender("tcc", entry.op, bench)};
  if (entry.beside) contenders.push_back(own_contender("tcc " + entry.beside->name, *entry.beside, bench));
  Result<std::string> words = models.words(entry.op);
  std::optional<double> sum;
  for (PeerProgram peer : peer_programs()) {
    if (!words) peer.absent = words.error().message;
    if (auto contender = peer_contender(peer, entry.op, *words, bench, sum))
      contenders.push_back(std::move(*contender));
  }
  run_rounds(contenders, seconds);
  add_rows(entry.op, name, contenders, entry.beside.has_value(), rows);
}

Result<std::vector<Row>> run_suite(double seconds) {
  std::vector<Row> rows;
  uint64_t seed = options().seed != 0 ? options().seed : static_cast<uint64_t>(Clock::system().unix_seconds());
  rows.push_back({"seed", static_cast<double>(seed), "of the random shapes", "", 0, 0});
  // Figures from a machine with other work on it mean little: say so.
  double load = 0;
  if (getloadavg(&load, 1) == 1) rows.push_back({"load", load, "processes running before", "", 0, 0});
  std::vector<int> cpus = usable_cpus();
  // The workers first: they are forked, and that goes best before there are threads.
  std::vector<std::unique_ptr<measure::IsolatedHostMeasurer>> measurers;
  for (int threads : {1, 2}) {
    if (threads > static_cast<int>(cpus.size())) {
      rows.push_back({fmt::format("{}t", threads), 0, "",
                      fmt::format("left out: this process may use {} CPU", cpus.size()), 0, 0});
      continue;
    }
    measure::HostMeasureOptions measure_options;
    measure_options.worker_path = TCC_WORKER_PATH;
    measure_options.cpus.assign(cpus.end() - threads, cpus.end());
    measure_options.threads = threads;
    measure_options.budget_seconds = kSlice;
    TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
    measurers.push_back(std::move(measurer));
  }
  if (measurers.empty()) return environment_error("the CPUs that this process may use cannot be told");
  TCC_TRY(target::ProbeResult probe, target::probe_host());
  rows.push_back({"peak.1t", probe.fp32.one_core / 1e9, "GFLOP/s", "", 0, 0});
  rows.push_back({fmt::format("peak.{}t", probe.threads), probe.fp32.all_cores / 1e9, "GFLOP/s", "", 0, 0});
  rows.push_back({"dram_read.1t", probe.dram_read.one_core / 1e9, "GB/s", "", 0, 0});
  rows.push_back({fmt::format("dram_read.{}t", probe.threads), probe.dram_read.all_cores / 1e9, "GB/s", "", 0, 0});
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(options().db.empty() ? ":memory:" : options().db));
  TCC_TRY(Models models, Models::create());
  ThreadPool pool(static_cast<int>(cpus.size()));
  std::vector<Entry> entries = named_entries();
  for (Entry& e : random_entries(seed)) entries.push_back(std::move(e));
  target::Target host = target::apply_probe(target::host_target(), probe);
  References references(*measurers.back(), host);
  bool any = false;
  for (auto& measurer : measurers) {
    Bench bench{host, *store, pool, references, *measurer};
    for (const Entry& entry : entries) {
      std::string name = fmt::format("{}.{}t", entry.op.name, bench.threads);
      if (!wanted(name)) continue;
      any = true;
      run_entry(entry, name, models, bench, seconds, rows);
    }
    add_mean_row(entries, bench.threads, rows);
  }
  if (!any)
    return make_error(ErrorClass::kUsage,
                      "no operator has any of these in its name: " + fmt::format("{}", fmt::join(options().only, ", ")),
                      "run without --only to see the names");
  return rows;
}

}  // namespace

std::vector<Row> run_cpu_ops_suite(double seconds) {
  Result<std::vector<Row>> rows = run_suite(seconds);
  if (rows) return *rows;
  std::fprintf(stderr, "cpu-ops: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"cpu-ops", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
