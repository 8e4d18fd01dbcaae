#include "strategies.h"

#include <fmt/format.h>

#include "tcc/backend/backend.h"
#include "tcc/cost/cost_model.h"
#include "tcc/cost/shipped_checkpoints.h"

namespace tcc::benchmarks {

std::vector<Method> methods() {
  std::vector<Method> out = {{.name = kBaseline},
                             {.name = "default", .searches = false},
                             {.name = "random", .strategy = search::Strategy::kRandom}};
  // Strategies of the table beside these two; those that draft verify by PaCM, as in their paper.
  for (const std::string& name : search::strategy_names()) {
    if (name == kBaseline || name == "random" || name == "replay") continue;
    const bool drafts = name.find("pruner") != std::string::npos;
    out.push_back({.name = name,
                   .strategy = *search::parse_strategy(name),
                   .model = drafts ? "pacm" : "trees",
                   .pretrained = name == "moa-pruner",
                   .core = name != "mh"});
  }
  for (const std::string& model : search::cost_model_names()) {
    if (model == "trees" || model == "random") continue;
    out.push_back({.name = fmt::format("{}.{}", kBaseline, model),
                   .model = model,
                   .pretrained = true,
                   .core = model == "mlp" || model == "pacm"});
  }
  return out;
}

search::TuneOptions options_of(const Method& method, const target::Target& target) {
  search::TuneOptions o;
  o.strategy = method.strategy;
  o.cost_model = method.model;
  const features::Table& trace = *backend::backend_of(target).trace_table;
  if (method.pretrained && cost::find_shipped_checkpoint(method.model, trace) != nullptr)
    o.pretrained = std::string(cost::kShipped);
  return o;
}

}  // namespace tcc::benchmarks
