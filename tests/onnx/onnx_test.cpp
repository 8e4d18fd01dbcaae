#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "graph/print_graph.h"
#include "onnx/models.h"
#include "skip.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Op;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

namespace {

graph::Graph must_import(std::string bytes, const ImportOptions& options = {}) {
  auto g = import_text(std::move(bytes), options);
  INFO((g ? "" : g.error().message));
  REQUIRE(g.has_value());
  graph::verify_graph(*g);
  return std::move(*g);
}

std::string error_text(std::string bytes, const ImportOptions& options = {}) {
  auto g = import_text(std::move(bytes), options);
  REQUIRE(!g.has_value());
  std::string text = g.error().message + " | " + g.error().hint;
  for (const auto& note : g.error().notes) text += "\n" + note;
  return text;
}

std::string ops_of(const graph::Graph& g) {
  std::string ops;
  for (auto id : g.order) ops += (ops.empty() ? "" : " ") + std::string(op_name(g.node(id).op));
  return ops;
}

// One node "N" with input x of `shape` and further inputs as initializers in0, in1, ...
std::string one_node(const std::string& op, const Shape& shape, const std::vector<TensorData>& extra,
                     const std::vector<NamedAttribute>& attributes, int64_t opset, const std::string& domain = "") {
  ModelWriter w("one", opset);
  w.input("x", shape);
  std::vector<std::string> inputs{"x"};
  for (size_t i = 0; i < extra.size(); ++i)
    inputs.push_back(w.initializer("in" + std::to_string(i), extra[i], i % 2 == 1));
  w.node(op, inputs, {"y"}, attributes, domain);
  w.output("y");
  return w.finish();
}

Shape shape_after(const std::string& op, const Shape& shape, const std::vector<TensorData>& extra,
                  const std::vector<NamedAttribute>& attributes, int64_t opset) {
  auto g = must_import(one_node(op, shape, extra, attributes, opset));
  return g.value(g.outputs[0]).shape;
}

std::filesystem::path models_folder() {
  const char* env = std::getenv("TCC_MODELS");
  return env ? std::filesystem::path(env) : std::filesystem::path(TCC_SOURCE_DIR) / ".." / "shared" / "models";
}

std::vector<std::filesystem::path> stored_models() {
  std::vector<std::filesystem::path> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(models_folder(), none)) {
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) tcc::testing::report_skip("no .onnx files in " + models_folder().string() + " (set TCC_MODELS)");
  return paths;
}

std::map<std::string, int> fused_counts(graph::Graph& g) {
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(g, evaluator.get()));
  std::map<std::string, int> counts;
  auto groups = graph::fuse(g);
  graph::plan_memory(g, groups);
  for (const auto& group : groups) ++counts[graph::group_text(g, group)];
  return counts;
}

}  // namespace

TEST_CASE("zoo networks import, fuse and fold") {
  auto mlp = load_model("zoo:mlp");
  REQUIRE(mlp);
  CHECK(fused_counts(*mlp) == std::map<std::string, int>{{"Gemm", 1}, {"Gemm+Relu", 2}});
  auto resnet = load_model("zoo:resnet18");
  REQUIRE(resnet);
  CHECK(resnet->value(resnet->inputs[0]).shape == Shape{1, 3, 224, 224});
  CHECK(fused_counts(*resnet) ==
        std::map<std::string, int>{
            {"Conv+Relu", 9}, {"Conv+Add+Relu", 8}, {"Conv", 3}, {"MaxPool", 1}, {"ReduceMean", 1}, {"Gemm", 1}});
  auto mobile = load_model("zoo:mobilenet_v2", {}, {.image = 64});
  REQUIRE(mobile);
  CHECK(fused_counts(*mobile)["Conv+Clip"] == 35);
  CHECK(*zoo_model("mlp", {.seed = 5}) == *zoo_model("mlp", {.seed = 5}));
  CHECK(*zoo_model("mlp", {.seed = 5}) != *zoo_model("mlp", {.seed = 6}));
  // The width multiplier rounds channels to multiples of 8, by at most a tenth down: 32, 16, 24, 32, 64, 96, 160, 320
  // become these; the last layer keeps its 1,280.
  auto narrow = load_model("zoo:mobilenet_v2", {}, {.image = 64, .width = 75});
  REQUIRE(narrow);
  std::set<int64_t> projected;
  for (const graph::Value& value : narrow->values)
    if (value.shape.size() == 4 && value.name.find("project.0.output") != std::string::npos)
      projected.insert(value.shape[1]);
  CHECK(projected == std::set<int64_t>{16, 24, 48, 72, 120, 240});
  CHECK(fused_counts(*narrow)["Conv+Clip"] == 35);
  CHECK(*zoo_model("mobilenet_v2", {.width = 100}) == *zoo_model("mobilenet_v2"));
  CHECK(!zoo_model("mobilenet_v2", {.width = 5}));
  auto fixed = zoo_model("resnet18", {.width = 50});
  REQUIRE(!fixed);
  CHECK(fixed.error().message.find("resnet18") != std::string::npos);
  auto wrong = load_model("zoo:resnet81");
  REQUIRE(!wrong);
  CHECK(wrong.error().hint.find("resnet18") != std::string::npos);
  CHECK(!zoo_model("mlp", {.batch = 0}));
}

