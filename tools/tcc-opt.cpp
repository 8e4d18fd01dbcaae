// tcc-opt: text IR in, traces and passes applied, text IR out. For tests, for looking at what a pass does, and for bug
// reports. `tcc-opt --help` is the manual.
//
// Exit status: 0 done; 1 the input is at fault (syntax, verification, a rejected trace or lowering); 2 usage; 70 a bug
// in tcc (with --verify: a step made a kernel that does not verify).
#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "lower/compact_buffers.h"
#include "lower/gpu/align_vectors.h"
#include "lower/gpu/distribute_fragments.h"
#include "lower/gpu/expand_pipeline.h"
#include "lower/gpu/expand_roles.h"
#include "lower/gpu/insert_barriers.h"
#include "lower/gpu/place_gpu_storage.h"
#include "lower/gpu/sink_vthreads.h"
#include "lower/gpu/split_last_wave.h"
#include "lower/gpu/spread_banks.h"
#include "lower/gpu/spread_threads.h"
#include "lower/gpu/unroll_loops.h"
#include "lower/hoist_accumulators.h"
#include "lower/inline_blocks.h"
#include "lower/order_local_dims.h"
#include "lower/pad_tails.h"
#include "lower/place_inits.h"
#include "lower/promote_registers.h"
#include "lower/share_output.h"
#include "lower/split_launches.h"
#include "lower/split_tails.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/lower/nest.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace {

using namespace tcc;

// --- the passes of src/lower, by name --------------------------------------------------------------------------------

enum class Needs { kBlocks, kNoInits, kNoBlocksNoAllocs, kNoBlocks, kNest };

using RunPass = ir::Legal<ir::Kernel> (*)(const ir::Kernel&, const target::Target&, const ArenaPtr&);

// The form of a pass that asks for the kernel alone, and of one that makes nodes.
template <auto kPass>
ir::Legal<ir::Kernel> alone(const ir::Kernel& k, const target::Target&, const ArenaPtr&) {
  return kPass(k);
}
template <auto kPass>
ir::Legal<ir::Kernel> making(const ir::Kernel& k, const target::Target&, const ArenaPtr& arena) {
  return kPass(k, arena);
}
template <auto kPass>
ir::Legal<ir::Kernel> aiming(const ir::Kernel& k, const target::Target& t, const ArenaPtr& arena) {
  return kPass(k, t, arena);
}
ir::Legal<ir::Kernel> finish_nest(const ir::Kernel& k, const target::Target&, const ArenaPtr& arena) {
  return lower::finish_nest(k, {}, arena);
}
ir::Legal<ir::Kernel> promote_registers(const ir::Kernel& k, const target::Target& t, const ArenaPtr& arena) {
  return lower::promote_registers(k, arena, lower::register_file(t));
}
ir::Legal<ir::Kernel> hoist_local_tiles(const ir::Kernel& k, const target::Target& t, const ArenaPtr& arena) {
  return lower::hoist_local_tiles(k, arena, lower::register_file(t));
}

struct Pass {
  const char* name;
  Needs needs;
  RunPass run;
};

constexpr std::array kPasses = {
    Pass{"place_inits", Needs::kBlocks, alone<lower::place_inits>},
    Pass{"inline_blocks", Needs::kNoInits, alone<lower::inline_blocks>},
    Pass{"compact_buffers", Needs::kNoBlocksNoAllocs, alone<lower::compact_buffers>},
    Pass{"finish_nest", Needs::kNoBlocks, finish_nest},
    Pass{"share_output", Needs::kNest, aiming<lower::share_output>},
    Pass{"pad_tails", Needs::kNest, making<lower::pad_tails>},
    Pass{"split_tails", Needs::kNest, making<lower::split_tails>},
    Pass{"order_local_dims", Needs::kNest, making<lower::order_local_dims>},
    Pass{"promote_registers", Needs::kNest, promote_registers},
    Pass{"hoist_local_tiles", Needs::kNest, hoist_local_tiles},
    Pass{"split_launches", Needs::kNest, making<lower::split_launches>},
    // For GPUs.
    Pass{"split_last_wave", Needs::kNest, making<lower::split_last_wave>},
    Pass{"place_gpu_storage", Needs::kNest, making<lower::place_gpu_storage>},
    Pass{"distribute_fragments", Needs::kNest, aiming<lower::distribute_fragments>},
    Pass{"sink_vthreads", Needs::kNest, making<lower::sink_vthreads>},
    Pass{"spread_threads", Needs::kNest, making<lower::spread_threads>},
    Pass{"align_vectors", Needs::kNest, making<lower::align_vectors>},
    Pass{"expand_pipeline", Needs::kNest, aiming<lower::expand_pipeline>},
    Pass{"expand_roles", Needs::kNest, aiming<lower::expand_roles>},
    Pass{"hoist_accumulators", Needs::kNest, making<lower::hoist_accumulators>},
    Pass{"spread_banks", Needs::kNest, aiming<lower::spread_banks>},
    Pass{"insert_barriers", Needs::kNest, aiming<lower::insert_barriers>},
    Pass{"unroll_loops", Needs::kNest, making<lower::unroll_loops>},
};

