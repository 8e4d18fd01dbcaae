// Roller: tiles grow from the registers outward until a memory is full or the arithmetic hides the traffic (Zhu et al.,
// OSDI 2022, section 3.3 and algorithm 1). Steps are aligned: to vectors and registers, to threads of a multiprocessor,
// to transactions of memory, and to the tensor's shape with a tolerance for padding. Three variants were published:
//
//   kArtifact  branch osdi22_artifact: an axis is worth the operations per byte after growing it by one element; a tile
//              that is aligned and compute-bound descends, and every axis is advanced in that order. A tile whose next
//              step does not fit is remembered: the border
//   kPaper     branch roller, closest to algorithm 1: S_i = (Q(T) - Q(T'_i)) / (F(T'_i) - F(T)); the first tile that is
//              compute-bound, or that would not fit, descends to the next memory
//   kPlain     operators without reuse: axes innermost first, no score, no test for arithmetic
//
// Small operators scale out: while blocks are fewer than workers, the tiles of the axis with the least reuse halve on
// every level. Roller caps a thread's tile at 32 elements of an axis; on CPUs the vector registers are the limit.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "construct/methods.h"

namespace tcc::construct {
namespace {

constexpr int64_t kMaxSteps = 1500;    // tiles that one construction looks at
constexpr int64_t kLargestStep = 128;  // units of a reduction in a fast memory, as published
constexpr int64_t kLargestTile = 32;   // units of a thread's tile along an axis (branch roller)
constexpr double kMinPlainTile = 2;    // elements of a thread

class Enlarger {
 public:
  Enlarger(const Problem& problem, const Options& options, RollerVariant variant)
      : problem_(problem), variant_(variant), top_(static_cast<size_t>(std::max<int64_t>(options.top, 1))) {
    for (size_t a = 0; a < problem.axes(); ++a) inward_.push_back(a);
    std::stable_sort(inward_.begin(), inward_.end(), [&](size_t x, size_t y) { return place(x) > place(y); });
  }

  Found run() {
    Tiles start = problem_.smallest();
    for (size_t a = 0; a < problem_.axes(); ++a) align(start, 0, a);
    enlarge(0, start);
    if (found_.results.empty()) found_.results = border_;
    for (Tiles& tiles : found_.results) scale_out(tiles);
    std::vector<Tiles> once;
    for (const Tiles& tiles : found_.results)
      if (std::find(once.begin(), once.end(), tiles) == once.end()) once.push_back(tiles);
    found_.results = std::move(once);
    return std::move(found_);
  }

 private:
  int place(size_t axis) const {
    const Axis& a = problem_.nest().axes[axis];
    return a.factors.empty() ? 0 : a.factors.back().place;
  }
  bool full() const { return found_.results.size() >= top_ || found_.looked_at >= kMaxSteps; }

  // The first size that the level's rule of alignment allows.
  void align(Tiles& tiles, size_t level, size_t axis) const {
    Tiles trial = tiles;
    if (!problem_.adjustable(level, axis) || problem_.aligned(tiles, level)) return;
    const int64_t size = problem_.next(tiles, level, axis, {.aligned = true});
    if (level == 0 && size > 0 && problem_.set(trial, level, axis, size) && problem_.fits(trial, level)) tiles = trial;
  }

