// What each operator means in loops.
#include <algorithm>
#include <array>
#include <cmath>

#include "nest.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::Op;

void GroupNest::plan(const graph::Node& node) {
  if (is_more(node.op)) return plan_more(node);
  switch (graph::op_class(node.op)) {
    case graph::OpClass::kContraction:
      if (node.op == Op::kConv) return node.as<graph::ConvAttrs>().winograd > 0 ? plan_winograd(node) : plan_conv(node);
      return node.op == Op::kGemm ? plan_gemm(node) : plan_matmul(node);
    case graph::OpClass::kWindow:
      return node.op == Op::kLrn ? plan_lrn(node) : plan_pool(node);
    case graph::OpClass::kReduction:
      return plan_reduce(node);
    case graph::OpClass::kRowwise:
      return plan_softmax(node);
    case graph::OpClass::kElementwise:
      return plan_elementwise(node);
    case graph::OpClass::kMove:
      return plan_move(node);
    case graph::OpClass::kView:
      break;
  }
  TCC_UNREACHABLE("{} makes no code", graph::op_name(node.op));
}

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

// A strided pointwise convolution over flat positions has a block that copies those it reads side by side, in front.
// Blocked channels are two axes, c / b in front of the positions and c % b behind them: the weights' filters and
// channels are read under the same split (block_constants), so that no index is a quotient. Groups of channels are an
// axis of their own for the same reason (split_groups).
void GroupNest::plan_conv(const graph::Node& node) {
  const auto& a = node.as<graph::ConvAttrs>();
  const graph::Shape in_shape = shape_of(node.inputs[0]), out_shape = shape_of(node.output);
  std::vector<WindowAxis> windows;
  const bool grouped = groups_split_;
  const size_t head = grouped ? 3 : 2;  // axes in front of the positions
  const bool flat = out_shape.size() == 3 && a.kernel.size() > 1;
  const bool gathered = flat && in_shape.size() > 3;
  if (flat)
    windows.push_back({out_shape[2], out_shape[2], 1, 1, 1, 0, 0});  // all positions as one axis
  else
    windows = window_axes(value(node.inputs[0]).shape, value(node.output).shape, a);
  const bool depthwise_blocks = a.group > 1 && a.block_in > 1, in_blocks = a.block_in > 1 && !depthwise_blocks;
  int64_t per_group_in = depthwise_blocks ? 1 : grouped ? in_shape[2] : in_shape[1] / a.group;
  int64_t per_group_out = grouped ? out_shape[2] : out_shape[1] / a.group;
  add_stage("conv", node, true, [=, this](const std::string& name, const Tensor& out) {
    std::vector<NestAxis> reduce;
    bool channel_loop = per_group_in > 1 || a.group == 1;
    // Padding is a block of its own: schedules inline it as a predicate or stage a padded copy.
    Tensor source = operand(node.inputs[0]);
    Stmt pad = nullptr;
    bool padded = std::any_of(windows.begin(), windows.end(),
                              [](const WindowAxis& w) { return w.low() < 0 || w.high() >= w.in; });
    if (padded) {
      graph::Shape shape(in_shape.begin(), in_shape.begin() + static_cast<std::ptrdiff_t>(head));
      for (const WindowAxis& w : windows) shape.push_back(w.high() + w.pad + 1);
      if (a.block_in > 1) shape.push_back(a.block_in);
      source = make_temp(kPadBlock, shape);
      pad = map_nest(kPadBlock, axes_of(shape), source, [&](const Exprs& at) {
        Exprs x(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(head));
        Expr predicate = nullptr;
        for (size_t i = 0; i < windows.size(); ++i) {
          x.push_back(b().offset(at[i + head], -windows[i].pad));
          predicate = b().logical_and(predicate, inside(x.back(), windows[i].low(), windows[i].high(), windows[i].in));
        }
        if (a.block_in > 1) x.push_back(at.back());
        return read(operand(node.inputs[0]), x, predicate);
      });
    }
    if (gathered) {
      source = make_temp(kPadBlock, {in_shape[0], in_shape[1], out_shape[2]});
      pad = map_nest(kPadBlock, axes_of(source.shape), source, [&](const Exprs& at) {
        return read(operand(node.inputs[0]), strided_position(b(), value(node.output).shape, a.strides, at));
      });
    }
    if (channel_loop) reduce.push_back({"rc", per_group_in});
    for (size_t i = 0; i < windows.size(); ++i) reduce.push_back({window_name(i, windows.size()), windows[i].kernel});
    if (in_blocks) reduce.push_back({"rb", a.block_in});
    Stmt conv = reduce_nest(name, axes_of(out.shape), reduce, ReducerKind::kSum, out, nullptr,
                            [&](const Exprs& at, const Exprs& over) {
                              Expr c = channel_loop ? over[0] : b().integer(0);
                              Exprs x{at[0], c}, w{at[1]};
                              if (grouped) x = {at[0], at[1], c}, w = {at[1], at[2]};
                              if (a.block_out > 1) w.push_back(at.back());
                              w.push_back(c);
                              if (in_blocks) w.push_back(over.back());
                              if (depthwise_blocks) {
                                x[1] = at[1];
                              } else if (a.group > 1 && !grouped) {
                                Expr first = b().scale(b().floor_div(at[1], b().integer(per_group_out)), per_group_in);
                                x[1] = b().add(first, c);
                              }
                              for (size_t i = 0; i < windows.size(); ++i) {
                                Expr k = over[(channel_loop ? 1 : 0) + i];
                                Expr position = window_position(b(), windows[i], at[i + head], k);
                                x.push_back(padded ? b().offset(position, windows[i].pad) : position);
                                w.push_back(k);
                              }
                              if (a.block_in > 1) x.push_back(depthwise_blocks ? at.back() : over.back());
                              return b().mul(read(source, x), read(operand(node.inputs[1]), w));
                            });
    return b().seq(std::array<Stmt, 2>{pad, conv});
  });
  if (node.inputs.size() == 3) {
    add_stage("bias", node, false, [this, &node, &a, head](const std::string& name, const Tensor& out) {
      return map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
        Exprs c(at.begin() + 1, at.begin() + static_cast<std::ptrdiff_t>(head));
        if (a.block_out > 1) c.push_back(at.back());
        return b().add(read(operand(node.output), at), read(operand(node.inputs[2]), c));
      });
    });
  }
}

