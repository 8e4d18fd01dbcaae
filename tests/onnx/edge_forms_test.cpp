// Forms of operators that exporters seldom write: integers where floats are usual, windows beyond the padding, empty
// axes.
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/models.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/types.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::DType;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

namespace {

struct Form {
  std::string op;
  int64_t opset = 18;
  DType dtype = DType::kF32;
  Shape shape;
  Doubles data;
  std::vector<NamedAttribute> attributes = {};
  std::vector<TensorData> constants = {};
  DType result = DType::kF32;
};
Doubles result_of(const Form& form) {
  ModelWriter w("form", form.opset);
  w.typed_input("x", form.dtype, form.shape);
  std::vector<std::string> inputs{"x"};
  for (const TensorData& data : form.constants)
    inputs.push_back(w.initializer("c" + std::to_string(inputs.size()), data));
  w.node(form.op, inputs, {"y"}, form.attributes);
  w.output("y", form.result);
  return run_model(w.finish(), {}, {form.data})[0].data;
}

}  // namespace

TEST_CASE("a reduction over no axes does with each element what it does before and after the sum") {
  auto over_none = [](const std::string& op) {
    return result_of({op, 18, DType::kF32, {2}, {-2, 4}, {{"noop_with_empty_axes", int64_t{1}}}});
  };
  CHECK(over_none("ReduceSum") == Doubles{-2, 4});
  CHECK(over_none("ReduceL1") == Doubles{2, 4});
  CHECK(over_none("ReduceL2") == Doubles{2, 4});
  CHECK(over_none("ReduceSumSquare") == Doubles{4, 16});
  CHECK(over_none("ReduceLogSumExp") == Doubles{-2, 4});
  const Doubles logarithms = over_none("ReduceLogSum");
  CHECK(std::isnan(logarithms[0]));
  CHECK(logarithms[1] == std::log(4.0));
}

TEST_CASE("means and norms of integers are integers, cut off") {
  auto of_integers = [](const std::string& op, const Doubles& data) {
    return result_of({op, 13, DType::kI64, {static_cast<int64_t>(data.size())}, data, {}, {}, DType::kI64});
  };
  CHECK(of_integers("ReduceMean", {-2, -3}) == Doubles{-2});
  CHECK(of_integers("ReduceMean", {2, 3, 6}) == Doubles{3});
  CHECK(of_integers("ReduceL2", {3, 4}) == Doubles{5});
  CHECK(of_integers("ReduceL2", {1, 2}) == Doubles{2});
  CHECK(of_integers("ReduceLogSum", {5, 3}) == Doubles{2});
  CHECK(of_integers("ReduceLogSumExp", {0, 5}) == Doubles{5});
}

TEST_CASE("with ceil_mode the last window may end after the padding, the only one as well") {
  auto pooled = [](const std::string& op, const Doubles& data, Ints kernel, int64_t dilation, int64_t stride,
                   Ints pads) {
    std::vector<NamedAttribute> attributes{{"kernel_shape", std::move(kernel)},
                                           {"dilations", Ints{dilation}},
                                           {"strides", Ints{stride}},
                                           {"pads", std::move(pads)},
                                           {"ceil_mode", int64_t{1}}};
    if (op == "LpPool") attributes.push_back({"p", int64_t{1}});
    return result_of({op, 22, DType::kF32, {1, 1, static_cast<int64_t>(data.size())}, data, attributes});
  };
  CHECK(pooled("LpPool", {1, -2, 3, 4, -5}, {2}, 1, 2, {0, 0}) == Doubles{3, 7, 5});
  CHECK(pooled("LpPool", {1, -2, 3, 4, -5}, {3}, 1, 2, {1, 0}) == Doubles{3, 9, 9});
  CHECK(pooled("AveragePool", {3, 5}, {2}, 2, 2, {0, 0}) == Doubles{3});
  CHECK(pooled("MaxPool", {3, 5}, {3}, 1, 2, {0, 0}) == Doubles{5});
}

