#include "tcc/schedule/trace.h"

#include <algorithm>

#include "sampling.h"
#include "schedule/attributes.h"
#include "tcc/ir/stmt.h"
#include "tcc/ir/walk.h"
#include "tcc/schedule/mutation.h"
#include "tcc/support/hash.h"

namespace tcc::schedule {

uint64_t skeleton_hash(const Trace& trace) {
  uint64_t hash = 0x74726163u;
  for (const Instruction& in : trace.instructions) {
    hash = combine_hash(hash, stored_code(in.op));
    for (const Input& i : in.inputs)
      hash = combine_hash(hash, static_cast<uint64_t>(i.kind) * 0x10001 + static_cast<uint64_t>(i.value));
    for (uint64_t a : stored_codes(in)) hash = combine_hash(hash, a);
    hash = combine_hash(hash, hash_bytes(in.text));
    hash = combine_hash(hash, static_cast<uint64_t>(in.outputs));
  }
  return hash;
}

namespace {

std::span<int64_t> decision_of(const Instruction& in, std::span<int64_t> decisions) {
  if (in.decision < 0) return {};
  if (static_cast<size_t>(in.decision) + static_cast<size_t>(in.decision_length) > decisions.size()) return {};
  return decisions.subspan(static_cast<size_t>(in.decision), static_cast<size_t>(in.decision_length));
}

Legal<Kernel> execute(const Trace& trace, std::span<int64_t> decisions, const Kernel& start, const ArenaPtr& arena,
                      Mode mode, Rng* rng) {
  Executor executor(start, arena, mode, rng);
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const Instruction& in = trace.instructions[i];
    Legal<void> done = executor.run(in, decision_of(in, decisions));
    if (!done) {
      Reject r = std::move(done).error();
      r.text = fmt::format("instruction {} ({}): {}", i, op_name(in.op), r.text);
      return tl::make_unexpected(std::move(r));
    }
  }
  return executor.kernel();
}

}  // namespace

Legal<Kernel> replay(const Trace& trace, std::span<const int64_t> decisions, const Kernel& start, const ArenaPtr& arena,
                     std::vector<int64_t>* used) {
  std::vector<int64_t> copy(decisions.begin(), decisions.end());
  Legal<Kernel> k = execute(trace, copy, start, arena, Mode::kReplay, nullptr);
  if (used != nullptr) *used = std::move(copy);
  return k;
}

Legal<Kernel> sample(const Trace& trace, std::vector<int64_t>& decisions, const Kernel& start, const ArenaPtr& arena,
                     Rng& rng) {
  decisions.resize(trace.decisions.size());
  return execute(trace, decisions, start, arena, Mode::kSample, &rng);
}

namespace {

// Moves a divisor of one factor to another; the last factor keeps its limit.
bool mutate_perfect_tile(std::span<int64_t> factors, int64_t max_innermost, Rng& rng) {
  std::vector<size_t> movable;
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i] > 1) movable.push_back(i);
  if (factors.size() < 2 || movable.empty()) return false;
  for (int attempt = 0; attempt < 8; ++attempt) {
    size_t x = movable[static_cast<size_t>(rng.below(static_cast<int64_t>(movable.size())))];
    size_t y = static_cast<size_t>(rng.below(static_cast<int64_t>(factors.size()) - 1));
    if (y >= x) ++y;
    std::vector<int64_t> divisors;
    for (int64_t d = 2; d <= factors[x]; ++d)
      if (factors[x] % d == 0) divisors.push_back(d);
    int64_t d = divisors[static_cast<size_t>(rng.below(static_cast<int64_t>(divisors.size())))];
    if (y + 1 == factors.size() && factors[y] * d > max_innermost) continue;
    factors[x] /= d;
    factors[y] *= d;
    return true;
  }
  return false;
}

bool mutate_tile(std::span<int64_t> factors, int64_t extent, int64_t max_innermost, int64_t multiple, Rng& rng) {
  if (factors.size() < 2) return false;
  size_t i = 1 + static_cast<size_t>(rng.below(static_cast<int64_t>(factors.size()) - 1));
  bool last = i + 1 == factors.size();
  int64_t step = last ? std::max<int64_t>(multiple, 1) : 1, old = factors[i];
  int64_t limit = last ? std::min(max_innermost, extent) : extent;
  int64_t next = old;
  switch (rng.below(4)) {
    case 0:
      next = old + step;
      break;
    case 1:
      next = old - step;
      break;
    case 2:
      next = old * 2;
      break;
    default:
      next = old / 2;
      break;
  }
  if (last && step > 1) next = next / step * step;
  next = std::clamp<int64_t>(next, std::min(step, limit), limit);
  if (next == old) return false;
  factors[i] = next;
  repair_tile(extent, factors);
  return true;
}

}  // namespace

void draw_decisions(const Trace& trace, std::span<int64_t> decisions, Rng& rng) {
  for (const Instruction& in : trace.instructions) {
    std::span<int64_t> d = decision_of(in, decisions);
    if (d.empty()) continue;
    if (in.op == Op::kSamplePerfectTile) {
      int64_t extent = 1;
      for (int64_t f : d) extent *= f;
      draw_perfect_tile(extent, integer(in, "max_innermost"), rng, d);
    } else if (in.op == Op::kSampleTile) {
      draw_tile(integer(in, "extent"), integer(in, "max_innermost"), integer(in, "multiple"), rng,
                d.first(d.size() - 1));
      d.back() = draw_tail(integer(in, "tails"), rng);
    } else if (in.op == Op::kSampleCategorical) {
      const std::span<const int64_t> weights = attribute(in, "weights");
      d[0] = rng.weighted(std::vector<double>(weights.begin(), weights.end()));
    }
  }
}

