// Printed source with bulk tensor copies, barriers in shared memory, clusters, roles and products of warpgroups, on the
// host's fibers: the kernel of the expressibility suite in several shapes, default and drawn programs of the GPU space,
// and one mistake each.
#include <algorithm>
#include <cstdlib>

#include "emulation/hopper_kernel.h"
#include "emulation/host_program.h"
#include "sample_tasks.h"
#include "tcc/lower/lower.h"
#include "tcc/search/search.h"
#include "tcc/space/space.h"
#include "traces/reference.h"
#include "traces/task_shapes.h"

using namespace tcc;
using namespace tcc::testing;
using namespace tcc::emulation::testing;

namespace {

target::Target hopper() {
  auto t = target::find_target("h200");
  REQUIRE(t.has_value());
  return *t;
}

// Of few multiprocessors, so that small products have more tiles than it.
target::Target small_hopper() {
  target::Target t = hopper();
  t.cuda.sm_count = 2;
  return t;
}

// Kernels and what they must compute.
class Runs {
 public:
  void add(std::string what, const ir::Kernel& lowered, const Reference& reference, const target::Target& target) {
    auto number = program_.add(lowered, target);
    if (!number) FAIL(what << number.error().message << "\n" << ir::print(lowered));
    runs_.push_back({std::move(what), *number, reference});
  }
  void check(uint64_t seeds) {
    auto compiled = program_.compile();
    if (!compiled) FAIL(compiled.error().message);
    for (const Run& r : runs_) {
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        std::vector<interp::TensorData> got = r.reference.inputs;
        const HostReport report = program_.run(r.kernel, got, seed);
        if (!report.ok()) FAIL(r.what << "\n" << report.text());
        const std::string wrong = r.reference.difference(got);
        if (!wrong.empty()) FAIL(r.what << "\n" << wrong);
      }
    }
  }
  size_t size() const { return runs_.size(); }

 private:
  struct Run {
    std::string what;
    size_t kernel;
    Reference reference;
  };
  HostProgram program_;
  std::vector<Run> runs_;
};

std::vector<task::Task> products() {
  const auto half = graph::DType::kF16, brain = graph::DType::kBF16;
  return {task::make_gemm({.m = 256, .n = 128, .k = 136, .dtype = half}),
          tcc::testing::allow_tf32(task::make_gemm({.m = 136, .n = 72, .k = 100, .bias = true, .trans_b = true})),
          task::make_gemm({.m = 200, .n = 136, .k = 200, .bias = true, .relu = true, .dtype = half}),
          task::make_gemm({.m = 129, .n = 264, .k = 72, .trans_b = true, .dtype = brain}),
          task::make_gemm({.m = 65, .n = 40, .k = 136, .bias = true, .trans_b = true, .dtype = half}),
          make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{2, 70, 136}, {2, 136, 72}}, brain)};
}

}  // namespace

TEST_CASE("source of a product by bulk copies and wgmma equals the interpreter on the host") {
  Runs runs;
  for (const Edits* edits : {static_cast<const Edits*>(nullptr), &kBrain, &kOdd, &kLongRows, &kShortRows}) {
    const ir::Kernel kernel = product(edits != nullptr ? *edits : Edits{});
    runs.add("kernel " + std::to_string(runs.size()), kernel, Reference(kernel, edits == &kBrain ? 2e-2 : 2e-3),
             hopper());
  }
  runs.check(4);
}

TEST_CASE("default schedules of products for Hopper equal the reference as printed") {
  Runs runs;
  size_t by_warpgroups = 0, by_tf32 = 0;
  std::vector<task::Task> tasks = products();
  // Large enough for a warpgroup's product to be the first choice.
  tasks.push_back(task::make_gemm({.m = 512, .n = 512, .k = 128, .dtype = graph::DType::kF16}));
  tasks.push_back(task::make_gemm({.m = 500, .n = 392, .k = 136, .bias = true, .dtype = graph::DType::kBF16}));
  tasks.push_back(tcc::testing::allow_tf32(task::make_gemm({.m = 512, .n = 392, .k = 132, .trans_b = true})));
  for (const task::Task& t : tasks) {
    for (const target::Target& target : {hopper(), small_hopper()}) {
      auto chosen = search::choose_program(t, target, nullptr, 1);
      if (!chosen) FAIL(t.workload << ": " << chosen.error().message);
      const std::string text = ir::print(chosen->lowered);
      by_warpgroups += text.find("wgmma.m64") != std::string::npos;
      by_tf32 += text.find("k8.f32.tf32(") != std::string::npos && text.find("wgmma.m64") != std::string::npos;
      runs.add(t.workload, chosen->lowered, Reference(t.kernel, 1e-3), target);
    }
  }
  WARN(by_warpgroups << " of " << runs.size() << " by products of warpgroups");
  CHECK(by_warpgroups > 0);
  CHECK(by_tf32 > 0);
  runs.check(2);
}

