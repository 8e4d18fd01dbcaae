#include "cli/show_command.h"

#include <algorithm>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/show.h"

namespace tcc::cli {
namespace {

struct ShowArguments : TaskArguments {
  Common common;
  std::string task, dump_after, features;
  bool trace_only = false, source_only = false;
};

void declare(Options& options, ShowArguments& a) {
  options.option("--task", a.task, "One task by number or key: loop nest, best schedule, its program")
      .value("K")
      .usual();
  options.flag("--trace", a.trace_only, "Only the schedule of --task, as text that `tcc bench --schedule` takes");
  options.flag("--source", a.source_only,
               "For GPUs: only the CUDA source of --task, also where the compiler here does not know the target");
  options
      .option("--dump-after", a.dump_after,
              "Only the program of --task after this pass of its lowering; all: at every stage")
      .value("PASS");
  options
      .option(
          "--features", a.features,
          "Only the features of --task that cost models read: row, statements, dataflow, trace, hardware, or a table "
          "of a paper's form")
      .value("KIND");
  add_tasks(options, a);
}

Json task_json(const driver::TaskSummary& t) {
  Json json = {{"task", t.number}};
  json.update(TCC_JSON(t, key, workload, form));
  json["forms"] = Json::array();
  for (const driver::FormSummary& f : t.forms)
    json["forms"].push_back(TCC_JSON(f, form, key, records, best_seconds, disturbed));
  json["nodes"] = task::nodes_to_json<Json>(t.nodes);
  json.update(TCC_JSON(t, weight, flops, records, best_seconds, threads, predicted, disturbed));
  return json;
}

std::string task_table(const std::vector<driver::TaskSummary>& tasks) {
  TextTable table({{"task"},
                   text_column("key", 0, 6),
                   text_column("workload", 24),
                   text_column("nodes", 14, 1),
                   {"weight", 4},
                   {"MFLOP", 5},
                   {"records", 3},
                   {"best"},
                   {"GFLOP/s", 2}});
  for (const driver::TaskSummary& t : tasks)
    table.add({std::to_string(t.number), t.key, t.workload, task::nodes_text(t.nodes), std::to_string(t.weight),
               fmt::format("{:.2f}", t.flops / 1e6), std::to_string(t.records),
               format_time(t.best_seconds, t.disturbed), format_gflops(t.flops, t.best_seconds)});
  const bool disturbed = std::any_of(tasks.begin(), tasks.end(), [](const auto& t) { return t.disturbed; });
  return table.text() + disturbed_legend(disturbed);
}

const char* schedule_text(const driver::TaskDetails& details) {
  if (!details.tuned) return "the default schedule (not tuned)";
  return details.predicted ? "the best schedule by predictions" : "the best schedule measured";
}

// One line a column, because tables have more columns than rows; a column of zeros only is left out.
Result<int> print_features(const ShowArguments& a, const driver::FeatureTable& table) {
  if (a.common.json) return print_json(TCC_JSON(table, name, version, columns, rows));
  std::vector<std::vector<std::string>> lines = {{"column"}};
  for (size_t r = 0; r < table.rows.size(); ++r) lines[0].push_back(std::to_string(r));
  size_t zeros = 0;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const bool zero = std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[c] == 0; });
    zeros += zero ? 1 : 0;
    if (zero) continue;
    std::vector<std::string> line = {table.columns[c]};
    for (const std::vector<float>& row : table.rows) line.push_back(fmt::format("{:.4g}", row[c]));
    lines.push_back(std::move(line));
  }
  remark(a.common.quiet, fmt::format("{}, version {}: {} rows of {} columns, {} of them 0 everywhere", table.name,
                                     table.version, table.rows.size(), table.columns.size(), zeros));
  return print(format_table(std::move(lines)));
}

