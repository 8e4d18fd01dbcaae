// Warp specialization with a ring of D versions (CUTLASS, "Efficient GEMM in CUDA": warp-specialized kernels; PTX
// manual, "mbarrier" and "setmaxnreg"). With iterations 0 .. N-1 and phases counted per version:
//
//   producer, one thread                         consumers, each warpgroup
//   for k in N {                                 for k in N {
//     wait until empty[k % D]                      wait until full[k % D]
//     full[k % D] expects the boxes' bytes         multiply version k % D, as one group
//     copy the boxes -> version k % D              wait until at most one group is on its way
//   }                                              empty[(k - 1) % D] has one arrival more of each warp
//                                                }
//                                                wait for all groups
//
// A barrier's wait names the parity of the phase that has to be over. full completes once every D iterations, so
// iteration k waits for phase k / D; empty has no completed phase at first, and the wait for the parity before phase 0
// passes at once.
//
// Blocks that walk over several tiles (CUTLASS, "persistent tile scheduler") do all of this once for each, and the
// iterations are numbered across tiles: the producer fills the ring for the next one while results of this one leave.
//
// In a cluster, blocks that want the same box load a part of its rows each and multicast it to all of them (CUTLASS,
// "multicast"): a version is empty when the consumers of every block that receives the producer's parts have left it,
// so they arrive at the barriers of all blocks that send to theirs. Blocks meet after they have made their barriers,
// and before any of them ends.
#include "lower/gpu/expand_roles.h"

#include <algorithm>
#include <bit>

#include "lower/gpu/edit.h"
#include "lower/gpu/role_loop.h"
#include "lower/gpu/stage_results.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/target/limits.h"

namespace tcc::lower {
namespace {

using namespace ir;
using analysis::role_loop;

class RoleExpander {
 public:
  RoleExpander(Edit& edit, const target::Target& target) : edit_(edit), b_(edit.b), target_(target) {}

  Legal<Stmt> run(Stmt launch) {
    if (role_loop(launch) == nullptr) return launch;
    TCC_TRY(role_, read_role_loop(edit_.k, launch, b_.arena()));
    consumers_ = analysis::consumer_groups(launch);
    results_.emplace(edit_, consumers_);
    const analysis::RoleShape shape = analysis::role_shape(consumers_, target_.cuda.registers_per_sm);
    make_barriers();
    make_walk();
    Stmt below = launch;
    while (as<Loop>(below) != nullptr && !is_thread(as<Loop>(below)->axis) && as<Loop>(below)->axis != Axis::kVthread)
      below = as<Loop>(below)->body;
    const Role roles[2] = {{0, kGroupWarps, static_cast<int32_t>(shape.producer_registers), producer()},
                           {kGroupWarps, static_cast<int32_t>(kGroupWarps * consumers_),
                            static_cast<int32_t>(shape.consumer_registers), consumer(below)}};
    Stmt all[3] = {initialization(shape.threads), b_.roles(roles), clustered() ? meeting() : nullptr};
    std::vector<Id> shared;
    for (const BoxCopy& c : role_.copies) shared.push_back(c.shared->id);
    if (results_->buffer() != kNoId) shared.push_back(results_->buffer());
    shared.insert(shared.end(), {full_, empty_});
    Stmt body = b_.alloc(shared, b_.seq(all));
    for (const Loop* l : {role_.cluster_y, role_.cluster_x})
      if (l != nullptr) body = b_.with_body(*l, body);
    add_versions();
    return around(body, shape.blocks);
  }

 private:
  bool clustered() const { return blocks_along(role_.cluster_x) * blocks_along(role_.cluster_y) > 1; }
  Expr turn(Expr k) { return b_.floor_mod(k, b_.integer(role_.depth)); }
  Stmt call(Family family, Behaviour behaviour, std::initializer_list<Operand> operands,
            std::initializer_list<Expr> args) {
    return b_.instr(instruction_row(family, behaviour, static_cast<int32_t>(args.size())), operands, args);
  }
  Operand barrier(Id id, Expr version) { return {id, b_.arena().copy(std::vector{version})}; }

