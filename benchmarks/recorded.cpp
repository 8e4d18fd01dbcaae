#include "recorded.h"

#include <algorithm>
#include <cstdio>

#include "tcc/backend/backend.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

// The first `n` programs of each group.
void shorten(data::Pool& pool, int64_t n) {
  for (data::Group& g : pool.groups)
    if (std::ssize(g.entries) > n) g.entries.resize(static_cast<size_t>(n));
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {{"cpu", {"v4", "v3", "v2"}}, {"gpu", {"sim1", "sim2", "sim3", "sim4"}}};
  return all;
}

std::vector<std::string> Family::sources_of(size_t target) const {
  return {platforms[(target + 1) % platforms.size()], platforms[(target + 2) % platforms.size()]};
}

std::string effort_text(int version) {
  return fmt::format("{} {} {} {} {} {}", version, kEffort.epochs, kEffort.probe_epochs, kEffort.source_programs,
                     kEffort.share, kEffort.seeds);
}

Result<Recorded> Recorded::open(const std::string& results, const std::string& pools, double budget_minutes,
                                int threads) {
  Recorded out;
  out.pools_ = pools;
  out.budget_seconds_ = budget_minutes * 60;
  out.threads_ = std::make_unique<ThreadPool>(threads);
  TCC_TRY(RecordedUnits units, RecordedUnits::open(results));
  out.units_ = std::make_unique<RecordedUnits>(std::move(units));
  return out;
}

std::string Recorded::pool_file(const std::string& name) const {
  return fmt::format("{}/{}.pool.gz", pools_, name);
}

std::optional<Recorded::Values> Recorded::unit(const std::string& name, const std::string& settings,
                                               const std::vector<std::string>& files,
                                               const std::function<Result<Values>()>& compute) {
  if (!wanted(name)) return std::nullopt;
  uint64_t inputs = hash_bytes(settings);
  for (const std::string& file : files) {
    if (auto known = hashes_.find(file); known == hashes_.end()) {
      auto text = read_file(pool_file(file));
      if (!text) {
        missing_.push_back(fmt::format("{}: {}", name, text.error().message));
        return std::nullopt;
      }
      hashes_[file] = hash_bytes(*text);
    }
    inputs = combine_hash(inputs, hashes_.at(file));
  }
  if (auto known = units_->find(name, inputs)) return known;
  if (budget_seconds_ > 0 && watch_.seconds() >= budget_seconds_) {
    missing_.push_back(name + ": the time was spent");
    return std::nullopt;
  }
  const Stopwatch watch;
  Result<Values> found = compute();
  if (found)
    if (auto kept = units_->keep(name, inputs, *found, watch.seconds()); !kept)
      found = tl::make_unexpected(kept.error());
  if (!found) {
    missing_.push_back(fmt::format("{}: {}", name, found.error().message));
    return std::nullopt;
  }
  std::fprintf(stderr, "%s: %.0f s\n", name.c_str(), watch.seconds());
  return *found;
}

Result<data::Platform> Recorded::platform(const std::string& name) const {
  TCC_TRY(const data::Pool pool, data::read_pool(pool_file(name)));
  if (pool.groups.empty()) return input_error("'{}': expected programs, found none", name);
  return pool.groups[0].platform;
}

Result<cost::NetworkInputs> Recorded::inputs(const std::string& network, const std::string& name) const {
  TCC_TRY(const data::Platform made_for, platform(name));
  return cost::network_inputs(*cost::find_network(network), *backend::backend_of(made_for.target).trace_table);
}

bool Recorded::has(const std::string& name) const {
  return file_exists(pool_file(name));
}

Result<std::shared_ptr<const driver::PoolFeatures>> Recorded::load(const std::string& name,
                                                                   std::span<const features::Table* const> tables,
                                                                   int64_t per_task) {
  std::string key = fmt::format("{} {}", name, per_task);
  for (const features::Table* t : tables) key += fmt::format(" {}", t->name);
  if (auto known = loaded_.find(key); known != loaded_.end()) return known->second;
  TCC_TRY(data::Pool pool, data::read_pool(pool_file(name)));
  if (per_task > 0) shorten(pool, per_task);
  TCC_TRY(driver::PoolFeatures made, driver::extract_pool(pool, tables, threads_.get()));
  // A few sets at a time: the rows of one take some hundred megabytes.
  if (loaded_.size() >= 10) loaded_.clear();
  return loaded_[key] = std::make_shared<const driver::PoolFeatures>(std::move(made));
}

