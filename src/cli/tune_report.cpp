#include "cli/tune_report.h"

#include <algorithm>
#include <map>

#include "cli/form_report.h"
#include "cli/gain_report.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/forms.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

// The number that `tcc show` gives the i-th tuned task. `chosen`: the numbers of --tasks; empty: all tasks.
std::string number_of(size_t i, const std::vector<size_t>& chosen) {
  return std::to_string(chosen.empty() ? i : chosen[i]);
}

// The model's nodes of the i-th tuned task.
const task::GroupNodes& nodes_of_task(const driver::Program& program, size_t i, const std::vector<size_t>& chosen) {
  return program.tasks.tasks[chosen.empty() ? i : chosen[i]].nodes;
}
std::string nodes_of(const driver::Program& program, size_t i, const std::vector<size_t>& chosen) {
  return task::nodes_text(nodes_of_task(program, i, chosen));
}

// The wall time of each phase; "other" is the rest, as of the records' file.
std::vector<std::pair<std::string, double>> phases_of(const driver::TuneReport& report) {
  std::vector<std::pair<std::string, double>> phases;
  double rest = report.seconds;
#define TCC_X(phase) phases.emplace_back(#phase, report.phases.phase), rest -= report.phases.phase;
  TCC_SEARCH_PHASES(TCC_X)
#undef TCC_X
  phases.emplace_back("other", std::max(rest, 0.0));
  return phases;
}

std::string phases_text(const driver::TuneReport& report) {
  std::string text = "time:";
  for (const auto& [phase, seconds] : phases_of(report))
    if (seconds >= 0.05) text += fmt::format("{} {} {:.1f} s", text.back() == ':' ? "" : ",", phase, seconds);
  return text.back() == ':' ? "" : text + "\n";
}

// The report where nothing is measured: predictions only.
std::string prediction_text(const driver::TuneReport& report, const driver::Program& program,
                            const std::vector<size_t>& chosen, const std::string& target, bool sources) {
  std::vector<Column> columns = {{"task"},
                                 text_column("workload", 24),
                                 text_column("nodes", 14, 1),
                                 {"weight", 3},
                                 {"predicted"},
                                 {report.source_only ? "printed" : "compiled", 4}};
  if (sources) columns.push_back({"schedule", 2});
  TextTable table(std::move(columns));
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const search::TaskResult& t = report.tasks[i].result;
    std::vector<std::string> cells = {number_of(i, chosen),           t.workload,
                                      nodes_of(program, i, chosen),   std::to_string(t.weight),
                                      format_seconds(t.best_seconds), std::to_string(t.counts.compiled)};
    if (sources) cells.emplace_back(search::source_name(report.tasks[i].source));
    table.add(std::move(cells));
  }
  std::string text = table.text() + fmt::format("\n{} {} for {}, none run or checked", report.counts.compiled,
                                                report.source_only ? "printed" : "compiled", target);
  if (report.best_seconds > 0)
    text += fmt::format("; an analytical model expects the kernels to take {}", format_seconds(report.best_seconds));
  return text + "\n" + phases_text(report);
}

std::string task_table(const driver::TuneReport& report, const driver::Program& program,
                       const std::vector<size_t>& chosen, bool baseline) {
  std::vector<Column> columns = {
      {"task"}, text_column("workload", 24), text_column("nodes", 14, 1), {"weight", 4}, {"best"}, {"GFLOP/s", 2}};
  if (baseline) columns.insert(columns.end(), {{"unscheduled", 5}, {"speed-up", 3}});
  columns.push_back({"trials", 6});
  TextTable table(std::move(columns));
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const driver::TunedTask& t = report.tasks[i];
    std::vector<std::string> row = {number_of(i, chosen),
                                    t.result.workload,
                                    nodes_of(program, i, chosen),
                                    std::to_string(t.result.weight),
                                    format_time(t.result.best_seconds, t.result.best_disturbed),
                                    format_gflops(t.flops, t.result.best_seconds)};
    if (baseline)
      row.insert(row.end(),
                 {format_seconds(t.baseline_seconds), format_ratio(t.baseline_seconds, t.result.best_seconds)});
    row.push_back(std::to_string(t.result.trials));
    table.add(std::move(row));
  }
  std::vector<std::string> numbers;
  for (size_t i = 0; i < report.tasks.size(); ++i) numbers.push_back(number_of(i, chosen));
  return table.text() + disturbed_legend(disturbed_tasks(report) > 0) + forms_text(report, numbers);
}

// Proposals fall into four heaps: seen before, refused by the compiler, ranked too low to be worth a measurement,
// tried.
int64_t tried(const search::Counts& c) {
  return c.compiled + c.compile_failed;
}
int64_t not_chosen(const search::Counts& c) {
  return c.proposed - c.duplicate - c.rejected - tried(c);
}

