// Control flow, sequences and functions become the nodes that they run.
#include <catch2/catch.hpp>

#include "onnx/models.h"
#include "tcc/graph/refusal.h"

using namespace tcc;
using namespace tcc::onnx;
using Catch::Contains;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

namespace {

using Inputs = std::vector<std::pair<std::string, graph::DType>>;

// A body whose inputs have no declared shape that counts; `fill` adds nodes.
template <class Fill>
GraphData body_of(const Inputs& inputs, const Strings& outputs, Fill fill) {
  ModelWriter w("body");
  for (const auto& [name, dtype] : inputs) w.typed_input(name, dtype, {});
  fill(w);
  for (const std::string& name : outputs) w.output(name);
  return w.finish_graph();
}

GraphData branch(const std::string& op, const std::string& a, const std::string& b) {
  return body_of({}, {"o"}, [&](auto& w) { w.node(op, b.empty() ? Strings{a} : Strings{a, b}, {"o"}); });
}

constexpr auto kI64 = graph::DType::kI64;
constexpr auto kBool = graph::DType::kBool;
constexpr auto kF32 = graph::DType::kF32;

// v := v * 2 for even steps, v + x for odd ones; the condition of the inner If is a constant of each step.
GraphData alternating() {
  return body_of({{"i", kI64}, {"go", kBool}, {"v", kF32}}, {"go_on", "next", "sum"}, [](auto& w) {
    w.node("Constant", {}, {"two"}, {{"value", TensorData{{}, Ints{2}}}});
    w.node("Mod", {"i", "two"}, {"rest"});
    w.node("Cast", {"rest"}, {"odd"}, {{"to", int64_t{9}}});
    w.node("If", {"odd"}, {"next"},
           {{"then_branch", branch("Add", "v", "x")}, {"else_branch", branch("Add", "v", "v")}});
    w.node("ReduceSum", {"next"}, {"sum"}, {{"keepdims", int64_t{0}}});
    w.node("Identity", {"go"}, {"go_on"});
  });
}

std::string loop_model(const GraphData& body, int64_t trips, const Strings& outputs, bool condition = true) {
  ModelWriter w("loop");
  w.input("x", {2});
  w.initializer("n", {{}, Ints{trips}});
  w.typed_initializer("go", kBool, {}, {condition ? 1.0 : 0.0});
  w.node("Loop", {"n", "go", "x"}, outputs, {{"body", body}});
  for (const std::string& name : outputs) w.output(name);
  return w.finish();
}

std::optional<graph::Refusal> reason(const std::string& model) {
  auto g = import_text(model);
  REQUIRE(!g);
  return graph::refusal_of(g.error());
}

}  // namespace

TEST_CASE("Loop with a trip count is its iterations, one after the other") {
  auto outputs = run_model(loop_model(alternating(), 3, {"y", "sums"}), {}, {{1, 3}});
  CHECK(outputs[0].data == Doubles{6, 18});  // 2 6, 3 9, 6 18
  CHECK(outputs[1].data == Doubles{8, 12, 24});
  CHECK(outputs[1].shape == graph::Shape{3});
  CHECK(run_model(loop_model(alternating(), 3, {"y"}, false), {}, {{1, 3}})[0].data == Doubles{1, 3});
  CHECK(run_model(loop_model(alternating(), 0, {"y"}), {}, {{1, 3}})[0].data == Doubles{1, 3});
  CHECK(reason(loop_model(alternating(), 0, {"y", "sums"})) == graph::Refusal::kNoElements);
  CHECK(reason(loop_model(alternating(), 1'000'000, {"y"})) == graph::Refusal::kTooLarge);
}

TEST_CASE("a loop whose condition is computed keeps its values once the condition was false") {
  const GraphData body = body_of({{"i", kI64}, {"go", kBool}, {"v", kF32}}, {"go_on", "next"}, [](auto& w) {
    w.node("Add", {"v", "v"}, {"next"});
    w.initializer("most", {{}, Floats{20}});
    w.node("ReduceMax", {"next"}, {"high"}, {{"keepdims", int64_t{0}}});
    w.node("Less", {"high", "most"}, {"go_on"});
  });
  CHECK(run_model(loop_model(body, 10, {"y"}), {}, {{1, 3}})[0].data == Doubles{8, 24});
  CHECK(run_model(loop_model(body, 2, {"y"}), {}, {{1, 3}})[0].data == Doubles{4, 12});
  CHECK(run_model(loop_model(body, 10, {"y"}), {}, {{1, 30}})[0].data == Doubles{2, 60});
  ModelWriter w("while");
  w.input("x", {2});
  w.typed_initializer("go", kBool, {}, {1});
  w.node("Loop", {"", "go", "x"}, {"y"}, {{"body", body}});
  w.output("y");
  CHECK(reason(w.finish()) == graph::Refusal::kRunTimeShape);
}

