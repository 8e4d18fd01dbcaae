// The whole story of tuning:
//
//   load      tasks -> design spaces as sketches, former records, seeds     (task_state, anchor, prior)
//   until a limit is reached, with as many tasks as TuneOptions::tasks_at_once says:
//     task      which tasks get the round                                   (scheduler)
//     prepare   inputs and references of tasks, ahead of need               (preparation)
//     learn     the cost model is trained on the records                    (learn)
//     propose   thousands of programs, drawn, mutated, drafted or           (strategy: evolutionary, metropolis, draws,
//               constructed from formulas, and scored by the model           pruner, construction)
//     pick      the few that are measured                                   (pick)
//     measure   lower, compile, run, check, time; store the records         (trial, measure)
//   finals    the fastest few that are close are timed again,               (best)
//             in turns, then in pairs
//   report    what became of the proposals                                  (report)
//
// Without a device the same rounds run on a ModelMeasurer: the backend's prior ranks instead of a learned model, the
// picks are compiled, and their records are predictions. There are no finals, and later runs learn nothing from them.
// search/choose decides which of the records is built; before that driver/in_model compares the fastest programs of
// tasks on a CPU once more, inside of the model.
//
// A round depends only on what the store holds when it begins: an interrupted run continues with the same proposals.
#include "tcc/search/search.h"

#include <algorithm>

#include "search/anchor.h"
#include "search/best.h"
#include "search/learn.h"
#include "search/pace.h"
#include "search/preparation.h"
#include "search/prior.h"
#include "search/report.h"
#include "search/scheduler.h"
#include "search/session.h"
#include "search/strategy.h"
#include "search/trial.h"
#include "tcc/backend/backend.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::search {
namespace {

TuneOptions with_tasks_at_once(TuneOptions options, const Environment& env) {
  if (options.tasks_at_once <= 0) options.tasks_at_once = env.measurer->traits().tasks_at_once;
  return options;
}

class Tuner {
 public:
  Tuner(const target::Target& target, const TuneOptions& options, const Environment& env,
        std::unique_ptr<cost::CostModel> model)
      : target_(target),
        options_(with_tasks_at_once(options, env)),
        settings_(options.settings.value_or(settings_for(target))),
        env_(env),
        kind_(env.measurer->traits().kind),
        strategy_(make_strategy(options.strategy)),
        model_(std::move(model)),
        preparation_(*env.measurer, target, env.pool),
        pace_(options_, measures()) {}

  Result<TuneResult> run(std::span<const task::Task> tasks) {
    TCC_TRY_VOID(load(tasks));
    seconds_.load = pace_.seconds();
    report_progress(Progress::Kind::kStarted, -1);
    while (!finished()) {
      TCC_TRY(const bool any, run_rounds());
      if (!any) break;
    }
    if (!stopped_) TCC_TRY_VOID(finish());
    for (int64_t i = 0; i < std::ssize(states_); ++i) report_progress(Progress::Kind::kTaskFinished, i);
    report_progress(Progress::Kind::kFinished, -1);
    return summarise(states_, session_, seconds_, pace_.seconds(), stopped_);
  }

 private:
  bool measures() const { return kind_ != record::Kind::kPredicted; }

  Result<void> load(std::span<const task::Task> tasks) {
    TCC_TRY(session_, open_session(tasks, target_, options_, kind_, model_->checkpoint(), *env_.store));
    TCC_TRY(states_,
            load_tasks(tasks, target_, options_, model_->needs(), *env_.store, session_.last_record, kind_, env_.pool));
    TCC_TRY_VOID(restore_session(session_, states_, *env_.store));
    resumed_trials_ = session_.trials;
    TCC_TRY_VOID(seed_from_relatives(states_, target_, options_, env_, session_.resumed));
    TCC_TRY(prior_, load_prior(tasks, target_, options_, model_->schema(), session_, *env_.store));
    if (!session_.resumed) session_.last_record = std::max<int64_t>(last_record(states_), 0);
    TCC_TRY_VOID(save_session(session_, states_, *env_.store));
    for (const std::string& text : session_notes(session_)) note(text);
    for (const std::string& text : prior_.notes) note(text);
    return {};
  }

