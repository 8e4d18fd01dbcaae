// How fast families of operators were in an earlier run, and how a search uses it.
#include <catch2/catch.hpp>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "search/prior.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

task::Task gemm_task() {
  return task::make_gemm({.m = 96, .n = 160, .k = 80, .constant_weights = true});
}

search::Environment environment(record::Store& store, measure::Measurer& measurer) {
  search::Environment env;
  env.store = &store;
  env.measurer = &measurer;
  env.now = [] { return int64_t{1700000000}; };
  env.tool_version = "test";
  return env;
}

search::TuneOptions small_options() {
  search::TuneOptions o;
  o.trials = 40;
  o.round_size = 10;
  o.population = 48;
  o.generations = 2;
  return o;
}

std::string log_of(const record::Store& store) {
  auto records = store.all();
  REQUIRE(records.has_value());
  std::string log;
  for (const record::Record& r : *records) log += fmt::format("{} {:.9g}\n", record::hash_text(r.nest_hash), r.median);
  return log;
}

}  // namespace

TEST_CASE("a run leaves rows of its families to later ones") {
  const task::Task first = task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true});
  auto store = memory_store();
  measure::FakeMeasurer machine(5, 0);
  REQUIRE(search::tune({&first, 1}, avx2(), small_options(), environment(*store, machine)).has_value());
  const task::Task task = gemm_task();
  auto load = [&](record::Store& from) {
    auto loaded =
        search::load_prior({&task, 1}, avx2(), small_options(), features::kHotStatement, {.key = "test"}, from);
    REQUIRE(loaded.has_value());
    return *loaded;
  };
  CHECK(load(*store).tasks.size() == 1);
  CHECK(search::knows_family(load(*store), task.anchor));
  CHECK_FALSE(search::knows_family(load(*store), task::AnchorKind::kConv));
  CHECK_FALSE(search::knows_family(load(*memory_store()), task.anchor));
}

TEST_CASE("rows that the store has of another schema are ignored, and the user is told", "[errors]") {
  const std::vector<task::Task> work = {gemm_task()};
  auto store = memory_store();
  measure::FakeMeasurer machine(5, 0);
  REQUIRE(search::tune(work, avx2(), small_options(), environment(*store, machine)).has_value());
  auto load = [&](const features::Schema& schema) {
    auto prior = search::load_prior(work, avx2(), small_options(), schema, {.key = "test"}, *store);
    REQUIRE(prior.has_value());
    return *prior;
  };
  CHECK(load(features::kHotStatement).notes.empty());
  CHECK(load(features::kHotStatement).tasks.size() == 1);
  features::Schema newer = features::kHotStatement;
  ++newer.version;
  const search::Prior ignored = load(newer);
  CHECK(ignored.tasks.empty());
  REQUIRE(ignored.notes.size() == 1);
  CHECK_THAT(ignored.notes[0], Catch::Contains(fmt::format(
                                   "schema 'cpu-hot-statement' version {}, expected 'cpu-hot-statement' version {}",
                                   features::kHotStatement.version, newer.version)));
}

TEST_CASE("an interrupted search goes on with the rows that it began with") {
  const std::vector<task::Task> first = {task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true})},
                                work = {gemm_task()};
  struct Run {
    std::unique_ptr<record::Store> store = memory_store();
    measure::FakeMeasurer machine{5, 0.1};
    search::TuneResult tune(const std::vector<task::Task>& tasks, int64_t limit = 1 << 20) {
      search::Environment env = environment(*store, machine);
      env.stop = [this, end = machine.measured() + limit] { return machine.measured() >= end; };
      auto result = search::tune(tasks, avx2(), small_options(), env);
      REQUIRE(result.has_value());
      return *result;
    }
  };
  Run whole, cut, alone;
  whole.tune(first), cut.tune(first);
  whole.tune(work), alone.tune(work);
  CHECK(cut.tune(work, 14).stopped);
  CHECK(cut.tune(work).resumed);
  CHECK(log_of(*cut.store) == log_of(*whole.store));
  CHECK(log_of(*whole.store).find(log_of(*alone.store)) == std::string::npos);
}
