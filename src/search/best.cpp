#include "search/best.h"

#include <algorithm>

#include "search/trial.h"
#include "tcc/lower/lower.h"

namespace tcc::search {

namespace {

constexpr size_t kPlayers = 8, kTrialsForPlayer = 8;
constexpr double kInReach = 0.15;  // who is further behind the fastest is not timed again
constexpr int64_t kTurns = 3;
constexpr double kTurnsSeconds = 1.5;  // no further turn begins after
constexpr double kFinalsEnd = 1.15;    // of a limit of time
constexpr size_t kFinalists = 4;
constexpr double kClearLead = 0.06;  // who is further behind the fastest is no finalist
constexpr int64_t kRecordsLookedAt = 64;

ir::Legal<measure::Candidate> rebuild(const TaskState& state, const Known& known, const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  const space::Sketch& sketch = state.sketches[static_cast<size_t>(known.sketch)];
  ir::Legal<ir::Kernel> kernel = space::instantiate(sketch, known.decisions, target, arena);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
  if (!kernel) return tl::make_unexpected(kernel.error());
  measure::Candidate c;
  c.nest = known.nest;
  c.task = state.measure_task.get();
  c.kernel = std::move(*kernel);
  return c;
}

// A program that is timed again, and its times.
struct Player {
  Known* known = nullptr;
  record::Record record;  // the one in the store
  measure::Candidate candidate;
  std::vector<measure::Measurement> turns;  // those that went well
  std::optional<measure::Measurement> failed;
  bool out = false;  // too far behind after a turn to be a finalist
};

// Those within reach of the fastest, compiled. Few where trials were few: timing them again is not to cost more than
// finding them did.
Result<std::vector<Player>> choose_players(TaskState& state, const target::Target& target, const TuneOptions& options,
                                           const Environment& env) {
  size_t count = state.exhausted ? kPlayers : std::clamp<size_t>(state.known.size() / kTrialsForPlayer, 2, kPlayers);
  std::vector<const Known*> chosen = fastest_known(state.known, count);
  std::erase_if(chosen, [&](const Known* k) { return k->seconds * (1 - kInReach) > chosen[0]->seconds; });
  TCC_TRY(std::vector<record::Record> records,
          env.store->fastest(state.hash, target::feature_hash(target), options.threads, kRecordsLookedAt));
  std::vector<Player> players;
  for (const Known* k : chosen) {
    auto record = std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.nest == k->nest; });
    ir::Legal<measure::Candidate> candidate = rebuild(state, *k, target);
    if (!candidate || record == records.end()) continue;
    candidate->finalist = true;
    players.push_back(
        {&state.known[static_cast<size_t>(k - state.known.data())], *record, std::move(*candidate), {}, {}, false});
  }
  std::vector<measure::Candidate> candidates;
  for (Player& p : players) candidates.push_back(std::move(p.candidate));
  env.measurer->compile(candidates);
  for (size_t i = 0; i < players.size(); ++i) players[i].candidate = std::move(candidates[i]);
  return players;
}

// The turn that stands for all: the one in the middle, of those on a quiet machine where there are such.
const measure::Measurement& typical(std::vector<measure::Measurement>& turns) {
  auto quiet_end = std::stable_partition(turns.begin(), turns.end(), [](const auto& m) { return !m.disturbed; });
  auto end = quiet_end == turns.begin() ? turns.end() : quiet_end;
  std::sort(turns.begin(), end, [](const auto& x, const auto& y) { return x.median < y.median; });
  return turns[static_cast<size_t>(end - turns.begin() - 1) / 2];
}

// Whoever cannot become a finalist any more plays no further turn: a noisy one says nothing of that. How many still
// play.
int64_t drop_the_beaten(std::vector<Player>& players) {
  double best = 0;
  for (Player& p : players)
    if (!p.failed && !p.turns.empty())
      if (const double t = typical(p.turns).median; best == 0 || t < best) best = t;
  int64_t left = 0;
  for (Player& p : players) {
    if (p.failed || p.turns.empty()) continue;
    const measure::Measurement& m = typical(p.turns);
    p.out = p.out || (!m.disturbed && m.low * (1 - kClearLead) > best);
    left += p.out ? 0 : 1;
  }
  return left;
}

// Medians that were taken minutes apart, of which the least was chosen, say little about a few percent. The fastest are
// timed again in turns, so that all of them see the same machine, and what is found then replaces their records.
Result<void> play_off(std::vector<Player>& players, const Environment& env) {
  Stopwatch watch;
  for (int64_t turn = 0; turn < kTurns && (turn == 0 || watch.seconds() < kTurnsSeconds); ++turn) {
    for (Player& p : players) {
      if (env.stop && env.stop()) return {};
      if (p.failed || p.out) continue;
      TCC_TRY(std::vector<measure::Measurement> measured, env.measurer->measure({&p.candidate, 1}));
      if (measured.at(0).status == record::Status::kOk)
        p.turns.push_back(std::move(measured[0]));
      else
        p.failed = std::move(measured[0]);
    }
    if (drop_the_beaten(players) < 2) break;
  }
  for (Player& p : players) {
    if (!p.failed && p.turns.empty()) continue;
    record::Record again = p.record;
    measure::fill_record(p.failed ? *p.failed : typical(p.turns), again);
    again.compile_seconds = p.record.compile_seconds;
    again.unix_time = unix_now(env);
    TCC_TRY(p.known->record, env.store->add(again));
    p.known->seconds = p.failed ? 0 : again.median;
  }
  std::erase_if(players, [](const Player& p) { return p.failed.has_value(); });
  std::stable_sort(players.begin(), players.end(),
                   [](const Player& x, const Player& y) { return x.known->seconds < y.known->seconds; });
  return {};
}

}  // namespace

