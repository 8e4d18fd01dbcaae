// Index arithmetic and values. Statements are in build_stmt.cpp.
//
// Index expressions are polynomials in a canonical form: equal polynomials are equal nodes, so most questions of the
// analyses ("is this the same row?", "what is the stride of this loop?") are reads, not proofs.
#include "tcc/ir/build.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tcc/ir/evaluate.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::ir {
namespace {

// Terms under construction: inline up to 16, then the heap.
class TermList {
 public:
  void push(int64_t coefficient, Expr atom) {
    if (size_ < kInline) {
      inline_[size_++] = {coefficient, atom};
      return;
    }
    if (size_ == kInline) heap_.assign(inline_, inline_ + kInline);
    heap_.push_back({coefficient, atom});
    ++size_;
  }
  std::span<Term> view() { return size_ <= kInline ? std::span<Term>(inline_, size_) : std::span<Term>(heap_); }

 private:
  static constexpr size_t kInline = 16;
  Term inline_[kInline];
  size_t size_ = 0;
  std::vector<Term> heap_;
};

struct Decomposed {
  int64_t constant = 0;
  Term single{};
  std::span<const Term> terms;
};
// A view of any index expression as constant + terms. `out` must outlive the view.
void decompose(Expr e, Decomposed& out) {
  if (e->kind == ExprKind::kIntConst) {
    out.constant = int_value(e);
  } else if (e->kind == ExprKind::kSum) {
    out.constant = static_cast<const Sum*>(e)->constant;
    out.terms = static_cast<const Sum*>(e)->terms;
  } else {
    out.single = {1, e};
    out.terms = {&out.single, 1};
  }
}

std::span<const Expr> factors_of(const Expr& atom) {
  if (atom->kind == ExprKind::kProd) return static_cast<const Prod*>(atom)->factors;
  return {&atom, 1};
}

uint64_t header_hash(ExprKind kind, Type type) {
  return mix_hash(static_cast<uint64_t>(kind) * 64 + static_cast<uint64_t>(type));
}

// If `atom` contains all factors of `divisor`, the remaining factors are put into `rest` and true is returned.
bool divide_monomial(Expr atom, Expr divisor, std::vector<Expr>& rest) {
  auto have = factors_of(atom), need = factors_of(divisor);
  rest.clear();
  size_t j = 0;
  for (Expr f : have) {
    if (j < need.size() && equal(f, need[j]))
      ++j;
    else
      rest.push_back(f);
  }
  return j == need.size();
}

// Sorts `terms`, adds up those of equal atoms and drops those that cancel; gives how many are left in front.
// Insertion sort: the lists are short and nearly sorted. Sums are built for every rewritten index of every candidate:
// equal atoms are noted while they are compared, and the pass over them is skipped where no two are equal.
size_t sort_and_merge(std::span<Term> terms) {
  bool repeated = false;
  for (size_t i = 1; i < terms.size(); ++i) {
    int order = compare(terms[i - 1].atom, terms[i].atom);
    repeated |= order == 0;
    if (order <= 0) continue;
    const Term t = terms[i];
    size_t j = i;
    do {
      terms[j] = terms[j - 1];
      --j;
    } while (j > 0 && (order = compare(terms[j - 1].atom, t.atom)) > 0);
    repeated |= order == 0;
    terms[j] = t;
  }
  if (!repeated) return terms.size();
  size_t n = 0;
  for (const Term& t : terms) {
    if (n > 0 && equal(terms[n - 1].atom, t.atom)) {
      terms[n - 1].coefficient += t.coefficient;
    } else {
      if (n > 0 && terms[n - 1].coefficient == 0) --n;
      terms[n++] = t;
    }
  }
  return n > 0 && terms[n - 1].coefficient == 0 ? n - 1 : n;
}

}  // namespace

