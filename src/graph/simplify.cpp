// eliminate, fold_batch_norm and optimize.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "rewrite.h"
#include "tcc/graph/winograd.h"

namespace tcc::graph {

void remove_dead_nodes(Graph& graph) {
  std::vector<char> live(graph.values.size(), 0);
  for (ValueId id : graph.outputs) live[static_cast<size_t>(id)] = 1;
  std::vector<NodeId> kept;
  for (auto it = graph.order.rbegin(); it != graph.order.rend(); ++it) {
    const Node& node = graph.node(*it);
    if (!live[static_cast<size_t>(node.output)]) continue;
    for (ValueId input : node.inputs) live[static_cast<size_t>(input)] = 1;
    kept.push_back(*it);
  }
  std::reverse(kept.begin(), kept.end());
  graph.order = std::move(kept);
}

namespace {

bool is_noop(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kIdentity:
      return true;
    case Op::kReshape:
      return graph.value(node.inputs[0]).shape == graph.value(node.output).shape;
    case Op::kConcat:
      return node.inputs.size() == 1;
    case Op::kTranspose: {
      const auto& perm = node.as<TransposeAttrs>().perm;
      return std::is_sorted(perm.begin(), perm.end());
    }
    case Op::kPad:
    case Op::kExpand:
      return graph.value(node.inputs[0]).shape == graph.value(node.output).shape;
    case Op::kSlice: {
      const auto& steps = node.as<SliceAttrs>().steps;
      return graph.value(node.inputs[0]).shape == graph.value(node.output).shape &&
             std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
    }
    case Op::kCast:
      return graph.value(node.inputs[0]).dtype == graph.value(node.output).dtype;
    default:
      return false;
  }
}

// Each output needs bytes of its own: an Identity copies what is an input, a constant or another output's storage.
void give_outputs_storage(Graph& graph) {
  std::set<ValueId> taken;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ValueId root = storage_root(graph, graph.outputs[i]);
    bool produced = graph.value(root).producer != kNone;
    if (produced && taken.insert(root).second) continue;
    auto copy = graph.add_node(Op::kIdentity, NoAttrs{}, {graph.outputs[i]}, graph.output_names[i]);
    TCC_CHECK(copy.has_value());
    graph.outputs[i] = *copy;
    taken.insert(*copy);
  }
}

// y = scale[c] * x + shift[c], each of one entry or one per channel.
struct Affine {
  std::vector<double> scale, shift;
};

constexpr int64_t kMaxFoldedWeight = int64_t{1} << 27;  // elements

std::vector<double> doubles_of(const Value& value) {
  return constant_doubles(*value.constant, value.dtype, value.elements());
}

// The values of a constant that varies along `axis` of `shape` only.
std::optional<std::vector<double>> channel_values(const Value& value, const Shape& shape, size_t axis) {
  if (!value.is_constant() || value.shape.size() > shape.size()) return std::nullopt;
  if (value.elements() > kMaxFoldedWeight) return std::nullopt;
  for (size_t i = 0; i < value.shape.size(); ++i) {
    size_t onto = shape.size() - value.shape.size() + i;
    if (value.shape[i] != 1 && (onto != axis || value.shape[i] != shape[axis])) return std::nullopt;
  }
  return doubles_of(value);
}

std::optional<Affine> batch_norm_affine(const Graph& graph, const Node& node) {
  for (size_t i = 1; i < 5; ++i) {
    const Value& parameter = graph.value(node.inputs[i]);
    if (!parameter.is_constant() || parameter.elements() > kMaxFoldedWeight) return std::nullopt;
  }
  auto scale = doubles_of(graph.value(node.inputs[1])), bias = doubles_of(graph.value(node.inputs[2]));
  auto mean = doubles_of(graph.value(node.inputs[3])), variance = doubles_of(graph.value(node.inputs[4]));
  Affine affine;
  for (size_t c = 0; c < scale.size(); ++c) {
    double s = scale[c] / std::sqrt(variance[c] + node.as<BatchNormAttrs>().epsilon);
    affine.scale.push_back(s);
    affine.shift.push_back(bias[c] - mean[c] * s);
  }
  return affine;
}

