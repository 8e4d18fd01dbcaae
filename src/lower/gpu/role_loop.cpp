#include "lower/gpu/role_loop.h"

#include <algorithm>
#include <set>

#include "lower/gpu/edit.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::lower {
namespace {

using namespace ir;
using analysis::role_loop;

// CUDA driver API, "cuTensorMapEncodeTiled": rows of a box, bytes of a row with 128B swizzle, what strides divide by.
constexpr int64_t kBoxRows = 256;
constexpr int64_t kSwizzleRows = 8;    // after which the swizzle repeats, so where a part may begin
constexpr int64_t kClusterBlocks = 2;  // along an axis: masks of blocks are linear in their coordinates

class Reader {
 public:
  Reader(const Kernel& k, Arena& arena) : k_(k), b_(arena) {}

  Legal<RoleLoop> read(Stmt launch) {
    RoleLoop out;
    out.loop = role_loop(launch);
    const Loop& l = *out.loop;
    const Expr depth = find_annotation(l, AnnotationKey::kPipelineDepth);
    if (as<Loop>(launch) == nullptr || !is_grid(as<Loop>(launch)->axis)) return refuse("a launch of one block");
    TCC_TRY_VOID(read_grid(launch, out));
    if (!reaches(launch, l.id)) return refuse("'" + name(l.id) + "' is not the one loop of its launch");
    if (depth == nullptr || !is_int(depth) || !is_int(l.extent))
      return reject(RejectReason::kNotConstant, "the pipeline of '" + name(l.id) + "'");
    out.steps = int_value(l.extent);
    out.depth = std::min(int_value(depth), out.steps);
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
      share(*copy, out);
      TCC_TRY_VOID(check_box(*copy, launch));
      out.copies.push_back(std::move(*copy));
    }
    if (out.copies.size() != own->buffers.size() || out.work.empty())
      return reject(RejectReason::kBadInstruction,
                    "loop '" + name(l.id) + "' must copy a box of a parameter, as a tensor copy can");
    for (Stmt s : out.work)
      if (!only_products(s)) return refuse("'" + name(l.id) + "' does more than copies and products");
    return out;
  }

 private:
  tl::unexpected<Reject> refuse(const std::string& why) const { return reject(RejectReason::kUnsupported, why); }
  std::string name(Id id) const { return name_hint(k_, id); }

  // Only bound loops, allocations and sequences are around the loop.
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

  Legal<void> read_grid(Stmt launch, RoleLoop& out) const {
    Stmt s = launch;
    for (; as<Loop>(s) != nullptr && is_grid(as<Loop>(s)->axis); s = as<Loop>(s)->body) out.grid.push_back(as<Loop>(s));
    for (; as<Loop>(s) != nullptr && is_cluster(as<Loop>(s)->axis); s = as<Loop>(s)->body)
      (as<Loop>(s)->axis == Axis::kClusterX ? out.cluster_x : out.cluster_y) = as<Loop>(s);
    visit(launch, [&](Stmt c) {
      const Loop* l = as<Loop>(c);
      if (l != nullptr && is_cluster(l->axis) && l != out.cluster_x && l != out.cluster_y) s = nullptr;
      return s != nullptr;
    });
    if (s == nullptr) return refuse("a cluster's loops are not right below the grid");
    for (const Loop* l : {out.cluster_x, out.cluster_y})
      if (l != nullptr && (!is_int(l->extent) || int_value(l->extent) > kClusterBlocks))
        return refuse(fmt::format("a cluster of more than {} blocks along an axis", kClusterBlocks));
    out.walk = analysis::tile_walk(launch);
    if (out.walk.persistent() && (out.grid.size() != 1 || !is_int(out.grid[0]->extent)))
      return refuse("blocks that walk over a grid of several dimensions");
    return {};
  }

  // Blocks along an axis of the cluster that the box does not move with want the same one.
  static void share(BoxCopy& c, const RoleLoop& r) {
    auto sharers = [&](const Loop* l) {
      if (l == nullptr) return int64_t{1};
      bool moves = mentions_any(c.row, {l->id}) || mentions_any(c.column, {l->id});
      for (Expr e : c.lead) moves |= mentions_any(e, {l->id});
      return moves ? int64_t{1} : int_value(l->extent);
    };
    c.sharers_x = sharers(r.cluster_x);
    c.sharers_y = sharers(r.cluster_y);
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
    return std::all_of(conjuncts.begin(), conjuncts.end(),
                       [&](Expr e) { return is_bound(b_, e, load.indices, source.shape, load.indices.size() - 2); });
  }

  Legal<void> check_box(const BoxCopy& c, Stmt launch) {
    const int64_t bytes = type_bytes(c.shared->type);
    auto bad = [&](const std::string& why) {
      return reject(RejectReason::kBadInstruction, "a tensor copy of '" + name(c.source->id) + "': " + why);
    };
    if (c.source->role == BufferRole::kTemp || c.source->layout != nullptr || c.source->type != c.shared->type)
      return bad("it is not a plain parameter of the kernel");
    if (find_tensor_copy(c.shared->type, Scope::kShared) < 0) return bad("no such instruction for its type");
    if (!is_int(c.source->shape.back()) || int_value(c.source->shape.back()) * bytes % kTmaStrideAlign != 0)
      return bad(fmt::format("its rows are not a multiple of {} bytes", kTmaStrideAlign));
    if (c.sharers() > 1 && find_tensor_copy(c.shared->type, Scope::kShared, true) < 0)
      return bad("no such instruction for its type to several blocks");
    if (c.rows % (c.sharers() * kSwizzleRows) != 0)
      return bad(fmt::format("{} blocks share its {} rows, and a part is not a multiple of {}", c.sharers(), c.rows,
                             kSwizzleRows));
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

}  // namespace

bool is_bound(Builder& b, Expr conjunct, std::span<const Expr> indices, std::span<const Expr> shape, size_t from) {
  if (conjunct->kind != ExprKind::kLt && conjunct->kind != ExprKind::kLe) return false;
  Expr left = b.sub(as<Binary>(conjunct)->b, as<Binary>(conjunct)->a);
  if (conjunct->kind == ExprKind::kLe) left = b.offset(left, 1);
  for (size_t d = from; d < indices.size(); ++d)
    if (equal(left, b.sub(shape[d], indices[d]))) return true;
  return false;
}

Legal<RoleLoop> read_role_loop(const Kernel& k, Stmt launch, Arena& arena) {
  return Reader(k, arena).read(launch);
}

}  // namespace tcc::lower
