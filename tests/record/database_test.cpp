// Databases behind their interface: SQLite and memory answer alike, and unions are made of their members.
#include "tcc/record/database.h"

#include <catch2/catch.hpp>

#include "record/memory_database.h"
#include "tcc/record/disturbed.h"
#include "tcc/record/store.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::record;

namespace {

Record record_of(uint64_t task, uint64_t anchor, uint64_t nest, double median) {
  Record r;
  r.task = task;
  r.anchor = anchor;
  r.nest_hash = nest;
  r.median = median;
  r.target_features = 7;
  r.workload = "w";
  return r;
}

std::unique_ptr<Store> sqlite() {
  auto store = Store::open(":memory:");
  REQUIRE(store.has_value());
  return std::move(*store);
}

using Answer = std::vector<std::pair<uint64_t, double>>;
Answer answer(const Result<std::vector<Record>>& records) {
  REQUIRE(records.has_value());
  Answer out;
  for (const Record& r : *records) out.emplace_back(r.nest_hash, r.median);
  return out;
}

void add(Database& database, const Record& record) {
  REQUIRE(database.add(record).has_value());
}

}  // namespace

TEST_CASE("memory and SQLite give the same answers") {
  auto on_disk = sqlite();
  auto in_memory = make_memory_database();
  Rng rng(5);
  for (int i = 0; i < 400; ++i) {
    const auto task = static_cast<uint64_t>(rng.below(4));
    Record r = record_of(100 + task, 1 + task / 2, static_cast<uint64_t>(rng.below(25)), 1 + 0.01 * i);
    r.median = static_cast<double>(1 + rng.below(50));  // ties, too
    r.threads = 1 + rng.below(2);
    r.target_features = rng.below(8) == 0 ? 8 : 7;
    if (rng.below(5) == 0) r.status = Status::kWrong;
    if (rng.below(3) == 0) r.statistic = kDisturbedStatistic;
    if (rng.below(9) == 0) r.kind = Kind::kPredicted;
    add(*on_disk, r);
    add(*in_memory, r);
  }
  for (uint64_t task = 100; task < 105; ++task)
    for (int64_t threads : {0, 1, 2}) {
      for (int64_t count : {1, 5, 1000}) {
        INFO("task " << task << ", threads " << threads << ", " << count);
        CHECK(answer(on_disk->fastest(task, 7, threads, count)) == answer(in_memory->fastest(task, 7, threads, count)));
        CHECK(answer(on_disk->fastest_relatives(1 + (task - 100) / 2, task, 7, threads, count)) ==
              answer(in_memory->fastest_relatives(1 + (task - 100) / 2, task, 7, threads, count)));
      }
      CHECK(answer(on_disk->all(task)) == answer(in_memory->all(task)));
    }
  CHECK(answer(on_disk->all()).size() == 400);
  CHECK(answer(in_memory->all()).size() == 400);
  const Database& shared = *on_disk;
  CHECK_FALSE(shared.load_session("none")->has_value());
}

TEST_CASE("relatives share the anchor and are other tasks") {
  for (bool disk : {false, true}) {
    std::unique_ptr<Database> database;
    if (disk)
      database = sqlite();
    else
      database = make_memory_database();
    add(*database, record_of(1, 50, 11, 3));
    add(*database, record_of(2, 50, 21, 2));
    add(*database, record_of(3, 51, 31, 1));
    add(*database, record_of(4, 0, 41, 1));
    add(*database, record_of(5, 0, 51, 1));
    CHECK(answer(database->fastest_relatives(50, 1, 7, 1, 9)) == Answer{{21, 2}});
    CHECK(answer(database->fastest_relatives(50, 9, 7, 1, 9)) == Answer{{21, 2}, {11, 3}});
    CHECK(answer(database->fastest_relatives(50, 1, 8, 1, 9)).empty());
    CHECK(answer(database->fastest_relatives(0, 4, 7, 1, 9)).empty());  // unknown tasks are not related
  }
}

