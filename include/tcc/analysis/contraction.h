// One classification of a block that stores one value: how its operands' addresses move with its iterators, and what
// part each iterator has in a sum of products. Everything that looks for products, convolutions and windows asks here.
//
//   out[n, f, y, x] += in[n, c, 2 y + ky, 2 x + kx] * w[f, c, ky, kx]
//
//   operand   batch   own      sums        windows
//   in        n       y, x     c, ky, kx   ky moves with y (step 2, dilation 1), kx with x
//   w         -       f        c, ky, kx
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::analysis {

// The row-major address of an access moves by this many elements for a step of the iterator; nullopt: it is not linear
// in it. `group` K: movement within one group, where indices use iter // K and iter % K.
std::optional<int64_t> flat_stride(const ir::Kernel& kernel, ir::Id buffer, std::span<const ir::Expr> indices,
                                   ir::Id iter, int64_t group = 0);
// Dimension of the access whose index is the plain iterator; -1: none.
int dim_of_iter(std::span<const ir::Expr> indices, ir::Id iter);

// One access of the block.
struct Operand {
  const ir::Load* load = nullptr;              // nullptr: the store
  std::vector<std::optional<int64_t>> stride;  // per iterator, as flat_stride, within its group
  std::vector<int> dim;                        // per iterator, as dim_of_iter
  std::vector<bool> moves;                     // per iterator: some index mentions it
  bool constant = false;                       // a weight
};

// A reduce iterator that moves an operand's window together with a spatial one: step * spatial + dilation * reduce.
struct Window {
  size_t iterator = 0;  // the spatial one, with an extent above 1
  int64_t step = 1, dilation = 1;
};

struct Contraction {
  const ir::Block* block = nullptr;
  const ir::Store* store = nullptr;
  std::vector<int64_t> extents;  // per iterator
  std::vector<bool> reduce;      // per iterator
  // Per iterator: K where the loads use it as iter // K and iter % K (grouped convolutions), with K dividing the
  // extent, else 0. Tiles stay inside groups, so that iter // K is the same all over a tile.
  std::vector<int64_t> group;
  std::vector<const ir::Load*> loads;  // of the body, those of its own output excluded
  std::vector<Operand> operands;       // of the loads
  Operand result;                      // of the store

  int64_t tiled_extent(size_t i) const { return group[i] > 0 ? group[i] : extents[i]; }
  ir::Id iter(size_t i) const;
  bool is_reduction() const;
  double domain() const;  // iterations
  // Some operand does not move with the iterator, within its group: an element that is read once serves several values.
  bool has_reuse(size_t iterator) const;
  // The window that reduce iterator `i` moves in.
  std::optional<Window> window(size_t i) const;
};
// The block's iterators have these extents. nullopt: its body is not one store without a predicate.
std::optional<Contraction> classify(const ir::Kernel& kernel, const ir::Block& block, std::vector<int64_t> extents);

// The iterators of a product of two operands, each list ascending.
struct ProductRoles {
  std::vector<size_t> unit, unit_sums;       // extent 1
  std::vector<size_t> sums, batch;           // both operands move with `batch`
  std::vector<size_t> left, right, neither;  // the operand that moves with it
};
// nullopt: there are not two operands, or an address is not linear in an iterator, or iterators are grouped.
std::optional<ProductRoles> product_roles(const Contraction& contraction, size_t left = 0);
// Both lists, ascending.
std::vector<size_t> merged(std::vector<size_t> a, const std::vector<size_t>& b);

}  // namespace tcc::analysis
