// Every design space of every kind of task, on random decisions, computes what the naive kernel computes.
#include "tcc/space/space.h"
#include "run_kernel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

std::vector<task::Task> small_tasks() {
  std::vector<task::Task> tasks;
  tasks.push_back(task::make_gemm({.m = 24, .n = 64, .k = 32}));
  tasks.push_back(task::make_gemm({.m = 13, .n = 70, .k = 17, .bias = true, .relu = true, .constant_weights = true}));
  tasks.push_back(
      task::make_gemm({.m = 1, .n = 100, .k = 40, .bias = true, .constant_weights = true, .trans_b = true}));
  tasks.push_back(task::make_conv({.channels = 4,
                                   .filters = 32,
                                   .size = {9, 10},
                                   .kernel = {3, 3},
                                   .pads = {1, 1},
                                   .bias = true,
                                   .relu = true,
                                   .residual = true}));
  tasks.push_back(task::make_conv({.channels = 3,
                                   .filters = 16,
                                   .size = {15, 15},
                                   .kernel = {7, 7},
                                   .strides = {2, 2},
                                   .pads = {3, 3},
                                   .bias = true,
                                   .relu = true}));
  tasks.push_back(
      task::make_conv({.channels = 8, .filters = 32, .size = {7, 7}, .kernel = {1, 1}, .bias = true, .relu = true}));
  tasks.push_back(task::make_conv(
      {.channels = 6, .filters = 6, .group = 6, .size = {12, 16}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true}));
  tasks.push_back(task::make_conv(
      {.batch = 2, .channels = 4, .filters = 8, .group = 2, .size = {8, 8}, .kernel = {3, 3}, .strides = {2, 2}}));
  tasks.push_back(
      task::make_pool({.channels = 4, .size = {14, 14}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}}));
  tasks.push_back(task::make_conv(
      {.channels = 8, .filters = 64, .group = 2, .size = {6, 20}, .kernel = {3, 3}, .pads = {1, 1}, .bias = true}));
  tasks.push_back(
      task::make_conv({.channels = 8, .filters = 68, .group = 4, .size = {5, 5}, .kernel = {1, 1}, .relu = true}));
  tasks.push_back(task::make_pool({.average = true, .channels = 8, .size = {7, 7}, .kernel = {7, 7}}));
  tasks.push_back(task::make_softmax({12, 40}, 1));
  tasks.push_back(task::make_softmax({2, 3, 8, 10}, 3));
  tasks.push_back(task::make_softmax({4, 10, 6}, 1));
  tasks.push_back(task::make_reduction({6, 20, 5}, {1}, graph::Op::kReduceMean));
  tasks.push_back(task::make_reduction({6, 33}, {1}, graph::Op::kReduceMax));
  tasks.push_back(task::make_elementwise({2, 8, 7, 7}));
  tasks.push_back(task::make_elementwise({130}));
  return tasks;
}

int64_t count_loops(const ir::Kernel& k, ir::LoopKind kind) {
  int64_t n = 0;
  ir::visit(k.root, [&](ir::Stmt s) {
    if (const ir::Loop* l = ir::as<ir::Loop>(s)) n += l->loop_kind == kind ? 1 : 0;
    return true;
  });
  return n;
}

}  // namespace

TEST_CASE("design spaces keep the meaning of every kind of task") {
  target::Target target = named_target("x86-64-v4");
  for (const task::Task& t : small_tasks()) {
    INFO(t.workload);
    Params want(t.kernel);
    REQUIRE(interp::run(t.kernel, want.pointers).ok());
    std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
    REQUIRE(!traces.empty());
    std::set<uint64_t> programs;
    Rng rng(3);
    for (const schedule::Trace& trace : traces) {
      INFO(schedule::print_trace(trace));
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
      REQUIRE(sketch.has_value());
      std::vector<int64_t> decisions = trace.decisions;
      for (int draw = 0; draw < 4; ++draw) {
        if (draw > 0) space::draw_decisions(*sketch, decisions, rng);
        auto arena = std::make_shared<Arena>();
        ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
        if (!nest) continue;
        programs.insert(ir::hash_kernel(*nest));
        INFO(ir::print(*nest));
        Params got(*nest);
        interp::Report report = interp::run(*nest, got.pointers);
        INFO(report.text());
        REQUIRE(report.ok());
        check_close(got, want);
        ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
        if (!lowered) continue;
        INFO(ir::print(*lowered));
        Params code(*lowered);
        interp::Report lowered_report = interp::run(*lowered, code.pointers);
        INFO(lowered_report.text());
        REQUIRE(lowered_report.ok());
        check_close(code, want);
      }
    }
    CHECK(!programs.empty());
  }
}

