// Convolutions by tiles as tasks: the naive nest, interpreted, against the direct convolution of the graph.
#include <catch2/catch.hpp>
#include <cmath>

#include "graph/winograd_amplification.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/winograd.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/rng.h"
#include "tcc/task/task.h"

using namespace tcc;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::ValueId;

namespace {

ValueId weight(Graph& g, Shape shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
  for (double& v : values) v = rng.normal();
  return g.add_constant("w", DType::kF32, std::move(shape), graph::make_constant_from_doubles(DType::kF32, values));
}

// relu(conv(x) + bias + y), or the convolution alone.
Graph conv_graph(const Shape& in, int64_t filters, int64_t pad, bool epilogue) {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, in);
  graph::ConvAttrs a{{3, 3}, {1, 1}, {1, 1}, {pad, pad}, {pad, pad}, 1};
  std::vector<ValueId> inputs{x, weight(g, {filters, in[1], 3, 3}, 3)};
  if (epilogue) inputs.push_back(weight(g, {filters}, 4));
  ValueId y = *g.add_node(Op::kConv, a, inputs, "conv");
  if (epilogue) {
    ValueId residual = g.add_input("r", DType::kF32, g.value(y).shape);
    y = *g.add_node(Op::kRelu, graph::NoAttrs{}, {*g.add_node(Op::kAdd, graph::NoAttrs{}, {y, residual}, "add")},
                    "relu");
  }
  g.add_output(y, "y");
  return g;
}

task::Task only_task(const Graph& g) {
  auto groups = graph::fuse(g);
  REQUIRE(groups.size() == 1);
  auto made = task::make_task(g, groups[0]);
  REQUIRE(made.has_value());
  return std::move(*made);
}

std::vector<double> interpret(const Graph& g, const task::Task& t, const std::vector<graph::HostTensor>& inputs) {
  std::vector<interp::TensorData> data;
  for (const task::ParamSource& p : t.params) {
    const graph::Value& v = g.value(p.value);
    if (p.kind == task::ParamKind::kOutput) {
      data.push_back(interp::TensorData::zeros(ir::Type::kF32, v.shape));
    } else if (v.is_constant()) {
      data.push_back(interp::TensorData::from_doubles(ir::Type::kF32, v.shape,
                                                      graph::constant_doubles(*v.constant, v.dtype, v.elements())));
    } else {
      const size_t n = static_cast<size_t>(std::find(g.inputs.begin(), g.inputs.end(), p.value) - g.inputs.begin());
      data.push_back(interp::TensorData::from_doubles(ir::Type::kF32, v.shape, inputs.at(n).data));
    }
  }
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  interp::Report report = interp::run(t.kernel, pointers);
  INFO(report.text());
  REQUIRE(report.ok());
  return data.back().to_doubles();
}

}  // namespace

TEST_CASE("a convolution by tiles gives the direct convolution") {
  struct Case {
    Shape in;
    int64_t filters, pad;
    bool epilogue;
  };
  const Case cases[] = {{{1, 33, 15, 17}, 35, 1, true},
                        {{1, 37, 18, 18}, 34, 0, false},  // tiles fit: nothing is cut, nothing is padded
                        {{1, 35, 17, 20}, 33, 0, true},
                        {{2, 39, 9, 19}, 31, 1, false}};
  for (int64_t m : {2, 4}) {
    for (const Case& c : cases) {
      Graph direct = conv_graph(c.in, c.filters, c.pad, c.epilogue), tiles = direct;
      REQUIRE(graph::apply_winograd(tiles, m) == 1);
      const task::Task task = only_task(tiles), plain = only_task(direct);
      INFO(task.workload << "\n" << ir::print(task.kernel));
      for (const std::string& finding : ir::verify(task.kernel)) FAIL(finding);
      CHECK(task.key != plain.key);
      CHECK(task.workload.find("winograd") != std::string::npos);
      CHECK(task.anchor_block == "winograd_product");
      CHECK(task.anchor == task::AnchorKind::kConv);
      CHECK(task.flops < plain.flops);
      std::vector<graph::HostTensor> inputs;
      double largest = 0;
      for (ValueId id : direct.inputs) {
        inputs.push_back(graph::random_tensor(direct.value(id), 9 + static_cast<uint64_t>(id)));
        for (double v : inputs.back().data) largest = std::max(largest, std::fabs(v));
      }
      auto want = graph::run_reference(direct, inputs, 1);
      REQUIRE(want.has_value());
      const std::vector<double> got = interpret(tiles, task, inputs);
      // The tolerance of the header, on sums of 9 C products of normal numbers.
      const double terms = 9.0 * static_cast<double>(c.in[1]);
      const double allowed = 4 * std::ldexp(1, -24) * std::sqrt(terms) * graph::winograd_amplification(m) * largest;
      REQUIRE(got.size() == want->at(0).data.size());
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("element " << i);
        REQUIRE(std::fabs(got[i] - want->at(0).data[i]) <= allowed);
      }
    }
  }
}

TEST_CASE("the two tile sizes are tasks of their own") {
  Graph two = conv_graph({1, 64, 16, 16}, 64, 1, false), four = two;
  REQUIRE(graph::apply_winograd(two, 2) == 1);
  REQUIRE(graph::apply_winograd(four, 4) == 1);
  CHECK(only_task(two).key != only_task(four).key);
}
