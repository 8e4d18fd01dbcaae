// Operators of the newest opsets that become many nodes, beside loops written down from the standard's text.
#include <cmath>

#include "onnx/models.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Shape;

namespace {

std::vector<double> numbers(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Rng rng(seed);
  std::vector<double> v(static_cast<size_t>(graph::element_count(shape)));
  for (double& x : v) x = static_cast<double>(static_cast<float>(low + (high - low) * rng.uniform()));
  return v;
}

// Element of a row-major tensor.
double& at(std::vector<double>& v, const Shape& shape, const Shape& index) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return v[static_cast<size_t>(flat)];
}

void check_near(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    CHECK(got[i] == Approx(expected[i]).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("LinearAttention token by token, by each rule, with shared heads and a past") {
  constexpr int64_t kBatch = 2, kTokens = 3, kQueries = 4, kHeads = 2, kKeys = 3, kValues = 2;
  const Shape q{kBatch, kTokens, kQueries * kKeys}, k{kBatch, kTokens, kHeads * kKeys},
      v{kBatch, kTokens, kHeads * kValues}, state{kBatch, kHeads, kKeys, kValues};
  for (const std::string rule : {"linear", "gated", "delta", "gated_delta"}) {
    for (const bool each_key : {false, true}) {
      INFO(rule << " " << each_key);
      const bool decays = rule.starts_with("gated"), corrects = rule.ends_with("delta");
      const Shape decay{kBatch, kTokens, each_key ? kHeads * kKeys : kHeads},
          beta{kBatch, kTokens, each_key ? 1 : kHeads};
      ModelWriter w("linear", 27);
      const std::vector<std::pair<const char*, Shape>> inputs{{"q", q},        {"k", k},         {"v", v},
                                                              {"past", state}, {"decay", decay}, {"beta", beta}};
      std::vector<std::vector<double>> data;
      for (const auto& [name, shape] : inputs) {
        w.input(name, shape);
        data.push_back(numbers(shape, data.size() + 1));
      }
      w.node("LinearAttention", {"q", "k", "v", "past", decays ? "decay" : "", corrects ? "beta" : ""},
             {"y", "present"},
             {{"q_num_heads", kQueries}, {"kv_num_heads", kHeads}, {"update_rule", rule}, {"scale", 0.7f}});
      w.output("y");
      w.output("present");
      const auto got = run_model(w.finish(), {}, data);

      std::vector<double> s = data[3], y(static_cast<size_t>(kBatch * kTokens * kQueries * kValues));
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t h = 0; h < kHeads; ++h) {
            for (int64_t i = 0; decays && i < kKeys; ++i)
              for (int64_t j = 0; j < kValues; ++j)
                at(s, state, {b, h, i, j}) *= std::exp(at(data[4], decay, {b, t, each_key ? h * kKeys + i : h}));
            std::vector<double> value;
            for (int64_t j = 0; j < kValues; ++j) {
              double known = 0;
              for (int64_t i = 0; i < kKeys; ++i)
                known += at(s, state, {b, h, i, j}) * at(data[1], k, {b, t, h * kKeys + i});
              const double given = at(data[2], v, {b, t, h * kValues + j});
              value.push_back(corrects ? at(data[5], beta, {b, t, each_key ? 0 : h}) * (given - known) : given);
            }
            for (int64_t i = 0; i < kKeys; ++i)
              for (int64_t j = 0; j < kValues; ++j)
                at(s, state, {b, h, i, j}) += at(data[1], k, {b, t, h * kKeys + i}) * value[static_cast<size_t>(j)];
            for (int64_t g = h * 2; g < h * 2 + 2; ++g)
              for (int64_t j = 0; j < kValues; ++j)
                for (int64_t i = 0; i < kKeys; ++i)
                  at(y, {kBatch, kTokens, kQueries * kValues}, {b, t, g * kValues + j}) +=
                      static_cast<double>(0.7f) * at(data[0], q, {b, t, g * kKeys + i}) * at(s, state, {b, h, i, j});
          }
      check_near(got[0].data, y);
      check_near(got[1].data, s);
    }
  }
}

TEST_CASE("DeformConv reads the image between its elements") {
  constexpr int64_t kChannels = 4, kFilters = 6, kGroup = 2, kOffsets = 2;
  const Shape x{2, kChannels, 5, 6}, w{kFilters, kChannels / kGroup, 3, 2}, out{3, 3};
  const Shape offset{2, kOffsets * 6 * 2, 3, 3}, mask{2, kOffsets * 6, 3, 3};
  for (const bool masked : {false, true}) {
    INFO(masked);
    ModelWriter writer("deform", 22);
    std::vector<std::vector<double>> data;
    const std::vector<std::pair<const char*, Shape>> inputs{
        {"x", x}, {"w", w}, {"offset", offset}, {"b", {kFilters}}, {"mask", mask}};
    for (const auto& [name, shape] : inputs) {
      writer.input(name, shape);
      data.push_back(numbers(shape, 11 + data.size(), -2, 2));
    }
    // Strides 2 and 2; 1 of padding above and below, none before and 1 after each row; a dilation of 2 along rows.
    writer.node("DeformConv", {"x", "w", "offset", "b", masked ? "mask" : ""}, {"y"},
                {{"group", kGroup},
                 {"offset_group", kOffsets},
                 {"strides", std::vector<int64_t>{2, 2}},
                 {"pads", std::vector<int64_t>{1, 0, 1, 1}},
                 {"dilations", std::vector<int64_t>{1, 2}}});
    writer.output("y");
    const auto got = run_model(writer.finish(), {}, data);

    auto pixel = [&](int64_t n, int64_t c, double row, double column) {
      double sum = 0;
      for (int64_t dr = 0; dr < 2; ++dr)
        for (int64_t dc = 0; dc < 2; ++dc) {
          const double r0 = std::floor(row), c0 = std::floor(column);
          const auto r = static_cast<int64_t>(r0) + dr, k = static_cast<int64_t>(c0) + dc;
          if (r < 0 || r >= x[2] || k < 0 || k >= x[3]) continue;
          sum += (dr == 0 ? 1 - (row - r0) : row - r0) * (dc == 0 ? 1 - (column - c0) : column - c0) *
                 at(data[0], x, {n, c, r, k});
        }
      return sum;
    };
    std::vector<double> y;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t m = 0; m < kFilters; ++m)
        for (int64_t oh = 0; oh < out[0]; ++oh)
          for (int64_t ow = 0; ow < out[1]; ++ow) {
            double sum = data[3][static_cast<size_t>(m)];
            for (int64_t c = 0; c < kChannels / kGroup; ++c)
              for (int64_t kh = 0; kh < 3; ++kh)
                for (int64_t kw = 0; kw < 2; ++kw) {
                  const int64_t channel = m / (kFilters / kGroup) * (kChannels / kGroup) + c,
                                group = channel / (kChannels / kOffsets), tap = group * 6 + kh * 2 + kw;
                  const double row = static_cast<double>(oh * 2 - 1 + kh) + at(data[2], offset, {n, 2 * tap, oh, ow}),
                               column =
                                   static_cast<double>(ow * 2 + 2 * kw) + at(data[2], offset, {n, 2 * tap + 1, oh, ow});
                  sum += at(data[1], w, {m, c, kh, kw}) * pixel(n, channel, row, column) *
                         (masked ? at(data[4], mask, {n, tap, oh, ow}) : 1);
                }
            y.push_back(sum);
          }
    check_near(got[0].data, y);
  }
}

