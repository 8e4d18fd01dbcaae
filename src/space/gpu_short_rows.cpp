// Sums of short rows whose length no wide vector divides: a block's rows come into shared memory as one run, in
// vectors, and a thread sums up a row.
//
//   for r, k in 49 { out[r] += x[r, k] }
//
//   grid g { f @cooperative_fetch { X[f] = x[g*T.., f] }                 shared: T rows of 49 elements
//            thread.x t in T { acc = 0; k unrolled { acc += X[t, k] }; out[g*T + t] = acc } }
//
// Every row begins at another place within a vector, but T rows together begin at multiples of it. Lanes read at a
// distance of a row; where that is an odd number of words, no two of them meet in a bank.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/gpu.h"
#include "space/gpu_row_blocks.h"
#include "tcc/ir/gpu_sizes.h"

namespace tcc::space {
namespace {

constexpr int64_t kLongest = 64;      // terms of a row
constexpr int64_t kMaxBytes = 24576;  // of a block's rows: several blocks share a multiprocessor
constexpr int64_t kLarge = 128;       // threads of a block
constexpr std::array<int64_t, 5> kThreads = {32, 64, 128, 256, 512};

struct ShortRows {
  std::vector<int64_t> threads;  // rows of a block
  size_t rows = 0;               // iterator of neighboring rows
  size_t read = 0;               // of the block's distinct reads, the operand
};

// The only operand is a tensor whose innermost dimensions are the terms, in order.
std::optional<ShortRows> find_short_rows(const Kernel& k, const NaiveNest& nest, const target::Target& target) {
  if (!nest.is_reduction() || nest.block->init == nullptr || nest.operands.size() != 1) return std::nullopt;
  const analysis::Operand& operand = nest.operands[0];
  const Buffer& x = *k.buffer(operand.load->buffer);
  if (x.role == BufferRole::kTemp || operand.load->predicate != nullptr) return std::nullopt;
  int64_t length = 1;
  for (size_t i = nest.extents.size(); i-- > 0;) {
    if (!nest.reduce[i] || nest.extents[i] == 1) continue;
    if (operand.stride[i] != length) return std::nullopt;
    length *= nest.extents[i];
  }
  const int64_t bytes = type_bytes(x.type);
  if (length < 2 || length > kLongest || length * bytes % kMaxAccessBytes == 0) return std::nullopt;
  ShortRows out;
  bool found = false;
  for (size_t i = 0; i < nest.extents.size(); ++i)
    if (!nest.reduce[i] && nest.extents[i] > 1 && operand.stride[i] == length) out.rows = i, found = true;
  if (!found) return std::nullopt;
  // Small blocks leave most threads of a multiprocessor unused, which holds few blocks.
  double rows = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) rows *= nest.reduce[i] ? 1 : static_cast<double>(nest.extents[i]);
  const int64_t least = rows >= static_cast<double>(kLarge * target.cuda.sm_count) ? kLarge : 1;
  for (int64_t n : kThreads)
    if (n >= least && n <= target.cuda.max_threads_per_block && nest.extents[out.rows] % n == 0 &&
        n * length * bytes <= kMaxBytes)
      out.threads.push_back(n);
  const std::vector<Id> reads = schedule::read_buffers(k, nest.block->id);
  out.read = static_cast<size_t>(std::find(reads.begin(), reads.end(), x.id) - reads.begin());
  if (out.threads.empty() || out.read >= reads.size()) return std::nullopt;
  return out;
}

bool schedule_rows(Schedule& s, const NaiveNest& nest, const ShortRows& rows) {
  BlockRv block = s.get_block(nest.name);
  const std::optional<BlockRv> reader = localise(s, nest, block);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!reader || !s.ok() || loops.size() != nest.extents.size()) return false;
  std::vector<LoopRv> parts = s.split(loops[rows.rows], std::array{ExprRv{}, sample_uniform(s, rows.threads)});
  if (!s.ok()) return false;
  std::vector<LoopRv> around, terms;
  for (size_t i = 0; i < loops.size(); ++i)
    if (nest.reduce[i])
      terms.push_back(loops[i]);
    else
      around.push_back(i == rows.rows ? parts[0] : loops[i]);
  std::vector<LoopRv> order = around;
  order.push_back(parts[1]);
  order.insert(order.end(), terms.begin(), terms.end());
  s.reorder(order);
  LoopRv grid = fuse_all(s, around);
  s.bind(grid, Axis::kGridX);
  s.bind(parts[1], Axis::kThreadX);
  s.unroll(fuse_all(s, terms));
  s.reverse_compute_at(*reader, parts[1]);
  BlockRv copy = s.cache_read(block, static_cast<int>(rows.read), Scope::kShared);
  s.compute_at(copy, grid);
  if (!s.ok()) return false;
  cooperative_fetch(s, copy, 1, {kMaxAccessBytes / type_bytes(nest.operands[0].load->type)});
  return s.ok();
}

}  // namespace

Ways gpu_short_rows(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  Ways ways;
  const std::optional<Rows> rows = find_rows(state.kernel());
  if (!rows) return {state};
  const std::vector<std::string> sums = unscheduled_blocks(state.kernel());
  const std::string& name = rows->last_reduces || rows->reductions.empty() ? rows->last : rows->reductions[0];
  const bool whole = std::all_of(rows->is_row.begin(), rows->is_row.end(), [](bool row) { return row; });
  const bool one = rows->last_reduces ? rows->reductions.empty() : whole && rows->reductions.size() == 1;
  if (!one || std::find(sums.begin(), sums.end(), name) == sums.end()) return {state};
  const Block* block = find_block(state.kernel().root, schedule::find_block_by_name(state.kernel(), name));
  const std::optional<NaiveNest> nest = naive_nest(state.kernel(), *block);
  if (!nest) return {state};
  if (const std::optional<ShortRows> found = find_short_rows(state.kernel(), *nest, target))
    ways.attempt(state, [&](Schedule& s) { return schedule_rows(s, *nest, *found); });
  return std::move(ways.or_also(state));
}

}  // namespace tcc::space
