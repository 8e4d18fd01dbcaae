#include "search/best.h"

#include "tcc/lower/lower.h"

namespace tcc::search {

namespace {

std::string best_key(uint64_t task, const target::Target& target, int64_t threads) {
  return fmt::format("best {} {} {}", record::hash_text(task), record::hash_text(target::feature_hash(target)),
                     threads);
}

// Stage::Lowered again from a trace; a reject means that the trace is of another version.
ir::Legal<measure::Candidate> rebuild(const TaskState& state, const std::string& trace_json, uint64_t nest,
                                      const target::Target& target) {
  Result<schedule::Trace> trace = schedule::trace_from_json(trace_json);
  if (!trace) return ir::reject(ir::RejectReason::kBadDecision, trace.error().message);
  auto arena = std::make_shared<Arena>();
  ir::Legal<ir::Kernel> kernel = schedule::replay(*trace, trace->decisions, state.task->kernel, arena);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
  if (!kernel) return tl::make_unexpected(kernel.error());
  measure::Candidate c;
  c.nest = nest;
  c.task = state.measure_task.get();
  c.kernel = std::move(*kernel);
  return c;
}

}  // namespace

Result<bool> challenge_best(TaskState& state, const record::Record& record, double clear_lead,
                            const target::Target& target, const TuneOptions& options, const Environment& env) {
  bool wins = state.best_seconds == 0 || record.median < state.best_seconds;
  if (!wins) return false;
  bool clear = state.best_seconds == 0 || record.median < (1 - clear_lead) * state.best_seconds;
  if (!clear && env.compare && state.measure_task != nullptr) {
    ir::Legal<measure::Candidate> challenger = rebuild(state, record.trace, record.nest, target);
    ir::Legal<measure::Candidate> holder = rebuild(state, state.best_trace, state.best_nest, target);
    if (challenger && holder) {
      TCC_TRY(measure::PairedComparison verdict, env.compare(*challenger, *holder));
      // A tie keeps the holder: a best that changes with the noise is no best.
      if (verdict.failure.empty()) wins = verdict.winner == measure::PairedComparison::Winner::kA;
    }
  }
  if (wins) {
    state.best_seconds = record.median;
    state.best_nest = record.nest;
    state.best_trace = record.trace;
  }
  TCC_TRY_VOID(
      env.store->save_session(best_key(state.hash, target, options.threads), record::hash_text(state.best_nest)));
  return wins;
}

Result<std::optional<record::Record>> find_best(const record::Store& store, uint64_t task, const target::Target& target,
                                                int64_t threads) {
  TCC_TRY(std::vector<record::Record> fastest, store.fastest(task, target::feature_hash(target), threads, 16));
  if (fastest.empty()) return std::optional<record::Record>{};
  TCC_TRY(std::optional<std::string> title, store.load_session(best_key(task, target, threads)));
  if (title)
    for (const record::Record& r : fastest)
      if (record::hash_text(r.nest) == *title && r.median <= 1.1 * fastest[0].median) return std::optional(r);
  return std::optional(fastest[0]);
}

}  // namespace tcc::search
