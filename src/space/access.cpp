#include "space/access.h"

#include <algorithm>
#include <array>

#include "tcc/ir/query.h"

namespace tcc::space {

using namespace ir;

bool NaiveNest::is_reduction() const {
  return std::find(reduce.begin(), reduce.end(), true) != reduce.end();
}
double NaiveNest::domain() const {
  double n = 1;
  for (int64_t e : extents) n *= static_cast<double>(e);
  return n;
}

namespace {

// K of v // K or v % K; 0: no such atom.
int64_t group_of(Expr atom, Id v) {
  if (atom->kind != ExprKind::kFloorDiv && atom->kind != ExprKind::kFloorMod) return 0;
  const Binary* b = as<Binary>(atom);
  const Var* var = as<Var>(b->a);
  return var != nullptr && var->id == v && is_int(b->b) ? int_value(b->b) : 0;
}

// The one group size by which the loads use the iterator; 0: none, or several.
int64_t find_group(const NaiveNest& nest, Id iter, int64_t extent) {
  int64_t found = 0;
  bool one = true;
  for (const Load* l : nest.loads)
    for (Expr index : l->indices)
      visit(index, [&](Expr e) {
        int64_t group = group_of(e, iter);
        if (group > 0) one &= found == 0 || found == group, found = group;
        return true;
      });
  return one && found > 0 && found < extent && extent % found == 0 ? found : 0;
}

}  // namespace

std::optional<NaiveNest> naive_nest(const Kernel& kernel, const Block& block) {
  NaiveNest nest;
  nest.block = &block;
  nest.name = name_hint(kernel, block.id);
  if (schedule::find_block_by_name(kernel, nest.name) != block.id || block.predicate != nullptr) return std::nullopt;
  std::vector<Id> loops = schedule::loops_of(kernel, block.id);
  if (loops.size() != block.iters.size()) return std::nullopt;
  for (size_t i = 0; i < loops.size(); ++i) {
    const Iter& it = block.iters[i];
    const Loop* l = find_loop(kernel.root, loops[i]);
    const Var* v = as<Var>(it.binding);
    if (v == nullptr || v->id != loops[i] || !is_int(l->extent) || l->loop_kind != LoopKind::kSerial)
      return std::nullopt;
    if (!l->annotations.empty() || l->body->kind == StmtKind::kSeq) return std::nullopt;
    if (it.kind != IterKind::kSpatial && it.kind != IterKind::kReduce) return std::nullopt;
    nest.extents.push_back(int_value(l->extent));
    nest.reduce.push_back(it.kind == IterKind::kReduce);
  }
  nest.store = as<Store>(block.body);
  if (nest.store == nullptr || nest.store->predicate != nullptr) return std::nullopt;
  visit_roots(block.body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e); l != nullptr && l->buffer != nest.store->buffer) nest.loads.push_back(l);
      return true;
    });
  });
  for (size_t i = 0; i < loops.size(); ++i)
    nest.group.push_back(nest.reduce[i] ? 0 : find_group(nest, block.iters[i].id, nest.extents[i]));
  return nest;
}

namespace {

std::optional<int64_t> coefficient(Expr e, Id v, int64_t group) {
  if (!mentions(e, v)) return 0;
  if (group > 0 && group_of(e, v) == group) return e->kind == ExprKind::kFloorMod ? 1 : 0;
  if (const Var* var = as<Var>(e); var != nullptr && var->id == v) return 1;
  const Sum* sum = as<Sum>(e);
  if (sum == nullptr) return std::nullopt;
  int64_t out = 0;
  for (const Term& t : sum->terms) {
    if (!mentions(t.atom, v)) continue;
    if (group > 0 && group_of(t.atom, v) == group) {
      out += t.atom->kind == ExprKind::kFloorMod ? t.coefficient : 0;
      continue;
    }
    if (const Var* var = as<Var>(t.atom); var == nullptr || var->id != v) return std::nullopt;
    out += t.coefficient;
  }
  return out;
}

}  // namespace

std::optional<int64_t> flat_stride(const Kernel& kernel, Id buffer, std::span<const Expr> indices, Id iter,
                                   int64_t group) {
  const Buffer* info = kernel.buffer(buffer);
  int64_t stride = 1, out = 0;
  for (size_t d = indices.size(); d-- > 0;) {
    std::optional<int64_t> c = coefficient(indices[d], iter, group);
    if (!c || !is_int(info->shape[d])) return std::nullopt;
    out += *c * stride;
    stride *= int_value(info->shape[d]);
  }
  return out;
}

int dim_of_iter(std::span<const Expr> indices, Id iter) {
  for (size_t d = 0; d < indices.size(); ++d)
    if (const Var* v = as<Var>(indices[d]); v != nullptr && v->id == iter) return static_cast<int>(d);
  return -1;
}

bool has_scheduled_loop(const Kernel& kernel, Id block) {
  for (Id id : schedule::loops_of(kernel, block))
    if (find_loop(kernel.root, id)->loop_kind != LoopKind::kSerial) return true;
  return false;
}

int64_t vector_lanes(const target::Target& target, Type type) {
  return std::max<int64_t>(target.cpu.vector_bits / 8 / std::max<int64_t>(type_bytes(type), 1), 1);
}

int64_t best_divisor(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, limit); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

bool fuse_parallel(schedule::Schedule& s, std::span<const schedule::LoopRv> loops, schedule::LoopRv* fused) {
  if (!s.ok() || loops.empty()) return false;
  schedule::Schedule trial = s;
  schedule::LoopRv outer = loops.size() > 1 ? trial.fuse(loops) : loops[0];
  trial.parallel(outer);
  if (!trial.ok()) return false;
  s = std::move(trial);
  if (fused != nullptr) *fused = outer;
  return true;
}

double output_bytes(const Kernel& kernel) {
  double bytes = 0;
  for (const Buffer* b : kernel.buffers) {
    if (b->role != BufferRole::kOutput) continue;
    auto n = static_cast<double>(type_bytes(b->type));
    for (Expr e : b->shape) n *= is_int(e) ? static_cast<double>(int_value(e)) : 1;
    bytes += n;
  }
  return bytes;
}

void stream_large_output(schedule::Schedule& s, schedule::LoopRv loop, const target::Target& target) {
  // The operands want their place in the cache too.
  if (2 * output_bytes(s.kernel()) < static_cast<double>(std::max(target.cpu.l3_bytes, target.cpu.l2_bytes))) return;
  static constexpr std::array<int64_t, 2> kChoices = {0, 1};
  static constexpr std::array<double, 2> kWeights = {0.4, 0.6};
  s.annotate(loop, AnnotationKey::kNonTemporal, s.sample_categorical(kChoices, kWeights));
}

}  // namespace tcc::space
