// Statements: loops, blocks, stores, threads' axes.
#include <algorithm>

#include "interp/compile.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::interp {
namespace {

bool is_private(ir::Scope scope) {
  return scope == ir::Scope::kLocal || scope == ir::Scope::kAmxTile;
}

}  // namespace

Region compile_region(const KernelInfo& info, ir::Stmt root) {
  const bool simt = info.kernel.stage == ir::Stage::kLowered && is_simt(root);
  return Compiler(info, simt).compile(root);
}

Compiler::Compiler(const KernelInfo& info, bool simt)
    : info_(info), arena_(std::make_shared<Arena>()), builder_(*arena_) {
  region_.simt = simt;
  region_.axis_registers.fill(-1);
  variables_.resize(static_cast<size_t>(info.kernel.next_id));
  scopes_.emplace_back();
}

Region Compiler::compile(ir::Stmt root) {
  Code body;
  code_ = &body;
  if (region_.simt) {
    region_.thread_register = new_reg();
    note_bound_loops(root);
  }
  stmt(root);
  emit(body, {.op = Op::kCount, .b = operations_});
  emit(body, {.op = Op::kHalt});
  region_.code = std::move(scopes_[0].prologue);
  region_.code.append(body);
  return std::move(region_);
}

// Which axes the launch has, and whether its blocks talk to each other.
void Compiler::note_bound_loops(ir::Stmt root) {
  const auto note_blocks_that_talk = [&](ir::Stmt s) {
    const auto* call = ir::as<ir::InstrCall>(s);
    if (call == nullptr) return;
    const ir::Behaviour b = ir::instruction(call->instr).behaviour;
    region_.concurrent_blocks |= b == ir::Behaviour::kAtomicAdd || b == ir::Behaviour::kClusterSync;
  };
  ir::visit(root, [&](ir::Stmt s) {
    if (const auto* roles = ir::as<ir::Roles>(s)) {
      for (const ir::Role& r : roles->roles) region_.role_warps = std::max(region_.role_warps, r.first_warp + r.warps);
      for (const ir::Role& r : roles->roles) {
        ir::visit(r.body, [&](ir::Stmt inner) {
          note_blocks_that_talk(inner);
          if (const auto* l = ir::as<ir::Loop>(inner)) region_.grouped_warps |= l->axis == ir::Axis::kWarpgroup;
          return true;
        });
      }
      return false;
    }
    if (const auto* l = ir::as<ir::Loop>(s)) {
      if (l->loop_kind == ir::LoopKind::kBound && l->axis != ir::Axis::kVthread) {
        region_.bound.push_back({l->axis, l->extent});
        region_.grouped_warps |= l->axis == ir::Axis::kWarpgroup;
        region_.concurrent_blocks |= l->axis == ir::Axis::kClusterX || l->axis == ir::Axis::kClusterY;
      }
    }
    note_blocks_that_talk(s);
    return true;
  });
  for (const ir::Buffer* b : info_.slots) {
    const bool shared_by_blocks = b->scope == ir::Scope::kGlobal || b->scope == ir::Scope::kWorkspace;
    region_.concurrent_blocks |= b->type == ir::Type::kBarrier && shared_by_blocks;
  }
}

void Compiler::stmt(ir::Stmt s) {
  const ir::Stmt outer = current_;
  current_ = s;
  if (reduction_ != nullptr) region_.reductions.emplace(s, reduction_);
  switch (s->kind) {
    case ir::StmtKind::kSeq:
      for (ir::Stmt child : static_cast<const ir::Seq*>(s)->stmts) stmt(child);
      break;
    case ir::StmtKind::kLoop:
      loop(*static_cast<const ir::Loop*>(s));
      break;
    case ir::StmtKind::kBlock:
      block(*static_cast<const ir::Block*>(s));
      break;
    case ir::StmtKind::kStore:
      store(*static_cast<const ir::Store*>(s));
      break;
    case ir::StmtKind::kIf:
      if_then(*static_cast<const ir::If*>(s));
      break;
    case ir::StmtKind::kAlloc:
      alloc(*static_cast<const ir::Alloc*>(s));
      break;
    case ir::StmtKind::kInstrCall:
      instr(*static_cast<const ir::InstrCall*>(s));
      break;
    case ir::StmtKind::kRoles:
      roles(*static_cast<const ir::Roles*>(s));
      break;
  }
  current_ = outer;
}

// An id may be bound again in a copy of its loop: what was computed from the former register is then forgotten.
void Compiler::bind(ir::Id id, const Variable& variable) {
  Variable& v = variables_[static_cast<size_t>(id)];
  if (v.reg >= 0) {
    for (Scope& scope : scopes_) scope.values.clear();
  }
  v = variable;
}

