// "Too many threads", "too much shared memory": all in one place, read off the Nest.
#include <algorithm>
#include <map>
#include <set>

#include "tcc/ir/walk.h"
#include "tcc/lower/lower.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int64_t kMaxVector = 64;                 // elements; wider ones only lengthen the code
constexpr int64_t kMaxHostLocalBytes = 256 << 10;  // a worker's stack
constexpr int64_t kMaxHostTempBytes = int64_t{1} << 32;

Legal<int64_t> bytes_of(const Kernel& k, const Buffer& b) {
  int64_t bytes = type_bytes(b.type);
  for (Expr e : b.shape) {
    if (!is_int(e)) return reject(RejectReason::kNotConstant, "shape of '" + name_hint(k, b.id) + "'");
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(int_value(e), 1), &bytes))
      return reject(RejectReason::kTooLarge, "'" + name_hint(k, b.id) + "'");
  }
  return bytes;
}

Legal<void> check_loops(const Kernel& k, Stmt root, std::map<Axis, int64_t>& extents) {
  Legal<void> verdict = {};
  visit(root, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr || !verdict) return verdict.has_value();
    if (l->loop_kind == LoopKind::kVectorized) {
      if (!is_int(l->extent))
        verdict = reject(RejectReason::kNotConstant, "vector length of '" + name_hint(k, l->id) + "'");
      else if (int_value(l->extent) > kMaxVector)
        verdict = reject(RejectReason::kVectorTooWide,
                         fmt::format("{} elements in '{}'", int_value(l->extent), name_hint(k, l->id)));
    }
    if (l->loop_kind == LoopKind::kBound && l->axis != Axis::kVthread) {
      if (!is_int(l->extent)) {
        if (!is_grid(l->axis))
          verdict = reject(RejectReason::kNotConstant, "thread count of '" + name_hint(k, l->id) + "'");
      } else {
        int64_t& n = extents[l->axis];
        n = std::max(n, int_value(l->extent));
      }
    }
    return verdict.has_value();
  });
  return verdict;
}

// Buffers that live inside a loop: on a CPU they are on the stack, whatever their scope.
std::set<Id> inner_buffers(Stmt root) {
  std::set<Id> inner;
  visit(root, [&](Stmt s) {
    if (const Loop* l = as<Loop>(s)) {
      visit(l->body, [&](Stmt c) {
        if (const Alloc* a = as<Alloc>(c)) inner.insert(a->buffers.begin(), a->buffers.end());
        return true;
      });
      return false;
    }
    return true;
  });
  return inner;
}

}  // namespace

Legal<void> check_limits(const Kernel& nest, const target::Target& target) {
  std::map<Axis, int64_t> extents;
  if (Legal<void> ok = check_loops(nest, nest.root, extents); !ok) return ok;
  bool host = target.kind == target::TargetKind::kCpu;
  std::set<Id> inner = host ? inner_buffers(nest.root) : std::set<Id>();
  int64_t local = 0, shared = 0, temp = 0;
  for (const Buffer* b : nest.buffers) {
    if (b->role != BufferRole::kTemp) continue;
    Legal<int64_t> bytes = bytes_of(nest, *b);
    if (!bytes) return tl::make_unexpected(bytes.error());
    if (b->scope == Scope::kLocal || b->scope == Scope::kDistributed || inner.count(b->id) != 0)
      local += *bytes;
    else if (b->scope == Scope::kShared || b->scope == Scope::kClusterShared)
      shared += *bytes;
    else
      temp += *bytes;
  }
  if (host) {
    if (!extents.empty()) return reject(RejectReason::kUnsupported, "loops bound to GPU axes on a CPU");
    if (local > kMaxHostLocalBytes) return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes", local));
    if (temp > kMaxHostTempBytes) return reject(RejectReason::kTooLarge, fmt::format("{} bytes of temporaries", temp));
    return {};
  }
  int64_t threads = 1;
  for (const auto& [axis, n] : extents)
    if (is_thread(axis)) threads *= n;
  if (threads > target.cuda.max_threads_per_block)
    return reject(RejectReason::kTooManyThreads, fmt::format("{} threads a block", threads));
  if (shared > target.cuda.shared_per_block_optin)
    return reject(RejectReason::kTooMuchShared, fmt::format("{} bytes a block", shared));
  if (local / 4 > target.cuda.max_registers_per_thread)
    return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes of registers a thread", local));
  return {};
}

}  // namespace tcc::lower
