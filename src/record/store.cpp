#include "tcc/record/store.h"

#include <filesystem>
#include <mutex>
#include <thread>

#include "record/database.h"
#include "record/process_mark.h"
#include "tcc/record/disturbed.h"
#include "tcc/schedule/trace.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::record {
namespace {

constexpr int kBusyMilliseconds = 5000;  // how long another writer is waited for
// "tccr": tells a store from any other SQLite file.
constexpr int64_t kApplicationId = 0x74636372;

// Step n makes a file of version n + 1 out of one of version n (0: empty). The file's user_version says which have been
// done. A step that was ever released is never changed: a change of the tables is a new step at the end.
constexpr const char* kMigrations[] = {
    R"sql(
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
)sql",
    // Facts of the device are the same for thousands of records: kept once, by their hash (0: not known). What records
    // of version 1 did not say stays at the default.
    R"sql(
CREATE TABLE devices(hash INTEGER PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
ALTER TABLE records ADD COLUMN layouts TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN statistic TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN converged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN cut_short INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN cache TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN overlap INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN compile_seconds REAL NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN isa TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN device INTEGER NOT NULL DEFAULT 0;
UPDATE records SET statistic='median', cache='warm' WHERE length(samples) > 0;
CREATE TABLE owners(key TEXT PRIMARY KEY, boot TEXT NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL) WITHOUT ROWID;
)sql",
    // 0: records of before do not say which anchor their task has.
    R"sql(
ALTER TABLE records ADD COLUMN anchor INTEGER NOT NULL DEFAULT 0;
CREATE INDEX records_by_anchor ON records(anchor, target_features);
)sql",
    // What a GPU's own stamps and counters say; older records do not.
    R"sql(
ALTER TABLE records ADD COLUMN device_seconds REAL NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN dram_bytes REAL NOT NULL DEFAULT -1;
ALTER TABLE records ADD COLUMN tensor_share REAL NOT NULL DEFAULT -1;
ALTER TABLE records ADD COLUMN occupancy REAL NOT NULL DEFAULT -1;
)sql",
    // Traces hold names instead of numbers: name_traces() rewrites them.
    "",
    // The machine's platform and the design space; older records do not say.
    R"sql(
ALTER TABLE records ADD COLUMN platform TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN space TEXT NOT NULL DEFAULT '';
)sql",
    // The anchor without its extents, and these; older records do not say.
    R"sql(
ALTER TABLE records ADD COLUMN family INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN extents BLOB NOT NULL DEFAULT x'';
CREATE INDEX records_by_family ON records(family, target_features);
)sql"};
constexpr int64_t kSchemaVersion = std::size(kMigrations);
constexpr int64_t kNamedTraces = 5;  // from this version on
constexpr int64_t kPlatforms = 6;
constexpr int64_t kFamilies = 7;

// Records of programs that ran, on a device or on a simulated one: target_features keeps these apart.
#define TCC_RAN "kind IN ('measured','simulated')"

// Records of a machine's platform, and those that do not name theirs. Takes the platform twice.
std::string of_platform(int64_t version) {
  return version < kPlatforms ? "(?='' OR ?!='')" : "(?='' OR platform IN (?,''))";
}

// The verdicts on a task's programs, and those that are ok. A bare column beside max() is of the row that has the
// maximum: so SQLite promises.
std::string valid_programs(int64_t version) {
  return fmt::format(
      "WITH verdicts AS (SELECT max(id) AS id, nest, threads, status FROM records WHERE task=? AND target_features=? "
      "AND " TCC_RAN
      " AND {} GROUP BY nest, threads), valid AS (SELECT id, threads FROM verdicts WHERE status='ok' AND nest NOT IN "
      "(SELECT nest FROM verdicts WHERE status='wrong'))",
      of_platform(version));
}

// Fastest first: is_faster(). Files of version 1 do not tell disturbed times from others.
std::string by_speed(int64_t version) {
  return version < 2 ? "median"
                     : fmt::format("median * CASE statistic WHEN '{}' THEN {} ELSE 1 END", kDisturbedStatistic,
                                   kDisturbedAllowance);
}

