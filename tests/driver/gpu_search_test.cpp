// Ranking programs for a GPU without one.
#include "driver/gpu_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "driver/bench.h"
#include "sample_tasks.h"
#include "tcc/driver/compile.h"

using namespace tcc;

namespace {

task::Task dense() {
  return task::make_gemm({.m = 64, .n = 96, .k = 128});
}

std::vector<driver::GpuCandidate> finalists(const task::Task& task, const target::Target& target, uint64_t seed,
                                            search::Counts& counts, int64_t& ranked) {
  driver::GpuSearch search(task, target, {.seed = seed, .ranked = 240});
  search.explore(counts);
  ranked = search.ranked();
  return search.finalists(10);
}

}  // namespace

TEST_CASE("programs are ranked the same way for the same seed, and no design space takes all places") {
  const task::Task task = dense();
  const target::Target target = *target::find_target("a100");
  search::Counts counts, again_counts;
  int64_t ranked = 0, again_ranked = 0;
  const auto first = finalists(task, target, 3, counts, ranked);
  const auto again = finalists(task, target, 3, again_counts, again_ranked);
  REQUIRE(ranked >= 240);
  REQUIRE(ranked == counts.proposed - counts.duplicate - counts.rejected);
  REQUIRE(ranked == again_ranked);
  REQUIRE(first.size() == 10);
  std::map<size_t, int> of_sketch;
  for (size_t i = 0; i < first.size(); ++i) {
    REQUIRE(first[i].nest == again[i].nest);
    REQUIRE(first[i].seconds > 0);
    if (i > 0) REQUIRE(first[i].seconds >= first[i - 1].seconds);
    ++of_sketch[first[i].sketch];
  }
  REQUIRE(of_sketch.size() > 1);
  for (const auto& [sketch, count] : of_sketch) REQUIRE(count <= 5);
}

TEST_CASE("a finalist's trace replays to the program that was ranked") {
  const task::Task task = dense();
  const target::Target target = *target::find_target("a100");
  driver::GpuSearch search(task, target, {.seed = 1, .ranked = 64});
  search::Counts counts;
  search.explore(counts);
  for (const driver::GpuCandidate& candidate : search.finalists(4)) {
    auto program = search::program_of_trace(search.trace_of(candidate), task, target);
    if (!program) FAIL(program.error().message);
    REQUIRE(program->nest == candidate.nest);
    REQUIRE(search.lower(candidate).has_value());
  }
}

TEST_CASE("a search that is told to stop does") {
  const task::Task task = dense();
  const target::Target target = *target::find_target("a100");
  int asked = 0;
  driver::GpuSearch search(task, target, {.seed = 1, .ranked = 100000, .stop = [&] { return ++asked > 20; }});
  search::Counts counts;
  search.explore(counts);
  REQUIRE(counts.proposed < 60);
}

TEST_CASE("spilled registers cost time") {
  codegen::Artifact artifact;
  artifact.facts = {{"registers", 100}, {"spill_bytes", 0}};
  REQUIRE(driver::with_spills(2.0, artifact) == 2.0);
  artifact.facts["spill_bytes"] = 400;
  REQUIRE(driver::with_spills(2.0, artifact) == 4.0);
}

TEST_CASE("a kernel's roofline is the slower of arithmetic and memory") {
  target::Target target;
  target.peak.fp32 = 100;
  target.peak.fp16 = 1000;
  target.memory_bandwidth = 10;
  driver::KernelTime kernel;
  REQUIRE(driver::roofline_seconds(kernel, target) == 0);  // an older library does not say the type
  kernel.type = ir::Type::kF32;
  kernel.flops = 1000;
  kernel.bytes = 10;
  REQUIRE(driver::roofline_seconds(kernel, target) == 10);
  kernel.type = ir::Type::kF16;
  REQUIRE(driver::roofline_seconds(kernel, target) == 1);
  kernel.bytes = 50;
  REQUIRE(driver::roofline_seconds(kernel, target) == 5);
}
