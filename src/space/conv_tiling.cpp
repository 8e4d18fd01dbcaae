// Tiles of a convolution on a CPU:
//
//   parallel (n, f0, h0) { pad; f1, h1, w1 { acc = 0; rc { kh { kw { unrolled rows { vectorized v { acc += ... } } } }
//   };
//                                            out = f(acc) } }
//
// The accumulators are rows x vectors, all in registers, as for a matrix product (matmul_tiling.cpp). Either the lanes
// run over the filters, whose weights are packed side by side, and the rows over a box of positions, whose inputs are
// broadcast; the results leave transposed. Or the lanes run over the positions of an image row and the rows over
// filters and image rows. The first serves images that are narrower than a few vectors, the second the others
// (Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures", section II, has
// the first; Zhang et al., "High Performance Zero-Memory Overhead Direct Convolutions", section 3, derives the tile
// from latency and registers). The best tiles by an estimate of the cycles are sketches of their own.
//
// Where the weights of a tile overflow the second-level cache they would stream from further away for every few
// positions. There the channels are blocked around the positions, f1, rc0, h1, w1, rc1, and the sums of all positions
// wait in a local buffer, which a tile keeps in registers during its block. The weights of a block and of the next one
// fit the first level together, and each use of a weight asks for the next block's: it arrives during all of a block,
// not while the first positions wait for it.
//
// The padded input is a copy in front of the nest, or one of the part that an outermost iteration needs (a halo, which
// neighbors copy too), while that fits the second-level cache. Signals of one axis have no such parts: there each
// thread copies the signal for its filters, where waiting for each other would take longer. Where lanes are positions
// that a stride apart read, the copy lays out a row by its phases, w % stride outside of w / stride, so that they read
// side by side.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/padding.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr int64_t kMaxVectors = 4, kMaxRows = 12;
constexpr double kWorthTrying = 1.3;  // cycles of a tile, in those of the cheapest
constexpr size_t kTilesOfAForm = 4;
constexpr int64_t kMaxBlockedPositions = 128;

// Iterators of the contraction.
struct Convolution {
  NaiveNest nest;
  size_t filter = 0, row = 0, column = 0;    // of the result
  bool has_filter = false, has_row = false;  // a depthwise convolution has its channels in `outer`
  std::vector<size_t> outer, unit, reduce;
  double terms = 1;    // of one sum
  int64_t stride = 1;  // of the columns in the input
  const Load* input = nullptr;
};

// Several loops reduce and the weights are constant. Either all filters read the same input, or each its own channel.
// Windows of one element are products, for which others care, but for several images that are shorter than a vector:
// here the images are the rows of a tile.
std::optional<Convolution> find_convolution(const Kernel& k, const SpaceOptions& options,
                                            const target::Target& target) {
  std::optional<NaiveNest> nest = find_contraction(k);
  if (!nest || nest->operands.size() != 2 || !options.pack_weights) return std::nullopt;
  if (nest->operands[0].constant == nest->operands[1].constant) return std::nullopt;
  const size_t x = nest->operands[0].constant ? 1 : 0;
  const std::optional<analysis::ProductRoles> roles = analysis::product_roles(*nest, x);
  if (!roles || roles->sums.empty()) return std::nullopt;
  Convolution c;
  c.unit = analysis::merged(roles->unit, roles->unit_sums);
  c.reduce = roles->sums;
  c.outer = roles->batch;
  std::vector<size_t> filters, positions = analysis::merged(roles->left, roles->neither);
  for (size_t i : roles->right) (nest->operands[1 - x].dim[i] >= 0 ? filters : c.outer).push_back(i);
  if (filters.size() > 1 || positions.empty()) return std::nullopt;
  for (size_t i : c.reduce) c.terms *= static_cast<double>(nest->extents[i]);
  if (!filters.empty()) c.filter = filters[0], c.has_filter = true;
  c.column = positions.back();
  if (nest->result.stride[c.column] != 1) return std::nullopt;
  const int64_t lanes = vector_lanes(target, k.buffer(nest->store->buffer)->type);
  if (c.reduce.size() < 2 && (positions.size() < 2 || !c.has_filter || nest->extents[c.column] >= lanes))
    return std::nullopt;
  c.stride = nest->operands[x].stride[c.column].value_or(1);
  c.input = nest->loads[x];
  positions.pop_back();
  if (!positions.empty()) c.row = positions.back(), c.has_row = true, positions.pop_back();
  c.outer = analysis::merged(c.outer, positions);
  c.nest = std::move(*nest);
  return c;
}

