// Operators beyond the convolutional ones, in the forms of their opsets; fixed inputs; refusals.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "graph/constants.h"
#include "onnx/models.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/refusal.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

namespace {

struct NodeSpec {
  std::string op;
  Shape shape;
  std::vector<TensorData> constants;
  std::vector<NamedAttribute> attributes;
  int64_t opset = 13;
  int64_t outputs = 1;
};
std::string model_of(const NodeSpec& spec) {
  ModelWriter w("one", spec.opset);
  w.input("x", spec.shape);
  std::vector<std::string> inputs{"x"}, outputs;
  for (size_t i = 0; i < spec.constants.size(); ++i)
    inputs.push_back(w.initializer("in" + std::to_string(i), spec.constants[i]));
  for (int64_t i = 0; i < spec.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  w.node(spec.op, inputs, outputs, spec.attributes);
  for (const std::string& name : outputs) w.output(name);
  return w.finish();
}
Doubles result_of(const NodeSpec& spec) {
  return run_model(model_of(spec))[0].data;
}
std::optional<graph::Refusal> reason_of(const NodeSpec& spec) {
  auto g = import_text(model_of(spec));
  REQUIRE(!g.has_value());
  return graph::refusal_of(g.error());
}

}  // namespace

TEST_CASE("Slice and Split in the forms of their opsets") {
  CHECK(result_of({"Slice", {2, 4}, {}, {{"starts", Ints{1}}, {"ends", Ints{-1}}, {"axes", Ints{1}}}, 9}) ==
        Doubles{1, 2, 5, 6});
  auto now = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    auto list = [](const Ints& v) { return TensorData{{static_cast<int64_t>(v.size())}, v}; };
    return result_of({"Slice", {2, 4}, {list(starts), list(ends), list(axes), list(steps)}, {}});
  };
  CHECK(now({0}, {INT64_MAX}, {0}, {1}) == Doubles{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(now({-1}, {INT64_MIN}, {1}, {-2}) == Doubles{3, 1, 7, 5});
  CHECK(now({1, 3}, {2, 0}, {0, 1}, {1, -1}) == Doubles{7, 6, 5});
  CHECK(now({0}, {4}, {-1}, {INT64_MAX}) == Doubles{0, 4});
  CHECK(now({3}, {1}, {1}, {1}).empty());

  auto parts = run_model(model_of({"Split", {5}, {}, {{"split", Ints{2, 3}}}, 11, 2}));
  CHECK(parts[1].data == Doubles{2, 3, 4});
  parts = run_model(model_of({"Split", {5}, {}, {{"num_outputs", int64_t{2}}}, 18, 2}));
  CHECK(parts[0].data == Doubles{0, 1, 2});
  CHECK(!import_text(model_of({"Split", {5}, {}, {}, 13, 2})).has_value());
  CHECK(!import_text(model_of({"Split", {5}, {{{2}, Ints{2, 2}}}, {}, 13, 2})).has_value());
}

TEST_CASE("gathers, tiles and pads that copy") {
  CHECK(result_of({"Gather", {2, 3}, {{{2}, Ints{-1, 0}}}, {{"axis", int64_t{1}}}}) == Doubles{2, 0, 5, 3});
  CHECK(!import_text(model_of({"Gather", {2, 3}, {{{1}, Ints{2}}}, {}})).has_value());
  CHECK(result_of({"Gather", {3}, {{{}, Ints{-1}}}, {}}) == Doubles{2});
  CHECK(result_of({"Tile", {2}, {{{1}, Ints{2}}}, {}}) == Doubles{0, 1, 0, 1});
  CHECK(result_of({"Pad", {3}, {{{2}, Ints{2, 1}}}, {{"mode", std::string("reflect")}}}) == Doubles{2, 1, 0, 1, 2, 1});
  CHECK(result_of({"Pad", {3}, {{{2}, Ints{1, 2}}}, {{"mode", std::string("edge")}}}) == Doubles{0, 0, 1, 2, 2, 2});
  CHECK(result_of({"Pad", {3}, {{{2}, Ints{-1, 1}}}, {}}) == Doubles{1, 2, 0});
  CHECK(result_of({"Trilu", {2, 2}, {}, {{"upper", int64_t{0}}}, 14}) == Doubles{0, 0, 2, 3});
  CHECK(result_of({"CumSum", {4}, {{{}, Ints{0}}}, {{"exclusive", int64_t{1}}}}) == Doubles{0, 0, 1, 3});
  CHECK(result_of({"ArgMax", {2, 3}, {}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}}) == Doubles{2, 2});
}

TEST_CASE("triangles: diagonals beyond the corners and at run time; a large mask comes from the indices") {
  auto triangle = [](bool upper, double k) {
    ModelWriter w("triangle", 14);
    w.input("x", {2, 3});
    w.typed_input("k", graph::DType::kI64, {});
    w.node("Trilu", {"x", "k"}, {"y"}, {{"upper", int64_t{upper}}});
    w.output("y");
    return run_model(w.finish(), {}, {{1, 2, 3, 4, 5, 6}, {k}})[0].data;
  };
  CHECK(triangle(true, 1) == Doubles{0, 2, 3, 0, 0, 6});
  CHECK(triangle(false, -1) == Doubles{0, 0, 0, 4, 0, 0});
  for (double far : {3., 0x1p62}) {
    CHECK(triangle(true, far) == Doubles(6, 0));
    CHECK(triangle(true, -far) == Doubles{1, 2, 3, 4, 5, 6});
    CHECK(triangle(false, far) == Doubles{1, 2, 3, 4, 5, 6});
    CHECK(triangle(false, -far) == Doubles(6, 0));
  }
  for (const char* op : {"Trilu", "EyeLike"}) {
    INFO(op);
    auto g = import_text(model_of({op, {5000, 4000}, {}, {}, 14}));
    REQUIRE(g.has_value());
    for (size_t id = 0; id < g->values.size(); ++id)
      if (g->values[id].is_constant()) CHECK(g->values[id].constant->bytes.size() <= 8 * 5000);
  }
  CHECK(result_of({"EyeLike", {2, 3}, {}, {{"k", int64_t{1}}}, 9}) == Doubles{0, 1, 0, 0, 0, 1});
  CHECK(result_of({"EyeLike", {2, 3}, {}, {{"k", INT64_MIN}}, 9}) == Doubles(6, 0));
}

TEST_CASE("an element of a shape: of a matrix a constant, of a scalar an error", "[errors]") {
  for (Shape shape : {Shape{2, 3}, Shape{}}) {
    ModelWriter w("shape", 13);
    w.input("x", shape);
    w.node("Shape", {"x"}, {"s"});
    w.node("Gather", {"s", w.initializer("i", {{}, Ints{-1}})}, {"y"});
    w.output("y");
    auto g = import_text(w.finish());
    INFO(graph::shape_text(shape));
    REQUIRE(g.has_value() == !shape.empty());
    if (!g) {
      CHECK_THAT(g.error().message, Catch::Contains("0 elements"));
      continue;
    }
    const graph::Value& y = g->value(g->outputs[0]);
    REQUIRE(y.is_constant());
    CHECK(graph::constant_integers(*y.constant, y.dtype, 1) == Ints{3});
  }
}

TEST_CASE("constant indices of a float type are refused at import", "[errors]") {
  for (const char* op : {"Gather", "GatherElements"}) {
    auto g = import_text(model_of({op, {3}, {{{2}, Floats{0, 1}}}, {}}));
    REQUIRE(!g.has_value());
    CHECK_THAT(g.error().message, Catch::Contains("indices") && Catch::Contains("f32"));
  }
}

TEST_CASE("broadcasting as it was asked for before opset 7") {
  CHECK(result_of({"PRelu", {1, 2, 1}, {{{2}, Floats{1, 2}}}, {}, 6}) == Doubles{0, 1});
  NodeSpec pow{"Pow", {2, 2}, {{{2}, Floats{1, 2}}}, {{"broadcast", int64_t{1}}, {"axis", int64_t{0}}}, 1};
  CHECK(result_of(pow) == Doubles{0, 1, 4, 9});
  pow.attributes.clear();
  CHECK(!import_text(model_of(pow)).has_value());
}

TEST_CASE("a transposed convolution spreads each input over its kernel") {
  TensorData kernel{{1, 1, 2, 2}, Floats{1, 2, 3, 4}};
  NodeSpec spec{"ConvTranspose", {1, 1, 2, 2}, {kernel}, {{"strides", Ints{2, 2}}}};
  CHECK(result_of(spec) == Doubles{0, 0, 1, 2, 0, 0, 3, 4, 2, 4, 3, 6, 6, 8, 9, 12});
  spec.attributes.push_back({"pads", Ints{1, 1, 1, 1}});
  CHECK(result_of(spec) == Doubles{0, 3, 4, 3});
  // A kernel that the stride does not divide, bias, an output that is longer at its end.
  NodeSpec odd{"ConvTranspose",
               {1, 1, 3},
               {{{1, 2, 3}, Floats{1, 2, 3, 10, 20, 30}}, {{2}, Floats{100, 200}}},
               {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}};
  CHECK(result_of(odd) == Doubles{100, 101, 102, 105, 104, 106, 200, 210, 220, 250, 240, 260});
  // Phases that begin at different positions.
  NodeSpec shifted{
      "ConvTranspose", {1, 1, 3}, {{{1, 1, 4}, Floats{1, 2, 3, 4}}}, {{"strides", Ints{2}}, {"pads", Ints{1, 1}}}};
  CHECK(result_of(shifted) == Doubles{0, 1, 2, 5, 8, 6});
  // Two groups: no channel sees the other's input.
  NodeSpec grouped{
      "ConvTranspose", {1, 2, 2}, {{{2, 1, 2}, Floats{1, 2, 3, 4}}}, {{"strides", Ints{2}}, {"group", int64_t{2}}}};
  CHECK(result_of(grouped) == Doubles{0, 0, 1, 2, 6, 8, 9, 12});
  // A stride beyond the kernel leaves zeros, and the bias, between.
  NodeSpec sparse{"ConvTranspose",
                  {1, 2, 2},
                  {{{2, 1, 1}, Floats{1, 2}}, {{1}, Floats{0.5}}},
                  {{"strides", Ints{3}}, {"dilations", Ints{2}}}};
  CHECK(result_of(sparse) == Doubles{4.5, 0.5, 0.5, 7.5});
}

namespace {

// A transposed convolution of one spatial axis, of 2 channels in 1 or 2 groups.
struct Transposed {
  int64_t in, kernel, stride, dilation, begin, end, extra, group;
  int64_t filters = 2;  // of a group
  int64_t out() const { return (in - 1) * stride + (kernel - 1) * dilation + 1 + extra - begin - end; }
  Floats weights() const {
    Floats w(static_cast<size_t>(2 * filters * kernel));
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 2;
    return w;
  }
  NodeSpec spec() const {
    return {
        "ConvTranspose",
        {1, 2, in},
        {{{2, filters, kernel}, weights()}, {{group * filters}, Floats(static_cast<size_t>(group * filters), 0.5F)}},
        {{"strides", Ints{stride}},
         {"dilations", Ints{dilation}},
         {"pads", Ints{begin, end}},
         {"output_padding", Ints{extra}},
         {"group", group}}};
  }
  // By the definition: each input, numbered from 0 on, is spread over the kernel.
  Doubles result() const {
    const Floats w = weights();
    Doubles y(static_cast<size_t>(group * filters * out()), 0.5);
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t f = 0; f < filters; ++f)
        for (int64_t i = 0; i < in; ++i)
          for (int64_t t = 0; t < kernel; ++t) {
            const int64_t o = i * stride + t * dilation - begin, channel = (group == 2 ? c * filters : 0) + f;
            if (o < 0 || o >= out()) continue;
            y[static_cast<size_t>(channel * out() + o)] +=
                static_cast<double>(c * in + i) * w[static_cast<size_t>((c * filters + f) * kernel + t)];
          }
    return y;
  }
};

}  // namespace

