#include "lower/gpu/fragments.h"

#include <algorithm>
#include <optional>

#include "lower/gpu/edit.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/support/check.h"

namespace tcc::lower {

using namespace ir;

namespace {

int64_t digit(int64_t place, const Digit& d) {
  return d.extent == 0 ? place / d.stride : place / d.stride % d.extent;
}
int64_t value(int64_t coordinate, const Digit& d) {
  return (d.extent == 0 ? coordinate / d.divisor : coordinate / d.divisor % d.extent) * d.stride;
}

// Buffers of a nest, with the indices they are touched at.
std::map<Id, std::span<const Expr>> accesses(const Store& store) {
  std::map<Id, std::span<const Expr>> out;
  out.emplace(store.buffer, store.indices);
  visit_loads(&store, [&](const Load& l) { out.emplace(l.buffer, l.indices); });
  return out;
}

class Followers {
 public:
  Followers(const Kernel& nest, std::map<Id, FragmentOperand>& found) : k_(nest), b_(arena_), found_(found) {}

  void run() {
    for (size_t before = 0; before != found_.size();) {
      before = found_.size();
      look(k_.root);
    }
  }

 private:
  void look(Stmt s) {
    if (const std::optional<ElementNest> nest = element_nest(b_, s)) return follow(*nest);
    visit(s, [&](Stmt c) {
      if (c == s) return true;
      look(c);
      return false;
    });
  }

  void follow(const ElementNest& nest) {
    const std::map<Id, std::span<const Expr>> touched = accesses(*nest.store);
    for (const auto& [id, at] : touched) {
      auto known = found_.find(id);
      if (known == found_.end() || known->second.lanes > kWarpLanes || known->second.spec->opaque) continue;
      const FragmentOperand of = known->second;
      const Loop* loops[2] = {nullptr, nullptr};
      for (int d = 0; d < 2; ++d)
        if (of.along < 0 || of.along == d)
          loops[d] = tile_loop(of.along < 0 ? at[at.size() - 2 + static_cast<size_t>(d)] : at[of.dim], of.spec->tile[d],
                               nest.loops);
      for (const auto& [other, indices] : touched) add(other, indices, of, loops);
    }
  }

  void add(Id id, std::span<const Expr> at, const FragmentOperand& of, const Loop* const (&loops)[2]) {
    const Buffer* buffer = k_.buffer(id);
    if (found_.contains(id) || buffer->scope != Scope::kLocal) return;
    int dims[2] = {-1, -1};
    for (int d = 0; d < 2; ++d)
      for (size_t i = 0; i < at.size() && loops[d] != nullptr; ++i)
        if (mentions_any(at[i], {loops[d]->id})) dims[d] = static_cast<int>(i);
    const int rank = static_cast<int>(at.size());
    FragmentOperand own{of.spec, kWarpLanes};
    if (dims[0] >= 0 && dims[1] >= 0) {
      if (dims[0] != rank - 2 || dims[1] != rank - 1) return;
    } else if (dims[0] >= 0 || dims[1] >= 0) {
      own.along = dims[0] >= 0 ? 0 : 1;
      own.dim = static_cast<size_t>(dims[own.along]);
      own.lanes = own.spec->tile[own.along] / make_fragment(arena_, own).registers;
    } else {
      return;
    }
    found_.emplace(id, own);
  }

