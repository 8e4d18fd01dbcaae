#include <sched.h>
#include <sys/resource.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "skip.h"
#include "tcc/rt/rt.h"

namespace {

struct Pool {
  tcc_rt_pool* pool = nullptr;
  Pool(int32_t threads, int32_t spin_us, int32_t pin = 0) {
    INFO(tcc_rt_last_error());
    REQUIRE(tcc_rt_pool_create(threads, spin_us, pin, &pool) == TCC_OK);
  }
  ~Pool() { tcc_rt_pool_destroy(pool); }
};

// Adds 1 to every element of its range.
void count_visits(void* const* buffers, int64_t begin, int64_t end) {
  auto* visits = static_cast<int32_t*>(buffers[0]);
  for (int64_t i = begin; i < end; ++i) ++visits[i];
}

struct Ranges {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::set<std::thread::id> threads;
};

void note_range(void* const* buffers, int64_t begin, int64_t end) {
  auto* noted = static_cast<Ranges*>(buffers[0]);
  std::lock_guard lock(noted->mutex);
  noted->ranges.emplace_back(begin, end);
  noted->threads.insert(std::this_thread::get_id());
}

int64_t num_os_threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "Threads:") continue;
    int64_t count = 0;
    status >> count;
    return count;
  }
  return -1;
}

}  // namespace

TEST_CASE("every index is visited exactly once", "[unit]") {
  for (int32_t spin_us : {-1, 0, 5}) {
    for (int32_t threads : {1, 2, 3, 4, 7, 16}) {
      Pool p(threads, spin_us);
      REQUIRE(tcc_rt_pool_threads(p.pool) == threads);
      for (int64_t extent : {0, 1, 2, 3, 5, 16, 17, 63, 64, 1000}) {
        std::vector<int32_t> visits(extent + 1, 0);
        void* buffers[] = {visits.data()};
        for (int repeat = 0; repeat < 20; ++repeat) {
          REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, extent) == TCC_OK);
        }
        for (int64_t i = 0; i < extent; ++i) REQUIRE(visits[i] == 20);
        REQUIRE(visits[extent] == 0);
      }
    }
  }
}

TEST_CASE("pieces are contiguous and cover the range once", "[unit]") {
  Pool p(4, 0);
  for (int64_t extent : {int64_t{2}, int64_t{10}, int64_t{1000}, std::numeric_limits<int64_t>::max()}) {
    Ranges noted;
    void* buffers[] = {&noted};
    REQUIRE(tcc_rt_pool_run(p.pool, note_range, buffers, extent) == TCC_OK);
    std::sort(noted.ranges.begin(), noted.ranges.end());
    REQUIRE(noted.ranges.front().first == 0);
    REQUIRE(noted.ranges.back().second == extent);
    for (size_t i = 1; i < noted.ranges.size(); ++i) REQUIRE(noted.ranges[i].first == noted.ranges[i - 1].second);
    // Few calls for each thread, whatever the extent.
    REQUIRE(noted.ranges.size() <= 4 * 8);
  }
  Ranges serial;
  void* buffers[] = {&serial};
  REQUIRE(tcc_rt_pool_run(p.pool, note_range, buffers, 1) == TCC_OK);
  REQUIRE(serial.ranges == std::vector<std::pair<int64_t, int64_t>>{{0, 1}});
  REQUIRE(serial.threads == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("a call for each thread runs on each", "[unit]") {
  Pool p(4, 0);
  for (int repeat = 0; repeat < 100; ++repeat) {
    Ranges noted;
    void* buffers[] = {&noted};
    REQUIRE(tcc_rt_pool_run_each(p.pool, note_range, buffers) == TCC_OK);
    std::sort(noted.ranges.begin(), noted.ranges.end());
    REQUIRE(noted.ranges == std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
    REQUIRE(noted.threads.size() == 4);
    // Launches between, so that late workers meet both kinds.
    std::vector<int32_t> visits(7, 0);
    buffers[0] = visits.data();
    REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, 7) == TCC_OK);
    REQUIRE(visits == std::vector<int32_t>(7, 1));
  }
}

TEST_CASE("others take over what a slow thread has not begun", "[unit]") {
  Pool p(2, 0);
  struct Work {
    std::thread::id caller = std::this_thread::get_id();
    bool caller_is_slow = false;
    std::atomic<int> by_slow{0}, by_fast{0};
  } work;
  work.caller_is_slow = GENERATE(false, true);
  void* buffers[] = {&work};
  auto run = [](void* const* b, int64_t begin, int64_t end) {
    auto* w = static_cast<Work*>(b[0]);
    const bool slow = (std::this_thread::get_id() == w->caller) == w->caller_is_slow;
    for (int64_t i = begin; i < end; ++i) {
      if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++(slow ? w->by_slow : w->by_fast);
    }
  };
  REQUIRE(tcc_rt_pool_run(p.pool, run, buffers, 64) == TCC_OK);
  CHECK(work.by_slow + work.by_fast == 64);
  // Without taking over, 32 each. The slow one's first piece has 16.
  CHECK(work.by_slow <= 20);
}

TEST_CASE("workers that fell asleep wake up", "[unit]") {
  Pool p(3, -1);
  std::vector<int32_t> visits(3, 0);
  void* buffers[] = {visits.data()};
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, 3) == TCC_OK);
  }
  REQUIRE(visits == std::vector<int32_t>{30, 30, 30});
}

