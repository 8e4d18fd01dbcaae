// Effort levels: programs that are chosen before anything is measured, their records, and builds from them.
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

std::vector<Json> events_of(const std::string& out) {
  std::istringstream lines(out);
  std::vector<Json> events;
  for (std::string line; std::getline(lines, line);)
    if (Json event = Json::parse(line, nullptr, false); event.is_object()) events.push_back(std::move(event));
  return events;
}

Json event_of(const std::string& out, const std::string& name) {
  for (Json& event : events_of(out))
    if (event.value("event", "") == name) return event;
  FAIL("no event '" << name << "' in " << out);
  return {};
}

std::map<std::string, int> kinds_of(const Sandbox& box, const std::string& db) {
  std::istringstream lines(box.tcc({"db", "export", db}).out);
  std::map<std::string, int> kinds;
  for (std::string line; std::getline(lines, line);) ++kinds[Json::parse(line).at("kind")];
  return kinds;
}

}  // namespace

TEST_CASE("effort 0 stores a program for every task and measures nothing", "[cli]") {
  Sandbox box;
  const Outcome tuned = box.tcc({"tune", "zoo:mlp", "--effort", "0", "--db", "a.db", "--json"});
  INFO(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  const Json library = event_of(tuned.out, "library");
  CHECK(library.at("made") == 3);
  CHECK(library.at("elapsed_seconds") > 0);
  REQUIRE(library.at("tasks").size() == 3);
  for (const Json& task : library.at("tasks")) {
    CHECK((task.at("schedule") == "constructed" || task.at("schedule") == "picked"));
    CHECK(task.at("seconds") > 0);
    CHECK(task.at("failure") == "");
  }
  const Json summary = event_of(tuned.out, "summary");
  CHECK(summary.at("predicted") == true);
  CHECK(summary.at("trials") == 0);
  CHECK(summary.at("phases").at("library") > 0);
  CHECK(summary.at("phases").at("measure") == 0);
  auto kinds = kinds_of(box, "a.db");
  CHECK(kinds["measured"] == 0);
  CHECK(kinds["constructed"] + kinds["predicted"] == 3);

  // They are built, and never called tuned.
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--db", "a.db", "--json"});
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK_THAT(built.err, Contains("3 of 3 kernels are not tuned") && Contains("effort 0"));
  const Json report = Json::parse(built.out);
  for (const Json& kernel : report.at("kernels")) {
    CHECK(kernel.at("tuned") == false);
    CHECK(kernel.at("record") == "predicted");
  }
  CHECK(box.tcc({"build", "zoo:mlp", "-o", "no", "--db", "a.db", "--require-tuned"}).exit_code == 1);
  CHECK(box.tcc({"verify", "out/libmlp.so"}).exit_code == 0);

  // Without records the same programs are chosen.
  const Outcome without = box.tcc({"build", "zoo:mlp", "-o", "plain", "--json"});
  REQUIRE(without.exit_code == 0);
  CHECK_THAT(without.err, Contains("effort 0"));
  const Json plain = Json::parse(without.out);
  for (size_t i = 0; i < plain.at("kernels").size(); ++i)
    for (const char* what : {"key", "schedule"})
      CHECK(plain.at("kernels")[i].at(what) == report.at("kernels")[i].at(what));
  const Outcome explained = box.tcc({"explain", "zoo:mlp", "--task", "0", "--db", "a.db", "--json"});
  REQUIRE(explained.exit_code == 0);
  const Json why = Json::parse(explained.out);
  CHECK((why.at("schedule") == "constructed" || why.at("schedule") == "predicted"));
  CHECK_THAT(box.tcc({"tune", "zoo:mlp", "--effort", "0", "--db", "c.db"}).err,
             Contains("library: a program for 3 of 3 tasks after"));
}

TEST_CASE("a run begins with a program for every task, and effort 1 measures a few of each", "[cli]") {
  Sandbox box;
  const Outcome tuned = box.tcc({"tune", "zoo:mlp", "--effort", "1", "--threads", "1", "--db", "a.db", "--json"});
  INFO(tuned.err);
  REQUIRE(tuned.exit_code == 0);
  const std::vector<Json> events = events_of(tuned.out);
  REQUIRE(events.size() > 2);
  CHECK(events[0].at("event") == "library");  // before anything is measured
  const Json summary = events.back();
  CHECK(summary.at("trials") >= 3);
  CHECK(summary.at("trials") <= 12);
  CHECK_FALSE(summary.contains("unscheduled_seconds"));
  double sum = 0;
  for (const auto& [phase, seconds] : summary.at("phases").items()) {
    CHECK(seconds >= 0);
    sum += seconds.get<double>();
  }
  CHECK(sum == Approx(summary.at("seconds").get<double>()).margin(0.05));
  CHECK(summary.at("phases").at("measure") > 0);
  CHECK(summary.at("phases").at("prepare") > 0);
  CHECK(summary.at("phases").at("baseline") == 0);
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--threads", "1", "--db", "a.db", "--require-tuned"});
  INFO(built.err);
  CHECK(built.exit_code == 0);
  // What is stored is not chosen anew.
  const Outcome again = box.tcc({"tune", "zoo:mlp", "--trials", "3", "--threads", "1", "--db", "a.db", "--json"});
  CHECK(event_of(again.out, "library").at("made") == 0);
}

TEST_CASE("build measures what has no record, as its effort says", "[cli]") {
  Sandbox box;
  const Outcome built =
      box.tcc({"build", "zoo:mlp", "-o", "out", "--effort", "1", "--threads", "1", "--db", "a.db", "--json"});
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK_THAT(built.err, Contains("effort 1:") && Contains("3 tasks"));
  const Json report = Json::parse(built.out);
  for (const Json& kernel : report.at("kernels")) CHECK(kernel.at("tuned") == true);
  const Outcome again = box.tcc({"build", "zoo:mlp", "-o", "out", "--effort", "1", "--threads", "1", "--db", "a.db"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, !Contains("effort 1:"));
}

TEST_CASE("an interrupt right after the first library leaves a program for every task", "[cli]") {
  Sandbox box;
  const pid_t pid = box.start({std::string(TCC_BINARY_DIR) + "/tools/tcc", "tune", "zoo:mlp", "--trials", "100000",
                               "--threads", "1", "--db", "a.db"});
  for (int i = 0; i < 1200 && slurp(box.path("stderr")).find("library: ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(kill(pid, SIGKILL) == 0);
  CHECK(box.wait(pid).exit_code == -SIGKILL);
  CHECK(kinds_of(box, "a.db").size() > 0);
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--threads", "1", "--db", "a.db", "--json"});
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK(Json::parse(built.out).at("kernels").size() == 3);
}

TEST_CASE("a record that no longer gives its program is named by build, which fails where tuned is required",
          "[errors]") {
  Sandbox box;
  REQUIRE(
      box.tcc({"tune", "zoo:mlp", "--tasks", "2", "--trials", "4", "--threads", "1", "--db", "a.db", "-q"}).exit_code ==
      0);
  std::istringstream lines(box.tcc({"db", "export", "a.db"}).out);
  Json fast;
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line);
    if (record.at("kind") == "measured" && record.at("status") == "ok") fast = record;
  }
  REQUIRE(fast.is_object());
  fast["nest"] = "00000000deadbeef";
  fast["median"] = fast.at("median").get<double>() / 2;
  fast["unix_time"] = fast.at("unix_time").get<int64_t>() + 1;
  spill(box.path("stale.jsonl"), fast.dump() + "\n");
  REQUIRE(box.tcc({"db", "import", "stale.jsonl", "--db", "a.db"}).exit_code == 0);
  const Outcome built = box.tcc({"build", "zoo:mlp", "-o", "out", "--threads", "1", "--db", "a.db", "--json"});
  INFO(built.err);
  REQUIRE(built.exit_code == 0);
  CHECK_THAT(built.err,
             Contains("gives another program with this version of tcc") && Contains("the next best is used"));
  int64_t stale = 0;
  const Json report = Json::parse(built.out);
  for (const Json& kernel : report.at("kernels")) stale += std::ssize(kernel.at("passed_over"));
  CHECK(stale == 1);
  const Outcome refused =
      box.tcc({"build", "zoo:mlp", "-o", "no", "--threads", "1", "--db", "a.db", "--require-tuned"});
  CHECK(refused.exit_code == 1);
}

TEST_CASE("the forms of a convolution are tuned as one task, and every report names the one that is built", "[cli]") {
  Sandbox box;
  const std::vector<std::string> model = {"zoo:resnet18", "--image", "64"};
  const auto run = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = box.tcc(words);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome.out;
  };
  const std::vector<std::string> db = {"--db", "a.db", "--threads", "1", "--json"};
  const Json before = Json::parse(run({"show"}, {"--json"}));
  std::string task;
  std::map<std::string, int> untuned;
  for (const Json& t : before.at("tasks")) {
    const bool conv = t.at("workload").get<std::string>().starts_with("conv2d");
    const std::string form = t.at("form");
    CHECK((form == "direct" || form == "winograd4") == conv);  // by estimate
    ++untuned[form];
    if (task.empty() && t.at("forms").size() == 3) task = std::to_string(t.at("task").get<int>());
  }
  REQUIRE_FALSE(task.empty());
  CHECK(untuned["direct"] > 0);
  CHECK(untuned["winograd4"] > 0);
  for (const Json& t : Json::parse(run({"show"}, {"--winograd", "0", "--json"})).at("tasks"))
    CHECK(t.at("forms").empty());

  std::vector<std::string> few = db;
  few.insert(few.end(), {"--tasks", task, "--trials", "6"});
  const Json tuned = event_of(run({"tune"}, few), "summary").at("tasks").at(0);
  REQUIRE(tuned.at("forms").size() == 3);
  std::string fastest;
  double best = 0;
  int trials = 0;
  for (const Json& f : tuned.at("forms")) {
    trials += f.at("trials").get<int>();
    const double seconds = f.at("best_seconds").get<double>();
    if (seconds > 0 && (best == 0 || seconds < best)) best = seconds, fastest = f.at("form");
  }
  CHECK(trials == 6);
  CHECK(tuned.at("form") == fastest);
  CHECK(tuned.at("best_seconds") == best);

  std::vector<std::string> one = db;
  one.insert(one.end(), {"--task", task});
  const Json shown = Json::parse(run({"show"}, one));
  CHECK(shown.at("form") == fastest);
  CHECK(shown.at("key") == tuned.at("key"));
  CHECK(Json::parse(run({"explain"}, one)).at("form") == fastest);
  // A form that is not built is shown by its key, and explained with the option that chooses it.
  std::string other;
  for (const Json& f : shown.at("forms"))
    if (f.at("form") != fastest) other = f.at("key");
  std::vector<std::string> of_key = db;
  of_key.insert(of_key.end(), {"--task", other});
  CHECK(Json::parse(run({"show"}, of_key)).at("key") == other);
  const Outcome refused =
      box.tcc({"explain", model[0], model[1], model[2], "--db", "a.db", "--threads", "1", "--task", other});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("--winograd"));

  const Json stats = Json::parse(box.tcc({"db", "stats", "a.db", "--json"}).out);
  std::map<std::string, int> forms;
  for (const Json& t : stats.at("stores").at(0).at("tasks")) ++forms[t.at("form").get<std::string>()];
  CHECK(forms["direct"] == 1);
  CHECK(forms["winograd2"] == 1);
  CHECK(forms["winograd4"] == 1);
}
