// The draft model of CPUs, "tcc". One statement's cycles are those of its vector operations, and the time of the bytes
// that cross each level of storage.
#include <algorithm>

#include "cost/draft_parts.h"
#include "tcc/cost/streams.h"
#include "tcc/target/last_cache.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr double kFits = 0.8;       // of a cache, for the data of one loop nest
constexpr double kCall = 10;        // operations of a mathematical function
constexpr double kMask = 0.5;       // cycles of a vector's mask
constexpr double kStrided = 4;      // elements between lanes, at most: further apart they are gathered
constexpr double kBranch = 2;       // cycles of an iteration for its counter and branch
constexpr double kNotHidden = 0.3;  // of the shorter one of work and waiting for data
constexpr int64_t kScalarBytes = 4;

class CpuStatement {
 public:
  CpuStatement(ColumnBuilder& b, const NestColumns& nest, const StatementColumns& s, const target::Target& target)
      : b_(b), s_(s), target_(target), core_(target.cpu.core), depth_(s.loops.size()) {
    for (int32_t l : s.loops) loops_.push_back(&nest.loops[static_cast<size_t>(l)]);
    find_vector();
    find_tile();
  }

  DraftTerms terms() {
    DraftTerms t;
    t.operations = b_.mul(vectors_, number(std::max(s_.flops + s_.int_ops, 0.0) / 2 + kCall * s_.calls));
    // P_l0,c: sums that wait for their last step.
    t.wait = number(1);
    if (sums()) t.wait = b_.max(b_.div(number(core_.sums_in_flight()), tile_), t.wait);
    t.loads = b_.div(b_.mul(vectors_, loads_of_tile()), unrolled_);
    t.spills = b_.mul(vectors_, b_.mul(spill_share(), number(2)));
    t.sums = sums() ? b_.div(b_.mul(vectors_, number(2)), b_.max(trip_, number(1))) : number(0);
    t.copies = sums() ? number(0) : vectors_;
    t.strided = strided();
    t.loops = loop_cycles();
    t.tile = tile_, t.trip = trip_, t.code = code_, t.vectors = vectors_;
    return t;
  }

  // Bytes that move into a level of this size: of each access, what the largest loop nest that fits touches, for each
  // time that another part is touched. What fits as a whole is there already. Loops right around that nest which do not
  // move the access leave its data there.
  Column traffic(double capacity, bool whole_lines) {
    std::vector<Column> fits(depth_ + 1);
    for (size_t d = 0; d <= depth_; ++d) {
      Column bytes = number(0);
      for (size_t i = 0; i < s_.accesses.size(); ++i)
        if (first_of_buffer(i)) bytes = b_.add(bytes, b_.mul(s_.accesses[i].touched[d], bytes_of(s_.accesses[i])));
      fits[d] = b_.less_equal(bytes, number(capacity * kFits));
    }
    std::vector<Column> runs(depth_ + 1, number(1));
    for (size_t d = 0; d < depth_; ++d) runs[d + 1] = b_.mul(runs[d], loops_[d]->extent);
    Column total = number(0);
    for (size_t i = 0; i < s_.accesses.size(); ++i) {
      const AccessColumns& a = s_.accesses[i];
      if (!first_of_buffer(i) || in_registers(*a.buffer)) continue;
      std::vector<Column> times(depth_ + 1, number(1));
      for (size_t d = 1; d <= depth_; ++d) {
        const Column one = b_.equal(loops_[d - 1]->extent, number(1));
        times[d] = a.moves[d - 1] ? b_.select(one, times[d - 1], runs[d]) : times[d - 1];
      }
      Column moved = b_.mul(touched_bytes(a, depth_, whole_lines), runs[depth_]);
      for (size_t d = depth_ + 1; d-- > 0;)
        moved = b_.select(fits[d], b_.mul(touched_bytes(a, d, whole_lines), times[d]), moved);
      total = b_.add(total, a.write ? b_.mul(moved, number(2)) : moved);
    }
    return b_.select(fits[0], number(0), total);
  }

  Column parallel() const {
    for (const LoopColumns* l : loops_)
      if (l->loop->loop_kind == LoopKind::kParallel) return l->extent;
    return kNoColumn;
  }

