#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include <sstream>

#include "cli/command.h"
#include "cli/form_report.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/show.h"
#include "tcc/driver/tune.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

constexpr std::string_view kAllPasses = "all";  // of --dump-after

struct BuildArguments : TaskArguments {
  Common common;
  std::string output, id, emit, dump_after, linker, cost_model;
  std::string space = std::string(space::kDefaultSpace), effort = "0";
  bool require_tuned = false, allow_jit = false;
};

void declare(Options& options, BuildArguments& a) {
  options.section("Library");
  options.option("-o,--output", a.output, "Folder for the library and its companions").required().value("DIR").usual();
  options.option("--id", a.id, "Name of the library [from the model's name]");
  options.flag("--require-tuned", a.require_tuned,
               "Fail when a kernel has no schedule that was measured or, for a GPU, predicted");
  options
      .option("--emit", a.emit,
              "Also write, comma separated: obj, llvm, asm, ir, trace; for GPUs cu, ptx, cubin, ir, trace (lib is "
              "always written)")
      .comma_words({"lib", "obj", "llvm", "asm", "ir", "trace", "cu", "ptx", "cubin"})
      .value("LIST");
  options
      .option(
          "--dump-after", a.dump_after,
          "Also write each kernel as it is after this pass of its lowering (docs/passes.md); all: after every pass, "
          "with its code in all forms that --emit has")
      .value("PASS");
  options.flag(
      "--allow-jit", a.allow_jit,
      "For GPUs: also PTX of the oldest target, which the driver compiles on devices without code of their own");
  options.section("Kernels without records");
  options
      .option("--effort", a.effort,
              "0: a constructed program or the cost model's pick, nothing is measured; 1: measure a few programs of "
              "each first; 2: tune each first. Records of 1 and 2 go to --db")
      .words(driver::effort_names())
      .show_default();
  add_space(options, a.space);
  options
      .option(
          "--cost-model", a.cost_model,
          "Which model chooses among draws from the design spaces, with the checkpoint that ships [the best one for "
          "the target]")
      .words(search::cost_model_names());
  options.option("--linker", a.linker, "lld, ld.lld, ld or cc [the best one here]")
      .words({"lld", "ld.lld", "ld", "cc"});
  add_tasks(options, a,
            "Machine to compile for; see `tcc targets`. Several GPUs as a100,h100, or several CPUs as "
            "x86-64-v4,x86-64-v3; cuda is the GPU here");
}

struct EmitWord {
  std::string_view word;
  bool package::Emit::* flag;
};
constexpr EmitWord kEmitWords[] = {{"obj", &package::Emit::objects},  {"llvm", &package::Emit::llvm},
                                   {"asm", &package::Emit::assembly}, {"ir", &package::Emit::ir},
                                   {"trace", &package::Emit::traces}, {"cu", &package::Emit::cuda},
                                   {"cubin", &package::Emit::cubin},  {"ptx", &package::Emit::ptx}};

Result<package::Emit> parse_emit(const std::string& list, const backend::Payload& payload) {
  std::vector<std::string> known = {"lib"}, here = {"lib"};
  for (const EmitWord& w : kEmitWords) known.emplace_back(w.word);
  here.insert(here.end(), payload.texts.begin(), payload.texts.end());
  const bool gpu = payload.compile_portable != nullptr;
  package::Emit emit;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      return make_error(ErrorClass::kUsage,
                        fmt::format("--emit: expected {}, not '{}'", fmt::join(known, ", "), sanitize(word)),
                        suggest(word, known));
    if (std::find(here.begin(), here.end(), word) == here.end())
      return make_error(
          ErrorClass::kUsage,
          fmt::format("--emit {}: expected a {} as target, found a {}", word, gpu ? "CPU" : "GPU", gpu ? "GPU" : "CPU"),
          fmt::format("{}use {}", gpu ? "" : "add --target a100, or ", fmt::join(here, ", ")));
    for (const EmitWord& w : kEmitWords)
      if (word == w.word) emit.*(w.flag) = true;
  }
  return emit;
}

Json report_json(const driver::BuildReport& report) {
  Json json = {{"id", report.id}};
  json.update(TCC_JSON(report.package, library, files, linker, library_bytes, weights_bytes, workspace_bytes));
  json["kernels"] = Json::array();
  for (const driver::KernelChoice& k : report.kernels) {
    Json kernel = TCC_JSON(k, key, workload);
    kernel["form"] = driver::form_of(k.workload);
    kernel["nodes"] = task::nodes_to_json<Json>(k.nodes);
    kernel.update(TCC_JSON(k, weight, target, calibrated, tuned));
    kernel["record"] = package::origin_name(k.origin);
    kernel["schedule"] = search::source_name(k.source);
    kernel.update(TCC_JSON(k, reason, passed_over));
    kernel.update(TCC_JSON(k, seconds, note));
    kernel["expected_loss"] = k.slowdown;
    json["kernels"].push_back(kernel);
  }
  return json;
}

