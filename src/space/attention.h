// What the forms of attention for CPUs and GPUs share. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "space/access.h"
#include "tcc/space/space.h"

namespace tcc::space {

// softmax(f(Q K^T)) V as naive blocks.
struct Attention {
  std::string scores, product;            // the blocks of Q K^T and of the weighted sum
  int64_t rows = 1, keys = 1, width = 1;  // queries that share their keys, what is summed over, columns of V
};

// Finds it and makes the chain plain: the blocks between the products go into their readers, so that stream_reduction
// takes the blocks as they are then. nullopt, and nothing done: another kernel.
std::optional<Attention> find_attention(schedule::Schedule& s);

// An attention whose softmax is one pass over tiles of keys.
struct StreamedAttention {
  std::vector<schedule::LoopRv> rows;  // loops around a tile of rows, outermost first
  schedule::LoopRv tiles;              // over tiles of keys, within them
  std::vector<std::string> blocks;     // all of them, in program order
};
// `rows` x `keys` scores are alive at a time; `writer` is the block that leaves them for the softmax. `group` > 0:
// tiles are whole, and their number of rows is a multiple of it. nullopt: a step was rejected.
std::optional<StreamedAttention> stream(schedule::Schedule& s, const Attention& a, const std::string& writer,
                                        int64_t rows, int64_t keys, int64_t group = 0);

// Which of the reads of the block of scores is Q; -1: they have another form.
int read_of_rows(const ir::Kernel& k, const Attention& a);
// Which of the reads of the weighted sum is V; -1: it has another form.
int read_of_values(const ir::Kernel& k, const Attention& a);

// The loops of a block of the pass below those around it.
struct PassLoops {
  std::optional<schedule::LoopRv> row;            // within the tile of rows
  std::vector<schedule::LoopRv> others, reduced;  // in order
};
PassLoops loops_of_pass(schedule::Schedule& s, const StreamedAttention& a, const std::string& block);

// Both products of each tile by matrix instructions of warps, `warps` of them a block with `rows` queries each, for f16
// and bf16 (FlashAttention-2, arXiv 2307.08691). False, and `s` of no use: the shapes or the target do not allow it.
struct MatrixTiles {
  int64_t warps, rows, keys;
};
std::vector<MatrixTiles> matrix_tiles(const Attention& a);
bool matrix_attention(schedule::Schedule& s, const Attention& a, const MatrixTiles& tiles, const target::Target& target,
                      const GpuSpaceOptions& options);

// Only blocks of the pass read what the block writes.
bool stays_inside(const schedule::Schedule& s, const StreamedAttention& a, const std::string& block);

// Tiles of keys to choose from: divisors of the number of keys where it has any worth having.
std::vector<int64_t> key_tiles(int64_t keys, std::vector<int64_t> wanted);

}  // namespace tcc::space
