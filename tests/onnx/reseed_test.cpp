// Models with other weights, written as files.
#include <catch2/catch.hpp>

#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/reseed.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::onnx;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

namespace {

// The imported file computes the same as the original reseeded after its import, and not the same as the original.
void check_same_function(const graph::Graph& original, const std::string& written, uint64_t seed) {
  graph::Graph reseeded = original;
  graph::reseed_weights(reseeded, seed);
  auto again = import_bytes(std::make_shared<const std::string>(written), "written.onnx");
  INFO((again ? "" : again.error().message));
  REQUIRE(again);
  REQUIRE(again->inputs.size() == original.inputs.size());
  std::vector<graph::HostTensor> in;
  for (graph::ValueId id : original.inputs) in.push_back(graph::random_tensor(original.value(id), 3));
  auto wanted = graph::run_reference(reseeded, in);
  auto got = graph::run_reference(*again, in);
  auto before = graph::run_reference(original, in);
  REQUIRE((wanted && got && before));
  CHECK((*got)[0].data == (*wanted)[0].data);
  CHECK((*got)[0].data != (*before)[0].data);
}

TensorData constant_weight(const graph::Shape& shape) {
  return {shape, Floats(static_cast<size_t>(graph::element_count(shape)), 0.02f)};
}

}  // namespace

TEST_CASE("a model with other weights is a file that computes with them") {
  ModelWriter w("net", 13);
  w.input("x", {1, 4, 6, 6});
  w.initializer("w0", constant_weight({4, 4, 3, 3}));
  w.initializer("shape", {{4}, Ints{4, 4, 1, 1}});
  // A weight that an operator makes, and one that two operators make of another.
  w.node("ConstantOfShape", {"shape"}, {"w1"}, {{"value", TensorData{{1}, Floats{0.02f}}}});
  w.initializer("flat", constant_weight({16}));
  w.node("Reshape", {"flat", "shape"}, {"w2"});
  w.node("Conv", {"x", "w0"}, {"a"}, {{"pads", Ints{1, 1, 1, 1}}});
  w.node("Conv", {"a", "w1"}, {"b"});
  w.node("Conv", {"b", "w2"}, {"y"});
  w.output("y", {1, 4, 6, 6});
  auto bytes = std::make_shared<const std::string>(w.finish());
  auto original = import_bytes(bytes, "net.onnx");
  INFO((original ? "" : original.error().message));
  REQUIRE(original);
  auto written = reseeded_bytes(bytes, "net.onnx", {}, 7);
  INFO((written ? "" : written.error().message));
  REQUIRE(written);
  check_same_function(*original, *written, 7);
  CHECK(*written == *reseeded_bytes(bytes, "net.onnx", {}, 7));
  CHECK(*written != *reseeded_bytes(bytes, "net.onnx", {}, 8));
}

TEST_CASE("networks of the zoo are written with other weights") {
  auto bytes = zoo_model("mobilenet_v2", {.image = 32});
  REQUIRE(bytes);
  auto shared = std::make_shared<const std::string>(std::move(*bytes));
  auto original = import_bytes(shared, "mobilenet_v2");
  REQUIRE(original);
  auto written = reseeded_bytes(shared, "mobilenet_v2", {}, 3);
  INFO((written ? "" : written.error().message));
  REQUIRE(written);
  check_same_function(*original, *written, 3);
}

TEST_CASE("weights of other files come inside of the one that is written") {
  auto folder = TemporaryDirectory::create("tcc-reseed");
  REQUIRE(folder);
  const std::string path = (*folder)->path() + "/net.onnx";
  ModelWriter w("external", 13);
  w.input("x", {2, 2});
  w.external_initializer("w", {2, 2}, "data.bin", 0, 16);
  w.node("MatMul", {"x", "w"}, {"y"});
  w.output("y", {2, 2});
  const Floats data{1, 2, 3, 4};
  REQUIRE(write_file((*folder)->path() + "/data.bin", {reinterpret_cast<const char*>(data.data()), 16}));
  REQUIRE(write_file(path, w.finish()));
  auto original = import_model(path);
  REQUIRE(original);
  auto written = reseeded_model(path, {}, 1);
  INFO((written ? "" : written.error().message));
  REQUIRE(written);
  check_same_function(*original, *written, 1);  // reads it without the folder
}

TEST_CASE("what cannot be read or written with other weights is an error", "[errors]") {
  auto none = reseeded_model("/nowhere/net.onnx", {}, 1);
  REQUIRE(!none);
  CHECK(none.error().message.find("/nowhere/net.onnx") != std::string::npos);
  auto text = reseeded_bytes(std::make_shared<const std::string>("{}"), "net.json", {}, 1);
  REQUIRE(!text);
  CHECK(text.error().message.find("net.json") != std::string::npos);
}
