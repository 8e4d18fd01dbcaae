// Random graphs over all operators of the graph: diamonds, broadcasts, odd shapes, values that several nodes read.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/reference.h"
#include "tcc/support/rng.h"

namespace tcc::driver_test {

using graph::BinaryFn;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::UnaryFn;
using graph::ValueId;

// Makes one graph. Functions with steps (comparisons, roundings, casts to integers, orders) only read values that are
// computed exactly, for a rounding error before a step would be a wrong result behind it.
class GraphMaker {
 public:
  explicit GraphMaker(Rng rng) : rng_(rng) {}

  Graph make(int64_t nodes) {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF16,
                                       DType::kI32, DType::kI64, DType::kBool};
    const int64_t inputs = between(1, 4);
    // Channels of whole cache lines can be parts of other tensors without copies.
    const Shape common = chance(4) ? Shape{1, between(1, 5), 4, 4} : shape(between(1, 4), 7);
    for (int64_t i = 0; i < inputs; ++i) {
      const DType dtype = i == 0 ? DType::kF32 : kTypes[rng_.below(std::size(kTypes))];
      Shape s = rng_.below(2) == 0 ? common : shape(between(1, 4), 7);
      keep(g_.add_input("x" + std::to_string(i), dtype, s), true);
    }
    for (int64_t tries = 0; std::ssize(g_.order) < nodes && tries < 40 * nodes; ++tries) step();
    add_outputs();
    return std::move(g_);
  }

 private:
  struct Known {
    ValueId id;
    bool exact;
  };
  int64_t between(int64_t low, int64_t high) { return low + rng_.below(high - low + 1); }
  bool chance(int64_t one_in) { return rng_.below(one_in) == 0; }
  Shape shape(int64_t rank, int64_t most) {
    Shape s;
    for (int64_t i = 0; i < rank; ++i) s.push_back(between(1, most));
    return s;
  }
  const graph::Value& value(ValueId id) const { return g_.value(id); }
  void keep(ValueId id, bool exact) { known_.push_back({id, exact}); }

  // Recent values come up more often: graphs become deep.
  Known any() {
    const int64_t n = std::ssize(known_);
    const int64_t back = std::min(rng_.below(n), rng_.below(n));
    return known_[static_cast<size_t>(n - 1 - back)];
  }
  template <class Accepts>
  std::optional<Known> some(Accepts accepts) {
    for (int tries = 0; tries < 12; ++tries) {
      const Known k = any();
      if (accepts(k)) return k;
    }
    return std::nullopt;
  }
  std::optional<Known> real(bool exact = false) {
    return some([&](Known k) { return graph::is_float(value(k.id).dtype) && (k.exact || !exact); });
  }
  ValueId constant(DType dtype, const Shape& s, double low, double high) {
    std::vector<double> values(static_cast<size_t>(graph::element_count(s)));
    for (double& v : values) {
      v = low + (high - low) * rng_.uniform();
      if (!graph::is_float(dtype)) v = std::floor(v);
    }
    return g_.add_constant("c", dtype, s, graph::make_constant_from_doubles(dtype, values));
  }
  ValueId whole(const Shape& s, int64_t extent) {
    return constant(chance(2) ? DType::kI64 : DType::kI32, s, 0, static_cast<double>(extent));
  }
  bool add(Op op, graph::Attributes attrs, std::vector<ValueId> inputs, bool exact) {
    auto made = g_.add_node(op, std::move(attrs), std::move(inputs), "n" + std::to_string(g_.nodes.size()));
    if (!made || value(*made).elements() > 4096 || value(*made).elements() == 0) {
      if (made) g_.order.pop_back();
      return false;
    }
    keep(*made, exact);
    return true;
  }

