// Searching for a GPU: what the model ranks, and where the search begins.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/task_state.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/cost_model.h"
#include "tcc/cost/gpu_facts.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/features/features.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/search/model_measurer.h"
#include "tcc/search/search.h"
#include "tcc/space/sketch.h"

using namespace tcc;

namespace {

target::Target ampere() {
  return target::find_target("a100").value();
}

task::Task product() {
  return task::make_gemm({.m = 256, .n = 512, .k = 128});
}

struct Drawn {
  space::Sketch sketch;
  std::vector<int64_t> decisions;
  ir::Kernel nest;
  ArenaPtr arena = std::make_shared<Arena>();
};
// A legal program of the task that no search draws first: the last of many draws of the last design space.
Drawn draw(const task::Task& task, const target::Target& target, uint64_t seed) {
  Drawn d;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target, {}))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target)) d.sketch = std::move(*sketch);
  Rng rng(seed);
  d.decisions = d.sketch.trace.decisions;
  for (int i = 0; i < 2000; ++i) {
    space::draw_decisions(d.sketch, d.decisions, rng);
    ir::Legal<ir::Kernel> nest = space::instantiate(d.sketch, d.decisions, target, d.arena);
    if (!nest) continue;
    d.nest = std::move(*nest);
    return d;
  }
  FAIL("no draw is legal");
  return d;
}

record::Record predicted(const task::Task& task, const Drawn& d, const char* isa) {
  schedule::Trace trace = d.sketch.trace;
  trace.decisions = d.decisions;
  record::Record r;
  r.kind = record::Kind::kPredicted;
  r.task = search::task_hash(task);
  r.workload = task.workload;
  r.target = "a100";
  r.target_features = 1;  // of another description of the same architecture
  r.skeleton = schedule::skeleton_hash(trace);
  r.decisions = d.decisions;
  r.trace = schedule::trace_to_json(trace);
  r.nest_hash = ir::hash_kernel(d.nest);
  r.isa = isa;
  r.median = 1e-6;
  return r;
}

std::unique_ptr<record::Store> memory_store() {
  auto store = record::Store::open(":memory:");
  REQUIRE(store);
  return std::move(*store);
}

// The programs that a run measures, in order.
std::vector<uint64_t> measured_programs(const task::Task& task, record::Store& store) {
  std::vector<uint64_t> nests;
  measure::FakeMeasurer machine([&](const measure::Candidate& c) {
    nests.push_back(c.nest_hash);
    return 1e-3;
  });
  search::Environment env;
  env.store = &store;
  env.measurer = &machine;
  env.now = [] { return int64_t{1}; };
  search::TuneOptions o;
  o.trials = 8;
  o.population = 64;
  o.generations = 1;
  auto result = search::tune({&task, 1}, ampere(), o, env);
  if (!result) FAIL(result.error().message);
  CHECK(result->trials == 8);
  return nests;
}

}  // namespace

TEST_CASE("a search for a GPU begins with what a model predicted for its architecture") {
  const task::Task task = product();
  const Drawn d = draw(task, ampere(), 77);
  const uint64_t nest = ir::hash_kernel(d.nest);
  auto count = [&](const char* isa) {
    auto store = memory_store();
    if (isa != nullptr) REQUIRE(store->add(predicted(task, d, isa)));
    const std::vector<uint64_t> nests = measured_programs(task, *store);
    return std::count(nests.begin(), nests.end(), nest);
  };
  CHECK(count("sm_80") == 1);
  CHECK(count("sm_90a") == 0);
  CHECK(count(nullptr) == 0);
}

