// The table of commands and flags: help, completion and manual pages are all made from it.
#include "cli/table.h"

#include <algorithm>

namespace tcc::cli {
namespace {

// A number above 0, in words that people use.
CLI::Validator positive() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double number = 0;
        const bool valid = CLI::detail::lexical_cast(text, number) && number > 0;
        return valid ? "" : fmt::format("expected a number above 0, not '{}'", text);
      },
      "");
}

class Lines {
 public:
  Lines(Arguments& a, CommandFunction& command) : a_(a), command_(command) {}

  CLI::App* add(CLI::App& app, const std::string& name, const std::string& what, const std::string& examples,
                CommandFunction command) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->footer("Examples:\n" + examples);
    sub->add_flag("--json", a_.common.json, "Print results as JSON");
    sub->add_flag("-q,--quiet", a_.common.quiet, "No progress, no remarks");
    sub->add_flag("-v,--verbose", a_.common.verbose, "Say what is being done; twice for more");
    sub->add_option("--config", a_.config,
                    "Options as NAME = VALUE lines (TOML); [COMMAND] sections are for one command")
        ->type_name("FILE");
    sub->callback([&chosen = command_, command] { chosen = command; });  // outlives this object
    return sub;
  }

  void model(CLI::App* sub, const char* what = "An ONNX file, or zoo:NAME", bool required = true) {
    ModelArguments& m = a_.model;
    sub->add_option("MODEL", m.model, what)->required(required);
    sub->add_option("--shape", m.shapes, "Shape of an input, as NAME=1x3x224x224; may be repeated")
        ->type_name("NAME=DIMS")
        ->allow_extra_args(false);
    sub->add_option("--dim", m.dims, "Value of a named dimension, as NAME=8; may be repeated")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_option("--freeze", m.frozen, "Fix the value of an input, as NAME=@FILE.npy or .pb; may be repeated")
        ->type_name("NAME=@FILE")
        ->allow_extra_args(false);
    sub->add_flag("--allow-external-symlinks", m.external_symlinks,
                  "External data may be reached through symbolic links, which may lead out of the model's folder");
    sub->add_option("--reseed-weights", m.reseed, "Replace the weights by seeded random ones of sane scale")
        ->type_name("SEED");
    sub->add_option("--layouts", m.layouts, "Channels between tasks on a CPU: plain, blocked, or auto by estimate")
        ->check(CLI::IsMember({"plain", "blocked", "auto"}))
        ->capture_default_str();
    sub->add_option("--winograd", m.winograd,
                    "3x3 convolutions by tiles of 2x2 or 4x4 outputs where that is estimated to gain: fewer products, "
                    "less accurate; 0: none")
        ->type_name("M")
        ->check(CLI::IsMember({0, 2, 4}))
        ->capture_default_str();
    zoo(sub, "--zoo-seed");
  }
  void shapes(CLI::App* sub) {
    sub->add_option("--shape", a_.model.shapes, "Shape of an input, as NAME=1x3x224x224; may be repeated")
        ->type_name("NAME=DIMS")
        ->allow_extra_args(false);
    sub->add_option("--dim", a_.model.dims, "Value of a named dimension, as NAME=8; may be repeated")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
  }
  void reseed(CLI::App* sub) {
    sub->add_option("--reseed-weights", a_.model.reseed, "Replace the weights by seeded random ones of sane scale")
        ->type_name("SEED");
  }
  void zoo(CLI::App* sub, const char* seed_flag) {
    ModelArguments& m = a_.model;
    sub->add_option("--batch", m.zoo_batch, "Batch size of zoo models")->capture_default_str();
    sub->add_option("--image", m.zoo_image, "Height and width of zoo image models")->capture_default_str();
    sub->add_option("--sequence", m.zoo_sequence, "Tokens of zoo language models")->capture_default_str();
    sub->add_option(seed_flag, m.zoo_seed, "Seed of zoo weights")->capture_default_str();
  }
  void store(CLI::App* sub) {
    sub->add_option("--db", a_.db, "File of tuning records [$XDG_DATA_HOME/tcc/records.db]")->type_name("FILE");
  }
  // For commands that only read records, or read more than they write.
  void more_stores(CLI::App* sub) {
    sub->add_option("--also", a_.also,
                    "Another file of records, only read: the best of it and of --db counts; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--fallback", a_.fallback,
                    "A file of records, only read, for what --db and --also know nothing of; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);
  }
  void target(CLI::App* sub) {
    sub->add_option("--target", a_.target, "Machine to compile for; see `tcc targets`. cuda is the GPU here")
        ->capture_default_str();
    sub->add_option("--target-file", a_.target_file, "The machine as JSON; see `tcc targets NAME --json`")
        ->type_name("FILE");
  }
  void cuda_driver(CLI::App* sub) {
    sub->add_option("--cuda-driver", a_.cuda_driver, "The CUDA driver's library [libcuda.so.1]")->type_name("FILE");
  }
  void cupti(CLI::App* sub) {
    sub->add_option("--cupti", a_.cupti, "The library for the device's own times and counters [libcupti.so.13]")
        ->type_name("FILE");
  }
  void threads(CLI::App* sub, const char* what) {
    sub->add_option("--threads", a_.threads, what)->check(CLI::Range(1, 1024))->type_name("N");
  }

 private:
  Arguments& a_;
  CommandFunction& command_;
};

