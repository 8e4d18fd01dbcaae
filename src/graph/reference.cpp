// Straightforward loops in double. Convolutions and pools are written for three spatial axes; fewer are padded with
// leading axes of extent one. Loops are ordered so that rows are read contiguously.
#include "tcc/graph/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <thread>

#include "passes_internal.h"
#include "tcc/support/check.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"

namespace tcc::graph {
namespace {

using Triple = std::array<int64_t, 3>;

Triple to_triple(const std::vector<int64_t>& v, int64_t fill, size_t skip = 0) {
  Triple t{fill, fill, fill};
  size_t n = v.size() - skip;
  for (size_t i = 0; i < n; ++i) t[3 - n + i] = v[skip + i];
  return t;
}

struct Geometry {
  Triple in, out, kernel, stride, dilation, pad;
  template <class Attrs>
  Geometry(const Shape& input, const Shape& output, const Attrs& a)
      : in(to_triple(input, 1, 2)),
        out(to_triple(output, 1, 2)),
        kernel(to_triple(a.kernel, 1)),
        stride(to_triple(a.strides, 1)),
        dilation(to_triple(a.dilations, 1)),
        pad(to_triple(a.pads_begin, 0)) {}
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
};

class NodeRunner {
 public:
  NodeRunner(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs, ThreadPool& pool,
             WorkMeter* meter = nullptr)
      : graph_(graph),
        node_(node),
        inputs_(std::move(inputs)),
        pool_(pool),
        meter_(meter),
        dtype_(graph.value(node.output).dtype) {
    out_.shape = graph.value(node.output).shape;
    out_.data.resize(static_cast<size_t>(element_count(out_.shape)));
  }

  HostTensor run() {
    if (node_.op == Op::kMatMul) return permuted_product();
    const int64_t in_block = node_.op == Op::kConv ? node_.as<ConvAttrs>().block_in : pool_block();
    const int64_t out_block = node_.op == Op::kConv ? node_.as<ConvAttrs>().block_out : pool_block();
    if (in_block == 1 && out_block == 1) return run_plain();
    HostTensor x = unblocked(in(0), in_block);
    inputs_[0] = &x;
    out_.shape = plain_channels(out_.shape, out_block);
    return blocked(run_plain(), out_block);
  }

 private:
  // body(i) for all i, by all threads. `share`: of the node's arithmetic, what all of them compute.
  void in_parallel(int64_t n, double share, const std::function<void(int64_t i)>& body) {
    const double flops = meter_ != nullptr && n > 0 ? share * node_flops(graph_, node_) / static_cast<double>(n) : 0;
    pool_.parallel_for(n, [&](int64_t i, int) {
      body(i);
      if (meter_ != nullptr) meter_->add(flops);
    });
  }

