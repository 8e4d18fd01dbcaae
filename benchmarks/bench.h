// The benchmark binary: suites of rows {name, value, unit, peer, peer_value, ratio}. One file a suite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tcc::benchmarks {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;  // "bool": 0 is a failure, and tcc-bench ends with status 1
  std::string peer;  // what the ratio compares with: another system, or a measured limit; "" when nothing
  double peer_value = 0;
  double ratio = 0;  // of speed: above 1 is faster than the peer
};

// What the command line says to the suites that tune.
struct Options {
  int64_t trials = 256;        // a task and number of threads
  bool trials_given = false;   // by the user
  std::string time;            // models: at most this much tuning a network and number of threads; "" = no limit
  std::string models;          // folder of ONNX files; "" = see networks.h
  std::string db;              // record store; "" = forgotten when the suite ends
  std::string keep;            // search-quality: record store that gets the first model run of each task;
                               // model-search: file of finished operators
  std::string model = "mlp";   // model-search: the network
  std::string space = "wide";  // model-search: default or wide
  std::string recorded;        // cost-models: file of results of the experiments on committed pools; "" = rates only
  std::string pools = "models/pools";  // cost-models: folder of these pools
  double budget = 0;                   // cost-models, model-search, ...: minutes; 0 = no limit
  std::vector<std::string> modes;      // search-strategies; empty = all
  std::string svg;                     // search-strategies: folder of drawings; "" = none
  int64_t threads = 0;                 // cost-models: that compute the experiments; 0 = all
  uint64_t seed = 0;                   // of the random shapes; 0 = another one each time
  int64_t rows = 300;                  // random-ops: operators to draw
  std::vector<std::string> only;       // run what contains one of these in its name; empty = everything
};
const Options& options();
// Whether --only asks for it: its name has one of the words, or --only has no words.
bool wanted(const std::string& name);

struct Suite {
  std::string name;
  std::string summary;
  // seconds: about how long each row may take.
  std::vector<Row> (*run)(double seconds);
};
const std::vector<Suite>& suites();

std::vector<Row> run_search_suite(double seconds);
std::vector<Row> run_interp_suite(double seconds);
std::vector<Row> run_cpu_gemm_suite(double seconds);
std::vector<Row> run_cpu_ops_suite(double seconds);
std::vector<Row> run_models_suite(double seconds);
std::vector<Row> run_end_to_end_suite(double seconds);
std::vector<Row> run_tuning_suite(double seconds);
std::vector<Row> run_search_quality_suite(double seconds);
std::vector<Row> run_space_suite(double seconds);
std::vector<Row> run_construction_suite(double seconds);
std::vector<Row> run_other_shapes_suite(double seconds);
// Its rows effort0.NETWORK: networks built without records beside their tuned libraries, and the seconds of the build.
void add_effort_rows(std::vector<Row>& rows);
std::vector<Row> run_cost_models_suite(double seconds);
std::vector<Row> run_cuda_compile_suite(double seconds);
std::vector<Row> run_cuda_static_suite(double seconds);
std::vector<Row> run_cuda_sass_suite(double seconds);
std::vector<Row> run_metaschedule_ops_suite(double seconds);
std::vector<Row> run_model_search_suite(double seconds);
std::vector<Row> run_draft_suite(double seconds);
std::vector<Row> run_search_strategies_suite(double seconds);
std::vector<Row> run_random_ops_suite(double seconds);
std::vector<Row> run_fleet_suite(double seconds);
std::vector<Row> run_slow_core_suite(double seconds);
std::vector<Row> run_report_suite(double seconds);
// The rows *.draft of the suite "search": candidates that a core drafts in a second.
void add_draft_rates(double seconds, std::vector<Row>& rows);

// Runs `body(worker)` again and again on `threads` threads at once for about `seconds` and returns the rate a thread:
// the sum of what body returns, by time and threads.
double rate_per_thread(int threads, double seconds, const std::function<double(int worker)>& body);

// The mean of the two in the middle where the number of values is even; 0 of none.
double median(std::vector<double> values);

// The CPUs that this process may use, in ascending order; empty where the system does not say.
std::vector<int> usable_cpus();

}  // namespace tcc::benchmarks
