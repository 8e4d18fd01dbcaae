#include "tcc/driver/tune.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "driver/baselines.h"
#include "driver/first_library.h"
#include "driver/neighbors.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/network_model.h"
#include "tcc/cost/shipped_checkpoints.h"
#include "tcc/driver/explain.h"
#include "tcc/driver/fleet.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/history.h"
#include "tcc/driver/show.h"
#include "tcc/measure/simulated.h"
#include "tcc/record/disturbed.h"
#include "tcc/search/model_measurer.h"
#include "tcc/space/space.h"
#include "tcc/support/text.h"
#include "tcc/target/last_cache.h"
#include "tcc/target/probe.h"

namespace tcc::driver {
namespace {

constexpr int64_t kFewTrialsPerTask = 4;   // of a task, at effort 1
constexpr int64_t kTrialsPerTask = 64;     // of a task, at effort 2, unless the user says otherwise
constexpr double kMaxSeconds = 600;        // likewise
constexpr int64_t kMaxFinalists = 12;      // predicted programs of a task that are compiled and stored
constexpr int64_t kPredictedFirst = 8;     // programs of a task that measuring begins with
constexpr double kPredictingShare = 0.25;  // of a limit of time, at most, before measuring begins

}  // namespace

Result<void> set_space(const std::string& text, const target::Target& target, space::SpaceOptions& options) {
  options.metaschedule = text == space::kWideSpace;
  options.modules.clear();
  if (options.metaschedule || text == space::kDefaultSpace) return {};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    options.modules.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<std::string> known = space::module_names(target);
  for (std::string_view word : {space::kDefaultSpace, space::kWideSpace}) known.emplace_back(word);
  for (const std::string& name : options.modules)
    if (std::find(known.begin(), known.end() - 2, name) == known.end() - 2) {
      const std::string near = suggest(name, known);
      return make_error(
          ErrorClass::kUsage,
          fmt::format("--space: expected default, wide or modules of {}, found '{}'", target.name, sanitize(name)),
          near.empty() ? fmt::format("there are: {}", fmt::join(known, ", ")) : near);
    }
  return {};
}

Result<target::Target> simulated_target(target::Target target, int64_t seed) {
  if (target.cuda.sm_count == 0)
    return make_error(ErrorClass::kUsage,
                      fmt::format("--simulate: expected a GPU as target, found '{}'", sanitize(target.name)),
                      "name one, as --target a100; `tcc targets` lists them");
  target.cuda.simulated = seed;
  return target;
}

Result<void> check_tunable(const target::Target& target) {
  if (is_simulated(target)) return {};
  return backend::backend_of(target).check_tunable(target);
}

void set_limits(search::TuneOptions& options, Effort effort, int64_t tasks) {
  if (effort == Effort::kFew) options.trials_per_task = kFewTrialsPerTask;
  options.trials = tasks * (options.trials_per_task > 0 ? options.trials_per_task : kTrialsPerTask);
  options.seconds = kMaxSeconds;
}

Result<std::vector<size_t>> unmeasured_tasks(const Program& program, const target::Target& target, int64_t threads,
                                             const record::Database& store) {
  std::vector<size_t> missing;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    TCC_TRY(const std::optional<record::Record> best,
            store.best(search::task_hash(program.tasks.tasks[i]), search::machine_of(target), threads));
    if (!best) missing.push_back(i);
  }
  return missing;
}

std::vector<std::string> effort_names() {
  return {"0", "1", "2"};
}

