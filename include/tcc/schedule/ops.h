// The one table of trace instructions: name, inputs, flags, attributes. Text and JSON of traces, the checks of traces
// from files, hashes, messages and random traces all read it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tcc::schedule {

// A value that is part of an instruction and never redrawn.
struct Attribute {
  // Every attribute is a run of numbers in Instruction::attrs; the kind says how they are counted, read and written.
  enum class Kind : uint8_t {
    kInteger,  // one number from low to high
    kRead,     // the number of a read; where low is -1, -1 is written `result`
    kScope,    // ir::Scope, written by name
    kAxis,     // ir::Axis, written by name
    kKey,      // ir::AnnotationKey, written by name
    kTails,    // a set of ir::TailMode: [mask, peel, pad]
    kFactors,  // not written: how many outputs are factors, that is, all outputs but the last `low`
    kCounted,  // a list of integers from low to high, after their number
    kHalf,     // a list of integers from low to high: half of the numbers, beside another such list
    kList,     // a list of integers from low to high: all numbers that are left
    kPairs,    // a list of [a, b]
    kDigits,   // a list of lists of [iterator, divisor, extent], each after its length
    kName,     // Instruction::text
  };
  std::string_view name;
  Kind kind;
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> otherwise = {};  // not written where it has this value
};

inline constexpr int kAny = -1;
// A query only names blocks and loops; a sampling instruction has a decision.
enum class Flag : uint8_t { kNone, kSampling, kQuery };

// X(Kind, name, least inputs, most inputs, flag, attributes...): `name` is the text and the function run::name(Step&).
// clang-format off
#define TCC_SCHEDULE_OPS(X) \
  X(GetBlock, get_block, 0, 0, kQuery, {"name", kName}) \
  X(GetLoops, get_loops, 1, 1, kQuery) \
  X(GetProducers, get_producers, 1, 1, kQuery) \
  X(GetConsumers, get_consumers, 1, 1, kQuery) \
  X(SamplePerfectTile, sample_perfect_tile, 1, 1, kSampling, {"factors", kFactors, 0}, {"max_innermost", kInteger, 1}) \
  X(SampleTile, sample_tile, 1, 1, kSampling, {"factors", kFactors, 1}, {"max_innermost", kInteger, 1}, \
    {"multiple", kInteger, kLowest, kHighest, 1}, {"extent", kInteger, kLowest}, {"tails", kTails, 1, 7}) \
  X(SampleCategorical, sample_categorical, 0, 0, kSampling, {"candidates", kHalf, kLowest}, \
    {"weights", kHalf, 0, 1000000000}) \
  X(SampleComputeLocation, sample_compute_location, 1, 1, kSampling) \
  X(Split, split, 2, kAny, kNone) \
  X(Fuse, fuse, 1, kAny, kNone) \
  X(Reorder, reorder, 1, kAny, kNone) \
  X(ComputeAt, compute_at, 2, 2, kNone) \
  X(ReverseComputeAt, reverse_compute_at, 2, 2, kNone) \
  X(ComputeInline, compute_inline, 1, 1, kNone) \
  X(ReverseComputeInline, reverse_compute_inline, 1, 1, kNone) \
  X(CacheRead, cache_read, 1, 1, kNone, {"read", kRead, 0, kMaxReads}, {"scope", kScope}) \
  X(CacheWrite, cache_write, 1, 1, kNone, {"scope", kScope}) \
  X(DecomposeReduction, decompose_reduction, 2, 2, kNone) \
  X(Parallel, parallel, 1, 1, kNone) \
  X(Vectorize, vectorize, 1, 1, kNone) \
  X(Unroll, unroll, 1, 1, kNone) \
  X(Bind, bind, 1, 1, kNone, {"axis", kAxis}) \
  X(Annotate, annotate, 2, 2, kNone, {"key", kKey}) \
  X(TransformLayout, transform_layout, 1, 1, kNone, {"read", kRead, -1, kMaxReads}, {"order", kCounted, kLowest}, \
    {"tiles", kPairs}) \
  X(Rfactor, rfactor, 2, 2, kNone) \
  X(PadEinsum, pad_einsum, 1, 1, kNone, {"multiples", kList, kLowest}) \
  X(Tensorize, tensorize, 1, 1, kNone, {"instruction", kName}) \
  X(SetScope, set_scope, 1, 1, kNone, {"scope", kScope}) \
  X(StorageAlign, storage_align, 1, 1, kNone, {"dim", kInteger, kLowest}, {"factor", kInteger, kLowest}, \
    {"offset", kInteger, kLowest}) \
  X(Unannotate, unannotate, 1, 1, kNone, {"key", kKey}) \
  X(AddUnitLoop, add_unit_loop, 1, 1, kNone) \
  X(Blockize, blockize, 1, 1, kNone) \
  X(GetChildBlocks, get_child_blocks, 0, 1, kQuery) \
  X(GetOutputBlocks, get_output_blocks, 0, 0, kQuery) \
  X(ReadAt, read_at, 2, 2, kNone, {"read", kRead, 0, kMaxReads}, {"scope", kScope}) \
  X(WriteAt, write_at, 2, 2, kNone, {"scope", kScope}) \
  X(Reindex, reindex, 1, 1, kNone, {"read", kRead, -1, kMaxReads}) \
  X(DecomposePadding, decompose_padding, 2, 2, kNone) \
  X(TransformBlockLayout, transform_block_layout, 1, 1, kNone, {"map", kDigits}) \
  X(StreamReduction, stream_reduction, 3, 4, kNone) \
  X(Merge, merge, 2, 2, kNone) \
  X(CacheReads, cache_reads, 1, 1, kNone, {"read", kRead, 0, kMaxReads}, {"scope", kScope})
// clang-format on

enum class Op : uint8_t {
#define TCC_X(kind, ...) k##kind,
  TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
};

struct OpRow {
  Op op;
  std::string_view name;
  int min_inputs, max_inputs;  // kAny: any number
  Flag flag;
  std::vector<Attribute> attributes;
};
// By Op.
const std::vector<OpRow>& op_table();
inline const OpRow& op_row(Op op) {
  return op_table()[static_cast<size_t>(op)];
}
inline std::string_view op_name(Op op) {
  return op_row(op).name;
}
inline bool is_sampling(Op op) {
  return op_row(op).flag == Flag::kSampling;
}

}  // namespace tcc::schedule
