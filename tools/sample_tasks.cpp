#include "sample_tasks.h"

#include "tcc/support/check.h"

namespace tcc::task {
namespace {

using graph::Graph;
using graph::Op;
using graph::ValueId;

class Sample {
 public:
  explicit Sample(graph::DType dtype = graph::DType::kF32) : dtype_(dtype) {}
  ValueId input(graph::Shape shape) { return graph_.add_input("input", dtype_, std::move(shape)); }
  ValueId weight(graph::Shape shape) {
    return graph_.add_constant("weight", dtype_, std::move(shape), graph::make_splat(dtype_, 1));
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = graph_.add_node(op, std::move(attrs), std::move(inputs), "node");
    TCC_CHECK(id.has_value(), "{}: {}", graph::op_name(op), id ? "" : id.error().message);
    return *id;
  }
  const graph::Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  Task finish(ValueId result) {
    graph_.add_output(result, "output");
    auto groups = graph::fuse(graph_, {.attention = true});
    TCC_CHECK(groups.size() == 1, "the sample makes {} groups", groups.size());
    auto task = make_task(graph_, groups[0]);
    TCC_CHECK(task.has_value(), "{}", task ? "" : task.error().message);
    return std::move(*task);
  }

 private:
  graph::DType dtype_;
  Graph graph_;
};

std::vector<int64_t> filled(const std::vector<int64_t>& v, size_t count, int64_t value) {
  return v.empty() ? std::vector<int64_t>(count, value) : v;
}

}  // namespace

Task make_gemm(const GemmParams& p) {
  Sample s(p.dtype);
  ValueId a = s.input(p.trans_a ? graph::Shape{p.k, p.m} : graph::Shape{p.m, p.k});
  graph::Shape b_shape = p.trans_b ? graph::Shape{p.n, p.k} : graph::Shape{p.k, p.n};
  std::vector<ValueId> inputs{a, p.constant_weights ? s.weight(b_shape) : s.input(b_shape)};
  if (p.bias) inputs.push_back(s.weight({p.n}));
  ValueId y = s.node(Op::kGemm, graph::GemmAttrs{1, 1, p.trans_a, p.trans_b}, inputs);
  return s.finish(p.relu ? s.node(Op::kRelu, graph::NoAttrs{}, {y}) : y);
}

Task make_conv(const ConvParams& p) {
  Sample s(p.dtype);
  size_t axes = p.size.size();
  graph::ConvAttrs attrs{p.kernel,
                         filled(p.strides, axes, 1),
                         filled(p.dilations, axes, 1),
                         filled(p.pads, axes, 0),
                         filled(p.pads, axes, 0),
                         p.group,
                         p.block_in,
                         p.block_out};
  graph::Shape x_shape{p.batch, p.channels / p.block_in}, w_shape{p.filters, p.channels / p.group};
  x_shape.insert(x_shape.end(), p.size.begin(), p.size.end());
  if (p.block_in > 1) x_shape.push_back(p.block_in);
  w_shape.insert(w_shape.end(), p.kernel.begin(), p.kernel.end());
  std::vector<ValueId> inputs{s.input(x_shape), s.weight(w_shape)};
  if (p.bias) inputs.push_back(s.weight({p.filters}));
  ValueId y = s.node(Op::kConv, attrs, inputs);
  if (p.residual) y = s.node(Op::kAdd, graph::NoAttrs{}, {y, s.input(s.shape(y))});
  return s.finish(p.relu ? s.node(Op::kRelu, graph::NoAttrs{}, {y}) : y);
}

Task make_pool(const PoolParams& p) {
  Sample s;
  size_t axes = p.size.size();
  graph::Shape shape{p.batch, p.channels};
  shape.insert(shape.end(), p.size.begin(), p.size.end());
  graph::PoolAttrs attrs{p.kernel,
                         filled(p.strides, axes, 1),
                         std::vector<int64_t>(axes, 1),
                         filled(p.pads, axes, 0),
                         filled(p.pads, axes, 0),
                         p.ceil_mode,
                         p.count_include_pad};
  return s.finish(s.node(p.average ? Op::kAveragePool : Op::kMaxPool, attrs, {s.input(shape)}));
}

Task make_softmax(const graph::Shape& shape, int64_t axis) {
  Sample s;
  return s.finish(s.node(Op::kSoftmax, graph::AxisAttrs{axis}, {s.input(shape)}));
}

Task make_attention(const AttentionParams& p) {
  Sample s(p.dtype);
  const int64_t width = p.width > 0 ? p.width : p.depth;
  auto stored = [&](int64_t tokens, int64_t size) {
    return p.heads_first ? graph::Shape{p.batch, p.heads, tokens, size} : graph::Shape{p.batch, tokens, p.heads, size};
  };
  using Perm = std::vector<int64_t>;
  const Perm plain = p.heads_first ? Perm{} : Perm{0, 2, 1, 3};
  const Perm key = p.heads_first ? Perm{0, 1, 3, 2} : Perm{0, 2, 3, 1};
  ValueId q = s.input(stored(p.queries, p.depth)), k = s.input(stored(p.keys, p.depth)),
          v = s.input(stored(p.keys, width));
  ValueId y = s.node(Op::kMatMul, graph::MatMulAttrs{plain, key, {}}, {q, k});
  y = s.node(Op::kMul, graph::NoAttrs{}, {y, s.weight({})});
  if (p.mask) y = s.node(Op::kAdd, graph::NoAttrs{}, {y, s.input({p.batch, 1, 1, p.keys})});
  y = s.node(Op::kSoftmax, graph::AxisAttrs{3}, {y});
  return s.finish(s.node(Op::kMatMul, graph::MatMulAttrs{{}, plain, plain}, {y, v}));
}

Task make_reduction(const graph::Shape& shape, const std::vector<int64_t>& axes, graph::Op op) {
  Sample s;
  return s.finish(s.node(op, graph::ReduceAttrs{axes, false}, {s.input(shape)}));
}

Task make_elementwise(const graph::Shape& shape) {
  Sample s;
  graph::Shape channel(shape.size(), 1);
  if (shape.size() >= 2) channel[1] = shape[1];
  ValueId scaled = s.node(Op::kMul, graph::NoAttrs{}, {s.input(shape), s.weight(channel)});
  ValueId sum = s.node(Op::kAdd, graph::NoAttrs{}, {scaled, s.input(shape)});
  return s.finish(s.node(Op::kRelu, graph::NoAttrs{}, {sum}));
}

}  // namespace tcc::task
