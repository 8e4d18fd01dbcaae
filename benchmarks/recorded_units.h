// What experiments found, in a file that grows by one unit at a time: an interrupted run loses one unit at most.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tcc/support/result.h"

namespace tcc::benchmarks {

class RecordedUnits {
 public:
  using Values = std::map<std::string, double>;

  // A file that is missing has no units. Errors: the file is not of this class; which unit is damaged.
  static Result<RecordedUnits> open(const std::string& path);
  // What the unit found; nullopt: it is not there, or was made from other inputs (a hash of data and settings).
  std::optional<Values> find(const std::string& name, uint64_t inputs) const;
  // Writes the file, with the units that other processes have kept there since. What the unit found from other inputs
  // is forgotten. Errors: as open().
  Result<void> keep(const std::string& name, uint64_t inputs, const Values& values, double seconds);

 private:
  explicit RecordedUnits(std::string path) : path_(std::move(path)) {}
  struct Unit {
    uint64_t inputs = 0;
    Values values;
    double seconds = 0;
  };
  std::string path_;
  std::map<std::string, Unit> units_;
};

}  // namespace tcc::benchmarks
