// Products of quantized tensors: their integers give what the floats gave.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

using Doubles = std::vector<double>;

// A graph of floats over integers of 8 bits, as the importer makes it.
struct Net {
  Graph g;
  Rng rng{5};

  ValueId node(Op op, Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "n");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  ValueId constant(DType dtype, Shape shape, const Doubles& values) {
    return g.add_constant("c", dtype, std::move(shape), make_constant_from_doubles(dtype, values));
  }
  // All numbers of the type, its limits among them.
  ValueId bytes(DType dtype, Shape shape) {
    Doubles v(static_cast<size_t>(element_count(shape)));
    const double low = dtype == DType::kU8 ? 0 : -128;
    for (double& x : v) x = low + static_cast<double>(rng.below(256));
    v.front() = low, v.back() = low + 255;
    return constant(dtype, std::move(shape), v);
  }
  // (q - zero) * scale in floats; empty: neither.
  ValueId floats(ValueId q, Shape spread, const Doubles& zero, const Doubles& scale, DType to = DType::kF32) {
    ValueId x = node(Op::kCast, CastAttrs{to}, {q});
    auto beside = [&](const Doubles& v) { return constant(to, v.size() == 1 ? Shape{} : spread, v); };
    if (!zero.empty()) x = node(Op::kSub, NoAttrs{}, {x, beside(zero)});
    if (!scale.empty()) x = node(Op::kMul, NoAttrs{}, {x, beside(scale)});
    return x;
  }
  ValueId quantize(ValueId x, double scale, double zero) {
    x = node(Op::kDiv, NoAttrs{}, {x, constant(DType::kF32, {}, {scale})});
    x = node(Op::kUnary, UnaryAttrs{UnaryFn::kRound}, {x});
    x = node(Op::kAdd, NoAttrs{}, {x, constant(DType::kF32, {}, {zero})});
    x = node(Op::kClip, ClipAttrs{0, 255}, {x});
    return node(Op::kCast, CastAttrs{DType::kU8}, {x});
  }
};

