// Why a task's schedule is what it is.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/compile.h"

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
struct Explanation {
  std::string key, workload;
  bool tuned = false;
  std::string note;  // why it is not tuned
  double seconds = 0, flops = 0;
  std::vector<ExplainedStep> steps;
  std::string loops;  // the loop tree, one loop or statement a line
  int64_t design_spaces = 0, draws = 0, legal = 0;
  std::vector<RejectExample> rejects;                     // of `draws` seeded draws from the design spaces
  std::vector<std::pair<std::string, int64_t>> failures;  // of measured candidates, by status; from the store
};
// `name` as for show_task.
Result<Explanation> explain_task(const Program& program, const std::string& name, const record::Store* store,
                                 const target::Target& target, int64_t threads);

}  // namespace tcc::driver
