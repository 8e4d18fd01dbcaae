// What operators mean in loops: products, reductions, softmax and what moves elements. Windows are in windows.cpp, the
// operators of one element in elementwise.cpp and operators_more.cpp.
#include <algorithm>
#include <array>

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
