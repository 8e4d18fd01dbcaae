#include "tcc/search/draft_explorer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tcc/space/decision_columns.h"
#include "tcc/space/sketch_columns.h"
#include "tcc/support/hash.h"

namespace tcc::search {
namespace {

// Hashes of programs; 0 stands for none.
class SeenPrograms {
 public:
  explicit SeenPrograms(size_t most) : slots_(std::bit_ceil(2 * most + 2), 0), mask_(slots_.size() - 1) {}
  void clear() { std::fill(slots_.begin(), slots_.end(), 0); }
  // False: it was there.
  bool insert(uint64_t hash) {
    hash |= hash == 0 ? 1 : 0;
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      if (slots_[at] == hash) return false;
      if (slots_[at] != 0) continue;
      slots_[at] = hash;
      return true;
    }
  }

 private:
  std::vector<uint64_t> slots_;
  size_t mask_;
};

// The candidates of one sketch in one generation.
struct Group {
  Group(const space::Sketch& s, const schedule::MutatorWeights& weights)
      : sketch(&s), sampler(s, weights), now(s.trace.decisions.size()), next(s.trace.decisions.size()) {}

  const space::Sketch* sketch;
  space::DecisionSampler sampler;
  bool has_columns = false;
  analysis::ColumnProgram program;  // legal, decided, seconds, identity
  space::DecisionColumns now, next;
  std::vector<std::vector<double>> outputs = std::vector<std::vector<double>>(4);
};

struct Member {
  double seconds;
  int32_t sketch;
  int32_t row;  // of the generation's columns; of `kept` where it was kept before
  bool is_kept;
};

}  // namespace

struct DraftExplorer::Impl {
  Impl(std::span<const space::Sketch> sketches, const target::Target& t, int64_t n,
       const schedule::MutatorWeights& weights, const ExplorerOptions& o)
      : machine(t),
        threads(n),
        options(o),
        seen(static_cast<size_t>(o.population * std::max<int64_t>(o.generations, 1))),
        arena(std::make_shared<Arena>()) {
    for (size_t i = 0; i < sketches.size(); ++i) {
      Group& g = groups.emplace_back(sketches[i], weights);
      space::SketchColumns columns;
      std::string why;
      g.has_columns = space::sketch_columns(sketches[i], machine, columns, why);
      if (!g.has_columns) {
        without.push_back({static_cast<int32_t>(i), why});
        continue;
      }
      const auto seconds = cost::draft_seconds(columns.builder, columns.nest, machine, threads, options.model);
      g.program = columns.builder.finish({columns.legal, columns.decided, seconds, columns.identity});
    }
  }

  std::vector<Drafted> explore(uint64_t seed, ExplorerCounts& counts) {
    Rng rng(seed);
    seen.clear();
    best.clear(), kept.clear(), free_rows.clear();
    if (groups.empty()) return {};
    for (int64_t generation = 0; generation < std::max<int64_t>(options.generations, 1); ++generation) {
      for (Group& g : groups) g.next.clear();
      for (int64_t i = 0; i < options.population; ++i)
        generation == 0 || best.empty() || rng.uniform() < options.fresh_share ? draw(i, generation, rng) : breed(rng);
      counts.made += options.population;
      for (Group& g : groups) std::swap(g.now, g.next);
      judge(counts);
      keep_best();
    }
    std::vector<Drafted> out;
    for (const Member& m : best) out.push_back({m.sketch, kept[static_cast<size_t>(m.row)], m.seconds});
    return out;
  }

 private:
  // The first generation serves the sketches in turn.
  void draw(int64_t i, int64_t generation, Rng& rng) {
    const auto n = static_cast<int64_t>(groups.size());
    Group& g = groups[static_cast<size_t>(generation == 0 ? i % n : rng.below(n))];
    g.sampler.draw(g.next, g.next.add_row(), rng);
  }
  // Parents by rank among the best: the first ones have most children.
  void breed(Rng& rng) {
    const double u = rng.uniform();
    const Member& parent = best[static_cast<size_t>(u * u * static_cast<double>(best.size()))];
    Group& g = groups[static_cast<size_t>(parent.sketch)];
    const int64_t row = g.next.add_row();
    g.next.set(row, kept[static_cast<size_t>(parent.row)]);
    do {
      if (!g.sampler.mutate(g.next, row, rng)) return;
    } while (rng.uniform() < kMutateAgain);
  }

