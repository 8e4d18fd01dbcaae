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

Expr at_lane(Builder& b, const analysis::Ranges& ranges, Expr e, Id id, int64_t lane) {
  if (!may_mention(e, id)) return e;
  Substitution s;
  s.set(id, b.integer(lane));
  return analysis::simplify(b, substitute(b, e, s), ranges);
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