void Compiler::loop_body(const ir::Loop& l, Code& body) {
  Code* outer = code_;
  code_ = &body;
  if (const auto resets = info_.loop_resets.find(l.id); resets != info_.loop_resets.end() && !region_.simt) {
    for (int32_t slot : resets->second) emit(body, {.op = Op::kReset, .e = slot});
  }
  stmt(l.body);
  code_ = outer;
}

void Compiler::loop(const ir::Loop& l) {
  const bool bound = l.loop_kind == ir::LoopKind::kBound && l.axis != ir::Axis::kVthread;
  if (region_.simt && bound) return bound_loop(l);
  const bool vector = region_.simt && l.loop_kind == ir::LoopKind::kVectorized && ir::is_int(l.extent);
  if (ir::is_int(l.extent, 1)) {
    bind(l.id, {constant(0), 0, true, {0, 0}});
    return loop_body(l, *code_);
  }
  const ir::Interval extents = interval(l.extent);
  const int32_t extent = expr(l.extent);
  const int32_t reg = new_reg();
  bind(l.id, {reg, static_cast<int32_t>(scopes_.size()), true,
              extents.known() ? ir::Interval{0, extents.high - 1} : ir::Interval{}});
  scopes_.emplace_back();
  if (vector) vectors_.push_back({l.id, ir::int_value(l.extent)});
  const int32_t outer_operations = operations_;
  operations_ = 0;
  Code body;
  loop_body(l, body);
  const int32_t operations = operations_;
  operations_ = outer_operations;
  if (vector) vectors_.pop_back();
  const Code prologue = std::move(scopes_.back().prologue);
  scopes_.pop_back();

  const bool parallel =
      !region_.simt && (l.loop_kind == ir::LoopKind::kParallel || l.loop_kind == ir::LoopKind::kVectorized ||
                        l.loop_kind == ir::LoopKind::kBound);
  const int32_t begin = emit(*code_, {.op = Op::kLoopBegin, .d = reg, .a = extent});
  const int32_t head = code_->size();
  if (parallel) emit(*code_, {.op = Op::kParallelEnter});
  code_->append(prologue);
  code_->append(body);
  if (parallel) emit(*code_, {.op = Op::kParallelLeave});
  emit(*code_, {.op = Op::kLoopNext, .d = reg, .a = extent, .b = operations, .c = head - code_->size()});
  if (parallel) emit(*code_, {.op = Op::kParallelExit});
  patch(std::span(&begin, 1));
}

int32_t Compiler::axis_register(ir::Axis axis) {
  if (role_ != nullptr && ir::is_thread(axis)) return role_axis(axis);
  int32_t& reg = region_.axis_registers[static_cast<size_t>(axis)];
  if (reg < 0) reg = new_reg();
  return reg;
}

// Coordinates inside a Role count from its first warp.
int32_t Compiler::role_axis(ir::Axis axis) {
  const auto key = std::pair(role_->first_warp, static_cast<int32_t>(axis));
  if (const auto known = role_axes_.find(key); known != role_axes_.end()) return known->second;
  Code& code = scopes_[0].prologue;
  const int32_t relative = emit_value(
      code, {.op = Op::kAddI, .a = region_.thread_register, .b = constant(-32 * int64_t{role_->first_warp})});
  int32_t reg = relative;
  if (axis == ir::Axis::kLane) reg = emit_value(code, {.op = Op::kAndI, .a = relative, .b = constant(31)});
  if (axis == ir::Axis::kWarpgroup) reg = emit_value(code, {.op = Op::kShrI, .a = relative, .b = constant(7)});
  if (axis == ir::Axis::kWarp) {
    reg = emit_value(code, {.op = Op::kShrI, .a = relative, .b = constant(5)});
    if (region_.grouped_warps) reg = emit_value(code, {.op = Op::kAndI, .a = reg, .b = constant(3)});
  }
  if (axis == ir::Axis::kThreadY || axis == ir::Axis::kThreadZ) reg = constant(0);
  role_axes_.emplace(key, reg);
  return reg;
}

void Compiler::bound_loop(const ir::Loop& l) {
  const int32_t reg = axis_register(l.axis);
  const ir::Interval extents = interval(l.extent);
  const int32_t extent = expr(l.extent);
  bind(l.id, {reg, 0, true, extents.known() ? ir::Interval{0, extents.high - 1} : ir::Interval{}});
  const int32_t inside = emit_value(*code_, {.op = Op::kLtI, .a = reg, .b = extent});
  const int32_t skip = emit(*code_, {.op = Op::kJumpIfFalse, .a = inside});
  stmt(l.body);
  patch(std::span(&skip, 1));
}

