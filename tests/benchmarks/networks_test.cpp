// Whole networks, as the suites `models` and `end-to-end` take them.
#include "networks.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tcc/support/files.h"

using namespace tcc;
using namespace tcc::benchmarks;

TEST_CASE("the files of a folder come after the zoo, those of constant weights with a seed") {
  auto folder = TemporaryDirectory::create("tcc-networks");
  REQUIRE(folder);
  for (const char* name : {"net.onnx", "light_net.onnx", "notes.txt"})
    REQUIRE(write_file((*folder)->path() + "/" + name, ""));
  const std::vector<Network> zoo = all_networks(""), all = all_networks((*folder)->path());
  REQUIRE(all.size() == zoo.size() + 2);
  CHECK(all.front().model == "zoo:" + all.front().name);
  CHECK_FALSE(all.front().seed);
  CHECK(all[zoo.size()].name == "light_net");
  CHECK(all[zoo.size()].seed == 1);
  CHECK(all.back().model == (*folder)->path() + "/net.onnx");
  CHECK_FALSE(all.back().seed);
}

TEST_CASE("outputs are compared by each one's scale") {
  const auto outputs = [](std::vector<size_t> sizes, std::vector<float> values) {
    Contestant c;
    c.sizes = std::move(sizes);
    c.output = std::move(values);
    return c;
  };
  const Contestant wanted = outputs({2, 1}, {100, 1, 0.001f});
  CHECK(*disagreement(wanted, wanted) == 0);
  CHECK(*disagreement(outputs({2, 1}, {100, 2, 0.001f}), wanted) == Approx(0.01));
  CHECK(*disagreement(outputs({2, 1}, {100, 1, 0.002f}), wanted) == Approx(1));
  CHECK(*disagreement(outputs({2, 1}, {99, 1, 0.001f}), wanted, 1) == 0);
  CHECK(*disagreement(outputs({2, 1}, {98, 1, 0.001f}), wanted, 1) == Approx(0.02));
  CHECK_FALSE(disagreement(outputs({3}, {100, 1, 0.001f}), wanted));
  CHECK_FALSE(disagreement(outputs({2, 1}, {100, std::numeric_limits<float>::quiet_NaN(), 0}), wanted));
}

TEST_CASE("a network is tuned from what the records hold, built, verified and run") {
  auto folder = TemporaryDirectory::create("tcc-networks");
  REQUIRE(folder);
  const std::string records = (*folder)->path() + "/kept.db";
  const NetworkBench bench((*folder)->path(), {"", 1, records});
  const Network mlp{"mlp", "zoo:mlp", std::nullopt}, reseeded{"mlp", "zoo:mlp", 5};
  REQUIRE(bench.tune(mlp, 1));
  CHECK(file_exists(records));
  std::vector<float> outputs[2];
  for (const Network& network : {mlp, reseeded}) {
    auto library = bench.build(network, 1);
    INFO((library ? "" : library.error().message));
    REQUIRE(library);
    auto report = bench.verify(*library);
    REQUIRE(report);
    CHECK(report->at("passed") == true);
    const Contestant own = bench.start_library(*library, 1, {});
    CHECK(own.failure.empty());
    CHECK(own.sizes == std::vector<size_t>{10});
    outputs[network.seed ? 1 : 0] = own.output;
  }
  CHECK(outputs[0].size() == 10);
  CHECK(outputs[0] != outputs[1]);
  CHECK_FALSE(bench.start_library((*folder)->path() + "/libnone.so", 1, {}).failure.empty());
  CHECK_FALSE(bench.build({"none", "zoo:none", std::nullopt}, 1));
}
