#include "lower/split_launches.h"

#include <algorithm>
#include <map>
#include <set>

#include "lower/host_limits.h"
#include "tcc/analysis/local_storage.h"
#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::lower {
namespace {

using namespace ir;

std::set<Id> buffers_of(Stmt s) {
  Touched t = touched_buffers(s);
  t.reads.merge(t.writes);
  return t.reads;
}

bool is_parallel(Stmt s) {
  const Loop* l = as<Loop>(s);
  return l != nullptr && l->loop_kind == LoopKind::kParallel;
}

class Splitter {
 public:
  Splitter(const Kernel& kernel, Arena& arena) : kernel_(kernel), b_(arena) {}

  Legal<Kernel> run(const ArenaPtr& arena) {
    std::vector<Id> workspace;
    const std::vector<std::vector<Id>> own = collect_launches(workspace);
    for (Stmt launch : launches_) TCC_TRY_VOID(check_loops(launch));
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < launches_.size(); ++i) {
      TCC_TRY(Stmt s, place_storage(launches_[i], own[i], workspace));
      stmts.push_back(s);
    }
    Kernel result = kernel_;
    result.arena = arena;
    result.root = b_.seq(stmts);
    for (Id id : workspace) scopes_[id] = Scope::kWorkspace;
    if (!workspace.empty()) result.root = b_.alloc(workspace, result.root);
    std::vector<const Buffer*> buffers;
    for (const Buffer* old : kernel_.buffers) {
      auto scope = scopes_.find(old->id);
      Buffer fields = *old;
      if (scope != scopes_.end()) fields.scope = scope->second;
      buffers.push_back(fields.scope == old->scope ? old : b_.buffer(fields));
    }
    result.buffers = b_.arena().copy(buffers);
    return result;
  }

  // largest_stack() of the kernel.
  Legal<int64_t> largest_stack() {
    std::vector<Id> workspace;
    const std::vector<std::vector<Id>> own = collect_launches(workspace);
    int64_t largest = 0;
    for (size_t i = 0; i < launches_.size(); ++i) {
      std::vector<Id> ids = own[i];
      visit_allocs(launches_[i], ids);
      TCC_TRY(int64_t bytes, stack_at_most(ids, is_parallel(launches_[i])));
      largest = std::max(largest, bytes);
    }
    return largest;
  }
  Legal<int64_t> stack_of(Stmt s) {
    std::vector<Id> ids;
    visit_allocs(s, ids);
    return stack_at_most(ids, true);
  }

