// Steps with kernels that tools/gpu wrote by hand: what the device is, the rate of its copies, one elementwise kernel
// and SGEMM, each checked against the host.
#include <algorithm>
#include <cmath>
#include <functional>

#include "gpu/backend.h"
#include "gpu/kernels.h"
#include "gpu/run.h"
#include "tcc/codegen/cuda.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/runtime/cuda_trace.h"
#include "tcc/support/rng.h"

namespace tcc::gpu_check {
namespace {

// --- data and checks -------------------------------------------------------------------------------------------------

Floats random_reals(int64_t n, uint64_t seed) {
  Rng rng(seed);
  Floats values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(rng.uniform() * 2 - 1);
  return values;
}
// In [-2, 2]: sums of up to 2^22 products are exact.
Floats random_integers(int64_t n, uint64_t seed) {
  Rng rng(seed);
  Floats values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(rng.below(5) - 2);
  return values;
}

// Compares sampled outputs (corners, both sides of tile edges, random ones) with a double reference, and looks at every
// output for the poison that marks what was not written. "" when all is well; `worst` is the largest error over its
// bound 2 u |ref| + 4 u sqrt(k) absref, or for exact data the largest error, which must be 0.
std::string check_gemm(const GemmSize& s, const Floats& a, const Floats& b, const Floats& c, bool exact,
                       double* worst) {
  const auto unwritten = std::find_if(c.begin(), c.end(), [](float v) { return std::isnan(v); });
  if (unwritten != c.end()) return fmt::format("C[{}] was not written or is NaN", unwritten - c.begin());
  auto edges = [](int64_t n) {
    std::vector<int64_t> at;
    for (int64_t i : {int64_t{0}, int64_t{63}, int64_t{64}, int64_t{127}, int64_t{128}, n / 2, n - 2, n - 1})
      if (i >= 0 && i < n) at.push_back(i);
    return at;
  };
  std::vector<std::pair<int64_t, int64_t>> samples;
  for (int64_t i : edges(s.m))
    for (int64_t j : edges(s.n)) samples.emplace_back(i, j);
  Rng rng(99);
  for (int i = 0; i < 1024; ++i) samples.emplace_back(rng.below(s.m), rng.below(s.n));
  const double u = 0x1p-24;
  for (const auto& [i, j] : samples) {
    double reference = 0, absolute = 0;
    for (int64_t p = 0; p < s.k; ++p) {
      const double product = static_cast<double>(a[static_cast<size_t>(i * s.k + p)]) *
                             static_cast<double>(b[static_cast<size_t>(p * s.n + j)]);
      reference += product;
      absolute += std::fabs(product);
    }
    const double value = static_cast<double>(c[static_cast<size_t>(i * s.n + j)]), error = std::fabs(value - reference);
    const double bound = 2 * u * std::fabs(reference) + 4 * u * std::sqrt(static_cast<double>(s.k)) * absolute;
    const double measure = exact ? error : error / std::max(bound, 1e-30);
    *worst = std::max(*worst, measure);
    if (measure > (exact ? 0 : 1)) return fmt::format("C[{}, {}] = {}, reference {}", i, j, value, reference);
  }
  return "";
}

// --- timing ----------------------------------------------------------------------------------------------------------

struct Times {
  double own = 0;
  std::optional<double> peer;
};
// Medians over rounds in which the two take turns.
Result<Times> measure(Run& run, Session& session, const GemmSize* peer_size) {
  const bool device = !run.backend.is_small();
  TCC_TRY(double once, session.time(1));
  if (device) {
    TCC_TRY(once, session.time(3));
  }
  const int count = device ? static_cast<int>(std::clamp(0.02 / std::max(once, 1e-7), 1.0, 2000.0)) : 1;
  std::vector<double> own, peer;
  for (int round = 0; round < (device ? 7 : 2); ++round) {
    TCC_TRY(const double seconds, session.time(count));
    own.push_back(seconds);
    if (peer_size == nullptr) continue;
    TCC_TRY(const std::optional<double> other, session.time_peer(*peer_size, count));
    if (other) peer.push_back(*other);
  }
  Times times{median(own), std::nullopt};
  if (!peer.empty()) times.peer = median(peer);
  return times;
}

}  // namespace

// --- steps -----------------------------------------------------------------------------------------------------------

Result<void> device_facts(Run& run) {
  for (const Row& r : run.backend.facts()) TCC_TRY_VOID(run.row(r));
  TCC_TRY(const std::string version, codegen::nvrtc_version(run.options.nvrtc));
  return run.row({"nvrtc.version", std::stod(version), "", "", 0});
}

Result<void> copy_rate(Run& run) {
  TCC_TRY(run.copy_rate, run.backend.copy_rate());
  Row row{"copy", run.copy_rate * 1e-9, "GB/s", "", 0};
  if (run.backend.is_device() && run.backend.target().memory_bandwidth > 0)
    row.peer = "nominal", row.peer_value = run.backend.target().memory_bandwidth * 1e-9;
  return run.row(row);
}

namespace {

// Compiles for the target, at the size that a device runs. A spill is a failure: these schedules must not have any.
Result<codegen::Artifact> compile(Run& run, const std::string& name, const ir::Kernel& kernel) {
  TCC_TRY(codegen::Artifact artifact, run.backend.compile(kernel, run.code()));
  TCC_TRY_VOID(run.row({name + ".registers", artifact.facts["registers"], "", "", 0}));
  if (artifact.facts["spill_bytes"] > 0)
    run.fail(fmt::format("{}: {} bytes of registers are spilled", name, artifact.facts["spill_bytes"]));
  return artifact;
}

// One error for the whole step where no compiler for this target is found.
Result<void> try_compiler(Run& run) {
  TCC_TRY(const codegen::Artifact artifact, run.backend.compile(make_add_relu(1), run.code()));
  return artifact.launches.empty() ? environment_error("the compiler made no launch") : Result<void>();
}

// The device's own time of a kernel, where CUPTI is there: what events around it add to that is launching.
Result<void> trace_case(Run& run, const std::string& name, Session& session) {
  runtime::CudaDevice* device = run.backend.device();
  if (device == nullptr || (device->facts().takes_ptx_only && run.options.cupti.empty())) return {};
  auto trace = runtime::CudaTrace::open(run.options.cupti);
  Result<std::vector<runtime::CudaTrace::Kernel>> kernels = tl::make_unexpected(trace ? Error{} : trace.error());
  if (trace) {
    kernels = (*trace)->kernels(*device, [&]() -> Result<void> {
      TCC_TRY_VOID(session.time(1));
      return {};
    });
  }
  if (!kernels) {
    run.absent("CUPTI: " + kernels.error().message);
    return {};
  }
  double seconds = 0;
  for (const runtime::CudaTrace::Kernel& kernel : *kernels) seconds += kernel.seconds;
  return run.row({name + ".kernel", seconds * 1e6, "us", "", 0});
}

Result<void> elementwise_case(Run& run, int64_t n, int64_t dry_n) {
  const std::string name = fmt::format("add_relu.{}", n);
  const int64_t size = run.backend.is_small() ? dry_n : n;
  TCC_TRY(const codegen::Artifact artifact, compile(run, name, make_add_relu(run.backend.is_device() ? size : n)));
  TCC_TRY(auto session, run.backend.open(make_add_relu(size), artifact));
  const Floats a = random_reals(size, 1), b = random_reals(size, 2);
  TCC_TRY(const Floats y, session->run({a, b}));
  ++run.tests;
  int64_t wrong = 0, first = -1;
  for (int64_t i = size - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    if (!(y[at] == std::max(a[at] + b[at], 0.0f))) ++wrong, first = i;
  }
  if (wrong > 0) {
    run.fail(fmt::format("{}: {} of {} outputs are wrong, the first is Y[{}]", name, wrong, size, first));
    return {};
  }
  TCC_TRY(const Times times, measure(run, *session, nullptr));
  TCC_TRY_VOID(trace_case(run, name, *session));
  const double rate = 3.0 * sizeof(float) * static_cast<double>(size) / times.own * 1e-9;
  return run.row({name, rate, "GB/s", run.copy_rate > 0 ? "copy" : "", run.copy_rate * 1e-9});
}

}  // namespace

Result<void> elementwise(Run& run) {
  TCC_TRY_VOID(try_compiler(run));
  TCC_TRY_VOID(know_copy_rate(run));
  for (const auto& [real, dry] :
       {std::pair<int64_t, int64_t>{int64_t{1} << 26, 9000}, {(int64_t{1} << 26) + 3, 4099}, {1, 1}})
    if (auto done = elementwise_case(run, real, dry); !done)
      run.fail(fmt::format("add_relu {}: {}", real, text_of(done.error())));
  return {};
}

namespace {

Result<void> gemm_case(Run& run, const GemmSize& real, const GemmSize& dry, const GemmTile& tile) {
  const std::string name = fmt::format("sgemm.{}x{}x{}.tile{}", real.m, real.n, real.k, tile.rows);
  const GemmSize size = run.backend.is_small() ? dry : real, compiled = run.backend.is_device() ? size : real;
  TCC_TRY(const codegen::Artifact artifact, compile(run, name, make_gemm(compiled.m, compiled.n, compiled.k, tile)));
  TCC_TRY(auto session, run.backend.open(make_gemm(size.m, size.n, size.k, tile), artifact));
  ++run.tests;
  for (const bool exact : {true, false}) {
    const Floats a = exact ? random_integers(size.m * size.k, 3) : random_reals(size.m * size.k, 5);
    const Floats b = exact ? random_integers(size.k * size.n, 4) : random_reals(size.k * size.n, 6);
    TCC_TRY(const Floats c, session->run({a, b}));
    double worst = 0;
    const std::string wrong = check_gemm(size, a, b, c, exact, &worst);
    if (!wrong.empty()) {
      run.fail(fmt::format("{} ({}): {}", name, exact ? "integers" : "reals", wrong));
      return {};
    }
    if (!exact) TCC_TRY_VOID(run.row({name + ".error", worst, "of bound", "", 0}));
  }
  TCC_TRY(const Times times, measure(run, *session, &size));
  const double flops = 2e-9 * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  Row row{name, flops / times.own, "GFLOP/s", "", 0};
  if (times.peer) row.peer = run.backend.peer_name(), row.peer_value = flops / *times.peer;
  return run.row(row);
}

}  // namespace

Result<void> gemm(Run& run) {
  TCC_TRY_VOID(try_compiler(run));
  const std::pair<GemmSize, GemmSize> cases[] = {
      {{4096, 4096, 4096}, {128, 128, 16}}, {{1024, 1024, 1024}, {64, 192, 32}},
      {{1001, 777, 333}, {70, 66, 19}},     {{8192, 8192, 8192}, {132, 4, 8}},
      {{2048, 2048, 2048}, {4, 132, 48}},   {{4095, 4093, 4091}, {129, 130, 17}},
      {{512, 512, 512}, {20, 36, 64}},      {{128, 3072, 768}, {16, 8, 12}},
      {{31, 33, 7}, {31, 33, 7}},           {{1, 1, 1}, {1, 1, 1}}};
  for (const auto& [real, dry] : cases)
    for (const GemmTile& tile : {kLargeTile, kSmallTile}) {
      if (run.out_of_time()) return {};
      if (auto done = gemm_case(run, real, dry, tile); !done)
        run.fail(fmt::format("sgemm {}x{}x{} tile {}: {}", real.m, real.n, real.k, tile.rows, text_of(done.error())));
    }
  return {};
}

}  // namespace tcc::gpu_check
