// Attention and RotaryEmbedding of ai.onnx, and what com.microsoft calls Attention, MultiHeadAttention,
// GroupQueryAttention and RotaryEmbedding.
#include <algorithm>
#include <cmath>

#include "attention.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// past and x, one behind the other.
Made appended(NodeContext& c, size_t past, const Made& x, int64_t axis) {
  if (!c.has_input(past)) return x;
  return c.emit(Op::kConcat, graph::AxisAttrs{axis}, {c.input(past), x});
}

// A mask of bools or floats as something to add; keys that it has not are masked.
Made attention_mask(NodeContext& c, size_t input, int64_t keys, DType dtype) {
  ValueId mask = c.input(input);
  Shape s = c.value(mask).shape;
  if (s.empty()) return input_error("the mask (input {}) is a scalar", input);
  Made bias = c.value(mask).dtype == DType::kBool ? mask_bias(c, mask, dtype) : c.cast(mask, dtype);
  if (s.back() >= keys || s.back() == 1) return bias;
  graph::PadAttrs pad{std::vector<int64_t>(s.size(), 0), std::vector<int64_t>(s.size(), 0), -HUGE_VAL};
  pad.end.back() = keys - s.back();
  return c.emit(Op::kPad, pad, {bias});
}

Result<std::optional<int64_t>> window_side(NodeContext& c, const char* name) {
  TCC_TRY(int64_t width, c.get_int(name, -1, 25));
  if (width < -1) return input_error("{} is {}, expected -1 or more", name, width);
  if (width == -1) return std::nullopt;
  return width;
}

}  // namespace

