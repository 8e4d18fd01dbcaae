// What MetaSchedule states of its modules: structure strings of the tilings, how many ways each rule goes on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "sample_tasks.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

target::Target find(const char* name) {
  auto t = target::find_target(name);
  REQUIRE(t.has_value());
  return *t;
}

// The letters of the loops around a block: S where the loop moves a spatial iterator, R where it moves a reduced one.
std::string structure(const ir::Kernel& kernel, const std::string& block) {
  std::string out;
  for (const ir::Block* b : ir::collect_blocks(kernel.root)) {
    if (ir::name_hint(kernel, b->id) != block) continue;
    for (ir::Stmt s : ir::find_path(kernel.root, b->id).nodes) {
      const auto* loop = ir::as<ir::Loop>(s);
      if (loop == nullptr) continue;
      char letter = '-';
      for (const ir::Iter& iter : b->iters) {
        bool uses = false;
        ir::visit(iter.binding, [&](ir::Expr e) {
          const auto* v = ir::as<ir::Var>(e);
          uses |= v != nullptr && v->id == loop->id;
          return true;
        });
        if (uses) letter = iter.kind == ir::IterKind::kSpatial ? 'S' : 'R';
      }
      out += letter;
    }
    return out;
  }
  return out;
}

std::multiset<int> tile_widths(const schedule::Trace& trace) {
  std::multiset<int> out;
  for (const schedule::Instruction& in : trace.instructions)
    if (in.op == schedule::Op::kSamplePerfectTile) out.insert(in.outputs);
  return out;
}

std::vector<schedule::Trace> traces_of(const task::Task& task, const target::Target& target,
                                       std::vector<std::string> modules) {
  space::SpaceOptions options;
  options.modules = std::move(modules);
  return space::generate_space(task.kernel, target, options);
}

ir::Kernel replayed(const schedule::Trace& trace, const task::Task& task) {
  auto kernel = schedule::replay(trace, trace.decisions, task.kernel, std::make_shared<Arena>());
  REQUIRE(kernel.has_value());
  return *kernel;
}

}  // namespace

TEST_CASE("multi-level tiling on a CPU has the structure SSRSRS", "[fidelity]") {
  const task::Task task = task::make_gemm({.m = 64, .n = 96, .k = 48});
  const std::vector<schedule::Trace> traces = traces_of(task, find("x86-64-v3"), {"multi_level_tiling"});
  REQUIRE_FALSE(traces.empty());
  for (const schedule::Trace& trace : traces) {
    REQUIRE_FALSE(trace.instructions.empty());
    // Four parts of each spatial loop, two of the reduced one.
    CHECK(tile_widths(trace) == std::multiset<int>{2, 4, 4});
    // S0 S1 R0 S2 R1 S3, two loops each of the spatial ones; those of S0 are fused, so that they run in parallel.
    const std::string order = structure(replayed(trace, task), task.anchor_block);
    INFO(order);
    CHECK(order == "SSSRSSRSS");
  }
}

TEST_CASE("each reduced axis has two parts, one before and one behind the third spatial tile", "[fidelity]") {
  const task::Task task = task::make_conv({.channels = 8, .filters = 16, .size = {12, 12}, .kernel = {3, 3}});
  const std::vector<schedule::Trace> traces = traces_of(task, find("x86-64-v3"), {"multi_level_tiling"});
  REQUIRE_FALSE(traces.empty());
  for (const schedule::Trace& trace : traces) {
    CHECK(tile_widths(trace) == std::multiset<int>{2, 2, 2, 4, 4, 4});
    const std::string order = structure(replayed(trace, task), task.anchor_block);
    INFO(order);
    CHECK(std::regex_match(order, std::regex("S{1,4}SSSRRRSSSRRRSSS")));
  }
}

// MetaSchedule's reuse_write "may", levels 1 and 2: the reader of the accumulators is below S0 or below S1.
TEST_CASE("the write cache is complete after the first or after the second spatial tile", "[fidelity]") {
  const task::Task task = task::make_gemm({.m = 64, .n = 96, .k = 48});
  const std::vector<schedule::Trace> traces = traces_of(task, find("x86-64-v3"), {"multi_level_tiling"});
  std::set<size_t> variants;
  for (const schedule::Trace& trace : traces) {
    const ir::Kernel k = replayed(trace, task);
    const ir::Id anchor = schedule::find_block_by_name(k, task.anchor_block);
    const std::vector<ir::Id> readers = schedule::consumers_of(k, anchor);
    REQUIRE(readers.size() == 1);
    const std::vector<ir::Id> around = schedule::loops_of(k, anchor), own = schedule::loops_of(k, readers[0]);
    variants.insert(std::mismatch(around.begin(), around.end(), own.begin(), own.end()).first - around.begin());
    // What is left of a tile there: a loop for its tiles of the kind S3 and one within those, along each axis.
    CHECK(own.size() >= 5);
  }
  // Below the parallel loop alone, or below both loops of S1 too.
  CHECK(variants == std::set<size_t>{1, 3});
}