std::vector<HostTensor> inputs_of(const Graph& g) {
  Rng rng(17);
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) {
    const Value& v = g.value(id);
    HostTensor t{v.shape, Doubles(static_cast<size_t>(v.elements()))};
    for (double& x : t.data) {
      if (is_float(v.dtype))
        x = static_cast<float>(rng.normal());
      else
        x = static_cast<double>(rng.below(256)) - (v.dtype == DType::kI8 ? 128 : 0);
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

bool multiplies_bytes(const Graph& g, const Node& node) {
  return op_class(node.op) == OpClass::kContraction && is_byte(g.value(node.inputs[0]).dtype);
}

// Optimizes, and the results stay: whole numbers within `tolerance`.
void check_results(Net& net, ValueId y, double tolerance, const OptimizeOptions& options = {}) {
  Graph& g = net.g;
  g.add_output(y, "y");
  const std::vector<HostTensor> inputs = inputs_of(g);
  const auto want = run_reference(g, inputs, 1);
  REQUIRE(want.has_value());
  const auto evaluator = reference_evaluator();
  const auto done = optimize(g, evaluator.get(), options);
  if (!done) FAIL(done.error().message);
  const auto got = run_reference(g, inputs, 1);
  REQUIRE(got.has_value());
  REQUIRE(got->at(0).data.size() == want->at(0).data.size());
  for (size_t i = 0; i < want->at(0).data.size(); ++i) {
    INFO("element " << i);
    REQUIRE(std::fabs(got->at(0).data[i] - want->at(0).data[i]) <=
            tolerance * (tolerance < 1 ? std::max(1.0, std::fabs(want->at(0).data[i])) : 1.0));
  }
}

// The same, and every product is one of integers.
void check(Net& net, ValueId y, double tolerance, const OptimizeOptions& options = {}) {
  check_results(net, y, tolerance, options);
  const Graph& g = net.g;
  int64_t products = 0;
  for (NodeId id : g.order) {
    if (op_class(g.node(id).op) != OpClass::kContraction) continue;
    CHECK(multiplies_bytes(g, g.node(id)));
    CHECK(g.value(g.node(id).output).dtype == DType::kI32);
    ++products;
  }
  CHECK(products > 0);
}

ConvAttrs conv_attrs(std::vector<int64_t> kernel, int64_t stride, int64_t pad, int64_t group) {
  ConvAttrs a;
  a.kernel = std::move(kernel);
  const size_t n = a.kernel.size();
  a.strides.assign(n, stride), a.dilations.assign(n, 1), a.pads_begin.assign(n, pad), a.pads_end.assign(n, pad);
  a.pads_end[0] += pad;  // not the same at both ends
  a.group = group;
  return a;
}

LayoutModel blocked_layouts() {
  LayoutModel model;
  model.block = 16;
  model.always_blocked = true;
  return model;
}

}  // namespace

TEST_CASE("sums of products of quantized matrices are the same in integers, whatever signs and zero points") {
  for (DType left : {DType::kU8, DType::kI8})
    for (DType right : {DType::kU8, DType::kI8})
      for (double za : {-128.0, -1.0, 0.0, 3.0, 128.0, 255.0})
        for (double zb : {-128.0, 0.0, 7.0, 255.0}) {
          if (za < (left == DType::kU8 ? 0 : -128) || za > (left == DType::kU8 ? 255 : 127)) continue;
          if (zb < (right == DType::kU8 ? 0 : -128) || zb > (right == DType::kU8 ? 255 : 127)) continue;
          for (bool constant : {true, false}) {
            Net net;
            const ValueId a = net.g.add_input("a", left, {2, 5, 13});
            const ValueId b = constant ? net.bytes(right, {13, 7}) : net.g.add_input("b", right, {2, 13, 7});
            INFO(dtype_name(left) << " " << za << " by " << dtype_name(right) << " " << zb << " " << constant);
            const ValueId x = net.floats(a, {}, {za}, {}, DType::kF64), w = net.floats(b, {}, {zb}, {}, DType::kF64);
            ValueId y = net.node(Op::kMatMul, MatMulAttrs{}, {x, w});
            y = net.node(Op::kCast, CastAttrs{DType::kI32}, {y});
            check(net, y, 0);
          }
        }
}

TEST_CASE("zero points of each row, of each column, and computed ones") {
  {
    Net net;
    const ValueId a = net.g.add_input("a", DType::kI8, {3, 5});
    const ValueId x = net.floats(a, {3, 1}, {1, -2, 3}, {0.5, 0.25, 2});
    const ValueId w = net.floats(net.bytes(DType::kU8, {5, 4}), {1, 4}, {0, 128, 255, 17}, {1, 2, 4, 0.5});
    check(net, net.node(Op::kMatMul, MatMulAttrs{}, {x, w}), 1e-6);
  }
  {  // as DynamicQuantizeLinear gives them
    Net net;
    const ValueId a = net.g.add_input("a", DType::kU8, {3, 5}), z = net.g.add_input("z", DType::kU8, {});
    ValueId x = net.node(Op::kCast, CastAttrs{DType::kF64}, {a});
    x = net.node(Op::kSub, NoAttrs{}, {x, net.node(Op::kCast, CastAttrs{DType::kF64}, {z})});
    const ValueId w = net.floats(net.bytes(DType::kU8, {5, 4}), {1, 4}, {0, 128, 255, 17}, {}, DType::kF64);
    ValueId y = net.node(Op::kMatMul, MatMulAttrs{}, {x, w});
    check(net, net.node(Op::kCast, CastAttrs{DType::kI32}, {y}), 0);
  }
  {  // beside a large constant, of which nothing is summed while the model runs
    Net net;
    const ValueId a = net.g.add_input("a", DType::kU8, {2, 600}), z = net.g.add_input("z", DType::kU8, {});
    ValueId x = net.node(Op::kCast, CastAttrs{DType::kF64}, {a});
    x = net.node(Op::kSub, NoAttrs{}, {x, net.node(Op::kCast, CastAttrs{DType::kF64}, {z})});
    const ValueId w = net.floats(net.bytes(DType::kI8, {600, 500}), {}, {}, {}, DType::kF64);
    ValueId y = net.node(Op::kMatMul, MatMulAttrs{}, {x, w});
    check(net, net.node(Op::kCast, CastAttrs{DType::kI32}, {y}), 0);
    CHECK(std::none_of(net.g.order.begin(), net.g.order.end(),
                       [&](NodeId id) { return net.g.node(id).op == Op::kReduceSum; }));
  }
  {  // beside an image that is padded
    Net net;
    const ValueId a = net.g.add_input("a", DType::kU8, {2, 3, 6, 5}), z = net.g.add_input("z", DType::kU8, {});
    ValueId x = net.node(Op::kCast, CastAttrs{DType::kF64}, {a});
    x = net.node(Op::kSub, NoAttrs{}, {x, net.node(Op::kCast, CastAttrs{DType::kF64}, {z})});
    const ValueId w = net.floats(net.bytes(DType::kI8, {4, 3, 3, 3}), {}, {5}, {}, DType::kF64);
    ValueId y = net.node(Op::kConv, conv_attrs({3, 3}, 2, 1, 1), {x, w});
    check(net, net.node(Op::kCast, CastAttrs{DType::kI32}, {y}), 0);
  }
}

TEST_CASE("quantized convolutions keep their values within a step of the result") {
  for (DType left : {DType::kU8, DType::kI8})
    for (DType right : {DType::kI8, DType::kU8})
      for (bool layouts : {false, true})
        for (const auto& [group, filters] : {std::pair<int64_t, int64_t>{1, 8}, {1, 5}, {1, 21}, {8, 8}}) {
          INFO(dtype_name(left) << " by " << dtype_name(right) << " groups " << group << " layouts " << layouts
                                << " filters " << filters);
          Net net;
          const int64_t channels = group == 1 ? 6 : 8;
          const ValueId a = net.g.add_input("a", left, {2, channels, 7, 5});
          const ValueId x = net.floats(a, {}, {left == DType::kU8 ? 131.0 : -5.0}, {0.02});
          Doubles scales;
          for (int64_t i = 0; i < filters; ++i) scales.push_back(0.001 * static_cast<double>(i + 1));
          const ValueId q = net.bytes(right, {filters, channels / group, 3, 2});
          const ValueId w = net.floats(q, {filters, 1, 1, 1}, {right == DType::kU8 ? 125.0 : 0.0}, scales);
          Doubles bias;
          for (int64_t i = 0; i < filters; ++i)
            bias.push_back(
                static_cast<float>(static_cast<double>(100 * i - 300) * 0.02 * scales[static_cast<size_t>(i)]));
          ValueId y =
              net.node(Op::kConv, conv_attrs({3, 2}, 1, 1, group), {x, w, net.constant(DType::kF32, {filters}, bias)});
          y = net.quantize(net.node(Op::kClip, ClipAttrs{0, 6}, {y}), 6.0 / 255, 2);
          OptimizeOptions options;
          if (layouts) options.layouts = blocked_layouts();
          check(net, y, 1, options);
          // Nothing is left of the biases and of the division by the scale. Vectors of filters are whole.
          for (NodeId id : net.g.order) {
            CHECK(net.g.node(id).op != Op::kDiv);
            if (net.g.node(id).op != Op::kConv) continue;
            const Shape& made = net.g.value(net.g.node(id).output).shape;
            const int64_t channels_made = made[1] * (net.g.node(id).as<ConvAttrs>().block_out > 1 ? made.back() : 1);
            CHECK((channels_made % 4 == 0 || channels_made == 1));  // 1: sums of windows, for zero points
          }
        }
}

TEST_CASE(
    "channels that blocks do not divide fill the last block: the values stay, and blocks meet without conversions") {
  // A dense convolution, a pool, a depthwise one, a dense one, and means of its channels, or these as they are.
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{20, 40}, {100, 13}, {40, 6}})
    for (bool means : {false, true}) {
      INFO(first << ", " << second << (means ? " means" : ""));
      Net net;
      ValueId q = net.g.add_input("a", DType::kU8, {2, 6, 9, 7});
      const auto convolved = [&](int64_t filters, int64_t inputs, int64_t group) {
        const ValueId x = net.floats(q, {}, {131.0}, {0.02});
        const ValueId w = net.floats(net.bytes(DType::kI8, {filters, inputs / group, 3, 3}), {}, {}, {0.004});
        ValueId y = net.node(Op::kConv, conv_attrs({3, 3}, 1, 1, group), {x, w});
        return net.quantize(net.node(Op::kClip, ClipAttrs{0, 6}, {y}), 6.0 / 255, 0);
      };
      q = convolved(first, 6, 1);
      PoolAttrs pool;
      pool.kernel = pool.strides = {2, 2}, pool.dilations = {1, 1}, pool.pads_begin = pool.pads_end = {0, 0};
      q = net.node(Op::kMaxPool, pool, {q});
      q = convolved(first, first, first);
      q = convolved(second, first, 1);
      ValueId y = q;
      if (means) {
        y = net.node(Op::kReduceMean, ReduceAttrs{{2, 3}, false}, {net.node(Op::kCast, CastAttrs{DType::kF32}, {q})});
        y = net.quantize(y, 1, 0);
      }
      OptimizeOptions options;
      options.layouts = blocked_layouts();
      options.layouts->fills_byte_blocks = true;
      check(net, y, 2, options);
      int64_t conversions = 0;
      for (NodeId id : net.g.order) {
        const Node& node = net.g.node(id);
        conversions += node.op == Op::kTranspose;
        if (node.op != Op::kConv || node.as<ConvAttrs>().kernel.size() != 2) continue;
        const int64_t block = node.as<ConvAttrs>().block_out;
        CHECK((block == 16 || (second == 6 && block == 8) || net.g.value(node.output).shape[1] == 1));
      }
      CHECK(conversions <= 2);
    }
}

