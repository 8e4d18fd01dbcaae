// Which activations a program reads soon, beyond those that its innermost loop is about to read.
//
// A tiled product reads a block of rows of its input, several times as a rule: once for each block of columns of the
// weights. Its rows are apart in memory, so the hardware's prefetcher does not follow. The first reading waits for the
// last cache, or for the other core that wrote the block a moment ago, and the later ones find it near. When each
// iteration of each reading asks for a part of the next block, none of them waits.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tcc/analysis/ranges.h"
#include "tcc/ir/query.h"

namespace tcc::analysis {

// An input, or what another loop of the kernel has made, that a first-level cache does not keep.
bool is_large_activation(const ir::Buffer& buffer);

struct NextBlock {
  const ir::Buffer* buffer = nullptr;
  std::vector<ir::Expr> lines;  // what one iteration asks for: element addresses from the start of the buffer's storage
};

// A block takes this part of the second-level cache at most, as far as there is a choice.
inline constexpr int64_t kBlocksOfL2 = 16;

// What an iteration of `l` asks for of the next block: of the access that reads most lines of `line_bytes` in an
// iteration, of buffers that `is_meant` accepts. `around` are the loops around `l`, outermost first; `ranges` knows all
// loops. A block is what one iteration of a loop around reads: of the outermost one with a block of `most_bytes`, or of
// the innermost one. The next block is that of its next iteration, or of a later one where an iteration is short.
// Readings are serial loops that do not move the address, or a part of a loop that several ones were fused into; of n
// readings each asks for an n-th of the lines. Behind the last block of a serial loop the last is meant; that of a
// fused one may be behind the buffer.
// nullopt: `l` reads side by side, which the hardware follows, or no loop around moves the address evenly.
std::optional<NextBlock> next_block(ir::Builder& b, const ir::Kernel& kernel, const Ranges& ranges,
                                    std::span<const ir::Loop* const> around, const ir::Loop& l, int64_t line_bytes,
                                    int64_t most_bytes, ir::FunctionRef<bool(ir::Id)> is_meant);

}  // namespace tcc::analysis
