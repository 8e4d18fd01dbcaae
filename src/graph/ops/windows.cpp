// Operators with sliding windows: convolutions, pools and the normalization over channels. The reference is written for
// three spatial axes; fewer are padded with leading axes of extent one.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "op.h"
#include "tcc/graph/winograd.h"

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
    const int64_t rest = padded - reach;
    // With ceil_mode the last window may end after the padding, the only one as well.
    if (rest < 0 && !(w.ceil_mode && -rest < w.strides[i])) {
      return input_error("the window of {} along spatial axis {} is larger than the padded input of {}", reach, i,
                         padded);
    }
    int64_t extent = rest < 0 ? 0 : rest / w.strides[i] + 1;
    if (w.ceil_mode && rest % w.strides[i] != 0) {
      // One more window, if it starts inside the input or its leading padding.
      if (extent * w.strides[i] < input[i + 2] + w.pads_begin[i]) ++extent;
    }
    output.push_back(extent);
  }
  return {};
}

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

// N,C/b,...,b as N,C,... and back.
HostTensor unblocked(const HostTensor& x, int64_t block) {
  if (block == 1) return x;
  std::vector<int64_t> perm{0, 1, static_cast<int64_t>(x.shape.size()) - 1};
  for (size_t i = 2; i + 1 < x.shape.size(); ++i) perm.push_back(static_cast<int64_t>(i));
  HostTensor y = permuted(x, perm);
  y.shape = plain_channels(x.shape, block);
  return y;
}

HostTensor blocked(HostTensor x, int64_t block) {
  if (block == 1) return x;
  Shape split{x.shape[0], x.shape[1] / block, block};
  split.insert(split.end(), x.shape.begin() + 2, x.shape.end());
  x.shape = split;
  std::vector<int64_t> perm{0, 1};
  for (size_t i = 3; i < split.size(); ++i) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(2);
  return permuted(x, perm);
}

// f on channels that are not in blocks: input 0 and the result change places for it.
template <class F>
void with_plain_channels(std::vector<const HostTensor*>& inputs, HostTensor& out, int64_t in_block, int64_t out_block,
                         F f) {
  if (in_block == 1 && out_block == 1) return f();
  HostTensor x = unblocked(*inputs[0], in_block);
  inputs[0] = &x;
  out.shape = plain_channels(out.shape, out_block);
  f();
  out = blocked(std::move(out), out_block);
}

