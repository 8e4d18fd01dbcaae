#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/command.h"
#include "cli/gain_report.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/show_command.h"
#include "cli/text_table.h"
#include "cli/value_curve.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/gain.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/tune.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct Arguments : TaskArguments {
  Common common;
  int64_t trials = 0, trials_per_task = 0;  // 0 = no limit of the user's
  std::optional<std::string> time;
  std::string effort = "2";
  uint64_t seed = 1;
  std::string strategy = "evolutionary", task_scheduler = "gradient", cost_model;
  std::string pretrained, adapt;
  int64_t measure_top = 0;  // 0: kDefaultTop
  std::string reading = "recommended", rank = "model";
  bool no_vthreads = false;
  std::string draft = "tcc", draft_without;
  int64_t drafts = 0;               // 0: the paper's
  int64_t verify_generations = -1;  // as the target has it
  bool no_lse = false, no_statements = false, no_dataflow = false;
  bool fresh = false, baseline = false, strict_timing = false;
  int64_t simulate = 0;
  std::string space = std::string(space::kDefaultSpace);
  std::string tasks;  // "list", or which
  std::string cupti;
};

void declare_drafting(Options& options, Arguments& a) {
  const auto kinds = cost::draft_names();
  options
      .option(
          "--draft", a.draft,
          "Of pruner and moa-pruner: the draft model, as the paper prints it, as its released code has it, or tcc's")
      .words({kinds.begin(), kinds.end()})
      .show_default();
  options
      .option("--draft-without", a.draft_without,
              "Of pruner and moa-pruner: penalties that the draft model leaves out, separated by commas; pc and pm are "
              "all of arithmetic and all of memory")
      .value("LIST");
  options.option("--drafts", a.drafts, "Of pruner and moa-pruner: programs that a round drafts [512]")
      .positive()
      .value("N");
  options
      .option("--verify-generations", a.verify_generations,
              "Of pruner and moa-pruner: generations that the cost model breeds from the drafts; 0 as in the paper and "
              "for CPUs by default, 1 as in its released code and for GPUs by default")
      .range(0, 8)
      .value("N")
      .show_default();
  options.flag("--no-lse", a.no_lse, "Of pruner and moa-pruner: random programs instead of drafts");
  options.flag("--no-statements", a.no_statements, "Of pacm without a checkpoint: leave out the branch of statements");
  options.flag("--no-dataflow", a.no_dataflow, "Of pacm without a checkpoint: leave out the branch of data flow");
}

void declare(Options& options, Arguments& a) {
  options.section("Search");
  options.option("--trials", a.trials, "Programs to measure, over all tasks [64 a task, at most 10 minutes]")
      .positive()
      .value("N")
      .usual();
  options
      .option("--effort", a.effort,
              "0: each task gets a constructed program or the cost model's pick, and nothing is measured; 1: a few "
              "programs of a task are measured; 2: as many as --trials and --time say")
      .words(driver::effort_names())
      .show_default();
  options.option("--trials-per-task", a.trials_per_task, "Most programs to measure of one task").positive().value("N");
  options.option("--time", a.time, "Stop after this long: 90s, 10m, 1h30m").value("TIME").usual();
  options.option("--tasks", a.tasks, "Only these, as 0-3,7 or keys; `list` prints them").value("SPEC").usual();
  options.option("--seed", a.seed, "Of every random choice").show_default();
  options
      .option("--strategy", a.strategy,
              "How programs are proposed: evolutionary; mh (annealed Metropolis-Hastings); random (draws); replay (the "
              "best known of related tasks, then the design spaces in turn with fresh decisions); roller, gensor "
              "(constructed tiles, of which few are measured); pruner (the best by formulas, verified by the cost "
              "model); moa-pruner (the same with a checkpoint that adapts)")
      .words(search::strategy_names())
      .show_default();
  options.option("--measure-top", a.measure_top, "Of roller and gensor: constructed programs of a task to measure [10]")
      .positive()
      .value("K");
  options
      .option("--rank", a.rank,
              "Of roller and gensor: model (the cost model orders what they construct) or order (of discovery)")
      .one_of({"model", "order"})
      .show_default();
  options
      .option("--reading", a.reading,
              "Of gensor: literal (the paper's formulas as printed) or recommended (as its text means them)")
      .one_of({"literal", "recommended"})
      .show_default();
  options.flag("--no-vthreads", a.no_vthreads, "Of gensor: without virtual threads or independent accumulators");
  declare_drafting(options, a);
  options.option("--task-scheduler", a.task_scheduler, "Which task is next: gradient (the most to gain) or round-robin")
      .words(search::task_scheduler_names())
      .show_default();
  options
      .option("--cost-model", a.cost_model,
              "Which model ranks programs before they are measured [mlp on CPUs, trees on GPUs, pacm with "
              "pruner]")
      .words(search::cost_model_names());
  options
      .option("--pretrained", a.pretrained,
              "Checkpoint that the network of --cost-model begins with; auto: the one that ships for the target, where "
              "one does; none: it begins with none [auto; none with --strategy pruner]")
      .value("FILE");
  options
      .option("--adapt", a.adapt,
              "What becomes of the checkpoint as programs are measured [moa; finetune with --strategy pruner]")
      .words({cost::adaptation_names().begin(), cost::adaptation_names().end()});
  add_space(options, a.space);
  options.flag("--baseline", a.baseline, "Also time the loops as they are, without a schedule: what speed-ups are of");
  options
      .option(
          "--simulate", a.simulate,
          "Search on a simulated GPU of this seed instead of a device, to study searches; `build` uses nothing of it")
      .positive()
      .value("SEED");
  options.flag("--strict-timing", a.strict_timing,
               "Exit status 6 where other programs disturbed the best time of a task, and it could not be taken again");
  options.flag("--fresh", a.fresh, "Start a new search instead of going on with an interrupted one");
  add_target(options, a.target);
  add_cupti(options, a.cupti);
  add_threads(options, a.threads, "Threads that the measured programs run on [all]");
  add_model(options, a.model);
  add_records(options, a.records);
}

