#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "cli/command.h"
#include "cli/fleet_arguments.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/dataset.h"
#include "tcc/driver/forms.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/tune.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

const std::vector<std::string> kDatasetActions = {"collect", "stats", "split", "export", "import", "merge", "pack"};

struct DatasetArguments {
  Common common;
  ModelArguments model;
  TargetArguments target;
  FleetArguments fleet;
  std::string action, output, held_out, sampler = "random";
  std::string space = std::string(space::kDefaultSpace);
  std::vector<std::string> files, programs, without, tasks;
  std::optional<std::string> time;
  int64_t per_task = 0, heaviest = 0, threads = 1, simulate = 0;
  double share = 0.1, max_gflop = 0;
  uint64_t seed = 1;
};

void declare(Options& options, DatasetArguments& a) {
  options.option("ACTION", a.action, "collect, stats, split, export, import, merge or pack")
      .words(kDatasetActions)
      .required();
  options.list("FILES", a.files, "Pools; for collect, ONNX files or zoo:NAME; for import, exported text");
  options.option("-o,--output", a.output, "The file to write; collect, import and merge add to it").value("FILE");
  options.section("Collect");
  options.option("--per-task", a.per_task, "Programs of each task [256; with --programs: all]").positive();
  options
      .list("--programs", a.programs,
            "Instead of models: measure the programs of this pool for --target; may be repeated")
      .value("POOL");
  options.option("--sampler", a.sampler, "How programs are chosen: as `tcc tune --strategy`")
      .words(search::strategy_names())
      .show_default();
  options.option("--time", a.time, "Stop after this long: 90s, 10m, 1h30m").value("TIME");
  options.option("--max-gflop", a.max_gflop, "Leave out tasks with more arithmetic; 0: none").show_default();
  options.list("--tasks", a.tasks, "Only these, by the keys that `tcc show` prints, as a,b")
      .separated_by_commas()
      .value("KEYS");
  options
      .option("--heaviest", a.heaviest, "Of each model only this many tasks: those with most arithmetic in the model")
      .positive()
      .value("N");
  options.list("--without", a.without, "Leave out the tasks of this model; may be repeated").value("MODEL");
  add_space(options, a.space);
  options.option("--simulate", a.simulate, "Run programs on a simulated GPU of this seed").positive().value("SEED");
  add_fleet(options, a.fleet, false);
  options.section("Split");
  options.option("--held-out", a.held_out, "The file for the tasks that are held out").value("FILE");
  options.option("--share", a.share, "Share of the tasks that is held out").show_default();
  options.section("Common");
  options.option("--seed", a.seed, "Of every random choice").show_default();
  add_target(options, a.target);
  add_threads(options, a.threads, "Threads that the measured programs run on [1]");
  add_zoo(options, a.model);
}

Result<void> need(const DatasetArguments& a, const std::string& file, const char* flag, const char* what, bool fresh) {
  if (file.empty())
    return make_error(ErrorClass::kUsage, fmt::format("tcc dataset {} needs {} FILE: {}", a.action, flag, what),
                      fmt::format("tcc dataset {} ... {} a.pool", a.action, flag));
  if (fresh && file_exists(file))
    return make_error(ErrorClass::kInput,
                      fmt::format("expected a new file for {}, but '{}' exists", flag, sanitize(file)),
                      "name another file, or remove this one");
  return {};
}
Result<void> need_files(const DatasetArguments& a, const char* what) {
  if (!a.files.empty()) return {};
  return make_error(ErrorClass::kUsage, fmt::format("tcc dataset {} needs FILES: {}", a.action, what),
                    "`tcc dataset --help` shows examples");
}

Result<data::Pool> read_pools(const std::vector<std::string>& files) {
  data::Pool all;
  for (const std::string& file : files) {
    bool cut_off = false;
    TCC_TRY(const data::Pool pool, data::read_pool(file, &cut_off));
    if (cut_off) print_warning(fmt::format("{}: its last piece was cut off and is left out", file));
    for (const data::Group& g : pool.groups) all.add(g);
  }
  return all;
}
Result<data::Pool> read_all(const DatasetArguments& a) {
  TCC_TRY_VOID(need_files(a, "pools"));
  return read_pools(a.files);
}

// The forms of each task, the direct one first.
Result<std::vector<std::vector<task::Task>>> tasks_of(const ModelArguments& arguments, const target::Target& target) {
  TCC_TRY(const driver::Model model, open_model(arguments));
  TCC_TRY(const driver::Program program, driver::make_program(model, target));
  std::vector<std::vector<task::Task>> tasks(program.tasks.tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i)
    for (const task::Task* form : driver::forms_of(program, i)) tasks[i].push_back(*form);
  return tasks;
}

