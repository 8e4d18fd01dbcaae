// Windows, Fourier transforms, determinants, grids, and the fused operators of com.microsoft.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <numbers>

#include "onnx/models.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::DType;
using graph::Shape;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

namespace {

Doubles random_numbers(int64_t count, uint64_t seed) {
  Doubles v(static_cast<size_t>(count));
  Rng random(seed);
  for (double& x : v) x = static_cast<float>(2 * random.uniform() - 1);
  return v;
}

struct Node {
  std::string op;
  Shape shape;  // of "x"; empty: no input
  std::vector<TensorData> constants = {};
  std::vector<NamedAttribute> attributes = {};
  int64_t opset = 20;
  std::string domain = "";
};
std::vector<graph::HostTensor> run(const Node& n, const std::vector<Doubles>& data = {}) {
  ModelWriter w("one", n.opset);
  Strings inputs;
  if (!n.shape.empty()) {
    w.input("x", n.shape);
    inputs.push_back("x");
  }
  for (const TensorData& t : n.constants) {
    const bool absent = t.shape == Shape{0};
    inputs.push_back(absent ? "" : w.initializer("c" + std::to_string(inputs.size()), t));
  }
  w.node(n.op, inputs, {"y"}, n.attributes, n.domain);
  w.output("y");
  return run_model(w.finish(), {}, data);
}
TensorData number(int64_t v) {
  return {{}, Ints{v}};
}

void check_near(const Doubles& actual, const Doubles& expected, double tolerance = 1e-6) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == Approx(expected[i]).margin(tolerance));
}

using Complex = std::complex<double>;
std::vector<Complex> fourier(const std::vector<Complex>& x, int64_t length, bool inverse) {
  std::vector<Complex> y;
  for (int64_t k = 0; k < length; ++k) {
    Complex sum = 0;
    for (int64_t t = 0; t < std::min<int64_t>(length, std::ssize(x)); ++t)
      sum += x[static_cast<size_t>(t)] * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi *
                                                             static_cast<double>(t * k) / static_cast<double>(length));
    y.push_back(inverse ? sum / static_cast<double>(length) : sum);
  }
  return y;
}

}  // namespace

TEST_CASE("windows, periodic and symmetric") {
  const int64_t n = 8;
  for (bool periodic : {true, false}) {
    const double period = static_cast<double>(periodic ? n : n - 1);
    for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
      Doubles expected;
      for (int64_t i = 0; i < n; ++i) {
        const double c = std::cos(2 * std::numbers::pi * static_cast<double>(i) / period);
        if (op[1] == 'a' && op[2] == 'n') expected.push_back(0.5 - 0.5 * c);
        if (op[2] == 'm') expected.push_back(25.0 / 46 - 21.0 / 46 * c);
        if (op[0] == 'B') expected.push_back(0.42 - 0.5 * c + 0.08 * (2 * c * c - 1));
      }
      ModelWriter w("window", 17);
      w.initializer("n", number(n));
      w.node(op, {"n"}, {"w"}, {{"periodic", int64_t{periodic}}});
      w.input("x", {n});
      w.node("Add", {"x", "w"}, {"y"});
      w.output("y");
      check_near(run_model(w.finish(), {}, {Doubles(8, 0.0)})[0].data, expected);
    }
  }
}

TEST_CASE("DFT of real and complex signals, of other lengths than theirs, and back") {
  const Doubles real = random_numbers(2 * 6, 1), both = random_numbers(2 * 6 * 2, 2);
  for (int64_t length : {6, 4, 9}) {
    auto y = run({"DFT", {2, 6, 1}, {number(length)}}, {real})[0];
    auto z = run({"DFT", {2, 6, 2}, {number(length)}, {{"inverse", int64_t{1}}}}, {both})[0];
    auto half = run({"DFT", {2, 6, 1}, {number(length)}, {{"onesided", int64_t{1}}}}, {real})[0];
    CHECK(half.shape == Shape{2, length / 2 + 1, 2});
    for (size_t b = 0; b < 2; ++b) {
      std::vector<Complex> x, c;
      for (size_t t = 0; t < 6; ++t) {
        x.emplace_back(real[b * 6 + t], 0);
        c.emplace_back(both[(b * 6 + t) * 2], both[(b * 6 + t) * 2 + 1]);
      }
      const auto forward = fourier(x, length, false), inverse = fourier(c, length, true);
      for (size_t k = 0; k < static_cast<size_t>(length); ++k) {
        const size_t at = (b * static_cast<size_t>(length) + k) * 2;
        CHECK(y.data[at] == Approx(forward[k].real()).margin(1e-6));
        CHECK(y.data[at + 1] == Approx(forward[k].imag()).margin(1e-6));
        CHECK(z.data[at] == Approx(inverse[k].real()).margin(1e-6));
        CHECK(z.data[at + 1] == Approx(inverse[k].imag()).margin(1e-6));
      }
    }
  }
  // Along another axis, and half of a spectrum back to a real signal.
  auto along = run({"DFT", {6, 2, 1}, {{{0}, Ints{}}, number(0)}}, {real})[0];
  CHECK(along.shape == Shape{6, 2, 2});
  const Doubles signal = random_numbers(8, 3);
  auto spectrum = run({"DFT", {1, 8, 1}, {}, {{"onesided", int64_t{1}}}}, {signal})[0];
  auto again = run({"DFT", {1, 5, 2}, {}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}}, {spectrum.data})[0];
  CHECK(again.shape == Shape{1, 8, 1});
  check_near(again.data, signal);
}