// One line for everybody, the whole account for those who ask with -v.
std::string proposals_text(const search::Counts& c, bool whole) {
  std::string reasons;
  for (const auto& [reason, count] : c.rejected_by_reason)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "rejected: " : ", ", count, reason);
  if (!whole) {
    std::string text = fmt::format("{} of {} candidates measured", c.measured, c.proposed);
    for (const auto& [count, what] : {std::pair(c.compile_failed, "did not compile"), std::pair(c.wrong, "were wrong"),
                                      std::pair(c.crashed, "crashed"), std::pair(c.hung + c.timed_out, "timed out")})
      if (count > 0) text += fmt::format("; {} {}", count, what);
    return text + (reasons.empty() ? "" : "; " + reasons) + "\n";
  }
  std::string text = fmt::format("proposed {} = duplicate {} + rejected {} + ranked too low {} + tried {}\n",
                                 c.proposed, c.duplicate, c.rejected, not_chosen(c), tried(c));
  text +=
      fmt::format("tried {} = measured {} + failed to compile {} + wrong {} + crashed {} + hung {} + timed out {}\n",
                  tried(c), c.measured, c.compile_failed, c.wrong, c.crashed, c.hung, c.timed_out);
  return reasons.empty() ? text : text + reasons + "\n";
}

// How drafts came about, before programs were proposed.
std::string drafts_text(const search::Counts& c) {
  if (c.drafted == 0) return "";
  std::string text = fmt::format(
      "drafted {} = duplicate {} + rejected {} + legal and new {}; {} drafts kept, {} programs verified by the cost "
      "model\n",
      c.drafted, c.draft_duplicate, c.draft_rejected, c.draft_legal, c.draft_kept, c.verified);
  if (c.draft_by_kernel > 0) text += fmt::format("{} of them were drafted by their kernels\n", c.draft_by_kernel);
  for (const auto& [why, n] : c.without_columns)
    text += fmt::format("{} without an array program: {}\n", plural(n, "design space"), why);
  return text;
}

std::string in_model_text(const driver::InModel& m) {
  const std::string changed = m.changed == 0   ? "no task has"
                              : m.changed == 1 ? "1 task has"
                                               : fmt::format("{} tasks have", m.changed);
  return fmt::format("in the model: {} libraries in turns, {} each; {} another program than before\n", m.libraries,
                     plural(m.rounds, "turn"), changed);
}

Json proposals_json(const search::Counts& c) {
  Json json = TCC_JSON(c, proposed, duplicate, rejected, rejected_by_reason);
  json.update({{"not_chosen", not_chosen(c)}, {"tried", tried(c)}});
  json.update(TCC_JSON(c, compiled, measured, disturbed, compile_failed, wrong, crashed, hung, timed_out));
  if (c.drafted > 0)
    json.update(TCC_JSON(c, drafted, draft_duplicate, draft_rejected, draft_legal, draft_kept, draft_by_kernel,
                         without_columns, verified));
  return json;
}

Json report_json(const driver::TuneReport& report, const driver::Program& program, const std::vector<size_t>& chosen,
                 bool baseline) {
  Json json = {{"event", "summary"}};
  json.update(TCC_JSON(report, trials, seconds, stopped, resumed, load, others));
  json["disturbed"] = report.counts.disturbed;
  json["phases"] = Json::object();
  for (const auto& [phase, seconds] : phases_of(report)) json["phases"][phase] = seconds;
  if (baseline) json["unscheduled_seconds"] = report.baseline_seconds;
  json.update(
      {{"best_seconds", report.best_seconds}, {"counts", proposals_json(report.counts)}, {"tasks", Json::array()}});
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const driver::TunedTask& t = report.tasks[i];
    Json task = TCC_JSON(t.result, key, workload);
    task["form"] = driver::form_of(t.result.workload);
    task["forms"] = Json::array();
    for (const driver::TunedForm& f : t.forms)
      task["forms"].push_back(TCC_JSON(f, form, key, trials, best_seconds, beaten));
    task["nodes"] = task::nodes_to_json<Json>(nodes_of_task(program, i, chosen));
    task["weight"] = t.result.weight;
    task["flops"] = t.flops;
    task["best_seconds"] = t.result.best_seconds;
    task["best_disturbed"] = t.result.best_disturbed;
    if (baseline) task["unscheduled_seconds"] = t.baseline_seconds;
    task.update(TCC_JSON(t.result, trials, failure));
    task["counts"] = proposals_json(t.result.counts);
    json["tasks"].push_back(task);
  }
  return json;
}

// What other programs did to the times.
void print_disturbance(const TuneArguments& a, const driver::TuneReport& report) {
  const int64_t tasks = disturbed_tasks(report);
  if (report.counts.disturbed == 0 && tasks == 0) return;
  const std::string load = report.load > 0 ? fmt::format(" (load {:.1f} on {})", report.load,
                                                         plural(target::host_target().cpu.threads, "CPU"))
                                           : "";
  std::string text = fmt::format("{} of {} were disturbed by other programs{}", report.counts.disturbed,
                                 plural(report.counts.measured, "timing"), load);
  if (tasks == 0)
    return remark(a.common.quiet, "note: " + text + "; the best time of each task was not, or was taken again");
  print_warning(
      fmt::format("{}; the times of {} may be several times too long. Run the same command again on a quiet "
                  "machine: it takes them anew",
                  text, plural(tasks, "task")));
}

}  // namespace

