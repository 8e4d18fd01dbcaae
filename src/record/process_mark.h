// A process for good: its number alone comes back after it has ended, its start time and the machine's boot do not.
#pragma once

#include <cstdint>
#include <string>

namespace tcc::record {

struct ProcessMark {
  std::string boot;  // the boot's id and the process's name space of numbers
  int64_t pid = 0;
  int64_t start = 0;  // clock ticks since boot
  bool operator==(const ProcessMark&) const = default;
};

ProcessMark own_mark();
// One whose numbers belong to another name space cannot be looked up and counts as running.
bool is_running(const ProcessMark& mark);

}  // namespace tcc::record
