#include "lower/gpu/distribute_fragments.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "lower/gpu/matrix_loads.h"
#include "tcc/analysis/address.h"
#include "tcc/support/check.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int64_t kLanes = 32;
constexpr int64_t kGroupWarps = 4;  // of a warpgroup

struct Fragment {
  const OperandSpec* spec = nullptr;
  const Layout* layout = nullptr;
  int64_t lanes = kLanes;  // of a warp or a warpgroup
  int64_t registers = 1;   // of a lane, for one tile
};

// Coordinate `dim` of the element that register `reg` of lane `lane` of warp `warp` holds: the digits of the layout,
// read backwards.
Expr coordinate(Builder& b, const Layout& layout, int dim, Expr warp, Expr lane, Expr reg) {
  Expr out = b.integer(0);
  for (const Digit& d : layout.digits) {
    if (d.dim != dim) continue;
    Expr place = b.floor_div(d.place == Place::kRegister ? reg
                             : d.place == Place::kWarp   ? warp
                                                         : lane,
                             b.integer(d.stride));
    out = b.add(out, b.scale(b.floor_mod(place, b.integer(d.extent)), d.divisor));
  }
  return out;
}

// `index` as a multiple of `tile` plus a loop that counts within tiles; nullptr: another form.
const Loop* tile_loop(Expr index, int64_t tile, const std::vector<const Loop*>& loops) {
  auto find = [&](Expr atom) -> const Loop* {
    const Var* v = as<Var>(atom);
    for (const Loop* l : loops)
      if (v != nullptr && l->id == v->id && is_int(l->extent) && int_value(l->extent) % tile == 0 &&
          l->loop_kind != LoopKind::kBound)
        return l;
    return nullptr;
  };
  if (const Loop* l = find(index)) return l;
  const Sum* sum = as<Sum>(index);
  if (sum == nullptr || sum->constant % tile != 0) return nullptr;
  const Loop* found = nullptr;
  for (const Term& t : sum->terms) {
    if (t.coefficient % tile == 0) continue;
    if (t.coefficient != 1 || found != nullptr) return nullptr;
    found = find(t.atom);
    if (found == nullptr) return nullptr;
  }
  return found;
}

class Distributor {
 public:
  Distributor(Edit& edit, const std::map<Id, FragmentOperand>& operands, bool matrix_loads)
      : edit_(edit), b_(edit.b), matrix_loads_(matrix_loads) {
    for (const auto& [id, operand] : operands) {
      Fragment f{operand.spec, nullptr, operand.lanes};
      auto layout = parse_layout(b_.arena(), operand.spec->layout);
      TCC_CHECK(layout.has_value(), "layout {}", operand.spec->layout);
      f.layout = *layout;
      for (const Digit& d : f.layout->digits)
        if (d.place == Place::kRegister) f.registers *= d.extent;
      fragments_[id] = f;
    }
  }