int64_t disturbed_tasks(const driver::TuneReport& report) {
  return std::count_if(report.tasks.begin(), report.tasks.end(),
                       [](const driver::TunedTask& t) { return t.result.best_disturbed; });
}

void print_tune_report(const TuneArguments& a, const driver::TuneReport& report, const ValueCurve& curve,
                       const driver::TuneRequest& request, const driver::Program& program,
                       const std::optional<driver::InModel>& in_model, const std::optional<driver::Gain>& gain) {
  const target::Target& target = request.target;
  const std::vector<size_t>& chosen = request.tasks;
  if (a.common.json) {
    Json json = report_json(report, program, chosen, a.baseline);
    json["predicted"] = report.predicted;
    json["calibrated"] = target.cuda.calibrated;
    if (in_model) json["in_model"] = TCC_JSON(*in_model, libraries, rounds, changed, seconds);
    if (gain) json["latency"] = gain_json(*gain);
    json["curve"] = Json::array();
    for (const ValueCurve::Point& p : curve.points())
      json["curve"].push_back({{"trials", p.trials}, {"elapsed_seconds", p.elapsed}, {"best_seconds", p.seconds}});
    print_json_line(json);
    return;
  }
  const std::string gained = gain ? gain_text(*gain, program, request) : "";
  if (report.predicted)
    return void(print(prediction_text(report, program, chosen, target.name, a.effort == "0") +
                      drafts_text(report.counts) + gained));
  const bool baseline = a.baseline && a.common.verbose > 0;
  std::string text = task_table(report, program, chosen, baseline) + "\n" +
                     proposals_text(report.counts, a.common.verbose > 0) + drafts_text(report.counts);
  text += fmt::format("{} in {}", plural(report.trials, "trial"), format_elapsed(report.seconds));
  if (report.best_seconds > 0 && gain && !gain->predicted)
    text += fmt::format("; the kernels take {} inside of the built library, {} each timed alone",
                        format_seconds(gain->kernels), format_seconds(report.best_seconds));
  else if (report.best_seconds > 0)
    text += fmt::format("; the kernels, each timed alone, take {}", format_seconds(report.best_seconds));
  if (baseline && report.best_seconds > 0 && report.baseline_seconds > 0)
    text += fmt::format(", unscheduled {}: {}", format_seconds(report.baseline_seconds),
                        format_ratio(report.baseline_seconds, report.best_seconds));
  text += "\n" + phases_text(report) + curve.text();
  if (in_model) text += in_model_text(*in_model);
  print(text + gained);
}

void print_library(const TuneArguments& a, const driver::FirstLibrary& library) {
  std::map<std::string_view, int64_t> sources;
  Json tasks = Json::array();
  int64_t failed = 0;
  for (const driver::FirstProgram& p : library.programs) {
    if (p.failure.empty())
      ++sources[search::source_name(p.source)];
    else
      ++failed;
    Json task = TCC_JSON(p, key, workload, weight);
    task["schedule"] = search::source_name(p.source);
    task.update({{"seconds", p.seconds}, {"reason", p.reason}, {"failure", p.failure}});
    tasks.push_back(std::move(task));
  }
  if (a.common.json)
    print_json_line({{"event", "library"},
                     {"elapsed_seconds", library.seconds},
                     {"made", library.made},
                     {"predicted_seconds", library.predicted_seconds},
                     {"unknown", library.unknown},
                     {"tasks", std::move(tasks)}});
  std::string text;
  for (const auto& [source, count] : sources) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, source);
  const auto all = static_cast<int64_t>(library.programs.size());
  text = fmt::format("library: a program for {} of {} after {:.1f} s: {}", all - failed, plural(all, "task"),
                     library.seconds, text);
  if (library.predicted_seconds > 0)
    text += fmt::format("; predicted {}{}", format_seconds(library.predicted_seconds),
                        library.unknown > 0 ? fmt::format(" without {} of them", library.unknown) : "");
  remark(a.common.quiet, text);
}

void print_tune_remarks(const TuneArguments& a, const driver::TuneReport& report) {
  print_disturbance(a, report);
  for (const std::string& note : report.notes) remark(a.common.quiet, "note: " + note);
  for (const driver::TunedTask& t : report.tasks) {
    if (!t.result.failure.empty())
      print_warning(fmt::format("{}: {}", t.result.workload, t.result.failure));
    else if (!t.baseline_failure.empty() && t.result.counts.measured > 0)
      print_warning(fmt::format("{}: the unscheduled program has no time: {}", t.result.workload, t.baseline_failure));
  }
  const auto missed = std::count_if(report.tasks.begin(), report.tasks.end(), [](const driver::TunedTask& t) {
    return t.result.trials == 0 && t.result.best_seconds == 0 && t.result.failure.empty();
  });
  if (missed > 0 && !report.stopped && a.effort != "0")
    print_warning(fmt::format("{} of {} were not reached; give more --trials or --time", missed,
                              plural(static_cast<int64_t>(report.tasks.size()), "task")));
  if (report.stopped)
    remark(a.common.quiet, "stopped early; what was found is saved, and the same call goes on from here");
}

}  // namespace tcc::cli
