#include <nlohmann/json.hpp>

#include "cli/bench_gpu.h"
#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/driver/library.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/show.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct Arguments {
  Common common;
  LibraryArguments library;
  double seconds = 2;
  uint64_t seed = 1;
  bool per_kernel = false;
  std::string schedule, task;
  std::vector<std::string> compare;
  std::string cupti;
};

void declare(Options& options, Arguments& a) {
  options.flag("--per-kernel", a.per_kernel, "Also time each kernel inside the model");
  options.option("--schedule", a.schedule, "Time one task of a model (--task) with this trace, text or JSON")
      .value("FILE");
  options.option("--task", a.task, "Number or key of the task for --schedule").value("K");
  options.list("--compare", a.compare, "Do the times of two files of `bench --json` differ?")
      .value("A.json B.json")
      .expects(2);
  options.option("--seconds", a.seconds, "How long to time").range(0.01, 3600).show_default();
  options.option("--seed", a.seed, "Of the random inputs").show_default();
  add_library(options, a.library, false);
  add_cupti(options, a.cupti);
}

using Json = nlohmann::ordered_json;

constexpr double kSteadyVariation = 0.05;
constexpr size_t kMaxSavedSamples = 2000;  // in JSON; evenly spread over the run

Json statistics_json(const driver::Statistics& s) {
  return {{"runs", s.runs}, {"min", s.min}, {"mean", s.mean}, {"median", s.median},
          {"p90", s.p90},   {"p95", s.p95}, {"p99", s.p99},   {"variation", s.variation}};
}

std::string share_text(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}
std::string rate_text(double bytes, double seconds) {
  return bytes > 0 && seconds > 0 ? fmt::format("{:.1f}", bytes / seconds / 1e9) : "-";
}

// What the kernels of one run read and write, by the library's metadata; 0 = unknown.
double bytes_of(const std::string& library) {
  const auto metadata = driver::library_metadata(library);
  const Json json = metadata ? Json::parse(*metadata, nullptr, false) : Json();
  double bytes = 0;
  if (json.is_object() && json.contains("tasks"))
    for (const Json& task : json["tasks"]) bytes += task.value("bytes", 0.0) * task.value("count", 1.0);
  return bytes;
}

// What the threads in use can reach: the probe's figures are for all cores.
double peak_of(const target::Target& host, int64_t threads) {
  const auto cores = static_cast<double>(std::max<int64_t>(host.cpu.cores, 1));
  return host.peak.fp32 * std::min(static_cast<double>(threads), cores) / cores;
}

// What the fastest kernel in fp32 would reach on all cores.
double best_rate(const driver::BenchReport& report, const target::Target& host) {
  double best = 0;
  for (const driver::KernelTime& k : report.kernels)
    if (k.time.median > 0) best = std::max(best, k.flops * static_cast<double>(k.weight) / k.time.median);
  return host.peak.fp32 > 0 ? best * host.peak.fp32 / peak_of(host, report.threads) : 0;
}

std::string kernel_table(const driver::BenchReport& report, const target::Target& host) {
  double total = 0;
  for (const driver::KernelTime& k : report.kernels) total += k.time.median;
  const double peak = peak_of(host, report.threads);
  std::vector<std::vector<std::string>> rows = {{"workload", "weight", "in model", "alone", "p95", "variation",
                                                 "GFLOP/s", "of peak", "GB/s", "of memory", "share", "tuned"}};
  for (const driver::KernelTime& k : report.kernels) {
    const auto weight = static_cast<double>(k.weight);
    const double each = k.time.median / weight;
    rows.push_back({k.workload, std::to_string(k.weight), format_seconds(each), format_seconds(k.alone),
                    format_seconds(k.time.p95 / weight), fmt::format("{:.1f}%", 100 * k.time.variation),
                    format_gflops(k.flops, each), share_text(k.flops / each, peak), rate_text(k.bytes, each),
                    share_text(k.bytes / each, host.memory_bandwidth), share_text(k.time.median, total),
                    k.tuned ? "yes" : "no"});
  }
  return format_table(rows);
}

