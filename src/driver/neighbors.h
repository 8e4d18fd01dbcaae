// Passes the progress of a search on to the caller. Counts the time before and after the search in, and tells of other
// processes that measure meanwhile. Private to the room.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "tcc/driver/tune.h"
#include "tcc/driver/tuners.h"

namespace tcc::driver {

class Neighbors {
 public:
  // `kind`: of the records; where nothing is measured nobody is watched. `before`: seconds of the command that are
  // over; `build_seconds`: see TuneRequest::afterwards.
  Neighbors(const TuneRequest& request, record::Kind kind, double before, double build_seconds);

  void watch(search::Progress progress);
  // The largest load seen so far, of all programs on this machine.
  double load() const { return load_; }
  std::vector<int64_t> others() const { return {seen_.begin(), seen_.end()}; }

 private:
  void look(const search::Progress& progress);

  const TuneRequest& request_;
  const double before_, build_seconds_;
  std::unique_ptr<MeasuringHere> here_;
  std::set<int64_t> seen_;
  double load_ = 0;
};

}  // namespace tcc::driver
