// References are made ahead of need, and finals end in time.
#include "search/preparation.h"

#include <atomic>
#include <thread>

#include "search/best.h"
#include "search/scheduler.h"
#include "small_run.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

// Notes which thread prepares, and what is measured meanwhile.
struct Watched : Fake {
  bool beside;
  std::atomic<int> prepared{0}, preparing{0}, most_at_once{0}, beside_measuring{0};
  std::atomic<bool> measuring{false};
  std::string failing;  // the workload that cannot be prepared

  explicit Watched(bool beside_) : Fake(9, 0), beside(beside_) {}
  measure::MeasurerTraits traits() const override { return {.prepares_beside = beside}; }
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel&, const target::Target&) override {
    const int now = ++preparing;
    int most = most_at_once;
    while (now > most && !most_at_once.compare_exchange_weak(most, now)) {
    }
    if (measuring) ++beside_measuring;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (measuring) ++beside_measuring;
    --preparing;
    if (++prepared == 2 && !failing.empty()) return environment_error("{}", failing);
    return std::shared_ptr<const measure::MeasureTask>();
  }
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
    measuring = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto result = Fake::measure(c);
    measuring = false;
    return result;
  }
};

}  // namespace

TEST_CASE("references are never made while programs are timed, unless the measurer allows it") {
  const std::vector<task::Task> work = tasks();
  ThreadPool pool(3);
  for (bool beside : {false, true}) {
    auto store = memory_store();
    Watched machine(beside);
    auto result = search::tune(work, avx512(), small_options(), environment(*store, machine, &pool));
    REQUIRE(result.has_value());
    CHECK(machine.prepared == 3);  // each task once
    if (!beside) CHECK(machine.beside_measuring == 0);
    if (beside) CHECK(machine.most_at_once == 1);
    for (const search::TaskResult& t : result->tasks) CHECK(t.best_seconds > 0);
    CHECK(result->phases.prepare > 0);
  }
}

TEST_CASE("a run finds the same programs whichever way its references are made") {
  const std::vector<task::Task> work = tasks();
  std::string logs[2];
  for (bool beside : {false, true}) {
    ThreadPool pool(2);
    auto store = memory_store();
    Watched machine(beside);
    REQUIRE(search::tune(work, avx512(), small_options(), environment(*store, machine, &pool)).has_value());
    logs[beside] = log_of(*store);
  }
  CHECK(logs[0] == logs[1]);
}

TEST_CASE("a reference that cannot be made ends the tuning of its task alone") {
  const std::vector<task::Task> work = tasks();
  for (bool beside : {false, true}) {
    auto store = memory_store();
    Watched machine(beside);
    machine.failing = "no memory for it";
    auto result = search::tune(work, avx512(), small_options(), environment(*store, machine));
    REQUIRE(result.has_value());
    CHECK(std::count_if(result->tasks.begin(), result->tasks.end(),
                        [](const search::TaskResult& t) { return t.failure == "no memory for it"; }) == 1);
    CHECK(std::count_if(result->tasks.begin(), result->tasks.end(),
                        [](const search::TaskResult& t) { return t.best_seconds > 0; }) == 2);
  }
}

TEST_CASE("tasks without a round come in the order of their arithmetic") {
  const std::vector<task::Task> work = tasks();
  std::vector<search::TaskState> states(3);
  for (size_t i = 0; i < 3; ++i) states[i].task = &work[i];
  const search::TuneOptions options = small_options();
  const std::vector<size_t> order = search::unseen_tasks(states, options, *options.settings);
  REQUIRE(order.size() == 3);
  auto size = [&](size_t i) { return static_cast<double>(work[i].weight) * work[i].flops; };
  CHECK(size(order[0]) >= size(order[1]));
  CHECK(size(order[1]) >= size(order[2]));
  CHECK(search::next_task(states, options, *options.settings, 0) == static_cast<int64_t>(order[0]));
  states[order[0]].turn = 1;  // a form that is measured after all others
  CHECK(search::unseen_tasks(states, options, *options.settings) == std::vector<size_t>{order[1], order[2], order[0]});
  states[order[0]].failure = "gone";
  CHECK(search::unseen_tasks(states, options, *options.settings) == std::vector<size_t>{order[1], order[2]});
}

namespace {

// Times of programs are given; counts what finals ask for.
struct Finals : Fake {
  int64_t compared = 0, timed = 0;
  bool counting = false;
  Finals() : Fake(9, 0) {}
  measure::MeasurerTraits traits() const override { return {.compares = true}; }
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> c) override {
    if (counting) timed += static_cast<int64_t>(c.size());
    return Fake::measure(c);
  }
  Result<measure::PairedComparison> compare(const measure::Candidate&, const measure::Candidate&,
                                            measure::PairAim) override {
    ++compared;
    return measure::PairedComparison{};
  }
};

// A task whose best programs take `seconds`; the run that made the states is behind it.
search::TaskState tuned_state(const task::Task& task, record::Store& store, Finals& machine,
                              const search::TuneOptions& options, std::vector<double> seconds) {
  const std::vector<task::Task> work = {task};
  search::TuneOptions o = options;
  o.finals = false;
  REQUIRE(search::tune(work, avx512(), o, environment(store, machine)).has_value());
  auto state = search::load_task(task, avx512(), o, features::kHotStatement, store, -1);
  REQUIRE(state.has_value());
  REQUIRE(state->known.size() > seconds.size());
  size_t next = 0;
  for (search::Known& k : state->known) {
    if (k.seconds <= 0 || k.sketch < 0) continue;
    k.seconds = next < seconds.size() ? seconds[next] : 1;
    ++next;
  }
  state->best_seconds = seconds[0];
  state->prepared = true;
  return std::move(*state);
}

}  // namespace

TEST_CASE("finals are for programs within 3 % of the fastest") {
  const task::Task task = tasks()[0];
  for (const auto& [second, expected] : {std::pair(1.02e-5, true), std::pair(1.05e-5, false)}) {
    auto store = memory_store();
    Finals machine;
    search::TaskState state = tuned_state(task, *store, machine, small_options(), {1e-5, second});
    machine.counting = true;
    REQUIRE(search::rerank_task(state, avx512(), small_options(), environment(*store, machine)).has_value());
    INFO(second);
    CHECK((machine.timed > 0) == expected);
  }
}

TEST_CASE("finals leave out small tasks and end with their share of the run") {
  const std::vector<task::Task> work = tasks();
  auto store = memory_store();
  Finals machine;
  std::vector<search::TaskState> states;
  states.push_back(tuned_state(work[0], *store, machine, small_options(), {1e-3, 1.001e-3}));
  states.push_back(tuned_state(work[1], *store, machine, small_options(), {5e-6, 5.001e-6}));  // half a percent
  machine.counting = true;
  auto records = [&](size_t i) { return records_of(*store, work[i], 1).size(); };
  const size_t before[] = {records(0), records(1)};
  search::TuneOptions options = small_options();
  options.finals_share = 1;
  const auto silent = [](int64_t, int64_t) {};
  REQUIRE(search::rerank_finalists(states, avx512(), options, environment(*store, machine), Stopwatch(), silent)
              .has_value());
  CHECK(records(0) > before[0]);
  CHECK(records(1) == before[1]);

  // A share of 0 leaves no time.
  const int64_t timed = machine.timed;
  options.finals_share = 0;
  REQUIRE(search::rerank_finalists(states, avx512(), options, environment(*store, machine), Stopwatch(), silent)
              .has_value());
  CHECK(machine.timed == timed);
}
