// BERT as exporters write it, and weights that are never copied.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "graph/print_graph.h"
#include "onnx/wire.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/onnx/load.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Op;
using graph::Shape;

namespace {

// Distinct groups with their counts, by text and shapes: what tasks are.
std::map<std::string, int> group_kinds(graph::Graph& g) {
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(g, evaluator.get()));
  std::map<std::string, int> kinds;
  for (const auto& group : graph::fuse(g)) {
    std::string text = graph::group_text(g, group);
    for (auto id : group.nodes) text += " " + graph::attributes_text(g.node(id));
    for (auto id : group.inputs) text += " " + graph::shape_text(g.value(id).shape);
    for (auto id : group.constants) text += " " + graph::shape_text(g.value(id).shape);
    ++kinds[text];
  }
  return kinds;
}

}  // namespace

TEST_CASE("BERT's graph becomes a handful of tasks without transposes") {
  auto g = load_model("zoo:bert-tiny", {}, {.sequence = 16});
  REQUIRE(g);
  CHECK(g->order.size() > 100);
  auto kinds = group_kinds(*g);
  CHECK(kinds.size() <= 14);
  std::map<Op, int> ops;
  for (auto id : g->order) ++ops[g->node(id).op];
  CHECK(ops[Op::kTranspose] == 0);
  CHECK(ops[Op::kLayerNorm] == 5);
  CHECK(ops[Op::kMatMul] == 4);
  CHECK(ops[Op::kGemm] == 13);
  CHECK(ops[Op::kReduceMean] == 0);
  int gelus = 0;
  for (const auto& [text, count] : kinds) gelus += text.starts_with("Gemm+Gelu") ? count : 0;
  CHECK(gelus == 2);
}

TEST_CASE("optimizing BERT keeps its function, masks included") {
  auto g = load_model("zoo:bert-tiny", {}, {.batch = 2, .sequence = 7});
  REQUIRE(g);
  std::vector<graph::HostTensor> in;
  for (auto id : g->inputs) in.push_back(graph::random_tensor(g->value(id), 3 + static_cast<uint64_t>(id)));
  for (double& m : in[1].data) m = m > 3;
  for (double& s : in[2].data) s = s > 3;
  auto before = graph::run_reference(*g, in);
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(*g, evaluator.get()));
  auto after = graph::run_reference(*g, in);
  REQUIRE((before && after));
  for (size_t k = 0; k < 2; ++k) {
    double largest = 0;
    for (size_t i = 0; i < (*before)[k].data.size(); ++i) {
      REQUIRE((*after)[k].data[i] == Approx((*before)[k].data[i]).margin(1e-5));
      largest = std::max(largest, std::fabs((*after)[k].data[i]));
    }
    CHECK(largest > 0.3);
  }
}

TEST_CASE("large weights are views of the model's bytes") {
  auto bytes = std::make_shared<const std::string>(*zoo_model("mlp"));
  auto split = split_weights(std::as_bytes(std::span(*bytes)));
  REQUIRE(split);
  CHECK(split->rest.size() < 4000);
  auto g = import_bytes(bytes, "mlp.onnx");
  REQUIRE(g);
  int views = 0;
  for (const auto& value : g->values) {
    if (!value.is_constant() || value.bytes() < 1024) continue;
    const auto* at = reinterpret_cast<const char*>(value.constant->bytes.data());
    CHECK((at >= bytes->data() && at < bytes->data() + bytes->size()));
    ++views;
  }
  CHECK(views == 5);  // three matrices and two biases; the last bias is small
}

