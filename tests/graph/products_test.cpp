// Products as matrices, transposes that vanish, and what the pattern passes leave.
#include <catch2/catch.hpp>
#include <cmath>

#include "graph/add_node.h"
#include "graph/print_graph.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

ValueId weight(Graph& g, Shape shape) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i + 1));
  return g.add_constant("w", DType::kF32, shape, make_constant_from_doubles(DType::kF32, values));
}
ValueId transpose(Graph& g, ValueId x, std::vector<int64_t> perm) {
  return add(g, Op::kTranspose, TransposeAttrs{std::move(perm)}, {x});
}

std::vector<HostTensor> results(const Graph& g) {
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) inputs.push_back(random_tensor(g.value(id), 5));
  auto out = run_reference(g, inputs, 1);
  REQUIRE(out.has_value());
  return *out;
}

// Optimizes; the function stays. The operators that are left, without views.
std::string optimised(Graph& g, ValueId y, const OptimizeOptions& options = {}) {
  g.add_output(y, "y");
  auto before = results(g);
  REQUIRE(optimize(g, nullptr, options).has_value());
  auto after = results(g);
  REQUIRE(before[0].shape == after[0].shape);
  for (size_t i = 0; i < before[0].data.size(); ++i)
    REQUIRE(after[0].data[i] == Approx(before[0].data[i]).margin(1e-5));
  std::string text;
  for (NodeId id : g.order) {
    const Node& node = g.node(id);
    if (op_class(node.op) == OpClass::kView) continue;
    text += (text.empty() ? "" : " ") + std::string(node_name(node));
    std::string attributes = node.op == Op::kMatMul ? attributes_text(node) : "";
    if (!attributes.empty()) text += "(" + attributes + ")";
  }
  return text;
}

}  // namespace

TEST_CASE("a product with a matrix is one of two matrices, and its elementwise consumers with it") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3, 4});
  ValueId y = add(g, Op::kMatMul, MatMulAttrs{}, {x, weight(g, {4, 5})});
  y = add(g, Op::kAdd, NoAttrs{}, {weight(g, {5}), y});
  y = add(g, Op::kUnary, UnaryAttrs{UnaryFn::kGelu}, {y});
  y = add(g, Op::kAdd, NoAttrs{}, {y, g.add_input("r", DType::kF32, {2, 3, 5})});
  CHECK(optimised(g, y) == "Gemm Gelu Add");  // the bias is the product's
  CHECK(fuse(g).size() == 1);
  CHECK(g.value(g.outputs[0]).shape == Shape{2, 3, 5});
}

TEST_CASE("an operand that varies over the leading axes stops the matrix form") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3, 4});
  ValueId y = add(g, Op::kMatMul, MatMulAttrs{}, {x, weight(g, {4, 5})});
  y = add(g, Op::kMul, NoAttrs{}, {y, weight(g, {1, 3, 1})});
  CHECK(optimised(g, y) == "Gemm Mul");
  CHECK(fuse(g).size() == 2);
}

TEST_CASE("attention's transposes become part of its products") {
  Graph g;
  const Shape heads{1, 6, 2, 4};
  ValueId q = transpose(g, g.add_input("q", DType::kF32, heads), {0, 2, 1, 3});
  ValueId k = transpose(g, g.add_input("k", DType::kF32, heads), {0, 2, 1, 3});
  ValueId v = transpose(g, g.add_input("v", DType::kF32, heads), {0, 2, 1, 3});
  k = transpose(g, k, {0, 1, 3, 2});
  ValueId s = add(g, Op::kMatMul, MatMulAttrs{}, {q, k});
  s = add(g, Op::kSoftmax, AxisAttrs{3}, {s});
  ValueId c = transpose(g, add(g, Op::kMatMul, MatMulAttrs{}, {s, v}), {0, 2, 1, 3});
  c = add(g, Op::kReshape, ReshapeAttrs{{1, 6, 8}}, {c});
  CHECK(optimised(g, c) ==
        "MatMul(perm_a=[0,2,1,3] perm_b=[0,2,3,1]) Softmax MatMul(perm_b=[0,2,1,3] perm_out=[0,2,1,3])");
}