Result<Effort> parse_effort(const std::string& text) {
  const std::vector<std::string> names = effort_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Effort>(found - names.begin());
  return make_error(ErrorClass::kUsage, fmt::format("--effort: expected 0, 1 or 2, found '{}'", sanitize(text)),
                    "0 measures nothing, 1 a few programs of each task, 2 as many as --trials and --time say");
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

// What a search is about: the tasks of a request, each in all of its forms.
struct SearchedTasks {
  std::vector<task::Task> tasks;
  std::vector<int64_t> places;  // of each, among the tasks of the request
  std::vector<int64_t> turns;   // a short run measures what a build takes without it, before other forms
  bool have_forms = false;
};

SearchedTasks searched_tasks(const Program& program, const TuneRequest& request) {
  SearchedTasks all;
  int64_t place = 0;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    if (!request.tasks.empty() && std::count(request.tasks.begin(), request.tasks.end(), i) == 0) continue;
    const bool has_forms = i < program.forms.size() && !program.forms[i].empty();
    if (!has_forms) all.tasks.push_back(program.tasks.tasks[i]), all.turns.push_back(0);
    for (size_t f = 0; has_forms && f < program.forms[i].size(); ++f) {
      all.tasks.push_back(program.forms[i][f].task);
      all.turns.push_back(all.tasks.back().key == program.tasks.tasks[i].key ? 0 : 1);
    }
    all.places.resize(all.tasks.size(), place++);
    all.have_forms = all.have_forms || has_forms;
  }
  return all;
}

// Another form of the same task: the fastest is the task's result.
void add_form(TunedTask& task, TunedTask form) {
  const double known = task.result.best_seconds, seconds = form.result.best_seconds;
  const int64_t trials = task.result.trials + form.result.trials;
  search::Counts counts = task.result.counts;
  counts.add(form.result.counts);
  if (seconds > 0 && (known <= 0 || seconds < known)) {
    task.result = std::move(form.result);
    task.flops = form.flops;
  }
  task.result.trials = trials;
  task.result.counts = std::move(counts);
  task.forms.push_back(std::move(form.forms.at(0)));
}

// The part of the report that is about one task.
Result<TunedTask> sum_up(search::TaskResult result, const task::Task& task, const record::Store& store,
                         const TuneRequest& request, const Baselines* baselines) {
  TunedTask out;
  out.result = std::move(result);
  out.flops = task.flops;
  double& best = out.result.best_seconds;
  // What `build` takes: finals may have confirmed another program than the fastest, and the records of a round that was
  // cut off are in the store.
  TCC_TRY(const std::optional<record::Record> record,
          search::chosen_record(task, request.target, store, request.options.threads));
  if (record && !record::is_untimed(record->kind) && record->threads == request.options.threads &&
      record::is_of(*record, search::machine_of(request.target))) {
    best = record->median;
    out.result.best_disturbed = record::is_disturbed(*record);
    out.result.best_gflops = best > 0 ? task.flops / best / 1e9 : 0;
  }
  if (baselines == nullptr) return out;
  TCC_TRY(const Baselines::Baseline baseline, baselines->of(task));
  out.baseline_seconds = baseline.seconds;
  out.baseline_failure = baseline.failure;
  if (baseline.seconds > 0 && (best == 0 || baseline.seconds < best)) best = baseline.seconds;
  return out;
}

// Wall time of the first library, and of a build, about.
struct LibraryTime {
  double seconds = 0, build_seconds = 0;
};

