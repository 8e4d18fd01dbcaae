// Walks the statements of a launch. gpu_counter_values.cpp has their arithmetic, gpu_counter_access.cpp the accesses.
#include "cost/gpu_counter.h"

#include <algorithm>
#include <cmath>

#include "cost/gpu_figures.h"
#include "tcc/analysis/address.h"
#include "tcc/analysis/gpu_unrolling.h"
#include "tcc/analysis/padded_copies.h"
#include "tcc/analysis/roles.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::cost {

using namespace ir;

namespace {

constexpr int64_t kWideIndex = int64_t{1} << 31;

}  // namespace

double loop_extent(const Loop& l) {
  return is_int(l.extent) ? static_cast<double>(std::max<int64_t>(int_value(l.extent), 1)) : 1;
}
double buffer_bytes(const Buffer& b) {
  double n = static_cast<double>(type_bytes(b.type));
  for (Expr e : b.shape) n *= is_int(e) ? static_cast<double>(std::max<int64_t>(int_value(e), 1)) : 1;
  return n;
}

GpuCounter::GpuCounter(const Kernel& nest, const target::Target& target, LaunchFacts& facts)
    : k_(nest), target_(target), model_(target.cuda.model), facts_(facts), b_(arena_) {
  const auto ids = static_cast<size_t>(std::max<Id>(nest.next_id, 0)) + 1;
  depth_.assign(ids, -1);
  copies_.assign(ids, 1);
  picks_.assign(ids, false);
  stored_.assign(ids, 0);
  places_.assign(ids, Place::kMemory);
  made_.assign(ids, 0);
  swizzled_.assign(ids, false);
  padded_.assign(ids, false);
  for (const analysis::PaddedCopy& copy : analysis::padded_copies(b_, nest))
    padded_[static_cast<size_t>(copy.buffer)] = true;
  for (const Buffer* b : nest.buffers) {
    if (b->scope == Scope::kLocal) places_[static_cast<size_t>(b->id)] = Place::kRegisters;
    if (b->scope == Scope::kShared) places_[static_cast<size_t>(b->id)] = Place::kShared;
    if (buffer_bytes(*b) / static_cast<double>(type_bytes(b->type)) >= static_cast<double>(kWideIndex))
      index_factor_ = model_.wide_index_factor;
  }
}

void GpuCounter::run(Stmt launch) {
  visit(launch, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    multiplies_ = multiplies_ || (call != nullptr && instruction(call->instr).flops > 0);
    return !multiplies_;
  });
  scan(launch, false, 0);
  matrix_ |= groups_;
  for (size_t a = 0; a < std::size(axes_); ++a) {
    const auto axis = static_cast<Axis>(a);
    if (axes_[a] == 0) continue;
    if (is_grid(axis) || is_cluster(axis)) facts_.blocks *= axes_[a];
    if (is_cluster(axis)) facts_.cluster *= axes_[a];
    if (is_thread(axis)) facts_.threads *= axes_[a];
  }
  if (matrix_) facts_.threads *= lanes();
  role_ = analysis::role_loop(launch);
  facts_.registers = kExpectedAddressRegisters;
  facts_.latency_cycles = stmt(launch, 1).all();
  facts_.bytes_in_flight = std::max(facts_.bytes_in_flight, batch_);
  finish(launch);
}

void GpuCounter::finish(Stmt launch) {
  facts_.registers += tile_registers_;
  if (role_ != nullptr) {
    const analysis::RoleShape shape =
        analysis::role_shape(analysis::consumer_groups(launch), target_.cuda.registers_per_sm);
    facts_.threads = static_cast<double>(shape.threads);
    facts_.registers = static_cast<double>(shape.launch_registers);
  }
  facts_.shared_bytes =
      static_cast<double>(analysis::shared_bytes(k_, launch, requests_, target_.cuda.shared_per_block));
  if (role_ != nullptr) facts_.shared_bytes += static_cast<double>(analysis::staged_bytes(k_, launch));
  facts_.registers = std::min(facts_.registers, static_cast<double>(target_.cuda.max_registers_per_thread));
  const auto l2 = static_cast<double>(target_.cuda.l2_bytes);
  for (const Traffic& t : traffic_) {
    const double bytes = buffer_bytes(*t.buffer), least = std::min(t.touched, bytes);
    const double share = bytes <= l2 / 2 ? model_.small_cache_share : model_.cache_share;
    facts_.global_bytes += t.moved;
    facts_.least_bytes += least;
    facts_.memory_bytes += least + (1 - share) * std::max(0.0, t.moved - least);
  }
  // Warps that exchange little, such as the sums of long streams, seldom wait for each other.
  const bool meets = waits_ && (role_ != nullptr || exchanged_ >= kExchangedShare * facts_.global_bytes);
  facts_.overlap = meets ? 1 : std::ceil(facts_.threads / static_cast<double>(target_.cuda.warp_size));
}

