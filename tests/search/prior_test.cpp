// What ships about families of operators: the file, and what a search makes of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "cost/pair_accuracy.h"
#include "fake_measurer.h"
#include "sample_tasks.h"
#include "search/fixtures.h"
#include "search/learn.h"
#include "search/prior.h"
#include "tcc/cost/gpu_model.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

task::Task gemm_task() {
  return task::make_gemm({.m = 96, .n = 160, .k = 80, .constant_weights = true});
}

// Programs of the task, drawn at random, where those are fastest that have most vectors in a register tile.
search::PriorTask drawn_rows(const task::Task& task, size_t count, uint64_t hash) {
  auto store = memory_store();
  auto state = search::load_task(task, avx2(), {}, features::kHotStatement, *store, -1);
  REQUIRE(state.has_value());
  search::PriorTask out;
  out.anchor = task.anchor;
  out.hash = hash;
  Rng rng(hash);
  while (out.rows.size() < count) {
    const space::Sketch& sketch = state->sketches[static_cast<size_t>(rng.below(std::ssize(state->sketches)))];
    std::vector<int64_t> decisions = sketch.trace.decisions;
    space::draw_decisions(sketch, decisions, rng);
    auto nest = space::instantiate(sketch, decisions, avx2(), std::make_shared<Arena>());
    if (!nest) continue;
    const features::Row row = features::extract(features::kHotStatement, *nest, avx2());
    out.rows.add(row);
    const float tile = row[static_cast<size_t>(features::Feature::hot_register_tile)];
    out.throughputs.push_back(std::exp2(tile - 6));
  }
  for (float& t : out.throughputs) t = std::min(t, 1.f);
  return out;
}

search::ShippedPrior small_prior() {
  const task::Task other = task::make_gemm({.m = 64, .n = 128, .k = 200, .constant_weights = true});
  std::vector<search::PriorTask> tasks = {drawn_rows(other, 60, 7), drawn_rows(other, 40, 8)};
  auto text = search::print_prior(tasks);
  REQUIRE(text.has_value());
  auto prior = search::parse_prior(*text);
  REQUIRE(prior.has_value());
  return *prior;
}

search::Environment environment(record::Store& store, measure::Measurer& measurer, const search::ShippedPrior* prior) {
  search::Environment env;
  env.store = &store;
  env.measurer = &measurer;
  env.now = [] { return int64_t{1700000000}; };
  env.tool_version = "test";
  env.prior = prior;
  return env;
}

search::TuneOptions small_options() {
  search::TuneOptions o;
  o.trials = 40;
  o.round_size = 10;
  o.population = 48;
  o.generations = 2;
  return o;
}

std::string log_of(const record::Store& store) {
  auto records = store.all();
  REQUIRE(records.has_value());
  std::string log;
  for (const record::Record& r : *records) log += fmt::format("{} {:.9g}\n", record::hash_text(r.nest_hash), r.median);
  return log;
}

}  // namespace

TEST_CASE("a prior comes back from its bytes") {
  search::PriorTask task;
  task.anchor = task::AnchorKind::kSoftmax;
  task.hash = 0x123456789abcdef0;
  features::Row row = row_of_values(0);
  for (size_t f = 0; f < row.values.size(); ++f) row.values[f] = static_cast<float>(f) * 0.75f;
  const std::vector<float> first = row.values;
  task.rows.add(row);
  row.values[3] = 1000;  // more than the format holds
  task.rows.add(row);
  task.throughputs = {1, 0.25f};
  auto bytes = search::print_prior(std::span(&task, 1));
  REQUIRE(bytes.has_value());
  auto prior = search::parse_prior(*bytes);
  REQUIRE(prior.has_value());
  REQUIRE(prior->tasks.size() == 1);
  const search::PriorTask& back = prior->tasks[0];
  CHECK(back.anchor == task.anchor);
  CHECK(back.hash == task.hash);
  CHECK(back.rows.schema() == &features::kHotStatement);
  CHECK(std::equal(first.begin(), first.end(), back.rows[0].begin(), back.rows[0].end()));
  CHECK(back.rows[1][3] == Approx(128).margin(0.01));
  CHECK(back.throughputs[0] == 1);
  CHECK(back.throughputs[1] == Approx(0.25).margin(1e-4));
  CHECK(prior->hash != 0);
  task.throughputs[1] = 0.5f;
  CHECK(search::parse_prior(*search::print_prior(std::span(&task, 1)))->hash != prior->hash);
}