// Searches and sums up. Without `baselines` there is nothing that speed-ups could be measured against.
Result<TuneReport> search_tasks(const Program& program, record::Store& store, const TuneRequest& request,
                                search::Environment environment, Baselines* baselines, LibraryTime library = {}) {
  const SearchedTasks searched = searched_tasks(program, request);
  const std::vector<task::Task>& tasks = searched.tasks;
  environment.store = &store;
  environment.others = request.others;
  environment.stop = request.stop;
  Neighbors neighbors(request, environment.measurer->traits().kind, library.seconds, library.build_seconds);
  environment.tool_version = tool_version();
  if (baselines != nullptr)
    environment.before_first_round = [&](const task::Task& task, const measure::MeasureTask* prepared) {
      const auto at = static_cast<size_t>(&task - searched.tasks.data());
      const bool first = at == 0 || searched.places[at] != searched.places[at - 1];  // of the forms of a task
      return first ? baselines->measure(task, prepared) : Result<void>();
    };
  environment.progress = [&](search::Progress progress) {
    if (progress.task >= 0) progress.task = searched.places[static_cast<size_t>(progress.task)];
    neighbors.watch(std::move(progress));
  };
  search::TuneOptions options = request.options;
  if (searched.have_forms) options.choices = searched.places, options.turns = searched.turns;
  TCC_TRY(search::TuneResult tuned, search::tune(tasks, request.target, options, environment));

  TuneReport report;
  report.load = neighbors.load();
  report.build_seconds = library.build_seconds;
  report.others = neighbors.others();
  report.trials = tuned.trials;
  report.seconds = tuned.seconds;
  report.phases = tuned.phases;
  report.stopped = tuned.stopped;
  report.resumed = tuned.resumed;
  bool baseline_known = baselines != nullptr, best_known = true;
  for (size_t i = 0; i < tuned.tasks.size(); ++i) {
    const bool first = i == 0 || searched.places[i] != searched.places[i - 1];
    TCC_TRY(TunedTask task, sum_up(std::move(tuned.tasks[i]), tasks[i], store, request, first ? baselines : nullptr));
    report.counts.add(task.result.counts);
    TCC_TRY_VOID(record_proposals(task.result.key, task.result.counts, store));
    const search::TaskResult& r = task.result;
    if (std::count(searched.places.begin(), searched.places.end(), searched.places[i]) > 1)
      task.forms.push_back({form_of(r.workload), r.key, r.trials, r.best_seconds, task.flops, r.beaten});
    if (first)
      report.tasks.push_back(std::move(task));
    else
      add_form(report.tasks.back(), std::move(task));
  }
  for (const TunedTask& task : report.tasks) {
    const auto weight = static_cast<double>(task.result.weight);
    report.baseline_seconds += weight * task.baseline_seconds;
    report.best_seconds += weight * task.result.best_seconds;
    baseline_known = baseline_known && task.baseline_seconds > 0;
    best_known = best_known && task.result.best_seconds > 0;
  }
  if (tuned.stopped) {  // those of the round that was cut off are measured and stored as well
    report.trials = 0;
    for (const TunedTask& task : report.tasks) report.trials += task.result.trials;
  }
  if (!baseline_known) report.baseline_seconds = 0;
  if (!best_known) report.best_seconds = 0;
  return report;
}

// What the prior makes of the compiler's facts; nullptr: nothing.
search::ModelMeasurer::Expect expectation_of(const backend::Backend& backend, const target::Target& target) {
  if (backend.compiled_seconds == nullptr) return nullptr;
  return [&](const ir::Kernel& nest, const codegen::Artifact& artifact) {
    return backend.compiled_seconds(nest, target, artifact);
  };
}

// The same search where nothing runs: one round of each task, ranked by the backend's prior, whose best few are
// compiled and stored as predictions. `finalists`: of a task, at most.
Result<TuneReport> predict(const Program& program, record::Store& store, const TuneRequest& given, int64_t finalists) {
  const backend::Backend& backend = backend::backend_of(given.target);
  TCC_TRY_VOID(backend.check_tunable(given.target));
  TuneRequest request = given;
  const search::TuneOptions& o = given.options;
  const auto tasks = static_cast<int64_t>(std::max<size_t>(chosen_tasks(program, given).size(), 1));
  if (o.trials > 0) finalists = std::clamp<int64_t>(o.trials / tasks, 1, finalists);
  if (o.trials_per_task > 0) finalists = std::min(finalists, o.trials_per_task);
  request.options = search::ranking_options(request.options, request.target, finalists);
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  const Result<void> loadable = backend.check_loadable(request.target);
  const auto make_code = loadable || backend.print == nullptr ? backend.compile : backend.print;
  search::ModelMeasurer model([&](const ir::Kernel& lowered) { return make_code(lowered, request.target, {}); },
                              backend.isa(request.target), &pool, expectation_of(backend, request.target));
  TCC_TRY(TuneReport report, search_tasks(program, store, request, {.measurer = &model, .pool = &pool}, nullptr));
  report.predicted = true;
  report.source_only = make_code == backend.print;
  report.notes.push_back(
      fmt::format("times for '{}' are predicted by an analytical model; programs were {}, none was run or checked",
                  request.target.name, report.source_only ? "printed as source text, not compiled" : "compiled"));
  if (report.source_only)
    report.notes.push_back(fmt::format("{}; {}. The predictions do not know of registers and spills",
                                       loadable.error().message, loadable.error().hint));
  return report;
}

