#include "nn/executor.h"

#include <algorithm>
#include <cmath>

#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::nn {
namespace {

const RowInput* input_of(const Batch& b, Grid grid) {
  switch (grid) {
    case Grid::kStatement:
      return &b.statements;
    case Grid::kSequence:
      return &b.sequences;
    case Grid::kDataflow:
      return &b.dataflow;
    case Grid::kSample:
      return nullptr;
  }
  return nullptr;
}

// Elements of Frame::scratch that a segment of `rows` rows needs.
template <class T>
int64_t attention_scratch(const Node& n, const Kernels<T>& kernels, int64_t rows) {
  const int64_t ld = (rows + kernels.panel - 1) / kernels.panel * kernels.panel;
  return 2 * (n.out.width / n.heads + rows) * ld;  // K^T and V^T, P and its gradient
}
template <class T>
int64_t scan_scratch(const Node& n, const Kernels<T>& kernels, int64_t rows) {
  return kernels.scan_scratch(rows, n.states) + n.states * n.out.width;
}

// A view of a slot's values or gradients.
template <class T>
struct Rows {
  T* at = nullptr;
  int64_t ld = 0, n = 0;
};

template <class T>
class Step {
 public:
  Step(const Run<T>& run, const Node& node)
      : run_(run),
        k_(run.kernels),
        n_(node),
        grid_(slot(node.out.slot).grid),
        rows_(run.frame.rows[static_cast<int>(grid_)]) {}

  void forward();
  void backward();

 private:
  const Slot& slot(int s) const { return run_.graph.slots[static_cast<size_t>(s)]; }
  Rows<T> value(View v) const { return at(v, run_.frame.values); }
  Rows<T> grad(View v) const { return at(v, run_.frame.grads); }
  Rows<T> at(View v, Scratch<T>& memory) const {
    if (v.slot < 0) return {};
    T* base = memory.get(run_.frame.size) + run_.frame.places[static_cast<size_t>(v.slot)];
    return {base + v.column, slot(v.slot).width, v.width};
  }
  Rows<T> whole(int s) const { return value({s, 0, slot(s).width}); }
  bool wants(View v) const { return v.slot >= 0 && slot(v.slot).needs_grad; }
  const T* param(int64_t offset) const { return offset < 0 ? nullptr : run_.weights.params.data() + offset; }
  const T* packed() const { return run_.weights.packed.data() + n_.packed; }
  T* param_grad(int64_t offset) const { return run_.grads + offset; }
  // f(first row, rows) for each sample of the input's grid.
  template <class F>
  void each_segment(Grid grid, F&& f) const {
    const std::vector<int64_t>& offsets = run_.frame.offsets[static_cast<int>(grid)];
    for (int64_t s = 0; s < run_.frame.samples; ++s)
      f(s, offsets[static_cast<size_t>(s)], offsets[static_cast<size_t>(s) + 1] - offsets[static_cast<size_t>(s)]);
  }

  void input();
  void linear_back(Rows<T> dy);
  void batch_norm();
  void batch_norm_back(Rows<T> dy);
  void attention();
  void attention_back(Rows<T> dy);
  void dropout(Rows<T> x, Rows<T> y, bool accumulate) const;
  Scan<T> scan(int64_t row, int64_t rows) const;

