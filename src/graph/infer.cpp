// The types that each operator accepts and gives. Every attribute domain is checked here, once: later stages never
// meet a stride of zero or a group that does not divide.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "passes_internal.h"
#include "tcc/graph/refusal.h"
#include "tcc/graph/winograd.h"
#include "tcc/support/check.h"

namespace tcc::graph {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 20;  // kernels, strides, dilations and pads beyond this are nonsense

struct Window {
  const std::vector<int64_t>&kernel, &strides, &dilations, &pads_begin, &pads_end;
  bool ceil_mode;
};

Result<void> check_window(const Window& w, size_t spatial) {
  if (spatial > 3) return refuse(Refusal::kTooLarge, "has {} spatial axes; at most 3 are supported", spatial);
  auto check = [&](const std::vector<int64_t>& v, const char* what, int64_t least) -> Result<void> {
    if (v.size() != spatial) {
      return input_error("{} has {} entries, the input has {} spatial axes", what, v.size(), spatial);
    }
    for (int64_t x : v) {
      if (x < least || x > kMaxWindow)
        return input_error("{} [{}] must be at least {}", what, fmt::join(v, ", "), least);
    }
    return {};
  };
  TCC_TRY_VOID(check(w.kernel, "kernel_shape", 1));
  TCC_TRY_VOID(check(w.strides, "strides", 1));
  TCC_TRY_VOID(check(w.dilations, "dilations", 1));
  TCC_TRY_VOID(check(w.pads_begin, "pads", 0));
  TCC_TRY_VOID(check(w.pads_end, "pads", 0));
  return {};
}

Result<void> append_window_extents(const Window& w, const Shape& input, Shape& output) {
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t padded = input[i + 2] + w.pads_begin[i] + w.pads_end[i];
    if (reach > padded) {
      return input_error("the window of {} along spatial axis {} is larger than the padded input of {}", reach, i,
                         padded);
    }
    int64_t extent = (padded - reach) / w.strides[i] + 1;
    if (w.ceil_mode && (padded - reach) % w.strides[i] != 0) {
      // One more window, if it starts inside the input or its leading padding.
      if (extent * w.strides[i] < input[i + 2] + w.pads_begin[i]) ++extent;
    }
    output.push_back(extent);
  }
  return {};
}

}  // namespace

Shape plain_channels(const Shape& blocked, int64_t block) {
  if (block == 1) return blocked;
  Shape plain(blocked.begin(), blocked.end() - 1);
  plain[1] *= block;
  return plain;
}

Shape blocked_channels(const Shape& plain, int64_t block) {
  if (block == 1) return plain;
  Shape blocked = plain;
  blocked[1] /= block;
  blocked.push_back(block);
  return blocked;
}

