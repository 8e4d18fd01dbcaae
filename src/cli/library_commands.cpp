#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/run.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

Result<int> run_verify(const Arguments& a) {
  if (a.emulate) return run_emulation(a);
  TCC_TRY(LibraryOnDisk library, find_library(a));
  driver::VerifyOptions options;
  options.model = a.original;
  TCC_TRY(options.frozen, parse_frozen(a.model));
  options.seed = a.seed;
  options.tolerance = a.tolerance;
  options.threads = static_cast<int>(a.threads);
  options.cuda_driver = a.cuda_driver;
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

Result<int> run_run(const Arguments& a) {
  driver::RunOptions options;
  TCC_TRY(options.files, parse_files("--input", a.inputs));
  TCC_TRY(options.out_files, parse_files("--save", a.saves));
  if (!a.inputs_npz.empty()) {
    TCC_TRY(options.arrays, driver::read_npz(a.inputs_npz));
  }
  if (!a.output.empty() && !a.output.ends_with(".npz"))
    return make_error(ErrorClass::kUsage, fmt::format("--output {}: expected a .npz file", sanitize(a.output)),
                      "for one output in a .npy or .pb file: --save NAME=FILE");
  options.random = a.random;
  options.seed = a.seed;
  options.threads = static_cast<int>(a.threads);
  options.cuda_driver = a.cuda_driver;
  options.archive = a.output;
  TCC_TRY(LibraryOnDisk library, find_library(a));
  TCC_TRY(driver::RunReport report, driver::run_library(library.path, options));
  if (a.common.json) {
    Json json = {{"library", report.id}, {"seconds", report.seconds}, {"files", report.files}};
    for (const driver::TensorRange& input : report.inputs) json["inputs"].push_back(range_json(input));
    for (const driver::TensorRange& output : report.outputs) json["outputs"].push_back(range_json(output));
    print(dump(json));
    return kOk;
  }
  std::string text;
  for (const driver::TensorRange& input : report.inputs) text += "input   " + range_text(input) + "\n";
  for (const driver::TensorRange& output : report.outputs) text += "output  " + range_text(output) + "\n";
  for (const std::string& file : report.files) text += "wrote   " + file + "\n";
  print(text);
  return kOk;
}

}  // namespace tcc::cli
