// What an analytical model says of the launches of a GPU program: what its blocks take of a multiprocessor, conflicts
// of banks, and how its warps share the work. Descriptions of libraries keep it, so that reports need no device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tcc/cost/gpu_facts.h"
#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::cost {

// Warps of a block that do one thing.
struct LaunchRole {
  std::string work;  // "copies", "products", or "all" of a launch whose warps do the same
  int64_t first_warp = 0, warps = 0;
  int64_t registers = 0;  // a thread, after the roles have exchanged some; 0: as at the launch
};

struct LaunchModel {
  int64_t threads = 0;            // a block
  int64_t registers = 0;          // a thread, by the compiler; 0: it did not say
  int64_t shared_bytes = 0;       // a block
  double blocks_per_sm = 0;       // resident at a time
  double rounds = 1;              // of resident blocks, one after the other
  double occupancy = 0;           // resident warps of those that a multiprocessor holds, in [0, 1]
  double bank_conflicts = 0;      // share of the cycles of shared memory that conflicts take; of all launches together
  int64_t stages = 1;             // steps whose data are in shared memory at a time
  int64_t steps = 0;              // of a block's longest loop with copies to shared memory; 0: it has none
  double copy_seconds = 0;        // from memory and the second-level cache, if nothing else were to be done
  double arithmetic_seconds = 0;  // likewise, of arithmetic and of shared memory
  std::vector<LaunchRole> roles;
};

// Of each launch of a program for a CUDA target, in order. `nest`, `lowered`: the program at these stages. `compiled`:
// as for gpu_facts().
std::vector<LaunchModel> launch_models(const ir::Kernel& nest, const ir::Kernel& lowered, const target::Target& target,
                                       std::span<const CompiledLaunch> compiled);

// An array of objects with the names of the members.
template <class Json>
Json launch_models_to_json(const std::vector<LaunchModel>& launches) {
  Json out = Json::array();
  for (const LaunchModel& l : launches) {
    Json roles = Json::array();
    for (const LaunchRole& r : l.roles)
      roles.push_back({{"work", r.work}, {"first_warp", r.first_warp}, {"warps", r.warps}, {"registers", r.registers}});
    out.push_back({{"threads", l.threads},
                   {"registers", l.registers},
                   {"shared_bytes", l.shared_bytes},
                   {"blocks_per_sm", l.blocks_per_sm},
                   {"rounds", l.rounds},
                   {"occupancy", l.occupancy},
                   {"bank_conflicts", l.bank_conflicts},
                   {"stages", l.stages},
                   {"steps", l.steps},
                   {"copy_seconds", l.copy_seconds},
                   {"arithmetic_seconds", l.arithmetic_seconds},
                   {"roles", std::move(roles)}});
  }
  return out;
}

}  // namespace tcc::cost