Result<int> show_one(const ShowArguments& a) {
  TCC_TRY(const OpenTasks open, open_tasks(a));
  const int64_t threads = threads_or_all(a.threads);
  if (!a.features.empty()) {
    TCC_TRY(const driver::FeatureTable table,
            driver::show_features(a.features, open.program, a.task, open.records.all, open.target, threads));
    return print_features(a, table);
  }
  if (a.dump_after == "all") {
    TCC_TRY(const std::vector<driver::Stage> stages,
            driver::show_stages(open.program, a.task, open.records.all, open.target, threads));
    std::string text;
    for (const driver::Stage& stage : stages) text += fmt::format("# {}\n{}", stage.name, stage.text);
    return print_exact(text);
  }
  if (!a.dump_after.empty()) {
    TCC_TRY(const std::string text,
            driver::show_after(a.dump_after, open.program, a.task, open.records.all, open.target, threads));
    return print_exact(text);
  }
  if (a.source_only) {
    TCC_TRY(const std::string text, driver::show_source(open.program, a.task, open.records.all, open.target, threads));
    return print_exact(text);
  }
  TCC_TRY(driver::TaskDetails details, driver::show_task(open.program, a.task, open.records.all, open.target, threads));
  if (a.trace_only) {
    remark(a.common.quiet, schedule_text(details));
    return print_exact(details.trace);
  }
  if (a.common.json) {
    Json json = task_json(details.summary);
    json.update(TCC_JSON(details, nest, tuned, predicted, note, trace, facts, program));
    return print_json(json);
  }
  std::string text = task_table({details.summary});
  for (const driver::FormSummary& f : details.summary.forms)
    text +=
        fmt::format("form {}: {}, {}, best {}{}\n", f.form, f.key, plural(f.records, "record"),
                    format_time(f.best_seconds, f.disturbed), f.form == details.summary.form ? "; shown below" : "");
  text += "\n-- the plain loop nest\n" + details.nest;
  text += fmt::format("\n-- {}\n", schedule_text(details));
  if (details.tuned && !details.note.empty()) text += details.note + "\n";
  text += details.trace.empty() ? "none: the loop nest as it is\n" : details.trace;
  text += "\n-- the program that `tcc build` takes\n" + details.program;
  if (const std::string facts = driver::facts_text(details.facts); !facts.empty())
    text += "\n-- the compiler about it\n" + facts + "\n";
  return print(text);
}

Result<int> show(const ShowArguments& a) {
  if (!a.task.empty()) return show_one(a);
  if (a.trace_only)
    return make_error(ErrorClass::kUsage, "--trace prints the schedule of one task, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  if (a.source_only)
    return make_error(ErrorClass::kUsage, "--source prints the code of one task, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  if (!a.features.empty())
    return make_error(ErrorClass::kUsage, "--features prints numbers of one task's program, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  if (!a.dump_after.empty())
    return make_error(ErrorClass::kUsage, "--dump-after prints the program of one task, and --task is missing",
                      "add --task K; `tcc show MODEL` lists the tasks");
  return show_tasks(a.common, a);
}

}  // namespace

Result<int> show_tasks(const Common& common, const TaskArguments& a) {
  TCC_TRY(const OpenTasks open, open_tasks(a));
  TCC_TRY(std::vector<driver::TaskSummary> tasks,
          driver::summarise_tasks(open.program, open.records.all, open.target, threads_or_all(a.threads)));
  if (!common.json) return print(task_table(tasks));
  Json json = {{"model", a.model.model}, {"flops", open.program.flops}, {"tasks", Json::array()}};
  for (const driver::TaskSummary& t : tasks) json["tasks"].push_back(task_json(t));
  return print_json(json);
}

Command show_command() {
  return make_command("show", "The tasks of a model and what is known of them",
                      "  tcc show zoo:resnet18\n"
                      "  tcc show zoo:resnet18 --task 3\n"
                      "  tcc show zoo:resnet18 --task 3 --trace > mine.trace\n"
                      "  tcc show zoo:resnet18 --task 3 --target v100 --source > kernel.cu\n"
                      "  tcc show zoo:resnet18 --task 3 --dump-after split_tails\n"
                      "  tcc show zoo:resnet18 --task 3 --features statements",
                      declare, show);
}

}  // namespace tcc::cli
