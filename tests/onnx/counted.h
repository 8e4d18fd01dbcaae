// Results whose extents are known at run time only, cut to the elements that count.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "onnx/models.h"

namespace tcc::onnx {

// The elements before the counts.
inline graph::HostTensor counted_part(const graph::Graph& g, size_t output, const std::vector<graph::HostTensor>& all) {
  const graph::HostTensor& whole = all[output];
  graph::Shape shape = whole.shape;
  for (const graph::CountedAxis& a : g.counted_axes)
    if (static_cast<size_t>(a.output) == output)
      shape[static_cast<size_t>(a.axis)] =
          static_cast<int64_t>(all[g.model_outputs() + static_cast<size_t>(a.count)].data[0]);
  graph::HostTensor part{shape, {}};
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t n = graph::element_count(shape); n-- > 0;) {
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) from = from * whole.shape[axis] + at[axis];
    part.data.push_back(whole.data[static_cast<size_t>(from)]);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
  return part;
}

inline std::vector<graph::HostTensor> run_counted(const std::string& bytes,
                                                  const std::vector<std::vector<double>>& data) {
  auto g = import_text(bytes);
  if (!g) FAIL(g.error().message);
  graph::verify_graph(*g);
  std::vector<graph::HostTensor> inputs, parts;
  for (size_t i = 0; i < g->inputs.size(); ++i) inputs.push_back({g->value(g->inputs[i]).shape, data[i]});
  auto all = graph::run_reference(*g, inputs, 1);
  REQUIRE(all.has_value());
  for (size_t i = 0; i < g->model_outputs(); ++i) parts.push_back(counted_part(*g, i, *all));
  return parts;
}

}  // namespace tcc::onnx