TEST_CASE("how long a worker waits awake is the caller's to say", "[unit]") {
  // What the system says of the pool's only worker: R runs or could, S sleeps.
  auto state_of_worker = [] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(entry.path() / "stat");
      std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const size_t close = stat.rfind(')');
      if (close != std::string::npos && stat.find("(tcc-rt)") != std::string::npos) return stat.at(close + 2);
    }
    return '?';
  };
  auto settles_at = [&](char wanted) {
    for (int i = 0; i < 500; ++i) {
      if (state_of_worker() == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  };
  std::vector<int32_t> visits(2, 0);
  void* buffers[] = {visits.data()};
  for (int32_t spin_us : {-1, 0, 1000}) {
    Pool p(2, spin_us);
    REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, 2) == TCC_OK);
    CHECK(settles_at('S'));
  }
  Pool awake(2, 60'000'000);
  REQUIRE(tcc_rt_pool_run(awake.pool, count_visits, buffers, 2) == TCC_OK);
  for (int i = 0; i < 20; ++i) {
    CHECK(state_of_worker() == 'R');
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  REQUIRE(tcc_rt_pool_run(awake.pool, count_visits, buffers, 2) == TCC_OK);
  CHECK(visits == std::vector<int32_t>{5, 5});
}

TEST_CASE("one thread means no thread is made", "[unit]") {
  const int64_t before = num_os_threads();
  {
    Pool one(1, 0);
    REQUIRE(num_os_threads() == before);
    Pool three(3, 0);
    REQUIRE(num_os_threads() == before + 2);
  }
  REQUIRE(num_os_threads() == before);
}

TEST_CASE("nested and concurrent runs are refused", "[unit]") {
  for (int32_t threads : {1, 2}) {
    Pool p(threads, 0);
    struct Nested {
      tcc_rt_pool* pool;
      std::atomic<int> refused{0}, inner{0};
    } nested{p.pool};
    void* buffers[] = {&nested};
    auto outer = [](void* const* b, int64_t, int64_t) {
      auto* n = static_cast<Nested*>(b[0]);
      auto count = [](void* const* c, int64_t, int64_t) { ++static_cast<Nested*>(c[0])->inner; };
      if (tcc_rt_pool_run(n->pool, count, b, 1) == TCC_ERROR_BUSY &&
          strstr(tcc_rt_last_error(), "one context per thread")) {
        ++n->refused;
      }
    };
    REQUIRE(tcc_rt_pool_run(p.pool, outer, buffers, 2) == TCC_OK);
    REQUIRE(nested.refused == threads);
    REQUIRE(nested.inner == 0);
    // The refusal leaves the pool usable.
    std::vector<int32_t> visits(2, 0);
    buffers[0] = visits.data();
    REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, 2) == TCC_OK);
    REQUIRE(visits == std::vector<int32_t>{1, 1});
  }
}

