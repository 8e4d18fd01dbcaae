// Tiles of a vector times a constant matrix on a CPU, or of one in each of several groups:
//
//   parallel g, j0 { acc = 0; k0, k1 { vectorized j1 { acc += x[g, k] * w[g, k, j1] } }; out = f(acc) }
//
// Each weight is used once, so the rate of memory decides. The matrix is packed into panels of one or two vectors, each
// read from front to back. A tile reads several panels at a time, because one stream alone does not keep enough lines
// on their way: as many as the core model's memory_streams, or twice as many. Its vectors of independent sums hide the
// latency of an fma. At most half of the vector registers, or eight, are sums. The hardware's own prefetcher ends at
// each page, which a panel leaves after 32 or 64 rows: rows further on may be asked for ahead.
//
// A matrix that is not a constant is read as it is, row by row. Its sums are in the first-level cache:
//
//   parallel g, j0 { acc[columns] = 0; k0 { j1 { unrolled k1 { vectorized j2 { acc += x[g, k] * w[g, k, j] } } } } }
//
// Each pass over the columns reads k1 rows from front to back, and the sums once for all of them.
#include <algorithm>

#include "space/contraction.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"
#include "tcc/target/core_model.h"

namespace tcc::space {
namespace {

constexpr int64_t kMaxUnroll = 8;
constexpr int64_t kAhead = 16;    // iterations over unrolled rows
constexpr int64_t kMaxLoop = 64;  // elements of a vectorized loop; wider tiles are vectorized panel by panel

struct Gemv {
  NaiveNest nest;
  size_t column = 0, sum = 0;
  std::vector<size_t> outer, unit_sum;  // groups and what has extent 1
};

// One axis of columns that are side by side in the result, and one sum.
std::optional<Gemv> match_gemv(const Kernel& k) {
  std::optional<NaiveNest> nest = find_contraction(k);
  const auto roles = nest ? analysis::product_roles(*nest) : std::nullopt;
  if (!roles || roles->sums.size() != 1) return std::nullopt;
  const auto columns = analysis::merged(analysis::merged(roles->left, roles->right), roles->neither);
  if (columns.size() != 1 || nest->result.stride[columns[0]] != 1) return std::nullopt;
  return Gemv{*nest, columns[0], roles->sums[0], analysis::merged(roles->unit, roles->batch), roles->unit_sums};
}

// The vector is the same for all columns, the matrix can be packed.
bool packs_matrix(const Kernel& k, const Gemv& g, const SpaceOptions& options) {
  return options.pack_weights && g.nest.has_reuse(g.column) && packings_for(k, g.nest, g.column, 1).size() == 1;
}

constexpr int64_t kLeastColumns = 256;  // of a matrix that is read by rows: shorter ones are few pages
constexpr int64_t kLeastElements = int64_t{1} << 15;

// The matrix has columns side by side, and its contents are not known ahead.
bool has_rows(const Gemv& g, const SpaceOptions& options) {
  const int64_t width = g.nest.extents[g.column];
  if (width < kLeastColumns || width * g.nest.extents[g.sum] < kLeastElements) return false;
  return std::any_of(g.nest.operands.begin(), g.nest.operands.end(), [&](const analysis::Operand& o) {
    return !(o.constant && options.pack_weights) && o.stride[g.column] == 1 && o.stride[g.sum].value_or(0) >= width;
  });
}

// The epilogue in vectors, as wide as those of the sums.
bool finish_tile(Schedule& s, const Gemv& g, BlockRv epilogue, size_t depth, int64_t columns, int64_t panel) {
  if (columns <= kMaxLoop) return mark_epilogue(s, g.nest, static_cast<int>(g.column), epilogue, depth);
  std::vector<LoopRv> loops = s.get_loops(epilogue);
  if (!s.ok()) return false;
  for (size_t i = depth; i < loops.size(); ++i) {
    const Loop* l = find_loop(s.kernel().root, s.id(loops[i]));
    if (l == nullptr || !is_int(l->extent, std::min(columns, g.nest.extents[g.column]))) continue;
    std::vector<LoopRv> parts = s.split(loops[i], {{}, lit(panel)});
    if (!s.ok()) return false;
    s.unroll(parts[0]);
    s.vectorize(parts[1]);
  }
  return s.ok();
}

// What both kinds of tiles begin with.
struct TileLoops {
  BlockRv epilogue;
  std::vector<LoopRv> loops;  // of the sum
  std::vector<LoopRv> outer;  // around a tile: groups, and tiles of columns
  LoopRv columns;             // of a tile
};
std::optional<TileLoops> begin_tile(Schedule& s, const Gemv& g, BlockRv block, int64_t columns) {
  std::optional<BlockRv> epilogue = localise(s, g.nest, block);
  if (!epilogue) return std::nullopt;
  TileLoops t{*epilogue, s.get_loops(block), {}, {}};
  if (!s.ok() || t.loops.size() != g.nest.extents.size()) return std::nullopt;
  for (size_t i : g.outer) t.outer.push_back(t.loops[i]);
  const std::vector<LoopRv> parts = s.split(t.loops[g.column], {{}, lit(columns)});
  if (!s.ok()) return std::nullopt;
  t.outer.push_back(parts[0]);
  t.columns = parts[1];
  return t;
}

bool tile_rows(Schedule& s, const Gemv& g, int64_t columns, int64_t rows, int64_t vector) {
  const std::optional<TileLoops> t = begin_tile(s, g, s.get_block(g.nest.name), columns);
  if (!t) return false;
  const std::vector<LoopRv> k = s.split(t->loops[g.sum], {{}, lit(rows)});
  const std::vector<LoopRv> lanes = s.split(t->columns, {{}, lit(vector)});
  if (!s.ok()) return false;
  s.reorder(t->outer, pick(t->loops, g.unit_sum), k[0], lanes[0], k[1], lanes[1]);
  s.reverse_compute_at(t->epilogue, t->outer.back());
  if (!s.ok() || !finish_tile(s, g, t->epilogue, t->outer.size(), columns, vector)) return false;
  s.unroll(k[1]);
  s.vectorize(lanes[1]);
  fuse_parallel(s, t->outer);
  return s.ok();
}

bool tile(Schedule& s, const Gemv& g, int64_t columns, int64_t panel) {
  BlockRv block = s.get_block(g.nest.name);
  for (const Packing& p : packings_for(s.kernel(), g.nest, g.column, panel)) pack(s, block, p);
  const std::optional<TileLoops> t = begin_tile(s, g, block, columns);
  if (!t) return false;
  const LoopRv sum = t->loops[g.sum];
  std::vector<LoopRv> k = s.split(sum, s.sample_perfect_tile(sum, 2, kMaxUnroll));
  std::vector<LoopRv> lanes = {t->columns};
  if (columns > kMaxLoop) lanes = s.split(t->columns, {{}, lit(panel)});
  if (!s.ok()) return false;
  s.reorder(t->outer, pick(t->loops, g.unit_sum), k[0], k[1], lanes);
  s.reverse_compute_at(t->epilogue, t->outer.back());
  if (!s.ok() || !finish_tile(s, g, t->epilogue, t->outer.size(), columns, panel)) return false;
  s.unroll(k[1]);
  prefetch_block(s, k[0], kAhead);
  if (lanes.size() > 1) s.unroll(lanes[0]);
  s.vectorize(lanes.back());
  fuse_parallel(s, t->outer);
  return s.ok();
}

}  // namespace

Ways gemv_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  const std::optional<Gemv> g = match_gemv(state.kernel());
  const bool packs = g && packs_matrix(state.kernel(), *g, options);
  if (!g || (!packs && !has_rows(*g, options))) return {state};
  int64_t lanes = vector_lanes(target, state.kernel().buffer(g->nest.store->buffer)->type);
  Ways ways;
  for (int64_t columns : {512, 1024, 2048})
    for (int64_t rows : {4, 8})
      if (!packs && (columns == 512 || columns <= g->nest.extents[g->column]))
        ways.attempt(state, [&](Schedule& s) { return tile_rows(s, *g, columns, rows, 4 * lanes); });
  if (!packs) return ways.or_else(state);
  const auto streams = static_cast<int64_t>(std::min(target::core_model(target).memory_streams, 64.0));
  // Panels of a tile, and the vectors of each.
  for (const auto& [panels, vectors] :
       {std::pair<int64_t, int64_t>{streams, 2}, {streams, 1}, {2 * streams, 1}, {2 * streams, 2}}) {
    if (2 * panels * vectors > std::max<int64_t>(target.cpu.num_vector_registers, 16)) continue;
    ways.attempt(state, [&, width = vectors * lanes](Schedule& s) { return tile(s, *g, panels * width, width); });
  }
  return ways.or_else(state);
}

}  // namespace tcc::space