// The columns of a file of this version, in the order of read_row.
std::string columns_of(int64_t version) {
  std::string columns = "id";
  const Record any;
  for_each_field(any, [&](std::string_view name, const auto&, int64_t since) {
    if (since > version) return;
    if (name == "device") name = "(SELECT devices.text FROM devices WHERE devices.hash=records.device)";
    columns.append(",").append(name);
  });
  return columns;
}

Result<Record> read_row(const Statement& row, int64_t version, const std::string& path) {
  Record r;
  int column = 0;
  Result<void> names;
  row.get(column++, r.id);
  for_each_field(r, [&]<class T>(const char* name, T& field, int64_t since) {
    if (since > version) return;
    if constexpr (std::is_enum_v<T>) {
      const std::string text = row.text(column++);
      if (!find_name(text, field))
        names = environment_error("records '{}': unknown {} '{}'; the file is damaged", path, name, text);
    } else {
      row.get(column++, field);
    }
  });
  TCC_TRY_VOID(std::move(names));
  if (version < 2 && !r.samples.empty()) r.statistic = "median", r.cache = "warm";
  return r;
}

Result<int64_t> read_pragma(sqlite3* db, const std::string& path, const char* sql) {
  TCC_TRY(Statement s, Statement::prepare(db, path, sql));
  TCC_TRY(bool row, s.step());
  TCC_CHECK(row, "{} gives no row", sql);
  return s.integer(0);
}

// Rewrites traces of the first format. What they hash to stays: hashes of programs and traces follow names (see
// ir::stored_code). A trace that cannot be read stays as it is.
Result<void> name_traces(sqlite3* db, const std::string& path) {
  TCC_TRY(Statement rows, Statement::prepare(db, path, "SELECT id, trace FROM records"));
  while (true) {
    TCC_TRY(const bool row, rows.step());
    if (!row) return {};
    const std::string text = rows.text(1);
    Result<schedule::Trace> trace = schedule::trace_from_json(text);
    if (!trace) continue;
    TCC_TRY(Statement update, Statement::prepare(db, path, "UPDATE records SET trace=? WHERE id=?"));
    TCC_TRY_VOID(update.bind(schedule::trace_to_json(*trace)).bind(rows.integer(0)).run());
  }
}

// Makes the tables of a new file, or brings an older file up to kSchemaVersion, in one exclusive transaction.
Result<void> migrate(sqlite3* db, const std::string& path) {
  TCC_TRY_VOID(execute(db, path, "BEGIN IMMEDIATE"));
  // Read again under the lock: another process may have made the tables meanwhile.
  TCC_TRY(int64_t version, read_pragma(db, path, "PRAGMA user_version"));
  if (version < 0 || version >= kSchemaVersion) return execute(db, path, "COMMIT");
  for (int64_t step = version; step < kSchemaVersion; ++step)
    TCC_TRY_VOID(execute(db, path, kMigrations[static_cast<size_t>(step)]));
  if (version < kNamedTraces) TCC_TRY_VOID(name_traces(db, path));
  TCC_TRY_VOID(execute(db, path, fmt::format("PRAGMA application_id={}", kApplicationId).c_str()));
  TCC_TRY_VOID(execute(db, path, fmt::format("PRAGMA user_version={}", kSchemaVersion).c_str()));
  return execute(db, path, "COMMIT");
}

// A store has tables and their indexes. Views and triggers are queries that the file itself brings: one
// without an end would hang every command that reads the file.
Result<void> check_schema(sqlite3* db, const std::string& path) {
  TCC_TRY(Statement s, Statement::prepare(db, path,
                                          "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table','index') OR "
                                          "sql LIKE 'CREATE VIRTUAL%' ORDER BY name LIMIT 1"));
  TCC_TRY(bool found, s.step());
  if (!found) return {};
  return make_error(ErrorClass::kEnvironment,
                    fmt::format("records '{}': expected tables and indexes only, found the {} '{}'", path,
                                s.text(0) == "table" ? "virtual table" : sanitize(s.text(0)), sanitize(s.text(1))),
                    "tcc made no such thing: another program changed the file; name another store");
}

