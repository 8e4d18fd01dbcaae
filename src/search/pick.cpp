#include "search/pick.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tcc::search {
namespace {

class Picker {
 public:
  Picker(const TaskState& state, std::vector<Individual> candidates, const PickOptions& options)
      : state_(state), options_(options), all_(std::move(candidates)) {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Individual& x, const Individual& y) { return x.score > y.score; });
    alike_.assign(all_.size(), 0.f);
    taken_.assign(all_.size(), false);
    of_sketch_.assign(state.sketches.size(), 0);
    scale_features();
    find_twins();
  }

  std::vector<Individual> run() {
    std::vector<size_t> best = best_of_sketches();
    auto n = static_cast<double>(options_.count);
    if (options_.first_round) {
      auto turns =
          static_cast<size_t>(std::ceil((options_.informed ? settings_.informed_share : settings_.first_share) * n));
      for (size_t i = 0; i < best.size() && i < turns; ++i) take(best[i]);
    } else if (!options_.exploit && best.size() > 1) {
      take_by_confidence(best, static_cast<size_t>(std::max(1.0, std::floor(settings_.bandit_share * n))));
    }
    if (options_.model != nullptr && settings_.families > 0) take_families();
    while (!full() && (take_next(true) || take_next(false))) {
    }
    if (options_.model != nullptr && settings_.families > 0) sort_picks();
    return std::move(out_);
  }

 private:
  bool full() const { return std::ssize(out_) >= options_.count; }
  bool is_full(int32_t sketch) const {
    return static_cast<double>(of_sketch_[static_cast<size_t>(sketch)]) >=
           settings_.max_sketch_share * static_cast<double>(options_.count);
  }

  // The first candidate of each sketch, best first.
  std::vector<size_t> best_of_sketches() const {
    std::vector<bool> seen(state_.sketches.size(), false);
    std::vector<size_t> out;
    for (size_t i = 0; i < all_.size(); ++i) {
      auto sketch = static_cast<size_t>(all_[i].sketch);
      if (seen[sketch]) continue;
      seen[sketch] = true;
      out.push_back(i);
    }
    return out;
  }

  void take_by_confidence(const std::vector<size_t>& best, size_t turns) {
    std::vector<double> visits(state_.sketches.size(), 0);
    for (const Known& k : state_.known)
      if (k.sketch >= 0) ++visits[static_cast<size_t>(k.sketch)];
    auto bound = [&](size_t i) {
      double n = visits[static_cast<size_t>(all_[i].sketch)], total = static_cast<double>(state_.known.size());
      return static_cast<double>(all_[i].score) + settings_.bandit_bonus * std::sqrt(std::log(total + 1) / (n + 1));
    };
    std::vector<size_t> order = best;
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return bound(x) > bound(y); });
    // The leader by score needs no help.
    std::erase(order, best[0]);
    for (size_t i = 0; i < order.size() && i < turns; ++i) take(order[i]);
  }

  // The best of each family, best first: those within reach of the best, and others as far as half of the places go.
  void take_families() {
    const auto places = static_cast<int64_t>(settings_.families * static_cast<double>(main_picks()));
    std::set<uint64_t> seen;
    for (size_t i = 0; i < all_.size() && std::ssize(out_) < places; ++i) {
      const bool near = all_[i].score >= all_[0].score - static_cast<float>(settings_.family_reach);
      if (!near && std::ssize(out_) >= (places + 1) / 2) break;
      if (!taken_[i] && !is_full(all_[i].sketch) && seen.insert(options_.model->family(all_[i].sample.row)).second)
        take(i);
    }
  }

  int64_t main_picks() const { return std::max<int64_t>(options_.count - settings_.spare, 1); }

  void sort_picks() {
    auto better = [](const Individual& x, const Individual& y) { return x.score > y.score; };
    const auto main = out_.begin() + std::min<int64_t>(main_picks(), std::ssize(out_));
    std::stable_sort(out_.begin(), main, better);
    std::stable_sort(main, out_.end(), better);
  }

  // `within_share`: of a sketch that has not had its share of the places.
  bool take_next(bool within_share) {
    const auto alike = static_cast<float>(options_.first_round ? settings_.alike_first
                                          : options_.exploit   ? settings_.alike_last
                                                               : settings_.alike);
    size_t best = all_.size(), looked = 0;
    const auto limit = static_cast<size_t>(settings_.looked_at * options_.count);
    for (size_t i = 0; i < all_.size() && looked < limit; ++i) {
      if (taken_[i] || (within_share && is_full(all_[i].sketch))) continue;
      ++looked;
      if (best == all_.size() || all_[i].score - alike * alike_[i] > all_[best].score - alike * alike_[best]) best = i;
    }
    if (best == all_.size()) return false;
    take(best);
    return true;
  }

  void take(size_t i) {
    if (full() || taken_[i]) return;
    taken_[i] = true;
    ++of_sketch_[static_cast<size_t>(all_[i].sketch)];
    out_.push_back(all_[i]);
    for (size_t k = 0; k < all_.size(); ++k)
      if (!taken_[k]) alike_[k] = std::max(alike_[k], likeness(all_[i], all_[k]));
  }

  // What no feature tells from a measured program is often the same code, by a limit that nothing reaches, and nearly
  // as fast where it is not.
  void find_twins() {
    std::set<features::Row> measured;
    for (const Known& k : state_.known)
      if (!k.sample.empty()) measured.insert(k.sample.row);
    for (size_t i = 0; i < all_.size(); ++i)
      if (measured.contains(all_[i].sample.row)) alike_[i] = 1;
  }

  void scale_features() {
    auto n = static_cast<float>(std::max<size_t>(all_.size(), 1));
    const size_t width = all_.empty() ? 0 : all_[0].sample.row.values.size();
    std::vector<float> sum(width), squares(width);
    for (const Individual& i : all_)
      for (size_t f = 0; f < width; ++f) sum[f] += i.sample.row[f] / n;
    for (const Individual& i : all_)
      for (size_t f = 0; f < width; ++f) squares[f] += (i.sample.row[f] - sum[f]) * (i.sample.row[f] - sum[f]) / n;
    for (float s : squares) scale_.push_back(s > 1e-12f ? 1 / s : 0);
  }

  // 1: no feature differs; towards 0 where they differ as candidates do on average.
  float likeness(const Individual& x, const Individual& y) const {
    const features::Row &a = x.sample.row, &b = y.sample.row;
    float sum = 0;
    for (size_t f = 0; f < scale_.size(); ++f) sum += (a[f] - b[f]) * (a[f] - b[f]) * scale_[f];
    return std::exp(-4 * sum / static_cast<float>(std::max<size_t>(scale_.size(), 1)));
  }

  const TaskState& state_;
  const PickOptions options_;
  const Settings::Picking& settings_ = options_.settings;
  std::vector<Individual> all_, out_;
  std::vector<int64_t> of_sketch_;  // how many of each were picked
  std::vector<float> alike_;
  std::vector<bool> taken_;
  std::vector<float> scale_;  // of the columns: 1 / their sums of squares
};

