#include "simulation/warp_code.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "simulation/address.h"
#include "tcc/analysis/shared_plan.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/query.h"
#include "tcc/support/hash.h"

namespace tcc::simulation {

using namespace ir;

namespace {

constexpr int64_t kMaxCopies = 4096;  // of straight code; a loop with more stays a loop
constexpr int64_t kMaxPeriod = 24;

bool acts_alone(const InstrCall& call) {
  const Instruction& row = instruction(call.instr);
  if (row.family == Family::kWgmma || row.family == Family::kTensorCopy) return true;
  return row.behaviour != Behaviour::kCompute && row.behaviour != Behaviour::kShuffle &&
         row.behaviour != Behaviour::kAtomicAdd;
}

class Compiler {
 public:
  Compiler(const Kernel& k, const target::Target& target, const Machine& machine)
      : k_(k), target_(target), machine_(machine), sample_(static_cast<size_t>(k.next_id) + 1, 0) {}

  LaunchCode launch(Stmt s) {
    code_ = {};
    visit(s, [&](Stmt c) {
      if (const Loop* l = as<Loop>(c); l != nullptr && l->loop_kind == LoopKind::kBound) {
        if (is_thread(l->axis))
          axes_[static_cast<size_t>(l->axis)] = std::max(axes_[static_cast<size_t>(l->axis)], extent(*l));
        // A place in the middle of the launch stands for all others where copies are compared.
        sample_[static_cast<size_t>(l->id)] = extent(*l) / 3;
      } else if (l != nullptr) {
        sample_[static_cast<size_t>(l->id)] = extent(*l) > 2 ? 1 : 0;
      }
      if (const Roles* r = as<Roles>(c))
        for (const Role& role : r->roles) {
          code_.warps = std::max<int64_t>(code_.warps, role.first_warp + role.warps);
          code_.role_registers += role.registers * role.warps * target_.cuda.warp_size;
        }
      return true;
    });
    int64_t threads = 1;
    for (int64_t n : axes_) threads *= std::max<int64_t>(n, 1);
    if (code_.warps == 0) code_.warps = (threads + target_.cuda.warp_size - 1) / target_.cuda.warp_size;
    code_.entries.resize(static_cast<size_t>(code_.warps));
    code_.values.assign(static_cast<size_t>(code_.warps), Values(static_cast<size_t>(k_.next_id) + 1, 0));
    code_.lanes.resize(static_cast<size_t>(code_.warps));
    for (auto& lanes : code_.lanes) lanes.resize(static_cast<size_t>(target_.cuda.warp_size));
    code_.shared_bytes = analysis::plan_shared(k_, s).bytes(target_.cuda.shared_per_block);
    top(s);
    std::fill(std::begin(axes_), std::end(axes_), 0);
    return std::move(code_);
  }

 private:
  static int64_t extent(const Loop& l) { return is_int(l.extent) ? std::max<int64_t>(int_value(l.extent), 1) : 1; }

  // --- sections ---

  void top(Stmt s) {
    if (const Seq* seq = as<Seq>(s)) {
      for (Stmt c : seq->stmts) top(c);
    } else if (const Alloc* a = as<Alloc>(s); a != nullptr && shares(*a)) {
      top(a->body);
    } else if (const Roles* r = as<Roles>(s)) {
      for (const Role& role : r->roles) section(role.body, role.first_warp, role.warps);
    } else if (const Loop* l = as<Loop>(s);
               l != nullptr && l->loop_kind == LoopKind::kBound && !is_thread(l->axis) && l->axis != Axis::kVthread) {
      code_.grid.push_back(l);
      top(l->body);
    } else {
      section(s, 0, code_.warps);
    }
  }

  bool shares(const Alloc& a) const {
    return std::any_of(a.buffers.begin(), a.buffers.end(), [&](Id id) { return is_shared(*k_.buffer(id)); });
  }

  void allocate(Id id) {
    const Buffer& b = *k_.buffer(id);
    if (b.scope == Scope::kLocal && live_.insert(id).second)
      local_ += static_cast<double>(elements(b) * type_bytes(b.type));
    code_.local_bytes = std::max(code_.local_bytes, local_);
  }

