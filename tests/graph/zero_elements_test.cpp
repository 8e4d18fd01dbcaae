// Tensors without elements: what is made of them is known before the model runs.
#include <catch2/catch.hpp>
#include <cmath>

#include "graph/add_node.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

void optimized(Graph& g) {
  auto evaluator = reference_evaluator();
  auto result = optimize(g, evaluator.get());
  if (!result) FAIL(result.error().message);
}
// The only output, which must not depend on a group.
std::vector<double> known_result(Graph g, ValueId y) {
  g.add_output(y, "y");
  optimized(g);
  REQUIRE(g.order.size() == 1);
  const Node& copy = g.node(g.order[0]);
  REQUIRE(copy.op == Op::kIdentity);
  const Value& v = g.value(copy.inputs[0]);
  REQUIRE(v.is_constant());
  return constant_doubles(*v.constant, v.dtype, v.elements());
}

}  // namespace

TEST_CASE("reductions, products and pads of nothing are constants") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto reduced = [](Op op, DType dtype) {
    Graph g;
    ValueId x = g.add_input("x", dtype, {2, 0});
    return known_result(g, add(g, op, ReduceAttrs{{1}, false}, {x}));
  };
  CHECK(reduced(Op::kReduceSum, DType::kF32) == std::vector<double>{0, 0});
  CHECK(reduced(Op::kReduceProd, DType::kI64) == std::vector<double>{1, 1});
  CHECK(reduced(Op::kReduceMax, DType::kF32) == std::vector<double>{-kInfinity, -kInfinity});
  CHECK(reduced(Op::kReduceMin, DType::kI32) == std::vector<double>{2147483647, 2147483647});
  CHECK(std::isnan(reduced(Op::kReduceMean, DType::kF32)[0]));
  Graph product;
  ValueId a = product.add_input("a", DType::kF32, {2, 0}), b = product.add_input("b", DType::kF32, {0, 1});
  CHECK(known_result(product, add(product, Op::kMatMul, MatMulAttrs{}, {a, b})) == std::vector<double>{0, 0});
  Graph padded;
  ValueId x = padded.add_input("x", DType::kF32, {0});
  CHECK(known_result(padded, add(padded, Op::kPad, PadAttrs{{1}, {1}, 3}, {x})) == std::vector<double>{3, 3});
}

TEST_CASE("a part without elements leaves a Concat, and a result without elements needs no kernel") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3}), nothing = g.add_input("n", DType::kF32, {0, 3});
  g.add_output(add(g, Op::kRelu, NoAttrs{}, {add(g, Op::kConcat, AxisAttrs{0}, {nothing, x, nothing})}), "y");
  g.add_output(add(g, Op::kTanh, NoAttrs{}, {nothing}), "z");
  optimized(g);
  const auto groups = fuse(g);
  REQUIRE(groups.size() == 1);
  CHECK(group_text(g, groups[0]) == "Relu");
  const MemoryPlan plan = plan_memory(g, groups);
  CHECK(plan.storage[static_cast<size_t>(storage_root(g, g.outputs[1]))].kind == StorageKind::kOutput);
  auto outputs = run_reference(g, {{{2, 3}, {1, -1, 2, -2, 3, -3}}, {{0, 3}, {}}}, 1);
  REQUIRE(outputs.has_value());
  CHECK(outputs->at(0).data == std::vector<double>{1, 0, 2, 0, 3, 0});
  CHECK(outputs->at(1).data.empty());
}
