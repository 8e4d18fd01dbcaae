// Fleets as users run them: a server, workers and tuners, each a process of its own.
#include "fleet/server.h"

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model_bytes.h"
#include "runner.h"
#include "skip.h"
#include "tcc/fleet/message.h"
#include "tcc/fleet/worker.h"
#include "tcc/record/store.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using fleet_test::Server;
using nlohmann::json;

namespace {

#define NEED_FLEET() \
  if (const std::string why = fleet_test::why_no_fleet(); !why.empty()) SKIP(why)

using Words = std::vector<std::string>;

// A worker in a sandbox of its own, until this object ends.
class FleetWorker {
 public:
  FleetWorker(const Server& server, Words words) {
    words.insert(words.begin(), {std::string(TCC_BINARY_DIR) + "/tools/tcc", "fleet", "work", "--fleet", server.url(),
                                 "--fleet-secrets", server.secrets("worker")});
    pid_ = box_.start(words);
  }
  ~FleetWorker() {
    if (pid_ > 0) stop(SIGKILL);
  }
  Outcome stop(int signal) {
    kill(pid_, signal);
    return box_.wait(std::exchange(pid_, -1));
  }
  Outcome wait() { return box_.wait(std::exchange(pid_, -1)); }

 private:
  Sandbox box_;
  pid_t pid_ = -1;
};

Words on(const Server& server, Words words) {
  words.insert(words.end(), {"--fleet", server.url(), "--fleet-secrets", server.secrets("tuner")});
  return words;
}

using Times = std::map<std::pair<uint64_t, uint64_t>, double>;
// By task and program, the times of records of a kind; each program must have one record.
Times times_of(const fs::path& path, tcc::record::Kind kind) {
  auto store = tcc::record::Store::open(path.string(), tcc::record::Store::Mode::kReadOnly);
  if (!store) FAIL(store.error().message);
  Times times;
  const auto all = (*store)->all().value();
  for (const tcc::record::Record& r : all) {
    if (r.kind != kind) continue;
    CHECK(times.emplace(std::pair(r.task, r.nest_hash), r.status == tcc::record::Status::kOk ? r.median : -1).second);
  }
  return times;
}

const Words kSimulated = {"tune", "zoo:mlp",  "--target", "a100",    "--simulate",
                          "7",    "--trials", "60",       "--quiet", "--db"};
Words simulated(const std::string& db) {
  Words words = kSimulated;
  words.push_back(db);
  return words;
}

}  // namespace

