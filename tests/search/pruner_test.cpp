// Pruner as a strategy: drafts and verified programs of a round, its switches, its errors.
#include <catch2/catch.hpp>
#include <set>

#include "search/session.h"
#include "search/strategy.h"
#include "small_run.h"
#include "tcc/search/draft_explorer.h"
#include "tcc/search/model_measurer.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

task::Task gemm_task() {
  return task::make_gemm({.m = 128, .n = 96, .k = 160, .constant_weights = true});
}

// Rounds of one task in the wide space, nothing measured.
struct Rounds {
  target::Target target = avx512();
  std::unique_ptr<record::Store> store = memory_store();
  task::Task task = gemm_task();
  search::TuneOptions options;
  search::Settings settings = search::settings_for(target);
  std::unique_ptr<cost::CostModel> model = cost::make_rule_model();
  search::Counts counts;

  Rounds() {
    options.strategy = search::Strategy::kPruner;
    options.space.metaschedule = true;
  }
  search::TaskState load() {
    auto state = search::load_task(task, target, options, model->schema(), *store, -1);
    REQUIRE(state.has_value());
    return std::move(*state);
  }
  std::vector<search::Individual> propose(const search::TaskState& state, int64_t count = 12) {
    counts = {};
    return search::make_strategy(options.strategy)
        ->propose({state, *model, {.count = count}, target, options, settings, Rng(3), nullptr}, counts);
  }
};

search::TuneOptions pruner_options() {
  search::TuneOptions o = small_options(search::Strategy::kPruner);
  o.cost_model = "pacm";
  return o;
}

}  // namespace

TEST_CASE("a round drafts 512 programs, and the cost model scores them and random ones once", "[fidelity]") {
  Rounds rounds;
  const search::TaskState state = rounds.load();
  CHECK(rounds.propose(state).size() == 12);
  const search::Counts c = rounds.counts;
  CHECK(c.draft_kept == 512);
  CHECK(c.drafted == c.draft_rejected + c.draft_duplicate + c.draft_legal);
  CHECK(c.drafted == 3 * 1536);  // two generations after the first
  CHECK(c.draft_legal > 1000);
  CHECK(c.without_columns.empty());
  CHECK(c.draft_by_kernel == 0);
  // Drafts, and random draws beside them; sketches have some programs in common, and some draws fail.
  CHECK(c.verified > 512);
  CHECK(c.verified <= 512 + 64 + std::ssize(state.sketches));

  rounds.options.drafting.verify_generations = 1;
  CHECK(rounds.propose(state).size() == 12);
  CHECK(rounds.counts.verified > c.verified);
  CHECK(rounds.counts.verified <= 512 + 64 + std::ssize(state.sketches) + rounds.options.population);
}

TEST_CASE("without the explorer as many random programs are verified", "[fidelity]") {
  Rounds rounds;
  rounds.options.drafting.explore = false;
  const search::TaskState state = rounds.load();
  CHECK(rounds.propose(state).size() == 12);
  CHECK(rounds.counts.drafted == 0);
  CHECK(rounds.counts.draft_kept == 0);
  CHECK(rounds.counts.verified > 500);
}

TEST_CASE("what was measured is not drafted again, and its children are drafted") {
  Rounds rounds;
  const search::TaskState state = rounds.load();
  const search::ExplorerOptions options = {.population = 256, .generations = 1, .drafts = 32, .known_share = 1};
  search::DraftExplorer explorer(state.sketches, rounds.target, 1, rounds.settings.mutators, options);
  search::ExplorerCounts counts;
  const std::vector<search::Drafted> first = explorer.explore(5, counts);
  REQUIRE(first.size() == 32);
  std::set<std::pair<int32_t, std::vector<int64_t>>> measured;
  for (const search::Drafted& d : first) measured.emplace(d.sketch, d.decisions);
  const std::vector<search::Drafted> second = explorer.explore(5, counts, first, 1);
  CHECK_FALSE(second.empty());
  for (const search::Drafted& d : second) {
    CHECK(measured.count({d.sketch, d.decisions}) == 0);
    CHECK(d.sketch == first[0].sketch);  // the only parent
  }
  // Failures are known as well, and have no children.
  const std::vector<search::Drafted> third = explorer.explore(5, counts, first, 0);
  REQUIRE(third.size() == 32);
  for (const search::Drafted& d : third) CHECK(measured.count({d.sketch, d.decisions}) == 0);
}

