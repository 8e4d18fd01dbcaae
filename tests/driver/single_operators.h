// Random ONNX models of one operator, and faults planted into what is built of them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/reference.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/check.h"
#include "tcc/support/rng.h"

namespace tcc::driver_test {

using graph::DType;
using graph::Shape;

struct SingleOperator {
  std::string op, bytes;  // of the ONNX file
  DType dtype = DType::kF32;
  int64_t terms = 1;  // that meet in an element of the output
  bool sums = false;  // of products or of elements: its scale is the same operator's value on magnitudes
};

class OperatorMaker {
 public:
  explicit OperatorMaker(Rng rng) : rng_(rng) {}

  SingleOperator make() {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
    made_ = {};
    made_.dtype = kTypes[rng_.below(3)];
    switch (rng_.below(9)) {
      case 0:
        return function();
      case 1:
        return binary();
      case 2:
        return reduction();
      case 3:
        return product();
      case 4:
        return convolution();
      case 5:
        return window();
      case 6:
        return normalization();
      case 7:
        return function();
      default:
        return move();
    }
  }

 private:
  int64_t between(int64_t low, int64_t high) { return low + rng_.below(high - low + 1); }
  Shape shape(int64_t rank, int64_t most) {
    Shape s;
    for (int64_t i = 0; i < rank; ++i) s.push_back(between(2, most));
    return s;
  }
  std::string pick(std::vector<std::string> names) { return names[static_cast<size_t>(rng_.below(std::ssize(names)))]; }

  // A model whose operands are inputs of the type, then constants of integers.
  SingleOperator write(const std::string& op, const std::vector<Shape>& operands,
                       const std::vector<onnx::NamedAttribute>& attributes = {},
                       const std::vector<std::vector<int64_t>>& integers = {}, int64_t opset = 17,
                       bool gives_bool = false) {
    onnx::ModelWriter w("single", opset);
    std::vector<std::string> names;
    for (size_t i = 0; i < operands.size(); ++i) {
      names.push_back("x" + std::to_string(i));
      w.typed_input(names.back(), made_.dtype, operands[i]);
    }
    for (size_t i = 0; i < integers.size(); ++i)
      names.push_back(w.initializer("c" + std::to_string(i), {{std::ssize(integers[i])}, integers[i]}));
    w.node(op, names, {"y"}, attributes);
    w.output("y", gives_bool ? DType::kBool : made_.dtype);
    made_.op = op;
    made_.bytes = w.finish();
    return made_;
  }