TEST_CASE("kernels flush or keep denormals on every thread, and the caller's mode is kept", "[unit]") {
  const bool keeps = GENERATE(false, true);
  Pool p(3, 0);
  if (keeps) tcc_rt_pool_keep_denormals(p.pool);
  const unsigned mode = _mm_getcsr();
  const unsigned unusual = (mode & ~0x6000u) | 0x4000u;  // round up
  _mm_setcsr(unusual);
  volatile float results[3] = {1, 1, 1};
  void* buffers[] = {const_cast<float*>(results)};
  auto halve = [](void* const* b, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      volatile float smallest = std::numeric_limits<float>::min();
      static_cast<volatile float*>(b[0])[i] = smallest * 0.5f;
    }
  };
  const tcc_status status = tcc_rt_pool_run_each(p.pool, halve, buffers);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(mode);
  REQUIRE(status == TCC_OK);
  REQUIRE((after & ~0x3fu) == (unusual & ~0x3fu));
  for (float r : results) REQUIRE(r == (keeps ? std::numeric_limits<float>::min() / 2 : 0.0f));
}

TEST_CASE("wrong pool arguments are named", "[unit][errors]") {
  tcc_rt_pool* pool = nullptr;
  REQUIRE(tcc_rt_pool_create(-1, 0, 0, &pool) == TCC_ERROR_INVALID_ARGUMENT);
  REQUIRE(std::string(tcc_rt_last_error()).find("threads is -1") != std::string::npos);
  REQUIRE(tcc_rt_pool_create(TCC_RT_MAX_THREADS + 1, 0, 0, &pool) == TCC_ERROR_INVALID_ARGUMENT);
  REQUIRE(pool == nullptr);
  Pool p(2, 0);
  REQUIRE(tcc_rt_pool_run(p.pool, nullptr, nullptr, 4) == TCC_ERROR_INVALID_ARGUMENT);
  REQUIRE(tcc_rt_pool_run(p.pool, count_visits, nullptr, -1) == TCC_ERROR_INVALID_ARGUMENT);
  REQUIRE(tcc_rt_pool_run_each(p.pool, nullptr, nullptr) == TCC_ERROR_INVALID_ARGUMENT);
  tcc_rt_pool_destroy(nullptr);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a thread that cannot start leaves nothing behind", "[unit][errors]") {
  const int64_t before = num_os_threads();
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
  // Room for a few stacks only.
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  rlimit tight = old;
  tight.rlim_cur = pages * 4096 + (100u << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  tcc_rt_pool* pool = nullptr;
  const tcc_status status = tcc_rt_pool_create(200, 0, 0, &pool);
  setrlimit(RLIMIT_AS, &old);
  REQUIRE(status == TCC_ERROR_RESOURCES);
  REQUIRE(std::string(tcc_rt_last_error()).find("of 200") != std::string::npos);
  REQUIRE(pool == nullptr);
  REQUIRE(num_os_threads() == before);
}
#endif

TEST_CASE("binding threads is reported and harmless", "[unit]") {
  Pool p(3, 0, 1);
  // The mask is the process's own, so every binding inside it is allowed.
  REQUIRE(tcc_rt_pool_pinned(p.pool) == 2);
  std::vector<int32_t> visits(3, 0);
  void* buffers[] = {visits.data()};
  REQUIRE(tcc_rt_pool_run(p.pool, count_visits, buffers, 3) == TCC_OK);
  REQUIRE(visits == std::vector<int32_t>{1, 1, 1});
  Pool unbound(3, 0, 0);
  REQUIRE(tcc_rt_pool_pinned(unbound.pool) == 0);
}

TEST_CASE("beside bound workers the caller has a CPU of its own, and its own ones afterwards", "[unit]") {
  auto usable = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    return set;
  };
  const cpu_set_t before = usable();
  Pool unbound(2, 0, 0);
  tcc_rt_pool_bind_caller(unbound.pool);
  const cpu_set_t beside_unbound = usable();
  CHECK(CPU_EQUAL(&before, &beside_unbound));
  tcc_rt_pool_release_caller(unbound.pool);
  if (CPU_COUNT(&before) < 2) SKIP("one CPU: nothing to choose from");

  Pool bound(2, 0, 1);
  REQUIRE(tcc_rt_pool_pinned(bound.pool) == 1);
  struct Seen {
    std::mutex mutex;
    std::vector<cpu_set_t> sets;
  } seen;
  auto note = [](void* const* b, int64_t, int64_t) {
    auto* s = static_cast<Seen*>(b[0]);
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::lock_guard lock(s->mutex);
    s->sets.push_back(set);
  };
  void* buffers[] = {&seen};
  tcc_rt_pool_bind_caller(bound.pool);
  const tcc_status status = tcc_rt_pool_run_each(bound.pool, note, buffers);
  tcc_rt_pool_release_caller(bound.pool);
  REQUIRE(status == TCC_OK);
  REQUIRE(seen.sets.size() == 2);
  CHECK(CPU_COUNT(&seen.sets[0]) == 1);
  CHECK(CPU_COUNT(&seen.sets[1]) == 1);
  CHECK(!CPU_EQUAL(&seen.sets[0], &seen.sets[1]));
  const cpu_set_t after = usable();
  CHECK(CPU_EQUAL(&before, &after));

  // A thread that its owner has bound stays where it is.
  cpu_set_t last;
  CPU_ZERO(&last);
  int cpu = CPU_SETSIZE - 1;
  while (!CPU_ISSET(cpu, &before)) --cpu;
  CPU_SET(cpu, &last);
  REQUIRE(sched_setaffinity(0, sizeof last, &last) == 0);
  tcc_rt_pool_bind_caller(bound.pool);
  const cpu_set_t during = usable();
  tcc_rt_pool_release_caller(bound.pool);
  const cpu_set_t still = usable();
  sched_setaffinity(0, sizeof before, &before);
  CHECK(CPU_EQUAL(&during, &last));
  CHECK(CPU_EQUAL(&still, &last));
}