  void section(Stmt s, int64_t first, int64_t warps) {
    const auto begin = static_cast<int32_t>(code_.steps.size());
    std::vector<const Loop*> threads;
    visit(s, [&](Stmt c) {
      if (const Loop* l = as<Loop>(c); l != nullptr && is_thread(l->axis)) threads.push_back(l);
      return true;
    });
    const int64_t size = target_.cuda.warp_size;
    for (int64_t w = 0; w < warps; ++w) {
      const auto warp = static_cast<size_t>(first + w);
      code_.entries[warp].push_back(begin);
      for (const Loop* l : threads) {
        const auto id = static_cast<size_t>(l->id);
        code_.values[warp][id] = coordinate(l->axis, w * size);
        for (int64_t lane = 0; lane < size; ++lane)
          if (const int64_t at = coordinate(l->axis, w * size + lane); at != code_.values[warp][id])
            code_.lanes[warp][static_cast<size_t>(lane)].push_back({l->id, at});
      }
    }
    stmt(s);
    code_.steps.push_back({.kind = StepKind::kEnd});
  }

  // Of the thread with this number; threads of the last axis are neighbors.
  int64_t coordinate(Axis axis, int64_t thread) const {
    constexpr Axis kOrder[] = {Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ,
                               Axis::kLane,    Axis::kWarp,    Axis::kWarpgroup};
    for (Axis a : kOrder) {
      const int64_t n = std::max<int64_t>(axes_[static_cast<size_t>(a)], 1);
      if (a == axis) return axis == Axis::kWarpgroup ? thread : thread % n;
      thread /= n;
    }
    return 0;
  }

  // --- statements ---

  void stmt(Stmt s) {
    if (s == nullptr) return;
    if (is_straight(s) && copies_of(s) <= kMaxCopies) return work({s});
    switch (s->kind) {
      case StmtKind::kSeq: {
        // Neighbors that are straight are one piece of straight code.
        std::vector<Stmt> run;
        for (Stmt c : as<Seq>(s)->stmts) {
          if (is_straight(c) && copies_of(c) <= kMaxCopies) {
            run.push_back(c);
            continue;
          }
          work(std::exchange(run, {}));
          stmt(c);
        }
        return work(run);
      }
      case StmtKind::kLoop:
        return loop(*as<Loop>(s));
      case StmtKind::kIf: {
        const If& f = *as<If>(s);
        condition(f.condition, false, f.then_case);
        if (f.else_case != nullptr) condition(f.condition, true, f.else_case);
        return;
      }
      case StmtKind::kAlloc: {
        const auto before = std::pair(local_, live_);
        for (Id id : as<Alloc>(s)->buffers) allocate(id);
        stmt(as<Alloc>(s)->body);
        std::tie(local_, live_) = before;
        return;
      }
      case StmtKind::kInstrCall:
        code_.steps.push_back({.kind = StepKind::kSync, .call = as<InstrCall>(s)});
        return;
      case StmtKind::kStore:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        return;  // stores are straight; lowered kernels have no blocks, and roles are sections
    }
  }

  void condition(Expr e, bool otherwise, Stmt body) {
    const size_t at = code_.steps.size();
    code_.steps.push_back({.kind = StepKind::kUnless, .condition = e, .negated = otherwise});
    stmt(body);
    code_.steps[at].jump = static_cast<int32_t>(code_.steps.size());
  }

