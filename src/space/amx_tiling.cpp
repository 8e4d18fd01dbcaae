// Matrix products by tile instructions (AMX): bf16 into f32 and bytes, with or without sign, into s32.
//
//   parallel (i0, j0) { i1 { j1 { tiles d = 0; k { load a, b; d += a b } store d; epilogue } } }
//
// A 2 x 2 block of 16 x 16 accumulators needs one tile load for each product, so operands in the first cache keep the
// unit busy (Intel 64 optimization manual, 20.5.2: 4 accumulators, 2 + 2 operand tiles, all eight registers). B is
// packed with groups of k side by side, ahead where it is a constant. Extents that are not whole tiles are padded with
// zeros.
//
// A convolution whose channels are in blocks (N,C/b,H,W,b) is a sum of such products, one for each block of channels
// and each place of the window: positions of a row x channels of a block, times channels x filters. The tile is loaded
// from the input itself, at the place that the window has.
#include <algorithm>
#include <array>

#include "space/contraction.h"
#include "space/cpu_product.h"
#include "space/modules.h"
#include "tcc/ir/instr.h"
#include "tcc/target/features.h"

namespace tcc::space {
namespace {

constexpr int64_t kTileRows = 16;                       // of an accumulator, and its columns
constexpr double kProductCycles = 16, kLoadCycles = 8;  // of a tile (Intel 64 optimization manual, 20.5)
constexpr double kCopyCycles = 6;                       // of a row of a tile
constexpr double kVectorRate = 0.125;                   // of products by vectors, in that of products by tiles
constexpr double kWorthTrying = 1.3;                    // cycles of a way, in those of the cheapest
constexpr size_t kMaxWays = 3;

// What one target instruction multiplies.
struct AmxDot {
  Type result;
  int64_t depth;  // of k in one tile
  int64_t group;  // values of k side by side in B
  std::string_view zero, load_a, load_b, product, feature, store;
};
// For operands of these types: the row that reads B as [k, j], and those that fill and empty its tiles.
std::optional<AmxDot> amx_dot(Type left, Type right) {
  for (int32_t number : find_products(left, Participants::kThread)) {
    const Instruction& row = instruction(number);
    const OperandSpec &d = row.operands[0], &a = row.operands[1], &b = row.operands[2];
    if (row.family != Family::kAmx || b.type != right || b.tile[0] != a.tile[1]) continue;
    auto name = [](int32_t other) { return instruction(other).name; };
    return AmxDot{d.type,
                  a.tile[1],
                  4 / type_bytes(left),
                  name(find_tile_zero(Family::kAmx, d)),
                  name(find_tile_load(Family::kAmx, a)),
                  name(find_tile_load(Family::kAmx, b)),
                  row.name,
                  row.feature,
                  name(find_tile_store(Family::kAmx, d))};
  }
  return std::nullopt;
}

// What one of the instructions may multiply.
struct AmxProduct : CpuProductNest {
  AmxProduct() = default;
  explicit AmxProduct(const CpuProductNest& product) : CpuProductNest(product) {}
  AmxDot dot;
  // Of a convolution: what is added up beside k, outermost first; the iterator along which m is repeated; whether rows
  // of a tile are neighbors in the input; the iterators in each of these, where it reads a copy.
  std::vector<size_t> sums;
  std::optional<size_t> row;
  bool neighbors = false;
  std::vector<std::vector<size_t>> fused_from;
  bool is_convolution() const { return !sums.empty(); }
};

bool has_unit(const target::Target& target, std::string_view feature) {
  return target.cpu.features.amx_tile && target::has_feature(target.cpu.features, feature);
}

Type operand_type(const Kernel& k, const CpuProductNest& p, int read) {
  return k.buffer(schedule::read_buffers(k, p.nest.block->id)[static_cast<size_t>(read)])->type;
}
std::optional<AmxDot> dot_of(const Kernel& k, const CpuProductNest& p) {
  std::optional<AmxDot> dot = amx_dot(operand_type(k, p, p.a), operand_type(k, p, p.b));
  return dot && k.buffer(p.nest.store->buffer)->type == dot->result ? dot : std::nullopt;
}

// out[.., row, m, n] += in[.., row + .., m + .., k] w[.., k, n], with constant weights.
std::optional<AmxProduct> as_convolution(const Kernel& k, const NaiveNest& nest) {
  if (nest.operands[0].constant == nest.operands[1].constant || nest.result.stride.empty()) return std::nullopt;
  const size_t input = nest.operands[0].constant ? 1 : 0;
  const analysis::Operand &x = nest.operands[input], &w = nest.operands[1 - input];
  AmxProduct p;
  p.nest = nest;
  std::vector<size_t> positions;
  std::optional<size_t> filters;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (!nest.result.stride[i] || !x.stride[i] || !w.stride[i]) return std::nullopt;
    if (nest.reduce[i]) {
      p.sums.push_back(i);
    } else if (nest.result.stride[i] == 1 && w.dim[i] >= 0 && !x.moves[i]) {
      filters = i;
    } else if (x.moves[i] && !w.moves[i]) {
      positions.push_back(i);
    }
  }
  if (!filters || positions.empty() || p.sums.size() < 2) return std::nullopt;
  p.n = *filters, p.m = positions.back(), p.k = p.sums.back();
  p.sums.pop_back();
  const Expr block = k.buffer(x.load->buffer)->shape.back();
  if (x.stride[p.k] != 1 || w.dim[p.k] < 0 || !is_int(block, nest.extents[p.k])) return std::nullopt;
  p.neighbors = x.stride[p.m] == int_value(block);
  if (positions.size() > 1) p.row = positions[positions.size() - 2];
  const std::vector<Id> reads = schedule::read_buffers(k, nest.block->id);
  p.a = static_cast<int>(std::find(reads.begin(), reads.end(), x.load->buffer) - reads.begin());
  p.b = 1 - p.a;
  return p;
}

std::optional<AmxProduct> match_amx_product(const Kernel& k, const target::Target& target,
                                            const SpaceOptions& options) {
  for (const Block* block : collect_blocks(k.root)) {
    const std::optional<NaiveNest> nest = sum_of_products(k, *block);
    if (!nest) continue;
    std::optional<AmxProduct> p = options.pack_weights ? as_convolution(k, *nest) : std::nullopt;
    if (const std::optional<CpuProductNest> product = as_product(k, *nest)) p.emplace(*product);
    const std::optional<AmxDot> dot = p ? dot_of(k, *p) : std::nullopt;
    if (!dot || !has_unit(target, dot->feature)) continue;
    p->dot = *dot;
    return p;
  }
  return std::nullopt;
}

// Accumulators of a step: along the rows of a convolution, along m and along n.
struct AmxTiles {
  int64_t rows = 1, m = 1, n = 1;
  // A convolution reads a copy with the places of the window apart and all positions in one dimension.
  bool gathers = false;
  double cycles = 0;  // of the whole convolution, estimated
};

int64_t tiles(int64_t extent) {
  return extent > kTileRows ? 2 : 1;
}
int64_t whole(int64_t extent, int64_t tile) {
  return (extent + tile - 1) / tile * tile;
}

// The product that a convolution is when it reads a copy: m runs over all positions, behind what is added up.
AmxProduct gathered(const AmxProduct& p) {
  AmxProduct q = p;
  std::vector<std::vector<size_t>> from;  // the old iterators of each new one
  for (size_t i = 0; i < p.nest.extents.size(); ++i)
    if (!p.nest.reduce[i] && i != p.m && i != p.n && i != p.row) from.push_back({i});
  q.sums.clear();
  for (size_t i : p.sums) q.sums.push_back(from.size()), from.push_back({i});
  q.m = from.size(), q.n = q.m + 1, q.k = q.m + 2;
  from.push_back(p.row ? std::vector<size_t>{*p.row, p.m} : std::vector<size_t>{p.m});
  from.insert(from.end(), {{p.n}, {p.k}});
  q.row.reset();
  q.nest.extents.clear(), q.nest.reduce.clear();
  for (analysis::Operand& o : q.nest.operands) o.dim.clear();
  for (const std::vector<size_t>& old : from) {
    q.nest.extents.push_back(1);
    for (size_t i : old) q.nest.extents.back() *= p.nest.extents[i];
    q.nest.reduce.push_back(p.nest.reduce[old[0]]);
    for (size_t o = 0; o < q.nest.operands.size(); ++o)
      q.nest.operands[o].dim.push_back(old.size() == 1 ? p.nest.operands[o].dim[old[0]] : -1);
  }
  q.fused_from = std::move(from);
  return q;
}

// What reads the result, and only it, is computed where the copy of the result would be.
void gather(Schedule& s, const AmxProduct& q, BlockRv block) {
  const std::vector<BlockRv> readers = s.get_consumers(block);
  std::vector<std::vector<schedule::IterDigit>> map;
  for (const std::vector<size_t>& old : q.fused_from) {
    map.emplace_back();
    for (size_t i : old) map.back().push_back({static_cast<int64_t>(i), 1, 0});
  }
  s.transform_block_layout(block, map);
  s.reindex(block, q.a);
  s.reindex(block, -1);
  if (readers.size() == 1) keep_if_legal(s, [&](Schedule& trial) { trial.reverse_compute_inline(readers[0]); });
}

// Whole tiles, B in groups of k.
bool prepare(Schedule& s, const AmxProduct& p, const AmxTiles& t, BlockRv block) {
  if (t.gathers) gather(s, p, block);
  std::vector<int64_t> multiples(p.nest.extents.size(), 1);
  multiples[p.m] = kTileRows * t.m;
  multiples[p.n] = kTileRows * t.n;
  multiples[p.k] = p.dot.depth;
  if (p.row) multiples[*p.row] = t.rows;
  return s.ok() && pack_operands(s, p, block, multiples, kTileRows, p.dot.group);
}

// The two innermost loops of `block`, rows x columns elements, become one instruction for each tile; those of further
// `repeats` around them are written out.
bool tensorize_box(Schedule& s, BlockRv block, int64_t rows, int64_t columns, std::string_view instruction,
                   size_t repeats) {
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() < 2 + repeats) return false;
  LoopRv row = loops[loops.size() - 2], column = loops.back();
  std::vector<LoopRv> r = s.split(row, {ExprRv{}, lit(rows)});
  std::vector<LoopRv> c = s.split(column, {ExprRv{}, lit(columns)});
  if (!s.ok()) return false;
  s.reorder(std::array{r[0], c[0], r[1], c[1]});
  for (size_t i = 0; i < repeats; ++i) s.unroll(loops[loops.size() - 3 - i]);
  s.unroll(r[0]);
  s.unroll(c[0]);
  s.tensorize(r[1], instruction);
  return s.ok();
}