  const Run<T>& run_;
  const Kernels<T>& k_;
  const Node& n_;
  const Grid grid_;
  const int64_t rows_;
};

template <class T>
void Step<T>::input() {
  const Rows<T> y = value(n_.out);
  const Batch& b = *run_.frame.batch;
  const RowInput& in = *input_of(b, grid_);
  const bool hardware = grid_ == Grid::kSequence && run_.graph.hardware > 0;
  each_segment(grid_, [&](int64_t s, int64_t row, int64_t rows) {
    const int64_t sample = run_.frame.first + s;
    const int64_t own = rows - (hardware ? 1 : 0);
    const float* from = in.rows + in.offsets[sample] * in.width;
    T* to = y.at + row * y.ld;
    std::copy(from, from + own * in.width, to);
    k_.scale(own, y.n, to, y.ld, run_.weights.buffers.data() + n_.buffer, nullptr, to, y.ld, false);
    if (!hardware) return;
    to += own * y.ld;
    const float* row_of = b.hardware + sample * b.hardware_width;
    std::copy(row_of, row_of + b.hardware_width, to);
    std::fill(to + b.hardware_width, to + y.n, T(0));
  });
}

template <class T>
void Step<T>::batch_norm() {
  const Rows<T> x = value(n_.in), y = value(n_.out), hat = whole(n_.extra);
  const T *scale = packed(), *shift = scale + x.n;
  if (run_.training) {
    const BatchNormState<T>& state = (*run_.batch_norms)[static_cast<size_t>(n_.batch_norm)];
    scale = state.scale.data();
    shift = state.shift.data();
  }
  k_.scale(rows_, x.n, x.at, x.ld, scale, shift, hat.at, hat.ld, false);
  k_.scale(rows_, x.n, hat.at, hat.ld, param(n_.weight), param(n_.bias), y.at, y.ld, false);
}

// dx = gamma / deviation (dy - mean(dy) - xhat mean(dy xhat)), means over the batch (Ioffe and Szegedy, 2015).
template <class T>
void Step<T>::batch_norm_back(Rows<T> dy) {
  const Rows<T> hat = whole(n_.extra), dx = grad(n_.in);
  k_.column_sum(rows_, dy.n, dy.at, dy.ld, hat.at, hat.ld, param_grad(n_.weight));
  k_.column_sum(rows_, dy.n, dy.at, dy.ld, nullptr, 0, param_grad(n_.bias));
  if (!wants(n_.in)) return;
  const BatchNormState<T>& state = (*run_.batch_norms)[static_cast<size_t>(n_.batch_norm)];
  k_.scale(rows_, dy.n, dy.at, dy.ld, state.by_dy.data(), state.constant.data(), dx.at, dx.ld, n_.keep[0]);
  k_.scale(rows_, dy.n, hat.at, hat.ld, state.by_hat.data(), nullptr, dx.at, dx.ld, true);
}

// Attention within a sample (Vaswani et al., 2017, Eq. 1), without positions and without a mask: absent rows are
// absent.
template <class T>
void Step<T>::attention() {
  const Rows<T> qkv = value(n_.in), out = value(n_.out);
  const int64_t width = out.n, head = width / n_.heads;
  const T scale = T(1) / std::sqrt(static_cast<T>(head));
  each_segment(grid_, [&](int64_t, int64_t row, int64_t t) {
    if (t == 0) return;
    const int64_t ld = (t + k_.panel - 1) / k_.panel * k_.panel;
    T *keys = run_.frame.scratch.get(attention_scratch(n_, k_, t)), *p = keys + head * ld;
    for (int64_t h = 0; h < n_.heads; ++h) {
      const T *q = qkv.at + row * qkv.ld + h * head, *k = q + width, *v = k + width;
      k_.pack(head, t, k, 1, qkv.ld, keys);
      k_.gemm({.m = t, .n = t, .k = head, .a = q, .a_row = qkv.ld, .b = keys, .c = p, .ldc = ld});
      k_.softmax(t, t, ld, scale, p);
      k_.gemm({.m = t,
               .n = head,
               .k = t,
               .a = p,
               .a_row = ld,
               .b = v,
               .ldb = qkv.ld,
               .c = out.at + row * out.ld + h * head,
               .ldc = out.ld});
    }
  });
}

template <class T>
void Step<T>::attention_back(Rows<T> dy) {
  if (!wants(n_.in)) return;
  const Rows<T> qkv = value(n_.in), dqkv = grad(n_.in);
  const int64_t width = dy.n, head = width / n_.heads;
  const T scale = T(1) / std::sqrt(static_cast<T>(head));
  const bool keep = n_.keep[0];
  each_segment(grid_, [&](int64_t, int64_t row, int64_t t) {
    if (t == 0) return;
    const int64_t ld = (t + k_.panel - 1) / k_.panel * k_.panel;
    T *keys = run_.frame.scratch.get(attention_scratch(n_, k_, t)), *p = keys + head * ld, *d = p + t * ld,
      *values = d + t * ld;
    for (int64_t h = 0; h < n_.heads; ++h) {
      const T *q = qkv.at + row * qkv.ld + h * head, *k = q + width, *v = k + width;
      T *dq = dqkv.at + row * dqkv.ld + h * head, *dk = dq + width, *dv = dk + width;
      const T* g = dy.at + row * dy.ld + h * head;
      k_.pack(head, t, k, 1, qkv.ld, keys);
      k_.gemm({.m = t, .n = t, .k = head, .a = q, .a_row = qkv.ld, .b = keys, .c = p, .ldc = ld});
      k_.softmax(t, t, ld, scale, p);
      // dV = P^T dO, dP = dO V^T, then the softmax, dQ = dS K, dK = dS^T Q
      k_.gemm({.m = t,
               .n = head,
               .k = t,
               .a = p,
               .a_row = 1,
               .a_step = ld,
               .b = g,
               .ldb = dy.ld,
               .c = dv,
               .ldc = dqkv.ld,
               .accumulate = keep});
      k_.pack(head, t, v, 1, qkv.ld, values);
      k_.gemm({.m = t, .n = t, .k = head, .a = g, .a_row = dy.ld, .b = values, .c = d, .ldc = ld});
      k_.softmax_back(t, t, ld, scale, p, d);
      k_.gemm({.m = t,
               .n = head,
               .k = t,
               .a = d,
               .a_row = ld,
               .b = k,
               .ldb = qkv.ld,
               .c = dq,
               .ldc = dqkv.ld,
               .accumulate = keep});
      k_.gemm({.m = t,
               .n = head,
               .k = t,
               .a = d,
               .a_row = 1,
               .a_step = ld,
               .b = q,
               .ldb = qkv.ld,
               .c = dk,
               .ldc = dqkv.ld,
               .accumulate = keep});
    }
  });
}

// Each element's fate is a hash of the seed, the layer, and the sample's place in the batch.
template <class T>
void Step<T>::dropout(Rows<T> x, Rows<T> y, bool accumulate) const {
  if (!run_.training) return k_.copy(rows_, x.n, x.at, x.ld, y.at, y.ld, accumulate);
  const uint64_t layer = combine_hash(run_.dropout_seed, static_cast<uint64_t>(n_.out.slot));
  const auto limit = static_cast<uint64_t>(n_.rate * 0x1p53);
  const T scale = static_cast<T>(1 / (1 - n_.rate));
  each_segment(grid_, [&](int64_t s, int64_t row, int64_t rows) {
    const uint64_t sample = combine_hash(layer, static_cast<uint64_t>(run_.frame.first + s));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < x.n; ++i) {
        const bool kept = mix_hash(sample + static_cast<uint64_t>(r * x.n + i)) >> 11 >= limit;
        T& to = y.at[(row + r) * y.ld + i];
        to = (accumulate ? to : T(0)) + (kept ? x.at[(row + r) * x.ld + i] * scale : T(0));
      }
  });
}

