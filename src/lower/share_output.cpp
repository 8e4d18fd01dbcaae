// Which temporaries may lie in the output. Let T be allocated for one iteration of the loops around it, and let the
// last statement of that scope write O[r.., j..] = f(T[0.., j..]), where r depends on the loops around the scope only
// and T has O's extents in j and one element in the others. Then T[0.., j..] may be O[r.., j..]:
//  - every element of T is one of O's, as the extents are the same;
//  - nothing reads T behind the statement, and the statement reads just the element that it writes;
//  - what the scope left in O the statement writes over: a kernel writes all of its output, and no other store does;
//  - no other iteration writes the row: the rows r are all written, and there are as many of them as iterations, so
//  each
//    iteration has its own.
#include "lower/share_output.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tcc/ir/walk.h"

namespace tcc::lower {

using namespace ir;

namespace {

struct Sharing {
  const Alloc* scope = nullptr;
  Id temp = 0;
  const Store* last = nullptr;  // writes the output
};

bool touches(Stmt s, Id buffer) {
  bool found = false;
  visit(s, [&](Stmt c) {
    if (const Store* st = as<Store>(c)) found |= st->buffer == buffer;
    if (const InstrCall* call = as<InstrCall>(c))
      for (const Operand& o : call->operands) found |= o.buffer == buffer;
    return !found;
  });
  visit_roots(s, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e)) found |= l->buffer == buffer;
      return !found;
    });
  });
  return found;
}

int count_stores(Stmt s, Id buffer) {
  int stores = 0;
  visit(s, [&](Stmt c) {
    if (const Store* st = as<Store>(c)) stores += st->buffer == buffer;
    return true;
  });
  return stores;
}

class Finder {
 public:
  explicit Finder(const Kernel& kernel) : k_(kernel) {}

  std::optional<Sharing> find(const Buffer& output) {
    output_ = &output;
    found_.reset();
    descend(k_.root, 1);
    return found_;
  }

 private:
  // `iterations`: of the loops around; negative: not known.
  void descend(Stmt s, int64_t iterations) {
    if (found_ || s == nullptr) return;
    if (const Loop* l = as<Loop>(s)) {
      around_.push_back(l->id);
      descend(l->body, is_int(l->extent) && iterations >= 0 ? iterations * int_value(l->extent) : -1);
      around_.pop_back();
    } else if (const Alloc* a = as<Alloc>(s)) {
      for (Id temp : a->buffers)
        if (!found_ && is_shareable(*a, temp, iterations)) return;
      descend(a->body, iterations);
    } else if (const Seq* seq = as<Seq>(s)) {
      for (Stmt child : seq->stmts) descend(child, iterations);
    }  // nothing below a condition: its iterations cannot be counted
  }

  // The statement that ends the scope; nullptr where the output is touched before it.
  Stmt last_of(const Alloc& scope) const {
    Stmt s = scope.body;
    for (;;) {
      if (const Alloc* a = as<Alloc>(s)) {
        s = a->body;
      } else if (const Seq* seq = as<Seq>(s)) {
        for (size_t i = 0; i + 1 < seq->stmts.size(); ++i)
          if (touches(seq->stmts[i], output_->id)) return nullptr;
        s = seq->stmts.back();
      } else {
        return s;
      }
    }
  }

  bool is_shareable(const Alloc& scope, Id temp, int64_t iterations) {
    const Buffer* t = k_.buffer(temp);
    if (t->scope != Scope::kLocal || t->type != output_->type || t->layout != nullptr ||
        t->shape.size() != output_->shape.size())
      return false;
    Stmt last = last_of(scope);
    if (last == nullptr || count_stores(k_.root, output_->id) != 1 || count_stores(last, output_->id) != 1 ||
        count_stores(last, temp) != 0)
      return false;
    const Store* store = nullptr;
    int64_t reads = 0, own_reads = 0;
    bool plain = true;
    visit(last, [&](Stmt s) {
      if (const Store* st = as<Store>(s); st != nullptr && st->buffer == output_->id) store = st;
      plain &= s->kind != StmtKind::kInstrCall;
      return true;
    });
    visit_roots(last, [&](Expr root) { reads += count_reads(root, temp, nullptr); });
    own_reads = count_reads(store->value, temp, store);
    if (!plain || reads == 0 || reads != own_reads || touches_by_instruction(temp)) return false;
    if (iterations < 0 || iterations != rows_of(*t, *store)) return false;
    found_ = Sharing{&scope, temp, store};
    return true;
  }

