#include "tcc/nn/continual.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::nn {
namespace {

// KD's loss of a batch: beta * Rank(S, y) + (1 - beta) * Phi * Rank(S, T), and EWC. Eq. 11 of TCL writes the student's
// parameters where the teacher's fixed AC is meant.
class Distillation : public Objective {
 public:
  Distillation(const Model& teacher, const Consolidation& consolidation, const LossOptions& loss, double beta,
               ThreadPool* pool)
      : teacher_(teacher), consolidation_(consolidation), loss_(loss, teacher.level()), beta_(beta), pool_(pool) {}

  // The teacher's scores of all samples, which do not change, and the range of its loss over batches that mix the tasks
  // as those of the training do.
  void measure(const Dataset& data, int64_t batch) {
    Samples part = data.empty_like();
    std::vector<int64_t> order(static_cast<size_t>(data.size()));
    std::iota(order.begin(), order.end(), 0);
    Rng rng(0);
    for (int64_t i = data.size(); i > 1; --i)
      std::swap(order[static_cast<size_t>(i - 1)], order[static_cast<size_t>(rng.below(i))]);
    all_taught_.resize(order.size());
    for (int64_t first = 0; first < data.size(); first += batch) {
      const int64_t n = std::min(batch, data.size() - first);
      const auto indices = std::span(order).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
      data.gather(indices, part);
      taught_.resize(indices.size());
      teacher_.predict(part.batch(), taught_, workspace_, pool_);
      for (size_t i = 0; i < indices.size(); ++i) all_taught_[static_cast<size_t>(indices[i])] = taught_[i];
      const double error = teachers_loss(part) / static_cast<double>(n);
      least_ = std::min(least_, error);
      most_ = std::max(most_, error);
    }
  }

  void begin_batch(std::span<const int64_t> indices) override {
    taught_.clear();
    for (int64_t i : indices) taught_.push_back(all_taught_.at(static_cast<size_t>(i)));
  }
  double of_scores(const Samples& batch, std::span<const float> scores, std::span<float> grads) override {
    const double gate = distillation_gate(teachers_loss(batch) / static_cast<double>(batch.size()), least_, most_);
    normalize_scores(taught_);
    other_.resize(grads.size());
    const double hard = loss_(scores, batch.labels(), batch.tasks(), 1, grads);
    const double soft = loss_(scores, taught_, batch.tasks(), 1, other_);
    const auto b = static_cast<float>(beta_), g = static_cast<float>((1 - beta_) * gate);
    for (size_t i = 0; i < grads.size(); ++i) grads[i] = b * grads[i] + g * other_[i];
    return beta_ * hard + (1 - beta_) * gate * soft;
  }
  double of_parameters(std::span<const float> params, std::span<float> grads) override {
    return consolidation_.penalty(params, grads);
  }

 private:
  // Of the batch whose scores are in taught_.
  double teachers_loss(const Samples& batch) {
    TCC_CHECK(std::ssize(taught_) == batch.size(), "the teacher's scores of the batch");
    other_.resize(taught_.size());
    return loss_(taught_, batch.labels(), batch.tasks(), 1, other_);
  }

  const Model& teacher_;
  const Consolidation& consolidation_;
  Loss<float> loss_;
  double beta_;
  ThreadPool* pool_;
  Workspace workspace_;
  std::vector<float> all_taught_, taught_, other_;  // of all samples; of the batch; gradients
  double least_ = std::numeric_limits<double>::infinity(), most_ = -std::numeric_limits<double>::infinity();
};

const Tensor& tensor_named(const Model& model, const std::string& name) {
  for (const Tensor& t : model.tensors())
    if (t.name == name) return t;
  TCC_CHECK(false, "no tensor '{}'", name);
  return model.tensors().front();
}

}  // namespace

double Consolidation::penalty(std::span<const float> params, std::span<float> grads) const {
  if (anchor.empty()) return 0;
  TCC_CHECK(anchor.size() == params.size() && fisher.size() == params.size(), "a consolidation of the same network");
  double sum = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const double d = static_cast<double>(params[i]) - static_cast<double>(anchor[i]);
    const double slope = lambda * static_cast<double>(fisher[i]) * d;
    sum += 0.5 * slope * d;
    grads[i] += static_cast<float>(slope);
  }
  return sum;
}

void Consolidation::extend(std::span<const float> params, std::span<const float> squared_gradients) {
  anchor.assign(params.begin(), params.end());
  fisher.resize(params.size());
  for (size_t i = 0; i < fisher.size(); ++i) fisher[i] += squared_gradients[i];
}

double distillation_gate(double error, double least, double most) {
  if (!(most > least)) return 1;
  return std::clamp(1 - (error - least) / (most - least), 0.0, 1.0);
}

