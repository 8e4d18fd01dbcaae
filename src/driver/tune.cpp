#include "tcc/driver/tune.h"

#include <map>
#include <nlohmann/json.hpp>

#include "tcc/measure/host.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {
namespace {

// The unscheduled program of each task, timed once per machine: what speed-ups are measured against. Kept in the store
// beside the records, so that a later run does not time it again.
class Baselines {
 public:
  Baselines(measure::Measurer& measurer, record::Store& store, const TuneRequest& request)
      : measurer_(measurer), store_(store), request_(request) {}

  struct Baseline {
    double seconds = 0;
    std::string failure;
  };

  Result<void> measure(const task::Task& task, const measure::MeasureTask& prepared) {
    if (known_.contains(task.key)) return {};
    TCC_TRY(std::optional<Baseline> stored, load(task.key));
    if (stored) {
      known_[task.key] = *stored;
      return {};
    }
    auto program = search::unscheduled_program(task, request_.target);
    if (!program) {
      known_[task.key] = {0, program.error().message};
      return {};
    }
    measure::Candidate candidate;
    candidate.nest = program->nest;
    candidate.task = &prepared;
    candidate.kernel = program->lowered;
    TCC_TRY(std::vector<measure::Measurement> measured, measurer_.measure({&candidate, 1}));
    const measure::Measurement& m = measured.at(0);
    const bool ok = m.status == record::Status::kOk;
    known_[task.key] = {ok ? m.median : 0, ok ? "" : fmt::format("{}: {}", record::status_name(m.status), m.failure)};
    if (!ok) return {};
    return store_.save_session(session_key(task.key), nlohmann::json{{"seconds", m.median}}.dump());
  }

  Baseline of(const std::string& key) const {
    auto it = known_.find(key);
    return it == known_.end() ? Baseline{0, "not reached"} : it->second;
  }

 private:
  std::string session_key(const std::string& key) const {
    return fmt::format("baseline/{}/{}/{}", key, record::hash_text(target::feature_hash(request_.target)),
                       request_.options.threads);
  }
  Result<std::optional<Baseline>> load(const std::string& key) const {
    TCC_TRY(std::optional<std::string> text, store_.load_session(session_key(key)));
    if (!text) return std::nullopt;
    auto json = nlohmann::json::parse(*text, nullptr, false);
    auto seconds = json.is_object() ? json.find("seconds") : json.end();
    if (seconds == json.end() || !seconds->is_number()) return std::nullopt;
    return Baseline{seconds->get<double>(), ""};
  }

  measure::Measurer& measurer_;
  record::Store& store_;
  const TuneRequest& request_;
  std::map<std::string, Baseline> known_;
};

Result<void> check_target(const target::Target& target) {
  const target::Target host = target::host_target();
  if (target.is_cpu() && target::isa_level(target) <= target::isa_level(host)) return {};
  return make_error(ErrorClass::kInput,
                    fmt::format("'{}' cannot be tuned here: this machine is {} and runs {}", target.name, host.source,
                                target::isa_level_name(target::isa_level(host))),
                    "tune on a machine of that kind, or use --target host");
}

}  // namespace

Result<TuneReport> tune_program(const Program& program, record::Store& store, const TuneRequest& request) {
  TCC_TRY_VOID(check_target(request.target));
  measure::HostMeasureOptions measure_options;
  measure_options.threads = static_cast<int>(request.options.threads);
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  measure_options.compile_pool = &pool;
  TCC_TRY(auto measurer, measure::IsolatedHostMeasurer::create(measure_options));

  Baselines baselines(*measurer, store, request);
  search::Environment environment = search::host_environment(*measurer, store, &pool, request.target);
  environment.stop = request.stop;
  environment.progress = request.progress;
  environment.tool_version = tool_version();
  environment.prepare = [&baselines, prepare = environment.prepare](
                            const task::Task& task) -> Result<std::shared_ptr<const measure::MeasureTask>> {
    TCC_TRY(std::shared_ptr<const measure::MeasureTask> prepared, prepare(task));
    TCC_TRY_VOID(baselines.measure(task, *prepared));
    return prepared;
  };
  TCC_TRY(search::TuneResult tuned, search::tune(program.tasks.tasks, request.target, request.options, environment));

  TuneReport report;
  report.trials = tuned.trials;
  report.seconds = tuned.seconds;
  report.stopped = tuned.stopped;
  report.resumed = tuned.resumed;
  report.notes = measurer->notes();
  bool baseline_known = true, best_known = true;
  for (size_t i = 0; i < tuned.tasks.size(); ++i) {
    TunedTask task{std::move(tuned.tasks[i]), program.tasks.tasks[i].flops, 0, ""};
    if (tuned.stopped) {  // the round that was cut off counts in no summary, but its records are in the store
      TCC_TRY(
          std::optional<record::Record> best,
          store.best(task_key_hash(task.result.key), target::feature_hash(request.target), request.options.threads));
      if (best && (task.result.best_seconds == 0 || best->median < task.result.best_seconds))
        task.result.best_seconds = best->median;
    }
    const Baselines::Baseline baseline = baselines.of(task.result.key);
    task.baseline_seconds = baseline.seconds;
    task.baseline_failure = baseline.failure;
    report.counts.add(task.result.counts);
    const auto weight = static_cast<double>(task.result.weight);
    report.baseline_seconds += weight * task.baseline_seconds;
    report.best_seconds += weight * task.result.best_seconds;
    baseline_known = baseline_known && task.baseline_seconds > 0;
    best_known = best_known && task.result.best_seconds > 0;
    report.tasks.push_back(std::move(task));
  }
  if (!baseline_known) report.baseline_seconds = 0;
  if (!best_known) report.best_seconds = 0;
  return report;
}

}  // namespace tcc::driver
