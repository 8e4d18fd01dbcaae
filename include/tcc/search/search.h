// Tuning: rounds of proposing, measuring and learning over one or many tasks.
//
// A round's proposals depend only on the seed, the options, the records in the order of proposal and the cost model,
// which is itself a function of the records. The session row in the store makes an interrupted run go on with the same
// proposals; what an interrupted round had measured already is taken from its records.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/construct/construct.h"
#include "tcc/cost/cost_model.h"
#include "tcc/cost/draft.h"
#include "tcc/ir/kernel.h"
#include "tcc/measure/measurement.h"
#include "tcc/record/store.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/settings.h"
#include "tcc/space/space.h"
#include "tcc/support/parallel.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::search {

// How programs are proposed:
//   evolutionary  mutation and crossing of the best under the cost model, parents in proportion to predicted speed
//   mh            annealed Metropolis-Hastings chains under the cost model
//   random        independent draws from the design spaces
//   replay        the best programs known of related tasks and other numbers of threads, then the design spaces' traces
//                 in turn, each with fresh decisions
//   roller        what Roller constructs of the design spaces, best first by the cost model; then nothing more
//   gensor        the same with Gensor's walks
//   pruner        the best of hundreds of thousands by the draft model and random draws, verified by the cost model
//   moa-pruner    the same with a checkpoint that momentum adaptation fits to what is measured
// clang-format off
#define TCC_SEARCH_STRATEGIES(X) \
  X(Evolutionary, "evolutionary") X(Metropolis, "mh") X(Random, "random") X(Replay, "replay") \
  X(Roller, "roller") X(Gensor, "gensor") X(Pruner, "pruner") X(MoaPruner, "moa-pruner")
// clang-format on
enum class Strategy : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_SEARCH_STRATEGIES(TCC_X)
#undef TCC_X
};
inline constexpr bool drafts(Strategy s) {
  return s == Strategy::kPruner || s == Strategy::kMoaPruner;
}
std::vector<std::string> strategy_names();
std::string_view strategy_name(Strategy strategy);
// Unknown names are usage errors that list the nearest.
Result<Strategy> parse_strategy(std::string_view name);

// Which task gets the next round.
//   gradient      the one with the most to gain
//   round-robin   the one that has waited longest
#define TCC_TASK_SCHEDULERS(X) X(Gradient, "gradient") X(RoundRobin, "round-robin")
enum class TaskScheduler : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_TASK_SCHEDULERS(TCC_X)
#undef TCC_X
};
std::vector<std::string> task_scheduler_names();
Result<TaskScheduler> parse_task_scheduler(std::string_view name);
// Those of cost::model_kinds().
std::vector<std::string> cost_model_names();

// TuneOptions::constructed where nobody says otherwise. Constructions lead where most draws are slow or illegal: in
// wide spaces and on GPUs. Spaces that are shaped by hand begin well without.
int64_t default_constructed(const target::Target& target, const space::SpaceOptions& space);

// The machine that runs programs for the target, as records are looked up.
record::Machine machine_of(const target::Target& target);

// Of the strategies that draft (Pruner, Algorithms 1 and 2).
struct Drafting {
  cost::DraftOptions model;        // "SA"; what it leaves out are ablations of P_c and P_m
  int64_t drafts = 512;            // |S_spec|, of a round
  bool explore = true;             // false: as many random programs instead of drafts (no LSE)
  int64_t verify_generations = 0;  // bred by the model from the drafts: 0 (paper), 1 (released), -1 (the backend's)
};