TEST_CASE("shapes of a family are found by the distance of their extents") {
  auto shaped = [](uint64_t task, uint64_t family, std::vector<int64_t> extents, double median) {
    Record r = record_of(task, task, 10 * task, median);
    r.family = family, r.extents = std::move(extents);
    return r;
  };
  for (bool disk : {false, true}) {
    std::unique_ptr<Database> database;
    if (disk)
      database = sqlite();
    else
      database = make_memory_database();
    add(*database, shaped(1, 9, {64, 64, 64}, 5));
    add(*database, shaped(2, 9, {64, 128, 64}, 4));
    add(*database, shaped(3, 9, {64, 64, 96}, 3));
    add(*database, shaped(4, 9, {64, 64, 4096}, 2));
    add(*database, shaped(5, 9, {64, 64}, 1));
    add(*database, shaped(6, 8, {64, 64, 65}, 1));
    add(*database, shaped(7, 0, {64, 64, 65}, 1));
    Record slow = shaped(3, 9, {64, 64, 96}, 7);
    slow.nest_hash = 31;
    add(*database, slow);
    Record wrong = shaped(8, 9, {64, 64, 63}, 1);
    wrong.status = Status::kWrong;
    add(*database, wrong);
    auto nearest = [&](std::vector<int64_t> extents, double most, int64_t count) {
      return answer(database->nearest_shapes(9, extents, 7, 1, most, count));
    };
    // Task 1 itself has these extents, task 3 differs by 0.58 doublings, task 2 by 1, task 4 by 6.
    CHECK(nearest({64, 64, 64}, 2, 9) == Answer{{30, 3}, {31, 7}, {20, 4}});
    CHECK(nearest({64, 64, 64}, 2, 1) == Answer{{30, 3}});
    CHECK(nearest({64, 64, 64}, 6, 9) == Answer{{30, 3}, {31, 7}, {20, 4}, {40, 2}});
    CHECK(nearest({64, 64, 4000}, 1, 9) == Answer{{40, 2}});
    CHECK(nearest({64, 64, 64, 1}, 100, 9).empty());
    CHECK(answer(database->nearest_shapes(9, std::vector<int64_t>{64, 64, 64}, 8, 1, 9, 9)).empty());  // machine
    CHECK(answer(database->nearest_shapes(9, std::vector<int64_t>{64, 64, 64}, 7, 2, 9, 9)).empty());  // threads
    CHECK(answer(database->nearest_shapes(0, std::vector<int64_t>{64, 64, 64}, 7, 1, 9, 9)).empty());
    auto empty = make_memory_database();
    auto both = make_union({empty.get(), database.get()});
    CHECK(answer(both->nearest_shapes(9, std::vector<int64_t>{64, 64, 64}, 7, 1, 2, 9)) ==
          Answer{{30, 3}, {31, 7}, {20, 4}});
  }
  CHECK(shape_distance(std::vector<int64_t>{8, 16}, std::vector<int64_t>{16, 4}) == 3);
}

TEST_CASE("a union asks everybody, an ordered one stops at the first who knows") {
  auto mine = make_memory_database(), theirs = make_memory_database();
  add(*mine, record_of(1, 50, 11, 3));
  add(*mine, record_of(1, 50, 12, 4));
  add(*theirs, record_of(1, 50, 11, 2.5));
  add(*theirs, record_of(1, 50, 13, 1));
  add(*theirs, record_of(2, 50, 21, 9));
  auto all = make_union({mine.get(), theirs.get()});
  auto ordered = make_ordered_union({mine.get(), theirs.get()});
  CHECK(answer(all->fastest(1, 7, 1, 9)) == Answer{{13, 1}, {11, 2.5}, {12, 4}});
  CHECK(answer(all->fastest(1, 7, 1, 2)) == Answer{{13, 1}, {11, 2.5}});
  CHECK(answer(ordered->fastest(1, 7, 1, 9)) == Answer{{11, 3}, {12, 4}});
  CHECK(answer(ordered->fastest(2, 7, 1, 9)) == Answer{{21, 9}});
  CHECK(answer(ordered->fastest_relatives(50, 1, 7, 1, 9)) == Answer{{21, 9}});
  CHECK(answer(all->all(1)).size() == 4);
  CHECK(answer(ordered->all(1)).size() == 2);
  add(*ordered, record_of(2, 50, 22, 8));
  CHECK(answer(mine->fastest(2, 7, 1, 9)) == Answer{{22, 8}});
  CHECK(answer(theirs->fastest(2, 7, 1, 9)) == Answer{{21, 9}});
  CHECK(answer(ordered->fastest(2, 7, 1, 9)) == Answer{{22, 8}});
}

