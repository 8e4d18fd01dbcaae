#include "tcc/graph/graph.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "graph/add_node.h"
#include "graph/constants.h"
#include "graph/print_graph.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

ValueId random_constant(Graph& g, const Shape& shape, uint64_t seed, double mean = 0) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& v : values) v = static_cast<float>(mean + 0.5 * rng.normal());
  return g.add_constant("c", DType::kF32, shape, make_constant_f32(values));
}

ConvAttrs conv_attrs(int64_t kernel, int64_t stride = 1, int64_t pad = 0, int64_t group = 1, int64_t dilation = 1) {
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation}, {pad, pad}, {pad, pad}, group};
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  REQUIRE(a.shape == b.shape);
  double difference = 0;
  for (size_t i = 0; i < a.data.size(); ++i) difference = std::max(difference, std::fabs(a.data[i] - b.data[i]));
  return difference;
}

std::vector<HostTensor> run(const Graph& g, uint64_t seed = 3) {
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) inputs.push_back(random_tensor(g.value(id), seed++));
  auto outputs = run_reference(g, inputs, 1);
  REQUIRE(outputs.has_value());
  return *outputs;
}

std::string error_of(Graph& g, Op op, Attributes attrs, std::vector<ValueId> inputs) {
  auto id = g.add_node(op, std::move(attrs), std::move(inputs), "bad");
  REQUIRE(!id.has_value());
  return id.error().message;
}

}  // namespace

