// Addresses of accesses: what is contiguous over a vectorized loop, and how far it is aligned. Private to codegen/cuda.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tcc/analysis/vector_access.h"
#include "tcc/ir/build.h"

namespace tcc::codegen::cuda {

// Elements the buffer occupies, padding included; nullopt when its shape is symbolic.
std::optional<int64_t> physical_elements(const ir::Buffer& buffer);

using analysis::at_lane;
using analysis::flat_address;
using analysis::known_divisor;
using analysis::vector_width;

// A predicate that does not change over blocks of `lanes` iterations of `id` that start at a multiple of `lanes`, with
// the variable replaced by the block's first iteration; nullptr when it may change inside a block.
ir::Expr uniform_predicate(ir::Builder& b, const ir::Kernel& kernel, const analysis::Ranges& ranges, ir::Expr predicate,
                           ir::Id id, int64_t extent);

// Boxes of `rows` x `columns` of a buffer's last two dimensions are in memory row after row, but for its layout's xor.
bool holds_boxes(const ir::Buffer& buffer, int64_t rows, int64_t columns);

}  // namespace tcc::codegen::cuda
