// Gensor: a walk over the states of a tensor program, whose steps are drawn by their benefit (Gensor, section IV). The
// state is the ETIR: tile sizes of each memory, virtual threads, and the memory that is being scheduled; the walk goes
// from the slowest memory to the registers.
//
//   tile, inverse tile   B = Q(T) F(T') / (Q(T') F(T)), equation 1: traffic saved, and memory used
//   cache                B = (L_low + S / B_low) / (L_high + S / B_high): the next faster memory is scheduled, times
//                        3 / (1 + exp(-(ln 5 / 10)(t - 10))), which grows with the number of steps
//   virtual threads      B = ceil(x / W) / ceil(x / (V W)): rows of banks that an access takes. On a CPU, which has no
//                        banks, V multiplies the independent sums of a register tile: B is how much less they wait
//
// What does not fit a memory has probability 0. The printed text contradicts itself in places; Reading::kLiteral
// follows the formulas, kRecommended the prose:
//
//   algorithm 2   printed: the first action whose draw is at least its probability, which favors unlikely ones.
//                 recommended: a roulette
//   keeping       printed: 1 - 1 / (1 + exp(-0.5 (-log T - 10))), which keeps the first states and drops the last ones.
//                 recommended: the same sigmoid over log2 upward, the last state always
//   caching       printed: B, and t counts all steps. B is several times the benefit of any tile, so that walks leave a
//                 memory with the smallest tile. recommended: B / max B, and t counts the steps in this memory
//   algorithm 1   printed: returns the last state, so that the kept ones are of no use. recommended: the best of both
//
// On CPUs the walk is followed by single steps from its best states while the analytical model expects less time; the
// paper has none of these.
//
// Open in the paper: the temperature begins at 1 and halves to 2^-100; steps go to Roller's next aligned size that
// nests; 64 chains.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "construct/methods.h"

namespace tcc::construct {
namespace {

constexpr int kSteps = 100;                         // halvings of the temperature
constexpr double kBankRow = 32;                     // words
constexpr double kCacheLatency[] = {1, 5, 14, 60};  // cycles: registers, first, second cache, memory

struct Action {
  enum class Kind : uint8_t { kTile, kInverseTile, kVthread, kCache } kind = Kind::kTile;
  size_t axis = 0;
  Tiles next = {};
  double weight = 0;
};

class Walk {
 public:
  Walk(const Problem& problem, const Options& options, Rng rng)
      : problem_(problem), literal_(options.reading == Reading::kLiteral), vthreads_(options.vthreads), rng_(rng) {}

  void run(Found& found) {
    level_ = problem_.levels() - 1;
    tiles_ = problem_.smallest();
    for (int t = 0; t < kSteps; ++t) {
      list_actions(literal_ ? t : at_level_++);
      found.looked_at += std::ssize(actions_);
      if (actions_.empty()) break;
      const Action& chosen = actions_[literal_ ? scan() : roulette()];
      if (chosen.kind == Action::Kind::kCache)
        --level_, at_level_ = 0;
      else
        tiles_ = chosen.next;
      // Printed: only the last state is returned.
      if (!literal_ && level_ == 0 && rng_.uniform() < keep_probability(t, false)) keep(found);
    }
    if (level_ == 0) keep(found);
  }

 private:
  void keep(Found& found) const {
    if (is_valid(problem_, tiles_)) found.results.push_back(tiles_);
  }

  // The tile that nests in the next slower level's.
  int64_t within(size_t axis) const {
    for (size_t l = level_ + 1; l < problem_.levels(); ++l)
      if (problem_.adjustable(l, axis)) return tiles_.size[l][axis];
    return 0;
  }

  bool fits(const Tiles& tiles) const {
    return level_ == 0 ? problem_.fits(tiles, 0) : problem_.fits_memory(tiles, level_);
  }

  double cache_benefit() const {
    const Machine& m = problem_.machine();
    const double bytes = problem_.footprint(tiles_, level_), clock = m.clock;
    const double low = kCacheLatency[level_] / clock + bytes / m.levels[level_ - 1].bandwidth;
    const double fast = level_ >= 2 ? m.levels[level_ - 2].bandwidth : m.peak * 4;
    const double benefit = low / (kCacheLatency[level_ - 1] / clock + bytes / fast);
    // Recommended: as a share of what the step is worth at most, or it would be taken before there is a tile.
    const double most =
        std::max(kCacheLatency[level_] / kCacheLatency[level_ - 1], fast / m.levels[level_ - 1].bandwidth);
    return literal_ ? benefit : benefit / std::max(most, 1.0);
  }

  void add_vthreads(size_t axis) {
    Tiles next = tiles_;
    next.vthreads[axis] *= 2;
    double benefit = 1;
    if (problem_.machine().gpu) {
      if (!problem_.has_vthreads(axis) || tiles_.size[0][axis] % next.vthreads[axis] != 0) return;
      benefit = vthread_benefit(problem_.elements(tiles_, 1, axis), static_cast<double>(next.vthreads[axis]));
    } else {
      const int64_t size = 2 * tiles_.size[0][axis], outer = within(axis);
      if (!problem_.adjustable(0, axis) || (outer > 0 ? outer : problem_.nest().axes[axis].sampled) % size != 0) return;
      problem_.put(next, 0, axis, size);
      const double wanted = problem_.machine().sums_in_flight;
      benefit = std::max(wanted / problem_.independent_sums(tiles_), 1.0) /
                std::max(wanted / problem_.independent_sums(next), 1.0);
    }
    if (fits(next)) actions_.push_back({Action::Kind::kVthread, axis, next, benefit});
  }

