// Features of a pool's programs, beside those that replay and lowering give.
#include "tcc/driver/pool_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "sample_tasks.h"
#include "tcc/features/features.h"
#include "tcc/lower/lower.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"

using namespace tcc;

namespace {

const features::Table* const kTables[] = {&features::kTraceCpu, &features::kStatements};

// Random programs of every design space, with times that their number gives.
data::Pool random_pool(int draws, const std::vector<std::string>& modules = {}) {
  data::Pool pool;
  for (task::Task& t : std::vector<task::Task>{
           task::make_gemm({.m = 48, .n = 96, .k = 60, .bias = true}),
           task::make_conv({.channels = 8, .filters = 16, .size = {15, 15}, .kernel = {3, 3}, .pads = {1, 1}}),
           task::make_softmax({6, 17}, 1)}) {
    data::Group g;
    t.params.clear();
    g.task = t;
    g.platform = {"here", 2, record::Kind::kMeasured, *target::find_target("x86-64-v3")};
    g.space = "default";
    Rng rng(5);
    space::SpaceOptions options;
    options.modules = modules;
    std::vector<schedule::Trace> traces;
    // With their compute locations: sketches of one skeleton, which a pool stores once.
    for (const schedule::Trace& trace : space::generate_space(t.kernel, g.platform.target, options))
      for (schedule::Trace& placed : space::structural_variants(trace, t.kernel, g.platform.target))
        traces.push_back(std::move(placed));
    for (const schedule::Trace& trace : traces) {
      auto sketch = space::make_sketch(trace, t.kernel, g.platform.target);
      REQUIRE(sketch.has_value());
      g.sketches.push_back(trace);
      for (int i = 0; i < draws; ++i) {
        std::vector<int64_t> decisions = trace.decisions;
        space::draw_decisions(*sketch, decisions, rng);
        g.entries.push_back({.sketch = static_cast<int32_t>(g.sketches.size()) - 1, .decisions = decisions});
        if (i == 2) g.entries.back().status = record::Status::kWrong;
        if (i != 2) g.entries.back().seconds = 1e-3 + 1e-5 * static_cast<double>(g.entries.size());
      }
    }
    pool.add(g);
  }
  return pool;
}

}  // namespace

TEST_CASE("samples of a pool are those of replay and lowering, on any number of threads") {
  const std::vector<std::string> placing = {"random_compute_location", "parallel_vectorize_unroll"};
  const bool places = GENERATE(false, true);
  const data::Pool written = random_pool(4, places ? placing : std::vector<std::string>());
  const data::Pool pool = *data::parse_pool(data::print_pool(written), "pool");
  const features::Needs needs(features::kHotStatement, kTables);
  ThreadPool threads(3);
  const driver::PoolSamples samples = driver::pool_samples(pool, needs, nullptr);
  const driver::PoolSamples parallel = driver::pool_samples(pool, needs, &threads);
  REQUIRE(samples.samples.size() > 20);
  CHECK(static_cast<int64_t>(samples.samples.size()) + samples.dropped == pool.entries());
  CHECK(samples.throughputs == parallel.throughputs);
  // Programs that one stored skeleton makes at different places.
  int64_t placed = 0;
  for (const data::Group& g : pool.groups)
    for (const schedule::Trace& t : g.sketches)
      placed += std::count_if(t.instructions.begin(), t.instructions.end(), [](const schedule::Instruction& in) {
        return in.op == schedule::Op::kSampleComputeLocation;
      });
  CHECK((placed > 0) == places);
  int failed = 0;
  for (size_t i = 0; i < samples.samples.size(); ++i) {
    const data::Group& g = pool.groups[static_cast<size_t>(samples.groups[i])];
    const data::Entry& e = g.entries[static_cast<size_t>(samples.entries[i])];
    CHECK(samples.tasks[i] == g.key());
    CHECK(samples.throughputs[i] == Approx(e.seconds > 0 ? g.best_seconds() / e.seconds : 0));
    failed += e.seconds > 0 ? 0 : 1;
    auto arena = std::make_shared<Arena>();
    const schedule::Trace& trace = g.sketches[static_cast<size_t>(e.sketch)];
    auto kernel = schedule::replay(trace, e.decisions, g.task.kernel, arena);
    REQUIRE(kernel.has_value());
    auto nest = lower::lower(*kernel, g.platform.target, ir::Stage::kNest, arena);
    REQUIRE(nest.has_value());
    const features::Program program = {g.task, trace, e.decisions, *nest, g.platform.target, 2};
    CHECK(samples.samples[i].row == features::extract(features::kHotStatement, *nest, g.platform.target, 2));
    for (size_t k = 0; k < 2; ++k) {
      CHECK(samples.samples[i].tables[k] == features::extract(*kTables[k], program));
      CHECK(samples.samples[i].tables[k] == parallel.samples[i].tables[k]);
    }
  }
  CHECK(failed > 0);
  // Lowering refuses each program that was dropped.
  std::set<std::pair<int32_t, int32_t>> taken;
  for (size_t i = 0; i < samples.samples.size(); ++i) taken.insert({samples.groups[i], samples.entries[i]});
  for (size_t g = 0; g < pool.groups.size(); ++g)
    for (size_t e = 0; e < pool.groups[g].entries.size(); ++e) {
      if (taken.contains({static_cast<int32_t>(g), static_cast<int32_t>(e)})) continue;
      const data::Group& group = pool.groups[g];
      const data::Entry& entry = group.entries[e];
      auto arena = std::make_shared<Arena>();
      auto kernel = schedule::replay(group.sketches[static_cast<size_t>(entry.sketch)], entry.decisions,
                                     group.task.kernel, arena);
      if (kernel) kernel = lower::lower(*kernel, group.platform.target, ir::Stage::kNest, arena);
      CHECK_FALSE(kernel.has_value());
    }
}

TEST_CASE("decisions that no draw makes are dropped", "[errors]") {
  data::Pool pool = random_pool(1);
  const int64_t whole = std::ssize(driver::pool_samples(pool, features::kHotStatement, nullptr).samples);
  CHECK(whole > 4);
  Rng rng(3);
  for (int64_t hostile :
       {int64_t{0}, int64_t{-1}, int64_t{1} << 62, std::numeric_limits<int64_t>::min(), int64_t{1000}}) {
    data::Pool damaged = pool;
    int64_t changed = 0;
    for (data::Group& g : damaged.groups)
      for (data::Entry& e : g.entries) {
        const schedule::Trace& trace = g.sketches[static_cast<size_t>(e.sketch)];
        for (const schedule::Instruction& in : trace.instructions) {
          if (in.op != schedule::Op::kSamplePerfectTile && in.op != schedule::Op::kSampleTile) continue;
          e.decisions[static_cast<size_t>(in.decision + rng.below(in.decision_length - 1))] = hostile;
          ++changed;
          break;
        }
      }
    const driver::PoolSamples samples = driver::pool_samples(damaged, features::kHotStatement, nullptr);
    INFO(hostile);
    CHECK(changed > 4);
    CHECK(std::ssize(samples.samples) <= damaged.entries() - changed);
  }
  // The same under every sketch, by which legal decisions are told.
  for (data::Group& g : pool.groups)
    for (schedule::Trace& t : g.sketches)
      for (int64_t& d : t.decisions) d = rng.below(3) == 0 ? -7 : 1000003;
  const driver::PoolSamples samples = driver::pool_samples(pool, features::kHotStatement, nullptr);
  CHECK(std::ssize(samples.samples) + samples.dropped == pool.entries());
}