  int64_t pool_block() const {
    return node_.op == Op::kMaxPool || node_.op == Op::kAveragePool ? node_.as<PoolAttrs>().block : 1;
  }
  static HostTensor permuted(const HostTensor& x, const std::vector<int64_t>& perm) {
    if (perm.empty()) return x;
    const std::vector<int64_t> dense = dense_strides(x.shape);
    std::vector<int64_t> strides;
    HostTensor y;
    for (int64_t axis : perm) {
      y.shape.push_back(x.shape[static_cast<size_t>(axis)]);
      strides.push_back(dense[static_cast<size_t>(axis)]);
    }
    y.data.resize(x.data.size());
    read_strided(x, 0, strides, y);
    return y;
  }
  HostTensor permuted_product() {
    const auto& a = node_.as<MatMulAttrs>();
    HostTensor left = permuted(in(0), a.perm_a), right = permuted(in(1), a.perm_b);
    inputs_ = {&left, &right};
    if (!a.perm_out.empty()) {
      Shape plain(out_.shape.size());
      for (size_t i = 0; i < plain.size(); ++i) plain[static_cast<size_t>(a.perm_out[i])] = out_.shape[i];
      out_.shape = plain;
    }
    matmul();
    return permuted(out_, a.perm_out);
  }
  // N,C/b,...,b as N,C,... and back.
  static HostTensor unblocked(const HostTensor& x, int64_t block) {
    if (block == 1) return x;
    std::vector<int64_t> perm{0, 1, static_cast<int64_t>(x.shape.size()) - 1};
    for (size_t i = 2; i + 1 < x.shape.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    HostTensor y = permuted(x, perm);
    y.shape = plain_channels(x.shape, block);
    return y;
  }
  static HostTensor blocked(HostTensor x, int64_t block) {
    if (block == 1) return x;
    Shape split{x.shape[0], x.shape[1] / block, block};
    split.insert(split.end(), x.shape.begin() + 2, x.shape.end());
    x.shape = split;
    std::vector<int64_t> perm{0, 1};
    for (size_t i = 3; i < split.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    perm.push_back(2);
    return permuted(x, perm);
  }

  HostTensor run_plain() {
    switch (node_.op) {
      case Op::kConv:
        conv();
        break;
      case Op::kGemm:
        gemm();
        break;
      case Op::kMatMul:
        matmul();
        break;
      case Op::kMaxPool:
      case Op::kAveragePool:
        pool();
        break;
      case Op::kLrn:
        lrn();
        break;
      case Op::kReduceMean:
      case Op::kReduceMax:
      case Op::kReduceSum:
      case Op::kReduceMin:
      case Op::kReduceProd:
        reduce();
        break;
      case Op::kSoftmax:
        softmax();
        break;
      case Op::kBatchNorm:
        batch_norm();
        break;
      case Op::kRelu:
        unary([](double x) { return x > 0 || std::isnan(x) ? x : 0.0; });
        break;
      case Op::kLeakyRelu:
        unary([a = node_.as<LeakyAttrs>().alpha](double x) { return x < 0 ? a * x : x; });
        break;
      case Op::kClip:
        unary(
            [a = node_.as<ClipAttrs>()](double x) { return std::isnan(x) ? x : std::min(std::max(x, a.min), a.max); });
        break;
      case Op::kSigmoid:
        unary([](double x) { return 1 / (1 + std::exp(-x)); });
        break;
      case Op::kTanh:
        unary([](double x) { return std::tanh(x); });
        break;
      case Op::kAdd:
        binary([](double x, double y) { return x + y; });
        break;
      case Op::kSub:
        binary([](double x, double y) { return x - y; });
        break;
      case Op::kMul:
        binary([](double x, double y) { return x * y; });
        break;
      case Op::kDiv:
        binary([](double x, double y) { return x / y; });
        break;
      case Op::kReshape:
      case Op::kIdentity:
        out_.data = in(0).data;
        break;
      case Op::kTranspose:
        out_ = permuted(in(0), node_.as<TransposeAttrs>().perm);
        break;
      case Op::kConcat:
        concat();
        break;
      case Op::kPad:
        pad();
        break;
      default:
        run_element_operator(graph_, node_, inputs_, out_);
        break;
    }
    return std::move(out_);
  }

  const HostTensor& in(size_t i) const { return *inputs_[i]; }

  void conv() {
    const auto& a = node_.as<ConvAttrs>();
    Geometry g(in(0).shape, out_.shape, a);
    int64_t channels = in(0).shape[1], filters = out_.shape[1];
    int64_t per_group_in = channels / a.group, per_group_out = filters / a.group;
    in_parallel(out_.shape[0] * filters, 1, [&](int64_t plane) {
      int64_t n = plane / filters, m = plane % filters;
      double* out = out_.data.data() + plane * g.out_size();
      if (a.winograd > 0) {
        const double* bias = inputs_.size() == 3 ? in(2).data.data() : nullptr;
        return run_winograd(a, in(0).shape, out_.shape, {in(0).data.data(), in(1).data.data(), bias}, plane, out);
      }
      std::fill(out, out + g.out_size(), inputs_.size() == 3 ? in(2).data[static_cast<size_t>(m)] : 0.0);
      for (int64_t c = 0; c < per_group_in; ++c) {
        const double* x = in(0).data.data() + (n * channels + m / per_group_out * per_group_in + c) * g.in_size();
        const double* w = in(1).data.data() + (m * per_group_in + c) * g.kernel_size();
        for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
          for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
            for (int64_t kw = 0; kw < g.kernel[2]; ++kw) add_tap(g, {kd, kh, kw}, *w++, x, out);
          }
        }
      }
    });
  }

