#include "tcc/nn/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "nn/executor.h"
#include "tcc/support/check.h"

namespace tcc::nn {
namespace {

constexpr std::array kArchitectures{Architecture::kMlp, Architecture::kTlp, Architecture::kPacm, Architecture::kMamba,
                                    Architecture::kMambaAdapter};

// The integer fields of a configuration, with the range that a file may give them.
struct Field {
  const char* name;
  int64_t Config::* member;
  int64_t least, most;
};
constexpr std::array kFields{Field{"statement_width", &Config::statement_width, 1, 1024},
                             Field{"sequence_width", &Config::sequence_width, 1, 1024},
                             Field{"dataflow_width", &Config::dataflow_width, 1, 1024},
                             Field{"hardware_width", &Config::hardware_width, 0, 1024},
                             Field{"heads", &Config::heads, 1, 16},
                             Field{"layers", &Config::layers, 1, 8},
                             Field{"states", &Config::states, 1, 64},
                             Field{"expand", &Config::expand, 1, 4},
                             Field{"taps", &Config::taps, 1, 8}};

}  // namespace

std::string_view architecture_name(Architecture a) {
  switch (a) {
    case Architecture::kMlp:
      return "mlp";
    case Architecture::kTlp:
      return "tlp";
    case Architecture::kPacm:
      return "pacm";
    case Architecture::kMamba:
      return "mamba";
    case Architecture::kMambaAdapter:
      return "mamba-adapter";
  }
  return "";
}

std::string Config::to_json() const {
  nlohmann::ordered_json json{{"architecture", architecture_name(architecture)}};
  for (const Field& f : kFields) json[f.name] = this->*f.member;
  json["residual"] = residual;
  json["dropout"] = dropout;
  return json.dump();
}

Result<Config> Config::from_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return input_error("the configuration of a network must be a JSON object");
  Config out;
  std::optional<Architecture> found;
  for (const auto& [key, value] : json.items()) {
    const auto* field = std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return key == f.name; });
    if (key == "architecture" && value.is_string()) {
      for (Architecture a : kArchitectures)
        if (value.get_ref<const std::string&>() == architecture_name(a)) found = a;
      if (!found)
        return input_error("unknown network architecture '{}': expected mlp, tlp, pacm, mamba or mamba-adapter",
                           value.get_ref<const std::string&>());
    } else if (field != kFields.end() && value.is_number_integer()) {
      out.*field->member = value.get<int64_t>();
    } else if (key == "residual" && value.is_boolean()) {
      out.residual = value.get<bool>();
    } else if (key == "dropout" && value.is_number()) {
      out.dropout = value.get<double>();
    } else {
      return input_error("the configuration of a network has an unknown key or a value of another type at '{}'", key);
    }
  }
  if (!found) return input_error("the configuration of a network lacks its architecture");
  out.architecture = *found;
  TCC_TRY_VOID(out.check());
  return out;
}

Result<void> Config::check() const {
  for (const Field& f : kFields)
    if (this->*f.member < f.least || this->*f.member > f.most)
      return input_error("network configuration: {} must be from {} to {}, but is {}", f.name, f.least, f.most,
                         this->*f.member);
  if (!(dropout >= 0 && dropout < 1))
    return input_error("network configuration: dropout must be at least 0 and below 1, but is {}", dropout);
  if (hardware_width > sequence_width)
    return input_error("network configuration: the hardware row has {} columns, more than the {} of a sequence",
                       hardware_width, sequence_width);
  return {};
}

struct Workspace::State {
  const Model* model = nullptr;
  const Graph* graph = nullptr;
  ThreadPool* pool = nullptr;
  std::optional<Engine<float>> engine;
  std::vector<float> heads;
};

Workspace::Workspace() : state_(std::make_unique<State>()) {}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

