// `tcc dataset`: pools of programs are collected, described, divided and joined.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runner.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/driver/pool_samples.h"
#include "tcc/features/features.h"

using namespace cli_test;
using namespace tcc;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

TEST_CASE("programs are collected on this machine, and a second call goes on where the first ended", "[cli]") {
  Sandbox box;
  auto collect = [&](const std::string& per_task) {
    return box.tcc({"dataset", "collect", "zoo:mlp", "--per-task", per_task, "-o", "a.pool", "--json", "-q"});
  };
  const Outcome first = collect("6");
  CHECK(first.exit_code == 0);
  CHECK(Json::parse(first.out)["added"] == 18);
  const Outcome again = collect("6");
  CHECK(Json::parse(again.out)["added"] == 0);
  const Outcome more = collect("9");
  CHECK(more.exit_code == 0);
  CHECK(Json::parse(more.out)["programs"] == 27);
  const Json stats = Json::parse(box.tcc({"dataset", "stats", "a.pool", "--json"}).out);
  CHECK(stats["programs"] == 27);
  REQUIRE(stats["groups"].size() == 3);
  for (const Json& g : stats["groups"]) {
    CHECK(g["programs"] == 9);
    CHECK(g["kind"] == "measured");
    CHECK(g["space"] == "default");
    CHECK(g["threads"] == 1);
    CHECK(g["best_seconds"] > 0);
  }
}

TEST_CASE("pools of a simulated GPU are split by task, joined, exported and imported", "[cli]") {
  Sandbox box;
  auto collect = [&](const std::string& seed, const std::string& file) {
    return box.tcc({"dataset", "collect", "zoo:mlp", "--target", "a100", "--simulate", seed, "--per-task", "12", "-o",
                    file, "-q"});
  };
  CHECK(collect("7", "seven.pool").exit_code == 0);
  CHECK(collect("8", "eight.pool").exit_code == 0);
  CHECK(box.tcc({"dataset", "merge", "seven.pool", "eight.pool", "-o", "all.pool", "-q"}).exit_code == 0);
  auto stats = [&](const std::string& file) { return Json::parse(box.tcc({"dataset", "stats", file, "--json"}).out); };
  const Json all = stats("all.pool");
  CHECK(all["programs"] == 72);
  CHECK(all["groups"].size() == 6);  // three tasks on two machines
  for (const Json& g : all["groups"]) CHECK(g["kind"] == "simulated");
  // Once more changes nothing.
  const Outcome twice = box.tcc({"dataset", "merge", "seven.pool", "-o", "all.pool", "--json", "-q"});
  CHECK(Json::parse(twice.out)["added"] == 0);

  const Outcome split =
      box.tcc({"dataset", "split", "all.pool", "--share", "0.3", "-o", "train.pool", "--held-out", "test.pool", "-q"});
  CHECK(split.exit_code == 0);
  auto keys = [&](const std::string& file) {
    const Json json = stats(file);
    std::set<std::string> out;
    for (const Json& g : json["groups"]) out.insert(g["key"].get<std::string>());
    return out;
  };
  const std::set<std::string> train = keys("train.pool"), test = keys("test.pool");
  CHECK(train.size() == 2);
  CHECK(test.size() == 1);
  CHECK(!train.contains(*test.begin()));
  const Outcome exists =
      box.tcc({"dataset", "split", "all.pool", "-o", "train.pool", "--held-out", "other.pool", "-q"});
  CHECK(exists.exit_code == 1);
  CHECK_THAT(exists.err, Contains("'train.pool' exists"));

  CHECK(box.tcc({"dataset", "export", "all.pool", "-o", "all.jsonl"}).exit_code == 0);
  CHECK(box.tcc({"dataset", "import", "all.jsonl", "-o", "copy.pool", "-q"}).exit_code == 0);
  CHECK(stats("copy.pool")["groups"] == all["groups"]);

  // A pool that an interruption cut off: what was whole is read, with a warning, and collecting goes on.
  const std::string bytes = slurp(box.path("seven.pool"));
  spill(box.path("seven.pool"), bytes.substr(0, bytes.size() - 20));
  const Outcome cut = box.tcc({"dataset", "stats", "seven.pool", "--json"});
  CHECK(cut.exit_code == 0);
  CHECK_THAT(cut.err, Contains("cut off"));
  CHECK(Json::parse(cut.out)["programs"] < 36);
  CHECK(collect("7", "seven.pool").exit_code == 0);
  CHECK(stats("seven.pool")["programs"] == 36);
}

