// Kernels as values: copies, hashes that do not see ids, names.
#include "tcc/ir/kernel.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <unordered_map>

#include "tcc/ir/copy.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/names.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::ir {
namespace {

// Hashes the tree with ids replaced by the order of their first appearance. Commutative nodes combine their children
// commutatively, because canonical operand order follows ids. Enumerators count by name (stored_code): record files
// hold these hashes.
class KernelHasher {
 public:
  explicit KernelHasher(const Kernel& kernel) : kernel_(kernel), numbers_(static_cast<size_t>(kernel.next_id), 0) {}

  uint64_t run() {
    uint64_t hash = mix_hash(0x7463636bu + stored_code(kernel_.stage));
    if (kernel_.tf32) hash = combine_hash(hash, hash_bytes("tf32"));
    for (const Scalar& s : kernel_.scalars) {
      hash = combine_hash(hash, number(s.id));
      hash = combine_hash(hash,
                          stored_code(s.role) + 7 * static_cast<uint64_t>(s.low) + 31 * static_cast<uint64_t>(s.high));
    }
    for (const Buffer* b : kernel_.buffers)
      if (b->role != BufferRole::kTemp) hash = combine_hash(hash, buffer(b->id));
    return combine_hash(hash, stmt(kernel_.root));
  }

 private:
  uint64_t number(Id id) {
    int32_t& n = numbers_[static_cast<size_t>(id)];
    if (n == 0) n = ++count_;
    return static_cast<uint64_t>(n);
  }

  uint64_t buffer(Id id) {
    bool seen = numbers_[static_cast<size_t>(id)] != 0;
    uint64_t n = number(id);
    if (seen) return mix_hash(n);
    const Buffer* b = kernel_.buffer(id);
    TCC_CHECK(b != nullptr, "unknown buffer {}", id);
    uint64_t hash = combine_hash(n, (stored_code(b->type) << 16) + (stored_code(b->scope) << 8) + stored_code(b->role));
    for (Expr e : b->shape) hash = combine_hash(hash, expr(e));
    if (b->layout != nullptr) hash = combine_hash(hash, hash_layout(*b->layout));
    if (b->padding.dim >= 0)
      hash = combine_hash(
          hash, combine_hash(static_cast<uint64_t>(b->padding.dim) << 32 | static_cast<uint64_t>(b->padding.factor),
                             static_cast<uint64_t>(b->padding.offset)));
    extra_ = combine_hash(extra_, hash);  // first appearances are folded into the next statement
    return mix_hash(n);
  }

  // The values of a Winograd tile share most of their parts: each is hashed once. Whatever a part mentions has its
  // number by then, so that a second visit would give the same hash.
  uint64_t expr(Expr e) {
    const bool shared = is_float(e->type) && (e->kind == ExprKind::kLoad || e->kind == ExprKind::kAdd ||
                                              e->kind == ExprKind::kSub || e->kind == ExprKind::kMul);
    if (!shared) return fresh(e);
    Known& known = known_[(reinterpret_cast<uintptr_t>(e) / alignof(std::max_align_t)) % known_.size()];
    if (known.of == e) return known.hash;
    const uint64_t hash = fresh(e);
    known = {e, hash};
    return hash;
  }

