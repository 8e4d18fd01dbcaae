// Matrix products as few shapes: a product with a matrix is one of two matrices, and transposes around products are
// part of them.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "rewrite.h"

namespace tcc::graph {
namespace {

// Each output element depends on the elements of the inputs at the same index only: a Reshape may pass.
bool is_pointwise(const Node& node) {
  return op_class(node.op) == OpClass::kElementwise && node.op != Op::kBatchNorm;
}

// Rebuilds the order; a value that has a matrix form is made in that form, and in its own only where something needs
// it.
class ProductFlattener {
 public:
  ProductFlattener(Graph& graph, Op op) : graph_(graph), op_(op) {}

  void run() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    for (NodeId id : order) {
      if ((op_ == Op::kMatMul ? product(id) : window(id)) || follower(id)) continue;
      Node node = graph_.node(id);
      for (ValueId& input : node.inputs) input = restored(input);
      graph_.node(id) = node;
      graph_.order.push_back(id);
    }
    for (ValueId& output : graph_.outputs) output = restored(output);
  }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  bool has_matrix(ValueId id) const { return matrix_.contains(id); }

  // The value in the model's shape.
  ValueId restored(ValueId id) {
    auto it = matrix_.find(id);
    if (it == matrix_.end()) return id;
    auto [made, fresh] = restored_.emplace(id, kNone);
    if (fresh) made->second = emit_reshape(graph_, it->second, Shape(shape(id)));
    return made->second;
  }
  ValueId as_matrix(ValueId id, const Shape& to) {
    if (auto it = matrix_.find(id); it != matrix_.end() && shape(it->second) == to) return it->second;
    return emit_reshape(graph_, restored(id), to);
  }

  bool product(NodeId id) {
    const Node node = graph_.node(id);
    if (node.op != Op::kMatMul) return false;
    const auto& a = node.as<MatMulAttrs>();
    const Shape left = shape(node.inputs[0]), right = shape(node.inputs[1]);
    if (right.size() != 2 || left.size() < 2) return false;
    if (!a.perm_a.empty() || !a.perm_b.empty() || !a.perm_out.empty()) return false;
    ValueId x = as_matrix(node.inputs[0], {element_count(Shape(left.begin(), left.end() - 1)), left.back()});
    matrix_[node.output] = emit_node(graph_, Op::kGemm, GemmAttrs{}, {x, restored(node.inputs[1])}, node);
    return true;
  }

  // A convolution with one position of its window, over all of the input: a product of images and filters.
  bool window(NodeId id) {
    const Node node = graph_.node(id);
    if (node.op != Op::kConv) return false;
    const auto& a = node.as<ConvAttrs>();
    const Shape in = shape(node.inputs[0]), weight = shape(node.inputs[1]);
    if (a.group != 1 || a.block_in != 1 || a.block_out != 1 || a.winograd != 0 || in.size() != weight.size())
      return false;
    if (!is_float(graph_.value(node.inputs[0]).dtype)) return false;
    for (size_t i = 2; i < in.size(); ++i)
      if (in[i] != weight[i] || a.pads_begin[i - 2] != 0 || a.pads_end[i - 2] != 0) return false;
    const int64_t terms = element_count(Shape(in.begin() + 1, in.end()));
    std::vector<ValueId> operands{as_matrix(node.inputs[0], {in[0], terms}),
                                  emit_reshape(graph_, node.inputs[1], {weight[0], terms})};
    if (node.inputs.size() == 3) operands.push_back(node.inputs[2]);
    matrix_[node.output] = emit_node(graph_, Op::kGemm, GemmAttrs{.trans_b = true}, operands, node);
    return true;
  }

  // An operand of an elementwise operator on matrices `rows x columns` that are tensors of shape `full`.
  std::optional<Shape> operand_shape(ValueId id, const Shape& full, const Shape& matrix) const {
    Shape own = shape(id);
    if (own == full) return matrix;
    if (own.empty()) return own;
    if (op_ == Op::kConv) {
      // Channels are columns, and images rows.
      own.insert(own.begin(), full.size() - own.size(), 1);
      return Shape{own[0], own[1]};
    }
    // One number for each row.
    Shape rows(full.size() - std::min(full.size(), own.size()), 1);
    rows.insert(rows.end(), own.begin(), own.end());
    if (rows.size() == full.size() && rows.back() == 1 && std::equal(rows.begin(), rows.end() - 1, full.begin()))
      return Shape{matrix[0], 1};
    for (size_t i = 0; i + 1 < own.size(); ++i) {
      if (own[i] != 1) return std::nullopt;
    }
    return Shape{own.back()};
  }