  // The grid around the body.
  Stmt around(Stmt body, int64_t blocks) {
    for (size_t i = role_.grid.size(); i-- > 0;) {
      const Loop& l = *role_.grid[i];
      // Unrolling is decided here: a step of the pipeline is a few instructions.
      std::vector<Annotation> annotations =
          without(l.annotations, {AnnotationKey::kUnrollMax, AnnotationKey::kPersistentBlocks});
      if (i == 0) annotations.push_back({AnnotationKey::kLaunchBounds, b_.integer(blocks)});
      const bool walks = role_.walk.persistent();
      body = b_.loop(walks ? walker_ : l.id, walks ? b_.integer(role_.walk.clusters) : l.extent, body, LoopKind::kBound,
                     l.axis, annotations);
    }
    return body;
  }

  // Number w of W walkers makes tiles w, w + W, ...
  void make_walk() {
    if (!role_.walk.persistent()) return;
    walker_ = edit_.fresh_named("walker");
    Expr clusters = b_.integer(role_.walk.clusters);
    Expr left = b_.sub(b_.integer(role_.walk.tiles), b_.var(walker_));
    trips_ = role_.walk.tiles % role_.walk.clusters == 0
                 ? b_.integer(role_.walk.tiles / role_.walk.clusters)
                 : b_.floor_div(b_.offset(left, role_.walk.clusters - 1), clusters);
  }
  // The body once for each tile, f(number of the tile among those of the block).
  template <class F>
  Stmt each_tile(const F& f) {
    if (!role_.walk.persistent()) return f(b_.integer(0));
    const Id trip = edit_.fresh_named("tile");
    Substitution tile;
    tile.set(role_.grid[0]->id, b_.add(b_.var(walker_), b_.scale(b_.var(trip), role_.walk.clusters)));
    return b_.loop(trip, trips_, substitute(b_, f(b_.var(trip)), tile));
  }
  // Number of the iteration among all of the block.
  Expr iteration(Expr tile, Expr k) { return b_.add(b_.scale(tile, role_.steps), k); }

  void make_barriers() {
    const Expr shape = b_.integer(role_.depth);
    for (Id* id : {&full_, &empty_}) {
      Buffer fields{};
      fields.id = *id = edit_.fresh_named(id == &full_ ? "full" : "empty");
      fields.type = Type::kBarrier;
      fields.scope = clustered() ? Scope::kClusterShared : Scope::kShared;
      fields.role = BufferRole::kTemp;
      fields.shape = std::span<const Expr>(&shape, 1);
      fields.alignment = static_cast<int32_t>(type_bytes(Type::kBarrier));
      edit_.add_buffer(fields);
    }
  }

  // The threads of `groups` warpgroups around f(warpgroup, warp, lane).
  template <class F>
  Stmt threads(int64_t groups, const F& f) {
    const Id group = edit_.fresh_named("group"), warp = edit_.fresh_named("warp"), lane = edit_.fresh_named("lane");
    Expr g = groups == 1 ? b_.integer(0) : b_.var(group);
    Stmt body = b_.loop(lane, b_.integer(kWarpLanes), f(g, b_.var(warp), b_.var(lane)), LoopKind::kBound, Axis::kLane);
    body = b_.loop(warp, b_.integer(kGroupWarps), body, LoopKind::kBound, Axis::kWarp);
    return groups == 1 ? body : b_.loop(group, b_.integer(groups), body, LoopKind::kBound, Axis::kWarpgroup);
  }
  Expr first(Expr group, Expr warp, Expr lane) {
    Expr zero = b_.integer(0);
    return b_.logical_and(b_.logical_and(b_.eq(group, zero), b_.eq(warp, zero)), b_.eq(lane, zero));
  }

