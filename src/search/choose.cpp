// Which program is built for a task: its best measured one, else its best predicted one, else that of a relative, else
// the default schedule, which is constructed or picked by a cost model and never measured.
#include <algorithm>
#include <map>
#include <set>

#include "search/anchor.h"
#include "search/best.h"
#include "search/strategy.h"
#include "search/trial.h"
#include "tcc/backend/backend.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/record/disturbed.h"
#include "tcc/search/model_measurer.h"
#include "tcc/space/space.h"
#include "tcc/support/text.h"

namespace tcc::search {
namespace {

constexpr size_t kMaxPredictions = 4;  // records that are tried until one replays
constexpr int64_t kMaxMeasured = 16;   // likewise
constexpr int64_t kConstructed = 8;    // programs of a construction that compete with draws
// See rank_programs. Of products of two inputs: about 4, 14 and 32 rows. Programs for bytes without instructions
// multiply 32-bit numbers.
constexpr double kReuseOfBytes = 3, kReuseOfTiles = 12, kReuseOfInstructions = 24;
constexpr int64_t kDefaultFinalists = 8;  // of the default schedule, tried until one compiles and spills nothing

Result<Chosen> build(const schedule::Trace& trace, std::span<const int64_t> decisions, const task::Task& task,
                     const target::Target& target) {
  auto arena = std::make_shared<Arena>();
  std::vector<int64_t> used;
  ir::Legal<ir::Kernel> kernel = schedule::replay(trace, decisions, task.kernel, arena, &used);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kNest, arena);
  Chosen chosen;
  if (kernel) chosen.nest_hash = ir::hash_kernel(*kernel);
  if (kernel) kernel = lower::lower(*kernel, target, ir::Stage::kLowered, arena);
  if (!kernel)
    return input_error("{}: {}: {}", task.workload, ir::reject_reason_name(kernel.error().reason), kernel.error().text);
  chosen.lowered = std::move(*kernel);
  schedule::Trace exact = trace;
  exact.decisions = std::move(used);
  chosen.trace = schedule::trace_to_json(exact);
  return chosen;
}

std::string seconds_text(double seconds) {
  return seconds > 0 ? fmt::format("{:.4g} us", seconds * 1e6) : "time not known";
}

// The machine whose records this one is among.
record::Machine machine_of_record(const record::Record& r) {
  return {r.target_features, r.platform};
}

std::string threads_text(int64_t n) {
  return n == 1 ? "1 thread" : fmt::format("{} threads", n);
}

std::string of_other_threads(const task::Task& task, const Chosen& chosen, int64_t threads) {
  bool parallel = false;
  ir::visit(chosen.lowered.root, [&](ir::Stmt s) {
    const ir::Loop* loop = ir::as<ir::Loop>(s);
    parallel |= loop != nullptr && loop->loop_kind == ir::LoopKind::kParallel;
    return !parallel;
  });
  return fmt::format("{}: not tuned on {}; the schedule measured on {} is used{}", task.workload, threads_text(threads),
                     threads_text(chosen.threads),
                     parallel || threads == 1 ? "" : ", which has no parallel loop and runs on 1 thread");
}

// Of a program that another kind of machine measured.
std::string of_other_platform(const task::Task& task, const record::Record& record) {
  return fmt::format("{}: not tuned on this machine; the schedule measured on another one is used ({})", task.workload,
                     sanitize(record.platform));
}

// Predictions that are ok, by predicted time: the newest of each program. Those for a target that no model predicts
// only say what was chosen: the newest first.
Result<std::vector<record::Record>> predictions(const task::Task& task, const target::Target& target,
                                                const record::Database& store) {
  TCC_TRY(std::vector<record::Record> all, store.all(task_hash(task)));
  std::map<uint64_t, record::Record> newest;
  for (record::Record& r : all)
    if (record::is_untimed(r.kind) && r.target_features == target::feature_hash(target))
      newest.insert_or_assign(r.nest_hash, std::move(r));
  std::vector<record::Record> chosen;
  for (auto& [nest, r] : newest)
    if (r.status == record::Status::kOk) chosen.push_back(std::move(r));
  const bool by_time = backend::backend_of(target).predicts;
  std::sort(chosen.begin(), chosen.end(), [&](const record::Record& x, const record::Record& y) {
    if (!by_time) return x.id > y.id;
    return x.median != y.median ? x.median < y.median : x.nest_hash < y.nest_hash;
  });
  if (chosen.size() > kMaxPredictions) chosen.resize(kMaxPredictions);
  return chosen;
}

std::string of_disturbed_time(const task::Task& task) {
  return fmt::format(
      "{}: other programs disturbed its time, and no other program of the task has an undisturbed one that is near; "
      "`tcc tune` takes it anew",
      task.workload);
}

// What becomes of a program that was chosen: compiled, or left as it is. An environment error means that nothing can be
// compiled here; other errors speak of this program.
using Finish = std::function<Result<ChosenArtifact>(Chosen)>;

class Chooser {
 public:
  Chooser(const task::Task& task, const target::Target& target, const record::Database* store, int64_t threads,
          const Gate& gate, const Defaults& defaults, Finish finish)
      : task_(task),
        target_(target),
        backend_(backend::backend_of(target)),
        store_(store),
        threads_(backend_.by_threads ? threads : 1),
        gate_(gate),
        defaults_(defaults),
        finish_(std::move(finish)) {}