TEST_CASE("strided and dilated transposed convolutions are what their definition says") {
  Rng rng(3);
  for (int round = 0; round < 400; ++round) {
    Transposed t{};
    t.in = 3 + rng.below(6);
    t.kernel = 1 + rng.below(6);
    t.stride = 1 + rng.below(5);
    t.dilation = 1 + rng.below(4);
    // Also cuts into the first and the last element.
    t.begin = rng.below(std::min<int64_t>((t.kernel - 1) * t.dilation + 2, 6));
    t.end = rng.below(std::min<int64_t>((t.kernel - 1) * t.dilation + 2, 6));
    t.extra = rng.below(std::max(t.stride, t.dilation));
    t.group = 1 + rng.below(2);
    if (t.out() < 1) continue;
    CAPTURE(t.in, t.kernel, t.stride, t.dilation, t.begin, t.end, t.extra, t.group);
    CHECK(result_of(t.spec()) == t.result());
  }
}

TEST_CASE("transposed convolutions with a dilated axis beside a strided one are what their definition says") {
  Rng rng(4);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = 2 + rng.below(4), columns = 1 + rng.below(3), taps = 2 + rng.below(2),
                  dilation = 2 + rng.below(2);
    const int64_t stride = 2 + rng.below(2), pad = rng.below(dilation + 1);
    const int64_t high = rows + (taps - 1) * dilation - 2 * pad, wide = columns * stride;
    if (high < 1) continue;
    CAPTURE(rows, columns, taps, dilation, stride, pad);
    Floats weights(static_cast<size_t>(taps));
    Doubles y(static_cast<size_t>(high * wide), 0.0);
    for (int64_t t = 0; t < taps; ++t) {
      weights[static_cast<size_t>(t)] = static_cast<float>(t + 1);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < columns; ++k)
          if (const int64_t o = r + t * dilation - pad; o >= 0 && o < high)
            y[static_cast<size_t>(o * wide + k * stride)] += static_cast<double>((r * columns + k) * (t + 1));
    }
    CHECK(result_of({"ConvTranspose",
                     {1, 1, rows, columns},
                     {{{1, 1, taps, 1}, weights}},
                     {{"strides", Ints{1, stride}},
                      {"dilations", Ints{dilation, 1}},
                      {"pads", Ints{pad, 0, pad, 0}},
                      {"output_padding", Ints{0, stride - 1}}}}) == y);
  }
}

