// Results that transpose an operand on a CPU: squares of elements that are transposed in registers.
//
//   for p { for q { y[p, q] = g(x[q, p]) } }
//
//   parallel p0 { q0 { p1 unrolled { q1 vectorized { y[p0*P + p1, q0*Q + q1] = g(x[q0*Q + q1, p0*P + p1]) } } } }
//
// The columns p1 of Q rows are read as rows of P elements (lower's transpose_accesses). Both sides have whole lines of
// the cache: Q is a register's elements, P at most as many. Rows of the result or of the operand may follow each other:
// both orders are sketches. Results beyond the second-level cache are made in blocks instead: a few lines along rows of
// the operand, so that they are read as runs, and one or two along rows of the result. A block's lines stay in the
// first caches until all of their elements are used, also where rows are a power of two apart, and its pages in the
// first TLB. Tiles and blocks at the end begin earlier and overlap their neighbors, so that all of them are whole.
//
// Two or three rows whose elements alternate in the operand, as the colors of an image, are picked from strips of it:
//
//   for p in 3 { for q { y[p, q] = x[q, p] } }
//
//   parallel q0 { p { q1 { q2 vectorized { y[p, ...] = x[..., p] } } } }
//
// Rows that keep their elements, but change places, are moved in blocks, too, where results go past the caches:
//
//   for p { for q { y[p, q, :] = x[q, p, :] } }  ->  parallel q0 { p { q1 { y[p, q0*Q + q1, :] = ... } } }
//
// Q rows of the result are a run of two kilobytes, and the operand is read as Q runs.
#include <algorithm>
#include <bit>

#include "space/transposed.h"
#include "tcc/analysis/lanes.h"
#include "tcc/space/space.h"
#include "tcc/target/last_cache.h"

