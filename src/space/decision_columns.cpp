#include "tcc/space/decision_columns.h"

#include <algorithm>
#include <array>

#include "tcc/analysis/columns.h"
#include "tcc/support/check.h"

namespace tcc::space {

using schedule::Instruction;
using schedule::Mutator;
using schedule::Op;

namespace {

constexpr size_t kMaxTilings = 20000;  // of a table
constexpr size_t kMaxParts = 16;       // of a tile, and whether it has a tail

std::vector<int64_t> divisors_of(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d < n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// All ways to write `rest` as a product of the parts from `at` on, the last one limited; false: too many.
bool list_tilings(int64_t rest, size_t at, std::vector<double>& factors, double most_last,
                  const std::vector<int64_t>& divisors, std::vector<double>& out) {
  if (at + 1 == factors.size()) {
    if (factors.size() > 1 && static_cast<double>(rest) > most_last) return true;
    factors[at] = static_cast<double>(rest);
    out.insert(out.end(), factors.begin(), factors.end());
    return out.size() <= kMaxTilings * factors.size();
  }
  for (int64_t d : divisors) {
    if (d > rest) break;
    if (rest % d != 0) continue;
    factors[at] = static_cast<double>(d);
    if (!list_tilings(rest / d, at + 1, factors, most_last, divisors, out)) return false;
  }
  return true;
}

size_t pick(const std::vector<double>& sums, Rng& rng) {
  const double x = rng.uniform() * sums.back();
  const auto at = static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), x) - sums.begin());
  return std::min(at, sums.size() - 1);
}

}  // namespace

int64_t DecisionColumns::add_row() {
  const auto room = static_cast<size_t>(rows_ / analysis::ColumnProgram::kBlock + 1) *
                    static_cast<size_t>(analysis::ColumnProgram::kBlock);
  if (!slots_.empty() && slots_[0].size() < room)
    for (std::vector<double>& s : slots_) s.resize(std::max(room, 2 * s.size()), 1);
  return rows_++;
}

std::vector<const double*> DecisionColumns::columns() const {
  std::vector<const double*> out;
  for (const std::vector<double>& s : slots_) out.push_back(s.data());
  return out;
}

std::vector<int64_t> DecisionColumns::decisions(int64_t row) const {
  std::vector<int64_t> out;
  for (size_t s = 0; s < slots_.size(); ++s) out.push_back(static_cast<int64_t>(at(s, row)));
  return out;
}

void DecisionColumns::set(int64_t row, std::span<const int64_t> decisions) {
  TCC_CHECK(decisions.size() == slots_.size());
  for (size_t s = 0; s < slots_.size(); ++s) at(s, row) = static_cast<double>(decisions[s]);
}

DecisionSampler::DecisionSampler(const Sketch& sketch, const schedule::MutatorWeights& weights)
    : sketch_(&sketch), weights_(weights) {
  std::array<std::vector<Target>, schedule::kMutators> by_mutator;
  for (const Instruction& in : sketch.trace.instructions) {
    if (in.decision < 0) continue;
    const auto first = static_cast<size_t>(in.decision), n = static_cast<size_t>(in.decision_length);
    const std::optional<Mutator> mutator = schedule::mutator_of(sketch.trace, in);
    TCC_CHECK(n <= kMaxParts, "a tile of {} parts", n);
    auto add_free = [&] {
      Free free = {first, n, sketch.trace};
      free.trace.instructions = {in};
      free.trace.instructions[0].decision = 0;
      free.trace.decisions.assign(n, 1);
      free_.push_back(std::move(free));
    };
    if (in.op == Op::kSampleTile) {
      if (mutator) by_mutator[static_cast<size_t>(*mutator)].push_back({0, Target::Kind::kFree, free_.size()});
      add_free();
    }
    if (in.op == Op::kSamplePerfectTile) {
      Tile tile = {first, n, static_cast<double>(schedule::integer(in, "max_innermost")), {}, 1, {}};
      for (size_t i = 0; i < n; ++i) tile.extent *= sketch.trace.decisions[first + i];
      tile.divisors = divisors_of(tile.extent);
      std::vector<double> factors(n, 1);
      if (!list_tilings(tile.extent, 0, factors, tile.max_innermost, tile.divisors, tile.table))
        tile.table.clear(), add_free();
      if (mutator) by_mutator[static_cast<size_t>(*mutator)].push_back({0, Target::Kind::kTile, tiles_.size()});
      tiles_.push_back(std::move(tile));
    } else if (in.op == Op::kSampleCategorical) {
      Choice choice = {first, {}};
      for (int64_t w : schedule::attribute(in, "weights"))
        choice.sums.push_back((choice.sums.empty() ? 0 : choice.sums.back()) + static_cast<double>(w));
      if (mutator) by_mutator[static_cast<size_t>(*mutator)].push_back({0, Target::Kind::kChoice, choices_.size()});
      choices_.push_back(std::move(choice));
    }
  }
  double sum = 0;
  for (size_t m = 0; m < by_mutator.size(); ++m)
    for (Target t : by_mutator[m]) {
      t.sum = sum += weights[m] / static_cast<double>(by_mutator[m].size());
      targets_.push_back(t);
    }
}

