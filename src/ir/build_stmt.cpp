// Statements and kernels from scratch.
#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"

namespace tcc::ir {
namespace {

struct Mixer {  // gathers the hash and the id mask of a statement
  uint64_t hash;
  uint64_t ids = 0;
  explicit Mixer(StmtKind kind) : hash(mix_hash(0x5354u + static_cast<uint64_t>(kind))) {}
  void add(uint64_t value) { hash = combine_hash(hash, value); }
  void add(Expr e) {
    if (e == nullptr) return add(uint64_t{0x6e756c6c});
    add(e->hash);
    ids |= e->ids;
  }
  void add(Stmt s) {
    if (s == nullptr) return add(uint64_t{0x6e756c6c});
    add(s->hash);
    ids |= s->ids;
  }
  void add_id(Id id) {
    add(static_cast<uint64_t>(id));
    ids |= id_bit(id);
  }
  void add(std::span<const Expr> list) {
    for (Expr e : list) add(e);
  }
  void add(std::span<const Annotation> list) {
    for (const Annotation& a : list) {
      add(static_cast<uint64_t>(a.key));
      add(a.value);
    }
  }
  StmtNode node(StmtKind kind) const { return {kind, hash, ids}; }
};

}  // namespace

Stmt Builder::seq(std::span<const Stmt> stmts) {
  size_t n = 0;
  Stmt only = nullptr;
  for (Stmt s : stmts) {
    if (s == nullptr) continue;
    only = s;
    n += s->kind == StmtKind::kSeq ? static_cast<const Seq*>(s)->stmts.size() : 1;
  }
  if (n == 0) return nullptr;
  if (n == 1) return only;
  auto flat = arena_.make_span<Stmt>(n);
  Mixer m(StmtKind::kSeq);
  size_t k = 0;
  for (Stmt s : stmts) {
    if (s == nullptr) continue;
    if (const Seq* inner = as<Seq>(s)) {
      for (Stmt t : inner->stmts) flat[k++] = t;
    } else {
      flat[k++] = s;
    }
  }
  for (Stmt s : flat) m.add(s);
  return arena_.make<Seq>(m.node(StmtKind::kSeq), std::span<const Stmt>(flat));
}

Stmt Builder::loop(Id id, Expr extent, Stmt body, LoopKind kind, Axis axis, std::span<const Annotation> annotations) {
  TCC_CHECK(id >= 0 && extent->type == Type::kI64 && body != nullptr);
  TCC_CHECK((kind == LoopKind::kBound) == (axis != Axis::kNone));
  Mixer m(StmtKind::kLoop);
  m.add_id(id);
  m.add(static_cast<uint64_t>(kind) * 32 + static_cast<uint64_t>(axis));
  m.add(extent);
  m.add(annotations);
  m.add(body);
  return arena_.make<Loop>(m.node(StmtKind::kLoop), id, kind, axis, extent, arena_.copy(annotations), body);
}

Stmt Builder::with_body(const Loop& l, Stmt body) {
  if (body == l.body) return &l;
  if (body == nullptr) return nullptr;
  return loop(l.id, l.extent, body, l.loop_kind, l.axis, l.annotations);
}

Stmt Builder::block(Id id, std::span<const Iter> iters, Stmt body, Stmt init, Expr predicate, ReducerKind reducer,
                    std::span<const Annotation> annotations) {
  TCC_CHECK(id >= 0 && body != nullptr);
  if (predicate != nullptr && is_int(predicate, 1)) predicate = nullptr;
  Mixer m(StmtKind::kBlock);
  m.add_id(id);
  m.add(static_cast<uint64_t>(reducer));
  for (const Iter& it : iters) {
    m.add_id(it.id);
    m.add(static_cast<uint64_t>(it.kind));
    m.add(it.extent);
    m.add(it.binding);
  }
  m.add(predicate);
  m.add(init);
  m.add(body);
  m.add(annotations);
  return arena_.make<Block>(m.node(StmtKind::kBlock), id, reducer, arena_.copy(iters), predicate, init, body,
                            arena_.copy(annotations));
}

Stmt Builder::with_body(const Block& x, Stmt body, Stmt init) {
  return block(x.id, x.iters, body, init, x.predicate, x.reducer, x.annotations);
}

Stmt Builder::store(Id buffer, std::span<const Expr> indices, Expr value, Expr predicate) {
  if (predicate != nullptr && is_int(predicate)) {
    if (int_value(predicate) == 0) return nullptr;
    predicate = nullptr;
  }
  Mixer m(StmtKind::kStore);
  m.add_id(buffer);
  m.add(indices);
  m.add(value);
  m.add(predicate);
  return arena_.make<Store>(m.node(StmtKind::kStore), buffer, arena_.copy(indices), value, predicate);
}

Stmt Builder::if_then(Expr condition, Stmt then_case, Stmt else_case) {
  TCC_CHECK(condition->type == Type::kBool);
  if (is_int(condition)) return int_value(condition) != 0 ? then_case : else_case;
  if (then_case == nullptr) {
    if (else_case == nullptr) return nullptr;
    return if_then(logical_not(condition), else_case, nullptr);
  }
  Mixer m(StmtKind::kIf);
  m.add(condition);
  m.add(then_case);
  m.add(else_case);
  return arena_.make<If>(m.node(StmtKind::kIf), condition, then_case, else_case);
}

Stmt Builder::alloc(std::span<const Id> buffers, Stmt body) {
  if (buffers.empty() || body == nullptr) return body;
  Mixer m(StmtKind::kAlloc);
  for (Id id : buffers) m.add_id(id);
  m.add(body);
  return arena_.make<Alloc>(m.node(StmtKind::kAlloc), arena_.copy(buffers), body);
}

Stmt Builder::instr(int32_t row, std::span<const Operand> operands, std::span<const Expr> args, Expr predicate) {
  const Instruction& spec = instruction(row);
  TCC_CHECK(operands.size() == spec.operands.size() && static_cast<int32_t>(args.size()) == spec.num_args, "{}",
            spec.name);
  Mixer m(StmtKind::kInstrCall);
  m.add(static_cast<uint64_t>(row));
  auto copy = arena_.make_span<Operand>(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    m.add_id(operands[i].buffer);
    m.add(operands[i].indices);
    copy[i] = {operands[i].buffer, arena_.copy(operands[i].indices)};
  }
  m.add(args);
  m.add(predicate);
  return arena_.make<InstrCall>(m.node(StmtKind::kInstrCall), row, std::span<const Operand>(copy), arena_.copy(args),
                                predicate);
}

Stmt Builder::roles(std::span<const Role> roles) {
  TCC_CHECK(!roles.empty());
  Mixer m(StmtKind::kRoles);
  for (const Role& r : roles) {
    m.add(static_cast<uint64_t>(r.first_warp));
    m.add(static_cast<uint64_t>(r.warps));
    m.add(static_cast<uint64_t>(r.registers));
    m.add(r.body);
  }
  return arena_.make<Roles>(m.node(StmtKind::kRoles), arena_.copy(roles));
}

const Buffer* Builder::buffer(const Buffer& fields) {
  Buffer copy = fields;
  copy.shape = arena_.copy(fields.shape);
  return arena_.make<Buffer>(copy);
}

KernelBuilder::KernelBuilder() : arena_(std::make_shared<Arena>()), builder_(*arena_) {}

Id KernelBuilder::new_id(const char* name) {
  Id id = next_id_++;
  std::span<const char> text = arena_->copy(std::span<const char>(name, std::char_traits<char>::length(name) + 1));
  names_ = arena_->make<NameHint>(names_, id, kNoId, 0, text.data());
  return id;
}

const Buffer* KernelBuilder::add_buffer(const char* name, Type type, std::span<const int64_t> shape, BufferRole role,
                                        Scope scope) {
  std::vector<Expr> extents;
  for (int64_t e : shape) extents.push_back(builder_.integer(e));
  int32_t alignment =
      role == BufferRole::kTemp || role == BufferRole::kWeight ? 64 : static_cast<int32_t>(type_bytes(type));
  const Buffer* b = builder_.buffer({new_id(name), type, scope, role, extents, nullptr, alignment});
  (role == BufferRole::kTemp ? temps_ : params_).push_back(b);
  return b;
}

Kernel KernelBuilder::finish(Stmt root) {
  TCC_CHECK(root != nullptr);
  std::vector<const Buffer*> all = params_;
  all.insert(all.end(), temps_.begin(), temps_.end());
  Kernel k;
  k.arena = arena_;
  k.root = root;
  k.buffers = arena_->copy(all);
  k.names = names_;
  k.next_id = next_id_;
  k.stage = Stage::kBuilt;
  return k;
}

}  // namespace tcc::ir