TEST_CASE("a bias between whole numbers of units is added in floats") {
  Net net;
  const ValueId x = net.floats(net.g.add_input("a", DType::kU8, {3, 5}), {}, {9}, {0.5});
  const ValueId w = net.floats(net.bytes(DType::kI8, {4, 5}), {4, 1}, {}, {1, 2, 4, 0.5});
  const ValueId bias = net.constant(DType::kF32, {4}, {0.3, 100.2, -3.7, 0});
  check(net, net.node(Op::kGemm, GemmAttrs{0.5, 2, false, true}, {x, w, bias}), 1e-6);
}

TEST_CASE("a transposed or reshaped operand is one of the numbers it is made from") {
  Net net;
  ValueId x = net.floats(net.g.add_input("a", DType::kU8, {5, 3}), {}, {9}, {0.5});
  x = net.node(Op::kTranspose, TransposeAttrs{{1, 0}}, {x});
  x = net.node(Op::kReshape, ReshapeAttrs{{1, 3, 5}}, {x});
  ValueId w = net.floats(net.bytes(DType::kI8, {4, 5}), {4, 1}, {}, {1, 2, 4, 0.5});
  w = net.node(Op::kTranspose, TransposeAttrs{{1, 0}}, {w});
  check(net, net.node(Op::kMatMul, MatMulAttrs{}, {x, w}), 1e-6);
}

