// The draft model of GPUs, "tcc": what a launch asks of registers, shared memory, caches, memory, schedulers and tensor
// cores, by the constants of the target's description (tcc/target/sm_model.h). It is gpu_facts.h on columns, and leaves
// out what needs the kernel itself: quotients in indices, predicates that may always hold, equal values, the batches of
// loads that lowering chooses.
#include <algorithm>
#include <cmath>
#include <map>

#include "cost/draft_parts.h"
#include "cost/gpu_copies.h"
#include "tcc/analysis/gpu_unrolling.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr double kAddressRegisters = 24;  // of a thread, beside its local arrays
constexpr double kFewCopies = 4;          // of a loop's body that straight code has, at least
constexpr double kSoonBytes = 64;         // of one operand in shared memory, that a thread loads ahead
constexpr double kSpill = 0.02;           // of a thread's arithmetic, for each register too many
constexpr double kSwizzledConflicts = 4;  // of columns, where rows keep pieces of 16 bytes
constexpr double kFragmentRow = 8;        // elements of a fragment's row that lanes hold together
constexpr auto kWidest = static_cast<double>(kMaxAccessBytes);
constexpr double kExchangedShare = 0.25;  // of a launch's traffic, from which on threads wait for each other

double matrix_peak(const target::Peaks& peak, Type t) {
  if (t == Type::kF16) return peak.fp16;
  if (t == Type::kBF16) return peak.bf16;
  if (t == Type::kF32) return peak.tf32;
  return t == Type::kI8 || t == Type::kU8 ? peak.int8 : 0;
}
bool is_cluster(Axis a) {
  return a == Axis::kClusterX || a == Axis::kClusterY;
}
bool is_copy(const Loop& l) {
  return has_annotation(l, AnnotationKey::kCooperativeFetch);
}

// Where a buffer is: 1 in the column of its place; in memory where both are 0.
struct Place {
  Column registers, shared;
  std::vector<int32_t> around;  // loops of the nest around its allocation
};

class GpuLaunch {
 public:
  GpuLaunch(ColumnBuilder& b, const NestColumns& nest, int32_t root, const target::Target& target,
            const DraftOptions& options)
      : b_(b), nest_(nest), root_(root), target_(target), cuda_(target.cuda), model_(target.cuda.model), o_(options) {
    for (const StatementColumns& s : nest.statements)
      if (!s.loops.empty() && s.loops[0] == root) statements_.push_back(&s);
    find_axes();
    find_places();
  }

  Column seconds() {
    storage();
    find_expanded();
    for (const StatementColumns* s : statements_) count(*s);
    for (size_t l = 0; l < nest_.loops.size(); ++l) count_loop(static_cast<int32_t>(l));
    return b_.add(number(cuda_.launch_seconds), time());
  }

 private:
  Column number(double value) { return b_.constant(value); }
  Column scaled(Column c, double by) { return b_.mul(c, number(by)); }
  bool without(DraftPenalty p) const { return leaves_out(o_, p); }
  const LoopColumns& loop(int32_t l) const { return nest_.loops[static_cast<size_t>(l)]; }
  static bool is_thread_part(const Loop& l) { return is_thread(l.axis) || l.axis == Axis::kVthread; }
  static bool bound(const Loop& l) { return l.loop_kind == LoopKind::kBound && l.axis != Axis::kVthread; }

  Column repeats(const LoopColumns& l) { return b_.less(number(1), l.extent); }

  bool in_launch(int32_t l) const {
    while (loop(l).parent >= 0) l = loop(l).parent;
    return l == root_;
  }

  void find_axes() {
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
    warps_ = b_.ceil_div(threads_, number(warp()));
  }
  bool matrix() const { return lanes_ > 1; }
  double warp() const { return static_cast<double>(cuda_.warp_size); }

