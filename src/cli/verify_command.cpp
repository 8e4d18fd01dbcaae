#include "cli/verify_command.h"

#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "tcc/driver/library.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

void declare(Options& options, VerifyArguments& a) {
  options.option("--model", a.original, "Where the library's model is now").value("FILE");
  options
      .option("--tolerance", a.tolerance,
              "Largest error allowed, as a share of the output's largest value [by the library's --precision: 1e-3 for "
              "f32, "
              "2e-3 for tf32, 1e-2 for f16, 5e-2 for bf16]")
      .positive();
  options.option("--seed", a.seed, "Of the random inputs").show_default();
  options.flag("--emulate", a.emulate,
               "Without a GPU: run the PTX of the kernels for --target instruction by instruction, task by task, with "
               "checks for races and memory errors. Of very large tasks some blocks only; exit status 3: some tasks "
               "were too large even for that");
  add_library(options, a.library);
}

void print_verification(const VerifyArguments& a, const driver::VerifyReport& report) {
  if (a.common.json) {
    Json json = {
        {"library", report.id},          {"model", report.model},
        {"passed", report.passed},       {"precision", target::precision_name(report.precision)},
        {"tolerance", report.tolerance}, {"self_test", report.self_test.empty() ? "passed" : report.self_test}};
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
    print_json(json);
    return;
  }
  std::string text =
      fmt::format("{} against the reference of {} in double precision\n", report.id, sanitize(report.model));
  if (report.precision != target::Precision::kF32)
    text += fmt::format("built with --precision {}: errors up to {:g} of the scale are allowed\n",
                        target::precision_name(report.precision), report.tolerance);
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

Result<int> verify(const VerifyArguments& a) {
  if (a.emulate) return verify_by_emulation(a);
  TCC_TRY(LibraryOnDisk library, find_library(a.library, a.common.quiet));
  driver::VerifyOptions options;
  options.model = a.original;
  TCC_TRY(options.frozen, parse_frozen(a.library.model));
  options.seed = a.seed;
  if (a.tolerance > 0) options.tolerance = a.tolerance;
  options.threads = static_cast<int>(a.library.threads);
  options.cuda_driver = a.library.target.cuda_driver;
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

}  // namespace

Command verify_command() {
  return make_command("verify", "Compare a library's results with a double-precision reference",
                      "  tcc verify out/libresnet18.so\n"
                      "  tcc verify out/libnet.so --model moved/net.onnx\n"
                      "  tcc verify zoo:mlp\n"
                      "  tcc verify zoo:mlp --target a100 --emulate",
                      declare, verify);
}

}  // namespace tcc::cli
