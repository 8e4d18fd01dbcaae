// Polynomial math on LLVM values, scalar or vector alike; no library calls. f32 within 2 ulp (sin, cos
// and pow by way of f64), f64 within a few ulp; results below the normal range may be flushed.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "tcc/ir/expr.h"

namespace tcc::codegen {

struct MathFeatures {
  bool fma = false;
  bool roundings = false;  // floor, ceil and round to even as instructions (SSE4.1)
  bool scale = false;      // x * 2^n of 16 floats as one instruction (AVX-512)
};

// All arguments have one type, float or double or a vector of it.
llvm::Value* emit_math(llvm::IRBuilder<>& b, ir::Intrinsic fn, std::span<llvm::Value* const> args,
                       const MathFeatures& features);

}  // namespace tcc::codegen