  void find_places() {
    std::vector<int32_t> around;
    std::map<const Loop*, int32_t> positions;
    for (size_t l = 0; l < nest_.loops.size(); ++l) positions[nest_.loops[l].loop] = static_cast<int32_t>(l);
    find_places(loop(root_).loop, around, positions);
  }
  void find_places(Stmt s, std::vector<int32_t>& around, const std::map<const Loop*, int32_t>& positions) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr) around.push_back(positions.at(l));
    if (const Alloc* a = as<Alloc>(s))
      for (Id id : a->buffers) {
        const Scope scope = nest_.buffer(id).buffer->scope;
        Place p = {number(scope == Scope::kLocal ? 1 : 0), number(scope == Scope::kShared ? 1 : 0), around};
        if (scope == Scope::kGlobal || scope == Scope::kWorkspace) {
          for (int32_t at : around)
            if (is_thread(loop(at).loop->axis))
              p.registers = b_.either(p.registers, b_.less(number(1), loop(at).extent));
          p.shared = b_.negate(p.registers);
        }
        places_.emplace(id, p);
      }
    visit_children(s, [&](Stmt c) { find_places(c, around, positions); });
    if (l != nullptr) around.pop_back();
  }
  Column in_registers(const Buffer& b) {
    const auto at = places_.find(b.id);
    return at == places_.end() ? number(b.scope == Scope::kLocal ? 1 : 0) : at->second.registers;
  }
  Column in_shared(const Buffer& b) {
    const auto at = places_.find(b.id);
    return at == places_.end() ? number(b.scope == Scope::kShared ? 1 : 0) : at->second.shared;
  }
  Column in_memory(const Buffer& b) { return b_.both(b_.negate(in_registers(b)), b_.negate(in_shared(b))); }
  static double bytes_of(const Buffer& b) { return static_cast<double>(type_bytes(b.type)); }

  // Registers, shared memory, stages of pipelines, barriers.
  void storage() {
    registers_ = number(kAddressRegisters), shared_bytes_ = number(0), stages_ = number(1);
    step_cycles_ = number(0), waits_ = number(0);
    for (const auto& [id, p] : places_) {
      const analysis::BufferColumns& s = nest_.buffer(id);
      Column vthreads = number(1), around = number(1), stages = number(1), steps = number(1);
      for (int32_t l : p.around) {
        const Loop& at = *loop(l).loop;
        if (is_thread(at.axis)) around = b_.mul(around, loop(l).extent);
        if (at.axis == Axis::kVthread) vthreads = b_.mul(vthreads, loop(l).extent);
        if (at.loop_kind != LoopKind::kBound) steps = b_.mul(steps, loop(l).extent);
        if (Expr depth = find_annotation(at, AnnotationKey::kPipelineDepth); depth != nullptr) {
          const Column n = analysis::column_of(b_, depth, nest_.values);
          if (n != kNoColumn) stages = b_.max(stages, b_.min(n, loop(l).extent));
        }
      }
      const double bytes = bytes_of(*s.buffer);
      const Column spread =
          matrix() ? number(static_cast<double>(lanes_)) : b_.max(b_.div(threads_, around), number(1));
      const Column one = b_.max(b_.div(scaled(s.elements, bytes / 4), spread), number(1));
      registers_ = b_.add(registers_, b_.mul(p.registers, b_.mul(one, vthreads)));
      shared_bytes_ = b_.add(shared_bytes_, b_.mul(p.shared, b_.mul(scaled(s.elements, bytes), stages)));
      stages_ = b_.max(stages_, b_.mul(p.shared, stages));
      step_cycles_ = b_.max(step_cycles_, b_.mul(p.shared, scaled(steps, model_.barrier_cycles)));
      waits_ = b_.either(waits_, p.shared);
    }
    flops_ = matrix_seconds_ = instructions_ = special_ = shared_ = moved_ = memory_ = number(0);
    latency_ = copy_latency_ = pending_ = chain_ = exchanged_ = number(0);
  }

  // How a statement's loops become code.
  struct Shape {
    std::vector<const LoopColumns*> loops;
    std::vector<Column> expanded;  // 1: all iterations are one piece of code
    bool copying = false;
    size_t copy = 0;       // the loop whose iterations threads share
    Column times, ahead;   // executions by all threads; steps that a pipeline loads ahead
    Column vector, lanes;  // elements of a copy at a time; those from thread to thread
  };

  Shape shape_of(const StatementColumns& s) {
    Shape out;
    out.times = s.executions, out.ahead = out.vector = out.lanes = number(1);
    Column shared_by = number(1);
    for (size_t i = 0; i < s.loops.size(); ++i) {
      const LoopColumns& l = loop(s.loops[i]);
      out.loops.push_back(&l);
      if (is_copy(*l.loop) && !out.copying) {
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
  void find_expanded() {
    std::vector<Column> size(nest_.loops.size(), number(0)), picks = size, memory = size;
    expanded_.assign(nest_.loops.size(), number(0));
    for (const StatementColumns* s : statements_) {
      // Virtual threads become the innermost loops of a statement, but for copies that the block shares.
      Column copies = number(1);
      const bool copying =
          std::any_of(s->loops.begin(), s->loops.end(), [&](int32_t l) { return is_copy(*loop(l).loop); });
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
        const Column most = b_.select(memory[l], number(analysis::max_unrolled_statements(false, matrix())),
                                      number(analysis::max_unrolled_statements(true, matrix())));
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
  Column unroll_limit(int32_t l) {
    std::vector<int32_t> around;
    for (int32_t at = l; at >= 0; at = loop(at).parent) around.push_back(at);
    Column limit = number(0);
    for (size_t i = around.size(); i-- > 0;)
      if (const LoopColumns& at = loop(around[i]); !b_.is(at.unroll_max, 0))
        limit = b_.select(repeats(at), at.unroll_max, limit);
    return limit;
  }
  Column whole_vector(const StatementColumns& s, size_t copy, Column lanes) {
    Column whole = number(1);
    for (const AccessColumns& a : s.accesses) {
      whole = b_.both(whole, b_.equal(b_.floor_mod(a.row[copy], lanes), number(0)));
      const Column last = nest_.buffer(a.buffer->id).shape.back();
      whole = b_.both(whole, b_.equal(b_.floor_mod(last, lanes), number(0)));
    }
    return b_.select(whole, lanes, number(1));
  }

  Column in_warps(Column times) { return b_.mul(b_.div(times, threads_), warps_); }

  // Executions that remain where registers keep the value.
  Column reused(const Shape& h, const AccessColumns& a) {
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
      if (bound(*h.loops[i]->loop)) {
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
  // Neighbouring elements that the thread itself accesses one after the other.
  Column own_run(const Shape& h, const AccessColumns& a) {
    Column run = number(1), open = number(1);
    for (size_t i = h.loops.size(); i-- > 0 && !b_.is(open, 0);) {
      const Column one = b_.negate(repeats(*h.loops[i]));
      if (bound(*h.loops[i]->loop)) {
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
  // Elements of one access: of the innermost expanded loop that steps by one, as far as other steps are multiples.
  Column vector_of(const Shape& h, const AccessColumns& a) {
    const double widest = std::max(kWidest / bytes_of(*a.buffer), 1.0);
    Column width = number(1), open = number(1);
    for (size_t i = h.loops.size(); i-- > 0 && !b_.is(open, 0);) {
      const Column one = b_.negate(repeats(*h.loops[i]));
      if (a.moves[i] && a.step[i] != kNoColumn && b_.least(a.step[i]) <= 1) {
        const Column next =
            b_.both(b_.both(open, b_.equal(a.step[i], number(1))), b_.both(h.expanded[i], b_.negate(one)));
        for (double w = 2; w <= widest && !b_.is(next, 0); w *= 2) {
          Column fits = b_.both(next, divides(w, h.loops[i]->extent));
          for (size_t o = 0; o < h.loops.size(); ++o)
            if (o != i && a.moves[o] && a.step[o] != kNoColumn)
              fits = b_.both(fits, b_.either(divides(w, a.step[o]), b_.negate(repeats(*h.loops[o]))));
          width = b_.select(fits, number(w), width);
        }
        open = b_.both(open, b_.negate(next));
      }
      open = b_.both(open, bound(*h.loops[i]->loop) ? one : h.expanded[i]);
    }
    return width;
  }
  Column divides(double by, Column c) { return b_.equal(b_.floor_mod(c, number(by)), number(0)); }

  void count(const StatementColumns& s) {
    const Shape h = shape_of(s);
    if (const InstrCall* call = as<InstrCall>(s.stmt)) return count(s, *call);
    const bool sums = std::any_of(s.accesses.begin(), s.accesses.end() - 1,
                                  [&](const AccessColumns& a) { return a.buffer == s.accesses.back().buffer; });
    if (h.copying) {
      const Column pieces = b_.div(in_warps(h.times), h.vector);
      instructions_ = b_.add(instructions_, scaled(pieces, model_.copy_instructions));
    } else {
      const double work = s.flops + s.int_ops;
      flops_ = b_.add(flops_, scaled(s.executions, s.flops + 7 * s.calls));
      const double instructions = (sums && s.calls == 0 ? work / 2 : work) + model_.exp_instructions * s.calls;
      instructions_ = b_.add(instructions_, scaled(in_warps(s.executions), instructions));
      special_ = b_.add(special_, scaled(s.executions, s.calls));
      if (sums) count_chain(h, s.accesses.back());
    }
    wait_ = number(0);
    Column pending = number(0);  // bytes
    for (const AccessColumns& a : s.accesses)
      if (!h.copying && !a.write && !b_.is(in_registers(*a.buffer), 1)) {
        // What shared memory holds arrives soon: it is loaded a few statements ahead.
        const Column all = scaled(straight_elements(h, a), bytes_of(*a.buffer));
        const Column few = b_.min(all, number(kSoonBytes));
        const Column bytes = b_.select(in_shared(*a.buffer), few, all);
        pending = b_.add(pending, b_.mul(b_.negate(in_registers(*a.buffer)), bytes));
      }
    pending_ = b_.max(pending_, scaled(pending, 0.25));
    for (const AccessColumns& a : s.accesses) count(h, a, s);
    if (h.copying)
      copy_latency_ = b_.max(copy_latency_, wait_);
    else
      latency_ = b_.add(latency_, wait_);
    const Buffer& stored = *s.accesses.back().buffer;
    if (!sums) exchanged_ = b_.add(exchanged_, b_.mul(in_shared(stored), scaled(h.times, bytes_of(stored))));
  }
  void count(const StatementColumns& s, const InstrCall& call) {
    const Instruction& row = instruction(call.instr);
    const bool by_warp = row.participants == Participants::kWarp;
    const double rate = matrix_peak(target_.peak, row.operands.back().type) * (by_warp ? model_.warp_matrix_share : 1);
    instructions_ = b_.add(instructions_, s.executions);
    const double flops = static_cast<double>(row.flops);
    if (flops > 0) matrix_seconds_ = b_.add(matrix_seconds_, scaled(s.executions, flops / std::max(rate, 1.0)));
    for (const OperandSpec& o : row.operands)
      if (o.scope == Scope::kShared && o.rank == 2 && row.flops > 0)
        shared_ = b_.add(shared_, scaled(s.executions, static_cast<double>(o.tile[0] * o.tile[1] * type_bytes(o.type)) /
                                                           model_.l1_bytes_per_cycle));
  }
  // A sum waits for itself, as far as straight code has no other sums.
  void count_chain(const Shape& h, const AccessColumns& stored) {
    Column steps = number(model_.arithmetic_latency_cycles);
    for (size_t i = 0; i < h.loops.size(); ++i) {
      if (bound(*h.loops[i]->loop)) continue;
      const Column own = stored.moves[i] ? b_.select(h.expanded[i], number(1), h.loops[i]->extent) : h.loops[i]->extent;
      steps = b_.mul(steps, own);
    }
    chain_ = b_.add(chain_, steps);
  }

  void count(const Shape& h, const AccessColumns& a, const StatementColumns& s) {
    const Column registers = in_registers(*a.buffer), shared = in_shared(*a.buffer);
    if (b_.is(registers, 1)) return;
    const Column left = h.copying ? h.times : reused(h, a);
    const Column memory = b_.mul(b_.negate(registers), b_.negate(shared));
    if (!b_.is(shared, 0)) {
      shared_ = b_.add(shared_, b_.mul(shared, shared_cycles(h, a, left)));
      if (!a.write && !h.copying)
        wait_ = b_.max(wait_, b_.mul(shared, scaled(steps_of(h), model_.shared_latency_cycles)));
    }
    if (!b_.is(memory, 0)) count_memory(h, a, s, left, memory);
  }
  // The step from thread to thread.
  Column along(const Shape& h, const AccessColumns& a) {
    Column step = number(0);
    for (size_t i = 0; i < h.loops.size(); ++i)
      if (h.loops[i]->loop->axis == Axis::kThreadX && a.moves[i]) {
        const Column own = a.step[i] == kNoColumn ? number(1) : b_.max(a.step[i], b_.sub(number(0), a.step[i]));
        step = b_.select(b_.less(number(1), h.loops[i]->extent), own, step);
      }
    return step;
  }
  // Of 16 bytes a lane the banks serve half a warp at a time, and what its lanes share only once: the share of the two
  // cycles that 16 different pieces take, a half at least.
  Column half_warp_share(const Shape& h, const AccessColumns& a, Column vector, double bytes) {
    const double half = warp() / 2;
    Column lanes = number(1), different = number(1);
    for (const Axis axis : {Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ})
      for (size_t i = 0; i < h.loops.size(); ++i) {
        if (h.loops[i]->loop->axis != axis) continue;
        const Column here = b_.max(b_.min(h.loops[i]->extent, b_.div(number(half), lanes)), number(1));
        lanes = b_.mul(lanes, here);
        if (a.moves[i]) different = b_.mul(different, here);
      }
    const Column share = b_.min(b_.max(scaled(different, 1 / half), number(0.5)), number(1));
    return b_.select(b_.less(scaled(vector, bytes), number(kWidest)), number(1), share);
  }
  Column shared_cycles(const Shape& h, const AccessColumns& a, Column left) {
    const double bytes = bytes_of(*a.buffer);
    if (h.copying) return scaled(in_warps(left), bytes / 4);
    Column conflicts = number(1);
    const Column vector = matrix() ? number(kWidest / bytes) : vector_of(h, a);
    if (!matrix() && !without(DraftPenalty::kLines)) {
      const Column words = scaled(along(h, a), bytes / 4);
      for (double w = 2; w <= kSwizzledConflicts; w *= 2) {
        const Column apart = b_.both(b_.less_equal(number(2), words), divides(w, words));
        conflicts = b_.select(apart, number(w), conflicts);
      }
      const Column alone = b_.less_equal(words, scaled(own_run(h, a), bytes / 4));
      conflicts = b_.select(alone, number(1), conflicts);
    }
    instructions_ = b_.add(instructions_, b_.mul(in_shared(*a.buffer), b_.div(in_warps(left), vector)));
    const Column wide = b_.less_equal(number(4), scaled(vector, bytes));
    if (!matrix() && !without(DraftPenalty::kLines))
      conflicts = b_.mul(conflicts, half_warp_share(h, a, vector, bytes));
    return b_.mul(b_.mul(in_warps(left), conflicts),
                  b_.select(wide, number(bytes / 4), number(std::max(1.0, bytes / 4))));
  }

  void count_memory(const Shape& h, const AccessColumns& a, const StatementColumns& s, Column left, Column memory) {
    const double bytes = bytes_of(*a.buffer), sector = static_cast<double>(cuda_.memory_transaction_bytes);
    const double line = model_.l1_bytes_per_cycle;
    const bool lines = !without(DraftPenalty::kLines);
    Column moved, accesses;
    if (h.copying) {
      // The first-level cache looks up a line at a time for narrow copies. Lanes of a copy that goes element by element
      // have whole vectors between them all the same.
      const Column row = scaled(a.row[h.copy], bytes), piece = scaled(h.lanes, bytes);
      const Column near = b_.min(b_.max(row, piece), number(line));
      const Column narrow = b_.less(scaled(h.vector, bytes), number(kWidest));
      const Column looked_up = b_.div(scaled(b_.div(h.lanes, h.vector), kCopyLineCycles), near);
      accesses = scaled(left, bytes / line);
      if (lines) accesses = b_.select(narrow, b_.max(accesses, scaled(b_.mul(left, looked_up), bytes)), accesses);
      const Column part = b_.both(b_.less(number(bytes), row), b_.less(row, number(sector)));
      const Column waste = lines ? b_.select(part, b_.div(number(sector), row), number(1)) : number(1);
      moved = b_.mul(scaled(left, bytes), waste);
    } else if (matrix()) {
      const double rows = warp() / kFragmentRow;
      accesses = scaled(left, rows / warp());
      moved = scaled(left, rows * std::max(sector, kFragmentRow * bytes) / warp());
      instructions_ = b_.add(instructions_, b_.mul(memory, scaled(left, 0.5 / warp())));
    } else {
      const Column vector = vector_of(h, a), run = own_run(h, a), step = scaled(along(h, a), bytes);
      instructions_ = b_.add(instructions_, b_.mul(memory, b_.div(in_warps(left), vector)));
      Column across = number(1);
      for (size_t i = 0; i < h.loops.size(); ++i)
        if (h.loops[i]->loop->axis == Axis::kThreadX) across = h.loops[i]->extent;
      const Column together = b_.min(threads_, number(warp()));
      const Column row = b_.min(across, number(warp())), rows = b_.max(b_.div(together, row), number(1));
      const Column own = scaled(run, bytes), n = b_.div(left, together), others = b_.sub(row, number(1));
      const Column dense = b_.add(b_.mul(others, step), own);
      const Column pieces = scaled(b_.ceil_div(own, number(sector)), sector);
      const Column apart = b_.mul(row, b_.select(b_.less(step, number(sector)), step, pieces));
      Column one = b_.select(b_.less_equal(step, own), dense, apart);
      one = b_.max(b_.select(b_.less(number(0), step), one, own), number(sector));
      const Column wide = scaled(vector, bytes), span = b_.add(b_.mul(others, step), wide);
      const Column near = b_.max(scaled(span, 1 / line), number(1));
      const Column far = b_.min(row, b_.max(scaled(b_.mul(row, step), 1 / line), number(1)));
      Column touched = b_.select(b_.less_equal(step, wide), near, far);
      touched = b_.select(b_.less(number(0), step), touched, number(1));
      accesses = b_.div(b_.mul(b_.mul(n, rows), touched), vector);
      moved = lines ? b_.div(b_.mul(b_.mul(n, rows), one), run) : scaled(left, bytes);
    }
    shared_ = b_.add(shared_, b_.mul(memory, accesses));
    moved_ = b_.add(moved_, b_.mul(memory, moved));
    const Column whole = scaled(nest_.buffer(a.buffer->id).elements, bytes);
    const Column least = b_.min(scaled(a.touched[0], bytes), whole);
    const Column share = b_.select(b_.less_equal(whole, number(static_cast<double>(cuda_.l2_bytes) / 2)),
                                   number(1 - model_.small_cache_share), number(1 - model_.cache_share));
    const Column beyond = b_.mul(share, b_.max(b_.sub(moved, least), number(0)));
    memory_ = b_.add(memory_, b_.mul(memory, b_.add(least, beyond)));
    if (!a.write) count_wait(h, a, s, least, scaled(left, bytes), memory);
  }
  // Loads that a thread waits for one after the other.
  void count_wait(const Shape& h, const AccessColumns& a, const StatementColumns&, Column least, Column all,
                  Column memory) {
    const double clock = target_.clock_hz * 1e-9;
    const Column missing = b_.min(b_.div(least, b_.max(all, number(1))), number(1));
    const Column latency = b_.add(number(clock * model_.l2_latency_ns),
                                  scaled(missing, clock * (model_.memory_latency_ns - model_.l2_latency_ns)));
    Column steps = number(1);
    const size_t end = h.copying ? h.copy : h.loops.size();
    for (size_t i = 0; i < end; ++i) {
      if (bound(*h.loops[i]->loop) || (!h.copying && !a.moves[i])) continue;
      steps = b_.mul(steps, b_.select(h.expanded[i], number(1), h.loops[i]->extent));
    }
    const Column hidden = b_.max(b_.sub(h.ahead, number(1)), number(1));
    wait_ = b_.max(wait_, b_.mul(memory, b_.div(b_.mul(steps, latency), hidden)));
  }
  // Distinct elements that straight code of a thread touches.
  Column straight_elements(const Shape& h, const AccessColumns& a) {
    Column elements = number(1), open = number(1), copies = number(1);
    for (size_t i = h.loops.size(); i-- > 0;) {
      if (h.loops[i]->loop->axis == Axis::kVthread) {
        if (a.moves[i]) copies = b_.mul(copies, h.loops[i]->extent);
        continue;
      }
      open = b_.both(open, bound(*h.loops[i]->loop) ? b_.negate(repeats(*h.loops[i])) : h.expanded[i]);
      elements = b_.select(open, a.touched[i], elements);
    }
    return b_.mul(elements, copies);
  }
  // Pieces of straight code that a thread runs one after the other.
  Column steps_of(const Shape& h) {
    Column steps = number(1);
    for (size_t i = 0; i < h.loops.size(); ++i)
      if (!bound(*h.loops[i]->loop)) steps = b_.mul(steps, b_.select(h.expanded[i], number(1), h.loops[i]->extent));
    return steps;
  }

  // Counters and branches of loops that stay loops.
  void count_loop(int32_t l) {
    const LoopColumns& at = loop(l);
    if (!in_launch(l) || at.loop->loop_kind != LoopKind::kSerial || without(DraftPenalty::kLoops)) return;
    Column times = number(1);
    for (int32_t p = l; p >= 0; p = loop(p).parent) {
      if (is_copy(*loop(p).loop)) return;
      times = b_.mul(times, loop(p).extent);
    }
    const Column stays = b_.negate(expanded_[static_cast<size_t>(l)]);
    instructions_ = b_.add(instructions_, b_.mul(stays, scaled(in_warps(times), model_.loop_instructions)));
  }

  static double at_least_one(int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); }

  // How many blocks a multiprocessor holds, and how full that makes the machine.
  struct Residency {
    Column per_sm, rounds, share;
    Column spills;  // a factor of a thread's arithmetic
  };
  Residency residency() {
    const Column one = number(1);
    // Straight code loads first and computes then. Beyond the registers of a thread it spills.
    const Column wanted = b_.add(registers_, pending_);
    const Column most_registers = number(static_cast<double>(cuda_.max_registers_per_thread));
    const Column excess = b_.max(b_.sub(wanted, most_registers), number(0));
    const Column registers = b_.min(wanted, most_registers);
    const double unit = at_least_one(cuda_.register_allocation_unit), sms = at_least_one(cuda_.sm_count);
    const Column of_warp = scaled(b_.ceil_div(scaled(registers, warp()), number(unit)), unit);
    Column most = b_.min(number(static_cast<double>(cuda_.max_blocks_per_sm)),
                         b_.floor_div(number(static_cast<double>(cuda_.max_threads_per_sm) / warp()), warps_));
    if (!without(DraftPenalty::kRegisters))
      most = b_.min(most, b_.floor_div(number(static_cast<double>(cuda_.registers_per_sm)), b_.mul(of_warp, warps_)));
    const Column taken = b_.add(shared_bytes_, number(static_cast<double>(cuda_.shared_reserved_per_block) + 1));
    if (!without(DraftPenalty::kCache))
      most = b_.min(most, b_.floor_div(number(static_cast<double>(cuda_.shared_per_sm) + 1), taken));
    Residency r;
    r.per_sm = b_.max(b_.min(b_.max(most, one), b_.ceil_div(blocks_, number(sms))), one);
    const Column slots = scaled(r.per_sm, sms);
    r.rounds = b_.ceil_div(blocks_, slots);
    r.share = b_.max(b_.min(b_.div(blocks_, b_.mul(r.rounds, slots)), one), number(1e-9));
    if (without(DraftPenalty::kCores)) r.share = one;
    r.spills = without(DraftPenalty::kRegisters) ? one : b_.add(one, scaled(excess, kSpill));
    return r;
  }

  // What the units of the machine take. Warps overlap arithmetic, shared memory and issuing. Barriers divide that from
  // the arrival of data, as far as a multiprocessor has nothing else to do.
  Column busy_seconds(const Residency& r) {
    const double sms = at_least_one(cuda_.sm_count), schedulers = at_least_one(cuda_.schedulers_per_sm);
    const double cycles = sms * std::max(target_.clock_hz, 1.0);
    const Column one = number(1), none = number(0);
    const Column flops = b_.add(scaled(flops_, 1 / std::max(target_.peak.fp32, 1.0)), matrix_seconds_);
    const Column compute = b_.mul(b_.div(flops, r.share), r.spills);
    const Column shared = without(DraftPenalty::kCache) ? none : b_.div(scaled(shared_, 1 / cycles), r.share);
    Column cache = b_.div(scaled(moved_, 1 / (cycles * model_.l2_bytes_per_cycle)), r.share);
    Column memory = scaled(memory_, 1 / std::max(target_.memory_bandwidth * model_.copy_share, 1.0));
    if (without(DraftPenalty::kMemory)) cache = memory = none;
    Column issue = b_.max(scaled(instructions_, 1 / (cycles * schedulers)),
                          scaled(special_, 1 / (cycles * model_.special_per_cycle)));
    const Column scheduler_warps = scaled(b_.mul(r.per_sm, warps_), 1 / schedulers);
    if (!without(DraftPenalty::kLanes)) issue = b_.div(issue, b_.mul(r.share, b_.min(scheduler_warps, one)));
    const Column inside = b_.max(b_.max(compute, shared), issue), arrival = b_.max(cache, memory);
    // Warps that exchange little seldom wait for each other.
    const Column meets = b_.both(waits_, b_.less_equal(scaled(moved_, kExchangedShare), exchanged_));
    const Column overlap = b_.mul(b_.mul(b_.select(meets, one, warps_), r.per_sm), stages_);
    return b_.add(b_.max(inside, arrival), b_.div(b_.min(inside, arrival), overlap));
  }

  // What one warp takes, which waits for its loads and sums and does its own work between its waits: it issues, and
  // takes its turns of the units.
  Column warp_seconds(const Residency& r) {
    const double sms = at_least_one(cuda_.sm_count), schedulers = at_least_one(cuda_.schedulers_per_sm);
    const double clock = std::max(target_.clock_hz, 1.0);
    const double fma_cycles = warp() * schedulers / at_least_one(cuda_.fp32_lanes_per_sm);
    const Column arithmetic =
        b_.add(scaled(flops_, (fma_cycles - 1) / (2 * warp())), scaled(matrix_seconds_, sms * clock * schedulers));
    const Column turns = b_.add(shared_, scaled(moved_, 1 / model_.l2_bytes_per_cycle));
    const Column all = b_.add(b_.mul(b_.add(instructions_, arithmetic), r.spills), turns);
    const Column own = b_.div(all, b_.mul(blocks_, warps_));
    const Column waits = b_.add(b_.add(latency_, copy_latency_), b_.add(chain_, own));
    return scaled(b_.mul(waits, r.rounds), 1 / clock);
  }

  Column time() {
    const Residency r = residency();
    const Column work = busy_seconds(r);
    if (without(DraftPenalty::kLatency)) return work;
    // Neither is hidden whole by the other where they are alike: near the cubic mean, without a root.
    const Column latency = warp_seconds(r);
    const Column more = b_.max(work, latency), less = b_.div(b_.min(work, latency), more);
    const Column both = b_.mul(more, b_.add(number(1), scaled(b_.mul(less, b_.mul(less, less)), 0.26)));
    const Column steps = scaled(b_.mul(step_cycles_, r.rounds), 1 / std::max(target_.clock_hz, 1.0));
    return b_.add(both, b_.div(steps, stages_));
  }

  ColumnBuilder& b_;
  const NestColumns& nest_;
  const int32_t root_;
  const target::Target& target_;
  const target::CudaInfo& cuda_;
  const target::SmModel& model_;
  const DraftOptions& o_;
  std::vector<const StatementColumns*> statements_;
  std::map<Id, Place> places_;
  std::vector<Column> expanded_;  // of each loop: 1 where all of its iterations are one piece of code
  int64_t lanes_ = 1;             // that hold a fragment together; 1: no matrix instructions
  Column blocks_ = kNoColumn, threads_ = kNoColumn, warps_ = kNoColumn;
  // Of a thread and of a block.
  Column registers_ = kNoColumn, shared_bytes_ = kNoColumn, stages_ = kNoColumn;
  Column step_cycles_ = kNoColumn, waits_ = kNoColumn;
  // Of the launch, as LaunchFacts has them.
  Column flops_ = kNoColumn, matrix_seconds_ = kNoColumn, instructions_ = kNoColumn, special_ = kNoColumn;
  Column shared_ = kNoColumn, moved_ = kNoColumn, memory_ = kNoColumn, exchanged_ = kNoColumn;
  Column latency_ = kNoColumn, copy_latency_ = kNoColumn, chain_ = kNoColumn;  // cycles of a thread
  Column pending_ = kNoColumn;  // registers of a thread for what straight code loads
  Column wait_ = kNoColumn;     // of the statement that is counted
};

}  // namespace

Column draft_gpu(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, const DraftOptions& o) {
  Column seconds = b.constant(0);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (nest.loops[l].parent < 0)
      seconds = b.add(seconds, GpuLaunch(b, nest, static_cast<int32_t>(l), target, o).seconds());
  for (const StatementColumns& s : nest.statements)
    if (s.loops.empty()) seconds = b.add(seconds, b.constant(target.cuda.launch_seconds));
  return seconds;
}

}  // namespace tcc::cost