namespace {

struct Places {
  std::atomic<int> first{-1}, second{-1};
};
void note_cpu(void* const* buffers, int64_t begin, int64_t) {
  auto* places = static_cast<Places*>(buffers[0]);
  (begin == 0 ? places->first : places->second) = sched_getcpu();
}

std::vector<pid_t> threads_of_process() {
  std::vector<pid_t> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ids.push_back(std::stoi(entry.path().filename().string()));
  return ids;
}

}  // namespace

TEST_CASE("a worker leaves the caller's CPU", "[unit]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  if (CPU_COUNT(&before) < 2) SKIP("one CPU");
  const std::vector<pid_t> others = threads_of_process();
  Pool p(2, 0);
  pid_t worker = 0;
  for (const pid_t id : threads_of_process())
    if (std::find(others.begin(), others.end(), id) == others.end()) worker = id;
  REQUIRE(worker > 0);
  // Both on one CPU, which the worker may leave and the caller may not.
  cpu_set_t one;
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  CPU_SET(cpu, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  REQUIRE(sched_setaffinity(worker, sizeof one, &one) == 0);
  REQUIRE(sched_setaffinity(worker, sizeof before, &before) == 0);
  Places places;
  void* buffers[] = {&places};
  bool apart = false;
  for (int i = 0; i < 1000 && !apart; ++i) {
    REQUIRE(tcc_rt_pool_run_each(p.pool, note_cpu, buffers) == TCC_OK);
    CHECK(places.first == cpu);
    apart = places.second != cpu;
  }
  CHECK(apart);
  // It may still run everywhere.
  cpu_set_t after;
  REQUIRE(sched_getaffinity(worker, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&after, &before));
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("fork and join are cheap", "[.][bench]") {
  Pool p(2, 1000);
  std::vector<int32_t> visits(2, 0);
  void* buffers[] = {visits.data()};
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    constexpr int kRuns = 100000;
    for (int i = 0; i < kRuns; ++i) tcc_rt_pool_run_each(p.pool, count_visits, buffers);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    WARN("fork-join of 2 threads: " << took.count() / kRuns << " us");
  }
}
