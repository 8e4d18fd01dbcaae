#include <algorithm>
#include <cmath>
#include <functional>

#include "nn/executor.h"

namespace tcc::nn {

template <class T>
Engine<T>::Engine(const Graph& graph, const Kernels<T>& kernels, ThreadPool* pool)
    : graph_(graph), kernels_(kernels), pool_(pool), workers_(pool ? static_cast<size_t>(pool->size()) : 1) {
  for (int node : graph.batch_norms) {
    const auto width = static_cast<size_t>(graph.nodes[static_cast<size_t>(node)].out.width);
    batch_norms_.push_back({std::vector<T>(width), std::vector<T>(width), std::vector<T>(width), std::vector<T>(width),
                            std::vector<T>(width)});
  }
}

template <class T>
template <class F>
void Engine<T>::each(int64_t n, F&& body) {
  if (!pool_) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  // A call from inside another pool's body is serial, on a worker whose number this pool may not have.
  auto limited = [&](int64_t i, int worker) { body(i, worker < pool_->size() ? worker : 0); };
  pool_->parallel_for(n, std::ref(limited));
}

template <class T>
Run<T> Engine<T>::run_of(const Weights<T>& weights, Frame<T>& frame) const {
  return {.graph = graph_,
          .weights = weights,
          .kernels = kernels_,
          .frame = frame,
          .training = true,
          .dropout_seed = dropout_seed_,
          .batch_norms = &batch_norms_};
}

template <class T>
void Engine<T>::forward_shards(const Batch& batch, const Weights<T>& weights, bool training, std::span<T> scores) {
  const int64_t shards = (batch.size + kShard - 1) / kShard;
  for (Frame<T>& frame : workers_) frame.reserve(graph_, kernels_, batch, kShard, false);
  each(shards, [&](int64_t s, int worker) {
    Frame<T>& frame = workers_[static_cast<size_t>(worker)];
    const int64_t first = s * kShard;
    frame.bind(graph_, batch, first, std::min(kShard, batch.size - first), false);
    Run<T> run = run_of(weights, frame);
    run.training = training;
    run_forward(run, 0, static_cast<int>(graph_.nodes.size()));
    const auto out = static_cast<size_t>(graph_.output);
    const int64_t heads = graph_.slots[out].width;
    const T* from = frame.values.get(frame.size) + frame.places[out];
    std::copy(from, from + frame.samples * heads, scores.data() + first * heads);
  });
}

template <class T>
void Engine<T>::predict(const Batch& batch, const Weights<T>& weights, std::span<T> scores) {
  forward_shards(batch, weights, false, scores);
}

template <class T>
void Engine<T>::forward(const Batch& batch, Weights<T>& weights, bool training, uint64_t dropout_seed,
                        std::span<T> scores) {
  dropout_seed_ = dropout_seed;
  if (!training || graph_.batch_norms.empty()) return forward_shards(batch, weights, training, scores);
  const int64_t shards = (batch.size + kShard - 1) / kShard;
  if (static_cast<int64_t>(shards_.size()) < shards) shards_.resize(static_cast<size_t>(shards));
  for (int64_t s = 0; s < shards; ++s)
    shards_[static_cast<size_t>(s)].bind(graph_, batch, s * kShard, std::min(kShard, batch.size - s * kShard), true);
  int begin = 0;
  for (size_t phase = 0; phase <= graph_.batch_norms.size(); ++phase) {
    const bool last = phase == graph_.batch_norms.size();
    const int end = last ? static_cast<int>(graph_.nodes.size()) : graph_.batch_norms[phase];
    each(shards, [&](int64_t s, int) { run_forward(run_of(weights, shards_[static_cast<size_t>(s)]), begin, end); });
    if (!last) sync_forward(graph_.nodes[static_cast<size_t>(end)], weights, shards, batch.size);
    begin = end;
  }
  const auto out = static_cast<size_t>(graph_.output);
  const int64_t heads = graph_.slots[out].width;
  for (Frame<T>& frame : std::span(shards_).first(static_cast<size_t>(shards))) {
    const T* from = frame.values.get(frame.size) + frame.places[out];
    std::copy(from, from + frame.samples * heads, scores.data() + frame.first * heads);
  }
}

// Statistics of the batch; the running ones move by 0.1 of the difference (PyTorch's default), with the unbiased
// variance.
template <class T>
void Engine<T>::sync_forward(const Node& node, Weights<T>& weights, int64_t shards, int64_t size) {
  BatchNormState<T>& state = batch_norms_[static_cast<size_t>(node.batch_norm)];
  const int64_t width = node.out.width;
  T *running = weights.buffers.data() + node.buffer, *variances = running + width;
  for (int64_t c = 0; c < width; ++c) {
    auto sum = [&](auto f) {
      double total = 0;
      for (int64_t s = 0; s < shards; ++s) {
        Frame<T>& frame = shards_[static_cast<size_t>(s)];
        const int64_t ld = graph_.slots[static_cast<size_t>(node.in.slot)].width;
        const T* x =
            frame.values.get(frame.size) + frame.places[static_cast<size_t>(node.in.slot)] + node.in.column + c;
        for (int64_t r = 0; r < frame.samples; ++r) total += f(static_cast<double>(x[r * ld]));
      }
      return total;
    };
    const auto n = static_cast<double>(size);
    const double mean = sum([](double x) { return x; }) / n;
    const double variance = sum([&](double x) { return (x - mean) * (x - mean); }) / n;
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    state.scale[static_cast<size_t>(c)] = static_cast<T>(inverse);
    state.shift[static_cast<size_t>(c)] = static_cast<T>(-mean * inverse);
    running[c] += static_cast<T>(0.1) * (static_cast<T>(mean) - running[c]);
    variances[c] += static_cast<T>(0.1) * (static_cast<T>(size > 1 ? variance * n / (n - 1) : variance) - variances[c]);
  }
}

template <class T>
void Engine<T>::sync_backward(const Node& node, const Weights<T>& weights, int64_t shards, int64_t size) {
  BatchNormState<T>& state = batch_norms_[static_cast<size_t>(node.batch_norm)];
  for (int64_t c = 0; c < node.out.width; ++c) {
    double sum = 0, product = 0;
    for (int64_t s = 0; s < shards; ++s) {
      Frame<T>& frame = shards_[static_cast<size_t>(s)];
      const T* dy = frame.grads.get(frame.size) + frame.places[static_cast<size_t>(node.out.slot)] + c;
      const T* hat = frame.values.get(frame.size) + frame.places[static_cast<size_t>(node.extra)] + c;
      for (int64_t r = 0; r < frame.samples; ++r) {
        sum += static_cast<double>(dy[r * node.out.width]);
        product += static_cast<double>(dy[r * node.out.width]) * static_cast<double>(hat[r * node.out.width]);
      }
    }
    const auto at = static_cast<size_t>(c);
    const double factor = static_cast<double>(weights.params[static_cast<size_t>(node.weight + c)]) *
                          static_cast<double>(state.scale[at]);
    state.by_dy[at] = static_cast<T>(factor);
    state.by_hat[at] = static_cast<T>(-factor * product / static_cast<double>(size));
    state.constant[at] = static_cast<T>(-factor * sum / static_cast<double>(size));
  }
}

template <class T>
void Engine<T>::backward(const Batch& batch, const Weights<T>& weights, std::span<const T> dscores,
                         std::span<T> grads) {
  const int64_t shards = (batch.size + kShard - 1) / kShard, lanes = std::min(kLanes, shards);
  const int64_t params = graph_.num_parameters;
  const auto out = static_cast<size_t>(graph_.output);
  const int64_t heads = graph_.slots[out].width;
  const int nodes = static_cast<int>(graph_.nodes.size());
  lanes_.resize(static_cast<size_t>(kLanes * params));
  const bool joined = !graph_.batch_norms.empty();
  // Fills in the gradient of the scores, which the last nodes turn into that of the parameters.
  auto start = [&](const Run<T>& run) {
    zero_grads(run);
    Frame<T>& f = run.frame;
    std::copy_n(dscores.data() + f.first * heads, f.samples * heads, f.grads.get(f.size) + f.places[out]);
  };
  auto each_lane = [&](auto body) {
    each(lanes, [&](int64_t lane, int worker) {
      for (int64_t s = lane; s < shards; s += lanes) body(s, lane, worker);
    });
  };
  std::fill(lanes_.begin(), lanes_.begin() + lanes * params, T(0));
  if (!joined) {
    for (Frame<T>& frame : workers_) frame.reserve(graph_, kernels_, batch, kShard, true);
    each_lane([&](int64_t s, int64_t lane, int worker) {
      Frame<T>& frame = workers_[static_cast<size_t>(worker)];
      frame.bind(graph_, batch, s * kShard, std::min(kShard, batch.size - s * kShard), true);
      Run<T> run = run_of(weights, frame);
      run.grads = lanes_.data() + lane * params;
      run_forward(run, 0, nodes);
      start(run);
      run_backward(run, 0, nodes);
    });
  } else {
    int end = nodes;
    for (size_t phase = graph_.batch_norms.size() + 1; phase-- > 0;) {
      const int begin = phase == 0 ? 0 : graph_.batch_norms[phase - 1] + 1;
      each_lane([&](int64_t s, int64_t lane, int) {
        Run<T> run = run_of(weights, shards_[static_cast<size_t>(s)]);
        run.grads = lanes_.data() + lane * params;
        if (end == nodes) start(run);
        run_backward(run, begin, end);
      });
      if (phase > 0) sync_backward(graph_.nodes[static_cast<size_t>(begin - 1)], weights, shards, batch.size);
      end = begin;
    }
  }
  std::copy_n(lanes_.begin(), params, grads.begin());
  for (int64_t lane = 1; lane < lanes; ++lane)
    kernels_.combine(params, T(1), lanes_.data() + lane * params, T(1), grads.data());
}

template class Engine<float>;
template class Engine<double>;

}  // namespace tcc::nn