namespace tcc::space {
namespace {

constexpr int64_t kMaxRows = 16;  // squares of more rows need more registers than there are
constexpr int64_t kMinWoven = 2, kStripBytes = 8192;

// Of a block: lines along the operand's rows; bytes along the result's; rows of the operand, at most.
constexpr int64_t kBlockLines = 4, kResultBytes = 128, kBlockRows = 64;
constexpr int64_t kMovedBytes = 2048;  // of rows that keep their elements: a run of the result
constexpr int64_t kUnrolledVectors = 8;
// Bytes between lines of which a first-level cache of 64 sets keeps all in two.
constexpr int64_t kFewSets = 2048;

enum class Order { kAlongResult, kAlongOperand, kBlocks };

int64_t floor_power(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
}

// The last tile of the loop begins earlier and overlaps its neighbor.
void shift_tail(Schedule& s, LoopRv loop) {
  s.annotate(loop, AnnotationKey::kTail, lit(static_cast<int64_t>(TailMode::kShift)));
}

// An axis in tiles, or in blocks of tiles.
struct Tiles {
  LoopRv outer;          // over blocks, or tiles
  LoopRv middle, inner;  // over a block's tiles, where it has blocks; over a tile's elements
  bool blocked = false, uneven = false;
};

// Blocks have `wanted` elements, or up to twice as many: they are alike, so that little of the last one overlaps its
// neighbor. 0: no blocks.
Tiles split_axis(Schedule& s, LoopRv loop, int64_t extent, int64_t tile, int64_t wanted) {
  const int64_t tiles = (extent + tile - 1) / tile;
  const int64_t alike = wanted == 0 ? 1 : std::max<int64_t>(tiles / std::max<int64_t>(wanted / tile, 1), 1);
  const int64_t of_block = (tiles + alike - 1) / alike, blocks = (tiles + of_block - 1) / of_block;
  Tiles made{{}, {}, {}, blocks > 1, extent % (blocks > 1 ? of_block * tile : tile) != 0};
  const std::vector<LoopRv> parts =
      made.blocked ? s.split(loop, {{}, lit(of_block), lit(tile)}) : s.split(loop, {{}, lit(tile)});
  if (!s.ok()) return made;
  made.outer = parts[0], made.middle = parts[1], made.inner = parts.back();
  return made;
}

bool tile(Schedule& s, const NaiveNest& nest, const Transposed& t, Order order, const target::Target& target) {
  const BlockRv block = s.get_block(nest.name);
  const std::vector<LoopRv> loops = s.get_loops(block);
  const Type type = s.kernel().buffer(nest.store->buffer)->type;
  const int64_t lanes = std::min(vector_lanes(target, type), floor_power(nest.extents[t.inner]));
  const int64_t rows = std::min({lanes, kMaxRows, floor_power(nest.extents[t.outer])});
  if (rows < analysis::kMinTransposed) return false;
  const bool blocks = order == Order::kBlocks;
  const int64_t bytes = type_bytes(type), line = target.cpu.cache_line_bytes;
  const Tiles inner = split_axis(s, loops[t.inner], nest.extents[t.inner], lanes,
                                 blocks ? std::min(kResultBytes / bytes, kBlockRows) : 0);
  const Tiles outer =
      split_axis(s, loops[t.outer], nest.extents[t.outer], rows, blocks ? kBlockLines * line / bytes : 0);
  if (!s.ok() || (blocks && !inner.blocked && !outer.blocked)) return false;
  std::vector<LoopRv> parallel;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != t.inner && i != t.outer) parallel.push_back(loops[i]);
  const bool inner_first = order == Order::kAlongOperand || (blocks && inner.blocked);
  const Tiles &first = inner_first ? inner : outer, &second = inner_first ? outer : inner;
  parallel.push_back(first.outer);
  std::vector<LoopRv> all = parallel;
  if (second.blocked) all.push_back(second.outer);
  // In a block tiles follow each other along the operand: loads wait for memory, stores do not.
  const bool along_operand = blocks || order == Order::kAlongOperand;
  for (const Tiles* axis : {along_operand ? &inner : &outer, along_operand ? &outer : &inner})
    if (axis->blocked || axis == &second) all.push_back(axis->blocked ? axis->middle : axis->outer);
  all.insert(all.end(), {outer.inner, inner.inner});
  s.reorder(all);
  s.unroll(outer.inner);
  s.vectorize(inner.inner);
  LoopRv fused;
  if (!s.ok() || !fuse_parallel(s, parallel, &fused)) return false;
  if (first.uneven) shift_tail(s, fused);
  if (second.uneven) shift_tail(s, second.outer);
  stream_large_output(s, fused, target);
  return s.ok();
}

// Of results p < 4 that alternate in the operand: a strip of q stays in the first cache while each p picks its
// elements. All p at once would store to rows that are often whole pages apart, which delays loads that have a store's
// place in a page.
bool pick_rows(Schedule& s, const NaiveNest& nest, const Transposed& t, const target::Target& target) {
  const Type type = s.kernel().buffer(nest.store->buffer)->type;
  const int64_t lanes = vector_lanes(target, type), extent = nest.extents[t.inner];
  if (extent < lanes) return false;
  const std::vector<LoopRv> loops = s.get_loops(s.get_block(nest.name));
  const Tiles inner =
      split_axis(s, loops[t.inner], extent, lanes, kStripBytes / (type_bytes(type) * nest.extents[t.outer]));
  if (!s.ok()) return false;
  // In the operand's order, whose lines hold elements of all p.
  std::vector<size_t> others;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != t.inner && i != t.outer) others.push_back(i);
  const auto read = std::find_if(nest.operands.begin(), nest.operands.end(), [&](const analysis::Operand& o) {
    return o.load->buffer == t.operands[0] && o.stride[t.outer] == 1;
  });
  std::stable_sort(others.begin(), others.end(),
                   [&](size_t a, size_t b) { return read->stride[a].value_or(0) > read->stride[b].value_or(0); });
  std::vector<LoopRv> parallel;
  for (size_t i : others) parallel.push_back(loops[i]);
  if (inner.blocked) parallel.push_back(inner.outer);
  std::vector<LoopRv> all = parallel;
  const LoopRv tiles = inner.blocked ? inner.middle : inner.outer;
  all.insert(all.end(), {loops[t.outer], tiles, inner.inner});
  s.reorder(all);
  s.vectorize(inner.inner);
  LoopRv fused;
  if (!s.ok() || (!parallel.empty() && !fuse_parallel(s, parallel, &fused))) return false;
  if (inner.uneven) shift_tail(s, inner.blocked ? fused : tiles);
  if (!parallel.empty()) stream_large_output(s, fused, target);
  return s.ok();
}

// Blocks are faster for certain where stores go past the caches in whole lines, and where tiles use parts of lines that
// are in few sets of a cache: rows of the operand are a large power of two apart.
bool needs_blocks(const Kernel& k, const NaiveNest& nest, const Transposed& t, const target::Target& target) {
  const int64_t bytes = type_bytes(k.buffer(nest.store->buffer)->type);
  const auto cache = static_cast<double>(target::last_cache_bytes(target.cpu));
  if (nest.extents[t.inner] * bytes % target.cpu.cache_line_bytes == 0 && output_bytes(k) > cache) return true;
  return kMaxRows * bytes < target.cpu.cache_line_bytes &&
         std::any_of(
             nest.operands.begin(), nest.operands.end(),
             [&](const analysis::Operand& o) {
               return o.stride[t.outer] == 1 && o.stride[t.inner].value_or(1) * bytes % kFewSets == 0;
             });
}

// Rows that change places: `inner` moves by one element in the result and an operand, `result` by the least of all
// other iterators in the result, `operand` in the operand.
struct MovedRows {
  size_t inner = 0, result = 0, operand = 0;
};

// The iterator whose stride is the least, but for `other`.
std::optional<size_t> innermost(const NaiveNest& nest, const analysis::Operand& operand, std::optional<size_t> other) {
  std::optional<size_t> least;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (nest.extents[i] == 1 || i == other || operand.stride[i].value_or(0) <= 0) continue;
    if (!least || *operand.stride[i] < *operand.stride[*least]) least = i;
  }
  return least;
}