constexpr int64_t kDefaultTop = 10;  // of a construction
// For the estimate before anything is measured; of a build, of one task.
constexpr double kNominalSecondsPerTrial = 0.3, kNominalSecondsPerBuild = 0.1;

bool constructs(search::Strategy strategy) {
  return strategy == search::Strategy::kRoller || strategy == search::Strategy::kGensor;
}

// What the user says of a construction. Errors: another strategy has nothing to do with it.
Result<void> set_construction(const Arguments& a, search::TuneOptions& options) {
  options.construction.order = a.rank == "order" ? construct::Order::kDiscovery : construct::Order::kModel;
  options.construction.reading =
      a.reading == "literal" ? construct::Reading::kLiteral : construct::Reading::kRecommended;
  options.construction.vthreads = !a.no_vthreads;
  if (constructs(options.strategy)) return {};
  const Arguments otherwise;
  for (const auto& [given, name] :
       {std::pair(a.measure_top > 0, "--measure-top"), std::pair(a.rank != otherwise.rank, "--rank"),
        std::pair(a.reading != otherwise.reading, "--reading"), std::pair(a.no_vthreads, "--no-vthreads")})
    if (given)
      return make_error(ErrorClass::kUsage,
                        fmt::format("{} belongs to --strategy roller and gensor, not to '{}'", name, a.strategy),
                        fmt::format("leave {} out, or choose roller or gensor", name));
  return {};
}

