// Lowering of single precision: which operators are lowered, where conversions are, and what values become.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

struct Net {
  Graph g;

  ValueId input(Shape shape, DType dtype = DType::kF32) { return g.add_input("x", dtype, std::move(shape)); }
  ValueId weight(Shape shape, double scale = 1) {
    std::vector<double> values = random_tensor(Value{.shape = shape}, 7).data;
    for (double& v : values) v *= scale;
    return g.add_constant("w", DType::kF32, std::move(shape), make_constant_from_doubles(DType::kF32, values));
  }
  ValueId number(double v) { return g.add_constant("c", DType::kF32, {}, make_splat(DType::kF32, v)); }
  ValueId add(Op op, Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "n");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId plain(Op op, std::vector<ValueId> inputs) { return add(op, NoAttrs{}, std::move(inputs)); }
  ValueId unary(UnaryFn fn, ValueId x) { return add(Op::kUnary, UnaryAttrs{fn}, {x}); }
  ValueId gemm(ValueId x, int64_t rows, int64_t columns) {
    return add(Op::kGemm, GemmAttrs{}, {x, weight({rows, columns}, 0.1)});
  }
  void output(ValueId id) { g.add_output(id, "y"); }
};

// "Cast:f16 Gemm:f16 Relu:f16 Cast:f32" after lowering. The results on random inputs stay within the tolerance.
std::string lowered(Net net, DType low = DType::kF16, double tolerance = 2e-2) {
  Graph& g = net.g;
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) inputs.push_back(random_tensor(g.value(id), 5));
  auto before = run_reference(g, inputs, 1);
  lower_precision(g, low);
  eliminate(g);
  verify_graph(g);
  auto after = run_reference(g, inputs, 1);
  REQUIRE(before.has_value());
  REQUIRE(after.has_value());
  for (size_t o = 0; o < before->size(); ++o) {
    double scale = 1e-30;
    for (double v : before->at(o).data) scale = std::max(scale, std::fabs(v));
    for (size_t i = 0; i < before->at(o).data.size(); ++i)
      REQUIRE(std::fabs(before->at(o).data[i] - after->at(o).data[i]) <= tolerance * scale);
  }
  std::string text;
  for (NodeId id : g.order) {
    const Node& node = g.node(id);
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", node_name(node), dtype_name(g.value(node.output).dtype));
  }
  return text;
}

}  // namespace

TEST_CASE("contractions and what follows them are lowered between the edges of the model") {
  for (DType low : {DType::kF16, DType::kBF16}) {
    Net n;
    ValueId x = n.gemm(n.input({3, 4}), 4, 5);
    x = n.plain(Op::kAdd, {x, n.weight({5})});
    n.output(n.gemm(n.plain(Op::kRelu, {x}), 5, 2));
    CHECK(lowered(std::move(n), low, 5e-2) ==
          fmt::format("Cast:{0} Gemm:{0} Add:{0} Relu:{0} Gemm:{0} Cast:f32", dtype_name(low)));
  }
}

TEST_CASE("operators whose results may leave the range stay in single precision") {
  Net n;
  ValueId x = n.gemm(n.input({3, 4}), 4, 5);
  ValueId e = n.unary(UnaryFn::kExp, x);
  n.output(n.gemm(e, 5, 2));
  CHECK(lowered(std::move(n)) == "Cast:f16 Gemm:f16 Cast:f32 Exp:f32 Cast:f16 Gemm:f16 Cast:f32");

  Net square;
  x = square.gemm(square.input({3, 4}), 4, 5);
  square.output(square.gemm(square.plain(Op::kMul, {x, x}), 5, 2));
  CHECK(lowered(std::move(square)) == "Cast:f16 Gemm:f16 Cast:f32 Mul:f32 Cast:f16 Gemm:f16 Cast:f32");

  Net sum;
  x = sum.gemm(sum.input({3, 4}), 4, 5);
  sum.output(sum.add(Op::kReduceSum, ReduceAttrs{{1}, true}, {x}));
  CHECK(lowered(std::move(sum)) == "Cast:f16 Gemm:f16 Cast:f32 ReduceSum:f32");

  Net mean;
  x = mean.gemm(mean.input({3, 4}), 4, 5);
  mean.output(mean.add(Op::kReduceMean, ReduceAttrs{{1}, true}, {x}));
  CHECK(lowered(std::move(mean)) == "Cast:f16 Gemm:f16 ReduceMean:f16 Cast:f32");
}

