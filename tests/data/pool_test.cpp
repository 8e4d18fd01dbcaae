// Pools: what is written is read, files grow, interruptions and hostile bytes are noticed.
#include "tcc/data/pool.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "data/codec.h"
#include "data/packed.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

using namespace tcc;

namespace {

schedule::Trace trace_of(const std::string& text) {
  auto trace = schedule::parse_trace(text);
  if (!trace) FAIL(trace.error().message);
  return *trace;
}

// Programs of one sketch with times of their own.
data::Group group_of(task::Task task, const std::string& platform, int programs, uint64_t seed = 1) {
  data::Group g;
  g.task = std::move(task);
  g.task.params.clear();
  g.platform = {platform, 1, record::Kind::kMeasured, *target::find_target("x86-64-v3")};
  g.space = "default";
  g.sketches = {trace_of(R"(v0 = get_block("gemm")
v1, v2, v3 = get_loops(v0)
v4, v5, v6 = sample_perfect_tile(v1) max_innermost=64 <2, 3, 4>
v7, v8, v9 = split(v1, v4, v5, v6)
v10, v11 = sample_perfect_tile(v2) max_innermost=64 <2, 24>
v12, v13 = split(v2, v10, v11)
v14 = cache_read(v0) read=1 scope=local
v15 = sample_categorical() candidates=[1, 64, 256] weights=[300000, 400000, 300000] <2>
annotate(v3, v15) unroll_max
)"),
                trace_of("v0 = get_block(\"gemm\")\nv1, v2, v3 = get_loops(v0)\nparallel(v1)\n")};
  Rng rng(seed);
  for (int i = 0; i < programs; ++i) {
    data::Entry e;
    // Of 24 and 48 in tiles, by their number; a few as no draw makes them.
    const int64_t a = int64_t{1} << (i % 4), b = i % 5 == 0 ? 3 : 1, c = int64_t{1} << (i / 4 % 5);
    e.decisions = {24 / (a * b), a, b, 48 / c, c, rng.below(3)};
    if (i >= 8) e.decisions[0] = 1000 + i;
    e.seconds = 1e-4 * (1 + rng.uniform());
    if (i % 10 == 9) e.status = record::Status::kWrong, e.seconds = 0;
    g.entries.push_back(std::move(e));
  }
  g.entries.push_back({.sketch = 1, .decisions = {}, .seconds = 5e-5});
  return g;
}
task::Task product(int64_t n) {
  return task::make_gemm({.m = 24, .n = n, .k = 16, .bias = true});
}

void check_equal(const data::Pool& a, const data::Pool& b) {
  REQUIRE(a.groups.size() == b.groups.size());
  for (size_t i = 0; i < a.groups.size(); ++i) {
    const data::Group &x = a.groups[i], &y = b.groups[i];
    CHECK(x.key() == y.key());
    CHECK(x.task.key == y.task.key);
    CHECK(x.task.workload == y.task.workload);
    CHECK(x.task.anchor == y.task.anchor);
    CHECK(x.task.anchor_block == y.task.anchor_block);
    CHECK(x.task.flops == y.task.flops);
    CHECK(ir::print(x.task.kernel) == ir::print(y.task.kernel));
    CHECK(x.platform.target == y.platform.target);
    CHECK(x.platform.kind == y.platform.kind);
    CHECK(x.space == y.space);
    CHECK(x.sketches == y.sketches);
    REQUIRE(x.entries.size() == y.entries.size());
    for (size_t e = 0; e < x.entries.size(); ++e) {
      CHECK(x.entries[e].sketch == y.entries[e].sketch);
      CHECK(x.entries[e].decisions == y.entries[e].decisions);
      CHECK(x.entries[e].status == y.entries[e].status);
      CHECK(x.entries[e].seconds == Approx(y.entries[e].seconds).epsilon(3e-6));
    }
  }
}

data::Pool some_pool() {
  data::Pool pool;
  pool.add(group_of(product(48), "one", 40));
  pool.add(group_of(product(48), "two", 20));
  pool.add(group_of(product(96), "one", 30));
  return pool;
}

}  // namespace

TEST_CASE("a pool is read as it was written, about 11 bytes a program") {
  const data::Pool pool = some_pool();
  CHECK(pool.entries() == 93);
  const std::string bytes = data::print_pool(pool);
  auto read = data::parse_pool(bytes, "pool");
  if (!read) FAIL(read.error().message);
  check_equal(pool, *read);
  CHECK(data::print_pool(*read) == bytes);
  // The programs alone: six decisions and a time.
  data::Pool more = pool;
  data::Group many = group_of(product(48), "one", 2000, 7);
  const int64_t added = more.add(many);
  CHECK(added > 1900);
  CHECK(static_cast<double>(data::print_pool(more).size() - bytes.size()) / static_cast<double>(added) < 11.5);
  // Replay works on the kernel that was read.
  auto kernel =
      schedule::replay(read->groups[0].sketches[1], {}, read->groups[0].task.kernel, std::make_shared<Arena>());
  CHECK(kernel.has_value());
}