// What measuring begins with where the prior predicts: its best of every task that has no record yet. Returns how many
// tasks these were.
Result<int64_t> predict_first(const Program& program, record::Store& store, const TuneRequest& request) {
  const std::string isa = backend::backend_of(request.target).isa(request.target);
  TuneRequest first = request;
  first.progress = nullptr;
  first.tasks.clear();
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
    if (!request.tasks.empty() && std::count(request.tasks.begin(), request.tasks.end(), i) == 0) continue;
    TCC_TRY(const std::vector<record::Record> records, store.all(search::task_hash(program.tasks.tasks[i])));
    int64_t untimed = 0;
    const bool measured = std::any_of(records.begin(), records.end(), [&](const record::Record& r) {
      const bool good = r.isa == isa && r.status == record::Status::kOk;
      untimed += good && record::is_untimed(r.kind) ? 1 : 0;
      return good && !record::is_untimed(r.kind);
    });
    if (!measured && untimed <= 1) first.tasks.push_back(i);  // one is what effort 0 leaves
  }
  if (first.tasks.empty()) return 0;
  first.options.trials = 0;
  if (first.options.seconds > 0) first.options.seconds *= kPredictingShare;
  TCC_TRY_VOID(predict(program, store, first, kPredictedFirst));
  return std::ssize(first.tasks);
}

// What to know of the checkpoint that the search begins with: that none ships, or that it learned elsewhere; "":
// nothing. `machine`: the name of the device, "" for the host. Errors: not a checkpoint; one of a simulated GPU for a
// device.
Result<std::string> checkpoint_note(const TuneRequest& request, const std::string& machine) {
  const search::TuneOptions& o = request.options;
  const cost::NetworkKind* network = cost::find_network(o.cost_model);
  if (network == nullptr || o.pretrained.empty()) return std::string();
  const bool ships = o.pretrained == cost::kShipped;
  const cost::ShippedCheckpoint* shipped =
      ships ? cost::find_shipped_checkpoint(network->name, *backend::backend_of(request.target).trace_table) : nullptr;
  if (ships && shipped == nullptr)
    return fmt::format("no checkpoint of '{}' ships for {}: the network began without one", network->name,
                       sanitize(request.target.name));
  const std::string name = ships ? "the shipped checkpoint" : "'" + sanitize(o.pretrained) + "'";
  TCC_TRY(const nn::Checkpoint stored,
          ships ? nn::parse_checkpoint(shipped->bytes, name) : nn::load_checkpoint(o.pretrained));
  if (cost::is_simulated(stored.card) && !is_simulated(request.target))
    return make_error(ErrorClass::kInput,
                      fmt::format("{}: expected a checkpoint that learned times of devices for {}, found one of a "
                                  "simulated GPU: '{}'",
                                  name, sanitize(request.target.name), sanitize(stored.card.platform)),
                      "train one on measured programs, search with --simulate, or leave --pretrained out");
  const std::string here[] = {target::platform_text(request.target), machine};
  return cost::platform_note(stored.card, std::span(here).first(machine.empty() ? 1 : 2), name);
}

// The measurer of the request's fleet; nullptr: the request names none, or none is reached and this machine measures.
Result<std::unique_ptr<measure::Measurer>> fleet_measurer(record::Store& store, const TuneRequest& request,
                                                          OpenLocal open_local) {
  if (!request.fleet) return nullptr;
  const search::TuneOptions& o = request.options;
  TCC_TRY(const std::string run, fleet_run(store, request.target, o.threads, o.seed, o.resume));
  auto opened = open_fleet(*request.fleet, request.target, o.threads, run, request.stop, std::move(open_local));
  if (opened || !request.fleet->or_local || opened.error().cls != ErrorClass::kEnvironment) return opened;
  if (request.fleet->note) request.fleet->note(opened.error().message + "; this machine measures instead");
  return nullptr;
}