  std::vector<size_t> order_of(size_t level, const Tiles& tiles) {
    std::vector<std::pair<double, size_t>> scored;
    std::vector<size_t> out;
    for (size_t a : inward_) {
      if (!problem_.adjustable(level, a)) continue;
      if (variant_ == RollerVariant::kPlain) {
        out.push_back(a);
        continue;
      }
      Tiles grown = tiles;
      if (!grow(grown, level, a)) continue;
      if (variant_ == RollerVariant::kArtifact) {
        grown = tiles;
        for (size_t l = level; l < problem_.levels(); ++l) ++grown.size[l][a];
      }
      scored.push_back({score(level, tiles, grown), a});
    }
    std::stable_sort(scored.begin(), scored.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    for (const auto& [value, a] : scored) out.push_back(a);
    return out;
  }

  double score(size_t level, const Tiles& tiles, const Tiles& grown) {
    ++found_.looked_at;
    const auto count = level == 0 ? Problem::Count::kSteps : Problem::Count::kWholeReduction;
    if (variant_ == RollerVariant::kArtifact) return problem_.operations(grown) / problem_.traffic(grown, level, count);
    const double saved = problem_.traffic(tiles, level, count) - problem_.traffic(grown, level, count);
    const double more = problem_.footprint(grown, level) - problem_.footprint(tiles, level);
    return saved == 0 || more == 0 ? 0 : saved / more;
  }

  bool grow(Tiles& tiles, size_t level, size_t axis) const {
    const Axis& a = problem_.nest().axes[axis];
    const bool in_thread = level == 0 && problem_.machine().gpu && variant_ == RollerVariant::kPaper;
    const int64_t most = a.reduce ? kLargestStep : in_thread ? kLargestTile : a.sampled * 2;
    const int64_t size = problem_.next(tiles, level, axis, {.aligned = true, .most = most});
    return size > 0 && problem_.set(tiles, level, axis, size);
  }

  void enlarge(size_t level, const Tiles& tiles) {
    if (full() || !seen_.insert(hash_tiles(tiles) * kMaxLevels + level).second) return;
    const bool regular = problem_.fits(tiles, level) && problem_.aligned(tiles, level);
    if (variant_ == RollerVariant::kArtifact && regular && problem_.compute_bound(tiles, level)) descend(level, tiles);
    if (variant_ == RollerVariant::kPlain && regular && is_worth_a_thread(tiles)) descend(level, tiles);
    bool grew = false;
    for (size_t a : order_of(level, tiles)) {
      if (full()) return;
      Tiles grown = tiles;
      if (!grow(grown, level, a)) continue;
      ++found_.looked_at;
      if (!problem_.fits(grown, level)) {
        if (regular && variant_ == RollerVariant::kPaper) descend(level, tiles);
        if (regular && variant_ == RollerVariant::kArtifact) leave_at_border(level, tiles, regular);
        continue;
      }
      grew = true;
      if (variant_ == RollerVariant::kPaper && problem_.aligned(grown, level) && problem_.compute_bound(grown, level))
        descend(level, grown);
      else
        enlarge(level, grown);
    }
    // Nothing larger fits: the border.
    if (!grew) leave_at_border(level, tiles, regular);
  }

  void leave_at_border(size_t level, const Tiles& tiles, bool regular) {
    if (regular && variant_ == RollerVariant::kPaper) return descend(level, tiles);
    if (level + 1 < problem_.levels()) {
      if (found_.results.empty()) descend(level, tiles);
    } else if (border_.size() < top_ && is_valid(problem_, tiles)) {
      border_.push_back(tiles);
    }
  }

  bool is_worth_a_thread(const Tiles& tiles) const {
    double size = 1;
    for (size_t a = 0; a < problem_.axes(); ++a)
      if (!problem_.nest().axes[a].reduce) size *= problem_.elements(tiles, 0, a);
    return size >= kMinPlainTile;
  }

  // Copies the tile to the next memory; behind the last one it is a result.
  void descend(size_t level, const Tiles& tiles) {
    if (level + 1 < problem_.levels()) return enlarge(level + 1, tiles);
    if (full() || !is_valid(problem_, tiles)) return;
    if (std::find(found_.results.begin(), found_.results.end(), tiles) == found_.results.end())
      found_.results.push_back(tiles);
  }

  // Tiles halve along the axis that the fewest inputs reuse: that whose halves move the fewest bytes more.
  void scale_out(Tiles& tiles) const {
    const auto workers = static_cast<double>(problem_.machine().workers);
    while (problem_.blocks(tiles) < workers) {
      Tiles best = tiles;
      double least = std::numeric_limits<double>::infinity();
      for (size_t a = 0; a < problem_.axes(); ++a) {
        if (problem_.nest().axes[a].reduce) continue;
        for (const bool all_levels : {true, false}) {
          Tiles smaller = tiles;
          if (!shrink(smaller, a, all_levels) || !nests(smaller, a) || !is_valid(problem_, smaller)) continue;
          if (problem_.blocks(smaller) <= problem_.blocks(tiles)) continue;
          const double cost = problem_.traffic(smaller, problem_.levels() - 1, Problem::Count::kWholeReduction);
          if (cost < least) least = cost, best = smaller;
          break;  // halves of the slowest level alone only where the others do not follow
        }
      }
      if (best == tiles) return;
      tiles = best;
    }
  }

  bool nests(const Tiles& tiles, size_t axis) const {
    for (size_t l = 1; l < problem_.levels(); ++l)
      if (tiles.size[l][axis] % tiles.size[l - 1][axis] != 0) return false;
    return true;
  }

  // The tile of the slowest level that has a smaller one; with `all_levels` those of faster levels follow.
  bool shrink(Tiles& tiles, size_t axis, bool all_levels) const {
    bool smaller = false;
    for (size_t l = 0; l < problem_.levels(); ++l) {
      const size_t level = all_levels ? l : problem_.levels() - 1 - l;
      if (!problem_.adjustable(level, axis)) continue;
      const int64_t half = problem_.halved(tiles, level, axis);
      if (half == 0) continue;
      problem_.put(tiles, level, axis, half);
      smaller = true;
      if (!all_levels) break;
    }
    return smaller;
  }

  const Problem& problem_;
  const RollerVariant variant_;
  const size_t top_;
  std::vector<size_t> inward_;  // axes, innermost first
  std::unordered_set<uint64_t> seen_;
  std::vector<Tiles> border_;
  Found found_;
};

}  // namespace

bool is_valid(const Problem& problem, const Tiles& tiles) {
  for (size_t l = 0; l < problem.levels(); ++l)
    if (!problem.fits(tiles, l)) return false;
  return problem.fills_warp(tiles);
}

Found roller(const Problem& problem, const Options& options, RollerVariant variant) {
  return Enlarger(problem, options, variant).run();
}

}  // namespace tcc::construct