bool schedule_tiles(Schedule& s, const AmxProduct& p, const AmxTiles& t, const SpaceOptions& options) {
  const AmxDot& dot = p.dot;
  BlockRv block = s.get_block(p.nest.name);
  if (!prepare(s, p, t, block)) return false;
  std::vector<BlockRv> epilogues = s.get_consumers(block);
  BlockRv store = s.cache_write(block, Scope::kAmxTile);
  BlockRv load_a = s.cache_read(block, p.a, Scope::kAmxTile);
  BlockRv load_b = s.cache_read(block, p.b, Scope::kAmxTile);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != p.nest.extents.size()) return false;

  std::vector<LoopRv> i = s.split(loops[p.m], {ExprRv{}, lit(t.m), lit(kTileRows)});
  std::vector<LoopRv> j = s.split(loops[p.n], {ExprRv{}, lit(t.n), lit(kTileRows)});
  std::vector<LoopRv> k = s.split(loops[p.k], {ExprRv{}, lit(dot.depth)});
  std::vector<LoopRv> rows, around;
  for (size_t l = 0; s.ok() && l < loops.size(); ++l) {
    if (l == p.m || l == p.n || p.nest.reduce[l]) continue;
    around.push_back(loops[l]);
    if (l != p.row || t.rows == 1) continue;
    const std::vector<LoopRv> parts = s.split(loops[l], {ExprRv{}, lit(t.rows)});
    if (!s.ok()) return false;
    around.back() = parts[0];
    rows.push_back(parts[1]);
  }
  if (!s.ok()) return false;
  std::vector<LoopRv> io = s.split(i[0], s.sample_perfect_tile(i[0], 2, options.max_innermost));
  std::vector<LoopRv> jo = s.split(j[0], s.sample_perfect_tile(j[0], 2, options.max_innermost));
  if (!s.ok()) return false;
  const std::vector<LoopRv> outer = joined(around, io[0], jo[0]), sums = joined(pick(loops, p.sums), k[0]);
  s.reorder(outer, io[1], jo[1], sums, rows, i[1], j[1], i[2], j[2], k[1]);
  s.compute_at(load_a, k[0]);
  s.compute_at(load_b, k[0]);
  s.reverse_compute_at(store, jo[1]);
  if (!s.ok()) return false;
  move_epilogue(s, epilogues, jo[1]);
  BlockRv zero = s.decompose_reduction(block, sums[0]);
  for (LoopRv row : rows) s.unroll(row);
  s.unroll(i[1]);
  s.unroll(j[1]);
  s.tensorize(i[2], dot.product);
  if (!s.ok()) return false;
  std::vector<LoopRv> init = s.get_loops(zero);
  if (!s.ok() || init.size() < 4 + rows.size()) return false;
  for (size_t l = 3; l <= 4 + rows.size(); ++l) s.unroll(init[init.size() - l]);
  s.tensorize(init[init.size() - 2], dot.zero);
  if (!tensorize_box(s, load_a, kTileRows, dot.depth, dot.load_a, rows.size())) return false;
  if (!tensorize_box(s, load_b, dot.depth, kTileRows, dot.load_b, 0)) return false;
  if (!tensorize_box(s, store, kTileRows, kTileRows, dot.store, rows.size())) return false;
  fuse_parallel(s, outer);
  return s.ok();
}

