#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/arguments.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/compile.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<package::Emit> parse_emit(const std::string& list) {
  package::Emit emit;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "obj")
      emit.objects = true;
    else if (word == "llvm")
      emit.llvm = true;
    else if (word == "ir")
      emit.ir = true;
    else if (word == "trace")
      emit.traces = true;
    else if (word != "lib")
      return make_error(ErrorClass::kUsage,
                        fmt::format("--emit: '{}' is none of obj, llvm, ir, trace", sanitize(word)));
  }
  return emit;
}

Json report_json(const driver::BuildReport& report) {
  Json json = {{"id", report.id},
               {"library", report.package.library},
               {"files", report.package.files},
               {"linker", report.package.linker},
               {"library_bytes", report.package.library_bytes},
               {"weights_bytes", report.package.weights_bytes},
               {"workspace_bytes", report.package.workspace_bytes},
               {"kernels", Json::array()}};
  for (const driver::KernelChoice& k : report.kernels)
    json["kernels"].push_back({{"key", k.key},
                               {"workload", k.workload},
                               {"weight", k.weight},
                               {"tuned", k.tuned},
                               {"seconds", k.seconds},
                               {"note", k.note},
                               {"expected_loss", k.loss}});
  return json;
}

void print_report(const Arguments& a, const driver::BuildReport& report) {
  if (a.common.json) {
    print(report_json(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  std::string text = fmt::format("{}  {} ({} of weights), workspace {}\n", report.package.library,
                                 format_bytes(static_cast<double>(report.package.library_bytes)),
                                 format_bytes(static_cast<double>(report.package.weights_bytes)),
                                 format_bytes(static_cast<double>(report.package.workspace_bytes)));
  for (size_t i = 1; i < report.package.files.size(); ++i) text += report.package.files[i] + "\n";
  text +=
      fmt::format("\ncc {0}/example.c $(PKG_CONFIG_PATH={0} pkg-config --cflags --libs {1})\n", a.output, report.id);
  print(text);
}

}  // namespace

Result<int> run_build(const Arguments& a) {
  driver::BuildOptions options;
  TCC_TRY(options.emit, parse_emit(a.emit));
  TCC_TRY(options.target, open_target(a));
  TCC_TRY(driver::Model model, open_model(a));
  TCC_TRY(auto store, open_store_for_reading(a.db));
  options.folder = a.output;
  options.id = a.id;
  options.store = store.get();
  options.threads = threads_or_all(a.threads);
  options.require_tuned = a.require_tuned;
  options.linker = a.linker;
  options.estimate_losses = !a.common.quiet || a.common.json;
  TCC_TRY(driver::BuildReport report, driver::build_model(model, options));
  spdlog::info("linked by {}", report.package.linker);

  std::vector<const driver::KernelChoice*> untuned;
  for (const driver::KernelChoice& kernel : report.kernels)
    if (!kernel.tuned) untuned.push_back(&kernel);
  if (!untuned.empty())
    print_warning(fmt::format("{} of {} are not tuned; run `tcc tune` on this model to measure them:", untuned.size(),
                              plural(static_cast<int64_t>(report.kernels.size()), "kernel")));
  for (const driver::KernelChoice* kernel : untuned)
    print_warning(
        fmt::format("  {} {}{}", kernel->key, kernel->note,
                    kernel->loss > 0 ? fmt::format("; expected {:.1f}x slower than tuned", kernel->loss) : ""));
  for (const driver::KernelChoice& kernel : report.kernels)
    if (kernel.tuned && !kernel.note.empty()) print_warning(fmt::format("{} {}", kernel.key, kernel.note));
  print_report(a, report);
  return kOk;
}

}  // namespace tcc::cli