  // One round of each of the next tasks. They are all planned from what was known before, and measured together. False:
  // no task is left.
  Result<bool> run_rounds() {
    std::vector<TaskRound> rounds;
    TCC_TRY(const bool any, plan_rounds(rounds));
    if (rounds.empty()) return any;
    TCC_TRY(const TrialOutcome outcome,
            run_trials(rounds, *model_, target_, options_, env_, [this] { return out_of_time(); }));
    for (const TaskRound& round : rounds) round.state->planned = -1;
    seconds_.add(outcome.seconds);
    if (stopped_ = stopped_ || outcome.stopped; stopped_) return true;  // the row still says how these rounds began
    for (const TaskRound& round : rounds) {
      close_round(session_, *round.state, settings_, round.trials, round.last_record);
      if (round.improved && measures()) TCC_TRY_VOID(save_best(*round.state, target_, options_, *env_.store));
    }
    TCC_TRY_VOID(save_session(session_, states_, *env_.store));
    for (const TaskRound& round : rounds) {
      const auto at = round.state - states_.data();
      if (measures())
        report_progress(Progress::Kind::kRound, at, round.improved);
      else if (env_.progress)
        env_.progress(make_ranking_note(states_, at, session_, options_, pace_.seconds()));
    }
    return true;
  }

  // False: no task is left. A task that cannot be prepared leaves its place to another.
  Result<bool> plan_rounds(std::vector<TaskRound>& rounds) {
    const auto most = static_cast<size_t>(std::max<int64_t>(options_.tasks_at_once, 1));
    while (rounds.size() < most && !(options_.trials > 0 && planned_trials() >= options_.trials)) {
      const int64_t at = next_task(states_, options_, settings_, session_.round + std::ssize(rounds));
      if (at < 0) return !rounds.empty();
      TaskState& state = states_[static_cast<size_t>(at)];
      if (!state.prepared)
        if (Result<void> ready = prepare(static_cast<size_t>(at)); !ready) {
          TCC_TRY_VOID(give_up(state, ready.error()));
          if (rounds.empty() && finished()) return true;
          continue;
        }
      const RoundPlan plan = plan_round(static_cast<size_t>(at));
      state.planned = plan.count;
      rounds.push_back(
          {.state = &state, .picks = learn_and_propose(static_cast<size_t>(at), plan), .count = plan.count});
    }
    return true;
  }
  // Of the session, and of the rounds that are planned.
  int64_t planned_trials() const {
    int64_t trials = session_.trials;
    for (const TaskState& s : states_) trials += std::max<int64_t>(s.planned, 0);
    return trials;
  }

  Result<void> prepare(size_t at) {
    TaskState& state = states_[at];
    Stopwatch watch;
    Result<std::shared_ptr<const measure::MeasureTask>> made = preparation_.take(at, preparing_order(at), states_);
    seconds_.prepare += watch.seconds(), watch.restart();
    TCC_TRY(state.measure_task, std::move(made));
    if (env_.before_first_round) {
      TCC_TRY_VOID(env_.before_first_round(*state.task, state.measure_task.get()));
      seconds_.baseline += watch.seconds();
    }
    state.prepared = true;
    // What an earlier run could not time undisturbed is timed anew. A resumed run has done so.
    if (measures() && state.best_disturbed && state.history.empty())
      TCC_TRY_VOID(remeasure_task(state, target_, options_, env_, [this] { return out_of_time(); }));
    return {};
  }

  // Task `at`, then those whose first rounds come next, then those that an interrupted run has begun.
  std::vector<size_t> preparing_order(size_t at) const {
    std::vector<size_t> order = {at};
    for (size_t i : unseen_tasks(states_, options_, settings_))
      if (i != at) order.push_back(i);
    for (size_t i = 0; i < states_.size(); ++i)
      if (i != at && !states_[i].history.empty() && !states_[i].prepared && states_[i].failure.empty())
        order.push_back(i);
    return order;
  }

  RoundPlan plan_round(size_t at) const {
    const TaskState& state = states_[at];
    return {trials_of_round(state, count_choices(states_), options_, settings_, planned_trials(),
                            model_->checkpoint() != 0 || knows_family(prior_, state.task->anchor),
                            rivals_of(states_, state)),
            progress_of(state, options_, session_.trials), related_seeds(states_, prior_, at)};
  }

