// The counts behind the analytical model of GPU programs. They follow the roofline with occupancy (Williams et al.,
// CACM 2009; CUDA occupancy calculator): an access costs its sectors when it goes to memory, its bank conflicts when it
// goes to shared memory, and nothing when unrolled loops keep the value in a register.
#include "tcc/cost/gpu_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tcc/analysis/address.h"
#include "tcc/analysis/roles.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/analysis/simplify.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"

namespace tcc::cost {
namespace {

using namespace ir;

// Registers that a thread usually has beside its local arrays, for occupancy. Programs are refused by the smaller
// kMinAddressRegisters (lower/check_limits.cpp).
constexpr double kExpectedAddressRegisters = 24;
constexpr int64_t kGroupWarps = 4;  // of a warpgroup
constexpr double kRow = 8;          // elements of a fragment's row that lanes hold together
constexpr double kLine = 128;       // bytes of the first-level cache that one access of a warp gets at a time
constexpr double kCopySteps = 6;    // instructions for one of a copy: its address, its condition, itself
// Share of the peak that instructions of a warp reach where those of warpgroups exist (Luo et al., "Benchmarking and
// Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", IPDPS 2024, section on tensor cores).
constexpr double kWarpShare = 0.63;
constexpr double kStepCycles = 60;  // of a barrier and of what is asked of memory around it
// Memory's latency, for which a tile waits before its first step (the same, section on memory: 479 on H100 PCIe).
constexpr double kFillCycles = 480;

double extent_of(const Loop& l) {
  return is_int(l.extent) ? static_cast<double>(std::max<int64_t>(int_value(l.extent), 1)) : 1;
}
double bytes_of(const Buffer& b) {
  double n = static_cast<double>(type_bytes(b.type));
  for (Expr e : b.shape) n *= is_int(e) ? static_cast<double>(std::max<int64_t>(int_value(e), 1)) : 1;
  return n;
}
bool is_cluster(Axis a) {
  return a == Axis::kClusterX || a == Axis::kClusterY;
}
bool is_copy(const Loop& l) {
  return has_annotation(l, AnnotationKey::kCooperativeFetch);
}
// Operations a second of the matrix instructions that multiply values of the type.
double matrix_peak(const target::Peaks& peak, Type t) {
  switch (t) {
    case Type::kF16:
      return peak.fp16;
    case Type::kBF16:
      return peak.bf16;
    case Type::kF32:
      return peak.tf32;
    case Type::kI8:
    case Type::kU8:
      return peak.int8;
    case Type::kBool:
    case Type::kI32:
    case Type::kI64:
    case Type::kF64:
    case Type::kBarrier:
    case Type::kTensorMap:
      break;
  }
  return 0;
}

class Counter {
 public:
  Counter(const Kernel& nest, const target::Target& target, LaunchFacts& facts)
      : k_(nest), target_(target), facts_(facts), b_(arena_) {}

  void run(Stmt launch) {
    std::map<Axis, double> axes;
    visit(launch, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind == LoopKind::kBound)
        axes[l->axis] = std::max(axes[l->axis], extent_of(*l));
      if (const InstrCall* call = as<InstrCall>(s)) {
        matrix_ |= instruction(call->instr).participants == Participants::kWarp;
        groups_ |= instruction(call->instr).participants == Participants::kWarpgroup;
      }
      return true;
    });
    matrix_ |= groups_;
    for (const auto& [axis, n] : axes) {
      if (is_grid(axis) || is_cluster(axis)) facts_.blocks *= n;
      if (is_thread(axis)) facts_.threads *= n;
    }
    if (matrix_) facts_.threads *= lanes();
    role_ = analysis::role_loop(launch);
    facts_.registers = kExpectedAddressRegisters;
    stmt(launch, 1);
    facts_.registers += tile_registers_;
    if (role_ != nullptr) {
      const analysis::RoleShape shape =
          analysis::role_shape(analysis::consumer_groups(launch), target_.cuda.registers_per_sm);
      facts_.threads = static_cast<double>(shape.threads);
      facts_.registers = static_cast<double>(shape.launch_registers);
    }
    facts_.shared_bytes =
        static_cast<double>(analysis::plan_shared(k_, launch, wishes_).bytes(target_.cuda.shared_per_block));
    if (role_ != nullptr) facts_.shared_bytes += static_cast<double>(analysis::staged_bytes(k_, launch));
    facts_.registers = std::min(facts_.registers, static_cast<double>(target_.cuda.max_registers_per_thread));
  }

