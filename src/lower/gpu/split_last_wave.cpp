// Of T tiles on P blocks at a time, T mod P are left for a last wave in which most blocks have nothing to do. Their
// sums of N steps are cut into parts, so that more blocks share them (Osama et al., "Stream-K: Work-centric Parallel
// Decomposition for Dense Matrix-Matrix Multiplication on the GPU", PPoPP 2023: "data-parallel" tiles with the last
// wave split; here in equal parts, and added up by a launch of their own, which nobody waits for inside of a launch):
//
//   grid P walkers over T - T mod P { tile; C = f(acc) }
//   grid (r in T mod P, s in S)     { tile T - T mod P + r, steps s N/S .. ; partial[r, s] = acc }
//   grid, threads                   { C = f(sum of partial[r, s] over s) }
#include "lower/gpu/split_last_wave.h"

#include <algorithm>
#include <optional>

#include "lower/gpu/edit.h"
#include "lower/rename.h"
#include "tcc/analysis/roles.h"

namespace tcc::lower {
namespace {

using namespace ir;

constexpr int64_t kMaxThreads = 1024;  // of a block

// The parts that the annotation allows; 0: it is not there.
int64_t wanted_parts(const Loop& l) {
  return annotation_or(l, AnnotationKey::kTreeReduce, 0);
}
// The largest divisor of n up to `most` that leaves loops of two steps at least: a loop of one has no pipeline.
int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n / 2, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

struct Wave {
  const Loop *grid = nullptr, *role = nullptr;
  int64_t full = 0, rest = 0, parts = 1, steps = 0;  // tiles of whole waves and others; steps of a part
  std::vector<const Loop*> bound, nest;              // around the store, below the grid
  std::vector<Expr> conditions;
  const Store* store = nullptr;
  const Load* sum = nullptr;  // of the accumulator, the only one
};

class WaveSplitter {
 public:
  explicit WaveSplitter(Edit& edit) : edit_(edit), b_(edit.b) {}

  Stmt run(Stmt launch) {
    const Loop* role = analysis::role_loop(launch);
    if (role == nullptr || wanted_parts(*role) == 0 || !is_decided(launch)) return launch;
    const std::optional<Wave> wave = read(launch, *role);
    if (!wave) return plain(launch, *role);
    w_ = *wave;
    make_partial();
    Stmt all[3] = {whole(), parts(), sums()};
    return b_.seq(all);
  }
  const std::vector<Id>& partials() const { return partials_; }

 private:
  // The grid and its limit are numbers already.
  static bool is_decided(Stmt launch) {
    bool numbers = true;
    visit(launch, [&](Stmt s) {
      const Loop* l = as<Loop>(s);
      if (l == nullptr || l->loop_kind != LoopKind::kBound) return true;
      numbers &= is_int(l->extent);
      for (const Annotation& a : l->annotations)
        numbers &= a.key != AnnotationKey::kPersistentBlocks || is_int(a.value);
      return numbers;
    });
    return numbers;
  }

  std::optional<Wave> read(Stmt launch, const Loop& role) const {
    Wave w;
    w.grid = as<Loop>(launch);
    w.role = &role;
    const analysis::TileWalk walk = analysis::tile_walk(launch);
    if (w.grid == nullptr || !is_grid(w.grid->axis) || !is_int(w.grid->extent) || !walk.persistent() ||
        int_value(w.grid->extent) != walk.tiles || !is_int(role.extent))
      return std::nullopt;
    w.rest = walk.tiles % walk.clusters;
    w.full = walk.tiles - w.rest;
    w.parts = largest_divisor(int_value(role.extent), wanted_parts(role));
    w.steps = int_value(role.extent) / w.parts;
    if (w.rest == 0 || w.parts < 2) return std::nullopt;
    if (!find_store(w.grid->body, w) || w.store == nullptr || w.nest.empty()) return std::nullopt;
    for (const std::vector<const Loop*>* loops : {&w.bound, &w.nest})
      for (const Loop* l : *loops)
        if (!is_int(l->extent)) return std::nullopt;
    if (int_value(w.nest.back()->extent) > kMaxThreads || !find_sum(w)) return std::nullopt;
    return w;
  }

