// Warp specialisation with a ring of D versions (CUTLASS, "Efficient GEMM in CUDA": warp-specialised kernels; PTX
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
#include "lower/gpu/expand_roles.h"

#include <algorithm>
#include <bit>

#include "lower/gpu/edit.h"
#include "tcc/analysis/roles.h"
#include "tcc/ir/instr.h"

namespace tcc::lower {
namespace {

using namespace ir;
using analysis::role_loop;

constexpr int64_t kGroupWarps = 4, kLanes = 32;
// CUDA driver API, "cuTensorMapEncodeTiled": rows of a box, bytes of a row with 128B swizzle, what strides divide by,
// and where swizzled tiles begin.
constexpr int64_t kBoxRows = 256, kBoxBytes = 128, kPitchBytes = 16, kTileAlignment = 1024;
constexpr int64_t kPiece = 16;  // bytes that the swizzle moves together

const Expr* annotation(const Loop& l, AnnotationKey key) {
  for (const Annotation& a : l.annotations)
    if (a.key == key) return &a.value;
  return nullptr;
}

// A copy of source[lead.., row + i, column + j] to shared[0.., i, j].
struct BoxCopy {
  const Buffer* shared = nullptr;
  const Buffer* source = nullptr;
  std::vector<Expr> lead;
  Expr row = nullptr, column = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t bytes() const { return rows * columns * type_bytes(shared->type); }
};
struct RoleLoop {
  const Loop* loop = nullptr;
  int64_t steps = 0, depth = 0;
  std::vector<BoxCopy> copies;
  std::vector<Stmt> work;
};

class Reader {
 public:
  Reader(const Kernel& k, Arena& arena) : k_(k), b_(arena) {}

  Legal<RoleLoop> read(Stmt launch) {
    RoleLoop out;
    out.loop = role_loop(launch);
    const Loop& l = *out.loop;
    const Expr* depth = annotation(l, AnnotationKey::kPipelineDepth);
    if (as<Loop>(launch) == nullptr || !is_grid(as<Loop>(launch)->axis)) return refuse("a launch of one block");
    if (!reaches(launch, l.id)) return refuse("'" + name(l.id) + "' is not the one loop of its launch");
    if (depth == nullptr || !is_int(*depth) || !is_int(l.extent))
      return reject(RejectReason::kNotConstant, "the pipeline of '" + name(l.id) + "'");
    out.steps = int_value(l.extent);
    out.depth = std::min(int_value(*depth), out.steps);
    const Alloc* own = as<Alloc>(l.body);
    const Seq* seq = own == nullptr ? nullptr : as<Seq>(own->body);
    if (seq == nullptr) return refuse("'" + name(l.id) + "' holds no copies and products of its own");
    for (Stmt s : seq->stmts) {
      std::optional<BoxCopy> copy = out.work.empty() ? box_copy(s) : std::nullopt;
      if (!copy) {
        out.work.push_back(s);
        continue;
      }
      if (std::find(own->buffers.begin(), own->buffers.end(), copy->shared->id) == own->buffers.end())
        return refuse("'" + name(copy->shared->id) + "' is not of one iteration");
      if (Legal<void> ok = check_box(*copy, launch); !ok) return tl::make_unexpected(ok.error());
      out.copies.push_back(std::move(*copy));
    }
    if (out.copies.size() != own->buffers.size() || out.work.empty())
      return reject(RejectReason::kBadInstruction,
                    "what '" + name(l.id) + "' copies is no box of a parameter that a tensor copy can make");
    for (Stmt s : out.work)
      if (!only_products(s)) return refuse("'" + name(l.id) + "' does more than copies and products");
    return out;
  }

 private:
  tl::unexpected<Reject> refuse(const std::string& why) const { return reject(RejectReason::kUnsupported, why); }
  std::string name(Id id) const { return name_hint(k_, id); }

  // Only bound loops, allocations and sequences stand around the loop.
  static bool reaches(Stmt s, Id id) {
    if (const Loop* l = as<Loop>(s))
      return l->id == id || (l->loop_kind == LoopKind::kBound && l->axis != Axis::kVthread && reaches(l->body, id));
    if (const Alloc* a = as<Alloc>(s)) return reaches(a->body, id);
    if (const Seq* seq = as<Seq>(s))
      return std::count_if(seq->stmts.begin(), seq->stmts.end(), [&](Stmt c) { return reaches(c, id); }) == 1;
    return false;
  }

  static bool only_products(Stmt s) {
    bool all = true;
    visit(s, [&](Stmt x) {
      const InstrCall* call = as<InstrCall>(x);
      all &= call == nullptr ? x->kind == StmtKind::kLoop || x->kind == StmtKind::kSeq
                             : instruction(call->instr).completion == Completion::kWgmmaGroup;
      return all;
    });
    return all;
  }