// What to do about the figures, one sentence each.
std::vector<std::string> advice(const driver::BenchReport& report) {
  std::vector<std::string> lines;
  const driver::Statistics& s = report.time;
  if (s.variation > kSteadyVariation)
    lines.push_back(
        fmt::format("the times vary by {:.0f}%: stop other programs, fix the clock (cpupower frequency-set -g "
                    "performance), or compare minima instead of means",
                    100 * s.variation));
  if (s.median > 0 && s.p99 > 2 * s.median)
    lines.push_back("one run in a hundred takes more than twice the median: other programs take the cores at times");
  double in_model = 0, alone = 0, untuned = 0, least = 0;
  for (const driver::KernelTime& k : report.kernels) {
    in_model += k.time.median;
    least += k.time.min;
    if (!k.tuned) untuned += k.time.median;
    alone += k.alone > 0 ? k.alone * static_cast<double>(k.weight) : k.time.median;
  }
  if (alone > 0 && in_model > 1.05 * alone)
    lines.push_back(
        fmt::format("the kernels take {:.0f}% longer inside the model than alone: there weights and "
                    "activations come from memory, when tuned they were in the caches",
                    100 * (in_model / alone - 1)));
  // By the minima: the two were timed one after the other, and a disturbance of one of them tells nothing.
  if (least > 0 && s.min > 1.1 * least)
    lines.push_back(fmt::format("{} of a run are outside of the kernels", format_seconds(s.min - least)));
  if (untuned > 0)
    lines.push_back(fmt::format("{:.0f}% of the time is in kernels that are not tuned; `tcc tune` makes them faster",
                                100 * untuned / in_model));
  return lines;
}

Json report_json(const driver::BenchReport& report, const target::Target& host, double bytes) {
  const driver::Statistics& s = report.time;
  std::vector<double> samples;
  const size_t step = (report.samples.size() + kMaxSavedSamples - 1) / kMaxSavedSamples;
  for (size_t i = 0; i < report.samples.size(); i += std::max<size_t>(step, 1)) samples.push_back(report.samples[i]);
  Json json = {{"library", report.id},
               {"threads", report.threads},
               {"flops", report.flops},
               {"gflops", report.flops / s.median / 1e9},
               {"bytes", bytes},
               {"gbytes_per_second", bytes / s.median / 1e9},
               {"peak_share", report.flops / s.median / peak_of(host, report.threads)},
               {"peak_measured", host.measured},
               {"seconds", statistics_json(s)},
               {"samples", samples},
               {"advice", advice(report)}};
  for (const driver::KernelTime& k : report.kernels)
    json["kernels"].push_back({{"key", k.key},
                               {"workload", k.workload},
                               {"weight", k.weight},
                               {"tuned", k.tuned},
                               {"flops", k.flops},
                               {"bytes", k.bytes},
                               {"alone_seconds", k.alone},
                               {"seconds", statistics_json(k.time)}});
  return json;
}

void print_times(const Arguments& a, const driver::BenchReport& report, const target::Target& host, double bytes) {
  if (a.common.json) {
    print_json(report_json(report, host, bytes));
    return;
  }
  const driver::Statistics& s = report.time;
  std::string text = fmt::format("{}, {}, {}\n", report.id, plural(report.threads, "thread"), plural(s.runs, "run"));
  text +=
      format_table({{"min", "mean", "median", "p90", "p95", "p99", "variation", "GFLOP/s", "of peak", "GB/s"},
                    {format_seconds(s.min), format_seconds(s.mean), format_seconds(s.median), format_seconds(s.p90),
                     format_seconds(s.p95), format_seconds(s.p99), fmt::format("{:.1f}%", 100 * s.variation),
                     format_gflops(report.flops, s.median),
                     share_text(report.flops / s.median, peak_of(host, report.threads)), rate_text(bytes, s.median)}},
                   0);
  if (!report.kernels.empty() && a.per_kernel) text += "\n" + kernel_table(report, host);
  print(text);
  for (const std::string& line : advice(report)) remark(a.common.quiet, "note: " + line);
}

Result<std::vector<double>> read_samples(const std::string& path) {
  TCC_TRY(std::string text, read_file(path, uint64_t{256} << 20));
  const Json json = Json::parse(text, nullptr, false);
  std::vector<double> samples;
  if (json.is_object() && json.contains("samples") && json["samples"].is_array())
    for (const Json& value : json["samples"])
      if (value.is_number() && value.get<double>() > 0) samples.push_back(value.get<double>());
  if (!samples.empty()) return samples;
  return make_error(ErrorClass::kInput,
                    fmt::format("expected the times of a library, but '{}' has no \"samples\"", sanitize(path)),
                    "write it with `tcc bench LIB --json > FILE`");
}