TEST_CASE("times keep 3 parts in a million, and failures their reason") {
  for (double seconds : {2e-9, 1.234567e-6, 1e-3, 0.7, 55.0})
    CHECK(data::unpack_seconds(data::pack_seconds(seconds)) == Approx(seconds).epsilon(2e-6));
  CHECK(data::pack_seconds(1e30) < data::kFirstFailure);
  data::Group g = group_of(product(48), "one", 0);
  for (record::Status s : {record::Status::kCrashed, record::Status::kTimedOut, record::Status::kRejected})
    g.entries.push_back(
        {.sketch = 0, .decisions = {static_cast<int64_t>(s), 1, 1, 1, 1, 1}, .status = s, .seconds = 0});
  data::Pool pool;
  pool.add(g);
  auto read = data::parse_pool(data::print_pool(pool), "pool");
  REQUIRE(read.has_value());
  check_equal(pool, *read);
  CHECK(read->groups[0].best_seconds() == Approx(5e-5));
}

TEST_CASE("tiles are one number each, whatever the factors") {
  const schedule::Trace sketch = trace_of(R"(v0 = get_block("gemm")
v1, v2, v3 = get_loops(v0)
v4, v5, v6, v7 = sample_perfect_tile(v1) max_innermost=64 <2, 3, 4, 5>
v8 = sample_categorical() candidates=[1, 64, 256] weights=[300000, 400000, 300000] <2>
v9, v10 = sample_perfect_tile(v2) max_innermost=64 <1, 1>
)");
  auto round_trip = [&](const std::vector<int64_t>& decisions) {
    data::Writer out;
    data::write_decisions(out, sketch, decisions);
    data::Reader in(out.bytes());
    std::vector<int64_t> read;
    data::read_decisions(in, sketch, read);
    CHECK(read == decisions);
    CHECK((in.ended() && !in.failed()));
    return out.bytes().size();
  };
  // All 120 = 2^3 * 3 * 5 in four parts: 20 * 4 * 4 of them.
  int tiles = 0;
  for (int64_t a = 1; a <= 120; ++a)
    for (int64_t b = 1; a * b <= 120; ++b)
      for (int64_t c = 1; a * b * c <= 120; ++c) {
        if (120 % (a * b * c) != 0) continue;
        CHECK(round_trip({a, b, c, 120 / (a * b * c), 1, 1, 1}) <= 4);
        ++tiles;
      }
  CHECK(tiles == 320);
  // What no draw makes is kept as it is.
  round_trip({7, 1, 1, 1, 0, 1, 1});
  round_trip({0, -5, int64_t{1} << 60, 3, -1, 1, 2});
  data::Writer out;
  out.number(uint64_t{1} << 50);
  data::Reader in(out.bytes());
  std::vector<int64_t> read;
  data::read_decisions(in, sketch, read);
  CHECK(in.failed());
}

TEST_CASE("adding leaves out what is there, and keeps platforms and spaces apart") {
  data::Pool pool;
  const data::Group g = group_of(product(48), "one", 10);
  CHECK(pool.add(g) == 11);
  CHECK(pool.add(g) == 0);
  data::Group other = g;
  other.platform.threads = 2;
  CHECK(pool.add(other) == 11);
  other = g, other.space = "wide";
  CHECK(pool.add(other) == 11);
  other = g, other.platform.kind = record::Kind::kPredicted;
  CHECK(pool.add(other) == 11);
  CHECK(pool.groups.size() == 4);
  // The same sketch under another number.
  other = g;
  std::swap(other.sketches[0], other.sketches[1]);
  for (data::Entry& e : other.entries) e.sketch = 1 - e.sketch;
  CHECK(pool.add(other) == 0);
  CHECK(pool.groups[0].sketches.size() == 2);
}

