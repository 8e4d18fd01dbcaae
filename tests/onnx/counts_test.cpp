// Extents that are known at run time only: the results of operators, and refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "onnx/counted.h"
#include "onnx/models.h"
#include "tcc/graph/refusal.h"

using namespace tcc;
using namespace tcc::onnx;
using Catch::Contains;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;
using Attributes = std::vector<NamedAttribute>;

namespace {

constexpr auto kI64 = graph::DType::kI64;

// x [rows, columns], of which the elements above 0 are y [n], their places are `places` [n, 2].
class Selected : public ModelWriter {
 public:
  explicit Selected(const graph::Shape& shape, int64_t opset = 18) : ModelWriter("selected", opset) {
    ModelWriter& w = *this;
    w.input("x", shape);
    w.initializer("limit", {{}, Floats{0}});
    w.node("Greater", {"x", "limit"}, {"above"});
    w.node("NonZero", {"above"}, {"rows"});
    w.node("Transpose", {"rows"}, {"places"});
    w.node("GatherND", {"x", "places"}, {"y"});
  }
};

std::string message_of(const std::string& bytes) {
  auto g = import_text(bytes);
  REQUIRE(!g);
  CHECK(graph::refusal_of(g.error()) == graph::Refusal::kRunTimeShape);
  return g.error().message;
}

const Doubles kX{1, -1, 2, 0, 3, -5};

}  // namespace

TEST_CASE("NonZero gives a row of places for each axis, and how many there are") {
  for (const auto& [shape, x, expected] : std::vector<std::tuple<graph::Shape, Doubles, Doubles>>{
           {{2, 3}, kX, {0, 0, 1, 0, 2, 1}},
           {{6}, kX, {0, 2, 4}},
           {{1, 2, 3}, kX, {0, 0, 0, 0, 0, 1, 0, 2, 1}},
           {{2, 3}, {1, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}},
           {{6}, {-1, 0, 0, -1, 0, 0}, {}}}) {
    Selected w(shape);
    w.output("rows", kI64);
    const auto rows = run_counted(w.finish(), {x})[0];
    CHECK(rows.data == expected);
    CHECK(rows.shape == graph::Shape{std::ssize(shape), std::ssize(expected) / std::ssize(shape)});
  }
}

TEST_CASE("elements behind the counted ones take no part in sums, extremes, means, softmax and order") {
  Selected w({2, 3});
  w.initializer("axis", {{}, Ints{0}});
  w.initializer("zero", {{1}, Ints{0}});
  w.initializer("most", {{1}, Ints{2}});
  w.node("Neg", {"y"}, {"negative"});
  const std::map<std::string, Doubles> reduced{
      {"ReduceSum", {6}}, {"ReduceMean", {2}},       {"ReduceProd", {6}},          {"ReduceMin", {1}},
      {"ReduceL1", {6}},  {"ReduceSumSquare", {14}}, {"ReduceL2", {std::sqrt(14)}}};
  for (const auto& [op, value] : reduced) w.output(w.node(op, {"y"}, {op}, {{"keepdims", int64_t{0}}}));
  w.output(w.node("ReduceMax", {"negative"}, {"max"}));
  w.output(w.node("ArgMax", {"negative"}, {"arg"}, {{"axis", int64_t{0}}}), kI64);
  w.output(w.node("Softmax", {"y"}, {"softmax"}, {{"axis", int64_t{0}}}));
  w.output(w.node("CumSum", {"y", "axis"}, {"sums"}, {{"reverse", int64_t{1}}}));
  w.node("TopK", {"negative", "most"}, {"best", "at"}, {{"largest", int64_t{0}}});
  w.output("best");
  w.output("at", kI64);
  const auto out = run_counted(w.finish(), {kX});
  size_t i = 0;
  for (const auto& [op, value] : reduced) {
    INFO(op);
    CHECK(out[i].data.size() == 1);
    CHECK(out[i++].data[0] == Approx(value[0]));
  }
  CHECK(out[i++].data == Doubles{-1});
  CHECK(out[i++].data == Doubles{0});
  CHECK(out[i].shape == graph::Shape{3});
  CHECK(out[i].data[2] == Approx(std::exp(3) / (std::exp(1) + std::exp(2) + std::exp(3))));
  CHECK(out[++i].data == Doubles{6, 5, 3});
  CHECK(out[++i].data == Doubles{-3, -2});
  CHECK(out[++i].data == Doubles{2, 1});
}