TEST_CASE("half types widen exactly and narrow to nearest even") {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      auto pattern = static_cast<uint16_t>(bits);
      auto bytes = std::as_bytes(std::span(&pattern, 1));
      Constant c = make_constant({bytes.begin(), bytes.end()});
      double value = constant_element(c, dtype, 0);
      if (std::isnan(value)) continue;
      Constant back = make_constant_from_doubles(dtype, std::vector<double>{value});
      if (!std::equal(back.bytes.begin(), back.bytes.end(), bytes.begin())) FAIL("pattern " << bits);
    }
  }
  auto narrowed = [](DType t, double v) { return constant_element(make_splat(t, v), t, 0); };
  CHECK(narrowed(DType::kF16, 1 + 0x1p-11) == 1);  // a tie goes to even
  CHECK(narrowed(DType::kF16, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
  CHECK(narrowed(DType::kF16, 2047.9) == 2048);  // carries into the exponent
  CHECK(std::isinf(narrowed(DType::kF16, 65520)));
  CHECK(narrowed(DType::kBF16, 1 + 0x1p-8) == 1);
  CHECK(narrowed(DType::kI8, 300) == 127);
}

TEST_CASE("shapes: limits, text, broadcasting") {
  CHECK(shape_text({1, 3, 4}) == "1x3x4");
  CHECK(shape_text({}) == "scalar");
  CHECK(broadcast_shapes({2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(!broadcast_shapes({2, 3}, {4}));
  CHECK(!check_shape({int64_t{1} << 40, int64_t{1} << 40}, "t"));
  CHECK(!check_shape({int64_t{1} << 62, 0}, "t"));
  CHECK(!check_shape({-1}, "t"));
  CHECK(!check_shape(Shape(17, 1), "t"));
  CHECK(check_shape({0, 5}, "t"));
}

TEST_CASE("types are inferred and attribute domains are checked", "[errors]") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 4, 9, 9});
  ValueId w = random_constant(g, {6, 2, 3, 3}, 1);
  CHECK(g.value(add(g, Op::kConv, conv_attrs(3, 2, 1, 2), {x, w})).shape == Shape{2, 6, 5, 5});
  CHECK(g.value(add(g, Op::kConv, conv_attrs(3, 1, 0, 2, 4), {x, w})).shape == Shape{2, 6, 1, 1});
  CHECK(error_of(g, Op::kConv, conv_attrs(3, 0, 1, 2), {x, w}).find("strides") != std::string::npos);
  CHECK(error_of(g, Op::kConv, conv_attrs(3, 1, 1, 3), {x, w}).find("group 3") != std::string::npos);
  CHECK(error_of(g, Op::kConv, conv_attrs(3, 1, 1, 1), {x, w}).find("second extent must be 4") != std::string::npos);
  CHECK(error_of(g, Op::kConv, conv_attrs(3, 1, -1, 2), {x, w}).find("pads") != std::string::npos);
  CHECK(error_of(g, Op::kConv, conv_attrs(3, 1, 0, 2, 9), {x, w}).find("larger than the padded input") !=
        std::string::npos);
  PoolAttrs pool{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, false, false};
  CHECK(g.value(add(g, Op::kMaxPool, pool, {x})).shape == Shape{2, 4, 4, 4});
  pool.kernel = {2, 2};
  pool.ceil_mode = true;
  CHECK(g.value(add(g, Op::kMaxPool, pool, {x})).shape == Shape{2, 4, 5, 5});
  pool.pads_begin = {2, 2};
  CHECK(error_of(g, Op::kMaxPool, pool, {x}).find("smaller than the window") != std::string::npos);
  CHECK(error_of(g, Op::kReshape, ReshapeAttrs{{5}}, {x}).find("element counts differ") != std::string::npos);
  CHECK(error_of(g, Op::kTranspose, TransposeAttrs{{0, 1, 1, 2}}, {x}).find("not a permutation") != std::string::npos);
  CHECK(error_of(g, Op::kSoftmax, AxisAttrs{4}, {x}).find("out of range") != std::string::npos);
  CHECK(error_of(g, Op::kAdd, NoAttrs{}, {x, w}).find("do not broadcast") != std::string::npos);
  CHECK(error_of(g, Op::kAdd, NoAttrs{}, {x}).find("takes 2") != std::string::npos);
  verify_graph(g);
}

TEST_CASE("reference convolution equals its definition") {
  struct Case {
    int64_t n, c, h, w, m, k, stride, pad, group, dilation;
  };
  for (const Case& t :
       {Case{1, 3, 7, 5, 4, 3, 1, 1, 1, 1}, Case{2, 4, 9, 8, 6, 3, 2, 2, 2, 2}, Case{1, 4, 6, 6, 4, 5, 3, 2, 4, 1},
        Case{1, 1, 1, 1, 1, 1, 1, 0, 1, 1}, Case{1, 2, 3, 3, 2, 3, 1, 4, 1, 1}}) {
    Graph g;
    ValueId x = g.add_input("x", DType::kF32, {t.n, t.c, t.h, t.w});
    ValueId weight = random_constant(g, {t.m, t.c / t.group, t.k, t.k}, 5);
    ValueId bias = random_constant(g, {t.m}, 6);
    ValueId y = add(g, Op::kConv, conv_attrs(t.k, t.stride, t.pad, t.group, t.dilation), {x, weight, bias});
    g.add_output(y, "y");
    HostTensor in = random_tensor(g.value(x), 9);
    auto out = run_reference(g, {in}, 2);
    REQUIRE(out);
    auto w = constant_doubles(*g.value(weight).constant, DType::kF32, g.value(weight).elements());
    auto b = constant_doubles(*g.value(bias).constant, DType::kF32, t.m);
    const Shape& s = g.value(y).shape;
    int64_t cg = t.c / t.group, mg = t.m / t.group;
    size_t at = 0;
    for (int64_t n = 0; n < s[0]; ++n)
      for (int64_t m = 0; m < s[1]; ++m)
        for (int64_t oh = 0; oh < s[2]; ++oh)
          for (int64_t ow = 0; ow < s[3]; ++ow, ++at) {
            double sum = b[static_cast<size_t>(m)];
            for (int64_t c = 0; c < cg; ++c)
              for (int64_t i = 0; i < t.k; ++i)
                for (int64_t j = 0; j < t.k; ++j) {
                  int64_t ih = oh * t.stride + i * t.dilation - t.pad, iw = ow * t.stride + j * t.dilation - t.pad;
                  if (ih < 0 || ih >= t.h || iw < 0 || iw >= t.w) continue;
                  sum += w[static_cast<size_t>(((m * cg + c) * t.k + i) * t.k + j)] *
                         in.data[static_cast<size_t>(((n * t.c + m / mg * cg + c) * t.h + ih) * t.w + iw)];
                }
            if (std::fabs(sum - (*out)[0].data[at]) > 1e-12) FAIL("element " << at);
          }
  }
}

TEST_CASE("reference pools, softmax, gemm on numbers worked by hand") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 1, 1, 3});
  PoolAttrs pool{{1, 2}, {1, 2}, {1, 1}, {0, 1}, {0, 1}, false, false};
  g.add_output(add(g, Op::kAveragePool, pool, {x}), "exclude");
  pool.count_include_pad = true;
  g.add_output(add(g, Op::kAveragePool, pool, {x}), "include");
  // The second window reaches beyond the padded input: only positions inside count.
  PoolAttrs ceil{{1, 2}, {1, 2}, {1, 1}, {0, 0}, {0, 0}, true, true};
  g.add_output(add(g, Op::kAveragePool, ceil, {x}), "ceil");
  g.add_output(add(g, Op::kMaxPool, pool, {x}), "max");
  g.add_output(add(g, Op::kSoftmax, AxisAttrs{3}, {x}), "softmax");
  ValueId m = add(g, Op::kReshape, ReshapeAttrs{{3, 1}}, {x});
  ValueId w = g.add_constant("w", DType::kF32, {2, 1}, make_constant_f32(std::vector<float>{10, 100}));
  ValueId c = g.add_constant("c", DType::kF32, {2}, make_constant_f32(std::vector<float>{1, 2}));
  g.add_output(add(g, Op::kGemm, GemmAttrs{2, 3, false, true}, {m, w, c}), "gemm");
  g.add_output(add(g, Op::kLogSoftmax, AxisAttrs{3}, {x}), "log");
  auto out = run_reference(g, {{{1, 1, 1, 3}, {-1, -2, -4}}}, 1);
  REQUIRE(out);
  CHECK((*out)[0].data == std::vector<double>{-1, -3});
  CHECK((*out)[1].data == std::vector<double>{-0.5, -3});
  CHECK((*out)[2].data == std::vector<double>{-1.5, -4});
  CHECK((*out)[3].data == std::vector<double>{-1, -2});
  double e = std::exp(-1) + std::exp(-2) + std::exp(-4);
  CHECK((*out)[4].data[1] == Approx(std::exp(-2) / e));
  CHECK((*out)[5].data == std::vector<double>{-17, -194, -37, -394, -77, -794});
  CHECK((*out)[6].data[1] == Approx(-2 - std::log(e)));
  CHECK(!run_reference(g, {}, 1));
  CHECK(!run_reference(g, {{{1, 3}, {1, 2, 3}}}, 1));
}

