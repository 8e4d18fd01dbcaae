#include "tcc/driver/tune.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "driver/predict.h"
#include "tcc/codegen/llvm.h"
#include "tcc/driver/explain.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/show.h"
#include "tcc/measure/gpu.h"
#include "tcc/measure/host.h"
#include "tcc/schedule/trace.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kRankedFirst = 8;     // programs of a task, by the analytical model
constexpr double kRankingShare = 0.25;  // of a limit of time, at most

// The unscheduled program of each task, timed once on a machine: what speed-ups are measured against. Its record is one
// like any other, so a task whose plain loops are fastest gets them.
class Baselines {
 public:
  Baselines(measure::Measurer& measurer, record::Store& store, const TuneRequest& request)
      : measurer_(measurer), store_(store), request_(request), features_(target::feature_hash(request.target)) {}

  struct Baseline {
    double seconds = 0;
    std::string failure;
  };

  Result<void> measure(const task::Task& task, const measure::MeasureTask* prepared) {
    auto program = search::unscheduled_program(task, request_.target);
    if (!program) {
      known_[task.key] = {0, program.error().message};
      return {};
    }
    TCC_TRY(std::optional<record::Record> record, find(task, program->nest));
    if (!record) {
      TCC_TRY(record, run(task, prepared, *program));
    }
    const bool ok = record->status == record::Status::kOk;
    known_[task.key] = {ok ? record->median : 0,
                        ok ? "" : fmt::format("{}: {}", record::status_name(record->status), record->failure)};
    return {};
  }

  // Of a task that this run did not reach: what an earlier run measured.
  Result<Baseline> of(const task::Task& task) const {
    if (auto it = known_.find(task.key); it != known_.end()) return it->second;
    if (auto program = search::unscheduled_program(task, request_.target)) {
      TCC_TRY(std::optional<record::Record> record, find(task, program->nest));
      if (record && record->status == record::Status::kOk) return Baseline{record->median, ""};
    }
    return Baseline{0, "not reached"};
  }

 private:
  Result<std::optional<record::Record>> find(const task::Task& task, uint64_t nest) const {
    TCC_TRY(std::vector<record::Record> records, store_.all(task_key_hash(task.key)));
    for (record::Record& r : records)
      if (r.kind == record::Kind::kMeasured && r.nest == nest && r.target_features == features_ &&
          r.threads == request_.options.threads)
        return std::move(r);
    return std::nullopt;
  }

  Result<std::optional<record::Record>> run(const task::Task& task, const measure::MeasureTask* prepared,
                                            const search::Chosen& program) {
    measure::Candidate candidate;
    candidate.nest = program.nest;
    candidate.task = prepared;
    candidate.kernel = program.lowered;
    TCC_TRY(std::vector<measure::Measurement> measured, measurer_.measure({&candidate, 1}));
    record::Record record;
    record.task = task_key_hash(task.key);
    record.workload = task.workload;
    record.target = request_.target.name;
    record.target_features = features_;
    record.skeleton = schedule::skeleton_hash(schedule::Trace{});
    record.trace = program.trace;
    record.nest = program.nest;
    record.tool_version = tool_version();
    record.unix_time = Clock::system().unix_seconds();
    measure::fill_record(measured.at(0), record);
    record.threads = request_.options.threads;
    TCC_TRY(record.id, store_.add(record));
    return record;
  }

  measure::Measurer& measurer_;
  record::Store& store_;
  const TuneRequest& request_;
  uint64_t features_;
  std::map<std::string, Baseline> known_;
};

}  // namespace

Result<std::vector<std::string>> check_modules(std::vector<std::string> names, const target::Target& target) {
  const std::vector<std::string> known = space::module_names(target);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = suggest(name, known);
    return make_error(ErrorClass::kUsage, fmt::format("{} has no module '{}'", target.name, sanitize(name)),
                      near.empty() ? fmt::format("there are: {}", fmt::join(known, ", ")) : near);
  }
  return names;
}

Result<void> check_tunable(const target::Target& target) {
  if (!target.is_cpu()) return {};
  if (!codegen::has_llvm())
    return make_error(ErrorClass::kEnvironment, "nothing can be tuned for a CPU: this tcc was built without LLVM",
                      "name a GPU, for example --target a100, or use a tcc that was built with LLVM");
  const target::Target host = target::host_target();
  if (target::isa_level(target) <= target::isa_level(host)) return {};
  return make_error(ErrorClass::kInput,
                    fmt::format("'{}' cannot be tuned here: this machine is {} and runs {}", target.name, host.source,
                                target::isa_level_name(target::isa_level(host))),
                    "tune on a machine of that kind, or use --target host");
}

