// Lowering of single precision to a 16-bit float type (mixed precision, Micikevicius et al., arXiv 1710.03740).
//
//   %y:f32 = Gemm(%x:f32, w:f32)          %x1:f16 = Cast(%x)
//   %z:f32 = Relu(%y)               ->    %y1:f16 = Gemm(%x1, w1:f16)
//   %e:f32 = Exp(%z)                      %z1:f16 = Relu(%y1)
//                                         %z2:f32 = Cast(%z1)
//                                         %e:f32 = Exp(%z2)
//
// The pass walks the nodes in order. Of each value it keeps the version that its producer makes, and makes the other
// one by a Cast when a reader asks for it. It runs behind the patterns, because LayerNorm and Gelu written in small
// operators would otherwise be lowered part by part, and behind fold_batch_norm, so that weights are rounded once.
// Groups of f16 and bf16 compute in f32, and a Cast between an operator and the next one is a member of the group.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "rewrite.h"

namespace tcc::graph {
namespace {

enum class Policy : uint8_t {
  kLow,     // takes and gives the low type
  kFollow,  // as LowPrecision says
  kFull,
};

Policy unary_policy(UnaryFn fn) {
  return unary_row(fn).precision == LowPrecision::kFollow ? Policy::kFollow : Policy::kFull;
}

Policy binary_policy(BinaryFn fn) {
  const bool picks = fn == BinaryFn::kMax || fn == BinaryFn::kMin || fn == BinaryFn::kPRelu;
  return picks ? Policy::kFollow : Policy::kFull;
}

// Of an operator by itself; Lowering::policy_of looks at the operands, too.
Policy operator_policy(const Node& node) {
  switch (op_precision(node.op)) {
    case OpPrecision::kProduct:
      return Policy::kLow;
    case OpPrecision::kFollow:
      return Policy::kFollow;
    case OpPrecision::kFull:
      return Policy::kFull;
    case OpPrecision::kFunction:
      return node.op == Op::kUnary ? unary_policy(node.as<UnaryAttrs>().fn) : binary_policy(node.as<BinaryAttrs>().fn);
  }
  TCC_UNREACHABLE();
}

// The magnitudes of a constant f32 tensor.
struct Magnitudes {
  double most = 0;   // NaN where an element is
  double least = 0;  // of elements other than 0; 0: all elements are
};
Magnitudes magnitudes_of(const Value& value) {
  Magnitudes m;
  const std::span<const std::byte> bytes = value.constant->bytes;
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float element = 0;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    const double magnitude = std::fabs(element);
    if (!(magnitude <= m.most)) m.most = magnitude;
    if (std::isnan(magnitude)) return m;
    if (magnitude > 0 && (m.least == 0 || magnitude < m.least)) m.least = magnitude;
  }
  return m;
}

class Lowering {
 public:
  Lowering(Graph& graph, DType low) : graph_(graph), low_(low), leaves_(graph.values.size(), 0) {
    grow();
    for (ValueId id : graph.outputs) leaves_[static_cast<size_t>(id)] = 1;
  }

  int64_t run() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    int64_t lowered = 0;
    for (NodeId id : order) {
      const Node node = graph_.node(id);
      const bool low = runs_low(node);
      lowered += low && operator_policy(node) == Policy::kLow ? 1 : 0;
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(low ? low_version(input) : full_version(input));
      const ValueId made = emit_node(graph_, node.op, node.attrs, std::move(inputs), node);
      graph_.value(made).name = graph_.value(node.output).name;
      grow();
      set(node.output, low ? Versions{kNone, made} : Versions{made, kNone});
      if (!low) continue;
      // A value that leaves the model is converted where it is made, and its readers that may have either type take
      // f32: otherwise the conversion would be a task of its own.
      if (leaves_[static_cast<size_t>(node.output)]) full_version(node.output);
      follows_low_[static_cast<size_t>(node.output)] = !leaves_[static_cast<size_t>(node.output)];
    }
    for (ValueId& output : graph_.outputs) output = full_version(output);
    advance_conversions(graph_, conversions_);
    return lowered;
  }

 private:
  // kNone: not made yet.
  struct Versions {
    ValueId full = kNone, low = kNone;
  };