TEST_CASE("zero points that a Cast makes of constant bytes are known") {
  Net net;
  const ValueId x = net.floats(net.g.add_input("a", DType::kU8, {3, 5}), {}, {9}, {0.5});
  const ValueId zeros =
      net.node(Op::kCast, CastAttrs{DType::kF32}, {net.constant(DType::kI8, {1, 4}, {0, 5, -3, 100})});
  ValueId w = net.node(Op::kCast, CastAttrs{DType::kF32}, {net.bytes(DType::kI8, {5, 4})});
  w = net.node(Op::kSub, NoAttrs{}, {w, zeros});
  check(net, net.node(Op::kMatMul, MatMulAttrs{}, {x, w}), 1e-6);
}

TEST_CASE("products that stay in floats say why") {
  auto reason = [](auto build) {
    Net net;
    net.g.add_output(build(net), "y");
    const std::vector<FloatProduct> left = quantize_products(net.g);
    return left.size() == 1 ? left[0].reason : "";
  };
  CHECK(reason([](Net& n) {
          const ValueId x = n.g.add_input("x", DType::kF32, {3, 5});
          return n.node(Op::kMatMul, MatMulAttrs{}, {x, n.floats(n.bytes(DType::kI8, {5, 4}), {}, {}, {0.5})});
        }) == "its left operand: it is not quantized");
  CHECK(reason([](Net& n) {
          const ValueId x = n.floats(n.g.add_input("x", DType::kU8, {3, 5}), {1, 5}, {}, {1, 2, 3, 4, 5});
          return n.node(Op::kMatMul, MatMulAttrs{}, {x, n.floats(n.bytes(DType::kI8, {5, 4}), {}, {}, {0.5})});
        }) == "scales or zero points of its left operand differ along an axis that is summed");
  CHECK(reason([](Net& n) {
          const ValueId x = n.g.add_input("x", DType::kF32, {3, 5});
          return n.node(Op::kMatMul, MatMulAttrs{}, {x, n.constant(DType::kF32, {5, 1}, {1, 2, 3, 4, 5})});
        }) == "");
}