driver::PoolFeatures joined(std::span<const driver::PoolFeatures* const> parts) {
  driver::PoolFeatures out = *parts[0];
  for (const driver::PoolFeatures* part : parts.subspan(1))
    out.groups.insert(out.groups.end(), part->groups.begin(), part->groups.end());
  return out;
}

driver::PoolFeatures without_groups(const driver::PoolFeatures& all) {
  driver::PoolFeatures out;
  out.tables = all.tables, out.schema = all.schema, out.trace = all.trace, out.simulated = all.simulated;
  return out;
}

driver::PoolFeatures random_share(const driver::PoolFeatures& all, double share, uint64_t seed) {
  driver::PoolFeatures out = without_groups(all);
  for (size_t g = 0; g < all.groups.size(); ++g) {
    const driver::PoolFeatures::Group& from = all.groups[g];
    driver::PoolFeatures::Group& to = out.groups.emplace_back();
    to.workload = from.workload, to.platform = from.platform;
    to.weight = from.weight, to.task = from.task, to.platform_hash = from.platform_hash;
    const double n = static_cast<double>(from.samples.size());
    const nn::Split split =
        nn::random_split(std::ssize(from.samples), std::max(share, std::min(2 / n, 1.0)), combine_hash(seed, g));
    for (int64_t i : split.chosen) {
      to.samples.push_back(from.samples[static_cast<size_t>(i)]);
      to.seconds.push_back(from.seconds[static_cast<size_t>(i)]);
    }
  }
  return out;
}

std::optional<double> mean_of(const std::vector<std::optional<Recorded::Values>>& units, const std::string& value) {
  double sum = 0;
  for (const auto& unit : units) {
    if (!unit || !unit->contains(value)) return std::nullopt;
    sum += unit->at(value);
  }
  if (units.empty()) return std::nullopt;
  return sum / static_cast<double>(units.size());
}

driver::Judgement judge_network(const nn::Model& model, const driver::PoolFeatures& features, ThreadPool* pool) {
  nn::Workspace workspace;
  return driver::judge(features, [&](const driver::PoolFeatures::Group& group) {
    return driver::score_group(model, group, workspace, pool);
  });
}

namespace {

void print_table(const std::string& title, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  std::printf("\n%s\n\n| row | value | unit | beside | ratio |\n| --- | --- | --- | --- | --- |\n", title.c_str());
  for (const Row& r : rows) {
    const std::string beside = r.peer_value != 0 ? fmt::format("{:.4f} {}", r.peer_value, r.peer) : r.peer;
    const std::string ratio = r.peer_value != 0 ? fmt::format("{:.3f}", r.ratio) : "";
    std::printf("| %s | %.4f | %s | %s | %s |\n", r.name.c_str(), r.value, r.unit.c_str(), beside.c_str(),
                ratio.c_str());
  }
}

std::string in_source(const std::string& path) {
  return path.starts_with('/') ? path : fmt::format("{}/{}", TCC_SOURCE_DIR, path);
}

}  // namespace

std::vector<Row> run_recorded_tables() {
  const Options& o = options();
  const int threads =
      o.threads > 0 ? static_cast<int>(o.threads) : static_cast<int>(std::max<size_t>(usable_cpus().size(), 1));
  auto recorded = Recorded::open(in_source(o.recorded), in_source(o.pools), o.budget, threads);
  if (!recorded) {
    std::fprintf(stderr, "cost-models: %s\n", recorded.error().message.c_str());
    return {{"cost-models", 0, "bool", "did not run: " + recorded.error().message, 0, 0}};
  }
  std::vector<Row> out;
  const struct {
    const char* title;
    std::vector<Row> (*rows)(Recorded&);
  } tables[] = {{"Networks that no model has seen", heldout_rows},
                {"A tenth of the data, chosen in four ways", sampler_rows},
                {"A tenth of a platform's data, and other platforms", transfer_rows},
                {"A checkpoint of another platform, adapted over rounds", online_rows},
                {"What ships, in searches of the default space", shipped_rows}};
  for (const auto& table : tables) {
    const std::vector<Row> rows = table.rows(*recorded);
    print_table(table.title, rows);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  if (!recorded->missing().empty()) {
    std::printf("\nmissing; the same call goes on with them:\n");
    for (const std::string& name : recorded->missing()) std::printf("  %s\n", name.c_str());
  }
  return out;
}

}  // namespace tcc::benchmarks
