// Draws and repairs of tile decisions (MetaSchedule, appendix; specs of sample-perfect-tile).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/support/rng.h"

namespace tcc::schedule {

// Uniform over ordered factorisations of `extent` into out.size() factors whose last is at most max_innermost: for each
// prime power, a uniform weak composition of the exponent; redrawn while the last factor is too large.
void draw_perfect_tile(int64_t extent, int64_t max_innermost, Rng& rng, std::span<int64_t> out);
// From the innermost outward keeps what divides the rest, else takes all of the rest: any list becomes a perfect
// tiling.
void repair_perfect_tile(int64_t extent, std::span<int64_t> factors);
// Free tiles: out[0] is the ceiling quotient of the others. Inner factors are log-uniform, the last a multiple of
// `multiple` (when the extent allows) and at most max_innermost.
void draw_tile(int64_t extent, int64_t max_innermost, int64_t multiple, Rng& rng, std::span<int64_t> out);
// One of the modes whose bits are set, uniformly.
int64_t draw_tail(int64_t modes, Rng& rng);
void repair_tile(int64_t extent, std::span<int64_t> factors);

}  // namespace tcc::schedule