TEST_CASE("bytes in an unusual form are left to the parser") {
  auto splits = [](const std::string& bytes) { return split_weights(std::as_bytes(std::span(bytes))).has_value(); };
  std::string mlp = *zoo_model("mlp");
  CHECK(splits(mlp));
  CHECK(!splits(mlp + "\x3a\x02\x12"));  // cut in a field
  CHECK(!splits("\x08\x08"));            // no graph
  // Two graphs are one message to the parser: the fields of both.
  std::string two = mlp + std::string("\x3a\x03\x12\x01g", 5);
  CHECK(!splits(two));
  auto g = import_bytes(std::make_shared<const std::string>(two), "two.onnx");
  REQUIRE(g);
  CHECK(g->name == "g");
  // A cut-out weight of the wrong size is still refused.
  ModelWriter w("short", 13);
  w.input("x", {1, 64});
  w.initializer("w", {{64, 64}, std::vector<float>(4000, 1.0f)});
  w.node("MatMul", {"x", "w"}, {"y"});
  w.output("y");
  auto wrong = import_bytes(std::make_shared<const std::string>(w.finish()), "short.onnx");
  REQUIRE(!wrong);
  CHECK(wrong.error().message.find("16000 bytes") != std::string::npos);
}

TEST_CASE("external data is named with its size and hash") {
  auto folder = TemporaryDirectory::create("tcc-onnx-");
  REQUIRE(folder);
  std::string root = (*folder)->path();
  auto load = [&](float first) {
    std::vector<float> numbers{first, 2, 3, 4};
    REQUIRE(write_file(root + "/w.bin", {reinterpret_cast<const char*>(numbers.data()), 16}));
    ModelWriter w("external", 13);
    w.input("x", {1, 2});
    w.external_initializer("w", {2, 2}, "w.bin", 0, 16);
    w.node("MatMul", {"x", "w"}, {"y"});
    w.output("y");
    REQUIRE(write_file(root + "/m.onnx", w.finish()));
    auto g = import_model(root + "/m.onnx");
    REQUIRE(g);
    REQUIRE(g->data_files.size() == 1);
    CHECK(g->data_files[0].location == "w.bin");
    CHECK(g->data_files[0].bytes == 16);
    return g->data_files[0].hash;
  };
  uint64_t one = load(1);
  CHECK(one == load(1));
  CHECK(one != load(5));
}

TEST_CASE("zoo options out of range are refused", "[errors]") {
  CHECK(!zoo_model("bert-tiny", {.sequence = 0}));
  auto longer = zoo_model("bert-tiny", {.sequence = 513});
  REQUIRE(!longer);
  CHECK(longer.error().message.find("512") != std::string::npos);
}

TEST_CASE("sizes that overflow, functions and states are refused without harm", "[errors]") {
  auto refused = [](auto fill) {
    ModelWriter w("hostile", 13);
    w.input("x", {1, 2});
    fill(w);
    w.output("y");
    auto g = import_bytes(std::make_shared<const std::string>(w.finish()), "hostile.onnx");
    REQUIRE(!g);
    return g.error().message;
  };
  using Ints = std::vector<int64_t>;
  const int64_t huge = int64_t{1} << 62;
  CHECK(refused([&](auto& w) {
          w.initializer("r", {{2}, Ints{huge, huge}});
          w.node("Tile", {"x", "r"}, {"y"});
        }) != "");
  CHECK(refused([&](auto& w) {
          w.initializer("s", {{2}, Ints{huge, 2}});
          w.node("Expand", {"x", "s"}, {"y"});
        }).find("too large") != std::string::npos);
  CHECK(refused([&](auto& w) {
          w.initializer("p", {{4}, Ints{huge, huge, huge, huge}});
          w.node("Pad", {"x", "p"}, {"y"});
        }) != "");
  CHECK(refused([&](auto& w) {
          w.initializer("s", {{3}, Ints{2}});
          w.node("Reshape", {"x", "s"}, {"y"});
        }).find("8 bytes") != std::string::npos);
  CHECK(refused([&](auto& w) { w.node("LSTM", {"x", "x", "x"}, {"y"}); }).find("three axes") != std::string::npos);
  CHECK(refused([&](auto& w) { w.node("Twice", {"x"}, {"y"}, {}, "local.functions"); }).find("not supported") !=
        std::string::npos);
}
