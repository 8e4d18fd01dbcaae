// gpu_check: what tcc's CUDA path does on the GPU of this machine. Each step runs in a process of its own with a limit
// of time: a kernel that hangs or faults ends its step, and the others run. Each result is written at once. With
// --dry-run every step runs without a device: kernels are compiled by NVRTC and executed at small sizes, by the
// interpreter or as PTX by the machine for it.
//
// Exit status: 0 all checks passed, 1 a check failed or there is no GPU, 2 usage, 3 out of time with valid results.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "gpu/backend.h"
#include "gpu/child.h"
#include "gpu/run.h"
#include "tcc/codegen/cuda.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::gpu_check {
namespace {

constexpr char kUsage[] =
    "usage: gpu_check [--minutes M] [--from STEP] [--to STEP] [--out FILE] [--device N] [LIBRARIES]\n"
    "       gpu_check --dry-run [--target NAME] [--minutes M] [--from STEP] [--to STEP] [--out FILE] [LIBRARIES]\n"
    "       gpu_check --only STEP ...      one step, in this process, beside the rows that FILE has\n"
    "steps: device-facts, copy-rate, probes, conformance, correctness, elementwise, gemm, products, memory-bound,\n"
    "       attention, conv; by --only: sanitizer\n"
    "       --limit STEP=S    that step may take S seconds, instead of its own limit\n"
    "LIBRARIES, found by themselves where they are installed:\n"
    "       --nvrtc FILE, --cublas FILE, --cudnn FILE, --cupti FILE, --driver FILE (the CUDA driver)\n"
    "example: gpu_check --minutes 9 --out h200.json, and after it gpu_check --from attention --out h200.json\n";

constexpr int kCannotRun = 4;        // exit status of a step
constexpr double kStartSeconds = 5;  // a step may take beyond the whole run's limit to end by itself

struct Step {
  const char* name;
  Result<void> (*run)(Run&);
  double seconds;  // limit
  bool by_name_only = false;
};
constexpr Step kSteps[] = {{"device-facts", device_facts, 60},
                           {"copy-rate", copy_rate, 60},
                           {"probes", probes, 120},
                           {"conformance", conformance, 180},
                           {"correctness", correctness, 180},
                           {"elementwise", elementwise, 90},
                           {"gemm", gemm, 120},
                           {"products", product_table, 300},
                           {"memory-bound", memory_bound, 180},
                           {"attention", attention, 240},
                           {"conv", convolution, 240},
                           {"sanitizer", sanitizer, 240, true}};

void report(const Error& error) {
  std::fprintf(stderr, "gpu_check: %s\n", text_of(error).c_str());
}

std::optional<double> number_of(const std::string& value) {
  char* end = nullptr;
  const double v = std::strtod(value.c_str(), &end);
  return end != value.c_str() && *end == '\0' && v >= 0 && v < 1e6 ? std::optional<double>(v) : std::nullopt;
}

tl::unexpected<Error> usage(const std::string& text) {
  return make_error(ErrorClass::kUsage, text, kUsage);
}

Result<void> check_steps(const Options& o) {
  std::vector<std::string> names;
  for (const Step& step : kSteps) names.emplace_back(step.name);
  for (const std::string& name : {o.from, o.to, o.only, o.limit_step})
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      return usage(fmt::format("no step '{}'; {}", sanitize(name), suggest(name, names)));
  return {};
}

Result<Options> parse(int argc, char** argv) {
  Options o;
  double device = 0;
  std::string limit;
  const std::map<std::string, bool*> flags = {{"--dry-run", &o.dry_run}, {"--fresh", &o.fresh}};
  const std::map<std::string, std::string*> texts = {
      {"--target", &o.target}, {"--from", &o.from},   {"--to", &o.to},         {"--only", &o.only},
      {"--out", &o.out},       {"--nvrtc", &o.nvrtc}, {"--cublas", &o.cublas}, {"--cudnn", &o.cudnn},
      {"--limit", &limit},     {"--cupti", &o.cupti}, {"--driver", &o.driver}};
  const std::map<std::string, double*> numbers = {{"--minutes", &o.minutes}, {"--device", &device}};
  std::vector<std::string> known;
  for (const auto& [flag, to] : flags) known.push_back(flag);
  for (const auto& [flag, to] : texts) known.push_back(flag);
  for (const auto& [flag, to] : numbers) known.push_back(flag);
  bool target_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (auto found = flags.find(flag); found != flags.end()) {
      *found->second = true;
      continue;
    }
    if (std::find(known.begin(), known.end(), flag) == known.end())
      return usage(fmt::format("unknown option '{}'; {}", sanitize(flag), suggest(flag, known)));
    if (i + 1 == argc) return usage(fmt::format("option {} needs a value", flag));
    const std::string value = argv[++i];
    target_given = target_given || flag == "--target";
    if (auto found = texts.find(flag); found != texts.end()) {
      *found->second = value;
      continue;
    }
    const auto number = number_of(value);
    if (!number) return usage(fmt::format("{} {}: expected a number that is not negative", flag, sanitize(value)));
    *numbers.at(flag) = *number;
  }
  o.device = static_cast<int>(device);
  if (!limit.empty()) {
    const size_t equals = std::min(limit.find('='), limit.size() - 1);
    const auto seconds = number_of(limit.substr(equals + 1));
    if (!seconds) return usage(fmt::format("--limit {}: expected STEP=SECONDS", sanitize(limit)));
    o.limit_step = limit.substr(0, equals);
    o.limit_seconds = *seconds;
  }
  if (target_given && !o.dry_run) return usage("--target is for --dry-run; on a device its own architecture is used");
  TCC_TRY_VOID(check_steps(o));
  return o;
}