TEST_CASE("every collected program is read back", "[cli]") {
  Sandbox box;
  const bool simulated = GENERATE(false, true);
  std::vector<std::string> words = {"dataset",    "collect", "zoo:mobilenet_v2", "zoo:bert-tiny", "zoo:mlp",
                                    "--heaviest", "5",       "--max-gflop",      "0.05",          "-o",
                                    "a.pool",     "-q"};
  const std::vector<std::string> gpu = {"--target", "a100", "--simulate", "3", "--per-task", "24"};
  const std::vector<std::string> cpu = {"--space", "wide", "--per-task", "6"};
  for (const std::string& word : simulated ? gpu : cpu) words.push_back(word);
  const Outcome collected = box.tcc(words);
  INFO(collected.err);
  REQUIRE(collected.exit_code == 0);
  const auto pool = data::read_pool(box.path("a.pool"));
  REQUIRE(pool.has_value());
  CHECK(pool->groups.size() >= 10);
  CHECK(pool->entries() >= 10 * 5);
  const driver::PoolSamples samples =
      driver::pool_samples(*pool, simulated ? cost::kLongestLaunch : features::kHotStatement, nullptr);
  CHECK(samples.dropped == 0);
  // Decisions are those that replay uses; it may move a block to another place.
  int64_t repaired = 0;
  for (const data::Group& g : pool->groups)
    for (const data::Entry& e : g.entries) {
      const schedule::Trace& trace = g.sketches[static_cast<size_t>(e.sketch)];
      std::vector<int64_t> used;
      REQUIRE(schedule::replay(trace, e.decisions, g.task.kernel, std::make_shared<Arena>(), &used).has_value());
      for (const schedule::Instruction& in : trace.instructions) {
        if (in.decision < 0 || in.op == schedule::Op::kSampleComputeLocation) continue;
        const auto from = static_cast<size_t>(in.decision), n = static_cast<size_t>(in.decision_length);
        const std::span decisions(e.decisions);
        repaired += std::ranges::equal(decisions.subspan(from, n), std::span(used).subspan(from, n)) ? 0 : 1;
      }
    }
  CHECK(repaired == 0);
}

TEST_CASE("programs of a pool are measured for another platform", "[cli]") {
  Sandbox box;
  const auto collect = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"dataset", "collect", "--json", "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return box.tcc(words);
  };
  CHECK(collect({"zoo:mlp", "--per-task", "6", "--target", "x86-64-v3", "-o", "v3.pool"}).exit_code == 0);
  const auto again = [&](const std::string& per_task) {
    return Json::parse(
        collect({"--programs", "v3.pool", "--target", "x86-64-v2", "--per-task", per_task, "-o", "v2.pool"}).out);
  };
  const Json half = again("2");
  CHECK(half["added"] == 6);
  CHECK(half["rejected"] == 0);
  CHECK(again("2")["added"] == 0);
  const Json all = again("6");
  CHECK(all["added"] == 12);  // those that it has are not measured again
  CHECK(all["programs"] == 18);

  // The same sketches and decisions in both pools, with the times and the name of another platform.
  const auto programs = [&](const std::string& file) {
    std::multiset<std::string> out;
    std::istringstream lines(box.tcc({"dataset", "export", file}).out);
    for (std::string line; std::getline(lines, line);) {
      Json json = Json::parse(line);
      if (json.contains("decisions")) out.insert(json["decisions"].dump());
    }
    return out;
  };
  CHECK(programs("v3.pool").size() == 18);
  CHECK(programs("v2.pool") == programs("v3.pool"));
  const Json stats = Json::parse(box.tcc({"dataset", "stats", "v2.pool", "--json"}).out);
  for (const Json& g : stats["groups"]) {
    CHECK(g["target"] == "x86-64-v2");
    CHECK(g["space"] == "default");
    CHECK(g["best_seconds"] > 0);
  }

  const Outcome models = collect({"zoo:mlp", "--programs", "v3.pool", "-o", "x.pool"});
  CHECK(models.exit_code == 2);
  CHECK_THAT(models.err, Contains("--programs: expected no model"));
  const Outcome kind = collect({"--programs", "v3.pool", "--target", "a100", "--simulate", "1", "-o", "x.pool"});
  CHECK(kind.exit_code == 1);
  CHECK_THAT(kind.err, Contains("found programs for 'x86-64-v3'"));
  const Outcome key = collect({"--programs", "v3.pool", "--tasks", "none", "-o", "x.pool"});
  CHECK(key.exit_code == 2);
  CHECK_THAT(key.err, Contains("found 'none'"));
}
