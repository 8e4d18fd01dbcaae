// Multi-level tiling for GPUs, "SSSRRSRS" (MetaSchedule, appendix; Ansor, section 4.1):
//
//   grid (S0...) { vthread S1... { threads S2... {
//     acc = 0
//     R0... { As = A; Bs = B          shared, fetched by all threads together
//             R1... S3... R2... S4... { acc += As * Bs } }
//     C = acc } } }
//
// Thread and virtual-thread loops are bound each by itself, to thread.x, y and z, instead of fused and bound to
// thread.x: that is the same numbering of threads, and the regions of shared copies stay boxes while tile sizes are
// symbols. Three iterators at most are spread over threads; others have tiles in the grid and in registers.
//
// A product of matrices has a second form: the shared copy of each operand holds one term of the sum in a row, As[k, i]
// and Bs[k, j]. What a thread multiplies are neighbors there, whatever the layout in memory, so that it reads 16 bytes
// at a time (CUTLASS, SIMT GEMM). Copies go through memory in its own order. Columns have two tiles for threads, around
// and within that of rows, so that a warp may be 4 x 8 lanes: half of it then reads 128 bytes of an operand at most,
// which the banks deliver at once. On an H100 the first form reached 11 TFLOP/s at 4095x4093x4091, this one 43.
// Convolutions, which are products when their iterators are fused, do without: the draft's columns do not know the
// divisions of their addresses.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/gpu_product.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kMostPadded = 64;   // multiples to which a product's extents are padded, at most
constexpr int64_t kPaddedShare = 32;  // and by no more than this part of them
constexpr int64_t kFewDivisors = 8;   // an extent whose largest divisor below the limit is smaller is tiled freely

struct Tiles {
  std::vector<LoopRv> s[5], r[3];
};

// Iterators that are spread over threads, x first: the one contiguous in the result, then the largest.
std::vector<size_t> thread_iters(const NaiveNest& nest) {
  std::vector<size_t> order;
  for (size_t i = 0; i < nest.extents.size(); ++i)
    if (!nest.reduce[i] && nest.tiled_extent(i) > 1) order.push_back(i);
  auto contiguous = [&](size_t i) { return nest.result.stride[i] == 1; };
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    if (contiguous(x) != contiguous(y)) return contiguous(x);
    return nest.tiled_extent(x) > nest.tiled_extent(y);
  });
  if (order.size() > 3) order.resize(3);
  return order;
}

std::vector<ExprRv> sample(Schedule& s, LoopRv loop, int64_t extent, int parts, int64_t limit) {
  const bool free = extent > limit && best_divisor(extent, limit) < kFewDivisors;
  return free ? s.sample_tile(loop, parts, limit) : s.sample_perfect_tile(loop, parts, limit);
}

Tiles split_all(Schedule& s, const NaiveNest& nest, const std::vector<LoopRv>& loops,
                const std::vector<size_t>& threads, const GpuSpaceOptions& options) {
  Tiles t;
  // Along threads.x last, so that the innermost loops of each level are the contiguous ones.
  std::vector<size_t> order;
  for (size_t i = 0; i < loops.size(); ++i)
    if (std::find(threads.begin(), threads.end(), i) == threads.end()) order.push_back(i);
  order.insert(order.end(), threads.rbegin(), threads.rend());
  for (size_t i : order) {
    LoopRv loop = loops[i];
    if (nest.reduce[i]) {
      std::vector<LoopRv> parts = s.split(loop, sample(s, loop, nest.extents[i], 3, options.max_innermost));
      for (size_t p = 0; p < parts.size(); ++p) t.r[p].push_back(parts[p]);
      continue;
    }
    if (nest.group[i] > 0) {
      std::vector<LoopRv> groups = s.split(loop, std::array{lit(nest.extents[i] / nest.group[i]), lit(nest.group[i])});
      if (!s.ok()) return t;
      t.s[0].push_back(groups[0]);
      loop = groups[1];
    }
    const int64_t extent = nest.tiled_extent(i);
    if (extent == 1) {
      t.s[0].push_back(loop);
      continue;
    }
    static constexpr std::array<size_t, 5> kAll = {0, 1, 2, 3, 4};
    static constexpr std::array<size_t, 3> kSerial = {0, 3, 4};
    const bool spread = std::find(threads.begin(), threads.end(), i) != threads.end();
    const std::span<const size_t> levels = spread ? std::span<const size_t>(kAll) : std::span<const size_t>(kSerial);
    std::vector<LoopRv> parts =
        s.split(loop, sample(s, loop, extent, static_cast<int>(levels.size()), options.max_innermost));
    for (size_t p = 0; p < parts.size(); ++p) t.s[levels[p]].push_back(parts[p]);
  }
  return t;
}

