#include "measure/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"
#include "tcc/measure/task.h"
#include "tcc/schedule/primitives.h"
#include "tcc/support/check.h"

namespace tcc::measure {
namespace {

using namespace tcc::ir;

// Constants this large stand for infinity (identities of min and max, masks): they bound nothing.
constexpr double kInfinite = 1e30;

ArenaPtr younger_arena(const Kernel& kernel) {
  auto arena = std::make_shared<Arena>();
  arena->keep_alive(kernel.arena);
  return arena;
}

Type widened(Type type) {
  return is_float(type) ? Type::kF64 : type;
}

Expr widen(Builder& b, Expr e) {
  auto recurse = [&b](Expr child) { return child ? widen(b, child) : child; };
  if (const auto* c = as<FloatConst>(e)) return b.real(c->value, Type::kF64);
  if (const auto* load = as<Load>(e)) {
    std::vector<Expr> indices;
    for (Expr index : load->indices) indices.push_back(recurse(index));
    return b.load(load->buffer, widened(load->type), indices, recurse(load->predicate), recurse(load->other));
  }
  if (e->kind == ExprKind::kCast) {
    Expr a = recurse(static_cast<const Unary*>(e)->a);
    return a->type == widened(e->type) ? a : b.cast(a, widened(e->type));
  }
  return rewrite_children(b, e, recurse);
}

// Rewrites every value that is stored; indices, extents and bindings too when they load data.
Stmt rewrite_all(Builder& b, Stmt s, FunctionRef<Expr(Expr)> f) {
  return rewrite_children(
      b, s, [&](Stmt child) { return rewrite_all(b, child, f); }, [&](Expr e) { return e ? f(e) : e; });
}

bool mentions_float(Expr e) {
  bool found = is_float(e->type);
  visit(e, [&](Expr x) {
    found = found || is_float(x->type);
    return !found;
  });
  return found;
}

struct Magnitude {
  Builder& b;
  bool plain = true;

  Expr fail(Expr e) {
    plain = false;
    return e;
  }

  Expr operator()(Expr e) {
    TCC_CHECK(is_float(e->type));
    switch (e->kind) {
      case ExprKind::kFloatConst: {
        double value = std::fabs(static_cast<const FloatConst*>(e)->value);
        return b.real(value < kInfinite ? value : 0, Type::kF64);
      }
      case ExprKind::kLoad: {
        const auto* load = static_cast<const Load*>(e);
        if (!load->predicate) return e;
        return b.load(load->buffer, load->type, load->indices, load->predicate, (*this)(load->other));
      }
      case ExprKind::kAdd:
      case ExprKind::kSub:
        return binary(e, ExprKind::kAdd);
      case ExprKind::kMul:
        return binary(e, ExprKind::kMul);
      case ExprKind::kMin:
      case ExprKind::kMax:
        return binary(e, ExprKind::kMax);
      case ExprKind::kDiv: {
        const auto* divisor = as<FloatConst>(static_cast<const Binary*>(e)->b);
        if (!divisor || divisor->value == 0) return fail(e);
        return binary(e, ExprKind::kDiv);
      }
      case ExprKind::kCast: {
        Expr a = static_cast<const Unary*>(e)->a;
        if (is_float(a->type)) return (*this)(a);
        if (a->type == Type::kBool) return b.real(1, Type::kF64);
        if (mentions_float(a)) return fail(e);
        Expr args[] = {e};
        return b.call(Intrinsic::kAbs, args);
      }
      case ExprKind::kSelect: {
        const auto* select = static_cast<const Select*>(e);
        Expr x = (*this)(select->a), y = (*this)(select->b);
        if (mentions_float(select->condition)) return b.max(x, y);
        return b.select(select->condition, x, y);
      }
      case ExprKind::kCall:
        return call(static_cast<const Call*>(e));
      case ExprKind::kIntConst:
      case ExprKind::kVar:
      case ExprKind::kSum:
      case ExprKind::kProd:
      case ExprKind::kFloorDiv:
      case ExprKind::kFloorMod:
      case ExprKind::kLt:
      case ExprKind::kLe:
      case ExprKind::kEq:
      case ExprKind::kNe:
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kNot:
        break;
    }
    return fail(e);
  }