  Result<ChosenArtifact> choose() {
    std::optional<ChosenArtifact> found;
    if (store_ != nullptr) {
      TCC_TRY(found, from_measurements());
      if (!found && backend_.predicts) {
        TCC_TRY(found, from_predictions());
      }
      if (!found) {
        TCC_TRY(found, from_relative());
      }
      if (!found && !backend_.predicts) {
        TCC_TRY(found, from_predictions());
      }
    }
    if (!found) {
      TCC_TRY(found, by_default());
    }
    found->program.passed_over = std::move(passed_over_);
    return std::move(*found);
  }

 private:
  std::string untuned(const std::string& instead) const {
    return fmt::format("{}: not tuned for {} ({}); {}", task_.workload, target_.name, why_, instead);
  }

  // Of the best measurement that gives its program.
  Result<std::optional<ChosenArtifact>> from_measurements() {
    TCC_TRY(std::optional<record::Record> best, find_best(*store_, task_hash(task_), target_, threads_));
    if (!best) return std::optional<ChosenArtifact>();
    std::vector<record::Record> records;
    records.push_back(std::move(*best));
    return first_that_replays(std::move(records), true);
  }

  Result<std::optional<ChosenArtifact>> from_predictions() {
    TCC_TRY(std::vector<record::Record> records, predictions(task_, target_, *store_));
    TCC_TRY(std::optional<ChosenArtifact> found, first_that_replays(std::move(records), false));
    if (found && !found->program.tuned)
      found->program.note =
          untuned(fmt::format("the schedule that was {} for it is used", source_name(found->program.source)));
    return found;
  }

  // `measured`: where the first one fails, the next fastest on its machine follow.
  Result<std::optional<ChosenArtifact>> first_that_replays(std::vector<record::Record> records, bool measured) {
    for (size_t i = 0; i < records.size(); ++i) {
      Result<ChosenArtifact> found = of_record(records[i]);
      if (found) return std::optional(std::move(*found));
      if (found.error().cls == ErrorClass::kEnvironment) return tl::make_unexpected(std::move(found).error());
      passed_over_.push_back(fmt::format("record {} ({}, {}): {}", records[i].id, record::kind_name(records[i].kind),
                                         seconds_text(records[i].median), found.error().message));
      why_ = passed_over_.back();
      if (i > 0 || !measured) continue;
      TCC_TRY(std::vector<record::Record> more,
              store_->fastest(task_hash(task_), machine_of_record(records[0]), records[0].threads, kMaxMeasured));
      for (record::Record& r : more)
        if (r.nest_hash != records[0].nest_hash) records.push_back(std::move(r));
    }
    return std::optional<ChosenArtifact>();
  }

  // Files of records are believed where what they say is possible: a typed or forged time would win for ever.
  bool is_possible(const record::Record& r) const {
    constexpr double kLeastSeconds = 1e-9, kTimesPeak = 64;  // shorter types and Winograd forms pass the peak of f32
    if (r.median < kLeastSeconds) return false;
    return !(target_.peak.fp32 > 0) || task_.flops / r.median <= kTimesPeak * target_.peak.fp32;
  }

