// Kernels before Stage::Lowered: what each expression means, loops, blocks, bounds, contents, parallel conflicts.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "interp/value.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"

using namespace tcc;
using interp::Finding;
using interp::TensorData;
using ir::Type;

namespace {

ir::Kernel parse(const std::string& text) {
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message);
  return *kernel;
}
// Runs `out[0] = <expression>` with inputs x, y of the given type.
double evaluate(const std::string& expression, Type in, std::vector<double> values, Type out) {
  std::string text = "kernel nest {\n input x: " + std::string(ir::type_name(in)) + "[" +
                     std::to_string(values.size()) + "]\n output z: " + std::string(ir::type_name(out)) +
                     "[1]\n z[0] = " + expression + "\n}";
  const int64_t n[] = {static_cast<int64_t>(values.size())}, one[] = {1};
  TensorData x = TensorData::from_doubles(in, n, values), z = TensorData::zeros(out, one);
  TensorData* params[] = {&x, &z};
  const interp::Report report = interp::run(parse(text), params);
  INFO(text << report.text());
  CHECK(report.ok());
  return z.at(0);
}
interp::Report run_one(const std::string& text, int64_t n, interp::Options options = {}) {
  const ir::Kernel kernel = parse(text);
  std::vector<TensorData> tensors;
  std::vector<TensorData*> params;
  for (const ir::Buffer* b : kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    const int64_t shape[] = {n};
    tensors.push_back(TensorData::make_random(b->type, shape, 3));
  }
  for (TensorData& t : tensors) params.push_back(&t);
  return interp::run(kernel, params, options);
}

}  // namespace

TEST_CASE("float arithmetic rounds to its type", "[unit][interp]") {
  const Type f32 = Type::kF32;
  CHECK(evaluate("x[0] + x[1]", f32, {16777216.0, 1.0}, f32) == 16777216.0);
  CHECK(evaluate("x[0] + x[1]", Type::kF64, {16777216.0, 1.0}, Type::kF64) == 16777217.0);
  CHECK(evaluate("x[0] * x[1]", f32, {0.1f, 3.0}, f32) == 0.1f * 3.0f);
  CHECK(evaluate("x[0] / x[1]", f32, {1.0, 3.0}, f32) == 1.0f / 3.0f);
  CHECK(evaluate("x[0] / x[1]", f32, {1.0, 0.0}, f32) == std::numeric_limits<double>::infinity());
  CHECK(evaluate("x[0] + x[1]", Type::kF16, {2048.0, 1.0}, Type::kF16) == 2048.0);
  CHECK(evaluate("x[0] + x[1]", Type::kF16, {2048.0, 3.0}, Type::kF16) == 2052.0);
  CHECK(evaluate("x[0] + x[1]", Type::kBF16, {256.0, 1.0}, Type::kBF16) == 256.0);
  CHECK(evaluate("fma(x[0], x[1], x[2])", f32, {1 + 0x1p-12, 1 - 0x1p-12, -1.0}, f32) == -0x1p-24);
}

TEST_CASE("min and max return the other operand of a NaN", "[unit][interp]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(evaluate("min(x[0], x[1])", Type::kF32, {nan, 2.0}, Type::kF32) == 2.0);
  CHECK(evaluate("max(x[0], x[1])", Type::kF32, {2.0, nan}, Type::kF32) == 2.0);
  CHECK(std::isnan(evaluate("max(x[0], x[1])", Type::kF32, {nan, nan}, Type::kF32)));
  CHECK(evaluate("min(x[0], x[1])", Type::kI8, {-3, 2}, Type::kI8) == -3);
}

TEST_CASE("small integers wrap, their division truncates", "[unit][interp]") {
  CHECK(evaluate("x[0] + x[1]", Type::kI8, {127, 1}, Type::kI8) == -128);
  CHECK(evaluate("x[0] - x[1]", Type::kU8, {0, 1}, Type::kU8) == 255);
  CHECK(evaluate("x[0] + x[1]", Type::kI16, {32767, 1}, Type::kI16) == -32768);
  CHECK(evaluate("x[0] - x[1]", Type::kU16, {0, 1}, Type::kU16) == 65535);
  CHECK(evaluate("x[0] * x[1]", Type::kI32, {65536, 65536}, Type::kI32) == 0);
  CHECK(evaluate("x[0] / x[1]", Type::kI32, {-7, 2}, Type::kI32) == -3);
  CHECK(evaluate("x[0] / x[1]", Type::kI32, {-2147483648.0, -1}, Type::kI32) == -2147483648.0);
}

