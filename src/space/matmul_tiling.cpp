// Tiles of a matrix product on a CPU:
//
//   parallel (batch, j0, i0) { j1 { acc = 0; k0, k1 { unrolled i2 { vectorized j2 { acc += ... } } }; out = f(acc) } }
//
// The register tile i2 x j2 is what the machine allows (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", section 4.2.3, and Low et al., "Analytical Modeling Is Enough for High-Performance BLIS", section
// 4.1): enough independent sums to hide the latency of an fma, fewer loads than fmas, and everything in registers. A
// few of the best tiles by that reckoning are sketches of their own; they need not divide the extents. What is left to
// sample: j1, the panels of the right operand that stay in the cache while the rows pass by (one panel: it stays in the
// first level; all of them: a row of the left operand does), and how far the reduction is written out.
//
// Rows of the result that are not much longer than a tile waste vectors at their ends. Where the constant can be packed
// along its other dimension, tiles transposed by a quarter compete, whose lanes run over what are rows otherwise, and
// which leave transposed. There every tile of a panel reads all of the constant's panel again, which the first-level
// cache does not hold: the sum is blocked around the tiles, j1, k0, i1, k1, and the sums of all rows wait in a local
// buffer (conv_tiling.cpp has the same). Where few panels are left for each thread, threads share the rows, too.
//
// An operand that the caller brings and that is stored transposed, the keys of an attention, is copied with its
// columns side by side: panels of all of it in front of the nest, or the part that one product of a batch or the tiles
// of one panel need, right where it is used. The copy transposes squares in registers
// (codegen/llvm/transpose_accesses.cpp). One whose columns are side by side is copied, too, where many rows read it:
// the rows of a panel are far apart otherwise, and those a power of two apart drive each other out of the caches.
//
// A short sum writes about as much as it reads. Panels in turn would write a piece of each row: where the cache keeps
// the right operand, the tiles of a row of tiles follow each other. A tile of a very short sum has few operations that
// hide the writes of its rows, and asks for the lines of the next one.
//
// Otherwise a tile takes the whole sum: with the constant packed into panels that are read in order, blocks of the sum
// have nothing to win that pays for writing tiles and reading them again.
#include <algorithm>
#include <numeric>

#include "space/contraction.h"
#include "space/padding.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr size_t kTiles = 4;
constexpr int64_t kMaxVectors = 4, kMaxUnroll = 8;
constexpr int64_t kShortRowVectors = 16;  // vectors
constexpr int64_t kMinCopiedRows = 8;     // of the result, for which the copy of a transposed operand pays
constexpr int64_t kMinCopiedTiles = 4;    // of a panel, for which the copy of another one does
constexpr int64_t kVeryShortSum = 16, kShortSum = 128;
constexpr int64_t kMaxCopy = 64 << 10;    // bytes of a copy for one product
constexpr int64_t kMaxPanel = 256 << 10;  // bytes of a copy for one panel

// Iterators of the contraction: row and column of the result, and what is summed over.
struct Matmul {
  NaiveNest nest;
  size_t row = 0, column = 0, sum = 0;
  std::vector<size_t> batch, unit, unit_sum;
  bool transposed = false;       // the result is contiguous along the row
  const Load* copied = nullptr;  // no constant: not contiguous along the column, or read by many rows
};

// Vectors can run along the column: contiguous in the operand or a constant that can be packed. One operand may be
// neither where `copied` is given.
bool suits_column(const NaiveNest& nest, size_t i, const SpaceOptions& options, const Load** copied = nullptr) {
  return std::all_of(nest.operands.begin(), nest.operands.end(), [&](const analysis::Operand& o) {
    if (o.stride[i] == 0 || o.stride[i] == 1) return true;
    if (o.dim[i] < 0) return false;
    if (options.pack_weights && o.constant) return true;
    if (copied == nullptr || *copied != nullptr || o.load->predicate != nullptr) return false;
    *copied = o.load;
    return true;
  });
}