// filters x rows x columns of the result; either filters or columns are whole vectors.
struct Tile {
  bool filter_lanes = false;
  int64_t filters = 1, rows = 1, columns = 1;
  double cycles = 0;  // of the whole convolution, estimated
};

// The rows of a step are broadcast; vectors of positions may cross cache lines.
double cycles_of(const Convolution& c, const Tile& t, const target::CoreModel& core, int64_t lanes) {
  auto up = [&](int64_t n) { return static_cast<double>((n + lanes - 1) / lanes); };
  auto vectors = t.filter_lanes ? up(t.filters) : up(t.columns) * static_cast<double>(t.rows);
  auto scalars = static_cast<double>(t.filter_lanes ? t.rows * t.columns : t.filters);
  double fmas = vectors * scalars, loads = scalars + vectors * (t.filter_lanes ? 1 : core.unaligned_load);
  double step = core.step(fmas, loads) + core.exposed_load * loads;
  // Wide and flat tiles leave few registers for the loads of the next step.
  if (vectors > scalars) step *= core.wide_tile;
  double leave =
      fmas * (t.filter_lanes ? core.transposed_element_cycles * static_cast<double>(lanes) : core.result_cycles);
  return c.terms * step + leave + core.tile_cycles;
}

// Tiles along an axis; `tail`: what the last one costs, in whole ones, when it overhangs.
double count_tiles(int64_t extent, int64_t tile, double tail) {
  return static_cast<double>(extent / tile) + (extent % tile == 0 ? 0 : tail);
}

double total_cycles(const Convolution& c, const Tile& t, const target::CoreModel& core, int64_t lanes) {
  int64_t filters = c.has_filter ? c.nest.extents[c.filter] : 1, rows = c.has_row ? c.nest.extents[c.row] : 1;
  // Where the lanes are positions, each row of a tail tests what it leaves out.
  double tail = t.filter_lanes ? 1 : core.overhanging_tile;
  return count_tiles(filters, t.filters, tail) * count_tiles(rows, t.rows, tail) *
         count_tiles(c.nest.extents[c.column], t.columns, 1) * cycles_of(c, t, core, lanes);
}

std::vector<Tile> best_tiles(const Convolution& c, bool filter_lanes, const target::Target& target, int64_t lanes) {
  const int64_t registers = vector_registers(target);
  int64_t filters = c.has_filter ? c.nest.extents[c.filter] : 1, rows = c.has_row ? c.nest.extents[c.row] : 1,
          columns = c.nest.extents[c.column];
  if (filter_lanes && !c.has_filter) return {};
  std::vector<Tile> tiles;
  for (int64_t v = 1; v <= kMaxVectors; ++v)
    for (int64_t h = 1; h <= std::min<int64_t>(rows, 4); ++h)
      for (int64_t u = 1; u <= kMaxRows; ++u) {
        Tile t = filter_lanes ? Tile{true, v * lanes, h, u, 0} : Tile{false, u, h, v * lanes, 0};
        int64_t vectors = filter_lanes ? v : v * h, scalars = filter_lanes ? h * u : u;
        // The accumulators, the smaller side of a step, and one of the other side.
        if (vectors * scalars + std::min(vectors, scalars) + 1 > registers) continue;
        if (t.filters >= filters + (filter_lanes ? lanes : 1) || t.columns >= columns + (filter_lanes ? 1 : lanes))
          continue;
        t.cycles = total_cycles(c, t, target::core_model(target), lanes);
        tiles.push_back(t);
      }
  keep_cheapest(tiles, kTilesOfAForm);
  return tiles;
}

