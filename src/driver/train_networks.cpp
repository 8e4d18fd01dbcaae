// Fits networks to pools.
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/driver/cost_models.h"
#include "tcc/nn/continual.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kSamplingSteps = 10;  // of active sampling; the first one is drawn at random
// An epoch has at least this many batches, as far as those keep this many programs. The papers' batches are for
// millions of programs: an epoch of some hundreds would be one step.
constexpr int64_t kMinSteps = 16, kMinBatch = 64;
constexpr double kMomentum = 0.9;  // of SGD
constexpr int64_t kMaxState = int64_t{64} << 20;

Result<const cost::NetworkKind*> network_named(const std::string& name) {
  if (const cost::NetworkKind* kind = cost::find_network(name)) return kind;
  std::vector<std::string> known;
  for (const cost::NetworkKind& kind : cost::network_kinds()) known.emplace_back(kind.name);
  return make_error(ErrorClass::kUsage, fmt::format("expected a network, found '{}'", sanitize(name)),
                    suggest(name, known));
}

const features::Table& trace_of(const data::Pool& pool) {
  return *backend::backend_of(pool.groups.at(0).platform.target).trace_table;
}

std::string platforms_text(const PoolFeatures& features) {
  std::vector<std::string> names;
  for (const PoolFeatures::Group& g : features.groups)
    if (std::find(names.begin(), names.end(), g.platform) == names.end()) names.push_back(g.platform);
  return fmt::format("{}", fmt::join(names, "; "));
}

// The platforms of the pool in its order: the first one is the target, whose head is 0.
std::vector<uint64_t> platforms_of(const PoolFeatures& features) {
  std::vector<uint64_t> order;
  for (const PoolFeatures::Group& g : features.groups)
    if (std::find(order.begin(), order.end(), g.platform_hash) == order.end()) order.push_back(g.platform_hash);
  return order;
}

nn::TrainOptions options_of(const TrainRequest& request, nn::Architecture architecture) {
  nn::TrainOptions options = cost::paper_options(architecture);
  if (request.epochs) options.epochs = *request.epochs;
  if (request.batch) options.batch = *request.batch;
  if (request.rate) options.rate = *request.rate;
  options.optimizer = request.optimizer;
  if (request.optimizer == nn::OptimizerKind::kSgd) options.momentum = kMomentum;
  options.seed = request.seed;
  return options;
}

// The batch for a data set of this size, where the user names none.
int64_t batch_for(int64_t batch, int64_t samples, const TrainRequest& request) {
  if (request.batch) return *request.batch;
  return std::clamp(samples / kMinSteps, std::min(kMinBatch, batch), batch);
}

// The samples to train on. An epoch passes through a small set several times, so that it has the least number of
// batches nevertheless: a tenth of the data is learned from as long as all of it.
std::vector<int64_t> epoch_of(std::span<const int64_t> samples, int64_t batch) {
  std::vector<int64_t> out(samples.begin(), samples.end());
  batch = std::min(batch, std::ssize(samples));
  while (!samples.empty() && std::ssize(out) <= (kMinSteps - 1) * batch)
    out.insert(out.end(), samples.begin(), samples.end());
  return out;
}

// A part of a data set, by the numbers of its samples.
nn::Samples part_of(const nn::Samples& all, std::span<const int64_t> indices) {
  nn::Samples out = all.empty_like();
  all.gather(indices, out);
  return out;
}

// The same as if nothing else were measured: labels are relative to the fastest program of the task in this part.
nn::Samples measured_part(const nn::Samples& all, std::span<const int64_t> indices) {
  nn::Samples out = part_of(all, indices);
  const auto heads = static_cast<size_t>(out.heads());
  std::map<std::pair<uint64_t, size_t>, float> best;
  const std::span<float> labels = out.labels();
  for (size_t i = 0; i < labels.size(); ++i)
    if (float& most = best[{out.tasks()[i / heads], i % heads}]; labels[i] > most) most = labels[i];
  for (size_t i = 0; i < labels.size(); ++i)
    if (const float most = best.at({out.tasks()[i / heads], i % heads}); most > 0) labels[i] /= most;
  return out;
}

Result<cost::NetworkInputs> inputs_for(const TrainRequest& request, const cost::NetworkKind& kind,
                                       const features::Table& trace) {
  if (request.start.empty()) return cost::network_inputs(kind, trace, request.form);
  TCC_TRY(const nn::Checkpoint stored, nn::load_checkpoint(request.start));
  return cost::inputs_of_checkpoint(stored, kind, trace, sanitize(request.start));
}