// Returns the version of the file's tables.
Result<int64_t> check_identity(sqlite3* db, const std::string& path, bool read_only) {
  // One transaction: another process may be making the tables right now.
  TCC_TRY_VOID(execute(db, path, "BEGIN"));
  TCC_TRY(int64_t version, read_pragma(db, path, "PRAGMA user_version"));
  TCC_TRY(int64_t application, read_pragma(db, path, "PRAGMA application_id"));
  TCC_TRY(int64_t tables, read_pragma(db, path, "SELECT count(*) FROM sqlite_master"));
  Result<void> schema = check_schema(db, path);
  TCC_TRY_VOID(execute(db, path, "COMMIT"));
  bool fresh = version == 0 && application == 0 && tables == 0;
  if (!fresh && application != kApplicationId)
    return make_error(ErrorClass::kEnvironment, fmt::format("'{}' is an SQLite file, but not a store of records", path),
                      "name another file");
  if (!schema) return tl::make_unexpected(std::move(schema).error());
  if (version > kSchemaVersion)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("records '{}' were written by a newer version of tcc (format {}, this one knows {})",
                                  path, version, kSchemaVersion),
                      "upgrade tcc, or name another store");
  if (fresh && read_only)
    return make_error(ErrorClass::kEnvironment, fmt::format("records '{}' are empty", path), "tune a model first");
  return version;
}

}  // namespace

struct Store::State {
  std::string path;
  int64_t version = kSchemaVersion;
  sqlite3* db = nullptr;
  mutable std::mutex mutex;
  ~State() { sqlite3_close_v2(db); }

  std::string columns() const { return columns_of(version); }
  Result<Statement> prepare(std::string_view sql) const { return Statement::prepare(db, path, sql); }

  Result<std::vector<Record>> read_all(Statement& statement) const {
    std::vector<Record> records;
    while (true) {
      TCC_TRY(bool row, statement.step());
      if (!row) return records;
      TCC_TRY(Record record, read_row(statement, version, path));
      records.push_back(std::move(record));
    }
  }

  // The hash that stands for the text in records; its row is made with the first one.
  Result<uint64_t> put_device(const std::string& text) {
    if (text.empty()) return uint64_t{0};
    const uint64_t hash = hash_bytes(text);
    TCC_TRY(Statement s, prepare("INSERT OR IGNORE INTO devices VALUES(?,?)"));
    TCC_TRY_VOID(s.bind(hash).bind(text).run());
    return hash;
  }

  Result<void> insert(const Record& r) {
    TCC_TRY(uint64_t device, put_device(r.device));
    std::string names, places;
    for_each_field(r, [&](const char* name, const auto&, int64_t) {
      names.append(names.empty() ? "" : ",").append(name);
      places += places.empty() ? "?" : ",?";
    });
    TCC_TRY(Statement s, prepare(fmt::format("INSERT INTO records({}) VALUES({})", names, places)));
    for_each_field(r, [&]<class T>(std::string_view name, const T& field, int64_t) {
      if constexpr (std::is_same_v<T, Status>) {
        s.bind(status_name(field));
      } else if constexpr (std::is_same_v<T, Kind>) {
        s.bind(kind_name(field));
      } else if (name == "device") {
        s.bind(device);
      } else {
        s.bind(field);
      }
    });
    return s.run();
  }

  Result<void> put_session(const std::string& key, const std::string& text) {
    TCC_TRY(Statement s, prepare("INSERT OR REPLACE INTO sessions VALUES(?,?)"));
    return s.bind(key).bind(text).run();
  }

  Result<void> free_session(const std::string& key) {
    TCC_TRY(Statement s, prepare("DELETE FROM owners WHERE key=?"));
    return s.bind(key).run();
  }