TEST_CASE("the power of a half has no sign, and roots of variances stay roots") {
  auto powers = [](const Doubles& data) {
    return result_of({"Pow", 18, DType::kF32, {static_cast<int64_t>(data.size())}, data, {}, {{{}, Floats{0.5F}}}});
  };
  const Doubles y = powers({-INFINITY, -0.0, 0, 4, -4, INFINITY, NAN});
  CHECK(y[0] == INFINITY);
  CHECK((y[1] == 0 && !std::signbit(y[1])));
  CHECK((y[2] == 0 && y[3] == 2 && y[5] == INFINITY));
  CHECK((std::isnan(y[4]) && std::isnan(y[6])));

  ModelWriter w("deviation", 17);
  w.input("x", {2, 8});
  w.node("Mul", {"x", "x"}, {"squares"});
  w.node("ReduceMean", {"squares"}, {"mean"}, {{"axes", Ints{1}}});
  w.node("Add", {"mean", w.initializer("epsilon", {{}, Floats{1e-5F}})}, {"variance"});
  w.node("Pow", {"variance", w.initializer("half", {{}, Floats{0.5F}})}, {"y"});
  w.output("y");
  const auto g = import_text(w.finish());
  REQUIRE(g.has_value());
  CHECK(g->node(g->value(g->outputs[0]).producer).op == graph::Op::kUnary);
}

TEST_CASE("many updates on a grid of places are moved, without a search") {
  // As an assignment to a slice is exported. The indices are too many to be folded.
  const int64_t rows = 401, columns = 403, n = 400;
  auto placed = [&](const Ints& first, const Ints& second) {
    ModelWriter w("grid", 18);
    w.typed_input("x", DType::kF32, {rows, columns});
    w.typed_input("u", DType::kF32, {n, n});
    const std::string grid = w.initializer("grid", {{2}, Ints{n, n}}), last = w.initializer("last", {{1}, Ints{-1}});
    w.node("Expand", {w.initializer("i", {{n, 1}, first}), grid}, {"rows"});
    w.node("Expand", {w.initializer("j", {{n}, second}), grid}, {"columns"});
    w.node("Unsqueeze", {"rows", last}, {"rows1"});
    w.node("Unsqueeze", {"columns", last}, {"columns1"});
    w.node("Concat", {"rows1", "columns1"}, {"places"}, {{"axis", int64_t{-1}}});
    w.node("ScatterND", {"x", "places", "u"}, {"y"});
    w.output("y");
    const std::string model = w.finish();
    auto graph = import_text(model);
    REQUIRE(graph.has_value());
    graph::eliminate(*graph);
    for (const graph::NodeId id : graph->order) CHECK(graph->node(id).op != graph::Op::kScatter);
    Doubles x(static_cast<size_t>(rows * columns)), u(static_cast<size_t>(n * n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 1000);
    for (size_t i = 0; i < u.size(); ++i) u[i] = -1 - static_cast<double>(i);
    const auto y = run_model(model, {}, {x, u})[0].data;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
        const int64_t at = (first[a] + rows) % rows * columns + (second[b] + columns) % columns;
        x[static_cast<size_t>(at)] = u[static_cast<size_t>(i * n + j)];
      }
    CHECK(y == x);
  };
  Ints from_one(n), twice(n), back(n);
  for (int64_t i = 0; i < n; ++i) {
    from_one[static_cast<size_t>(i)] = i + 1;
    twice[static_cast<size_t>(i)] = i / 2 + 7;
    back[static_cast<size_t>(i)] = -1 - i;
  }
  placed(from_one, from_one);
  placed(from_one, back);
  placed(twice, from_one);  // the last update of a place counts
}

TEST_CASE("shapes are known behind more constants than are folded") {
  ModelWriter w("many", 17);
  w.typed_input("x", DType::kF32, {2, 3});
  const int64_t side = 1024;
  Ints numbers(static_cast<size_t>(side * side));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string table = w.initializer("table", {{side, side}, numbers});
  for (int i = 0; i < 10; ++i) {
    const std::string turned = "turned" + std::to_string(i);
    w.node("Transpose", {table}, {turned});
    w.output(turned, DType::kI64);
  }
  w.node("Shape", {"x"}, {"shape"});
  w.node("Slice", {"shape", w.initializer("one", {{1}, Ints{1}}), w.initializer("two", {{1}, Ints{2}})}, {"last"});
  w.node("Concat", {w.initializer("rest", {{1}, Ints{-1}}), "last"}, {"as"}, {{"axis", int64_t{0}}});
  w.node("Reshape", {"x", "as"}, {"y"});
  w.output("y");
  CHECK(import_text(w.finish()).has_value());
}

