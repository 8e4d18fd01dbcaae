// Every cost model on networks that it has not seen: trained on one pool, judged on another, by task weight (TenSet,
// section 4). The rows of a single network weigh a task as that network does.
#include <algorithm>

#include "recorded.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/compile.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

constexpr const char* kModels[] = {"mlp", "tlp", "pacm", "mamba", "trees", "prior", "random"};
constexpr const char* kNetworks[] = {"resnet50", "mobilenet_v2", "bert-tiny", "bert-base"};
constexpr const char* kSix[] = {"gemm", "conv3x3", "conv1x1", "depthwise", "attention", "layernorm"};
constexpr int kRandomDraws = 32;

// How often a network has each task.
using Weights = std::map<uint64_t, double>;
Result<std::map<std::string, Weights>> weights_of_networks() {
  std::map<std::string, Weights> out;
  for (const char* name : kNetworks) {
    driver::ModelSource source;
    source.model = std::string("zoo:") + name;
    TCC_TRY(const driver::Model model, driver::load_model(source));
    TCC_TRY(const driver::Program program, driver::make_program(model));
    for (const task::Task& t : program.tasks.tasks)
      out[name][ir::hash_kernel(t.kernel)] += static_cast<double>(t.weight);
  }
  return out;
}

// The groups that a network has, weighed as it weighs them.
driver::PoolFeatures part_of_network(const driver::PoolFeatures& all, const Weights& weights) {
  driver::PoolFeatures out = without_groups(all);
  for (const driver::PoolFeatures::Group& g : all.groups) {
    const auto found = weights.find(g.task);
    if (found == weights.end()) continue;
    out.groups.push_back(g);
    out.groups.back().weight = found->second;
  }
  return out;
}

// A trained model, whichever kind it is.
class Ranker {
 public:
  static Result<Ranker> train(const std::string& name, const driver::PoolFeatures& data, uint64_t seed,
                              const data::Platform& platform, ThreadPool* pool) {
    Ranker out;
    out.pool_ = pool;
    if (cost::find_network(name) != nullptr) {
      driver::TrainRequest request{.network = name, .epochs = kHeldoutEpochs, .seed = seed, .pool = pool};
      TCC_TRY(driver::TrainedNetwork trained, driver::train_network(data, request));
      out.network_ = std::move(trained.model);
      return out;
    }
    auto prior = backend::backend_of(platform.target).prior(platform.target);
    TCC_TRY(out.model_, cost::make_model({.name = name}, std::move(prior)));
    out.model_->update(driver::cost_samples(data));
    return out;
  }

  driver::Judgement judge(const driver::PoolFeatures& on) const {
    if (network_) return judge_network(*network_, on, pool_);
    return driver::judge(on, [&](const driver::PoolFeatures::Group& g) { return driver::score_group(*model_, g); });
  }

 private:
  std::optional<nn::Model> network_;
  std::unique_ptr<cost::CostModel> model_;
  ThreadPool* pool_ = nullptr;
};

double mean_top5(const driver::Judgement& j) {
  double sum = 0;
  for (const driver::Judgement::Group& g : j.groups) sum += g.top5;
  return j.groups.empty() ? 0 : sum / static_cast<double>(j.groups.size());
}

// What the judgements of one model are called.
using Judges = std::function<driver::Judgement(const driver::PoolFeatures&)>;
Recorded::Values values_of(const Judges& judge, const driver::PoolFeatures& heldout,
                           const std::map<std::string, Weights>& networks, const driver::PoolFeatures* six) {
  Recorded::Values values;
  const auto add = [&](const std::string& prefix, const driver::PoolFeatures& on) {
    const driver::Judgement j = judge(on);
    values[prefix + "top1"] = j.top1, values[prefix + "top5"] = j.top5, values[prefix + "pairs"] = j.pairs;
  };
  add("", heldout);
  for (const auto& [name, weights] : networks)
    if (const driver::PoolFeatures part = part_of_network(heldout, weights); !part.groups.empty())
      add(name + ".", part);
  if (six != nullptr) values["best5"] = mean_top5(judge(*six));
  return values;
}