double GpuCounter::touched(const Buffer& b) const {
  for (const Traffic& t : traffic_)
    if (t.buffer == &b) return std::min(t.touched, buffer_bytes(b));
  return 0;
}

int64_t GpuCounter::scan(Stmt s, bool threads, int64_t limit) {
  if (s == nullptr) return 0;
  switch (s->kind) {
    case StmtKind::kSeq: {
      int64_t n = 0;
      for (Stmt c : as<Seq>(s)->stmts) n += scan(c, threads, limit);
      return n;
    }
    case StmtKind::kLoop: {
      const Loop& l = *as<Loop>(s);
      if (l.loop_kind == LoopKind::kBound) {
        double& n = axes_[static_cast<size_t>(l.axis)];
        n = std::max(n, loop_extent(l));
      }
      limit = annotation_or(l, AnnotationKey::kUnrollMax, limit);
      const bool plain = std::exchange(plain_, true), reads = std::exchange(reads_, false);
      const bool memory = std::exchange(touches_memory_, false);
      const uint64_t around = std::exchange(around_, around_ | id_bit(l.id));
      // Virtual threads become the innermost loops of each statement, but for copies that the block shares.
      const bool is_virtual = l.axis == Axis::kVthread;
      const int64_t copies = is_shared_copy(l) ? 1
                             : is_virtual      ? statements_ * static_cast<int64_t>(loop_extent(l))
                                               : statements_;
      const int64_t statements = std::exchange(statements_, copies);
      const int64_t n = scan(l.body, threads || is_thread(l.axis), limit);
      around_ = around, statements_ = statements;
      scan_loop(l, n, limit);
      plain_ = plain_ && plain && copies_[static_cast<size_t>(l.id)] >= loop_extent(l), reads_ = reads_ || reads;
      touches_memory_ = touches_memory_ || memory;
      return is_virtual ? n : n * static_cast<int64_t>(copies_[static_cast<size_t>(l.id)]);
    }
    case StmtKind::kAlloc:
      plain_ = false;
      for (Id id : as<Alloc>(s)->buffers) {
        Place& place = places_[static_cast<size_t>(id)];
        if (place == Place::kMemory) place = threads ? Place::kRegisters : Place::kShared;
      }
      return scan(as<Alloc>(s)->body, threads, limit);
    case StmtKind::kIf:
      return scan(as<If>(s)->then_case, threads, limit) + scan(as<If>(s)->else_case, threads, limit);
    case StmtKind::kStore: {
      const Store& store = *as<Store>(s);
      stored_[static_cast<size_t>(store.buffer)] |= around_;
      scan_access(store.buffer, store.indices);
      visit(store.value, [&](Expr e) {
        if (const Load* load = as<Load>(e)) {
          scan_access(load->buffer, load->indices);
          reads_ = reads_ || places_[static_cast<size_t>(load->buffer)] != Place::kRegisters;
        }
        return true;
      });
      return statements_;
    }
    case StmtKind::kInstrCall: {
      const Instruction& row = instruction(as<InstrCall>(s)->instr);
      matrix_ |= row.participants == Participants::kWarp;
      groups_ |= row.participants == Participants::kWarpgroup;
      plain_ = false;
      for (const Operand& o : as<InstrCall>(s)->operands) {
        stored_[static_cast<size_t>(o.buffer)] |= around_;
        scan_access(o.buffer, o.indices);
      }
      return 1;
    }
    case StmtKind::kBlock:
    case StmtKind::kRoles:
      return 0;
  }
  return 0;
}

void GpuCounter::scan_access(Id buffer, std::span<const Expr> indices) {
  touches_memory_ = touches_memory_ || places_[static_cast<size_t>(buffer)] == Place::kMemory;
  if (places_[static_cast<size_t>(buffer)] != Place::kRegisters) return;
  for (Expr e : indices)
    visit(e, [&](Expr x) {
      if (const Var* v = as<Var>(x)) picks_[static_cast<size_t>(v->id)] = true;
      return true;
    });
}

