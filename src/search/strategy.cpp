#include "search/strategy.h"

#include <fmt/ranges.h>

#include "tcc/backend/backend.h"
#include "tcc/support/text.h"
#include "tcc/target/features.h"

namespace tcc::search {

namespace {

template <class T, size_t N>
std::vector<std::string> words_of(const std::pair<T, std::string_view> (&known)[N]) {
  std::vector<std::string> words;
  for (const auto& [value, word] : known) words.emplace_back(word);
  return words;
}

template <class T, size_t N>
Result<T> parse_word(std::string_view name, const std::pair<T, std::string_view> (&known)[N], const char* what) {
  for (const auto& [value, word] : known)
    if (word == name) return value;
  const std::vector<std::string> words = words_of(known);
  const std::string near = suggest(name, words);
  return make_error(ErrorClass::kUsage, fmt::format("expected a {}, not '{}'", what, sanitize(name)),
                    near.empty() ? fmt::format("known are {}", fmt::join(words, ", ")) : near);
}

constexpr std::pair<Strategy, std::string_view> kStrategies[] = {
#define TCC_X(name, text) {Strategy::k##name, text},
    TCC_SEARCH_STRATEGIES(TCC_X)
#undef TCC_X
};
constexpr std::pair<TaskScheduler, std::string_view> kSchedulers[] = {
#define TCC_X(name, text) {TaskScheduler::k##name, text},
    TCC_TASK_SCHEDULERS(TCC_X)
#undef TCC_X
};

}  // namespace

std::string_view strategy_name(Strategy strategy) {
  return kStrategies[static_cast<size_t>(strategy)].second;
}
std::vector<std::string> strategy_names() {
  return words_of(kStrategies);
}
Result<Strategy> parse_strategy(std::string_view name) {
  return parse_word(name, kStrategies, "search strategy");
}

std::vector<std::string> task_scheduler_names() {
  return words_of(kSchedulers);
}
std::vector<std::string> cost_model_names() {
  std::vector<std::string> out;
  for (const cost::ModelKind& kind : cost::model_kinds()) out.emplace_back(kind.name);
  return out;
}
Result<TaskScheduler> parse_task_scheduler(std::string_view name) {
  return parse_word(name, kSchedulers, "task scheduler");
}

int64_t default_constructed(const target::Target& target, const space::SpaceOptions& space) {
  constexpr int64_t kFirst = 4;
  const bool by_hand = target::isa_level(target) > 0 && space::space_name(space) == space::kDefaultSpace;
  return by_hand ? 0 : kFirst;
}

Settings settings_for(const target::Target& target) {
  Settings settings;
  settings.mutators = backend::backend_of(target).mutators;
  settings.scheduling.trials_per_second = backend::backend_of(target).trials_per_second;
  return settings;
}
Settings ranking_settings_for(const target::Target& target) {
  Settings settings = settings_for(target);
  // The scores are the predictions themselves, so that it pays to descend from the best.
  settings.evolution.sharpness = 8;
  settings.evolution.within_sketch = 0.1;
  settings.evolution.polished = 4;
  settings.evolution.polishings = 3;
  settings.evolution.bred_for_pick = 0;
  settings.picking.first_share = settings.picking.informed_share = 0;
  settings.picking.alike_first = settings.picking.alike = settings.picking.alike_last = 0;
  settings.picking.families = 1;
  settings.picking.max_sketch_share = 0.5;
  settings.picking.seeded_share = 0;  // seeds are ranked like any other program
  settings.picking.spare = 4;
  settings.scheduling.rounds = settings.scheduling.min_rounds = settings.scheduling.max_rounds = 1;
  settings.scheduling.trials_per_second = 1e6;  // compiling a handful is all that a task costs
  return settings;
}

Result<void> check_adaptation(const TuneOptions& o, const cost::CostModel& model, const target::Target& target) {
  if (o.strategy != Strategy::kMoaPruner) return {};
  if (o.adaptation != cost::Adaptation::kMoa)
    return make_error(ErrorClass::kUsage, "moa-pruner adapts its checkpoint by momentum, found another adaptation",
                      "use --adapt moa, or --strategy pruner");
  if (model.checkpoint() != 0) return {};
  return make_error(ErrorClass::kUsage,
                    fmt::format("moa-pruner: expected a cost model that begins with a checkpoint, found '{}' without "
                                "one; none ships for {}",
                                sanitize(o.cost_model), sanitize(target.name)),
                    "give one by --pretrained FILE (`tcc model train` makes it), or use --strategy pruner");
}

std::unique_ptr<SearchStrategy> make_strategy(Strategy strategy) {
  switch (strategy) {
    case Strategy::kEvolutionary:
      return make_evolutionary();
    case Strategy::kMetropolis:
      return make_metropolis();
    case Strategy::kRandom:
      return make_random();
    case Strategy::kReplay:
      return make_replay();
    case Strategy::kRoller:
      return make_construction(construct::Method::kRoller);
    case Strategy::kGensor:
      return make_construction(construct::Method::kGensor);
    case Strategy::kPruner:
    case Strategy::kMoaPruner:
      return make_pruner();
  }
  return nullptr;
}

}  // namespace tcc::search
