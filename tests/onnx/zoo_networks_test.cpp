// The zoo's networks of recurrent layers, attention with a past, and integers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <set>

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

namespace {

// The smallest options that each network takes: what tests of all networks import.
ZooOptions smallest(const std::string& name) {
  ZooOptions o;
  if (check_zoo_size(name, "image")) o.image = name == "inception_v3" ? 96 : 64;
  if (check_zoo_size(name, "sequence")) o.sequence = 8;
  if (check_zoo_size(name, "layers")) o.layers = 1;
  return o;
}

// VGG-16, the large decoders and the widest ResNet take seconds to make.
bool is_heavy(const std::string& name) {
  return name == "vgg16" || name == "mistral-7b" || name == "opt-1.3b" || name == "wide_resnet50";
}

}  // namespace

TEST_CASE("every network of the zoo imports, and no shape is computed at run time") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  std::set<std::string> names;
  for (const ZooEntry& entry : zoo_models()) names.insert(entry.name);
  for (const char* name : {"resnet18",    "resnet34",     "resnet50",     "wide_resnet50", "resnext50",  "inception_v3",
                           "densenet121", "mobilenet_v2", "mobilenet_v3", "vgg16",         "resnet3d18", "dcgan",
                           "deeplab_v3",  "vit",          "detr",         "bert-tiny",     "bert-small", "bert-medium",
                           "bert-base",   "bert-large",   "gpt2",         "opt-1.3b",      "llama",      "mistral-7b"})
    CHECK(names.contains(name));
  for (const std::string& name : names) {
    if (is_heavy(name) && !soak) continue;
    INFO(name);
    graph::Graph g = must_load(name, smallest(name));
    auto evaluator = graph::reference_evaluator();
    REQUIRE(graph::optimize(g, evaluator.get()));
    // Integers that are not data: ids of tokens, masks and positions come from inputs.
    for (graph::NodeId id : g.order) {
      const graph::Node& node = g.node(id);
      const graph::Value& v = g.value(node.output);
      const bool reads_input = std::any_of(node.inputs.begin(), node.inputs.end(),
                                           [&](graph::ValueId input) { return !g.value(input).is_constant(); });
      INFO(graph::node_name(node));
      CHECK((reads_input || graph::is_float(v.dtype)));
    }
  }
}

TEST_CASE("each attention of the zoo's transformers is one group") {
  auto attentions = [](const std::string& name, const ZooOptions& options) {
    int64_t sum = 0;
    for (const auto& [text, count] : group_counts(must_load(name, options)))
      if (text.find("Softmax+MatMul") != std::string::npos) sum += count;
    return sum;
  };
  CHECK(attentions("vit", {.image = 64, .layers = 2}) == 2);
  CHECK(attentions("detr", {.image = 64, .layers = 2}) == 5);  // the first queries of the decoder are constants
  CHECK(attentions("bert-small", {.sequence = 8, .layers = 2}) == 2);
  CHECK(attentions("gpt2", {.sequence = 8, .layers = 2}) == 2);
  CHECK(attentions("llama", {.sequence = 8, .layers = 2}) == 2);
  CHECK(attentions("llama", {.sequence = 8, .layers = 2, .past = 5}) == 2);
}

TEST_CASE("a decoder with a past gives what it gives for all tokens at once") {
  // Two tokens first, whose keys and values are the past of the next two. The zoo has no decoder with an empty past, so
  // both have another token before, which the mask hides.
  using Values = std::map<std::string, std::vector<double>>;
  auto run = [](const ZooOptions& options, const Values& given) {
    const graph::Graph g = must_load("llama", options);
    std::vector<graph::HostTensor> inputs;
    for (graph::ValueId id : g.inputs) {
      graph::HostTensor t = graph::random_tensor(g.value(id), 1);
      if (auto values = given.find(g.value(id).name); values != given.end()) t.data = values->second;
      inputs.push_back(std::move(t));
    }
    auto outputs = graph::run_reference(g, inputs, 2);
    REQUIRE(outputs);
    Values named;
    for (size_t i = 0; i < outputs->size(); ++i) named[g.output_names[i]] = (*outputs)[i].data;
    return named;
  };
  const Values whole =
      run({.sequence = 4, .layers = 1},
          {{"input_ids", {100, 107, 114, 121}}, {"attention_mask", {1, 1, 1, 1}}, {"position_ids", {0, 1, 2, 3}}});
  const Values early = run({.sequence = 2, .layers = 1, .past = 1},
                           {{"input_ids", {100, 107}}, {"attention_mask", {0, 1, 1}}, {"position_ids", {0, 1}}});
  const Values later =
      run({.sequence = 2, .layers = 1, .past = 3}, {{"input_ids", {114, 121}},
                                                    {"attention_mask", {0, 1, 1, 1, 1}},
                                                    {"position_ids", {2, 3}},
                                                    {"past_key_values.0.key", early.at("present.0.key")},
                                                    {"past_key_values.0.value", early.at("present.0.value")}});
  const std::vector<double>&expected = whole.at("logits"), &got = later.at("logits");
  REQUIRE(expected.size() == 2 * got.size());
  double worst = 0, scale = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - expected[got.size() + i]));
    scale = std::max(scale, std::fabs(expected[got.size() + i]));
  }
  CHECK(worst < 1e-9 * scale);
}

TEST_CASE("options of the zoo: layers, opset and precision") {
  const graph::Graph g = must_load("bert-tiny", {.sequence = 8, .layers = 3, .opset = 17});
  CHECK(group_counts(g)["MatMul+Div+Add+Softmax+MatMul"] + 0 <= 3);
  CHECK(std::count_if(g.order.begin(), g.order.end(),
                      [&](graph::NodeId id) { return g.node(id).op == graph::Op::kLayerNorm; }) == 1 + 2 * 3);
  const graph::Graph half = must_load("resnet18", {.image = 32, .precision = graph::DType::kF16});
  CHECK(half.value(half.inputs[0]).dtype == graph::DType::kF16);
  CHECK(half.value(half.outputs[0]).dtype == graph::DType::kF16);
  for (int64_t opset : {17, 18, 21, 23}) must_load("llama", {.sequence = 4, .layers = 1, .opset = opset});

  auto message = [](const std::string& name, const ZooOptions& options) {
    auto made = zoo_model(name, options);
    return made ? "made" : made.error().message;
  };
  CHECK(message("resnet18", {.layers = 3}) == "zoo: 'resnet18' has no size 'layers'");
  CHECK(message("mobilenet_v2-int8", {.precision = graph::DType::kF16}) ==
        "zoo: 'mobilenet_v2-int8' has no size 'precision'");
  CHECK(message("bert-tiny", {.past = 3}) == "zoo: 'bert-tiny' has no size 'past'");
  CHECK(message("gpt2", {.sequence = 1000, .past = 100}) == "zoo: sequence 1000 is not between 1 and 924");
  CHECK(message("vit", {.opset = 13}).starts_with("zoo: opset 13 is not between 17 and "));
  CHECK(message("gpt2", {.layers = -1}) == "zoo: layers -1 is not between 0 and 1000");
}
