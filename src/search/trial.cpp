#include "search/trial.h"

#include <algorithm>

#include "search/anchor.h"
#include "tcc/lower/lower.h"
#include "tcc/space/space.h"
#include "tcc/support/files.h"
#include "tcc/target/probe.h"

namespace tcc::search {

namespace {

struct Prepared {
  Individual individual;
  record::Record record;
  measure::Candidate candidate;
  bool known = false;  // the record is one of an interrupted round
  bool lowered = false;
  bool twin = false;  // see measure::Measurement: no trial
};

Prepared prepare(const TaskState& state, Individual individual, const cost::CostModel& model,
                 const target::Target& target, const TuneOptions& options, const Environment& env) {
  Prepared p;
  if (auto it = state.interrupted.find(individual.nest_hash); it != state.interrupted.end()) {
    p.record = it->second;
    p.known = true;
    p.individual = std::move(individual);
    return p;
  }
  record::Record& r = p.record;
  r = program_record(*state.task, target, trace_of(state, individual.sketch, individual.decisions),
                     individual.nest_hash);
  r.kind = env.measurer->traits().kind;
  r.space = space::space_name(options.space);
  r.threads = options.threads;
  r.tool_version = env.tool_version;

  auto arena = std::make_shared<Arena>();
  const space::Sketch& sketch = state.sketches[static_cast<size_t>(individual.sketch)];
  // The program is replayed, as a build replays it: for rare decisions instantiate() writes an index in another form.
  ir::Legal<ir::Kernel> kernel = space::replay_to_nest(sketch, individual.decisions, target, arena);
  if (kernel) {
    p.candidate.nest = *kernel;
    r.nest_hash = ir::hash_kernel(*kernel);
    kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
  }
  if (kernel) {
    p.candidate.nest_hash = r.nest_hash;
    p.candidate.task = state.measure_task.get();
    p.candidate.kernel = std::move(*kernel);
    p.candidate.run = state.run;
    p.candidate.naive = state.task->kernel;
    p.candidate.trace = r.trace;
    p.candidate.expected_seconds = model.expected_seconds(individual.sample.row);
    p.lowered = true;
  } else {
    r.status = record::Status::kRejected;
    r.failure = fmt::format("{}: {}", ir::reject_reason_name(kernel.error().reason), kernel.error().text);
  }
  p.individual = std::move(individual);
  return p;
}

struct Pick {
  TaskRound* round = nullptr;
  size_t number = 0;  // of its picks
};

// The next picks of rounds that lack programs, at most `most`.
std::vector<Pick> next_picks(std::span<TaskRound> rounds, size_t most) {
  std::vector<Pick> out;
  for (TaskRound& round : rounds) {
    const auto wanted = static_cast<size_t>(std::max<int64_t>(round.count - round.tried, 0));
    const size_t n = std::min({most - out.size(), round.picks.size() - round.next, wanted});
    for (size_t i = 0; i < n; ++i) out.push_back({&round, round.next++});
  }
  return out;
}

Result<void> measure_chunk(std::span<Prepared> chunk, const TuneOptions& options, const Environment& env,
                           PhaseSeconds& seconds) {
  std::vector<measure::Candidate> candidates;
  for (Prepared& p : chunk) {
    if (p.known || !p.lowered) continue;
    p.candidate.id = candidates.size();
    candidates.push_back(p.candidate);
  }
  if (!candidates.empty()) {
    Stopwatch watch;
    TCC_TRY(std::vector<measure::Measurement> measured, env.measurer->measure(candidates));
    double ran = 0;
    for (const measure::Measurement& m : measured) ran += m.run_seconds;
    ran = std::min(ran, watch.seconds());  // several machines may measure at once
    seconds.measure += ran;
    seconds.compile += std::max(watch.seconds() - ran, 0.0);
    size_t next = 0;
    for (Prepared& p : chunk) {
      if (p.known || !p.lowered || next >= measured.size()) continue;
      p.twin = measured[next].twin;
      measure::fill_record(measured[next++], p.record);
      p.record.threads = options.threads;
    }
  }
  for (Prepared& p : chunk) {
    if (p.known) continue;
    p.record.unix_time = unix_now(env);
    TCC_TRY(p.record.id, env.store->add(p.record));
  }
  return {};
}

}  // namespace

int64_t unix_now(const Environment& env) {
  return env.now ? env.now() : Clock::system().unix_seconds();
}

schedule::Trace trace_of(const TaskState& state, int32_t sketch, std::span<const int64_t> decisions) {
  schedule::Trace trace = state.sketches[static_cast<size_t>(sketch)].trace;
  trace.decisions.assign(decisions.begin(), decisions.end());
  return trace;
}

Result<TrialOutcome> run_trials(std::span<TaskRound> rounds, const cost::CostModel& model, const target::Target& target,
                                const TuneOptions& options, const Environment& env,
                                const std::function<bool()>& out_of_time) {
  TrialOutcome outcome;
  const auto at_once = static_cast<size_t>(std::max<int64_t>(env.measurer->traits().at_once, 1));
  for (bool first = true;; first = false) {
    if (env.stop && env.stop()) {
      outcome.stopped = true;
      return outcome;
    }
    const std::vector<Pick> picks = next_picks(rounds, at_once);
    if (picks.empty() || (!first && out_of_time())) return outcome;
    std::vector<Prepared> chunk(picks.size());
    parallel_for(env.pool, std::ssize(picks), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      TaskRound& round = *picks[at].round;
      chunk[at] = prepare(*round.state, std::move(round.picks[picks[at].number]), model, target, options, env);
    });
    TCC_TRY_VOID(measure_chunk(chunk, options, env, outcome.seconds));
    for (size_t i = 0; i < chunk.size(); ++i) {
      Prepared& p = chunk[i];
      TaskRound& round = *picks[i].round;
      learn_record(*round.state, p.record, std::move(p.individual), p.twin);
      round.last_record = std::max(round.last_record, p.record.id);
      if (p.record.status == record::Status::kRejected) continue;
      ++round.tried;
      if (!p.twin) ++round.trials, ++round.state->trials;
      round.improved |= take_best(*round.state, p.record);
    }
  }
}

}  // namespace tcc::search
