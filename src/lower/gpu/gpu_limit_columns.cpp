// The checks of check_limits.cpp for GPUs on columns. Lowering drops loops of one iteration: a buffer whose loops over
// threads are all dropped is shared instead of local, annotations of such a loop are gone, and a launch without its
// grid falls apart into its statements. The first two are conditions here; for the last the kernel decides. It decides,
// too, where shared buffers fit only because some of them take turns.
#include <algorithm>
#include <map>

#include "lower/gpu/edit.h"
#include "lower/gpu/fragments.h"
#include "lower/gpu_limits.h"
#include "lower/host_limits.h"
#include "lower/limit_columns.h"
#include "tcc/analysis/roles.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/query.h"

namespace tcc::lower {

using namespace ir;

namespace {

class GpuLimits {
 public:
  GpuLimits(ColumnBuilder& b, const Kernel& nest, const analysis::NestColumns& columns, const target::CudaInfo& cuda)
      : b_(b), nest_(nest), columns_(columns), cuda_(cuda), fragments_(fragment_buffers(nest)) {
    for (const analysis::LoopColumns& l : columns.loops) extents_[l.loop->id] = l.extent;
  }

  bool run(LimitColumns& out, std::string& why) {
    launches_ = launches_of(nest_);
    for (Stmt launch : launches_)
      if (analysis::role_loop(launch) != nullptr)
        return why = "warps of a launch have roles, which only its kernel checks", false;
    out.legal = out.decided = number(1);
    for (const analysis::LoopColumns& l : columns_.loops)
      if (l.loop->loop_kind == LoopKind::kVectorized) require(out.legal, b_.less_equal(l.extent, number(kMaxVector)));
    for (Stmt launch : launches_) require(out.decided, stays_whole(launch));
    threads(out);
    for (Stmt launch : launches_)
      if (!loops(launch, number(1), out.legal)) return why = "an annotation is not a function of the decisions", false;
    find_places();
    if (!known_) return why = "the depth of a pipeline is not a function of the decisions", false;
    registers(out);
    shared(out);
    return true;
  }

 private:
  // What is around the Alloc of a buffer, and in it.
  struct Place {
    Column thread, thread_x;  // 1: in a loop over threads, over thread.x, of several iterations
    Column vthreads;          // in how many copies
    Column versions;          // in a pipeline
    Column has_threads;       // its launch has a grid or threads
    Column inner_x, grid;     // threads of thread.x in it; 1: a grid in it
    bool in_launch;
  };

  Column number(int64_t value) { return b_.constant(static_cast<double>(value)); }
  void require(Column& all, Column condition) { all = b_.both(all, condition); }
  Column bytes(const BufferColumns& s) { return b_.mul(s.elements, number(type_bytes(s.buffer->type))); }
  Column extent(const Loop& l) const { return extents_.at(l.id); }
  Column repeats(const Loop& l) { return b_.less(number(1), extent(l)); }
  Column aligned(Column n, int64_t to) { return b_.mul(b_.ceil_div(n, number(to)), number(to)); }

  Column stays_whole(Stmt launch) {
    Column any = number(0);
    Stmt s = launch;
    for (const Loop* l = as<Loop>(s); l != nullptr; l = as<Loop>(s)) any = b_.either(any, repeats(*l)), s = l->body;
    return as<Seq>(s) == nullptr && as<Alloc>(s) == nullptr ? number(1) : any;
  }

  void threads(LimitColumns& out) {
    const bool adds_lanes = std::any_of(fragments_.begin(), fragments_.end(),
                                        [&](const auto& f) { return f.second.lanes == cuda_.warp_size; });
    out.threads = number(1);
    Column along_z = number(0);
    for (Stmt launch : launches_) {
      std::map<Axis, Column> axes;
      visit(launch, [&](Stmt s) {
        const Loop* l = as<Loop>(s);
        if (l == nullptr || !is_thread(l->axis)) return true;
        if (l->axis == Axis::kThreadZ) along_z = b_.max(along_z, extent(*l));
        if (l->axis == Axis::kWarpgroup) return true;
        Column& n = axes.try_emplace(l->axis, number(1)).first->second;
        n = b_.max(n, extent(*l));
        return true;
      });
      Column all = number(adds_lanes ? cuda_.warp_size : 1);
      for (const auto& [axis, n] : axes) all = b_.mul(all, n);
      out.threads = b_.max(out.threads, all);
    }
    threads_ = out.threads;
    require(out.legal, b_.less_equal(threads_, number(cuda_.max_threads_per_block)));
    require(out.legal, b_.less_equal(along_z, number(kMaxThreadsZ)));
  }

