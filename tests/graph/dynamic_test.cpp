// Graphs made exact for smaller sizes equal the graphs of those sizes. Elements beyond the actual extents are NaN, or a
// wrong integer: nothing of it reaches an element that counts.
#include "tcc/graph/dynamic.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

using Sizes = std::vector<int64_t>;
using Make = std::function<Graph(const Sizes&)>;

ValueId add(Graph& g, Op op, Attributes attrs, std::vector<ValueId> inputs) {
  auto made = g.add_node(op, std::move(attrs), std::move(inputs), fmt::format("n{}", g.nodes.size()));
  REQUIRE(made);
  return *made;
}

ValueId weights(Graph& g, const Shape& shape, uint64_t seed) {
  Value value;
  value.shape = shape;
  return g.add_constant("w", DType::kF32, shape,
                        make_constant_from_doubles(DType::kF32, random_tensor(value, seed).data));
}

std::vector<std::string> names_of(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("n{}", i));
  return names;
}

Result<BoundGraph> bind(const Make& make, const Sizes& bounds) {
  std::vector<Graph> graphs;
  std::vector<Probe> probes;
  graphs.reserve(2 * bounds.size() + 1);
  auto probe = [&](Sizes sizes) {
    graphs.push_back(make(sizes));
    probes.push_back({std::move(sizes), nullptr});
  };
  Sizes all = bounds;
  for (size_t s = 0; s < bounds.size(); ++s) {
    for (int64_t step : {1, -1}) {
      Sizes sizes = bounds;
      sizes[s] += step;
      probe(sizes);
    }
    all[s] += 1;
  }
  probe(all);
  for (size_t i = 0; i < graphs.size(); ++i) probes[i].graph = &graphs[i];
  const Graph graph = make(bounds);
  return bind_dims(graph, names_of(bounds.size()), bounds, probes);
}

// Moves between a tensor of the actual extents and one of the largest, factor by factor.
template <class Visit>
void visit(const SymbolicShape& shape, const Sizes& sizes, const Sizes& bounds, Visit each) {
  std::vector<Factor> factors;
  for (const SymbolicAxis& axis : shape) factors.insert(factors.end(), axis.begin(), axis.end());
  int64_t count = 1;
  for (const Factor& f : factors) count *= f.extent(sizes);
  for (int64_t dense = 0; dense < count; ++dense) {
    int64_t rest = dense, wide = 0, stride = 1;
    for (size_t i = factors.size(); i-- > 0;) {
      wide += rest % factors[i].extent(sizes) * stride;
      rest /= factors[i].extent(sizes);
      stride *= factors[i].extent(bounds);
    }
    each(static_cast<size_t>(dense), static_cast<size_t>(wide));
  }
}

void check(const Make& make, const Sizes& bounds, const std::vector<Sizes>& all) {
  auto bound = bind(make, bounds);
  INFO((bound ? "" : bound.error().message));
  REQUIRE(bound);
  verify_graph(bound->graph);
  for (const Sizes& sizes : all) {
    INFO(fmt::format("sizes {}", fmt::join(sizes, ", ")));
    const Graph graph = make(sizes);
    std::vector<HostTensor> dense, wide;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value& value = graph.value(graph.inputs[i]);
      dense.push_back(random_tensor(value, 7 + i));
      REQUIRE(shape_at(bound->inputs[i], sizes) == value.shape);
      const Shape largest = shape_at(bound->inputs[i], bounds);
      const double beyond = is_float(value.dtype) ? std::numeric_limits<double>::quiet_NaN() : 0;
      wide.push_back({largest, std::vector<double>(static_cast<size_t>(element_count(largest)), beyond)});
      visit(bound->inputs[i], sizes, bounds, [&](size_t d, size_t w) { wide[i].data[w] = dense[i].data[d]; });
    }
    for (int64_t size : sizes) wide.push_back({{}, {static_cast<double>(size)}});
    auto expected = run_reference(graph, dense, 1), actual = run_reference(bound->graph, wide, 1);
    REQUIRE(expected);
    REQUIRE(actual);
    for (size_t o = 0; o < expected->size(); ++o) {
      REQUIRE(shape_at(bound->outputs[o], sizes) == (*expected)[o].shape);
      size_t wrong = 0;
      visit(bound->outputs[o], sizes, bounds, [&](size_t d, size_t w) {
        const double a = (*actual)[o].data[w], e = (*expected)[o].data[d];
        if (!(std::fabs(a - e) <= 1e-12 * std::max(1.0, std::fabs(e))) && !(std::isnan(a) && std::isnan(e))) ++wrong;
      });
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("a softmax and products over a dimension of unknown size") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {2, n[0], 6});
        const ValueId q = add(g, Op::kMatMul, MatMulAttrs{}, {x, weights(g, {6, 6}, 1)});
        const ValueId k = add(g, Op::kTranspose, TransposeAttrs{{0, 2, 1}}, {x});
        const ValueId scores = add(g, Op::kMatMul, MatMulAttrs{}, {q, k});
        const ValueId rows = add(g, Op::kSoftmax, AxisAttrs{2}, {scores});
        g.add_output(add(g, Op::kMatMul, MatMulAttrs{}, {rows, x}), "y");
        return g;
      },
      {9}, {{1}, {2}, {5}, {8}, {9}});
}