Expr Builder::integer(int64_t value, Type type) {
  uint64_t hash = combine_hash(header_hash(ExprKind::kIntConst, type), static_cast<uint64_t>(value));
  return arena_.make<IntConst>(ExprNode{ExprKind::kIntConst, type, hash, 0}, value);
}

Expr Builder::var(Id id, Type type) {
  TCC_CHECK(id >= 0);
  uint64_t hash = combine_hash(header_hash(ExprKind::kVar, type), static_cast<uint64_t>(id));
  return arena_.make<Var>(ExprNode{ExprKind::kVar, type, hash, id_bit(id)}, id);
}

Expr Builder::sum(int64_t constant, std::span<const Term> unsorted) {
  TermList list;
  for (const Term& t : unsorted) {
    if (t.coefficient == 0) continue;
    Decomposed d;
    decompose(t.atom, d);
    constant += d.constant * t.coefficient;
    for (const Term& inner : d.terms) list.push(inner.coefficient * t.coefficient, inner.atom);
  }
  std::span<Term> terms = list.view();
  const size_t n = sort_and_merge(terms);
  if (n == 0) return integer(constant);
  if (n == 1 && constant == 0 && terms[0].coefficient == 1) return terms[0].atom;
  uint64_t hash = combine_hash(header_hash(ExprKind::kSum, Type::kI64), static_cast<uint64_t>(constant));
  uint64_t ids = 0;
  for (size_t i = 0; i < n; ++i) {
    hash = combine_hash(combine_hash(hash, static_cast<uint64_t>(terms[i].coefficient)), terms[i].atom->hash);
    ids |= terms[i].atom->ids;
  }
  auto stored = arena_.copy(std::span<const Term>(terms.data(), n));
  return arena_.make<Sum>(ExprNode{ExprKind::kSum, Type::kI64, hash, ids}, constant, stored);
}

Expr Builder::scale(Expr a, int64_t factor) {
  if (factor == 1) return a;
  if (a->kind == ExprKind::kIntConst) return integer(int_value(a) * factor);
  Term t{factor, a};
  return sum(0, {&t, 1});
}

Expr Builder::offset(Expr a, int64_t by) {
  if (by == 0) return a;
  if (a->kind == ExprKind::kIntConst) return integer(int_value(a) + by);
  Term t{1, a};
  return sum(by, {&t, 1});
}

Expr Builder::add(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type, "{} + {}", type_name(a->type), type_name(b->type));
  if (a->type != Type::kI64) return make_binary(ExprKind::kAdd, a->type, a, b);
  if (is_int(a, 0)) return b;
  if (is_int(b, 0)) return a;
  Term terms[2] = {{1, a}, {1, b}};
  return sum(0, terms);
}

Expr Builder::sub(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type, "{} - {}", type_name(a->type), type_name(b->type));
  if (a->type != Type::kI64) return make_binary(ExprKind::kSub, a->type, a, b);
  if (is_int(b, 0)) return a;
  Term terms[2] = {{1, a}, {-1, b}};
  return sum(0, terms);
}

Expr Builder::product_of_atoms(Expr a, Expr b) {
  auto x = factors_of(a), y = factors_of(b);
  std::vector<Expr> merged;
  merged.reserve(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(merged),
             [](Expr p, Expr q) { return compare(p, q) < 0; });
  uint64_t hash = header_hash(ExprKind::kProd, Type::kI64), ids = 0;
  for (Expr f : merged) {
    hash = combine_hash(hash, f->hash);
    ids |= f->ids;
  }
  return arena_.make<Prod>(ExprNode{ExprKind::kProd, Type::kI64, hash, ids}, arena_.copy(merged));
}

