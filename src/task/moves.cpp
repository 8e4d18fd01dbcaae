// Loops of the operators that move elements: transposes, pads, concatenations, slices, expansions and gathers.
#include "nest.h"

namespace tcc::task {

using namespace ir;
using graph::Op;

namespace {

// A gather has indices beside its data.
bool is_gather(Op op) {
  return op == Op::kGather || op == Op::kGatherElements || op == Op::kGatherNd;
}

// Unsigned numbers of 32 and 64 bits are held in the signed type; in double the greatest one of 64 bits is 2^64.
double as_held(double value, graph::DType dtype) {
  if (!graph::is_wide_unsigned(dtype)) return value;
  const double range = dtype == graph::DType::kU64 ? 0x1p64 : 0x1p32;
  return value >= range ? -1 : value >= range / 2 ? value - range : value;
}

}  // namespace

// The position that element `at` of the indices means: from the end when negative, moved inside when out of range.
Expr GroupNest::picked(const Tensor& indices, const Exprs& at, int64_t extent) {
  Expr index = b().cast(b().load(*indices.buffer, at), Type::kI64);
  if (indices.buffer->type == Type::kU8) return index;  // of a table with a place for each byte
  Expr position = b().select(b().lt(index, b().integer(0)), b().offset(index, extent), index);
  if (indices.buffer->type == Type::kI8) return position;
  return b().max(b().integer(0), b().min(position, b().integer(extent - 1)));
}

Expr GroupNest::moved_value(const graph::Node& node, const Exprs& at) {
  Tensor x = operand(node.inputs[0]);
  Exprs from;
  if (node.op == Op::kExpand) return read_broadcast(x, at, value(node.output).shape);
  if (node.op == Op::kSlice) {
    const auto& a = node.as<graph::SliceAttrs>();
    for (size_t i = 0; i < at.size(); ++i)
      from.push_back(a.extents[i] == 1 ? b().integer(a.starts[i])
                                       : b().offset(b().scale(at[i], a.steps[i]), a.starts[i]));
    return read(x, from);
  }
  Tensor indices = operand(node.inputs[1]);
  if (node.op == Op::kGatherNd) {
    auto batch = static_cast<size_t>(node.as<graph::GatherNdAttrs>().batch_dims);
    size_t prefix = indices.shape.size() - 1;
    auto depth = static_cast<size_t>(indices.shape.back());
    Exprs row(at.begin(), at.begin() + static_cast<int64_t>(prefix));
    for (size_t i = 0; i < x.shape.size(); ++i) {
      if (i < batch) {
        from.push_back(at[i]);
      } else if (i < batch + depth) {
        Exprs entry = row;
        entry.push_back(b().integer(static_cast<int64_t>(i - batch)));
        from.push_back(picked(indices, entry, x.shape[i]));
      } else {
        from.push_back(at[prefix + i - batch - depth]);
      }
    }
    return read(x, from);
  }
  auto axis = static_cast<size_t>(node.as<graph::AxisAttrs>().axis);
  if (node.op == Op::kGatherElements) {
    from = at;
    from[axis] = picked(indices, at, x.shape[axis]);
    return read(x, from);
  }
  size_t rank = indices.shape.size();
  Exprs entry(at.begin() + static_cast<int64_t>(axis), at.begin() + static_cast<int64_t>(axis + rank));
  for (size_t i = 0; i < x.shape.size(); ++i)
    from.push_back(i == axis ? picked(indices, entry, x.shape[axis]) : at[i < axis ? i : i - 1 + rank]);
  return read(x, from);
}

void GroupNest::plan_move(const graph::Node& node) {
  if (node.op == Op::kConcat)
    return add_stage("concat", node, false,
                     [this, &node](const std::string&, const Tensor& out) { return emit_concat(node, out); });
  if (node.op == Op::kSlice || node.op == Op::kExpand || is_gather(node.op))
    return add_map(lower_name(node), node, [this, &node](const Exprs& at) { return moved_value(node, at); });
  const char* kind = node.op == Op::kTranspose ? "transpose" : node.op == Op::kPad ? "pad" : "copy";
  add_map(kind, node, [this, &node](const Exprs& at) {
    Tensor x = operand(node.inputs[0]);
    if (node.op == Op::kTranspose) {
      const auto& perm = node.as<graph::TransposeAttrs>().perm;
      Exprs from(at.size());
      for (size_t i = 0; i < perm.size(); ++i) from[static_cast<size_t>(perm[i])] = at[i];
      return read(x, from);
    }
    if (node.op != Op::kPad) return read(x, at);
    const auto& a = node.as<graph::PadAttrs>();
    return read_padded(x, at, shape_of(node.output), a.begin, as_held(a.value, value(node.output).dtype));
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
