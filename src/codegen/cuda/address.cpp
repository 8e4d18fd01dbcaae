#include "codegen/cuda/address.h"

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