TEST_CASE("a damaged prior is an error that says what to do", "[errors]") {
  auto whole = search::print_prior(std::vector<search::PriorTask>{drawn_rows(gemm_task(), 3, 1)});
  REQUIRE(whole.has_value());
  REQUIRE(search::parse_prior(*whole).has_value());
  for (size_t n = 0; n < whole->size(); ++n) CHECK_FALSE(search::parse_prior(whole->substr(0, n)).has_value());
  CHECK_FALSE(search::parse_prior(*whole + "x").has_value());
  for (size_t at = 0; at < whole->size(); ++at) {
    std::string bad = *whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    INFO("byte " << at);
    CHECK_FALSE(search::parse_prior(bad).has_value());
  }
  std::string newer = *whole;
  newer[12] = static_cast<char>(newer[12] + 1);  // version of the schema
  auto refused = search::parse_prior(newer);
  REQUIRE_FALSE(refused.has_value());
  const int version = features::kHotStatement.version;
  CHECK_THAT(
      refused.error().message,
      Catch::Contains(fmt::format("have schema 'cpu-hot-statement' version {}, expected 'cpu-hot-statement' version {}",
                                  version + 1, version)));
  CHECK_THAT(refused.error().hint, Catch::Contains("tools/bench prior"));
}

TEST_CASE("counts of a prior that promise more than there is are refused", "[errors]") {
  // Head and checksum are right, the body is not: what somebody writes who means harm.
  auto whole = search::print_prior(std::vector<search::PriorTask>{drawn_rows(gemm_task(), 2, 1)});
  REQUIRE(whole.has_value());
  const size_t kSum = 25 + features::kHotStatement.name.size(), kBody = kSum + 8;
  auto with_sum = [&](std::string bytes) {
    const uint64_t sum = hash_bytes(std::string_view(bytes).substr(kBody));
    for (size_t i = 0; i < 8; ++i) bytes[kSum + i] = static_cast<char>(sum >> (8 * i) & 0xff);
    return bytes;
  };
  REQUIRE(search::parse_prior(with_sum(*whole)).has_value());
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = *whole;
    bad.resize(static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size()) - kBody)) + kBody);
    for (int k = 0; k < 3 && bad.size() > kBody; ++k)
      bad[kBody + static_cast<size_t>(rng.below(static_cast<int64_t>(std::min<size_t>(bad.size() - kBody, 24))))] =
          static_cast<char>(rng.below(256));
    auto parsed = search::parse_prior(with_sum(bad));
    if (!parsed) continue;
    for (const search::PriorTask& t : parsed->tasks) CHECK(t.rows.size() == t.throughputs.size());
  }
}

TEST_CASE("the prior that ships is of this version and knows the families") {
  const search::ShippedPrior& prior = search::shipped_prior();
  std::set<task::AnchorKind> families;
  for (const search::PriorTask& t : prior.tasks) {
    families.insert(t.anchor);
    REQUIRE(t.rows.size() >= 2);
    CHECK(*std::max_element(t.throughputs.begin(), t.throughputs.end()) == 1);
  }
  using task::AnchorKind;
  for (AnchorKind kind : {AnchorKind::kGemm, AnchorKind::kConv, AnchorKind::kDepthwiseConv, AnchorKind::kPool,
                          AnchorKind::kReduction, AnchorKind::kSoftmax, AnchorKind::kElementwise}) {
    INFO(task::anchor_name(kind));
    CHECK(families.contains(kind));
  }
}

TEST_CASE("a model that was trained on the prior ranks a task's programs before its first trial") {
  const search::ShippedPrior shipped = small_prior();
  const task::Task task = gemm_task();
  auto store = memory_store();
  auto state = search::load_task(task, avx2(), {}, features::kHotStatement, *store, -1);
  REQUIRE(state.has_value());
  std::vector<search::TaskState> states;
  states.push_back(std::move(*state));
  auto loaded =
      search::load_prior(std::span(&task, 1), avx2(), {}, features::kHotStatement, {.key = "test"}, &shipped, *store);
  REQUIRE(loaded.has_value());
  CHECK(loaded->tasks.empty());
  CHECK(loaded->unknown == std::set{task.anchor});
  std::unique_ptr<cost::CostModel> model = *cost::make_model({.name = "trees"}, cost::make_rule_model());
  search::learn(*model, states, *loaded, 0);
  REQUIRE(model->trained());
  const search::PriorTask held_out = drawn_rows(task, 60, 99);
  std::vector<float> scores(held_out.rows.size());
  model->predict(held_out.rows, scores);
  const std::vector<uint64_t> tasks(scores.size(), 1);
  CHECK(test::pair_accuracy(scores, held_out.throughputs, tasks) > 0.8);
}

