// Loops of the operators that need whole rows: Softmax, LogSoftmax and LayerNorm.

#include "nest.h"

namespace tcc::task {

using namespace ir;

void GroupNest::plan_softmax(const graph::Node& node) {
  add_stage(lower_name(node), node, false,
            [this, &node](const std::string& name, const Tensor& out) { return emit_softmax(node, name, out); });
}

Stmt GroupNest::emit_softmax(const graph::Node& node, const std::string& name, const Tensor& out) {
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
  const bool logarithm = node.op == graph::Op::kLogSoftmax;
  Tensor max = make_temp("row_max", rows), exp;
  // The results of a softmax are its terms; those of a logarithm need their sum only.
  if (!logarithm) exp = make_temp("row_exp", out.shape);
  Tensor sum = make_temp("row_sum", rows);
  auto shifted = [&](const Exprs& at) { return b().sub(read(x, at), read(max, row_of(at))); };
  auto exp_of = [&](const Exprs& at) { return call(Intrinsic::kExp, shifted(at)); };
  std::vector<Stmt> nests;
  nests.push_back(reduce_nest("row_max", row_axes, {along}, ReducerKind::kMax, max, nullptr,
                              [&](const Exprs& at, const Exprs& over) { return read(x, with(at, over[0])); }));
  if (!logarithm) nests.push_back(map_nest("row_exp", axes_of(out.shape), exp, exp_of));
  nests.push_back(reduce_nest("row_sum", row_axes, {along}, ReducerKind::kSum, sum, nullptr,
                              [&](const Exprs& at, const Exprs& over) {
                                const Exprs term = with(at, over[0]);
                                return logarithm ? exp_of(term) : read(exp, term);
                              }));
  // One division, or one logarithm, a row.
  const char* of_row = logarithm ? "row_log" : "row_scale";
  Tensor scale = make_temp(of_row, rows);
  nests.push_back(map_nest(of_row, row_axes, scale, [&](const Exprs& at) {
    return logarithm ? call(Intrinsic::kLog, read(sum, at)) : b().div(real(1), read(sum, at));
  }));
  nests.push_back(map_nest(name, axes_of(out.shape), out, [&](const Exprs& at) {
    Expr of = read(scale, row_of(at));
    return logarithm ? b().sub(shifted(at), of) : b().mul(read(exp, at), of);
  }));
  return b().seq(nests);
}

void GroupNest::plan_layer_norm(const graph::Node& node) {
  add_stage("layer_norm", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::LayerNormAttrs>();
    auto axis = static_cast<size_t>(a.axis);
    Tensor x = operand(node.inputs[0]);
    graph::Shape rows(out.shape.begin(), out.shape.begin() + a.axis), row(out.shape.begin() + a.axis, out.shape.end());
    std::vector<NestAxis> all = axes_of(out.shape);
    std::vector<NestAxis> outer(all.begin(), all.begin() + a.axis), along(all.begin() + a.axis, all.end());
    auto count = static_cast<double>(graph::element_count(row));
    auto both = [](Exprs at, const Exprs& over) {
      at.insert(at.end(), over.begin(), over.end());
      return at;
    };
    // Two passes for the statistics, which keeps the variance accurate; one division and one root a row.
    Tensor sum = make_temp("row_sum", rows), mean = make_temp("row_mean", rows), square = make_temp("row_square", rows),
           scale = make_temp("row_scale", rows);
    auto centred = [&](const Exprs& at, const Exprs& of) { return b().sub(read(x, at), read(mean, of)); };
    std::vector<Stmt> nests;
    nests.push_back(reduce_nest("row_sum", outer, along, ReducerKind::kSum, sum, nullptr,
                                [&](const Exprs& at, const Exprs& over) { return read(x, both(at, over)); }));
    nests.push_back(
        map_nest("row_mean", outer, mean, [&](const Exprs& at) { return b().div(read(sum, at), real(count)); }));
    nests.push_back(reduce_nest("row_square", outer, along, ReducerKind::kSum, square, nullptr,
                                [&](const Exprs& at, const Exprs& over) {
                                  Expr d = centred(both(at, over), at);
                                  return b().mul(d, d);
                                }));
    nests.push_back(map_nest("row_scale", outer, scale, [&](const Exprs& at) {
      Expr variance = b().add(b().div(read(square, at), real(count)), real(a.epsilon));
      return b().div(real(1), call(Intrinsic::kSqrt, variance));
    }));
    nests.push_back(map_nest(name, all, out, [&](const Exprs& at) {
      Exprs of(at.begin(), at.begin() + a.axis), in_row(at.begin() + static_cast<int64_t>(axis), at.end());
      Expr y = b().mul(centred(at, of), read(scale, of));
      y = b().mul(y, read_broadcast(operand(node.inputs[1]), in_row, row));
      return node.inputs.size() == 3 ? b().add(y, read_broadcast(operand(node.inputs[2]), in_row, row)) : y;
    }));
    return b().seq(nests);
  });
}

}  // namespace tcc::task