TEST_CASE("sums behind a logarithm of a softmax over a dimension of unknown size") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {3, n[0]});
        const ValueId y = add(g, Op::kLogSoftmax, AxisAttrs{1}, {x});
        g.add_output(add(g, Op::kReduceSum, ReduceAttrs{{1}, true}, {y}), "sum");
        g.add_output(y, "y");
        return g;
      },
      {9}, {{1}, {2}, {5}, {8}, {9}});
}

TEST_CASE("heads of an attention: reshapes split and join axes around a size") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {n[1], n[0], 6});
        const ValueId flat = add(g, Op::kReshape, ReshapeAttrs{{n[1] * n[0], 6}}, {x});
        const ValueId y = add(g, Op::kGemm, GemmAttrs{}, {flat, weights(g, {6, 8}, 1), weights(g, {8}, 2)});
        const ValueId heads = add(g, Op::kReshape, ReshapeAttrs{{n[1], n[0], 2, 4}}, {y});
        const ValueId first = add(g, Op::kTranspose, TransposeAttrs{{0, 2, 1, 3}}, {heads});
        const ValueId joined = add(g, Op::kReshape, ReshapeAttrs{{n[1] * 2, n[0], 4}}, {first});
        const ValueId turned = add(g, Op::kTranspose, TransposeAttrs{{0, 2, 1}}, {joined});
        const ValueId rows = add(g, Op::kSoftmax, AxisAttrs{2}, {add(g, Op::kMatMul, MatMulAttrs{}, {joined, turned})});
        g.add_output(add(g, Op::kMatMul, MatMulAttrs{}, {rows, joined}), "y");
        g.add_output(y, "flat");
        return g;
      },
      {7, 3}, {{1, 1}, {3, 2}, {6, 3}, {7, 1}, {7, 3}});
}

TEST_CASE("reductions and means over several sizes") {
  for (Op op : {Op::kReduceMean, Op::kReduceMax, Op::kReduceMin, Op::kReduceSum, Op::kReduceProd}) {
    INFO(op_name(op));
    check(
        [op](const Sizes& n) {
          Graph g;
          const ValueId x = g.add_input("x", DType::kF32, {n[0], 3, n[1]});
          g.add_output(add(g, op, ReduceAttrs{{0}, false}, {x}), "a");
          g.add_output(add(g, op, ReduceAttrs{{0, 2}, true}, {x}), "b");
          g.add_output(add(g, op, ReduceAttrs{{1}, true}, {x}), "c");
          return g;
        },
        {6, 5}, {{1, 1}, {2, 5}, {6, 4}, {6, 5}});
  }
}

TEST_CASE("a cache that grows by a row, and the position of that row") {
  auto make = [](const Sizes& n) {
    Graph g;
    const ValueId past = g.add_input("past", DType::kF32, {1, 2, n[0], 4});
    const ValueId x = g.add_input("x", DType::kF32, {1, 2, 1, 4});
    const ValueId all = add(g, Op::kConcat, AxisAttrs{2}, {past, x});
    const int64_t position = n[0];
    const ValueId at = g.add_constant("position", DType::kI64, {1}, make_constant_i64(std::span(&position, 1)));
    const ValueId row = add(g, Op::kGather, AxisAttrs{2}, {all, at});
    const ValueId keys = add(g, Op::kTranspose, TransposeAttrs{{0, 1, 3, 2}}, {all});
    const ValueId rows = add(g, Op::kSoftmax, AxisAttrs{3}, {add(g, Op::kMatMul, MatMulAttrs{}, {row, keys})});
    g.add_output(add(g, Op::kMatMul, MatMulAttrs{}, {rows, all}), "y");
    g.add_output(all, "present");
    return g;
  };
  check(make, {8}, {{1}, {2}, {5}, {7}, {8}});
  auto bound = bind(make, {8});
  REQUIRE(bound);
  CHECK(bound->appends_to == std::vector<int32_t>{kNone, 0});
  CHECK(bound->append_axis[1] == 2);
  CHECK(symbolic_text(bound->outputs[1], names_of(1)) == "1 x 2 x n0+1 x 4");
}

