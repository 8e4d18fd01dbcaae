// What operators mean in loops: products and reductions. The other files have the others.

#include <limits>

#include "nest.h"
#include "scalar_functions.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::Op;

void GroupNest::plan(const graph::Node& node) {
  static constexpr void (GroupNest::* kLoops[])(const graph::Node&) = {
#define X(enumerator, text, attributes, cls, fewest, most, type, run, precision, loops) &GroupNest::loops,
      TCC_GRAPH_OPS(X)
#undef X
  };
  (this->*kLoops[static_cast<size_t>(node.op)])(node);
}

void GroupNest::plan_nothing(const graph::Node& node) {
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
    add_map(adds ? "bias" : "scale", node, [=, this, &node](const Exprs& at) {
      Expr y = read(operand(node.output), at);
      if (a.alpha != 1) y = b().mul(y, real(a.alpha));
      if (!adds) return y;
      Expr c = read_broadcast(operand(node.inputs[2]), at, shape);
      return b().add(y, a.beta == 1 ? c : b().mul(c, real(a.beta)));
    });
  }
}

void GroupNest::plan_matmul(const graph::Node& node) {
  // Operands and result may have their axes in another order in memory: stored axis i is logical axis order[i].
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
  if (a.axes.empty())
    return add_map("copy", node, [this, &node](const Exprs& at) { return read(operand(node.inputs[0]), at); });
  bool min = node.op == Op::kReduceMin, product = node.op == Op::kReduceProd;
  ReducerKind reducer = max       ? ReducerKind::kMax
                        : min     ? ReducerKind::kMin
                        : product ? ReducerKind::kProd
                                  : ReducerKind::kSum;
  static constexpr const char* kNames[] = {"r0", "r1", "r2",  "r3",  "r4",  "r5",  "r6",  "r7",
                                           "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
  std::vector<NestAxis> reduce;
  for (size_t i = 0; i < in_shape.size(); ++i)
    if (reduced[i]) reduce.push_back({kNames[i], in_shape[i]});
  const bool flips = (max || min) && graph::is_wide_unsigned(value(node.inputs[0]).dtype);
  auto element = [=, this, &node](const Exprs& at, const Exprs& over) {
    Exprs x;
    size_t r = 0, s = 0;
    for (size_t i = 0; i < in_shape.size(); ++i) {
      x.push_back(reduced[i] ? over[r++] : at[s]);
      if (!reduced[i] || a.keep_dims) ++s;
    }
    Expr y = read(operand(node.inputs[0]), x);
    return flips ? flip_order(b(), y) : y;
  };
  const char* name = max ? "reduce_max" : min ? "reduce_min" : product ? "reduce_prod" : "reduce_sum";
  add_stage(name, node, true, [=, this](const std::string& unique, const Tensor& out) {
    return reduce_nest(unique, axes_of(out.shape), reduce, reducer, out, nullptr, element);
  });
  if (flips) {
    Stage& extremum = stages_.back();
    auto emit = extremum.emit;
    extremum.combines = false;
    extremum.emit = [=, this](const std::string& unique, const Tensor& out) {
      const Tensor found = make_temp(unique, out.shape);
      return b().seq(std::array<Stmt, 2>{emit(unique, found),
                                         map_nest(unique + "_unsigned", axes_of(out.shape), out,
                                                  [&](const Exprs& at) { return flip_order(b(), read(found, at)); })});
    };
  }
  if (a.keeps_nan) {
    // Max and Min of the IR leave NaN out. A sum of the elements that are NaN is NaN where one is, else 0.
    Stage& extremum = stages_.back();
    auto emit = extremum.emit;
    extremum.combines = false;
    extremum.emit = [=, this](const std::string& unique, const Tensor& out) {
      const Tensor found = make_temp(unique, out.shape), nans = make_temp("marked", out.shape);
      auto nan_or_zero = [&](const Exprs& at, const Exprs& over) {
        Expr x = element(at, over);
        return b().select(b().ne(x, x), real(std::numeric_limits<double>::quiet_NaN()), real(0));
      };
      return b().seq(std::array<Stmt, 3>{
          emit(unique, found),
          reduce_nest("marked", axes_of(out.shape), reduce, ReducerKind::kSum, nans, nullptr, nan_or_zero),
          map_nest(unique + "_or_nan", axes_of(out.shape), out, [&](const Exprs& at) {
            Expr n = read(nans, at);
            return b().select(b().ne(n, n), n, read(found, at));
          })});
    };
  }
  if (!mean) return;
  double terms =
      static_cast<double>(value(node.inputs[0]).elements()) / static_cast<double>(value(node.output).elements());
  add_map("mean", node,
          [=, this, &node](const Exprs& at) { return b().div(read(operand(node.output), at), real(terms)); });
}

}  // namespace tcc::task
