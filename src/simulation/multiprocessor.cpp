// One multiprocessor, event by event. Warps take steps in the order of their clocks; a step occupies the units that it
// needs from the moment at which they are free, and ends when what it waits for has arrived. Loops of many iterations
// run a few of them; the others take as long as the last ones took.
#include "tcc/simulation/multiprocessor.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_map>

#include "simulation/address.h"
#include "simulation/occupancy.h"
#include "simulation/warp_state.h"
#include "tcc/support/rng.h"

namespace tcc::simulation {

using namespace ir;

namespace {

constexpr int64_t kSector = 32, kLineSectors = 4;
constexpr int64_t kMaxEvents = 4'000'000;
constexpr int64_t kFreshSamples = 24;  // blocks that are asked what they read at about the same time
constexpr int64_t kGenerations = 3;    // of blocks that are simulated
constexpr double kQueued = 2;          // latencies of stores that a queue holds
constexpr double kMinMatrixRate = 2;   // so that types without matrix instructions divide by no zero

class Multiprocessor {
 public:
  Multiprocessor(const Kernel& k, const LaunchCode& code, const target::Target& target, const Machine& machine,
                 const Occupancy& occupancy)
      : k_(k),
        code_(code),
        steps_(code.steps),
        target_(target),
        m_(machine),
        blocks_(occupancy.blocks),
        resident_(occupancy.resident),
        slowdown_(occupancy.slowdown) {
    const auto sms = static_cast<double>(target.cuda.sm_count);
    const double busy = std::min<double>(sms, static_cast<double>(blocks_));
    memory_rate_ = std::min(target.memory_bandwidth * m_.memory_share / target.clock_hz / busy, m_.l2_bytes_per_cycle);
    const double shared = static_cast<double>(code.shared_bytes) * static_cast<double>(resident_);
    const double left = std::max(static_cast<double>(target.cuda.shared_per_sm) * 1.15 - shared, 4096.0);
    l1_lines_ = std::max<int64_t>(static_cast<int64_t>(left * m_.l1_share) / (kSector * kLineSectors), 16);
    fma_cycles_ = static_cast<double>(target.cuda.warp_size * target.cuda.schedulers_per_sm) /
                  std::max<double>(static_cast<double>(target.cuda.fp32_lanes_per_sm), 1);
    issue_.assign(static_cast<size_t>(target.cuda.schedulers_per_sm), 0);
    matrix_.assign(issue_.size(), 0);
  }

  // Cycles until the multiprocessor has run all of its `count` blocks. It runs three generations of them at most; the
  // others take as long as those in the middle, which begin while others end.
  Result<double> run(int64_t count) {
    const int64_t most = std::min(count, kGenerations * resident_);
    for (int64_t b = 0; b < std::min(count, resident_); ++b) start_block(b, m_.block_start);
    int64_t next = std::min(count, resident_);
    std::vector<double> ends;
    while (!queue_.empty()) {
      const int32_t index = queue_.top().second;
      queue_.pop();
      if (++events_ > kMaxEvents) return input_error("the simulated program took more than {} steps", kMaxEvents);
      Warp& w = warps_[static_cast<size_t>(index)];
      if (!step(w, index)) continue;
      Block& block = blocks_run_[static_cast<size_t>(w.block)];
      block.end = std::max(block.end, w.time);
      if (--block.running > 0) continue;
      ends.push_back(block.end);
      block = {};
      if (next < most) start_block(next++, ends.back() + m_.block_start);
    }
    if (std::ssize(ends) < most) return input_error("warps of the simulated program wait for each other forever");
    std::sort(ends.begin(), ends.end());
    if (count == most) return ends.back();
    const auto r = static_cast<size_t>(resident_);
    return ends.back() + (ends[2 * r - 1] - ends[r - 1]) * static_cast<double>(count - most) / static_cast<double>(r);
  }
  int64_t events() const { return events_; }

 private:
  using Event = std::pair<double, int32_t>;

  void push(int32_t warp) { queue_.push({warps_[static_cast<size_t>(warp)].time, warp}); }

