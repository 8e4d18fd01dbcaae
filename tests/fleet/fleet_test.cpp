// A fleet on the loopback: a real server, workers and a tuner as threads, programs whose times are made up.
#include <atomic>
#include <mutex>
#include <set>

#include "fleet/server.h"
#include "skip.h"
#include "tcc/fleet/measurer.h"
#include "tcc/fleet/status.h"
#include "tcc/fleet/worker.h"
#include "tcc/ir/text.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::fleet;
using namespace fleet_test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kTool = "test 1";

target::Target simulated_gpu() {
  auto target = target::find_target("a100");
  if (!target) FAIL(target.error().message);
  target->cuda.simulated = 7;
  return *target;
}

ir::Kernel a_kernel() {
  auto kernel = ir::parse(R"(kernel built {
  input A: f32[8]
  output B: f32[8]
  for i in 8 {
    block b(vi: spatial 8 = i) {
      B[vi] = A[vi] + 1.0
    }
  }
})");
  if (!kernel) FAIL(kernel.error().message);
  return *kernel;
}

std::vector<measure::Candidate> some_candidates(int count, uint64_t first = 1) {
  std::vector<measure::Candidate> out;
  const ir::Kernel kernel = a_kernel();
  for (int i = 0; i < count; ++i) {
    measure::Candidate c;
    c.id = static_cast<uint64_t>(i), c.nest_hash = first + static_cast<uint64_t>(i), c.naive = kernel;
    out.push_back(std::move(c));
  }
  return out;
}

WorkerOptions worker_options(const std::string& name) {
  WorkerOptions o;
  o.name = name, o.target = simulated_gpu(), o.platform = "test", o.tool = kTool;
  o.ack_wait = 2, o.beat_seconds = 0.5;
  return o;
}

// A worker on a thread, until it is stopped.
class WorkerThread {
 public:
  WorkerThread(const Server& server, const std::string& name, std::unique_ptr<Runner> runner,
               const std::function<void(WorkerOptions&)>& change = {})
      : runner_(std::move(runner)) {
    options_ = worker_options(name);
    if (change) change(options_);
    options_.stop = [this] { return stop_.load(); };
    const Access access = server.access("worker");
    bus_ = server.connect_as("worker");
    thread_ = std::jthread([this, key = access.key] { report_ = work(bus_, key, options_, *runner_); });
  }
  ~WorkerThread() { stop(); }
  const Result<WorkerReport>& stop() {
    stop_ = true;
    return join();
  }
  const Result<WorkerReport>& join() {
    if (thread_.joinable()) thread_.join();
    return report_;
  }

 private:
  std::unique_ptr<Runner> runner_;
  WorkerOptions options_;
  std::atomic<bool> stop_{false};
  std::shared_ptr<Bus> bus_;
  Result<WorkerReport> report_;
  std::jthread thread_;
};

TunerOptions tuner_options(const Server& server, const std::string& run) {
  TunerOptions o;
  o.key = server.access("tuner").key;
  o.target = simulated_gpu(), o.platform = "test", o.kind = record::Kind::kSimulated, o.tool = kTool;
  o.run = run, o.patience = 10, o.ack_wait = 2;
  return o;
}

std::unique_ptr<FleetMeasurer> open_tuner(const Server& server, const std::string& run) {
  auto measurer = FleetMeasurer::open(server.connect_as("tuner"), tuner_options(server, run));
  if (!measurer) FAIL(measurer.error().message);
  return std::move(*measurer);
}

// Counts how often each program is run.
class CountingRunner : public Runner {
 public:
  CountingRunner(std::multiset<uint64_t>& runs, std::mutex& mutex, double seconds)
      : runs_(runs), mutex_(mutex), fake_(make_fake_runner(seconds)) {}
  record::Kind kind() const override { return record::Kind::kSimulated; }
  Result<Answer> run(const Job& job, const TaskText& task) override {
    {
      std::lock_guard lock(mutex_);
      runs_.insert(job.programs[0].nest_hash);
    }
    return fake_->run(job, task);
  }

 private:
  std::multiset<uint64_t>& runs_;
  std::mutex& mutex_;
  std::unique_ptr<Runner> fake_;
};

