// Evolutionary search as in MetaSchedule: a population of measured elites and fresh draws; each generation scores it,
// keeps what was never measured, and breeds the next one from parents drawn in proportion to their predicted speed. The
// picks are the best ever seen, and a small share of random ones against an overconfident model.
#include "search/propose.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tcc::search {
namespace {

constexpr double kMutate = 0.85, kEliteShare = 0.2;
constexpr int kAttempts = 10;

// One slot of a generation: what was tried until something legal came.
struct Slot {
  Individual individual;
  bool legal = false;
  int64_t attempts = 0;
  std::vector<ir::RejectReason> rejects;
};

class Breeder {
 public:
  Breeder(const TaskState& state, const cost::CostModel& model, const target::Target& target,
          const TuneOptions& options, const Rng& rng, ThreadPool* pool, Counts& counts)
      : state_(state), model_(model), target_(target), options_(options), rng_(rng), pool_(pool), counts_(counts) {}

  std::vector<Individual> evolve(int64_t n) {
    std::vector<Individual> population = first_generation(options_.population);
    std::vector<Individual> random_part;
    for (const Individual& i : population)
      if (fresh(i)) random_part.push_back(i);
    for (int64_t g = 0; g <= options_.generations; ++g) {
      score(population);
      collect(population);
      if (g < options_.generations) population = next_generation(population, static_cast<uint64_t>(g));
    }
    return pick(n, random_part);
  }

  std::vector<Individual> draw(int64_t n) {
    for (uint64_t batch = 0; batch < 4 && static_cast<int64_t>(pool_of_new_.size()) < n; ++batch) {
      std::vector<Individual> drawn =
          generation(2 * n, batch, [&](Individual& out, Rng& rng) { fresh_draw(out, rng); });
      for (Individual& i : drawn)
        if (static_cast<int64_t>(pool_of_new_.size()) < n) keep_if_new(i);
    }
    return std::move(pool_of_new_);
  }

 private:
  bool fresh(const Individual& i) const { return state_.measured.count(i.nest) == 0; }

  void fresh_draw(Individual& out, Rng& rng) const {
    out.sketch = static_cast<int32_t>(rng.below(static_cast<int64_t>(state_.sketches.size())));
    const space::Sketch& sketch = state_.sketches[static_cast<size_t>(out.sketch)];
    out.decisions.resize(sketch.trace.decisions.size());
    space::draw_decisions(sketch, out.decisions, rng);
  }

  bool evaluate(Slot& slot) const {
    Individual& i = slot.individual;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest =
        space::instantiate(state_.sketches[static_cast<size_t>(i.sketch)], i.decisions, target_, arena);
    if (!nest) {
      slot.rejects.push_back(nest.error().reason);
      return false;
    }
    i.nest = ir::hash_kernel(*nest);
    i.row = features::extract(*nest, target_, options_.threads);
    return true;
  }

  // `count` slots, each filled by make(individual, rng) until one is legal.
  template <class Make>
  std::vector<Individual> generation(int64_t count, uint64_t salt, const Make& make) {
    std::vector<Slot> slots(static_cast<size_t>(count));
    auto body = [&](int64_t i, int) {
      Slot& slot = slots[static_cast<size_t>(i)];
      Rng rng = rng_.fork(salt).fork(static_cast<uint64_t>(i));
      while (!slot.legal && slot.attempts < kAttempts) {
        ++slot.attempts;
        make(slot.individual, rng);
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

  std::vector<Individual> first_generation(int64_t count) {
    std::vector<const Known*> elites;
    for (const Known& k : state_.known)
      if (k.seconds > 0 && k.sketch >= 0 && k.has_row) elites.push_back(&k);
    std::stable_sort(elites.begin(), elites.end(),
                     [](const Known* x, const Known* y) { return x->seconds < y->seconds; });
    elites.resize(std::min(elites.size(), static_cast<size_t>(kEliteShare * static_cast<double>(count))));
    std::vector<Individual> out = generation(count - static_cast<int64_t>(elites.size()), 0x66697273,
                                             [&](Individual& i, Rng& rng) { fresh_draw(i, rng); });
    counts_.proposed += static_cast<int64_t>(elites.size());  // and found to be duplicates, like any other
    for (const Known* k : elites) out.push_back({k->sketch, k->decisions, k->nest, k->row, 0});
    return out;
  }

  std::vector<Individual> next_generation(const std::vector<Individual>& parents, uint64_t g) {
    if (parents.empty()) return {};
    float top = parents[0].score;
    for (const Individual& p : parents) top = std::max(top, p.score);
    std::vector<double> weights;
    for (const Individual& p : parents)
      weights.push_back(std::exp2(std::max(static_cast<double>(p.score - top), -20.0)));
    return generation(options_.population, 0x67656e00 + g, [&](Individual& out, Rng& rng) {
      const Individual& parent = parents[static_cast<size_t>(rng.weighted(weights))];
      out.sketch = parent.sketch;
      out.decisions = parent.decisions;
      if (rng.uniform() < kMutate)
        if (!schedule::mutate(state_.sketches[static_cast<size_t>(out.sketch)].trace, out.decisions, rng))
          fresh_draw(out, rng);
    });
  }

  void score(std::vector<Individual>& population) const {
    std::vector<float> rows, scores(population.size());
    for (const Individual& i : population) rows.insert(rows.end(), i.row.begin(), i.row.end());
    model_.predict({rows.data(), population.size(), features::kCount}, scores);
    for (size_t i = 0; i < scores.size(); ++i) population[i].score = scores[i];
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

  std::vector<Individual> pick(int64_t n, const std::vector<Individual>& random_part) {
    std::stable_sort(pool_of_new_.begin(), pool_of_new_.end(),
                     [](const Individual& x, const Individual& y) { return x.score > y.score; });
    std::vector<Individual> out;
    std::set<uint64_t> taken;
    auto take = [&](const Individual& i) {
      if (static_cast<int64_t>(out.size()) < n && taken.insert(i.nest).second) out.push_back(i);
    };
    // The first round of a task tries every design space before it trusts a ranking between them.
    if (state_.known.empty()) {
      std::set<int32_t> tried;
      for (const Individual& i : pool_of_new_)
        if (tried.insert(i.sketch).second) take(i);
    }
    auto random =
        static_cast<int64_t>(std::floor(options_.explore * static_cast<double>(n) + rng_.fork(0x726e64).uniform()));
    Rng rng = rng_.fork(0x7069636b);
    for (int64_t k = 0; k < random && !random_part.empty() && n > 1; ++k)
      take(random_part[static_cast<size_t>(rng.below(static_cast<int64_t>(random_part.size())))]);
    for (const Individual& i : pool_of_new_) take(i);
    return out;
  }

  const TaskState& state_;
  const cost::CostModel& model_;
  const target::Target& target_;
  const TuneOptions& options_;
  Rng rng_;
  ThreadPool* pool_;
  Counts& counts_;
  std::vector<Individual> pool_of_new_;
  std::set<uint64_t> seen_;
};

}  // namespace

std::vector<Individual> propose(const TaskState& state, const cost::CostModel& model, int64_t n,
                                const target::Target& target, const TuneOptions& options, const Rng& rng,
                                ThreadPool* pool, Counts& counts) {
  if (state.sketches.empty() || n <= 0) return {};
  Breeder breeder(state, model, target, options, rng, pool, counts);
  switch (options.strategy) {
    case Strategy::kEvolutionary:
      return breeder.evolve(n);
    case Strategy::kRandom:
      return breeder.draw(n);
  }
  return {};
}

}  // namespace tcc::search
