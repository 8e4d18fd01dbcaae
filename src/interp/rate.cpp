#include "tcc/interp/rate.h"

#include <chrono>

#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

constexpr std::string_view kGemm = R"(kernel nest {
  input A: f32[96, 96]
  input B: f32[96, 96]
  output C: f32[96, 96]
  for i in 96 parallel {
    for j in 96 {
      C[i, j] = 0.0
    }
    for j0 in 6 {
      for k in 96 {
        for j1 in 16 vectorized {
          C[i, j0*16 + j1] = C[i, j0*16 + j1] + A[i, k] * B[k, j0*16 + j1]
        }
      }
    }
  }
})";

}  // namespace

double measure_rate(bool race) {
  auto kernel = ir::parse(kGemm, "rate");
  TCC_CHECK(kernel.has_value(), "{}", kernel.error().message);
  const Program program = Program::compile(*kernel);
  const int64_t shape[] = {96, 96};
  TensorData a = TensorData::make_random(ir::Type::kF32, shape, 1),
             b = TensorData::make_random(ir::Type::kF32, shape, 2);
  TensorData c = TensorData::zeros(ir::Type::kF32, shape);
  TensorData* params[] = {&a, &b, &c};
  Options options;
  options.check_races = race;
  options.poison = race;
  int64_t operations = 0;
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  while (seconds < 0.5) {
    const Report report = program.run(params, options);
    TCC_CHECK(report.ok(), "{}", report.text());
    operations += report.operations;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return static_cast<double>(operations) / seconds;
}

}  // namespace tcc::interp
