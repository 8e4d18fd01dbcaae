// What ships, in searches that replay: tasks of networks that no checkpoint has seen, in the default space at each
// level of the instruction set. Each task is searched alone. A round reveals the programs that the model ranks first,
// then the model learns from all that is revealed of the task, by the code of a search (cost::make_model). The value
// after n trials is that of top-k: best seconds over best revealed seconds, by task weight.
#include "pool_replay.h"
#include "recorded.h"
#include "tcc/backend/backend.h"
#include "tcc/cost/shipped_checkpoints.h"
#include "tcc/support/hash.h"

namespace tcc::benchmarks {
namespace {

constexpr int64_t kRound = 8;
constexpr int64_t kShippedAfter[] = {1, 8, 16, 32};
constexpr const char* kShippedMethods[] = {"mlp", "pacm", "trees", "prior"};

class Shipped {
 public:
  Shipped(Recorded& recorded, std::string level) : recorded_(recorded), level_(std::move(level)) {}

  std::vector<Row> rows() {
    std::vector<std::pair<std::string, Recorded::Values>> found;
    if (!recorded_.has(pool())) return {};
    for (const char* method : kShippedMethods)
      if (auto values = recorded_.unit(fmt::format("shipped.{}.{}", level_, method), settings(method), {pool()},
                                       [&] { return replay(method); }))
        found.emplace_back(method, *values);
    std::vector<Row> out;
    for (const auto& [method, values] : found)
      for (int64_t n : kShippedAfter)
        out.push_back({fmt::format("shipped.{}.{}.{}", level_, method, n), values.at(std::to_string(n)),
                       fmt::format("of the fastest after {}", n), "", 0, 0});
    return out;
  }

 private:
  std::string pool() const { return "cpu-default-" + level_; }
  std::string settings(const std::string& method) const {
    const auto* shipped = cost::find_shipped_checkpoint(method, features::kTraceCpu);
    return fmt::format("1 {} {:016x}", kRound, shipped != nullptr ? hash_bytes(shipped->bytes) : 0);
  }

  // The best seconds of the only task after each number of trials in kShippedAfter.
  std::vector<double> search(const driver::PoolFeatures& one, cost::CostModel& model) const {
    PoolReplay replay(one, 0);
    std::vector<double> best;
    std::vector<float> scores;
    for (int64_t n = 1; best.size() < std::size(kShippedAfter); ++n) {
      if (n % kRound == 1) scores = driver::score_group(model, one.groups[0]);
      replay.reveal(0, scores, 1);
      if (n == kShippedAfter[best.size()]) best.push_back(replay.found(0));
      if (n % kRound == 0) replay.teach(model, one.groups[0].task);
    }
    return best;
  }

  Result<Recorded::Values> replay(const std::string& method) {
    cost::NetworkInputs inputs;
    if (cost::find_network(method) != nullptr) {
      TCC_TRY(inputs, recorded_.inputs(method, pool()));
    }
    TCC_TRY(const auto data, recorded_.load(pool(), inputs.tables));
    TCC_TRY(const data::Platform platform, recorded_.platform(pool()));
    cost::ModelSetup setup{.name = method, .pretrained = std::string(cost::kShipped), .trace = data->trace};
    setup.pool = recorded_.threads();
    double least = 0;
    std::map<int64_t, double> found;
    for (const driver::PoolFeatures::Group& group : data->groups) {
      if (group.best_seconds() == 0) continue;
      driver::PoolFeatures one;
      one.tables = data->tables, one.schema = data->schema, one.trace = data->trace;
      one.groups = {group};
      TCC_TRY(const auto model, cost::make_model(setup, backend::backend_of(platform.target).prior(platform.target)));
      const std::vector<double> best = search(one, *model);
      least += group.weight * group.best_seconds();
      for (size_t i = 0; i < best.size(); ++i) found[kShippedAfter[i]] += group.weight * best[i];
    }
    Recorded::Values values;
    for (int64_t n : kShippedAfter) values[std::to_string(n)] = found[n] > 0 ? least / found[n] : 0;
    return values;
  }

  Recorded& recorded_;
  const std::string level_;
};

}  // namespace

std::vector<Row> shipped_rows(Recorded& recorded) {
  std::vector<Row> out;
  for (const std::string& level : families()[0].platforms)
    for (Row& row : Shipped(recorded, level).rows()) out.push_back(std::move(row));
  return out;
}

}  // namespace tcc::benchmarks