TEST_CASE("rows of GPU programs have a schema of their own and rank by the analytical model") {
  const task::Task task = product();
  const target::Target target = ampere();
  const auto model = cost::make_model({.name = "trees"}, backend::backend_of(target).prior(target));
  REQUIRE(model.has_value());
  CHECK(&(*model)->schema() == &cost::kLongestLaunch);
  std::vector<float> scores;
  std::vector<double> seconds;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Drawn d = draw(task, target, seed);
    const features::Row row = features::extract((*model)->schema(), d.nest, target);
    for (float v : row.values) CHECK(std::isfinite(v));
    scores.push_back((*model)->score(row));
    seconds.push_back(cost::predict_gpu_seconds(cost::gpu_facts(d.nest, target), target.cuda.launch_seconds));
  }
  for (size_t i = 1; i < scores.size(); ++i)
    if (seconds[i] < 0.99 * seconds[0]) CHECK(scores[i] > scores[0]);
  const target::Target host = target::find_target("x86-64-v3").value();
  CHECK(&backend::backend_of(host).prior(host)->schema() == &features::kHotStatement);
}

namespace {

// What tells tiles of a product apart: results of a block, blocks of a cluster, and stages.
std::string tile_class(const ir::Kernel& nest, const target::Target& target) {
  const cost::LaunchFacts f = cost::gpu_facts(nest, target).launches.at(0);
  std::string text = fmt::format("{} blocks, cluster {}, {} stages:", f.blocks, f.cluster, f.stages);
  ir::visit(nest.root, [&](ir::Stmt s) {
    const ir::Alloc* a = ir::as<ir::Alloc>(s);
    for (size_t i = 0; a != nullptr && i < a->buffers.size(); ++i) {
      const ir::Buffer& b = *nest.buffer(a->buffers[i]);
      if (b.scope != ir::Scope::kShared) continue;
      for (ir::Expr e : b.shape) text += fmt::format(" {}", ir::int_value(e));
    }
    return true;
  });
  return text;
}

// The twelve programs of a large product that a machine without the GPU compiles.
std::vector<ir::Kernel> finalists(const target::Target& target, std::vector<double>& seconds) {
  const task::Task task = task::make_gemm({.m = 4096, .n = 4096, .k = 4096, .dtype = graph::DType::kF16});
  auto store = memory_store();
  search::ModelMeasurer model(
      [](const ir::Kernel& lowered) -> Result<codegen::Artifact> {
        codegen::Artifact artifact;
        artifact.code = std::to_string(ir::hash_kernel(lowered));
        return artifact;
      },
      target::sm_name(target), nullptr);
  search::Environment env{.store = store.get(), .measurer = &model, .now = [] { return int64_t{1}; }};
  auto result = search::tune({&task, 1}, target, search::ranking_options({}, target, 12), env);
  if (!result) FAIL(result.error().message);
  std::vector<ir::Kernel> out;
  auto arena = std::make_shared<Arena>();
  const std::vector<record::Record> records = store->all().value();
  for (const record::Record& r : records) {
    auto scheduled =
        schedule::replay(*schedule::trace_from_json(r.trace), r.decisions, task.kernel, std::make_shared<Arena>());
    REQUIRE(scheduled);
    auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, std::make_shared<Arena>());
    REQUIRE(nest);
    out.push_back(std::move(*nest));
    seconds.push_back(r.median);
  }
  return out;
}

}  // namespace

TEST_CASE("the finalists of a product have different tiles, clusters and stages") {
  for (const char* name : {"a100", "h200"}) {
    const target::Target target = target::find_target(name).value();
    std::vector<double> seconds;
    const std::vector<ir::Kernel> nests = finalists(target, seconds);
    CHECK(nests.size() == 12);
    std::set<std::string> classes;
    for (const ir::Kernel& nest : nests) classes.insert(tile_class(nest, target));
    CAPTURE(name, classes);
    CHECK(classes.size() >= 6);
    CHECK(std::is_sorted(seconds.begin(), seconds.end()));
    // The chosen one has all of its blocks on the device at a time, or walks over what does not fit.
    const auto best = static_cast<size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
    const cost::LaunchFacts f = cost::gpu_facts(nests[best], target).launches.at(0);
    CHECK(f.wave_share > 0.75);
  }
}