Result<int> compare(const Arguments& a) {
  if (a.compare.size() != 2)
    return make_error(ErrorClass::kUsage, "--compare takes two files", "tcc bench --compare before.json after.json");
  TCC_TRY(std::vector<double> before, read_samples(a.compare[0]));
  TCC_TRY(std::vector<double> after, read_samples(a.compare[1]));
  const driver::Comparison c = driver::compare_times(before, after);
  if (a.common.json) {
    print_json({{"median_a", c.median_a},
                {"median_b", c.median_b},
                {"ratio", c.ratio},
                {"low", c.low},
                {"high", c.high},
                {"p", c.p},
                {"differs", c.differs}});
    return kOk;
  }
  std::string text = fmt::format("a {}  b {}  b/a {:.3f} (95% interval {:.3f} to {:.3f}), p {:.2g}\n",
                                 format_seconds(c.median_a), format_seconds(c.median_b), c.ratio, c.low, c.high, c.p);
  if (!c.differs)
    text += "no difference that these runs can show\n";
  else
    text += fmt::format("b is {:.1f}% {}\n", 100 * std::abs(c.ratio - 1), c.ratio > 1 ? "slower" : "faster");
  print(text);
  remark(a.common.quiet,
         "note: this weighs the runs within each file; the state of the machine may still have changed between them");
  return kOk;
}

Result<int> bench_schedule(const Arguments& a) {
  if (a.task.empty())
    return make_error(ErrorClass::kUsage, "--schedule times one task, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  TCC_TRY(std::string trace, read_file(a.schedule, uint64_t{16} << 20));
  TCC_TRY(target::Target target, open_target(a.library.target));
  TCC_TRY(driver::Model model, open_model(a.library.model));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  TCC_TRY(size_t index, driver::find_task(program, a.task));
  auto timed =
      driver::bench_schedule(program.tasks.tasks[index], trace, target,
                             static_cast<int>(threads_or_all(a.library.threads)), a.library.target.cuda_driver);
  if (!timed) return tl::make_unexpected(std::move(timed).error().with_context(sanitize(a.schedule)));
  const driver::ScheduleTime& t = *timed;
  for (const std::string& note : t.notes) remark(a.common.quiet, "note: " + note);
  if (a.common.json)
    print_json({{"workload", t.workload},
                {"status", t.status},
                {"failure", t.failure},
                {"median", t.median},
                {"low", t.low},
                {"high", t.high},
                {"gflops", t.median > 0 ? t.flops / t.median / 1e9 : 0},
                {"max_error", t.max_error}});
  else if (t.status == "ok")
    print(fmt::format("{}: {} ({} to {}), {} GFLOP/s; checked, largest error {:.2g} of what is allowed\n", t.workload,
                      format_seconds(t.median), format_seconds(t.low), format_seconds(t.high),
                      format_gflops(t.flops, t.median), t.max_error));
  if (t.status == "ok") return kOk;
  return make_error(ErrorClass::kInput, fmt::format("{}: the schedule is {}: {}", t.workload, t.status, t.failure));
}

Result<int> bench(const Arguments& a) {
  if (!a.compare.empty()) return compare(a);
  if (a.library.model.model.empty())
    return make_error(ErrorClass::kUsage, "tcc bench needs MODEL: a library built by tcc, or a model",
                      "`tcc bench --help` shows examples");
  if (!a.schedule.empty()) return bench_schedule(a);
  driver::BenchOptions options;
  options.threads = static_cast<int>(a.library.threads);
  options.seconds = a.seconds;
  options.seed = a.seed;
  options.per_kernel = a.per_kernel;
  options.cuda_driver = a.library.target.cuda_driver;
  options.cupti = a.cupti;
  TCC_TRY(LibraryOnDisk library, find_library(a.library, a.common.quiet));
  TCC_TRY(const bool on_gpu, driver::library_on_gpu(library.path));
  if (on_gpu) {
    TCC_TRY(driver::BenchReport report, driver::bench_library(library.path, options));
    print_gpu_times(a.common, a.per_kernel, report);
    return kOk;
  }
  const driver::MachineFactsOptions probing{cache_folder(), false, driver::kBriefProbe};
  TCC_TRY(driver::MachineFacts facts, driver::machine_facts(probing));
  for (const std::string& note : facts.notes) remark(a.common.quiet, "note: " + note);
  TCC_TRY(driver::BenchReport report, driver::bench_library(library.path, options));
  const double rate = best_rate(report, facts.target);
  facts.notes.clear();
  TCC_TRY(facts, driver::remeasure_if_beaten(std::move(facts), rate, probing));
  for (const std::string& note : facts.notes) remark(a.common.quiet, "note: " + note);
  print_times(a, report, facts.target, bytes_of(library.path));
  return kOk;
}

}  // namespace

Command bench_command() {
  return make_command("bench", "Time a library, or a model and its kernels",
                      "  tcc bench out/libresnet18.so --threads 1\n"
                      "  tcc bench zoo:resnet18 --per-kernel\n"
                      "  tcc bench zoo:resnet18 --task 3 --schedule mine.trace\n"
                      "  tcc bench --compare before.json after.json",
                      declare, bench);
}

}  // namespace tcc::cli
