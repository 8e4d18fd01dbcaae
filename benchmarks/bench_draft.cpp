// Drafts: how many programs a core drafts in a second, and how good the first ones of a pool are.
#include "bench.h"
#include "sample_tasks.h"
#include "tcc/driver/draft_pools.h"
#include "tcc/search/draft_explorer.h"
#include "tcc/space/space.h"

namespace tcc::benchmarks {
namespace {

// Programs that are legal and new within their call, a second and core, on both cores. Making the sketches and their
// array programs is not timed.
void add_draft_rate(const std::string& name, const task::Task& task, const target::Target& target, bool wide,
                    double seconds, std::vector<Row>& rows) {
  if (!wanted(name)) return;
  space::SpaceOptions options;
  options.metaschedule = wide;
  std::vector<space::Sketch> sketches;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target, options))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target))
      sketches.push_back(std::move(*sketch));
  std::vector<search::DraftExplorer> explorers;
  for (int w = 0; w < 2; ++w)
    explorers.emplace_back(sketches, target, 1, schedule::mutator_weights(false), search::ExplorerOptions{});
  std::vector<search::ExplorerCounts> counts(2);
  std::vector<uint64_t> seeds = {1, 1'000'000};
  const double rate = rate_per_thread(2, seconds, [&](int w) {
    search::ExplorerCounts& c = counts[static_cast<size_t>(w)];
    const int64_t before = c.fresh;
    explorers[static_cast<size_t>(w)].explore(seeds[static_cast<size_t>(w)]++, c);
    return static_cast<double>(c.fresh - before);
  });
  const search::ExplorerCounts& c = counts[0];
  rows.push_back(
      {name, rate, "1/s/core",
       fmt::format("{} sketches, {} without columns; of what was made {:.3f} new, {:.3f} rejected, {:.3f} asked",
                   sketches.size(), explorers[0].without_columns().size(),
                   static_cast<double>(c.fresh) / static_cast<double>(c.made),
                   static_cast<double>(c.rejected) / static_cast<double>(c.made),
                   static_cast<double>(c.asked) / static_cast<double>(c.made)),
       0, 0});
}

}  // namespace

void add_draft_rates(double seconds, std::vector<Row>& rows) {
  const target::Target host = target::host_target();
  const task::Task gemm = task::make_gemm({.m = 1024, .n = 1024, .k = 1024});
  add_draft_rate("gemm1024.draft", gemm, host, true, seconds, rows);
  const task::Task conv = task::make_conv({.channels = 3,
                                           .filters = 64,
                                           .size = {224, 224},
                                           .kernel = {7, 7},
                                           .strides = {2, 2},
                                           .pads = {3, 3},
                                           .bias = true,
                                           .relu = true});
  add_draft_rate("conv2d_bn_relu.draft", conv, host, true, seconds, rows);
  if (const Result<target::Target> a100 = target::find_target("a100"))
    add_draft_rate("a100.gemm1024.draft", gemm, *a100, false, seconds, rows);
}

std::vector<Row> run_draft_suite(double seconds) {
  std::vector<Row> rows;
  add_draft_rates(seconds, rows);
  std::vector<cost::DraftOptions> models = {
      {cost::DraftKind::kTcc}, {cost::DraftKind::kPaper}, {cost::DraftKind::kReleased}};
  std::vector<std::string> names = {"tcc", "paper", "released"};
  for (uint32_t p = 0; p <= static_cast<uint32_t>(cost::DraftPenalty::kCores); ++p) {
    models.push_back({cost::DraftKind::kTcc, 1U << p});
    names.push_back(fmt::format("tcc-without-{}", cost::penalty_name(static_cast<cost::DraftPenalty>(p))));
  }
  names.push_back("rules");
  const std::vector<std::string> pools = {"gemm", "conv1x1", "conv3x3", "depthwise", "attention", "layernorm"};
  const std::vector<int64_t> counts = {1, 10, 50, 128, 512};
  std::vector<std::vector<double>> sums(names.size(), std::vector<double>(counts.size(), 0));
  double groups = 0;
  for (const std::string& pool : pools) {
    const std::string path = fmt::format("{}/{}/cpu-2000-{}.pool.gz", TCC_SOURCE_DIR, options().pools, pool);
    const Result<data::Pool> file = data::read_pool(path);
    const Result<std::vector<driver::DraftedGroup>> drafted =
        file ? driver::draft_pool(*file, models, true, 1000) : tl::make_unexpected(file.error());
    if (!drafted) {
      rows.push_back({"draft." + pool, 0, "bool", "did not run: " + drafted.error().message, 0, 0});
      continue;
    }
    for (const driver::DraftedGroup& group : *drafted) {
      ++groups;
      for (size_t m = 0; m < names.size(); ++m)
        for (size_t k = 0; k < counts.size(); ++k) sums[m][k] += driver::best_of_drafts(group, m, counts[k]);
      for (size_t k = 0; k < counts.size(); ++k) {
        const double value = driver::best_of_drafts(group, 0, counts[k]),
                     peer = driver::best_of_drafts(group, names.size() - 1, counts[k]);
        rows.push_back({fmt::format("draft.{}.best1of{}", pool, counts[k]), value, "of the best", "rules", peer,
                        value / std::max(peer, 1e-9)});
      }
    }
  }
  for (size_t m = 0; m < names.size() && groups > 0; ++m)
    for (size_t k = 0; k < counts.size(); ++k)
      rows.push_back({fmt::format("draft.mean.{}.best1of{}", names[m], counts[k]), sums[m][k] / groups, "of the best",
                      "rules", sums.back()[k] / groups, sums[m][k] / std::max(sums.back()[k], 1e-9)});
  return rows;
}

}  // namespace tcc::benchmarks
