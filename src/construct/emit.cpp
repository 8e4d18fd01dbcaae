// Tiles as the decisions of a trace: each sampled factor gets its share of its level's tile, the outermost one is the
// quotient, and choices without a tile get the candidate that the rules below name.
//
//   axis i, n = 512, S0 grid | S1 level 2 | S2 level 1 | S3 level 0, sizes 8, 64, 256:  decisions [2, 4, 8, 8]
#include <algorithm>

#include "construct/tiles.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::construct {
namespace {

constexpr int64_t kStatements = 512;  // of unrolled loops of a GPU

// The largest candidate that is at most `wanted`; the smallest one where none is.
int64_t largest_choice(const std::vector<int64_t>& candidates, int64_t wanted) {
  size_t best = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool fits = candidates[i] <= wanted, best_fits = candidates[best] <= wanted;
    if (fits ? !best_fits || candidates[i] > candidates[best] : !best_fits && candidates[i] < candidates[best])
      best = i;
  }
  return static_cast<int64_t>(best);
}

// The sampled factors of a level, the innermost one first.
std::vector<size_t> factors_of(const Axis& axis, size_t level) {
  std::vector<size_t> out;
  size_t first = axis.factors.size();
  for (size_t i = axis.factors.size(); i-- > 0;)
    if (axis.factors[i].slot >= 0) first = i;
  for (size_t i = axis.factors.size(); i-- > first + 1;)
    if (axis.factors[i].slot >= 0 && axis.factors[i].level == static_cast<int>(level)) out.push_back(i);
  return out;
}

// Shares of one level's part of the tile. Virtual threads have theirs already; the innermost factor takes what its
// limit allows, the next one the rest.
void share(const Axis& axis, size_t level, int64_t part, int64_t vthreads, std::vector<int64_t>& decisions) {
  std::vector<size_t> plain;
  for (size_t i : factors_of(axis, level)) {
    if (axis.factors[i].part == Part::kVthread) {
      decisions[static_cast<size_t>(axis.factors[i].slot)] = vthreads;
      part /= vthreads;
    } else {
      plain.push_back(i);
    }
  }
  const size_t innermost = axis.factors.size() - 1;
  for (size_t k = 0; k < plain.size(); ++k) {
    int64_t mine = part;
    if (k + 1 < plain.size()) {
      const bool limited = axis.factors[innermost].slot >= 0 ? plain[k] == innermost : k == 0;
      if (limited && mine > axis.limit) {
        mine = axis.limit;
        while (mine > 1 && part % mine != 0) --mine;
      }
    }
    decisions[static_cast<size_t>(axis.factors[plain[k]].slot)] = mine;
    part /= mine;
  }
}

}  // namespace

std::vector<int64_t> Problem::unroll_candidates() const {
  for (const Categorical& c : nest_.choices)
    if (c.choice == Choice::kUnroll) return c.candidates;
  return {1};
}

std::vector<int64_t> Problem::decisions(const Tiles& tiles, std::vector<int64_t> given) const {
  for (size_t a = 0; a < axes(); ++a) {
    const Axis& axis = nest_.axes[a];
    if (!axis.is_sampled()) continue;
    int64_t inner = 1;
    for (size_t l = 0; l < levels(); ++l) {
      if (!adjustable(l, a)) continue;
      share(axis, l, tiles.size[l][a] / inner, tiles.vthreads[a], given);
      inner = tiles.size[l][a];
    }
    // The outermost factor is the quotient; others of the grid are left at 1.
    bool first = true;
    for (const Factor& f : axis.factors) {
      if (f.slot < 0) continue;
      if (first)
        given[static_cast<size_t>(f.slot)] = (axis.sampled + inner - 1) / inner;
      else if (f.level == kOutside)
        given[static_cast<size_t>(f.slot)] = 1;
      first = false;
    }
    if (axis.tail_slot >= 0) given[static_cast<size_t>(axis.tail_slot)] = axis.tail;
  }
  for (const Categorical& c : nest_.choices) {
    int64_t& choice = given[static_cast<size_t>(c.slot)];
    switch (c.choice) {
      case Choice::kUnroll:
        if (!machine_.gpu) {  // the fewest statements with which the model expects the best time
          double least = std::numeric_limits<double>::infinity();
          for (size_t i = 0; i < c.candidates.size(); ++i)
            if (const double s = cpu_seconds(tiles, static_cast<double>(c.candidates[i])); s < 0.999 * least)
              least = s, choice = static_cast<int64_t>(i);
          break;
        }
        choice = largest_choice(c.candidates, kStatements);
        break;
      case Choice::kVectorLength: {
        // The widest vector that every input's contiguous axis holds whole numbers of.
        int64_t widest = 1;
        for (int64_t n : c.candidates) {
          bool whole = true;
          for (const Access& access : nest_.accesses)
            for (size_t a = 0; a < axes(); ++a)
              if (!access.output && access.stride[a] == 1)
                whole &=
                    n * access.bytes <= ir::kMaxAccessBytes && static_cast<int64_t>(elements(tiles, 1, a)) % n == 0;
          if (whole) widest = std::max(widest, n);
        }
        choice = largest_choice(c.candidates, widest);
        break;
      }
      case Choice::kStages: {
        const double room = 2 * machine_.levels[1].capacity / std::max(footprint(tiles, 1, false), 1.0);
        choice = largest_choice(c.candidates, std::clamp<int64_t>(static_cast<int64_t>(room), 1, 3));
        break;
      }
      case Choice::kOther:
        break;
    }
  }
  return given;
}

}  // namespace tcc::construct
