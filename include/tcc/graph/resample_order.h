// In which order, and in how many steps, the axes of a Resample are computed.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc::graph {

// Resamples of several axes of f32 or f64 become one of each axis where an estimate for vectors says that this costs
// less: all of x[N, C, H, W] -> y[N, C, 4H, 4W] reads 2 + 2 elements for each result in place of 4, and elements are
// gathered along W only for the H rows of x. A GPU gathers as fast as it loads: there one kernel is better. Shapes must
// be known.
void separate_resamples(Graph& graph);

}  // namespace tcc::graph