// What the user says of drafts and of the model that verifies them. Errors: another strategy has nothing to do with it.
Result<void> set_drafting(const Arguments& a, const target::Target& target, search::TuneOptions& options) {
  const bool drafts = search::drafts(options.strategy), moa = options.strategy == search::Strategy::kMoaPruner;
  const std::pair<bool, const char*> given[] = {{a.draft != Arguments().draft, "--draft"},
                                                {!a.draft_without.empty(), "--draft-without"},
                                                {a.drafts > 0, "--drafts"},
                                                {a.verify_generations >= 0, "--verify-generations"},
                                                {a.no_lse, "--no-lse"}};
  for (const auto& [is_given, name] : given)
    if (is_given && !drafts)
      return make_error(ErrorClass::kUsage,
                        fmt::format("{} belongs to --strategy pruner and moa-pruner, not to '{}'", name, a.strategy),
                        fmt::format("leave {} out, or choose pruner or moa-pruner", name));
  for (const auto& [is_given, name] : std::span(given).first(3))
    if (is_given && a.no_lse)
      return make_error(ErrorClass::kUsage, fmt::format("{}: with --no-lse nothing is drafted", name),
                        fmt::format("leave {} or --no-lse out", name));
  TCC_TRY(options.drafting.model.kind, cost::find_draft(a.draft));
  TCC_TRY(options.drafting.model.without, cost::find_penalties(a.draft_without));
  if (a.drafts > 0) options.drafting.drafts = a.drafts;
  options.drafting.explore = !a.no_lse;
  options.drafting.verify_generations = a.verify_generations;
  options.statement_branch = !a.no_statements, options.dataflow_branch = !a.no_dataflow;
  const bool branches = !a.no_statements && !a.no_dataflow;
  options.cost_model = !a.cost_model.empty() ? a.cost_model
                       : drafts              ? "pacm"
                                             : std::string(backend::backend_of(target).search_model);
  const std::string begin = branches && (!drafts || moa) ? std::string(cost::kShipped) : "none";
  options.pretrained = a.pretrained.empty() ? begin : a.pretrained;
  if (options.pretrained == "none") options.pretrained.clear();
  TCC_TRY(options.adaptation, cost::find_adaptation(!a.adapt.empty() ? a.adapt : drafts && !moa ? "finetune" : "moa"));
  if (drafts && !moa && !options.pretrained.empty() && options.adaptation == cost::Adaptation::kMoa)
    return make_error(ErrorClass::kUsage, "--adapt moa: pruner with momentum adaptation is the strategy moa-pruner",
                      "choose --strategy moa-pruner, or another --adapt");
  return {};
}

// What an effort leaves nothing to say about. Errors: an option that was given has no effect.
Result<void> check_effort(const Arguments& a, driver::Effort effort) {
  if (effort == driver::Effort::kFull) return {};
  const Arguments otherwise;
  const bool nothing = effort == driver::Effort::kConstruct;
  const std::tuple<bool, const char*, bool> kGiven[] = {
      {a.trials > 0, "--trials", true},
      {a.trials_per_task > 0, "--trials-per-task", true},
      {a.measure_top > 0, "--measure-top", true},
      {a.time.has_value(), "--time", nothing},
      {a.strategy != otherwise.strategy, "--strategy", nothing},
      {!a.cost_model.empty(), "--cost-model", nothing},
      {a.pretrained != otherwise.pretrained, "--pretrained", nothing},
      {!a.adapt.empty(), "--adapt", nothing},
      {a.no_statements, "--no-statements", nothing},
      {a.no_dataflow, "--no-dataflow", nothing},
      {a.task_scheduler != otherwise.task_scheduler, "--task-scheduler", nothing},
      {!a.cupti.empty(), "--cupti", nothing},
      {a.baseline, "--baseline", nothing},
      {a.strict_timing, "--strict-timing", nothing},
      {a.fresh, "--fresh", nothing},
      {a.simulate > 0, "--simulate", nothing}};
  for (const auto& [given, name, excluded] : kGiven)
    if (given && excluded)
      return make_error(ErrorClass::kUsage,
                        fmt::format("{} does not go with --effort {}, which {}", name, a.effort,
                                    nothing ? "measures nothing" : "sets the number of trials"),
                        fmt::format("leave {} out, or use --effort {}", name, nothing ? "1 or 2" : "2"));
  return {};
}

// Without a limit of the user's: 64 programs a task, or the first ten of a construction, at most 10 minutes.
Result<search::TuneOptions> tune_options(const Arguments& a, const target::Target& target, int64_t tasks) {
  search::TuneOptions options;
  TCC_TRY(options.strategy, search::parse_strategy(a.strategy));
  TCC_TRY_VOID(set_construction(a, options));
  options.trials = a.trials;
  options.trials_per_task = a.trials_per_task;
  if (a.measure_top > 0 || (constructs(options.strategy) && a.trials_per_task == 0))
    options.trials_per_task = a.measure_top > 0 ? a.measure_top : kDefaultTop;
  TCC_TRY(const driver::Effort effort, driver::parse_effort(a.effort));
  if (a.trials == 0) driver::set_limits(options, effort, tasks);
  if (a.time) {
    TCC_TRY(options.seconds, parse_duration(*a.time));
  }
  options.seed = a.seed;
  options.threads = threads_or_all(a.threads);
  options.resume = !a.fresh;
  TCC_TRY(options.scheduler, search::parse_task_scheduler(a.task_scheduler));
  TCC_TRY_VOID(set_drafting(a, target, options));
  TCC_TRY_VOID(driver::set_space(a.space, target, options.space));
  return options;
}

