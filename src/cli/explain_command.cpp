#include "tcc/driver/explain.h"

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/counts.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/driver/show.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct Arguments {
  Common common;
  ModelArguments model;
  TargetArguments target;
  RecordArguments records;
  int64_t threads = 0;  // 0 = all
  std::string task;
};

void declare(Options& options, Arguments& a) {
  options.option("--task", a.task, "Number or key of the task; see `tcc show`").value("K").required();
  add_target(options, a.target);
  add_threads(options, a.threads, "Prefer schedules that were measured on this many threads [all]");
  add_model(options, a.model);
  add_records(options, a.records);
}

using Json = nlohmann::ordered_json;

Json tally_json(const space::RejectTally& tally) {
  Json list = Json::array();
  for (const auto& [reason, entry] : tally.by_reason)
    list.push_back({{"reason", reason}, {"count", entry.count}, {"example", entry.example}});
  return list;
}

Json explanation_json(const driver::Explanation& e) {
  Json json = {{"key", e.key},
               {"workload", e.workload},
               {"tuned", e.tuned},
               {"predicted", e.predicted},
               {"note", e.note},
               {"seconds", e.seconds},
               {"flops", e.flops},
               {"loops", e.loops},
               {"design_spaces", e.design_spaces},
               {"draws", e.draws},
               {"legal", e.legal}};
  json["steps"] = Json::array();
  for (const driver::ExplainedStep& s : e.steps) json["steps"].push_back({{"module", s.module}, {"step", s.text}});
  json["rejects"] = Json::array();
  for (const driver::RejectExample& r : e.rejects)
    json["rejects"].push_back(
        {{"reason", r.reason}, {"count", r.count}, {"example", r.example}, {"decisions", r.decisions}});
  json["module_rejects"] = Json::array();
  for (const auto& [module, rejects] : e.space.modules)
    json["module_rejects"].push_back({{"module", module}, {"rejects", tally_json(rejects)}});
  json["dropped_spaces"] = Json::array();
  for (const auto& [modules, draws, rejects] : e.space.dropped)
    json["dropped_spaces"].push_back({{"modules", modules}, {"draws", draws}, {"rejects", tally_json(rejects)}});
  json["replayed_spaces"] = tally_json(e.replayed);
  json["facts"] = e.facts;
  if (e.scalar_vector_loops >= 0) json["scalar_vector_loops"] = e.scalar_vector_loops;
  if (e.unaligned_vector_loops >= 0) json["unaligned_vector_loops"] = e.unaligned_vector_loops;
  json["recorded"] = {{"proposed", e.recorded.proposed},
                      {"duplicate", e.recorded.duplicate},
                      {"rejected", e.recorded.rejected},
                      {"rejects", Json::array()}};
  for (const driver::RejectExample& r : e.recorded.rejects)
    json["recorded"]["rejects"].push_back({{"reason", r.reason}, {"count", r.count}, {"example", r.example}});
  json["records"] = Json::array();
  for (const driver::RecordedFailure& f : e.failures)
    json["records"].push_back({{"status", f.status}, {"count", f.count}, {"example", f.example}});
  if (e.device_seconds > 0) json["device_seconds"] = e.device_seconds;
  json["counters"] = counts_json(e.counts);
  json["matrix_instruction"] = e.matrix_instruction;
  json["no_matrix_instruction"] = e.no_matrix_instruction;
  return json;
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
                        plural(e.scalar_vector_loops, "vectorised loop"));
  if (e.unaligned_vector_loops > 0)
    text +=
        fmt::format("\n-- {} of the schedule {} unrolled: accesses are not certain to be aligned\n",
                    plural(e.unaligned_vector_loops, "vectorised loop"), e.unaligned_vector_loops == 1 ? "is" : "are");
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

Result<int> explain(const Arguments& a) {
  TCC_TRY(target::Target target, open_target(a.target));
  TCC_TRY(driver::Model model, open_model(a.model));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  TCC_TRY(const Records records, open_records(a.records));
  TCC_TRY(driver::Explanation e, driver::explain_task(program, a.task, records.all, target, threads_or_all(a.threads)));
  if (a.common.json) {
    print_json(explanation_json(e));
    return kOk;
  }
  std::string text = fmt::format("{}  {}\n", e.key, e.workload);
  if (e.tuned)
    text +=
        fmt::format("tuned: {} {}, {} GFLOP/s\n", format_seconds(e.seconds),
                    e.predicted ? "predicted by an analytical model" : "measured", format_gflops(e.flops, e.seconds));
  if (e.device_seconds > 0) text += fmt::format("by the device's own stamps: {}\n", format_seconds(e.device_seconds));
  if (e.counts.any()) text += "counters of a run: " + counts_text(e.counts, e.seconds) + "\n";
  if (!e.note.empty()) text += e.note + "\n";
  text += "\n-- steps, and the module that made each\n";
  std::vector<std::vector<std::string>> rows;
  for (const driver::ExplainedStep& s : e.steps) rows.push_back({s.module.empty() ? "-" : s.module, s.text});
  text += rows.empty() ? "none: the plain loops\n" : format_table(rows, 2);
  text += "\n-- loops\n" + e.loops;
  if (const std::string facts = driver::facts_text(e.facts); !facts.empty())
    text += "\n-- the compiler about its code\n" + facts + "\n";
  text += matrix_text(e) + rejects_text(e) + left_out_text(e) + records_text(e);
  print(text);
  return kOk;
}

}  // namespace

Command explain_command() {
  return make_command("explain", "Why a task's schedule is what it is",
                      "  tcc explain zoo:resnet18 --task 3\n"
                      "  tcc explain net.onnx --task 3 --json",
                      declare, explain);
}

}  // namespace tcc::cli