TEST_CASE("STFT is the DFT of windowed frames") {
  const Doubles x = random_numbers(20, 4), window = random_numbers(8, 5);
  auto y = run({"STFT", {1, 20, 1}, {number(3), {{8}, Floats(window.begin(), window.end())}}}, {x})[0];
  REQUIRE(y.shape == Shape{1, 5, 5, 2});
  for (size_t f = 0; f < 5; ++f) {
    std::vector<Complex> frame;
    for (size_t t = 0; t < 8; ++t) frame.emplace_back(x[f * 3 + t] * window[t], 0);
    const auto expected = fourier(frame, 8, false);
    for (size_t k = 0; k < 5; ++k) {
      CHECK(y.data[(f * 5 + k) * 2] == Approx(expected[k].real()).margin(1e-6));
      CHECK(y.data[(f * 5 + k) * 2 + 1] == Approx(expected[k].imag()).margin(1e-6));
    }
  }
}

TEST_CASE("Det eliminates with the largest pivots") {
  auto det = [](int64_t n, const Doubles& m) { return run({"Det", {n, n}}, {m})[0].data[0]; };
  CHECK(det(1, {3}) == 3);
  CHECK(det(2, {1, 2, 3, 4}) == Approx(-2));
  CHECK(det(3, {0, 1, 2, 1, 0, 3, 4, -3, 8}) == Approx(-2));
  CHECK(det(3, {1, 2, 3, 2, 4, 6, 1, 0, 5}) == Approx(0).margin(1e-12));
  CHECK(det(3, {0, 1, 2, 0, 5, 3, 0, -3, 8}) == 0);
  CHECK(run({"Det", {2, 2, 2}}, {{1, 2, 3, 4, 2, 0, 0, 2}})[0].data == Doubles{-2, 4});
}

TEST_CASE("Col2Im adds blocks up where they overlap") {
  // Blocks of 2 with stride 1 over 4 positions: the inner ones are in two blocks.
  auto y = run({"Col2Im", {1, 2, 3}, {{{1}, Ints{4}}, {{1}, Ints{2}}}}, {{1, 2, 3, 10, 20, 30}})[0];
  CHECK(y.data == Doubles{1, 12, 23, 30});
  auto padded =
      run({"Col2Im", {1, 2, 3}, {{{1}, Ints{2}}, {{1}, Ints{2}}}, {{"pads", Ints{1, 1}}}}, {{1, 2, 3, 10, 20, 30}})[0];
  CHECK(padded.data == Doubles{12, 23});
  auto image = run({"Col2Im", {1, 8, 1}, {{{2}, Ints{2, 2}}, {{2}, Ints{2, 2}}}})[0];
  CHECK(image.shape == Shape{1, 2, 2, 2});
  CHECK(image.data == Doubles{0, 1, 2, 3, 4, 5, 6, 7});
}

