// Nodes of graphs that tests make.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// The node's result. Its name is that of the operator.
inline ValueId add(Graph& g, Op op, Attributes attrs, std::vector<ValueId> inputs) {
  auto id = g.add_node(op, std::move(attrs), std::move(inputs), std::string(op_name(op)));
  if (!id) FAIL(id.error().message);
  return *id;
}

}  // namespace tcc::graph
