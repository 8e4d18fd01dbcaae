// A launch's code falls apart into pieces that need no barrier inside, and the sequences, serial loops and allocations
// around them, which all threads run through together. A piece is guarded where fewer threads than the block has do it.
#include "lower/gpu/bind_threads.h"

#include <algorithm>
#include <array>

#include "lower/gpu/edit.h"
#include "lower/gpu/expand_roles.h"
#include "lower/gpu/spread_local.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr std::array kAxes = {Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ};
constexpr int64_t kUnrolledCopies = 16;  // rounds of a copy that are written out

size_t axis_index(Axis a) {
  return static_cast<size_t>(std::find(kAxes.begin(), kAxes.end(), a) - kAxes.begin());
}
class Binder {
 public:
  explicit Binder(Edit& edit) : edit_(edit), b_(edit.b) {}

  Legal<Stmt> run(Stmt launch) {
    if (!measure(launch)) return tl::make_unexpected(verdict_.error());
    if (!threaded_) return launch;
    if (Legal<SpreadLocals> spread = spread_local(edit_, launch))
      spread_ = std::move(*spread);
    else
      return tl::make_unexpected(spread.error());
    std::vector<const Loop*> grid;
    Stmt body = strip_grid(launch, grid);
    body = pieces(body, {});
    if (!verdict_) return tl::make_unexpected(verdict_.error());
    if (subst_.map.size() > 0) body = substitute(b_, body, subst_);
    body = b_.alloc(shared_, body);
    for (size_t a = 0; a < kAxes.size(); ++a)
      if (extent_[a] > 0) body = b_.loop(thread_[a], b_.integer(extent_[a]), body, LoopKind::kBound, kAxes[a]);
    edit_.add_buffers(added_);
    for (size_t i = grid.size(); i-- > 0;)
      body = b_.loop(grid[i]->id, grid[i]->extent, body, LoopKind::kBound, grid[i]->axis, grid[i]->annotations);
    return body;
  }

 private:
  struct Context {
    std::array<bool, 3> covered = {};
    Expr guard = nullptr;  // threads beyond a shorter loop
  };

  bool fail(RejectReason reason, const std::string& text) {
    if (verdict_) verdict_ = reject(reason, text);
    return false;
  }

  bool measure(Stmt launch) {
    visit(launch, [&](Stmt s) {
      const Loop* l = as<Loop>(s);
      if (l == nullptr) return true;
      if (l->loop_kind == LoopKind::kParallel)
        return fail(RejectReason::kUnsupported, "the parallel loop '" + name(l->id) + "' has no axis of the device");
      if (l->loop_kind != LoopKind::kBound) return true;
      threaded_ = true;
      if (is_grid(l->axis)) return true;
      const size_t a = axis_index(l->axis);
      if (a == kAxes.size())
        return fail(RejectReason::kUnsupported, fmt::format("'{}' is bound to {}", name(l->id), axis_name(l->axis)));
      if (!is_int(l->extent)) return fail(RejectReason::kNotConstant, "thread count of '" + name(l->id) + "'");
      if (extent_[a] == 0)
        thread_[a] = edit_.fresh_named(axis_name(l->axis) == "thread.x" ? "tx" : a == 1 ? "ty" : "tz");
      extent_[a] = std::max(extent_[a], int_value(l->extent));
      return true;
    });
    return verdict_.has_value();
  }

  std::string name(Id id) const { return name_hint(edit_.k, id); }
  int64_t threads() const {
    int64_t n = 1;
    for (int64_t e : extent_) n *= std::max<int64_t>(e, 1);
    return n;
  }
  // Linear number of the thread in its block.
  Expr thread_number() {
    Expr n = b_.integer(0);
    int64_t stride = 1;
    for (size_t a = 0; a < kAxes.size(); ++a) {
      if (extent_[a] == 0) continue;
      n = b_.add(n, b_.scale(b_.var(thread_[a]), stride));
      stride *= extent_[a];
    }
    return n;
  }

  Stmt strip_grid(Stmt s, std::vector<const Loop*>& grid) {
    while (true) {
      if (const Loop* l = as<Loop>(s); l != nullptr && is_grid(l->axis)) {
        grid.push_back(l);
        s = l->body;
      } else if (const Alloc* a = as<Alloc>(s); a != nullptr && all_shared(*a)) {
        shared_.insert(shared_.end(), a->buffers.begin(), a->buffers.end());
        s = a->body;
      } else {
        return s;
      }
    }
  }
  bool all_shared(const Alloc& a) const {
    return std::all_of(a.buffers.begin(), a.buffers.end(),
                       [&](Id id) { return edit_.k.buffer(id)->scope == Scope::kShared; });
  }