 private:
  // Vector loads of operands for one register tile.
  Column loads_of_tile() {
    Column total = number(0);
    for (size_t i = 0; i + 1 < s_.accesses.size(); ++i) {
      const AccessColumns& a = s_.accesses[i];
      if (a.buffer == stored().buffer) continue;
      Column n = b_.select(is_vector(a), registers_, number(core_.broadcast_load));
      for (size_t l = 0; l < depth_; ++l)
        if (loops_[l]->loop->loop_kind == LoopKind::kUnrolled && a.moves[l]) n = b_.mul(n, loops_[l]->extent);
      total = b_.add(total, n);
    }
    return total;
  }
  Column strided() {
    Column total = number(0);
    for (const AccessColumns& a : s_.accesses) {
      total = b_.add(total, b_.mul(vectors_, b_.mul(is_vector(a), step_cycles(a))));
      if (a.predicated) total = b_.add(total, b_.mul(vectors_, number(kMask)));
    }
    return total;
  }
  // Counters and branches of loops that are not written out.
  Column loop_cycles() {
    Column written = registers_, total = number(0), runs = number(1), unroll = number(0);
    std::vector<Column> around(depth_ + 1);
    for (size_t l = 0; l < depth_; ++l) around[l] = runs, runs = b_.mul(runs, loops_[l]->extent);
    for (const LoopColumns* l : loops_) unroll = b_.max(unroll, b_.mul(b_.less(number(1), l->extent), l->unroll_max));
    for (size_t l = depth_; l-- > 0;) {
      const LoopKind kind = loops_[l]->loop->loop_kind;
      if (kind == LoopKind::kUnrolled) written = b_.mul(written, loops_[l]->extent);
      if (kind != LoopKind::kSerial) continue;
      const Column grown = b_.mul(written, loops_[l]->extent);
      const Column expands = b_.less_equal(grown, unroll), several = b_.less(number(1), loops_[l]->extent);
      const Column iterations = b_.mul(around[l], loops_[l]->extent);
      total = b_.add(total, b_.mul(b_.mul(several, b_.negate(expands)), b_.mul(iterations, number(kBranch))));
      written = b_.select(expands, grown, written);
    }
    code_ = written;
    return total;
  }

  Column number(double value) { return b_.constant(value); }
  const AccessColumns& stored() const { return s_.accesses.back(); }
  bool in_registers(const Buffer& buffer) const { return buffer.scope == Scope::kAmxTile; }
  double lanes() const {
    const auto bytes = std::max<int64_t>(type_bytes(stored().buffer->type), kScalarBytes);
    return static_cast<double>(std::max<int64_t>(target_.cpu.vector_bits / 8 / bytes, 1));
  }
  Column bytes_of(const AccessColumns& a) { return number(static_cast<double>(type_bytes(a.buffer->type))); }
  // The statement adds to what it stores.
  bool sums() const {
    for (size_t i = 0; i + 1 < s_.accesses.size(); ++i)
      if (s_.accesses[i].buffer == stored().buffer) return true;
    return false;
  }
  bool first_of_buffer(size_t i) const {
    for (size_t k = i + 1; k < s_.accesses.size(); ++k)
      if (s_.accesses[k].buffer == s_.accesses[i].buffer) return false;
    return true;
  }
  // With S7: lines are moved as a whole.
  Column touched_bytes(const AccessColumns& a, size_t level, bool whole_lines) {
    const Column bytes = b_.mul(a.touched[level], bytes_of(a));
    if (!whole_lines || a.buffer->layout != nullptr) return bytes;
    const double line =
        static_cast<double>(target_.cpu.cache_line_bytes) / static_cast<double>(type_bytes(a.buffer->type));
    const Column used = b_.mul(b_.ceil_div(a.row[level], number(line)), number(line));
    return b_.mul(bytes, b_.div(used, a.row[level]));
  }

  void find_vector() {
    for (size_t i = depth_; i-- > 0 && vector_ == depth_;)
      if (loops_[i]->loop->loop_kind == LoopKind::kVectorized) vector_ = i;
    if (as<InstrCall>(s_.stmt) != nullptr || vector_ == depth_) {
      registers_ = number(1), vectors_ = s_.executions;
      return;
    }
    const Column width = loops_[vector_]->extent;
    registers_ = b_.ceil_div(width, number(lanes()));
    vectors_ = b_.mul(b_.div(s_.executions, width), registers_);
  }
  // Independent results: vectors times the unrolled loops that move the store. Iterations for which they stay in
  // registers: unrolled loops that do not move it, and the loops right around that do not.
  void find_tile() {
    tile_ = unrolled_ = registers_, trip_ = number(1);
    Column open = number(1);
    for (size_t i = depth_; i-- > 0;) {
      const LoopKind kind = loops_[i]->loop->loop_kind;
      const Column extent = loops_[i]->extent;
      if (kind == LoopKind::kUnrolled) {
        unrolled_ = b_.mul(unrolled_, extent);
        (stored().moves[i] ? tile_ : trip_) = b_.mul(stored().moves[i] ? tile_ : trip_, extent);
      } else if (kind == LoopKind::kSerial && stored().moves[i]) {
        open = b_.both(open, b_.equal(extent, number(1)));
      } else if (kind == LoopKind::kSerial) {
        trip_ = b_.mul(trip_, b_.select(open, extent, number(1)));
      }
    }
  }
  // Share of the sums that have no register.
  Column spill_share() {
    const double available = static_cast<double>(std::max<int64_t>(target_.cpu.num_vector_registers, 16));
    const Column wanted = b_.add(b_.add(tile_, registers_), number(1));
    return b_.max(b_.sub(number(1), b_.div(number(available), wanted)), number(0));
  }
  // 1: the lanes read different elements; 0: all read the same.
  Column is_vector(const AccessColumns& a) {
    if (as<InstrCall>(s_.stmt) != nullptr) return number(1);
    if (vector_ == depth_ || !a.moves[vector_]) return number(0);
    return b_.less(number(1), loops_[vector_]->extent);
  }
  // Beyond those of a vector side by side.
  Column step_cycles(const AccessColumns& a) {
    if (as<InstrCall>(s_.stmt) != nullptr || vector_ == depth_ || !a.moves[vector_]) return number(0);
    if (a.buffer->scope == Scope::kLocal) return number(0);  // lowering puts the vectorized dimension last
    const Column step = a.step[vector_], gather = number(2 * lanes());
    if (step == kNoColumn) return gather;
    const Column strided = b_.select(b_.less_equal(step, number(kStrided)), number(core_.stride_two_load), gather);
    return b_.select(b_.equal(step, number(1)), number(0), strided);
  }

