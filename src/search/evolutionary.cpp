// Evolutionary search after MetaSchedule (section 4.3), with two changes for few trials and many sketches.
//
// The first generation holds the best measured programs, programs that were good elsewhere (on another number of
// threads, for a related task) and fresh draws: as many for each sketch until something has been measured, afterwards
// half of them in proportion to what the sketches have shown. Scoring is cheap beside measuring, so a sketch is judged
// by the best of many samples. Each further generation is bred from all that has been seen in this round: mutations of
// several decisions, crossings of two programs of one sketch, moves of a program's decisions to another sketch. Parents
// are drawn by predicted speed, partly within a sketch drawn evenly first, and partly from the measured best.
//
// The score is the model's prediction, plus a share of its own uncertainty until the trials run out, plus what the
// model has been found wrong by on this sketch. What is measured is chosen by pick_programs, and a small share is drawn
// at random against an overconfident model.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "search/candidates.h"
#include "search/evolve.h"
#include "search/pick.h"
#include "search/vary.h"
#include "tcc/support/hash.h"

namespace tcc::search {
namespace {

class Breeder {
 public:
  Breeder(const Round& round, const FirstGeneration& first, const Breeding& breeding, Counts& counts)
      : round_(round),
        first_(first),
        breeding_(breeding),
        state_(round.state),
        model_(round.model),
        plan_(round.plan),
        settings_(round.settings.evolution),
        mutators_(round.settings.mutators),
        rng_(round.rng),
        counts_(counts),
        candidates_(round, counts),
        exploit_(round.plan.progress >= round.settings.evolution.exploit_from),
        elites_(fastest_known(round.state.known, static_cast<size_t>(round.settings.evolution.elites))),
        parents_(first.elites ? elites_.size() : 0) {}

  std::vector<Individual> evolve() {
    find_offsets();
    std::vector<Individual> population = first_generation();
    score(population);
    std::vector<Individual> random_part;
    for (size_t i = random_from_; i < population.size(); ++i)
      if (candidates_.fresh(population[i])) random_part.push_back(population[i]);
    candidates_.collect(population);
    for (int64_t g = 0; g < breeding_.generations; ++g) {
      std::vector<Individual> children = next_generation(population, static_cast<uint64_t>(g));
      score(children);
      candidates_.collect(children);
      std::move(children.begin(), children.end(), std::back_inserter(population));
    }
    for (int64_t p = 0; p < settings_.polishings && polish(population, static_cast<uint64_t>(p)); ++p) {
    }
    return pick_round(round_, std::move(candidates_.kept()), random_part, seeded_, exploit_);
  }

 private:
  // What the model says too little of each sketch, on average over its trials and drawn to 0 where they are few.
  void find_offsets() {
    offsets_.assign(state_.sketches.size(), 0.f);
    if (!model_.trained() || elites_.empty()) return;
    features::Batch programs;
    std::vector<float> measured;
    std::vector<int32_t> sketches;
    for (const Known& k : state_.known) {
      if (k.seconds <= 0 || k.sketch < 0 || k.sample.empty()) continue;
      programs.add(k.sample);
      measured.push_back(static_cast<float>(std::log2(elites_[0]->seconds / k.seconds)));
      sketches.push_back(k.sketch);
    }
    std::vector<float> scores(measured.size());
    model_.predict(programs, scores);
    double mean = 0;
    for (size_t i = 0; i < scores.size(); ++i) mean += static_cast<double>(measured[i] - scores[i]);
    mean /= static_cast<double>(scores.size());
    std::vector<double> sums(offsets_.size(), 0), visits(offsets_.size(), 0);
    for (size_t i = 0; i < scores.size(); ++i) {
      auto s = static_cast<size_t>(sketches[i]);
      sums[s] += static_cast<double>(measured[i] - scores[i]) - mean, ++visits[s];
    }
    for (size_t s = 0; s < sums.size(); ++s) offsets_[s] = static_cast<float>(sums[s] / (visits[s] + settings_.trust));
  }

  // How many fresh draws each sketch gets.
  std::vector<int64_t> shares(int64_t count) const {
    auto n = static_cast<int64_t>(state_.sketches.size());
    std::vector<int64_t> out(static_cast<size_t>(n), std::max<int64_t>(count / n, 1));
    if (elites_.empty()) {
      for (int64_t& share : out) share = std::max(share, first_.draws_of_sketch);
      return out;
    }
    std::vector<double> reached(out.size(), std::exp2(settings_.unseen));
    std::vector<bool> seen(out.size(), false);
    for (const Known& k : state_.known) {
      if (k.sketch < 0 || k.seconds <= 0) continue;
      auto s = static_cast<size_t>(k.sketch);
      double speed = elites_[0]->seconds / k.seconds;
      reached[s] = seen[s] ? std::max(reached[s], speed) : speed;
      seen[s] = true;
    }
    double total = 0;
    for (double& r : reached) r *= r, total += r;
    for (size_t s = 0; s < out.size(); ++s)
      out[s] = std::max<int64_t>(out[s] / 2, 1) +
               static_cast<int64_t>(std::floor(0.5 * static_cast<double>(count) * reached[s] / total));
    return out;
  }

