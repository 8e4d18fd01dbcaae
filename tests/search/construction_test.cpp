// Roller and Gensor as strategies, and as what chooses programs without a search.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "tcc/lower/lower.h"
#include "tcc/search/search.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

search::TuneOptions options_of(search::Strategy strategy) {
  search::TuneOptions options;
  options.strategy = strategy;
  options.cost_model = "prior";
  options.space.metaschedule = true;
  return options;
}

}  // namespace

TEST_CASE("constructed programs come best first, replay, and are within the target's limits") {
  const target::Target target = avx2();
  const task::Task task = task::make_gemm({.m = 96, .n = 80, .k = 112, .constant_weights = true});
  for (const search::Strategy strategy : {search::Strategy::kRoller, search::Strategy::kGensor}) {
    const auto made = search::construct_programs(task, target, 6, options_of(strategy));
    REQUIRE(made.has_value());
    CHECK(made->rule == search::strategy_name(strategy));
    CHECK(made->reason.empty());
    REQUIRE_FALSE(made->traces.empty());
    CHECK(made->traces.size() <= 6);
    for (const schedule::Trace& trace : made->traces) {
      const auto program = search::program_of_trace(trace, task, target);
      INFO((program ? std::string() : program.error().message));
      CHECK(program.has_value());
    }
  }
}

TEST_CASE("the order of discovery does not ask the cost model") {
  const target::Target target = avx2();
  const task::Task task = task::make_gemm({.m = 96, .n = 80, .k = 112, .constant_weights = true});
  search::TuneOptions options = options_of(search::Strategy::kRoller);
  options.construction.order = construct::Order::kDiscovery;
  const auto found = search::construct_programs(task, target, 6, options);
  options.cost_model = "random";
  const auto same = search::construct_programs(task, target, 6, options);
  REQUIRE(found.has_value());
  REQUIRE(same.has_value());
  CHECK(found->traces == same->traces);
}

TEST_CASE("an operator without reuse says which policy made its programs, and why") {
  const auto made =
      search::construct_programs(task::make_elementwise({4, 64, 96}), avx2(), 4, options_of(search::Strategy::kGensor));
  REQUIRE(made.has_value());
  CHECK(made->rule == construct::kPlainPolicy);
  CHECK_FALSE(made->reason.empty());
  CHECK_FALSE(made->traces.empty());
}

TEST_CASE("in the default space a construction decides the tiles that its modules left open") {
  const task::Task task =
      task::make_conv({.channels = 48, .filters = 96, .size = {28, 30}, .kernel = {3, 3}, .pads = {1, 1}});
  for (const search::Strategy strategy : {search::Strategy::kRoller, search::Strategy::kGensor}) {
    search::TuneOptions options = options_of(strategy);
    options.space.metaschedule = false;
    const auto made = search::construct_programs(task, avx2(), 12, options);
    REQUIRE(made.has_value());
    INFO(made->rule << ": " << made->reason);
    CHECK_FALSE(made->traces.empty());
  }
}

TEST_CASE("tuning says once for each operator that a rule does not fit what made its programs, and why") {
  const std::vector<task::Task> tasks = {task::make_elementwise({4, 64, 96}), task::make_softmax({8, 33}, 1),
                                         task::make_gemm({.m = 24, .n = 32, .k = 40})};
  auto store = memory_store();
  measure::FakeMeasurer machine(4, 0);
  search::TuneOptions options = options_of(search::Strategy::kGensor);
  options.trials = 24, options.round_size = 4;
  search::Environment env;
  env.store = store.get();
  env.measurer = &machine;
  std::map<std::string, int> notes;
  env.progress = [&](const search::Progress& p) {
    if (p.kind == search::Progress::Kind::kNote && p.note.find(" instead of gensor: ") != std::string::npos)
      ++notes[p.note.substr(0, p.note.find(':'))];
  };
  REQUIRE(search::tune(tasks, avx2(), options, env).has_value());
  CHECK(notes[tasks[0].workload] == 1);
  CHECK(notes[tasks[1].workload] == 1);
  CHECK(notes.count(tasks[2].workload) == 0);
}

TEST_CASE("a search that begins with constructions measures one of them first") {
  const task::Task task = task::make_gemm({.m = 96, .n = 80, .k = 112, .constant_weights = true});
  const target::Target target = avx2();
  // The programs that a search measures, in order.
  const auto measured = [&](search::TuneOptions options) {
    options.cost_model = "trees";
    auto store = memory_store();
    measure::FakeMeasurer machine(4, 0);
    search::Environment env;
    env.store = store.get();
    env.measurer = &machine;
    REQUIRE(search::tune({&task, 1}, target, options, env).has_value());
    const auto records = store->all(search::task_hash(task));
    REQUIRE(records.has_value());
    std::vector<uint64_t> nests;
    for (const record::Record& r : *records) nests.push_back(r.nest_hash);
    return nests;
  };
  search::TuneOptions options = options_of(search::Strategy::kEvolutionary);
  options.trials = 24, options.round_size = 8, options.population = 48, options.generations = 1;
  const auto first_of = [&](int64_t constructed) {
    options.constructed = constructed;
    const std::vector<uint64_t> nests = measured(options);
    REQUIRE(nests.size() >= 24);
    return nests.front();
  };
  std::vector<uint64_t> constructed;
  for (const search::Strategy strategy : {search::Strategy::kGensor, search::Strategy::kRoller}) {
    search::TuneOptions alone = options_of(strategy);
    alone.trials = 8;
    const std::vector<uint64_t> nests = measured(alone);
    constructed.insert(constructed.end(), nests.begin(), nests.end());
  }
  CHECK(std::count(constructed.begin(), constructed.end(), first_of(4)) > 0);
  CHECK(std::count(constructed.begin(), constructed.end(), first_of(0)) == 0);
  CHECK(search::default_constructed(target, {}) == 0);
  CHECK(search::default_constructed(target, options.space) > 0);
  CHECK(search::default_constructed(*target::find_target("a100"), {}) > 0);
}