Result<std::vector<size_t>> parse_tasks(const Program& program, const std::string& spec) {
  std::set<size_t> chosen;
  std::istringstream words(spec);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t dash = word.find('-');
    TCC_TRY(size_t first, find_task(program, word.substr(0, dash)));
    size_t last = first;
    if (dash != std::string::npos) {
      TCC_TRY(last, find_task(program, word.substr(dash + 1)));
    }
    if (last < first)
      return make_error(ErrorClass::kUsage, fmt::format("'{}' runs backwards", sanitize(word)),
                        fmt::format("write {}-{}", last, first));
    for (size_t i = first; i <= last; ++i) chosen.insert(i);
  }
  if (chosen.empty())
    return make_error(ErrorClass::kUsage, "--tasks: expected numbers or keys of tasks, found nothing",
                      "write numbers as 0-3,7; `tcc show MODEL` lists them");
  return std::vector<size_t>(chosen.begin(), chosen.end());
}

namespace {

std::vector<task::Task> chosen_tasks(const Program& program, const TuneRequest& request) {
  std::vector<task::Task> tasks;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    if (request.tasks.empty() || std::count(request.tasks.begin(), request.tasks.end(), i) > 0)
      tasks.push_back(program.tasks.tasks[i]);
  return tasks;
}

// Searches and sums up. Without `baselines` there is nothing that speed-ups could be measured against.
Result<TuneReport> search_tasks(const Program& program, record::Store& store, const TuneRequest& request,
                                search::Environment environment, Baselines* baselines) {
  environment.others = request.others;
  environment.stop = request.stop;
  environment.progress = request.progress;
  environment.tool_version = tool_version();
  if (baselines != nullptr)
    environment.before_first_round = [baselines](const task::Task& task, const measure::MeasureTask* prepared) {
      return baselines->measure(task, prepared);
    };
  const std::vector<task::Task> tasks = chosen_tasks(program, request);
  TCC_TRY(search::TuneResult tuned, search::tune(tasks, request.target, request.options, environment));

  TuneReport report;
  report.trials = tuned.trials;
  report.seconds = tuned.seconds;
  report.stopped = tuned.stopped;
  report.resumed = tuned.resumed;
  bool baseline_known = baselines != nullptr, best_known = true;
  for (size_t i = 0; i < tuned.tasks.size(); ++i) {
    TunedTask task{std::move(tuned.tasks[i]), tasks[i].flops, 0, "a GPU does not run unscheduled loops"};
    if (tuned.stopped) {  // the round that was cut off counts in no summary, but its records are in the store
      TCC_TRY(
          std::optional<record::Record> best,
          store.best(task_key_hash(task.result.key), target::feature_hash(request.target), request.options.threads));
      if (best && (task.result.best_seconds == 0 || best->median < task.result.best_seconds))
        task.result.best_seconds = best->median;
    }
    if (baselines != nullptr) {
      TCC_TRY(const Baselines::Baseline baseline, baselines->of(tasks[i]));
      task.baseline_seconds = baseline.seconds;
      task.baseline_failure = baseline.failure;
      if (baseline.seconds > 0 && (task.result.best_seconds == 0 || baseline.seconds < task.result.best_seconds))
        task.result.best_seconds = baseline.seconds;
    }
    report.counts.add(task.result.counts);
    TCC_TRY_VOID(record_proposals(task.result.key, task.result.counts, store));
    const auto weight = static_cast<double>(task.result.weight);
    report.baseline_seconds += weight * task.baseline_seconds;
    report.best_seconds += weight * task.result.best_seconds;
    baseline_known = baseline_known && task.baseline_seconds > 0;
    best_known = best_known && task.result.best_seconds > 0;
    report.tasks.push_back(std::move(task));
  }
  if (tuned.stopped) {  // those of the round that was cut off are measured and stored as well
    report.trials = 0;
    for (const TunedTask& task : report.tasks) report.trials += task.result.trials;
  }
  if (!baseline_known) report.baseline_seconds = 0;
  if (!best_known) report.best_seconds = 0;
  return report;
}

Result<TuneReport> tune_cpu(const Program& program, record::Store& store, const TuneRequest& request) {
  TCC_TRY_VOID(check_tunable(request.target));
  measure::HostMeasureOptions measure_options;
  measure_options.threads = static_cast<int>(request.options.threads);
  measure_options.device = request.device;
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  measure_options.compile_pool = &pool;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));
  Baselines baselines(*measurer, store, request);
  search::Environment environment{.store = &store, .measurer = measurer.get(), .pool = &pool};
  if (request.prior) environment.prior = &search::shipped_prior();
  TCC_TRY(TuneReport report, search_tasks(program, store, request, environment, &baselines));
  report.notes = measurer->notes();
  return report;
}