TEST_CASE("records of a family replace the shipped ones") {
  const search::ShippedPrior shipped = small_prior();
  const std::vector<task::Task> first = {task::make_gemm({.m = 64, .n = 64, .k = 64, .constant_weights = true})};
  auto store = memory_store();
  measure::FakeMeasurer machine(5, 0);
  REQUIRE(search::tune(first, avx2(), small_options(), environment(*store, machine, &shipped)).has_value());
  const task::Task task = gemm_task();
  auto loaded = search::load_prior(std::span(&task, 1), avx2(), small_options(), features::kHotStatement,
                                   {.key = "test"}, &shipped, *store);
  REQUIRE(loaded.has_value());
  CHECK(loaded->tasks.size() == 1);
  CHECK(loaded->unknown.empty());
  // GPUs learn nothing from it: their rows have another schema.
  auto gpu = target::find_target("h100");
  REQUIRE(gpu.has_value());
  auto empty = memory_store();
  CHECK(search::load_prior(std::span(&task, 1), *gpu, {}, cost::kLongestLaunch, {.key = "test"}, &shipped, *empty)
            ->unknown.empty());
  // Nor where other modules make the space: it was learnt in the default ones.
  search::TuneOptions composed = small_options();
  composed.space.modules = {"auto_inline", "multi_level_tiling", "parallel_vectorize_unroll"};
  auto without = search::load_prior(std::span(&task, 1), avx2(), composed, features::kHotStatement, {.key = "test"},
                                    &shipped, *empty);
  REQUIRE(without.has_value());
  CHECK_FALSE(search::knows_family(*without, task.anchor));
}

TEST_CASE("rows that the store has of another schema are ignored, and the user is told", "[errors]") {
  const std::vector<task::Task> work = {gemm_task()};
  auto store = memory_store();
  measure::FakeMeasurer machine(5, 0);
  REQUIRE(search::tune(work, avx2(), small_options(), environment(*store, machine, nullptr)).has_value());
  auto load = [&](const features::Schema& schema) {
    auto prior = search::load_prior(work, avx2(), small_options(), schema, {.key = "test"}, nullptr, *store);
    REQUIRE(prior.has_value());
    return *prior;
  };
  CHECK(load(features::kHotStatement).notes.empty());
  CHECK(load(features::kHotStatement).tasks.size() == 1);
  features::Schema newer = features::kHotStatement;
  ++newer.version;
  const search::Prior ignored = load(newer);
  CHECK(ignored.tasks.empty());
  REQUIRE(ignored.notes.size() == 1);
  CHECK_THAT(ignored.notes[0], Catch::Contains(fmt::format(
                                   "schema 'cpu-hot-statement' version {}, expected 'cpu-hot-statement' version {}",
                                   features::kHotStatement.version, newer.version)));
}

TEST_CASE("a search with a prior is deterministic, goes on exactly, and is another one than without") {
  const search::ShippedPrior shipped = small_prior();
  const std::vector<task::Task> work = {gemm_task()};
  auto whole = [&](const search::ShippedPrior* prior) {
    auto store = memory_store();
    measure::FakeMeasurer machine(5, 0.1);
    REQUIRE(search::tune(work, avx2(), small_options(), environment(*store, machine, prior)).has_value());
    return log_of(*store);
  };
  const std::string log = whole(&shipped);
  CHECK(log == whole(&shipped));
  CHECK(log != whole(nullptr));

  auto store = memory_store();
  measure::FakeMeasurer machine(5, 0.1);
  auto cut = [&](const search::ShippedPrior* prior) {
    search::Environment env = environment(*store, machine, prior);
    const int64_t before = machine.measured();
    env.stop = [&machine, before] { return machine.measured() >= before + 14; };
    auto stopped = search::tune(work, avx2(), small_options(), env);
    REQUIRE(stopped.has_value());
    CHECK(stopped->stopped);
    return stopped->resumed;
  };
  CHECK_FALSE(cut(&shipped));
  auto rest = search::tune(work, avx2(), small_options(), environment(*store, machine, &shipped));
  REQUIRE(rest.has_value());
  CHECK(rest->resumed);
  CHECK(log_of(*store) == log);

  store = memory_store();
  CHECK_FALSE(cut(&shipped));
  CHECK_FALSE(cut(nullptr));  // another prior is another search
}