  void grow() {
    for (size_t id = versions_.size(); id < graph_.values.size(); ++id)
      versions_.push_back({static_cast<ValueId>(id), kNone});
    follows_low_.resize(graph_.values.size(), 0);
  }
  Versions of(ValueId id) const { return versions_[static_cast<size_t>(id)]; }
  void set(ValueId id, Versions versions) { versions_[static_cast<size_t>(id)] = versions; }
  bool is_single(ValueId id) const { return graph_.value(id).dtype == DType::kF32; }

  ValueId full_version(ValueId id) {
    if (of(id).full == kNone) {
      const ValueId made = converted(id, DType::kF32);
      set(id, {made, of(id).low});
    }
    return of(id).full;
  }
  ValueId low_version(ValueId id) {
    if (!is_single(id)) return full_version(id);
    if (of(id).low == kNone) {
      const ValueId made = graph_.value(id).is_constant() ? rounded(id) : converted(id, low_);
      set(id, {of(id).full, made});
    }
    return of(id).low;
  }
  // In front of views, where the operator that makes the value takes the Cast into its group.
  ValueId converted(ValueId id, DType to) {
    const Value value = graph_.value(id);
    const bool view = value.producer != kNone && graph_.node(value.producer).op == Op::kReshape;
    const ValueId source = view ? graph_.node(value.producer).inputs[0] : id;
    const ValueId from =
        to == low_ ? (view ? low_version(source) : full_version(id)) : (view ? full_version(source) : low_version(id));
    const ValueId made = view ? emit_reshape(graph_, from, value.shape)
                              : emit_node(graph_, Op::kCast, CastAttrs{to}, {from}, value.name);
    if (!view) conversions_.insert(graph_.value(made).producer);
    grow();
    return made;
  }
  ValueId rounded(ValueId id) {
    const Value value = graph_.value(id);
    const Constant constant =
        value.constant->splat
            ? make_splat(low_, constant_element(*value.constant, value.dtype, 0))
            : make_constant_from_doubles(low_, constant_doubles(*value.constant, value.dtype, value.elements()));
    const ValueId made = graph_.add_constant(value.name, low_, value.shape, constant);
    grow();
    return made;
  }

  // Elements stay finite, and the largest one keeps its accuracy.
  bool fits(const Value& value) const {
    const double largest = low_ == DType::kF16 ? 65504 : 0x1.fep127;
    const double normal = low_ == DType::kF16 ? 0x1p-14 : 0x1p-126;
    const Magnitudes m = magnitudes_of(value);
    return m.most <= largest && (m.most == 0 || m.most >= normal);
  }

  bool runs_low(const Node& node) const {
    const Policy policy = operator_policy(node);
    if (policy == Policy::kFull || !is_single(node.output)) return false;
    bool any_low = false, all_low = true, any_read = false;
    for (ValueId input : node.inputs) {
      const Value& value = graph_.value(input);
      if (!is_float(value.dtype)) continue;
      if (!is_single(input) || (value.is_constant() && !fits(value))) return false;
      if (value.is_constant()) continue;
      any_read = true;
      const bool is_low = follows_low_[static_cast<size_t>(input)] != 0;
      any_low |= is_low;
      all_low &= is_low;
    }
    if (policy == Policy::kLow) return true;
    if (op_class(node.op) == OpClass::kMove && !any_read) return true;  // picks elements of a constant
    return any_low && all_low && keeps_range(node);
  }

  // A square leaves the range where its operand is far from the end of it, and so does a quotient by a small number.
  bool keeps_range(const Node& node) const {
    if (node.op == Op::kMul) return node.inputs[0] != node.inputs[1];
    if (node.op != Op::kDiv) return true;
    const Value& divisor = graph_.value(node.inputs[1]);
    return divisor.is_constant() && magnitudes_of(divisor).least >= 1;
  }

  Graph& graph_;
  DType low_;
  // By the value of the graph before.
  std::vector<Versions> versions_;
  std::vector<char> follows_low_;  // readers that may have either type take the low version
  std::vector<char> leaves_;       // is an output of the graph
  std::set<NodeId> conversions_;   // the Casts that the pass made
};

}  // namespace

int64_t lower_precision(Graph& graph, DType low) {
  TCC_CHECK(low == DType::kF16 || low == DType::kBF16, "single precision is lowered to f16 or bf16");
  return Lowering(graph, low).run();
}

}  // namespace tcc::graph