TEST_CASE("a pool's window beyond bytes has their least value") {
  for (const DType dtype : {DType::kU8, DType::kI8}) {
    const auto y = result_of({"MaxPool",
                              12,
                              dtype,
                              {1, 1, 1},
                              {5},
                              {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 1}}},
                              {},
                              dtype});
    CHECK(y == Doubles{dtype == DType::kU8 ? 0.0 : -128.0});
  }
}

TEST_CASE("squares and sums of 16-bit floats are those of f32") {
  for (const std::string op : {"ReduceL2", "ReduceSumSquare", "ReduceLogSum", "LpNormalization", "GlobalLpPool",
                               "MeanVarianceNormalization", "RMSNormalization"}) {
    ModelWriter w("norm", 23);
    w.typed_input("x", DType::kF16, {1, 2, 3});
    std::vector<std::string> inputs{"x"};
    if (op == "RMSNormalization") inputs.push_back(w.typed_initializer("scale", DType::kF16, {3}, {1, 2, 3}));
    std::vector<NamedAttribute> attributes;
    if (op == "MeanVarianceNormalization") attributes.push_back({"axes", Ints{0, 2}});
    w.node(op, inputs, {"y"}, attributes);
    w.output("y", DType::kF16);
    INFO(op);
    const auto g = import_text(w.finish());
    REQUIRE(g.has_value());
    CHECK(g->value(g->outputs[0]).dtype == DType::kF16);
    int sums = 0;
    for (const graph::NodeId id : g->order) {
      const graph::Node& node = g->node(id);
      if (node.op != graph::Op::kReduceSum && node.op != graph::Op::kReduceMean) continue;
      CHECK(g->value(node.inputs[0]).dtype == DType::kF32);
      ++sums;
    }
    CHECK(sums > 0);
  }
}

TEST_CASE("a pool of bytes tells the positions of its maxima, of zeros beside the padding as well") {
  for (const DType dtype : {DType::kU8, DType::kI8}) {
    ModelWriter w("pool", 12);
    w.typed_input("x", dtype, {1, 1, 5});
    w.node("MaxPool", {"x"}, {"y", "at"}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}});
    w.output("y", dtype);
    w.output("at", DType::kI64);
    const auto results = run_model(w.finish(), {}, {{0, 0, 9, 9, 0}});
    CHECK(results[0].data == Doubles{0, 9, 9});
    CHECK(results[1].data == Doubles{0, 2, 3});
  }
}

TEST_CASE("cubic samples up to the border have the weights of their place") {
  auto sampled = [](float x, int64_t align_corners) {
    return result_of(
        {"GridSample",
         20,
         DType::kF32,
         {1, 1, 1, 2},
         {0, 1},
         {{"mode", std::string("cubic")}, {"padding_mode", std::string("border")}, {"align_corners", align_corners}},
         {{{1, 1, 1, 2}, Floats{x, 0}}}})[0];
  };
  CHECK(sampled(1, 0) == 1.09375);    // half an element beyond the last one
  CHECK(sampled(-1, 0) == -0.09375);  // and before the first one
  CHECK(sampled(1.25F, 0) == 1);
  CHECK(sampled(1.25F, 1) == 1);
}

TEST_CASE("LayerNormalization before opset 17, as ONNX Runtime writes it") {
  const Doubles y = result_of({"LayerNormalization", 13, DType::kF32, {1, 2}, {1, 3}, {}, {{{2}, Floats{1, 2}}}});
  CHECK(std::fabs(y[0] + 1) < 1e-4);
  CHECK(std::fabs(y[1] - 2) < 1e-4);
}

