#include <algorithm>

#include "tcc/cost/cost_model.h"
#include "tcc/cost/network_model.h"
#include "tcc/support/text.h"

namespace tcc::cost {

// X(name, factory, summary)
// clang-format off
#define TCC_COST_MODELS(X) \
  X("trees", make_tree_model, "gradient-boosted regression trees on top of the target's prior") \
  X("linear", make_linear_model, "ridge regression on top of the target's prior") \
  X("prior", make_prior_only, "the target's prior, which learns nothing") \
  X("random", make_random_model, "scores without meaning: the yardstick for the others") \
  X("none", make_random_model, "the same: programs are measured as they are drawn")
// clang-format on

#define TCC_X(name, factory, summary) std::unique_ptr<CostModel> factory(std::unique_ptr<CostModel> prior);
TCC_COST_MODELS(TCC_X)
#undef TCC_X

namespace {

struct Row {
  ModelKind kind;
  std::unique_ptr<CostModel> (*make)(std::unique_ptr<CostModel> prior);
};
constexpr Row kModels[] = {
#define TCC_X(name, factory, summary) {{name, summary}, factory},
    TCC_COST_MODELS(TCC_X)
#undef TCC_X
};
constexpr std::string_view kAdaptations[] = {
#define TCC_X(name, text) text,
    TCC_ADAPTATIONS(TCC_X)
#undef TCC_X
};

}  // namespace

std::unique_ptr<CostModel> make_prior_only(std::unique_ptr<CostModel> prior) {
  return prior;
}

std::span<const std::string_view> adaptation_names() {
  return kAdaptations;
}
Result<Adaptation> find_adaptation(std::string_view name) {
  for (size_t i = 0; i < std::size(kAdaptations); ++i)
    if (kAdaptations[i] == name) return static_cast<Adaptation>(i);
  const std::vector<std::string> known(std::begin(kAdaptations), std::end(kAdaptations));
  return make_error(ErrorClass::kUsage, fmt::format("unknown adaptation '{}'", sanitize(std::string(name))),
                    suggest(std::string(name), known));
}

std::vector<ModelKind> model_kinds() {
  std::vector<ModelKind> kinds;
  for (const Row& row : kModels) kinds.push_back(row.kind);
  for (const NetworkKind& network : network_kinds()) kinds.push_back({network.name, network.summary});
  return kinds;
}

namespace {

Result<void> check_branches(const ModelSetup& setup, const NetworkKind* network) {
  if (setup.statement_branch && setup.dataflow_branch) return {};
  if (network == nullptr || network->architecture != nn::Architecture::kPacm)
    return make_error(ErrorClass::kUsage,
                      fmt::format("only the cost model 'pacm' has a statement and a dataflow branch, found '{}'",
                                  sanitize(setup.name)),
                      "choose --cost-model pacm, or keep both branches");
  if (!setup.statement_branch && !setup.dataflow_branch)
    return make_error(ErrorClass::kUsage, "without both branches 'pacm' has no inputs", "leave one branch out at most");
  if (!setup.pretrained.empty())
    return make_error(ErrorClass::kUsage, "a checkpoint learned with both branches of 'pacm', one of them is left out",
                      "begin without a checkpoint, or keep both branches");
  return {};
}

}  // namespace

Result<std::unique_ptr<CostModel>> make_model(const ModelSetup& setup, std::unique_ptr<CostModel> prior) {
  const NetworkKind* network = find_network(setup.name);
  TCC_TRY_VOID(check_branches(setup, network));
  if (network != nullptr) return make_network_model(*network, setup, std::move(prior));
  for (const Row& row : kModels) {
    if (row.kind.name != setup.name) continue;
    if (!setup.pretrained.empty() && setup.pretrained != kShipped)
      return make_error(
          ErrorClass::kUsage,
          fmt::format("cost model '{}' has no checkpoints, found '{}'", setup.name, sanitize(setup.pretrained)),
          "leave --pretrained out, or name a network with --cost-model");
    return row.make(std::move(prior));
  }
  std::string names;
  for (const ModelKind& kind : model_kinds()) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return make_error(ErrorClass::kUsage, fmt::format("unknown cost model '{}'", sanitize(setup.name)),
                    "expected one of: " + names);
}

void CostModel::predict_spread(const features::Batch& rows, std::span<float> scores, std::span<float> spreads) const {
  predict(rows, scores);
  std::fill(spreads.begin(), spreads.end(), 0.f);
}

void CostModel::update(const Samples&) {}

float CostModel::score(const features::Row& row) const {
  features::Batch rows;
  rows.add(*row.schema, row.values);
  float score = 0;
  predict(rows, {&score, 1});
  return score;
}

}  // namespace tcc::cost
