#include "tcc/driver/gain.h"

#include <algorithm>

#include "tcc/support/files.h"

namespace tcc::driver {
namespace {

constexpr double kShare = 0.05, kLeast = 0.3, kMost = 6;
constexpr double kNoise = 0.02;     // of a task's time
constexpr double kTaskShare = 0.1;  // of the timing in turns, for each library alone and as much for its tasks

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

}  // namespace

double gain_seconds(double timing_seconds, double build_seconds) {
  return 2 * build_seconds + timing_seconds * (1 + 4 * 1.1 * kTaskShare);
}

double gain_timing(double command_seconds) {
  return std::clamp(kShare * command_seconds, kLeast, kMost);
}

Result<Gain> measure_gain(const Model& model, const GainOptions& options) {
  Stopwatch watch;
  Gain gain;
  TCC_TRY(const auto folder, TemporaryDirectory::create("tcc-gain-"));
  TCC_TRY(const std::string before, build_into(model, options, nullptr, folder->path() + "/before"));
  TCC_TRY(const std::string after, build_into(model, options, options.store, folder->path() + "/after"));
  BenchOptions bench;
  bench.threads = static_cast<int>(options.threads);
  bench.seconds = options.seconds / kPairedTimes;
  TCC_TRY(gain.latency, compare_libraries(before, after, bench));

  bench.seconds = kTaskShare * options.seconds;
  bench.per_kernel = true;
  TCC_TRY(const BenchReport first, bench_library(before, bench));
  TCC_TRY(const BenchReport second, bench_library(after, bench));
  for (const KernelTime& k : second.kernels) {
    const auto same =
        std::find_if(first.kernels.begin(), first.kernels.end(), [&](const KernelTime& o) { return o.key == k.key; });
    if (same == first.kernels.end() || !(k.time.median < (1 - kNoise) * same->time.median)) continue;
    gain.tasks.push_back({k.key, k.workload, k.weight, same->time.median, k.time.median});
  }
  std::stable_sort(gain.tasks.begin(), gain.tasks.end(),
                   [](const TaskGain& x, const TaskGain& y) { return x.before - x.after > y.before - y.after; });
  gain.seconds = watch.seconds();
  return gain;
}

}  // namespace tcc::driver
