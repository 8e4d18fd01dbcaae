// Operators that place, order and sample elements, in the forms of their opsets: results by hand, or as the standard's
// text gives them.
#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/graph/refusal.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/writer.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::DType;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

namespace {

struct Spec {
  std::string op;
  Shape shape;                        // of input "x", which is 0, 1, 2, ...
  std::vector<TensorData> constants;  // the further inputs
  std::vector<NamedAttribute> attributes = {};
  int64_t opset = 18;
  size_t outputs = 1;
  DType dtype = DType::kF32;
  std::vector<double> data = {};  // instead of 0, 1, 2, ...
};

Result<graph::Graph> import_spec(const Spec& spec) {
  ModelWriter w("one", spec.opset);
  w.typed_input("x", spec.dtype, spec.shape);
  std::vector<std::string> inputs{"x"}, outputs;
  for (size_t i = 0; i < spec.constants.size(); ++i) {
    const bool absent = spec.constants[i].shape == Shape{-1};
    inputs.push_back(absent ? "" : w.initializer("in" + std::to_string(i), spec.constants[i]));
  }
  for (size_t i = 0; i < spec.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  w.node(spec.op, inputs, outputs, spec.attributes);
  for (const std::string& name : outputs) w.output(name);
  return import_bytes(std::make_shared<const std::string>(w.finish()), "test.onnx", {});
}

std::vector<graph::HostTensor> results(const Spec& spec) {
  auto g = import_spec(spec);
  if (!g) FAIL(g.error().message);
  graph::HostTensor x{spec.shape, spec.data};
  for (int64_t i = std::ssize(x.data); i < graph::element_count(spec.shape); ++i)
    x.data.push_back(static_cast<double>(i));
  auto outputs = graph::run_reference(*g, {x}, 1);
  if (!outputs) FAIL(outputs.error().message);
  return *outputs;
}
Doubles result(const Spec& spec) {
  return results(spec)[0].data;
}
void check_near(const Doubles& got, const Doubles& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-5));
}

const TensorData kAbsent{{-1}, Ints{}};

}  // namespace