namespace {

// The widths of the vector loops of a kernel's programs.
std::set<int64_t> vector_widths(const char* text, const target::Target& target) {
  auto kernel = ir::parse(text);
  REQUIRE(kernel.has_value());
  std::set<int64_t> widths;
  for (const schedule::Trace& trace : space::generate_space(*kernel, target)) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, *kernel, target);
    REQUIRE(sketch.has_value());
    ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, trace.decisions, target, std::make_shared<Arena>());
    REQUIRE(nest.has_value());
    ir::visit(nest->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) widths.insert(ir::int_value(l->extent));
      return true;
    });
  }
  return widths;
}

constexpr const char* kWoven = R"(kernel built {
  input x: f32[5, 2, 2, 41, 41]
  output out: f32[5, 41, 2, 41, 2]
  for i0 in 5 {
    for i1 in 41 {
      for i2 in 2 {
        for i3 in 41 {
          for i4 in 2 {
            block transpose(v0: spatial 5 = i0, v1: spatial 41 = i1, v2: spatial 2 = i2, v3: spatial 41 = i3, v4: spatial 2 = i4) {
              out[v0, v1, v2, v3, v4] = x[v0, v2, v4, v1, v3]
            }
          }
        }
      }
    }
  }
}
)";
constexpr const char* kPart = R"(kernel built {
  input x: f32[5, 82, 82]
  output out: f32[5, 80, 79]
  for i0 in 5 {
    for i1 in 80 {
      for i2 in 79 {
        block slice(v0: spatial 5 = i0, v1: spatial 80 = i1, v2: spatial 79 = i2) {
          out[v0, v1, v2] = x[v0, v1, v2 + 1]
        }
      }
    }
  }
}
)";
constexpr const char* kRowsOfWider = R"(kernel built {
  input x: f32[8, 50, 20]
  output out: f32[8, 50, 27]
  for i0 in 8 {
    for i1 in 50 {
      for i2 in 20 {
        block concat(v0: spatial 8 = i0, v1: spatial 50 = i1, v2: spatial 20 = i2) {
          out[v0, v1, v2] = x[v0, v1, v2]
        }
      }
    }
  }
}
)";
constexpr const char* kPlanes = R"(kernel built {
  input x: f32[64, 7, 7]
  input y: f32[64]
  output out: f32[64, 7, 7]
  for i0 in 64 {
    for i1 in 7 {
      for i2 in 7 {
        block mul(v0: spatial 64 = i0, v1: spatial 7 = i1, v2: spatial 7 = i2) {
          out[v0, v1, v2] = x[v0, v1, v2] * y[v0]
        }
      }
    }
  }
}
)";

// 127 lanes would be eight registers but for one element.
constexpr const char* kLong = R"(kernel built {
  input x: f32[12, 127, 5, 15]
  output out: f32[12, 127, 5, 15]
  for i0 in 12 {
    for i1 in 127 {
      for i2 in 5 {
        for i3 in 15 {
          block neg(v0: spatial 12 = i0, v1: spatial 127 = i1, v2: spatial 5 = i2, v3: spatial 15 = i3) {
            out[v0, v1, v2, v3] = 0.0 - x[v0, v1, v2, v3]
          }
        }
      }
    }
  }
}
)";

// Rows of zeros between rows of the input.
constexpr const char* kZeroRows = R"(kernel built {
  input x: f32[10, 203]
  output out: f32[10, 2, 203]
  for i0 in 10 {
    for i1 in 2 {
      for i2 in 203 {
        block pad(v0: spatial 10 = i0, v1: spatial 2 = i1, v2: spatial 203 = i2) {
          out[v0, v1, v2] = (x[v0, v2] where v1 < 1 else 0.0)
        }
      }
    }
  }
}
)";

}  // namespace

