// The verifier. One pass over the tree with the set of visible ids; findings name the node by its first line of text.
#include "tcc/ir/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/text_words.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/kinds.h"
#include "tcc/ir/text.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::ir {
namespace {

// Index arithmetic is exact as long as extents stay far below 2^63; the parser has the same limit for buffers.
constexpr int64_t kMaxExtent = int64_t{1} << 48;
bool too_large(Expr extent) {
  return is_int(extent) && (int_value(extent) > kMaxExtent || int_value(extent) < -kMaxExtent);
}

enum class Seen : uint8_t { kNothing, kBuffer, kScalar, kVisible, kHidden, kOver };

bool needs_alloc(const Buffer& b) {
  return b.role == BufferRole::kTemp && b.scope != Scope::kGlobal && b.scope != Scope::kWorkspace &&
         b.scope != Scope::kConst;
}
bool scope_fits(Scope have, Scope want) {
  if (have == want) return true;
  if (want == Scope::kGlobal) return have == Scope::kWorkspace || have == Scope::kConst;
  return want == Scope::kShared && have == Scope::kClusterShared;
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), seen_(static_cast<size_t>(std::max(kernel.next_id, 0))) {}

  std::vector<std::string> run() {
    declarations();
    if (kernel_.root == nullptr) {
      findings_.push_back("the kernel has no statement");
      return findings_;
    }
    launch_roots(kernel_.root);
    return findings_;
  }

 private:
  bool early() const { return kernel_.stage == Stage::kBuilt || kernel_.stage == Stage::kScheduled; }
  static std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }
  void add(std::string what) { findings_.push_back(std::move(what)); }
  void add(std::string what, Stmt at) { add(fmt::format("{}: {}", what, first_line(print(kernel_, at)))); }
  void add(std::string what, Expr at) { add(fmt::format("{}: {}", what, print(kernel_, at))); }
  std::string name(Id id) const { return name_hint(kernel_, id); }

  bool claim(Id id, Seen as, const char* what) {
    if (id < 0 || id >= kernel_.next_id)
      return add(fmt::format("{} has the id {} outside 0..{}", what, id, kernel_.next_id)), false;
    Seen& slot = seen_[static_cast<size_t>(id)];
    if (slot != Seen::kNothing) return add(fmt::format("{} '{}' is bound a second time", what, name(id))), false;
    slot = as;
    return true;
  }
  void release(Id id) {
    if (id >= 0 && id < kernel_.next_id) seen_[static_cast<size_t>(id)] = Seen::kOver;
  }
  Seen state(Id id) const { return id < 0 || id >= kernel_.next_id ? Seen::kNothing : seen_[static_cast<size_t>(id)]; }

  void declarations();
  void declaration(const Buffer& b);
  void launch_roots(Stmt s);
  void stmt(Stmt s);
  void loop(const Loop* l);
  void axis(const Loop* l);
  void block(const Block* b);
  void iterator(const Block* b, const Iter& it);
  void store(const Store* s);
  void alloc(const Alloc* a, bool around_launches = false);
  void instruction_call(const InstrCall* c);
  void roles(const Roles* r);
  void expr(Expr e);
  void node(Expr e);
  void typed(Expr e, Type type, const char* what) {
    if (e == nullptr) return add(fmt::format("{} is missing", what));
    if (e->type != type) add(fmt::format("{} has type {} instead of {}", what, type_name(e->type), type_name(type)), e);
    expr(e);
  }
  const Buffer* access(Id id, std::span<const Expr> indices, bool write, const char* what);

  const Kernel& kernel_;
  std::vector<Seen> seen_;
  std::vector<const Loop*> loops_;  // enclosing
  std::set<Id> allocated_;
  std::map<Axis, const Loop*> axes_;  // of the launch under way
  std::vector<std::string> findings_;
};

