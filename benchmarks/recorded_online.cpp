// A search that replays: each round, every task of networks that the model has not seen reveals the programs that the
// model ranks first, and the model learns from all that is revealed, by the code of a search (cost::make_model). The
// checkpoint is that of another platform. A round's value is that of top-k: best seconds over best revealed seconds, by
// task weight.
#include <algorithm>

#include "recorded.h"
#include "tcc/backend/backend.h"
#include "tcc/support/hash.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

constexpr int kRounds = 12;
constexpr int64_t kRoundPrograms = 32;  // about; at least one of each task

struct Method {
  const char* name;
  const char* model;
  bool pretrained;
  cost::Adaptation adaptation;
};
constexpr Method kMethods[] = {{"moa", "mamba", true, cost::Adaptation::kMoa},
                               {"finetune", "mamba", true, cost::Adaptation::kFineTune},
                               {"frozen", "mamba", true, cost::Adaptation::kNone},
                               {"scratch", "mamba", false, cost::Adaptation::kNone},
                               {"trees", "trees", false, cost::Adaptation::kNone}};

// The programs that a search has measured, and the others.
class Replay {
 public:
  Replay(const driver::PoolFeatures& all, uint64_t seed) : all_(all), samples_{.rows = features::Rows(*all.schema)} {
    for (const driver::PoolFeatures::Group& g : all.groups) {
      revealed_.emplace_back(g.samples.size(), false);
      if (!g.samples.empty() && g.best_seconds() > 0) order_.push_back(revealed_.size() - 1);
    }
    best_.assign(all.groups.size(), 0);
    Rng rng(seed);
    for (size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
  }

  void round(const cost::CostModel& model) {
    const int64_t each = std::max<int64_t>(kRoundPrograms / std::max<int64_t>(std::ssize(order_), 1), 1);
    for (size_t g : order_) {
      const std::vector<float> scores = driver::score_group(model, all_.groups[g]);
      for (int64_t i = 0; i < each; ++i) reveal_best(g, scores);
    }
  }

  void teach(cost::CostModel& model) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const double seconds = samples_.seconds[i];
      samples_.throughputs[i] = seconds > 0 ? static_cast<float>(best_[groups_[i]] / seconds) : 0.f;
    }
    model.update(samples_);
  }

  double value() const {
    double least = 0, found = 0;
    for (size_t g : order_) {
      const driver::PoolFeatures::Group& group = all_.groups[g];
      const double slowest = *std::max_element(group.seconds.begin(), group.seconds.end());
      least += group.weight * group.best_seconds();
      // A task with failures only is as slow as its slowest program.
      found += group.weight * (best_[g] > 0 ? best_[g] : slowest);
    }
    return found > 0 ? least / found : 0;
  }

 private:
  void reveal_best(size_t g, const std::vector<float>& scores) {
    size_t best = scores.size();
    for (size_t i = 0; i < scores.size(); ++i)
      if (!revealed_[g][i] && (best == scores.size() || scores[i] > scores[best])) best = i;
    if (best == scores.size()) return;
    revealed_[g][best] = true;
    const driver::PoolFeatures::Group& group = all_.groups[g];
    const double seconds = group.seconds[best];
    if (seconds > 0 && (best_[g] == 0 || seconds < best_[g])) best_[g] = seconds;
    samples_.rows.add(group.samples[best].row.values);
    samples_.throughputs.push_back(0);
    samples_.tasks.push_back(group.task);
    samples_.programs.push_back(&group.samples[best]);
    samples_.records.push_back(std::ssize(samples_.records) + 1);
    samples_.seconds.push_back(seconds);
    groups_.push_back(g);
  }

  const driver::PoolFeatures& all_;
  cost::Samples samples_;
  std::vector<size_t> groups_;  // of the samples
  std::vector<std::vector<bool>> revealed_;
  std::vector<double> best_;   // revealed seconds of each group; 0: none that ran
  std::vector<size_t> order_;  // of the tasks
};

class Online {
 public:
  Online(Recorded& recorded, const Family& family, size_t target)
      : recorded_(recorded),
        family_(family),
        target_(family.platforms[target]),
        source_(family.platforms[(target + 1) % family.platforms.size()]) {}

