// tcc-opt: text IR in, traces and passes applied, text IR out. For tests, for looking at what a pass does, and for bug
// reports. `tcc-opt --help` is the manual.
//
// Exit status: 0 done; 1 the input is at fault (syntax, verification, a rejected trace or lowering); 2 usage; 70 a bug
// in tcc (with --verify: a step made a kernel that does not verify).
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/pass.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace {

using namespace tcc;

// --- the command line ------------------------------------------------------------------------------------------------

constexpr const char* kUsage =
    "usage: tcc-opt [OPTIONS] FILE\n"
    "Reads a kernel in text form from FILE ('-': standard input), applies the steps in the order given, prints the "
    "result.\n"
    "  --trace FILE     replay a trace (lines as in docs/primitives.md)\n"
    "  --pass NAME      run one pass of the target's lowering\n"
    "  --to STAGE       run the lowering up to nest or lowered\n"
    "  --target NAME    what is lowered for (default: host)\n"
    "  --verify         verify the result of every step\n"
    "  --dump-ir        print the kernel after every step that changes it, with a comment that names the step\n"
    "  --list-passes    print the names that --pass takes for the target, in the order of the lowering\n"
    "Exit status: 0 done, 1 the input is at fault, 2 usage, 70 a bug in tcc.\n";

struct Step {
  enum class Kind { kTrace, kPass, kTo } kind;
  std::string text;
};
struct Arguments {
  std::string input;
  std::string target = "host";
  std::vector<Step> steps;
  bool verify = false, dump = false, help = false, list = false;
};

tl::unexpected<Error> usage_error(std::string message, std::string hint = {}) {
  return make_error(ErrorClass::kUsage, std::move(message), std::move(hint));
}

Result<Arguments> parse_arguments(int argc, char** argv) {
  static const std::vector<std::string> kOptions = {"--trace",  "--pass",    "--to",   "--target",
                                                    "--verify", "--dump-ir", "--help", "--list-passes"};
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&](const char* what) -> Result<std::string> {
      if (i + 1 >= argc) return usage_error(fmt::format("{} needs {}", word, what));
      return std::string(argv[++i]);
    };
    if (word == "--trace") {
      TCC_TRY(std::string file, value("a file"));
      out.steps.push_back({Step::Kind::kTrace, file});
    } else if (word == "--pass") {
      TCC_TRY(std::string name, value("the name of a pass"));
      out.steps.push_back({Step::Kind::kPass, name});
    } else if (word == "--to") {
      TCC_TRY(std::string stage, value("a stage"));
      if (stage != "nest" && stage != "lowered")
        return usage_error("--to takes nest or lowered, not '" + sanitize(stage, 40) + "'");
      out.steps.push_back({Step::Kind::kTo, stage});
    } else if (word == "--target") {
      TCC_TRY(out.target, value("a target"));
    } else if (word == "--verify") {
      out.verify = true;
    } else if (word == "--dump-ir") {
      out.dump = true;
    } else if (word == "--help" || word == "-h") {
      out.help = true;
    } else if (word == "--list-passes") {
      out.list = true;
    } else if (word.size() > 1 && word[0] == '-') {
      return usage_error("unknown option '" + sanitize(word, 40) + "'", suggest(word, kOptions));
    } else if (!out.input.empty()) {
      return usage_error("one input file only; '" + sanitize(word, 80) + "' is the second");
    } else {
      out.input = word;
    }
  }
  if (out.input.empty() && !out.help && !out.list) return usage_error("no input file ('-' reads standard input)");
  return out;
}

Result<const lower::Pass*> find_pass(const target::Target& target, const std::string& name) {
  const lower::Pipeline& pipeline = lower::pipeline_of(target);
  if (const lower::Pass* pass = lower::find_pass(pipeline, name)) return pass;
  return lower::unknown_pass(pipeline, name);
}

// --- running ---------------------------------------------------------------------------------------------------------

constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

