// A search that replays: each round, every task of networks that the model has not seen reveals the programs that the
// model ranks first, and the model learns from all that is revealed, by the code of a search (cost::make_model). The
// checkpoint is that of another platform. A round's value is that of top-k: best seconds over best revealed seconds, by
// task weight.
#include <algorithm>

#include "pool_replay.h"
#include "recorded.h"
#include "tcc/backend/backend.h"
#include "tcc/support/hash.h"

namespace tcc::benchmarks {
namespace {

constexpr int kOnlineRounds = 12;
constexpr int64_t kRoundPrograms = 32;  // about; at least one of each task

struct OnlineMethod {
  const char* name;
  const char* model;
  bool pretrained;
  cost::Adaptation adaptation;
};
constexpr OnlineMethod kMethods[] = {{"moa", "mamba", true, cost::Adaptation::kMoa},
                                     {"finetune", "mamba", true, cost::Adaptation::kFineTune},
                                     {"frozen", "mamba", true, cost::Adaptation::kNone},
                                     {"scratch", "mamba", false, cost::Adaptation::kNone},
                                     {"trees", "trees", false, cost::Adaptation::kNone}};

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
      for (const OnlineMethod& method : kMethods)
        found[method.name].push_back(
            recorded_.unit(fmt::format("online.{}.{}.{}", target_, method.name, seed), effort_text(1),
                           {family_.name + "-train-" + source_, family_.name + "-heldout-" + target_},
                           [&] { return search(method, static_cast<uint64_t>(seed)); }));
    }
    std::vector<Row> out;
    const std::optional<double> moa = mean_of(found["moa"], "mean");
    for (const OnlineMethod& method : kMethods)
      for (const char* value : {"mean", "first", "last"}) {
        const std::optional<double> mean = mean_of(found[method.name], value);
        if (!mean) continue;
        Row row{fmt::format("online.{}.{}.{}", target_, method.name, value),
                *mean,
                value == std::string("mean") ? fmt::format("mean of {} rounds", kOnlineRounds) : "",
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

  Result<Recorded::Values> search(const OnlineMethod& method, uint64_t seed) {
    TCC_TRY(const cost::NetworkInputs inputs, recorded_.inputs("mamba", family_.name + "-heldout-" + target_));
    TCC_TRY(const auto heldout, recorded_.load(family_.name + "-heldout-" + target_, inputs.tables));
    TCC_TRY(const data::Platform platform, recorded_.platform(family_.name + "-heldout-" + target_));
    cost::ModelSetup setup{.name = method.model, .adaptation = method.adaptation, .trace = heldout->trace};
    setup.pool = recorded_.threads();
    if (method.pretrained) {
      TCC_TRY(setup.pretrained, checkpoint(inputs, seed));
    }
    TCC_TRY(const auto model, cost::make_model(setup, backend::backend_of(platform.target).prior(platform.target)));
    PoolReplay replay(*heldout, combine_hash(seed, 0x6f6e6c));
    const int64_t each = std::max<int64_t>(kRoundPrograms / std::max<int64_t>(std::ssize(replay.order()), 1), 1);
    Recorded::Values values;
    for (int round = 0; round < kOnlineRounds; ++round) {
      replay.round(*model, each);
      values["mean"] += replay.value() / kOnlineRounds;
      if (round == 0) values["first"] = replay.value();
      if (round + 1 < kOnlineRounds) replay.teach(*model);
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
