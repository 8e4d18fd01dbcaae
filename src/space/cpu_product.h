// What the modules that multiply matrices by dot products look for. Private to the room.
#pragma once

#include <optional>

#include "space/access.h"

namespace tcc::space {

// C[.., m, n] += A[.., m, k] B[.., k, n]
struct CpuProductNest {
  NaiveNest nest;
  size_t m = 0, n = 0, k = 0;  // iterators
  int a = 0, b = 0;            // reads of the block
};

// An instruction that multiplies groups of values of `a` for each lane by groups of `b`, and adds to lanes of `result`.
struct VectorDot {
  Type a, b, result;
  int64_t group, lanes;
  std::string_view instruction;
};
// Those of the target whose operands these types are, the most terms first, within its vectors.
std::vector<VectorDot> vector_dots(Type a, Type b, Type result, const target::Target& target);

// Whether the target multiplies tiles of bytes (amx_tiling.cpp).
bool has_byte_tiles(const target::Target& target);

// A sum of products of two tensors: what could be a matrix product at all.
std::optional<NaiveNest> sum_of_products(const ir::Kernel& k, const ir::Block& block);
// nullopt: its operands are not stored like that.
std::optional<CpuProductNest> as_product(const ir::Kernel& k, const NaiveNest& nest);

// Extents that are multiples of these, one for each iterator, padded with zeros, and the padding of a convolution's
// input, in a copy in front of the nest; B in panels of `columns` with groups of k side by side, ahead where it is a
// constant. Whether the schedule allows it.
bool pack_operands(Schedule& s, const CpuProductNest& p, BlockRv block, std::span<const int64_t> multiples,
                   int64_t columns, int64_t group);
// What reads the result does so while the tile, the body of `at`, is in the first cache. Left alone where that is
// illegal, or where there are several readers.
void move_epilogue(Schedule& s, std::span<const BlockRv> epilogues, LoopRv at);

}  // namespace tcc::space
