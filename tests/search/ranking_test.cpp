// Searching where nothing runs: programs are ranked by the backend's prior, compiled and stored as predictions.
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>

#include "sample_tasks.h"
#include "search/fixtures.h"
#include "search/strategy.h"
#include "search/task_state.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/lower/lower.h"
#include "tcc/search/model_measurer.h"

using namespace tcc;
using search::test::memory_store;

namespace {

task::Task dense() {
  return task::make_gemm({.m = 64, .n = 96, .k = 128});
}
target::Target ampere() {
  return target::find_target("a100").value();
}

// As `tcc tune` ranks, with fewer programs.
search::TuneOptions ranking_options(uint64_t seed = 3) {
  search::TuneOptions o = search::ranking_options({.seed = seed}, ampere(), 10);
  o.population = 64;
  o.generations = 4;
  return o;
}

// Compiles nothing: `spill_bytes` of every third program, and every tenth does not compile.
search::ModelMeasurer pretender(ThreadPool* pool = nullptr) {
  return {[](const ir::Kernel& lowered) -> Result<codegen::Artifact> {
            const uint64_t n = ir::hash_kernel(lowered);
            if (n % 10 == 0) return input_error("does not compile");
            codegen::Artifact artifact;
            artifact.code = std::to_string(n);
            artifact.facts = {{"registers", 100}, {"spill_bytes", n % 3 == 0 ? 400 : 0}};
            return artifact;
          },
          "sm_80", pool};
}

std::vector<record::Record> predict(const task::Task& task, const search::TuneOptions& options, ThreadPool* pool,
                                    search::Counts* counts = nullptr) {
  auto store = memory_store();
  search::ModelMeasurer model = pretender(pool);
  search::Environment env{.store = store.get(), .measurer = &model, .pool = pool, .now = [] { return int64_t{1}; }};
  auto result = search::tune({&task, 1}, ampere(), options, env);
  if (!result) FAIL(result.error().message);
  if (counts != nullptr) *counts = result->tasks[0].counts;
  return store->all().value();
}

}  // namespace

TEST_CASE("the record of a predicted program replays to that program where tiles reach over several images") {
  const target::Target turing = target::find_target("t4").value();
  const task::Task task = task::make_conv({.batch = 32,
                                           .channels = 64,
                                           .filters = 64,
                                           .size = {56, 56},
                                           .kernel = {3, 3},
                                           .pads = {1, 1},
                                           .dtype = graph::DType::kF16});
  auto store = memory_store();
  search::ModelMeasurer model = pretender();
  search::Environment env{.store = store.get(), .measurer = &model, .now = [] { return int64_t{1}; }};
  const search::TuneOptions options = search::ranking_options({.seed = 3}, turing, 40);
  auto result = search::tune({&task, 1}, turing, options, env);
  if (!result) FAIL(result.error().message);
  const auto records = store->all().value();
  CHECK(records.size() >= 40);
  for (const record::Record& r : records) {
    const schedule::Trace trace = schedule::trace_from_json(r.trace).value();
    const auto program = search::program_of_trace(trace, task, turing);
    if (!program) FAIL(program.error().message);
    INFO(fmt::format("{}", fmt::join(trace.decisions, " ")));
    CHECK(program->nest_hash == r.nest_hash);
  }
}

TEST_CASE("programs are ranked the same way for the same seed, and no design space takes all places") {
  const task::Task task = dense();
  search::Counts counts;
  const auto first = predict(task, ranking_options(), nullptr, &counts);
  ThreadPool pool(3);
  const auto again = predict(task, ranking_options(), &pool);
  REQUIRE(first.size() >= 10);
  REQUIRE(first.size() == again.size());
  CHECK(counts.measured == 0);
  CHECK(counts.compiled + counts.compile_failed == 10);
  CHECK(counts.proposed - counts.duplicate - counts.rejected >= 240);
  std::map<uint64_t, int> of_space;
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].nest_hash == again[i].nest_hash);
    CHECK(first[i].median == again[i].median);
    CHECK(first[i].kind == record::Kind::kPredicted);
    CHECK(first[i].isa == "sm_80");
    if (first[i].status == record::Status::kOk) CHECK(first[i].median > 0);
    ++of_space[space::structural_key(*schedule::trace_from_json(first[i].trace), first[i].decisions)];
  }
  CHECK(of_space.size() > 1);
  // Half of the picks, spare ones included.
  for (const auto& [key, count] : of_space) CHECK(count <= 7);
}

TEST_CASE("predictions are compiled in the order of their predicted times, and spilling makes them longer") {
  const task::Task task = dense();
  const target::Target target = ampere();
  const auto prior = backend::backend_of(target).prior(target);
  double previous = 0;
  size_t spilling = 0, in_order = 0, all = 0;
  for (const record::Record& r : predict(task, ranking_options(5), nullptr)) {
    auto program = search::program_of_trace(*schedule::trace_from_json(r.trace), task, target);
    if (!program) FAIL(program.error().message);
    CHECK(program->nest_hash == r.nest_hash);
    if (r.status != record::Status::kOk) continue;
    auto arena = std::make_shared<Arena>();
    auto scheduled = schedule::replay(*schedule::trace_from_json(r.trace), r.decisions, task.kernel, arena);
    REQUIRE(scheduled);
    auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
    REQUIRE(nest);
    const double expected = prior->expected_seconds(features::extract(prior->schema(), *nest, target));
    CHECK((r.median == Approx(expected) || r.median == Approx(2 * expected)));
    spilling += r.median > 1.5 * expected ? 1 : 0;
    in_order += expected >= previous * (1 - 1e-6) ? 1 : 0;
    previous = expected;
    ++all;
  }
  CHECK(all >= 5);
  CHECK(spilling < all);
  // Those of the design space that has had its half of the places come last.
  CHECK(in_order + 1 >= all);
}