// Measured times do not go into a network that has learned simulated ones: nothing would tell them apart any more.
Result<void> check_start(const TrainRequest& request, const PoolFeatures& features) {
  if (request.start.empty() || features.simulated) return {};
  TCC_TRY(const nn::Checkpoint stored, nn::load_checkpoint(request.start));
  if (!cost::is_simulated(stored.card)) return {};
  return make_error(ErrorClass::kInput,
                    fmt::format("'{}': expected a checkpoint that learned measured times, as the pools hold, found "
                                "one of a simulated GPU: '{}'",
                                sanitize(request.start), sanitize(stored.card.platform)),
                    "simulated and measured times never mix: begin with a checkpoint of measured programs");
}

Result<nn::Model> begin_with(const TrainRequest& request, const cost::NetworkInputs& inputs) {
  if (request.start.empty()) return nn::Model::create(inputs.config, request.seed);
  TCC_TRY(nn::Checkpoint stored, nn::load_checkpoint(request.start));
  nn::Config expected = inputs.config;
  if (expected.heads > 1) expected.heads = stored.model.config().heads;
  if (!(stored.model.config() == expected))
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}': expected a network '{}', found '{}'", sanitize(request.start), request.network,
                                  architecture_name(stored.model.config().architecture)),
                      "name the network that it is with --network");
  return std::move(stored.model);
}

// One fit with validation, resumed from the request's state file where there is one.
Result<nn::TrainReport> fit(nn::Model& model, const nn::Samples& data, nn::TrainOptions options,
                            const TrainRequest& request, bool keeps_state) {
  options.batch = batch_for(options.batch, data.size(), request);
  const nn::Split split = nn::random_split(data.size(), request.validation, request.seed);
  const nn::Samples train = part_of(data, epoch_of(split.rest, options.batch));
  const nn::Samples validation = part_of(data, split.chosen);
  TCC_TRY(nn::Trainer trainer,
          nn::Trainer::create(model, train, validation.size() > 0 ? &validation : nullptr, options, request.pool));
  const bool keeps = keeps_state && !request.state.empty();
  if (keeps && file_exists(request.state)) {
    TCC_TRY(const std::string bytes, read_file(request.state, kMaxState));
    if (auto loaded = trainer.load_state(bytes); !loaded)
      return tl::make_unexpected(std::move(loaded).error().with_context(sanitize(request.state)));
  }
  std::optional<Error> failed;
  nn::TrainHooks hooks;
  hooks.interrupted = request.stop;
  hooks.progress = [&](const nn::Progress& progress) {
    if (request.progress) request.progress(progress);
    if (!keeps || failed) return;
    if (auto written = write_file(request.state, trainer.save_state()); !written) failed = written.error();
  };
  nn::TrainReport report = trainer.run(hooks);
  if (failed) return tl::make_unexpected(std::move(*failed));
  std::error_code ignored;
  if (keeps && report.end != nn::TrainEnd::kInterrupted) std::filesystem::remove(request.state, ignored);
  return report;
}

// Scores in [0, 1], by the least and the most of the pool.
std::vector<float> normalized_scores(const nn::Model& model, const nn::Samples& data, ThreadPool* pool) {
  std::vector<float> scores(static_cast<size_t>(data.size()));
  nn::Workspace workspace;
  model.predict(data.batch(), scores, workspace, pool);
  nn::normalize_scores(scores);
  return scores;
}