std::optional<Matmul> find_matmul(const Kernel& k, const SpaceOptions& options) {
  std::optional<NaiveNest> nest = find_contraction(k);
  const auto roles = nest ? analysis::product_roles(*nest) : std::nullopt;
  if (!roles || roles->sums.size() != 1) return std::nullopt;
  const std::vector<size_t> reused = analysis::merged(analysis::merged(roles->left, roles->right), roles->neither);
  if (reused.size() != 2) return std::nullopt;
  Matmul m{*nest, reused[0], reused[1], roles->sums[0], roles->batch, roles->unit, roles->unit_sums};
  auto is_contiguous = [&](size_t i) { return nest->result.stride[i] == 1; };
  auto suits = [&](size_t i, const Load** copied) {
    return is_contiguous(i) && suits_column(*nest, i, options, copied);
  };
  if (!suits(m.column, nullptr)) std::swap(m.row, m.column);
  if (!suits(m.column, nullptr)) {
    // Both with a copy now; each element of it serves all rows.
    if (!is_contiguous(m.column)) std::swap(m.row, m.column);
    if (!suits(m.column, &m.copied) || nest->extents[m.row] < kMinCopiedRows) return std::nullopt;
  }
  return m;
}

// The product with the lanes along its rows; nothing where rows of the result are long, or the operands do not allow
// it.
std::optional<Matmul> transpose(const Matmul& m, int64_t lanes, const SpaceOptions& options) {
  if (m.nest.extents[m.column] > kShortRowVectors * lanes || m.nest.extents[m.row] < lanes) return std::nullopt;
  if (!suits_column(m.nest, m.row, options)) return std::nullopt;
  Matmul out = m;
  std::swap(out.row, out.column);
  out.transposed = true;
  out.copied = nullptr;
  return out;
}

struct RegisterTile {
  int64_t rows = 0, vectors = 0;
  double score = 0;
  bool transposed = false;
};

// The share of its peak that a core can reach with the tile. What is left at the edges runs in smaller tiles. The right
// operand comes from the second level, once for all rows of a tile.
double rate_tile(const Matmul& m, const target::CoreModel& core, int64_t rows, int64_t vectors, int64_t lanes) {
  int64_t row_extent = m.nest.extents[m.row], column_extent = m.nest.extents[m.column], columns = vectors * lanes;
  double cycles = 0;
  for (bool row_edge : {false, true})
    for (bool column_edge : {false, true}) {
      int64_t r = row_edge ? row_extent % rows : rows, c = column_edge ? column_extent % columns : columns;
      int64_t count = (row_edge ? 1 : row_extent / rows) * (column_edge ? 1 : column_extent / columns);
      const int64_t v = (c + lanes - 1) / lanes;
      if (r > 0 && c > 0)
        cycles += static_cast<double>(count) * core.step(static_cast<double>(r * v), static_cast<double>(r + v));
    }
  double fmas = static_cast<double>(row_extent * column_extent) / static_cast<double>(lanes);
  // A vector that leaves transposed is written element by element.
  if (m.transposed)
    cycles +=
        fmas * core.scattered_element_cycles * static_cast<double>(lanes) / static_cast<double>(m.nest.extents[m.sum]);
  double loads = static_cast<double>(rows + vectors) / static_cast<double>(rows * vectors);
  return fmas / core.fmas_per_cycle / cycles *
         (1 - core.product_load_share * loads - core.product_row_share / static_cast<double>(rows));
}

void keep_best(std::vector<RegisterTile>& tiles) {
  std::stable_sort(tiles.begin(), tiles.end(),
                   [](const RegisterTile& a, const RegisterTile& b) { return a.score > b.score; });
  if (tiles.size() > kTiles) tiles.resize(kTiles);
}

std::vector<RegisterTile> best_tiles(const Matmul& m, const target::Target& target, int64_t lanes) {
  const int64_t registers = vector_registers(target);
  std::vector<RegisterTile> tiles;
  for (int64_t vectors = 1; vectors <= kMaxVectors; ++vectors)
    // The tile, a row of the right operand, and one element of the left.
    for (int64_t rows = 1; rows * vectors + vectors + 1 <= registers; ++rows)
      if (rows <= m.nest.extents[m.row] && (vectors - 1) * lanes < m.nest.extents[m.column])
        tiles.push_back({rows, vectors, rate_tile(m, target::core_model(target), rows, vectors, lanes), m.transposed});
  keep_best(tiles);
  return tiles;
}

void pack_operands(Schedule& s, const Matmul& m, BlockRv block, int64_t rows, int64_t columns) {
  const Kernel k = s.kernel();
  for (auto [i, size] : {std::pair{m.row, rows}, std::pair{m.column, columns}})
    for (const Packing& p : packings_for(k, m.nest, i, size)) pack(s, block, p);
}