void print_plan(const Arguments& a, const driver::Program& program, const driver::TuneRequest& request,
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

// The number that `tcc show` gives the i-th tuned task. `chosen`: the numbers of --tasks; empty: all tasks.
std::string number_of(size_t i, const std::vector<size_t>& chosen) {
  return std::to_string(chosen.empty() ? i : chosen[i]);
}

// The model's nodes of the i-th tuned task.
const task::GroupNodes& nodes_of_task(const driver::Program& program, size_t i, const std::vector<size_t>& chosen) {
  return program.tasks.tasks[chosen.empty() ? i : chosen[i]].nodes;
}
std::string nodes_of(const driver::Program& program, size_t i, const std::vector<size_t>& chosen) {
  return task::nodes_text(nodes_of_task(program, i, chosen));
}

// The wall time of each phase; "other" is the rest, as of the records' file.
std::vector<std::pair<std::string, double>> phases_of(const driver::TuneReport& report) {
  std::vector<std::pair<std::string, double>> phases;
  double rest = report.seconds;
#define TCC_X(phase) phases.emplace_back(#phase, report.phases.phase), rest -= report.phases.phase;
  TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
  phases.emplace_back("other", std::max(rest, 0.0));
  return phases;
}

std::string phases_text(const driver::TuneReport& report) {
  std::string text = "time:";
  for (const auto& [phase, seconds] : phases_of(report))
    if (seconds >= 0.05) text += fmt::format("{} {} {:.1f} s", text.back() == ':' ? "" : ",", phase, seconds);
  return text.back() == ':' ? "" : text + "\n";
}

// The report where nothing is measured: predictions only.
std::string prediction_text(const driver::TuneReport& report, const driver::Program& program,
                            const std::vector<size_t>& chosen, const std::string& target, bool sources) {
  std::vector<Column> columns = {{"task"},
                                 text_column("workload", 24),
                                 text_column("nodes", 14, 1),
                                 {"weight", 3},
                                 {"predicted"},
                                 {report.source_only ? "printed" : "compiled", 4}};
  if (sources) columns.push_back({"schedule", 2});
  TextTable table(std::move(columns));
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const search::TaskResult& t = report.tasks[i].result;
    std::vector<std::string> cells = {number_of(i, chosen),           t.workload,
                                      nodes_of(program, i, chosen),   std::to_string(t.weight),
                                      format_seconds(t.best_seconds), std::to_string(t.counts.compiled)};
    if (sources) cells.emplace_back(search::source_name(report.tasks[i].source));
    table.add(std::move(cells));
  }
  std::string text = table.text() + fmt::format("\n{} {} for {}, none run or checked", report.counts.compiled,
                                                report.source_only ? "printed" : "compiled", target);
  if (report.best_seconds > 0)
    text += fmt::format("; an analytical model expects the kernels to take {}", format_seconds(report.best_seconds));
  return text + "\n" + phases_text(report);
}

int64_t disturbed_tasks(const driver::TuneReport& report) {
  return std::count_if(report.tasks.begin(), report.tasks.end(),
                       [](const driver::TunedTask& t) { return t.result.best_disturbed; });
}

std::string task_table(const driver::TuneReport& report, const driver::Program& program,
                       const std::vector<size_t>& chosen, bool baseline) {
  std::vector<Column> columns = {
      {"task"}, text_column("workload", 24), text_column("nodes", 14, 1), {"weight", 4}, {"best"}, {"GFLOP/s", 2}};
  if (baseline) columns.insert(columns.end(), {{"unscheduled", 5}, {"speed-up", 3}});
  columns.push_back({"trials", 6});
  TextTable table(std::move(columns));
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const driver::TunedTask& t = report.tasks[i];
    std::vector<std::string> row = {number_of(i, chosen),
                                    t.result.workload,
                                    nodes_of(program, i, chosen),
                                    std::to_string(t.result.weight),
                                    format_time(t.result.best_seconds, t.result.best_disturbed),
                                    format_gflops(t.flops, t.result.best_seconds)};
    if (baseline)
      row.insert(row.end(),
                 {format_seconds(t.baseline_seconds), format_ratio(t.baseline_seconds, t.result.best_seconds)});
    row.push_back(std::to_string(t.result.trials));
    table.add(std::move(row));
  }
  return table.text() + disturbed_legend(disturbed_tasks(report) > 0);
}