TEST_CASE("a transposed result that is read twice stays a transpose") {
  Graph g;
  ValueId a = g.add_input("a", DType::kF32, {2, 3, 4}), b = g.add_input("b", DType::kF32, {2, 4, 5});
  ValueId p = add(g, Op::kMatMul, MatMulAttrs{}, {a, b});
  ValueId t = transpose(g, p, {1, 0, 2});
  g.add_output(p, "p");
  CHECK(optimised(g, add(g, Op::kRelu, NoAttrs{}, {t})) == "MatMul Relu Transpose");
}

TEST_CASE("transposes meet their inverses behind elementwise operators") {
  Graph g;
  ValueId x = transpose(g, g.add_input("x", DType::kF32, {1, 3, 4, 4}), {0, 2, 3, 1});
  x = add(g, Op::kMul, NoAttrs{}, {x, weight(g, {3})});
  x = add(g, Op::kRelu, NoAttrs{}, {x});
  CHECK(optimised(g, transpose(g, x, {0, 3, 1, 2})) == "Mul Relu");
}

TEST_CASE("transposes that move axes of extent 1 are views, those of matrices flags") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 3, 1, 4});
  CHECK(optimised(g, add(g, Op::kRelu, NoAttrs{}, {transpose(g, x, {2, 1, 3, 0})})) == "Relu");
  Graph h;
  ValueId m = transpose(h, h.add_input("m", DType::kF32, {4, 3}), {1, 0});
  ValueId n = transpose(h, h.add_input("n", DType::kF32, {5, 4}), {1, 0});
  CHECK(optimised(h, add(h, Op::kMatMul, MatMulAttrs{}, {m, n})) == "Gemm");
}