namespace {

bool is_choice(const Instruction& in) {
  return in.op == Op::kSampleCategorical && attribute(in, "candidates").size() >= 2;
}

// What may be mutated, by mutator.
using Mutable = std::array<std::vector<const Instruction*>, kMutators>;

Mutable mutable_instructions(const Trace& trace) {
  Mutable out;
  for (const Instruction& in : trace.instructions)
    if (std::optional<Mutator> m = mutator_of(trace, in)) out[static_cast<size_t>(*m)].push_back(&in);
  return out;
}

// Another decision of one of these.
bool mutate_one_of(const std::vector<const Instruction*>& pool, std::span<int64_t> decisions, Rng& rng) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Instruction& in = *pool[static_cast<size_t>(rng.below(static_cast<int64_t>(pool.size())))];
    std::span<int64_t> d = decision_of(in, decisions);
    if (d.empty()) return false;
    if (in.op == Op::kSamplePerfectTile) {
      if (mutate_perfect_tile(d, integer(in, "max_innermost"), rng)) return true;
    } else if (in.op == Op::kSampleTile) {
      if (const int64_t tails = integer(in, "tails"); tails != 1 && rng.below(8) == 0) {
        d.back() = draw_tail(tails, rng);
        return true;
      }
      if (mutate_tile(d.first(d.size() - 1), integer(in, "extent"), integer(in, "max_innermost"),
                      integer(in, "multiple"), rng))
        return true;
    } else {
      const auto n = std::ssize(attribute(in, "candidates"));
      int64_t other = rng.below(n - 1);
      if (other >= d[0]) ++other;
      d[0] = other;
      return true;
    }
  }
  return false;
}

}  // namespace

MutatorWeights mutator_weights(bool gpu) {
  if (gpu) return {0.90, 0, 0.08, 0.02, 0.02};
  return {0.90, 0.05, 0.03, 0.02, 0};
}

namespace {

// Do the iterations of the loop run on threads: is it, or what it is fused into, bound to them?
bool runs_on_threads(const Trace& trace, int loop) {
  for (const Instruction& user : trace.instructions) {
    if (std::find(user.inputs.begin(), user.inputs.end(), variable(loop)) == user.inputs.end()) continue;
    if (user.op == Op::kBind) return ir::is_thread(enumerator<ir::Axis>(user, "axis"));
    if (user.op == Op::kFuse) return runs_on_threads(trace, user.first_output);
  }
  return false;
}

// Of the loops that the split makes, those whose extent is `factor`.
bool binds_factor(const Trace& trace, const Instruction& split, const Input& factor) {
  for (size_t i = 1; i < split.inputs.size(); ++i)
    if (split.inputs[i] == factor && runs_on_threads(trace, split.first_output + static_cast<int>(i) - 1)) return true;
  return false;
}

}  // namespace

std::optional<Mutator> mutator_of(const Trace& trace, const Instruction& instruction) {
  if (instruction.op == Op::kSamplePerfectTile || instruction.op == Op::kSampleTile)
    return instruction.outputs >= 2 ? std::optional(Mutator::kTile) : std::nullopt;
  if (instruction.op == Op::kSampleComputeLocation) return Mutator::kComputeLocation;
  if (!is_choice(instruction)) return std::nullopt;
  const Input value = variable(instruction.first_output);
  for (const Instruction& user : trace.instructions) {
    if (std::find(user.inputs.begin(), user.inputs.end(), value) == user.inputs.end()) continue;
    if (user.op == Op::kSplit && binds_factor(trace, user, value)) return Mutator::kThreadBinding;
    if (user.op != Op::kAnnotate) continue;
    const auto key = enumerator<ir::AnnotationKey>(user, "key");
    if (key == ir::AnnotationKey::kUnrollMax) return Mutator::kUnroll;
    if (key == ir::AnnotationKey::kPersistentBlocks) return Mutator::kParallel;
  }
  return Mutator::kTile;
}

bool mutate(const Trace& trace, std::span<int64_t> decisions, const MutatorWeights& weights, Rng& rng) {
  Mutable all = mutable_instructions(trace);
  all[static_cast<size_t>(Mutator::kComputeLocation)].clear();
  MutatorWeights left = weights;
  double total = 0;
  for (size_t m = 0; m < kMutators; ++m) {
    if (all[m].empty()) left[m] = 0;
    total += left[m];
  }
  if (total <= 0) return false;
  return mutate_one_of(all[static_cast<size_t>(rng.weighted(left))], decisions, rng);
}

bool mutate(const Trace& trace, std::span<int64_t> decisions, Rng& rng) {
  std::vector<const Instruction*> tiles, others;
  for (const Instruction& in : trace.instructions) {
    if (in.op == Op::kSamplePerfectTile || in.op == Op::kSampleTile) {
      if (in.outputs >= 2) tiles.push_back(&in);
    } else if (is_choice(in)) {
      others.push_back(&in);
    }
  }
  if (tiles.empty() && others.empty()) return false;
  bool tile = !tiles.empty() && (others.empty() || rng.uniform() < 0.9);
  return mutate_one_of(tile ? tiles : others, decisions, rng);
}

}  // namespace tcc::schedule
