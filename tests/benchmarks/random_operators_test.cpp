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
  CHECK(families.size() == 10);
  CHECK(descriptions.size() > 290);
}

TEST_CASE("a seed and a row give the same operator again") {
  CHECK(draw_operator(3, 5).model == draw_operator(3, 5).model);
  CHECK(draw_operator(3, 5).model != draw_operator(3, 6).model);
  CHECK(draw_operator(3, 5).model != draw_operator(4, 5).model);
}
