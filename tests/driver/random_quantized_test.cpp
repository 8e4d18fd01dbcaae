// Random networks of quantized layers, built as a user's model is. Every layer is compared with the reference in double
// on the bytes that the library made of the layers before it: rounding of scales may move a result by one step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>

#include "driver/run_built.h"
#include "tcc/graph/graph.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::driver_test;
using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Op;
using graph::Shape;
using graph::ValueId;

namespace {

// A tensor of 8 bits that stands for (q - zero) * scale.
struct Bytes {
  ValueId id = graph::kNone;
  double scale = 1, zero = 0;
};

// Appends one layer to a graph. The same seed makes the same layer, also alone in a graph of its own.
class LayerMaker {
 public:
  LayerMaker(Graph& g, Rng rng) : g_(g), rng_(rng) {}

  // `steps`: by how many the result may differ.
  Bytes make(const Bytes& x, const Bytes& other, double& steps) {
    steps = 1;
    const Shape s = shape(x);
    const int64_t kind = rng_.below(s.size() == 2 ? 4 : 8);
    if (kind == 0) return quantized(limited(add(x, other)), DType::kU8);
    if (s.size() == 2) return quantized(limited(product(x)), any_type());
    if (kind == 1) return max_pool(x);
    ValueId y = limited(convolution(x));
    const bool joins = rng_.below(2) == 0 && g_.value(y).shape == shape(other);
    if (!joins) return quantized(y, any_type());
    // A residual connection: the bytes between are never seen.
    const Bytes inner = quantized(y, any_type());
    y = node(Op::kAdd, graph::NoAttrs{}, {floats(inner), floats(other)});
    const Bytes result = quantized(limited(y), any_type());
    steps = 1 + std::ceil(inner.scale / result.scale);
    return result;
  }

 private:
  const Shape& shape(const Bytes& x) const { return g_.value(x.id).shape; }
  int64_t between(int64_t low, int64_t high) { return low + rng_.below(high - low + 1); }
  DType any_type() { return rng_.below(3) == 0 ? DType::kI8 : DType::kU8; }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto made = g_.add_node(op, std::move(attrs), std::move(inputs), "n" + std::to_string(g_.nodes.size()));
    if (!made) FAIL(made.error().message);
    return *made;
  }
  ValueId constant(DType dtype, Shape s, const std::vector<double>& v) {
    return g_.add_constant("c", dtype, std::move(s), graph::make_constant_from_doubles(dtype, v));
  }
  ValueId number(double v) { return constant(DType::kF32, {}, {v}); }