std::optional<MovedRows> find_moved_rows(const NaiveNest& nest, int64_t lanes) {
  const std::optional<size_t> inner = innermost(nest, nest.result, std::nullopt);
  if (!inner || nest.is_reduction() || nest.result.stride[*inner] != 1 || nest.extents[*inner] < lanes) return {};
  const std::optional<size_t> result = innermost(nest, nest.result, inner);
  for (const analysis::Operand& o : nest.operands) {
    if (o.stride[*inner] != 1 || o.load->predicate != nullptr) continue;
    const std::optional<size_t> operand = innermost(nest, o, inner);
    if (!result || !operand || *operand == *result) continue;
    // Rows that serve several results do not change places.
    if (o.stride[*result].value_or(0) > *o.stride[*operand]) return MovedRows{*inner, *result, *operand};
  }
  return {};
}

// Only where stores go past the caches.
bool move_rows(Schedule& s, const NaiveNest& nest, const target::Target& target) {
  const Type type = s.kernel().buffer(nest.store->buffer)->type;
  const int64_t lanes = vector_lanes(target, type);
  const std::optional<MovedRows> moved = find_moved_rows(nest, lanes);
  if (!moved || std::any_of(nest.group.begin(), nest.group.end(), [](int64_t g) { return g != 0; })) return false;
  const int64_t row = nest.extents[moved->inner], rows = kMovedBytes / (row * type_bytes(type));
  if (rows < 2 || nest.extents[moved->result] <= rows) return false;
  const std::vector<LoopRv> loops = s.get_loops(s.get_block(nest.name));
  const std::vector<LoopRv> run = s.split(loops[moved->result], {{}, lit(rows)});
  const std::vector<LoopRv> vectors = s.split(loops[moved->inner], {{}, lit(lanes)});
  if (!s.ok()) return false;
  std::vector<LoopRv> parallel, all;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != moved->inner && i != moved->result && i != moved->operand) parallel.push_back(loops[i]);
  parallel.push_back(run[0]);
  all = parallel;
  all.insert(all.end(), {loops[moved->operand], run[1], vectors[0], vectors[1]});
  s.reorder(all);
  if (row / lanes <= kUnrolledVectors) s.unroll(vectors[0]);
  s.vectorize(vectors[1]);
  LoopRv fused;
  if (!s.ok() || !fuse_parallel(s, parallel, &fused)) return false;
  if (row % lanes != 0) shift_tail(s, vectors[0]);
  if (nest.extents[moved->result] % rows != 0) shift_tail(s, fused);
  stream_large_output(s, fused, target);
  return s.ok();
}

}  // namespace

Ways transpose_tiling(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  Ways ways;
  // Below, lines and pages stay where they are until they are read again.
  const bool large = 2 * output_bytes(state.kernel()) > static_cast<double>(target.cpu.l2_bytes);
  if (output_bytes(state.kernel()) > static_cast<double>(target::last_cache_bytes(target.cpu))) {
    Schedule moved = state;
    for (const Block* b : collect_blocks(state.kernel().root)) {
      if (has_scheduled_loop(state.kernel(), b->id)) continue;
      const std::optional<NaiveNest> nest = naive_nest(state.kernel(), *b);
      Schedule trial = moved;
      if (!nest || !move_rows(trial, *nest, target)) continue;
      moved = std::move(trial);
      ways.states = {moved};
    }
    if (!ways.states.empty()) return ways;
  }
  for (Order order : {Order::kBlocks, Order::kAlongResult, Order::kAlongOperand}) {
    if (order == Order::kBlocks && !large) continue;
    Schedule tiled = state;
    bool any = false, enough = false;
    for (const Block* b : collect_blocks(state.kernel().root)) {
      if (has_scheduled_loop(state.kernel(), b->id)) continue;
      const std::optional<NaiveNest> nest = naive_nest(state.kernel(), *b);
      const std::optional<Transposed> found =
          nest ? find_transposed(*nest, analysis::kMinTransposed, kMinWoven) : std::nullopt;
      if (!found || nest->group[found->inner] != 0 || nest->group[found->outer] != 0) continue;
      Schedule trial = tiled;
      const bool woven = nest->extents[found->outer] < analysis::kMinTransposed;
      if (woven && order != Order::kAlongResult) continue;
      if (woven ? pick_rows(trial, *nest, *found, target) : tile(trial, *nest, *found, order, target)) {
        tiled = std::move(trial);
        any = true;
        enough |= order == Order::kBlocks && needs_blocks(state.kernel(), *nest, *found, target);
      } else if (!trial.ok()) {
        ways.rejects.add(trial.reject());
      }
    }
    if (any) ways.states.push_back(std::move(tiled));
    if (enough) break;
  }
  if (ways.states.empty()) ways.states.push_back(state);
  return ways;
}

}  // namespace tcc::space
