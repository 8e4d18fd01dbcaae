// A fleet on the loopback: a real server, workers and a tuner as threads, programs whose times are made up.
#include <map>

#include "fixtures.h"

using namespace tcc;
using namespace tcc::fleet;
using namespace fleet_test;
using Catch::Matchers::Contains;

TEST_CASE("workers share the candidates, and each is measured once") {
  NEED_FLEET();
  TestFleet fleet;
  auto& [server, bus, runs] = fleet;
  WorkerThread a(server, "a", runs.counting(0.002)), b(server, "b", runs.counting(0.002));
  auto tuner = open_tuner(server, "run1");
  CHECK(tuner->traits().kind == record::Kind::kSimulated);
  const auto candidates = some_candidates(100);
  auto measured = tuner->measure(candidates);
  if (!measured) FAIL(measured.error().message);
  REQUIRE(measured->size() == 100);
  auto fake = make_fake_runner(0);
  for (size_t i = 0; i < 100; ++i) {
    CHECK((*measured)[i].id == i);
    const Answer expected = *fake->run({.programs = {{candidates[i].nest_hash, "", false}}}, {});
    CHECK((*measured)[i].median == expected.measured->median);
  }
  CHECK(runs.size() == 100);
  // An interrupted tuner of the same run gets the answers that are there; another run measures anew.
  tuner = open_tuner(server, "run1");
  auto again = tuner->measure(candidates);
  REQUIRE(again);
  CHECK((*again)[7].median == (*measured)[7].median);
  CHECK(runs.size() == 100);
  tuner = open_tuner(server, "run2");
  REQUIRE(tuner->measure(some_candidates(5)));
  CHECK(runs.size() == 105);
  const auto report_a = a.stop(), report_b = b.stop();
  REQUIRE(report_a);
  REQUIRE(report_b);
  CHECK(report_a->done + report_b->done == 105);
  CHECK(report_a->done > 0);
  CHECK(report_b->done > 0);
}

TEST_CASE("a candidate whose worker falls silent goes to another; one that ends three is set aside with its record") {
  NEED_FLEET();
  TestFleet fleet;
  auto& [server, bus, runs] = fleet;
  const TunerOptions options = tuner_options(server, "run");
  auto first = std::make_unique<WorkerThread>(server, "first", runs.counting(0));
  auto tuner = open_tuner(server, "run");
  first->stop();
  const std::string name = tuner->machine_class();
  // Takes messages and says nothing, as a worker does whose machine was switched off.
  auto silent = server.connect_as("worker")->pull(work_stream(name), lane_consumer(0), work_subject(name, 0));
  REQUIRE(silent);
  std::atomic<int> taken{0};
  std::jthread thief([&](const std::stop_token& token) {
    std::vector<std::unique_ptr<Delivery>> kept;
    while (!token.stop_requested() && taken < 1) {
      auto delivery = (*silent)->next(0.2);
      if (delivery && *delivery) kept.push_back(std::move(*delivery)), ++taken;
    }
  });
  std::jthread late([&] {
    while (taken < 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first = std::make_unique<WorkerThread>(server, "second", runs.counting(0));
  });
  auto measured = tuner->measure(some_candidates(3));
  if (!measured) FAIL(measured.error().message);
  CHECK(runs.size() == 3);
  late.join();
  first->stop();
  thief.request_stop();
  thief.join();

  // Three silent deliveries, then a worker sees the fourth.
  taken = 0;
  std::jthread thieves([&] {
    while (taken < 3) {
      auto delivery = (*silent)->next(0.2);
      if (delivery && *delivery) ++taken;
    }
    first = std::make_unique<WorkerThread>(server, "third", runs.counting(0));
  });
  auto poison = tuner->measure(some_candidates(1, 500));
  if (!poison) FAIL(poison.error().message);
  CHECK((*poison)[0].status == record::Status::kCrashed);
  CHECK_THAT((*poison)[0].failure, Contains("3 workers"));
  CHECK(runs.size() == 3);
  CHECK(tuner->counts().poisoned == 1);
  thieves.join();
  const auto report = first->stop();
  REQUIRE(report);
  CHECK(report->poisoned == 1);
  const auto status = read_status(*server.connect_as("viewer"), server.access("viewer").key);
  REQUIRE(status);
  CHECK(status->poison == 1);
}

TEST_CASE("a worker may come before the first tuner") {
  NEED_FLEET();
  Server server;
  std::atomic<bool> waiting{false};
  WorkerThread early(server, "early", make_fake_runner(0), [&](WorkerOptions& o) {
    o.calibration = 1e-3;
    o.note = [&](const std::string& text) { waiting = waiting || text == "waiting for a tuner"; };
  });
  while (!waiting) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  auto tuner = open_tuner(server, "run");
  REQUIRE(tuner->measure(some_candidates(3)));
  CHECK(tuner->calibration() == 1e-3);
  CHECK(early.stop()->done == 3);
}

TEST_CASE("a worker drains when it is asked to") {
  NEED_FLEET();
  TestFleet fleet;
  auto& [server, bus, runs] = fleet;
  constexpr int kCandidates = 150;
  WorkerThread a(server, "a", runs.counting(0.02)), b(server, "b", runs.counting(0.02));
  auto tuner = open_tuner(server, "run");
  std::jthread later([&] {
    while (runs.size() < 10) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(drain(*bus, server.access("tuner").key, "a"));
  });
  auto measured = tuner->measure(some_candidates(kCandidates));
  if (!measured) FAIL(measured.error().message);
  const auto report = a.join();
  REQUIRE(report);
  CHECK(report->done < kCandidates / 2);
  const auto status = wait_for_status(server, [&](const FleetStatus& s) {
    return s.workers.size() == 1 && s.workers[0].beat.done + report->done == kCandidates;
  });
  REQUIRE(status);
  REQUIRE(status->workers.size() == 1);
  CHECK(status->workers[0].beat.worker == "b");
  CHECK(status->workers[0].beat.done + report->done == kCandidates);
  REQUIRE(status->classes.size() == 1);
  CHECK(status->classes[0].waiting == 0);
}

TEST_CASE("machines of one class that are not equally fast do not mix") {
  NEED_FLEET();
  CHECK(running_system() == running_system());
  CHECK(running_system().size() == 16);
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  const auto speed = [](double seconds, const char* machine = "") {
    return [=](WorkerOptions& o) { o.calibration = seconds, o.machine = machine; };
  };
  WorkerThread first(server, "first", make_fake_runner(0), speed(1e-3, "one"));
  REQUIRE(wait_for_status(server, [](const FleetStatus& s) { return s.workers.size() == 1; }));
  // Beside a worker of the same machine the kernel is slower.
  WorkerThread beside(server, "beside", make_fake_runner(0), speed(1.2e-3, "one"));
  WorkerThread small_core(server, "small-core", make_fake_runner(0), speed(1.3e-3, "one"));
  const auto other_core = small_core.join();
  REQUIRE(!other_core);
  CHECK_THAT(other_core.error().message, Contains("within 25 %"));
  CHECK(beside.stop());
  WorkerThread same(server, "same", make_fake_runner(0), speed(1.04e-3));
  WorkerThread slow(server, "slow", make_fake_runner(0), speed(1.06e-3));
  // Another program ran while this one's kernel was timed first.
  WorkerThread disturbed(server, "disturbed", make_fake_runner(0), [](WorkerOptions& o) {
    o.calibration = 1.2e-3, o.machine = "another";
    o.calibrate_again = [left = 3]() mutable { return --left > 0 ? 1.1e-3 : 1.02e-3; };
  });
  const auto refused = slow.join();
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message, Contains("within 5 %") && Contains("1 ms") && Contains("1.06 ms"));
  CHECK(wait_for_status(server, [](const FleetStatus& s) { return s.workers.size() == 3; })->workers.size() == 3);
  CHECK(disturbed.stop());
  CHECK(same.stop());
  CHECK(first.stop());
  // Nobody of the class lives, so another speed begins anew.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  WorkerThread next(server, "next", make_fake_runner(0), speed(1.06e-3));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  CHECK(next.stop());
}

