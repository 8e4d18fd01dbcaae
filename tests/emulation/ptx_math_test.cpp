// Functions and conversions as NVRTC compiles the prelude: their errors, by the machine for PTX. It rounds the results
// of approximating instructions exactly. The tests measure the errors that the prelude adds.
#include <cmath>

#include "emulation/programs.h"
#include "tcc/ir/text.h"

using namespace tcc;
using namespace tcc::emulation;
using namespace tcc::emulation::testing;

namespace {

constexpr int64_t kCount = 4096;
constexpr int64_t kShape[] = {kCount};

// y = `value` of x (and z) at each position, for inputs given by their index.
std::vector<double> computed(const std::string& value, const std::string& in, const std::string& out,
                             const std::vector<double>& x, const std::vector<double>& z, const char* target = "a100") {
  const std::string text = fmt::format(R"(kernel lowered {{
    input x: {0}[{2}]
    input z: {0}[{2}]
    output y: {1}[{2}]
    for b in 32 bound(grid.x) {{ for t in 128 bound(thread.x) {{ y[b*128 + t] = {3} }} }}
  }})",
                                       in, out, kCount, value);
  auto kernel = ir::parse(text);
  if (!kernel) FAIL(kernel.error().message << "\n" << text);
  codegen::CudaOptions options;
  options.want_ptx = true;
  auto artifact = codegen::compile_cuda(*kernel, target::find_target(target).value(), options);
  if (!artifact) FAIL(artifact.error().message);
  std::vector<interp::TensorData> data;
  for (const ir::Buffer* b : kernel->buffers) data.push_back(interp::TensorData::zeros(b->type, kShape));
  for (int64_t i = 0; i < kCount; ++i) {
    data[0].set(i, x[static_cast<size_t>(i)]);
    data[1].set(i, z[static_cast<size_t>(i)]);
  }
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& d : data) pointers.push_back(&d);
  auto report = run_artifact(*artifact, pointers, {});
  if (!report) FAIL(report.error().message << artifact->code);
  if (!report->ok()) FAIL(report->text());
  std::vector<double> y;
  for (int64_t i = 0; i < kCount; ++i) y.push_back(data[2].at(i));
  return y;
}

// Values of f32 from low to high.
std::vector<double> between(double low, double high) {
  std::vector<double> x;
  for (int64_t i = 0; i < kCount; ++i)
    x.push_back(static_cast<float>(low + (high - low) * static_cast<double>(i) / (kCount - 1)));
  return x;
}

}  // namespace

TEST_CASE("PTX: the exponential is two instructions, and its error grows with the argument as stated", "[emulation]") {
  if (skipped()) return;
  const std::vector<double> x = between(-87, 88);
  const std::vector<double> y = computed("exp(x[b*128 + t])", "f32", "f32", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    REQUIRE(std::fabs(y[i] / std::exp(x[i]) - 1) <= 0x1p-22 + 1.3 * std::fabs(x[i]) * 0x1p-24);
  }
  // Far out it ends as the function does.
  std::vector<double> far = between(-87, 88);
  far[0] = -INFINITY, far[1] = INFINITY, far[2] = NAN, far[3] = -200, far[4] = 200;
  const std::vector<double> ends = computed("exp(x[b*128 + t])", "f32", "f32", far, far);
  CHECK(ends[0] == 0);
  CHECK(ends[1] == INFINITY);
  CHECK(std::isnan(ends[2]));
  CHECK(ends[3] == 0);
  CHECK(ends[4] == INFINITY);
}

TEST_CASE("PTX: sigmoid and quotients are a few units of the last place from the function", "[emulation]") {
  if (skipped()) return;
  const std::vector<double> x = between(-80, 80);
  const std::vector<double> sigmoid = computed("sigmoid(x[b*128 + t])", "f32", "f32", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    REQUIRE(std::fabs(sigmoid[i] * (1 + std::exp(-x[i])) - 1) <= 0x1p-21 + 1.3 * std::fabs(x[i]) * 0x1p-24);
  }
  std::vector<double> y = x, z = between(1e-3, 9e4);
  z[7] = 0x1p127, z[8] = 0x1p126, z[9] = 0x1p-125;
  y[9] = 0.75;  // 80 * 2^125 is beyond the largest float
  const std::vector<double> quotient = computed("x[b*128 + t] / z[b*128 + t]", "f32", "f32", y, z);
  for (size_t i = 0; i < y.size(); ++i) {
    INFO(y[i] << " / " << z[i]);
    const double exact = y[i] / z[i];
    REQUIRE(std::fabs(quotient[i] - exact) <= 0x1p-22 * std::fabs(exact) + 0x1p-126);
  }
}