TEST_CASE("matrix products broadcast and take vectors") {
  Graph g;
  ValueId a = g.add_input("a", DType::kF32, {2, 1, 2, 3});
  ValueId b = g.add_input("b", DType::kF32, {4, 3, 5});
  ValueId v = g.add_input("v", DType::kF32, {3});
  CHECK(g.value(add(g, Op::kMatMul, MatMulAttrs{}, {a, b})).shape == Shape{2, 4, 2, 5});
  ValueId av = add(g, Op::kMatMul, MatMulAttrs{}, {a, v});
  ValueId vb = add(g, Op::kMatMul, MatMulAttrs{}, {v, b});
  ValueId vv = add(g, Op::kMatMul, MatMulAttrs{}, {v, v});
  CHECK(g.value(av).shape == Shape{2, 1, 2});
  CHECK(g.value(vb).shape == Shape{4, 5});
  CHECK(g.value(vv).shape == Shape{});
  for (ValueId id : {av, vb, vv}) g.add_output(id, "o");
  std::vector<HostTensor> in{random_tensor(g.value(a), 1), random_tensor(g.value(b), 2), {{3}, {1, 10, 100}}};
  auto out = run_reference(g, in, 1);
  REQUIRE(out);
  CHECK((*out)[2].data[0] == 10101);
  const auto& row = in[0].data;
  CHECK((*out)[0].data[3] == Approx(row[9] + 10 * row[10] + 100 * row[11]));
  CHECK((*out)[1].data[5 + 2] == Approx(in[1].data[15 + 2] + 10 * in[1].data[15 + 7] + 100 * in[1].data[15 + 12]));
}

TEST_CASE("integer constants fold exactly; division by zero is an error") {
  auto fold = [](Op op, std::vector<int64_t> a, std::vector<int64_t> b) {
    Graph g;
    ValueId x = g.add_constant("a", DType::kI64, {static_cast<int64_t>(a.size())}, make_constant_i64(a));
    ValueId y = g.add_constant("b", DType::kI64, {static_cast<int64_t>(b.size())}, make_constant_i64(b));
    g.add_output(add(g, op, NoAttrs{}, {x, y}), "o");
    auto result = fold_constants(g, nullptr);
    if (!result) return std::vector<int64_t>{};
    REQUIRE(g.order.empty());
    const Value& v = g.value(g.outputs[0]);
    return constant_integers(*v.constant, v.dtype, v.elements());
  };
  int64_t big = (int64_t{1} << 62) + 1;
  CHECK(fold(Op::kAdd, {big, 2}, {1}) == std::vector<int64_t>{big + 1, 3});
  CHECK(fold(Op::kDiv, {7, -7}, {2}) == std::vector<int64_t>{3, -3});
  CHECK(fold(Op::kDiv, {1}, {0}).empty());
}

