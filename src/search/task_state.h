// What a search knows about one task. Private to the room.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tcc/cost/cost_model.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/space/sketch.h"

namespace tcc::search {

// A program that may be measured.
struct Individual {
  int32_t sketch = -1;
  std::vector<int64_t> decisions;
  uint64_t nest_hash = 0;
  features::Sample sample = {};
  float score = 0;
};

// A program that has been measured; in the order of its record.
struct Known {
  int64_t record = 0;   // id in the store
  int32_t sketch = -1;  // -1: of a skeleton outside of today's design spaces
  std::vector<int64_t> decisions;
  uint64_t nest_hash = 0;
  features::Sample sample = {};  // empty: the program no longer replays
  double seconds = 0;            // 0: it failed
  bool disturbed = false;        // see record::is_disturbed
};

// A program that was good elsewhere and may be good here.
struct Seed {
  int32_t sketch = -1;
  std::vector<int64_t> decisions;
};

// A record of another task.
struct RecordName {
  uint64_t task = 0;
  int64_t record = 0;
};

// The anchor's nest without its extents, and these, outermost loop first. Family 0: an extent is not a number.
struct AnchorShape {
  uint64_t family = 0;
  std::vector<int64_t> extents;
};

// What the report says of the task comes about here; see summarise().
struct TaskState : TaskResult {
  const task::Task* task = nullptr;
  uint64_t hash = 0, anchor = 0;
  int64_t choice = -1;  // as in TuneOptions::choices; -1: none but itself
  int64_t turn = 0;     // as in TuneOptions::turns
  AnchorShape shape;
  std::vector<space::Sketch> sketches;
  std::vector<Known> known;
  std::vector<Known> elsewhere;  // on another number of threads; oldest first, for the model only
  // The fastest of those, those of tasks with the same anchor or the nearest shapes of it, and for a GPU those that a
  // model predicts to be.
  std::vector<Seed> seeds;
  std::vector<RecordName> relatives;      // whose programs are among the seeds; a resumed session keeps them
  std::unordered_set<uint64_t> measured;  // nests, whatever came of them
  std::unordered_map<uint64_t, record::Record> interrupted;  // measured by the round that an interruption cut off
  std::shared_ptr<const measure::MeasureTask> measure_task;
  uint64_t run = 0;  // see measure::Candidate

  std::vector<double> history;  // best seconds after each round; 0 = none yet
  int64_t empty_rounds = 0, last_round = -1;
  int64_t planned = -1;  // trials of the round that it is about to be measured in; -1: none
  bool prepared = false;

  double gflops() const { return best_seconds > 0 ? task->flops / best_seconds / 1e9 : 0; }
};

// The measured programs without failures, fastest first, at most `count`.
std::vector<const Known*> fastest_known(const std::vector<Known>& known, size_t count);

// Design spaces and former records of a kind up to `last_record` (later ones are those of an interrupted round;
// negative: all). Samples are as `needs` say.
Result<TaskState> load_task(const task::Task& task, const target::Target& target, const TuneOptions& options,
                            const features::Needs& needs, const record::Store& store, int64_t last_record,
                            record::Kind kind = record::Kind::kMeasured);

// All tasks, on all threads of the pool.
Result<std::vector<TaskState>> load_tasks(std::span<const task::Task> tasks, const target::Target& target,
                                          const TuneOptions& options, const features::Needs& needs,
                                          const record::Store& store, int64_t last_record, record::Kind kind,
                                          ThreadPool* pool);

// True when the record is valid and faster than the best so far (record::is_faster), which it then is.
bool take_best(TaskState& state, const record::Record& record);

// Takes in a finished record: known programs, best, counts. A twin, whose measurement is another program's, is a
// duplicate.
void learn_record(TaskState& state, const record::Record& record, Individual individual, bool twin);

}  // namespace tcc::search
