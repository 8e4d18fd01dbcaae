// Ridge regression (Hoerl and Kennard 1970) of what the prior leaves of the log2 of the throughput, on the columns of
// the rows. Rows and throughputs are taken relative to the means of their task, for only the order within one counts.
// It learns from few samples and cannot learn interactions: the cheapest learner beside the trees.
#include <Eigen/Dense>
#include <cmath>
#include <map>

#include "tcc/cost/cost_model.h"
#include "tcc/support/check.h"

namespace tcc::cost {
namespace {

constexpr size_t kMinSamples = 16;
constexpr double kRidge = 4;         // in samples
constexpr float kFloor = 1.0f / 64;  // of a throughput: failures and the very slow look alike

class LinearModel : public CostModel {
 public:
  explicit LinearModel(std::unique_ptr<CostModel> prior) : prior_(std::move(prior)) {}

  const features::Schema& schema() const override { return prior_->schema(); }
  bool trained() const override { return slopes_.size() > 0; }

  void predict(const features::Batch& rows, std::span<float> scores) const override {
    prior_->predict(rows, scores);
    for (size_t i = 0; trained() && i < scores.size(); ++i)
      scores[i] += static_cast<float>(row_of(rows, i).cwiseProduct(scale_).dot(slopes_));
  }

  void update(const Samples& samples) override {
    const size_t n = samples.rows.size();
    TCC_CHECK(n == samples.throughputs.size() && n == samples.tasks.size());
    slopes_.resize(0);
    if (n < kMinSamples) return;
    std::vector<float> priors(n);
    prior_->predict(samples.rows, priors);
    const auto width = static_cast<Eigen::Index>(samples.rows.width());
    // Columns, then what the prior leaves.
    Eigen::MatrixXd data(static_cast<Eigen::Index>(n), width + 1);
    std::map<uint64_t, std::vector<Eigen::Index>> tasks;
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<Eigen::Index>(i);
      data.row(at).head(width) = row_of(samples.rows, i);
      data(at, width) = static_cast<double>(std::log2(std::max(samples.throughputs[i], kFloor)) - priors[i]);
      tasks[samples.tasks[i]].push_back(at);
    }
    for (const auto& [task, members] : tasks) {
      Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(width + 1);
      for (Eigen::Index i : members) mean += data.row(i) / static_cast<double>(members.size());
      for (Eigen::Index i : members) data.row(i) -= mean;
    }
    scale_ = (data.leftCols(width).array().square().colwise().mean() + 1e-6).rsqrt().matrix().transpose();
    Eigen::VectorXd weights = Eigen::VectorXd::Ones(data.rows());
    for (size_t i = 0; i < samples.weights.size(); ++i)
      weights[static_cast<Eigen::Index>(i)] = static_cast<double>(samples.weights[i]);
    const Eigen::MatrixXd x = data.leftCols(width) * scale_.asDiagonal();
    Eigen::MatrixXd normal = x.transpose() * weights.asDiagonal() * x;
    normal.diagonal().array() += kRidge;
    slopes_ = normal.ldlt().solve(x.transpose() * weights.cwiseProduct(data.col(width)));
  }

 private:
  static Eigen::VectorXd row_of(const features::Batch& rows, size_t i) {
    const std::span<const float> row = rows[i];
    return Eigen::Map<const Eigen::VectorXf>(row.data(), static_cast<Eigen::Index>(row.size())).cast<double>();
  }

  std::unique_ptr<CostModel> prior_;
  Eigen::VectorXd scale_, slopes_;
};

}  // namespace

std::unique_ptr<CostModel> make_linear_model(std::unique_ptr<CostModel> prior) {
  return std::make_unique<LinearModel>(std::move(prior));
}

}  // namespace tcc::cost
