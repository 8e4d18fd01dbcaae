#include "tcc/cost/active_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tcc/support/check.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::cost {
namespace {

constexpr std::string_view kNames[] = {
#define TCC_X(name, text) text,
    TCC_SAMPLERS(TCC_X)
#undef TCC_X
};

constexpr int64_t kDrawnPerPick = 64;  // candidates of balto for one place

// What of each class may still be chosen, so that no class takes the budget of another.
class Quota {
 public:
  Quota(std::span<const int32_t> classes, const std::vector<bool>& taken, int64_t budget) : classes_(classes) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < classes.size(); ++i) {
      TCC_CHECK(classes[i] >= 0, "program {} is of class {}", i, classes[i]);
      const auto c = static_cast<size_t>(classes[i]);
      if (c >= sizes.size()) sizes.resize(c + 1, 0);
      if (!taken[i]) ++sizes[c];
    }
    left_ = split_budget(budget, sizes);
  }
  bool open(size_t i) const { return left_[static_cast<size_t>(classes_[i])] > 0; }
  void take(size_t i) { --left_[static_cast<size_t>(classes_[i])]; }

 private:
  std::span<const int32_t> classes_;
  std::vector<int64_t> left_;
};

// The sums of the chosen scores, for their variance with one more: u = M/(M+1) * Var + M/(M+1)^2 * (f - mean)^2.
class Moments {
 public:
  void add(double f) { ++n_, sum_ += f, squares_ += f * f; }
  double variance_with(double f) const {
    if (n_ == 0) return 0;
    const double n = static_cast<double>(n_), mean = sum_ / n;
    const double own = std::max(0.0, squares_ / n - mean * mean);
    return n / (n + 1) * own + n / ((n + 1) * (n + 1)) * (f - mean) * (f - mean);
  }

 private:
  int64_t n_ = 0;
  double sum_ = 0, squares_ = 0;
};

struct Scale {
  double mean = 0, deviation = 1;
  double operator()(double x) const { return (x - mean) / deviation; }
};
Scale scale_of(const std::vector<double>& values) {
  Scale s;
  const double n = static_cast<double>(std::max<size_t>(values.size(), 1));
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (double v : values) squares += (v - s.mean) * (v - s.mean);
  s.deviation = std::max(std::sqrt(squares / n), 1e-12);
  return s;
}

std::vector<int64_t> rdu(const SamplingPool& pool, std::vector<bool> taken, std::span<const int64_t> chosen,
                         int64_t budget, bool standardize) {
  const size_t n = pool.scores.size();
  Quota quota(pool.classes, taken, budget);
  Moments moments;
  // With nothing chosen yet, distances are those from nowhere: equal for all.
  std::vector<double> nearest(n, chosen.empty() ? 1.0 : std::numeric_limits<double>::infinity());
  const auto add = [&](double f) {
    moments.add(f);
    for (size_t i = 0; i < n; ++i) nearest[i] = std::min(nearest[i], std::abs(pool.scores[i] - f));
  };
  for (int64_t c : chosen) add(pool.scores[static_cast<size_t>(c)]);
  std::vector<int64_t> picks;
  Scale first, second;
  if (standardize) {
    std::vector<double> products, variances;
    for (size_t i = 0; i < n; ++i) {
      if (taken[i]) continue;
      products.push_back(pool.scores[i] * nearest[i]);
      variances.push_back(moments.variance_with(pool.scores[i]));
    }
    first = scale_of(products), second = scale_of(variances);
  }
  while (std::ssize(picks) < budget) {
    size_t best = n;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < n; ++i) {
      // Algorithm 1 as printed asks an exhausted class again and again; here its programs leave the pool.
      if (taken[i] || !quota.open(i)) continue;
      const double f = pool.scores[i];
      const double t = first(f * nearest[i]) + second(moments.variance_with(f));
      if (t > most) most = t, best = i;
    }
    if (best == n) break;
    taken[best] = true;
    quota.take(best);
    picks.push_back(static_cast<int64_t>(best));
    add(pool.scores[best]);
  }
  return picks;
}

std::vector<int64_t> at_random(std::vector<int64_t> left, int64_t budget, Rng& rng) {
  for (size_t i = 0; i < left.size() && static_cast<int64_t>(i) < budget; ++i)
    std::swap(left[i], left[i + static_cast<size_t>(rng.below(static_cast<int64_t>(left.size() - i)))]);
  left.resize(static_cast<size_t>(std::min<int64_t>(budget, std::ssize(left))));
  return left;
}