  bool follower(NodeId id) {
    const Node node = graph_.node(id);
    if (!is_pointwise(node)) return false;
    const Shape full = shape(node.output);
    auto flat = std::find_if(node.inputs.begin(), node.inputs.end(),
                             [&](ValueId input) { return has_matrix(input) && shape(input) == full; });
    if (flat == node.inputs.end()) return false;
    const Shape matrix = shape(matrix_.at(*flat));
    std::vector<Shape> shapes;
    for (ValueId input : node.inputs) {
      auto fits = operand_shape(input, full, matrix);
      if (!fits) return false;
      shapes.push_back(*fits);
    }
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(as_matrix(node.inputs[i], shapes[i]));
    matrix_[node.output] = emit_node(graph_, node.op, node.attrs, inputs, node);
    return true;
  }

  Graph& graph_;
  Op op_;
  std::unordered_map<ValueId, ValueId> matrix_;    // the same numbers as a matrix
  std::unordered_map<ValueId, ValueId> restored_;  // and in the model's shape again
};

// --- transposes ----------------------------------------------------------------------------------------------------

using Perm = std::vector<int64_t>;

Perm identity_perm(size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}
// transpose(transpose(x, first), second)
Perm compose(const Perm& first, const Perm& second) {
  Perm perm;
  for (int64_t axis : second) perm.push_back(first[static_cast<size_t>(axis)]);
  return perm;
}
Perm inverse(const Perm& perm) {
  Perm back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return back;
}
// Empty where nothing moves, as MatMulAttrs wants it.
Perm shortened(Perm perm) {
  if (std::is_sorted(perm.begin(), perm.end())) perm.clear();
  return perm;
}

// Walks the order once; each transpose is taken by its reader, moved behind it, or kept.
class TransposeFolder {
 public:
  explicit TransposeFolder(Graph& graph) : graph_(graph), replacements_(graph), readers_(count_readers(graph)) {}

  void run() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    for (NodeId id : order) {
      replacements_.update(graph_.node(id));
      visit(id);
    }
    replacements_.update_outputs();
  }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  // The transpose that makes a value.
  const Node* transpose_of(ValueId id) const {
    NodeId producer = graph_.value(id).producer;
    return producer != kNone && graph_.node(producer).op == Op::kTranspose ? &graph_.node(producer) : nullptr;
  }
  int64_t reader_count(ValueId id) const {
    auto i = static_cast<size_t>(id);
    return i < readers_.size() ? readers_[i] : 1;
  }

  void visit(NodeId id) {
    Node& node = graph_.node(id);
    if (node.op == Op::kTranspose) return transpose(id);
    if (node.op == Op::kMatMul && !in_groups(node)) take_operands(node);
    if (node.op == Op::kGemm && !in_groups(node)) take_gemm_operands(node);
    if (sink(id)) return;
    graph_.order.push_back(id);
  }

  // Dot products of CPUs read groups along the sum side by side, u8 on the left: rows of A, which are transposed once.
  bool in_groups(const Node& node) const { return graph_.value(node.inputs[0]).dtype == DType::kU8; }

  // Only axes of extent 1 change places.
  bool keeps_order(const Shape& from, const Perm& perm) const {
    int64_t last = -1;
    for (int64_t axis : perm) {
      if (from[static_cast<size_t>(axis)] == 1) continue;
      if (axis < last) return false;
      last = axis;
    }
    return true;
  }

