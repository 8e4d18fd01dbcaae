// Networks that score candidates: TenSet-MLP, TLP and MTL-TLP, PaCM, and TCL's Mamba model. A Model has an architecture
// (Config), parameters and buffers, and predicts. trainer.h fits one, checkpoint.h stores one.
//
// A prediction is a function of the sample, the parameters and the CPU's level alone: it depends neither on the other
// samples of the batch nor on the number of threads, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/nn/level.h"
#include "tcc/support/parallel.h"
#include "tcc/support/result.h"

namespace tcc::nn {

// Rows of features, sample after sample: those of sample i are rows [offsets[i], offsets[i + 1]). A sequence with a
// mask has only its valid rows here: rows that are absent are neither keys of attention nor part of a sum. A model that
// must see padding, as the paper's TLP does, gets the zero rows.
struct RowInput {
  const float* rows = nullptr;       // offsets[size] x width
  const int64_t* offsets = nullptr;  // size + 1 entries, ascending
  int64_t width = 0;
};

// The inputs of `size` samples. A model reads those that its architecture names and ignores the others.
struct Batch {
  int64_t size = 0;
  RowInput statements;              // mlp, pacm: rows of statement features
  RowInput sequences;               // tlp, mamba: rows of a trace
  RowInput dataflow;                // pacm: rows of data-block accesses
  const float* hardware = nullptr;  // size x hardware_width: a row after the sequence (TCL), padded with zeros
  int64_t hardware_width = 0;
};

enum class Architecture { kMlp, kTlp, kPacm, kMamba, kMambaAdapter };
std::string_view architecture_name(Architecture a);  // "mlp", "tlp", "pacm", "mamba", "mamba-adapter"

// kMambaAdapter is TCL's AC: a kMamba model whose layers also read the frozen kMamba model KB (continual.h).
struct Config {
  Architecture architecture = Architecture::kTlp;
  int64_t statement_width = 174;  // 164 features and 10 of the task
  int64_t sequence_width = 22;
  int64_t dataflow_width = 23;
  int64_t hardware_width = 0;  // > 0: sequences get the hardware row
  int64_t heads = 1;           // > 1: MTL-TLP; the backbone is shared, and head 0 predicts
  // Mamba (TCL, table 2)
  int64_t layers = 1, states = 8, expand = 1, taps = 4;
  bool residual = false;  // around each Mamba block; the paper does not say
  double dropout = 0;     // after the encoder, in training

  bool operator==(const Config&) const = default;
  std::string to_json() const;
  static Result<Config> from_json(std::string_view text);
  Result<void> check() const;
};

// One array of parameters, at [offset, offset + rows * columns) of the flat array.
struct Tensor {
  std::string name;
  int64_t offset = 0, rows = 0, columns = 0;
  bool decay = true;      // weight decay applies
  bool trainable = true;  // gradients are computed
  int64_t size() const { return rows * columns; }
};

struct Graph;
template <class T>
struct Weights;

// Memory of predictions. It grows to the largest batch and keeps its size; one caller at a time.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

class Model {
 public:
  // Parameters are drawn from `seed` as PyTorch draws them (and Mamba's as its authors do).
  static Result<Model> create(const Config& config, uint64_t seed);
  static Result<Model> create(const Config& config, uint64_t seed, Level level);  // the host must have `level`
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const Config& config() const { return config_; }
  Level level() const { return level_; }
  std::span<const Tensor> tensors() const;
  // The number of trainable and frozen parameters.
  int64_t num_parameters() const;
  std::span<const float> parameters() const;
  // Running statistics of batch normalization and the scales of inputs, which no gradient changes.
  std::span<const float> buffers() const;
  // Sizes must agree.
  void set_parameters(std::span<const float> values);
  void set_buffers(std::span<const float> values);

  // Inputs are multiplied by these, one factor a column; 1 at first. The papers divide by the maxima of the training
  // set.
  void set_input_scale(std::span<const float> statements, std::span<const float> sequences,
                       std::span<const float> dataflow);
  // An input error where the batch lacks an input of the architecture, or has one of another width.
  Result<void> check(const Batch& batch) const;
  // scores[i]: higher is better. `batch` fits (check). pool may be nullptr.
  void predict(const Batch& batch, std::span<float> scores, Workspace& workspace, ThreadPool* pool = nullptr) const;
  // All heads: scores is size x heads.
  void predict_heads(const Batch& batch, std::span<float> scores, Workspace& workspace, ThreadPool* pool) const;

  const Graph& graph() const { return *graph_; }
  const Weights<float>& weights() const { return *weights_; }

 private:
  Model(const Config& config, Level level);
  Config config_;
  Level level_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Weights<float>> weights_;
};

}  // namespace tcc::nn
