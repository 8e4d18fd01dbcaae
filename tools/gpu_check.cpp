// gpu_check: what tcc's CUDA path does on the GPU of this machine. Steps in order of worth, each result written at
// once. With --dry-run every step runs without a device: kernels are compiled by NVRTC and executed at small sizes, by
// the interpreter or as PTX by the machine for it. At most two files are written: the results, and beside them the
// records of tuning.
//
// Exit status: 0 all checks passed, 1 a check failed or there is no GPU, 2 usage, 3 out of time with valid results.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "gpu/backend.h"
#include "gpu/kernels.h"
#include "gpu/run.h"
#include "tcc/codegen/cuda.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/runtime/cuda_trace.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::gpu_check {
namespace {

constexpr char kUsage[] =
    "usage: gpu_check [--minutes M] [--from STEP] [--to STEP] [--collect] [--out FILE] [--device N] [LIBRARIES]\n"
    "       gpu_check --dry-run [--target NAME] [--minutes M] [--from STEP] [--to STEP] [--collect] [--out FILE]\n"
    "       [LIBRARIES]\n"
    "steps, in order of worth: device-facts, copy-rate, conformance, correctness, elementwise, gemm, products,\n"
    "       memory-bound, attention, conv, torch, models, collection (with --collect)\n"
    "LIBRARIES and programs, found by themselves where they are installed:\n"
    "       --nvrtc FILE, --cublas FILE, --cudnn FILE, --cupti FILE, --driver FILE (the CUDA driver), --tcc FILE, "
    "--python FILE\n"
    "example: gpu_check --minutes 9 --out h200.json, and after it gpu_check --from models --out h200.json\n";

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
  const bool device = run.backend.is_device();
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

// Compiles for the target, at the size that a device runs. A spill is a failure: these schedules must not have any.
Result<codegen::Artifact> compile(Run& run, const std::string& name, const ir::Kernel& kernel) {
  codegen::CudaOptions options;
  options.prefix = "check";
  options.nvrtc_library = run.options.nvrtc;
  TCC_TRY(codegen::Artifact artifact, codegen::compile_cuda(kernel, run.backend.target(), options));
  TCC_TRY_VOID(run.row({name + ".registers", artifact.facts["registers"], "", "", 0}));
  if (artifact.facts["spill_bytes"] > 0)
    run.fail(fmt::format("{}: {} bytes of registers are spilled", name, artifact.facts["spill_bytes"]));
  return artifact;
}

// One error for the whole step where there is no compiler for this target.
Result<void> try_compiler(Run& run) {
  codegen::CudaOptions options;
  options.nvrtc_library = run.options.nvrtc;
  TCC_TRY(const codegen::Artifact artifact, codegen::compile_cuda(make_add_relu(1), run.backend.target(), options));
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
  TCC_TRY(const codegen::Artifact artifact, compile(run, name, make_add_relu(n)));
  const int64_t size = run.backend.is_device() ? n : dry_n;
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

Result<void> elementwise(Run& run) {
  TCC_TRY_VOID(try_compiler(run));
  if (run.copy_rate == 0) {
    TCC_TRY(run.copy_rate, run.backend.copy_rate());
  }
  for (const auto& [real, dry] :
       {std::pair<int64_t, int64_t>{int64_t{1} << 26, 9000}, {(int64_t{1} << 26) + 3, 4099}, {1, 1}})
    if (auto done = elementwise_case(run, real, dry); !done)
      run.fail(fmt::format("add_relu {}: {}", real, text_of(done.error())));
  return {};
}

Result<void> gemm_case(Run& run, const GemmSize& real, const GemmSize& dry, const GemmTile& tile) {
  const std::string name = fmt::format("sgemm.{}x{}x{}.tile{}", real.m, real.n, real.k, tile.rows);
  TCC_TRY(const codegen::Artifact artifact, compile(run, name, make_gemm(real.m, real.n, real.k, tile)));
  const GemmSize size = run.backend.is_device() ? real : dry;
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

struct Step {
  const char* name;
  Result<void> (*run)(Run&);
};
constexpr Step kSteps[] = {{"device-facts", device_facts}, {"copy-rate", copy_rate},       {"conformance", conformance},
                           {"correctness", correctness},   {"elementwise", elementwise},   {"gemm", gemm},
                           {"products", product_table},    {"memory-bound", memory_bound}, {"attention", attention},
                           {"conv", convolution},          {"torch", torch_peers},         {"models", models},
                           {"collection", collection}};

// --- main ------------------------------------------------------------------------------------------------------------

void report(const Error& error) {
  std::fprintf(stderr, "gpu_check: %s\n", text_of(error).c_str());
}

Result<Options> parse(int argc, char** argv) {
  Options o;
  const std::string self = argv[0];
  o.self = self.find('/') == std::string::npos ? "." : self.substr(0, self.rfind('/'));
  auto usage = [](const std::string& text) { return make_error(ErrorClass::kUsage, text, kUsage); };
  bool target_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--dry-run" || flag == "--collect") {
      (flag == "--collect" ? o.collect : o.dry_run) = true;
      continue;
    }
    const std::vector<std::string> known = {"--dry-run", "--collect", "--target", "--from",   "--to",
                                            "--minutes", "--out",     "--nvrtc",  "--cublas", "--cudnn",
                                            "--cupti",   "--driver",  "--tcc",    "--python", "--device"};
    if (std::find(known.begin(), known.end(), flag) == known.end())
      return usage(fmt::format("unknown option '{}'; {}", sanitize(flag), suggest(flag, known)));
    if (i + 1 == argc) return usage(fmt::format("option {} needs a value", flag));
    const std::string value = argv[++i];
    auto number = [&](double low) {
      char* end = nullptr;
      const double v = std::strtod(value.c_str(), &end);
      return end != value.c_str() && *end == '\0' && v >= low && v < 1e6 ? std::optional<double>(v) : std::nullopt;
    };
    if (flag == "--target") o.target = value, target_given = true;
    if (flag == "--from") o.from = value;
    if (flag == "--to") o.to = value;
    if (flag == "--out") o.out = value;
    if (flag == "--nvrtc") o.nvrtc = value;
    if (flag == "--cublas") o.cublas = value;
    if (flag == "--cudnn") o.cudnn = value;
    if (flag == "--cupti") o.cupti = value;
    if (flag == "--driver") o.driver = value;
    if (flag == "--tcc") o.tcc = value;
    if (flag == "--python") o.python = value;
    if (flag == "--minutes" || flag == "--device") {
      const auto v = number(0);
      if (!v) return usage(fmt::format("{} {}: expected a number that is not negative", flag, sanitize(value)));
      if (flag == "--minutes")
        o.minutes = *v;
      else
        o.device = static_cast<int>(*v);
    }
  }
  if (target_given && !o.dry_run) return usage("--target is for --dry-run; on a device its own architecture is used");
  std::vector<std::string> names;
  for (const Step& step : kSteps) names.emplace_back(step.name);
  for (const std::string& name : {o.from, o.to})
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      return usage(fmt::format("no step '{}'; {}", sanitize(name), suggest(name, names)));
  return o;
}

int run_all(const Options& options) {
  auto backend = options.dry_run ? Backend::dry_run(options.target)
                                 : Backend::device(options.device, options.cublas, options.driver);
  if (!backend) {
    report(backend.error());
    if (!options.dry_run)
      std::fprintf(stderr, "gpu_check: no gpu test ran. Run it on a machine with an NVIDIA GPU, or use --dry-run.\n");
    return backend.error().cls == ErrorClass::kUsage ? 2 : 1;
  }
  const bool device = (*backend)->is_device();
  Results results(options.out, device ? "gpu_check" : "gpu_check.dry_run", (*backend)->machine());
  if (!options.from.empty()) results.resume();
  if (auto writable = results.start(); !writable) {
    report(writable.error());
    return 1;
  }
  Run run{options, **backend, results, {}, 0, 0, {}};
  bool started = options.from.empty(), late = false;
  for (const Step& step : kSteps) {
    started = started || options.from == step.name;
    if (!started) continue;
    late = late || run.out_of_time();
    if (late) break;
    std::printf("== %s\n", step.name);
    const Stopwatch watch;
    if (auto done = step.run(run); !done) run.fail(fmt::format("step {}: {}", step.name, text_of(done.error())));
    std::printf("-- %s took %.1f s\n", step.name, watch.seconds());
    if (device && (*backend)->device()->lost()) {
      std::fprintf(stderr, "gpu_check: the device has given up on this process; go on with --from the step after %s\n",
                   step.name);
      break;
    }
    if (options.to == step.name) break;
  }
  late = late || run.out_of_time();
  std::printf("\n%s\n", results.table().c_str());
  std::printf("gpu_check: %d checks made %s, %zu failures, results in %s\n", run.tests,
              device ? "on the device" : "without a device", run.failures.size(), options.out.c_str());
  if (run.tests == 0) {
    std::fprintf(stderr, "gpu_check: no %s test ran\n", device ? "gpu" : "kernel");
    return 1;
  }
  if (!run.failures.empty()) return 1;
  if (late) std::printf("gpu_check: stopped after %.1f minutes; go on with --from\n", run.watch.seconds() / 60);
  return late ? 3 : 0;
}

}  // namespace
}  // namespace tcc::gpu_check

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]) == "--help") return std::fputs(tcc::gpu_check::kUsage, stdout), 0;
  auto options = tcc::gpu_check::parse(argc, argv);
  if (!options) {
    tcc::gpu_check::report(options.error());
    return 2;
  }
  return tcc::gpu_check::run_all(*options);
}
