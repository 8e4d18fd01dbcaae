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

TEST_CASE("products of single precision in a shorter type go through tensor cores, and are proved without a device",
          "[cli]") {
  for (const std::string precision : {"f16", "bf16", "tf32"}) {
    CAPTURE(precision);
    Sandbox box;
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(),
                   {"zoo:mlp", "--batch", "16", "--precision", precision, "--target", "h200", "--db", "records.db"});
      return box.tcc(words);
    };
    const Outcome tuned = with({"tune", "--trials", "4"});
    if (tuned.exit_code != 0) {
      CHECK_THAT(tuned.err, Catch::Contains("NVRTC"));
      return;
    }
    const Outcome verified = with({"verify", "--emulate", "--json"});
    INFO(verified.out << verified.err);
    REQUIRE(verified.exit_code == 0);
    const Json tasks = Json::parse(verified.out)["tasks"];
    int64_t products = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      CHECK(tasks[i]["status"] == "ok");
      CHECK(tasks[i]["max_error"].get<double>() <= tasks[i]["allowed_error"].get<double>());
      const std::string workload = tasks[i]["workload"];
      if (workload.find("gemm") != 0) continue;
      ++products;
      // Of ten columns the model expects multiply-adds of f32 to be as fast as padded tiles of tf32.
      if (precision == "tf32" && workload.find("gemm 16x10x") == 0) continue;
      const Outcome source = with({"show", "--source", "--task", std::to_string(i)});
      INFO(workload << source.err);
      CHECK(source.exit_code == 0);
      // Behind the prelude, which has all instructions.
      const size_t kernel = source.out.find("__global__ void");
      REQUIRE(kernel != std::string::npos);
      CHECK_THAT(source.out.substr(kernel), Catch::Contains("tcc_mma_m") || Catch::Contains("tcc_wgmma_m"));
    }
    CHECK(products == 3);
  }
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
