// Search against a fake machine: determinism, resume, duplicates, budgets, scheduling.
#include "tcc/search/search.h"
#include "tcc/cost/cost_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "search/scheduler.h"
#include "search/session.h"
#include "search/task_state.h"
#include "small_run.h"
#include "tcc/features/features.h"
#include "tcc/lower/lower.h"

using namespace tcc;
using namespace tcc::search::test;

TEST_CASE("the same seed gives the same log, whatever the number of threads") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  const search::Strategy strategy =
      GENERATE(search::Strategy::kEvolutionary, search::Strategy::kMetropolis, search::Strategy::kRandom,
               search::Strategy::kReplay, search::Strategy::kPruner);
  INFO(search::strategy_name(strategy));
  auto run = [&](uint64_t seed, ThreadPool* pool) {
    auto store = memory_store();
    Fake machine(5, 0.1);
    search::TuneOptions o = small_options(strategy);
    o.seed = seed;
    auto result = search::tune(work, target, o, environment(*store, machine, pool));
    REQUIRE(result.has_value());
    CHECK(result->trials == o.trials);
    CHECK(machine.inner.measured() == o.trials);
    return log_of(*store);
  };
  std::string first = run(11, nullptr);
  ThreadPool pool(3);
  CHECK(first == run(11, &pool));
  CHECK(first != run(12, nullptr));
}

TEST_CASE("an interrupted run goes on as if it had not been interrupted") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  const search::Strategy strategy =
      GENERATE(search::Strategy::kEvolutionary, search::Strategy::kMetropolis, search::Strategy::kRandom,
               search::Strategy::kReplay, search::Strategy::kPruner);
  INFO(search::strategy_name(strategy));
  search::TuneOptions o = small_options(strategy);
  // The second time the first two tasks count as forms of one, the third time rounds of two tasks are measured
  // together.
  const int variant = GENERATE(0, 1, 2);
  if (variant == 1) o.choices = {0, 0, 1};
  if (variant == 2) o.tasks_at_once = 2;
  if (strategy != search::Strategy::kEvolutionary && variant > 0) return;
  auto whole = memory_store();
  Fake machine(5, 0.1);
  auto uninterrupted = search::tune(work, target, o, environment(*whole, machine));
  REQUIRE(uninterrupted.has_value());

  // In the first round of a task, at its end, and in later ones.
  for (int64_t cut : {1, 9, 20, 41, 60}) {
    if (strategy != search::Strategy::kEvolutionary && cut != 9 && cut != 41) continue;
    INFO("cut after " << cut);
    auto store = memory_store();
    Fake cut_off(5, 0.1, cut);
    search::Environment env = environment(*store, cut_off);
    env.stop = [&] { return cut_off.left <= 0; };
    auto part = search::tune(work, target, o, env);
    REQUIRE(part.has_value());
    REQUIRE(part->stopped);
    auto before = store->all();
    REQUIRE(before.has_value());
    CHECK(static_cast<int64_t>(before->size()) < o.trials);

    Fake rest(5, 0.1);
    auto finish = search::tune(work, target, o, environment(*store, rest));
    REQUIRE(finish.has_value());
    CHECK(finish->resumed);
    CHECK(finish->trials == o.trials);
    // Nothing is measured twice.
    CHECK(cut_off.inner.measured() + rest.inner.measured() == o.trials);
    CHECK(log_of(*store) == log_of(*whole));
    for (size_t t = 0; t < work.size(); ++t)
      CHECK(finish->tasks[t].best_nest_hash == uninterrupted->tasks[t].best_nest_hash);
  }
}

TEST_CASE("rounds of several tasks are planned and measured together, within the limits") {
  const target::Target target = avx512();
  const std::vector<task::Task> work = tasks();
  // Notes how many tasks each call has programs of.
  struct Watching : Fake {
    using Fake::Fake;
    std::vector<size_t> together;
    measure::MeasurerTraits traits() const override { return {.at_once = 4096, .tasks_at_once = 3}; }
    Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
      std::set<uint64_t> seen;
      for (const measure::Candidate& one : c) seen.insert(ir::hash_kernel(one.naive));
      together.push_back(seen.size());
      return Fake::measure(c);
    }
  };
  for (const int64_t own : {0, 1, 2}) {  // 0: as the measurer says
    CAPTURE(own);
    auto store = memory_store();
    Watching machine(5, 0.1);
    search::TuneOptions o = small_options();
    o.tasks_at_once = own;
    o.trials = 71;
    const auto tuned = search::tune(work, target, o, environment(*store, machine));
    REQUIRE(tuned.has_value());
    CHECK(tuned->trials == o.trials);
    CHECK(machine.inner.measured() == o.trials);
    const size_t most = own > 0 ? static_cast<size_t>(own) : 3;
    CHECK(*std::max_element(machine.together.begin(), machine.together.end()) == most);
    for (const search::TaskResult& t : tuned->tasks) CHECK(t.trials > 0);
  }
  // With a limit for each task, and two tasks that are forms of one.
  auto store = memory_store();
  Watching machine(5, 0.1);
  search::TuneOptions o = small_options();
  o.trials_per_task = 20, o.choices = {0, 0, 1};
  const auto tuned = search::tune(work, target, o, environment(*store, machine));
  REQUIRE(tuned.has_value());
  CHECK(tuned->tasks[0].trials + tuned->tasks[1].trials <= 20);
  CHECK(tuned->tasks[2].trials <= 20);
}

