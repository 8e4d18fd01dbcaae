// What each part of the space is worth (MetaSchedule's ablation, its section 6.3): a fused dense layer, bias and GELU
// on one thread, tuned with 64 trials over spaces that grow by a module at a time, three seeds each. The winners of all
// runs are timed in turns; a step's figure is the geometric mean over the seeds. --db keeps what is tuned, a store a
// run.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench.h"
#include "op_bench.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kSpaceTrials = 64;
constexpr uint64_t kSpaceSeeds = 3;
constexpr int kSpaceRounds = 7;

struct Growth {
  std::string name;
  space::SpaceOptions space;
};

// Register tiles are what multi-level tiling unrolls; "unroll" lets it, and unrolls and vectorizes what is left over.
std::vector<Growth> steps() {
  std::vector<Growth> out;
  space::SpaceOptions space;
  space.max_unroll = 1;
  space.modules = {"none"};
  out.push_back({"naive", space});
  space.modules = {"multi_level_tiling"};
  out.push_back({"tiling", space});
  space.modules.push_back("auto_inline");
  out.push_back({"inline", space});
  space.modules.push_back("parallel_vectorize_unroll");
  space.max_unroll = space::SpaceOptions{}.max_unroll;
  out.push_back({"unroll", space});
  for (const char* module : {"amx_tiling", "matmul_tiling"}) space.modules.push_back(module);
  out.push_back({"vector", space});
  return out;
}

struct StepRun {
  size_t step;
  std::vector<OwnKernel> kernels;
  std::vector<double> times = {};
};

Result<StepRun> tune_step(const OpCase& layer, const Growth& step, size_t at, uint64_t seed, OpBench& bench) {
  const std::string path = options().db.empty() ? ":memory:" : fmt::format("{}.{}.{}", options().db, step.name, seed);
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(path));
  OpBench own{bench.host, *store, bench.pool, bench.references, bench.measurer, "space." + step.name};
  own.tune.seed = seed;
  own.tune.space = step.space;
  own.trials = kSpaceTrials;
  TCC_TRY(OwnOperator tuned, own_operator(layer, own));
  return StepRun{at, std::move(tuned.kernels)};
}

Result<std::vector<Row>> run_space() {
  measure::HostMeasureOptions measure_options;
  measure_options.worker_path = TCC_WORKER_PATH;
  measure_options.cpus = {usable_cpus().back()};
  measure_options.budget_seconds = kSlice;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(":memory:"));
  const target::Target host = target::host_target();
  ThreadPool pool(static_cast<int>(usable_cpus().size()));
  References references(*measurer, host);
  OpBench bench{host, *store, pool, references, *measurer, "space"};
  const OpCase layer = dense_gelu_case("dense_gelu", 128, 768, 768);
  const std::vector<Growth> all = steps();
  std::vector<StepRun> runs;
  for (uint64_t seed = 1; seed <= kSpaceSeeds; ++seed)
    for (size_t i = 0; i < all.size(); ++i) {
      TCC_TRY(StepRun run, tune_step(layer, all[i], i, seed, bench));
      runs.push_back(std::move(run));
    }
  for (int round = 0; round < kSpaceRounds; ++round)
    for (StepRun& run : runs) {
      TCC_TRY(double seconds, own_slice(run.kernels, bench));
      run.times.push_back(seconds);
    }
  std::vector<double> logs(all.size(), 0);
  for (const StepRun& run : runs) logs[run.step] += std::log(median(run.times)) / kSpaceSeeds;
  std::vector<Row> rows;
  const double flops = case_flops(layer) / 1e9;
  for (size_t i = 0; i < all.size(); ++i) {
    Row row{all[i].name, flops / std::exp(logs[i]), "GFLOP/s", "", 0, 0};
    if (i > 0) {
      row.peer = all[i - 1].name;
      row.peer_value = flops / std::exp(logs[i - 1]);
      row.ratio = row.value / row.peer_value;
    }
    rows.push_back(row);
  }
  rows.push_back({"whole", std::exp(logs.front() - logs.back()), "x of naive", "", 0, 0});
  return rows;
}

}  // namespace

std::vector<Row> run_space_suite(double) {
  Result<std::vector<Row>> rows = run_space();
  if (rows) return *rows;
  std::fprintf(stderr, "space: %s %s\n", rows.error().message.c_str(), rows.error().hint.c_str());
  return {{"space", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