  // The only store to memory beside those of the loop; false: there are several.
  bool find_store(Stmt s, Wave& w) const {
    if (const Store* store = as<Store>(s)) {
      if (edit_.k.buffer(store->buffer)->scope == Scope::kLocal) return true;
      return std::exchange(w.store, store) == nullptr;
    }
    if (const Loop* l = as<Loop>(s)) {
      if (l->id == w.role->id) return true;
      std::vector<const Loop*>& loops = l->loop_kind == LoopKind::kBound ? w.bound : w.nest;
      const Store* before = w.store;
      loops.push_back(l);
      if (!find_store(l->body, w)) return false;
      if (w.store == before) loops.pop_back();
      return true;
    }
    if (const If* branch = as<If>(s)) {
      const Store* before = w.store;
      if (branch->else_case != nullptr || !find_store(branch->then_case, w)) return false;
      if (w.store != before) w.conditions.push_back(branch->condition);
      return true;
    }
    if (const Alloc* a = as<Alloc>(s)) return find_store(a->body, w);
    if (const Seq* seq = as<Seq>(s))
      return std::all_of(seq->stmts.begin(), seq->stmts.end(), [&](Stmt c) { return find_store(c, w); });
    return false;
  }

  // What is stored depends on one place of the accumulator.
  bool find_sum(Wave& w) const {
    bool one = true;
    visit(w.store->value, [&](Expr e) {
      const Load* l = as<Load>(e);
      if (l == nullptr || edit_.k.buffer(l->buffer)->scope != Scope::kLocal) return true;
      one &= w.sum == nullptr || equal(l, w.sum);
      w.sum = l;
      return false;
    });
    return one && w.sum != nullptr && w.sum->type == Type::kF32 && w.sum->predicate == nullptr;
  }

  Stmt plain(Stmt s, const Loop& role) {
    const Loop* l = as<Loop>(s);
    if (l != nullptr && l->id == role.id)
      return b_.loop(l->id, l->extent, l->body, l->loop_kind, l->axis,
                     without(l->annotations, {AnnotationKey::kTreeReduce}));
    return rewrite_children(b_, s, [&](Stmt c) { return plain(c, role); });
  }

  // [tile, part, bound loops.., place in the accumulator]
  void make_partial() {
    std::vector<Expr> shape = {b_.integer(w_.rest), b_.integer(w_.parts)};
    for (const Loop* l : w_.bound) shape.push_back(l->extent);
    const Buffer& sums = *edit_.k.buffer(w_.sum->buffer);
    shape.insert(shape.end(), sums.shape.begin(), sums.shape.end());
    Buffer fields{};
    fields.id = partial_ = edit_.fresh_named("partial");
    fields.type = Type::kF32;
    fields.scope = Scope::kWorkspace;
    fields.role = BufferRole::kTemp;
    fields.shape = shape;
    fields.alignment = static_cast<int32_t>(type_bytes(fields.type));
    edit_.add_buffer(fields);
    partials_.push_back(partial_);
  }
  std::vector<Expr> place(Expr tile, Expr part, const std::vector<Expr>& around, std::span<const Expr> at) const {
    std::vector<Expr> out = {tile, part};
    out.insert(out.end(), around.begin(), around.end());
    out.insert(out.end(), at.begin(), at.end());
    return out;
  }

  Stmt whole() {
    Stmt body = plain(w_.grid->body, *w_.role);
    return b_.loop(w_.grid->id, b_.integer(w_.full), body, LoopKind::kBound, w_.grid->axis, w_.grid->annotations);
  }

