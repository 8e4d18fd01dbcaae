#include "codegen/cuda/address.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tcc/analysis/simplify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::codegen::cuda {

using namespace ir;

std::optional<int64_t> physical_elements(const Buffer& buffer) {
  if (buffer.layout != nullptr) return buffer.layout->size;
  int64_t n = 1;
  for (Expr e : buffer.shape) {
    if (!is_int(e)) return std::nullopt;
    n *= int_value(e);
  }
  return n;
}

Expr flat_address(Builder& b, const Buffer& buffer, std::span<const Expr> indices) {
  TCC_CHECK(indices.size() == buffer.shape.size());
  Expr flat = b.integer(0);
  if (buffer.layout == nullptr) {
    for (size_t i = 0; i < indices.size(); ++i) flat = b.add(b.mul(flat, buffer.shape[i]), indices[i]);
    return flat;
  }
  for (const Digit& d : buffer.layout->digits) {
    Expr value = b.floor_div(indices[static_cast<size_t>(d.dim)], b.integer(d.divisor));
    if (d.extent > 0) value = b.floor_mod(value, b.integer(d.extent));
    flat = b.add(flat, b.scale(value, d.stride));
  }
  return flat;
}

Expr at_lane(Builder& b, const analysis::Ranges& ranges, Expr e, Id id, int64_t lane) {
  if (!may_mention(e, id)) return e;
  Substitution s;
  s.set(id, b.integer(lane));
  return analysis::simplify(b, substitute(b, e, s), ranges);
}

int64_t known_divisor(const Kernel& kernel, Expr e) {
  switch (e->kind) {
    case ExprKind::kIntConst:
      return std::abs(int_value(e));
    case ExprKind::kVar: {
      const Scalar* s = kernel.scalar(as<Var>(e)->id);
      return s != nullptr ? s->divisor : 1;
    }
    case ExprKind::kSum: {
      int64_t g = std::abs(as<Sum>(e)->constant);
      for (const Term& t : as<Sum>(e)->terms) g = std::gcd(g, t.coefficient * known_divisor(kernel, t.atom));
      return g;
    }
    case ExprKind::kProd: {
      int64_t product = 1;
      for (Expr f : as<Prod>(e)->factors)
        if (__builtin_mul_overflow(product, known_divisor(kernel, f), &product)) return 1;
      return product;
    }
    case ExprKind::kFloorMod:
    case ExprKind::kMin:
    case ExprKind::kMax:
      return std::gcd(known_divisor(kernel, as<Binary>(e)->a), known_divisor(kernel, as<Binary>(e)->b));
    case ExprKind::kFloorDiv: {
      if (!is_int(as<Binary>(e)->b)) return 1;
      const int64_t a = known_divisor(kernel, as<Binary>(e)->a), d = std::abs(int_value(as<Binary>(e)->b));
      return d != 0 && a % d == 0 ? a / d : 1;
    }
    case ExprKind::kSelect:
      return std::gcd(known_divisor(kernel, as<Select>(e)->a), known_divisor(kernel, as<Select>(e)->b));
    case ExprKind::kFloatConst:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
    case ExprKind::kCast:
    case ExprKind::kLoad:
    case ExprKind::kCall:
      return 1;
  }
  return 1;
}

int64_t vector_width(Builder& b, const Kernel& kernel, const analysis::Ranges& ranges, const Buffer& buffer, Expr flat,
                     Id id, int64_t extent) {
  if (!may_mention(flat, id) || extent < 2) return 1;
  const int64_t bytes = type_bytes(buffer.type);
  if (bytes > 8) return 1;
  Expr first = at_lane(b, ranges, flat, id, 0);
  for (int64_t lane = 1; lane < extent; ++lane) {
    Expr step = b.sub(at_lane(b, ranges, flat, id, lane), first);
    if (!is_int(step, lane)) return 1;
  }
  int64_t width = int64_t{1} << std::countr_zero(static_cast<uint64_t>(extent));
  width = std::min(width, 16 / bytes);
  const int64_t divisor = known_divisor(kernel, first);
  while (width > 1 && (divisor % width != 0 || buffer.alignment % (width * bytes) != 0)) width /= 2;
  if (buffer.layout != nullptr) {
    // An xor keeps a run whole when it neither reads nor changes the bits that count inside the run.
    for (const XorField& x : buffer.layout->xors)
      while (width > 1 && (width > (int64_t{1} << x.from_shift) || width > (int64_t{1} << x.to_shift))) width /= 2;
  }
  return width;
}

Expr uniform_predicate(Builder& b, const Kernel& kernel, const analysis::Ranges& ranges, Expr predicate, Id id,
                       int64_t extent) {
  predicate = analysis::simplify(b, predicate, ranges);
  if (!may_mention(predicate, id)) return predicate;
  if (predicate->kind == ExprKind::kAnd) {
    Expr x = uniform_predicate(b, kernel, ranges, as<Binary>(predicate)->a, id, extent);
    Expr y = uniform_predicate(b, kernel, ranges, as<Binary>(predicate)->b, id, extent);
    return x != nullptr && y != nullptr ? b.logical_and(x, y) : nullptr;
  }
  Expr first = at_lane(b, ranges, predicate, id, 0);
  bool same = true;
  for (int64_t lane = 1; lane < extent && same; ++lane) same = equal(first, at_lane(b, ranges, predicate, id, lane));
  if (same) return first;
  if (predicate->kind != ExprKind::kLt || as<Binary>(predicate)->a->type != Type::kI64) return nullptr;
  // id < rest with rest a multiple of the extent: all lanes agree with the first.
  Expr rest = b.sub(as<Binary>(predicate)->b, as<Binary>(predicate)->a);
  Expr without = b.add(rest, b.var(id));
  if (may_mention(without, id)) return nullptr;
  return known_divisor(kernel, without) % extent == 0 ? first : nullptr;
}

}  // namespace tcc::codegen::cuda