  // Virtual threads, the least number of threads, the width of copies.
  bool loops(Stmt s, Column vthreads, Column& legal) {
    if (const Loop* l = as<Loop>(s)) {
      if (l->axis == Axis::kVthread) {
        vthreads = b_.mul(vthreads, extent(*l));
        require(legal, b_.less_equal(vthreads, number(kMaxVthreads)));
      }
      for (const Annotation& a : l->annotations) {
        const bool least = a.key == AnnotationKey::kMinThreads && is_grid(l->axis);
        if (!least && a.key != AnnotationKey::kCooperativeFetch) continue;
        const Column value = annotation(a);
        if (value == kNoColumn) return false;
        const Column gone = b_.negate(repeats(*l));
        if (least) {
          require(legal, b_.either(gone, b_.less_equal(value, threads_)));
          continue;
        }
        visit(l->body, [&](Stmt x) {
          if (const Store* store = as<Store>(x)) {
            const Column wide = b_.mul(value, number(type_bytes(store->value->type)));
            require(legal, b_.either(gone, b_.less_equal(wide, number(kMaxAccessBytes))));
          }
          return true;
        });
      }
    }
    bool known = true;
    visit_children(s, [&](Stmt c) { known = known && loops(c, vthreads, legal); });
    return known;
  }
  Column annotation(const Annotation& a) { return analysis::column_of(b_, a.value, columns_.values); }

  void find_places() {
    Stmt root = nest_.root;
    for (; const Alloc* a = as<Alloc>(root); root = a->body)
      for (Id id : a->buffers) in_root_[id] = true;
    place(nest_.root, {number(0), number(0), number(1), number(1), number(0), number(1), number(0), false});
    for (Stmt launch : launches_) {
      Column any = number(0);
      visit(launch, [&](Stmt s) {
        const Loop* l = as<Loop>(s);
        if (l != nullptr && (is_grid(l->axis) || is_thread(l->axis))) any = b_.either(any, repeats(*l));
        return true;
      });
      visit(launch, [&](Stmt s) {
        if (const Alloc* a = as<Alloc>(s))
          for (Id id : a->buffers) places_.at(id).has_threads = any, places_.at(id).in_launch = true;
        return true;
      });
    }
  }
  void place(Stmt s, Place p) {
    if (const Alloc* a = as<Alloc>(s)) {
      p.inner_x = number(1), p.grid = number(0);
      visit(a->body, [&](Stmt c) {
        const Loop* l = as<Loop>(c);
        if (l != nullptr && l->axis == Axis::kThreadX) p.inner_x = b_.max(p.inner_x, extent(*l));
        if (l != nullptr && is_grid(l->axis)) p.grid = b_.either(p.grid, repeats(*l));
        return true;
      });
      for (Id id : a->buffers) places_.insert_or_assign(id, p);
    }
    if (const Loop* l = as<Loop>(s)) {
      if (is_thread(l->axis)) p.thread = b_.either(p.thread, repeats(*l));
      if (l->axis == Axis::kThreadX) p.thread_x = b_.either(p.thread_x, repeats(*l));
      if (l->axis == Axis::kVthread) p.vthreads = b_.mul(p.vthreads, extent(*l));
      for (const Annotation& a : l->annotations) {
        if (a.key != AnnotationKey::kPipelineDepth) continue;
        const Column depth = annotation(a);
        if (depth == kNoColumn) {
          known_ = false;
          continue;
        }
        p.versions = b_.select(repeats(*l), b_.max(b_.min(depth, extent(*l)), number(1)), p.versions);
      }
    }
    visit_children(s, [&](Stmt c) { place(c, p); });
  }

  // gpu_scopes(): 1 where the buffer is local, shared.
  static bool in_memory(Scope s) { return s == Scope::kGlobal || s == Scope::kWorkspace; }
  Column is_local(const Buffer& b) {
    if (in_root_.contains(b.id) && b.scope != Scope::kConst) return number(0);
    auto at = places_.find(b.id);
    if (!in_memory(b.scope) || at == places_.end() || !at->second.in_launch)
      return number(b.scope == Scope::kLocal ? 1 : 0);
    return b_.either(at->second.thread, b_.negate(at->second.has_threads));
  }
  Column is_shared(const Buffer& b) {
    if (in_root_.contains(b.id) && b.scope != Scope::kConst) return number(0);
    auto at = places_.find(b.id);
    if (!in_memory(b.scope) || at == places_.end() || !at->second.in_launch)
      return number(b.scope == Scope::kShared || b.scope == Scope::kClusterShared ? 1 : 0);
    return b_.negate(is_local(b));
  }

