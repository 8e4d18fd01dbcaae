// Dimensions whose size is known at run time only. A graph at the largest sizes computes every smaller size, too: the
// valid elements of a tensor are those whose coordinates are below the actual extents, and operators that combine the
// elements of an axis see neutral elements in the place of the others.
//
//   x [n, 8] ──Softmax over axis 0──► y      at most 128 rows:
//   x [128, 8] ──Where(row < n, x, -inf)──Softmax──► y [128, 8], of which the first n rows count
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// A dimension of a model's inputs whose size is known at run time: low to high, both included. Kernels are tuned for
// the sizes in `tuned`, sorted, and for `high`.
struct DimRange {
  std::string name;
  int64_t low = 1, high = 1;
  std::vector<int64_t> tuned;
  bool operator==(const DimRange&) const = default;
};

// scale * size + offset, where `symbol` numbers the dimension whose size it is; symbol -1: the number `offset`.
struct Factor {
  int32_t symbol = -1;
  int64_t scale = 0, offset = 1;
  bool operator==(const Factor&) const = default;
  int64_t extent(std::span<const int64_t> sizes) const {
    return symbol < 0 ? offset : scale * sizes[static_cast<size_t>(symbol)] + offset;
  }
};
// The extent of an axis: the product of its factors, the outermost first. A coordinate counts where the coordinate of
// each factor is below the factor's actual extent. No factor is the number 1, and no two numbers are neighbors.
using SymbolicAxis = std::vector<Factor>;
using SymbolicShape = std::vector<SymbolicAxis>;

int64_t axis_extent(const SymbolicAxis& axis, std::span<const int64_t> sizes);
Shape shape_at(const SymbolicShape& shape, std::span<const int64_t> sizes);
bool is_dynamic(const SymbolicAxis& axis);
bool is_dynamic(const SymbolicShape& shape);
// "batch x 2*seq+1 x 64"
std::string symbolic_text(const SymbolicShape& shape, std::span<const std::string> names);

// The same model at other sizes of its dimensions.
struct Probe {
  std::vector<int64_t> sizes;  // one a dimension
  const Graph* graph = nullptr;
};

struct BoundGraph {
  Graph graph;  // at the largest sizes. Inputs: the model's, then one i64 scalar for each dimension, its actual size
  std::vector<SymbolicShape> inputs, outputs;  // of the model's
  // By output: the input whose elements are the first ones of the output along `append_axis`, as in a cache of keys to
  // which a step appends; kNone for others.
  std::vector<int32_t> appends_to;
  std::vector<int32_t> append_axis;
};

// Makes `graph`, imported at the sizes `bounds` (>= 2 each), exact for all smaller ones. The probes say which numbers
// of the graph depend on which size: at least two for each dimension in which only its size differs. Extents must be
// affine in one size, or products of these. Errors (input): a node for which that is not possible, by name.
Result<BoundGraph> bind_dims(const Graph& graph, std::span<const std::string> names, std::span<const int64_t> bounds,
                             std::span<const Probe> probes);

}  // namespace tcc::graph