void Verifier::declaration(const Buffer& b) {
  bool constant = true;
  for (Expr e : b.shape) {
    typed(e, Type::kI64, "an extent");
    constant = constant && e != nullptr && is_int(e);
    if (e != nullptr && is_int(e) && int_value(e) < 0)
      add(fmt::format("buffer '{}' has a negative extent", name(b.id)));
  }
  if (b.alignment <= 0 || (b.alignment & (b.alignment - 1)) != 0)
    add(fmt::format("buffer '{}' has alignment {}, which is not a power of two", name(b.id), b.alignment));
  if (b.padding.dim >= 0 &&
      (b.role != BufferRole::kTemp || b.layout != nullptr || static_cast<size_t>(b.padding.dim) >= b.shape.size() ||
       b.padding.factor < 1 || b.padding.offset < 0))
    add(fmt::format("buffer '{}': storage_align is only allowed on temporaries, with 0 <= dim < rank", name(b.id)));
  if (b.layout == nullptr) return;
  if (!constant) return add(fmt::format("buffer '{}' has a layout but no constant shape", name(b.id)));
  // The data of a constant may be smaller than the buffer; the layout is of the data's shape then.
  bool fits = b.layout->shape.size() == b.shape.size();
  std::vector<int64_t> shape;
  for (size_t d = 0; fits && d < b.shape.size(); ++d) {
    shape.push_back(int_value(b.shape[d]));
    fits = b.role == BufferRole::kWeight ? b.layout->shape[d] <= shape[d] : b.layout->shape[d] == shape[d];
  }
  if (!fits)
    add(fmt::format("buffer '{}' has a layout of another shape: {}", name(b.id), print_layout(*b.layout)));
  else if (Layout whole = *b.layout; whole.shape = shape, !is_injective(whole))
    add(fmt::format("buffer '{}' has a layout that puts two elements in one place", name(b.id)));
}

void Verifier::declarations() {
  for (const Scalar& s : kernel_.scalars) {
    claim(s.id, Seen::kScalar, "scalar");
    if (s.low > s.high || s.divisor < 1) add(fmt::format("scalar '{}' has an empty range", name(s.id)));
  }
  for (const ProductFact& p : kernel_.products)
    for (Expr e : p.factors) typed(e, Type::kI64, "a factor");
  bool temporaries = false;
  for (const Buffer* b : kernel_.buffers) {
    if (!claim(b->id, Seen::kBuffer, "buffer")) continue;
    if (b->role == BufferRole::kTemp)
      temporaries = true;
    else if (temporaries)
      add(fmt::format("parameter '{}' comes after temporaries", name(b->id)));
    declaration(*b);
  }
}

// Root-level nests are launches: each has its own axes. Memory that lives between them may be allocated around them.
void Verifier::launch_roots(Stmt s) {
  const Alloc* a = as<Alloc>(s);
  const bool between = a != nullptr && std::all_of(a->buffers.begin(), a->buffers.end(), [&](Id id) {
                         const Buffer* b = kernel_.buffer(id);
                         return b != nullptr && (b->scope == Scope::kGlobal || b->scope == Scope::kWorkspace);
                       });
  if (const Seq* q = as<Seq>(s)) {
    for (Stmt c : q->stmts) launch_roots(c);
  } else if (between) {
    alloc(a, true);
  } else {
    axes_.clear();
    stmt(s);
  }
}

const Buffer* Verifier::access(Id id, std::span<const Expr> indices, bool write, const char* what) {
  const Buffer* b = state(id) == Seen::kBuffer ? kernel_.buffer(id) : nullptr;
  if (b == nullptr) return add(fmt::format("{} uses the unknown buffer {}", what, id)), nullptr;
  if (indices.size() != b->shape.size())
    add(fmt::format("{} of '{}' has {} indices for rank {}", what, name(id), indices.size(), b->shape.size()));
  for (Expr i : indices) typed(i, Type::kI64, "an index");
  if (write && (b->role == BufferRole::kInput || b->role == BufferRole::kWeight || b->scope == Scope::kConst))
    add(fmt::format("{} writes the {} '{}'", what, buffer_role_name(b->role), name(id)));
  if (!early() && needs_alloc(*b) && !allocated_.count(id))
    add(fmt::format("{} uses '{}' outside of its alloc", what, name(id)));
  return b;
}