Expr Builder::mul(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type, "{} * {}", type_name(a->type), type_name(b->type));
  if (a->type != Type::kI64) return make_binary(ExprKind::kMul, a->type, a, b);
  if (a->kind == ExprKind::kIntConst) return scale(b, int_value(a));
  if (b->kind == ExprKind::kIntConst) return scale(a, int_value(b));
  Decomposed x, y;
  decompose(a, x);
  decompose(b, y);
  std::vector<Term> terms;
  for (const Term& s : x.terms) {
    for (const Term& t : y.terms) terms.push_back({s.coefficient * t.coefficient, product_of_atoms(s.atom, t.atom)});
    if (y.constant != 0) terms.push_back({s.coefficient * y.constant, s.atom});
  }
  if (x.constant != 0)
    for (const Term& t : y.terms) terms.push_back({x.constant * t.coefficient, t.atom});
  return sum(x.constant * y.constant, terms);
}

Expr Builder::product(std::span<const Expr> factors) {
  Expr p = nullptr;
  for (Expr f : factors) p = p == nullptr ? f : mul(p, f);
  return p == nullptr ? integer(1) : p;
}

Expr Builder::floor_div(Expr a, Expr b) {
  TCC_CHECK(a->type == Type::kI64 && b->type == Type::kI64);
  TCC_CHECK(!is_int(b, 0), "division by zero");
  if (is_int(b, 1)) return a;
  if (is_int(a) && is_int(b)) return integer(ir::floor_div(int_value(a), int_value(b)));
  if (is_int(a, 0)) return a;
  Decomposed d;
  decompose(a, d);
  TermList outside, inside;
  size_t n_outside = 0;
  int64_t inner_constant = d.constant, outer_constant = 0;
  if (is_int(b) && int_value(b) > 0) {
    int64_t c = int_value(b);
    outer_constant = ir::floor_div(d.constant, c);
    inner_constant = ir::floor_mod(d.constant, c);
    int64_t g = c;
    for (const Term& t : d.terms) {
      if (t.coefficient % c == 0)
        outside.push(t.coefficient / c, t.atom), ++n_outside;
      else
        inside.push(t.coefficient, t.atom), g = std::gcd(g, t.coefficient);
    }
    auto rest = inside.view();
    if (rest.empty()) return sum(outer_constant, outside.view());
    if (g > 1) {  // floor((g x + k) / (g c)) == floor((x + floor(k / g)) / c)
      for (Term& t : rest) t.coefficient /= g;
      Expr inner = floor_div(sum(ir::floor_div(inner_constant, g), rest), integer(c / g));
      outside.push(1, inner);
      return sum(outer_constant, outside.view());
    }
    Expr numerator = sum(inner_constant, rest);
    if (numerator->kind == ExprKind::kFloorDiv) {  // (x / c1) / c2 == x / (c1 c2)
      const Binary* inner = static_cast<const Binary*>(numerator);
      if (is_int(inner->b) && int_value(inner->b) > 0) {
        outside.push(1, floor_div(inner->a, integer(int_value(inner->b) * c)));
        return sum(outer_constant, outside.view());
      }
    }
    Expr atom = make_binary(ExprKind::kFloorDiv, Type::kI64, numerator, b);
    if (n_outside == 0 && outer_constant == 0) return atom;
    outside.push(1, atom);
    return sum(outer_constant, outside.view());
  }
  if (b->kind == ExprKind::kVar || b->kind == ExprKind::kProd) {
    // Decision symbols and run-time sizes are positive: whole multiples of the divisor come out.
    std::vector<Expr> rest;
    for (const Term& t : d.terms) {
      if (divide_monomial(t.atom, b, rest)) {
        Expr quotient = product(rest);
        outside.push(t.coefficient, quotient), ++n_outside;
      } else {
        inside.push(t.coefficient, t.atom);
      }
    }
    if (n_outside > 0) {
      Expr numerator = sum(inner_constant, inside.view());
      outside.push(1, floor_div(numerator, b));
      return sum(0, outside.view());
    }
  }
  return make_binary(ExprKind::kFloorDiv, Type::kI64, a, b);
}