 private:
  static void visit_allocs(Stmt launch, std::vector<Id>& ids) {
    visit(launch, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s)) ids.insert(ids.end(), a->buffers.begin(), a->buffers.end());
      return true;
    });
  }
  Legal<int64_t> stack_at_most(const std::vector<Id>& ids, bool parallel) {
    int64_t stack = 0;
    for (Id id : ids) {
      const Buffer* buffer = kernel_.buffer(id);
      if (buffer->scope == Scope::kAmxTile) continue;
      TCC_TRY(int64_t bytes, bytes_of(id));
      if (!parallel && bytes > kSmallBytes) continue;
      stack += buffer->layout != nullptr ? bytes : analysis::local_elements_at_most(*buffer) * type_bytes(buffer->type);
    }
    return stack;
  }

  // Fills launches_. The result: for each, the buffers of the root's Allocs that it alone uses; those that several
  // launches use go to `workspace`.
  std::vector<std::vector<Id>> collect_launches(std::vector<Id>& workspace) {
    collect(kernel_.root);
    std::map<Id, std::vector<size_t>> users;
    for (size_t i = 0; i < launches_.size(); ++i)
      for (Id id : buffers_of(launches_[i])) users[id].push_back(i);
    std::vector<std::vector<Id>> own(launches_.size());
    for (Id id : root_allocated_) {
      const std::vector<size_t>& at = users[id];
      if (at.size() == 1)
        own[at[0]].push_back(id);
      else if (!at.empty())
        workspace.push_back(id);
    }
    return own;
  }
  void collect(Stmt s) {
    if (const Seq* q = as<Seq>(s)) {
      for (Stmt c : q->stmts) collect(c);
    } else if (const Alloc* a = as<Alloc>(s)) {
      root_allocated_.insert(root_allocated_.end(), a->buffers.begin(), a->buffers.end());
      collect(a->body);
    } else {
      launches_.push_back(s);
    }
  }

  Legal<void> check_loops(Stmt launch) {
    std::optional<Reject> problem;
    visit(launch, [&](Stmt s) {
      const Loop* l = as<Loop>(s);
      if (l == nullptr || problem) return !problem.has_value();
      bool constant = is_int(l->extent);
      if (l->loop_kind == LoopKind::kParallel && s != launch)
        problem =
            Reject{RejectReason::kUnsupported, "parallel loop " + name_hint(kernel_, l->id) + " is not outermost"};
      else if (l->loop_kind == LoopKind::kBound)
        problem = Reject{RejectReason::kUnsupported, "loop " + name_hint(kernel_, l->id) + " is bound to a GPU axis"};
      else if ((l->loop_kind == LoopKind::kVectorized || l->loop_kind == LoopKind::kParallel) && !constant)
        problem =
            Reject{RejectReason::kUnsupported, "the extent of loop " + name_hint(kernel_, l->id) + " is not constant"};
      return true;
    });
    if (problem) return tl::unexpected<Reject>(*problem);
    return {};
  }

  Legal<int64_t> bytes_of(Id id) {
    const Buffer* buffer = kernel_.buffer(id);
    TCC_CHECK(buffer != nullptr);
    int64_t n = type_bytes(buffer->type);
    if (buffer->layout != nullptr) return n * buffer->layout->size;
    for (Expr e : buffer->shape) {
      if (!is_int(e)) return reject(RejectReason::kNotConstant, "the shape of " + name_hint(kernel_, id));
      n *= int_value(e);
    }
    return n;
  }

  // Gives the launch its own buffers: on the stack, or in the workspace when it is serial and they are large.
  Legal<Stmt> place_storage(Stmt launch, const std::vector<Id>& own, std::vector<Id>& workspace) {
    bool parallel = is_parallel(launch);
    int64_t stack = 0;
    std::optional<Reject> problem;
    std::set<Id> moved;
    auto keep = [&](Id id) {
      if (kernel_.buffer(id)->scope == Scope::kAmxTile) return true;  // registers
      Legal<int64_t> bytes = bytes_of(id);
      if (!bytes) {
        problem = bytes.error();
        return false;
      }
      if (!parallel && *bytes > kSmallBytes) {
        workspace.push_back(id);
        moved.insert(id);
        return false;
      }
      const Buffer* buffer = kernel_.buffer(id);
      stack +=
          buffer->layout != nullptr ? *bytes : analysis::local_storage(*buffer).elements * type_bytes(buffer->type);
      scopes_[id] = Scope::kLocal;
      return true;
    };
    visit(launch, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers) keep(id);
      return true;
    });
    std::vector<Id> top;
    for (Id id : own)
      if (keep(id)) top.push_back(id);
    if (problem) return tl::unexpected<Reject>(*problem);
    if (stack > kMaxStackBytes)
      return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes of local buffers in one launch", stack));
    Stmt s = moved.empty() ? launch : without_allocs(launch, moved);
    if (top.empty()) return s;
    // Iterations of a parallel loop do not share scratch.
    if (parallel) return b_.with_body(*as<Loop>(s), b_.alloc(top, as<Loop>(s)->body));
    return b_.alloc(top, s);
  }

  Stmt without_allocs(Stmt s, const std::set<Id>& moved) {
    Stmt r = rewrite_children(b_, s, [&](Stmt c) { return without_allocs(c, moved); });
    const Alloc* a = as<Alloc>(r);
    if (a == nullptr) return r;
    std::vector<Id> left;
    for (Id id : a->buffers)
      if (moved.count(id) == 0) left.push_back(id);
    if (left.size() == a->buffers.size()) return r;
    return left.empty() ? a->body : b_.alloc(left, a->body);
  }

  const Kernel& kernel_;
  Builder b_;
  std::vector<Stmt> launches_;
  std::vector<Id> root_allocated_;
  std::map<Id, Scope> scopes_;
};

}  // namespace

Legal<Kernel> split_launches(const Kernel& kernel, const ArenaPtr& arena) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  return Splitter(kernel, *arena).run(arena);
}

Legal<int64_t> largest_stack(const Kernel& kernel) {
  Arena scratch;
  return Splitter(kernel, scratch).largest_stack();
}
Legal<int64_t> stack_of(const Kernel& kernel, Stmt s) {
  Arena scratch;
  return Splitter(kernel, scratch).stack_of(s);
}

}  // namespace tcc::lower