  void loop(const Loop& l) {
    if (l.loop_kind == LoopKind::kBound && l.axis != Axis::kVthread) return stmt(l.body);
    const size_t at = code_.steps.size();
    Step begin{.kind = StepKind::kLoop, .loop = &l};
    const int64_t limit = annotation_or(l, AnnotationKey::kUnrollMax, 0);
    const bool straight = is_straight(l.body);
    if (straight && limit > 1 && is_int(l.extent))
      begin.stride = std::min({limit, extent(l), std::max<int64_t>(kMaxCopies / copies_of(l.body), 1)});
    visit(l.body, [&](Stmt c) {
      if (const InstrCall* call = as<InstrCall>(c))
        begin.waits |= instruction(call->instr).behaviour == Behaviour::kMbarrierWait;
      return true;
    });
    visit_roots(l.body, [&](Expr root) {
      visit(root, [&](Expr e) {
        if (e->kind == ExprKind::kFloorMod && is_int(as<Binary>(e)->b) && mentions(e, l.id))
          begin.period = std::lcm(begin.period, std::max<int64_t>(int_value(as<Binary>(e)->b), 1));
        return begin.period <= kMaxPeriod;
      });
    });
    begin.period = std::min(begin.period, kMaxPeriod);
    code_.steps.push_back(begin);
    if (straight && begin.stride > 1)
      work({l.body}, &l, begin.stride);
    else
      stmt(l.body);
    const auto after = static_cast<int32_t>(code_.steps.size()) + 1;
    code_.steps.push_back({.kind = StepKind::kEndLoop, .jump = static_cast<int32_t>(at)});
    code_.steps[at].jump = after;
  }

  // --- straight code ---

  static bool is_written_out(const Loop& l) {
    return is_int(l.extent) && (l.loop_kind == LoopKind::kUnrolled || l.loop_kind == LoopKind::kVectorized ||
                                l.axis == Axis::kVthread || int_value(l.extent) <= 1);
  }
  static bool is_straight(Stmt s) {
    bool straight = true;
    visit(s, [&](Stmt c) {
      if (const Loop* l = as<Loop>(c)) straight &= is_written_out(*l);
      if (const InstrCall* call = as<InstrCall>(c)) straight &= !acts_alone(*call);
      return straight;
    });
    return straight;
  }
  int64_t copies_of(Stmt s) const {
    int64_t n = s->kind == StmtKind::kStore || s->kind == StmtKind::kInstrCall ? 1 : 0;
    visit_children(s, [&](Stmt c) { n += copies_of(c); });
    if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind != LoopKind::kVectorized) n *= extent(*l);
    return std::min(n, kMaxCopies + 1);
  }

  // `around`: a loop of which `copies` iterations are written out.
  void work(const std::vector<Stmt>& list, const Loop* around = nullptr, int64_t copies = 1) {
    if (list.empty()) return;
    step_ = {};
    copy_.clear();
    conditions_.clear();
    seen_.clear();
    updates_.clear();
    loaded_ = 0;
    const auto before = std::pair(local_, live_);
    for (int64_t c = 0; c < copies; ++c) {
      if (around != nullptr) copy_.push_back({around->id, c, true});
      for (Stmt s : list) straight(s);
      copy_.clear();
    }
    for (const auto& [place, n] : updates_) step_.chain = std::max(step_.chain, n);
    code_.pending_bytes = std::max(code_.pending_bytes, loaded_);
    std::tie(local_, live_) = before;
    code_.steps.push_back(std::move(step_));
  }

