// A hand-written trace: GEMM with weights packed ahead.
#pragma once

#include "tcc/schedule/trace.h"

namespace tcc::benchmarks {

// 8x32 register tiles: 16 accumulators of 16 floats, two vectors of packed B and one broadcast of A for each k. The
// contraction `block` has loops i, j, k, and its second read buffer is a weight.
schedule::Trace packed_gemm_trace(const ir::Kernel& start, const std::string& block);

}  // namespace tcc::benchmarks
