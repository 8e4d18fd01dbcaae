#include "tcc/analysis/contraction.h"

#include <algorithm>

#include "tcc/ir/query.h"
#include "tcc/ir/walk.h"

namespace tcc::analysis {

using namespace ir;

namespace {

// K of v // K or v % K; 0: no such atom.
int64_t group_of(Expr atom, Id v) {
  if (atom->kind != ExprKind::kFloorDiv && atom->kind != ExprKind::kFloorMod) return 0;
  const Binary* b = as<Binary>(atom);
  const Var* var = as<Var>(b->a);
  return var != nullptr && var->id == v && is_int(b->b) ? int_value(b->b) : 0;
}

// The one group size by which the loads use the iterator; 0: none, or several.
int64_t find_group(const Contraction& nest, Id iter, int64_t extent) {
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

// Coefficient of the plain iterator in a sum; 0: none.
int64_t plain_coefficient(Expr e, Id id) {
  if (const Var* v = as<Var>(e); v != nullptr && v->id == id) return 1;
  const Sum* sum = as<Sum>(e);
  if (sum == nullptr) return 0;
  for (const Term& t : sum->terms)
    if (const Var* v = as<Var>(t.atom); v != nullptr && v->id == id) return t.coefficient;
  return 0;
}

Operand make_operand(const Kernel& kernel, const Contraction& c, Id buffer, std::span<const Expr> indices,
                     const Load* load) {
  Operand out{load, {}, {}, {}, kernel.buffer(buffer)->role == BufferRole::kWeight};
  for (size_t i = 0; i < c.extents.size(); ++i) {
    out.stride.push_back(flat_stride(kernel, buffer, indices, c.iter(i), c.group[i]));
    out.dim.push_back(dim_of_iter(indices, c.iter(i)));
    out.moves.push_back(std::any_of(indices.begin(), indices.end(), [&](Expr e) { return mentions(e, c.iter(i)); }));
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

Id Contraction::iter(size_t i) const {
  return block->iters[i].id;
}
bool Contraction::is_reduction() const {
  return std::find(reduce.begin(), reduce.end(), true) != reduce.end();
}
double Contraction::domain() const {
  double n = 1;
  for (int64_t e : extents) n *= static_cast<double>(e);
  return n;
}
bool Contraction::has_reuse(size_t iterator) const {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return o.stride[iterator] == 0; });
}

std::optional<Window> Contraction::window(size_t tap) const {
  for (const Load* l : loads)
    for (Expr index : l->indices) {
      const int64_t dilation = plain_coefficient(index, iter(tap));
      if (dilation <= 0) continue;
      for (size_t i = 0; i < extents.size(); ++i)
        if (const int64_t step = plain_coefficient(index, iter(i)); !reduce[i] && extents[i] > 1 && step > 0)
          return Window{i, step, dilation};
    }
  return std::nullopt;
}

std::optional<Contraction> classify(const Kernel& kernel, const Block& block, std::vector<int64_t> extents) {
  Contraction c;
  c.block = &block;
  c.store = as<Store>(block.body);
  if (c.store == nullptr || c.store->predicate != nullptr || block.predicate != nullptr) return std::nullopt;
  c.extents = std::move(extents);
  for (const Iter& it : block.iters) c.reduce.push_back(it.kind == IterKind::kReduce);
  visit_roots(block.body, [&](Expr root) {
    visit(root, [&](Expr e) {
      if (const Load* l = as<Load>(e); l != nullptr && l->buffer != c.store->buffer) c.loads.push_back(l);
      return true;
    });
  });
  for (size_t i = 0; i < c.extents.size(); ++i)
    c.group.push_back(c.reduce[i] ? 0 : find_group(c, c.iter(i), c.extents[i]));
  for (const Load* l : c.loads) c.operands.push_back(make_operand(kernel, c, l->buffer, l->indices, l));
  c.result = make_operand(kernel, c, c.store->buffer, c.store->indices, nullptr);
  return c;
}

std::optional<ProductRoles> product_roles(const Contraction& c, size_t left) {
  if (c.operands.size() != 2) return std::nullopt;
  const Operand &a = c.operands[left], &b = c.operands[1 - left];
  ProductRoles roles;
  for (size_t i = 0; i < c.extents.size(); ++i) {
    if (c.group[i] > 0 || !a.stride[i] || !b.stride[i]) return std::nullopt;
    std::vector<size_t>& spatial =
        a.moves[i] ? (b.moves[i] ? roles.batch : roles.left) : (b.moves[i] ? roles.right : roles.neither);
    if (c.reduce[i])
      (c.extents[i] == 1 ? roles.unit_sums : roles.sums).push_back(i);
    else
      (c.extents[i] == 1 ? roles.unit : spatial).push_back(i);
  }
  return roles;
}

std::vector<size_t> merged(std::vector<size_t> a, const std::vector<size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  return a;
}

}  // namespace tcc::analysis