TEST_CASE("integers wrap around where constants fold") {
  auto fold = [](DType dtype, Op op, int64_t a, int64_t b) {
    Graph g;
    auto constant = [&](int64_t x) {
      std::vector<std::byte> bytes(static_cast<size_t>(dtype_size(dtype)));
      std::memcpy(bytes.data(), &x, bytes.size());
      return g.add_constant("c", dtype, {1}, make_constant(std::move(bytes)));
    };
    const ValueId x = constant(a), y = constant(b);
    g.add_output(add(g, op, NoAttrs{}, {x, y}), "o");
    REQUIRE(fold_constants(g, nullptr));
    REQUIRE(g.order.empty());
    const Value& v = g.value(g.outputs[0]);
    return constant_integers(*v.constant, v.dtype, 1)[0];
  };
  CHECK(fold(DType::kU16, Op::kSub, 0, 4) == 65532);
  CHECK(fold(DType::kI8, Op::kAdd, 127, 1) == -128);
  CHECK(fold(DType::kI8, Op::kDiv, -128, -1) == -128);
  CHECK(fold(DType::kU8, Op::kMul, 200, 3) == 88);
  CHECK(fold(DType::kI32, Op::kMul, INT32_MAX, 2) == -2);
  CHECK(fold(DType::kI64, Op::kAdd, INT64_MAX, 1) == INT64_MIN);
  CHECK(fold(DType::kI64, Op::kMul, (int64_t{1} << 62) + 1, 4) == 4);
  CHECK(fold(DType::kI64, Op::kDiv, INT64_MIN, -1) == INT64_MIN);
  CHECK(static_cast<uint64_t>(fold(DType::kU64, Op::kSub, 0, 1)) == UINT64_MAX);
  CHECK(fold(DType::kU64, Op::kMul, INT64_MAX, 3) == INT64_MAX - 2);
  CHECK(fold(DType::kU64, Op::kDiv, -1, 2) == INT64_MAX);
}

TEST_CASE("constants fold through moves and, with an evaluator, through float operators") {
  Graph g;
  ValueId c = random_constant(g, {2, 3}, 1);
  ValueId t = add(g, Op::kTranspose, TransposeAttrs{{1, 0}}, {c});
  ValueId k = add(g, Op::kConcat, AxisAttrs{1}, {t, t});
  ValueId r = add(g, Op::kRelu, NoAttrs{}, {k});
  ValueId x = g.add_input("x", DType::kF32, {3, 4});
  g.add_output(add(g, Op::kAdd, NoAttrs{}, {x, r}), "y");
  auto before = run(g);
  Graph exact = g;
  REQUIRE(fold_constants(exact, nullptr));
  CHECK(exact.order.size() == 2);
  auto evaluator = reference_evaluator();
  REQUIRE(fold_constants(g, evaluator.get()));
  CHECK(g.order.size() == 1);
  CHECK(largest_difference(before[0], run(g)[0]) == 0);
  CHECK(largest_difference(before[0], run(exact)[0]) == 0);
}

TEST_CASE("batch normalization and affine chains fold into convolutions and products") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3, 6, 6});
  auto norm = [&](ValueId v, int64_t channels, uint64_t seed) {
    return add(g, Op::kBatchNorm, BatchNormAttrs{1e-3},
               {v, random_constant(g, {channels}, seed, 1), random_constant(g, {channels}, seed + 1),
                random_constant(g, {channels}, seed + 2), random_constant(g, {channels}, seed + 3, 4)});
  };
  ValueId y = norm(x, 3, 10);  // nothing before it: becomes Mul and Add, after absorbing the next two
  y = add(g, Op::kMul, NoAttrs{}, {random_constant(g, {3, 1, 1}, 20, 1), y});
  y = add(g, Op::kSub, NoAttrs{}, {random_constant(g, {1, 3, 1, 1}, 21), y});
  y = add(g, Op::kRelu, NoAttrs{}, {y});
  y = add(g, Op::kConv, conv_attrs(3, 1, 1), {y, random_constant(g, {4, 3, 3, 3}, 30)});
  y = norm(y, 4, 40);
  y = add(g, Op::kAdd, NoAttrs{}, {y, random_constant(g, {4, 1, 1}, 50)});
  y = add(g, Op::kDiv, NoAttrs{}, {y, random_constant(g, {}, 51, 3)});
  y = add(g, Op::kReduceMean, ReduceAttrs{{2, 3}, false}, {y});
  y = add(g, Op::kGemm, GemmAttrs{0.5, 2, false, true},
          {y, random_constant(g, {5, 4}, 60), random_constant(g, {5}, 61)});
  y = norm(y, 5, 70);
  y = add(g, Op::kGemm, GemmAttrs{}, {y, random_constant(g, {5, 2}, 80)});
  y = norm(y, 2, 90);
  g.add_output(y, "y");
  auto before = run(g);
  REQUIRE(optimize(g, nullptr));
  std::string ops;
  for (NodeId id : g.order) ops += std::string(op_name(g.node(id).op)) + " ";
  CHECK(ops == "Mul Add Relu Conv ReduceMean Gemm Gemm ");
  CHECK(largest_difference(before[0], run(g)[0]) < 1e-5);
}