  // nullopt: another statement.
  std::optional<BoxCopy> box_copy(Stmt s) {
    std::vector<const Loop*> loops;
    for (; as<Loop>(s) != nullptr; s = as<Loop>(s)->body) loops.push_back(as<Loop>(s));
    const Store* store = as<Store>(s);
    const Load* load = store == nullptr || store->predicate != nullptr ? nullptr : as<Load>(store->value);
    if (load == nullptr || loops.size() != 2 || load->indices.size() < 2 || store->indices.size() < 2)
      return std::nullopt;
    BoxCopy c;
    c.shared = k_.buffer(store->buffer);
    c.source = k_.buffer(load->buffer);
    const size_t lead = store->indices.size() - 2, from = load->indices.size() - 2;
    for (size_t d = 0; d < lead; ++d)
      if (!is_int(store->indices[d], 0)) return std::nullopt;
    for (size_t d = 0; d < 2; ++d) {
      const Var* v = as<Var>(store->indices[lead + d]);
      const auto l = std::find_if(loops.begin(), loops.end(), [&](const Loop* x) { return v && x->id == v->id; });
      if (l == loops.end() || !is_int((*l)->extent)) return std::nullopt;
      (d == 0 ? c.rows : c.columns) = int_value((*l)->extent);
      (d == 0 ? c.row : c.column) = b_.sub(load->indices[from + d], store->indices[lead + d]);
    }
    c.lead.assign(load->indices.begin(), load->indices.end() - 2);
    std::vector<Expr> fixed = c.lead;
    fixed.insert(fixed.end(), {c.row, c.column});
    for (Expr e : fixed)
      if (mentions_any(e, {loops[0]->id, loops[1]->id})) return std::nullopt;
    if (load->predicate != nullptr && !is_inside(*load, *c.source)) return std::nullopt;
    return c;
  }

  // The predicate says no more than that the element exists, and what does not is zero.
  bool is_inside(const Load& load, const Buffer& source) {
    const FloatConst* zero = as<FloatConst>(load.other);
    if (zero == nullptr || zero->value != 0) return false;
    std::vector<Expr> conjuncts;
    split_conjunction(load.predicate, conjuncts);
    const size_t from = load.indices.size() - 2;
    return std::all_of(conjuncts.begin(), conjuncts.end(), [&](Expr e) {
      if (e->kind != ExprKind::kLt && e->kind != ExprKind::kLe) return false;
      Expr left = b_.sub(as<Binary>(e)->b, as<Binary>(e)->a);
      if (e->kind == ExprKind::kLe) left = b_.offset(left, 1);
      for (size_t d = from; d < from + 2; ++d)
        if (equal(left, b_.sub(source.shape[d], load.indices[d]))) return true;
      return false;
    });
  }

  Legal<void> check_box(const BoxCopy& c, Stmt launch) {
    const int64_t bytes = type_bytes(c.shared->type);
    auto bad = [&](const std::string& why) {
      return reject(RejectReason::kBadInstruction, "a tensor copy of '" + name(c.source->id) + "': " + why);
    };
    if (c.source->role == BufferRole::kTemp || c.source->layout != nullptr || c.source->type != c.shared->type)
      return bad("it is no plain parameter of the kernel");
    if (find_instruction(fmt::format("tma.load.{}", type_name(c.shared->type))) < 0 || bytes != 2)
      return bad("no such instruction for its type");
    if (!is_int(c.source->shape.back()) || int_value(c.source->shape.back()) * bytes % kPitchBytes != 0)
      return bad(fmt::format("its rows are no multiple of {} bytes", kPitchBytes));
    if (c.rows > kBoxRows || c.columns * bytes % kBoxBytes != 0) return bad("the box is too large or too narrow");
    std::set<Id> threads;
    visit(launch, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s); l != nullptr && is_thread(l->axis)) threads.insert(l->id);
      return true;
    });
    std::vector<Expr> starts = c.lead;
    starts.insert(starts.end(), {c.row, c.column});
    for (Expr e : starts)
      if (mentions_any(e, threads)) return bad("it depends on the thread");
    return {};
  }

  const Kernel& k_;
  Builder b_;
};

class Expander {
 public:
  Expander(Edit& edit, const target::Target& target) : edit_(edit), b_(edit.b), target_(target) {}