const char* suite_of(const Options& options) {
  return options.dry_run ? "gpu_check.dry_run" : "gpu_check";
}

std::string row_name(const Step& step, const char* what) {
  return fmt::format("step.{}.{}", step.name, what);
}

// --- one step, in this process
// -----------------------------------------------------------------------------------------

Result<void> run_step(const Step& step, Run& run) {
  const Stopwatch watch;
  run.step = step.name;
  if (auto done = step.run(run); !done) run.fail(fmt::format("step {}: {}", step.name, text_of(done.error())));
  runtime::CudaDevice* device = run.backend.device();
  if (device != nullptr && device->lost())
    TCC_TRY_VOID(run.results.add({row_name(step, "lost"), static_cast<double>(device->last_error()), "", "", 0}));
  for (const auto& [what, value] : {std::pair("checks", static_cast<double>(run.tests)),
                                    {"failures", static_cast<double>(run.failures.size())},
                                    {"seconds", watch.seconds()}})
    TCC_TRY_VOID(run.results.add({row_name(step, what), value, "", "", 0}));
  return {};
}

int run_here(const Options& options, const Step& step) {
  end_with_parent();
  auto backend = options.dry_run ? Backend::dry_run(options.target)
                                 : Backend::device(options.device, options.cublas, options.driver);
  if (!backend) {
    report(backend.error());
    if (backend.error().cls == ErrorClass::kUsage) return 2;
    std::fprintf(stderr, "gpu_check: no gpu test ran. Run it on a machine with an NVIDIA GPU, or use --dry-run.\n");
    return kCannotRun;
  }
  // Before any step: without the compiler all of them would fail, one kernel after the other.
  if (auto compiler = codegen::check_cuda_architecture((*backend)->target(), options.nvrtc); !compiler) {
    report(compiler.error());
    return kCannotRun;
  }
  Results results(options.out, suite_of(options), (*backend)->machine());
  if (!options.fresh) results.resume();
  for (const char* what : {"lost", "hung", "crashed"}) results.forget(row_name(step, what));
  if (auto writable = results.start(); !writable) {
    report(writable.error());
    return 1;
  }
  Run run{options, **backend, results, step.name, {}, 0, 0, {}};
  if (auto written = run_step(step, run); !written) {
    report(written.error());
    return 1;
  }
  if (!run.failures.empty()) return 1;
  return run.out_of_time() ? 3 : 0;
}

// --- all steps, each in a process of its own
// ---------------------------------------------------------------------------

const Step& step_of(const std::string& name) {
  return *std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Step& s) { return s.name == name; });
}

struct Totals {
  double checks = 0, failures = 0;
  bool late = false, no_device = false;
  std::string table;
};

