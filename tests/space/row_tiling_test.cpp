// Row-wise operators: softmax, layer normalization, reductions of rows.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/analysis/lanes.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

task::Task layer_norm(int64_t rows, int64_t cols) {
  graph::Graph g;
  std::vector<graph::ValueId> inputs = {g.add_input("x", graph::DType::kF32, {rows, cols})};
  for (const char* name : {"scale", "shift"})
    inputs.push_back(g.add_constant(name, graph::DType::kF32, {cols}, graph::make_splat(graph::DType::kF32, 1)));
  auto y = g.add_node(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5f}, inputs, "norm");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  auto groups = graph::fuse(g);
  REQUIRE(groups.size() == 1);
  auto made = task::make_task(g, groups[0]);
  REQUIRE(made.has_value());
  return std::move(*made);
}

task::Task log_softmax(const graph::Shape& shape, int64_t axis) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", graph::DType::kF32, shape);
  auto y = g.add_node(graph::Op::kLogSoftmax, graph::AxisAttrs{axis}, {x}, "log");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  auto made = task::make_task(g, graph::fuse(g)[0]);
  REQUIRE(made.has_value());
  return std::move(*made);
}

task::Task reduction_with_nan(const graph::Shape& shape, const std::vector<int64_t>& axes) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", graph::DType::kF32, shape);
  auto y = g.add_node(graph::Op::kReduceMax, graph::ReduceAttrs{axes, true, true}, {x}, "max");
  REQUIRE(y.has_value());
  g.add_output(*y, "y");
  auto made = task::make_task(g, graph::fuse(g)[0]);
  REQUIRE(made.has_value());
  return std::move(*made);
}

// Do all lanes of vectorized loops read and write elements that differ by numbers?
bool lanes_differ_by_numbers(const ir::Kernel& k) {
  Arena arena;
  ir::Builder b(arena);
  analysis::Ranges ranges(k);
  std::vector<const ir::Loop*> vectors;
  bool numbers = true;
  const auto check = [&](ir::Id id, std::span<const ir::Expr> indices) {
    const ir::Buffer& buffer = *k.buffer(id);
    const ir::Expr place = analysis::flatten(b, buffer, analysis::row_major_strides(buffer), indices, ranges);
    for (const ir::Loop* l : vectors) {
      const int64_t extent = ir::int_value(l->extent);
      const auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
      numbers &= analysis::split_lanes(b, place, {l->id, 0, lanes, extent}).has_value();
    }
  };
  std::function<void(ir::Stmt)> walk = [&](ir::Stmt s) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    if (l != nullptr) ranges.set(l->id, l->extent);
    if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) vectors.push_back(l);
    if (const ir::Store* store = ir::as<ir::Store>(s)) {
      check(store->buffer, store->indices);
      ir::visit_loads(s, [&](const ir::Load& load) { check(load.buffer, load.indices); });
    }
    ir::visit(s, [&](ir::Stmt c) {
      if (c == s) return true;
      walk(c);
      return false;
    });
    if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) vectors.pop_back();
  };
  walk(k.root);
  return numbers;
}

// Draws of every skeleton, at both stages, against the naive kernel.
void check_draws(const task::Task& t, const target::Target& target, int draws) {
  INFO(t.workload << " on " << target.name);
  Params want(t.kernel);
  REQUIRE(interp::run(t.kernel, want.pointers).ok());
  Rng rng(11);
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < draws; ++draw) {
      if (draw > 0) space::draw_decisions(*sketch, decisions, rng);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      if (!nest) continue;
      Params got(*nest);
      interp::Report report = interp::run(*nest, got.pointers);
      INFO(ir::print(*nest) << report.text());
      REQUIRE(report.ok());
      check_close(got, want, 2e-5);
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      REQUIRE(lowered.has_value());
      Params code(*lowered);
      interp::Report lowered_report = interp::run(*lowered, code.pointers);
      INFO(ir::print(*lowered) << lowered_report.text());
      REQUIRE(lowered_report.ok());
      check_close(code, want, 2e-5);
    }
  }
}

// Ids of the serial and vector loops around stores to the buffer of that name, innermost two.
std::set<std::pair<ir::Id, int>> loops_that_store(const ir::Kernel& k, const std::string& prefix) {
  std::set<std::pair<ir::Id, int>> found;
  std::vector<const ir::Loop*> around;
  std::function<void(ir::Stmt)> walk = [&](ir::Stmt s) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    if (l != nullptr) around.push_back(l);
    if (const ir::Store* st = ir::as<ir::Store>(s))
      if (ir::name_hint(k, st->buffer) == prefix)
        for (size_t i = 0; i < around.size(); ++i) found.insert({around[i]->id, static_cast<int>(i)});
    ir::visit(s, [&](ir::Stmt c) {
      if (c == s) return true;
      walk(c);
      return false;
    });
    if (l != nullptr) around.pop_back();
  };
  walk(k.root);
  return found;
}