struct TuneOptions {
  int64_t trials = 1000;        // measurements over all tasks; 0 = as the other limits say
  int64_t trials_per_task = 0;  // 0 = no limit of its own
  // Wall time, finals included; 0 = no limit. Looked at every few programs; what is measured is kept.
  double seconds = 0;
  uint64_t seed = 1;
  Strategy strategy = Strategy::kEvolutionary;
  TaskScheduler scheduler = TaskScheduler::kGradient;
  std::string cost_model = "trees";                      // by which strategies rank programs, see cost::model_kinds()
  std::string pretrained;                                // as cost::ModelSetup
  cost::Adaptation adaptation = cost::Adaptation::kMoa;  // of the checkpoint to what is measured
  std::optional<Settings> settings = {};                 // nullopt: settings_for(target)
  space::SpaceOptions space = {};                        // what is searched
  int64_t threads = 1;                                   // that the programs run on, as the measurer was told
  // Tasks whose rounds are planned and measured together; 0 = as the measurer says. The search depends on it.
  int64_t tasks_at_once = 0;
  int64_t round_size = 32;   // most measurements a round; fewer where the trials are few
  int64_t population = 512;  // of a generation
  int64_t generations = 4;
  double explore = 0.05;  // least share of a round's picks that are drawn at random, more at first; 0 = none
  // The number of programs that Roller and Gensor construct of a task, at most, and that its search begins with. 0:
  // none. Strategies that have no first generation do without.
  int64_t constructed = 0;
  construct::Options construction = {};  // of what is constructed; `method`, `threads` and `seed` are the search's
  Drafting drafting = {};                // of the strategies that draft
  bool statement_branch = true, dataflow_branch = true;  // as cost::ModelSetup
  bool finals = true;                                    // time the fastest programs of each task again at the end
  double finals_share = 0.1;                             // of the run, at most; 1: as long as they take
  bool resume = true;  // go on with an interrupted run of the same tasks, target and options
  // Tasks with one number are forms of one computation, of which one is built: they share its trials, and those that
  // stay behind get no more. One number a task; empty: every task is built.
  std::vector<int64_t> choices = {};
  // In which turn each of the forms has its first round: those of turn 0 before all of turn 1. Empty: in any.
  std::vector<int64_t> turns = {};
};

// What became of proposals. A proposal is duplicate, rejected or measured; a measured one has a status.
struct Counts {
  int64_t proposed = 0, duplicate = 0, rejected = 0;
  std::map<std::string, int64_t> rejected_by_reason;
  std::map<std::string, std::string> reject_examples;  // the text of the first one, by reason
  int64_t compiled = 0, measured = 0;                  // handed over and compiled; ran, was right and was timed
  int64_t disturbed = 0;  // of the measured: other programs disturbed the time, and it was not measured again since
  int64_t compile_failed = 0, wrong = 0, crashed = 0, hung = 0, timed_out = 0;
  // Of the strategies that draft, before any of this: drafted = rejected + duplicate + legal and new. `draft_kept` of
  // them were proposed, and `verified` programs were scored by the cost model. draft_by_kernel: of drafted, those for
  // which a kernel was made because no array program knows them.
  int64_t drafted = 0, draft_rejected = 0, draft_duplicate = 0, draft_legal = 0, draft_kept = 0, verified = 0;
  int64_t draft_by_kernel = 0;
  std::map<std::string, int64_t> without_columns;  // sketches that have no array program, by the reason
  void add(const Counts& other);
};

struct Progress {
  enum class Kind : uint8_t { kStarted, kRound, kTaskFinished, kFinished, kNote, kFinals };
  Kind kind = Kind::kRound;
  int64_t task = -1;  // index; -1 when it concerns none
  std::string workload;
  int64_t round = 0;                     // of all tasks
  int64_t trials = 0, trials_limit = 0;  // over all tasks
  int64_t task_trials = 0;
  double best_seconds = 0;  // of the task; 0 = none yet
  double best_gflops = 0;
  double elapsed_seconds = 0;
  double remaining_seconds = -1;              // until the end of the run, finals included; below 0: not known
  int64_t finals_done = 0, finals_total = 0;  // kFinals: tasks whose fastest programs were compared
  bool improved = false;                      // this round found a new best
  Counts task_counts;                         // since the start of this run
  std::string note;                           // kNote: a sentence for the user
};

// The world around a search, wired by the caller. Pointers must outlive the run.
struct Environment {
  record::Store* store = nullptr;
  // Read as well, never written: its fastest programs of these tasks, and of tasks with the same anchor, are among the
  // first to be measured here. nullptr: nothing.
  const record::Database* others = nullptr;
  measure::Measurer* measurer = nullptr;
  ThreadPool* pool = nullptr;  // proposing and lowering; nullptr = this thread
  // Called with each task that the measurer has prepared, before the task's first round; may be empty. An Error gives
  // the task up.
  std::function<Result<void>(const task::Task&, const measure::MeasureTask*)> before_first_round;
  std::function<bool()> stop;                     // true: end after the measurements under way; may be empty
  std::function<void(const Progress&)> progress;  // may be empty
  std::function<int64_t()> now;                   // unix time of records; empty: the system clock
  std::string tool_version;                       // written into records
  // Makes the model from the target's prior; TuneOptions::cost_model then only names it. Empty: cost::make_model does.
  std::function<Result<std::unique_ptr<cost::CostModel>>(std::unique_ptr<cost::CostModel> prior)> make_model;
};

