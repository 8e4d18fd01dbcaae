// Design spaces by name: what `--space` searches, keeps and refuses.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "model_bytes.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

Json last_json(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return Json::parse(trimmed.substr(trimmed.rfind('\n') + 1));
}

}  // namespace

TEST_CASE("records name the design spaces and the platform that they come from", "[cli]") {
  Sandbox box;
  const auto tune = [&](const std::string& space) {
    return box.tcc({"tune", "zoo:mlp", "--tasks", "0", "--trials", "4", "--threads", "1", "--space", space, "--db",
                    "a.db", "--json"});
  };
  for (const char* space : {"default", "wide", "multi_level_tiling,parallel_vectorize_unroll"}) {
    const Outcome tuned = tune(space);
    INFO(tuned.err);
    CHECK(tuned.exit_code == 0);
    CHECK(last_json(tuned.out)["trials"] == 4);  // a search in another space is another search
  }
  std::istringstream lines(box.tcc({"db", "export", "a.db"}).out);
  std::map<std::string, int> spaces;
  std::set<std::string> platforms;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    if (record.value("space", "").empty()) continue;  // unscheduled loops
    ++spaces[record["space"]];
    platforms.insert(record["platform"]);
  }
  CHECK(spaces["default"] >= 4);
  CHECK(spaces["wide"] >= 4);
  CHECK(spaces["multi_level_tiling,parallel_vectorize_unroll"] >= 4);
  REQUIRE(platforms.size() == 1);
  CHECK_FALSE(platforms.begin()->empty());
  const Json stats = Json::parse(box.tcc({"db", "stats", "a.db", "--json"}).out)["stores"][0];
  CHECK(stats["by_platform"].contains(*platforms.begin()));
}

TEST_CASE("a schedule of another platform is used with a note", "[cli]") {
  Sandbox box;
  CHECK(
      box.tcc({"tune", "zoo:mlp", "--tasks", "0", "--trials", "3", "--threads", "1", "--db", "a.db", "-q"}).exit_code ==
      0);
  std::string text = box.tcc({"db", "export", "a.db"}).out;
  const std::string platform = Json::parse(text.substr(0, text.find('\n')))["platform"];
  for (size_t at = 0; (at = text.find(platform, at)) != std::string::npos; at += 12)
    text.replace(at, platform.size(), "another chip");
  spill(box.path("b.jsonl"), text);
  REQUIRE(box.tcc({"db", "import", "b.jsonl", "--db", "b.db"}).exit_code == 0);
  const auto note = [&](const std::string& db) {
    const Json shown =
        Json::parse(box.tcc({"explain", "zoo:mlp", "--task", "0", "--threads", "1", "--db", db, "--json"}).out);
    CHECK(shown["tuned"] == true);
    return shown["note"].get<std::string>();
  };
  CHECK_THAT(note("b.db"), Contains("not tuned on this machine") && Contains("another chip"));
  CHECK_THAT(note("a.db"), !Contains("not tuned on this machine"));
}

TEST_CASE("programs are collected from a space and of chosen tasks", "[cli]") {
  Sandbox box;
  const auto collect = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"dataset", "collect", "zoo:mlp", "--per-task", "4", "-o", "a.pool", "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return box.tcc(words);
  };
  CHECK(collect({"--space", "wide", "--heaviest", "1"}).exit_code == 0);
  const Json stats = Json::parse(box.tcc({"dataset", "stats", "a.pool", "--json"}).out);
  REQUIRE(stats["groups"].size() == 1);
  CHECK(stats["groups"][0]["space"] == "wide");
  const std::string key = stats["groups"][0]["key"];
  CHECK(collect({"--tasks", key.substr(0, 8)}).exit_code == 0);
  const Json both = Json::parse(box.tcc({"dataset", "stats", "a.pool", "--json"}).out);
  REQUIRE(both["groups"].size() == 2);
  CHECK(both["groups"][1]["key"] == key);
  CHECK(both["groups"][1]["space"] == "default");
  check_error(collect({"--tasks", "nothing"}), 2, "'nothing'");
  check_error(collect({"--space", "wid"}), 2, "'wide'");
}

TEST_CASE("a library without records is chosen from the named space by the named model", "[cli]") {
  Sandbox box;
  for (const char* model : {"prior", "random"}) {
    const Outcome built =
        box.tcc({"build", "zoo:mlp", "-o", model, "--space", "wide", "--cost-model", model, "--json"});
    INFO(built.err);
    CHECK(built.exit_code == 0);
    CHECK(box.tcc({"verify", std::string(model) + "/libmlp.so"}).exit_code == 0);
  }
  check_error(box.tcc({"build", "zoo:mlp", "-o", "x", "--cost-model", "forest"}), 2, "forest");
  check_error(box.tcc({"build", "zoo:mlp", "-o", "x", "--space", "row_tilin"}), 2, "row_tiling");
}
