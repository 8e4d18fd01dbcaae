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
#include "search/propose.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "search/pick.h"
#include "search/vary.h"

namespace tcc::search {
namespace {

constexpr int kAttempts = 10;
constexpr size_t kElites = 32;
constexpr int64_t kFirstDraws = 48;  // of each sketch before anything is known of it, at least
constexpr double kFromElites = 0.35, kWithinSketch = 0.3, kCross = 0.15, kMove = 0.1;
constexpr double kSharpness = 4;  // parents are drawn in proportion to this power of the predicted speed
constexpr double kCurious = 1;    // share of the model's uncertainty that counts as hope
constexpr double kExploitFrom = 0.75;
// Share of random picks in the first round, and in later ones until half of the trials are used up.
constexpr double kFirstRandom = 0.35, kEarlyRandom = 0.2;
constexpr double kPatience = 4;   // trials of a sketch before the model's error on it is believed by half
constexpr float kUnseen = -0.5f;  // what a sketch without a valid trial is taken to reach, log2 of the best

// One slot of a generation: what was tried until something legal came.
struct Slot {
  Individual individual;
  bool legal = false;
  int64_t attempts = 0;
  std::vector<ir::RejectReason> rejects;
};

class Breeder {
 public:
  Breeder(const TaskState& state, const cost::CostModel& model, const RoundPlan& plan, const target::Target& target,
          const TuneOptions& options, const Rng& rng, ThreadPool* pool, Counts& counts)
      : state_(state),
        model_(model),
        plan_(plan),
        target_(target),
        options_(options),
        rng_(rng),
        pool_(pool),
        counts_(counts),
        exploit_(plan.progress >= kExploitFrom),
        elites_(fastest_known(state.known, kElites)) {}

  std::vector<Individual> evolve() {
    find_offsets();
    std::vector<Individual> population = first_generation();
    std::vector<Individual> random_part;
    for (size_t i = elites_.size() + sown_.size(); i < population.size(); ++i)
      if (fresh(population[i])) random_part.push_back(population[i]);
    score(population);
    collect(population);
    for (int64_t g = 0; g < options_.generations; ++g) {
      std::vector<Individual> children = next_generation(population, static_cast<uint64_t>(g));
      score(children);
      collect(children);
      std::move(children.begin(), children.end(), std::back_inserter(population));
    }
    return pick(random_part);
  }

  std::vector<Individual> draw() {
    int64_t n = plan_.count;
    for (uint64_t batch = 0; batch < 4 && static_cast<int64_t>(pool_of_new_.size()) < n; ++batch) {
      std::vector<Individual> drawn =
          generation(2 * n, batch, [&](Individual& out, int64_t, Rng& rng) { fresh_draw(out, any_sketch(rng), rng); });
      for (Individual& i : drawn)
        if (static_cast<int64_t>(pool_of_new_.size()) < n) keep_if_new(i);
    }
    return std::move(pool_of_new_);
  }

 private:
  bool fresh(const Individual& i) const { return state_.measured.count(i.nest) == 0; }
  const space::Sketch& sketch_of(const Individual& i) const { return state_.sketches[static_cast<size_t>(i.sketch)]; }
  int64_t any_sketch(Rng& rng) const { return rng.below(static_cast<int64_t>(state_.sketches.size())); }

  void fresh_draw(Individual& out, int64_t sketch, Rng& rng) const {
    out.sketch = static_cast<int32_t>(sketch);
    out.decisions.resize(sketch_of(out).trace.decisions.size());
    space::draw_decisions(sketch_of(out), out.decisions, rng);
  }

  bool evaluate(Slot& slot) const {
    Individual& i = slot.individual;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(sketch_of(i), i.decisions, target_, arena);
    if (!nest) {
      slot.rejects.push_back(nest.error().reason);
      return false;
    }
    i.nest = ir::hash_kernel(*nest);
    i.row = features::extract(*nest, target_, options_.threads);
    return true;
  }

  // `count` slots, each filled by make(individual, slot, rng) until one is legal.
  template <class Make>
  std::vector<Individual> generation(int64_t count, uint64_t salt, const Make& make) {
    std::vector<Slot> slots(static_cast<size_t>(count));
    auto body = [&](int64_t i, int) {
      Slot& slot = slots[static_cast<size_t>(i)];
      Rng rng = rng_.fork(salt).fork(static_cast<uint64_t>(i));
      while (!slot.legal && slot.attempts < kAttempts) {
        ++slot.attempts;
        make(slot.individual, i, rng);
        slot.legal = evaluate(slot);
      }
    };
    if (pool_ != nullptr)
      pool_->parallel_for(count, body);
    else
      for (int64_t i = 0; i < count; ++i) body(i, 0);
    std::vector<Individual> out;
    for (Slot& slot : slots) {
      counts_.proposed += slot.attempts;
      counts_.rejected += static_cast<int64_t>(slot.rejects.size());
      for (ir::RejectReason r : slot.rejects) ++counts_.rejected_by_reason[std::string(ir::reject_reason_name(r))];
      if (slot.legal) out.push_back(std::move(slot.individual));
    }
    return out;
  }