bool stalled(const TaskState& state, double least_gain) {
  const std::vector<double>& best = state.history;
  if (best.size() < 2 || best.back() <= 0) return false;
  const double before = best[best.size() - 2];
  return before > 0 && best.back() > (1 - least_gain) * before;
}

}  // namespace

std::vector<Individual> pick_programs(const TaskState& state, std::vector<Individual> candidates,
                                      const PickOptions& options) {
  return Picker(state, std::move(candidates), options).run();
}

std::vector<Individual> pick_round(const Round& round, std::vector<Individual> unmeasured,
                                   const std::vector<Individual>& random_part, std::span<const uint64_t> seeded,
                                   bool exploit) {
  const TaskState& state = round.state;
  const Settings::Picking& settings = round.settings.picking;
  const int64_t count = round.plan.count;
  const bool first_round = fastest_known(state.known, 1).empty();
  std::vector<Individual> out;
  std::set<uint64_t> taken;
  auto take = [&](const Individual& i) {
    if (std::ssize(out) < count && taken.insert(i.nest_hash).second) out.push_back(i);
  };
  const auto seeded_count = static_cast<int64_t>(std::ceil(settings.seeded_share * static_cast<double>(count)));
  // What was best elsewhere is measured first and in the order of the seeds, before this task's own trials say more.
  for (size_t k = 0; k < seeded.size() && state.known.empty() && std::ssize(out) < seeded_count; ++k)
    if (auto it = std::find_if(unmeasured.begin(), unmeasured.end(),
                               [&](const Individual& i) { return i.nest_hash == seeded[k]; });
        it != unmeasured.end())
      take(*it);
  // The estimate that the first round goes by is wrong about some family of tasks; random draws show it where.
  const double wanted = round.options.explore;
  const bool informed = round.model.trained();
  const double explore = std::max(
      wanted, first_round && !informed ? settings.first_random : settings.early_random * (1 - 2 * round.plan.progress));
  const double share = wanted > 0 && !exploit ? explore * static_cast<double>(count) : 0;
  auto random = static_cast<int64_t>(std::floor(share + round.rng.fork(0x726e64).uniform()));
  Rng rng = round.rng.fork(0x7069636b);
  const auto seeds = static_cast<size_t>(std::ssize(out));
  if (wanted > 0 && !exploit && stalled(state, settings.stalled_gain)) {
    const auto fresh = static_cast<int64_t>(settings.stalled_share * static_cast<double>(count));
    for (const Individual& i :
         pick_programs(state, random_part, {.count = fresh, .informed = informed, .settings = settings}))
      take(i);
  }
  for (int64_t k = 0; k < random && !exploit && !random_part.empty() && count > 1; ++k)
    take(random_part[static_cast<size_t>(rng.below(std::ssize(random_part)))]);
  std::erase_if(unmeasured, [&](const Individual& i) { return taken.count(i.nest_hash) != 0; });
  PickOptions options{.count = count - std::ssize(out),
                      .first_round = first_round,
                      .exploit = exploit,
                      .informed = informed,
                      .settings = settings,
                      .model = &round.model};
  std::vector<Individual> picked = pick_programs(state, std::move(unmeasured), options);
  // What promises most goes first, because a run may end within the round; the random ones are spread evenly.
  std::vector<Individual> drawn(std::make_move_iterator(out.begin() + static_cast<std::ptrdiff_t>(seeds)),
                                std::make_move_iterator(out.end()));
  out.resize(seeds);
  const size_t total = picked.size() + drawn.size();
  for (size_t i = 0, next_drawn = 0, next_picked = 0; i < total; ++i) {
    const bool random_turn = (i + 1) * drawn.size() / total != i * drawn.size() / total;
    out.push_back(std::move(random_turn ? drawn[next_drawn++] : picked[next_picked++]));
  }
  return out;
}

}  // namespace tcc::search