  void transpose(NodeId id) {
    Node node = graph_.node(id);
    Perm perm = node.as<TransposeAttrs>().perm;
    if (const Node* before = transpose_of(node.inputs[0])) {
      perm = compose(before->as<TransposeAttrs>().perm, perm);
      add_sources(node, before->sources);
      node.inputs[0] = before->inputs[0];
      node.attrs = TransposeAttrs{perm};
      graph_.node(id) = node;
    }
    const ValueId x = node.inputs[0];
    if (keeps_order(shape(x), perm)) {
      replacements_.replace(node.output, emit_reshape(graph_, x, Shape(shape(node.output))));
      return;
    }
    NodeId producer = graph_.value(x).producer;
    if (producer != kNone && graph_.node(producer).op == Op::kMatMul && reader_count(x) == 1 &&
        !in_groups(graph_.node(producer))) {
      // The product writes its result where the transpose would have put it.
      Node& product = graph_.node(producer);
      auto attrs = product.as<MatMulAttrs>();
      const Perm out = attrs.perm_out.empty() ? identity_perm(perm.size()) : attrs.perm_out;
      attrs.perm_out = shortened(compose(out, perm));
      product.attrs = attrs;
      graph_.value(x).shape = graph_.value(node.output).shape;
      replacements_.replace(node.output, x);
      while (readers_.size() < graph_.values.size()) readers_.push_back(1);
      readers_[static_cast<size_t>(x)] = reader_count(node.output);
      return;
    }
    graph_.order.push_back(id);
  }

  void take_operands(Node& node) const {
    auto attrs = node.as<MatMulAttrs>();
    for (size_t i = 0; i < 2; ++i) {
      const Node* before = transpose_of(node.inputs[i]);
      if (before == nullptr) continue;
      Perm& perm = i == 0 ? attrs.perm_a : attrs.perm_b;
      const Perm& first = before->as<TransposeAttrs>().perm;
      perm = shortened(compose(first, perm.empty() ? identity_perm(first.size()) : perm));
      add_sources(node, before->sources);
      node.inputs[i] = before->inputs[0];
    }
    node.attrs = attrs;
  }

  void take_gemm_operands(Node& node) const {
    auto attrs = node.as<GemmAttrs>();
    for (size_t i = 0; i < 2; ++i) {
      const Node* before = transpose_of(node.inputs[i]);
      if (before == nullptr) continue;
      bool& flag = i == 0 ? attrs.trans_a : attrs.trans_b;
      flag = !flag;
      add_sources(node, before->sources);
      node.inputs[i] = before->inputs[0];
    }
    node.attrs = attrs;
  }

  // f(transpose(x)) is transpose(f(x)), where the other operands are scalars, constants or transposed alike: behind an
  // elementwise operator the transpose may meet its inverse or a product.
  bool sink(NodeId id) {
    const Node node = graph_.node(id);
    if (!is_pointwise(node)) return false;
    const Node* first = nullptr;
    for (ValueId input : node.inputs) {
      if (const Node* before = transpose_of(input)) first = before;
    }
    if (first == nullptr) return false;
    const Node moved = *first;  // `first` does not outlive the nodes that are made below
    const Perm perm = moved.as<TransposeAttrs>().perm;
    for (ValueId input : node.inputs) {
      const Node* before = transpose_of(input);
      bool alike = before != nullptr && before->as<TransposeAttrs>().perm == perm && reader_count(input) == 1;
      bool constant = graph_.value(input).is_constant() && shape(input).size() <= perm.size();
      bool single = shape(input).empty();
      if (!alike && !constant && !single) return false;
    }
    if (shape(node.output).size() != perm.size()) return false;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      if (const Node* before = transpose_of(input)) {
        inputs.push_back(before->inputs[0]);
      } else {
        inputs.push_back(transposed_constant(input, inverse(perm)));
      }
    }
    ValueId inner = emit_node(graph_, node.op, node.attrs, inputs, node);
    ValueId outer = emit_node(graph_, Op::kTranspose, TransposeAttrs{perm}, {inner}, moved);
    while (readers_.size() < graph_.values.size()) readers_.push_back(1);
    readers_[static_cast<size_t>(outer)] = reader_count(node.output);
    replacements_.replace(node.output, outer);
    return true;
  }

  // A broadcast operand in the order of axes before the transpose.
  ValueId transposed_constant(ValueId id, const Perm& perm) {
    const Value value = graph_.value(id);
    if (value.elements() == 1 || value.shape.empty()) return emit_reshape(graph_, id, {});
    Shape full(perm.size() - value.shape.size(), 1);
    full.insert(full.end(), value.shape.begin(), value.shape.end());
    ValueId wide = emit_reshape(graph_, id, full);
    Shape moved;
    for (int64_t axis : perm) moved.push_back(full[static_cast<size_t>(axis)]);
    if (keeps_order(full, perm)) return emit_reshape(graph_, wide, moved);
    return emit_node(graph_, Op::kTranspose, TransposeAttrs{perm}, {wide}, value.name);
  }

  Graph& graph_;
  Replacements replacements_;
  std::vector<int64_t> readers_;
};

