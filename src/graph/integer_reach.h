// Integers in double, where those beyond 2^53 lose their last bits.
#pragma once

#include <vector>

#include "tcc/graph/reference.h"

namespace tcc::graph {

constexpr double kExactIntegers = 0x1p53;

// The greatest magnitude of a 64-bit integer that the node reads, or of an integer that its sums and products may reach
// before they wrap. Below kExactIntegers run_node is exact, but for what holds_wrapped finds.
double integer_reach(const Graph& graph, const Node& node, const std::vector<const HostTensor*>& inputs);

// Numbers of u64 that negative ones wrap to, which have no exact double?
bool holds_wrapped(const std::vector<double>& out, DType dtype);

// Whether `out`, which run_node computed, may be rounded where the inputs are not.
bool rounds_integers(const Graph& graph, const Node& node, const std::vector<const HostTensor*>& inputs,
                     const HostTensor& out);

}  // namespace tcc::graph