void GpuCounter::scan_loop(const Loop& l, int64_t statements, int64_t limit) {
  const double extent = loop_extent(l);
  double& copies = copies_[static_cast<size_t>(l.id)];
  const bool picks = picks_[static_cast<size_t>(l.id)];
  const auto of_one = static_cast<double>(std::max<int64_t>(statements, 1));
  const double all = extent * of_one;
  const double most = analysis::max_unrolled_statements(!touches_memory_, multiplies_);
  const bool asked = l.loop_kind == LoopKind::kUnrolled ||
                     (l.loop_kind == LoopKind::kSerial && limit > 0 && all <= static_cast<double>(limit));
  if (l.loop_kind == LoopKind::kVectorized || l.axis == Axis::kVthread)
    copies = extent;
  else if (l.loop_kind == LoopKind::kSerial && picks && extent <= static_cast<double>(analysis::kMaxRegisterLoop))
    copies = extent;
  else if (asked)
    copies = picks || all <= most ? extent : std::max(1.0, std::floor(most * extent / all));
  else if (l.loop_kind == LoopKind::kSerial && !picks && plain_ && reads_)
    copies = static_cast<double>(analysis::unrolled_loads(static_cast<int64_t>(extent), of_one));
}

GpuCounter::Wait GpuCounter::stmt(Stmt s, double times) {
  if (s == nullptr) return {};
  switch (s->kind) {
    case StmtKind::kSeq: {
      Wait all;
      const size_t outer = straight_;
      for (Stmt c : as<Seq>(s)->stmts) {
        straight_ = loops_.size();
        const Wait w = stmt(c, times);
        all.together = std::max(all.together, w.together);
        all.after += w.after;
      }
      straight_ = outer;
      return all;
    }
    case StmtKind::kLoop:
      return loop(*as<Loop>(s), times);
    case StmtKind::kAlloc:
      for (Id id : as<Alloc>(s)->buffers) {
        made_[static_cast<size_t>(id)] = loops_.size();
        storage(*k_.buffer(id));
      }
      return stmt(as<Alloc>(s)->body, times);
    case StmtKind::kIf: {
      const If& branch = *as<If>(s);
      facts_.instructions += warps(times) * model_.condition_instructions * condition_;
      const Wait a = stmt(branch.then_case, times), b = stmt(branch.else_case, times);
      return {std::max(a.together, b.together), std::max(a.after, b.after)};
    }
    case StmtKind::kStore:
      return store(*as<Store>(s), times);
    case StmtKind::kInstrCall:
      instr(*as<InstrCall>(s), times);
      return {};
    case StmtKind::kBlock:
    case StmtKind::kRoles:
      break;
  }
  return {};
}

GpuCounter::Wait GpuCounter::loop(const Loop& l, double times) {
  const double extent = loop_extent(l), copies = copies_[static_cast<size_t>(l.id)];
  const bool bound = l.loop_kind == LoopKind::kBound && l.axis != Axis::kVthread;
  const bool straight = bound || copies >= extent || copying_ || is_shared_copy(l);
  depth_[static_cast<size_t>(l.id)] = static_cast<int32_t>(loops_.size());
  loops_.push_back({&l, extent, straight && !bound, bound});
  // Threads share a copy; all of them are counted around it.
  double n = times * extent;
  if (is_shared_copy(l)) n /= threads_around();
  const bool outer_copying = std::exchange(copying_, copying_ || is_shared_copy(l));
  const double outer_vector = std::exchange(vector_, is_shared_copy(l) ? whole_vector(l) : vector_);
  const double outer_pieces = pieces_;
  if (is_shared_copy(l)) pieces_ = 1 / (std::max(threads_around(), facts_.threads) * vector_);
  if (copying_) pieces_ *= extent;
  const auto depth = static_cast<double>(annotation_or(l, AnnotationKey::kPipelineDepth, 1));
  const double outer_ahead = std::exchange(ahead_, depth > 1 ? std::min(depth, extent) : ahead_);
  const double outer_batch = straight ? batch_ : std::exchange(batch_, 0.0);
  const double outer_copy_wait = depth > 1 ? std::exchange(copy_wait_, 0.0) : copy_wait_;
  const double outer_condition = std::exchange(condition_, condition_share(l));
  Wait w = stmt(l.body, n);
  condition_ = outer_condition;
  if (bound) {
  } else if (has_annotation(l, AnnotationKey::kTreeReduce) && extent > 1 && role_ == nullptr && !matrix_) {
    // Threads combine in pairs.
    combine(extent, times);
    w = {0, std::ceil(std::log2(extent)) * model_.shared_latency_cycles + model_.barrier_cycles};
  } else if (straight) {
    // What virtual threads wait for comes beside each other: they become inner loops of one piece of code.
    w.after *= copying_ || l.axis == Axis::kVthread ? 1 : extent;
  } else {
    const double rounds = std::ceil(extent / copies);
    facts_.instructions += warps(times * rounds) * model_.loop_instructions * index_factor_;
    facts_.bytes_in_flight = std::max(facts_.bytes_in_flight, batch_ * copies);
    // The next address comes from the one before.
    const double counter = model_.loop_instructions * model_.arithmetic_latency_cycles * index_factor_;
    const double step = w.together + w.after * copies + counter;
    w = {0, rounds * std::max(step, depth > 1 ? copy_wait_ / std::max(ahead_ - 1, 1.0) : 0)};
  }
  if (!straight) batch_ = outer_batch;
  if (depth > 1) copy_wait_ = outer_copy_wait;
  copying_ = outer_copying, vector_ = outer_vector, pieces_ = outer_pieces, ahead_ = outer_ahead;
  loops_.pop_back();
  depth_[static_cast<size_t>(l.id)] = -1;
  straight_ = std::min(straight_, loops_.size());
  return w;
}

