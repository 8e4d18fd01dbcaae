// What the strategies that draft do where the caller does not say.
#pragma once

#include <cstdint>

#include "tcc/target/target.h"

namespace tcc::search {

// Generations that the cost model breeds from the drafts where Drafting::verify_generations is below 0. On GPUs one, as
// in the released code: on simulated ones pruner with trees was 1.04 times as fast after 250 trials as without
// (five operators, two seeds). On CPUs none, as in the paper.
int64_t verify_generations_for(const target::Target& target);

}  // namespace tcc::search