TEST_CASE("bits of integers, shifts to the right keep the sign", "[unit][interp]") {
  CHECK(evaluate("bit_and(x[0], x[1])", Type::kI8, {-6, 13}, Type::kI8) == 8);
  CHECK(evaluate("bit_or(x[0], x[1])", Type::kI32, {-6, 13}, Type::kI32) == -1);
  CHECK(evaluate("bit_xor(x[0], x[1])", Type::kU8, {200, 255}, Type::kU8) == 55);
  CHECK(evaluate("shl(x[0], x[1])", Type::kU8, {200, 1}, Type::kU8) == 144);
  CHECK(evaluate("shr(x[0], x[1])", Type::kI16, {-5, 1}, Type::kI16) == -3);
  CHECK(evaluate("shr(x[0], x[1])", Type::kU16, {65535, 15}, Type::kU16) == 1);
}

TEST_CASE("index division rounds down", "[unit][interp]") {
  CHECK(evaluate("x[0] // x[1]", Type::kI64, {-7, 2}, Type::kI64) == -4);
  CHECK(evaluate("x[0] % x[1]", Type::kI64, {-7, 2}, Type::kI64) == 1);
  CHECK(evaluate("x[0] // x[1]", Type::kI64, {7, -2}, Type::kI64) == -4);
  CHECK(evaluate("x[0] % x[1]", Type::kI64, {7, -2}, Type::kI64) == -1);
  CHECK(evaluate("x[0] // 4", Type::kI64, {-1}, Type::kI64) == -1);
  CHECK(evaluate("x[0] % 4", Type::kI64, {-1}, Type::kI64) == 3);
  CHECK(evaluate("x[0] // 3", Type::kI64, {-1}, Type::kI64) == -1);
}

TEST_CASE("casts saturate, truncate and round to even", "[unit][interp]") {
  CHECK(evaluate("i8(x[0])", Type::kF32, {300.0}, Type::kI8) == 127);
  CHECK(evaluate("u8(x[0])", Type::kF32, {-3.0}, Type::kU8) == 0);
  CHECK(evaluate("i16(x[0])", Type::kF32, {-40000.0}, Type::kI16) == -32768);
  CHECK(evaluate("u16(x[0])", Type::kF32, {70000.0}, Type::kU16) == 65535);
  CHECK(evaluate("i32(x[0])", Type::kF32, {-2.9}, Type::kI32) == -2);
  CHECK(evaluate("i32(x[0])", Type::kF32, {1e20}, Type::kI32) == 2147483647.0);
  CHECK(evaluate("i32(x[0])", Type::kF64, {std::nan("")}, Type::kI32) == 0);
  CHECK(evaluate("f32(x[0])", Type::kI32, {16777217}, Type::kF32) == 16777216.0);
  CHECK(evaluate("f16(x[0])", Type::kF64, {65519.9}, Type::kF16) == 65504.0);
  CHECK(std::isinf(evaluate("f16(x[0])", Type::kF64, {65520.0}, Type::kF16)));
  CHECK(evaluate("f16(x[0])", Type::kF64, {1 + 0x1p-11 + 0x1p-40}, Type::kF16) == 1 + 0x1p-10);  // no double rounding
  CHECK(evaluate("f16(x[0])", Type::kF64, {0x1p-25}, Type::kF16) == 0.0);
  CHECK(evaluate("f16(x[0])", Type::kF64, {0x1.8p-24}, Type::kF16) == 0x1p-23);
  CHECK(evaluate("bf16(x[0])", Type::kF32, {1 + 0x1p-8}, Type::kBF16) == 1.0);
  CHECK(evaluate("bf16(x[0])", Type::kF32, {1 + 0x1.8p-7}, Type::kBF16) == 1 + 0x1p-6);
}

