#include "search/scheduler.h"

#include <algorithm>

namespace tcc::search {

namespace {

bool is_active(const std::vector<TaskState>& states, const TaskState& s, const TuneOptions& o,
               const Settings& settings) {
  if (s.exhausted || !s.failure.empty() || s.planned >= 0) return false;
  if (settings.scheduling.max_rounds > 0 && std::ssize(s.history) >= settings.scheduling.max_rounds) return false;
  if (o.trials_per_task > 0 && s.trials + rivals_of(states, s).trials >= o.trials_per_task) return false;
  return !is_beaten(states, s);
}

// The other forms of a task's choice.
template <class F>
void for_each_rival(const std::vector<TaskState>& states, const TaskState& state, const F& visit) {
  if (state.choice < 0) return;
  for (const TaskState& s : states)
    if (&s != &state && s.choice == state.choice) visit(s);
}

// Arithmetic in the whole model: where there is most to gain before anything is known.
double size(const TaskState& s) {
  return static_cast<double>(s.task->weight) * s.task->flops;
}

}  // namespace

Rivals rivals_of(const std::vector<TaskState>& states, const TaskState& state) {
  Rivals rivals;
  for_each_rival(states, state, [&](const TaskState& s) {
    ++rivals.count, rivals.trials += s.trials + std::max<int64_t>(s.planned, 0);
  });
  return rivals;
}

size_t count_choices(const std::vector<TaskState>& states) {
  size_t count = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    bool first = true;
    for_each_rival(states, states[i], [&](const TaskState& s) { first = first && &s > &states[i]; });
    count += first ? 1 : 0;
  }
  return count;
}

double choice_seconds(const std::vector<TaskState>& states, const TaskState& state) {
  double best = state.best_seconds;
  for_each_rival(states, state, [&](const TaskState& s) {
    if (s.best_seconds > 0 && (best <= 0 || s.best_seconds < best)) best = s.best_seconds;
  });
  return static_cast<double>(state.task->weight) * best;
}

bool is_beaten(const std::vector<TaskState>& states, const TaskState& state) {
  constexpr double kLead[] = {2, 1.4, 1.15};  // by the rounds that the form has had
  if (state.choice < 0 || state.history.empty() || state.best_seconds <= 0) return false;
  const double lead = kLead[std::min<size_t>(state.history.size(), std::size(kLead)) - 1];
  const double own = static_cast<double>(state.task->weight) * state.best_seconds;
  return own > lead * choice_seconds(states, state);
}

double choice_gain(const std::vector<TaskState>& states, const TaskState& state, const Settings& settings) {
  const double behind = static_cast<double>(state.task->weight) * state.best_seconds - choice_seconds(states, state);
  return std::max(scheduler_gain(state, settings) - behind, 0.0);
}

double scheduler_gain(const TaskState& s, const Settings& settings) {
  const size_t n = s.history.size(), window = static_cast<size_t>(settings.scheduling.window);
  double best = s.history[n - 1];
  if (best <= 0) return 0;  // nothing valid yet: only waiting brings it back
  double recent = 0;
  if (n > window && s.history[n - 1 - window] > 0)
    recent = (s.history[n - 1 - window] - best) / static_cast<double>(window);
  return static_cast<double>(s.task->weight) *
         (settings.scheduling.alpha * recent + (1 - settings.scheduling.alpha) * best / static_cast<double>(n));
}

int64_t next_task(const std::vector<TaskState>& states, const TuneOptions& options, const Settings& settings,
                  int64_t round) {
  int64_t active = std::count_if(states.begin(), states.end(),
                                 [&](const TaskState& s) { return is_active(states, s, options, settings); });
  if (const std::vector<size_t> unseen = unseen_tasks(states, options, settings); !unseen.empty())
    return static_cast<int64_t>(unseen[0]);
  int64_t best = -1, waiting = -1;
  for (size_t i = 0; i < states.size(); ++i) {
    const TaskState& s = states[i];
    if (!is_active(states, s, options, settings)) continue;
    auto at = static_cast<int64_t>(i);
    const int64_t max_waiting =
        options.scheduler == TaskScheduler::kRoundRobin ? -1 : settings.scheduling.max_waiting * active;
    if (round - s.last_round > max_waiting &&
        (waiting < 0 || s.last_round < states[static_cast<size_t>(waiting)].last_round))
      waiting = at;
    if (best < 0 || choice_gain(states, s, settings) > choice_gain(states, states[static_cast<size_t>(best)], settings))
      best = at;
  }
  return waiting >= 0 ? waiting : best;
}

std::vector<size_t> unseen_tasks(const std::vector<TaskState>& states, const TuneOptions& options,
                                 const Settings& settings) {
  std::vector<size_t> unseen;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].history.empty() && is_active(states, states[i], options, settings)) unseen.push_back(i);
  std::stable_sort(unseen.begin(), unseen.end(), [&](size_t x, size_t y) {
    if (states[x].turn != states[y].turn) return states[x].turn < states[y].turn;
    return size(states[x]) > size(states[y]);
  });
  return unseen;
}

int64_t trials_of_round(const TaskState& state, size_t tasks, const TuneOptions& options, const Settings& settings,
                        int64_t trials_used, bool informed, const Rivals& rivals) {
  const Settings::Scheduling& s = settings.scheduling;
  int64_t n = options.round_size;
  auto count = static_cast<int64_t>(std::max<size_t>(tasks, 1));
  int64_t share = options.trials_per_task;
  if (options.trials > 0) {
    int64_t even = std::max<int64_t>(options.trials / count, 1);
    share = share > 0 ? std::min(share, even) : even;
  }
  // Where time is what ends the run, rounds are small enough that every task gets its turn before it is over.
  if (options.seconds > 0) {
    int64_t even = std::max<int64_t>(static_cast<int64_t>(options.seconds * s.trials_per_second) / count, 1);
    share = share > 0 ? std::min(share, even) : even;
  }
  if (share > 0) {
    // A first round that no model guides is a double one: nothing has been learnt yet that a smaller one could use.
    int64_t part = std::max(share / s.rounds, s.min_round) * (state.history.empty() && !informed ? 2 : 1);
    const int64_t rounds = s.min_rounds * (rivals.count + 1), most = (share + s.min_rounds - 1) / rounds;
    n = std::min(n, std::clamp<int64_t>(part, 1, std::max<int64_t>(most, 1)));
  }
  if (options.trials > 0) n = std::min(n, options.trials - trials_used);
  if (options.trials_per_task > 0) n = std::min(n, options.trials_per_task - state.trials - rivals.trials);
  return std::max<int64_t>(n, 0);
}

double progress_of(const TaskState& state, const TuneOptions& options, int64_t trials_used) {
  double share = 0;
  if (options.trials > 0) share = static_cast<double>(trials_used) / static_cast<double>(options.trials);
  if (options.trials_per_task > 0)
    share = std::max(share, static_cast<double>(state.trials) / static_cast<double>(options.trials_per_task));
  return std::min(share, 1.0);
}

}  // namespace tcc::search
