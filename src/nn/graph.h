// A network as data: slots (arrays of rows) and nodes that compute one slot from others. Models are built by a few
// lines of Builder calls, and one executor runs all of them forward and backward (executor.h), in float and in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/kernels.h"
#include "tcc/nn/model.h"

namespace tcc::nn {

// What a row of a slot belongs to: a sample, or one row of a sample's input.
enum class Grid : int { kSample, kStatement, kSequence, kDataflow };
constexpr int kGrids = 4;

struct Slot {
  Grid grid = Grid::kSample;
  int64_t width = 0;
  bool needs_grad = false;
  bool zero_grad = false;  // the gradient is a sum of several nodes' parts and begins with zeros
  int buffer = -1;         // the shared memory of a forward pass without a backward pass
};

// Columns [column, column + width) of a slot.
struct View {
  int slot = -1;
  int64_t column = 0, width = 0;
  View columns(int64_t first, int64_t count) const { return {slot, column + first, count}; }
};

enum class Kind {
  kInput,       // out = rows of the batch * scale
  kLinear,      // out = act(in W + bias), W is stored in x out
  kActivation,  // out = act(in)
  kAdd,         // out = in + in2
  kMultiply,    // out = in * in2
  kLateral,     // out = in + alpha * in2, alpha a parameter per column (TCL, adapters)
  kLayerNorm,   // slot `extra` has mean and 1 / deviation of each row
  kBatchNorm,   // slot `extra` has the normalized input
  kAttention,   // in = [Q | K | V] of `heads` heads; softmax(Q K^T / sqrt(d)) V within a sample
  kSegmentSum,  // out = sum over the rows of a sample
  kConv,        // depthwise, causal, within a sample
  kScan,        // in = x, in2 = dt before softplus, in3 = [B | C]
  kDropout
};

struct Node {
  Kind kind = Kind::kInput;
  View in, in2, in3, out;
  Act act = Act::kNone;
  int64_t heads = 0, states = 0, taps = 0;
  double rate = 0;  // dropout
  // Offsets of parameters, -1 when absent: weight and bias; gamma and beta; alpha; taps x width and bias; A_log and D.
  int64_t weight = -1, bias = -1;
  bool trainable = true;
  int64_t packed = -1, packed_back = -1;  // offsets in Weights::packed
  int64_t buffer = -1;                    // of Weights::buffers: input scale; running mean and variance
  int extra = -1;                         // a slot
  int batch_norm = -1;                    // which of the network's
  bool keep[3] = {};                      // add to the gradient of in, in2, in3 instead of storing it
};

struct Graph {
  std::vector<Slot> slots;
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  std::vector<std::pair<Grid, int64_t>> shared;  // grid and width of the shared buffers, see Slot::buffer
  int64_t num_parameters = 0, num_buffers = 0, packed_size = 0;
  int output = -1;                                 // slot of grid kSample, one column a head
  std::vector<int> batch_norms;                    // indices of nodes
  int64_t inputs[kGrids] = {};                     // width of the rows that each grid reads; 0 = not read
  int64_t hardware = 0;                            // width of the row after each sequence
  int64_t input_scale[kGrids] = {-1, -1, -1, -1};  // offsets in buffers
};

class Builder {
 public:
  explicit Builder(int64_t panel) : panel_(panel) {}

  View input(Grid grid, int64_t width, int64_t hardware = 0);
  View linear(View in, int64_t width, Act act, const std::string& name, bool bias = true);
  View linear_to(View in, View out, Act act, const std::string& name, bool bias = true);
  View activation(View in, Act act);
  View add(View a, View b);
  View multiply(View a, View b);
  View lateral(View a, View b, const std::string& name);
  View layer_norm(View in, const std::string& name);
  View batch_norm(View in, const std::string& name);
  View attention(View qkv, int64_t heads);
  View segment_sum(View in);
  void segment_sum_to(View in, View out);
  View conv(View in, int64_t taps, const std::string& name);
  View scan(View x, View dt, View bc, int64_t states, const std::string& name);
  View dropout(View in, double rate);
  View slot(Grid grid, int64_t width);
  Grid grid_of(View v) const { return graph_.slots[static_cast<size_t>(v.slot)].grid; }
  void freeze(bool frozen) { frozen_ = frozen; }
  // Plans memory and gradients; `output` has grid kSample.
  Graph finish(View output);

 private:
  int64_t tensor(const std::string& name, int64_t rows, int64_t columns, bool decay);
  Node& node(Kind kind, View in, View out);
  int64_t panels(int64_t k, int64_t n);  // reserves packed memory
  void plan_gradients();
  void plan_buffers();

  int64_t panel_;
  bool frozen_ = false;
  Graph graph_;
};

// The network of a configuration that passes Config::check().
Graph build_graph(const Config& config, int64_t panel);

// Parameters and what is derived from them.
template <class T>
struct Weights {
  std::vector<T> params, buffers;
  std::vector<T> packed;  // panels of matrices, A of scans, scale and shift of batch normalization

  explicit Weights(const Graph& graph);
  void initialize(const Graph& graph, uint64_t seed);
  // After each change of params or buffers.
  void prepare(const Graph& graph, const Kernels<T>& kernels);
};

}  // namespace tcc::nn
