// Where accesses of a warp go. Private to the room.
#pragma once

#include "simulation/warp_code.h"

namespace tcc::simulation {

bool is_shared(const ir::Buffer& b);
// Of the physical space, padding included.
int64_t elements(const ir::Buffer& b);
// Physical, from the buffer's first element.
int64_t element_address(const ir::Buffer& b, std::span<const ir::Expr> indices, const Values& values);
// Fills the pattern of a warp's lanes (WarpAccess::wavefronts, sectors). `values`: of the first lane, copies applied.
void find_pattern(WarpAccess& access, Values& values, std::span<const std::vector<std::pair<ir::Id, int64_t>>> lanes,
                  double conflict_weight);

}  // namespace tcc::simulation
