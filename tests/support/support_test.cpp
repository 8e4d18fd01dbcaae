#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <new>
#include <set>
#include <thread>

#include "tcc/support/arena.h"
#include "tcc/support/dynlib.h"
#include "tcc/support/files.h"
#include "tcc/support/memory.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

using namespace tcc;

TEST_CASE("arena hands out aligned, distinct memory and reuses it after reset") {
  Arena arena;
  auto* a = arena.make<int64_t>(1);
  auto* b = arena.make<int64_t>(2);
  CHECK(*a == 1);
  CHECK(*b == 2);
  CHECK(reinterpret_cast<uintptr_t>(arena.allocate(100, 64)) % 64 == 0);
  for (int i = 0; i < 10000; ++i) arena.make<int64_t>(i);
  size_t used = arena.bytes_used();
  CHECK(used >= 80000);
  arena.reset();
  CHECK(arena.bytes_used() == 0);
  CHECK(*arena.make<int64_t>(7) == 7);
}

TEST_CASE("rng is reproducible, forks are independent, weights are respected") {
  Rng a(5), b(5);
  for (int i = 0; i < 10; ++i) CHECK(a.next() == b.next());
  CHECK(a.fork(1).next() != a.fork(2).next());
  std::array<double, 3> weights = {1, 0, 3};
  std::array<int, 3> counts = {};
  for (int i = 0; i < 40000; ++i) counts[static_cast<size_t>(a.weighted(weights))]++;
  CHECK(counts[1] == 0);
  CHECK(counts[2] > 2.7 * counts[0]);
  CHECK(counts[2] < 3.3 * counts[0]);
}

TEST_CASE("parallel_for hands on what a body throws, and serves again") {
  ThreadPool pool(3);
  for (int64_t culprit : {0, 17, 99}) {
    auto body = [&](int64_t i, int) {
      if (i == culprit) throw std::bad_alloc();
    };
    CHECK_THROWS_AS(pool.parallel_for(100, body), std::bad_alloc);
  }
  std::atomic<int> count{0};
  pool.parallel_for(100, [&](int64_t, int) { ++count; });
  CHECK(count == 100);
}

TEST_CASE("exceptions may not pass where a thread says so, and only on that thread") {
  CHECK(exceptions_may_pass());
  {
    NoExceptions outer;
    {
      NoExceptions inner;
    }
    CHECK_FALSE(exceptions_may_pass());
    bool elsewhere = false;
    std::thread([&] { elsewhere = exceptions_may_pass(); }).join();
    CHECK(elsewhere);
  }
  CHECK(exceptions_may_pass());
}

TEST_CASE("parallel_for visits every index once, nested calls included") {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> seen(1000);
  for (int round = 0; round < 20; ++round)
    pool.parallel_for(100, [&](int64_t i, int) {
      pool.parallel_for(10, [&](int64_t j, int) { seen[static_cast<size_t>(i * 10 + j)]++; });
    });
  for (auto& s : seen) CHECK(s == 20);
}

TEST_CASE("files: whole write, clear errors") {
  auto dir = TemporaryDirectory::create("tcc-test-");
  REQUIRE(dir);
  std::string path = (*dir)->path() + "/a";
  REQUIRE(write_file(path, "hello"));
  CHECK(read_file(path).value() == "hello");
  CHECK(read_file((*dir)->path()).error().message.find("directory") != std::string::npos);
  CHECK(read_file(path + "x").error().message.find("No such file") != std::string::npos);
  CHECK(write_file((*dir)->path() + "/no/b", "x").error().message.find("cannot write") != std::string::npos);
  CHECK(MappedFile::open(path).value()->bytes().size() == 5);
}

TEST_CASE("a file in the making has a name of its own and follows no link", "[errors]") {
  auto dir = TemporaryDirectory::create("tcc-test-");
  REQUIRE(dir);
  const std::string path = (*dir)->path() + "/o.npy", victim = (*dir)->path() + "/victim";
  REQUIRE(write_file(victim, "mine"));
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) {
    auto file = NewFile::create(path);
    REQUIRE(file);
    CHECK(names.insert((*file)->temporary()).second);
    CHECK((*file)->write("half"));
  }
  for (const std::string& name : names) CHECK_FALSE(file_exists(name));  // deleted: they were not committed
  CHECK_FALSE(file_exists(path));
  // Nobody can put a link where the bytes go; one in the place of the result is replaced.
  REQUIRE(symlink("victim", (path + fmt::format(".tmp.{}", getpid())).c_str()) == 0);
  REQUIRE(symlink("victim", path.c_str()) == 0);
  REQUIRE(write_file(path, "new"));
  CHECK(read_file(victim).value() == "mine");
  CHECK(read_file(path).value() == "new");
}

TEST_CASE("suggestions and sanitizing") {
  std::vector<std::string> known = {"tune", "build", "bench"};
  CHECK(suggest("tnue", known) == "did you mean 'tune'?");
  CHECK(suggest("zzzzzzz", known).empty());
  CHECK(sanitize("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(sanitize("\xff") == "\\xff");
  CHECK(sanitize("a\xc2\x9b"
                 "31mb \xc2\xb5s") == "a\\xc2\\x9b31mb \xc2\xb5s");
  CHECK(format_duration(0.00123) == "1.23 ms");
}

TEST_CASE("a missing library is an environment error that names it") {
  auto lib = DynamicLibrary::open({"libdoes-not-exist.so"});
  REQUIRE(!lib);
  CHECK(lib.error().cls == ErrorClass::kEnvironment);
  CHECK(lib.error().message.find("libdoes-not-exist.so") != std::string::npos);
}
