// The pieces that all nests share, and the kernel around them.
#include "nest.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fast_math.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;

Type ir_type(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kF32:
      return Type::kF32;
    case graph::DType::kF64:
      return Type::kF64;
    case graph::DType::kF16:
      return Type::kF16;
    case graph::DType::kBF16:
      return Type::kBF16;
    case graph::DType::kI8:
      return Type::kI8;
    case graph::DType::kU8:
      return Type::kU8;
    case graph::DType::kI16:
      return Type::kI16;
    case graph::DType::kU16:
      return Type::kU16;
    case graph::DType::kI32:
      return Type::kI32;
    case graph::DType::kI64:
    case graph::DType::kU64:
      return Type::kI64;
    case graph::DType::kU32:
      return Type::kI32;
    case graph::DType::kBool:
      return Type::kBool;
  }
  TCC_UNREACHABLE();
}

GroupNest::GroupNest(const graph::Graph& graph, const graph::FusionGroup& group, const TaskOptions& options)
    : graph_(graph), group_(group), options_(options) {
  moves_ = graph::op_class(graph.node(group.anchor).op) == graph::OpClass::kMove && group.nodes.size() == 1;
  compute_ = widened(graph.value(group.output).dtype);
  block_constants();
  flatten_positions();
  split_groups();
}

const graph::Shape& GroupNest::shape_of(graph::ValueId id) const {
  auto flat = flat_shapes_.find(id);
  return flat == flat_shapes_.end() ? value(id).shape : flat->second;
}

namespace {

bool all(const std::vector<int64_t>& v, int64_t x) {
  return std::all_of(v.begin(), v.end(), [x](int64_t y) { return y == x; });
}
bool is_pointwise(const graph::ConvAttrs& a) {
  return all(a.kernel, 1) && all(a.pads_begin, 0) && all(a.pads_end, 0);
}

// The shape with its last axes, those of `positions`, made one; nothing where it is broadcast along some of them only.
std::optional<graph::Shape> flat_shape(const graph::Shape& shape, const graph::Shape& positions) {
  size_t own = std::min(shape.size(), positions.size());
  graph::Shape flat(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(own));
  if (own == 0) return flat;
  graph::Shape last(shape.end() - static_cast<std::ptrdiff_t>(own), shape.end());
  bool repeated = std::all_of(last.begin(), last.end(), [](int64_t e) { return e == 1; });
  if (!repeated && last != positions) return std::nullopt;
  flat.push_back(graph::element_count(last));
  return flat;
}

}  // namespace

void GroupNest::block_constants() {
  const graph::Node& anchor = graph_.node(group_.anchor);
  if (anchor.op != graph::Op::kConv) return;
  const auto& a = anchor.as<graph::ConvAttrs>();
  if (a.block_in == 1 && a.block_out == 1) return;
  const graph::Shape& weight = value(anchor.inputs[1]).shape;
  auto split = [](graph::Shape& shape, int64_t extent, int64_t block) {
    shape.push_back(extent / block);
    if (block > 1) shape.push_back(block);
  };
  graph::Shape blocked, bias;
  split(blocked, weight[0], a.block_out);
  split(blocked, weight[1], a.group > 1 ? 1 : a.block_in);
  blocked.insert(blocked.end(), weight.begin() + 2, weight.end());
  const bool given = weight.size() == a.kernel.size() + 4;
  flat_shapes_[anchor.inputs[1]] = given ? weight : blocked;
  split(bias, given ? weight[0] * a.block_out : weight[0], a.block_out);
  if (anchor.inputs.size() == 3) flat_shapes_[anchor.inputs[2]] = bias;
}

