#include "tcc/analysis/shared_traffic.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tcc/analysis/address.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

constexpr int64_t kBanks = 32, kWord = 4;
constexpr int kSamples = 6;
constexpr int64_t kStraight = 64;  // iterations of loops that choose registers, which become straight code

// Neighboring elements that the emitter moves at once: those of a vectorized loop.
int64_t vector_width(Builder& b, const Buffer& buffer, std::span<const Expr> indices, const Loop* vector) {
  if (vector == nullptr || !is_int(vector->extent)) return 1;
  const int64_t count = int_value(vector->extent);
  Expr flat = flat_address(b, buffer, indices);
  Substitution next;
  next.set(vector->id, b.offset(b.var(vector->id), 1));
  if (!is_int(b.sub(substitute(b, flat, next), flat), 1)) return 1;
  int64_t width = std::min(count, std::max<int64_t>(kMaxAccessBytes / type_bytes(buffer.type), 1));
  while (count % width != 0) width /= 2;
  return width;
}

class Collector {
 public:
  explicit Collector(const Kernel& k) : k_(k), b_(arena_) {}

  std::vector<WarpAccess> run() {
    Stmt root = k_.root;
    while (const Alloc* a = as<Alloc>(root)) root = a->body;
    std::vector<Stmt> launches = {root};
    if (const Seq* s = as<Seq>(root)) launches.assign(s->stmts.begin(), s->stmts.end());
    for (Stmt launch : launches) {
      extents_.clear();
      visit(launch, [&](Stmt s) {
        if (const Loop* l = as<Loop>(s); l != nullptr && is_thread(l->axis) && is_int(l->extent))
          extents_[l->axis] = std::max(extents_[l->axis], int_value(l->extent));
        return true;
      });
      stmt(launch);
    }
    return std::move(out_);
  }

 private:
  void stmt(Stmt s) {
    switch (s->kind) {
      case StmtKind::kSeq:
        for (Stmt c : as<Seq>(s)->stmts) stmt(c);
        return;
      case StmtKind::kAlloc:
        return stmt(as<Alloc>(s)->body);
      case StmtKind::kLoop:
        loops_.push_back(as<Loop>(s));
        stmt(as<Loop>(s)->body);
        loops_.pop_back();
        return;
      case StmtKind::kIf:
        values(as<If>(s)->condition);
        conditions_.push_back(as<If>(s)->condition);
        stmt(as<If>(s)->then_case);
        conditions_.pop_back();
        if (as<If>(s)->else_case != nullptr) {
          conditions_.push_back(b_.logical_not(as<If>(s)->condition));
          stmt(as<If>(s)->else_case);
          conditions_.pop_back();
        }
        return;
      case StmtKind::kStore: {
        const Store& store = *as<Store>(s);
        conditions_.push_back(store.predicate);
        store_ = &store;
        values(store.value);
        store_ = nullptr;
        access(store.buffer, store.indices, true);
        conditions_.pop_back();
        return;
      }
      case StmtKind::kInstrCall:
        return call(*as<InstrCall>(s));
      case StmtKind::kRoles:
        for (const Role& r : as<Roles>(s)->roles) stmt(r.body);
        return;
      case StmtKind::kBlock:
        return;
    }
  }