// A run that came to its end is not gone on with.
Result<void> close_fleet(record::Store& store, const TuneRequest& request, const TuneReport& report) {
  if (!request.fleet || report.stopped) return {};
  return end_fleet_run(store, request.target, request.options.threads, request.options.seed);
}

// The same search on a simulated GPU.
Result<TuneReport> simulate(const Program& program, record::Store& store, TuneRequest request) {
  request.options.threads = 1;
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  measure::SimulatedMeasurer local(request.target, &pool);
  TCC_TRY(const std::unique_ptr<measure::Measurer> fleet,
          fleet_measurer(store, request, [&]() -> Result<measure::Measurer*> { return &local; }));
  measure::Measurer& measurer = fleet ? *fleet : local;
  TCC_TRY(TuneReport report, search_tasks(program, store, request, {.measurer = &measurer, .pool = &pool}, nullptr));
  TCC_TRY_VOID(close_fleet(store, request, report));
  report.notes = local.notes();
  if (fleet)
    for (std::string& text : fleet->notes()) report.notes.push_back(std::move(text));
  TCC_TRY(std::string note, checkpoint_note(request, ""));
  if (!note.empty()) report.notes.push_back(std::move(note));
  return report;
}

// Nothing but the first library.
Result<TuneReport> construct_only(const Program& program, record::Store& store, const TuneRequest& request) {
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  TCC_TRY(const FirstLibrary library, make_first_library(program, store, request, pool, true));
  if (request.first_library) request.first_library(library);
  TuneReport report;
  report.predicted = true;
  report.seconds = report.phases.library = library.seconds;
  report.best_seconds = library.unknown == 0 ? library.predicted_seconds : 0;
  const std::vector<task::Task> tasks = chosen_tasks(program, request);
  for (size_t i = 0; i < library.programs.size(); ++i) {
    const FirstProgram& p = library.programs[i];
    TunedTask task;
    task.result.key = p.key;
    task.result.workload = p.workload;
    task.result.weight = p.weight;
    task.result.best_seconds = p.seconds;
    task.result.counts.compiled = p.failure.empty() ? 1 : 0;
    task.flops = tasks[i].flops;
    task.source = p.source;
    task.result.failure = p.failure;
    report.counts.add(task.result.counts);
    report.tasks.push_back(std::move(task));
  }
  return report;
}

constexpr double kBuildSecondsPerTask = 0.1;  // where the programs were in the store, so that none was made now

// From here on a build has a program for every task. Its seconds count for the limit of time.
Result<LibraryTime> begin_with_library(const Program& program, record::Store& store, TuneRequest& request,
                                       ThreadPool& pool) {
  TCC_TRY(const FirstLibrary library, make_first_library(program, store, request, pool, false));
  if (request.first_library) request.first_library(library);
  double& limit = request.options.seconds;
  if (limit > 0) limit = std::max(limit - library.seconds, 0.1 * limit);
  const auto tasks = static_cast<double>(program.tasks.tasks.size());
  const double each = library.made > 0 ? library.seconds / static_cast<double>(library.made) : kBuildSecondsPerTask;
  return LibraryTime{library.seconds, each * tasks};
}

void count_library(TuneReport& report, double seconds) {
  report.phases.library += seconds;
  report.seconds += seconds;
}

}  // namespace

namespace {

// Do the weights of a run come from memory, because those of all kernels are more than a CPU's last cache keeps?
bool weights_leave_caches(const Program& program, const target::Target& target) {
  std::set<graph::ValueId> constants;
  for (const graph::FusionGroup& group : program.groups)
    constants.insert(group.constants.begin(), group.constants.end());
  double bytes = 0;
  for (const graph::ValueId id : constants) bytes += static_cast<double>(program.graph.value(id).bytes());
  return bytes > static_cast<double>(target::last_cache_bytes(target.cpu));
}

}  // namespace