void Compiler::block(const ir::Block& b) {
  std::vector<int32_t> leave;
  for (const ir::Iter& it : b.iters) {
    const Place where = place(it.binding);
    const ir::Interval range = interval(it.binding);
    const int32_t reg = expr(it.binding);
    bind(it.id, {reg, where.depth, where.hoistable, range});
  }
  if (b.predicate != nullptr) {
    const int32_t p = expr(b.predicate);
    leave.push_back(emit(*code_, {.op = Op::kJumpIfFalse, .a = p}));
  }
  ir::Expr first = nullptr;
  for (const ir::Iter& it : b.iters) {
    const ir::Interval extents = interval(it.extent);
    const int32_t extent = expr(it.extent);
    Variable& v = variables_[static_cast<size_t>(it.id)];
    if (!ir::is_int(it.extent) || v.range.low < 0 || v.range.high >= extents.low) {
      leave.push_back(emit(*code_, {.op = Op::kIterBounds, .a = v.reg, .b = extent, .e = it.id}));
      if (extents.known()) v.range = {std::max<int64_t>(0, v.range.low), std::min(v.range.high, extents.high - 1)};
    }
    if (it.kind == ir::IterKind::kReduce || it.kind == ir::IterKind::kCarried) {
      first = builder_.logical_and(first, builder_.eq(builder_.var(it.id), builder_.integer(0)));
    }
  }
  const ir::Block* outer = reduction_;
  if (b.reducer != ir::ReducerKind::kNone || b.init != nullptr) reduction_ = &b;
  if (first != nullptr && ir::is_int(first)) first = nullptr;
  if (b.init != nullptr) when(first, [&] { counted([&] { stmt(b.init); }); });
  // After a predicate the operations of the body count only where it holds.
  leave.empty() ? stmt(b.body) : counted([&] { stmt(b.body); });
  patch(leave);
  reduction_ = outer;
}

void Compiler::store(const ir::Store& s) {
  ++operations_;
  const int32_t slot = info_.slot_of[static_cast<size_t>(s.buffer)];
  std::vector<int32_t> leave;
  if (s.predicate != nullptr) {
    const int32_t p = expr(s.predicate);
    leave.push_back(emit(*code_, {.op = Op::kJumpIfFalse, .a = p}));
  }
  std::vector<ir::Expr> indices;
  for (ir::Expr index : s.indices) indices.push_back(settle(index));
  const int32_t value = expr(s.value);
  const std::vector<int32_t> outside = bounds(slot, indices, -1);
  leave.insert(leave.end(), outside.begin(), outside.end());
  const int32_t at = address(slot, indices);
  alignment(slot, indices, at);
  emit(*code_, {.op = access_ops(info_.slots[static_cast<size_t>(slot)]->type).store, .a = at, .b = value, .e = slot});
  patch(leave);
}

void Compiler::if_then(const ir::If& s) {
  if (s.else_case == nullptr) return when(s.condition, [&] { counted([&] { stmt(s.then_case); }); });
  const int32_t to_else = emit(*code_, {.op = Op::kJumpIfFalse, .a = expr(s.condition)});
  counted([&] { stmt(s.then_case); });
  const int32_t to_end = emit(*code_, {.op = Op::kJump});
  patch(std::span(&to_else, 1));
  counted([&] { stmt(s.else_case); });
  patch(std::span(&to_end, 1));
}

void Compiler::alloc(const ir::Alloc& s) {
  for (ir::Id id : s.buffers) {
    const int32_t slot = info_.slot_of[static_cast<size_t>(id)];
    // Shared storage of a thread block is made with the block, by no thread in particular.
    if (region_.simt && !is_private(info_.slots[static_cast<size_t>(slot)]->scope)) continue;
    emit(*code_, {.op = Op::kReset, .e = slot});
  }
  stmt(s.body);
}

void Compiler::instr(const ir::InstrCall& s) {
  when(s.predicate, [&] {
    CallSite site{&s, {}, {}};
    for (const ir::Operand& o : s.operands) {
      CallOperand operand{info_.slot_of[static_cast<size_t>(o.buffer)], {}};
      for (ir::Expr index : o.indices) operand.indices.push_back(expr(index));
      site.operands.push_back(std::move(operand));
    }
    for (ir::Expr arg : s.args) site.args.push_back(expr(arg));
    region_.calls.push_back(std::move(site));
    emit(*code_, {.op = Op::kInstr, .e = static_cast<int32_t>(region_.calls.size()) - 1});
  });
}

void Compiler::roles(const ir::Roles& s) {
  for (const ir::Role& r : s.roles) {
    const int32_t low = constant(32 * int64_t{r.first_warp});
    const int32_t high = constant(32 * int64_t{r.first_warp + r.warps});
    const int32_t above = emit_value(*code_, {.op = Op::kLeI, .a = low, .b = region_.thread_register});
    const int32_t below = emit_value(*code_, {.op = Op::kLtI, .a = region_.thread_register, .b = high});
    const int32_t member = emit_value(*code_, {.op = Op::kAndB, .a = above, .b = below});
    const int32_t skip = emit(*code_, {.op = Op::kJumpIfFalse, .a = member});
    const ir::Role* outer = role_;
    role_ = &r;
    counted([&] { stmt(r.body); });
    role_ = outer;
    patch(std::span(&skip, 1));
  }
}

}  // namespace tcc::interp
