// Array programs: each operation against plain arithmetic, on every level of the machine; folding; places of values.
#include "tcc/analysis/columns.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "random_expr.h"
#include "tcc/support/rng.h"

using namespace tcc;
using analysis::Column;
using analysis::ColumnBuilder;
using analysis::ColumnLevel;
using analysis::ColumnProgram;
using testing::floor_quotient;

namespace {

constexpr int64_t kRows = 300, kRoom = 384;  // a whole number of blocks

std::vector<ColumnLevel> levels() {
  std::vector<ColumnLevel> out;
  for (ColumnLevel l : {ColumnLevel::kPlain, ColumnLevel::kAvx2, ColumnLevel::kAvx512})
    if (l <= analysis::column_level()) out.push_back(l);
  return out;
}

std::vector<std::vector<double>> run(const ColumnProgram& p, const std::vector<std::vector<double>>& inputs,
                                     ColumnLevel level) {
  std::vector<const double*> in;
  for (const auto& c : inputs) in.push_back(c.data());
  std::vector<std::vector<double>> outputs(static_cast<size_t>(p.outputs()), std::vector<double>(kRoom));
  std::vector<double*> out;
  for (auto& c : outputs) out.push_back(c.data());
  std::vector<double> scratch;
  p.run(in, out, kRows, scratch, level);
  return outputs;
}

std::vector<double> draw(Rng& rng, int64_t low, int64_t high) {
  std::vector<double> out(kRoom, static_cast<double>(high));
  for (int64_t i = 0; i < kRows; ++i)
    out[static_cast<size_t>(i)] = static_cast<double>(low + rng.below(high - low + 1));
  return out;
}

}  // namespace

TEST_CASE("operations of columns are those of numbers, on every level") {
  ColumnBuilder b;
  const int64_t wide = int64_t{1} << 36;
  const Column x = b.input(-1000, static_cast<double>(wide)), y = b.input(1, 97);
  const std::vector<int64_t> table = {5, -3, 1 << 20};
  const Column i = b.input(0, 2);
  const std::vector<Column> outputs = {b.add(x, y),
                                       b.sub(b.constant(3), x),
                                       b.mul(x, y),
                                       b.floor_div(x, y),
                                       b.floor_mod(x, y),
                                       b.ceil_div(x, b.constant(7)),
                                       b.min(x, b.mul(y, y)),
                                       b.max(b.constant(40), y),
                                       b.less(x, y),
                                       b.less_equal(b.constant(50), y),
                                       b.equal(y, b.constant(13)),
                                       b.select(b.less(y, b.constant(50)), x, b.constant(-1)),
                                       b.bit_ceil(y),
                                       b.lookup(table, i),
                                       b.div(b.constant(1), y),
                                       y};
  const ColumnProgram p = b.finish(outputs);
  Rng rng(1);
  std::vector<std::vector<double>> in = {draw(rng, -1000, wide), draw(rng, 1, 97), draw(rng, 0, 2)};
  for (size_t r = 0; r < 64; ++r) in[0][r] = static_cast<double>(static_cast<int64_t>(in[1][r]) * (rng.below(9) - 4));
  for (ColumnLevel level : levels()) {
    const auto out = run(p, in, level);
    for (size_t r = 0; r < kRows; ++r) {
      const auto a = static_cast<int64_t>(in[0][r]), d = static_cast<int64_t>(in[1][r]);
      INFO("level " << static_cast<int>(level) << ", x " << a << ", y " << d);
      const double want[] = {double(a + d),
                             double(3 - a),
                             double(a * d),
                             double(floor_quotient(a, d)),
                             double(a - d * floor_quotient(a, d)),
                             double(floor_quotient(a + 6, 7)),
                             double(std::min(a, d * d)),
                             double(std::max<int64_t>(40, d)),
                             a < d ? 1.0 : 0.0,
                             50 <= d ? 1.0 : 0.0,
                             d == 13 ? 1.0 : 0.0,
                             d < 50 ? double(a) : -1.0,
                             double(std::bit_ceil(static_cast<uint64_t>(d))),
                             double(table[static_cast<size_t>(in[2][r])]),
                             1.0 / double(d),
                             double(d)};
      for (size_t o = 0; o < outputs.size(); ++o) {
        INFO("output " << o);
        REQUIRE(out[o][r] == want[o]);
      }
    }
  }
}