// Half of the loads is hidden behind products.
double cycles_of(const AmxProduct& p, const AmxTiles& t) {
  const auto of = [](int64_t n) { return static_cast<double>(n); };
  double around = 1, steps = of(whole(p.nest.extents[p.k], p.dot.depth) / p.dot.depth), rows = 1;
  for (size_t i = 0; i < p.nest.extents.size(); ++i) {
    if (i == p.m || i == p.n || i == p.k) continue;
    const int64_t extent = p.nest.extents[i];
    if (p.nest.reduce[i])
      steps *= of(extent);
    else if (i == p.row)
      rows *= of(t.gathers ? extent : whole(extent, t.rows));
    else
      around *= of(extent);
  }
  const double positions = t.gathers ? of(whole(static_cast<int64_t>(rows) * p.nest.extents[p.m], kTileRows * t.m))
                                     : rows * of(whole(p.nest.extents[p.m], kTileRows * t.m));
  const double tiles = positions / kTileRows * of(whole(p.nest.extents[p.n], kTileRows * t.n)) / kTileRows;
  const double loads = 1.0 / of(t.rows * t.m) + 1.0 / of(t.n);  // for a product
  return around * tiles * steps * (kProductCycles + loads * kLoadCycles / 2) +
         (t.gathers ? positions * steps * kCopyCycles : 0);
}

