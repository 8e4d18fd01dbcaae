// Annealed Metropolis-Hastings over traces.
//
// MetaSchedule poses search as sampling from the posterior P(trace | program) proportional to exp(-f(trace)) P(trace)
// and says that proposals come from mutating a trace's decisions, that a validator turns down what is not legal, and
// that a proxy of the cost accepts at a falling temperature. It gives neither formula nor temperatures, and its
// released code has no acceptance step at all (it resamples in proportion to the score, as `evolutionary` does). What
// follows fills that in:
//
//   accept with min(1, exp((s' - s) / T_k)),   T_k = T_0 g^k,   T_0 = 0.5 of the first scores' standard deviation, g =
//   0.9,
//
// s being the model's score. Proposals are taken to be symmetric: moving a divisor between two factors is as likely
// forth as back up to the number of divisors, which the rule neglects. Chains are independent and run in step, so that
// the model scores them together. A share begins at the best measured programs, the others at draws that go round the
// sketches; a chain leaves its design space only for the same steps with a block computed elsewhere. All that chains
// visit and propose may be picked, by the rules that evolution picks by.
#include "search/metropolis.h"

#include <unordered_map>

#include "search/candidates.h"
#include "search/pick.h"
#include "search/vary.h"

namespace tcc::search {
namespace {

class Chains {
 public:
  Chains(const Round& round, Counts& counts)
      : round_(round), settings_(round.settings.chains), candidates_(round, counts) {
    for (size_t s = 0; s < round.state.sketches.size(); ++s)
      variants_[schedule::skeleton_hash(round.state.sketches[s].trace)].push_back(static_cast<int32_t>(s));
  }

  std::vector<Individual> run() {
    std::vector<Individual> chains = begin();
    if (chains.empty()) return {};
    score_by(round_.model, chains);
    candidates_.collect(chains);
    std::vector<float> scores;
    for (const Individual& i : chains) scores.push_back(i.score);
    const double first = first_temperature(scores, settings_.temperature);
    for (int64_t k = 0; k < settings_.steps; ++k) step(chains, temperature_at(first, settings_.cooling, k), k);
    return pick_round(round_, std::move(candidates_.kept()), random_part_, seeded_,
                      round_.plan.progress >= settings_.exploit_from);
  }

 private:
  std::vector<Individual> begin() {
    auto measured = static_cast<size_t>(settings_.measured_share * static_cast<double>(settings_.count));
    std::vector<Individual> chains;
    for (const Known* k : fastest_known(round_.state.known, measured))
      chains.push_back({k->sketch, k->decisions, k->nest_hash, k->sample, 0});
    std::vector<const Seed*> seeds;
    for (const std::vector<Seed>* list : {&round_.state.seeds, &round_.plan.seeds})
      for (const Seed& s : *list) seeds.push_back(&s);
    auto sketches = static_cast<int64_t>(round_.state.sketches.size());
    const int64_t left = settings_.count - static_cast<int64_t>(chains.size());
    const int64_t offset = round_.rng.fork(0x6f666673).below(sketches);
    std::vector<Individual> drawn =
        candidates_.generation(left, 0x66697273, [&](Individual& out, int64_t at, Rng& rng) {
          if (at < std::ssize(seeds) && out.sketch < 0) {  // once: what is not legal is replaced by a draw
            out.sketch = seeds[static_cast<size_t>(at)]->sketch;
            out.decisions = seeds[static_cast<size_t>(at)]->decisions;
          } else {
            candidates_.fresh_draw(out, (offset + at) % sketches, rng);
          }
        });
    for (int64_t at = 0; at < std::ssize(drawn); ++at) {
      Individual& i = drawn[static_cast<size_t>(at)];
      if (at < std::ssize(seeds)) seeded_.push_back(i.nest_hash);
      if (at >= std::ssize(seeds) && candidates_.fresh(i)) random_part_.push_back(i);
      chains.push_back(std::move(i));
    }
    return chains;
  }

  void step(std::vector<Individual>& chains, double temperature, int64_t k) {
    std::vector<Individual> proposed = candidates_.proposals(
        std::ssize(chains), 0x73746570 + static_cast<uint64_t>(k),
        [&](Individual& out, int64_t at, Rng& rng) { propose(chains[static_cast<size_t>(at)], out, rng); });
    std::vector<Individual> legal;
    for (const Individual& i : proposed)
      if (i.sketch >= 0) legal.push_back(i);
    score_by(round_.model, legal);
    candidates_.collect(legal);
    Rng rng = round_.rng.fork(0x61636365 + static_cast<uint64_t>(k));
    for (size_t c = 0, next = 0; c < chains.size(); ++c) {
      const double u = rng.uniform();
      if (proposed[c].sketch < 0) continue;
      Individual& to = legal[next++];
      if (u < acceptance(static_cast<double>(chains[c].score), static_cast<double>(to.score), temperature))
        chains[c] = std::move(to);
    }
  }

  void propose(const Individual& from, Individual& out, Rng& rng) const {
    out.sketch = from.sketch;
    out.decisions = from.decisions;
    const space::Sketch& sketch = candidates_.sketch_of(from);
    const std::vector<int32_t>& places = variants_.at(schedule::skeleton_hash(sketch.trace));
    const double move = round_.settings.mutators[static_cast<size_t>(schedule::Mutator::kComputeLocation)];
    if (places.size() > 1 && rng.uniform() < move) {
      do out.sketch = places[static_cast<size_t>(rng.below(std::ssize(places)))];
      while (out.sketch == from.sketch);
      const space::Sketch& to = candidates_.sketch_of(out);
      out.decisions = transfer_decisions(sketch.trace, from.decisions, to, to.trace.decisions);
    } else if (!schedule::mutate(sketch.trace, out.decisions, round_.settings.mutators, rng)) {
      candidates_.fresh_draw(out, candidates_.any_sketch(rng), rng);  // nothing to mutate
    }
  }

  const Round& round_;
  const Settings::Chains& settings_;
  Candidates candidates_;
  std::unordered_map<uint64_t, std::vector<int32_t>> variants_;  // sketches by skeleton
  std::vector<Individual> random_part_;
  std::vector<uint64_t> seeded_;
};

class Metropolis : public SearchStrategy {
 public:
  bool learns() const override { return true; }
  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    return Chains(round, counts).run();
  }
};

}  // namespace

std::unique_ptr<SearchStrategy> make_metropolis() {
  return std::make_unique<Metropolis>();
}

}  // namespace tcc::search
