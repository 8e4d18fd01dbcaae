// Quantized operators against their definition: (q - zero) * scale.
#include <catch2/catch.hpp>
#include <cmath>

#include "onnx/models.h"
#include "tcc/graph/refusal.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using Catch::Contains;
using graph::DType;
using graph::Shape;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

namespace {

constexpr auto kU8 = DType::kU8;
constexpr auto kI8 = DType::kI8;

Doubles random_bytes(int64_t count, DType dtype, uint64_t seed) {
  Doubles v(static_cast<size_t>(count));
  Rng random(seed);
  for (double& x : v) x = static_cast<double>(random.below(256) - (dtype == kI8 ? 128 : 0));
  return v;
}

// A parameter in the text of a test: one number or a list.
struct Parameter {
  DType dtype;
  Doubles values;
  Shape shape() const { return values.size() == 1 ? Shape{} : Shape{static_cast<int64_t>(values.size())}; }
};

// One node whose first input is run-time data; the others are constants, left out where they have no values.
struct Node {
  std::string op;
  DType input;
  Shape shape;
  std::vector<std::pair<Shape, Parameter>> constants;
  std::vector<NamedAttribute> attributes = {};
  std::string domain = "";
  int64_t opset = 21;
};
std::string model_of(const Node& n, size_t outputs = 1) {
  ModelWriter w("quantized", n.opset);
  w.typed_input("x", n.input, n.shape);
  Strings inputs{"x"}, results;
  for (const auto& [shape, p] : n.constants) {
    inputs.push_back(
        p.values.empty() ? "" : w.typed_initializer("c" + std::to_string(inputs.size()), p.dtype, shape, p.values));
  }
  for (size_t i = 0; i < outputs; ++i) results.push_back("y" + std::to_string(i));
  w.node(n.op, inputs, results, n.attributes, n.domain);
  for (const std::string& name : results) w.output(name);
  return w.finish();
}
std::pair<Shape, Parameter> one(DType dtype, double value) {
  return {{}, {dtype, {value}}};
}
std::pair<Shape, Parameter> list(DType dtype, Doubles values) {
  return {{static_cast<int64_t>(values.size())}, {dtype, values}};
}
std::string message_of(const Node& n) {
  auto g = import_text(model_of(n));
  REQUIRE(!g);
  return g.error().message;
}

double rounded(double x) {
  return std::nearbyint(x);  // to even
}
double clamped(double x, DType dtype) {
  return dtype == kU8 ? std::min(std::max(x, 0.0), 255.0) : std::min(std::max(x, -128.0), 127.0);
}

}  // namespace

TEST_CASE("QuantizeLinear rounds to even and saturates; DequantizeLinear goes back") {
  const Doubles x{-1000, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1.25, 1000};
  for (DType to : {kU8, kI8}) {
    const double zero = to == kU8 ? 3 : -2;
    auto y =
        run_model(model_of({"QuantizeLinear", DType::kF32, {10}, {one(DType::kF32, 0.5), one(to, zero)}}), {}, {x});
    for (size_t i = 0; i < x.size(); ++i) CHECK(y[0].data[i] == clamped(rounded(x[i] / 0.5) + zero, to));
    auto back = run_model(model_of({"DequantizeLinear", to, {10}, {one(DType::kF32, 0.5), one(to, zero)}}), {},
                          y[0].data.empty() ? std::vector<Doubles>{} : std::vector<Doubles>{y[0].data});
    for (size_t i = 0; i < x.size(); ++i) CHECK(back[0].data[i] == (y[0].data[i] - zero) * 0.5);
  }
  // Without a zero point the result is u8, or what output_dtype says.
  auto g = import_text(model_of({"QuantizeLinear", DType::kF32, {4}, {one(DType::kF32, 1)}}));
  REQUIRE(g);
  CHECK(g->value(g->outputs[0]).dtype == kU8);
  g = import_text(
      model_of({"QuantizeLinear", DType::kF32, {4}, {one(DType::kF32, 1)}, {{"output_dtype", int64_t{3}}}}));
  REQUIRE(g);
  CHECK(g->value(g->outputs[0]).dtype == kI8);
}

TEST_CASE("scales belong to an axis, or to blocks along it") {
  const Doubles q = random_bytes(12, kU8, 1);
  auto by_axis = run_model(model_of({"DequantizeLinear",
                                     kU8,
                                     {2, 3, 2},
                                     {list(DType::kF32, {1, 2, 4}), list(kU8, {0, 1, 2})},
                                     {{"axis", int64_t{-2}}}}),
                           {}, {q})[0];
  for (size_t i = 0; i < 12; ++i) {
    const size_t k = i / 2 % 3;
    CHECK(by_axis.data[i] == (q[i] - static_cast<double>(k)) * std::pow(2, k));
  }
  // Blocks of 2 along 5 elements: three scales a row, the last for one element.
  auto blocks = run_model(model_of({"DequantizeLinear",
                                    kI8,
                                    {2, 5},
                                    {{{2, 3}, {DType::kF32, {1, 2, 3, 4, 5, 6}}}},
                                    {{"axis", int64_t{1}}, {"block_size", int64_t{2}}}}),
                          {}, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}})[0];
  CHECK(blocks.data == Doubles{1, 1, 2, 2, 3, 4, 4, 5, 5, 6});
}

