// Matrix products by tile instructions (AMX): bf16 into f32 and bytes, with or without sign, into s32.
//
//   parallel (i0, j0) { i1 { j1 { tiles d = 0; k { load a, b; d += a b } store d; epilogue } } }
//
// A 2 x 2 block of 16 x 16 accumulators needs one tile load for each product, so operands in the first cache keep the
// unit busy (Intel 64 optimization manual, 20.5.2: 4 accumulators, 2 + 2 operand tiles, all eight registers). B is
// packed with groups of k side by side, ahead where it is a constant. Extents that are not whole tiles are padded with
// zeros.
#include <algorithm>
#include <array>

#include "space/cpu_product.h"
#include "space/modules.h"
#include "tcc/ir/instr.h"
#include "tcc/target/features.h"

namespace tcc::space {
namespace {

constexpr int64_t kTileRows = 16;  // of an accumulator, and its columns

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
  AmxDot dot;
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

std::optional<AmxProduct> match_amx_product(const Kernel& k, const target::Target& target) {
  for (const Block* block : collect_blocks(k.root)) {
    const std::optional<NaiveNest> nest = sum_of_products(k, *block);
    const std::optional<CpuProductNest> p = nest ? as_product(k, *nest) : std::nullopt;
    const std::optional<AmxDot> dot = p ? dot_of(k, *p) : std::nullopt;
    if (dot && has_unit(target, dot->feature)) return AmxProduct{*p, *dot};
  }
  return std::nullopt;
}

int64_t tiles(int64_t extent) {
  return extent > kTileRows ? 2 : 1;
}

// Whole tiles, B in groups of k.
bool prepare(Schedule& s, const AmxProduct& p, BlockRv block) {
  std::vector<int64_t> multiples(p.nest.extents.size(), 1);
  multiples[p.m] = kTileRows * tiles(p.nest.extents[p.m]);
  multiples[p.n] = kTileRows * tiles(p.nest.extents[p.n]);
  multiples[p.k] = p.dot.depth;
  return pack_operands(s, p, block, multiples, kTileRows, p.dot.group);
}

// The two innermost loops of `block`, rows x columns elements, become one instruction for each tile.
bool tensorize_box(Schedule& s, BlockRv block, int64_t rows, int64_t columns, std::string_view instruction) {
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() < 2) return false;
  LoopRv row = loops[loops.size() - 2], column = loops.back();
  std::vector<LoopRv> r = s.split(row, {ExprRv{}, lit(rows)});
  std::vector<LoopRv> c = s.split(column, {ExprRv{}, lit(columns)});
  if (!s.ok()) return false;
  s.reorder(std::array{r[0], c[0], r[1], c[1]});
  s.unroll(r[0]);
  s.unroll(c[0]);
  s.tensorize(r[1], instruction);
  return s.ok();
}

bool schedule_tiles(Schedule& s, const AmxProduct& p, const SpaceOptions& options) {
  const AmxDot& dot = p.dot;
  BlockRv block = s.get_block(p.nest.name);
  if (!prepare(s, p, block)) return false;
  std::vector<BlockRv> epilogues = s.get_consumers(block);
  BlockRv store = s.cache_write(block, Scope::kAmxTile);
  BlockRv load_a = s.cache_read(block, p.a, Scope::kAmxTile);
  BlockRv load_b = s.cache_read(block, p.b, Scope::kAmxTile);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != p.nest.extents.size()) return false;

  std::vector<LoopRv> i = s.split(loops[p.m], {ExprRv{}, lit(tiles(p.nest.extents[p.m])), lit(kTileRows)});
  std::vector<LoopRv> j = s.split(loops[p.n], {ExprRv{}, lit(tiles(p.nest.extents[p.n])), lit(kTileRows)});
  std::vector<LoopRv> k = s.split(loops[p.k], {ExprRv{}, lit(dot.depth)});
  if (!s.ok()) return false;
  std::vector<LoopRv> io = s.split(i[0], s.sample_perfect_tile(i[0], 2, options.max_innermost));
  std::vector<LoopRv> jo = s.split(j[0], s.sample_perfect_tile(j[0], 2, options.max_innermost));
  if (!s.ok()) return false;
  const std::vector<LoopRv> outer = joined(std::span(loops).first(p.m), io[0], jo[0]);
  s.reorder(outer, io[1], jo[1], k[0], i[1], j[1], i[2], j[2], k[1]);
  s.compute_at(load_a, k[0]);
  s.compute_at(load_b, k[0]);
  s.reverse_compute_at(store, jo[1]);
  if (!s.ok()) return false;
  move_epilogue(s, epilogues, jo[1]);
  BlockRv zero = s.decompose_reduction(block, k[0]);
  s.unroll(i[1]);
  s.unroll(j[1]);
  s.tensorize(i[2], dot.product);
  if (!s.ok()) return false;
  std::vector<LoopRv> init = s.get_loops(zero);
  if (!s.ok() || init.size() < 4) return false;
  s.unroll(init[init.size() - 4]);
  s.unroll(init[init.size() - 3]);
  s.tensorize(init[init.size() - 2], dot.zero);
  if (!tensorize_box(s, load_a, kTileRows, dot.depth, dot.load_a)) return false;
  if (!tensorize_box(s, load_b, dot.depth, kTileRows, dot.load_b)) return false;
  if (!tensorize_box(s, store, kTileRows, kTileRows, dot.store)) return false;
  fuse_parallel(s, outer);
  return s.ok();
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
  if (sums != 1)
    unmet.push_back(fmt::format("the sum runs over {} loops (a convolution's window), the unit's over one", sums));
  else if (!as_product(kernel, *nest))
    unmet.push_back("the operands are not stored as rows of A (.., m, k) and of B (.., k, n)");
  return unmet;
}

Ways amx_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<AmxProduct> product = match_amx_product(state.kernel(), target);
  if (!product) return {state};
  Ways ways;
  ways.attempt(state, [&](Schedule& s) { return schedule_tiles(s, *product, options) && s.ok(); });
  return ways.or_also(state);
}

}  // namespace tcc::space
