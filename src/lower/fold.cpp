#include "tcc/analysis/simplify.h"
#include "tcc/lower/nest.h"

namespace tcc::lower {

using namespace ir;

namespace {

class Folder {
 public:
  Folder(const Kernel& kernel, const Substitution& decisions, Arena& arena)
      : b_(arena), ranges_(kernel), subst_(decisions) {}

  Stmt stmt(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return rewrite_children(b_, s, [&](Stmt c) { return stmt(c); }, [&](Expr e) { return expr(e); });
    Expr extent = expr(l->extent);
    if (is_int(extent, 1)) {
      subst_.set(l->id, b_.integer(0));
      return stmt(l->body);
    }
    if (is_int(extent) && int_value(extent) <= 0) return nullptr;
    ranges_.set(l->id, extent);
    std::vector<Annotation> annotations;
    for (const Annotation& a : l->annotations) annotations.push_back({a.key, expr(a.value)});
    Stmt body = stmt(l->body);
    if (body == nullptr) return nullptr;
    if (extent == l->extent && body == l->body && annotations.empty()) return s;
    return b_.loop(l->id, extent, body, l->loop_kind, l->axis, annotations);
  }
  Expr expr(Expr e) { return analysis::simplify(b_, substitute(b_, e, subst_), ranges_); }
  Builder& builder() { return b_; }

 private:
  Builder b_;
  analysis::Ranges ranges_;
  Substitution subst_;
};

}  // namespace

Kernel fold(const Kernel& kernel, const Substitution& decisions, const ArenaPtr& arena) {
  arena->keep_alive(kernel.arena);
  Kernel k = kernel;
  k.arena = arena;
  if (!decisions.map.empty()) {
    // Facts about substituted symbols would contradict nothing but cost time in every proof.
    std::vector<Scalar> rest;
    for (const Scalar& s : kernel.scalars)
      if (decisions.find(s.id) == nullptr && s.role != ScalarRole::kDecision) rest.push_back(s);
    k.scalars = arena->copy(rest);
    k.products = {};
  }
  Folder folder(k, decisions, *arena);
  k.root = folder.stmt(kernel.root);
  // Every loop is empty: the nest that does nothing stays as it is.
  if (k.root == nullptr) k.root = substitute(folder.builder(), kernel.root, decisions);
  std::vector<const Buffer*> buffers;
  bool changed = false;
  for (const Buffer* buffer : kernel.buffers) {
    Buffer copy = *buffer;
    std::vector<Expr> shape;
    bool moved = false;
    for (Expr e : buffer->shape) {
      shape.push_back(folder.expr(e));
      moved |= shape.back() != e;
    }
    copy.shape = shape;
    if (buffer->padding.dim >= 0 && std::all_of(shape.begin(), shape.end(), [](Expr e) { return is_int(e); })) {
      std::vector<int64_t> extents;
      for (Expr e : shape) extents.push_back(int_value(e));
      const StridePadding& p = buffer->padding;
      copy.layout = make_padded(*arena, extents, p.dim, p.factor, p.offset);
      copy.padding = {};
      moved = true;
    }
    buffers.push_back(moved ? folder.builder().buffer(copy) : buffer);
    changed |= moved;
  }
  if (changed) k.buffers = arena->copy(buffers);
  k.stage = Stage::kNest;
  return k;
}

}  // namespace tcc::lower
