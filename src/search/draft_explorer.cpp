#include "tcc/search/draft_explorer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "tcc/cost/draft_family.h"
#include "tcc/space/decision_columns.h"
#include "tcc/space/sketch_columns.h"
#include "tcc/support/hash.h"

namespace tcc::search {
namespace {

// Hashes of programs; 0 stands for none.
class SeenPrograms {
 public:
  // Forgets all, and makes room for `most`.
  void clear(size_t most) {
    slots_.assign(std::bit_ceil(2 * most + 2), 0);
    mask_ = slots_.size() - 1;
  }
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
  size_t mask_ = 0;
};

// The candidates of one sketch in one generation.
struct Group {
  Group(const space::Sketch& s, const schedule::MutatorWeights& weights)
      : sketch(&s), sampler(s, weights), now(s.trace.decisions.size()), next(now), met(now) {}

  const space::Sketch* sketch;
  space::DecisionSampler sampler;
  bool has_columns = false;
  analysis::ColumnProgram check, score;  // legal, decided, identity; seconds, family
  space::DecisionColumns now, next;
  space::DecisionColumns met;    // of `now`, those that are legal and new
  std::vector<int32_t> met_row;  // in `now`
  size_t certain = 0;            // of `met`; of the others only their kernels tell
  std::vector<std::vector<double>> outputs = std::vector<std::vector<double>>(3);
  std::vector<std::vector<double>> scores = std::vector<std::vector<double>>(2);
  double seconds(size_t i) const { return scores[0][i]; }  // of `met`
  uint64_t family(size_t i) const { return std::bit_cast<uint64_t>(scores[1][i]); }
};

struct Member {
  double seconds;
  int32_t sketch;
  int32_t row;  // of the generation's columns; of `kept` where it was kept before
  bool is_kept;
  uint64_t family;
};

}  // namespace

struct DraftExplorer::Impl {
  Impl(std::span<const space::Sketch> sketches, const target::Target& t, int64_t n,
       const schedule::MutatorWeights& weights, const ExplorerOptions& o)
      : machine(t), threads(n), options(o), arena(std::make_shared<Arena>()) {
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
      g.check = columns.builder.finish({columns.legal, columns.decided, columns.identity});
      g.score = columns.builder.finish({seconds, cost::draft_family(columns.builder, columns.nest)});
    }
  }

