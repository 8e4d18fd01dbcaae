// Fits a network to a data set. The same model, data, options and level give the same bits, whatever the number of
// threads and however often the training was interrupted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/nn/dataset.h"
#include "tcc/nn/loss.h"
#include "tcc/nn/model.h"

namespace tcc::nn {

enum class OptimizerKind { kAdam, kSgd };
enum class ScheduleKind {
  kConstant,
  kStep,   // times `factor` every `period` epochs
  kCosine  // from the rate to 0 over `period` epochs, then again from the rate
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t period = 10;
  double factor = 0.1;
  double rate(double first, int64_t epoch) const;
};

struct TrainOptions {
  LossOptions loss;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  double rate = 7e-4;
  // Added to the gradient (as PyTorch's Adam does), for tensors with Tensor::decay.
  double weight_decay = 1e-6;
  double momentum = 0;  // SGD
  Schedule schedule;
  double clip = 0.5;  // largest norm of the gradient; 0 = any
  int64_t batch = 512, epochs = 50;
  // Training ends after this many epochs without a better value; 0 = never.
  int64_t patience = 0;
  uint64_t seed = 0;  // of the order of samples, and dropout
};

struct EpochRecord {
  int64_t epoch = 0;      // from 1
  double loss = 0;        // mean over the epoch's samples
  double validation = 0;  // what is minimized: the judge's value; the training loss without data for it
  double rate = 0;
};

struct Progress {
  EpochRecord last;
  int64_t epochs = 0, best_epoch = 0;
  double best = 0;
  double seconds = 0, seconds_left = 0;  // of this run
};

enum class TrainEnd { kDone, kPatience, kInterrupted, kDiverged };

struct TrainReport {
  TrainEnd end = TrainEnd::kDone;
  std::string message;  // one sentence for the user
  int64_t best_epoch = 0;
  double best = 0;
  std::vector<EpochRecord> history;
};

// What a training minimizes beside or instead of the loss of its options.
class Objective {
 public:
  virtual ~Objective() = default;
  // Before each batch of a training: the numbers of its samples in the training data.
  virtual void begin_batch(std::span<const int64_t>) {}
  // Loss of a batch, with d loss / d scores. `scores`: size x heads.
  virtual double of_scores(const Samples& batch, std::span<const float> scores, std::span<float> grads) = 0;
  // Loss of the parameters; adds its gradient.
  virtual double of_parameters(std::span<const float>, std::span<float>) { return 0; }
};
std::unique_ptr<Objective> make_objective(const LossOptions& options, Level level);

struct TrainHooks {
  std::function<void(const Progress&)> progress;  // after each epoch
  std::function<bool()> interrupted;              // asked after each batch
  // Value to minimize after an epoch, such as 1 - top-1 on held-out tasks; nullptr: the loss of the validation samples.
  std::function<double(const Model&)> judge;
  Objective* objective = nullptr;  // nullptr: that of the options
};

class Trainer {
 public:
  // `validation` may be nullptr. Model and data outlive the trainer; the model's parameters are what the training has
  // reached while it runs, and the best ones after run(). Errors: data without samples or of other widths.
  static Result<Trainer> create(Model& model, const Dataset& train, const Dataset* validation,
                                const TrainOptions& options, ThreadPool* pool);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  // Runs until the epochs are done, or to an end that the report names. An interrupted training goes on with another
  // call.
  TrainReport run(const TrainHooks& hooks = {});
  // The state after the last whole epoch, to be continued by load_state() of a trainer of the same model, data and
  // options: parameters, optimizer, best parameters, history. Checksummed.
  std::string save_state() const;
  Result<void> load_state(std::string_view bytes);

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Loss of `data` by batches of `batch` in its order, over the number of samples.
double mean_loss(const Model& model, const Dataset& data, const LossOptions& options, int64_t batch, ThreadPool* pool);
// Mean over batches of the squared gradient of the objective: the diagonal Fisher information that EWC uses.
std::vector<float> squared_gradients(const Model& model, const Dataset& data, Objective& objective, int64_t batch,
                                     ThreadPool* pool);
// Indices of a random split: `share` of n samples, and the others; both ascending.
struct Split {
  std::vector<int64_t> rest, chosen;
};
Split random_split(int64_t n, double share, uint64_t seed);

}  // namespace tcc::nn