  Result<ChosenArtifact> of_record(const record::Record& r) const {
    if (!record::is_untimed(r.kind) && !is_possible(r))
      return input_error("{} for {:.3g} MFLOP is impossible on {}", seconds_text(r.median), task_.flops / 1e6,
                         target_.name);
    TCC_TRY(schedule::Trace trace, schedule::trace_from_json(r.trace));
    Result<Chosen> chosen = build(trace, trace.decisions, task_, target_);
    if (!chosen) return input_error("it does not replay: {}", chosen.error().message);
    if (chosen->nest_hash != r.nest_hash) return input_error("it gives another program with this version of tcc");
    chosen->predicted = record::is_untimed(r.kind);
    chosen->tuned = !chosen->predicted || backend_.predicts;
    chosen->source = r.kind == record::Kind::kConstructed ? Source::kConstructed
                     : chosen->predicted                  ? Source::kPredicted
                                                          : Source::kMeasured;
    chosen->seconds = r.median;
    chosen->threads = r.threads;
    if (!chosen->predicted && !record::is_of(r, machine_of(target_)))
      chosen->note = of_other_platform(task_, r);
    else if (backend_.by_threads && r.threads != threads_)
      chosen->note = of_other_threads(task_, *chosen, threads_);
    else if (record::is_disturbed(r))
      chosen->note = of_disturbed_time(task_);
    return finish_(std::move(*chosen));
  }

  Result<std::optional<ChosenArtifact>> from_relative() {
    std::string relatives;
    TCC_TRY(std::optional<Chosen> taken, relative_program(task_, target_, *store_, threads_, gate_, relatives));
    if (!taken) {
      why_ += relatives;
      return std::optional<ChosenArtifact>();
    }
    taken->source = Source::kRelative;
    taken->note = untuned(taken->note);
    TCC_TRY(ChosenArtifact found, finish_(std::move(*taken)));
    return std::optional(std::move(found));
  }

  // The model's best that compiles without spills and losses (compiler_factor); else its best that compiles; else the
  // plain loops.
  Result<ChosenArtifact> by_default() {
    std::optional<ChosenArtifact> lossy;
    TCC_TRY(const Ranking ranking, rank_programs(task_, target_, threads_, kDefaultFinalists, defaults_));
    std::string refused = ranking.reject;
    for (const RankedProgram& program : ranking.programs) {
      Result<Chosen> chosen = build(program.trace, program.trace.decisions, task_, target_);
      if (!chosen) {
        refused = chosen.error().message;
        continue;
      }
      const bool simple = program.constructed && ranking.rule == construct::kSimpleSchedule;
      chosen->source = simple ? Source::kSimple : program.constructed ? Source::kConstructed : Source::kPicked;
      chosen->reason = ranking.reason;
      if (chosen->source == Source::kConstructed)
        chosen->reason = ranking.rule + (ranking.reason.empty() ? "" : ": " + ranking.reason);
      chosen->note = untuned(default_text(*chosen, ranking));
      Result<ChosenArtifact> found = finish_(std::move(*chosen));
      if (!found && found.error().cls != ErrorClass::kEnvironment) {
        refused = found.error().message;
        continue;
      }
      if (!found || compiler_factor(found->artifact) == 1) return found;
      if (!lossy) lossy = std::move(*found);
    }
    if (lossy) return std::move(*lossy);
    TCC_TRY(Chosen plain, unscheduled_program(task_, target_));
    plain.reason = refused.empty() ? "no design space has a program for it" : refused;
    plain.note = untuned(fmt::format("the unscheduled loops are used: {}", plain.reason));
    return finish_(std::move(plain));
  }

  static std::string default_text(const Chosen& chosen, const Ranking& ranking) {
    if (chosen.source == Source::kConstructed)
      return fmt::format("the default schedule is used, constructed by {}", chosen.reason);
    const std::string why = ranking.rule == construct::kSimpleSchedule
                                ? fmt::format(" (no construction fits: {})", ranking.reason)
                                : std::string();
    if (chosen.source == Source::kSimple) return "the simple schedule of its design space is used" + why;
    return "the default schedule is used, the cost model's pick" + why;
  }