TEST_CASE("parts of a concatenation begin where those before them end") {
  Selected w({6});
  w.initializer("fixed", {{2}, Floats{8, 9}});
  w.node("Less", {"x", "limit"}, {"below"});
  w.node("Compress", {"x", "below"}, {"z"});
  w.node("Concat", {"y", "fixed", "z", "y"}, {"all"}, {{"axis", int64_t{0}}});
  w.node("Concat", {"fixed", "z"}, {"last"}, {{"axis", int64_t{0}}});
  w.output("all");
  w.output("last");
  w.output(w.node("Shape", {"all"}, {"shape"}), kI64);
  w.output(w.node("Size", {"all"}, {"size"}), kI64);
  const std::string bytes = w.finish();
  const auto out = run_counted(bytes, {kX});
  CHECK(out[0].data == Doubles{1, 2, 3, 8, 9, -1, -5, 1, 2, 3});
  CHECK(out[1].data == Doubles{8, 9, -1, -5});
  CHECK(out[2].data == Doubles{10});
  CHECK(out[3].data == Doubles{10});
  CHECK(run_counted(bytes, {{-1, -1, -1, -1, -1, -1}})[0].data == Doubles{8, 9, -1, -1, -1, -1, -1, -1});
}

TEST_CASE("shapes that are computed from counts: their upper ends are the extents") {
  Selected w({6}, 17);
  w.initializer("four", {{1}, Ints{4}});
  w.initializer("two", {{1}, Ints{2}});
  w.initializer("axis", {{1}, Ints{1}});
  w.initializer("start", {{}, Ints{0}});
  w.initializer("step", {{}, Ints{1}});
  w.initializer("first", {{1}, Ints{0}});
  w.initializer("rest", {{2}, Ints{-1, 2}});
  w.initializer("one", {{1}, Ints{1}});
  w.node("Shape", {"y"}, {"n"});
  w.node("Concat", {"n", "four"}, {"both"}, {{"axis", int64_t{0}}});
  w.node("ReduceMin", {"both"}, {"k"}, {{"axes", Ints{0}}, {"keepdims", int64_t{1}}});
  w.node("TopK", {"y", "k"}, {"best", "at"});
  w.node("Squeeze", {"n"}, {"scalar"});
  w.output("best");
  w.output(w.node("Range", {"start", "scalar", "step"}, {"range"}), kI64);
  w.output(w.node("ConstantOfShape", {"both"}, {"zeros"}));
  w.node("Unsqueeze", {"y", "axis"}, {"column"});
  w.output(w.node("Expand", {"column", w.node("Concat", {"n", "two"}, {"wide"}, {{"axis", int64_t{0}}})}, {"twice"}));
  w.output(w.node("Reshape", {"twice", "minus"}, {"flat"}));
  w.initializer("minus", {{1}, Ints{-1}});
  w.output(w.node("Reshape", {"flat", "rest"}, {"again"}));
  w.output(w.node("Slice", {"x", "first", "k", "first"}, {"part"}));
  w.output(w.node("Slice", {"y", "one", "four", "first"}, {"tail"}));
  w.node("Gather", {"wide", "axis"}, {"known"});  // 2, whatever the count is
  w.output(w.node("ConstantOfShape", {"known"}, {"two zeros"}));
  const std::string bytes = w.finish();
  const auto out = run_counted(bytes, {kX});
  CHECK(out[0].data == Doubles{3, 2, 1});
  CHECK(out[1].data == Doubles{0, 1, 2});
  CHECK(out[2].shape == graph::Shape{3, 4});
  CHECK(out[3].data == Doubles{1, 1, 2, 2, 3, 3});
  CHECK(out[4].shape == graph::Shape{6});
  CHECK(out[5].shape == graph::Shape{3, 2});
  CHECK(out[6].data == Doubles{1, -1, 2});
  CHECK(out[7].data == Doubles{2, 3});
  CHECK(out[8].shape == graph::Shape{2});
  const auto five = run_counted(bytes, {{1, 2, 3, 4, 5, -1}});
  CHECK(five[0].data == Doubles{5, 4, 3, 2});
  CHECK(five[6].data == Doubles{1, 2, 3, 4});
  CHECK(five[7].data == Doubles{2, 3, 4});
}