namespace {

bool is_permutation(const std::vector<int64_t>& perm, size_t rank) {
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = perm.size() == rank;
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int64_t>(i);
  return valid;
}

class Inference {
 public:
  Inference(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  Result<TensorType> run() {
    switch (node_.op) {
      case Op::kConv:
        return conv();
      case Op::kGemm:
        return gemm();
      case Op::kMatMul:
        return matmul();
      case Op::kMaxPool:
      case Op::kAveragePool:
        return pool();
      case Op::kLrn:
        return lrn();
      case Op::kReduceMean:
      case Op::kReduceMax:
      case Op::kReduceSum:
      case Op::kReduceMin:
      case Op::kReduceProd:
        return reduce();
      case Op::kSoftmax:
        return softmax();
      case Op::kBatchNorm:
        return batch_norm();
      case Op::kRelu:
        TCC_TRY_VOID(need_arithmetic());
        return same();
      case Op::kSigmoid:
      case Op::kTanh:
        return float_unary();
      case Op::kLeakyRelu:
        if (!std::isfinite(node_.as<LeakyAttrs>().alpha)) return input_error("alpha must be finite");
        return float_unary();
      case Op::kClip:
        if (!(node_.as<ClipAttrs>().min <= node_.as<ClipAttrs>().max)) {
          return input_error("min {} is above max {}", node_.as<ClipAttrs>().min, node_.as<ClipAttrs>().max);
        }
        TCC_TRY_VOID(need_arithmetic());
        return same();
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kDiv:
        return binary();
      case Op::kReshape:
        return reshape();
      case Op::kIdentity:
        return same();
      case Op::kTranspose:
        return transpose();
      case Op::kConcat:
        return concat();
      case Op::kPad:
        return pad();
      default:
        return infer_element_operator(graph_, node_);
    }
  }

 private:
  const Value& in(size_t i) const { return graph_.value(node_.inputs[i]); }
  const Shape& shape(size_t i) const { return in(i).shape; }
  Result<TensorType> done(Shape s) const { return TensorType{in(0).dtype, std::move(s)}; }
  Result<TensorType> same() const { return done(shape(0)); }

  Result<void> need_float() const {
    if (is_float(in(0).dtype)) return {};
    return refuse(Refusal::kElementType, "needs floating-point input, got {}", dtype_name(in(0).dtype));
  }
  Result<void> need_arithmetic() const {
    if (in(0).dtype != DType::kBool && !is_wide_unsigned(in(0).dtype)) return {};
    return refuse(Refusal::kElementType, "does not take {}", dtype_name(in(0).dtype));
  }
  Result<void> need_one_type() const {
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      if (in(i).dtype != in(0).dtype) {
        return input_error("inputs have different types: {} and {}", dtype_name(in(0).dtype), dtype_name(in(i).dtype));
      }
    }
    return {};
  }
  Result<void> need_channels(size_t i, int64_t channels, const char* what) const {
    if (shape(i) == Shape{channels}) return {};
    return input_error("{} must have shape {}, got {}", what, channels, shape_text(shape(i)));
  }
  // Reductions, windows and contractions over nothing have no defined or no useful result.
  Result<void> need_elements(size_t i) const {
    if (in(i).elements() > 0) return {};
    return refuse(Refusal::kNoElements, "input {} of shape {} has no elements", i, shape_text(shape(i)));
  }

  Result<TensorType> float_unary() const {
    TCC_TRY_VOID(need_float());
    return same();
  }

  Result<TensorType> conv() const {
    const auto& a = node_.as<ConvAttrs>();
    TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_one_type());
    TCC_TRY_VOID(need_block(a.block_in));
    TCC_TRY_VOID(need_elements(0));
    if (a.winograd != 0) return winograd_conv(a);
    const Shape input = plain_channels(shape(0), a.block_in);
    if (input.size() < 3 || shape(1).size() != input.size()) {
      return input_error("needs input and weight of one rank of at least 3, got {} and {}", shape_text(input),
                         shape_text(shape(1)));
    }
    TCC_TRY_VOID(need_elements(1));
    Window window{a.kernel, a.strides, a.dilations, a.pads_begin, a.pads_end, false};
    TCC_TRY_VOID(check_window(window, input.size() - 2));
    int64_t channels = input[1], filters = shape(1)[0];
    if (a.group < 1 || channels % a.group != 0 || filters % a.group != 0) {
      return input_error("group {} must divide the {} input and {} output channels", a.group, channels, filters);
    }
    if (shape(1)[1] != channels / a.group) {
      return input_error("weight {} does not fit input {} with group {}: its second extent must be {}",
                         shape_text(shape(1)), shape_text(input), a.group, channels / a.group);
    }
    if (!std::equal(a.kernel.begin(), a.kernel.end(), shape(1).begin() + 2)) {
      return input_error("kernel_shape [{}] differs from weight {}", fmt::join(a.kernel, ", "), shape_text(shape(1)));
    }
    if (node_.inputs.size() == 3) TCC_TRY_VOID(need_channels(2, filters, "bias"));
    bool blocked = a.block_in > 1 || a.block_out > 1;
    bool depthwise = a.group > 1 && a.group == channels && a.group == filters && a.block_in == a.block_out;
    if (a.block_out < 1 || filters % a.block_out != 0 || (blocked && a.group > 1 && !depthwise)) {
      return input_error("{} channels in blocks of {} and {} in blocks of {} do not fit group {}", channels, a.block_in,
                         filters, a.block_out, a.group);
    }
    Shape out{input[0], filters};
    TCC_TRY_VOID(append_window_extents(window, input, out));
    return done(blocked_channels(out, a.block_out));
  }