  // The k-th block of this multiprocessor; others run those between.
  void start_block(int64_t k, double time) {
    Block block;
    block.number = (k * std::min(target_.cuda.sm_count, blocks_)) % blocks_;
    block.running = code_.warps;
    const auto slot = static_cast<int32_t>(blocks_run_.size());
    for (int64_t n = 0; n < code_.warps; ++n) {
      Warp w;
      w.block = slot, w.number = n, w.time = time;
      w.scheduler = (n + k * code_.warps) % std::ssize(issue_);
      w.values = code_.values[static_cast<size_t>(n)];
      set_block(w.values, block.number);
      const auto& entries = code_.entries[static_cast<size_t>(n)];
      w.at = entries.empty() ? static_cast<int32_t>(steps_.size()) - 1 : entries[0];
      warps_.push_back(std::move(w));
      push(static_cast<int32_t>(warps_.size()) - 1);
    }
    blocks_run_.push_back(std::move(block));
  }

  // Neighbors along the innermost loop of the grid run at the same time.
  void set_block(Values& values, int64_t number) const {
    for (size_t i = code_.grid.size(); i-- > 0;) {
      const Loop& l = *code_.grid[i];
      const int64_t n = is_int(l.extent) ? std::max<int64_t>(int_value(l.extent), 1) : 1;
      values[static_cast<size_t>(l.id)] = number % n;
      number /= n;
    }
  }

  // Returns whether the warp has ended. A warp that goes on is queued again; one that waits is not.
  bool step(Warp& w, int32_t index) {
    const Step& s = steps_[static_cast<size_t>(w.at)];
    while (!w.masks.empty() && w.at >= w.masks.back().first) w.masks.pop_back();
    switch (s.kind) {
      case StepKind::kWork:
        if (work(w, s)) ++w.at;
        break;
      case StepKind::kLoop:
        begin_loop(w, s);
        break;
      case StepKind::kEndLoop:
        end_loop(w, s);
        break;
      case StepKind::kUnless:
        occupy(w, 2);
        if (const int64_t lanes = lanes_where(w, s.condition, s.negated); lanes > 0) {
          w.masks.push_back({s.jump, lanes});
          ++w.at;
        } else {
          w.at = s.jump;
        }
        break;
      case StepKind::kSync:
        ++w.at;
        if (!sync(w, index, *s.call)) return false;
        break;
      case StepKind::kEnd: {
        const auto& entries = code_.entries[static_cast<size_t>(w.number)];
        if (++w.section >= entries.size()) return true;
        w.at = entries[w.section];
        break;
      }
    }
    push(index);
    return false;
  }

  int64_t lanes_where(Warp& w, Expr condition, bool negated) {
    int64_t count = 0;
    for (const auto& lane : code_.lanes[static_cast<size_t>(w.number)])
      count += with_lane(w.values, lane, [&] { return (evaluate(condition, w.values) != 0) != negated; }) ? 1 : 0;
    return count;
  }
  template <class F>
  static bool with_lane(Values& values, const std::vector<std::pair<Id, int64_t>>& lane, F&& f) {
    constexpr size_t kMax = 8;
    std::pair<Id, int64_t> before[kMax];
    const size_t n = std::min(lane.size(), kMax);
    for (size_t i = 0; i < n; ++i) {
      before[i] = {lane[i].first, values[static_cast<size_t>(lane[i].first)]};
      values[static_cast<size_t>(lane[i].first)] = lane[i].second;
    }
    const bool result = f();
    for (size_t i = 0; i < n; ++i) values[static_cast<size_t>(before[i].first)] = before[i].second;
    return result;
  }

  // --- loops ---

  void begin_loop(Warp& w, const Step& s) {
    const int64_t extent = evaluate(s.loop->extent, w.values), n = (extent + s.stride - 1) / s.stride;
    if (n <= 0) {
      w.at = s.jump;
      return;
    }
    w.values[static_cast<size_t>(s.loop->id)] = 0;
    w.frames.push_back({.step = w.at, .iteration = 0, .extent = n});
    ++w.at;
  }

  void end_loop(Warp& w, const Step& s) {
    Frame& f = w.frames.back();
    const Step& begin = steps_[static_cast<size_t>(s.jump)];
    const double overhead = begin.loop->loop_kind == LoopKind::kUnrolled ? 0 : m_.loop_instructions;
    occupy(w, overhead);
    ++f.iteration;
    skip(w, f, begin);
    if (f.iteration >= f.extent) {
      w.at = begin.jump;
      w.frames.pop_back();
      return;
    }
    w.values[static_cast<size_t>(begin.loop->id)] = f.iteration * begin.stride;
    w.at = s.jump + 1;
  }

