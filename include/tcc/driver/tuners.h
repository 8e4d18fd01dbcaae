// Processes that measure on this machine notice each other: each disturbs the times of the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::driver {

// While it lives, this process is among those that measure here. Each has a file of its own in a folder that they
// share, and a lock on it, which ends with the process however that ends.
class MeasuringHere {
 public:
  // `folder` is made where it is missing. Errors: the file cannot be made or locked.
  static Result<std::unique_ptr<MeasuringHere>> begin(const std::string& folder);
  ~MeasuringHere();
  MeasuringHere(const MeasuringHere&) = delete;
  MeasuringHere& operator=(const MeasuringHere&) = delete;

  // The numbers of the other processes that measure at this moment, ascending.
  std::vector<int64_t> others() const;

 private:
  MeasuringHere(std::string folder, std::string file, int descriptor);
  std::string folder_, file_;
  int descriptor_;
};

}  // namespace tcc::driver