struct TaskResult {
  std::string key, workload;
  int64_t weight = 1;
  int64_t trials = 0;           // of this run
  double best_seconds = 0;      // 0 = nothing valid is known
  bool best_disturbed = false;  // other programs disturbed that time, and no undisturbed one is known
  double best_gflops = 0;
  double first_seconds = 0;  // best at the end of the task's first round
  uint64_t best_nest_hash = 0;
  std::string best_trace;  // JSON; "" = none
  int64_t design_spaces = 0;
  bool exhausted = false;  // nothing new was found any more
  bool beaten = false;     // another form of its choice is so much faster that it got no more trials
  std::string failure;     // why the task could not be tuned at all; "" otherwise
  Counts counts;
};
// Where the wall time of a run went. X(phase): library: programs of effort 0, before the search;
// load: design spaces and former records; prepare: waiting for inputs and
// references; baseline: Environment::before_first_round; compile: compiling while nothing is measured; measure:
// checking and timing.
// clang-format off
#define TCC_SEARCH_PHASES(X) \
  X(library) X(load) X(prepare) X(baseline) X(propose) X(learn) X(compile) X(measure) X(finals)
// clang-format on
struct PhaseSeconds {
#define TCC_X(phase) double phase = 0;
  TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
  void add(const PhaseSeconds& other);
};
struct TuneResult {
  std::vector<TaskResult> tasks;
  PhaseSeconds phases;
  int64_t trials = 0, rounds = 0;
  double seconds = 0;
  bool stopped = false;  // by env.stop; the same call goes on from here
  bool resumed = false;
};

// Errors: no limit of trials or time, the store cannot be written, measuring is impossible. Whatever a candidate does
// is not an error.
Result<TuneResult> tune(std::span<const task::Task> tasks, const target::Target& target, const TuneOptions& options,
                        const Environment& env);

// The number of a task in records: its key, 16 hexadecimal digits.
uint64_t task_hash(const std::string& key);
inline uint64_t task_hash(const task::Task& task) {
  return task_hash(task.key);
}

// --- programs for building ----------------------------------------------------------------------------------------

// Where the schedule of a chosen program comes from. X(Name, text)
//   measured     the best measurement
//   predicted    a record of a program that a model chose, or that was constructed; nothing was run
//   relative     the schedule of a task with the same anchor, gated here
//   constructed  formulas for tiles (construct::construct), and no draw is predicted to be faster
//   picked       the cost model's first of a few hundred draws from the design spaces
//   simple       each tile as the design space begins with it: no construction fits the operator
//   unscheduled  the plain loops: no design space gives a legal program
// clang-format off
#define TCC_SCHEDULE_SOURCES(X) \
  X(Measured, "measured") X(Predicted, "predicted") X(Relative, "relative") X(Constructed, "constructed") \
  X(Picked, "picked") X(Simple, "simple schedule") X(Unscheduled, "unscheduled loops")
// clang-format on
enum class Source : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_SCHEDULE_SOURCES(TCC_X)
#undef TCC_X
};
std::string_view source_name(Source source);

struct Chosen {
  ir::Kernel lowered;      // Stage::Lowered; weights' layouts are in its buffers
  uint64_t nest_hash = 0;  // hash at Stage::Nest
  std::string trace;       // JSON
  // From a record: a measured one, or a prediction for a target that models predict. Else the default schedule, or a
  // CPU's record of what effort 0 chose.
  bool tuned = false;
  bool predicted = false;  // that record is a prediction: nothing was run
  Source source = Source::kUnscheduled;
  // Of kConstructed: which construction. Of the sources after it: why no construction fits, "": it fits, but a draw is
  // predicted to be faster.
  std::string reason;
  // The better records that were passed over, each with its number and why: they no longer give their programs.
  std::vector<std::string> passed_over;
  double seconds = 0;   // measured or predicted time; 0 when untuned
  int64_t threads = 0;  // that the record was measured on; 0 when untuned
  // Not tuned itself: the workload with the same anchor, or of the nearest shape, whose schedule this is, replayed here
  // and checked; "" = none.
  std::string relative;
  // For the user: why it is not tuned, or that its record is of another number of threads; "" when neither.
  std::string note;
  std::map<std::string, double> facts;  // of the code, by built_program(); empty: the compiler is missing
};
// Whether a program of this task gives right results: makes it, runs it, and says what is wrong.
using Gate = std::function<Result<void>(const task::Task&, const Chosen&)>;
// The measurer's numeric gate, which the measurer must outlive. `turns` is held while a program runs, and calls on
// several threads make their inputs and references at once; without it: one call at a time.
Gate make_gate(measure::Measurer& measurer, const target::Target& target, std::mutex* turns = nullptr);

