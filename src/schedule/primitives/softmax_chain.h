// The chain of blocks that stream_reduction replaces, found by what each computes.
#pragma once

#include "common.h"

namespace tcc::schedule {

// A block of the chain, as it is before scheduling: one store within one loop for each iterator.
struct ChainLink {
  const Block* block = nullptr;
  const Store* store = nullptr;
  Path path;
  std::vector<int> at;  // index d of the result -> iterator, -1 for the constant 0
};

// The block as a link: alone in a nest of loops that are its iterators, serial and without annotations, with one
// unconditional store at plain indices. `what` it is and `chain`, the form that is looked for, are words of rejects.
Legal<ChainLink> chain_link(const Kernel& k, Id block, const char* what, const char* chain);

struct SoftmaxChain {
  ChainLink product, divide, exp, sum, max;  // divide: only where `divided`
  bool divided = false;                      // before the product
  int key = -1;                              // dimension of the weights that is reduced
  std::vector<Expr> extents;                 // of the dimensions of the weights
  Id weights = kNoId;                        // E
  Expr weight = nullptr;                     // the factor P of the product, a load possibly cast
  Expr product_term = nullptr, sum_term = nullptr,
       max_term = nullptr;  // what each update adds, or takes the maximum of
  Expr score = nullptr;     // S in the exp block
  // Which dimension of the weights each iterator of a block is; -1 for none.
  std::vector<int> product_dims, exp_dims, max_dims, sum_dims;
  std::vector<int> top_at, total_at;  // indices of M and L as dimensions of the weights, -1 for the constant 0
};

// `product` is the weighted sum; everything that would make the replacement illegal is checked.
Legal<SoftmaxChain> find_softmax_chain(Builder& b, const Kernel& k, Id product);

}  // namespace tcc::schedule