TEST_CASE("drawn programs for Hopper equal the reference as printed") {
  const int wanted = std::getenv("TCC_SOAK") != nullptr ? 10 : 1;
  Runs runs;
  Rng rng(7);
  for (const task::Task& t : products()) {
    const Reference reference(t.kernel, 1e-3);
    for (const schedule::Trace& trace : space::generate_space(t.kernel, small_hopper())) {
      if (schedule::print_trace(trace).find("wgmma") == std::string::npos) continue;
      std::vector<int64_t> decisions = trace.decisions;
      for (int draw = 0, done = 0; draw < 12 * wanted && done < wanted; ++draw) {
        auto arena = std::make_shared<Arena>();
        auto scheduled = schedule::sample(trace, decisions, t.kernel, arena, rng);
        if (!scheduled) continue;
        auto lowered = lower::lower(*scheduled, small_hopper(), ir::Stage::kLowered, arena);
        if (!lowered) continue;
        schedule::Trace shown = trace;
        shown.decisions = decisions;
        runs.add(t.workload + "\n" + schedule::print_trace(shown), *lowered, reference, small_hopper());
        ++done;
      }
    }
  }
  CHECK(runs.size() >= 5);
  runs.check(1);
}

TEST_CASE("source of a product by bulk copies and wgmma with one mistake is found out on the host") {
  struct Mistake {
    Edits edits;
    std::string finding;  // part of one
  };
  const std::vector<Mistake> mistakes = {
      {{{"instr mbarrier.arrive.cluster(empty[(p*3 + kt) % 2]; peer)", ""}}, "lacks 8 of 8 arrivals and 0 bytes"},
      // One block's consumers free a stage of their own block only.
      {{{"for peer in 2 unrolled", "for peer in 1 unrolled"}}, "arrivals"},
      {{{"((p*3 + kt) // 2 + 1) % 2", "(p*3 + kt) // 2 % 2"}}, "threads wait at mbarrier.wait for ever"},
      {{{"full[(p*3 + kt) % 2]; (p*3 + kt) // 2 % 2)", "full[(p*3 + kt) % 2]; ((p*3 + kt) // 2 + 1) % 2)"}},
       "a copy to it has not been waited for"},
      {{{"4608", "4096"}}, "expects 4096 bytes and 4608 are under way"},
      {{{"4608", "4864"}}, "lacks 0 of 1 arrivals and 256 bytes"},
      {{{"instr fence.proxy.async()", ""}}, "no fence.proxy.async between the write"},
      {{{"instr fence.mbarrier_init()", ""}}, "no fence.mbarrier_init"},
      {{{"instr wgmma.fence()", ""}}, "no wgmma.fence between"},
      {{{"instr wgmma.wait(; 0)", ""}}, "has not been waited for"},
      {{{"instr tma.wait(; 0)", ""}}, "has not been waited for"},
  };
  const Reference like(product(), 2e-3);
  HostProgram program;
  for (const Mistake& m : mistakes) REQUIRE(program.add(product(m.edits), hopper()));
  auto compiled = program.compile();
  if (!compiled) FAIL(compiled.error().message);
  for (size_t i = 0; i < mistakes.size(); ++i) {
    std::vector<interp::TensorData> data = like.inputs;
    const HostReport report = program.run(i, data);
    INFO("mistake " << i << ": " << report.text());
    CHECK(report.text().find(mistakes[i].finding) != std::string::npos);
  }
}