TEST_CASE("every f16 and bf16 survives memory and rounding", "[unit][interp]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double half = interp::f16_value(static_cast<uint16_t>(bits));
    if (!std::isnan(half)) {
      REQUIRE(interp::f16_bits(half) == bits);
      if (!std::isinf(half)) REQUIRE(interp::round_f16(half) == half);
    }
    const double brain = interp::bf16_value(static_cast<uint16_t>(bits));
    if (!std::isnan(brain)) {
      REQUIRE(interp::bf16_bits(brain) == bits);
      REQUIRE(interp::round_bf16(brain) == brain);
    }
  }
}

TEST_CASE("math calls are libm's, rounded once", "[unit][interp]") {
  CHECK(evaluate("exp(x[0])", Type::kF32, {1.0}, Type::kF32) == static_cast<float>(std::exp(1.0)));
  CHECK(evaluate("erf(x[0])", Type::kF64, {0.5}, Type::kF64) == std::erf(0.5));
  CHECK(evaluate("round(x[0])", Type::kF32, {2.5}, Type::kF32) == 2.0);
  CHECK(evaluate("sigmoid(x[0])", Type::kF32, {0.0}, Type::kF32) == 0.5);
  CHECK(evaluate("pow(x[0], x[1])", Type::kF32, {2.0, 10.0}, Type::kF32) == 1024.0);
  CHECK(evaluate("rsqrt(x[0])", Type::kF32, {4.0}, Type::kF32) == 0.5);
}

TEST_CASE("comparisons, logic and select", "[unit][interp]") {
  CHECK(evaluate("x[0] < x[1]", Type::kF32, {1.0, 2.0}, Type::kBool) == 1);
  CHECK(evaluate("x[0] <= x[1]", Type::kF32, {std::nan(""), 2.0}, Type::kBool) == 0);
  CHECK(evaluate("x[0] != x[1]", Type::kF32, {std::nan(""), 2.0}, Type::kBool) == 1);
  CHECK(evaluate("!(x[0] == x[1]) && x[0] < x[1] || false", Type::kI32, {1, 2}, Type::kBool) == 1);
  CHECK(evaluate("select(x[0] < x[1], x[1], x[0])", Type::kF32, {1.0, 2.0}, Type::kF32) == 2.0);
  // The side not taken is not evaluated: 7 // 0 would be a finding.
  CHECK(evaluate("select(x[1] == 0, 5, x[0] // x[1])", Type::kI64, {7, 0}, Type::kI64) == 5);
}

TEST_CASE("a zero divisor is reported", "[unit][interp]") {
  const std::string text = "kernel nest { output z: i64[2]\n z[0] = 0\n z[1] = 5 // z[0]\n z[0] = 1 }";
  const auto report = run_one(text, 2);
  CHECK(report.has(Finding::Kind::kZeroDivisor));
}

TEST_CASE("a predicated access touches nothing when false", "[unit][interp]") {
  const std::string text = R"(kernel nest {
    input x: f32[4]
    output z: f32[4]
    for i in 4 { z[i] = (x[i - 1] where 1 <= i else 9.0) }
    for i in 8 { z[i] = 1.0 where i < 1 }
  })";
  const int64_t shape[] = {4};
  TensorData x = TensorData::from_doubles(Type::kF32, shape, std::vector<double>{1, 2, 3, 4}), z = x;
  TensorData* params[] = {&x, &z};
  const auto report = interp::run(parse(text), params);
  INFO(report.text());
  CHECK(report.ok());
  CHECK(z.to_doubles() == std::vector<double>{1, 1, 2, 3});
}

TEST_CASE("accesses outside of a buffer are reported and skipped", "[unit][interp]") {
  const auto load = run_one("kernel nest { input x: f32[4]\n output z: f32[4]\n for i in 4 { z[i] = x[i + 1] } }", 4);
  REQUIRE(load.has(Finding::Kind::kOutOfBounds));
  CHECK(load.findings[0].count == 1);
  CHECK(load.findings[0].text.find("x") != std::string::npos);
  const auto store = run_one("kernel nest { input x: f32[4]\n output z: f32[4]\n for i in 6 { z[i - 1] = x[0] } }", 4);
  REQUIRE(store.has(Finding::Kind::kOutOfBounds));
  CHECK(store.findings[0].count == 2);
  const auto gather = run_one("kernel nest { input i: i64[4]\n output z: f32[4]\n z[i[0] + 9] = 1.0 }", 4);
  CHECK(gather.has(Finding::Kind::kOutOfBounds));
}

