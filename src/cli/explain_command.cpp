#include "tcc/driver/explain.h"

#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/counts.h"
#include "cli/explain_json.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/driver/show.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct ExplainArguments : TaskArguments {
  Common common;
  std::string task;
};

void declare(Options& options, ExplainArguments& a) {
  options.option("--task", a.task, "Number or key of the task; see `tcc show`").value("K").required().usual();
  add_tasks(options, a);
}

constexpr size_t kMostNodes = 12;  // of the model's, listed one a line

std::string nodes_text(const driver::Explanation& e) {
  size_t all = 0, shown = 0;
  for (const auto& group : e.nodes) all += group.size();
  if (all == 0) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t g = 0; g < e.nodes.size() && shown < kMostNodes; ++g)
    for (size_t i = 0; i < e.nodes[g].size() && shown < kMostNodes; ++i, ++shown)
      rows.push_back({i == 0 ? fmt::format("kernel {}", g) : "", e.nodes[g][i].type, e.nodes[g][i].name});
  std::string text = "\n-- what it computes of the model\n" + format_rows(rows, 3);
  if (all > shown) text += fmt::format("and {} more nodes; --json lists all\n", all - shown);
  return text;
}

// What keeps it from being faster.
std::string bounds_text(const driver::Bounds& b) {
  if (b.by.empty()) return "";
  const std::string rates = b.measured_rates ? "rates measured here" : "nominal rates";
  std::string text = "\n-- what bounds it\n";
  if (b.by == "threads")
    text += fmt::format("threads: only {:.0f}% of them have work in the parallel loop\n", 100 * b.busy_threads);
  else if (b.by == "schedule")
    text += fmt::format("its schedule: the nearest limit, {}, needs {:.0f}% of its time\n", b.limits[0].part,
                        100 * b.share);
  else if (b.beaten)
    text += fmt::format(
        "{}, perhaps: the kernel is faster than {} allow, so other programs were running when they were "
        "measured; tcc targets host --probe --refresh\n",
        b.by, rates);
  else if (b.share > 0)
    text += fmt::format("{}: {:.0f}% of what {} allows is reached\n", b.by, 100 * b.share, rates);
  else
    text += fmt::format("{}, by {}; the program has no measured time\n", b.by, rates);
  std::string limits;
  for (const driver::Limit& l : b.limits)
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", l.part, format_seconds(l.seconds));
  text += fmt::format("at the least, by {}: {}\n", rates, limits);
  for (const std::string& advice : b.advice) text += "to change: " + advice + "\n";
  return text;
}

std::string tried_text(const driver::Explanation& e) {
  if (e.tried.empty()) return "";
  std::string text = "\n-- the fastest other programs that were measured, and the steps in which they differ\n";
  std::vector<std::vector<std::string>> rows;
  for (const driver::Tried& t : e.tried)
    rows.push_back({fmt::format("record {}", t.record), format_seconds(t.seconds),
                    t.ratio >= 1 ? fmt::format("{:.1f}% slower", 100 * (t.ratio - 1))
                                 : fmt::format("{:.1f}% faster alone", 100 * (1 - t.ratio)),
                    t.otherwise.empty() ? "fewer steps" : fmt::format("{}", fmt::join(t.otherwise, "; "))});
  return text + format_rows(rows, 4);
}

std::string matrix_text(const driver::Explanation& e) {
  if (!e.matrix_instruction.empty()) {
    std::string used = fmt::format("\n-- matrix instruction: {}\n", e.matrix_instruction);
    if (!e.no_matrix_instruction.empty()) used += "not one of a whole warpgroup (wgmma), because\n";
    for (const std::string& line : e.no_matrix_instruction) used += line + "\n";
    return used;
  }
  std::string text = "\n-- no matrix instruction, because\n";
  for (const std::string& line : e.no_matrix_instruction) text += line + "\n";
  if (e.no_matrix_instruction.empty())
    text += fmt::format("the schedule above was {}; the design space has others with one\n",
                        e.tuned && !e.predicted ? "measured to be the fastest" : "taken without measuring");
  return text;
}

std::string reject_line(const driver::RejectExample& r) {
  std::string text = fmt::format("{} {}", r.count, r.reason);
  if (!r.example.empty()) text += ", for example: " + r.example;
  if (!r.decisions.empty()) text += fmt::format(" (decisions {})", r.decisions);
  return text + "\n";
}

std::string rejects_text(const driver::Explanation& e) {
  std::string text;
  if (e.recorded.proposed > 0) {
    text += fmt::format("\n-- while tuning: {} proposed, {} seen before, {} rejected\n", e.recorded.proposed,
                        e.recorded.duplicate, e.recorded.rejected);
    for (const driver::RejectExample& r : e.recorded.rejects) text += reject_line(r);
  }
  text += fmt::format("\n-- of {} seeded draws from {} {} are legal\n", e.draws,
                      plural(e.design_spaces, "design space"), e.legal);
  for (const driver::RejectExample& r : e.rejects) text += reject_line(r);
  return text;
}