template <class T>
Scan<T> Step<T>::scan(int64_t row, int64_t rows) const {
  const Rows<T> x = value(n_.in), dt = value(n_.in2), bc = value(n_.in3), y = value(n_.out);
  return {.steps = rows,
          .width = x.n,
          .states = n_.states,
          .x = x.at + row * x.ld,
          .dt = dt.at + row * dt.ld,
          .b = bc.at + row * bc.ld,
          .c = bc.at + row * bc.ld + n_.states,
          .ldx = x.ld,
          .lddt = dt.ld,
          .ldb = bc.ld,
          .ldc = bc.ld,
          .a = packed(),
          .d = param(n_.bias),
          .y = y.at + row * y.ld,
          .ldy = y.ld};
}

template <class T>
void Step<T>::forward() {
  const Rows<T> x = value(n_.in), z = value(n_.in2), y = value(n_.out);
  switch (n_.kind) {
    case Kind::kInput:
      return input();
    case Kind::kLinear:
      return k_.gemm({.m = rows_,
                      .n = y.n,
                      .k = x.n,
                      .a = x.at,
                      .a_row = x.ld,
                      .b = packed(),
                      .c = y.at,
                      .ldc = y.ld,
                      .bias = param(n_.bias),
                      .relu = n_.act == Act::kRelu});
    case Kind::kActivation:
      return k_.activate(n_.act, rows_, y.n, x.at, x.ld, y.at, y.ld);
    case Kind::kAdd:
      return k_.add(rows_, y.n, x.at, x.ld, z.at, z.ld, y.at, y.ld);
    case Kind::kMultiply:
      return k_.multiply(rows_, y.n, x.at, x.ld, z.at, z.ld, y.at, y.ld, false);
    case Kind::kLateral:
      k_.scale(rows_, y.n, z.at, z.ld, param(n_.weight), nullptr, y.at, y.ld, false);
      return k_.add(rows_, y.n, x.at, x.ld, y.at, y.ld, y.at, y.ld);
    case Kind::kLayerNorm:
      return k_.layer_norm(rows_, y.n, x.at, x.ld, param(n_.weight), param(n_.bias), T(1e-5), y.at, y.ld,
                           whole(n_.extra).at);
    case Kind::kBatchNorm:
      return batch_norm();
    case Kind::kAttention:
      return attention();
    case Kind::kSegmentSum:
      return each_segment(slot(n_.in.slot).grid, [&](int64_t s, int64_t row, int64_t rows) {
        std::fill_n(y.at + s * y.ld, y.n, T(0));
        k_.column_sum(rows, y.n, x.at + row * x.ld, x.ld, nullptr, 0, y.at + s * y.ld);
      });
    case Kind::kConv:
      return each_segment(grid_, [&](int64_t, int64_t row, int64_t rows) {
        k_.conv(rows, y.n, n_.taps, x.at + row * x.ld, x.ld, param(n_.weight), param(n_.bias), y.at + row * y.ld, y.ld);
      });
    case Kind::kScan:
      return each_segment(grid_, [&](int64_t, int64_t row, int64_t rows) { k_.scan(scan(row, rows)); });
    case Kind::kDropout:
      return dropout(x, y, false);
  }
}