  // out += weight * (x shifted by the tap), over the output positions whose tap is inside the input.
  static void add_tap(const Geometry& g, const Triple& tap, double weight, const double* x, double* out) {
    Triple shift, first, last;  // input position = output * stride + shift; outputs first .. last - 1 are inside
    for (size_t i = 0; i < 3; ++i) {
      shift[i] = tap[i] * g.dilation[i] - g.pad[i];
      first[i] = shift[i] >= 0 ? 0 : (-shift[i] + g.stride[i] - 1) / g.stride[i];
      int64_t room = g.in[i] - shift[i];
      last[i] = room <= 0 ? 0 : std::min(g.out[i], (room + g.stride[i] - 1) / g.stride[i]);
    }
    for (int64_t d = first[0]; d < last[0]; ++d) {
      for (int64_t h = first[1]; h < last[1]; ++h) {
        const double* from =
            x + ((d * g.stride[0] + shift[0]) * g.in[1] + h * g.stride[1] + shift[1]) * g.in[2] + shift[2];
        double* to = out + (d * g.out[1] + h) * g.out[2];
        for (int64_t w = first[2]; w < last[2]; ++w) to[w] += weight * from[w * g.stride[2]];
      }
    }
  }

  void pool() {
    const auto& a = node_.as<PoolAttrs>();
    Geometry g(in(0).shape, out_.shape, a);
    Triple pad_end = to_triple(a.pads_end, 0);
    bool average = node_.op == Op::kAveragePool;
    in_parallel(out_.shape[0] * out_.shape[1], 1, [&](int64_t plane) {
      const double* x = in(0).data.data() + plane * g.in_size();
      double* out = out_.data.data() + plane * g.out_size();
      IndexWalk at({g.out[0], g.out[1], g.out[2]});
      for (int64_t o = 0; o < g.out_size(); ++o, at.next()) {
        double sum = 0, greatest = -std::numeric_limits<double>::infinity();
        int64_t inside = 0, padded = 0;
        IndexWalk tap({g.kernel[0], g.kernel[1], g.kernel[2]});
        for (int64_t k = 0; k < g.kernel_size(); ++k, tap.next()) {
          Triple p;
          bool in_input = true, in_padded = true;
          for (size_t i = 0; i < 3; ++i) {
            p[i] = at.index()[i] * g.stride[i] + tap.index()[i] * g.dilation[i] - g.pad[i];
            in_input = in_input && p[i] >= 0 && p[i] < g.in[i];
            in_padded = in_padded && p[i] < g.in[i] + pad_end[i];
          }
          padded += in_padded;
          if (!in_input) continue;
          double v = x[(p[0] * g.in[1] + p[1]) * g.in[2] + p[2]];
          sum += v;
          greatest = std::isnan(v) ? v : std::max(greatest, v);
          ++inside;
        }
        out[o] = average ? sum / static_cast<double>(a.count_include_pad ? padded : inside) : greatest;
      }
    });
  }

  void gemm() {
    const auto& a = node_.as<GemmAttrs>();
    int64_t rows = out_.shape[0], columns = out_.shape[1];
    int64_t depth = in(0).shape[a.trans_a ? 0 : 1];
    product(in(0).data.data(), a.trans_a ? 1 : depth, a.trans_a ? rows : 1, in(1).data.data(), a.trans_b ? 1 : columns,
            a.trans_b ? depth : 1, rows, columns, depth, out_.data.data());
    std::vector<int64_t> strides(2, 0);
    if (inputs_.size() == 3) strides = broadcast_strides(in(2).shape, out_.shape);
    IndexWalk walk(out_.shape);
    for (double& y : out_.data) {
      y = a.alpha * y + (inputs_.size() == 3 ? a.beta * in(2).data[static_cast<size_t>(walk.offset(strides))] : 0.0);
      walk.next();
    }
  }

  // c = a * b; strides in elements: a(m, k) = a[m * am + k * ak], b(k, n) = b[k * bk + n * bn]; c is dense.
  void product(const double* a, int64_t am, int64_t ak, const double* b, int64_t bk, int64_t bn, int64_t rows,
               int64_t columns, int64_t depth, double* c) {
    constexpr int64_t kBlock = 64;
    int64_t blocks = (columns + kBlock - 1) / kBlock;
    const double share =
        static_cast<double>(rows * columns) / static_cast<double>(std::max<size_t>(out_.data.size(), 1));
    in_parallel(rows * blocks, share, [&](int64_t i) {
      int64_t m = i / blocks, n0 = i % blocks * kBlock, n1 = std::min(columns, n0 + kBlock);
      std::array<double, kBlock> sum{};
      for (int64_t k = 0; k < depth; ++k) {
        double x = a[m * am + k * ak];
        const double* y = b + k * bk + n0 * bn;
        for (int64_t n = 0; n < n1 - n0; ++n) sum[static_cast<size_t>(n)] += x * y[n * bn];
      }
      std::copy(sum.begin(), sum.begin() + (n1 - n0), c + m * columns + n0);
    });
  }

