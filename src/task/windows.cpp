// What operators with sliding windows mean in loops: convolutions, pools and the normalization over channels.
#include <algorithm>
#include <array>

#include "nest.h"

namespace tcc::task {

using namespace ir;
using graph::Op;

namespace {

constexpr const char* kWindowNames[] = {"kd", "kh", "kw"};

// One spatial axis of a sliding window: input position = o * stride + k * dilation - pad.
struct WindowAxis {
  int64_t in, out, kernel, stride, dilation, pad, pad_end;
  int64_t low() const { return -pad; }
  int64_t high() const { return (out - 1) * stride + (kernel - 1) * dilation - pad; }
};

template <class Attrs>
std::vector<WindowAxis> window_axes(const graph::Shape& in, const graph::Shape& out, const Attrs& a) {
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < a.kernel.size(); ++i) {
    axes.push_back({in[i + 2], out[i + 2], a.kernel[i], a.strides[i], a.dilations[i], a.pads_begin[i], a.pads_end[i]});
  }
  return axes;
}

const char* window_name(size_t i, size_t rank) {
  return kWindowNames[i + 3 - rank];
}

Expr window_position(Builder& b, const WindowAxis& axis, Expr o, Expr k) {
  return b.offset(b.add(b.scale(o, axis.stride), b.scale(k, axis.dilation)), -axis.pad);
}

// Where a strided pointwise convolution with result `out` reads for at = (batch, channel, position).
Exprs strided_position(Builder& b, const graph::Shape& out, const std::vector<int64_t>& strides, const Exprs& at) {
  Exprs x{at[0], at[1]};
  Expr rest = at[2];
  for (size_t i = strides.size(); i-- > 0;) {
    Expr extent = b.integer(out[i + 2]);
    x.insert(x.begin() + 2, b.scale(i == 0 ? rest : b.floor_mod(rest, extent), strides[i]));
    rest = b.floor_div(rest, extent);
  }
  return x;
}

}  // namespace

// What a convolution's nests are made from. Its channels may be two axes: blocked ones, c / b in front of the positions
// and c % b behind them: the weights' filters and channels are read under the same split (block_constants), so that no
// index is a quotient. Groups of channels are an axis of their own for the same reason (split_groups). All positions of
// a pointwise one may be one axis; where it strides, a block copies those it reads side by side, in front.
struct GroupNest::ConvNest {
  const graph::Node& node;
  const graph::ConvAttrs& attrs;
  graph::Shape in_shape, out_shape;
  bool grouped;  // groups are an axis
  size_t head;   // axes in front of the positions
  bool gathered;
  std::vector<WindowAxis> windows;

  bool depthwise_blocks() const { return attrs.group > 1 && attrs.block_in > 1; }
  bool in_blocks() const { return attrs.block_in > 1 && !depthwise_blocks(); }
  int64_t group_inputs() const { return depthwise_blocks() ? 1 : grouped ? in_shape[2] : in_shape[1] / attrs.group; }
  int64_t group_outputs() const { return grouped ? out_shape[2] : out_shape[1] / attrs.group; }
  bool channel_loop() const { return group_inputs() > 1 || attrs.group == 1; }
  bool padded() const {
    return std::any_of(windows.begin(), windows.end(),
                       [](const WindowAxis& w) { return w.low() < 0 || w.high() >= w.in; });
  }
};

void GroupNest::plan_conv(const graph::Node& node) {
  return node.as<graph::ConvAttrs>().winograd > 0 ? plan_winograd(node) : plan_direct_conv(node);
}

void GroupNest::plan_direct_conv(const graph::Node& node) {
  const auto& a = node.as<graph::ConvAttrs>();
  ConvNest c{node,  a, shape_of(node.inputs[0]), shape_of(node.output), groups_split_, groups_split_ ? 3U : 2U,
             false, {}};
  const bool flat = c.out_shape.size() == 3 && a.kernel.size() > 1;
  c.gathered = flat && c.in_shape.size() > 3;
  if (flat)
    c.windows.push_back({c.out_shape[2], c.out_shape[2], 1, 1, 1, 0, 0});  // all positions as one axis
  else
    c.windows = window_axes(value(node.inputs[0]).shape, value(node.output).shape, a);
  add_stage("conv", node, true, [=, this](const std::string& name, const Tensor& out) {
    Tensor source = operand(c.node.inputs[0]);
    Stmt copy = nullptr;
    // Copies of integers keep their 8 bits.
    const graph::DType held = value(c.node.inputs[0]).dtype;
    const Type type = graph::is_byte(held) ? ir_type(held) : compute_;
    if (c.padded()) copy = computing(type, [&] { return emit_padded(c, source); });
    if (c.gathered) copy = computing(type, [&] { return emit_gathered(c, source); });
    return b().seq(std::array<Stmt, 2>{copy, emit_conv(c, name, out, source)});
  });
  if (node.inputs.size() != 3) return;
  add_map("bias", node, [this, &node, &a, head = c.head](const Exprs& at) {
    Exprs c(at.begin() + 1, at.begin() + static_cast<std::ptrdiff_t>(head));
    if (a.block_out > 1) c.push_back(at.back());
    return b().add(read(operand(node.output), at), read(operand(node.inputs[2]), c));
  });
}

