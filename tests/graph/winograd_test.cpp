// Convolutions by tiles: the transforms, the pass, and the graph's definition of the form.
#include "tcc/graph/winograd.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "graph/print_graph.h"
#include "graph/winograd_amplification.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

ValueId weight(Graph& g, Shape shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& v : values) v = rng.normal();
  return g.add_constant("w", DType::kF32, std::move(shape), make_constant_from_doubles(DType::kF32, values));
}

ConvAttrs conv_attrs(int64_t pad_begin, int64_t pad_end) {
  ConvAttrs a;
  a.kernel = {3, 3};
  a.strides = a.dilations = {1, 1};
  a.pads_begin = {pad_begin, pad_begin};
  a.pads_end = {pad_end, pad_end};
  return a;
}

Graph conv_graph(const Shape& in, int64_t filters, const ConvAttrs& attrs) {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, in);
  Shape kernel{filters, in[1] / attrs.group};
  kernel.insert(kernel.end(), attrs.kernel.begin(), attrs.kernel.end());
  auto y = g.add_node(Op::kConv, attrs, {x, weight(g, kernel, 3), weight(g, {filters}, 4)}, "conv");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  return g;
}

double largest_difference(const Graph& a, const Graph& b) {
  const HostTensor x = random_tensor(a.value(a.inputs[0]), 5);
  auto want = run_reference(a, {x}, 1), got = run_reference(b, {x}, 1);
  REQUIRE(want.has_value());
  REQUIRE(got.has_value());
  REQUIRE(want->at(0).shape == got->at(0).shape);
  double most = 0;
  for (size_t i = 0; i < want->at(0).data.size(); ++i)
    most = std::max(most, std::fabs(want->at(0).data[i] - got->at(0).data[i]));
  return most;
}

}  // namespace

TEST_CASE("winograd forms compute the convolution they replace") {
  // The transformed weights are rounded to f32: what they then multiply is at most amplification * sqrt(9 C) or so.
  for (int64_t m : {2, 4}) {
    for (auto [begin, end] : {std::pair{0, 0}, std::pair{1, 1}, std::pair{1, 0}, std::pair{2, 1}}) {
      INFO("m " << m << " pads " << begin << " " << end);
      Graph direct = conv_graph({2, 33, 13, 15}, 35, conv_attrs(begin, end)), tiles = direct;
      REQUIRE(apply_winograd(tiles, m) == 1);
      verify_graph(tiles);
      const Node& node = tiles.node(tiles.order[0]);
      CHECK(node.as<ConvAttrs>().winograd == m);
      CHECK(tiles.value(node.inputs[1]).shape == Shape{(m + 2) * (m + 2), 35, 33});
      CHECK(attributes_text(node).find("winograd=") != std::string::npos);
      CHECK(node_flops(tiles, node) < node_flops(direct, direct.node(direct.order[0])));
      const double difference = largest_difference(direct, tiles);
      CHECK(difference < 6e-8 * winograd_amplification(m) * 4 * std::sqrt(9 * 33.0));
      CHECK(difference > 0);
    }
  }
}

TEST_CASE("the accuracy that a winograd form may lose is known") {
  CHECK(winograd_amplification(2) == Approx(64.0 / 9));
  CHECK(winograd_amplification(4) == Approx(256));
}

namespace {

// One tile of the form in floats, summed up channel by channel, against the direct sums in double; the largest
// difference. `g`: one filter, C x 3 x 3. `x`: C x a x a.
double error_in_floats(int64_t m, const std::vector<double>& g, const std::vector<double>& x, int64_t channels) {
  const WinogradMatrices& w = winograd_matrices(m);
  const auto a = static_cast<size_t>(w.a), side = static_cast<size_t>(w.m);
  const std::vector<double> u = winograd_weight(g, 1, channels, m);
  const auto sandwich = [](const std::vector<double>& t, size_t rows, size_t columns, const std::vector<float>& from) {
    std::vector<float> half(rows * columns), to(rows * rows);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j)
        for (size_t k = 0; k < columns; ++k)
          half[i * columns + j] += static_cast<float>(t[i * columns + k]) * from[k * columns + j];
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < rows; ++j)
        for (size_t k = 0; k < columns; ++k)
          to[i * rows + j] += half[i * columns + k] * static_cast<float>(t[j * columns + k]);
    return to;
  };
  std::vector<float> product(a * a);
  std::vector<double> direct(side * side);
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double* tile = x.data() + c * a * a;
    const std::vector<float> v = sandwich(w.bt, a, a, std::vector<float>(tile, tile + a * a));
    for (size_t i = 0; i < a * a; ++i)
      product[i] += static_cast<float>(u[i * static_cast<size_t>(channels) + c]) * v[i];
    for (size_t i = 0; i < side; ++i)
      for (size_t j = 0; j < side; ++j)
        for (size_t k = 0; k < 9; ++k) direct[i * side + j] += g[c * 9 + k] * tile[(i + k / 3) * a + j + k % 3];
  }
  const std::vector<float> y = sandwich(w.at, side, a, product);
  double most = 0;
  for (size_t i = 0; i < y.size(); ++i) most = std::max(most, std::fabs(static_cast<double>(y[i]) - direct[i]));
  return most;
}

// A convolution whose filters have one element each, at the corner: F(4x4, 3x3) is least accurate for it.
Graph corner_graph(int64_t channels) {
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, {1, channels, 16, 16});
  std::vector<double> values(static_cast<size_t>(32 * channels * 9), 0.0);
  for (size_t i = 8; i < values.size(); i += 9) values[i] = 1;
  const ValueId w =
      g.add_constant("w", DType::kF32, {32, channels, 3, 3}, make_constant_from_doubles(DType::kF32, values));
  auto y = g.add_node(Op::kConv, conv_attrs(1, 1), {x, w}, "conv");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  return g;
}

}  // namespace

