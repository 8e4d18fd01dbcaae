// Tiles of windows without a channel reduction (depthwise convolutions, pooling) on a CPU:
//
//   parallel (n, c, h0) { h1, w0 { acc = 0; unrolled kw, kh { unrolled h2 { vectorized w1 { acc += ... } } };
//                                  out = f(acc) } }
//
// There is little to reuse, so loads decide: a row of the input serves all rows of the window that touch it. With the
// taps written out and those of a row innermost, neighboring results read the same vectors, which stay in registers as
// long as the tile, the rows that it reads and a column of weights fit there (Zhang et al., "High Performance
// Zero-Memory Overhead Direct Convolutions", section 3, has the count for dense ones). The few best tiles by an
// estimate of the cycles are sketches of their own; how many rows a thread takes at a time is sampled.
//
// Padding is a predicate of the loads: the tiles at the edges keep it, those inside are free of it (lower's
// split_tails). A padded copy would cost as much as a third of the work.
#include <algorithm>

#include "space/window.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {

namespace {

constexpr size_t kTiles = 3;
constexpr double kWorthTrying = 1.25;  // cycles of a tile, in those of the cheapest
constexpr int64_t kMaxRows = 6, kMaxVectors = 4, kMaxWritten = 512;

struct Tile {
  int64_t rows = 1, vectors = 1;
  double cycles = 0;
};

// Of the whole nest, without memory. The next tile's work hides half of the latency of a sum.
double cycles_of(const Window& w, const Tile& t, const target::CoreModel& core, int64_t lanes) {
  int64_t rows = w.has_row ? w.nest.extents[w.row] : 1, columns = w.nest.extents[w.lane];
  const double overhang = columns % (t.vectors * lanes) == 0 ? 0 : core.overhanging_vector;
  auto tiles = static_cast<double>((rows + t.rows - 1) / t.rows) *
               (static_cast<double>(columns / (t.vectors * lanes)) + overhang);
  auto results = static_cast<double>(t.rows * t.vectors), terms = static_cast<double>(w.terms);
  double read_rows = static_cast<double>((t.rows - 1) * std::min(w.row_stride, w.row_taps) + w.row_taps);
  double columns_of_taps = terms / static_cast<double>(w.row_taps);
  double load = w.stride == 0   ? core.broadcast_load
                : w.stride == 1 ? core.unaligned_load
                : w.stride == 2 ? core.stride_two_load
                                : static_cast<double>(lanes);
  double loads = columns_of_taps * read_rows * static_cast<double>(t.vectors) * load + (w.has_weights ? terms : 0);
  const double busy = std::max(core.throughput(terms * results, loads), core.fma_latency / 2 * terms);
  return tiles * (busy + core.exposed_window_load * loads + core.result_cycles * results + core.window_tile_cycles);
}

std::vector<Tile> best_tiles(const Window& w, const target::Target& target, int64_t lanes) {
  const int64_t registers = vector_registers(target);
  int64_t rows = w.has_row ? w.nest.extents[w.row] : 1, columns = w.nest.extents[w.lane];
  std::vector<Tile> tiles;
  for (int64_t v = 1; v <= kMaxVectors && (v == 1 || (v - 1) * lanes < columns); ++v)
    for (int64_t h = 1; h <= std::min(rows, kMaxRows); ++h) {
      int64_t read = (h - 1) * std::min(w.row_stride, w.row_taps) + w.row_taps;
      // Strided loads need both halves and the indices of the shuffle for a moment.
      int64_t held = h * v + read * v + (w.has_weights ? w.row_taps : 0) + (w.stride > 1 ? 4 : 0);
      // Large windows do not fit anyway.
      if (h * v > 1 && (3 * h * v >= registers || held > std::max(registers, w.row_taps + registers / 2))) continue;
      Tile t{h, v, 0};
      t.cycles = cycles_of(w, t, target::core_model(target), lanes);
      tiles.push_back(t);
    }
  keep_cheapest(tiles, kTiles, kWorthTrying);
  return tiles;
}

bool tile(Schedule& s, const Window& w, const Tile& t, int64_t lanes) {
  BlockRv block = s.get_block(w.nest.name);
  std::optional<BlockRv> epilogue = localise(s, w.nest, block);
  if (!epilogue) return false;
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != w.nest.extents.size()) return false;

