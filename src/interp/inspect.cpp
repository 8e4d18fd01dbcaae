// What is known of a kernel before its code is made: slots, who is written, where temporaries live, launches.
#include <algorithm>

#include "interp/compile.h"
#include "tcc/ir/walk.h"

namespace tcc::interp {
namespace {

// Walks statements with the stack of enclosing loops and reports each buffer access.
class AccessWalk {
 public:
  AccessWalk(const ir::Kernel& kernel, KernelInfo& info) : info_(info), lives_(kernel.buffers.size()) {}

  void run(ir::Stmt root) {
    walk(root);
    for (size_t slot = 0; slot < lives_.size(); ++slot) {
      const Life& life = lives_[slot];
      if (info_.slots[slot]->role != ir::BufferRole::kTemp || life.allocated || !life.seen || life.loops.empty()) {
        continue;
      }
      info_.loop_resets[life.loops.back()].push_back(static_cast<int32_t>(slot));
    }
  }

 private:
  struct Life {
    bool seen = false, allocated = false;
    std::vector<ir::Id> loops;  // common to all accesses, outermost first
  };

  void access(ir::Id buffer, bool write) {
    const int32_t slot = info_.slot_of[static_cast<size_t>(buffer)];
    if (write) info_.written[static_cast<size_t>(slot)] = true;
    Life& life = lives_[static_cast<size_t>(slot)];
    if (!life.seen) {
      life.seen = true;
      life.loops = loops_;
      return;
    }
    size_t common = 0;
    while (common < life.loops.size() && common < loops_.size() && life.loops[common] == loops_[common]) ++common;
    life.loops.resize(common);
  }
  void read(ir::Expr e) {
    if (e == nullptr) return;
    ir::visit(e, [&](ir::Expr x) {
      if (const auto* load = ir::as<ir::Load>(x)) access(load->buffer, false);
      return true;
    });
  }
  void read(std::span<const ir::Expr> all) {
    for (ir::Expr e : all) read(e);
  }
  void walk(ir::Stmt s) {
    if (s == nullptr) return;
    switch (s->kind) {
      case ir::StmtKind::kSeq:
        for (ir::Stmt child : static_cast<const ir::Seq*>(s)->stmts) walk(child);
        return;
      case ir::StmtKind::kLoop: {
        const auto* l = static_cast<const ir::Loop*>(s);
        read(l->extent);
        loops_.push_back(l->id);
        walk(l->body);
        loops_.pop_back();
        return;
      }
      case ir::StmtKind::kBlock: {
        const auto* b = static_cast<const ir::Block*>(s);
        for (const ir::Iter& it : b->iters) read(it.binding);
        read(b->predicate);
        walk(b->init);
        walk(b->body);
        return;
      }
      case ir::StmtKind::kStore: {
        const auto* st = static_cast<const ir::Store*>(s);
        access(st->buffer, true);
        read(st->indices);
        read(st->value);
        read(st->predicate);
        return;
      }
      case ir::StmtKind::kIf: {
        const auto* i = static_cast<const ir::If*>(s);
        read(i->condition);
        walk(i->then_case);
        walk(i->else_case);
        return;
      }
      case ir::StmtKind::kAlloc: {
        const auto* a = static_cast<const ir::Alloc*>(s);
        for (ir::Id id : a->buffers)
          lives_[static_cast<size_t>(info_.slot_of[static_cast<size_t>(id)])].allocated = true;
        walk(a->body);
        return;
      }
      case ir::StmtKind::kInstrCall: {
        const auto* c = static_cast<const ir::InstrCall*>(s);
        const ir::Instruction& row = ir::instruction(c->instr);
        for (size_t i = 0; i < c->operands.size(); ++i) {
          access(c->operands[i].buffer, row.operands[i].access != ir::Access::kRead);
          read(c->operands[i].indices);
        }
        read(c->args);
        read(c->predicate);
        return;
      }
      case ir::StmtKind::kRoles:
        for (const ir::Role& r : static_cast<const ir::Roles*>(s)->roles) walk(r.body);
        return;
    }
  }

  KernelInfo& info_;
  std::vector<Life> lives_;
  std::vector<ir::Id> loops_;
};

}  // namespace

KernelInfo inspect_kernel(const ir::Kernel& kernel) {
  KernelInfo info;
  info.kernel = kernel;
  info.slots.assign(kernel.buffers.begin(), kernel.buffers.end());
  info.slot_of.assign(static_cast<size_t>(kernel.next_id), -1);
  for (size_t slot = 0; slot < info.slots.size(); ++slot) {
    info.slot_of[static_cast<size_t>(info.slots[slot]->id)] = static_cast<int32_t>(slot);
  }
  info.written.assign(info.slots.size(), false);
  AccessWalk(kernel, info).run(kernel.root);
  return info;
}

const ir::Layout* address_layout(const ir::Buffer& buffer) {
  if (buffer.layout == nullptr) return nullptr;
  for (const ir::Digit& d : buffer.layout->digits)
    if (d.place != ir::Place::kAddress) return nullptr;
  return buffer.layout;
}

std::vector<ir::Stmt> split_regions(const ir::Kernel& kernel) {
  if (kernel.stage != ir::Stage::kLowered) return {kernel.root};
  ir::Stmt s = kernel.root;
  if (!is_simt(s)) return {s};
  // Workspace allocated around the launches lives as long as the call.
  while (const auto* alloc = ir::as<ir::Alloc>(s)) {
    const bool global = std::all_of(alloc->buffers.begin(), alloc->buffers.end(), [&](ir::Id id) {
      const ir::Scope scope = kernel.buffer(id)->scope;
      return scope == ir::Scope::kGlobal || scope == ir::Scope::kWorkspace;
    });
    if (!global) break;
    s = alloc->body;
  }
  if (const auto* seq = ir::as<ir::Seq>(s)) return {seq->stmts.begin(), seq->stmts.end()};
  return {s};
}

bool is_simt(ir::Stmt root) {
  bool found = false;
  ir::visit(root, [&](ir::Stmt s) {
    if (s->kind == ir::StmtKind::kRoles) found = true;
    if (const auto* loop = ir::as<ir::Loop>(s)) {
      found = found || (loop->loop_kind == ir::LoopKind::kBound && loop->axis != ir::Axis::kVthread);
    }
    if (const auto* call = ir::as<ir::InstrCall>(s)) {
      found = found || ir::instruction(call->instr).participants != ir::Participants::kThread;
    }
    return !found;
  });
  return found;
}

}  // namespace tcc::interp