TEST_CASE("wrong permutations and blocks are errors", "[errors]") {
  Graph g;
  ValueId a = g.add_input("a", DType::kF32, {2, 3}), b = g.add_input("b", DType::kF32, {3, 4});
  CHECK(!g.add_node(Op::kMatMul, MatMulAttrs{{0, 0}, {}, {}}, {a, b}, "n"));
  CHECK(!g.add_node(Op::kMatMul, MatMulAttrs{{}, {0, 1, 2}, {}}, {a, b}, "n"));
  ValueId x = g.add_input("x", DType::kF32, {1, 2, 5, 5, 8});
  ConvAttrs conv{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  conv.block_in = 4;
  CHECK(!g.add_node(Op::kConv, conv, {x, weight(g, {16, 16, 3, 3})}, "n"));
  conv.block_in = 8;
  conv.block_out = 5;
  CHECK(!g.add_node(Op::kConv, conv, {x, weight(g, {16, 16, 3, 3})}, "n"));
  conv.block_out = 4;
  auto y = g.add_node(Op::kConv, conv, {x, weight(g, {16, 16, 3, 3})}, "n");
  REQUIRE(y);
  CHECK(g.value(*y).shape == Shape{1, 4, 5, 5, 4});
}

namespace {

ConvAttrs square(int64_t kernel, int64_t group = 1) {
  ConvAttrs a{{kernel, kernel}, {1, 1}, {1, 1}, {kernel / 2, kernel / 2}, {kernel / 2, kernel / 2}};
  a.group = group;
  return a;
}

// conv 3->16, depthwise, conv 16->8 with bias and a residual, pool, mean.
ValueId small_network(Graph& g) {
  ValueId x = g.add_input("x", DType::kF32, {1, 3, 8, 8});
  x = add(g, Op::kConv, square(3), {x, weight(g, {16, 3, 3, 3}), weight(g, {16})});
  x = add(g, Op::kClip, ClipAttrs{0, 6}, {x});
  ValueId y = add(g, Op::kConv, square(3, 16), {x, weight(g, {16, 1, 3, 3})});
  y = add(g, Op::kConv, square(1), {y, weight(g, {16, 16, 1, 1})});
  y = add(g, Op::kMul, NoAttrs{}, {add(g, Op::kAdd, NoAttrs{}, {x, y}), weight(g, {16, 1, 1})});
  y = add(g, Op::kMaxPool, PoolAttrs{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {y});
  return add(g, Op::kReduceMean, ReduceAttrs{{2, 3}, true}, {y});
}

LayoutModel layout_model(double bytes_per_second, double plain_efficiency) {
  LayoutModel model;
  model.block = 8;
  model.bytes_per_second = bytes_per_second;
  model.plain_efficiency = plain_efficiency;
  model.depthwise = {.share = 0.55, .long_rows = 2, .half_row = 4, .cap = 1.4, .strided = 0.4};
  return model;
}

}  // namespace

TEST_CASE("blocked layouts keep the function and convert at the borders only") {
  Graph g;
  // Copying is free and plain convolutions are slow: all that can be blocked is. Three input channels cannot.
  CHECK(optimised(g, small_network(g), {layout_model(1e15, 0.1)}) == "Conv Clip Conv Conv Add Mul MaxPool ReduceMean");
  CHECK(print_graph(g).find("blocks=1->8") != std::string::npos);
  CHECK(print_graph(g).find("blocks=8->8") != std::string::npos);
  CHECK(g.value(g.outputs[0]).shape == Shape{1, 16, 1, 1});
}

TEST_CASE("depthwise convolutions of small or strided images want blocks, those of long rows do not") {
  auto network = [](Graph& g, int64_t size, int64_t stride) {
    ValueId x = g.add_input("x", DType::kF32, {1, 16, size, size});
    x = add(g, Op::kConv, square(1), {x, weight(g, {64, 16, 1, 1})});
    ConvAttrs depthwise = square(3, 64);
    depthwise.strides = {stride, stride};
    x = add(g, Op::kConv, depthwise, {x, weight(g, {64, 1, 3, 3})});
    return add(g, Op::kConv, square(1), {x, weight(g, {16, 64, 1, 1})});
  };
  // Both layouts are equally fast for dense convolutions: what the depthwise one wants decides.
  auto blocks = [&](int64_t size, int64_t stride) {
    Graph g;
    optimised(g, network(g, size, stride), {layout_model(1e15, 1)});
    return print_graph(g).find("blocks=8->8") != std::string::npos;
  };
  CHECK(blocks(7, 1));
  CHECK(blocks(14, 1));
  CHECK_FALSE(blocks(56, 1));
  CHECK(blocks(56, 2));
}

TEST_CASE("blocked layouts that are asked for are used whatever they cost") {
  LayoutModel model = layout_model(1, 1e3);  // conversions are slow, plain convolutions fast
  auto network = [](Graph& g) {
    ValueId x = g.add_input("x", DType::kF32, {1, 8, 8, 8});
    for (int i = 0; i < 2; ++i) x = add(g, Op::kConv, square(3), {x, weight(g, {8, 8, 3, 3})});
    x = add(g, Op::kMaxPool, PoolAttrs{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {x});
    x = add(g, Op::kConv, square(3), {x, weight(g, {8, 8, 3, 3})});
    return add(g, Op::kConv, square(3), {x, weight(g, {12, 8, 3, 3})});
  };
  Graph cheapest;
  CHECK(optimised(cheapest, network(cheapest), {model}) == "Conv Conv MaxPool Conv Conv");
  CHECK(print_graph(cheapest).find("blocks=") == std::string::npos);
  model.always_blocked = true;
  Graph blocked;
  // The pool between is blocked, too: one conversion at the beginning. Twelve filters cannot be blocked.
  CHECK(optimised(blocked, network(blocked), {model}) == "Transpose Conv Conv MaxPool Conv Conv");
  CHECK(print_graph(blocked).find("blocks=8->8") != std::string::npos);
  CHECK(print_graph(blocked).find("blocks=8->1") != std::string::npos);
}

TEST_CASE("a conversion that costs more than it saves is not made") {
  Graph g;
  // The depthwise convolution gets its blocks from the one in front of it, and the mean takes them: no copy is made.
  CHECK(optimised(g, small_network(g), {layout_model(1, 1)}).find("Transpose") == std::string::npos);
  CHECK(print_graph(g).find("blocks=1->8") != std::string::npos);
  Graph dense;
  ValueId d = dense.add_input("x", DType::kF32, {1, 8, 8, 8});
  for (int i = 0; i < 3; ++i) d = add(dense, Op::kConv, square(3), {d, weight(dense, {8, 8, 3, 3})});
  CHECK(optimised(dense, d, {layout_model(1, 1)}) == "Conv Conv Conv");
  CHECK(print_graph(dense).find("blocks=") == std::string::npos);
  // An output in the model's layout is worth one conversion, not one a convolution.
  Graph h;
  ValueId x = h.add_input("x", DType::kF32, {1, 8, 8, 8});
  for (int i = 0; i < 3; ++i) x = add(h, Op::kConv, square(3), {x, weight(h, {8, 8, 3, 3})});
  CHECK(optimised(h, x, {layout_model(1e15, 0.1)}) == "Transpose Conv Conv Conv Transpose");
}

TEST_CASE("weights of products are stored with their terms side by side where that is asked, each tensor once") {
  for (const bool asked : {true, false}) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {3, 5}), z = g.add_input("z", DType::kF32, {5, 4});
    const ValueId w = weight(g, {5, 5});
    ValueId y = add(g, Op::kGemm, GemmAttrs{}, {add(g, Op::kGemm, GemmAttrs{}, {x, w}), w});
    y = add(g, Op::kGemm, GemmAttrs{}, {y, z});  // made at run time: it stays
    y = add(g, Op::kGemm, GemmAttrs{1, 1, false, true}, {y, weight(g, {6, 4})});
    OptimizeOptions options;
    options.transpose_weights = asked;
    CHECK(optimised(g, y, options) == "Gemm Gemm Gemm Gemm");
    std::vector<bool> flags;
    std::vector<ValueId> weights;
    for (NodeId id : g.order) {
      flags.push_back(g.node(id).as<GemmAttrs>().trans_b);
      weights.push_back(g.node(id).inputs[1]);
    }
    CHECK(flags == std::vector<bool>{asked, asked, false, true});
    CHECK(weights[0] == weights[1]);
    CHECK(g.value(weights[0]).is_constant());
  }
}

TEST_CASE("a convolution of one window over its whole input is a product of images and filters") {
  auto ops = [](const Graph& g) {
    std::vector<Op> seen;
    for (NodeId id : g.order)
      if (op_class(g.node(id).op) != OpClass::kView) seen.push_back(g.node(id).op);
    return seen;
  };
  const auto conv_attrs = [](int64_t side, int64_t pad, int64_t group) {
    ConvAttrs a;
    a.kernel = {side, side};
    a.strides = a.dilations = {1, 1};
    a.pads_begin = a.pads_end = {pad, pad};
    a.group = group;
    return a;
  };
  for (int64_t side : {1, 3}) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {2, 6, side, side});
    const ValueId w = g.add_constant("w", DType::kF32, {4, 6, side, side}, make_splat(DType::kF32, 0.5));
    const ValueId b = g.add_constant("b", DType::kF32, {4}, make_splat(DType::kF32, 2));
    const ValueId c = g.add_constant("c", DType::kF32, {4, 1, 1}, make_splat(DType::kF32, 3));
    const ValueId y = add(g, Op::kConv, conv_attrs(side, 0, 1), {x, w, b});
    g.add_output(add(g, Op::kRelu, NoAttrs{}, {add(g, Op::kMul, NoAttrs{}, {y, c})}), "o");
    const Graph before = g;
    REQUIRE(optimize(g, nullptr));
    const std::vector<Op> left = ops(g);
    CHECK(std::count(left.begin(), left.end(), Op::kConv) == 0);
    CHECK(g.value(g.outputs[0]).shape == Shape{2, 4, 1, 1});
    CHECK(fuse(g).size() == 1);
    const HostTensor input = random_tensor(g.value(g.inputs[0]), 3);
    auto expected = run_reference(before, {input}, 1), got = run_reference(g, {input}, 1);
    REQUIRE(expected);
    REQUIRE(got);
    for (size_t i = 0; i < expected->at(0).data.size(); ++i)
      CHECK(got->at(0).data[i] == Approx(expected->at(0).data[i]));
  }
  // Padding, groups or several windows: a convolution.
  for (auto [side, pad, group] : {std::tuple(3, 1, 1), std::tuple(1, 0, 2)}) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {1, 6, side, side});
    const ValueId w = g.add_constant("w", DType::kF32, {4, 6 / group, side, side}, make_splat(DType::kF32, 0.5));
    g.add_output(add(g, Op::kConv, conv_attrs(side, pad, group), {x, w}), "o");
    REQUIRE(optimize(g, nullptr));
    CHECK(ops(g) == std::vector<Op>{Op::kConv});
  }
}

