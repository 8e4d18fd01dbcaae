// The graph's definition, executable: plain loops in double, independent of tasks, schedules and code generation.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"

namespace tcc::graph {

// A row-major tensor of doubles, whatever the graph's element type is.
struct HostTensor {
  Shape shape;
  std::vector<double> data;
};

// Seeded inputs of sane scale: standard normal for floats, small non-negative integers for integers.
HostTensor random_tensor(const Value& value, uint64_t seed);

// Told by one thread at a time while the reference computes, at its begin, several times a second, and at its end: the
// share of the arithmetic that is done, 0 to 1.
using ReferenceProgress = std::function<void(double share)>;

// Runs the whole graph. `inputs` match graph.inputs in number and shape, else an error. Nothing is rounded to the
// graph's float types on the way; integer arithmetic truncates and wraps (64-bit integers are exact below 2^53).
// threads = 0: all cores.
Result<std::vector<HostTensor>> run_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                              int threads = 0);

// Evaluates one node with constant inputs in double and rounds to the output's type.
std::unique_ptr<Evaluator> reference_evaluator();

}  // namespace tcc::graph