TEST_CASE("parts, pads, picks and sums so far along a size") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {n[0], 4});
        const ValueId y = g.add_input("y", DType::kF32, {n[0] + 2, 4});
        g.add_output(add(g, Op::kSlice, SliceAttrs{{n[0] - 1, 0}, {1, 1}, {1, 4}}, {x}), "last");
        g.add_output(add(g, Op::kSlice, SliceAttrs{{n[0] - 1, 3}, {-1, -1}, {n[0], 4}}, {x}), "reversed");
        g.add_output(add(g, Op::kSlice, SliceAttrs{{1, 0}, {1, 2}, {n[0] - 1, 2}}, {x}), "rest");
        g.add_output(add(g, Op::kPad, PadAttrs{{1, 0}, {2, 1}, 3.0}, {x}), "padded");
        g.add_output(add(g, Op::kConcat, AxisAttrs{0}, {x, y, x}), "joined");
        g.add_output(add(g, Op::kScan, ScanAttrs{0, true, true, false}, {x}), "sums");
        g.add_output(add(g, Op::kTopK, TopKAttrs{0, 2, true}, {x}), "greatest");
        g.add_output(add(g, Op::kTopK, TopKAttrs{0, 2, false}, {x}), "least");
        for (bool last : {false, true})
          g.add_output(add(g, Op::kArg, ArgAttrs{0, last, last}, {x}), last ? "last greatest" : "first least");
        const std::vector<int64_t> from_end = {-1, 0, -2};
        const ValueId at = g.add_constant("at", DType::kI64, {3}, make_constant_i64(from_end));
        g.add_output(add(g, Op::kGather, AxisAttrs{0}, {x, at}), "picked");
        return g;
      },
      {9}, {{2}, {3}, {5}, {8}, {9}});
}

TEST_CASE("windows over an extent of unknown size") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {2, 3, 2 * n[0]});
        const ValueId y = add(g, Op::kConv, ConvAttrs{{3}, {1}, {1}, {1}, {1}}, {x, weights(g, {4, 3, 3}, 1)});
        const ValueId z = add(g, Op::kConv, ConvAttrs{{3}, {2}, {1}, {1}, {1}}, {y, weights(g, {4, 4, 3}, 2)});
        g.add_output(add(g, Op::kMaxPool, PoolAttrs{{3}, {1}, {1}, {1}, {1}}, {z}), "max");
        g.add_output(add(g, Op::kAveragePool, PoolAttrs{{2}, {2}, {1}, {0}, {0}}, {y}), "mean");
        return g;
      },
      {8}, {{1}, {2}, {3}, {7}, {8}});
}

TEST_CASE("constants that are sliced for the size, and numbers that follow it") {
  check(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {n[0], 4});
        std::vector<double> rows(static_cast<size_t>(4 * n[0])), steps;
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i) / 8;
        const ValueId table =
            g.add_constant("table", DType::kF32, {n[0], 4}, make_constant_from_doubles(DType::kF32, rows));
        const double count = static_cast<double>(3 * n[0] - 1);
        const ValueId number =
            g.add_constant("count", DType::kF32, {}, make_constant_from_doubles(DType::kF32, std::span(&count, 1)));
        g.add_output(add(g, Op::kMul, NoAttrs{}, {add(g, Op::kAdd, NoAttrs{}, {x, table}), number}), "y");
        return g;
      },
      {6}, {{1}, {4}, {6}});
}

TEST_CASE("what cannot take a range is refused by the name of the node") {
  auto refused = [](const Make& make, const char* part) {
    auto bound = bind(make, {8});
    REQUIRE_FALSE(bound);
    INFO(bound.error().message);
    CHECK(bound.error().message.find(part) != std::string::npos);
    CHECK(bound.error().message.find("node 'n") != std::string::npos);
  };
  refused(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {n[0], 4});
        g.add_output(add(g, Op::kReshape, ReshapeAttrs{{4, n[0]}}, {x}), "y");
        return g;
      },
      "Reshape");
  refused(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {2, n[0]});
        const double root = std::sqrt(static_cast<double>(n[0]));
        const ValueId number =
            g.add_constant("root", DType::kF32, {}, make_constant_from_doubles(DType::kF32, std::span(&root, 1)));
        g.add_output(add(g, Op::kMul, NoAttrs{}, {x, number}), "y");
        return g;
      },
      "constant 'root' has elements that are not affine in the size");
  refused(
      [](const Sizes& n) {
        Graph g;
        const ValueId x = g.add_input("x", DType::kF32, {2, n[0]});
        g.add_output(add(g, Op::kLayerNorm, LayerNormAttrs{1}, {x, weights(g, {n[0]}, 1)}), "y");
        return g;
      },
      "LayerNorm");
}