TEST_CASE("the jobs of a task are in one lane where a round has several tasks, and no lane is left behind") {
  NEED_FLEET();
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  // Which tasks each of two workers has had.
  class TaskRunner : public Runner {
   public:
    TaskRunner(std::map<std::string, int>& tasks, std::mutex& mutex) : tasks_(tasks), mutex_(mutex) {}
    record::Kind kind() const override { return record::Kind::kSimulated; }
    Result<Answer> run(const Job& job, const TaskText& task) override {
      {
        std::lock_guard lock(mutex_);
        ++tasks_[job.task];
      }
      return make_fake_runner(0.02)->run(job, task);
    }

   private:
    std::map<std::string, int>& tasks_;
    std::mutex& mutex_;
  };
  std::map<std::string, int> a_tasks, b_tasks;
  std::mutex mutex;
  WorkerThread a(server, "a", std::make_unique<TaskRunner>(a_tasks, mutex)),
      b(server, "b", std::make_unique<TaskRunner>(b_tasks, mutex));
  auto tuner = open_tuner(server, "run");
  REQUIRE(tuner->measure(some_candidates(8)));  // both are at work
  {
    std::lock_guard lock(mutex);
    a_tasks.clear(), b_tasks.clear();
  }
  constexpr int kTasks = kLanes, kEach = 16;
  for (uint64_t wave = 0; wave < 2; ++wave) {
    std::vector<measure::Candidate> candidates;
    for (int t = 0; t < kTasks; ++t) {
      auto kernel = ir::parse(fmt::format(
          "kernel built {{\n  input A: f32[8]\n  output B: f32[8]\n  for i in 8 {{\n    block b(vi: spatial 8 = i) {{\n"
          "      B[vi] = A[vi] + {}.0\n    }}\n  }}\n}}",
          t + 2));
      if (!kernel) FAIL(kernel.error().message);
      for (measure::Candidate& c : some_candidates(kEach, 10000 * (wave + 1) + 100 * static_cast<uint64_t>(t))) {
        c.naive = *kernel;
        candidates.push_back(std::move(c));
      }
    }
    auto measured = tuner->measure(candidates);
    if (!measured) FAIL(measured.error().message);
    for (const measure::Measurement& m : *measured) CHECK(m.median > 0);
  }
  std::lock_guard lock(mutex);
  int total = 0, apart = 0;
  for (const auto& [task, count] : a_tasks) total += count, apart += std::max(count, b_tasks[task]);
  for (const auto& [task, count] : b_tasks) {
    total += count;
    if (!a_tasks.contains(task)) apart += count;
  }
  CHECK(total == 2 * kTasks * kEach);
  CHECK(apart > total * 6 / 10);  // a half would be chance
}

// 100,000 under `tools/soak`.