TEST_CASE("a scale that would give weights beyond all numbers stays by itself") {
  for (const bool divides : {true, false}) {
    Graph g;
    auto constant = [&](Shape shape, std::vector<double> values) {
      return g.add_constant("c", DType::kF32, std::move(shape), make_constant_from_doubles(DType::kF32, values));
    };
    ValueId x = g.add_input("x", DType::kF32, {1, 2});
    ValueId y = add(g, Op::kGemm, GemmAttrs{}, {x, constant({2, 1}, {4, 1e10})});
    y = divides ? add(g, Op::kDiv, NoAttrs{}, {y, constant({}, {0})})
                : add(g, Op::kMul, NoAttrs{}, {y, constant({}, {1e30})});
    g.add_output(y, "y");
    REQUIRE(optimize(g, nullptr));
    auto after = run_reference(g, {{{1, 2}, {2, 0}}}, 1);
    REQUIRE(after);
    CHECK(g.order.size() == 2);
    CHECK((*after)[0].data[0] == (divides ? HUGE_VAL : 8 * static_cast<double>(1e30F)));
  }
}

TEST_CASE("normalizations in 16 bits keep the digits that a scale and a shift of 16 bits would lose") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF16, {1, 1, 2});
  auto constant = [&](double v) {
    return g.add_constant("c", DType::kF16, {1}, make_constant_from_doubles(DType::kF16, std::vector<double>{v}));
  };
  g.add_output(add(g, Op::kBatchNorm, BatchNormAttrs{1e-3},
                   {x, constant(1.25), constant(0.09375), constant(0.34375), constant(0.625)}),
               "y");
  const std::vector<HostTensor> in{{{1, 1, 2}, {0.28515625, -3}}};
  auto before = run_reference(g, in, 1);
  REQUIRE(before);
  REQUIRE(optimize(g, nullptr));
  auto after = run_reference(g, in, 1);
  REQUIRE(after);
  CHECK(g.order.size() == 4);
  CHECK(std::fabs((*before)[0].data[0]) < 0.01);
  CHECK(largest_difference((*before)[0], (*after)[0]) < 1e-6);
}

TEST_CASE("a convolution read twice keeps its weights") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 2, 4, 4});
  ValueId y = add(g, Op::kConv, conv_attrs(1), {x, random_constant(g, {2, 2, 1, 1}, 1)});
  ValueId s = random_constant(g, {2, 1, 1}, 2, 1);
  ValueId a = add(g, Op::kMul, NoAttrs{}, {y, s});
  g.add_output(add(g, Op::kAdd, NoAttrs{}, {a, y}), "o");
  auto before = run(g);
  REQUIRE(optimize(g, nullptr));
  CHECK(g.order.size() == 3);
  CHECK(largest_difference(before[0], run(g)[0]) == 0);
}

TEST_CASE("eliminate removes what does nothing and gives every output bytes of its own") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {2, 3});
  ValueId i = add(g, Op::kIdentity, NoAttrs{}, {x});
  ValueId r = add(g, Op::kReshape, ReshapeAttrs{{6}}, {i});
  ValueId r2 = add(g, Op::kReshape, ReshapeAttrs{{2, 3}}, {r});
  ValueId relu = add(g, Op::kRelu, NoAttrs{}, {r2});
  ValueId view = add(g, Op::kReshape, ReshapeAttrs{{3, 2}}, {relu});
  add(g, Op::kTanh, NoAttrs{}, {relu});  // dead
  ValueId c = random_constant(g, {2}, 1);
  for (ValueId id : {i, relu, view, relu, c}) g.add_output(id, "o");
  auto before = run(g);
  eliminate(g);
  verify_graph(g);
  std::string ops;
  for (NodeId id : g.order) ops += std::string(op_name(g.node(id).op)) + " ";
  CHECK(ops == "Relu Reshape Identity Identity Identity Identity ");
  auto after = run(g);
  for (size_t k = 0; k < before.size(); ++k) CHECK(largest_difference(before[k], after[k]) == 0);
  MemoryPlan plan = plan_memory(g, fuse(g));
  CHECK(plan.workspace_bytes == 0);
}

