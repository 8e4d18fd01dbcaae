#include "lower/gpu/sink_vthreads.h"

#include "lower/gpu/edit.h"

namespace tcc::lower {
namespace {

using namespace ir;

class Sinker {
 public:
  Sinker(const Kernel& kernel, const ArenaPtr& arena) : edit_(kernel, arena) {}

  Legal<Kernel> run() {
    Stmt root = sink(edit_.k.root);
    if (!verdict_) return tl::make_unexpected(verdict_.error());
    edit_.k.root = root;
    edit_.map_buffers([&](Buffer& fields) {
      auto lead = leads_.find(fields.id);
      if (lead == leads_.end()) return false;
      std::vector<Expr> shape;
      for (const Loop* l : lead->second) shape.push_back(l->extent);
      shape.insert(shape.end(), fields.shape.begin(), fields.shape.end());
      fields.shape = edit_.b.arena().copy(shape);
      if (fields.padding.dim >= 0) fields.padding.dim += static_cast<int32_t>(lead->second.size());
      return true;
    });
    return edit_.k;
  }

 private:
  Stmt sink(Stmt s) {
    if (!verdict_) return s;
    switch (s->kind) {
      case StmtKind::kLoop:
        return loop(*as<Loop>(s));
      case StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (Stmt c : as<Seq>(s)->stmts) stmts.push_back(sink(c));
        return edit_.b.seq(stmts);
      }
      case StmtKind::kAlloc: {
        const Alloc& a = *as<Alloc>(s);
        if (!active_.empty())
          for (Id id : a.buffers) {
            if (edit_.k.buffer(id)->scope != Scope::kLocal) continue;
            if (edit_.k.buffer(id)->layout != nullptr)
              verdict_ = reject(RejectReason::kUnsupported,
                                "virtual threads cannot share the layout of '" + name_hint(edit_.k, id) + "'");
            leads_[id] = active_;
          }
        return edit_.b.alloc(a.buffers, sink(a.body));
      }
      case StmtKind::kStore:
      case StmtKind::kIf:
      case StmtKind::kInstrCall:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        return active_.empty() ? s : wrap(s);
    }
    return s;
  }

  Stmt loop(const Loop& l) {
    if (l.axis == Axis::kVthread) {
      if (!is_int(l.extent)) {
        verdict_ = reject(RejectReason::kNotConstant, "virtual threads of '" + name_hint(edit_.k, l.id) + "'");
        return &l;
      }
      active_.push_back(&l);
      Stmt body = sink(l.body);
      active_.pop_back();
      return body;
    }
    if (active_.empty()) return edit_.b.with_body(l, sink(l.body));
    if (l.loop_kind == LoopKind::kVectorized || mentions_any(l.extent, active_ids())) return wrap(&l);
    return edit_.b.with_body(l, sink(l.body));
  }

  std::set<Id> active_ids() const {
    std::set<Id> ids;
    for (const Loop* l : active_) ids.insert(l->id);
    return ids;
  }

  // The statement for each virtual thread; once, where it does the same for all.
  Stmt wrap(Stmt s) {
    const std::set<Id> ids = active_ids();
    bool differs = false;
    visit_roots(s, [&](Expr e) { differs |= mentions_any(e, ids); });
    const Touched touched = touched_buffers(s);
    for (const std::set<Id>* set : {&touched.reads, &touched.writes})
      for (Id id : *set) differs |= leads_.contains(id);
    if (!differs) return s;
    for (Id id : touched.writes)
      if (edit_.k.buffer(id)->scope == Scope::kShared)
        verdict_ = reject(RejectReason::kUnsupported,
                          "'" + name_hint(edit_.k, id) + "' is shared and a virtual thread writes its part of it");
    Substitution vars;
    std::vector<Id> fresh;
    for (const Loop* l : active_) {
      fresh.push_back(edit_.fresh(l->id));
      vars.set(l->id, edit_.b.var(fresh.back()));
    }
    Stmt out = substitute(edit_.b, s, vars);
    out = reindex(edit_.b, out, [&](Id buffer, std::vector<Expr>& indices) {
      auto lead = leads_.find(buffer);
      if (lead == leads_.end()) return false;
      std::vector<Expr> all;
      for (const Loop* l : lead->second) all.push_back(vars.find(l->id));
      indices.insert(indices.begin(), all.begin(), all.end());
      return true;
    });
    for (size_t i = active_.size(); i-- > 0;)
      out = edit_.b.loop(fresh[i], active_[i]->extent, out, LoopKind::kUnrolled);
    return out;
  }

  Edit edit_;
  std::vector<const Loop*> active_;
  std::map<Id, std::vector<const Loop*>> leads_;  // loops that index a buffer's leading dimensions
  Legal<void> verdict_ = {};
};

}  // namespace

Legal<Kernel> sink_vthreads(const Kernel& kernel, const ArenaPtr& arena) {
  return Sinker(kernel, arena).run();
}

}  // namespace tcc::lower