// How a task's default schedule is chosen.
struct Defaults {
  space::SpaceOptions space = {};
  // Of cost::model_kinds(), with the checkpoint that ships for the target; "": the backend's default_model.
  std::string cost_model = {};
};

// The program of the task's best measurement, replayed: on `threads` threads, else on the nearest number of threads.
// Without one, the best prediction; else the schedule of a task with the same anchor, or of the nearest shape, that
// `gate` lets through; else the best by a cost model of a few hundred draws from the design spaces. `note` says which
// and why. store may be nullptr. Errors: not even the unscheduled kernel can be lowered; no model has the name.
Result<Chosen> choose_program(const task::Task& task, const target::Target& target, const record::Database* store,
                              int64_t threads, const Gate& gate = {}, const Defaults& defaults = {});
// The record whose program that is, where one says so: measured, else predicted where models predict the target. It is
// the one number for a task's time: of `tcc tune`, `show`, `explain`, `build` and the metadata of libraries.
Result<std::optional<record::Record>> chosen_record(const task::Task& task, const target::Target& target,
                                                    const record::Database& store, int64_t threads);
// What a construction makes of a task, best first by the cost model, and within the target's limits.
struct ConstructedPrograms {
  std::vector<schedule::Trace> traces;
  std::string rule, reason;  // see construct::Construction
};
// The design spaces of options.space, or those of its rules alone where it is the wide one; strategy roller or gensor;
// options.cost_model orders, and construct::Order::kDiscovery does not ask it. At most `count` programs. One thread.
// Errors: those of cost::make_model.
Result<ConstructedPrograms> construct_programs(const task::Task& task, const target::Target& target, int64_t count,
                                               const TuneOptions& options);
// The program of a trace from any source. Errors: it does not replay or lower, and why.
Result<Chosen> program_of_trace(const schedule::Trace& trace, const task::Task& task, const target::Target& target);
// What a record says of the task, the target and the program before anything is known of its time.
record::Record program_record(const task::Task& task, const target::Target& target, const schedule::Trace& trace,
                              uint64_t nest_hash);
// Seconds that a chosen program is expected to take: by the target's model of compiled code, else by its prior where
// that means seconds, else by the draft model (tcc/cost/draft.h). 0: none of them says anything of it.
double predicted_seconds(const Chosen& program, const codegen::Artifact& artifact, const task::Task& task,
                         const target::Target& target, int64_t threads);
// The naive kernel as it is.
Result<Chosen> unscheduled_program(const task::Task& task, const target::Target& target);

struct ChosenArtifact {
  Chosen program;
  codegen::Artifact artifact;
};
// The same, compiled under tcc_<prefix>_<n>. A program that does not compile is passed over, and a default schedule
// with a compiler_factor() above 1 is taken only where every other has one. Errors: the target's compiler is missing
// (environment).
Result<ChosenArtifact> best_artifact(const task::Task& task, const target::Target& target,
                                     const record::Database* store, int64_t threads, const std::string& prefix,
                                     const Gate& gate = {}, const Defaults& defaults = {});
// The default schedule, whatever is in a store; not compiled where the target's compiler is missing.
Result<ChosenArtifact> default_artifact(const task::Task& task, const target::Target& target, int64_t threads,
                                        const Defaults& defaults = {});
// The program of best_artifact, or of choose_program where the target's compiler is missing.
Result<Chosen> built_program(const task::Task& task, const target::Target& target, const record::Database* store,
                             int64_t threads, const Defaults& defaults = {});

}  // namespace tcc::search