void GroupNest::flatten_positions() {
  const graph::Node& anchor = graph_.node(group_.anchor);
  if (!flat_shapes_.empty() || anchor.op != graph::Op::kConv || !is_pointwise(anchor.as<graph::ConvAttrs>())) return;
  const bool strided = !all(anchor.as<graph::ConvAttrs>().strides, 1);
  const graph::Shape& out = value(anchor.output).shape;
  graph::Shape positions(out.begin() + 2, out.end());
  if (positions.size() < 2) return;
  std::map<graph::ValueId, graph::Shape> flat;
  for (graph::NodeId id : group_.nodes) {
    const graph::Node& node = graph_.node(id);
    if (id != group_.anchor && graph::op_class(node.op) != graph::OpClass::kElementwise) return;
    std::vector<graph::ValueId> values = node.inputs;
    values.push_back(node.output);
    for (size_t i = 0; i < values.size(); ++i) {
      const graph::Shape& shape = value(values[i]).shape;
      bool inner = i + 1 < values.size();
      // One number a channel.
      bool vector = inner && (node.op == graph::Op::kConv ? i == 2 : node.op == graph::Op::kBatchNorm && i > 0);
      const bool own_shape = vector || (strided && id == group_.anchor && i == 0);
      std::optional<graph::Shape> made = own_shape ? shape : flat_shape(shape, positions);
      if (!made) return;
      auto [known, fresh] = flat.emplace(values[i], *made);
      if (!fresh && known->second != *made) return;
    }
  }
  flat_shapes_ = std::move(flat);
}

void GroupNest::split_groups() {
  const graph::Node& anchor = graph_.node(group_.anchor);
  if (!flat_shapes_.empty() || anchor.op != graph::Op::kConv) return;
  const auto& a = anchor.as<graph::ConvAttrs>();
  const int64_t groups = a.group, channels = value(anchor.inputs[0]).shape[1];
  const graph::Shape& out = value(anchor.output).shape;
  if (groups == 1 || channels == groups || a.block_in > 1 || a.block_out > 1 || a.winograd > 0) return;
  std::map<graph::ValueId, graph::Shape> split;
  // The axis becomes two; one that is broadcast stays one.
  auto add = [&](graph::ValueId id, std::ptrdiff_t axis) {
    graph::Shape shape = value(id).shape;
    if (axis >= 0 && shape[static_cast<size_t>(axis)] == 1)
      shape.insert(shape.begin() + axis, 1);
    else if (axis >= 0) {
      int64_t& extent = shape[static_cast<size_t>(axis)];
      if (extent % groups != 0) return false;
      extent /= groups;
      shape.insert(shape.begin() + axis, groups);
    }
    auto [known, fresh] = split.emplace(id, shape);
    return fresh || known->second == shape;
  };
  bool fits = add(anchor.inputs[0], 1) && add(anchor.inputs[1], 0) && add(anchor.output, 1);
  if (anchor.inputs.size() == 3) fits &= add(anchor.inputs[2], 0);
  for (graph::NodeId id : group_.nodes) {
    if (id == group_.anchor) continue;
    const graph::Node& node = graph_.node(id);
    if (graph::op_class(node.op) != graph::OpClass::kElementwise || node.op == graph::Op::kBatchNorm) return;
    if (value(node.output).shape != out) return;
    fits &= add(node.output, 1);
    // Operands are aligned at their last axes.
    for (graph::ValueId input : node.inputs)
      fits &= add(input, std::max<std::ptrdiff_t>(std::ssize(value(input).shape) - std::ssize(out) + 1, -1));
  }
  if (!fits) return;
  flat_shapes_ = std::move(split);
  groups_split_ = true;
}

namespace {

// Name hints of the values that come from outside the group.
std::string param_name(const graph::Node& node, size_t input, bool constant) {
  switch (graph::op_class(node.op)) {
    case graph::OpClass::kContraction:
      if (input == 2) return node.op == graph::Op::kConv ? "b" : "c";
      if (node.op == graph::Op::kConv) return input == 0 ? "x" : "w";
      return input == 0 ? "a" : "b";
    case graph::OpClass::kWindow:
    case graph::OpClass::kReduction:
    case graph::OpClass::kRowwise:
    case graph::OpClass::kView:
    case graph::OpClass::kMove:
      return "x";
    case graph::OpClass::kElementwise:
      if (node.op == graph::Op::kBatchNorm) {
        static constexpr const char* kNames[] = {"x", "scale", "bias", "mean", "variance"};
        return kNames[input];
      }
      return constant ? "const" : input == 0 ? "x" : "y";
  }
  TCC_UNREACHABLE();
}

}  // namespace

