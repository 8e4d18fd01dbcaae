// Transposes on CPUs: squares of registers in every draw, with whole tiles at the ends of odd extents.
#include <catch2/catch.hpp>

#include "run_kernel.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/space.h"

using namespace tcc;

namespace {

// The task of a graph that is one group.
task::Task only_task(graph::Graph g, graph::ValueId output) {
  g.add_output(output, "y");
  const auto groups = graph::fuse(g);
  REQUIRE(groups.size() == 1);
  auto made = task::make_task(g, groups[0]);
  REQUIRE(made.has_value());
  return std::move(*made);
}

task::Task transpose(graph::DType type, const graph::Shape& shape, const std::vector<int64_t>& perm, bool scaled) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", type, shape);
  auto y = g.add_node(graph::Op::kTranspose, graph::TransposeAttrs{perm}, {x}, "transpose");
  REQUIRE(y.has_value());
  if (scaled) {
    const graph::ValueId scale = g.add_input("scale", type, {shape[static_cast<size_t>(perm.back())]});
    y = g.add_node(graph::Op::kMul, graph::NoAttrs{}, {*y, scale}, "mul");
    REQUIRE(y.has_value());
  }
  return only_task(std::move(g), *y);
}

// Loops whose accesses are squares in registers, and stores under a condition.
std::pair<int, int> squares_and_conditions(const ir::Kernel& k) {
  int squares = 0, conditions = 0;
  ir::visit(k.root, [&](ir::Stmt s) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    const ir::Store* st = ir::as<ir::Store>(s);
    squares += l != nullptr && ir::has_annotation(*l, ir::AnnotationKey::kTransposeAccesses);
    conditions += (st != nullptr && st->predicate != nullptr) || s->kind == ir::StmtKind::kIf;
    return true;
  });
  return {squares, conditions};
}

// The program of the trace, lowered to a nest and further, computes `want` with this number of squares and no
// condition.
ir::Kernel check_squares(const task::Task& t, const schedule::Trace& trace, const target::Target& target,
                         const std::vector<double>& want, int squares = 1) {
  INFO(schedule::print_trace(trace));
  auto arena = std::make_shared<Arena>();
  std::vector<int64_t> decisions = trace.decisions;
  ir::Legal<ir::Kernel> k = schedule::replay(trace, decisions, t.kernel, arena, &decisions);
  REQUIRE(k);
  ir::Legal<ir::Kernel> nest = lower::lower(*k, target, ir::Stage::kNest, arena);
  REQUIRE(nest);
  CHECK(run_kernel(*nest) == want);
  ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
  REQUIRE(lowered);
  INFO(ir::print(*lowered));
  CHECK(squares_and_conditions(*lowered) == std::pair(squares, 0));
  CHECK(run_kernel(*lowered) == want);
  return *lowered;
}

}  // namespace

TEST_CASE("transposes of any extents are whole squares in registers", "[space]") {
  struct Case {
    graph::DType type;
    graph::Shape shape;
    std::vector<int64_t> perm;
  };
  using enum graph::DType;
  for (const char* name : {"x86-64-v4", "x86-64-v3", "x86-64-v2"}) {
    const target::Target target = named_target(name);
    for (const Case& c : {Case{kF32, {48, 32}, {1, 0}}, Case{kF32, {37, 29}, {1, 0}}, Case{kF32, {9, 7}, {1, 0}},
                          Case{kF32, {2, 3, 21, 19}, {0, 3, 1, 2}}, Case{kF32, {19, 6, 23}, {1, 2, 0}},
                          Case{kI64, {33, 9}, {1, 0}}, Case{kU8, {70, 35}, {1, 0}}, Case{kF16, {35, 33}, {1, 0}}})
      for (bool scaled : {false, true}) {
        if (scaled && c.type != kF32) continue;
        if (c.type == kI64 && target.name == "x86-64-v2") continue;  // two elements a register make no squares
        const task::Task t = transpose(c.type, c.shape, c.perm, scaled);
        INFO(t.workload << " on " << name);
        const std::vector<double> want = run_kernel(t.kernel);
        const std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
        CHECK(traces.size() >= 2);
        for (const schedule::Trace& trace : traces) check_squares(t, trace, target, want);
      }
  }
}

TEST_CASE("large transposes are made in blocks, with whole ones at the ends of odd extents", "[space]") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.l2_bytes = 4096;
  using enum graph::DType;
  struct Case {
    graph::DType type;
    graph::Shape shape;
    int64_t l3_bytes;
    size_t sketches;  // blocks alone; or along either side, and in blocks where the axes are long enough
  };
  for (const Case& c :
       {Case{kF32, {160, 277}, 1 << 17, 1}, Case{kF32, {150, 277}, 1 << 17, 3}, Case{kF32, {150, 277}, 1 << 20, 3},
        Case{kU8, {600, 2048}, 1 << 22, 1}, Case{kU8, {600, 1100}, 1 << 22, 3}, Case{kF32, {32, 48}, 1 << 20, 2}}) {
    target.cpu.l3_bytes = c.l3_bytes;
    const task::Task t = transpose(c.type, c.shape, {1, 0}, false);
    INFO(t.workload);
    const std::vector<double> want = run_kernel(t.kernel);
    const std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
    CHECK(traces.size() == c.sketches);
    for (const schedule::Trace& trace : traces) check_squares(t, trace, target, want);
  }
}