// What a pass may assume comes from outside here, so it is looked at first. Empty when the kernel will do.
std::string what_is_missing(const ir::Kernel& k, Needs needs) {
  bool blocks = false, inits = false, allocs = false;
  ir::visit(k.root, [&](ir::Stmt s) {
    blocks |= ir::as<ir::Block>(s) != nullptr;
    allocs |= ir::as<ir::Alloc>(s) != nullptr;
    if (const ir::Block* block = ir::as<ir::Block>(s)) inits |= block->init != nullptr;
    return true;
  });
  switch (needs) {
    case Needs::kBlocks:
      return k.stage < ir::Stage::kNest ? "" : "a kernel at stage built or scheduled";
    case Needs::kNoInits:
      if (k.stage >= ir::Stage::kNest) return "a kernel at stage built or scheduled";
      return inits ? "blocks without init: run place_inits first" : "";
    case Needs::kNoBlocksNoAllocs:
      if (blocks) return "a kernel without blocks: run inline_blocks first";
      return allocs ? "a kernel whose temporaries are not allocated yet" : "";
    case Needs::kNoBlocks:
      return blocks ? "a kernel without blocks: run inline_blocks first" : "";
    case Needs::kNest:
      return k.stage == ir::Stage::kNest ? "" : "a kernel at stage nest: use --to nest first";
  }
  return "";
}

// --- the command line ------------------------------------------------------------------------------------------------

constexpr const char* kUsage =
    "usage: tcc-opt [OPTIONS] FILE\n"
    "Reads a kernel in text form from FILE ('-': standard input), applies the steps in the order given, prints the "
    "result.\n"
    "  --trace FILE     replay a trace (lines as in docs/primitives.md)\n"
    "  --pass NAME      run one pass of the lowering\n"
    "  --to STAGE       run the lowering up to nest or lowered\n"
    "  --target NAME    what is lowered for (default: host)\n"
    "  --verify         verify the result of every step\n"
    "  --dump-ir        print the kernel after every step that changes it, with a comment that names the step\n"
    "  --list-passes    print the names that --pass takes\n"
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

Result<const Pass*> find_pass(const std::string& name) {
  std::vector<std::string> known;
  for (const Pass& p : kPasses) {
    if (name == p.name) return &p;
    known.emplace_back(p.name);
  }
  std::string hint = suggest(name, known);
  return usage_error("unknown pass '" + sanitize(name, 40) + "'", hint.empty() ? "see --list-passes" : hint);
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
      TCC_TRY(const Pass* pass, find_pass(step.text));
      std::string missing = what_is_missing(kernel, pass->needs);
      if (!missing.empty()) return input_error("{} needs {}", pass->name, missing);
      auto arena = std::make_shared<Arena>();
      arena->keep_alive(kernel.arena);
      ir::Kernel k = kernel;
      k.arena = arena;
      return accept(pass->run(k, target, arena), pass->name);
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
  // Names are checked before anything runs: a misspelt last step should not cost the first ones.
  for (const Step& step : arguments.steps)
    if (step.kind == Step::Kind::kPass) TCC_TRY_VOID(find_pass(step.text));
  TCC_TRY(target::Target target, target::find_target(arguments.target));
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
  if (arguments->list) {
    for (const Pass& p : kPasses) fmt::print("{}\n", p.name);
    return 0;
  }
  Result<void> done = run(*arguments);
  return done ? 0 : report(done.error());
}
