// Reductions in registers: lanes combined by halves, and tiles that nothing pushes out of their registers.
#include <array>
#include <cmath>
#include <limits>
#include <regex>

#include "nest.h"

namespace tcc::codegen {
namespace {

using ir::ExprKind;
using ir::LoopKind;
using ir::Type;

// y = start op x[0] op ... op x[n - 1], in any order.
float reduce(const target::Target& target, ExprKind kind, const std::vector<float>& x, float start) {
  Nest t;
  auto n = static_cast<int64_t>(x.size());
  const ir::Buffer *in = t.input("x", Type::kF32, {n}), *out = t.output("y", Type::kF32, {1});
  std::array<ir::Annotation, 1> tree = {ir::Annotation{ir::AnnotationKey::kTreeReduce, t.i(1)}};
  ir::Stmt combine = t.loop(n, LoopKind::kSerial, [&](ir::Expr i) {
    return t.store(out, {t.i(0)}, t.b().binary(kind, t.load(out, {t.i(0)}), t.load(in, {i})));
  });
  const ir::Loop* l = ir::as<ir::Loop>(combine);
  combine = t.b().loop(l->id, l->extent, l->body, l->loop_kind, l->axis, tree);
  ir::Stmt first = t.store(out, {t.i(0)}, t.b().real(start));
  Aligned<float> a(x.begin(), x.end()), y(1);
  compile(t.lowered(t.seq({first, combine})), target).run({a.data(), y.data()});
  return y[0];
}

}  // namespace

TEST_CASE("loops marked as trees combine every lane once", "[codegen]") {
  for (const target::Target& target : runnable_targets())
    for (size_t n : {2, 3, 7, 16, 50, 64, 100, 200}) {
      INFO(target.name << " " << n);
      std::vector<float> x;
      float sum = 3, product = 1, high = -5, low = 5;
      for (size_t i = 0; i < n; ++i) {
        x.push_back(static_cast<float>((i * 37 + 11) % 101) - 50);
        sum += x[i], high = std::max(high, x[i]), low = std::min(low, x[i]);
      }
      CHECK(reduce(target, ExprKind::kAdd, x, 3) == sum);
      CHECK(reduce(target, ExprKind::kMax, x, -5) == high);
      CHECK(reduce(target, ExprKind::kMin, x, 5) == low);
      for (size_t i = 0; i < n; ++i) x[i] = i % 5 == 0 ? 2.0f : i % 5 == 1 ? -0.5f : 1.0f, product *= x[i];
      CHECK(reduce(target, ExprKind::kMul, x, 1) == product);
      // What is not a number is passed over.
      x[n / 2] = NAN;
      float rest = -5;
      for (float v : x)
        if (v > rest) rest = v;
      CHECK(reduce(target, ExprKind::kMax, x, -5) == rest);
    }
}

TEST_CASE("exp of whole vectors reaches the ends of the range", "[codegen]") {
  for (int64_t lanes : {16, 32, 64}) {
    std::vector<float> special = {0,      -0.0f, 1,    -1,   88.7f,  89,       1e30f,
                                  -87.5f, -95,   -103, -104, -1e30f, INFINITY, -INFINITY};
    while (static_cast<int64_t>(special.size()) < lanes)
      special.push_back(static_cast<float>(special.size()) * 2.7f - 90);
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF32, {lanes}), *y = t.output("y", Type::kF32, {lanes});
    ir::Kernel k = t.lowered(t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr i) {
      return t.store(y, {i}, t.call(ir::Intrinsic::kExp, {t.load(x, {i})}));
    }));
    Aligned<float> in(special.begin(), special.begin() + lanes), out(static_cast<size_t>(lanes));
    compile(k).run({in.data(), out.data()});
    for (size_t i = 0; i < out.size(); ++i) {
      INFO(lanes << " lanes, exp(" << in[i] << ") = " << out[i]);
      double want = std::exp(static_cast<double>(in[i]));
      if (std::isinf(static_cast<float>(want))) {
        CHECK(std::isinf(out[i]));
      } else if (want < std::numeric_limits<float>::min() && out[i] == 0) {
        // Subnormal results are flushed.
      } else {
        double step = std::max(std::ldexp(1.0, std::ilogb(std::max(want, 1e-38)) - 23), 0x1p-149);
        CHECK(std::fabs(out[i] - want) <= 2 * step);
      }
    }
    in[3] = NAN;
    compile(k).run({in.data(), out.data()});
    CHECK(std::isnan(out[3]));
    CHECK(out[4] > 1e38f);
  }
}

// y[lane] = the largest of x[.., lane], NaN passed over; the first row comes from x itself when `from_data`.
Compiled lane_maxima(int64_t rows, int64_t lanes, bool from_data) {
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {rows, lanes}), *y = t.output("y", Type::kF32, {lanes});
  ir::Stmt first = t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr v) {
    return t.store(y, {v}, from_data ? t.load(x, {t.i(0), v}) : t.b().real(-INFINITY));
  });
  ir::Stmt rest = t.loop(rows, LoopKind::kSerial, [&](ir::Expr r) {
    return t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr v) {
      return t.store(y, {v}, t.b().binary(ExprKind::kMax, t.load(y, {v}), t.load(x, {r, v})));
    });
  });
  HostOptions options;
  options.want_assembly = true;
  return compile(t.lowered(t.seq({first, rest})), host(), options);
}

