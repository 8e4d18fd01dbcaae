// The unscheduled program of each task, timed once on a machine: what speed-ups are measured against. Private to the
// room.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tcc/driver/tune.h"
#include "tcc/measure/measurement.h"

namespace tcc::driver {

// Its record is one like any other, so a task whose plain loops are fastest gets them.
class Baselines {
 public:
  Baselines(measure::Measurer& measurer, record::Store& store, const TuneRequest& request)
      : measurer_(measurer), store_(store), request_(request) {}

  struct Baseline {
    double seconds = 0;
    std::string failure;
  };

  Result<void> measure(const task::Task& task, const measure::MeasureTask* prepared);
  // For a task that this run did not reach: what an earlier run measured.
  Result<Baseline> of(const task::Task& task) const;

 private:
  Result<std::optional<record::Record>> find(const task::Task& task, uint64_t nest) const;
  Result<std::optional<record::Record>> run(const task::Task& task, const measure::MeasureTask* prepared,
                                            const search::Chosen& program);

  measure::Measurer& measurer_;
  record::Store& store_;
  const TuneRequest& request_;
  std::map<std::string, Baseline> known_;
};

}  // namespace tcc::driver