TEST_CASE("the nearest elements of Resize are those of places in single precision") {
  const auto nearest = [](const char* coordinates, int64_t in, TensorData scales, TensorData sizes,
                          const char* mode = "floor") {
    const Spec resize{
        "Resize",
        {in},
        {kAbsent, scales, sizes},
        {{"nearest_mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(coordinates)}},
        19};
    return result(resize);
  };
  const auto scale = [](float s) { return TensorData{{1}, Floats{s}}; };
  // The result has the numbers of the elements, which ONNX Runtime 1.32 gives.
  CHECK(nearest("half_pixel_symmetric", 5, scale(0.5F), kAbsent) == Doubles{1, 3});
  CHECK(nearest("half_pixel_symmetric", 3, kAbsent, {{1}, Ints{1}}) == Doubles{0});
  CHECK(nearest("half_pixel_symmetric", 3, kAbsent, {{1}, Ints{11}}) == Doubles{0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2});
  CHECK(nearest("half_pixel", 3, scale(2.2F), kAbsent) == Doubles{0, 0, 0, 1, 1, 2});
  CHECK(nearest("half_pixel", 4, scale(0.6F), kAbsent) == Doubles{0, 2});
  CHECK(nearest("asymmetric", 7, scale(0.6F), kAbsent) == Doubles{0, 1, 3, 5});
  CHECK(nearest("pytorch_half_pixel", 4, scale(2.2F), kAbsent) == Doubles{0, 0, 0, 1, 1, 2, 2, 2});
  // Places of 6.4999995, 3.4999998 and 5.5000005 are the middle of two elements, and one of 22.499998 is not.
  const auto size = [](int64_t n) { return TensorData{{1}, Ints{n}}; };
  CHECK(nearest("asymmetric", 13, kAbsent, size(4), "round_prefer_ceil") == Doubles{0, 3, 7, 10});
  CHECK(nearest("asymmetric", 7, kAbsent, size(2), "round_prefer_ceil") == Doubles{0, 4});
  CHECK(nearest("asymmetric", 11, kAbsent, size(26), "round_prefer_floor")[13] == 5);
  CHECK(nearest("half_pixel", 14, kAbsent, size(1), "round_prefer_ceil") == Doubles{7});
  CHECK(nearest("asymmetric", 30, kAbsent, size(4), "round_prefer_ceil") == Doubles{0, 8, 15, 22});
}

TEST_CASE("Resize: modes, coordinates, sizes, axes") {
  auto resized = [](Floats scales, std::vector<NamedAttribute> attributes, Shape shape = {4}) {
    attributes.push_back({"mode", attributes.empty() ? std::string("nearest") : std::string("linear")});
    return result({"Resize", shape, {kAbsent, {{static_cast<int64_t>(scales.size())}, scales}}, attributes});
  };
  CHECK(resized({2}, {}) == Doubles{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(resized({0.5F}, {}) == Doubles{0, 2});
  check_near(resized({2}, {{"antialias", int64_t{0}}}), {0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3});
  check_near(resized({2}, {{"coordinate_transformation_mode", std::string("align_corners")}}),
             {0, 3 / 7.0, 6 / 7.0, 9 / 7.0, 12 / 7.0, 15 / 7.0, 18 / 7.0, 3});
  check_near(resized({2}, {{"coordinate_transformation_mode", std::string("asymmetric")}}),
             {0, 0.5, 1, 1.5, 2, 2.5, 3, 3});
  check_near(resized({0.5F}, {{"antialias", int64_t{1}}}), {0.625, 2.375});
  const Spec sizes{
      "Resize", {1, 2, 3}, {kAbsent, kAbsent, {{1}, Ints{2}}}, {{"axes", Ints{-1}}, {"mode", std::string("linear")}}};
  check_near(result(sizes), {0.25, 1.75, 3.25, 4.75});
  const Spec cubic{"Resize", {4}, {kAbsent, {{1}, Floats{0.8F}}}, {{"mode", std::string("cubic")}}};
  check_near(result(cubic), {0.0942383, 1.4042969, 2.7055664});
  const Spec crop{"Resize",
                  {4},
                  {{{2}, Floats{0.5F, 2}}, {{1}, Floats{1}}},
                  {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                   {"extrapolation_value", 9.0F},
                   {"mode", std::string("linear")}}};
  check_near(result(crop), {1.5, 3, 9, 9});
  CHECK(results({"Upsample", {1, 1, 1, 2}, {{{4}, Floats{1, 1, 2, 1.5F}}}, {}, 9})[0].shape == Shape{1, 1, 2, 3});
  CHECK(result({"Resize", {4}, {{{1}, Floats{1.5F}}}, {{"mode", std::string("linear")}}, 10}).size() == 6);
}

TEST_CASE("Resize leaves axes alone whose extents and elements stay") {
  for (const char* coordinates : {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"}) {
    INFO(coordinates);
    auto g =
        import_spec({"Resize",
                     {3, 4, 5, 6},
                     {kAbsent, kAbsent, {{4}, Ints{3, 4, 10, 12}}},
                     {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string(coordinates)}}});
    REQUIRE(g.has_value());
    int64_t found = 0;
    for (graph::NodeId id : g->order) {
      const graph::Node& node = g->node(id);
      if (node.op != graph::Op::kResample) continue;
      ++found;
      CHECK(node.as<graph::ResampleAttrs>().axes == std::vector<int64_t>{2, 3});
    }
    CHECK(found == 1);
  }
}

TEST_CASE("Resize: what its inputs must be", "[errors]") {
  auto message = [](const Spec& spec) {
    auto g = import_spec(spec);
    REQUIRE(!g.has_value());
    return g.error().message;
  };
  CHECK_THAT(message({"Resize", {4}, {kAbsent, {{1}, Floats{0}}}}), Catch::Contains("above 0"));
  CHECK_THAT(message({"Resize", {4}, {kAbsent, {{2}, Floats{1, 2}}}}), Catch::Contains("for 1 axes"));
  CHECK_THAT(message({"Resize", {4}, {kAbsent, {{1}, Floats{2}}}, {{"mode", std::string("wild")}}}),
             Catch::Contains("'wild'"));
}

TEST_CASE("TopK, scatters, sums so far and bits") {
  auto top = results({"TopK", {2, 3}, {{{1}, Ints{2}}}, {{"largest", int64_t{0}}}, 11, 2});
  CHECK(top[0].data == Doubles{0, 1, 3, 4});
  CHECK(top[1].data == Doubles{0, 1, 0, 1});
  CHECK(result({"TopK", {3}, {}, {{"k", int64_t{1}}}, 9}) == Doubles{2});
  // Constant places, with and without a reduction.
  CHECK(result({"ScatterND", {4}, {{{2, 1}, Ints{-1, 0}}, {{2}, Floats{7, 8}}}}) == Doubles{8, 1, 2, 7});
  CHECK(result({"ScatterND", {4}, {{{2, 1}, Ints{3, 3}}, {{2}, Floats{7, 8}}}, {{"reduction", std::string("add")}}}) ==
        Doubles{0, 1, 2, 18});
  CHECK(result({"ScatterElements", {2, 2}, {{{1, 2}, Ints{1, 0}}, {{1, 2}, Floats{5, 6}}}}) == Doubles{0, 6, 5, 3});
  CHECK(result({"Scatter", {3}, {{{1}, Ints{1}}, {{1}, Floats{9}}}, {}, 9}) == Doubles{0, 9, 2});
  CHECK(!import_spec({"ScatterND", {4}, {{{1, 1}, Ints{4}}, {{1}, Floats{7}}}}).has_value());
  CHECK(result({"CumSum", {4}, {{{}, Ints{0}}}, {{"reverse", int64_t{1}}}}) == Doubles{6, 6, 5, 3});
  CHECK(result({"BitwiseNot", {2}, {}, {}, 18, 1, DType::kI32}) == Doubles{-1, -2});
  CHECK(result({"BitwiseXor", {4}, {{{}, Ints{5}}}, {}, 18, 1, DType::kI64}) == Doubles{5, 4, 7, 6});
}

TEST_CASE("shapes that depend on data: of constants results, else counts") {
  auto places = import_spec({"NonZero", {4}, {}});
  REQUIRE(places.has_value());
  CHECK(places->counts == 1);
  CHECK(result({"Compress", {2, 3}, {{{3}, Ints{0, 1, 1}}}, {{"axis", int64_t{1}}}}) == Doubles{1, 2, 4, 5});
}

TEST_CASE("random operators draw from their seeds") {
  auto drawn = [](float seed) {
    return result({"RandomNormalLike", {1000}, {}, {{"seed", seed}, {"mean", 3.0F}, {"scale", 2.0F}}});
  };
  const Doubles first = drawn(1);
  CHECK(first == drawn(1));
  CHECK(first != drawn(2));
  double mean = 0, square = 0;
  for (double v : first) mean += v / 1000, square += (v - 3) * (v - 3) / 1000;
  CHECK(mean == Approx(3).margin(0.2));
  CHECK(square == Approx(4).margin(0.5));
  const Doubles coins = result({"Bernoulli", {1000}, {}, {{"seed", 5.0F}}, 15, 1, DType::kF32, Doubles(1000, 0.25)});
  double ones = 0;
  for (double v : coins) ones += v;
  CHECK(ones == Approx(250).margin(50));
}

TEST_CASE("NaN wins extrema and their positions") {
  const double nan = NAN;
  const Doubles x{1, nan, 3, 5, 4, 6};
  auto of = [&](const std::string& op, std::vector<NamedAttribute> attributes) {
    return result({op, {2, 3}, {}, std::move(attributes), 13, 1, DType::kF32, x});
  };
  CHECK(std::isnan(of("ReduceMax", {{"axes", Ints{1}}})[0]));
  CHECK(of("ReduceMin", {{"axes", Ints{1}}})[1] == 4);
  CHECK(of("ArgMax", {{"axis", int64_t{1}}}) == Doubles{1, 2});
  CHECK(of("ArgMin", {{"axis", int64_t{1}}}) == Doubles{1, 1});
  const double inf = INFINITY;
  CHECK(result({"ReduceLogSumExp", {3}, {}, {}, 13, 1, DType::kF32, {-inf, -inf, -inf}}) == Doubles{-inf});
  CHECK(result({"ReduceLogSumExp", {3}, {}, {}, 13, 1, DType::kF32, {1, inf, -inf}}) == Doubles{inf});
}