  const Kernel& k_;
  Arena arena_;
  Builder b_;
  std::map<Id, FragmentOperand>& found_;
};

}  // namespace

std::map<Id, FragmentOperand> fragment_buffers(const Kernel& nest) {
  std::map<Id, FragmentOperand> out;
  visit(nest.root, [&](Stmt s) {
    const InstrCall* call = as<InstrCall>(s);
    if (call == nullptr) return true;
    const Instruction& row = instruction(call->instr);
    if (row.participants != Participants::kWarp && row.participants != Participants::kWarpgroup) return false;
    const int64_t lanes = row.participants == Participants::kWarp ? kWarpLanes : kGroupLanes;
    for (size_t i = 0; i < call->operands.size(); ++i)
      if (!row.operands[i].layout.empty() && row.operands[i].scope == Scope::kLocal && row.operands[i].rank == 2)
        out.emplace(call->operands[i].buffer, FragmentOperand{&row.operands[i], lanes});
    return false;
  });
  if (!out.empty()) Followers(nest, out).run();
  return out;
}

std::optional<ElementNest> element_nest(Builder& b, Stmt s) {
  ElementNest out;
  while (true) {
    if (const Loop* l = as<Loop>(s)) {
      out.loops.push_back(l);
      s = l->body;
    } else if (const If* i = as<If>(s); i != nullptr && i->else_case == nullptr) {
      out.condition = b.logical_and(out.condition, i->condition);
      s = i->then_case;
    } else {
      out.store = as<Store>(s);
      return out.store == nullptr ? std::nullopt : std::optional(out);
    }
  }
}

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

Fragment make_fragment(Arena& arena, const FragmentOperand& operand) {
  Fragment f{operand.spec, nullptr, operand.along < 0 ? operand.lanes : kWarpLanes, 1, operand.along, operand.dim};
  auto layout = parse_layout(arena, operand.spec->layout);
  TCC_CHECK(layout.has_value(), "layout {}", operand.spec->layout);
  f.layout = *layout;
  std::vector<Digit> digits;
  for (Digit d : f.layout->digits)
    if (f.is_matrix() || d.dim == f.along) digits.push_back(d);
  if (!f.is_matrix()) {
    // The registers that are left, without gaps.
    std::vector<Digit*> order;
    for (Digit& d : digits)
      if (d.place == Place::kRegister) order.push_back(&d);
    std::sort(order.begin(), order.end(), [](const Digit* x, const Digit* y) { return x->stride < y->stride; });
    int64_t stride = 1;
    for (Digit* d : order) {
      d->stride = stride;
      stride *= d->extent;
    }
    Layout own = *f.layout;
    own.digits = digits;
    f.layout = copy_layout(arena, own);
  }
  if (f.spec->opaque) {
    f.registers = f.layout->size / f.lanes;
    return f;
  }
  for (const Digit& d : f.layout->digits)
    if (d.place == Place::kRegister) f.registers *= d.extent;
  return f;
}

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

Expr register_of(Builder& b, const Fragment& f, Expr row, Expr column, int64_t tiles) {
  const Expr at[2] = {row, column};
  Expr out = b.integer(0);
  for (const Digit& d : f.layout->digits) {
    if (d.place != Place::kRegister) continue;
    out = b.add(out, b.scale(b.floor_mod(b.floor_div(at[d.dim], b.integer(d.divisor)), b.integer(d.extent)), d.stride));
  }
  Expr tile = b.integer(0);
  if (f.is_matrix())
    tile = b.add(b.scale(b.floor_div(row, b.integer(f.tile(0))), tiles), b.floor_div(column, b.integer(f.tile(1))));
  else
    tile = b.floor_div(at[f.along], b.integer(f.tile(f.along)));
  return b.add(b.scale(tile, f.registers), out);
}

bool same_lanes(const Fragment& f, const Fragment& other) {
  int64_t tiles[2];
  for (int d = 0; d < 2; ++d) {
    if (other.tile(d) > 1 && f.tile(d) == 1) return false;  // elements of a row that `f` does not tell apart
    tiles[d] = std::max<int64_t>(1, other.tile(d) / f.tile(d));
  }
  // The lane and the register in `other` of the element that a register of a lane holds in tile (x, y) of `f`.
  auto find = [&](int64_t x, int64_t y, int64_t lane, int64_t reg) {
    int64_t at[2] = {x * f.tile(0), y * f.tile(1)};
    for (const Digit& d : f.layout->digits) at[d.dim] += digit(d.place == Place::kRegister ? reg : lane, d) * d.divisor;
    PhysicalIndex out;
    for (const Digit& d : other.layout->digits)
      (d.place == Place::kRegister ? out.reg : out.lane) += value(at[d.dim], d);
    return out;
  };
  int64_t mask = 0;
  for (const Digit& d : other.layout->digits)
    if (d.place == Place::kLane) mask += (d.extent - 1) * d.stride;
  for (int64_t x = 0; x < tiles[0]; ++x)
    for (int64_t y = 0; y < tiles[1]; ++y)
      for (int64_t reg = 0; reg < f.registers; ++reg)
        for (int64_t lane = 0; lane < kWarpLanes; ++lane) {
          const PhysicalIndex there = find(x, y, lane, reg);
          if (there.lane != (lane & mask) || there.reg != find(x, y, 0, reg).reg) return false;
        }
  return true;
}

std::vector<int64_t> lane_distances(const Fragment& f, int dim) {
  std::vector<int64_t> out;
  for (const Digit& d : f.layout->digits)
    if (d.place == Place::kLane && d.dim == dim)
      for (int64_t n = 1; n < d.extent; n *= 2) out.push_back(n * d.stride);
  return out;
}

}  // namespace tcc::lower
