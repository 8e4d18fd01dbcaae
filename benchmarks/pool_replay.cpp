#include "pool_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/support/rng.h"

namespace tcc::benchmarks {

PoolReplay::PoolReplay(const driver::PoolFeatures& all, uint64_t seed)
    : all_(all), samples_{.rows = features::Rows(*all.schema)} {
  for (const driver::PoolFeatures::Group& g : all.groups) {
    revealed_.emplace_back(g.samples.size(), false);
    if (!g.samples.empty() && g.best_seconds() > 0) order_.push_back(revealed_.size() - 1);
  }
  best_.assign(all.groups.size(), 0);
  Rng rng(seed);
  for (size_t i = order_.size(); i > 1; --i)
    std::swap(order_[i - 1], order_[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
}

void PoolReplay::reveal(size_t g, std::span<const float> scores, int64_t count) {
  for (int64_t i = 0; i < count; ++i) reveal_best(g, scores);
}

void PoolReplay::round(const cost::CostModel& model, int64_t each) {
  for (size_t g : order_) reveal(g, driver::score_group(model, all_.groups[g]), each);
}

void PoolReplay::teach(cost::CostModel& model, std::optional<uint64_t> next) {
  samples_.task = next;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const double seconds = samples_.seconds[i];
    samples_.throughputs[i] = seconds > 0 ? static_cast<float>(best_[groups_[i]] / seconds) : 0.f;
  }
  model.update(samples_);
}

double PoolReplay::found(size_t g) const {
  const std::vector<double>& seconds = all_.groups[g].seconds;
  return best_[g] > 0 ? best_[g] : *std::max_element(seconds.begin(), seconds.end());
}

double PoolReplay::value() const {
  double least = 0, all = 0;
  for (size_t g : order_) {
    const driver::PoolFeatures::Group& group = all_.groups[g];
    least += group.weight * group.best_seconds();
    all += group.weight * found(g);
  }
  return all > 0 ? least / all : 0;
}

double PoolReplay::mean_slowdown() const {
  double sum = 0;
  for (size_t g : order_) sum += std::log(found(g) / all_.groups[g].best_seconds());
  return order_.empty() ? 1 : std::exp(sum / static_cast<double>(order_.size()));
}

void PoolReplay::reveal_best(size_t g, std::span<const float> scores) {
  size_t best = scores.size();
  for (size_t i = 0; i < scores.size(); ++i)
    if (!revealed_[g][i] && scores[i] > -std::numeric_limits<float>::infinity() &&
        (best == scores.size() || scores[i] > scores[best]))
      best = i;
  if (best == scores.size()) return;
  revealed_[g][best] = true;
  const driver::PoolFeatures::Group& group = all_.groups[g];
  const double seconds = group.seconds[best];
  if (seconds > 0 && (best_[g] == 0 || seconds < best_[g])) best_[g] = seconds;
  samples_.rows.add(group.samples[best].row.values);
  samples_.throughputs.push_back(0);
  samples_.tasks.push_back(group.task);
  samples_.programs.push_back(&group.samples[best]);
  samples_.records.push_back(std::ssize(samples_.records) + 1);
  samples_.seconds.push_back(seconds);
  groups_.push_back(g);
}

}  // namespace tcc::benchmarks
