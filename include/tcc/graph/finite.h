// Floats that cannot be NaN or infinite, because integers and constants make them.
#pragma once

#include <optional>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// A bound of the magnitude of every element of a value of f32 or f64: a constant, a Cast of integers, and sums,
// products, limits and roundings of such values. The bound includes rounding and is far from infinity. nullopt: the
// value may be infinite or NaN, it has another type, or too many nodes make it to follow them.
std::optional<double> largest_magnitude(const Graph& graph, ValueId id);

// A Clip or Relu whose operand cannot be NaN, or may be taken to be a number (Graph::fast_math): kernels compute it by
// minimum and maximum, which read the operand once. With fast_math Max and Min, too.
bool limits_numbers(const Graph& graph, const Node& node);

}  // namespace tcc::graph
