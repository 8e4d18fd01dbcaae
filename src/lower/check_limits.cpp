#include "lower/check_limits.h"

#include <algorithm>
#include <map>
#include <set>

#include "lower/gpu/distribute_fragments.h"
#include "lower/gpu/edit.h"
#include "lower/gpu/expand_roles.h"
#include "lower/gpu/place_gpu_storage.h"
#include "lower/gpu_limits.h"
#include "lower/host_limits.h"
#include "lower/split_launches.h"
#include "tcc/analysis/roles.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/analysis/spread_storage.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int64_t kRoleBarriers = 1024;  // bytes of shared memory for the barriers between roles, at most

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

Legal<void> check_host(const Kernel& nest, const std::map<Axis, int64_t>& extents) {
  if (!extents.empty()) return reject(RejectReason::kUnsupported, "loops bound to GPU axes on a CPU");
  const std::set<Id> inner = inner_buffers(nest.root);
  int64_t local = 0, temp = 0;
  for (const Buffer* b : nest.buffers) {
    if (b->role != BufferRole::kTemp) continue;
    TCC_TRY(const int64_t bytes, storage_bytes(nest, *b));
    const bool on_stack = b->scope == Scope::kLocal || inner.count(b->id) != 0;
    (on_stack ? local : temp) += bytes;
  }
  if (local > kMaxStackBytes) return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes", local));
  if (temp > kMaxHostTempBytes) return reject(RejectReason::kTooLarge, fmt::format("{} bytes of temporaries", temp));
  if (local <= kSafeHostLocalBytes) return {};
  // Rows may be padded to whole vectors. Copies of tails are made as far as the stack goes (split_tails).
  TCC_TRY(const int64_t stack, largest_stack(nest));
  if (stack > kMaxStackBytes)
    return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes on the stack, at most {}", stack, kMaxStackBytes));
  return {};
}

// The checks of MetaSchedule's VerifyGPUCode: virtual threads, the window of thread counts that the tiling asked for
// (annotation `min_threads`, the smallest count, on a grid loop), vectors of copies.
Legal<void> check_gpu_loops(const Kernel& nest, int64_t threads) {
  Legal<void> verdict = {};
  auto walk = [&](auto&& self, Stmt s, int64_t vthreads) -> void {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && verdict) {
      if (l->axis == Axis::kVthread && is_int(l->extent)) vthreads *= int_value(l->extent);
      if (vthreads > kMaxVthreads)
        verdict = reject(RejectReason::kTooManyThreads, fmt::format("{} virtual threads", vthreads));
      for (const Annotation& a : l->annotations) {
        if (!is_int(a.value)) continue;
        if (a.key == AnnotationKey::kMinThreads && is_grid(l->axis) && threads < int_value(a.value))
          verdict = reject(RejectReason::kBadFactor,
                           fmt::format("{} threads a block, at least {} are wanted", threads, int_value(a.value)));
        if (a.key != AnnotationKey::kCooperativeFetch) continue;
        visit(l->body, [&](Stmt x) {
          const Store* store = as<Store>(x);
          if (store != nullptr && type_bytes(store->value->type) * int_value(a.value) > kMaxAccessBytes)
            verdict = reject(RejectReason::kVectorTooWide,
                             fmt::format("a copy of {} elements at a time", int_value(a.value)));
          return verdict.has_value();
        });
      }
    }
    visit_children(s, [&](Stmt c) { self(self, c, vthreads); });
  };
  walk(walk, nest.root, 1);
  return verdict;
}

// Threads of a block of the launch; lanes of fragments are not among them.
int64_t launch_threads(Stmt launch) {
  std::map<Axis, int64_t> extents;
  visit(launch, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && is_thread(l->axis) && l->axis != Axis::kWarpgroup && is_int(l->extent))
      extents[l->axis] = std::max({extents[l->axis], int_value(l->extent), int64_t{1}});
    return true;
  });
  int64_t threads = 1;
  for (const auto& [axis, n] : extents) threads *= n;
  return threads;
}

// Versions of the buffers that live inside of loops with the annotation pipeline_depth.
Legal<std::map<Id, int64_t>> pipeline_versions(const Kernel& nest) {
  std::map<Id, int64_t> versions;
  Legal<void> verdict = {};
  visit(nest.root, [&](Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l == nullptr) return true;
    for (const Annotation& a : l->annotations) {
      if (a.key != AnnotationKey::kPipelineDepth) continue;
      if (!is_int(a.value))
        verdict = reject(RejectReason::kNotConstant, "depth of the pipeline of '" + name_hint(nest, l->id) + "'");
      if (!verdict) return false;
      const int64_t depth = is_int(l->extent) ? std::min(int_value(a.value), int_value(l->extent)) : int_value(a.value);
      visit(l->body, [&](Stmt inner) {
        if (const Alloc* alloc = as<Alloc>(inner))
          for (Id id : alloc->buffers) versions[id] = std::max<int64_t>(depth, 1);
        return true;
      });
    }
    return true;
  });
  if (!verdict) return tl::make_unexpected(verdict.error());
  return versions;
}

