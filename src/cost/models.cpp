#include <algorithm>

#include "tcc/cost/cost_model.h"

namespace tcc::cost {

// X(name, factory, summary)
// clang-format off
#define TCC_COST_MODELS(X) \
  X("trees", make_tree_model, "gradient-boosted regression trees on top of the target's prior") \
  X("linear", make_linear_model, "ridge regression on top of the target's prior") \
  X("prior", make_prior_only, "the target's prior, which learns nothing") \
  X("random", make_random_model, "scores without meaning: the yardstick for the others")
// clang-format on

#define TCC_X(name, factory, summary) std::unique_ptr<CostModel> factory(std::unique_ptr<CostModel> prior);
TCC_COST_MODELS(TCC_X)
#undef TCC_X

namespace {
constexpr ModelKind kModels[] = {
#define TCC_X(name, factory, summary) {name, summary, factory},
    TCC_COST_MODELS(TCC_X)
#undef TCC_X
};
}  // namespace

std::unique_ptr<CostModel> make_prior_only(std::unique_ptr<CostModel> prior) {
  return prior;
}

std::span<const ModelKind> model_kinds() {
  return kModels;
}

Result<std::unique_ptr<CostModel>> make_model(std::string_view name, std::unique_ptr<CostModel> prior) {
  for (const ModelKind& kind : kModels)
    if (kind.name == name) return kind.make(std::move(prior));
  std::string names;
  for (const ModelKind& kind : kModels) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return make_error(ErrorClass::kUsage, fmt::format("unknown cost model '{}'", name), "expected one of: " + names);
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
