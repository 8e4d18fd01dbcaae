#include "tcc/driver/gain.h"

#include <algorithm>
#include <map>

#include "tcc/backend/backend.h"
#include "tcc/record/store.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {
namespace {

constexpr double kShare = 0.05, kLeast = 0.3, kMost = 6;
constexpr double kNoise = 0.02;        // of a task's time
constexpr double kTaskShare = 0.1;     // of the timing in turns, for each library alone and as much for its tasks
constexpr double kMaxRunShare = 0.02;  // of the timing: predictions are sometimes far too long, as of gathers
constexpr double kAloneRuns = 12;      // of a library alone, at least: of all of it, and kernel by kernel

Result<std::string> build_into(const Model& model, const GainOptions& options, const record::Database* store,
                               const std::string& folder) {
  BuildOptions build;
  build.folder = folder;
  build.targets = {options.target};
  build.store = store;
  build.threads = options.threads;
  TCC_TRY(const BuildReport report, build_model(model, build));
  return report.package.library;
}

// The untimed records that a first library left, where it made all of its programs; nullptr: it did not.
Result<std::unique_ptr<record::Store>> default_records(const GainOptions& options) {
  const auto made = [](const FirstProgram& p) { return p.made; };
  if (options.first == nullptr || options.store == nullptr || backend::backend_of(options.target).predicts ||
      !std::all_of(options.first->programs.begin(), options.first->programs.end(), made))
    return nullptr;
  TCC_TRY(auto store, record::Store::open(":memory:"));
  for (const FirstProgram& p : options.first->programs) {
    TCC_TRY(const std::vector<record::Record> records, options.store->all(search::task_hash(p.key)));
    for (const record::Record& r : records)
      if (record::is_untimed(r.kind)) TCC_TRY_VOID(store->add(r));
  }
  return store;
}

void sort_by_gain(std::vector<TaskGain>& tasks) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const TaskGain& x, const TaskGain& y) { return x.before - x.after > y.before - y.after; });
}

}  // namespace

double gain_seconds(double timing_seconds, double build_seconds, double run_seconds) {
  run_seconds = std::min(run_seconds, kMaxRunShare * timing_seconds);
  const double alone = std::max(2 * 1.1 * kTaskShare * timing_seconds, kAloneRuns * run_seconds);
  return 2 * build_seconds + compare_seconds(timing_seconds / kPairedTimes, run_seconds) + 2 * alone;
}

double gain_timing(double command_seconds) {
  return std::clamp(kShare * command_seconds, kLeast, kMost);
}

Result<Gain> measure_gain(const Model& model, const GainOptions& options) {
  Stopwatch watch;
  Gain gain;
  TCC_TRY(const auto folder, TemporaryDirectory::create("tcc-gain-"));
  TCC_TRY(const std::unique_ptr<record::Store> defaults, default_records(options));
  TCC_TRY(const std::string before, build_into(model, options, defaults.get(), folder->path() + "/before"));
  TCC_TRY(const std::string after, build_into(model, options, options.store, folder->path() + "/after"));
  BenchOptions bench;
  bench.threads = static_cast<int>(options.threads);
  bench.cuda_driver = options.cuda_driver;
  bench.seconds = options.seconds / kPairedTimes;
  TCC_TRY(gain.latency, compare_libraries(before, after, bench));

  bench.seconds = kTaskShare * options.seconds;
  bench.per_kernel = true;
  TCC_TRY(const BenchReport first, bench_library(before, bench));
  TCC_TRY(const BenchReport second, bench_library(after, bench));
  for (const KernelTime& k : second.kernels) {
    gain.kernels += k.time.median;
    auto same =
        std::find_if(first.kernels.begin(), first.kernels.end(), [&](const KernelTime& o) { return o.key == k.key; });
    // Another form of a convolution has another key. Kernels of one node have the same list of nodes.
    if (same == first.kernels.end() && !k.nodes.empty())
      same = std::find_if(first.kernels.begin(), first.kernels.end(),
                          [&](const KernelTime& o) { return o.nodes == k.nodes; });
    if (same == first.kernels.end() || !(k.time.median < (1 - kNoise) * same->time.median)) continue;
    gain.tasks.push_back({k.key, k.workload, k.weight, same->time.median, k.time.median});
  }
  sort_by_gain(gain.tasks);
  gain.seconds = watch.seconds();
  return gain;
}

Result<std::optional<Gain>> predict_gain(const Program& program, const TuneRequest& request, const TuneReport& report,
                                         const FirstLibrary& first) {
  Stopwatch watch;
  Gain gain;
  gain.predicted = true;
  std::map<std::string, const task::Task*> tasks;
  for (const task::Task& task : program.tasks.tasks) tasks[task.key] = &task;
  std::vector<Result<double>> before(report.tasks.size(), 0.0);
  const search::Defaults defaults{request.options.space, ""};
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  parallel_for(&pool, std::ssize(before), [&](int64_t i) {
    Result<double>& seconds = before[static_cast<size_t>(i)];
    const std::string& key = report.tasks[static_cast<size_t>(i)].result.key;
    const auto known = std::find_if(first.programs.begin(), first.programs.end(),
                                    [&](const FirstProgram& p) { return p.key == key && p.made; });
    if (known != first.programs.end()) {
      seconds = known->seconds;
      return;
    }
    const task::Task& task = *tasks.at(key);
    auto program = search::default_artifact(task, request.target, request.options.threads, defaults);
    if (!program)
      seconds = tl::make_unexpected(std::move(program).error());
    else
      seconds =
          search::predicted_seconds(program->program, program->artifact, task, request.target, request.options.threads);
  });
  double sum_before = 0, sum_after = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    TCC_TRY(const double then, std::move(before[i]));
    const search::TaskResult& t = report.tasks[i].result;
    if (then <= 0 || t.best_seconds <= 0) return std::optional<Gain>();
    const auto weight = static_cast<double>(t.weight);
    // The first library left a record of the default program, too: `build` takes the better one.
    const double now = std::min(then, t.best_seconds);
    sum_before += weight * then;
    sum_after += weight * now;
    if (now < then) gain.tasks.push_back({t.key, t.workload, t.weight, weight * then, weight * now});
  }
  if (sum_before <= 0) return std::optional<Gain>();
  gain.latency.median_a = sum_before;
  gain.latency.median_b = gain.kernels = sum_after;
  gain.latency.ratio = gain.latency.low = gain.latency.high = sum_after / sum_before;
  sort_by_gain(gain.tasks);
  gain.seconds = watch.seconds();
  return gain;
}

}  // namespace tcc::driver
