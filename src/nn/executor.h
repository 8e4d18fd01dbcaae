// Runs a graph forward and backward over the samples of a shard.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "nn/graph.h"

namespace tcc::nn {

// Memory that only grows, aligned to cache lines; its contents are lost when it grows.
template <class T>
class Scratch {
 public:
  T* get(int64_t count) {
    if (count > size_) {
      size_ = count + count / 4;
      memory_.reset(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(size_) * sizeof(T) + 63) / 64 * 64)));
      if (!memory_) throw std::bad_alloc();
    }
    return memory_.get();
  }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory_;
  int64_t size_ = 0;
};

// Values and gradients of a shard's slots.
template <class T>
struct Frame {
  const Batch* batch = nullptr;
  int64_t first = 0, samples = 0;  // of the batch
  std::vector<int64_t> offsets[kGrids];
  int64_t rows[kGrids] = {};
  std::vector<int64_t> places;  // of slots
  Scratch<T> values, grads, scratch;
  int64_t size = 0;

  // `keep`: every slot has its own memory, as a backward pass needs it.
  void bind(const Graph& graph, const Batch& b, int64_t first_sample, int64_t count, bool keep);
  // Memory for any shard of the batch, so that it does not matter which worker gets which one.
  void reserve(const Graph& graph, const Kernels<T>& kernels, const Batch& b, int64_t shard, bool keep);

 private:
  void count_rows(const Graph& graph, const Batch& b);
  int64_t lay_out(const Graph& graph, bool keep);
};

// What batch normalization shares between the shards of a batch: scale, shift, and the three factors of the backward
// pass.
template <class T>
struct BatchNormState {
  std::vector<T> scale, shift, by_dy, by_hat, constant;
};

template <class T>
struct Run {
  const Graph& graph;
  const Weights<T>& weights;
  const Kernels<T>& kernels;
  Frame<T>& frame;
  T* grads = nullptr;  // of parameters; added to
  bool training = false;
  uint64_t dropout_seed = 0;
  const std::vector<BatchNormState<T>>* batch_norms = nullptr;  // training only
};

// Nodes [begin, end) of the graph.
template <class T>
void run_forward(const Run<T>& run, int begin, int end);
template <class T>
void run_backward(const Run<T>& run, int begin, int end);
// Fills the gradients of slots that begin with zeros.
template <class T>
void zero_grads(const Run<T>& run);

// Scores and gradients of whole batches. A shard has a fixed number of samples, and shards add up their gradients in
// kLanes groups, whose sums are added in order: so no result depends on the number of threads.
template <class T>
class Engine {
 public:
  static constexpr int64_t kShard = 16, kLanes = 16;
  Engine(const Graph& graph, const Kernels<T>& kernels, ThreadPool* pool);

  // scores: size x heads. `training`: dropout, and batch statistics, which also move the running ones in `weights`.
  void forward(const Batch& batch, Weights<T>& weights, bool training, uint64_t dropout_seed, std::span<T> scores);
  void predict(const Batch& batch, const Weights<T>& weights, std::span<T> scores);
  // After forward() of the same batch with training: the gradient of all parameters for d loss / d scores.
  void backward(const Batch& batch, const Weights<T>& weights, std::span<const T> dscores, std::span<T> grads);

 private:
  // body(i, worker) for i in [0, n), without an allocation.
  template <class F>
  void each(int64_t n, F&& body);
  void sync_forward(const Node& node, Weights<T>& weights, int64_t shards, int64_t size);
  void sync_backward(const Node& node, const Weights<T>& weights, int64_t shards, int64_t size);
  Run<T> run_of(const Weights<T>& weights, Frame<T>& frame) const;
  void forward_shards(const Batch& batch, const Weights<T>& weights, bool training, std::span<T> scores);

  const Graph& graph_;
  const Kernels<T>& kernels_;
  ThreadPool* pool_;
  std::vector<Frame<T>> workers_, shards_;  // shards_: only where batch normalization joins them
  std::vector<BatchNormState<T>> batch_norms_;
  std::vector<T> lanes_;
  uint64_t dropout_seed_ = 0;
};

}  // namespace tcc::nn