// By its definition: position block * stride + offset * dilation - pad of each axis, all channels and blocks in turn.
Doubles fold(const Doubles& x, int64_t channels, const Ints& image, const Ints& block, const Ints& strides,
             const Ints& dilations, const Ints& pads) {
  const size_t axes = image.size();
  Ints counts;
  for (size_t i = 0; i < axes; ++i)
    counts.push_back((image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1);
  const int64_t area = graph::element_count(image), kernel = graph::element_count(block);
  const int64_t blocks = graph::element_count(counts);
  Doubles y(static_cast<size_t>(channels * area), 0.0);
  for (int64_t n = 0; n < std::ssize(x); ++n) {
    int64_t b = n % blocks, k = n / blocks % kernel, at = 0, step = 1;
    bool inside = true;
    for (size_t i = axes; i-- > 0; step *= image[i]) {
      const int64_t to = b % counts[i] * strides[i] + k % block[i] * dilations[i] - pads[i];
      b /= counts[i];
      k /= block[i];
      inside = inside && to >= 0 && to < image[i];
      at += to * step;
    }
    if (inside) y[static_cast<size_t>(n / blocks / kernel * area + at)] += x[static_cast<size_t>(n)];
  }
  return y;
}

TEST_CASE("Col2Im with strides, dilations and pads, of one to three axes; infinite numbers stay in their places") {
  Rng rng(11);
  auto between = [&](int64_t low, int64_t high) { return low + rng.below(high - low + 1); };
  for (int trial = 0; trial < 120; ++trial) {
    const auto axes = static_cast<size_t>(between(1, 3));
    Ints image, block, strides, dilations, pads;
    int64_t blocks = 1;
    for (size_t i = 0; i < axes; ++i) {
      block.push_back(between(1, 4));
      strides.push_back(between(1, 5));
      dilations.push_back(between(1, 3));
      image.push_back(dilations[i] * (block[i] - 1) + between(1, 6));
    }
    for (size_t i = 0; i < 2 * axes; ++i) pads.push_back(between(0, 2));
    for (size_t i = 0; i < axes; ++i)
      blocks *= (image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1;
    const int64_t channels = between(1, 3), kernel = graph::element_count(block);
    Doubles x(static_cast<size_t>(channels * kernel * blocks));
    for (double& v : x) v = static_cast<double>(between(-9, 9));
    x[static_cast<size_t>(between(0, std::ssize(x) - 1))] = INFINITY;
    const auto extent = static_cast<int64_t>(axes);
    const auto y = run({"Col2Im",
                        {1, channels * kernel, blocks},
                        {{{extent}, image}, {{extent}, block}},
                        {{"strides", strides}, {"dilations", dilations}, {"pads", pads}}},
                       {x})[0];
    INFO("image " << graph::shape_text(image) << ", block " << graph::shape_text(block) << ", strides "
                  << graph::shape_text(strides) << ", dilations " << graph::shape_text(dilations) << ", pads "
                  << graph::shape_text(pads));
    CHECK(y.data == fold(x, channels, image, block, strides, dilations, pads));
  }
}

TEST_CASE("CenterCropPad, AffineGrid, ReverseSequence") {
  CHECK(run({"CenterCropPad", {5}, {{{1}, Ints{2}}}})[0].data == Doubles{1, 2});
  CHECK(run({"CenterCropPad", {2}, {{{1}, Ints{5}}}}, {{7, 8}})[0].data == Doubles{0, 7, 8, 0, 0});
  // The identity gives the coordinates themselves.
  auto grid = run({"AffineGrid", {1, 2, 3}, {{{4}, Ints{1, 1, 2, 2}}}}, {{1, 0, 0, 0, 1, 0}})[0];
  CHECK(grid.shape == Shape{1, 2, 2, 2});
  CHECK(grid.data == Doubles{-0.5, -0.5, 0.5, -0.5, -0.5, 0.5, 0.5, 0.5});
  auto corners = run({"AffineGrid", {1, 2, 3}, {{{4}, Ints{1, 1, 2, 2}}}, {{"align_corners", int64_t{1}}}},
                     {{2, 0, 1, 0, 1, 0}})[0];
  CHECK(corners.data == Doubles{-1, -1, 3, -1, -1, 1, 3, 1});
  auto reversed = run({"ReverseSequence", {3, 2}, {{{2}, Ints{2, 3}}}}, {{1, 10, 2, 20, 3, 30}})[0];
  CHECK(reversed.data == Doubles{2, 30, 1, 20, 3, 10});
}

TEST_CASE("pools of powers, gates, and states that are carried from run to run") {
  const Doubles x{1, -2, 3, -4};
  auto pool = [&](int64_t p) {
    return run({"LpPool", {1, 1, 4}, {}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"p", p}}, 18}, {x})[0].data;
  };
  CHECK(pool(1) == Doubles{3, 7});
  check_near(pool(2), {std::sqrt(5), 5});
  check_near(pool(3), {std::cbrt(9), std::cbrt(91)});
  check_near(run({"GlobalLpPool", {1, 1, 4}}, {x})[0].data, {std::sqrt(30)});
  check_near(run({"SwiGLU", {4}, {{{4}, Floats{2, 2, 2, 2}}}, {}, 28}, {x})[0].data,
             {2 / (1 + std::exp(-1)), -4 / (1 + std::exp(2)), 6 / (1 + std::exp(-3)), -8 / (1 + std::exp(4))});

  ModelWriter w("state", 27);
  w.input("x", {1, 1, 3});
  w.input("state", {1, 1, 1});
  w.initializer("w", {{1, 1, 2}, Floats{10, 1}});
  w.node("CausalConvWithState", {"x", "w", "", "state"}, {"y", "next"});
  w.output("y");
  w.output("next");
  auto y = run_model(w.finish(), {}, {{1, 2, 3}, {5}});
  CHECK(y[0].data == Doubles{51, 12, 23});
  CHECK(y[1].data == Doubles{3});

  auto scattered = [](const std::string& mode, Ints at) {
    ModelWriter t("scatter", 24);
    t.input("past", {2, 3, 1});
    t.initializer("update", {{2, 2, 1}, Floats{10, 20, 30, 40}});
    t.initializer("at", {{2}, at});
    t.node("TensorScatter", {"past", "update", "at"}, {"y"}, {{"mode", mode}});
    t.output("y");
    return run_model(t.finish())[0].data;
  };
  CHECK(scattered("linear", {0, 1}) == Doubles{10, 20, 2, 3, 30, 40});
  CHECK(scattered("circular", {2, 0}) == Doubles{20, 1, 10, 30, 40, 5});
}

