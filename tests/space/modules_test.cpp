// The small modules: what each changes, and that the kernel means the same afterwards.
#include <catch2/catch.hpp>
#include <numeric>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "space/modules.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/mutation.h"

using namespace tcc;

namespace {

std::vector<schedule::Schedule> apply(decltype(space::Module::apply) module, const ir::Kernel& kernel,
                                      const target::Target& target) {
  static Rng rng(3);
  return module(schedule::Schedule(kernel, std::make_shared<Arena>(), &rng), target, {}).states;
}

bool has(const schedule::Schedule& s, schedule::Op op) {
  return std::any_of(s.trace().instructions.begin(), s.trace().instructions.end(),
                     [&](const auto& in) { return in.op == op; });
}

// The schedule at Scheduled and lowered, against the naive kernel.
void check_same(const schedule::Schedule& s, const ir::Kernel& naive, const target::Target& target) {
  INFO(schedule::print_trace(s.trace()) << ir::print(s.kernel()));
  const std::vector<double> want = run_kernel(naive);
  check_close(run_kernel(s.kernel()), want);
  auto lowered = lower::lower(s.kernel(), target, ir::Stage::kLowered, std::make_shared<Arena>());
  if (!lowered) FAIL(lowered.error().text);
  check_close(run_kernel(*lowered), want);
}

}  // namespace

TEST_CASE("a block that reads nothing goes into its readers") {
  auto kernel = ir::parse(R"(kernel built {
  input X: f32[5, 3]
  output Y: f32[5, 3]
  temp S: f32[3]
  for j in 3 {
    block scale(c: spatial 3 = j) {
      S[c] = 0.125
    }
  }
  for i in 5 {
    for j in 3 {
      block apply(r: spatial 5 = i, c: spatial 3 = j) {
        Y[r, c] = X[r, c] * S[c]
      }
    }
  }
}
)");
  REQUIRE(kernel);
  const target::Target target = named_target("x86-64-v3");
  const auto out = apply(space::inline_constants, *kernel, target);
  REQUIRE(out.size() == 1);
  CHECK(ir::collect_blocks(out[0].kernel().root).size() == 1);
  check_same(out[0], *kernel, target);
  const task::Task t = task::make_elementwise({4, 5});
  CHECK(apply(space::inline_constants, t.kernel, target)[0].trace().instructions.empty());
}

TEST_CASE("a long sum with few results is cut into parts") {
  const target::Target target = named_target("x86-64-v3");
  for (const graph::Shape& shape : {graph::Shape{2, 5000}, graph::Shape{1, 4097}, graph::Shape{8192}}) {
    const task::Task t = task::make_reduction(shape, {std::ssize(shape) - 1}, graph::Op::kReduceSum);
    INFO(t.workload);
    const auto out = apply(space::add_rfactor, t.kernel, target);
    REQUIRE(out.size() == 2);
    CHECK(has(out[0], schedule::Op::kRfactor));
    CHECK(out[1].trace().instructions.empty());
    check_same(out[0], t.kernel, target);
  }
  // Enough results for all cores, or short sums.
  for (const graph::Shape& shape : {graph::Shape{4000, 5000}, graph::Shape{2, 15}})
    CHECK(apply(space::add_rfactor, task::make_reduction(shape, {1}, graph::Op::kReduceMax).kernel, target).size() ==
          1);
}

TEST_CASE("a tensor is reduced to one element by vectors, over any number of axes") {
  const target::Target target = named_target("x86-64-v3");
  for (const graph::Shape& shape : {graph::Shape{9, 11}, graph::Shape{24, 17, 3}, graph::Shape{5, 7, 3, 41}})
    for (graph::Op op : {graph::Op::kReduceSum, graph::Op::kReduceMax}) {
      std::vector<int64_t> axes(shape.size());
      std::iota(axes.begin(), axes.end(), 0);
      const task::Task t = task::make_reduction(shape, axes, op);
      INFO(t.workload);
      const auto out = apply(space::add_rfactor, t.kernel, target);
      REQUIRE(out.size() == 2);
      CHECK(has(out[0], schedule::Op::kVectorize));
      check_same(out[0], t.kernel, target);
    }
}

TEST_CASE("blocks that nothing has placed may be computed below a loop of their readers") {
  const target::Target target = named_target("x86-64-v3");
  const task::Task t = task::make_softmax({6, 17}, 1);
  const auto out = apply(space::random_compute_location, t.kernel, target);
  REQUIRE(out.size() == 2);
  CHECK(has(out[1], schedule::Op::kSampleComputeLocation));
  for (const schedule::Schedule& s : out) check_same(s, t.kernel, target);
  // A search sees the places as sketches of their own.
  CHECK(space::structural_variants(out[1].trace(), t.kernel, target).size() > 1);
}

TEST_CASE("every choice of a CPU's design spaces is mutated") {
  const target::Target target = *target::find_target("x86-64-v3");
  for (const task::Task& task : {task::make_softmax({24, 96}, 1), task::make_gemm({.m = 48, .n = 64, .k = 30}),
                                 task::make_reduction({30, 64}, {1}, graph::Op::kReduceSum)}) {
    INFO(task.workload);
    for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
      INFO(schedule::print_trace(trace));
      std::vector<int64_t> decisions = trace.decisions;
      std::vector<bool> changed(decisions.size(), false);
      Rng rng(3);
      for (int i = 0; i < 4000; ++i) {
        const std::vector<int64_t> before = decisions;
        schedule::mutate(trace, decisions, schedule::mutator_weights(false), rng);
        for (size_t d = 0; d < before.size(); ++d)
          if (before[d] != decisions[d]) changed[d] = true;
      }
      for (const schedule::Instruction& in : trace.instructions)
        if (in.op == schedule::Op::kSampleCategorical && schedule::attribute(in, "candidates").size() >= 2)
          CHECK(changed[static_cast<size_t>(in.decision)]);
    }
  }
}
