#include <cstdlib>

#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/library.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/records.h"
#include "tcc/driver/show.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct BenchArguments {
  Common common;
  LibraryArguments library;
  double seconds = 2;
  uint64_t seed = 1;
  bool per_kernel = false;
  std::string schedule, task, record, other, fail_above;
  std::vector<std::string> compare;
  std::string cupti;
};

void declare(Options& options, BenchArguments& a) {
  options.flag("--per-kernel", a.per_kernel, "Also time each kernel inside the model");
  options.option("--schedule", a.schedule, "Time one task of a model (--task) with this trace, text or JSON")
      .value("FILE");
  options.option("--record", a.record, "Time the schedule of this record of --db, in its task of a model").value("ID");
  options.option("--task", a.task, "Number or key of the task for --schedule").value("K");
  options.list("--compare", a.compare, "Do the times of two files of `bench --json` differ?")
      .value("A.json B.json")
      .expects(2);
  options
      .option("--fail-above", a.fail_above,
              "Of two libraries or files: exit status 1 where the second is slower by more than this, as 3%, and its "
              "whole interval is")
      .value("PERCENT");
  options.option("--seconds", a.seconds, "How long to time; two libraries are timed three times as long")
      .range(0.01, 3600)
      .show_default()
      .usual();
  options.option("--seed", a.seed, "Of the random inputs").show_default();
  add_library(options, a.library, false);
  options.option("OTHER", a.other, "A second library: the two are timed in turns, and compared");
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

// "3%" or "3" as 0.03; 0: not given.
Result<double> parse_limit(const std::string& text) {
  if (text.empty()) return 0.0;
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && (*end == 0 || std::string_view(end) == "%") && percent > 0 && percent < 1e6)
    return percent / 100;
  return make_error(ErrorClass::kUsage,
                    fmt::format("--fail-above: expected a percentage above 0, found '{}'", sanitize(text)),
                    "write it as --fail-above 3%");
}

std::string percent_text(double ratio) {
  return fmt::format("{:.1f}% {}", 100 * std::abs(ratio - 1), ratio > 1 ? "slower" : "faster");
}

// One sentence, whose end is the verdict. `same`: what may differ by less than the smallest effect.
std::string comparison_text(const driver::Comparison& c, const std::string& same) {
  const std::string b = fmt::format("b is {}", percent_text(c.ratio));
  if (c.differs) return fmt::format("{} (99% interval: {} to {})", b, percent_text(c.low), percent_text(c.high));
  if (c.low > 1 || c.high < 1)
    return fmt::format("{}; {} may differ by up to {:.0f}%: no difference shown", b, same, 100 * c.smallest);
  return fmt::format("{}, with a 99% interval from {} to {}: no difference shown", b, percent_text(c.low),
                     percent_text(c.high));
}

Result<int> print_comparison(const BenchArguments& a, const driver::Comparison& c, const std::string& same) {
  TCC_TRY(const double limit, parse_limit(a.fail_above));
  const bool fails = limit > 0 && c.differs && c.low > 1 + limit;
  if (a.common.json) {
    Json json = TCC_JSON(c, median_a, median_b, ratio, low, high, p, blocks, smallest, differs);
    json["fails"] = fails;
    print_json(json);
  } else {
    print(fmt::format("a {}  b {}: {}\n", format_seconds(c.median_a), format_seconds(c.median_b),
                      comparison_text(c, same)));
  }
  if (!fails) return kOk;
  return make_error(ErrorClass::kInput,
                    fmt::format("b is slower than a by {:.1f}%, more than the {:g}% of --fail-above",
                                100 * (c.ratio - 1), 100 * limit),
                    "`tcc bench B --per-kernel` shows where the time goes");
}

Result<int> compare(const BenchArguments& a) {
  if (a.compare.size() != 2)
    return make_error(ErrorClass::kUsage, "--compare takes two files", "tcc bench --compare before.json after.json");
  TCC_TRY(std::vector<double> before, read_samples(a.compare[0]));
  TCC_TRY(std::vector<double> after, read_samples(a.compare[1]));
  return print_comparison(a, driver::compare_times(before, after), "runs of one library");
}

