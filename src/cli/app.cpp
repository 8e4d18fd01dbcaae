// The table of commands and flags. The only unit that sees CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/arguments.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/compile.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

class Lines {
 public:
  explicit Lines(Arguments& a) : a_(a) {}

  CLI::App* add(CLI::App& app, const std::string& name, const std::string& what, const std::string& examples,
                Result<int> (*command)(const Arguments&)) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->footer("Examples:\n" + examples);
    sub->add_flag("--json", a_.common.json, "Print results as JSON");
    sub->add_flag("-q,--quiet", a_.common.quiet, "No progress, no remarks");
    sub->add_flag("-v,--verbose", a_.common.verbose, "Say what is being done; twice for more");
    sub->callback([this, command] { command_ = command; });
    return sub;
  }

  void model(CLI::App* sub, const char* what = "An ONNX file, or zoo:NAME") {
    ModelArguments& m = a_.model;
    sub->add_option("MODEL", m.model, what)->required();
    sub->add_option("--shape", m.shapes, "Shape of an input, as NAME=1x3x224x224; may be repeated")
        ->type_name("NAME=DIMS")
        ->allow_extra_args(false);
    sub->add_option("--dim", m.dims, "Value of a named dimension, as NAME=8; may be repeated")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_option("--reseed-weights", m.reseed, "Replace the weights by seeded random ones of sane scale")
        ->type_name("SEED");
    zoo(sub, "--zoo-seed");
  }
  void zoo(CLI::App* sub, const char* seed_flag) {
    ModelArguments& m = a_.model;
    sub->add_option("--batch", m.zoo_batch, "Batch size of zoo models")->capture_default_str();
    sub->add_option("--image", m.zoo_image, "Height and width of zoo image models")->capture_default_str();
    sub->add_option(seed_flag, m.zoo_seed, "Seed of zoo weights")->capture_default_str();
  }
  void store(CLI::App* sub) {
    sub->add_option("--db", a_.db, "File of tuning records [$XDG_DATA_HOME/tcc/records.db]")->type_name("FILE");
  }
  void target(CLI::App* sub) {
    sub->add_option("--target", a_.target, "Machine to compile for; see `tcc targets`")->capture_default_str();
    sub->add_option("--target-file", a_.target_file, "The machine as JSON; see `tcc targets NAME --json`")
        ->type_name("FILE");
  }
  void threads(CLI::App* sub, const char* what) {
    sub->add_option("--threads", a_.threads, what)->check(CLI::Range(1, 1024))->type_name("N");
  }

  Result<int> (*command() const)(const Arguments&) { return command_; }

 private:
  Arguments& a_;
  Result<int> (*command_)(const Arguments&) = nullptr;
};

void add_tuning(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* tune = lines.add(app, "tune", "Search fast schedules for every task of a model, by measuring",
                             "  tcc tune zoo:resnet18 --trials 200\n"
                             "  tcc tune net.onnx --time 30m --threads 1 --db records.db\n"
                             "Ctrl-C saves and prints the best found so far; the same call goes on from there.",
                             run_tune);
  lines.model(tune);
  lines.target(tune);
  tune->add_option("--trials", a.trials, "Programs to measure, over all tasks [64 a task, at most 10 minutes]")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  tune->add_option("--trials-per-task", a.trials_per_task, "Most programs to measure of one task")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  tune->add_option("--time", a.time, "Stop after this long: 90s, 10m, 1h30m")->type_name("TIME");
  tune->add_option("--seed", a.seed, "Of every random choice")->capture_default_str();
  tune->add_option("--strategy", a.strategy, "evolutionary or random")->capture_default_str();
  tune->add_flag("--fresh", a.fresh, "Start a new search instead of going on with an interrupted one");
  lines.store(tune);
  lines.threads(tune, "Threads that the measured programs run on [all]");

  CLI::App* build = lines.add(app, "build", "Build a library from the best schedules found",
                              "  tcc build zoo:resnet18 -o out\n"
                              "  tcc build net.onnx -o out --id net --require-tuned --emit llvm,trace",
                              run_build);
  lines.model(build);
  build->add_option("-o,--output", a.output, "Folder for the library and its companions")->required()->type_name("DIR");
  build->add_option("--id", a.id, "Name of the library [from the model's name]");
  lines.target(build);
  lines.store(build);
  lines.threads(build, "Prefer schedules that were measured on so many threads [all]");
  build->add_flag("--require-tuned", a.require_tuned, "Fail when a kernel has no measured schedule");
  build->add_option("--emit", a.emit, "Also write, comma separated: obj, llvm, ir, trace")->type_name("LIST");
  build->add_option("--linker", a.linker, "lld, ld.lld, ld or cc [the best one here]");
}

