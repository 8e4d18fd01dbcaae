// flatten: the address of an access as one expression.
#include "tcc/analysis/lanes.h"

#include <catch2/catch.hpp>

#include "random_expr.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"

using namespace tcc;

namespace {

// The address of the kernel's only store.
std::string store_address(std::string_view text) {
  auto kernel = ir::parse(text);
  REQUIRE(kernel);
  Arena arena;
  ir::Builder b(arena);
  analysis::Ranges ranges(*kernel);
  std::string address;
  ir::visit(kernel->root, [&](ir::Stmt s) {
    if (const auto* loop = ir::as<ir::Loop>(s)) ranges.set(loop->id, loop->extent);
    if (const auto* store = ir::as<ir::Store>(s)) {
      const ir::Buffer& buffer = *kernel->buffer(store->buffer);
      const auto strides = analysis::row_major_strides(buffer);
      address = ir::print(*kernel, analysis::flatten(b, buffer, strides, store->indices, ranges));
    }
    return true;
  });
  return address;
}

// Some extents whose product is n.
std::vector<int64_t> random_factors(Rng& rng, int64_t n, size_t most) {
  std::vector<int64_t> factors{1};
  for (int64_t p = 2; n > 1; ++p)
    for (; n % p == 0; n /= p) {
      if (factors.back() > 1 && factors.size() < most && rng.below(2) == 0) factors.push_back(1);
      factors[static_cast<size_t>(rng.below(static_cast<int64_t>(factors.size())))] *= p;
    }
  return factors;
}

// Adds the digits of `place` by these extents, each made simple by itself; the highest is not limited.
void add_digits(testing::Space& space, std::vector<ir::Expr>& indices, ir::Expr place,
                const std::vector<int64_t>& extents) {
  int64_t stride = 1;
  for (int64_t e : extents) stride *= e;
  for (size_t i = 0; i < extents.size(); ++i) {
    stride /= extents[i];
    ir::Expr digit = space.b.floor_div(place, space.b.integer(stride));
    if (i > 0) digit = space.b.floor_mod(digit, space.b.integer(extents[i]));
    indices.push_back(analysis::simplify(space.b, digit, space.ranges));
  }
}

bool divides(ir::Expr e) {
  bool found = false;
  ir::visit(e, [&](ir::Expr x) {
    found |= x->kind == ir::ExprKind::kFloorDiv || x->kind == ir::ExprKind::kFloorMod;
    return !found;
  });
  return found;
}

// The place of the indices in a tensor of this shape, which is right everywhere.
ir::Expr checked_place(testing::Space& space, const std::vector<ir::Expr>& indices, const std::vector<int64_t>& shape) {
  ir::Buffer buffer{};
  std::vector<ir::Expr> extents;
  for (int64_t n : shape) extents.push_back(space.b.integer(n));
  buffer.shape = extents;
  const auto strides = analysis::row_major_strides(buffer);
  const ir::Expr place = analysis::flatten(space.b, buffer, strides, indices, space.ranges);
  CAPTURE(space.extents, shape, ir::print(space.kernel, place));
  space.each_point([&](const testing::Point& at) {
    int64_t expected = 0;
    for (size_t i = 0; i < indices.size(); ++i) expected += strides[i] * testing::evaluate(indices[i], at);
    REQUIRE(testing::evaluate(place, at) == expected);
    return true;
  });
  return place;
}

}  // namespace

TEST_CASE("digits of fused and split loops of any extents are one place without divisions") {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    testing::Space space = testing::Space::random(rng, 3, 12);
    const bool fused_again = rng.below(2) == 0 && space.extents[0] > 1;
    ir::Builder& b = space.b;
    std::vector<ir::Expr> indices;
    std::vector<int64_t> shape;
    const auto inner = [&](ir::Expr first) {
      const ir::Expr rows = b.add(b.scale(first, space.extents[1]), space.var(1));
      return b.add(b.scale(rows, space.extents[2]), space.var(2));
    };
    int64_t first = space.extents[0];
    if (fused_again) {  // the first loop is one of two, of which the outer one has indices of its own
      const std::vector<int64_t> parts = random_factors(rng, first, 2);
      first = parts.back();
      shape = {space.extents[0] / first};
      add_digits(space, indices, b.floor_div(space.var(0), b.integer(first)), shape);
    }
    const std::vector<int64_t> low = random_factors(rng, first * space.extents[1] * space.extents[2], 4);
    add_digits(space, indices, inner(fused_again ? b.floor_mod(space.var(0), b.integer(first)) : space.var(0)), low);
    shape.insert(shape.end(), low.begin(), low.end());

    const ir::Expr place = checked_place(space, indices, shape);
    CAPTURE(seed, space.extents, shape, ir::print(space.kernel, place));
    CHECK(!divides(place));
  }
}

