// The end of a run: the fastest programs meet again, and what is wrong does not lead.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "search/session.h"
#include "search/task_state.h"
#include "small_run.h"
#include "tcc/features/features.h"
#include "tcc/search/search.h"

using namespace tcc;
using namespace tcc::search::test;

TEST_CASE("the fastest few meet in pairs at the end, and the winner becomes the confirmed best") {
  std::vector<task::Task> work = {tasks()[0]};
  target::Target target = avx512();
  auto store = memory_store();
  struct Machine : measure::FakeMeasurer {
    using FakeMeasurer::FakeMeasurer;
    std::vector<std::pair<uint64_t, uint64_t>> met;
    measure::MeasurerTraits traits() const override { return {.compares = true}; }
    Result<measure::PairedComparison> compare(const measure::Candidate& a, const measure::Candidate& b,
                                              measure::PairAim aim) override {
      CHECK(aim == measure::PairAim::kWhetherAWins);
      met.emplace_back(a.nest_hash, b.nest_hash);
      measure::PairedComparison verdict;
      if (met.size() == 2) verdict.winner = measure::PairedComparison::Winner::kA;
      return verdict;
    }
  } machine([](const measure::Candidate& c) { return 1e-3 * (1 + 0.01 * Rng(c.nest_hash).uniform()); });
  const auto& met = machine.met;
  search::Environment env = environment(*store, machine);
  search::TuneOptions options = small_options();
  options.finals_share = 1;
  auto result = search::tune(work, target, options, env);
  REQUIRE(result.has_value());
  std::vector<record::Record> records = records_of(*store, work[0], 1);
  std::stable_sort(records.begin(), records.end(),
                   [](const record::Record& x, const record::Record& y) { return x.median < y.median; });
  // Finalists were measured twice, with the same result.
  records.erase(
      std::unique(records.begin(), records.end(),
                  [](const record::Record& x, const record::Record& y) { return x.nest_hash == y.nest_hash; }),
      records.end());
  REQUIRE(met.size() == 3);
  CHECK(met[0] == std::pair(records[1].nest_hash, records[0].nest_hash));
  CHECK(met[1] == std::pair(records[2].nest_hash, records[0].nest_hash));
  CHECK(met[2] == std::pair(records[3].nest_hash, records[2].nest_hash));
  CHECK(result->tasks[0].best_nest_hash == records[2].nest_hash);
  auto best = store->confirmed_best(search::task_hash(work[0]), search::machine_of(target), 1);
  REQUIRE(best.has_value());
  REQUIRE(best->has_value());
  CHECK((*best)->nest_hash == records[2].nest_hash);
}

TEST_CASE("the fastest are timed again in turns, and these times decide") {
  std::vector<task::Task> work = {tasks()[0]};
  target::Target target = avx512();
  auto store = memory_store();
  // Luck made some fast the first time. One of them turns out to be wrong.
  std::vector<uint64_t> turns;
  auto lucky = [](uint64_t nest) { return 1e-3 * (1 + 0.02 * Rng(nest).uniform()); };
  auto honest = [](uint64_t nest) { return 2e-3 * (1 + 0.5 * Rng(nest ^ 77).uniform()); };
  struct Machine : measure::Measurer {
    std::function<double(const measure::Candidate&)> seconds;
    uint64_t wrong = 0;
    measure::MeasurerTraits traits() const override { return {.compares = true}; }
    void compile(std::span<measure::Candidate> candidates) override {
      for (measure::Candidate& c : candidates) c.artifact = std::make_shared<const codegen::Artifact>();
    }
    Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
      TCC_TRY(auto out, measure::FakeMeasurer(seconds).measure(c));
      for (size_t i = 0; i < c.size(); ++i)
        if (c[i].finalist && c[i].nest_hash == wrong) out[i].status = record::Status::kWrong;
      return out;
    }
  } machine;
  machine.seconds = [&](const measure::Candidate& c) {
    if (!c.finalist) return lucky(c.nest_hash);
    CHECK(c.artifact != nullptr);  // compiled once, not in every turn
    if (turns.empty()) machine.wrong = c.nest_hash;
    turns.push_back(c.nest_hash);
    return honest(c.nest_hash);
  };
  search::Environment env = environment(*store, machine);
  search::TuneOptions options = small_options();
  options.finals_share = 1;
  auto result = search::tune(work, target, options, env);
  REQUIRE(result.has_value());
  std::set<uint64_t> contenders(turns.begin(), turns.end());
  REQUIRE(contenders.size() >= 3);
  contenders.erase(machine.wrong);
  uint64_t best = *std::min_element(contenders.begin(), contenders.end(),
                                    [&](uint64_t x, uint64_t y) { return honest(x) < honest(y); });
  // A finalist that is too far behind for the pairs, by the interval's lower end, gets one turn; the turns end where
  // one finalist is left.
  auto near = [&](uint64_t nest) { return 0.997 * honest(nest) * 0.97 <= honest(best); };
  const int64_t left = std::count_if(contenders.begin(), contenders.end(), near);
  CHECK(std::count(turns.begin(), turns.end(), machine.wrong) == 1);
  for (uint64_t nest : contenders)
    CHECK(std::count(turns.begin(), turns.end(), nest) == (near(nest) && left > 1 ? 3 : 1));
  CHECK(result->tasks[0].best_nest_hash == best);
  CHECK(result->tasks[0].best_seconds == honest(best));
  auto stored = store->confirmed_best(search::task_hash(work[0]), search::machine_of(target), 1);
  REQUIRE(stored.has_value());
  REQUIRE(stored->has_value());
  CHECK((*stored)->nest_hash != machine.wrong);
}

TEST_CASE("a program that was found wrong since does not lead a later run") {
  target::Target target = avx512();
  std::vector<task::Task> work = {tasks()[0]};
  auto store = memory_store();
  Fake machine(9, 0);
  auto first = search::tune(work, target, small_options(), environment(*store, machine));
  REQUIRE(first.has_value());
  std::vector<record::Record> records = records_of(*store, work[0], 1);
  for (const record::Record& r : records)
    if (r.nest_hash == first->tasks[0].best_nest_hash) {
      record::Record wrong = r;
      wrong.status = record::Status::kWrong;
      REQUIRE(store->add(wrong).has_value());
    }
  auto state = search::load_task(work[0], target, small_options(), features::kHotStatement, *store, -1);
  REQUIRE(state.has_value());
  CHECK(state->best_nest_hash != first->tasks[0].best_nest_hash);
  CHECK(state->best_seconds > first->tasks[0].best_seconds);
  CHECK(state->known.size() == records.size());
  CHECK(state->measured.contains(first->tasks[0].best_nest_hash));
  auto best = store->confirmed_best(search::task_hash(work[0]), search::machine_of(target), 1);
  REQUIRE(best.has_value());
  REQUIRE(best->has_value());
  CHECK((*best)->nest_hash == state->best_nest_hash);
}
