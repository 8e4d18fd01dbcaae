#include "lower/gpu/distribute_fragments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "lower/gpu/edit.h"
#include "lower/gpu/matrix_loads.h"
#include "tcc/analysis/address.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/support/check.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int32_t kTileAlignment = 128;  // bytes, of shared buffers that whole tiles are moved from and to

class Distributor {
 public:
  Distributor(Edit& edit, const std::map<Id, FragmentOperand>& operands, bool matrix_loads)
      : edit_(edit), b_(edit.b), matrix_loads_(matrix_loads) {
    for (const auto& [id, operand] : operands) fragments_[id] = make_fragment(b_.arena(), operand);
  }

  Legal<Stmt> run(Stmt launch) {
    bool uses = false, warps = false;
    grouped_ = false;
    visit(launch, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers)
          if (auto f = fragments_.find(id); f != fragments_.end()) {
            uses = true;
            (f->second.lanes == kWarpLanes ? warps : grouped_) = true;
          }
      if (const Loop* l = as<Loop>(s); l != nullptr && l->axis == Axis::kThreadX) taken_ = true;
      return true;
    });
    if (!uses) return launch;
    if (warps && grouped_)
      return reject(RejectReason::kUnsupported, "instructions of warps and warpgroups in a launch");
    if (taken_) return reject(RejectReason::kUnsupported, "thread.x is bound, and the lanes of a warp need it");
    Stmt out = below_threads(launch);
    if (!verdict_) return tl::make_unexpected(verdict_.error());
    return out;
  }

  // [.., rows, columns] -> [.., register], the registers of one tile after those of the tile before; of a vector, the
  // same along its dimension.
  void reshape() {
    edit_.map_buffers([&](Buffer& fields) {
      if (tile_buffers_.contains(fields.id)) {
        fields.alignment = std::max<int32_t>(fields.alignment, kTileAlignment);
        return true;
      }
      auto f = fragments_.find(fields.id);
      if (f == fragments_.end()) return false;
      const Fragment& own = f->second;
      std::vector<Expr> shape(fields.shape.begin(), fields.shape.end());
      if (own.is_matrix()) {
        shape.resize(shape.size() - 2);
        shape.push_back(b_.integer(tiles_of(fields, own, 0) * tiles_of(fields, own, 1) * own.registers));
      } else {
        shape[own.dim] = b_.integer(int_value(shape[own.dim]) / own.tile(own.along) * own.registers);
      }
      fields.shape = b_.arena().copy(shape);
      fields.alignment = std::max<int32_t>(fields.alignment, 4);
      return true;
    });
  }

 private:
  static int64_t tiles_of(const Buffer& buffer, const Fragment& f, size_t dim) {
    return int_value(buffer.shape[buffer.shape.size() - 2 + dim]) / f.tile(static_cast<int>(dim));
  }
  // Index of the register that holds the element at `at`, which no lane is to be put into.
  std::vector<Expr> place_of_element(Id buffer, std::span<const Expr> at) {
    const Fragment& f = fragments_[buffer];
    std::vector<Expr> place(at.begin(), at.end());
    Expr zero = b_.integer(0);
    if (!f.is_matrix()) {
      place[f.dim] = register_of(b_, f, f.along == 0 ? at[f.dim] : zero, f.along == 1 ? at[f.dim] : zero, 1);
      return place;
    }
    place.resize(place.size() - 2);
    place.push_back(register_of(b_, f, at[at.size() - 2], at.back(), tiles_of(*edit_.k.buffer(buffer), f, 1)));
    return place;
  }
  // Index of register `reg` of the tile that `at` names by its first row and column.
  std::vector<Expr> place_of(Id buffer, std::span<const Expr> at, Expr reg) {
    const Fragment& f = fragments_[buffer];
    if (!f.is_matrix()) {
      std::vector<Expr> place(at.begin(), at.end());
      place[f.dim] = b_.add(b_.scale(b_.floor_div(at[f.dim], b_.integer(f.tile(f.along))), f.registers), reg);
      return place;
    }
    std::vector<Expr> place(at.begin(), at.end() - 2);
    Expr row = b_.floor_div(at[at.size() - 2], b_.integer(f.spec->tile[0]));
    Expr column = b_.floor_div(at.back(), b_.integer(f.spec->tile[1]));
    Expr tile = b_.add(b_.scale(row, tiles_of(*edit_.k.buffer(buffer), f, 1)), column);
    place.push_back(b_.add(b_.scale(tile, f.registers), reg));
    return place;
  }

  // The loop over lanes goes below the grid and the warps, around the work of one warp; copies of all threads have
  // lanes already.
  Stmt below_threads(Stmt s) {
    if (const Loop* l = as<Loop>(s); l != nullptr && l->loop_kind == LoopKind::kBound && l->axis != Axis::kVthread)
      return b_.with_body(*l, below_threads(l->body));
    if (const Alloc* a = as<Alloc>(s); a != nullptr && all_shared(*a))
      return b_.alloc(a->buffers, below_threads(a->body));
    if (const Seq* seq = as<Seq>(s)) {
      std::vector<Stmt> stmts;
      for (Stmt c : seq->stmts) stmts.push_back(touches(c) ? below_threads(c) : c);
      return b_.seq(stmts);
    }
    lane_ = edit_.fresh_named("lane");
    if (!grouped_) return b_.loop(lane_, b_.integer(kWarpLanes), rewrite(s), LoopKind::kBound, Axis::kThreadX);
    warp_ = edit_.fresh_named("warp");
    Stmt body = b_.loop(lane_, b_.integer(kWarpLanes), rewrite(s), LoopKind::kBound, Axis::kLane);
    return b_.loop(warp_, b_.integer(kGroupWarps), body, LoopKind::kBound, Axis::kWarp);
  }
  bool all_shared(const Alloc& a) const {
    return std::all_of(a.buffers.begin(), a.buffers.end(),
                       [&](Id id) { return edit_.k.buffer(id)->scope == Scope::kShared; });
  }

  Stmt fail(Stmt s, const std::string& why) {
    if (verdict_) verdict_ = reject(RejectReason::kBadInstruction, why);
    return s;
  }

  bool touches(Stmt s) const {
    const Touched t = touched_buffers(s);
    auto is_fragment = [&](Id id) { return fragments_.contains(id); };
    return std::any_of(t.reads.begin(), t.reads.end(), is_fragment) ||
           std::any_of(t.writes.begin(), t.writes.end(), is_fragment);
  }

  Stmt rewrite(Stmt s) {
    if (!verdict_) return s;
    if (const Loop* l = as<Loop>(s)) {
      if (has_annotation(*l, AnnotationKey::kCooperativeFetch)) return s;
      if (!touches(s)) return fail(s, "work beside matrix instructions that no lane has");
      if (std::optional<ElementNest> nest = element_nest(b_, s)) return tiles(s, *nest);
      return written_out(*l, rewrite(l->body));
    }
    if (const InstrCall* call = as<InstrCall>(s)) return instruction_call(*call);
    if (as<Store>(s) != nullptr) return fail(s, "a fragment is touched by elements, not by tiles");
    return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); });
  }

  // The loops of a nest that count within the tiles of the fragment that its lanes' work follows.
  struct Walk {
    const ElementNest& nest;
    Id buffer;                               // the fragment
    std::vector<Expr> at;                    // where the nest touches it
    const Loop* inner[2];                    // nullptr: the fragment is a vector along the other dimension
    std::map<Id, std::vector<Expr>> others;  // further fragments that the nest touches
  };

  // A nest around one store: the loops within a tile become a loop over a lane's registers.
  Stmt tiles(Stmt nest, const ElementNest& parts) {
    Walk w{parts, kNoId, {}, {nullptr, nullptr}, {}};
    if (!find_fragments(parts, w.others) || w.others.empty())
      return fail(nest, "a nest without fragments, or one that reads a fragment at several places");
    auto chosen = w.others.find(parts.store->buffer);
    for (auto f = w.others.begin(); f != w.others.end(); ++f) {
      const bool better =
          chosen == w.others.end() || (fragments_[f->first].is_matrix() && !fragments_[chosen->first].is_matrix());
      if (better) chosen = f;
    }
    w.buffer = chosen->first;
    w.at = chosen->second;
    w.others.erase(chosen);
    const Fragment& f = fragments_[w.buffer];
    for (int d = 0; d < 2; ++d) {
      if (!f.is_matrix() && f.along != d) continue;
      Expr index = f.is_matrix() ? w.at[w.at.size() - 2 + static_cast<size_t>(d)] : w.at[f.dim];
      w.inner[d] = tile_loop(index, f.tile(d), parts.loops);
      if (w.inner[d] == nullptr || (d == 1 && w.inner[1] == w.inner[0]))
        return fail(nest, "'" + name_hint(edit_.k, w.buffer) + "' is not touched by whole tiles");
    }
    if (f.spec->opaque) return opaque(nest, w);
    if (!w.others.empty() || !f.is_matrix()) return together(nest, w);
    if (parts.condition == nullptr && parts.store->buffer == w.buffer)
      if (Stmt load = matrix_load(parts.loops, w.inner, *parts.store, w.at)) return load;
    return registers(w, LoopKind::kVectorized);
  }

  // A fragment whose lanes nobody knows: one value in all elements, or whole tiles from and to shared memory.
  Stmt opaque(Stmt nest, const Walk& w) {
    const Fragment& f = fragments_[w.buffer];
    const Store& store = *w.nest.store;
    const bool load = store.buffer == w.buffer;
    bool one_value = true;
    visit(store.value,
          [&](Expr e) { return one_value = one_value && as<Load>(e) == nullptr && as<Var>(e) == nullptr; });
    const bool plain = w.others.empty() && w.nest.condition == nullptr && store.predicate == nullptr;
    if (load && one_value && plain) return registers(w, LoopKind::kUnrolled);
    const Load* value = as<Load>(store.value);
    const int32_t row = find_tile_move(*f.spec, load);
    if (!plain || row < 0 || value == nullptr || value->predicate != nullptr)
      return fail(nest, "cannot load a fragment from '" + name_hint(edit_.k, w.buffer) +
                            "': expected a constant or a whole tile in shared memory");
    const Id memory = load ? value->buffer : store.buffer;
    const std::span<const Expr> at = load ? value->indices : store.indices;
    const Buffer& shared = *edit_.k.buffer(memory);
    for (size_t d = 0; d < 2; ++d)
      if (shared.scope != Scope::kShared || at.size() < 2 || !moves_by_one(at, at.size() - 2 + d, w.inner[d]->id))
        return fail(nest, "'" + name_hint(edit_.k, memory) + "' is not in shared memory, row by row as the tile is");
    tile_buffers_.insert(memory);
    Substitution first;
    Id tile[2];
    for (int d = 0; d < 2; ++d) {
      tile[d] = edit_.fresh(w.inner[d]->id);
      first.set(w.inner[d]->id, b_.scale(b_.var(tile[d]), f.tile(d)));
    }
    std::vector<Expr> own, theirs;
    for (Expr e : w.at) own.push_back(substitute(b_, e, first));
    for (Expr e : at) theirs.push_back(substitute(b_, e, first));
    const Operand fragment = {w.buffer, b_.arena().copy(place_of(w.buffer, own, b_.integer(0)))};
    const Operand other = {memory, b_.arena().copy(theirs)};
    const Operand operands[2] = {load ? fragment : other, load ? other : fragment};
    Stmt body = b_.instr(row, operands, {});
    for (int d = 2; d-- > 0;)
      body = b_.loop(tile[d], b_.integer(int_value(w.inner[d]->extent) / f.tile(d)), body, LoopKind::kUnrolled);
    return outer_loops(w, body);
  }
  // The loop counts along dimension `dim` and no other.
  bool moves_by_one(std::span<const Expr> at, size_t dim, Id loop) {
    for (size_t d = 0; d < at.size(); ++d) {
      Expr rest = d == dim ? b_.sub(at[d], b_.var(loop)) : at[d];
      if (mentions_any(rest, {loop})) return false;
    }
    return mentions_any(at[dim], {loop});
  }
  // The loops of the nest that do not count within tiles, around a new body.
  Stmt outer_loops(const Walk& w, Stmt body) {
    for (size_t i = w.nest.loops.size(); i-- > 0;)
      if (const Loop* l = w.nest.loops[i]; l != w.inner[0] && l != w.inner[1]) body = written_out(*l, body);
    return body;
  }

  // The fragments that a nest touches, each at one place.
  bool find_fragments(const ElementNest& nest, std::map<Id, std::vector<Expr>>& found) const {
    bool one = true;
    auto note = [&](Id id, std::span<const Expr> indices) {
      if (!fragments_.contains(id)) return;
      auto [at, fresh] = found.emplace(id, std::vector<Expr>(indices.begin(), indices.end()));
      one &= fresh || equal(at->second, indices);
    };
    note(nest.store->buffer, nest.store->indices);
    visit_loads(nest.store, [&](const Load& l) { note(l.buffer, l.indices); });
    return one;
  }

  // Several fragments: the elements that a lane needs of the others are in its own registers, or the nest combines the
  // elements of rows, or columns, into a vector.
  Stmt together(Stmt nest, const Walk& w) {
    const Fragment& f = fragments_[w.buffer];
    if (f.lanes != kWarpLanes) return fail(nest, "several fragments of a warpgroup in a nest");
    for (const auto& [id, at] : w.others)
      if (!same_lanes(f, fragments_[id]))
        return fail(nest, fmt::format("lanes hold other elements of '{}' than of '{}'", name_hint(edit_.k, id),
                                      name_hint(edit_.k, w.buffer)));
    const bool stays = fragments_.contains(w.nest.store->buffer);
    if (!stays && !f.is_matrix()) return fail(nest, "several lanes hold what leaves them");
    if (stays && f.is_matrix() && !fragments_[w.nest.store->buffer].is_matrix()) return combine(nest, w);
    return registers(w, stays ? LoopKind::kUnrolled : LoopKind::kVectorized);
  }

  // V[r] = V[r] op X[r, c], for all c: first among a lane's registers, then among the lanes that share the row.
  Stmt combine(Stmt nest, const Walk& w) {
    const Store& store = *w.nest.store;
    const Fragment& f = fragments_[w.buffer];
    const Fragment& vector = fragments_[store.buffer];
    const Loop* reduced = w.inner[1 - vector.along];
    const bool tree = has_annotation(*reduced, AnnotationKey::kTreeReduce);
    if (!tree) return fail(nest, "lanes share a row, and no annotation (tree_reduce) allows to combine their parts");
    const Binary* op = combiner(store);
    const int32_t shuffle = find_shuffle(store.value->type);
    if (op == nullptr || shuffle < 0) return fail(nest, "rows of a fragment are combined in an unknown way");
    const Load* old = as<Load>(op->a);
    const bool first = old != nullptr && old->buffer == store.buffer;
    Expr term = first ? op->b : op->a;
    const int64_t size = int_value(edit_.k.buffer(store.buffer)->shape[vector.dim]) / vector.tile(vector.along);
    Expr count = b_.integer(size * vector.registers);
    const Id part = own_buffer(store, count), theirs = own_buffer(store, b_.integer(1));
    fragments_[part] = vector;
    fragments_[part].dim = 0;
    const Expr at[1] = {w.others.at(store.buffer)[vector.dim]};
    const Stmt added = b_.store(part, at, b_.binary(op->kind, b_.load(part, term->type, at, nullptr, nullptr), term));
    ElementNest inner = w.nest;
    inner.store = as<Store>(added);
    Walk parts{inner, w.buffer, w.at, {w.inner[0], w.inner[1]}, w.others};
    parts.others.erase(store.buffer);
    parts.others[part] = {at[0]};
    std::vector<Stmt> steps = {
        for_each(count,
                 [&](Expr i) { return b_.store(part, std::span<const Expr>(&i, 1), identity(op->kind, term->type)); }),
        registers(parts, LoopKind::kUnrolled)};
    fragments_.erase(part);
    const std::vector<Expr> zero = {b_.integer(0)};
    for (int64_t distance : lane_distances(f, 1 - vector.along))
      steps.push_back(for_each(count, [&](Expr i) {
        const Operand operands[2] = {{theirs, b_.arena().copy(zero)}, {part, b_.arena().copy(std::vector{i})}};
        const Expr args[3] = {b_.integer(kButterfly), b_.integer(distance), b_.integer(kWarpLanes)};
        const std::span<const Expr> mine(&i, 1);
        const Stmt both[2] = {b_.instr(shuffle, operands, args),
                              b_.store(part, mine,
                                       b_.binary(op->kind, b_.load(part, term->type, mine, nullptr, nullptr),
                                                 b_.load(theirs, term->type, zero, nullptr, nullptr)))};
        return b_.seq(both);
      }));
    steps.push_back(for_each(count, [&](Expr i) {
      std::vector<Expr> all(w.others.at(store.buffer));
      all[vector.dim] = i;
      return b_.store(store.buffer, all,
                      b_.binary(op->kind, b_.load(store.buffer, term->type, all, nullptr, nullptr),
                                b_.load(part, term->type, std::span<const Expr>(&i, 1), nullptr, nullptr)));
    }));
    return b_.alloc(std::vector{part, theirs}, b_.seq(steps));
  }

  // x op y of a store that is a sum, product, maximum or minimum with the element itself.
  static const Binary* combiner(const Store& store) {
    const ExprKind kind = store.value->kind;
    if (kind != ExprKind::kAdd && kind != ExprKind::kMul && kind != ExprKind::kMax && kind != ExprKind::kMin)
      return nullptr;
    const Binary* op = as<Binary>(store.value);
    int own = 0;
    visit(store.value, [&](Expr e) {
      if (const Load* l = as<Load>(e)) own += l->buffer == store.buffer ? 1 : 0;
      return true;
    });
    for (Expr side : {op->a, op->b})
      if (const Load* l = as<Load>(side); l != nullptr && l->buffer == store.buffer && l->predicate == nullptr)
        return own == 1 && store.predicate == nullptr ? op : nullptr;
    return nullptr;
  }
  Expr identity(ExprKind kind, Type type) {
    if (kind == ExprKind::kAdd || kind == ExprKind::kMul) return b_.constant(kind == ExprKind::kMul ? 1 : 0, type);
    const double most = is_float(type) ? std::numeric_limits<double>::infinity()
                                       : static_cast<double>(std::numeric_limits<int32_t>::max());
    return b_.constant(kind == ExprKind::kMax ? -most : most, type);
  }
  Stmt for_each(Expr count, FunctionRef<Stmt(Expr)> body) {
    const Id i = edit_.fresh_named("r");
    return b_.loop(i, count, body(b_.var(i)), LoopKind::kUnrolled);
  }
  Id own_buffer(const Store& like, Expr size) {
    Buffer fields{};
    fields.id = edit_.fresh(like.buffer);
    fields.type = like.value->type;
    fields.scope = Scope::kLocal;
    fields.role = BufferRole::kTemp;
    fields.shape = std::span<const Expr>(&size, 1);
    fields.alignment = static_cast<int32_t>(type_bytes(fields.type));
    edit_.add_buffer(fields);
    return fields.id;
  }

  // A fragment filled with a tile of shared memory, by ldmatrix; nullptr: not of that form.
  Stmt matrix_load(const std::vector<const Loop*>& loops, const Loop* const (&inner)[2], const Store& store,
                   const std::vector<Expr>& at) {
    const Load* load = as<Load>(store.value);
    if (!matrix_loads_ || store.predicate != nullptr || load == nullptr || load->predicate != nullptr) return nullptr;
    const Buffer& source = *edit_.k.buffer(load->buffer);
    const Fragment& f = fragments_[store.buffer];
    if (source.scope != Scope::kShared || source.type != f.spec->type) return nullptr;
    int contiguous = -1;
    for (int d = 0; d < 2; ++d) {
      int found = -1;
      for (size_t i = 0; i < load->indices.size(); ++i) {
        if (!mentions_any(load->indices[i], {inner[d]->id})) continue;
        if (found >= 0 || mentions_any(b_.sub(load->indices[i], b_.var(inner[d]->id)), {inner[d]->id})) return nullptr;
        found = static_cast<int>(i);
      }
      if (found < 0) return nullptr;
      if (found + 1 == static_cast<int>(load->indices.size())) contiguous = contiguous < 0 ? d : 2;
    }
    if (contiguous < 0 || contiguous > 1) return nullptr;
    const Buffer& target = *edit_.k.buffer(store.buffer);
    int64_t count[2];
    for (int d = 0; d < 2; ++d) count[d] = int_value(inner[d]->extent) / f.spec->tile[d];
    // Tiles of a row follow each other in a lane's registers, and rows do where they are one tile long.
    const int next = tiles_of(target, f, 1) == 1 ? 0 : 1;
    const std::optional<MatrixLoad> plan = plan_matrix_load(*f.layout, source.type, contiguous, next, count[next]);
    if (!plan) return nullptr;
    Expr matrix[2] = {b_.floor_mod(b_.floor_div(b_.var(lane_), b_.integer(8)), b_.integer(2)),
                      b_.floor_div(b_.var(lane_), b_.integer(16))};
    Substitution first, mine;
    Id tile[2];
    for (int d = 0; d < 2; ++d) {
      tile[d] = edit_.fresh(inner[d]->id);
      if (next == d) count[d] /= plan->tiles;
      Expr start = b_.scale(b_.var(tile[d]), f.spec->tile[d] * (next == d ? plan->tiles : 1)), place = start;
      for (int bit = 0; bit < 2; ++bit) place = b_.add(place, b_.scale(matrix[bit], plan->offset[bit][d]));
      if (d == plan->rows) place = b_.add(place, b_.floor_mod(b_.var(lane_), b_.integer(8)));
      first.set(inner[d]->id, start);
      mine.set(inner[d]->id, place);
    }
    std::vector<Expr> to, from;
    for (Expr e : at) to.push_back(substitute(b_, e, first));
    for (Expr e : load->indices) from.push_back(substitute(b_, e, mine));
    const int64_t aligned = analysis::known_divisor(edit_.k, analysis::flat_address(b_, source, from));
    if (aligned * type_bytes(source.type) % 16 != 0) return nullptr;
    const Operand operands[2] = {{store.buffer, b_.arena().copy(place_of(store.buffer, to, b_.integer(0)))},
                                 {load->buffer, b_.arena().copy(from)}};
    Stmt body = b_.instr(plan->row, operands, {});
    for (int d = 2; d-- > 0;) body = b_.loop(tile[d], b_.integer(count[d]), body, LoopKind::kUnrolled);
    for (size_t i = loops.size(); i-- > 0;)
      if (loops[i] != inner[0] && loops[i] != inner[1]) body = written_out(*loops[i], body);
    return body;
  }

  // The nest over the lanes' registers of the fragment that the walk follows; `kind`: of the loop over registers whose
  // elements are neighbors.
  Stmt registers(const Walk& w, LoopKind kind) {
    const Fragment& f = fragments_[w.buffer];
    const int64_t run = contiguous(f);
    const Id outer = edit_.fresh_named("e"), element = edit_.fresh_named("r");
    Expr reg = b_.add(b_.scale(b_.var(outer), run), b_.var(element));
    Expr warp = grouped_ ? b_.var(warp_) : b_.integer(0), zero = b_.integer(0);
    Substitution within, first, alike;  // the lane's element, the first of its tile, and that of lane 0
    std::vector<std::pair<Id, Expr>> loops;
    for (int d = 0; d < 2; ++d) {
      if (w.inner[d] == nullptr) continue;
      const Id tile = edit_.fresh(w.inner[d]->id);
      Expr start = b_.scale(b_.var(tile), f.tile(d));
      within.set(w.inner[d]->id, b_.add(start, coordinate(b_, *f.layout, d, warp, b_.var(lane_), reg)));
      alike.set(w.inner[d]->id, b_.add(start, coordinate(b_, *f.layout, d, zero, zero, reg)));
      first.set(w.inner[d]->id, start);
      loops.emplace_back(tile, b_.integer(int_value(w.inner[d]->extent) / f.tile(d)));
    }
    auto put = [&](const std::vector<Expr>& at, const Substitution& values) {
      std::vector<Expr> out;
      for (Expr e : at) out.push_back(substitute(b_, e, values));
      return out;
    };
    std::map<Id, std::vector<Expr>> places;
    places[w.buffer] = place_of(w.buffer, put(w.at, first), reg);
    for (const auto& [id, at] : w.others) {
      const Fragment& other = fragments_[id];
      const bool same = f.along == other.along && equal(*f.layout, *other.layout);
      places[id] = same ? place_of(id, put(at, first), reg) : place_of_element(id, put(at, alike));
    }
    // The fragments' own index lists are put in after the substitution, which would spoil them.
    Stmt body = substitute(b_, w.nest.store, within);
    body = reindex(b_, body, [&](Id id, std::vector<Expr>& indices) {
      auto place = places.find(id);
      if (place == places.end()) return false;
      indices = place->second;
      return true;
    });
    if (w.nest.condition != nullptr) body = b_.if_then(substitute(b_, w.nest.condition, within), body);
    body = b_.loop(element, b_.integer(run), body, kind);
    body = b_.loop(outer, b_.integer(f.registers / run), body, LoopKind::kUnrolled);
    for (size_t i = loops.size(); i-- > 0;) body = b_.loop(loops[i].first, loops[i].second, body, LoopKind::kUnrolled);
    return outer_loops(w, body);
  }

  // The loop with a new body; unrolled where it chooses among fragments, because registers have no addresses.
  Stmt written_out(const Loop& l, Stmt body) {
    bool chooses = false;
    auto look = [&](Id id, std::span<const Expr> indices) {
      if (!fragments_.contains(id)) return;
      for (Expr i : indices) chooses |= mentions_any(i, {l.id});
    };
    visit(body, [&](Stmt s) {
      if (const Store* store = as<Store>(s)) look(store->buffer, store->indices);
      if (const InstrCall* call = as<InstrCall>(s))
        for (const Operand& o : call->operands) look(o.buffer, o.indices);
      return true;
    });
    visit_loads(body, [&](const Load& load) { look(load.buffer, load.indices); });
    if (!chooses || l.loop_kind != LoopKind::kSerial || !is_int(l.extent)) return b_.with_body(l, body);
    return b_.loop(l.id, l.extent, body, LoopKind::kUnrolled, Axis::kNone, l.annotations);
  }

  static int64_t contiguous(const Fragment& f) {
    for (const Digit& d : f.layout->digits)
      if (d.dim == 1 && d.divisor == 1 && d.place == Place::kRegister && d.stride == 1) return d.extent;
    return 1;
  }

  Stmt instruction_call(const InstrCall& call) {
    std::vector<Operand> operands;
    for (const Operand& o : call.operands) {
      auto f = fragments_.find(o.buffer);
      if (f == fragments_.end()) {
        operands.push_back(o);
        continue;
      }
      const size_t lead = o.indices.size() - 2;
      for (size_t d = 0; d < 2; ++d)
        if (!is_multiple(o.indices[lead + d], f->second.tile(static_cast<int>(d))))
          fail(&call, "an operand does not start at a tile");
      operands.push_back({o.buffer, b_.arena().copy(place_of(o.buffer, o.indices, b_.integer(0)))});
    }
    return b_.instr(call.instr, operands, call.args, call.predicate);
  }
  static bool is_multiple(Expr e, int64_t n) {
    if (is_int(e)) return int_value(e) % n == 0;
    const Sum* sum = as<Sum>(e);
    if (sum == nullptr) return n == 1;
    bool all = sum->constant % n == 0;
    for (const Term& t : sum->terms) all &= t.coefficient % n == 0;
    return all;
  }

  Edit& edit_;
  Builder& b_;
  std::map<Id, Fragment> fragments_;
  std::set<Id> tile_buffers_;  // in shared memory, of opaque fragments
  bool matrix_loads_;
  Id lane_ = kNoId, warp_ = kNoId;
  bool taken_ = false, grouped_ = false;
  Legal<void> verdict_ = {};
};

}  // namespace

Legal<Kernel> distribute_fragments(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  const std::map<Id, FragmentOperand> operands = fragment_buffers(kernel);
  if (operands.empty()) return kernel;
  for (const auto& [id, operand] : operands) {
    const Buffer& buffer = *kernel.buffer(id);
    for (size_t d = 0; d < 2; ++d) {
      if (operand.along >= 0 && operand.along != static_cast<int>(d)) continue;
      Expr extent = buffer.shape[operand.along >= 0 ? operand.dim : buffer.shape.size() - 2 + d];
      if (!is_int(extent) || int_value(extent) % operand.spec->tile[d] != 0)
        return reject(RejectReason::kBadInstruction, "'" + name_hint(kernel, id) + "' is not made of whole tiles");
    }
  }
  Edit edit(kernel, arena);
  Distributor distributor(edit, operands, target.cuda.features.ldmatrix);
  TCC_TRY(edit.k.root, map_legal_launches(edit, kernel.root, [&](Stmt launch) { return distributor.run(launch); }));
  distributor.reshape();
  return edit.k;
}

}  // namespace tcc::lower