template <class T>
void Step<T>::linear_back(Rows<T> dy) {
  const Rows<T> x = value(n_.in), y = value(n_.out);
  if (n_.act == Act::kRelu)
    k_.activate_back(Act::kRelu, rows_, dy.n, nullptr, 0, y.at, y.ld, dy.at, dy.ld, dy.at, dy.ld, false);
  if (n_.trainable) {
    k_.gemm({.m = x.n,
             .n = dy.n,
             .k = rows_,
             .a = x.at,
             .a_row = 1,
             .a_step = x.ld,
             .b = dy.at,
             .ldb = dy.ld,
             .c = param_grad(n_.weight),
             .ldc = dy.n,
             .accumulate = true});
    if (n_.bias >= 0) k_.column_sum(rows_, dy.n, dy.at, dy.ld, nullptr, 0, param_grad(n_.bias));
  }
  if (!wants(n_.in)) return;
  const Rows<T> dx = grad(n_.in);
  k_.gemm({.m = rows_,
           .n = x.n,
           .k = dy.n,
           .a = dy.at,
           .a_row = dy.ld,
           .b = run_.weights.packed.data() + n_.packed_back,
           .c = dx.at,
           .ldc = dx.ld,
           .accumulate = n_.keep[0]});
}

template <class T>
void Step<T>::backward() {
  if (!wants(n_.out)) return;
  const Rows<T> x = value(n_.in), z = value(n_.in2), y = value(n_.out), dy = grad(n_.out);
  const Rows<T> dx = grad(n_.in), dz = grad(n_.in2);
  switch (n_.kind) {
    case Kind::kInput:
      return;
    case Kind::kLinear:
      return linear_back(dy);
    case Kind::kActivation:
      return k_.activate_back(n_.act, rows_, dy.n, x.at, x.ld, y.at, y.ld, dy.at, dy.ld, dx.at, dx.ld, n_.keep[0]);
    case Kind::kAdd:
      if (wants(n_.in)) k_.copy(rows_, dy.n, dy.at, dy.ld, dx.at, dx.ld, n_.keep[0]);
      if (wants(n_.in2)) k_.copy(rows_, dy.n, dy.at, dy.ld, dz.at, dz.ld, n_.keep[1]);
      return;
    case Kind::kMultiply:
      if (wants(n_.in)) k_.multiply(rows_, dy.n, dy.at, dy.ld, z.at, z.ld, dx.at, dx.ld, n_.keep[0]);
      if (wants(n_.in2)) k_.multiply(rows_, dy.n, dy.at, dy.ld, x.at, x.ld, dz.at, dz.ld, n_.keep[1]);
      return;
    case Kind::kLateral:
      if (n_.trainable) k_.column_sum(rows_, dy.n, dy.at, dy.ld, z.at, z.ld, param_grad(n_.weight));
      if (wants(n_.in)) k_.copy(rows_, dy.n, dy.at, dy.ld, dx.at, dx.ld, n_.keep[0]);
      if (wants(n_.in2)) k_.scale(rows_, dy.n, dy.at, dy.ld, param(n_.weight), nullptr, dz.at, dz.ld, n_.keep[1]);
      return;
    case Kind::kLayerNorm:
      return k_.layer_norm_back(rows_, dy.n, x.at, x.ld, param(n_.weight), whole(n_.extra).at, dy.at, dy.ld, dx.at,
                                dx.ld, n_.keep[0], param_grad(n_.weight), param_grad(n_.bias));
    case Kind::kBatchNorm:
      return batch_norm_back(dy);
    case Kind::kAttention:
      return attention_back(dy);
    case Kind::kSegmentSum:
      return each_segment(slot(n_.in.slot).grid, [&](int64_t s, int64_t row, int64_t rows) {
        k_.copy(rows, dy.n, dy.at + s * dy.ld, 0, dx.at + row * dx.ld, dx.ld, n_.keep[0]);
      });
    case Kind::kConv:
      return each_segment(grid_, [&](int64_t, int64_t row, int64_t rows) {
        k_.conv_back(rows, dy.n, n_.taps, x.at + row * x.ld, x.ld, param(n_.weight), dy.at + row * dy.ld, dy.ld,
                     dx.at + row * dx.ld, dx.ld, param_grad(n_.weight), param_grad(n_.bias));
      });
    case Kind::kScan: {
      const Rows<T> dbc = grad(n_.in3);
      each_segment(grid_, [&](int64_t, int64_t row, int64_t rows) {
        Scan<T> s = scan(row, rows);
        s.dy = dy.at + row * dy.ld;
        s.dx = dx.at + row * dx.ld;
        s.ddt = dz.at + row * dz.ld;
        s.db = dbc.at + row * dbc.ld;
        s.dc = s.db + n_.states;
        // d A_log = dA * A: prepared in place of dA, which is linear in it.
        s.da = run_.frame.scratch.get(scan_scratch(n_, k_, rows));
        std::fill_n(s.da, n_.states * dy.n, T(0));
        s.scratch = s.da + n_.states * dy.n;
        s.dd = param_grad(n_.bias);
        k_.scan_back(s);
        k_.multiply(1, n_.states * dy.n, s.da, 0, s.a, 0, param_grad(n_.weight), 0, true);
      });
      return;
    }
    case Kind::kDropout:
      return dropout(dy, dx, n_.keep[0]);
  }
}

}  // namespace

