#include "search/report.h"

#include <algorithm>

#include "search/scheduler.h"

namespace tcc::search {

void Counts::add(const Counts& other) {
  proposed += other.proposed, duplicate += other.duplicate, rejected += other.rejected;
  for (const auto& [reason, n] : other.rejected_by_reason) rejected_by_reason[reason] += n;
  reject_examples.insert(other.reject_examples.begin(), other.reject_examples.end());
  compiled += other.compiled, measured += other.measured, disturbed += other.disturbed;
  compile_failed += other.compile_failed;
  drafted += other.drafted, draft_rejected += other.draft_rejected, draft_duplicate += other.draft_duplicate;
  draft_legal += other.draft_legal, draft_kept += other.draft_kept, verified += other.verified;
  draft_by_kernel += other.draft_by_kernel;
  for (const auto& [reason, n] : other.without_columns) without_columns[reason] += n;
  wrong += other.wrong, crashed += other.crashed, hung += other.hung, timed_out += other.timed_out;
}

void PhaseSeconds::add(const PhaseSeconds& other){
#define TCC_X(phase) phase += other.phase;
    TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
}

Progress make_progress(Progress::Kind kind, const std::vector<TaskState>& states, int64_t at, const Session& session,
                       const TuneOptions& options, double elapsed, bool improved) {
  Progress p;
  p.kind = kind;
  p.task = at;
  p.round = session.round;
  p.trials = session.trials;
  p.trials_limit = options.trials;
  p.elapsed_seconds = elapsed;
  p.improved = improved;
  if (at < 0) return p;
  const TaskState& s = states[static_cast<size_t>(at)];
  p.workload = s.task->workload;
  p.task_trials = s.trials;
  p.best_seconds = s.best_seconds;
  p.best_gflops = s.gflops();
  p.task_counts = s.counts;
  return p;
}

Progress make_note(const std::string& text, const std::vector<TaskState>& states, const Session& session,
                   const TuneOptions& options, double elapsed) {
  Progress p = make_progress(Progress::Kind::kNote, states, -1, session, options, elapsed, false);
  p.note = text;
  return p;
}

Progress make_ranking_note(const std::vector<TaskState>& states, int64_t at, const Session& session,
                           const TuneOptions& options, double elapsed) {
  Progress p = make_progress(Progress::Kind::kNote, states, at, session, options, elapsed, false);
  const Counts& c = p.task_counts;
  const auto done = std::count_if(states.begin(), states.end(), [](const TaskState& s) { return !s.history.empty(); });
  p.note = fmt::format("{} of {} tasks: {}: {} programs ranked, {} compiled", done, states.size(), p.workload,
                       c.proposed - c.duplicate - c.rejected, c.compiled);
  return p;
}

std::vector<std::string> session_notes(const Session& session) {
  std::vector<std::string> notes;
  if (session.resumed)
    notes.push_back(
        fmt::format("going on with an interrupted run at round {}, {} trials done", session.round, session.trials));
  if (session.damaged && !session.resumed)
    notes.push_back("the checkpoint of an interrupted run is damaged or of another version of tcc: starting anew");
  if (!session.interrupted_otherwise.empty())
    notes.push_back(fmt::format(
        "a run of these tasks was interrupted, with other options ({}): this one starts anew with its records; give "
        "its options to go on with it",
        session.interrupted_otherwise));
  if (session.other_process > 0)
    notes.push_back(fmt::format(
        "process {} is on the same search right now; this run keeps a place of its own and shares the records, but "
        "tries much the same programs: give another --seed to try others",
        session.other_process));
  return notes;
}

TuneResult summarise(const std::vector<TaskState>& states, const Session& session, const PhaseSeconds& phases,
                     double elapsed, bool stopped) {
  TuneResult result;
  result.phases = phases;
  result.trials = session.trials;
  result.rounds = session.round;
  result.seconds = elapsed;
  result.stopped = stopped;
  result.resumed = session.resumed;
  for (const TaskState& s : states) {
    TaskResult t = s;
    t.key = s.task->key;
    t.workload = s.task->workload;
    t.weight = s.task->weight;
    t.best_gflops = s.gflops();
    t.design_spaces = std::ssize(s.sketches);
    t.beaten = is_beaten(states, s);
    result.tasks.push_back(std::move(t));
  }
  return result;
}

}  // namespace tcc::search