// Asks until `done` or for 20 s. A worker tells its counts with its beats, so they come late.
std::optional<FleetStatus> wait_for_status(const Server& server, const std::function<bool(const FleetStatus&)>& done) {
  const auto bus = server.connect_as("viewer");
  const std::string key = server.access("viewer").key;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::optional<FleetStatus> last;
  while (std::chrono::steady_clock::now() < end && !(last && done(*last))) {
    auto status = read_status(*bus, key);
    if (!status) FAIL(status.error().message);
    last = std::move(*status);
  }
  return last;
}

}  // namespace

#define NEED_FLEET() \
  if (const std::string why = why_no_fleet(); !why.empty()) SKIP(why)

TEST_CASE("workers share the candidates, and each is measured once") {
  NEED_FLEET();
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  std::multiset<uint64_t> runs;
  std::mutex mutex;
  WorkerThread a(server, "a", std::make_unique<CountingRunner>(runs, mutex, 0.002)),
      b(server, "b", std::make_unique<CountingRunner>(runs, mutex, 0.002));
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
  Server server;
  auto bus = server.connect_as("tuner");
  REQUIRE(ensure_streams(*bus));
  std::multiset<uint64_t> runs;
  std::mutex mutex;
  const TunerOptions options = tuner_options(server, "run");
  auto first = std::make_unique<WorkerThread>(server, "first", std::make_unique<CountingRunner>(runs, mutex, 0));
  auto tuner = open_tuner(server, "run");
  first->stop();
  const std::string name = tuner->machine_class();
  // Takes messages and says nothing, as a worker does whose machine was switched off.
  auto silent = server.connect_as("worker")->pull(work_stream(name), std::string(kWorkersConsumer), work_subject(name));
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
    first = std::make_unique<WorkerThread>(server, "second", std::make_unique<CountingRunner>(runs, mutex, 0));
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
    first = std::make_unique<WorkerThread>(server, "third", std::make_unique<CountingRunner>(runs, mutex, 0));
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

TEST_CASE("messages of strangers are counted and refused, and what they ask for is not done") {
  NEED_FLEET();
  Server server;
  auto bus = server.connect_as("tuner");
  REQUIRE(ensure_streams(*bus));
  std::multiset<uint64_t> runs;
  std::mutex mutex;
  WorkerThread worker(server, "w", std::make_unique<CountingRunner>(runs, mutex, 0));
  auto tuner = open_tuner(server, "run");
  REQUIRE(tuner->measure(some_candidates(1)));
  const std::string subject = work_subject(tuner->machine_class()), key = server.access("tuner").key;
  Job job{.id = "id1", .run = "other", .task = "0000000000000000", .tool = kTool, .programs = {{9, "", false}}};
  REQUIRE(bus->store(subject, "hello", "m1"));
  REQUIRE(bus->store(subject, seal("another key of 20 ch", subject, print_job(job)), "m2"));
  REQUIRE(bus->store(subject, seal(key, "tcc.work.other", print_job(job)), "m3"));
  std::string old = print_job(job);
  old.replace(old.find("\"schema\":1"), 10, "\"schema\":0");
  REQUIRE(bus->store(subject, seal(key, subject, old), "m4"));
  REQUIRE(bus->store(subject, seal(key, subject, print_job(job)), "m5"));  // an unknown task
  job.id = "id2", job.tool = "test 0";
  REQUIRE(bus->store(subject, seal(key, subject, print_job(job)), "m6"));  // another version
  REQUIRE(
      bus->tell(std::string(kControlSubject), seal("another key of 20 ch", kControlSubject, print_control({"", 1}))));
  REQUIRE(bus->tell(std::string(kControlSubject), seal(key, kControlSubject, print_control({"", 1}))));  // years ago
  // Most carry the right key and a damaged body.
  constexpr int kDamaged = 2000;
  Rng rng(5);
  for (int i = 0; i < kDamaged; ++i) {
    std::string body = print_job(job);
    body.resize(1 + rng.next() % (body.size() - 1));
    std::string message = seal(key, subject, body);
    if (i % 4 == 0) message[rng.next() % message.size()] ^= 1;
    REQUIRE(bus->store(subject, message, fmt::format("d{}", i)));
  }
  // The worker goes on.
  auto measured = tuner->measure(some_candidates(3, 100));
  REQUIRE(measured);
  CHECK(runs.size() == 4);
  REQUIRE(wait_for_status(
      server, [](const FleetStatus& s) { return s.workers.size() == 1 && s.workers[0].beat.refused >= 7 + kDamaged; }));
  const auto report = worker.stop();
  REQUIRE(report);
  CHECK(report->refused == 7 + kDamaged);
}

TEST_CASE("a worker drains when it is asked to") {
  NEED_FLEET();
  Server server;
  auto bus = server.connect_as("tuner");
  REQUIRE(ensure_streams(*bus));
  std::multiset<uint64_t> runs;
  std::mutex mutex;
  constexpr int kCandidates = 150;
  WorkerThread a(server, "a", std::make_unique<CountingRunner>(runs, mutex, 0.02)),
      b(server, "b", std::make_unique<CountingRunner>(runs, mutex, 0.02));
  auto tuner = open_tuner(server, "run");
  std::jthread later([&] {
    const auto begun = [&] {
      std::lock_guard lock(mutex);
      return runs.size() >= 10;
    };
    while (!begun()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
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
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  const auto speed = [](double seconds) { return [seconds](WorkerOptions& o) { o.calibration = seconds; }; };
  WorkerThread first(server, "first", make_fake_runner(0), speed(1e-3));
  REQUIRE(wait_for_status(server, [](const FleetStatus& s) { return s.workers.size() == 1; }));
  WorkerThread same(server, "same", make_fake_runner(0), speed(1.04e-3));
  WorkerThread slow(server, "slow", make_fake_runner(0), speed(1.06e-3));
  const auto refused = slow.join();
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message, Contains("within 5 %") && Contains("1 ms") && Contains("1.06 ms"));
  CHECK(same.stop());
  CHECK(first.stop());
  // Nobody of the class lives, so another speed begins anew.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  WorkerThread next(server, "next", make_fake_runner(0), speed(1.06e-3));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  CHECK(next.stop());
}

TEST_CASE("a server that is started again loses nothing") {
  NEED_FLEET();
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  WorkerThread a(server, "a", make_fake_runner(0.02)), b(server, "b", make_fake_runner(0.02));
  auto tuner = open_tuner(server, "run");
  std::jthread restart([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    server.stop(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    server.start();
  });
  auto measured = tuner->measure(some_candidates(200));
  if (!measured) FAIL(measured.error().message);
  CHECK(measured->size() == 200);
  for (const measure::Measurement& m : *measured) CHECK(m.median > 0);
}

TEST_CASE("a tuner without workers, or without a server, says so and stops; with this machine behind it goes on") {
  NEED_FLEET();
  Server server;
  TunerOptions options = tuner_options(server, "run");
  options.patience = 1.5;
  auto none = FleetMeasurer::open(server.connect_as("tuner"), options);
  REQUIRE(!none);
  CHECK_THAT(none.error().message, Contains("expected workers for a100") && Contains("no worker"));
  CHECK_THAT(none.error().hint, Contains("tcc fleet work"));
  WorkerThread other(server, "w", make_fake_runner(0), [](WorkerOptions& o) { o.tool = "test 2"; });
  none = FleetMeasurer::open(server.connect_as("tuner"), options);
  REQUIRE(!none);
  CHECK_THAT(none.error().message, Contains("w (it is tcc test 2)"));

  auto worker = std::make_unique<WorkerThread>(server, "x", make_fake_runner(0));
  options.patience = 5;
  auto tuner = FleetMeasurer::open(server.connect_as("tuner"), options);
  REQUIRE(tuner);
  REQUIRE((*tuner)->measure(some_candidates(2)));
  worker.reset();
  server.stop(SIGKILL);

  class Local : public measure::Measurer {
   public:
    Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override {
      std::vector<measure::Measurement> out(candidates.size());
      for (size_t i = 0; i < out.size(); ++i) out[i].id = candidates[i].id, out[i].median = 1;
      return out;
    }
  } local;
  bool opened = false;
  FleetOrLocal both(
      std::move(*tuner),
      [&]() -> Result<measure::Measurer*> {
        opened = true;
        return &local;
      },
      nullptr);
  auto measured = both.measure(some_candidates(2, 50));
  if (!measured) FAIL(measured.error().message);
  CHECK(opened);
  CHECK((*measured)[1].median == 1);
  server.start();
}
