// The pass that makes a graph exact for smaller sizes of its dimensions. Private to the room.
#pragma once

#include <map>
#include <set>
#include <tuple>

#include "passes_internal.h"
#include "tcc/graph/dynamic.h"

namespace tcc::graph {

SymbolicAxis static_axis(int64_t extent);
// Drops ones and joins neighboring numbers.
SymbolicAxis normalized(const SymbolicAxis& axis);

class DimBinder {
 public:
  DimBinder(const Graph& graph, std::span<const std::string> names, std::span<const int64_t> bounds,
            std::span<const Probe> probes)
      : in_(graph), names_(names), bounds_(bounds), probes_(probes) {}
  Result<BoundGraph> run();

 private:
  // --- the driver (dynamic.cpp) ---
  Result<void> check_structure() const;
  Result<void> take_inputs();
  Result<void> take_constant(const Value& value);
  Result<bool> is_prefix(const Value& value, const SymbolicShape& shape) const;
  Result<void> take_affine_constant(const Value& value);
  Result<void> check_result(const Node& node) const;
  void order_nodes();
  // --- rules (dynamic_rules.cpp): the new value of a node's result ---
  Result<ValueId> bind(const Node& node);
  Result<ValueId> plain(const Node& node, SymbolicShape shape);
  Result<ValueId> elementwise(const Node& node);
  Result<ValueId> reshape(const Node& node);
  Result<ValueId> softmax(const Node& node);
  Result<ValueId> layer_norm(const Node& node);
  Result<ValueId> matmul(const Node& node);
  Result<ValueId> gemm(const Node& node);
  Result<ValueId> window(const Node& node);
  Result<ValueId> reduce(const Node& node);
  Result<ValueId> transpose(const Node& node);
  Result<ValueId> concat(const Node& node);
  Result<ValueId> pad(const Node& node);
  Result<ValueId> slice(const Node& node);
  Result<ValueId> expand(const Node& node);
  Result<ValueId> gather(const Node& node);
  Result<ValueId> scan(const Node& node);
  Result<ValueId> packed_matmul(const Node& node);
  Result<ValueId> top_k(const Node& node);
  Result<ValueId> arg(const Node& node);
  Result<ValueId> otherwise(const Node& node);
  Result<SymbolicShape> broadcast(const Node& node, const SymbolicShape& a, const SymbolicShape& b) const;

  // --- pieces (dynamic.cpp) ---
  // The affine form of a number of the graph that is `at_bounds` here and `at_probes` in the probes.
  std::optional<Factor> fit_number(int64_t at_bounds, const std::vector<int64_t>& at_probes) const;
  std::optional<SymbolicAxis> fit_axis(int64_t at_bounds, const std::vector<int64_t>& at_probes) const;
  // A number of the node's attributes in every probe.
  template <class Get>
  std::vector<int64_t> at_probes(const Node& node, Get get) const;

  ValueId emit(const Node* of, Op op, Attributes attrs, std::vector<ValueId> inputs, SymbolicShape shape);
  // `value`, whose node then comes right behind that of `source`, the only one of its inputs that is not early.
  ValueId moved_behind(ValueId value, ValueId source);
  ValueId constant(DType dtype, Shape shape, std::vector<double> values);
  ValueId limit_of(const Factor& factor);       // its actual extent, an i64 scalar
  ValueId extent_of(const SymbolicAxis& axis);  // likewise
  // True where the coordinate of factor `at` of the axis counts; of shape extent x 1 x ... with `trailing` ones.
  ValueId counts(const SymbolicAxis& axis, size_t at, size_t trailing);
  // The value with `fill` where a coordinate of the axis does not count.
  ValueId masked(ValueId value, size_t axis, double fill);
  ValueId masked_factor(ValueId value, size_t axis, size_t factor, double fill);
  // masked with 0, unless the value is 0 there. The mask goes before moves of elements, where kernels that make them
  // apply it.
  ValueId zeroed(ValueId value, size_t axis);
  // `data` at the indices (i64, rank 1) along the axis, whose extent becomes `now`.
  ValueId picked(const Node& node, ValueId data, size_t axis, ValueId indices, const SymbolicAxis& now);
  // start + step * 0, 1, ...: `count` of them, moved into [0, extent).
  ValueId runtime_indices(const Factor& start, int64_t step, int64_t count, int64_t extent);

  tl::unexpected<Error> cannot(const Node& node, const std::string& why) const;
  const SymbolicShape& shape(ValueId id) const { return shapes_[static_cast<size_t>(id)]; }
  ValueId in(const Node& node, size_t i) const { return to_[static_cast<size_t>(node.inputs[i])]; }
  const Node& in_probe(size_t probe, const Node& node) const { return probes_[probe].graph->node(node.id); }
  void set_shape(ValueId id, SymbolicShape shape);

  const Graph& in_;
  std::span<const std::string> names_;
  std::span<const int64_t> bounds_;
  std::span<const Probe> probes_;
  Graph out_;
  std::vector<ValueId> to_;                    // by value of in_
  std::vector<SymbolicShape> shapes_;          // by value of out_
  std::vector<int64_t> places_;                // in the order, by node of out_
  int64_t now_ = 0;                            // the place of the node that is bound
  std::vector<ValueId> sizes_;                 // the inputs with the actual sizes
  std::set<std::pair<ValueId, size_t>> zero_;  // values that are 0 where the coordinate of the axis does not count
  std::map<std::tuple<int32_t, int64_t, int64_t>, ValueId> limits_;
  std::map<std::tuple<int32_t, int64_t, int64_t, int64_t, int64_t, size_t>, ValueId> counts_;
  std::map<std::tuple<ValueId, size_t, size_t, uint64_t>, ValueId> masked_;  // by the bits of what fills
};

}  // namespace tcc::graph
