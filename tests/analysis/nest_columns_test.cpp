// Footprints of accesses as columns, of a kernel without decisions.
#include "tcc/analysis/nest_columns.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tcc/ir/text.h"

using namespace tcc;

TEST_CASE("an index from memory touches one row for each of its values, not the whole table") {
  auto nest = ir::parse(R"(kernel nest {
  input T: f32[30000, 64]
  input I: i64[128]
  output O: f32[128, 64]
  for i in 128 {
    for j in 64 {
      O[i, j] = T[I[i], j]
    }
  }
})");
  if (!nest) FAIL(nest.error().message);
  analysis::ColumnBuilder b;
  analysis::NestColumns columns;
  std::string why;
  REQUIRE(analysis::nest_columns(b, *nest, {}, columns, why));
  REQUIRE(columns.statements.size() == 1);
  const auto& accesses = columns.statements[0].accesses;
  const auto table = std::find_if(accesses.begin(), accesses.end(), [&](const analysis::AccessColumns& a) {
    return ir::name_hint(*nest, a.buffer->id) == "T";
  });
  REQUIRE(table != accesses.end());
  REQUIRE(table->touched.size() == 3);
  const double expected[] = {128 * 64, 64, 1};
  for (size_t level = 0; level < 3; ++level) {
    CHECK(b.least(table->touched[level]) == expected[level]);
    CHECK(b.most(table->touched[level]) == expected[level]);
  }
}
