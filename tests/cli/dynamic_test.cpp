// Dimensions with a range, as a user meets them.
#include <nlohmann/json.hpp>

#include "model_bytes.h"
#include "terminal.h"

using namespace cli_test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

TEST_CASE("a library for a range of sizes is built, inspected, verified, run and timed", "[cli]") {
  Sandbox box;
  REQUIRE(box.tcc({"build", "zoo:mlp", "-o", "out", "-q", "--dim", "batch=1..6@2"}).exit_code == 0);
  const Outcome inspected = box.tcc({"inspect", "out/libmlp.so"});
  CHECK_THAT(inspected.out, Contains("batch x 784") && Contains("dim      batch from 1 to 6, tuned for 2"));
  const Json metadata = Json::parse(box.tcc({"inspect", "out/libmlp.so", "--json"}).out);
  CHECK(metadata["dims"][0] == Json({{"name", "batch"}, {"low", 1}, {"high", 6}, {"tuned", {2}}}));
  CHECK(metadata["buckets"].size() == 2);
  CHECK(metadata["inputs"][0]["axes"] == Json::parse("[[[0,1,0]],[[-1,0,784]]]"));
  CHECK_THAT(box.tcc({"inspect", "zoo:mlp", "--dim", "batch=1..6@2"}).out,
             Contains("batch x 784") && Contains("dim      batch from 1 to 6"));

  const Outcome verified = box.tcc({"verify", "out/libmlp.so"});
  INFO(verified.err);
  CHECK(verified.exit_code == 0);
  for (const char* size : {"sizes   batch=1\n", "sizes   batch=2\n", "sizes   batch=6\n", "sizes   batch=5\n"})
    CHECK_THAT(verified.out, Contains(size));
  const Json one = Json::parse(box.tcc({"verify", "out/libmlp.so", "--dim", "batch=3", "--json"}).out);
  CHECK(one["sizes"] == Json({{"batch", 3}}));
  CHECK(one["passed"] == true);

  CHECK_THAT(box.tcc({"run", "out/libmlp.so", "--random", "--dim", "batch=4"}).out, Contains("4x784"));
  CHECK(box.tcc({"bench", "out/libmlp.so", "--seconds", "0.05", "--dim", "batch=4"}).exit_code == 0);
  const Outcome beyond = box.tcc({"verify", "out/libmlp.so", "--dim", "batch=7"});
  CHECK(beyond.exit_code == 2);
  CHECK_THAT(beyond.err, Contains("--dim batch=7: expected a size from 1 to 6"));
  const Outcome unknown = box.tcc({"bench", "out/libmlp.so", "--dim", "seq=4"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("--dim seq: expected a dimension of several sizes") && Contains("it has batch"));
}

TEST_CASE("ranges that no library can have are refused", "[cli][errors]") {
  Sandbox box;
  const auto refused = [&](const std::vector<std::string>& words, const char* part) {
    const Outcome outcome = box.tcc(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Contains(part));
  };
  refused({"build", "zoo:mlp", "-o", "out", "--dim", "seq=1..8"}, "expected a dimension of zoo:mlp");
  refused({"build", "zoo:mlp", "-o", "out", "--dim", "batch=1..8", "--dim", "batch=2"}, "each name once");
  refused({"build", "zoo:mlp", "-o", "out", "--target", "a100", "--dim", "batch=1..8"}, "expected a CPU as target");
  refused({"tune", "zoo:mlp", "--dim", "batch=0..8"}, "a lowest size from 1 on, found 0");
  refused({"tune", "zoo:mlp", "--dim", "batch=1..8@"}, "a size behind '@'");
}
