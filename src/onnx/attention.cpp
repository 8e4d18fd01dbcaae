#include "attention.h"

#include <limits>

namespace tcc::onnx {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Heads of queries that share a head of keys become an axis of their own: batch, key heads, sharing, ...
Made grouped(NodeContext& c, ValueId x, int64_t key_heads, int64_t sharing) {
  Shape s = c.value(x).shape;
  if (sharing == 1) return x;
  const int64_t heads = s[1];
  s[1] = heads == 1 ? 1 : key_heads;
  s.insert(s.begin() + 2, heads == key_heads * sharing ? sharing : 1);
  return c.emit_reshape(x, s);
}

bool has_masked_row(const graph::Value& bias) {
  if (!bias.is_constant()) return true;
  const std::vector<double> values = graph::constant_doubles(*bias.constant, bias.dtype, bias.elements());
  const auto row = static_cast<size_t>(bias.shape.empty() ? 1 : bias.shape.back());
  for (size_t at = 0; at + row <= values.size(); at += row) {
    bool masked = true;
    for (size_t i = 0; i < row && masked; ++i) masked = values[at + i] == -kInfinity;
    if (masked) return true;
  }
  return false;
}

}  // namespace

Made split_heads(NodeContext& c, const Made& x, int64_t heads) {
  if (!x) return x;
  const Shape s = c.value(*x).shape;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
    return input_error("a tensor of shape {} has not {} heads", graph::shape_text(s), heads);
  Made parts = c.emit_reshape(x, {s[0], s[1], heads, s[2] / heads});
  return c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {parts});
}

Made join_heads(NodeContext& c, const Made& x) {
  if (!x) return x;
  const Shape s = c.value(*x).shape;
  return c.emit_reshape(c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {x}), {s[0], s[2], s[1] * s[3]});
}

Made mask_bias(NodeContext& c, const Made& allowed, DType dtype) {
  return c.where(allowed, c.scalar(dtype, 0), c.scalar(dtype, -kInfinity));
}

Made add_bias(NodeContext& c, const std::optional<ValueId>& bias, const Made& more) {
  return bias ? c.arithmetic(Op::kAdd, *bias, more) : more;
}

Made window_mask(NodeContext& c, int64_t queries, int64_t keys, ValueId offset, const Window& window) {
  // The distance of a key from its query's own position.
  Made distance = c.arithmetic(Op::kSub, c.iota(DType::kI64, keys, 3, 4), c.iota(DType::kI64, queries, 2, 4));
  distance = c.arithmetic(Op::kSub, distance, offset);
  Made allowed = c.scalar(DType::kBool, 1);
  if (window.after)
    allowed = c.binary(BinaryFn::kLessOrEqual, distance, c.scalar(DType::kI64, static_cast<double>(*window.after)));
  if (window.before) {
    Made near =
        c.binary(BinaryFn::kGreaterOrEqual, distance, c.scalar(DType::kI64, -static_cast<double>(*window.before)));
    allowed = window.after ? c.binary(BinaryFn::kAnd, allowed, near) : near;
  }
  return allowed;
}

Made window_mask(NodeContext& c, int64_t queries, int64_t keys, int64_t offset, const Window& window) {
  if (queries * keys > kMaxTable)
    return window_mask(c, queries, keys, c.scalar(DType::kI64, static_cast<double>(offset)), window);
  std::vector<double> allowed(static_cast<size_t>(queries * keys));
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t distance = j - i - offset;
      allowed[static_cast<size_t>(i * keys + j)] =
          (!window.after || distance <= *window.after) && (!window.before || -distance <= *window.before);
    }
  }
  return c.constant(DType::kBool, {1, 1, queries, keys}, graph::make_constant_from_doubles(DType::kBool, allowed));
}