  const task::Task& task_;
  const target::Target& target_;
  const backend::Backend& backend_;
  const record::Database* store_;
  const int64_t threads_;
  const Gate& gate_;
  const Defaults& defaults_;
  const Finish finish_;
  std::string why_ = "the store has no valid measurement or prediction of it";
  std::vector<std::string> passed_over_;
};

Finish compile_for(const target::Target& target, const std::string& prefix) {
  return [&target, prefix](Chosen chosen) -> Result<ChosenArtifact> {
    TCC_TRY(codegen::Artifact artifact,
            backend::backend_of(target).compile(chosen.lowered, target, {.prefix = prefix}));
    return ChosenArtifact{std::move(chosen), std::move(artifact)};
  };
}

Result<ChosenArtifact> leave(Chosen chosen) {
  return ChosenArtifact{std::move(chosen), {}};
}

}  // namespace

namespace {

// Products for each element of inputs and outputs: what packing them for an instruction is spread over. Constants are
// packed ahead.
double reuse(const task::Task& task) {
  double elements = 0;
  for (const ir::Buffer* b : task.kernel.buffers) {
    if (b->role != ir::BufferRole::kInput && b->role != ir::BufferRole::kOutput) continue;
    double count = 1;
    for (ir::Expr extent : b->shape) count *= ir::is_int(extent) ? static_cast<double>(ir::int_value(extent)) : 1;
    elements += count;
  }
  return task.flops / 2 / std::max(elements, 1.0);
}

double least_reuse(const task::Task& task, const target::Target& target) {
  const bool bytes = std::any_of(task.kernel.buffers.begin(), task.kernel.buffers.end(), [](const ir::Buffer* b) {
    return b->role != ir::BufferRole::kOutput && ir::type_bytes(b->type) == 1;
  });
  if (bytes) return kReuseOfBytes;
  return target.cpu.features.amx_bf16 ? kReuseOfTiles : kReuseOfInstructions;
}

bool uses_instruction(const schedule::Trace& trace) {
  return std::any_of(trace.instructions.begin(), trace.instructions.end(),
                     [](const schedule::Instruction& i) { return i.op == schedule::Op::kTensorize; });
}

Result<Ranking> rank_in(const std::vector<schedule::Trace>& space, const task::Task& task, const target::Target& target,
                        int64_t threads, int64_t count, const Defaults& defaults) {
  const backend::Backend& backend = backend::backend_of(target);
  TaskState state;
  state.task = &task;
  state.hash = task_hash(task);
  TuneOptions options;
  options.threads = threads;
  options.explore = 0;
  options.space = defaults.space;
  options.population = backend.default_draws;
  options.generations = backend.default_generations;
  Settings settings = ranking_settings_for(target);
  settings.evolution.first_draws = backend.default_draws;
  // Where the scores are the predicted times, neighbors of the best are scored as often as that finds better ones.
  if (!backend.predicts) settings.evolution.polishings = 1;
  RoundPlan plan{.count = count};
  Ranking out;
  for (const schedule::Trace& trace : space) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target);
    if (!sketch) {
      out.reject = fmt::format("{}: {}", ir::reject_reason_name(sketch.error().reason), sketch.error().text);
      continue;
    }
    plan.seeds.push_back({static_cast<int32_t>(state.sketches.size()), sketch->trace.decisions});
    state.sketches.push_back(std::move(*sketch));
  }
  if (state.sketches.empty()) return out;
  std::vector<schedule::Trace> traces;
  for (const space::Sketch& sketch : state.sketches) traces.push_back(sketch.trace);
  construct::Construction made = construct::construct(traces, task.kernel, target,
                                                      {.threads = threads, .most = kConstructed, .seed = options.seed});
  out.rule = std::move(made.rule);
  out.reason = std::move(made.reason);
  std::set<std::pair<int32_t, std::vector<int64_t>>> constructed;
  for (construct::Program& p : made.programs) {
    constructed.emplace(static_cast<int32_t>(p.trace), p.decisions);
    plan.seeds.push_back({static_cast<int32_t>(p.trace), std::move(p.decisions)});
  }
  TCC_TRY(
      const std::unique_ptr<cost::CostModel> model,
      cost::make_model({.name = defaults.cost_model.empty() ? std::string(backend.default_model) : defaults.cost_model,
                        .pretrained = std::string(cost::kShipped),
                        .adaptation = cost::Adaptation::kNone,
                        .trace = backend.trace_table},
                       backend.prior(target)));
  const Rng rng = Rng(options.seed).fork(state.hash);
  Counts counts;
  for (const Individual& i : make_strategy(Strategy::kEvolutionary)
                                 ->propose({state, *model, plan, target, options, settings, rng, nullptr}, counts))
    out.programs.push_back({trace_of(state, i.sketch, i.decisions), constructed.contains({i.sketch, i.decisions})});
  if (out.programs.empty() && !counts.reject_examples.empty())
    out.reject = fmt::format("{}: {}", counts.reject_examples.begin()->first, counts.reject_examples.begin()->second);
  return out;
}

}  // namespace

