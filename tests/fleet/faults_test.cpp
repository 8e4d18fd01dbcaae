// What goes wrong in a fleet: servers that end or are full, hostile messages, jobs that do not end, wrong clocks.
#include <cstdlib>
#include <fstream>

#include "fixtures.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::fleet;
using namespace fleet_test;
using Catch::Matchers::Contains;

TEST_CASE("messages of strangers are counted and refused, and what they ask for is not done") {
  NEED_FLEET();
  TestFleet fleet;
  auto& [server, bus, runs] = fleet;
  WorkerThread worker(server, "w", runs.counting(0));
  auto tuner = open_tuner(server, "run");
  REQUIRE(tuner->measure(some_candidates(1)));
  const std::string subject = work_subject(tuner->machine_class(), 0), key = server.access("tuner").key;
  Job job{.id = "id1", .run = "other", .task = "0000000000000000", .tool = kTool, .programs = {{9, "", false}}};
  REQUIRE(bus->store(subject, "hello", "m1"));
  REQUIRE(bus->store(subject, seal("another key of 20 ch", subject, print_job(job)), "m2"));
  REQUIRE(bus->store(subject, seal(key, "tcc.work.other.0", print_job(job)), "m3"));
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

TEST_CASE("a server that is started again loses nothing, whether it was ended or killed") {
  NEED_FLEET();
  const int signal = GENERATE(SIGTERM, SIGKILL);
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  WorkerThread a(server, "a", make_fake_runner(0.02)), b(server, "b", make_fake_runner(0.02));
  auto tuner = open_tuner(server, "run");
  std::jthread restart([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    server.stop(signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    server.start();
  });
  const auto candidates = some_candidates(200);
  auto measured = tuner->measure(candidates);
  if (!measured) FAIL(measured.error().message);
  REQUIRE(measured->size() == 200);
  auto fake = make_fake_runner(0);
  for (size_t i = 0; i < 200; ++i) {
    const Answer expected = *fake->run({.programs = {{candidates[i].nest_hash, "", false}}}, {});
    CHECK((*measured)[i].median == expected.measured->median);
  }
  CHECK(tuner->counts().answered == 200);
}

TEST_CASE("a tuner whose server has a full store says so, and goes on when there is room", "[errors]") {
  NEED_FLEET();
  Server server;
  const auto start = [&](const char* limit) {
    server.stop();
    server.start_with(
        fmt::format("jetstream {{ store_dir: \"{}\", max_file_store: {} }}\n", server.store_folder(), limit));
  };
  start("2MB");
  Access access;
  access.url = server.url(), access.key = server.access("tuner").key;
  const auto connect = [&] {
    auto bus = Bus::connect(access, "test");
    if (!bus) FAIL(bus.error().message);
    return *bus;
  };
  auto bus = connect();
  REQUIRE(ensure_streams(*bus));
  WorkerOptions options = worker_options("w");
  std::atomic<bool> end{false};
  options.stop = [&] { return end.load(); };
  auto runner = make_fake_runner(0);
  std::jthread worker([&, bus = connect()] { (void)work(bus, access.key, options, *runner); });
  auto tuner = FleetMeasurer::open(connect(), tuner_options(server, "run"));
  if (!tuner) FAIL(tuner.error().message);
  REQUIRE((*tuner)->measure(some_candidates(3)));
  Result<void> stored;
  for (int i = 0; stored && i < 100; ++i) stored = bus->store(result_subject("other"), std::string(100000, 'x'), "");
  REQUIRE(!stored);
  CHECK_THAT(stored.error().message, Contains("is full"));
  const auto full = (*tuner)->measure(some_candidates(3, 100));
  REQUIRE(!full);
  CHECK_THAT(full.error().message, Contains("full"));
  CHECK_THAT(full.error().hint, Contains("free disk space"));
  start("64MB");
  const auto later = (*tuner)->measure(some_candidates(3, 100));
  if (!later) FAIL(later.error().message);
  CHECK(later->at(2).median > 0);
  end = true;
}

TEST_CASE("status tells of a clock that is wrong") {
  NEED_FLEET();
  Server server;
  const auto bus = server.connect_as("worker");
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  const std::string key = server.access("worker").key;
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  for (const auto& [name, ahead] : {std::pair("early", 3600), {"late", -3600}, {"right", 0}}) {
    Beat beat;
    beat.worker = name, beat.machine_class = "c", beat.state = "ready", beat.now = now + int64_t{1000} * ahead;
    REQUIRE(bus->store(beat_subject(name), seal(key, beat_subject(name), print_beat(beat)), ""));
  }
  const auto status = read_status(*server.connect_as("viewer"), server.access("viewer").key);
  REQUIRE(status);
  REQUIRE(status->workers.size() == 3);
  for (const WorkerStatus& w : status->workers) {
    const double ahead = w.beat.worker == "early" ? 3600 : w.beat.worker == "late" ? -3600 : 0;
    CHECK(std::abs(w.clock_skew - ahead) < 600);
    CHECK((std::abs(w.clock_skew) > kMostClockSkew) == (w.beat.worker != "right"));
  }
}

TEST_CASE("a job that takes too long is left to another worker, and the slow one says so") {
  NEED_FLEET();
  Server server;
  REQUIRE(ensure_streams(*server.connect_as("tuner")));
  // Measures nothing until it is let go.
  class StuckRunner : public Runner {
   public:
    explicit StuckRunner(std::atomic<bool>& go) : go_(go) {}
    record::Kind kind() const override { return record::Kind::kSimulated; }
    Result<Answer> run(const Job& job, const TaskText& task) override {
      while (!go_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return make_fake_runner(0)->run(job, task);
    }

   private:
    std::atomic<bool>& go_;
  };
  std::atomic<bool> go{false}, overdue{false};
  WorkerThread stuck(server, "stuck", std::make_unique<StuckRunner>(go), [&](WorkerOptions& o) {
    o.job_seconds = 0.5;
    o.overdue = [&] { overdue = true; };
  });
  auto tuner = open_tuner(server, "run");
  std::unique_ptr<WorkerThread> other;
  std::jthread late([&] {
    while (!overdue) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    other = std::make_unique<WorkerThread>(server, "other", make_fake_runner(0));
  });
  auto measured = tuner->measure(some_candidates(1));
  if (!measured) FAIL(measured.error().message);
  CHECK(measured->at(0).median > 0);
  late.join();
  CHECK(overdue);
  CHECK(other->stop()->done == 1);
  go = true;
  CHECK(stuck.stop());
}

TEST_CASE("a live worker goes on under hostile messages, and takes no memory for them", "[fuzz]") {
  NEED_FLEET();
  TestFleet fleet;
  auto& [server, bus, runs] = fleet;
  WorkerThread worker(server, "w", runs.counting(0));
  auto tuner = open_tuner(server, "run");
  REQUIRE(tuner->measure(some_candidates(1)));
  const std::string subject = work_subject(tuner->machine_class(), 0), key = server.access("tuner").key;
  const int64_t count = std::getenv("TCC_SOAK") != nullptr ? 100000 : 3000;
  const uint64_t seed = 20261127;
  CAPTURE(seed);
  Rng rng(seed);
  // Jobs that nobody can measure: of unknown tasks, of other versions, with damaged or with long bodies.
  Job job{.id = "id", .run = "other", .task = "0000000000000000", .tool = kTool, .programs = {{9, "", false}}};
  const auto rss = [] {  // MiB
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line))
      if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) / 1024;
    return 0LL;
  };
  const auto send = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      job.id = fmt::format("h{}", i);
      job.task = fmt::format("{:016x}", rng.next() % 4 == 0 ? 0 : rng.next());
      job.tool = rng.next() % 4 == 0 ? "test 0" : kTool;
      job.programs[0].trace = std::string(rng.next() % (rng.next() % 50 == 0 ? 200000 : 100), ' ');
      std::string body = print_job(job);
      if (rng.next() % 2 == 0) body.resize(1 + rng.next() % (body.size() - 1));
      if (rng.next() % 8 == 0) body.insert(rng.next() % body.size(), std::string(rng.next() % 5000, '['));
      std::string message = seal(key, subject, body);
      if (rng.next() % 8 == 0) message[rng.next() % message.size()] ^= 1;
      REQUIRE(bus->store(subject, message, fmt::format("m{}", i)));
    }
    REQUIRE(tuner->measure(some_candidates(3, static_cast<uint64_t>(from) + 1000)));  // behind them in the queue
  };
  send(0, count / 3);
  const int64_t before = rss();
  send(count / 3, count);
  const int64_t after = rss();
  CAPTURE(before, after);
  CHECK(runs.size() == 7);
  const auto report = worker.stop();
  REQUIRE(report);
  CHECK(report->refused >= count);
#ifndef __SANITIZE_ADDRESS__
  CHECK(after - before < 48);
#endif
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