TEST_CASE("optimizing resnet18 keeps its function") {
  auto g = load_model("zoo:resnet18", {}, {.batch = 2, .image = 64, .seed = 9});
  REQUIRE(g);
  std::vector<graph::HostTensor> in{graph::random_tensor(g->value(g->inputs[0]), 4)};
  auto before = graph::run_reference(*g, in);
  REQUIRE(graph::optimize(*g, nullptr));
  auto after = graph::run_reference(*g, in);
  REQUIRE((before && after));
  double largest = 0, difference = 0, spread = 0;
  const auto &a = (*before)[0].data, &b = (*after)[0].data;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    difference = std::max(difference, std::fabs(a[i] - b[i]));
    spread = std::max(spread, std::fabs(a[i] - a[(i + 1000) % a.size()]));
  }
  CHECK(difference < 1e-5 * largest);
  CHECK(difference > 0);  // the weights were really folded
  CHECK(spread > 0.1);    // the output depends on the image
  CHECK(largest < 1000);
}

TEST_CASE("stored models import, reseed, optimize and fuse") {
  for (const auto& path : stored_models()) {
    INFO(path);
    auto g = import_model(path.string());
    INFO((g ? "" : g.error().message));
    REQUIRE(g);
    bool light = path.filename().string().starts_with("light_");
    bool large = path.filename().string().find("vgg") != std::string::npos;
    if (light && !large) graph::reseed_weights(*g, 1);
    auto counts = fused_counts(*g);
    if (path.filename() == "light_resnet50.onnx") {
      CHECK(counts == std::map<std::string, int>{{"Conv", 4},
                                                 {"Conv+Relu", 33},
                                                 {"Conv+Add+Relu", 16},
                                                 {"MaxPool", 1},
                                                 {"AveragePool", 1},
                                                 {"Gemm", 1},
                                                 {"Softmax", 1}});
    }
    if (path.filename() == "resnet_2b.onnx") CHECK(counts["Conv+Add+Relu"] == 2);
  }
}