TEST_CASE("multi-level tiling on a GPU has the structure SSSRRSRS", "[fidelity]") {
  const task::Task task = task::make_gemm({.m = 256, .n = 192, .k = 64});
  const std::vector<schedule::Trace> traces = traces_of(task, find("h100"), {"gpu_tiling"});
  REQUIRE(traces.size() == 2);  // caches are a must; a product has a second form
  // The second form has two tiles of columns for threads: lanes of a warp, and warps beside each other.
  CHECK(tile_widths(traces[0]) == std::multiset<int>{3, 5, 5});
  CHECK(tile_widths(traces[1]) == std::multiset<int>{3, 5, 6});
  for (const schedule::Trace& trace : traces) {
    const std::string order = structure(replayed(trace, task), task.anchor_block);
    INFO(order);
    CHECK(std::regex_match(order, std::regex("S{2,7}RRS{1,2}RS{1,2}")));
  }
}

TEST_CASE("the second form of a product on a GPU has one term of the sum in a row of shared memory", "[fidelity]") {
  // Extents grow to multiples of powers of two where that costs little.
  const auto shapes = [](const task::Task& task) {
    const std::vector<schedule::Trace> traces = traces_of(task, find("h100"), {"gpu_tiling", "gpu_inline"});
    std::set<std::vector<int64_t>> out;
    REQUIRE(traces.size() == 2);
    const ir::Kernel k = replayed(traces[1], task);
    for (const ir::Buffer* b : k.buffers) {
      if (b->scope != ir::Scope::kShared) continue;
      std::vector<int64_t> shape;
      for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
      out.insert(shape);
    }
    return out;
  };
  CHECK(shapes(task::make_gemm({.m = 256, .n = 192, .k = 64})) == std::set<std::vector<int64_t>>{{64, 256}, {64, 192}});
  CHECK(shapes(task::make_gemm({.m = 255, .n = 97, .k = 64})) == std::set<std::vector<int64_t>>{{64, 256}, {64, 100}});
}

TEST_CASE("rules that do not branch have one way to go on, those that do not apply leave the state alone",
          "[fidelity]") {
  const target::Target cpu = find("x86-64-v3"), gpu = find("h100");
  const task::Task gemm = task::make_gemm({.m = 32, .n = 32, .k = 32, .bias = true, .relu = true});
  const task::Task map = task::make_elementwise({1, 8, 14, 14});
  for (const target::Target& target : {cpu, gpu})
    for (const task::Task& task : {gemm, map}) {
      Rng rng(1);
      const schedule::Schedule start(task.kernel, std::make_shared<Arena>(), &rng);
      for (const auto& module : space::modules_for(target).modules) {
        INFO(module.name << " on " << task.workload << ", " << target.name);
        const std::vector<schedule::Schedule> out = module.apply(start, target, {}).states;
        REQUIRE_FALSE(out.empty());
        std::set<uint64_t> skeletons;
        for (const schedule::Schedule& s : out) {
          CHECK(s.ok());
          skeletons.insert(schedule::skeleton_hash(s.trace()));
        }
        CHECK(skeletons.size() == out.size());  // no variant twice
        const std::string name = module.name;
        if (name == "auto_inline" || name == "gpu_inline") CHECK(out.size() == 1);
        if (name == "parallel_vectorize_unroll") CHECK(out.size() <= 3);  // last axis, all axes, parallel only
        const bool tiles_sums = name.find("tiling") != std::string::npos;
        if (tiles_sums && name != "row_tiling" && &task != &gemm && task.anchor == task::AnchorKind::kElementwise) {
          CHECK(out.size() == 1);
          CHECK(out[0].trace().instructions.empty());
        }
      }
    }
}

TEST_CASE("modules may be left out, and none leaves the plain loops", "[fidelity]") {
  const task::Task task = task::make_gemm({.m = 32, .n = 48, .k = 32, .bias = true, .relu = true});
  const target::Target target = find("x86-64-v3");
  const std::vector<schedule::Trace> none = traces_of(task, target, {"none"});
  REQUIRE(none.size() == 1);
  CHECK(none[0].instructions.empty());
  std::set<uint64_t> all;
  for (const schedule::Trace& t : space::generate_space(task.kernel, target)) all.insert(schedule::skeleton_hash(t));
  for (const schedule::Trace& t : traces_of(task, target, {"auto_inline", "matmul_tiling"}))
    for (const schedule::Instruction& in : t.instructions) CHECK(in.op != schedule::Op::kRfactor);
  CHECK(traces_of(task, target, {"auto_inline"}).size() == 1);
  CHECK(all.size() > 1);
}
