// Schedule primitives: pure functions kernel -> kernel or Reject. The result's new nodes live in kernel.arena (the
// caller puts a worker arena there); the given kernel stays valid while its arena lives. Ids are stable: only the
// primitives with an `out` parameter make new handles. Preconditions are those of MetaSchedule, Table 2. See
// docs/primitives.md for before -> after texts.
//
// All extents and factors are expressions: the same code runs on concrete decisions and on decision symbols.
#pragma once

#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/ir/reject.h"

namespace tcc::schedule {

using ir::Expr;
using ir::Id;
using ir::Kernel;
using ir::Legal;
using ir::Reject;
using ir::RejectReason;

// loop -> nested loops of the given extents, outermost first; at most one factor is nullptr: inferred as the ceiling
// quotient. Where the product is not provably the extent, every block below gets the predicate index < extent.
Legal<Kernel> split(const Kernel& k, Id loop, std::span<const Expr> factors, std::vector<Id>& out);
// Consecutive loops -> one.
Legal<Kernel> fuse(const Kernel& k, std::span<const Id> loops, Id& out);
// Two neighbors with equal extents -> one loop around both bodies, which must be independent.
Legal<Kernel> merge(const Kernel& k, Id first, Id second, Id& out);
// Permutes loops of one chain; loops of the chain that are not named keep their place.
Legal<Kernel> reorder(const Kernel& k, std::span<const Id> loops);

// Moves a producer under a loop of its consumers and computes there just what is needed.
Legal<Kernel> compute_at(const Kernel& k, Id block, Id loop);
// Moves a consumer under a loop of its producer and consumes there just what has been produced.
Legal<Kernel> reverse_compute_at(const Kernel& k, Id block, Id loop);
// Substitutes a spatial block's value into its consumers.
Legal<Kernel> compute_inline(const Kernel& k, Id block);
// Substitutes an elementwise consumer into its only producer.
Legal<Kernel> reverse_compute_inline(const Kernel& k, Id block);

// The block reads the buffer of its `read_index`-th distinct read through a copy; out is the copying block.
Legal<Kernel> cache_read(const Kernel& k, Id block, int read_index, ir::Scope scope, Id& out);
// All blocks that read the buffer of the block's `read_index`-th distinct read do so through one copy; out is the
// copying block, in front of the first of them.
Legal<Kernel> cache_reads(const Kernel& k, Id block, int read_index, ir::Scope scope, Id& out);
// The block writes a new buffer; out is the block that copies it out.
Legal<Kernel> cache_write(const Kernel& k, Id block, ir::Scope scope, Id& out);
// cache_read and compute_at in one: the copy of what the block reads below the loop is filled there.
Legal<Kernel> read_at(const Kernel& k, Id block, int read_index, Id loop, ir::Scope scope, Id& out);
// cache_write and reverse_compute_at in one.
Legal<Kernel> write_at(const Kernel& k, Id block, Id loop, ir::Scope scope, Id& out);
// The block reads (read_index >= 0) or writes (-1) through a copy whose dimensions are its iterators; out is the
// copying block.
Legal<Kernel> reindex(const Kernel& k, Id block, int read_index, Id& out);
// A padded copy becomes a block `out` in front of `loop` that fills with the constant, and the copy of what exists.
Legal<Kernel> decompose_padding(const Kernel& k, Id block, Id loop, Id& out);
// The block's initialization becomes a block of its own in front of `loop`.
Legal<Kernel> decompose_reduction(const Kernel& k, Id block, Id loop, Id& out);

// A reduction loop's iterations get an accumulator each in a new buffer, filled by a new block `out` in the block's
// place; the block itself combines them, behind its reduction loops.
Legal<Kernel> rfactor(const Kernel& k, Id block, Id loop, Id& out);

// The weighted sum of a softmax over a dimension, with the softmax's blocks, becomes one pass over tiles of it that
// carries running maxima and sums; out is the loop over tiles. `group` not nullptr: tiles are whole and their number of
// rows is a multiple of it; see docs/primitives.md.
Legal<Kernel> stream_reduction(const Kernel& k, Id block, Expr tile_keys, Expr tile_rows, Expr group, Id& out);

Legal<Kernel> parallel(const Kernel& k, Id loop);
Legal<Kernel> vectorize(const Kernel& k, Id loop);
Legal<Kernel> unroll(const Kernel& k, Id loop);
Legal<Kernel> bind(const Kernel& k, Id loop, ir::Axis axis);
// Attaches to a loop or block; replaces an annotation of the same key.
Legal<Kernel> annotate(const Kernel& k, Id loop_or_block, ir::AnnotationKey key, Expr value);
// (v / divisor) % extent of the block's iterator number `iter`; extent 0: the rest.
struct IterDigit {
  int64_t iter, divisor, extent;
};
// The block runs over new iterators, each the mixed radix number of digits (outermost first) of the old ones.
Legal<Kernel> transform_block_layout(const Kernel& k, Id block, std::span<const std::vector<IterDigit>> map);
// Removes the annotation of that key.
Legal<Kernel> unannotate(const Kernel& k, Id loop_or_block, ir::AnnotationKey key);
// A loop of one iteration around a loop or block.
Legal<Kernel> add_unit_loop(const Kernel& k, Id loop_or_block, Id& out);
// Moves the temporary that the block writes to another scope.
Legal<Kernel> set_scope(const Kernel& k, Id block, ir::Scope scope);
// The element stride of dimension `dim` of the temporary that the block writes is `offset` modulo `factor`.
Legal<Kernel> storage_align(const Kernel& k, Id block, int64_t dim, int64_t factor, int64_t offset);
// Gives a weight (a parameter whose contents are known ahead) or a temporary another physical layout: blocked by
// `tiles` (dimension, tile), outer dimensions in `order`, which may place tiles as well (ir/layout.h, make_blocked).
// Accesses stay logical. read_index -1: of the block's result.
Legal<Kernel> transform_layout(const Kernel& k, Id block, int read_index, std::span<const int32_t> order,
                               std::span<const std::pair<int32_t, int64_t>> tiles);

// The extents of a naive sum of products grow to multiples, one for each iterator: operands are copied into buffers
// with zeros around them, and the part of the result that exists is copied out. A further number that is not 0:
// constants without a layout grow in place, that is, their layout is of a smaller shape, the data's.
Legal<Kernel> pad_einsum(const Kernel& k, Id block, std::span<const int64_t> multiples);
// The loop, the loops below it and their single block become the body of a new block, whose iterators are what the
// loops around choose.
Legal<Kernel> blockize(const Kernel& k, Id loop, Id& out);
// The loop, the loops below it and their single block become one call of an instruction of the table (ir/instr.h).
// Given a block that blockize made, its body does.
Legal<Kernel> tensorize(const Kernel& k, Id loop_or_block, std::string_view instruction);

// --- queries ------------------------------------------------------------------------------------------------------
// Block whose name hint is `name`; kNoId when absent or ambiguous.
Id find_block_by_name(const Kernel& k, std::string_view name);
// Loops around a block, outermost first.
std::vector<Id> loops_of(const Kernel& k, Id block);
std::vector<Id> producers_of(const Kernel& k, Id block);
std::vector<Id> consumers_of(const Kernel& k, Id block);
// Blocks below a loop or in a block, the block itself excluded, in program order.
std::vector<Id> child_blocks_of(const Kernel& k, Id loop_or_block);
// Blocks that write outputs of the kernel, in program order.
std::vector<Id> output_blocks_of(const Kernel& k);
// Buffers the block reads, in the order of first appearance in its body (its own output excluded).
std::vector<Id> read_buffers(const Kernel& k, Id block);
Id written_buffer(const Kernel& k, Id block);

}  // namespace tcc::schedule