// Proposals fall into four heaps: seen before, refused by the compiler, ranked too low to be worth a measurement,
// tried.
int64_t tried(const search::Counts& c) {
  return c.compiled + c.compile_failed;
}
int64_t not_chosen(const search::Counts& c) {
  return c.proposed - c.duplicate - c.rejected - tried(c);
}

// One line for everybody, the whole account for those who ask with -v.
std::string proposals_text(const search::Counts& c, bool whole) {
  std::string reasons;
  for (const auto& [reason, count] : c.rejected_by_reason)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "rejected: " : ", ", count, reason);
  if (!whole) {
    std::string text = fmt::format("{} of {} candidates measured", c.measured, c.proposed);
    for (const auto& [count, what] : {std::pair(c.compile_failed, "did not compile"), std::pair(c.wrong, "were wrong"),
                                      std::pair(c.crashed, "crashed"), std::pair(c.hung + c.timed_out, "timed out")})
      if (count > 0) text += fmt::format("; {} {}", count, what);
    return text + (reasons.empty() ? "" : "; " + reasons) + "\n";
  }
  std::string text = fmt::format("proposed {} = duplicate {} + rejected {} + ranked too low {} + tried {}\n",
                                 c.proposed, c.duplicate, c.rejected, not_chosen(c), tried(c));
  text +=
      fmt::format("tried {} = measured {} + failed to compile {} + wrong {} + crashed {} + hung {} + timed out {}\n",
                  tried(c), c.measured, c.compile_failed, c.wrong, c.crashed, c.hung, c.timed_out);
  return reasons.empty() ? text : text + reasons + "\n";
}

// How drafts came about, before programs were proposed.
std::string drafts_text(const search::Counts& c) {
  if (c.drafted == 0) return "";
  std::string text = fmt::format(
      "drafted {} = duplicate {} + rejected {} + legal and new {}; {} drafts kept, {} programs verified by the cost "
      "model\n",
      c.drafted, c.draft_duplicate, c.draft_rejected, c.draft_legal, c.draft_kept, c.verified);
  if (c.draft_by_kernel > 0) text += fmt::format("{} of them were drafted by their kernels\n", c.draft_by_kernel);
  for (const auto& [why, n] : c.without_columns)
    text += fmt::format("{} without an array program: {}\n", plural(n, "design space"), why);
  return text;
}

Json proposals_json(const search::Counts& c) {
  Json json = TCC_JSON(c, proposed, duplicate, rejected, rejected_by_reason);
  json.update({{"not_chosen", not_chosen(c)}, {"tried", tried(c)}});
  json.update(TCC_JSON(c, compiled, measured, disturbed, compile_failed, wrong, crashed, hung, timed_out));
  if (c.drafted > 0)
    json.update(TCC_JSON(c, drafted, draft_duplicate, draft_rejected, draft_legal, draft_kept, draft_by_kernel,
                         without_columns, verified));
  return json;
}

Json report_json(const driver::TuneReport& report, const driver::Program& program, const std::vector<size_t>& chosen,
                 bool baseline) {
  Json json = {{"event", "summary"}};
  json.update(TCC_JSON(report, trials, seconds, stopped, resumed, load, others));
  json["disturbed"] = report.counts.disturbed;
  json["phases"] = Json::object();
  for (const auto& [phase, seconds] : phases_of(report)) json["phases"][phase] = seconds;
  if (baseline) json["unscheduled_seconds"] = report.baseline_seconds;
  json.update(
      {{"best_seconds", report.best_seconds}, {"counts", proposals_json(report.counts)}, {"tasks", Json::array()}});
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const driver::TunedTask& t = report.tasks[i];
    Json task = TCC_JSON(t.result, key, workload);
    task["nodes"] = task::nodes_to_json<Json>(nodes_of_task(program, i, chosen));
    task["weight"] = t.result.weight;
    task["flops"] = t.flops;
    task["best_seconds"] = t.result.best_seconds;
    task["best_disturbed"] = t.result.best_disturbed;
    if (baseline) task["unscheduled_seconds"] = t.baseline_seconds;
    task.update(TCC_JSON(t.result, trials, failure));
    task["counts"] = proposals_json(t.result.counts);
    json["tasks"].push_back(task);
  }
  return json;
}

std::vector<int64_t> weights_of(const driver::Program& program, const std::vector<size_t>& tasks) {
  std::vector<int64_t> weights;
  for (size_t i = 0; i < program.tasks.tasks.size(); ++i)
    if (tasks.empty() || std::count(tasks.begin(), tasks.end(), i) > 0)
      weights.push_back(program.tasks.tasks[i].weight);
  return weights;
}

