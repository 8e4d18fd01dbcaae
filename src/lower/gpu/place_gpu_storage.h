// Scopes of a GPU kernel's temporaries when the schedule did not say. A buffer that lives within one thread's iteration
// is local. One that lives within a launch is shared by the block. One that lives between launches is workspace.
// Before: Nest. After: the same nest; scopes are those of the hardware.
#pragma once

#include <map>

#include "tcc/ir/kernel.h"

namespace tcc::lower {

// The scope that each temporary of a nest gets.
std::map<ir::Id, ir::Scope> gpu_scopes(const ir::Kernel& nest);
// Copies of a local buffer that one thread holds: an instance for each virtual thread.
std::map<ir::Id, int64_t> gpu_instances(const ir::Kernel& nest);

ir::Kernel place_gpu_storage(const ir::Kernel& nest, const ArenaPtr& arena);

}  // namespace tcc::lower
