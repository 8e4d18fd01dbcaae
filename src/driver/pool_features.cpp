// From pools to what cost models read.
#include <algorithm>
#include <atomic>
#include <map>

#include "tcc/backend/backend.h"
#include "tcc/cost/ranking_metrics.h"
#include "tcc/driver/cost_models.h"
#include "tcc/space/sketch.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr int64_t kTogether = 64;  // programs of one piece of work

struct Piece {
  size_t group = 0, first = 0, count = 0;
};

// "gemm 1x512x784 tb + bias f32" -> "gemm".
std::string class_of(const std::string& workload) {
  return workload.substr(0, workload.find(' '));
}

}  // namespace

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

Result<PoolFeatures> extract_pool(const data::Pool& pool, std::span<const features::Table* const> tables,
                                  ThreadPool* threads, const std::function<void(double)>& progress) {
  if (pool.entries() == 0) return input_error("the pool holds no program");
  PoolFeatures out;
  out.tables.assign(tables.begin(), tables.end());
  const target::TargetKind kind = pool.groups[0].platform.target.kind;
  const auto prior = backend::backend_of(pool.groups[0].platform.target).prior(pool.groups[0].platform.target);
  out.schema = &prior->schema();
  const features::Needs needs(*out.schema, out.tables);
  std::vector<std::vector<ir::Legal<space::Sketch>>> sketches(pool.groups.size());
  std::vector<Piece> pieces;
  for (size_t g = 0; g < pool.groups.size(); ++g) {
    const data::Group& group = pool.groups[g];
    if (group.platform.target.kind != kind)
      return input_error(
          "the pool mixes kinds of targets: expected programs for one of CPU and GPU, found '{}' and '{}'",
          pool.groups[0].platform.target.name, group.platform.target.name);
    for (const schedule::Trace& trace : group.sketches)
      sketches[g].push_back(space::make_sketch(trace, group.task.kernel, group.platform.target));
    PoolFeatures::Group& made = out.groups.emplace_back();
    made.workload = group.task.workload, made.platform = group.platform.name;
    made.operator_class = class_of(group.task.workload);
    made.weight = static_cast<double>(std::max<int64_t>(group.task.weight, 1));
    made.task = ir::hash_kernel(group.task.kernel), made.platform_hash = group.platform.hash();
    made.samples.resize(group.entries.size());
    made.seconds.resize(group.entries.size());
    for (size_t at = 0; at < group.entries.size(); at += kTogether)
      pieces.push_back({g, at, std::min<size_t>(kTogether, group.entries.size() - at)});
  }
  std::vector<features::Workspace> workspaces(static_cast<size_t>(threads != nullptr ? threads->size() : 1));
  std::vector<ArenaPtr> arenas(workspaces.size());
  for (ArenaPtr& arena : arenas) arena = std::make_shared<Arena>();
  std::atomic<int64_t> done = 0;
  const auto work = [&](int64_t p, int worker) {
    const Piece& piece = pieces[static_cast<size_t>(p)];
    const data::Group& group = pool.groups[piece.group];
    for (size_t i = piece.first; i < piece.first + piece.count; ++i) {
      const data::Entry& e = group.entries[i];
      const auto& sketch = sketches[piece.group][static_cast<size_t>(e.sketch)];
      if (!sketch) continue;
      const ArenaPtr& arena = arenas[static_cast<size_t>(worker)];
      arena->reset();
      ir::Legal<ir::Kernel> nest = space::instantiate(*sketch, e.decisions, group.platform.target, arena);
      if (!nest) continue;
      features::extract(needs,
                        {group.task, sketch->trace, e.decisions, *nest, group.platform.target, group.platform.threads},
                        workspaces[static_cast<size_t>(worker)], out.groups[piece.group].samples[i]);
      out.groups[piece.group].seconds[i] = e.status == record::Status::kOk ? e.seconds : 0;
    }
    const int64_t n = ++done;
    if (progress && n % 16 == 0) progress(static_cast<double>(n) / static_cast<double>(pieces.size()));
  };
  if (threads != nullptr)
    threads->parallel_for(std::ssize(pieces), work);
  else
    for (int64_t p = 0; p < std::ssize(pieces); ++p) work(p, 0);
  for (PoolFeatures::Group& g : out.groups) {
    size_t kept = 0;
    for (size_t i = 0; i < g.samples.size(); ++i) {
      if (g.samples[i].empty()) {
        ++out.skipped;
        continue;
      }
      if (kept != i) g.samples[kept] = std::move(g.samples[i]), g.seconds[kept] = g.seconds[i];
      ++kept;
    }
    g.samples.resize(kept), g.seconds.resize(kept);
  }
  if (out.programs() == 0)
    return make_error(ErrorClass::kInput, "this version of tcc makes none of the pool's programs",
                      "collect the pool again with `tcc dataset collect`");
  return out;
}

nn::Samples network_samples(const PoolFeatures& features, const nn::Config& config,
                            std::span<const uint64_t> platforms) {
  nn::Samples out(config);
  const auto nothing = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> labels(static_cast<size_t>(config.heads));
  for (const PoolFeatures::Group& g : features.groups) {
    size_t head = 0;
    while (head < platforms.size() && platforms[head] != g.platform_hash) ++head;
    if (head >= labels.size()) head = 0;
    const double best = g.best_seconds();
    for (size_t i = 0; i < g.samples.size(); ++i) {
      std::fill(labels.begin(), labels.end(), nothing);
      labels[head] = g.seconds[i] > 0 ? static_cast<float>(best / g.seconds[i]) : 0.f;
      const std::vector<std::span<const float>> tables(g.samples[i].tables.begin(), g.samples[i].tables.end());
      out.add(cost::network_rows(config.architecture, tables), labels, combine_hash(g.task, g.platform_hash));
    }
  }
  return out;
}

std::vector<float> score_group(const nn::Model& model, const PoolFeatures::Group& group, nn::Workspace& workspace,
                               ThreadPool* pool) {
  PoolFeatures one;
  one.groups.push_back(group);
  const nn::Samples samples = network_samples(one, model.config());
  std::vector<float> scores(group.samples.size());
  model.predict(samples.batch(), scores, workspace, pool);
  return scores;
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
