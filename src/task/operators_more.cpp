// Loops of the operators of one element, the gathers, the operators that cut or repeat, and LayerNorm.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nest.h"
#include "tcc/support/check.h"

namespace tcc::task {

using namespace ir;
using graph::BinaryFn;
using graph::Op;
using graph::UnaryFn;

namespace {

// Scalar arithmetic on expressions of one type, constants included.
class Scalar {
 public:
  Scalar(Builder& b, Type type) : b_(b), type_(type) {}
  Expr c(double v) { return b_.constant(v, type_); }
  Expr call(Intrinsic fn, Expr x) { return b_.call(fn, std::array<Expr, 1>{x}); }
  Expr call(Intrinsic fn, Expr x, Expr y) { return b_.call(fn, std::array<Expr, 2>{x, y}); }
  // Where the comparison holds (never for NaN) a, else b.
  Expr below(Expr x, Expr y, Expr a, Expr b) { return b_.select(b_.lt(x, y), a, b); }
  // NaN stays NaN.
  Expr clamp01(Expr x) { return below(x, c(0), c(0), below(c(1), x, c(1), x)); }
  Expr exp(Expr x) { return call(Intrinsic::kExp, x); }
  Expr log(Expr x) { return call(Intrinsic::kLog, x); }
  Expr expm1(Expr x) { return b_.sub(exp(x), c(1)); }
  Expr softplus(Expr x) { return below(c(30), x, x, log(b_.add(c(1), exp(x)))); }
  Expr max(Expr x, Expr y) { return b_.select(b_.logical_or(b_.lt(x, y), b_.ne(y, y)), y, x); }
  Expr min(Expr x, Expr y) { return b_.select(b_.logical_or(b_.lt(y, x), b_.ne(y, y)), y, x); }
  Expr truncate(Expr x) { return below(x, c(0), call(Intrinsic::kCeil, x), call(Intrinsic::kFloor, x)); }

  Expr unary(UnaryFn fn, double alpha, double beta, Expr x);
  Expr binary(BinaryFn fn, Expr x, Expr y);

 private:
  Expr gelu(Expr x, Expr inner) { return b_.mul(b_.mul(c(0.5), x), b_.add(c(1), inner)); }