TEST_CASE("axes with counts are joined with those around them") {
  ModelWriter w("joined", 18);
  w.input("x", {3, 5, 4});
  w.typed_input("planes", graph::DType::kBool, {3});
  w.typed_input("rows", graph::DType::kBool, {5});
  w.typed_input("columns", graph::DType::kBool, {4});
  w.initializer("minus", {{1}, Ints{-1}});
  w.initializer("fives", {{2}, Ints{-1, 5}});
  w.initializer("sixes", {{2}, Ints{-1, 6}});
  w.node("Compress", {"x", "rows"}, {"some rows"}, {{"axis", int64_t{1}}});
  w.output(w.node("Reshape", {"some rows", "minus"}, {"flat rows"}));
  w.output(w.node("Flatten", {"some rows"}, {"front"}, {{"axis", int64_t{2}}}));
  w.node("Compress", {"x", "planes"}, {"some planes"}, {{"axis", int64_t{0}}});
  w.node("Compress", {"some planes", "columns"}, {"some"}, {{"axis", int64_t{2}}});
  w.output(w.node("Reshape", {"some", "minus"}, {"flat"}));
  w.output(w.node("Reshape", {"some", "fives"}, {"of five"}));
  w.output(w.node("Reshape", {"some planes", "sixes"}, {"of six"}));
  w.output(
      w.node("ReduceSum",
             {w.node("Mul", {"flat", w.node("Flatten", {"flat"}, {"column"}, {{"axis", int64_t{0}}})}, {"squares"})},
             {"sum"}, {{"keepdims", int64_t{0}}}));
  w.node("Unique", {"some rows"}, {"distinct"});
  w.output("distinct");
  const std::string bytes = w.finish();
  Doubles x(60);
  for (size_t i = 0; i < 60; ++i) x[i] = static_cast<double>(i % 23);
  for (const auto& [planes, rows, columns] :
       std::vector<std::tuple<Doubles, Doubles, Doubles>>{{{1, 0, 1}, {0, 1, 0, 1, 1}, {1, 0, 0, 1}},
                                                          {{0, 0, 1}, {0, 0, 0, 0, 1}, {0, 1, 0, 0}},
                                                          {{1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1}},
                                                          {{0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0}}}) {
    Doubles some_rows, some;
    double sum = 0;
    for (size_t i = 0; i < 60; ++i) {
      if (rows[i / 4 % 5] != 0) some_rows.push_back(x[i]);
      if (planes[i / 20] == 0 || columns[i % 4] == 0) continue;
      some.push_back(x[i]);
      sum += x[i] * x[i];
    }
    const auto out = run_counted(bytes, {x, planes, rows, columns});
    CHECK(out[0].data == some_rows);
    CHECK(out[1].data == some_rows);
    CHECK(out[1].shape == graph::Shape{std::ssize(some_rows) / 4, 4});
    CHECK(out[2].data == some);
    CHECK(out[3].data == some);
    CHECK(out[3].shape == graph::Shape{std::ssize(some) / 5, 5});
    CHECK(out[4].shape == graph::Shape{std::count(planes.begin(), planes.end(), 1) * 20 / 6, 6});
    CHECK(out[5].data == Doubles{sum});
    const std::set<double> distinct(some_rows.begin(), some_rows.end());
    CHECK(out[6].data == Doubles(distinct.begin(), distinct.end()));
  }
}

TEST_CASE("a last axis of at most one element joins the axes in front of it") {
  ModelWriter w("last", 18);
  w.input("x", {3, 1});
  w.typed_input("keep", graph::DType::kBool, {1});
  w.initializer("minus", {{1}, Ints{-1}});
  w.node("Compress", {"x", "keep"}, {"some"}, {{"axis", int64_t{1}}});
  w.output(w.node("Reshape", {"some", "minus"}, {"flat"}));
  const std::string bytes = w.finish();
  CHECK(run_counted(bytes, {{1, 2, 3}, {1}})[0].data == Doubles{1, 2, 3});
  CHECK(run_counted(bytes, {{1, 2, 3}, {0}})[0].data.empty());
}

TEST_CASE("places that do not count are not read from the end, and not written") {
  Selected w({6});
  w.initializer("last", {{1}, Ints{-1}});
  w.initializer("data", {{6}, Floats{9, 9, 9, 9, 9, 9}});
  w.node("Gather", {"y", "last"}, {"end"});
  w.node("ScatterND", {"data", "places", "y"}, {"written"});
  w.output("end");
  w.output("written");
  const auto out = run_counted(w.finish(), {kX});
  CHECK(out[0].data == Doubles{3});
  CHECK(out[1].data == Doubles{1, 9, 2, 9, 3, 9});
}

TEST_CASE("products over a counted axis, and of counted rows") {
  Selected w({6});
  w.initializer("axis", {{1}, Ints{0}});
  w.initializer("weights", {{1, 2}, Floats{2, 3}});
  w.initializer("one", {{1}, Ints{1}});
  w.node("Unsqueeze", {"y", "axis"}, {"row"});
  w.node("Unsqueeze", {"y", "one"}, {"column"});
  w.output(w.node("MatMul", {"row", "column"}, {"dot"}));
  w.output(w.node("MatMul", {"column", "weights"}, {"rows of two"}));
  w.output(w.node("Gemm", {"column", "weights"}, {"gemm"}));
  const auto out = run_counted(w.finish(), {kX});
  CHECK(out[0].data == Doubles{14});
  CHECK(out[1].data == Doubles{2, 3, 4, 6, 6, 9});
  CHECK(out[2].shape == graph::Shape{3, 2});
}

