// The operators that the suite `random-ops` draws.
#include "random_operators.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>

#include "tcc/onnx/importer.h"

using namespace tcc;
using namespace tcc::benchmarks;

TEST_CASE("drawn operators are models that the importer reads") {
  std::set<std::string> families, descriptions;
  for (int64_t row = 0; row < 300; ++row) {
    const RandomOperator drawn = draw_operator(17, row);
    INFO(drawn.description);
    auto graph = onnx::import_bytes(std::make_shared<const std::string>(drawn.model), "drawn");
    if (!graph) FAIL(graph.error().message);
    for (const graph::ValueId output : graph->outputs) {
      const int64_t elements = graph::element_count(graph->value(output).shape);
      CHECK(elements > 0);
      CHECK(elements < 40'000'000);
    }
    families.insert(drawn.family);
    descriptions.insert(drawn.description);
  }
  CHECK(families.size() == 23);
  CHECK(descriptions.size() > 290);
}

TEST_CASE("a seed and a row give the same operator again") {
  CHECK(draw_operator(3, 5).model == draw_operator(3, 5).model);
  CHECK(draw_operator(3, 5).model != draw_operator(3, 6).model);
  CHECK(draw_operator(3, 5).model != draw_operator(4, 5).model);
}
// A new operator is drawn, or is listed here with the reason why its time says nothing of its own.
TEST_CASE("every operator of the importer is drawn or is left out for a reason") {
  const std::map<std::string, std::vector<std::string>> left_out = {
      {"folded", {"Constant", "ConstantOfShape", "EyeLike", "Range", "Shape", "Size"}},
      {"a view", {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}},
      {"another operator's", {"CastLike", "Dropout"}},
      {"rare, which no draw makes yet",
       {"BitCast", "CausalConvWithState", "LinearAttention", "Scatter", "SwiGLU", "TensorScatter"}},
      {"random",
       {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}},
      {"inlined or folded",
       {"If", "Loop", "Scan", "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "SequenceMap", "SplitToSequence", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"}},
  };
  std::vector<std::string> drawn = drawn_operators();
  std::set<std::string> known;
  for (const auto& [reason, operators] : left_out) known.insert(operators.begin(), operators.end());
  for (const std::string& op : drawn) CHECK_FALSE(known.contains(op));
  known.insert(drawn.begin(), drawn.end());
  for (const onnx::OperatorInfo& supported : onnx::supported_operators()) {
    // Those of other domains are made of the same kernels.
    if (!supported.domain.empty()) continue;
    INFO(supported.op);
    CHECK(known.contains(supported.op));
  }
}
