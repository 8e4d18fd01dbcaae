// Bounds of the errors of right programs.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "tcc/graph/error_bound.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::graph;

namespace {

// A new row of numbers, the product of two layers, behind `past` rows that are copied.
BoundedTensor bounded_cache(int64_t past) {
  constexpr int64_t kWidth = 16;
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, {1, kWidth}), w = g.add_input("w", DType::kF32, {kWidth, kWidth});
  const ValueId cache = g.add_input("cache", DType::kF32, {past, kWidth});
  const ValueId first = *g.add_node(Op::kGemm, GemmAttrs{}, {x, w}, "first");
  const ValueId second = *g.add_node(Op::kGemm, GemmAttrs{}, {first, w}, "second");
  g.add_output(*g.add_node(Op::kConcat, AxisAttrs{0}, {cache, second}, "both"), "y");
  std::vector<HostTensor> inputs;
  for (ValueId id : g.inputs) inputs.push_back(random_tensor(g.value(id), static_cast<uint64_t>(id) + 1));
  auto bounded = run_bounded_reference(g, inputs, {}, 1);
  REQUIRE(bounded);
  return (*bounded)[0];
}

}  // namespace

TEST_CASE("rows that are copied do not tighten the bound of a row that is computed") {
  const BoundedTensor little = bounded_cache(1), much = bounded_cache(500);
  const size_t width = 16, from_little = width, from_much = 500 * width;
  for (size_t i = 0; i < width; ++i) {
    CHECK(little.allowed[from_little + i] == Approx(much.allowed[from_much + i]));
    CHECK(much.allowed[from_much + i] > 0);
    // And what is copied is held to less.
    CHECK(much.allowed[i] < much.allowed[from_much + i] / 4);
  }
}

TEST_CASE("the bound of a single element holds where the random errors of one run cancel") {
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, {1});
  const ValueId square = *g.add_node(Op::kMul, NoAttrs{}, {x, x}, "square");
  const ValueId cube = *g.add_node(Op::kMul, NoAttrs{}, {square, x}, "cube");
  // Casts round nothing: all that the bound says comes from the operators before it.
  g.add_output(*g.add_node(Op::kCast, CastAttrs{DType::kF64}, {cube}, "wide"), "y");
  Rng rng(3);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const auto v = static_cast<float>(1 + rng.uniform());
    const float once = v * v;
    const float twice = once * v;
    auto bounded = run_bounded_reference(g, {{{1}, {v}}}, {.seed = seed}, 1);
    REQUIRE(bounded);
    INFO("seed " << seed << ", " << v);
    CHECK(std::fabs(twice - (*bounded)[0].value.data[0]) <= (*bounded)[0].allowed[0]);
    CHECK((*bounded)[0].allowed[0] <= 32 * unit_roundoff(DType::kF32) * twice);
  }
}

TEST_CASE("an infinite product whose sign rounding decides has no bound") {
  // (x + 1e8) - 1e8 is 0 but for rounding.
  Graph g;
  const ValueId x = g.add_input("x", DType::kF32, {1}), y = g.add_input("y", DType::kF32, {1});
  const ValueId much = g.add_constant("c", DType::kF32, {1}, make_constant_from_doubles(DType::kF32, std::array{1e8}));
  const ValueId sum = *g.add_node(Op::kAdd, NoAttrs{}, {x, much}, "sum");
  const ValueId rest = *g.add_node(Op::kSub, NoAttrs{}, {sum, much}, "rest");
  g.add_output(*g.add_node(Op::kMul, NoAttrs{}, {rest, y}, "product"), "o");
  auto bounded = run_bounded_reference(g, {{{1}, {0.25}}, {{1}, {HUGE_VAL}}}, {.seed = 1}, 1);
  REQUIRE(bounded);
  CHECK((*bounded)[0].allowed[0] == HUGE_VAL);
}

TEST_CASE("the bound of f64 holds for kernels that round less often than the reference") {
  constexpr double kAdded = 0.3;
  Graph g;
  const ValueId x = g.add_input("x", DType::kF64, {1});
  const ValueId square = *g.add_node(Op::kMul, NoAttrs{}, {x, x}, "square");
  const ValueId added =
      g.add_constant("c", DType::kF64, {1}, make_constant_from_doubles(DType::kF64, std::array{kAdded}));
  const ValueId sum = *g.add_node(Op::kAdd, NoAttrs{}, {square, added}, "sum");
  g.add_output(*g.add_node(Op::kMul, NoAttrs{}, {sum, sum}, "again"), "y");
  Rng rng(7);
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const double v = 1 + rng.uniform(), fused = std::fma(v, v, kAdded);
    auto bounded = run_bounded_reference(g, {{{1}, {v}}}, {.seed = seed}, 1);
    REQUIRE(bounded);
    INFO("seed " << seed << ", " << v);
    CHECK(std::fabs(fused * fused - (*bounded)[0].value.data[0]) <= (*bounded)[0].allowed[0]);
  }
}

