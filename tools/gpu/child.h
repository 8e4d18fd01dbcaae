// Steps of gpu_check as processes of their own: a fault of a device loses the context of one process only.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::gpu_check {

struct ChildEnd {
  int exit_code = 0;
  int signal = 0;          // that ended it, 0: none
  bool timed_out = false;  // it was ended after its time
  double seconds = 0;
};
// Runs words[0] (a path) with this program's standard streams, in a process group of its own. After `seconds` the whole
// group is killed. Error: it cannot be started.
Result<ChildEnd> run_child(const std::vector<std::string>& words, double seconds);

// For the child: it ends when its parent does.
void end_with_parent();

}  // namespace tcc::gpu_check
