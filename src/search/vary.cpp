#include "search/vary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tcc/support/hash.h"

namespace tcc::search {

using schedule::Instruction;
using schedule::Op;

namespace {

constexpr int kMaxMutations = 4;
constexpr double kMutateAgain = 0.4;

std::span<const int64_t> of(const Instruction& in, std::span<const int64_t> decisions) {
  return decisions.subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
}
std::span<int64_t> of(const Instruction& in, std::span<int64_t> decisions) {
  return decisions.subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
}

bool is_tile(const Instruction& in) {
  return in.op == Op::kSamplePerfectTile || in.op == Op::kSampleTile;
}
// A free tile's last decision is its tail mode.
size_t factors_of(const Instruction& in) {
  return static_cast<size_t>(in.decision_length) - (in.op == Op::kSampleTile ? 1 : 0);
}

double distance(int64_t x, int64_t y) {
  return std::fabs(std::log2(static_cast<double>(std::max<int64_t>(x, 1))) -
                   std::log2(static_cast<double>(std::max<int64_t>(y, 1))));
}

int64_t nearest_divisor(int64_t n, int64_t wanted, int64_t limit) {
  int64_t best = 1;
  for (int64_t d = 1; d <= std::min(n, limit); ++d)
    if (n % d == 0 && distance(d, wanted) < distance(best, wanted)) best = d;
  return best;
}

// `out` holds a legal tiling, which tells the extent.
void transfer_perfect_tile(std::span<const int64_t> wanted, int64_t max_innermost, std::span<int64_t> out) {
  int64_t rest = 1;
  for (int64_t f : out) rest *= f;
  for (size_t i = out.size(); i-- > 1;) {
    out[i] = nearest_divisor(rest, wanted[i], i + 1 == out.size() ? max_innermost : rest);
    rest /= out[i];
  }
  out[0] = rest;
}

void transfer_tile(std::span<const int64_t> wanted, const Instruction& to, std::span<int64_t> out) {
  const int64_t extent = schedule::integer(to, "extent");
  int64_t rest = extent;
  for (size_t i = out.size(); i-- > 1;) {
    bool last = i + 1 == out.size();
    int64_t step = last ? std::max<int64_t>(schedule::integer(to, "multiple"), 1) : 1;
    int64_t limit = last ? std::min(schedule::integer(to, "max_innermost"), extent) : rest;
    int64_t factor = step > 1 ? wanted[i] / step * step : wanted[i];
    out[i] = std::clamp<int64_t>(factor, std::min(step, limit), limit);
    rest = (rest + out[i] - 1) / out[i];
  }
  out[0] = rest;
}

void transfer_choice(int64_t index, const Instruction& from, const Instruction& to, int64_t& out) {
  const std::span<const int64_t> known = schedule::attribute(from, "candidates");
  const std::span<const int64_t> candidates = schedule::attribute(to, "candidates");
  if (index < 0 || index >= std::ssize(known)) return;
  const int64_t wanted = known[static_cast<size_t>(index)];
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i)
    if (distance(candidates[i], wanted) < distance(candidates[best], wanted)) best = i;
  out = static_cast<int64_t>(best);
}

}  // namespace

bool mutate_some(const space::Sketch& sketch, std::span<int64_t> decisions, const schedule::MutatorWeights& weights,
                 Rng& rng) {
  bool changed = false;
  for (int i = 0; i < kMaxMutations; ++i) {
    changed |= schedule::mutate(sketch.trace, decisions, weights, rng);
    if (rng.uniform() >= kMutateAgain) break;
  }
  return changed;
}

