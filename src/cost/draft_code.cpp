#include "cost/draft_code.h"

#include <algorithm>

#include "cost/gpu_figures.h"
#include "tcc/analysis/gpu_unrolling.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr double kFewCopies = 4;  // of a loop's body that straight code has, at least

bool is_thread_part(const Loop& l) {
  return is_thread(l.axis) || l.axis == Axis::kVthread;
}

}  // namespace

Column is_multiple(ColumnBuilder& b, Column c, double of) {
  return b.equal(b.floor_mod(c, b.constant(of)), b.constant(0));
}
bool is_bound(const Loop& l) {
  return l.loop_kind == LoopKind::kBound && l.axis != Axis::kVthread;
}

DraftCode::DraftCode(ColumnBuilder& b, const NestColumns& nest, int32_t root, const target::CudaInfo& cuda)
    : b_(b), nest_(nest), root_(root), cuda_(cuda) {
  for (const StatementColumns& s : nest.statements)
    if (!s.loops.empty() && s.loops[0] == root) statements_.push_back(&s);
  find_axes();
  find_places();
  find_expanded();
}

bool DraftCode::in_launch(int32_t l) const {
  while (loop(l).parent >= 0) l = loop(l).parent;
  return l == root_;
}

Column DraftCode::in_memory(const Buffer& b) {
  return b_.both(b_.negate(in_registers(b)), b_.negate(in_shared(b)));
}

void DraftCode::find_axes() {
  std::map<Axis, Column> axes;
  for (size_t l = 0; l < nest_.loops.size(); ++l) {
    const Loop& at = *nest_.loops[l].loop;
    if (at.loop_kind != LoopKind::kBound || !in_launch(static_cast<int32_t>(l))) continue;
    Column& n = axes.try_emplace(at.axis, number(1)).first->second;
    n = b_.max(n, nest_.loops[l].extent);
  }
  for (const StatementColumns* s : statements_)
    if (const InstrCall* call = as<InstrCall>(s->stmt)) {
      const Participants who = instruction(call->instr).participants;
      if (who == Participants::kWarp) lanes_ = std::max<int64_t>(lanes_, cuda_.warp_size);
      if (who == Participants::kWarpgroup) lanes_ = std::max<int64_t>(lanes_, cuda_.warp_size * kGroupWarps);
    }
  blocks_ = number(1), threads_ = number(static_cast<double>(lanes_));
  for (const auto& [axis, n] : axes) {
    if (is_grid(axis) || is_cluster(axis)) blocks_ = b_.mul(blocks_, n);
    if (is_thread(axis)) threads_ = b_.mul(threads_, n);
  }
  warps_ = b_.ceil_div(threads_, number(static_cast<double>(cuda_.warp_size)));
}

void DraftCode::find_places() {
  std::vector<int32_t> around;
  std::map<const Loop*, int32_t> positions;
  for (size_t l = 0; l < nest_.loops.size(); ++l) positions[nest_.loops[l].loop] = static_cast<int32_t>(l);
  find_places(loop(root_).loop, around, positions);
}

void DraftCode::find_places(Stmt s, std::vector<int32_t>& around, const std::map<const Loop*, int32_t>& positions) {
  const Loop* l = as<Loop>(s);
  if (l != nullptr) around.push_back(positions.at(l));
  if (const Alloc* a = as<Alloc>(s))
    for (Id id : a->buffers) {
      const Scope scope = nest_.buffer(id).buffer->scope;
      Place p = {number(scope == Scope::kLocal ? 1 : 0), number(scope == Scope::kShared ? 1 : 0), around};
      if (scope == Scope::kGlobal || scope == Scope::kWorkspace) {
        for (int32_t at : around)
          if (is_thread(loop(at).loop->axis)) p.registers = b_.either(p.registers, b_.less(number(1), loop(at).extent));
        p.shared = b_.negate(p.registers);
      }
      places_.emplace(id, p);
    }
  visit_children(s, [&](Stmt c) { find_places(c, around, positions); });
  if (l != nullptr) around.pop_back();
}

Column DraftCode::in_registers(const Buffer& b) {
  const auto at = places_.find(b.id);
  return at == places_.end() ? number(b.scope == Scope::kLocal ? 1 : 0) : at->second.registers;
}

Column DraftCode::in_shared(const Buffer& b) {
  const auto at = places_.find(b.id);
  return at == places_.end() ? number(b.scope == Scope::kShared ? 1 : 0) : at->second.shared;
}