Model::Model(const Config& config, Level level)
    : config_(config),
      level_(level),
      graph_(std::make_unique<Graph>(build_graph(config, kernels_f32(level).panel))),
      weights_(std::make_unique<Weights<float>>(*graph_)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Result<Model> Model::create(const Config& config, uint64_t seed) {
  TCC_TRY(const Level level, host_level());
  return create(config, seed, level);
}

Result<Model> Model::create(const Config& config, uint64_t seed, Level level) {
  TCC_TRY_VOID(config.check());
  TCC_CHECK(host_has(level), "this CPU lacks level {}", level_name(level));
  Model model(config, level);
  model.weights_->initialize(*model.graph_, seed);
  model.weights_->prepare(*model.graph_, kernels_f32(level));
  return model;
}

std::span<const Tensor> Model::tensors() const {
  return graph_->tensors;
}
int64_t Model::num_parameters() const {
  return graph_->num_parameters;
}
std::span<const float> Model::parameters() const {
  return weights_->params;
}
std::span<const float> Model::buffers() const {
  return weights_->buffers;
}

void Model::set_parameters(std::span<const float> values) {
  TCC_CHECK(values.size() == weights_->params.size(), "{} parameters for a network of {}", values.size(),
            weights_->params.size());
  std::copy(values.begin(), values.end(), weights_->params.begin());
  weights_->prepare(*graph_, kernels_f32(level_));
}

void Model::set_buffers(std::span<const float> values) {
  TCC_CHECK(values.size() == weights_->buffers.size(), "{} buffers for a network of {}", values.size(),
            weights_->buffers.size());
  std::copy(values.begin(), values.end(), weights_->buffers.begin());
  weights_->prepare(*graph_, kernels_f32(level_));
}

void Model::set_input_scale(std::span<const float> statements, std::span<const float> sequences,
                            std::span<const float> dataflow) {
  const std::span<const float> given[kGrids] = {{}, statements, sequences, dataflow};
  for (int g = 0; g < kGrids; ++g) {
    if (given[g].empty() || graph_->input_scale[g] < 0) continue;
    TCC_CHECK(static_cast<int64_t>(given[g].size()) == graph_->inputs[g], "a scale for each column of an input");
    std::copy(given[g].begin(), given[g].end(), weights_->buffers.begin() + graph_->input_scale[g]);
  }
}

Result<void> Model::check(const Batch& batch) const {
  const RowInput* inputs[kGrids] = {nullptr, &batch.statements, &batch.sequences, &batch.dataflow};
  constexpr const char* names[kGrids] = {"", "statement rows", "sequences", "dataflow rows"};
  for (int g = 1; g < kGrids; ++g) {
    if (graph_->inputs[g] == 0) continue;
    if (inputs[g]->offsets == nullptr || inputs[g]->width != graph_->inputs[g])
      return input_error("the network '{}' reads {} of {} columns, but the data has {}",
                         architecture_name(config_.architecture), names[g], graph_->inputs[g],
                         inputs[g]->offsets == nullptr ? 0 : inputs[g]->width);
  }
  const bool absent = batch.hardware == nullptr && batch.size > 0;
  if (graph_->hardware > 0 && (absent || batch.hardware_width != graph_->hardware))
    return input_error("the network '{}' reads a hardware row of {} columns, but the data has {}",
                       architecture_name(config_.architecture), graph_->hardware, absent ? 0 : batch.hardware_width);
  return {};
}

void Model::predict_heads(const Batch& batch, std::span<float> scores, Workspace& workspace, ThreadPool* pool) const {
  Workspace::State& s = workspace.state();
  if (s.model != this || s.graph != graph_.get() || s.pool != pool) {
    s.engine.emplace(*graph_, kernels_f32(level_), pool);
    s.model = this;
    s.graph = graph_.get();
    s.pool = pool;
  }
  TCC_CHECK(static_cast<int64_t>(scores.size()) >= batch.size * config_.heads, "room for a score of each head");
  s.engine->predict(batch, *weights_, scores);
}

void Model::predict(const Batch& batch, std::span<float> scores, Workspace& workspace, ThreadPool* pool) const {
  if (config_.heads == 1) return predict_heads(batch, scores, workspace, pool);
  std::vector<float>& all = workspace.state().heads;
  all.resize(static_cast<size_t>(batch.size * config_.heads));
  predict_heads(batch, all, workspace, pool);
  for (int64_t i = 0; i < batch.size; ++i) scores[static_cast<size_t>(i)] = all[static_cast<size_t>(i * config_.heads)];
}

}  // namespace tcc::nn
