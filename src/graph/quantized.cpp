// Products of quantized tensors in integers.
//
//   MatMul(Mul(Sub(Cast(q), z), s), Mul(Cast(w), t))
//     becomes
//   Mul(Cast(Sub(MatMul(q, w), z * sums of w)), s * t)
//
// where q and w are of 8 bits. With a the numbers of the left operand and b those of the right one, a zero point each,
// a sum over k terms is
//
//   sum (a - za) (b - zb)  =  sum a b  -  za sum b  -  zb sum a  +  k za zb
//
// (Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018,
// section 2.3.) The left numbers are made unsigned and the right ones signed, by 128 more or less, since dot products
// of CPUs multiply u8 by i8. GPUs multiply i8 by i8. What depends on constants alone becomes one vector that is added
// to the sums. Around an image a convolution reads its zero point, so that this vector serves every position.
#include <cmath>
#include <map>

#include "quantized_parts.h"
#include "rewrite.h"

namespace tcc::graph {
namespace {

class ProductQuantizer {
 public:
  ProductQuantizer(Graph& graph, const ByteOptions& options) : graph_(graph), options_(options) {
    // Folding takes nodes out of the order; they still say how a constant was made.
    for (const Node& node : graph.nodes) maker_.emplace(node.output, node.id);
  }

  std::vector<FloatProduct> run() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    Replacements replacements(graph_);
    for (NodeId id : order) {
      replacements.update(graph_.node(id));
      const Node node = graph_.node(id);
      reason_.clear();
      std::optional<ValueId> made = product(node);
      if (!made) made = narrowed(node);
      if (!made) made = moved(node);
      if (!made) made = quantized_again(node);
      if (made) {
        replacements.replace(node.output, *made);
        continue;
      }
      if (!reason_.empty()) left_.push_back({id, reason_});
      graph_.order.push_back(id);
    }
    replacements.update_outputs();
    return std::move(left_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  const Node* maker(ValueId id) const {
    if (value(id).producer != kNone) return &graph_.node(value(id).producer);
    auto it = maker_.find(id);
    return it == maker_.end() ? nullptr : &graph_.node(it->second);
  }

  // --- operands

  // The parameter beside a tensor of shape `onto`.
  std::optional<Parameter> parameter(ValueId id, const Shape& onto) const {
    const Shape& own = shape(id);
    Parameter p{id, -1};
    if (value(id).elements() == 1) return p;
    if (own.size() > onto.size()) return std::nullopt;
    const size_t skip = onto.size() - own.size();
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] == 1) continue;
      if (p.axis >= 0 || own[i] != onto[skip + i]) return std::nullopt;
      p.axis = static_cast<int64_t>(skip + i);
    }
    return p;
  }
  // Whole numbers of 8 bits as floats: a constant, or a Cast of them.
  bool holds_bytes(ValueId id) const {
    if (value(id).is_constant()) {
      const std::vector<double> v = constant_doubles(*value(id).constant, value(id).dtype, value(id).elements());
      return std::all_of(v.begin(), v.end(), [](double x) { return x == std::trunc(x) && std::fabs(x) <= 255; });
    }
    const Node* cast = maker(id);
    return cast != nullptr && cast->op == Op::kCast && is_byte(value(cast->inputs[0]).dtype);
  }

  // A Cast of constant bytes that is not folded yet, as a constant; else the value itself.
  ValueId as_constant(ValueId id) {
    const Node* cast = value(id).is_constant() ? nullptr : maker(id);
    if (cast == nullptr || cast->op != Op::kCast) return id;
    const Value bytes = value(cast->inputs[0]);
    if (!bytes.is_constant() || !is_byte(bytes.dtype)) return id;
    const std::vector<double> v = constant_doubles(*bytes.constant, bytes.dtype, bytes.elements());
    const DType to = value(id).dtype;
    return graph_.add_constant(bytes.name, to, bytes.shape, make_constant_from_doubles(to, v));
  }

