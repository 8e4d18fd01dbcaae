// The form of stream_reduction for two statistics of a row of which the second depends on the first.
#pragma once

#include "common.h"

namespace tcc::schedule {

// The block is a sum of exponentials of differences or of squares of differences: a second statistic by its form.
bool is_second_statistic(const Kernel& k, Id block);

// The statistics of chunks of the row, and their combination; out is the loop over rounds of chunks around their second
// statistics. A chunk has `vectors` vectors of `width` terms each; `parts` chunks take turns at vectors. See
// docs/primitives.md.
Legal<Kernel> stream_statistics(const Kernel& k, Id block, Expr vectors, Expr parts, Expr width, Id& out);

}  // namespace tcc::schedule