// Channels of a block, for weights of a tile that do not stay in the second-level cache beside the input, and an image
// that is small enough for its sums to stay in the first; 0: the channels are not blocked.
int64_t block_channels(const Convolution& c, const Tile& t, const target::Target& target, int64_t bytes) {
  if (!t.filter_lanes || c.reduce.size() < 2) return 0;
  int64_t positions = c.nest.extents[c.column] * (c.has_row ? c.nest.extents[c.row] : 1);
  double panel = c.terms * static_cast<double>(t.filters * bytes);
  if (positions > kMaxBlockedPositions || 2 * panel <= static_cast<double>(target.cpu.l2_bytes)) return 0;
  int64_t channels = c.nest.extents[c.reduce[0]];
  const int64_t steps = static_cast<int64_t>(c.terms) / channels;
  return cache_block(channels, static_cast<int64_t>(panel) / channels, (kMinSteps + steps - 1) / steps, target);
}

struct Form {
  bool staged = false;  // the padded input is copied part by part
  bool phases = false;  // its rows are laid out by phases
  int64_t block = 0;    // channels of a block where the outer part of them is around the positions
  bool blocked() const { return block > 0; }
};
// The loops of a tiled nest, outermost first.
struct Nest : TileLoops {
  size_t around = 0;  // loops of `outer` and `inner` around the epilogue
};

void lay_out_phases(Schedule& s, const Convolution& c, BlockRv block) {
  std::vector<Id> reads = schedule::read_buffers(s.kernel(), c.nest.block->id);
  auto read = std::find(reads.begin(), reads.end(), c.input->buffer) - reads.begin();
  auto rank = static_cast<int32_t>(c.input->indices.size());
  std::vector<int32_t> order;
  for (int32_t d = 0; d + 1 < rank; ++d) order.push_back(d);
  order.insert(order.end(), {rank, rank - 1});
  s.transform_layout(block, static_cast<int>(read), order,
                     std::array<std::pair<int32_t, int64_t>, 1>{{{rank - 1, c.stride}}});
}

bool split_loops(Schedule& s, const Convolution& c, const Tile& t, const std::vector<LoopRv>& loops, Form form,
                 Nest& nest) {
  auto split = [&](size_t i, int64_t size, TileShare share) {
    return split_tile(s, loops[i], c.nest.extents[i], size, form.blocked() ? share : TileShare::kSampled);
  };
  std::vector<LoopRv> f, h;
  // Blocks of channels serve all rows of an image; divided among threads, each would read the weights again.
  if (c.has_filter) f = split(c.filter, t.filters, TileShare::kParallel);
  std::vector<LoopRv> w = s.split(loops[c.column], {{}, lit(t.columns)});
  if (s.ok() && c.has_row) h = split(c.row, t.rows, TileShare::kSerial);
  if (!s.ok()) return false;
  for (const std::vector<size_t>* group : {&c.unit, &c.outer})
    for (size_t i : *group)
      if (!c.nest.reduce[i]) nest.outer.push_back(loops[i]);
  // A copied part of the input serves all filters; without rows there is one part, for some of the filters.
  const bool parts = form.staged && c.has_row;
  if (!parts && c.has_filter) nest.outer.push_back(f[0]);
  if (c.has_row) nest.outer.push_back(h[0]);
  if (parts && c.has_filter) nest.inner.push_back(f[0]);
  if (c.has_filter) nest.inner.push_back(f[1]);
  nest.around = nest.outer.size() + nest.inner.size();
  std::vector<LoopRv> channels = {loops[c.reduce[0]]};
  if (form.blocked()) {
    channels = s.split(channels[0], {{}, lit(form.block)});
    if (!s.ok()) return false;
    nest.inner.push_back(channels[0]);
  }
  if (c.has_row) nest.inner.push_back(h[1]);
  nest.inner.push_back(w[0]);
  if (!form.blocked()) nest.around = nest.outer.size() + nest.inner.size();
  for (const std::vector<size_t>* group : {&c.reduce, &c.unit})
    for (size_t i : *group)
      if (c.nest.reduce[i]) nest.sums.push_back(i == c.reduce[0] ? channels.back() : loops[i]);
  if (c.has_row) nest.rows.push_back(h[2]);
  if (t.filter_lanes)
    nest.rows.push_back(w[1]);
  else if (c.has_filter)
    nest.rows.push_back(f[2]);
  nest.lanes = t.filter_lanes ? f[2] : w[1];
  return reorder_tile(s, nest);
}