 private:
  // `times`: executions of the statement by all threads of all blocks together.
  void stmt(Stmt s, double times) {
    if (s == nullptr) return;
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) stmt(c, times);
        return;
      case StmtKind::kLoop: {
        const Loop& l = *as<Loop>(s);
        loops_.push_back(&l);
        // Threads share a copy; all of them are counted around it.
        double n = times * extent_of(l);
        if (is_copy(l)) n /= threads_around();
        const bool outer = std::exchange(copying_, copying_ || is_copy(l));
        const double vector = std::exchange(vector_, is_copy(l) ? whole_vector(l) : vector_);
        stmt(l.body, n);
        copying_ = outer;
        vector_ = vector;
        loops_.pop_back();
        return;
      }
      case StmtKind::kAlloc:
        for (Id id : as<Alloc>(s)->buffers) storage(*k_.buffer(id));
        return stmt(as<Alloc>(s)->body, times);
      case StmtKind::kIf:
        stmt(as<If>(s)->then_case, times);
        return stmt(as<If>(s)->else_case, times);
      case StmtKind::kStore: {
        const Store& store = *as<Store>(s);
        // A producer's copies are one instruction for a box.
        if (copying_ && role_ == nullptr)
          facts_.copy_instructions += times / static_cast<double>(target_.cuda.warp_size) / vector_;
        value(store.value, times);
        access(*k_.buffer(store.buffer), store.indices, times);
        tile(store);
        return;
      }
      case StmtKind::kInstrCall: {
        const Instruction& row = instruction(as<InstrCall>(s)->instr);
        const double flops = times * static_cast<double>(row.flops);
        const bool by_warp = row.participants == Participants::kWarp && target_.cuda.features.wgmma;
        const double rate = matrix_peak(target_.peak, row.operands.back().type) * (by_warp ? kWarpShare : 1);
        facts_.matrix_flops += flops;
        facts_.matrix_seconds += flops / std::max(rate, 1.0);
        // Instructions that read shared memory themselves.
        for (const OperandSpec& o : row.operands)
          if (o.scope == Scope::kShared && o.rank == 2 && row.flops > 0)
            facts_.shared_accesses += times * static_cast<double>(o.tile[0] * o.tile[1] * type_bytes(o.type)) / kLine;
        return;
      }
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        return;
    }
  }

  // Elements that a thread copies at a time: those asked for, where they are certain to be neighbours.
  double whole_vector(const Loop& l) {
    const auto lanes = annotation_or(l, AnnotationKey::kCooperativeFetch, 1);
    if (lanes < 2 || !is_int(l.extent) || int_value(l.extent) % lanes != 0) return 1;
    analysis::Ranges ranges(k_);
    for (const Loop* around : loops_) ranges.set(around->id, around->extent);
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
  double lanes() const { return static_cast<double>(target_.cuda.warp_size * (groups_ ? kGroupWarps : 1)); }

  double threads_around() const {
    double n = 1;
    for (const Loop* l : loops_)
      if (is_thread(l->axis) || l->axis == Axis::kVthread) n *= extent_of(*l);
    return n;
  }

  void storage(const Buffer& b) {
    double vthreads = 1, stages = 1, steps = 1;
    bool threads = false;
    for (const Loop* l : loops_) {
      stages = std::max(
          stages, std::min(static_cast<double>(annotation_or(*l, AnnotationKey::kPipelineDepth, 1)), extent_of(*l)));
      if (l->loop_kind != LoopKind::kBound) steps *= extent_of(*l);
      if (l->axis == Axis::kVthread) vthreads *= extent_of(*l);
      threads |= is_thread(l->axis);
    }
    const double bytes = bytes_of(b);
    if (b.scope == Scope::kLocal || (b.scope == Scope::kGlobal && threads)) {
      facts_.registers += bytes / 4 * vthreads / (matrix_ ? lanes() : 1);
      facts_.parallelism = std::max(facts_.parallelism, bytes / static_cast<double>(type_bytes(b.type)) * vthreads);
    } else if (!loops_.empty()) {
      wishes_.scopes[b.id] = Scope::kShared;
      wishes_.versions[b.id] = static_cast<int64_t>(stages);
      facts_.stages = std::max(facts_.stages, stages);
      facts_.step_cycles = std::max(facts_.step_cycles, steps * kStepCycles);
    }
  }

  // Sums in memory that unrolled loops choose, within a loop that adds to all of them, are in registers meanwhile
  // (lower/hoist_accumulators.h).
  void tile(const Store& store) {
    const Buffer& b = *k_.buffer(store.buffer);
    bool sums = false;
    visit(store.value, [&](Expr e) {
      const Load* l = as<Load>(e);
      sums |= l != nullptr && l->buffer == store.buffer;
      return !sums;
    });
    if (!sums || b.scope == Scope::kLocal) return;
    double elements = 1;
    for (size_t i = loops_.size(); i-- > 0 && loops_[i]->loop_kind == LoopKind::kUnrolled;)
      if (stride(b, store.indices, loops_[i]->id) != 0) elements *= extent_of(*loops_[i]);
    facts_.parallelism = std::max(facts_.parallelism, elements);
    tile_registers_ = std::max(tile_registers_, elements);
  }

  void value(Expr e, double times) {
    visit(e, [&](Expr x) {
      if (const Load* l = as<Load>(x)) {
        access(*k_.buffer(l->buffer), l->indices, times);
        return false;
      }
      const bool counts = x->kind == ExprKind::kAdd || x->kind == ExprKind::kSub || x->kind == ExprKind::kMul ||
                          x->kind == ExprKind::kDiv || x->kind == ExprKind::kMax || x->kind == ExprKind::kMin;
      if (counts || x->kind == ExprKind::kCall) facts_.flops += times * (x->kind == ExprKind::kCall ? 8 : 1);
      return true;
    });
  }

  // Movement of the row-major address with the loop, in elements; -1: not linear.
  int64_t stride(const Buffer& b, std::span<const Expr> indices, Id loop) const {
    int64_t size = 1, out = 0;
    for (size_t d = indices.size(); d-- > 0;) {
      int64_t step = 0;
      auto term = [&](Expr atom, int64_t c) {
        const Var* v = as<Var>(atom);
        if (v != nullptr && v->id == loop) step += c;
        if (v == nullptr && may_mention(atom, loop)) step = -1;
      };
      if (const Sum* sum = as<Sum>(indices[d]))
        for (const Term& t : sum->terms) term(t.atom, t.coefficient);
      else
        term(indices[d], 1);
      if (step < 0) return -1;
      out += step * size;
      size *= is_int(b.shape[d]) ? std::max<int64_t>(int_value(b.shape[d]), 1) : 1;
    }
    return out;
  }

  // The bytes at which the first warp's elements begin in the first iteration of all other loops, for addresses that
  // are not linear in the thread: rows that wrap around within a warp are neighbors in memory all the same. Empty where
  // an address is unknown.
  std::vector<int64_t> first_warp(const Buffer& b, std::span<const Expr> indices) const {
    Assignment at;
    size_t thread = 0;
    int64_t lanes = 1;
    for (const Loop* l : loops_) {
      if (l->axis == Axis::kThreadX) thread = at.size(), lanes = static_cast<int64_t>(extent_of(*l));
      at.emplace_back(l->id, 0);
    }
    std::vector<int64_t> out;
    for (int64_t lane = 0; lane < std::min<int64_t>(lanes, target_.cuda.warp_size); ++lane) {
      at[thread].second = lane;
      int64_t address = 0;
      for (size_t d = 0; d < indices.size(); ++d) {
        const std::optional<int64_t> index = evaluate(indices[d], at);
        if (!index || !is_int(b.shape[d])) return {};
        address = address * int_value(b.shape[d]) + *index;
      }
      out.push_back(address * type_bytes(b.type));
    }
    return out;
  }
  // Pieces of memory, of `bytes` each, that a whole warp of such lanes touches; one for each lane where nothing is
  // known.
  double pieces_of_warp(const std::vector<int64_t>& lanes, int64_t bytes) const {
    const auto warp = static_cast<double>(target_.cuda.warp_size);
    if (lanes.empty()) return warp;
    std::set<int64_t> pieces;
    for (int64_t address : lanes) pieces.insert(ir::floor_div(address, bytes));
    return static_cast<double>(pieces.size()) * warp / static_cast<double>(lanes.size());
  }

  void access(const Buffer& b, std::span<const Expr> indices, double times) {
    if (b.scope == Scope::kLocal) return;
    // Loops of a register tile that the access does not move with reuse the value.
    for (size_t i = loops_.size(); i-- > 0;) {
      const Loop& l = *loops_[i];
      if (l.loop_kind == LoopKind::kBound || extent_of(l) > 64) break;
      if (stride(b, indices, l.id) == 0) times /= extent_of(l);
    }
    const double bytes = static_cast<double>(type_bytes(b.type));
    int64_t along = copying_ ? 1 : 0;
    for (const Loop* l : loops_)
      if (l->axis == Axis::kThreadX && !copying_) along = stride(b, indices, l->id);
    const bool shared = b.scope == Scope::kShared || (b.role == BufferRole::kTemp && b.scope == Scope::kGlobal);
    const double warps = times / static_cast<double>(target_.cuda.warp_size);
    if (shared) {
      // The stores of a producer's boxes are counted with their reads.
      if (copying_ && role_ != nullptr) return;
      // Threads that hit one bank wait for each other.
      const double conflicts = along <= 1 ? 1 : std::min<double>(32, static_cast<double>(along & -along));
      // Fragments and copies of several elements at a time use the whole width of the banks; others a word a lane.
      const double word = matrix_ || (copying_ && vector_ * bytes >= 4) ? bytes / 4 : std::max(1.0, bytes / 4);
      facts_.shared_accesses += warps * conflicts * word;
      return;
    }
    const double sector = static_cast<double>(target_.cuda.memory_transaction_bytes);
    const double per_warp = static_cast<double>(target_.cuda.warp_size) * bytes;
    if (role_ != nullptr && analysis::takes_tensor_stores(b)) {
      // Whole rows leave by tensor copies, after they went to shared memory and were read there.
      facts_.global_bytes += warps * per_warp;
      facts_.shared_accesses += 2 * warps * per_warp / kLine;
      return;
    }
    if (matrix_ && !copying_) {
      // Lanes have eight neighbours of a row between four of them.
      const double rows = per_warp / (kRow * bytes);
      facts_.global_bytes += warps * rows * std::max(sector, kRow * bytes);
      facts_.shared_accesses += warps * rows;
      return;
    }
    double moved = along == 0 ? sector
                              : std::min(per_warp * static_cast<double>(std::max<int64_t>(along, 1)),
                                         sector * static_cast<double>(target_.cuda.warp_size));
    double lines =
        std::min(static_cast<double>(target_.cuda.warp_size), per_warp * static_cast<double>(std::abs(along)) / kLine);
    if (along < 0) {
      const std::vector<int64_t> lanes = first_warp(b, indices);
      moved = sector * pieces_of_warp(lanes, target_.cuda.memory_transaction_bytes);
      lines = pieces_of_warp(lanes, static_cast<int64_t>(kLine));
    }
    // Blocks of a cluster that want the same box are sent it once.
    if (copying_ && role_ != nullptr)
      for (const Loop* l : loops_)
        if (is_cluster(l->axis) && stride(b, indices, l->id) == 0) moved /= extent_of(*l);
    facts_.global_bytes += warps * moved;
    if (copying_ && role_ != nullptr) {
      // Boxes of a producer go to shared memory past the first-level cache, and take its whole width while they arrive,
      // in each block that they are sent to.
      facts_.shared_accesses += warps * per_warp / kLine;
      return;
    }
    // Lines of the first-level cache, which shared memory is a part of.
    facts_.shared_accesses += warps * lines;
  }

  const Kernel& k_;
  const target::Target& target_;
  LaunchFacts& facts_;
  Arena arena_;
  Builder b_;
  std::vector<const Loop*> loops_;
  bool copying_ = false, matrix_ = false, groups_ = false;  // groups: matrix instructions are those of warpgroups
  const Loop* role_ = nullptr;
  analysis::SharedWishes wishes_;
  double tile_registers_ = 0;  // of a thread, for sums that memory holds
  double vector_ = 1;          // elements at a time of the copy around
};

