// The results file of gpu_check: one JSON document {suite, machine, rows}, whole and synced to disk after every row, so
// that a machine that goes away leaves what was measured until then.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::gpu_check {

struct Row {
  std::string name;  // stable: the same measurement has the same name for ever
  double value = 0;
  std::string unit;
  std::string peer;  // "" = none
  double peer_value = 0;
};

class Results {
 public:
  Results(std::string path, std::string suite, std::string machine)
      : path_(std::move(path)), suite_(std::move(suite)), machine_(std::move(machine)) {}
  // A results file as it is. Errors: the file does not exist; it does not hold results.
  static Result<Results> read(const std::string& path);
  // Takes over the rows of an earlier run of the same suite on the same machine, if the file holds one.
  void resume();
  // Writes the document as it is. Error: the file cannot be written.
  Result<void> start() const { return write(); }
  // Removes a row, where there is one; the next write tells.
  void forget(const std::string& name);
  // Replaces a row of the same name. Errors: the file cannot be written.
  Result<void> add(const Row& row);
  const std::vector<Row>& rows() const { return rows_; }
  std::string text() const;   // the document
  std::string table() const;  // for people

 private:
  Result<void> write() const;
  void take_rows(const nlohmann::json& document);
  std::string path_, suite_, machine_;
  std::vector<Row> rows_;
};

}  // namespace tcc::gpu_check
