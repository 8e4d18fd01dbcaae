// Random inputs on which a model says something: inside the domains of its operators.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/reference.h"

namespace tcc::graph {

// Where the values of a graph's input are drawn. Uniform between the bounds where there are any (integers: both ends
// included), else as random_tensor does.
struct InputDomain {
  std::optional<double> low, high;
  bool whole = false;    // floats are whole numbers, so that comparisons for equality succeed sometimes
  bool special = false;  // every eighth float is NaN or an infinity: IsNaN and IsInf ask for them
};

// One domain per graph.inputs: what the operators need that read the input, directly or behind operators that only move
// elements. Log: above 0; Asin: inside [-1, 1]; a divisor: away from 0; indices of a gather: below the extent; ...
std::vector<InputDomain> input_domains(const Graph& graph);

// Values that the type of `value` holds exactly.
HostTensor random_tensor(const Value& value, uint64_t seed, const InputDomain& domain);

}  // namespace tcc::graph