  SingleOperator function() {
    std::vector<std::string> names = {"Relu", "Sigmoid", "Tanh", "LeakyRelu"};
    for (const graph::UnaryRow& row : graph::unary_rows())
      if (row.since > 0 && graph::accepts(row.domain, DType::kF32) && !graph::gives_bool(row.domain))
        names.emplace_back(row.name);
    return write(pick(names), {shape(2, 24)}, {}, {}, 24);
  }
  SingleOperator binary() {
    const std::string op = pick({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Less", "Equal"});
    Shape a = shape(2, 24), b = a;
    if (rng_.below(2) == 0) b[0] = 1;
    return write(op, {a, b}, {}, {}, 17, op == "Less" || op == "Equal");
  }
  SingleOperator reduction() {
    const std::string op = pick({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                 "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"});
    const Shape s = shape(3, 12);
    const int64_t axis = between(0, 2);
    made_.terms = s[static_cast<size_t>(axis)];
    made_.sums = op == "ReduceSum" || op == "ReduceMean" || op == "ReduceL1";
    if (op == "ReduceSum") return write(op, {s}, {}, {{axis}});
    return write(op, {s}, {{"axes", std::vector<int64_t>{axis}}});
  }
  SingleOperator product() {
    const int64_t m = between(2, 24), n = between(2, 24), k = between(2, 300);
    made_.terms = k;
    made_.sums = true;
    if (rng_.below(2) == 0) return write("MatMul", {{m, k}, {k, n}});
    made_.terms = k + 1;
    return write("Gemm", {{m, k}, {n, k}, {n}}, {{"transB", int64_t{1}}});
  }
  SingleOperator convolution() {
    const int64_t in = between(1, 12), out = between(1, 12), k = between(1, 3), extent = between(5, 12);
    made_.terms = in * k * k;
    made_.sums = true;
    std::vector<onnx::NamedAttribute> attributes = {{"pads", std::vector<int64_t>(4, k / 2)},
                                                    {"strides", std::vector<int64_t>(2, between(1, 2))}};
    if (rng_.below(3) != 0) return write("Conv", {{1, in, extent, extent}, {out, in, k, k}}, attributes);
    made_.terms = k * k;
    attributes.push_back({"group", in});
    return write("Conv", {{1, in, extent, extent}, {in, 1, k, k}}, attributes);
  }
  SingleOperator window() {
    const std::string op = pick({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"});
    const Shape s = {1, between(1, 8), between(4, 12), between(4, 12)};
    made_.sums = op.find("Average") != std::string::npos;
    made_.terms = s[2] * s[3];
    if (op.starts_with("Global")) return write(op, {s});
    const int64_t k = between(1, 3);
    made_.terms = k * k;
    return write(op, {s}, {{"kernel_shape", std::vector<int64_t>(2, k)}});
  }
  SingleOperator normalization() {
    const std::string op =
        pick({"Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN"});
    if (op == "InstanceNormalization" || op == "BatchNormalization" || op == "LRN") {
      const Shape s = {1, between(2, 6), between(4, 10), between(4, 10)};
      const Shape c = {s[1]};
      made_.terms = op == "InstanceNormalization" ? s[2] * s[3] : 1;
      if (op == "LRN") return write(op, {s}, {{"size", int64_t{3}}});
      if (op == "BatchNormalization") return write(op, {s, c, c, c, c});
      return write(op, {s, c, c});
    }
    const Shape s = shape(2, 40);
    made_.terms = s[1];
    if (op == "LayerNormalization") return write(op, {s, {s[1]}, {s[1]}});
    return write(op, {s});
  }
  SingleOperator move() {
    const Shape s = shape(3, 9);
    switch (rng_.below(5)) {
      case 0:
        return write("Transpose", {s}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
      case 1:
        return write("Concat", {s, s}, {{"axis", between(0, 2)}});
      case 2:
        return write("Slice", {s}, {}, {{1}, {s[1]}, {1}});
      case 3:
        return write("Tile", {s}, {}, {{1, 2, 1}});
      default:
        return write("Pad", {s}, {}, {{0, 1, 0, 0, 0, 1}});
    }
  }

  Rng rng_;
  SingleOperator made_;
};

// What is wrong with one element of a library's output.
enum class Fault { kUlps, kIndex, kSign };

// Appends to `graph`, whose only output is of a float type, what changes one element of it. `at`: which element;
// kUlps adds `error`, kIndex takes element `other` instead.
inline void plant(graph::Graph& graph, Fault fault, int64_t at, int64_t other, double error) {
  const graph::ValueId y = graph.outputs.at(0);
  const graph::Value value = graph.value(y);
  const int64_t n = value.elements();
  auto add = [&](graph::Op op, graph::Attributes attributes, std::vector<graph::ValueId> inputs) {
    auto made = graph.add_node(op, std::move(attributes), std::move(inputs), "fault");
    TCC_CHECK(made, "{}", made.error().message);
    return *made;
  };
  if (fault == Fault::kIndex) {
    std::vector<int64_t> indices(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) indices[static_cast<size_t>(i)] = i == at ? other : i;
    const auto index = graph.add_constant("index", DType::kI64, {n}, graph::make_constant_i64(indices));
    const auto flat = add(graph::Op::kReshape, graph::ReshapeAttrs{{n}}, {y});
    const auto moved = add(graph::Op::kGather, graph::AxisAttrs{0}, {flat, index});
    graph.outputs[0] = add(graph::Op::kReshape, graph::ReshapeAttrs{value.shape}, {moved});
    return;
  }
  std::vector<double> values(static_cast<size_t>(n), fault == Fault::kSign ? 1 : 0);
  values[static_cast<size_t>(at)] = fault == Fault::kSign ? -1 : error;
  const auto constant =
      graph.add_constant("fault", value.dtype, value.shape, graph::make_constant_from_doubles(value.dtype, values));
  graph.outputs[0] = add(fault == Fault::kSign ? graph::Op::kMul : graph::Op::kAdd, graph::NoAttrs{}, {y, constant});
}

}  // namespace tcc::driver_test