// Scores without meaning, drawn often: one draw says little.
Recorded::Values random_values(const driver::PoolFeatures& heldout, const std::map<std::string, Weights>& networks,
                               const driver::PoolFeatures* six) {
  Recorded::Values sum;
  Rng rng(1);
  for (int draw = 0; draw < kRandomDraws; ++draw) {
    const Judges judge = [&](const driver::PoolFeatures& on) {
      return driver::judge(on, [&](const driver::PoolFeatures::Group& g) {
        std::vector<float> scores(g.samples.size());
        for (float& s : scores) s = static_cast<float>(rng.uniform());
        return scores;
      });
    };
    for (const auto& [key, value] : values_of(judge, heldout, networks, six)) sum[key] += value / kRandomDraws;
  }
  return sum;
}

class Heldout {
 public:
  explicit Heldout(Recorded& recorded) : recorded_(recorded) {
    for (const char* name : kSix)
      if (recorded.has(std::string("cpu-2000-") + name)) six_.push_back(std::string("cpu-2000-") + name);
  }

  std::vector<Row> rows() {
    std::vector<std::pair<std::string, Recorded::Values>> found;
    std::vector<std::string> files = {"cpu-train-v4", "cpu-heldout-v4"};
    files.insert(files.end(), six_.begin(), six_.end());
    for (const char* model : kModels) {
      const std::string name = model;
      if (auto values = recorded_.unit("heldout." + name, fmt::format("2 {}", kHeldoutEpochs), files,
                                       [&] { return compute(name); }))
        found.emplace_back(name, *values);
    }
    const auto trees = std::find_if(found.begin(), found.end(), [](const auto& f) { return f.first == "trees"; });
    std::vector<Row> out;
    for (const auto& [model, values] : found)
      for (const auto& [key, value] : values) {
        const bool six = key == "best5";
        Row row{
            fmt::format("{}.{}.{}", six ? "six" : "heldout", model, key), value, six ? "of the fastest" : "", "", 0, 0};
        if (trees != found.end() && model != "trees" && trees->second.contains(key)) {
          row.peer = "trees", row.peer_value = trees->second.at(key);
          row.ratio = value / std::max(row.peer_value, 1e-9);
        }
        out.push_back(std::move(row));
      }
    return out;
  }

 private:
  Result<Recorded::Values> compute(const std::string& model) {
    if (networks_.empty()) {
      TCC_TRY(networks_, weights_of_networks());
    }
    cost::NetworkInputs inputs;
    if (cost::find_network(model) != nullptr) {
      TCC_TRY(inputs, recorded_.inputs(model, "cpu-train-v4"));
    }
    TCC_TRY(const auto heldout, recorded_.load("cpu-heldout-v4", inputs.tables));
    driver::PoolFeatures six;
    for (const std::string& file : six_) {
      TCC_TRY(const auto part, recorded_.load(file, inputs.tables));
      const driver::PoolFeatures* const both[] = {&six, part.get()};
      six = six.groups.empty() ? *part : joined(both);
    }
    const driver::PoolFeatures* judged_six = six_.empty() ? nullptr : &six;
    if (model == "random") return random_values(*heldout, networks_, judged_six);
    TCC_TRY(const auto train, recorded_.load("cpu-train-v4", inputs.tables));
    TCC_TRY(const data::Platform platform, recorded_.platform("cpu-train-v4"));
    TCC_TRY(const Ranker ranker, Ranker::train(model, *train, 1, platform, recorded_.threads()));
    return values_of([&](const driver::PoolFeatures& on) { return ranker.judge(on); }, *heldout, networks_, judged_six);
  }

  Recorded& recorded_;
  std::vector<std::string> six_;
  std::map<std::string, Weights> networks_;
};

}  // namespace

std::vector<Row> heldout_rows(Recorded& recorded) {
  return Heldout(recorded).rows();
}

}  // namespace tcc::benchmarks