  std::vector<Individual> first_generation() {
    std::vector<Individual> out;
    counts_.proposed += static_cast<int64_t>(parents_);  // and found to be duplicates, like any other
    for (size_t i = 0; i < parents_; ++i) {
      const Known& k = *elites_[i];
      out.push_back({k.sketch, k.decisions, k.nest_hash, k.sample, 0});
    }
    std::vector<const Seed*> seeds;
    for (const std::vector<Seed>* list : {&state_.seeds, &plan_.seeds})
      for (const Seed& s : *list) seeds.push_back(&s);
    std::vector<Individual> seeded =
        candidates_.generation(static_cast<int64_t>(seeds.size()), 0x73656564, [&](Individual& i, int64_t at, Rng&) {
          i.sketch = seeds[static_cast<size_t>(at)]->sketch;
          i.decisions = seeds[static_cast<size_t>(at)]->decisions;
        });
    for (const Individual& i : seeded) seeded_.push_back(i.nest_hash);
    std::move(seeded.begin(), seeded.end(), std::back_inserter(out));
    std::vector<Individual> drafted =
        candidates_.proposals(std::ssize(first_.drafts), 0x64726166, [&](Individual& i, int64_t at, Rng&) {
          i.sketch = first_.drafts[static_cast<size_t>(at)].sketch;
          i.decisions = first_.drafts[static_cast<size_t>(at)].decisions;
        });
    for (size_t at = 0; at < drafted.size(); ++at) {
      Individual& i = drafted[at];
      if (i.sketch < 0) continue;
      drafted_.emplace(i.nest_hash, static_cast<float>(-std::log2(std::max(first_.drafts[at].seconds, 1e-12))));
      out.push_back(std::move(i));
    }
    random_from_ = out.size();
    std::vector<int64_t> sketches;
    std::vector<int64_t> share = shares(first_.draws);
    for (size_t s = 0; s < share.size(); ++s)
      sketches.insert(sketches.end(), static_cast<size_t>(share[s]), static_cast<int64_t>(s));
    std::vector<Individual> drawn = candidates_.generation(
        static_cast<int64_t>(sketches.size()), 0x66697273, [&](Individual& i, int64_t at, Rng& rng) {
          candidates_.fresh_draw(i, sketches[static_cast<size_t>(at)], rng);
        });
    std::move(drawn.begin(), drawn.end(), std::back_inserter(out));
    return out;
  }

  // Cumulative weights of parents; drawing is a binary search.
  struct Roulette {
    std::vector<double> sums;
    std::vector<size_t> index;
    void add(size_t i, double weight) {
      sums.push_back((sums.empty() ? 0 : sums.back()) + weight);
      index.push_back(i);
    }
    size_t draw(Rng& rng) const {
      double x = rng.uniform() * sums.back();
      auto at = std::upper_bound(sums.begin(), sums.end(), x) - sums.begin();
      return index[std::min(static_cast<size_t>(at), index.size() - 1)];
    }
  };

  std::vector<Individual> next_generation(const std::vector<Individual>& parents, uint64_t g) {
    if (parents.empty()) return {};
    float top = parents[0].score;
    for (const Individual& p : parents) top = std::max(top, p.score);
    Roulette all;
    std::vector<Roulette> by_sketch(state_.sketches.size());
    for (size_t i = 0; i < parents.size(); ++i) {
      double weight = std::exp2(settings_.sharpness * std::max(static_cast<double>(parents[i].score - top), -10.0));
      all.add(i, weight);
      by_sketch[static_cast<size_t>(parents[i].sketch)].add(i, weight);
    }
    std::vector<size_t> present;
    for (size_t s = 0; s < by_sketch.size(); ++s)
      if (!by_sketch[s].index.empty()) present.push_back(s);
    return candidates_.generation(breeding_.population, 0x67656e00 + g, [&](Individual& out, int64_t, Rng& rng) {
      const Individual& parent = [&]() -> const Individual& {
        double u = rng.uniform();
        // The elites come first in the first generation, fastest first.
        if (parents_ > 0 && u < settings_.from_elites) {
          double x = rng.uniform();
          return parents[static_cast<size_t>(x * x * static_cast<double>(parents_))];
        }
        if (!exploit_ && u > 1 - settings_.within_sketch)
          return parents[by_sketch[present[static_cast<size_t>(rng.below(static_cast<int64_t>(present.size())))]].draw(
              rng)];
        return parents[all.draw(rng)];
      }();
      breed(out, parent, parents[by_sketch[static_cast<size_t>(parent.sketch)].draw(rng)], rng);
    });
  }

