// Which stored program is built, and what a note says where its measurements do not fit.
#include <algorithm>

#include "small_run.h"
#include "space/int_product.h"
#include "tcc/schedule/trace.h"

using namespace tcc;
using namespace tcc::search::test;

TEST_CASE("the program of an integer product without records multiplies by dot products where packing pays") {
  target::Target target = avx512();
  target.cpu.features.avx512_vnni = true;
  const auto uses_dot_products = [&](int64_t m, int64_t n, int64_t k, bool constant) {
    task::Task t;
    t.kernel = testing::int_product("u8", m, n, k, constant);
    t.key = fmt::format("{:016x}", ir::hash_kernel(t.kernel));
    t.workload = fmt::format("{}x{}x{}", m, n, k);
    t.flops = 2.0 * static_cast<double>(m * n * k);
    auto chosen = search::choose_program(t, target, nullptr, 1);
    if (!chosen) FAIL(chosen.error().message);
    auto trace = schedule::trace_from_json(chosen->trace);
    REQUIRE(trace.has_value());
    return std::any_of(trace->instructions.begin(), trace->instructions.end(),
                       [](const schedule::Instruction& i) { return i.op == schedule::Op::kTensorize; });
  };
  CHECK(uses_dot_products(128, 128, 96, true));
  CHECK(uses_dot_products(77, 150, 130, true));
  CHECK(uses_dot_products(128, 128, 128, false));
}

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

namespace {

// The records of task 0 after a small run, the fastest first.
std::vector<record::Record> fastest_of(const record::Store& store, const task::Task& task) {
  auto records = store.fastest(search::task_hash(task), search::machine_of(avx512()), 1, 100);
  REQUIRE(records.has_value());
  REQUIRE(records->size() >= 3);
  return *records;
}

// The record as if another version had made it: its trace gives another program than it says.
record::Record stale(record::Record r, double faster) {
  r.nest_hash ^= 0x5a5a;
  r.median *= faster;
  return r;
}

}  // namespace

TEST_CASE("a record that no longer gives its program is named and passed over, and the next best is taken") {
  const target::Target target = avx512();
  const std::vector<task::Task> work = {tasks()[0]};
  auto store = memory_store();
  Fake machine(9, 0);
  REQUIRE(search::tune(work, target, small_options(), environment(*store, machine)).has_value());
  const std::vector<record::Record> records = fastest_of(*store, work[0]);
  auto first = store->add(stale(records[0], 0.5));
  record::Record broken = stale(records[1], 0.7);
  broken.nest_hash ^= 1;
  broken.trace = "[]";
  auto second = store->add(broken);
  REQUIRE((first && second));

  auto chosen = search::choose_program(work[0], target, store.get(), 1);
  REQUIRE(chosen.has_value());
  CHECK(chosen->tuned);
  CHECK(chosen->source == search::Source::kMeasured);
  CHECK(chosen->nest_hash == records[0].nest_hash);
  REQUIRE(chosen->passed_over.size() == 2);
  CHECK_THAT(chosen->passed_over[0], Catch::Contains(fmt::format("record {} (measured", *first)) &&
                                         Catch::Contains("gives another program with this version"));
  CHECK_THAT(chosen->passed_over[1], Catch::Contains(fmt::format("record {} (measured", *second)));
}

TEST_CASE("on a CPU records that nobody has timed give their program, and never count as tuned") {
  const target::Target target = avx512();
  const task::Task task = tasks()[0];
  auto by_default = search::choose_program(task, target, nullptr, 1);
  REQUIRE(by_default.has_value());
  // Another program than the default one, so that it shows which was taken.
  auto constructed = search::construct_programs(task, target, 12, {.cost_model = "prior"});
  REQUIRE(constructed.has_value());
  auto store = memory_store();
  for (record::Kind kind : {record::Kind::kPredicted, record::Kind::kConstructed})
    for (const schedule::Trace& trace : constructed->traces) {
      auto program = search::program_of_trace(trace, task, target);
      REQUIRE(program.has_value());
      if (program->nest_hash == by_default->nest_hash) continue;
      record::Record r = search::program_record(task, target, trace, program->nest_hash);
      r.kind = kind;
      r.median = 1e-12;  // faster than anything
      REQUIRE(store->add(r).has_value());
      auto chosen = search::choose_program(task, target, store.get(), 1);
      REQUIRE(chosen.has_value());
      CHECK(chosen->nest_hash == program->nest_hash);  // the newest
      CHECK_FALSE(chosen->tuned);
      CHECK(chosen->predicted);
      CHECK(chosen->source ==
            (kind == record::Kind::kPredicted ? search::Source::kPredicted : search::Source::kConstructed));
      CHECK_THAT(chosen->note, Catch::Contains("not tuned"));
    }
  REQUIRE_FALSE(store->all()->empty());
  // A search does not take them for measured programs.
  Fake machine(9, 0);
  const std::vector<task::Task> work = {task};
  auto result = search::tune(work, target, small_options(), environment(*store, machine));
  REQUIRE(result.has_value());
  CHECK(result->tasks[0].best_seconds > 1e-12);
  auto chosen = search::choose_program(task, target, store.get(), 1);
  REQUIRE(chosen.has_value());
  CHECK(chosen->tuned);
  CHECK(chosen->source == search::Source::kMeasured);
}

TEST_CASE("operators that no construction fits are named with the reason") {
  const target::Target target = avx512();
  // Without a sampled tile, and of prime extents.
  for (const task::Task& task : {task::make_elementwise({7, 13}), task::make_elementwise({1, 1})}) {
    INFO(task.workload);
    auto chosen = search::choose_program(task, target, nullptr, 1);
    REQUIRE(chosen.has_value());
    INFO(chosen->note);
    CHECK_FALSE(chosen->tuned);
    CHECK_FALSE(chosen->reason.empty());
  }
  for (const task::Task& task :
       {task::make_gemm({.m = 4099, .n = 4099, .k = 4099}), task::make_gemm({.m = 1, .n = 1, .k = 1}),
        task::make_gemm({.m = 65537, .n = 1, .k = 3})}) {
    INFO(task.workload);
    auto chosen = search::choose_program(task, target, nullptr, 2);
    REQUIRE(chosen.has_value());
    CHECK(chosen->note.find("not tuned") != std::string::npos);
  }
}
