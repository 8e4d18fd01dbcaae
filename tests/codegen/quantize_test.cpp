// Quantization to bytes: u8(i32(clip(round(x / scale) + zero))) with one scale for all.
#include <algorithm>
#include <cmath>
#include <limits>

#include "nest.h"
#include "tcc/support/rng.h"

namespace tcc::codegen {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Type;

struct Form {
  Type type = Type::kU8;
  bool integer_zero = true;  // the zero point is a byte, not a float
  double low = 0, high = 255;
};

Compiled quantization(const Form& form, int64_t n, int64_t lanes, const target::Target& target) {
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {n}), *scale = t.input("scale", Type::kF32, {});
  const ir::Buffer* zero = t.input("zero", form.integer_zero ? form.type : Type::kF32, {});
  const ir::Buffer* y = t.output("y", form.type, {n});
  ir::Builder& b = t.b();
  const Expr z = form.integer_zero ? b.cast(t.load(zero, {}), Type::kF32) : t.load(zero, {});
  const auto quantized = [&](Expr at) {
    const Expr sum = b.add(t.call(ir::Intrinsic::kRound, {b.div(t.load(x, {at}), t.load(scale, {}))}), z);
    const Expr low = b.real(form.low, Type::kF32), high = b.real(form.high, Type::kF32);
    const Expr clipped = b.select(b.lt(sum, low), low, b.select(b.lt(high, sum), high, sum));
    return t.store(y, {at}, b.cast(b.cast(clipped, Type::kI32), form.type));
  };
  return compile(t.lowered(t.loop(n / lanes, LoopKind::kSerial,
                                  [&](Expr o) {
                                    return t.loop(lanes, LoopKind::kVectorized,
                                                  [&](Expr v) { return quantized(t.at(o, lanes, v)); });
                                  })),
                 target);
}

template <class T>
void check(const Form& form, const target::Target& target) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const float scales[] = {
      0.02f, 1, 3, 0x1p-3f, 1e-30f, 1e-39f, 1e-44f, 1e36f, 0x1p127f, -0.3f, 0, static_cast<float>(kInfinity), NAN};
  const int64_t lanes = form.integer_zero ? 16 : 8;
  Rng rng(11);
  for (const float scale : scales) {
    const double d = std::isfinite(scale) && scale != 0 ? scale : 1;
    std::vector<float> values{0, -0.0f, INFINITY, -INFINITY, NAN, 1e38f, -1e38f, 1e-44f, 3e-39f};
    // Close to the halves between integers, and anywhere.
    for (int k = -300; k <= 300; ++k)
      for (const double off : {0.0, 1e-7, -1e-7}) values.push_back(static_cast<float>((k + 0.5) * d * (1 + off)));
    while (values.size() < 4096) values.push_back(static_cast<float>((rng.uniform() * 700 - 350) * d));
    Aligned<float> x(values.begin(), values.end()), one{scale};
    Aligned<T> whole{T{7}}, out(x.size());
    Aligned<float> real{7};
    quantization(form, std::ssize(x), lanes, target)
        .run({x.data(), one.data(), form.integer_zero ? static_cast<void*>(whole.data()) : real.data(), out.data()});
    for (size_t i = 0; i < x.size(); ++i) {
      // An infinity counts as the greatest float, and the least numbers over 0 as 0.
      if ((std::isinf(x[i]) && scale > 0x1p107f) || (std::fabs(x[i]) < 1e-30f && scale == 0)) continue;
      const float sum = std::nearbyint(x[i] / scale) + 7;
      const double wanted = std::isnan(sum) ? 0 : std::clamp<double>(sum, form.low, form.high);
      INFO(target.name << ": " << x[i] << " / " << scale);
      REQUIRE(+out[i] == wanted);
    }
  }
}

}  // namespace

TEST_CASE("quantization to bytes is exact, whatever the scale", "[codegen]") {
  for (const target::Target& target : runnable_targets())
    for (bool integer : {true, false}) {
      check<uint8_t>({Type::kU8, integer, 0, 255}, target);
      check<uint8_t>({Type::kU8, integer, 20, 100}, target);
      check<int8_t>({Type::kI8, integer, -128, 127}, target);
    }
}

}  // namespace tcc::codegen