TEST_CASE("fusion takes elementwise consumers whose other operands are ready") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {1, 4, 8, 8});
  auto conv = [&](ValueId v, uint64_t seed) {
    return add(g, Op::kConv, conv_attrs(3, 1, 1), {v, random_constant(g, {4, 4, 3, 3}, seed)});
  };
  ValueId a = conv(x, 1);
  ValueId b = conv(x, 2);  // both feed the Add: the later one takes it
  ValueId sum = add(g, Op::kAdd, NoAttrs{}, {a, b});
  ValueId relu = add(g, Op::kRelu, NoAttrs{}, {sum});  // read twice: the chain ends here
  ValueId left = add(g, Op::kSigmoid, NoAttrs{}, {relu});
  ValueId mul = add(g, Op::kMul, NoAttrs{}, {relu, left});
  ValueId mean = add(g, Op::kReduceMean, ReduceAttrs{{2, 3}, true}, {mul});
  ValueId gate = add(g, Op::kTanh, NoAttrs{}, {mean});
  g.add_output(add(g, Op::kMul, NoAttrs{}, {mul, gate}), "o");  // broadcasts the gate up: not fused into it
  auto groups = fuse(g);
  std::vector<std::string> texts;
  for (const auto& group : groups) texts.push_back(group_text(g, group));
  CHECK(texts == std::vector<std::string>{"Conv", "Conv+Add+Relu", "Sigmoid+Mul", "ReduceMean+Tanh", "Mul"});
  CHECK(groups[1].inputs == std::vector<ValueId>{x, a});
  CHECK(groups[1].constants.size() == 1);
  CHECK(groups[1].output == relu);
  CHECK(groups[2].inputs == std::vector<ValueId>{relu});
}

TEST_CASE("a reduction takes the elementwise group that it alone reads, and is the anchor") {
  Graph g;
  ValueId x = g.add_input("x", DType::kF32, {4, 6});
  const auto exp = [&](ValueId v) { return add(g, Op::kUnary, UnaryAttrs{UnaryFn::kExp}, {v}); };
  ValueId sum = add(g, Op::kReduceSum, ReduceAttrs{{1}, true}, {add(g, Op::kSigmoid, NoAttrs{}, {exp(x)})});
  g.add_output(add(g, Op::kTanh, NoAttrs{}, {sum}), "sum");
  ValueId shared = exp(sum), softmax = add(g, Op::kSoftmax, AxisAttrs{1}, {exp(x)});
  g.add_output(add(g, Op::kReduceMax, ReduceAttrs{{0}, false}, {shared}), "max");
  g.add_output(shared, "shared");
  g.add_output(add(g, Op::kReduceMean, ReduceAttrs{{0}, false}, {softmax}), "mean");
  const std::vector<FusionGroup> groups = fuse(g);
  std::vector<std::string> texts;
  for (const FusionGroup& group : groups) texts.push_back(group_text(g, group));
  // Sums read each element once. A row of a softmax is read several times.
  CHECK(texts ==
        std::vector<std::string>{"Exp+Sigmoid+ReduceSum", "Tanh", "Exp", "Exp", "Softmax", "ReduceMax", "ReduceMean"});
  CHECK(g.node(groups[0].anchor).op == Op::kReduceSum);
  CHECK(groups[0].inputs == std::vector<ValueId>{x});
}