void GroupNest::add_params(Task& task) {
  std::map<std::string, int> names;
  for (graph::NodeId id : group_.nodes) {
    const graph::Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      graph::ValueId input = node.inputs[i];
      const graph::Value& v = value(input);
      bool made_inside = false;
      for (graph::NodeId other : group_.nodes) made_inside = made_inside || graph_.node(other).output == input;
      if (made_inside || tensors_.count(input) != 0) continue;
      std::string name = param_name(node, i, v.is_constant());
      if (int n = names[name]++; n > 0) name += std::to_string(n);
      const graph::Shape& shape = shape_of(input);
      const Buffer* buffer = kernel_.add_buffer(name.c_str(), ir_type(v.dtype), shape,
                                                v.is_constant() ? BufferRole::kWeight : BufferRole::kInput);
      tensors_[input] = {buffer, shape};
      task.params.push_back({v.is_constant() ? ParamKind::kConstant : ParamKind::kInput, input});
    }
  }
}

void GroupNest::build(Task& task) {
  add_params(task);
  size_t before_anchor = 0;  // stages
  for (graph::NodeId id : group_.nodes) {
    if (id == group_.anchor) before_anchor = stages_.size();
    plan(graph_.node(id));
  }
  TCC_CHECK(!stages_.empty());
  const graph::Value& result = value(group_.output);
  const graph::Shape& shape = shape_of(group_.output);
  const Buffer* output = kernel_.add_buffer("out", ir_type(result.dtype), shape, BufferRole::kOutput);
  task.params.push_back({ParamKind::kOutput, group_.output});
  compute_ = widened(result.dtype);
  if (stages_.back().combines && output->type != compute_) {
    Stage& last = stages_.back();
    graph::ValueId id = last.result;
    stages_.push_back({unique_name("cast"), shape, false,
                       [this, id](const std::string& name, const Tensor& out) {
                         return map_nest(name, axes_of(out.shape), out,
                                         [&](const Exprs& at) { return read(operand(id), at); });
                       },
                       id});
  }
  std::vector<Stmt> nests;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    compute_ = widened(value(stage.result).dtype);
    Tensor out = i + 1 == stages_.size() ? Tensor{output, shape} : make_temp(stage.name, stage.shape);
    nests.push_back(stage.emit(stage.name, out));
    if (stage.result != graph::kNone) tensors_[stage.result] = out;
  }
  const Stmt root = b().seq(nests);
  task.kernel = kernel_.finish(graph_.fast_math ? take_floats_as_numbers(b(), root) : root);
  // The first block that does more than pad.
  std::vector<const Block*> blocks = collect_blocks(task.kernel.root);
  bool pads = blocks.size() > 1 && name_hint(task.kernel, blocks[0]->id) == kPadBlock &&
              anchor_kind(graph_, graph_.node(group_.anchor)) != AnchorKind::kMove;
  const graph::Node& anchor = graph_.node(group_.anchor);
  // A Concat has a block for each of its parts. What they read has one block each.
  const bool named = before_anchor > 0 && anchor.op != graph::Op::kConcat;
  task.anchor_block =
      named ? stages_[before_anchor].name : name_hint(task.kernel, blocks[before_anchor + (pads ? 1 : 0)]->id);
  if (anchor.op == graph::Op::kConv && anchor.as<graph::ConvAttrs>().winograd > 0) task.anchor_block = kWinogradProduct;
  if (is_attention(graph_, group_)) task.anchor_block = kAttentionProduct;
}

void GroupNest::add_stage(std::string name, const graph::Node& node, bool combines,
                          std::function<Stmt(const std::string&, const Tensor&)> emit) {
  stages_.push_back({unique_name(std::move(name)), shape_of(node.output), combines, std::move(emit), node.output});
}

void GroupNest::add_map(std::string name, const graph::Node& node, std::function<Expr(const Exprs&)> value) {
  add_stage(std::move(name), node, false, [this, value](const std::string& unique, const Tensor& out) {
    return map_nest(unique, axes_of(out.shape), out, value);
  });
}