int64_t annotated(const schedule::Trace& trace, ir::AnnotationKey key) {
  int64_t n = 0;
  for (const schedule::Instruction& in : trace.instructions)
    n += in.op == schedule::Op::kAnnotate && schedule::enumerator<ir::AnnotationKey>(in, "key") == key ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("row-wise operators of even, odd and prime sizes keep their meaning") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    target::Target target = named_target(name);
    for (const auto& [rows, cols] :
         std::vector<std::pair<int64_t, int64_t>>{{8, 64}, {7, 97}, {13, 50}, {4, 3}, {3, 131}, {6, 128}, {1, 77}}) {
      check_draws(task::make_softmax({rows, cols}, 1), target, 5);
      check_draws(log_softmax({rows, cols}, 1), target, 5);
      check_draws(layer_norm(rows, cols), target, 5);
      check_draws(task::make_reduction({rows, cols}, {1}, graph::Op::kReduceMean), target, 4);
      check_draws(task::make_reduction({rows, cols}, {1}, graph::Op::kReduceMax), target, 4);
    }
    check_draws(task::make_softmax({2, 3, 5, 32}, 3), target, 5);
    check_draws(task::make_softmax({3, 20, 16}, 1), target, 5);
    check_draws(log_softmax({3, 20, 16}, 1), target, 5);
    check_draws(task::make_softmax({17, 5, 9}, 0), target, 5);
  }
}

TEST_CASE("vectors of a sum over axes that are apart do not cross the ends of its runs") {
  struct Case {
    graph::Shape shape;
    std::vector<int64_t> axes;
  };
  // Runs of several vectors, of a rest, of less than a vector; several axes that make one run; axes around a result's.
  const std::vector<Case> cases = {{{5, 4, 56}, {0, 2}},      {{9, 3, 50}, {0, 2}},          {{6, 3, 17}, {0, 2}},
                                   {{40, 3, 20}, {0, 2}},     {{41, 3, 20}, {0, 2}},         {{3, 2, 300}, {0, 2}},
                                   {{4, 3, 7, 9}, {0, 2, 3}}, {{2, 6, 3, 2, 45}, {1, 2, 4}}, {{2, 5, 3, 24}, {1, 3}},
                                   {{30, 2, 12}, {0, 2}}};
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const target::Target target = named_target(name);
    for (const Case& c : cases)
      for (const task::Task& t :
           {task::make_reduction(c.shape, c.axes, graph::Op::kReduceSum),
            task::make_reduction(c.shape, c.axes, graph::Op::kReduceMean), reduction_with_nan(c.shape, c.axes)}) {
        check_draws(t, target, 3);
        INFO(t.workload << " on " << name);
        size_t rows = 0;
        for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
          if (annotated(trace, ir::AnnotationKey::kTreeReduce) == 0) continue;
          ++rows;
          INFO(schedule::print_trace(trace));
          auto arena = std::make_shared<Arena>();
          ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
          REQUIRE(k.has_value());
          ir::Legal<ir::Kernel> lowered = lower::lower(*k, target, ir::Stage::kLowered, arena);
          REQUIRE(lowered.has_value());
          INFO(ir::print(*lowered));
          CHECK(lanes_differ_by_numbers(*lowered));
        }
        CHECK(rows > 0);
      }
  }
}

TEST_CASE("tiles across rows compete only for rows of few vectors that make squares") {
  const target::Target target = named_target("x86-64-v4");
  const auto reads_along = [&](int64_t row) {
    const task::Task t = task::make_reduction({512, row}, {1}, graph::Op::kReduceSum);
    size_t along = 0, ways = 0;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
      ++ways;
      along += annotated(trace, ir::AnnotationKey::kTreeReduce) > 0 ? 1 : 0;
    }
    return along == ways ? "always" : along > 0 ? "maybe" : "never";
  };
  CHECK(reads_along(20) == std::string("never"));
  CHECK(reads_along(32) == std::string("maybe"));
  CHECK(reads_along(33) == std::string("always"));
  CHECK(reads_along(36) == std::string("maybe"));
  CHECK(reads_along(49) == std::string("always"));
  CHECK(reads_along(64) == std::string("always"));
}

