// Masks of axes whose extents are known at run time only: neutral elements in the place of those that do not count.
// Private to the room.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

enum class Fill { kZero, kOne, kLeast, kGreatest, kNan };

// Of each axis of a value; kNone everywhere where nothing is known.
Counts counts_of(NodeContext& c, ValueId id);
// Which of the `extent` positions of an axis count, as bools that broadcast over the `trailing` axes behind it.
Made mask_of(NodeContext& c, ValueId count, int64_t extent, size_t trailing);
// x with `fill` behind the count of the axis; x itself where the count is kNone.
Made masked(NodeContext& c, const Made& x, size_t axis, ValueId count, Fill fill);

}  // namespace tcc::onnx