Expr Builder::floor_mod(Expr a, Expr b) {
  TCC_CHECK(a->type == Type::kI64 && b->type == Type::kI64);
  TCC_CHECK(!is_int(b, 0), "modulo by zero");
  if (is_int(b, 1)) return integer(0);
  if (is_int(a) && is_int(b)) return integer(ir::floor_mod(int_value(a), int_value(b)));
  if (is_int(a, 0)) return a;
  Decomposed d;
  decompose(a, d);
  TermList inside;
  if (is_int(b) && int_value(b) > 0) {
    int64_t c = int_value(b), constant = ir::floor_mod(d.constant, c), g = std::gcd(c, constant);
    for (const Term& t : d.terms)
      if (t.coefficient % c != 0) inside.push(t.coefficient, t.atom), g = std::gcd(g, t.coefficient);
    auto rest = inside.view();
    if (rest.empty()) return integer(constant);
    if (g > 1) {  // (g x) mod (g c) == g (x mod c)
      for (Term& t : rest) t.coefficient /= g;
      return scale(floor_mod(sum(constant / g, rest), integer(c / g)), g);
    }
    Expr numerator = sum(constant, rest);
    if (numerator->kind == ExprKind::kFloorMod) {
      const Binary* inner = static_cast<const Binary*>(numerator);
      if (is_int(inner->b) && int_value(inner->b) > 0 && int_value(inner->b) % c == 0) return floor_mod(inner->a, b);
    }
    return make_binary(ExprKind::kFloorMod, Type::kI64, numerator, b);
  }
  if (b->kind == ExprKind::kVar || b->kind == ExprKind::kProd) {
    std::vector<Expr> rest;
    bool dropped = false;
    for (const Term& t : d.terms) {
      if (divide_monomial(t.atom, b, rest))
        dropped = true;
      else
        inside.push(t.coefficient, t.atom);
    }
    if (dropped) return floor_mod(sum(d.constant, inside.view()), b);
  }
  return make_binary(ExprKind::kFloorMod, Type::kI64, a, b);
}

Expr Builder::min(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64) {
    Expr d = sub(a, b);
    if (is_int(d)) return int_value(d) <= 0 ? a : b;
    if (compare(a, b) > 0) std::swap(a, b);
  }
  return make_binary(ExprKind::kMin, a->type, a, b);
}

Expr Builder::max(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64) {
    Expr d = sub(a, b);
    if (is_int(d)) return int_value(d) >= 0 ? a : b;
    if (compare(a, b) > 0) std::swap(a, b);
  }
  return make_binary(ExprKind::kMax, a->type, a, b);
}

Expr Builder::real(double value, Type type) {
  TCC_CHECK(is_float(type));
  if (type == Type::kF32) value = static_cast<float>(value);
  uint64_t hash = combine_hash(header_hash(ExprKind::kFloatConst, type), std::bit_cast<uint64_t>(value));
  return arena_.make<FloatConst>(ExprNode{ExprKind::kFloatConst, type, hash, 0}, value);
}

Expr Builder::constant(double value, Type type) {
  return is_float(type) ? real(value, type) : integer(static_cast<int64_t>(value), type);
}

Expr Builder::make_binary(ExprKind kind, Type type, Expr a, Expr b) {
  uint64_t hash = combine_hash(combine_hash(header_hash(kind, type), a->hash), b->hash);
  return arena_.make<Binary>(ExprNode{kind, type, hash, a->ids | b->ids}, a, b);
}

Expr Builder::div(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type && a->type != Type::kBool);
  return make_binary(ExprKind::kDiv, a->type, a, b);
}

namespace {
// Splits a - b into left and right sides with positive coefficients: one form for all spellings of a comparison.
void split_sides(Builder& builder, Expr difference, Expr& left, Expr& right) {
  Decomposed d;
  decompose(difference, d);
  TermList positive, negative;
  for (const Term& t : d.terms) {
    if (t.coefficient > 0)
      positive.push(t.coefficient, t.atom);
    else
      negative.push(-t.coefficient, t.atom);
  }
  left = builder.sum(0, positive.view());
  right = builder.sum(-d.constant, negative.view());
}

}  // namespace

