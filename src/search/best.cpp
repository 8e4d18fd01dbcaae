#include "search/best.h"

#include <algorithm>

#include "search/scheduler.h"
#include "search/trial.h"
#include "tcc/lower/lower.h"
#include "tcc/record/disturbed.h"
#include "tcc/target/probe.h"

namespace tcc::search {

namespace {

constexpr size_t kMaxContenders = 8, kTrialsForContender = 8;
constexpr double kInReach = 0.06;     // programs further behind the fastest are not timed again
constexpr double kClearLead = 0.03;   // nor compared in pairs; where the second is that far behind, nothing is
constexpr double kFormInReach = 1.5;  // forms further behind the best one are not timed again
constexpr double kWorthwhile = 0.01;  // least share of a task in the network's time
constexpr int64_t kMaxTurns = 3;
constexpr double kTurnsSeconds = 1.5;  // no further turn begins after
constexpr size_t kMaxFinalists = 4;
constexpr size_t kMaxRemeasured = 4;  // programs of a task whose times were disturbed
constexpr int64_t kRecordsLookedAt = 64;

ir::Legal<measure::Candidate> rebuild(const TaskState& state, const Known& known, const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  const space::Sketch& sketch = state.sketches[static_cast<size_t>(known.sketch)];
  TCC_TRY(ir::Kernel nest, space::instantiate(sketch, known.decisions, target, arena));
  measure::Candidate c;
  TCC_TRY(c.kernel, lower::lower(nest, target, ir::Stage::kLowered, arena));
  c.nest_hash = known.nest_hash;
  c.task = state.measure_task.get();
  c.naive = state.task->kernel;
  c.trace = schedule::trace_to_json(trace_of(state, known.sketch, known.decisions));
  return c;
}

double comparable_seconds(const Known& known) {
  return record::comparable_seconds(known.seconds, known.disturbed);
}

// A program that is timed again, and its times.
struct Contender {
  Known* known = nullptr;
  record::Record record;  // the one in the store
  measure::Candidate candidate;
  std::vector<measure::Measurement> turns;  // those that succeeded
  std::optional<measure::Measurement> failed;
  bool out = false;  // too far behind after a turn to be a finalist
};

// The fastest and those within its reach. Few where trials were few: timing them again must not cost more than finding
// them did.
Result<std::vector<Contender>> choose_contenders(TaskState& state, const target::Target& target,
                                                 const TuneOptions& options, const Environment& env) {
  const size_t count = state.exhausted
                           ? kMaxContenders
                           : std::clamp<size_t>(state.known.size() / kTrialsForContender, 2, kMaxContenders);
  std::vector<const Known*> chosen = fastest_known(state.known, state.known.size());
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Known* x, const Known* y) { return comparable_seconds(*x) < comparable_seconds(*y); });
  if (chosen.size() > count) chosen.resize(count);
  const double first = chosen.empty() ? 0 : comparable_seconds(*chosen[0]);
  if (chosen.size() < 2 || comparable_seconds(*chosen[1]) * (1 - kClearLead) > first) return std::vector<Contender>();
  std::erase_if(chosen, [&](const Known* k) { return comparable_seconds(*k) * (1 - kInReach) > first; });
  TCC_TRY(std::vector<record::Record> records,
          env.store->fastest(state.hash, machine_of(target), options.threads, kRecordsLookedAt));
  std::vector<Contender> contenders;
  for (const Known* k : chosen) {
    auto record =
        std::find_if(records.begin(), records.end(), [&](const auto& r) { return r.nest_hash == k->nest_hash; });
    ir::Legal<measure::Candidate> candidate = rebuild(state, *k, target);
    if (!candidate || record == records.end()) continue;
    candidate->finalist = true;
    contenders.push_back(
        {&state.known[static_cast<size_t>(k - state.known.data())], *record, std::move(*candidate), {}, {}, false});
  }
  std::vector<measure::Candidate> candidates;
  for (Contender& c : contenders) candidates.push_back(std::move(c.candidate));
  env.measurer->compile(candidates);
  for (size_t i = 0; i < contenders.size(); ++i) contenders[i].candidate = std::move(candidates[i]);
  return contenders;
}

