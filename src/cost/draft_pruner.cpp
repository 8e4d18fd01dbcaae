// Pruner's symbol-based analyzer in two readings: as its paper prints it (section 4.1, symbols S1 to S8 and penalties),
// and as its public code computes it. Both speak of threads and blocks; draft.h says what they are on a CPU.
#include <algorithm>

#include "cost/draft_parts.h"

namespace tcc::cost {

using namespace ir;

namespace {

// m_l0, m_l1: elements that a thread and a block can hold; n_l1: threads that run as one; pu_l1, pu_l2: units within a
// multiprocessor, and multiprocessors; n_l2: elements of a transaction.
struct Machine {
  double m_l0, m_l1, n_l1, pu_l1, pu_l2, n_l2;
  double peak, bandwidth;  // operations and elements a second
};

struct Symbols {
  Column s1, s2, s3, s4, s5, s6, s7, s8;
  Column traffic;  // of registers: as S1, over all loops of a thread (the public code's "M")
};

class PrunerStatement {
 public:
  // `gpu`: blocks copy to shared memory what their threads read.
  PrunerStatement(ColumnBuilder& b, const NestColumns& nest, const StatementColumns& s, bool gpu)
      : b_(b), s_(s), gpu_(gpu) {
    for (int32_t l : s.loops) loops_.push_back(&nest.loops[static_cast<size_t>(l)]);
  }

  Symbols symbols() {
    Symbols y;
    const AccessColumns& stored = s_.accesses.back();
    Column thread_loops = number(1), copied = number(1);
    y.s4 = y.s6 = number(1);
    for (size_t i = 0; i < loops_.size(); ++i) {
      const Loop& l = *loops_[i]->loop;
      if (of_block(l)) {
        y.s6 = b_.mul(y.s6, loops_[i]->extent);
      } else if (of_thread(l)) {
        y.s4 = b_.mul(y.s4, loops_[i]->extent);
      } else {
        thread_loops = b_.mul(thread_loops, loops_[i]->extent);
        if (stored.moves[i]) copied = b_.mul(copied, loops_[i]->extent);
      }
    }
    const bool computes = s_.flops + s_.int_ops > 0;
    y.s1 = allocated(true), y.traffic = allocated(false);
    y.s2 = b_.mul(thread_loops, number(s_.flops + s_.int_ops));
    y.s3 = b_.mul(copied, y.s4);
    y.s5 = computes && gpu_ ? number(0) : b_.mul(computes ? moved() : copied, b_.mul(y.s4, y.s6));
    y.s7 = number(1);
    for (const AccessColumns& a : s_.accesses) y.s7 = b_.max(y.s7, a.row[first_inside()]);
    y.s8 = b_.mul(y.s2, b_.mul(y.s4, y.s6));
    return y;
  }
  bool computes() const { return s_.flops + s_.int_ops > 0; }

 private:
  Column number(double value) { return b_.constant(value); }
  static bool of_block(const Loop& l) { return is_grid(l.axis) || l.loop_kind == LoopKind::kParallel; }
  static bool of_thread(const Loop& l) { return is_thread(l.axis) || l.loop_kind == LoopKind::kVectorized; }
  size_t first_inside() const {
    size_t i = 0;
    for (size_t k = 0; k < loops_.size(); ++k)
      if (of_block(*loops_[k]->loop)) i = k + 1;
    return i;
  }
  // Elements that a core reads from outside: without copies to shared memory, what an iteration of the parallel loop
  // touches, for each lane.
  Column moved() {
    Column elements = number(0), lanes = number(1);
    for (const AccessColumns& a : s_.accesses) elements = b_.add(elements, a.touched[first_inside()]);
    for (const LoopColumns* l : loops_)
      if (of_thread(*l->loop)) lanes = b_.mul(lanes, l->extent);
    return b_.div(elements, lanes);
  }
  // Sum over buffers of the product of a thread's loops that move them; of a register tile, spatial ones only.
  Column allocated(bool registers) {
    Column total = number(0);
    for (size_t k = 0; k < s_.accesses.size(); ++k) {
      const AccessColumns& a = s_.accesses[k];
      bool again = false;
      for (size_t other = k + 1; other < s_.accesses.size(); ++other) again |= s_.accesses[other].buffer == a.buffer;
      if (again) continue;
      Column n = number(1);
      for (size_t i = 0; i < loops_.size(); ++i) {
        const Loop& l = *loops_[i]->loop;
        if (of_block(l) || of_thread(l) || !a.moves[i]) continue;
        if (registers && !s_.accesses.back().moves[i]) continue;
        if (registers && !gpu_ && l.loop_kind != LoopKind::kUnrolled) continue;
        n = b_.mul(n, loops_[i]->extent);
      }
      total = b_.add(total, n);
    }
    return b_.max(total, number(1));
  }

