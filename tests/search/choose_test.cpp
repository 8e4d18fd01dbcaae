// Which stored program is built, and what a note says where its measurements do not fit.
#include <algorithm>

#include "small_run.h"
#include "tcc/schedule/trace.h"

using namespace tcc;
using namespace tcc::search::test;

TEST_CASE("programs for building") {
  target::Target target = avx512();
  std::vector<task::Task> work = tasks();
  for (const task::Task& t : work) {
    INFO(t.workload);
    auto naive = search::unscheduled_program(t, target);
    REQUIRE(naive.has_value());
    CHECK(!naive->tuned);
    auto untuned = search::choose_program(t, target, nullptr, 1);
    REQUIRE(untuned.has_value());
    CHECK(!untuned->tuned);
    CHECK(untuned->note.find("not tuned") != std::string::npos);
    CHECK(untuned->nest_hash != naive->nest_hash);
  }
  auto store = memory_store();
  Fake machine(9, 0);
  auto result = search::tune(work, target, small_options(), environment(*store, machine));
  REQUIRE(result.has_value());
  for (size_t i = 0; i < work.size(); ++i) {
    auto chosen = search::choose_program(work[i], target, store.get(), 1);
    REQUIRE(chosen.has_value());
    CHECK(chosen->tuned);
    CHECK(chosen->nest_hash == result->tasks[i].best_nest_hash);
    CHECK(chosen->seconds == result->tasks[i].best_seconds);
    CHECK(chosen->threads == 1);
    CHECK(chosen->note.empty());
  }
}

TEST_CASE("without measurements on a number of threads the nearest number serves, with a note") {
  target::Target target = avx512();
  std::vector<task::Task> work = {tasks()[0]};
  auto store = memory_store();
  Fake machine(9, 0);
  REQUIRE(search::tune(work, target, small_options(), environment(*store, machine)).has_value());
  std::vector<record::Record> records = records_of(*store, work[0], 1);
  std::erase_if(records, [](const record::Record& r) { return r.status != record::Status::kOk; });
  std::stable_sort(records.begin(), records.end(),
                   [](const record::Record& x, const record::Record& y) { return x.median < y.median; });
  REQUIRE(records.size() >= 3);
  auto choose = [&](int64_t threads) {
    auto chosen = search::choose_program(work[0], target, store.get(), threads);
    REQUIRE(chosen.has_value());
    CHECK(chosen->tuned);
    return *chosen;
  };
  auto add = [&](record::Record r, int64_t threads, record::Status status) {
    r.threads = threads;
    r.status = status;
    REQUIRE(store->add(r).has_value());
  };
  CHECK(choose(1).note.empty());
  CHECK(choose(8).nest_hash == records[0].nest_hash);
  CHECK(choose(8).threads == 1);
  CHECK_THAT(choose(8).note, Catch::Contains("not tuned on 8 threads; the schedule measured on 1 thread is used"));
  // A program that failed on this number of threads is not used there.
  add(records[0], 8, record::Status::kCrashed);
  CHECK(choose(8).nest_hash == records[1].nest_hash);
  CHECK(choose(1).nest_hash == records[0].nest_hash);
  // 4 and 16 are equally near to 8, the greater counts; 2 is nearer to 1 than 4 is.
  add(records[2], 4, record::Status::kOk);
  CHECK(choose(8).threads == 4);
  add(records[1], 16, record::Status::kOk);
  CHECK(choose(8).threads == 16);
  add(records[1], 2, record::Status::kOk);
  CHECK(choose(3).threads == 4);
  CHECK(choose(2).note.empty());
  // Without a parallel loop more threads do not help.
  record::Record serial = records[0];
  serial.task = search::task_hash(work[0]);
  serial.trace = schedule::trace_to_json(schedule::Trace{});
  serial.nest_hash = search::unscheduled_program(work[0], target)->nest_hash;
  serial.threads = 64;
  REQUIRE(store->add(serial).has_value());
  CHECK_THAT(choose(100).note, Catch::Contains("has no parallel loop and runs on 1 thread"));
  CHECK(choose(1).note.empty());
}