template <class T>
void Frame<T>::count_rows(const Graph& graph, const Batch& b) {
  for (int g = 0; g < kGrids; ++g) {
    const RowInput* in = graph.inputs[g] > 0 ? input_of(b, static_cast<Grid>(g)) : nullptr;
    offsets[g].resize(static_cast<size_t>(samples) + 1);
    const bool hardware = g == static_cast<int>(Grid::kSequence) && graph.hardware > 0;
    for (int64_t s = 0; s <= samples; ++s)
      offsets[g][static_cast<size_t>(s)] =
          in ? in->offsets[first + s] - in->offsets[first] + (hardware ? s : 0) : (g == 0 ? s : 0);
    rows[g] = offsets[g].back();
  }
}

template <class T>
int64_t Frame<T>::lay_out(const Graph& graph, bool keep) {
  auto rounded = [](int64_t n) { return (n + 15) / 16 * 16; };
  places.resize(graph.slots.size());
  int64_t total = 0;
  if (keep) {
    for (size_t s = 0; s < graph.slots.size(); ++s) {
      places[s] = total;
      total += rounded(rows[static_cast<int>(graph.slots[s].grid)] * graph.slots[s].width);
    }
    return total;
  }
  for (size_t i = 0; i < graph.shared.size(); ++i) {
    for (size_t s = 0; s < graph.slots.size(); ++s)
      if (graph.slots[s].buffer == static_cast<int>(i)) places[s] = total;
    total += rounded(rows[static_cast<int>(graph.shared[i].first)] * graph.shared[i].second);
  }
  return total;
}