bool tile(Schedule& s, const Convolution& c, const Tile& t, Form form) {
  BlockRv block = s.get_block(c.nest.name);
  if (c.has_filter)
    for (const Packing& p : packings_for(s.kernel(), c.nest, c.filter, t.filters)) pack(s, block, p);
  std::optional<BlockRv> epilogue = localise(s, c.nest, block);
  if (!epilogue) return false;
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != c.nest.extents.size()) return false;
  Nest nest;
  if (!split_loops(s, c, t, loops, form, nest)) return false;

  // The epilogue, where a tile is complete.
  s.reverse_compute_at(*epilogue, nest.inner[nest.around - nest.outer.size() - 1]);
  int v = static_cast<int>(t.filter_lanes ? c.filter : c.column);
  if (!s.ok() || !mark_epilogue(s, c.nest, v, *epilogue, nest.around)) return false;
  for (LoopRv l : nest.rows) s.unroll(l);
  s.vectorize(nest.lanes);
  // Written out kernel columns would keep the sums of a block from staying in registers.
  if (form.blocked()) {
    prefetch_block(s, nest.sums[0], form.block);
  } else {
    // The last but one sum, or the only one.
    s.annotate(nest.sums[std::max<size_t>(c.reduce.size(), 2) - 2], AnnotationKey::kUnrollMax,
               s.sample_categorical({1, 64, 256}, {0.3, 0.4, 0.3}));
  }
  if (form.staged && !stage_padding(s, nest.outer.back())) return false;
  fuse_parallel(s, nest.outer);
  if (form.phases) lay_out_phases(s, c, block);
  if (!form.staged) copy_padding(s, 1, form.phases ? c.stride : 1);
  return s.ok();
}

}  // namespace

Ways conv_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<Convolution> c = find_convolution(state.kernel(), options, target);
  if (!c) return {state};
  const Type type = state.kernel().buffer(c->nest.store->buffer)->type;
  int64_t lanes = vector_lanes(target, type);
  std::vector<Tile> tiles = best_tiles(*c, true, target, lanes);
  for (const Tile& t : best_tiles(*c, false, target, lanes)) tiles.push_back(t);
  keep_cheapest(tiles, tiles.size(), kWorthTrying);
  bool padded = has_padding(state);
  Ways ways;
  // Where padding is a condition, tiles of positions are split at the border. Lanes of filters read positions one by
  // one, each with a condition of its own.
  const auto has_filter_lanes = [](const Tile& t) { return t.filter_lanes; };
  if (c->input->predicate != nullptr && !std::all_of(tiles.begin(), tiles.end(), has_filter_lanes))
    std::erase_if(tiles, has_filter_lanes);
  for (const Tile& t : tiles)
    for (bool staged : {false, true}) {
      bool phases = padded && !t.filter_lanes && c->stride > 1;
      if (staged && (!padded || phases || (!c->has_row && !c->has_filter))) continue;
      int64_t block = staged ? 0 : block_channels(*c, t, target, type_bytes(type));
      ways.attempt(state, [&](Schedule& s) { return tile(s, *c, t, {staged, phases, block}); });
    }
  // Without reuse between channels the memory decides, and other shapes of tiles may be as good. Without rows the
  // columns are what threads can share beside the filters, which no tile here does.
  return c->has_filter && c->has_row ? ways.or_else(state) : ways.or_also(state);
}

}  // namespace tcc::space