void add_tuning(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* tune = lines.add(app, "tune", "Search fast schedules for every task of a model, by measuring",
                             "  tcc tune zoo:resnet18 --trials 200\n"
                             "  tcc tune net.onnx --time 30m --threads 1 --db records.db\n"
                             "  tcc tune net.onnx --tasks 0-3,7 --trials-per-task 200\n"
                             "  tcc tune net.onnx --db mine.db --also team.db\n"
                             "  tcc tune net.onnx --target cuda --trials 2000\n"
                             "Ctrl-C saves and prints the best found so far; the same call goes on from there.",
                             run_tune);
  lines.model(tune);
  lines.target(tune);
  lines.cuda_driver(tune);
  lines.cupti(tune);
  tune->add_option("--trials", a.trials, "Programs to measure, over all tasks [64 a task, at most 10 minutes]")
      ->check(positive())
      ->type_name("N");
  tune->add_option("--trials-per-task", a.trials_per_task, "Most programs to measure of one task")
      ->check(positive())
      ->type_name("N");
  tune->add_option("--time", a.time, "Stop after this long: 90s, 10m, 1h30m")->type_name("TIME");
  tune->add_option("--tasks", a.tasks, "Only these, as 0-3,7 or keys; `list` prints them")->type_name("SPEC");
  tune->add_option("--seed", a.seed, "Of every random choice")->capture_default_str();
  tune->add_option("--strategy", a.strategy,
                   "How programs are proposed: evolutionary; mh (annealed Metropolis-Hastings); random (draws); replay "
                   "(the best known of related tasks, then the design spaces in turn with fresh decisions)")
      ->capture_default_str();
  tune->add_option("--task-scheduler", a.task_scheduler,
                   "Which task is next: gradient (the most to gain) or round-robin")
      ->capture_default_str();
  tune->add_option("--modules", a.modules,
                   "Make design spaces from these modules only, as a,b; none: the plain loops. What each choice of a "
                   "schedule was made by, `explain` says")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  tune->add_flag("--no-prior", a.no_prior, "Begin without what ships with tcc about operators of the same families");
  tune->add_flag("--fresh", a.fresh, "Start a new search instead of going on with an interrupted one");
  lines.store(tune);
  lines.more_stores(tune);
  lines.threads(tune, "Threads that the measured programs run on [all]");

  CLI::App* build = lines.add(app, "build", "Build a library from the best schedules found",
                              "  tcc build zoo:resnet18 -o out\n"
                              "  tcc build net.onnx -o out --id net --require-tuned --emit llvm,trace\n"
                              "  tcc build net.onnx -o out --db mine.db --also team.db --fallback shipped.db\n"
                              "  tcc build net.onnx -o out --target a100,h100 --emit cu,cubin",
                              run_build);
  lines.model(build);
  build->add_option("-o,--output", a.output, "Folder for the library and its companions")->required()->type_name("DIR");
  build->add_option("--id", a.id, "Name of the library [from the model's name]");
  build
      ->add_option("--target", a.target,
                   "Machine to compile for; see `tcc targets`. Several GPUs as a100,h100; cuda is the GPU here")
      ->capture_default_str();
  build->add_option("--target-file", a.target_file, "The machine as JSON; see `tcc targets NAME --json`")
      ->type_name("FILE");
  build->add_flag("--allow-jit", a.allow_jit,
                  "For GPUs: also PTX of the oldest target, which the driver compiles on devices without code of their "
                  "own");
  lines.store(build);
  lines.more_stores(build);
  lines.threads(build, "Prefer schedules that were measured on so many threads [all]");
  build->add_flag("--require-tuned", a.require_tuned,
                  "Fail when a kernel has no schedule that was measured or, for a GPU, predicted");
  build
      ->add_option("--emit", a.emit,
                   "Also write, comma separated: obj, llvm, ir, trace; for GPUs cu, ptx, cubin, ir, trace (lib is "
                   "always written)")
      ->type_name("LIST");
  build->add_option("--linker", a.linker, "lld, ld.lld, ld or cc [the best one here]");
}

