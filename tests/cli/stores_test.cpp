// Several files of tuning records read as one: --also and --fallback.
#include <nlohmann/json.hpp>

#include "model_bytes.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void tune(const Sandbox& box, const Words& more) {
  const Outcome done = box.tcc(with({"tune", "zoo:mlp", "--threads", "1", "--trials", "4", "-q", "--json"}, more));
  CAPTURE(done.err);
  REQUIRE(done.exit_code == 0);
}

// Seconds of each task's best; 0: no record of it.
std::vector<double> best_of(const Sandbox& box, const Words& more) {
  const Outcome shown = box.tcc(with({"show", "zoo:mlp", "--json"}, more));
  CAPTURE(shown.err);
  REQUIRE(shown.exit_code == 0);
  std::vector<double> best;
  const json summary = json::parse(shown.out);
  for (const json& t : summary.at("tasks")) best.push_back(t.at("best_seconds").get<double>());
  return best;
}

json explained(const Sandbox& box, const std::string& task, const Words& more) {
  const Outcome outcome = box.tcc(with({"explain", "zoo:mlp", "--task", task, "--threads", "1", "--json"}, more));
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("records of several files are read as one, and the first is written", "[cli]") {
  Sandbox box;
  tune(box, {"--tasks", "0", "--db", "a.db"});
  tune(box, {"--tasks", "2", "--db", "b.db"});
  const std::vector<double> a = best_of(box, {"--db", "a.db"}), b = best_of(box, {"--db", "b.db"});
  REQUIRE((a[0] > 0 && a[2] == 0 && b[0] == 0 && b[2] > 0));
  const std::vector<double> both = {a[0], 0, b[2]};
  CHECK(best_of(box, {"--db", "a.db", "--also", "b.db"}) == both);
  CHECK(best_of(box, {"--db", "b.db", "--also", "a.db"}) == both);
  CHECK(best_of(box, {"--db", "a.db", "--fallback", "b.db"}) == both);
  CHECK(best_of(box, {"--also", "a.db", "--also", "b.db"}) == both);  // there is no default file here
  CHECK(explained(box, "2", {"--db", "a.db"}).at("tuned") == false);
  CHECK(explained(box, "2", {"--db", "a.db", "--also", "b.db"}).at("tuned") == true);

  // The same records in both files count once.
  REQUIRE(box.tcc({"db", "merge", "a.db", "b.db", "-o", "c.db", "-q"}).exit_code == 0);
  // A program that was disturbed and timed again has two records in one file, and counts once in several.
  const auto records = [&](const std::vector<std::string>& files) {
    const json counted = explained(box, "0", files).at("records");
    int64_t n = 0;
    for (const json& r : counted) n += r.at("count").get<int64_t>();
    return n;
  };
  const int64_t once = records({"--db", "a.db", "--also", "c.db"});
  CHECK(once > 0);
  CHECK(once <= records({"--db", "a.db"}));
  CHECK(best_of(box, {"--db", "a.db", "--also", "c.db", "--also", "a.db"}) == both);

  // What was tuned elsewhere is measured here first, and nothing is written there.
  const std::string before = box.tcc({"db", "export", "c.db"}).out;
  tune(box, {"--tasks", "0", "--db", "new.db", "--also", "c.db"});
  CHECK(box.tcc({"db", "export", "c.db"}).out == before);
  const auto nests_of = [&](const std::string& db) {
    std::vector<std::string> nests;
    std::istringstream lines(box.tcc({"db", "export", db}).out);
    for (std::string line; std::getline(lines, line);) nests.push_back(json::parse(line).at("nest"));
    return nests;
  };
  const std::vector<std::string> known = nests_of("a.db"), again = nests_of("new.db");
  CHECK(std::count_if(again.begin(), again.end(), [&](const std::string& nest) {
          return std::find(known.begin(), known.end(), nest) != known.end();
        }) >= 2);  // the plain loops, and what was fastest

  for (const char* command : {"verify", "bench", "run"}) {
    CAPTURE(command);
    Words words = {command, "zoo:mlp", "--db", "a.db", "--also", "b.db", "-q"};
    if (std::string(command) == "bench") words.insert(words.end(), {"--seconds", "0.05"});
    if (std::string(command) == "run") words.emplace_back("--random");
    const Outcome done = box.tcc(words);
    CAPTURE(done.err);
    CHECK(done.exit_code == 0);
  }
  REQUIRE(box.tcc({"build", "zoo:mlp", "--threads", "1", "-o", "out", "-q", "--db", "a.db", "--fallback", "b.db"})
              .exit_code == 0);
  int tuned = 0;
  const json library = json::parse(slurp(box.path("out/mlp.json")));
  for (const json& task : library.at("tasks")) tuned += task.at("tuned").get<bool>() ? 1 : 0;
  CHECK(tuned >= 2);
}

TEST_CASE("a further file of records that is missing or none is an error that names it", "[cli]") {
  Sandbox box;
  spill(box.path("text.db"), "no records, but a text that is long enough to be taken for a file of records");
  for (const char* flag : {"--also", "--fallback"})
    for (const char* command : {"show", "explain", "build", "verify", "bench", "run", "tune"}) {
      CAPTURE(command, flag);
      Words words = {command, "zoo:mlp"};
      if (std::string(command) == "explain") words.insert(words.end(), {"--task", "0"});
      if (std::string(command) == "build") words.insert(words.end(), {"-o", "out"});
      if (std::string(command) == "run") words.emplace_back("--random");
      const Outcome missing = box.tcc(with(words, {flag, "nowhere.db"}));
      check_error(missing, 1, "nowhere.db");
      CHECK_THAT(missing.err, Contains("hint: "));
      CHECK(box.tcc(with(words, {flag, "text.db"})).exit_code == 1);
      CHECK_FALSE(fs::exists(box.path("data/tcc/records.db")));
    }
  check_error(box.tcc({"show", "zoo:mlp", "--alsoo", "a.db"}), 2, "--alsoo");
  CHECK_THAT(box.tcc({"tune", "--help"}).out, Contains("--also FILE") && Contains("--fallback FILE"));
}