TEST_CASE("a condition of whole rows leaves no program of single elements") {
  const target::Target target = named_target("x86-64-v4");
  auto kernel = ir::parse(kZeroRows);
  REQUIRE(kernel.has_value());
  for (const schedule::Trace& trace : space::generate_space(*kernel, target)) {
    const std::string text = schedule::print_trace(trace);
    INFO(text);
    CHECK(text.find("vectorize") != std::string::npos);
  }
}

TEST_CASE("short last axes fill vectors together, where lanes stay in a few windows of memory") {
  const target::Target target = named_target("x86-64-v4");
  CHECK(vector_widths(kWoven, target) == std::set<int64_t>{82});
  CHECK(vector_widths(kPart, target) == std::set<int64_t>{79});
  CHECK(vector_widths(kPlanes, target) == std::set<int64_t>{49});
  CHECK(vector_widths(kLong, target) == std::set<int64_t>{16});
  CHECK(vector_widths(kRowsOfWider, target) == std::set<int64_t>{80});
}

TEST_CASE("rows of an operand that vectors read across are transposed in registers") {
  const target::Target target = named_target("x86-64-v4");
  const task::Task t = task::make_gemm({.m = 1, .n = 100, .k = 48, .trans_b = true});
  int vectors = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    const std::string text = schedule::print_trace(trace);
    if (text.find("unroll_max") == std::string::npos || text.find("vectorize") == std::string::npos) continue;
    INFO(text);
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    Rng rng(7);
    for (int i = 0; i < 8; ++i) {
      std::vector<int64_t> decisions = sketch->trace.decisions;
      if (i > 0) space::draw_decisions(*sketch, decisions, rng);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, target, arena);
      if (!nest) continue;
      ir::Legal<ir::Kernel> lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
      REQUIRE(lowered.has_value());
      INFO(ir::print(*lowered));
      CHECK(ir::print(*lowered).find("@transpose_accesses") != std::string::npos);
      ++vectors;
    }
  }
  CHECK(vectors > 0);
}

TEST_CASE("contractions get a local accumulator, vector loops and one parallel loop") {
  target::Target target = named_target("x86-64-v4");
  task::Task t = task::make_conv({.channels = 16,
                                  .filters = 64,
                                  .size = {14, 14},
                                  .kernel = {3, 3},
                                  .pads = {1, 1},
                                  .bias = true,
                                  .relu = true,
                                  .residual = true});
  std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
  CHECK(traces.size() >= 4);
  int64_t ahead = 0, within = 0;
  for (const schedule::Trace& trace : traces) {
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
    REQUIRE(k.has_value());
    INFO(ir::print(*k));
    // The padded copy of the input has a nest of its own, or is made part by part in the iterations of the other one.
    // Every value is read hundreds of times: it is not computed for each of them.
    ir::Id pad = schedule::find_block_by_name(*k, "pad");
    REQUIRE(pad != ir::kNoId);
    ir::Id conv_outermost = schedule::loops_of(*k, schedule::find_block_by_name(*k, "conv"))[0];
    bool apart = schedule::loops_of(*k, pad)[0] != conv_outermost;
    ++(apart ? ahead : within);
    CHECK(count_loops(*k, ir::LoopKind::kParallel) == (apart ? 2 : 1));
    CHECK(count_loops(*k, ir::LoopKind::kVectorized) == 3);
    int64_t local = 0, temporaries = 0;
    for (const ir::Buffer* b : k->buffers) {
      if (b->role != ir::BufferRole::kTemp) continue;
      ++temporaries;
      local += b->scope == ir::Scope::kLocal ? 1 : 0;
    }
    CHECK(local == 1);
    CHECK(temporaries == 2);
  }
  CHECK(ahead > 0);
  CHECK(within > 0);
}