Expr Builder::lt(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64) {
    Expr d = sub(a, b);
    if (is_int(d, 0)) return boolean(false);
    // A sum that wraps around would have another sign with a term on the other side.
    if (reads_tensor(a) || reads_tensor(b)) return make_binary(ExprKind::kLt, Type::kBool, a, b);
    if (is_int(d)) return boolean(int_value(d) < 0);
    split_sides(*this, d, a, b);
  }
  return make_binary(ExprKind::kLt, Type::kBool, a, b);
}

Expr Builder::le(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64 && !reads_tensor(a) && !reads_tensor(b)) return lt(a, offset(b, 1));
  return make_binary(ExprKind::kLe, Type::kBool, a, b);
}

Expr Builder::eq(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64) {
    Expr d = sub(a, b);
    if (is_int(d)) return boolean(int_value(d) == 0);
    Decomposed parts;
    decompose(d, parts);
    if (parts.terms[0].coefficient < 0) d = scale(d, -1);
    split_sides(*this, d, a, b);
  }
  return make_binary(ExprKind::kEq, Type::kBool, a, b);
}

Expr Builder::ne(Expr a, Expr b) {
  TCC_CHECK(a->type == b->type);
  if (a->type == Type::kI64) {
    Expr same = eq(a, b);
    if (is_int(same)) return boolean(int_value(same) == 0);
    return make_binary(ExprKind::kNe, Type::kBool, as<Binary>(same)->a, as<Binary>(same)->b);
  }
  return make_binary(ExprKind::kNe, Type::kBool, a, b);
}

Expr Builder::logical_and(Expr a, Expr b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  TCC_CHECK(a->type == Type::kBool && b->type == Type::kBool);
  if (is_int(a)) return int_value(a) != 0 ? b : a;
  if (is_int(b)) return int_value(b) != 0 ? a : b;
  if (equal(a, b)) return a;
  return make_binary(ExprKind::kAnd, Type::kBool, a, b);
}

Expr Builder::logical_or(Expr a, Expr b) {
  TCC_CHECK(a->type == Type::kBool && b->type == Type::kBool);
  if (is_int(a)) return int_value(a) != 0 ? a : b;
  if (is_int(b)) return int_value(b) != 0 ? b : a;
  if (equal(a, b)) return a;
  return make_binary(ExprKind::kOr, Type::kBool, a, b);
}

Expr Builder::logical_not(Expr a) {
  TCC_CHECK(a->type == Type::kBool);
  if (is_int(a)) return boolean(int_value(a) == 0);
  if (a->kind == ExprKind::kNot) return as<Unary>(a)->a;
  if (a->kind == ExprKind::kLt && as<Binary>(a)->a->type == Type::kI64) return le(as<Binary>(a)->b, as<Binary>(a)->a);
  return arena_.make<Unary>(
      ExprNode{ExprKind::kNot, Type::kBool, combine_hash(header_hash(ExprKind::kNot, Type::kBool), a->hash), a->ids},
      a);
}

Expr Builder::select(Expr condition, Expr a, Expr b) {
  TCC_CHECK(condition->type == Type::kBool && a->type == b->type);
  if (is_int(condition)) return int_value(condition) != 0 ? a : b;
  if (equal(a, b)) return a;
  bool constant = b->kind == ExprKind::kFloatConst || b->kind == ExprKind::kIntConst;
  if (const Load* l = as<Load>(a); l != nullptr && l->predicate == nullptr && constant)
    return load(l->buffer, l->type, l->indices, condition, b);
  uint64_t hash = combine_hash(
      combine_hash(combine_hash(header_hash(ExprKind::kSelect, a->type), condition->hash), a->hash), b->hash);
  return arena_.make<Select>(ExprNode{ExprKind::kSelect, a->type, hash, condition->ids | a->ids | b->ids}, condition, a,
                             b);
}

