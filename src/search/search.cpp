// The whole story of tuning:
//
//   load the tasks (design spaces, former records) -> until a limit is reached: choose a task, propose programs for it,
//   measure them and store the results, learn -> report.
//
// Everything a round depends on is in the store when it begins, so that a run that is cut off goes on as if it had not
// been.
#include "tcc/search/search.h"

#include <algorithm>
#include <chrono>

#include "search/learn.h"
#include "search/propose.h"
#include "search/report.h"
#include "search/scheduler.h"
#include "search/session.h"
#include "search/trial.h"

namespace tcc::search {
namespace {

constexpr int64_t kMaxEmptyRounds = 3;

class Tuner {
 public:
  Tuner(const target::Target& target, const TuneOptions& options, const Environment& env)
      : target_(target), options_(options), env_(env), model_(cost::make_tree_model()) {}

  Result<TuneResult> run(std::span<const task::Task> tasks) {
    TCC_TRY_VOID(load(tasks));
    report_progress(Progress::Kind::kStarted, -1);
    while (!finished()) {
      int64_t at = next_task(states_, options_, session_.round);
      if (at < 0) break;
      TCC_TRY_VOID(run_round(at));
    }
    for (size_t i = 0; i < states_.size(); ++i) report_progress(Progress::Kind::kTaskFinished, static_cast<int64_t>(i));
    report_progress(Progress::Kind::kFinished, -1);
    if (!stopped_) TCC_TRY_VOID(env_.store->erase_session(session_.key));
    return summarise(states_, session_, elapsed(), stopped_);
  }

 private:
  Result<void> load(std::span<const task::Task> tasks) {
    TCC_TRY(session_, open_session(tasks, target_, options_, *env_.store));
    std::vector<Result<TaskState>> loaded(tasks.size(), Result<TaskState>(TaskState{}));
    auto body = [&](int64_t i, int) {
      auto at = static_cast<size_t>(i);
      loaded[at] = load_task(tasks[at], target_, options_, *env_.store, session_.last_record);
    };
    if (env_.pool != nullptr)
      env_.pool->parallel_for(static_cast<int64_t>(tasks.size()), body);
    else
      for (size_t i = 0; i < tasks.size(); ++i) body(static_cast<int64_t>(i), 0);
    for (Result<TaskState>& state : loaded) {
      TCC_TRY(TaskState ready, std::move(state));
      states_.push_back(std::move(ready));
    }
    TCC_TRY_VOID(restore_session(session_, states_, *env_.store));
    if (!session_.resumed)
      for (const TaskState& s : states_)
        for (const Known& k : s.known) session_.last_record = std::max(session_.last_record, k.record);
    if (session_.last_record < 0) session_.last_record = 0;
    TCC_TRY_VOID(save_session(session_, states_, *env_.store));
    learn(*model_, states_);
    if (session_.resumed)
      note(
          fmt::format("going on with an interrupted run at round {}, {} trials done", session_.round, session_.trials));
    return {};
  }

  Result<void> run_round(int64_t at) {
    TaskState& state = states_[static_cast<size_t>(at)];
    if (!state.prepared && env_.prepare) {
      Result<std::shared_ptr<const measure::MeasureTask>> made = env_.prepare(*state.task);
      if (!made) return give_up(state, made.error());
      state.measure_task = std::move(*made);
    }
    state.prepared = true;
    int64_t n = trials_of_round(state, states_.size(), options_, session_.trials);
    Rng rng = Rng(options_.seed).fork(state.hash).fork(state.history.size());
    std::vector<Individual> picks = propose(state, *model_, n, target_, options_, rng, env_.pool, state.counts);
    int64_t before = state.trials;
    TCC_TRY(TrialOutcome outcome, run_trials(state, std::move(picks), target_, options_, env_));
    stopped_ = stopped_ || outcome.stopped;
    if (outcome.stopped) return {};  // the row still says how this round began

    session_.trials += state.trials - before;
    session_.last_record = std::max(session_.last_record, outcome.last_record);
    state.history.push_back(state.best_seconds);
    if (state.history.size() == 1) state.first_seconds = state.best_seconds;
    state.last_round = session_.round++;
    state.empty_rounds = state.trials == before ? state.empty_rounds + 1 : 0;
    state.exhausted = state.empty_rounds >= kMaxEmptyRounds;
    learn(*model_, states_);
    TCC_TRY_VOID(save_session(session_, states_, *env_.store));
    report_progress(Progress::Kind::kRound, at, outcome.improved);
    return {};
  }

  // One task that cannot be measured does not end the others' tuning; when all fail the reason is the error.
  Result<void> give_up(TaskState& state, const Error& error) {
    state.failure = error.message;
    note(fmt::format("{}: cannot be tuned: {}", state.task->workload, error.message));
    bool all = std::all_of(states_.begin(), states_.end(), [](const TaskState& s) { return !s.failure.empty(); });
    if (all) return tl::make_unexpected(error);
    return {};
  }

  bool finished() {
    if (stopped_ || (env_.stop && env_.stop())) return stopped_ = true;
    if (options_.trials > 0 && session_.trials >= options_.trials) return true;
    return options_.seconds > 0 && elapsed() >= options_.seconds;
  }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  void report_progress(Progress::Kind kind, int64_t at, bool improved = false) const {
    if (env_.progress) env_.progress(make_progress(kind, states_, at, session_, options_, elapsed(), improved));
  }
  void note(const std::string& text) const {
    if (!env_.progress) return;
    Progress p = make_progress(Progress::Kind::kNote, states_, -1, session_, options_, elapsed(), false);
    p.note = text;
    env_.progress(p);
  }

  const target::Target& target_;
  const TuneOptions& options_;
  const Environment& env_;
  std::unique_ptr<cost::CostModel> model_;
  std::vector<TaskState> states_;
  Session session_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<TuneResult> tune(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                        const Environment& env) {
  if (options.trials <= 0 && options.trials_per_task <= 0 && options.seconds <= 0)
    return make_error(ErrorClass::kUsage, "tuning has no limit of trials or time",
                      "give a number of trials or of seconds");
  return Tuner(target, options, env).run(tasks);
}

}  // namespace tcc::search