  void step() {
    switch (rng_.below(24)) {
      case 0:
      case 1:
      case 2:
        return unary();
      case 3:
      case 4:
      case 5:
      case 6:
        return binary();
      case 7:
        return elementwise();
      case 8:
        return reduction();
      case 9:
        return product();
      case 10:
        return convolution();
      case 11:
        return window();
      case 12:
        return row();
      case 13:
      case 14:
        return reshape();
      case 15:
        return move();
      case 16:
        return cut();
      case 17:
        return gather();
      case 18:
        return scatter();
      case 19:
        return scan();
      case 20:
        return resample();
      case 21:
        return select();
      case 22:
        return order();
      default:
        return cast();
    }
  }

  static bool has_steps(UnaryFn fn) {
    static constexpr UnaryFn kSteps[] = {UnaryFn::kSign,  UnaryFn::kFloor,  UnaryFn::kCeil,
                                         UnaryFn::kRound, UnaryFn::kShrink, UnaryFn::kThresholdedRelu,
                                         UnaryFn::kIsNan, UnaryFn::kIsInf,  UnaryFn::kReciprocal,
                                         UnaryFn::kTan,   UnaryFn::kLog,    UnaryFn::kAcosh,
                                         UnaryFn::kAtanh, UnaryFn::kAsin,   UnaryFn::kAcos,
                                         UnaryFn::kSqrt};
    return std::find(std::begin(kSteps), std::end(kSteps), fn) != std::end(kSteps);
  }
  void unary() {
    const auto rows = graph::unary_rows();
    const graph::UnaryRow& row = rows[static_cast<size_t>(rng_.below(std::ssize(rows)))];
    const auto x =
        some([&](Known k) { return graph::accepts(row.domain, value(k.id).dtype) && (k.exact || !has_steps(row.fn)); });
    if (!x) return;
    const bool keeps =
        row.fn == UnaryFn::kAbs || row.fn == UnaryFn::kNeg || has_steps(row.fn) || !graph::is_float(value(x->id).dtype);
    const bool rounds = row.fn == UnaryFn::kReciprocal || row.fn == UnaryFn::kTan || row.fn == UnaryFn::kSqrt ||
                        row.fn == UnaryFn::kShrink || row.fn == UnaryFn::kLog || row.fn == UnaryFn::kAcosh ||
                        row.fn == UnaryFn::kAtanh || row.fn == UnaryFn::kAsin || row.fn == UnaryFn::kAcos;
    const bool whole_numbers = !graph::is_float(value(x->id).dtype);
    add(Op::kUnary, graph::UnaryAttrs{row.fn, whole_numbers ? 1 : 0.5, whole_numbers ? 1 : 0.75}, {x->id},
        x->exact && keeps && !rounds);
  }

