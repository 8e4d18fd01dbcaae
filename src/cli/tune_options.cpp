#include "cli/tune_options.h"

#include <tuple>

#include "cli/lookup.h"
#include "cli/options.h"
#include "tcc/backend/backend.h"

namespace tcc::cli {
namespace {

void declare_drafting(Options& options, TuneArguments& a) {
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

constexpr int64_t kDefaultTop = 10;  // of a construction

bool constructs(search::Strategy strategy) {
  return strategy == search::Strategy::kRoller || strategy == search::Strategy::kGensor;
}

// What the user says of a construction. Errors: another strategy has nothing to do with it.
Result<void> set_construction(const TuneArguments& a, search::TuneOptions& options) {
  options.construction.order = a.rank == "order" ? construct::Order::kDiscovery : construct::Order::kModel;
  options.construction.reading =
      a.reading == "literal" ? construct::Reading::kLiteral : construct::Reading::kRecommended;
  options.construction.vthreads = !a.no_vthreads;
  if (constructs(options.strategy)) return {};
  const TuneArguments otherwise;
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
Result<void> set_drafting(const TuneArguments& a, const target::Target& target, search::TuneOptions& options) {
  const bool drafts = search::drafts(options.strategy), moa = options.strategy == search::Strategy::kMoaPruner;
  const std::pair<bool, const char*> given[] = {{a.draft != TuneArguments().draft, "--draft"},
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

}  // namespace

void declare_tune(Options& options, TuneArguments& a) {
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
      .option("--tasks-at-once", a.tasks_at_once,
              "Tasks whose rounds are planned and measured together, so that a fleet has work [1; 8 with --fleet]")
      .range(1, 64)
      .value("N");
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
  add_fleet(options, a.fleet, true);
  add_target(options, a.target);
  add_cupti(options, a.cupti);
  add_threads(options, a.threads, "Threads that the measured programs run on [all]");
  add_model(options, a.model);
  add_records(options, a.records);
}

Result<void> check_effort(const TuneArguments& a, driver::Effort effort) {
  if (effort == driver::Effort::kFull) return {};
  const TuneArguments otherwise;
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
      {a.tasks_at_once > 0, "--tasks-at-once", nothing},
      {!a.cupti.empty(), "--cupti", nothing},
      {a.baseline, "--baseline", nothing},
      {a.strict_timing, "--strict-timing", nothing},
      {a.fresh, "--fresh", nothing},
      {!a.fleet.url.empty(), "--fleet", nothing},
      {a.simulate > 0, "--simulate", nothing}};
  for (const auto& [given, name, excluded] : kGiven)
    if (given && excluded)
      return make_error(ErrorClass::kUsage,
                        fmt::format("{} does not go with --effort {}, which {}", name, a.effort,
                                    nothing ? "measures nothing" : "sets the number of trials"),
                        fmt::format("leave {} out, or use --effort {}", name, nothing ? "1 or 2" : "2"));
  return {};
}

Result<search::TuneOptions> tune_options(const TuneArguments& a, const target::Target& target, int64_t tasks) {
  search::TuneOptions options;
  TCC_TRY(options.strategy, search::parse_strategy(a.strategy));
  TCC_TRY_VOID(set_construction(a, options));
  options.trials = a.trials;
  options.trials_per_task = a.trials_per_task;
  options.tasks_at_once = a.tasks_at_once;
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
  if (options.strategy == search::Strategy::kEvolutionary || search::drafts(options.strategy))
    options.constructed = search::default_constructed(target, options.space);
  return options;
}

}  // namespace tcc::cli
