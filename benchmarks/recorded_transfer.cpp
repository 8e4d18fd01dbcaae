// What a tenth of a platform's data gives: chosen by samplers (TCL, table 4), and beside the data of other platforms
// (TCL, tables 5 and 6). The network is TCL's in every row, so that only the way of learning differs. Judged by top-1
// on networks that it has not seen.
#include <numeric>

#include "recorded.h"

namespace tcc::benchmarks {
namespace {

using Features = std::shared_ptr<const driver::PoolFeatures>;
using Units = std::vector<std::optional<Recorded::Values>>;

Recorded::Values judged(const driver::TrainedNetwork& trained, const driver::PoolFeatures& heldout, ThreadPool* pool) {
  const driver::Judgement j = judge_network(trained.model, heldout, pool);
  return {{"top1", j.top1}, {"top5", j.top5}, {"pairs", j.pairs}};
}

driver::TrainRequest request_of(uint64_t seed, int64_t epochs, ThreadPool* pool) {
  driver::TrainRequest request;
  request.network = "mamba", request.epochs = epochs, request.seed = seed, request.pool = pool;
  return request;
}

// A row for each method that all seeds have; the ratio is that to `base`.
void add_transfer_rows(const std::string& prefix, const std::vector<std::pair<std::string, Units>>& methods,
                       const std::string& base, std::vector<Row>& out) {
  std::optional<double> against;
  for (const auto& [method, units] : methods)
    if (method == base) against = mean_of(units, "top1");
  for (const auto& [method, units] : methods)
    for (const char* value : {"top1", "top5"}) {
      const std::optional<double> mean = mean_of(units, value);
      if (!mean) continue;
      Row row{fmt::format("{}.{}.{}", prefix, method, value),
              *mean,
              fmt::format("mean of {} seeds", units.size()),
              "",
              0,
              0};
      if (against && method != base && value == std::string("top1"))
        row.peer = base, row.peer_value = *against, row.ratio = *mean / *against;
      out.push_back(std::move(row));
    }
}

struct Sampling {
  Recorded& recorded;
  std::string family, platform;

  Result<Recorded::Values> learn(double share, cost::Sampler sampler, uint64_t seed) const {
    TCC_TRY(const cost::NetworkInputs inputs, recorded.inputs("mamba", family + "-train-" + platform));
    TCC_TRY(const Features train, recorded.load(family + "-train-" + platform, inputs.tables));
    TCC_TRY(const Features heldout, recorded.load(family + "-heldout-" + platform, inputs.tables));
    driver::TrainRequest request = request_of(seed, kEffort.epochs, recorded.threads());
    request.share = share, request.sampler = sampler, request.probe_epochs = kEffort.probe_epochs;
    TCC_TRY(const driver::TrainedNetwork trained, driver::train_network(*train, request));
    return judged(trained, *heldout, recorded.threads());
  }

  std::vector<Row> rows() const {
    const std::string prefix = "samplers." + platform;
    std::vector<std::pair<std::string, Units>> methods;
    const auto add = [&](const std::string& method, double share, cost::Sampler sampler) {
      Units units;
      for (int64_t seed = 1; seed <= kEffort.seeds; ++seed)
        units.push_back(recorded.unit(fmt::format("{}.{}.{}", prefix, method, seed), effort_text(1),
                                      {family + "-train-" + platform, family + "-heldout-" + platform},
                                      [&] { return learn(share, sampler, static_cast<uint64_t>(seed)); }));
      methods.emplace_back(method, std::move(units));
    };
    add("all", 1, cost::Sampler::kRandom);
    for (size_t i = 0; i < cost::sampler_names().size(); ++i)
      add(std::string(cost::sampler_names()[i]), kEffort.share, static_cast<cost::Sampler>(i));
    std::vector<Row> out;
    add_transfer_rows(prefix, methods, "all", out);
    return out;
  }
};

// X(Name, text)
//   scratch: the target's tenth alone. finetune: first two other platforms together, then the target's tenth.
//   mtl: the three platforms together, with a head for each. ckd: one platform after the other, with distillation.
#define TCC_WAYS(X) X(Scratch, "scratch") X(FineTune, "finetune") X(Heads, "mtl") X(Distill, "ckd")
enum class Way {
#define TCC_X(name, text) k##name,
  TCC_WAYS(TCC_X)
#undef TCC_X
};
constexpr const char* kWays[] = {
#define TCC_X(name, text) text,
    TCC_WAYS(TCC_X)
#undef TCC_X
};

class Transfer {
 public:
  Transfer(Recorded& recorded, const Family& family, size_t target)
      : recorded_(recorded), target_(family.platforms[target]) {
    files_ = {family.name + "-train-" + target_, family.name + "-heldout-" + target_};
    for (const std::string& p : family.sources_of(target)) files_.push_back(family.name + "-train-" + p);
  }