void add_checking(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* verify = lines.add(app, "verify", "Compare a library's results with a double-precision reference",
                               "  tcc verify out/libresnet18.so\n"
                               "  tcc verify out/libnet.so --model moved/net.onnx\n"
                               "  tcc verify zoo:mlp",
                               run_verify);
  lines.model(verify, "A library built by tcc, or a model (built into a temporary folder)");
  verify->add_option("--model", a.original, "Where the library's model is now")->type_name("FILE");
  verify->add_option("--tolerance", a.tolerance, "Largest error allowed, as a share of the output's largest value")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verify->add_option("--seed", a.seed, "Of the random inputs")->capture_default_str();
  lines.target(verify);
  lines.store(verify);
  lines.threads(verify, "Threads to run on [all]");

  CLI::App* bench = lines.add(app, "bench", "Time a library, or a model and its kernels",
                              "  tcc bench out/libresnet18.so --threads 1\n"
                              "  tcc bench zoo:resnet18 --per-kernel",
                              run_bench);
  lines.model(bench, "A library built by tcc, or a model (built into a temporary folder)");
  bench->add_option("--model", a.original, "Where the library's model is now, for --per-kernel")->type_name("FILE");
  bench->add_flag("--per-kernel", a.per_kernel, "Also time each kernel by itself");
  bench->add_option("--seconds", a.seconds, "How long to time")->check(CLI::Range(0.01, 3600.0))->capture_default_str();
  bench->add_option("--seed", a.seed, "Of the random inputs")->capture_default_str();
  lines.target(bench);
  lines.store(bench);
  lines.threads(bench, "Threads to run on [all]");
}

void add_looking(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* show = lines.add(app, "show", "The tasks of a model and what is known of them",
                             "  tcc show zoo:resnet18\n"
                             "  tcc show zoo:resnet18 --task 3",
                             run_show);
  lines.model(show);
  show->add_option("--task", a.task, "One task by number or key: loop nest, best schedule, its program")
      ->type_name("K");
  lines.target(show);
  lines.store(show);
  lines.threads(show, "Prefer schedules that were measured on so many threads [all]");

  CLI::App* inspect = lines.add(app, "inspect", "Inputs, outputs, operators and size of a model; metadata of a library",
                                "  tcc inspect net.onnx --json\n"
                                "  tcc inspect out/libnet.so",
                                run_inspect);
  lines.model(inspect, "An ONNX file, zoo:NAME, or a library built by tcc");

  CLI::App* targets = lines.add(app, "targets", "The machines that tcc knows",
                                "  tcc targets\n"
                                "  tcc targets a100 --json\n"
                                "  tcc targets host --probe",
                                run_targets);
  targets->add_option("NAME", a.name, "One target in full");
  targets->add_flag("--probe", a.probe, "Measure this machine's rates");

  lines.add(app, "ops", "The ONNX operators that tcc reads", "  tcc ops", run_ops);

  CLI::App* zoo = lines.add(app, "zoo", "Write one of the built-in models as an ONNX file; without NAME, list them",
                            "  tcc zoo\n"
                            "  tcc zoo resnet18 --batch 4 -o resnet18.onnx",
                            run_zoo);
  zoo->add_option("NAME", a.name, "The model");
  zoo->add_option("-o,--output", a.output, "File to write")->type_name("FILE");
  lines.zoo(zoo, "--seed");
}

// A misspelt command is answered with the nearest ones.
std::optional<std::string> unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return std::nullopt;
  return suggest(argv[1], names);
}

}  // namespace

ParsedLine parse_command_line(int argc, char** argv) {
  ParsedLine line;
  Arguments& a = line.arguments;
  CLI::App app("tcc compiles ONNX models into libraries that a C program links, tuned by measuring on this machine.");
  app.name("tcc");
  app.set_version_flag("--version", "tcc " + driver::tool_version());
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 ok, 1 the input or the environment is at fault, 2 usage, 3 stopped early with valid results,\n"
      "70 a bug in tcc.\n\nExample: tcc tune zoo:resnet18 --trials 200 && tcc build zoo:resnet18 -o out");
  Lines lines(a);
  add_tuning(app, lines, a);
  add_checking(app, lines, a);
  add_looking(app, lines, a);

  if (auto nearest = unknown_command(app, argc, argv)) {
    print_error({ErrorClass::kUsage,
                 fmt::format("there is no command '{}'", sanitize(argv[1])),
                 nearest->empty() ? "`tcc --help` lists the commands" : *nearest,
                 {}});
    line.exit_code = kUsage;
    return line;
  }
  if (argc < 2) {
    print_error({ErrorClass::kUsage, "no command was given", "`tcc --help` lists the commands", {}});
    line.exit_code = kUsage;
    return line;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help or version
    line.exit_code = app.exit(asked) == 0 ? kOk : kUsage;
    return line;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    print_error({ErrorClass::kUsage,
                 sanitize(error.what(), 500),
                 fmt::format("`tcc {}--help` lists the options", chosen.empty() ? "" : chosen[0]->get_name() + " "),
                 {}});
    line.exit_code = kUsage;
    return line;
  }
  line.command = lines.command();
  return line;
}

}  // namespace tcc::cli