  // nullopt: it is not made of numbers of 8 bits, or in another way (then reason_ says how).
  std::optional<Quantized> quantized(ValueId id) {
    const Node* found = maker(id);
    if (found == nullptr || !is_float(value(id).dtype)) return std::nullopt;
    const Node node = *found;
    switch (node.op) {
      case Op::kCast:
        if (is_byte(value(node.inputs[0]).dtype)) return Quantized{node.inputs[0], {}, {}};
        return std::nullopt;
      case Op::kSub: {
        std::optional<Quantized> q = quantized(node.inputs[0]);
        if (!q || q->scale.id != kNone || q->zero.id != kNone || shape(id) != shape(node.inputs[0]))
          return std::nullopt;
        const std::optional<Parameter> zero = parameter(as_constant(node.inputs[1]), shape(id));
        if (!zero || !holds_bytes(zero->id)) return note("its zero points differ along several axes");
        q->zero = *zero;
        return q;
      }
      case Op::kMul: {
        std::optional<Quantized> q = quantized(node.inputs[0]);
        if (!q || q->scale.id != kNone || shape(id) != shape(node.inputs[0])) return std::nullopt;
        const std::optional<Parameter> scale = parameter(node.inputs[1], shape(id));
        if (!scale) return note("its scales differ along several axes");
        q->scale = *scale;
        return q;
      }
      case Op::kReshape: {
        std::optional<Quantized> q = quantized(node.inputs[0]);
        if (!q) return std::nullopt;
        if (q->scale.axis >= 0 || q->zero.axis >= 0) return note("a Reshape is between it and its scales");
        q->numbers = emit_reshape(graph_, q->numbers, shape(id));
        return q;
      }
      case Op::kTranspose: {
        std::optional<Quantized> q = quantized(node.inputs[0]);
        if (!q) return std::nullopt;
        const auto& perm = node.as<TransposeAttrs>().perm;
        for (Parameter* p : {&q->zero, &q->scale})
          if (p->axis >= 0) p->axis = std::find(perm.begin(), perm.end(), p->axis) - perm.begin();
        q->numbers = emit_transposed(graph_, q->numbers, perm);
        return q;
      }
      default:
        return std::nullopt;
    }
  }
  std::optional<Quantized> note(std::string reason) {
    reason_ = std::move(reason);
    return std::nullopt;
  }
  std::nullopt_t leave(std::string reason) {
    reason_ = std::move(reason);
    return std::nullopt;
  }

  // Numbers of the other sign, 128 more or less: their highest bit the other way round.
  ValueId flipped(ValueId id) {
    auto [it, fresh] = flipped_.emplace(id, kNone);
    if (!fresh) return it->second;
    const Value v = value(id);
    const DType to = v.dtype == DType::kU8 ? DType::kI8 : DType::kU8;
    if (v.is_constant()) {
      std::vector<std::byte> bytes = bytes_of(v);
      for (std::byte& b : bytes) b ^= std::byte{0x80};
      return flipped_[id] = graph_.add_constant(v.name, to, v.shape, make_constant(std::move(bytes)));
    }
    const ValueId half =
        graph_.add_constant("", DType::kI32, {}, make_splat(DType::kI32, to == DType::kU8 ? 128 : -128));
    const ValueId wide = emit_node(graph_, Op::kCast, CastAttrs{DType::kI32}, {id}, v.name);
    const ValueId moved = emit_node(graph_, Op::kAdd, NoAttrs{}, {wide, half}, v.name);
    return flipped_[id] = emit_node(graph_, Op::kCast, CastAttrs{to}, {moved}, v.name);
  }
  Zero zero_of(const Parameter& p, double moved) {
    Zero zero;
    if (p.id == kNone) {
      zero.known = {moved};
    } else if (const Value& v = value(p.id); v.is_constant()) {
      zero.known = constant_doubles(*v.constant, v.dtype, v.elements());
      for (double& z : zero.known) z += moved;
    } else {
      const Value wide =
          value(emit_node(graph_, Op::kCast, CastAttrs{DType::kI32}, {maker(p.id)->inputs[0]}, std::string(v.name)));
      zero.computed = wide.id;
      if (moved != 0) zero.computed = arithmetic(Op::kAdd, wide.id, integers({}, {moved}));
    }
    return zero;
  }