  Expr binary(Expr e, ExprKind kind) {
    const auto* operands = static_cast<const Binary*>(e);
    return b.binary(kind, (*this)(operands->a), (*this)(operands->b));
  }

  Expr call(const Call* e) {
    if (e->fn == Intrinsic::kAbs) return (*this)(e->args[0]);
    if (e->fn == Intrinsic::kFma) return b.add(b.mul((*this)(e->args[0]), (*this)(e->args[1])), (*this)(e->args[2]));
    return fail(e);
  }

  Stmt rewrite(Stmt s) {
    if (const auto* store = as<Store>(s)) {
      if (!is_float(store->value->type)) {
        if (mentions_float(store->value)) plain = false;
        return s;
      }
      return b.store(store->buffer, store->indices, (*this)(store->value), store->predicate);
    }
    if (s->kind == StmtKind::kInstrCall || s->kind == StmtKind::kRoles) plain = false;
    return rewrite_children(b, s, [&](Stmt child) { return rewrite(child); });
  }
};

bool runs_spatially(Stmt body, Id loop) {
  bool spatial = true;
  visit(body, [&](Stmt s) {
    const auto* block = as<Block>(s);
    if (!block) return true;
    bool binds = false;
    for (const Iter& iter : block->iters) {
      const bool bound = mentions(iter.binding, loop);
      if (bound && iter.kind != IterKind::kSpatial) spatial = false;
      binds = binds || bound;
    }
    spatial = spatial && binds;
    return false;
  });
  return spatial;
}

// A loop of one iteration with nothing but a loop inside, as of a batch of one image.
bool is_shell(const Loop& loop) {
  return is_int(loop.extent) && int_value(loop.extent) == 1 && loop.body->kind == StmtKind::kLoop;
}

// The loop of a chain that is shared out to `parts`: the outermost with at least that many iterations, else the
// longest. nullptr: the outermost loop of several iterations does not run spatially.
const Loop* shared_loop(Stmt nest, int64_t parts) {
  const Loop* found = nullptr;
  for (const auto* loop = as<Loop>(nest); loop != nullptr; loop = as<Loop>(loop->body)) {
    if (is_shell(*loop)) continue;
    if (!is_int(loop->extent) || !runs_spatially(loop->body, loop->id)) break;
    if (found == nullptr || int_value(loop->extent) > int_value(found->extent)) found = loop;
    if (int_value(found->extent) >= parts) break;
  }
  return found;
}

// The nest with one of `parts` equal shares of the loop `shared`, which is one of its chain.
Stmt share_of_nest(Builder& b, Stmt nest, const Loop* shared, int64_t part, int64_t parts) {
  const auto* loop = static_cast<const Loop*>(nest);
  if (loop != shared)
    return b.loop(loop->id, loop->extent, share_of_nest(b, loop->body, shared, part, parts), loop->loop_kind,
                  loop->axis, loop->annotations);
  const int64_t extent = int_value(loop->extent), begin = extent * part / parts, end = extent * (part + 1) / parts;
  Substitution moved;
  moved.set(loop->id, b.offset(b.var(loop->id), begin));
  return b.loop(loop->id, b.integer(end - begin), substitute(b, loop->body, moved), loop->loop_kind, loop->axis,
                loop->annotations);
}

double count_operations(Stmt body) {
  constexpr ExprKind kArithmetic[] = {ExprKind::kAdd, ExprKind::kSub, ExprKind::kMul,
                                      ExprKind::kDiv, ExprKind::kMin, ExprKind::kMax};
  double count = 0;
  visit_roots(body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (e->type == Type::kI64 || e->type == Type::kBool) return true;
      if (const auto* call = as<Call>(e)) count += call->fn == Intrinsic::kFma ? 2 : 1;
      count += static_cast<double>(std::count(std::begin(kArithmetic), std::end(kArithmetic), e->kind));
      return true;
    });
  });
  return count;
}

