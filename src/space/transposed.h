// Results that read an operand across its rows. Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "space/access.h"

namespace tcc::space {

// Iterators of the block: `inner` moves by one element in the result, `outer` in the operands that are read transposed.
struct Transposed {
  size_t inner = 0, outer = 0;
  std::vector<ir::Id> operands;
};

// nullopt: not a map, or no load without a condition does so with at least `smallest` elements of both iterators. Of
// `outer` there may be `woven` where its elements alternate in the operand, as the colors of an image do.
std::optional<Transposed> find_transposed(const NaiveNest& nest, int64_t smallest, int64_t woven);

}  // namespace tcc::space