void Verifier::expr(Expr e) {
  visit(e, [&](Expr x) {
    node(x);
    return x->kind != ExprKind::kLoad;  // a load checks its own children
  });
}

void Verifier::node(Expr e) {
  switch (e->kind) {
    case ExprKind::kVar: {
      Seen s = state(as<Var>(e)->id);
      if (s == Seen::kHidden)
        add(fmt::format("the loop variable '{}' is used inside a block instead of an iterator", name(as<Var>(e)->id)));
      else if (s != Seen::kVisible && s != Seen::kScalar)
        add(fmt::format("variable '{}' is not bound here", name(as<Var>(e)->id)));
      return;
    }
    case ExprKind::kLoad: {
      const Load* l = as<Load>(e);
      const Buffer* b = access(l->buffer, l->indices, false, "a load");
      if (b != nullptr && (b->type != l->type || !is_data(b->type)))
        add(fmt::format("a load of {} from a buffer of {}", type_name(l->type), type_name(b->type)), e);
      if (l->predicate == nullptr) return;
      typed(l->predicate, Type::kBool, "a predicate");
      typed(l->other, l->type, "the other value of a load");
      return;
    }
    case TCC_BINARY_KINDS:
      if (as<Binary>(e)->a->type != as<Binary>(e)->b->type) add("operands differ in type", e);
      return;
    case ExprKind::kSelect:
      if (as<Select>(e)->condition->type != Type::kBool || as<Select>(e)->a->type != as<Select>(e)->b->type)
        add("select has operands of wrong types", e);
      return;
    case ExprKind::kCall:
      if (static_cast<int>(as<Call>(e)->args.size()) != intrinsic_arity(as<Call>(e)->fn))
        add("wrong number of arguments", e);
      else if (takes_bits(as<Call>(e)->fn) && (is_float(e->type) || e->type == Type::kBool))
        add("bits of integers only", e);
      return;
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kSum:
    case ExprKind::kProd:
    case ExprKind::kNot:
    case ExprKind::kCast:
      return;
  }
}

void Verifier::stmt(Stmt s) {
  switch (s->kind) {
    case StmtKind::kSeq:
      for (Stmt c : as<Seq>(s)->stmts) stmt(c);
      return;
    case StmtKind::kLoop:
      return loop(as<Loop>(s));
    case StmtKind::kBlock:
      return block(as<Block>(s));
    case StmtKind::kStore:
      return store(as<Store>(s));
    case StmtKind::kIf:
      typed(as<If>(s)->condition, Type::kBool, "a condition");
      stmt(as<If>(s)->then_case);
      if (as<If>(s)->else_case != nullptr) stmt(as<If>(s)->else_case);
      return;
    case StmtKind::kAlloc:
      return alloc(as<Alloc>(s));
    case StmtKind::kInstrCall:
      return instruction_call(as<InstrCall>(s));
    case StmtKind::kRoles:
      return roles(as<Roles>(s));
  }
}

void Verifier::axis(const Loop* l) {
  if (is_grid(l->axis)) {
    for (const Loop* outer : loops_)
      if (!is_grid(outer->axis)) return add(fmt::format("a {} loop must be outermost", axis_name(l->axis)), l);
  }
  for (const Loop* outer : loops_)
    if (outer->axis == l->axis && l->axis != Axis::kVthread)
      return add(fmt::format("{} is bound twice", axis_name(l->axis)), l);
  bool groups = l->axis == Axis::kWarpgroup || l->axis == Axis::kWarp || l->axis == Axis::kLane;
  for (const auto& [other, first] : axes_) {
    bool other_groups = other == Axis::kWarpgroup || other == Axis::kWarp || other == Axis::kLane;
    if (is_thread(l->axis) && is_thread(other) && groups != other_groups)
      return add(fmt::format("{} and {} are two spellings of one thread id", axis_name(l->axis), axis_name(other)), l);
  }
  if (l->axis == Axis::kVthread) return;
  const Loop*& first = axes_[l->axis];
  if (first == nullptr)
    first = l;
  else if (!equal(first->extent, l->extent))
    add(fmt::format("{} has the extent {} elsewhere in this launch", axis_name(l->axis), print(kernel_, first->extent)),
        l);
}

