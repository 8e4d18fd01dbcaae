// Schedules that are taken over from a task with the same anchor.
#include "search/anchor.h"

#include <catch2/catch.hpp>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "tcc/lower/lower.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

task::Task gemm(bool epilogue, int64_t n = 96) {
  return task::make_gemm({.m = 64, .n = n, .k = 48, .bias = epilogue, .relu = epilogue, .constant_weights = true});
}
task::Task conv(bool epilogue) {
  return task::make_conv({.channels = 16,
                          .filters = 32,
                          .size = {14, 14},
                          .kernel = {3, 3},
                          .pads = {1, 1},
                          .bias = epilogue,
                          .relu = epilogue});
}

// `stop_after`: the run is cut off after this many measurements.
void tune(const task::Task& task, record::Store& store, int64_t trials = 40, int64_t stop_after = 1000) {
  measure::FakeMeasurer machine(4, 0);
  search::TuneOptions o;
  o.trials = trials;
  o.population = 48, o.generations = 1, o.round_size = 20;
  search::Environment env;
  env.store = &store;
  env.measurer = &machine;
  env.now = [] { return int64_t{1700000000}; };
  env.stop = [&] { return machine.measured() >= stop_after; };
  REQUIRE(search::tune({&task, 1}, avx2(), o, env).has_value());
}

}  // namespace

TEST_CASE("an anchor is the same whatever surrounds it, and differs where it computes something else") {
  CHECK(search::anchor_hash(gemm(false)) == search::anchor_hash(gemm(true)));
  CHECK(search::task_hash(gemm(false)) != search::task_hash(gemm(true)));
  CHECK(search::anchor_hash(gemm(false)) != search::anchor_hash(gemm(false, 112)));
  CHECK(search::anchor_hash(conv(false)) == search::anchor_hash(conv(true)));
  CHECK(search::anchor_hash(conv(false)) != search::anchor_hash(gemm(false)));
  task::Task varying = task::make_gemm({.m = 64, .n = 96, .k = 48});
  CHECK(search::anchor_hash(gemm(false)) != search::anchor_hash(varying));  // its layout may not be chosen
}

TEST_CASE("a task that is not tuned takes the schedule of its relative, checked and said so") {
  const target::Target target = avx2();
  for (bool is_conv : {false, true}) {
    INFO((is_conv ? "conv" : "gemm"));
    const task::Task tuned = is_conv ? conv(false) : gemm(false), other = is_conv ? conv(true) : gemm(true);
    auto store = memory_store();
    tune(tuned, *store);
    auto best = store->confirmed_best(search::task_hash(tuned), search::machine_of(target), 1);
    REQUIRE(best.has_value());
    REQUIRE(best->has_value());
    CHECK((*best)->anchor == search::anchor_hash(other));

    int asked = 0;
    auto taken = search::choose_program(other, target, store.get(), 1, [&](const task::Task& t, const search::Chosen&) {
      ++asked;
      CHECK(&t == &other);
      return Result<void>();
    });
    REQUIRE(taken.has_value());
    CHECK(asked == 1);
    CHECK_FALSE(taken->tuned);
    CHECK(taken->relative == tuned.workload);
    CHECK(taken->note.find("same anchor") != std::string::npos);
    // It is the relative's tiling: the same sizes.
    auto theirs = schedule::trace_from_json((*best)->trace), mine = schedule::trace_from_json(taken->trace);
    REQUIRE(theirs.has_value());
    REQUIRE(mine.has_value());
    CHECK(search::tiling_hash(*theirs) == search::tiling_hash(*mine));
    CHECK(theirs->decisions == mine->decisions);

    auto unchecked = search::choose_program(other, target, store.get(), 1);
    REQUIRE(unchecked.has_value());
    CHECK(unchecked->relative.empty());
    CHECK(unchecked->note.find("cannot be checked here") != std::string::npos);

    auto refused = search::choose_program(other, target, store.get(), 1,
                                          [](const task::Task&, const search::Chosen&) -> Result<void> {
                                            return environment_error("wrong: off by one");
                                          });
    REQUIRE(refused.has_value());
    CHECK(refused->relative.empty());
    CHECK(refused->note.find("turned down: wrong: off by one") != std::string::npos);
    CHECK(refused->nest_hash == unchecked->nest_hash);  // the default schedule
  }
}

TEST_CASE("tuning a task begins with the best of its relatives") {
  auto store = memory_store();
  tune(gemm(false), *store);
  const task::Task other = gemm(true);
  search::TuneOptions options;
  std::vector<search::TaskState> states(1);
  auto loaded = search::load_task(other, avx2(), options, features::kHotStatement, *store, -1);
  REQUIRE(loaded.has_value());
  states[0] = std::move(*loaded);
  search::Environment env;
  env.store = store.get();
  REQUIRE(search::seed_from_relatives(states, avx2(), options, env, false).has_value());
  REQUIRE_FALSE(states[0].seeds.empty());
  const search::Seed& seed = states[0].seeds[0];
  auto nest = space::instantiate(states[0].sketches[static_cast<size_t>(seed.sketch)], seed.decisions, avx2(),
                                 std::make_shared<Arena>());
  REQUIRE(nest.has_value());
  const uint64_t first = ir::hash_kernel(*nest);
  tune(other, *store, 8);
  auto records = store->all(search::task_hash(other));
  REQUIRE(records.has_value());
  REQUIRE(records->size() == 8);
  CHECK((*records)[0].nest_hash == first);
}

TEST_CASE("an interrupted run keeps the relatives that it began with") {
  task::Task third = task::make_gemm({.m = 64, .n = 96, .k = 48, .bias = true, .constant_weights = true});
  const task::Task other = gemm(true);
  REQUIRE(search::anchor_hash(third) == search::anchor_hash(other));
  auto log = [&](record::Store& store) {
    std::string text;
    auto records = store.all(search::task_hash(other));
    REQUIRE(records.has_value());
    for (const record::Record& r : *records) text += record::hash_text(r.nest_hash) + "\n";
    return text;
  };
  auto whole = memory_store(), cut = memory_store();
  tune(gemm(false), *whole);
  tune(other, *whole);
  tune(gemm(false), *cut);
  tune(other, *cut, 40, 8);  // within the first round
  tune(third, *cut);
  tune(other, *cut);
  CHECK(log(*cut) == log(*whole));
}
