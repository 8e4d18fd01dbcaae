// Row-wise operators: softmax, layer normalization, the sum or the maximum of each row.
// Before: one nest per step. After:
//
//   parallel (rows...) { every step for a tile of the last row axis, so that a row stays in the first-level cache }
//
// Spatial steps are vectorized along the row; reductions along the row too, with a vector of partial results, or across
// the rows of a tile where those are neighbors in memory. What only a reduction needs first is made in the pass that
// reduces it: softmax reads a row for its maximum, makes exponentials and their sum, and scales them. Large results may
// go past the caches, and the costly pass fetches the rows behind the one it works on.
#include <algorithm>
#include <array>
#include <bit>

#include "space/access.h"
#include "tcc/analysis/lanes.h"
#include "tcc/ir/walk.h"
#include "tcc/space/space.h"

namespace tcc::space {
namespace {

// A single reduction of rows: shorter ones are not worth partial results, longer ones are read along their elements. In
// between squares of several rows that are transposed in registers may be faster.
constexpr int64_t kLeastVectors = 2, kLongVectors = 3;
// Of the first-level cache, for a tile of rows that are read along their elements: the next pass finds them there.
constexpr double kTileShare = 0.25;
// Tiles of an axis from which on the last one counts little: all others run without masks.
constexpr int64_t kManyTiles = 4;
// Vectors of partial results, at least, in a long pass that does nothing but combine: they hide each other's latency.
constexpr int64_t kLeastPartial = 4;

struct Rows {
  struct Step {
    std::string name;
    ReducedRun run;
    bool plain = false;  // combines elements of parameters without functions of them
  };
  NaiveNest last;                      // writes the output
  std::vector<Step> steps;             // in program order; the last one writes the output
  std::vector<bool> is_row;            // per iterator of `last`
  bool single = false;                 // a single reduction
  bool tiles_too = false;              // rows so short that multi-level tiling's lanes across them compete
  bool along = false, across = false;  // some reduction reads neighbors along its rows, or from row to row
};

int64_t terms_of(const NaiveNest& nest) {
  int64_t terms = 1;
  for (size_t i = 0; i < nest.extents.size(); ++i) terms *= nest.reduce[i] ? nest.extents[i] : 1;
  return terms;
}

// Every operand runs along the reduction's last axis in steps of one and none is used for two results: a sum of each
// row's own elements. Axes that make one run count as the one that they are together.
bool reduces_rows(const NaiveNest& nest, int64_t lanes) {
  const ReducedRun run = find_run(nest, lanes);
  size_t seen = 0;
  int64_t length = 1;
  for (size_t i = nest.extents.size(); i-- > 0;) {
    const bool in_run = nest.reduce[i] && seen < run.iterators;
    for (const analysis::Operand& o : nest.operands) {
      if (o.load->predicate != nullptr || nest.group[i] > 0 || !o.stride[i]) return false;
      if (in_run && nest.extents[i] > 1 && *o.stride[i] != length) return false;
      if (!nest.reduce[i] && !o.moves[i] && nest.extents[i] > 1) return false;
    }
    seen += nest.reduce[i] ? 1 : 0;
    if (in_run) length *= nest.extents[i];
  }
  return !nest.loads.empty() && 2 * length >= lanes &&
         (run.unit > 0 ? terms_of(nest) : length) >= kLeastVectors * lanes;
}

void note_neighbors(const NaiveNest& nest, Rows& rows) {
  if (!nest.is_reduction()) return;
  for (const analysis::Operand& o : nest.operands)
    for (size_t i = 0; i < nest.extents.size(); ++i)
      if (o.stride[i] == 1 && nest.extents[i] > 1) (nest.reduce[i] ? rows.along : rows.across) = true;
}

bool is_plain(const Kernel& k, const NaiveNest& nest) {
  bool plain = true;
  visit_roots(nest.block->body,
              [&](Expr root) { visit(root, [&](Expr e) { return plain = plain && e->kind != ExprKind::kCall; }); });
  for (const analysis::Operand& o : nest.operands)
    for (size_t i = 0; i < nest.extents.size(); ++i)
      if (nest.reduce[i] && o.moves[i] && k.buffer(o.load->buffer)->role == BufferRole::kTemp) plain = false;
  return plain;
}

std::optional<Rows> find_rows(const Kernel& k, int64_t lanes) {
  std::vector<const Block*> blocks = collect_blocks(k.root);
  std::vector<const Block*> reductions;
  for (const Block* b : blocks)
    if (b->init != nullptr) reductions.push_back(b);
  if (reductions.empty()) return std::nullopt;
  const bool single = reductions.size() == 1;
  bool tiles_too = false;
  if (single) {
    std::optional<NaiveNest> nest = naive_nest(k, *reductions[0]);
    if (!nest || !nest->is_reduction() || !reduces_rows(*nest, lanes)) return std::nullopt;
    tiles_too = terms_of(*nest) < kLongVectors * lanes && nest->extents.back() % analysis::kMinTransposed == 0;
  }
  std::optional<NaiveNest> last = naive_nest(k, *blocks.back());
  if (!last || (last->is_reduction() && blocks.size() > 1)) return std::nullopt;
  Rows rows{*last, {}, std::vector<bool>(last->extents.size(), true), single, tiles_too};
  const auto add_step = [&](const NaiveNest& nest) {
    rows.steps.push_back({nest.name, find_run(nest, lanes), is_plain(k, nest)});
  };
  bool any = last->is_reduction();
  for (size_t i = 0; i < rows.is_row.size(); ++i) rows.is_row[i] = !last->reduce[i];
  for (size_t b = 0; b + 1 < blocks.size(); ++b) {
    std::optional<NaiveNest> nest = naive_nest(k, *blocks[b]);
    if (!nest) return std::nullopt;
    add_step(*nest);
    note_neighbors(*nest, rows);
    // A row iterator of the last block is one that chooses among the results of everything it reads.
    for (const Load* l : last->loads) {
      if (l->buffer != nest->store->buffer) continue;
      any = true;
      for (size_t i = 0; i < rows.is_row.size(); ++i)
        if (dim_of_iter(l->indices, last->block->iters[i].id) < 0) rows.is_row[i] = false;
    }
  }
  add_step(*last);
  // A result without axes is a single row.
  bool some_row = std::find(rows.is_row.begin(), rows.is_row.end(), true) != rows.is_row.end();
  if (!any || (!some_row && !k.buffer(last->store->buffer)->shape.empty())) return std::nullopt;
  return rows;
}

// Lanes want neighboring elements: along the rows where these are contiguous, across them where the rows are.
bool is_sensible(const Rows& rows, bool across) {
  if (rows.along != rows.across) return across ? rows.across : rows.along;
  std::optional<int64_t> along, over;
  for (size_t i = 0; i < rows.is_row.size(); ++i) (rows.is_row[i] ? over : along) = rows.last.result.stride[i];
  if (!along || !over || (*along != 1 && *over != 1)) return true;
  return across ? *over == 1 : *along == 1;
}

// One pass instead of two: what the reduction reads is made in the iteration that reads it.
bool compute_within(Schedule& s, BlockRv reduction, LoopRv loop) {
  bool any = false;
  size_t iters = find_block(s.kernel().root, s.id(reduction))->iters.size();
  for (Id id : schedule::producers_of(s.kernel(), s.id(reduction))) {
    const Block* block = find_block(s.kernel().root, id);
    if (block->init != nullptr || block->iters.size() + 1 < iters) continue;
    Schedule trial = s;
    BlockRv producer = trial.get_block(name_hint(s.kernel(), id));
    trial.compute_at(producer, loop);
    std::vector<LoopRv> loops = trial.get_loops(producer);
    if (!trial.ok()) continue;
    trial.vectorize(loops.back());
    if (!trial.ok()) continue;
    s = std::move(trial);
    any = true;
  }
  return any;
}

// While a row is in work that takes its time, the rows behind it are fetched: the first pass over them would wait for
// memory with nothing else to do. Rows follow each other in memory, so any distance reaches each line once.
void prefetch_rows(Schedule& s, LoopRv pass, const target::Target& target) {
  if (output_bytes(s.kernel()) < static_cast<double>(target.cpu.l2_bytes)) return;
  s.annotate(pass, AnnotationKey::kPrefetch, s.sample_categorical({0, 64, 128, 256}, {0.4, 0.2, 0.2, 0.2}));
}

struct VectorTile {
  LoopRv outer, vector;
  std::optional<ExprRv> tail;  // how the outer loop is to treat what overhangs
};
// Whole vectors that divide the extent where one exists, else any number of whole vectors: multiples of `unit`, where
// that is not 0. `plain`: of a step that is so.
VectorTile tile_vector(Schedule& s, LoopRv loop, const target::Target& target, int64_t vectors, int64_t unit = 0,
                       bool plain = false) {
  const Loop* l = find_loop(s.kernel().root, s.id(loop));
  if (l == nullptr || !is_int(l->extent)) return {loop, loop, {}};
  int64_t extent = int_value(l->extent), limit = vectors * vector_lanes(target);
  const bool is_long = extent >= kManyTiles * limit;
  if (unit == 0 && plain && is_long) unit = kLeastPartial * vector_lanes(target);
  const int64_t lanes = std::max(vector_lanes(target), unit);
  auto split = [&](ExprRv outer, ExprRv vector, std::optional<ExprRv> tail) -> VectorTile {
    std::vector<LoopRv> parts = s.split(loop, {outer, vector});
    return {parts[0], parts[1], tail};
  };
  if (extent <= lanes) return split(lit(1), lit(extent), {});
  std::vector<int64_t> widths;
  for (int64_t w = lanes; w <= std::min(limit, extent); w += lanes)
    if (extent % w == 0) widths.push_back(w);
  if (!widths.empty()) {
    std::vector<double> weights(widths.size(), 1.0 / static_cast<double>(widths.size()));
    return split({}, s.sample_categorical(widths, weights), {});
  }
  ExprRv tail;
  // Masks in every iteration are worth a try only where the instruction set has them, for few iterations.
  constexpr int64_t kPeel = 1 << static_cast<int>(TailMode::kPeel), kMask = 1 << static_cast<int>(TailMode::kMask);
  int64_t modes = target.cpu.vector_bits >= 512 && !is_long ? kPeel | kMask : kPeel;
  std::vector<ExprRv> factors = s.sample_tile(loop, 2, limit, lanes, &tail, modes);
  return split(factors[0], factors[1], tail);
}
// Behind the steps that want plain loops.
void annotate_tail(Schedule& s, LoopRv outer, const VectorTile& tile) {
  if (tile.tail) s.annotate(outer, AnnotationKey::kTail, *tile.tail);
}

// Each step is a try of its own: what is rejected stays a plain loop.
void mark(Schedule& s, const Rows::Step& step, size_t depth, bool across, const target::Target& target) {
  Schedule trial = s;
  BlockRv block = trial.get_block(step.name);
  std::vector<LoopRv> loops = trial.get_loops(block);
  if (!trial.ok() || loops.size() <= depth) return;
  const Block* found = find_block(trial.kernel().root, trial.id(block));
  std::vector<LoopRv> spatial, reduce;
  for (size_t i = depth; i < loops.size(); ++i) {
    if (find_loop(trial.kernel().root, trial.id(loops[i]))->loop_kind != LoopKind::kSerial) return;
    bool feeds_reduce = false;
    for (const Iter& it : found->iters)
      feeds_reduce |= it.kind != IterKind::kSpatial && mentions(it.binding, trial.id(loops[i]));
    (feeds_reduce ? reduce : spatial).push_back(loops[i]);
  }
  if (reduce.empty()) {
    // One value a row: the tile of rows is small, and its extent may still be a symbol.
    if (found->iters.size() == depth) {
      trial.vectorize(spatial.back());
    } else {
      VectorTile tile = tile_vector(trial, spatial.back(), target, 4);
      trial.vectorize(tile.vector);
      annotate_tail(trial, tile.outer, tile);
    }
  } else if (across) {
    if (spatial.empty()) return;
    trial.reorder(reduce, spatial);
    trial.vectorize(spatial.back());
  } else {
    // A vector of partial results for each row, whose lanes are combined at its end.
    const size_t run = std::min(step.run.iterators + (step.run.several ? 1 : 0), reduce.size());
    LoopRv along = run > 1 ? trial.fuse(std::span(reduce).last(run)) : reduce.back();
    VectorTile tile = tile_vector(trial, along, target, kMaxPartialVectors, step.run.unit, step.plain);
    BlockRv partial = trial.rfactor(block, tile.vector);
    std::vector<LoopRv> lanes = trial.get_loops(partial), rest = trial.get_loops(block);
    if (!trial.ok()) return;
    LoopRv pass = lanes[lanes.size() - 2];
    if (compute_within(trial, partial, pass)) prefetch_rows(trial, pass, target);
    trial.vectorize(lanes.back());
    annotate_tail(trial, pass, tile);
    trial.annotate(rest.back(), AnnotationKey::kTreeReduce, lit(1));
  }
  if (trial.ok()) s = std::move(trial);
}

// Rows of a tile, at most a vector of them: beyond what the cache holds, nothing is done for several rows at once.
int64_t rows_in_cache(const Kernel& k, const Rows& rows, const target::Target& target) {
  double count = 1;
  for (size_t i = 0; i < rows.is_row.size(); ++i)
    count *= rows.is_row[i] ? static_cast<double>(rows.last.extents[i]) : 1;
  const double row_bytes = std::max(buffer_bytes(k, false) / count, 1.0);
  const double fit = std::max(kTileShare * static_cast<double>(target.cpu.l1_bytes) / row_bytes, 1.0);
  return std::min(vector_lanes(target), static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(fit))));
}