void Verifier::loop(const Loop* l) {
  typed(l->extent, Type::kI64, "a loop's extent");
  if (too_large(l->extent)) add("an extent beyond 2^48", l);
  for (const Annotation& a : l->annotations) {
    typed(a.value, Type::kI64, "an annotation");
    if (annotation_name(a.key).empty()) add("an unknown annotation", l);
  }
  if ((l->loop_kind == LoopKind::kBound) != (l->axis != Axis::kNone))
    add("only bound loops have an axis, and all of them", l);
  else if (l->loop_kind == LoopKind::kBound)
    axis(l);
  bool bound = claim(l->id, Seen::kVisible, "loop");
  loops_.push_back(l);
  stmt(l->body);
  loops_.pop_back();
  if (bound) release(l->id);
}

void Verifier::iterator(const Block* b, const Iter& it) {
  typed(it.extent, Type::kI64, "an iterator's extent");
  if (too_large(it.extent)) add(fmt::format("iterator '{}' has an extent beyond 2^48", name(it.id)), b);
  typed(it.binding, Type::kI64, "an iterator's binding");
  if (it.kind != IterKind::kReduce && it.kind != IterKind::kCarried) return;
  for (const Loop* l : loops_) {
    bool order_lost = l->loop_kind == LoopKind::kParallel || l->loop_kind == LoopKind::kVectorized ||
                      (l->loop_kind == LoopKind::kBound && (it.kind == IterKind::kCarried || is_grid(l->axis)));
    bool uses = false;
    visit(it.binding, [&](Expr e) {
      uses = uses || (as<Var>(e) != nullptr && as<Var>(e)->id == l->id);
      return !uses;
    });
    if (order_lost && uses)
      add(fmt::format("the {} loop '{}' feeds the {} iterator '{}'",
                      l->axis == Axis::kNone ? loop_kind_name(l->loop_kind) : axis_name(l->axis), name(l->id),
                      iter_kind_name(it.kind), name(it.id)),
          b);
  }
}

void Verifier::block(const Block* b) {
  if (!early()) add(fmt::format("a block at stage {}", stage_name(kernel_.stage)), b);
  bool reduces = false;
  for (const Iter& it : b->iters) {
    iterator(b, it);
    reduces = reduces || it.kind == IterKind::kReduce;
  }
  if (b->init != nullptr && !reduces) add("an init without reduce iterators", b);
  if (b->reducer != ReducerKind::kNone && !reduces) add("a reducer without reduce iterators", b);
  if (b->predicate != nullptr) typed(b->predicate, Type::kBool, "a block's predicate");
  for (const Annotation& a : b->annotations) typed(a.value, Type::kI64, "an annotation");
  claim(b->id, Seen::kOver, "block");
  std::vector<Id> bound, hidden;
  for (const Iter& it : b->iters)
    if (claim(it.id, Seen::kVisible, "iterator")) bound.push_back(it.id);
  for (const Loop* l : loops_)
    if (state(l->id) == Seen::kVisible) seen_[static_cast<size_t>(l->id)] = Seen::kHidden, hidden.push_back(l->id);
  if (b->init != nullptr) {
    for (const Iter& it : b->iters)
      if (it.kind == IterKind::kReduce && state(it.id) == Seen::kVisible)
        seen_[static_cast<size_t>(it.id)] = Seen::kNothing;
    stmt(b->init);
    for (Id id : bound) seen_[static_cast<size_t>(id)] = Seen::kVisible;
  }
  stmt(b->body);
  for (Id id : hidden) seen_[static_cast<size_t>(id)] = Seen::kVisible;
  for (Id id : bound) release(id);
}

