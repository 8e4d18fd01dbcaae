#include "tcc/driver/explain.h"

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "tcc/cli/cli.h"

namespace tcc::cli {
namespace {

using Json = nlohmann::ordered_json;

Json explanation_json(const driver::Explanation& e) {
  Json json = {{"key", e.key},         {"workload", e.workload}, {"tuned", e.tuned}, {"note", e.note},
               {"seconds", e.seconds}, {"flops", e.flops},       {"loops", e.loops}, {"design_spaces", e.design_spaces},
               {"draws", e.draws},     {"legal", e.legal}};
  json["steps"] = Json::array();
  for (const driver::ExplainedStep& s : e.steps) json["steps"].push_back({{"module", s.module}, {"step", s.text}});
  json["rejects"] = Json::array();
  for (const driver::RejectExample& r : e.rejects)
    json["rejects"].push_back(
        {{"reason", r.reason}, {"count", r.count}, {"example", r.example}, {"decisions", r.decisions}});
  for (const auto& [status, count] : e.failures) json["records"][status] = count;
  return json;
}

}  // namespace

Result<int> run_explain(const Arguments& a) {
  TCC_TRY(target::Target target, open_target(a));
  TCC_TRY(driver::Model model, open_model(a));
  TCC_TRY(driver::Program program, driver::make_program(model, target));
  TCC_TRY(auto store, open_store_for_reading(a.db));
  TCC_TRY(driver::Explanation e, driver::explain_task(program, a.task, store.get(), target, threads_or_all(a.threads)));
  if (a.common.json) {
    print(explanation_json(e).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return kOk;
  }
  std::string text = fmt::format("{}  {}\n", e.key, e.workload);
  text += e.tuned ? fmt::format("tuned: {} measured, {} GFLOP/s\n", format_seconds(e.seconds),
                                format_gflops(e.flops, e.seconds))
                  : e.note + "\n";
  text += "\n-- steps, and the module that made each\n";
  std::vector<std::vector<std::string>> rows;
  for (const driver::ExplainedStep& s : e.steps) rows.push_back({s.module.empty() ? "-" : s.module, s.text});
  text += rows.empty() ? "none: the plain loops\n" : format_table(rows, 2);
  text += "\n-- loops\n" + e.loops;
  text += fmt::format("\n-- of {} seeded draws from {} {} are legal\n", e.draws,
                      plural(e.design_spaces, "design space"), e.legal);
  for (const driver::RejectExample& r : e.rejects)
    text += fmt::format("{} {}, for example: {} (decisions {})\n", r.count, r.reason,
                        r.example.empty() ? "no further text" : r.example, r.decisions);
  if (!e.failures.empty()) text += "\n-- records\n";
  for (const auto& [status, count] : e.failures) text += fmt::format("{} {}\n", count, status);
  print(text);
  return kOk;
}

}  // namespace tcc::cli