TEST_CASE("constants that do not fit keep their readers in single precision") {
  for (const auto& [c, low, name] :
       {std::tuple(0.125, true, "Add"), std::tuple(-3e38, false, "Add"), std::tuple(1e-12, false, "Add"),
        std::tuple(0.0, true, "Add"), std::tuple(HUGE_VAL, false, "Max"), std::tuple(8.0, true, "Div"),
        std::tuple(0.125, false, "Div")}) {
    INFO(name << " " << c);
    Net n;
    ValueId x = n.gemm(n.input({3, 4}), 4, 5), constant = n.number(c);
    x = std::string(name) == "Max" ? n.add(Op::kBinary, BinaryAttrs{BinaryFn::kMin}, {x, constant})
                                   : n.plain(std::string(name) == "Add" ? Op::kAdd : Op::kDiv, {x, constant});
    n.output(n.gemm(x, 5, 2));
    CHECK((lowered(std::move(n)).find("Cast:f32 ") == std::string::npos) == low);
  }
  // Weights, too: the product is not lowered at all.
  Net n;
  n.output(n.add(Op::kGemm, GemmAttrs{}, {n.input({3, 4}), n.weight({4, 5}, 1e6)}));
  CHECK(lowered(n) == "Gemm:f32");
  CHECK(lowered(std::move(n), DType::kBF16) == "Cast:bf16 Gemm:bf16 Cast:f32");
}

TEST_CASE("a value is converted once, and views pass conversions on to what is in front of them") {
  Net n;
  ValueId x = n.unary(UnaryFn::kExp, n.input({2, 6}));
  ValueId view = n.add(Op::kReshape, ReshapeAttrs{{3, 4}}, {x});
  n.output(n.plain(Op::kAdd, {n.gemm(view, 4, 5), n.gemm(view, 4, 5)}));
  CHECK(lowered(std::move(n)) == "Exp:f32 Cast:f16 Reshape:f16 Gemm:f16 Gemm:f16 Add:f16 Cast:f32");

  Net back;
  x = back.gemm(back.input({3, 4}), 4, 5);
  back.output(back.add(Op::kReshape, ReshapeAttrs{{5, 3}}, {x}));
  CHECK(lowered(std::move(back)) == "Cast:f16 Gemm:f16 Cast:f32 Reshape:f32");
}

TEST_CASE("readers of an output of the model that may have either type take its f32") {
  Net n;
  ValueId x = n.plain(Op::kRelu, {n.gemm(n.input({3, 4}), 4, 5)});
  n.output(x);
  n.output(n.gemm(n.plain(Op::kTanh, {x}), 5, 2));
  CHECK(lowered(std::move(n)) == "Cast:f16 Gemm:f16 Relu:f16 Cast:f32 Tanh:f32 Cast:f16 Gemm:f16 Cast:f32");
}

TEST_CASE("tables are looked up in the low type, values of other types are left alone") {
  Net n;
  ValueId ids = n.input({3}, DType::kI64);
  n.output(n.gemm(n.add(Op::kGather, AxisAttrs{0}, {n.weight({9, 4}), ids}), 4, 5));
  CHECK(lowered(std::move(n)) == "Gather:f16 Gemm:f16 Cast:f32");

  Net wide;
  ValueId w = wide.g.add_constant("w", DType::kF64, {4, 5}, make_splat(DType::kF64, 1));
  wide.output(wide.add(Op::kGemm, GemmAttrs{}, {wide.input({3, 4}, DType::kF64), w}));
  CHECK(lowered(std::move(wide)) == "Gemm:f64");

  Net integers;
  ValueId i = integers.input({3, 4}, DType::kI32);
  integers.output(integers.plain(Op::kAdd, {i, i}));
  CHECK(lowered(std::move(integers)) == "Add:i32");
}

