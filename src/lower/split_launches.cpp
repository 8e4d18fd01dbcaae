#include "lower/split_launches.h"

#include <algorithm>
#include <map>
#include <set>

#include "lower/check_limits.h"
#include "lower/host_limits.h"
#include "tcc/analysis/local_storage.h"
#include "tcc/ir/build.h"
#include "tcc/ir/query.h"
#include "tcc/support/check.h"

namespace tcc::lower {

using namespace ir;

namespace {

// The statements at root level, and the buffers of the Allocs around them.
void collect(Stmt s, std::vector<Stmt>& launches, std::vector<Id>& allocated) {
  if (const Seq* q = as<Seq>(s)) {
    for (Stmt c : q->stmts) collect(c, launches, allocated);
  } else if (const Alloc* a = as<Alloc>(s)) {
    allocated.insert(allocated.end(), a->buffers.begin(), a->buffers.end());
    collect(a->body, launches, allocated);
  } else {
    launches.push_back(s);
  }
}

bool is_parallel(Stmt s) {
  const Loop* l = as<Loop>(s);
  return l != nullptr && l->loop_kind == LoopKind::kParallel;
}

void append_allocated(Stmt s, std::vector<Id>& ids) {
  visit(s, [&](Stmt c) {
    if (const Alloc* a = as<Alloc>(c)) ids.insert(ids.end(), a->buffers.begin(), a->buffers.end());
    return true;
  });
}

class LaunchSplitter {
 public:
  LaunchSplitter(const Kernel& kernel, Arena& arena) : kernel_(kernel), b_(arena) {}