TEST_CASE("what the compiler says of registers changes the prediction of a program, and with it the best one") {
  // The grid has more blocks than are resident at a time, so registers decide how many are.
  const task::Task task = task::make_gemm({.m = 4096, .n = 4096, .k = 128});
  const target::Target target = ampere();
  // Every other program takes all registers that its threads may have.
  auto registers_of = [](uint64_t n) { return n % 2 == 0 ? 255 : 24; };
  auto store = memory_store();
  int64_t asked = 0;
  search::ModelMeasurer model(
      [&](const ir::Kernel& lowered) -> Result<codegen::Artifact> {
        codegen::Artifact artifact;
        artifact.code = std::to_string(ir::hash_kernel(lowered));
        artifact.launches.resize(1);
        artifact.launches[0].registers = registers_of(ir::hash_kernel(lowered));
        return artifact;
      },
      "sm_80", nullptr,
      [&](const ir::Kernel& nest, const codegen::Artifact& artifact) {
        ++asked;
        CHECK(nest.stage == ir::Stage::kNest);
        return backend::backend_of(target).compiled_seconds(nest, target, artifact);
      });
  search::Environment env{.store = store.get(), .measurer = &model, .now = [] { return int64_t{1}; }};
  auto result = search::tune({&task, 1}, target, ranking_options(), env);
  if (!result) FAIL(result.error().message);
  const auto prior = backend::backend_of(target).prior(target);
  int64_t changed = 0, known = 0;
  const std::vector<record::Record> records = store->all().value();
  for (const record::Record& r : records) {
    auto arena = std::make_shared<Arena>();
    auto scheduled = schedule::replay(*schedule::trace_from_json(r.trace), r.decisions, task.kernel, arena);
    REQUIRE(scheduled);
    auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
    REQUIRE(nest);
    auto lowered = lower::lower(*scheduled, target, ir::Stage::kLowered, arena);
    REQUIRE(lowered);
    const size_t launches = cost::gpu_facts(*nest, target).launches.size();
    const double expected = prior->expected_seconds(features::extract(prior->schema(), *nest, target));
    const double registers = registers_of(ir::hash_kernel(*lowered));
    const cost::CompiledLaunch compiled[] = {{registers, 0}};
    const double wanted =
        cost::predict_gpu_seconds(cost::gpu_facts(*nest, target, compiled), target.cuda.launch_seconds);
    CHECK(r.median == Approx(wanted));
    if (launches == 1) ++known, changed += std::abs(wanted / expected - 1) > 0.01 ? 1 : 0;
  }
  CHECK(asked >= 10);
  CHECK(known > 0);
  CHECK(changed > 0);
}

TEST_CASE("a ranking that is told to stop does") {
  const task::Task task = dense();
  std::atomic<int> asked = 0;
  auto store = memory_store();
  search::ModelMeasurer model = pretender();
  search::Environment env{.store = store.get(), .measurer = &model, .stop = [&] { return ++asked > 20; }};
  search::TuneOptions options = ranking_options();
  options.population = 100000;
  auto result = search::tune({&task, 1}, ampere(), options, env);
  if (!result) FAIL(result.error().message);
  CHECK(result->stopped);
  CHECK(result->tasks[0].counts.proposed < 60);
  CHECK(store->all()->empty());
}

TEST_CASE("a run that predicts and one that measures are different sessions, and neither learns from the other") {
  const task::Task task = dense();
  auto store = memory_store();
  search::ModelMeasurer model = pretender();
  search::Environment env{.store = store.get(), .measurer = &model};
  REQUIRE(search::tune({&task, 1}, ampere(), ranking_options(), env).has_value());
  const auto schema = &backend::backend_of(ampere()).prior(ampere())->schema();
  auto measured = search::load_task(task, ampere(), {}, *schema, *store, -1);
  REQUIRE(measured);
  CHECK(measured->known.empty());
  CHECK_FALSE(measured->seeds.empty());  // the predicted best are where measuring begins
  auto predicted = search::load_task(task, ampere(), {}, *schema, *store, -1, record::Kind::kPredicted);
  REQUIRE(predicted);
  CHECK(predicted->known.size() >= 10);
  auto best = store->best(search::task_hash(task), target::feature_hash(ampere()));
  REQUIRE(best);
  CHECK_FALSE(best->has_value());
}

TEST_CASE("spilled registers, products that are waited for and ignored budgets of registers cost time") {
  codegen::Artifact artifact;
  CHECK(search::compiler_factor(artifact) == 1);
  artifact.facts = {{"registers", 100}, {"spill_bytes", 0}, {"serialized_products", 0}, {"injected_waits", 0}};
  CHECK(search::compiler_factor(artifact) == 1);
  artifact.facts["spill_bytes"] = 400;
  CHECK(search::compiler_factor(artifact) == 2);
  artifact.facts["injected_waits"] = 3;
  CHECK(search::compiler_factor(artifact) == 4);
  artifact.facts = {{"registers", 100}, {"serialized_products", 1}};
  CHECK(search::compiler_factor(artifact) == 2);
  artifact.facts = {{"registers", 100}, {"ignored_register_budgets", 1}};
  CHECK(search::compiler_factor(artifact) > 1.1);
}
