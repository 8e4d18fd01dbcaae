// Local buffers of a GPU's kernel that are allocated around loops over the threads of a row.
//
//   alloc X { t in 32 bound(thread.x) { r { X[r*32 + t] = x[row, r*32 + t] } }; ... }        X: f32[1024] local
//
// Each thread uses elements of its own, which it keeps in its registers: 32 of the 1,024. A buffer that no thread loop
// writes, such as the sum of the row, every thread has by itself.
#pragma once

#include <map>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// Threads along thread.x that share the local buffers allocated around their loops; buffers without such loops below
// are not in the map. `nest`: Stage::Nest or later.
std::map<ir::Id, int64_t> spread_threads(const ir::Kernel& nest);

}  // namespace tcc::analysis
