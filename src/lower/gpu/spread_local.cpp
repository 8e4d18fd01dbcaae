// An access X[e] of thread t belongs to it where (e / V) mod T = t, with V the step of e with t and T the threads: V
// elements of each thread in turn, as share_row of a schedule deals them out. Its place is (e / (T V)) V + e mod V.
#include "lower/gpu/spread_local.h"

#include <algorithm>
#include <optional>

#include "tcc/analysis/address.h"
#include "tcc/analysis/ranges.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Spreader {
 public:
  explicit Spreader(Edit& edit) : edit_(edit), b_(edit.b), ranges_(edit.k) {}

  Legal<SpreadLocals> run(Stmt& launch) {
    visit(launch, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) ranges_.set(l->id, l->extent);
      return true;
    });
    collect(launch, {});
    SpreadLocals out;
    for (const auto& [id, uses] : uses_) {
      if (!uses.by_threads) continue;
      if (!uses.written_by_threads) {
        out.copies.insert(id);
        continue;
      }
      if (!uses.in_order || uses.outside)
        return reject(RejectReason::kUnsupported,
                      fmt::format("'{}' is local and outlives its thread loop", name_hint(edit_.k, id)));
      out.parts.insert(id);
    }
    if (!out.parts.empty()) {
      launch = reindex(b_, launch, [&](Id id, std::vector<Expr>& indices) { return place(id, indices); });
      edit_.map_buffers([&](Buffer& fields) {
        auto found = uses_.find(fields.id);
        if (found == uses_.end() || !out.parts.contains(fields.id)) return false;
        const Uses& uses = found->second;
        int64_t elements = 1;
        for (Expr e : fields.shape) elements *= std::max<int64_t>(int_value(e), 1);
        const int64_t round = uses.threads * uses.vector;
        const Expr slots = b_.integer((elements + round - 1) / round * uses.vector);
        fields.shape = b_.arena().copy(std::span<const Expr>(&slots, 1));
        return true;
      });
    }
    return out;
  }

 private:
  struct Around {
    const Loop* thread = nullptr;  // along x
    bool tree = false;
  };
  struct Uses {
    const Loop* home = nullptr;  // the loop along x around the Alloc
    bool by_threads = false, written_by_threads = false, in_order = true, outside = false;
    int64_t threads = 0, vector = 0;
  };

  void collect(Stmt s, Around around) {
    switch (s->kind) {
      case StmtKind::kLoop: {
        const Loop& l = *as<Loop>(s);
        if (l.axis == Axis::kThreadX) around.thread = &l;
        around.tree |= has_annotation(l, AnnotationKey::kTreeReduce);
        return collect(l.body, around);
      }
      case StmtKind::kAlloc:
        for (Id id : as<Alloc>(s)->buffers)
          if (const Buffer* b = edit_.k.buffer(id); b->scope == Scope::kLocal) uses_[id].home = around.thread;
        return collect(as<Alloc>(s)->body, around);
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) collect(c, around);
        return;
      case StmtKind::kIf:
        values(as<If>(s)->condition, around);
        collect(as<If>(s)->then_case, around);
        if (as<If>(s)->else_case != nullptr) collect(as<If>(s)->else_case, around);
        return;
      case StmtKind::kStore: {
        const Store& store = *as<Store>(s);
        values(store.value, around);
        if (store.predicate != nullptr) values(store.predicate, around);
        for (Expr i : store.indices) values(i, around);
        return access(store.buffer, store.indices, true, around);
      }
      case StmtKind::kInstrCall:
        // Operands are whole pieces of a buffer.
        for (const Operand& o : as<InstrCall>(s)->operands)
          if (auto found = uses_.find(o.buffer); found != uses_.end() && around.thread != found->second.home)
            found->second.by_threads = found->second.written_by_threads = true, found->second.in_order = false;
        return;
      case StmtKind::kRoles:
      case StmtKind::kBlock:
        return;
    }
  }
  void values(Expr root, Around around) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e)) access(l->buffer, l->indices, false, around);
      return true;
    });
  }

  void access(Id id, std::span<const Expr> indices, bool write, Around around) {
    auto found = uses_.find(id);
    if (found == uses_.end()) return;
    Uses& uses = found->second;
    if (around.thread == uses.home) {
      // The combination of the threads' elements reads all of them; anything else outside of their loops does not say
      // whose elements it means.
      uses.outside |= write || !around.tree;
      return;
    }
    uses.by_threads = true;
    uses.written_by_threads |= write;
    const std::optional<int64_t> step = step_of(flat(id, indices), around.thread->id);
    const int64_t threads = int_value(around.thread->extent);
    if (uses.threads == 0 && step) uses.threads = threads, uses.vector = *step;
    uses.in_order &= step && uses.threads == threads && uses.vector == *step && slot(id, indices, uses) != nullptr;
  }

  Expr flat(Id id, std::span<const Expr> indices) {
    return analysis::simplify(b_, analysis::flat_address(b_, *edit_.k.buffer(id), indices), ranges_);
  }
  static std::optional<int64_t> step_of(Expr e, Id thread) {
    if (const Var* v = as<Var>(e); v != nullptr && v->id == thread) return 1;
    if (const Sum* sum = as<Sum>(e))
      for (const Term& t : sum->terms)
        if (const Var* v = as<Var>(t.atom); v != nullptr && v->id == thread && t.coefficient > 0) return t.coefficient;
    return std::nullopt;
  }

  // nullptr: the element is not certain to be the thread's own.
  Expr slot(Id id, std::span<const Expr> indices, const Uses& uses) {
    Expr e = flat(id, indices);
    const Expr vector = b_.integer(uses.vector);
    const Expr owner = analysis::simplify(b_, b_.floor_mod(b_.floor_div(e, vector), b_.integer(uses.threads)), ranges_);
    const Var* thread = as<Var>(owner);
    if (thread == nullptr || !is_thread_x(thread->id)) return nullptr;
    const Expr round = b_.floor_div(e, b_.integer(uses.threads * uses.vector));
    return analysis::simplify(b_, b_.add(b_.scale(round, uses.vector), b_.floor_mod(e, vector)), ranges_);
  }
  bool is_thread_x(Id id) {
    const Loop* l = find_loop(edit_.k.root, id);
    return l != nullptr && l->axis == Axis::kThreadX;
  }

  bool place(Id id, std::vector<Expr>& indices) {
    auto found = uses_.find(id);
    if (found == uses_.end() || !found->second.written_by_threads) return false;
    Expr at = slot(id, indices, found->second);
    if (at == nullptr) return false;  // of a combination
    indices.assign(1, at);
    return true;
  }

  Edit& edit_;
  Builder& b_;
  analysis::Ranges ranges_;
  std::map<Id, Uses> uses_;
};

}  // namespace

Legal<SpreadLocals> spread_local(Edit& edit, Stmt& launch) {
  return Spreader(edit).run(launch);
}

}  // namespace tcc::lower