// Blocks that one multiprocessor holds at a time, by threads, registers and shared memory.
void occupancy(LaunchFacts& f, Stmt launch, const target::CudaInfo& c) {
  const double warp = static_cast<double>(c.warp_size);
  const double warps = std::ceil(f.threads / warp);
  double blocks = std::min(static_cast<double>(c.max_blocks_per_sm),
                           std::floor(static_cast<double>(c.max_threads_per_sm) / (warps * warp)));
  const double unit = static_cast<double>(std::max<int64_t>(c.register_allocation_unit, 1));
  const double registers = std::ceil(f.registers * warp / unit) * unit * warps;
  blocks = std::min(blocks, std::floor(static_cast<double>(c.registers_per_sm) / registers));
  if (f.shared_bytes > 0)
    blocks = std::min(blocks, std::floor(static_cast<double>(c.shared_per_sm) /
                                         (f.shared_bytes + static_cast<double>(c.shared_reserved_per_block))));
  f.blocks_per_sm = std::max(blocks, 0.0);
  f.occupancy = f.blocks_per_sm * warps * warp / std::max(1.0, static_cast<double>(c.max_threads_per_sm));
  const double at_once = std::max(1.0, f.blocks_per_sm) * static_cast<double>(std::max<int64_t>(c.sm_count, 1));
  // A last wave that is not full, or a grid that does not reach every multiprocessor.
  double rounds = std::ceil(f.blocks / at_once);
  if (analysis::role_loop(launch) != nullptr) {
    // Blocks that make one tile after the other fetch the first step of the next one while results of this one leave.
    const analysis::TileWalk walk = analysis::tile_walk(launch);
    const auto walkers = static_cast<double>(walk.clusters * analysis::cluster_shape(launch).blocks());
    const double fills = std::ceil(walkers / at_once);
    rounds = fills * std::ceil(f.blocks / walkers);
    f.fill_cycles = fills * kFillCycles;
  }
  f.step_cycles *= rounds;
  f.scheduler_warps = f.blocks_per_sm * warps / static_cast<double>(std::max<int64_t>(c.schedulers_per_sm, 1));
  f.wave_share = rounds > 1 ? f.blocks / (rounds * at_once)
                            : std::min(1.0, f.blocks / static_cast<double>(std::max<int64_t>(c.sm_count, 1)));
}

}  // namespace