std::string tally_text(const space::RejectTally& tally) {
  std::string text;
  for (const auto& [reason, entry] : tally.by_reason) text += reject_line({reason, entry.count, entry.example, ""});
  return text;
}

// What the modules tried in vain, design spaces that were left out, and those that take longer to search.
std::string left_out_text(const driver::Explanation& e) {
  std::string text;
  for (const auto& [module, rejects] : e.space.modules)
    text += fmt::format("\n-- {} gave up {}\n", module, plural(rejects.total(), "way")) + tally_text(rejects);
  for (const auto& [modules, draws, rejects] : e.space.dropped)
    text += fmt::format("\n-- left out: the design space of {}; none of {} draws is legal\n", modules, draws) +
            tally_text(rejects);
  if (e.replayed.total() > 0)
    text += "\n-- design spaces whose programs are replayed step by step, which makes proposing them slower\n" +
            tally_text(e.replayed);
  if (e.scalar_vector_loops > 0)
    text += fmt::format("\n-- {} of the schedule stay scalar code: all of their iterations store to one place\n",
                        plural(e.scalar_vector_loops, "vectorized loop"));
  if (e.unaligned_vector_loops > 0)
    text +=
        fmt::format("\n-- {} of the schedule {} unrolled: accesses are not certain to be aligned\n",
                    plural(e.unaligned_vector_loops, "vectorized loop"), e.unaligned_vector_loops == 1 ? "is" : "are");
  return text;
}

std::string records_text(const driver::Explanation& e) {
  std::string text = e.failures.empty() ? "" : "\n-- records\n";
  for (const driver::RecordedFailure& f : e.failures) {
    text += fmt::format("{} {}", f.count, f.status);
    if (!f.example.empty()) text += ", the latest: " + sanitize(f.example);
    text += "\n";
  }
  return text;
}

Result<int> explain(const ExplainArguments& a) {
  TCC_TRY(const OpenTasks open, open_tasks(a));
  std::optional<driver::MachineFacts> facts;
  if (backend::backend_of(open.target).runs_on_host(open.target)) {
    TCC_TRY(facts, driver::machine_facts({cache_folder(), false, driver::kBriefProbe}));
    for (const std::string& note : facts->notes) remark(a.common.quiet, "note: " + note);
  }
  TCC_TRY(driver::Explanation e,
          driver::explain_task(open.program, a.task, open.records.all, open.target, threads_or_all(a.threads),
                               &open.model.source, facts ? &*facts : nullptr));
  if (a.common.json) return print_json(explanation_json(e));
  std::string text = fmt::format("{}  {}\n", e.key, e.workload);
  if (e.tuned)
    text += fmt::format("tuned: {} {}, {} GFLOP/s\n", format_seconds(e.seconds),
                        !e.predicted   ? "measured"
                        : e.calibrated ? "predicted by an analytical model that is fitted to this device"
                                       : "predicted by an analytical model",
                        format_gflops(e.flops, e.seconds));
  if (e.device_seconds > 0) text += fmt::format("by the device's own stamps: {}\n", format_seconds(e.device_seconds));
  if (e.counts.any()) text += "counters of a run: " + counts_text(e.counts, e.seconds) + "\n";
  text += fmt::format("schedule: {}{}\n", search::source_name(e.source),
                      e.reason.empty() ? std::string() : fmt::format(" ({})", e.reason));
  if (!e.note.empty()) text += e.note + "\n";
  for (const std::string& record : e.passed_over) text += "passed over: " + sanitize(record) + "\n";
  text += nodes_text(e) + bounds_text(e.bounds) + tried_text(e);
  text += "\n-- steps, and the module that made each\n";
  std::vector<std::vector<std::string>> rows;
  for (const driver::ExplainedStep& s : e.steps) rows.push_back({s.module.empty() ? "-" : s.module, s.text});
  text += rows.empty() ? "none: the plain loops\n" : format_rows(rows, 2);
  text += "\n-- loops\n" + e.loops;
  if (const std::string facts = driver::facts_text(e.facts); !facts.empty())
    text += "\n-- the compiler about its code\n" + facts + "\n";
  text += matrix_text(e) + rejects_text(e) + left_out_text(e) + records_text(e);
  return print(text);
}

}  // namespace

Command explain_command() {
  return make_command("explain", "Why a task's schedule is what it is",
                      "  tcc explain zoo:resnet18 --task 3\n"
                      "  tcc explain net.onnx --task 3 --json",
                      declare, explain);
}

}  // namespace tcc::cli
