// Gradient-boosted regression trees (Friedman 2001) on the log-scaled throughput of programs, squared loss, histogram
// splits. The base is the hand-written estimate, fitted to each task by an offset and to all by one slope, so that a
// few samples already correct it instead of replacing it.
//
// Several forests are grown on reweighted samples (the Bayesian bootstrap, Rubin 1981) and see a part of the features
// each: their mean varies less than one forest does, and their disagreement tells what has not been seen. Fast programs
// weigh more, as in MetaSchedule's loss: a search asks for the order among them. All draws come from fixed seeds: the
// same samples give the same trees.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "cost/rule_model.h"
#include "tcc/cost/cost_model.h"
#include "tcc/features/features.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::cost {
namespace {

constexpr size_t kMinSamples = 16;
constexpr int kForests = 4, kTrees = 30, kDepth = 5, kBins = 32;
constexpr double kRate = 0.2, kLambda = 1.0, kMinGain = 1e-3, kFeatureShare = 0.6;
constexpr double kSlowWeight = 0.3;  // of the slowest; the fastest weigh 1 more
constexpr float kFloor = 1.0f / 64;  // of a throughput: failures and the very slow look alike

struct Node {
  int feature = -1;  // -1: a leaf
  float threshold = 0;
  int left = 0, right = 0;
  float value = 0;
};
using Tree = std::vector<Node>;

float predict_tree(const Tree& tree, std::span<const float> row, float rule) {
  size_t at = 0;
  while (tree[at].feature >= 0) {
    auto f = static_cast<size_t>(tree[at].feature);
    float v = f < row.size() ? row[f] : rule;
    at = static_cast<size_t>(v <= tree[at].threshold ? tree[at].left : tree[at].right);
  }
  return tree[at].value;
}

// Columns of the training set as bin numbers, and the upper edge of each bin.
struct Binned {
  std::vector<std::vector<uint8_t>> bins;  // [feature][sample]
  std::vector<std::vector<float>> edges;   // [feature][bin]
};

Binned make_bins(const std::vector<std::vector<float>>& columns) {
  Binned out;
  for (const std::vector<float>& column : columns) {
    std::vector<float> sorted = column;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::vector<float> edges;
    size_t bins = std::min<size_t>(kBins, sorted.size());
    for (size_t b = 1; b <= bins; ++b) edges.push_back(sorted[b * sorted.size() / bins - 1]);
    std::vector<uint8_t> codes(column.size());
    for (size_t i = 0; i < column.size(); ++i)
      codes[i] = static_cast<uint8_t>(std::lower_bound(edges.begin(), edges.end(), column[i]) - edges.begin());
    out.bins.push_back(std::move(codes));
    out.edges.push_back(std::move(edges));
  }
  return out;
}

class TreeBuilder {
 public:
  // Features without `use` are not looked at.
  TreeBuilder(const Binned& data, const std::vector<double>& residual, const std::vector<double>& weight,
              const std::vector<bool>& use)
      : data_(data), residual_(residual), weight_(weight), use_(use) {}

  Tree build() {
    std::vector<uint32_t> all(residual_.size());
    std::iota(all.begin(), all.end(), 0);
    grow(all, 0);
    return std::move(tree_);
  }

 private:
  struct Split {
    int feature = -1;
    size_t bin = 0;
    double gain = kMinGain;
  };

  Split best_split(const std::vector<uint32_t>& samples, double sum, double n) const {
    Split best;
    double base = sum * sum / (n + kLambda);
    for (size_t f = 0; f < data_.bins.size(); ++f) {
      if (data_.edges[f].size() < 2 || !use_[f]) continue;
      const uint8_t* bins = data_.bins[f].data();
      double sums[kBins] = {}, weights[kBins] = {};
      int counts[kBins] = {};
      for (uint32_t i : samples) {
        sums[bins[i]] += weight_[i] * residual_[i];
        weights[bins[i]] += weight_[i];
        ++counts[bins[i]];
      }
      double left = 0, left_n = 0;
      int left_count = 0;
      for (size_t b = 0; b + 1 < data_.edges[f].size(); ++b) {
        left += sums[b], left_n += weights[b], left_count += counts[b];
        if (left_count < 2 || static_cast<int>(samples.size()) - left_count < 2) continue;
        double right = sum - left;
        double gain = left * left / (left_n + kLambda) + right * right / (n - left_n + kLambda) - base;
        if (gain > best.gain) best = {static_cast<int>(f), b, gain};
      }
    }
    return best;
  }

  int grow(const std::vector<uint32_t>& samples, int depth) {
    int at = static_cast<int>(tree_.size());
    tree_.emplace_back();
    double sum = 0, n = 0;
    for (uint32_t i : samples) sum += weight_[i] * residual_[i], n += weight_[i];
    Split split;
    if (depth < kDepth && samples.size() >= 4) split = best_split(samples, sum, n);
    if (split.feature < 0) {
      tree_[static_cast<size_t>(at)].value = static_cast<float>(kRate * sum / (n + kLambda));
      return at;
    }
    std::vector<uint32_t> low, high;
    auto f = static_cast<size_t>(split.feature);
    for (uint32_t i : samples) (data_.bins[f][i] <= split.bin ? low : high).push_back(i);
    int left = grow(low, depth + 1), right = grow(high, depth + 1);
    tree_[static_cast<size_t>(at)] = {split.feature, data_.edges[f][split.bin], left, right, 0};
    return at;
  }