void note_expression(Expr e, NaiveFacts& facts) {
  if (!is_float(e->type)) return;
  facts.has_float = true;
  if (const auto* c = as<FloatConst>(e))
    if (std::fabs(c->value) < kInfinite && c->value != std::nearbyint(c->value)) facts.integer_constants = false;
  if (e->kind == ExprKind::kDiv) facts.integer_constants = false;
  bool arithmetic = e->kind != ExprKind::kLoad && e->kind != ExprKind::kFloatConst && e->kind != ExprKind::kCast &&
                    e->kind != ExprKind::kSelect;
  if (arithmetic && float_format(e->type).significand < float_format(facts.narrowest).significand)
    facts.narrowest = e->type;
}

// The narrowest type of floats that the expression loads of the kernel's parameters, and whether it loads a wider
// temporary.
struct Operand {
  Type parameter = Type::kF64;
  bool wide_temporary = false;
};
Operand operand_of(const Kernel& kernel, Expr e) {
  Operand operand;
  visit_loads(e, [&](const Load& load) {
    const Buffer& buffer = *kernel.buffer(load.buffer);
    if (!is_float(buffer.type)) return;
    if (buffer.role == BufferRole::kTemp)
      operand.wide_temporary |= buffer.type == Type::kF32;
    else if (float_format(buffer.type).significand < float_format(operand.parameter).significand)
      operand.parameter = buffer.type;
  });
  return operand;
}

// Matrix instructions multiply operands of one type: what is kept in f32 is rounded to that of a short parameter.
void note_product(const Kernel& kernel, Expr e, NaiveFacts& facts) {
  const auto* product = e->kind == ExprKind::kMul ? as<Binary>(e) : nullptr;
  if (product == nullptr) return;
  const Operand sides[] = {operand_of(kernel, product->a), operand_of(kernel, product->b)};
  for (int i : {0, 1}) {
    const Type type = sides[1 - i].parameter;
    if (sides[i].wide_temporary && float_format(type).significand < float_format(Type::kF32).significand &&
        float_format(type).significand < float_format(facts.rounded_operand).significand)
      facts.rounded_operand = type;
  }
}

}  // namespace

FloatFormat float_format(Type type) {
  if (type == Type::kF16) return {11, 0x1p-14};
  if (type == Type::kBF16) return {8, 0x1p-126};
  if (type == Type::kF32) return {24, 0x1p-126};
  if (type == Type::kF64) return {53, 0x1p-1022};
  return {};
}

Kernel to_double(const Kernel& kernel) {
  Kernel result = kernel;
  result.arena = younger_arena(kernel);
  Builder b(*result.arena);
  std::vector<const Buffer*> buffers;
  for (const Buffer* buffer : kernel.buffers) {
    Buffer copy = *buffer;
    copy.type = widened(copy.type);
    buffers.push_back(b.buffer(copy));
  }
  result.buffers = result.arena->copy(buffers);
  result.root = rewrite_all(b, kernel.root, [&b](Expr e) { return widen(b, e); });
  return result;
}

std::optional<Kernel> to_magnitude(const Kernel& f64_kernel) {
  Kernel result = f64_kernel;
  result.arena = younger_arena(f64_kernel);
  Builder b(*result.arena);
  Magnitude magnitude{b};
  result.root = magnitude.rewrite(f64_kernel.root);
  if (!magnitude.plain) return std::nullopt;
  return result;
}

Kernel interchange_reductions(const Kernel& kernel) {
  Kernel result = kernel;
  result.arena = younger_arena(kernel);
  for (const Block* block : collect_blocks(kernel.root)) {
    std::vector<Id> loops = schedule::loops_of(result, block->id), spatial, order;
    if (block->init == nullptr || loops.size() != block->iters.size()) continue;
    for (size_t i = 0; i < loops.size(); ++i)
      (block->iters[i].kind == IterKind::kSpatial ? spatial : order).push_back(loops[i]);
    if (spatial.empty() || order.empty()) continue;
    order.insert(order.begin(), spatial.begin(), spatial.end() - 1);
    order.push_back(spatial.back());
    // Only a plain chain of loops can be reordered.
    if (Legal<Kernel> next = schedule::reorder(result, order)) result = std::move(*next);
  }
  return result;
}