  ValueId integers(Shape s, const std::vector<double>& numbers) {
    return graph_.add_constant("", DType::kI32, std::move(s), make_constant_from_doubles(DType::kI32, numbers));
  }
  ValueId emit(Op op, Attributes attrs, std::vector<ValueId> inputs, const Node& of) {
    return emit_node(graph_, op, std::move(attrs), std::move(inputs), of);
  }
  ValueId arithmetic(Op op, ValueId a, ValueId b) { return emit_node(graph_, op, NoAttrs{}, {a, b}, current_); }

  // --- products

  // A parameter of the left (or right) operand beside the result.
  ValueId beside_result(const Parameter& p, const Roles& r, bool left) {
    return p.axis < 0 ? emit_reshape(graph_, p.id, {}) : emit_reshape(graph_, p.id, left ? r.by_row : r.by_column);
  }
  ValueId beside_result(const Zero& zero, const Roles& r, bool left) {
    if (zero.computed != kNone) return emit_reshape(graph_, zero.computed, {});
    if (zero.known.size() == 1) return integers({}, zero.known);
    return integers(left ? r.by_row : r.by_column, zero.known);
  }

  std::optional<ValueId> product(const Node& node) {
    if (node.op != Op::kConv && node.op != Op::kGemm && node.op != Op::kMatMul) return std::nullopt;
    if (!is_float(value(node.output).dtype) || value(node.output).elements() == 0) return std::nullopt;
    current_ = node.name;
    const size_t before = graph_.order.size();
    std::optional<Quantized> a = quantized(node.inputs[0]);
    const std::string left_reason = std::exchange(reason_, "");
    std::optional<Quantized> b = quantized(node.inputs[1]);
    std::optional<ValueId> made;
    if (a && b) {
      made = integer_product(node, *a, *b);
    } else if (a || b) {
      const std::string& known = a ? reason_ : left_reason;
      const std::string why = known.empty() ? "it is not quantized" : known;
      reason_ = fmt::format("its {} operand: {}", a ? "right" : "left", why);
    } else {
      if (reason_.empty()) reason_ = left_reason;
    }
    if (!made) graph_.order.resize(before);
    return made;
  }

  std::optional<ValueId> integer_product(const Node& node, Quantized a, Quantized b) {
    const bool conv = node.op == Op::kConv;
    if (conv && node.as<ConvAttrs>().winograd > 0) return std::nullopt;
    if (!conv && (shape(node.inputs[0]).size() < 2 || shape(node.inputs[1]).size() < 2))
      return leave("it multiplies by a vector");
    if (value(a.numbers).is_constant() && value(b.numbers).is_constant()) return std::nullopt;
    const Roles r = product_roles(graph_, node);
    for (const Parameter* p : {&a.zero, &a.scale})
      if (p->axis >= 0 && (p->axis != r.rows || conv))
        return leave("scales or zero points of its left operand differ along an axis that is summed");
    for (const Parameter* p : {&b.zero, &b.scale})
      if (p->axis >= 0 && p->axis != r.columns)
        return leave("scales or zero points of its right operand differ along an axis that is summed");
    for (const Parameter* p : {&a.zero, &b.zero})
      if (p->id != kNone && !value(p->id).is_constant() && p->axis >= 0)
        return leave("its zero points are computed, and differ");
    if (r.terms > (INT32_MAX - 1) / (255.0 * 128)) return leave("its sums may be longer than 32 bits hold");
    const DType left = options_.is_signed ? DType::kI8 : DType::kU8;
    const bool move_a = value(a.numbers).dtype != left, move_b = value(b.numbers).dtype == DType::kU8;
    Zero za = zero_of(a.zero, !move_a ? 0 : options_.is_signed ? -128 : 128), zb = zero_of(b.zero, move_b ? -128 : 0);
    if (conv && !zb.is_zero() && !sums_of_windows_fit(node)) return leave("its groups share zero points of weights");
    if (move_a) a.numbers = flipped(a.numbers);
    if (move_b) b.numbers = flipped(b.numbers);
    center_weights(r, b.numbers, zb);
    std::optional<std::vector<double>> bias = whole_bias(node, r, a, b);
    ValueId sums = conv ? convolution(node, a.numbers, b.numbers, za, zb, r, bias.value_or(std::vector<double>{}))
                        : matrices(node, a.numbers, b.numbers, za, zb, r, bias.value_or(std::vector<double>{}));
    return scaled(node, sums, r, a, b, !bias && node.inputs.size() == 3);
  }