// The map that `node` applies to its input `x`, if it is a constant affine one along `axis`.
std::optional<Affine> affine_of(const Graph& graph, const Node& node, ValueId x, size_t axis) {
  const Shape& shape = graph.value(x).shape;
  if (graph.value(node.output).shape != shape) return std::nullopt;
  if (node.op == Op::kBatchNorm) {
    return axis == 1 && node.inputs[0] == x ? batch_norm_affine(graph, node) : std::nullopt;
  }
  if (node.op != Op::kAdd && node.op != Op::kSub && node.op != Op::kMul && node.op != Op::kDiv) return std::nullopt;
  bool first = node.inputs[0] == x;
  auto values = channel_values(graph.value(node.inputs[first ? 1 : 0]), shape, axis);
  if (!values) return std::nullopt;
  if (node.op == Op::kAdd) return Affine{{1}, *values};
  if (node.op == Op::kMul) return Affine{*values, {0}};
  if (node.op == Op::kSub && !first) return Affine{{-1}, *values};
  if (!first) return std::nullopt;
  for (double& v : *values) v = node.op == Op::kSub ? -v : 1 / v;
  return node.op == Op::kSub ? Affine{{1}, *values} : Affine{*values, {0}};
}

double at(const std::vector<double>& v, int64_t c) {
  return v[v.size() == 1 ? 0 : static_cast<size_t>(c)];
}

ValueId add_derived(Graph& graph, ValueId from, Shape shape, const std::vector<double>& values) {
  const Value like = graph.value(from);
  return graph.add_constant(like.name, like.dtype, std::move(shape), make_constant_from_doubles(like.dtype, values));
}

// The weight times the scale of element i's channel, i / inner % channels, each product rounded once. Models are mostly
// such weights, so those of 32 bits take no way around over doubles in memory. Nothing where an element leaves the
// range of finite numbers: its products with 0 would be NaN.
std::optional<ValueId> add_scaled(Graph& graph, ValueId id, const Affine& affine, int64_t inner, int64_t channels) {
  const Value weight = graph.value(id);
  const int64_t count = weight.elements();
  if (weight.dtype != DType::kF32) {
    std::vector<double> w = doubles_of(weight);
    for (int64_t i = 0; i < count; ++i) w[static_cast<size_t>(i)] *= at(affine.scale, i / inner % channels);
    if (!std::all_of(w.begin(), w.end(), [](double x) { return std::isfinite(x); })) return std::nullopt;
    return add_derived(graph, id, weight.shape, w);
  }
  std::vector<std::byte> bytes;
  if (auto dense = dense_bytes(*weight.constant, weight.dtype, count, bytes); bytes.empty())
    bytes.assign(dense.begin(), dense.end());
  bool finite = true;
  for (int64_t first = 0; first < count; first += inner) {
    const double scale = at(affine.scale, first / inner % channels);
    for (int64_t i = first; i < first + inner; ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i * 4, sizeof value);
      value = static_cast<float>(value * scale);
      finite &= std::isfinite(value);
      std::memcpy(bytes.data() + i * 4, &value, sizeof value);
    }
  }
  if (!finite) return std::nullopt;
  return graph.add_constant(weight.name, weight.dtype, weight.shape, make_constant(std::move(bytes)));
}

