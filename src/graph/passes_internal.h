// Shared by the graph's passes.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tcc/graph/passes.h"
#include "tcc/graph/reference.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::graph {

// Strides (in elements) that read a dense tensor of `shape` at the indices of `onto`; broadcast axes have 0.
std::vector<int64_t> broadcast_strides(const Shape& shape, const Shape& onto);
// Strides of a dense tensor.
std::vector<int64_t> dense_strides(const Shape& shape);

Result<void> need_axis(int64_t axis, const Shape& shape);
// A number as an integer type keeps it: truncated, wrapped to its width.
double wrap_integer(double v, DType dtype);

// Of the magnitudes of all cofactors of a matrix n x n: how much its determinant moves where each element moves by 1
// at most.
double sum_of_cofactors(const double* matrix, int64_t n);

// Term k of column n of the matrix of a PackedMatMul with `terms` terms, from the elements of its inputs 1 to 3.
double packed_weight(const PackedMatMulAttrs& a, int64_t terms, const std::vector<double>& numbers,
                     const std::vector<double>& scales, const std::vector<double>& zeros, int64_t k, int64_t n);
// Products with weights of 4 bits become products with floats (packed_products.cpp).
void unpack_products(Graph& graph);

void remove_dead_nodes(Graph& graph);

// LayerNorm and Gelu written out in smaller operators become one node each, where nothing else reads the parts.
void fuse_patterns(Graph& graph);

// Moves these nodes of one input right behind its maker: an attention wants its converted operands before its first
// product runs.
void advance_conversions(Graph& graph, const std::set<NodeId>& conversions);

// Gathers whose indices are known runs become slices (index_runs.cpp).
void slice_gathers(Graph& graph);

// A Slice that elementwise nodes of its shape and Concats alone read becomes one for each of them: their groups read
// its source, and nobody writes the slice.
void repeat_slices(Graph& graph);

// transpose_weights of weights of i8.
int64_t transpose_byte_weights(Graph& graph);

// Scales, limits and conversions between the integer sums of a product and the next tensor of 8 bits, in fewer
// operators (requantize.cpp).
void simplify_requantization(Graph& graph);

// Concatenations and means of numbers of 8 bits, without floats of all of them (byte_tensors.cpp).
void shrink_byte_tensors(Graph& graph);

// Numbers of 8 bits in both signs, of which one is read as wider numbers only, are stored in the other
// (flipped_bytes.cpp).
void read_flipped_bytes(Graph& graph);

// N,C,spatial... of a shape whose channels are in blocks of `block`, and back. The extents must fit.
Shape plain_channels(const Shape& blocked, int64_t block);
Shape blocked_channels(const Shape& plain, int64_t block);
// Is the weight of the convolution blocked on both sides? And its shape, or that of its plain form.
bool has_blocked_weight(const ConvAttrs& attrs, const Shape& weight);
Shape plain_weight(const ConvAttrs& attrs, const Shape& weight);

// Output plane `plane` (image * filters + filter) of a convolution with attrs.winograd, in double.
struct WinogradOperands {
  const double *x, *u, *bias;  // bias may be null
};
void run_winograd(const ConvAttrs& attrs, const Shape& in, const Shape& out, const WinogradOperands& operands,
                  int64_t plane, double* y);

bool is_known(const Value& value);  // constant, or without elements
// The growth limit of constant folding; all inputs are known.
bool worth_folding(const Graph& graph, const Node& node);

// Walks the indices of a shape in row-major order.
class IndexWalk {
 public:
  explicit IndexWalk(Shape shape) : shape_(std::move(shape)), index_(shape_.size(), 0) {}
  void next() {
    for (size_t i = index_.size(); i-- > 0;) {
      if (++index_[i] < shape_[i]) return;
      index_[i] = 0;
    }
  }
  int64_t offset(const std::vector<int64_t>& strides) const {
    int64_t at = 0;
    for (size_t i = 0; i < index_.size(); ++i) at += index_[i] * strides[i];
    return at;
  }
  const std::vector<int64_t>& index() const { return index_; }