TEST_CASE("If takes the branch of a constant condition, and chooses between results otherwise") {
  auto model = [](const std::string& condition, const GraphData& other) {
    ModelWriter w("if", 17);
    w.input("x", {2});
    w.typed_initializer("yes", kBool, {}, {1});
    w.initializer("zero", {{}, Floats{0}});
    w.node("ReduceSum", {"x"}, {"sum"}, {{"keepdims", int64_t{0}}});
    w.node("Less", {"sum", "zero"}, {"negative"});
    w.node("If", {condition}, {"y"}, {{"then_branch", branch("Neg", "x", "")}, {"else_branch", other}});
    w.output("y");
    return w.finish();
  };
  const GraphData twice = branch("Add", "x", "x");
  CHECK(run_model(model("yes", twice), {}, {{1, 2}})[0].data == Doubles{-1, -2});
  CHECK(run_model(model("negative", twice), {}, {{1, 2}})[0].data == Doubles{2, 4});
  CHECK(run_model(model("negative", twice), {}, {{1, -2}})[0].data == Doubles{-1, 2});
  // A branch that is not taken may hold anything.
  const GraphData unknown = branch("StringNormalizer", "x", "");
  CHECK(run_model(model("yes", unknown), {}, {{1, 2}})[0].data == Doubles{-1, -2});
  CHECK(reason(model("negative", unknown)) == graph::Refusal::kOperator);
  CHECK(reason(model("negative", branch("Concat", "x", "x"))) != graph::Refusal::kOperator);
  // Another shape: how many elements there are is known at run time only.
  const GraphData wide =
      body_of({}, {"o"}, [](auto& w) { w.node("Concat", {"x", "x"}, {"o"}, {{"axis", int64_t{0}}}); });
  auto counted = import_text(model("negative", wide));
  REQUIRE(counted);
  CHECK(counted->value(counted->outputs[0]).shape == graph::Shape{4});
  CHECK(counted->counted_axes == std::vector<graph::CountedAxis>{{0, 0, 0}});
  CHECK(run_model(model("yes", wide), {}, {{1, 2}})[0].data == Doubles{-1, -2});
}

TEST_CASE("Scan walks its inputs along any axis, in both directions") {
  const GraphData body = body_of({{"state", kF32}, {"e", kF32}}, {"next", "before"}, [](auto& w) {
    w.node("Add", {"state", "e"}, {"next"});
    w.node("Identity", {"state"}, {"before"});
  });
  auto model = [&](std::vector<NamedAttribute> attributes) {
    ModelWriter w("scan");
    w.input("x", {2, 3});
    w.initializer("s", {{2}, Floats{0, 0}});
    attributes.push_back({"body", body});
    attributes.push_back({"num_scan_inputs", int64_t{1}});
    attributes.push_back({"scan_input_axes", Ints{1}});
    w.node("Scan", {"s", "x"}, {"y", "z"}, attributes);
    w.output("y");
    w.output("z");
    return run_model(w.finish());
  };
  auto forward = model({});
  CHECK(forward[0].data == Doubles{3, 12});
  CHECK(forward[1].data == Doubles{0, 0, 0, 3, 1, 7});
  auto backward =
      model({{"scan_input_directions", Ints{1}}, {"scan_output_axes", Ints{-1}}, {"scan_output_directions", Ints{1}}});
  CHECK(backward[1].shape == graph::Shape{2, 3});
  CHECK(backward[1].data == Doubles{3, 2, 0, 9, 5, 0});
}