  // What the model says too little of each sketch, on average over its trials and drawn to 0 where they are few.
  void find_offsets() {
    offsets_.assign(state_.sketches.size(), 0.f);
    if (!model_.trained() || elites_.empty()) return;
    std::vector<float> rows, measured;
    std::vector<int32_t> sketches;
    for (const Known& k : state_.known) {
      if (k.seconds <= 0 || k.sketch < 0 || !k.has_row) continue;
      rows.insert(rows.end(), k.row.begin(), k.row.end());
      measured.push_back(static_cast<float>(std::log2(elites_[0]->seconds / k.seconds)));
      sketches.push_back(k.sketch);
    }
    std::vector<float> scores(measured.size());
    model_.predict({rows.data(), scores.size(), features::kCount}, scores);
    double mean = 0;
    for (size_t i = 0; i < scores.size(); ++i) mean += static_cast<double>(measured[i] - scores[i]);
    mean /= static_cast<double>(scores.size());
    std::vector<double> sums(offsets_.size(), 0), visits(offsets_.size(), 0);
    for (size_t i = 0; i < scores.size(); ++i) {
      auto s = static_cast<size_t>(sketches[i]);
      sums[s] += static_cast<double>(measured[i] - scores[i]) - mean, ++visits[s];
    }
    for (size_t s = 0; s < sums.size(); ++s) offsets_[s] = static_cast<float>(sums[s] / (visits[s] + kPatience));
  }

  // How many fresh draws each sketch gets.
  std::vector<int64_t> shares(int64_t count) const {
    auto n = static_cast<int64_t>(state_.sketches.size());
    std::vector<int64_t> out(static_cast<size_t>(n), std::max<int64_t>(count / n, 1));
    if (elites_.empty()) {
      for (int64_t& share : out) share = std::max(share, kFirstDraws);
      return out;
    }
    std::vector<double> reached(out.size(), std::exp2(kUnseen));
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
    counts_.proposed += static_cast<int64_t>(elites_.size());  // and found to be duplicates, like any other
    for (const Known* k : elites_) out.push_back({k->sketch, k->decisions, k->nest, k->row, 0});
    std::vector<const Seed*> seeds;
    for (const std::vector<Seed>* list : {&state_.seeds, &plan_.seeds})
      for (const Seed& s : *list) seeds.push_back(&s);
    std::vector<Individual> sown =
        generation(static_cast<int64_t>(seeds.size()), 0x73656564, [&](Individual& i, int64_t at, Rng&) {
          i.sketch = seeds[static_cast<size_t>(at)]->sketch;
          i.decisions = seeds[static_cast<size_t>(at)]->decisions;
        });
    for (const Individual& i : sown) sown_.push_back(i.nest);
    std::move(sown.begin(), sown.end(), std::back_inserter(out));
    std::vector<int64_t> sketches;
    std::vector<int64_t> share = shares(options_.population);
    for (size_t s = 0; s < share.size(); ++s)
      sketches.insert(sketches.end(), static_cast<size_t>(share[s]), static_cast<int64_t>(s));
    std::vector<Individual> drawn =
        generation(static_cast<int64_t>(sketches.size()), 0x66697273,
                   [&](Individual& i, int64_t at, Rng& rng) { fresh_draw(i, sketches[static_cast<size_t>(at)], rng); });
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
      double weight = std::exp2(kSharpness * std::max(static_cast<double>(parents[i].score - top), -10.0));
      all.add(i, weight);
      by_sketch[static_cast<size_t>(parents[i].sketch)].add(i, weight);
    }
    std::vector<size_t> present;
    for (size_t s = 0; s < by_sketch.size(); ++s)
      if (!by_sketch[s].index.empty()) present.push_back(s);
    return generation(options_.population, 0x67656e00 + g, [&](Individual& out, int64_t, Rng& rng) {
      const Individual& parent = [&]() -> const Individual& {
        double u = rng.uniform();
        // The elites come first in the first generation, fastest first.
        if (!elites_.empty() && u < kFromElites) {
          double x = rng.uniform();
          return parents[static_cast<size_t>(x * x * static_cast<double>(elites_.size()))];
        }
        if (!exploit_ && u > 1 - kWithinSketch)
          return parents[by_sketch[present[static_cast<size_t>(rng.below(static_cast<int64_t>(present.size())))]].draw(
              rng)];
        return parents[all.draw(rng)];
      }();
      breed(out, parent, parents[by_sketch[static_cast<size_t>(parent.sketch)].draw(rng)], rng);
    });
  }