  uint64_t fresh(Expr e) {
    uint64_t hash = mix_hash(kinds_[static_cast<size_t>(e->kind)] * 64 + types_[static_cast<size_t>(e->type)]);
    switch (e->kind) {
      case ExprKind::kIntConst:
        return combine_hash(hash, static_cast<uint64_t>(int_value(e)));
      case ExprKind::kFloatConst:
        return combine_hash(hash, std::bit_cast<uint64_t>(static_cast<const FloatConst*>(e)->value));
      case ExprKind::kVar:
        return combine_hash(hash, number(static_cast<const Var*>(e)->id));
      case ExprKind::kSum: {
        uint64_t total = 0;
        for (const Term& t : static_cast<const Sum*>(e)->terms)
          total += combine_hash(mix_hash(static_cast<uint64_t>(t.coefficient)), expr(t.atom));
        return combine_hash(combine_hash(hash, static_cast<uint64_t>(static_cast<const Sum*>(e)->constant)), total);
      }
      case ExprKind::kProd: {
        uint64_t total = 0;
        for (Expr f : static_cast<const Prod*>(e)->factors) total += mix_hash(expr(f));
        return combine_hash(hash, total);
      }
      case ExprKind::kMin:
      case ExprKind::kMax:
      case ExprKind::kAnd:
      case ExprKind::kOr:
        return combine_hash(
            hash, mix_hash(expr(static_cast<const Binary*>(e)->a)) + mix_hash(expr(static_cast<const Binary*>(e)->b)));
      case ExprKind::kEq:
      case ExprKind::kNe:
        return combine_hash(hash, equation(static_cast<const Binary*>(e)));
      case ExprKind::kFloorDiv:
      case ExprKind::kFloorMod:
      case ExprKind::kAdd:
      case ExprKind::kSub:
      case ExprKind::kMul:
      case ExprKind::kDiv:
      case ExprKind::kLt:
      case ExprKind::kLe: {
        uint64_t a = expr(static_cast<const Binary*>(e)->a);
        return combine_hash(combine_hash(hash, a), expr(static_cast<const Binary*>(e)->b));
      }
      case ExprKind::kNot:
      case ExprKind::kCast:
        return combine_hash(hash, expr(static_cast<const Unary*>(e)->a));
      case ExprKind::kSelect: {
        const Select* s = static_cast<const Select*>(e);
        hash = combine_hash(hash, expr(s->condition));
        hash = combine_hash(hash, expr(s->a));
        return combine_hash(hash, expr(s->b));
      }
      case ExprKind::kLoad: {
        const Load* l = static_cast<const Load*>(e);
        hash = combine_hash(hash, buffer(l->buffer));
        for (Expr i : l->indices) hash = combine_hash(hash, expr(i));
        if (l->predicate != nullptr) hash = combine_hash(combine_hash(hash, expr(l->predicate)), expr(l->other));
        return hash;
      }
      case ExprKind::kCall: {
        hash = combine_hash(hash, stored_code(static_cast<const Call*>(e)->fn));
        for (Expr a : static_cast<const Call*>(e)->args) hash = combine_hash(hash, expr(a));
        return hash;
      }
    }
    return hash;
  }

  // Which sides the terms of an index equation are on follows ids: both signs of the difference hash alike.
  uint64_t equation(const Binary* e) {
    if (e->a->type != Type::kI64) return mix_hash(expr(e->a)) + mix_hash(expr(e->b));
    uint64_t plus = 0, minus = 0, constant = 0;
    auto add = [&](int64_t sign, int64_t coefficient, Expr atom) {
      uint64_t h = expr(atom);
      plus += combine_hash(mix_hash(static_cast<uint64_t>(sign * coefficient)), h);
      minus += combine_hash(mix_hash(static_cast<uint64_t>(-sign * coefficient)), h);
    };
    for (auto [side, sign] : {std::pair<Expr, int64_t>{e->a, 1}, {e->b, -1}}) {
      if (is_int(side)) {
        constant += static_cast<uint64_t>(sign * int_value(side));
      } else if (const Sum* s = as<Sum>(side)) {
        constant += static_cast<uint64_t>(sign * s->constant);
        for (const Term& t : s->terms) add(sign, t.coefficient, t.atom);
      } else {
        add(sign, 1, side);
      }
    }
    return mix_hash(combine_hash(plus, constant)) + mix_hash(combine_hash(minus, uint64_t{0} - constant));
  }

  uint64_t optional(Expr e) { return e == nullptr ? 0x6e756c6cu : expr(e); }

