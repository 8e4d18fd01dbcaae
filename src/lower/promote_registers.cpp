#include "lower/promote_registers.h"

#include <algorithm>
#include <set>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxPromotedStatements = 1024;

int64_t constant_bytes(const Buffer& b) {
  int64_t n = type_bytes(b.type);
  for (Expr e : b.shape) {
    if (!is_int(e)) return -1;
    n *= int_value(e);
  }
  return n;
}

class Promoter {
 public:
  Promoter(const Kernel& kernel, Arena& arena, RegisterFile registers)
      : kernel_(kernel), b_(arena), registers_(registers) {}

  Stmt run() {
    scan(kernel_.root);
    return unroll_.empty() ? kernel_.root : rewrite(kernel_.root);
  }

 private:
  void scan(Stmt root) {
    visit(root, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers) try_buffer(*kernel_.buffer(id), a->body);
      return true;
    });
  }

  // Marks the loops that must be written out for `buffer`; all or none.
  void try_buffer(const Buffer& buffer, Stmt body) {
    int64_t bytes = constant_bytes(buffer);
    if (bytes < 0 || bytes > registers_.size()) return;
    loops_.clear();
    wanted_.clear();
    possible_ = true;
    find_accesses(body, buffer);
    if (!possible_) return;
    std::set<Id> merged = unroll_;
    merged.insert(wanted_.begin(), wanted_.end());
    if (statements(body, merged) <= kMaxPromotedStatements) unroll_ = std::move(merged);
  }

  void access(std::span<const Expr> indices, const Buffer& buffer) {
    bool wanted = false, around_sum = false;
    std::vector<const Loop*> choosing;
    for (const Loop* l : loops_) {
      const bool chooses = std::any_of(indices.begin(), indices.end(), [&](Expr i) { return mentions(i, l->id); });
      around_sum |= wanted && !chooses && l->loop_kind == LoopKind::kSerial;
      if (chooses && is_int(l->extent)) choosing.push_back(l);
      if (!chooses || l->loop_kind == LoopKind::kVectorized || l->loop_kind == LoopKind::kUnrolled) continue;
      if (l->loop_kind != LoopKind::kSerial || !is_int(l->extent)) possible_ = false;
      wanted_.insert(l->id);
      wanted = true;
    }
    if (around_sum && registers_.taken_by(choosing, type_bytes(buffer.type)) > registers_.for_sums()) possible_ = false;
  }

  void find_accesses(Stmt s, const Buffer& buffer) {
    if (!may_mention(s, buffer.id)) return;
    const Loop* l = as<Loop>(s);
    if (l != nullptr) loops_.push_back(l);
    auto look = [&](Expr root) {
      if (root == nullptr) return;
      visit(root, [&](Expr e) {
        if (const Load* load = as<Load>(e); load != nullptr && load->buffer == buffer.id) access(load->indices, buffer);
        return may_mention(e, buffer.id);
      });
    };
    if (const Store* st = as<Store>(s)) {
      if (st->buffer == buffer.id) access(st->indices, buffer);
      for (Expr i : st->indices) look(i);
      look(st->value);
      look(st->predicate);
    }
    if (const InstrCall* call = as<InstrCall>(s))
      for (const Operand& o : call->operands) possible_ &= o.buffer != buffer.id;
    if (const If* i = as<If>(s)) look(i->condition);
    for_children(s, [&](Stmt c) { find_accesses(c, buffer); });
    if (l != nullptr) loops_.pop_back();
  }

  template <class F>
  static void for_children(Stmt s, const F& f) {
    visit(s, [&](Stmt c) {
      if (c == s) return true;
      f(c);
      return false;
    });
  }

  // Stores after expansion of Unrolled and `extra` loops and of those that the emitter writes out where the result has
  // at most `unroll_max` statements; at most a little above kMaxPromotedStatements.
  int64_t statements(Stmt s, const std::set<Id>& extra, int64_t unroll_max = 0) const {
    if (s->kind == StmtKind::kStore) return 1;
    const Loop* l = as<Loop>(s);
    if (l != nullptr) unroll_max = annotation_or(*l, AnnotationKey::kUnrollMax, unroll_max);
    int64_t n = 0;
    for_children(s, [&](Stmt c) { n += statements(c, extra, unroll_max); });
    if (l != nullptr && is_int(l->extent)) {
      const int64_t expanded = n * std::max<int64_t>(1, int_value(l->extent));
      const bool must = l->loop_kind == LoopKind::kUnrolled || extra.count(l->id) != 0;
      if (must || (l->loop_kind == LoopKind::kSerial && expanded <= unroll_max)) n = expanded;
    }
    return std::min<int64_t>(n, int64_t{1} << 30);
  }

  Stmt rewrite(Stmt s) {
    Stmt r = rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
    const Loop* l = as<Loop>(r);
    if (l == nullptr || unroll_.count(l->id) == 0) return r;
    return b_.loop(l->id, l->extent, l->body, LoopKind::kUnrolled, l->axis, l->annotations);
  }

  const Kernel& kernel_;
  Builder b_;
  RegisterFile registers_;
  std::vector<const Loop*> loops_;
  std::set<Id> wanted_, unroll_;
  bool possible_ = true;
};

}  // namespace

Kernel promote_registers(const Kernel& kernel, const ArenaPtr& arena, RegisterFile registers) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  Kernel result = kernel;
  result.arena = arena;
  result.root = Promoter(kernel, *arena, registers).run();
  return result;
}

}  // namespace tcc::lower