TEST_CASE("bytes that wait for an operand in vain take the node that reads both, once") {
  // The softmax's result has another shape, so that the softmax does not take the sum.
  Graph g;
  const ValueId x = g.add_input("x", DType::kU8, {3, 5, 6}), y = g.add_input("y", DType::kF32, {1, 90});
  const ValueId scaled = add(g, Op::kMul, NoAttrs{},
                             {add(g, Op::kCast, CastAttrs{DType::kF32}, {x}),
                              g.add_constant("scale", DType::kF32, {}, make_splat(DType::kF32, 0.25))});
  const ValueId shares = add(g, Op::kReshape, ReshapeAttrs{{3, 5, 6}}, {add(g, Op::kSoftmax, AxisAttrs{1}, {y})});
  g.add_output(add(g, Op::kAdd, NoAttrs{}, {scaled, shares}), "o");
  std::vector<std::string> texts;
  for (const FusionGroup& group : fuse(g)) texts.push_back(group_text(g, group));
  CHECK(texts == std::vector<std::string>{"Softmax", "Cast+Mul+Add"});
}

TEST_CASE("elementwise branches are made where their only reader reads them") {
  const auto texts_of = [](const Graph& g) {
    std::vector<std::string> texts;
    for (const FusionGroup& group : fuse(g)) texts.push_back(group_text(g, group));
    return texts;
  };
  SECTION("a sum of products, part of a concatenation") {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {4, 6});
    const auto half = [&](int64_t at) { return add(g, Op::kSlice, SliceAttrs{{0, at}, {1, 1}, {4, 3}}, {x}); };
    const auto times = [&](ValueId a, ValueId b) { return add(g, Op::kMul, NoAttrs{}, {a, b}); };
    const ValueId c = g.add_input("c", DType::kF32, {4, 3}), d = g.add_input("d", DType::kF32, {4, 3});
    const ValueId left = add(g, Op::kSub, NoAttrs{}, {times(half(0), c), times(half(3), d)});
    g.add_output(add(g, Op::kConcat, AxisAttrs{1}, {left, half(0)}), "o");
    CHECK(texts_of(g) == std::vector<std::string>{"Slice+Mul+Slice+Mul+Sub+Slice+Concat"});
    CHECK(g.node(fuse(g)[0].anchor).op == Op::kConcat);
  }
  SECTION("a product takes elementwise branches, before and behind it in the order, and no slices") {
    for (bool before : {false, true})
      for (bool sliced : {false, true}) {
        Graph g;
        const ValueId a = g.add_input("a", DType::kF32, {4, 6}), w = random_constant(g, {6, 3}, 1);
        const ValueId x = g.add_input("x", DType::kF32, {4, sliced ? 5 : 3});
        ValueId product = kNone;
        if (!before) product = add(g, Op::kMatMul, MatMulAttrs{}, {a, w});
        ValueId y = x;
        if (sliced) y = add(g, Op::kSlice, SliceAttrs{{0, 1}, {1, 1}, {4, 3}}, {x});
        y = add(g, Op::kRelu, NoAttrs{}, {add(g, Op::kTanh, NoAttrs{}, {y})});
        if (before) product = add(g, Op::kMatMul, MatMulAttrs{}, {a, w});
        g.add_output(add(g, Op::kAdd, NoAttrs{}, {product, y}), "o");
        if (sliced)
          CHECK(texts_of(g) == std::vector<std::string>{"MatMul", "Slice+Tanh+Relu+Add"});
        else
          CHECK(texts_of(g) == std::vector<std::string>{"MatMul+Tanh+Relu+Add"});
      }
  }
  SECTION("values that two read are written") {
    Graph g;
    const ValueId x = g.add_input("x", DType::kF32, {4, 3}), y = g.add_input("y", DType::kF32, {4, 3});
    const ValueId a = add(g, Op::kTanh, NoAttrs{}, {x}), b = add(g, Op::kSigmoid, NoAttrs{}, {y});
    g.add_output(add(g, Op::kAdd, NoAttrs{}, {a, b}), "o");
    g.add_output(add(g, Op::kReduceSum, ReduceAttrs{{0}, false}, {a}), "sum");
    CHECK(texts_of(g) == std::vector<std::string>{"Tanh", "Sigmoid+Add", "ReduceSum"});
  }
}

TEST_CASE("each reader of a slice has one of its own") {
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, {4, 6}), y = g.add_input("y", DType::kF32, {4, 3});
  const ValueId half = add(g, Op::kSlice, SliceAttrs{{0, 3}, {1, 1}, {4, 3}}, {x});
  g.add_output(add(g, Op::kMul, NoAttrs{}, {half, add(g, Op::kSigmoid, NoAttrs{}, {half})}), "gated");
  g.add_output(add(g, Op::kAdd, NoAttrs{}, {half, y}), "sum");
  REQUIRE(optimize(g, nullptr));
  std::vector<std::string> texts;
  for (const FusionGroup& group : fuse(g)) texts.push_back(group_text(g, group));
  CHECK(texts == std::vector<std::string>{"Slice+Swish", "Slice+Add"});
}

