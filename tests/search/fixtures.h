// What the tests of search share.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "tcc/features/features.h"
#include "tcc/record/store.h"
#include "tcc/target/target.h"

namespace tcc::search::test {

inline target::Target avx2() {
  auto t = target::find_target("x86-64-v3");
  REQUIRE(t.has_value());
  return *t;
}

// A row whose columns all have this value.
inline features::Row row_of_values(float value) {
  return {&features::kHotStatement, std::vector<float>(features::kHotStatement.columns.size(), value)};
}

inline std::unique_ptr<record::Store> memory_store() {
  auto store = record::Store::open(":memory:");
  REQUIRE(store.has_value());
  return std::move(*store);
}

}  // namespace tcc::search::test