  Result<TensorType> winograd_conv(const ConvAttrs& a) const {
    const Shape &input = shape(0), &weight = shape(1);
    if (!is_winograd_tile(a.winograd)) return input_error("winograd is {}, expected tiles of 2 or 4", a.winograd);
    auto all = [](const std::vector<int64_t>& v, int64_t x) { return v == std::vector<int64_t>{x, x}; };
    if (input.size() != 4 || !all(a.kernel, 3) || !all(a.strides, 1) || !all(a.dilations, 1) || a.group != 1 ||
        a.block_in != 1 || a.block_out != 1) {
      return input_error("winograd needs 3x3 over two axes, strides, dilations and group of 1, channels not blocked");
    }
    const int64_t side = a.winograd + 2;
    if (weight.size() != 3 || weight[0] != side * side || weight[2] != input[1] || weight[1] < 1) {
      return input_error("transformed weight {} does not fit input {} and tiles of {}", shape_text(weight),
                         shape_text(input), a.winograd);
    }
    Window window{a.kernel, a.strides, a.dilations, a.pads_begin, a.pads_end, false};
    TCC_TRY_VOID(check_window(window, 2));
    if (node_.inputs.size() == 3) TCC_TRY_VOID(need_channels(2, weight[1], "bias"));
    Shape out{input[0], weight[1]};
    TCC_TRY_VOID(append_window_extents(window, input, out));
    return done(out);
  }

  // A blocked tensor has its channels in axis 1 and in the last one.
  Result<void> need_block(int64_t block) const {
    if (block == 1 || (block > 1 && shape(0).size() > 3 && shape(0).back() == block)) return {};
    return input_error("input {} has no channels in blocks of {}", shape_text(shape(0)), block);
  }