  void values(Expr root) {
    visit(root, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l == nullptr) return true;
      conditions_.push_back(l->predicate);
      access(l->buffer, l->indices, false);
      conditions_.pop_back();
      return true;
    });
  }

  bool is_shared(Id id) const {
    const Buffer* b = k_.buffer(id);
    return b != nullptr && (b->scope == Scope::kShared || b->scope == Scope::kClusterShared) &&
           b->type != Type::kBarrier;
  }

  void call(const InstrCall& c) {
    const Instruction& row = instruction(c.instr);
    conditions_.push_back(c.predicate);
    for (size_t i = 0; i < c.operands.size(); ++i) {
      const OperandSpec& spec = row.operands[i];
      if (!is_shared(c.operands[i].buffer) || row.proxy == Proxy::kAsync) continue;
      const bool rows = !spec.layout.empty() && row.participants == Participants::kWarp && spec.rank == 3;
      const bool tile = spec.layout.empty() && row.participants == Participants::kWarp && spec.rank == 2;
      if (!rows && !tile && (!spec.layout.empty() || row.participants != Participants::kThread)) continue;
      WarpAccess a;
      a.buffer = c.operands[i].buffer;
      a.write = spec.access != Access::kRead;
      a.instruction = row.name;
      a.bytes = type_bytes(spec.type);
      if (tile) {
        // Which lane moves what is the hardware's affair: here rows in pieces of 16 bytes, lane after lane.
        const int64_t pieces = spec.tile[0] * spec.tile[1] * a.bytes / kMaxAccessBytes;
        a.bytes = kMaxAccessBytes;
        sample(a, c.operands[i].indices, kWarpLanes, nullptr, 1, std::max<int64_t>(pieces / kWarpLanes, 1), &spec);
        continue;
      }
      for (int32_t d = rows ? 2 : 0; d < spec.rank; ++d) a.bytes *= spec.tile[d];
      // Each lane passes the address of a row; a matrix is eight of them.
      sample(a, c.operands[i].indices, rows ? spec.tile[0] * spec.tile[1] : kWarpLanes, nullptr, 1, 1);
    }
    conditions_.pop_back();
  }

  void access(Id id, std::span<const Expr> indices, bool write) {
    if (!is_shared(id)) return;
    const Buffer& buffer = *k_.buffer(id);
    const Loop* lanes = !loops_.empty() && loops_.back()->loop_kind == LoopKind::kVectorized ? loops_.back() : nullptr;
    WarpAccess a;
    a.buffer = id;
    a.write = write;
    a.bytes = type_bytes(buffer.type);
    double repeated = 1;
    if (lanes == nullptr && store_ != nullptr) lanes = straight_loads(buffer, indices, repeated);
    const int64_t count = lanes != nullptr && is_int(lanes->extent) ? int_value(lanes->extent) : 1;
    const int64_t width = vector_width(b_, buffer, indices, lanes);
    a.bytes *= width;
    a.repeated = repeated;
    sample(a, indices, kWarpLanes, lanes, width, count);
  }

  // Does the loop become straight code because the statement picks registers by it?
  bool is_straight(const Loop& l) const {
    if (!is_int(l.extent)) return false;
    if (l.loop_kind == LoopKind::kUnrolled || l.axis == Axis::kVthread) return true;
    if (l.loop_kind != LoopKind::kSerial || int_value(l.extent) > kStraight) return false;
    bool picks = false;
    auto look_at = [&](Id id, std::span<const Expr> at) {
      if (k_.buffer(id)->scope != Scope::kLocal) return;
      for (Expr index : at) picks = picks || mentions(index, l.id);
    };
    look_at(store_->buffer, store_->indices);
    visit(store_->value, [&](Expr e) {
      if (const Load* load = as<Load>(e)) look_at(load->buffer, load->indices);
      return true;
    });
    return picks;
  }

  bool is_sum_in_registers() const {
    if (k_.buffer(store_->buffer)->scope != Scope::kLocal) return false;
    bool reads_own = false;
    visit(store_->value, [&](Expr e) {
      const Load* load = as<Load>(e);
      reads_own = reads_own || (load != nullptr && load->buffer == store_->buffer);
      return true;
    });
    return reads_own;
  }

  // A load in straight code happens once for all iterations that do not move it, and neighbors are loaded at once.
  // Returns the loop whose iterations are neighbors, or nullptr. `repeated`: iterations that are one load.
  const Loop* straight_loads(const Buffer& buffer, std::span<const Expr> indices, double& repeated) {
    const Expr flat = flat_address(b_, buffer, indices);
    const Loop* neighbors = nullptr;
    for (size_t i = loops_.size(); i-- > 0;) {
      const Loop& l = *loops_[i];
      const bool bound = l.loop_kind == LoopKind::kBound && l.axis != Axis::kVthread;
      if (bound || !is_int(l.extent)) break;
      if (!is_straight(l)) {
        // Loops of sums in registers go outside of those over the sums (lower/gpu/plan_unrolling.h).
        if (is_sum_in_registers()) continue;
        break;
      }
      if (!mentions(flat, l.id)) {
        repeated *= static_cast<double>(int_value(l.extent));
        continue;
      }
      const int64_t width = vector_width(b_, buffer, indices, &l);
      if (neighbors != nullptr || width == 1) continue;
      // Vectors begin at multiples of their width.
      Substitution first;
      first.set(l.id, b_.integer(0));
      if (known_divisor(k_, substitute(b_, flat, first)) % width == 0) neighbors = &l;
    }
    return neighbors;
  }
  // `vector`: the vectorized loop around a load or store, whose iterations go by `width` of `count` at a time. `tile`:
  // the lanes share it, a piece each, `count` times.
  void sample(WarpAccess& a, std::span<const Expr> indices, int64_t active, const Loop* vector, int64_t width,
              int64_t count, const OperandSpec* tile = nullptr) {
    a.times = (vector == nullptr && tile == nullptr ? 1 : static_cast<double>(count / width)) / a.repeated;
    for (const Loop* l : loops_)
      if (l->loop_kind != LoopKind::kBound && l != vector && is_int(l->extent))
        a.times *= static_cast<double>(int_value(l->extent));
    const int64_t threads = block_threads(), warps = (threads + kWarpLanes - 1) / kWarpLanes;
    for (int n = 0; n < kSamples; ++n) {
      // The first and the last iterations, and some in between; as of warps.
      auto pick = [&](int64_t extent, uint64_t salt) -> int64_t {
        if (n == 0 || extent <= 1) return 0;
        if (n == 1) return extent - 1;
        return static_cast<int64_t>((salt * 2654435761U + static_cast<uint64_t>(n) * 40503U) % 65521U) % extent;
      };
      Assignment values;
      for (const Loop* l : loops_)
        if (!is_thread(l->axis) && is_int(l->extent))
          assign(values, l->id, pick(int_value(l->extent), static_cast<uint64_t>(l->id)));
      for (auto& [id, value] : values)
        if (vector != nullptr && id == vector->id) value = value / width * width;
      const int64_t warp = pick(warps, 77);
      std::vector<std::vector<int64_t>> lanes;
      bool known = true;
      for (int64_t lane = 0; lane < kWarpLanes; ++lane) {
        lanes.emplace_back();
        if (lane >= active || warp * kWarpLanes + lane >= threads) continue;
        place(values, warp * kWarpLanes + lane);
        bool takes_part = true;
        for (Expr c : conditions_)
          if (c != nullptr) takes_part &= evaluate(c, values).value_or(1) != 0;
        for (size_t d = 0; d < indices.size() && takes_part; ++d) {
          const std::optional<int64_t> index = evaluate(indices[d], values);
          known &= index.has_value();
          lanes.back().push_back(index.value_or(0));
        }
        if (tile != nullptr && takes_part) {
          const int64_t element = lane * a.bytes / type_bytes(tile->type);
          lanes.back()[indices.size() - 2] += element / tile->tile[1];
          lanes.back().back() += element % tile->tile[1];
        }
      }
      if (known) a.samples.push_back(std::move(lanes));
    }
    if (!a.samples.empty()) out_.push_back(std::move(a));
  }

  int64_t extent(Axis a) const {
    auto e = extents_.find(a);
    return e == extents_.end() ? 1 : e->second;
  }
  bool by_warp() const {
    return extents_.contains(Axis::kLane) || extents_.contains(Axis::kWarp) || extents_.contains(Axis::kWarpgroup);
  }
  int64_t block_threads() const {
    if (by_warp())
      return kWarpLanes * extent(Axis::kWarp) *
             (extents_.contains(Axis::kWarpgroup) ? 4 * extent(Axis::kWarpgroup) : 1);
    return extent(Axis::kThreadX) * extent(Axis::kThreadY) * extent(Axis::kThreadZ);
  }
  void place(Assignment& values, int64_t thread) const {
    const int64_t x = extent(Axis::kThreadX), y = extent(Axis::kThreadY), warp = thread / kWarpLanes;
    for (const Loop* l : loops_) {
      if (l->axis == Axis::kThreadX) assign(values, l->id, thread % x);
      if (l->axis == Axis::kThreadY) assign(values, l->id, thread / x % y);
      if (l->axis == Axis::kThreadZ) assign(values, l->id, thread / x / y);
      if (l->axis == Axis::kLane) assign(values, l->id, thread % kWarpLanes);
      if (l->axis == Axis::kWarp) assign(values, l->id, extents_.contains(Axis::kWarpgroup) ? warp % 4 : warp);
      if (l->axis == Axis::kWarpgroup) assign(values, l->id, warp / 4);
    }
  }

  const Kernel& k_;
  Arena arena_;
  Builder b_;
  std::map<Axis, int64_t> extents_;
  std::vector<const Loop*> loops_;
  std::vector<Expr> conditions_;
  const Store* store_ = nullptr;  // whose value is looked at
  std::vector<WarpAccess> out_;
};