  ValueId floats(const Bytes& x) {
    ValueId y = node(Op::kCast, graph::CastAttrs{DType::kF32}, {x.id});
    if (x.zero != 0 || rng_.below(2) == 0) y = node(Op::kSub, graph::NoAttrs{}, {y, number(x.zero)});
    return node(Op::kMul, graph::NoAttrs{}, {y, number(x.scale)});
  }
  Bytes quantized(ValueId x, DType to) {
    const double low = to == DType::kU8 ? 0 : -128;
    Bytes y{graph::kNone, static_cast<float>(0.01 * std::exp2(4 * rng_.uniform())), low};
    if (rng_.below(3) > 0) y.zero = low + static_cast<double>(rng_.below(256));
    x = node(Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kRound},
             {node(Op::kDiv, graph::NoAttrs{}, {x, number(y.scale)})});
    if (y.zero != 0) x = node(Op::kAdd, graph::NoAttrs{}, {x, number(y.zero)});
    x = node(Op::kClip, graph::ClipAttrs{low, low + 255}, {x});
    y.id = node(Op::kCast, graph::CastAttrs{to}, {x});
    return y;
  }
  ValueId limited(ValueId x) {
    switch (rng_.below(4)) {
      case 0:
        return node(Op::kRelu, graph::NoAttrs{}, {x});
      case 1:
        return node(Op::kClip, graph::ClipAttrs{0, 1.5}, {x});
      case 2:
        return node(Op::kLeakyRelu, graph::LeakyAttrs{0.125}, {x});
      default:
        return x;
    }
  }
  // Weights of either sign, with zero points and scales for all or for each filter, along axis `axis`.
  ValueId weights(const Shape& s, size_t axis, double gain) {
    const DType type = rng_.below(3) == 0 ? DType::kU8 : DType::kI8;
    const bool each = rng_.below(2) == 0;
    std::vector<double> q(static_cast<size_t>(graph::element_count(s)));
    const double middle = type == DType::kU8 ? 128 : 0;
    for (double& v : q) v = middle + static_cast<double>(between(-127, 127));
    const int64_t count = each ? s[axis] : 1;
    std::vector<double> scales, zeros;
    for (int64_t i = 0; i < count; ++i) {
      scales.push_back(static_cast<float>(gain * (0.5 + rng_.uniform()) / 127));
      zeros.push_back(middle + (rng_.below(2) == 0 ? 0.0 : static_cast<double>(between(-9, 9))));
    }
    Shape beside;
    if (each) beside.assign(s.size(), 1), beside[axis] = count;
    ValueId w = node(Op::kCast, graph::CastAttrs{DType::kF32}, {constant(type, s, q)});
    w = node(Op::kSub, graph::NoAttrs{}, {w, constant(DType::kF32, beside, zeros)});
    return node(Op::kMul, graph::NoAttrs{}, {w, constant(DType::kF32, beside, scales)});
  }
  ValueId bias(int64_t count) {
    std::vector<double> b;
    for (int64_t i = 0; i < count; ++i) b.push_back(static_cast<float>(rng_.normal() / 4));
    return constant(DType::kF32, {count}, b);
  }

  ValueId add(const Bytes& x, const Bytes& other) {
    const ValueId a = floats(x);
    return node(Op::kAdd, graph::NoAttrs{}, {a, shape(x) == shape(other) ? floats(other) : a});
  }
  ValueId product(const Bytes& x) {
    const int64_t k = shape(x)[1], n = between(1, 40);
    const double gain = 1 / std::sqrt(static_cast<double>(k));
    const bool transposed = rng_.below(2) == 0;
    const ValueId w = transposed ? weights({n, k}, 0, gain) : weights({k, n}, 1, gain);
    if (!transposed && rng_.below(2) == 0) return node(Op::kMatMul, graph::MatMulAttrs{}, {floats(x), w});
    std::vector<ValueId> in{floats(x), w};
    if (rng_.below(2) == 0) in.push_back(bias(n));
    return node(Op::kGemm, graph::GemmAttrs{1, 1, false, transposed}, in);
  }
  Bytes max_pool(const Bytes& x) {
    graph::PoolAttrs a;
    a.kernel = {2, 2}, a.strides = {1, 1}, a.dilations = {1, 1}, a.pads_begin = {1, 0}, a.pads_end = {0, 1};
    const ValueId y = node(Op::kMaxPool, a, {floats(x)});
    return quantized(y, DType::kU8);
  }
  ValueId convolution(const Bytes& x) {
    const Shape s = shape(x);
    const int64_t channels = s[1];
    graph::ConvAttrs a;
    const int64_t kernel = std::min(between(1, 3), std::min(s[2], s[3]));
    a.kernel = {kernel, kernel}, a.strides.assign(2, between(1, 2)), a.dilations.assign(2, 1);
    a.pads_begin = {between(0, kernel / 2), kernel / 2}, a.pads_end = {kernel / 2, between(0, kernel / 2)};
    a.group = rng_.below(3) == 0 ? channels : 1;
    static constexpr int64_t kFilters[] = {1, 3, 8, 13, 16, 20, 32};
    const int64_t filters = a.group > 1 ? channels : kFilters[rng_.below(std::ssize(kFilters))];
    const double gain = 1 / (static_cast<double>(kernel) * std::sqrt(static_cast<double>(channels / a.group)));
    std::vector<ValueId> in{floats(x), weights({filters, channels / a.group, kernel, kernel}, 0, gain)};
    if (rng_.below(2) == 0) in.push_back(bias(filters));
    return node(Op::kConv, a, in);
  }

  Graph& g_;
  Rng rng_;
};