// A convolution of one tap with a filter of its own for each channel.
bool is_scale(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv) return false;
  const auto& a = node.as<ConvAttrs>();
  const Value &in = graph.value(node.inputs[0]), &weight = graph.value(node.inputs[1]);
  const auto all_are = [](const auto& list, int64_t n) {
    return std::all_of(list.begin(), list.end(), [&](int64_t x) { return x == n; });
  };
  // Halves would be rounded between the product and the bias.
  const bool exact =
      in.dtype == DType::kF32 || in.dtype == DType::kF64 || (is_float(in.dtype) && node.inputs.size() == 2);
  return exact && in.shape.size() > 2 && a.group == in.shape[1] && weight.shape[0] == a.group &&
         all_are(std::span(weight.shape).subspan(1), 1) && all_are(a.strides, 1) && all_are(a.pads_begin, 0) &&
         all_are(a.pads_end, 0) && a.block_in == 1 && a.block_out == 1 && a.winograd == 0;
}

// Such convolutions are products by one number a channel, which elementwise operators take.
void scale_channels(Graph& graph) {
  Replacements replacements(graph);
  const std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  for (NodeId id : order) {
    Node node = graph.node(id);
    replacements.update(node);
    graph.node(id) = node;
    if (!is_scale(graph, node)) {
      graph.order.push_back(id);
      continue;
    }
    Shape channels(graph.value(node.inputs[0]).shape.size() - 1, 1);
    channels[0] = graph.value(node.inputs[1]).shape[0];
    ValueId out =
        emit_node(graph, Op::kMul, NoAttrs{}, {node.inputs[0], emit_reshape(graph, node.inputs[1], channels)}, node);
    if (node.inputs.size() == 3)
      out = emit_node(graph, Op::kAdd, NoAttrs{}, {out, emit_reshape(graph, node.inputs[2], channels)}, node);
    replacements.replace(node.output, out);
  }
  replacements.update_outputs();
}

}  // namespace

void flatten_products(Graph& graph) {
  ProductFlattener(graph, Op::kMatMul).run();
}

void flatten_convolutions(Graph& graph) {
  scale_channels(graph);
  ProductFlattener(graph, Op::kConv).run();
}

void fold_transposes(Graph& graph) {
  TransposeFolder(graph).run();
}

namespace {

int64_t transpose_weights_of(Graph& graph, DType type) {
  std::unordered_map<ValueId, ValueId> transposed;
  const std::vector<NodeId> order = std::move(graph.order);
  graph.order.clear();
  int64_t count = 0;
  for (NodeId id : order) {
    Node node = graph.node(id);
    const ValueId weights = node.op == Op::kGemm && !node.as<GemmAttrs>().trans_b ? node.inputs[1] : kNone;
    if (weights != kNone && graph.value(weights).is_constant() && graph.value(weights).dtype == type) {
      auto [made, fresh] = transposed.emplace(weights, kNone);
      if (fresh)
        made->second =
            emit_node(graph, Op::kTranspose, TransposeAttrs{{1, 0}}, {weights}, std::string(graph.value(weights).name));
      GemmAttrs attrs = node.as<GemmAttrs>();
      attrs.trans_b = true;
      node.attrs = attrs;
      node.inputs[1] = made->second;
      graph.node(id) = node;
      ++count;
    }
    graph.order.push_back(id);
  }
  return count;
}

}  // namespace

int64_t transpose_weights(Graph& graph) {
  return transpose_weights_of(graph, DType::kF32);
}

int64_t transpose_byte_weights(Graph& graph) {
  return transpose_weights_of(graph, DType::kI8);
}

}  // namespace tcc::graph
