// Learning one platform after another: TCL's continual knowledge distillation, and Pruner's momentum adaptation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/nn/trainer.h"

namespace tcc::nn {

// Elastic weight consolidation: sum over parameters of lambda / 2 * F (theta - anchor)^2 (TCL, the last term of KD's
// loss). F is the sum over the platforms so far of the mean squared gradient; the paper prints the index of the present
// platform, whose Fisher information does not exist yet.
struct Consolidation {
  std::vector<float> anchor, fisher;  // empty: no penalty
  double lambda = 10000;
  // Adds the gradient to `grads`.
  double penalty(std::span<const float> params, std::span<float> grads) const;
  // After a platform: the parameters that it reached, and its own F.
  void extend(std::span<const float> params, std::span<const float> squared_gradients);
};

// Phi of TCL: 1 - (error - least) / (most - least), within [0, 1]; 1 where all errors are equal.
double distillation_gate(double error, double least, double most);
// Scores to [0, 1] by the least and the most of the batch, so that a teacher's outputs can be labels; all equal: 0.5.
void normalize_scores(std::span<float> scores);

struct ContinualOptions {
  // TCL: Adam 7e-4, batch 1024; CL anneals by a cosine of period 10, KD multiplies by 0.1 every 5 epochs.
  TrainOptions active{.schedule = {.kind = ScheduleKind::kCosine, .period = 10}, .batch = 1024, .epochs = 25};
  TrainOptions distill{
      .schedule = {.kind = ScheduleKind::kStep, .period = 5, .factor = 0.1}, .batch = 1024, .epochs = 25};
  double beta = 0.5;  // share of the labels in KD's loss; the rest is the gated teacher's
  double lambda = 10000;
};

// TCL's two networks. KB collects what all platforms have in common. AC learns the present one, with lateral inputs
// from the frozen KB, and goes on from the platform before.
class ContinualLearner {
 public:
  // `config` is that of a Mamba network.
  static Result<ContinualLearner> create(const Config& config, uint64_t seed);

  struct Report {
    TrainReport active, distilled;  // distilled is empty for the last platform
  };
  // Sources first. `last`: the target, which is not distilled. The first platform has no KB: AC learns alone, without
  // EWC. hooks.objective must be nullptr. An interrupted platform is not learned: call again.
  Result<Report> learn(const Dataset& data, const Dataset* validation, bool last, const ContinualOptions& options,
                       ThreadPool* pool, const TrainHooks& hooks = {});

  // AC with KB inside: what predicts.
  const Model& active() const { return active_; }
  const Model& knowledge() const { return knowledge_; }
  const Consolidation& consolidation() const { return consolidation_; }
  int64_t platforms() const { return platforms_; }
  // Columns of sequences; see Model::set_input_scale.
  void set_input_scale(std::span<const float> sequences);

 private:
  ContinualLearner(Model knowledge, Model active) : knowledge_(std::move(knowledge)), active_(std::move(active)) {}
  Result<TrainReport> learn_active(const Dataset& data, const Dataset* validation, const TrainOptions& options,
                                   ThreadPool* pool, const TrainHooks& hooks);
  // Copies the tensors of a Mamba network to those of the adapter with this prefix, or back.
  void put(const Model& plain, const char* prefix);
  void take(Model& plain, const char* prefix) const;

  Model knowledge_, active_;
  Consolidation consolidation_;
  int64_t platforms_ = 0;
};

// Momentum adaptation (Pruner, section on MoA): a Siamese network keeps what was pre-trained and moves slowly. Before
// an update the model starts from the Siamese's parameters, and is trained on all records so far; afterwards
//   siamese = m * siamese + (1 - m) * model.
// The model predicts until the next update. Buffers are the model's own.
class MomentumAdapter {
 public:
  explicit MomentumAdapter(const Model& pretrained, double momentum = 0.99)
      : siamese_(pretrained.parameters().begin(), pretrained.parameters().end()), momentum_(momentum) {}
  void begin(Model& model) const { model.set_parameters(siamese_); }
  void finish(const Model& model);

 private:
  std::vector<float> siamese_;
  double momentum_;
};

}  // namespace tcc::nn
