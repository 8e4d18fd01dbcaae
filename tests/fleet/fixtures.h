// A tuner and workers as threads, with programs whose times are made up.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fleet/server.h"
#include "skip.h"
#include "tcc/fleet/measurer.h"
#include "tcc/fleet/status.h"
#include "tcc/fleet/worker.h"
#include "tcc/ir/text.h"

// Ends the test case where fleets cannot be tested.
#define NEED_FLEET() \
  if (const std::string why = fleet_test::why_no_fleet(); !why.empty()) SKIP(why)

namespace fleet_test {

using namespace tcc::fleet;

inline constexpr const char* kTool = "test 1";

inline target::Target simulated_gpu() {
  auto target = target::find_target("a100");
  if (!target) FAIL(target.error().message);
  target->cuda.simulated = 7;
  return *target;
}

inline ir::Kernel a_kernel() {
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

inline std::vector<measure::Candidate> some_candidates(int count, uint64_t first = 1) {
  std::vector<measure::Candidate> out;
  const ir::Kernel kernel = a_kernel();
  for (int i = 0; i < count; ++i) {
    measure::Candidate c;
    c.id = static_cast<uint64_t>(i), c.nest_hash = first + static_cast<uint64_t>(i), c.naive = kernel;
    out.push_back(std::move(c));
  }
  return out;
}

inline WorkerOptions worker_options(const std::string& name) {
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

inline TunerOptions tuner_options(const Server& server, const std::string& run) {
  TunerOptions o;
  o.key = server.access("tuner").key;
  o.target = simulated_gpu(), o.platform = "test", o.kind = record::Kind::kSimulated, o.tool = kTool;
  o.run = run, o.patience = 10, o.ack_wait = 2;
  return o;
}

inline std::unique_ptr<FleetMeasurer> open_tuner(const Server& server, const std::string& run) {
  auto measurer = FleetMeasurer::open(server.connect_as("tuner"), tuner_options(server, run));
  if (!measurer) FAIL(measurer.error().message);
  return std::move(*measurer);
}

// Which programs workers run, and how often.
class Runs {
 public:
  // A runner of made-up times that counts here.
  std::unique_ptr<Runner> counting(double seconds) { return std::make_unique<Counting>(*this, seconds); }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return nests_.size();
  }

 private:
  class Counting : public Runner {
   public:
    Counting(Runs& runs, double seconds) : runs_(runs), fake_(make_fake_runner(seconds)) {}
    record::Kind kind() const override { return record::Kind::kSimulated; }
    Result<Answer> run(const Job& job, const TaskText& task) override {
      {
        std::lock_guard lock(runs_.mutex_);
        runs_.nests_.insert(job.programs[0].nest_hash);
      }
      return fake_->run(job, task);
    }

   private:
    Runs& runs_;
    std::unique_ptr<Runner> fake_;
  };

  mutable std::mutex mutex_;
  std::multiset<uint64_t> nests_;
};

// A server with the streams of a fleet, a tuner's connection, and what the workers ran.
struct TestFleet {
  Server server;
  std::shared_ptr<Bus> bus = server.connect_as("tuner");
  Runs runs;
  TestFleet() { REQUIRE(ensure_streams(*bus)); }
};

// Asks until `done` or for 20 s. A worker tells its counts with its beats, so they come late.
inline std::optional<FleetStatus> wait_for_status(const Server& server,
                                                  const std::function<bool(const FleetStatus&)>& done) {
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

}  // namespace fleet_test
