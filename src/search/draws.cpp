// The strategies without a model.
//
// random: independent draws, each from any of the sketches.
//
// replay (the `replay-trace` of MetaSchedule, with what the store knows before it): first the best programs of related
// tasks and of other numbers of threads, brought to this task, best first; then the design spaces' traces in turn, each
// with fresh decisions. The turn goes on where the last round's ended.
#include "search/candidates.h"

namespace tcc::search {
namespace {

constexpr uint64_t kBatches = 4;  // of draws, before a round is content with fewer programs than it wants

class RandomDraws : public SearchStrategy {
 public:
  bool learns() const override { return false; }
  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    Candidates candidates(round, counts);
    const int64_t n = round.plan.count;
    for (uint64_t batch = 0; batch < kBatches && std::ssize(candidates.kept()) < n; ++batch) {
      std::vector<Individual> drawn = candidates.generation(2 * n, batch, [&](Individual& out, int64_t, Rng& rng) {
        candidates.fresh_draw(out, candidates.any_sketch(rng), rng);
      });
      for (const Individual& i : drawn)
        if (std::ssize(candidates.kept()) < n) candidates.keep_if_new(i);
    }
    return std::move(candidates.kept());
  }
};

class Replay : public SearchStrategy {
 public:
  bool learns() const override { return false; }
  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    Candidates candidates(round, counts);
    const int64_t n = round.plan.count;
    auto keep = [&](const std::vector<Individual>& all) {
      for (const Individual& i : all)
        if (std::ssize(candidates.kept()) < n) candidates.keep_if_new(i);
    };
    std::vector<const Seed*> seeds;
    for (const std::vector<Seed>* list : {&round.state.seeds, &round.plan.seeds})
      for (const Seed& s : *list) seeds.push_back(&s);
    std::vector<Individual> stored =
        candidates.proposals(std::ssize(seeds), 0x73656564, [&](Individual& out, int64_t at, Rng&) {
          out.sketch = seeds[static_cast<size_t>(at)]->sketch;
          out.decisions = seeds[static_cast<size_t>(at)]->decisions;
        });
    std::erase_if(stored, [](const Individual& i) { return i.sketch < 0; });
    keep(stored);
    const auto sketches = static_cast<int64_t>(round.state.sketches.size());
    for (uint64_t batch = 0; batch < kBatches && std::ssize(candidates.kept()) < n; ++batch)
      keep(candidates.generation(n, batch, [&](Individual& out, int64_t at, Rng& rng) {
        candidates.fresh_draw(out, (round.state.trials + at) % sketches, rng);
      }));
    return std::move(candidates.kept());
  }
};

}  // namespace

std::unique_ptr<SearchStrategy> make_random() {
  return std::make_unique<RandomDraws>();
}
std::unique_ptr<SearchStrategy> make_replay() {
  return std::make_unique<Replay>();
}

}  // namespace tcc::search