  ColumnBuilder& b_;
  const StatementColumns& s_;
  const bool gpu_;
  std::vector<const LoopColumns*> loops_;
};

Machine machine_of(const target::Target& t, int64_t threads) {
  Machine m = {};
  const double element = 4;
  if (t.cuda.sm_count > 0) {
    const target::CudaInfo& c = t.cuda;
    m = {static_cast<double>(c.max_registers_per_thread) / 2,
         static_cast<double>(c.shared_per_block) / element,
         static_cast<double>(c.warp_size),
         static_cast<double>(c.schedulers_per_sm),
         static_cast<double>(c.sm_count),
         static_cast<double>(c.memory_transaction_bytes) / element,
         t.peak.fp32,
         t.memory_bandwidth / element};
  } else {
    const target::CpuInfo& c = t.cpu;
    const double lanes = static_cast<double>(c.vector_bits) / 32;
    m = {static_cast<double>(std::max<int64_t>(c.num_vector_registers, 16)),
         static_cast<double>(c.l2_bytes) / element,
         lanes,
         1,
         static_cast<double>(std::max<int64_t>(threads, 1)),
         static_cast<double>(c.cache_line_bytes) / element,
         t.clock_hz * c.core.fmas_per_cycle * lanes * 2 * static_cast<double>(std::max<int64_t>(threads, 1)),
         t.memory_bandwidth / element};
  }
  m.peak = std::max(m.peak, 1.0), m.bandwidth = std::max(m.bandwidth, 1.0);
  return m;
}

// x / (ceil(x / unit) * unit)
Column fill(ColumnBuilder& b, Column x, double unit) {
  return b.div(x, b.mul(b.ceil_div(x, b.constant(unit)), b.constant(unit)));
}

}  // namespace

Column draft_paper(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                   const DraftOptions& o) {
  const Machine m = machine_of(target, threads);
  Column seconds = b.constant(0);
  for (const StatementColumns& statement : nest.statements) {
    PrunerStatement s(b, nest, statement, target.cuda.sm_count > 0);
    const Symbols y = s.symbols();
    const Column one = b.constant(1);
    Column compute = one, memory = one;
    const Column warps = b.ceil_div(y.s4, b.constant(m.n_l1));  // sch
    if (!leaves_out(o, DraftPenalty::kLatency)) {               // P_l0,c, normalized
      const Column r = b.div(y.s2, y.s1);
      compute = b.mul(compute, b.div(r, b.add(one, r)));
    }
    if (!leaves_out(o, DraftPenalty::kRegisters)) memory = b.mul(memory, b.min(b.div(b.constant(m.m_l0), y.s1), one));
    if (!leaves_out(o, DraftPenalty::kLanes))  // P_l1,c and alpha_l1
      compute = b.mul(compute, b.mul(fill(b, warps, m.pu_l1), b.div(y.s4, b.mul(warps, b.constant(m.n_l1)))));
    if (!leaves_out(o, DraftPenalty::kCache)) memory = b.mul(memory, b.min(b.div(b.constant(m.m_l1), y.s3), one));
    if (!leaves_out(o, DraftPenalty::kCores)) compute = b.mul(compute, fill(b, y.s6, m.pu_l2));  // P_l2,c
    if (!leaves_out(o, DraftPenalty::kLines)) memory = b.mul(memory, fill(b, y.s7, m.n_l2));     // P_l2,m
    if (s.computes()) seconds = b.add(seconds, b.div(y.s8, b.mul(b.constant(m.peak), compute)));
    seconds = b.add(seconds, b.div(y.s5, b.mul(b.constant(m.bandwidth), memory)));
  }
  return seconds;
}

Column draft_released(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                      const DraftOptions& o) {
  const Machine m = machine_of(target, threads);
  Column seconds = b.constant(0);
  for (const StatementColumns& statement : nest.statements) {
    PrunerStatement s(b, nest, statement, target.cuda.sm_count > 0);
    const Symbols y = s.symbols();
    const Column one = b.constant(1);
    Column rate = b.constant(m.peak), work = y.s8;
    const Column warps = b.ceil_div(y.s4, b.constant(m.n_l1));
    if (!leaves_out(o, DraftPenalty::kLatency)) {  // time times 1 + 1 / r, r = 1 + S2 / M
      const Column r = b.add(one, b.div(y.s2, y.traffic));
      work = b.mul(work, b.add(one, b.div(one, r)));
    }
    if (!leaves_out(o, DraftPenalty::kRegisters)) rate = b.div(rate, b.max(one, b.div(y.s1, b.constant(m.m_l0))));
    if (!leaves_out(o, DraftPenalty::kLanes)) rate = b.mul(rate, b.div(y.s4, b.mul(warps, b.constant(m.n_l1))));
    if (!leaves_out(o, DraftPenalty::kCores)) {
      const Column few = b.mul(y.s6, b.min(warps, b.constant(m.pu_l1)));
      const Column idle = b.div(few, b.constant(m.pu_l1 * m.pu_l2));
      rate = b.mul(rate, b.select(b.less_equal(b.constant(m.pu_l2), y.s6), fill(b, y.s6, m.pu_l2), idle));
    }
    // The public code takes elements for bytes.
    const Column memory = b.div(y.s5, b.constant(m.bandwidth * 4));
    seconds = b.add(seconds, b.max(b.div(work, rate), memory));
  }
  return seconds;
}

}  // namespace tcc::cost