  void matmul() {
    Shape a = in(0).shape, b = in(1).shape, out = out_.shape;
    if (a.size() == 1) {
      a.insert(a.begin(), 1);
      out.insert(out.end() - (b.size() == 1 ? 0 : 1), 1);
    }
    if (b.size() == 1) {
      b.push_back(1);
      out.push_back(1);
    }
    int64_t rows = a[a.size() - 2], depth = a.back(), columns = b.back();
    Shape batch(out.begin(), out.end() - 2);
    auto sa = broadcast_strides(Shape(a.begin(), a.end() - 2), batch);
    auto sb = broadcast_strides(Shape(b.begin(), b.end() - 2), batch);
    IndexWalk walk(batch);
    for (int64_t i = 0; i < element_count(batch); ++i, walk.next()) {
      product(in(0).data.data() + walk.offset(sa) * rows * depth, depth, 1,
              in(1).data.data() + walk.offset(sb) * depth * columns, columns, 1, rows, columns, depth,
              out_.data.data() + i * rows * columns);
    }
  }

  void lrn() {
    const auto& a = node_.as<LrnAttrs>();
    int64_t channels = out_.shape[1];
    int64_t inner = element_count(Shape(out_.shape.begin() + 2, out_.shape.end()));
    in_parallel(out_.shape[0] * channels, 1, [&](int64_t plane) {
      int64_t c = plane % channels, base = (plane - c) * inner;
      int64_t low = std::max<int64_t>(0, c - (a.size - 1) / 2), high = std::min(channels - 1, c + a.size / 2);
      for (int64_t i = 0; i < inner; ++i) {
        double squares = 0;
        for (int64_t k = low; k <= high; ++k) {
          double v = in(0).data[static_cast<size_t>(base + k * inner + i)];
          squares += v * v;
        }
        auto at = static_cast<size_t>(plane * inner + i);
        out_.data[at] = in(0).data[at] / std::pow(a.bias + a.alpha / static_cast<double>(a.size) * squares, a.beta);
      }
    });
  }

  static double first_of(Op op) {
    if (op == Op::kReduceMax) return -std::numeric_limits<double>::infinity();
    if (op == Op::kReduceMin) return std::numeric_limits<double>::infinity();
    return op == Op::kReduceProd ? 1 : 0;
  }
  static double next_of(Op op, double y, double x) {
    if (op == Op::kReduceMax) return apply_binary(BinaryFn::kMax, y, x);
    if (op == Op::kReduceMin) return apply_binary(BinaryFn::kMin, y, x);
    return op == Op::kReduceProd ? y * x : y + x;
  }

  void reduce() {
    const auto& a = node_.as<ReduceAttrs>();
    // Strides that send each input index to its output element.
    Shape kept = in(0).shape;
    for (int64_t axis : a.axes) kept[static_cast<size_t>(axis)] = 1;
    auto strides = broadcast_strides(kept, in(0).shape);
    std::fill(out_.data.begin(), out_.data.end(), first_of(node_.op));
    IndexWalk walk(in(0).shape);
    for (double x : in(0).data) {
      double& y = out_.data[static_cast<size_t>(walk.offset(strides))];
      y = next_of(node_.op, y, x);
      walk.next();
    }
    if (!is_float(dtype_)) {
      for (double& y : out_.data) y = wrap_integer(y, dtype_);
    }
    if (node_.op == Op::kReduceMean) {
      double count = static_cast<double>(in(0).data.size()) / static_cast<double>(out_.data.size());
      for (double& y : out_.data) y /= count;
    }
  }

  void softmax() {
    auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
    int64_t extent = out_.shape[axis];
    int64_t inner = element_count(Shape(out_.shape.begin() + static_cast<int64_t>(axis) + 1, out_.shape.end()));
    int64_t rows = extent == 0 ? 0 : static_cast<int64_t>(out_.data.size()) / extent;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t base = row / inner * extent * inner + row % inner;
      double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < extent; ++i)
        greatest = std::max(greatest, in(0).data[static_cast<size_t>(base + i * inner)]);
      for (int64_t i = 0; i < extent; ++i) {
        auto at = static_cast<size_t>(base + i * inner);
        sum += out_.data[at] = std::exp(in(0).data[at] - greatest);
      }
      for (int64_t i = 0; i < extent; ++i) out_.data[static_cast<size_t>(base + i * inner)] /= sum;
    }
  }

