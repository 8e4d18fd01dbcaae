// `tcc history` and `tcc db diff`: what tuning gained, from the records alone.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "model_bytes.h"
#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

namespace {

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("history tells of each run of tuning, db diff of two stores", "[cli]") {
  Sandbox box;
  const Words tune = {"tune", "zoo:mlp", "-q", "--threads", "1", "--trials"};
  REQUIRE(box.tcc(with(tune, {"3", "--db", "a.db"})).exit_code == 0);
  REQUIRE(box.tcc(with(tune, {"9", "--db", "b.db", "--seed", "7"})).exit_code == 0);
  const Words history = {"history", "zoo:mlp", "--threads", "1", "--db", "a.db"};

  const Json told = Json::parse(box.tcc(with(history, {"--json"})).out);
  REQUIRE(told.at("runs").size() == 1);
  const Json& run = told.at("runs")[0];
  CHECK(run.at("records") >= 3);
  CHECK(run.at("tasks") == 3);
  CHECK(run.at("phases").at("measure") > 0);
  CHECK(told.at("tasks").size() == 3);
  const Outcome text = box.tcc(history);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("all kernels") && Contains("improved") && Contains("times are UTC"));
  CHECK_THAT(box.tcc(with(history, {"--task", "0", "--curve", "gain.svg"})).out, Contains("GFLOP/s"));
  CHECK_THAT(slurp(box.path("gain.svg")), Contains("<svg") && Contains("milliseconds"));
  CHECK_THAT(box.tcc({"history", "zoo:mlp", "--threads", "2", "--db", "a.db"}).out, Contains("no records of zoo:mlp"));
  check_error(box.tcc(with(history, {"--task", "nine"})), 2, "nine");

  const Json change = Json::parse(box.tcc({"db", "diff", "a.db", "b.db", "--json"}).out);
  CHECK(change.at("tasks").size() == 3);
  CHECK(change.at("both").get<int>() + change.at("only_a").get<int>() + change.at("only_b").get<int>() <= 3);
  CHECK_THAT(box.tcc({"db", "diff", "a.db", "b.db"}).out, Contains("in both: ") && Contains("geometric mean"));
  const Json same = Json::parse(box.tcc({"db", "diff", "a.db", "a.db", "--json"}).out);
  CHECK(same.at("speed") == 1.0);
  CHECK(same.at("faster").get<int>() + same.at("slower").get<int>() == 0);
  check_error(box.tcc({"db", "diff", "a.db"}), 2, "two stores of records, not 1");
  check_error(box.tcc({"db", "diff", "a.db", "none.db"}), 1, "none.db");
}