  void breed(Individual& out, const Individual& parent, const Individual& mate, Rng& rng) const {
    out.sketch = parent.sketch;
    double u = rng.uniform();
    if (u < kMove && state_.sketches.size() > 1) {
      Individual base;
      fresh_draw(base, any_sketch(rng), rng);
      out.sketch = base.sketch;
      out.decisions = carry_over(sketch_of(parent).trace, parent.decisions, sketch_of(base), base.decisions);
      return;
    }
    if (u < kMove + kCross && mate.nest != parent.nest) {
      out.decisions = cross(sketch_of(parent), parent.decisions, mate.decisions, rng);
      if (rng.below(2) == 0) return;
    } else {
      out.decisions = parent.decisions;
    }
    if (!mutate_some(sketch_of(out), out.decisions, rng)) fresh_draw(out, any_sketch(rng), rng);
  }

  void score(std::vector<Individual>& population) const {
    std::vector<float> rows, scores(population.size()), spreads(population.size());
    for (const Individual& i : population) rows.insert(rows.end(), i.row.begin(), i.row.end());
    model_.predict_spread({rows.data(), population.size(), features::kCount}, scores, spreads);
    auto curious = static_cast<float>(exploit_ ? 0 : kCurious * (1 - plan_.progress));
    for (size_t i = 0; i < scores.size(); ++i)
      population[i].score = scores[i] + curious * spreads[i] + offsets_[static_cast<size_t>(population[i].sketch)];
  }

  void keep_if_new(const Individual& i) {
    if (!fresh(i) || !seen_.insert(i.nest).second) {
      ++counts_.duplicate;
      return;
    }
    pool_of_new_.push_back(i);
  }
  void collect(const std::vector<Individual>& population) {
    for (const Individual& i : population) keep_if_new(i);
  }

  std::vector<Individual> pick(const std::vector<Individual>& random_part) {
    std::vector<Individual> out;
    std::set<uint64_t> taken;
    auto take = [&](const Individual& i) {
      if (static_cast<int64_t>(out.size()) < plan_.count && taken.insert(i.nest).second) out.push_back(i);
    };
    // What was best elsewhere is measured first, before this task's own trials say more.
    if (state_.known.empty())
      for (const Individual& i : pool_of_new_)
        if (static_cast<int64_t>(out.size()) < (plan_.count + 3) / 4 &&
            std::find(sown_.begin(), sown_.end(), i.nest) != sown_.end())
          take(i);
    // The estimate that the first round goes by is wrong about some family of tasks; random draws show it where.
    double explore = elites_.empty() ? std::max(options_.explore, kFirstRandom)
                                     : std::max(options_.explore, kEarlyRandom * (1 - 2 * plan_.progress));
    double share = options_.explore > 0 && !exploit_ ? explore * static_cast<double>(plan_.count) : 0;
    auto random = static_cast<int64_t>(std::floor(share + rng_.fork(0x726e64).uniform()));
    Rng rng = rng_.fork(0x7069636b);
    for (int64_t k = 0; k < random && !exploit_ && !random_part.empty() && plan_.count > 1; ++k)
      take(random_part[static_cast<size_t>(rng.below(static_cast<int64_t>(random_part.size())))]);
    std::erase_if(pool_of_new_, [&](const Individual& i) { return taken.count(i.nest) != 0; });
    PickOptions options{
        .count = plan_.count - static_cast<int64_t>(out.size()), .first_round = elites_.empty(), .exploit = exploit_};
    for (Individual& i : pick_programs(state_, std::move(pool_of_new_), options)) out.push_back(std::move(i));
    return out;
  }

  const TaskState& state_;
  const cost::CostModel& model_;
  const RoundPlan& plan_;
  const target::Target& target_;
  const TuneOptions& options_;
  Rng rng_;
  ThreadPool* pool_;
  Counts& counts_;
  bool exploit_;
  std::vector<const Known*> elites_;
  std::vector<float> offsets_;
  std::vector<uint64_t> sown_;
  std::vector<Individual> pool_of_new_;
  std::set<uint64_t> seen_;
};

}  // namespace

std::vector<Individual> propose(const TaskState& state, const cost::CostModel& model, const RoundPlan& plan,
                                const target::Target& target, const TuneOptions& options, const Rng& rng,
                                ThreadPool* pool, Counts& counts) {
  if (state.sketches.empty() || plan.count <= 0) return {};
  Breeder breeder(state, model, plan, target, options, rng, pool, counts);
  switch (options.strategy) {
    case Strategy::kEvolutionary:
      return breeder.evolve();
    case Strategy::kRandom:
      return breeder.draw();
  }
  return {};
}

}  // namespace tcc::search