int64_t column_bytes(const Matmul& m, int64_t columns) {
  return columns * type_bytes(m.nest.loads[0]->type);
}
int64_t right_bytes(const Matmul& m) {
  return m.nest.extents[m.sum] * column_bytes(m, m.nest.extents[m.column]);
}
int64_t sum_block(const Matmul& m, int64_t columns, const target::Target& target) {
  return cache_block(m.nest.extents[m.sum], column_bytes(m, columns), kMinSteps, target);
}
// A panel of the constant, or a block of it, stays in the first-level cache.
bool stays_near(const Matmul& m, int64_t columns, const target::Target& target) {
  return sum_block(m, columns, target) > 0 ||
         2 * m.nest.extents[m.sum] * column_bytes(m, columns) <= target.cpu.l1_bytes;
}

// Where the copy of an operand that is stored transposed is made: in front of the nest, or for each product of a batch,
// or for each panel, whose tiles follow each other then.
enum class CopyAt { kAhead, kProduct, kPanel };

constexpr int64_t kPanelsOfThread = 4, kTilesOfThread = 4, kTilesOfPart = 2;

int64_t row_tiles(const Matmul& m, int64_t rows) {
  return (m.nest.extents[m.row] + rows - 1) / rows;
}
int64_t products(const Matmul& m) {
  int64_t n = 1;
  for (size_t i : m.batch) n *= m.nest.extents[i];
  return n;
}

// The sum is short, and the cache keeps all panels while the rows pass by, of which each thread has several tiles.
bool rows_come_first(const Matmul& m, int64_t rows, const target::Target& target) {
  return !m.transposed && m.nest.extents[m.sum] <= kShortSum && 2 * right_bytes(m) <= target.cpu.l2_bytes &&
         products(m) * row_tiles(m, rows) >= kTilesOfThread * target.cpu.threads;
}

// The right operand where it is not constant, its columns are side by side, and copying it pays.
const Load* copied_for_rows(const Kernel& k, const Matmul& m, int64_t rows, const target::Target& target) {
  if (m.copied != nullptr || m.transposed || m.nest.extents[m.sum] <= kVeryShortSum ||
      row_tiles(m, rows) < kMinCopiedTiles || right_bytes(m) <= target.cpu.l1_bytes)
    return nullptr;
  for (const analysis::Operand& o : m.nest.operands) {
    if (o.stride[m.column] != 1 || o.dim[m.column] < 0 || o.constant || o.load->predicate != nullptr) continue;
    // A part of a tensor would be copied with all of it.
    int64_t used = 1;
    for (size_t i = 0; i < m.nest.extents.size(); ++i)
      if (o.moves[i]) used *= m.nest.extents[i];
    const Buffer& buffer = *k.buffer(o.load->buffer);
    int64_t elements = 1;
    for (Expr extent : buffer.shape) elements *= is_int(extent) ? int_value(extent) : 0;
    return used == elements ? o.load : nullptr;
  }
  return nullptr;
}

// Copies where they are used stay in a cache. One of everything pays where panels are too few for the threads, or
// where the tiles of several panels follow each other.
std::vector<CopyAt> copy_places(const Kernel& k, const Matmul& m, int64_t columns, bool rows_first,
                                const target::Target& target) {
  if (m.copied == nullptr) return {CopyAt::kAhead};
  const int64_t batch = products(m), bytes = type_bytes(k.buffer(m.copied->buffer)->type) * m.nest.extents[m.sum];
  const int64_t panels = (m.nest.extents[m.column] + columns - 1) / columns;
  std::vector<CopyAt> places;
  if (batch > 1 && bytes * m.nest.extents[m.column] <= kMaxCopy) places.push_back(CopyAt::kProduct);
  if (rows_first) {
    if (places.empty()) places.push_back(CopyAt::kAhead);
    return places;
  }
  if (panels > 1 && bytes * columns <= kMaxPanel) places.push_back(CopyAt::kPanel);
  const bool busy = batch * panels >= kPanelsOfThread * target.cpu.threads;
  if (places.empty() || places.back() != CopyAt::kPanel || !busy) places.insert(places.begin(), CopyAt::kAhead);
  return places;
}