Result<int> compare_libraries(const BenchArguments& a) {
  const std::string& first = a.library.model.model;
  for (const std::string& name : {first, a.other}) {
    if (!driver::is_library(name))
      return make_error(ErrorClass::kUsage, fmt::format("expected two libraries, found '{}'", sanitize(name)),
                        "build the models first: tcc build MODEL -o DIR");
    if (!file_exists(name))
      return make_error(ErrorClass::kInput, fmt::format("expected a library, but '{}' does not exist", sanitize(name)),
                        "check the name; `tcc build` makes libraries");
  }
  driver::BenchOptions options;
  options.threads = static_cast<int>(a.library.threads);
  options.seconds = a.seconds;
  options.seed = a.seed;
  TCC_TRY(options.sizes, library_sizes(a.library.model));
  options.cuda_driver = a.library.target.cuda_driver;
  TCC_TRY(const driver::Comparison c, driver::compare_libraries(first, a.other, options));
  return print_comparison(a, c, "libraries that are the same");
}

// One task of the model with this schedule; `name` of the schedule is for messages.
Result<int> time_schedule(const BenchArguments& a, const std::string& trace, const std::string& name,
                          const std::string& task) {
  TCC_TRY(target::Target target, open_target(a.library.target));
  TCC_TRY(driver::Model model, open_model(a.library.model));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  TCC_TRY(size_t index, driver::find_task(program, task));
  TCC_TRY(const driver::ScheduleTime t,
          driver::bench_schedule(driver::find_form(program, index, task), trace, name, target,
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

Result<int> bench_schedule(const BenchArguments& a) {
  if (a.task.empty())
    return make_error(ErrorClass::kUsage, "--schedule times one task, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  TCC_TRY(const std::string trace, read_file(a.schedule, uint64_t{16} << 20));
  return time_schedule(a, trace, sanitize(a.schedule), a.task);
}

Result<int> bench_record(const BenchArguments& a) {
  for (const auto& [given, name] : {std::pair(!a.schedule.empty(), "--schedule"), std::pair(!a.task.empty(), "--task")})
    if (given)
      return make_error(ErrorClass::kUsage, fmt::format("--record names a task and a schedule, and so does {}", name),
                        fmt::format("leave --record or {} out", name));
  TCC_TRY(const int64_t id, parse_record("--record", a.record));
  TCC_TRY(const std::string path, store_path(a.library.records.db));
  TCC_TRY(auto store, record::Store::open(path, record::Store::Mode::kReadOnly));
  TCC_TRY(const record::Record r, driver::find_record(*store, id));
  return time_schedule(a, r.trace.empty() ? "# the plain loops" : r.trace, fmt::format("record {}", id),
                       record::hash_text(r.task));
}
Result<int> bench(const BenchArguments& a) {
  TCC_TRY_VOID(parse_limit(a.fail_above));
  if (!a.compare.empty()) return compare(a);
  if (!a.other.empty()) return compare_libraries(a);
  if (!a.fail_above.empty())
    return make_error(ErrorClass::kUsage, "--fail-above: expected two libraries, found one model",
                      "tcc bench A.so B.so --fail-above 3%");
  if (a.library.model.model.empty())
    return make_error(ErrorClass::kUsage, "tcc bench needs MODEL: a library built by tcc, or a model",
                      "`tcc bench --help` shows examples");
  if (!a.record.empty()) return bench_record(a);
  if (!a.schedule.empty()) return bench_schedule(a);
  driver::BenchOptions options;
  options.threads = static_cast<int>(a.library.threads);
  options.seconds = a.seconds;
  options.seed = a.seed;
  TCC_TRY(options.sizes, library_sizes(a.library.model));
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
                      "  tcc bench before/libnet.so after/libnet.so --fail-above 3%\n"
                      "  tcc bench zoo:resnet18 --record 17\n"
                      "  tcc bench --compare before.json after.json",
                      declare, bench);
}

}  // namespace tcc::cli