Result<std::vector<task::Task>> collected_tasks(const DatasetArguments& a, const target::Target& target) {
  TCC_TRY_VOID(need_files(a, "the models whose tasks are measured"));
  std::vector<std::string> names = a.files;
  names.insert(names.end(), a.without.begin(), a.without.end());
  TCC_TRY(const std::vector<ModelArguments> models, arguments_of_each(a.model, names));
  const auto measured = std::span(models).first(a.files.size()), left_out = std::span(models).subspan(a.files.size());
  std::set<std::string> without;
  for (const ModelArguments& model : left_out) {
    TCC_TRY(const auto tasks, tasks_of(model, target));
    for (const auto& forms : tasks)
      for (const task::Task& t : forms) without.insert(t.key);
  }
  std::vector<std::vector<task::Task>> lists;
  for (const ModelArguments& model : measured) {
    TCC_TRY(auto tasks, tasks_of(model, target));
    std::erase_if(tasks, [&](const auto& forms) {
      const task::Task& t = forms.front();
      return without.count(t.key) != 0 || (a.max_gflop > 0 && t.flops > a.max_gflop * 1e9);
    });
    if (a.heaviest > 0 && std::ssize(tasks) > a.heaviest) {
      const auto work = [](const auto& forms) {
        return forms.front().flops * static_cast<double>(forms.front().weight);
      };
      std::stable_sort(tasks.begin(), tasks.end(), [&](const auto& x, const auto& y) { return work(x) > work(y); });
      tasks.resize(static_cast<size_t>(a.heaviest));
    }
    for (auto& forms : tasks) lists.push_back(std::move(forms));
  }
  std::vector<task::Task> all = driver::unite_tasks(lists);
  if (a.tasks.empty()) return all;
  std::vector<task::Task> named;
  for (const std::string& key : a.tasks) {
    const auto is_named = [&](const task::Task& t) { return t.key.starts_with(key); };
    const auto found = std::find_if(all.begin(), all.end(), is_named);
    if (found == all.end())
      return make_error(ErrorClass::kUsage,
                        fmt::format("--tasks: expected the key of one of {}, found '{}'",
                                    plural(std::ssize(all), "task"), sanitize(key)),
                        "`tcc show MODEL` prints the keys of a model's tasks");
    named.push_back(*found);
  }
  return named;
}

// The programs of the pools that --programs names, of the tasks that the other options leave.
Result<data::Pool> given_programs(const DatasetArguments& a) {
  if (!a.files.empty() || !a.without.empty() || a.heaviest > 0)
    return make_error(ErrorClass::kUsage, "--programs: expected no model, no --without and no --heaviest beside it",
                      "choose tasks by --tasks or --max-gflop, or collect from models without --programs");
  TCC_TRY(data::Pool pool, read_pools(a.programs));
  for (const std::string& key : a.tasks)
    if (std::none_of(pool.groups.begin(), pool.groups.end(),
                     [&](const data::Group& g) { return g.task.key.starts_with(key); }))
      return make_error(ErrorClass::kUsage,
                        fmt::format("--tasks: expected the key of a task of the pools, found '{}'", sanitize(key)),
                        "`tcc dataset stats POOL` prints the keys of its tasks");
  std::erase_if(pool.groups, [&](const data::Group& g) {
    const auto is_named = [&](const std::string& key) { return g.task.key.starts_with(key); };
    return (!a.tasks.empty() && std::none_of(a.tasks.begin(), a.tasks.end(), is_named)) ||
           (a.max_gflop > 0 && g.task.flops > a.max_gflop * 1e9);
  });
  return pool;
}

Result<driver::CollectRequest> collect_request(const DatasetArguments& a) {
  driver::CollectRequest request;
  TCC_TRY(request.target, open_target(a.target));
  if (a.simulate > 0) {
    TCC_TRY(request.target, driver::simulated_target(request.target, a.simulate));
  }
  TCC_TRY(request.sampler, search::parse_strategy(a.sampler));
  TCC_TRY_VOID(driver::set_space(a.space, request.target, request.space));
  if (a.time) {
    TCC_TRY(request.seconds, parse_duration(*a.time));
  }
  request.threads = a.threads, request.seed = a.seed;
  if (a.per_task > 0)
    request.per_task = a.per_task;
  else if (!a.programs.empty())
    request.per_task = std::numeric_limits<int64_t>::max();
  request.cuda_driver = a.target.cuda_driver;
  TCC_TRY(request.fleet, fleet_request(a.fleet, a.common.quiet));
  const std::string folder = cache_folder();
  if (a.simulate == 0 && !folder.empty() && backend::backend_of(request.target).runs_on_host(request.target)) {
    TCC_TRY(const driver::MachineFacts facts, driver::machine_facts({folder, false, driver::kBriefProbe}));
    request.device = facts.target;
  }
  request.stop = &InterruptGuard::requested;
  const bool quiet = a.common.quiet;
  request.progress = [quiet](const driver::CollectProgress& p) {
    const double share =
        (static_cast<double>(p.task) + static_cast<double>(p.programs) / static_cast<double>(p.wanted)) /
        static_cast<double>(p.tasks);
    remark(quiet, fmt::format("[{}/{}] {}: {} of {} programs, {} left", p.task + 1, p.tasks, p.workload, p.programs,
                              p.wanted, format_elapsed(p.elapsed_seconds * (1 - share) / std::max(share, 1e-6))));
  };
  return request;
}

