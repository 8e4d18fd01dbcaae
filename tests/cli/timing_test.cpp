// Times that can be trusted, as a user meets them: latency before and after, one number everywhere, disturbed times,
// two libraries in turns (findings U3, U5, U8, U11).
#include <signal.h>
#include <nlohmann/json.hpp>

#include <thread>

#include "model_bytes.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

Json last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  const size_t begin = text.rfind('\n', end);
  return Json::parse(text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin));
}

}  // namespace

TEST_CASE("U5: tune ends with the latency of the built library before and after, and unscheduled loops are for -v",
          "[cli]") {
  Sandbox box;
  const Outcome json = box.tcc({"tune", "zoo:mlp", "--trials", "6", "--db", "a.db", "--json", "-q"});
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json summary = last_line(json.out);
  REQUIRE(summary.contains("latency"));
  const Json& latency = summary["latency"];
  CHECK(latency["before_seconds"] > 0);
  CHECK(latency["after_seconds"] > 0);
  CHECK(latency["low"] <= latency["ratio"]);
  CHECK(latency["ratio"] <= latency["high"]);
  CHECK(latency["gained"].size() <= 3);
  for (const Json& task : latency["gained"]) CHECK(task["before"] > task["after"]);

  const Outcome text = box.tcc({"tune", "zoo:mlp", "--trials", "2", "--db", "b.db", "--baseline"});
  INFO(text.out);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("latency: ") && Contains("with the schedules that are taken without tuning") &&
                           Contains("of the built library on") && !Contains("unscheduled"));
  const Outcome whole = box.tcc({"tune", "zoo:mlp", "--trials", "2", "--db", "b.db", "--baseline", "-v"});
  CHECK_THAT(whole.out, Contains("unscheduled"));
  // Nothing runs: nothing to time.
  const Outcome predicted = box.tcc({"tune", "zoo:mlp", "--effort", "0", "--db", "c.db"});
  CHECK_THAT(predicted.out, !Contains("latency: "));
}

TEST_CASE("U11: a task's time is one number, in tune, show and the library", "[cli]") {
  Sandbox box;
  const std::vector<std::string> tune = {"tune", "zoo:mlp", "--trials", "12", "--db", "a.db", "--json", "-q"};
  REQUIRE(box.tcc(tune).exit_code == 0);
  // Records of another number of threads must not show among those of this one.
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--trials", "6", "--threads", "1", "--db", "a.db", "-q"}).exit_code == 0);
  const Outcome tuned = box.tcc(tune);
  const Json summary = last_line(tuned.out);
  const Json shown = Json::parse(box.tcc({"show", "zoo:mlp", "--db", "a.db", "--json"}).out);
  REQUIRE(box.tcc({"build", "zoo:mlp", "--db", "a.db", "-q", "-o", "out"}).exit_code == 0);
  const Json library = Json::parse(slurp(box.path("out/mlp.json")));
  REQUIRE(summary["tasks"].size() == 3);
  double kernels = 0;
  for (size_t i = 0; i < 3; ++i) {
    const Json& task = summary["tasks"][i];
    INFO(task["workload"]);
    CHECK(shown["tasks"][i]["key"] == task["key"]);
    CHECK(shown["tasks"][i]["best_seconds"] == task["best_seconds"]);
    for (const Json& kernel : library["tasks"])
      if (kernel["key"] == task["key"]) CHECK(kernel["seconds"] == task["best_seconds"]);
    kernels += task["best_seconds"].get<double>() * task["weight"].get<double>();
  }
  CHECK(summary["best_seconds"].get<double>() == Approx(kernels));
  if (!summary["curve"].empty()) CHECK(summary["curve"].back()["best_seconds"] == summary["best_seconds"]);
}

TEST_CASE("U3: beside a busy loop on each core the run says so, and --strict-timing has an exit code of its own",
          "[cli]") {
  Sandbox box;
  std::vector<pid_t> loops;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    const pid_t loop = fork();
    if (loop == 0)
      for (volatile unsigned n = 0;; ++n) {
      }
    loops.push_back(loop);
  }
  const Outcome busy = box.tcc({"tune", "zoo:mlp", "--trials", "6", "--db", "a.db", "--json", "--strict-timing"});
  for (const pid_t loop : loops) {
    kill(loop, SIGKILL);
    waitpid(loop, nullptr, 0);
  }
  INFO(busy.err);
  const Json summary = last_line(busy.out);
  CHECK(summary["disturbed"] > 0);
  CHECK_THAT(busy.err, Contains("disturbed by other programs (load "));
  int64_t titles = 0;
  for (const Json& task : summary["tasks"]) titles += task["best_disturbed"].get<bool>() ? 1 : 0;
  CHECK(busy.exit_code == (titles > 0 ? 6 : 0));
  if (titles > 0) {
    CHECK_THAT(busy.err, Contains("may be several times too long") && Contains("Run the same command again"));
    CHECK_THAT(box.tcc({"show", "zoo:mlp", "--db", "a.db"}).out, Contains("~ other programs disturbed this time"));
  }
}

TEST_CASE("U8: two libraries are compared in turns, and CI can fail above a limit", "[cli]") {
  Sandbox box;
  for (const char* folder : {"a", "b"}) REQUIRE(box.tcc({"build", "zoo:mlp", "-q", "-o", folder}).exit_code == 0);
  const Outcome pair = box.tcc({"bench", "a/libmlp.so", "b/libmlp.so", "--seconds", "0.2", "--json"});
  INFO(pair.err);
  REQUIRE(pair.exit_code == 0);
  const Json times = Json::parse(pair.out);
  CHECK(times["blocks"] == 12);
  CHECK(times["median_a"] > 0);
  CHECK(times["low"] <= times["ratio"]);
  CHECK(times["ratio"] <= times["high"]);
  CHECK(times["fails"] == false);
  check_error(box.tcc({"bench", "zoo:mlp", "b/libmlp.so"}), 2, "expected two libraries, found 'zoo:mlp'");
  check_error(box.tcc({"bench", "a/libmlp.so", "c/libmlp.so"}), 1, "'c/libmlp.so'");
  check_error(box.tcc({"bench", "a/libmlp.so", "--fail-above", "3%"}), 2, "expected two libraries");
  check_error(box.tcc({"bench", "a/libmlp.so", "b/libmlp.so", "--fail-above", "much"}), 2, "a percentage above 0");

  auto file = [&](const char* name, double unit) {
    Json samples = Json::array();
    for (int i = 0; i < 200; ++i) samples.push_back(unit * (1 + 0.001 * (i * 7 % 13)));
    spill(box.path(name), Json{{"samples", samples}}.dump());
  };
  file("a.json", 1e-3);
  file("near.json", 1.01e-3);
  file("slow.json", 1.1e-3);
  const Outcome near = box.tcc({"bench", "--compare", "a.json", "near.json", "--fail-above", "3%"});
  CHECK(near.exit_code == 0);
  CHECK_THAT(near.out, Contains("b is 1.0% slower; runs of one library may differ by up to 5%: no difference shown"));
  const Outcome slow = box.tcc({"bench", "--compare", "a.json", "slow.json", "--fail-above", "3%"});
  CHECK(slow.exit_code == 1);
  CHECK_THAT(slow.out, Contains("b is 10.0% slower (99% interval: "));
  CHECK_THAT(slow.err, Contains("slower than a by 10.0%, more than the 3% of --fail-above"));
  CHECK(box.tcc({"bench", "--compare", "slow.json", "a.json", "--fail-above", "3%"}).exit_code == 0);
}
