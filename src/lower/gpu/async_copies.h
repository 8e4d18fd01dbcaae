// Copies from global into shared memory as asynchronous ones. Private to expand_pipeline.
#pragma once

#include <map>

#include "lower/gpu/edit.h"
#include "tcc/analysis/ranges.h"

namespace tcc::lower {

// `copy`: loops and conditions around stores of values read from global memory; `versions`: buffers that have got a
// leading dimension in the copy's indices and not in their shape yet. The same with cp.async in place of the stores, or
// nullptr where a store is not one whole, aligned piece of 4, 8 or 16 bytes a thread.
ir::Stmt as_async_copies(Edit& edit, const analysis::Ranges& ranges, ir::Stmt copy,
                         const std::map<ir::Id, int64_t>& versions);

}  // namespace tcc::lower