void Verifier::store(const Store* s) {
  const Buffer* b = access(s->buffer, s->indices, true, "a store");
  if (b != nullptr) typed(s->value, b->type, "the stored value");
  if (b != nullptr && !is_data(b->type)) add(fmt::format("a store into a buffer of {}", type_name(b->type)), s);
  if (s->predicate != nullptr) typed(s->predicate, Type::kBool, "a store's predicate");
}

void Verifier::alloc(const Alloc* a, bool around_launches) {
  if (early()) add("an alloc before stage nest", a);
  std::vector<Id> fresh;
  for (Id id : a->buffers) {
    const Buffer* b = state(id) == Seen::kBuffer ? kernel_.buffer(id) : nullptr;
    if (b == nullptr || b->role != BufferRole::kTemp)
      add("only temporaries can be allocated", a);
    else if (!allocated_.insert(id).second)
      add(fmt::format("'{}' is allocated inside of its alloc", name(id)), a);
    else
      fresh.push_back(id);
  }
  around_launches ? launch_roots(a->body) : stmt(a->body);
  for (Id id : fresh) allocated_.erase(id);
}

void Verifier::instruction_call(const InstrCall* c) {
  if (c->instr < 0 || static_cast<size_t>(c->instr) >= instruction_table().size())
    return add(fmt::format("the instruction {} is not in the table", c->instr));
  const Instruction& spec = instruction(c->instr);
  if (c->operands.size() != spec.operands.size() || static_cast<int32_t>(c->args.size()) != spec.num_args)
    return add("wrong number of operands or arguments", c);
  for (size_t i = 0; i < c->operands.size(); ++i) {
    const OperandSpec& want = spec.operands[i];
    const Operand& o = c->operands[i];
    const Buffer* b = access(o.buffer, o.indices, want.access != Access::kRead, "an instruction");
    if (b == nullptr) continue;
    if (b->type != want.type)
      add(fmt::format("operand {} is {} instead of {}", want.name, type_name(b->type), type_name(want.type)), c);
    // To a CPU's instruction, what a launch keeps on its stack is memory like any other.
    const bool on_stack = !spec.llvm.empty() && want.scope == Scope::kGlobal && b->scope == Scope::kLocal;
    if (!scope_fits(b->scope, want.scope) && !on_stack)
      add(fmt::format("operand {} is in {} instead of {}", want.name, scope_name(b->scope), scope_name(want.scope)), c);
  }
  for (Expr a : c->args) typed(a, Type::kI64, "an argument");
  if (c->predicate == nullptr) return;
  typed(c->predicate, Type::kBool, "an instruction's predicate");
  if (spec.participants != Participants::kThread) add("only instructions of one thread can have a predicate", c);
}

void Verifier::roles(const Roles* r) {
  if (early()) add("roles before stage nest", r);
  for (size_t i = 0; i < r->roles.size(); ++i) {
    const Role& a = r->roles[i];
    if (a.first_warp < 0 || a.warps < 1 || a.body == nullptr) {
      add("a role without warps or body", r);
      continue;
    }
    if (a.registers != 0 && (a.registers < 24 || a.registers > 256 || a.registers % 8 != 0))
      add(fmt::format("{} registers are not a multiple of 8 in 24..256", a.registers), r);
    for (size_t j = 0; j < i; ++j) {
      const Role& b = r->roles[j];
      if (a.first_warp < b.first_warp + b.warps && b.first_warp < a.first_warp + a.warps)
        add("two roles share a warp", r);
    }
    // Coordinates of threads count from the role's first warp: a role has axes of its own.
    std::map<Axis, const Loop*> outer = std::exchange(axes_, {});
    stmt(a.body);
    axes_ = std::move(outer);
  }
}

}  // namespace

std::vector<std::string> verify(const Kernel& kernel) {
  return Verifier(kernel).run();
}

void check_verified(const Kernel& kernel, const char* after) {
  std::vector<std::string> findings = verify(kernel);
  if (findings.empty()) return;
  CheckContext context([&] { return print(kernel); });
  std::string text;
  for (const std::string& f : findings) text += "\n  " + f;
  TCC_CHECK(findings.empty(), "after {}:{}", after, text);
}

}  // namespace tcc::ir