// Where libraries of the target run here, and the whole model was searched.
bool measures_gain(const Arguments& a, const target::Target& target, driver::Effort effort) {
  return effort != driver::Effort::kConstruct && a.simulate == 0 && backend::backend_of(target).runs_on_host(target);
}

// `elapsed`: seconds that the command has taken. A failure is a warning: what was found is in the store.
std::optional<driver::Gain> find_gain(const Arguments& a, const driver::Model& model,
                                      const driver::TuneRequest& request, double elapsed) {
  const auto measure = [&]() -> Result<driver::Gain> {
    TCC_TRY(const Records records, open_records(a.records));
    return driver::measure_gain(model,
                                {request.target, records.all, request.options.threads, driver::gain_timing(elapsed)});
  };
  remark(a.common.quiet, "building the model without and with what was found, to measure its latency");
  Result<driver::Gain> gain = measure();
  if (gain) return std::move(*gain);
  print_warning(fmt::format("the latency of the model was not measured: {}", gain.error().message));
  return std::nullopt;
}

// A kernel that is faster than the machine's peak says that the peak was measured while the machine was busy.
void check_peak(const Arguments& a, const driver::TuneReport& report, const driver::TuneRequest& request) {
  if (!request.device || a.model.precision != "f32") return;
  const auto cores = static_cast<double>(std::max<int64_t>(request.device->cpu.cores, 1));
  const double share = std::min(static_cast<double>(request.options.threads), cores) / cores;
  double rate = 0;
  for (const driver::TunedTask& t : report.tasks)
    if (t.result.best_seconds > 0) rate = std::max(rate, t.flops / t.result.best_seconds / share);
  if (rate > request.device->peak.fp32) remeasure_device(rate, a.common.quiet);
}

void print_report(const Arguments& a, const driver::TuneReport& report, const ValueCurve& curve,
                  const driver::TuneRequest& request, const driver::Program& program,
                  const std::optional<driver::Gain>& gain) {
  const target::Target& target = request.target;
  const std::vector<size_t>& chosen = request.tasks;
  if (a.common.json) {
    Json json = report_json(report, program, chosen, a.baseline);
    json["predicted"] = report.predicted;
    json["calibrated"] = target.cuda.calibrated;
    if (gain) json["latency"] = gain_json(*gain);
    json["curve"] = Json::array();
    for (const ValueCurve::Point& p : curve.points())
      json["curve"].push_back({{"trials", p.trials}, {"elapsed_seconds", p.elapsed}, {"best_seconds", p.seconds}});
    print_json_line(json);
    return;
  }
  if (report.predicted)
    return void(
        print(prediction_text(report, program, chosen, target.name, a.effort == "0") + drafts_text(report.counts)));
  const bool baseline = a.baseline && a.common.verbose > 0;
  std::string text = task_table(report, program, chosen, baseline) + "\n" +
                     proposals_text(report.counts, a.common.verbose > 0) + drafts_text(report.counts);
  text += fmt::format("{} in {}", plural(report.trials, "trial"), format_elapsed(report.seconds));
  if (report.best_seconds > 0)
    text += fmt::format("; the kernels, each timed alone, take {}", format_seconds(report.best_seconds));
  if (baseline && report.best_seconds > 0 && report.baseline_seconds > 0)
    text += fmt::format(", unscheduled {}: {}", format_seconds(report.baseline_seconds),
                        format_ratio(report.baseline_seconds, report.best_seconds));
  text += "\n" + phases_text(report) + curve.text();
  print(gain ? text + gain_text(*gain, program, request.options.threads) : text);
}

