// What is between the sums of a quantized product and the next tensor of 8 bits, in fewer operators.
//
//   Round(Div(Clip(Mul(Cast(sums), s), 0, 6), t))  becomes  Round(Clip(Mul(Cast(sums), s / t), 0, 6 / t))
//   Clip(Add(Round(Clip(x, a, b)), z), 0, 255)     becomes  Clip(Add(Round(x), z), c, d)
//   Cast(Cast(Clip(Round(x), 0, 255), u8), f32)    becomes  Clip(Round(x), 0, 255)
//
// Results differ by the rounding of the scales only: by a step where a quotient is between two integers.
#include <algorithm>
#include <cmath>

#include "rewrite.h"
#include "tcc/graph/finite.h"
#include "tcc/graph/integer_range.h"

namespace tcc::graph {
namespace {

class RequantizationSimplifier {
 public:
  explicit RequantizationSimplifier(Graph& graph) : graph_(graph) {}

  void run() {
    rewrite([this](const Node& node) { return merged_scale(node); });
    for (NodeId id : graph_.order) merge_limits(graph_.node(id));
    rewrite([this](const Node& node) { return same_integers(node); });
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  bool constant(ValueId id) const { return value(id).is_constant(); }
  bool read_once(ValueId id) const { return readers_[static_cast<size_t>(id)] == 1; }
  // The node that makes a value; nullptr: none, or one of another operator.
  const Node* maker(ValueId id) const {
    return constant(id) || value(id).producer == kNone ? nullptr : &graph_.node(value(id).producer);
  }
  const Node* maker(ValueId id, Op op) const {
    const Node* node = maker(id);
    return node != nullptr && node->op == op ? node : nullptr;
  }
  std::optional<double> number(ValueId id) const {
    const Value& v = value(id);
    if (!v.is_constant() || v.elements() != 1) return std::nullopt;
    return constant_element(*v.constant, v.dtype, 0);
  }

  // Takes the nodes out for which `same` gives a value that may replace their result.
  template <class F>
  void rewrite(F same) {
    readers_ = count_readers(graph_);
    Replacements replacements(graph_);
    std::vector<NodeId> kept;
    for (NodeId id : graph_.order) {
      replacements.update(graph_.node(id));
      const Node node = graph_.node(id);
      if (const std::optional<ValueId> made = same(node)) {
        replacements.replace(node.output, *made);
        readers_[static_cast<size_t>(*made)] += readers_[static_cast<size_t>(node.output)] - 1;
      } else {
        kept.push_back(id);
      }
    }
    graph_.order = std::move(kept);
    replacements.update_outputs();
    readers_ = count_readers(graph_);
  }

  // --- scales

  // A division becomes a part of the scales above it.
  std::optional<ValueId> merged_scale(const Node& node) {
    if (node.op != Op::kDiv) return std::nullopt;
    const std::optional<double> divisor = number(node.inputs[1]);
    if (!divisor || value(node.inputs[1]).dtype != DType::kF32) return std::nullopt;
    if (!(*divisor > 0) || !std::isfinite(*divisor)) return std::nullopt;
    if (value(node.inputs[0]).shape != value(node.output).shape) return std::nullopt;
    std::vector<NodeId> chain;
    if (!find_scales(node.inputs[0], chain)) return std::nullopt;
    for (NodeId id : chain) divide(graph_.node(id), *divisor);
    return node.inputs[0];
  }

  // The nodes between a value and the products with scales that it is made of, these included.
  bool find_scales(ValueId x, std::vector<NodeId>& chain) const {
    const Node* node = maker(x);
    if (node == nullptr || !read_once(x)) return false;
    chain.push_back(node->id);
    switch (node->op) {
      case Op::kMul:
        return constant(node->inputs[1]) && of_integers(node->inputs[0]);
      case Op::kRelu:
      case Op::kClip:
      case Op::kLeakyRelu:
        return find_scales(node->inputs[0], chain);
      case Op::kAdd:
        return find_scales(node->inputs[0], chain) &&
               (constant(node->inputs[1]) || find_scales(node->inputs[1], chain));
      default:
        return false;
    }
  }
  // Integers, also minus their zero point.
  bool of_integers(ValueId id) const {
    if (const Node* sub = maker(id, Op::kSub); sub != nullptr && constant(sub->inputs[1])) id = sub->inputs[0];
    const Node* cast = maker(id, Op::kCast);
    return cast != nullptr && (value(cast->inputs[0]).dtype == DType::kI32 || is_byte(value(cast->inputs[0]).dtype));
  }
  void divide(Node& node, double divisor) {
    if (node.op == Op::kClip) {
      auto& a = std::get<ClipAttrs>(node.attrs);
      a.min /= divisor, a.max /= divisor;
    } else if (node.op == Op::kMul || (node.op == Op::kAdd && constant(node.inputs[1]))) {
      const Value old = value(node.inputs[1]);
      std::vector<double> v = constant_doubles(*old.constant, old.dtype, old.elements());
      for (double& x : v) x /= divisor;
      node.inputs[1] = graph_.add_constant(old.name, old.dtype, old.shape, make_constant_from_doubles(old.dtype, v));
    }
  }

  // --- limits

  // A value that is Add(Round(x), z) or Round(x), of integers in floats.
  struct Rounded {
    const Node* round = nullptr;
    double zero = 0;
  };
  Rounded rounded(ValueId id) const {
    Rounded r;
    if (const Node* add = maker(id, Op::kAdd)) {
      const std::optional<double> zero = number(add->inputs[1]);
      if (!zero || *zero != std::trunc(*zero) || std::fabs(*zero) > 255 || !read_once(id)) return {};
      r.zero = *zero;
      id = add->inputs[0];
    }
    const Node* round = maker(id, Op::kUnary);
    if (round == nullptr || round->as<UnaryAttrs>().fn != UnaryFn::kRound || !read_once(id)) return {};
    r.round = round;
    return r;
  }
  static std::optional<ClipAttrs> limits_of(const Node* node) {
    if (node != nullptr && node->op == Op::kClip) return node->as<ClipAttrs>();
    if (node != nullptr && node->op == Op::kRelu) return ClipAttrs{0, HUGE_VAL};
    return std::nullopt;
  }
  // Limits in front of a rounding are limits behind it. Only readers that drop the sign of 0 may follow.
  void merge_limits(const Node& cast) {
    if (cast.op != Op::kCast || !is_byte(cast.as<CastAttrs>().to)) return;
    const Node* found = maker(cast.inputs[0], Op::kClip);
    if (found == nullptr || !read_once(found->output)) return;
    Node& clip = graph_.node(found->id);
    const Rounded r = rounded(clip.inputs[0]);
    if (r.round == nullptr) return;
    Node& round = graph_.node(r.round->id);
    auto& limits = std::get<ClipAttrs>(clip.attrs);
    while (const std::optional<ClipAttrs> above = limits_of(maker(round.inputs[0]))) {
      const double low = std::nearbyint(above->min) + r.zero, high = std::nearbyint(above->max) + r.zero;
      limits = {std::clamp(low, limits.min, limits.max), std::clamp(high, limits.min, limits.max)};
      round.inputs[0] = graph_.node(value(round.inputs[0]).producer).inputs[0];
    }
    if (r.zero == 0) clip.inputs[0] = round.output;
  }

  // --- integers as floats that become bytes and floats again
  std::optional<ValueId> same_integers(const Node& node) const {
    if (node.op != Op::kCast || node.as<CastAttrs>().to != DType::kF32) return std::nullopt;
    const Node* narrow = maker(node.inputs[0], Op::kCast);
    if (narrow == nullptr || !is_byte(narrow->as<CastAttrs>().to) || !read_once(narrow->output)) return std::nullopt;
    const Node* clip = maker(narrow->inputs[0], Op::kClip);
    if (clip == nullptr || value(clip->output).dtype != DType::kF32 || !read_once(clip->output)) return std::nullopt;
    const auto& limits = clip->as<ClipAttrs>();
    const IntegerRange range = integer_range(narrow->as<CastAttrs>().to);
    const bool whole = limits.min == std::trunc(limits.min) && limits.max == std::trunc(limits.max);
    if (!whole || limits.min < range.least || limits.max > range.greatest) return std::nullopt;
    if (rounded(clip->inputs[0]).round == nullptr) return std::nullopt;
    // NaN would become 0.
    if (!largest_magnitude(graph_, clip->inputs[0])) return std::nullopt;
    return clip->output;
  }

  Graph& graph_;
  std::vector<int64_t> readers_;
};

}  // namespace

void simplify_requantization(Graph& graph) {
  RequantizationSimplifier(graph).run();
  remove_dead_nodes(graph);
}

}  // namespace tcc::graph
