// Epochs over shuffled batches. What an epoch starts from (parameters, optimizer, history) is kept until it is whole,
// so an interrupted epoch is repeated and ends with the same bits.
#include "tcc/nn/trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "nn/bytes.h"
#include "nn/executor.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

namespace tcc::nn {
namespace {

constexpr uint64_t kStateMagic = 0x31746172746e6e74;  // "tnntrat1"

class LossObjective : public Objective {
 public:
  LossObjective(const LossOptions& options, Level level) : loss_(options, level) {}
  double of_scores(const Samples& batch, std::span<const float> scores, std::span<float> grads) override {
    return loss_(scores, batch.labels(), batch.tasks(), batch.heads(), grads);
  }

 private:
  Loss<float> loss_;
};

std::vector<int64_t> shuffled(int64_t n, Rng rng) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n; i > 1; --i)
    std::swap(order[static_cast<size_t>(i - 1)], order[static_cast<size_t>(rng.below(i))]);
  return order;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Everything that an epoch changes.
struct Point {
  std::vector<float> params, buffers, first, second;  // moments
  int64_t steps = 0;
};

}  // namespace

double Schedule::rate(double first, int64_t epoch) const {
  switch (kind) {
    case ScheduleKind::kConstant:
      return first;
    case ScheduleKind::kStep:
      return first * std::pow(factor, static_cast<double>(epoch / period));
    case ScheduleKind::kCosine:
      return first * 0.5 *
             (1 + std::cos(std::numbers::pi * static_cast<double>(epoch % period) / static_cast<double>(period)));
  }
  return first;
}

std::unique_ptr<Objective> make_objective(const LossOptions& options, Level level) {
  return std::make_unique<LossObjective>(options, level);
}

struct Trainer::State {
  State(Model& m, const Dataset& t, const Dataset* v, const TrainOptions& o, ThreadPool* p)
      : model(m),
        train(t),
        validation(v),
        options(o),
        pool(p),
        kernels(kernels_f32(m.level())),
        weights(m.weights()),
        engine(m.graph(), kernels, p),
        batch(t.empty_like()) {
    at.params = weights.params;
    at.buffers = weights.buffers;
    at.first.resize(weights.params.size());
    at.second.resize(weights.params.size());
    best_params = at.params;
    best_buffers = at.buffers;
    grads.resize(weights.params.size());
  }

  void step(double rate);
  bool epoch(Objective& objective, const TrainHooks& hooks, TrainReport& report, EpochRecord& record);
  double judge(const EpochRecord& record, const TrainHooks& hooks) const;
  uint64_t identity() const;
  void publish(const std::vector<float>& params, const std::vector<float>& buffers) const {
    model.set_parameters(params);
    model.set_buffers(buffers);
  }

  Model& model;
  const Dataset& train;
  const Dataset* validation;
  TrainOptions options;
  ThreadPool* pool;
  const Kernels<float>& kernels;
  Weights<float> weights;
  Engine<float> engine;
  Samples batch;
  Point at;  // after the last whole epoch
  std::vector<float> first, second, grads, scores, dscores;
  int64_t steps = 0;
  std::vector<float> best_params, best_buffers;
  int64_t best_epoch = 0;
  double best = 0;
  std::vector<EpochRecord> history;
};

// Adam (Kingma and Ba, 2015, algorithm 1) with the decay added to the gradient, or SGD with momentum.
void Trainer::State::step(double rate) {
  ++steps;
  const auto t = static_cast<double>(steps);
  const Adam<float> adam{.rate = static_cast<float>(rate),
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .epsilon = 1e-8f,
                         .correction1 = static_cast<float>(1 - std::pow(0.9, t)),
                         .correction2 = static_cast<float>(1 - std::pow(0.999, t))};
  for (const Tensor& tensor : model.tensors()) {
    if (!tensor.trainable) continue;
    const int64_t o = tensor.offset, n = tensor.size();
    const auto decay = static_cast<float>(tensor.decay ? options.weight_decay : 0);
    float *p = weights.params.data() + o, *m = first.data() + o;
    if (options.optimizer == OptimizerKind::kAdam) {
      kernels.adam(adam, n, grads.data() + o, decay, m, second.data() + o, p);
    } else {
      kernels.combine(n, 1.f, grads.data() + o, static_cast<float>(options.momentum), m);
      kernels.combine(n, decay, p, 1.f, m);
      kernels.combine(n, static_cast<float>(-rate), m, 1.f, p);
    }
  }
  weights.prepare(model.graph(), kernels);
}

