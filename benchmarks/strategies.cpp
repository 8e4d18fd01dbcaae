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
    const search::Strategy strategy = *search::parse_strategy(name);
    out.push_back({.name = name,
                   .strategy = strategy,
                   .model = search::drafts(strategy) ? "pacm" : "trees",
                   .pretrained = strategy == search::Strategy::kMoaPruner,
                   .core = name != "mh",
                   .constructs = search::drafts(strategy)});
  }
  // As in their paper, without constructions.
  out.push_back({.name = "moa-pruner.drawn",
                 .strategy = search::Strategy::kMoaPruner,
                 .model = "pacm",
                 .pretrained = true,
                 .core = false});
  out.push_back({.name = "pruner.trees", .strategy = search::Strategy::kPruner});
  for (const std::string& model : search::cost_model_names()) {
    if (model == "trees" || model == "random") continue;
    out.push_back({.name = fmt::format("{}.{}", kBaseline, model),
                   .model = model,
                   .pretrained = true,
                   .core = model == "mlp" || model == "pacm",
                   .constructs = true});
  }
  return out;
}

search::TuneOptions options_of(const Method& method, const target::Target& target, const space::SpaceOptions& space) {
  search::TuneOptions o;
  o.space = space;
  if (method.constructs) o.constructed = search::default_constructed(target, space);
  o.strategy = method.strategy;
  o.cost_model = method.model;
  o.drafting.verify_generations = -1;  // as the target has it
  const features::Table& trace = *backend::backend_of(target).trace_table;
  if (method.pretrained && cost::find_shipped_checkpoint(method.model, trace) != nullptr)
    o.pretrained = std::string(cost::kShipped);
  return o;
}

}  // namespace tcc::benchmarks
