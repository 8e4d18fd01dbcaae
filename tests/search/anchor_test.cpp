// Schedules that are taken over from a task with the same anchor.
#include "search/anchor.h"

#include <catch2/catch.hpp>
#include <set>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "space/run_kernel.h"
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
    CHECK(refused->note.find("rejected: wrong: off by one") != std::string::npos);
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

TEST_CASE("a family holds the shapes of one operator") {
  auto window = [](int64_t channels, int64_t filters, int64_t size, int64_t stride, int64_t group = 1) {
    return search::anchor_shape(task::make_conv({.channels = channels,
                                                 .filters = filters,
                                                 .group = group,
                                                 .size = {size, size},
                                                 .kernel = {3, 3},
                                                 .strides = {stride, stride},
                                                 .pads = {1, 1},
                                                 .bias = true}));
  };
  const search::AnchorShape base = window(16, 32, 14, 1);
  CHECK(base.family != 0);
  CHECK(base.family == window(24, 48, 30, 1).family);
  CHECK(base.family == window(24, 48, 30, 2).family);
  CHECK(base.extents != window(24, 48, 30, 1).extents);
  CHECK(base.family == search::anchor_shape(conv(true)).family);
  CHECK(base.extents == search::anchor_shape(conv(true)).extents);
  CHECK(base.family != window(16, 16, 14, 1, 16).family);  // depthwise
  CHECK(window(16, 16, 14, 1, 16).family == window(72, 72, 28, 2, 72).family);
  const search::AnchorShape product = search::anchor_shape(gemm(true));
  CHECK(product.family != base.family);
  CHECK(product.family == search::anchor_shape(gemm(false, 1000)).family);
  CHECK(product.extents == std::vector<int64_t>{64, 96, 48});
  // Its layout may not be chosen; its sums are of another type.
  CHECK(product.family != search::anchor_shape(task::make_gemm({.m = 64, .n = 96, .k = 48})).family);
  CHECK(product.family !=
        search::anchor_shape(
            task::make_gemm({.m = 64, .n = 96, .k = 48, .constant_weights = true, .dtype = graph::DType::kF16}))
            .family);
}

TEST_CASE("a shape that is not tuned takes the schedule of the nearest one, within limits, checked and said so") {
  const target::Target target = avx2();
  auto wider = [](int64_t channels, int64_t filters, int64_t size) {
    return task::make_conv({.channels = channels,
                            .filters = filters,
                            .size = {size, size},
                            .kernel = {3, 3},
                            .pads = {1, 1},
                            .bias = true,
                            .relu = true});
  };
  const std::pair<task::Task, std::vector<task::Task>> cases[] = {
      {gemm(true),
       {gemm(true, 128), gemm(false, 112), gemm(true, 97),
        task::make_gemm({.m = 61, .n = 101, .k = 53, .constant_weights = true})}},
      {wider(16, 32, 14), {wider(24, 32, 14), wider(16, 40, 17), wider(7, 11, 13)}}};
  for (const auto& [tuned, others] : cases) {
    auto store = memory_store();
    tune(tuned, *store);
    for (const task::Task& other : others) {
      INFO(other.workload);
      const std::vector<double> want = run_kernel(other.kernel);
      int asked = 0;
      auto right = [&](const task::Task& t, const search::Chosen& chosen) -> Result<void> {
        ++asked;
        CHECK(&t == &other);
        check_close(run_kernel(chosen.lowered), want);
        return {};
      };
      auto taken = search::choose_program(other, target, store.get(), 1, right);
      REQUIRE(taken.has_value());
      CHECK(asked == 1);
      CHECK_FALSE(taken->tuned);
      CHECK(taken->relative == tuned.workload);
      CHECK(taken->note.find("nearest tuned shape") != std::string::npos);
      auto trace = schedule::trace_from_json(taken->trace);
      REQUIRE(trace.has_value());
      auto best = store->fastest(search::task_hash(tuned), search::machine_of(target), 1, 2);
      REQUIRE(best.has_value());
      std::vector<uint64_t> forms;
      for (const record::Record& r : *best)
        forms.push_back(search::tiling_form(schedule::trace_from_json(r.trace).value()));
      CHECK(std::find(forms.begin(), forms.end(), search::tiling_form(*trace)) != forms.end());
      // Decisions that replay as they are.
      std::vector<int64_t> used;
      auto kernel = schedule::replay(*trace, trace->decisions, other.kernel, std::make_shared<Arena>(), &used);
      REQUIRE(kernel.has_value());
      CHECK(used == trace->decisions);

      auto refused = search::choose_program(other, target, store.get(), 1,
                                            [](const task::Task&, const search::Chosen&) -> Result<void> {
                                              return environment_error("wrong: off by one");
                                            });
      REQUIRE(refused.has_value());
      CHECK(refused->relative.empty());
      INFO(refused->note);
      CHECK(refused->note.find("was tried and rejected: wrong: off by one") != std::string::npos);
    }
  }
}

TEST_CASE("shapes that are too far away, and other operators, say nothing") {
  auto store = memory_store();
  tune(gemm(true), *store);
  int asked = 0;
  auto gate = [&](const task::Task&, const search::Chosen&) {
    ++asked;
    return Result<void>();
  };
  for (const task::Task& other : {gemm(true, 96 * 32), conv(true)}) {
    auto taken = search::choose_program(other, avx2(), store.get(), 1, gate);
    REQUIRE(taken.has_value());
    CHECK(taken->relative.empty());
    CHECK(taken->note.find("the default schedule is used") != std::string::npos);
  }
  CHECK(asked == 0);
}

TEST_CASE("tuning a shape begins with the best of the nearest one") {
  auto store = memory_store();
  tune(gemm(true), *store);
  const task::Task other = gemm(true, 128);
  auto loaded = search::load_task(other, avx2(), {}, features::kHotStatement, *store, -1);
  REQUIRE(loaded.has_value());
  std::vector<search::TaskState> states;
  states.push_back(std::move(*loaded));
  search::Environment env;
  env.store = store.get();
  REQUIRE(search::seed_from_relatives(states, avx2(), {}, env, false).has_value());
  REQUIRE_FALSE(states[0].seeds.empty());
  REQUIRE_FALSE(states[0].relatives.empty());
  std::set<uint64_t> seeded;
  for (const search::Seed& seed : states[0].seeds) {
    auto nest = space::instantiate(states[0].sketches[static_cast<size_t>(seed.sketch)], seed.decisions, avx2(),
                                   std::make_shared<Arena>());
    if (nest) seeded.insert(ir::hash_kernel(*nest));
  }
  REQUIRE_FALSE(seeded.empty());
  tune(other, *store, 8);
  auto records = store->all(search::task_hash(other));
  REQUIRE(records.has_value());
  REQUIRE(records->size() == 8);
  CHECK(seeded.contains((*records)[0].nest_hash));
  CHECK((*records)[0].family == search::anchor_shape(other).family);
  CHECK((*records)[0].extents == std::vector<int64_t>{64, 128, 48});
}
