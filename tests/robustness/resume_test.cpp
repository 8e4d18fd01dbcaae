// A tuning run that is killed goes on as if it had not been. The run is this program again, with a fake machine and a
// store on disk.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "cli/runner.h"
#include "fake_measurer.h"
#include "sample_tasks.h"
#include "tcc/schedule/trace.h"
#include "tcc/search/search.h"
#include "tcc/support/rng.h"

using namespace tcc;
using cli_test::Sandbox;

namespace {

constexpr const char* kRunName = "one tuning run on the store that the environment names";

std::vector<task::Task> tasks() {
  std::vector<task::Task> out;
  out.push_back(task::make_gemm({.m = 64, .n = 96, .k = 48, .bias = true, .constant_weights = true}));
  out.push_back(task::make_softmax({16, 64}, 1));
  return out;
}

record::Record baseline(const task::Task& task, const target::Target& target) {
  auto program = search::unscheduled_program(task, target);
  REQUIRE(program.has_value());
  record::Record r;
  r.task = std::stoull(task.key, nullptr, 16);
  r.workload = task.workload;
  r.target = target.name;
  r.target_features = target::feature_hash(target);
  r.skeleton = schedule::skeleton_hash(schedule::Trace{});
  r.trace = program->trace;
  r.nest_hash = program->nest_hash;
  r.median = 1e-3;
  return r;
}

// Appends one byte whenever a record is about to be written: when it grows to n, n - 1 records are on disk.
class Ticks {
 public:
  explicit Ticks(const std::string& path) : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)) {}
  ~Ticks() { close(fd_); }
  void tick() const { REQUIRE(write(fd_, ".", 1) == 1); }

 private:
  int fd_;
};

void run(const std::string& path) {
  auto store = record::Store::open(path);
  REQUIRE(store.has_value());
  auto target = target::find_target("x86-64-v4").value();
  Ticks ticks(path + ".ticks");
  measure::FakeMeasurer machine(5, 0.1);
  search::Environment env;
  env.store = store->get();
  env.measurer = &machine;
  env.now = [&] {
    ticks.tick();
    return int64_t{1700000000};
  };
  env.tool_version = "test";
  // As the driver does it: the plain program is measured before a task's first round.
  env.before_first_round = [&](const task::Task& task, const measure::MeasureTask*) -> Result<void> {
    const record::Record r = baseline(task, target);
    if (!(*store)->contains(r.task, r.target_features, r.nest_hash, r.threads).value()) {
      ticks.tick();
      REQUIRE((*store)->add(r).has_value());
    }
    return {};
  };
  search::TuneOptions options;
  options.trials = 60;
  options.round_size = 12;
  options.population = 48;
  options.generations = 2;
  options.seed = 11;
  auto result = search::tune(tasks(), target, options, env);
  REQUIRE(result.has_value());
  CHECK(result->trials == options.trials);
}

std::vector<record::Record> records_of(const std::string& path) {
  auto store = record::Store::open(path);
  REQUIRE(store.has_value());
  auto records = (*store)->all();
  REQUIRE(records.has_value());
  return *records;
}

// Every field that the run decides, in order of the records. Ids need not be the same: a transaction that was cut off
// may use one up.
std::string log_of(const std::vector<record::Record>& records) {
  std::string log;
  for (const record::Record& r : records)
    log += fmt::format("{} {} {} {} {} {:.17g} {:.17g} {} {}\n", record::hash_text(r.task),
                       record::hash_text(r.nest_hash), record::hash_text(r.skeleton), record::status_name(r.status),
                       r.failure, r.median, r.high, r.unix_time, r.trace);
  return log;
}

int64_t ticks_of(const std::string& path) {
  return static_cast<int64_t>(cli_test::slurp(path + ".ticks").size());
}

// Waits until the run has ticked `ticks` times, or has ended. Moments are counted in steps of the run: in seconds, a
// machine that becomes faster after the first run would be through before it is killed.
void wait_for_ticks(pid_t pid, const std::string& path, int64_t ticks) {
  siginfo_t info{};
  while (ticks_of(path) < ticks) {
    REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    if (info.si_pid == pid) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

pid_t start_run(const Sandbox& box, const std::string& path) {
  return box.start(
      {"env", "TCC_TEST_STORE=" + path, std::filesystem::read_symlink("/proc/self/exe").string(), kRunName});
}

}  // namespace

TEST_CASE("one tuning run on the store that the environment names", "[.]") {
  const char* path = getenv("TCC_TEST_STORE");
  REQUIRE(path != nullptr);
  run(path);
}

TEST_CASE("kill -9 at any moment: nothing finished is lost, and the rest is proposed as if nothing had happened",
          "[errors]") {
  Sandbox box;
  Stopwatch watch;
  cli_test::Outcome whole = box.wait(start_run(box, box.str("whole.db")));
  const double duration = watch.seconds();
  CAPTURE(whole.out);
  REQUIRE(whole.exit_code == 0);
  const std::string expected = log_of(records_of(box.str("whole.db")));
  REQUIRE(std::count(expected.begin(), expected.end(), '\n') == 62);
  const int64_t steps = ticks_of(box.str("whole.db"));
  REQUIRE(steps >= 62);

  Rng rng(2026);
  int killed = 0, in_the_middle = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string path = box.str(fmt::format("run{}.db", i));
    const auto ticks = static_cast<int64_t>(static_cast<double>(steps) * (i + rng.uniform()) / 20);
    const double pause = rng.uniform() * duration / static_cast<double>(steps);  // somewhere in the step
    CAPTURE(i, ticks, steps, pause);
    pid_t pid = start_run(box, path);
    wait_for_ticks(pid, path, ticks);
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    kill(pid, SIGKILL);
    const cli_test::Outcome outcome = box.wait(pid);
    if (outcome.exit_code == -SIGKILL)
      ++killed;
    else
      REQUIRE(outcome.exit_code == 0);

    const int64_t begun = ticks_of(path);
    const std::vector<record::Record> kept = records_of(path);
    CHECK(static_cast<int64_t>(kept.size()) >= begun - 1);
    CHECK(static_cast<int64_t>(kept.size()) <= begun);
    const std::string before = log_of(kept);
    CHECK(expected.starts_with(before));
    in_the_middle += !kept.empty() && before != expected ? 1 : 0;
    if (outcome.exit_code == 0) continue;  // it was through already

    const cli_test::Outcome rest = box.wait(start_run(box, path));
    CAPTURE(rest.out);
    REQUIRE(rest.exit_code == 0);
    const std::string log = log_of(records_of(path));
    if (before == expected) {  // perhaps even its last step was done, and the next call was a run of its own
      CHECK(log.starts_with(expected));
      continue;
    }
    CHECK(log.size() == expected.size());
    CHECK((log == expected));
  }
  CHECK(killed >= 10);
  CHECK(in_the_middle >= 3);
}

TEST_CASE("a store that several processes make at the same time is made once", "[errors]") {
  Sandbox box;
  for (int round = 0; round < 8; ++round) {
    const std::string path = box.str(fmt::format("folder{}/records.db", round));
    std::vector<pid_t> children;
    for (uint64_t i = 0; i < 6; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        auto store = record::Store::open(path);
        record::Record r;
        r.nest_hash = i;
        _exit(store && (*store)->add(r) ? 0 : 1);
      }
      children.push_back(pid);
    }
    for (pid_t pid : children) {
      int status = 1;
      REQUIRE(waitpid(pid, &status, 0) == pid);
      CHECK(status == 0);
    }
    CHECK(records_of(path).size() == 6);
  }
}
