#include "tcc/record/store.h"
#include "memory_database.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tcc/schedule/trace.h"
#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::record;

namespace {

Record sample(uint64_t task, uint64_t nest, double median) {
  Record r;
  r.task = task;
  r.workload = "gemm 8x8x8 f32";
  r.target = "host";
  r.target_features = 0xfedcba9876543210ull;  // above the signed range on purpose
  r.skeleton = ~0ull;
  r.decisions = {4, -1, int64_t{1} << 40};
  r.trace = R"({"skeleton":["split"]})";
  r.nest_hash = nest;
  r.code = 77;
  r.samples = {median, median * 1.5, median * 0.5};
  r.median = median;
  r.low = median * 0.5;
  r.high = median * 1.5;
  r.calibration = 1e-4;
  r.threads = 1;
  r.gate = "exact";
  r.max_error = 0.25;
  r.layouts = "1 blocked[...]\n";
  r.statistic = "median";
  r.converged = true;
  r.cut_short = true;
  r.repeats = 7;
  r.dropped = 3;
  r.cache = "warm";
  r.overlap = true;
  r.compile_seconds = 0.0125;
  r.isa = "x86-64-v3";
  r.device = R"({"name":"host"})";
  r.anchor = 0xfedcba9876543210u;
  r.device_seconds = 0.75e-6;
  r.counts = {1e6, 0.25, 0.5};
  r.platform = "a processor, caches of 1, 2 and 3 bytes";
  r.space = "wide";
  r.tool_version = "0.1.0";
  r.unix_time = 1234567890;
  return r;
}
constexpr uint64_t kTarget = 0xfedcba9876543210ull;

std::unique_ptr<Store> open_ok(const std::string& path, Store::Mode mode = Store::Mode::kReadWrite) {
  auto store = Store::open(path, mode);
  if (!store) FAIL(store.error().message);
  return std::move(*store);
}

// A file as version 1 of the tables made it.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE records(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task INTEGER NOT NULL, workload TEXT NOT NULL, target TEXT NOT NULL, target_features INTEGER NOT NULL,
  skeleton INTEGER NOT NULL, decisions BLOB NOT NULL, trace TEXT NOT NULL, nest INTEGER NOT NULL, code INTEGER NOT NULL,
  kind TEXT NOT NULL, status TEXT NOT NULL, failure TEXT NOT NULL, samples BLOB NOT NULL,
  median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, calibration REAL NOT NULL, threads INTEGER NOT NULL,
  gate TEXT NOT NULL, max_error REAL NOT NULL, tool_version TEXT NOT NULL, unix_time INTEGER NOT NULL);
CREATE INDEX records_by_speed ON records(task, target_features, kind, status, median);
CREATE INDEX records_by_program ON records(task, target_features, nest);
CREATE TABLE sessions(key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO records VALUES(NULL,1,'gemm','host',-81985529216486896,-1,x'0400000000000000','{}',2,77,'measured','ok','',
  x'000000000000f03f',1.0,0.5,1.5,1e-4,1,'exact',0.25,'0.0.9',1234567890);
INSERT INTO records VALUES(NULL,1,'gemm','host',-81985529216486896,-1,x'','{}',3,0,'measured','crashed','signal 11',
  x'',0,0,0,0,2,'',0,'0.0.9',1234567891);
INSERT INTO sessions VALUES('tune 1','{"round":3}');
PRAGMA application_id=0x74636372;
PRAGMA user_version=1;
PRAGMA journal_mode=WAL;
)sql";

