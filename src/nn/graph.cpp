#include "nn/graph.h"

#include <algorithm>
#include <cmath>

#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::nn {

View Builder::slot(Grid grid, int64_t width) {
  graph_.slots.push_back({.grid = grid, .width = width});
  return {static_cast<int>(graph_.slots.size()) - 1, 0, width};
}

Node& Builder::node(Kind kind, View in, View out) {
  graph_.nodes.push_back({.kind = kind, .in = in, .out = out});
  graph_.nodes.back().trainable = !frozen_;
  return graph_.nodes.back();
}

int64_t Builder::tensor(const std::string& name, int64_t rows, int64_t columns, bool decay) {
  graph_.tensors.push_back({name, graph_.num_parameters, rows, columns, decay, !frozen_});
  graph_.num_parameters += rows * columns;
  return graph_.tensors.back().offset;
}

int64_t Builder::panels(int64_t k, int64_t n) {
  const int64_t at = graph_.packed_size;
  graph_.packed_size += (n + panel_ - 1) / panel_ * panel_ * k;
  return at;
}

View Builder::input(Grid grid, int64_t width, int64_t hardware) {
  const View out = slot(grid, width);
  Node& n = node(Kind::kInput, {}, out);
  n.buffer = graph_.num_buffers;
  graph_.num_buffers += width;
  graph_.inputs[static_cast<int>(grid)] = width;
  graph_.input_scale[static_cast<int>(grid)] = n.buffer;
  if (hardware > 0) graph_.hardware = hardware;
  return out;
}

View Builder::linear_to(View in, View out, Act act, const std::string& name, bool bias) {
  TCC_CHECK(act == Act::kNone || act == Act::kRelu, "linear layers fuse relu only");
  const int64_t weight = tensor(name + ".weight", in.width, out.width, true);
  const int64_t offset = bias ? tensor(name + ".bias", 1, out.width, true) : -1;
  const int64_t forward = panels(in.width, out.width), back = panels(out.width, in.width);
  Node& n = node(Kind::kLinear, in, out);
  n.act = act;
  n.weight = weight;
  n.bias = offset;
  n.packed = forward;
  n.packed_back = back;
  return out;
}

View Builder::linear(View in, int64_t width, Act act, const std::string& name, bool bias) {
  return linear_to(in, slot(grid_of(in), width), act, name, bias);
}

View Builder::activation(View in, Act act) {
  const View out = slot(grid_of(in), in.width);
  node(Kind::kActivation, in, out).act = act;
  return out;
}

View Builder::add(View a, View b) {
  const View out = slot(grid_of(a), a.width);
  node(Kind::kAdd, a, out).in2 = b;
  return out;
}

View Builder::multiply(View a, View b) {
  const View out = slot(grid_of(a), a.width);
  node(Kind::kMultiply, a, out).in2 = b;
  return out;
}

View Builder::lateral(View a, View b, const std::string& name) {
  const int64_t alpha = tensor(name, 1, a.width, true);
  const View out = slot(grid_of(a), a.width);
  Node& n = node(Kind::kLateral, a, out);
  n.in2 = b;
  n.weight = alpha;
  return out;
}

View Builder::layer_norm(View in, const std::string& name) {
  const int64_t gamma = tensor(name + ".weight", 1, in.width, true), beta = tensor(name + ".bias", 1, in.width, true);
  const View out = slot(grid_of(in), in.width), stats = slot(grid_of(in), 2);
  Node& n = node(Kind::kLayerNorm, in, out);
  n.weight = gamma;
  n.bias = beta;
  n.extra = stats.slot;
  return out;
}

View Builder::batch_norm(View in, const std::string& name) {
  const int64_t gamma = tensor(name + ".weight", 1, in.width, true), beta = tensor(name + ".bias", 1, in.width, true);
  const View out = slot(grid_of(in), in.width), hat = slot(grid_of(in), in.width);
  graph_.batch_norms.push_back(static_cast<int>(graph_.nodes.size()));
  Node& n = node(Kind::kBatchNorm, in, out);
  n.weight = gamma;
  n.bias = beta;
  n.extra = hat.slot;
  n.batch_norm = static_cast<int>(graph_.batch_norms.size()) - 1;
  n.buffer = graph_.num_buffers;
  graph_.num_buffers += 2 * in.width;
  n.packed = graph_.packed_size;
  graph_.packed_size += 2 * in.width;
  return out;
}

View Builder::attention(View qkv, int64_t heads) {
  TCC_CHECK(qkv.width % (3 * heads) == 0, "attention needs equal heads");
  const View out = slot(grid_of(qkv), qkv.width / 3);
  node(Kind::kAttention, qkv, out).heads = heads;
  return out;
}

