// An illegal candidate: not an error of the user, not a bug. Returned as a value, counted by reason and shown.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace tcc::ir {

// clang-format off
#define TCC_REJECT_REASONS(X)                     \
  X(UnknownHandle, "unknown handle")              \
  X(NotALoopChain, "not a loop chain")            \
  X(LoopKindTaken, "loop already bound")          \
  X(BadFactor, "bad factor")                      \
  X(DependentExtent, "dependent extent")          \
  X(NotAffine, "not affine")                      \
  X(ReductionOrder, "reduction order")            \
  X(RegionCover, "region not covered")            \
  X(NotInScope, "not in scope")                   \
  X(ManyWriters, "several writers")               \
  X(NotInlinable, "not inlinable")                \
  X(IsOutput, "is an output")                     \
  X(ParallelReduction, "reduction would race")    \
  X(BadInstruction, "instruction does not match") \
  X(BadAnnotation, "bad annotation")              \
  X(BadDecision, "bad decision")                  \
  X(NotConstant, "not constant")                  \
  X(TooManyThreads, "too many threads")           \
  X(TooMuchShared, "too much shared memory")      \
  X(TooMuchLocal, "too much local memory")        \
  X(TooLarge, "too large")                        \
  X(VectorTooWide, "vector too wide")             \
  X(Unsupported, "unsupported by the target")
// clang-format on

enum class RejectReason {
#define TCC_X(name, text) k##name,
  TCC_REJECT_REASONS(TCC_X)
#undef TCC_X
};
constexpr std::string_view reject_reason_name(RejectReason r) {
  switch (r) {
#define TCC_X(name, text)     \
  case RejectReason::k##name: \
    return text;
    TCC_REJECT_REASONS(TCC_X)
#undef TCC_X
  }
  return "";
}

struct Reject {
  RejectReason reason;
  std::string text;  // which loop, block or number, for people
};
template <class T>
using Legal = tl::expected<T, Reject>;

inline tl::unexpected<Reject> reject(RejectReason reason, std::string text = {}) {
  return tl::unexpected<Reject>(Reject{reason, std::move(text)});
}

}  // namespace tcc::ir
