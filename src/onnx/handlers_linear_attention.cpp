// LinearAttention: attention whose keys and values are summed up in a state of fixed size, unrolled over the tokens.
// Katharopoulos et al., Transformers are RNNs, 2020; Yang et al., Gated Linear Attention Transformers, 2024, and Gated
// Delta Networks, 2025.
#include <cmath>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxTokens = 2048;

struct LinearShape {
  int64_t batch = 1, tokens = 1, heads = 1, sharing = 1, keys = 1, values = 1;  // heads of the state, queries for each
  bool decays = false, corrects = false;                                        // "gated", "delta"
};

Result<LinearShape> read_linear_shape(NodeContext& c) {
  LinearShape s;
  TCC_TRY(const int64_t queries, c.get_int("q_num_heads", 0));
  TCC_TRY(s.heads, c.get_int("kv_num_heads", 0));
  TCC_TRY(const std::string rule, c.get_string("update_rule", "gated_delta"));
  TCC_TRY_VOID(c.get_int("chunk_size", 64));
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    return input_error("update_rule is '{}', expected linear, gated, delta or gated_delta", sanitize(rule));
  s.decays = rule.starts_with("gated");
  s.corrects = rule.ends_with("delta");
  const Shape &q = c.input_value(0).shape, &k = c.input_value(1).shape, &v = c.input_value(2).shape;
  if (q.size() != 3 || k.size() != 3 || v.size() != 3)
    return input_error("queries, keys and values have shapes {}, {} and {}, expected three axes each",
                       graph::shape_text(q), graph::shape_text(k), graph::shape_text(v));
  s.batch = q[0], s.tokens = q[1];
  if (queries < 1 || s.heads < 1 || queries % s.heads != 0)
    return input_error("q_num_heads {} is not a positive multiple of kv_num_heads {}", queries, s.heads);
  s.sharing = queries / s.heads;
  const bool fits = k[0] == s.batch && v[0] == s.batch && k[1] == s.tokens && v[1] == s.tokens && q[2] % queries == 0 &&
                    k[2] % s.heads == 0 && v[2] % s.heads == 0 && q[2] / queries == k[2] / s.heads;
  if (!fits)
    return input_error("queries {}, keys {} and values {} do not fit {} and {} heads", graph::shape_text(q),
                       graph::shape_text(k), graph::shape_text(v), queries, s.heads);
  s.keys = k[2] / s.heads, s.values = v[2] / s.heads;
  if (s.tokens > kMaxTokens)
    return refuse(Refusal::kTooLarge, "{} tokens; at most {} are unrolled: cut them into shorter pieces", s.tokens,
                  kMaxTokens);
  if (s.tokens < 1 || s.batch < 1) return refuse(Refusal::kNoElements, "no tokens");
  return s;
}

class LinearAttention {
 public:
  LinearAttention(NodeContext& c, const LinearShape& s)
      : c_(c), s_(s), type_(c.input_value(0).dtype == DType::kF64 ? DType::kF64 : DType::kF32) {}