// The median turn, of those on a quiet machine where there are any.
const measure::Measurement& typical(std::vector<measure::Measurement>& turns) {
  auto quiet_end = std::stable_partition(turns.begin(), turns.end(), [](const auto& m) { return !m.disturbed; });
  auto end = quiet_end == turns.begin() ? turns.end() : quiet_end;
  std::sort(turns.begin(), end, [](const auto& x, const auto& y) { return x.median < y.median; });
  return turns[static_cast<size_t>(end - turns.begin() - 1) / 2];
}

// Stops timing programs that can no longer become finalists. Disturbed turns are ignored. Returns how many are left.
int64_t drop_losers(std::vector<Contender>& contenders) {
  double best = 0;
  for (Contender& c : contenders)
    if (!c.failed && !c.turns.empty())
      if (const double t = typical(c.turns).median; best == 0 || t < best) best = t;
  int64_t left = 0;
  for (Contender& c : contenders) {
    if (c.failed || c.turns.empty()) continue;
    const measure::Measurement& m = typical(c.turns);
    c.out = c.out || (!m.disturbed && m.low * (1 - kClearLead) > best);
    left += c.out ? 0 : 1;
  }
  return left;
}

// The medians were taken minutes apart and the least was chosen, so differences of a few percent between them mean
// little. The fastest are timed again in turns, which shows all of them the same machine, and the new times replace
// their records. False: it ended before each of them had a turn, and nothing counts.
Result<bool> time_in_turns(std::vector<Contender>& contenders, const Environment& env,
                           const std::function<bool()>& over) {
  Stopwatch watch;
  for (int64_t turn = 0; turn < kMaxTurns && (turn == 0 || watch.seconds() < kTurnsSeconds); ++turn) {
    for (Contender& c : contenders) {
      if (c.failed || c.out) continue;
      if (env.stop && env.stop()) return false;
      if (over && over()) {
        if (turn == 0) return false;
        break;
      }
      TCC_TRY(std::vector<measure::Measurement> measured, env.measurer->measure({&c.candidate, 1}));
      if (measured.at(0).status == record::Status::kOk)
        c.turns.push_back(std::move(measured[0]));
      else
        c.failed = std::move(measured[0]);
    }
    if (drop_losers(contenders) < 2 || (over && over())) break;
  }
  for (Contender& c : contenders) {
    if (!c.failed && c.turns.empty()) continue;
    record::Record again = c.record;
    measure::fill_record(c.failed ? *c.failed : typical(c.turns), again);
    again.compile_seconds = c.record.compile_seconds;
    again.unix_time = unix_now(env);
    TCC_TRY(c.known->record, env.store->add(again));
    c.known->seconds = c.failed ? 0 : again.median;
    c.known->disturbed = record::is_disturbed(again);
  }
  std::erase_if(contenders, [](const Contender& c) { return c.failed.has_value(); });
  std::stable_sort(contenders.begin(), contenders.end(), [](const Contender& x, const Contender& y) {
    return comparable_seconds(*x.known) < comparable_seconds(*y.known);
  });
  return true;
}

// The winner of pairs of the fastest against each of the others; nullptr: env.stop ended the comparison.
Result<const Known*> compare_in_pairs(const std::vector<const Known*>& finalists, const TaskState& state,
                                      const target::Target& target, const Environment& env,
                                      const std::function<bool()>& over) {
  const Known* best = finalists[0];
  ir::Legal<measure::Candidate> best_program = rebuild(state, *best, target);
  for (size_t i = 1; best_program && i < finalists.size(); ++i) {
    if (env.stop && env.stop()) return nullptr;
    if (over && over()) break;
    ir::Legal<measure::Candidate> challenger = rebuild(state, *finalists[i], target);
    if (!challenger) continue;
    TCC_TRY(measure::PairedComparison verdict,
            env.measurer->compare(*challenger, *best_program, measure::PairAim::kWhetherAWins));
    // A tie keeps the present best: otherwise the choice would follow the noise.
    if (!verdict.failure.empty() || verdict.winner != measure::PairedComparison::Winner::kA) continue;
    best = finalists[i];
    best_program = std::move(challenger);
  }
  return best;
}

}  // namespace

