// Variation, picking and priors: the parts of a search, each by itself.
#include "search/vary.h"

#include <catch2/catch.hpp>
#include <set>

#include "sample_tasks.h"
#include "search/fixtures.h"
#include "search/learn.h"
#include "search/pick.h"
#include "search/prior.h"
#include "search/task_state.h"
#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"
#include "tcc/schedule/schedule.h"
#include "tcc/space/space.h"

using namespace tcc;
using namespace tcc::search::test;

namespace {

std::vector<space::Sketch> sketches_of(const task::Task& task) {
  std::vector<space::Sketch> out;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, avx2())) {
    auto sketch = space::make_sketch(trace, task.kernel, avx2());
    REQUIRE(sketch.has_value());
    out.push_back(std::move(*sketch));
  }
  return out;
}

// Replays as it is: replay would repair tiles that do not divide.
bool exact(const space::Sketch& sketch, const std::vector<int64_t>& decisions) {
  auto arena = std::make_shared<Arena>();
  std::vector<int64_t> used;
  auto kernel = schedule::replay(sketch.trace, decisions, sketch.start, arena, &used);
  return kernel.has_value() && used == decisions;
}

search::Individual candidate(int32_t sketch, float score, uint64_t nest) {
  search::Individual i;
  i.sketch = sketch;
  i.score = score;
  i.nest_hash = nest;
  i.sample.row = row_of_values(0);
  i.sample.row.values[0] = static_cast<float>(nest % 97);
  i.sample.row.values[1] = static_cast<float>(nest % 89);
  return i;
}

}  // namespace

TEST_CASE("neighbors of a program differ in one decision, and each is legal") {
  const task::Task task = task::make_gemm({.m = 24, .n = 36, .k = 32});
  size_t all = 0;
  const target::Target target = target::find_target("a100").value();
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    const space::Sketch sketch = space::make_sketch(trace, task.kernel, target).value();
    std::vector<int64_t> decisions = sketch.trace.decisions;
    Rng rng(7);
    space::draw_decisions(sketch, decisions, rng);
    std::set<std::vector<int64_t>> seen;
    for (const std::vector<int64_t>& other : search::neighbours(sketch, decisions)) {
      CHECK(seen.insert(other).second);
      size_t changed = 0;
      for (const schedule::Instruction& in : sketch.trace.instructions) {
        if (in.decision < 0) continue;
        const auto begin = static_cast<std::ptrdiff_t>(in.decision), end = begin + in.decision_length;
        changed += std::equal(decisions.begin() + begin, decisions.begin() + end, other.begin() + begin) ? 0 : 1;
        if (in.op != schedule::Op::kSamplePerfectTile) continue;
        int64_t before = 1, after = 1;
        for (std::ptrdiff_t i = begin; i < end; ++i)
          before *= decisions[static_cast<size_t>(i)], after *= other[static_cast<size_t>(i)];
        CHECK(before == after);
      }
      CHECK(changed == 1);
    }
    all += seen.size();
  }
  CHECK(all > 20);
}

TEST_CASE("crossing and repeated mutation stay within a sketch's decisions") {
  task::Task task =
      task::make_conv({.channels = 12, .filters = 20, .size = {14, 18}, .kernel = {3, 3}, .pads = {1, 1}});
  Rng rng(5);
  size_t far = 0;
  for (const space::Sketch& sketch : sketches_of(task)) {
    std::vector<int64_t> a = sketch.trace.decisions, b = a;
    for (int i = 0; i < 40; ++i) {
      space::draw_decisions(sketch, a, rng);
      space::draw_decisions(sketch, b, rng);
      CHECK(exact(sketch, search::cross(sketch, a, b, rng)));
      std::vector<int64_t> mutant = a;
      if (!search::mutate_some(sketch, mutant, schedule::mutator_weights(false), rng)) continue;
      CHECK(exact(sketch, mutant));
      size_t differ = 0;
      for (const schedule::Instruction& in : sketch.trace.instructions) {
        if (in.decision < 0) continue;
        auto at = static_cast<std::ptrdiff_t>(in.decision);
        differ += !std::equal(a.begin() + at, a.begin() + at + in.decision_length, mutant.begin() + at) ? 1 : 0;
      }
      far += differ > 1 ? 1 : 0;
    }
  }
  CHECK(far > 0);  // some change several decisions at once
}