TEST_CASE("lanes cross the rows of one part of a longer axis without divisions") {
  // The outermost loop is fused from two axes and a piece of the rows. In a tensor that holds more than the part, its
  // digits and the rows' are apart, and each digit was made simple by itself.
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed);
    testing::Space space = testing::Space::random(rng, 3, 12);
    ir::Builder& b = space.b;
    const std::vector<int64_t> outer = random_factors(rng, space.extents[0], 3);
    const int64_t pieces = outer.back(), parts = outer.size() > 1 ? outer[outer.size() - 2] : 1;
    const int64_t before = rng.below(4), after = 1 + rng.below(4);
    const ir::Expr part = b.floor_div(space.var(0), b.integer(pieces));
    std::vector<ir::Expr> indices{b.floor_div(part, b.integer(parts)),
                                  b.offset(b.floor_mod(part, b.integer(parts)), before)};
    for (ir::Expr& index : indices) index = analysis::simplify(b, index, space.ranges);
    std::vector<int64_t> shape{space.extents[0], before + parts + after};
    const ir::Expr lines = b.add(b.scale(b.floor_mod(space.var(0), b.integer(pieces)), space.extents[1]), space.var(1));
    const std::vector<int64_t> rows = random_factors(rng, pieces * space.extents[1] * space.extents[2], 3);
    add_digits(space, indices, b.add(b.scale(lines, space.extents[2]), space.var(2)), rows);
    shape.insert(shape.end(), rows.begin(), rows.end());

    const ir::Expr place = checked_place(space, indices, shape);
    CAPTURE(seed, space.extents, shape, ir::print(space.kernel, place));
    bool lane_in_division = false;
    ir::visit(place, [&](ir::Expr e) {
      const bool division = e->kind == ir::ExprKind::kFloorDiv || e->kind == ir::ExprKind::kFloorMod;
      lane_in_division |= division && ir::mentions(e, 2);
      return true;
    });
    CHECK_FALSE(lane_in_division);
  }
  CHECK(store_address(R"(kernel nest {
  output y: f32[3, 40, 64, 50]
  for a in 3900 {
    for b in 2 {
      for c in 16 {
        y[a // 1300, a // 100 % 13, ((a % 100)*32 + b*16 + c) // 50, (a*32 + b*16 + c) % 50] = 1.0
      }
    }
  }
}
)") == "(a // 1300)*128000 + (a % 1300)*32 + b*16 + c");
}

TEST_CASE("loops that were fused and split in other places walk through memory as one index") {
  // 42 elements begin and end inside rows of 28.
  const auto in_rows_of = [](int width) {
    return store_address(fmt::format(R"(kernel nest {{
  output y: f32[30, 28, {}]
  for a in 8 {{
    for b in 70 {{
      for c in 42 {{
        y[(a*2940 + b*42 + c) // 784, (a*105 + (b*42 + c) // 28) % 28, (b*42 + c) % 28] = 1.0
      }}
    }}
  }}
}}
)",
                                     width));
  };
  CHECK(in_rows_of(28) == "a*2940 + b*42 + c");
  // Of a slice, rows are apart: the division stays.
  CHECK(in_rows_of(32).find("//") != std::string::npos);
  // Of two images the channels of each are one run.
  CHECK(store_address(R"(kernel nest {
  output y: f32[2, 235, 52, 52]
  for a in 8 {
    for b in 8788 {
      for c in 16 {
        y[(a*140608 + b*16 + c) // 562432, (a*52 + (b*16 + c) // 2704) % 208, ((b*16 + c) // 52) % 52, (b*16 + c) % 52] = 1.0
      }
    }
  }
}
)") == "(a // 4)*635440 + (a % 4)*140608 + b*16 + c");
  // The same in a tensor that holds more channels, in tiles that end inside rows and planes.
  CHECK(store_address(R"(kernel nest {
  output y: f32[2, 235, 52, 52]
  for a in 754 {
    for b in 91 {
      for c in 16 {
        y[(a*1456 + b*16 + c) // 548912, ((a*1456 + b*16 + c) // 2704) % 203 + 32, ((a*1456 + b*16 + c) // 52) % 52, (a*1456 + b*16 + c) % 52] = 1.0
      }
    }
  }
}
)") == "(a // 377)*635440 + (a % 377)*1456 + b*16 + c + 86528");
}

TEST_CASE("lanes that a quotient or remainder tells apart differ by numbers") {
  testing::Space space({5, 48});
  ir::Builder& b = space.b;
  for (int64_t step : {2, 3, 4, 16})
    for (int64_t begin : {0, 1, 5, -7})
      for (bool remainder : {false, true}) {
        // 48 lanes from 48 x + begin on.
        const ir::Expr place = b.offset(b.add(b.scale(space.var(0), 48), space.var(1)), begin);
        const ir::Expr index = remainder ? b.floor_mod(place, b.integer(step)) : b.floor_div(place, b.integer(step));
        for (int64_t base : {0, 16, 32}) {
          CAPTURE(step, begin, remainder, base);
          const auto split = analysis::split_lanes(b, b.scale(index, 3), {1, base, 16, 48});
          REQUIRE(split);
          for (int64_t x = 0; x < 5; ++x)
            for (int64_t l = 0; l < 16; ++l) {
              const int64_t offset = split->offsets.empty() ? 0 : split->offsets[static_cast<size_t>(l)];
              REQUIRE(testing::evaluate(split->uniform, {x, 0}) + offset ==
                      3 * testing::evaluate(index, {x, base + l}));
            }
        }
      }
  // The quotient of something else than whole steps differs from place to place.
  const ir::Expr odd = b.add(b.scale(space.var(0), 47), space.var(1));
  CHECK_FALSE(analysis::split_lanes(b, b.floor_div(odd, b.integer(2)), {1, 0, 16, 48}));
}