TEST_CASE("a search on a fleet is the same search, also when its tuner is killed", "[cli]") {
  NEED_FLEET();
  Sandbox box;
  Words here = simulated("alone.db");
  here.insert(here.end(), {"--tasks-at-once", "8"});  // as on a fleet
  REQUIRE(box.tcc(here).exit_code == 0);
  const Times alone = times_of(box.path("alone.db"), tcc::record::Kind::kSimulated);
  CHECK(alone.size() >= 60);
  Server server;
  const Words work = {"--target", "a100", "--simulate", "7", "--user", "root"};
  FleetWorker a(server, work), b(server, work);
  const Outcome tuned = box.tcc(on(server, simulated("fleet.db")));
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  CHECK(times_of(box.path("fleet.db"), tcc::record::Kind::kSimulated) == alone);

  for (const double seconds : {0.5, 1.0}) {
    Words words = on(server, simulated("killed.db"));
    words.insert(words.begin(), std::string(TCC_BINARY_DIR) + "/tools/tcc");
    const pid_t pid = box.start(words);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    kill(pid, SIGKILL);
    box.wait(pid);
  }
  const Outcome resumed = box.tcc(on(server, simulated("killed.db")));
  CAPTURE(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(times_of(box.path("killed.db"), tcc::record::Kind::kSimulated) == alone);

  const Outcome status =
      box.tcc({"fleet", "status", "--fleet", server.url(), "--fleet-secrets", server.secrets("viewer"), "--json"});
  REQUIRE(status.exit_code == 0);
  const json facts = json::parse(status.out);
  REQUIRE(facts["workers"].size() == 2);
  CHECK(facts["workers"][0]["done"].get<int64_t>() + facts["workers"][1]["done"].get<int64_t>() >=
        60);  // beats come every two seconds
  CHECK(facts["classes"][0]["waiting"] == 0);
  const std::string page = slurp(fs::path(TCC_SOURCE_DIR) / "docs/json.md");
  for (const auto& [name, value] : facts["workers"][0].items()) CHECK_THAT(page, Contains("`" + name + "`"));
  for (const auto& [name, value] : facts["classes"][0].items()) CHECK_THAT(page, Contains("`" + name + "`"));
  const Outcome table =
      box.tcc({"fleet", "status", "--fleet", server.url(), "--fleet-secrets", server.secrets("viewer")});
  CHECK_THAT(table.out, Contains("a100-") && Contains("waiting"));

  REQUIRE(box.tcc({"fleet", "drain", "--fleet", server.url(), "--fleet-secrets", server.secrets("tuner")}).exit_code ==
          0);
  CHECK(a.wait().exit_code == 0);
  CHECK(b.wait().exit_code == 0);
}

TEST_CASE("a worker refuses tasks that ask for more memory than it gives", "[cli][errors]") {
  NEED_FLEET();
  Sandbox box;
  Server server;
  FleetWorker worker(server, {"--threads", "1", "--job-memory", "1"});
  const Outcome tuned =
      box.tcc(on(server, {"tune", "zoo:mlp", "--threads", "1", "--trials", "6", "--db", "r.db", "-q"}));
  check_error(tuned, 1, "needs about");
  CHECK_THAT(tuned.err, Contains("expected at most 1 MiB") && Contains("cannot measure a candidate"));
  const Outcome ended = worker.stop(SIGTERM);
  CHECK(ended.exit_code == 0);
}

TEST_CASE("status warns of a worker whose clock is wrong", "[cli]") {
  NEED_FLEET();
  Sandbox box;
  Server server;
  const auto bus = server.connect_as("worker");
  REQUIRE(tcc::fleet::ensure_streams(*server.connect_as("tuner")));
  tcc::fleet::Beat beat;
  beat.worker = "early", beat.machine_class = "c", beat.state = "ready";
  beat.now = 1000 * (static_cast<int64_t>(std::time(nullptr)) + 3600);
  const std::string subject = tcc::fleet::beat_subject("early");
  REQUIRE(
      bus->store(subject, tcc::fleet::seal(server.access("worker").key, subject, tcc::fleet::print_beat(beat)), ""));
  const Outcome status =
      box.tcc({"fleet", "status", "--fleet", server.url(), "--fleet-secrets", server.secrets("viewer")});
  CHECK(status.exit_code == 0);
  CHECK_THAT(status.err, Contains("the clock of worker early is") && Contains("ahead of that of the server"));
}

TEST_CASE("workers measure, compare finalists, and end on SIGTERM", "[cli]") {
  NEED_FLEET();
  Sandbox box;
  Server server;
  FleetWorker worker(server, {"--threads", "1"});
  const Outcome tuned = box.tcc(
      on(server, {"tune", "zoo:mlp", "--threads", "1", "--trials", "24", "--db", "real.db", "--json", "--quiet"}));
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  const std::string line = tuned.out.substr(tuned.out.rfind('\n', tuned.out.size() - 2) + 1);
  CHECK(json::parse(line)["counts"]["measured"].get<int64_t>() >= 20);
  auto store = tcc::record::Store::open(box.str("real.db"), tcc::record::Store::Mode::kReadOnly);
  REQUIRE(store);
  int64_t right = 0;
  const auto all = (*store)->all().value();
  for (const tcc::record::Record& r : all) {
    if (r.kind != tcc::record::Kind::kMeasured) continue;
    CHECK(r.threads == 1);
    if (r.status != tcc::record::Status::kOk) continue;
    ++right;
    CHECK(!r.gate.empty());
    CHECK(!r.device.empty());
  }
  CHECK(right >= 20);
  const Outcome ended = worker.stop(SIGTERM);
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  CHECK_THAT(ended.err, Contains("0 messages"));
}

TEST_CASE("programs for cost models are collected by workers that join and leave", "[cli]") {
  NEED_FLEET();
  Sandbox box;
  Server server;
  const Words work = {"--target", "a100", "--simulate", "7", "--user", "root"};
  auto first = std::make_unique<FleetWorker>(server, work);
  std::unique_ptr<FleetWorker> second;
  std::jthread change([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    second = std::make_unique<FleetWorker>(server, work);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    first.reset();
  });
  const Words collect = {"dataset", "collect", "zoo:mlp", "--target", "a100", "--simulate", "7", "--per-task", "80"};
  Words words = on(server, collect);
  words.insert(words.end(), {"-o", "fleet.pool"});
  const Outcome collected = box.tcc(words);
  CAPTURE(collected.err);
  REQUIRE(collected.exit_code == 0);
  change.join();
  words = collect;
  words.insert(words.end(), {"-o", "alone.pool"});
  REQUIRE(box.tcc(words).exit_code == 0);
  const auto lines = [&](const std::string& pool) {
    std::istringstream text(box.tcc({"dataset", "export", pool}).out);
    std::multiset<std::string> out;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("{\"decisions\"")) out.insert(line);
    return out;
  };
  CHECK(lines("alone.pool").size() >= 100);
  CHECK(lines("fleet.pool") == lines("alone.pool"));
}

TEST_CASE("without a server: a clear message, or this machine", "[cli]") {
  NEED_FLEET();
  Sandbox box;
  spill(box.path("s"), "user tuner\npassword p\nkey 0123456789abcdef0123\n");
  fs::permissions(box.path("s"), fs::perms::owner_read | fs::perms::owner_write);
  const std::string url = fmt::format("nats://127.0.0.1:{}", fleet_test::free_port());
  Words words = simulated("r.db");
  words.insert(words.end(), {"--fleet", url, "--fleet-secrets", "s"});
  check_error(box.tcc(words), 1, "expected the NATS server at " + url);
  words.erase(std::find(words.begin(), words.end(), "--quiet"));
  words.push_back("--fleet-or-local");
  const Outcome local = box.tcc(words);
  CAPTURE(local.err);
  CHECK(local.exit_code == 0);
  CHECK_THAT(local.err, Contains("this machine measures instead"));
  fs::permissions(box.path("s"), fs::perms::all);
  check_error(box.tcc({"fleet", "status", "--fleet", url, "--fleet-secrets", "s"}), 1, "others may read");
}
