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

Result<void> measure_chunk(std::span<Prepared> chunk, uint64_t first_id, const TuneOptions& options,
                           const Environment& env, PhaseSeconds& seconds) {
  std::vector<measure::Candidate> candidates;
  for (Prepared& p : chunk) {
    if (p.known || !p.lowered) continue;
    p.candidate.id = first_id + candidates.size();
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

Result<TrialOutcome> run_trials(TaskState& state, std::vector<Individual> picks, int64_t count,
                                const cost::CostModel& model, const target::Target& target, const TuneOptions& options,
                                const Environment& env, const std::function<bool()>& out_of_time) {
  TrialOutcome outcome;
  const auto at_once = static_cast<size_t>(std::max<int64_t>(env.measurer->traits().at_once, 1));
  int64_t tried = 0;
  for (size_t begin = 0, n = 0; begin == 0 || begin < picks.size(); begin += n) {
    if (env.stop && env.stop()) {
      outcome.stopped = true;
      return outcome;
    }
    n = std::min({at_once, picks.size() - begin, static_cast<size_t>(count - tried)});
    if (n == 0 || (begin > 0 && out_of_time())) return outcome;
    std::vector<Prepared> chunk(n);
    parallel_for(env.pool, static_cast<int64_t>(n), [&](int64_t i) {
      auto at = static_cast<size_t>(i);
      chunk[at] = prepare(state, std::move(picks[begin + at]), model, target, options, env);
    });
    TCC_TRY_VOID(measure_chunk(chunk, state.known.size(), options, env, outcome.seconds));
    for (Prepared& p : chunk) {
      learn_record(state, p.record, std::move(p.individual), p.twin);
      outcome.last_record = std::max(outcome.last_record, p.record.id);
      ++outcome.done;
      if (p.record.status == record::Status::kRejected) continue;
      ++tried;
      if (!p.twin) ++state.trials;
      outcome.improved |= take_best(state, p.record);
    }
  }
  return outcome;
}

}  // namespace tcc::search
