// Attention by matrix instructions as printed, on the host: its lanes hold the same parts of each other's rows as in
// the interpreter.
#include <catch2/catch.hpp>

#include "emulation/host_program.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/search/search.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::testing;

TEST_CASE("default schedules of attention in halves equal the reference as printed") {
  const auto target = target::find_target("a100");
  REQUIRE(target.has_value());
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  HostProgram program;
  std::vector<task::Task> tasks;
  std::vector<size_t> kernels;
  for (const task::AttentionParams& p : std::vector<task::AttentionParams>{
           {.heads = 3, .queries = 37, .keys = 130, .depth = 32, .mask = true, .dtype = half},
           {.heads = 1, .queries = 70, .keys = 64, .depth = 80, .dtype = brain}}) {
    tasks.push_back(task::make_attention(p));
    auto chosen = search::choose_program(tasks.back(), *target, nullptr, 1);
    if (!chosen) FAIL(tasks.back().workload << ": " << chosen.error().message);
    CHECK(ir::print(chosen->lowered).find("instr mma.m16n8k16.f32.") != std::string::npos);
    auto number = program.add(chosen->lowered, *target);
    if (!number) FAIL(tasks.back().workload << ": " << number.error().message);
    kernels.push_back(*number);
  }
  auto compiled = program.compile();
  if (!compiled) FAIL(compiled.error().message);
  for (size_t n = 0; n < tasks.size(); ++n) {
    const Reference reference(tasks[n].kernel, n == 0 ? 2e-3 : 2e-2);
    for (uint64_t seed : {1, 2, 3}) {
      std::vector<interp::TensorData> data = reference.inputs;
      const HostReport report = program.run(kernels[n], data, seed);
      INFO(tasks[n].workload);
      CHECK(report.text() == "");
      CHECK(reference.difference(data) == "");
    }
  }
}
