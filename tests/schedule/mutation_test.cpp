// MetaSchedule's mutators: which decision belongs to which, and how often each is drawn.
#include "tcc/schedule/mutation.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "sample_tasks.h"
#include "tcc/schedule/schedule.h"
#include "tcc/task/task.h"

using namespace tcc;
using namespace tcc::schedule;

namespace {

const std::array<int64_t, 4> kCandidates = {0, 16, 64, 512};
const std::array<double, 4> kEven = {0.25, 0.25, 0.25, 0.25};

// Two tiles, an unroll step, a parallel limit, threads of a block, a vector width, a factor of a plain split, threads
// of a block through a fused loop.
struct Scheduled {
  task::Task task = task::make_gemm({.m = 48, .n = 64, .k = 30});
  Rng rng{5};
  Schedule schedule{task.kernel, std::make_shared<Arena>(), &rng};
  Scheduled() {
    BlockRv block = schedule.get_block(task.anchor_block);
    std::vector<LoopRv> loops = schedule.get_loops(block);
    schedule.split(loops[0], schedule.sample_perfect_tile(loops[0], 3, 8));
    std::vector<LoopRv> reduce = schedule.split(loops[2], schedule.sample_perfect_tile(loops[2], 2, 16));
    schedule.annotate(block, ir::AnnotationKey::kUnrollMax, schedule.sample_categorical(kCandidates, kEven));
    schedule.annotate(block, ir::AnnotationKey::kPersistentBlocks, schedule.sample_categorical(kCandidates, kEven));
    const std::array<int64_t, 3> threads = {8, 16, 32};
    const std::array<double, 3> thirds = {1, 1, 1};
    ExprRv extent = schedule.sample_categorical(threads, thirds);
    std::vector<LoopRv> parts = schedule.split(loops[1], std::vector<ExprRv>{ExprRv{}, extent});
    schedule.bind(parts[1], ir::Axis::kThreadX);
    schedule.annotate(reduce[0], ir::AnnotationKey::kCooperativeFetch, schedule.sample_categorical(kCandidates, kEven));
    const std::array<int64_t, 3> few = {1, 2, 4};
    schedule.split(reduce[1], std::vector<ExprRv>{ExprRv{}, schedule.sample_categorical(few, thirds)});
    const std::vector<LoopRv> more =
        schedule.split(parts[0], std::vector<ExprRv>{ExprRv{}, schedule.sample_categorical(few, thirds)});
    schedule.bind(schedule.fuse(std::vector<LoopRv>{more[0], more[1]}), ir::Axis::kThreadY);
    REQUIRE(schedule.ok());
  }
};

}  // namespace

TEST_CASE("a decision belongs to the mutator of what takes its value", "[fidelity]") {
  Scheduled s;
  std::vector<Mutator> found;
  for (const Instruction& in : s.schedule.trace().instructions)
    if (is_sampling(in.op)) found.push_back(mutator_of(s.schedule.trace(), in).value());
  CHECK(found == std::vector<Mutator>{Mutator::kTile, Mutator::kTile, Mutator::kUnroll, Mutator::kParallel,
                                      Mutator::kThreadBinding, Mutator::kTile, Mutator::kTile,
                                      Mutator::kThreadBinding});
  CHECK_FALSE(mutator_of(s.schedule.trace(), s.schedule.trace().instructions[0]).has_value());
}

TEST_CASE("mutators are drawn by their weights among those that apply", "[fidelity]") {
  Scheduled s;
  const Trace& trace = s.schedule.trace();
  for (bool gpu : {false, true}) {
    const MutatorWeights weights = mutator_weights(gpu);
    std::array<int64_t, kMutators> drawn = {};
    std::vector<int64_t> decisions = trace.decisions;
    constexpr int64_t kDraws = 20000;
    int64_t total = 0;
    Rng rng(11);
    for (int64_t i = 0; i < kDraws; ++i) {
      const std::vector<int64_t> before = decisions;
      if (!mutate(trace, decisions, weights, rng)) continue;
      int changed = 0;
      for (const Instruction& in : trace.instructions) {
        if (in.decision < 0) continue;
        auto at = static_cast<std::ptrdiff_t>(in.decision);
        if (std::equal(before.begin() + at, before.begin() + at + in.decision_length, decisions.begin() + at)) continue;
        ++changed;
        ++drawn[static_cast<size_t>(*mutator_of(trace, in))];
      }
      CHECK(changed == 1);
      ++total;
    }
    // Compute locations change the structure: their share goes to the others.
    const double left =
        std::accumulate(weights.begin(), weights.end(), 0.0) - weights[static_cast<size_t>(Mutator::kComputeLocation)];
    for (size_t m = 0; m < kMutators; ++m) {
      if (m == static_cast<size_t>(Mutator::kComputeLocation)) continue;
      const double expected = weights[m] / left, share = static_cast<double>(drawn[m]) / static_cast<double>(total);
      INFO("mutator " << m << (gpu ? " of a GPU" : " of a CPU"));
      // A tile at its limit may not be mutable: eight attempts, then the draw is void.
      CHECK(std::abs(share - expected) < 5 * std::sqrt(expected * (1 - expected) / static_cast<double>(total)) + 0.005);
    }
  }
}