// New weight and bias for `target` so that it also applies `affine`. The weight holds `channels` slices; element i
// belongs to channel (i / inner) % channels.
bool absorb(Graph& graph, NodeId target, const Affine& affine) {
  Node node = graph.node(target);
  DType dtype = graph.value(node.output).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) return false;
  if (!std::all_of(affine.scale.begin(), affine.scale.end(), [](double x) { return std::isfinite(x); })) return false;
  int64_t channels = graph.value(node.output).shape[1];
  if (node.op == Op::kBatchNorm) {
    auto own = batch_norm_affine(graph, node);
    if (!own) return false;
    // Folded into scale and bias with mean and variance kept: bias' = s * bias + t, scale' = s * scale.
    auto scale = doubles_of(graph.value(node.inputs[1])), bias = doubles_of(graph.value(node.inputs[2]));
    for (int64_t c = 0; c < channels; ++c) {
      scale[static_cast<size_t>(c)] *= at(affine.scale, c);
      bias[static_cast<size_t>(c)] = bias[static_cast<size_t>(c)] * at(affine.scale, c) + at(affine.shift, c);
    }
    node.inputs[1] = add_derived(graph, node.inputs[1], {channels}, scale);
    node.inputs[2] = add_derived(graph, node.inputs[2], {channels}, bias);
    graph.node(target) = node;
    return true;
  }
  const Value& weight = graph.value(node.inputs[1]);
  if (!weight.is_constant() || weight.elements() > kMaxFoldedWeight) return false;
  bool gemm = node.op == Op::kGemm;
  std::vector<double> bias(static_cast<size_t>(channels), 0.0);
  if (node.inputs.size() == 3) {
    auto old = channel_values(graph.value(node.inputs[2]), {1, channels}, 1);
    if (!old) return false;
    double beta = gemm ? node.as<GemmAttrs>().beta : 1;
    for (int64_t c = 0; c < channels; ++c) bias[static_cast<size_t>(c)] = beta * at(*old, c);
  }
  for (int64_t c = 0; c < channels; ++c) {
    auto& b = bias[static_cast<size_t>(c)];
    const bool finite = std::isfinite(b) && std::isfinite(at(affine.shift, c));
    b = b * at(affine.scale, c) + at(affine.shift, c);
    if (finite && !std::isfinite(dtype == DType::kF32 ? static_cast<float>(b) : b)) return false;
  }
  bool scales = affine.scale != std::vector<double>{1};
  if (scales) {
    const int64_t inner = !gemm || node.as<GemmAttrs>().trans_b ? weight.elements() / channels : 1;
    const auto scaled = add_scaled(graph, node.inputs[1], affine, inner, channels);
    if (!scaled) return false;
    node.inputs[1] = *scaled;
  }
  node.inputs.resize(2);
  node.inputs.push_back(add_derived(graph, node.inputs[1], {channels}, bias));
  if (gemm) std::get<GemmAttrs>(node.attrs).beta = 1;
  graph.node(target) = node;
  return true;
}

// Replaces a BatchNorm whose parameters are constant by Mul and Add; appends them to graph.order.
ValueId expand_batch_norm(Graph& graph, const Node& node, const Affine& affine) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  Shape channel_shape(shape.size() - 1, 1);
  channel_shape[0] = shape[1];
  // Scales and shifts of 16 bits would lose what is left where the product and the shift cancel.
  const DType dtype = graph.value(node.output).dtype;
  const bool wider = dtype == DType::kF16 || dtype == DType::kBF16;
  auto of_channels = [&](ValueId from, const std::vector<double>& values) {
    if (!wider) return add_derived(graph, from, channel_shape, values);
    const std::string name = graph.value(from).name;
    return graph.add_constant(name, DType::kF32, channel_shape, make_constant_from_doubles(DType::kF32, values));
  };
  const ValueId scale = of_channels(node.inputs[1], affine.scale), shift = of_channels(node.inputs[2], affine.shift);
  ValueId x = node.inputs[0];
  if (wider) x = emit_node(graph, Op::kCast, CastAttrs{DType::kF32}, {x}, node);
  x = emit_node(graph, Op::kMul, NoAttrs{}, {x, scale}, node);
  x = emit_node(graph, Op::kAdd, NoAttrs{}, {x, shift}, node);
  return wider ? emit_node(graph, Op::kCast, CastAttrs{dtype}, {x}, node) : x;
}

}  // namespace

void eliminate(Graph& graph) {
  Replacements replacements(graph);
  std::vector<NodeId> kept;
  for (NodeId id : graph.order) {
    Node& node = graph.node(id);
    replacements.update(node);
    if (node.op == Op::kReshape) {
      const Value& in = graph.value(node.inputs[0]);
      if (in.producer != kNone && graph.node(in.producer).op == Op::kReshape) {
        add_sources(node, graph.node(in.producer).sources);
        node.inputs[0] = graph.node(in.producer).inputs[0];
      }
    }
    if (node.op == Op::kConcat && graph.value(node.output).elements() > 0)
      std::erase_if(node.inputs, [&](ValueId part) { return graph.value(part).elements() == 0; });
    if (is_noop(graph, node)) {
      replacements.replace(node.output, node.inputs[0]);
    } else {
      kept.push_back(id);
    }
  }
  graph.order = std::move(kept);
  replacements.update_outputs();
  remove_dead_nodes(graph);
  give_outputs_storage(graph);
}

