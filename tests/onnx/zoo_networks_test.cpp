// The zoo's networks of recurrent layers, attention with a past, and integers.
#include <catch2/catch.hpp>

#include "onnx/models.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/load.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Shape;

namespace {

std::map<std::string, int> group_counts(const graph::Graph& imported) {
  graph::Graph g = imported;
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(g, evaluator.get()));
  std::map<std::string, int> counts;
  for (const auto& group : graph::fuse(g, {.attention = true})) ++counts[graph::group_text(g, group)];
  return counts;
}

graph::Graph must_load(const std::string& name, const ZooOptions& options) {
  auto g = load_model("zoo:" + name, {}, options);
  if (!g) FAIL(g.error().message);
  return std::move(*g);
}

}  // namespace

TEST_CASE("the zoo's tagger hoists the products with its inputs") {
  const graph::Graph g = must_load("lstm-tagger", {.batch = 2, .sequence = 5});
  CHECK(g.value(g.outputs[0]).shape == Shape{2, 5, 45});
  auto counts = group_counts(g);
  CHECK(counts["Gemm"] == 5);          // two directions of two layers, and the tags, whose bias is part of the product
  CHECK(counts["Gemm+Add"] == 4 * 4);  // of the steps behind the first
}

TEST_CASE("the attention of the zoo's encoder and decoder is one group") {
  const graph::Graph encoder = must_load("whisper-tiny-encoder", {.sequence = 16});
  CHECK(encoder.value(encoder.inputs[0]).shape == Shape{1, 80, 32});
  CHECK(encoder.value(encoder.outputs[0]).shape == Shape{1, 16, 384});
  CHECK(group_counts(encoder)["MatMul+Softmax+MatMul"] == 4);

  const graph::Graph decoder = must_load("llama-tiny", {.sequence = 8});
  CHECK(decoder.inputs.size() == 2 + 2 * 2);
  CHECK(decoder.value(decoder.outputs.back()).shape == Shape{1, 1, 8192});
  CHECK(decoder.value(decoder.outputs[0]).shape == Shape{1, 2, 8, 32});
  // The first token has no past.
  CHECK(must_load("llama-tiny", {.sequence = 1}).inputs.size() == 2);
}

TEST_CASE("a step of the zoo's decoder appends its keys to the past") {
  const graph::Graph g = must_load("llama-tiny", {.sequence = 3});
  std::vector<graph::HostTensor> inputs;
  for (graph::ValueId id : g.inputs) inputs.push_back(graph::random_tensor(g.value(id), 7));
  inputs[0].data = {5};
  inputs[1].data = {2};
  auto outputs = graph::run_reference(g, inputs, 1);
  REQUIRE(outputs);
  // Two rows of two heads come from the past, the third is new.
  const std::vector<double>&past = inputs[2].data, &present = (*outputs)[0].data;
  for (size_t head = 0; head < 2; ++head) {
    for (size_t i = 0; i < 2 * 32; ++i) CHECK(present[head * 96 + i] == past[head * 64 + i]);
    CHECK(present[head * 96 + 64] != 0);
  }
}

TEST_CASE("the zoo's quantized network multiplies integers; products that do not are told") {
  graph::Graph g = must_load("mobilenet_v2-int8", {.image = 32});
  CHECK(g.value(g.outputs[0]).shape == Shape{1, 1000});
  CHECK(import_notes(g).empty());
  CHECK(import_notes(must_load("mlp", {})).empty());
  const auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(g, evaluator.get()).has_value());
  int64_t products = 0;
  for (graph::NodeId id : g.order) {
    if (graph::op_class(g.node(id).op) != graph::OpClass::kContraction) continue;
    CHECK(graph::is_byte(g.value(g.node(id).inputs[0]).dtype));
    ++products;
  }
  CHECK(products == 53);
}

TEST_CASE("the zoo's diffusion network resizes, and its attention is one group") {
  const graph::Graph g = must_load("unet-diffusion", {.image = 64});
  CHECK(g.value(g.inputs[0]).shape == Shape{1, 4, 8, 8});
  CHECK(g.value(g.outputs[0]).shape == g.value(g.inputs[0]).shape);
  int64_t attentions = 0;
  for (const auto& [text, count] : group_counts(g))
    if (text.starts_with("MatMul") && text.find("Softmax+MatMul") != std::string::npos) attentions += count;
  CHECK(attentions == 2);
}