HostTensor random_bytes(const graph::Value& v, Rng rng) {
  HostTensor t{v.shape, std::vector<double>(static_cast<size_t>(v.elements()))};
  for (double& x : t.data) x = static_cast<double>(rng.below(256)) - (v.dtype == DType::kI8 ? 128 : 0);
  return t;
}

struct Layer {
  Rng rng;
  Bytes x, other, result;
  double steps = 1;
};

void check_network(Rng rng, const target::Target& target) {
  Graph g;
  const bool image = rng.below(4) > 0;
  Shape s;
  if (image)
    s = {1 + rng.below(2), 1 + rng.below(36), 3 + rng.below(9), 2 + rng.below(9)};
  else
    s = {1 + rng.below(20), 1 + rng.below(70)};
  const DType dtype = rng.below(3) == 0 ? DType::kI8 : DType::kU8;
  std::vector<Bytes> known{{g.add_input("x", dtype, s), 0.02, dtype == DType::kU8 ? 128.0 : 3.0}};
  std::vector<Layer> layers;
  for (int i = 0; i < 5; ++i) {
    Layer layer{rng.fork(static_cast<uint64_t>(100 + i)),
                known.back(),
                known[static_cast<size_t>(rng.below(std::ssize(known)))],
                {},
                1};
    layer.result = LayerMaker(g, layer.rng).make(layer.x, layer.other, layer.steps);
    g.add_output(layer.result.id, "y" + std::to_string(i));
    known.push_back(layer.result);
    layers.push_back(layer);
  }
  std::map<ValueId, HostTensor> tensors;
  tensors[g.inputs[0]] = random_bytes(g.value(g.inputs[0]), rng.fork(1));
  const std::vector<std::vector<double>> got = run_built(g, {tensors[g.inputs[0]]}, target);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    Graph alone;
    auto input = [&](const Bytes& b) {
      const graph::Value& v = g.value(b.id);
      return Bytes{alone.add_input("x", v.dtype, v.shape), b.scale, b.zero};
    };
    const Bytes x = input(layer.x);
    const Bytes other = layer.other.id == layer.x.id ? x : input(layer.other);
    double steps = 1;
    const Bytes y = LayerMaker(alone, layer.rng).make(x, other, steps);
    alone.add_output(y.id, "y");
    std::vector<HostTensor> in{tensors.at(layer.x.id)};
    if (other.id != x.id) in.push_back(tensors.at(layer.other.id));
    const auto want = graph::run_reference(alone, in, 1);
    REQUIRE(want.has_value());
    REQUIRE(got[i].size() == want->at(0).data.size());
    for (size_t e = 0; e < got[i].size(); ++e) {
      INFO("layer " << i << ", element " << e << ": " << got[i][e] << ", expected " << want->at(0).data[e]);
      REQUIRE(std::fabs(got[i][e] - want->at(0).data[e]) <= layer.steps);
    }
    tensors[layer.result.id] = {g.value(layer.result.id).shape, got[i]};
  }
}

}  // namespace

// TCC_SEED and TCC_GRAPHS (their number) choose others than those of the suite.
TEST_CASE("random networks of quantized layers equal the reference within a step", "[fuzz]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char *given = std::getenv("TCC_SEED"), *count = std::getenv("TCC_GRAPHS");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261126;
  const int64_t wanted = count != nullptr ? std::strtoll(count, nullptr, 10) : soak ? 400 : 12;
  // Processors without dot products of bytes, too.
  std::vector<target::Target> targets{target::host_target()};
  for (const char* name : {"x86-64-v3", "x86-64-v2"}) {
    const auto other = target::find_target(name);
    if (other && target::isa_level(*other) <= target::isa_level(targets[0])) targets.push_back(*other);
  }
  for (int64_t i = 0; i < wanted; ++i) {
    const target::Target& target = targets[static_cast<size_t>(i % std::ssize(targets))];
    INFO("TCC_SEED=" << seed << ", network " << i << " for " << target.name);
    check_network(Rng(seed).fork(static_cast<uint64_t>(i)), target);
  }
}