  // One thread makes the barriers; all wait until they are there.
  Stmt initialization(int64_t count) {
    const Id s = edit_.fresh_named("s");
    const auto arrivals = kGroupWarps * consumers_ * static_cast<int64_t>(peers().size());
    Stmt each[2] = {
        call(Family::kMbarrier, Behaviour::kMbarrierInit, {barrier(full_, b_.var(s))}, {b_.integer(1)}),
        call(Family::kMbarrier, Behaviour::kMbarrierInit, {barrier(empty_, b_.var(s))}, {b_.integer(arrivals)})};
    Stmt made[2] = {b_.loop(s, b_.integer(role_.depth), b_.seq(each), LoopKind::kUnrolled),
                    call(Family::kSync, Behaviour::kFenceMbarrierInit, {}, {})};
    return threads(consumers_ + 1, [&](Expr group, Expr warp, Expr lane) {
      Stmt both[2] = {b_.if_then(first(group, warp, lane), b_.seq(made)),
                      clustered() ? call(Family::kSync, Behaviour::kClusterSync, {}, {})
                                  : call(Family::kSync, Behaviour::kBarSync, {}, {b_.integer(0), b_.integer(count)})};
      return b_.seq(both);
    });
  }
  // Nobody ends while others write to its memory or arrive at its barriers.
  Stmt meeting() {
    return threads(consumers_ + 1,
                   [&](Expr, Expr, Expr) { return call(Family::kSync, Behaviour::kClusterSync, {}, {}); });
  }

  // --- clusters ------------------------------------------------------------------------------------------------------
  Expr coordinate(const Loop* axis) { return axis == nullptr ? b_.integer(0) : b_.var(axis->id); }
  static int64_t blocks_along(const Loop* axis) { return axis == nullptr ? 1 : int_value(axis->extent); }

  // Offsets along x and y of the blocks that send boxes to a block, and that it sends to: itself first.
  std::vector<std::pair<int64_t, int64_t>> peers() const {
    std::vector<std::pair<int64_t, int64_t>> out = {{0, 0}};
    for (const BoxCopy& c : role_.copies)
      for (int64_t y = 0; y < c.sharers_y; ++y)
        for (int64_t x = 0; x < c.sharers_x; ++x)
          if (std::find(out.begin(), out.end(), std::pair(x, y)) == out.end()) out.emplace_back(x, y);
    return out;
  }
  // Number in the cluster of the block at that offset from this one, going around.
  Expr peer(std::pair<int64_t, int64_t> offset) {
    const int64_t nx = blocks_along(role_.cluster_x), ny = blocks_along(role_.cluster_y);
    Expr x = b_.floor_mod(b_.offset(coordinate(role_.cluster_x), offset.first), b_.integer(nx));
    Expr y = b_.floor_mod(b_.offset(coordinate(role_.cluster_y), offset.second), b_.integer(ny));
    return b_.add(x, b_.scale(y, nx));
  }
  // Bits of the blocks that share the box with this one: a constant times 2^(this block's coordinates along the other
  // axes), of which there are two values each.
  Expr mask(const BoxCopy& c) {
    const int64_t nx = blocks_along(role_.cluster_x);
    int64_t bits = 0;
    for (int64_t y = 0; y < c.sharers_y; ++y)
      for (int64_t x = 0; x < c.sharers_x; ++x) bits |= int64_t{1} << (x + y * nx);
    Expr out = b_.integer(bits);
    auto shifted = [&](const Loop* axis, int64_t by) {
      return b_.offset(b_.scale(coordinate(axis), (int64_t{1} << by) - 1), 1);
    };
    if (c.sharers_x == 1) out = b_.mul(out, shifted(role_.cluster_x, 1));
    if (c.sharers_y == 1) out = b_.mul(out, shifted(role_.cluster_y, nx));
    return out;
  }
  // This block's number among those that share the box.
  Expr part(const BoxCopy& c) {
    Expr x = c.sharers_x > 1 ? coordinate(role_.cluster_x) : b_.integer(0);
    return b_.add(x, c.sharers_y > 1 ? b_.scale(coordinate(role_.cluster_y), c.sharers_x) : b_.integer(0));
  }

  // --- producer ------------------------------------------------------------------------------------------------------
  // The block's part of the box of iteration `it` into version it % D, in pieces of 128 bytes of its rows.
  void copy_box(const BoxCopy& c, Expr it, const Substitution& rename, std::vector<Stmt>& stmts) {
    const int64_t wide = kBoxBytes / type_bytes(c.shared->type), rows = c.rows / c.sharers();
    const bool multicast = c.sharers() > 1;
    const int32_t row = find_tensor_copy(c.shared->type, Scope::kShared, multicast);
    for (int64_t at = 0; at < c.columns; at += wide) {
      std::vector<Expr> to(c.shared->shape.size() + 1, b_.integer(0)), from;
      to.front() = turn(it);
      to[to.size() - 2] = b_.scale(part(c), rows);
      to.back() = b_.integer(at);
      for (Expr e : c.lead) from.push_back(substitute(b_, e, rename));
      from.push_back(b_.add(substitute(b_, c.row, rename), b_.scale(part(c), rows)));
      from.push_back(b_.offset(substitute(b_, c.column, rename), at));
      const Operand operands[3] = {
          {c.shared->id, b_.arena().copy(to)}, barrier(full_, turn(it)), {c.source->id, b_.arena().copy(from)}};
      std::vector<Expr> args = {b_.integer(rows), b_.integer(wide)};
      if (multicast) args.push_back(mask(c));
      stmts.push_back(b_.instr(row, operands, args));
    }
  }