TEST_CASE("a file grows by pieces, and goes on after an interruption") {
  auto folder = TemporaryDirectory::create("pool");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/a.pool";
  const data::Pool pool = some_pool();
  {
    auto writer = data::PoolWriter::open(path);
    REQUIRE(writer.has_value());
    CHECK((*writer)->pool().groups.empty());
    // One program after the other, as they are measured.
    data::Group part = pool.groups[0];
    for (const data::Entry& e : pool.groups[0].entries) {
      part.entries = {e};
      CHECK((*writer)->add(part).value() == 1);
    }
    CHECK((*writer)->add(pool.groups[0]).value() == 0);
    const auto second = data::PoolWriter::open(path);
    REQUIRE(!second.has_value());
    CHECK_THAT(second.error().message, Catch::Contains("another process writes"));
  }
  const std::string half = read_file(path).value();
  {
    auto writer = data::PoolWriter::open(path);
    REQUIRE(writer.has_value());
    CHECK_FALSE((*writer)->was_cut_off());
    CHECK((*writer)->add(pool.groups[1]).has_value());
    CHECK((*writer)->add(pool.groups[2]).has_value());
  }
  auto whole = data::read_pool(path);
  REQUIRE(whole.has_value());
  check_equal(*whole, pool);
  // Cut off anywhere: the pieces before are read, and writing goes on.
  const std::string bytes = read_file(path).value();
  for (size_t cut : {size_t{0}, size_t{3}, size_t{8}, size_t{60}, half.size() - 1, half.size() + 9, bytes.size() - 1}) {
    INFO(cut);
    REQUIRE(write_file(path, bytes.substr(0, cut)).has_value());
    if (cut >= 8) {
      bool cut_off = false;
      CHECK(data::read_pool(path, &cut_off).has_value());
      CHECK((cut_off || cut == 8));
    }
    auto writer = data::PoolWriter::open(path);
    REQUIRE(writer.has_value());
    for (const data::Group& g : pool.groups) CHECK((*writer)->add(g).has_value());
    data::Pool rest = *data::read_pool(path);
    CHECK(rest.entries() == pool.entries());
  }
}

TEST_CASE("a packed pool is read like the pool, does not grow, and damage to it is noticed", "[errors]") {
  auto folder = TemporaryDirectory::create("pool");
  REQUIRE(folder.has_value());
  const std::string path = (*folder)->path() + "/a.pool.gz";
  const data::Pool pool = some_pool();
  const std::string packed = data::pack_pool(pool);
  CHECK(packed.size() < data::print_pool(pool).size() / 2);
  REQUIRE(write_file(path, packed).has_value());
  bool cut_off = true;
  auto read = data::read_pool(path, &cut_off);
  REQUIRE(read.has_value());
  CHECK_FALSE(cut_off);
  check_equal(pool, *read);
  const auto grown = data::PoolWriter::open(path);
  REQUIRE_FALSE(grown.has_value());
  CHECK_THAT(grown.error().message, Catch::Contains("a.pool.gz") && Catch::Contains("packed"));

  auto message = [](const std::string& bytes, size_t limit = 1 << 20) {
    const Result<std::string> out = data::unpack(bytes, limit, "x.gz");
    REQUIRE_FALSE(out.has_value());
    return out.error().message;
  };
  CHECK_THAT(message(packed.substr(0, packed.size() - 1)), Catch::Contains("x.gz") && Catch::Contains("cut off"));
  CHECK_THAT(message(packed + "x"), Catch::Contains("damaged"));
  std::string damaged = packed;
  damaged[packed.size() / 2] ^= 1;
  CHECK_THAT(message(damaged), Catch::Contains("damaged"));
  // A megabyte of zeros in a kilobyte.
  CHECK_THAT(message(data::pack(std::string(1 << 20, '\0')), 1000), Catch::Contains("at most 1000 bytes"));
}

TEST_CASE("hostile and damaged pools are refused by their byte", "[errors]") {
  const std::string bytes = data::print_pool(some_pool());
  auto message = [](const std::string& text) {
    auto read = data::parse_pool(text, "x.pool");
    REQUIRE(!read.has_value());
    return read.error().message;
  };
  CHECK_THAT(message("SQLite format 3"), Catch::Contains("x.pool") && Catch::Contains("does not begin"));
  CHECK_THAT(message("tccpool9"), Catch::Contains("another version"));
  CHECK_THAT(message(bytes.substr(0, bytes.size() - 1)), Catch::Contains("cut off at byte"));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  CHECK_THAT(message(damaged),
             Catch::Contains("does not have the bytes that were written") || Catch::Contains("cut off"));
  CHECK_THAT(message(bytes + bytes.substr(8)), Catch::Contains("groups are not in order"));
}