TEST_CASE("strided and dilated transposed convolutions do not multiply by zeros between inputs") {
  const auto products = [](const NodeSpec& spec) {
    auto g = import_text(model_of(spec));
    REQUIRE(g.has_value());
    double flops = 0;
    for (const graph::Node& node : g->nodes)
      if (node.op == graph::Op::kConv) flops += graph::node_flops(*g, node);
    return flops / 2;
  };
  const auto ones = [](const Shape& shape) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return TensorData{shape, Floats(static_cast<size_t>(n), 1)};
  };
  const int64_t in = 100;
  for (int64_t stride : {2, 3, 4})
    for (int64_t dilation : {1, 2, 3, 4})
      for (int64_t kernel : {6, 7}) {
        CAPTURE(stride, dilation, kernel);
        const int64_t common = std::gcd(stride, dilation);
        if (common > 1 && common < stride) continue;  // several phases have taps and some have none
        const NodeSpec spec{"ConvTranspose",
                            {1, 8, in},
                            {ones({8, 4, kernel})},
                            {{"strides", Ints{stride}}, {"dilations", Ints{dilation}}}};
        // Some positions at the ends are computed whose inputs are padding, and a kernel is filled up to whole strides.
        CHECK(products(spec) <= 8.0 * 4 * static_cast<double>((kernel + stride - 1) * (in + kernel * dilation)));
      }
}