  std::vector<Individual> learn_and_propose(size_t at, RoundPlan plan) {
    TaskState& state = states_[at];
    Stopwatch watch;
    if (strategy_->learns() && measures()) {
      learn(*model_, states_, prior_, at);
      if (!model_->trouble().empty()) note(fmt::format("{}: {}", state.task->workload, model_->trouble()));
    }
    seconds_.learn += watch.seconds(), watch.restart();
    if (plan.count > 0) plan.count += settings_.picking.spare;
    Rng rng = Rng(options_.seed).fork(state.hash).fork(state.history.size());
    std::vector<Individual> picks;
    if (!state.sketches.empty() && plan.count > 0) {
      const Round round = {state,
                           *model_,
                           plan,
                           target_,
                           options_,
                           settings_,
                           rng,
                           env_.pool,
                           [this] { return (env_.stop && env_.stop()) || out_of_time(); },
                           [this](const std::string& text) { note(text); }};
      for (Seed& seed : constructed_seeds(round, state.counts)) plan.seeds.push_back(std::move(seed));
      picks = strategy_->propose(round, state.counts);
    }
    seconds_.propose += watch.seconds();
    return picks;
  }

  Result<void> finish() {
    if (measures()) {
      Stopwatch watch;
      pace_.begin_finals();
      if (options_.finals)
        TCC_TRY_VOID(rerank_finalists(states_, target_, options_, env_, pace_.watch(),
                                      [this](int64_t done, int64_t total) { report_finals(done, total); }));
      seconds_.finals += watch.seconds();
      TCC_TRY_VOID(leave_prior(states_, target_, options_, model_->schema(), session_, *env_.store));
    }
    return env_.store->erase_session(session_.key);
  }

  // One task that cannot be measured does not end the others' tuning; when all fail the reason is the error.
  Result<void> give_up(TaskState& state, const Error& error) {
    state.failure = error.message;
    note(fmt::format("{}: cannot be tuned: {}", state.task->workload, error.message));
    if (std::any_of(states_.begin(), states_.end(), [](const TaskState& s) { return s.failure.empty(); })) return {};
    return tl::make_unexpected(error);
  }

  bool finished() {
    stopped_ = stopped_ || (env_.stop && env_.stop());
    return stopped_ || (options_.trials > 0 && session_.trials >= options_.trials) || out_of_time();
  }
  bool out_of_time() const { return pace_.out_of_time(); }

  void report_progress(Progress::Kind kind, int64_t at, bool improved = false) const {
    if (!env_.progress) return;
    Progress p = make_progress(kind, states_, at, session_, options_, pace_.seconds(), improved);
    const int64_t left = options_.trials > 0 ? std::max<int64_t>(options_.trials - session_.trials, 0) : -1;
    p.remaining_seconds =
        kind == Progress::Kind::kFinished ? 0 : pace_.remaining(seconds_.load, session_.trials - resumed_trials_, left);
    env_.progress(p);
  }
  void report_finals(int64_t done, int64_t total) const {
    if (!env_.progress) return;
    Progress p = make_progress(Progress::Kind::kFinals, states_, -1, session_, options_, pace_.seconds(), false);
    p.finals_done = done;
    p.finals_total = total;
    p.remaining_seconds = done == total ? 0 : pace_.remaining_finals();
    env_.progress(p);
  }
  void note(const std::string& text) const {
    if (env_.progress) env_.progress(make_note(text, states_, session_, options_, pace_.seconds()));
  }

  const target::Target& target_;
  const TuneOptions options_;
  const Settings settings_;
  const Environment& env_;
  const record::Kind kind_;  // of the records that the measurer makes: kPredicted where nothing runs
  std::unique_ptr<SearchStrategy> strategy_;
  std::unique_ptr<cost::CostModel> model_;
  std::vector<TaskState> states_;
  Prior prior_;
  Session session_;
  Preparation preparation_;
  PhaseSeconds seconds_;
  int64_t resumed_trials_ = 0;  // of the interrupted run that this one goes on with
  bool stopped_ = false;
  Pace pace_;
};

}  // namespace

Result<TuneResult> tune(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                        const Environment& env) {
  if (options.trials <= 0 && options.trials_per_task <= 0 && options.seconds <= 0)
    return make_error(ErrorClass::kUsage, "tuning has no limit", "give a number of trials or of seconds");
  std::unique_ptr<cost::CostModel> prior = backend::backend_of(target).prior(target), model;
  if (env.make_model) {
    TCC_TRY(model, env.make_model(std::move(prior)));
  } else {
    TCC_TRY(model, cost::make_model({.name = options.cost_model,
                                     .pretrained = options.pretrained,
                                     .adaptation = options.adaptation,
                                     .trace = backend::backend_of(target).trace_table,
                                     .pool = env.pool,
                                     .statement_branch = options.statement_branch,
                                     .dataflow_branch = options.dataflow_branch},
                                    std::move(prior)));
  }
  TCC_TRY_VOID(check_adaptation(options, *model, target));
  return Tuner(target, options, env, std::move(model)).run(tasks);
}

}  // namespace tcc::search