Result<Ranking> rank_programs(const task::Task& task, const target::Target& target, int64_t threads, int64_t count,
                              const Defaults& defaults) {
  std::vector<schedule::Trace> space = space::generate_space(task.kernel, target, defaults.space);
  // Programs by matrix or dot-product instructions are ahead of all others by far where packing pays. The networks do
  // not know: the programs that they learned from have none.
  if (!backend::backend_of(target).predicts && reuse(task) >= least_reuse(task, target)) {
    std::vector<schedule::Trace> by_instruction;
    std::copy_if(space.begin(), space.end(), std::back_inserter(by_instruction), uses_instruction);
    if (!by_instruction.empty() && by_instruction.size() < space.size()) {
      TCC_TRY(Ranking ranking, rank_in(by_instruction, task, target, threads, count, defaults));
      if (!ranking.programs.empty()) return ranking;
    }
  }
  return rank_in(space, task, target, threads, count, defaults);
}

std::string_view source_name(Source source) {
  constexpr std::string_view kNames[] = {
#define TCC_X(name, text) text,
      TCC_SCHEDULE_SOURCES(TCC_X)
#undef TCC_X
  };
  return kNames[static_cast<size_t>(source)];
}

Result<Chosen> program_of_trace(const schedule::Trace& trace, const task::Task& task, const target::Target& target) {
  return build(trace, trace.decisions, task, target);
}

Result<Chosen> unscheduled_program(const task::Task& task, const target::Target& target) {
  TCC_TRY(Chosen chosen, build(schedule::Trace{}, {}, task, target));
  chosen.note = "the unscheduled loops";
  return chosen;
}

Result<std::optional<record::Record>> chosen_record(const task::Task& task, const target::Target& target,
                                                    const record::Database& store, int64_t threads) {
  const backend::Backend& backend = backend::backend_of(target);
  TCC_TRY(std::optional<record::Record> best,
          find_best(store, task_hash(task), target, backend.by_threads ? threads : 1));
  if (best || !backend.predicts) return best;
  TCC_TRY(std::vector<record::Record> predicted, predictions(task, target, store));
  return predicted.empty() ? std::optional<record::Record>() : std::optional(std::move(predicted[0]));
}

Result<Chosen> choose_program(const task::Task& task, const target::Target& target, const record::Database* store,
                              int64_t threads, const Gate& gate, const Defaults& defaults) {
  TCC_TRY(ChosenArtifact chosen, Chooser(task, target, store, threads, gate, defaults, leave).choose());
  return std::move(chosen.program);
}

Result<ChosenArtifact> best_artifact(const task::Task& task, const target::Target& target,
                                     const record::Database* store, int64_t threads, const std::string& prefix,
                                     const Gate& gate, const Defaults& defaults) {
  return Chooser(task, target, store, threads, gate, defaults, compile_for(target, prefix)).choose();
}

Result<ChosenArtifact> default_artifact(const task::Task& task, const target::Target& target, int64_t threads,
                                        const Defaults& defaults) {
  const Gate none;
  Result<ChosenArtifact> chosen =
      Chooser(task, target, nullptr, threads, none, defaults, compile_for(target, "kernel")).choose();
  if (chosen || chosen.error().cls != ErrorClass::kEnvironment) return chosen;
  return Chooser(task, target, nullptr, threads, none, defaults, leave).choose();
}

Result<Chosen> built_program(const task::Task& task, const target::Target& target, const record::Database* store,
                             int64_t threads, const Defaults& defaults) {
  Result<ChosenArtifact> chosen = best_artifact(task, target, store, threads, "kernel", {}, defaults);
  if (chosen) {
    chosen->program.facts = std::move(chosen->artifact.facts);
    return std::move(chosen->program);
  }
  if (chosen.error().cls == ErrorClass::kEnvironment) return choose_program(task, target, store, threads, {}, defaults);
  return tl::make_unexpected(std::move(chosen).error());
}

}  // namespace tcc::search
