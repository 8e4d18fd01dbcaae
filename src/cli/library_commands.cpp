#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/library.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSteadyVariation = 0.05;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string range_text(const driver::TensorRange& r) {
  return fmt::format("{} {} {}  from {:.4g} to {:.4g}, mean {:.4g}", sanitize(r.name), r.type, r.shape, r.low, r.high,
                     r.mean);
}
Json range_json(const driver::TensorRange& r) {
  return {{"name", r.name}, {"type", r.type}, {"shape", r.shape}, {"low", r.low}, {"high", r.high}, {"mean", r.mean}};
}

void print_verification(const Arguments& a, const driver::VerifyReport& report) {
  if (a.common.json) {
    Json json = {{"library", report.id},
                 {"model", report.model},
                 {"passed", report.passed},
                 {"tolerance", report.tolerance},
                 {"self_test", report.self_test.empty() ? "passed" : report.self_test}};
    for (const driver::TensorRange& input : report.inputs) json["inputs"].push_back(range_json(input));
    for (const driver::OutputCheck& output : report.outputs) {
      Json check = range_json(output.actual);
      check.update({{"scale", output.scale},
                    {"max_error", output.max_error},
                    {"where", output.where},
                    {"expected", output.expected_there},
                    {"actual", output.actual_there},
                    {"failure", output.failure}});
      json["outputs"].push_back(check);
    }
    print(dump(json));
    return;
  }
  std::string text =
      fmt::format("{} against the reference of {} in double precision\n", report.id, sanitize(report.model));
  for (const driver::TensorRange& input : report.inputs) text += "input   " + range_text(input) + "\n";
  for (const driver::OutputCheck& output : report.outputs) {
    text += "output  " + range_text(output.actual) + "\n";
    text += fmt::format("        largest error {:.3g} of scale {:.4g} at {}: {:.7g} for {:.7g}: {}\n", output.max_error,
                        output.scale, output.where, output.actual_there, output.expected_there,
                        output.failure.empty() ? "ok" : "FAILED");
  }
  text += fmt::format("self test {}\n", report.self_test.empty() ? "ok" : "FAILED");
  print(text + (report.passed ? "passed\n" : "FAILED\n"));
}

Json statistics_json(const driver::Statistics& s) {
  return {{"runs", s.runs}, {"min", s.min}, {"mean", s.mean}, {"median", s.median},
          {"p90", s.p90},   {"p95", s.p95}, {"p99", s.p99},   {"variation", s.variation}};
}

std::string kernel_table(const std::vector<driver::KernelTime>& kernels) {
  double total = 0;
  for (const driver::KernelTime& k : kernels) total += k.time.median * static_cast<double>(k.kernel.weight);
  std::vector<std::vector<std::string>> rows = {
      {"workload", "weight", "median", "min", "p95", "variation", "GFLOP/s", "share", "tuned"}};
  for (const driver::KernelTime& k : kernels)
    rows.push_back({k.kernel.workload, std::to_string(k.kernel.weight), format_seconds(k.time.median),
                    format_seconds(k.time.min), format_seconds(k.time.p95),
                    fmt::format("{:.1f}%", 100 * k.time.variation), format_gflops(k.flops, k.time.median),
                    fmt::format("{:.1f}%", 100 * k.time.median * static_cast<double>(k.kernel.weight) / total),
                    k.kernel.tuned ? "yes" : "no"});
  return format_table(rows);
}

void print_times(const Arguments& a, const driver::BenchReport& report,
                 const std::vector<driver::KernelTime>& kernels) {
  const driver::Statistics& s = report.time;
  if (a.common.json) {
    Json json = {{"library", report.id},
                 {"threads", report.threads},
                 {"flops", report.flops},
                 {"gflops", report.flops / s.median / 1e9},
                 {"seconds", statistics_json(s)}};
    for (const driver::KernelTime& k : kernels)
      json["kernels"].push_back({{"key", k.kernel.key},
                                 {"workload", k.kernel.workload},
                                 {"weight", k.kernel.weight},
                                 {"tuned", k.kernel.tuned},
                                 {"flops", k.flops},
                                 {"seconds", statistics_json(k.time)}});
    print(dump(json));
    return;
  }
  std::string text = fmt::format("{}, {}, {}\n", report.id, plural(report.threads, "thread"), plural(s.runs, "run"));
  text += format_table({{"min", "mean", "median", "p90", "p95", "p99", "variation", "GFLOP/s"},
                        {format_seconds(s.min), format_seconds(s.mean), format_seconds(s.median), format_seconds(s.p90),
                         format_seconds(s.p95), format_seconds(s.p99), fmt::format("{:.1f}%", 100 * s.variation),
                         format_gflops(report.flops, s.median)}},
                       0);
  if (!kernels.empty()) text += "\n" + kernel_table(kernels);
  print(text);
  if (s.variation > kSteadyVariation)
    remark(a.common.quiet,
           fmt::format("note: the times vary by {:.0f}%; other programs or a changing clock disturb them",
                       100 * s.variation));
}

// The model of the library, for timing its kernels.
Result<driver::Model> model_behind(const Arguments& a) {
  if (!driver::is_library(a.model.model)) return open_model(a);
  TCC_TRY(std::string metadata, driver::library_metadata(a.model.model));
  TCC_TRY(driver::RecordedSource recorded, driver::source_from_metadata(metadata, a.model.model));
  return driver::load_recorded(recorded, a.original);
}

}  // namespace

Result<int> run_verify(const Arguments& a) {
  TCC_TRY(LibraryOnDisk library, find_library(a));
  driver::VerifyOptions options;
  options.model = a.original;
  options.seed = a.seed;
  options.tolerance = a.tolerance;
  options.threads = static_cast<int>(a.threads);
  TCC_TRY(driver::VerifyReport report, driver::verify_library(library.path, options));
  print_verification(a, report);
  if (report.passed) return kOk;
  std::vector<std::string> findings;
  for (const driver::OutputCheck& output : report.outputs)
    if (!output.failure.empty())
      findings.push_back(fmt::format("output {}: {}", sanitize(output.actual.name), output.failure));
  if (!report.self_test.empty()) findings.push_back(report.self_test);
  return make_error(ErrorClass::kInput, fmt::format("{} does not compute what its model says", report.id),
                    "tune and build it again; if that does not help, please report it with the model", findings);
}

Result<int> run_bench(const Arguments& a) {
  driver::BenchOptions options;
  options.threads = static_cast<int>(a.threads);
  options.seconds = a.seconds;
  options.seed = a.seed;
  TCC_TRY(LibraryOnDisk library, find_library(a));
  TCC_TRY(driver::BenchReport report, driver::bench_library(library.path, options));
  std::vector<driver::KernelTime> kernels;
  if (a.per_kernel) {
    TCC_TRY(driver::Model model, model_behind(a));
    TCC_TRY(auto store, open_store_for_reading(a.db));
    driver::BuildOptions build;
    TCC_TRY(build.target, open_target(a));
    build.store = store.get();
    build.threads = threads_or_all(a.threads);
    TCC_TRY(kernels, driver::bench_kernels(model, build, options));
  }
  print_times(a, report, kernels);
  return kOk;
}

}  // namespace tcc::cli