Kernel parallelise_outer(const Kernel& kernel) {
  Kernel result = kernel;
  result.arena = younger_arena(kernel);
  Builder b(*result.arena);
  auto widen_nest = [&](Stmt s) -> Stmt {
    const auto* loop = as<Loop>(s);
    Substitution shells;
    for (; loop && is_shell(*loop); loop = as<Loop>(loop->body)) shells.set(loop->id, b.integer(0));
    if (!loop || loop->loop_kind != LoopKind::kSerial || !runs_spatially(loop->body, loop->id)) return s;
    return b.loop(loop->id, loop->extent, substitute(b, loop->body, shells), LoopKind::kParallel, Axis::kNone,
                  loop->annotations);
  };
  if (const auto* seq = as<Seq>(kernel.root)) {
    std::vector<Stmt> stmts;
    for (Stmt s : seq->stmts) stmts.push_back(widen_nest(s));
    result.root = b.seq(stmts);
  } else {
    result.root = widen_nest(kernel.root);
  }
  return result;
}

std::vector<std::vector<Kernel>> split_nests(const Kernel& kernel, int64_t parts) {
  Kernel open = kernel;
  open.arena = younger_arena(kernel);
  Builder b(*open.arena);
  std::vector<const Buffer*> buffers;
  for (const Buffer* buffer : kernel.buffers) {
    Buffer copy = *buffer;
    if (copy.role == BufferRole::kTemp) {
      copy.role = BufferRole::kOutput;
      copy.scope = Scope::kGlobal;
    }
    buffers.push_back(b.buffer(copy));
  }
  open.buffers = open.arena->copy(buffers);
  auto nest = [&](Stmt s) {
    std::vector<Kernel> shares;
    const Loop* shared = shared_loop(s, parts);
    const int64_t count = shared != nullptr ? std::clamp<int64_t>(int_value(shared->extent), 1, parts) : 1;
    for (int64_t i = 0; i < count; ++i) {
      shares.push_back(open);
      shares.back().root = count == 1 ? s : share_of_nest(b, s, shared, i, count);
    }
    return shares;
  };
  std::vector<std::vector<Kernel>> nests;
  if (const auto* seq = as<Seq>(kernel.root)) {
    for (Stmt s : seq->stmts) nests.push_back(nest(s));
  } else {
    nests.push_back(nest(kernel.root));
  }
  return nests;
}

NaiveFacts analyse_naive(const Kernel& naive) {
  NaiveFacts facts;
  facts.reduce_terms = 0;
  facts.tf32 = naive.tf32;
  std::set<Id> loaded, stored;
  visit(naive.root, [&](Stmt s) {
    if (const auto* store = as<Store>(s)) stored.insert(store->buffer);
    const auto* block = as<Block>(s);
    if (!block) return true;
    double instances = 1;
    int64_t terms = 1;
    for (const Iter& iter : block->iters) {
      TCC_CHECK(is_int(iter.extent), "a naive kernel's extents are constants");
      instances *= static_cast<double>(int_value(iter.extent));
      if (iter.kind != IterKind::kSpatial) terms *= std::max<int64_t>(int_value(iter.extent), 1);
    }
    facts.flops += instances * count_operations(block->body);
    facts.reduce_terms += terms;
    return true;
  });
  visit_roots(naive.root, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const auto* load = as<Load>(e)) loaded.insert(load->buffer);
      note_expression(e, facts);
      note_product(naive, e, facts);
      return true;
    });
  });
  for (const Buffer* buffer : naive.buffers) {
    bool kept = loaded.count(buffer->id) && stored.count(buffer->id);
    if (kept && float_format(buffer->type).significand < float_format(facts.narrowest).significand)
      facts.narrowest = buffer->type;
  }
  facts.reduce_terms = std::max<int64_t>(facts.reduce_terms, 1);
  return facts;
}

}  // namespace tcc::measure