TEST_CASE("numbers of 8 bits that a sum reads as floats are read as bytes") {
  Net net;
  const ValueId q = net.g.add_input("a", DType::kU8, {1, 8, 6, 6});
  const ValueId w = net.floats(net.bytes(DType::kI8, {8, 8, 1, 1}), {}, {}, {0.01});
  ConvAttrs one = conv_attrs({1, 1}, 1, 0, 1);
  ValueId first = net.quantize(net.node(Op::kConv, one, {net.floats(q, {}, {128}, {0.02}), w}), 0.05, 128);
  ValueId second = net.quantize(net.node(Op::kConv, one, {net.floats(first, {}, {128}, {0.05}), w}), 0.05, 128);
  ValueId sum =
      net.node(Op::kAdd, NoAttrs{}, {net.floats(first, {}, {128}, {0.05}), net.floats(second, {}, {128}, {0.05})});
  check(net, net.quantize(sum, 0.1, 128), 1);
  const std::vector<FusionGroup> groups = fuse(net.g);
  CHECK(groups.size() == 2);
  for (const FusionGroup& group : groups)
    for (ValueId id : group.inputs) CHECK(is_byte(net.g.value(id).dtype));
}

TEST_CASE("scales and limits of sums of quantized tensors are merged") {
  for (DType to : {DType::kU8, DType::kI8})
    for (bool relu : {false, true}) {
      INFO(dtype_name(to) << " relu " << relu);
      const double low = to == DType::kU8 ? 0 : -128, zero = low + 100;
      Net net;
      auto quantize = [&](ValueId x, double scale) {
        x = net.node(Op::kDiv, NoAttrs{}, {x, net.constant(DType::kF32, {}, {scale})});
        x = net.node(Op::kUnary, UnaryAttrs{UnaryFn::kRound}, {x});
        x = net.node(Op::kAdd, NoAttrs{}, {x, net.constant(DType::kF32, {}, {zero})});
        x = net.node(Op::kClip, ClipAttrs{low, low + 255}, {x});
        return net.node(Op::kCast, CastAttrs{to}, {x});
      };
      const ValueId q = net.g.add_input("a", to, {1, 8, 7, 5});
      const ValueId w = net.floats(net.bytes(DType::kI8, {8, 8, 1, 1}), {}, {}, {0.01});
      const ConvAttrs one = conv_attrs({1, 1}, 1, 0, 1);
      ValueId y = net.node(Op::kConv, one, {net.floats(q, {}, {zero}, {0.02}), w});
      if (relu) y = net.node(Op::kRelu, NoAttrs{}, {y});
      y = net.floats(quantize(y, 0.05), {}, {zero}, {0.05});
      y = net.node(Op::kAdd, NoAttrs{}, {y, net.floats(q, {}, {zero}, {0.02})});
      if (relu) y = net.node(Op::kClip, ClipAttrs{0, 6}, {y});
      check(net, quantize(y, 0.03), 1);
      std::map<Op, int64_t> count;
      for (NodeId id : net.g.order) ++count[net.g.node(id).op];
      CHECK(count[Op::kDiv] == 0);
      CHECK(count[Op::kRelu] == 0);
      CHECK(count[Op::kClip] == 2);  // one for each conversion to 8 bits
      // The sums, the bytes that are added, and the result; an i8 input also becomes u8 in front of the product.
      CHECK(count[Op::kCast] == (to == DType::kU8 ? 3 : 5));
      CHECK(fuse(net.g).size() == (to == DType::kU8 ? 1 : 2));
    }
}