TEST_CASE("hashes of columns tell values and their order apart, and are the same on every level") {
  ColumnBuilder b;
  const Column x = b.input(1, 64), y = b.input(1, 64);
  const Column seed = b.constant(1);
  const ColumnProgram p = b.finish({b.mix(b.mix(seed, x), y), b.mix(b.mix(seed, y), x)});
  Rng rng(2);
  const std::vector<std::vector<double>> in = {draw(rng, 1, 64), draw(rng, 1, 64)};
  const auto first = run(p, in, levels()[0]);
  for (ColumnLevel level : levels()) {
    const auto out = run(p, in, level);
    for (size_t r = 0; r < kRows; ++r) {
      CHECK(std::bit_cast<uint64_t>(out[0][r]) == std::bit_cast<uint64_t>(first[0][r]));
      const bool equal = std::bit_cast<uint64_t>(out[0][r]) == std::bit_cast<uint64_t>(out[1][r]);
      CHECK(equal == (in[0][r] == in[1][r]));
      for (size_t other = 0; other < r; ++other)
        if (std::bit_cast<uint64_t>(out[0][r]) == std::bit_cast<uint64_t>(out[0][other]))
          CHECK((in[0][r] == in[0][other] && in[1][r] == in[1][other]));
    }
  }
}

TEST_CASE("equal values exist once, and bounds fold what they decide") {
  ColumnBuilder b;
  const Column x = b.input(1, 8), y = b.input(4, 64);
  CHECK(b.add(x, y) == b.add(y, x));
  CHECK(b.mul(x, b.constant(1)) == x);
  CHECK(b.add(b.constant(2), b.constant(3)) == b.constant(5));
  CHECK(b.is(b.floor_div(x, b.constant(9)), 0));
  CHECK(b.floor_mod(x, b.constant(9)) == x);
  CHECK(b.min(x, b.constant(8)) == x);
  CHECK(b.max(x, b.constant(9)) == b.constant(9));
  CHECK(b.is(b.less(x, b.constant(9)), 1));
  CHECK_FALSE(b.known(b.less(x, y)).has_value());
  CHECK(b.is(b.equal(x, b.constant(9)), 0));
  CHECK(b.select(b.constant(1), x, y) == x);
  CHECK(b.least(b.mul(x, y)) == 4);
  CHECK(b.most(b.mul(x, y)) == 512);
}

TEST_CASE("a program holds only what its outputs need, in few places") {
  ColumnBuilder b;
  const Column x = b.input(1, 8);
  Column sum = x;
  for (int i = 0; i < 100; ++i) sum = b.add(b.mul(sum, b.constant(2)), b.floor_mod(x, b.constant(2 + i % 5)));
  b.mul(sum, sum);  // nobody asks for it
  const ColumnProgram p = b.finish({sum, b.constant(7), x});
  CHECK(p.steps() == 205);
  CHECK(p.registers() <= 8);
  const auto out = run(p, {std::vector<double>(kRoom, 3)}, analysis::column_level());
  CHECK(out[1][5] == 7);
  CHECK(out[2][5] == 3);
  double want = 3;
  for (int i = 0; i < 100; ++i) want = want * 2 + std::fmod(3, 2 + i % 5);
  CHECK(out[0][5] == want);
}

TEST_CASE("values keep their places as long as they are needed", "[fuzz]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Rng rng(seed);
    ColumnBuilder b;
    std::vector<Column> values = {b.input(1, 9), b.input(1, 40), b.input(2, 3), b.constant(2), b.constant(-1)};
    auto any = [&] { return values[static_cast<size_t>(rng.below(std::ssize(values)))]; };
    for (int i = 0; i < 120; ++i) {
      const Column x = any(), y = any();
      switch (rng.below(7)) {
        case 0:
          values.push_back(b.add(x, y));
          break;
        case 1:
          values.push_back(b.sub(x, y));
          break;
        case 2:
          values.push_back(b.mul(b.floor_mod(x, b.constant(17)), b.floor_mod(y, b.constant(31))));
          break;
        case 3:
          values.push_back(b.max(x, y));
          break;
        case 4:
          values.push_back(b.select(b.less(x, y), any(), y));
          break;
        case 5:
          values.push_back(b.floor_div(x, b.max(y, b.constant(1))));
          break;
        default:
          values.push_back(b.ceil_div(x, b.max(b.min(y, b.constant(64)), b.constant(1))));
          break;
      }
    }
    const std::vector<Column> some = {any(), values.back(), any()};
    const std::vector<std::vector<double>> in = {draw(rng, 1, 9), draw(rng, 1, 40), draw(rng, 2, 3)};
    const auto all = run(b.finish(values), in, analysis::column_level());
    const auto few = run(b.finish(some), in, analysis::column_level());
    for (size_t o = 0; o < some.size(); ++o) {
      const auto at = static_cast<size_t>(std::find(values.begin(), values.end(), some[o]) - values.begin());
      for (size_t r = 0; r < kRows; ++r) {
        REQUIRE(few[o][r] == all[at][r]);
        REQUIRE(few[o][r] >= b.least(some[o]));
        REQUIRE(few[o][r] <= b.most(some[o]));
      }
    }
  }
}