// The copy of the right operand; in panels of `columns` where it is made ahead.
BlockRv copy_operand(Schedule& s, const Matmul& m, BlockRv product, int64_t columns, CopyAt place) {
  const std::vector<Id> reads = schedule::read_buffers(s.kernel(), m.nest.block->id);
  const auto index = static_cast<int>(std::find(reads.begin(), reads.end(), m.copied->buffer) - reads.begin());
  BlockRv copy = s.cache_read(product, index, place == CopyAt::kAhead ? Scope::kWorkspace : Scope::kLocal);
  if (place == CopyAt::kAhead)
    pack(s, product,
         {index, dim_of_iter(m.copied->indices, m.nest.block->iters[m.column].id),
          static_cast<int>(m.copied->indices.size()), columns});
  return copy;
}

// Lanes of the copy along its columns, below `depth` loops: squares where the operand is stored transposed.
bool vectorize_copy(Schedule& s, const Matmul& m, BlockRv copy, size_t depth, int64_t lanes) {
  std::vector<LoopRv> loops = s.get_loops(copy);
  const Block* block = s.ok() ? find_block(s.kernel().root, s.id(copy)) : nullptr;
  if (block == nullptr || loops.size() <= depth) return false;
  auto loop_of = [&](size_t i) {
    const int dim = dim_of_iter(m.copied->indices, m.nest.block->iters[i].id);
    for (size_t l = depth; l < loops.size() && dim >= 0; ++l)
      if (mentions(block->iters[static_cast<size_t>(dim)].binding, s.id(loops[l]))) return l;
    return loops.size();
  };
  const size_t column = loop_of(m.column), sum = loop_of(m.sum);
  if (column == loops.size() || sum == loops.size() || column == sum) return false;
  std::vector<LoopRv> c = s.split(loops[column], {{}, lit(std::min(lanes, m.nest.extents[m.column]))});
  std::vector<LoopRv> k = s.split(loops[sum], {{}, lit(best_divisor(m.nest.extents[m.sum], 16))});
  if (!s.ok()) return false;
  std::vector<LoopRv> outer;
  for (size_t l = depth; l < loops.size(); ++l)
    if (l != column && l != sum) outer.push_back(loops[l]);
  const bool in_order = std::any_of(m.nest.operands.begin(), m.nest.operands.end(), [&](const analysis::Operand& o) {
    return o.load == m.copied && o.stride[m.column] == 1;
  });
  if (in_order) {
    // Reads each row of the operand as far as the copy takes it.
    outer.push_back(k[0]);
    s.reorder(outer, k[1], c[0], c[1]);
  } else {
    outer.push_back(c[0]);
    s.reorder(outer, k[0], k[1], c[1]);
    s.unroll(k[1]);
  }
  s.vectorize(c[1]);
  if (depth == 0) fuse_parallel(s, outer);
  return s.ok();
}

// Into how many parts threads may divide the rows where blocks of the sum are around the tiles: one, and as many as
// leave all threads the same to do. A thread reads its part of the left operand only, and all of the constant. That
// pays where few panels are left for each.
std::vector<int64_t> shares_of_rows(const Matmul& m, const RegisterTile& t, int64_t block, int64_t lanes,
                                    const target::Target& target) {
  const int64_t threads = target.cpu.threads, columns = t.vectors * lanes;
  const int64_t panels = products(m) * ((m.nest.extents[m.column] + columns - 1) / columns);
  if (block == 0 || threads < 2 || panels > kPanelsOfThread * threads) return {1};
  const int64_t even = threads / std::gcd(panels, threads), parts = even > 1 ? even : threads;
  if (row_tiles(m, t.rows) < kTilesOfPart * parts) return {1};
  return {1, parts};
}