  std::vector<Row> rows() {
    std::map<std::string, std::vector<std::optional<Recorded::Values>>> found;
    for (int64_t seed = 1; seed <= kEffort.seeds; ++seed) {
      folder_.reset();
      for (const Method& method : kMethods)
        found[method.name].push_back(
            recorded_.unit(fmt::format("online.{}.{}.{}", target_, method.name, seed), effort_text(1),
                           {family_.name + "-train-" + source_, family_.name + "-heldout-" + target_},
                           [&] { return search(method, static_cast<uint64_t>(seed)); }));
    }
    std::vector<Row> out;
    const std::optional<double> moa = mean_of(found["moa"], "mean");
    for (const Method& method : kMethods)
      for (const char* value : {"mean", "first", "last"}) {
        const std::optional<double> mean = mean_of(found[method.name], value);
        if (!mean) continue;
        Row row{fmt::format("online.{}.{}.{}", target_, method.name, value),
                *mean,
                value == std::string("mean") ? fmt::format("mean of {} rounds", kRounds) : "",
                "",
                0,
                0};
        if (moa && method.name != std::string("moa") && value == std::string("mean"))
          row.peer = "moa", row.peer_value = *moa, row.ratio = *mean / *moa;
        out.push_back(std::move(row));
      }
    return out;
  }

 private:
  // A checkpoint that the source's programs gave; the methods of a seed share it.
  Result<std::string> checkpoint(const cost::NetworkInputs& inputs, uint64_t seed) {
    if (folder_ == nullptr) {
      TCC_TRY(folder_, TemporaryDirectory::create("tcc-bench"));
    }
    const std::string file = folder_->path() + "/source.tccnet";
    if (file_exists(file)) return file;
    TCC_TRY(const auto train,
            recorded_.load(family_.name + "-train-" + source_, inputs.tables, kEffort.source_programs));
    driver::TrainRequest request;
    request.network = "mamba", request.epochs = kEffort.epochs, request.seed = seed;
    request.pool = recorded_.threads();
    TCC_TRY(const driver::TrainedNetwork trained, driver::train_network(*train, request));
    TCC_TRY_VOID(nn::save_checkpoint(file, trained.model, trained.card));
    return file;
  }

  Result<Recorded::Values> search(const Method& method, uint64_t seed) {
    TCC_TRY(const cost::NetworkInputs inputs, recorded_.inputs("mamba", family_.name + "-heldout-" + target_));
    TCC_TRY(const auto heldout, recorded_.load(family_.name + "-heldout-" + target_, inputs.tables));
    TCC_TRY(const data::Platform platform, recorded_.platform(family_.name + "-heldout-" + target_));
    cost::ModelSetup setup{.name = method.model, .adaptation = method.adaptation, .trace = heldout->trace};
    setup.pool = recorded_.threads();
    if (method.pretrained) {
      TCC_TRY(setup.pretrained, checkpoint(inputs, seed));
    }
    TCC_TRY(const auto model, cost::make_model(setup, backend::backend_of(platform.target).prior(platform.target)));
    Replay replay(*heldout, combine_hash(seed, 0x6f6e6c));
    Recorded::Values values;
    for (int round = 0; round < kRounds; ++round) {
      replay.round(*model);
      values["mean"] += replay.value() / kRounds;
      if (round == 0) values["first"] = replay.value();
      if (round + 1 < kRounds) replay.teach(*model);
    }
    values["last"] = replay.value();
    return values;
  }

  Recorded& recorded_;
  const Family& family_;
  const std::string target_, source_;
  std::unique_ptr<TemporaryDirectory> folder_;
};

}  // namespace

std::vector<Row> online_rows(Recorded& recorded) {
  std::vector<Row> out;
  for (const Family& family : families())
    for (size_t target = 0; target < family.platforms.size(); ++target)
      for (Row& row : Online(recorded, family, target).rows()) out.push_back(std::move(row));
  return out;
}

}  // namespace tcc::benchmarks