// out += weight * (x shifted by the tap), over the output positions whose tap is inside the input.
void add_tap(const Geometry& g, const Triple& tap, double weight, const double* x, double* out) {
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

bool has_blocked_weight(const ConvAttrs& a, const Shape& weight) {
  return a.block_in > 1 && a.block_out > 1 && a.group == 1 && weight.size() == a.kernel.size() + 4;
}
Shape plain_weight(const ConvAttrs& a, const Shape& weight) {
  if (!has_blocked_weight(a, weight)) return weight;
  const size_t rank = weight.size();
  Shape plain{weight[0] * weight[rank - 1], weight[1] * weight[rank - 2]};
  plain.insert(plain.end(), weight.begin() + 2, weight.end() - 2);
  return plain;
}

// A blocked tensor has its channels in axis 1 and in the last one.
Result<void> Typing::need_block(int64_t block) const {
  if (block == 1 || (block > 1 && shape(0).size() > 3 && shape(0).back() == block)) return {};
  return input_error("input {} has no channels in blocks of {}", shape_text(shape(0)), block);
}

Result<void> Typing::need_channels(size_t i, int64_t channels, const char* what) const {
  if (shape(i) == Shape{channels}) return {};
  return input_error("{} must have shape {}, got {}", what, channels, shape_text(shape(i)));
}

Result<TensorType> Typing::conv() const {
  const auto& a = node_.as<ConvAttrs>();
  TCC_TRY_VOID(need_product_types());
  TCC_TRY_VOID(need_block(a.block_in));
  if (a.winograd != 0) return winograd_conv(a);
  const Shape input = plain_channels(shape(0), a.block_in);
  const Shape weight = plain_weight(a, shape(1));
  if (input.size() < 3 || weight.size() != input.size()) {
    return input_error("needs input and weight of one rank of at least 3, got {} and {}", shape_text(input),
                       shape_text(shape(1)));
  }
  if (has_blocked_weight(a, shape(1)) &&
      (shape(1).back() != a.block_out || shape(1)[shape(1).size() - 2] != a.block_in))
    return input_error("weight {} is not in blocks of {} and {}", shape_text(shape(1)), a.block_in, a.block_out);
  Window window{a.kernel, a.strides, a.dilations, a.pads_begin, a.pads_end, false};
  TCC_TRY_VOID(check_window(window, input.size() - 2));
  int64_t channels = input[1], filters = weight[0];
  if (a.group < 1 || channels % a.group != 0 || filters % a.group != 0) {
    return input_error("group {} must divide the {} input and {} output channels", a.group, channels, filters);
  }
  if (weight[1] != channels / a.group) {
    return input_error("weight {} does not fit input {} with group {}: its second extent must be {}",
                       shape_text(weight), shape_text(input), a.group, channels / a.group);
  }
  if (!std::equal(a.kernel.begin(), a.kernel.end(), weight.begin() + 2)) {
    return input_error("kernel_shape [{}] differs from weight {}", fmt::join(a.kernel, ", "), shape_text(weight));
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
  if (a.pad_value != 0 && (!is_byte(in(0).dtype) || wrap_integer(static_cast<double>(a.pad_value), in(0).dtype) !=
                                                        static_cast<double>(a.pad_value)))
    return input_error("pad_value {} is not a number of {}", a.pad_value, dtype_name(in(0).dtype));
  return summed(blocked_channels(out, a.block_out));
}

Result<TensorType> Typing::winograd_conv(const ConvAttrs& a) const {
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

Result<TensorType> Typing::pool() const {
  const auto& a = node_.as<PoolAttrs>();
  if (node_.op == Op::kAveragePool) TCC_TRY_VOID(need_float());
  TCC_TRY_VOID(need_arithmetic());
  TCC_TRY_VOID(need_block(a.block));
  const Shape input = plain_channels(shape(0), a.block);
  if (input.size() < 3) return input_error("needs an input of rank 3 or more, got {}", shape_text(input));
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

Result<TensorType> Typing::lrn() const {
  const auto& a = node_.as<LrnAttrs>();
  TCC_TRY_VOID(need_float());
  if (shape(0).size() < 2) return input_error("needs an input of rank 2 or more, got {}", shape_text(shape(0)));
  if (a.size < 1 || a.size > kMaxWindow) return input_error("size {} must be at least 1", a.size);
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !std::isfinite(a.bias)) {
    return input_error("alpha, beta and bias must be finite");
  }
  return same();
}

Result<TensorType> Typing::fold() const {
  const auto& a = node_.as<FoldAttrs>();
  const size_t axes = a.image.size();
  TCC_TRY_VOID(need_product_type());
  if (axes == 0 || shape(0).size() != 2 + 2 * axes || a.strides.size() != axes || a.dilations.size() != axes ||
      a.pads.size() != axes)
    return input_error("{} strides, {} dilations and {} pads of an image of {} axes do not fit blocks {}",
                       a.strides.size(), a.dilations.size(), a.pads.size(), axes, shape_text(shape(0)));
  for (const auto& [list, least] : {std::pair(&a.strides, 1), std::pair(&a.dilations, 1), std::pair(&a.pads, 0)})
    for (int64_t x : *list)
      if (x < least || x > kMaxWindow)
        return input_error("strides, dilations and pads [{}] must be {} to {}", fmt::join(*list, ", "), least,
                           kMaxWindow);
  Shape out{shape(0)[0], shape(0)[1]};
  out.insert(out.end(), a.image.begin(), a.image.end());
  return done(out);
}

void Runner::fold() {
  const auto& a = node_.as<FoldAttrs>();
  const size_t axes = a.image.size();
  const std::vector<int64_t> strides = dense_strides(out_.shape);
  IndexWalk walk(in(0).shape);
  for (const double x : in(0).data) {
    const std::vector<int64_t>& from = walk.index();
    int64_t at = from[0] * strides[0] + from[1] * strides[1];
    bool is_inside = true;
    for (size_t i = 0; i < axes; ++i) {
      const int64_t place = from[2 + axes + i] * a.strides[i] + from[2 + i] * a.dilations[i] - a.pads[i];
      is_inside = is_inside && place >= 0 && place < a.image[i];
      at += place * strides[2 + i];
    }
    if (is_inside) out_.data[static_cast<size_t>(at)] += x;
    walk.next();
  }
}

void Runner::conv() {
  const auto& a = node_.as<ConvAttrs>();
  HostTensor weight;
  if (has_blocked_weight(a, in(1).shape)) {
    const auto rank = static_cast<int64_t>(in(1).shape.size());
    std::vector<int64_t> perm{0, rank - 1, 1, rank - 2};
    for (int64_t i = 2; i < rank - 2; ++i) perm.push_back(i);
    weight = permuted(in(1), perm);
    weight.shape = plain_weight(a, in(1).shape);
    inputs_[1] = &weight;
  }
  // Sums over x - p with zeros around, plus p times the sum of a filter.
  const auto p = static_cast<double>(a.pad_value);
  HostTensor shifted, bias;
  if (p != 0) {
    shifted = in(0);
    for (double& v : shifted.data) v -= p;
    const int64_t filters = in(1).shape[0], size = element_count(in(1).shape) / filters;
    bias = inputs_.size() == 3 ? in(2) : HostTensor{{filters}, std::vector<double>(static_cast<size_t>(filters), 0.0)};
    for (int64_t i = 0; i < filters * size; ++i)
      bias.data[static_cast<size_t>(i / size)] += p * in(1).data[static_cast<size_t>(i)];
    inputs_ = {&shifted, inputs_[1], &bias};
  }
  with_plain_channels(inputs_, out_, a.block_in, a.block_out, [this] { plain_conv(); });
}

void Runner::pool() {
  const int64_t block = node_.as<PoolAttrs>().block;
  with_plain_channels(inputs_, out_, block, block, [this] { plain_pool(); });
}

void Runner::plain_conv() {
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

void Runner::plain_pool() {
  const auto& a = node_.as<PoolAttrs>();
  Geometry g(in(0).shape, out_.shape, a);
  Triple pad_end = to_triple(a.pads_end, 0);
  bool average = node_.op == Op::kAveragePool;
  // What a window beyond the input has: the least value of the type.
  const DType dtype = graph_.value(node_.output).dtype;
  const double least = is_float(dtype)      ? -std::numeric_limits<double>::infinity()
                       : is_unsigned(dtype) ? 0
                                            : -std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)) - 1);
  in_parallel(out_.shape[0] * out_.shape[1], 1, [&](int64_t plane) {
    const double* x = in(0).data.data() + plane * g.in_size();
    double* out = out_.data.data() + plane * g.out_size();
    IndexWalk at({g.out[0], g.out[1], g.out[2]});
    for (int64_t o = 0; o < g.out_size(); ++o, at.next()) {
      double sum = 0, greatest = least;
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
        greatest = std::fmax(greatest, v);  // NaN is not looked at
        ++inside;
      }
      out[o] = average ? sum / static_cast<double>(a.count_include_pad ? padded : inside) : greatest;
    }
  });
}

void Runner::lrn() {
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

}  // namespace tcc::graph