Result<TuneReport> tune_program(const Program& program, record::Store& store, const TuneRequest& given) {
  if (is_simulated(given.target)) return simulate(program, store, given);
  TCC_TRY_VOID(checkpoint_note(given, ""));  // before anything is measured
  const backend::Backend& backend = backend::backend_of(given.target);
  TuneRequest request = given;
  if (!backend.by_threads) request.options.threads = 1;
  if (request.effort == Effort::kConstruct) return construct_only(program, store, request);
  if (request.effort == Effort::kFew) {  // one round of a task: there is too little to learn from
    if (!request.options.settings) request.options.settings = search::settings_for(request.target);
    request.options.settings->scheduling.rounds = request.options.settings->scheduling.min_rounds = 1;
  }
  const auto cores = target::host_target().cpu.threads - backend.measuring_cores;
  ThreadPool pool(static_cast<int>(std::max<int64_t>(cores, 1)));
  const auto open_machine = [&] {
    return backend.open(request.target, {.threads = request.options.threads,
                                         .cold_weights = weights_leave_caches(program, request.target),
                                         .device = request.device,
                                         .cuda_driver = request.cuda_driver,
                                         .cupti = request.cupti,
                                         .compile_pool = &pool});
  };
  Result<std::unique_ptr<backend::Machine>> machine = std::unique_ptr<backend::Machine>();
  TCC_TRY(const std::unique_ptr<measure::Measurer> fleet,
          fleet_measurer(store, request, [&]() -> Result<measure::Measurer*> {
            TCC_TRY(machine, open_machine());
            return (*machine)->measurer.get();
          }));
  if (!fleet) machine = open_machine();
  if (!machine) {
    if (!backend.predicts || backend.is_this_machine(request.target))
      return tl::make_unexpected(std::move(machine).error());
    TCC_TRY(const LibraryTime library, begin_with_library(program, store, request, pool));
    TCC_TRY(TuneReport report, predict(program, store, request, kMaxFinalists));
    count_library(report, library.seconds);
    TCC_TRY_VOID(record_phases(program, report.phases, report.seconds, store));
    report.notes.insert(report.notes.begin(), fmt::format("nothing is measured: {}", machine.error().message));
    if (!machine.error().hint.empty()) report.notes.front() += "; " + machine.error().hint;
    return report;
  }
  TCC_TRY(const LibraryTime library, begin_with_library(program, store, request, pool));
  if (request.afterwards && request.options.seconds > 0) {
    double& limit = request.options.seconds;
    limit = std::max(limit - request.afterwards(limit, library.build_seconds), 0.5 * limit);
  }
  std::string first;
  if (backend.predicts) {
    TCC_TRY(const int64_t tasks, predict_first(program, store, request));
    if (tasks > 0) first = fmt::format("the search began with the analytical model's best for {} tasks", tasks);
  }
  measure::Measurer& measurer = fleet ? *fleet : *(*machine)->measurer;
  std::optional<Baselines> baselines;
  if (request.baseline && backend.runs_unscheduled) baselines.emplace(measurer, store, request);
  search::Environment environment{.measurer = &measurer, .pool = &pool};
  TCC_TRY(TuneReport report,
          search_tasks(program, store, request, environment, baselines ? &*baselines : nullptr, library));
  count_library(report, library.seconds);
  TCC_TRY_VOID(record_phases(program, report.phases, report.seconds, store));
  TCC_TRY_VOID(close_fleet(store, request, report));
  report.notes = fleet ? fleet->notes() : (*machine)->notes();
  if (!first.empty()) report.notes.push_back(first);
  TCC_TRY(std::string note, checkpoint_note(request, *machine ? (*machine)->name : ""));
  if (!note.empty()) report.notes.push_back(std::move(note));
  return report;
}

}  // namespace tcc::driver