  // Runs the first iterations and the last ones; between them the clock goes on at the rate of the latest.
  void skip(Warp& w, Frame& f, const Step& begin) {
    const int64_t period = begin.period, warm = begin.waits ? period + 1 : 1, span = std::max<int64_t>(period, 2);
    const int64_t tail = std::max<int64_t>(period, 1) + 1;
    if (f.extent < warm + span + tail + 2 * period) return;
    if (f.iteration == warm) f.mark = w.time;
    if (f.iteration != warm + span) return;
    const int64_t skipped = (f.extent - tail - f.iteration) / period * period;
    if (skipped <= 0) return;
    w.time += static_cast<double>(skipped) * (w.time - f.mark) / static_cast<double>(span);
    f.iteration += skipped;
  }

  // --- units ---

  // Instructions of the warp's scheduler.
  void occupy(Warp& w, double instructions, double cycles = 1) {
    double& free = issue_[static_cast<size_t>(w.scheduler)];
    free = std::max(free, w.time) + instructions * cycles;
    w.time = free;
  }
  static double take(double& free, double from, double cycles) {
    free = std::max(free, from) + cycles;
    return free;
  }

  // Loads, arithmetic and stores are turns of their own: between them other warps take the units that this warp needs
  // later. Returns whether the step is done.
  bool work(Warp& w, const Step& s) {
    auto& accesses = const_cast<std::vector<WarpAccess>&>(s.accesses);  // patterns are found when first needed
    switch (w.turn++) {
      case 0: {
        double ready = w.time, instructions = 0;
        for (WarpAccess& a : accesses) {
          if ((a.store && !a.asynchronous) || !is_on(w, a)) continue;
          instructions += static_cast<double>(a.instructions) + a.address;
          double& complete = a.asynchronous ? w.open_group : ready;
          complete = std::max(complete, touch(w, a));
        }
        occupy(w, instructions + (instructions > 0 ? m_.address_instructions : 0));
        w.time = std::max(w.time, ready);
        return false;
      }
      case 1:
        arithmetic(w, s);
        return false;
      default:
        for (WarpAccess& a : accesses) {
          if (!a.store || a.asynchronous || !is_on(w, a)) continue;
          occupy(w, static_cast<double>(a.instructions) + a.address);
          // Nobody waits for a store, but queues have an end.
          w.time = std::max(w.time, touch(w, a) - kQueued * (a.shared ? m_.shared_latency : m_.memory_latency));
        }
        w.turn = 0;
        return true;
    }
  }

  void arithmetic(Warp& w, const Step& s) {
    const double begin = w.time;
    occupy(w, s.arithmetic * slowdown_, fma_cycles_);
    double end = w.time;
    if (s.special > 0) {
      const double cycles = static_cast<double>(target_.cuda.warp_size) / m_.special_per_cycle;
      end = std::max(end, take(special_, begin, s.special * cycles) + m_.special_latency);
    }
    if (s.matrix_flops > 0) {
      const double rate = matrix_rate(s.matrix_type) * m_.warp_matrix_share;
      end = std::max(end, take(matrix_[static_cast<size_t>(w.scheduler)], begin, s.matrix_flops / rate));
      end = std::max(end, begin + s.chain * m_.matrix_latency);
    }
    w.time = std::max(end, begin + s.chain * m_.arithmetic_latency);
  }

  // Operations of one scheduler's matrix unit in a cycle.
  double matrix_rate(Type t) const {
    const target::Peaks& p = target_.peak;
    const double peak = t == Type::kF16                    ? p.fp16
                        : t == Type::kBF16                 ? p.bf16
                        : t == Type::kF32                  ? p.tf32
                        : t == Type::kI8 || t == Type::kU8 ? p.int8
                                                           : p.fp32;
    return std::max(peak / target_.clock_hz / static_cast<double>(target_.cuda.sm_count * std::ssize(issue_)),
                    kMinMatrixRate);
  }

  bool is_on(Warp& w, WarpAccess& a) {
    if (a.conditions.empty()) return true;
    apply_copy(w, a, 1);
    bool on = false;
    const auto& lanes = code_.lanes[static_cast<size_t>(w.number)];
    for (size_t lane : {size_t{0}, lanes.size() / 2, lanes.size() - 1})
      on = on || with_lane(w.values, lanes[lane], [&] {
             return std::all_of(a.conditions.begin(), a.conditions.end(),
                                [&](Expr c) { return evaluate(c, w.values) != 0; });
           });
    apply_copy(w, a, -1);
    return on;
  }