Expr Builder::cast(Expr a, Type type) {
  if (a->type == type) return a;
  if (is_int(a) && (type == Type::kI64 || type == Type::kI32)) {
    int64_t v = int_value(a);
    return integer(type == Type::kI32 ? static_cast<int32_t>(v) : v, type);
  }
  uint64_t hash =
      combine_hash(combine_hash(header_hash(ExprKind::kCast, type), static_cast<uint64_t>(a->type)), a->hash);
  return arena_.make<Unary>(ExprNode{ExprKind::kCast, type, hash, a->ids}, a);
}

Expr Builder::call(Intrinsic fn, std::span<const Expr> args) {
  TCC_CHECK(static_cast<int>(args.size()) == intrinsic_arity(fn), "{}", intrinsic_name(fn));
  Type type = args[0]->type;
  uint64_t hash = combine_hash(header_hash(ExprKind::kCall, type), static_cast<uint64_t>(fn)), ids = 0;
  for (Expr a : args) {
    TCC_CHECK(a->type == type);
    hash = combine_hash(hash, a->hash);
    ids |= a->ids;
  }
  return arena_.make<Call>(ExprNode{ExprKind::kCall, type, hash, ids}, fn, arena_.copy(args));
}

Expr Builder::load(const Buffer& buffer, std::span<const Expr> indices, Expr predicate, Expr other) {
  TCC_CHECK(indices.size() == buffer.shape.size(), "{} indices for a buffer of rank {}", indices.size(),
            buffer.shape.size());
  return load(buffer.id, buffer.type, indices, predicate, other);
}

Expr Builder::load(Id buffer, Type type, std::span<const Expr> indices, Expr predicate, Expr other) {
  if (predicate != nullptr && is_int(predicate)) {
    if (int_value(predicate) == 0) return other;
    predicate = other = nullptr;
  }
  TCC_CHECK((predicate == nullptr) == (other == nullptr), "a predicated load needs another value");
  uint64_t hash = combine_hash(header_hash(ExprKind::kLoad, type), static_cast<uint64_t>(buffer)), ids = id_bit(buffer);
  for (Expr i : indices) {
    TCC_CHECK(i->type == Type::kI64);
    hash = combine_hash(hash, i->hash);
    ids |= i->ids;
  }
  if (predicate != nullptr) {
    TCC_CHECK(predicate->type == Type::kBool && other->type == type);
    hash = combine_hash(combine_hash(hash, predicate->hash), other->hash);
    ids |= predicate->ids | other->ids;
  }
  return arena_.make<Load>(ExprNode{ExprKind::kLoad, type, hash, ids}, buffer, arena_.copy(indices), predicate, other);
}

Expr Builder::binary(ExprKind kind, Expr a, Expr b) {
  switch (kind) {
    case ExprKind::kFloorDiv:
      return floor_div(a, b);
    case ExprKind::kFloorMod:
      return floor_mod(a, b);
    case ExprKind::kMin:
      return min(a, b);
    case ExprKind::kMax:
      return max(a, b);
    case ExprKind::kAdd:
      return add(a, b);
    case ExprKind::kSub:
      return sub(a, b);
    case ExprKind::kMul:
      return mul(a, b);
    case ExprKind::kDiv:
      return div(a, b);
    case ExprKind::kLt:
      return lt(a, b);
    case ExprKind::kLe:
      return le(a, b);
    case ExprKind::kEq:
      return eq(a, b);
    case ExprKind::kNe:
      return ne(a, b);
    case ExprKind::kAnd:
      return logical_and(a, b);
    case ExprKind::kOr:
      return logical_or(a, b);
    case TCC_OTHER_KINDS:
      break;
  }
  TCC_UNREACHABLE("not a binary kind");
}

}  // namespace tcc::ir
