// Why a task's schedule is what it is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/driver/bounds.h"
#include "tcc/driver/compile.h"
#include "tcc/record/record.h"
#include "tcc/search/search.h"

namespace tcc::driver {

struct ExplainedStep {
  std::string module;  // which module of the space made it; "" = a person, or a version of tcc with other modules
  std::string text;    // "split i into 4 x 8 x 6"
};
struct RejectExample {
  std::string reason;
  int64_t count = 0;
  std::string example;  // text of the first one
  std::string decisions;
};
// What became of the proposals of all tuning runs whose records these are.
struct RecordedProposals {
  int64_t proposed = 0, duplicate = 0, rejected = 0;
  std::vector<RejectExample> rejects;  // most frequent first; without decisions
};
// Another program of the task that was measured.
struct Tried {
  int64_t record = 0;                  // its number in the file of records
  double seconds = 0, ratio = 1;       // ratio: over the time of the chosen one
  std::vector<std::string> otherwise;  // the steps that the chosen schedule does not have
};
struct RecordedFailure {
  std::string status;  // "ok" too
  int64_t count = 0;
  std::string example;  // what the latest one said; "" for ok
};
struct Explanation {
  std::string key, workload;
  task::GroupNodes nodes;                                // of the model
  bool tuned = false, predicted = false;                 // predicted: by an analytical model, as `seconds` then is
  search::Source source = search::Source::kUnscheduled;  // with `reason` and `passed_over` as search::Chosen
  std::string reason;
  std::vector<std::string> passed_over;
  std::string note;         // why it is not tuned, or that it was on another number of threads
  bool calibrated = false;  // the target's analytical model holds numbers fitted to the device
  double seconds = 0, flops = 0;
  double device_seconds = 0;  // of the chosen program on a GPU, see record::Record
  record::Counts counts;
  std::vector<ExplainedStep> steps;
  std::string loops;  // the loop tree, one loop or statement a line
  int64_t design_spaces = 0, draws = 0, legal = 0;
  std::vector<RejectExample> rejects;              // of `draws` seeded draws from the design spaces
  space::SpaceReport space;                        // rejects of modules, and the design spaces that were left out
  space::RejectTally replayed;                     // design spaces whose programs are replayed step by step, by reason
  std::map<std::string, double> facts;             // what the compiler said of its code, see compiler_facts()
  int64_t scalar_vector_loops = -1;                // of the schedule's code, see codegen/llvm.h; -1: it counts none
  int64_t unaligned_vector_loops = -1;             // that the lowering unrolls instead; -1: no pass asks
  Bounds bounds;                                   // what keeps it from being faster
  std::vector<Tried> tried;                        // the fastest others on this number of threads; from the store
  RecordedProposals recorded;                      // from the store
  std::vector<RecordedFailure> failures;           // of measured candidates, by status; from the store
  std::string matrix_instruction;                  // the one that is used; "" = none
  std::vector<std::string> no_matrix_instruction;  // why none is used, or none of a warpgroup: a sentence each
};
// `name` as for show_task. `source`: how the program's model was loaded; nullptr: not known. `facts` as for
// find_bounds().
Result<Explanation> explain_task(const Program& program, const std::string& name, const record::Database* store,
                                 const target::Target& target, int64_t threads, const ModelSource* source = nullptr,
                                 const MachineFacts* facts = nullptr);

// The same of a program that was chosen already. `draws`: also draws from the design spaces, which takes longest;
// without them `draws`, `legal`, `rejects`, `space` and `replayed` stay empty.
Result<Explanation> explain_chosen(const Program& program, size_t task, const search::Chosen& chosen,
                                   const record::Database* store, const target::Target& target, int64_t threads,
                                   const ModelSource* source, const MachineFacts* facts, bool draws);

// Vectorized loops of a task's schedule that the lowering unrolls instead, because their accesses are not certain to be
// aligned. -1: no pass of the target asks, or the schedule does not replay.
int64_t count_unaligned_vector_loops(const schedule::Trace& trace, const task::Task& task,
                                     const target::Target& target);

// Adds the fates of a run's proposals for a task to the store, for explain_task.
Result<void> record_proposals(const std::string& key, const search::Counts& counts, record::Store& store);

}  // namespace tcc::driver