TEST_CASE("DynamicQuantizeLinear finds a range that holds zero") {
  for (const Doubles& x : {Doubles{0, 2, -3, -2.5, 1.34, 0.5}, Doubles{1, 2.1, 1.3, 2.5}, Doubles{-1, -2}}) {
    auto y =
        run_model(model_of({"DynamicQuantizeLinear", DType::kF32, {static_cast<int64_t>(x.size())}, {}}, 3), {}, {x});
    const double low = std::min(0.0, *std::min_element(x.begin(), x.end())),
                 high = std::max(0.0, *std::max_element(x.begin(), x.end())), scale = (high - low) / 255;
    CHECK(y[1].data[0] == Approx(scale));
    CHECK(y[2].data[0] == rounded(-low / scale));
    for (size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(y[0].data[i] - (rounded(x[i] / scale) + y[2].data[0])) <= 1);
  }
}

TEST_CASE("MatMulInteger and ConvInteger are exact sums, with any signs and zero points") {
  constexpr int64_t kTerms = 600;  // sums beyond the integers that f32 holds
  for (DType a : {kU8, kI8}) {
    for (DType b : {kU8, kI8}) {
      const Doubles x = random_bytes(2 * kTerms, a, 1), w = random_bytes(kTerms * 3, b, 2);
      const double az = a == kU8 ? 200 : -100;
      const Doubles bz = random_bytes(3, b, 3);
      auto y = run_model(model_of({"MatMulInteger", a, {2, kTerms}, {{{kTerms, 3}, {b, w}}, one(a, az), list(b, bz)}}),
                         {}, {x})[0];
      for (int64_t i = 0; i < 2; ++i) {
        for (int64_t j = 0; j < 3; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kTerms; ++k)
            sum += (x[static_cast<size_t>(i * kTerms + k)] - az) *
                   (w[static_cast<size_t>(k * 3 + j)] - bz[static_cast<size_t>(j)]);
          CHECK(y.data[static_cast<size_t>(i * 3 + j)] == sum);
        }
      }
    }
  }
  // Padding holds the zero point, which stands for 0.
  auto conv = run_model(model_of({"ConvInteger",
                                  kU8,
                                  {1, 1, 2, 2},
                                  {{{1, 1, 3, 3}, {kI8, {1, 1, 1, 1, 2, 1, 1, 1, 1}}}, one(kU8, 10)},
                                  {{"pads", Ints{1, 1, 1, 1}}}}),
                        {}, {{11, 12, 13, 14}})[0];
  CHECK(conv.data == Doubles{11, 12, 13, 14});
}

TEST_CASE("QLinearMatMul and QLinearConv rescale integer sums") {
  const Doubles x = random_bytes(2 * 8, kU8, 1), w = random_bytes(8 * 3, kI8, 2);
  auto f32 = [](double v) { return static_cast<double>(static_cast<float>(v)); };
  const Doubles scales{f32(0.01), f32(0.02), f32(0.03)};
  const double xs = f32(0.05), ys = f32(0.4);
  auto y = run_model(model_of({"QLinearMatMul",
                               kU8,
                               {2, 8},
                               {one(DType::kF32, xs),
                                one(kU8, 120),
                                {{8, 3}, {kI8, w}},
                                list(DType::kF32, scales),
                                list(kI8, {0, 0, 0}),
                                one(DType::kF32, ys),
                                one(kU8, 100)}}),
                     {}, {x})[0];
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 8; ++k) sum += (x[i * 8 + k] - 120) * w[k * 3 + j];
      CHECK(y.data[i * 3 + j] == clamped(rounded(sum * xs * scales[j] / ys) + 100, kU8));
    }
  }
  // A 1x1 convolution with a bias for each channel is such a product.
  auto conv = run_model(model_of({"QLinearConv",
                                  kU8,
                                  {1, 2, 1, 2},
                                  {one(DType::kF32, xs),
                                   one(kU8, 100),
                                   {{3, 2, 1, 1}, {kI8, {1, 2, 3, 4, 5, 6}}},
                                   list(DType::kF32, scales),
                                   list(kI8, {0, 0, 0}),
                                   one(DType::kF32, ys),
                                   one(kU8, 7),
                                   list(DType::kI32, {10, -20, 3000})}}),
                        {}, {{101, 110, 90, 200}})[0];
  for (size_t m = 0; m < 3; ++m) {
    for (size_t p = 0; p < 2; ++p) {
      const Doubles px{p == 0 ? 1.0 : 10.0, p == 0 ? -10.0 : 100.0}, bias{10, -20, 3000};
      const double sum = static_cast<double>(2 * m + 1) * px[0] + static_cast<double>(2 * m + 2) * px[1] + bias[m];
      CHECK(conv.data[m * 2 + p] == clamped(rounded(sum * xs * scales[m] / ys) + 7, kU8));
    }
  }
}

