// Unique of elements that only a run knows.
#include <catch2/catch.hpp>
#include <cmath>

#include "onnx/counted.h"
#include "onnx/models.h"
#include "tcc/graph/refusal.h"

using namespace tcc;
using namespace tcc::onnx;
using Catch::Contains;
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

namespace {

struct Expected {
  Doubles y, indices, inverse, counts;
};

std::string unique_model(const graph::Shape& shape, graph::DType dtype, std::vector<NamedAttribute> attributes) {
  ModelWriter w("unique", 18);
  w.typed_input("x", dtype, shape);
  w.node("Unique", {"x"}, {"y", "indices", "inverse", "counts"}, std::move(attributes));
  w.output("y", dtype);
  for (const char* name : {"indices", "inverse", "counts"}) w.output(name, graph::DType::kI64);
  return w.finish();
}

void check_unique(const graph::Shape& shape, graph::DType dtype, const std::vector<NamedAttribute>& attributes,
                  const Doubles& x, const Expected& expected) {
  const auto out = run_counted(unique_model(shape, dtype, attributes), {x});
  REQUIRE(out.size() == 4);
  REQUIRE(out[0].data.size() == expected.y.size());
  for (size_t i = 0; i < expected.y.size(); ++i)
    CHECK((out[0].data[i] == expected.y[i] || (std::isnan(out[0].data[i]) && std::isnan(expected.y[i]))));
  CHECK(out[1].data == expected.indices);
  CHECK(out[2].data == expected.inverse);
  CHECK(out[3].data == expected.counts);
}

}  // namespace

TEST_CASE("unique elements in their own order, and in that in which they occur") {
  const Doubles x{2, 1, 1, 3, 4, 3};
  check_unique({6}, graph::DType::kF32, {}, x, {{1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}});
  check_unique({2, 3}, graph::DType::kI32, {{"sorted", int64_t{0}}}, x,
               {{2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}});
  check_unique({1}, graph::DType::kI64, {}, {-7}, {{-7}, {0}, {0}, {1}});
  check_unique({5}, graph::DType::kU8, {}, {9, 9, 9, 9, 9}, {{9}, {0}, {0, 0, 0, 0, 0}, {5}});
  check_unique({4}, graph::DType::kBool, {}, {1, 0, 1, 1}, {{0, 1}, {1, 0}, {1, 0, 1, 1}, {1, 3}});
  check_unique({3}, graph::DType::kU64, {}, {0x1p63, 1, 0x1p63}, {{1, 0x1p63}, {1, 0}, {1, 0, 1}, {1, 2}});
  // NaN equals NaN, and zeros are equal whatever their signs.
  check_unique({6}, graph::DType::kF32, {}, {NAN, -INFINITY, 0.0, NAN, INFINITY, -0.0},
               {{-INFINITY, 0, INFINITY, NAN}, {1, 2, 4, 0}, {3, 0, 1, 3, 2, 1}, {1, 2, 1, 2}});
}

TEST_CASE("unique slices along an axis") {
  const Doubles rows{1, 0, 0, 1, 0, 0, 2, 3, 4};
  check_unique({3, 3}, graph::DType::kF32, {{"axis", int64_t{0}}}, rows,
               {{1, 0, 0, 2, 3, 4}, {0, 2}, {0, 0, 1}, {2, 1}});
  check_unique({3, 3}, graph::DType::kF32, {{"axis", int64_t{-1}}}, rows,
               {{0, 0, 1, 0, 0, 1, 3, 4, 2}, {1, 2, 0}, {2, 0, 1}, {1, 1, 1}});
  // Slices [[1,1],[0,1],[2,1],[0,1]] of a tensor 2x4x2: the first and the last axis belong to a slice.
  check_unique({2, 4, 2}, graph::DType::kF32, {{"axis", int64_t{1}}, {"sorted", int64_t{0}}},
               {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1},
               {{1, 1, 0, 1, 2, 1, 1, 1, 0, 1, 2, 1}, {0, 1, 2}, {0, 1, 2, 1}, {1, 2, 1}});
}

TEST_CASE("unique elements of those that a run found") {
  ModelWriter w("found", 18);
  w.input("x", {2, 4});
  w.typed_input("keep", graph::DType::kBool, {8});
  w.node("Compress", {"x", "keep"}, {"kept"});
  w.node("Unique", {"kept"}, {"y", "indices", "inverse", "counts"});
  w.node("Unique", {"kept"}, {"z", "", "z_inverse", "z_counts"}, {{"sorted", int64_t{0}}});
  for (const char* name : {"y", "z"}) w.output(name);
  for (const char* name : {"indices", "inverse", "counts", "z_inverse", "z_counts"}) w.output(name, graph::DType::kI64);
  const auto out = run_counted(w.finish(), {{5, 3, INFINITY, 5, 9, 1, INFINITY, 5}, {1, 0, 1, 1, 0, 1, 1, 0}});
  CHECK(out[0].data == Doubles{1, 5, INFINITY});
  CHECK(out[1].data == Doubles{5, INFINITY, 1});
  CHECK(out[2].data == Doubles{3, 0, 1});
  CHECK(out[3].data == Doubles{1, 2, 1, 0, 2});
  CHECK(out[4].data == Doubles{1, 2, 2});
  CHECK(out[5].data == Doubles{0, 1, 0, 2, 1});
  CHECK(out[6].data == Doubles{2, 2, 1});
}

TEST_CASE("Unique says which slices are too long for it") {
  auto refused = import_text(unique_model({4, 65}, graph::DType::kF32, {{"axis", int64_t{0}}}));
  REQUIRE(!refused);
  CHECK(graph::refusal_of(refused.error()) == graph::Refusal::kTooLarge);
  CHECK_THAT(refused.error().message, Contains("axis 0 has slices of 65 elements"));
}
