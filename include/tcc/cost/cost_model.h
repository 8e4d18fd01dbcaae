// What a program is worth before it is run. Scores are relative: within one task, higher is expected to be faster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tcc/features/sample.h"
#include "tcc/support/parallel.h"
#include "tcc/support/result.h"
#include "tcc/target/core_model.h"

namespace tcc::cost {

// Measured programs. Rows and samples are given in the order of their records: models are functions of that order.
struct Samples {
  features::Rows rows;              // one a sample
  std::vector<float> throughputs;   // best seconds of the task / seconds of the sample, in (0, 1]; 0 = failed
  std::vector<uint64_t> tasks;      // equal for samples of one task
  std::vector<float> weights = {};  // of the samples, above 0; empty: 1 each
  // The samples with their tables, for models that read any; nullptr: only the row of a sample is known. Empty: of
  // none.
  std::vector<const features::Sample*> programs = {};
  // The ids of the records, and what was measured: seconds, 0 = failed. 0 as id: of no record of this store. Empty: of
  // none.
  std::vector<int64_t> records = {};
  std::vector<double> seconds = {};
  // The task whose programs will be ranked: its samples are fitted again, by what the others leave of them.
  std::optional<uint64_t> task = {};
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // That of the rows that this model reads and learns from, and by which a search tells programs apart.
  virtual const features::Schema& schema() const = 0;
  // The tables that it reads beside them. They are extracted for each candidate, in this order.
  virtual std::span<const features::Table* const> tables() const { return {}; }
  features::Needs needs() const { return {schema(), tables()}; }
  // Hash of the parameters that this model begins a search with; 0: it begins with none.
  virtual uint64_t checkpoint() const { return 0; }
  // scores.size() == programs.size(). Thread-safe between updates. The score of a program depends neither on the other
  // programs of the batch nor on the number of threads.
  virtual void predict(const features::Batch& programs, std::span<float> scores) const = 0;
  // The same with how far the model is from sure, in the scores' unit; 0 where it cannot tell.
  virtual void predict_spread(const features::Batch& programs, std::span<float> scores, std::span<float> spreads) const;
  // True: update() gets all samples that are known, for models that choose which of them to learn from. False: it
  // gets the latest few thousand.
  virtual bool wants_all_samples() const { return false; }
  // Learns from all samples so far; the same samples give the same model, bit for bit. A prior learns nothing.
  virtual void update(const Samples& samples);
  // False until there are enough samples (16) to say more than the prior knowledge.
  virtual bool trained() const { return false; }
  // A sentence for the user where the last update failed and left the model as it was before; "": it did not.
  virtual std::string_view trouble() const { return {}; }

  // The seconds that a program is expected to take; 0: this model's scores only rank.
  virtual double expected_seconds(const features::Row&) const { return 0; }

  // Equal for programs that differ in little that this model knows: the same tiles, cluster and stages. 0: unknown.
  virtual uint64_t family(const features::Row&) const { return 0; }

  float score(const features::Row& row) const;  // of one program
};

// A fixed ranking of programs for CPUs from what is known about cores: vector use, register tile against registers,
// cache traffic, balance of the parallel loop. Reads features::kHotStatement. The prior of CPU targets.
std::unique_ptr<CostModel> make_rule_model(const target::CoreModel& core = {});
// The analytical model's ranking of programs for GPUs (gpu_model.h). Reads kLongestLaunch. The prior of CUDA targets.
std::unique_ptr<CostModel> make_gpu_model();

// How a search adapts a checkpoint once programs are measured. X(Name, text)
//   moa: Pruner's momentum adaptation, where each update begins from slowly moving parameters
//   finetune: each update goes on from the one before
//   none: the checkpoint stays as it is
// clang-format off
#define TCC_ADAPTATIONS(X) X(Moa, "moa") X(FineTune, "finetune") X(None, "none")
// clang-format on
enum class Adaptation : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_ADAPTATIONS(TCC_X)
#undef TCC_X
};
std::span<const std::string_view> adaptation_names();
Result<Adaptation> find_adaptation(std::string_view name);

inline constexpr std::string_view kShipped = "auto";

struct ModelSetup {
  std::string name;  // of model_kinds()
  // Of networks: the file of a checkpoint; kShipped: the one that ships for the target, where one does; "": none.
  std::string pretrained;
  Adaptation adaptation = Adaptation::kMoa;
  const features::Table* trace = &features::kTraceCpu;  // the steps of the target's schedules
  ThreadPool* pool = nullptr;                           // trains and predicts; nullptr = this thread
  // Of PaCM without a checkpoint: the parts of the network that get inputs. Without inputs a part contributes nothing.
  bool statement_branch = true, dataflow_branch = true;
};

// The models that a search may use: those of the table in src/cost/models.cpp and the networks of network_model.h. A
// model is made from the target's prior, which it may build upon. A new model: one file in src/cost and one row.
struct ModelKind {
  std::string_view name, summary;
};
std::vector<ModelKind> model_kinds();
// Errors: no model has this name; a checkpoint for a model that has none; a branch left out of a model without
// branches, or of a checkpoint; those of make_network_model.
Result<std::unique_ptr<CostModel>> make_model(const ModelSetup& setup, std::unique_ptr<CostModel> prior);
inline constexpr std::string_view kDefaultModel = "trees";

}  // namespace tcc::cost