TEST_CASE("operators of every opset version import") {
  Shape image{2, 3, 8, 8};
  TensorData channels{{3}, Floats{1, 2, 3}};
  // Broadcasting before opset 7 is asked for, and aligned at `axis`.
  CHECK(shape_after("Add", image, {channels}, {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}}, 6) == image);
  CHECK(error_text(one_node("Add", image, {channels}, {}, 6)).find("'broadcast' is not set") != std::string::npos);
  CHECK(error_text(one_node("Add", image, {channels}, {{"broadcast", int64_t{1}}}, 6)).find("cannot broadcast") !=
        std::string::npos);
  CHECK(error_text(one_node("Add", image, {{{1}, Floats{1}}}, {{"axis", int64_t{1}}}, 7))
            .find("attribute 'axis' is not known") != std::string::npos);
  CHECK(shape_after("Relu", image, {}, {{"consumed_inputs", Ints{0}}}, 1) == image);
  CHECK(error_text(one_node("Relu", image, {}, {{"consumed_inputs", Ints{0}}}, 6)).find("consumed_inputs") !=
        std::string::npos);
  std::vector<TensorData> norm(4, channels);
  CHECK(shape_after("BatchNormalization", image, norm, {{"is_test", int64_t{1}}, {"spatial", int64_t{1}}}, 6) == image);
  CHECK(error_text(one_node("BatchNormalization", image, norm, {}, 6)).find("is_test") != std::string::npos);
  CHECK(shape_after("BatchNormalization", image, norm, {{"training_mode", int64_t{1}}}, 15) == image);
  CHECK(shape_after("Reshape", image, {}, {{"shape", Ints{0, -1}}}, 4) == Shape{2, 192});
  CHECK(shape_after("Reshape", image, {{{3}, Ints{0, 4, -1}}}, {}, 13) == Shape{2, 4, 48});
  CHECK(error_text(one_node("Reshape", image, {{{2}, Ints{0, -1}}}, {{"allowzero", int64_t{1}}}, 14))
            .find("no value fits") != std::string::npos);
  CHECK(shape_after("Softmax", image, {}, {{"axis", int64_t{-1}}}, 13) == image);
  CHECK(shape_after("Pad", image, {}, {{"pads", Ints{0, 0, 1, 2, 0, 0, 3, 4}}}, 2) == Shape{2, 3, 12, 14});
  CHECK(shape_after("Pad", image, {{{4}, Ints{1, 2, 3, 4}}, {{}, Floats{0}}, {{2}, Ints{-1, 2}}}, {}, 18) ==
        Shape{2, 3, 14, 12});
  CHECK(shape_after("Unsqueeze", image, {}, {{"axes", Ints{0, 5}}}, 1) == Shape{1, 2, 3, 8, 8, 1});
  CHECK(shape_after("Unsqueeze", image, {{{1}, Ints{-1}}}, {}, 13) == Shape{2, 3, 8, 8, 1});
  CHECK(shape_after("Squeeze", {1, 4, 1, 1}, {{{2}, Ints{0, -1}}}, {}, 13) == Shape{4, 1});
  CHECK(shape_after("ReduceMean", image, {}, {{"axes", Ints{-1, 2}}, {"keepdims", int64_t{0}}}, 13) == Shape{2, 3});
  CHECK(shape_after("ReduceMean", image, {{{1}, Ints{1}}}, {}, 18) == Shape{2, 1, 8, 8});
  CHECK(shape_after("Transpose", image, {}, {}, 13) == Shape{8, 8, 3, 2});
  CHECK(shape_after("Clip", image, {}, {{"min", 0.0f}, {"max", 6.0f}}, 6) == image);
  CHECK(shape_after("MaxPool", image, {},
                    {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
                    12) == Shape{2, 3, 4, 4});
  CHECK(shape_after("AveragePool", image, {},
                    {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{3, 3}}, {"auto_pad", std::string("SAME_UPPER")}},
                    12) == Shape{2, 3, 3, 3});
  CHECK(shape_after("Conv", image, {{{4, 3, 3, 3}, Floats(108, 1)}},
                    {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 2}}}, 11) == Shape{2, 4, 4, 4});
  CHECK(shape_after("Dropout", image, {{{}, Floats{0.5f}}}, {}, 12) == image);
  CHECK(shape_after("Sum", image, {{{3, 1, 1}, Floats{1, 2, 3}}, {{1}, Floats{1}}}, {}, 8) == image);
  CHECK(shape_after("Flatten", image, {}, {{"axis", int64_t{-2}}}, 11) == Shape{6, 64});
}

TEST_CASE("SAME_UPPER and SAME_LOWER put the odd padding on their side") {
  for (bool upper : {true, false}) {
    auto g = must_import(
        one_node("MaxPool", {1, 1, 4, 4}, {},
                 {{"kernel_shape", Ints{2, 2}}, {"auto_pad", std::string(upper ? "SAME_UPPER" : "SAME_LOWER")}}, 11));
    const auto& pool = g.node(g.order[0]).as<graph::PoolAttrs>();
    CHECK(pool.pads_begin == Ints{upper ? 0 : 1, upper ? 0 : 1});
    CHECK(pool.pads_end == Ints{upper ? 1 : 0, upper ? 1 : 0});
  }
}