TEST_CASE("the error of a winograd form is bounded by its weights") {
  for (int64_t m : {2, 4}) {
    for (int64_t channels : {16, 200}) {
      Graph g = conv_graph({1, channels, 16, 16}, 1, conv_attrs(1, 1));
      const Node& node = g.node(g.order[0]);
      const Value& weight = g.value(node.inputs[1]);
      const std::vector<double> filter = constant_doubles(*weight.constant, weight.dtype, weight.elements());
      double norm = 0;
      for (double v : filter) norm += v * v;
      const double bound = winograd_error(g, node, m) * std::sqrt(norm);
      Rng rng(7);
      double most = 0;
      for (int i = 0; i < 50; ++i) {
        std::vector<double> x(static_cast<size_t>(channels * (m + 2) * (m + 2)));
        for (double& v : x) v = static_cast<float>(2 * rng.uniform() - 1);  // max|x| is 1
        most = std::max(most, error_in_floats(m, filter, x, channels));
      }
      INFO("m " << m << " channels " << channels);
      CHECK(most <= bound);
      CHECK(most > bound / 1000);  // and it is not far from what happens
    }
  }
}

TEST_CASE("a convolution whose winograd error may pass the tolerance keeps its direct form") {
  Graph few = corner_graph(64), many = corner_graph(512), small = many;
  CHECK(winograd_error(few, few.node(few.order[0]), 4) < kWinogradTolerance);
  CHECK(refused_winograd(few, 4).empty());
  CHECK(apply_winograd(few, 4) == 1);

  const double error = winograd_error(many, many.node(many.order[0]), 4);
  CHECK(error > kWinogradTolerance);
  CHECK(error < 2 * kWinogradTolerance);
  CHECK_FALSE(is_winograd_accurate(many, many.node(many.order[0]), 4));
  CHECK(apply_winograd(many, 4) == 0);
  CHECK(refused_winograd(many, 4) == many.order);
  CHECK(many.node(many.order[0]).as<ConvAttrs>().winograd == 0);
  CHECK(apply_winograd(small, 2) == 1);
  CHECK(refused_winograd(small, 2).empty());
}

TEST_CASE("only convolutions that the form computes and that gain take it") {
  ConvAttrs plain = conv_attrs(1, 1);
  auto marked = [](const Shape& in, int64_t filters, const ConvAttrs& a) {
    Graph g = conv_graph(in, filters, a);
    return apply_winograd(g, 4);
  };
  CHECK(marked({1, 64, 56, 56}, 64, plain) == 1);
  CHECK(marked({1, 3, 56, 56}, 64, plain) == 0);  // the transforms cost more than the products
  CHECK(marked({1, 64, 7, 7}, 64, plain) == 0);   // four tiles
  ConvAttrs a = plain;
  a.strides = {2, 2};
  CHECK(marked({1, 64, 56, 56}, 64, a) == 0);
  a = plain, a.dilations = {2, 2};
  CHECK(marked({1, 64, 56, 56}, 64, a) == 0);
  a = plain, a.group = 2;
  CHECK(marked({1, 64, 56, 56}, 64, a) == 0);
  a = plain, a.kernel = {3, 5};
  CHECK(marked({1, 64, 56, 56}, 64, a) == 0);
}

TEST_CASE("the winograd option is off by default and takes 2 or 4") {
  auto tile = [](int64_t winograd) {
    Graph g = conv_graph({1, 32, 28, 28}, 32, conv_attrs(1, 1));
    OptimizeOptions options;
    options.winograd = winograd;
    auto done = optimize(g, nullptr, options);
    return done ? g.node(g.order[0]).as<ConvAttrs>().winograd : -1;
  };
  Graph g = conv_graph({1, 32, 28, 28}, 32, conv_attrs(1, 1));
  REQUIRE(optimize(g, nullptr).has_value());
  CHECK(g.node(g.order[0]).as<ConvAttrs>().winograd == 0);
  CHECK(tile(0) == 0);
  CHECK(tile(2) == 2);
  CHECK(tile(4) == 4);
  CHECK(tile(3) == -1);
  CHECK(tile(6) == -1);
}

TEST_CASE("a weight that two convolutions read is transformed once") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 32, 28, 28}), w = weight(g, {32, 32, 3, 3}, 3);
  auto y = g.add_node(Op::kConv, conv_attrs(1, 1), {x, w}, "a");
  REQUIRE(y.has_value());
  auto z = g.add_node(Op::kConv, conv_attrs(1, 1), {*y, w}, "b");
  REQUIRE(z.has_value());
  g.add_output(*z, "z");
  REQUIRE(apply_winograd(g, 2) == 2);
  CHECK(g.node(g.order[0]).inputs[1] == g.node(g.order[1]).inputs[1]);
}

TEST_CASE("a wrong winograd node is an error") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 4, 8, 8});
  ConvAttrs a = conv_attrs(1, 1);
  a.winograd = 2;
  CHECK_FALSE(g.add_node(Op::kConv, a, {x, weight(g, {4, 4, 3, 3}, 1)}, "plain weight").has_value());
  CHECK_FALSE(g.add_node(Op::kConv, a, {x, weight(g, {36, 4, 4}, 1)}, "of other tiles").has_value());
  CHECK(g.add_node(Op::kConv, a, {x, weight(g, {16, 4, 4}, 1)}, "right").has_value());
  a.winograd = 3;
  CHECK_FALSE(g.add_node(Op::kConv, a, {x, weight(g, {25, 4, 4}, 1)}, "no such form").has_value());
}