record::Machine machine_of(const target::Target& target) {
  return {target::feature_hash(target), target::platform_text(target)};
}

Result<void> save_best(const TaskState& state, const target::Target& target, const TuneOptions& options,
                       record::Store& store) {
  if (state.best_seconds <= 0) return {};
  return store.save_session(record::confirmed_best_key(state.hash, machine_of(target), options.threads),
                            record::hash_text(state.best_nest_hash));
}

Result<bool> rerank_task(TaskState& state, const target::Target& target, const TuneOptions& options,
                         const Environment& env, const std::function<bool()>& over) {
  if (!env.measurer->traits().compares || !state.prepared) return false;
  TCC_TRY(std::vector<Contender> contenders, choose_contenders(state, target, options, env));
  if (contenders.size() < 2) return false;
  TCC_TRY(const bool timed, time_in_turns(contenders, env, over));
  if (!timed) return false;
  std::vector<const Known*> finalists;
  for (const Contender& c : contenders)
    if (finalists.size() < kMaxFinalists &&
        comparable_seconds(*c.known) * (1 - kClearLead) <= comparable_seconds(*contenders[0].known))
      finalists.push_back(c.known);
  if (finalists.empty()) finalists = fastest_known(state.known, 1);  // all that were timed again failed
  if (finalists.empty()) return false;
  TCC_TRY(const Known* best, compare_in_pairs(finalists, state, target, env, over));
  if (best == nullptr) return false;
  bool changed = best->nest_hash != state.best_nest_hash;
  state.best_seconds = best->seconds;
  state.best_disturbed = best->disturbed;
  state.best_nest_hash = best->nest_hash;
  state.best_trace = schedule::trace_to_json(trace_of(state, best->sketch, best->decisions));
  TCC_TRY_VOID(save_best(state, target, options, *env.store));
  return changed;
}

namespace {

// The fastest programs with disturbed times that would be the best if these were right.
std::vector<Known*> doubtful(TaskState& state) {
  double quiet = 0;
  for (const Known& k : state.known)
    if (k.seconds > 0 && !k.disturbed && (quiet == 0 || k.seconds < quiet)) quiet = k.seconds;
  std::vector<Known*> chosen;
  for (Known& k : state.known)
    if (k.seconds > 0 && k.disturbed && k.sketch >= 0 && (quiet == 0 || k.seconds < quiet)) chosen.push_back(&k);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Known* x, const Known* y) { return x->seconds < y->seconds; });
  if (chosen.size() > kMaxRemeasured) chosen.resize(kMaxRemeasured);
  return chosen;
}

// The record of the program in the store; nothing: it has none here.
Result<std::optional<record::Record>> record_of(const Known& known, const TaskState& state,
                                                const record::Store& store) {
  TCC_TRY(std::vector<record::Record> records, store.all(state.hash));
  for (record::Record& r : records)
    if (r.id == known.record) return std::optional(std::move(r));
  return std::optional<record::Record>();
}

}  // namespace

Result<bool> remeasure_task(TaskState& state, const target::Target& target, const TuneOptions& options,
                            const Environment& env, const std::function<bool()>& over) {
  if (!state.prepared) return true;
  for (Known* known : doubtful(state)) {
    if ((over && over()) || (env.stop && env.stop())) return true;
    ir::Legal<measure::Candidate> candidate = rebuild(state, *known, target);
    TCC_TRY(std::optional<record::Record> again, record_of(*known, state, *env.store));
    if (!candidate || !again) continue;
    candidate->finalist = true;
    TCC_TRY(const std::vector<measure::Measurement> measured, env.measurer->measure({&*candidate, 1}));
    const measure::Measurement& m = measured.at(0);
    if (m.status == record::Status::kOk && m.disturbed) return false;
    const double compile_seconds = again->compile_seconds;
    measure::fill_record(m, *again);
    again->compile_seconds = compile_seconds;
    again->threads = options.threads;
    again->unix_time = unix_now(env);
    TCC_TRY(again->id, env.store->add(*again));
    known->record = again->id;
    known->seconds = again->status == record::Status::kOk ? again->median : 0;
    known->disturbed = false;
    state.counts.disturbed = std::max<int64_t>(state.counts.disturbed - 1, 0);
    if (take_best(state, *again)) TCC_TRY_VOID(save_best(state, target, options, *env.store));
  }
  return true;
}