void add_running(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* run = lines.add(app, "run", "Run a library or model on data from files",
                            "  tcc run out/libnet.so --input x=image.npy -o results.npz\n"
                            "  tcc run net.onnx --inputs batch.npz --save y=y.npy\n"
                            "  tcc run zoo:mlp --random --seed 7\n"
                            "  tcc run out/libnet.so --random --cuda-driver /usr/lib/wsl/lib/libcuda.so.1",
                            run_run);
  lines.model(run, "A library built by tcc, or a model (built into a temporary folder)");
  run->add_option("--input", a.inputs, "An input's data, as NAME=FILE.npy or .pb; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  run->add_option("--inputs", a.inputs_npz, "Inputs by name from one file")->type_name("FILE.npz");
  run->add_flag("--random", a.random, "Made-up numbers for inputs that are not given");
  run->add_option("--seed", a.seed, "Of the made-up numbers")->capture_default_str();
  run->add_option("-o,--output", a.output, "All outputs, by name, into one file")->type_name("FILE.npz");
  run->add_option("--save", a.saves, "One output, as NAME=FILE.npy or .pb; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  lines.target(run);
  lines.store(run);
  lines.more_stores(run);
  lines.threads(run, "Threads to run on [all]");
  lines.cuda_driver(run);
}

void add_checking(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* verify = lines.add(app, "verify", "Compare a library's results with a double-precision reference",
                               "  tcc verify out/libresnet18.so\n"
                               "  tcc verify out/libnet.so --model moved/net.onnx\n"
                               "  tcc verify zoo:mlp\n"
                               "  tcc verify zoo:mlp --target a100 --emulate",
                               run_verify);
  lines.model(verify, "A library built by tcc, or a model (built into a temporary folder)");
  verify->add_option("--model", a.original, "Where the library's model is now")->type_name("FILE");
  verify->add_option("--tolerance", a.tolerance, "Largest error allowed, as a share of the output's largest value")
      ->check(positive())
      ->capture_default_str();
  verify->add_option("--seed", a.seed, "Of the random inputs")->capture_default_str();
  verify->add_flag(
      "--emulate", a.emulate,
      "Without a GPU: run the PTX of the kernels for --target instruction by instruction, task by task, with "
      "checks for races and memory errors. Of very large tasks some blocks only; exit status 3: some were "
      "too large for that, too");
  lines.target(verify);
  lines.store(verify);
  lines.more_stores(verify);
  lines.threads(verify, "Threads to run on [all]");
  lines.cuda_driver(verify);

  CLI::App* bench = lines.add(app, "bench", "Time a library, or a model and its kernels",
                              "  tcc bench out/libresnet18.so --threads 1\n"
                              "  tcc bench zoo:resnet18 --per-kernel\n"
                              "  tcc bench zoo:resnet18 --task 3 --schedule mine.trace\n"
                              "  tcc bench --compare before.json after.json",
                              run_bench);
  lines.model(bench, "A library built by tcc, or a model (built into a temporary folder)", false);
  bench->add_flag("--per-kernel", a.per_kernel, "Also time each kernel inside the model");
  bench->add_option("--schedule", a.schedule, "Time one task of a model (--task) with this trace, text or JSON")
      ->type_name("FILE");
  bench->add_option("--task", a.task, "Number or key of the task for --schedule")->type_name("K");
  bench->add_option("--compare", a.compare, "Do the times of two files of `bench --json` differ?")
      ->type_name("A.json B.json")
      ->expected(2);
  bench->add_option("--seconds", a.seconds, "How long to time")->check(CLI::Range(0.01, 3600.0))->capture_default_str();
  bench->add_option("--seed", a.seed, "Of the random inputs")->capture_default_str();
  lines.target(bench);
  lines.store(bench);
  lines.more_stores(bench);
  lines.threads(bench, "Threads to run on [all]");
  lines.cuda_driver(bench);
  lines.cupti(bench);
}

void add_looking(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* show = lines.add(app, "show", "The tasks of a model and what is known of them",
                             "  tcc show zoo:resnet18\n"
                             "  tcc show zoo:resnet18 --task 3\n"
                             "  tcc show zoo:resnet18 --task 3 --trace > mine.trace",
                             run_show);
  lines.model(show);
  show->add_option("--task", a.task, "One task by number or key: loop nest, best schedule, its program")
      ->type_name("K");
  show->add_flag("--trace", a.trace_only, "Only the schedule of --task, as text that `tcc bench --schedule` takes");
  lines.target(show);
  lines.store(show);
  lines.more_stores(show);
  lines.threads(show, "Prefer schedules that were measured on so many threads [all]");

  CLI::App* explain = lines.add(app, "explain", "Why a task's schedule is what it is",
                                "  tcc explain zoo:resnet18 --task 3\n"
                                "  tcc explain net.onnx --task 3 --json",
                                run_explain);
  lines.model(explain);
  explain->add_option("--task", a.task, "Number or key of the task; see `tcc show`")->type_name("K")->required();
  lines.target(explain);
  lines.store(explain);
  lines.more_stores(explain);
  lines.threads(explain, "Prefer schedules that were measured on so many threads [all]");

  CLI::App* inspect = lines.add(app, "inspect", "What is in a model, a library or a file of tuning records",
                                "  tcc inspect net.onnx --json\n"
                                "  tcc inspect out/libnet.so\n"
                                "  tcc inspect records.db",
                                run_inspect);
  lines.model(inspect, "An ONNX file, zoo:NAME, a library built by tcc, or records (.db)");

  CLI::App* targets = lines.add(app, "targets", "The machines that tcc knows",
                                "  tcc targets\n"
                                "  tcc targets a100 --json\n"
                                "  tcc targets host --probe --refresh",
                                run_targets);
  targets->add_option("NAME", a.name, "One target in full");
  CLI::Option* probe =
      targets->add_flag("--probe", a.probe, "What this machine reaches: measured once and kept for later calls");
  targets->add_flag("--refresh", a.refresh, "With --probe: measure again")->needs(probe);

  CLI::App* db = lines.add(app, "db", "Look after tuning records",
                           "  tcc db stats\n"
                           "  tcc db merge here.db there.db -o all.db\n"
                           "  tcc db prune all.db --keep 8 -o small.db\n"
                           "  tcc db export small.db -o records.jsonl\n"
                           "  tcc db import records.jsonl --db mine.db",
                           run_db);
  db->add_option("ACTION", a.db_action, "stats, merge, prune, export or import")->required();
  db->add_option("FILES", a.files, "The records [those of --db]; for import, the text");
  db->add_option("-o,--output", a.output, "The file to write")->type_name("FILE");
  db->add_option("--keep", a.keep, "prune: the fastest programs to keep of each task, target and number of threads")
      ->check(positive())
      ->capture_default_str();
  lines.store(db);

  lines.add(app, "ops", "The ONNX operators that tcc reads", "  tcc ops", run_ops);

  CLI::App* zoo =
      lines.add(app, "zoo",
                "Write one of the built-in models as an ONNX file, or any with other weights; without NAME, "
                "list them",
                "  tcc zoo\n"
                "  tcc zoo resnet18 --batch 4 -o resnet18.onnx\n"
                "  tcc zoo net.onnx --reseed-weights 1 -o reseeded.onnx",
                run_zoo);
  zoo->add_option("NAME", a.name, "The model; with --reseed-weights an ONNX file, too");
  lines.shapes(zoo);
  lines.reseed(zoo);
  zoo->add_option("-o,--output", a.output, "File to write")->type_name("FILE");
  lines.zoo(zoo, "--seed");
}

void add_shell(CLI::App& app, Lines& lines, Arguments& a) {
  CLI::App* completion = lines.add(app, "completion", "Print the completion of a shell",
                                   "  tcc completion bash > ~/.local/share/bash-completion/completions/tcc\n"
                                   "  tcc completion zsh > ~/.zfunc/_tcc\n"
                                   "  tcc completion fish > ~/.config/fish/completions/tcc.fish",
                                   run_completion);
  completion->add_option("SHELL", a.shell, "bash, zsh or fish")->required();
  CLI::App* man = lines.add(app, "man", "Print a manual page",
                            "  tcc man tune | man -l -\n"
                            "  tcc man --all man1",
                            run_man);
  man->add_option("COMMAND", a.page, "The command; without it, the page of tcc itself");
  man->add_option("--all", a.folder, "Write all pages into this folder instead")->type_name("DIR");
}

}  // namespace

std::unique_ptr<CLI::App> make_table(Arguments& arguments, CommandFunction& command) {
  auto app = std::make_unique<CLI::App>(
      "tcc compiles ONNX models into libraries that a C program links, tuned by measuring on this machine.");
  app->name("tcc");
  app->set_version_flag("--version", "tcc " + driver::tool_version());
  app->require_subcommand(1);
  app->footer(
      "Exit status: 0 ok, 1 the input or the environment is at fault, 2 usage, 3 stopped early with valid results,\n"
      "70 a bug in tcc.\n\nExample: tcc tune zoo:resnet18 --trials 200 && tcc build zoo:resnet18 -o out");
  Lines lines(arguments, command);
  add_tuning(*app, lines, arguments);
  add_running(*app, lines, arguments);
  add_checking(*app, lines, arguments);
  add_looking(*app, lines, arguments);
  add_shell(*app, lines, arguments);
  return app;
}

}  // namespace tcc::cli