  // Runs `body` in one transaction; rolls back when it fails.
  template <class F>
  Result<void> transact(F&& body) {
    TCC_TRY_VOID(execute(db, path, "BEGIN IMMEDIATE", "write"));
    Result<void> done = body();
    if (done) done = execute(db, path, "COMMIT", "write");
    if (!done && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    return done;
  }
};

namespace {

std::string percent_encoded(const std::string& path) {
  std::string text;
  for (unsigned char c : path) text += fmt::format("%{:02x}", c);
  return text;
}

Result<void> open_connection(sqlite3*& db, const std::string& path, const std::string& name, int flags) {
  int code = sqlite3_open_v2(name.c_str(), &db, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) return database_error(db, code, path, "open it");
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  // The file may come from anybody: its schema runs nothing.
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  return {};
}

// Switching to WAL needs the file alone for a moment, and SQLite does not wait for that by itself.
Result<void> use_wal(sqlite3* db, const std::string& path) {
  constexpr int kStep = 10;
  for (int waited = 0;; waited += kStep) {
    int code = sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    if ((code & 0xff) != SQLITE_BUSY || waited >= kBusyMilliseconds) return database_error(db, code, path, "set it up");
    std::this_thread::sleep_for(std::chrono::milliseconds(kStep));
  }
}

// Can the file be read as it is? A log beside it would hold records that only a reader who may write can see.
bool is_complete(const std::string& path) {
  std::error_code none;
  auto log = std::filesystem::file_size(path + "-wal", none);
  return none || log == 0;
}

}  // namespace

Result<void> Store::connect(State& state, bool read_only) {
  if (!read_only) {
    TCC_TRY_VOID(open_connection(state.db, state.path, state.path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    TCC_TRY(state.version, check_identity(state.db, state.path, false));
    return {};
  }
  TCC_TRY_VOID(open_connection(state.db, state.path, state.path, SQLITE_OPEN_READONLY));
  Result<int64_t> checked = check_identity(state.db, state.path, true);
  int code = sqlite3_errcode(state.db) & 0xff;
  if (checked) state.version = *checked;
  if (checked) return {};
  if ((code != SQLITE_READONLY && code != SQLITE_CANTOPEN) || !is_complete(state.path))
    return tl::make_unexpected(std::move(checked).error());
  // WAL wants files of its own beside the store, even for reading. Where they cannot be made nobody writes either.
  sqlite3_close_v2(state.db);
  state.db = nullptr;
  TCC_TRY_VOID(open_connection(state.db, state.path, "file:" + percent_encoded(state.path) + "?immutable=1",
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  TCC_TRY(state.version, check_identity(state.db, state.path, true));
  return {};
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::~Store() = default;
const std::string& Store::path() const {
  return state_->path;
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path, Mode mode) {
  bool memory = path == ":memory:";
  std::error_code ignored;
  bool read_only = mode == Mode::kReadOnly;
  if (path.empty()) return make_error(ErrorClass::kUsage, "the name of the store is empty", "name a file");
  if (!memory && read_only && !file_exists(path))
    return make_error(ErrorClass::kEnvironment, fmt::format("there are no records at '{}'", path),
                      "tune a model first");
  const auto kind = memory ? std::filesystem::file_status() : std::filesystem::status(path, ignored);
  if (std::filesystem::exists(kind) && !std::filesystem::is_regular_file(kind))
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("records '{}': this is {}", path,
                                  std::filesystem::is_directory(kind) ? "a folder" : "a device or pipe, not a file"),
                      "name a file; it need not exist yet");
  size_t slash = path.rfind('/');
  if (!memory && !read_only && slash != std::string::npos && slash > 0) {
    Result<void> made = make_directories(path.substr(0, slash));
    if (!made)
      return make_error(ErrorClass::kEnvironment, fmt::format("records '{}': {}", path, made.error().message),
                        "name a file in a folder that may be written");
  }

  auto state = std::make_unique<State>();
  state->path = path;
  TCC_TRY_VOID(connect(*state, read_only));
  if (!read_only) {
    // WAL: readers never wait and a killed writer leaves whole records. FULL: a commit is on disk when it returns.
    if (!memory) TCC_TRY_VOID(use_wal(state->db, path));
    TCC_TRY_VOID(execute(state->db, path, "PRAGMA synchronous=FULL"));
    // Pages. Each commit rewrites a few of them: at SQLite's 1,000 the log is 20 times as large as a small store, and
    // passes limits on file sizes that the store itself is far from.
    TCC_TRY_VOID(execute(state->db, path, "PRAGMA wal_autocheckpoint=100"));
    TCC_TRY_VOID(migrate(state->db, path));
    state->version = kSchemaVersion;
  }
  return std::unique_ptr<Store>(new Store(std::move(state)));
}

Result<int64_t> Store::add(const Record& record) {
  std::lock_guard lock(state_->mutex);
  TCC_TRY_VOID(state_->transact([&] { return state_->insert(record); }));
  return sqlite3_last_insert_rowid(state_->db);
}

Result<void> Store::add_all(std::span<const Record> records) {
  std::lock_guard lock(state_->mutex);
  return state_->transact([&]() -> Result<void> {
    for (const Record& record : records) TCC_TRY_VOID(state_->insert(record));
    return {};
  });
}

Result<void> Store::add_with_session(std::span<const Record> records, const std::string& key, const std::string& text) {
  std::lock_guard lock(state_->mutex);
  return state_->transact([&]() -> Result<void> {
    for (const Record& record : records) TCC_TRY_VOID(state_->insert(record));
    return state_->put_session(key, text);
  });
}

Result<std::vector<Record>> Store::fastest(uint64_t task, const Machine& machine, int64_t threads,
                                           int64_t count) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s,
          state_->prepare(fmt::format("{} SELECT {} FROM records WHERE id IN (SELECT id FROM valid WHERE "
                                      "?=0 OR threads=?) ORDER BY {}, id LIMIT ?",
                                      valid_programs(state_->version), state_->columns(), by_speed(state_->version))));
  s.bind(task)
      .bind(machine.features)
      .bind(machine.platform)
      .bind(machine.platform)
      .bind(threads)
      .bind(threads)
      .bind(count);
  return state_->read_all(s);
}

Result<std::vector<int64_t>> Store::measured_threads(uint64_t task, const Machine& machine) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s, state_->prepare(fmt::format("{} SELECT DISTINCT threads FROM valid ORDER BY threads",
                                                   valid_programs(state_->version))));
  s.bind(task).bind(machine.features).bind(machine.platform).bind(machine.platform);
  std::vector<int64_t> threads;
  while (true) {
    TCC_TRY(bool row, s.step());
    if (!row) return threads;
    threads.push_back(s.integer(0));
  }
}

Result<std::vector<Record>> Store::fastest_relatives(uint64_t anchor, uint64_t task, const Machine& machine,
                                                     int64_t threads, int64_t count) const {
  std::lock_guard lock(state_->mutex);
  if (anchor == 0 || state_->version < 3) return std::vector<Record>();
  TCC_TRY(
      Statement s,
      state_->prepare(fmt::format(
          "WITH verdicts AS (SELECT max(id) AS id, task, nest, threads, status FROM records WHERE anchor=? AND "
          "task!=? AND target_features=? AND " TCC_RAN " AND {} GROUP BY task, nest, threads) SELECT {} FROM records "
          "WHERE id IN (SELECT id FROM verdicts AS v WHERE status='ok' AND (?=0 OR threads=?) AND NOT EXISTS (SELECT 1 "
          "FROM verdicts AS w WHERE w.task=v.task AND w.nest=v.nest AND w.status='wrong')) ORDER BY {}, id "
          "LIMIT ?",
          of_platform(state_->version), state_->columns(), by_speed(state_->version))));
  s.bind(anchor)
      .bind(task)
      .bind(machine.features)
      .bind(machine.platform)
      .bind(machine.platform)
      .bind(threads)
      .bind(threads)
      .bind(count);
  return state_->read_all(s);
}

Result<std::vector<Shape>> Store::shapes(uint64_t family, const Machine& machine, int64_t threads) const {
  std::lock_guard lock(state_->mutex);
  std::vector<Shape> found;
  if (family == 0 || state_->version < kFamilies) return found;
  TCC_TRY(Statement s, state_->prepare(fmt::format(
                           "SELECT DISTINCT task, extents FROM records WHERE family=? AND target_features=? AND "
                           "status='ok' AND " TCC_RAN " AND {} AND (?=0 OR threads=?) ORDER BY task",
                           of_platform(state_->version))));
  s.bind(family).bind(machine.features).bind(machine.platform).bind(machine.platform).bind(threads).bind(threads);
  while (true) {
    TCC_TRY(const bool row, s.step());
    if (!row) return found;
    Shape& shape = found.emplace_back();
    s.get(0, shape.task);
    s.get(1, shape.extents);
  }
}

Result<std::vector<Record>> Store::all(std::optional<uint64_t> task) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s, state_->prepare(fmt::format("SELECT {} FROM records{} ORDER BY id", state_->columns(),
                                                   task ? " WHERE task=?" : "")));
  if (task) s.bind(*task);
  return state_->read_all(s);
}

