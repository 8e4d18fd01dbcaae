// Record files of earlier versions build the code that they built: what a file's migration rewrites, its traces, makes
// the same LLVM IR and CUDA source.
#include <sqlite3.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "stored.h"
#include "tcc/ir/text.h"
#include "tcc/record/store.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

constexpr uint64_t kTarget = 0xfedcba9876543210ull;

std::vector<StoredTrace> stored_traces() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TCC_SOURCE_DIR) + "/tests/replay/traces"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<StoredTrace> out;
  for (const std::string& path : paths) {
    auto stored = read_stored(path);
    if (!stored) FAIL(stored.error().message);
    out.push_back(std::move(*stored));
  }
  return out;
}

std::unique_ptr<record::Store> open_ok(const std::string& path, record::Store::Mode mode) {
  auto store = record::Store::open(path, mode);
  if (!store) FAIL(store.error().message);
  return std::move(*store);
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

// The best record of each task as a file of this version has it: task n + 1 is the n-th stored trace.
void write_file_of_version(const std::string& path, int version, std::span<const StoredTrace> traces) {
  std::vector<record::Record> records;
  for (size_t i = 0; i < traces.size(); ++i) {
    const auto trace = schedule::trace_from_json(traces[i].trace, traces[i].workload);
    if (!trace) FAIL(trace.error().message);
    record::Record r;
    r.task = i + 1;
    r.workload = traces[i].workload;
    r.target = traces[i].target;
    r.target_features = kTarget;
    r.skeleton = schedule::skeleton_hash(*trace);
    r.decisions = trace->decisions;
    // Names in traces came with version 5; before, they were numbers.
    r.trace = version < 5 ? traces[i].trace : schedule::trace_to_json(*trace);
    r.nest_hash = i + 1;
    r.samples = {1e-6};
    r.median = r.low = r.high = 1e-6;
    r.threads = 1;
    records.push_back(std::move(r));
  }
  REQUIRE(open_ok(path, record::Store::Mode::kReadWrite)->add_all(records).has_value());
  run_sql(path, fmt::format(
                    "DROP INDEX records_by_family; ALTER TABLE records DROP COLUMN family; ALTER TABLE records DROP "
                    "COLUMN extents; ALTER TABLE records DROP COLUMN platform; ALTER TABLE records DROP COLUMN space; "
                    "PRAGMA user_version={}",
                    version));
}

void check_code(const record::Store& store, size_t number, const StoredTrace& stored) {
  auto best = store.best(number + 1, kTarget);
  REQUIRE((best.has_value() && best->has_value()));
  const record::Record& r = **best;
  const auto target = stored_target(stored.target);
  REQUIRE(target.has_value());
  if (!can_generate(*target)) return;
  const auto kernel = ir::parse(stored.kernel, stored.workload);
  const auto trace = schedule::trace_from_json(r.trace, stored.workload);
  REQUIRE((kernel.has_value() && trace.has_value()));
  CHECK(schedule::skeleton_hash(*trace) == r.skeleton);
  CHECK(trace->decisions == r.decisions);
  const auto code = generate_code(*kernel, *trace, *target);
  if (!code) FAIL(code.error().message);
  CHECK(fmt::format("{:016x}", hash_bytes(code->text)) == stored.code);
}

}  // namespace

TEST_CASE("record files of earlier versions migrate and build the code that they built", "[replay]") {
  const std::vector<StoredTrace> traces = stored_traces();
  CHECK(traces.size() >= 60);
  const int version = GENERATE(4, 5);
  auto folder = TemporaryDirectory::create("tcc-replay-");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/records.db";
  write_file_of_version(path, version, traces);
  {
    const auto before = open_ok(path, record::Store::Mode::kReadOnly);  // which changes nothing
    for (size_t i = 0; i < traces.size(); ++i)
      CHECK((version >= 5 || before->best(i + 1, kTarget).value()->trace == traces[i].trace));
  }
  const auto migrated = open_ok(path, record::Store::Mode::kReadWrite);
  int64_t rewritten = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    INFO("version " << version << ", " << traces[i].workload << " on " << traces[i].target);
    // Traces of the first format hold numbers, and names since.
    const bool numbers = traces[i].trace.find(R"("version":1)") != std::string::npos;
    CHECK((migrated->best(i + 1, kTarget).value()->trace != traces[i].trace) == numbers);
    rewritten += numbers;
    check_code(*migrated, i, traces[i]);
  }
  CHECK(rewritten >= 60);
}