bool tile(Schedule& s, const NaiveNest& nest, const target::Target& target, const GpuSpaceOptions& options) {
  // Step 1. The accumulator.
  BlockRv block = s.get_block(nest.name);
  BlockRv result = s.cache_write(block, Scope::kLocal);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != nest.extents.size()) return false;

  // Step 2. Tiles, and what runs them.
  const std::vector<size_t> threads = thread_iters(nest);
  Tiles t = split_all(s, nest, loops, threads, options);
  if (!s.ok() || t.s[2].empty()) return false;
  std::vector<LoopRv> order;
  for (const std::vector<LoopRv>* level : {&t.s[0], &t.s[1], &t.s[2], &t.r[0], &t.r[1], &t.s[3], &t.r[2], &t.s[4]})
    order.insert(order.end(), level->begin(), level->end());
  s.reorder(order);
  LoopRv grid = fuse_all(s, t.s[0]);
  s.bind(grid, Axis::kGridX);
  for (LoopRv l : t.s[1]) s.bind(l, Axis::kVthread);
  static constexpr std::array<Axis, 3> kAxes = {Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ};
  for (size_t i = 0; i < t.s[2].size(); ++i) s.bind(t.s[2][t.s[2].size() - 1 - i], kAxes[i]);
  double domain = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) domain *= nest.reduce[i] ? 1 : static_cast<double>(nest.extents[i]);
  if (domain > static_cast<double>(2 * target.cuda.warp_size))
    s.annotate(grid, AnnotationKey::kMinThreads, lit(target.cuda.warp_size));

  // Step 3. The result leaves its thread; what is read comes through shared memory.
  s.reverse_compute_at(result, t.s[2].back());
  const size_t reads = s.ok() ? schedule::read_buffers(s.kernel(), s.id(block)).size() : 0;
  const size_t depth = 1 + t.s[1].size() + t.s[2].size() + t.r[0].size();
  for (size_t r = 0; r < reads && s.ok(); ++r) {
    BlockRv copy = s.cache_read(block, static_cast<int>(r), Scope::kShared);
    s.compute_at(copy, t.r[0].back());
    cooperative_fetch(s, copy, depth, options.vector_lengths);
  }
  if (s.ok() && reads > 0) s.annotate(t.r[0].back(), AnnotationKey::kPipelineDepth, sample_uniform(s, options.stages));
  return s.ok();
}

// The largest power of two whose multiples the extent can be padded to at little cost.
int64_t padding_multiple(int64_t extent) {
  int64_t multiple = 1;
  for (int64_t n = 2; n <= kMostPadded; n *= 2)
    if ((n - extent % n) % n * kPaddedShare <= extent) multiple = n;
  return multiple;
}

// One iterator each for rows, columns and terms: no address of a copy has divisions.
bool is_of_matrices(const ProductForm& form) {
  return form.rows.size() == 1 && form.columns.size() == 1 && form.sums.size() == 1;
}

// Iterators batch..., k, i, j; operands [batch, k, i] and [batch, k, j] in shared memory. Which of the two last
// dimensions of an operand's copy are neighbors in memory: that of the sum?
bool ends_in_sum(const ProductForm& form, size_t operand) {
  const Expr last = form.nest.loads[operand]->indices.back();
  auto moves = [&](const std::vector<size_t>& iters) { return mentions(last, form.nest.iter(iters[0])); };
  return moves(form.sums) && !moves(form.rows) && !moves(form.columns);
}

