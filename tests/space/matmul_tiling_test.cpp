// Matrix products: register tiles that fit, edges in tiles of their own, sketches that are symbolic.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <tuple>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/task/task.h"

using namespace tcc;

namespace {

struct Tile {
  int64_t rows = 0, columns = 0;
  bool operator<(const Tile& o) const { return std::tie(rows, columns) < std::tie(o.rows, o.columns); }
};

// Extents of the accumulator of a lowered kernel, over all copies of it.
std::set<Tile> accumulators(const ir::Kernel& k) {
  std::set<Tile> out;
  for (const ir::Buffer* b : k.buffers)
    if (b->role == ir::BufferRole::kTemp && b->scope == ir::Scope::kLocal && b->shape.size() == 2)
      out.insert({ir::int_value(b->shape[0]), ir::int_value(b->shape[1])});
  return out;
}

// Extents of the vector loops that update the accumulator inside of the reduction, and of the rows around them.
std::set<Tile> inner_tiles(const ir::Kernel& k) {
  std::set<Tile> out;
  std::function<void(ir::Stmt, int64_t)> walk = [&](ir::Stmt s, int64_t rows) {
    const ir::Loop* l = ir::as<ir::Loop>(s);
    if (l != nullptr && l->loop_kind == ir::LoopKind::kVectorized) {
      const ir::Store* st = ir::as<ir::Store>(l->body);
      if (st != nullptr && k.buffer(st->buffer)->scope == ir::Scope::kLocal && !ir::as<ir::FloatConst>(st->value))
        out.insert({rows, ir::int_value(l->extent)});
      return;
    }
    int64_t here = l != nullptr && l->loop_kind == ir::LoopKind::kUnrolled ? ir::int_value(l->extent) : rows;
    ir::visit(s, [&](ir::Stmt c) {
      if (c == s) return true;
      walk(c, here);
      return false;
    });
  };
  walk(k.root, 1);
  return out;
}

}  // namespace

TEST_CASE("register tiles of products fit into the registers and keep the units busy") {
  task::Task t = task::make_gemm({.m = 512, .n = 512, .k = 512, .bias = true, .relu = true, .constant_weights = true});
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    INFO(name);
    target::Target target = named_target(name);
    int64_t lanes = target.cpu.vector_bits / 32;
    std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target);
    CHECK(traces.size() >= 3);
    CHECK(traces.size() <= 8);
    std::set<Tile> shapes;
    for (const schedule::Trace& trace : traces) {
      INFO(schedule::print_trace(trace));
      ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
      REQUIRE(sketch.has_value());
      CHECK(sketch->symbolic);
      auto arena = std::make_shared<Arena>();
      ir::Legal<ir::Kernel> k = space::instantiate(*sketch, trace.decisions, target, arena);
      REQUIRE(k.has_value());
      std::set<Tile> tiles = accumulators(*k);
      REQUIRE(tiles.size() == 1);
      int64_t rows = tiles.begin()->rows, vectors = tiles.begin()->columns / lanes;
      CHECK(tiles.begin()->columns % lanes == 0);
      CHECK(rows * vectors + vectors + 1 <= target.cpu.num_vector_registers);
      CHECK(rows * vectors >= 8);
      shapes.insert(*tiles.begin());
    }
    CHECK(shapes.size() == traces.size());
  }
}

TEST_CASE("the edges of a product run in smaller tiles without predicates") {
  target::Target target = named_target("x86-64-v3");
  task::Task t = task::make_gemm({.m = 23, .n = 45, .k = 12, .bias = true, .relu = true, .constant_weights = true});
  Params want(t.kernel);
  REQUIRE(interp::run(t.kernel, want.pointers).ok());
  int split = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, trace.decisions, target, arena);
    REQUIRE(nest.has_value());
    Tile whole = *accumulators(*nest).begin();
    ir::Legal<ir::Kernel> k = lower::lower(*nest, target, ir::Stage::kLowered, arena);
    REQUIRE(k.has_value());
    INFO(ir::print(*k));
    Params got(*k);
    interp::Report report = interp::run(*k, got.pointers);
    INFO(report.text());
    REQUIRE(report.ok());
    for (int64_t i = 0; i < want.data.back().size(); ++i)
      for (size_t p = 0; p < want.data.size(); ++p)
        if (i < want.data[p].size()) REQUIRE(got.data[p].at(i) == want.data[p].at(i));
    if (whole.rows >= 23 || whole.columns >= 45) continue;
    ++split;
    std::set<Tile> expected = {whole};
    int64_t rows = 23 % whole.rows, columns = 45 % whole.columns;
    if (rows > 0) expected.insert({rows, whole.columns});
    if (columns > 0) expected.insert({whole.rows, columns});
    if (rows > 0 && columns > 0) expected.insert({rows, columns});
    std::set<Tile> found = inner_tiles(*k);
    CHECK(std::includes(expected.begin(), expected.end(), found.begin(), found.end()));
    CHECK(found.size() == expected.size());
    ir::visit(k->root, [&](ir::Stmt s) {
      if (const ir::Store* st = ir::as<ir::Store>(s)) CHECK(st->predicate == nullptr);
      if (const ir::If* x = ir::as<ir::If>(s)) CHECK(x->else_case != nullptr);
      return true;
    });
  }
  CHECK(split >= 2);
}

