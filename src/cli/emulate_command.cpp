// `tcc verify MODEL --emulate`: runs the kernels of a model for a GPU without one.

#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "cli/verify_command.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/emulate.h"
#include "tcc/driver/library.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Status = driver::EmulatedTask::Status;

const char* status_name(Status status) {
  constexpr const char* kNames[] = {"ok", "part", "too large", "FAILED"};
  return kNames[static_cast<size_t>(status)];
}

void print_emulation(const VerifyArguments& a, const driver::EmulateReport& report) {
  if (a.common.json) {
    Json json = {{"model", report.model},
                 {"target", report.target},
                 {"nvrtc", report.toolkit},
                 {"ok", report.count(Status::kOk)},
                 {"in_part", report.count(Status::kPart)},
                 {"too_large", report.count(Status::kTooLarge)},
                 {"failed", report.count(Status::kFailed)},
                 {"tasks", Json::array()}};
    for (const driver::EmulatedTask& t : report.tasks) {
      Json task = TCC_JSON(t, key, workload, weight);
      task.update({{"schedule", package::origin_name(t.origin)},
                   {"status", t.status == Status::kFailed ? "failed" : status_name(t.status)},
                   {"max_error", t.max_error},
                   {"allowed_error", t.allowed},
                   {"instructions", t.instructions},
                   {"instructions_needed", t.needed}});
      task.update(TCC_JSON(t, blocks, all_blocks, races, findings, failure, seconds));
      json["tasks"].push_back(task);
    }
    print_json(json);
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"task", "schedule", "", "error", "instructions", "blocks", "races"}};
  for (const driver::EmulatedTask& t : report.tasks) {
    const bool ran = t.blocks > 0;
    rows.push_back(
        {sanitize(t.workload), package::origin_name(t.origin), status_name(t.status),
         ran ? fmt::format("{:.2g}", t.max_error) : "-", ran ? fmt::format("{}", t.instructions) : "-",
         t.blocks == t.all_blocks ? fmt::format("{}", t.blocks) : fmt::format("{} of {}", t.blocks, t.all_blocks),
         fmt::format("{}", t.races)});
  }
  std::string text = fmt::format("{} for {}: PTX of NVRTC {}, run without a GPU\n", sanitize(report.model),
                                 report.target, report.toolkit);
  text += format_table(rows, 3);
  for (const driver::EmulatedTask& t : report.tasks)
    if (t.status == Status::kTooLarge) text += fmt::format("{}: {}\n", sanitize(t.workload), t.failure);
  const int64_t large = report.count(Status::kTooLarge), part = report.count(Status::kPart),
                failed = report.count(Status::kFailed);
  if (part > 0)
    text += fmt::format("{} in part: some blocks ran, all of their results are right\n", plural(part, "task"));
  if (large > 0) text += fmt::format("{} NOT verified\n", plural(large, "task"));
  text += failed > 0 ? "FAILED\n" : large > 0 ? "what was verified passed\n" : "passed\n";
  print(text);
}

}  // namespace

Result<int> verify_by_emulation(const VerifyArguments& a) {
  if (driver::is_library(a.library.model.model))
    return make_error(ErrorClass::kUsage,
                      fmt::format("--emulate: expected a model, found the library '{}', whose PTX is not kept",
                                  sanitize(a.library.model.model)),
                      "name the model instead of the library");
  driver::EmulateOptions options;
  TCC_TRY(options.target, open_target(a.library.target));
  TCC_TRY(driver::Model model, open_model(a.library.model));
  TCC_TRY(const Records records, open_records(a.library.records));
  options.store = records.all;
  options.seed = a.seed;
  if (a.tolerance > 0) options.tolerance = a.tolerance;
  TCC_TRY(driver::EmulateReport report, driver::emulate_model(model, options));
  print_emulation(a, report);
  if (report.count(Status::kFailed) == 0) return report.count(Status::kTooLarge) > 0 ? kStopped : kOk;
  std::vector<std::string> findings;
  for (const driver::EmulatedTask& t : report.tasks)
    if (t.status == Status::kFailed)
      findings.push_back(fmt::format("{}: {}", sanitize(t.workload), sanitize(t.failure)));
  return make_error(ErrorClass::kInput,
                    fmt::format("{} of {} do not compute what the model says",
                                plural(report.count(Status::kFailed), "kernel"), report.tasks.size()),
                    "please report it with the model; other schedules (`tcc tune --target`) may be right", findings);
}

}  // namespace tcc::cli
