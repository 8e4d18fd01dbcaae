// How fast the interpreter is, on a GEMM-like kernel.
#include <chrono>

#include "bench.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/support/check.h"

namespace tcc::benchmarks {
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

// Scalar operations a second on the calling thread: plain (no checks), or with `race` the conflict and poison checks.
double measure_interpreter(bool race) {
  auto kernel = ir::parse(kGemm, "rate");
  TCC_CHECK(kernel.has_value(), "{}", kernel.error().message);
  const interp::Program program = interp::Program::compile(*kernel);
  const int64_t shape[] = {96, 96};
  interp::TensorData a = interp::TensorData::make_random(ir::Type::kF32, shape, 1),
                     b = interp::TensorData::make_random(ir::Type::kF32, shape, 2);
  interp::TensorData c = interp::TensorData::zeros(ir::Type::kF32, shape);
  interp::TensorData* params[] = {&a, &b, &c};
  interp::Options options;
  options.check_races = race;
  options.poison = race;
  int64_t operations = 0;
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  while (seconds < 0.5) {
    const interp::Report report = program.run(params, options);
    TCC_CHECK(report.ok(), "{}", report.text());
    operations += report.operations;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return static_cast<double>(operations) / seconds;
}

}  // namespace

std::vector<Row> run_interp_suite(double) {
  std::vector<Row> rows;
  for (bool race : {false, true}) {
    double best = 0;
    for (int i = 0; i < 3; ++i) best = std::max(best, measure_interpreter(race));
    rows.push_back({race ? "interp.race" : "interp.plain", best, "ops/s/core", "", 0, 0});
  }
  return rows;
}

}  // namespace tcc::benchmarks