DraftCode::Shape DraftCode::shape_of(const StatementColumns& s) {
  Shape out;
  out.times = s.executions, out.ahead = out.vector = out.lanes = number(1);
  Column shared_by = number(1);
  for (size_t i = 0; i < s.loops.size(); ++i) {
    const LoopColumns& l = loop(s.loops[i]);
    out.loops.push_back(&l);
    if (is_shared_copy(*l.loop) && !out.copying) {
      out.copying = true, out.copy = i;
      out.times = b_.div(out.times, shared_by);
      if (Expr e = find_annotation(*l.loop, AnnotationKey::kCooperativeFetch); e != nullptr)
        if (const Column lanes = analysis::column_of(b_, e, nest_.values); lanes != kNoColumn)
          out.lanes = lanes, out.vector = whole_vector(s, i, lanes);
    }
    if (is_thread_part(*l.loop)) shared_by = b_.mul(shared_by, l.extent);
    if (Expr depth = find_annotation(*l.loop, AnnotationKey::kPipelineDepth); depth != nullptr)
      if (const Column n = analysis::column_of(b_, depth, nest_.values); n != kNoColumn)
        out.ahead = b_.max(out.ahead, b_.min(n, l.extent));
  }
  for (int32_t l : s.loops) out.expanded.push_back(expanded_[static_cast<size_t>(l)]);
  return out;
}

// Which loops are written out whole, from the innermost ones outward: what the code in them has as statements counts.
void DraftCode::find_expanded() {
  std::vector<Column> size(nest_.loops.size(), number(0)), picks = size, memory = size;
  expanded_.assign(nest_.loops.size(), number(0));
  for (const StatementColumns* s : statements_) {
    // Virtual threads become the innermost loops of a statement, but for copies that the block shares.
    Column copies = number(1);
    const bool copying =
        std::any_of(s->loops.begin(), s->loops.end(), [&](int32_t l) { return is_shared_copy(*loop(l).loop); });
    for (int32_t l : s->loops)
      if (!copying && loop(l).loop->axis == Axis::kVthread) copies = b_.mul(copies, loop(l).extent);
    size[static_cast<size_t>(s->loops.back())] = b_.add(size[static_cast<size_t>(s->loops.back())], copies);
    for (size_t i = 0; i < s->loops.size(); ++i)
      for (const AccessColumns& a : s->accesses) {
        const auto l = static_cast<size_t>(s->loops[i]);
        if (a.moves[i]) picks[l] = b_.either(picks[l], in_registers(*a.buffer));
        memory[l] = b_.either(memory[l], in_memory(*a.buffer));
      }
  }
  for (size_t l = nest_.loops.size(); l-- > 0;) {
    const LoopColumns& at = nest_.loops[l];
    const LoopKind kind = at.loop->loop_kind;
    if (kind == LoopKind::kVectorized || kind == LoopKind::kUnrolled || at.loop->axis == Axis::kVthread) {
      expanded_[l] = number(1);
    } else if (kind != LoopKind::kBound && in_launch(static_cast<int32_t>(l))) {
      const Column chosen = b_.both(picks[l], b_.less_equal(at.extent, number(analysis::kMaxRegisterLoop)));
      const Column all = b_.mul(size[l], at.extent), limit = unroll_limit(static_cast<int32_t>(l));
      // Where a few iterations are straight code, the others are like them.
      const Column most = b_.select(memory[l], number(analysis::max_unrolled_statements(false, is_matrix())),
                                    number(analysis::max_unrolled_statements(true, is_matrix())));
      const Column few = b_.less_equal(size[l], scaled(most, 1 / kFewCopies));
      const Column is_short = b_.either(picks[l], b_.either(b_.less_equal(all, most), few));
      const Column asked = b_.both(b_.both(b_.less(number(0), limit), b_.less_equal(all, limit)), is_short);
      expanded_[l] = b_.either(b_.either(chosen, asked), b_.less_equal(at.extent, number(1)));
    }
    if (at.parent < 0) continue;
    Column& around = size[static_cast<size_t>(at.parent)];
    const bool is_virtual = at.loop->axis == Axis::kVthread;
    around = b_.add(around, is_virtual ? size[l] : b_.mul(size[l], b_.select(expanded_[l], at.extent, number(1))));
  }
}

// The annotation unroll_max of the nearest loop around that has several iterations; 0: none.
Column DraftCode::unroll_limit(int32_t l) {
  std::vector<int32_t> around;
  for (int32_t at = l; at >= 0; at = loop(at).parent) around.push_back(at);
  Column limit = number(0);
  for (size_t i = around.size(); i-- > 0;)
    if (const LoopColumns& at = loop(around[i]); !b_.is(at.unroll_max, 0))
      limit = b_.select(repeats(at), at.unroll_max, limit);
  return limit;
}

Column DraftCode::whole_vector(const StatementColumns& s, size_t copy, Column lanes) {
  Column whole = number(1);
  for (const AccessColumns& a : s.accesses) {
    whole = b_.both(whole, b_.equal(b_.floor_mod(a.row[copy], lanes), number(0)));
    const Column last = nest_.buffer(a.buffer->id).shape.back();
    whole = b_.both(whole, b_.equal(b_.floor_mod(last, lanes), number(0)));
  }
  return b_.select(whole, lanes, number(1));
}

