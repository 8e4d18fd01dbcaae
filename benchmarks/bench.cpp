// tcc-bench [--list] [--seconds S] [--json FILE] [--trials N] [--time T] [--db FILE] [--keep FILE] [--models DIR]
// [--seed N] [--rows N] [--only TEXT] [--recorded[=FILE]] [--pools DIR] [--budget MIN] [--mode MODE] [--svg DIR]
// [--threads N] [SUITE...]
#include "bench.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "tcc/support/files.h"
#include "tcc/target/target.h"

namespace tcc::benchmarks {
namespace {
Options given_options;
}  // namespace

const Options& options() {
  return given_options;
}

bool wanted(const std::string& name) {
  const std::vector<std::string>& only = options().only;
  return only.empty() || std::any_of(only.begin(), only.end(),
                                     [&](const std::string& text) { return name.find(text) != std::string::npos; });
}

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = {
      {"search", "candidates a second: replay, replay + lower, instantiate", run_search_suite},
      {"interp", "interpreter: scalar operations a second", run_interp_suite},
      {"tuning", "candidates measured a second, compile time, fork-join time", run_tuning_suite},
      {"cpu-gemm", "one hand-written GEMM trace beside oneDNN on one thread", run_cpu_gemm_suite},
      {"search-quality", "model search beside random search, spread over seeds; --db: the stored bests again",
       run_search_quality_suite},
      {"cost-models",
       "networks: candidates and samples a second, linear layers beside Eigen; --recorded: how well models rank",
       run_cost_models_suite},
      {"space", "a dense layer over spaces that grow by a module at a time", run_space_suite},
      {"construction", "Roller and Gensor: milliseconds an operator, and their programs beside the best known",
       run_construction_suite},
      {"shapes", "MobileNet-V2 at other widths than that which has records: making libraries and running them",
       run_other_shapes_suite},
      {"cuda-compile", "NVRTC on default schedules: ms a kernel on one core, two threads beside one",
       run_cuda_compile_suite},
      {"cuda-static", "what the model chooses for a100 out of the spaces of a GEMM, judged without a device",
       run_cuda_static_suite},
      {"cuda-sass",
       "SASS of the programs that the model chooses for some 50 operators and three GPUs, counted; needs nvdisasm",
       run_cuda_sass_suite},
      {"metaschedule-ops", "MetaSchedule's twelve operators beside peers; evolutionary beside random search",
       run_metaschedule_ops_suite},
      {"model-search", "a network with its checkpoint beside trees and rules, live, in the wide space",
       run_model_search_suite},
      {"draft", "candidates drafted a second, and the best of the first k drafts of the pools of 2,000 programs",
       run_draft_suite},
      {"search-strategies",
       "strategies with equal trials: live, on recorded programs, exhaustive tables, simulated GPUs",
       run_search_strategies_suite},
      {"cpu-ops", "tuned operators beside oneDNN, OpenBLAS and ONNX Runtime (see tools/peers)", run_cpu_ops_suite},
      {"random-ops", "operators drawn at random, tuned, beside ONNX Runtime (see tools/peers); --keep: resumable",
       run_random_ops_suite},
      {"fleet", "workers over NATS on the loopback: rates, the tuner's share, and a tuning among kills",
       run_fleet_suite},
      {"report", "pages of tcc report: time to write, size, and time until a browser has drawn them", run_report_suite},
      {"models", "tuned networks beside ONNX Runtime (see tools/peers)", run_models_suite},
      {"slow-core", "networks on two cores of which one has half its speed", run_slow_core_suite},
      {"end-to-end", "networks tuned, built, verified and compared with ONNX Runtime's outputs; nothing is timed",
       run_end_to_end_suite},
  };
  return all;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

double rate_per_thread(int threads, double seconds, const std::function<double(int)>& body) {
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::jthread> workers;
  for (int w = 0; w < threads; ++w)
    workers.emplace_back([&, w] {
      body(w);  // warm-up
      ready++;
      while (ready < threads) std::this_thread::yield();
      Stopwatch watch;
      double total = 0;
      while (!stop) total += body(w);
      rates[static_cast<size_t>(w)] = total / watch.seconds();
    });
  while (ready < threads) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  workers.clear();
  double sum = 0;
  for (double r : rates) sum += r;
  return sum / threads;
}

namespace {

nlohmann::json to_json(const std::string& suite, const std::vector<Row>& rows) {
  target::Target host = target::host_target();
  nlohmann::json out = {{"suite", suite},
                        {"machine", {{"cores", host.cpu.cores}, {"features", target::llvm_feature_string(host)}}},
                        {"rows", nlohmann::json::array()}};
  for (const Row& r : rows) {
    nlohmann::json row = {{"name", r.name},  {"value", r.value},      {"unit", r.unit},
                          {"peer", nullptr}, {"peer_value", nullptr}, {"ratio", nullptr}};
    if (!r.peer.empty()) row["peer"] = r.peer;
    if (r.peer_value != 0) row["peer_value"] = r.peer_value, row["ratio"] = r.ratio;
    out["rows"].push_back(row);
  }
  return out;
}

void print(const std::vector<Row>& rows) {
  for (const Row& r : rows) {
    std::printf("  %-34s %14.6g %-12s", r.name.c_str(), r.value, r.unit.c_str());
    if (r.peer_value != 0)
      std::printf(" %.3fx of %s (%.6g)", r.ratio, r.peer.c_str(), r.peer_value);
    else if (!r.peer.empty())
      std::printf(" %s", r.peer.c_str());
    std::printf("\n");
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Benchmarks of tcc: rates, and ratios beside peers measured in the same run", "tcc-bench"};
  std::vector<std::string> names;
  bool list = false;
  double seconds = 2;
  std::string json_file;
  app.add_option("suite", names, "suites to run; all when none is named");
  app.add_flag("--list", list, "list the suites");
  app.add_option("--seconds", seconds, "about how long each row runs")->check(CLI::Range(0.05, 600.0));
  app.add_option("--json", json_file, "write the rows to this file ('-': standard output)");
  CLI::Option* trials = app.add_option("--trials", given_options.trials,
                                       "cpu-ops, metaschedule-ops: trials for each operator; random-ops, models, "
                                       "end-to-end: for each task; and for each number of threads; 0: random-ops does "
                                       "not tune, models and end-to-end take what --db has");
  trials->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  app.add_option("--time", given_options.time,
                 "models, end-to-end: tuning time of a network and number of threads, as 10m; each call with the same "
                 "--db goes on from what that has");
  app.add_option("--models", given_options.models,
                 "end-to-end (and models, by --only): folder of ONNX files beside the zoo [$TCC_MODELS]");
  app.add_option(
      "--db", given_options.db,
      "cpu-ops, metaschedule-ops, space, models, end-to-end: record store to keep and to take tuning results from");
  app.add_option("--keep", given_options.keep,
                 "search-quality: store to keep each task's first run in, for --db later; construction, model-search, "
                 "random-ops, search-strategies: file of finished units, from which the same call goes on");
  app.add_option("--model", given_options.model, "model-search: the network")->capture_default_str();
  app.add_option("--space", given_options.space, "model-search: the design space")
      ->check(CLI::IsMember({"default", "wide"}))
      ->capture_default_str();
  app.add_option("--seed", given_options.seed, "cpu-ops, random-ops: seed of the random shapes [another each time]");
  app.add_option("--rows", given_options.rows, "random-ops: how many operators are drawn")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_flag("--recorded{benchmarks/results/cost_models_recorded.json}", given_options.recorded,
               "cost-models: the experiments on committed pools in place of rates; what they find is kept in this file "
               "row by row, and a later call goes on from there");
  app.add_option("--pools", given_options.pools, "cost-models: folder of the pools")->capture_default_str();
  app.add_option("--budget", given_options.budget,
                 "construction, cost-models, model-search, random-ops, search-strategies: minutes after which no "
                 "further unit is "
                 "begun")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--mode", given_options.modes,
                 "search-strategies: what answers the trials; may be repeated. tables measures what exhaustive reads")
      ->check(CLI::IsMember({"live", "recorded", "exhaustive", "simulated", "tables"}));
  app.add_option("--svg", given_options.svg, "search-strategies: folder for drawings of the curves");
  app.add_option("--threads", given_options.threads, "cost-models: threads that compute the experiments [all]")
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  app.add_option(
      "--only", given_options.only,
      "cpu-ops, metaschedule-ops, random-ops, models, slow-core, end-to-end: what has this in its name, as gemm512.1t, "
      "resnet50");
  CLI11_PARSE(app, argc, argv);
  given_options.trials_given = trials->count() > 0;
  if (list) {
    for (const Suite& s : suites()) std::printf("%-12s %s\n", s.name.c_str(), s.summary.c_str());
    return 0;
  }
  for (const std::string& n : names)
    if (std::none_of(suites().begin(), suites().end(), [&](const Suite& s) { return s.name == n; })) {
      std::fprintf(stderr, "tcc-bench: no suite '%s'; see tcc-bench --list\n", n.c_str());
      return 2;
    }
  nlohmann::json all = nlohmann::json::array();
  bool failed = false;
  for (const Suite& s : suites()) {
    if (!names.empty() && std::find(names.begin(), names.end(), s.name) == names.end()) continue;
    if (json_file != "-") std::printf("%s\n", s.name.c_str());
    std::vector<Row> rows = s.run(seconds);
    if (json_file != "-") print(rows);
    all.push_back(to_json(s.name, rows));
    failed =
        failed || std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.unit == "bool" && r.value == 0; });
  }
  std::string text = (all.size() == 1 ? all[0] : all).dump(1) + "\n";
  if (json_file == "-")
    std::fputs(text.c_str(), stdout);
  else if (!json_file.empty())
    if (Result<void> ok = write_file(json_file, text); !ok) {
      std::fprintf(stderr, "tcc-bench: %s\n", ok.error().message.c_str());
      return 1;
    }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tcc::benchmarks

int main(int argc, char** argv) {
  return tcc::benchmarks::run(argc, argv);
}
