// The facts of a kernel of one launch.
#pragma once

#include <catch2/catch.hpp>

#include "tcc/cost/gpu_facts.h"

namespace tcc::cost::testing {

inline LaunchFacts facts_of(const ir::Kernel& k, const char* target = "a100") {
  const GpuFacts facts = gpu_facts(k, *target::find_target(target));
  REQUIRE(facts.launches.size() == 1);
  return facts.launches[0];
}

}  // namespace tcc::cost::testing