Result<void> import_attention(NodeContext& c) {
  TCC_TRY(int64_t query_heads, c.get_int("q_num_heads", 0));
  TCC_TRY(int64_t key_heads, c.get_int("kv_num_heads", 0));
  const bool flat = c.rank(0) == 3;
  if (flat && (query_heads < 1 || key_heads < 1))
    return input_error("attributes q_num_heads and kv_num_heads are needed for inputs of rank 3");
  AttentionParts p;
  TCC_TRY(p.query, flat ? split_heads(c, c.input(0), query_heads) : Made(c.input(0)));
  Made key = flat ? split_heads(c, c.input(1), key_heads) : Made(c.input(1));
  Made value = flat ? split_heads(c, c.input(2), key_heads) : Made(c.input(2));
  if (c.has_input(4) != c.has_input(5)) return input_error("past_key and past_value are given together only");
  TCC_TRY(p.key, appended(c, 4, key, 2));
  TCC_TRY(p.value, appended(c, 5, value, 2));
  const Shape q = c.value(p.query).shape, k = c.value(p.key).shape;
  if (q.size() != 4 || k.size() != 4)
    return input_error("queries {} and keys {} must have rank 3 or 4", graph::shape_text(q), graph::shape_text(k));
  const DType dtype = c.value(p.query).dtype;
  TCC_TRY(p.scale, c.get_float("scale", 1 / std::sqrt(static_cast<double>(q[3]))));
  TCC_TRY(p.softcap, c.get_float("softcap", 0));
  TCC_TRY(bool causal, c.get_flag("is_causal", false));
  Window window;
  TCC_TRY(window.before, window_side(c, "left_window_size"));
  TCC_TRY(window.after, window_side(c, "right_window_size"));
  if (causal) window.after = std::min<int64_t>(window.after.value_or(0), 0);
  if (c.has_input(3)) {
    TCC_TRY(ValueId bias, attention_mask(c, 3, k[2], dtype));
    p.bias = bias;
  }
  const int64_t past = c.has_input(4) ? c.input_value(4).shape[2] : 0;
  Made lengths;
  if (c.has_input(6)) {
    lengths = c.emit_reshape(c.cast(c.input(6), DType::kI64), {q[0], 1, 1, 1});
    Made inside = c.binary(BinaryFn::kLess, c.iota(DType::kI64, k[2], 3, 4), lengths);
    TCC_TRY(ValueId bias, add_bias(c, p.bias, mask_bias(c, inside, dtype)));
    p.bias = bias;
  }
  p.guard = p.bias.has_value() || window.before.has_value();
  if (window.before || window.after) {
    Made allowed;
    if (c.has_input(6) && !c.has_input(4)) {
      TCC_TRY(ValueId offset, c.arithmetic(Op::kSub, lengths, c.scalar(DType::kI64, static_cast<double>(q[2]))));
      allowed = window_mask(c, q[2], k[2], offset, window);
    } else {
      allowed = window_mask(c, q[2], k[2], past, window);
    }
    TCC_TRY(ValueId bias, add_bias(c, p.bias, mask_bias(c, allowed, dtype)));
    p.bias = bias;
  }
  TCC_TRY(int64_t precision, c.get_int("softmax_precision", 0));
  if (precision != 0) TCC_TRY_SET(p.softmax_type, dtype_of(static_cast<int32_t>(std::min<int64_t>(precision, 1000))));
  TCC_TRY(int64_t mode, c.get_int("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) return input_error("qk_matmul_output_mode is {}, expected 0 to 3", mode);
  TCC_TRY(AttentionResult result, emit_attention(c, p));
  if (c.wants_output(1)) c.set_output(1, p.key);
  if (c.wants_output(2)) c.set_output(2, p.value);
  if (c.wants_output(3)) {
    // Without a softcap the first two are the same.
    const ValueId shown[] = {result.scores, result.capped, result.biased, result.weights};
    c.set_output(3, shown[mode]);
  }
  return c.finish(flat ? join_heads(c, result.output) : Made(result.output));
}

namespace {

struct Angles {
  Made cos, sin;        // batch, positions and 1 in the order of the axes of X, features / 2
  int64_t rotated = 0;  // features
};

// Rows of the caches at `positions` (batch, positions), or all of them as they are. `axis` of X has its positions, and
// the other one of 1 and 2 its heads.
Result<Angles> read_angles(NodeContext& c, size_t cos, size_t sin, const std::optional<ValueId>& positions,
                           const Shape& x, size_t axis, int64_t rotated) {
  auto rows = [&](size_t i) -> Made {
    Made cache = c.input(i);
    if (positions) cache = c.emit(Op::kGather, graph::AxisAttrs{0}, {cache, *positions});
    TCC_TRY(ValueId id, cache);
    Shape s = c.value(id).shape;
    if (s.size() == 2) s.insert(s.begin(), 1);
    if (s.size() != 3 || s[2] < rotated / 2 || s[1] < x[axis])
      return input_error("a cache of shape {} does not fit {} positions and {} rotated features", graph::shape_text(s),
                         x[axis], rotated);
    Made wide = c.emit_reshape(id, axis == 1 ? Shape{s[0], s[1], 1, s[2]} : Shape{s[0], 1, s[1], s[2]});
    if (s[1] > x[axis]) wide = c.slice(wide, static_cast<int64_t>(axis), 0, x[axis]);
    return s[2] > rotated / 2 ? c.slice(wide, 3, 0, rotated / 2) : wide;
  };
  Angles angles;
  angles.cos = rows(cos);
  angles.sin = rows(sin);
  angles.rotated = rotated;
  if (!angles.cos) return tl::make_unexpected(angles.cos.error());
  if (!angles.sin) return tl::make_unexpected(angles.sin.error());
  return angles;
}

// X of rank 4 is batch, heads, positions, features; of rank 3 batch, positions, heads * features.
Result<void> rotary(NodeContext& c, size_t cos, size_t sin, const std::optional<ValueId>& positions) {
  TCC_TRY(int64_t heads, c.get_int("num_heads", 0));
  TCC_TRY(int64_t rotated, c.get_int("rotary_embedding_dim", 0));
  TCC_TRY(bool interleaved, c.get_flag("interleaved", false));
  const Shape s = c.input_value(0).shape;
  if (s.size() != 3 && s.size() != 4) return input_error("X must have rank 3 or 4, got {}", graph::shape_text(s));
  Made x = c.input(0);
  if (s.size() == 3) {
    // Without a number of heads the caches say how many features a head has.
    const Shape& cache = c.input_value(cos).shape;
    if (heads == 0 && rotated == 0 && !cache.empty() && cache.back() > 0) heads = s[2] / (2 * cache.back());
    if (heads < 1 || s[2] % heads != 0)
      return input_error("num_heads is {}, X of shape {} needs a divisor of {}", heads, graph::shape_text(s), s[2]);
    x = c.emit_reshape(x, {s[0], s[1], heads, s[2] / heads});
  }
  TCC_TRY(ValueId rows, x);
  const Shape shape = c.value(rows).shape;
  if (rotated == 0) rotated = shape[3];
  if (rotated % 2 != 0 || rotated < 2 || rotated > shape[3])
    return input_error("rotary_embedding_dim is {}, expected an even number up to {}", rotated, shape[3]);
  TCC_TRY(Angles angles, read_angles(c, cos, sin, positions, shape, s.size() == 4 ? 2 : 1, rotated));
  return c.finish(c.emit_reshape(rotate(c, rows, angles.cos, angles.sin, rotated, interleaved), s));
}

}  // namespace

Result<void> import_rotary_embedding(NodeContext& c) {
  std::optional<ValueId> positions;
  if (c.has_input(3)) positions = c.input(3);
  return rotary(c, 1, 2, positions);
}

// com.microsoft: X, positions (of each element, or of the first), caches.
Result<void> import_microsoft_rotary_embedding(NodeContext& c) {
  TCC_TRY(bool packed, c.get_flag("is_packed_batching", false));
  if (packed) return refuse(Refusal::kAttribute, "is_packed_batching = 1 is not supported");
  TCC_TRY(double scale, c.get_float("scale", 1));
  if (scale != 1) return refuse(Refusal::kAttribute, "scale = {} is not supported", scale);
  const Shape s = c.input_value(0).shape;
  if (s.size() != 3 && s.size() != 4) return input_error("X must have rank 3 or 4, got {}", graph::shape_text(s));
  const int64_t steps = s[s.size() - 2];
  Made positions = c.input(1);
  if (c.input_value(1).elements() == 1 && c.rank(1) < 2)
    positions = c.arithmetic(Op::kAdd, c.emit_reshape(c.cast(positions, DType::kI64), {1, 1}),
                             c.iota(DType::kI64, steps, 1, 2));
  TCC_TRY(ValueId rows, positions);
  return rotary(c, 2, 3, rows);
}

namespace {

// Columns [first, first + count) of the bias of packed projections, added to x.
Made with_bias(NodeContext& c, const Made& x, size_t bias, int64_t first, int64_t count) {
  if (!c.has_input(bias)) return x;
  return c.arithmetic(Op::kAdd, x, c.slice(c.input(bias), 0, first, count));
}

// com.microsoft: a mask of padding. (batch): lengths; (batch, keys): which keys count; (batch, queries, keys).
Made padding_bias(NodeContext& c, size_t input, const Shape& all, DType dtype, double filler) {
  const Shape s = c.input_value(input).shape;
  Made counts = c.input(input);
  Made allowed;
  if (s == Shape{all[0]}) {
    Made lengths = c.emit_reshape(c.cast(counts, DType::kI64), {all[0], 1, 1, 1});
    allowed = c.binary(BinaryFn::kLess, c.iota(DType::kI64, all[3], 3, 4), lengths);
  } else if (s == Shape{all[0], all[3]}) {
    allowed = c.emit_reshape(c.cast(counts, DType::kBool), {all[0], 1, 1, all[3]});
  } else if (s == Shape{all[0], all[2], all[3]}) {
    allowed = c.emit_reshape(c.cast(counts, DType::kBool), {all[0], 1, all[2], all[3]});
  } else {
    return refuse(Refusal::kAttribute, "masks of shape {} are not supported for {} queries and {} keys",
                  graph::shape_text(s), all[2], all[3]);
  }
  return c.where(allowed, c.scalar(dtype, 0), c.scalar(dtype, filler));
}

// What the operators of com.microsoft have in common: mask, bias of the scores, causality.
Result<void> add_masks(NodeContext& c, AttentionParts& p, std::optional<size_t> padding, std::optional<size_t> bias,
                       bool causal, int64_t past) {
  const Shape q = c.value(p.query).shape, k = c.value(p.key).shape;
  const Shape all{q[0], q[1], q[2], k[2]};
  const DType dtype = c.value(p.query).dtype;
  TCC_TRY(double filler, c.get_float("mask_filter_value", -10000));
  if (padding && c.has_input(*padding)) {
    TCC_TRY(ValueId more, add_bias(c, p.bias, padding_bias(c, *padding, all, dtype, filler)));
    p.bias = more;
  }
  if (bias && c.has_input(*bias)) {
    TCC_TRY(ValueId more, add_bias(c, p.bias, c.input(*bias)));
    p.bias = more;
  }
  if (causal) {
    TCC_TRY(ValueId more,
            add_bias(c, p.bias, mask_bias(c, window_mask(c, q[2], k[2], past, {std::nullopt, 0}), dtype)));
    p.bias = more;
  }
  return {};
}

Result<void> finish_attention(NodeContext& c, const AttentionParts& p) {
  TCC_TRY(AttentionResult result, emit_attention(c, p));
  if (c.wants_output(1)) c.set_output(1, p.key);
  if (c.wants_output(2)) c.set_output(2, p.value);
  return c.finish(join_heads(c, result.output));
}

}  // namespace

// com.microsoft: query, key, value, bias, padding mask, bias of scores, past key, past value.
Result<void> import_multi_head_attention(NodeContext& c) {
  TCC_TRY(int64_t heads, c.get_int("num_heads", 0));
  TCC_TRY(bool causal, c.get_flag("unidirectional", false));
  if (heads < 1) return input_error("attribute num_heads is missing");
  for (size_t i : {size_t{8}, size_t{9}}) {
    if (c.has_input(i)) return refuse(Refusal::kAttribute, "input {} (a shared buffer of keys) is not supported", i);
  }
  const Shape s = c.input_value(0).shape;
  AttentionParts p;
  Made query, key, value;
  if (s.size() == 5 && !c.has_input(1)) {
    // Batch, positions, heads, 3, features.
    if (c.has_input(3)) return refuse(Refusal::kAttribute, "a bias of packed inputs is not supported");
    auto part = [&](int64_t i) {
      Made one = c.emit_reshape(c.slice(c.input(0), 3, i, 1), {s[0], s[1], s[2], s[4]});
      return c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {one});
    };
    query = part(0);
    key = part(1);
    value = part(2);
  } else {
    if (s.size() != 3 || !c.has_input(1))
      return refuse(Refusal::kAttribute, "a query of shape {} without keys is not supported", graph::shape_text(s));
    query = split_heads(c, with_bias(c, c.input(0), 3, 0, s[2]), heads);
    const Shape ks = c.input_value(1).shape;
    if (ks.size() == 5) {
      auto part = [&](int64_t i) {
        Made one = c.emit_reshape(c.slice(c.input(1), 3, i, 1), {ks[0], ks[1], ks[2], ks[4]});
        return c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {one});
      };
      key = part(0);
      value = part(1);
    } else {
      if (!c.has_input(2)) return input_error("the values (input 2) are missing");
      // Keys of rank 4 are split into heads already.
      if (ks.size() == 4) {
        if (c.has_input(3)) return refuse(Refusal::kAttribute, "a bias of keys in heads is not supported");
        key = c.input(1);
        value = c.input(2);
      } else {
        key = split_heads(c, with_bias(c, c.input(1), 3, s[2], s[2]), heads);
        value = split_heads(c, with_bias(c, c.input(2), 3, 2 * s[2], c.rank(2) < 1 ? 0 : c.input_value(2).shape.back()),
                            heads);
      }
    }
  }
  TCC_TRY(p.query, query);
  TCC_TRY(p.key, appended(c, 6, key, 2));
  TCC_TRY(p.value, appended(c, 7, value, 2));
  TCC_TRY(double scale, c.get_float("scale", 0));
  p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.value(p.query).shape[3]));
  const int64_t past = c.has_input(6) ? c.input_value(6).shape[2] : 0;
  TCC_TRY_VOID(add_masks(c, p, 4, 5, causal, past));
  return finish_attention(c, p);
}