  Legal<Stmt> run(Stmt launch) {
    if (role_loop(launch) == nullptr) return launch;
    Legal<RoleLoop> found = Reader(edit_.k, b_.arena()).read(launch);
    if (!found) return tl::make_unexpected(found.error());
    role_ = std::move(*found);
    consumers_ = analysis::consumer_groups(launch);
    const analysis::RoleShape shape = analysis::role_shape(consumers_, target_.cuda.registers_per_sm);
    make_barriers();
    std::vector<const Loop*> grid;
    for (; as<Loop>(launch) != nullptr && is_grid(as<Loop>(launch)->axis); launch = as<Loop>(launch)->body)
      grid.push_back(as<Loop>(launch));
    const Role roles[2] = {{0, kGroupWarps, static_cast<int32_t>(shape.producer_registers), producer()},
                           {kGroupWarps, static_cast<int32_t>(kGroupWarps * consumers_),
                            static_cast<int32_t>(shape.consumer_registers), consumer(launch)}};
    Stmt both[2] = {initialisation(shape.threads), b_.roles(roles)};
    std::vector<Id> shared;
    for (const BoxCopy& c : role_.copies) shared.push_back(c.shared->id);
    shared.insert(shared.end(), {full_, empty_});
    Stmt body = b_.alloc(shared, b_.seq(both));
    for (size_t i = grid.size(); i-- > 0;) {
      std::vector<Annotation> annotations;
      // Unrolling is decided here: a step of the pipeline is a few instructions.
      for (const Annotation& a : grid[i]->annotations)
        if (a.key != AnnotationKey::kUnrollMax) annotations.push_back(a);
      if (i == 0) annotations.push_back({AnnotationKey::kLaunchBounds, b_.integer(shape.blocks)});
      body = b_.loop(grid[i]->id, grid[i]->extent, body, LoopKind::kBound, grid[i]->axis, annotations);
    }
    add_versions();
    return body;
  }

 private:
  Expr turn(Expr k) { return b_.floor_mod(k, b_.integer(role_.depth)); }
  Stmt call(const char* row, std::initializer_list<Operand> operands, std::initializer_list<Expr> args) {
    return b_.instr(find_instruction(row), operands, args);
  }
  Operand barrier(Id id, Expr version) { return {id, b_.arena().copy(std::vector{version})}; }

  void make_barriers() {
    std::vector<const Buffer*> all(edit_.k.buffers.begin(), edit_.k.buffers.end());
    const Expr shape = b_.integer(role_.depth);
    for (Id* id : {&full_, &empty_}) {
      Buffer fields{};
      fields.id = *id = edit_.fresh_named(id == &full_ ? "full" : "empty");
      fields.type = Type::kBarrier;
      fields.scope = Scope::kShared;
      fields.role = BufferRole::kTemp;
      fields.shape = std::span<const Expr>(&shape, 1);
      fields.alignment = static_cast<int32_t>(type_bytes(Type::kBarrier));
      all.push_back(b_.buffer(fields));
    }
    edit_.k.buffers = b_.arena().copy(all);
  }

  // The threads of `groups` warpgroups around f(warpgroup, warp, lane).
  template <class F>
  Stmt threads(int64_t groups, const F& f) {
    const Id group = edit_.fresh_named("group"), warp = edit_.fresh_named("warp"), lane = edit_.fresh_named("lane");
    Expr g = groups == 1 ? b_.integer(0) : b_.var(group);
    Stmt body = b_.loop(lane, b_.integer(kLanes), f(g, b_.var(warp), b_.var(lane)), LoopKind::kBound, Axis::kLane);
    body = b_.loop(warp, b_.integer(kGroupWarps), body, LoopKind::kBound, Axis::kWarp);
    return groups == 1 ? body : b_.loop(group, b_.integer(groups), body, LoopKind::kBound, Axis::kWarpgroup);
  }
  Expr first(Expr group, Expr warp, Expr lane) {
    Expr zero = b_.integer(0);
    return b_.logical_and(b_.logical_and(b_.eq(group, zero), b_.eq(warp, zero)), b_.eq(lane, zero));
  }

  // One thread makes the barriers; all wait until they are there.
  Stmt initialisation(int64_t count) {
    const Id s = edit_.fresh_named("s");
    Stmt each[2] = {call("mbarrier.init", {barrier(full_, b_.var(s))}, {b_.integer(1)}),
                    call("mbarrier.init", {barrier(empty_, b_.var(s))}, {b_.integer(kGroupWarps * consumers_)})};
    Stmt made[2] = {b_.loop(s, b_.integer(role_.depth), b_.seq(each), LoopKind::kUnrolled),
                    call("fence.mbarrier_init", {}, {})};
    return threads(consumers_ + 1, [&](Expr group, Expr warp, Expr lane) {
      Stmt both[2] = {b_.if_then(first(group, warp, lane), b_.seq(made)),
                      call("bar.sync", {}, {b_.integer(0), b_.integer(count)})};
      return b_.seq(both);
    });
  }

