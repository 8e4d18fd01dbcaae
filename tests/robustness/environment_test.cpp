// Environments that are against the user: one clear message, the documented exit code, no crash, nothing lost.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/runner.h"
#include "tcc/measure/host.h"
#include "tcc/record/store.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string kTcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Root may write anywhere; without these two capabilities it may not.
Words as_plain_user() {
  if (geteuid() != 0) return {};
  return {"setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"};
}

// An error of the environment: exit code 1, exactly one message, which names `what`, and a hint that names `hint`.
void check_failure(const Outcome& outcome, const std::string& what, const std::string& hint) {
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Contains("tcc: error: ") && Contains(what) && Contains("hint: ") && Contains(hint));
  CHECK(outcome.err.find("tcc: error: ") == outcome.err.rfind("tcc: error: "));
}

std::vector<tcc::record::Record> records_of(const fs::path& path) {
  auto store = tcc::record::Store::open(path.string());
  if (!store) FAIL(store.error().message);
  auto records = (*store)->all();
  REQUIRE(records.has_value());
  return *records;
}

json last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return json::parse(trimmed.substr(trimmed.rfind('\n') + 1));
}

void wait_for(const Sandbox& box, const std::string& text) {
  for (int i = 0; i < 6000 && slurp(box.path("stdout")).find(text) == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE_THAT(slurp(box.path("stdout")), Contains(text));
}

// The process's tcc-worker, 0 when it has none.
pid_t worker_of(pid_t parent) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string stat = slurp(entry.path() / "stat");
    const size_t close = stat.rfind(')');
    if (close == std::string::npos || stat.find("(tcc-worker)") == std::string::npos) continue;
    if (std::stoi(stat.substr(close + 4)) == parent) return std::stoi(entry.path().filename().string());
  }
  return 0;
}
bool is_gone(pid_t pid) {
  for (int i = 0; i < 2000; ++i) {
    const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
    if (stat.empty() || stat.find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace

TEST_CASE("folders that may not be written", "[errors]") {
  Sandbox box;
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--trials", "3", "--db", "kept/records.db"}).exit_code == 0);
  const size_t kept = records_of(box.path("kept/records.db")).size();
  REQUIRE(kept >= 3);
  REQUIRE(chmod(box.str("kept/records.db").c_str(), 0444) == 0);
  REQUIRE(chmod(box.str("kept").c_str(), 0555) == 0);
  auto plain = [&](const Words& words) { return box.run(as_plain_user() + Words{kTcc} + words); };
  check_failure(plain({"tune", "zoo:mlp", "--trials", "3", "--db", "kept/records.db"}), "kept/records.db", "read-only");
  check_failure(plain({"tune", "zoo:mlp", "--trials", "3", "--db", "kept/new.db"}), "kept/new.db", "name another");
  check_failure(plain({"tune", "zoo:mlp", "--trials", "3", "--db", "kept/a/new.db"}), "kept/a", "may be written");
  check_failure(plain({"build", "zoo:mlp", "-o", "kept/out"}), "kept/out", "name another");
  check_failure(plain({"build", "zoo:mlp", "-o", "kept"}), "'kept'", "another folder");
  check_failure(plain({"zoo", "mlp", "-o", "kept/mlp.onnx"}), "kept/mlp.onnx", "name another");

  // Reading needs no permission to write.
  const Outcome shown = plain({"show", "zoo:mlp", "--db", "kept/records.db", "--json"});
  CAPTURE(shown.err);
  REQUIRE(shown.exit_code == 0);
  for (const json& task : json::parse(shown.out).at("tasks")) CHECK(task.at("best_seconds") > 0);
  const Outcome built = plain({"build", "zoo:mlp", "--db", "kept/records.db", "-o", "out", "--require-tuned"});
  CAPTURE(built.err);
  CHECK(built.exit_code == 0);
  REQUIRE(chmod(box.str("kept").c_str(), 0755) == 0);
  REQUIRE(chmod(box.str("kept/records.db").c_str(), 0644) == 0);
  CHECK(records_of(box.path("kept/records.db")).size() == kept);
}

TEST_CASE("names that are something else", "[errors]") {
  Sandbox box;
  fs::create_directory(box.path("folder.db"));
  spill(box.path("file"), "x");
  REQUIRE(mkfifo(box.str("pipe.db").c_str(), 0644) == 0);
  for (const char* command : {"tune", "show", "bench"}) {
    CAPTURE(command);
    check_failure(box.tcc({command, "zoo:mlp", "--db", "folder.db"}), "folder.db': this is a folder", "name a file");
    check_failure(box.tcc({command, "zoo:mlp", "--db", "pipe.db"}), "pipe.db': this is a device", "name a file");
    check_failure(box.tcc({command, "zoo:mlp", "--db", "/dev/zero"}), "/dev/zero", "name a file");
  }
  check_failure(box.tcc({"tune", "zoo:mlp", "--db", "file/records.db"}), "file/records.db", "folder");
  check_failure(box.tcc({"build", "zoo:mlp", "-o", "file"}), "'file'", "");
  check_failure(box.tcc({"build", "zoo:mlp", "-o", "file/out"}), "file/out", "");
  for (const char* file : {"folder.db", "pipe.db", "/dev/zero", "nowhere.json"}) {
    const Outcome outcome = box.tcc({"show", "zoo:mlp", "--target-file", file});
    CAPTURE(file, outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK_THAT(outcome.err, Contains(file));
  }
}

TEST_CASE("records of a newer version, and damaged ones, are left alone", "[errors]") {
  Sandbox box;
  const std::string newer = box.str("newer.db");
  REQUIRE(tcc::record::Store::open(newer).has_value());
  std::string bytes = slurp(newer);
  REQUIRE(bytes.size() >= 100);
  bytes[63] = 77;  // the format's number, in SQLite's header: big endian, bytes 60 to 63
  spill(newer, bytes);
  spill(box.path("damaged.db"), bytes.substr(0, 100) + std::string(20000, 'x'));
  for (const char* command : {"tune", "show"}) {
    CAPTURE(command);
    check_failure(box.tcc({command, "zoo:mlp", "--db", "newer.db"}), "newer version of tcc (format 77", "upgrade");
    check_failure(box.tcc({command, "zoo:mlp", "--db", "damaged.db"}), "damaged.db", "");
  }
  CHECK(slurp(newer) == bytes);
  CHECK(slurp(box.path("damaged.db")) == bytes.substr(0, 100) + std::string(20000, 'x'));
}

TEST_CASE("two runs on one file of records: both finish, all records are there", "[errors]") {
  Sandbox one, two;
  auto start = [&](const Sandbox& box, const char* seed) {
    return box.start({kTcc, "tune", "zoo:mlp", "--trials", "12", "--seed", seed, "--db", one.str("both.db"), "--json"});
  };
  const pid_t first = start(one, "1"), second = start(two, "2");
  const Outcome a = one.wait(first), b = two.wait(second);
  CAPTURE(a.err, b.err);
  REQUIRE(a.exit_code == 0);
  REQUIRE(b.exit_code == 0);
  const int64_t trials = last_line(a.out).at("trials").get<int64_t>() + last_line(b.out).at("trials").get<int64_t>();
  CHECK(trials == 24);
  const auto records = records_of(one.path("both.db"));
  CHECK(static_cast<int64_t>(records.size()) >= trials + 3);  // and the plain program of each of three tasks
  std::set<uint64_t> programs;                                // the fastest are recorded again when they have met
  for (const auto& r : records) programs.insert(r.nest_hash);
  CHECK(static_cast<int64_t>(programs.size()) <= trials + 3);
}

TEST_CASE("a limit on file sizes, which is how a full disk looks: what was recorded is kept", "[errors]") {
  Sandbox box;
  // Room for the data of the task and a few records: the store's log is copied back at 412,000 bytes.
  const Words few = {"tune", "zoo:mlp", "--tasks", "2", "--db", "full.db", "--trials"}, run = few + Words{"500"};
  REQUIRE(box.tcc(few + Words{"6"}).exit_code == 0);
  const size_t before = records_of(box.path("full.db")).size();
  CHECK(before > 3);
  const Outcome full = box.run(Words{"prlimit", "--fsize=410000", kTcc} + run);
  check_failure(full, "full.db': cannot write", "recorded so far is kept");
  const size_t kept = records_of(box.path("full.db")).size();
  CHECK(kept > before);
  const Outcome more = box.tcc(run + Words{"--time", "1s"});
  CHECK(more.exit_code == 0);
  CHECK_THAT(more.err, Contains("going on with an interrupted run"));
  CHECK(records_of(box.path("full.db")).size() >= kept);

  check_failure(box.run({"prlimit", "--fsize=1000", kTcc, "tune", "zoo:mlp", "--db", "tiny.db"}), "tiny.db",
                "ulimit -f");
  check_failure(box.run({"prlimit", "--fsize=50000", kTcc, "zoo", "mlp", "-o", "m.onnx"}), "m.onnx", "ulimit -f");
  const Outcome built = box.run({"prlimit", "--fsize=50000", kTcc, "build", "zoo:mlp", "-o", "out"});
  CAPTURE(built.err);
  CHECK(built.exit_code == 1);
  CHECK_THAT(built.err, Contains("out/") && Contains("File too large"));
  for (const auto& entry : fs::recursive_directory_iterator(box.path())) {  // no half-written files
    CAPTURE(entry.path());
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
    CHECK(entry.path().extension() != ".so");
  }
}

TEST_CASE("standard output that is closed, full or no longer read", "[errors]") {
  Sandbox box;
  auto shell = [&](const std::string& line) { return box.run({"sh", "-c", line, kTcc}); };
  const Outcome gone = shell("{ \"$0\" tune zoo:mlp --trials 6 --json; echo $? > code; } | true; cat code");
  CAPTURE(gone.err);
  CHECK(gone.out == "0\n");
  std::set<std::pair<uint64_t, uint64_t>> programs;  // the fastest are recorded again when they have met
  for (const tcc::record::Record& r : records_of(box.path("data/tcc/records.db")))
    if (r.kind == tcc::record::Kind::kMeasured) programs.insert({r.task, r.nest_hash});
  CHECK(programs.size() == 6);
  CHECK(shell("{ \"$0\" show zoo:mlp --task 0; echo $? > code; } | true; cat code").out == "0\n");
  CHECK(shell("\"$0\" inspect zoo:mlp >&-").exit_code == 0);
  CHECK(shell("\"$0\" build zoo:mlp -o out <&- >&- 2>&-").exit_code == 0);
  CHECK(shell("\"$0\" verify out/libmlp.so <&- >&- 2>&-").exit_code == 0);
  CHECK(shell("\"$0\" inspect nowhere.onnx >&- 2>&-").exit_code == 1);
  check_failure(shell("\"$0\" inspect zoo:mlp > /dev/full"), "standard output", "space");
}

TEST_CASE("no place for records", "[errors]") {
  Sandbox box;
  auto homeless = [&](const Words& words) {
    return box.run(Words{"env", "-u", "XDG_DATA_HOME", "-u", "HOME", kTcc} + words);
  };
  check_failure(homeless({"tune", "zoo:mlp", "--trials", "1"}), "in XDG_DATA_HOME or HOME", "--db");
  CHECK(homeless({"tune", "zoo:mlp", "--trials", "3", "--db", "here.db"}).exit_code == 0);
  CHECK(homeless({"show", "zoo:mlp"}).exit_code == 0);
  CHECK(homeless({"build", "zoo:mlp", "-o", "out"}).exit_code == 0);
  CHECK(homeless({"verify", "out/libmlp.so"}).exit_code == 0);
}

TEST_CASE("a machine with one core, and one without AVX", "[errors]") {
  Sandbox box;
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  const Outcome single = box.run({"taskset", "-c", std::to_string(cpu), kTcc, "tune", "zoo:mlp", "--trials", "6"});
  CAPTURE(single.err);
  CHECK(single.exit_code == 0);
  CHECK_THAT(single.err, Contains("on 1 thread;"));

  const Words target = {"--target", "x86-64-v2"};
  const Outcome tuned = box.tcc(Words{"tune", "zoo:mlp", "--trials", "6", "--json"} + target);
  CAPTURE(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  CHECK(last_line(tuned.out).at("counts").at("measured") == 6);
  REQUIRE(box.tcc(Words{"build", "zoo:mlp", "-o", "out", "--require-tuned", "--emit", "llvm"} + target).exit_code == 0);
  const Outcome verified = box.tcc({"verify", "out/libmlp.so"});
  CAPTURE(verified.out);
  CHECK(verified.exit_code == 0);
  const Outcome code = box.run({"sh", "-c", "objdump -d out/libmlp.so | grep -c '%[yz]mm'"});
  CHECK(code.out == "0\n");
}

TEST_CASE("CPUs that this process may not use are left out, and the user is told", "[errors]") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  std::thread([&] {  // the mask is the thread's own
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpu), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    tcc::measure::HostMeasureOptions options;
    options.worker_path = std::string(TCC_BINARY_DIR) + "/tools/tcc-worker";
    options.cpus = {cpu, cpu + 1};
    options.threads = 2;
    auto measurer = tcc::measure::IsolatedHostMeasurer::create(options);
    REQUIRE(measurer.has_value());
    REQUIRE((*measurer)->notes().size() == 2);
    CHECK_THAT((*measurer)->notes()[0], Contains(fmt::format("CPU {} may not be used", cpu + 1)));
    CHECK_THAT((*measurer)->notes()[1], Contains("2 threads are measured on 1 CPU"));
    options.cpus = {cpu + 1};
    auto none = tcc::measure::IsolatedHostMeasurer::create(options);
    REQUIRE_FALSE(none.has_value());
    CHECK_THAT(none.error().message, Contains("none of the CPUs"));
    CHECK_FALSE(none.error().hint.empty());
  })
      .join();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadows are larger than any limit
TEST_CASE("a limit on memory gives a message wherever it strikes", "[errors]") {
  Sandbox box;
  auto run = [&](int64_t mebibytes, const Words& words) {
    return box.run(Words{"prlimit", "--as=" + std::to_string(mebibytes << 20), kTcc} + words);
  };
  // Until the program itself fits, the system's loader and the libraries' own initialization speak.
  int64_t least = 150;
  while (least < 2000 && run(least, {"--version"}).exit_code != 0) least += 8;
  // The last one links: lld has messages of its own.
  for (const Words& words : {Words{"inspect", "zoo:resnet18"}, Words{"tune", "zoo:mlp", "--trials", "3"},
                             Words{"build", "zoo:mlp", "-o", "out"}}) {
    int messages = 0;
    bool fits = false;
    // `build` is short, and it calls LLVM in this process: small steps strike in many of its places.
    const int64_t step = words[0] == "build" ? 1 : 8;
    for (int64_t mebibytes = least; mebibytes <= 2000 && !fits; mebibytes += step) {
      const Outcome outcome = run(mebibytes, words);
      CAPTURE(mebibytes, words[0], outcome.exit_code, outcome.err);
      fits = outcome.exit_code == 0;
      if (fits) continue;
      ++messages;
      // Some tasks had room to be measured, and each of the others is named with its reason.
      if (words[0] == "tune" && outcome.exit_code == 5) {
        CHECK_THAT(outcome.err, Contains("tcc: warning: ") && Contains("Cannot allocate memory"));
        continue;
      }
      CHECK(outcome.exit_code == 1);
      CHECK_THAT(outcome.err,
                 Contains("tcc: error: ") && Contains("memory") && Contains("hint: ") && Contains("ulimit -v"));
    }
    CHECK(fits);
    CHECK(messages >= 1);
  }
}
#endif

TEST_CASE("a worker that is missing", "[errors]") {
  Sandbox box;
  fs::create_directory(box.path("alone"));
  fs::copy_file(kTcc, box.path("alone/tcc"));
  const Words tune = {box.str("alone/tcc"), "tune", "zoo:mlp", "--trials", "3"};
  check_failure(box.run(tune), "alone/tcc-worker' cannot be run: No such file", "beside tcc");
  spill(box.path("alone/tcc-worker"), "not a program");
  check_failure(box.run(tune), "alone/tcc-worker' cannot be run: Permission denied", "beside tcc");
  fs::permissions(box.path("alone/tcc-worker"), fs::perms::owner_all);
  CHECK(box.run(tune).exit_code == 1);
}

TEST_CASE("a worker killed while tuning is started again and no candidate is blamed", "[errors]") {
  Sandbox box;
  // Not more trials than the spaces of these products of one row have programs, whatever the machine's vectors.
  const pid_t pid = box.start({kTcc, "tune", "zoo:mlp", "--trials", "12", "--json"});
  int killed = 0;
  for (int i = 1; i <= 3; ++i) {
    wait_for(box, fmt::format("\"trials\":{},", 4 * i));
    const pid_t worker = worker_of(pid);
    if (worker > 0 && kill(worker, SIGKILL) == 0) ++killed;
  }
  const Outcome outcome = box.wait(pid);
  CAPTURE(outcome.out, outcome.err);
  CHECK(killed >= 2);
  REQUIRE(outcome.exit_code == 0);
  const json summary = last_line(outcome.out);
  CHECK(summary.at("trials") == 12);
  CHECK(summary.at("counts").at("measured") == 12);
}

TEST_CASE("SIGINT and SIGTERM end tuning with what was found", "[errors]") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  Sandbox box;
  const pid_t pid = box.start({kTcc, "tune", "zoo:mlp", "--trials", "100000", "--json"});
  wait_for(box, "\"event\":\"round\"");
  const pid_t worker = worker_of(pid);
  REQUIRE(worker > 0);
  REQUIRE(kill(pid, signal) == 0);
  const Outcome stopped = box.wait(pid);
  CAPTURE(signal, stopped.out, stopped.err);
  CHECK(stopped.exit_code == 3);
  const json summary = last_line(stopped.out);
  CHECK(summary.at("stopped") == true);
  CHECK(summary.at("tasks").at(0).at("best_seconds") > 0);
  const int64_t trials = summary.at("trials").get<int64_t>();
  CHECK(trials > 0);
  CHECK(trials == summary.at("counts").at("tried"));
  const auto records = records_of(box.path("data/tcc/records.db"));
  const auto count = static_cast<int64_t>(records.size());
  CHECK(count > trials);  // and the plain program of each task that was begun
  CHECK(count <= trials + 3);
  CHECK(is_gone(worker));
}

TEST_CASE("the second signal ends tuning at once, and so does kill -9; the worker goes too", "[errors]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGKILL);
  Sandbox box;
  const pid_t pid = box.start({kTcc, "tune", "zoo:mlp", "--trials", "100000", "--json"});
  wait_for(box, "\"event\":\"round\"");
  const pid_t worker = worker_of(pid);
  REQUIRE(worker > 0);
  const size_t before = records_of(box.path("data/tcc/records.db")).size();
  REQUIRE(before > 0);
  REQUIRE(kill(pid, signal) == 0);
  if (signal != SIGKILL) kill(pid, signal == SIGINT ? SIGTERM : SIGINT);
  const Outcome stopped = box.wait(pid);
  CAPTURE(signal, stopped.err);
  CHECK(stopped.exit_code == (signal == SIGKILL ? -SIGKILL : 3));
  CHECK(is_gone(worker));
  CHECK(records_of(box.path("data/tcc/records.db")).size() >= before);
  CHECK(box.tcc({"show", "zoo:mlp"}).exit_code == 0);
}