 private:
  Shape shape_;
  std::vector<int64_t> index_;
};

// --- running a graph in double ------------------------------------------------------------------------------------

// Errors: another number of inputs, or another shape.
Result<void> check_inputs(const Graph& graph, const std::vector<HostTensor>& inputs);
HostTensor host_constant(const Value& value);

// Counts the arithmetic of a run that is done, and tells of it: when it begins, several times a second, and at the end.
// Any thread may add.
class WorkMeter {
 public:
  WorkMeter(double total, const ReferenceProgress& progress) : total_(total), progress_(progress) {}
  void add(double flops) {
    done_.fetch_add(flops, std::memory_order_relaxed);
    tell(false);
  }
  // What was left out of a part counts as done. Call it while nothing adds.
  void set(double flops) { done_.store(flops, std::memory_order_relaxed); }
  void finish() {
    set(total_);
    tell(true);
  }

 private:
  void tell(bool last) {
    if (!progress_ || total_ <= 0) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || (!last && begun_ && told_.seconds() < kSeconds)) return;
    begun_ = true;
    told_.restart();
    progress_(std::min(done_.load(std::memory_order_relaxed) / total_, 1.0));
  }
  static constexpr double kSeconds = 0.2;  // between two calls
  const double total_;
  const ReferenceProgress& progress_;
  std::atomic<double> done_ = 0;
  std::mutex mutex_;
  bool begun_ = false;
  Stopwatch told_;
};

// One node; the operands are those that graph/reference.h describes. What is done is added to `meter`, where there is
// one.
HostTensor run_node(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs, ThreadPool& pool,
                    WorkMeter* meter = nullptr);

// Runs the nodes in order over values of any type, and drops a value behind its last reader. `inputs` as graph.inputs.
template <class T>
std::vector<T> run_in_order(const Graph& graph, std::vector<T> inputs, const std::function<T(const Value&)>& constant,
                            const std::function<T(const Node&, const std::vector<const T*>&)>& run) {
  std::vector<std::optional<T>> values(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(graph.inputs[i])] = std::move(inputs[i]);
  std::vector<int64_t> uses(graph.values.size(), 0);
  for (NodeId id : graph.order)
    for (ValueId input : graph.node(id).inputs) ++uses[static_cast<size_t>(input)];
  for (ValueId id : graph.outputs) ++uses[static_cast<size_t>(id)];
  auto fetch = [&](ValueId id) -> const T& {
    std::optional<T>& value = values[static_cast<size_t>(id)];
    if (!value && graph.value(id).is_constant()) value = constant(graph.value(id));
    return *value;
  };
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    std::vector<const T*> operands;
    for (ValueId input : node.inputs) operands.push_back(&fetch(input));
    values[static_cast<size_t>(node.output)] = run(node, operands);
    for (ValueId input : node.inputs)
      if (--uses[static_cast<size_t>(input)] == 0) values[static_cast<size_t>(input)].reset();
  }
  std::vector<T> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(fetch(id));
  return outputs;
}

// Every element of `out`, in order: the element of `x` at `base` plus its indices by the strides.
void read_strided(const HostTensor& x, int64_t base, const std::vector<int64_t>& strides, HostTensor& out);
// Every element of `out`: f of the elements of x and y at its place, both broadcast.
template <class F>
void combine(const HostTensor& x, const HostTensor& y, HostTensor& out, F f) {
  const auto a = broadcast_strides(x.shape, out.shape), b = broadcast_strides(y.shape, out.shape);
  IndexWalk walk(out.shape);
  for (double& v : out.data) {
    v = f(x.data[static_cast<size_t>(walk.offset(a))], y.data[static_cast<size_t>(walk.offset(b))]);
    walk.next();
  }
}

}  // namespace tcc::graph
