// Copies in registers whose readers ask again what the copy has asked: windows that reach beyond an image.
//
//   if inside(i) { X[i] = image[i] };  acc = max(acc, X[j] where inside(j) else -inf)
//
// A copy that holds the constant where nothing is inside needs no question of its readers.
#pragma once

#include <vector>

#include "tcc/ir/build.h"

namespace tcc::analysis {

struct PaddedCopy {
  ir::Id buffer = ir::kNoId;
  ir::Expr constant = nullptr;  // of positions that are not inside
};
// The local buffers with one store, of a load, below a condition that all loads of the buffer ask of their own element,
// with one constant otherwise. The store fills the whole buffer but for that condition.
std::vector<PaddedCopy> padded_copies(ir::Builder& b, const ir::Kernel& kernel);

}  // namespace tcc::analysis
