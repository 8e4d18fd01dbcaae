// Strategies and the task scheduler, each by itself, against what MetaSchedule states.
#include "search/strategy.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "search/metropolis.h"
#include "search/scheduler.h"
#include "tcc/lower/lower.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

task::Task conv_task() {
  return task::make_conv({.channels = 48, .filters = 96, .size = {28, 30}, .kernel = {3, 3}, .pads = {1, 1}});
}

// One round's proposals, without measuring.
struct Proposer {
  target::Target target = avx2();
  std::unique_ptr<record::Store> store = memory_store();
  search::TuneOptions options;
  search::Settings settings = search::settings_for(target);
  std::unique_ptr<cost::CostModel> model = cost::make_rule_model();

  search::TaskState load(const task::Task& task) {
    auto state = search::load_task(task, target, options, model->schema(), *store, -1);
    REQUIRE(state.has_value());
    return std::move(*state);
  }
  std::vector<search::Individual> propose(search::Strategy strategy, const search::TaskState& state,
                                          const search::RoundPlan& plan, uint64_t seed = 1) {
    search::Counts counts;
    Rng rng(seed);
    return search::make_strategy(strategy)->propose({state, *model, plan, target, options, settings, rng, nullptr},
                                                    counts);
  }
};

}  // namespace

TEST_CASE("a round of few programs looks at few candidates") {
  Proposer proposer;
  const search::TaskState state = proposer.load(conv_task());
  const auto verified = [&](int64_t count) {
    search::Counts counts;
    const Rng rng(1);
    const search::RoundPlan plan{.count = count};
    const auto picks = search::make_strategy(search::Strategy::kEvolutionary)
                           ->propose({state, *proposer.model, plan, proposer.target, proposer.options,
                                      proposer.settings, rng, nullptr},
                                     counts);
    CHECK(std::ssize(picks) == count);
    return counts.verified;
  };
  const int64_t one = verified(1), many = verified(16);
  const search::Settings::Evolution& e = proposer.settings.evolution;
  CHECK(many > proposer.options.population);
  CHECK(one <= e.least_population * (1 + e.small_generations) + std::ssize(state.sketches) * e.first_draws);
  CHECK(3 * one < many);
  proposer.settings.evolution.bred_for_pick = 0;
  CHECK(verified(1) > 3 * one);
}

TEST_CASE("acceptance follows the difference and the temperature", "[fidelity]") {
  CHECK(search::acceptance(1, 1, 0.5) == 1);
  CHECK(search::acceptance(1, 2, 0.5) == 1);
  CHECK(search::acceptance(2, 1, 0.5) == Approx(std::exp(-2.0)));
  CHECK(search::acceptance(2, 1, 0) == 0);
  CHECK(search::acceptance(2, 2, 0) == 1);
  CHECK(search::first_temperature(std::array{1.f, 1.f, 1.f, 9.f}, 0.5) == Approx(0.5 * std::sqrt(12.0)));
  CHECK(search::first_temperature(std::array{4.f, 4.f}, 0.5) == 0);
  CHECK(search::temperature_at(3, 0.9, 0) == Approx(3));
  CHECK(search::temperature_at(3, 0.9, 2) == Approx(3 * 0.81));
}

TEST_CASE("chains that accept so visit states in proportion to exp(score / temperature)", "[fidelity]") {
  // Eight states on a ring, symmetric proposals.
  const std::vector<double> scores = {0, 0.3, -0.2, 1.1, 0.4, -1, 0.8, 0.1};
  constexpr double kTemperature = 0.7;
  constexpr int kSteps = 400000, kThin = 8;
  Rng rng(7);
  std::vector<double> visits(scores.size(), 0);
  size_t at = 0, n = scores.size();
  for (int i = 0; i < kSteps; ++i) {
    size_t to = (at + (rng.below(2) == 0 ? 1 : n - 1)) % n;
    if (rng.uniform() < search::acceptance(scores[at], scores[to], kTemperature)) at = to;
    if (i % kThin == 0) ++visits[at];
  }
  double total = 0;
  for (double s : scores) total += std::exp(s / kTemperature);
  for (size_t i = 0; i < n; ++i) {
    const double expected = std::exp(scores[i] / kTemperature) / total;
    INFO("state " << i);
    CHECK(visits[i] / (kSteps / kThin) == Approx(expected).margin(0.01));
  }
}

