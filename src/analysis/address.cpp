#include "tcc/analysis/address.h"

#include <numeric>
#include <vector>

#include "tcc/ir/kinds.h"
#include "tcc/support/check.h"

namespace tcc::analysis {

using namespace ir;

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

namespace {

void add_term(std::vector<Term>& terms, Expr atom, int64_t coefficient) {
  for (Term& t : terms)
    if (equal(t.atom, atom)) {
      t.coefficient += coefficient;
      return;
    }
  terms.push_back({coefficient, atom});
}

// x mod n and x differ by a multiple of n: the term c (x mod n) of a sum counts as c x, up to multiples of c n. So
// r * L - (r * L) mod n is known to be a multiple of n.
int64_t divisor_without_remainder(const Kernel& kernel, const Sum& sum, const Term& remainder) {
  const Binary& mod = *as<Binary>(remainder.atom);
  const int64_t c = remainder.coefficient;
  std::vector<Term> terms;
  for (const Term& t : sum.terms)
    if (t.atom != remainder.atom) add_term(terms, t.atom, t.coefficient);
  int64_t constant = sum.constant;
  if (const Sum* inner = as<Sum>(mod.a)) {
    constant += c * inner->constant;
    for (const Term& t : inner->terms) add_term(terms, t.atom, c * t.coefficient);
  } else {
    add_term(terms, mod.a, c);
  }
  int64_t divisor = std::gcd(c * int_value(mod.b), constant);
  for (const Term& t : terms)
    if (t.coefficient != 0) divisor = std::gcd(divisor, t.coefficient * known_divisor(kernel, t.atom));
  return divisor;
}

}  // namespace

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
      for (const Term& t : as<Sum>(e)->terms)
        if (t.atom->kind == ExprKind::kFloorMod && is_int(as<Binary>(t.atom)->b) &&
            int_value(as<Binary>(t.atom)->b) > 0)
          g = std::lcm(g, divisor_without_remainder(kernel, *as<Sum>(e), t));
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
    case TCC_DATA_KINDS:
      return 1;
  }
  return 1;
}

}  // namespace tcc::analysis
