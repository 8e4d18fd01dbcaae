// The loops of ColumnProgram, compiled once for each level of x86-64 (cmake/rooms/analysis.cmake). Private to the room.
#pragma once

#include "tcc/analysis/columns.h"

namespace tcc::analysis {

// places[i]: n numbers, a multiple of 8; inputs follow the registers.
using RunColumns = void (*)(const ColumnStep* steps, int64_t count, double* const* places, int64_t n);

namespace plain {
extern const RunColumns kRun;
}
namespace avx2 {
extern const RunColumns kRun;
}
namespace avx512 {
extern const RunColumns kRun;
}

}  // namespace tcc::analysis
