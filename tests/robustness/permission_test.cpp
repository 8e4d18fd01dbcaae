// Permissions that are missing, discs that are full, runs that meet: as a user would see them.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/runner.h"
#include "skip.h"
#include "tcc/record/store.h"
#include "tcc/target/target.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

const std::string kTcc = std::string(TCC_BINARY_DIR) + "/tools/tcc";
constexpr const char* kUnbound = "a command that may not bind threads to CPUs";

std::vector<tcc::record::Record> records_of(const fs::path& path) {
  auto store = tcc::record::Store::open(path.string());
  if (!store) FAIL(store.error().message);
  auto records = (*store)->all();
  REQUIRE(records.has_value());
  return *records;
}

nlohmann::json last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return nlohmann::json::parse(trimmed.substr(trimmed.rfind('\n') + 1));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a command that may not bind threads to CPUs", "[.]") {
  const char* command = getenv("TCC_TEST_COMMAND");
  REQUIRE(command != nullptr);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{std::size(program), program};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
  execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  _exit(127);
}

TEST_CASE("no permission to bind threads to CPUs: said once, and tuning goes on", "[errors]") {
  Sandbox box;
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const Outcome tuned =
      box.run({"env", "TCC_TEST_COMMAND=" + kTcc + " tune zoo:mlp --trials 6 --threads 1", self, kUnbound});
  CAPTURE(tuned.out, tuned.err);
  REQUIRE(tuned.exit_code == 0);
  CHECK(count_of(tuned.err, "threads may not be bound to CPUs here") == 1);
  const auto records = records_of(box.path("data/tcc/records.db"));
  REQUIRE(records.size() >= 6);
  int timed = 0;
  for (const auto& r : records) {
    CHECK_FALSE(r.overlap);
    timed += r.status == tcc::record::Status::kOk ? 1 : 0;
  }
  CHECK(timed >= 6);
}

TEST_CASE("two runs of the same search on one file of records: each has a place of its own", "[errors]") {
  Sandbox one, two;
  // No more trials than these small spaces have programs, whatever the machine's vectors.
  auto start = [&](const Sandbox& box) {
    return box.start({kTcc, "tune", "zoo:mlp", "--trials", "12", "--seed", "5", "--db", one.str("both.db"), "--json"});
  };
  const pid_t first = start(one), second = start(two);
  const Outcome a = one.wait(first), b = two.wait(second);
  CAPTURE(a.out, a.err, b.out, b.err);
  REQUIRE(a.exit_code == 0);
  REQUIRE(b.exit_code == 0);
  CHECK(count_of(a.err + b.err, "is on the same search right now") == 1);
  CHECK((a.out + a.err + b.out + b.err).find("going on with an interrupted run") == std::string::npos);
  const int64_t trials = last_line(a.out).at("trials").get<int64_t>() + last_line(b.out).at("trials").get<int64_t>();
  CHECK(trials == 24);
  CHECK(static_cast<int64_t>(records_of(one.path("both.db")).size()) >= trials);

  // Both are through: nothing is left to go on with.
  const Outcome again = one.tcc({"tune", "zoo:mlp", "--trials", "12", "--seed", "5", "--db", one.str("both.db")});
  CAPTURE(again.err);
  CHECK(again.exit_code == 0);
  CHECK((again.out + again.err).find("interrupted") == std::string::npos);
  CHECK((again.out + again.err).find("same search") == std::string::npos);
}

TEST_CASE("a second run of the same search that is killed is gone on with later", "[errors]") {
  Sandbox one, two;
  auto start = [&](const Sandbox& box, const char* time) {
    // Tasks with programs enough: they are not through when the runs are killed.
    return box.start({kTcc, "tune", "zoo:resnet18", "--image", "32", "--tasks", "2-4", "--trials", "4000", "--time",
                      time, "--seed", "5", "--db", one.str("both.db"), "--json"});
  };
  const pid_t first = start(one, "600s"), second = start(two, "600s");
  auto has_measured = [](const Sandbox& box) {
    const std::string text = slurp(box.path("stdout")), count = "\"trials\":";
    for (size_t at = text.find(count); at != std::string::npos; at = text.find(count, at + 1))
      if (std::atoll(text.c_str() + at + count.size()) >= 6) return true;
    return false;
  };
  auto wait_for = [&](const Sandbox& box) {
    for (int i = 0; i < 6000 && !has_measured(box); ++i) usleep(50000);
    REQUIRE(has_measured(box));
  };
  wait_for(one);
  wait_for(two);
  kill(first, SIGKILL);
  kill(second, SIGKILL);
  one.wait(first);
  two.wait(second);
  const size_t kept = records_of(one.path("both.db")).size();
  CHECK(kept >= 8);
  for (const Sandbox* box : {&one, &two}) {
    const Outcome rest = box->wait(start(*box, "1s"));
    CAPTURE(rest.out, rest.err);
    CHECK(rest.exit_code == 0);
    CHECK_THAT(rest.out + rest.err, Contains("going on with an interrupted run"));
  }
  CHECK(records_of(one.path("both.db")).size() >= kept);
}

TEST_CASE("a disc that is full: what was recorded is kept, and there is room again later", "[errors]") {
  Sandbox box;
  fs::create_directory(box.path("disc"));
  // A file system of its own, small, in a name space of its own; the records are carried out before it disappears.
  const std::string script = "mount -t tmpfs -o size=600k tmpfs disc || exit 42; " + kTcc +
                             " tune zoo:mlp --trials 300 --db disc/records.db; code=$?; cp disc/records.db* .; "
                             "exit $code";
  const Outcome full = box.run({"unshare", "--mount", "--map-root-user", "sh", "-c", script});
  CAPTURE(full.out, full.err);
  if (full.exit_code == 42 || full.err.find("unshare:") != std::string::npos)
    SKIP("no permission to mount a file system");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Contains("disc/records.db") && Contains("the disk is full") && Contains("is kept"));
  const size_t kept = records_of(box.path("records.db")).size();
  CHECK(kept > 3);
  const Outcome more = box.tcc({"tune", "zoo:mlp", "--trials", "300", "--time", "1s", "--db", "records.db"});
  CAPTURE(more.err);
  CHECK(more.exit_code == 0);
  CHECK_THAT(more.err, Contains("going on with an interrupted run"));
  CHECK(records_of(box.path("records.db")).size() >= kept);
}

TEST_CASE("a target that this machine is not", "[errors]") {
  Sandbox box;
  const auto level = tcc::target::isa_level(tcc::target::host_target());
  const Outcome tuned = box.tcc({"tune", "zoo:mlp", "--trials", "3", "--target", "x86-64-v4"});
  CAPTURE(tuned.out, tuned.err);
  if (level >= 4) {
    CHECK(tuned.exit_code == 0);
    return;
  }
  CHECK(tuned.exit_code == 1);
  CHECK_THAT(tuned.err,
             Contains("'x86-64-v4' cannot be tuned here") && Contains("hint: ") && Contains("--target host"));
  // For another machine it can be built all the same, untuned.
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--target", "x86-64-v4"});
  CAPTURE(built.err);
  CHECK(built.exit_code == 0);
}
