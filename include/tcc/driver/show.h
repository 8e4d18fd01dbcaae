// What tcc knows of a model and its tasks, as data for tables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"

namespace tcc::driver {

struct TensorSummary {
  std::string name, type, shape;
};
struct ModelSummary {
  std::string name, hash;
  std::vector<TensorSummary> inputs, outputs;
  std::map<std::string, int64_t> operators;  // by name, of the imported graph
  int64_t nodes = 0;
  int64_t constants = 0, constant_bytes = 0;
  double flops = 0;  // of one run, after optimization
  int64_t kernels = 0, tasks = 0;
  int64_t workspace_bytes = 0;  // values between tasks
};
Result<ModelSummary> summarise_model(const Model& model);

struct FormSummary {
  std::string form, key;  // as form_of()
  int64_t records = 0;
  double best_seconds = 0;
  bool disturbed = false;
};
struct TaskSummary {
  int64_t number = 0;
  std::string key, workload;
  task::GroupNodes nodes;
  int64_t weight = 1;
  double flops = 0;
  int64_t records = 0;  // measured and failed ones, on this target
  // Of the program that build would take (search::chosen_record); 0 = none is known.
  double best_seconds = 0;
  int64_t threads = 0;                  // that it was measured on
  bool predicted = false;               // by a model: nothing was run
  bool disturbed = false;               // other programs disturbed that time
  std::string form = {};                // the one that build takes, as form_of()
  std::vector<FormSummary> forms = {};  // all, the direct one first; empty: the task has one only
};
// store may be nullptr. `threads`: that the program is for.
Result<std::vector<TaskSummary>> summarise_tasks(const Program& program, const record::Database* store,
                                                 const target::Target& target, int64_t threads);

struct TaskDetails {
  TaskSummary summary;
  std::string nest;                       // the plain loop nest as text
  std::string trace;                      // best schedule found, as text; "" = none
  std::string program;                    // the program that build would take, at Stage::Lowered
  bool tuned = false, predicted = false;  // predicted: chosen by an analytical model
  std::string note;                       // why it is not tuned, or that it was on another number of threads
  std::map<std::string, double> facts;    // what the compiler said of its code, see compiler_facts()
};
// Of an artifact's facts those that the machine code decides: registers, spills and losses, without times.
std::map<std::string, double> compiler_facts(const std::map<std::string, double>& facts);
// In words, "168 registers, 0 bytes spilled"; "" without facts about registers.
std::string facts_text(const std::map<std::string, double>& facts);
// The index of the task with this number or key (or the start of one, at least four digits), of any of its forms.
Result<size_t> find_task(const Program& program, const std::string& name);
// `name` as for find_task.
Result<TaskDetails> show_task(const Program& program, const std::string& name, const record::Database* store,
                              const target::Target& target, int64_t threads);
// Errors (usage): the target's lowering has no pass of this name; the message names the nearest one.
Result<void> check_pass_name(const std::string& pass, const target::Target& target);
// The program that build would take, as text after one pass of its lowering. A pass that runs several times gives
// several kernels, each behind a comment that names the pass.
// Errors besides those of show_task(): as check_pass_name().
Result<std::string> show_after(const std::string& pass, const Program& program, const std::string& name,
                               const record::Database* store, const target::Target& target, int64_t threads);
// The program that build would take, at each stage: "plain" loops, "scheduled", and after each pass of its lowering.
struct Stage {
  std::string name, text;
};
Result<std::vector<Stage>> show_stages(const Program& program, const std::string& name, const record::Database* store,
                                       const target::Target& target, int64_t threads);
// Features of the program that build would take.
struct FeatureTable {
  std::string name;
  int version = 0;
  std::vector<std::string> columns;
  std::vector<std::vector<float>> rows;
};
// `row` (of the cost model's prior), `trace` (the target's table of schedule steps), and features::tables() by name.
std::vector<std::string> feature_names();
// Errors besides those of show_task(): no features have this name (usage).
Result<FeatureTable> show_features(const std::string& features, const Program& program, const std::string& name,
                                   const record::Database* store, const target::Target& target, int64_t threads);
// The source text of the program that build would take, for another compiler; the compiler here need not know the
// target. Errors besides those of show_task(): the target's kind has no source text.
Result<std::string> show_source(const Program& program, const std::string& name, const record::Database* store,
                                const target::Target& target, int64_t threads);

}  // namespace tcc::driver