  // Work for all threads together: loops over threads, copies and trees.
  static bool is_joint(Stmt s) {
    bool found = false;
    visit(s, [&](Stmt x) {
      const Loop* l = as<Loop>(x);
      found |=
          l != nullptr && (l->loop_kind == LoopKind::kBound || has_annotation(*l, AnnotationKey::kCooperativeFetch) ||
                           has_annotation(*l, AnnotationKey::kTreeReduce));
      return !found;
    });
    return found;
  }

  Stmt pieces(Stmt s, const Context& at) {
    if (!verdict_) return s;
    if (!is_joint(s) && !has_shared_once(s)) return piece(s, at);
    switch (s->kind) {
      case StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (Stmt c : as<Seq>(s)->stmts) stmts.push_back(pieces(c, at));
        return b_.seq(stmts);
      }
      case StmtKind::kAlloc:
        return alloc(*as<Alloc>(s), at);
      case StmtKind::kLoop:
        return loop(*as<Loop>(s), at);
      case StmtKind::kIf: {
        const If& branch = *as<If>(s);
        if (varies(branch.condition)) {
          fail(RejectReason::kUnsupported, "a condition on threads around work of all threads");
          return s;
        }
        return b_.if_then(branch.condition, pieces(branch.then_case, at),
                          branch.else_case == nullptr ? nullptr : pieces(branch.else_case, at));
      }
      case StmtKind::kStore:
      case StmtKind::kInstrCall:
      case StmtKind::kBlock:
      case StmtKind::kRoles:
        break;
    }
    return piece(s, at);
  }

  // Differs between threads of a block.
  bool varies(Expr e) const {
    std::set<Id> ids;
    for (size_t a = 0; a < kAxes.size(); ++a)
      if (extent_[a] > 0) ids.insert(thread_[a]);
    for (const auto& [id, value] : subst_.map) ids.insert(id);
    return mentions_any(e, ids);
  }

  Stmt alloc(const Alloc& a, const Context& at) {
    std::vector<Id> local;
    for (Id id : a.buffers) {
      if (edit_.k.buffer(id)->scope == Scope::kShared) {
        shared_.push_back(id);
        continue;
      }
      local.push_back(id);
      homes_[id] = at.covered;
    }
    return b_.alloc(local, pieces(a.body, at));
  }

  Stmt loop(const Loop& l, const Context& at) {
    if (has_annotation(l, AnnotationKey::kCooperativeFetch)) return copy(l, at);
    if (l.loop_kind == LoopKind::kBound) {
      const size_t a = axis_index(l.axis);
      if (a == kAxes.size()) {
        fail(RejectReason::kUnsupported,
             fmt::format("the {} loop '{}' is not outermost", axis_name(l.axis), name(l.id)));
        return &l;
      }
      Context inside = at;
      inside.covered[a] = true;
      subst_.set(l.id, b_.var(thread_[a]));
      if (int_value(l.extent) < extent_[a])
        inside.guard = b_.logical_and(inside.guard, b_.lt(b_.var(thread_[a]), l.extent));
      return pieces(l.body, inside);
    }
    if (has_annotation(l, AnnotationKey::kTreeReduce))
      if (Stmt done = tree(l, at)) return done;
    if (varies(l.extent)) {
      fail(RejectReason::kUnsupported, "'" + name(l.id) + "' has another extent for each thread");
      return &l;
    }
    if (has_annotation(l, AnnotationKey::kTreeReduce)) {
      if (meet(touched_buffers(&l).reads, spread_.parts))
        fail(RejectReason::kUnsupported, "'" + name(l.id) + "' does not combine the terms of its threads in pairs");
      return piece(&l, at);
    }
    return b_.with_body(l, pieces(l.body, at));
  }

  // Work without barriers inside.
  Stmt piece(Stmt s, const Context& at) {
    const Touched touched = touched_buffers(s);
    bool leaves = false;  // something that other threads see
    for (const std::set<Id>* set : {&touched.reads, &touched.writes})
      for (Id id : *set) {
        const Buffer* buffer = edit_.k.buffer(id);
        if (buffer == nullptr) continue;  // a register that by_lanes made
        leaves |= set == &touched.writes && buffer->scope != Scope::kLocal;
        auto home = homes_.find(id);
        if (buffer->scope == Scope::kLocal && home != homes_.end() && !is_at_home(id, home->second, at.covered))
          fail(RejectReason::kUnsupported, "'" + name(id) + "' is local and outlives its thread loop");
      }
    // Code that one thread runs alone must not write buffers that all threads hold.
    if (leaves && meet(touched.writes, spread_.copies) && at.covered != std::array<bool, 3>{true, true, true}) {
      if (const Seq* seq = as<Seq>(s)) {
        std::vector<Stmt> stmts;
        for (Stmt c : seq->stmts) stmts.push_back(piece(c, at));
        return b_.seq(stmts);
      }
      fail(RejectReason::kUnsupported,
           "a statement writes a buffer that all threads hold and one that a single thread writes");
    }
    Expr guard = at.guard;
    if (is_shared_once(s, touched)) return b_.if_then(b_.eq(thread_number(), b_.integer(0)), s);
    if (leaves)
      for (size_t a = 0; a < kAxes.size(); ++a)
        if (!at.covered[a] && extent_[a] > 1) guard = b_.logical_and(guard, b_.eq(b_.var(thread_[a]), b_.integer(0)));
    return guard == nullptr ? s : b_.if_then(guard, s);
  }

  // Loops along x do not count for buffers that are spread over them.
  bool is_at_home(Id id, std::array<bool, 3> home, std::array<bool, 3> covered) const {
    if (spread_.parts.contains(id) || spread_.copies.contains(id)) home[0] = covered[0] = false;
    return home == covered;
  }

  // Has a statement that is_shared_once takes out of what each thread does: the copy of a single element, whose loop
  // has been folded away.
  bool has_shared_once(Stmt s) const {
    bool found = false;
    visit(s, [&](Stmt x) {
      if (const If* branch = as<If>(x); branch != nullptr && varies(branch->condition)) return false;
      if (x->kind == StmtKind::kStore) found |= is_shared_once(x, touched_buffers(x));
      return !found;
    });
    return found && s->kind != StmtKind::kStore;
  }

  // What the block shares and no thread's number changes, a copy of a single element say, is done once.
  bool is_shared_once(Stmt s, const Touched& touched) const {
    if (touched.writes.empty() || threads() == 1) return false;
    for (Id id : touched.writes)
      if (edit_.k.buffer(id)->scope != Scope::kShared) return false;
    for (Id id : touched.reads)
      if (edit_.k.buffer(id)->scope == Scope::kLocal) return false;
    bool same = true;
    visit_roots(s, [&](Expr e) { same &= !varies(e); });
    return same;
  }

  // for f in extent: all threads take `vector` elements each, round by round.
  Stmt copy(const Loop& l, const Context& at) {
    const Expr wanted = find_annotation(l, AnnotationKey::kCooperativeFetch);
    if (!is_int(l.extent) || !is_int(wanted)) {
      fail(RejectReason::kNotConstant, "copy '" + name(l.id) + "'");
      return &l;
    }
    for (Id id : touched_buffers(l.body).writes)
      if (edit_.k.buffer(id)->scope == Scope::kLocal)
        fail(RejectReason::kUnsupported, "'" + name(id) + "' is copied by all threads and not shared");
    bool own = varies(l.extent);
    visit_roots(l.body, [&](Expr e) { own |= varies(e); });
    if (own || (at.guard != nullptr && varies(at.guard) && at.covered == std::array<bool, 3>{}))
      fail(RejectReason::kUnsupported, "the copy '" + name(l.id) + "' depends on the thread");
    const int64_t extent = int_value(l.extent);
    int64_t vector = std::max<int64_t>(int_value(wanted), 1);
    if (extent % vector != 0) vector = 1;
    const int64_t round = threads() * vector, rounds = (extent + round - 1) / round;
    const Id outer = edit_.fresh(l.id), lane = edit_.fresh(l.id);
    Expr first = b_.add(b_.scale(b_.var(outer), round), b_.scale(thread_number(), vector));
    Substitution element;
    element.set(l.id, b_.add(first, b_.var(lane)));
    Stmt body = keep_vectors_whole(edit_, substitute(b_, l.body, element), lane, vector);
    body = b_.loop(lane, b_.integer(vector), body, LoopKind::kVectorized);
    if (rounds * round != extent) body = b_.if_then(b_.lt(first, l.extent), body);
    return b_.loop(outer, b_.integer(rounds), body,
                   rounds <= kUnrolledCopies ? LoopKind::kUnrolled : LoopKind::kSerial);
  }

  // for u in 2^n: M = combine(M, R[.., u]) by halving R in place; nullptr where the loop is another.
  Stmt tree(const Loop& l, const Context& at) {
    const Store* store = as<Store>(l.body);
    if (store == nullptr || store->predicate != nullptr || !is_int(l.extent)) return nullptr;
    const int64_t n = int_value(l.extent);
    const Binary* combine = nullptr;
    const Load* part = nullptr;
    if (store->value->kind == ExprKind::kAdd || store->value->kind == ExprKind::kMul ||
        store->value->kind == ExprKind::kMax || store->value->kind == ExprKind::kMin)
      combine = as<Binary>(store->value);
    if (combine == nullptr) return nullptr;
    const Load* old = as<Load>(combine->a);
    part = as<Load>(combine->b);
    if (old == nullptr || part == nullptr || old->buffer != store->buffer || part->predicate != nullptr ||
        part->indices.empty() || n < 2 || (n & (n - 1)) != 0)
      return nullptr;
    const Var* last = as<Var>(part->indices.back());
    if (spread_.parts.contains(part->buffer))
      return last != nullptr && last->id == l.id ? by_lanes(*store, *combine, *part, n, at) : nullptr;
    if (n / 2 > threads() || at.covered != std::array<bool, 3>{}) return nullptr;
    if (last == nullptr || last->id != l.id || edit_.k.buffer(part->buffer)->scope != Scope::kShared ||
        readers(part->buffer) != 1)
      return nullptr;
    for (size_t d = 0; d + 1 < part->indices.size(); ++d)
      if (mentions_any(part->indices[d], {l.id})) return nullptr;
    for (Expr i : store->indices)
      if (mentions_any(i, {l.id})) return nullptr;
    auto element = [&](Expr u) {
      std::vector<Expr> indices(part->indices.begin(), part->indices.end());
      indices.back() = u;
      return indices;
    };
    auto load = [&](Expr u) { return b_.load(part->buffer, part->type, element(u), nullptr, nullptr); };
    std::vector<Stmt> steps;
    // The first warp does the last steps among its own registers, without a barrier for each.
    const int32_t shuffle = find_shuffle(part->type);
    const bool by_warp = n >= kWarpLanes && threads() >= kWarpLanes && shuffle >= 0;
    for (int64_t half = n / 2; half >= (by_warp ? kWarpLanes : 1); half /= 2) {
      Expr t = thread_number();
      Stmt step = b_.store(part->buffer, element(t), b_.binary(combine->kind, load(t), load(b_.offset(t, half))));
      steps.push_back(half < threads() ? b_.if_then(b_.lt(t, b_.integer(half)), step) : step);
    }
    if (by_warp) {
      steps.push_back(in_warp(*store, *combine, load(thread_number()), shuffle));
      return b_.seq(steps);
    }
    steps.push_back(
        piece(b_.store(store->buffer, store->indices, b_.binary(combine->kind, combine->a, load(b_.integer(0)))), at));
    return b_.seq(steps);
  }

  // A local buffer of one element.
  Id register_of(Id like, Type type, Scope scope = Scope::kLocal, int64_t elements = 1) {
    Buffer fields{};
    const Expr extent = b_.integer(elements);
    fields.id = edit_.fresh(like);
    fields.type = type;
    fields.scope = scope;
    fields.role = BufferRole::kTemp;
    fields.shape = std::span<const Expr>(&extent, 1);
    fields.alignment = static_cast<int32_t>(type_bytes(type));
    added_.push_back(b_.buffer(fields));
    return fields.id;
  }

  // Each of the n threads along x holds one term: butterflies of shuffles leave the combination in all of them, by way
  // of shared memory where they are several warps.
  Stmt by_lanes(const Store& store, const Binary& combine, const Load& part, int64_t n, const Context& at) {
    const int32_t shuffle = find_shuffle(part.type);
    const bool in_warp = n <= kWarpLanes;
    if (shuffle < 0 || n != extent_[0] || at.covered[0] || at.guard != nullptr || threads() % kWarpLanes != 0 ||
        (!in_warp && threads() != n)) {
      fail(RejectReason::kUnsupported,
           fmt::format("shuffles do not combine '{}' over {} threads", name(part.buffer), n));
      return &store;
    }
    const std::vector<Expr> zero = {b_.integer(0)};
    const Id mine = register_of(store.buffer, part.type), other = register_of(store.buffer, part.type);
    auto held = [&](Id id) { return b_.load(id, part.type, zero, nullptr, nullptr); };
    std::vector<Stmt> steps = {b_.store(mine, zero, b_.load(part.buffer, part.type, zero, nullptr, nullptr))};
    auto exchange = [&](int64_t lanes) {
      for (int64_t distance = lanes / 2; distance >= 1; distance /= 2) {
        const Operand operands[2] = {{other, b_.arena().copy(zero)}, {mine, b_.arena().copy(zero)}};
        const Expr args[3] = {b_.integer(kButterfly), b_.integer(distance), b_.integer(kWarpLanes)};
        steps.push_back(b_.instr(shuffle, operands, args));
        steps.push_back(b_.store(mine, zero, b_.binary(combine.kind, held(mine), held(other))));
      }
    };
    exchange(std::min(n, kWarpLanes));
    if (!in_warp) {
      const int64_t warps = n / kWarpLanes;
      const Id stage = register_of(store.buffer, part.type, Scope::kShared, warps);
      shared_.push_back(stage);
      const Expr thread = b_.var(thread_[0]), warp = b_.integer(kWarpLanes);
      const std::vector<Expr> to = {b_.floor_div(thread, warp)}, from = {b_.floor_mod(thread, b_.integer(warps))};
      steps.push_back(b_.if_then(b_.eq(b_.floor_mod(thread, warp), b_.integer(0)), b_.store(stage, to, held(mine))));
      steps.push_back(b_.store(mine, zero, b_.load(stage, part.type, from, nullptr, nullptr)));
      exchange(warps);
    }
    steps.push_back(piece(b_.store(store.buffer, store.indices, b_.binary(combine.kind, combine.a, held(mine))), at));
    return b_.alloc(std::vector{mine, other}, b_.seq(steps));
  }

  // Lane l of the first warp holds `mine`; butterflies of shuffles leave all of them combined in every lane.
  Stmt in_warp(const Store& store, const Binary& combine, Expr mine, int32_t shuffle) {
    const std::vector<Expr> zero = {b_.integer(0)};
    const Id ids[2] = {register_of(store.buffer, mine->type), register_of(store.buffer, mine->type)};
    auto held = [&](Id id) { return b_.load(id, mine->type, zero, nullptr, nullptr); };
    std::vector<Stmt> steps = {b_.store(ids[0], zero, mine)};
    for (int64_t distance = kWarpLanes / 2; distance >= 1; distance /= 2) {
      const Operand operands[2] = {{ids[1], b_.arena().copy(zero)}, {ids[0], b_.arena().copy(zero)}};
      const Expr args[3] = {b_.integer(kButterfly), b_.integer(distance), b_.integer(kWarpLanes)};
      steps.push_back(b_.instr(shuffle, operands, args));
      steps.push_back(b_.store(ids[0], zero, b_.binary(combine.kind, held(ids[0]), held(ids[1]))));
    }
    Stmt result = b_.store(store.buffer, store.indices, b_.binary(combine.kind, combine.a, held(ids[0])));
    steps.push_back(b_.if_then(b_.eq(thread_number(), b_.integer(0)), result));
    return b_.if_then(b_.lt(thread_number(), b_.integer(kWarpLanes)),
                      b_.alloc(std::vector{ids[0], ids[1]}, b_.seq(steps)));
  }
  // Loads of the buffer, those of a sum into itself not counted.
  int readers(Id buffer) const {
    int n = 0;
    visit(edit_.k.root, [&](Stmt s) {
      const Store* store = as<Store>(s);
      if (store == nullptr || store->buffer == buffer) return true;
      visit(store->value, [&](Expr e) {
        if (const Load* l = as<Load>(e)) n += l->buffer == buffer ? 1 : 0;
        return true;
      });
      return true;
    });
    return n;
  }

  Edit& edit_;
  Builder& b_;
  std::vector<const Buffer*> added_;
  std::array<int64_t, 3> extent_ = {};  // 0: the axis is not used
  std::array<Id, 3> thread_ = {};
  bool threaded_ = false;
  std::vector<Id> shared_;
  SpreadLocals spread_;
  std::map<Id, std::array<bool, 3>> homes_;  // of local buffers: the thread loops around their Alloc
  Substitution subst_;
  Legal<void> verdict_ = {};
};

}  // namespace

Legal<Kernel> bind_threads(const Kernel& kernel, const ArenaPtr& arena) {
  Edit edit(kernel, arena);
  TCC_TRY(edit.k.root, map_legal_launches(edit, kernel.root, [&](Stmt launch) -> Legal<Stmt> {
            return has_roles(launch) ? launch : Binder(edit).run(launch);
          }));
  return edit.k;
}

}  // namespace tcc::lower