// com.microsoft: x, weights and bias of the three projections side by side, mask, past (2, batch, heads, ...), bias of
// scores.
Result<void> import_microsoft_attention(NodeContext& c) {
  TCC_TRY(int64_t heads, c.get_int("num_heads", 0));
  TCC_TRY(bool causal, c.get_flag("unidirectional", false));
  TCC_TRY(bool rotary_too, c.get_flag("do_rotary", false));
  TCC_TRY(auto sizes, c.get_ints("qkv_hidden_sizes"));
  c.ignore_attribute("past_present_share_buffer");
  c.ignore_attribute("rotary_embedding_dim");
  if (rotary_too) return refuse(Refusal::kAttribute, "do_rotary = 1 is not supported");
  if (c.has_input(6)) return refuse(Refusal::kAttribute, "input 6 (a shared buffer of keys) is not supported");
  const Shape w = c.input_value(1).shape;
  if (w.size() != 2 || heads < 1) return input_error("needs a matrix of weights and num_heads");
  std::vector<int64_t> widths{w[1] / 3, w[1] / 3, w[1] / 3};
  if (sizes && sizes->size() == 3) widths = *sizes;
  if (widths[0] + widths[1] + widths[2] != w[1])
    return input_error("qkv_hidden_sizes do not add up to the {} columns of the weights", w[1]);
  Made all = c.emit(Op::kMatMul, graph::MatMulAttrs{}, {c.input(0), c.input(1)});
  if (c.has_input(2)) all = c.arithmetic(Op::kAdd, all, c.input(2));
  auto part = [&](int64_t first, int64_t width) { return split_heads(c, c.slice(all, 2, first, width), heads); };
  AttentionParts p;
  TCC_TRY(p.query, part(0, widths[0]));
  Made key = part(widths[0], widths[1]), value = part(widths[0] + widths[1], widths[2]);
  int64_t past = 0;
  if (c.has_input(4)) {
    Shape s = c.input_value(4).shape;
    if (s.size() != 5) return input_error("past must have five axes, got {}", graph::shape_text(s));
    past = s[3];
    s.erase(s.begin());
    auto before = [&](int64_t i) { return c.emit_reshape(c.slice(c.input(4), 0, i, 1), s); };
    key = c.emit(Op::kConcat, graph::AxisAttrs{2}, {before(0), key});
    value = c.emit(Op::kConcat, graph::AxisAttrs{2}, {before(1), value});
  }
  TCC_TRY(p.key, key);
  TCC_TRY(p.value, value);
  TCC_TRY(double scale, c.get_float("scale", 0));
  p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.value(p.query).shape[3]));
  TCC_TRY_VOID(add_masks(c, p, 3, 5, causal, past));
  TCC_TRY(AttentionResult result, emit_attention(c, p));
  if (c.wants_output(1)) {
    Shape s = c.value(p.key).shape;
    s.insert(s.begin(), 1);
    Made both = c.emit(Op::kConcat, graph::AxisAttrs{0}, {c.emit_reshape(p.key, s), c.emit_reshape(p.value, s)});
    TCC_TRY(ValueId present, both);
    c.set_output(1, present);
  }
  return c.finish(join_heads(c, result.output));
}