Legal<void> check_gpu(const Kernel& nest, const std::map<Axis, int64_t>& extents, const target::CudaInfo& cuda) {
  // A fragment is spread over the lanes of a warp, which the lowering adds.
  const auto fragments = fragment_buffers(nest);
  const bool adds_lanes =
      std::any_of(fragments.begin(), fragments.end(), [&](const auto& f) { return f.second.lanes == cuda.warp_size; });
  int64_t threads = 1;
  analysis::RoleShape roles;
  const std::vector<Stmt> launches = launches_of(nest);
  std::vector<bool> with_roles;
  for (Stmt launch : launches) {
    threads = std::max(threads, launch_threads(launch) * (adds_lanes ? cuda.warp_size : 1));
    with_roles.push_back(analysis::role_loop(launch) != nullptr);
    if (!with_roles.back()) continue;
    if (Legal<void> ok = check_roles(nest, launch); !ok) return ok;
    roles = analysis::role_shape(analysis::consumer_groups(launch), cuda.registers_per_sm);
  }
  if (std::max(threads, roles.threads) > cuda.max_threads_per_block)
    return reject(RejectReason::kTooManyThreads, fmt::format("{} threads a block", std::max(threads, roles.threads)));
  if (auto z = extents.find(Axis::kThreadZ); z != extents.end() && z->second > kMaxThreadsZ)
    return reject(RejectReason::kTooManyThreads, fmt::format("{} threads along z", z->second));
  if (Legal<void> ok = check_gpu_loops(nest, threads); !ok) return ok;
  const std::map<Id, Scope> scopes = gpu_scopes(nest);
  const std::map<Id, int64_t> instances = gpu_instances(nest), spread = analysis::spread_threads(nest);
  TCC_TRY(const auto versions, pipeline_versions(nest));
  int64_t local = 0, consumer = 0;
  for (const Buffer* b : nest.buffers) {
    if (b->role != BufferRole::kTemp) continue;
    TCC_TRY(const int64_t bytes, storage_bytes(nest, *b));
    const Scope scope = scopes.at(b->id);
    auto fragment = fragments.find(b->id);
    if (fragment != fragments.end() && scope != Scope::kLocal)
      return reject(RejectReason::kBadInstruction, "'" + name_hint(nest, b->id) + "' is not within a launch");
    if (scope == Scope::kLocal) {
      auto n = instances.find(b->id);
      const int64_t lanes = fragment == fragments.end() ? 1 : fragment->second.lanes;
      if (auto parts = spread.find(b->id); parts != spread.end() && lanes == 1) {
        local += std::max<int64_t>(bytes / parts->second, type_bytes(b->type));
        continue;
      }
      (lanes > cuda.warp_size ? consumer : local) += bytes * (n == instances.end() ? 1 : n->second) / lanes;
    }
  }
  int64_t shared = 0;
  const analysis::SharedRequests requests{scopes, versions};
  for (size_t i = 0; i < launches.size(); ++i) {
    const int64_t bytes = analysis::shared_bytes(nest, launches[i], requests, cuda.shared_per_block);
    shared = std::max(shared, bytes + (with_roles[i] ? kRoleBarriers + analysis::staged_bytes(nest, launches[i]) : 0));
  }
  if (shared > std::max(cuda.shared_per_block, cuda.shared_per_block_optin))
    return reject(RejectReason::kTooMuchShared, fmt::format("{} bytes a block", shared));
  // Registers: what the threads share of the block's, less those for addresses.
  const int64_t whole_warps = (threads + cuda.warp_size - 1) / cuda.warp_size * cuda.warp_size;
  const int64_t per_thread =
      std::min(cuda.max_registers_per_thread,
               cuda.registers_per_block > 0 ? cuda.registers_per_block / whole_warps : cuda.max_registers_per_thread);
  for (const auto& [bytes, registers] : {std::pair(local, per_thread), std::pair(consumer, roles.consumer_registers)})
    if (bytes > 0 && bytes / 4 > registers - kMinAddressRegisters)
      return reject(RejectReason::kTooMuchLocal, fmt::format("{} bytes of registers a thread", bytes));
  return {};
}

}  // namespace

Legal<int64_t> storage_bytes(const Kernel& k, const Buffer& b) {
  int64_t bytes = type_bytes(b.type);
  if (b.layout != nullptr) return bytes * b.layout->size;
  for (Expr e : b.shape) {
    if (!is_int(e)) return reject(RejectReason::kNotConstant, "shape of '" + name_hint(k, b.id) + "'");
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(int_value(e), 1), &bytes))
      return reject(RejectReason::kTooLarge, "'" + name_hint(k, b.id) + "'");
  }
  return bytes;
}

Legal<void> check_cpu_limits(const Kernel& nest, const target::Target&) {
  std::map<Axis, int64_t> extents;
  TCC_TRY_VOID(check_loops(nest, nest.root, extents));
  return check_host(nest, extents);
}

Legal<void> check_cuda_limits(const Kernel& nest, const target::Target& target) {
  std::map<Axis, int64_t> extents;
  TCC_TRY_VOID(check_loops(nest, nest.root, extents));
  return check_gpu(nest, extents, target.cuda);
}

}  // namespace tcc::lower
