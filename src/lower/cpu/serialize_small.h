// Before: launches whose outermost loop is parallel.
// After: a launch that one thread certainly ends before others have begun has a serial loop in place of the parallel
// one. The estimate of its cycles is low on purpose: it counts the instructions of each statement and no wait for
// memory. It is compared with the cost of a launch in the core model of the target (tcc/target/core_model.h).
//
//   for i in 4 parallel {          for i in 4 {
//     for j in 8 vectorized {  ->    for j in 8 vectorized {
//       y[i, j] = x[i, j]              y[i, j] = x[i, j]
//
// Comes after split_launches, which says what is a launch.
#pragma once

#include "tcc/ir/kernel.h"
#include "tcc/target/target.h"

namespace tcc::lower {

ir::Kernel serialize_small(const ir::Kernel& kernel, const target::Target& target, const ArenaPtr& arena);

}  // namespace tcc::lower
