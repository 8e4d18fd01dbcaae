// Tiles of a convolution whose result has its channels in blocks (N,C/b,H,W,b) on a CPU:
//
//   parallel (n, f0, h0) { pad; f1, h1, w1 { acc = 0; c { kh { kw { ci { unrolled h2, w2, f2 { vectorized fi } } } } }
//                                            out = f(acc) } }
//
// This is the nest of Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures"
// (2018), section II, algorithm 2: the lanes are the channels of a block, so vectors of weights are multiplied by
// broadcast inputs, and results leave as whole vectors in the order of memory; conv_tiling.cpp, whose
// result is plain, has to transpose them. A tile is positions x blocks of filters, all accumulators in registers. The
// weights are packed in the order in which the tile reads them, the filters of a tile innermost. A depthwise
// convolution has the same nest with vectors of the input instead of broadcasts, and one block.
//
// Bytes are multiplied in groups of neighbors of a block of inputs, by the dot products of vectors (vnni_tiling.cpp):
// the weights of a group are side by side for each lane, and a group of the input is broadcast.
//
// The padded input is a copy in front of the nest, or one of the part that an outermost iteration needs.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/cpu_product.h"
#include "space/padding.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

constexpr int64_t kMostVectors = 4;  // of a block of channels
constexpr int64_t kMostBytes = 64;   // of one of bytes
constexpr int64_t kMaxBlocks = 4, kMaxPositions = 14;
constexpr double kWorthTrying = 1.3;  // cycles of a tile, in those of the cheapest
constexpr size_t kMaxTiles = 5;

// Iterators of the contraction.
struct BlockedConvolution {
  NaiveNest nest;
  size_t lanes = 0, filter = 0, row = 0, column = 0;
  bool has_filter = false, has_row = false, broadcasts = false;
  std::vector<size_t> outer, reduce;
  const Load* weights = nullptr;
  std::optional<VectorDot> dot;  // multiplies groups along the last of `reduce`
};

// The widest dot product whose vectors are parts of a block of filters.
std::optional<VectorDot> dot_of(const Kernel& k, const BlockedConvolution& c, const analysis::Operand& x,
                                const target::Target& target) {
  if (!c.broadcasts || c.reduce.empty() || x.stride[c.reduce.back()] != 1) return std::nullopt;
  const auto type = [&](Id buffer) { return k.buffer(buffer)->type; };
  for (const VectorDot& dot :
       vector_dots(type(x.load->buffer), type(c.weights->buffer), type(c.nest.store->buffer), target))
    if (c.nest.extents[c.lanes] % dot.lanes == 0 && c.nest.extents[c.reduce.back()] % dot.group == 0) return dot;
  return std::nullopt;
}

std::optional<BlockedConvolution> find_blocked(const Kernel& k, const target::Target& target,
                                               const SpaceOptions& options) {
  std::optional<NaiveNest> nest = find_contraction(k);
  if (!nest || nest->operands.size() != 2 || !options.pack_weights) return std::nullopt;
  if (nest->operands[0].constant == nest->operands[1].constant) return std::nullopt;
  const size_t input = nest->operands[0].constant ? 1 : 0;
  const std::optional<analysis::ProductRoles> roles = analysis::product_roles(*nest, input);
  if (!roles) return std::nullopt;
  const analysis::Operand &x = nest->operands[input], &w = nest->operands[1 - input];
  BlockedConvolution c;
  c.weights = w.load;
  c.reduce = analysis::merged(roles->sums, roles->unit_sums);
  c.outer = roles->unit;
  bool has_lanes = false;
  std::vector<size_t> positions;
  for (size_t i = 0; i < nest->extents.size(); ++i) {
    if (!nest->result.stride[i]) return std::nullopt;
    if (nest->reduce[i] || nest->extents[i] == 1) continue;
    if (nest->result.stride[i] == 1 && w.dim[i] >= 0 && (x.stride[i] == 0 || x.stride[i] == 1))
      c.lanes = i, has_lanes = true, c.broadcasts = !x.moves[i];
    else if (!x.moves[i] && w.dim[i] >= 0 && !c.has_filter)
      c.filter = i, c.has_filter = true;
    else
      (x.moves[i] && !w.moves[i] ? positions : c.outer).push_back(i);
  }
  if (!has_lanes || c.reduce.size() < 2) return std::nullopt;
  // The channels of a plain result with one position are neighbors, too, and are not a block.
  const int64_t lanes = vector_lanes(target, k.buffer(nest->store->buffer)->type);
  const bool bytes = type_bytes(k.buffer(x.load->buffer)->type) == 1;
  if (nest->extents[c.lanes] > (bytes ? std::max(kMostBytes, kMostVectors * lanes) : kMostVectors * lanes))
    return std::nullopt;
  if (positions.empty()) {  // an image of one position
    const auto one = std::find_if(c.outer.rbegin(), c.outer.rend(), [&](size_t i) { return !nest->reduce[i]; });
    if (one == c.outer.rend()) return std::nullopt;
    positions.push_back(*one);
    c.outer.erase(std::next(one).base());
  }
  c.column = positions.back();
  positions.pop_back();
  if (!positions.empty()) c.row = positions.back(), c.has_row = true, positions.pop_back();
  c.outer = analysis::merged(c.outer, positions);
  c.nest = std::move(*nest);
  c.dot = dot_of(k, c, c.nest.operands[input], target);
  return c;
}