TEST_CASE("a group ends before values that are read twice make its expression large") {
  Graph g;
  ValueId v = g.add_input("x", DType::kF32, {16});
  for (int i = 0; i < 40; ++i) v = add(g, Op::kAdd, NoAttrs{}, {v, v});
  for (int i = 0; i < 12; ++i) v = add(g, Op::kUnary, UnaryAttrs{UnaryFn::kGelu}, {v});
  for (int i = 0; i < 40; ++i) v = add(g, Op::kTanh, NoAttrs{}, {v});
  g.add_output(v, "y");
  auto groups = fuse(g);
  CHECK(groups.size() == 7);
  CHECK(groups.front().nodes.size() == 8);
  CHECK(groups.back().nodes.size() > 40);  // what is read once may go on for ever
}

TEST_CASE("an attention is one group where nothing else reads its scores") {
  for (bool shared : {false, true})
    for (int64_t queries : {1, 8}) {
      Graph g;
      ValueId q = g.add_input("q", DType::kF32, {2, queries, 4}), k = g.add_input("k", DType::kF32, {2, 4, 6}),
              v = g.add_input("v", DType::kF32, {2, 6, 5}), mask = g.add_input("mask", DType::kF32, {1, 1, 6});
      ValueId scores = add(g, Op::kAdd, NoAttrs{}, {add(g, Op::kMatMul, MatMulAttrs{}, {q, k}), mask});
      ValueId weights = add(g, Op::kSoftmax, AxisAttrs{2}, {scores});
      g.add_output(add(g, Op::kRelu, NoAttrs{}, {add(g, Op::kMatMul, MatMulAttrs{}, {weights, v})}), "o");
      if (shared) g.add_output(weights, "w");
      std::vector<std::string> texts;
      for (const auto& group : fuse(g, {.attention = true})) texts.push_back(group_text(g, group));
      if (shared || queries == 1)
        CHECK(texts == std::vector<std::string>{"MatMul+Add", "Softmax", "MatMul+Relu"});
      else
        CHECK(texts == std::vector<std::string>{"MatMul+Add+Softmax+MatMul+Relu"});
      CHECK(fuse(g).size() == 3);
    }
}

TEST_CASE("reseeding is reproducible and reaches splats") {
  auto make = [](uint64_t seed) {
    Graph g;
    ValueId x = g.add_input("x", DType::kF32, {1, 64, 4, 4});
    ValueId w = g.add_constant("w", DType::kF32, {64, 64, 3, 3}, make_splat(DType::kF32, 0.02));
    g.add_output(add(g, Op::kConv, conv_attrs(3, 1, 1), {x, w}), "y");
    reseed_weights(g, seed);
    return constant_doubles(*g.value(w).constant, DType::kF32, g.value(w).elements());
  };
  auto a = make(1);
  CHECK(a == make(1));
  CHECK(a != make(2));
  double squares = 0;
  for (double v : a) squares += v * v;
  CHECK(squares / static_cast<double>(a.size()) == Approx(2.0 / (64 * 9)).epsilon(0.02));
}

TEST_CASE("graphs print", "[golden]") {
  Graph g;
  g.name = "tiny\x1b[31m";
  ValueId x = g.add_input("image", DType::kF32, {1, 2, 4, 4});
  ValueId w = g.add_constant("w", DType::kF32, {2, 2, 3, 3}, make_splat(DType::kF32, 0.5));
  ValueId y = add(g, Op::kConv, conv_attrs(3, 1, 1), {x, w});
  g.add_output(add(g, Op::kClip, ClipAttrs{0, 6}, {y}), "label");
  CHECK(print_graph(g) ==
        "graph \"tiny\\x1b[31m\"\n"
        "  input %0 : f32[1x2x4x4]  \"image\"\n"
        "  const %1 : f32[2x2x3x3] = 0.5  \"w\"\n"
        "  %2 : f32[1x2x4x4] = Conv(%0, %1) kernel=[3,3] strides=[1,1] dilations=[1,1] pads=[1,1][1,1] group=1  "
        "\"Conv\"\n"
        "  %3 : f32[1x2x4x4] = Clip(%2) min=0 max=6  \"Clip\"\n"
        "  output %3  \"label\"\n");
  CHECK(node_flops(g, g.node(0)) == 2.0 * 32 * 2 * 9);
}
