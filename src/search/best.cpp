#include "search/best.h"

#include "search/trial.h"
#include "tcc/lower/lower.h"

namespace tcc::search {

namespace {

std::string best_key(uint64_t task, const target::Target& target, int64_t threads) {
  return fmt::format("best {} {} {}", record::hash_text(task), record::hash_text(target::feature_hash(target)),
                     threads);
}

constexpr size_t kFinalists = 4;
constexpr double kClearLead = 0.06;  // who is further behind the fastest is no finalist

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

}  // namespace

Result<void> save_title(const TaskState& state, const target::Target& target, const TuneOptions& options,
                        record::Store& store) {
  if (state.best_seconds <= 0) return {};
  return store.save_session(best_key(state.hash, target, options.threads), record::hash_text(state.best_nest));
}

Result<bool> hold_final(TaskState& state, const target::Target& target, const TuneOptions& options,
                        const Environment& env) {
  if (!env.compare || state.measure_task == nullptr) return false;
  std::vector<const Known*> finalists = fastest_known(state.known, kFinalists);
  std::erase_if(finalists, [&](const Known* k) { return k->seconds * (1 - kClearLead) > finalists[0]->seconds; });
  if (finalists.size() < 2) return false;
  const Known* holder = finalists[0];
  ir::Legal<measure::Candidate> held = rebuild(state, *holder, target);
  for (size_t i = 1; held && i < finalists.size(); ++i) {
    if (env.stop && env.stop()) return false;
    ir::Legal<measure::Candidate> challenger = rebuild(state, *finalists[i], target);
    if (!challenger) continue;
    TCC_TRY(measure::PairedComparison verdict, env.compare(*challenger, *held));
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

Result<std::optional<record::Record>> best_record(const task::Task& task, const target::Target& target,
                                                  const record::Store& store, int64_t threads) {
  return find_best(store, task_hash(task), target, threads);
}

}  // namespace tcc::search
