// Columns of decisions are what draw_decisions and mutate make.
#include "tcc/space/decision_columns.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "run_kernel.h"
#include "sample_tasks.h"

using namespace tcc;

namespace {

space::Sketch some_sketch(const task::Task& t, const target::Target& target, bool free_tiles) {
  space::SpaceOptions options;
  options.metaschedule = true;
  for (const schedule::Trace& trace : space::generate_space(t.kernel, target, options)) {
    ir::Legal<space::Sketch> sketch = space::make_sketch(trace, t.kernel, target);
    REQUIRE(sketch.has_value());
    const bool found = std::any_of(trace.instructions.begin(), trace.instructions.end(),
                                   [](const auto& in) { return in.op == schedule::Op::kSampleTile; });
    if (found == free_tiles && trace.decisions.size() >= 8) return *sketch;
  }
  FAIL("no sketch with eight decisions");
  return {};
}

// Every tile is a tiling of its extent, every choice has a candidate.
void check_legal(const space::Sketch& sketch, std::span<const int64_t> decisions) {
  for (const schedule::Instruction& in : sketch.trace.instructions) {
    if (in.decision < 0) continue;
    const auto d = decisions.subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
    if (in.op == schedule::Op::kSamplePerfectTile) {
      int64_t product = 1, extent = 1;
      for (int64_t f : d) product *= f;
      for (size_t i = 0; i < d.size(); ++i) extent *= sketch.trace.decisions[static_cast<size_t>(in.decision) + i];
      REQUIRE(product == extent);
      REQUIRE((d.size() == 1 || d.back() <= schedule::integer(in, "max_innermost")));
    } else if (in.op == schedule::Op::kSampleCategorical) {
      REQUIRE(d[0] >= 0);
      REQUIRE(d[0] < std::ssize(schedule::attribute(in, "candidates")));
    }
  }
}

}  // namespace

TEST_CASE("drawn and mutated columns are legal decisions, and mutations change one instruction") {
  const target::Target target = named_target("x86-64-v4");
  const task::Task whole = task::make_gemm({.m = 64, .n = 96, .k = 128});
  const task::Task odd = task::make_gemm({.m = 13, .n = 70, .k = 127, .bias = true});
  for (bool free_tiles : {false, true}) {
    const space::Sketch sketch = some_sketch(free_tiles ? odd : whole, target, free_tiles);
    const space::DecisionSampler sampler(sketch, schedule::mutator_weights(false));
    CHECK(sampler.has_free_tiles() == free_tiles);
    space::DecisionColumns columns(sketch.trace.decisions.size());
    Rng rng(5);
    for (int64_t i = 0; i < 300; ++i) {
      const int64_t row = columns.add_row();
      REQUIRE(row == i);
      sampler.draw(columns, row, rng);
      const std::vector<int64_t> before = columns.decisions(row);
      check_legal(sketch, before);
      REQUIRE(sampler.mutate(columns, row, rng));
      const std::vector<int64_t> after = columns.decisions(row);
      check_legal(sketch, after);
      int64_t changed = 0;
      for (const schedule::Instruction& in : sketch.trace.instructions)
        for (int k = 0; in.decision >= 0 && k < in.decision_length; ++k)
          if (before[static_cast<size_t>(in.decision + k)] != after[static_cast<size_t>(in.decision + k)]) {
            ++changed;
            break;
          }
      // A mutation of a free tile may find the old value again.
      CHECK((changed == 1 || (free_tiles && changed == 0)));
      if (i % 10 == 0) {
        auto a = std::make_shared<Arena>();
        const ir::Legal<ir::Kernel> nest = space::instantiate(sketch, after, target, a);
        if (!nest) CHECK(nest.error().reason != ir::RejectReason::kBadDecision);
      }
    }
    CHECK(columns.rows() == 300);
  }
}

TEST_CASE("tilings are drawn as draw_decisions draws them") {
  const target::Target target = named_target("x86-64-v4");
  const space::Sketch sketch = some_sketch(task::make_gemm({.m = 64, .n = 96, .k = 128}), target, false);
  const space::DecisionSampler sampler(sketch, schedule::mutator_weights(false));
  const auto tile = std::find_if(sketch.trace.instructions.begin(), sketch.trace.instructions.end(),
                                 [](const auto& in) { return in.op == schedule::Op::kSamplePerfectTile; });
  REQUIRE(tile != sketch.trace.instructions.end());
  const auto first = static_cast<size_t>(tile->decision), n = static_cast<size_t>(tile->decision_length);
  std::map<std::vector<int64_t>, std::pair<int, int>> counts;
  space::DecisionColumns columns(sketch.trace.decisions.size());
  const int64_t row = columns.add_row();
  std::vector<int64_t> decisions = sketch.trace.decisions;
  Rng a(1), b(2);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    sampler.draw(columns, row, a);
    const std::vector<int64_t> mine = columns.decisions(row);
    ++counts[{mine.begin() + static_cast<int64_t>(first), mine.begin() + static_cast<int64_t>(first + n)}].first;
    space::draw_decisions(sketch, decisions, b);
    ++counts[{decisions.begin() + static_cast<int64_t>(first), decisions.begin() + static_cast<int64_t>(first + n)}]
          .second;
  }
  REQUIRE(counts.size() > 10);
  // Each tiling as often as the others: five standard deviations.
  const double expected = kDraws / static_cast<double>(counts.size()), most = 5 * std::sqrt(expected);
  for (const auto& [tiling, count] : counts) {
    INFO(Catch::Detail::stringify(tiling));
    CHECK(std::abs(count.first - expected) < most);
    CHECK(std::abs(count.second - expected) < most);
  }
}