TEST_CASE("maxima pass over what is not a number, at the price of one instruction", "[codegen]") {
  constexpr int64_t kRows = 5, kLanes = 8;
  for (bool from_data : {false, true}) {
    INFO("first values from the data: " << from_data);
    Compiled code = lane_maxima(kRows, kLanes, from_data);
    Aligned<float> x(kRows * kLanes), y(kLanes);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 29 + 3) % 41) - 20;
    for (size_t lane = 0; lane < kLanes; ++lane) x[(lane % kRows) * kLanes + lane] = NAN;
    for (size_t row = 0; row < kRows; ++row) x[row * kLanes + 6] = row == 3 ? -INFINITY : NAN;
    code.run({x.data(), y.data()});
    for (size_t lane = 0; lane < kLanes; ++lane) {
      float want = -INFINITY;
      for (size_t row = 0; row < kRows; ++row)
        if (x[row * kLanes + lane] > want) want = x[row * kLanes + lane];
      CHECK(y[lane] == want);
    }
    // Only values that may be NaN are looked at twice.
    CHECK((code.artifact.source.find("unord") != std::string::npos) == from_data);
  }
}

// 28 of 32 registers hold the tile; neighboring positions of the window share inputs, which must not be kept.
TEST_CASE("register tiles stay in registers through an unrolled window", "[codegen]") {
  if (!host().cpu.features.avx512f || host().cpu.vector_bits < 512) SKIP("no vectors of 512 bits on this processor");
  constexpr int64_t kRows = 14, kWidth = 32, kChannels = 8, kTaps = 3, kPitch = kRows + kTaps - 1;
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {kChannels, kPitch}),
                   *w = t.input("w", Type::kF32, {kChannels, kTaps, kWidth}),
                   *y = t.output("y", Type::kF32, {kRows, kWidth}),
                   *acc = t.buffer("acc", Type::kF32, {kRows, kWidth}, ir::BufferRole::kTemp);
  auto tile = [&](const std::function<ir::Stmt(ir::Expr, ir::Expr)>& body) {
    return t.loop(kRows, LoopKind::kUnrolled, [&](ir::Expr r) {
      return t.loop(kWidth, LoopKind::kVectorized, [&](ir::Expr v) { return body(r, v); });
    });
  };
  ir::Stmt zero = tile([&](ir::Expr r, ir::Expr v) { return t.store(acc, {r, v}, t.b().real(0)); });
  const std::array<ir::Annotation, 1> complete = {ir::Annotation{ir::AnnotationKey::kCompleteTiles, t.i(1)}};
  ir::Stmt sums = t.loop(kChannels, LoopKind::kSerial, [&](ir::Expr c) {
    ir::Stmt taps = t.loop(kTaps, LoopKind::kUnrolled, [&](ir::Expr k) {
      return tile([&](ir::Expr r, ir::Expr v) {
        ir::Expr product = t.b().mul(t.load(x, {c, t.b().add(r, k)}), t.load(w, {c, k, v}));
        return t.store(acc, {r, v}, t.b().add(t.load(acc, {r, v}), product));
      });
    });
    const ir::Loop* l = ir::as<ir::Loop>(taps);
    return t.b().loop(l->id, l->extent, l->body, l->loop_kind, l->axis, complete);
  });
  ir::Stmt copy = tile([&](ir::Expr r, ir::Expr v) { return t.store(y, {r, v}, t.load(acc, {r, v})); });
  HostOptions options;
  options.want_assembly = true;
  Compiled code = compile(t.lowered(t.alloc({acc}, t.seq({zero, sums, copy}))), host(), options);
  const std::string& text = code.artifact.source;
  std::regex spill("zmm[^\n]*\\(%rsp|\\(%rsp[^\n]*zmm"), fma("vfmadd[0-9]*ps[^\n]*zmm");
  CHECK(std::distance(std::sregex_iterator(text.begin(), text.end(), spill), std::sregex_iterator()) == 0);
  CHECK(std::distance(std::sregex_iterator(text.begin(), text.end(), fma), std::sregex_iterator()) ==
        2 * kRows * kTaps);

  Aligned<float> a(kChannels * kPitch), b(kChannels * kTaps * kWidth), out(kRows * kWidth);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
  code.run({a.data(), b.data(), out.data()});
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kWidth; ++v) {
      float want = 0;
      for (int64_t c = 0; c < kChannels; ++c)
        for (int64_t k = 0; k < kTaps; ++k)
          want += a[static_cast<size_t>(c * kPitch + r + k)] * b[static_cast<size_t>((c * kTaps + k) * kWidth + v)];
      REQUIRE(out[static_cast<size_t>(r * kWidth + v)] == want);
    }
}

}  // namespace tcc::codegen
