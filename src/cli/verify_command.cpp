#include "cli/verify_command.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cli/command.h"
#include "cli/denormals.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranges.h"
#include "tcc/driver/dynamic.h"
#include "tcc/driver/library.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

void declare(Options& options, VerifyArguments& a) {
  options.option("--model", a.original, "Where the library's model is now").value("FILE");
  options
      .option(
          "--tolerance", a.tolerance,
          "Largest error allowed, as a share of the output's largest value [by element: its type, the length of its "
          "sums, the rounding before it]")
      .positive();
  options.option("--seed", a.seed, "Of the random inputs").show_default();
  options.list("--input-seed", a.seeds, "Of one input, as NAME=7; may be repeated").value("NAME=N");
  options
      .list("--input-range", a.ranges,
            "Where one input is drawn, as NAME=-1:1; may be repeated [inside the operators' domains]")
      .value("NAME=LOW:HIGH");
  options.option("--inputs", a.inputs, "Inputs by name instead of random ones").value("FILE.npz");
  options.option("--expected", a.expected, "Outputs by name to compare with, instead of the reference")
      .value("FILE.npz");
  options
      .option("--against", a.against,
              "Compare with the outputs of onnxruntime for the same inputs, instead of the reference")
      .value("PEER");
  options.option("--python", a.python, "Of --against: an interpreter that has the modules onnxruntime and numpy")
      .value("FILE")
      .show_default();
  add_denormals(options, a.denormals);
  options.flag("--emulate", a.emulate,
               "Without a GPU: run the PTX of the kernels for --target instruction by instruction, task by task, with "
               "checks for races and memory errors. Of very large tasks some blocks only; exit status 3: some tasks "
               "were too large even for that");
  add_library(options, a.library);
}

tl::unexpected<Error> bad_word(const char* option, const std::string& word, const char* expected) {
  return make_error(ErrorClass::kUsage, fmt::format("{}: expected {}, found '{}'", option, expected, sanitize(word)),
                    "`tcc inspect MODEL` lists the inputs");
}

// NAME=VALUE words; `take(name, value)` is false where the value is wrong.
template <class Take>
Result<void> read_words(const char* option, const std::vector<std::string>& words, const char* expected, Take take) {
  for (const std::string& word : words) {
    const size_t equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0 || !take(word.substr(0, equals), word.substr(equals + 1)))
      return bad_word(option, word, expected);
  }
  return {};
}

bool read_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 && std::isfinite(value);
}

Result<driver::VerifyOptions> options_of(const VerifyArguments& a) {
  driver::VerifyOptions options;
  options.model = a.original;
  TCC_TRY(options.frozen, parse_frozen(a.library.model));
  options.seed = a.seed;
  TCC_TRY(options.sizes, library_sizes(a.library.model));
  TCC_TRY_VOID(read_words("--input-seed", a.seeds, "NAME=7", [&](const std::string& name, const std::string& text) {
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    return error == std::errc() && end == text.data() + text.size() && options.seeds.emplace(name, seed).second;
  }));
  TCC_TRY_VOID(
      read_words("--input-range", a.ranges, "NAME=LOW:HIGH", [&](const std::string& name, const std::string& text) {
        const size_t colon = text.find(':');
        driver::DrawnRange range;
        return colon != std::string::npos && read_number(text.substr(0, colon), range.low) &&
               read_number(text.substr(colon + 1), range.high) && range.low <= range.high &&
               options.ranges.emplace(name, range).second;
      }));
  options.inputs = a.inputs;
  options.expected = a.expected;
  if (!a.against.empty()) {
    if (a.against != "onnxruntime") return bad_word("--against", a.against, "onnxruntime");
    if (!a.expected.empty())
      return make_error(ErrorClass::kUsage, "--against and --expected both say what the outputs are",
                        "leave one of the two out");
    options.onnxruntime_python = a.python;
  }
  if (a.tolerance > 0) options.tolerance = a.tolerance;
  options.threads = static_cast<int>(a.library.threads);
  options.cuda_driver = a.library.target.cuda_driver;
  options.keep_denormals = a.denormals == "keep";
  return options;
}