TEST_CASE("limits of what several read, and scales of floats, stay where they are") {
  {  // The clipped sums are read twice: their division by a scale is not merged.
    Net net;
    const ValueId x = net.floats(net.g.add_input("a", DType::kU8, {3, 5}), {}, {9}, {0.5});
    const ValueId w = net.floats(net.bytes(DType::kI8, {5, 4}), {}, {}, {0.25});
    const ValueId y = net.node(Op::kClip, ClipAttrs{-30, 30}, {net.node(Op::kMatMul, MatMulAttrs{}, {x, w})});
    const ValueId bytes = net.node(Op::kCast, CastAttrs{DType::kF32}, {net.quantize(y, 0.3, 100)});
    check(net, net.node(Op::kAdd, NoAttrs{}, {bytes, y}), 1);
    CHECK(std::count_if(net.g.order.begin(), net.g.order.end(),
                        [&](NodeId id) { return net.g.node(id).op == Op::kDiv; }) == 1);
  }
  {  // Floats of an input are divided as before.
    Net net;
    const ValueId x = net.g.add_input("x", DType::kF32, {4, 5});
    const ValueId y = net.node(Op::kMul, NoAttrs{}, {x, net.constant(DType::kF32, {}, {3})});
    net.g.add_output(net.quantize(y, 0.3, 7), "y");
    std::vector<HostTensor> inputs = inputs_of(net.g);
    inputs[0].data[0] = NAN, inputs[0].data[1] = INFINITY;
    const auto want = run_reference(net.g, inputs, 1);
    quantize_products(net.g);
    const auto got = run_reference(net.g, inputs, 1);
    REQUIRE((want.has_value() && got.has_value()));
    CHECK(got->at(0).data == want->at(0).data);
    CHECK(std::count_if(net.g.order.begin(), net.g.order.end(),
                        [&](NodeId id) { return net.g.node(id).op == Op::kDiv; }) == 1);
  }
}

TEST_CASE("weights of products of signed bytes have their terms side by side") {
  for (bool is_signed : {false, true}) {
    Net net;
    const ValueId x = net.floats(net.g.add_input("a", DType::kU8, {3, 8}), {}, {9}, {0.5});
    const ValueId w = net.floats(net.bytes(DType::kI8, {8, 4}), {}, {}, {0.25});
    net.g.add_output(net.node(Op::kMatMul, MatMulAttrs{}, {x, w}), "y");
    const std::vector<HostTensor> inputs = inputs_of(net.g);
    const auto want = run_reference(net.g, inputs, 1);
    auto evaluator = reference_evaluator();
    REQUIRE(optimize(net.g, evaluator.get(), {.signed_bytes = is_signed}));
    const auto got = run_reference(net.g, inputs, 1);
    REQUIRE((want.has_value() && got.has_value()));
    CHECK(got->at(0).data == want->at(0).data);
    int64_t products = 0;
    for (NodeId id : net.g.order) {
      const Node& node = net.g.node(id);
      if (node.op != Op::kGemm) continue;
      ++products;
      CHECK(node.as<GemmAttrs>().trans_b == is_signed);
      CHECK(net.g.value(node.inputs[1]).is_constant());
      CHECK(net.g.value(node.inputs[1]).shape == (is_signed ? Shape{4, 8} : Shape{8, 4}));
    }
    CHECK(products == 1);
  }
}

