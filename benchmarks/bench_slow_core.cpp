// Networks on two cores while one of them has half its speed, beside the same library on two whole cores, in turns. The
// core is slowed by a thread with real-time priority that spins half of each period, a short one beside a run;
// ONNX Runtime meets the same.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "bench.h"
#include "networks.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 9;
constexpr double kPeriod = 200e-6;  // of which half is spun
const char* const kNetworks[] = {"resnet50", "mobilenet_v2", "bert-tiny"};

class SlowCore {
 public:
  explicit SlowCore(int cpu) : thread_([this, cpu] { spin(cpu); }) {}
  ~SlowCore() {
    stop_ = true;
    thread_.join();
  }
  void slow(bool on) { on_ = on; }
  bool is_real_time() const { return real_time_; }

 private:
  void spin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_param parameters{};
    parameters.sched_priority = 1;
    real_time_ = pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0 &&
                 pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
    while (!stop_) {
      const Stopwatch watch;
      while (on_ && watch.seconds() < kPeriod / 2) {
      }
      usleep(static_cast<useconds_t>(1e6 * kPeriod / 2));
    }
  }

  std::atomic<bool> on_ = false, stop_ = false, real_time_ = false;
  std::thread thread_;
};

void add_row(const std::string& name, const Contestant& whole, const Contestant& slowed, std::vector<Row>& rows) {
  if (const std::string& failure = whole.failure.empty() ? slowed.failure : whole.failure; !failure.empty()) {
    rows.push_back({name, 0, "bool", "did not run: " + failure, 0, 0});
    return;
  }
  Row row{name, 1e3 * median(slowed.seconds), "ms", "two whole cores", 1e3 * median(whole.seconds), 0};
  row.ratio = row.peer_value / row.value;
  rows.push_back(row);
}

void run_network(const NetworkBench& bench, const std::string& name, double seconds, std::vector<Row>& rows) {
  const std::vector<int> all = usable_cpus();
  const std::vector<int> cpus(all.end() - kThreads, all.end());
  const Network network{name, "zoo:" + name, std::nullopt};
  auto library = bench.build(network, kThreads);
  Contestant own = library ? bench.start_library(*library, kThreads, cpus) : failed(library.error());
  Contestant peer = bench.start_onnx_runtime(network, kThreads, cpus);
  Contestant slowed_own = own, slowed_peer = peer;
  SlowCore core(cpus.back());
  const Turns turns{.slice = seconds / kRounds, .rounds = 1};
  for (int round = 0; round < kRounds; ++round) {
    core.slow(false);
    time_in_turns(own, peer, turns);
    core.slow(true);
    time_in_turns(slowed_own, slowed_peer, turns);
  }
  if (!core.is_real_time())
    rows.push_back({name + " [slowed with real-time priority]", 0, "bool", "not permitted here: run it as root", 0, 0});
  add_row(name, own, slowed_own, rows);
  add_row(name + " [ONNX Runtime]", peer, slowed_peer, rows);
}

}  // namespace

std::vector<Row> run_slow_core_suite(double seconds) {
  std::vector<Row> rows;
  if (std::ssize(usable_cpus()) < kThreads) return {{"slow-core", 0, "", "left out: 1 CPU", 0, 0}};
  auto folder = TemporaryDirectory::create("tcc-bench-slow");
  if (!folder) return {{"slow-core", 0, "bool", "did not run: " + folder.error().message, 0, 0}};
  const NetworkBench bench((*folder)->path(), {.records = options().db});
  for (const char* name : kNetworks)
    if (wanted(name)) run_network(bench, name, seconds, rows);
  return rows;
}

}  // namespace tcc::benchmarks