TEST_CASE("short rows of a product are made by turned tiles whose sum is blocked for the first-level cache") {
  target::Target target = named_target("x86-64-v3");
  target.cpu.l1_bytes = 8 << 10;
  task::Task t = task::make_conv(
      {.channels = 128, .filters = 40, .size = {7, 7}, .kernel = {1, 1}, .bias = true, .relu = true, .residual = true});
  CHECK(check_draws(t, target) > 0);
  int64_t turned = 0;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
    INFO(schedule::print_trace(trace));
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    CHECK(sketch->symbolic);
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, trace.decisions, target, arena);
    REQUIRE(nest.has_value());
    // A block of the constant, columns x terms, and its loop, which asks for the next one.
    ir::visit(nest->root, [&](ir::Stmt s) {
      const ir::Loop* l = ir::as<ir::Loop>(s);
      bool fetches = l != nullptr && std::any_of(l->annotations.begin(), l->annotations.end(),
                                                 [](const auto& a) { return a.key == ir::AnnotationKey::kPrefetch; });
      if (!fetches) return true;
      ++turned;
      int64_t columns = 0;
      ir::visit(l->body, [&](ir::Stmt c) {
        const ir::Loop* lanes = ir::as<ir::Loop>(c);
        if (lanes != nullptr && lanes->loop_kind == ir::LoopKind::kVectorized)
          columns = std::max(columns, ir::int_value(lanes->extent));
        return true;
      });
      CHECK(4 * columns * ir::int_value(l->extent) <= target.cpu.l1_bytes / 4);
      CHECK(8 * columns * ir::int_value(l->extent) > target.cpu.l1_bytes / 4);
      return false;
    });
  }
  CHECK(turned > 0);

  // Long rows take the whole sum in a tile that is not turned; so does a long sum that no block divides.
  for (const task::Task& other :
       {task::make_conv({.channels = 128, .filters = 40, .size = {20, 20}, .kernel = {1, 1}}),
        task::make_conv({.channels = 8 * 25, .filters = 40, .size = {7, 7}, .kernel = {1, 1}})})
    for (const schedule::Trace& trace : space::generate_space(other.kernel, target))
      CHECK(schedule::print_trace(trace).find("sample_categorical") == std::string::npos);
}

TEST_CASE("an operand that is stored transposed is copied panel by panel where each thread has several") {
  const task::Task t = task::make_gemm({.m = 19, .n = 300, .k = 137, .bias = true, .relu = true, .trans_b = true});
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (int64_t threads : {1, 64}) {
      INFO(name << ", " << threads << " threads");
      target::Target target = named_target(name);
      target.cpu.threads = threads;
      CHECK(check_draws(t, target) > 0);
      int64_t ahead = 0, by_panels = 0;
      for (const schedule::Trace& trace : space::generate_space(t.kernel, target)) {
        const std::string text = schedule::print_trace(trace);
        if (text.find("cache_read") == std::string::npos) continue;
        ++(text.find("workspace") == std::string::npos ? by_panels : ahead);
      }
      CHECK(by_panels >= 3);
      CHECK((ahead > 0) == (threads > 1));
    }
}

namespace {

// Texts of the design space's traces.
std::vector<std::string> traces_of(const task::Task& t, const target::Target& target) {
  std::vector<std::string> out;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target))
    out.push_back(schedule::print_trace(trace));
  return out;
}
int64_t number_with(const std::vector<std::string>& texts, const char* part) {
  return std::count_if(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("an operand that many rows read is copied into panels, a weight, a small one or one of few rows is not") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.threads = 1;
  const task::Task many = task::make_gemm({.m = 67, .n = 150, .k = 139, .bias = true, .relu = true});
  CHECK(check_draws(many, target) > 0);
  const std::vector<std::string> copied = traces_of(many, target);
  CHECK(number_with(copied, "cache_read") == std::ssize(copied));
  for (const task::Task& other :
       {task::make_gemm({.m = 67, .n = 150, .k = 139, .constant_weights = true}),
        task::make_gemm({.m = 67, .n = 40, .k = 39}), task::make_gemm({.m = 9, .n = 150, .k = 139})})
    CHECK(number_with(traces_of(other, target), "cache_read") == 0);
}

TEST_CASE("tiles of a row of tiles follow each other where the sum is short and the cache keeps the panels") {
  target::Target target = named_target("x86-64-v4");
  target.cpu.threads = 1;
  // Panels are sampled otherwise, and in front of the parts of the sum.
  const auto samples = [](const std::string& text) {
    int64_t n = 0;
    for (size_t at = 0; (at = text.find("sample_perfect_tile", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const auto draws_panels = [&](const std::vector<std::string>& texts) {
    return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) { return samples(text) > 1; });
  };
  const task::Task very_short = task::make_gemm({.m = 101, .n = 150, .k = 5, .bias = true, .relu = true});
  const task::Task short_sum = task::make_gemm({.m = 101, .n = 150, .k = 100, .bias = true});
  for (const task::Task* t : {&very_short, &short_sum}) {
    CHECK(check_draws(*t, target) > 0);
    const std::vector<std::string> texts = traces_of(*t, target);
    CHECK_FALSE(draws_panels(texts));
    CHECK((number_with(texts, "prefetch") > 0) == (t == &very_short));
  }
  CHECK(draws_panels(traces_of(task::make_gemm({.m = 101, .n = 150, .k = 200, .constant_weights = true}), target)));
  // A cache that does not keep the panels, and more threads than there are tiles.
  target.cpu.l2_bytes = 64 << 10;
  CHECK(draws_panels(traces_of(task::make_gemm({.m = 101, .n = 150, .k = 100, .constant_weights = true}), target)));
  target = named_target("x86-64-v4");
  target.cpu.threads = 64;
  CHECK(draws_panels(traces_of(task::make_gemm({.m = 101, .n = 150, .k = 100, .constant_weights = true}), target)));
}
