#include "tcc/driver/draft_pools.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "tcc/backend/backend.h"
#include "tcc/space/sketch_columns.h"

namespace tcc::driver {
namespace {

// The programs of one sketch.
class SketchDrafts {
 public:
  SketchDrafts(const data::Group& group, const space::Sketch& sketch, std::span<const cost::DraftOptions> models)
      : group_(group), sketch_(sketch), models_(models) {}

  // [model][entry] of these entries; an undecided or illegal program has no estimate.
  std::vector<std::vector<double>> run(const std::vector<size_t>& entries) {
    std::vector<std::vector<double>> out(models_.size(), std::vector<double>(entries.size(), -1));
    space::SketchColumns columns;
    std::string why;
    if (!space::sketch_columns(sketch_, group_.platform.target, columns, why)) return out;
    std::vector<analysis::Column> wanted = {columns.legal, columns.decided};
    for (const cost::DraftOptions& o : models_)
      wanted.push_back(
          cost::draft_seconds(columns.builder, columns.nest, group_.platform.target, group_.platform.threads, o));
    const analysis::ColumnProgram program = columns.builder.finish(wanted);
    constexpr auto kBlock = static_cast<size_t>(analysis::ColumnProgram::kBlock);
    const size_t room = (entries.size() + kBlock - 1) / kBlock * kBlock;
    std::vector<std::vector<double>> inputs(sketch_.trace.decisions.size(), std::vector<double>(room, 1));
    std::vector<std::vector<double>> results(wanted.size(), std::vector<double>(room));
    for (size_t i = 0; i < entries.size(); ++i)
      for (size_t s = 0; s < inputs.size(); ++s)
        inputs[s][i] = static_cast<double>(group_.entries[entries[i]].decisions[s]);
    std::vector<const double*> in;
    std::vector<double*> to;
    for (const std::vector<double>& c : inputs) in.push_back(c.data());
    for (std::vector<double>& c : results) to.push_back(c.data());
    std::vector<double> scratch;
    program.run(in, to, std::ssize(entries), scratch);
    for (size_t m = 0; m < models_.size(); ++m)
      for (size_t i = 0; i < entries.size(); ++i)
        if (results[0][i] != 0 && results[1][i] != 0) out[m][i] = results[m + 2][i];
    return out;
  }
  // By the kernel.
  double of_kernel(const ir::Kernel& nest, const cost::DraftOptions& o) const {
    return cost::draft_kernel_seconds(nest, group_.platform.target, group_.platform.threads, o).value_or(-1);
  }

 private:
  const data::Group& group_;
  const space::Sketch& sketch_;
  std::span<const cost::DraftOptions> models_;
};

Result<DraftedGroup> draft_group(const data::Group& group, std::span<const cost::DraftOptions> models, bool rules) {
  DraftedGroup out = {group.task.workload, {}, std::vector<std::vector<double>>(models.size() + (rules ? 1 : 0)), 0};
  const std::unique_ptr<cost::CostModel> prior =
      backend::backend_of(group.platform.target).prior(group.platform.target);
  std::map<int32_t, std::vector<size_t>> by_sketch;
  for (size_t i = 0; i < group.entries.size(); ++i)
    if (group.entries[i].status == record::Status::kOk) by_sketch[group.entries[i].sketch].push_back(i);
  auto arena = std::make_shared<Arena>();
  for (const auto& [number, entries] : by_sketch) {
    const ir::Legal<space::Sketch> sketch =
        space::make_sketch(group.sketches[static_cast<size_t>(number)], group.task.kernel, group.platform.target);
    if (!sketch) return input_error("'{}': sketch {} is not made: {}", out.workload, number, sketch.error().text);
    SketchDrafts drafts(group, *sketch, models);
    const std::vector<std::vector<double>> estimates = drafts.run(entries);
    for (size_t i = 0; i < entries.size(); ++i) {
      const data::Entry& entry = group.entries[entries[i]];
      const bool known = models.empty() || estimates[0][i] >= 0;
      std::optional<ir::Kernel> nest;
      if (!known || rules) {
        arena->reset();
        ir::Legal<ir::Kernel> made = space::instantiate(*sketch, entry.decisions, group.platform.target, arena);
        if (!made) return input_error("'{}': program {} is not made: {}", out.workload, entries[i], made.error().text);
        nest = *made;
      }
      out.seconds.push_back(entry.seconds);
      out.without_columns += known ? 0 : 1;
      for (size_t m = 0; m < models.size(); ++m)
        out.estimates[m].push_back(known ? estimates[m][i] : drafts.of_kernel(*nest, models[m]));
      if (!rules) continue;
      const features::Row row =
          features::extract(prior->schema(), *nest, group.platform.target, group.platform.threads);
      features::Batch batch;
      batch.add(*row.schema, row.values);
      float score = 0;
      prior->predict(batch, {&score, 1});
      out.estimates.back().push_back(-static_cast<double>(score));
    }
  }
  return out;
}

}  // namespace

Result<std::vector<DraftedGroup>> draft_pool(const data::Pool& pool, std::span<const cost::DraftOptions> models,
                                             bool rules, int64_t least) {
  std::vector<DraftedGroup> out;
  for (const data::Group& group : pool.groups) {
    if (std::ssize(group.entries) < least) continue;
    TCC_TRY(DraftedGroup drafted, draft_group(group, models, rules));
    out.push_back(std::move(drafted));
  }
  return out;
}

double best_of_drafts(const DraftedGroup& group, size_t model, int64_t k) {
  const std::vector<double>& estimates = group.estimates[model];
  std::vector<size_t> order(estimates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return estimates[x] < estimates[y]; });
  order.resize(std::min(order.size(), static_cast<size_t>(k)));
  if (order.empty()) return 0;
  double first = group.seconds[order[0]];
  for (size_t i : order) first = std::min(first, group.seconds[i]);
  return *std::min_element(group.seconds.begin(), group.seconds.end()) / first;
}

}  // namespace tcc::driver
