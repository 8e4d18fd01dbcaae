#include "tcc/ir/permute.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "ir/layouts.h"

using namespace tcc;
using namespace tcc::ir;

TEST_CASE("data move to the place the layout gives them and back", "[unit]") {
  Arena arena;
  std::array<int64_t, 3> shape = {3, 5, 7};
  std::array<int32_t, 3> order = {2, 0, 1};
  std::array<std::pair<int32_t, int64_t>, 2> tiles = {{{1, 4}, {2, 2}}};
  const Layout* blocked = make_blocked(arena, shape, order, tiles);
  const Layout* swizzled = with_xor(arena, *make_row_major(arena, std::array<int64_t, 2>{8, 8}), {3, 0, 7});
  for (const Layout* layout : {blocked, swizzled, make_row_major(arena, shape)}) {
    CAPTURE(print_layout(*layout));
    int64_t count = 1;
    for (int64_t extent : layout->shape) count *= extent;
    std::vector<int32_t> logical(static_cast<size_t>(count)), back(logical.size());
    std::iota(logical.begin(), logical.end(), 1);
    std::vector<int32_t> physical(static_cast<size_t>(layout->size), -1);
    to_physical(*layout, std::as_bytes(std::span(logical)), std::as_writable_bytes(std::span(physical)), 4);
    std::vector<int64_t> index(layout->shape.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t d = index.size(); d-- > 0;) {
        index[d] = rest % layout->shape[d];
        rest /= layout->shape[d];
      }
      CHECK(physical[static_cast<size_t>(ir::apply(*layout, index).address)] == i + 1);
    }
    CHECK(std::count(physical.begin(), physical.end(), 0) == layout->size - count);  // holes are zero
    to_logical(*layout, std::as_bytes(std::span(physical)), std::as_writable_bytes(std::span(back)), 4);
    CHECK(back == logical);
  }
}