TEST_CASE("random damage under valid checksums is an error, never a crash", "[fuzz]") {
  const std::string bytes = data::print_pool(some_pool());
  Rng rng(17);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    // Pieces anew, one of them with changed bytes.
    std::string out = bytes.substr(0, 8);
    size_t pieces = 0;
    for (size_t at = 8; at < bytes.size(); ++pieces) {
      const auto length = static_cast<size_t>(data::Reader(std::string_view(bytes).substr(at)).fixed(4));
      std::string body = bytes.substr(at + 5, length);
      const auto kind = static_cast<uint8_t>(bytes[at + 4]);
      if (rng.below(4) == 0)
        for (int64_t n = 1 + rng.below(3); n > 0 && !body.empty(); --n)
          body[static_cast<size_t>(rng.below(std::ssize(body)))] = static_cast<char>(rng.below(256));
      if (rng.below(16) == 0) body.resize(static_cast<size_t>(rng.below(std::ssize(body) + 1)));
      data::Writer head, end;
      head.fixed(body.size(), 4), head.byte(kind);
      end.fixed(combine_hash(kind, hash_bytes(body)), 8);
      out += head.bytes() + body + end.bytes();
      at += 13 + length;
    }
    auto read = data::parse_pool(out, "x");
    refused += read ? 0 : 1;
    if (read) CHECK(data::parse_pool(data::print_pool(*read), "y").has_value());
  }
  CHECK(refused > 100);
}

TEST_CASE("pools go through lines of JSON") {
  const data::Pool pool = some_pool();
  const std::string text = data::export_pool(pool);
  auto read = data::import_pool(text, "x.jsonl");
  if (!read) FAIL(read.error().message);
  check_equal(pool, *read);
  auto message = [](const std::string& lines) {
    auto wrong = data::import_pool(lines, "x.jsonl");
    REQUIRE(!wrong.has_value());
    return wrong.error().message;
  };
  CHECK_THAT(message("{\"sketch\": 0}\n"), Catch::Contains("line 1") && Catch::Contains("before the first group"));
  CHECK_THAT(message("{"), Catch::Contains("x.jsonl line 1"));
  const std::string head = text.substr(0, text.find('\n') + 1);
  CHECK_THAT(message(head + "{\"sketch\": 7, \"decisions\": [], \"seconds\": 1}"), Catch::Contains("no such sketch"));
  CHECK_THAT(message(head + "{\"sketch\": 1, \"decisions\": [1], \"seconds\": 1}"),
             Catch::Contains("number of decisions"));
  CHECK_THAT(message(head + "{\"sketch\": 1, \"decisions\": [], \"seconds\": 0}"), Catch::Contains("above 0"));
  CHECK_THAT(message(head + "{\"sketch\": 1, \"decisions\": [], \"failed\": \"tired\"}"),
             Catch::Contains("unknown name"));
}

TEST_CASE("a split keeps each task on one side, whatever the pool") {
  data::Pool pool;
  for (int64_t n = 1; n <= 20; ++n)
    for (const char* platform : {"one", "two"}) pool.add(group_of(product(8 * n), platform, 2));
  const data::Split split = data::split_by_task(pool, 0.25, 3);
  auto keys = [](const data::Pool& p) {
    std::set<std::string> out;
    for (const data::Group& g : p.groups) out.insert(g.task.key);
    return out;
  };
  const std::set<std::string> train = keys(split.train), held_out = keys(split.held_out);
  CHECK(held_out.size() == 5);
  CHECK(train.size() == 15);
  for (const std::string& key : held_out) CHECK(!train.contains(key));
  CHECK(split.train.entries() + split.held_out.entries() == pool.entries());
  CHECK(keys(data::split_by_task(pool, 0.25, 4).held_out) != held_out);
  CHECK(data::split_by_task(pool, 0.001, 3).held_out.groups.size() == 2);
  CHECK(data::split_by_task({}, 0.5, 3).held_out.groups.empty());
}

TEST_CASE("no task that the shipped networks are judged by is among those they learn from") {
  std::set<uint64_t> held_out;
  std::vector<std::string> training;
  for (const auto& file : std::filesystem::directory_iterator(TCC_SOURCE_DIR "/models/pools")) {
    const std::string name = file.path().filename();
    if (name.find("-train-") != std::string::npos) training.push_back(file.path());
    if (name.find("-heldout-") == std::string::npos) continue;
    auto pool = data::read_pool(file.path());
    REQUIRE(pool.has_value());
    for (const data::Group& g : pool->groups) held_out.insert(ir::hash_kernel(g.task.kernel));
  }
  REQUIRE(held_out.size() > 20);
  REQUIRE(!training.empty());
  for (const std::string& path : training) {
    auto pool = data::read_pool(path);
    REQUIRE(pool.has_value());
    for (const data::Group& g : pool->groups) {
      INFO(path << ": " << g.task.workload);
      CHECK(!held_out.contains(ir::hash_kernel(g.task.kernel)));
    }
  }
}

TEST_CASE("pools without programs are refused, and the message says how to collect some", "[errors]") {
  CHECK(data::check_programs({{group_of(task::make_gemm({.m = 64, .n = 64, .k = 64}), "here", 2)}}).has_value());
  const Result<void> empty = data::check_programs({});
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().message == "expected pools with programs, found none");
  CHECK(empty.error().hint.find("tcc dataset collect") != std::string::npos);
}