  // Another operand that broadcasts with x, of its type.
  Known partner(Known x, double low, double high) {
    const graph::Value& v = value(x.id);
    const auto y = some([&](Known k) {
      return value(k.id).dtype == v.dtype && graph::broadcast_shapes(value(k.id).shape, v.shape).has_value();
    });
    if (y && !chance(4)) return *y;
    Shape s(v.shape.begin() + between(0, std::ssize(v.shape)), v.shape.end());
    for (int64_t& extent : s) extent = chance(3) ? 1 : extent;
    return {constant(v.dtype, s, low, high), true};
  }
  void binary() {
    const auto fn = static_cast<BinaryFn>(rng_.below(static_cast<int64_t>(BinaryFn::kGreaterOrEqual) + 1));
    const bool picks = fn == BinaryFn::kMax || fn == BinaryFn::kMin;
    const bool smooth = picks || fn == BinaryFn::kPRelu;
    const graph::Domain domain = graph::binary_domain(fn);
    const auto x = some([&](Known k) { return graph::accepts(domain, value(k.id).dtype) && (k.exact || smooth); });
    if (!x) return;
    const bool real = graph::is_float(value(x->id).dtype);
    if (fn == BinaryFn::kMod && real) return;
    const bool positive = fn == BinaryFn::kPow || fn == BinaryFn::kMod || fn == BinaryFn::kFMod ||
                          fn == BinaryFn::kShiftLeft || fn == BinaryFn::kShiftRight;
    Known y = partner(*x, -3, 4);
    if (positive) y = {constant(value(x->id).dtype, {}, 1, 4), true};
    if (!smooth && !y.exact) return;
    if (fn == BinaryFn::kPow && !real) return;  // leaves the range in which doubles are exact
    const bool exact = x->exact && y.exact && (picks || !real || graph::gives_bool(domain));
    add(Op::kBinary, graph::BinaryAttrs{fn}, {x->id, y.id}, exact);
  }
  void elementwise() {
    static constexpr Op kOps[] = {Op::kAdd,  Op::kSub,     Op::kMul,  Op::kDiv, Op::kRelu,     Op::kLeakyRelu,
                                  Op::kClip, Op::kSigmoid, Op::kTanh, Op::kAdd, Op::kBatchNorm};
    const Op op = kOps[rng_.below(std::size(kOps))];
    const auto x = some([&](Known k) { return value(k.id).dtype != DType::kBool; });
    if (!x) return;
    const DType dtype = value(x->id).dtype;
    const bool exact = x->exact && !graph::is_float(dtype);
    if (op == Op::kBatchNorm) {
      if (value(x->id).shape.size() < 2 || !graph::is_float(dtype)) return;
      const Shape c{value(x->id).shape[1]};
      add(op, graph::BatchNormAttrs{},
          {x->id, constant(dtype, c, 0.5, 2), constant(dtype, c, -1, 1), constant(dtype, c, -1, 1),
           constant(dtype, c, 0.5, 2)},
          false);
      return;
    }
    if (op == Op::kRelu) return void(add(op, graph::NoAttrs{}, {x->id}, x->exact));
    if (op == Op::kLeakyRelu) return void(add(op, graph::LeakyAttrs{0.125}, {x->id}, false));
    if (op == Op::kClip) return void(add(op, graph::ClipAttrs{-1.5, chance(2) ? INFINITY : 2}, {x->id}, x->exact));
    if (op == Op::kSigmoid || op == Op::kTanh) return void(add(op, graph::NoAttrs{}, {x->id}, false));
    if (op == Op::kMul && dtype == DType::kI64) return;
    Known y = partner(*x, 0.5, 3);
    if (op == Op::kDiv) y = {constant(dtype, {}, 1, 4), true};
    add(op, graph::NoAttrs{}, {x->id, y.id}, exact && y.exact);
  }
  void reduction() {
    static constexpr Op kOps[] = {Op::kReduceMean, Op::kReduceMax, Op::kReduceSum, Op::kReduceMin, Op::kReduceProd};
    const Op op = kOps[rng_.below(std::size(kOps))];
    const auto x = some([&](Known k) { return value(k.id).dtype != DType::kBool; });
    if (!x || (op == Op::kReduceProd && value(x->id).dtype == DType::kI64)) return;
    graph::ReduceAttrs a;
    for (int64_t i = 0; i < std::ssize(value(x->id).shape); ++i)
      if (chance(2)) a.axes.push_back(i);
    a.keep_dims = chance(2);
    const bool picks = op == Op::kReduceMax || op == Op::kReduceMin, real = graph::is_float(value(x->id).dtype);
    a.keeps_nan = picks && real;
    add(op, a, {x->id}, x->exact && (picks || !real));
  }
  void product() {
    const auto x = some([&](Known k) { return !value(k.id).shape.empty() && value(k.id).dtype != DType::kBool; });
    if (!x) return;
    const DType dtype = value(x->id).dtype;
    const Shape s = value(x->id).shape;
    const bool exact = x->exact && dtype == DType::kI32;
    if (s.size() == 2 && chance(2)) {
      const int64_t n = between(1, 6);
      std::vector<ValueId> in{x->id, constant(dtype, {n, s[1]}, -2, 3)};
      if (chance(2)) in.push_back(constant(dtype, {n}, -2, 3));
      add(Op::kGemm, graph::GemmAttrs{1, 1, false, true}, in, exact);
      return;
    }
    const auto y = some([&](Known k) {
      const Shape& o = value(k.id).shape;
      return value(k.id).dtype == dtype && o.size() >= 2 && o[o.size() - 2] == s.back();
    });
    if (y) return void(add(Op::kMatMul, graph::MatMulAttrs{}, {x->id, y->id}, exact && y->exact));
    add(Op::kMatMul, graph::MatMulAttrs{}, {x->id, constant(dtype, {s.back(), between(1, 6)}, -2, 3)}, exact);
  }
  std::optional<Known> image() {
    return some([&](Known k) { return graph::is_float(value(k.id).dtype) && value(k.id).shape.size() >= 3; });
  }
  void convolution() {
    const auto x = image();
    if (!x) return;
    const Shape s = value(x->id).shape;
    const size_t axes = s.size() - 2;
    graph::ConvAttrs a;
    a.kernel.assign(axes, between(1, 3));
    a.strides.assign(axes, between(1, 2));
    a.dilations.assign(axes, between(1, 2));
    a.pads_begin.assign(axes, between(0, 2));
    a.pads_end.assign(axes, between(0, 2));
    a.group = chance(3) ? s[1] : 1;
    Shape w{a.group * between(1, 3), s[1] / a.group};
    w.insert(w.end(), a.kernel.begin(), a.kernel.end());
    std::vector<ValueId> in{x->id, constant(value(x->id).dtype, w, -1, 1)};
    if (chance(2)) in.push_back(constant(value(x->id).dtype, {w[0]}, -1, 1));
    add(Op::kConv, a, in, false);
  }
  void window() {
    const auto x = image();
    if (!x) return;
    if (chance(4)) return void(add(Op::kLrn, graph::LrnAttrs{1e-2, 0.75, 1, between(1, 3)}, {x->id}, false));
    const size_t axes = value(x->id).shape.size() - 2;
    graph::PoolAttrs a;
    a.kernel.assign(axes, between(1, 3));
    a.strides.assign(axes, between(1, 2));
    a.dilations.assign(axes, 1);
    a.pads_begin.assign(axes, rng_.below(a.kernel[0]));
    a.pads_end.assign(axes, rng_.below(a.kernel[0]));
    a.ceil_mode = chance(2);
    a.count_include_pad = chance(2);
    const bool max = chance(2);
    add(max ? Op::kMaxPool : Op::kAveragePool, a, {x->id}, max && x->exact);
  }
  void row() {
    const auto x = real();
    if (!x || value(x->id).shape.empty()) return;
    const Shape s = value(x->id).shape;
    const int64_t axis = rng_.below(std::ssize(s));
    if (chance(2)) return void(add(chance(2) ? Op::kSoftmax : Op::kLogSoftmax, graph::AxisAttrs{axis}, {x->id}, false));
    const DType dtype = value(x->id).dtype;
    add(Op::kLayerNorm, graph::LayerNormAttrs{axis, 1e-2},
        {x->id, constant(dtype, {s.back()}, 0.5, 2), constant(dtype, {s.back()}, -1, 1)}, false);
  }
  void reshape() {
    const Known x = any();
    const Shape s = value(x.id).shape;
    if (chance(4)) return void(add(Op::kIdentity, graph::NoAttrs{}, {x.id}, x.exact));
    Shape to;
    if (s.size() >= 2 && chance(2)) {
      to = {s[0] * s[1]};
      to.insert(to.end(), s.begin() + 2, s.end());
    } else {
      to = s;
      to.insert(to.begin() + between(0, std::ssize(s)), 1);
    }
    add(Op::kReshape, graph::ReshapeAttrs{to}, {x.id}, x.exact);
  }
  void move() {
    const Known x = any();
    const Shape s = value(x.id).shape;
    if (s.empty()) return;
    const int64_t rank = std::ssize(s);
    switch (rng_.below(4)) {
      case 0: {
        std::vector<int64_t> perm;
        for (int64_t i = 0; i < rank; ++i) perm.insert(perm.begin() + between(0, i), i);
        add(Op::kTranspose, graph::TransposeAttrs{perm}, {x.id}, x.exact);
        return;
      }
      case 1: {
        const int64_t axis = rng_.below(rank);
        const auto y = some([&](Known k) {
          Shape o = value(k.id).shape;
          if (std::ssize(o) != rank || value(k.id).dtype != value(x.id).dtype) return false;
          o[static_cast<size_t>(axis)] = s[static_cast<size_t>(axis)];
          return o == s;
        });
        const Known other = y ? *y : x;
        add(Op::kConcat, graph::AxisAttrs{axis}, {x.id, other.id, x.id}, x.exact && other.exact);
        return;
      }
      case 2: {
        graph::PadAttrs a;
        for (int64_t i = 0; i < rank; ++i) a.begin.push_back(between(0, 2)), a.end.push_back(between(0, 2));
        a.value = value(x.id).dtype == DType::kBool ? 0 : 1;
        add(Op::kPad, a, {x.id}, x.exact);
        return;
      }
      default: {
        Shape to = s;
        for (int64_t& extent : to) extent = extent == 1 ? between(1, 4) : extent;
        if (chance(2)) to.insert(to.begin(), between(1, 3));
        add(Op::kExpand, graph::ReshapeAttrs{to}, {x.id}, x.exact);
        return;
      }
    }
  }
  void cut() {
    const Known x = any();
    graph::SliceAttrs a;
    for (int64_t extent : value(x.id).shape) {
      const int64_t count = between(1, extent), step = count == 1 ? 1 : between(1, (extent - 1) / (count - 1));
      const bool back = chance(3);
      a.extents.push_back(count);
      a.steps.push_back(back ? -step : step);
      a.starts.push_back(back ? extent - 1 : between(0, extent - 1 - (count - 1) * step));
    }
    add(Op::kSlice, a, {x.id}, x.exact);
  }
  void gather() {
    const Known x = any();
    const Shape s = value(x.id).shape;
    if (s.empty()) return;
    const int64_t axis = rng_.below(std::ssize(s)), extent = s[static_cast<size_t>(axis)];
    switch (rng_.below(3)) {
      case 0:
        return void(add(Op::kGather, graph::AxisAttrs{axis}, {x.id, whole(shape(between(0, 2), 4), extent)}, x.exact));
      case 1: {
        Shape index = s;
        index[static_cast<size_t>(axis)] = between(1, 5);
        return void(add(Op::kGatherElements, graph::AxisAttrs{axis}, {x.id, whole(index, extent)}, x.exact));
      }
      default:
        return void(add(Op::kGatherNd, graph::GatherNdAttrs{0}, {x.id, whole({between(1, 4), 1}, s[0])}, x.exact));
    }
  }
  void scatter() {
    const Known x = any();
    const Shape s = value(x.id).shape;
    if (s.empty()) return;
    const DType dtype = value(x.id).dtype;
    graph::ScatterAttrs a;
    a.reduction = dtype == DType::kBool || dtype == DType::kI64 ? graph::ScatterReduction::kNone
                                                                : static_cast<graph::ScatterReduction>(rng_.below(5));
    const bool keeps = a.reduction == graph::ScatterReduction::kNone || !graph::is_float(dtype);
    if (chance(2)) {
      a.axis = rng_.below(std::ssize(s));
      Shape index = s;
      for (int64_t& extent : index) extent = between(1, extent);
      add(Op::kScatter, a, {x.id, whole(index, s[static_cast<size_t>(a.axis)]), constant(dtype, index, 0, 2)},
          x.exact && keeps);
      return;
    }
    const int64_t depth = between(1, std::ssize(s));
    Shape updates{between(1, 4)};
    updates.insert(updates.end(), s.begin() + depth, s.end());
    const int64_t least = *std::min_element(s.begin(), s.begin() + depth);
    add(Op::kScatter, a, {x.id, whole({updates[0], depth}, least), constant(dtype, updates, 0, 2)}, x.exact && keeps);
  }
  void scan() {
    const auto x = some([&](Known k) { return !value(k.id).shape.empty() && value(k.id).dtype != DType::kBool; });
    if (!x) return;
    const bool real = graph::is_float(value(x->id).dtype);
    add(Op::kScan,
        graph::ScanAttrs{rng_.below(std::ssize(value(x->id).shape)), chance(2), chance(2), real && chance(3)}, {x->id},
        x->exact && !real);
  }
  // Blocks of an image, made of the elements of a tensor.
  void fold() {
    const auto x = some([&](Known k) { return value(k.id).dtype != DType::kBool && value(k.id).elements() % 12 == 0; });
    if (!x || value(x->id).elements() == 0) return;
    const auto blocks = g_.add_node(Op::kReshape, graph::ReshapeAttrs{{1, value(x->id).elements() / 12, 2, 1, 3, 2}},
                                    {x->id}, "blocks");
    if (!blocks) return;
    const auto three = [&] { return between(1, 3); };
    add(Op::kFold,
        graph::FoldAttrs{
            {between(1, 8), between(1, 4)}, {three(), three()}, {three(), three()}, {chance(2) ? 1 : 0, 0}},
        {*blocks}, x->exact && !graph::is_float(value(x->id).dtype));
  }
  // The tensor under another shape of as many elements.
  std::optional<ValueId> rows_of(ValueId id, const Shape& shape) {
    const auto made = g_.add_node(Op::kReshape, graph::ReshapeAttrs{shape}, {id}, "rows");
    return made ? std::optional(*made) : std::nullopt;
  }
  void determinant() {
    const int64_t n = between(1, 3);
    const auto x = some([&](Known k) {
      return value(k.id).dtype == DType::kF32 && value(k.id).elements() > 0 && value(k.id).elements() % (n * n) == 0;
    });
    if (!x) return;
    if (const auto m = rows_of(x->id, {value(x->id).elements() / (n * n), n, n}))
      add(Op::kDeterminant, graph::NoAttrs{}, {*m}, false);
  }
  void packed_product() {
    constexpr int64_t kTerms = 8;
    const auto x = some([&](Known k) {
      return value(k.id).dtype == DType::kF32 && value(k.id).elements() > 0 && value(k.id).elements() % kTerms == 0;
    });
    if (!x) return;
    const graph::PackedMatMulAttrs a{between(1, 40), int64_t{2} << between(0, 2)};
    const int64_t lanes = graph::kPackedColumns, panels = (a.columns + lanes - 1) / lanes;
    const Shape each{panels, kTerms / a.block, lanes};
    const auto rows = rows_of(x->id, {value(x->id).elements() / kTerms, kTerms});
    if (!rows) return;
    const ValueId numbers = constant(DType::kU8, {panels, kTerms / 2, lanes}, 0, 256);
    add(Op::kPackedMatMul, a,
        {*rows, numbers, constant(DType::kF32, each, -0.2, 0.2), constant(DType::kF32, each, 0, 16)}, false);
  }
  void resample() {
    if (chance(3)) return fold();
    if (chance(4)) return determinant();
    if (chance(4)) return packed_product();
    const auto x = real();
    if (!x || value(x->id).shape.empty()) return;
    graph::ResampleAttrs a;
    std::vector<ValueId> in{x->id};
    for (int64_t i = 0; i < std::ssize(value(x->id).shape); ++i) {
      if (chance(2) && i + 1 < std::ssize(value(x->id).shape)) continue;
      if (a.axes.size() == 2) break;
      a.axes.push_back(i);
      const Shape table{between(1, 6), between(1, 3)};
      in.push_back(whole(table, value(x->id).shape[static_cast<size_t>(i)]));
      in.push_back(constant(value(x->id).dtype, table, -0.5, 1));
    }
    add(Op::kResample, a, in, false);
  }
  void select() {
    const auto c = some([&](Known k) { return value(k.id).dtype == DType::kBool; });
    const auto x =
        some([&](Known k) { return c && graph::broadcast_shapes(value(k.id).shape, value(c->id).shape).has_value(); });
    if (!x) return;
    const Known y = partner(*x, -1, 2);
    add(Op::kWhere, graph::NoAttrs{}, {c->id, x->id, y.id}, c->exact && x->exact && y.exact);
  }
  void order() {
    const auto x =
        some([&](Known k) { return k.exact && value(k.id).dtype != DType::kBool && !value(k.id).shape.empty(); });
    if (!x) return;
    const Shape s = value(x->id).shape;
    const int64_t axis = rng_.below(std::ssize(s));
    if (chance(4)) return positions();
    if (chance(6)) return boxes();
    if (chance(2))
      add(Op::kArg, graph::ArgAttrs{axis, chance(2), chance(2)}, {x->id}, true);
    else
      add(Op::kTopK, graph::TopKAttrs{axis, between(1, s[static_cast<size_t>(axis)]), chance(2)}, {x->id}, true);
  }
  // Places of true elements, or which of some boxes hide no better one.
  void positions() {
    const auto x = some([&](Known k) { return k.exact && value(k.id).dtype == DType::kBool; });
    if (!x) return;
    const int64_t elements = value(x->id).elements();
    const auto line = g_.add_node(Op::kReshape, graph::ReshapeAttrs{{elements}}, {x->id}, "line");
    if (line) add(Op::kFind, graph::FindAttrs{between(1, elements)}, {*line}, true);
  }
  void boxes() {
    const auto x = some([&](Known k) { return k.exact && value(k.id).dtype == DType::kF32; });
    if (!x || value(x->id).elements() == 0) return;
    const int64_t elements = value(x->id).elements(), classes = elements % 2 == 0 ? 2 : 1;
    const auto scores =
        g_.add_node(Op::kReshape, graph::ReshapeAttrs{{1, classes, elements / classes}}, {x->id}, "rows");
    if (!scores) return;
    const ValueId corners = constant(DType::kF32, {1, elements / classes, 4}, 0, 4);
    const double overlap = 0.25 * static_cast<double>(between(0, 3));
    add(Op::kSuppress, graph::SuppressAttrs{between(1, elements), overlap, chance(2) ? 0.5 : -HUGE_VAL},
        {corners, *scores}, true);
  }
  void cast() {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kBool,
                                       DType::kF64, DType::kI8,  DType::kU8,  DType::kI16, DType::kU16};
    const DType to = kTypes[rng_.below(std::size(kTypes))];
    const auto x = some([&](Known k) { return k.exact || graph::is_float(to); });
    if (!x || value(x->id).dtype == to) return;
    const bool narrow = to == DType::kF16 || (to == DType::kF32 && value(x->id).dtype == DType::kF64);
    add(Op::kCast, graph::CastAttrs{to}, {x->id}, x->exact && !narrow);
  }

  void add_outputs() {
    std::vector<char> read(g_.values.size(), 0);
    for (graph::NodeId id : g_.order)
      for (ValueId input : g_.node(id).inputs) read[static_cast<size_t>(input)] = 1;
    for (graph::NodeId id : g_.order) {
      const ValueId y = g_.node(id).output;
      if (read[static_cast<size_t>(y)] == 0) g_.add_output(y, "y" + std::to_string(g_.outputs.size()));
    }
    if (g_.outputs.empty()) g_.add_output(known_.back().id, "y0");
  }

  Rng rng_;
  Graph g_;
  std::vector<Known> known_;
};

// The nodes in their order.
inline std::string text_of(const Graph& graph) {
  std::string text;
  for (graph::NodeId id : graph.order) {
    const graph::Node& node = graph.node(id);
    text += fmt::format("%{} {} {} = {}(", node.output, graph::dtype_name(graph.value(node.output).dtype),
                        graph::shape_text(graph.value(node.output).shape), graph::node_name(node));
    for (ValueId input : node.inputs)
      text += fmt::format("%{}:{} ", input, graph::shape_text(graph.value(input).shape));
    text += ")\n";
  }
  return text;
}

}  // namespace tcc::driver_test