void Builder::segment_sum_to(View in, View out) {
  node(Kind::kSegmentSum, in, out);
}

View Builder::segment_sum(View in) {
  const View out = slot(Grid::kSample, in.width);
  segment_sum_to(in, out);
  return out;
}

View Builder::conv(View in, int64_t taps, const std::string& name) {
  const int64_t weight = tensor(name + ".weight", taps, in.width, true),
                bias = tensor(name + ".bias", 1, in.width, true);
  const View out = slot(grid_of(in), in.width);
  Node& n = node(Kind::kConv, in, out);
  n.taps = taps;
  n.weight = weight;
  n.bias = bias;
  return out;
}

View Builder::scan(View x, View dt, View bc, int64_t states, const std::string& name) {
  // The authors of Mamba exempt both from weight decay.
  const int64_t a_log = tensor(name + ".A_log", states, x.width, false), d = tensor(name + ".D", 1, x.width, false);
  const View out = slot(grid_of(x), x.width);
  Node& n = node(Kind::kScan, x, out);
  n.in2 = dt;
  n.in3 = bc;
  n.states = states;
  n.weight = a_log;
  n.bias = d;
  n.packed = graph_.packed_size;
  graph_.packed_size += states * x.width;
  return out;
}

View Builder::dropout(View in, double rate) {
  if (rate == 0) return in;
  const View out = slot(grid_of(in), in.width);
  node(Kind::kDropout, in, out).rate = rate;
  return out;
}

// Which slots carry gradients, and which node stores the first part of a gradient.
void Builder::plan_gradients() {
  auto slot_of = [&](View v) -> Slot& { return graph_.slots[static_cast<size_t>(v.slot)]; };
  auto inputs = [](Node& n) { return std::vector<View>{n.in, n.in2, n.in3}; };
  for (Node& n : graph_.nodes) {
    bool needs = n.trainable && n.weight >= 0;
    for (View v : inputs(n)) needs |= v.slot >= 0 && slot_of(v).needs_grad;
    slot_of(n.out).needs_grad |= needs;
  }
  std::vector<int> uses(graph_.slots.size());
  for (Node& n : graph_.nodes)
    for (View v : inputs(n)) {
      if (v.slot < 0) continue;
      ++uses[static_cast<size_t>(v.slot)];
      // These kernels add to gradients only; parts of slots are filled by several nodes.
      const bool adds = n.kind == Kind::kConv || n.kind == Kind::kScan;
      if (adds || v.width != slot_of(v).width) slot_of(v).zero_grad = true;
    }
  std::vector<bool> stored(graph_.slots.size());
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    Node& n = graph_.nodes[i];
    const std::vector<View> views = inputs(n);
    for (size_t k = 0; k < views.size(); ++k) {
      if (views[k].slot < 0) continue;
      const auto s = static_cast<size_t>(views[k].slot);
      n.keep[k] = stored[s] || graph_.slots[s].zero_grad;
      stored[s] = true;
    }
  }
  for (size_t s = 0; s < uses.size(); ++s)
    if (uses[s] == 0 && static_cast<int>(s) != graph_.output) graph_.slots[s].zero_grad = true;
}

// Slots whose lives do not meet share memory in passes that keep nothing for a backward pass.
void Builder::plan_buffers() {
  const int never = -1;
  std::vector<int> first(graph_.slots.size(), never), last(graph_.slots.size(), never);
  for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
    const Node& n = graph_.nodes[static_cast<size_t>(i)];
    for (int s : {n.in.slot, n.in2.slot, n.in3.slot, n.out.slot, n.extra}) {
      if (s < 0) continue;
      if (first[static_cast<size_t>(s)] == never) first[static_cast<size_t>(s)] = i;
      last[static_cast<size_t>(s)] = i;
    }
  }
  last[static_cast<size_t>(graph_.output)] = static_cast<int>(graph_.nodes.size());
  std::vector<int> busy_until;
  for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i)
    for (size_t s = 0; s < graph_.slots.size(); ++s) {
      if (first[s] != i) continue;
      Slot& slot = graph_.slots[s];
      size_t b = 0;
      while (b < busy_until.size() && (graph_.shared[b].first != slot.grid || busy_until[b] >= i)) ++b;
      if (b == busy_until.size()) {
        busy_until.push_back(0);
        graph_.shared.emplace_back(slot.grid, 0);
      }
      busy_until[b] = last[s];
      graph_.shared[b].second = std::max(graph_.shared[b].second, slot.width);
      slot.buffer = static_cast<int>(b);
    }
}

