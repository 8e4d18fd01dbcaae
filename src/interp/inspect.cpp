// What is known of a kernel before its code is made: slots, who is written, where temporaries live, launches.
#include <algorithm>

#include "interp/compile.h"
#include "tcc/ir/query.h"

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
    ir::visit_loads(e, [&](const ir::Load& load) { access(load.buffer, false); });
  }
  void read(std::span<const ir::Expr> all) {
    for (ir::Expr e : all) read(e);
  }
  void walk(ir::Stmt s) {
    const auto* loop = ir::as<ir::Loop>(s);
    if (loop != nullptr) {
      read(loop->extent);
      loops_.push_back(loop->id);
    } else if (const auto* block = ir::as<ir::Block>(s)) {
      for (const ir::Iter& it : block->iters) read(it.binding);
      read(block->predicate);
    } else if (const auto* store = ir::as<ir::Store>(s)) {
      access(store->buffer, true);
      read(store->indices);
      read(store->value);
      read(store->predicate);
    } else if (const auto* branch = ir::as<ir::If>(s)) {
      read(branch->condition);
    } else if (const auto* alloc = ir::as<ir::Alloc>(s)) {
      for (ir::Id id : alloc->buffers)
        lives_[static_cast<size_t>(info_.slot_of[static_cast<size_t>(id)])].allocated = true;
    } else if (const auto* call = ir::as<ir::InstrCall>(s)) {
      const ir::Instruction& row = ir::instruction(call->instr);
      for (size_t i = 0; i < call->operands.size(); ++i) {
        access(call->operands[i].buffer, row.operands[i].access != ir::Access::kRead);
        read(call->operands[i].indices);
      }
      read(call->args);
      read(call->predicate);
    }
    ir::visit_children(s, [&](ir::Stmt child) { walk(child); });
    if (loop != nullptr) loops_.pop_back();
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
