// What tuning reached by when, and two stores beside each other, on records written here.
#include "tcc/driver/history.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>

#include "tcc/driver/compile.h"
#include "tcc/driver/model.h"
#include "tcc/record/disturbed.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"

using namespace tcc;
using driver::History;

namespace {

struct Box {
  target::Target target = target::host_target();
  driver::Program program;
  std::unique_ptr<record::Store> store;
  uint64_t next = 1;

  Box() {
    auto model = driver::load_model({.model = "zoo:mlp"});
    REQUIRE(model);
    auto made = driver::make_program(*model, target);
    REQUIRE(made);
    program = std::move(*made);
    store = std::move(*record::Store::open(":memory:"));
  }
  record::Record record(size_t task, int64_t time, double seconds) {
    const record::Machine machine = search::machine_of(target);
    record::Record r;
    r.task = search::task_hash(program.tasks.tasks[task].key);
    r.workload = program.tasks.tasks[task].workload;
    r.target = target.name, r.target_features = machine.features, r.platform = machine.platform;
    r.nest_hash = next++, r.threads = 2, r.unix_time = time, r.tool_version = "1";
    r.median = r.low = r.high = seconds;
    return r;
  }
  void add(const record::Record& r) { REQUIRE(store->add(r)); }
  History history() {
    auto made = driver::tuning_history(program, *store, target, 2);
    REQUIRE(made);
    return *made;
  }
};

}  // namespace

TEST_CASE("a history has a run for each time of tuning and version, and what all kernels take after it") {
  Box box;
  const size_t tasks = box.program.tasks.tasks.size();
  REQUIRE(tasks >= 2);
  CHECK(box.history().runs.empty());
  CHECK(box.history().tasks.size() == tasks);

  box.add(box.record(0, 1000, 4e-3));
  box.add(box.record(0, 1000 + driver::kRunPause, 3e-3));
  record::Record failed = box.record(0, 1700, 0);
  failed.status = record::Status::kCrashed;
  box.add(failed);
  for (size_t i = 1; i < tasks; ++i) box.add(box.record(i, 9000, 1e-3));
  record::Record newer = box.record(0, 9010, 2e-3);
  newer.tool_version = "2";
  box.add(newer);

  const History h = box.history();
  REQUIRE(h.runs.size() == 3);
  CHECK(h.runs[0].begin == 1000);
  CHECK(h.runs[0].end == 1700);
  CHECK(h.runs[0].records == 3);
  CHECK(h.runs[0].failed == 1);
  CHECK(h.runs[0].tasks == 1);
  CHECK(h.runs[0].improved == 1);
  CHECK(h.runs[0].seconds == 0);
  CHECK(h.runs[0].without == static_cast<int64_t>(tasks) - 1);
  double rest = 0;
  for (size_t i = 1; i < tasks; ++i) rest += 1e-3 * static_cast<double>(box.program.tasks.tasks[i].weight);
  const auto first = static_cast<double>(box.program.tasks.tasks[0].weight);
  CHECK(h.runs[1].seconds == Approx(3e-3 * first + rest));
  CHECK(h.runs[2].seconds == Approx(2e-3 * first + rest));
  CHECK(h.runs[2].version == "2");
  REQUIRE(h.tasks[0].best.size() == 3);
  CHECK(h.tasks[0].best[2].seconds == 2e-3);
  CHECK(h.tasks[0].records == 4);
}

TEST_CASE("phases of runs are kept beside their records, the newest ones") {
  Box box;
  box.add(box.record(0, Clock::system().unix_seconds(), 4e-3));
  CHECK(box.history().runs.at(0).phases.empty());
  search::PhaseSeconds phases;
  phases.measure = 2, phases.compile = 0.5;
  for (size_t i = 0; i < driver::kKeptRuns + 5; ++i)
    REQUIRE(driver::record_phases(box.program, phases, 2.5, *box.store));
  const std::map<std::string, double> kept = box.history().runs.at(0).phases;
  CHECK(kept.size() == 2);
  CHECK(kept.at("measure") == Approx(2.0 * driver::kKeptRuns));
  CHECK(kept.at("compile") == Approx(0.5 * driver::kKeptRuns));
}

TEST_CASE("a history leaves out disturbed times, wrong programs, other threads and simulated records") {
  Box box;
  box.add(box.record(0, 1000, 4e-3));
  record::Record disturbed = box.record(0, 1001, 1e-3);
  disturbed.statistic = record::kDisturbedStatistic;
  box.add(disturbed);
  record::Record wrong = box.record(0, 1002, 1e-3);
  box.add(wrong);
  wrong.status = record::Status::kWrong, wrong.unix_time = 1003;
  box.add(wrong);
  record::Record alone = box.record(0, 1004, 1e-3);
  alone.threads = 1;
  box.add(alone);
  record::Record simulated = box.record(0, 1005, 1e-3);
  simulated.kind = record::Kind::kSimulated;
  box.add(simulated);
  const History h = box.history();
  REQUIRE(h.tasks[0].best.size() == 1);
  CHECK(h.tasks[0].best[0].seconds == 4e-3);
  CHECK(h.tasks[0].records == 4);
}

TEST_CASE("two stores: tasks of both, of one alone, the same program, and the mean of the speeds") {
  Box a, b;
  a.add(a.record(0, 1000, 4e-3));
  record::Record same = b.record(0, 2000, 2e-3);
  b.add(same);  // the first program of each store has the same hash
  b.add(b.record(1, 2000, 1e-3));
  auto change = driver::compare_stores(*a.store, *b.store);
  REQUIRE(change);
  REQUIRE(change->tasks.size() == 2);
  CHECK(change->both == 1);
  CHECK(change->speed == Approx(2));
  for (const driver::TaskChange& t : change->tasks) {
    const bool shared = t.seconds_a > 0;
    CHECK(t.same_program == shared);
    CHECK(t.seconds_b == (shared ? 2e-3 : 1e-3));
    CHECK(t.records_a == (shared ? 1 : 0));
  }
  record::Record better = b.record(0, 3000, 1e-3);
  b.add(better);
  change = driver::compare_stores(*a.store, *b.store);
  REQUIRE(change);
  CHECK(change->speed == Approx(4));
  for (const driver::TaskChange& t : change->tasks) CHECK_FALSE(t.same_program);
}