  uint64_t stmt(Stmt s) {
    if (s == nullptr) return 0x6e756c6cu;
    uint64_t hash = mix_hash(0x5354u + stored_code(s->kind));
    auto add = [&](uint64_t v) { hash = combine_hash(hash, v); };
    auto add_annotations = [&](std::span<const Annotation> list) {
      for (const Annotation& a : list) add(stored_code(a.key)), add(expr(a.value));
    };
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : static_cast<const Seq*>(s)->stmts) add(stmt(c));
        break;
      case StmtKind::kLoop: {
        const Loop* l = static_cast<const Loop*>(s);
        add(stored_code(l->loop_kind) * 32 + stored_code(l->axis));
        add(expr(l->extent));
        add(number(l->id));
        add_annotations(l->annotations);
        add(stmt(l->body));
        break;
      }
      case StmtKind::kBlock: {
        const Block* b = static_cast<const Block*>(s);
        add(stored_code(b->reducer));
        for (const Iter& it : b->iters) {
          add(stored_code(it.kind));
          add(expr(it.extent));
          add(expr(it.binding));
          add(number(it.id));
        }
        add(optional(b->predicate));
        add(stmt(b->init));
        add(stmt(b->body));
        add_annotations(b->annotations);
        break;
      }
      case StmtKind::kStore: {
        const Store* x = static_cast<const Store*>(s);
        add(buffer(x->buffer));
        for (Expr i : x->indices) add(expr(i));
        add(expr(x->value));
        add(optional(x->predicate));
        break;
      }
      case StmtKind::kIf:
        add(expr(static_cast<const If*>(s)->condition));
        add(stmt(static_cast<const If*>(s)->then_case));
        add(stmt(static_cast<const If*>(s)->else_case));
        break;
      case StmtKind::kAlloc:
        for (Id id : static_cast<const Alloc*>(s)->buffers) add(buffer(id));
        add(stmt(static_cast<const Alloc*>(s)->body));
        break;
      case StmtKind::kInstrCall: {
        const InstrCall* x = static_cast<const InstrCall*>(s);
        add(stored_code_of_instruction(x->instr));
        for (const Operand& o : x->operands) {
          add(buffer(o.buffer));
          for (Expr i : o.indices) add(expr(i));
        }
        for (Expr a : x->args) add(expr(a));
        add(optional(x->predicate));
        break;
      }
      case StmtKind::kRoles:
        for (const Role& r : static_cast<const Roles*>(s)->roles) {
          add(static_cast<uint64_t>(r.first_warp) * 65536 + static_cast<uint64_t>(r.warps));
          add(static_cast<uint64_t>(r.registers));
          add(stmt(r.body));
        }
        break;
    }
    if (extra_ != 0) add(extra_), extra_ = 0;
    return hash;
  }

  const uint64_t* const kinds_ = stored_codes<ExprKind>();
  const uint64_t* const types_ = stored_codes<Type>();
  const Kernel& kernel_;
  std::vector<int32_t> numbers_;
  int32_t count_ = 0;
  uint64_t extra_ = 0;
  struct Known {
    Expr of = nullptr;
    uint64_t hash = 0;
  };
  std::array<Known, 256> known_ = {};  // a later expression takes the place of an earlier one
};

// Copies nodes into another arena; shared nodes are copied once.
class Compactor {
 public:
  explicit Compactor(Arena& arena) : arena_(arena), b_(arena) {}

  Expr expr(Expr e) {
    if (e == nullptr) return nullptr;
    auto [it, fresh] = exprs_.try_emplace(e, nullptr);
    if (!fresh) return it->second;
    Expr copy = copy_expr(e);
    exprs_[e] = copy;
    return copy;
  }
  Stmt stmt(Stmt s) {
    if (const InstrCall* x = as<InstrCall>(s)) {  // may hold no expression whose copy would make it another node
      std::vector<Operand> operands;
      for (const Operand& o : x->operands) operands.push_back({o.buffer, exprs(o.indices)});
      return b_.instr(x->instr, operands, exprs(x->args), expr(x->predicate));
    }
    return rewrite_children(b_, s, [&](Stmt child) { return stmt(child); }, [&](Expr e) { return expr(e); });
  }
  std::span<const Expr> exprs(std::span<const Expr> in) {
    std::vector<Expr> out;
    for (Expr e : in) out.push_back(expr(e));
    return arena_.copy(out);
  }