  Result<TensorType> gemm() const {
    const auto& a = node_.as<GemmAttrs>();
    TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_one_type());
    if (shape(0).size() != 2 || shape(1).size() != 2) {
      return input_error("needs two matrices, got {} and {}", shape_text(shape(0)), shape_text(shape(1)));
    }
    TCC_TRY_VOID(need_elements(0));
    TCC_TRY_VOID(need_elements(1));
    if (!std::isfinite(a.alpha) || !std::isfinite(a.beta)) return input_error("alpha and beta must be finite");
    int64_t m = shape(0)[a.trans_a ? 1 : 0], k = shape(0)[a.trans_a ? 0 : 1];
    int64_t n = shape(1)[a.trans_b ? 0 : 1], k2 = shape(1)[a.trans_b ? 1 : 0];
    if (k != k2) {
      return input_error("inner extents differ: {} ({}transposed) and {} ({}transposed)", shape_text(shape(0)),
                         a.trans_a ? "" : "not ", shape_text(shape(1)), a.trans_b ? "" : "not ");
    }
    Shape out{m, n};
    if (node_.inputs.size() == 3 && broadcast_shapes(shape(2), out) != out) {
      return input_error("C of shape {} does not broadcast to {}", shape_text(shape(2)), shape_text(out));
    }
    return done(out);
  }

  Result<TensorType> matmul() const {
    TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_one_type());
    const auto& attrs = node_.as<MatMulAttrs>();
    TCC_TRY(Shape a, permuted(shape(0), attrs.perm_a));
    TCC_TRY(Shape b, permuted(shape(1), attrs.perm_b));
    if (a.empty() || b.empty()) return input_error("does not take scalars");
    TCC_TRY_VOID(need_elements(0));
    TCC_TRY_VOID(need_elements(1));
    bool vector_a = a.size() == 1, vector_b = b.size() == 1;
    if (vector_a) a.insert(a.begin(), 1);
    if (vector_b) b.push_back(1);
    auto batch = broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
    if (a.back() != b[b.size() - 2] || !batch) {
      return input_error("shapes {} and {} do not fit", shape_text(shape(0)), shape_text(shape(1)));
    }
    Shape out = *batch;
    if (!vector_a) out.push_back(a[a.size() - 2]);
    if (!vector_b) out.push_back(b.back());
    TCC_TRY(out, permuted(out, attrs.perm_out));
    return done(out);
  }

  Result<Shape> permuted(const Shape& s, const std::vector<int64_t>& perm) const {
    if (perm.empty()) return s;
    if (!is_permutation(perm, s.size()))
      return input_error("perm [{}] is not a permutation of {} axes", fmt::join(perm, ", "), s.size());
    Shape out;
    for (int64_t axis : perm) out.push_back(s[static_cast<size_t>(axis)]);
    return out;
  }

  Result<TensorType> pool() const {
    const auto& a = node_.as<PoolAttrs>();
    if (node_.op == Op::kAveragePool) TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_arithmetic());
    TCC_TRY_VOID(need_block(a.block));
    const Shape input = plain_channels(shape(0), a.block);
    if (input.size() < 3) return input_error("needs an input of rank 3 or more, got {}", shape_text(input));
    TCC_TRY_VOID(need_elements(0));
    Window window{a.kernel, a.strides, a.dilations, a.pads_begin, a.pads_end, a.ceil_mode};
    TCC_TRY_VOID(check_window(window, input.size() - 2));
    for (size_t i = 0; i < a.kernel.size(); ++i) {
      // A window of padding alone would have no maximum and an average of 0 / 0.
      int64_t reach = (a.kernel[i] - 1) * a.dilations[i] + 1;
      if (a.pads_begin[i] >= reach || a.pads_end[i] >= reach) {
        return refuse(Refusal::kAttribute, "pads ({}, {}) along spatial axis {} must be smaller than the window of {}",
                      a.pads_begin[i], a.pads_end[i], i, reach);
      }
    }
    Shape out{input[0], input[1]};
    TCC_TRY_VOID(append_window_extents(window, input, out));
    return done(blocked_channels(out, a.block));
  }

  Result<TensorType> lrn() const {
    const auto& a = node_.as<LrnAttrs>();
    TCC_TRY_VOID(need_float());
    if (shape(0).size() < 2) return input_error("needs an input of rank 2 or more, got {}", shape_text(shape(0)));
    if (a.size < 1 || a.size > kMaxWindow) return input_error("size {} must be at least 1", a.size);
    if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !std::isfinite(a.bias)) {
      return input_error("alpha, beta and bias must be finite");
    }
    return same();
  }

  Result<TensorType> reduce() const {
    const auto& a = node_.as<ReduceAttrs>();
    if (node_.op == Op::kReduceMean) TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_arithmetic());
    TCC_TRY_VOID(need_elements(0));
    Shape out;
    auto rank = static_cast<int64_t>(shape(0).size());
    for (size_t i = 0; i < a.axes.size(); ++i) {
      if (a.axes[i] < 0 || a.axes[i] >= rank || (i > 0 && a.axes[i] <= a.axes[i - 1])) {
        return input_error("axes [{}] are out of range or repeated for rank {}", fmt::join(a.axes, ", "), rank);
      }
    }
    for (int64_t i = 0; i < rank; ++i) {
      bool reduced = std::binary_search(a.axes.begin(), a.axes.end(), i);
      if (!reduced) out.push_back(shape(0)[static_cast<size_t>(i)]);
      if (reduced && a.keep_dims) out.push_back(1);
    }
    return done(out);
  }

  Result<TensorType> softmax() const {
    TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_axis(node_.as<AxisAttrs>().axis, shape(0)));
    return same();
  }

  Result<TensorType> batch_norm() const {
    TCC_TRY_VOID(need_float());
    TCC_TRY_VOID(need_one_type());
    if (shape(0).size() < 2) return input_error("needs an input of rank 2 or more, got {}", shape_text(shape(0)));
    double epsilon = node_.as<BatchNormAttrs>().epsilon;
    if (!(epsilon >= 0) || !std::isfinite(epsilon)) return input_error("epsilon {} must be finite and >= 0", epsilon);
    const char* names[] = {"", "scale", "bias", "mean", "variance"};
    for (size_t i = 1; i < 5; ++i) TCC_TRY_VOID(need_channels(i, shape(0)[1], names[i]));
    return same();
  }

  Result<TensorType> binary() const {
    TCC_TRY_VOID(need_one_type());
    TCC_TRY_VOID(need_arithmetic());
    auto out = broadcast_shapes(shape(0), shape(1));
    if (!out) return input_error("shapes {} and {} do not broadcast", shape_text(shape(0)), shape_text(shape(1)));
    return done(*out);
  }

  Result<TensorType> reshape() const {
    const Shape& target = node_.as<ReshapeAttrs>().shape;
    TCC_TRY_VOID(check_shape(target, "the new shape"));
    if (element_count(target) != in(0).elements()) {
      return input_error("cannot reshape {} to {}: the element counts differ", shape_text(shape(0)),
                         shape_text(target));
    }
    return done(target);
  }

  Result<TensorType> transpose() const {
    const auto& perm = node_.as<TransposeAttrs>().perm;
    if (!is_permutation(perm, shape(0).size()))
      return input_error("perm [{}] is not a permutation of {} axes", fmt::join(perm, ", "), shape(0).size());
    TCC_TRY(Shape out, permuted(shape(0), perm));
    return done(out);
  }

  Result<TensorType> concat() const {
    TCC_TRY_VOID(need_one_type());
    int64_t axis = node_.as<AxisAttrs>().axis;
    TCC_TRY_VOID(need_axis(axis, shape(0)));
    Shape out = shape(0);
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      Shape other = shape(i);
      bool fits = other.size() == out.size();
      for (size_t k = 0; fits && k < out.size(); ++k) fits = static_cast<int64_t>(k) == axis || other[k] == out[k];
      if (!fits) {
        return input_error("inputs {} and {} differ outside axis {}", shape_text(shape(0)), shape_text(other), axis);
      }
      out[static_cast<size_t>(axis)] += other[static_cast<size_t>(axis)];  // both at most kMaxElements
      TCC_TRY_VOID(check_shape(out, "the result"));
    }
    return done(out);
  }

  Result<TensorType> pad() const {
    const auto& a = node_.as<PadAttrs>();
    if (a.begin.size() != shape(0).size() || a.end.size() != shape(0).size()) {
      return input_error("pads have {} + {} entries for rank {}", a.begin.size(), a.end.size(), shape(0).size());
    }
    Shape out = shape(0);
    for (size_t i = 0; i < out.size(); ++i) {
      if (a.begin[i] < 0 || a.end[i] < 0) {
        return refuse(Refusal::kAttribute, "negative pads ({}, {}) on axis {} (cropping) are not supported", a.begin[i],
                      a.end[i], i);
      }
      if (a.begin[i] > kMaxElements || a.end[i] > kMaxElements) return input_error("pads on axis {} are too large", i);
      out[i] += a.begin[i] + a.end[i];
    }
    return done(out);
  }

  const Graph& graph_;
  const Node& node_;
};

