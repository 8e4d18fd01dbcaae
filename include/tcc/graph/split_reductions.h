// Reductions of whole tensors for processors with threads and caches.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc::graph {

// Sums, means, maxima and minima of all elements of a large tensor become those of its runs and of their results:
// reduce x[N] = reduce (reduce over M of x[N / M, M]). Threads share the runs, and a run stays in the first-level cache
// where its elements are looked at twice, as for NaN. Left alone: halves, lengths that no run divides, and what the
// reduction's kernel makes itself. Shapes must be known. Returns how many were split.
int64_t split_reductions(Graph& graph);

}  // namespace tcc::graph
