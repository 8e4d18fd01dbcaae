// The counts behind the analytical model of GPU programs. They follow the roofline with occupancy (Williams et al.,
// CACM 2009; CUDA occupancy calculator): an access costs its sectors when it goes to memory, its bank conflicts when it
// goes to shared memory, and nothing when unrolled loops keep the value in a register.
#include "tcc/features/gpu_facts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::features {
namespace {

using namespace ir;

constexpr double kAddressRegisters = 24;  // of a thread, beside its arrays

double extent_of(const Loop& l) {
  return is_int(l.extent) ? static_cast<double>(std::max<int64_t>(int_value(l.extent), 1)) : 1;
}
double bytes_of(const Buffer& b) {
  double n = static_cast<double>(type_bytes(b.type));
  for (Expr e : b.shape) n *= is_int(e) ? static_cast<double>(std::max<int64_t>(int_value(e), 1)) : 1;
  return n;
}
bool is_copy(const Loop& l) {
  return std::any_of(l.annotations.begin(), l.annotations.end(),
                     [](const Annotation& a) { return a.key == AnnotationKey::kCooperativeFetch; });
}

class Counter {
 public:
  Counter(const Kernel& nest, const target::Target& target, LaunchFacts& facts)
      : k_(nest), target_(target), facts_(facts) {}

  void run(Stmt launch) {
    std::map<Axis, double> axes;
    visit(launch, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind == LoopKind::kBound)
        axes[l->axis] = std::max(axes[l->axis], extent_of(*l));
      if (const InstrCall* call = as<InstrCall>(s))
        matrix_ |= instruction(call->instr).participants == Participants::kWarp;
      return true;
    });
    for (const auto& [axis, n] : axes) {
      if (is_grid(axis)) facts_.blocks *= n;
      if (is_thread(axis)) facts_.threads *= n;
    }
    if (matrix_) facts_.threads *= static_cast<double>(target_.cuda.warp_size);
    facts_.registers = kAddressRegisters;
    stmt(launch, 1);
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
        stmt(l.body, n);
        copying_ = outer;
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
        value(store.value, times);
        access(*k_.buffer(store.buffer), store.indices, times);
        return;
      }
      case StmtKind::kInstrCall:
        facts_.matrix_flops += times * static_cast<double>(instruction(as<InstrCall>(s)->instr).flops);
        return;
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        return;
    }
  }

  double threads_around() const {
    double n = 1;
    for (const Loop* l : loops_)
      if (is_thread(l->axis) || l->axis == Axis::kVthread) n *= extent_of(*l);
    return n;
  }

  void storage(const Buffer& b) {
    double vthreads = 1;
    bool threads = false;
    for (const Loop* l : loops_) {
      if (l->axis == Axis::kVthread) vthreads *= extent_of(*l);
      threads |= is_thread(l->axis);
    }
    const double bytes = bytes_of(b);
    if (b.scope == Scope::kLocal || (b.scope == Scope::kGlobal && threads)) {
      facts_.registers += bytes / 4 * vthreads / (matrix_ ? static_cast<double>(target_.cuda.warp_size) : 1);
      facts_.parallelism = std::max(facts_.parallelism, bytes / static_cast<double>(type_bytes(b.type)) * vthreads);
    } else if (!loops_.empty()) {
      facts_.shared_bytes += bytes;
    }
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
      // Threads that hit one bank wait for each other.
      const double conflicts = along <= 1 ? 1 : std::min<double>(32, static_cast<double>(along & -along));
      facts_.shared_accesses += warps * conflicts * std::max(1.0, bytes / 4);
      return;
    }
    const double sector = static_cast<double>(target_.cuda.memory_transaction_bytes);
    const double per_warp = static_cast<double>(target_.cuda.warp_size) * bytes;
    double moved = along == 0 ? sector
                              : std::min(per_warp * static_cast<double>(std::max<int64_t>(along, 1)),
                                         sector * static_cast<double>(target_.cuda.warp_size));
    if (along < 0) moved = sector * static_cast<double>(target_.cuda.warp_size);
    facts_.global_bytes += warps * moved;
  }

  const Kernel& k_;
  const target::Target& target_;
  LaunchFacts& facts_;
  std::vector<const Loop*> loops_;
  bool copying_ = false, matrix_ = false;
};

// Blocks that one multiprocessor holds at a time, by threads, registers and shared memory.
void occupancy(LaunchFacts& f, const target::CudaInfo& c) {
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
  const double rounds = std::ceil(f.blocks / at_once);
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
    occupancy(f, target.cuda);
    f.compute_seconds = f.flops / std::max(target.peak.fp32, 1.0);
    if (f.matrix_flops > 0) f.compute_seconds += f.matrix_flops / std::max(target.peak.fp16, 1.0);
    f.memory_seconds = f.global_bytes / std::max(target.memory_bandwidth, 1.0);
    f.shared_seconds = f.shared_accesses / std::max(1.0, static_cast<double>(target.cuda.sm_count) * target.clock_hz);
    out.launches.push_back(f);
  }
  return out;
}

}  // namespace tcc::features
