// LayerNorm, Gelu and gated activations as exporters write them in small operators, recognized by what they compute,
// never by names.
#include <cmath>
#include <set>

#include "passes_internal.h"

namespace tcc::graph {
namespace {

class PatternFuser {
 public:
  explicit PatternFuser(Graph& graph) : graph_(graph), readers_(graph.values.size(), 0) {
    for (NodeId id : graph.order) {
      for (ValueId input : graph.node(id).inputs) ++readers_[static_cast<size_t>(input)];
    }
    for (ValueId id : graph.outputs) ++readers_[static_cast<size_t>(id)];
  }

  void run() {
    // From the back: the widest form of a LayerNorm (with scale and bias) is met before its parts.
    for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
      Node& node = graph_.node(*it);
      if (!layer_norm(node) && !gelu(node)) gated(node);
    }
  }

 private:
  const Node* producer(ValueId id, Op op) const {
    NodeId node = graph_.value(id).producer;
    return node != kNone && graph_.node(node).op == op ? &graph_.node(node) : nullptr;
  }
  const Node* unary(ValueId id, UnaryFn fn) const {
    const Node* node = producer(id, Op::kUnary);
    return node != nullptr && node->as<UnaryAttrs>().fn == fn ? node : nullptr;
  }
  bool read_once(ValueId id) const { return readers_[static_cast<size_t>(id)] == 1; }
  std::optional<double> scalar(ValueId id) const {
    const Value& v = graph_.value(id);
    if (!v.is_constant() || !is_float(v.dtype) || v.elements() == 0) return std::nullopt;
    if (v.elements() != 1 && !v.constant->splat) return std::nullopt;
    return constant_element(*v.constant, v.dtype, 0);
  }
  static bool near(double a, double b) { return std::fabs(a - b) <= 1e-4 * std::fabs(b); }

  // The nodes between x and the inputs of `node` are part of it from now on.
  void take_sources(Node& node, ValueId x) {
    std::vector<ValueId> open = node.inputs;
    std::set<ValueId> seen = {x};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const NodeId producer = graph_.value(id).producer;
      if (producer == kNone || !seen.insert(id).second) continue;
      add_sources(node, graph_.node(producer).sources);
      open.insert(open.end(), graph_.node(producer).inputs.begin(), graph_.node(producer).inputs.end());
    }
  }

  // --- LayerNorm: d = x - mean(x); d / sqrt(mean(d * d) + epsilon), then * scale, then + bias.
  struct Normal {
    ValueId x;
    int64_t axis;
    double epsilon;
  };