TEST_CASE("branches of different extents make a count") {
  auto body = [](const std::string& op, const Strings& in) {
    ModelWriter w("body");
    w.node(op, in, {"o"}, op == "Concat" ? Attributes{{"axis", int64_t{0}}} : Attributes{});
    w.output("o");
    return w.finish_graph();
  };
  Selected w({6});
  w.node("ReduceSum", {"x"}, {"sum"}, {{"keepdims", int64_t{0}}});
  w.node("Less", {"sum", "limit"}, {"negative"});
  w.node("If", {"negative"}, {"z"}, {{"then_branch", body("Neg", {"y"})}, {"else_branch", body("Concat", {"x", "y"})}});
  w.output("z");
  const std::string bytes = w.finish();
  CHECK(run_counted(bytes, {{1, -9, 2, 0, 0, 0}})[0].data == Doubles{-1, -2});
  CHECK(run_counted(bytes, {{1, 0, 2, 0, 0, 0}})[0].data == Doubles{1, 0, 2, 0, 0, 0, 1, 2});
}

TEST_CASE("NonMaxSuppression of boxes of a run is that of known boxes") {
  const Doubles boxes{0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11, 1, 11.1, 0, 10.1};
  const Doubles scores{0.9, 0.75, 0.6, 0.95, 0.1, 0.2, 0.3, 0.3};
  for (double most : {1.0, 2.0, 3.0, 9e18})
    for (double overlap : {0.0, 0.5, 0.9})
      for (const Doubles& least : {Doubles{}, {0.2}, {0.7}, {2}}) {
        auto model = [&](bool known) {
          ModelWriter w("nms", 13);
          if (known) {
            w.typed_initializer("boxes", graph::DType::kF32, {1, 4, 4}, boxes);
            w.typed_initializer("scores", graph::DType::kF32, {1, 2, 4}, scores);
          } else {
            w.input("boxes", {1, 4, 4});
            w.input("scores", {1, 2, 4});
          }
          w.typed_initializer("most", kI64, {1}, {most});
          w.typed_initializer("overlap", graph::DType::kF32, {1}, {overlap});
          Strings inputs{"boxes", "scores", "most", "overlap"};
          if (!least.empty()) inputs.push_back(w.typed_initializer("least", graph::DType::kF32, {1}, least));
          w.node("NonMaxSuppression", inputs, {"y"});
          w.output("y", kI64);
          return w.finish();
        };
        INFO("at most " << most << ", overlap " << overlap << ", " << least.size());
        CHECK(run_counted(model(false), {boxes, scores})[0].data == run_model(model(true))[0].data);
      }
}

TEST_CASE("what a count cannot do is refused with the node, the axis and the reason") {
  auto with = [](const std::string& op, const Strings& more, const Attributes& attributes = {}) {
    Selected w({6}, 17);
    w.initializer("fixed", {{6}, Floats{1, 1, 1, 1, 1, 1}});
    w.initializer("back", {{1}, Ints{-2}});
    w.initializer("end", {{1}, Ints{9}});
    w.initializer("axis", {{1}, Ints{0}});
    w.initializer("repeats", {{1}, Ints{2}});
    w.node("Less", {"x", "limit"}, {"below"});
    w.node("Compress", {"x", "below"}, {"z"});
    Strings inputs{"y"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    w.node(op, inputs, {"out"}, attributes);
    w.output("out");
    return message_of(w.finish());
  };
  CHECK_THAT(with("Add", {"fixed"}), Contains("fixed in another"));
  CHECK_THAT(with("Add", {"z"}), Contains("axis 0") && Contains("meets another extent"));
  CHECK_THAT(with("Slice", {"back", "end", "axis"}), Contains("count from its end"));
  CHECK_THAT(with("Tile", {"repeats"}), Contains("axis 0") && Contains("does not support"));
  Selected single({1});
  single.initializer("none", {{0}, Ints{}});
  single.node("Reshape", {"y", "none"}, {"z"});
  single.output("z");
  CHECK_THAT(message_of(single.finish()), Contains("axis 0") && Contains("disappears"));
  ModelWriter scalar("scalar", 18);
  scalar.input("x", {});
  scalar.node("NonZero", {"x"}, {"y"});
  scalar.output("y", kI64);
  CHECK_THAT(message_of(scalar.finish()), Contains("scalar"));
}

TEST_CASE("no memory is taken for places of more elements than are supported") {
  ModelWriter w("large", 18);
  w.input("x", {1 << 20, 1 << 6});
  w.node("NonZero", {"x"}, {"y"});
  w.output("y", kI64);
  auto g = import_text(w.finish());
  REQUIRE(!g);
  CHECK(graph::refusal_of(g.error()) == graph::Refusal::kTooLarge);
}