int64_t address_of(const Buffer& buffer, const Layout* layout, const std::vector<int64_t>& index) {
  if (layout != nullptr) return ir::apply(*layout, index).address;
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at = at * int_value(buffer.shape[d]) + index[d];
  return at;
}

}  // namespace

std::vector<WarpAccess> shared_accesses(const Kernel& lowered) {
  return Collector(lowered).run();
}

BankTraffic bank_traffic(const Buffer& buffer, const Layout* layout, const WarpAccess& access) {
  BankTraffic out;
  const int64_t phase = access.bytes <= kWord ? kWarpLanes : std::max<int64_t>(kBanks * kWord / access.bytes, 1);
  using Words = std::map<int64_t, std::set<int64_t>>;  // of a bank
  auto ways_of = [](const Words& words) {
    size_t ways = 0;
    for (const auto& [bank, distinct] : words) ways = std::max(ways, distinct.size());
    return static_cast<double>(ways);
  };
  // Loads of two phases of half a warp are one, where lanes of both want no other words than the banks have at once.
  const bool merges = !access.write && access.instruction.empty() && phase == kWarpLanes / 4;
  for (const std::vector<std::vector<int64_t>>& lanes : access.samples) {
    double least = 0, cycles = 0, before = 0;
    Words half;
    for (int64_t first = 0; first < kWarpLanes; first += phase) {
      Words words;
      for (int64_t lane = first; lane < std::min(first + phase, kWarpLanes); ++lane) {
        const std::vector<int64_t>& index = lanes[static_cast<size_t>(lane)];
        if (index.empty()) continue;
        const int64_t begin = address_of(buffer, layout, index) * type_bytes(buffer.type);
        for (int64_t w = begin / kWord; w <= (begin + access.bytes - 1) / kWord; ++w) words[w % kBanks].insert(w);
      }
      const double ways = ways_of(words);
      const bool second = merges && first / phase % 2 == 1;
      if (!second) half.clear();
      for (const auto& [bank, distinct] : words) half[bank].insert(distinct.begin(), distinct.end());
      if (second && ways_of(half) == 1) {
        cycles += 1 - before;
        least += before == 0 ? 1 : 0;
      } else {
        cycles += ways;
        least += words.empty() ? 0 : 1;
      }
      before = ways;
    }
    out.least += least;
    out.cycles += cycles;
    out.worst = std::max(out.worst, cycles);
  }
  out.least /= static_cast<double>(access.samples.size());
  out.cycles /= static_cast<double>(access.samples.size());
  return out;
}