TEST_CASE("sequences of known length exist while a model is imported") {
  ModelWriter w("sequence", 17);
  w.input("x", {5, 2});
  w.initializer("two", {{}, Ints{2}});
  w.initializer("last", {{}, Ints{-1}});
  w.initializer("zero", {{}, Ints{0}});
  w.node("SplitToSequence", {"x", "two"}, {"parts"});  // 2, 2 and 1 rows
  w.node("SequenceAt", {"parts", "last"}, {"tail"});
  w.node("SequenceErase", {"parts", "zero"}, {"rest"});
  w.node("SequenceInsert", {"rest", "tail", "zero"}, {"turned"});
  w.node("SequenceLength", {"turned"}, {"count"});
  const GraphData body =
      body_of({{"part", kF32}}, {"twice"}, [](auto& b) { b.node("Add", {"part", "part"}, {"twice"}); });
  w.node("SequenceMap", {"turned"}, {"mapped"}, {{"body", body}});
  w.node("ConcatFromSequence", {"mapped"}, {"y"}, {{"axis", int64_t{0}}});
  w.output("y");
  w.output("count", kI64);
  auto outputs = run_model(w.finish());
  CHECK(outputs[0].data == Doubles{16, 18, 8, 10, 12, 14, 16, 18});
  CHECK(outputs[1].data == Doubles{3});

  ModelWriter list("list", 17);
  list.input("x", {2});
  list.node("SequenceConstruct", {"x", "x"}, {"pair"});
  list.node("Relu", {"pair"}, {"y"});
  list.output("y");
  CHECK(reason(list.finish()) == graph::Refusal::kNotATensor);
}

TEST_CASE("optionals that are empty are known to be") {
  ModelWriter w("optional", 18);
  w.input("x", {2});
  w.node("Optional", {"x"}, {"full"});
  w.node("Optional", {}, {"none"});
  w.node("OptionalHasElement", {"none"}, {"has"});
  w.node("OptionalGetElement", {"full"}, {"value"});
  w.node("If", {"has"}, {"y"},
         {{"then_branch", branch("Neg", "value", "")}, {"else_branch", branch("Abs", "value", "")}});
  w.output("y");
  CHECK(run_model(w.finish(), {}, {{-1, 2}})[0].data == Doubles{1, 2});
}

TEST_CASE("functions of the model are inlined, with the attributes of each call") {
  const GraphData scaled =
      body_of({}, {}, [](auto& w) { w.node("LeakyRelu", {"a"}, {"b"}, {{"alpha", std::string("$slope")}}); });
  const GraphData outer = body_of({}, {}, [](auto& w) {
    w.node("Scaled", {"p"}, {"t"}, {{"slope", 0.5f}}, "f");
    w.node("Scaled", {"t"}, {"q"}, {}, "f");  // LeakyRelu's own default
  });
  ModelWriter w("functions", 17);
  w.input("x", {2});
  w.node("Outer", {"x"}, {"y"}, {}, "f");
  w.node("Scaled", {"x"}, {"z"}, {{"slope", 0.25f}}, "f");
  w.function("f", "Scaled", {"a"}, {"b"}, {"slope"}, scaled);
  w.function("f", "Outer", {"p"}, {"q"}, {}, outer);
  w.output("y");
  w.output("z");
  auto outputs = run_model(w.finish(), {}, {{-8, 8}});
  CHECK(outputs[0].data[0] == Approx(-0.04));
  CHECK(outputs[0].data[1] == 8);
  CHECK(outputs[1].data == Doubles{-2, 8});
}

TEST_CASE("bodies that lack what they are asked for are named", "[errors]") {
  auto message = [](const std::string& model) {
    auto g = import_text(model);
    REQUIRE(!g);
    return g.error().message;
  };
  const GraphData two = body_of({{"i", kI64}, {"go", kBool}}, {"go"}, [](auto&) {});
  CHECK_THAT(message(loop_model(two, 3, {"y"})), Contains("0 values are carried, 1 are given"));
  const GraphData lost = body_of({{"i", kI64}, {"go", kBool}, {"v", kF32}}, {"go", "gone"}, [](auto&) {});
  CHECK_THAT(message(loop_model(lost, 3, {"y"})), Contains("does not produce its output 'gone'"));
  const GraphData broken = body_of({{"i", kI64}, {"go", kBool}, {"v", kF32}}, {"go", "o"},
                                   [](auto& w) { w.node("Add", {"v", "nowhere"}, {"o"}); });
  CHECK_THAT(message(loop_model(broken, 3, {"y"})), Contains("'nowhere', which nothing produces"));
}