TEST_CASE("an attention whose mask is f32 is one group, its weights rounded on the way") {
  Net n;
  const Shape heads{2, 8, 16};
  ValueId scores = n.add(Op::kMatMul, MatMulAttrs{{}, {0, 2, 1}, {}}, {n.input(heads), n.input(heads)});
  scores = n.plain(Op::kAdd, {scores, n.input({1, 1, 8})});
  ValueId weights = n.add(Op::kSoftmax, AxisAttrs{2}, {scores});
  n.output(n.add(Op::kMatMul, MatMulAttrs{}, {weights, n.input(heads)}));
  lower_precision(n.g, DType::kF16);
  eliminate(n.g);
  std::string groups;
  for (const FusionGroup& group : fuse(n.g, {.attention = true})) groups += group_text(n.g, group) + "; ";
  CHECK(groups == "Cast; Cast; Cast; MatMul+Cast+Add+Softmax+Cast+MatMul+Cast; ");
}

TEST_CASE("products of halves become products of floats where several results read each operand") {
  const auto widened = [](int64_t rows, int64_t columns, Op op = Op::kMatMul) {
    Net n;
    const bool conv = op == Op::kConv;
    const ValueId x = n.input(conv ? Shape{1, rows, 5, 6} : Shape{rows, 4}, DType::kF16);
    const ValueId w = n.input(conv ? Shape{columns, rows, 3, 3} : Shape{4, columns}, DType::kF16);
    n.output(conv ? n.add(op, ConvAttrs{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {x, w})
                  : n.add(op, MatMulAttrs{}, {x, w}));
    std::vector<HostTensor> inputs;
    for (ValueId id : n.g.inputs) inputs.push_back(random_tensor(n.g.value(id), 5));
    const auto before = run_reference(n.g, inputs, 1);
    const DType types[] = {DType::kF16};
    widen_products(n.g, types);
    verify_graph(n.g);
    const auto after = run_reference(n.g, inputs, 1);
    REQUIRE((before.has_value() && after.has_value()));
    double scale = 0;
    for (double v : before->at(0).data) scale = std::max(scale, std::fabs(v));
    for (size_t i = 0; i < before->at(0).data.size(); ++i)
      REQUIRE(std::fabs(before->at(0).data[i] - after->at(0).data[i]) <= 1e-3 * scale);
    std::string text;
    for (NodeId id : n.g.order)
      text += fmt::format("{}:{} ", node_name(n.g.node(id)), dtype_name(n.g.value(n.g.node(id).output).dtype));
    return text;
  };
  CHECK(widened(9, 8) == "Cast:f32 Cast:f32 MatMul:f32 Cast:f16 ");
  CHECK(widened(1, 40) == "MatMul:f16 ");  // reads each weight once
  CHECK(widened(40, 1) == "MatMul:f16 ");
  CHECK(widened(3, 8, Op::kConv) == "Cast:f32 Cast:f32 Conv:f32 Cast:f16 ");
  CHECK(widened(1, 8, Op::kConv) == "Conv:f16 ");
  // Nothing is converted between products, whatever is between them.
  Net n;
  const ValueId x = n.input({9, 16}, DType::kF16);
  const ValueId half = n.g.add_constant("c", DType::kF16, {}, make_splat(DType::kF16, 0.5));
  ValueId y = n.plain(Op::kMul, {n.add(Op::kMatMul, MatMulAttrs{{}, {1, 0}, {}}, {x, x}), half});
  y = n.add(Op::kMatMul, MatMulAttrs{}, {n.add(Op::kSoftmax, AxisAttrs{1}, {y}), x});
  n.output(n.plain(Op::kAdd, {y, n.input({9, 16}, DType::kF16)}));
  const DType types[] = {DType::kF16};
  CHECK(widen_products(n.g, types) == 2);
  eliminate(n.g);
  std::string text;
  for (NodeId id : n.g.order)
    text += fmt::format("{}:{} ", node_name(n.g.node(id)), dtype_name(n.g.value(n.g.node(id).output).dtype));
  CHECK(text == "Cast:f32 Cast:f32 MatMul:f32 Mul:f32 Softmax:f32 MatMul:f32 Cast:f16 Add:f16 ");
}
