// The whole way as a user walks it: tune, build, link from C, verify.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

json last_result(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return json::parse(trimmed.substr(trimmed.rfind('\n') + 1));
}

void check_counts(const json& counts) {
  CAPTURE(counts.dump());
  auto n = [&](const char* name) { return counts.at(name).get<int64_t>(); };
  CHECK(n("proposed") == n("duplicate") + n("rejected") + n("not_chosen") + n("tried"));
  CHECK(n("not_chosen") >= 0);
  CHECK(n("tried") == n("measured") + n("compile_failed") + n("wrong") + n("crashed") + n("hung") + n("timed_out"));
  int64_t reasons = 0;
  for (const auto& [reason, count] : counts.at("rejected_by_reason").items()) reasons += count.get<int64_t>();
  CHECK(n("rejected") == reasons);
}

}  // namespace

TEST_CASE("tune, build, link, verify", "[cli]") {
  Sandbox box;
  // Before tuning: every kernel is named, and --require-tuned refuses.
  Outcome untuned = box.tcc({"build", "zoo:mlp", "-o", "untuned"});
  CAPTURE(untuned.err);
  REQUIRE(untuned.exit_code == 0);
  CHECK_THAT(untuned.err, Contains("3 of 3 kernels are not tuned") && Contains("gemm 1x512x784") &&
                              Contains("gemm 1x512x512") && Contains("gemm 1x10x512") &&
                              Contains("x slower than tuned"));
  Outcome refused = box.tcc({"build", "zoo:mlp", "-o", "refused", "--require-tuned"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("3 of 3 kernels are not tuned"));
  CHECK_FALSE(fs::exists(box.path("refused/libmlp.so")));

  // One thread: where other programs run, two wait for each other, and the plain loops may be fastest.
  Outcome tuned = box.tcc({"tune", "zoo:mlp", "--trials", "24", "--threads", "1", "--baseline", "--json"});
  CAPTURE(tuned.out, tuned.err);
  REQUIRE(tuned.exit_code == 0);
  CHECK_THAT(tuned.err, Contains("3 tasks") && Contains("24 trials"));
  const json summary = last_result(tuned.out);
  CHECK(summary.at("event") == "summary");
  CHECK(summary.at("trials") <= 24);
  CHECK(summary.at("trials") >= 3);
  check_counts(summary.at("counts"));
  REQUIRE(summary.at("tasks").size() == 3);
  for (const json& task : summary.at("tasks")) {
    CHECK(task.at("best_seconds") > 0);
    CHECK(task.at("unscheduled_seconds") > 0);
    check_counts(task.at("counts"));
  }
  CHECK(summary.at("best_seconds") <= summary.at("unscheduled_seconds"));
  CHECK(fs::exists(box.path("data/tcc/records.db")));

  Outcome shown = box.tcc({"show", "zoo:mlp", "--json"});
  REQUIRE(shown.exit_code == 0);
  for (const json& task : json::parse(shown.out).at("tasks")) CHECK(task.at("best_seconds") > 0);
  CHECK_THAT(box.tcc({"show", "zoo:mlp", "--task", "0", "--threads", "1"}).out,
             Contains("best schedule measured") && Contains("split"));

  Outcome built =
      box.tcc({"build", "zoo:mlp", "-o", "out", "--threads", "1", "--require-tuned", "--emit", "trace,ir", "--json"});
  CAPTURE(built.err);
  REQUIRE(built.exit_code == 0);
  // Beside other programs all timings may be disturbed, which is said of each kernel.
  std::istringstream warnings(built.err);
  for (std::string line; std::getline(warnings, line);) CHECK_THAT(line, Contains("other programs disturbed its time"));
  CHECK(fs::exists(box.path("out/libmlp.so")));
  const json report = json::parse(built.out);
  for (const json& kernel : report.at("kernels")) {
    CHECK(kernel.at("tuned") == true);
    CHECK(fs::exists(box.path("out/kernels/" + kernel.at("key").get<std::string>() + ".trace.json")));
  }

  // On another number of threads the same schedules serve, and that is said.
  Outcome others = box.tcc({"build", "zoo:mlp", "-o", "others", "--threads", "3", "--require-tuned", "--json"});
  CAPTURE(others.err);
  REQUIRE(others.exit_code == 0);
  CHECK_THAT(others.err, Contains("not tuned on 3 threads; the schedule measured on 1 thread is used"));
  for (const json& kernel : json::parse(others.out).at("kernels")) {
    CHECK(kernel.at("tuned") == true);
    CHECK_FALSE(kernel.at("note").get<std::string>().empty());
  }
  for (const char* command : {"show", "explain"})
    CHECK_THAT(box.tcc({command, "zoo:mlp", "--task", "0", "--threads", "3"}).out,
               Contains("not tuned on 3 threads; the schedule measured on 1 thread is used"));

  Outcome linked = box.run(
      {"sh", "-c", "cc out/example.c -o out/run $(PKG_CONFIG_PATH=out pkg-config --cflags --libs mlp) && out/run"});
  CAPTURE(linked.err);
  CHECK(linked.exit_code == 0);
  CHECK_THAT(linked.out, Contains("output"));

  for (const char* library : {"out/libmlp.so", "untuned/libmlp.so"}) {
    Outcome verified = box.tcc({"verify", library});
    CAPTURE(library, verified.out, verified.err);
    CHECK(verified.exit_code == 0);
    CHECK_THAT(verified.out, Contains("passed") && !Contains("FAILED"));
  }
  Outcome exact = box.tcc({"verify", "out/libmlp.so", "--tolerance", "1e-12"});  // no f32 library is that close
  CHECK(exact.exit_code == 1);
  CHECK_THAT(exact.out, Contains("FAILED"));
  CHECK_THAT(exact.err, Contains("the error at"));

  Outcome timed = box.tcc({"bench", "out/libmlp.so", "--seconds", "0.1", "--json"});
  REQUIRE(timed.exit_code == 0);
  CHECK(json::parse(timed.out).at("gbytes_per_second") > 0);
  const json times = json::parse(timed.out).at("seconds");
  CHECK(times.at("runs") >= 10);
  CHECK(times.at("min") <= times.at("median"));
  CHECK(times.at("median") <= times.at("p99"));
  CHECK(box.tcc({"bench", "zoo:mlp", "--seconds", "0.1", "--per-kernel"}).exit_code == 0);
}

TEST_CASE("verify finds the model that the library was built from, and only that one", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"zoo", "mlp", "-o", "net.onnx"}).exit_code == 0);
  REQUIRE(box.tcc({"build", "net.onnx", "-o", "out", "-q", "--reseed-weights", "5"}).exit_code == 0);
  CHECK(box.tcc({"verify", "out/libnet.so"}).exit_code == 0);
  fs::rename(box.path("net.onnx"), box.path("moved.onnx"));
  Outcome lost = box.tcc({"verify", "out/libnet.so"});
  CHECK(lost.exit_code == 1);
  CHECK_THAT(lost.err, Contains("net.onnx") && Contains("--model"));
  CHECK(box.tcc({"verify", "out/libnet.so", "--model", "moved.onnx"}).exit_code == 0);
  REQUIRE(box.tcc({"zoo", "mlp", "-o", "other.onnx", "--zoo-seed", "2"}).exit_code == 0);
  Outcome other = box.tcc({"verify", "out/libnet.so", "--model", "other.onnx"});
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Contains("hash"));
}

TEST_CASE("an interrupt saves and prints the best, and the same call goes on", "[cli]") {
  Sandbox box;
  const std::vector<std::string> words = {
      std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp", "--trials", "100000", "--json"};
  pid_t pid = box.start(words);
  for (int i = 0; i < 3000 && slurp(box.path("stdout")).find("\"event\":\"round\"") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  REQUIRE(kill(pid, SIGINT) == 0);
  Outcome stopped = box.wait(pid);
  CAPTURE(stopped.out, stopped.err);
  CHECK(stopped.exit_code == 3);
  const json summary = last_result(stopped.out);
  CHECK(summary.at("stopped") == true);
  CHECK(summary.at("trials") > 0);
  CHECK(box.tcc({"build", "zoo:mlp", "-o", "out", "-q"}).exit_code == 0);
  CHECK(box.tcc({"verify", "out/libmlp.so"}).exit_code == 0);
}