Result<AttentionResult> emit_attention(NodeContext& c, const AttentionParts& p) {
  const Shape q = c.value(p.query).shape, k = c.value(p.key).shape, v = c.value(p.value).shape;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] ||
      q[3] != k[3] || k[1] < 1 || q[1] % k[1] != 0)
    return input_error("queries {}, keys {} and values {} do not fit each other", graph::shape_text(q),
                       graph::shape_text(k), graph::shape_text(v));
  const int64_t sharing = q[1] / k[1];
  const DType dtype = c.value(p.query).dtype;
  // A product of halves is scaled before it leaves their range.
  const bool early = dtype == DType::kF16;
  Made query = grouped(c, p.query, k[1], sharing);
  if (early) query = c.arithmetic(Op::kMul, query, c.scalar(dtype, p.scale));
  Made keys = grouped(c, p.key, k[1], sharing);
  const std::vector<int64_t> swapped =
      sharing == 1 ? std::vector<int64_t>{0, 1, 3, 2} : std::vector<int64_t>{0, 1, 2, 4, 3};
  keys = c.emit(Op::kTranspose, graph::TransposeAttrs{swapped}, {keys});
  Made scores = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {query, keys});
  if (!early) scores = c.arithmetic(Op::kMul, scores, c.scalar(dtype, p.scale));
  AttentionResult result;
  const Shape all{q[0], q[1], q[2], k[2]};
  TCC_TRY(result.scores, scores);
  if (p.softcap > 0) {
    Made inner = c.arithmetic(Op::kMul, scores, c.scalar(dtype, 1 / p.softcap));
    inner = c.emit(Op::kTanh, graph::NoAttrs{}, {inner});
    scores = c.arithmetic(Op::kMul, inner, c.scalar(dtype, p.softcap));
  }
  TCC_TRY(result.capped, scores);
  std::optional<ValueId> bias;
  if (p.bias) {
    Shape wide = c.value(*p.bias).shape;
    if (graph::broadcast_shapes(wide, all) != all)
      return input_error("a mask of shape {} does not broadcast to {}", graph::shape_text(wide),
                         graph::shape_text(all));
    while (wide.size() < 4) wide.insert(wide.begin(), 1);
    TCC_TRY(ValueId four, c.emit_reshape(*p.bias, wide));
    TCC_TRY(bias, grouped(c, four, k[1], sharing));
    scores = c.arithmetic(Op::kAdd, scores, *bias);
  }
  TCC_TRY(result.biased, scores);
  if (p.softmax_type) scores = c.cast(scores, *p.softmax_type);
  TCC_TRY(ValueId logits, scores);
  const auto last = static_cast<int64_t>(c.value(logits).shape.size()) - 1;
  Made weights = c.cast(c.emit(Op::kSoftmax, graph::AxisAttrs{last}, {logits}), dtype);
  TCC_TRY(result.weights, weights);
  Made output = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {weights, grouped(c, p.value, k[1], sharing)});
  if (bias && p.guard && has_masked_row(c.value(*bias))) {
    Made highest = c.reduce(Op::kReduceMax, *bias, {last}, true);
    Made any = c.binary(BinaryFn::kGreater, highest, c.scalar(c.value(*bias).dtype, -kInfinity));
    output = c.where(any, output, c.scalar(dtype, 0));
    TCC_TRY(result.weights, c.where(any, weights, c.scalar(dtype, 0)));
  }
  for (ValueId* x : {&result.scores, &result.capped, &result.biased, &result.weights})
    TCC_TRY_SET(*x, c.emit_reshape(*x, all));
  TCC_TRY(result.output, c.emit_reshape(output, {q[0], q[1], q[2], v[3]}));
  return result;
}

Made rotate(NodeContext& c, ValueId x, const Made& cos, const Made& sin, int64_t rotated, bool interleaved) {
  const Shape s = c.value(x).shape;
  const int64_t half = rotated / 2;
  Made turned = rotated == s[3] ? Made(x) : c.slice(x, 3, 0, rotated);
  auto mul = [&](const Made& a, const Made& b) { return c.arithmetic(Op::kMul, a, b); };
  std::vector<Made> parts;
  if (interleaved) {
    // Each pair times its cosine, plus the swapped pair times its sine, which is negative for the first.
    const Shape pairs{s[0], s[1], s[2], half, 2};
    auto of_pairs = [&](const Made& angles) -> Made {
      TCC_TRY(ValueId id, angles);
      Shape shape = c.value(id).shape;
      shape.push_back(1);
      return c.emit_reshape(id, shape);
    };
    TCC_TRY(ValueId split, c.emit_reshape(turned, pairs));
    Made swapped = c.emit(Op::kSlice, graph::SliceAttrs{{0, 0, 0, 0, 1}, {1, 1, 1, 1, -1}, pairs}, {split});
    const DType dtype = c.value(split).dtype;
    ValueId signs = c.constant(dtype, {2}, graph::make_constant_from_doubles(dtype, std::vector<double>{-1, 1}));
    Made y = c.arithmetic(Op::kAdd, mul(split, of_pairs(cos)), mul(swapped, mul(of_pairs(sin), signs)));
    parts = {c.emit_reshape(y, {s[0], s[1], s[2], rotated})};
  } else {
    Made first = c.slice(turned, 3, 0, half), second = c.slice(turned, 3, half, half);
    parts = {c.arithmetic(Op::kSub, mul(cos, first), mul(sin, second)),
             c.arithmetic(Op::kAdd, mul(sin, first), mul(cos, second))};
  }
  if (rotated < s[3]) parts.push_back(c.slice(x, 3, rotated, s[3] - rotated));
  return parts.size() == 1 ? parts[0] : c.emit(Op::kConcat, graph::AxisAttrs{3}, parts);
}

}  // namespace tcc::onnx