Result<void> fold_batch_norm(Graph& graph) {
  Replacements replacements(graph);
  std::vector<int64_t> readers = count_readers(graph);
  auto reader_count = [&](ValueId id) {
    return static_cast<size_t>(id) < readers.size() ? readers[static_cast<size_t>(id)] : 1;
  };

  std::vector<NodeId> kept;
  for (NodeId id : graph.order) {
    replacements.update(graph.node(id));
    const Node node = graph.node(id);
    bool folded = false;
    for (ValueId x : node.inputs) {
      NodeId producer = graph.value(x).producer;
      if (producer == kNone || reader_count(x) != 1) continue;
      Op op = graph.node(producer).op;
      if (op != Op::kConv && op != Op::kGemm && op != Op::kBatchNorm) continue;
      auto affine = affine_of(graph, node, x, 1);
      if (!affine || !absorb(graph, producer, *affine)) continue;
      replacements.replace(node.output, x);
      readers[static_cast<size_t>(x)] = reader_count(node.output);
      folded = true;
      break;
    }
    if (!folded) kept.push_back(id);
  }
  replacements.update_outputs();

  graph.order.clear();
  Replacements expansions(graph);
  for (NodeId id : kept) {
    expansions.update(graph.node(id));
    const Node node = graph.node(id);
    std::optional<Affine> affine;
    if (node.op == Op::kBatchNorm) affine = batch_norm_affine(graph, node);
    if (affine) {
      ValueId replacement = expand_batch_norm(graph, node, *affine);
      expansions.replace(node.output, replacement);
    } else {
      graph.order.push_back(id);
    }
  }
  expansions.update_outputs();
  return {};
}

namespace {

// Marks the graph, and drops the attribute for which a reduction looks at its elements again.
void allow_fast_math(Graph& graph) {
  graph.fast_math = true;
  for (NodeId id : graph.order)
    if (auto* reduce = std::get_if<ReduceAttrs>(&graph.node(id).attrs)) reduce->keeps_nan = false;
}

}  // namespace

Result<void> optimize(Graph& graph, Evaluator* evaluator, const OptimizeOptions& options) {
  TCC_TRY_VOID(infer_shapes(graph));
  if (options.fast_math) allow_fast_math(graph);
  eliminate(graph);
  if (!options.packed_weights || options.precision) unpack_products(graph);
  shrink_byte_tensors(graph);
  quantize_products(graph, {options.layouts ? kByteGroup : 1, options.signed_bytes});
  TCC_TRY_VOID(fold_constants(graph, evaluator));
  slice_gathers(graph);
  fuse_patterns(graph);
  flatten_products(graph);
  eliminate(graph);
  fold_transposes(graph);
  TCC_TRY_VOID(fold_constants(graph, nullptr));
  eliminate(graph);
  TCC_TRY_VOID(fold_batch_norm(graph));
  flatten_convolutions(graph);
  if (options.transpose_weights && transpose_weights(graph) > 0) TCC_TRY_VOID(fold_constants(graph, nullptr));
  if (options.signed_bytes && transpose_byte_weights(graph) > 0) TCC_TRY_VOID(fold_constants(graph, nullptr));
  if (options.precision) {
    eliminate(graph);
    lower_precision(graph, *options.precision);
    eliminate(graph);
  }
  if (widen_products(graph, options.widened) > 0) {
    eliminate(graph);
    TCC_TRY_VOID(fold_constants(graph, evaluator));
    eliminate(graph);
  }
  if (options.winograd != 0) {
    if (!is_winograd_tile(options.winograd))
      return make_error(ErrorClass::kUsage, fmt::format("there is no winograd form of tiles of {}", options.winograd),
                        "--winograd takes 2 or 4, or 0 for none");
    apply_winograd(graph, options.winograd, options.winograd_transform);
  }
  if (options.layouts) {
    eliminate(graph);
    assign_layouts(graph, *options.layouts);
  }
  eliminate(graph);
  share_memory(graph);
  repeat_slices(graph);
  verify_graph(graph);
  return {};
}

}  // namespace tcc::graph
