// Fits networks to pools.
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/driver/cost_models.h"
#include "tcc/nn/continual.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kSamplingSteps = 10;  // of active sampling; the first one is drawn at random
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

std::string platforms_text(const data::Pool& pool) {
  std::vector<std::string> names;
  for (const data::Group& g : pool.groups)
    if (std::find(names.begin(), names.end(), g.platform.name) == names.end()) names.push_back(g.platform.name);
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
  options.seed = request.seed;
  return options;
}

// A part of a data set, by the numbers of its samples.
nn::Samples part_of(const nn::Samples& all, std::span<const int64_t> indices) {
  nn::Samples out = all.empty_like();
  all.gather(indices, out);
  return out;
}

Result<nn::Model> begin_with(const TrainRequest& request, const cost::NetworkInputs& inputs) {
  if (request.start.empty()) return nn::Model::create(inputs.config, request.seed);
  TCC_TRY(nn::Checkpoint stored, nn::load_checkpoint(request.start));
  TCC_TRY_VOID(nn::require_features(stored, inputs.features, sanitize(request.start)));
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
Result<nn::TrainReport> fit(nn::Model& model, const nn::Samples& data, const nn::TrainOptions& options,
                            const TrainRequest& request, bool keeps_state) {
  const nn::Split split = nn::random_split(data.size(), request.validation, request.seed);
  const nn::Samples train = part_of(data, split.rest), validation = part_of(data, split.chosen);
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
                                          const std::vector<int32_t>& classes, const nn::TrainOptions& options,
                                          const TrainRequest& request) {
  const auto total = static_cast<int64_t>(std::llround(request.share * static_cast<double>(data.size())));
  std::vector<int64_t> chosen;
  std::vector<float> features(static_cast<size_t>(data.size()) * 2), spreads(static_cast<size_t>(data.size()), 0.f);
  for (int64_t step = 1; step <= kSamplingSteps && std::ssize(chosen) < total; ++step) {
    const int64_t budget = total * step / kSamplingSteps - std::ssize(chosen);
    cost::SamplingOptions sampling{.sampler = step == 1 ? cost::Sampler::kRandom : request.sampler,
                                   .seed = combine_hash(request.seed, static_cast<uint64_t>(step))};
    std::vector<float> scores(static_cast<size_t>(data.size()), 0.5f);
    if (step > 1 && sampling.sampler != cost::Sampler::kRandom) {
      const nn::Samples known = part_of(data, chosen);
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

std::vector<int32_t> classes_of(const PoolFeatures& features) {
  std::map<std::string, int32_t> numbers;
  std::vector<int32_t> out;
  for (const PoolFeatures::Group& g : features.groups) {
    const int32_t number = numbers.try_emplace(g.operator_class, static_cast<int32_t>(numbers.size())).first->second;
    out.insert(out.end(), g.samples.size(), number);
  }
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
  if (pool.groups.empty()) return input_error("the pool holds no program");
  cost::NetworkInputs inputs = cost::network_inputs(*kind, trace_of(pool));
  TCC_TRY(const PoolFeatures features, extract_pool(pool, inputs.tables, request.pool));
  const std::vector<uint64_t> platforms = platforms_of(features);
  if (kind->heads > 1) inputs.config.heads = std::max<int64_t>(kind->heads, std::ssize(platforms));
  TCC_TRY(nn::Model model, begin_with(request, inputs));
  if (kind->heads > 1 && std::ssize(platforms) > model.config().heads)
    return input_error("'{}': expected at most {} platforms, one a head, found {} in the pools",
                       sanitize(request.start), model.config().heads, platforms.size());
  nn::Samples data = network_samples(features, model.config(), platforms);
  if (request.start.empty()) cost::fit_input_scale(model, data);
  const nn::TrainOptions options = options_of(request, kind->architecture);
  if (request.share < 1) {
    TCC_TRY(nn::Model probe, begin_with(request, inputs));
    probe.set_buffers(model.buffers());
    TCC_TRY(const std::vector<int64_t> chosen, choose_share(probe, data, classes_of(features), options, request));
    data = part_of(data, chosen);
  }
  TCC_TRY(nn::TrainReport report, fit(model, data, options, request, true));
  nn::Card card{inputs.features, platforms_text(pool), card_text(request, report, data.size(), features)};
  return TrainedNetwork{std::move(model), std::move(report), std::move(card), data.size()};
}

Result<TrainedNetwork> distill_network(std::span<const data::Pool> pools, const TrainRequest& request) {
  TCC_TRY(const cost::NetworkKind* kind, network_named("mamba"));
  if (pools.empty() || pools[0].groups.empty()) return input_error("the pool holds no program");
  const cost::NetworkInputs inputs = cost::network_inputs(*kind, trace_of(pools[0]));
  TCC_TRY(nn::ContinualLearner learner, nn::ContinualLearner::create(inputs.config, request.seed));
  nn::ContinualOptions options;
  options.active.seed = options.distill.seed = request.seed;
  // The epochs are shared out evenly over platforms and stages (TCL, section 5).
  const int64_t epochs = request.epochs.value_or(100), stages = 2 * std::ssize(pools) - 1;
  options.active.epochs = options.distill.epochs = std::max<int64_t>(epochs / stages, 1);
  if (request.rate) options.active.rate = options.distill.rate = *request.rate;
  if (request.batch) options.active.batch = options.distill.batch = *request.batch;
  nn::TrainHooks hooks;
  hooks.interrupted = request.stop;
  hooks.progress = request.progress;
  nn::TrainReport last;
  std::string platforms, text;
  int64_t samples = 0;
  for (size_t p = 0; p < pools.size(); ++p) {
    TCC_TRY(const PoolFeatures features, extract_pool(pools[p], inputs.tables, request.pool));
    nn::Samples data = network_samples(features, inputs.config);
    if (p + 1 == pools.size() && request.share < 1) {
      TCC_TRY(nn::Model probe, nn::Model::create(inputs.config, request.seed));
      TCC_TRY(const std::vector<int64_t> chosen,
              choose_share(probe, data, classes_of(features), options_of(request, kind->architecture), request));
      data = part_of(data, chosen);
    }
    const nn::Split split = nn::random_split(data.size(), request.validation, request.seed);
    const nn::Samples train = part_of(data, split.rest), validation = part_of(data, split.chosen);
    TCC_TRY(nn::ContinualLearner::Report report, learner.learn(train, validation.size() > 0 ? &validation : nullptr,
                                                               p + 1 == pools.size(), options, request.pool, hooks));
    platforms += (platforms.empty() ? "" : "; ") + platforms_text(pools[p]);
    samples += data.size();
    last = report.active;
    text = card_text(request, last, samples, features);
    if (last.end == nn::TrainEnd::kInterrupted) break;
  }
  TCC_TRY(nn::Model model, nn::Model::create(learner.active().config(), request.seed, learner.active().level()));
  model.set_parameters(learner.active().parameters());
  model.set_buffers(learner.active().buffers());
  nn::Card card{inputs.features, platforms,
                "continual distillation over " + std::to_string(pools.size()) + " platforms: " + text};
  return TrainedNetwork{std::move(model), std::move(last), std::move(card), samples};
}

}  // namespace tcc::driver