TEST_CASE("quantized operators of com.microsoft") {
  const Doubles a{10, 20, 30, 255}, b{0, 128, 200, 255};
  // Behind a: its scale and zero point, b and its, those of the result.
  std::vector<std::pair<Shape, Parameter>> operands{
      one(DType::kF32, 0.5), one(kU8, 20),        {{4}, {kU8, b}}, one(DType::kF32, 0.25),
      one(kU8, 128),         one(DType::kF32, 2), one(kU8, 50)};
  for (const char* op : {"QLinearAdd", "QLinearMul"}) {
    auto y = run_model(model_of({op, kU8, {4}, operands, {}, "com.microsoft"}), {}, {a})[0];
    for (size_t i = 0; i < 4; ++i) {
      const double p = (a[i] - 20) * 0.5, q = (b[i] - 128) * 0.25;
      CHECK(y.data[i] == clamped(rounded((op == std::string("QLinearAdd") ? p + q : p * q) / 2) + 50, kU8));
    }
  }
  const Doubles left = random_bytes(2 * 8, kU8, 7), right = random_bytes(8 * 3, kI8, 8);
  for (bool transposed : {false, true})
    for (bool floats : {false, true}) {
      Doubles stored = right;
      for (size_t k = 0; k < 8; ++k)
        for (size_t j = 0; transposed && j < 3; ++j) stored[j * 8 + k] = right[k * 3 + j];
      std::vector<std::pair<Shape, Parameter>> constants{one(DType::kF32, 0.5),
                                                         one(kU8, 120),
                                                         {transposed ? Shape{3, 8} : Shape{8, 3}, {kI8, stored}},
                                                         list(DType::kF32, {0.25, 0.5, 2}),
                                                         list(kI8, {1, 0, -3}),
                                                         list(DType::kI32, {10, -20, 3000})};
      if (!floats) constants.push_back(one(DType::kF32, 64)), constants.push_back(one(kU8, 100));
      auto y = run_model(
          model_of(
              {"QGemm", kU8, {2, 8}, constants, {{"transB", int64_t{transposed}}, {"alpha", 0.5F}}, "com.microsoft"}),
          {}, {left})[0];
      const Doubles scales{0.25, 0.5, 2}, zeros{1, 0, -3}, bias{10, -20, 3000};
      for (size_t i = 0; i < 2; ++i)
        for (size_t j = 0; j < 3; ++j) {
          double sum = bias[j];
          for (size_t k = 0; k < 8; ++k) sum += (left[i * 8 + k] - 120) * (right[k * 3 + j] - zeros[j]);
          sum *= 0.25 * scales[j];
          CHECK(y.data[i * 3 + j] == (floats ? sum : clamped(rounded(sum / 64) + 100, kU8)));
        }
    }
  auto pooled = run_model(model_of({"QLinearGlobalAveragePool",
                                    kU8,
                                    {1, 2, 2, 2},
                                    {one(DType::kF32, 0.5), one(kU8, 10), one(DType::kF32, 1), one(kU8, 3)},
                                    {},
                                    "com.microsoft"}),
                          {}, {{10, 12, 14, 16, 110, 110, 114, 118}})[0];
  CHECK(pooled.data == Doubles{5, 55});  // rounded(1.5) + 3, rounded(51.5) + 3
  for (bool last : {false, true}) {
    // Two channels of 2x3, windows of 2x2, a column of padding after each, counted or not.
    const Doubles planes{10, 12, 14, 16, 18, 20, 110, 110, 114, 118, 122, 126};
    Doubles pixels = planes;
    for (size_t i = 0; last && i < 12; ++i) pixels[i % 6 * 2 + i / 6] = planes[i];
    for (bool padding : {false, true}) {
      auto average = run_model(model_of({"QLinearAveragePool",
                                         kU8,
                                         last ? Shape{1, 2, 3, 2} : Shape{1, 2, 2, 3},
                                         {one(DType::kF32, 0.5), one(kU8, 10), one(DType::kF32, 1), one(kU8, 3)},
                                         {{"kernel_shape", Ints{2, 2}},
                                          {"strides", Ints{1, 2}},
                                          {"pads", Ints{0, 0, 0, 1}},
                                          {"count_include_pad", int64_t{padding}},
                                          {"channels_last", int64_t{last}}},
                                         "com.microsoft"}),
                               {}, {pixels})[0];
      // Averages 2, 3.5, 52 and 55 (1.75 and 27.5, 28 when rounded, with padding).
      CHECK(average.shape == (last ? Shape{1, 1, 2, 2} : Shape{1, 2, 1, 2}));
      const Doubles by_plane = padding ? Doubles{5, 5, 55, 31} : Doubles{5, 7, 55, 58};
      for (size_t channel = 0; channel < 2; ++channel)
        for (size_t x = 0; x < 2; ++x)
          CHECK(average.data[last ? x * 2 + channel : channel * 2 + x] == by_plane[channel * 2 + x]);
    }
    if (!last) continue;
    auto greatest =
        run_model(model_of({"NhwcMaxPool", kU8, {1, 2, 3, 2}, {}, {{"kernel_shape", Ints{2, 2}}}, "com.microsoft"}), {},
                  {pixels})[0];
    CHECK(greatest.shape == Shape{1, 1, 2, 2});
    CHECK(greatest.data == Doubles{18, 122, 20, 126});
    // Padded and in steps: the columns {0}, {1, 2} of each plane, the rows {0, 1}.
    auto padded =
        run_model(model_of({"NhwcMaxPool",
                            kU8,
                            {1, 2, 3, 2},
                            {},
                            {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 1, 0, 0}}},
                            "com.microsoft"}),
                  {}, {pixels})[0];
    CHECK(padded.shape == Shape{1, 1, 2, 2});
    CHECK(padded.data == Doubles{16, 118, 20, 126});
  }
  operands.insert(operands.begin(), {{4}, {kU8, a}});
  auto chosen =
      run_model(model_of({"QLinearWhere", DType::kBool, {4}, operands, {}, "com.microsoft"}), {}, {{1, 0, 0, 1}})[0];
  // (-10 * 0.5, 0, 72 * 0.25, 235 * 0.5) / 2 + 50
  CHECK(chosen.data == Doubles{48, 50, 59, 109});
  auto weights =
      run_model(model_of({"MatMulNBits",
                          DType::kF32,
                          {1, 32},
                          {{{2, 2, 8}, {kU8, random_bytes(32, kU8, 5)}}, list(DType::kF32, {1, 2, 3, 4})},
                          {{"K", int64_t{32}}, {"N", int64_t{2}}, {"bits", int64_t{4}}, {"block_size", int64_t{16}}},
                          "com.microsoft"}))[0];
  const Doubles packed = random_bytes(32, kU8, 5);
  for (size_t n = 0; n < 2; ++n) {
    double sum = 0;
    for (size_t k = 0; k < 32; ++k) {
      const auto byte = static_cast<int>(packed[n * 16 + k / 2]);
      const int q = k % 2 == 0 ? byte & 15 : byte >> 4;
      sum += static_cast<double>(k) * (q - 8) * static_cast<double>(n * 2 + k / 16 + 1);
    }
    CHECK(weights.data[n] == sum);
  }
}