Column DraftCode::reused(const Shape& h, const AccessColumns& a) {
  Column left = h.times, open = number(1);
  // Around its allocation a buffer holds other values in each iteration.
  const auto place = places_.find(a.buffer->id);
  const size_t from = place == places_.end() ? 0 : place->second.around.size();
  const Column common = in_shared(*a.buffer);
  for (size_t i = h.loops.size(); i-- > 0;) {
    const Column extent = h.loops[i]->extent;
    // Virtual threads become the innermost loops of the statements that differ between them.
    if (h.loops[i]->loop->axis == Axis::kVthread && !a.moves[i] && !h.copying) {
      left = b_.div(left, i >= from ? extent : b_.select(common, extent, number(1)));
      continue;
    }
    if (i < from) continue;
    if (is_bound(*h.loops[i]->loop)) {
      open = b_.both(open, b_.negate(repeats(*h.loops[i])));
    } else if (!a.moves[i]) {
      left = b_.div(left, b_.select(open, extent, number(1)));
    } else {
      open = b_.both(open, h.expanded[i]);
      // Windows overlap: straight code loads each element once.
      const Column distinct = b_.div(a.touched[i], b_.mul(a.touched[i + 1], extent));
      left = b_.mul(left, b_.select(open, distinct, number(1)));
    }
  }
  return left;
}

Column DraftCode::own_run(const Shape& h, const AccessColumns& a) {
  Column run = number(1), open = number(1);
  for (size_t i = h.loops.size(); i-- > 0 && !b_.is(open, 0);) {
    const Column one = b_.negate(repeats(*h.loops[i]));
    if (is_bound(*h.loops[i]->loop)) {
      open = b_.both(open, one);
      continue;
    }
    if (!a.moves[i]) continue;
    const Column next = a.step[i] == kNoColumn ? number(0) : b_.equal(a.step[i], run);
    const Column grows = b_.both(open, next);
    open = b_.both(open, b_.either(next, one));
    run = b_.mul(run, b_.select(grows, h.loops[i]->extent, number(1)));
  }
  return run;
}

Column DraftCode::vector_of(const Shape& h, const AccessColumns& a) {
  const double widest =
      std::max(static_cast<double>(kMaxAccessBytes) / static_cast<double>(type_bytes(a.buffer->type)), 1.0);
  Column width = number(1), open = number(1);
  for (size_t i = h.loops.size(); i-- > 0 && !b_.is(open, 0);) {
    const Column one = b_.negate(repeats(*h.loops[i]));
    if (a.moves[i] && a.step[i] != kNoColumn && b_.least(a.step[i]) <= 1) {
      const Column next =
          b_.both(b_.both(open, b_.equal(a.step[i], number(1))), b_.both(h.expanded[i], b_.negate(one)));
      for (double w = 2; w <= widest && !b_.is(next, 0); w *= 2) {
        Column fits = b_.both(next, is_multiple(b_, h.loops[i]->extent, w));
        for (size_t o = 0; o < h.loops.size(); ++o)
          if (o != i && a.moves[o] && a.step[o] != kNoColumn)
            fits = b_.both(fits, b_.either(is_multiple(b_, a.step[o], w), b_.negate(repeats(*h.loops[o]))));
        width = b_.select(fits, number(w), width);
      }
      open = b_.both(open, b_.negate(next));
    }
    open = b_.both(open, is_bound(*h.loops[i]->loop) ? one : h.expanded[i]);
  }
  return width;
}

Column DraftCode::along(const Shape& h, const AccessColumns& a) {
  Column step = number(0);
  for (size_t i = 0; i < h.loops.size(); ++i)
    if (h.loops[i]->loop->axis == Axis::kThreadX && a.moves[i]) {
      const Column own = a.step[i] == kNoColumn ? number(1) : b_.max(a.step[i], b_.sub(number(0), a.step[i]));
      step = b_.select(b_.less(number(1), h.loops[i]->extent), own, step);
    }
  return step;
}

Column DraftCode::straight_elements(const Shape& h, const AccessColumns& a) {
  Column elements = number(1), open = number(1), copies = number(1);
  for (size_t i = h.loops.size(); i-- > 0;) {
    if (h.loops[i]->loop->axis == Axis::kVthread) {
      if (a.moves[i]) copies = b_.mul(copies, h.loops[i]->extent);
      continue;
    }
    open = b_.both(open, is_bound(*h.loops[i]->loop) ? b_.negate(repeats(*h.loops[i])) : h.expanded[i]);
    elements = b_.select(open, a.touched[i], elements);
  }
  return b_.mul(elements, copies);
}

Column DraftCode::steps_of(const Shape& h) {
  Column steps = number(1);
  for (size_t i = 0; i < h.loops.size(); ++i)
    if (!is_bound(*h.loops[i]->loop)) steps = b_.mul(steps, b_.select(h.expanded[i], number(1), h.loops[i]->extent));
  return steps;
}

}  // namespace tcc::cost