bool tile(Schedule& s, const Rows& rows, bool across, const target::Target& target) {
  BlockRv last = s.get_block(rows.last.name);
  std::vector<LoopRv> loops = s.get_loops(last), row_loops, along;
  for (size_t i = 0; i < loops.size(); ++i) (rows.is_row[i] ? row_loops : along).push_back(loops[i]);
  if (!s.ok()) return false;
  if (row_loops.empty()) row_loops.push_back(loops.empty() ? s.add_unit_loop(last) : s.add_unit_loop(loops.front()));
  const int64_t most = across || rows.single ? vector_lanes(target) : rows_in_cache(s.kernel(), rows, target);
  std::vector<ExprRv> factors = s.sample_perfect_tile(row_loops.back(), 2, most);
  std::vector<LoopRv> parts = s.split(row_loops.back(), factors);
  row_loops.back() = parts[0];
  s.reorder(row_loops, parts[1], along);
  for (size_t i = rows.steps.size() - 1; i-- > 0;) s.compute_at(s.get_block(rows.steps[i].name), parts[0]);
  if (!s.ok()) return false;
  // Consumers first: a step that a reduction reads goes into the loop of the reduction.
  for (size_t i = rows.steps.size(); i-- > 0;) mark(s, rows.steps[i], row_loops.size(), across, target);
  LoopRv outer;
  if (fuse_parallel(s, row_loops, &outer)) stream_large_output(s, outer, target);
  return s.ok();
}

}  // namespace

Ways row_tiling(const Schedule& state, const target::Target& target, const SpaceOptions&) {
  std::optional<Rows> rows = find_rows(state.kernel(), vector_lanes(target));
  if (!rows) return {state};
  Ways ways;
  for (bool across : {false, true}) {
    if (rows->single ? across : !is_sensible(*rows, across)) continue;
    ways.attempt(state, [&](Schedule& s) { return tile(s, *rows, across, target); });
  }
  return rows->tiles_too ? ways.or_also(state) : ways.or_else(state);
}

}  // namespace tcc::space