TEST_CASE("phases of large transposed convolutions have the taps that they use") {
  Transposed t{15001, 3, 2, 1, 1, 0, 0, 1};
  t.filters = 70;
  auto g = import_text(model_of(t.spec()));
  if (!g) FAIL(g.error().message);
  double products = 0;
  for (const graph::Node& node : g->nodes)
    if (node.op == graph::Op::kConv) products += graph::node_flops(*g, node) / 2;
  CHECK(products <= (2.0 * 3 + 1) * 70 * static_cast<double>(t.in + 2));  // the bias counts as half a product
  CHECK(result_of(t.spec()) == t.result());
}

TEST_CASE("a transposed convolution of large strides stays a few nodes") {
  const NodeSpec spec{"ConvTranspose",
                      {1, 1, 3, 3},
                      {{{1, 2, 3, 49}, Floats(2 * 3 * 49, 1)}},
                      {{"strides", Ints{126, 46}}, {"auto_pad", std::string("SAME_UPPER")}}};
  auto g = import_text(model_of(spec));
  if (!g) FAIL(g.error().message);
  CHECK(g->nodes.size() < 20);
}

TEST_CASE("a transposed convolution of stride 1 has its padding in the convolution") {
  auto g = import_text(model_of({"ConvTranspose", {1, 1, 9}, {{{1, 1, 3}, Floats{1, 2, 3}}}, {}}));
  REQUIRE(g.has_value());
  for (const graph::Node& node : g->nodes) CHECK(node.op != graph::Op::kPad);
}

