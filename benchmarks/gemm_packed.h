// A hand-written trace: GEMM with weights packed ahead.
#pragma once

#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::benchmarks {

// Register tiles that the target's vectors hold: 6x16 accumulators on 16 registers of 8 floats, 8x32 on 32 of 16. The
// contraction `block` has loops i, j, k, and its second read buffer is a weight.
schedule::Trace packed_gemm_trace(const ir::Kernel& start, const std::string& block, const target::Target& target);

}  // namespace tcc::benchmarks