GpuFacts gpu_facts(const Kernel& nest, const target::Target& target) {
  GpuFacts out;
  for (const Buffer* b : nest.buffers)
    if (b->role != BufferRole::kTemp) out.least_bytes += bytes_of(*b);
  Stmt root = nest.root;
  while (const Alloc* a = as<Alloc>(root)) root = a->body;
  std::vector<Stmt> launches = {root};
  if (const Seq* s = as<Seq>(root)) launches.assign(s->stmts.begin(), s->stmts.end());
  for (Stmt launch : launches) {
    LaunchFacts f;
    Counter(nest, target, f).run(launch);
    occupancy(f, launch, target.cuda);
    f.compute_seconds = f.flops / std::max(target.peak.fp32, 1.0);
    f.compute_seconds += f.matrix_seconds;
    f.clock_hz = target.clock_hz;
    f.copy_seconds =
        f.copy_instructions * kCopySteps /
        std::max(1.0, static_cast<double>(target.cuda.sm_count * target.cuda.schedulers_per_sm) * target.clock_hz);
    f.memory_seconds = f.global_bytes / std::max(target.memory_bandwidth, 1.0);
    f.shared_seconds = f.shared_accesses / std::max(1.0, static_cast<double>(target.cuda.sm_count) * target.clock_hz);
    out.launches.push_back(f);
  }
  return out;
}

}  // namespace tcc::cost