void check_version_1_rows(const Store& store) {
  auto rows = store.all().value();
  REQUIRE(rows.size() >= 2);
  CHECK(rows[0].id == 1);
  CHECK(rows[0].workload == "gemm");
  CHECK(rows[0].target_features == kTarget);
  CHECK(rows[0].skeleton == ~0ull);
  CHECK(rows[0].decisions == std::vector<int64_t>{4});
  CHECK(rows[0].samples == std::vector<double>{1.0});
  CHECK(rows[0].high == 1.5);
  CHECK(rows[0].unix_time == 1234567890);
  CHECK(rows[0].statistic == "median");
  CHECK(rows[0].cache == "warm");
  CHECK(rows[0].isa.empty());
  CHECK(rows[0].device.empty());
  CHECK(rows[0].device_seconds == 0);
  CHECK_FALSE(rows[0].counts.any());
  CHECK(rows[1].status == Status::kCrashed);
  CHECK(rows[1].failure == "signal 11");
  CHECK(rows[1].statistic.empty());
  CHECK(rows[1].threads == 2);
  CHECK(store.best(1, kTarget).value()->nest_hash == 2);
  CHECK(store.load_session("tune 1").value() == "{\"round\":3}");
}

void run_sql(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

}  // namespace

TEST_CASE("a file with a view, a trigger or a virtual table is refused", "[errors]") {
  auto dir = TemporaryDirectory::create("tcc-test-");
  REQUIRE(dir);
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT * FROM n";
  for (const auto& [what, sql] : std::vector<std::pair<std::string, std::string>>{
           {"view", "DROP TABLE records; CREATE VIEW records AS " + endless},
           {"trigger", "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"}}) {
    const std::string path = fmt::format("{}/{}.db", (*dir)->path(), what);
    REQUIRE(open_ok(path)->add(sample(1, 1, 1)));
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
    for (Store::Mode mode : {Store::Mode::kReadOnly, Store::Mode::kReadWrite}) {
      auto store = Store::open(path, mode);
      REQUIRE(!store);
      CHECK_THAT(store.error().message, Catch::Contains("found the " + what));
    }
  }
}

TEST_CASE("traces of an older file get names when it is opened for writing", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  const std::string first =
      R"({"version":1,"instructions":[["get_block",[],[],"C",1],["get_loops",["v0"],[],"",1],)"
      R"(["sample_perfect_tile",["v1"],[2,16],"",2],["split",["v1","v2","v3"],[],"",2],["bind",["v4"],[9],"",0],)"
      R"(["annotate",["v5","16"],[14],"",0]],"decisions":[4,8]})";
  Record in = sample(1, 2, 3e-6);
  in.trace = first;
  in.skeleton = 0x8fdd51bbfe7d09e8ull;
  Record unreadable = sample(1, 3, 4e-6);
  unreadable.trace = "{}";
  REQUIRE(open_ok(path)->add_all(std::vector<Record>{in, unreadable}));
  run_sql(
      path,
      "DROP INDEX records_by_family; ALTER TABLE records DROP COLUMN family; ALTER TABLE records DROP COLUMN extents; "
      "ALTER TABLE records DROP COLUMN platform; ALTER TABLE records DROP COLUMN space; PRAGMA user_version=4");

  CHECK(open_ok(path, Store::Mode::kReadOnly)->best(1, kTarget).value()->trace == first);
  const Record now = *open_ok(path)->best(1, kTarget).value();
  const auto old_trace = schedule::trace_from_json(first), trace = schedule::trace_from_json(now.trace);
  REQUIRE((old_trace.has_value() && trace.has_value()));
  CHECK(now.trace == schedule::trace_to_json(*old_trace));
  CHECK_THAT(now.trace, Catch::Contains(R"({"key":"tree_reduce"})") && Catch::Contains(R"({"axis":"thread.x"})"));
  CHECK(*trace == *old_trace);
  CHECK(now.nest_hash == in.nest_hash);
  // As the version that wrote the file hashed it.
  CHECK(schedule::skeleton_hash(*trace) == now.skeleton);
  CHECK(open_ok(path)->all(1).value()[1].trace == "{}");
}