// False where the epoch did not end; the report says why.
bool Trainer::State::epoch(Objective& objective, const TrainHooks& hooks, TrainReport& report, EpochRecord& record) {
  weights.params = at.params;
  weights.buffers = at.buffers;
  first = at.first;
  second = at.second;
  steps = at.steps;
  weights.prepare(model.graph(), kernels);
  const Rng rng = Rng(options.seed).fork(static_cast<uint64_t>(record.epoch));
  const std::vector<int64_t> order = shuffled(train.size(), rng.fork(0));
  record.rate = options.schedule.rate(options.rate, record.epoch - 1);
  double total = 0;
  for (int64_t begin = 0; begin < train.size(); begin += options.batch) {
    const int64_t n = std::min(options.batch, train.size() - begin);
    // One sample has no statistics of a batch and makes no pair.
    if (n == 1 && begin > 0) break;
    const auto indices = std::span(order).subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
    train.gather(indices, batch);
    objective.begin_batch(indices);
    scores.resize(static_cast<size_t>(n * batch.heads()));
    dscores.resize(scores.size());
    engine.forward(batch.batch(), weights, true, rng.fork(1 + static_cast<uint64_t>(begin)).state(), scores);
    double loss = objective.of_scores(batch, scores, dscores);
    engine.backward(batch.batch(), weights, dscores, grads);
    loss += objective.of_parameters(weights.params, grads);
    const double norm = std::sqrt(kernels.sum_of_squares(static_cast<int64_t>(grads.size()), grads.data()));
    if (!std::isfinite(loss) || !std::isfinite(norm) || !all_finite(scores)) {
      report.end = TrainEnd::kDiverged;
      report.message = fmt::format(
          "training stopped in epoch {}: the {} is not a finite number; the parameters {} are kept. "
          "Try a lower rate than {}, and look for features or labels that are not finite",
          record.epoch,
          !all_finite(scores)   ? "prediction"
          : std::isfinite(loss) ? "gradient"
                                : "loss",
          best_epoch > 0 ? fmt::format("of epoch {}", best_epoch) : "from before the training", record.rate);
      return false;
    }
    if (options.clip > 0 && norm > options.clip)
      kernels.combine(static_cast<int64_t>(grads.size()), 0.f, grads.data(),
                      static_cast<float>(options.clip / (norm + 1e-6)), grads.data());
    step(record.rate);
    total += options.loss.kind == LossKind::kMse ? loss * static_cast<double>(n) : loss;
    if (hooks.interrupted && hooks.interrupted()) {
      report.end = TrainEnd::kInterrupted;
      report.message =
          fmt::format("training was interrupted in epoch {} of {}; the state after epoch {} can be continued",
                      record.epoch, options.epochs, record.epoch - 1);
      return false;
    }
  }
  record.loss = total / static_cast<double>(train.size());
  at.params = weights.params;
  at.buffers = weights.buffers;
  at.first = first;
  at.second = second;
  at.steps = steps;
  return true;
}