  void registers(LimitColumns& out) {
    Column local = number(0), consumer = number(0);
    for (const BufferColumns& s : columns_.buffers) {
      const Buffer& b = *s.buffer;
      if (b.role != BufferRole::kTemp) continue;
      const Column in_registers = is_local(b);
      const auto fragment = fragments_.find(b.id);
      const int64_t lanes = fragment == fragments_.end() ? 1 : fragment->second.lanes;
      if (fragment != fragments_.end()) require(out.legal, in_registers);
      const auto at = places_.find(b.id);
      const Column copies = at == places_.end() ? number(1) : at->second.vthreads;
      Column own = b_.floor_div(b_.mul(bytes(s), copies), number(lanes));
      if (lanes == 1 && b.scope == Scope::kLocal && at != places_.end()) {  // analysis::spread_threads
        const Place& p = at->second;
        const Column spreads =
            b_.both(b_.both(b_.less(number(1), p.inner_x), b_.negate(p.thread_x)), b_.negate(p.grid));
        own = b_.select(spreads, b_.max(b_.floor_div(bytes(s), p.inner_x), number(type_bytes(b.type))), own);
      }
      Column& sum = lanes > cuda_.warp_size ? consumer : local;
      sum = b_.add(sum, b_.mul(in_registers, own));
    }
    out.local_bytes = local;
    const Column whole = aligned(threads_, cuda_.warp_size);
    Column most = number(cuda_.max_registers_per_thread);
    if (cuda_.registers_per_block > 0) most = b_.min(most, b_.floor_div(number(cuda_.registers_per_block), whole));
    const Column words = b_.floor_div(local, number(4)), free = b_.sub(most, number(kMinAddressRegisters));
    require(out.legal, b_.either(b_.less_equal(local, number(0)), b_.less_equal(words, free)));
    require(out.legal, b_.less_equal(consumer, number(0)));  // warpgroups without roles have no registers
  }

  void shared(LimitColumns& out) {
    const int64_t limit = std::max(cuda_.shared_per_block, cuda_.shared_per_block_optin);
    out.shared_bytes = number(0);
    for (Stmt launch : launches_) {
      bool side_by_side = false;
      Column separate = number(0);
      visit(launch, [&](Stmt s) {
        if (const Loop* l = as<Loop>(s)) side_by_side |= l->axis == Axis::kClusterX || l->axis == Axis::kClusterY;
        const Alloc* a = as<Alloc>(s);
        if (a == nullptr) return true;
        for (Id id : a->buffers) {
          const Column behind = b_.add(aligned(separate, alignment(*nest_.buffer(id))), all_versions(id));
          separate = b_.select(is_shared(*nest_.buffer(id)), behind, separate);
        }
        return true;
      });
      const Column together = side_by_side ? separate : meeting(launch);
      const Column fits = b_.less_equal(separate, number(limit)), too_much = b_.less(number(limit), together);
      require(out.legal, b_.negate(too_much));
      require(out.decided, b_.either(fits, too_much));
      const Column apart = b_.less_equal(separate, number(cuda_.shared_per_block));
      out.shared_bytes = b_.max(out.shared_bytes, b_.select(apart, separate, together));
    }
  }
  static int64_t alignment(const Buffer& b) { return std::max<int64_t>(b.alignment, 16); }
  Column all_versions(Id id) { return b_.mul(bytes(columns_.buffer(id)), places_.at(id).versions); }
  // Bytes of shared buffers that are certain to live at the same time: those that one loop of several iterations
  // touches.
  Column meeting(Stmt s) {
    const Loop* l = as<Loop>(s);
    const bool serial = l != nullptr && (l->loop_kind != LoopKind::kBound || l->axis == Axis::kVthread);
    Column most = number(0);
    visit_children(s, [&](Stmt c) { most = b_.max(most, meeting(c)); });
    if (!serial && l != nullptr) return most;
    const bool statement = s->kind == StmtKind::kStore || s->kind == StmtKind::kInstrCall;
    if (!serial && !statement) return most;
    Touched touched = touched_buffers(s);
    touched.reads.merge(touched.writes);
    Column all = number(0);
    for (Id id : touched.reads)
      if (places_.contains(id)) all = b_.add(all, b_.mul(is_shared(*nest_.buffer(id)), all_versions(id)));
    return serial ? b_.select(repeats(*l), all, most) : all;
  }

  ColumnBuilder& b_;
  const Kernel& nest_;
  const analysis::NestColumns& columns_;
  const target::CudaInfo& cuda_;
  const std::map<Id, FragmentOperand> fragments_;
  std::vector<Stmt> launches_;
  std::map<Id, Column> extents_;
  std::map<Id, Place> places_;
  std::map<Id, bool> in_root_;
  Column threads_ = kNoColumn;
  bool known_ = true;  // all annotations are functions of the decisions
};

}  // namespace

bool cuda_limit_columns(ColumnBuilder& b, const Kernel& nest, const analysis::NestColumns& columns,
                        const target::Target& target, LimitColumns& out, std::string& why) {
  return GpuLimits(b, nest, columns, target.cuda).run(out, why);
}

}  // namespace tcc::lower
