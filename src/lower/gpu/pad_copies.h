// Before: copies in registers below a condition, and readers that ask the same condition of each element. After: the
// copy holds the constant where the condition fails, and its readers ask nothing (analysis/padded_copies.h):
//
//   if inside(i) { X[i] = image[i] };                 acc = max(acc, X[j] where inside(j) else -inf)
//
//   X[i] = image[i] where inside(i) else -inf;        acc = max(acc, X[j])
//
// It is the first pass after Nest: later ones change the conditions of copies and readers apart.
#pragma once

#include "tcc/ir/kernel.h"

namespace tcc::lower {

ir::Kernel pad_copies(const ir::Kernel& kernel, const ArenaPtr& arena);

}  // namespace tcc::lower
