#include "cli/explain_json.h"

#include "cli/counts.h"
#include "tcc/driver/forms.h"

namespace tcc::cli {
namespace {

Json tally_json(const space::RejectTally& tally) {
  Json list = Json::array();
  for (const auto& [reason, entry] : tally.by_reason)
    list.push_back({{"reason", reason}, {"count", entry.count}, {"example", entry.example}});
  return list;
}

template <class List>
Json list_json(const List& list, Json (*item)(const typename List::value_type&)) {
  Json json = Json::array();
  for (const auto& one : list) json.push_back(item(one));
  return json;
}

}  // namespace

Json explanation_json(const driver::Explanation& e) {
  Json json = TCC_JSON(e, key, workload);
  json["form"] = driver::form_of(e.workload);
  json["nodes"] = task::nodes_to_json<Json>(e.nodes);
  json.update(TCC_JSON(e, tuned, predicted, calibrated, note, seconds, flops, loops, design_spaces, draws, legal));
  json["bound"] = TCC_JSON(e.bounds, by, share, beaten, busy_threads, measured_rates, advice);
  json["bound"]["limits"] = list_json(e.bounds.limits, [](const auto& l) { return TCC_JSON(l, part, seconds); });
  json["tried"] = list_json(e.tried, [](const auto& t) { return TCC_JSON(t, record, seconds, ratio, otherwise); });
  json["schedule"] = search::source_name(e.source);
  json.update(TCC_JSON(e, reason, passed_over));
  json["steps"] = list_json(e.steps, [](const auto& s) -> Json { return {{"module", s.module}, {"step", s.text}}; });
  json["rejects"] = list_json(e.rejects, [](const auto& r) { return TCC_JSON(r, reason, count, example, decisions); });
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
  json["recorded"] = TCC_JSON(e.recorded, proposed, duplicate, rejected);
  json["recorded"]["rejects"] =
      list_json(e.recorded.rejects, [](const auto& r) { return TCC_JSON(r, reason, count, example); });
  json["records"] = list_json(e.failures, [](const auto& f) { return TCC_JSON(f, status, count, example); });
  if (e.device_seconds > 0) json["device_seconds"] = e.device_seconds;
  json["counters"] = counts_json(e.counts);
  json.update(TCC_JSON(e, matrix_instruction, no_matrix_instruction));
  return json;
}

}  // namespace tcc::cli