TEST_CASE("a record comes back as it went in", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/deep/records.db";
  Record in = sample(1, 2, 3e-6);
  in.status = Status::kWrong;
  in.failure = "parameter 2 [0, 1] is 3, not 4";
  REQUIRE(open_ok(path)->add(in).value() == 1);
  auto rows = open_ok(path, Store::Mode::kReadOnly)->all(1).value();
  REQUIRE(rows.size() == 1);
  const Record& out = rows[0];
  CHECK(out.id == 1);
  CHECK(out.task == in.task);
  CHECK(out.workload == in.workload);
  CHECK(out.target == in.target);
  CHECK(out.target_features == in.target_features);
  CHECK(out.skeleton == in.skeleton);
  CHECK(out.decisions == in.decisions);
  CHECK(out.trace == in.trace);
  CHECK(out.nest_hash == in.nest_hash);
  CHECK(out.code == in.code);
  CHECK(out.kind == in.kind);
  CHECK(out.status == in.status);
  CHECK(out.failure == in.failure);
  CHECK(out.samples == in.samples);
  CHECK(out.median == in.median);
  CHECK(out.low == in.low);
  CHECK(out.high == in.high);
  CHECK(out.calibration == in.calibration);
  CHECK(out.threads == in.threads);
  CHECK(out.gate == in.gate);
  CHECK(out.max_error == in.max_error);
  CHECK(out.anchor == in.anchor);
  CHECK(out.tool_version == in.tool_version);
  CHECK(out.unix_time == in.unix_time);
  CHECK(out.layouts == in.layouts);
  CHECK(out.statistic == in.statistic);
  CHECK(out.converged == in.converged);
  CHECK(out.cut_short == in.cut_short);
  CHECK(out.repeats == in.repeats);
  CHECK(out.dropped == in.dropped);
  CHECK(out.cache == in.cache);
  CHECK(out.overlap == in.overlap);
  CHECK(out.compile_seconds == in.compile_seconds);
  CHECK(out.isa == in.isa);
  CHECK(out.device == in.device);
  CHECK(out.device_seconds == in.device_seconds);
  CHECK(out.counts == in.counts);
}

TEST_CASE("best is the fastest that was measured and is ok", "[unit]") {
  auto store = open_ok(":memory:");
  Record wrong = sample(1, 10, 1e-9);
  wrong.status = Status::kWrong;
  Record predicted = sample(1, 11, 2e-9);
  predicted.kind = Kind::kPredicted;
  Record other_target = sample(1, 12, 3e-9);
  other_target.target_features = 5;
  Record two_threads = sample(1, 13, 1e-6);
  two_threads.threads = 2;
  std::vector<Record> records = {
      wrong, predicted, other_target, two_threads, sample(1, 14, 4e-6), sample(1, 15, 3e-6), sample(2, 16, 1e-7)};
  REQUIRE(store->add_all(records));
  CHECK(store->best(1, kTarget).value()->nest_hash == 13);
  CHECK(store->best(1, kTarget, 1).value()->nest_hash == 15);
  CHECK_FALSE(store->best(3, kTarget).value().has_value());
  auto fastest = store->fastest(1, kTarget, 1, 5).value();
  REQUIRE(fastest.size() == 2);
  CHECK(fastest[1].nest_hash == 14);
  // Measured again, and slower this time: the newer figure counts.
  REQUIRE(store->add(sample(1, 15, 9e-6)));
  CHECK(store->best(1, kTarget, 1).value()->nest_hash == 14);
}

TEST_CASE("the newest verdict on a program counts", "[unit]") {
  auto store = open_ok(":memory:");
  auto add = [&](uint64_t nest, int64_t threads, Status status, double median) {
    Record r = sample(1, nest, median);
    r.threads = threads;
    r.status = status;
    REQUIRE(store->add(r));
  };
  auto nests = [&](int64_t threads) {
    std::vector<uint64_t> out;
    const std::vector<Record> fastest = store->fastest(1, kTarget, threads, 9).value();
    for (const Record& r : fastest) out.push_back(r.nest_hash);
    return out;
  };
  add(10, 1, Status::kOk, 1e-6);
  add(11, 1, Status::kOk, 2e-6);
  add(11, 2, Status::kOk, 3e-6);
  add(12, 2, Status::kOk, 4e-6);
  CHECK(store->measured_threads(1, kTarget).value() == std::vector<int64_t>{1, 2});
  for (Status bad : {Status::kWrong, Status::kCrashed, Status::kHung, Status::kRejected}) {
    add(10, 1, bad, 0);
    CHECK(nests(1) == std::vector<uint64_t>{11});
    add(10, 1, Status::kOk, 1e-6);  // mended since
    CHECK(nests(1) == std::vector<uint64_t>{10, 11});
  }
  add(11, 2, Status::kHung, 0);  // says nothing about one thread
  CHECK(nests(1) == std::vector<uint64_t>{10, 11});
  CHECK(nests(2) == std::vector<uint64_t>{12});
  add(11, 2, Status::kWrong, 0);  // but what is wrong once is not trusted anywhere
  CHECK(nests(1) == std::vector<uint64_t>{10});
  CHECK(nests(0) == std::vector<uint64_t>{10, 12});
  add(10, 1, Status::kCrashed, 0);
  CHECK(store->measured_threads(1, kTarget).value() == std::vector<int64_t>{2});
  CHECK(store->measured_threads(7, kTarget).value().empty());
}