  Stmt producer() {
    Stmt loop = each_tile([&](Expr tile) {
      const Id step = edit_.fresh(role_.loop->id);
      Substitution rename;
      rename.set(role_.loop->id, b_.var(step));
      Expr it = iteration(tile, b_.var(step));
      int64_t bytes = 0;
      for (const BoxCopy& c : role_.copies) bytes += c.bytes();
      Expr before = b_.floor_mod(b_.offset(b_.floor_div(it, b_.integer(role_.depth)), 1), b_.integer(2));
      std::vector<Stmt> stmts = {
          call(Family::kMbarrier, Behaviour::kMbarrierWait, {barrier(empty_, turn(it))}, {before}),
          call(Family::kMbarrier, Behaviour::kMbarrierExpectTx, {barrier(full_, turn(it))}, {b_.integer(bytes)})};
      for (const BoxCopy& c : role_.copies) copy_box(c, it, rename, stmts);
      return b_.loop(step, b_.integer(role_.steps), b_.seq(stmts));
    });
    return threads(1, [&](Expr group, Expr warp, Expr lane) { return b_.if_then(first(group, warp, lane), loop); });
  }

  // --- consumers -----------------------------------------------------------------------------------------------------
  // The launch's code below the grid and the cluster: what a lane does is done for each tile.
  Stmt consumer(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->axis == Axis::kWarpgroup) thread_.group = b_.var(l->id);
    if (l != nullptr && l->axis == Axis::kWarp) thread_.warp = l->id;
    if (l == nullptr || l->axis != Axis::kLane) return rewrite_children(b_, s, [&](Stmt c) { return consumer(c); });
    thread_.lane = l->id;
    if (thread_.group == nullptr) thread_.group = b_.integer(0);
    Stmt tiles = each_tile([&](Expr tile) { return of_lane(l->body, tile, role_.walk.persistent()); });
    Stmt both[2] = {tiles, results_->finish(thread_)};
    return b_.with_body(*l, b_.seq(both));
  }