  // Values of loops that are written out, or (sign -1) back. Others start at 0, so both kinds may be added.
  static void apply_copy(Warp& w, const WarpAccess& a, int64_t sign) {
    for (const CopyValue& c : a.copy) w.values[static_cast<size_t>(c.id)] += sign * c.value;
  }

  // When the access is complete.
  double touch(Warp& w, WarpAccess& a) {
    apply_copy(w, a, 1);
    if (!a.known) {
      find_pattern(a, w.values, code_.lanes[static_cast<size_t>(w.number)], m_.conflict_weight);
      if (!a.shared) a.fresh = fresh_share(w, a);
    }
    const int64_t base =
        a.shared ? 0 : element_address(*a.buffer, a.indices, w.values) * type_bytes(a.buffer->type) / kSector;
    apply_copy(w, a, -1);
    const auto times = static_cast<double>(a.instructions);
    if (a.shared) {
      const double done = take(lsu_, w.time, a.wavefronts * times);
      return a.asynchronous ? done : done + m_.shared_latency;
    }
    return touch_memory(w, a, base, times);
  }

  double touch_memory(Warp& w, const WarpAccess& a, int64_t base, double times) {
    const uint64_t buffer = static_cast<uint64_t>(a.buffer->id) << 44;
    double l1 = 0, l2 = 0, memory = 0;
    int64_t line = -1;
    for (int64_t delta : a.sectors) {
      const auto sector = static_cast<uint64_t>(base + delta);
      if (const auto at = static_cast<int64_t>(sector / kLineSectors); at != line) line = at, l1 += 1;
      auto [seen, first] = lines_.try_emplace(buffer | sector, 0);
      const bool in_l1 = !first && !a.past_l1 && !a.store && fills_ - seen->second < l1_lines_ * kLineSectors;
      if (!in_l1) {
        l2 += kSector;
        memory += kSector * (first ? (a.store ? 1 : a.fresh) : 1 - l2_hits(*a.buffer));
        seen->second = fills_++;
      }
    }
    l2 *= times, memory *= times;
    double done = take(lsu_, w.time, l1 * times) + m_.l1_latency;
    if (l2 > 0) done = std::max(done, take(l2_, w.time, l2 / m_.l2_bytes_per_cycle) + m_.l2_latency);
    if (memory > 0) done = std::max(done, take(memory_, w.time, memory / memory_rate_) + m_.memory_latency);
    return done;
  }

  // Of lines that this multiprocessor has read before.
  double l2_hits(const Buffer& b) const {
    const double bytes = static_cast<double>(elements(b) * type_bytes(b.type));
    return std::min(1.0, static_cast<double>(target_.cuda.l2_bytes) * m_.l2_share / std::max(bytes, 1.0));
  }

  // Share of distinct places among those that blocks of one wave touch by this access at the same step.
  double fresh_share(Warp& w, const WarpAccess& a) {
    const int64_t wave = std::min(blocks_, target_.cuda.sm_count * resident_);
    const int64_t samples = std::min(wave, kFreshSamples);
    std::vector<int64_t> places;
    Values values = w.values;
    for (int64_t i = 0; i < samples; ++i) {
      set_block(values, i * wave / samples);
      places.push_back(element_address(*a.buffer, a.indices, values));
    }
    std::sort(places.begin(), places.end());
    const auto distinct = std::unique(places.begin(), places.end()) - places.begin();
    return static_cast<double>(distinct) / static_cast<double>(samples);
  }

  // --- what warps wait for; false: the warp waits and is not queued ---