Result<void> rerank_finalists(std::vector<TaskState>& states, const target::Target& target, const TuneOptions& options,
                              const Environment& env, const Stopwatch& since_start,
                              const std::function<void(int64_t, int64_t)>& progress) {
  const double now = since_start.seconds();
  double end = now / (1 - std::min(options.finals_share, 1.0));  // infinite for 1
  if (options.seconds > 0) end = std::min(end, std::max(options.seconds, now));
  auto over = [&] { return since_start.seconds() >= end; };
  auto seconds_of = [](const TaskState& s) { return static_cast<double>(s.task->weight) * s.best_seconds; };
  double network = 0;
  std::vector<TaskState*> order;
  for (TaskState& state : states) {
    if (seconds_of(state) > kFormInReach * choice_seconds(states, state)) continue;  // a form that is not built
    network += seconds_of(state);
    order.push_back(&state);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const TaskState* x, const TaskState* y) { return seconds_of(*x) > seconds_of(*y); });
  bool quiet = true;
  for (TaskState* state : order) {
    if (!quiet || over() || (env.stop && env.stop())) break;
    TCC_TRY(quiet, remeasure_task(*state, target, options, env, over));
  }
  std::erase_if(order, [&](const TaskState* s) { return seconds_of(*s) <= kWorthwhile * network; });
  int64_t done = 0;
  for (TaskState* state : order) {
    progress(done++, std::ssize(order));
    if (over() || (env.stop && env.stop())) break;
    TCC_TRY_VOID(rerank_task(*state, target, options, env, over));
  }
  return {};
}

namespace {

// The fastest on another number of threads that did not fail on this one.
Result<std::optional<record::Record>> best_elsewhere(const record::Database& database, uint64_t task,
                                                     const record::Machine& machine, int64_t threads, int64_t other) {
  TCC_TRY(std::optional<record::Record> best, database.confirmed_best(task, machine, other));
  TCC_TRY(std::vector<record::Record> fastest, database.fastest(task, machine, other, 16));
  if (best) fastest.insert(fastest.begin(), std::move(*best));
  for (record::Record& r : fastest) {
    TCC_TRY(bool failed, database.contains(task, machine.features, r.nest_hash, threads));
    if (!failed) return std::optional(std::move(r));
  }
  return std::optional<record::Record>{};
}

Result<std::optional<record::Record>> find_best_of(const record::Database& database, uint64_t task,
                                                   const record::Machine& machine, int64_t threads) {
  TCC_TRY(std::optional<record::Record> exact, database.confirmed_best(task, machine, threads));
  if (exact || threads <= 0) return exact;
  TCC_TRY(std::vector<int64_t> others, database.measured_threads(task, machine));
  auto distance = [&](int64_t n) {
    return static_cast<double>(std::max(n, threads)) / static_cast<double>(std::min(n, threads));
  };
  std::erase_if(others, [&](int64_t n) { return n <= 0 || n == threads; });
  std::sort(others.begin(), others.end(),
            [&](int64_t x, int64_t y) { return distance(x) != distance(y) ? distance(x) < distance(y) : x > y; });
  for (int64_t other : others) {
    TCC_TRY(std::optional<record::Record> best, best_elsewhere(database, task, machine, threads, other));
    if (best) return best;
  }
  return std::optional<record::Record>{};
}

}  // namespace

Result<std::optional<record::Record>> find_best(const record::Database& database, uint64_t task,
                                                const target::Target& target, int64_t threads) {
  const record::Machine here = machine_of(target);
  TCC_TRY(std::optional<record::Record> best, find_best_of(database, task, here, threads));
  if (best) return best;
  return find_best_of(database, task, here.features, threads);
}

}  // namespace tcc::search