TEST_CASE("parameters that describe no quantization are named", "[errors]") {
  auto quantize = [](std::pair<Shape, Parameter> scale, std::pair<Shape, Parameter> zero,
                     std::vector<NamedAttribute> attributes = {}) {
    return message_of(
        {"QuantizeLinear", DType::kF32, {2, 3}, {std::move(scale), std::move(zero)}, std::move(attributes)});
  };
  CHECK_THAT(quantize(one(DType::kF32, 0), one(kU8, 0)), Contains("the scale (input 1) is 0 at position 0"));
  CHECK_THAT(quantize(list(DType::kF32, {1, -2, 3}), list(kU8, {0, 0, 0})), Contains("is -2 at position 1"));
  CHECK_THAT(quantize(one(DType::kF32, NAN), one(kU8, 0)), Contains("expected a positive number"));
  CHECK_THAT(quantize(list(DType::kF32, {1, 2}), list(kU8, {0, 0})), Contains("do not fit axis 1"));
  CHECK_THAT(quantize(list(DType::kF32, {1, 2, 3}), list(kU8, {0, 0})), Contains("the zero point (input 2) has shape"));
  CHECK_THAT(quantize(one(DType::kF32, 1), one(kU8, 0), {{"output_dtype", int64_t{3}}}),
             Contains("output_dtype is i8"));
  CHECK_THAT(quantize(one(DType::kF32, 1), one(DType::kI64, 0)), Contains("i64"));
  CHECK_THAT(message_of({"MatMulNBits",
                         DType::kF32,
                         {1, 32},
                         {{{4}, {kU8, {1, 2, 3, 4}}}, list(DType::kF32, {1})},
                         {{"K", int64_t{32}}, {"N", int64_t{1}}, {"block_size", int64_t{32}}},
                         "com.microsoft"}),
             Contains("expected 16 bytes"));
}