  // Candidates that are legal and new.
  void judge(ExplorerCounts& counts) {
    fresh.clear();
    for (size_t s = 0; s < groups.size(); ++s) {
      Group& g = groups[s];
      const int64_t rows = g.now.rows();
      if (rows == 0) continue;
      if (g.has_columns) {
        const auto room = static_cast<size_t>((rows + kBlock - 1) / kBlock * kBlock);
        std::vector<double*> out;
        for (std::vector<double>& o : g.outputs) o.resize(std::max(o.size(), room)), out.push_back(o.data());
        g.program.run(g.now.columns(), out, rows, scratch);
      }
      for (int64_t row = 0; row < rows; ++row) {
        const auto at = static_cast<size_t>(row);
        double seconds = 0;
        uint64_t identity = 0;
        bool legal = false;
        if (g.has_columns && g.outputs[1][at] != 0) {
          legal = g.outputs[0][at] != 0, seconds = g.outputs[2][at];
          identity = std::bit_cast<uint64_t>(g.outputs[3][at]);
        } else {
          ++counts.asked;
          legal = ask(g, row, seconds, identity);
        }
        if (!legal) {
          ++counts.rejected;
        } else if (!seen.insert(combine_hash(identity, s))) {
          ++counts.duplicate;
        } else {
          ++counts.fresh;
          fresh.push_back({seconds, static_cast<int32_t>(s), static_cast<int32_t>(row), false});
        }
      }
    }
  }

  // By the kernel: a kernel with numbers gives columns that are constants.
  bool ask(const Group& g, int64_t row, double& seconds, uint64_t& identity) {
    arena->reset();
    const ir::Legal<ir::Kernel> nest = space::instantiate(*g.sketch, g.now.decisions(row), machine, arena);
    if (!nest) return false;
    analysis::ColumnBuilder b;
    analysis::NestColumns columns;
    std::string why;
    if (!analysis::nest_columns(b, *nest, {}, columns, why)) return false;
    seconds = b.known(cost::draft_seconds(b, columns, machine, threads, options.model)).value_or(HUGE_VAL);
    identity = ir::hash_kernel(*nest);
    return true;
  }

  // The best of those kept so far and the fresh ones. Equal estimates keep their order, so that the result is a
  // function of the seed.
  void keep_best() {
    auto better = [](const Member& x, const Member& y) { return x.seconds < y.seconds; };
    const auto n = static_cast<size_t>(options.drafts);
    if (best.size() == n) std::erase_if(fresh, [&](const Member& m) { return !better(m, best.back()); });
    std::stable_sort(fresh.begin(), fresh.end(), better);
    if (fresh.size() > n) fresh.resize(n);
    std::vector<Member> merged(best.size() + fresh.size());
    std::merge(best.begin(), best.end(), fresh.begin(), fresh.end(), merged.begin(), better);
    for (size_t i = n; i < merged.size(); ++i)
      if (merged[i].is_kept) free_rows.push_back(merged[i].row);
    if (merged.size() > n) merged.resize(n);
    for (Member& m : merged) {
      if (m.is_kept) continue;
      std::vector<int64_t> decisions = groups[static_cast<size_t>(m.sketch)].now.decisions(m.row);
      m.is_kept = true;
      if (free_rows.empty()) {
        m.row = static_cast<int32_t>(kept.size());
        kept.push_back(std::move(decisions));
      } else {
        m.row = free_rows.back(), free_rows.pop_back();
        kept[static_cast<size_t>(m.row)] = std::move(decisions);
      }
    }
    best = std::move(merged);
  }

  static constexpr double kMutateAgain = 0.6;
  static constexpr int64_t kBlock = analysis::ColumnProgram::kBlock;

  const target::Target& machine;
  const int64_t threads;
  const ExplorerOptions options;
  std::vector<Group> groups;
  SeenPrograms seen;
  std::vector<Member> best, fresh;         // best first
  std::vector<std::vector<int64_t>> kept;  // decisions of `best`, and places that are free
  std::vector<int32_t> free_rows;          // in `kept`
  std::vector<double> scratch;
  ArenaPtr arena;

 public:
  std::vector<Without> without;
};

DraftExplorer::DraftExplorer(std::span<const space::Sketch> sketches, const target::Target& target, int64_t threads,
                             const schedule::MutatorWeights& weights, const ExplorerOptions& options)
    : impl_(std::make_unique<Impl>(sketches, target, threads, weights, options)) {}
DraftExplorer::~DraftExplorer() = default;
DraftExplorer::DraftExplorer(DraftExplorer&&) noexcept = default;

std::vector<Drafted> DraftExplorer::explore(uint64_t seed, ExplorerCounts& counts) {
  return impl_->explore(seed, counts);
}

std::span<const DraftExplorer::Without> DraftExplorer::without_columns() const {
  return impl_->without;
}

}  // namespace tcc::search
