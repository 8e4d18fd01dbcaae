// Which temporaries may use the output's memory. Let T be allocated for one iteration of the loops around it, and let
// the last statement of that scope write O[r + t] = f(T[t]), element by element, where r depends on the loops around
// the scope only, and let T have as many elements as O has for each iteration. Then T[t] may be O[r + t]:
//  - an iteration writes at most as many elements of O as T has, all of them in the box r + T. A kernel writes all of
//    its output and nothing else writes this one, so by the numbers each iteration writes all of its box, and the boxes
//    do not overlap: no other iteration sees the contents of the box meanwhile;
//  - nothing reads T behind the statement, which itself reads just the element that it writes.
// It pays where vectors run along the last dimension: order_local_dims gives T another order where they do not, and the
// elements of such a vector are far apart in O.
#include "lower/share_output.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tcc/ir/query.h"

namespace tcc::lower {

using namespace ir;

namespace {

struct Sharing {
  const Alloc* scope = nullptr;
  Id temp = 0, output = 0;
  std::vector<Expr> origin;  // r
};

bool touches(Stmt s, Id buffer) {
  bool found = false;
  visit(s, [&](Stmt c) {
    if (const Store* st = as<Store>(c)) found |= st->buffer == buffer;
    if (const InstrCall* call = as<InstrCall>(c))
      for (const Operand& o : call->operands) found |= o.buffer == buffer;
    return !found;
  });
  return found || loads_from(s, buffer);
}

int count_stores(Stmt s, Id buffer) {
  int stores = 0;
  visit(s, [&](Stmt c) {
    if (const Store* st = as<Store>(c)) stores += st->buffer == buffer;
    return true;
  });
  return stores;
}

class OutputFinder {
 public:
  // `register_bytes`: local temporaries up to this size become registers, which are better than any memory.
  OutputFinder(const Kernel& kernel, Arena& arena, int64_t register_bytes)
      : k_(kernel), b_(arena), register_bytes_(register_bytes) {}

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
    if ((t->scope != Scope::kGlobal && t->scope != Scope::kLocal) || t->role != BufferRole::kTemp ||
        t->type != output_->type || t->layout != nullptr || t->shape.size() != output_->shape.size() ||
        (t->scope == Scope::kLocal && elements(*t) * type_bytes(t->type) <= register_bytes_))
      return false;
    Stmt last = last_of(scope);
    if (last == nullptr || count_stores(k_.root, output_->id) != 1 || count_stores(last, output_->id) != 1 ||
        count_stores(last, temp) != 0)
      return false;
    const Store* store = nullptr;
    bool plain = true;
    visit(last, [&](Stmt s) {
      if (const Store* st = as<Store>(s); st != nullptr && st->buffer == output_->id) store = st;
      return true;
    });
    std::vector<const Load*> reads, own_reads;
    visit_roots(last, [&](Expr root) {
      std::vector<const Load*> of_output;
      collect_loads(root, temp, reads);
      collect_loads(root, output_->id, of_output);
      plain &= of_output.empty();
    });
    collect_loads(store->value, temp, own_reads);
    if (!plain || reads.empty() || reads.size() != own_reads.size() || touches_by_instruction(temp)) return false;
    std::vector<Expr> origin = origin_of(*store, own_reads);
    if (origin.empty() || iterations < 0 || iterations * elements(*t) != elements(*output_) ||
        has_vectors_across_rows(temp))
      return false;
    found_ = Sharing{&scope, temp, output_->id, std::move(origin)};
    return true;
  }

  static void collect_loads(Expr root, Id buffer, std::vector<const Load*>& out) {
    visit_loads(root, [&](const Load& l) {
      if (l.buffer == buffer) out.push_back(&l);
    });
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

  // A vector of the buffer's elements runs along another dimension than the last.
  bool has_vectors_across_rows(Id buffer) const {
    std::vector<Id> lanes;
    visit(k_.root, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind == LoopKind::kVectorized) lanes.push_back(l->id);
      return true;
    });
    bool across = false;
    const auto look = [&](std::span<const Expr> indices) {
      for (size_t d = 0; d + 1 < indices.size(); ++d) across |= mentions_any(indices[d], lanes);
    };
    visit(k_.root, [&](Stmt s) {
      if (const Store* st = as<Store>(s); st != nullptr && st->buffer == buffer) look(st->indices);
      return !across;
    });
    visit_loads(k_.root, [&](const Load& l) {
      if (l.buffer == buffer) look(l.indices);
    });
    return across;
  }