TEST_CASE("a convolution of one tap for each channel is a product by one number a channel") {
  ConvAttrs a;
  a.kernel = a.strides = a.dilations = {1, 1};
  a.pads_begin = a.pads_end = {0, 0};
  a.group = 6;
  for (bool bias : {false, true}) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {2, 6, 5, 7});
    std::vector<ValueId> inputs{x, weight(g, {6, 1, 1, 1})};
    if (bias) inputs.push_back(weight(g, {6}));
    CHECK(optimised(g, add(g, Op::kConv, a, inputs)) == (bias ? "Mul Add" : "Mul"));
  }
  // A step or a frame: still a convolution.
  for (bool steps : {false, true}) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {1, 6, 5, 7});
    ConvAttrs b = a;
    (steps ? b.strides : b.pads_begin) = steps ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{1, 1};
    CHECK(optimised(g, add(g, Op::kConv, b, {x, weight(g, {6, 1, 1, 1})})) == "Conv");
  }
}

TEST_CASE("gathers of known runs are slices, and copies of some runs along the last axis", "[graph]") {
  const auto gathered = [](Shape shape, int64_t axis, Shape of_indices, std::vector<int64_t> indices) {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, std::move(shape));
    const ValueId at = g.add_constant("at", DType::kI64, std::move(of_indices), make_constant_i64(indices));
    return optimised(g, add(g, Op::kGather, AxisAttrs{axis}, {x, at}));
  };
  CHECK(gathered({3, 4, 5}, 1, {}, {-1}) == "Slice");
  CHECK(gathered({3, 4, 5}, 1, {2}, {1, 3}) == "Slice");
  CHECK(gathered({3, 4, 5}, 0, {3}, {2, 1, 0}) == "Slice");
  CHECK(gathered({3, 4, 5}, 1, {4}, {0, 1, 2, 3}) == "Identity");
  CHECK(gathered({3, 9}, 1, {4}, {5, 5, 5, 5}) == "Slice Expand");
  // Mirrored and repeated ends. The runs share their ends with the whole axis, which needs no slice.
  CHECK(gathered({3, 5}, 1, {8}, {2, 1, 0, 1, 2, 3, 4, 3}) == "Slice Slice Concat");
  CHECK(gathered({3, 5}, 1, {9}, {0, 0, 0, 1, 2, 3, 4, 4, 4}) == "Slice Expand Slice Expand Concat");
  // Rows are chosen by the table, and numbers without order, too.
  CHECK(gathered({6, 4}, 0, {4}, {0, 1, 3, 4}) == "Gather");
  CHECK(gathered({3, 9}, 1, {8}, {0, 7, 1, 5, 4, 8, 8, 2}) == "Gather");
  CHECK(gathered({3, 9}, 1, {2, 2}, {0, 1, 2, 3}) == "Gather");
}