// Those of a step, the cheapest first.
std::vector<AmxTiles> tiles_of(const AmxProduct& p) {
  const int64_t m = tiles(p.nest.extents[p.m]), n = tiles(p.nest.extents[p.n]);
  if (!p.is_convolution()) return {{1, m, n}};
  std::vector<AmxTiles> out;
  const auto add = [&](AmxTiles t) {
    t.cycles = cycles_of(p, t);
    out.push_back(t);
  };
  for (int64_t i = 1; i <= 2; ++i) {
    add({1, i, n, true});
    if (p.neighbors) add({1, i, n, false});
  }
  if (p.neighbors && p.row) add({2, 1, n, false});
  keep_cheapest(out, kMaxWays, kWorthTrying);
  return out;
}

// The rate in that of products of whole tiles.
double rate_of(const AmxProduct& p, const AmxTiles& t) {
  double products = 1.0 / static_cast<double>(kTileRows * kTileRows * p.dot.depth);
  for (int64_t extent : p.nest.extents) products *= static_cast<double>(extent);
  return products * kProductCycles / t.cycles;
}
bool pays(const AmxProduct& p, const std::vector<AmxTiles>& tiles, double rate) {
  return !p.is_convolution() || rate_of(p, tiles[0]) >= rate;
}

}  // namespace

