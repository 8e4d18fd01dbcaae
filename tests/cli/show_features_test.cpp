// `tcc show --features KIND`: the numbers that cost models read.
#include <nlohmann/json.hpp>

#include "runner.h"

using namespace cli_test;
using Catch::Matchers::Contains;

TEST_CASE("show prints the features of a task's program by column", "[cli]") {
  Sandbox box;
  auto show = [&](const std::string& kind, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"show", "zoo:mlp", "--task", "0", "--features", kind};
    words.insert(words.end(), more.begin(), more.end());
    return box.tcc(words);
  };
  const Outcome statements = show("statements");
  CHECK(statements.exit_code == 0);
  CHECK_THAT(statements.out, Contains("real.mul") && Contains("b0.bytes") && !Contains("real.mad"));
  CHECK_THAT(statements.err, Contains("rows of 174 columns"));
  for (const auto& [kind, columns, target] :
       {std::tuple{"row", 58, "x86-64-v3"}, std::tuple{"statements", 174, "a100"}, std::tuple{"dataflow", 23, "a100"},
        std::tuple{"hardware", 23, "x86-64-v3"}, std::tuple{"trace-tlp-cpu", 22, "x86-64-v3"}}) {
    INFO(kind);
    const Outcome json = show(kind, {"--json", "--target", target});
    CHECK(json.exit_code == 0);
    const auto table = nlohmann::json::parse(json.out);
    CHECK(table["columns"].size() == static_cast<size_t>(columns));
    REQUIRE(!table["rows"].empty());
    for (const auto& row : table["rows"]) CHECK(row.size() == static_cast<size_t>(columns));
    CHECK(table["version"].is_number());
  }
  // Each kind of target has a table of steps.
  CHECK(nlohmann::json::parse(show("trace", {"--json"}).out)["name"] == "trace-cpu");
  CHECK(nlohmann::json::parse(show("trace", {"--json", "--target", "a100"}).out)["name"] == "trace-gpu");

  const Outcome unknown = show("statement");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("not 'statement'") && Contains("did you mean 'statements'"));
  const Outcome no_task = box.tcc({"show", "zoo:mlp", "--features", "row"});
  CHECK(no_task.exit_code == 2);
  CHECK_THAT(no_task.err, Contains("--task is missing"));
}