TEST_CASE("shifts by the width and more leave the sign of the number that moves right") {
  ModelWriter w("shift", 28);
  w.typed_input("x", graph::DType::kI32, {5});
  w.typed_input("y", graph::DType::kI32, {5});
  w.node("BitShift", {"x", "y"}, {"right"}, {{"direction", std::string("RIGHT")}});
  w.node("BitShift", {"x", "y"}, {"left"}, {{"direction", std::string("LEFT")}});
  w.output("right", graph::DType::kI32);
  w.output("left", graph::DType::kI32);
  const auto got = run_model(w.finish(), {}, {{-8, 4, -1, -8, -3}, {-1, -32, 64, 1, 40}});
  CHECK(got[0].data == std::vector<double>{-1, 0, -1, -4, -1});
  CHECK(got[1].data == std::vector<double>{0, 0, 0, -16, 0});
}

TEST_CASE("the axes of Resize may come in any order, each of them once", "[errors]") {
  auto resized = [](const std::vector<int64_t>& axes, const std::vector<float>& scales) {
    ModelWriter w("resize", 18);
    w.input("x", {1, 1, 4, 6});
    w.initializer("scales", {{2}, scales});
    w.node("Resize", {"x", "", "scales"}, {"y"}, {{"axes", axes}, {"mode", std::string("linear")}});
    w.output("y");
    return w.finish();
  };
  const auto sorted = run_model(resized({2, 3}, {2, 0.5f})), turned = run_model(resized({3, 2}, {0.5f, 2}));
  CHECK(sorted[0].shape == Shape{1, 1, 8, 3});
  CHECK(sorted[0].data == turned[0].data);
  auto twice = import_text(resized({2, 2}, {2, 2}));
  REQUIRE_FALSE(twice);
  CHECK_THAT(twice.error().message, Catch::Contains("axis 2 is listed twice"));
}