void normalize_scores(std::span<float> scores) {
  if (scores.empty()) return;
  const auto [least, most] = std::minmax_element(scores.begin(), scores.end());
  const float low = *least, range = *most - *least;
  for (float& s : scores) s = range > 0 ? (s - low) / range : 0.5f;
}

Result<ContinualLearner> ContinualLearner::create(const Config& config, uint64_t seed) {
  if (config.architecture != Architecture::kMamba || config.heads != 1)
    return input_error("continual distillation needs a network 'mamba' with one head, not '{}' with {}",
                       architecture_name(config.architecture), config.heads);
  Config adapter = config;
  adapter.architecture = Architecture::kMambaAdapter;
  TCC_TRY(Model knowledge, Model::create(config, seed));
  TCC_TRY(Model active, Model::create(adapter, seed + 1));
  return ContinualLearner(std::move(knowledge), std::move(active));
}

void ContinualLearner::set_input_scale(std::span<const float> sequences) {
  knowledge_.set_input_scale({}, sequences, {});
  active_.set_input_scale({}, sequences, {});
}

void ContinualLearner::put(const Model& plain, const char* prefix) {
  std::vector<float> params(active_.parameters().begin(), active_.parameters().end());
  for (const Tensor& from : plain.tensors()) {
    const Tensor& to = tensor_named(active_, prefix + from.name);
    std::copy_n(plain.parameters().begin() + from.offset, from.size(), params.begin() + to.offset);
  }
  active_.set_parameters(params);
}

void ContinualLearner::take(Model& plain, const char* prefix) const {
  std::vector<float> params(plain.parameters().size());
  for (const Tensor& to : plain.tensors()) {
    const Tensor& from = tensor_named(active_, prefix + to.name);
    std::copy_n(active_.parameters().begin() + from.offset, to.size(), params.begin() + to.offset);
  }
  plain.set_parameters(params);
}

Result<TrainReport> ContinualLearner::learn_active(const Dataset& data, const Dataset* validation,
                                                   const TrainOptions& options, ThreadPool* pool,
                                                   const TrainHooks& hooks) {
  if (platforms_ > 0) {
    TCC_TRY(Trainer trainer, Trainer::create(active_, data, validation, options, pool));
    return trainer.run(hooks);
  }
  // alpha is 0 and stays 0: AC is a network of its own.
  TCC_TRY(Model alone, Model::create(knowledge_.config(), 0, active_.level()));
  alone.set_buffers(knowledge_.buffers());
  take(alone, "ac.");
  TCC_TRY(Trainer trainer, Trainer::create(alone, data, validation, options, pool));
  TrainReport report = trainer.run(hooks);
  put(alone, "ac.");
  return report;
}

Result<ContinualLearner::Report> ContinualLearner::learn(const Dataset& data, const Dataset* validation, bool last,
                                                         const ContinualOptions& options, ThreadPool* pool,
                                                         const TrainHooks& hooks) {
  TCC_CHECK(hooks.objective == nullptr, "the objectives of the two phases are given");
  const std::vector<float> before(active_.parameters().begin(), active_.parameters().end());
  const std::vector<float> knew(knowledge_.parameters().begin(), knowledge_.parameters().end());
  auto undo = [&] {
    active_.set_parameters(before);
    knowledge_.set_parameters(knew);
  };
  Report report;
  TCC_TRY(report.active, learn_active(data, validation, options.active, pool, hooks));
  if (report.active.end == TrainEnd::kInterrupted) {
    undo();
    return report;
  }
  if (!last) {
    consolidation_.lambda = options.lambda;
    Distillation objective(active_, consolidation_, options.distill.loss, options.beta, pool);
    objective.measure(data, options.distill.batch);
    TrainHooks distilling = hooks;
    distilling.objective = &objective;
    TCC_TRY(Trainer trainer, Trainer::create(knowledge_, data, validation, options.distill, pool));
    report.distilled = trainer.run(distilling);
    if (report.distilled.end == TrainEnd::kInterrupted) {
      undo();
      return report;
    }
    const auto loss = make_objective(options.distill.loss, knowledge_.level());
    consolidation_.extend(knowledge_.parameters(),
                          squared_gradients(knowledge_, data, *loss, options.distill.batch, pool));
    put(knowledge_, "kb.");
  }
  ++platforms_;
  return report;
}

void MomentumAdapter::finish(const Model& model) {
  const std::span<const float> params = model.parameters();
  TCC_CHECK(params.size() == siamese_.size(), "a model of the same architecture");
  const auto m = static_cast<float>(momentum_);
  for (size_t i = 0; i < siamese_.size(); ++i) siamese_[i] = m * siamese_[i] + (1 - m) * params[i];
}

}  // namespace tcc::nn