TEST_CASE("a program that one member knows to be wrong counts nowhere") {
  auto mine = make_memory_database();
  auto theirs = sqlite();
  Record wrong = record_of(1, 50, 11, 1);
  wrong.status = Status::kWrong;
  add(*mine, wrong);
  add(*theirs, record_of(1, 50, 11, 1));
  add(*theirs, record_of(1, 50, 12, 2));
  add(*theirs, record_of(1, 50, 13, 3));
  auto all = make_union({mine.get(), theirs.get()});
  auto ordered = make_ordered_union({mine.get(), theirs.get()});
  for (const Database* both : {all.get(), ordered.get()}) {
    CHECK(answer(both->fastest(1, 7, 1, 1)) == Answer{{12, 2}});
    CHECK(answer(both->fastest(1, 7, 1, 9)) == Answer{{12, 2}, {13, 3}});
    CHECK(answer(both->fastest_relatives(50, 9, 7, 1, 1)) == Answer{{12, 2}});
    auto best = both->confirmed_best(1, 7, 1);
    REQUIRE((best.has_value() && best->has_value()));
    CHECK((*best)->nest_hash == 12);
    CHECK(both->is_wrong(1, 7, 11).value());
    CHECK_FALSE(both->is_wrong(1, 7, 12).value());
    CHECK(both->contains(1, 7, 13, 1).value());
    CHECK_FALSE(both->contains(1, 7, 13, 2).value());
  }
  // A later verdict on the same number of threads takes its place.
  add(*mine, record_of(1, 50, 11, 1.5));
  CHECK_FALSE(all->is_wrong(1, 7, 11).value());
  CHECK(answer(all->fastest(1, 7, 1, 1)) == Answer{{11, 1}});
}

TEST_CASE("what several members hold alike counts once") {
  auto mine = sqlite();
  auto theirs = sqlite();
  Record r = record_of(1, 50, 11, 3);
  r.unix_time = 1000;
  add(*mine, r);
  add(*theirs, r);
  r.unix_time = 2000;  // measured again
  add(*theirs, r);
  auto all = make_union({mine.get(), theirs.get()});
  CHECK(answer(all->all(1)).size() == 2);
  CHECK(answer(all->fastest(1, 7, 1, 9)) == Answer{{11, 3}});
}

TEST_CASE("a confirmed best counts among the records of its own database") {
  auto mine = sqlite();
  auto theirs = sqlite();
  add(*mine, record_of(1, 50, 11, 1.0));
  add(*mine, record_of(1, 50, 12, 1.1));
  auto confirmed = [](const Database& d) { return d.confirmed_best(1, 7, 1).value().value().nest_hash; };
  CHECK(confirmed(*mine) == 11);
  REQUIRE(mine->save_session(confirmed_best_key(1, 7, 1), hash_text(12)).has_value());
  CHECK(confirmed(*mine) == 12);
  auto all = make_union({mine.get(), theirs.get()});
  auto ordered = make_ordered_union({theirs.get(), mine.get()});
  CHECK(confirmed(*all) == 12);
  CHECK(confirmed(*ordered) == 12);
  auto copy = sqlite();  // of the records, which does not know what was confirmed
  add(*copy, record_of(1, 50, 11, 1.0));
  add(*copy, record_of(1, 50, 12, 1.1));
  CHECK(confirmed(*copy) == 11);
  CHECK(confirmed(*make_union({copy.get(), mine.get()})) == 12);
  CHECK(confirmed(*make_union({mine.get(), copy.get(), mine.get()})) == 12);
  add(*theirs, record_of(1, 50, 21, 1.05));  // faster than the confirmed best here, slower than the fastest
  CHECK(confirmed(*all) == 21);
  CHECK(confirmed(*ordered) == 21);
  add(*mine, record_of(1, 50, 13, 0.5));  // a confirmed best counts for nothing beside a program that is twice as fast
  CHECK(confirmed(*mine) == 13);
  CHECK(confirmed(*all) == 13);
  CHECK_FALSE(all->confirmed_best(2, 7, 1).value().has_value());
}