namespace {

// Keys of the steps so far and of this one, `total` in all: of batch b the first `before[b]` rows of the past, then the
// `steps` rows of x, then zeros.
Made cached(NodeContext& c, size_t past, const Made& x, const Made& before, int64_t steps, int64_t total) {
  if (!c.has_input(past) || c.input_value(past).elements() == 0) return x;
  TCC_TRY(ValueId both, appended(c, past, x, 2));
  const Shape s = c.value(both).shape;
  const int64_t rows = c.input_value(past).shape[2];
  TCC_TRY(ValueId kept, before);
  const graph::Value& full = c.value(kept);
  const auto all = [&](const std::vector<int64_t>& counts) {
    return std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == rows; });
  };
  if (s[2] == total && full.is_constant() && all(graph::constant_integers(*full.constant, full.dtype, full.elements())))
    return both;
  // Row j is row j of the past, or row j - before of x.
  Made j = c.iota(DType::kI64, total, 1, 3);
  Made own =
      c.arithmetic(Op::kAdd, c.arithmetic(Op::kSub, j, before), c.scalar(DType::kI64, static_cast<double>(rows)));
  Made index = c.where(c.binary(BinaryFn::kLess, j, before), j, own);
  Made by_row = c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {both});
  Made picked = c.emit(Op::kGatherNd, graph::GatherNdAttrs{1}, {by_row, index});
  Made end = c.emit_reshape(c.arithmetic(Op::kAdd, before, c.scalar(DType::kI64, static_cast<double>(steps))),
                            {s[0], 1, 1, 1});
  picked = c.where(c.binary(BinaryFn::kLess, c.iota(DType::kI64, total, 1, 4), end), picked,
                   c.scalar(c.value(both).dtype, 0));
  return c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {picked});
}

}  // namespace