GpuCounter::Wait GpuCounter::store(const Store& store, double times) {
  const Buffer& b = *k_.buffer(store.buffer);
  const bool moves = store.value->kind == ExprKind::kLoad;
  valued_.clear();
  root_ = store.value, coarse_ = false;
  // Sums in shared memory are in registers while their loops run.
  if (places_[static_cast<size_t>(b.id)] == Place::kShared && !loads_from(store.value, store.buffer))
    exchanged_ += times * static_cast<double>(type_bytes(b.type));
  to_registers_ = moves && places_[static_cast<size_t>(b.id)] == Place::kRegisters;
  Wait w = value(store.value, times, !moves && !copying_);
  // A producer's copies are one instruction for a box.
  if (copying_ && role_ == nullptr) {
    const double pieces = warps(times) / vector_;
    facts_.copy_instructions += pieces * model_.copy_instructions;
    facts_.instructions += pieces * model_.copy_instructions;
  }
  if (store.predicate != nullptr && !copying_)
    facts_.instructions += warps(times) * model_.condition_instructions * condition_;
  if (!moves && !copying_ && is_half(b.type)) facts_.instructions += warps(times) / 2;  // pairs are rounded together
  access(b, store.indices, times, false);
  tile(store);
  if (copying_) {
    swizzled_[static_cast<size_t>(b.id)] = true;
    if (ahead_ <= 1) return {w.together, 0};
    copy_wait_ = std::max(copy_wait_, w.together);
    return {};
  }
  if (loads_from(store.value, store.buffer)) {
    // A sum waits for itself, as far as straight code has no other sums.
    look_at(b, store.indices);
    double others = 1;
    for (size_t i = loops_.size(); i-- > 0 && loops_[i].expanded;)
      if (movement_.steps[i] != 0) others *= loops_[i].extent;
    w.after += model_.arithmetic_latency_cycles / others;
  }
  return w;
}

void GpuCounter::instr(const InstrCall& call, double times) {
  const Instruction& row = instruction(call.instr);
  const double flops = times * static_cast<double>(row.flops);
  const bool by_warp = row.participants == Participants::kWarp;
  const double rate = matrix_peak(target_.peak, row.operands.back().type) * (by_warp ? model_.warp_matrix_share : 1);
  facts_.instructions += times;
  facts_.matrix_flops += flops;
  facts_.matrix_seconds += flops / std::max(rate, 1.0);
  // Instructions that read shared memory themselves.
  for (const OperandSpec& o : row.operands)
    if (o.scope == Scope::kShared && o.rank == 2 && row.flops > 0)
      facts_.shared_accesses +=
          times * static_cast<double>(o.tile[0] * o.tile[1] * type_bytes(o.type)) / model_.l1_bytes_per_cycle;
}

// A vector of a vectorized loop tests the conditions of its elements once.
double GpuCounter::condition_share(const Loop& l) {
  if (l.loop_kind != LoopKind::kVectorized) return 1;
  double widest = 1;
  to_registers_ = false;
  auto look = [&](Id id, std::span<const Expr> indices) {
    if (places_[static_cast<size_t>(id)] == Place::kRegisters) return;
    look_at(*k_.buffer(id), indices);
    widest = std::max(widest, vector_of(type_bytes(k_.buffer(id)->type)));
  };
  visit(l.body, [&](Stmt s) {
    if (const Store* store = as<Store>(s)) look(store->buffer, store->indices);
    return true;
  });
  visit_loads(l.body, [&](const Load& load) { look(load.buffer, load.indices); });
  return 1 / widest;
}