  std::vector<Drafted> explore(uint64_t seed, ExplorerCounts& counts, std::span<const Drafted> known, size_t parents,
                               const std::function<bool()>& stop) {
    Rng rng(seed);
    best.clear(), kept.clear(), free_rows.clear();
    beyond_limits = false;
    if (groups.empty()) return {};
    meet(known);
    for (int64_t generation = 0; generation < std::max<int64_t>(options.generations, 1); ++generation) {
      if (stop && stop()) break;
      for (Group& g : groups) g.next.clear();
      for (int64_t i = 0; i < options.population; ++i) {
        if (generation == 0 && parents > 0 && rng.uniform() < options.known_share)
          breed(known.first(std::min(parents, kParents)), rng);
        else if (generation == 0 || best.empty() || rng.uniform() < options.fresh_share)
          draw(i, generation, rng);
        else
          breed(rng);
      }
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
  static size_t parent_of(size_t count, Rng& rng) {
    const double u = rng.uniform();
    return static_cast<size_t>(u * u * static_cast<double>(count));
  }
  void breed(Rng& rng) {
    const Member& parent = best[parent_of(best.size(), rng)];
    add_child(parent.sketch, kept[static_cast<size_t>(parent.row)], rng);
  }
  void breed(std::span<const Drafted> known, Rng& rng) {
    const Drafted& parent = known[parent_of(known.size(), rng)];
    add_child(parent.sketch, parent.decisions, rng);
  }
  void add_child(int32_t sketch, std::span<const int64_t> decisions, Rng& rng) {
    Group& g = groups[static_cast<size_t>(sketch)];
    const int64_t row = g.next.add_row();
    g.next.set(row, decisions);
    do {
      if (!g.sampler.mutate(g.next, row, rng)) return;
    } while (rng.uniform() < kMutateAgain);
  }

  // Nothing but the known programs has been seen then.
  void meet(std::span<const Drafted> known) {
    seen.clear(static_cast<size_t>(options.population * std::max<int64_t>(options.generations, 1)) + known.size());
    if (known.empty()) return;
    for (Group& g : groups) g.now.clear();
    for (const Drafted& k : known) {
      Group& g = groups[static_cast<size_t>(k.sketch)];
      g.now.set(g.now.add_row(), k.decisions);
    }
    ExplorerCounts uncounted;
    judge(uncounted);
  }

  // Candidates that are legal and new.
  void judge(ExplorerCounts& counts) {
    fresh.clear();
    for (size_t s = 0; s < groups.size(); ++s) {
      Group& g = groups[s];
      const int64_t rows = g.now.rows();
      if (rows == 0) continue;
      if (g.has_columns) run(g.check, g.now, g.outputs);
      g.met_row.clear(), open.clear();
      for (int64_t row = 0; row < rows; ++row) {
        const auto at = static_cast<size_t>(row);
        const bool known = g.has_columns && g.outputs[1][at] != 0;
        if (!known) {
          if (g.has_columns)
            open.push_back(static_cast<int32_t>(row));
          else
            ask(s, static_cast<int32_t>(row), counts);
        } else if (g.outputs[0][at] == 0) {
          ++counts.rejected;
        } else if (!seen.insert(combine_hash(std::bit_cast<uint64_t>(g.outputs[2][at]), s))) {
          ++counts.duplicate;
        } else {
          ++counts.fresh;
          g.met_row.push_back(static_cast<int32_t>(row));
        }
      }
      g.certain = g.met_row.size();
      g.met_row.insert(g.met_row.end(), open.begin(), open.end());
      score(g, static_cast<int32_t>(s));
    }
    ask_promising(counts);
  }
  // Columns nearly know the others: their kernels are made where they might be among the best.
  void ask_promising(ExplorerCounts& counts) {
    std::vector<double> all;
    std::vector<std::vector<double>> of_sketch(groups.size());
    for (const std::vector<Member>* list : {&best, &fresh})
      for (const Member& m : *list)
        all.push_back(m.seconds), of_sketch[static_cast<size_t>(m.sketch)].push_back(m.seconds);
    const double bound = nth(all, options.drafts);
    for (size_t s = 0; s < groups.size(); ++s) {
      Group& g = groups[s];
      if (g.certain == g.met_row.size()) continue;
      const int64_t most = limit(options.sketch_share);
      const double own = most < options.drafts ? nth(of_sketch[s], most) : bound;
      for (size_t i = g.certain; i < g.met_row.size(); ++i)
        if (g.seconds(i) < own)
          ask(s, g.met_row[i], counts);
        else
          ++counts.passed;
      g.met_row.clear(), g.certain = 0;
    }
  }
  // How many of the drafts a share of them is.
  int64_t limit(double share) const {
    return std::max<int64_t>(std::llround(share * static_cast<double>(options.drafts)), 1);
  }
  // The n-th smallest; HUGE_VAL: there are fewer.
  static double nth(std::vector<double>& values, int64_t n) {
    if (n <= 0 || std::ssize(values) < n) return HUGE_VAL;
    std::nth_element(values.begin(), values.begin() + n - 1, values.end());
    return values[static_cast<size_t>(n) - 1];
  }
  void ask(size_t s, int32_t row, ExplorerCounts& counts) {
    ++counts.asked;
    double seconds = 0;
    uint64_t identity = 0, family = 0;
    if (!ask(groups[s], row, seconds, identity, family)) {
      ++counts.rejected;
    } else if (!seen.insert(combine_hash(identity, s))) {
      ++counts.duplicate;
    } else {
      ++counts.fresh;
      fresh.push_back({seconds, static_cast<int32_t>(s), row, false, family});
    }
  }
  // Most draws of a GPU's spaces are illegal: scores are computed for the others alone.
  void score(Group& g, int32_t sketch) {
    if (g.met_row.empty()) return;
    g.met.clear();
    for (size_t i = 0; i < g.met_row.size(); ++i) g.met.add_row();
    for (size_t slot = 0; slot < g.met.slots(); ++slot)
      for (size_t i = 0; i < g.met_row.size(); ++i)
        g.met.at(slot, static_cast<int64_t>(i)) = g.now.at(slot, g.met_row[i]);
    run(g.score, g.met, g.scores);
    for (size_t i = 0; i < g.certain; ++i) fresh.push_back({g.seconds(i), sketch, g.met_row[i], false, g.family(i)});
  }
  void run(const analysis::ColumnProgram& program, const space::DecisionColumns& columns,
           std::span<std::vector<double>> outputs) {
    const auto room = static_cast<size_t>((columns.rows() + kBlock - 1) / kBlock * kBlock);
    std::vector<double*> out;
    for (std::vector<double>& o : outputs) o.resize(std::max(o.size(), room)), out.push_back(o.data());
    program.run(columns.columns(), out, columns.rows(), scratch);
  }

  // By the kernel: a kernel with numbers gives columns that are constants.
  bool ask(const Group& g, int64_t row, double& seconds, uint64_t& identity, uint64_t& family) {
    arena->reset();
    const ir::Legal<ir::Kernel> nest = space::instantiate(*g.sketch, g.now.decisions(row), machine, arena);
    if (!nest) return false;
    analysis::ColumnBuilder b;
    analysis::NestColumns columns;
    std::string why;
    if (!analysis::nest_columns(b, *nest, {}, columns, why)) return false;
    seconds = b.known(cost::draft_seconds(b, columns, machine, threads, options.model)).value_or(HUGE_VAL);
    identity = ir::hash_kernel(*nest);
    // Of constants: one row without inputs.
    std::vector<double> value(kBlock);
    double* out[] = {value.data()};
    b.finish({cost::draft_family(b, columns)}).run({}, out, 1, scratch);
    family = std::bit_cast<uint64_t>(value[0]);
    return true;
  }

  // The best of those kept so far and the fresh ones. Equal estimates keep their order, so that the result is a
  // function of the seed.
  void keep_best() {
    auto better = [](const Member& x, const Member& y) { return x.seconds < y.seconds; };
    const auto n = static_cast<size_t>(options.drafts);
    if (best.size() == n && !beyond_limits)
      std::erase_if(fresh, [&](const Member& m) { return !better(m, best.back()); });
    std::stable_sort(fresh.begin(), fresh.end(), better);
    std::vector<Member> all(best.size() + fresh.size());
    std::merge(best.begin(), best.end(), fresh.begin(), fresh.end(), all.begin(), better);
    std::vector<Member> merged = within_limits(std::move(all));
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

  // The first ones, best first, of which no sketch and no family has more than its share; then others.
  std::vector<Member> within_limits(std::vector<Member> all) {
    const auto n = static_cast<size_t>(options.drafts);
    const int64_t of_sketch = limit(options.sketch_share), of_family = limit(options.family_share);
    std::vector<int64_t> sketches(groups.size(), 0);
    std::unordered_map<uint64_t, int64_t> families;
    std::vector<size_t> taken, others;
    size_t i = 0;
    for (; i < all.size() && taken.size() < n; ++i) {
      int64_t& own = sketches[static_cast<size_t>(all[i].sketch)];
      int64_t& alike = families[combine_hash(all[i].family, static_cast<uint64_t>(all[i].sketch))];
      if (own >= of_sketch || alike >= of_family) {
        others.push_back(i);
        continue;
      }
      ++own, ++alike;
      taken.push_back(i);
    }
    beyond_limits = taken.size() < n && !others.empty();
    others.resize(std::min(others.size(), n - taken.size()));
    taken.insert(taken.end(), others.begin(), others.end());
    std::sort(taken.begin(), taken.end());
    std::vector<Member> out;
    std::vector<bool> stays(all.size(), false);
    for (size_t at : taken) out.push_back(all[at]), stays[at] = true;
    for (size_t at = 0; at < all.size(); ++at)
      if (all[at].is_kept && !stays[at]) free_rows.push_back(all[at].row);
    return out;
  }

  static constexpr double kMutateAgain = 0.6;
  static constexpr size_t kParents = 32;  // of the known programs
  static constexpr int64_t kBlock = analysis::ColumnProgram::kBlock;

  const target::Target& machine;
  const int64_t threads;
  const ExplorerOptions options;
  std::vector<Group> groups;
  SeenPrograms seen;
  std::vector<Member> best, fresh;         // best first
  bool beyond_limits = false;              // `best` has more of a sketch or family than its share
  std::vector<std::vector<int64_t>> kept;  // decisions of `best`, and places that are free
  std::vector<int32_t> free_rows;          // in `kept`
  std::vector<int32_t> open;               // rows of a group that only their kernels tell of
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

std::vector<Drafted> DraftExplorer::explore(uint64_t seed, ExplorerCounts& counts, std::span<const Drafted> known,
                                            size_t parents, const std::function<bool()>& stop) {
  return impl_->explore(seed, counts, known, parents, stop);
}

std::span<const DraftExplorer::Without> DraftExplorer::without_columns() const {
  return impl_->without;
}

}  // namespace tcc::search
