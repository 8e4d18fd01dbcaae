#include "lower/gpu/distribute_fragments.h"

#include <algorithm>

#include "lower/gpu/edit.h"
#include "tcc/support/check.h"

namespace tcc::lower {

using namespace ir;

namespace {

constexpr int64_t kLanes = 32;

struct Fragment {
  const OperandSpec* spec = nullptr;
  const Layout* layout = nullptr;
  int64_t registers = 1;  // of a lane, for one tile
};

// Coordinate `dim` of the element that register `reg` of lane `lane` holds: the digits of the layout, read backwards.
Expr coordinate(Builder& b, const Layout& layout, int dim, Expr lane, Expr reg) {
  Expr out = b.integer(0);
  for (const Digit& d : layout.digits) {
    if (d.dim != dim) continue;
    Expr place = b.floor_div(d.place == Place::kRegister ? reg : lane, b.integer(d.stride));
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
  Distributor(Edit& edit, const std::map<Id, const OperandSpec*>& specs) : edit_(edit), b_(edit.b) {
    for (const auto& [id, spec] : specs) {
      Fragment f{spec, nullptr, 1};
      auto layout = parse_layout(b_.arena(), spec->layout);
      TCC_CHECK(layout.has_value(), "layout {}", spec->layout);
      f.layout = *layout;
      for (const Digit& d : f.layout->digits)
        if (d.place == Place::kRegister) f.registers *= d.extent;
      fragments_[id] = f;
    }
  }

  Legal<Stmt> run(Stmt launch) {
    bool uses = false;
    visit(launch, [&](Stmt s) {
      if (const Alloc* a = as<Alloc>(s))
        for (Id id : a->buffers) uses |= fragments_.contains(id);
      if (const Loop* l = as<Loop>(s); l != nullptr && l->axis == Axis::kThreadX) taken_ = true;
      return true;
    });
    if (!uses) return launch;
    if (taken_) return reject(RejectReason::kUnsupported, "thread.x is bound, and the lanes of a warp need it");
    lane_ = edit_.fresh_named("lane");
    Stmt out = below_threads(launch);
    if (!verdict_) return tl::make_unexpected(verdict_.error());
    return out;
  }

  // [.., rows, columns] -> [.., tile row, tile column, register].
  void reshape() {
    edit_.map_buffers([&](Buffer& fields) {
      auto f = fragments_.find(fields.id);
      if (f == fragments_.end()) return false;
      std::vector<Expr> shape(fields.shape.begin(), fields.shape.end());
      const size_t lead = shape.size() - 2;
      for (size_t d = 0; d < 2; ++d) shape[lead + d] = b_.integer(int_value(shape[lead + d]) / f->second.spec->tile[d]);
      shape.push_back(b_.integer(f->second.registers));
      fields.shape = b_.arena().copy(shape);
      fields.alignment = std::max<int32_t>(fields.alignment, 4);
      return true;
    });
  }

 private:
  // The lanes stand where the grid and the warps end.
  Stmt below_threads(Stmt s) {
    if (const Loop* l = as<Loop>(s); l != nullptr && (is_grid(l->axis) || is_thread(l->axis)))
      return b_.with_body(*l, below_threads(l->body));
    return b_.loop(lane_, b_.integer(kLanes), rewrite(s), LoopKind::kBound, Axis::kThreadX);
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
    return registers(loops, inner, condition, *as<Store>(s), buffer, at);
  }

  Stmt registers(const std::vector<const Loop*>& loops, const Loop* const (&inner)[2], Expr condition,
                 const Store& store, Id buffer, const std::vector<Expr>& at) {
    const Fragment& f = fragments_[buffer];
    const int64_t run = contiguous(f);  // registers whose elements are neighbours in a row
    const Id outer = edit_.fresh_named("e"), element = edit_.fresh_named("r");
    Expr reg = b_.add(b_.scale(b_.var(outer), run), b_.var(element));
    Substitution within;
    std::vector<Expr> place(at.begin(), at.end() - 2);
    Id tile[2];
    for (int d = 0; d < 2; ++d) {
      const int64_t size = f.spec->tile[d];
      tile[d] = edit_.fresh(inner[d]->id);
      Expr start = b_.scale(b_.var(tile[d]), size);
      within.set(inner[d]->id, b_.add(start, coordinate(b_, *f.layout, d, b_.var(lane_), reg)));
      Substitution first;
      first.set(inner[d]->id, start);
      place.push_back(
          b_.floor_div(substitute(b_, at[at.size() - 2 + static_cast<size_t>(d)], first), b_.integer(size)));
    }
    place.push_back(reg);
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
      std::vector<Expr> indices(o.indices.begin(), o.indices.end());
      const size_t lead = indices.size() - 2;
      for (size_t d = 0; d < 2; ++d) {
        const int64_t size = f->second.spec->tile[d];
        if (!is_multiple(indices[lead + d], size)) fail(&call, "an operand does not start at a tile");
        indices[lead + d] = b_.floor_div(indices[lead + d], b_.integer(size));
      }
      indices.push_back(b_.integer(0));
      operands.push_back({o.buffer, b_.arena().copy(indices)});
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
  Id lane_ = kNoId;
  bool taken_ = false;
  Legal<void> verdict_ = {};
};

}  // namespace

std::map<Id, const OperandSpec*> fragment_buffers(const Kernel& nest) {
  std::map<Id, const OperandSpec*> out;
  visit(nest.root, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    if (call == nullptr) return true;
    const Instruction& row = instruction(call->instr);
    for (size_t i = 0; i < call->operands.size(); ++i)
      if (row.participants == Participants::kWarp && !row.operands[i].layout.empty() &&
          row.operands[i].scope == Scope::kLocal && row.operands[i].rank == 2)
        out.emplace(call->operands[i].buffer, &row.operands[i]);
    return false;
  });
  return out;
}

Legal<Kernel> distribute_fragments(const Kernel& kernel, const ArenaPtr& arena) {
  const std::map<Id, const OperandSpec*> specs = fragment_buffers(kernel);
  if (specs.empty()) return kernel;
  for (const auto& [id, spec] : specs) {
    const Buffer& buffer = *kernel.buffer(id);
    const size_t lead = buffer.shape.size() - 2;
    for (size_t d = 0; d < 2; ++d)
      if (!is_int(buffer.shape[lead + d]) || int_value(buffer.shape[lead + d]) % spec->tile[d] != 0)
        return reject(RejectReason::kBadInstruction, "'" + name_hint(kernel, id) + "' is not made of whole tiles");
  }
  Edit edit(kernel, arena);
  Distributor distributor(edit, specs);
  Legal<void> verdict = {};
  Stmt root = map_launches(edit, kernel.root, [&](Stmt launch) {
    Legal<Stmt> s = distributor.run(launch);
    if (s) return *s;
    verdict = tl::make_unexpected(s.error());
    return launch;
  });
  if (!verdict) return tl::make_unexpected(verdict.error());
  edit.k.root = root;
  distributor.reshape();
  return edit.k;
}

}  // namespace tcc::lower