template <class T>
bool holds(const Attributes& attrs) {
  return std::holds_alternative<T>(attrs);
}

}  // namespace

Result<TensorType> infer_type(const Graph& graph, const Node& node) {
  int64_t fewest = 0, most = 0;
  bool attributes_fit = false;
  switch (node.op) {
#define X(enumerator, text, attributes, cls, least, greatest) \
  case Op::enumerator:                                        \
    fewest = least;                                           \
    most = greatest;                                          \
    attributes_fit = holds<attributes>(node.attrs);           \
    break;
    TCC_GRAPH_OPS(X)
#undef X
  }
  TCC_CHECK(attributes_fit, "{} carries the wrong attributes", op_name(node.op));
  auto count = static_cast<int64_t>(node.inputs.size());
  if (count < fewest || (most >= 0 && count > most)) {
    return input_error("{} takes {} to {} inputs, got {}", op_name(node.op), fewest,
                       most < 0 ? "any number of" : std::to_string(most), count);
  }
  for (ValueId id : node.inputs) {
    TCC_CHECK(id >= 0 && id < static_cast<ValueId>(graph.values.size()));
  }
  TCC_TRY(TensorType type, Inference(graph, node).run());
  TCC_TRY_VOID(check_shape(type.shape, "the result"));
  return type;
}

}  // namespace tcc::graph
