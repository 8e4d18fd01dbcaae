// Other programs, run by gpu_check: tcc itself, Python.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::gpu_check {

struct ChildOutcome {
  int exit_code = -1;  // -signal when a signal ended it
  bool timed_out = false;
  std::string out;
};
// Runs words[0] (a path, or a name found by PATH) with `input` on its standard input; its standard error is this
// program's. Ended after `seconds`. Error: it cannot be started.
Result<ChildOutcome> run_child(const std::vector<std::string>& words, const std::string& input, double seconds);

}  // namespace tcc::gpu_check
