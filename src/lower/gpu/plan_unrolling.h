// Before: loops that are Unrolled, or serial, without a word on how far the compiler is to unroll them.
// After: an Unrolled loop is unrolled whole, or by the number of copies that its annotation unroll_max gives; a serial
// loop is not unrolled, or by its annotation: whole, where its variable picks elements of a local array, which would
// not stay in registers otherwise; up to 8 times where it is an innermost loop of loads from memory, so that several of
// them are under way at a time.
//
//   for i in 512 unrolled {                for i in 512 unrolled @unroll_max(64) {
//     B[i] = exp(A[i])               ->      B[i] = exp(A[i])
//
// What a launch unrolls is paid in NVRTC's time, about in proportion to the statements that result. Up to 1,000 of
// them a launch, and as many a loop as analysis/gpu_unrolling.h allows, everything is unrolled that is marked so.
// Beyond, each loop gets its share. Loops around products of matrices are unrolled whole all the same: a product is
// one instruction, and ptxas waits for each wgmma that is not in straight code with the others of its group. Last,
// because it counts statements as they will be printed.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel plan_unrolling(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