TEST_CASE("decisions move to every other sketch, and to a related task's, as legal ones") {
  task::Task small = task::make_gemm({.m = 48, .n = 64, .k = 60, .constant_weights = true});
  task::Task large = task::make_gemm({.m = 96, .n = 320, .k = 75, .constant_weights = true});
  std::vector<space::Sketch> from = sketches_of(small), to = sketches_of(large);
  to.insert(to.end(), from.begin(), from.end());
  Rng rng(7);
  int same_shape = 0;
  for (const space::Sketch& x : from) {
    std::vector<int64_t> decisions = x.trace.decisions;
    for (const space::Sketch& y : to) {
      space::draw_decisions(x, decisions, rng);
      std::vector<int64_t> moved = search::transfer_decisions(x.trace, decisions, y, y.trace.decisions);
      CHECK(exact(y, moved));
      same_shape += search::shape_hash(x.trace) == search::shape_hash(y.trace) ? 1 : 0;
      if (x.key == y.key) CHECK(moved == decisions);
    }
  }
  CHECK(same_shape > static_cast<int>(from.size()));
}

TEST_CASE("a compute location is moved by moving to another sketch") {
  task::Task task = task::make_softmax({8, 12}, 1);
  auto arena = std::make_shared<Arena>();
  Rng rng(1);
  schedule::Schedule s(task.kernel, arena, &rng);
  std::vector<const ir::Block*> blocks = ir::collect_blocks(task.kernel.root);
  schedule::BlockRv last = s.get_block(ir::name_hint(task.kernel, blocks.back()->id));
  schedule::BlockRv first = s.get_block(ir::name_hint(task.kernel, blocks[blocks.size() - 2]->id));
  schedule::LoopRv place = s.sample_compute_location(first);
  s.compute_at(first, place);
  static_cast<void>(last);
  REQUIRE(s.ok());
  std::vector<schedule::Trace> variants = space::structural_variants(s.trace(), task.kernel, avx2());
  CHECK(variants.size() >= 2);
  CHECK(variants.size() <= 16);
  CHECK(variants[0] == s.trace());
  std::set<uint64_t> keys, nests;
  for (const schedule::Trace& v : variants) {
    CHECK(schedule::skeleton_hash(v) == schedule::skeleton_hash(s.trace()));
    auto sketch = space::make_sketch(v, task.kernel, avx2());
    REQUIRE(sketch.has_value());
    CHECK(sketch->key == space::structural_key(v, v.decisions));
    auto nest = space::instantiate(*sketch, v.decisions, avx2(), std::make_shared<Arena>());
    REQUIRE(nest.has_value());
    keys.insert(sketch->key);
    nests.insert(ir::hash_kernel(*nest));
  }
  CHECK(keys.size() == variants.size());
  CHECK(nests.size() == variants.size());
}