TEST_CASE("what a shape depends on can be fixed") {
  ModelWriter w("frozen", 13);
  w.input("x", {2, 3});
  w.input("shape", {2});
  w.node("Cast", {"shape"}, {"whole"}, {{"to", int64_t{7}}});
  w.node("Reshape", {"x", "whole"}, {"y"});
  w.output("y");
  std::string bytes = w.finish();

  std::vector<std::string> wanted;
  auto refused = import_text(bytes, {.inputs_to_freeze = &wanted});
  REQUIRE(!refused.has_value());
  CHECK(graph::refusal_of(refused.error()) == graph::Refusal::kRunTimeShape);
  CHECK(refused.error().hint.find("--freeze shape=") != std::string::npos);
  CHECK(wanted == std::vector<std::string>{"shape"});

  ImportOptions options;
  options.frozen["shape"] = {graph::DType::kF32, {2}, graph::make_constant_f32(Floats{3, 2})};
  auto g = import_text(bytes, options);
  REQUIRE(g.has_value());
  CHECK(g->inputs.size() == 1);
  CHECK(g->value(g->outputs[0]).shape == Shape{3, 2});

  options.frozen["shape"].shape = {1, 2};
  CHECK(!import_text(bytes, options).has_value());
  options.frozen.clear();
  options.frozen["nobody"] = {graph::DType::kF32, {2}, graph::make_constant_f32(Floats{3, 2})};
  auto unknown = import_text(bytes, options);
  REQUIRE(!unknown.has_value());
  CHECK(unknown.error().cls == ErrorClass::kUsage);
}

TEST_CASE("tensor files") {
  auto folder = TemporaryDirectory::create("tcc-tensor");
  REQUIRE(folder.has_value());
  std::string path = (*folder)->path() + "/t.pb";
  auto put = [&](const std::string& bytes) { REQUIRE(write_file(path, bytes).has_value()); };
  put(std::string("\x08\x02\x10\x01\x4a\x08\0\0\x80\x3f\0\0\0\x40", 14));  // dims 2, float, raw 1 and 2
  auto tensor = read_tensor_file(path);
  REQUIRE(tensor.has_value());
  CHECK(tensor->shape == Shape{2});
  CHECK(graph::constant_element(tensor->constant, tensor->dtype, 1) == 2);
  put(std::string("\x08\x03\x10\x01\x4a\x08\0\0\x80\x3f\0\0\0\x40", 14));  // three elements in the bytes of two
  CHECK(!read_tensor_file(path).has_value());
  put(std::string("\x08\x01\x10\x04\x4a\x02\x80\x3f", 8));  // one uint16
  tensor = read_tensor_file(path);
  REQUIRE(tensor.has_value());
  CHECK(tensor->dtype == graph::DType::kU16);
  CHECK(graph::constant_element(tensor->constant, tensor->dtype, 0) == 0x3f80);
  auto half = read_tensor_file(path, true);
  REQUIRE(half.has_value());
  CHECK(graph::constant_element(half->constant, half->dtype, 0) == 1);
  CHECK(!read_tensor_file((*folder)->path() + "/none.pb").has_value());
}