bool has_byte_tiles(const target::Target& target) {
  return has_unit(target, "amx_int8");
}

std::vector<std::string> unmet_conditions_of_amx(const Kernel& kernel, const target::Target& target) {
  std::vector<std::string> unmet;
  if (!target.cpu.features.amx_tile)
    unmet.push_back(fmt::format("{} has no matrix unit (AMX)", target.name));
  else if (!has_unit(target, "amx_bf16") && !has_unit(target, "amx_int8"))
    unmet.push_back(fmt::format("the matrix unit of {} multiplies neither bf16 nor i8", target.name));
  std::optional<NaiveNest> nest;
  for (const Block* block : collect_blocks(kernel.root))
    if (std::optional<NaiveNest> found = sum_of_products(kernel, *block); found && !nest) nest = found;
  if (!nest) {
    unmet.push_back("the task holds no sum of products of two tensors");
    return unmet;
  }
  const auto type = [&](Id buffer) { return kernel.buffer(buffer)->type; };
  const Type left = type(nest->loads[0]->buffer), right = type(nest->loads[1]->buffer),
             result = type(nest->store->buffer);
  std::optional<AmxDot> dot = amx_dot(left, right);
  if (!dot) dot = amx_dot(right, left);
  if (!dot || dot->result != result)
    unmet.push_back(fmt::format("it multiplies {} by {} into {}; AMX multiplies bf16 into f32 and bytes into i32",
                                type_name(left), type_name(right), type_name(result)));
  else if (!has_unit(target, dot->feature) && target.cpu.features.amx_tile)
    unmet.push_back(fmt::format("the matrix unit of {} does not multiply {}", target.name, type_name(left)));
  const auto sums = std::count(nest->reduce.begin(), nest->reduce.end(), true);
  std::optional<AmxProduct> convolution = as_convolution(kernel, *nest);
  if (sums == 1 && !as_product(kernel, *nest))
    unmet.push_back("the operands are not stored as rows of A (.., m, k) and of B (.., k, n)");
  if (sums > 1 && !convolution)
    unmet.push_back(fmt::format(
        "the sum runs over {} loops (a convolution's window), and channels are not in blocks (--layouts blocked)",
        sums));
  if (sums == 1 || !convolution || !dot) return unmet;
  convolution->dot = *dot;
  if (!pays(*convolution, tiles_of(*convolution), kVectorRate))
    unmet.push_back(fmt::format("its positions, filters and blocks of {} channels fill less than {:.0f} % of the tiles",
                                convolution->nest.extents[convolution->k], 100 * kVectorRate));
  return unmet;
}

Ways amx_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<AmxProduct> product = match_amx_product(state.kernel(), target, options);
  if (!product) return {state};
  Ways ways;
  const std::vector<AmxTiles> tiles = tiles_of(*product);
  if (!pays(*product, tiles, kVectorRate)) return {state};
  for (const AmxTiles& t : tiles)
    ways.attempt(state, [&](Schedule& s) {
      return schedule_tiles(s, t.gathers ? gathered(*product) : *product, t, options) && s.ok();
    });
  const bool clear = product->is_convolution() && pays(*product, tiles, 1.5 * kVectorRate);
  return clear ? ways.or_else(state) : ways.or_also(state);
}

}  // namespace tcc::space
