#include <array>
#include <cstddef>
#include <cstdint>

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
    if (l != nullptr) folded_.clear();
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
  Expr expr(Expr e) {
    if (!is_shared(e)) return plain(e);
    if (Expr known = folded_.find(e)) return known;
    // No rule of `simplify` is about arithmetic of floats, so that its operands may be folded one by one.
    Expr made =
        e->kind == ExprKind::kLoad ? plain(e) : rewrite_children(b_, e, [&](Expr child) { return expr(child); });
    folded_.set(e, made);
    return made;
  }
  Builder& builder() { return b_; }

 private:
  // The values of a Winograd tile share most of their parts (task/winograd.cpp): written out as trees, the loads of
  // F(4x4, 3x3) are there 13 times. Each part is folded once.
  class Folded {
   public:
    Expr find(Expr e) const {
      const Slot& slot = slots_[index(e)];
      return slot.from == e ? slot.to : nullptr;
    }
    void set(Expr e, Expr to) { slots_[index(e)] = {e, to}, used_ = true; }
    void clear() {
      if (used_) slots_.fill({});
      used_ = false;
    }

   private:
    struct Slot {
      Expr from = nullptr, to = nullptr;
    };
    static constexpr size_t kSlots = 256;  // a later expression takes the slot of an earlier one
    static size_t index(Expr e) { return (reinterpret_cast<uintptr_t>(e) / alignof(std::max_align_t)) % kSlots; }
    std::array<Slot, kSlots> slots_ = {};
    bool used_ = false;
  };

  static bool is_shared(Expr e) {
    using enum ExprKind;
    return is_float(e->type) &&
           (e->kind == kLoad || e->kind == kAdd || e->kind == kSub || e->kind == kMul || e->kind == kSelect);
  }
  Expr plain(Expr e) { return analysis::simplify(b_, substitute(b_, e, subst_), ranges_); }

  Builder b_;
  analysis::Ranges ranges_;
  Substitution subst_;
  Folded folded_;
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