// One line, or one event: from now on `build` has a program for every task.
void show_library(const Arguments& a, const driver::FirstLibrary& library) {
  std::map<std::string_view, int64_t> sources;
  Json tasks = Json::array();
  int64_t failed = 0;
  for (const driver::FirstProgram& p : library.programs) {
    if (p.failure.empty())
      ++sources[search::source_name(p.source)];
    else
      ++failed;
    Json task = TCC_JSON(p, key, workload, weight);
    task["schedule"] = search::source_name(p.source);
    task.update({{"seconds", p.seconds}, {"reason", p.reason}, {"failure", p.failure}});
    tasks.push_back(std::move(task));
  }
  if (a.common.json)
    print_json_line({{"event", "library"},
                     {"elapsed_seconds", library.seconds},
                     {"made", library.made},
                     {"predicted_seconds", library.predicted_seconds},
                     {"unknown", library.unknown},
                     {"tasks", std::move(tasks)}});
  std::string text;
  for (const auto& [source, count] : sources) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, source);
  const auto all = static_cast<int64_t>(library.programs.size());
  text = fmt::format("library: a program for {} of {} after {:.1f} s: {}", all - failed, plural(all, "task"),
                     library.seconds, text);
  if (library.predicted_seconds > 0)
    text += fmt::format("; predicted {}{}", format_seconds(library.predicted_seconds),
                        library.unknown > 0 ? fmt::format(" without {} of them", library.unknown) : "");
  remark(a.common.quiet, text);
}

// What other programs did to the times.
void print_disturbance(const Arguments& a, const driver::TuneReport& report) {
  const int64_t tasks = disturbed_tasks(report);
  if (report.counts.disturbed == 0 && tasks == 0) return;
  const std::string load = report.load > 0 ? fmt::format(" (load {:.1f} on {})", report.load,
                                                         plural(target::host_target().cpu.threads, "CPU"))
                                           : "";
  std::string text = fmt::format("{} of {} were disturbed by other programs{}", report.counts.disturbed,
                                 plural(report.counts.measured, "timing"), load);
  if (tasks == 0)
    return remark(a.common.quiet, "note: " + text + "; the best time of each task was not, or was taken again");
  print_warning(
      fmt::format("{}; the times of {} may be several times too long. Run the same command again on a quiet "
                  "machine: it takes them anew",
                  text, plural(tasks, "task")));
}

void print_remarks(const Arguments& a, const driver::TuneReport& report) {
  print_disturbance(a, report);
  for (const std::string& note : report.notes) remark(a.common.quiet, "note: " + note);
  for (const driver::TunedTask& t : report.tasks) {
    if (!t.result.failure.empty())
      print_warning(fmt::format("{}: {}", t.result.workload, t.result.failure));
    else if (!t.baseline_failure.empty() && t.result.counts.measured > 0)
      print_warning(fmt::format("{}: the unscheduled program has no time: {}", t.result.workload, t.baseline_failure));
  }
  const auto missed = std::count_if(report.tasks.begin(), report.tasks.end(), [](const driver::TunedTask& t) {
    return t.result.trials == 0 && t.result.best_seconds == 0 && t.result.failure.empty();
  });
  if (missed > 0 && !report.stopped && a.effort != "0")
    print_warning(fmt::format("{} of {} were not reached; give more --trials or --time", missed,
                              plural(static_cast<int64_t>(report.tasks.size()), "task")));
  if (report.stopped)
    remark(a.common.quiet, "stopped early; what was found is saved, and the same call goes on from here");
}

Result<int> tune(const Arguments& a) {
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
  if (effort != driver::Effort::kConstruct)
    TCC_TRY_VOID(driver::check_tunable(target));  // before this machine is probed and a store is made
  TCC_TRY(std::string db, store_path(a.records.db));
  TCC_TRY(driver::Model model, open_model(a.model));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  driver::TuneRequest request;
  request.target = target;
  if (!a.tasks.empty()) {
    TCC_TRY(request.tasks, driver::parse_tasks(program, a.tasks));
  }
  const size_t chosen = request.tasks.empty() ? program.tasks.tasks.size() : request.tasks.size();
  TCC_TRY(request.options, tune_options(a, target, static_cast<int64_t>(chosen)));
  TCC_TRY(const Records others, open_other_records(a.records));
  request.others = others.all;
  TCC_TRY(auto store, record::Store::open(db));
  request.effort = effort;
  request.first_library = [&a](const driver::FirstLibrary& library) { show_library(a, library); };
  if (measures_gain(a, target, effort))
    request.afterwards = [](double command, double build) {
      return driver::gain_seconds(driver::gain_timing(command), build);
    };
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
  curve.end(report->best_seconds, report->seconds);
  std::optional<driver::Gain> gain;
  if (request.afterwards && !report->predicted && !report->stopped && report->counts.measured > 0)
    gain = find_gain(a, model, request, report->seconds);
  print_report(a, *report, curve, request, program, gain);
  check_peak(a, *report, request);
  print_remarks(a, *report);
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
                      declare, tune);
}

}  // namespace tcc::cli
