// Spellings of the enumerations, shared by the printer, the parser and messages.
#include "tcc/ir/kernel.h"

namespace tcc::ir {

std::string_view intrinsic_name(Intrinsic fn) {
  switch (fn) {
#define TCC_X(name, text, arity) \
  case Intrinsic::k##name:       \
    return text;
    TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
  }
  return "";
}

int intrinsic_arity(Intrinsic fn) {
  switch (fn) {
#define TCC_X(name, text, arity) \
  case Intrinsic::k##name:       \
    return arity;
    TCC_IR_INTRINSICS(TCC_X)
#undef TCC_X
  }
  return 0;
}

std::string_view annotation_name(AnnotationKey key) {
  switch (key) {
#define TCC_X(name, text)      \
  case AnnotationKey::k##name: \
    return text;
    TCC_IR_ANNOTATIONS(TCC_X)
#undef TCC_X
  }
  return "";
}

std::string_view loop_kind_name(LoopKind kind) {
  switch (kind) {
    case LoopKind::kSerial:
      return "serial";
    case LoopKind::kUnrolled:
      return "unrolled";
    case LoopKind::kVectorized:
      return "vectorized";
    case LoopKind::kParallel:
      return "parallel";
    case LoopKind::kBound:
      return "bound";
  }
  return "";
}

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kNone:
      return "";
    case Axis::kGridX:
      return "grid.x";
    case Axis::kGridY:
      return "grid.y";
    case Axis::kGridZ:
      return "grid.z";
    case Axis::kClusterX:
      return "cluster.x";
    case Axis::kClusterY:
      return "cluster.y";
    case Axis::kWarpgroup:
      return "warpgroup";
    case Axis::kWarp:
      return "warp";
    case Axis::kLane:
      return "lane";
    case Axis::kThreadX:
      return "thread.x";
    case Axis::kThreadY:
      return "thread.y";
    case Axis::kThreadZ:
      return "thread.z";
    case Axis::kVthread:
      return "vthread";
  }
  return "";
}

std::string_view iter_kind_name(IterKind kind) {
  switch (kind) {
    case IterKind::kSpatial:
      return "spatial";
    case IterKind::kReduce:
      return "reduce";
    case IterKind::kCarried:
      return "carried";
  }
  return "";
}

std::string_view reducer_name(ReducerKind kind) {
  switch (kind) {
    case ReducerKind::kNone:
      return "none";
    case ReducerKind::kSum:
      return "sum";
    case ReducerKind::kProd:
      return "prod";
    case ReducerKind::kMax:
      return "max";
    case ReducerKind::kMin:
      return "min";
  }
  return "";
}

std::string_view stage_name(Stage stage) {
  switch (stage) {
    case Stage::kBuilt:
      return "built";
    case Stage::kScheduled:
      return "scheduled";
    case Stage::kNest:
      return "nest";
    case Stage::kLowered:
      return "lowered";
  }
  return "";
}

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
      return "global";
    case Scope::kWorkspace:
      return "workspace";
    case Scope::kConst:
      return "const";
    case Scope::kShared:
      return "shared";
    case Scope::kClusterShared:
      return "cluster_shared";
    case Scope::kLocal:
      return "local";
    case Scope::kAmxTile:
      return "amx_tile";
  }
  return "";
}

std::string_view buffer_role_name(BufferRole role) {
  switch (role) {
    case BufferRole::kInput:
      return "input";
    case BufferRole::kWeight:
      return "weight";
    case BufferRole::kOutput:
      return "output";
    case BufferRole::kTemp:
      return "temp";
  }
  return "";
}

}  // namespace tcc::ir
