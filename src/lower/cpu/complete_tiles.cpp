#include "lower/cpu/complete_tiles.h"

#include <algorithm>

#include "lower/cpu/loop_forms.h"

namespace tcc::lower {
namespace {

using namespace ir;

class TileMarker {
 public:
  TileMarker(const Kernel& kernel, Arena& arena, RegisterFile registers)
      : kernel_(kernel), b_(arena), registers_(registers) {}

  Stmt rewrite(Stmt s) {
    if (const Alloc* a = as<Alloc>(s)) {
      const size_t outer = local_.size();
      for (Id id : a->buffers)
        if (kernel_.buffer(id)->scope == Scope::kLocal) local_.push_back(id);
      Stmt result = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
      local_.resize(outer);
      return result;
    }
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    if (becomes_lanes(*l)) return s;
    Stmt body = rewrite(l->body);
    const bool marked = is_written_out(*l) && !has_annotation(*l, AnnotationKey::kCompleteTiles) && !moves_stores(*l) &&
                        3 * vectors_written(l->body, 1) >= registers_.count;
    if (!marked) return b_.with_body(*l, body);
    std::vector<Annotation> annotations(l->annotations.begin(), l->annotations.end());
    annotations.push_back({AnnotationKey::kCompleteTiles, b_.integer(1)});
    return b_.loop(l->id, l->extent, body, l->loop_kind, l->axis, annotations);
  }

 private:
  static bool moves_stores(const Loop& l) {
    bool moves = false;
    visit(l.body, [&](Stmt s) {
      if (const Store* st = as<Store>(s))
        for (Expr i : st->indices) moves |= mentions(i, l.id);
      return !moves;
    });
    return moves;
  }

  // Registers of local elements that one execution of the statement writes, loops that are written out counted in full.
  int64_t vectors_written(Stmt s, int64_t lanes) const {
    if (const Store* st = as<Store>(s)) {
      if (std::find(local_.begin(), local_.end(), st->buffer) == local_.end()) return 0;
      const int64_t bytes = lanes * type_bytes(kernel_.buffer(st->buffer)->type);
      return (bytes + registers_.bytes - 1) / registers_.bytes;
    }
    const Loop* l = as<Loop>(s);
    const int64_t extent = l != nullptr && is_int(l->extent) ? int_value(l->extent) : 1;
    if (l != nullptr && l->loop_kind == LoopKind::kVectorized) lanes *= extent;
    int64_t n = 0;
    visit_children(s, [&](Stmt c) { n += vectors_written(c, lanes); });
    if (l != nullptr && l->loop_kind == LoopKind::kUnrolled) n *= extent;
    return std::min(n, int64_t{1} << 20);
  }

  const Kernel& kernel_;
  Builder b_;
  RegisterFile registers_;
  std::vector<Id> local_;  // of the Allocs around
};

}  // namespace

Kernel complete_tiles(const Kernel& kernel, const ArenaPtr& arena, RegisterFile registers) {
  Kernel k = kernel;
  k.arena = arena;
  k.root = TileMarker(kernel, *arena, registers).rewrite(kernel.root);
  return k;
}

}  // namespace tcc::lower
