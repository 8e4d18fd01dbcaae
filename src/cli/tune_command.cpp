#include <algorithm>

#include "cli/command.h"
#include "cli/form_report.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/show_command.h"
#include "cli/tune_report.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

// For the estimate before anything is measured; of a build, of one task.
constexpr double kNominalSecondsPerTrial = 0.3, kNominalSecondsPerBuild = 0.1;

void print_plan(const TuneArguments& a, const driver::Program& program, const driver::TuneRequest& request,
                const std::string& db) {
  const search::TuneOptions& options = request.options;
  std::string tasks = plural(static_cast<int64_t>(program.tasks.tasks.size()), "task");
  if (!request.tasks.empty()) tasks = fmt::format("{}, {} of them to tune", tasks, request.tasks.size());
  double estimate = kNominalSecondsPerTrial * static_cast<double>(options.trials) / (1 - options.finals_share);
  if (request.afterwards)
    estimate += request.afterwards(estimate, kNominalSecondsPerBuild * static_cast<double>(program.tasks.tasks.size()));
  std::string limit = "no time limit";
  if (options.seconds > 0) {
    estimate = std::min(estimate, options.seconds);
    limit = fmt::format("at most {}", format_elapsed(options.seconds));
  }
  remark(a.common.quiet,
         fmt::format(
             "{}: {} in {}, {:.3g} GFLOP a run\n"
             "plan: {} in total, {}, on {}; about {}\n"
             "records: {}",
             sanitize(a.model.model), plural(static_cast<int64_t>(program.groups.size()), "kernel"), tasks,
             program.flops / 1e9, plural(options.trials, "trial"), limit,
             backend::backend_of(request.target).by_threads ? plural(options.threads, "thread") : request.target.name,
             format_elapsed(estimate), db));
}

std::vector<int64_t> weights_of(const driver::Program& program, const std::vector<size_t>& tasks) {
  std::vector<int64_t> weights;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    if (tasks.empty() || std::count(tasks.begin(), tasks.end(), i) > 0)
      weights.push_back(program.tasks.tasks[i].weight);
  return weights;
}

// Where libraries of the target run here, on the CPU or on a GPU that may be here.
bool finds_gain(const TuneArguments& a, const target::Target& target, driver::Effort effort) {
  const backend::Backend& backend = backend::backend_of(target);
  return effort != driver::Effort::kConstruct && a.simulate == 0 && (backend.runs_on_host(target) || backend.predicts);
}

// Where the model can be built and timed inside of runs: on the CPU of this machine, which measured the programs.
bool chooses_in_model(const driver::TuneRequest& request) {
  const backend::Backend& backend = backend::backend_of(request.target);
  return backend.by_threads && backend.runs_on_host(request.target) && !request.fleet;
}

// A failure is a warning: what was found alone is in the store.
std::optional<driver::InModel> find_in_model(const TuneArguments& a, const driver::Model& model,
                                             const driver::TuneRequest& request, record::Store& store,
                                             driver::TuneReport& report) {
  remark(a.common.quiet,
         "building the model with the fastest few programs of each task, to choose among its neighbors");
  const auto choose = [&]() -> Result<std::optional<driver::InModel>> {
    TCC_TRY(const Records records, open_records(a.records));
    driver::InModelOptions options{request.target, &store, records.all, request.options.threads};
    options.seconds = driver::in_model_seconds(report.seconds);
    options.stop = request.stop;
    return driver::choose_in_model(model, options, report);
  };
  Result<std::optional<driver::InModel>> chosen = choose();
  if (chosen) return std::move(*chosen);
  print_warning(fmt::format("programs were not compared inside of the model: {}", chosen.error().message));
  return std::nullopt;
}

// Measured, or predicted where the search was. A failure is a warning: what was found is in the store.
std::optional<driver::Gain> find_gain(const TuneArguments& a, const driver::Model& model,
                                      const driver::Program& program, const driver::TuneRequest& request,
                                      const driver::TuneReport& report, const driver::FirstLibrary& first) {
  const auto find = [&]() -> Result<std::optional<driver::Gain>> {
    if (report.predicted) return driver::predict_gain(program, request, report, first);
    remark(a.common.quiet, "building the model without and with what was found, to measure its latency");
    TCC_TRY(const Records records, open_records(a.records));
    const bool usual = a.space == space::kDefaultSpace;  // as of a build without tuning
    return driver::measure_gain(
        model, {request.target, records.all, request.options.threads, driver::gain_timing(report.seconds),
                request.cuda_driver, usual ? &first : nullptr});
  };
  Result<std::optional<driver::Gain>> gain = find();
  if (gain) return std::move(*gain);
  print_warning(fmt::format("the latency of the model was not measured: {}", gain.error().message));
  return std::nullopt;
}

// A kernel that is faster than the machine's peak says that the peak was measured while the machine was busy.
void check_peak(const TuneArguments& a, const driver::TuneReport& report, const driver::TuneRequest& request) {
  if (!request.device || a.model.precision != "f32") return;
  const auto cores = static_cast<double>(std::max<int64_t>(request.device->cpu.cores, 1));
  const double share = std::min(static_cast<double>(request.options.threads), cores) / cores;
  double rate = 0;
  for (const driver::TunedTask& t : report.tasks)
    if (t.result.best_seconds > 0) rate = std::max(rate, t.flops / t.result.best_seconds / share);
  if (rate > request.device->peak.fp32) remeasure_device(rate, a.common.quiet);
}