  void straight(Stmt s) {
    if (s == nullptr) return;
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) straight(c);
        return;
      case StmtKind::kLoop: {
        const Loop& l = *as<Loop>(s);
        const bool vector = l.loop_kind == LoopKind::kVectorized;
        if (vector) vector_ = &l;
        copy_.push_back({l.id, 0, false});
        for (int64_t i = 0; i < (vector ? 1 : extent(l)); ++i) {
          copy_.back().value = i;
          straight(l.body);
        }
        copy_.pop_back();
        if (vector) vector_ = nullptr;
        return;
      }
      case StmtKind::kIf: {
        const If& f = *as<If>(s);
        conditions_.push_back(f.condition);
        step_.arithmetic += 1;
        straight(f.then_case);
        conditions_.pop_back();
        straight(f.else_case);
        return;
      }
      case StmtKind::kAlloc:
        for (Id id : as<Alloc>(s)->buffers) allocate(id);
        return straight(as<Alloc>(s)->body);
      case StmtKind::kStore:
        return store(*as<Store>(s));
      case StmtKind::kInstrCall:
        return compute(*as<InstrCall>(s));
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        return;
    }
  }

  double width() const { return vector_ == nullptr ? 1 : static_cast<double>(extent(*vector_)); }

  void store(const Store& s) {
    if (s.predicate != nullptr) conditions_.push_back(s.predicate);
    value(s.value, width());
    visit(s.value, [&](Expr e) {
      if (const Load* load = as<Load>(e)) access(load->buffer, load->indices, false);
      return true;
    });
    if (update_term(s) != nullptr) updates_[place(*k_.buffer(s.buffer), s.indices)] += 1;
    access(s.buffer, s.indices, true);
    if (s.predicate != nullptr) conditions_.pop_back();
  }

  // Instructions of data arithmetic; a product that is added is one of them with its sum.
  void value(Expr e, double n) {
    switch (e->kind) {
      case ExprKind::kAdd:
      case ExprKind::kSub: {
        const Binary& b = *as<Binary>(e);
        if (b.a->kind == ExprKind::kMul || b.b->kind == ExprKind::kMul) step_.arithmetic -= n;
        [[fallthrough]];
      }
      case ExprKind::kMul:
      case ExprKind::kMin:
      case ExprKind::kMax:
      case ExprKind::kLt:
      case ExprKind::kLe:
      case ExprKind::kEq:
      case ExprKind::kNe:
      case ExprKind::kAnd:
      case ExprKind::kOr:
        step_.arithmetic += n;
        value(as<Binary>(e)->a, n);
        return value(as<Binary>(e)->b, n);
      case ExprKind::kDiv:
        step_.arithmetic += 6 * n;
        step_.special += n;
        value(as<Binary>(e)->a, n);
        return value(as<Binary>(e)->b, n);
      case ExprKind::kSelect:
        step_.arithmetic += n;
        value(as<Select>(e)->condition, n);
        value(as<Select>(e)->a, n);
        return value(as<Select>(e)->b, n);
      case ExprKind::kCast:
        step_.arithmetic += as<Unary>(e)->type == as<Unary>(e)->a->type ? 0 : n / 2;
        return value(as<Unary>(e)->a, n);
      case ExprKind::kNot:
        return value(as<Unary>(e)->a, n);
      case ExprKind::kCall: {
        const Call& c = *as<Call>(e);
        const bool light = c.fn == Intrinsic::kFma || c.fn == Intrinsic::kAbs || c.fn == Intrinsic::kFloor ||
                           c.fn == Intrinsic::kCeil || c.fn == Intrinsic::kRound || takes_bits(c.fn);
        step_.arithmetic += (light ? 1 : c.fn == Intrinsic::kErf ? 24 : 5) * n;
        if (!light && c.fn != Intrinsic::kErf) step_.special += n;
        for (Expr a : c.args) value(a, n);
        return;
      }
      default:
        return;  // constants, loads and indices
    }
  }

  void compute(const InstrCall& call) {
    const Instruction& row = instruction(call.instr);
    if (call.predicate != nullptr) conditions_.push_back(call.predicate);
    step_.arithmetic += row.flops > 0 ? 1 : 0;
    if (row.behaviour == Behaviour::kShuffle) step_.special += 1;
    if (row.flops > 0) {
      step_.matrix_flops += static_cast<double>(row.flops);
      step_.matrix_type = row.operands[1].type;
      updates_[place(*k_.buffer(call.operands[0].buffer), call.operands[0].indices)] += 1;
    }
    for (size_t i = 0; i < call.operands.size() && row.behaviour == Behaviour::kCompute; ++i) {
      const OperandSpec& spec = row.operands[i];
      const Buffer& b = *k_.buffer(call.operands[i].buffer);
      if (b.scope == Scope::kLocal) continue;
      int64_t n = 1;
      for (int32_t d = 0; d < spec.rank; ++d) n *= std::max<int64_t>(spec.tile[d], 1);
      const int64_t bytes = n * type_bytes(b.type), lanes = row.participants == Participants::kWarp ? 32 : 1;
      WarpAccess* made = access(call.operands[i].buffer, call.operands[i].indices, spec.access == ir::Access::kWrite);
      if (made == nullptr) continue;
      made->asynchronous = row.completion == Completion::kCopyGroup;
      made->past_l1 = made->asynchronous && bytes == kMaxAccessBytes;
      made->matrix_rows = row.family == Family::kLdmatrix;
      made->bytes = std::max<int64_t>(bytes / lanes, 1);
      made->instructions = 1;
    }
    if (row.behaviour == Behaviour::kAtomicAdd) access(call.operands[0].buffer, call.operands[0].indices, true);
    if (row.completion == Completion::kCopyGroup) step_.arithmetic += machine_.copy_issue - 1;
    if (call.predicate != nullptr) conditions_.pop_back();
  }

  // --- accesses ---

  uint64_t place(const Buffer& b, std::span<const Expr> indices) {
    for (const CopyValue& c : copy_) sample_[static_cast<size_t>(c.id)] += c.value;
    const int64_t at = element_address(b, indices, sample_);
    for (const CopyValue& c : copy_) sample_[static_cast<size_t>(c.id)] -= c.value;
    return combine_hash(static_cast<uint64_t>(b.id), static_cast<uint64_t>(at));
  }

  // nullptr: registers hold the element, or this code has touched it before.
  WarpAccess* access(Id buffer, std::span<const Expr> indices, bool store) {
    const Buffer& b = *k_.buffer(buffer);
    if (b.scope == Scope::kLocal || b.type == Type::kBarrier) return nullptr;
    uint64_t key = combine_hash(place(b, indices), store ? 1 : 0);
    for (Expr c : conditions_) key = combine_hash(key, c->hash);
    if (!seen_.insert(key).second) return nullptr;
    WarpAccess made{.buffer = &b, .indices = indices, .copy = copy_, .conditions = conditions_};
    made.shared = is_shared(b), made.store = store;
    const int64_t element = type_bytes(b.type);
    made.bytes = element;
    if (vector_ != nullptr) {
      const auto id = static_cast<size_t>(vector_->id);
      const int64_t first = element_address(b, indices, sample_);
      sample_[id] += 1;
      const int64_t step = element_address(b, indices, sample_) - first;
      sample_[id] -= 1;
      const int64_t n = extent(*vector_), whole = std::max<int64_t>(kMaxAccessBytes / element, 1);
      if (step == 1) made.bytes = element * std::min(n, whole), made.instructions = (n + whole - 1) / whole;
      if (step != 1 && step != 0) made.instructions = n;
    }
    for (Expr e : indices)
      visit(e, [&](Expr x) {
        if (x->kind == ExprKind::kFloorDiv || x->kind == ExprKind::kFloorMod)
          made.address += machine_.division_instructions * 0.25;
        if (x->kind == ExprKind::kLoad) access(as<Load>(x)->buffer, as<Load>(x)->indices, false);
        return x->kind != ExprKind::kLoad;
      });
    if (!store) loaded_ += static_cast<double>(made.bytes * made.instructions);
    step_.accesses.push_back(std::move(made));
    return &step_.accesses.back();
  }

  const Kernel& k_;
  const target::Target& target_;
  const Machine& machine_;
  LaunchCode code_;
  int64_t axes_[16] = {};
  double local_ = 0;  // bytes of the arrays that are live
  std::set<Id> live_;
  Values sample_;
  // Of the straight code that is made.
  Step step_;
  std::vector<CopyValue> copy_;
  std::vector<Expr> conditions_;
  std::set<uint64_t> seen_;
  std::map<uint64_t, double> updates_;
  const Loop* vector_ = nullptr;
  double loaded_ = 0;
};

void find_launches(Stmt s, std::vector<Stmt>& out) {
  if (const Seq* seq = as<Seq>(s)) {
    for (Stmt c : seq->stmts) find_launches(c, out);
  } else if (const Alloc* a = as<Alloc>(s)) {
    find_launches(a->body, out);
  } else if (s != nullptr) {
    out.push_back(s);
  }
}

}  // namespace

std::vector<LaunchCode> compile_launches(const Kernel& lowered, const target::Target& target, const Machine& machine) {
  std::vector<Stmt> launches;
  find_launches(lowered.root, launches);
  std::vector<LaunchCode> out;
  for (Stmt s : launches) out.push_back(Compiler(lowered, target, machine).launch(s));
  return out;
}

}  // namespace tcc::simulation
