// Arithmetic of integers in built libraries, where kernels compute by way of floats.
#include <cmath>

#include "driver/run_built.h"

using namespace tcc;
using namespace tcc::driver_test;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ValueId;
using Doubles = std::vector<double>;

namespace {

template <class Make>
Doubles built(DType dtype, const Doubles& data, Make make) {
  Graph g;
  const graph::Shape shape{static_cast<int64_t>(data.size())};
  g.add_output(make(g, g.add_input("x", dtype, shape)), "y");
  return run_built(g, {{shape, data}})[0];
}
ValueId node(Graph& g, Op op, graph::Attributes attrs, const std::vector<ValueId>& inputs) {
  auto made = g.add_node(op, std::move(attrs), inputs, "n" + std::to_string(g.nodes.size()));
  REQUIRE(made.has_value());
  return *made;
}

}  // namespace

TEST_CASE("powers of integers are exact") {
  for (DType dtype : {DType::kI32, DType::kI64}) {
    Doubles x, squares, cubes;
    for (int i = -40; i <= 40; ++i) x.push_back(i), squares.push_back(i * i), cubes.push_back(i * i * i);
    auto to_the = [&](int64_t exponent) {
      return built(dtype, x, [&](Graph& g, ValueId in) {
        const Doubles all(x.size(), static_cast<double>(exponent));
        const ValueId e = g.add_constant("e", dtype, {std::ssize(x)}, graph::make_constant_from_doubles(dtype, all));
        return node(g, Op::kBinary, graph::BinaryAttrs{graph::BinaryFn::kPow}, {in, e});
      });
    };
    CHECK(to_the(2) == squares);
    CHECK(to_the(3) == cubes);
  }
}

TEST_CASE("Shrink of integers adds a fraction, and cuts off") {
  CHECK(built(DType::kI32, {-3, -1, 0, 1, 3}, [](Graph& g, ValueId x) {
          return node(g, Op::kUnary, graph::UnaryAttrs{graph::UnaryFn::kShrink, 0.5, 0.25}, {x});
        }) == Doubles{-2, 0, 0, 0, 2});
}

TEST_CASE("numbers become unsigned integers of 32 and 64 bits") {
  // Back to f64, which has them all.
  auto through = [](DType wide, DType from, const Doubles& data) {
    return built(from, data, [&](Graph& g, ValueId x) {
      const ValueId y = node(g, Op::kCast, graph::CastAttrs{wide}, {x});
      return node(g, Op::kCast, graph::CastAttrs{DType::kF64}, {y});
    });
  };
  CHECK(through(DType::kU32, DType::kF64, {3e9, -1, 5.75, 0}) == Doubles{3e9, 4294967295, 5, 0});
  CHECK(through(DType::kU32, DType::kF32, {3e9, 2147483648, 5.75}) == Doubles{3e9, 2147483648, 5});
  CHECK(through(DType::kU32, DType::kI64, {-1, 4294967296, 7}) == Doubles{4294967295, 0, 7});
  CHECK(through(DType::kU64, DType::kF64, {1e19, 0x1p63, 3e9, 5.75}) == Doubles{1e19, 0x1p63, 3e9, 5});
  CHECK(through(DType::kU64, DType::kI8, {-1, 7}) == Doubles{0x1p64, 7});
  CHECK(through(DType::kU64, DType::kU32, {4294967295, 7}) == Doubles{4294967295, 7});
}

TEST_CASE("a shift to the right of unsigned integers moves zeros in") {
  auto shifted = [](DType dtype, const Doubles& data, double by) {
    return built(dtype, data, [&](Graph& g, ValueId x) {
      const ValueId y = g.add_constant("by", dtype, {}, graph::make_constant_from_doubles(dtype, Doubles{by}));
      return node(g, Op::kBinary, graph::BinaryAttrs{graph::BinaryFn::kShiftRight}, {x, y});
    });
  };
  const Doubles wide{0x1p63, 0x1.8p63, 0x1p62, 12, 0};
  CHECK(shifted(DType::kU64, wide, 0) == wide);
  CHECK(shifted(DType::kU64, wide, 1) == Doubles{0x1p62, 0x1.8p62, 0x1p61, 6, 0});
  CHECK(shifted(DType::kU64, wide, 2) == Doubles{0x1p61, 0x1.8p61, 0x1p60, 3, 0});
  CHECK(shifted(DType::kU64, wide, 63) == Doubles{1, 1, 0, 0, 0});
  CHECK(shifted(DType::kU32, {4294967295, 2147483648, 9}, 3) == Doubles{536870911, 268435456, 1});
}

TEST_CASE("a table with a place for each byte is read right, of all lengths and signs") {
  for (DType type : {DType::kU8, DType::kI8})
    for (DType held : {DType::kU8, DType::kI8})
      for (int64_t count : {1, 16, 37, 64, 100, 256, 5003}) {
        INFO(graph::dtype_name(type) << " to " << graph::dtype_name(held) << ", " << count);
        const double low = type == DType::kI8 ? -128 : 0, least = held == DType::kI8 ? -128 : 0;
        Doubles table, x, want;
        for (int i = 0; i < 256; ++i) table.push_back(least + i * 89 % 256);
        for (int64_t i = 0; i < count; ++i) x.push_back(low + static_cast<double>((i * 37 + 11) % 256));
        for (double v : x) want.push_back(table[static_cast<size_t>(v < 0 ? v + 256 : v)]);
        CHECK(built(type, x, [&](Graph& g, ValueId in) {
                const ValueId t = g.add_constant("t", held, {256}, graph::make_constant_from_doubles(held, table));
                return node(g, Op::kGather, graph::AxisAttrs{0}, {t, in});
              }) == want);
      }
}