TEST_CASE("sketches of row-wise operators take decisions as symbols") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    target::Target target = named_target(name);
    for (const task::Task& t :
         {task::make_softmax({256, 256}, 1), task::make_softmax({2, 4, 8, 128}, 3), task::make_softmax({37, 1021}, 1),
          log_softmax({37, 1021}, 1), layer_norm(128, 768), layer_norm(5, 250)}) {
      INFO(t.workload << " on " << name);
      std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
      REQUIRE(!traces.empty());
      for (const schedule::Trace& trace : traces) {
        INFO(schedule::print_trace(trace));
        ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
        REQUIRE(sketch.has_value());
        CHECK(sketch->symbolic);
      }
    }
  }
}

TEST_CASE("softmax takes exponentials and their sum in one pass, a vector of partial sums wide") {
  target::Target target = named_target("x86-64-v3");
  for (int64_t cols : {256, 131}) {
    task::Task t = task::make_softmax({16, cols}, 1);
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
      REQUIRE(k.has_value());
      ir::Legal<ir::Kernel> nest = lower::lower(*k, target, ir::Stage::kNest, arena);
      REQUIRE(nest.has_value());
      INFO(ir::print(*nest));
      // The pass over the row is a loop around both stores; the lanes are loops of their own.
      std::set<std::pair<ir::Id, int>> exp = loops_that_store(*nest, "row_exp_out"),
                                       sum = loops_that_store(*nest, "row_sum_out_rf");
      REQUIRE(!exp.empty());
      REQUIRE(!sum.empty());
      int shared = 0;
      for (const auto& l : exp) shared += static_cast<int>(sum.count(l));
      CHECK(shared >= 2);
    }
  }
}

TEST_CASE("tiles of rows fit a share of the first-level cache, and long rows run without masks") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.l1_bytes = 32 << 10;
  const auto samples = [&](const task::Task& t, const std::string& text) {
    const std::string trace = schedule::print_trace(space::generate_space(t.kernel, target)[0]);
    INFO(trace);
    size_t found = 0;
    for (size_t at = trace.find(text); at != std::string::npos; at = trace.find(text, at + 1)) ++found;
    return found;
  };
  CHECK(samples(task::make_softmax({64, 64}, 1), "max_innermost=16 ") == 1);
  CHECK(samples(task::make_softmax({64, 1021}, 1), "max_innermost=1 ") == 1);
  CHECK(samples(layer_norm(64, 1021), "max_innermost=1 ") == 1);
  CHECK(samples(task::make_softmax({64, 1021}, 1), "tails=[peel]") == 3);
  CHECK(samples(task::make_softmax({64, 131}, 1), "tails=[mask, peel]") == 3);
}

TEST_CASE("lanes run across rows only where rows are neighbors in memory") {
  target::Target target = named_target("x86-64-v3");
  CHECK(space::generate_space(task::make_softmax({64, 64}, 1).kernel, target).size() == 1);
  CHECK(space::generate_space(task::make_softmax({4, 16, 64}, 1).kernel, target).size() == 1);
  CHECK(annotated(space::generate_space(task::make_softmax({64, 64}, 1).kernel, target)[0],
                  ir::AnnotationKey::kTreeReduce) == 2);
  CHECK(annotated(space::generate_space(task::make_softmax({4, 16, 64}, 1).kernel, target)[0],
                  ir::AnnotationKey::kTreeReduce) == 0);
}

TEST_CASE("a row of an output beyond the second-level cache is made in place") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    target::Target target = named_target(name);
    target.cpu.l2_bytes = 64;
    for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{8, 64}, {7, 97}, {13, 50}, {12, 3}})
      check_draws(task::make_softmax({rows, cols}, 1), target, 5);
    check_draws(task::make_softmax({2, 3, 5, 32}, 3), target, 5);
    check_draws(task::make_softmax({3, 20, 16}, 1), target, 5);
    check_draws(layer_norm(7, 97), target, 5);
  }
}

TEST_CASE("rows are made in place where the cache does not hold the output") {
  target::Target target = named_target("x86-64-v3");
  task::Task t = task::make_softmax({24, 131}, 1);
  schedule::Trace trace = space::generate_space(t.kernel, target)[0];
  ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
  REQUIRE(sketch.has_value());
  // Has the row of exponentials memory of its own?
  auto has_row = [&](const target::Target& on, const ir::Kernel& nest, const ArenaPtr& arena) {
    ir::Legal<ir::Kernel> lowered = lower::lower(nest, on, ir::Stage::kLowered, arena);
    REQUIRE(lowered.has_value());
    bool found = false;
    for (const ir::Buffer* b : lowered->buffers) found |= ir::name_hint(*lowered, b->id) == "row_exp_out";
    return found;
  };
  target::Target small = target;
  small.cpu.l2_bytes = 24 * 131 * 4 - 1;
  std::set<int64_t> tiles;
  Rng rng(5);
  std::vector<int64_t> decisions = trace.decisions;
  for (int draw = 0; draw < 24; ++draw) {
    space::draw_decisions(*sketch, decisions, rng);
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
    REQUIRE(nest.has_value());
    INFO(ir::print(*nest));
    for (const ir::Buffer* b : nest->buffers)
      if (ir::name_hint(*nest, b->id) == "row_exp_out") tiles.insert(ir::int_value(b->shape[0]));
    CHECK(has_row(target, *nest, arena));  // an output that the cache holds
    CHECK_FALSE(has_row(small, *nest, arena));
  }
  CHECK(tiles.size() > 1);  // rows that share an iteration, and one alone
}