  // again: the statement is executed several times.
  Stmt of_lane(Stmt s, Expr tile, bool again) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->id == role_.loop->id) return products(tile);
    if (Stmt staged = results_->stage(s, thread_, again)) return staged;
    return rewrite_children(b_, s, [&](Stmt c) { return of_lane(c, tile, again || l != nullptr); });
  }

  // Nobody of the warp reads version `it` % D any more.
  Stmt release(Expr it) {
    std::vector<Stmt> arrivals;
    for (const auto& offset : peers())
      arrivals.push_back(
          clustered() ? call(Family::kMbarrier, Behaviour::kMbarrierArrive, {barrier(empty_, turn(it))}, {peer(offset)})
                      : call(Family::kMbarrier, Behaviour::kMbarrierArrive, {barrier(empty_, turn(it))}, {}));
    return b_.seq(arrivals);
  }

  Stmt products(Expr tile) {
    const Loop& l = *role_.loop;
    Expr k = b_.var(l.id), it = iteration(tile, k), turns = b_.integer(role_.depth);
    std::set<Id> own;
    for (const BoxCopy& c : role_.copies) own.insert(c.shared->id);
    Expr phase = b_.floor_mod(b_.floor_div(it, turns), b_.integer(2));
    std::vector<Stmt> body = {call(Family::kMbarrier, Behaviour::kMbarrierWait, {barrier(full_, turn(it))}, {phase}),
                              call(Family::kWgmma, Behaviour::kWgmmaFence, {}, {})};
    for (Stmt s : role_.work)
      body.push_back(reindex(b_, s, [&](Id id, std::vector<Expr>& indices) {
        if (!own.contains(id)) return false;
        indices.insert(indices.begin(), turn(it));
        return true;
      }));
    body.push_back(call(Family::kWgmma, Behaviour::kWgmmaCommit, {}, {}));
    body.push_back(call(Family::kWgmma, Behaviour::kWgmmaWait, {}, {b_.integer(1)}));
    Expr one_of_warp = b_.eq(b_.var(thread_.lane), b_.integer(0));
    Expr later = b_.logical_and(b_.lt(b_.integer(0), k), one_of_warp);
    body.push_back(b_.if_then(later, release(b_.offset(it, -1))));
    const std::vector<Annotation> rest =
        without(l.annotations, {AnnotationKey::kPipelineDepth, AnnotationKey::kPipelineRole});
    std::vector<Stmt> all = {b_.loop(l.id, l.extent, b_.seq(body), l.loop_kind, l.axis, rest),
                             call(Family::kWgmma, Behaviour::kWgmmaWait, {}, {b_.integer(0)})};
    // The next tile begins in the version that the last iteration leaves.
    if (role_.walk.persistent())
      all.push_back(b_.if_then(one_of_warp, release(iteration(tile, b_.integer(role_.steps - 1)))));
    return b_.seq(all);
  }

  // [.., rows, columns] -> [D, .., rows, columns], columns in blocks of 128 bytes, in each of which a row follows the
  // other; pieces of 16 bytes are swapped within a row by the row's number modulo 8.
  void add_versions() {
    edit_.map_buffers([&](Buffer& fields) {
      const auto copy = std::find_if(role_.copies.begin(), role_.copies.end(),
                                     [&](const BoxCopy& c) { return c.shared->id == fields.id; });
      if (copy == role_.copies.end()) return false;
      const int64_t bytes = type_bytes(fields.type), wide = kBoxBytes / bytes;
      const auto rank = static_cast<int32_t>(fields.shape.size()) + 1;
      std::vector<Expr> shape = {b_.integer(role_.depth)};
      shape.insert(shape.end(), fields.shape.begin(), fields.shape.end());
      std::vector<int64_t> extents;
      for (Expr e : shape) extents.push_back(int_value(e));
      std::vector<Digit> digits = {{0, 1, 0, Place::kAddress, copy->rows * copy->columns},
                                   {rank - 1, wide, 0, Place::kAddress, copy->rows * wide},
                                   {rank - 2, 1, 0, Place::kAddress, wide},
                                   {rank - 1, 1, wide, Place::kAddress, 1}};
      auto log = [](int64_t n) { return std::countr_zero(static_cast<uint64_t>(n)); };
      const XorField swap{log(wide), log(target::kSwizzleBytes / bytes), 7};
      Layout layout{};
      layout.shape = extents;
      layout.digits = digits;
      layout.xors = std::span(&swap, 1);
      layout.size = role_.depth * copy->rows * copy->columns;
      if (clustered()) fields.scope = Scope::kClusterShared;
      fields.layout = copy_layout(b_.arena(), layout);
      fields.shape = b_.arena().copy(shape);
      fields.alignment = kSwizzledTileAlignment;
      return true;
    });
  }

  Edit& edit_;
  Builder& b_;
  const target::Target& target_;
  RoleLoop role_;
  std::optional<ResultStage> results_;
  ResultStage::Thread thread_ = {};
  int64_t consumers_ = 1;
  Id full_ = kNoId, empty_ = kNoId, walker_ = kNoId;
  Expr trips_ = nullptr;
};

}  // namespace

bool has_roles(Stmt launch) {
  bool found = false;
  visit(launch, [&](Stmt s) {
    found |= s->kind == StmtKind::kRoles;
    return !found;
  });
  return found;
}

Legal<void> check_roles(const Kernel& nest, Stmt launch) {
  Arena arena;
  TCC_TRY_VOID(read_role_loop(nest, launch, arena));
  return {};
}

Legal<Kernel> expand_roles(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  if (role_loop(kernel.root) == nullptr) return kernel;
  Edit edit(kernel, arena);
  TCC_TRY(edit.k.root,
          map_legal_launches(edit, kernel.root, [&](Stmt launch) { return RoleExpander(edit, target).run(launch); }));
  return edit.k;
}

}  // namespace tcc::lower