TEST_CASE("a checkpoint with a value of another type is not used, and the run starts anew", "[errors]") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  search::TuneOptions o = small_options(search::Strategy::kRandom);
  auto store = memory_store();
  {
    Fake cut_off(5, 0.1, 20);
    search::Environment env = environment(*store, cut_off);
    env.stop = [&] { return cut_off.left <= 0; };
    REQUIRE(search::tune(work, target, o, env)->stopped);
  }
  auto session = search::open_session(work, target, o, record::Kind::kMeasured, 0, *store);
  REQUIRE(session.has_value());
  REQUIRE(session->resumed);
  const std::string text = store->load_session(session->key)->value();
  for (auto [from, to] : {std::pair{"\"round\":", "\"round\":\"a\",\"was\":"},
                          std::pair{"\"history\":", "\"history\":{\"a\":1},\"was\":"},
                          std::pair{"\"best_nest_hash\":", "\"best_nest_hash\":[],\"was\":"},
                          std::pair{"\"version\":", "\"version\":null,\"was\":"}}) {
    INFO(to);
    std::string damaged = text;
    REQUIRE(damaged.find(from) != std::string::npos);
    damaged.replace(damaged.find(from), std::string(from).size(), to);
    REQUIRE(store->save_session(session->key, damaged).has_value());
    Fake machine(5, 0.1, 1);
    search::Environment env = environment(*store, machine);
    std::vector<std::string> notes;
    env.progress = [&](const search::Progress& p) {
      if (p.kind == search::Progress::Kind::kNote) notes.push_back(p.note);
    };
    env.stop = [&] { return machine.left <= 0; };
    auto result = search::tune(work, target, o, env);
    REQUIRE(result.has_value());
    CHECK_FALSE(result->resumed);
    REQUIRE(!notes.empty());
    CHECK_THAT(notes.front(), Catch::Contains("starting anew"));
  }
}

TEST_CASE("no program is measured twice, in one run or in a later one") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  auto store = memory_store();
  Fake machine(1, 0);
  for (uint64_t seed : {1, 1, 2}) {
    search::TuneOptions o = small_options();
    o.seed = seed;
    REQUIRE(search::tune(work, target, o, environment(*store, machine)).has_value());
  }
  auto records = store->all();
  REQUIRE(records.has_value());
  CHECK(records->size() == 216);
  std::set<std::pair<uint64_t, uint64_t>> programs;
  for (const record::Record& r : *records) CHECK(programs.insert({r.task, r.nest_hash}).second);
}

TEST_CASE("every task gets its rounds, and counts add up") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  work[0].weight = 1000;
  auto store = memory_store();
  Fake machine(3, 0.2);
  search::TuneOptions o = small_options();
  std::vector<search::Progress> events;
  search::Environment env = environment(*store, machine);
  env.progress = [&](const search::Progress& p) { events.push_back(p); };
  auto result = search::tune(work, target, o, env);
  REQUIRE(result.has_value());
  int64_t trials = 0;
  for (const search::TaskResult& t : result->tasks) {
    INFO(t.workload);
    CHECK(t.trials >= 9);  // softmax has no more programs
    CHECK(t.best_seconds > 0);
    CHECK(t.best_seconds <= t.first_seconds);
    CHECK(t.counts.measured + t.counts.wrong == t.trials);
    CHECK(t.counts.proposed >= t.trials);
    trials += t.trials;
  }
  CHECK(trials == result->trials);
  CHECK(result->tasks[0].trials > result->tasks[1].trials);
  CHECK(events.front().kind == search::Progress::Kind::kStarted);
  CHECK(events.back().kind == search::Progress::Kind::kFinished);
  CHECK(events.back().trials == o.trials);
}