Result<int> tune(const TuneArguments& a) {
  if (a.tasks == "list") return show_tasks(a.common, a);
  TCC_TRY(const driver::Effort effort, driver::parse_effort(a.effort));
  TCC_TRY_VOID(check_effort(a, effort));
  TCC_TRY(target::Target target, open_target(a.target));
  if (a.simulate > 0) {
    TCC_TRY(target, driver::simulated_target(target, a.simulate));
  }
  if (a.baseline && !backend::backend_of(target).runs_unscheduled)
    return make_error(
        ErrorClass::kUsage,
        fmt::format("--baseline: expected a CPU as target, found '{}', where unscheduled loops do not run",
                    sanitize(target.name)),
        "leave --baseline out");
  if (a.baseline && !a.fleet.url.empty())
    return make_error(ErrorClass::kUsage, "--baseline: expected this machine to measure, found --fleet",
                      "leave --baseline or --fleet out");
  TCC_TRY(std::optional<driver::FleetRequest> fleet, fleet_request(a.fleet, a.common.quiet));
  if (effort != driver::Effort::kConstruct)
    TCC_TRY_VOID(driver::check_tunable(target));  // before this machine is probed and a store is made
  TCC_TRY(std::string db, store_path(a.records.db));
  TCC_TRY(driver::Model model, open_model(a.model));
  // In the forms of a build without records: it is what is made first, and measured first.
  TCC_TRY(driver::Program program, driver::make_program(model, target, {.estimated = true}));
  driver::TuneRequest request;
  request.target = target;
  request.fleet = std::move(fleet);
  if (!a.tasks.empty()) {
    TCC_TRY(request.tasks, driver::parse_tasks(program, a.tasks));
  }
  const size_t chosen = request.tasks.empty() ? program.tasks.tasks.size() : request.tasks.size();
  TCC_TRY(request.options, tune_options(a, target, static_cast<int64_t>(chosen)));
  TCC_TRY(const Records others, open_other_records(a.records));
  request.others = others.all;
  TCC_TRY(auto store, record::Store::open(db));
  request.effort = effort;
  driver::FirstLibrary first;
  request.first_library = [&](const driver::FirstLibrary& library) {
    first = library;
    print_library(a, library);
  };
  if (finds_gain(a, target, effort))
    request.afterwards = [&](double command, double build) {
      return driver::gain_seconds(driver::gain_timing(command), build, first.predicted_seconds) +
             (chooses_in_model(request) ? driver::in_model_seconds(command) : 0);
    };
  print_refused_forms(program.refused_forms, a.model.winograd != "auto");
  if (effort != driver::Effort::kConstruct) print_plan(a, program, request, db);
  if (effort != driver::Effort::kConstruct && backend::backend_of(target).runs_on_host(target))
    request.device = measured_device(a.common.quiet);
  request.cuda_driver = a.target.cuda_driver;
  request.cupti = a.cupti;
  request.baseline = a.baseline;
  if (const std::string folder = cache_folder(); !folder.empty()) request.measuring_folder = folder + "/measuring";

  InterruptGuard interrupts;
  request.stop = &InterruptGuard::requested;
  Result<driver::TuneReport> report;
  ValueCurve curve(weights_of(program, request.tasks));
  {
    ProgressView view(a.common, request.options.seconds, curve);
    request.progress = [&view](const search::Progress& progress) { view.show(progress); };
    report = driver::tune_program(program, *store, request);
  }
  if (!report) return tl::make_unexpected(std::move(report).error());
  std::optional<driver::InModel> in_model;
  std::optional<driver::Gain> gain;
  const bool found = request.afterwards && !report->stopped && (report->predicted || report->counts.measured > 0);
  if (found && chooses_in_model(request)) in_model = find_in_model(a, model, request, *store, *report);
  // The last point is the summary's time: the choice in the model may have taken another program.
  curve.end(report->best_seconds, report->seconds + (in_model ? in_model->seconds : 0));
  if (found && !InterruptGuard::requested()) gain = find_gain(a, model, program, request, *report, first);
  print_tune_report(a, *report, curve, request, program, in_model, gain);
  check_peak(a, *report, request);
  print_tune_remarks(a, *report);
  if (report->stopped) return kStopped;
  bool any_valid = report->tasks.empty();
  for (const driver::TunedTask& t : report->tasks)
    any_valid =
        any_valid || t.result.best_seconds > 0 || (effort == driver::Effort::kConstruct && t.result.failure.empty());
  const bool any_failed = std::any_of(report->tasks.begin(), report->tasks.end(),
                                      [](const driver::TunedTask& t) { return !t.result.failure.empty(); });
  if (any_valid && any_failed) return kPartly;
  if (any_valid) return a.strict_timing && disturbed_tasks(*report) > 0 ? kDisturbed : kOk;
  return make_error(ErrorClass::kEnvironment, "no valid program was found for any task",
                    "the counts above say what became of the candidates; more --trials may help");
}

}  // namespace

Command tune_command() {
  return make_command("tune", "Search fast schedules for every task of a model, by measuring",
                      "  tcc tune zoo:resnet18 --trials 200\n"
                      "  tcc tune net.onnx --time 30m --threads 1 --db records.db\n"
                      "  tcc tune net.onnx --tasks 0-3,7 --trials-per-task 200\n"
                      "  tcc tune net.onnx --db mine.db --also team.db\n"
                      "  tcc tune net.onnx --target cuda --trials 2000\n"
                      "Ctrl-C saves and prints the best found so far; the same call goes on from there.",
                      declare_tune, tune);
}

}  // namespace tcc::cli
