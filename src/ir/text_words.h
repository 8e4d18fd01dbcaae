// Words of the text form that both the printer and the parser need.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::ir {

// Words that cannot name a variable or a buffer.
inline bool is_reserved(std::string_view word) {
  static constexpr std::string_view kWords[] = {"kernel", "for",  "block", "if",   "else",  "alloc",  "instr", "roles",
                                                "role",   "init", "where", "true", "false", "select", "min",   "max"};
  for (std::string_view w : kWords)
    if (w == word) return true;
  if (word.starts_with("inf_") || word.starts_with("nan_") || word == "inf" || word == "nan") return true;
#define TCC_X(name, text, bytes) \
  if (word == text) return true;
  TCC_IR_TYPES(TCC_X)
#undef TCC_X
#define TCC_X(name, text, arity) \
  if (word == text) return true;
  TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
  return false;
}

inline std::optional<Type> type_from(std::string_view word) {
#define TCC_X(name, text, bytes) \
  if (word == text) return Type::k##name;
  TCC_IR_TYPES(TCC_X)
#undef TCC_X
  return std::nullopt;
}

// Binding strength, weakest first.
enum Precedence { kOr = 1, kAnd, kCompare, kAdditive, kMultiplicative, kUnary, kPrimary };
struct Operator {
  std::string_view text;
  ExprKind kind;
  Precedence precedence;
  bool swapped = false;  // a > b is b < a
};
inline constexpr Operator kOperators[] = {
    {"||", ExprKind::kOr, kOr},
    {"&&", ExprKind::kAnd, kAnd},
    {"<", ExprKind::kLt, kCompare},
    {"<=", ExprKind::kLe, kCompare},
    {"==", ExprKind::kEq, kCompare},
    {"!=", ExprKind::kNe, kCompare},
    {">", ExprKind::kLt, kCompare, true},
    {">=", ExprKind::kLe, kCompare, true},
    {"+", ExprKind::kAdd, kAdditive},
    {"-", ExprKind::kSub, kAdditive},
    {"*", ExprKind::kMul, kMultiplicative},
    {"/", ExprKind::kDiv, kMultiplicative},
    {"//", ExprKind::kFloorDiv, kMultiplicative},
    {"%", ExprKind::kFloorMod, kMultiplicative},
};
// nullptr: the kind is written in another form.
inline const Operator* operator_of(ExprKind kind) {
  const auto* found =
      std::find_if(std::begin(kOperators), std::end(kOperators), [&](const Operator& o) { return o.kind == kind; });
  return found == std::end(kOperators) ? nullptr : found;
}

// Bytes a buffer is aligned to when its declaration does not say.
inline int32_t default_alignment(BufferRole role, Type type) {
  if (role == BufferRole::kTemp || role == BufferRole::kWeight) return 64;
  return static_cast<int32_t>(type_bytes(type));
}

inline constexpr Type kDataTypes[] = {Type::kBool, Type::kI8,  Type::kU8,  Type::kI32, Type::kI64, Type::kF16,
                                      Type::kBF16, Type::kF32, Type::kF64, Type::kI16, Type::kU16};
inline bool is_data(Type t) {
  return t != Type::kBarrier && t != Type::kTensorMap;
}

}  // namespace tcc::ir