  Builder& b_;
  Type type_;
};

// Functions whose usual formulas cancel: they compute in double.
bool wants_double(UnaryFn fn) {
  switch (fn) {
    case UnaryFn::kSinh:
    case UnaryFn::kAsinh:
    case UnaryFn::kAcosh:
    case UnaryFn::kAtanh:
    case UnaryFn::kElu:
    case UnaryFn::kSelu:
    case UnaryFn::kCelu:
    case UnaryFn::kSoftplus:
    case UnaryFn::kMish:
      return true;
    default:
      return false;
  }
}

Expr Scalar::unary(UnaryFn fn, double alpha, double beta, Expr x) {
  switch (fn) {
    case UnaryFn::kAbs:
      if (type_ == Type::kU8) return x;
      return is_float(type_) ? call(Intrinsic::kAbs, x) : below(x, c(0), b_.sub(c(0), x), x);
    case UnaryFn::kNeg:
      return is_float(type_) ? b_.mul(x, c(-1)) : b_.sub(c(0), x);
    case UnaryFn::kSign: {
      Expr sign = below(c(0), x, c(1), is_float(type_) ? b_.select(b_.eq(x, c(0)), c(0), x) : c(0));
      return type_ == Type::kU8 ? sign : below(x, c(0), c(-1), sign);
    }
    case UnaryFn::kNot:
      return b_.logical_not(x);
    case UnaryFn::kExp:
      return exp(x);
    case UnaryFn::kLog:
      return log(x);
    case UnaryFn::kSqrt:
      return call(Intrinsic::kSqrt, x);
    case UnaryFn::kReciprocal:
      return b_.div(c(1), x);
    case UnaryFn::kErf:
      return call(Intrinsic::kErf, x);
    case UnaryFn::kFloor:
      return call(Intrinsic::kFloor, x);
    case UnaryFn::kCeil:
      return call(Intrinsic::kCeil, x);
    case UnaryFn::kRound:
      return call(Intrinsic::kRound, x);
    case UnaryFn::kSin:
      return call(Intrinsic::kSin, x);
    case UnaryFn::kCos:
      return call(Intrinsic::kCos, x);
    case UnaryFn::kTan:
      return b_.div(call(Intrinsic::kSin, x), call(Intrinsic::kCos, x));
    case UnaryFn::kSinh:
      return b_.mul(c(0.5), b_.sub(exp(x), exp(b_.mul(x, c(-1)))));
    case UnaryFn::kCosh:
      return b_.mul(c(0.5), b_.add(exp(x), exp(b_.mul(x, c(-1)))));
    case UnaryFn::kAsinh: {
      Expr a = call(Intrinsic::kAbs, x);
      Expr y = log(b_.add(a, call(Intrinsic::kSqrt, b_.add(b_.mul(a, a), c(1)))));
      return below(x, c(0), b_.mul(y, c(-1)), y);
    }
    case UnaryFn::kAcosh:
      return log(b_.add(x, call(Intrinsic::kSqrt, b_.sub(b_.mul(x, x), c(1)))));
    case UnaryFn::kAtanh:
      return b_.mul(c(0.5), log(b_.div(b_.add(c(1), x), b_.sub(c(1), x))));
    case UnaryFn::kIsNan:
      return b_.ne(x, x);
    case UnaryFn::kIsInf: {
      Expr top = alpha != 0 ? b_.eq(x, c(HUGE_VAL)) : b_.boolean(false);
      return b_.logical_or(top, beta != 0 ? b_.eq(x, c(-HUGE_VAL)) : b_.boolean(false));
    }
    case UnaryFn::kGelu:
      return gelu(x, call(Intrinsic::kErf, b_.mul(x, c(M_SQRT1_2))));
    case UnaryFn::kGeluTanh: {
      Expr cubic = b_.mul(b_.mul(b_.mul(x, x), x), c(0.044715));
      return gelu(x, call(Intrinsic::kTanh, b_.mul(b_.add(x, cubic), c(M_2_SQRTPI * M_SQRT1_2))));
    }
    case UnaryFn::kElu:
      return below(x, c(0), b_.mul(c(alpha), expm1(x)), x);
    case UnaryFn::kSelu:
      return b_.mul(c(beta), below(x, c(0), b_.mul(c(alpha), expm1(x)), x));
    case UnaryFn::kCelu:
      return below(x, c(0), b_.mul(c(alpha), expm1(b_.mul(x, c(1 / alpha)))), x);
    case UnaryFn::kSoftplus:
      return softplus(x);
    case UnaryFn::kSoftsign:
      return b_.div(x, b_.add(c(1), call(Intrinsic::kAbs, x)));
    case UnaryFn::kHardSigmoid:
      return clamp01(b_.add(b_.mul(x, c(alpha)), c(beta)));
    case UnaryFn::kHardSwish:
      return b_.mul(x, clamp01(b_.add(b_.mul(x, c(1.0 / 6)), c(0.5))));
    case UnaryFn::kMish:
      return b_.mul(x, call(Intrinsic::kTanh, softplus(x)));
    case UnaryFn::kSwish:
      return b_.mul(x, call(Intrinsic::kSigmoid, b_.mul(x, c(alpha))));
    case UnaryFn::kThresholdedRelu:
      return b_.select(b_.le(x, c(alpha)), c(0), x);
    case UnaryFn::kShrink: {
      // Thresholds between integers: x < -1.5 is x < -1.
      double low = is_float(type_) ? -alpha : std::ceil(-alpha), high = is_float(type_) ? alpha : std::floor(alpha);
      Expr inner = b_.select(b_.ne(x, x), x, c(0));
      return below(x, c(low), b_.add(x, c(beta)), below(c(high), x, b_.sub(x, c(beta)), inner));
    }
  }
  TCC_UNREACHABLE();
}

Expr Scalar::binary(BinaryFn fn, Expr x, Expr y) {
  switch (fn) {
    case BinaryFn::kMax:
      return is_float(type_) ? max(x, y) : b_.max(x, y);
    case BinaryFn::kMin:
      return is_float(type_) ? min(x, y) : b_.min(x, y);
    case BinaryFn::kPow:
      return call(Intrinsic::kPow, x, y);
    case BinaryFn::kMod: {
      Expr r = binary(BinaryFn::kFMod, x, y);
      if (type_ == Type::kU8) return r;
      Expr differ = b_.ne(b_.lt(r, c(0)), b_.lt(y, c(0)));
      return b_.select(b_.logical_and(b_.ne(r, c(0)), differ), b_.add(r, y), r);
    }
    case BinaryFn::kFMod: {
      Expr q = is_float(type_) ? truncate(b_.div(x, y)) : b_.div(x, y);
      return b_.sub(x, b_.mul(q, y));
    }
    case BinaryFn::kPRelu:
      return type_ == Type::kU8 ? x : below(x, c(0), b_.mul(x, y), x);
    case BinaryFn::kAnd:
      return b_.logical_and(x, y);
    case BinaryFn::kOr:
      return b_.logical_or(x, y);
    case BinaryFn::kXor:
      return b_.ne(x, y);
    case BinaryFn::kEqual:
      return b_.eq(x, y);
    case BinaryFn::kLess:
      return b_.lt(x, y);
    case BinaryFn::kLessOrEqual:
      return b_.le(x, y);
    case BinaryFn::kGreater:
      return b_.lt(y, x);
    case BinaryFn::kGreaterOrEqual:
      return b_.le(y, x);
  }
  TCC_UNREACHABLE();
}

}  // namespace

bool GroupNest::is_more(Op op) {
  switch (op) {
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kSlice:
    case Op::kExpand:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kLayerNorm:
      return true;
    default:
      return false;
  }
}

Type GroupNest::widened(graph::DType dtype) const {
  Type type = ir_type(dtype);
  return !moves_ && (type == Type::kF16 || type == Type::kBF16) ? Type::kF32 : type;
}

Expr GroupNest::read_own(graph::ValueId id, const Exprs& at, const graph::Shape& shape) {
  Type saved = std::exchange(compute_, widened(value(id).dtype));
  Expr x = read_broadcast(operand(id), at, shape);
  compute_ = saved;
  return x;
}

// Comparisons of unsigned numbers in signed types: a number with the top bit is above all without.
static Expr unsigned_value(Builder& b, BinaryFn fn, Expr x, Expr y) {
  auto less = [&](Expr p, Expr q) {
    Expr top_p = b.lt(p, b.integer(0, p->type)), top_q = b.lt(q, b.integer(0, q->type));
    return b.select(b.ne(top_p, top_q), top_q, b.lt(p, q));
  };
  switch (fn) {
    case BinaryFn::kMax:
      return b.select(less(x, y), y, x);
    case BinaryFn::kMin:
      return b.select(less(y, x), y, x);
    case BinaryFn::kLess:
      return less(x, y);
    case BinaryFn::kLessOrEqual:
      return b.logical_not(less(y, x));
    case BinaryFn::kGreater:
      return less(y, x);
    case BinaryFn::kGreaterOrEqual:
      return b.logical_not(less(x, y));
    default:
      break;
  }
  TCC_UNREACHABLE("{} of unsigned numbers", graph::binary_name(fn));
}

Expr GroupNest::cast_value(graph::DType from, graph::DType to, Expr x) {
  Type target = ir_type(to);
  if (from == graph::DType::kU32) {
    // Through i64, where the value fits.
    Expr wide = b().cast(x, Type::kI64);
    x = b().select(b().lt(wide, b().integer(0)), b().offset(wide, int64_t{1} << 32), wide);
  } else if (from == graph::DType::kU64 && is_float(target)) {
    Expr wide = b().cast(x, Type::kF64);
    Expr lifted = b().add(wide, b().real(0x1p64, Type::kF64));
    x = b().select(b().lt(wide, b().real(0, Type::kF64)), lifted, wide);
  }
  return b().cast(x, target);
}

Expr GroupNest::element_value(const graph::Node& node, const Exprs& at, const graph::Shape& shape) {
  auto in = [&](size_t i) { return read_own(node.inputs[i], at, shape); };
  if (node.op == Op::kCast) return cast_value(value(node.inputs[0]).dtype, value(node.output).dtype, in(0));
  if (node.op == Op::kWhere) return b().select(in(0), in(1), in(2));
  Expr x = in(0);
  Type type = x->type;
  if (node.op == Op::kUnary) {
    const auto& a = node.as<graph::UnaryAttrs>();
    bool wide = type == Type::kF32 && wants_double(a.fn);
    Type inside = wide ? Type::kF64 : type;
    Expr y = Scalar(b(), inside).unary(a.fn, a.alpha, a.beta, b().cast(x, inside));
    return wide ? b().cast(y, type) : y;
  }
  BinaryFn fn = node.as<graph::BinaryAttrs>().fn;
  Expr y = in(1);
  if (graph::is_wide_unsigned(value(node.inputs[0]).dtype) && fn != BinaryFn::kEqual)
    return unsigned_value(b(), fn, x, y);
  // Integer powers and quotients of floats need more digits than the type has.
  bool wide = (fn == BinaryFn::kPow && !is_float(type)) || (fn == BinaryFn::kFMod && type == Type::kF32);
  if (!wide) return Scalar(b(), type).binary(fn, x, y);
  return b().cast(Scalar(b(), Type::kF64).binary(fn, b().cast(x, Type::kF64), b().cast(y, Type::kF64)), type);
}

// --- moves ---------------------------------------------------------------------------------------------------------

// The position that element `at` of the indices means: from the end when negative, moved inside when out of range.
Expr GroupNest::picked(const Tensor& indices, const Exprs& at, int64_t extent) {
  Expr index = b().cast(b().load(*indices.buffer, at), Type::kI64);
  Expr position = b().select(b().lt(index, b().integer(0)), b().offset(index, extent), index);
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

void GroupNest::plan_more(const graph::Node& node) {
  if (node.op == Op::kLayerNorm) return plan_layer_norm(node);
  std::string name(graph::node_name(node));
  for (char& ch : name) ch = ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch;
  bool moves = graph::op_class(node.op) == graph::OpClass::kMove;
  add_stage(name, node, false, [this, &node, moves](const std::string& block, const Tensor& out) {
    return map_nest(block, axes_of(out.shape), out, [&](const Exprs& at) {
      return moves ? moved_value(node, at) : element_value(node, at, out.shape);
    });
  });
}

void GroupNest::plan_layer_norm(const graph::Node& node) {
  add_stage("layer_norm", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const auto& a = node.as<graph::LayerNormAttrs>();
    auto axis = static_cast<size_t>(a.axis);
    Tensor x = operand(node.inputs[0]);
    graph::Shape rows(out.shape.begin(), out.shape.begin() + a.axis), row(out.shape.begin() + a.axis, out.shape.end());
    std::vector<NestAxis> all = axes_of(out.shape);
    std::vector<NestAxis> outer(all.begin(), all.begin() + a.axis), along(all.begin() + a.axis, all.end());
    auto count = static_cast<double>(graph::element_count(row));
    auto both = [](Exprs at, const Exprs& over) {
      at.insert(at.end(), over.begin(), over.end());
      return at;
    };
    // Two passes for the statistics, which keeps the variance accurate; one division and one root a row.
    Tensor sum = make_temp("row_sum", rows), mean = make_temp("row_mean", rows), square = make_temp("row_square", rows),
           scale = make_temp("row_scale", rows);
    auto centred = [&](const Exprs& at, const Exprs& of) { return b().sub(read(x, at), read(mean, of)); };
    std::vector<Stmt> nests;
    nests.push_back(reduce_nest("row_sum", outer, along, ReducerKind::kSum, sum, nullptr,
                                [&](const Exprs& at, const Exprs& over) { return read(x, both(at, over)); }));
    nests.push_back(
        map_nest("row_mean", outer, mean, [&](const Exprs& at) { return b().div(read(sum, at), real(count)); }));
    nests.push_back(reduce_nest("row_square", outer, along, ReducerKind::kSum, square, nullptr,
                                [&](const Exprs& at, const Exprs& over) {
                                  Expr d = centred(both(at, over), at);
                                  return b().mul(d, d);
                                }));
    nests.push_back(map_nest("row_scale", outer, scale, [&](const Exprs& at) {
      Expr variance = b().add(b().div(read(square, at), real(count)), real(a.epsilon));
      return b().div(real(1), call(Intrinsic::kSqrt, variance));
    }));
    nests.push_back(map_nest(name, all, out, [&](const Exprs& at) {
      Exprs of(at.begin(), at.begin() + a.axis), in_row(at.begin() + static_cast<int64_t>(axis), at.end());
      Expr y = b().mul(centred(at, of), read(scale, of));
      y = b().mul(y, read_broadcast(operand(node.inputs[1]), in_row, row));
      return node.inputs.size() == 3 ? b().add(y, read_broadcast(operand(node.inputs[2]), in_row, row)) : y;
    }));
    return b().seq(nests);
  });
}

}  // namespace tcc::task
