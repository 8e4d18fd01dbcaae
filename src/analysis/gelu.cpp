#include "tcc/analysis/gelu.h"

#include <algorithm>
#include <cmath>

#include "tcc/ir/query.h"

namespace tcc::analysis {

using namespace ir;

namespace {

constexpr double kRootOfHalf = 0.70710678118654752;
constexpr double kUnits = 0x1p-22;  // relative; what roundings of the constant to single precision leave

void factors(Expr e, std::vector<Expr>& out) {
  if (e->kind != ExprKind::kMul) return out.push_back(e);
  factors(as<Binary>(e)->a, out);
  factors(as<Binary>(e)->b, out);
}

// x of 1 + erf(x * sqrt(1/2)); nullptr.
Expr argument(Expr e) {
  if (e->kind != ExprKind::kAdd) return nullptr;
  Expr one = as<Binary>(e)->a, erf = as<Binary>(e)->b;
  if (one->kind == ExprKind::kCall) std::swap(one, erf);
  const FloatConst* added = as<FloatConst>(one);
  const Call* call = as<Call>(erf);
  if (added == nullptr || added->value != 1 || call == nullptr || call->fn != Intrinsic::kErf) return nullptr;
  const Expr scaled = call->args[0];
  if (scaled->kind != ExprKind::kMul) return nullptr;
  Expr x = as<Binary>(scaled)->a, by = as<Binary>(scaled)->b;
  if (x->kind == ExprKind::kFloatConst) std::swap(x, by);
  const FloatConst* root = as<FloatConst>(by);
  return root != nullptr && std::fabs(root->value / kRootOfHalf - 1) <= kUnits ? x : nullptr;
}

}  // namespace

std::optional<Gelu> match_gelu(Expr e) {
  if (e->kind != ExprKind::kMul || e->type != Type::kF32) return std::nullopt;
  std::vector<Expr> all;
  factors(e, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Expr x = argument(all[i]);
    if (x == nullptr) continue;
    Gelu out = {2, x, {}};
    bool found = false;
    for (size_t n = 0; n < all.size(); ++n) {
      const FloatConst* constant = as<FloatConst>(all[n]);
      if (n == i) continue;
      if (constant != nullptr)
        out.scale *= constant->value;
      else if (!found && equal(all[n], x))
        found = true;
      else
        out.rest.push_back(all[n]);
    }
    if (found) return out;
  }
  return std::nullopt;
}

}  // namespace tcc::analysis