TEST_CASE("limits") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  auto store = memory_store();
  Fake machine(3, 0);
  search::TuneOptions o = small_options();
  o.trials = 0;
  auto none = search::tune(work, target, o, environment(*store, machine));
  REQUIRE(!none.has_value());
  CHECK(none.error().cls == ErrorClass::kUsage);
  o.trials_per_task = 7;
  auto each = search::tune(work, target, o, environment(*store, machine));
  REQUIRE(each.has_value());
  for (const search::TaskResult& t : each->tasks) CHECK(t.trials == 7);
  o.trials_per_task = 0;
  o.seconds = 1e-9;
  auto timed = search::tune(work, target, o, environment(*store, machine));
  REQUIRE(timed.has_value());
  CHECK(timed->trials == 0);
}

TEST_CASE("a task whose programs all fail does not take the others' turns, and is tried again") {
  std::vector<task::Task> work = tasks();
  std::vector<search::TaskState> states(3);
  for (size_t i = 0; i < 3; ++i) states[i].task = &work[i];
  search::TuneOptions o;
  const search::Settings settings = search::settings_for(avx512());
  CHECK(search::next_task(states, o, settings, 0) == 1);  // the most arithmetic
  o.trials = 10;
  CHECK(search::trials_of_round(states[0], 3, o, settings, 0) == 2);  // two rounds each
  CHECK(search::trials_of_round(states[0], 20, o, settings, 0) == 1);
  CHECK(search::trials_of_round(states[0], 3, o, settings, 9) == 1);
  o.trials = 64;
  CHECK(search::trials_of_round(states[0], 1, o, settings, 0) == 16);
  CHECK(search::trials_of_round(states[0], 1, o, settings, 0, true) == 8);
  o.trials = 1000;
  CHECK(search::trials_of_round(states[0], 3, o, settings, 0) == o.round_size);
  o.seconds = 90;  // about 12 trials for each of 30 tasks: nobody waits until the time is over
  CHECK(search::trials_of_round(states[0], 30, o, settings, 0) == 6);
  o.seconds = 1;
  CHECK(search::trials_of_round(states[0], 30, o, settings, 0) == 1);
  o.seconds = 36000;
  CHECK(search::trials_of_round(states[0], 3, o, settings, 0) == o.round_size);
  o.seconds = 0;
  states[0].history = {0, 0};
  states[1].history = {1.0, 0.5};
  states[2].history = {2.0, 1.9};
  states[0].last_round = 3, states[1].last_round = 4, states[2].last_round = 5;
  CHECK(search::next_task(states, o, settings, 6) == 2);
  states[2].exhausted = true;
  CHECK(search::next_task(states, o, settings, 6) == 1);
  CHECK(search::next_task(states, o, settings, 40) == 0);
  states[0].exhausted = states[1].exhausted = true;
  CHECK(search::next_task(states, o, settings, 40) == -1);
}

TEST_CASE("forms of one choice share its trials, and one that is far behind gets no more") {
  std::vector<task::Task> work = tasks();
  std::vector<search::TaskState> states(3);
  for (size_t i = 0; i < 3; ++i) states[i].task = &work[i];
  CHECK(search::count_choices(states) == 3);
  states[0].choice = states[1].choice = 0;
  states[2].choice = 1;
  CHECK(search::count_choices(states) == 2);
  const search::Settings settings = search::settings_for(avx512());
  search::TuneOptions o;
  const auto after = [&](size_t at, std::vector<double> history) {
    states[at].best_seconds = history.back();
    states[at].history = std::move(history);
  };
  CHECK_FALSE(search::is_beaten(states, states[0]));  // nothing is known of either
  after(0, {1.0});
  CHECK_FALSE(search::is_beaten(states, states[1]));
  CHECK(search::next_task(states, o, settings, 1) == 1);  // every form has a first round
  after(1, {1.9});
  CHECK_FALSE(search::is_beaten(states, states[1]));
  after(1, {2.1});
  CHECK(search::is_beaten(states, states[1]));
  after(1, {1.9, 1.5});  // the more rounds it had, the less it may be behind
  CHECK(search::is_beaten(states, states[1]));
  after(1, {1.9, 1.5, 1.1});
  CHECK_FALSE(search::is_beaten(states, states[1]));
  after(1, {1.9, 1.5, 1.1, 0.8});
  CHECK(search::is_beaten(states, states[0]) == false);  // 1.25 times after one round
  CHECK(search::choice_seconds(states, states[0]) == 0.8 * static_cast<double>(work[0].weight));
  CHECK(search::choice_gain(states, states[1], settings) == search::scheduler_gain(states[1], settings));
  CHECK(search::choice_gain(states, states[0], settings) < search::scheduler_gain(states[0], settings));

  after(0, {3.0});
  after(2, {5.0});
  states[2].exhausted = true;
  for (int64_t round : {4, 400}) CHECK(search::next_task(states, o, settings, round) == 1);  // never the beaten one

  o.trials_per_task = 20;
  states[0].trials = 8, states[1].trials = 10;
  CHECK(search::rivals_of(states, states[1]).count == 1);
  CHECK(search::rivals_of(states, states[1]).trials == 8);
  CHECK(search::rivals_of(states, states[2]).count == 0);
  CHECK(search::trials_of_round(states[1], 2, o, settings, 18, true, search::rivals_of(states, states[1])) == 2);
  states[1].trials = 12;
  CHECK(search::next_task(states, o, settings, 5) == -1);
}