  const Binned& data_;
  const std::vector<double>& residual_;
  const std::vector<double>& weight_;
  const std::vector<bool>& use_;
  Tree tree_;
};

class TreeModel : public CostModel {
 public:
  void predict(Span2D<const float> features, std::span<float> scores) const override { run(features, scores, {}); }
  void predict_spread(Span2D<const float> features, std::span<float> scores, std::span<float> spreads) const override {
    run(features, scores, spreads);
  }

  void update(const Samples& samples) override {
    size_t n = samples.features.rows();
    TCC_CHECK(n == samples.throughputs.size() && n == samples.tasks.size());
    TCC_CHECK(samples.weights.empty() || samples.weights.size() == n);
    slope_ = 1;
    forests_.clear();
    if (n < kMinSamples) return;
    size_t width = samples.features.cols();
    std::vector<double> target(n), rule(n), weight(n);
    std::vector<std::vector<float>> columns(width + 1, std::vector<float>(n));
    for (size_t i = 0; i < n; ++i) {
      target[i] = std::log2(std::max(samples.throughputs[i], kFloor));
      rule[i] = static_cast<double>(rule_score(samples.features.row(i)));
      weight[i] = (kSlowWeight + static_cast<double>(samples.throughputs[i])) *
                  (samples.weights.empty() ? 1.0 : static_cast<double>(samples.weights[i]));
      for (size_t f = 0; f < width; ++f) columns[f][i] = samples.features(i, f);
      columns[width][i] = static_cast<float>(rule[i]);
    }
    centre_by_task(target, samples.tasks);
    std::vector<double> centred = rule;
    centre_by_task(centred, samples.tasks);
    fit_slope(centred, target);
    // Residuals about each task's own mean: tasks differ in scale, and only the order within one counts.
    std::vector<double> residual(n);
    for (size_t i = 0; i < n; ++i) residual[i] = target[i] - static_cast<double>(slope_) * centred[i];
    Binned binned = make_bins(columns);
    for (uint64_t f = 0; f < kForests; ++f)
      forests_.push_back(grow_forest(samples, binned, rule, residual, weight, Rng(f)));
  }
  bool trained() const override { return !forests_.empty(); }

 private:
  using Forest = std::vector<Tree>;

  static Forest grow_forest(const Samples& samples, const Binned& binned, const std::vector<double>& rule,
                            std::vector<double> residual, std::vector<double> weight, Rng rng) {
    for (double& w : weight) w *= -std::log(1 - rng.uniform());
    Forest forest;
    std::vector<bool> use(binned.bins.size());
    for (int t = 0; t < kTrees; ++t) {
      for (size_t f = 0; f < use.size(); ++f) use[f] = rng.uniform() < kFeatureShare;
      use.back() = true;  // the estimate
      Tree tree = TreeBuilder(binned, residual, weight, use).build();
      for (size_t i = 0; i < residual.size(); ++i)
        residual[i] -= static_cast<double>(predict_tree(tree, samples.features.row(i), static_cast<float>(rule[i])));
      forest.push_back(std::move(tree));
    }
    return forest;
  }

  void run(Span2D<const float> features, std::span<float> scores, std::span<float> spreads) const {
    TCC_CHECK(features.rows() == scores.size() && (spreads.empty() || spreads.size() == scores.size()));
    for (size_t i = 0; i < scores.size(); ++i) {
      std::span<const float> row = features.row(i);
      float rule = rule_score(row), sum = 0, squares = 0;
      for (const Forest& forest : forests_) {
        float value = 0;
        for (const Tree& tree : forest) value += predict_tree(tree, row, rule);
        sum += value, squares += value * value;
      }
      auto n = static_cast<float>(std::max<size_t>(forests_.size(), 1));
      scores[i] = slope_ * rule + sum / n;
      if (!spreads.empty()) spreads[i] = std::sqrt(std::max(squares / n - sum / n * (sum / n), 0.f));
    }
  }

  static void centre_by_task(std::vector<double>& values, std::span<const uint64_t> tasks) {
    std::map<uint64_t, std::pair<double, double>> sums;
    for (size_t i = 0; i < values.size(); ++i) sums[tasks[i]].first += values[i], sums[tasks[i]].second += 1;
    for (size_t i = 0; i < values.size(); ++i) values[i] -= sums[tasks[i]].first / sums[tasks[i]].second;
  }
  // Ridge towards 1: the estimate is taken at its word until the samples contradict it.
  void fit_slope(const std::vector<double>& x, const std::vector<double>& y) {
    Eigen::Map<const Eigen::VectorXd> ex(x.data(), static_cast<Eigen::Index>(x.size())),
        ey(y.data(), static_cast<Eigen::Index>(y.size()));
    double slope = (ex.dot(ey) + 8.0) / (ex.dot(ex) + 8.0);
    slope_ = static_cast<float>(std::clamp(slope, 0.0, 2.0));
  }

  float slope_ = 1;
  std::vector<Forest> forests_;
};

}  // namespace

std::unique_ptr<CostModel> make_tree_model() {
  return std::make_unique<TreeModel>();
}

}  // namespace tcc::cost