Result<int> report_collected(const DatasetArguments& a, const driver::CollectReport& report, const data::Pool& pool) {
  for (const std::string& note : report.notes) remark(a.common.quiet, "note: " + note);
  if (report.rejected > 0)
    remark(a.common.quiet, fmt::format("{} rejected: the target has no such program, or not enough of what it needs",
                                       plural(report.rejected, "program")));
  if (a.common.json)
    print_json(Json{{"added", report.added},
                    {"rejected", report.rejected},
                    {"programs", pool.entries()},
                    {"seconds", report.seconds},
                    {"stopped", report.stopped},
                    {"file", a.output}});
  remark(a.common.quiet,
         fmt::format("{} added in {}", plural(report.added, "program"), format_elapsed(report.seconds)));
  if (!report.stopped) return kOk;
  remark(a.common.quiet, "stopped early; what was measured is saved, and the same call goes on from here");
  return kStopped;
}

Result<int> collect(const DatasetArguments& a) {
  TCC_TRY_VOID(need(a, a.output, "-o", "the pool that grows", false));
  TCC_TRY(const driver::CollectRequest request, collect_request(a));
  std::vector<task::Task> tasks;
  data::Pool given;
  if (a.programs.empty()) {
    TCC_TRY(tasks, collected_tasks(a, request.target));
  } else {
    TCC_TRY(given, given_programs(a));
  }
  TCC_TRY(const auto pool, data::PoolWriter::open(a.output));
  if (pool->was_cut_off()) print_warning(fmt::format("{}: its last piece was cut off and is removed", a.output));
  InterruptGuard interrupts;
  if (!a.programs.empty()) {
    remark(a.common.quiet, fmt::format("{} of {}, into {}", plural(given.entries(), "program"),
                                       plural(std::ssize(given.groups), "group"), a.output));
    TCC_TRY(const driver::CollectReport report, driver::collect_programs(given, *pool, request));
    return report_collected(a, report, pool->pool());
  }
  remark(a.common.quiet, fmt::format("{} of {}, into {}", plural(request.per_task, "program"),
                                     plural(std::ssize(tasks), "task"), a.output));
  TCC_TRY(const driver::CollectReport report, driver::collect(tasks, *pool, request));
  return report_collected(a, report, pool->pool());
}

Result<int> stats(const DatasetArguments& a) {
  TCC_TRY(const data::Pool pool, read_all(a));
  Json json = {{"programs", pool.entries()}, {"groups", Json::array()}};
  std::vector<std::vector<std::string>> rows = {
      {"key", "workload", "target", "machine", "space", "threads", "kind", "sketches", "programs", "failed", "best"}};
  for (const data::Group& g : pool.groups) {
    const auto failed = std::count_if(g.entries.begin(), g.entries.end(), [](const auto& e) { return e.seconds == 0; });
    const std::string kind(record::kind_name(g.platform.kind)), machine = g.platform.name;
    json["groups"].push_back({{"key", g.task.key},
                              {"workload", g.task.workload},
                              {"target", g.platform.target.name},
                              {"machine", machine},
                              {"space", g.space},
                              {"threads", g.platform.threads},
                              {"kind", kind},
                              {"sketches", g.sketches.size()},
                              {"programs", g.entries.size()},
                              {"failed", failed},
                              {"best_seconds", g.best_seconds()}});
    rows.push_back({g.task.key, g.task.workload, g.platform.target.name, machine.substr(0, machine.find(';')), g.space,
                    std::to_string(g.platform.threads), kind, std::to_string(g.sketches.size()),
                    std::to_string(g.entries.size()), std::to_string(failed), format_seconds(g.best_seconds())});
  }
  if (a.common.json) return print_json(json);
  return print(fmt::format("{} in {}\n", plural(pool.entries(), "program"),
                           plural(static_cast<int64_t>(pool.groups.size()), "group")) +
               format_table(std::move(rows), 5));
}