std::string GroupNest::unique_name(std::string name) {
  if (int n = used_names_[name]++; n > 0) name += std::to_string(n);
  return name;
}

Tensor GroupNest::make_temp(const std::string& name, const graph::Shape& shape) {
  return {kernel_.add_buffer((name + "_out").c_str(), compute_, shape, BufferRole::kTemp), shape};
}

namespace {

bool is_blocked(const graph::Node& node, size_t rank) {
  // Of a convolution either side may be the blocked one.
  if (node.op == graph::Op::kConv) {
    const auto& a = node.as<graph::ConvAttrs>();
    return rank == a.kernel.size() + 3 && (a.block_in > 1 || a.block_out > 1);
  }
  bool pool = node.op == graph::Op::kMaxPool || node.op == graph::Op::kAveragePool;
  return pool && node.as<graph::PoolAttrs>().block > 1;
}

}  // namespace

std::vector<NestAxis> GroupNest::axes_of(const graph::Shape& shape) const {
  static constexpr const char* kImage[] = {"n", "c", "od", "oh", "ow"};
  static constexpr const char* kMatrix[] = {"m", "n"};
  static constexpr const char* kPlain[] = {"i0", "i1", "i2",  "i3",  "i4",  "i5",  "i6",  "i7",
                                           "i8", "i9", "i10", "i11", "i12", "i13", "i14", "i15"};
  graph::OpClass cls = graph::op_class(graph_.node(group_.anchor).op);
  bool image = (graph_.node(group_.anchor).op == graph::Op::kConv || cls == graph::OpClass::kWindow) &&
               shape.size() >= 3 && shape.size() <= 6;
  bool matrix = graph_.node(group_.anchor).op == graph::Op::kGemm;
  // Channels in blocks have the last axis, too.
  bool blocked = image && is_blocked(graph_.node(group_.anchor), shape.size());
  size_t plain = shape.size() - (blocked ? 1 : 0);
  std::vector<NestAxis> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    const char* name = i >= plain ? "cb" : image ? kImage[i < 2 ? i : i + 5 - plain] : matrix ? kMatrix[i] : kPlain[i];
    if (image && groups_split_ && (i == 1 || i == 2)) name = i == 1 ? "g" : "c";
    axes.push_back({name, shape[i]});
  }
  return axes;
}

Stmt GroupNest::map_nest(const std::string& name, const std::vector<NestAxis>& axes, const Tensor& out,
                         const std::function<Expr(const Exprs&)>& value) {
  return map_nest_at(name, axes, out, nullptr, value);
}

Stmt GroupNest::map_nest_at(const std::string& name, const std::vector<NestAxis>& axes, const Tensor& out,
                            const std::function<Exprs(const Exprs&)>& index,
                            const std::function<Expr(const Exprs&)>& value) {
  return reduce_nest(name, axes, {}, ReducerKind::kNone, out, index,
                     [&](const Exprs& at, const Exprs&) { return b().cast(value(at), out.buffer->type); });
}

namespace {

struct Combination {
  Expr identity;
  ExprKind operation;
};
Combination combination(Builder& b, ReducerKind reducer, Type type) {
  switch (reducer) {
    case ReducerKind::kSum:
      return {b.constant(0, type), ExprKind::kAdd};
    case ReducerKind::kProd:
      return {b.constant(1, type), ExprKind::kMul};
    case ReducerKind::kMax:
      return {is_float(type) ? b.real(-HUGE_VAL, type) : b.integer(integer_range(type).low, type), ExprKind::kMax};
    case ReducerKind::kMin:
      return {is_float(type) ? b.real(HUGE_VAL, type) : b.integer(integer_range(type).high, type), ExprKind::kMin};
    case ReducerKind::kNone:
      break;
  }
  TCC_UNREACHABLE("no scalar combination of {}", reducer_name(reducer));
}

}  // namespace

