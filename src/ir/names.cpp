// Spellings of the enumerations, shared by the printer, the parser and messages.
#include "tcc/ir/kernel.h"

namespace tcc::ir {

// The names of an enumeration from its first enumerator to `last`.
#define TCC_NAMES(E, function, last, ...)                                                \
  std::string_view function(E e) {                                                       \
    static constexpr std::string_view kNames[] = {__VA_ARGS__};                          \
    static_assert(std::size(kNames) == static_cast<size_t>(E::last) + 1, "a name each"); \
    return kNames[static_cast<size_t>(e)];                                               \
  }
#define TCC_X(name, text, ...) text,
TCC_NAMES(Intrinsic, intrinsic_name, kShiftRight, TCC_IR_INTRINSICS(TCC_X))
TCC_NAMES(AnnotationKey, annotation_name, kPrefetchBlock, TCC_IR_ANNOTATIONS(TCC_X))
#undef TCC_X
TCC_NAMES(LoopKind, loop_kind_name, kBound, "serial", "unrolled", "vectorized", "parallel", "bound")
TCC_NAMES(Axis, axis_name, kVthread, "", "grid.x", "grid.y", "grid.z", "cluster.x", "cluster.y", "warpgroup", "warp",
          "lane", "thread.x", "thread.y", "thread.z", "vthread")
TCC_NAMES(IterKind, iter_kind_name, kCarried, "spatial", "reduce", "carried")
TCC_NAMES(ReducerKind, reducer_name, kMin, "none", "sum", "prod", "max", "min")
TCC_NAMES(Stage, stage_name, kLowered, "built", "scheduled", "nest", "lowered")
TCC_NAMES(Scope, scope_name, kAmxTile, "global", "workspace", "const", "shared", "cluster_shared", "local", "amx_tile")
TCC_NAMES(BufferRole, buffer_role_name, kTemp, "input", "weight", "output", "temp")
#undef TCC_NAMES

int intrinsic_arity(Intrinsic fn) {
#define TCC_X(name, text, arity) arity,
  static constexpr int kArities[] = {TCC_IR_INTRINSICS(TCC_X)};
#undef TCC_X
  return kArities[static_cast<size_t>(fn)];
}

}  // namespace tcc::ir