// Padding is a block of its own: schedules inline it as a predicate or stage a padded copy.
Stmt GroupNest::emit_padded(const ConvNest& c, Tensor& source) {
  graph::Shape shape(c.in_shape.begin(), c.in_shape.begin() + static_cast<std::ptrdiff_t>(c.head));
  std::vector<int64_t> begin(c.head, 0);
  for (const WindowAxis& w : c.windows) {
    shape.push_back(w.high() + w.pad + 1);
    begin.push_back(w.pad);
  }
  if (c.attrs.block_in > 1) shape.push_back(c.attrs.block_in);
  begin.resize(shape.size(), 0);
  source = make_temp(kPadBlock, shape);
  const auto around = static_cast<double>(c.attrs.pad_value);
  return map_nest(kPadBlock, axes_of(shape), source,
                  [&](const Exprs& at) { return read_padded(operand(c.node.inputs[0]), at, shape, begin, around); });
}

Stmt GroupNest::emit_gathered(const ConvNest& c, Tensor& source) {
  source = make_temp(kPadBlock, {c.in_shape[0], c.in_shape[1], c.out_shape[2]});
  return map_nest(kPadBlock, axes_of(source.shape), source, [&](const Exprs& at) {
    return read(operand(c.node.inputs[0]), strided_position(b(), value(c.node.output).shape, c.attrs.strides, at));
  });
}

Stmt GroupNest::emit_conv(const ConvNest& c, const std::string& name, const Tensor& out, const Tensor& source) {
  const bool channel_loop = c.channel_loop(), padded = c.padded();
  std::vector<NestAxis> reduce;
  if (channel_loop) reduce.push_back({"rc", c.group_inputs()});
  for (size_t i = 0; i < c.windows.size(); ++i)
    reduce.push_back({window_name(i, c.windows.size()), c.windows[i].kernel});
  if (c.in_blocks()) reduce.push_back({"rb", c.attrs.block_in});
  // Channels and filters of a block are the last axes of the weight.
  const bool blocks_last = value(c.node.inputs[1]).shape.size() == c.attrs.kernel.size() + 4;
  auto term = [&](const Exprs& at, const Exprs& over) {
    Expr channel = channel_loop ? over[0] : b().integer(0);
    Exprs x{at[0], channel}, w{at[1]};
    if (c.grouped) x = {at[0], at[1], channel}, w = {at[1], at[2]};
    if (c.attrs.block_out > 1 && !blocks_last) w.push_back(at.back());
    w.push_back(channel);
    if (c.in_blocks() && !blocks_last) w.push_back(over.back());
    if (c.depthwise_blocks()) {
      x[1] = at[1];
    } else if (c.attrs.group > 1 && !c.grouped) {
      Expr first = b().scale(b().floor_div(at[1], b().integer(c.group_outputs())), c.group_inputs());
      x[1] = b().add(first, channel);
    }
    for (size_t i = 0; i < c.windows.size(); ++i) {
      Expr k = over[(channel_loop ? 1 : 0) + i];
      Expr position = window_position(b(), c.windows[i], at[i + c.head], k);
      x.push_back(padded ? b().offset(position, c.windows[i].pad) : position);
      w.push_back(k);
    }
    if (blocks_last) w.push_back(over.back()), w.push_back(at.back());
    if (c.attrs.block_in > 1) x.push_back(c.depthwise_blocks() ? at.back() : over.back());
    return b().mul(read(source, x), read(operand(c.node.inputs[1]), w));
  };
  return reduce_nest(name, axes_of(out.shape), reduce, ReducerKind::kSum, out, nullptr, term);
}