struct BlockTile {
  int64_t blocks = 1, rows = 1, columns = 1;
  double cycles = 0;  // of the whole convolution, estimated
};

// A depthwise tile loads a vector of the input for each fma.
double cycles_of(const BlockedConvolution& c, const BlockTile& t, const target::CoreModel& core,
                 int64_t vectors_of_a_block) {
  auto of = [](int64_t n) { return static_cast<double>(n); };
  auto tiles = [&](int64_t extent, int64_t tile) { return of((extent + tile - 1) / tile); };
  double terms = 1;
  for (size_t i : c.reduce) terms *= of(c.nest.extents[i]);
  if (c.dot) terms /= of(c.dot->group);
  double vectors = of(t.blocks * vectors_of_a_block), positions = of(t.rows * t.columns), fmas = vectors * positions;
  double loads = vectors + (c.broadcasts ? positions : fmas);
  double step = core.step(fmas, loads) + core.exposed_load * loads;
  double count = c.has_filter ? of(c.nest.extents[c.filter] / t.blocks) : 1;
  count *= tiles(c.nest.extents[c.column], t.columns);
  if (c.has_row) count *= tiles(c.nest.extents[c.row], t.rows);
  return count * (terms * step + core.result_cycles * fmas + core.tile_cycles);
}

std::vector<BlockTile> best_tiles(const BlockedConvolution& c, const target::Target& target, int64_t lanes) {
  const int64_t registers = vector_registers(target);
  const int64_t a_block = (c.nest.extents[c.lanes] + lanes - 1) / lanes;
  const int64_t filters = c.has_filter ? c.nest.extents[c.filter] : 1, rows = c.has_row ? c.nest.extents[c.row] : 1;
  std::vector<BlockTile> tiles;
  for (int64_t f = 1; f <= std::min(filters, kMaxBlocks); ++f)
    for (int64_t h = 1; h <= std::min<int64_t>(rows, 4); ++h)
      for (int64_t w = 1; w <= std::min(c.nest.extents[c.column], kMaxPositions); ++w) {
        const int64_t vectors = f * a_block;
        if (filters % f != 0 || vectors * h * w + std::min(vectors, h * w) + 1 > registers) continue;
        tiles.push_back({f, h, w, 0});
        tiles.back().cycles = cycles_of(c, tiles.back(), target::core_model(target), a_block);
      }
  keep_cheapest(tiles, kMaxTiles, kWorthTrying);
  return tiles;
}

// Blocks of a tile, then the order of the reduction, then the filters of the tile.
void pack_weights(Schedule& s, const BlockedConvolution& c, const BlockTile& t, BlockRv block) {
  auto dim = [&](size_t i) { return dim_of_iter(c.weights->indices, c.nest.block->iters[i].id); };
  std::vector<int32_t> order;
  std::vector<std::pair<int32_t, int64_t>> tiles;
  if (c.has_filter) {
    order.push_back(dim(c.filter));
    if (t.blocks > 1) tiles.emplace_back(dim(c.filter), t.blocks);
  }
  for (size_t i : c.reduce)
    if (dim(i) >= 0) order.push_back(dim(i));
  auto rank = static_cast<int32_t>(c.weights->indices.size());
  std::vector<int32_t> first;
  for (int32_t d = 0; d < rank; ++d)
    if (d != dim(c.lanes) && std::find(order.begin(), order.end(), d) == order.end()) first.push_back(d);
  first.insert(first.end(), order.begin(), order.end());
  first.push_back(dim(c.lanes));
  tiles.emplace_back(dim(c.lanes), c.dot ? c.dot->lanes : c.nest.extents[c.lanes]);
  if (c.dot) tiles.emplace_back(dim(c.reduce.back()), c.dot->group);
  std::vector<Id> reads = schedule::read_buffers(s.kernel(), c.nest.block->id);
  auto read = std::find(reads.begin(), reads.end(), c.weights->buffer) - reads.begin();
  s.transform_layout(block, static_cast<int>(read), first, tiles);
}