TEST_CASE("shape arithmetic of old exporters is evaluated") {
  ModelWriter w("view", 11);
  w.input("x", {4, 3, 2, 2});
  w.node("Shape", {"x"}, {"shape"});
  w.initializer("zero", {{}, Ints{0}});
  w.node("Gather", {"shape", "zero"}, {"n"}, {{"axis", int64_t{0}}});
  w.node("Unsqueeze", {"n"}, {"n1"}, {{"axes", Ints{0}}});
  w.node("Constant", {}, {"minus"}, {{"value", TensorData{{1}, Ints{-1}}}});
  w.node("Concat", {"n1", "minus"}, {"target"}, {{"axis", int64_t{0}}});
  w.node("Reshape", {"x", "target"}, {"y"});
  w.output("y", {4, 12});
  CHECK(ops_of(must_import(w.finish())) == "Reshape");
}

TEST_CASE("initializers may be listed as inputs, nodes may come in any order, weights may be splats") {
  ModelWriter w("order", 9, 3);
  w.input("x", {1, 2, 4, 4});
  w.input("w", {2, 2, 1, 1});
  w.initializer("w", {{2, 2, 1, 1}, Floats{1, 2, 3, 4}});
  w.initializer("bias_shape", {{1}, Ints{2}});
  w.node("Relu", {"c"}, {"y"});
  w.node("Conv", {"x", "w", "b"}, {"c"});
  w.node("ConstantOfShape", {"bias_shape"}, {"b"}, {{"value", TensorData{{1}, Floats{0.5f}}}});
  w.output("y", {1, 2, 4, 4});
  auto g = must_import(w.finish());
  CHECK(g.inputs.size() == 1);
  CHECK(ops_of(g) == "Conv Relu");
  CHECK(g.value(g.node(g.order[0]).inputs[2]).constant->splat);
}

TEST_CASE("softmax before opset 13 normalizes all axes from its own on") {
  auto run = [](int64_t opset) {
    ModelWriter w("softmax", opset);
    w.input("x", {1, 2, 2});
    w.node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{1}}});
    w.output("y", {1, 2, 2});
    auto out = graph::run_reference(must_import(w.finish()), {{{1, 2, 2}, {0, 0, 0, 0}}}, 1);
    REQUIRE(out);
    return (*out)[0].data[0];
  };
  CHECK(run(11) == Approx(0.25));
  CHECK(run(13) == Approx(0.5));
}

TEST_CASE("dynamic dimensions are bound by name or shape, and all unbound ones are listed", "[errors]") {
  ModelWriter w("dynamic", 13);
  w.input("a", {0, 3}, {"batch"});
  w.input("b", {0, 0}, {"batch", "width"});
  w.node("MatMul", {"a", "b"}, {"y"});
  w.output("y", {0, 0});
  std::string bytes = w.finish();
  std::string text = error_text(bytes);
  CHECK(text.find(": --dim batch=1 --dim width=1\n") != std::string::npos);  // each once, to paste
  CHECK(text.find("input 'b': axis 1 is 'width'") != std::string::npos);
  ModelWriter v("dynamic", 13);
  v.input("a", {0, 3}, {"batch"});
  v.node("Relu", {"a"}, {"y"});
  v.output("y", {5, 3});
  CHECK(must_import(v.finish(), {.dims = {{"batch", 5}}}).value(0).shape == Shape{5, 3});
  CHECK(must_import(v.finish(), {.input_shapes = {{"a", {5, 3}}}}).value(0).shape == Shape{5, 3});
  CHECK(error_text(v.finish(), {.input_shapes = {{"a", {5}}}}).find("rank") != std::string::npos);
  CHECK(error_text(v.finish(), {.input_shapes = {{"aa", {5, 3}}}, .dims = {{"batch", 5}}}).find("not an input") !=
        std::string::npos);
  CHECK(error_text(v.finish(), {.dims = {{"batch", -2}}}).find("negative") != std::string::npos);
}