const char* verdict_word(driver::Verdict verdict) {
  return verdict == driver::Verdict::kRight ? "ok" : verdict == driver::Verdict::kWrong ? "FAILED" : "inconclusive";
}

std::string bound_text(const driver::OutputCheck& o) {
  if (o.allowed_there == 0) return "its elements must be equal";
  return fmt::format("{:.3g} is allowed for {} over {}", o.allowed_there, o.actual.type, plural(o.terms, "term"));
}

Json verification_json(const driver::VerifyReport& report) {
  Json json = {{"library", report.id},
               {"model", report.model},
               {"verdict", driver::verdict_name(report.verdict)},
               {"passed", report.passed()},
               {"precision", target::precision_name(report.precision)},
               {"fast_math", report.fast_math},
               {"tolerance", report.tolerance},
               {"self_test", report.self_test.empty() ? "passed" : report.self_test}};
  if (!report.sizes.empty()) json["sizes"] = report.sizes;
  for (const driver::TensorRange& input : report.inputs) json["inputs"].push_back(range_json(input));
  for (const driver::OutputCheck& output : report.outputs) {
    Json check = range_json(output.actual);
    check.update({{"verdict", driver::verdict_name(output.verdict)},
                  {"scale", output.scale},
                  {"max_error", output.max_error},
                  {"where", output.where},
                  {"expected", output.expected_there},
                  {"actual", output.actual_there},
                  {"error", output.error_there},
                  {"allowed", output.allowed_there},
                  {"terms", output.terms},
                  {"wrong", output.wrong},
                  {"flushed", output.flushed},
                  {"failure", output.failure}});
    json["outputs"].push_back(check);
  }
  for (const driver::VerifyReport& other : report.further) json["further"].push_back(verification_json(other));
  return json;
}

std::string tensors_text(const driver::VerifyReport& report) {
  std::string text;
  if (!report.sizes.empty()) text += fmt::format("sizes   {}\n", driver::sizes_text(report.sizes));
  for (const driver::TensorRange& input : report.inputs) text += "input   " + range_text(input) + "\n";
  for (const driver::OutputCheck& output : report.outputs) {
    text += "output  " + range_text(output.actual) + "\n";
    text += fmt::format("        error {:.3g} of scale {:.4g} at {}: {:.7g} for {:.7g}; {}: {}\n", output.error_there,
                        output.scale, output.where, output.actual_there, output.expected_there, bound_text(output),
                        verdict_word(output.verdict));
    if (output.flushed > 0)
      text +=
          fmt::format("        {} below the smallest normal number of {} in the reference {} 0: kernels flush them\n",
                      plural(output.flushed, "value"), output.actual.type, output.flushed == 1 ? "is" : "are");
  }
  return text;
}

void print_verification(const VerifyArguments& a, const driver::VerifyReport& report) {
  if (a.common.json) {
    print_json(verification_json(report));
    return;
  }
  std::string text =
      fmt::format("{} against {} of {}{}\n", report.id,
                  !a.against.empty()   ? "ONNX Runtime"
                  : a.expected.empty() ? "the reference"
                                       : "'" + sanitize(a.expected) + "' and the reference",
                  sanitize(report.model), a.expected.empty() && a.against.empty() ? " in double precision" : "");
  if (report.precision != target::Precision::kF32)
    text += fmt::format("built with --precision {}\n", target::precision_name(report.precision));
  if (report.fast_math) text += "built with --fast-math: results of NaN are open, and none was tried\n";
  text += tensors_text(report);
  for (const driver::VerifyReport& other : report.further) text += tensors_text(other);
  text += fmt::format("self test {}\n", report.self_test.empty() ? "ok" : "FAILED");
  print(text + (report.passed() ? "passed" : verdict_word(report.verdict)) + "\n");
}

constexpr double kLongReference = 1e10;    // operations: more take seconds
constexpr double kSecondsWithoutLine = 2;  // a reference that takes less is silent