  // Step 1. Tiles.
  std::vector<LoopRv> outer = joined(pick(loops, w.unit), pick(loops, w.outer)), part, row;
  if (w.has_row) {
    const std::vector<LoopRv> rows = s.split(loops[w.row], {{}, lit(t.rows)});
    if (!s.ok()) return false;
    int64_t count = (w.nest.extents[w.row] + t.rows - 1) / t.rows;
    part = s.split(rows[0], s.sample_perfect_tile(rows[0], 2, count));
    outer.push_back(part[0]);
    part.erase(part.begin());
    row = {rows[1]};
  }
  int64_t width = std::min(t.vectors * lanes, w.nest.extents[w.lane]);
  std::vector<LoopRv> columns = s.split(loops[w.lane], {{}, lit(width)});
  if (!s.ok()) return false;
  const std::vector<LoopRv> around = joined(outer, part, columns[0]);
  s.reorder(around, pick(loops, w.unit_taps), pick(loops, w.taps), row, columns[1]);
  if (!s.ok()) return false;

  // Step 2. The epilogue, where a tile is complete.
  s.reverse_compute_at(*epilogue, columns[0]);
  if (!s.ok() || !mark_epilogue(s, w.nest, static_cast<int>(w.lane), *epilogue, around.size())) return false;

  // Step 3. Kinds of loops.
  int64_t written = t.rows;
  for (size_t i = w.taps.size(); i-- > 0;) {
    written *= w.nest.extents[w.taps[i]];
    if (written <= kMaxWritten) s.unroll(loops[w.taps[i]]);
  }
  for (LoopRv l : row) s.unroll(l);
  s.vectorize(columns[1]);
  fuse_parallel(s, outer);
  return s.ok();
}

}  // namespace

std::optional<Window> find_window(const Kernel& k) {
  std::optional<NaiveNest> nest = find_contraction(k);
  if (!nest || nest->operands.empty() || nest->operands.size() > 2) return std::nullopt;
  Window w;
  bool has_lane = false;
  std::vector<std::pair<size_t, analysis::Window>> windows;
  for (size_t i = 0; i < nest->extents.size(); ++i) {
    if (nest->reduce[i]) {
      if (nest->extents[i] == 1) {
        w.unit_taps.push_back(i);
        continue;
      }
      const std::optional<analysis::Window> window = nest->window(i);
      if (!window) return std::nullopt;
      windows.emplace_back(i, *window);
      w.terms *= nest->extents[i];
    } else if (nest->extents[i] > 1 && nest->result.stride[i] == 1) {
      w.lane = i, has_lane = true;
    }
  }
  if (!has_lane || windows.empty() || nest->group[w.lane] > 0) return std::nullopt;
  for (const analysis::Operand& o : nest->operands) {
    // What several filters read is worth more than a window.
    for (size_t i = 0; !o.constant && i < nest->extents.size(); ++i)
      if (!nest->reduce[i] && nest->extents[i] > 1 && !o.moves[i]) return std::nullopt;
    const std::optional<int64_t> stride = o.stride[w.lane];
    if (!stride || (o.constant && *stride > 1)) return std::nullopt;
    w.has_weights |= o.constant;
    if (!o.constant) w.stride = *stride;
  }
  for (const auto& [tap, window] : windows)
    if (window.iterator != w.lane && (!w.has_row || window.iterator >= w.row))
      w.row = window.iterator, w.has_row = true;
  for (size_t i = 0; i < nest->extents.size(); ++i) {
    if (nest->reduce[i] || i == w.lane || (w.has_row && i == w.row)) continue;
    (nest->extents[i] == 1 ? w.unit : w.outer).push_back(i);
  }
  for (const auto& [tap, window] : windows)
    if (!w.has_row || window.iterator != w.row) w.taps.push_back(tap);
  for (const auto& [tap, window] : windows) {
    if (!w.has_row || window.iterator != w.row) continue;
    w.taps.push_back(tap), w.row_taps = nest->extents[tap];
    w.row_stride = window.step % window.dilation == 0 ? window.step / window.dilation : window.step;
  }
  w.nest = std::move(*nest);
  return w;
}

Ways window_tiling(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  std::optional<Window> w = find_window(state.kernel());
  if (!w) return {state};
  int64_t lanes = vector_lanes(target, state.kernel().buffer(w->nest.store->buffer)->type);
  Ways ways;
  for (const Tile& t : best_tiles(*w, target, lanes))
    ways.attempt(state, [&](Schedule& s) { return tile(s, *w, t, lanes); });
  return ways.or_else(state);
}

}  // namespace tcc::space