template <class T>
void Frame<T>::bind(const Graph& graph, const Batch& b, int64_t first_sample, int64_t count, bool keep) {
  batch = &b;
  first = first_sample;
  samples = count;
  count_rows(graph, b);
  size = lay_out(graph, keep);
  values.get(size);
  if (keep) grads.get(size);
}

template <class T>
void Frame<T>::reserve(const Graph& graph, const Kernels<T>& kernels, const Batch& b, int64_t shard, bool keep) {
  int64_t most = 0, longest[kGrids] = {1, 1, 1, 1};
  for (first = 0; first < b.size; first += shard) {
    samples = std::min(shard, b.size - first);
    count_rows(graph, b);
    most = std::max(most, lay_out(graph, keep));
    for (int g = 0; g < kGrids; ++g)
      for (size_t s = 1; s < offsets[g].size(); ++s)
        longest[g] = std::max(longest[g], offsets[g][s] - offsets[g][s - 1]);
  }
  int64_t temporary = 0;
  for (const Node& n : graph.nodes) {
    const int64_t rows_of = longest[static_cast<int>(graph.slots[static_cast<size_t>(n.out.slot)].grid)];
    if (n.kind == Kind::kAttention) temporary = std::max(temporary, attention_scratch(n, kernels, rows_of));
    if (n.kind == Kind::kScan) temporary = std::max(temporary, scan_scratch(n, kernels, rows_of));
  }
  values.get(most);
  if (keep) grads.get(most);
  scratch.get(temporary);
}

template <class T>
void run_forward(const Run<T>& run, int begin, int end) {
  for (int i = begin; i < end; ++i) Step<T>(run, run.graph.nodes[static_cast<size_t>(i)]).forward();
}

template <class T>
void run_backward(const Run<T>& run, int begin, int end) {
  for (int i = end; i-- > begin;) Step<T>(run, run.graph.nodes[static_cast<size_t>(i)]).backward();
}

template <class T>
void zero_grads(const Run<T>& run) {
  Frame<T>& f = run.frame;
  for (size_t s = 0; s < run.graph.slots.size(); ++s) {
    const Slot& slot = run.graph.slots[s];
    if (!slot.zero_grad || !slot.needs_grad) continue;
    std::fill_n(f.grads.get(f.size) + f.places[s], f.rows[static_cast<int>(slot.grid)] * slot.width, T(0));
  }
}

template struct Frame<float>;
template struct Frame<double>;
template void run_forward(const Run<float>&, int, int);
template void run_forward(const Run<double>&, int, int);
template void run_backward(const Run<float>&, int, int);
template void run_backward(const Run<double>&, int, int);
template void zero_grads(const Run<float>&);
template void zero_grads(const Run<double>&);

}  // namespace tcc::nn
