// Experiments on pools of measured programs: nothing is measured, and the tables can be interrupted. An experiment is
// made of units, each some minutes of training at most. A unit's result goes to a file as soon as it is known, with a
// hash of its pools and settings; a later run takes it from there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench.h"
#include "recorded_units.h"
#include "tcc/driver/cost_models.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {

// Platforms whose programs can be compared: CPU levels, or simulated GPUs.
struct Family {
  std::string name;                    // "cpu", "gpu"; files are NAME-train-PLATFORM.pool.gz, NAME-heldout-...
  std::vector<std::string> platforms;  // the first one is the main one
  // Two other platforms, from which a platform is learned: those that follow it.
  std::vector<std::string> sources_of(size_t target) const;
};
const std::vector<Family>& families();

// The same for all methods of a table. An epoch of a small set has 16 batches (tcc::driver::train_network), so methods
// that learn from less data take as many steps.
struct Effort {
  int64_t epochs = 20;           // of a network that learns from one platform, and of each stage of several
  int64_t probe_epochs = 2;      // of a network that chooses what to measure next, after each of ten steps
  int64_t source_programs = 64;  // of a task of another platform, to learn from
  double share = 0.1;            // of the target's programs
  int64_t seeds = 3;
};
inline constexpr Effort kEffort;
// Of networks that are judged on networks that they have not seen, as in their papers.
inline constexpr int64_t kHeldoutEpochs = 50;

class Recorded {
 public:
  using Values = RecordedUnits::Values;

  // Errors: the file of results is not what this class writes.
  static Result<Recorded> open(const std::string& results, const std::string& pools, double budget_minutes,
                               int threads);

  // The unit's result: kept values, or those of `compute`. nullopt: not asked for by --only, the budget is spent, or
  // it failed; the latter two are named in missing(). `settings`: other values than these make the kept ones void.
  // `files`: pools that the unit reads, by name.
  std::optional<Values> unit(const std::string& name, const std::string& settings,
                             const std::vector<std::string>& files, const std::function<Result<Values>()>& compute);

  // File NAME.pool.gz with these tables. At most `per_task` programs of each group, the first ones; 0: all.
  Result<std::shared_ptr<const driver::PoolFeatures>> load(const std::string& name,
                                                           std::span<const features::Table* const> tables,
                                                           int64_t per_task = 0);
  // What a network reads of the programs of file NAME.pool.gz.
  Result<cost::NetworkInputs> inputs(const std::string& network, const std::string& name) const;
  // What ran the programs of file NAME.pool.gz.
  Result<data::Platform> platform(const std::string& name) const;
  bool has(const std::string& name) const;
  ThreadPool* threads() { return threads_.get(); }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  Recorded() = default;
  std::string pool_file(const std::string& name) const;

  std::string pools_;
  double budget_seconds_ = 0;
  std::unique_ptr<RecordedUnits> units_;
  std::map<std::string, uint64_t> hashes_;  // of pools
  std::map<std::string, std::shared_ptr<const driver::PoolFeatures>> loaded_;
  std::unique_ptr<ThreadPool> threads_;
  std::vector<std::string> missing_;
  Stopwatch watch_;
};

// The settings of kEffort and of a table's own `version`, which is raised whenever the same pools give other values.
std::string effort_text(int version);
// All programs of `parts` as one set.
driver::PoolFeatures joined(std::span<const driver::PoolFeatures* const> parts);
// What is the same of any part of a pool.
driver::PoolFeatures without_groups(const driver::PoolFeatures& all);
// A random share of each task's programs, at least two.
driver::PoolFeatures random_share(const driver::PoolFeatures& all, double share, uint64_t seed);
// The mean of a value over units that are all there; nullopt: one is missing.
std::optional<double> mean_of(const std::vector<std::optional<Recorded::Values>>& units, const std::string& value);
driver::Judgement judge_network(const nn::Model& model, const driver::PoolFeatures& features, ThreadPool* pool);

// The tables, one function each; rows whose units are missing are left out.
std::vector<Row> heldout_rows(Recorded& recorded);   // every model on networks that it has not seen
std::vector<Row> sampler_rows(Recorded& recorded);   // a tenth of the data, chosen in four ways
std::vector<Row> transfer_rows(Recorded& recorded);  // a tenth of a platform's data, and other platforms
std::vector<Row> online_rows(Recorded& recorded);    // a checkpoint of another platform adapts round by round
std::vector<Row> shipped_rows(Recorded& recorded);   // the checkpoints that ship, in searches of the default space

std::vector<Row> run_recorded_tables();

}  // namespace tcc::benchmarks