void GroupNest::plan_gemm(const graph::Node& node) {
  const auto& a = node.as<graph::GemmAttrs>();
  const graph::Shape shape = value(node.output).shape;
  const graph::Shape& left = value(node.inputs[0]).shape;
  int64_t depth = a.trans_a ? left[0] : left[1];
  add_stage("gemm", node, true, [=, this, &node](const std::string& name, const Tensor& out) {
    return reduce_nest(name, axes_of(shape), {{"k", depth}}, ReducerKind::kSum, out, nullptr,
                       [&](const Exprs& at, const Exprs& over) {
                         Exprs x{at[0], over[0]}, y{over[0], at[1]};
                         if (a.trans_a) std::swap(x[0], x[1]);
                         if (a.trans_b) std::swap(y[0], y[1]);
                         return b().mul(read(operand(node.inputs[0]), x), read(operand(node.inputs[1]), y));
                       });
  });
  bool adds = node.inputs.size() == 3 && a.beta != 0;
  if (a.alpha != 1 || adds) {
    add_stage(adds ? "bias" : "scale", node, false, [=, this, &node](const std::string& name, const Tensor& out) {
      return map_nest(name, axes_of(shape), out, [&](const Exprs& at) {
        Expr y = read(operand(node.output), at);
        if (a.alpha != 1) y = b().mul(y, real(a.alpha));
        if (!adds) return y;
        Expr c = read_broadcast(operand(node.inputs[2]), at, shape);
        return b().add(y, a.beta == 1 ? c : b().mul(c, real(a.beta)));
      });
    });
  }
}

