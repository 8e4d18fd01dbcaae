// The forms that the CPU's code generator gives to loops.
#pragma once

#include "tcc/ir/query.h"

namespace tcc::lower {

// A vectorized loop around further ones, or around instructions, is written out instead.
inline bool becomes_lanes(const ir::Loop& l) {
  bool lanes = l.loop_kind == ir::LoopKind::kVectorized && !ir::is_int(l.extent, 1);
  ir::visit(l.body, [&](ir::Stmt s) {
    const ir::Loop* inner = ir::as<ir::Loop>(s);
    if (inner != nullptr && inner->loop_kind == ir::LoopKind::kVectorized && !ir::is_int(inner->extent, 1))
      lanes = false;
    if (s->kind == ir::StmtKind::kInstrCall) lanes = false;
    return lanes;
  });
  return lanes;
}

// In more copies than one. An extent that depends on other loops may become constant when those are written out.
inline bool is_written_out(const ir::Loop& l) {
  const bool whole = l.loop_kind == ir::LoopKind::kUnrolled || l.loop_kind == ir::LoopKind::kVectorized;
  const int64_t extent = ir::is_int(l.extent) ? ir::int_value(l.extent) : 2;
  return extent > 1 && extent <= ir::annotation_or(l, ir::AnnotationKey::kUnrollMax, whole ? extent : 1);
}

// Registers, or memory that no caller sees.
inline bool is_on_stack(const ir::Buffer& buffer) {
  return buffer.scope == ir::Scope::kLocal || buffer.scope == ir::Scope::kAmxTile;
}

}  // namespace tcc::lower
