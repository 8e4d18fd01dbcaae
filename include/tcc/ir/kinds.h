// Labels of switches over ExprKind: `case TCC_BINARY_KINDS:` covers every kind with two operands, TCC_OTHER_KINDS
// every other one, TCC_DATA_KINDS the operations that are not index arithmetic. The compiler still finds a kind that no
// label covers.
#pragma once

#include "tcc/ir/expr.h"

#define TCC_KIND(kind) case ::tcc::ir::ExprKind::kind
// clang-format off
#define TCC_BINARY_KINDS                                                                                             \
  ::tcc::ir::ExprKind::kFloorDiv: TCC_KIND(kFloorMod): TCC_KIND(kMin): TCC_KIND(kMax): TCC_KIND(kAdd): TCC_KIND(kSub): \
  TCC_KIND(kMul): TCC_KIND(kDiv): TCC_KIND(kLt): TCC_KIND(kLe): TCC_KIND(kEq): TCC_KIND(kNe): TCC_KIND(kAnd): TCC_KIND(kOr)
#define TCC_OTHER_KINDS                                                                                            \
  ::tcc::ir::ExprKind::kIntConst: TCC_KIND(kFloatConst): TCC_KIND(kVar): TCC_KIND(kSum): TCC_KIND(kProd): TCC_KIND(kNot): \
  TCC_KIND(kCast): TCC_KIND(kSelect): TCC_KIND(kLoad): TCC_KIND(kCall)
#define TCC_DATA_KINDS                                                                                               \
  ::tcc::ir::ExprKind::kAdd: TCC_KIND(kSub): TCC_KIND(kMul): TCC_KIND(kDiv): TCC_KIND(kLt): TCC_KIND(kLe): TCC_KIND(kEq): \
  TCC_KIND(kNe): TCC_KIND(kAnd): TCC_KIND(kOr): TCC_KIND(kNot): TCC_KIND(kCast): TCC_KIND(kLoad): TCC_KIND(kCall)
// clang-format on