TEST_CASE("padding that is read a few times may be inlined, that of a window always is") {
  for (int64_t group : {1, 6}) {
    task::Task t = task::make_conv({.channels = 6,
                                    .filters = 6,
                                    .group = group,
                                    .size = {12, 16},
                                    .kernel = {3, 3},
                                    .pads = {1, 1},
                                    .relu = true});
    INFO(t.workload);
    int64_t inlined = 0, copied = 0;
    for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("x86-64-v4"))) {
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> k = schedule::replay(trace, trace.decisions, t.kernel, arena);
      REQUIRE(k.has_value());
      ++(schedule::find_block_by_name(*k, "pad") == ir::kNoId ? inlined : copied);
    }
    CHECK(inlined > 0);
    CHECK((copied > 0) == (group == 1));
  }
}

TEST_CASE("a kernel that no module understands still has a space") {
  ir::KernelBuilder kb;
  const ir::Buffer* x = kb.add_buffer("x", ir::Type::kF32, std::array<int64_t, 1>{8}, ir::BufferRole::kInput);
  const ir::Buffer* y = kb.add_buffer("y", ir::Type::kF32, std::array<int64_t, 1>{8}, ir::BufferRole::kOutput);
  ir::Id loop = kb.new_id("i"), iter = kb.new_id("vi"), block = kb.new_id("scan");
  std::array<ir::Expr, 1> at = {kb.b().var(iter)};
  std::array<ir::Iter, 1> iters = {ir::Iter{iter, ir::IterKind::kCarried, kb.b().integer(8), kb.b().var(loop)}};
  ir::Kernel k = kb.finish(
      kb.b().loop(loop, kb.b().integer(8), kb.b().block(block, iters, kb.b().store(y->id, at, kb.b().load(*x, at)))));
  std::vector<schedule::Trace> traces = space::generate_space(k, named_target("x86-64-v4"));
  REQUIRE(traces.size() == 1);
  CHECK(traces[0].instructions.empty());
}

TEST_CASE("every contraction is tiled, with an epilogue or without") {
  for (const task::Task& t : small_tasks()) {
    if (t.anchor != task::AnchorKind::kGemm && t.anchor != task::AnchorKind::kConv &&
        t.anchor != task::AnchorKind::kDepthwiseConv)
      continue;
    INFO(t.workload);
    schedule::Trace trace = space::generate_space(t.kernel, named_target("x86-64-v4"))[0];
    auto tiles = [](const schedule::Instruction& in) { return in.op == schedule::Op::kCacheWrite; };
    CHECK(std::count_if(trace.instructions.begin(), trace.instructions.end(), tiles) == 1);
  }
}

TEST_CASE("register tiles that are vectorized over channels have the channels last when lowered") {
  task::Task t =
      task::make_conv({.channels = 16, .filters = 64, .size = {7, 7}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true});
  int64_t tiles = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, named_target("x86-64-v4"))) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, named_target("x86-64-v4"));
    REQUIRE(sketch.has_value());
    std::vector<int64_t> decisions = trace.decisions;
    Rng rng(5);
    for (int draw = 0; draw < 40; ++draw) {
      space::draw_decisions(*sketch, decisions, rng);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, decisions, named_target("x86-64-v4"), arena);
      if (!nest) continue;
      ir::Legal<ir::Kernel> k = lower::lower(*nest, named_target("x86-64-v4"), ir::Stage::kLowered, arena);
      if (!k) continue;
      std::set<ir::Id> vectors;
      ir::visit(k->root, [&](ir::Stmt s) {
        if (const ir::Loop* l = ir::as<ir::Loop>(s); l != nullptr && l->loop_kind == ir::LoopKind::kVectorized)
          vectors.insert(l->id);
        const ir::Store* st = ir::as<ir::Store>(s);
        if (st == nullptr || k->buffer(st->buffer)->scope != ir::Scope::kLocal) return true;
        for (ir::Expr i : st->indices) {
          const ir::Var* v = ir::as<ir::Var>(i);
          if (v == nullptr || vectors.count(v->id) == 0) continue;
          CHECK(i == st->indices.back());
          ++tiles;
        }
        return true;
      });
    }
  }
  CHECK(tiles > 20);
}

TEST_CASE("no sketch disagrees with replay, and those without symbols say why") {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "a100"}) {
    const target::Target target = *target::find_target(name);
    for (const task::Task& t : small_tasks()) {
      INFO(t.workload << " on " << name);
      for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
        auto sketch = space::make_sketch(trace, t.kernel, target);
        REQUIRE(sketch.has_value());
        INFO(sketch->concrete);
        CHECK_FALSE(sketch->disagrees);
        CHECK(sketch->symbolic == sketch->concrete.empty());
      }
    }
  }
}

