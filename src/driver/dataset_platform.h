// What runs the programs that go into a pool. Private to the room.
#pragma once

#include <algorithm>
#include <functional>

#include "tcc/driver/dataset.h"
#include "tcc/measure/measurement.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {

struct CollectingPlatform {
  const CollectRequest& request;  // with the number of threads that the platform runs programs on
  data::Platform platform;
  measure::Measurer& measurer;
  ThreadPool& threads;  // that draw and lower
};

// Opens the machine or the simulated GPU that the request names, and calls `collect` with it. The report gets the
// machine's notes. Errors: the target cannot be measured here; those of `collect`.
Result<CollectReport> on_platform(const CollectRequest& request,
                                  const std::function<Result<CollectReport>(const CollectingPlatform&)>& collect);

// Time until the call ends, or until the user stops it.
class CollectLimit {
 public:
  explicit CollectLimit(const CollectRequest& request) : request_(request) {}
  bool stopped() const { return request_.stop && request_.stop(); }
  bool reached() const { return stopped() || (request_.seconds > 0 && watch_.seconds() >= request_.seconds); }
  double elapsed() const { return watch_.seconds(); }
  // An even share of the time that is left, for each of `tasks`; 0: no limit.
  double share(size_t tasks) const {
    if (request_.seconds <= 0) return 0;
    return std::max((request_.seconds - watch_.seconds()) / static_cast<double>(tasks), 1e-3);
  }

 private:
  const CollectRequest& request_;
  Stopwatch watch_;
};

}  // namespace tcc::driver