Result<void> save_title(const TaskState& state, const target::Target& target, const TuneOptions& options,
                        record::Store& store) {
  if (state.best_seconds <= 0) return {};
  return store.save_session(record::title_key(state.hash, target::feature_hash(target), options.threads),
                            record::hash_text(state.best_nest));
}

Result<bool> hold_final(TaskState& state, const target::Target& target, const TuneOptions& options,
                        const Environment& env) {
  if (!env.measurer->traits().compares || !state.prepared) return false;
  TCC_TRY(std::vector<Player> players, choose_players(state, target, options, env));
  if (players.size() < 2) return false;
  TCC_TRY_VOID(play_off(players, env));
  std::vector<const Known*> finalists;
  for (const Player& p : players)
    if (finalists.size() < kFinalists && p.known->seconds * (1 - kClearLead) <= players[0].known->seconds)
      finalists.push_back(p.known);
  if (finalists.empty()) finalists = fastest_known(state.known, 1);  // all that were timed again failed
  if (finalists.empty()) return false;
  const Known* holder = finalists[0];
  ir::Legal<measure::Candidate> held = rebuild(state, *holder, target);
  for (size_t i = 1; held && i < finalists.size(); ++i) {
    if (env.stop && env.stop()) return false;
    ir::Legal<measure::Candidate> challenger = rebuild(state, *finalists[i], target);
    if (!challenger) continue;
    TCC_TRY(measure::PairedComparison verdict,
            env.measurer->compare(*challenger, *held, measure::PairAim::kWhetherAWins));
    // A tie keeps the holder: a best that changes with the noise is no best.
    if (!verdict.failure.empty() || verdict.winner != measure::PairedComparison::Winner::kA) continue;
    holder = finalists[i];
    held = std::move(challenger);
  }
  bool changed = holder->nest != state.best_nest;
  state.best_seconds = holder->seconds;
  state.best_nest = holder->nest;
  state.best_trace = schedule::trace_to_json(trace_of(state, holder->sketch, holder->decisions));
  TCC_TRY_VOID(save_title(state, target, options, *env.store));
  return changed;
}

Result<void> hold_finals(std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                         const Environment& env, const Stopwatch& since_start) {
  for (TaskState& state : states)
    if (options.seconds <= 0 || since_start.seconds() < kFinalsEnd * options.seconds)
      TCC_TRY_VOID(hold_final(state, target, options, env));
  return {};
}

namespace {

// The fastest on another number of threads that did not fail on this one.
Result<std::optional<record::Record>> best_elsewhere(const record::Database& database, uint64_t task,
                                                     const target::Target& target, int64_t threads, int64_t other) {
  const uint64_t features = target::feature_hash(target);
  TCC_TRY(std::optional<record::Record> holder, database.champion(task, features, other));
  TCC_TRY(std::vector<record::Record> fastest, database.fastest(task, features, other, 16));
  if (holder) fastest.insert(fastest.begin(), std::move(*holder));
  for (record::Record& r : fastest) {
    TCC_TRY(bool failed, database.contains(task, features, r.nest, threads));
    if (!failed) return std::optional(std::move(r));
  }
  return std::optional<record::Record>{};
}

}  // namespace

Result<std::optional<record::Record>> find_best(const record::Database& database, uint64_t task,
                                                const target::Target& target, int64_t threads) {
  TCC_TRY(std::optional<record::Record> exact, database.champion(task, target::feature_hash(target), threads));
  if (exact || threads <= 0) return exact;
  TCC_TRY(std::vector<int64_t> others, database.measured_threads(task, target::feature_hash(target)));
  auto distance = [&](int64_t n) {
    return static_cast<double>(std::max(n, threads)) / static_cast<double>(std::min(n, threads));
  };
  std::erase_if(others, [&](int64_t n) { return n <= 0 || n == threads; });
  std::sort(others.begin(), others.end(),
            [&](int64_t x, int64_t y) { return distance(x) != distance(y) ? distance(x) < distance(y) : x > y; });
  for (int64_t other : others) {
    TCC_TRY(std::optional<record::Record> best, best_elsewhere(database, task, target, threads, other));
    if (best) return best;
  }
  return std::optional<record::Record>{};
}

Result<void> copy_records(const task::Task& task, const target::Target& target, int64_t threads,
                          const record::Store& from, record::Store& to) {
  const uint64_t hash = task_hash(task);
  TCC_TRY(std::vector<record::Record> records, from.all(hash));
  std::erase_if(records, [&](const record::Record& r) {
    return r.target_features != target::feature_hash(target) || r.threads != threads;
  });
  const std::string key = record::title_key(hash, target::feature_hash(target), threads);
  TCC_TRY(std::optional<std::string> title, from.load_session(key));
  return title ? to.add_with_session(records, key, *title) : to.add_all(records);
}

Result<std::optional<record::Record>> best_record(const task::Task& task, const target::Target& target,
                                                  const record::Database& database, int64_t threads) {
  return database.champion(task_hash(task), target::feature_hash(target), threads);
}

}  // namespace tcc::search
