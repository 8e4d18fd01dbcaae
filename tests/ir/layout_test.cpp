// The layout algebra on small shapes, exhaustively, against direct formulas.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ir/layouts.h"

using namespace tcc;
using namespace tcc::ir;

namespace {

void for_each_index(std::span<const int64_t> shape, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    f(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

const Layout* parse_ok(Arena& arena, const std::string& text) {
  auto l = parse_layout(arena, text);
  INFO(text);
  if (!l) FAIL(l.error().message);
  return *l;
}

bool injective_by_hand(const Layout& l) {
  std::set<std::array<int64_t, 4>> seen;
  bool ok = true;
  for_each_index(l.shape, [&](const std::vector<int64_t>& i) {
    PhysicalIndex at = ir::apply(l, i);
    ok = seen.insert({at.address, at.warp, at.lane, at.reg}).second && ok;
  });
  return ok;
}

// invert is the exact inverse on all places up to size, holes included.
void check_invert(const Layout& l) {
  std::map<int64_t, std::vector<int64_t>> expected;
  for_each_index(l.shape, [&](const std::vector<int64_t>& i) { expected[ir::apply(l, i).address] = i; });
  for (int64_t a = 0; a < l.size; ++a) {
    auto found = invert(l, {a, 0, 0, 0});
    auto want = expected.find(a);
    REQUIRE(found.has_value() == (want != expected.end()));
    if (found) REQUIRE(*found == want->second);
  }
}

int64_t contiguous_by_hand(const Layout& l, int32_t dim) {
  auto d = static_cast<size_t>(dim);
  for (int64_t w = l.shape[d]; w > 1; --w) {
    bool ok = true;
    for_each_index(l.shape, [&](const std::vector<int64_t>& i) {
      std::vector<int64_t> base = i;
      base[d] = i[d] / w * w;
      ok = ok && ir::apply(l, i).address == ir::apply(l, base).address + i[d] - base[d];
    });
    if (ok) return w;
  }
  return 1;
}

int64_t alignment_by_hand(const Layout& l, int32_t dim, int64_t step) {
  int64_t bits = int64_t{1} << 62;
  for_each_index(l.shape, [&](const std::vector<int64_t>& i) {
    int64_t a = ir::apply(l, i).address;
    if (i[static_cast<size_t>(dim)] % step == 0 && a != 0) bits = std::min(bits, a & -a);
  });
  return bits;
}

std::vector<const Layout*> samples(Arena& arena) {
  std::vector<const Layout*> out;
  std::vector<std::vector<int64_t>> shapes = {{1}, {7}, {5, 3}, {4, 8}, {3, 2, 5}, {2, 17, 3, 2}};
  for (const auto& s : shapes) out.push_back(make_row_major(arena, s));
  using Tiles = std::vector<std::pair<int32_t, int64_t>>;
  out.push_back(
      make_blocked(arena, std::vector<int64_t>{2, 17, 3, 2}, std::vector<int32_t>{0, 1, 2, 3}, Tiles{{1, 4}}));
  out.push_back(
      make_blocked(arena, std::vector<int64_t>{12, 10}, std::vector<int32_t>{1, 0}, Tiles{{0, 4}, {1, 2}, {0, 2}}));
  out.push_back(make_blocked(arena, std::vector<int64_t>{16, 32}, std::vector<int32_t>{0, 1}, Tiles{{1, 8}, {0, 2}}));
  // Tiles between the outer parts: the second of two outermost, the other one innermost.
  out.push_back(make_blocked(arena, std::vector<int64_t>{5, 9}, std::vector<int32_t>{3, 0, 1}, Tiles{{0, 2}, {1, 3}}));
  out.push_back(with_xor(arena, *make_row_major(arena, std::vector<int64_t>{8, 64}), {6, 3, 7}));
  out.push_back(with_xor(arena, *make_row_major(arena, std::vector<int64_t>{16, 8}), {4, 0, 3}));
  out.push_back(with_xor(arena, *make_row_major(arena, std::vector<int64_t>{16, 16}), {0, 4, 15}));
  out.push_back(parse_ok(arena, "layout[4,6]{0/1%0@addr*10, 1/1%0@addr*1} size 40"));  // padded rows
  out.push_back(parse_ok(
      arena, "layout[2,2,3]{0/1%0@addr*3, 1/1%0@addr*2, 2/1%0@addr*8} size 64"));  // not a radix, still injective
  return out;
}

}  // namespace

TEST_CASE("layouts agree with direct evaluation", "[layout]") {
  Arena arena;
  for (const Layout* l : samples(arena)) {
    INFO(print_layout(*l));
    CHECK(is_injective(*l) == injective_by_hand(*l));
    for_each_index(l->shape, [&](const std::vector<int64_t>& i) { REQUIRE(ir::apply(*l, i).address < l->size); });
    check_invert(*l);
    for (size_t d = 0; d < l->shape.size(); ++d) {
      INFO("dim " << d);
      auto dim = static_cast<int32_t>(d);
      for (int64_t step : {1, 2, 3, 4, 8, 16}) {
        int64_t claimed = alignment(*l, dim, step), real = alignment_by_hand(*l, dim, step);
        CHECK(claimed <= real);
        if (l->xors.empty() && real < (int64_t{1} << 62)) CHECK(claimed == real);
      }
    }
  }
}

TEST_CASE("row-major and blocked addresses", "[layout]") {
  Arena arena;
  std::vector<int64_t> nchw = {2, 20, 3, 5};
  const Layout* plain = make_row_major(arena, nchw);
  const Layout* blocked =
      make_blocked(arena, nchw, std::vector<int32_t>{0, 1, 2, 3}, std::vector<std::pair<int32_t, int64_t>>{{1, 16}});
  CHECK(plain->size == 600);
  CHECK(blocked->size == 2 * 2 * 3 * 5 * 16);
  for_each_index(nchw, [&](const std::vector<int64_t>& i) {
    REQUIRE(ir::apply(*plain, i).address == ((i[0] * 20 + i[1]) * 3 + i[2]) * 5 + i[3]);
    REQUIRE(ir::apply(*blocked, i).address == (((i[0] * 2 + i[1] / 16) * 3 + i[2]) * 5 + i[3]) * 16 + i[1] % 16);
  });
  CHECK(contiguous_by_hand(*blocked, 1) == 16);
  CHECK(contiguous_by_hand(*blocked, 3) == 1);
  // The tile of the last dimension, number 4, outside of what is left of it: elements that are two apart are
  // neighbors.
  const Layout* phases =
      make_blocked(arena, nchw, std::vector<int32_t>{0, 1, 2, 4, 3}, std::vector<std::pair<int32_t, int64_t>>{{3, 2}});
  CHECK(phases->size == 2 * 20 * 3 * 2 * 3);
  for_each_index(nchw, [&](const std::vector<int64_t>& i) {
    REQUIRE(ir::apply(*phases, i).address == (((i[0] * 20 + i[1]) * 3 + i[2]) * 2 + i[3] % 2) * 3 + i[3] / 2);
  });
}

TEST_CASE("injectivity finds collisions", "[layout]") {
  Arena arena;
  CHECK_FALSE(is_injective(*parse_ok(arena, "layout[4,4]{0/1%0@addr*3, 1/1%0@addr*1} size 16")));
  CHECK_FALSE(is_injective(*parse_ok(arena, "layout[8]{0/1%4@addr*1} size 4")));
  CHECK_FALSE(is_injective(*parse_ok(arena, "layout[4096,4096]{0/1%0@addr*4095, 1/1%0@addr*1} size 16777216")));
  CHECK(is_injective(*parse_ok(arena, "layout[4096,4096]{0/1%0@addr*4096, 1/1%0@addr*1} size 16777216")));
}

TEST_CASE("xor is a bijection that keeps groups together", "[layout]") {
  Arena arena;
  // 64 halves a row, groups of 8 swizzled by the row number: ldmatrix reads without conflicts.
  const Layout* plain = make_row_major(arena, std::vector<int64_t>{16, 64});
  const Layout* swizzled = with_xor(arena, *plain, {6, 3, 7});
  CHECK(is_injective(*swizzled));
  CHECK(injective_by_hand(*swizzled));
  CHECK(contiguous_by_hand(*swizzled, 1) == 8);
  CHECK(alignment(*swizzled, 1, 8) == 8);
  std::vector<std::vector<int64_t>> rows;
  for (int64_t lane = 0; lane < 32; ++lane) rows.push_back({lane % 8, lane / 8 * 8});
  CHECK(bank_conflicts(*plain, rows, 16, 2) == 8);
  CHECK(bank_conflicts(*swizzled, rows, 16, 2) == 1);
}

TEST_CASE("bank conflicts by hand", "[layout]") {
  Arena arena;
  auto lanes = [](const std::function<std::vector<int64_t>(int64_t)>& f) {
    std::vector<std::vector<int64_t>> out;
    for (int64_t i = 0; i < 32; ++i) out.push_back(f(i));
    return out;
  };
  const Layout* square = make_row_major(arena, std::vector<int64_t>{32, 32});
  const Layout* padded = parse_ok(arena, "layout[32,32]{0/1%0@addr*33, 1/1%0@addr*1} size 1056");
  auto column = lanes([](int64_t i) { return std::vector<int64_t>{i, 0}; });
  auto row = lanes([](int64_t i) { return std::vector<int64_t>{0, i}; });
  auto same = lanes([](int64_t) { return std::vector<int64_t>{3, 3}; });
  CHECK(bank_conflicts(*square, column, 4, 4) == 32);
  CHECK(bank_conflicts(*padded, column, 4, 4) == 1);
  CHECK(bank_conflicts(*square, row, 4, 4) == 1);
  CHECK(bank_conflicts(*square, same, 4, 4) == 1);
  CHECK(bank_conflicts(*square, lanes([](int64_t i) { return std::vector<int64_t>{i / 8, i % 8 * 4}; }), 16, 4) == 1);
}

TEST_CASE("composition applies one layout after the other", "[layout]") {
  Arena arena;
  std::vector<const Layout*> firsts = samples(arena);
  int composed = 0;
  for (const Layout* first : firsts) {
    std::vector<const Layout*> seconds = {make_row_major(arena, std::vector<int64_t>{first->size})};
    for (int64_t inner : {2, 4, 8, 16}) {
      if (first->size % inner != 0) continue;
      int64_t outer = first->size / inner;
      seconds.push_back(parse_ok(arena, fmt::format("layout[{}]{{0/1%{}@addr*{}, 0/{}%0@addr*1}} size {}", first->size,
                                                    inner, outer, inner, first->size)));
      seconds.push_back(parse_ok(arena, fmt::format("layout[{}]{{0/{}%0@addr*{}, 0/1%{}@addr*1}} size {}", first->size,
                                                    inner, inner + 3, inner, outer * (inner + 3))));
      if (first->size % 64 == 0) seconds.push_back(with_xor(arena, *seconds[0], {4, 2, 3}));
    }
    for (const Layout* second : seconds) {
      auto both = compose(arena, *first, *second);
      if (!both) continue;
      ++composed;
      INFO(print_layout(*first) << " then " << print_layout(*second) << " = " << print_layout(**both));
      for_each_index(first->shape, [&](const std::vector<int64_t>& i) {
        std::vector<int64_t> middle = {ir::apply(*first, i).address};
        REQUIRE(ir::apply(**both, i).address == ir::apply(*second, middle).address);
      });
    }
  }
  CHECK(composed >= 35);  // most pairs are expressible
  CHECK_FALSE(compose(arena, *firsts[0], *firsts[1]).has_value());
}

TEST_CASE("layout text", "[layout][text]") {
  Arena arena, other;
  for (const Layout* l : samples(arena)) {
    const Layout* again = parse_ok(other, print_layout(*l));
    CHECK(equal(*l, *again));
    CHECK(hash_layout(*l) == hash_layout(*again));
    CHECK(print_layout(*again) == print_layout(*l));
  }
  const char* spec = "layout[512,512]{1/32%0@addr*16384, 0/1%0@addr*32, 1/1%32@addr*1} xor(3->0&7) size 262144";
  CHECK(print_layout(*parse_ok(arena, spec)) == spec);
  auto error = [&](const char* text) {
    auto l = parse_layout(arena, text);
    REQUIRE_FALSE(l.has_value());
    return l.error().message;
  };
  CHECK(error("layout[4]{1/1%0@addr*1} size 4").find("a dimension in 0..0") != std::string::npos);
  CHECK(error("layout[4]{0/0%0@addr*1} size 4").find("a divisor") != std::string::npos);
  CHECK(error("layout[4]{0/1%0@bank*1} size 4").find("addr, warp, lane or reg") != std::string::npos);
  CHECK(error("layout[4]{0/1%0@addr*1} xor(1->1&1) size 4").find("must move bits") != std::string::npos);
  CHECK(error("layout[4]{0/1%0@addr*1} xor(0->2&1) size 4").find("multiple of 8") != std::string::npos);
  CHECK(error("layout[4]{0/1%0@addr*1} size 4 x").find("the end") != std::string::npos);
  CHECK(error("layout[4").find("']'") != std::string::npos);
}