TEST_CASE("the bound of f64 counts the rounding of a product whose sum cancels") {
  Graph g;
  const ValueId x = g.add_input("x", DType::kF64, {4}), y = g.add_input("y", DType::kF64, {4});
  const ValueId product = *g.add_node(Op::kMul, NoAttrs{}, {x, y}, "product");
  g.add_output(*g.add_node(Op::kAdd, NoAttrs{}, {x, product}, "sum"), "y");
  Rng rng(11);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    HostTensor a{{4}, {}}, b{{4}, {}};
    for (int i = 0; i < 4; ++i) a.data.push_back(1000 * rng.uniform()), b.data.push_back(-1 + 0.01 * rng.uniform());
    auto bounded = run_bounded_reference(g, {a, b}, {.seed = seed}, 1);
    REQUIRE(bounded);
    for (size_t i = 0; i < 4; ++i) {
      const double fused = std::fma(a.data[i], b.data[i], a.data[i]), allowed = (*bounded)[0].allowed[i];
      INFO("seed " << seed << ": " << a.data[i] << ", " << b.data[i]);
      CHECK(std::fabs(fused - (*bounded)[0].value.data[i]) <= allowed);
      CHECK(allowed <= 1000 * 64 * unit_roundoff(DType::kF64));
    }
  }
}

TEST_CASE("the bound of a sum of equal numbers holds for the sum in order, and that of different ones is as before") {
  constexpr int64_t kTerms = 1296, kOthers = 96;
  Rng rng(5);
  for (Op op : {Op::kReduceSum, Op::kReduceMean}) {
    for (bool equal : {false, true}) {
      INFO(op_name(op) << (equal ? " equal" : " different"));
      Graph g;
      const ValueId x = g.add_input("x", DType::kF32, {2, kTerms, 3});
      g.add_output(*g.add_node(op, ReduceAttrs{{1}, false}, {x}, "sum"), "y");
      HostTensor input{{2, kTerms, 3}, std::vector<double>(2 * kTerms * 3)};
      int64_t worse = 0;
      for (int trial = 0; trial < 20; ++trial) {
        const auto common = static_cast<float>(0.5 + rng.uniform());
        for (int64_t i = 0; i < std::ssize(input.data); ++i) {
          const bool other = !equal || i / 3 % kTerms % (kTerms / kOthers) == 0;
          input.data[static_cast<size_t>(i)] = other ? static_cast<float>(0.5 + rng.uniform()) : common;
        }
        auto bounded = run_bounded_reference(g, {input}, {}, 1);
        REQUIRE(bounded);
        const BoundedTensor& y = (*bounded)[0];
        REQUIRE(y.value.data.size() == 6);
        for (size_t r = 0; r < 6; ++r) {
          float sum = 0;
          for (int64_t k = 0; k < kTerms; ++k)
            sum += static_cast<float>(input.data[(r / 3 * kTerms + static_cast<size_t>(k)) * 3 + r % 3]);
          if (op == Op::kReduceMean) sum /= static_cast<float>(kTerms);
          CHECK(std::fabs(sum - y.value.data[r]) <= y.allowed[r]);
          // What independent roundings explain.
          const double independent =
              (4 * std::sqrt(static_cast<double>(kTerms)) + 2) * unit_roundoff(DType::kF32) * y.value.data[r];
          worse += std::fabs(sum - y.value.data[r]) > independent;
          if (!equal) CHECK(y.allowed[r] <= 1.01 * independent);
          // And no more than any order of the terms may give.
          CHECK(y.allowed[r] <= (kTerms + 3) * unit_roundoff(DType::kF32) * y.value.data[r]);
        }
      }
      CHECK((worse > 0) == equal);
    }
  }
}

TEST_CASE("results of arithmetic on integers beyond 2^53 are unsure, copies are not") {
  const auto unsure = [](DType dtype, std::vector<double> values) {
    Graph g;
    const Shape shape{std::ssize(values)};
    const ValueId x = g.add_input("x", dtype, shape);
    const ValueId sum = *g.add_node(Op::kAdd, NoAttrs{}, {x, x}, "sum");
    const ValueId one = g.add_constant("one", dtype, {}, make_splat(dtype, 1));
    g.add_output(*g.add_node(Op::kIdentity, NoAttrs{}, {x}, "same"), "same");
    g.add_output(*g.add_node(Op::kReduceProd, ReduceAttrs{{0}, false}, {x}, "product"), "product");
    g.add_output(*g.add_node(Op::kSub, NoAttrs{}, {x, one}, "less"), "less");
    // Floats behind integers, too.
    const ValueId cast = *g.add_node(Op::kCast, CastAttrs{DType::kF32}, {sum}, "cast");
    g.add_output(*g.add_node(Op::kUnary, UnaryAttrs{UnaryFn::kSin}, {cast}, "sin"), "sin");
    auto bounded = run_bounded_reference(g, {{shape, std::move(values)}}, {}, 1);
    REQUIRE(bounded);
    std::string text;
    for (const BoundedTensor& output : *bounded) text += output.unsure ? "unsure " : "sure ";
    return text;
  };
  CHECK(unsure(DType::kI64, {1, 5, -7}) == "sure sure sure sure ");
  CHECK(unsure(DType::kI64, {0x1p62, 1}) == "sure unsure unsure unsure ");
  CHECK(unsure(DType::kI64, {0x1p52, 3}) == "sure unsure sure unsure ");
  CHECK(unsure(DType::kU64, {0, 1}) == "sure sure unsure sure ");
  CHECK(unsure(DType::kI32, {0x1p31 - 1, 0x1p31 - 1}) == "sure unsure sure sure ");
}