TEST_CASE("unsupported operators are reported all at once, with counts and clean names", "[errors]") {
  ModelWriter w("unsupported", 13);
  w.input("x", {1});
  w.node("StringNormalizer", {"x"}, {"evil\x1b[2J"});
  w.node("StringNormalizer", {"x"}, {"b"});
  w.node("Relu", {"x"}, {"c"}, {}, "com.acme");
  w.node("Relu", {"x"}, {"d"});
  w.output("d", {1});
  std::string text = error_text(w.finish());
  CHECK(text.find("2 operators") != std::string::npos);
  CHECK(text.find("3 of 4 nodes") != std::string::npos);
  CHECK(text.find("StringNormalizer  opset 13  2 nodes") != std::string::npos);
  CHECK(text.find("com.acme::Relu") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("models with broken structure are refused", "[errors]") {
  auto model = [](auto fill) {
    ModelWriter w("broken", 13);
    w.input("x", {1, 2});
    fill(w);
    return error_text(w.finish());
  };
  CHECK(model([](auto& w) {
          w.node("Add", {"x", "b"}, {"a"}), w.node("Relu", {"a"}, {"b"}), w.output("b", {1, 2});
        }).find("cycle") != std::string::npos);
  CHECK(model([](auto& w) {
          w.node("Relu", {"x"}, {"a"}), w.node("Relu", {"x"}, {"a"}), w.output("a", {1, 2});
        }).find("more than once") != std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {"x"}, {"x"}), w.output("x", {1, 2}); }).find("more than once") !=
        std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {"nowhere"}, {"a"}), w.output("a", {1, 2}); }).find("nothing produces") !=
        std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {"x"}, {"a"}), w.output("b", {1, 2}); }).find("not produced") !=
        std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {"x"}, {"a"}); }).find("no outputs") != std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {""}, {"a"}), w.output("a", {1, 2}); }).find("inputs") != std::string::npos);
  CHECK(model([](auto& w) { w.node("Relu", {"x"}, {"a"}), w.output("a", {1, 3}); }).find("declared with shape 1x3") !=
        std::string::npos);
  CHECK(model([](auto& w) {
          w.initializer("w", {{2, 2}, Floats{1, 2, 3}}), w.node("MatMul", {"x", "w"}, {"a"}), w.output("a", {1, 2});
        }).find("12 bytes") != std::string::npos);
  CHECK(model([](auto& w) {
          w.initializer("w", {{2, 2}, Floats{1, 2, 3}}, true), w.node("MatMul", {"x", "w"}, {"a"}),
              w.output("a", {1, 2});
        }).find("3 elements are stored") != std::string::npos);
  CHECK(model([](auto& w) {
          w.initializer("w", {{int64_t{1} << 62, 4}, Floats{1}}), w.node("MatMul", {"x", "w"}, {"a"}),
              w.output("a", {1, 2});
        }).find("too large") != std::string::npos);
  CHECK(model([](auto& w) {
          w.initializer("w", {{-5}, Floats{1}}), w.node("MatMul", {"x", "w"}, {"a"}), w.output("a", {1, 2});
        }).find("negative dimension") != std::string::npos);
  CHECK(model([](auto& w) {
          w.initializer("s", {{2}, Ints{int64_t{1} << 30, int64_t{1} << 30}}), w.node("ConstantOfShape", {"s"}, {"a"}),
              w.output("a", {});
        }).find("too large") != std::string::npos);
  CHECK(model([](auto& w) { w.node("Reshape", {"x", "x"}, {"a"}), w.output("a", {1, 2}); }).find("run time") !=
        std::string::npos);
  for (auto attribute : {NamedAttribute{"strides", Ints{0, 1}}, NamedAttribute{"group", int64_t{0}},
                         NamedAttribute{"group", int64_t{5}}, NamedAttribute{"dilations", Ints{1, -1}},
                         NamedAttribute{"pads", Ints{0, 0, 0, int64_t{1} << 60}}, NamedAttribute{"strides", Ints{1}},
                         NamedAttribute{"kernel_shape", Ints{2, 2}}, NamedAttribute{"auto_pad", std::string("SOME")},
                         NamedAttribute{"strides", 1.0f}, NamedAttribute{"bogus", int64_t{1}}}) {
    std::string text = error_text(one_node("Conv", {1, 2, 4, 4}, {{{2, 2, 1, 1}, Floats(4, 1)}}, {attribute}, 13));
    INFO(attribute.name << ": " << text);
    CHECK(text.find("'y' (Conv)") != std::string::npos);
  }
}