// What the search begins with on a GPU: the analytical model's best of every task that it has not ranked yet. Measuring
// goes on from there. Returns how many tasks these were.
Result<int64_t> rank_first(const Program& program, record::Store& store, const TuneRequest& request) {
  TuneRequest rank = request;
  rank.progress = nullptr;
  rank.tasks.clear();
  rank.options.trials_per_task = kRankedFirst;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    if (!request.tasks.empty() && std::count(request.tasks.begin(), request.tasks.end(), i) == 0) continue;
    TCC_TRY(const std::vector<record::Record> records, store.all(task_key_hash(program.tasks.tasks[i].key)));
    const bool known = std::any_of(records.begin(), records.end(), [&](const record::Record& r) {
      return r.isa == target::sm_name(request.target) && r.status == record::Status::kOk;
    });
    if (!known) rank.tasks.push_back(i);
  }
  if (rank.tasks.empty()) return 0;
  const auto count = static_cast<int64_t>(rank.tasks.size());
  rank.options.trials = kRankedFirst * count;
  if (rank.options.seconds > 0) rank.options.seconds *= kRankingShare;
  TCC_TRY_VOID(predict_program(program, store, rank));
  return count;
}

// Measures where the device is of the target's architecture; predicts elsewhere, and says why.
Result<TuneReport> tune_gpu(const Program& program, record::Store& store, const TuneRequest& given) {
  TuneRequest request = given;
  request.options.threads = 1;  // of the host: one launches
  auto predict = [&](const std::string& why) -> Result<TuneReport> {
    TCC_TRY(TuneReport report, predict_program(program, store, request));
    report.notes.insert(report.notes.begin(), why);
    if (request.others != nullptr) report.notes.push_back("a prediction makes no use of other records");
    return report;
  };
  measure::HostMeasureOptions reference_options;
  reference_options.threads = 0;
  TCC_TRY(auto references, measure::IsolatedHostMeasurer::create(reference_options));
  // One core is left to the worker, which keeps the device busy.
  ThreadPool pool(std::max(1, static_cast<int>(target::host_target().cpu.threads) - 1));
  measure::GpuMeasureOptions options;
  options.driver_library = request.cuda_driver;
  options.cupti_library = request.cupti;
  options.device = installed_gpu_number(request.target.name).value_or(0);
  options.compile_pool = &pool;
  auto measurer = measure::GpuMeasurer::create(*references, options);
  const bool installed = installed_gpu_number(request.target.name).has_value();
  if (!measurer && installed) return tl::make_unexpected(std::move(measurer).error());
  if (!measurer) return predict(fmt::format("nothing is measured: {}", measurer.error().message));
  const measure::GpuDevice& device = (*measurer)->device();
  if (target::sm_name(device.target) != target::sm_name(request.target))
    return predict(
        fmt::format("nothing is measured: the GPU here, {}, is {} and '{}' is {}; --target cuda tunes for it",
                    device.name, target::sm_name(device.target), request.target.name, target::sm_name(request.target)));
  std::vector<std::string> notes = {fmt::format("measured on {}", device.name)};
  TCC_TRY(const int64_t ranked, rank_first(program, store, request));
  if (ranked > 0)
    notes.push_back(fmt::format("the search began with the analytical model's best for {} tasks", ranked));
  const search::Environment environment{.store = &store, .measurer = measurer->get(), .pool = &pool};
  TCC_TRY(TuneReport report, search_tasks(program, store, request, environment, nullptr));
  for (const std::vector<std::string>& more : {(*measurer)->notes(), references->notes()})
    notes.insert(notes.end(), more.begin(), more.end());
  report.notes = std::move(notes);
  return report;
}

}  // namespace

Result<TuneReport> tune_program(const Program& program, record::Store& store, const TuneRequest& request) {
  return request.target.is_cuda() ? tune_gpu(program, store, request) : tune_cpu(program, store, request);
}

}  // namespace tcc::driver
