// How fast the interpreter is, on a GEMM-like kernel.
#pragma once

namespace tcc::interp {

// Scalar operations a second on the calling thread: plain (no checks), or with `race` the conflict and poison checks.
double measure_rate(bool race);

}  // namespace tcc::interp