  // Loads of the buffer; with a store, only those of the element that it writes.
  static int64_t count_reads(Expr root, Id buffer, const Store* at) {
    int64_t n = 0;
    visit(root, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l == nullptr || l->buffer != buffer) return true;
      bool same = true;
      for (size_t d = 0; at != nullptr && d < l->indices.size(); ++d)
        same &= equal(l->indices[d], at->indices[d]) || is_int(l->indices[d], 0);
      n += same;
      return true;
    });
    return n;
  }

  bool touches_by_instruction(Id buffer) const {
    bool found = false;
    visit(k_.root, [&](Stmt s) {
      if (const InstrCall* call = as<InstrCall>(s))
        for (const Operand& o : call->operands) found |= o.buffer == buffer || o.buffer == output_->id;
      return !found;
    });
    return found;
  }

  // How many rows the output has, where the store tells rows from places within them as the temporary does; else -1.
  int64_t rows_of(const Buffer& t, const Store& store) const {
    int64_t rows = 1;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (!is_int(t.shape[d]) || !is_int(output_->shape[d])) return -1;
      const int64_t extent = int_value(t.shape[d]), whole = int_value(output_->shape[d]);
      bool outside = true, inside_reads_all = true;
      visit(store.indices[d], [&](Expr e) {
        if (const Var* v = as<Var>(e)) outside &= std::count(around_.begin(), around_.end(), v->id) > 0;
        return true;
      });
      visit(store.value, [&](Expr e) {
        if (const Load* l = as<Load>(e); l != nullptr && l->buffer == t.id)
          inside_reads_all &= equal(l->indices[d], store.indices[d]);
        return true;
      });
      if (extent == 1 && outside)
        rows *= whole;
      else if (extent != whole || !inside_reads_all)
        return -1;
    }
    return rows;
  }

  const Kernel& k_;
  const Buffer* output_ = nullptr;
  std::vector<Id> around_;
  std::optional<Sharing> found_;
};

class Sharer {
 public:
  Sharer(const Kernel& k, const Sharing& sharing, Arena& arena) : k_(k), sharing_(sharing), b_(arena) {
    const Buffer* t = k.buffer(sharing.temp);
    for (size_t d = 0; d < t->shape.size(); ++d) {
      bool row = is_int(t->shape[d], 1) && !is_int(k.buffer(sharing.last->buffer)->shape[d], 1);
      rows_.push_back(row ? sharing.last->indices[d] : nullptr);
    }
  }

  Stmt stmt(Stmt s) {
    if (const Alloc* a = as<Alloc>(s); a == sharing_.scope) {
      std::vector<Id> rest;
      for (Id id : a->buffers)
        if (id != sharing_.temp) rest.push_back(id);
      Stmt body = stmt(a->body);
      return rest.empty() ? body : b_.alloc(rest, body);
    }
    if (const Store* st = as<Store>(s); st != nullptr && st->buffer == sharing_.temp)
      return b_.store(sharing_.last->buffer, place(st->indices), expr(st->value),
                      st->predicate == nullptr ? nullptr : expr(st->predicate));
    return rewrite_children(b_, s, [&](Stmt c) { return stmt(c); }, [&](Expr e) { return expr(e); });
  }

 private:
  Expr expr(Expr e) {
    if (const Load* l = as<Load>(e); l != nullptr && l->buffer == sharing_.temp)
      return b_.load(sharing_.last->buffer, l->type, place(l->indices),
                     l->predicate == nullptr ? nullptr : expr(l->predicate),
                     l->other == nullptr ? nullptr : expr(l->other));
    return rewrite_children(b_, e, [&](Expr c) { return expr(c); });
  }
  std::vector<Expr> place(std::span<const Expr> indices) {
    std::vector<Expr> out(indices.begin(), indices.end());
    for (size_t d = 0; d < out.size(); ++d)
      if (rows_[d] != nullptr) out[d] = rows_[d];
    return out;
  }

  const Kernel& k_;
  const Sharing& sharing_;
  Builder b_;
  std::vector<Expr> rows_;  // nullptr: a place within the row
};

// Stores that go past the caches are better still, and nothing may read what they write.
bool goes_past_caches(const Kernel& k) {
  bool found = false;
  visit(k.root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s))
      for (const Annotation& a : l->annotations) found |= a.key == AnnotationKey::kNonTemporal && !is_int(a.value, 0);
    return !found;
  });
  return found;
}

}  // namespace

Kernel share_output(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  for (const Buffer* output : kernel.buffers) {
    if (output->role != BufferRole::kOutput || output->layout != nullptr) continue;
    int64_t bytes = type_bytes(output->type);
    for (Expr extent : output->shape) bytes *= is_int(extent) ? int_value(extent) : 0;
    if (bytes <= target.cpu.l2_bytes || goes_past_caches(k)) continue;
    if (std::optional<Sharing> sharing = Finder(k).find(*output)) {
      Kernel next = k;
      next.root = Sharer(k, *sharing, *arena).stmt(k.root);
      std::vector<const Buffer*> rest;
      for (const Buffer* b : k.buffers)
        if (b->id != sharing->temp) rest.push_back(b);
      next.buffers = arena->copy(rest);
      k = next;
    }
  }
  return k;
}

}  // namespace tcc::lower