void GroupNest::plan_matmul(const graph::Node& node) {
  // Operands and result may lie in memory with their axes in another order: stored axis i is logical axis order[i].
  const auto& a = node.as<graph::MatMulAttrs>();
  auto order_of = [](const std::vector<int64_t>& perm, size_t rank) {
    std::vector<int64_t> order(rank);
    for (size_t i = 0; i < rank; ++i) order[perm.empty() ? i : static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    return order;
  };
  auto logical_shape = [](const graph::Shape& stored, const std::vector<int64_t>& order) {
    graph::Shape shape(stored.size());
    for (size_t i = 0; i < stored.size(); ++i) shape[static_cast<size_t>(order[i])] = stored[i];
    return shape;
  };
  const graph::Shape &stored_left = value(node.inputs[0]).shape, &stored_right = value(node.inputs[1]).shape;
  const auto left_order = order_of(a.perm_a, stored_left.size()), right_order = order_of(a.perm_b, stored_right.size());
  const graph::Shape left = logical_shape(stored_left, left_order), right = logical_shape(stored_right, right_order);
  // perm_out says which logical axis a stored axis is.
  const std::vector<int64_t> out_order =
      a.perm_out.empty() ? order_of({}, value(node.output).shape.size()) : a.perm_out;
  add_stage("gemm", node, true, [=, this, &node](const std::string& name, const Tensor& out) {
    bool rows = left.size() > 1, columns = right.size() > 1;
    size_t batch = out.shape.size() - (rows ? 1 : 0) - (columns ? 1 : 0);
    const graph::Shape logical = logical_shape(out.shape, out_order);
    std::vector<NestAxis> axes = axes_of(out.shape);
    for (size_t i = 0; i < axes.size(); ++i) {
      auto axis = static_cast<size_t>(out_order[i]);
      if (rows && axis == batch) axes[i].name = "m";
      if (columns && axis + 1 == axes.size()) axes[i].name = "n";
    }
    auto stored = [](const Exprs& index, const std::vector<int64_t>& order) {
      Exprs moved;
      for (int64_t axis : order) moved.push_back(index[static_cast<size_t>(axis)]);
      return moved;
    };
    graph::Shape batches(logical.begin(), logical.begin() + static_cast<int64_t>(batch));
    auto batch_index = [&](const graph::Shape& shape, const Exprs& at) {
      Exprs index;
      size_t own = shape.size() < 2 ? 0 : shape.size() - 2;
      for (size_t i = 0; i < own; ++i) {
        bool repeated = shape[i] == 1 && batches[batch - own + i] != 1;
        index.push_back(repeated ? b().integer(0) : at[batch - own + i]);
      }
      return index;
    };
    return reduce_nest(name, axes, {{"k", left.back()}}, ReducerKind::kSum, out, nullptr,
                       [&](const Exprs& place, const Exprs& over) {
                         Exprs at(place.size());
                         for (size_t i = 0; i < place.size(); ++i) at[static_cast<size_t>(out_order[i])] = place[i];
                         Exprs x = batch_index(left, at), y = batch_index(right, at);
                         if (rows) x.push_back(at[batch]);
                         x.push_back(over[0]);
                         y.push_back(over[0]);
                         if (columns) y.push_back(at.back());
                         return b().mul(read(operand(node.inputs[0]), stored(x, left_order)),
                                        read(operand(node.inputs[1]), stored(y, right_order)));
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
  add_stage("average", node, false, [=, this, &node](const std::string& name, const Tensor& out) {
    return map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
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
  add_stage("lrn", node, false, [this, &node, &a](const std::string& name, const Tensor& out) {
    return map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
      Expr squares = b().mul(read(operand(node.output), at), real(a.alpha / static_cast<double>(a.size)));
      Expr power = b().call(Intrinsic::kPow, std::array<Expr, 2>{b().add(squares, real(a.bias)), real(a.beta)});
      return b().div(read(operand(node.inputs[0]), at), power);
    });
  });
}

void GroupNest::plan_reduce(const graph::Node& node) {
  const auto& a = node.as<graph::ReduceAttrs>();
  const graph::Shape in_shape = value(node.inputs[0]).shape;
  bool max = node.op == Op::kReduceMax, mean = node.op == Op::kReduceMean;
  std::vector<bool> reduced(in_shape.size(), false);
  for (int64_t axis : a.axes) reduced[static_cast<size_t>(axis)] = true;
  if (a.axes.empty()) {
    add_stage("copy", node, false, [this, &node](const std::string& name, const Tensor& out) {
      return map_nest(name, axes_of(out.shape), out,
                      [&](const Exprs& at) { return read(operand(node.inputs[0]), at); });
    });
    return;
  }
  bool min = node.op == Op::kReduceMin, product = node.op == Op::kReduceProd;
  ReducerKind reducer = max       ? ReducerKind::kMax
                        : min     ? ReducerKind::kMin
                        : product ? ReducerKind::kProd
                                  : ReducerKind::kSum;
  add_stage(max       ? "reduce_max"
            : min     ? "reduce_min"
            : product ? "reduce_prod"
                      : "reduce_sum",
            node, true, [=, this, &node](const std::string& name, const Tensor& out) {
              static constexpr const char* kNames[] = {"r0", "r1", "r2",  "r3",  "r4",  "r5",  "r6",  "r7",
                                                       "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
              std::vector<NestAxis> reduce;
              for (size_t i = 0; i < in_shape.size(); ++i)
                if (reduced[i]) reduce.push_back({kNames[i], in_shape[i]});
              return reduce_nest(name, axes_of(out.shape), reduce, reducer, out, nullptr,
                                 [&](const Exprs& at, const Exprs& over) {
                                   Exprs x;
                                   size_t r = 0, s = 0;
                                   for (size_t i = 0; i < in_shape.size(); ++i) {
                                     x.push_back(reduced[i] ? over[r++] : at[s]);
                                     if (!reduced[i] || a.keep_dims) ++s;
                                   }
                                   return read(operand(node.inputs[0]), x);
                                 });
            });
  if (!mean) return;
  double terms =
      static_cast<double>(value(node.inputs[0]).elements()) / static_cast<double>(value(node.output).elements());
  add_stage("mean", node, false, [=, this, &node](const std::string& name, const Tensor& out) {
    return map_nest(name, axes_of(out.shape), out,
                    [&](const Exprs& at) { return b().div(read(operand(node.output), at), real(terms)); });
  });
}

void GroupNest::plan_softmax(const graph::Node& node) {
  add_stage("softmax", node, false,
            [this, &node](const std::string&, const Tensor& out) { return emit_softmax(node, out); });
}

Stmt GroupNest::emit_softmax(const graph::Node& node, const Tensor& out) {
  auto axis = static_cast<size_t>(node.as<graph::AxisAttrs>().axis);
  Tensor x = operand(node.inputs[0]);
  graph::Shape rows = out.shape;
  rows.erase(rows.begin() + static_cast<int64_t>(axis));
  std::vector<NestAxis> row_axes = axes_of(out.shape);
  NestAxis along = {"k", out.shape[axis]};
  row_axes.erase(row_axes.begin() + static_cast<int64_t>(axis));
  auto row_of = [&](Exprs at) {
    at.erase(at.begin() + static_cast<int64_t>(axis));
    return at;
  };
  auto with = [&](Exprs row, Expr k) {
    row.insert(row.begin() + static_cast<int64_t>(axis), k);
    return row;
  };
  Tensor max = make_temp("row_max", rows), exp = make_temp("row_exp", out.shape), sum = make_temp("row_sum", rows);
  std::vector<Stmt> nests;
  nests.push_back(reduce_nest("row_max", row_axes, {along}, ReducerKind::kMax, max, nullptr,
                              [&](const Exprs& at, const Exprs& over) { return read(x, with(at, over[0])); }));
  nests.push_back(map_nest("row_exp", axes_of(out.shape), exp, [&](const Exprs& at) {
    return call(Intrinsic::kExp, b().sub(read(x, at), read(max, row_of(at))));
  }));
  nests.push_back(reduce_nest("row_sum", row_axes, {along}, ReducerKind::kSum, sum, nullptr,
                              [&](const Exprs& at, const Exprs& over) { return read(exp, with(at, over[0])); }));
  // One division a row.
  Tensor scale = make_temp("row_scale", rows);
  nests.push_back(
      map_nest("row_scale", row_axes, scale, [&](const Exprs& at) { return b().div(real(1), read(sum, at)); }));
  nests.push_back(map_nest("softmax", axes_of(out.shape), out,
                           [&](const Exprs& at) { return b().mul(read(exp, at), read(scale, row_of(at))); }));
  return b().seq(nests);
}

std::string GroupNest::elementwise_name(const graph::Node& node) const {
  switch (node.op) {
    case Op::kBatchNorm:
      return "batch_norm";
    case Op::kRelu:
      return "relu";
    case Op::kLeakyRelu:
      return "leaky_relu";
    case Op::kClip:
      return "clip";
    case Op::kSigmoid:
      return "sigmoid";
    case Op::kTanh:
      return "tanh";
    case Op::kAdd:
      if (node.id == group_.anchor) return "add";
      for (graph::ValueId id : node.inputs)
        if (value(id).is_constant()) return "bias";
      return "residual";
    case Op::kSub:
      return "sub";
    case Op::kMul:
      return "mul";
    case Op::kDiv:
      return "div";
    case Op::kConv:
    case Op::kGemm:
    case Op::kMatMul:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kLrn:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kSoftmax:
    case Op::kReshape:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kPad:
    case Op::kReduceMin:
    case Op::kReduceProd:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kLayerNorm:
      break;
  }
  TCC_UNREACHABLE("{} is not elementwise", graph::op_name(node.op));
}

void GroupNest::plan_elementwise(const graph::Node& node) {
  add_stage(elementwise_name(node), node, false, [this, &node](const std::string& name, const Tensor& out) {
    // The value made in this group comes first where the order does not matter: one task for x + y and y + x.
    graph::Node own = node;
    auto made_here = [&](graph::ValueId id) {
      return std::any_of(stages_.begin(), stages_.end(), [&](const Stage& stage) { return stage.result == id; });
    };
    if ((node.op == Op::kAdd || node.op == Op::kMul) && made_here(own.inputs[1]) && !made_here(own.inputs[0]))
      std::swap(own.inputs[0], own.inputs[1]);
    return map_nest(name, axes_of(out.shape), out,
                    [&](const Exprs& at) { return elementwise_value(own, at, out.shape); });
  });
}

Expr GroupNest::elementwise_value(const graph::Node& node, const Exprs& at, const graph::Shape& shape) {
  auto in = [&](size_t i) { return read_broadcast(operand(node.inputs[i]), at, shape); };
  auto channel = [&](size_t i) { return read(operand(node.inputs[i]), {at[1]}); };
  Expr x = in(0);
  switch (node.op) {
    // Comparisons rather than max and min: NaN stays NaN.
    case Op::kRelu:
      return b().select(b().lt(x, real(0)), real(0), x);
    case Op::kLeakyRelu:
      return b().select(b().lt(x, real(0)), b().mul(x, real(node.as<graph::LeakyAttrs>().alpha)), x);
    case Op::kClip: {
      const auto& a = node.as<graph::ClipAttrs>();
      if (is_float(compute_)) {
        Expr top = std::isinf(a.max) ? x : b().select(b().lt(real(a.max), x), real(a.max), x);
        return std::isinf(a.min) ? top : b().select(b().lt(x, real(a.min)), real(a.min), top);
      }
      // Bounds beyond the integer type change nothing.
      double least = -std::ldexp(1, static_cast<int>(8 * type_bytes(compute_)) - 1), most = -least - 1;
      if (compute_ == Type::kU8) least = 0, most = 255;
      Expr y = a.max < most ? b().min(x, real(std::floor(std::max(a.max, least)))) : x;
      return a.min > least ? b().max(y, real(std::ceil(std::min(a.min, most)))) : y;
    }
    case Op::kSigmoid:
      return call(Intrinsic::kSigmoid, x);
    case Op::kTanh:
      return call(Intrinsic::kTanh, x);
    case Op::kAdd:
      return b().add(x, in(1));
    case Op::kSub:
      return b().sub(x, in(1));
    case Op::kMul:
      return b().mul(x, in(1));
    case Op::kDiv:
      return b().div(x, in(1));
    case Op::kBatchNorm: {
      Expr deviation = call(Intrinsic::kSqrt, b().add(channel(4), real(node.as<graph::BatchNormAttrs>().epsilon)));
      Expr normal = b().div(b().sub(x, channel(3)), deviation);
      return b().add(b().mul(normal, channel(1)), channel(2));
    }
    case Op::kConv:
    case Op::kGemm:
    case Op::kMatMul:
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kLrn:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kSoftmax:
    case Op::kReshape:
    case Op::kIdentity:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kPad:
    case Op::kReduceMin:
    case Op::kReduceProd:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kLayerNorm:
      break;
  }
  TCC_UNREACHABLE("{} is not elementwise", graph::op_name(node.op));
}

void GroupNest::plan_move(const graph::Node& node) {
  if (node.op == Op::kConcat) {
    add_stage("concat", node, false,
              [this, &node](const std::string&, const Tensor& out) { return emit_concat(node, out); });
    return;
  }
  const char* kind = node.op == Op::kTranspose ? "transpose" : node.op == Op::kPad ? "pad" : "copy";
  add_stage(kind, node, false, [this, &node](const std::string& name, const Tensor& out) {
    return map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
      Tensor x = operand(node.inputs[0]);
      if (node.op == Op::kTranspose) {
        const auto& perm = node.as<graph::TransposeAttrs>().perm;
        Exprs from(at.size());
        for (size_t i = 0; i < perm.size(); ++i) from[static_cast<size_t>(perm[i])] = at[i];
        return read(x, from);
      }
      if (node.op != Op::kPad) return read(x, at);
      const auto& a = node.as<graph::PadAttrs>();
      Exprs from;
      Expr predicate = nullptr;
      for (size_t i = 0; i < at.size(); ++i) {
        from.push_back(b().offset(at[i], -a.begin[i]));
        predicate = b().logical_and(predicate, inside(from[i], -a.begin[i], out.shape[i] - 1 - a.begin[i], x.shape[i]));
      }
      return read(x, from, predicate, a.value);
    });
  });
}

Stmt GroupNest::emit_concat(const graph::Node& node, const Tensor& out) {
  auto axis = static_cast<size_t>(node.as<graph::AxisAttrs>().axis);
  std::vector<Stmt> nests;
  int64_t offset = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Tensor x = operand(node.inputs[i]);
    if (x.shape[axis] == 0) continue;
    nests.push_back(map_nest_at(
        "concat" + std::to_string(i), axes_of(x.shape), out,
        [&](const Exprs& at) {
          Exprs to = at;
          to[axis] = b().offset(to[axis], offset);
          return to;
        },
        [&](const Exprs& at) { return read(x, at); }));
    offset += x.shape[axis];
  }
  return b().seq(nests);
}

}  // namespace tcc::task