TEST_CASE("a search measures every form of a choice, and says which ones it gave up") {
  target::Target target = avx512();
  const std::vector<task::Task> work = tasks();
  search::TuneOptions o = small_options();
  o.trials = 60;
  o.finals = false;
  o.choices = {0, 0, 1};
  // The convolution is ten times as fast as the product that counts as the same.
  measure::FakeMeasurer machine([](const measure::Candidate& c) {
    size_t rank = 0;
    for (const ir::Buffer* b : c.kernel.buffers)
      if (b->role == ir::BufferRole::kOutput) rank = b->shape.size();
    return (rank == 4 ? 1e-6 : 1e-5) * (1 + 0.2 * Rng(c.nest_hash).uniform());
  });
  auto store = memory_store();
  auto result = search::tune(work, target, o, environment(*store, machine));
  REQUIRE(result.has_value());
  CHECK(result->trials == o.trials);
  CHECK(result->tasks[0].beaten);
  CHECK_FALSE(result->tasks[1].beaten);
  CHECK_FALSE(result->tasks[2].beaten);
  CHECK(result->tasks[0].trials > 0);
  o.choices = {};
  auto other = memory_store();
  auto apart = search::tune(work, target, o, environment(*other, machine));
  REQUIRE(apart.has_value());
  CHECK(result->tasks[0].trials < apart->tasks[0].trials);
}

namespace {

// Seconds from the rule model on the program that was handed over, plus noise from its hash.
measure::FakeMeasurer rule_machine(const target::Target& target) {
  return measure::FakeMeasurer([&target](const measure::Candidate& c) {
    const float score = cost::make_rule_model()->score(features::extract(features::kHotStatement, c.kernel, target));
    return std::exp2(-score) * 1e-9 * (1 + 0.2 * Rng(c.nest_hash).uniform());
  });
}

}  // namespace

TEST_CASE("evolution finds faster programs than random draws on a machine that follows the rules") {
  target::Target target = avx512();
  auto best = [&](const task::Task& task, search::Strategy strategy, uint64_t seed) {
    auto store = memory_store();
    measure::FakeMeasurer machine = rule_machine(target);
    search::TuneOptions o;
    o.trials = 24;  // random draws come close to the best with many more
    o.round_size = 8;
    o.population = 128;
    o.strategy = strategy;
    o.seed = seed;
    auto result = search::tune({&task, 1}, target, o, environment(*store, machine));
    REQUIRE(result.has_value());
    return result->tasks[0].best_seconds;
  };
  double gain = 1;
  // Large spaces: many tiles.
  for (const task::Task& task :
       {task::make_conv({.channels = 48, .filters = 96, .size = {56, 60}, .kernel = {3, 3}, .pads = {1, 1}}),
        task::make_conv({.channels = 256, .filters = 256, .size = {14, 14}, .kernel = {3, 3}, .pads = {1, 1}})}) {
    INFO(task.workload);
    double random = 0, low = HUGE_VAL, high = 0, sum = 0;
    for (uint64_t seed : {1, 2, 3}) {
      random += best(task, search::Strategy::kRandom, seed);
      double evolved = best(task, search::Strategy::kEvolutionary, seed);
      low = std::min(low, evolved), high = std::max(high, evolved), sum += evolved;
    }
    CHECK(sum < random);
    gain *= random / sum;
    CHECK(high < 1.2 * low);  // whatever the seed; the noise alone is 20 %
  }
  CHECK(gain > 1.1);
}