// Each element of the image sums those of the blocks that belong to it: along an axis all offsets o for which p - o *
// dilation, p the position with the pad in front, is a number of blocks times the stride.
void GroupNest::plan_fold(const graph::Node& node) {
  static constexpr const char* kNames[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6"};
  const auto& a = node.as<graph::FoldAttrs>();
  const size_t axes = a.image.size();
  const graph::Shape& from = value(node.inputs[0]).shape;
  std::vector<NestAxis> offsets;
  for (size_t i = 0; i < axes; ++i) offsets.push_back({kNames[i], from[2 + i]});
  add_stage("fold", node, true, [=, this, &node](const std::string& name, const Tensor& out) {
    return reduce_nest(
        name, axes_of(out.shape), offsets, ReducerKind::kSum, out, nullptr, [&](const Exprs& at, const Exprs& over) {
          Exprs x{at[0], at[1]};
          x.insert(x.end(), over.begin(), over.end());
          Expr predicate = nullptr;
          for (size_t i = 0; i < axes; ++i) {
            const Expr first = b().sub(b().offset(at[2 + i], a.pads[i]), b().scale(over[i], a.dilations[i]));
            const Expr stride = b().integer(a.strides[i]);
            if (a.strides[i] > 1)
              predicate = b().logical_and(predicate, b().eq(b().floor_mod(first, stride), b().integer(0)));
            x.push_back(b().floor_div(first, stride));
            const int64_t low = a.pads[i] - (from[2 + i] - 1) * a.dilations[i], high = a.pads[i] + a.image[i] - 1;
            predicate = b().logical_and(predicate, inside(x.back(), low, high / a.strides[i], from[2 + axes + i]));
          }
          return read(operand(node.inputs[0]), x, predicate, 0);
        });
  });
}

void GroupNest::plan_pool(const graph::Node& node) {
  const auto& a = node.as<graph::PoolAttrs>();
  auto windows = window_axes(value(node.inputs[0]).shape, value(node.output).shape, a);
  bool average = node.op == Op::kAveragePool;
  add_stage(
      average ? "pool_sum" : "max_pool", node, true, [=, this, &node](const std::string& name, const Tensor& out) {
        std::vector<NestAxis> reduce;
        for (size_t i = 0; i < windows.size(); ++i)
          reduce.push_back({window_name(i, windows.size()), windows[i].kernel});
        return reduce_nest(name, axes_of(out.shape), reduce, average ? ReducerKind::kSum : ReducerKind::kMax, out,
                           nullptr, [&](const Exprs& at, const Exprs& over) {
                             Exprs x{at[0], at[1]};
                             Expr predicate = nullptr;
                             for (size_t i = 0; i < windows.size(); ++i) {
                               x.push_back(window_position(b(), windows[i], at[i + 2], over[i]));
                               predicate = b().logical_and(
                                   predicate, inside(x.back(), windows[i].low(), windows[i].high(), windows[i].in));
                             }
                             if (a.block > 1) x.push_back(at.back());
                             return read(operand(node.inputs[0]), x, predicate, average ? 0 : lowest_value());
                           });
      });
  if (!average) return;
  bool with_pad = a.count_include_pad;
  add_map("average", node, [=, this, &node](const Exprs& at) {
    // Window positions k of [0, kernel) with low <= o * stride + k * dilation - pad < high, axis by axis.
    Expr count = b().integer(1);
    for (size_t i = 0; i < windows.size(); ++i) {
      const WindowAxis& w = windows[i];
      int64_t limit = with_pad ? w.in + w.pad_end : w.in;
      bool cut_low = !with_pad && w.low() < 0, cut_high = w.high() >= limit;
      Expr start = b().offset(b().scale(at[i + 2], w.stride), -w.pad);
      Expr first = b().integer(0), last = b().integer(w.kernel - 1);
      Expr step = b().integer(w.dilation);
      if (cut_low) first = b().max(first, b().ceil_div(b().scale(start, -1), step));
      if (cut_high) last = b().min(last, b().floor_div(b().sub(b().integer(limit - 1), start), step));
      count = b().mul(count, b().offset(b().sub(last, first), 1));
    }
    Expr divisor = is_int(count) ? real(static_cast<double>(int_value(count))) : b().cast(count, compute_);
    return b().div(read(operand(node.output), at), divisor);
  });
}

void GroupNest::plan_lrn(const graph::Node& node) {
  const auto& a = node.as<graph::LrnAttrs>();
  add_stage("square_sum", node, true, [this, &node, &a](const std::string& name, const Tensor& out) {
    int64_t before = (a.size - 1) / 2, channels = out.shape[1];
    return reduce_nest(name, axes_of(out.shape), {{"k", a.size}}, ReducerKind::kSum, out, nullptr,
                       [&](const Exprs& at, const Exprs& over) {
                         Exprs x = at;
                         x[1] = b().offset(b().add(at[1], over[0]), -before);
                         Expr v = read(operand(node.inputs[0]), x,
                                       inside(x[1], -before, channels - 1 + a.size - 1 - before, channels));
                         return b().mul(v, v);
                       });
  });
  add_map("lrn", node, [this, &node, &a](const Exprs& at) {
    Expr squares = b().mul(read(operand(node.output), at), real(a.alpha / static_cast<double>(a.size)));
    Expr power = b().call(Intrinsic::kPow, std::array<Expr, 2>{b().add(squares, real(a.bias)), real(a.beta)});
    return b().div(read(operand(node.inputs[0]), at), power);
  });
}

}  // namespace tcc::task