// Chooses `share` of the samples in steps; between steps the model learns from what is chosen (TCL, Algorithm 1).
Result<std::vector<int64_t>> choose_share(nn::Model& model, const nn::Samples& data,
                                          const std::vector<int32_t>& classes, nn::TrainOptions options,
                                          const TrainRequest& request) {
  if (request.probe_epochs) options.epochs = *request.probe_epochs;
  const auto total = static_cast<int64_t>(std::llround(request.share * static_cast<double>(data.size())));
  std::vector<int64_t> chosen;
  std::vector<float> features(static_cast<size_t>(data.size()) * 2), spreads(static_cast<size_t>(data.size()), 0.f);
  for (int64_t step = 1; step <= kSamplingSteps && std::ssize(chosen) < total; ++step) {
    const int64_t budget = total * step / kSamplingSteps - std::ssize(chosen);
    cost::SamplingOptions sampling{.sampler = step == 1 ? cost::Sampler::kRandom : request.sampler,
                                   .seed = combine_hash(request.seed, static_cast<uint64_t>(step))};
    std::vector<float> scores(static_cast<size_t>(data.size()), 0.5f);
    if (step > 1 && sampling.sampler != cost::Sampler::kRandom) {
      const nn::Samples known = measured_part(data, chosen);
      TCC_TRY_VOID(fit(model, known, options, request, false));
      scores = normalized_scores(model, data, request.pool);
      if (sampling.sampler == cost::Sampler::kAlt || sampling.sampler == cost::Sampler::kBalto) {
        // The committee of ALT: a second network from another seed. Balto's space: the scores of both.
        TrainRequest other = request;
        other.seed = combine_hash(request.seed, 0x636f6d);
        TCC_TRY(nn::Model second, nn::Model::create(model.config(), other.seed, model.level()));
        second.set_buffers(model.buffers());
        TCC_TRY_VOID(fit(second, known, options, other, false));
        const std::vector<float> also = normalized_scores(second, data, request.pool);
        for (size_t i = 0; i < scores.size(); ++i) {
          spreads[i] = std::abs(scores[i] - also[i]);
          features[2 * i] = scores[i], features[2 * i + 1] = also[i];
        }
      }
    }
    const cost::SamplingPool pool{scores, classes, spreads, features, 2};
    for (int64_t pick : cost::choose_programs(pool, chosen, budget, sampling)) chosen.push_back(pick);
    if (request.stop && request.stop()) break;
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Each task is a class. TCL's classes are types of operators. With a handful of types, the tasks of a type that score
// high would take the shares of the others, and nothing would be known of those.
std::vector<int32_t> classes_of(const PoolFeatures& features) {
  std::vector<int32_t> out;
  for (size_t g = 0; g < features.groups.size(); ++g)
    out.insert(out.end(), features.groups[g].samples.size(), static_cast<int32_t>(g));
  return out;
}

std::string card_text(const TrainRequest& request, const nn::TrainReport& report, int64_t samples,
                      const PoolFeatures& features) {
  return fmt::format("{} trained on {} programs of {} tasks, seed {}; best epoch {} of {}, loss {:.4g}; tcc {}",
                     request.network, samples, features.groups.size(), request.seed, report.best_epoch,
                     report.history.size(), report.best, tool_version());
}

}  // namespace

Result<TrainedNetwork> train_network(const data::Pool& pool, const TrainRequest& request) {
  TCC_TRY(const cost::NetworkKind* kind, network_named(request.network));
  TCC_TRY_VOID(data::check_programs(pool));
  TCC_TRY(const cost::NetworkInputs inputs, inputs_for(request, *kind, trace_of(pool)));
  TCC_TRY(const PoolFeatures features, extract_pool(pool, inputs.tables, request.pool));
  return train_network(features, request);
}

Result<TrainedNetwork> train_network(const PoolFeatures& features, const TrainRequest& request) {
  TCC_TRY(const cost::NetworkKind* kind, network_named(request.network));
  TCC_TRY(cost::NetworkInputs inputs, inputs_for(request, *kind, *features.trace));
  TCC_CHECK(inputs.tables == features.tables, "features of the tables that '{}' reads", request.network);
  TCC_TRY_VOID(check_start(request, features));
  const std::vector<uint64_t> platforms = platforms_of(features);
  const bool many_heads = kind->heads > 1 || request.head_each_platform;
  if (many_heads) inputs.config.heads = std::max<int64_t>(kind->heads, std::ssize(platforms));
  TCC_TRY(nn::Model model, begin_with(request, inputs));
  if (many_heads && std::ssize(platforms) > model.config().heads)
    return input_error("'{}': expected at most {} platforms, one a head, found {} in the pools",
                       sanitize(request.start), model.config().heads, platforms.size());
  nn::Samples data = network_samples(features, model.config(), platforms);
  if (request.start.empty()) cost::fit_input_scale(model, data);
  const nn::TrainOptions options = options_of(request, kind->architecture);
  if (request.share < 1) {
    TCC_TRY(nn::Model probe, begin_with(request, inputs));
    probe.set_buffers(model.buffers());
    TCC_TRY(const std::vector<int64_t> chosen, choose_share(probe, data, classes_of(features), options, request));
    data = measured_part(data, chosen);
  }
  TCC_TRY(nn::TrainReport report, fit(model, data, options, request, true));
  nn::Card card{inputs.features, platforms_text(features), card_text(request, report, data.size(), features)};
  return TrainedNetwork{std::move(model), std::move(report), std::move(card), data.size(), features.failed_groups()};
}

Result<TrainedNetwork> distill_network(std::span<const data::Pool> pools, const TrainRequest& request) {
  TCC_TRY(const cost::NetworkKind* kind, network_named("mamba"));
  TCC_TRY_VOID(data::check_programs(pools.empty() ? data::Pool() : pools[0]));
  const cost::NetworkInputs inputs = cost::network_inputs(*kind, trace_of(pools[0]), request.form);
  std::vector<PoolFeatures> features;
  std::vector<const PoolFeatures*> platforms;
  for (const data::Pool& pool : pools) {
    TCC_TRY_VOID(data::check_programs(pool));
    const data::Platform &first = pools[0].groups[0].platform, &other = pool.groups[0].platform;
    if (first.target.kind != other.target.kind || first.kind != other.kind)
      return make_error(ErrorClass::kInput,
                        fmt::format("expected pools for one kind of target with one kind of times, found {} times for "
                                    "'{}' and {} times for '{}'",
                                    record::kind_name(first.kind), sanitize(first.target.name),
                                    record::kind_name(other.kind), sanitize(other.target.name)),
                        "distill CPUs apart from GPUs, and simulated GPUs apart from devices");
    TCC_TRY(PoolFeatures extracted, extract_pool(pool, inputs.tables, request.pool));
    features.push_back(std::move(extracted));
  }
  for (const PoolFeatures& f : features) platforms.push_back(&f);
  return distill_network(platforms, request);
}

Result<TrainedNetwork> distill_network(std::span<const PoolFeatures* const> order, const TrainRequest& request) {
  TCC_TRY(const cost::NetworkKind* kind, network_named("mamba"));
  TCC_CHECK(!order.empty(), "a platform to learn");
  const cost::NetworkInputs inputs = cost::network_inputs(*kind, *order[0]->trace, request.form);
  TCC_TRY(nn::ContinualLearner learner, nn::ContinualLearner::create(inputs.config, request.seed));
  nn::ContinualOptions options;
  options.active.seed = options.distill.seed = request.seed;
  // The epochs are shared out evenly over platforms and stages (TCL, section 5).
  const int64_t epochs = request.epochs.value_or(100), stages = 2 * std::ssize(order) - 1;
  options.active.epochs = options.distill.epochs = std::max<int64_t>(epochs / stages, 1);
  if (request.rate) options.active.rate = options.distill.rate = *request.rate;
  const int64_t largest = options.active.batch;
  nn::TrainHooks hooks;
  hooks.interrupted = request.stop;
  hooks.progress = request.progress;
  nn::TrainReport last;
  std::string platforms, text;
  int64_t samples = 0, failed = 0;
  for (size_t p = 0; p < order.size(); ++p) {
    const PoolFeatures& features = *order[p];
    if (features.trace != order[0]->trace)
      return input_error(
          "platform {} of the distillation ({}) is of another kind of target than the first ({}): "
          "distill pools of CPUs and pools of GPUs apart",
          p + 1, platforms_text(features), platforms_text(*order[0]));
    nn::Samples data = network_samples(features, inputs.config);
    if (p + 1 == order.size() && request.share < 1) {
      TCC_TRY(nn::Model probe, nn::Model::create(inputs.config, request.seed));
      TCC_TRY(const std::vector<int64_t> chosen,
              choose_share(probe, data, classes_of(features), options_of(request, kind->architecture), request));
      data = measured_part(data, chosen);
    }
    options.active.batch = options.distill.batch = batch_for(largest, data.size(), request);
    const nn::Split split = nn::random_split(data.size(), request.validation, request.seed);
    const nn::Samples train = part_of(data, epoch_of(split.rest, options.active.batch));
    const nn::Samples validation = part_of(data, split.chosen);
    TCC_TRY(nn::ContinualLearner::Report report, learner.learn(train, validation.size() > 0 ? &validation : nullptr,
                                                               p + 1 == order.size(), options, request.pool, hooks));
    platforms += (platforms.empty() ? "" : "; ") + platforms_text(features);
    samples += data.size(), failed += features.failed_groups();
    last = report.distilled.end == nn::TrainEnd::kInterrupted ? report.distilled : report.active;
    text = card_text(request, last, samples, features);
    if (last.end == nn::TrainEnd::kInterrupted) break;
  }
  TCC_TRY(nn::Model model, nn::Model::create(learner.active().config(), request.seed, learner.active().level()));
  model.set_parameters(learner.active().parameters());
  model.set_buffers(learner.active().buffers());
  nn::Card card{inputs.features, platforms,
                "continual distillation over " + std::to_string(order.size()) + " platforms: " + text};
  return TrainedNetwork{std::move(model), std::move(last), std::move(card), samples, failed};
}

}  // namespace tcc::driver