Result<int> split(const DatasetArguments& a) {
  TCC_TRY_VOID(need(a, a.output, "-o", "the pool of the tasks to train on", true));
  TCC_TRY_VOID(need(a, a.held_out, "--held-out", "the pool of the other tasks", true));
  if (!(a.share > 0 && a.share < 1))
    return make_error(ErrorClass::kUsage, fmt::format("--share: expected a number between 0 and 1, not {}", a.share),
                      "write --share 0.1 for a tenth of the tasks");
  TCC_TRY(const data::Pool pool, read_all(a));
  const data::Split parts = data::split_by_task(pool, a.share, a.seed);
  TCC_TRY_VOID(write_file(a.output, data::print_pool(parts.train)));
  TCC_TRY_VOID(write_file(a.held_out, data::print_pool(parts.held_out)));
  if (a.common.json) print_json(Json{{"train", parts.train.entries()}, {"held_out", parts.held_out.entries()}});
  remark(a.common.quiet, fmt::format("{} in {}, {} in {}", plural(parts.train.entries(), "program"), a.output,
                                     plural(parts.held_out.entries(), "program"), a.held_out));
  return kOk;
}

Result<int> add_to(const DatasetArguments& a, const data::Pool& from) {
  TCC_TRY(const auto pool, data::PoolWriter::open(a.output));
  int64_t added = 0;
  for (const data::Group& g : from.groups) {
    TCC_TRY(const int64_t n, pool->add(g));
    added += n;
  }
  if (a.common.json) print_json(Json{{"added", added}, {"file", a.output}});
  remark(a.common.quiet, fmt::format("{} added to {}", plural(added, "program"), a.output));
  return kOk;
}

Result<int> dataset(const DatasetArguments& a) {
  if (a.action == "collect") return collect(a);
  if (a.action == "stats") return stats(a);
  if (a.action == "split") return split(a);
  if (a.action == "export") {
    TCC_TRY(const data::Pool pool, read_all(a));
    if (a.output.empty()) return print(data::export_pool(pool));
    TCC_TRY_VOID(write_file(a.output, data::export_pool(pool)));
    return kOk;
  }
  if (a.action == "merge") {
    TCC_TRY_VOID(need(a, a.output, "-o", "the pool that grows", false));
    TCC_TRY(const data::Pool pool, read_all(a));
    return add_to(a, pool);
  }
  if (a.action == "pack") {
    TCC_TRY_VOID(need(a, a.output, "-o", "the packed pool", true));
    TCC_TRY(const data::Pool pool, read_all(a));
    const std::string packed = data::pack_pool(pool);
    TCC_TRY_VOID(write_file(a.output, packed));
    remark(a.common.quiet,
           fmt::format("{} in {} bytes: {}", plural(pool.entries(), "program"), packed.size(), a.output));
    return kOk;
  }
  if (a.action == "import") {
    TCC_TRY_VOID(need(a, a.output, "-o", "the pool that grows", false));
    TCC_TRY_VOID(need_files(a, "the text of pools"));
    data::Pool all;
    for (const std::string& file : a.files) {
      TCC_TRY(const std::string text, read_file(file));
      TCC_TRY(const data::Pool pool, data::import_pool(text, file));
      for (const data::Group& g : pool.groups) all.add(g);
    }
    return add_to(a, all);
  }
  const std::string near = suggest(a.action, kDatasetActions);
  return make_error(ErrorClass::kUsage,
                    fmt::format("tcc dataset: expected collect, stats, split, export, import, merge or pack, not '{}'",
                                sanitize(a.action)),
                    near.empty() ? "`tcc dataset --help` shows examples" : near);
}

}  // namespace

Command dataset_command() {
  return make_command("dataset", "Measure random programs for training cost models, and look after them",
                      "  tcc dataset collect zoo:resnet18 zoo:mlp --per-task 256 --time 30m -o cpu.pool\n"
                      "  tcc dataset collect zoo:resnet18 --target a100 --simulate 7 --per-task 64 -o gpu.pool\n"
                      "  tcc dataset collect --programs cpu.pool --target x86-64-v2 -o cpu-v2.pool\n"
                      "  tcc dataset stats cpu.pool\n"
                      "  tcc dataset split cpu.pool --share 0.2 -o train.pool --held-out test.pool\n"
                      "  tcc dataset merge here.pool there.pool -o all.pool\n"
                      "  tcc dataset pack all.pool -o all.pool.gz\n"
                      "  tcc dataset export cpu.pool -o cpu.jsonl\n"
                      "  tcc dataset import cpu.jsonl -o mine.pool",
                      declare, dataset);
}

}  // namespace tcc::cli
