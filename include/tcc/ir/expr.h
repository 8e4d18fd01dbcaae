// Expressions of the loop IR: immutable plain nodes in an arena, built only by `Builder` (ir/build.h).
//
// Semantics. Integers of type i64 are index arithmetic: exact, never overflowing by construction, kept in one
// canonical form, a polynomial: Sum{constant + sum of coefficient * atom}, where an atom is a Var, FloorDiv, FloorMod,
// Min, Max, Load, Cast, Select, Call, or a Prod of two or more such atoms. FloorDiv and FloorMod round towards minus
// infinity; a zero divisor is an error. Other types use Add, Sub, Mul, Div, Min, Max: i8, u8 and i32 wrap
// around; Div on them truncates; floats follow IEEE in their own type (f16 and bf16 compute in f32 and round once
// per operation); a*b+c may contract to fma. Min and Max of floats return the other operand when one is NaN.
// Comparisons yield bool. Select evaluates one side only. A Load whose predicate is false reads nothing and yields
// `other`. Cast float -> integer truncates towards zero and saturates; integer -> float rounds to nearest even.
#pragma once

#include <cstdint>
#include <span>

#include "tcc/ir/type.h"

namespace tcc::ir {

// The expression kinds. X(Kind, struct)
// clang-format off
#define TCC_IR_EXPR_KINDS(X) \
  X(IntConst, IntConst)      \
  X(FloatConst, FloatConst)  \
  X(Var, Var)                \
  X(Sum, Sum)                \
  X(Prod, Prod)              \
  X(FloorDiv, Binary)        \
  X(FloorMod, Binary)        \
  X(Min, Binary)             \
  X(Max, Binary)             \
  X(Add, Binary)             \
  X(Sub, Binary)             \
  X(Mul, Binary)             \
  X(Div, Binary)             \
  X(Lt, Binary)              \
  X(Le, Binary)              \
  X(Eq, Binary)              \
  X(Ne, Binary)              \
  X(And, Binary)             \
  X(Or, Binary)              \
  X(Not, Unary)              \
  X(Cast, Unary)             \
  X(Select, Select)          \
  X(Load, Load)              \
  X(Call, Call)
// clang-format on

enum class ExprKind : uint8_t {
#define TCC_X(kind, type) k##kind,
  TCC_IR_EXPR_KINDS(TCC_X)
#undef TCC_X
};

// Math calls: (name, arguments). Each has a stated maximal error where lower/legalize_math expands it; the interpreter
// uses double libm. `Fma(a,b,c)` rounds once. `BlockIdx`-like values are loop variables, not calls. The last ones take
// integers only, of i64 as well: bits of two's complement. Shifts are by fewer bits than the type has; the one to the
// right keeps the sign.
// clang-format off
#define TCC_IR_INTRINSICS(X) \
  X(Exp, "exp", 1)           \
  X(Log, "log", 1)           \
  X(Tanh, "tanh", 1)         \
  X(Erf, "erf", 1)           \
  X(Sqrt, "sqrt", 1)         \
  X(Rsqrt, "rsqrt", 1)       \
  X(Sigmoid, "sigmoid", 1)   \
  X(Abs, "abs", 1)           \
  X(Floor, "floor", 1)       \
  X(Ceil, "ceil", 1)         \
  X(Round, "round", 1)       \
  X(Sin, "sin", 1)           \
  X(Cos, "cos", 1)           \
  X(Pow, "pow", 2)           \
  X(Fma, "fma", 3)           \
  X(BitAnd, "bit_and", 2)    \
  X(BitOr, "bit_or", 2)      \
  X(BitXor, "bit_xor", 2)    \
  X(ShiftLeft, "shl", 2)     \
  X(ShiftRight, "shr", 2)
// clang-format on

enum class Intrinsic : uint8_t {
#define TCC_X(name, text, arity) k##name,
  TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
};
std::string_view intrinsic_name(Intrinsic fn);
int intrinsic_arity(Intrinsic fn);
constexpr bool takes_bits(Intrinsic fn) {
  return fn >= Intrinsic::kBitAnd;
}

struct ExprNode {
  ExprKind kind;
  Type type;
  uint64_t hash;  // structural, ids included; equal expressions of one kernel have equal hashes
  uint64_t ids;   // bit (id % 64) set for every Var and buffer mentioned: a quick "certainly not in here"
};
using Expr = const ExprNode*;

struct IntConst : ExprNode {
  int64_t value;  // of type i64, or of a data integer type, or bool (0 or 1)
};
struct FloatConst : ExprNode {
  double value;
};
struct Var : ExprNode {
  Id id;  // a loop, a block iterator or a scalar (parameter, decision symbol)
};
struct Term {
  int64_t coefficient;  // never 0
  Expr atom;            // never IntConst or Sum
};
struct Sum : ExprNode {
  int64_t constant;
  std::span<const Term> terms;  // sorted by compare_atoms, no two equal; (constant, terms) is never a lone 0 + 1*atom
};
struct Prod : ExprNode {
  std::span<const Expr> factors;  // at least two, sorted, none IntConst, Sum or Prod
};
struct Unary : ExprNode {
  Expr a;
};
struct Binary : ExprNode {
  Expr a, b;
};
struct Select : ExprNode {
  Expr condition, a, b;
};
struct Load : ExprNode {
  Id buffer;
  std::span<const Expr> indices;  // logical, one per dimension of the buffer
  Expr predicate;                 // nullptr: always
  Expr other;                     // value when the predicate is false; nullptr iff predicate is nullptr
};
struct Call : ExprNode {
  Intrinsic fn;
  std::span<const Expr> args;
};

// Checked down-cast: nullptr when `e` is of another kind. as<Binary> accepts every binary kind.
template <class T>
const T* as(Expr e);

inline uint64_t id_bit(Id id) {
  return uint64_t{1} << (static_cast<uint32_t>(id) & 63);
}
inline bool may_mention(Expr e, Id id) {
  return (e->ids & id_bit(id)) != 0;
}
inline bool is_int(Expr e, int64_t value) {
  return e->kind == ExprKind::kIntConst && static_cast<const IntConst*>(e)->value == value;
}
inline bool is_int(Expr e) {
  return e->kind == ExprKind::kIntConst;
}
inline int64_t int_value(Expr e) {
  return static_cast<const IntConst*>(e)->value;
}

// Structural equality (ids compared).
bool equal(Expr a, Expr b);
bool equal(std::span<const Expr> a, std::span<const Expr> b);
// A total order on atoms: by kind, then id or structure. Never by address.
int compare(Expr a, Expr b);

namespace detail {
template <class T>
bool holds(ExprKind kind);
#define TCC_X(K, S)    \
  case ExprKind::k##K: \
    return std::is_same_v<T, S>;
template <class T>
bool holds(ExprKind kind) {
  switch (kind) { TCC_IR_EXPR_KINDS(TCC_X) }
  return false;
}
#undef TCC_X
}  // namespace detail

template <class T>
const T* as(Expr e) {
  return detail::holds<T>(e->kind) ? static_cast<const T*>(e) : nullptr;
}

}  // namespace tcc::ir