Result<std::string> read_input(const std::string& path) {
  if (path != "-") return read_file(path, kMaxBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<ir::Kernel> accept(ir::Legal<ir::Kernel> step, const std::string& what) {
  if (step) return std::move(*step);
  return input_error("{}: rejected ({}): {}", what, ir::reject_reason_name(step.error().reason), step.error().text);
}

Result<ir::Kernel> run_trace(const ir::Kernel& kernel, const std::string& path) {
  if (kernel.stage >= ir::Stage::kNest)
    return input_error("{}: a trace needs a kernel at stage built or scheduled, this one is at {}", path,
                       ir::stage_name(kernel.stage));
  TCC_TRY(std::string text, read_file(path, kMaxBytes));
  TCC_TRY(schedule::Trace trace, schedule::parse_trace(text, path));
  return accept(schedule::replay(trace, trace.decisions, kernel, std::make_shared<Arena>()), path);
}

Result<ir::Kernel> run_step(const ir::Kernel& kernel, const Step& step, const target::Target& target) {
  switch (step.kind) {
    case Step::Kind::kTrace:
      return run_trace(kernel, step.text);
    case Step::Kind::kPass: {
      TCC_TRY(const lower::Pass* pass, find_pass(target, step.text));
      // Passes do not look whether a kernel has the form that they need.
      const std::string missing = lower::missing_for(kernel, pass->needs);
      if (!missing.empty()) return input_error("{} needs {}", pass->name, missing);
      return accept(lower::run_pass(*pass, kernel, target, std::make_shared<Arena>()), step.text);
    }
    case Step::Kind::kTo: {
      ir::Stage stop = step.text == "nest" ? ir::Stage::kNest : ir::Stage::kLowered;
      if (kernel.stage >= stop)
        return input_error("--to {}: the kernel is at stage {} already", step.text, ir::stage_name(kernel.stage));
      return accept(lower::lower(kernel, target, stop, std::make_shared<Arena>()), "--to " + step.text);
    }
  }
  return kernel;
}

Result<void> check_input(const ir::Kernel& kernel, const std::string& path) {
  std::vector<std::string> findings = ir::verify(kernel);
  if (findings.empty()) return {};
  return make_error(ErrorClass::kInput, fmt::format("{}: the kernel does not verify", path), {}, std::move(findings));
}

std::string describe(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kTrace:
      return "trace " + step.text;
    case Step::Kind::kPass:
      return "pass " + step.text;
    case Step::Kind::kTo:
      return "to " + step.text;
  }
  return "";
}

Result<void> run(const Arguments& arguments) {
  TCC_TRY(target::Target target, target::find_target(arguments.target));
  // Names are checked before anything runs: a misspelt last step should not cost the first ones.
  for (const Step& step : arguments.steps)
    if (step.kind == Step::Kind::kPass) TCC_TRY_VOID(find_pass(target, step.text));
  std::string file = arguments.input == "-" ? "<stdin>" : arguments.input;
  TCC_TRY(std::string text, read_input(arguments.input));
  TCC_TRY(ir::Kernel kernel, ir::parse(text, file));
  // Passes take a kernel that verifies for granted.
  if (arguments.verify || !arguments.steps.empty()) TCC_TRY_VOID(check_input(kernel, file));
  for (const Step& step : arguments.steps) {
    std::string before = ir::print(kernel);
    CheckContext context([&] { return "while applying " + describe(step) + " to\n" + before; });
    TCC_TRY(kernel, run_step(kernel, step, target));
    if (arguments.verify) ir::check_verified(kernel, describe(step).c_str());
    if (!arguments.dump) continue;
    std::string after = ir::print(kernel);
    fmt::print("# after {}{}\n{}", describe(step), after == before ? " (unchanged)" : "", after == before ? "" : after);
  }
  if (!arguments.dump || arguments.steps.empty()) fmt::print("{}", ir::print(kernel));
  return {};
}

Result<void> list_passes(const std::string& target_name) {
  TCC_TRY(target::Target target, target::find_target(target_name));
  std::set<std::string_view> printed;  // fold has several places
  for (const lower::Pass& pass : lower::pipeline_of(target).passes)
    if (printed.insert(pass.name).second) fmt::print("{}\n", pass.name);
  return {};
}

int report(const Error& error) {
  fmt::print(stderr, "tcc-opt: {}\n", error.message);
  for (const std::string& note : error.notes) fmt::print(stderr, "  {}\n", note);
  if (!error.hint.empty()) fmt::print(stderr, "  {}\n", error.hint);
  if (error.cls == ErrorClass::kUsage) fmt::print(stderr, "  tcc-opt --help lists the options\n");
  return error.cls == ErrorClass::kUsage ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Result<Arguments> arguments = parse_arguments(argc, argv);
  if (!arguments) return report(arguments.error());
  if (arguments->help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  Result<void> done = arguments->list ? list_passes(arguments->target) : run(*arguments);
  return done ? 0 : report(done.error());
}
