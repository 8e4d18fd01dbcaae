#include "tcc/ir/walk.h"

#include "tcc/ir/kinds.h"

#include <array>

namespace tcc::ir {
namespace {

// A short list of expressions under rewrite; most have fewer than eight.
class ExprList {
 public:
  // True when f changed any element.
  bool map(std::span<const Expr> in, FunctionRef<Expr(Expr)> f) {
    bool changed = false;
    size_ = in.size();
    if (size_ > kInline) heap_.resize(size_);
    Expr* out = data();
    for (size_t i = 0; i < size_; ++i) {
      out[i] = f(in[i]);
      changed |= out[i] != in[i];
    }
    return changed;
  }
  std::span<const Expr> view() { return {data(), size_}; }

 private:
  static constexpr size_t kInline = 8;
  Expr* data() { return size_ > kInline ? heap_.data() : inline_.data(); }
  std::array<Expr, kInline> inline_;
  std::vector<Expr> heap_;
  size_t size_ = 0;
};

Expr map_optional(Expr e, FunctionRef<Expr(Expr)> f) {
  return e == nullptr ? nullptr : f(e);
}

bool map_annotations(std::span<const Annotation> in, std::vector<Annotation>& out, FunctionRef<Expr(Expr)> f) {
  bool changed = false;
  for (const Annotation& a : in) {
    Expr v = f(a.value);
    changed |= v != a.value;
    out.push_back({a.key, v});
  }
  return changed;
}

}  // namespace

void visit(Expr e, FunctionRef<bool(Expr)> f) {
  if (e == nullptr || !f(e)) return;
  switch (e->kind) {
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kVar:
      return;
    case ExprKind::kSum:
      for (const Term& t : as<Sum>(e)->terms) visit(t.atom, f);
      return;
    case ExprKind::kProd:
      for (Expr x : as<Prod>(e)->factors) visit(x, f);
      return;
    case TCC_BINARY_KINDS:
      visit(as<Binary>(e)->a, f);
      visit(as<Binary>(e)->b, f);
      return;
    case ExprKind::kNot:
    case ExprKind::kCast:
      visit(as<Unary>(e)->a, f);
      return;
    case ExprKind::kSelect:
      visit(as<Select>(e)->condition, f);
      visit(as<Select>(e)->a, f);
      visit(as<Select>(e)->b, f);
      return;
    case ExprKind::kLoad:
      for (Expr x : as<Load>(e)->indices) visit(x, f);
      visit(as<Load>(e)->predicate, f);
      visit(as<Load>(e)->other, f);
      return;
    case ExprKind::kCall:
      for (Expr x : as<Call>(e)->args) visit(x, f);
      return;
  }
}

namespace {

// Whether f holds for a child, asked in order. A template: every step of a search walks over statements many times.
template <class F>
[[gnu::always_inline]] inline bool any_child(Stmt s, const F& f) {
  auto holds = [&](Stmt child) { return child != nullptr && f(child); };
  switch (s->kind) {
    case StmtKind::kSeq:
      for (Stmt c : static_cast<const Seq*>(s)->stmts)
        if (holds(c)) return true;
      return false;
    case StmtKind::kLoop:
      return holds(static_cast<const Loop*>(s)->body);
    case StmtKind::kBlock:
      return holds(static_cast<const Block*>(s)->init) || holds(static_cast<const Block*>(s)->body);
    case StmtKind::kIf:
      return holds(static_cast<const If*>(s)->then_case) || holds(static_cast<const If*>(s)->else_case);
    case StmtKind::kAlloc:
      return holds(static_cast<const Alloc*>(s)->body);
    case StmtKind::kRoles:
      for (const Role& r : static_cast<const Roles*>(s)->roles)
        if (holds(r.body)) return true;
      return false;
    case StmtKind::kStore:
    case StmtKind::kInstrCall:
      return false;
  }
  return false;
}

}  // namespace

void visit_children(Stmt s, FunctionRef<void(Stmt)> f) {
  any_child(s, [&](Stmt child) { return f(child), false; });
}

void visit(Stmt s, FunctionRef<bool(Stmt)> f) {
  if (s != nullptr && f(s)) any_child(s, [&](Stmt child) { return visit(child, f), false; });
}

void visit_roots(Stmt root, FunctionRef<void(Expr)> f) {
  auto give = [&](Expr e) {
    if (e != nullptr) f(e);
  };
  visit(root, [&](Stmt s) {
    switch (s->kind) {
      case StmtKind::kLoop:
        give(as<Loop>(s)->extent);
        for (const Annotation& a : as<Loop>(s)->annotations) give(a.value);
        break;
      case StmtKind::kBlock:
        for (const Iter& it : as<Block>(s)->iters) give(it.extent), give(it.binding);
        give(as<Block>(s)->predicate);
        for (const Annotation& a : as<Block>(s)->annotations) give(a.value);
        break;
      case StmtKind::kStore:
        for (Expr i : as<Store>(s)->indices) give(i);
        give(as<Store>(s)->value);
        give(as<Store>(s)->predicate);
        break;
      case StmtKind::kIf:
        give(as<If>(s)->condition);
        break;
      case StmtKind::kInstrCall:
        for (const Operand& o : as<InstrCall>(s)->operands)
          for (Expr i : o.indices) give(i);
        for (Expr a : as<InstrCall>(s)->args) give(a);
        give(as<InstrCall>(s)->predicate);
        break;
      case StmtKind::kSeq:
      case StmtKind::kAlloc:
      case StmtKind::kRoles:
        break;
    }
    return true;
  });
}

Expr rewrite_children(Builder& b, Expr e, FunctionRef<Expr(Expr)> f) {
  switch (e->kind) {
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kVar:
      return e;
    case ExprKind::kSum: {
      const Sum* s = static_cast<const Sum*>(e);
      std::array<Term, 8> inline_terms;
      std::vector<Term> heap;
      Term* out = inline_terms.data();
      if (s->terms.size() > inline_terms.size()) heap.resize(s->terms.size()), out = heap.data();
      bool changed = false;
      for (size_t i = 0; i < s->terms.size(); ++i) {
        out[i] = {s->terms[i].coefficient, f(s->terms[i].atom)};
        changed |= out[i].atom != s->terms[i].atom;
      }
      return changed ? b.sum(s->constant, {out, s->terms.size()}) : e;
    }
    case ExprKind::kProd: {
      ExprList list;
      return list.map(static_cast<const Prod*>(e)->factors, f) ? b.product(list.view()) : e;
    }
    case TCC_BINARY_KINDS: {
      const Binary* x = static_cast<const Binary*>(e);
      Expr a = f(x->a), c = f(x->b);
      return a == x->a && c == x->b ? e : b.binary(e->kind, a, c);
    }
    case ExprKind::kNot: {
      Expr a = f(static_cast<const Unary*>(e)->a);
      return a == static_cast<const Unary*>(e)->a ? e : b.logical_not(a);
    }
    case ExprKind::kCast: {
      Expr a = f(static_cast<const Unary*>(e)->a);
      return a == static_cast<const Unary*>(e)->a ? e : b.cast(a, e->type);
    }
    case ExprKind::kSelect: {
      const Select* x = static_cast<const Select*>(e);
      Expr c = f(x->condition), p = f(x->a), q = f(x->b);
      return c == x->condition && p == x->a && q == x->b ? e : b.select(c, p, q);
    }
    case ExprKind::kLoad: {
      const Load* x = static_cast<const Load*>(e);
      ExprList list;
      bool changed = list.map(x->indices, f);
      Expr p = map_optional(x->predicate, f), o = map_optional(x->other, f);
      changed |= p != x->predicate || o != x->other;
      return changed ? b.load(x->buffer, e->type, list.view(), p, o) : e;
    }
    case ExprKind::kCall: {
      ExprList list;
      return list.map(static_cast<const Call*>(e)->args, f) ? b.call(static_cast<const Call*>(e)->fn, list.view()) : e;
    }
  }
  return e;
}

namespace {

Stmt rewrite_block(Builder& b, const Block* x, FunctionRef<Stmt(Stmt)> fs, FunctionRef<Expr(Expr)> fe) {
  std::vector<Iter> iters(x->iters.begin(), x->iters.end());
  bool changed = false;
  for (Iter& it : iters) {
    Expr extent = fe(it.extent), binding = fe(it.binding);
    changed |= extent != it.extent || binding != it.binding;
    it.extent = extent;
    it.binding = binding;
  }
  Expr predicate = map_optional(x->predicate, fe);
  std::vector<Annotation> annotations;
  changed |= map_annotations(x->annotations, annotations, fe) || predicate != x->predicate;
  Stmt init = x->init == nullptr ? nullptr : fs(x->init), body = fs(x->body);
  if (body == nullptr) return nullptr;
  if (!changed && init == x->init && body == x->body) return x;
  return b.block(x->id, iters, body, init, predicate, x->reducer, annotations);
}

Stmt rewrite_instr(Builder& b, const InstrCall* x, FunctionRef<Expr(Expr)> fe) {
  std::vector<Operand> operands;
  bool changed = false;
  for (const Operand& o : x->operands) {
    ExprList list;
    changed |= list.map(o.indices, fe);
    operands.push_back({o.buffer, b.arena().copy(list.view())});
  }
  ExprList args;
  changed |= args.map(x->args, fe);
  Expr predicate = map_optional(x->predicate, fe);
  changed |= predicate != x->predicate;
  return changed ? b.instr(x->instr, operands, args.view(), predicate) : x;
}

}  // namespace

Stmt rewrite_children(Builder& b, Stmt s, FunctionRef<Stmt(Stmt)> fs, FunctionRef<Expr(Expr)> fe) {
  switch (s->kind) {
    case StmtKind::kSeq: {
      const Seq* x = static_cast<const Seq*>(s);
      std::vector<Stmt> out;
      out.reserve(x->stmts.size());
      bool changed = false;
      for (Stmt c : x->stmts) {
        out.push_back(fs(c));
        changed |= out.back() != c;
      }
      return changed ? b.seq(out) : s;
    }
    case StmtKind::kLoop: {
      const Loop* x = static_cast<const Loop*>(s);
      Expr extent = fe(x->extent);
      std::vector<Annotation> annotations;
      bool changed = map_annotations(x->annotations, annotations, fe) || extent != x->extent;
      Stmt body = fs(x->body);
      if (body == nullptr) return nullptr;
      if (!changed && body == x->body) return s;
      return b.loop(x->id, extent, body, x->loop_kind, x->axis, annotations);
    }
    case StmtKind::kBlock:
      return rewrite_block(b, static_cast<const Block*>(s), fs, fe);
    case StmtKind::kStore: {
      const Store* x = static_cast<const Store*>(s);
      ExprList list;
      bool changed = list.map(x->indices, fe);
      Expr value = fe(x->value), predicate = map_optional(x->predicate, fe);
      changed |= value != x->value || predicate != x->predicate;
      return changed ? b.store(x->buffer, list.view(), value, predicate) : s;
    }
    case StmtKind::kIf: {
      const If* x = static_cast<const If*>(s);
      Expr condition = fe(x->condition);
      Stmt then_case = fs(x->then_case), else_case = x->else_case == nullptr ? nullptr : fs(x->else_case);
      if (condition == x->condition && then_case == x->then_case && else_case == x->else_case) return s;
      return b.if_then(condition, then_case, else_case);
    }
    case StmtKind::kAlloc: {
      const Alloc* x = static_cast<const Alloc*>(s);
      Stmt body = fs(x->body);
      return body == x->body ? s : b.alloc(x->buffers, body);
    }
    case StmtKind::kInstrCall:
      return rewrite_instr(b, static_cast<const InstrCall*>(s), fe);
    case StmtKind::kRoles: {
      const Roles* x = static_cast<const Roles*>(s);
      std::vector<Role> roles(x->roles.begin(), x->roles.end());
      bool changed = false;
      for (Role& r : roles) {
        Stmt body = fs(r.body);
        TCC_CHECK(body != nullptr, "a role cannot be emptied");
        changed |= body != r.body;
        r.body = body;
      }
      return changed ? b.roles(roles) : s;
    }
  }
  return s;
}

Stmt rewrite_children(Builder& b, Stmt s, FunctionRef<Stmt(Stmt)> fs) {
  return rewrite_children(b, s, fs, [](Expr e) { return e; });
}

void split_conjunction(Expr predicate, std::vector<Expr>& out) {
  if (predicate == nullptr) return;
  if (predicate->kind != ExprKind::kAnd) {
    out.push_back(predicate);
    return;
  }
  split_conjunction(static_cast<const Binary*>(predicate)->a, out);
  split_conjunction(static_cast<const Binary*>(predicate)->b, out);
}

Expr substitute(Builder& b, Expr e, const Substitution& s) {
  if ((e->ids & s.mask) == 0) return e;
  if (e->kind == ExprKind::kVar) {
    Expr value = s.find(static_cast<const Var*>(e)->id);
    return value != nullptr ? value : e;
  }
  return rewrite_children(b, e, [&](Expr child) { return substitute(b, child, s); });
}

std::vector<Expr> substitute(Builder& b, std::span<const Expr> list, const Substitution& s) {
  std::vector<Expr> out;
  out.reserve(list.size());
  for (Expr e : list) out.push_back(substitute(b, e, s));
  return out;
}

Stmt substitute(Builder& b, Stmt s, const Substitution& subst) {
  if ((s->ids & subst.mask) == 0) return s;
  return rewrite_children(
      b, s, [&](Stmt child) { return substitute(b, child, subst); }, [&](Expr e) { return substitute(b, e, subst); });
}

namespace {

bool extend_path(Stmt s, Id id, std::vector<Stmt>& nodes) {
  if (!may_mention(s, id)) return false;
  nodes.push_back(s);
  const Loop* loop = as<Loop>(s);
  const Block* block = as<Block>(s);
  if ((loop != nullptr && loop->id == id) || (block != nullptr && block->id == id) ||
      any_child(s, [&](Stmt child) { return extend_path(child, id, nodes); }))
    return true;
  nodes.pop_back();
  return false;
}

}  // namespace

Path find_path(Stmt root, Id id) {
  Path path;
  path.nodes.reserve(24);
  if (id >= 0 && root != nullptr) extend_path(root, id, path.nodes);
  return path;
}

const Loop* find_loop(Stmt root, Id id) {
  Path p = find_path(root, id);
  return p.found() ? as<Loop>(p.nodes.back()) : nullptr;
}

const Block* find_block(Stmt root, Id id) {
  Path p = find_path(root, id);
  return p.found() ? as<Block>(p.nodes.back()) : nullptr;
}

Stmt replace_at(Builder& b, const Path& path, Stmt replacement) {
  TCC_CHECK(path.found());
  for (size_t i = path.nodes.size() - 1; i-- > 0;) {
    Stmt child = path.nodes[i + 1];
    replacement = rewrite_children(b, path.nodes[i], [&](Stmt s) { return s == child ? replacement : s; });
  }
  return replacement;
}

std::vector<const Block*> collect_blocks(Stmt root) {
  std::vector<const Block*> blocks;
  visit(root, [&](Stmt s) {
    if (const Block* block = as<Block>(s)) blocks.push_back(block);
    return true;
  });
  return blocks;
}

}  // namespace tcc::ir