  ColumnBuilder& b_;
  const StatementColumns& s_;
  const target::Target& target_;
  const target::CoreModel& core_;
  size_t depth_;
  std::vector<const LoopColumns*> loops_;
  size_t vector_ = depth_;
  Column registers_ = kNoColumn;  // of a vector loop
  Column vectors_ = kNoColumn;    // vector operations of each kind
  Column tile_ = kNoColumn, unrolled_ = kNoColumn, trip_ = kNoColumn, code_ = kNoColumn;
};

}  // namespace

Column draft_cpu(ColumnBuilder& b, const NestColumns& nest, const target::Target& target, int64_t threads,
                 const DraftOptions& o, std::vector<DraftTerms>* terms) {
  auto number = [&](double value) { return b.constant(value); };
  const target::CpuInfo& cpu = target.cpu;
  const target::CoreModel& core = cpu.core;
  const double cores = static_cast<double>(std::max<int64_t>(threads, 1)), clock = std::max(target.clock_hz, 1.0);
  const double memory_rate = std::max(target.memory_bandwidth / clock, 0.1) / cores;
  const bool lines = !leaves_out(o, DraftPenalty::kLines);
  Column cycles = number(0);
  for (const StatementColumns& statement : nest.statements) {
    CpuStatement s(b, nest, statement, target);
    DraftTerms t = s.terms();
    t.l1 = s.traffic(static_cast<double>(cpu.l1_bytes), lines);
    t.l2 = s.traffic(static_cast<double>(cpu.l2_bytes), lines);
    t.memory = s.traffic(static_cast<double>(target::last_cache_bytes(cpu)), lines);
    if (terms != nullptr) terms->push_back(t);
    // U_p: the ports of the core.
    Column compute = b.mul(t.operations, number(1 / core.fmas_per_cycle)), loads = t.loads;
    if (!leaves_out(o, DraftPenalty::kLatency)) compute = b.mul(compute, t.wait);
    if (!leaves_out(o, DraftPenalty::kRegisters)) loads = b.add(loads, t.spills);
    Column busy = b.max(compute, b.mul(loads, number(1 / core.loads_per_cycle)));
    if (!leaves_out(o, DraftPenalty::kLanes)) busy = b.add(busy, t.strided);
    if (!leaves_out(o, DraftPenalty::kLoops)) busy = b.add(busy, b.add(t.loops, t.sums));
    busy = b.add(busy, t.copies);
    // U_m: the levels of storage; prefetchers overlap them with the rest in part.
    Column moved = number(0);
    if (!leaves_out(o, DraftPenalty::kCache))
      moved = b.add(b.mul(t.l1, number(1 / core.l1_bytes_per_cycle)),
                    b.mul(t.l2, number(1 / (kStreams * core.l2_bytes_per_cycle))));
    if (!leaves_out(o, DraftPenalty::kMemory)) moved = b.add(moved, b.mul(t.memory, number(1 / memory_rate)));
    const Column all = b.add(b.max(busy, moved), b.mul(number(kNotHidden), b.min(busy, moved)));
    cycles = b.add(cycles, share_among_cores(b, all, s.parallel(), cores, o));
  }
  if (!leaves_out(o, DraftPenalty::kCores))
    for (const LoopColumns& l : nest.loops) {
      if (l.loop->loop_kind != LoopKind::kParallel) continue;
      const Column launch = b.add(number(core.launch_cycles), b.mul(l.extent, number(core.task_cycles)));
      cycles = b.add(cycles, b.mul(b.less(number(1), l.extent), launch));
    }
  return b.mul(cycles, number(1 / clock));
}

}  // namespace tcc::cost