  Legal<Kernel> run(const ArenaPtr& arena) {
    const HostLaunches found = host_launches(kernel_.root);
    std::vector<Id> workspace = found.shared;
    for (const HostLaunch& launch : found.launches)
      for (Stmt s : launch.stmts) TCC_TRY_VOID(check_loops(s));
    std::vector<Stmt> stmts;
    for (const HostLaunch& launch : found.launches) {
      TCC_TRY(Stmt s, place_storage(launch, workspace));
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
    int64_t largest = 0;
    for (const HostLaunch& launch : host_launches(kernel_.root).launches) {
      TCC_TRY(int64_t bytes, stack_at_most(launch.allocated(), launch.is_parallel()));
      largest = std::max(largest, bytes);
    }
    return largest;
  }

 private:
  Legal<int64_t> stack_at_most(const std::vector<Id>& ids, bool parallel) {
    int64_t stack = 0;
    for (Id id : ids) {
      const Buffer* buffer = kernel_.buffer(id);
      if (buffer->scope == Scope::kAmxTile) continue;
      TCC_TRY(int64_t bytes, bytes_of(id));
      if (!parallel && bytes > kSmallBytes) continue;
      stack += buffer->layout != nullptr ? bytes : analysis::local_elements_at_most(*buffer) * type_bytes(buffer->type);
    }
    return parallel ? stack : std::min(stack, kMaxStackBytes);
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
    return storage_bytes(kernel_, *buffer);
  }

  int64_t placed_bytes(Id id) const {
    const Buffer* buffer = kernel_.buffer(id);
    if (buffer->scope == Scope::kAmxTile) return 0;  // registers
    if (buffer->layout != nullptr) return storage_bytes(kernel_, *buffer).value_or(0);
    return analysis::local_storage(*buffer).elements * type_bytes(buffer->type);
  }
  // Allocs that are not inside of one another share the stack.
  int64_t stack_at_once(Stmt s) const {
    int64_t own = 0, inside = 0;
    if (const Alloc* a = as<Alloc>(s))
      for (Id id : a->buffers) own += placed_bytes(id);
    visit_children(s, [&](Stmt c) { inside = std::max(inside, stack_at_once(c)); });
    return own + inside;
  }
  int64_t stack_at_once(const HostLaunch& launch) const {
    int64_t own = 0, inside = 0;
    for (Id id : launch.own) own += placed_bytes(id);
    for (Stmt s : launch.stmts) inside = std::max(inside, stack_at_once(s));
    return own + inside;
  }

  // Gives the launch its own buffers: on the stack, or in the workspace when it is serial and they are large.
  Legal<Stmt> place_storage(const HostLaunch& launch, std::vector<Id>& workspace) {
    const bool parallel = launch.is_parallel();
    int64_t stack = 0;
    std::set<Id> moved;
    for (Id id : launch.allocated()) {
      const Buffer* buffer = kernel_.buffer(id);
      if (buffer->scope == Scope::kAmxTile) continue;  // registers
      TCC_TRY(const int64_t bytes, bytes_of(id));
      const int64_t placed = placed_bytes(id);
      if (!parallel && (bytes > kSmallBytes || stack + placed > kMaxStackBytes)) {
        workspace.push_back(id);
        moved.insert(id);
        continue;
      }
      stack += placed;
      scopes_[id] = Scope::kLocal;
    }
    if (parallel) stack = stack_at_once(launch);
    if (stack > kMaxStackBytes)
      return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes of local buffers in one launch", stack));
    Stmt s = b_.seq(launch.stmts);
    if (!moved.empty()) s = without_allocs(s, moved);
    std::vector<Id> top;
    std::copy_if(launch.own.begin(), launch.own.end(), std::back_inserter(top),
                 [&](Id id) { return moved.count(id) == 0; });
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
  std::map<Id, Scope> scopes_;
};

}  // namespace

HostLaunches host_launches(Stmt root) {
  std::vector<Stmt> stmts;
  std::vector<Id> allocated;
  collect(root, stmts, allocated);
  std::map<Id, std::pair<size_t, size_t>> users;  // first and last statement
  for (size_t i = 0; i < stmts.size(); ++i) {
    Touched touched = touched_buffers(stmts[i]);
    touched.reads.merge(touched.writes);
    for (Id id : touched.reads) users.try_emplace(id, i, i).first->second.second = i;
  }
  // parallel[i]: how many of the statements before i are.
  std::vector<size_t> parallel(stmts.size() + 1, 0);
  for (size_t i = 0; i < stmts.size(); ++i) parallel[i + 1] = parallel[i] + (is_parallel(stmts[i]) ? 1 : 0);
  // joined[i]: statements i and i + 1 are of one launch.
  std::vector<bool> joined(stmts.size(), false);
  for (Id id : allocated) {
    const auto at = users.find(id);
    if (at == users.end()) continue;
    const auto [first, last] = at->second;
    if (parallel[last + 1] == parallel[first]) std::fill(joined.begin() + first, joined.begin() + last, true);
  }
  HostLaunches out;
  std::vector<size_t> launch_of;
  for (size_t i = 0; i < stmts.size(); ++i) {
    if (i == 0 || !joined[i - 1]) out.launches.emplace_back();
    out.launches.back().stmts.push_back(stmts[i]);
    launch_of.push_back(out.launches.size() - 1);
  }
  for (Id id : allocated) {
    const auto at = users.find(id);
    if (at == users.end()) continue;
    const size_t first = launch_of[at->second.first];
    (first == launch_of[at->second.second] ? out.launches[first].own : out.shared).push_back(id);
  }
  return out;
}

bool HostLaunch::is_parallel() const {
  return lower::is_parallel(stmts.front());
}

std::vector<Id> HostLaunch::allocated() const {
  std::vector<Id> ids = own;
  for (Stmt s : stmts) append_allocated(s, ids);
  return ids;
}

Legal<Kernel> split_launches(const Kernel& kernel, const ArenaPtr& arena) {
  if (arena != kernel.arena) arena->keep_alive(kernel.arena);
  return LaunchSplitter(kernel, *arena).run(arena);
}

Legal<int64_t> largest_stack(const Kernel& kernel) {
  Arena scratch;
  return LaunchSplitter(kernel, scratch).largest_stack();
}

}  // namespace tcc::lower