TEST_CASE("a confirmed best is found behind any number of programs that are a little faster alone") {
  auto store = sqlite();
  for (uint64_t i = 0; i < 50; ++i) add(*store, record_of(1, 50, 100 + i, 1.0 + 1e-3 * static_cast<double>(i)));
  add(*store, record_of(1, 50, 11, 1.2));
  REQUIRE(store->save_session(confirmed_best_key(1, 7, 1), hash_text(11)).has_value());
  CHECK(store->confirmed_best(1, 7, 1).value()->nest_hash == 11);
  REQUIRE(store->save_session(confirmed_best_key(1, 7, 1), hash_text(12)).has_value());  // of no record
  CHECK(store->confirmed_best(1, 7, 1).value()->nest_hash == 100);
}

TEST_CASE("every kind of database knows on which numbers of threads it has something") {
  auto memory = make_memory_database();
  auto disk = sqlite();
  auto other = make_memory_database();
  for (int64_t threads : {8, 2, 4}) {
    Record r = record_of(1, 50, 10 + static_cast<uint64_t>(threads), 1);
    r.threads = threads;
    if (threads == 4) r.status = Status::kCrashed;
    add(*memory, r);
    add(*disk, r);
  }
  Record one = record_of(1, 50, 5, 1);
  add(*other, one);
  const std::vector<int64_t> expected = {2, 8}, joined = {1, 2, 8};
  CHECK(memory->measured_threads(1, 7).value() == expected);
  CHECK(disk->measured_threads(1, 7).value() == expected);
  CHECK(make_union({memory.get(), other.get()})->measured_threads(1, 7).value() == joined);
  CHECK(disk->measured_threads(2, 7).value().empty());
  // The best of all is found on any of them.
  CHECK(disk->best(1, 7).value().value().nest_hash == 18);  // equally fast: the first
  CHECK(memory->best(1, 7, 8).value().value().nest_hash == 18);
}

TEST_CASE("U3: a time that other programs disturbed loses to an undisturbed one that is near") {
  auto store = sqlite(), other = sqlite();
  Record quiet = record_of(1, 2, 10, 10e-6), busy = record_of(1, 2, 11, 9e-6), slow = record_of(1, 2, 12, 13e-6);
  busy.statistic = kDisturbedStatistic;
  quiet.threads = busy.threads = slow.threads = 2;
  add(*store, busy);
  REQUIRE(store->best(1, 7, 2).value().has_value());
  CHECK(store->best(1, 7, 2).value()->nest_hash == 11);  // disturbed, and the only one
  CHECK(store->confirmed_best(1, 7, 2).value()->nest_hash == 11);
  add(*store, quiet);
  add(*store, slow);
  CHECK(answer(store->fastest(1, 7, 2, 9)) == Answer{{10, 10e-6}, {11, 9e-6}, {12, 13e-6}});
  CHECK(store->confirmed_best(1, 7, 2).value()->nest_hash == 10);
  // Nor where it was confirmed before the others came.
  REQUIRE(store->save_session(confirmed_best_key(1, 7, 2), hash_text(11)).has_value());
  CHECK(store->confirmed_best(1, 7, 2).value()->nest_hash == 10);
  busy.median = 8.5e-6;
  busy.nest_hash = 13;
  add(*other, busy);
  auto both = make_union({other.get(), store.get()});
  CHECK(both->best(1, 7, 2).value()->nest_hash == 10);
  // An undisturbed time that is behind.
  busy.median = 6e-6;
  busy.nest_hash = 14;
  add(*other, busy);
  CHECK(other->best(1, 7, 2).value()->nest_hash == 14);
  CHECK(both->best(1, 7, 2).value()->nest_hash == 14);
  // One that was confirmed stays where a disturbed time is a little ahead of it.
  REQUIRE(store->save_session(confirmed_best_key(1, 7, 2), hash_text(10)).has_value());
  busy.nest_hash = 15;
  busy.median = 7.5e-6;
  add(*store, busy);
  CHECK(store->best(1, 7, 2).value()->nest_hash == 15);
  CHECK(store->confirmed_best(1, 7, 2).value()->nest_hash == 10);
  // Measured again on a quiet machine.
  busy.nest_hash = 11;
  busy.median = 7e-6;
  busy.statistic = "median";
  add(*store, busy);
  CHECK(store->best(1, 7, 2).value()->nest_hash == 11);
}
