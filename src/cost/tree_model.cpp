// Gradient-boosted regression trees (Friedman 2001) on the log-scaled throughput of programs, squared loss, histogram
// splits. The base is the target's prior, fitted to each task by an offset and to all by one slope, so that a
// few samples already correct it instead of replacing it.
//
// Where the task at hand has few samples among many of other tasks, a model of all of them would hardly notice it. So
// the others are learnt first, and what they leave of the task's own samples is fitted by a step of its own, which
// begins at their prediction as that begins at the estimate: transfer by boosting. The first step is kept as long as
// its samples are the same.
//
// Several forests are grown on reweighted samples (the Bayesian bootstrap, Rubin 1981) and see a part of the features
// each: their mean varies less than one forest does, and their disagreement tells what has not been seen. Fast programs
// weigh more, as in MetaSchedule's loss: a search asks for the order among them. All draws come from fixed seeds: the
// same samples give the same trees.
#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "tcc/cost/cost_model.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::cost {
namespace {

constexpr size_t kMinSamples = 16, kMinOwn = 8;
constexpr size_t kForests = 4;
constexpr int kTrees = 30, kDepth = 5, kBins = 32;
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

// The score so far, `base`, is the feature behind those of the row.
float predict_tree(const Tree& tree, std::span<const float> row, float base) {
  size_t at = 0;
  while (tree[at].feature >= 0) {
    auto f = static_cast<size_t>(tree[at].feature);
    float v = f < row.size() ? row[f] : base;
    at = static_cast<size_t>(v <= tree[at].threshold ? tree[at].left : tree[at].right);
  }
  return tree[at].value;
}

// Columns of the training set as bin numbers, and the upper edge of each bin.
struct Binned {
  std::vector<std::vector<uint8_t>> bins;  // [feature][sample]
  std::vector<std::vector<float>> edges;   // [feature][bin]
};

void add_bins(const std::vector<float>& column, Binned& out) {
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

// A slope for the score so far and trees for what that leaves.
struct Step {
  float slope = 1;
  std::vector<Tree> trees;
};
// One of the models whose mean is the prediction.
using Member = std::vector<Step>;

float score_of(const Member& member, std::span<const float> row, float prior) {
  float score = prior;
  for (const Step& step : member) {
    float value = step.slope * score;
    for (const Tree& tree : step.trees) value += predict_tree(tree, row, score);
    score = value;
  }
  return score;
}

// Tasks differ in scale, and only the order within one counts.
void centre_by_task(std::vector<double>& values, const std::vector<uint64_t>& tasks) {
  std::map<uint64_t, std::pair<double, double>> sums;
  for (size_t i = 0; i < values.size(); ++i) sums[tasks[i]].first += values[i], sums[tasks[i]].second += 1;
  for (size_t i = 0; i < values.size(); ++i) values[i] -= sums[tasks[i]].first / sums[tasks[i]].second;
}

// Some of the samples, as a step is fitted to them.
class Training {
 public:
  // `priors`: the prior's scores of all samples.
  Training(const Samples& samples, const std::vector<float>& priors, const std::vector<uint32_t>& which) {
    const size_t width = samples.rows.empty() ? 0 : samples.rows.width();
    std::vector<float> column(which.size());
    for (size_t f = 0; f < width; ++f) {
      for (size_t i = 0; i < which.size(); ++i) column[i] = samples.rows[which[i]][f];
      add_bins(column, binned_);
    }
    for (uint32_t i : which) {
      const auto throughput = static_cast<double>(samples.throughputs[i]);
      rows_.push_back(samples.rows[i]);
      priors_.push_back(priors[i]);
      tasks_.push_back(samples.tasks[i]);
      target_.push_back(std::log2(std::max(samples.throughputs[i], kFloor)));
      weight_.push_back((kSlowWeight + throughput) *
                        (samples.weights.empty() ? 1.0 : static_cast<double>(samples.weights[i])));
    }
    centre_by_task(target_, tasks_);
  }

  void add_step(Member& member, Rng rng) const {
    std::vector<float> base(rows_.size());
    for (size_t i = 0; i < base.size(); ++i) base[i] = score_of(member, rows_[i], priors_[i]);
    std::vector<double> centred(base.begin(), base.end());
    centre_by_task(centred, tasks_);
    Step step;
    step.slope = fit_slope(centred);
    std::vector<double> residual(base.size());
    for (size_t i = 0; i < base.size(); ++i) residual[i] = target_[i] - static_cast<double>(step.slope) * centred[i];
    step.trees = grow_trees(base, std::move(residual), std::move(rng));
    member.push_back(std::move(step));
  }

 private:
  std::vector<Tree> grow_trees(const std::vector<float>& base, std::vector<double> residual, Rng rng) const {
    Binned binned = binned_;
    add_bins(base, binned);
    std::vector<double> weight = weight_;
    for (double& w : weight) w *= -std::log(1 - rng.uniform());
    std::vector<Tree> trees;
    std::vector<bool> use(binned.bins.size());
    for (int t = 0; t < kTrees; ++t) {
      for (size_t f = 0; f < use.size(); ++f) use[f] = rng.uniform() < kFeatureShare;
      use.back() = true;  // the score so far
      Tree tree = TreeBuilder(binned, residual, weight, use).build();
      for (size_t i = 0; i < residual.size(); ++i)
        residual[i] -= static_cast<double>(predict_tree(tree, rows_[i], base[i]));
      trees.push_back(std::move(tree));
    }
    return trees;
  }

  // Ridge towards 1: the score so far is taken at its word until the samples contradict it.
  float fit_slope(const std::vector<double>& x) const {
    Eigen::Map<const Eigen::VectorXd> ex(x.data(), static_cast<Eigen::Index>(x.size())),
        ey(target_.data(), static_cast<Eigen::Index>(target_.size()));
    double slope = (ex.dot(ey) + 8.0) / (ex.dot(ex) + 8.0);
    return static_cast<float>(std::clamp(slope, 0.0, 2.0));
  }

  Binned binned_;
  std::vector<std::span<const float>> rows_;
  std::vector<float> priors_;
  std::vector<uint64_t> tasks_;
  std::vector<double> target_, weight_;
};

uint64_t hash_of(const Samples& samples, const std::vector<uint32_t>& which) {
  uint64_t hash = which.size();
  auto add = [&](const void* data, size_t bytes) {
    hash = hash_bytes(std::string_view(static_cast<const char*>(data), bytes), hash);
  };
  for (uint32_t i : which) {
    std::span<const float> row = samples.rows[i];
    add(row.data(), row.size_bytes());
    add(&samples.throughputs[i], sizeof(float)), add(&samples.tasks[i], sizeof(uint64_t));
    if (!samples.weights.empty()) add(&samples.weights[i], sizeof(float));
  }
  return hash;
}

class TreeModel : public CostModel {
 public:
  explicit TreeModel(std::unique_ptr<CostModel> prior) : prior_(std::move(prior)) {}

  const features::Schema& schema() const override { return prior_->schema(); }
  void predict(const features::Batch& rows, std::span<float> scores) const override { run(rows, scores, {}); }
  void predict_spread(const features::Batch& rows, std::span<float> scores, std::span<float> spreads) const override {
    run(rows, scores, spreads);
  }

  void update(const Samples& samples) override {
    const size_t n = samples.rows.size();
    TCC_CHECK(n == samples.throughputs.size() && n == samples.tasks.size());
    TCC_CHECK(samples.weights.empty() || samples.weights.size() == n);
    std::vector<uint32_t> others, own;
    for (uint32_t i = 0; i < n; ++i) (samples.task == samples.tasks[i] ? own : others).push_back(i);
    members_.clear();
    if (n < kMinSamples) return;
    if (others.size() < kMinSamples) {  // too few for a step of their own
      others.insert(others.end(), own.begin(), own.end());
      own.clear();
    }
    std::vector<float> priors(n);
    prior_->predict(samples.rows, priors);
    learn_first(samples, priors, others);
    members_ = first_;
    if (own.size() < kMinOwn) return;
    const Training training(samples, priors, own);
    for (size_t m = 0; m < kForests; ++m) training.add_step(members_[m], Rng(kForests + m));
  }
  bool trained() const override { return !members_.empty(); }

 private:
  void learn_first(const Samples& samples, const std::vector<float>& priors, const std::vector<uint32_t>& which) {
    const uint64_t hash = hash_of(samples, which);
    if (!first_.empty() && hash == first_hash_) return;
    first_.assign(kForests, {});
    first_hash_ = hash;
    const Training training(samples, priors, which);
    for (size_t m = 0; m < kForests; ++m) training.add_step(first_[m], Rng(m));
  }

  void run(const features::Batch& rows, std::span<float> scores, std::span<float> spreads) const {
    TCC_CHECK(rows.size() == scores.size() && (spreads.empty() || spreads.size() == scores.size()));
    prior_->predict(rows, scores);
    std::fill(spreads.begin(), spreads.end(), 0.f);
    if (members_.empty()) return;
    for (size_t i = 0; i < scores.size(); ++i) {
      std::array<float, kForests> each = {};
      float mean = 0, squares = 0;
      for (size_t m = 0; m < kForests; ++m) mean += (each[m] = score_of(members_[m], rows[i], scores[i])) / kForests;
      for (float score : each) squares += (score - mean) * (score - mean) / kForests;
      scores[i] = mean;
      if (!spreads.empty()) spreads[i] = std::sqrt(squares);
    }
  }

  std::unique_ptr<CostModel> prior_;
  std::vector<Member> members_, first_;  // first_: without the task's own step
  uint64_t first_hash_ = 0;
};

}  // namespace

std::unique_ptr<CostModel> make_tree_model(std::unique_ptr<CostModel> prior) {
  return std::make_unique<TreeModel>(std::move(prior));
}

}  // namespace tcc::cost