bool tile_product(Schedule& s, const ProductForm& form, const target::Target& target, const GpuSpaceOptions& options) {
  // Step 1. The iterators in order, and copies of operands in the order of theirs.
  BlockRv block = s.get_block(form.nest.name);
  std::vector<std::vector<schedule::IterDigit>> map;
  std::vector<int64_t> extents, multiples;
  bool grows = false;
  auto add = [&](size_t iter, bool pads) {
    const int64_t extent = form.nest.extents[iter];
    map.push_back({{static_cast<int64_t>(iter), 1, extent}});
    multiples.push_back(pads ? padding_multiple(extent) : 1);
    extents.push_back((extent + multiples.back() - 1) / multiples.back() * multiples.back());
    grows = grows || extents.back() > extent;
  };
  for (size_t iter : form.batch) add(iter, false);
  for (size_t iter : {form.sums[0], form.rows[0], form.columns[0]}) add(iter, true);
  s.transform_block_layout(block, map);
  for (int operand : {0, 1}) s.reindex(block, operand);
  if (!form.plain) s.reindex(block, -1);
  if (grows) s.pad_einsum(block, multiples);
  BlockRv result = s.cache_write(block, Scope::kLocal);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != map.size()) return false;

  // Step 2. Tiles, and what runs them.
  const size_t k = loops.size() - 3;
  std::array<std::vector<LoopRv>, 5> tiles;
  std::vector<LoopRv> grid(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(k)), order;
  std::vector<LoopRv> terms = s.split(loops[k], sample(s, loops[k], extents[k], 3, options.max_innermost));
  std::vector<LoopRv> rows = s.split(loops[k + 1], sample(s, loops[k + 1], extents[k + 1], 5, options.max_innermost));
  std::vector<LoopRv> columns =
      s.split(loops[k + 2], sample(s, loops[k + 2], extents[k + 2], 6, options.max_innermost));
  if (!s.ok()) return false;
  tiles = {std::vector{rows[0], columns[0]},
           {rows[1], columns[1]},
           {columns[2], rows[2], columns[3]},
           {rows[3], columns[4]},
           {rows[4], columns[5]}};
  grid.insert(grid.end(), tiles[0].begin(), tiles[0].end());
  for (const std::vector<LoopRv>& level : {grid, tiles[1], tiles[2], std::vector{terms[0]}, std::vector{terms[1]},
                                           tiles[3], std::vector{terms[2]}, tiles[4]})
    order.insert(order.end(), level.begin(), level.end());
  s.reorder(order);
  LoopRv blocks = fuse_all(s, grid);
  s.bind(blocks, Axis::kGridX);
  for (LoopRv l : tiles[1]) s.bind(l, Axis::kVthread);
  for (size_t i = 0; i < 3; ++i) s.bind(tiles[2][2 - i], std::array{Axis::kThreadX, Axis::kThreadY, Axis::kThreadZ}[i]);
  s.annotate(blocks, AnnotationKey::kMinThreads, lit(target.cuda.warp_size));

  // Step 3. The result leaves its thread; operands come through shared memory.
  s.reverse_compute_at(result, tiles[2].back());
  const size_t depth = 1 + tiles[1].size() + tiles[2].size() + 1;
  for (size_t r = 0; r < 2 && s.ok(); ++r) {
    BlockRv copy = s.cache_read(block, static_cast<int>(r), Scope::kShared);
    s.compute_at(copy, terms[0]);
    std::vector<LoopRv> around = s.get_loops(copy);
    if (!s.ok() || around.size() < depth + 2) return false;
    // A thread's neighbors in memory are not neighbors in the copy then, and asynchronous copies move one at a time:
    // lanes that are neighbors should move neighbors.
    const bool turned = ends_in_sum(form, r);
    if (turned) s.reorder(std::vector{around.back(), around[around.size() - 2]});
    cooperative_fetch(s, copy, depth,
                      turned && target.cuda.features.cp_async ? std::vector<int64_t>{1} : options.vector_lengths);
  }
  s.annotate(terms[0], AnnotationKey::kPipelineDepth, sample_uniform(s, options.stages));
  return s.ok();
}

}  // namespace

Ways gpu_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<NaiveNest> nest = find_reuse(state.kernel());
  if (!nest) return {state};
  Ways ways;
  ways.attempt(state, [&](Schedule& s) { return tile(s, *nest, target, options.gpu); });
  Schedule found = state;
  if (const std::optional<ProductForm> form = match_gpu_product(found); form && is_of_matrices(*form))
    ways.attempt(found, [&](Schedule& s) { return tile_product(s, *form, target, options.gpu); });
  return ways.or_else(state);
}

}  // namespace tcc::space