  bool sync(Warp& w, int32_t index, const InstrCall& call) {
    const Instruction& row = instruction(call.instr);
    occupy(w, 1);
    if (row.family == Family::kWgmma && row.behaviour == Behaviour::kCompute) return product(w, row);
    if (row.family == Family::kTensorCopy && row.behaviour == Behaviour::kCompute) return tensor_copy(w, call, row);
    if (row.family == Family::kFlag) {
      // Of other multiprocessors, which do the same at the same time.
      if (row.behaviour == Behaviour::kMbarrierWait) w.time += m_.memory_latency;
      return true;
    }
    switch (row.behaviour) {
      case Behaviour::kBarSync:
        return meet(w, index, evaluate(call.args[0], w.values),
                    (evaluate(call.args[1], w.values) + target_.cuda.warp_size - 1) / target_.cuda.warp_size,
                    m_.barrier_latency);
      case Behaviour::kClusterSync:
        return meet(w, index, -1, code_.warps, m_.cluster_latency);
      case Behaviour::kCopyCommit:
        w.groups.push_back(std::exchange(w.open_group, 0));
        return true;
      case Behaviour::kCopyWait:
      case Behaviour::kCopyWaitRead:
        wait_groups(w, w.groups, evaluate(call.args[0], w.values));
        return true;
      case Behaviour::kWgmmaCommit:
        w.products.push_back(std::exchange(w.open_products, 0));
        return true;
      case Behaviour::kWgmmaWait:
        wait_groups(w, w.products, evaluate(call.args[0], w.values));
        return true;
      case Behaviour::kMbarrierInit: {
        Arrivals& b = barrier(w, call.operands[0]);
        b.expected = b.pending = std::max<int64_t>(evaluate(call.args[0], w.values), 1);
        return true;
      }
      case Behaviour::kMbarrierArrive:
        // Blocks of a cluster do the same: what this one sends to others, others send to it.
        arrive(barrier(w, call.operands[0]), active(w), 0, w.time + m_.arrival_latency);
        return true;
      case Behaviour::kMbarrierExpectTx: {
        Arrivals& b = barrier(w, call.operands[0]);
        b.bytes += evaluate(call.args[0], w.values);
        arrive(b, 1, 0, w.time);
        return true;
      }
      case Behaviour::kMbarrierWait:
        return wait_barrier(w, index, call);
      default:
        return true;  // fences, register counts
    }
  }

  // Threads of the warp that run the step.
  int64_t active(const Warp& w) const { return w.masks.empty() ? target_.cuda.warp_size : w.masks.back().second; }

  static void wait_groups(Warp& w, std::deque<double>& groups, int64_t pending) {
    while (std::ssize(groups) > pending) {
      w.time = std::max(w.time, groups.front());
      groups.pop_front();
    }
  }

  bool product(Warp& w, const Instruction& row) {
    constexpr double kWarps = 4;
    const double flops = static_cast<double>(row.flops) / kWarps;
    const double rate = matrix_rate(row.operands[1].type) * m_.group_matrix_share;
    const double done = take(matrix_[static_cast<size_t>(w.scheduler)], w.time, flops / rate);
    w.open_products = std::max(w.open_products, done + m_.matrix_latency);
    return true;
  }

  bool tensor_copy(Warp& w, const InstrCall& call, const Instruction& row) {
    const bool loads = row.completion == Completion::kMbarrierBytes;
    const Operand& memory = call.operands[loads ? 2 : 0];
    const Buffer* b = k_.buffer(memory.buffer);
    const int64_t rows = evaluate(call.args[0], w.values), columns = evaluate(call.args[1], w.values);
    const int64_t bytes = rows * columns * type_bytes(row.operands[0].type);
    int64_t receivers = 1;
    if (row.multicast_arg >= 0)
      receivers = std::max(__builtin_popcountll(static_cast<uint64_t>(
                               evaluate(call.args[static_cast<size_t>(row.multicast_arg)], w.values))),
                           1);
    const uint64_t place = static_cast<uint64_t>(element_address(*b, memory.indices, w.values));
    const bool first = lines_.try_emplace(combine_hash(static_cast<uint64_t>(b->id) + 1, place), 0).second;
    WarpAccess probe{.buffer = b, .indices = memory.indices};
    const double share = first ? (loads ? fresh_share(w, probe) : 1) : 1 - l2_hits(*b);
    const double own = static_cast<double>(bytes);
    double done = take(l2_, w.time, own * static_cast<double>(receivers) / m_.l2_bytes_per_cycle) + m_.l2_latency;
    done = std::max(done, take(memory_, w.time, own * share / memory_rate_) + m_.memory_latency);
    if (!loads) {
      w.open_group = std::max(w.open_group, done);
      return true;
    }
    arrive(barrier(w, call.operands[1]), 0, bytes * receivers, done);
    return true;
  }