struct Form {
  int64_t rows = 0, columns = 0, lanes = 0;
  int64_t block = 0;  // terms of a block of the sum around the tiles of a panel; 0: a tile takes the whole sum
  int64_t parts = 1;  // of the rows, which threads share beside the panels
  CopyAt copy_at = CopyAt::kAhead;
  bool rows_first = false;  // all panels of a row of tiles, then the next row
};
bool tile(Schedule& s, const Matmul& m, const Form& form, const SpaceOptions& options) {
  const auto [rows, columns, lanes, block, parts, copy_at, rows_first] = form;
  const bool around_panel = block > 0 || copy_at == CopyAt::kPanel;  // the tiles of a panel follow each other
  BlockRv product = s.get_block(m.nest.name), copy;
  if (options.pack_weights) pack_operands(s, m, product, rows, columns);
  if (m.copied != nullptr) copy = copy_operand(s, m, product, columns, copy_at);
  std::optional<BlockRv> epilogue = localise(s, m.nest, product);
  if (!epilogue) return false;
  std::vector<LoopRv> loops = s.get_loops(product);
  if (!s.ok() || loops.size() != m.nest.extents.size()) return false;

  // Step 1. Tiles.
  std::vector<LoopRv> outer = joined(pick(loops, m.unit), pick(loops, m.batch));
  std::vector<LoopRv> i = s.split(loops[m.row], {{}, lit(rows)});
  std::vector<LoopRv> j = s.split(loops[m.column], {{}, lit(columns)});
  if (!s.ok()) return false;
  int64_t panels = (m.nest.extents[m.column] + columns - 1) / columns;
  // Panels have nothing in common then that a cache would keep.
  std::vector<LoopRv> panel = s.split(j[0], around_panel ? std::vector<ExprRv>{{}, lit(1)}
                                            : rows_first ? std::vector<ExprRv>{lit(1), {}}
                                                         : s.sample_perfect_tile(j[0], 2, panels));
  std::vector<LoopRv> k = block > 0 ? s.split(loops[m.sum], {{}, lit(block)})
                                    : s.split(loops[m.sum], s.sample_perfect_tile(loops[m.sum], 2, kMaxUnroll));
  if (!s.ok()) return false;
  if (parts > 1) {
    const std::vector<LoopRv> shared = s.split(i[0], {lit(parts), {}});
    if (!s.ok()) return false;
    outer.push_back(shared[0]);
    i[0] = shared[1];
  }
  outer.push_back(panel[0]);
  if (!around_panel) outer.push_back(i[0]);
  const std::vector<LoopRv> sums = pick(loops, m.unit_sum);
  if (block > 0)
    s.reorder(outer, panel[1], k[0], i[0], sums, k[1], i[1], j[1]);
  else if (around_panel)
    s.reorder(outer, i[0], panel[1], sums, k[0], k[1], i[1], j[1]);
  else
    s.reorder(outer, panel[1], sums, k[0], k[1], i[1], j[1]);
  if (!s.ok()) return false;

  // Step 2. The epilogue, where a tile is complete.
  s.reverse_compute_at(*epilogue, panel[1]);
  if (!s.ok() || !mark_epilogue(s, m.nest, static_cast<int>(m.column), *epilogue,
                                outer.size() + (block == 0 && around_panel ? 2 : 1)))
    return false;

  // Step 3. Kinds of loops.
  if (block > 0)
    prefetch_block(s, k[1], block);
  else
    s.unroll(k[1]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  if (rows_first && m.nest.extents[m.sum] <= kVeryShortSum) s.annotate(panel[1], AnnotationKey::kPrefetch, lit(1));
  if (copy_at == CopyAt::kProduct) outer.resize(m.unit.size() + m.batch.size());
  if (copy_at != CopyAt::kAhead) s.compute_at(copy, outer.back());
  if (m.copied != nullptr && !vectorize_copy(s, m, copy, copy_at == CopyAt::kAhead ? 0 : outer.size(), lanes))
    return false;
  fuse_parallel(s, outer);
  copy_padding(s, 1);
  return s.ok();
}

}  // namespace

Ways matmul_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<Matmul> m = find_matmul(state.kernel(), options);
  if (!m) return {state};
  int64_t lanes = vector_lanes(target, state.kernel().buffer(m->nest.store->buffer)->type);
  std::vector<RegisterTile> tiles = best_tiles(*m, target, lanes);
  std::optional<Matmul> transposed = transpose(*m, lanes, options);
  if (transposed) {
    for (const RegisterTile& t : best_tiles(*transposed, target, lanes))
      if (stays_near(*transposed, t.vectors * lanes, target)) tiles.push_back(t);
    keep_best(tiles);
  }
  Ways ways;
  for (const RegisterTile& t : tiles) {
    Matmul form = t.transposed ? *transposed : *m;
    if (const Load* right = copied_for_rows(state.kernel(), form, t.rows, target)) form.copied = right;
    const int64_t block = t.transposed ? sum_block(form, t.vectors * lanes, target) : 0;
    const bool rows_first = block == 0 && rows_come_first(form, t.rows, target);
    for (int64_t parts : shares_of_rows(form, t, block, lanes, target))
      for (CopyAt place : copy_places(state.kernel(), form, t.vectors * lanes, rows_first, target))
        ways.attempt(state, [&](Schedule& s) {
          return tile(s, form, {t.rows, t.vectors * lanes, lanes, block, parts, place, rows_first}, options);
        });
  }
  return ways.or_else(state);
}

}  // namespace tcc::space
