// What the attributes of a device do not say.
#pragma once

#include "tcc/target/target.h"

namespace tcc::target {

// Gives a target made from a device's attributes (compute capability, multiprocessors, clock) the features of its
// architecture's own instructions, and the peaks of tensor cores: those of the named descriptor of the same
// architecture that is most like it, scaled by multiprocessors times clock. Without such a descriptor the next older
// one serves, and a note says so. Only for kCuda.
void complete_device(Target& device);

}  // namespace tcc::target