  Result<void> run() {
    TCC_TRY(double scale, c_.get_float("scale", 0));
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(s_.keys));
    const Shape state{s_.batch, s_.heads, s_.keys, s_.values};
    queries_ = c_.arithmetic(Op::kMul, tokens(0, s_.sharing, s_.keys), c_.scalar(type_, scale));
    keys_ = tokens(1, 1, s_.keys);
    values_ = tokens(2, 1, s_.values);
    TCC_TRY_VOID(read_gates());
    Made s = c_.constant(type_, state, graph::make_splat(type_, 0));
    if (c_.has_input(3)) {
      if (c_.input_value(3).shape != state)
        return input_error("past_state has shape {}, expected {}", graph::shape_text(c_.input_value(3).shape),
                           graph::shape_text(state));
      s = c_.cast(c_.input(3), type_);
    }
    std::vector<Made> rows;
    for (int64_t t = 0; t < s_.tokens; ++t) {
      s = updated(s, t);
      Made row = c_.emit(Op::kMatMul, graph::MatMulAttrs{}, {at(queries_, t, {s_.sharing, s_.keys}), s});
      rows.push_back(c_.emit_reshape(row, {s_.batch, 1, s_.heads * s_.sharing * s_.values}));
    }
    if (c_.wants_output(1)) {
      const DType stored = c_.has_input(3) ? c_.input_value(3).dtype : c_.input_value(0).dtype;
      TCC_TRY(const ValueId last, c_.cast(s, stored));
      c_.set_output(1, last);
    }
    Made all = rows.size() == 1 ? rows[0] : c_.emit(Op::kConcat, graph::AxisAttrs{1}, rows);
    return c_.finish(c_.cast(all, c_.input_value(0).dtype));
  }

 private:
  // Input i with its tokens first: tokens, batch, heads, `rows`, `columns`.
  Made tokens(size_t i, int64_t rows, int64_t columns) {
    const Shape split{s_.batch, s_.tokens, s_.heads, rows, columns};
    return c_.rearrange(c_.cast(c_.input(i), type_), split, {1, 0, 2, 3, 4},
                        {s_.tokens, s_.batch, s_.heads, rows, columns});
  }
  // Of token t, matrices of that shape, one for each head.
  Made at(const Made& x, int64_t t, const Shape& matrix, int64_t heads = 0) {
    return c_.emit_reshape(c_.slice(x, 0, t, 1), {s_.batch, heads > 0 ? heads : s_.heads, matrix[0], matrix[1]});
  }

  Result<void> read_gates() {
    if (s_.decays) {
      if (!c_.has_input(4)) return input_error("this update_rule needs the input decay");
      const Shape& d = c_.input_value(4).shape;
      const bool each_key = d == Shape{s_.batch, s_.tokens, s_.heads * s_.keys};
      if (!each_key && d != Shape{s_.batch, s_.tokens, s_.heads})
        return input_error("decay has shape {}, expected a number for each head or for each of its keys",
                           graph::shape_text(d));
      decay_rows_ = each_key ? s_.keys : 1;
      decay_ = c_.unary(UnaryFn::kExp, tokens(4, decay_rows_, 1));
    }
    if (s_.corrects) {
      if (!c_.has_input(5)) return input_error("this update_rule needs the input beta");
      const Shape& b = c_.input_value(5).shape;
      beta_heads_ = b == Shape{s_.batch, s_.tokens, s_.heads} ? s_.heads : 1;
      if (b != Shape{s_.batch, s_.tokens, beta_heads_})
        return input_error("beta has shape {}, expected a number for each head or one for all", graph::shape_text(b));
      beta_ = c_.rearrange(c_.cast(c_.input(5), type_), b, {1, 0, 2}, {s_.tokens, s_.batch, beta_heads_});
    }
    return {};
  }

  Made updated(Made s, int64_t t) {
    if (s_.decays) s = c_.arithmetic(Op::kMul, at(decay_, t, {decay_rows_, 1}), s);
    Made value = at(values_, t, {1, s_.values});
    if (s_.corrects) {
      Made known = c_.emit(Op::kMatMul, graph::MatMulAttrs{}, {at(keys_, t, {1, s_.keys}), s});
      value = c_.arithmetic(Op::kMul, at(beta_, t, {1, 1}, beta_heads_), c_.arithmetic(Op::kSub, value, known));
    }
    return c_.arithmetic(Op::kAdd, s, c_.arithmetic(Op::kMul, at(keys_, t, {s_.keys, 1}), value));
  }

  NodeContext& c_;
  LinearShape s_;
  DType type_;
  Made queries_ = ValueId{}, keys_ = ValueId{}, values_ = ValueId{}, decay_ = ValueId{}, beta_ = ValueId{};
  int64_t decay_rows_ = 1, beta_heads_ = 1;
};

}  // namespace

Result<void> import_linear_attention(NodeContext& c) {
  TCC_TRY(const LinearShape shape, read_linear_shape(c));
  return LinearAttention(c, shape).run();
}

}  // namespace tcc::onnx