TEST_CASE("refusals name their reason") {
  CHECK(reason_of({"StringNormalizer", {2}, {}, {}}) == graph::Refusal::kOperator);
  CHECK(reason_of({"Cast", {2}, {}, {{"to", int64_t{8}}}}) == graph::Refusal::kElementType);
  CHECK(reason_of({"BatchNormalization",
                   {1, 1, 1},
                   {{{1}, Floats{1}}, {{1}, Floats{1}}, {{1}, Floats{1}}, {{1}, Floats{1}}},
                   {},
                   6}) == graph::Refusal::kTraining);
  // A mistake of the model does not count as a refusal.
  CHECK(!reason_of({"Transpose", {2, 2}, {}, {{"perm", Ints{0, 0}}}}));
}

TEST_CASE("a transformer block as exporters write it fuses") {
  ModelWriter w("block", 13);
  auto scalar = [&](const std::string& name, float v) { return w.initializer(name, {{}, Floats{v}}); };
  auto weights = [&](const std::string& name, const Shape& shape) {
    Floats values(static_cast<size_t>(graph::element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * std::sin(static_cast<float>(i + 1));
    return w.initializer(name, {shape, values});
  };
  w.input("x", {1, 4, 8});
  w.node("MatMul", {"x", weights("w1", {8, 16})}, {"a"});
  w.node("Add", {"a", weights("b1", {16})}, {"h"});
  w.node("Div", {"h", scalar("root2", 1.41421354f)}, {"d"});
  w.node("Erf", {"d"}, {"e"});
  w.node("Add", {"e", scalar("one", 1)}, {"e1"});
  w.node("Mul", {"h", "e1"}, {"m"});
  w.node("Mul", {"m", scalar("half", 0.5f)}, {"g"});
  w.node("MatMul", {"g", weights("w2", {16, 8})}, {"o"});
  w.node("Add", {"o", "x"}, {"r"});
  w.node("ReduceMean", {"r"}, {"mean"}, {{"axes", Ints{-1}}});
  w.node("Sub", {"r", "mean"}, {"c"});
  w.node("Pow", {"c", scalar("two", 2)}, {"sq"});
  w.node("ReduceMean", {"sq"}, {"var"}, {{"axes", Ints{-1}}});
  w.node("Add", {"var", scalar("eps", 1e-12f)}, {"ve"});
  w.node("Sqrt", {"ve"}, {"sd"});
  w.node("Div", {"c", "sd"}, {"n"});
  w.node("Mul", {"n", weights("gamma", {8})}, {"ng"});
  w.node("Add", {"ng", weights("beta", {8})}, {"y"});
  w.output("y");
  auto g = import_text(w.finish());
  REQUIRE(g.has_value());
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(*g, evaluator.get()).has_value());
  std::vector<std::string> groups;
  for (const auto& group : graph::fuse(*g)) groups.push_back(graph::group_text(*g, group));
  CHECK(groups == std::vector<std::string>{"Gemm+Gelu", "Gemm+Add", "LayerNorm"});
}

TEST_CASE("remainders of floats, rows of zeros and the second order of SpaceToDepth") {
  auto remainder = [](const Doubles& x) {
    ModelWriter w("mod", 28);
    w.input("x", {4});
    w.initializer("y", {{4}, Floats{3, -3, 3, -3}});
    w.node("Mod", {"x", "y"}, {"r"});
    w.output("r");
    return run_model(w.finish(), {}, {x})[0].data;
  };
  CHECK(remainder({5.5, 5.5, -5.5, -5.5}) == Doubles{2.5, -0.5, 0.5, -2.5});
  CHECK(remainder({3, 3, -6, 0}) == Doubles{0, 0, 0, 0});
  ModelWriter w("norm", 22);
  w.input("x", {2, 2});
  w.node("LpNormalization", {"x"}, {"y"});
  w.output("y");
  CHECK(run_model(w.finish(), {}, {{0, 0, 3, 4}})[0].data == Doubles{0, 0, 0.6, 0.8});
  CHECK(result_of({"SpaceToDepth", {1, 2, 2, 2}, {}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}, 28}) ==
        Doubles{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(result_of({"SpaceToDepth", {1, 2, 2, 2}, {}, {{"blocksize", int64_t{2}}}, 28}) ==
        Doubles{0, 4, 1, 5, 2, 6, 3, 7});
}
