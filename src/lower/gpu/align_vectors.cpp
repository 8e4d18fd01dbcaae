#include "lower/gpu/align_vectors.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/analysis/address.h"
#include "tcc/analysis/simplify.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kWidestBytes = 16;

class Aligner {
 public:
  explicit Aligner(Edit& edit) : edit_(edit), b_(edit.b), ranges_(edit.k) {}

  Stmt rewrite(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    Expr outer = ranges_.set(l->id, l->extent);
    Stmt whole = s;
    if (l->loop_kind == LoopKind::kVectorized && is_int(l->extent))
      whole = b_.with_body(*l, keep_vectors_whole(edit_, l->body, l->id, int_value(l->extent)));
    l = as<Loop>(whole);
    const bool plain = l->loop_kind == LoopKind::kVectorized && (!is_int(l->extent) || !aligned(*l));
    Stmt body = rewrite(l->body);
    ranges_.set(l->id, outer);
    if (plain) return b_.loop(l->id, l->extent, body, LoopKind::kUnrolled, Axis::kNone, l->annotations);
    return b_.with_body(*l, body);
  }

 private:
  bool aligned(const Loop& l) {
    bool all = true;
    visit(l.body, [&](Stmt s) {
      if (const Store* store = as<Store>(s)) all &= starts_whole(l, store->buffer, store->indices);
      return all;
    });
    visit_loads(l.body, [&](const Load& load) { all &= starts_whole(l, load.buffer, load.indices); });
    return all;
  }

  bool starts_whole(const Loop& l, Id id, std::span<const Expr> indices) {
    const Buffer& buffer = *edit_.k.buffer(id);
    if (buffer.scope == Scope::kLocal) return true;
    Expr flat = analysis::flat_address(b_, buffer, indices);
    if (!may_mention(flat, l.id)) return true;
    const int64_t width = std::min(int_value(l.extent), kWidestBytes / std::max<int64_t>(type_bytes(buffer.type), 1));
    if (width <= 1) return true;
    Substitution first;
    first.set(l.id, b_.integer(0));
    Expr start = analysis::simplify(b_, substitute(b_, flat, first), ranges_);
    return analysis::known_divisor(edit_.k, start) % width == 0;
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
};

}  // namespace

Kernel align_vectors(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  edit.k.root = Aligner(edit).rewrite(kernel.root);
  return edit.k;
}

}  // namespace tcc::lower