// com.microsoft: query, key, value, past key, past value, index of the last key of each sequence, keys in all, cosines,
// sines, positions, bias of scores.
Result<void> import_group_query_attention(NodeContext& c) {
  TCC_TRY_VOID(c.need_inputs({0, 5, 6}));
  TCC_TRY(int64_t heads, c.get_int("num_heads", 0));
  TCC_TRY(int64_t key_heads, c.get_int("kv_num_heads", 0));
  TCC_TRY(bool turned, c.get_flag("do_rotary", false));
  TCC_TRY(bool interleaved, c.get_flag("rotary_interleaved", false));
  TCC_TRY(int64_t local, c.get_int("local_window_size", -1));
  TCC_TRY(int64_t smooth, c.get_int("smooth_softmax", 0));
  c.ignore_attribute("qk_output");
  if (smooth == 1 || c.has_input(11)) return refuse(Refusal::kAttribute, "smooth_softmax and sinks are not supported");
  const Shape s = c.input_value(0).shape;
  if (s.size() != 3) return input_error("the query must have three axes, got {}", graph::shape_text(s));
  if (heads < 1 || key_heads < 1 || heads > s[2] || key_heads > s[2])
    return input_error("num_heads and kv_num_heads are {} and {}, expected 1 to {}", heads, key_heads, s[2]);
  Made query = c.input(0), key, value;
  if (c.has_input(1)) {
    if (!c.has_input(2)) return input_error("the values (input 2) are missing");
    key = c.input(1);
    value = c.input(2);
  } else {
    const int64_t size = s[2] / (heads + 2 * key_heads);
    query = c.slice(c.input(0), 2, 0, heads * size);
    key = c.slice(c.input(0), 2, heads * size, key_heads * size);
    value = c.slice(c.input(0), 2, (heads + key_heads) * size, key_heads * size);
  }
  const int64_t batch = s[0], steps = s[1];
  TCC_TRY(auto total, c.constant_integers(6, "total_sequence_length"));
  if (total.size() != 1 || total[0] < steps)
    return input_error("total_sequence_length must be one number of at least {}", steps);
  // Of a prompt shorter than its tensor the lengths count the padding.
  Made last = c.emit_reshape(c.cast(c.input(5), DType::kI64), {batch, 1, 1});
  Made before = c.arithmetic(Op::kSub, last, c.scalar(DType::kI64, static_cast<double>(steps - 1)));
  const bool first = !c.has_input(3) || c.input_value(3).elements() == 0;
  if (first) before = c.constant(DType::kI64, {batch, 1, 1}, graph::make_splat(DType::kI64, 0));
  auto split = [&](const Made& x, int64_t count) -> Made {
    TCC_TRY(ValueId id, x);
    const Shape shape = c.value(id).shape;
    if (shape.size() != 3 || shape[2] % count != 0)
      return input_error("a tensor of shape {} has not {} heads", graph::shape_text(shape), count);
    return c.emit_reshape(id, {shape[0], shape[1], count, shape[2] / count});
  };
  Made q4 = split(query, heads), k4 = split(key, key_heads), v4 = split(value, key_heads);
  if (turned) {
    if (!c.has_input(7) || !c.has_input(8)) return input_error("cosines and sines (inputs 7 and 8) are missing");
    std::optional<ValueId> positions;
    if (c.has_input(9)) {
      positions = c.input(9);
    } else {
      Made from = c.emit_reshape(before, {batch, 1});
      TCC_TRY(ValueId counted, c.arithmetic(Op::kAdd, from, c.iota(DType::kI64, steps, 1, 2)));
      positions = counted;
    }
    TCC_TRY(ValueId q_rows, q4);
    TCC_TRY(ValueId k_rows, k4);
    if (c.rank(7) < 1) return input_error("the cosines (input 7) are a scalar");
    const int64_t rotated = 2 * c.input_value(7).shape.back();
    TCC_TRY(Angles angles, read_angles(c, 7, 8, positions, c.value(q_rows).shape, 1, rotated));
    q4 = rotate(c, q_rows, angles.cos, angles.sin, rotated, interleaved);
    k4 = rotate(c, k_rows, angles.cos, angles.sin, rotated, interleaved);
  }
  auto by_heads = [&](const Made& x) { return c.emit(Op::kTranspose, graph::TransposeAttrs{{0, 2, 1, 3}}, {x}); };
  AttentionParts p;
  TCC_TRY(p.query, by_heads(q4));
  TCC_TRY(p.key, cached(c, 3, by_heads(k4), before, steps, total[0]));
  TCC_TRY(p.value, cached(c, 4, by_heads(v4), before, steps, total[0]));
  TCC_TRY(double scale, c.get_float("scale", 0));
  TCC_TRY(p.softcap, c.get_float("softcap", 0));
  p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.value(p.query).shape[3]));
  TCC_TRY(ValueId offset, c.emit_reshape(before, {batch, 1, 1, 1}));
  Window window{std::nullopt, 0};
  if (local > 0) window.before = local - 1;
  const DType dtype = c.value(p.query).dtype;
  const int64_t keys = c.value(p.key).shape[2];
  TCC_TRY(ValueId bias, mask_bias(c, window_mask(c, steps, keys, offset, window), dtype));
  p.bias = bias;
  if (c.has_input(10)) {
    TCC_TRY(ValueId more, add_bias(c, p.bias, c.input(10)));
    p.bias = more;
  }
  return finish_attention(c, p);
}

}  // namespace tcc::onnx