Result<bool> Store::contains(uint64_t task, uint64_t target_features, uint64_t nest, int64_t threads) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s,
          state_->prepare("SELECT 1 FROM records WHERE task=? AND target_features=? AND nest=? AND " TCC_RAN
                          " AND (?=0 OR threads=?) LIMIT 1"));
  return s.bind(task).bind(target_features).bind(nest).bind(threads).bind(threads).step();
}

Result<bool> Store::is_wrong(uint64_t task, uint64_t target_features, uint64_t nest) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s, state_->prepare("SELECT 1 FROM records WHERE status='wrong' AND id IN (SELECT max(id) FROM "
                                       "records WHERE task=? AND target_features=? AND nest=? AND " TCC_RAN " "
                                       "GROUP BY threads) LIMIT 1"));
  return s.bind(task).bind(target_features).bind(nest).step();
}

Result<void> Store::save_session(const std::string& key, const std::string& text) {
  std::lock_guard lock(state_->mutex);
  return state_->put_session(key, text);
}

Result<std::optional<std::string>> Store::load_session(const std::string& key) const {
  std::lock_guard lock(state_->mutex);
  TCC_TRY(Statement s, state_->prepare("SELECT text FROM sessions WHERE key=?"));
  TCC_TRY(bool row, s.bind(key).step());
  return row ? std::optional<std::string>(s.text(0)) : std::nullopt;
}