// The step's words: this program, with everything that was said to it but for the choice of steps.
std::vector<std::string> words_of(const Step& step, int argc, char** argv, double minutes, bool fresh) {
  std::vector<std::string> words = {"/proc/self/exe"};
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length > 0) words[0] = std::string(self, static_cast<size_t>(length));
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--from" || word == "--to" || word == "--minutes") {
      ++i;
      continue;
    }
    words.push_back(word);
  }
  words.insert(words.end(), {"--only", step.name, "--minutes", fmt::format("{}", minutes)});
  if (fresh) words.push_back("--fresh");
  return words;
}

// Takes the step's rows into the totals, and says how it ended where it could not.
Result<void> sum_up(const Step& step, const ChildEnd& end, const Options& options, Totals& totals) {
  const bool cut_off = end.timed_out || end.signal != 0;
  if (cut_off) {
    ++totals.failures;
    std::fprintf(stderr, "FAILED step %s: %s after %.1f s; the next step goes on\n", step.name,
                 end.timed_out ? "it was ended" : fmt::format("signal {} ended it", end.signal).c_str(), end.seconds);
  }
  auto results = Results::read(options.out);
  if (!results) return cut_off ? Result<void>() : tl::make_unexpected(std::move(results).error());
  if (cut_off)
    TCC_TRY_VOID(results->add(end.timed_out
                                  ? Row{row_name(step, "hung"), end.seconds, "s", "", 0}
                                  : Row{row_name(step, "crashed"), static_cast<double>(end.signal), "", "", 0}));
  for (const Row& row : results->rows()) {
    if (!cut_off && row.name == row_name(step, "checks")) totals.checks += row.value;
    if (!cut_off && row.name == row_name(step, "failures")) totals.failures += row.value;
  }
  totals.table = results->table();
  return {};
}

int report_totals(const Options& options, const Totals& totals, double seconds) {
  std::printf("\n%s\n", totals.table.c_str());
  std::printf("gpu_check: %.0f checks made %s, %.0f failures, results in %s\n", totals.checks,
              options.dry_run ? "without a device" : "on the device", totals.failures, options.out.c_str());
  if (totals.checks == 0) {
    std::fprintf(stderr, "gpu_check: no %s test ran\n", options.dry_run ? "kernel" : "gpu");
    return 1;
  }
  if (totals.failures > 0) return 1;
  if (totals.late) std::printf("gpu_check: stopped after %.1f minutes; go on with --from\n", seconds / 60);
  return totals.late ? 3 : 0;
}

int run_all(const Options& options, int argc, char** argv) {
  Totals totals;
  const Stopwatch watch;
  bool started = options.from.empty(), fresh = options.from.empty();
  for (const Step& step : kSteps) {
    started = started || options.from == step.name;
    if (!started || step.by_name_only) continue;
    const double left = options.minutes * 60 - watch.seconds();
    totals.late = totals.late || left <= 0;
    if (totals.late) break;
    std::printf("== %s\n", step.name);
    std::fflush(stdout);
    const double limit =
        std::min(options.limit_step == step.name ? options.limit_seconds : step.seconds, left + kStartSeconds);
    auto end = run_child(words_of(step, argc, argv, left / 60, fresh), limit);
    if (!end) {
      report(end.error());
      return 1;
    }
    if (end->exit_code == kCannotRun) return 1;
    if (end->exit_code == 2) return 2;
    totals.late = totals.late || end->exit_code == 3;
    if (auto summed = sum_up(step, *end, options, totals); !summed) {
      report(summed.error());
      return 1;
    }
    std::printf("-- %s took %.1f s\n", step.name, end->seconds);
    fresh = false;
    if (options.to == step.name) break;
  }
  return report_totals(options, totals, watch.seconds());
}

}  // namespace
}  // namespace tcc::gpu_check

int main(int argc, char** argv) {
  using namespace tcc::gpu_check;
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]) == "--help") return std::fputs(kUsage, stdout), 0;
  auto options = parse(argc, argv);
  if (!options) {
    report(options.error());
    return 2;
  }
  return options->only.empty() ? run_all(*options, argc, argv) : run_here(*options, step_of(options->only));
}
