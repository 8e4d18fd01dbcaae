// `tcc verify --emulate` as a user calls it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/runner.h"

using namespace cli_test;
using Json = nlohmann::json;

TEST_CASE("a model's kernels for a GPU are proved without one", "[cli]") {
  Sandbox box;
  Outcome text = box.tcc({"verify", "zoo:mlp", "--target", "a100", "--emulate"});
  if (text.exit_code != 0) {
    CHECK_THAT(text.err, Catch::Contains("NVRTC"));
    return;
  }
  CHECK_THAT(text.out, Catch::Contains("for a100: PTX of NVRTC") && Catch::Contains("gemm") &&
                           Catch::Contains("instructions") && Catch::Contains("passed") && !Catch::Contains("FAILED"));
  Outcome json = box.tcc({"verify", "zoo:mlp", "--target", "a100", "--emulate", "--json", "--seed", "2"});
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json report = Json::parse(json.out);
  CHECK(report["target"] == "a100");
  CHECK(report["failed"] == 0);
  REQUIRE(report["tasks"].size() == report["ok"].get<size_t>());
  for (const Json& task : report["tasks"]) {
    CHECK(task["status"] == "ok");
    CHECK(task["races"] == 0);
    CHECK(task["instructions"].get<int64_t>() > 0);
    CHECK(task["blocks"] == task["all_blocks"]);
    CHECK(task["max_error"].get<double>() < task["allowed_error"].get<double>());
  }
  // Nothing is exact to the last bit in single precision.
  Outcome strict = box.tcc({"verify", "zoo:mlp", "--target", "a100", "--emulate", "--tolerance", "1e-12"});
  CHECK(strict.exit_code == 1);
  CHECK_THAT(strict.out, Catch::Contains("FAILED"));
  CHECK_THAT(strict.err, Catch::Contains("do not compute what the model says") && Catch::Contains(", not "));
}

TEST_CASE("what cannot be emulated is said", "[cli][errors]") {
  Sandbox box;
  Outcome host = box.tcc({"verify", "zoo:mlp", "--emulate"});
  CHECK(host.exit_code == 2);
  CHECK_THAT(host.err, Catch::Contains("--target a100"));
  Outcome library = box.tcc({"verify", "out/libnet.so", "--emulate", "--target", "a100"});
  CHECK(library.exit_code == 2);
  CHECK_THAT(library.err, Catch::Contains("name the model instead"));
}
