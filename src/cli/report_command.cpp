#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/report_data.h"
#include "cli/report_page.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/library.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct ReportArguments : TaskArguments {
  Common common;
  std::string other, output = "report.html";
};

void declare(Options& options, ReportArguments& a) {
  add_tasks(options, a);
  options.option("OTHER", a.other, "A second library: the report compares the two");
  options.option("-o,--output", a.output, "The HTML file to write").value("FILE").show_default().usual();
}

// The rates of this machine, where they can be had.
std::optional<driver::MachineFacts> rates_here(bool quiet) {
  auto facts = driver::machine_facts({cache_folder(), false, driver::kBriefProbe});
  if (!facts) {
    print_warning(fmt::format("the report shows no measured rates: {}", facts.error().message));
    return std::nullopt;
  }
  for (const std::string& note : facts->notes) remark(quiet, "note: " + note);
  return std::move(*facts);
}

Result<Json> model_data(const ReportArguments& a) {
  TCC_TRY(const OpenTasks open, open_tasks(a));
  std::optional<driver::MachineFacts> facts;
  if (backend::backend_of(open.target).runs_on_host(open.target)) facts = rates_here(a.common.quiet);
  const driver::MachineFacts* rates = facts ? &*facts : nullptr;
  const int64_t threads = threads_or_all(a.threads);
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  TCC_TRY(const auto tasks, driver::report_program(open.program, open.records.all, open.target, threads,
                                                   &open.model.source, rates, &pool));
  driver::History history;
  if (open.records.all != nullptr) {
    TCC_TRY(history, driver::tuning_history(open.program, *open.records.all, open.target, threads));
  }
  return model_page({a.model.model, open, tasks, history, rates, threads});
}

Result<Json> read_metadata(const std::string& library) {
  if (!driver::is_library(library))
    return make_error(ErrorClass::kUsage, fmt::format("expected two libraries, found '{}'", sanitize(library)),
                      "build the models first: tcc build MODEL -o DIR");
  if (!file_exists(library))
    return make_error(ErrorClass::kInput, fmt::format("expected a library, but '{}' does not exist", sanitize(library)),
                      "check the name; `tcc build` makes libraries");
  TCC_TRY(const std::string text, driver::library_metadata(library));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  return make_error(ErrorClass::kInput,
                    fmt::format("'{}': expected a description in JSON inside of the library", sanitize(library)),
                    "build the library again");
}

Result<Json> page_data(const ReportArguments& a) {
  const std::string& name = a.model.model;
  if (!a.other.empty()) {
    TCC_TRY(const Json first, read_metadata(name));
    TCC_TRY(const Json second, read_metadata(a.other));
    const auto facts = rates_here(a.common.quiet);
    return pair_page(name, first, a.other, second, facts ? &*facts : nullptr);
  }
  if (driver::is_library(name)) {
    TCC_TRY(const Json metadata, read_metadata(name));
    const auto facts = rates_here(a.common.quiet);
    return library_page(name, metadata, facts ? &*facts : nullptr);
  }
  if (name.ends_with(".db")) {
    TCC_TRY(const auto store, record::Store::open(name, record::Store::Mode::kReadOnly));
    TCC_TRY(const auto tasks, driver::report_store(*store));
    return store_page(name, tasks);
  }
  return model_data(a);
}

Result<int> report(const ReportArguments& a) {
  TCC_TRY_VOID(check_report_page());
  Stopwatch watch;
  TCC_TRY(const Json data, page_data(a));
  TCC_TRY(const std::string page, report_page(data));
  TCC_TRY_VOID(write_file(a.output, page));
  const char* list = data.contains("pairs") ? "pairs" : "tasks";
  if (a.common.json)
    return print_json({{"file", a.output},
                       {"kind", data["kind"]},
                       {"tasks", data[list].size()},
                       {"bytes", page.size()},
                       {"seconds", watch.seconds()}});
  remark(a.common.quiet,
         fmt::format("{} written in {}: {} of {}", a.output, format_seconds(watch.seconds()),
                     format_bytes(static_cast<double>(page.size())), plural(std::ssize(data[list]), "task")));
  return kOk;
}

}  // namespace

Command report_command() {
  return make_command("report", "Write a page to look at: the gain of tuning, and the bound of each kernel",
                      "  tcc report zoo:resnet18 -o report.html\n"
                      "  tcc report net.onnx --db records.db --threads 1\n"
                      "  tcc report out/libnet.so\n"
                      "  tcc report before/libnet.so after/libnet.so\n"
                      "  tcc report records.db",
                      declare, report);
}

}  // namespace tcc::cli