void DecisionSampler::draw_tile(const Tile& tile, DecisionColumns& columns, int64_t row, Rng& rng) const {
  const auto rows = static_cast<int64_t>(tile.table.size() / tile.parts);
  const double* factors = tile.table.data() + static_cast<size_t>(rng.below(rows)) * tile.parts;
  for (size_t i = 0; i < tile.parts; ++i) columns.at(tile.first + i, row) = factors[i];
}

void DecisionSampler::draw(DecisionColumns& columns, int64_t row, Rng& rng) const {
  columns.set(row, sketch_->trace.decisions);
  for (const Tile& tile : tiles_)
    if (!tile.table.empty()) draw_tile(tile, columns, row, rng);
  for (const Free& free : free_) {
    std::array<int64_t, kMaxParts> slots;
    const std::span<int64_t> decisions = std::span(slots).first(free.parts);
    for (size_t i = 0; i < free.parts; ++i) decisions[i] = sketch_->trace.decisions[free.first + i];
    schedule::draw_decisions(free.trace, decisions, rng);
    for (size_t i = 0; i < free.parts; ++i) columns.at(free.first + i, row) = static_cast<double>(decisions[i]);
  }
  for (const Choice& choice : choices_) columns.at(choice.slot, row) = static_cast<double>(pick(choice.sums, rng));
}

// Moves a divisor of one factor to another; the last factor keeps its limit.
bool DecisionSampler::mutate_tile(const Tile& tile, DecisionColumns& columns, int64_t row, Rng& rng) const {
  if (tile.parts < 2 || tile.extent < 2) return false;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const auto x = static_cast<size_t>(rng.below(static_cast<int64_t>(tile.parts)));
    double& from = columns.at(tile.first + x, row);
    if (from <= 1) continue;
    auto y = static_cast<size_t>(rng.below(static_cast<int64_t>(tile.parts) - 1));
    if (y >= x) ++y;
    // One of the divisors of the factor, 1 left out. Each of them divides the extent.
    const auto factor = static_cast<int64_t>(from);
    int64_t count = 0;
    for (size_t i = 1; i < tile.divisors.size() && tile.divisors[i] <= factor; ++i)
      count += factor % tile.divisors[i] == 0 ? 1 : 0;
    int64_t wanted = rng.below(count);
    size_t at = 1;
    while (factor % tile.divisors[at] != 0 || wanted-- > 0) ++at;
    const auto d = static_cast<double>(tile.divisors[at]);
    double& to = columns.at(tile.first + y, row);
    if (y + 1 == tile.parts && to * d > tile.max_innermost) continue;
    from /= d, to *= d;
    return true;
  }
  return false;
}

bool DecisionSampler::mutate_free(const Free& free, DecisionColumns& columns, int64_t row, Rng& rng) const {
  std::array<int64_t, kMaxParts> slots;
  const std::span<int64_t> decisions = std::span(slots).first(free.parts);
  for (size_t i = 0; i < free.parts; ++i) decisions[i] = static_cast<int64_t>(columns.at(free.first + i, row));
  if (!schedule::mutate(free.trace, decisions, weights_, rng)) return false;
  for (size_t i = 0; i < free.parts; ++i) columns.at(free.first + i, row) = static_cast<double>(decisions[i]);
  return true;
}

bool DecisionSampler::mutate(DecisionColumns& columns, int64_t row, Rng& rng) const {
  if (targets_.empty() || targets_.back().sum <= 0) return false;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double x = rng.uniform() * targets_.back().sum;
    const Target& target =
        *std::find_if(targets_.begin(), targets_.end() - 1, [&](const Target& t) { return x < t.sum; });
    if (target.kind == Target::Kind::kFree) {
      if (mutate_free(free_[target.index], columns, row, rng)) return true;
      continue;
    }
    if (target.kind == Target::Kind::kTile) {
      if (mutate_tile(tiles_[target.index], columns, row, rng)) return true;
      continue;
    }
    const Choice& choice = choices_[target.index];
    double& now = columns.at(choice.slot, row);
    double other = static_cast<double>(rng.below(std::ssize(choice.sums) - 1));
    if (other >= now) ++other;
    now = other;
    return true;
  }
  return false;
}

}  // namespace tcc::space