  Stmt producer() {
    const Id step = edit_.fresh(role_.loop->id);
    Expr k = b_.var(step);
    Substitution rename;
    rename.set(role_.loop->id, k);
    int64_t bytes = 0;
    for (const BoxCopy& c : role_.copies) bytes += c.bytes();
    Expr before = b_.floor_mod(b_.offset(b_.floor_div(k, b_.integer(role_.depth)), 1), b_.integer(2));
    std::vector<Stmt> stmts = {call("mbarrier.wait", {barrier(empty_, turn(k))}, {before}),
                               call("mbarrier.expect_tx", {barrier(full_, turn(k))}, {b_.integer(bytes)})};
    for (const BoxCopy& c : role_.copies) {
      const int64_t wide = kBoxBytes / type_bytes(c.shared->type);
      const int32_t row = find_instruction(fmt::format("tma.load.{}", type_name(c.shared->type)));
      for (int64_t at = 0; at < c.columns; at += wide) {
        std::vector<Expr> to(c.shared->shape.size() + 1, b_.integer(0)), from;
        to.front() = turn(k);
        to.back() = b_.integer(at);
        for (Expr e : c.lead) from.push_back(substitute(b_, e, rename));
        from.push_back(substitute(b_, c.row, rename));
        from.push_back(b_.offset(substitute(b_, c.column, rename), at));
        const Operand operands[3] = {
            {c.shared->id, b_.arena().copy(to)}, barrier(full_, turn(k)), {c.source->id, b_.arena().copy(from)}};
        const Expr box[2] = {b_.integer(c.rows), b_.integer(wide)};
        stmts.push_back(b_.instr(row, operands, box));
      }
    }
    Stmt loop = b_.loop(step, b_.integer(role_.steps), b_.seq(stmts));
    return threads(1, [&](Expr group, Expr warp, Expr lane) { return b_.if_then(first(group, warp, lane), loop); });
  }

  // The launch's code below the grid, with the products only of the loop.
  Stmt consumer(Stmt s) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->id == role_.loop->id) return products();
    if (l != nullptr && l->axis == Axis::kLane) lane_ = b_.var(l->id);
    return rewrite_children(b_, s, [&](Stmt c) { return consumer(c); }, [](Expr e) { return e; });
  }

  Stmt products() {
    const Loop& l = *role_.loop;
    Expr k = b_.var(l.id), turns = b_.integer(role_.depth);
    std::set<Id> own;
    for (const BoxCopy& c : role_.copies) own.insert(c.shared->id);
    Expr phase = b_.floor_mod(b_.floor_div(k, turns), b_.integer(2));
    std::vector<Stmt> body = {call("mbarrier.wait", {barrier(full_, turn(k))}, {phase}), call("wgmma.fence", {}, {})};
    for (Stmt s : role_.work)
      body.push_back(reindex(b_, s, [&](Id id, std::vector<Expr>& indices) {
        if (!own.contains(id)) return false;
        indices.insert(indices.begin(), turn(k));
        return true;
      }));
    body.push_back(call("wgmma.commit", {}, {}));
    body.push_back(call("wgmma.wait", {}, {b_.integer(1)}));
    Expr one_of_warp = b_.logical_and(b_.lt(b_.integer(0), k), b_.eq(lane_, b_.integer(0)));
    body.push_back(b_.if_then(one_of_warp, call("mbarrier.arrive", {barrier(empty_, turn(b_.offset(k, -1)))}, {})));
    std::vector<Annotation> rest;
    for (const Annotation& a : l.annotations)
      if (a.key != AnnotationKey::kPipelineDepth && a.key != AnnotationKey::kPipelineRole) rest.push_back(a);
    Stmt both[2] = {b_.loop(l.id, l.extent, b_.seq(body), l.loop_kind, l.axis, rest),
                    call("wgmma.wait", {}, {b_.integer(0)})};
    return b_.seq(both);
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
      const XorField swap{log(wide), log(kPiece / bytes), 7};
      Layout layout{};
      layout.shape = extents;
      layout.digits = digits;
      layout.xors = std::span(&swap, 1);
      layout.size = role_.depth * copy->rows * copy->columns;
      fields.layout = copy_layout(b_.arena(), layout);
      fields.shape = b_.arena().copy(shape);
      fields.alignment = kTileAlignment;
      return true;
    });
  }

  Edit& edit_;
  Builder& b_;
  const target::Target& target_;
  RoleLoop role_;
  int64_t consumers_ = 1;
  Id full_ = kNoId, empty_ = kNoId;
  Expr lane_ = nullptr;
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
  Legal<RoleLoop> role = Reader(nest, arena).read(launch);
  if (!role) return tl::make_unexpected(role.error());
  return {};
}

Legal<Kernel> expand_roles(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  if (role_loop(kernel.root) == nullptr) return kernel;
  Edit edit(kernel, arena);
  Legal<Stmt> root =
      map_legal_launches(edit, kernel.root, [&](Stmt launch) { return Expander(edit, target).run(launch); });
  if (!root) return tl::make_unexpected(root.error());
  edit.k.root = *root;
  return edit.k;
}

}  // namespace tcc::lower
