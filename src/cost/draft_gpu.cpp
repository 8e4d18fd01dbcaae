// The draft model of GPUs, "tcc": what a launch asks of registers, shared memory, caches, memory, schedulers and tensor
// cores, by the constants of the target's description (tcc/target/sm_model.h). It is gpu_facts.h on columns, and leaves
// out what needs the kernel itself: quotients in indices, predicates that may always hold, equal values, the batches of
// loads that lowering chooses.
#include <algorithm>
#include <cmath>

#include "cost/draft_code.h"
#include "cost/gpu_figures.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr double kSoonBytes = 64;  // of one operand in shared memory, that a thread loads ahead
constexpr double kSpill = 0.02;    // of a thread's arithmetic, for each register too many
constexpr auto kWidest = static_cast<double>(kMaxAccessBytes);

class GpuLaunch {
 public:
  GpuLaunch(ColumnBuilder& b, const NestColumns& nest, int32_t root, const target::Target& target,
            const DraftOptions& options)
      : b_(b),
        nest_(nest),
        code_(b, nest, root, target.cuda),
        target_(target),
        cuda_(target.cuda),
        model_(target.cuda.model),
        o_(options) {}

  Column seconds() {
    storage();
    for (const StatementColumns* s : code_.statements()) count(*s);
    for (size_t l = 0; l < nest_.loops.size(); ++l) count_loop(static_cast<int32_t>(l));
    return b_.add(number(cuda_.launch_seconds), time());
  }

 private:
  Column number(double value) { return b_.constant(value); }
  Column scaled(Column c, double by) { return b_.mul(c, number(by)); }
  bool without(DraftPenalty p) const { return leaves_out(o_, p); }
  const LoopColumns& loop(int32_t l) const { return nest_.loops[static_cast<size_t>(l)]; }

  double warp() const { return static_cast<double>(cuda_.warp_size); }

  static double bytes_of(const Buffer& b) { return static_cast<double>(type_bytes(b.type)); }