TEST_CASE("bytes that a product takes with the other sign are stored in that one only") {
  for (bool is_signed : {false, true}) {
    INFO((is_signed ? "products of i8" : "products of u8"));
    const DType stored = is_signed ? DType::kU8 : DType::kI8;
    Net net;
    // One tensor of bytes goes into a product, and into a sum of floats.
    ValueId x = net.node(Op::kDiv, NoAttrs{},
                         {net.g.add_input("x", DType::kF32, {3, 8}), net.constant(DType::kF32, {}, {0.05})});
    x = net.node(Op::kUnary, UnaryAttrs{UnaryFn::kRound}, {x});
    x = net.node(Op::kClip, ClipAttrs{is_signed ? 0.0 : -128.0, is_signed ? 255.0 : 127.0}, {x});
    x = net.node(Op::kCast, CastAttrs{stored}, {x});
    const ValueId w = net.floats(net.bytes(DType::kI8, {8, 8}), {}, {}, {0.25});
    const ValueId product = net.node(Op::kMatMul, MatMulAttrs{}, {net.floats(x, {}, {3}, {0.05}), w});
    net.g.add_output(net.node(Op::kAdd, NoAttrs{}, {product, net.floats(x, {}, {3}, {0.05})}), "y");
    const std::vector<HostTensor> inputs = inputs_of(net.g);
    const auto want = run_reference(net.g, inputs, 1);
    auto evaluator = reference_evaluator();
    REQUIRE(optimize(net.g, evaluator.get(), {.signed_bytes = is_signed}));
    const auto got = run_reference(net.g, inputs, 1);
    REQUIRE((want.has_value() && got.has_value()));
    for (size_t i = 0; i < want->at(0).data.size(); ++i)
      CHECK(got->at(0).data[i] == Approx(want->at(0).data[i]).epsilon(1e-12).margin(1e-12));
    const std::vector<FusionGroup> groups = fuse(net.g);
    CHECK(groups.size() == 2);
    for (const FusionGroup& group : groups) CHECK(net.g.value(group.output).dtype != stored);
  }
}

TEST_CASE("concatenations that are quantized are made of bytes; parts of one scale are not computed") {
  auto largest_float = [](const Graph& g) {
    int64_t largest = 0;
    for (const FusionGroup& group : fuse(g))
      if (const Value& v = g.value(group.output); is_float(v.dtype)) largest = std::max(largest, v.elements());
    return largest;
  };
  auto concat = [&](double second_scale, double second_zero, bool is_read_elsewhere) {
    Net net;
    const ValueId a = net.floats(net.g.add_input("a", DType::kU8, {2, 3, 5}), {}, {7}, {0.5});
    const ValueId b = net.floats(net.g.add_input("b", DType::kU8, {2, 4, 5}), {}, {second_zero}, {second_scale});
    const ValueId both = net.node(Op::kConcat, AxisAttrs{1}, {a, b});
    const ValueId y = net.quantize(both, 0.5, 7);
    if (is_read_elsewhere) {
      net.g.add_output(both, "floats");
      net.g.add_output(y, "y");
      const auto evaluator = reference_evaluator();
      REQUIRE(optimize(net.g, evaluator.get()).has_value());
    } else {
      check_results(net, y, 0);
    }
    return std::pair(largest_float(net.g), std::ssize(fuse(net.g)));
  };
  CHECK(concat(0.25, 9, false).first == 0);
  CHECK(concat(0.5, 7, false).first == 0);
  CHECK(concat(0.5, 7, false).second == 1);
  CHECK(concat(0.25, 9, false).second == 1);
  CHECK(concat(0.25, 9, true).first == 70);
}

TEST_CASE("means of bytes are made of their integers") {
  for (DType dtype : {DType::kU8, DType::kI8})
    for (const Doubles& zero : {Doubles{}, Doubles{3}, Doubles{-5}, Doubles{0.5}})
      for (const Doubles& scale : {Doubles{}, Doubles{0.03125}}) {
        INFO((dtype == DType::kU8 ? "u8" : "i8") << ", " << zero.size() << " zeros, " << scale.size() << " scales");
        Net net;
        const ValueId x = net.floats(net.g.add_input("x", dtype, {2, 3, 6, 7}), {}, zero, scale);
        check_results(net, net.node(Op::kReduceMean, ReduceAttrs{{2, 3}, true}, {x}), 1e-6);
        const bool sums = std::any_of(net.g.order.begin(), net.g.order.end(), [&](NodeId id) {
          return net.g.node(id).op == Op::kReduceSum && net.g.value(net.g.node(id).output).dtype == DType::kI32;
        });
        CHECK(sums == (zero.empty() || zero[0] == std::round(zero[0])));
      }
}