// How a program is linked with the library, into whose folder it goes: there it finds the library wherever the two are
// moved.
std::string link_command(const std::string& folder, const std::string& id) {
  const bool plain = std::all_of(folder.begin(), folder.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("/._-+,:@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain)
    return fmt::format("cc {0}/example.c -o {0}/example $(PKG_CONFIG_PATH={0} pkg-config --cflags --libs {1})", folder,
                       id);
  const auto quoted = [](const std::string& text) { return single_quoted(text); };
  return fmt::format("cc {} -o {} -I{} -L{} -Wl,-rpath,'$ORIGIN' -l{}", quoted(folder + "/example.c"),
                     quoted(folder + "/example"), quoted(folder), quoted(folder), id);
}

void print_report(const BuildArguments& a, const driver::BuildReport& report) {
  if (a.common.json) return void(print_json(report_json(report)));
  std::string text = fmt::format("{}  {} ({} of weights), workspace {}\n", report.package.library,
                                 format_bytes(static_cast<double>(report.package.library_bytes)),
                                 format_bytes(static_cast<double>(report.package.weights_bytes)),
                                 format_bytes(static_cast<double>(report.package.workspace_bytes)));
  for (size_t i = 1; i < report.package.files.size(); ++i) text += report.package.files[i] + "\n";
  print(text + "\n" + link_command(a.output, report.id) + "\n");
}

// Says how many schedules no device has confirmed.
void remark_on_predictions(const BuildArguments& a, const driver::BuildReport& report) {
  int64_t predicted = 0;
  for (const driver::KernelChoice& k : report.kernels)
    predicted += k.tuned && k.origin == package::Origin::kPredicted ? 1 : 0;
  if (predicted > 0)
    remark(a.common.quiet,
           fmt::format("note: {} of {} are chosen by predictions, and none of those was run or checked on a device; "
                       "`tcc verify` on a machine with the GPU does",
                       predicted, plural(static_cast<int64_t>(report.kernels.size()), "kernel")));
}

// Writes each kernel, as it is after one pass of its lowering or at every stage, beside the library.
Result<void> dump_kernels(const BuildArguments& a, const driver::Model& model, const driver::BuildOptions& options) {
  for (const target::Target& target : options.targets) {
    TCC_TRY(
        const driver::Program program,
        driver::make_program(model, target, {.store = options.store, .threads = options.threads, .estimated = true}));
    for (size_t i = 0; i < program.tasks.tasks.size(); ++i) {
      const std::string of = options.targets.size() == 1 ? "" : "." + target.name;
      const std::string task = std::to_string(i);
      if (a.dump_after == kAllPasses) {
        TCC_TRY(const std::vector<driver::Stage> stages,
                driver::show_stages(program, task, options.store, target, options.threads));
        for (size_t n = 0; n < stages.size(); ++n)
          TCC_TRY_VOID(
              write_file(fmt::format("{}/k{}{}.{:02}-{}.tir", a.output, i, of, n, stages[n].name), stages[n].text));
        continue;
      }
      TCC_TRY(const std::string text,
              driver::show_after(a.dump_after, program, task, options.store, target, options.threads));
      TCC_TRY_VOID(write_file(fmt::format("{}/k{}{}.{}.tir", a.output, i, of, a.dump_after), text));
    }
  }
  return {};
}

// Measures programs of the tasks that have no record, as the effort says. False: the user stopped it.
Result<bool> measure_missing(const BuildArguments& a, driver::Effort effort, const driver::Model& model,
                             const driver::BuildOptions& options) {
  TCC_TRY(const std::string db, store_path(a.records.db));
  TCC_TRY(auto store, record::Store::open(db));
  InterruptGuard interrupts;
  for (const target::Target& target : options.targets) {
    TCC_TRY_VOID(driver::check_tunable(target));
    TCC_TRY(const driver::Program program,
            driver::make_program(model, target, {.store = store.get(), .threads = options.threads, .estimated = true}));
    driver::TuneRequest request;
    request.target = target;
    request.options.threads = backend::backend_of(target).by_threads ? options.threads : 1;
    TCC_TRY(request.tasks, driver::unmeasured_tasks(program, target, request.options.threads, *store));
    if (request.tasks.empty()) continue;
    request.options.space = options.defaults.space;
    request.options.cost_model = backend::backend_of(target).search_model;
    request.options.pretrained = cost::kShipped;
    driver::set_limits(request.options, effort, std::ssize(request.tasks));
    if (backend::backend_of(target).runs_on_host(target)) request.device = measured_device(a.common.quiet);
    request.cuda_driver = a.target.cuda_driver;
    request.effort = effort;
    request.stop = &InterruptGuard::requested;
    TCC_TRY(const driver::TuneReport report, driver::tune_program(program, *store, request));
    remark(a.common.quiet, fmt::format("effort {}: {} of {} for {} in {}", a.effort, plural(report.trials, "trial"),
                                       plural(std::ssize(report.tasks), "task"), sanitize(target.name),
                                       format_elapsed(report.seconds)));
    if (report.stopped) return false;
  }
  return true;
}

Result<int> build(const BuildArguments& a) {
  driver::BuildOptions options;
  TCC_TRY(const driver::Effort effort, driver::parse_effort(a.effort));
  TCC_TRY(options.targets, open_targets(a.target));
  const backend::Backend& backend = backend::backend_of(options.targets[0]);
  TCC_TRY(options.emit, parse_emit(a.emit, *backend.payload));
  if (a.allow_jit && backend.payload->compile_portable == nullptr)
    return make_error(ErrorClass::kUsage, "--allow-jit: expected a GPU as target, found a CPU", "add --target a100");
  options.allow_jit = a.allow_jit;
  TCC_TRY(driver::Model model, open_model(a.model));
  TCC_TRY_VOID(driver::set_space(a.space, options.targets[0], options.defaults.space));
  options.threads = threads_or_all(a.threads);
  if (effort != driver::Effort::kConstruct) {
    TCC_TRY(const bool whole, measure_missing(a, effort, model, options));
    if (!whole) return kStopped;
  }
  TCC_TRY(const Records records, open_records(a.records));
  options.folder = a.output;
  options.id = a.id;
  options.defaults.cost_model = a.cost_model;
  options.store = records.all;
  options.require_tuned = a.require_tuned;
  options.linker = a.linker;
  options.estimate_slowdowns = !a.common.quiet || a.common.json;
  if (!a.dump_after.empty() && a.dump_after != kAllPasses)
    for (const target::Target& target : options.targets) TCC_TRY_VOID(driver::check_pass_name(a.dump_after, target));
  if (a.dump_after == kAllPasses)
    for (const EmitWord& w : kEmitWords)
      if (std::ranges::find(backend.payload->texts, w.word) != backend.payload->texts.end())
        options.emit.*(w.flag) = true;
  TCC_TRY(driver::BuildReport report, driver::build_model(model, options));
  if (!a.dump_after.empty()) TCC_TRY_VOID(dump_kernels(a, model, options));
  spdlog::info("linked by {}", report.package.linker);

  std::vector<const driver::KernelChoice*> untuned;
  for (const driver::KernelChoice& kernel : report.kernels)
    if (!kernel.tuned) untuned.push_back(&kernel);
  if (!untuned.empty())
    print_warning(
        fmt::format("{} of {} {} not tuned (effort 0: programs that were constructed or that a cost model "
                    "picked, none measured); run: tcc tune {}{}{}",
                    untuned.size(), plural(static_cast<int64_t>(report.kernels.size()), "kernel"),
                    untuned.size() == 1 ? "is" : "are", sanitize(a.model.model),
                    a.target.name == "host" ? "" : " --target " + untuned[0]->target,
                    (a.model.precision == "f32" ? "" : " --precision " + a.model.precision) +
                        (a.model.fast_math ? " --fast-math" : "")));
  for (const driver::KernelChoice* kernel : untuned)
    print_warning(fmt::format("  {} {}{}", kernel->key, kernel->note,
                              kernel->slowdown <= 0 ? ""
                              : kernel->slowdown < 1.05
                                  ? "; about as fast as tuned"
                                  : fmt::format("; expected {:.1f}x slower than tuned", kernel->slowdown)));
  for (const driver::KernelChoice& kernel : report.kernels)
    if (kernel.tuned && !kernel.note.empty()) print_warning(fmt::format("{} {}", kernel.key, kernel.note));
  for (const driver::KernelChoice& kernel : report.kernels)
    for (const std::string& record : kernel.passed_over)
      print_warning(fmt::format("{} {}: {}; the next best is used", kernel.key, kernel.workload, sanitize(record)));
  print_refused_forms(report.refused_forms, a.model.winograd != "auto");
  remark_on_predictions(a, report);
  print_report(a, report);
  return kOk;
}

}  // namespace

Command build_command() {
  return make_command("build", "Build a library from the best schedules found",
                      "  tcc build zoo:resnet18 -o out\n"
                      "  tcc build net.onnx -o out --id net --require-tuned --emit llvm,trace\n"
                      "  tcc build net.onnx -o out --db mine.db --also team.db --fallback shipped.db\n"
                      "  tcc build net.onnx -o out --target a100,h100 --emit cu,cubin",
                      declare, build);
}

}  // namespace tcc::cli