TEST_CASE("files that are not models are refused", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-onnx-");
  REQUIRE(folder);
  auto error = [&](const std::string& name, const std::string& content) {
    std::string path = (*folder)->path() + "/" + name;
    REQUIRE(write_file(path, content));
    auto g = import_model(path);
    REQUIRE(!g);
    CHECK(g.error().message.find(name) != std::string::npos);
    return g.error().message + " | " + g.error().hint;
  };
  CHECK(error("empty.onnx", "").find("is empty") != std::string::npos);
  CHECK(error("text.onnx", "hello, world\n").find("not an ONNX model") != std::string::npos);
  CHECK(error("zip.onnx", "PK\x03\x04 data").find("PyTorch") != std::string::npos);
  CHECK(error("page.onnx", "<html></html>").find("HTML") != std::string::npos);
  std::string zeros(1000, '\0');
  CHECK(error("zeros.onnx", zeros).find("not an ONNX model") != std::string::npos);
  std::string mlp = *zoo_model("mlp");
  CHECK(error("cut.onnx", mlp.substr(0, mlp.size() / 2)).find("truncated") != std::string::npos);
  auto missing = import_model((*folder)->path() + "/missing.onnx");
  REQUIRE(!missing);
  CHECK(missing.error().message.find("missing.onnx") != std::string::npos);
  auto directory = import_model((*folder)->path());
  REQUIRE(!directory);
  CHECK(directory.error().message.find("directory") != std::string::npos);
}

TEST_CASE("external data is read inside the model's folder only", "[errors]") {
  auto folder = TemporaryDirectory::create("tcc-onnx-");
  REQUIRE(folder);
  std::string root = (*folder)->path();
  REQUIRE(make_directories(root + "/model/sub"));
  Floats numbers{9, 1, 2, 3, 4};
  std::string data(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  REQUIRE(write_file(root + "/secret.bin", data));
  REQUIRE(write_file(root + "/model/sub/weights.bin", data));
  std::filesystem::create_symlink(root + "/secret.bin", root + "/model/link.bin");
  std::filesystem::create_directory_symlink(root, root + "/model/up");
  auto load = [&](const std::string& location, int64_t offset = 4, int64_t length = 16) {
    ModelWriter w("external", 13);
    w.input("x", {1, 2});
    w.external_initializer("w", {2, 2}, location, offset, length);
    w.node("MatMul", {"x", "w"}, {"y"});
    w.output("y");
    REQUIRE(write_file(root + "/model/m.onnx", w.finish()));
    return import_model(root + "/model/m.onnx");
  };
  auto good = load("./sub/weights.bin");
  REQUIRE(good);
  auto out = graph::run_reference(*good, {{{1, 2}, {1, 10}}}, 1);
  REQUIRE(out);
  CHECK((*out)[0].data == std::vector<double>{31, 42});
  CHECK(load("sub/weights.bin", 4, -1));
  for (const char* location : {"../secret.bin", "sub/../../secret.bin", "link.bin", "up/secret.bin", "/etc/passwd", "",
                               "sub", "missing.bin", "..\\secret.bin"}) {
    INFO(location);
    auto refused = load(location);
    REQUIRE(!refused);
    CHECK(refused.error().message.find("external data") != std::string::npos);
  }
  CHECK(!load("sub/weights.bin", 8));      // runs past the end
  CHECK(!load("sub/weights.bin", 4, 12));  // too short
  CHECK(!load("sub/weights.bin", int64_t{1} << 62, 16));
}

TEST_CASE("written zoo files import from disk") {
  auto folder = TemporaryDirectory::create("tcc-onnx-");
  REQUIRE(folder);
  std::string path = (*folder)->path() + "/mlp.onnx";
  REQUIRE(write_zoo("mlp", {.batch = 3}, path));
  auto g = import_model(path);
  REQUIRE(g);
  CHECK(g->value(g->inputs[0]).shape == Shape{3, 784});
}

// Bytes changed, cut, repeated or exchanged: import and everything after it must end in a value or an error.