  // The axes are the last ones, from the returned axis on.
  std::optional<int64_t> trailing_mean(const Node* node) const {
    if (node == nullptr || !node->as<ReduceAttrs>().keep_dims) return std::nullopt;
    const auto& axes = node->as<ReduceAttrs>().axes;
    auto rank = static_cast<int64_t>(graph_.value(node->inputs[0]).shape.size());
    if (axes.empty() || axes.back() != rank - 1 || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size()))
      return std::nullopt;
    return axes.front();
  }

  std::optional<Normal> normal(ValueId quotient) const {
    const Node* div = producer(quotient, Op::kDiv);
    if (div == nullptr) return std::nullopt;
    ValueId d = div->inputs[0], root = div->inputs[1];
    const Node* sqrt = unary(root, UnaryFn::kSqrt);
    const Node* add = sqrt != nullptr ? producer(sqrt->inputs[0], Op::kAdd) : nullptr;
    if (add == nullptr || !read_once(root) || !read_once(sqrt->inputs[0])) return std::nullopt;
    bool swapped = scalar(add->inputs[0]).has_value();
    auto epsilon = scalar(add->inputs[swapped ? 0 : 1]);
    ValueId variance = add->inputs[swapped ? 1 : 0];
    const Node* mean_square = producer(variance, Op::kReduceMean);
    auto axis = trailing_mean(mean_square);
    if (!epsilon || *epsilon < 0 || !axis || !read_once(variance)) return std::nullopt;
    const Node* square = producer(mean_square->inputs[0], Op::kMul);
    if (square == nullptr || !read_once(mean_square->inputs[0])) return std::nullopt;
    if (square->inputs[0] != square->inputs[1]) return std::nullopt;
    ValueId squared = square->inputs[0];
    // One difference read three times, or two equal ones.
    const Node *sub = producer(d, Op::kSub), *other = producer(squared, Op::kSub);
    if (sub == nullptr || other == nullptr || sub->inputs != other->inputs) return std::nullopt;
    bool same = d == squared;
    if (readers_[static_cast<size_t>(d)] != (same ? 3 : 1) || (!same && readers_[static_cast<size_t>(squared)] != 2))
      return std::nullopt;
    const Node* mean = producer(sub->inputs[1], Op::kReduceMean);
    if (trailing_mean(mean) != axis || mean->inputs[0] != sub->inputs[0]) return std::nullopt;
    if (readers_[static_cast<size_t>(sub->inputs[1])] != (same ? 1 : 2)) return std::nullopt;
    return Normal{sub->inputs[0], *axis, *epsilon};
  }

  // A constant that varies over the normalized axes only, in their shape.
  std::optional<ValueId> row_constant(ValueId id, const Shape& row) {
    const Value v = graph_.value(id);
    if (!v.is_constant()) return std::nullopt;
    Shape shape = v.shape;
    while (shape.size() > row.size() && shape.front() == 1) shape.erase(shape.begin());
    if (broadcast_shapes(shape, row) != row) return std::nullopt;
    if (shape == v.shape) return id;
    return graph_.add_constant(v.name, v.dtype, shape, *v.constant);
  }

  bool layer_norm(Node& node) {
    ValueId scaled = node.output, bias = kNone;
    std::optional<Normal> found;
    ValueId scale = kNone;
    auto factor = [&](const Node& mul) {
      for (size_t i = 0; i < 2 && !found; ++i) {
        auto part = normal(mul.inputs[i]);
        if (!part || (mul.inputs[i] != node.output && !read_once(mul.inputs[i]))) continue;
        const Shape shape = graph_.value(part->x).shape;
        auto constant = row_constant(mul.inputs[1 - i], Shape(shape.begin() + part->axis, shape.end()));
        if (!constant || graph_.value(mul.output).shape != shape) continue;
        scale = *constant;
        found = part;
      }
    };
    if (node.op == Op::kAdd) {
      for (size_t i = 0; i < 2 && !found; ++i) {
        const Node* mul = producer(node.inputs[i], Op::kMul);
        if (mul == nullptr || !read_once(node.inputs[i])) continue;
        factor(*mul);
        if (!found) continue;
        const Shape shape = graph_.value(found->x).shape;
        auto constant = row_constant(node.inputs[1 - i], Shape(shape.begin() + found->axis, shape.end()));
        if (!constant || graph_.value(node.output).shape != shape) return false;
        bias = *constant;
      }
    } else if (node.op == Op::kMul) {
      factor(node);
    } else if (node.op == Op::kDiv) {
      found = normal(scaled);
      if (found) {
        DType dtype = graph_.value(scaled).dtype;
        scale = graph_.add_constant("", dtype, {1}, make_splat(dtype, 1));
      }
    }
    if (!found) return false;
    Node& target = graph_.node(node.id);
    take_sources(target, found->x);
    target.op = Op::kLayerNorm;
    target.attrs = LayerNormAttrs{found->axis, found->epsilon};
    target.inputs = {found->x, scale};
    if (bias != kNone) target.inputs.push_back(bias);
    return true;
  }

  // --- Gelu: the product of x, 0.5 and 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  struct Product {
    double constant = 1;
    std::vector<ValueId> factors;
  };

  void collect(ValueId id, bool root, Product& product, int depth = 0) const {
    const Node* mul = producer(id, Op::kMul);
    if (auto c = scalar(id)) {
      product.constant *= *c;
    } else if (mul != nullptr && depth < 8 && (root || read_once(id))) {
      for (ValueId input : mul->inputs) collect(input, false, product, depth + 1);
    } else if (const Node* div = producer(id, Op::kDiv); div && (root || read_once(id)) && scalar(div->inputs[1])) {
      product.constant /= *scalar(div->inputs[1]);
      collect(div->inputs[0], false, product, depth + 1);
    } else {
      product.factors.push_back(id);
    }
  }
  Product product_of(ValueId id) const {
    Product product;
    collect(id, true, product);
    return product;
  }

  // The operand beside the constant `c` in an Add.
  std::optional<ValueId> beside(ValueId sum, double c) const {
    const Node* add = producer(sum, Op::kAdd);
    if (add == nullptr) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      if (auto v = scalar(add->inputs[i]); v && near(*v, c)) return add->inputs[1 - i];
    }
    return std::nullopt;
  }

  bool is_erf_of(ValueId id, ValueId x) const {
    const Node* erf = unary(id, UnaryFn::kErf);
    if (erf == nullptr) return false;
    Product p = product_of(erf->inputs[0]);
    return p.factors == std::vector<ValueId>{x} && near(p.constant, M_SQRT1_2);
  }

  bool is_tanh_of(ValueId id, ValueId x) const {
    const Node* tanh = producer(id, Op::kTanh);
    if (tanh == nullptr) return false;
    Product outer = product_of(tanh->inputs[0]);
    if (outer.factors.size() != 1 || !near(outer.constant, M_2_SQRTPI * M_SQRT1_2)) return false;
    const Node* add = producer(outer.factors[0], Op::kAdd);
    if (add == nullptr) return false;
    for (size_t i = 0; i < 2; ++i) {
      Product cubic = product_of(add->inputs[1 - i]);
      if (add->inputs[i] == x && near(cubic.constant, 0.044715) && cubic.factors == std::vector<ValueId>{x, x, x})
        return true;
    }
    return false;
  }

  bool gelu(Node& node) {
    if (node.op != Op::kMul && node.op != Op::kDiv) return false;
    Product p = product_of(node.output);
    if (p.factors.size() != 2 || !near(p.constant, 0.5)) return false;
    for (size_t i = 0; i < 2; ++i) {
      ValueId x = p.factors[i];
      auto inner = beside(p.factors[1 - i], 1);
      if (!inner || graph_.value(node.output).shape != graph_.value(x).shape) continue;
      bool erf = is_erf_of(*inner, x);
      if (!erf && !is_tanh_of(*inner, x)) continue;
      take_sources(node, x);
      node.op = Op::kUnary;
      node.attrs = UnaryAttrs{erf ? UnaryFn::kGelu : UnaryFn::kGeluTanh};
      node.inputs = {x};
      return true;
    }
    return false;
  }

  // --- x times a gate made of x: Swish (SiLU), HardSwish, Mish.
  std::optional<UnaryAttrs> gate(ValueId id, ValueId x, double factor) const {
    if (const Node* sigmoid = producer(id, Op::kSigmoid); sigmoid != nullptr && near(factor, 1)) {
      Product p = product_of(sigmoid->inputs[0]);
      if (sigmoid->inputs[0] == x) return UnaryAttrs{UnaryFn::kSwish, 1};
      if (p.factors == std::vector<ValueId>{x}) return UnaryAttrs{UnaryFn::kSwish, p.constant};
    }
    if (const Node* hard = unary(id, UnaryFn::kHardSigmoid); hard != nullptr && near(factor, 1)) {
      const auto& a = hard->as<UnaryAttrs>();
      if (hard->inputs[0] == x && near(a.alpha, 1.0 / 6) && near(a.beta, 0.5)) return UnaryAttrs{UnaryFn::kHardSwish};
    }
    if (const Node* clip = producer(id, Op::kClip); clip != nullptr && near(factor, 1.0 / 6)) {
      const auto& a = clip->as<ClipAttrs>();
      if (a.min == 0 && a.max == 6 && beside(clip->inputs[0], 3) == x) return UnaryAttrs{UnaryFn::kHardSwish};
    }
    if (const Node* tanh = producer(id, Op::kTanh); tanh != nullptr && near(factor, 1)) {
      const Node* softplus = unary(tanh->inputs[0], UnaryFn::kSoftplus);
      if (softplus != nullptr && softplus->inputs[0] == x) return UnaryAttrs{UnaryFn::kMish};
    }
    return std::nullopt;
  }

  bool gated(Node& node) {
    if (node.op != Op::kMul && node.op != Op::kDiv) return false;
    Product p = product_of(node.output);
    if (p.factors.size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      ValueId x = p.factors[i];
      auto found = gate(p.factors[1 - i], x, p.constant);
      if (!found || graph_.value(node.output).shape != graph_.value(x).shape) continue;
      if (!is_float(graph_.value(x).dtype)) continue;
      take_sources(node, x);
      node.op = Op::kUnary;
      node.attrs = *found;
      node.inputs = {x};
      return true;
    }
    return false;
  }

  Graph& graph_;
  std::vector<int64_t> readers_;  // by ValueId; of the graph before
};

}  // namespace

void fuse_patterns(Graph& graph) {
  PatternFuser(graph).run();
}

}  // namespace tcc::graph
