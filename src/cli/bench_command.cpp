#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/json.h"
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
  if (a.common.json) return print_json(TCC_JSON(c, median_a, median_b, ratio, low, high, p, differs));
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
  TCC_TRY(const driver::ScheduleTime t,
          driver::bench_schedule(program.tasks.tasks[index], trace, sanitize(a.schedule), target,
                                 static_cast<int>(threads_or_all(a.library.threads)), a.library.target.cuda_driver));
  for (const std::string& note : t.notes) remark(a.common.quiet, "note: " + note);
  if (a.common.json) {
    Json json = TCC_JSON(t, workload, status, failure, median, low, high);
    json["gflops"] = t.median > 0 ? t.flops / t.median / 1e9 : 0;
    json["max_error"] = t.max_error;
    print_json(json);
  } else if (t.status == "ok")
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
  options.calibrations = cache_folder();
  options.cupti = a.cupti;
  TCC_TRY(LibraryOnDisk library, find_library(a.library, a.common.quiet));
  TCC_TRY(const driver::BenchReport report, driver::bench_library(library.path, options));
  driver::MachineFacts facts;
  if (!report.gpu) {
    const driver::MachineFactsOptions probing{cache_folder(), false, driver::kBriefProbe};
    TCC_TRY(facts, driver::machine_facts(probing));
    std::vector<std::string> notes = std::exchange(facts.notes, {});
    const double rate = best_rate(report, facts.target);
    TCC_TRY(facts, driver::remeasure_if_beaten(std::move(facts), rate, probing));
    notes.insert(notes.end(), facts.notes.begin(), facts.notes.end());
    for (const std::string& note : notes) remark(a.common.quiet, "note: " + note);
  }
  print_times(a.common, report, facts.target);
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