TEST_CASE("remainders of floats have the sign of the divisor, zeros too") {
  ModelWriter w("mod", 28);
  for (const char* name : {"x", "y"}) w.typed_input(name, DType::kF32, {8});
  w.node("Mod", {"x", "y"}, {"rest"}, {{"fmod", int64_t{0}}});
  w.node("Reciprocal", {"rest"}, {"z"});
  w.output("z", DType::kF32);
  w.output("rest", DType::kF32);
  const auto results = run_model(w.finish(), {}, {{0, -0.0, 0, -0.0, 4, -4, 5, -5}, {-2, 2, 2, -2, -2, 2, -3, 3}});
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(results[0].data == Doubles{-inf, inf, inf, -inf, -inf, inf, -1, 1});
  CHECK(results[1].data == Doubles{0, 0, 0, 0, 0, 0, -1, 1});
}

TEST_CASE("defaults of attributes are numbers of single precision") {
  CHECK(result_of({"LeakyRelu", 16, DType::kF64, {1}, {-1}, {}, {}, DType::kF64}) ==
        Doubles{-static_cast<double>(0.01F)});
}

TEST_CASE("unsigned integers of 32 and 64 bits: conversions, bounds, signs, sums") {
  auto converted = [](DType from, DType to, const Doubles& data) {
    ModelWriter w("cast", 21);
    w.typed_input("x", from, {static_cast<int64_t>(data.size())});
    w.node("Cast", {"x"}, {"y"}, {{"to", int64_t{to == DType::kU32 ? 12 : 13}}});
    w.output("y", to);
    return run_model(w.finish(), {}, {data})[0].data;
  };
  CHECK(converted(DType::kF32, DType::kU32, {3e9, -1, 5.75}) == Doubles{3e9, 4294967295, 5});
  CHECK(converted(DType::kF64, DType::kU64, {1e19, 3e9, 5.75}) == Doubles{1e19, 3e9, 5});
  CHECK(converted(DType::kI8, DType::kU32, {-1, 7}) == Doubles{4294967295, 7});
  CHECK(converted(DType::kBool, DType::kU64, {1, 0}) == Doubles{1, 0});

  ModelWriter w("unsigned", 18);
  w.typed_input("x", DType::kU32, {3});
  w.typed_initializer("high", DType::kU32, {}, {3e9});
  w.typed_initializer("index", DType::kI64, {2, 1}, {0, 0});
  w.typed_initializer("more", DType::kU32, {2}, {1, 4294967295});
  w.node("Clip", {"x", "", "high"}, {"clip"});
  w.node("Abs", {"x"}, {"abs"});
  w.node("Sign", {"x"}, {"sign"});
  w.node("ScatterND", {"x", "index", "more"}, {"sum"}, {{"reduction", std::string("add")}});
  w.node("ScatterND", {"x", "index", "more"}, {"most"}, {{"reduction", std::string("max")}});
  w.node("Shrink", {"x"}, {"below"}, {{"lambd", 2e9F}, {"bias", 5.F}});
  w.node("Shrink", {"x"}, {"above"}, {{"lambd", -2e9F}, {"bias", 7.F}});
  w.node("PRelu", {"x", "high"}, {"same"});
  w.node("ReduceL1", {"x"}, {"all"});
  w.node("Shrink", {"x"}, {"halves"}, {{"lambd", 1.F}, {"bias", -2.5F}});
  for (const char* name : {"clip", "abs", "sign", "sum", "most", "below", "above", "halves", "same", "all"})
    w.output(name, DType::kU32);
  const auto got = run_model(w.finish(), {}, {{0, 2e9, 4e9}});
  CHECK(got[0].data == Doubles{0, 2e9, 3e9});
  CHECK(got[1].data == Doubles{0, 2e9, 4e9});
  CHECK(got[2].data == Doubles{0, 1, 1});
  CHECK(got[3].data == Doubles{0, 2e9, 4e9});
  CHECK(got[4].data == Doubles{4294967295, 2e9, 4e9});
  CHECK(got[5].data == Doubles{0, 0, 4e9 - 5});
  CHECK(got[6].data == Doubles{7, 2e9 - 7, 4e9 - 7});
  CHECK(got[7].data == Doubles{0, 2e9 + 2, 4e9 + 2});
  CHECK(got[8].data == Doubles{0, 2e9, 4e9});
  CHECK(got[9].data == Doubles{6e9 - 4294967296});
}