TEST_CASE("duplicates and counts", "[unit]") {
  auto store = open_ok(":memory:");
  Record crashed = sample(1, 20, 0);
  crashed.status = Status::kCrashed;
  REQUIRE(store->add(crashed));
  REQUIRE(store->add(sample(1, 21, 1)));
  REQUIRE(store->add(sample(2, 22, 1)));
  CHECK(store->contains(1, kTarget, 20, 1).value());
  CHECK(store->contains(1, kTarget, 20, 0).value());
  CHECK_FALSE(store->contains(1, kTarget, 20, 2).value());
  CHECK_FALSE(store->contains(1, kTarget, 22, 0).value());
  CHECK_FALSE(store->contains(1, 5, 20, 0).value());
}

TEST_CASE("sessions are kept, replaced and erased", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  {
    auto store = open_ok(path);
    CHECK_FALSE(store->load_session("a").value().has_value());
    REQUIRE(store->save_session("a", "{\"round\":1}"));
    Record r = sample(1, 1, 1);
    REQUIRE(store->add_with_session(std::span(&r, 1), "a", "{\"round\":2}"));
  }
  auto store = open_ok(path);
  CHECK(store->load_session("a").value() == "{\"round\":2}");
  CHECK(store->all().value().size() == 1);
  REQUIRE(store->erase_session("a"));
  CHECK_FALSE(store->load_session("a").value().has_value());
}

TEST_CASE("a store of the version before opens, keeps its rows and takes new ones", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  run_sql(path, kVersion1);
  check_version_1_rows(*open_ok(path, Store::Mode::kReadOnly));  // which changes nothing
  check_version_1_rows(*open_ok(path, Store::Mode::kReadOnly));
  {
    auto store = open_ok(path);
    check_version_1_rows(*store);
    REQUIRE(store->add(sample(1, 4, 0.25)));
    REQUIRE(store->add(sample(1, 5, 0.5)));
  }
  for (Store::Mode mode : {Store::Mode::kReadOnly, Store::Mode::kReadWrite}) {
    auto store = open_ok(path, mode);
    auto rows = store->all().value();
    REQUIRE(rows.size() == 4);
    CHECK(rows[2].id == 3);
    CHECK(rows[2].device == sample(1, 4, 1).device);
    CHECK(rows[3].isa == "x86-64-v3");
    CHECK(store->best(1, kTarget).value()->nest_hash == 4);
  }
}

TEST_CASE("a migration that is cut off leaves the old store as it was", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  run_sql(path, kVersion1);
  run_sql(path, "CREATE TABLE owners(x)");  // in the way of the migration's last step
  auto refused = Store::open(path);
  REQUIRE_FALSE(refused.has_value());
  run_sql(path, "DROP TABLE owners");
  check_version_1_rows(*open_ok(path, Store::Mode::kReadOnly));
  check_version_1_rows(*open_ok(path));
}