TEST_CASE("time that runs out within a round ends it, and what has been measured is kept") {
  struct Slow : measure::Measurer {
    measure::FakeMeasurer inner{3, 0};
    Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(6100));
      return inner.measure(c);
    }
  };
  std::vector<task::Task> work = {tasks()[0]};
  auto store = memory_store();
  Slow machine;
  search::TuneOptions o = small_options();
  o.trials = 0;
  o.round_size = 64;
  o.seconds = 6;  // enough to propose a round, which is of twelve then, however busy the machine
  auto result = search::tune(work, avx512(), o, environment(*store, machine));
  REQUIRE(result.has_value());
  CHECK_FALSE(result->stopped);
  CHECK(result->trials == 8);  // one handful, not the round
  CHECK(records_of(*store, work[0], 1).size() == 8);
  CHECK(result->tasks[0].best_seconds > 0);
}

TEST_CASE("a stopped run reports the best of its unfinished round") {
  std::vector<task::Task> work = {tasks()[0]};
  auto store = memory_store();
  Fake machine(5, 0, 8);
  search::Environment env = environment(*store, machine);
  env.stop = [&] { return machine.left <= 0; };
  auto result = search::tune(work, avx512(), small_options(), env);
  REQUIRE(result.has_value());
  CHECK(result->stopped);
  double best = HUGE_VAL;
  for (const record::Record& r : records_of(*store, work[0], 1)) best = std::min(best, r.median);
  CHECK(result->tasks[0].best_seconds == best);
}

TEST_CASE("a run on two threads begins with what was best on one") {
  std::vector<task::Task> work = {tasks()[1]};
  auto store = memory_store();
  Fake machine(5, 0);
  search::TuneOptions o = small_options();
  auto one = search::tune(work, avx512(), o, environment(*store, machine));
  REQUIRE(one.has_value());
  o.threads = 2;
  o.trials = 12;
  REQUIRE(search::tune(work, avx512(), o, environment(*store, machine)).has_value());
  std::vector<record::Record> records = records_of(*store, work[0], 2);
  REQUIRE(records.size() == 12);
  CHECK(records[0].nest_hash == one->tasks[0].best_nest_hash);
}

TEST_CASE("an earlier run on a related task leaves programs to begin with, and a resumed run keeps its own") {
  target::Target target = avx512();
  std::vector<task::Task> first = {task::make_gemm({.m = 64, .n = 96, .k = 48, .constant_weights = true})};
  std::vector<task::Task> second = {task::make_gemm({.m = 128, .n = 192, .k = 96, .constant_weights = true})};
  std::vector<task::Task> third = {task::make_gemm({.m = 32, .n = 64, .k = 96, .constant_weights = true})};
  auto run = [&](record::Store& store, const std::vector<task::Task>& work, int64_t limit) {
    Fake machine(5, 0, limit);
    search::Environment env = environment(store, machine);
    env.stop = [&] { return machine.left <= 0; };
    auto result = search::tune(work, target, small_options(), env);
    REQUIRE(result.has_value());
  };
  constexpr int64_t kAll = 1 << 30;
  auto cold = memory_store(), warm = memory_store(), cut = memory_store();
  run(*cold, second, kAll);
  run(*warm, first, kAll);
  run(*warm, second, kAll);
  auto skeletons = [&](const record::Store& store) {
    std::string text;
    for (const record::Record& r : records_of(store, second[0], 1)) text += record::hash_text(r.nest_hash) + "\n";
    return text;
  };
  CHECK(skeletons(*warm) != skeletons(*cold));
  // Interrupted; meanwhile another run of the family comes and goes.
  run(*cut, first, kAll);
  run(*cut, second, 20);
  run(*cut, third, kAll);
  run(*cut, second, kAll);
  CHECK(skeletons(*cut) == skeletons(*warm));
}

TEST_CASE("strategies have names") {
  for (const std::string& name : search::strategy_names())
    CHECK(search::strategy_name(*search::parse_strategy(name)) == name);
  CHECK(search::strategy_names() ==
        std::vector<std::string>{"evolutionary", "mh", "random", "replay", "roller", "gensor", "pruner", "moa-pruner"});
  CHECK(*search::parse_task_scheduler("round-robin") == search::TaskScheduler::kRoundRobin);
  CHECK(search::parse_task_scheduler("fifo").error().hint.find("gradient, round-robin") != std::string::npos);
  auto bad = search::parse_strategy("evolutionry");
  REQUIRE(!bad.has_value());
  CHECK(bad.error().hint.find("evolutionary") != std::string::npos);
}
