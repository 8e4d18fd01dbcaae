// What keeps a kernel from being faster: the roofline model (Williams et al., CACM 52, 2009) with the levels of the
// caches, idle threads and launches beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/driver/machine_facts.h"

namespace tcc::driver {

// The least seconds that one part of the machine needs for its share of a run, everything else being free.
struct Limit {
  std::string part;  // "arithmetic", "first-level cache", ...
  double seconds = 0;
};
struct Bounds {
  // The part with the longest limit; "threads" where idle threads cost more than half of the time that all of them
  // would need; "schedule" where no limit is near; "" where nothing is known.
  std::string by;
  double share = 0;  // the limit over the time of the kernel; above 1 where a limit is not strict. 0: no time is known
  std::vector<Limit> limits;  // longest first
  bool measured_rates = false;
  bool beaten = false;              // the kernel is faster than the limit: the rates are too low
  double busy_threads = 1;          // share of the threads that have work, over the parallel loop
  std::vector<std::string> advice;  // what the user can change: a sentence each
};

struct BoundsQuery {
  const Program* program = nullptr;
  size_t task = 0;
  const ir::Kernel* nest = nullptr;  // of the program that is built, at Stage::Nest
  double seconds = 0;                // of one run; 0: not known
  int64_t threads = 1;
  int64_t measured = 0;                 // programs of the task in the records, of all of its forms
  const ModelSource* source = nullptr;  // how the model was loaded: options that are in use are not advised
};
// `facts`: the rates of this machine, where the target is a CPU's that runs here; nullptr: the target's nominal ones,
// without caches.
Bounds find_bounds(const BoundsQuery& query, const target::Target& target, const MachineFacts* facts);

}  // namespace tcc::driver