Result<void> Store::erase_session(const std::string& key) {
  std::lock_guard lock(state_->mutex);
  return state_->transact([&]() -> Result<void> {
    TCC_TRY(Statement s, state_->prepare("DELETE FROM sessions WHERE key=?"));
    TCC_TRY_VOID(s.bind(key).run());
    return state_->free_session(key);
  });
}

Result<int64_t> Store::claim_session(const std::string& key) {
  std::lock_guard lock(state_->mutex);
  int64_t other = 0;
  TCC_TRY_VOID(state_->transact([&]() -> Result<void> {
    const ProcessMark mine = own_mark();
    TCC_TRY(Statement s, state_->prepare("SELECT boot, pid, start FROM owners WHERE key=?"));
    TCC_TRY(bool row, s.bind(key).step());
    if (row) {
      const ProcessMark owner{s.text(0), s.integer(1), s.integer(2)};
      if (!(owner == mine) && is_running(owner)) {
        other = owner.pid;
        return {};
      }
    }
    TCC_TRY(Statement put, state_->prepare("INSERT OR REPLACE INTO owners VALUES(?,?,?,?)"));
    return put.bind(key).bind(mine.boot).bind(mine.pid).bind(mine.start).run();
  }));
  return other;
}

Result<void> Store::release_session(const std::string& key) {
  std::lock_guard lock(state_->mutex);
  return state_->free_session(key);
}

}  // namespace tcc::record