TEST_CASE("facts of a device are kept once", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  const std::string facts(100000, 'f');
  auto store = open_ok(path);
  for (uint64_t i = 0; i < 50; ++i) {
    Record r = sample(1, i, 1);
    r.device = facts;
    REQUIRE(store->add(r));
  }
  auto rows = store->all().value();
  REQUIRE(rows.size() == 50);
  for (const Record& r : rows) CHECK(r.device == facts);
  store.reset();
  CHECK(read_file(path).value().size() < 10 * facts.size());
}

TEST_CASE("a session row belongs to one process until that ends", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  open_ok(path);
  int up[2], down[2];
  REQUIRE(pipe(up) == 0);
  REQUIRE(pipe(down) == 0);
  pid_t child = fork();
  if (child == 0) {
    auto store = Store::open(path);
    char byte = store && (*store)->claim_session("a").value_or(-1) == 0 ? 1 : 0;
    if (write(up[1], &byte, 1) != 1) _exit(1);
    (void)!read(down[0], &byte, 1);
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(up[0], &byte, 1) == 1);
  REQUIRE(byte == 1);
  auto store = open_ok(path);
  CHECK(store->claim_session("a").value() == child);
  CHECK(store->claim_session("b").value() == 0);
  CHECK(store->claim_session("b").value() == 0);  // it is ours already
  kill(child, SIGKILL);
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(store->claim_session("a").value() == 0);  // even while what is left of it has not been collected
  waitpid(child, nullptr, 0);
  // The number of an owner may have been given to another process since.
  run_sql(path, "UPDATE owners SET start=start+1 WHERE key='a'");
  CHECK(store->claim_session("a").value() == 0);
  // An owner of a former boot is gone, one of another name space on this boot cannot be looked up.
  run_sql(path, "UPDATE owners SET boot='another', pid=1 WHERE key='a'");
  CHECK(store->claim_session("a").value() == 0);
  run_sql(path, "UPDATE owners SET boot=substr(boot,1,36)||' elsewhere', pid=12345 WHERE key='a'");
  CHECK(store->claim_session("a").value() == 12345);
  REQUIRE(store->erase_session("a"));
  CHECK(store->claim_session("a").value() == 0);
  REQUIRE(store->release_session("b"));
  for (int fd : {up[0], up[1], down[0], down[1]}) close(fd);
}

TEST_CASE("a writer killed at any moment loses no finished record", "[unit]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    auto store = Store::open(path);
    for (uint64_t i = 0; store && i < 10000; ++i) {
      if (!(*store)->add(sample(1, i, 1))) break;
      char byte = 1;
      if (write(pipe_ends[1], &byte, 1) != 1) break;
    }
    _exit(1);
  }
  close(pipe_ends[1]);
  int64_t reported = 0;
  char byte;
  while (reported < 25 && read(pipe_ends[0], &byte, 1) == 1) ++reported;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(pipe_ends[0], &byte, 1) == 1) ++reported;
  close(pipe_ends[0]);
  auto rows = open_ok(path)->all().value();
  CHECK(reported >= 25);
  CHECK(static_cast<int64_t>(rows.size()) >= reported);
  for (size_t i = 0; i < rows.size(); ++i) CHECK(rows[i].nest_hash == i);
}