 private:
  Expr copy_expr(Expr e) {
    switch (e->kind) {
      case ExprKind::kIntConst:
        return arena_.make<IntConst>(*static_cast<const IntConst*>(e));
      case ExprKind::kFloatConst:
        return arena_.make<FloatConst>(*static_cast<const FloatConst*>(e));
      case ExprKind::kVar:
        return arena_.make<Var>(*static_cast<const Var*>(e));
      case ExprKind::kSum: {
        Sum s = *static_cast<const Sum*>(e);
        std::vector<Term> terms;
        for (const Term& t : s.terms) terms.push_back({t.coefficient, expr(t.atom)});
        s.terms = arena_.copy(terms);
        return arena_.make<Sum>(s);
      }
      case ExprKind::kProd: {
        Prod p = *static_cast<const Prod*>(e);
        p.factors = exprs(p.factors);
        return arena_.make<Prod>(p);
      }
      case TCC_BINARY_KINDS: {
        Binary x = *static_cast<const Binary*>(e);
        x.a = expr(x.a);
        x.b = expr(x.b);
        return arena_.make<Binary>(x);
      }
      case ExprKind::kNot:
      case ExprKind::kCast: {
        Unary x = *static_cast<const Unary*>(e);
        x.a = expr(x.a);
        return arena_.make<Unary>(x);
      }
      case ExprKind::kSelect: {
        Select x = *static_cast<const Select*>(e);
        x.condition = expr(x.condition);
        x.a = expr(x.a);
        x.b = expr(x.b);
        return arena_.make<Select>(x);
      }
      case ExprKind::kLoad: {
        Load x = *static_cast<const Load*>(e);
        x.indices = exprs(x.indices);
        x.predicate = expr(x.predicate);
        x.other = expr(x.other);
        return arena_.make<Load>(x);
      }
      case ExprKind::kCall: {
        Call x = *static_cast<const Call*>(e);
        x.args = exprs(x.args);
        return arena_.make<Call>(x);
      }
    }
    return nullptr;
  }

  Arena& arena_;
  Builder b_;
  std::unordered_map<Expr, Expr> exprs_;
};

}  // namespace

uint64_t hash_kernel(const Kernel& kernel) {
  return KernelHasher(kernel).run();
}

Expr copy_expr(Arena& arena, Expr e) {
  return Compactor(arena).expr(e);
}

Kernel compact(const Kernel& kernel) {
  Kernel out = kernel;
  out.arena = std::make_shared<Arena>();
  Compactor copier(*out.arena);
  Builder b(*out.arena);
  out.root = copier.stmt(kernel.root);
  std::vector<const Buffer*> buffers;
  for (const Buffer* buffer : kernel.buffers) {
    Buffer copy = *buffer;
    copy.shape = copier.exprs(copy.shape);
    if (copy.layout != nullptr) copy.layout = copy_layout(*out.arena, *copy.layout);
    buffers.push_back(b.buffer(copy));
  }
  out.buffers = out.arena->copy(buffers);
  out.scalars = out.arena->copy(kernel.scalars);
  std::vector<ProductFact> products;
  for (const ProductFact& p : kernel.products) products.push_back({copier.exprs(p.factors), p.product});
  out.products = out.arena->copy(products);
  std::vector<const NameHint*> hints;
  for (const NameHint* h = kernel.names; h != nullptr; h = h->previous) hints.push_back(h);
  out.names = nullptr;
  for (size_t i = hints.size(); i-- > 0;) {
    NameHint h = *hints[i];
    h.previous = out.names;
    if (h.text != nullptr)
      h.text = out.arena->copy(std::span<const char>(h.text, std::char_traits<char>::length(h.text) + 1)).data();
    out.names = out.arena->make<NameHint>(h);
  }
  return out;
}

std::string name_hint(const Kernel& kernel, Id id) {
  for (const NameHint* h = kernel.names; h != nullptr; h = h->previous) {
    if (h->id != id) continue;
    if (h->from < 0) return h->text;
    return fmt::format("{}_{}", name_hint(kernel, h->from), h->part);
  }
  return fmt::format("v{}", id);
}

}  // namespace tcc::ir