TEST_CASE("rows that change places are moved in runs where the result goes past the caches", "[space]") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.l2_bytes = 4096;
  target.cpu.l3_bytes = 8192;
  struct Case {
    graph::DType type;
    graph::Shape shape;
    std::vector<int64_t> perm;
    bool moved;
  };
  using enum graph::DType;
  for (const Case& c : {Case{kF32, {3, 70, 5, 32}, {0, 2, 1, 3}, true}, Case{kF32, {67, 6, 37}, {1, 0, 2}, true},
                        Case{kU8, {2, 33, 4, 100}, {0, 2, 1, 3}, true}, Case{kF32, {5, 4, 6, 48}, {2, 1, 0, 3}, false},
                        Case{kF32, {40, 4, 8}, {1, 0, 2}, false}}) {
    const task::Task t = transpose(c.type, c.shape, c.perm, false);
    INFO(t.workload);
    const std::vector<double> want = run_kernel(t.kernel);
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
      INFO(schedule::print_trace(trace));
      CHECK((schedule::print_trace(trace).find("reorder") != std::string::npos) == c.moved);
      auto arena = std::make_shared<Arena>();
      std::vector<int64_t> decisions = trace.decisions;
      ir::Legal<ir::Kernel> k = schedule::replay(trace, decisions, t.kernel, arena, &decisions);
      REQUIRE(k);
      ir::Legal<ir::Kernel> lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
      REQUIRE(lowered);
      INFO(ir::print(*lowered));
      if (c.moved) CHECK(squares_and_conditions(*lowered).second == 0);
      CHECK(run_kernel(*lowered) == want);
    }
  }
}

TEST_CASE("rows that are added to several others stay in the order of the result", "[space]") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.l2_bytes = 4096;
  target.cpu.l3_bytes = 8192;
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", graph::DType::kF32, {40, 70, 32}),
                       z = g.add_input("z", graph::DType::kF32, {40, 1, 32});
  auto y = g.add_node(graph::Op::kAdd, graph::NoAttrs{}, {x, z}, "add");
  REQUIRE(y.has_value());
  const task::Task t = only_task(std::move(g), *y);
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    CHECK(schedule::print_trace(trace).find("reorder") == std::string::npos);
  }
}

TEST_CASE("axes that fill no square leave a transpose to vectors of the last axis", "[space]") {
  const target::Target target = named_target("x86-64-v4");
  const task::Task t = transpose(graph::DType::kF32, {3, 40}, {1, 0}, false);
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target))
    CHECK(schedule::print_trace(trace).find("tail") == std::string::npos);
}

TEST_CASE("rows that alternate in the operand are picked from strips of it", "[space]") {
  struct Case {
    graph::DType type;
    graph::Shape shape;
    std::vector<int64_t> perm;
    bool strips;  // of the axis that becomes the last one
  };
  using enum graph::DType;
  for (const char* name : {"x86-64-v4", "x86-64-v3", "x86-64-v2"}) {
    const target::Target target = named_target(name);
    for (const Case& c :
         {Case{kF32, {5, 37, 3}, {2, 0, 1}, false}, Case{kF32, {3, 4, 2, 33, 2}, {2, 4, 0, 1, 3}, false},
          Case{kF32, {2900, 3}, {1, 0}, true}, Case{kU8, {4, 131, 3}, {2, 0, 1}, false}})
      for (bool scaled : {false, true}) {
        if (scaled && c.type != kF32) continue;
        const task::Task t = transpose(c.type, c.shape, c.perm, scaled);
        INFO(t.workload << " on " << name);
        const std::vector<double> want = run_kernel(t.kernel);
        const std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
        REQUIRE(traces.size() == 1);
        const ir::Kernel lowered = check_squares(t, traces[0], target, want, 0);
        INFO(ir::print(lowered));
        // The loop over the alternating rows is around that over the vectors of a strip.
        std::vector<int64_t> extents;
        ir::visit(lowered.root, [&](ir::Stmt s) {
          if (const ir::Loop* l = ir::as<ir::Loop>(s)) extents.push_back(ir::int_value(l->extent));
          return true;
        });
        REQUIRE(extents.size() >= 2);
        const int64_t rows = c.shape.back();
        const auto at = std::find(extents.begin(), extents.end(), rows);
        CHECK(at - extents.begin() == (c.shape.size() > 2 || c.strips ? 1 : 0));
      }
  }
}