  // A convolution of several groups with zero points of its weights needs a sum for each window and group.
  bool sums_of_windows_fit(const Node& node) const {
    const auto group = node.as<ConvAttrs>().group;
    return group == 1 || group == shape(node.inputs[1])[0];
  }

  // Constant weights minus their zero points, where 8 bits hold all of them.
  void center_weights(const Roles& r, ValueId& numbers, Zero& zero) {
    const Value w = value(numbers);
    if (!w.is_constant() || zero.computed != kNone || zero.is_zero() || w.elements() == 0) return;
    std::vector<std::byte> bytes = bytes_of(w);
    const Shape strides = dense_strides(w.shape);
    const auto axis = static_cast<size_t>(r.columns);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) / strides[axis] % w.shape[axis];
      const double z = zero.known[zero.known.size() == 1 ? 0 : static_cast<size_t>(column)];
      const double centered = static_cast<double>(static_cast<int8_t>(bytes[i])) - z;
      if (centered < -128 || centered > 127) return;
      bytes[i] = static_cast<std::byte>(static_cast<int8_t>(centered));
    }
    numbers = graph_.add_constant(w.name, w.dtype, w.shape, make_constant(std::move(bytes)));
    zero.known = {0};
  }

  ValueId convolution(const Node& node, ValueId x, ValueId w, const Zero& za, const Zero& zb, const Roles& r,
                      std::vector<double> bias) {
    auto attrs = node.as<ConvAttrs>();
    const bool known = za.computed == kNone, constant = value(w).is_constant();
    std::optional<std::vector<double>> sums = column_sums(graph_, w, r, true);
    // Channels at the zero point, so that groups of neighbors are whole.
    double terms = r.terms;
    const int64_t channels = shape(x)[1];
    if (attrs.group == 1 && known && channels % options_.pad_channels != 0 && channels > 1 && constant) {
      pad_to_groups(x, w, za.known[0]);
      terms = terms / static_cast<double>(channels) * static_cast<double>(shape(x)[1]);
    }
    attrs.pad_value = known ? static_cast<int64_t>(za.known[0]) : 0;
    const bool folds = known && zb.computed == kNone && sums;
    if (folds) add_constant_part(bias, za, zb, *sums, terms);
    // Filters of zeros, so that vectors of results are whole: what they make is cut off.
    const int64_t filters = shape(w)[0], whole = whole_filters(filters);
    const bool grows = folds && attrs.group == 1 && !options_.is_signed && whole != filters && constant;
    if (grows) {
      w = emit_resized(graph_, w, 0, whole, 0);
      if (!bias.empty()) bias.resize(static_cast<size_t>(whole), 0);
    }
    std::vector<ValueId> inputs{x, w};
    if (std::any_of(bias.begin(), bias.end(), [](double v) { return v != 0; }))
      inputs.push_back(integers({static_cast<int64_t>(bias.size())}, bias));
    ValueId y = emit(Op::kConv, attrs, inputs, node);
    if (grows) {
      Shape used = shape(y);
      used[1] = filters;
      y = emit(Op::kSlice, SliceAttrs{Shape(used.size(), 0), Shape(used.size(), 1), used}, {y}, node);
    }
    auto conv_of = [&](ValueId input, ValueId weight, ConvAttrs a) {
      return emit(Op::kConv, std::move(a), {input, weight}, node);
    };
    if (!folds && !za.is_zero()) {
      // Sums of the weights that meet the image, at each position.
      const Shape in = shape(x);
      Shape one = in;
      one[0] = 1;
      const ValueId ones = ones_like(x, one);
      ConvAttrs a = attrs;
      a.pad_value = known ? 1 : 0;
      y = arithmetic(Op::kSub, y, arithmetic(Op::kMul, conv_of(ones, w, a), beside_result(za, r, true)));
    }
    if (!zb.is_zero()) {
      Shape filter = shape(w);
      filter[0] = attrs.group;
      const ValueId ones = graph_.add_constant("", DType::kI8, filter, make_splat(DType::kI8, 1));
      const ValueId windows = conv_of(x, ones, attrs);
      y = arithmetic(Op::kSub, y, arithmetic(Op::kMul, windows, beside_result(zb, r, false)));
      if (!folds && !za.is_zero()) {
        Shape one = shape(x);
        one[0] = 1;
        ConvAttrs a = attrs;
        a.pad_value = known ? 1 : 0;
        const ValueId counts = conv_of(ones_like(x, one), ones, a);
        const ValueId both = arithmetic(Op::kMul, beside_result(za, r, true), beside_result(zb, r, false));
        y = arithmetic(Op::kAdd, y, arithmetic(Op::kMul, counts, both));
      }
    }
    return y;
  }
  ValueId ones_like(ValueId x, const Shape& s) {
    return graph_.add_constant("", value(x).dtype, s, make_splat(value(x).dtype, 1));
  }
  static int64_t whole_filters(int64_t filters) {
    constexpr int64_t kGroup = 4, kVector = 16;
    const int64_t multiple = filters % kGroup == 0 || filters <= 2 * kGroup ? kGroup : kVector;
    return filters == 1 ? 1 : (filters + multiple - 1) / multiple * multiple;
  }
  void pad_to_groups(ValueId& x, ValueId& w, double zero) {
    const int64_t group = options_.pad_channels, whole = (shape(x)[1] + group - 1) / group * group;
    x = emit_resized(graph_, x, 1, whole, zero);
    w = emit_resized(graph_, w, 1, whole, 0);
  }
  // Of a constant, whatever its size: nothing is summed while the model runs.
  ValueId constant_sums(ValueId numbers, size_t axis) {
    const Value v = value(numbers);
    const std::vector<double> all = constant_doubles(*v.constant, v.dtype, v.elements());
    Shape kept = v.shape;
    kept[axis] = 1;
    const int64_t inner = element_count(Shape(v.shape.begin() + static_cast<int64_t>(axis) + 1, v.shape.end()));
    std::vector<double> sums(static_cast<size_t>(element_count(kept)), 0);
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const int64_t outer = i / (inner * v.shape[axis]);
      sums[static_cast<size_t>(outer * inner + i % inner)] += all[static_cast<size_t>(i)];
    }
    return graph_.add_constant(v.name, DType::kI32, kept, make_constant_from_doubles(DType::kI32, sums));
  }

  ValueId sums_over(ValueId numbers, int64_t axis, const Node& node) {
    if (value(numbers).is_constant()) return constant_sums(numbers, static_cast<size_t>(axis));
    const ValueId wide = emit(Op::kCast, CastAttrs{DType::kI32}, {numbers}, node);
    return emit(Op::kReduceSum, ReduceAttrs{{axis}, true, false}, {wide}, node);
  }

  ValueId matrices(const Node& node, ValueId a, ValueId b, const Zero& za, const Zero& zb, const Roles& r,
                   std::vector<double> bias) {
    std::optional<std::vector<double>> sums = column_sums(graph_, b, r, false);
    const bool folds = za.computed == kNone && za.known.size() == 1 && zb.computed == kNone && sums;
    if (folds) add_constant_part(bias, za, zb, *sums, r.terms);
    const bool adds = std::any_of(bias.begin(), bias.end(), [](double v) { return v != 0; });
    ValueId y = kNone;
    if (node.op == Op::kGemm) {
      auto attrs = node.as<GemmAttrs>();
      attrs.alpha = attrs.beta = 1;
      // Dot products of CPUs want constant weights by rows, as MatMul has them.
      if (attrs.trans_b && !options_.is_signed && value(b).is_constant()) {
        b = emit_transposed(graph_, b, {1, 0});
        attrs.trans_b = false;
      }
      std::vector<ValueId> inputs{a, b};
      if (adds) inputs.push_back(integers(r.by_column, bias));
      y = emit(Op::kGemm, attrs, inputs, node);
    } else {
      y = emit(Op::kMatMul, node.attrs, {a, b}, node);
      if (adds) y = arithmetic(Op::kAdd, y, integers(r.by_column, bias));
    }
    auto row = [&](ValueId numbers, int64_t axis, bool left) {
      // A sum of rows is a column beside the result, one of columns a row, whatever is transposed.
      ValueId sum = sums_over(numbers, axis, node);
      const int64_t rank = static_cast<int64_t>(shape(sum).size());
      const bool in_place = axis == (left ? rank - 1 : rank - 2);
      if (in_place) return sum;
      Shape moved = shape(sum);
      std::swap(moved[moved.size() - 1], moved[moved.size() - 2]);
      return emit_reshape(graph_, sum, moved);
    };
    if (!folds && !za.is_zero())
      y = arithmetic(Op::kSub, y, arithmetic(Op::kMul, row(b, r.b_sum, false), beside_result(za, r, true)));
    if (!zb.is_zero()) {
      y = arithmetic(Op::kSub, y, arithmetic(Op::kMul, row(a, r.a_sum, true), beside_result(zb, r, false)));
      if (!folds && !za.is_zero()) {
        const ValueId both = arithmetic(Op::kMul, beside_result(za, r, true), beside_result(zb, r, false));
        y = arithmetic(Op::kAdd, y, arithmetic(Op::kMul, both, integers({}, {r.terms})));
      }
    }
    return y;
  }

  // --- scales and biases

  // The constant scale of the sums, one or one for each column; nothing where it is not constant or differs by row.
  std::optional<std::vector<double>> known_scale(const Quantized& a, const Quantized& b) const {
    std::vector<double> scale{1};
    for (const Parameter* p : {&a.scale, &b.scale}) {
      if (p->id == kNone) continue;
      const Value& v = value(p->id);
      if (!v.is_constant() || (p == &a.scale && p->axis >= 0)) return std::nullopt;
      const std::vector<double> s = constant_doubles(*v.constant, v.dtype, v.elements());
      if (s.size() > scale.size()) scale.resize(s.size(), scale[0]);
      for (size_t i = 0; i < scale.size(); ++i) scale[i] *= s[s.size() == 1 ? 0 : i];
    }
    return scale;
  }

  // A bias that is a whole number of the sums' units, as quantizers write it. nullopt: none, or one of floats.
  std::optional<std::vector<double>> whole_bias(const Node& node, const Roles& r, const Quantized& a,
                                                const Quantized& b) const {
    if (node.inputs.size() < 3) return std::vector<double>{};
    const Value& v = value(node.inputs[2]);
    const int64_t columns = shape(node.inputs[1])[static_cast<size_t>(r.columns)];
    if (!v.is_constant() || v.elements() != columns || v.shape.empty() || v.shape.back() != columns)
      return std::nullopt;
    if (node.op == Op::kGemm && (node.as<GemmAttrs>().alpha != 1 || node.as<GemmAttrs>().beta != 1))
      return std::nullopt;
    const std::optional<std::vector<double>> scale = known_scale(a, b);
    if (!scale) return std::nullopt;
    std::vector<double> bias = constant_doubles(*v.constant, v.dtype, columns);
    for (size_t i = 0; i < bias.size(); ++i) {
      const double units = bias[i] / (*scale)[scale->size() == 1 ? 0 : i], whole = std::nearbyint(units);
      // Scales and biases are rounded to f32.
      if (!(std::fabs(units - whole) <= 1e-3 + 4e-7 * std::fabs(units)) || std::fabs(whole) > (1 << 30))
        return std::nullopt;
      bias[i] = whole;
    }
    return bias;
  }

  // The sums as the node's own type, times the scales, plus a bias of floats.
  ValueId scaled(const Node& node, ValueId sums, const Roles& r, const Quantized& a, const Quantized& b,
                 bool adds_bias) {
    const DType to = value(node.output).dtype;
    ValueId y = emit(Op::kCast, CastAttrs{to}, {sums}, node);
    double alpha = 1, beta = 1;
    if (node.op == Op::kGemm) alpha = node.as<GemmAttrs>().alpha, beta = node.as<GemmAttrs>().beta;
    auto number = [&](double v) { return graph_.add_constant("", to, {}, make_splat(to, v)); };
    if (const auto scale = known_scale(a, b)) {
      std::vector<double> s = *scale;
      for (double& v : s) v *= alpha;
      if (s != std::vector<double>{1}) {
        const ValueId factor =
            graph_.add_constant("", to, s.size() == 1 ? Shape{} : r.by_column, make_constant_from_doubles(to, s));
        y = arithmetic(Op::kMul, y, factor);
      }
    } else {
      ValueId factor = kNone;
      if (a.scale.id != kNone) factor = beside_result(a.scale, r, true);
      if (b.scale.id != kNone) {
        const ValueId right = beside_result(b.scale, r, false);
        factor = factor == kNone ? right : arithmetic(Op::kMul, factor, right);
      }
      if (alpha != 1) factor = arithmetic(Op::kMul, factor, number(alpha));
      y = arithmetic(Op::kMul, y, factor);
    }
    if (!adds_bias || beta == 0) return y;
    ValueId bias = node.inputs[2];
    if (node.op == Op::kConv) bias = emit_reshape(graph_, bias, r.by_column);
    if (beta != 1) bias = arithmetic(Op::kMul, bias, number(beta));
    return arithmetic(Op::kAdd, y, bias);
  }

  // An i32 that goes through a longer type and back.
  std::optional<ValueId> narrowed(const Node& node) const {
    if (node.op != Op::kCast || node.as<CastAttrs>().to != DType::kI32) return std::nullopt;
    const Node* wide = maker(node.inputs[0]);
    if (wide == nullptr || wide->op != Op::kCast || value(node.inputs[0]).is_constant()) return std::nullopt;
    const bool same = value(wide->inputs[0]).dtype == DType::kI32 && value(wide->output).dtype == DType::kF64;
    return same ? std::optional(wide->inputs[0]) : std::nullopt;
  }

  // --- operators between dequantization and quantization

  // What moves or compares numbers does so before they are scaled, since scales are positive.
  std::optional<ValueId> moved(const Node& node) {
    const bool moves = node.op == Op::kMaxPool || node.op == Op::kTranspose || node.op == Op::kReshape ||
                       node.op == Op::kSlice || node.op == Op::kExpand;
    if (!moves || value(node.output).dtype != DType::kF32 || value(node.output).elements() == 0) return std::nullopt;
    const size_t before = graph_.order.size();
    const std::optional<Quantized> x = quantized(node.inputs[0]);
    reason_.clear();
    if (!x || value(x->numbers).is_constant() || x->scale.id == kNone || x->scale.axis >= 0 || x->zero.axis >= 0 ||
        (node.op == Op::kMaxPool && !is_positive(x->scale.id))) {
      graph_.order.resize(before);
      return std::nullopt;
    }
    ValueId y = emit(Op::kCast, CastAttrs{DType::kF32}, {emit(node.op, node.attrs, {x->numbers}, node)}, node);
    if (x->zero.id != kNone) y = emit(Op::kSub, NoAttrs{}, {y, emit_reshape(graph_, x->zero.id, {})}, node);
    return emit(Op::kMul, NoAttrs{}, {y, emit_reshape(graph_, x->scale.id, {})}, node);
  }
  bool is_positive(ValueId id) const {
    const Value& v = value(id);
    return v.is_constant() && constant_element(*v.constant, v.dtype, 0) > 0;
  }

  // Cast(Clip(Round(x / scale) + zero)) of an x that is (q - zero) * scale is q.
  std::optional<ValueId> quantized_again(const Node& node) {
    if (node.op != Op::kCast || !is_byte(node.as<CastAttrs>().to)) return std::nullopt;
    auto above = [&](ValueId id, Op op) {
      const Node* n = value(id).is_constant() ? nullptr : maker(id);
      return n != nullptr && n->op == op ? n : nullptr;
    };
    const Node* clip = above(node.inputs[0], Op::kClip);
    if (clip == nullptr) return std::nullopt;
    ValueId x = clip->inputs[0], zero = kNone;
    if (const Node* add = above(x, Op::kAdd)) x = add->inputs[0], zero = add->inputs[1];
    const Node* round = above(x, Op::kUnary);
    if (round == nullptr || round->as<UnaryAttrs>().fn != UnaryFn::kRound) return std::nullopt;
    const Node* div = above(round->inputs[0], Op::kDiv);
    if (div == nullptr) return std::nullopt;
    const size_t before = graph_.order.size();
    const ValueId scale = div->inputs[1];
    const std::optional<Quantized> q = quantized(div->inputs[0]);
    reason_.clear();
    auto number = [&](ValueId id, double otherwise) -> std::optional<double> {
      if (id == kNone) return otherwise;
      const Value& v = value(id);
      if (!v.is_constant() || v.elements() != 1) return std::nullopt;
      return constant_element(*v.constant, v.dtype, 0);
    };
    const auto& limits = clip->as<ClipAttrs>();
    const double low = node.as<CastAttrs>().to == DType::kU8 ? 0 : -128;
    const bool same = q && value(q->numbers).dtype == node.as<CastAttrs>().to &&
                      shape(q->numbers) == shape(node.output) && limits.min <= low && limits.max >= low + 255 &&
                      number(q->scale.id, 1) && number(q->scale.id, 1) == number(scale, 1) && number(q->zero.id, 0) &&
                      number(q->zero.id, 0) == number(zero, 0);
    if (same) return q->numbers;
    graph_.order.resize(before);
    return std::nullopt;
  }

  Graph& graph_;
  const ByteOptions options_;
  std::map<ValueId, NodeId> maker_;
  std::map<ValueId, ValueId> flipped_;
  std::string reason_, current_;
  std::vector<FloatProduct> left_;
};

}  // namespace

std::vector<FloatProduct> quantize_products(Graph& graph, const ByteOptions& options) {
  std::vector<FloatProduct> left = ProductQuantizer(graph, options).run();
  remove_dead_nodes(graph);
  simplify_requantization(graph);
  read_flipped_bytes(graph);
  return left;
}

}  // namespace tcc::graph