// Elements that a thread copies at a time: those asked for, where they are certain to be neighbors.
double GpuCounter::whole_vector(const Loop& l) {
  const auto lanes = annotation_or(l, AnnotationKey::kCooperativeFetch, 1);
  if (lanes < 2 || !is_int(l.extent) || int_value(l.extent) % lanes != 0) return 1;
  analysis::Ranges ranges(k_);
  for (const Around& around : loops_) ranges.set(around.loop->id, around.loop->extent);
  ranges.set(l.id, b_.integer(int_value(l.extent) / lanes));
  auto contiguous = [&](Id id, std::span<const Expr> indices) {
    Expr flat = analysis::flat_address(b_, *k_.buffer(id), indices);
    auto at = [&](int64_t lane) {
      Substitution element;
      element.set(l.id, b_.offset(b_.scale(b_.var(l.id), lanes), lane));
      return analysis::simplify(b_, substitute(b_, flat, element), ranges);
    };
    Expr first = at(0);
    return is_int(b_.sub(at(1), first), 1) && is_int(b_.sub(at(lanes - 1), first), lanes - 1) &&
           analysis::known_divisor(k_, first) % lanes == 0;
  };
  bool all = true;
  visit(l.body, [&](Stmt s) {
    const Store* store = as<Store>(s);
    if (store == nullptr) return all;
    all &= contiguous(store->buffer, store->indices);
    visit(store->value, [&](Expr e) {
      if (const Load* load = as<Load>(e)) all &= contiguous(load->buffer, load->indices);
      return all;
    });
    return false;
  });
  return all ? static_cast<double>(lanes) : 1;
}

// That hold a fragment together.
double GpuCounter::lanes() const {
  return static_cast<double>(target_.cuda.warp_size * (groups_ ? kGroupWarps : 1));
}

double GpuCounter::threads_around() const {
  double n = 1;
  for (const Around& a : loops_)
    if (is_thread(a.loop->axis) || a.loop->axis == Axis::kVthread) n *= a.extent;
  return n;
}

// Instructions of warps for that many executions by threads: lanes of a warp that is not full do nothing.
double GpuCounter::warps(double times) const {
  const auto warp = static_cast<double>(target_.cuda.warp_size);
  return times / facts_.threads * std::ceil(facts_.threads / warp);
}

void GpuCounter::storage(const Buffer& b) {
  double vthreads = 1, stages = 1, steps = 1;
  for (const Around& a : loops_) {
    stages = std::max(
        stages, std::min(static_cast<double>(annotation_or(*a.loop, AnnotationKey::kPipelineDepth, 1)), a.extent));
    if (a.loop->loop_kind != LoopKind::kBound) steps *= a.extent;
    if (a.loop->axis == Axis::kVthread) vthreads *= a.extent;
  }
  const double bytes = buffer_bytes(b);
  if (places_[static_cast<size_t>(b.id)] == Place::kRegisters) {
    // Fragments, and rows that are allocated outside of the threads that use them, are spread over these threads.
    const double spread = matrix_ ? lanes() : std::max(1.0, facts_.threads * vthreads / threads_around());
    const double elements = bytes / static_cast<double>(type_bytes(b.type));
    facts_.registers += std::max(bytes / 4 / spread, std::min(elements, 1.0)) * vthreads;
    facts_.parallelism = std::max(facts_.parallelism, elements * vthreads / (matrix_ ? 1 : spread));
  } else if (!loops_.empty()) {
    waits_ = true;
    requests_.scopes[b.id] = Scope::kShared;
    requests_.versions[b.id] = static_cast<int64_t>(stages);
    facts_.stages = std::max(facts_.stages, stages);
    const double arrives =
        role_ != nullptr && facts_.cluster > 1 ? model_.remote_arrive_cycles * (facts_.cluster - 1) : 0;
    facts_.step_cycles = std::max(facts_.step_cycles, steps * (model_.barrier_cycles + arrives));
  }
}

// Sums in memory that unrolled loops choose, within a loop that adds to all of them, are in registers meanwhile
// (lower/hoist_accumulators.h).
void GpuCounter::tile(const Store& store) {
  const Buffer& b = *k_.buffer(store.buffer);
  if (b.scope == Scope::kLocal || !loads_from(store.value, store.buffer)) return;
  look_at(b, store.indices);
  double elements = 1;
  for (size_t i = loops_.size(); i-- > 0 && loops_[i].loop->loop_kind == LoopKind::kUnrolled;)
    if (movement_.steps[i] != 0) elements *= loops_[i].extent;
  facts_.parallelism = std::max(facts_.parallelism, elements);
  tile_registers_ = std::max(tile_registers_, elements);
}

}  // namespace tcc::cost