// What would make sharing wrong, one thing at a time.
TEST_CASE("rows that something else needs keep memory of their own") {
  target::Target target = named_target("x86-64-v3");
  target.cpu.l2_bytes = 64;
  auto is_shared = [&](const std::string& body) {
    auto arena = std::make_shared<Arena>();
    const std::string text =
        "kernel nest {\n  input x: f32[8, 32]\n  output out: f32[8, 32]\n  temp row: f32[1, 32]\n" + body + "}\n";
    INFO(text);
    auto parsed = ir::parse(text);
    REQUIRE(parsed.has_value());
    ir::Legal<ir::Kernel> lowered = lower::lower(*parsed, target, ir::Stage::kLowered, arena);
    REQUIRE(lowered.has_value());
    bool row = false;
    for (const ir::Buffer* b : lowered->buffers) row |= ir::name_hint(*lowered, b->id) == "row";
    return !row;
  };
  auto kernel = [](const std::string& annotation, const std::string& between, const std::string& last) {
    return "  for i in 8 parallel" + annotation +
           " {\n    alloc row {\n      for j in 32 {\n"
           "        row[0, j] = exp(x[i, j])\n      }\n" +
           between + "      for k in 32 {\n        " + last + "\n      }\n    }\n  }\n";
  };
  CHECK(is_shared(kernel("", "", "out[i, k] = row[0, k] * 2.0")));
  CHECK_FALSE(is_shared(kernel("", "", "out[i, k] = row[0, 31 - k] * 2.0")));
  CHECK_FALSE(is_shared(kernel("", "", "out[i, k] = row[0, k] * row[0, 0]")));
  CHECK_FALSE(is_shared(kernel("", "", "out[7 - i, 31 - k] = row[0, k]")));
  CHECK(is_shared(kernel("", "", "out[7 - i, k] = row[0, k]")));
  CHECK_FALSE(is_shared(kernel(" @nontemporal(1)", "", "out[i, k] = row[0, k] * 2.0")));
  CHECK_FALSE(
      is_shared(kernel("", "      for m in 32 {\n        out[i, m] = 1.0\n      }\n", "out[i, k] = row[0, k] * 2.0")));
}

TEST_CASE("results beyond the last cache may go past it") {
  target::Target target = named_target("x86-64-v3");
  target.cpu.l3_bytes = 1 << 20;
  for (const task::Task& t : {task::make_softmax({1024, 512}, 1), task::make_elementwise({1, 8, 256, 256})}) {
    INFO(t.workload);
    schedule::Trace trace = space::generate_space(t.kernel, target)[0];
    CHECK(annotated(trace, ir::AnnotationKey::kNonTemporal) == 1);
  }
  for (const task::Task& t : {task::make_softmax({64, 512}, 1), task::make_elementwise({1, 8, 32, 32})})
    for (const schedule::Trace& trace : space::generate_space(t.kernel, target))
      CHECK(annotated(trace, ir::AnnotationKey::kNonTemporal) == 0);
}

TEST_CASE("rows of odd length end in one shorter vector, without a test in any loop") {
  target::Target target = named_target("x86-64-v3");
  Rng rng(5);
  for (const task::Task& t : {task::make_softmax({6, 131}, 1), layer_norm(6, 131),
                              task::make_reduction({6, 131}, {1}, graph::Op::kReduceMean)}) {
    INFO(t.workload);
    schedule::Trace trace = space::generate_space(t.kernel, target)[0];
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    for (int draw = 0; draw < 6; ++draw) {
      if (draw > 0) space::draw_decisions(*sketch, decisions, rng);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      REQUIRE(nest.has_value());
      ir::Legal<ir::Kernel> k = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      REQUIRE(k.has_value());
      INFO(ir::print(*k));
      int64_t tests = 0, stores = 0;
      ir::visit(k->root, [&](ir::Stmt s) {
        tests += s->kind == ir::StmtKind::kIf ? 1 : 0;
        const ir::Store* st = ir::as<ir::Store>(s);
        stores += st != nullptr ? 1 : 0;
        tests += st != nullptr && st->predicate != nullptr ? 1 : 0;
        return true;
      });
      CHECK(stores > 3);
      CHECK(tests == 0);
    }
  }
}