TEST_CASE("settings of a target are the released weights", "[fidelity]") {
  using schedule::Mutator;
  auto weight = [](const search::Settings& s, Mutator m) { return s.mutators[static_cast<size_t>(m)]; };
  const search::Settings cpu = search::settings_for(avx2());
  CHECK(weight(cpu, Mutator::kTile) == 0.90);
  CHECK(weight(cpu, Mutator::kComputeLocation) == 0.05);
  CHECK(weight(cpu, Mutator::kUnroll) == 0.03);
  CHECK(weight(cpu, Mutator::kParallel) == 0.02);
  CHECK(weight(cpu, Mutator::kThreadBinding) == 0);
  auto gpu_target = target::find_target("h100");
  REQUIRE(gpu_target.has_value());
  const search::Settings gpu = search::settings_for(*gpu_target);
  CHECK(weight(gpu, Mutator::kTile) == 0.90);
  CHECK(weight(gpu, Mutator::kUnroll) == 0.08);
  CHECK(weight(gpu, Mutator::kThreadBinding) == 0.02);
  CHECK(weight(gpu, Mutator::kParallel) == 0.02);  // ours: the released lists have no walkers over a grid
  CHECK(cpu.scheduling.alpha == 0.2);
  CHECK(cpu.scheduling.window == 3);
}

TEST_CASE("every strategy proposes legal programs, each once, and none that was measured") {
  task::Task task = conv_task();
  Proposer p;
  p.options.population = 64, p.options.generations = 2;
  p.settings.chains.count = 16, p.settings.chains.steps = 12;
  search::TaskState state = p.load(task);
  for (const std::string& name : search::strategy_names()) {
    INFO(name);
    const search::Strategy strategy = *search::parse_strategy(name);
    search::TaskState fresh = p.load(task);
    std::vector<search::Individual> first = p.propose(strategy, fresh, {.count = 12, .progress = 0, .seeds = {}});
    // A construction ends when it has no more programs; the others always find as many.
    const bool constructs = strategy == search::Strategy::kRoller || strategy == search::Strategy::kGensor;
    REQUIRE(first.size() <= 12);
    REQUIRE(first.size() >= (constructs ? 1 : 12));
    std::set<uint64_t> nests;
    for (const search::Individual& i : first) {
      CHECK(nests.insert(i.nest_hash).second);
      auto nest = space::instantiate(fresh.sketches[static_cast<size_t>(i.sketch)], i.decisions, p.target,
                                     std::make_shared<Arena>());
      REQUIRE(nest.has_value());
      CHECK(ir::hash_kernel(*nest) == i.nest_hash);
      fresh.measured.insert(i.nest_hash);
    }
    for (const search::Individual& i : p.propose(strategy, fresh, {.count = 12, .progress = 0, .seeds = {}}))
      CHECK(nests.insert(i.nest_hash).second);
  }
}

TEST_CASE("annealed chains end at better scores than draws, and begin at what was measured best") {
  task::Task task = conv_task();
  Proposer p;
  p.options.explore = 0;
  search::TaskState state = p.load(task);
  const search::RoundPlan plan{.count = 16, .progress = 0, .seeds = {}};
  auto mean = [](const std::vector<search::Individual>& all, const cost::CostModel& model) {
    double sum = 0;
    for (const search::Individual& i : all) {
      sum += static_cast<double>(model.score(i.sample.row)) / static_cast<double>(all.size());
    }
    return sum;
  };
  const double drawn = mean(p.propose(search::Strategy::kRandom, state, plan), *p.model);
  const double cold = mean(p.propose(search::Strategy::kMetropolis, state, plan), *p.model);
  CHECK(cold > drawn);

  // At temperature 0 and with measured programs only, chains hardly leave the measured skeleton.
  std::vector<search::Individual> some = p.propose(search::Strategy::kRandom, state, plan);
  search::Known known{
      .record = 1, .sketch = some[0].sketch, .decisions = some[0].decisions, .nest_hash = some[0].nest_hash};
  known.sample = some[0].sample, known.seconds = 1e-3;
  state.known.push_back(known);
  state.measured.insert(known.nest_hash);
  p.settings.chains.count = 1, p.settings.chains.measured_share = 1, p.settings.chains.temperature = 0;
  const uint64_t skeleton = schedule::skeleton_hash(state.sketches[static_cast<size_t>(known.sketch)].trace);
  for (const search::Individual& i : p.propose(search::Strategy::kMetropolis, state, plan))
    CHECK(schedule::skeleton_hash(state.sketches[static_cast<size_t>(i.sketch)].trace) == skeleton);
}

TEST_CASE("replay begins with what the store knows of relatives and then takes the sketches in turn") {
  task::Task task = conv_task();
  Proposer p;
  search::TaskState state = p.load(task);
  const auto sketches = static_cast<int64_t>(state.sketches.size());
  REQUIRE(sketches > 3);
  std::vector<search::Individual> known =
      p.propose(search::Strategy::kRandom, state, {.count = 3, .progress = 0, .seeds = {}}, 9);
  search::RoundPlan plan{.count = 3 + sketches, .progress = 0, .seeds = {}};
  for (const search::Individual& i : known) plan.seeds.push_back({i.sketch, i.decisions});
  std::vector<search::Individual> picks = p.propose(search::Strategy::kReplay, state, plan);
  REQUIRE(picks.size() >= 6);
  for (size_t i = 0; i < known.size(); ++i) CHECK(picks[i].nest_hash == known[i].nest_hash);
  for (size_t i = 4; i < picks.size(); ++i)
    CHECK((picks[i].sketch - picks[i - 1].sketch + sketches) % sketches <= 1 + sketches / 2);
  CHECK(picks[3].sketch == 0);
  state.trials = 2;
  CHECK(p.propose(search::Strategy::kReplay, state, {.count = 4, .progress = 0, .seeds = {}})[0].sketch == 2);
}