namespace {

// Splits the block's first loop by nothing, which the primitive refuses.
space::Ways refused(const schedule::Schedule& state, const target::Target&, const space::SpaceOptions&) {
  space::Ways ways;
  const std::string block = ir::name_hint(state.kernel(), ir::collect_blocks(state.kernel().root)[0]->id);
  ways.attempt(state, [&](schedule::Schedule& s) {
    s.split(s.get_loops(s.get_block(block))[0], std::vector<schedule::ExprRv>{schedule::lit(0), schedule::ExprRv{}});
    return s.ok();
  });
  ways.attempt(state, [](schedule::Schedule&) { return false; });
  return ways.or_else(state);
}

}  // namespace

TEST_CASE("a report of a design space counts what modules reject") {
  static constexpr space::Module kModules[] = {{"refused", refused}};
  const task::Task t = task::make_elementwise({4, 8});
  const space::SpaceReport report = space::explore_space(t.kernel, *target::find_target("x86-64-v3"), {kModules});
  REQUIRE(report.traces.size() == 1);
  CHECK(report.traces[0].instructions.empty());
  REQUIRE(report.modules.size() == 1);
  CHECK(report.modules[0].module == "refused");
  CHECK(report.modules[0].rejects.total() == 2);
  CHECK(report.modules[0].rejects.by_reason.at("bad factor").count == 1);
  CHECK_FALSE(report.modules[0].rejects.by_reason.at("bad factor").example.empty());
  CHECK(report.modules[0].rejects.by_reason.at("a condition of the module").count == 1);
  CHECK(report.dropped.empty());
}

TEST_CASE("design spaces without a legal draw are left out, and the report says which and why") {
  target::Target target = *target::find_target("a100");
  target.cuda.max_threads_per_block = 1;
  space::ModuleList modules = space::kCudaModules;
  modules.draws = 6;
  const task::Task t = task::make_gemm({.m = 64, .n = 64, .k = 64});
  const space::SpaceReport report = space::explore_space(t.kernel, target, modules);
  CHECK_FALSE(report.traces.empty());
  REQUIRE_FALSE(report.dropped.empty());
  for (const space::SpaceReport::Dropped& dropped : report.dropped) {
    CHECK_THAT(dropped.modules, Catch::Contains("gpu_"));
    CHECK(dropped.draws == 6);
    CHECK(dropped.rejects.total() == 6);
    CHECK(dropped.rejects.by_reason.contains("too many threads"));
  }
}

TEST_CASE("the wide space has the default design spaces first, then those of MetaSchedule's rules alone") {
  const task::Task task = task::make_gemm({.m = 48, .n = 64, .k = 30, .constant_weights = true});
  for (const char* name : {"x86-64-v3", "a100"}) {
    INFO(name);
    const target::Target target = *target::find_target(name);
    const auto plain = space::generate_space(task.kernel, target);
    space::SpaceOptions options;
    options.metaschedule = true;
    const auto wide = space::generate_space(task.kernel, target, options);
    REQUIRE(wide.size() >= plain.size());
    if (target.is_cpu()) CHECK(wide.size() > plain.size());
    CHECK(std::equal(plain.begin(), plain.end(), wide.begin()));
    const auto& names = space::modules_for(target).metaschedule;
    space::SpaceOptions rules;
    rules.modules.assign(names.begin(), names.end());
    std::set<uint64_t> skeletons;
    for (const schedule::Trace& trace : wide) CHECK(skeletons.insert(schedule::skeleton_hash(trace)).second);
    for (const schedule::Trace& trace : space::generate_space(task.kernel, target, rules))
      CHECK(skeletons.contains(schedule::skeleton_hash(trace)));
    const std::vector<std::string> known = space::module_names(target);
    for (std::string_view module : names) CHECK(std::find(known.begin(), known.end(), module) != known.end());
    CHECK(space::space_name({}) == "default");
    CHECK(space::space_name(options) == "wide");
    CHECK(space::space_name(rules).starts_with("inline_constants,"));
  }
}