std::vector<int64_t> alt(const SamplingPool& pool, std::vector<int64_t> left, int64_t budget) {
  TCC_CHECK(pool.spreads.size() == pool.scores.size(), "{} spreads for {} programs", pool.spreads.size(),
            pool.scores.size());
  std::stable_sort(left.begin(), left.end(), [&](int64_t x, int64_t y) {
    return pool.spreads[static_cast<size_t>(x)] > pool.spreads[static_cast<size_t>(y)];
  });
  left.resize(static_cast<size_t>(std::min<int64_t>(budget, std::ssize(left))));
  return left;
}

std::vector<int64_t> balto(const SamplingPool& pool, std::vector<int64_t> left, std::span<const int64_t> chosen,
                           int64_t budget, Rng& rng) {
  const auto width = static_cast<size_t>(pool.width);
  TCC_CHECK(pool.features.size() == pool.scores.size() * width, "{} features for {} programs of {}",
            pool.features.size(), pool.scores.size(), width);
  const auto distance = [&](int64_t x, int64_t y) {
    double sum = 0;
    for (size_t d = 0; d < width; ++d) {
      const double by =
          pool.features[static_cast<size_t>(x) * width + d] - pool.features[static_cast<size_t>(y) * width + d];
      sum += by * by;
    }
    return sum;
  };
  std::vector<double> nearest(pool.scores.size(), std::numeric_limits<double>::infinity());
  const auto add = [&](int64_t c) {
    for (int64_t i : left) nearest[static_cast<size_t>(i)] = std::min(nearest[static_cast<size_t>(i)], distance(i, c));
  };
  for (int64_t c : chosen) add(c);
  std::vector<double> weights;
  for (int64_t i : left) weights.push_back(std::max(static_cast<double>(pool.scores[static_cast<size_t>(i)]), 1e-3));
  std::vector<int64_t> picks;
  while (std::ssize(picks) < budget && picks.size() < left.size()) {
    size_t best = left.size();
    for (int64_t draw = 0; draw < kDrawnPerPick; ++draw) {
      const auto at = static_cast<size_t>(rng.weighted(weights));
      if (best == left.size() || nearest[static_cast<size_t>(left[at])] > nearest[static_cast<size_t>(left[best])])
        best = at;
    }
    weights[best] = 0;
    picks.push_back(left[best]);
    add(left[best]);
  }
  return picks;
}

}  // namespace

std::span<const std::string_view> sampler_names() {
  return kNames;
}

Result<Sampler> find_sampler(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<Sampler>(i);
  const std::vector<std::string> known(std::begin(kNames), std::end(kNames));
  return make_error(ErrorClass::kUsage, fmt::format("expected a sampler, found '{}'", sanitize(std::string(name))),
                    suggest(std::string(name), known));
}

std::vector<int64_t> split_budget(int64_t total, std::span<const int64_t> sizes) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> parts(sizes.size(), 0);
  if (all == 0 || total <= 0) return parts;
  total = std::min(total, all);
  std::vector<std::pair<double, size_t>> remainders;
  int64_t given = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double share = static_cast<double>(total) * static_cast<double>(sizes[i]) / static_cast<double>(all);
    parts[i] = std::min(sizes[i], static_cast<int64_t>(share));
    given += parts[i];
    remainders.push_back({share - static_cast<double>(parts[i]), i});
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  for (size_t r = 0; given < total; r = (r + 1) % remainders.size()) {
    int64_t& part = parts[remainders[r].second];
    if (part < sizes[remainders[r].second]) ++part, ++given;
  }
  return parts;
}

std::vector<int64_t> choose_programs(const SamplingPool& pool, std::span<const int64_t> chosen, int64_t budget,
                                     const SamplingOptions& options) {
  TCC_CHECK(pool.classes.size() == pool.scores.size(), "{} classes for {} programs", pool.classes.size(),
            pool.scores.size());
  std::vector<bool> taken(pool.scores.size(), false);
  for (int64_t c : chosen) taken[static_cast<size_t>(c)] = true;
  std::vector<int64_t> left;
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i]) left.push_back(static_cast<int64_t>(i));
  Rng rng(options.seed);
  switch (options.sampler) {
    case Sampler::kRdu:
      return rdu(pool, std::move(taken), chosen, budget, options.standardize);
    case Sampler::kRandom:
      return at_random(std::move(left), budget, rng);
    case Sampler::kAlt:
      return alt(pool, std::move(left), budget);
    case Sampler::kBalto:
      return balto(pool, std::move(left), chosen, budget, rng);
  }
  return {};
}

}  // namespace tcc::cost