TEST_CASE("a matrix product with init, split with a tail", "[unit][interp]") {
  const std::string text = R"(kernel scheduled {
    input A: f32[7, 9]
    input B: f32[9, 5]
    output C: f32[7, 5]
    for i0 in 2 { for j in 5 { for k in 9 { for i1 in 4 {
      block mm(i: spatial 7 = i0*4 + i1, jj: spatial 5 = j, kk: reduce 9 = k) reduce(sum) where i0*4 + i1 < 7 {
        init { C[i, jj] = 0.0 }
        C[i, jj] = C[i, jj] + A[i, kk] * B[kk, jj]
      }
    } } } }
  })";
  const int64_t sa[] = {7, 9}, sb[] = {9, 5}, sc[] = {7, 5};
  TensorData a = TensorData::make_random_integers(Type::kF32, sa, 1),
             b = TensorData::make_random_integers(Type::kF32, sb, 2);
  TensorData c = TensorData::zeros(Type::kF32, sc);
  TensorData* params[] = {&a, &b, &c};
  interp::Options options;
  options.check_races = true;
  const auto report = interp::run(parse(text), params, options);
  INFO(report.text());
  CHECK(report.ok());
  CHECK(report.operations == 7 * 5 * 9 * 6 + 7 * 5);
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 9; ++k) sum += a.at(i * 9 + k) * b.at(k * 5 + j);
      CHECK(c.at(i * 5 + j) == sum);
    }
  }
}

TEST_CASE("reads of what nothing wrote are reported, also in a later life of a temporary", "[unit][interp]") {
  CHECK(run_one("kernel nest { input x: f32[4]\n output z: f32[4]\n for i in 4 { z[i] = z[i] + x[i] } }", 4)
            .has(Finding::Kind::kUninitialised));
  const std::string lives = R"(kernel scheduled {
    output z: f32[4]
    temp t: f32[4]
    for i in 4 {
      for j in 4 { t[j] = 1.0 where i < 1 }
      for j in 4 { z[i] = t[j] }
    }
  })";
  const auto report = run_one(lives, 4);
  REQUIRE(report.has(Finding::Kind::kUninitialised));
  CHECK(report.findings[0].count == 12);
  CHECK(report.findings[0].text.find("t[0]") != std::string::npos);
  const std::string allocated = R"(kernel nest {
    output z: f32[4]
    temp t: f32[1] local
    for i in 4 { alloc t { t[0] = 1.0 where i < 1  z[i] = t[0] } }
  })";
  CHECK(run_one(allocated, 4).has(Finding::Kind::kUninitialised));
}

TEST_CASE("iterations of parallel loops may not conflict", "[unit][interp]") {
  interp::Options races;
  races.check_races = true;
  const auto with = [&](const std::string& body) {
    return run_one("kernel nest { input x: f32[16]\n output z: f32[16]\n for e in 16 { z[e] = 0.0 }\n" + body + "}", 16,
                   races);
  };
  CHECK(with("for i in 16 parallel { z[i] = x[i] }").ok());
  CHECK(with("for i in 4 parallel { for j in 4 vectorized { z[i*4 + j] = x[j] } }").ok());
  CHECK(with("for i in 8 parallel { z[i // 2] = x[i] }").has(Finding::Kind::kRace));
  CHECK(with("for i in 8 parallel { z[i] = z[i + 8] }").ok());
  CHECK(with("for i in 8 parallel { z[i] = z[i + 1] }").has(Finding::Kind::kRace));
  CHECK(with("for i in 8 parallel { z[i + 1] = z[i] }").has(Finding::Kind::kRace));
  CHECK(with("for i in 4 { for j in 4 parallel { z[j] = z[j] + x[i] } }").ok());
  CHECK(with("for i in 4 parallel { for j in 4 { z[j] = z[j] + x[i] } }").has(Finding::Kind::kRace));
  CHECK(with("for i in 4 bound(thread.x) { z[0] = x[i] }").has(Finding::Kind::kRace));
  CHECK(with("for i in 4 parallel { z[i] = x[i] }\n for i in 4 parallel { z[i + 1] = z[i + 4] + x[i] }")
            .has(Finding::Kind::kRace));
  CHECK(with("for i in 4 parallel { z[i] = x[i] }\n for i in 4 parallel { z[3 - i] = z[3 - i] + x[i] }").ok());
  // Inner parallel loops that have ended are ordered with what follows in the same iteration only.
  CHECK(with("for i in 2 parallel { for j in 4 parallel { z[i*4 + j] = 1.0 }\n z[i*4] = z[i*4 + 3] }").ok());
  CHECK(
      with("for i in 2 parallel { for j in 4 parallel { z[i*4 + j] = 1.0 }\n z[8] = z[0] }").has(Finding::Kind::kRace));
}