bool split_loops(Schedule& s, const BlockedConvolution& c, const BlockTile& t, const std::vector<LoopRv>& loops,
                 bool staged, TileLoops& nest) {
  auto split = [&](size_t i, int64_t size) { return split_tile(s, loops[i], c.nest.extents[i], size); };
  std::vector<LoopRv> f, h;
  if (c.has_filter) f = split(c.filter, t.blocks);
  std::vector<LoopRv> w = s.split(loops[c.column], {{}, lit(t.columns)});
  if (s.ok() && c.has_row) h = split(c.row, t.rows);
  if (!s.ok()) return false;
  for (size_t i : c.outer) nest.outer.push_back(loops[i]);
  // A copied part of the input serves all filters.
  if (c.has_filter) (staged ? nest.inner : nest.outer).push_back(f[0]);
  if (c.has_row) nest.outer.push_back(h[0]);
  if (c.has_filter) nest.inner.push_back(f[1]);
  if (c.has_row) nest.inner.push_back(h[1]);
  nest.inner.push_back(w[0]);
  std::vector<LoopRv> lanes = {loops[c.lanes]}, terms = {loops[c.reduce.back()]};
  if (c.dot) {
    lanes = s.split(lanes[0], {ExprRv{}, lit(c.dot->lanes)});
    terms = s.split(terms[0], {ExprRv{}, lit(c.dot->group)});
    if (!s.ok()) return false;
  }
  for (size_t i : c.reduce) nest.sums.push_back(i == c.reduce.back() ? terms[0] : loops[i]);
  if (c.has_row) nest.rows.push_back(h[2]);
  nest.rows.push_back(w[1]);
  if (c.has_filter) nest.rows.push_back(f[2]);
  nest.lanes = lanes.back();
  if (!c.dot) return reorder_tile(s, nest);
  nest.rows.push_back(lanes[0]);
  s.reorder(nest.outer, nest.inner, nest.sums, nest.rows, nest.lanes, terms[1]);
  return s.ok();
}

// The sums of a tile become dot products; what sets them to zero is apart.
bool multiply_groups(Schedule& s, const BlockedConvolution& c, const TileLoops& nest, BlockRv block) {
  BlockRv zero = s.decompose_reduction(block, nest.sums[0]);
  if (!s.ok()) return false;
  std::vector<LoopRv> loops = s.get_loops(zero);
  const size_t depth = nest.outer.size() + nest.inner.size();
  if (!s.ok() || loops.size() <= depth) return false;
  for (size_t i = depth; i + 1 < loops.size(); ++i) s.unroll(loops[i]);
  s.vectorize(loops.back());
  s.tensorize(nest.lanes, c.dot->instruction);
  return s.ok();
}

// The loops of a tiled nest, outermost first.
bool tile(Schedule& s, const BlockedConvolution& c, const BlockTile& t, bool staged) {
  BlockRv block = s.get_block(c.nest.name);
  pack_weights(s, c, t, block);
  std::optional<BlockRv> epilogue = localise(s, c.nest, block);
  if (!epilogue) return false;
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != c.nest.extents.size()) return false;
  TileLoops nest;
  if (!split_loops(s, c, t, loops, staged, nest)) return false;
  s.reverse_compute_at(*epilogue, nest.inner.back());
  if (!s.ok() || !mark_epilogue(s, c.nest, static_cast<int>(c.lanes), *epilogue, nest.outer.size() + nest.inner.size()))
    return false;
  if (c.dot && !multiply_groups(s, c, nest, block)) return false;
  for (LoopRv l : nest.rows) s.unroll(l);
  if (!c.dot) s.vectorize(loops[c.lanes]);
  s.annotate(nest.sums[nest.sums.size() - 2], AnnotationKey::kUnrollMax,
             s.sample_categorical({1, 64, 256}, {0.3, 0.4, 0.3}));
  if (staged && !stage_padding(s, nest.outer.back())) return false;
  fuse_parallel(s, nest.outer);
  if (!staged) copy_padding(s, 2);
  return s.ok();
}

}  // namespace

Ways blocked_conv_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<BlockedConvolution> c = find_blocked(state.kernel(), target, options);
  if (!c) return {state};
  int64_t lanes = vector_lanes(target, state.kernel().buffer(c->nest.store->buffer)->type);
  bool padded = has_padding(state);
  Ways ways;
  for (const BlockTile& t : best_tiles(*c, target, lanes))
    for (bool staged : {false, true}) {
      if (staged && (!padded || !c->has_row)) continue;
      ways.attempt(state, [&](Schedule& s) { return tile(s, *c, t, staged); });
    }
  return ways.or_else(state);
}

}  // namespace tcc::space
