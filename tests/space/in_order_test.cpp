// Schedules of sorts and scatters whose loops run in order.
#include "run_kernel.h"

#include "tcc/ir/query.h"
#include "tcc/schedule/schedule.h"

using namespace tcc;
using graph::DType;
using graph::Op;

namespace {

struct Made {
  task::Task task;
  std::string block;  // that runs in order
};

std::vector<Made> ordered_tasks() {
  std::vector<Made> made;
  auto add = [&](const char* block, Op op, graph::Attributes attrs,
                 std::vector<std::pair<DType, graph::Shape>> inputs) {
    graph::Graph g;
    std::vector<graph::ValueId> ids;
    for (const auto& [dtype, shape] : inputs) ids.push_back(g.add_input("x", dtype, shape));
    auto y = g.add_node(op, std::move(attrs), ids, "node");
    REQUIRE(y.has_value());
    g.add_output(*y, "y");
    auto task = task::make_task(g, graph::fuse(g).at(0), {.in_order = true});
    REQUIRE(task.has_value());
    made.push_back({std::move(*task), block});
  };
  add("top_k", Op::kTopK, graph::TopKAttrs{1, 150, true}, {{DType::kF32, {5, 150}}});
  add("top_k", Op::kTopK, graph::TopKAttrs{0, 7, false}, {{DType::kF32, {203, 3}}});
  add("scatter", Op::kScatter, graph::ScatterAttrs{1, graph::ScatterReduction::kAdd},
      {{DType::kF32, {4, 5, 6}}, {DType::kI64, {4, 7, 6}}, {DType::kF32, {4, 7, 6}}});
  return made;
}

}  // namespace

TEST_CASE("rows that run in order are parallel, and compute what the naive nest computes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const target::Target target = named_target(name);
    for (const Made& m : ordered_tasks()) {
      CHECK(check_draws(m.task, target) > 0);
      for (const schedule::Trace& trace : space::generate_space(m.task.kernel, target)) {
        auto arena = std::make_shared<Arena>();
        const ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, m.task.kernel, arena);
        REQUIRE(k.has_value());
        INFO(m.task.workload << "\n" << ir::print(*k));
        const ir::Id block = schedule::find_block_by_name(*k, m.block);
        REQUIRE(block != ir::kNoId);
        const std::vector<ir::Id> loops = schedule::loops_of(*k, block);
        CHECK(ir::find_loop(k->root, loops.front())->loop_kind == ir::LoopKind::kParallel);
        CHECK(ir::find_loop(k->root, loops.back())->loop_kind == ir::LoopKind::kSerial);
      }
    }
  }
}

TEST_CASE("sums that run along another axis than the last have vectors along the last ones") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const target::Target target = named_target(name);
    for (const auto& [shape, axis] : {std::pair(graph::Shape{6, 9, 5}, int64_t{1}),
                                      {graph::Shape{7, 150}, 0},
                                      {graph::Shape{3, 4, 5, 33}, 1},
                                      {graph::Shape{2, 3, 4}, 0}})
      for (const bool reverse : {false, true}) {
        graph::Graph g;
        graph::ScanAttrs scan;
        scan.axis = axis, scan.reverse = reverse;
        auto y = g.add_node(Op::kScan, scan, {g.add_input("x", DType::kF32, shape)}, "node");
        REQUIRE(y.has_value());
        g.add_output(*y, "y");
        auto task = task::make_task(g, graph::fuse(g).at(0), {.in_order = true});
        REQUIRE(task.has_value());
        CHECK(check_draws(*task, target) > 0);
        for (const schedule::Trace& trace : space::generate_space(task->kernel, target)) {
          auto arena = std::make_shared<Arena>();
          const ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, task->kernel, arena);
          REQUIRE(k.has_value());
          INFO(task->workload << "\n" << ir::print(*k));
          const std::vector<ir::Id> loops = schedule::loops_of(*k, schedule::find_block_by_name(*k, "scan"));
          CHECK(ir::find_loop(k->root, loops.front())->loop_kind == ir::LoopKind::kParallel);
          CHECK(ir::find_loop(k->root, loops.back())->loop_kind == ir::LoopKind::kVectorized);
        }
      }
  }
}