  bool meet(Warp& w, int32_t index, int64_t number, int64_t warps, double latency) {
    Rendezvous& r = blocks_run_[static_cast<size_t>(w.block)].meetings[number];
    r.latest = std::max(r.latest, w.time);
    if (++r.arrived < warps) {
      r.waiting.push_back(index);
      return false;
    }
    const double time = r.latest + latency;
    for (int32_t other : r.waiting) {
      warps_[static_cast<size_t>(other)].time = time;
      push(other);
    }
    w.time = time;
    r = {};
    return true;
  }

  uint64_t barrier_key(Warp& w, const Operand& o) const {
    const Buffer& b = *k_.buffer(o.buffer);
    return combine_hash(static_cast<uint64_t>(b.id), static_cast<uint64_t>(element_address(b, o.indices, w.values)));
  }
  Arrivals& barrier(Warp& w, const Operand& o) {
    return blocks_run_[static_cast<size_t>(w.block)].barriers[barrier_key(w, o)];
  }

  void arrive(Arrivals& b, int64_t threads, int64_t bytes, double time) {
    b.pending -= threads;
    b.bytes -= bytes;
    b.latest = std::max(b.latest, time);
    if (b.pending > 0 || b.bytes > 0) return;
    const double done = std::exchange(b.latest, 0);
    b.completed.push_back(b.completed.empty() ? done : std::max(done, b.completed.back()));
    b.pending += std::max<int64_t>(b.expected, 1);
    for (int32_t other : std::exchange(b.waiting, {})) {
      Warp& o = warps_[static_cast<size_t>(other)];
      o.time = std::max(o.time, done);
      --o.at;  // asks again
      push(other);
    }
  }

  bool wait_barrier(Warp& w, int32_t index, const InstrCall& call) {
    const uint64_t key = barrier_key(w, call.operands[0]);
    Arrivals& b = blocks_run_[static_cast<size_t>(w.block)].barriers[key];
    auto [through, fresh] = w.through.try_emplace(key, 0);
    // The phase before the first one counts as complete.
    if (fresh) through->second = evaluate(call.args[0], w.values) % 2 != 0 ? 1 : 0;
    const int64_t needed = w.waits[key] + 1 - through->second;
    if (needed > std::ssize(b.completed)) {
      b.waiting.push_back(index);
      return false;
    }
    ++w.waits[key];
    if (needed > 0) w.time = std::max(w.time, b.completed[static_cast<size_t>(needed - 1)]);
    return true;
  }

  const Kernel& k_;
  const LaunchCode& code_;
  const std::vector<Step>& steps_;
  const target::Target& target_;
  const Machine& m_;
  const int64_t blocks_, resident_;
  const double slowdown_;  // of arithmetic, by values that registers do not hold
  double memory_rate_ = 1, fma_cycles_ = 1;
  int64_t l1_lines_ = 16, fills_ = 0, events_ = 0;
  double lsu_ = 0, l2_ = 0, memory_ = 0, special_ = 0;  // when each unit is free
  std::vector<double> issue_, matrix_;                  // of each scheduler
  std::unordered_map<uint64_t, int64_t> lines_;         // sector -> fills before it was last read
  std::deque<Block> blocks_run_;
  std::deque<Warp> warps_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

}  // namespace

Machine draw_machine(uint64_t seed) {
  Rng rng(combine_hash(seed, 0x6d616368));
  Machine m;
#define TCC_X(name, value, spread) m.name = (value) * (1 + (spread) * (2 * rng.uniform() - 1));
  TCC_HIDDEN_CONSTANTS(TCC_X)
#undef TCC_X
  return m;
}

Result<Run> simulate(const Kernel& lowered, const target::Target& target, const Machine& machine) {
  if (lowered.stage != Stage::kLowered)
    return input_error("the simulated GPU takes kernels at stage {}, not {}", stage_name(Stage::kLowered),
                       stage_name(lowered.stage));
  Run run;
  for (const LaunchCode& code : compile_launches(lowered, target, machine)) {
    TCC_TRY(const Occupancy occupancy, find_occupancy(code, target, machine));
    const int64_t sms = target.cuda.sm_count;
    const int64_t own = (occupancy.blocks + sms - 1) / sms;  // blocks of the busiest multiprocessor
    Multiprocessor sm(lowered, code, target, machine, occupancy);
    TCC_TRY(const double cycles, sm.run(own));
    run.seconds += machine.launch_seconds + cycles / target.clock_hz;
    run.events += sm.events();
  }
  return run;
}

}  // namespace tcc::simulation
