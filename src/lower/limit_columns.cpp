// The checks of check_limits.cpp on columns. What decisions change in a kernel's structure, lowering changes by
// dropping loops of one iteration: a buffer whose loops are all dropped is no longer on the stack, and a launch whose
// parallel loop is dropped falls apart into its statements. The former is a condition here. The latter matters where
// buffers take much of the stack, and then the kernel decides.
#include "lower/limit_columns.h"

#include <map>

#include "lower/host_limits.h"
#include "lower/split_launches.h"
#include "tcc/analysis/local_storage.h"
#include "tcc/ir/query.h"

namespace tcc::lower {

using namespace ir;

namespace {

class HostLimits {
 public:
  HostLimits(ColumnBuilder& b, const Kernel& nest, const analysis::NestColumns& columns)
      : b_(b), columns_(columns), launches_(host_launches(nest.root)) {
    for (const analysis::LoopColumns& l : columns.loops) extents_[l.loop->id] = l.extent;
    find_places(nest.root, b.constant(0));
  }

  bool run(LimitColumns& out, std::string& why) {
    out.legal = out.decided = number(1);
    for (const analysis::LoopColumns& l : columns_.loops) {
      if (l.loop->loop_kind == LoopKind::kVectorized) require(out.legal, b_.less_equal(l.extent, number(kMaxVector)));
      if (l.loop->loop_kind == LoopKind::kBound) return why = "loops are bound to GPU axes on a CPU", false;
    }
    Column local = number(0), temporary = number(0);
    for (const BufferColumns& s : columns_.buffers) {
      if (s.buffer->role != BufferRole::kTemp) continue;
      Column on_stack = number(s.buffer->scope == Scope::kLocal ? 1 : 0);
      if (auto at = inside_.find(s.buffer->id); at != inside_.end()) on_stack = b_.either(on_stack, at->second);
      local = b_.add(local, b_.mul(on_stack, bytes(s)));
      temporary = b_.add(temporary, b_.mul(b_.negate(on_stack), bytes(s)));
    }
    out.local_bytes = local, out.temporary_bytes = temporary;
    require(out.legal, b_.less_equal(local, number(target::kMaxStackBytes)));
    require(out.legal, b_.less_equal(temporary, number(kMaxHostTempBytes)));
    const Column safe = b_.less_equal(local, number(kSafeHostLocalBytes));
    if (b_.is(safe, 1)) return true;
    // As long as no launch is dropped, each has the buffers that it has here.
    Column launched = number(1);
    for (const HostLaunch& launch : launches_.launches)
      for (Stmt s : launch.stmts)
        if (const Loop* l = as<Loop>(s)) require(launched, b_.less(number(1), extents_.at(l->id)));
    const Column fits = b_.less_equal(largest_stack(), number(target::kMaxStackBytes));
    out.decided = b_.either(b_.either(safe, b_.negate(out.legal)), launched);
    require(out.legal, b_.either(safe, fits));
    return true;
  }

 private:
  Column number(int64_t value) { return b_.constant(static_cast<double>(value)); }
  void require(Column& all, Column condition) { all = b_.both(all, condition); }
  Column bytes(const BufferColumns& s) { return b_.mul(s.elements, number(type_bytes(s.buffer->type))); }

  // inside_: 1 where a loop around the buffer's Alloc has several iterations.
  void find_places(Stmt s, Column repeated) {
    if (const Alloc* a = as<Alloc>(s))
      for (Id id : a->buffers) inside_[id] = repeated;
    if (const Loop* l = as<Loop>(s)) repeated = b_.either(repeated, b_.less(number(1), extents_.at(l->id)));
    visit_children(s, [&](Stmt child) { find_places(child, repeated); });
  }

  Column largest_stack() {
    Column largest = number(0);
    for (const HostLaunch& launch : launches_.launches) {
      const bool parallel = launch.is_parallel();
      Column stack = number(0);
      for (Id id : launch.allocated()) stack = b_.add(stack, on_stack(columns_.buffer(id), parallel));
      largest = b_.max(largest, parallel ? stack : b_.min(stack, number(target::kMaxStackBytes)));
    }
    return largest;
  }
  Column on_stack(const BufferColumns& s, bool parallel) {
    if (s.buffer->scope == Scope::kAmxTile) return number(0);
    const bool laid_out = s.buffer->layout != nullptr || s.buffer->padding.dim >= 0;
    const Column most = laid_out ? bytes(s) : b_.mul(elements_at_most(s), number(type_bytes(s.buffer->type)));
    return parallel ? most : b_.select(b_.less_equal(bytes(s), number(kSmallBytes)), most, number(0));
  }
  // analysis::local_elements_at_most.
  Column elements_at_most(const BufferColumns& s) {
    Column most = s.elements;
    for (Column extent : s.shape) {
      const Column pads = b_.both(b_.less(number(2), extent), b_.less(extent, number(analysis::kPaddedBelow)));
      const Column padded = b_.select(pads, b_.bit_ceil(extent), extent);
      const Column elements = b_.mul(b_.floor_div(s.elements, extent), padded);
      const Column small =
          b_.less_equal(b_.mul(elements, number(type_bytes(s.buffer->type))), number(analysis::kPaddedBytes));
      most = b_.max(most, b_.mul(small, elements));
    }
    return most;
  }

  ColumnBuilder& b_;
  const analysis::NestColumns& columns_;
  HostLaunches launches_;
  std::map<Id, Column> extents_, inside_;
};

}  // namespace

bool cpu_limit_columns(ColumnBuilder& b, const Kernel& nest, const analysis::NestColumns& columns,
                       const target::Target&, LimitColumns& out, std::string& why) {
  return HostLimits(b, nest, columns).run(out, why);
}

}  // namespace tcc::lower