  // r; empty where it depends on more than the loops around the scope, or on which load one looks at.
  std::vector<Expr> origin_of(const Store& store, const std::vector<const Load*>& loads) {
    std::vector<Expr> origin;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      origin.push_back(b_.sub(store.indices[d], loads[0]->indices[d]));
      bool outside =
          !mentions_any(origin[d], [&](Id id) { return std::count(around_.begin(), around_.end(), id) == 0; });
      for (const Load* l : loads) outside &= equal(l->indices[d], loads[0]->indices[d]);
      if (!outside) return {};
    }
    return origin;
  }

  static int64_t elements(const Buffer& b) {
    int64_t n = 1;
    for (Expr extent : b.shape) n *= is_int(extent) ? int_value(extent) : 0;
    return n;
  }

  const Kernel& k_;
  Builder b_;
  int64_t register_bytes_;
  const Buffer* output_ = nullptr;
  std::vector<Id> around_;
  std::optional<Sharing> found_;
};

class Sharer {
 public:
  Sharer(const Sharing& sharing, Arena& arena) : sharing_(sharing), b_(arena) {}

  Stmt stmt(Stmt s) {
    if (const Alloc* a = as<Alloc>(s); a == sharing_.scope) {
      std::vector<Id> rest;
      for (Id id : a->buffers)
        if (id != sharing_.temp) rest.push_back(id);
      Stmt body = stmt(a->body);
      return rest.empty() ? body : b_.alloc(rest, body);
    }
    if (const Store* st = as<Store>(s); st != nullptr && st->buffer == sharing_.temp)
      return b_.store(sharing_.output, place(st->indices), expr(st->value),
                      st->predicate == nullptr ? nullptr : expr(st->predicate));
    return rewrite_children(b_, s, [&](Stmt c) { return stmt(c); }, [&](Expr e) { return expr(e); });
  }

 private:
  Expr expr(Expr e) {
    if (const Load* l = as<Load>(e); l != nullptr && l->buffer == sharing_.temp)
      return b_.load(sharing_.output, l->type, place(l->indices),
                     l->predicate == nullptr ? nullptr : expr(l->predicate),
                     l->other == nullptr ? nullptr : expr(l->other));
    return rewrite_children(b_, e, [&](Expr c) { return expr(c); });
  }
  std::vector<Expr> place(std::span<const Expr> indices) {
    std::vector<Expr> out;
    for (size_t d = 0; d < indices.size(); ++d) out.push_back(b_.add(sharing_.origin[d], indices[d]));
    return out;
  }

  const Sharing& sharing_;
  Builder b_;
};

// Stores that go past the caches are better still, and nothing may read what they write.
bool goes_past_caches(const Kernel& k) {
  bool found = false;
  visit(k.root, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    const Expr hint = l != nullptr ? find_annotation(*l, AnnotationKey::kNonTemporal) : nullptr;
    found |= hint != nullptr && !is_int(hint, 0);
    return !found;
  });
  return found;
}

}  // namespace

Kernel share_output(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  Kernel k = kernel;
  k.arena = arena;
  int64_t register_bytes = target.cpu.num_vector_registers * target.cpu.vector_bits / 8;
  for (const Buffer* output : kernel.buffers) {
    if (output->role != BufferRole::kOutput || output->layout != nullptr) continue;
    int64_t bytes = type_bytes(output->type);
    for (Expr extent : output->shape) bytes *= is_int(extent) ? int_value(extent) : 0;
    if (bytes <= target.cpu.l2_bytes || goes_past_caches(k)) continue;
    if (std::optional<Sharing> sharing = OutputFinder(k, *arena, register_bytes).find(*output)) {
      Kernel next = k;
      next.root = Sharer(*sharing, *arena).stmt(k.root);
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