SharedTraffic shared_traffic(const Kernel& lowered) {
  SharedTraffic out;
  for (const WarpAccess& a : shared_accesses(lowered)) {
    const Buffer& buffer = *lowered.buffer(a.buffer);
    const BankTraffic t = bank_traffic(buffer, buffer.layout, a);
    out.cycles += a.times * t.cycles;
    out.conflicts += a.times * (t.cycles - t.least);
  }
  return out;
}

int64_t narrowest_global_access(const Kernel& lowered) {
  Arena arena;
  Builder b(arena);
  int64_t least = 0;
  auto note = [&](Id id, std::span<const Expr> indices, const Loop* vector) {
    const Buffer& buffer = *lowered.buffer(id);
    if (buffer.scope != Scope::kGlobal && buffer.scope != Scope::kWorkspace && buffer.scope != Scope::kConst) return;
    const int64_t bytes = type_bytes(buffer.type) * vector_width(b, buffer, indices, vector);
    least = least == 0 ? bytes : std::min(least, bytes);
  };
  auto walk = [&](auto&& self, Stmt s, const Loop* vector) -> void {
    if (const Loop* l = as<Loop>(s)) return self(self, l->body, l->loop_kind == LoopKind::kVectorized ? l : vector);
    if (const InstrCall* call = as<InstrCall>(s)) {
      const Instruction& row = instruction(call->instr);
      for (size_t i = 0; i < call->operands.size(); ++i) {
        int64_t bytes = type_bytes(row.operands[i].type);
        for (int32_t d = 0; d < row.operands[i].rank; ++d) {
          // A box's extents are arguments.
          const Expr given = row.operands[i].tile[d] == 0 ? call->args[static_cast<size_t>(d)] : nullptr;
          const int64_t extent = given == nullptr ? row.operands[i].tile[d] : is_int(given) ? int_value(given) : 1;
          bytes *= std::max<int64_t>(extent, 1);
        }
        const Scope scope = lowered.buffer(call->operands[i].buffer)->scope;
        if (scope == Scope::kGlobal || scope == Scope::kWorkspace) least = least == 0 ? bytes : std::min(least, bytes);
      }
      return;
    }
    if (const Store* store = as<Store>(s)) {
      note(store->buffer, store->indices, vector);
      visit(store->value, [&](Expr e) {
        if (const Load* l = as<Load>(e)) note(l->buffer, l->indices, vector);
        return true;
      });
      return;
    }
    visit(s, [&](Stmt c) {
      if (c == s) return true;
      self(self, c, vector);
      return false;
    });
  };
  walk(walk, lowered.root, nullptr);
  return least;
}

}  // namespace tcc::analysis