TEST_CASE("stores that cannot be used say so", "[errors]") {
  auto dir = TemporaryDirectory::create("tcc-record").value();
  std::string path = dir->path() + "/records.db";
  auto message_of = [&](const std::string& p, Store::Mode mode = Store::Mode::kReadWrite) {
    auto store = Store::open(p, mode);
    REQUIRE_FALSE(store.has_value());
    return store.error().message + "; " + store.error().hint;
  };
  SECTION("absent") {
    CHECK_THAT(message_of(path, Store::Mode::kReadOnly), Catch::Contains("there are no records at"));
  }
  SECTION("newer") {
    open_ok(path);
    run_sql(path, "PRAGMA user_version=99");
    CHECK_THAT(message_of(path), Catch::Contains("newer version of tcc (format 99") && Catch::Contains("upgrade tcc"));
  }
  SECTION("not SQLite") {
    REQUIRE(write_file(path, std::string(5000, 'x')));
    CHECK_THAT(message_of(path), Catch::Contains("not a store of records"));
  }
  SECTION("another SQLite file") {
    run_sql(path, "CREATE TABLE t(x)");
    CHECK_THAT(message_of(path), Catch::Contains("but not a store of records"));
  }
  SECTION("damaged") {
    {
      auto store = open_ok(path);
      for (uint64_t i = 0; i < 200; ++i) REQUIRE(store->add(sample(1, i, 1)));
    }
    std::string bytes = read_file(path).value();
    for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37);
    REQUIRE(write_file(path, bytes));
    auto store = Store::open(path);
    auto rows = store ? (*store)->all() : tl::make_unexpected(store.error());
    REQUIRE_FALSE(rows.has_value());
    CHECK_THAT(rows.error().hint, Catch::Contains("damaged"));
  }
  SECTION("a folder") {
    CHECK_THAT(message_of(dir->path()), Catch::Contains("this is a folder"));
  }
  SECTION("locked") {
    auto store = open_ok(path);
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    auto added = store->add(sample(1, 1, 1));
    REQUIRE_FALSE(added.has_value());
    CHECK_THAT(added.error().hint, Catch::Contains("another process is writing"));
    sqlite3_close(db);
    CHECK(store->add(sample(1, 1, 1)).has_value());
  }
  SECTION("read-only file, opened for reading") {
    open_ok(path)->add(sample(1, 1, 1)).value();
    auto store = open_ok(path, Store::Mode::kReadOnly);
    auto added = store->add(sample(1, 2, 1));
    REQUIRE_FALSE(added.has_value());
    CHECK_THAT(added.error().hint, Catch::Contains("read-only"));
  }
}

TEST_CASE("records and titles of platforms are apart; those that name none count for each") {
  auto disk = open_ok(":memory:");
  auto memory = make_memory_database();
  auto of = [](const std::string& platform, uint64_t nest, double median) {
    Record r = sample(1, nest, median);
    r.platform = platform;
    return r;
  };
  for (Database* store : {static_cast<Database*>(disk.get()), memory.get()}) {
    for (const Record& r : {of("fast", 10, 1e-6), of("fast", 11, 2e-6), of("slow", 10, 9e-6), of("slow", 11, 5e-6)})
      REQUIRE(store->add(r).has_value());
    const Machine fast{kTarget, "fast"}, slow{kTarget, "slow"}, other{kTarget, "other"};
    CHECK(store->best(1, fast).value()->nest_hash == 10);
    CHECK(store->best(1, slow).value()->nest_hash == 11);
    CHECK(store->best(1, slow).value()->median == 5e-6);
    CHECK_FALSE(store->best(1, other).value().has_value());
    CHECK(store->best(1, kTarget).value().has_value());
    CHECK(store->measured_threads(1, other).value().empty());
    CHECK(store->measured_threads(1, slow).value() == std::vector<int64_t>{1});
    Record relative = of("slow", 12, 1e-7);
    relative.task = 2;
    REQUIRE(store->add(relative).has_value());
    CHECK(store->fastest_relatives(relative.anchor, 1, fast, 1, 4).value().empty());
    CHECK(store->fastest_relatives(relative.anchor, 1, slow, 1, 4).value().size() == 1);
    // Older records do not say where they were measured.
    REQUIRE(store->add(of("", 13, 3e-6)).has_value());
    CHECK(store->best(1, slow).value()->nest_hash == 13);
    CHECK(store->best(1, other).value()->nest_hash == 13);
    CHECK(store->best(1, fast).value()->nest_hash == 10);
  }
  const Machine fast{kTarget, "fast"}, slow{kTarget, "slow"};
  REQUIRE(disk->save_session(confirmed_best_key(1, fast, 1), hash_text(11)).has_value());
  CHECK(disk->confirmed_best(1, slow, 1).value()->nest_hash == 13);
  REQUIRE(disk->add(of("fast", 11, 1.1e-6)).has_value());
  CHECK(disk->confirmed_best(1, fast, 1).value()->nest_hash == 11);
  CHECK(disk->best(1, fast).value()->nest_hash == 10);
}