double Trainer::State::judge(const EpochRecord& record, const TrainHooks& hooks) const {
  publish(at.params, at.buffers);
  if (hooks.judge) return hooks.judge(model);
  if (validation && validation->size() > 0) return mean_loss(model, *validation, options.loss, options.batch, pool);
  return record.loss;
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

Result<Trainer> Trainer::create(Model& model, const Dataset& train, const Dataset* validation,
                                const TrainOptions& options, ThreadPool* pool) {
  if (train.size() == 0)
    return make_error(ErrorClass::kInput, "expected training data with samples, found none",
                      "give pools whose programs have times");
  if (options.batch < 2 || options.epochs < 1 || options.schedule.period < 1)
    return input_error(
        "training needs batches of at least 2 samples, an epoch, and a schedule with a period of at least 1, "
        "but has {}, {} and {}",
        options.batch, options.epochs, options.schedule.period);
  for (const Dataset* data : {&train, validation}) {
    if (!data) continue;
    const Samples empty = data->empty_like();
    if (empty.heads() != model.config().heads)
      return input_error("the network has {} heads, but a sample has {} labels", model.config().heads, empty.heads());
    TCC_TRY_VOID(model.check(empty.batch()));
  }
  return Trainer(std::make_unique<State>(model, train, validation, options, pool));
}

TrainReport Trainer::run(const TrainHooks& hooks) {
  State& s = *state_;
  const std::unique_ptr<Objective> own = hooks.objective ? nullptr : make_objective(s.options.loss, s.model.level());
  Objective& objective = hooks.objective ? *hooks.objective : *own;
  TrainReport report;
  const Stopwatch watch;
  const auto done = static_cast<int64_t>(s.history.size());
  for (int64_t e = done + 1; e <= s.options.epochs; ++e) {
    if (s.options.patience > 0 && !s.history.empty() && e - 1 - s.best_epoch >= s.options.patience) {
      report.end = TrainEnd::kPatience;
      report.message =
          fmt::format("training ended after epoch {}: no better value for {} epochs", e - 1, s.options.patience);
      break;
    }
    EpochRecord record{.epoch = e};
    if (!s.epoch(objective, hooks, report, record)) break;
    record.validation = s.judge(record, hooks);
    if (s.best_epoch == 0 || record.validation < s.best) {
      s.best = record.validation;
      s.best_epoch = e;
      s.best_params = s.at.params;
      s.best_buffers = s.at.buffers;
    }
    s.history.push_back(record);
    if (!hooks.progress) continue;
    const double seconds = watch.seconds();
    hooks.progress(
        {.last = record,
         .epochs = s.options.epochs,
         .best_epoch = s.best_epoch,
         .best = s.best,
         .seconds = seconds,
         .seconds_left = seconds / static_cast<double>(e - done) * static_cast<double>(s.options.epochs - e)});
  }
  s.publish(s.best_params, s.best_buffers);
  report.best_epoch = s.best_epoch;
  report.best = s.best;
  report.history = s.history;
  if (report.message.empty())
    report.message = fmt::format("trained {} epochs; epoch {} is the best", s.history.size(), s.best_epoch);
  return report;
}

// What a state belongs to: the network, the number of samples, and the options that change its course.
uint64_t Trainer::State::identity() const {
  const TrainOptions& o = options;
  return hash_bytes(fmt::format("{} {} {} | {} {} {} | {} {} {} {} | {} {} {} | {} {} {}", model.config().to_json(),
                                level_name(model.level()), train.size(), static_cast<int>(o.loss.kind), o.loss.per_task,
                                o.loss.sigma, static_cast<int>(o.optimizer), o.rate, o.weight_decay, o.momentum,
                                static_cast<int>(o.schedule.kind), o.schedule.period, o.schedule.factor, o.clip,
                                o.batch, o.seed));
}

std::string Trainer::save_state() const {
  const State& s = *state_;
  ByteWriter w;
  w.put(s.identity());
  for (const auto* v : {&s.at.params, &s.at.buffers, &s.at.first, &s.at.second, &s.best_params, &s.best_buffers})
    w.put(*v);
  w.put(s.at.steps);
  w.put(s.best_epoch);
  w.put(s.best);
  w.put(s.history);
  ByteWriter out;
  out.put(kStateMagic);
  out.put(hash_bytes(w.bytes));
  return out.bytes + w.bytes;
}

Result<void> Trainer::load_state(std::string_view bytes) {
  State& s = *state_;
  ByteReader head(bytes);
  uint64_t magic = 0, checksum = 0, identity = 0;
  if (!head.get(magic) || magic != kStateMagic) return input_error("the file is not the state of a training");
  if (!head.get(checksum) || checksum != hash_bytes(bytes.substr(16)))
    return input_error("the state of the training is damaged: its checksum does not match; start the training anew");
  ByteReader r(bytes.substr(16));
  Point at;
  std::vector<float> best_params, best_buffers;
  std::vector<EpochRecord> history;
  int64_t best_epoch = 0;
  double best = 0;
  if (!r.get(identity) || identity != s.identity())
    return input_error("the state belongs to a training of another network, other data or other options");
  bool whole = true;
  for (auto* v : {&at.params, &at.buffers, &at.first, &at.second, &best_params, &best_buffers})
    whole = whole && r.get(*v);
  whole = whole && r.get(at.steps) && r.get(best_epoch) && r.get(best) && r.get(history) && r.done();
  const size_t n = s.weights.params.size(), m = s.weights.buffers.size();
  if (!whole || at.params.size() != n || at.first.size() != n || at.second.size() != n || best_params.size() != n ||
      at.buffers.size() != m || best_buffers.size() != m)
    return input_error(
        "the state of the training is damaged: its arrays do not fit the network; start the training anew");
  s.at = std::move(at);
  s.best_params = std::move(best_params);
  s.best_buffers = std::move(best_buffers);
  s.best_epoch = best_epoch;
  s.best = best;
  s.history = std::move(history);
  return {};
}

double mean_loss(const Model& model, const Dataset& data, const LossOptions& options, int64_t batch, ThreadPool* pool) {
  Engine<float> engine(model.graph(), kernels_f32(model.level()), pool);
  Loss<float> loss(options, model.level());
  Samples part = data.empty_like();
  std::vector<int64_t> indices;
  std::vector<float> scores, grads;
  double total = 0;
  // A fixed order in which the tasks are mixed, as they are in training.
  const std::vector<int64_t> order = shuffled(data.size(), Rng(0));
  for (int64_t first = 0; first < data.size(); first += batch) {
    const int64_t n = std::min(batch, data.size() - first);
    data.gather(std::span(order).subspan(static_cast<size_t>(first), static_cast<size_t>(n)), part);
    scores.resize(static_cast<size_t>(n * part.heads()));
    grads.resize(scores.size());
    engine.predict(part.batch(), model.weights(), scores);
    const double value = loss(scores, part.labels(), part.tasks(), part.heads(), grads);
    total += options.kind == LossKind::kMse ? value * static_cast<double>(n) : value;
  }
  return total / static_cast<double>(std::max<int64_t>(data.size(), 1));
}

std::vector<float> squared_gradients(const Model& model, const Dataset& data, Objective& objective, int64_t batch,
                                     ThreadPool* pool) {
  const Kernels<float>& kernels = kernels_f32(model.level());
  Engine<float> engine(model.graph(), kernels, pool);
  Weights<float> weights = model.weights();
  Samples part = data.empty_like();
  std::vector<float> scores, dscores, grads(weights.params.size()), out(weights.params.size());
  const std::vector<int64_t> order = shuffled(data.size(), Rng(0));
  int64_t batches = 0;
  for (int64_t first = 0; first < data.size(); first += batch, ++batches) {
    const int64_t n = std::min(batch, data.size() - first);
    data.gather(std::span(order).subspan(static_cast<size_t>(first), static_cast<size_t>(n)), part);
    scores.resize(static_cast<size_t>(n * part.heads()));
    dscores.resize(scores.size());
    engine.forward(part.batch(), weights, true, static_cast<uint64_t>(first), scores);
    objective.of_scores(part, scores, dscores);
    engine.backward(part.batch(), weights, dscores, grads);
    kernels.multiply(1, static_cast<int64_t>(grads.size()), grads.data(), 0, grads.data(), 0, out.data(), 0, true);
  }
  for (float& v : out) v /= static_cast<float>(std::max<int64_t>(batches, 1));
  return out;
}

Split random_split(int64_t n, double share, uint64_t seed) {
  const std::vector<int64_t> order = shuffled(n, Rng(seed));
  const auto taken = std::clamp<int64_t>(std::llround(share * static_cast<double>(n)), 0, n);
  Split out{{order.begin() + taken, order.end()}, {order.begin(), order.begin() + taken}};
  std::sort(out.rest.begin(), out.rest.end());
  std::sort(out.chosen.begin(), out.chosen.end());
  return out;
}

}  // namespace tcc::nn
