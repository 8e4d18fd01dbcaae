// `tcc doctor`: one row a check, a problem where something that every command needs is broken.
#include <nlohmann/json.hpp>

#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

namespace {

// The row of a check, from `tcc doctor --json`.
nlohmann::json row_of(const Outcome& outcome, const std::string& check) {
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  for (const nlohmann::json& row : document["checks"])
    if (row["check"] == check) return row;
  FAIL("doctor has no check " + check);
  return {};
}

}  // namespace

TEST_CASE("doctor builds and verifies a model, and names the files of records and facts", "[cli]") {
  Sandbox box;
  const Outcome outcome = box.tcc({"doctor"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  for (const char* check : {"load ", "compiler  ok", "zoo:mlp built, linked by ", "records ", "cache ", "gpu "})
    CHECK_THAT(outcome.out, Contains(check));
  const Outcome json = box.tcc({"doctor", "--json"});
  CHECK(json.exit_code == 0);
  CHECK(row_of(json, "records")["state"] == "note");  // nothing was tuned yet
  CHECK_THAT(row_of(json, "records")["advice"].get<std::string>(), Contains("tcc tune"));
}

TEST_CASE("doctor finds records that cannot be read and folders that cannot be written", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"tune", "zoo:mlp", "--trials", "1", "--db", "good.db", "--tasks", "2", "-q"}).exit_code == 0);
  const Outcome good = box.tcc({"doctor", "--json", "--db", "good.db"});
  CHECK(good.exit_code == 0);
  CHECK(row_of(good, "records")["state"] == "ok");
  CHECK_THAT(row_of(good, "records")["found"].get<std::string>(), Contains("records in 'good.db'"));

  spill(box.path("bad.db"), std::string(5000, 'x'));
  const Outcome bad = box.tcc({"doctor", "--json", "--db", "bad.db"});
  CHECK(bad.exit_code == 1);
  CHECK(row_of(bad, "records")["state"] == "problem");
  CHECK_THAT(bad.err, Contains("1 of 5 failed"));

  const Outcome driver = box.tcc({"doctor", "--json", "--cuda-driver", "libno-such.so"});
  CHECK(driver.exit_code == 0);  // a machine without a GPU is in order
  CHECK(row_of(driver, "gpu")["state"] == "note");
}
