// Inputs and references of tasks, made ahead of need. Private to the room.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "search/task_state.h"

namespace tcc::search {

// Where references disturb no measurement (measure::MeasurerTraits::prepares_beside), a thread of its own makes them in
// the order in which tasks get their first rounds. Elsewhere nothing may be measured meanwhile: the references of as
// many tasks as the pool has threads are made at once, so that the serial parts of one task fill the gaps of another.
class Preparation {
 public:
  using Prepared = Result<std::shared_ptr<const measure::MeasureTask>>;

  // All must outlive this.
  Preparation(measure::Measurer& measurer, const target::Target& target, ThreadPool* pool)
      : measurer_(measurer), target_(target), pool_(pool) {}
  ~Preparation();  // waits for the reference under way

  // What the measurer makes of task `at`, whose first round is due. `order`: the tasks whose first rounds come next,
  // `at` the first of them. Called once for each task.
  Prepared take(size_t at, std::span<const size_t> order, const std::vector<TaskState>& states);

 private:
  struct Job {
    size_t task = 0;
    ir::Kernel naive;
  };
  Prepared prepare(const ir::Kernel& naive) const { return measurer_.prepare(naive, target_); }
  void work();

  measure::Measurer& measurer_;
  const target::Target& target_;
  ThreadPool* const pool_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;                          // guarded by mutex_
  std::map<size_t, std::optional<Prepared>> ready_;  // likewise; of all tasks that were ever queued
  bool ended_ = false;                               // likewise
  std::thread thread_;
};

}  // namespace tcc::search