TEST_CASE("PTX: the error function of a value that is rounded to 16 bits has an absolute error of 2^-21",
          "[emulation]") {
  if (skipped()) return;
  const std::vector<double> x = between(-6, 6);
  // What is lost beside the rounding to f16 shows in 1 + erf, which cancels.
  const std::vector<double> y = computed("f16((1.0 + erf(x[b*128 + t])) * 1024.0)", "f32", "f16", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    const double exact = (1 + std::erf(x[i])) * 1024;
    REQUIRE(std::fabs(y[i] - exact) <= 0x1p-11 * exact + 0x1p-21 * 1024 + 0x1p-24);
  }
  // A result of 32 bits keeps its relative error.
  const std::vector<double> fine = computed("erf(x[b*128 + t] * 1e-5)", "f32", "f32", x, x);
  for (size_t i = 0; i < x.size(); ++i)
    REQUIRE(std::fabs(fine[i] - std::erf(static_cast<float>(x[i]) * 1e-5)) <= 1e-6 * std::fabs(fine[i]));
  std::vector<double> odd = x;
  odd[0] = NAN, odd[1] = INFINITY, odd[2] = -INFINITY;
  const std::vector<double> ends = computed("f16(erf(x[b*128 + t]))", "f32", "f16", odd, odd);
  CHECK(std::isnan(ends[0]));
  CHECK(ends[1] == 1);
  CHECK(ends[2] == -1);
}

TEST_CASE("PTX: GELU of a value that is rounded to 16 bits keeps its relative error on both sides", "[emulation]") {
  if (skipped()) return;
  const std::string gelu = "0.5 * x[b*128 + t] * (1.0 + erf(x[b*128 + t] * 0.70710677))";
  auto exact = [](double x) { return x / 2 * std::erfc(-x * M_SQRT1_2); };
  for (const char* target : {"a100", "t4"})
    for (const double range : {0.02, 1.0, 6.5, 60.0}) {
      const std::vector<double> x = between(-range, range);
      const std::vector<double> y = computed(fmt::format("f16({} * 16384.0)", gelu), "f32", "f16", x, x, target);
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(x[i] << " on " << target);
        const double least = std::max(std::fabs(exact(x[i])), 0x1p-14);
        if (std::fabs(y[i]) < 60000)
          REQUIRE(std::fabs(y[i] / 16384 - exact(x[i])) <=
                  0x1p-11 * std::fabs(exact(x[i])) + (std::fabs(x[i]) < 5.8 ? 0x1p-17 * least : 0x1p-25));
      }
      // The other factors of the product take part.
      const std::vector<double> scaled =
          computed(fmt::format("bf16(z[b*128 + t] * ({}) * 3.0)", gelu), "f32", "bf16", x, x, target);
      for (size_t i = 0; i < x.size(); ++i) {
        const double result = 3 * x[i] * exact(x[i]);
        REQUIRE(std::fabs(scaled[i] - result) <= 0x1p-8 * std::fabs(result) + 0x1p-13 * std::fabs(x[i]));
      }
    }
  std::vector<double> odd = between(-1, 1);
  odd[0] = NAN, odd[1] = INFINITY, odd[2] = -65504, odd[3] = 0;
  for (const char* target : {"a100", "t4"}) {
    const std::vector<double> ends = computed(fmt::format("f16({})", gelu), "f32", "f16", odd, odd, target);
    CHECK(std::isnan(ends[0]));
    CHECK(ends[1] == INFINITY);
    CHECK(ends[2] == 0);
    CHECK(ends[3] == 0);
  }
}

TEST_CASE("PTX: square roots and their reciprocals are two units of the last place from the function", "[emulation]") {
  if (skipped()) return;
  const std::vector<double> x = between(1e-6, 9e4);
  const std::vector<double> root = computed("sqrt(x[b*128 + t])", "f32", "f32", x, x);
  const std::vector<double> inverse = computed("1.0 / sqrt(x[b*128 + t])", "f32", "f32", x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(x[i]);
    REQUIRE(std::fabs(root[i] / std::sqrt(x[i]) - 1) <= 0x1p-23);
    REQUIRE(std::fabs(inverse[i] * std::sqrt(x[i]) - 1) <= 0x1p-22);
  }
  std::vector<double> odd = x;
  odd[0] = 0, odd[1] = INFINITY, odd[2] = -1, odd[3] = NAN;
  const std::vector<double> ends = computed("sqrt(x[b*128 + t])", "f32", "f32", odd, odd);
  CHECK(ends[0] == 0);
  CHECK(ends[1] == INFINITY);
  CHECK(std::isnan(ends[2]));
  CHECK(std::isnan(ends[3]));
}

TEST_CASE("PTX: conversions to bf16 round to nearest even, by the instruction and without it", "[emulation]") {
  if (skipped()) return;
  std::vector<double> x = between(-3, 3);
  // Ties, and what the rounding carries into the exponent or to infinity.
  x[0] = 1 + 0x1p-8, x[1] = 1 + 3 * 0x1p-8, x[2] = -(1 + 0x1p-8), x[3] = 2 - 0x1p-20, x[4] = 0x1.fffffep127;
  x[5] = INFINITY, x[6] = -INFINITY, x[7] = NAN, x[8] = 0, x[9] = 0x1.ffp127;
  for (const char* target : {"a100", "t4"}) {
    INFO(target);
    const std::vector<double> y = computed("bf16(x[b*128 + t])", "f32", "bf16", x, x, target);
    interp::TensorData expected = interp::TensorData::zeros(ir::Type::kBF16, kShape);
    for (int64_t i = 0; i < kCount; ++i) {
      const auto n = static_cast<size_t>(i);
      expected.set(i, x[n]);
      INFO(x[n]);
      REQUIRE(((std::isnan(y[n]) && std::isnan(x[n])) || y[n] == expected.at(i)));
    }
    CHECK(y[0] == 1);
    CHECK(y[1] == 1 + 0x1p-6);
    CHECK(y[4] == INFINITY);
  }
}