TEST_CASE("a reduction made parallel is a finding of its own", "[unit][interp]") {
  interp::Options races;
  races.check_races = true;
  const std::string text = R"(kernel scheduled {
    input x: f32[8]
    output z: f32[8]
    for k in 8 parallel {
      block sum(kk: reduce 8 = k) reduce(sum) { init { z[0] = 0.0 } z[0] = z[0] + x[kk] }
    }
  })";
  CHECK(run_one(text, 8, races).has(Finding::Kind::kReductionOrder));
}

TEST_CASE("layouts: weights are permuted in, outputs out", "[unit][interp]") {
  const std::string text = R"(kernel nest {
    weight w: f32[4, 6] layout[4,6]{1/4%0@addr*16, 0/1%4@addr*4, 1/1%4@addr*1} size 32
    output z: f32[4, 6] layout[4,6]{1/1%6@addr*4, 0/1%4@addr*1} xor(0->2&1) size 32
    for i in 4 { for j in 6 { z[i, j] = w[i, j] + 1.0 } }
  })";
  const int64_t shape[] = {4, 6};
  TensorData w = TensorData::make_random(Type::kF32, shape, 5), z = TensorData::zeros(Type::kF32, shape);
  TensorData* params[] = {&w, &z};
  const auto report = interp::run(parse(text), params);
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 24; ++i) CHECK(z.at(i) == static_cast<float>(w.at(i) + 1.0));
}

TEST_CASE("scalars are given, checked and used in extents", "[unit][interp]") {
  const ir::Kernel kernel = parse(R"(kernel nest {
    param n in 1..8
    input x: f32[n]
    output z: f32[n]
    for i in n { z[n - 1 - i] = x[i] }
  })");
  const int64_t shape[] = {3};
  TensorData x = TensorData::from_doubles(Type::kF32, shape, std::vector<double>{1, 2, 3}),
             z = TensorData::zeros(Type::kF32, shape);
  TensorData* params[] = {&x, &z};
  interp::Options options;
  CHECK(interp::run(kernel, params, options).has(Finding::Kind::kBadArguments));
  options.scalars = {{kernel.scalars[0].id, 9}};
  CHECK(interp::run(kernel, params, options).has(Finding::Kind::kBadArguments));
  options.scalars = {{kernel.scalars[0].id, 3}};
  const auto report = interp::run(kernel, params, options);
  INFO(report.text());
  CHECK(report.ok());
  CHECK(z.to_doubles() == std::vector<double>{3, 2, 1});
}

TEST_CASE("wrong tensors and too many steps are findings", "[unit][interp]") {
  const std::string text = "kernel nest { output z: f32[4]\n for i in 1000 { for j in 1000 { z[0] = 1.0 } } }";
  interp::Options options;
  options.max_steps = 5000;
  const auto report = run_one(text, 4, options);
  CHECK(report.has(Finding::Kind::kStepLimit));
  CHECK(report.steps <= 5001);
  CHECK(run_one(text, 5).has(Finding::Kind::kBadArguments));
}