  // Registers, shared memory, stages of pipelines, barriers.
  void storage() {
    registers_ = number(kExpectedAddressRegisters), shared_bytes_ = number(0), stages_ = number(1);
    step_cycles_ = number(0), waits_ = number(0);
    for (const auto& [id, p] : code_.places()) {
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
      const Column spread = code_.is_matrix() ? number(static_cast<double>(code_.lanes()))
                                              : b_.max(b_.div(code_.threads(), around), number(1));
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

  Column in_warps(Column times) { return b_.mul(b_.div(times, code_.threads()), code_.warps()); }

  void count(const StatementColumns& s) {
    const DraftCode::Shape h = code_.shape_of(s);
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
      if (!h.copying && !a.write && !b_.is(code_.in_registers(*a.buffer), 1)) {
        // What shared memory holds arrives soon: it is loaded a few statements ahead.
        const Column all = scaled(code_.straight_elements(h, a), bytes_of(*a.buffer));
        const Column few = b_.min(all, number(kSoonBytes));
        const Column bytes = b_.select(code_.in_shared(*a.buffer), few, all);
        pending = b_.add(pending, b_.mul(b_.negate(code_.in_registers(*a.buffer)), bytes));
      }
    pending_ = b_.max(pending_, scaled(pending, 0.25));
    for (const AccessColumns& a : s.accesses) count(h, a, s);
    if (h.copying)
      copy_latency_ = b_.max(copy_latency_, wait_);
    else
      latency_ = b_.add(latency_, wait_);
    const Buffer& stored = *s.accesses.back().buffer;
    if (!sums) exchanged_ = b_.add(exchanged_, b_.mul(code_.in_shared(stored), scaled(h.times, bytes_of(stored))));
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
  void count_chain(const DraftCode::Shape& h, const AccessColumns& stored) {
    Column steps = number(model_.arithmetic_latency_cycles);
    for (size_t i = 0; i < h.loops.size(); ++i) {
      if (is_bound(*h.loops[i]->loop)) continue;
      const Column own = stored.moves[i] ? b_.select(h.expanded[i], number(1), h.loops[i]->extent) : h.loops[i]->extent;
      steps = b_.mul(steps, own);
    }
    chain_ = b_.add(chain_, steps);
  }

  void count(const DraftCode::Shape& h, const AccessColumns& a, const StatementColumns& s) {
    const Column registers = code_.in_registers(*a.buffer), shared = code_.in_shared(*a.buffer);
    if (b_.is(registers, 1)) return;
    const Column left = h.copying ? h.times : code_.reused(h, a);
    const Column memory = b_.mul(b_.negate(registers), b_.negate(shared));
    if (!b_.is(shared, 0)) {
      shared_ = b_.add(shared_, b_.mul(shared, shared_cycles(h, a, left)));
      if (!a.write && !h.copying)
        wait_ = b_.max(wait_, b_.mul(shared, scaled(code_.steps_of(h), model_.shared_latency_cycles)));
    }
    if (!b_.is(memory, 0)) count_memory(h, a, s, left, memory);
  }
  // Of 16 bytes a lane the banks serve half a warp at a time, and what its lanes share only once: the share of the two
  // cycles that 16 different pieces take, a half at least.
  Column half_warp_share(const DraftCode::Shape& h, const AccessColumns& a, Column vector, double bytes) {
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
  Column shared_cycles(const DraftCode::Shape& h, const AccessColumns& a, Column left) {
    const double bytes = bytes_of(*a.buffer);
    if (h.copying) return scaled(in_warps(left), bytes / 4);
    Column conflicts = number(1);
    const Column vector = code_.is_matrix() ? number(kWidest / bytes) : code_.vector_of(h, a);
    if (!code_.is_matrix() && !without(DraftPenalty::kLines)) {
      const Column words = scaled(code_.along(h, a), bytes / 4);
      for (double w = 2; w <= kSwizzledConflicts; w *= 2) {
        const Column apart = b_.both(b_.less_equal(number(2), words), is_multiple(b_, words, w));
        conflicts = b_.select(apart, number(w), conflicts);
      }
      const Column alone = b_.less_equal(words, scaled(code_.own_run(h, a), bytes / 4));
      conflicts = b_.select(alone, number(1), conflicts);
    }
    instructions_ = b_.add(instructions_, b_.mul(code_.in_shared(*a.buffer), b_.div(in_warps(left), vector)));
    const Column wide = b_.less_equal(number(4), scaled(vector, bytes));
    if (!code_.is_matrix() && !without(DraftPenalty::kLines))
      conflicts = b_.mul(conflicts, half_warp_share(h, a, vector, bytes));
    return b_.mul(b_.mul(in_warps(left), conflicts),
                  b_.select(wide, number(bytes / 4), number(std::max(1.0, bytes / 4))));
  }

  void count_memory(const DraftCode::Shape& h, const AccessColumns& a, const StatementColumns& s, Column left,
                    Column memory) {
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
    } else if (code_.is_matrix()) {
      const double rows = warp() / kFragmentRow;
      accesses = scaled(left, rows / warp());
      moved = scaled(left, rows * std::max(sector, kFragmentRow * bytes) / warp());
      instructions_ = b_.add(instructions_, b_.mul(memory, scaled(left, 0.5 / warp())));
    } else {
      const Column vector = code_.vector_of(h, a), run = code_.own_run(h, a), step = scaled(code_.along(h, a), bytes);
      instructions_ = b_.add(instructions_, b_.mul(memory, b_.div(in_warps(left), vector)));
      Column across = number(1);
      for (size_t i = 0; i < h.loops.size(); ++i)
        if (h.loops[i]->loop->axis == Axis::kThreadX) across = h.loops[i]->extent;
      const Column together = b_.min(code_.threads(), number(warp()));
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
  void count_wait(const DraftCode::Shape& h, const AccessColumns& a, const StatementColumns&, Column least, Column all,
                  Column memory) {
    const double clock = target_.clock_hz * 1e-9;
    const Column missing = b_.min(b_.div(least, b_.max(all, number(1))), number(1));
    const Column latency = b_.add(number(clock * model_.l2_latency_ns),
                                  scaled(missing, clock * (model_.memory_latency_ns - model_.l2_latency_ns)));
    Column steps = number(1);
    const size_t end = h.copying ? h.copy : h.loops.size();
    for (size_t i = 0; i < end; ++i) {
      if (is_bound(*h.loops[i]->loop) || (!h.copying && !a.moves[i])) continue;
      steps = b_.mul(steps, b_.select(h.expanded[i], number(1), h.loops[i]->extent));
    }
    const Column hidden = b_.max(b_.sub(h.ahead, number(1)), number(1));
    wait_ = b_.max(wait_, b_.mul(memory, b_.div(b_.mul(steps, latency), hidden)));
  }

  // Counters and branches of loops that stay loops.
  void count_loop(int32_t l) {
    const LoopColumns& at = loop(l);
    if (!code_.in_launch(l) || at.loop->loop_kind != LoopKind::kSerial || without(DraftPenalty::kLoops)) return;
    Column times = number(1);
    for (int32_t p = l; p >= 0; p = loop(p).parent) {
      if (is_shared_copy(*loop(p).loop)) return;
      times = b_.mul(times, loop(p).extent);
    }
    const Column stays = b_.negate(code_.expanded(l));
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
                         b_.floor_div(number(static_cast<double>(cuda_.max_threads_per_sm) / warp()), code_.warps()));
    if (!without(DraftPenalty::kRegisters))
      most = b_.min(most,
                    b_.floor_div(number(static_cast<double>(cuda_.registers_per_sm)), b_.mul(of_warp, code_.warps())));
    const Column taken = b_.add(shared_bytes_, number(static_cast<double>(cuda_.shared_reserved_per_block) + 1));
    if (!without(DraftPenalty::kCache))
      most = b_.min(most, b_.floor_div(number(static_cast<double>(cuda_.shared_per_sm) + 1), taken));
    Residency r;
    r.per_sm = b_.max(b_.min(b_.max(most, one), b_.ceil_div(code_.blocks(), number(sms))), one);
    const Column slots = scaled(r.per_sm, sms);
    r.rounds = b_.ceil_div(code_.blocks(), slots);
    r.share = b_.max(b_.min(b_.div(code_.blocks(), b_.mul(r.rounds, slots)), one), number(1e-9));
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
    const Column scheduler_warps = scaled(b_.mul(r.per_sm, code_.warps()), 1 / schedulers);
    if (!without(DraftPenalty::kLanes)) issue = b_.div(issue, b_.mul(r.share, b_.min(scheduler_warps, one)));
    const Column inside = b_.max(b_.max(compute, shared), issue), arrival = b_.max(cache, memory);
    // Warps that exchange little seldom wait for each other.
    const Column meets = b_.both(waits_, b_.less_equal(scaled(moved_, kExchangedShare), exchanged_));
    const Column overlap = b_.mul(b_.mul(b_.select(meets, one, code_.warps()), r.per_sm), stages_);
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
    const Column own = b_.div(all, b_.mul(code_.blocks(), code_.warps()));
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
  DraftCode code_;
  const target::Target& target_;
  const target::CudaInfo& cuda_;
  const target::SmModel& model_;
  const DraftOptions& o_;
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