TEST_CASE("norms and activations of com.microsoft are those of their parts") {
  const std::string ms = "com.microsoft";
  const Doubles x = random_numbers(6, 6);
  auto gelu = [](double v) { return 0.5 * v * (1 + std::erf(v / std::numbers::sqrt2)); };
  auto biased = run({"BiasGelu", {2, 3}, {{{3}, Floats{1, 2, 3}}}, {}, 17, ms}, {x})[0];
  auto quick = run({"QuickGelu", {2, 3}, {}, {{"alpha", 2.0f}}, 17, ms}, {x})[0];
  auto skip = run({"SkipSimplifiedLayerNormalization",
                   {2, 3},
                   {{{2, 3}, Floats(6, 1)}, {{3}, Floats{1, 2, 3}}},
                   {{"epsilon", 0.5f}},
                   17,
                   ms},
                  {x})[0];
  for (size_t i = 0; i < 6; ++i) {
    CHECK(biased.data[i] == Approx(gelu(x[i] + static_cast<double>(i % 3 + 1))));
    CHECK(quick.data[i] == Approx(x[i] / (1 + std::exp(-2 * x[i]))));
    double square = 0;
    for (size_t k = i / 3 * 3; k < i / 3 * 3 + 3; ++k) square += (x[k] + 1) * (x[k] + 1) / 3;
    CHECK(skip.data[i] == Approx((x[i] + 1) / std::sqrt(square + 0.5) * static_cast<double>(i % 3 + 1)));
  }
  auto grouped = [&](int64_t opset, const Floats& scale) {
    const auto n = static_cast<int64_t>(scale.size());
    return run({"GroupNormalization",
                {1, 4, 2},
                {{{n}, scale}, {{n}, Floats(scale.size(), 1)}},
                {{"num_groups", int64_t{2}}},
                opset},
               {{1, 2, 3, 4, 5, 5, 5, 9}})[0]
        .data;
  };
  const double first = 1 / std::sqrt(1.25 + 1e-5), second = 1 / std::sqrt(3 + 1e-5);
  check_near(grouped(18, {2, 3}), {1 - 3 * first, 1 - first, 1 + first, 1 + 3 * first, 1 - 3 * second, 1 - 3 * second,
                                   1 - 3 * second, 1 + 9 * second});
  CHECK(grouped(21, {2, 2, 3, 3}) == grouped(18, {2, 3}));
  auto product = run({"FusedMatMul",
                      {3, 2},
                      {{{2, 3}, Floats{1, 0, 0, 0, 1, 0}}},
                      {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5f}},
                      17,
                      ms});
  CHECK(product[0].data == Doubles{0, 1, 0.5, 1.5});
}