  Stmt parts() {
    const Id block = edit_.fresh(w_.grid->id);
    Expr tile = b_.floor_div(b_.var(block), b_.integer(w_.parts));
    Expr part = b_.floor_mod(b_.var(block), b_.integer(w_.parts));
    std::vector<Expr> around;
    for (const Loop* l : w_.bound) around.push_back(b_.var(l->id));
    auto change = [&](auto&& self, Stmt s) -> Stmt {
      const Loop* l = as<Loop>(s);
      if (l != nullptr && l->id == w_.role->id) {
        Substitution later;
        later.set(l->id, b_.add(b_.var(l->id), b_.scale(part, w_.steps)));
        return b_.loop(l->id, b_.integer(w_.steps), substitute(b_, l->body, later), l->loop_kind, l->axis,
                       without(l->annotations, {AnnotationKey::kTreeReduce}));
      }
      if (s == w_.store) return b_.store(partial_, place(tile, part, around, w_.sum->indices), w_.sum);
      return rewrite_children(b_, s, [&](Stmt c) { return self(self, c); });
    };
    Stmt body = change(change, w_.grid->body);
    Renaming own;
    own.vars.set(w_.grid->id, b_.offset(tile, w_.full));
    visit(body, [&](Stmt s) {
      if (const Loop* l = as<Loop>(s)) own.vars.set(l->id, b_.var(own.ids[l->id] = edit_.fresh(l->id)));
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers) {
          Buffer fields = *edit_.k.buffer(id);
          fields.id = own.ids[id] = edit_.fresh(id);
          edit_.add_buffer(fields);
        }
      return true;
    });
    return b_.loop(block, b_.integer(w_.rest * w_.parts), rename(b_, body, own), LoopKind::kBound, w_.grid->axis,
                   without(w_.grid->annotations, {AnnotationKey::kPersistentBlocks}));
  }

  // One thread for each iteration of the innermost loop of the nest, one block for each of all others.
  Stmt sums() {
    const Id block = edit_.fresh(w_.grid->id), thread = edit_.fresh(w_.nest.back()->id);
    std::vector<const Loop*> loops = w_.bound;
    loops.insert(loops.end(), w_.nest.begin(), w_.nest.end() - 1);
    Renaming here;
    here.vars.set(w_.nest.back()->id, b_.var(thread));
    int64_t stride = 1;
    for (size_t i = loops.size(); i-- > 0; stride *= int_value(loops[i]->extent))
      here.vars.set(loops[i]->id, b_.floor_mod(b_.floor_div(b_.var(block), b_.integer(stride)), loops[i]->extent));
    Expr tile = b_.floor_div(b_.var(block), b_.integer(stride));
    here.vars.set(w_.grid->id, b_.offset(tile, w_.full));
    std::vector<Expr> around;
    for (const Loop* l : w_.bound) around.push_back(here.vars.find(l->id));
    auto summed = [&](auto&& self, Expr e) -> Expr {
      if (!equal(e, w_.sum)) return rewrite_children(b_, e, [&](Expr c) { return self(self, c); });
      std::vector<Expr> at;
      for (Expr i : w_.sum->indices) at.push_back(rename(b_, i, here));
      Expr all = nullptr;
      for (int64_t s = 0; s < w_.parts; ++s) {
        Expr one = b_.load(partial_, Type::kF32, place(tile, b_.integer(s), around, at), nullptr, nullptr);
        all = all == nullptr ? one : b_.add(all, one);
      }
      return all;
    };
    std::vector<Expr> indices;
    for (Expr e : w_.store->indices) indices.push_back(rename(b_, e, here));
    Expr predicate = w_.store->predicate == nullptr ? nullptr : rename(b_, w_.store->predicate, here);
    for (Expr c : w_.conditions) predicate = b_.logical_and(predicate, rename(b_, c, here));
    Stmt body = b_.store(w_.store->buffer, indices, rename(b_, summed(summed, w_.store->value), here), predicate);
    body = b_.loop(thread, w_.nest.back()->extent, body, LoopKind::kBound, Axis::kThreadX);
    return b_.loop(block, b_.integer(w_.rest * stride), body, LoopKind::kBound, Axis::kGridX);
  }

  Edit& edit_;
  Builder& b_;
  Wave w_;
  Id partial_ = kNoId;
  std::vector<Id> partials_;
};

}  // namespace

Kernel split_last_wave(const Kernel& nest, const ArenaPtr& arena) {
  const std::vector<Stmt> launches = launches_of(nest);
  if (std::none_of(launches.begin(), launches.end(), [](Stmt s) { return analysis::role_loop(s) != nullptr; }))
    return nest;
  Edit edit(nest, arena);
  WaveSplitter splitter(edit);
  Stmt root = map_launches(edit, nest.root, [&](Stmt launch) { return splitter.run(launch); });
  edit.k.root = splitter.partials().empty() ? root : edit.b.alloc(splitter.partials(), root);
  return edit.k;
}

}  // namespace tcc::lower