  void batch_norm() {
    double epsilon = node_.as<BatchNormAttrs>().epsilon;
    int64_t channels = out_.shape[1];
    int64_t inner = element_count(Shape(out_.shape.begin() + 2, out_.shape.end()));
    for (size_t i = 0; i < out_.data.size(); ++i) {
      auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
      out_.data[i] =
          (in(0).data[i] - in(3).data[c]) / std::sqrt(in(4).data[c] + epsilon) * in(1).data[c] + in(2).data[c];
    }
  }

  template <class F>
  void unary(F f) {
    for (size_t i = 0; i < out_.data.size(); ++i) out_.data[i] = f(in(0).data[i]);
  }

  template <class F>
  void binary(F f) {
    const bool wraps = !is_float(dtype_);
    combine(in(0), in(1), out_, [&](double x, double y) { return wraps ? wrap_integer(f(x, y), dtype_) : f(x, y); });
  }

  void concat() {
    auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
    int64_t outer = element_count(Shape(out_.shape.begin(), out_.shape.begin() + static_cast<int64_t>(axis)));
    if (out_.data.empty()) return;
    int64_t row = static_cast<int64_t>(out_.data.size()) / outer, at = 0;
    for (const HostTensor* input : inputs_) {
      int64_t part = static_cast<int64_t>(input->data.size()) / outer;
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(input->data.begin() + o * part, part, out_.data.begin() + o * row + at);
      }
      at += part;
    }
  }

  void pad() {
    const auto& a = node_.as<PadAttrs>();
    std::fill(out_.data.begin(), out_.data.end(), a.value);
    const std::vector<int64_t> strides = dense_strides(out_.shape);
    int64_t base = 0;
    for (size_t i = 0; i < strides.size(); ++i) base += a.begin[i] * strides[i];
    IndexWalk walk(in(0).shape);
    for (double x : in(0).data) {
      out_.data[static_cast<size_t>(base + walk.offset(strides))] = x;
      walk.next();
    }
  }

  const Graph& graph_;
  const Node& node_;
  std::vector<const HostTensor*> inputs_;
  ThreadPool& pool_;
  WorkMeter* meter_;
  DType dtype_;
  HostTensor out_;
};

class ReferenceEvaluator : public Evaluator {
 public:
  Result<Constant> evaluate(const Graph& graph, const Node& node) override {
    std::vector<HostTensor> inputs;
    std::vector<const HostTensor*> pointers;
    for (ValueId id : node.inputs) inputs.push_back(host_constant(graph.value(id)));
    for (const HostTensor& input : inputs) pointers.push_back(&input);
    HostTensor result = NodeRunner(graph, node, pointers, pool_).run();
    return make_constant_from_doubles(graph.value(node.output).dtype, result.data);
  }

 private:
  ThreadPool pool_{1};
};

}  // namespace

HostTensor host_constant(const Value& value) {
  return {value.shape, constant_doubles(*value.constant, value.dtype, value.elements())};
}

std::unique_ptr<Evaluator> reference_evaluator() {
  return std::make_unique<ReferenceEvaluator>();
}

HostTensor random_tensor(const Value& value, uint64_t seed) {
  Rng rng(seed);
  HostTensor tensor{value.shape, std::vector<double>(static_cast<size_t>(value.elements()))};
  for (double& x : tensor.data) {
    if (value.dtype == DType::kBool) {
      x = static_cast<double>(rng.below(2));
    } else {
      // Rounded to float, so that the compiled model starts from the same numbers.
      x = is_float(value.dtype) ? static_cast<float>(rng.normal()) : static_cast<double>(rng.below(8));
    }
  }
  return tensor;
}

Result<void> check_inputs(const Graph& graph, const std::vector<HostTensor>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return input_error("the model takes {} inputs, {} were given", graph.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (inputs[i].shape != value.shape || static_cast<int64_t>(inputs[i].data.size()) != value.elements()) {
      return input_error("input '{}' must have shape {}, got {}", sanitize(value.name), shape_text(value.shape),
                         shape_text(inputs[i].shape));
    }
  }
  return {};
}

HostTensor run_node(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs, ThreadPool& pool,
                    WorkMeter* meter) {
  return NodeRunner(graph, node, std::move(inputs), pool, meter).run();
}

Result<std::vector<HostTensor>> run_reference(const Graph& graph, const std::vector<HostTensor>& inputs, int threads) {
  TCC_TRY_VOID(check_inputs(graph, inputs));
  ThreadPool pool(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  return run_in_order<HostTensor>(graph, inputs, host_constant,
                                  [&](const Node& node, const std::vector<const HostTensor*>& operands) {
                                    return run_node(graph, node, operands, pool);
                                  });
}

}  // namespace tcc::graph