std::vector<std::vector<int64_t>> neighbours(const space::Sketch& sketch, std::span<const int64_t> decisions) {
  std::vector<std::vector<int64_t>> out;
  auto add = [&](const Instruction& in, auto&& change) {
    std::vector<int64_t> other(decisions.begin(), decisions.end());
    change(of(in, std::span<int64_t>(other)));
    out.push_back(std::move(other));
  };
  for (const Instruction& in : sketch.trace.instructions) {
    if (in.decision < 0) continue;
    const std::span<const int64_t> now = of(in, decisions);
    if (in.op == Op::kSampleCategorical) {
      for (int64_t i = 0; i < std::ssize(schedule::attribute(in, "candidates")); ++i)
        if (i != now[0]) add(in, [&](std::span<int64_t> d) { d[0] = i; });
    } else if (in.op == Op::kSamplePerfectTile) {
      const int64_t limit = schedule::integer(in, "max_innermost");
      for (size_t from = 0; from < now.size(); ++from)
        for (int64_t prime : {2, 3, 5, 7})
          for (size_t to = 0; to < now.size() && now[from] % prime == 0; ++to)
            if (to != from && (to + 1 < now.size() || now[to] * prime <= limit))
              add(in, [&](std::span<int64_t> d) { d[from] /= prime, d[to] *= prime; });
    }
  }
  return out;
}

std::vector<int64_t> cross(const space::Sketch& sketch, std::span<const int64_t> a, std::span<const int64_t> b,
                           Rng& rng) {
  std::vector<int64_t> out(a.begin(), a.end());
  for (const Instruction& in : sketch.trace.instructions) {
    if (in.decision < 0 || rng.below(2) == 0) continue;
    std::span<const int64_t> from = of(in, b);
    std::copy(from.begin(), from.end(), of(in, std::span<int64_t>(out)).begin());
  }
  return out;
}

std::vector<int64_t> transfer_decisions(const schedule::Trace& from, std::span<const int64_t> decisions,
                                        const space::Sketch& to, std::span<const int64_t> otherwise) {
  std::vector<int64_t> out(otherwise.begin(), otherwise.end());
  // Tiles of a kind are those with as many factors; the k-th of `to` meets the k-th of `from`.
  auto kind = [](const Instruction& in) {
    return is_tile(in) ? std::pair(Op::kSampleTile, factors_of(in))
                       : std::pair(in.op, static_cast<size_t>(in.decision_length));
  };
  std::map<std::pair<Op, size_t>, std::vector<const Instruction*>> known;
  for (const Instruction& in : from.instructions)
    if (in.decision >= 0 && static_cast<size_t>(in.decision + in.decision_length) <= decisions.size())
      known[kind(in)].push_back(&in);
  std::map<std::pair<Op, size_t>, size_t> next;
  for (const Instruction& in : to.trace.instructions) {
    if (in.decision < 0 || in.op == Op::kSampleComputeLocation) continue;
    const std::vector<const Instruction*>& candidates = known[kind(in)];
    size_t k = next[kind(in)]++;
    if (k >= candidates.size()) continue;
    const Instruction& source = *candidates[k];
    std::span<const int64_t> wanted = of(source, decisions);
    std::span<int64_t> d = of(in, std::span<int64_t>(out));
    if (in.op == Op::kSamplePerfectTile) {
      transfer_perfect_tile(wanted.first(factors_of(source)), schedule::integer(in, "max_innermost"), d);
    } else if (in.op == Op::kSampleTile) {
      transfer_tile(wanted.first(factors_of(source)), in, d.first(factors_of(in)));
      if (source.op == Op::kSampleTile && (schedule::integer(in, "tails") >> wanted.back() & 1) != 0)
        d.back() = wanted.back();
    } else {
      transfer_choice(wanted[0], source, in, d[0]);
    }
  }
  return out;
}

uint64_t shape_hash(const schedule::Trace& trace) {
  uint64_t hash = 0x73686170u;
  for (const Instruction& in : trace.instructions) {
    hash = combine_hash(hash, static_cast<uint64_t>(is_tile(in) ? Op::kSampleTile : in.op));
    hash = combine_hash(hash, hash_bytes(in.text));
    hash = combine_hash(hash, static_cast<uint64_t>(in.outputs));
  }
  return hash;
}

}  // namespace tcc::search