  // Scores all neighbors of the best programs of different families that have not been looked at: a generation of
  // random changes misses some. Whether there was anything to look at.
  bool polish(std::vector<Individual>& population, uint64_t round) {
    std::vector<const Individual*> order;
    for (const Individual& i : population) order.push_back(&i);
    std::stable_sort(order.begin(), order.end(), [](const auto* x, const auto* y) { return x->score > y->score; });
    std::set<uint64_t> families;
    std::vector<std::pair<int32_t, std::vector<int64_t>>> wanted;
    for (size_t k = 0; k < order.size() && std::ssize(families) < settings_.polished; ++k) {
      const Individual& i = *order[k];
      if (!families.insert(combine_hash(model_.family(i.sample.row), static_cast<uint64_t>(i.sketch))).second) continue;
      if (!polished_.insert(i.nest_hash).second) continue;
      for (std::vector<int64_t>& d : neighbours(candidates_.sketch_of(i), i.decisions))
        wanted.emplace_back(i.sketch, std::move(d));
    }
    if (wanted.empty()) return false;
    std::vector<Individual> found =
        candidates_.proposals(std::ssize(wanted), 0x706f6c00 + round, [&](Individual& out, int64_t at, Rng&) {
          std::tie(out.sketch, out.decisions) = wanted[static_cast<size_t>(at)];
        });
    std::erase_if(found, [](const Individual& i) { return i.sketch < 0; });
    score(found);
    candidates_.collect(found);
    std::move(found.begin(), found.end(), std::back_inserter(population));
    return true;
  }

  void breed(Individual& out, const Individual& parent, const Individual& mate, Rng& rng) const {
    out.sketch = parent.sketch;
    double u = rng.uniform();
    if (u < settings_.move && state_.sketches.size() > 1) {
      Individual base;
      candidates_.fresh_draw(base, candidates_.any_sketch(rng), rng);
      out.sketch = base.sketch;
      out.decisions = transfer_decisions(candidates_.sketch_of(parent).trace, parent.decisions,
                                         candidates_.sketch_of(base), base.decisions);
      return;
    }
    if (u < settings_.move + settings_.cross && mate.nest_hash != parent.nest_hash) {
      out.decisions = cross(candidates_.sketch_of(parent), parent.decisions, mate.decisions, rng);
      if (rng.below(2) == 0) return;
    } else {
      out.decisions = parent.decisions;
    }
    if (!mutate_some(candidates_.sketch_of(out), out.decisions, mutators_, rng))
      candidates_.fresh_draw(out, candidates_.any_sketch(rng), rng);
  }

  void score(std::vector<Individual>& population) {
    counts_.verified += std::ssize(population);
    features::Batch programs;
    std::vector<float> scores(population.size()), spreads(population.size());
    for (const Individual& i : population) programs.add(i.sample);
    model_.predict_spread(programs, scores, spreads);
    if (!model_.trained() && !drafted_.empty()) trust_drafts(population, scores);
    auto curious = static_cast<float>(exploit_ ? 0 : settings_.curiosity * (1 - plan_.progress));
    for (size_t i = 0; i < scores.size(); ++i)
      population[i].score = scores[i] + curious * spreads[i] + offsets_[static_cast<size_t>(population[i].sketch)];
  }

  // Before the model has learned, the draft model's order holds. Other programs come behind.
  void trust_drafts(const std::vector<Individual>& population, std::vector<float>& scores) const {
    float worst = drafted_.begin()->second;
    for (const auto& [nest, score] : drafted_) worst = std::min(worst, score);
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto at = drafted_.find(population[i].nest_hash);
      scores[i] = at == drafted_.end() ? worst : at->second;
    }
  }

  const Round& round_;
  const FirstGeneration& first_;
  const Breeding breeding_;
  const TaskState& state_;
  const cost::CostModel& model_;
  const RoundPlan& plan_;
  const Settings::Evolution& settings_;
  const schedule::MutatorWeights& mutators_;
  Rng rng_;
  Counts& counts_;
  Candidates candidates_;
  bool exploit_;
  std::vector<const Known*> elites_;
  size_t parents_;          // of the elites, which come first in the population
  size_t random_from_ = 0;  // where its fresh draws begin
  std::vector<float> offsets_;
  std::vector<uint64_t> seeded_;
  std::map<uint64_t, float> drafted_;  // scores of the drafts by the draft model, by nest
  std::set<uint64_t> polished_;        // programs whose neighbors were scored
};

class Evolutionary : public SearchStrategy {
 public:
  bool learns() const override { return true; }
  std::vector<Individual> propose(const Round& round, Counts& counts) const override {
    const TuneOptions& o = round.options;
    const Settings::Evolution& settings = round.settings.evolution;
    Breeding breeding = {o.generations, o.population};
    FirstGeneration first = {.draws = o.population, .draws_of_sketch = settings.first_draws};
    // A program takes longer to propose than it is worth where few are measured.
    const int64_t enough = std::max(settings.bred_for_pick * round.plan.count, settings.least_population);
    if (settings.bred_for_pick > 0 && enough < o.population) {
      breeding = {std::min(o.generations, settings.small_generations), enough};
      first = {.draws = enough, .draws_of_sketch = settings.first_draws * enough / o.population};
    }
    return evolve(round, first, breeding, counts);
  }
};

}  // namespace

std::vector<Individual> evolve(const Round& round, const FirstGeneration& first, const Breeding& breeding,
                               Counts& counts) {
  return Breeder(round, first, breeding, counts).evolve();
}

std::unique_ptr<SearchStrategy> make_evolutionary() {
  return std::make_unique<Evolutionary>();
}

}  // namespace tcc::search