Stmt GroupNest::block_nest(const std::string& name, const std::vector<NestAxis>& spatial,
                           const std::vector<NestAxis>& reduce, ReducerKind reducer,
                           const std::function<std::pair<Stmt, Stmt>(const Exprs&, const Exprs&)>& parts) {
  std::vector<Iter> iters;
  std::vector<std::pair<Id, int64_t>> loops;
  Exprs at, over;
  auto add = [&](const NestAxis& axis, IterKind kind) {
    Id loop = kernel_.new_id(axis.name);
    Id iter = kernel_.new_id((std::string("v") + axis.name).c_str());
    loops.emplace_back(loop, axis.extent);
    iters.push_back({iter, kind, b().integer(axis.extent), b().var(loop)});
    (kind == IterKind::kReduce ? over : at).push_back(b().var(iter));
  };
  for (const NestAxis& axis : spatial) add(axis, IterKind::kSpatial);
  for (const NestAxis& axis : reduce) add(axis, IterKind::kReduce);
  const auto [init, body] = parts(at, over);
  Stmt nest = b().block(kernel_.new_id(name.c_str()), iters, body, init, nullptr,
                        reduce.empty() ? ReducerKind::kNone : reducer);
  for (size_t i = loops.size(); i-- > 0;) nest = b().loop(loops[i].first, b().integer(loops[i].second), nest);
  return nest;
}

Stmt GroupNest::tile_nest(const std::string& name, const std::vector<NestAxis>& axes,
                          const std::function<std::vector<Stmt>(const Exprs&)>& stores) {
  return block_nest(name, axes, {}, ReducerKind::kNone,
                    [&](const Exprs& at, const Exprs&) { return std::pair<Stmt, Stmt>(nullptr, b().seq(stores(at))); });
}

Stmt GroupNest::reduce_nest(const std::string& name, const std::vector<NestAxis>& spatial,
                            const std::vector<NestAxis>& reduce, ReducerKind reducer, const Tensor& out,
                            const std::function<Exprs(const Exprs&)>& index,
                            const std::function<Expr(const Exprs&, const Exprs&)>& value) {
  return block_nest(name, spatial, reduce, reducer, [&](const Exprs& at, const Exprs& over) {
    Exprs where = index ? index(at) : at;
    Expr term = value(at, over);
    Stmt init = nullptr;
    if (!reduce.empty()) {
      TCC_CHECK(out.buffer->type == compute_, "{} accumulates in another type", name);
      const Combination c = combination(b(), reducer, compute_);
      init = b().store(out.buffer->id, where, c.identity);
      term = b().binary(c.operation, b().load(*out.buffer, where), term);
    }
    return std::pair(init, b().store(out.buffer->id, where, term));
  });
}

Expr GroupNest::read(const Tensor& t, const Exprs& at, Expr predicate, double other) {
  Expr otherwise = predicate == nullptr ? nullptr : b().constant(other, t.buffer->type);
  return b().cast(b().load(*t.buffer, at, predicate, otherwise), compute_);
}

Expr GroupNest::read_broadcast(const Tensor& t, const Exprs& at, const graph::Shape& shape) {
  Exprs index;
  size_t skip = shape.size() - t.shape.size();
  for (size_t i = 0; i < t.shape.size(); ++i) {
    bool repeated = t.shape[i] == 1 && shape[skip + i] != 1;
    index.push_back(repeated ? b().integer(0) : at[skip + i]);
  }
  return read(t, index);
}

Expr GroupNest::read_padded(const Tensor& t, const Exprs& at, const graph::Shape& shape,
                            const std::vector<int64_t>& begin, double value) {
  Exprs from;
  Expr predicate = nullptr;
  for (size_t i = 0; i < at.size(); ++i) {
    from.push_back(b().offset(at[i], -begin[i]));
    predicate = b().logical_and(predicate, inside(from[i], -begin[i], shape[i] - 1 - begin[i], t.shape[i]));
  }
  return read(t, from, predicate, value);
}

Expr GroupNest::inside(Expr position, int64_t low, int64_t high, int64_t extent) {
  Expr predicate = nullptr;
  if (low < 0) predicate = b().le(b().integer(0), position);
  if (high >= extent) predicate = b().logical_and(predicate, b().lt(position, b().integer(extent)));
  return predicate;
}

}  // namespace tcc::task