Graph Builder::finish(View output) {
  TCC_CHECK(grid_of(output) == Grid::kSample, "a network scores samples");
  graph_.output = output.slot;
  plan_gradients();
  plan_buffers();
  return std::move(graph_);
}

template <class T>
Weights<T>::Weights(const Graph& graph)
    : params(static_cast<size_t>(graph.num_parameters)),
      buffers(static_cast<size_t>(graph.num_buffers)),
      packed(static_cast<size_t>(graph.packed_size)) {
  for (const Node& n : graph.nodes) {
    T* at = n.buffer < 0 ? nullptr : buffers.data() + n.buffer;
    if (n.kind == Kind::kInput) std::fill_n(at, n.out.width, T(1));
    if (n.kind == Kind::kBatchNorm) std::fill_n(at + n.out.width, n.out.width, T(1));  // running mean 0, variance 1
  }
}

// The defaults of PyTorch: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for linear layers and convolutions, 1 and 0 for
// normalizations. Projections to Q, K and V: U(+-sqrt(6 / (in + out))), bias 0 (multi-head attention, there). Mamba:
// A_log = log(1..N), D = 1, dt weights U(+-rank^-1/2), and a bias whose softplus is log-uniform in [1e-3, 1e-1].
template <class T>
void Weights<T>::initialize(const Graph& graph, uint64_t seed) {
  const Rng base(seed);
  auto ends_with = [](const std::string& s, std::string_view end) {
    return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
  };
  auto fill = [&](int64_t at, int64_t size, double bound, Rng rng) {
    for (int64_t i = 0; i < size; ++i)
      params[static_cast<size_t>(at + i)] = static_cast<T>((2 * rng.uniform() - 1) * bound);
  };
  for (const Node& n : graph.nodes) {
    if (n.weight < 0) continue;
    const Tensor* weight = nullptr;
    for (const Tensor& t : graph.tensors)
      if (t.offset == n.weight) weight = &t;
    const int64_t in = weight->rows, out = weight->columns;
    Rng weights = base.fork(hash_bytes(weight->name)), biases = weights.fork(1);
    if (n.kind == Kind::kLinear || n.kind == Kind::kConv) {
      double bound = 1 / std::sqrt(static_cast<double>(in)), bias_bound = bound;
      if (ends_with(weight->name, "qkv.weight")) bound = std::sqrt(6.0 / static_cast<double>(in + out)), bias_bound = 0;
      if (ends_with(weight->name, "attention.weight")) bias_bound = 0;
      fill(n.weight, in * out, bound, weights);
      if (n.bias >= 0) fill(n.bias, out, bias_bound, biases);
      if (ends_with(weight->name, "dt.weight"))
        for (int64_t i = 0; i < out; ++i) {
          const double dt = std::max(std::exp(std::log(1e-3) + biases.uniform() * std::log(100.0)), 1e-4);
          params[static_cast<size_t>(n.bias + i)] = static_cast<T>(dt + std::log(-std::expm1(-dt)));  // softplus^-1
        }
    } else if (n.kind == Kind::kScan) {
      for (int64_t s = 0; s < in; ++s)
        std::fill_n(params.begin() + n.weight + s * out, out, static_cast<T>(std::log(static_cast<double>(s + 1))));
      std::fill_n(params.begin() + n.bias, out, T(1));
    } else if (n.kind == Kind::kLateral) {
      std::fill_n(params.begin() + n.weight, out, T(0));  // as if without KB at first; its gradient is not 0
    } else {
      std::fill_n(params.begin() + n.weight, out, T(1));
      std::fill_n(params.begin() + n.bias, out, T(0));
    }
  }
}

template <class T>
void Weights<T>::prepare(const Graph& graph, const Kernels<T>& kernels) {
  for (const Node& n : graph.nodes) {
    const T* w = params.data() + n.weight;
    T* to = packed.data() + n.packed;
    if (n.kind == Kind::kLinear) {
      kernels.pack(n.in.width, n.out.width, w, n.out.width, 1, to);
      kernels.pack(n.out.width, n.in.width, w, 1, n.out.width, packed.data() + n.packed_back);
    } else if (n.kind == Kind::kScan) {
      for (int64_t i = 0; i < n.states * n.out.width; ++i) to[i] = -std::exp(w[i]);
    } else if (n.kind == Kind::kBatchNorm) {
      const T *mean = buffers.data() + n.buffer, *variance = mean + n.out.width;
      for (int64_t i = 0; i < n.out.width; ++i) {
        to[i] = T(1) / std::sqrt(variance[i] + T(1e-5));
        to[n.out.width + i] = -mean[i] * to[i];
      }
    }
  }
}

template struct Weights<float>;
template struct Weights<double>;

}  // namespace tcc::nn