TEST_CASE("the gradient scheduler takes the task with the greatest weighted gain", "[fidelity]") {
  const search::Settings settings = search::settings_for(avx2());
  task::Task a = conv_task(), b = conv_task();
  a.weight = 3;
  search::TaskState s;
  s.task = &a;
  // Fewer rounds than the window looks back: only what is left to hope for.
  s.history = {4.0, 2.0};
  CHECK(search::scheduler_gain(s, settings) == Approx(3 * 0.8 * 2.0 / 2));
  s.history = {4.0, 3.0, 2.5};
  CHECK(search::scheduler_gain(s, settings) == Approx(3 * 0.8 * 2.5 / 3));
  // From the fourth on: (best[n-4] - best[n-1]) / 3 beside it.
  s.history = {4.0, 3.0, 2.5, 2.0};
  CHECK(search::scheduler_gain(s, settings) == Approx(3 * (0.2 * (4.0 - 2.0) / 3 + 0.8 * 2.0 / 4)));
  s.history = {9.0, 4.0, 3.0, 2.5, 2.0};
  CHECK(search::scheduler_gain(s, settings) == Approx(3 * (0.2 * (4.0 - 2.0) / 3 + 0.8 * 2.0 / 5)));
  s.history = {0, 0};  // nothing valid
  CHECK(search::scheduler_gain(s, settings) == 0);

  std::vector<search::TaskState> states(2);
  states[0].task = &a, states[1].task = &b;
  search::TuneOptions options;
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    for (search::TaskState& state : states) {
      state.history.clear();
      double best = 10;
      for (int64_t n = 1 + rng.below(8); n > 0; --n) state.history.push_back(best *= 0.5 + 0.5 * rng.uniform());
    }
    const bool second = search::scheduler_gain(states[1], settings) > search::scheduler_gain(states[0], settings);
    CHECK(search::next_task(states, options, settings, 2) == (second ? 1 : 0));
  }
}

TEST_CASE("no task starves under either scheduler") {
  const search::Settings settings = search::settings_for(avx2());
  std::vector<task::Task> work;
  for (int64_t i = 0; i < 5; ++i) work.push_back(conv_task());
  work[2].weight = 1000;
  for (search::TaskScheduler scheduler : {search::TaskScheduler::kGradient, search::TaskScheduler::kRoundRobin}) {
    search::TuneOptions options;
    options.scheduler = scheduler;
    std::vector<search::TaskState> states(5);
    for (size_t i = 0; i < states.size(); ++i) states[i].task = &work[i];
    std::vector<int> rounds(5, 0);
    for (int64_t round = 0; round < 100; ++round) {
      const auto at = static_cast<size_t>(search::next_task(states, options, settings, round));
      // Task 4 never has a valid program.
      states[at].history.push_back(at == 4 ? 0 : 1 + 1.0 / static_cast<double>(states[at].history.size() + 1));
      states[at].last_round = round;
      ++rounds[at];
    }
    for (size_t i = 0; i < rounds.size(); ++i) {
      INFO("task " << i);
      if (scheduler == search::TaskScheduler::kRoundRobin) CHECK(rounds[i] == 20);
      if (scheduler == search::TaskScheduler::kGradient) CHECK(rounds[i] >= 4);
    }
    if (scheduler == search::TaskScheduler::kGradient) CHECK(rounds[2] > 60);
  }
}

TEST_CASE("annealed Metropolis-Hastings finds faster programs than random draws on a machine that follows the rules") {
  const target::Target target = avx2();
  const task::Task task = conv_task();
  auto best = [&](search::Strategy strategy, uint64_t seed) {
    auto store = memory_store();
    measure::FakeMeasurer machine([&target](const measure::Candidate& c) {
      const float score = cost::make_rule_model()->score(features::extract(features::kHotStatement, c.kernel, target));
      return std::exp2(-score) * 1e-9;
    });
    search::TuneOptions o;
    o.trials = 48;
    o.round_size = 16;
    o.strategy = strategy;
    o.seed = seed;
    search::Environment env;
    env.store = store.get();
    env.measurer = &machine;
    env.now = [] { return int64_t{1700000000}; };
    auto result = search::tune({&task, 1}, target, o, env);
    REQUIRE(result.has_value());
    return result->tasks[0].best_seconds;
  };
  double random = 0, annealed = 0;
  for (uint64_t seed : {1, 2, 3}) {
    random += best(search::Strategy::kRandom, seed);
    annealed += best(search::Strategy::kMetropolis, seed);
  }
  CHECK(annealed < random);
}