TEST_CASE("design spaces without array programs are drafted by kernels, counted and named") {
  Rounds rounds;
  search::TaskState state = rounds.load();
  REQUIRE(state.sketches.size() > 1);
  state.sketches.resize(2);
  state.sketches[1].symbolic = false, state.sketches[1].concrete = "for this test";
  rounds.propose(state);
  CHECK(rounds.counts.draft_by_kernel > 0);
  CHECK(rounds.counts.draft_by_kernel < rounds.counts.drafted);
  CHECK(rounds.counts.without_columns == std::map<std::string, int64_t>{{"for this test", 1}});
}

TEST_CASE("each switch of a draft is part of a session's key") {
  const target::Target target = avx512();
  const std::vector<task::Task> work = tasks();
  std::vector<search::TuneOptions> all(9, pruner_options());
  all[1].drafting.model.kind = cost::DraftKind::kPaper;
  all[2].drafting.model.without = cost::kComputePenalties;
  all[3].drafting.model.without = cost::kMemoryPenalties;
  all[4].drafting.drafts = 128;
  all[5].drafting.explore = false;
  all[6].drafting.verify_generations = 1;
  all[7].statement_branch = false;
  all[8].dataflow_branch = false;
  std::set<std::string> keys;
  for (const search::TuneOptions& o : all) {
    auto store = memory_store();
    auto session = search::open_session(work, target, o, record::Kind::kMeasured, 0, *store);
    REQUIRE(session.has_value());
    keys.insert(session->key);
  }
  CHECK(keys.size() == all.size());
}

TEST_CASE("PaCM verifies and learns with either branch left out, and scores differ") {
  const target::Target target = avx512();
  const std::vector<task::Task> work = {gemm_task()};
  std::set<std::string> logs;
  for (const auto& [statements, dataflow] : {std::pair(true, true), std::pair(false, true), std::pair(true, false)}) {
    search::TuneOptions o = pruner_options();
    o.statement_branch = statements, o.dataflow_branch = dataflow;
    o.trials = 48;
    o.space.metaschedule = true;
    auto store = memory_store();
    Fake machine(5, 0);
    const auto result = search::tune(work, target, o, environment(*store, machine));
    REQUIRE(result.has_value());
    CHECK(result->trials == 48);
    logs.insert(log_of(*store));
  }
  CHECK(logs.size() == 3);
}

TEST_CASE("moa-pruner needs a checkpoint and adapts it; branches belong to PaCM", "[errors]") {
  const target::Target target = avx512();
  const std::vector<task::Task> work = {gemm_task()};
  auto error_of = [&](const search::TuneOptions& o) {
    auto store = memory_store();
    Fake machine(5, 0);
    const auto result = search::tune(work, target, o, environment(*store, machine));
    REQUIRE_FALSE(result.has_value());
    return result.error().message;
  };
  search::TuneOptions o = pruner_options();
  o.strategy = search::Strategy::kMoaPruner;
  CHECK_THAT(error_of(o), Catch::Contains("begins with a checkpoint"));
  o.pretrained = cost::kShipped;
  o.adaptation = cost::Adaptation::kFineTune;
  CHECK_THAT(error_of(o), Catch::Contains("another adaptation"));
  o.adaptation = cost::Adaptation::kMoa;
  auto store = memory_store();
  Fake machine(5, 0);
  CHECK(search::tune(work, target, o, environment(*store, machine)).has_value());
  o = pruner_options();
  o.statement_branch = o.dataflow_branch = false;
  CHECK_THAT(error_of(o), Catch::Contains("without both branches"));
  o.statement_branch = true, o.cost_model = "trees";
  CHECK_THAT(error_of(o), Catch::Contains("only the cost model 'pacm'"));
  o.cost_model = "pacm", o.pretrained = cost::kShipped;
  CHECK_THAT(error_of(o), Catch::Contains("learned with both branches"));
}

TEST_CASE("where nothing is measured both strategies rank drafts by the prior", "[fidelity]") {
  search::TuneOptions o = pruner_options();
  o.strategy = search::Strategy::kMoaPruner;
  o.dataflow_branch = false;
  const search::TuneOptions ranked = search::ranking_options(o, avx512(), 8);
  CHECK(ranked.strategy == search::Strategy::kPruner);
  CHECK(ranked.cost_model == "prior");
  CHECK(ranked.dataflow_branch);
}