  std::vector<Row> rows() {
    std::vector<std::pair<std::string, Units>> methods;
    for (size_t w = 0; w < std::size(kWays); ++w) {
      Units units;
      for (int64_t seed = 1; seed <= kEffort.seeds; ++seed)
        units.push_back(recorded_.unit(fmt::format("transfer.{}.{}.{}", target_, kWays[w], seed), effort_text(1),
                                       files_,
                                       [&] { return learn(static_cast<Way>(w), static_cast<uint64_t>(seed)); }));
      methods.emplace_back(kWays[w], std::move(units));
    }
    std::vector<Row> out;
    add_transfer_rows("transfer." + target_, methods, "ckd", out);
    return out;
  }

 private:
  Result<Recorded::Values> learn(Way way, uint64_t seed) {
    TCC_TRY(const cost::NetworkInputs inputs, recorded_.inputs("mamba", files_[0]));
    TCC_TRY(const Features train, recorded_.load(files_[0], inputs.tables));
    TCC_TRY(const Features heldout, recorded_.load(files_[1], inputs.tables));
    const driver::PoolFeatures tenth = random_share(*train, kEffort.share, seed);
    std::vector<Features> sources;
    for (size_t i = 2; i < files_.size() && way != Way::kScratch; ++i) {
      TCC_TRY(Features source, recorded_.load(files_[i], inputs.tables, kEffort.source_programs));
      sources.push_back(std::move(source));
    }
    TCC_TRY(const driver::TrainedNetwork trained, learn(way, tenth, sources, seed));
    return judged(trained, *heldout, recorded_.threads());
  }

  Result<driver::TrainedNetwork> learn(Way way, const driver::PoolFeatures& tenth, const std::vector<Features>& sources,
                                       uint64_t seed) {
    driver::TrainRequest request = request_of(seed, kEffort.epochs, recorded_.threads());
    std::vector<const driver::PoolFeatures*> parts;
    for (const Features& s : sources) parts.push_back(s.get());
    switch (way) {
      case Way::kScratch:
        return driver::train_network(tenth, request);
      case Way::kFineTune: {
        TCC_TRY(const driver::TrainedNetwork before, driver::train_network(joined(parts), request));
        TCC_TRY(const auto folder, TemporaryDirectory::create("tcc-bench"));
        request.start = folder->path() + "/sources.tccnet";
        TCC_TRY_VOID(nn::save_checkpoint(request.start, before.model, before.card));
        return driver::train_network(tenth, request);
      }
      case Way::kHeads:
        parts.insert(parts.begin(), &tenth);
        request.head_each_platform = true;
        return driver::train_network(joined(parts), request);
      case Way::kDistill:
        parts.push_back(&tenth);
        // Shared out evenly over the stages.
        request.epochs = kEffort.epochs * (2 * std::ssize(parts) - 1);
        return driver::distill_network(parts, request);
    }
    return input_error("way {}", static_cast<int>(way));
  }

  Recorded& recorded_;
  const std::string target_;
  std::vector<std::string> files_;  // the target's to learn from, the target's to be judged on, sources
};

void append(std::vector<Row>& out, std::vector<Row> rows) {
  for (Row& row : rows) out.push_back(std::move(row));
}

}  // namespace

std::vector<Row> sampler_rows(Recorded& recorded) {
  std::vector<Row> out;
  for (const Family& family : families())
    for (const std::string& platform : family.platforms)
      // Other levels of one CPU say little more than its own.
      if (family.name != "cpu" || platform == family.platforms[0])
        append(out, Sampling{recorded, family.name, platform}.rows());
  return out;
}

std::vector<Row> transfer_rows(Recorded& recorded) {
  std::vector<Row> out;
  for (const Family& family : families())
    for (size_t target = 0; target < family.platforms.size(); ++target)
      append(out, Transfer(recorded, family, target).rows());
  return out;
}

}  // namespace tcc::benchmarks