TEST_CASE("picks: a turn for each sketch at first, later for those that have been measured little") {
  search::TaskState state;
  state.sketches.resize(5);
  std::vector<search::Individual> all;
  for (int32_t s = 0; s < 5; ++s)
    for (uint64_t i = 0; i < 20; ++i)
      all.push_back(
          candidate(s, static_cast<float>(-s) - 0.01f * static_cast<float>(i), 100 * static_cast<uint64_t>(s) + i));
  auto sketches = [](const std::vector<search::Individual>& picks) {
    std::map<int32_t, int> count;
    for (const search::Individual& p : picks) ++count[p.sketch];
    return count;
  };
  std::vector<search::Individual> first =
      search::pick_programs(state, all, {.count = 10, .first_round = true, .exploit = false});
  REQUIRE(first.size() == 10);
  CHECK(sketches(first).size() == 5);
  CHECK(first[0].nest_hash == 0);
  std::set<uint64_t> nests;
  for (const search::Individual& p : first) CHECK(nests.insert(p.nest_hash).second);

  // Many more sketches than trials: the most promising three fifths get a turn.
  std::vector<search::Individual> few =
      search::pick_programs(state, all, {.count = 5, .first_round = true, .exploit = false});
  CHECK(sketches(few).size() == 3);

  // Sketch 4 promises least, and has been measured least.
  for (int32_t s = 0; s < 4; ++s)
    for (int i = 0; i < 400; ++i) state.known.push_back({.sketch = s});
  for (search::Individual& i : all)
    if (i.sketch > 0) i.score = -0.4f - 0.01f * static_cast<float>(i.nest_hash % 100);
  CHECK(sketches(search::pick_programs(state, all, {.count = 8, .first_round = false, .exploit = false}))[4] >= 1);
  std::map<int32_t, int> last =
      sketches(search::pick_programs(state, all, {.count = 8, .first_round = false, .exploit = true}));
  CHECK(last[0] == 8);
}

TEST_CASE("picks avoid programs that resemble each other") {
  search::TaskState state;
  state.sketches.resize(1);
  std::vector<search::Individual> all;
  for (uint64_t i = 0; i < 10; ++i) {
    search::Individual twin = candidate(0, 1.f, i);
    twin.sample.row = row_of_values(1);
    all.push_back(twin);
  }
  search::Individual other = candidate(0, 0.95f, 77);
  other.sample.row = row_of_values(2);
  all.push_back(other);
  std::vector<search::Individual> picks =
      search::pick_programs(state, all, {.count = 2, .first_round = false, .exploit = false});
  REQUIRE(picks.size() == 2);
  CHECK(picks[0].nest_hash == 0);
  CHECK(picks[1].nest_hash == 77);

  // The twins of a measured program wait for what teaches more, and are still there when nothing else is.
  search::Known measured{.record = 1, .sketch = 0};
  measured.sample.row = row_of_values(1);
  state.known.push_back(measured);
  picks = search::pick_programs(state, all, {.count = 2, .first_round = false, .exploit = false});
  REQUIRE(picks.size() == 2);
  CHECK(picks[0].nest_hash == 77);
  CHECK(picks[1].nest_hash < 10);
}

TEST_CASE("after a round that brought next to nothing half of the picks are fresh draws that promise most") {
  search::TaskState state;
  state.sketches.resize(1);
  search::Known measured{.record = 1, .sketch = 0, .sample = {row_of_values(1)}, .seconds = 1};
  state.known.push_back(measured);
  std::vector<search::Individual> descendants, drawn;
  for (uint64_t i = 0; i < 40; ++i) descendants.push_back(candidate(0, 1.f, i));
  for (uint64_t i = 0; i < 40; ++i) drawn.push_back(candidate(0, i < 4 ? 0.f : -9.f, 100 + i));
  std::unique_ptr<cost::CostModel> model = cost::make_rule_model();
  const search::RoundPlan plan{.count = 8, .progress = 0.5, .seeds = {}};  // no share is drawn blindly any more
  const search::TuneOptions options;
  const search::Settings settings;
  const Rng rng(3);
  auto picked = [&](std::vector<double> history, bool exploit) {
    state.history = std::move(history);
    std::vector<search::Individual> all = descendants;
    all.insert(all.end(), drawn.begin(), drawn.end());
    int best = 0, others = 0;
    for (const search::Individual& i :
         search::pick_round({state, *model, plan, avx2(), options, settings, rng, nullptr}, all, drawn, {}, exploit))
      (i.nest_hash < 100 ? others : i.nest_hash < 104 ? best : others) += 1;
    return std::pair(best, others);
  };
  const auto explored = static_cast<int>(std::ceil(8 * options.explore));
  CHECK(picked({1.0, 0.99}, false).first == 4);
  CHECK(picked({1.0, 0.5}, false).first <= explored);
  CHECK(picked({1.0}, false).first <= explored);
  CHECK(picked({1.0, 0.99}, true).first == 0);
  CHECK(picked({1.0, 0.99}, false).second == 4);
}
