// From pools to what cost models read.
#include <algorithm>
#include <limits>

#include "tcc/backend/backend.h"
#include "tcc/cost/ranking_metrics.h"
#include "tcc/driver/cost_models.h"
#include "tcc/driver/pool_samples.h"
#include "tcc/support/check.h"
#include "tcc/support/text.h"

namespace tcc::driver {
double PoolFeatures::Group::best_seconds() const {
  double best = 0;
  for (double s : seconds)
    if (s > 0 && (best == 0 || s < best)) best = s;
  return best;
}

int64_t PoolFeatures::programs() const {
  int64_t n = 0;
  for (const Group& g : groups) n += std::ssize(g.samples);
  return n;
}

int64_t PoolFeatures::failed_groups() const {
  return std::count_if(groups.begin(), groups.end(), [](const Group& g) { return g.best_seconds() == 0; });
}

Result<PoolFeatures> extract_pool(const data::Pool& pool, std::span<const features::Table* const> tables,
                                  ThreadPool* threads) {
  TCC_TRY_VOID(data::check_programs(pool));
  PoolFeatures out;
  out.tables.assign(tables.begin(), tables.end());
  const target::TargetKind kind = pool.groups[0].platform.target.kind;
  const auto prior = backend::backend_of(pool.groups[0].platform.target).prior(pool.groups[0].platform.target);
  out.schema = &prior->schema();
  out.simulated = pool.groups[0].platform.kind == record::Kind::kSimulated;
  out.trace = backend::backend_of(pool.groups[0].platform.target).trace_table;
  const features::Needs needs(*out.schema, out.tables);
  for (const data::Group& group : pool.groups) {
    if (group.platform.target.kind != kind)
      return input_error(
          "the pool mixes kinds of targets: expected programs for one of CPU and GPU, found '{}' and '{}'",
          sanitize(pool.groups[0].platform.target.name), sanitize(group.platform.target.name));
    if (group.platform.kind != pool.groups[0].platform.kind)
      return make_error(
          ErrorClass::kInput,
          fmt::format("expected times of one kind, found '{}' of '{}' and '{}' of '{}'",
                      record::kind_name(pool.groups[0].platform.kind), sanitize(pool.groups[0].platform.name),
                      record::kind_name(group.platform.kind), sanitize(group.platform.name)),
          "simulated and measured times never mix: name pools of one kind");
    PoolFeatures::Group& made = out.groups.emplace_back();
    made.workload = group.task.workload, made.platform = group.platform.name;
    made.weight = static_cast<double>(std::max<int64_t>(group.task.weight, 1));
    made.task = ir::hash_kernel(group.task.kernel), made.platform_hash = group.platform.hash();
  }
  PoolSamples read = pool_samples(pool, needs, threads);
  out.skipped = read.dropped;
  for (size_t i = 0; i < read.samples.size(); ++i) {
    PoolFeatures::Group& group = out.groups[static_cast<size_t>(read.groups[i])];
    group.samples.push_back(std::move(read.samples[i]));
    const data::Group& from = pool.groups[static_cast<size_t>(read.groups[i])];
    group.seconds.push_back(from.entries[static_cast<size_t>(read.entries[i])].seconds);
  }
  if (out.programs() == 0)
    return make_error(ErrorClass::kInput, "this version of tcc makes none of the pool's programs",
                      "collect the pool again with `tcc dataset collect`");
  if (out.failed_groups() == std::ssize(out.groups))
    return make_error(ErrorClass::kInput,
                      fmt::format("expected programs that ran, found {}, which all failed", out.programs()),
                      "`tcc dataset stats POOL` counts the failures of each task");
  return out;
}

namespace {

// The group's programs, with their labels for one head.
void add_group(nn::Samples& out, const PoolFeatures::Group& g, const nn::Config& config, size_t head) {
  std::vector<float> labels(static_cast<size_t>(config.heads), std::numeric_limits<float>::quiet_NaN());
  const double best = g.best_seconds();
  std::vector<float> memory;
  for (size_t i = 0; i < g.samples.size(); ++i) {
    labels[head] = g.seconds[i] > 0 ? static_cast<float>(best / g.seconds[i]) : 0.f;
    const std::vector<std::span<const float>> tables(g.samples[i].tables.begin(), g.samples[i].tables.end());
    out.add(cost::network_rows(config, g.samples[i].row.values, tables, memory), labels,
            combine_hash(g.task, g.platform_hash));
  }
}

}  // namespace

nn::Samples network_samples(const PoolFeatures& features, const nn::Config& config,
                            std::span<const uint64_t> platforms) {
  nn::Samples out(config);
  for (const PoolFeatures::Group& g : features.groups) {
    size_t head = 0;
    if (config.heads > 1)
      head = static_cast<size_t>(std::find(platforms.begin(), platforms.end(), g.platform_hash) - platforms.begin());
    TCC_CHECK(head < static_cast<size_t>(config.heads), "platform {} for a network of {} heads", head, config.heads);
    add_group(out, g, config, head);
  }
  return out;
}

std::vector<float> score_group(const nn::Model& model, const PoolFeatures::Group& group, nn::Workspace& workspace,
                               ThreadPool* pool) {
  nn::Samples samples(model.config());
  add_group(samples, group, model.config(), 0);
  std::vector<float> scores(group.samples.size());
  model.predict(samples.batch(), scores, workspace, pool);
  return scores;
}

std::vector<float> score_group(const cost::CostModel& model, const PoolFeatures::Group& group) {
  features::Batch batch;
  for (const features::Sample& s : group.samples) batch.add(s);
  std::vector<float> scores(group.samples.size());
  if (!scores.empty()) model.predict(batch, scores);
  return scores;
}

cost::Samples cost_samples(const PoolFeatures& features) {
  cost::Samples out{.rows = features::Rows(*features.schema)};
  for (const PoolFeatures::Group& g : features.groups) {
    const double best = g.best_seconds();
    for (size_t i = 0; i < g.samples.size(); ++i) {
      out.rows.add(g.samples[i].row.values);
      out.throughputs.push_back(g.seconds[i] > 0 ? static_cast<float>(best / g.seconds[i]) : 0.f);
      out.tasks.push_back(combine_hash(g.task, g.platform_hash));
      out.programs.push_back(&g.samples[i]);
      out.records.push_back(std::ssize(out.records) + 1);
      out.seconds.push_back(g.seconds[i]);
    }
  }
  return out;
}

Judgement judge(const PoolFeatures& features, const Scorer& scorer) {
  Judgement out;
  std::vector<std::vector<float>> scores;
  for (const PoolFeatures::Group& g : features.groups) scores.push_back(scorer(g));
  std::vector<cost::RankedTask> tasks;
  for (size_t i = 0; i < scores.size(); ++i) {
    const PoolFeatures::Group& g = features.groups[i];
    tasks.push_back({g.seconds, scores[i], g.weight});
    const std::span<const cost::RankedTask> one(&tasks.back(), 1);
    out.groups.push_back({g.workload, g.platform, cost::top_k(one, 1), cost::top_k(one, 5), std::ssize(g.samples)});
  }
  out.top1 = cost::top_k(tasks, 1), out.top5 = cost::top_k(tasks, 5), out.pairs = cost::pair_accuracy(tasks);
  return out;
}

}  // namespace tcc::driver
