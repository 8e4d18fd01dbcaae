// Pruner (Qiao et al., ASPLOS 2025, Algorithms 1 and 2): a round drafts by formulas, and the cost model verifies.
//
//   S_spec    the explorer's best drafts; the fastest measured programs are parents of a part of its first generation
//   S_draft   S_spec and random draws, and what was good elsewhere
//   verify    the cost model scores S_draft once (paper), or breeds further generations from it (released code: one,
//             which begins with the fastest measured programs, too)
//
// Before the cost model has learned anything, the draft model's order holds.
//
// Programs are chosen as those of the evolutionary strategy (pick_round). moa-pruner differs in the model alone.
#include <algorithm>
#include <map>

#include "search/evolve.h"
#include "tcc/backend/backend.h"

namespace tcc::search {
namespace {

class Pruner : public SearchStrategy {
 public:
  bool learns() const override { return true; }

  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    const Drafting& o = round.options.drafting;
    const int64_t generations =
        o.verify_generations >= 0 ? o.verify_generations : backend::backend_of(round.target).verify_generations;
    std::vector<Drafted> drafts;
    if (o.explore) drafts = draft(round, counts);
    FirstGeneration first = {.elites = generations > 0, .drafts = drafts, .draws = kRandomDraws};
    if (!o.explore) first.draws += o.drafts;
    return evolve(round, first, {generations, round.options.population}, counts);
  }

 private:
  static constexpr int64_t kRandomDraws = 64;
  // The released code draws 1,536 programs and mutates them twice. More would leave drafts that are all alike: the
  // draft model's favorites.
  static constexpr int64_t kPopulation = 1536, kGenerations = 3;
  // Of the drafts, at most, that are of one sketch, and alike (ExplorerOptions).
  static constexpr double kSketchShare = 0.5, kFamilyShare = 1.0 / 16;

  std::vector<Drafted> draft(const Round& round, Counts& counts) const {
    const TaskState& state = round.state;
    std::vector<Drafted> known;
    for (const Known* k : fastest_known(state.known, state.known.size()))
      known.push_back({k->sketch, k->decisions, k->seconds});
    const size_t parents = known.size();
    for (const Known& k : state.known)
      if (k.seconds <= 0 && k.sketch >= 0) known.push_back({k.sketch, k.decisions, 0});
    ExplorerCounts made;
    const uint64_t seed = round.rng.fork(0x6c7365).state();
    std::vector<Drafted> drafts = explorer_of(round, counts).explore(seed, made, known, parents, round.stop);
    counts.drafted += made.made, counts.draft_rejected += made.rejected + made.passed,
        counts.draft_duplicate += made.duplicate;
    counts.draft_legal += made.fresh, counts.draft_by_kernel += made.asked;
    counts.draft_kept += std::ssize(drafts);
    return drafts;
  }

  // Array programs are a function of the task's sketches: they are kept from round to round.
  DraftExplorer& explorer_of(const Round& round, Counts& counts) const {
    auto at = explorers_.find(round.state.hash);
    if (at != explorers_.end() && at->second.sketches == round.state.sketches.data()) return at->second.explorer;
    const Drafting& o = round.options.drafting;
    DraftExplorer made(round.state.sketches, round.target, round.options.threads, round.settings.mutators,
                       {.population = std::max(kPopulation, 3 * o.drafts),
                        .generations = kGenerations,
                        .drafts = o.drafts,
                        .sketch_share = kSketchShare,
                        .family_share = kFamilyShare,
                        .model = o.model});
    if (counts.without_columns.empty())
      for (const DraftExplorer::Without& w : made.without_columns()) ++counts.without_columns[w.why];
    if (at != explorers_.end()) explorers_.erase(at);
    return explorers_.try_emplace(round.state.hash, Kept{round.state.sketches.data(), std::move(made)})
        .first->second.explorer;
  }

  struct Kept {
    const space::Sketch* sketches;
    DraftExplorer explorer;
  };
  mutable std::map<uint64_t, Kept> explorers_;  // by task
};

}  // namespace

std::unique_ptr<SearchStrategy> make_pruner() {
  return std::make_unique<Pruner>();
}

}  // namespace tcc::search