  Legal<Stmt> run(Stmt launch) {
    bool uses = false, warps = false;
    grouped_ = false;
    visit(launch, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers)
          if (auto f = fragments_.find(id); f != fragments_.end()) {
            uses = true;
            (f->second.lanes == kLanes ? warps : grouped_) = true;
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

  // [.., rows, columns] -> [.., register], the registers of one tile after those of the tile before.
  void reshape() {
    edit_.map_buffers([&](Buffer& fields) {
      auto f = fragments_.find(fields.id);
      if (f == fragments_.end()) return false;
      std::vector<Expr> shape(fields.shape.begin(), fields.shape.end() - 2);
      shape.push_back(
          b_.integer(tiles_of(fields, f->second, 0) * tiles_of(fields, f->second, 1) * f->second.registers));
      fields.shape = b_.arena().copy(shape);
      fields.alignment = std::max<int32_t>(fields.alignment, 4);
      return true;
    });
  }

 private:
  static int64_t tiles_of(const Buffer& buffer, const Fragment& f, size_t dim) {
    return int_value(buffer.shape[buffer.shape.size() - 2 + dim]) / f.spec->tile[dim];
  }
  // Index of register `reg` of the tile that `at` names by its first row and column.
  std::vector<Expr> place_of(Id buffer, std::span<const Expr> at, Expr reg) {
    const Fragment& f = fragments_[buffer];
    std::vector<Expr> place(at.begin(), at.end() - 2);
    Expr row = b_.floor_div(at[at.size() - 2], b_.integer(f.spec->tile[0]));
    Expr column = b_.floor_div(at.back(), b_.integer(f.spec->tile[1]));
    Expr tile = b_.add(b_.scale(row, tiles_of(*edit_.k.buffer(buffer), f, 1)), column);
    place.push_back(b_.add(b_.scale(tile, f.registers), reg));
    return place;
  }

  // The lanes stand where the grid and the warps end, and what the block shares: copies of all threads have theirs.
  Stmt below_threads(Stmt s) {
    if (const Loop* l = as<Loop>(s); l != nullptr && (is_grid(l->axis) || is_thread(l->axis)))
      return b_.with_body(*l, below_threads(l->body));
    if (const Alloc* a = as<Alloc>(s); a != nullptr && all_shared(*a))
      return b_.alloc(a->buffers, below_threads(a->body));
    if (const Seq* seq = as<Seq>(s)) {
      std::vector<Stmt> stmts;
      for (Stmt c : seq->stmts) stmts.push_back(touches(c) ? below_threads(c) : c);
      return b_.seq(stmts);
    }
    lane_ = edit_.fresh_named("lane");
    if (!grouped_) return b_.loop(lane_, b_.integer(kLanes), rewrite(s), LoopKind::kBound, Axis::kThreadX);
    warp_ = edit_.fresh_named("warp");
    Stmt body = b_.loop(lane_, b_.integer(kLanes), rewrite(s), LoopKind::kBound, Axis::kLane);
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

  static bool is_copy(const Loop& l) {
    return std::any_of(l.annotations.begin(), l.annotations.end(),
                       [](const Annotation& a) { return a.key == AnnotationKey::kCooperativeFetch; });
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
      if (is_copy(*l)) return s;
      if (!touches(s)) return fail(s, "work beside matrix instructions that no lane has");
      if (single_store(l->body) != nullptr) return tiles(s);
      return written_out(*l, rewrite(l->body));
    }
    if (const InstrCall* call = as<InstrCall>(s)) return instruction_call(*call);
    if (as<Store>(s) != nullptr) return fail(s, "a fragment is touched by elements, not by tiles");
    return rewrite_children(b_, s, [&](Stmt c) { return rewrite(c); }, [](Expr e) { return e; });
  }

  // The store that a nest of loops and conditions holds; nullptr: several statements.
  static const Store* single_store(Stmt s) {
    while (true) {
      if (const Loop* l = as<Loop>(s))
        s = l->body;
      else if (const If* i = as<If>(s); i != nullptr && i->else_case == nullptr)
        s = i->then_case;
      else
        return as<Store>(s);
    }
  }

  // A nest around one store: the loops within a tile become a loop over a lane's registers.
  Stmt tiles(Stmt nest) {
    std::vector<const Loop*> loops;
    Expr condition = nullptr;
    Stmt s = nest;
    while (as<Store>(s) == nullptr) {
      if (const Loop* l = as<Loop>(s)) {
        loops.push_back(l);
        s = l->body;
      } else {
        condition = b_.logical_and(condition, as<If>(s)->condition);
        s = as<If>(s)->then_case;
      }
    }
    Id buffer = kNoId;
    std::vector<Expr> at;
    bool one = true;
    auto note = [&](Id id, std::span<const Expr> indices) {
      if (!fragments_.contains(id)) return;
      one &= buffer == kNoId || (buffer == id && std::equal(at.begin(), at.end(), indices.begin(), indices.end(),
                                                            [](Expr x, Expr y) { return equal(x, y); }));
      buffer = id;
      at.assign(indices.begin(), indices.end());
    };
    note(as<Store>(s)->buffer, as<Store>(s)->indices);
    visit_roots(s, [&](Expr root) {
      visit(root, [&](Expr e) {
        if (const Load* l = as<Load>(e)) note(l->buffer, l->indices);
        return true;
      });
    });
    if (!one || buffer == kNoId || at.size() < 2) return fail(nest, "a nest with several fragments, or with none");
    const Fragment& f = fragments_[buffer];
    const Loop* inner[2];
    for (size_t d = 0; d < 2; ++d) {
      inner[d] = tile_loop(at[at.size() - 2 + d], f.spec->tile[d], loops);
      if (inner[d] == nullptr || (d == 1 && inner[1] == inner[0]))
        return fail(nest, "'" + name_hint(edit_.k, buffer) + "' is not touched by whole tiles");
    }
    if (condition == nullptr && as<Store>(s)->buffer == buffer)
      if (Stmt load = matrix_load(loops, inner, *as<Store>(s), at)) return load;
    return registers(loops, inner, condition, *as<Store>(s), buffer, at);
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

  Stmt registers(const std::vector<const Loop*>& loops, const Loop* const (&inner)[2], Expr condition,
                 const Store& store, Id buffer, const std::vector<Expr>& at) {
    const Fragment& f = fragments_[buffer];
    const int64_t run = contiguous(f);  // registers whose elements are neighbours in a row
    const Id outer = edit_.fresh_named("e"), element = edit_.fresh_named("r");
    Expr reg = b_.add(b_.scale(b_.var(outer), run), b_.var(element));
    Substitution within;
    std::vector<Expr> starts(at.begin(), at.end());
    Id tile[2];
    for (int d = 0; d < 2; ++d) {
      const int64_t size = f.spec->tile[d];
      tile[d] = edit_.fresh(inner[d]->id);
      Expr start = b_.scale(b_.var(tile[d]), size);
      Expr warp = grouped_ ? b_.var(warp_) : b_.integer(0);
      within.set(inner[d]->id, b_.add(start, coordinate(b_, *f.layout, d, warp, b_.var(lane_), reg)));
      Substitution first;
      first.set(inner[d]->id, start);
      Expr& index = starts[at.size() - 2 + static_cast<size_t>(d)];
      index = substitute(b_, index, first);
    }
    const std::vector<Expr> place = place_of(buffer, starts, reg);
    // The fragment's own index list is put in after the substitution, which would spoil it.
    Stmt body = substitute(b_, &store, within);
    body = reindex(b_, body, [&](Id id, std::vector<Expr>& indices) {
      if (id != buffer) return false;
      indices = place;
      return true;
    });
    if (condition != nullptr) body = b_.if_then(substitute(b_, condition, within), body);
    body = b_.loop(element, b_.integer(run), body, LoopKind::kVectorized);
    body = b_.loop(outer, b_.integer(f.registers / run), body, LoopKind::kUnrolled);
    for (int d = 2; d-- > 0;)
      body = b_.loop(tile[d], b_.integer(int_value(inner[d]->extent) / f.spec->tile[d]), body, LoopKind::kUnrolled);
    for (size_t i = loops.size(); i-- > 0;)
      if (loops[i] != inner[0] && loops[i] != inner[1]) body = written_out(*loops[i], body);
    return body;
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
    visit_roots(body, [&](Expr root) {
      visit(root, [&](Expr e) {
        if (const Load* load = as<Load>(e)) look(load->buffer, load->indices);
        return true;
      });
    });
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
        if (!is_multiple(o.indices[lead + d], f->second.spec->tile[d]))
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
  bool matrix_loads_;
  Id lane_ = kNoId, warp_ = kNoId;
  bool taken_ = false, grouped_ = false;
  Legal<void> verdict_ = {};
};

}  // namespace

std::map<Id, FragmentOperand> fragment_buffers(const Kernel& nest) {
  std::map<Id, FragmentOperand> out;
  visit(nest.root, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    if (call == nullptr) return true;
    const Instruction& row = instruction(call->instr);
    if (row.participants != Participants::kWarp && row.participants != Participants::kWarpgroup) return false;
    const int64_t lanes = row.participants == Participants::kWarp ? kLanes : kGroupWarps * kLanes;
    for (size_t i = 0; i < call->operands.size(); ++i)
      if (!row.operands[i].layout.empty() && row.operands[i].scope == Scope::kLocal && row.operands[i].rank == 2)
        out.emplace(call->operands[i].buffer, FragmentOperand{&row.operands[i], lanes});
    return false;
  });
  return out;
}

Legal<Kernel> distribute_fragments(const Kernel& kernel, const target::Target& target, const ArenaPtr& arena) {
  const std::map<Id, FragmentOperand> operands = fragment_buffers(kernel);
  if (operands.empty()) return kernel;
  for (const auto& [id, operand] : operands) {
    const Buffer& buffer = *kernel.buffer(id);
    const size_t lead = buffer.shape.size() - 2;
    for (size_t d = 0; d < 2; ++d)
      if (!is_int(buffer.shape[lead + d]) || int_value(buffer.shape[lead + d]) % operand.spec->tile[d] != 0)
        return reject(RejectReason::kBadInstruction, "'" + name_hint(kernel, id) + "' is not made of whole tiles");
  }
  Edit edit(kernel, arena);
  Distributor distributor(edit, operands, target.cuda.features.ldmatrix);
  Legal<Stmt> root = map_legal_launches(edit, kernel.root, [&](Stmt launch) { return distributor.run(launch); });
  if (!root) return tl::make_unexpected(root.error());
  edit.k.root = *root;
  distributor.reshape();
  return edit.k;
}

}  // namespace tcc::lower