TEST_CASE("instructions of the CPU run their semantics", "[unit][interp]") {
  const std::string text = R"(kernel lowered {
    input x: f32[40]
    output z: f32[40]
    temp v: f32[16] local
    alloc v { for i in 3 {
      instr zmm.load.f32(v[0], x[i*16]; min(16, 40 - i*16))
      instr zmm.fma.f32(v[0], v[0], v[0]; 16)
      instr zmm.store.f32(z[i*16], v[0]; min(16, 40 - i*16))
    } }
  })";
  const int64_t shape[] = {40};
  TensorData x = TensorData::make_random_integers(Type::kF32, shape, 5), z = TensorData::zeros(Type::kF32, shape);
  TensorData* params[] = {&x, &z};
  interp::Options options;
  options.check_races = true;
  const auto report = interp::run(parse(text), params, options);
  INFO(report.text());
  CHECK(report.ok());
  for (int64_t i = 0; i < 40; ++i) CHECK(z.at(i) == x.at(i) * x.at(i) + x.at(i));
}

TEST_CASE("index arithmetic is computed where its variables are known", "[unit][interp]") {
  // Fused, triangular, gathered and conditional accesses in one nest, against the same loops in C++.
  const std::string text = R"(kernel nest {
    input x: f32[6, 10]
    input p: i64[60]
    output z: f32[60]
    for f in 60 { z[f] = 0.0 }
    for f in 60 { for k in f % 7 + 1 { for u in 3 {
      if (f + k + u) % 2 == 0 {
        z[(f*7 + 3) % 60] = z[(f*7 + 3) % 60] + x[f // 10, (f + k*u) % 10] * f32(k - u)
      } else {
        z[p[(f + 11*k) % 60]] = z[p[(f + 11*k) % 60]] + x[min(f // 8, 5), max(9 - k - u, 0)]
      }
    } } }
  })";
  const int64_t sx[] = {6, 10}, sp[] = {60};
  TensorData x = TensorData::make_random_integers(Type::kF32, sx, 4), p = TensorData::zeros(Type::kI64, sp);
  TensorData z = TensorData::zeros(Type::kF32, sp);
  for (int64_t i = 0; i < 60; ++i) p.set(i, static_cast<double>(i * 13 % 60));
  TensorData* params[] = {&x, &p, &z};
  for (bool races : {false, true}) {
    interp::Options options;
    options.check_races = races;
    options.poison = races;
    const auto report = interp::run(parse(text), params, options);
    INFO(report.text());
    CHECK(report.ok());
    std::vector<double> want(60, 0.0);
    for (int64_t f = 0; f < 60; ++f) {
      for (int64_t k = 0; k < f % 7 + 1; ++k) {
        for (int64_t u = 0; u < 3; ++u) {
          if ((f + k + u) % 2 == 0) {
            want[static_cast<size_t>((f * 7 + 3) % 60)] +=
                x.at(f / 10 * 10 + (f + k * u) % 10) * static_cast<double>(k - u);
          } else {
            const auto at = static_cast<size_t>((f + 11 * k) % 60 * 13 % 60);
            want[at] += x.at(std::min<int64_t>(f / 8, 5) * 10 + std::max<int64_t>(9 - k - u, 0));
          }
        }
      }
    }
    CHECK(z.to_doubles() == want);
  }
}

TEST_CASE("a carried scan runs in order and starts once", "[unit][interp]") {
  const std::string text = R"(kernel built {
    input x: i32[8]
    output z: i32[8]
    temp acc: i32[1]
    for i in 8 {
      block scan(ii: carried 8 = i) reduce(sum) {
        init { acc[0] = 100i32 }
        acc[0] = acc[0] + x[ii]
        z[ii] = acc[0]
      }
    }
  })";
  // The accumulator must live outside of the loop: written first by init alone, it would be undefined later.
  const int64_t n[] = {8};
  TensorData x = TensorData::from_doubles(Type::kI32, n, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}), z = x;
  TensorData* params[] = {&x, &z};
  const auto report = interp::run(parse(text), params);
  CHECK(report.has(Finding::Kind::kUninitialised));
  std::string outside = text;
  outside.insert(outside.find("for i in 8"), "acc[0] = 0i32\n    ");
  const auto good = interp::run(parse(outside), params);
  INFO(good.text());
  CHECK(good.ok());
  CHECK(z.to_doubles() == std::vector<double>{101, 103, 106, 110, 115, 121, 128, 136});
}
