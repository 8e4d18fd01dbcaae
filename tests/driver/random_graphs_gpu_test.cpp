// Random graphs over all operators, compiled for GPUs: the PTX of every kernel runs in the PTX machine and gives what
// the naive kernel gives.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "driver/random_graphs.h"
#include "nvrtc.h"
#include "skip.h"
#include "tcc/driver/emulate.h"

using namespace tcc;
using namespace tcc::driver_test;

TEST_CASE("random graphs over all operators run on emulated GPUs", "[fuzz]") {
  if (!codegen::nvrtc_available()) SKIP("NVRTC is not installed");
  const char *given = std::getenv("TCC_SEED"), *count = std::getenv("TCC_GRAPHS");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261127;
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const int64_t wanted = count != nullptr ? std::strtoll(count, nullptr, 10) : soak ? 200 : 5;
  std::set<std::string> seen;
  int64_t calls = 0;
  for (int64_t i = 0; i < wanted; ++i) {
    Rng rng = Rng(seed).fork(static_cast<uint64_t>(i));
    driver::Model model;
    model.source.model = "random.onnx";
    model.graph = GraphMaker(rng.fork(0)).make(4 + rng.fork(1).below(10));
    model.hash = "0000000000000000";
    driver::EmulateOptions options;
    auto target = target::find_target(i % 2 == 0 ? "a100" : "t4");
    REQUIRE(target);
    options.target = *target;
    options.seed = seed + static_cast<uint64_t>(i);
    INFO("TCC_SEED=" << seed << ", graph " << i << " for " << options.target.name << "\n" << text_of(model.graph));
    auto report = driver::emulate_model(model, options);
    if (!report && report.error().message.find("functions other than kernels") != std::string::npos) {
      ++calls;  // sin and cos of f64 call a function, which the PTX machine does not run
      continue;
    }
    if (!report) FAIL_CHECK(report.error().message);
    if (!report) continue;
    for (const driver::EmulatedTask& task : report->tasks) {
      INFO(task.workload);
      CHECK(task.failure == "");
    }
    for (graph::NodeId id : model.graph.order) seen.insert(std::string(graph::node_name(model.graph.node(id))));
  }
  CHECK(calls <= 1 + wanted / 2);
  CHECK(seen.size() > (wanted >= 100 ? 80U : 10U));
}
