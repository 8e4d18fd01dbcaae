// What tuning of a model reached by when, from its records.
#include "tcc/driver/history.h"

#include <optional>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/svg_curve.h"
#include "cli/text_table.h"
#include "tcc/driver/show.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct HistoryArguments : TaskArguments {
  Common common;
  std::string task, curve;
};

void declare(Options& options, HistoryArguments& a) {
  options.option("--task", a.task, "Number or key of a task: each program that was faster than those before it")
      .value("K")
      .usual();
  options.option("--curve", a.curve, "Draw the times of the tasks, or of the task, over the days").value("FILE.svg");
  add_tasks(options, a);
}

Json history_json(const driver::History& history) {
  Json json = {{"runs", Json::array()}, {"tasks", Json::array()}};
  for (const driver::TuningRun& r : history.runs)
    json["runs"].push_back(
        TCC_JSON(r, begin, end, version, platform, records, failed, tasks, improved, seconds, without, phases));
  for (const driver::TaskHistory& t : history.tasks) {
    Json one = TCC_JSON(t, number, key, workload, weight, flops, records);
    one["best"] = Json::array();
    for (const driver::Improvement& b : t.best) one["best"].push_back(TCC_JSON(b, record, unix_time, seconds, form));
    json["tasks"].push_back(std::move(one));
  }
  return json;
}

// The time after a run, or how many tasks have none yet.
std::string reached(const driver::TuningRun& r, size_t tasks) {
  if (r.without == 0) return format_seconds(r.seconds);
  return fmt::format("{} of {} tasks", static_cast<int64_t>(tasks) - r.without, tasks);
}

std::string runs_text(const driver::History& history) {
  TextTable table({text_column("began", 0),
                   {"took", 2},
                   {"trials"},
                   {"failed", 3},
                   {"tasks", 4},
                   {"improved"},
                   {"all kernels"},
                   {"speed"},
                   text_column("tcc", 0, 1)});
  double before = 0;
  for (const driver::TuningRun& r : history.runs) {
    const bool known = r.without == 0 && before > 0;
    table.add({format_minute(r.begin), format_elapsed(static_cast<double>(r.end - r.begin)), std::to_string(r.records),
               std::to_string(r.failed), std::to_string(r.tasks), std::to_string(r.improved),
               reached(r, history.tasks.size()), known ? fmt::format("{:.3f}x", before / r.seconds) : "-", r.version});
    if (r.without == 0) before = r.seconds;
  }
  return table.text() + "times are UTC; speed: beside the run before it\n";
}

std::string task_text(const driver::TaskHistory& t) {
  std::string text = fmt::format("{}  {}\n{}\n", t.key, t.workload, plural(t.records, "record"));
  if (t.best.empty()) return text + "no valid program yet\n";
  TextTable table({text_column("when", 0), {"best"}, {"GFLOP/s", 1}, {"speed"}, {"record", 2}, text_column("form", 3)});
  double before = 0;
  for (const driver::Improvement& b : t.best) {
    table.add({format_minute(b.unix_time), format_seconds(b.seconds), format_gflops(t.flops, b.seconds),
               before > 0 ? fmt::format("{:.3f}x", before / b.seconds) : "-", std::to_string(b.record),
               b.form.empty() ? "-" : b.form});
    before = b.seconds;
  }
  return text + table.text();
}

std::string drawing(const std::string& title, const driver::History& history, std::optional<size_t> task) {
  constexpr double kDay = 86400;
  std::vector<SvgCurve> curves(1);
  const int64_t begin = history.runs.empty() ? 0 : history.runs.front().begin;
  const auto days = [&](int64_t unix_time) { return static_cast<double>(unix_time - begin) / kDay; };
  curves[0].name = task ? history.tasks[*task].workload : "all kernels";
  if (task)
    for (const driver::Improvement& b : history.tasks[*task].best)
      curves[0].points.emplace_back(days(b.unix_time), 1e3 * b.seconds);
  else
    for (const driver::TuningRun& r : history.runs)
      if (r.without == 0) curves[0].points.emplace_back(days(r.end), 1e3 * r.seconds);
  return draw_curves(title, fmt::format("days since {}", format_day(begin)), "milliseconds", curves);
}

Result<int> history(const HistoryArguments& a) {
  TCC_TRY(const OpenTasks open, open_tasks(a));
  if (open.records.all == nullptr)
    return make_error(
        ErrorClass::kInput,
        fmt::format("tcc history expected a file with tuning records of {}, found none", sanitize(a.model.model)),
        "`tcc tune` makes one; name it by --db FILE");
  const int64_t threads = threads_or_all(a.threads);
  TCC_TRY(const driver::History history, driver::tuning_history(open.program, *open.records.all, open.target, threads));
  std::optional<size_t> task;
  if (!a.task.empty()) {
    TCC_TRY(task, driver::find_task(open.program, a.task));
  }
  if (!a.curve.empty()) TCC_TRY_VOID(write_file(a.curve, drawing(a.model.model, history, task)));
  if (a.common.json) {
    Json json = history_json(history);
    if (task) json["tasks"] = Json::array({json["tasks"][*task]});
    return print_json(json);
  }
  if (history.runs.empty())
    return print(fmt::format("no records of {} for target {} and {}\n", sanitize(a.model.model), open.target.name,
                             plural(threads, "thread")));
  return print(task ? task_text(history.tasks[*task]) : runs_text(history));
}

}  // namespace

Command history_command() {
  return make_command("history", "What tuning of a model reached by when",
                      "  tcc history zoo:resnet18\n"
                      "  tcc history net.onnx --task 3\n"
                      "  tcc history net.onnx --db records.db --curve gains.svg",
                      declare, history);
}

}  // namespace tcc::cli