std::string operations(double flops) {
  return flops >= 1e12 ? fmt::format("{:.3g} TFLOP", flops / 1e12) : fmt::format("{:.3g} GFLOP", flops / 1e9);
}

void show_plan(const VerifyArguments& a, const driver::VerifyPlan& plan) {
  const target::Target host = target::host_target();
  if (plan.flops >= kLongReference)
    remark(a.common.quiet,
           fmt::format("reference: {} in double precision on {}, in about {} of memory", operations(plan.flops),
                       plural(host.cpu.threads, "thread"), format_bytes(plan.bytes)));
  const auto memory = static_cast<double>(host.memory_bytes);
  if (plan.bytes > memory)
    print_warning(
        fmt::format("the reference needs about {} of memory, and this machine has {}: the system may end tcc. "
                    "A smaller batch or shape needs less",
                    format_bytes(plan.bytes), format_bytes(memory)));
}

// The report of the library, with a line of progress where the reference takes long.
Result<driver::VerifyReport> verify_with_progress(const VerifyArguments& a, const std::string& library,
                                                  driver::VerifyOptions options) {
  ProgressLine line(a.common.quiet);
  double flops = 0;
  options.plan = [&](const driver::VerifyPlan& plan) {
    flops = plan.flops;
    show_plan(a, plan);
  };
  options.progress = [&](const driver::VerifyProgress& p) {
    if (p.elapsed < kSecondsWithoutLine) return;
    line.show(fmt::format("reference: {:.0f}% of {}, {} elapsed, about {} left", 100 * p.share, operations(flops),
                          format_elapsed(p.elapsed), format_elapsed(p.remaining)));
  };
  return driver::verify_library(library, options);
}

Result<int> verify(const VerifyArguments& a) {
  if (a.emulate) return verify_by_emulation(a);
  TCC_TRY(const driver::VerifyOptions options, options_of(a));
  TCC_TRY(LibraryOnDisk library, find_library(a.library, a.common.quiet, true));
  TCC_TRY(driver::VerifyReport report, verify_with_progress(a, library.path, options));
  print_verification(a, report);
  if (report.passed()) return kOk;
  std::vector<std::string> findings;
  auto add_findings = [&](const driver::VerifyReport& one) {
    const std::string at = one.sizes.empty() ? "" : fmt::format(" at {}", driver::sizes_text(one.sizes));
    for (const driver::OutputCheck& output : one.outputs)
      if (!output.failure.empty())
        findings.push_back(fmt::format("output {}{}: {}", sanitize(output.actual.name), at, output.failure));
  };
  add_findings(report);
  for (const driver::VerifyReport& other : report.further) add_findings(other);
  if (report.verdict == driver::Verdict::kInconclusive) {
    for (const std::string& finding : findings) remark(a.common.quiet, "inconclusive: " + finding);
    remark(a.common.quiet,
           "  hint: give inputs that tell something: --inputs FILE.npz, --input-range NAME=LOW:HIGH or another --seed");
    return kInconclusive;
  }
  if (!report.self_test.empty()) findings.push_back(report.self_test);
  return make_error(ErrorClass::kInput, fmt::format("{} does not compute what its model says", report.id),
                    !a.against.empty() ? "see whether it passes without --against, which compares with the reference"
                    : a.expected.empty()
                        ? "tune and build it again; if that does not help, please report it with the model"
                        : "see whether it passes without --expected: then those values are of another model",
                    findings);
}

}  // namespace

Command verify_command() {
  return make_command("verify", "Compare a library's results with a double-precision reference",
                      "  tcc verify out/libresnet18.so\n"
                      "  tcc verify out/libnet.so --model moved/net.onnx\n"
                      "  tcc verify zoo:mlp\n"
                      "  tcc verify out/libnet.so --inputs x.npz --expected y.npz\n"
                      "  tcc verify zoo:mlp --against onnxruntime --python venv/bin/python\n"
                      "  tcc verify out/libnet.so --dim batch=7\n"
                      "  tcc verify zoo:mlp --target a100 --emulate",
                      declare, verify);
}

}  // namespace tcc::cli
