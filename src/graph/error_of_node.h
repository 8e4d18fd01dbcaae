// Errors of one operator on exact inputs. Private to the room.
#pragma once

#include <vector>

#include "graph/passes_internal.h"
#include "tcc/graph/error_bound.h"

namespace tcc::graph {

constexpr double kRunsOfNode = 3;  // of its operations, at most: exact, moved, on magnitudes

// By element of the result, in its units: the bound of a right program, and the size that is typical of one.
struct LocalError {
  std::vector<double> allowed, typical;
  int64_t terms = 1;
};

// `out`: the exact result for `inputs`. `scaled_later`: an operator that reads it multiplies it.
LocalError error_of_node(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs,
                         const HostTensor& out, const RoundingModel& model, ThreadPool& pool, WorkMeter& meter,
                         bool scaled_later);

}  // namespace tcc::graph