  // All actions of the state with their probabilities after `t` steps, normalized.
  void list_actions(int t) {
    actions_.clear();
    for (size_t a = 0; a < problem_.axes(); ++a) {
      if (!problem_.adjustable(level_, a)) continue;
      for (const bool larger : {true, false}) {
        const int64_t size =
            larger ? problem_.next(tiles_, level_, a, {.aligned = !literal_ || level_ == 0, .within = within(a)})
                   : problem_.previous(tiles_, level_, a, within(a));
        if (size == 0) continue;
        Tiles next = tiles_;
        problem_.put(next, level_, a, size);
        if (fits(next))
          actions_.push_back({larger ? Action::Kind::kTile : Action::Kind::kInverseTile, a, next,
                              tile_benefit(problem_, tiles_, next, level_)});
      }
      if (vthreads_ && level_ == 0 && !problem_.nest().axes[a].reduce) add_vthreads(a);
    }
    if (level_ > 0) actions_.push_back({Action::Kind::kCache, 0, tiles_, cache_benefit()});
    normalise();
    for (Action& action : actions_)
      if (action.kind == Action::Kind::kCache) action.weight *= cache_growth(t);
    normalise();
  }

  void normalise() {
    double sum = 0;
    for (const Action& a : actions_) sum += a.weight;
    for (Action& a : actions_) a.weight /= sum;
  }

  size_t roulette() {
    const double u = rng_.uniform();
    double sum = 0;
    for (size_t i = 0; i < actions_.size(); ++i)
      if ((sum += actions_[i].weight) >= u) return i;
    return actions_.size() - 1;
  }
  size_t scan() {
    for (size_t i = 0; i < actions_.size(); ++i)
      if (rng_.uniform() >= actions_[i].weight) return i;
    return actions_.size() - 1;
  }

  const Problem& problem_;
  const bool literal_, vthreads_;
  Rng rng_;
  size_t level_ = 0;
  int at_level_ = 0;  // steps since the memory is scheduled
  Tiles tiles_;
  std::vector<Action> actions_;
};

constexpr size_t kImproved = 4;   // results that are improved
constexpr int kMoves = 24;        // steps of each
constexpr size_t kNeighbors = 2;  // sizes of an axis that a step looks at, in both directions

// Single steps in any memory, while the analytical model expects less time. What it passes on the way is kept.
void improve(const Problem& problem, Found& found) {
  std::vector<std::pair<double, Tiles>> best;
  for (const Tiles& t : found.results) best.emplace_back(problem.seconds(t), t);
  std::stable_sort(best.begin(), best.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  if (best.size() > kImproved) best.resize(kImproved);
  for (auto& [seconds, tiles] : best)
    for (int move = 0; move < kMoves; ++move) {
      double least = seconds * 0.999;
      Tiles next = tiles;
      for (size_t l = 0; l < problem.levels(); ++l)
        for (size_t a = 0; a < problem.axes(); ++a) {
          if (!problem.adjustable(l, a)) continue;
          const std::vector<int64_t>& sizes = problem.candidates(a);
          const auto at = std::lower_bound(sizes.begin(), sizes.end(), tiles.size[l][a]) - sizes.begin();
          for (auto i = std::max<std::ptrdiff_t>(at - static_cast<std::ptrdiff_t>(kNeighbors), 0);
               i < std::min(std::ssize(sizes), at + static_cast<std::ptrdiff_t>(kNeighbors) + 1); ++i) {
            Tiles trial = tiles;
            const int64_t size = sizes[static_cast<size_t>(i)];
            if (size == tiles.size[l][a] || !problem.place(trial, l, a, size) || !is_valid(problem, trial)) continue;
            ++found.looked_at;
            if (const double s = problem.seconds(trial); s < least) least = s, next = trial;
          }
        }
      if (next == tiles) break;
      tiles = next, seconds = least;
      found.results.push_back(tiles);
    }
}

}  // namespace

double tile_benefit(const Problem& problem, const Tiles& from, const Tiles& to, size_t level) {
  const auto count = Problem::Count::kSteps;
  return problem.traffic(from, level, count) / problem.traffic(to, level, count) * problem.footprint(to, level) /
         problem.footprint(from, level);
}

double vthread_benefit(double words, double vthreads) {
  return std::ceil(words / kBankRow) / std::ceil(words / (vthreads * kBankRow));
}

double cache_growth(double t) {
  return 3 / (1 + std::exp(-(std::log(5.0) / 10) * (t - 10)));
}

double keep_probability(double t, bool literal) {
  const double rising = 1 / (1 + std::exp(-0.5 * (t - 10)));
  return literal ? 1 - rising : rising;
}

Found gensor(const Problem& problem, const Options& options, int64_t chains, const Rng& rng) {
  Found found, once;
  for (int64_t c = 0; c < chains; ++c) Walk(problem, options, rng.fork(static_cast<uint64_t>(c))).run(found);
  if (options.reading == Reading::kRecommended && !problem.machine().gpu) improve(problem, found);
  std::unordered_set<uint64_t> seen;
  for (const Tiles& tiles : found.results)
    if (seen.insert(hash_tiles(tiles)).second) once.results.push_back(tiles);
  once.looked_at = found.looked_at;
  return once;
}

}  // namespace tcc::construct
