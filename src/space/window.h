// Windows without a channel reduction: depthwise convolutions, pooling. Private to the room.
#pragma once

#include "space/contraction.h"

namespace tcc::space {

struct Window {
  NaiveNest nest;
  size_t lane = 0, row = 0;  // iterators: contiguous in the result; the innermost other one that a window moves with
  bool has_row = false;
  bool has_weights = false;
  int64_t stride = 1;      // of the lanes in the input
  int64_t row_stride = 1;  // of the rows, in steps of the window
  int64_t row_taps = 1;
  std::vector<size_t> outer, unit, unit_taps, taps;  // taps: those of the row last
  int64_t terms = 1;                                 // of one result
};

// Each term of the only reduction is at another place of a window that moves with the result. nullopt: another
// kernel, also one whose window covers the whole input.
std::optional<Window> find_window(const ir::Kernel& k);

}  // namespace tcc::space
