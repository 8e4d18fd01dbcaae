// Matrix products by tile instructions (AMX): bf16 into f32 and int8 into s32.
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

namespace tcc::space {
namespace {

constexpr Type kOperands[] = {Type::kBF16, Type::kI8};
constexpr int64_t kTileRows = 16;  // of an accumulator, and its columns

// What one target instruction multiplies.
struct AmxDot {
  Type operand, result;
  int64_t depth;  // of k in one tile
  int64_t group;  // values of k side by side in B
  std::string_view zero, load_a, load_b, product, store;
};
// Of the target's tiles, for operands of a type: the row that reads B as [k, j], and those that fill and empty its
// tiles.
std::optional<AmxDot> amx_dot(Type operand) {
  for (int32_t number : find_products(operand, Participants::kThread)) {
    const Instruction& row = instruction(number);
    const OperandSpec &d = row.operands[0], &a = row.operands[1], &b = row.operands[2];
    if (row.family != Family::kAmx || b.tile[0] != a.tile[1]) continue;
    auto name = [](int32_t other) { return instruction(other).name; };
    return AmxDot{operand,
                  d.type,
                  a.tile[1],
                  4 / type_bytes(operand),
                  name(find_tile_zero(Family::kAmx, d)),
                  name(find_tile_load(Family::kAmx, a)),
                  name(find_tile_load(Family::kAmx, b)),
                  row.name,
                  name(find_tile_store(Family::kAmx, d))};
  }
  return std::nullopt;
}

// What one of the instructions may multiply.
struct AmxProduct : CpuProductNest {
  AmxDot dot;
};

// The access's last two dimensions are these iterators, and no other one moves with them.
bool ends_with(const Kernel& k, const analysis::Operand& o, Id buffer, size_t row, size_t column) {
  const std::span<const Expr> shape = k.buffer(buffer)->shape;
  const int rank = static_cast<int>(shape.size());
  return rank >= 2 && o.dim[row] == rank - 2 && o.dim[column] == rank - 1 && o.stride[column] == 1 && o.stride[row] &&
         is_int(shape.back(), *o.stride[row]);
}

bool has_unit(const target::Target& target, Type operand) {
  const target::CpuFeatures& have = target.cpu.features;
  return have.amx_tile && (operand == Type::kBF16 ? have.amx_bf16 : have.amx_int8);
}

std::optional<AmxDot> dot_of(const Kernel& k, const NaiveNest& nest) {
  for (Type operand : kOperands) {
    const AmxDot dot = *amx_dot(operand);
    bool fits = k.buffer(nest.store->buffer)->type == dot.result && nest.loads.size() == 2;
    for (const Load* l : nest.loads) fits &= k.buffer(l->buffer)->type == dot.operand;
    if (fits) return dot;
  }
  return std::nullopt;
}

}  // namespace

std::optional<NaiveNest> sum_of_products(const Kernel& k, const Block& block) {
  std::optional<NaiveNest> nest = naive_nest(k, block);
  if (!nest || !nest->is_reduction() || block.init == nullptr || block.iters.size() < 3) return std::nullopt;
  if (nest->loads.size() != 2 || nest->loads[0]->buffer == nest->loads[1]->buffer) return std::nullopt;
  return nest;
}

std::optional<CpuProductNest> as_product(const Kernel& k, const NaiveNest& nest) {
  const Block& block = *nest.block;
  CpuProductNest p{nest};
  size_t last = block.iters.size() - 1;
  p.m = last - 2, p.n = last - 1, p.k = last;
  if (std::count(nest.reduce.begin(), nest.reduce.end(), true) != 1 || !nest.reduce[p.k]) return std::nullopt;
  const bool swapped = ends_with(k, nest.operands[1], nest.loads[1]->buffer, p.m, p.k);
  const analysis::Operand &a = nest.operands[swapped ? 1 : 0], &b = nest.operands[swapped ? 0 : 1];
  if (!ends_with(k, a, a.load->buffer, p.m, p.k) || !ends_with(k, b, b.load->buffer, p.k, p.n) ||
      !ends_with(k, nest.result, nest.store->buffer, p.m, p.n))
    return std::nullopt;
  std::vector<Id> reads = schedule::read_buffers(k, block.id);
  p.a = static_cast<int>(std::find(reads.begin(), reads.end(), a.load->buffer) - reads.begin());
  p.b = static_cast<int>(std::find(reads.begin(), reads.end(), b.load->buffer) - reads.begin());
  return p;
}

bool pack_operands(Schedule& s, const CpuProductNest& p, BlockRv block, std::span<const int64_t> multiples,
                   int64_t columns, int64_t group) {
  bool grows = false;
  for (size_t i = 0; i < multiples.size(); ++i) grows |= p.nest.extents[i] % multiples[i] != 0;
  if (grows) s.pad_einsum(block, multiples);
  if (!s.ok()) return false;
  const Buffer* b = s.kernel().buffer(schedule::read_buffers(s.kernel(), s.id(block))[static_cast<size_t>(p.b)]);
  if (b->role == BufferRole::kInput) s.cache_read(block, p.b, Scope::kWorkspace);
  const auto rank = static_cast<int32_t>(b->shape.size());
  std::vector<int32_t> order;
  for (int32_t d = 0; d + 2 < rank; ++d) order.push_back(d);
  order.insert(order.end(), {rank - 1, rank - 2});
  s.transform_layout(block, p.b, order,
                     std::array<std::pair<int32_t, int64_t>, 2>{{{rank - 1, columns}, {rank - 2, group}}});
  return s.ok();
}

namespace {

std::optional<AmxProduct> match_amx_product(const Kernel& k, const target::Target& target) {
  for (const Block* block : collect_blocks(k.root)) {
    std::optional<NaiveNest> nest = sum_of_products(k, *block);
    if (!nest) continue;
    std::optional<AmxDot> dot = dot_of(k, *nest);
    if (!dot || !has_unit(target, dot->operand)) continue;
    if (std::optional<CpuProductNest> p = as_product(k, *nest)) return AmxProduct{*p, *dot};
  }
  return std::nullopt;
}

int64_t tiles(int64_t extent) {
  return extent > kTileRows ? 2 : 1;
}

// Whole tiles, B in groups of k, and nothing but a temporary between the product and what reads it.
bool prepare(Schedule& s, const AmxProduct& p, BlockRv block) {
  std::vector<int64_t> multiples(p.nest.extents.size(), 1);
  multiples[p.m] = kTileRows * tiles(p.nest.extents[p.m]);
  multiples[p.n] = kTileRows * tiles(p.nest.extents[p.n]);
  multiples[p.k] = p.dot.depth;
  if (!pack_operands(s, p, block, multiples, kTileRows, p.dot.group)) return false;
  auto grows = [&](size_t i) { return i != p.k && p.nest.extents[i] % multiples[i] != 0; };
  if (grows(p.m) || grows(p.n)) {
    std::vector<BlockRv> copies = s.get_consumers(block);
    if (copies.size() != 1) return false;
    Id written = schedule::written_buffer(s.kernel(), s.id(copies[0]));
    if (s.kernel().buffer(written)->role == BufferRole::kTemp) s.compute_inline(copies[0]);
  }
  return s.ok();
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

// What reads the result does so while the block of tiles is in the first cache. Left alone where that is illegal.
void move_epilogue(Schedule& s, BlockRv epilogue, LoopRv at, size_t epilogues) {
  if (epilogues != 1) return;
  Schedule trial = s;
  trial.reverse_compute_at(epilogue, at);
  std::vector<LoopRv> loops = trial.get_loops(epilogue);
  if (!trial.ok() || loops.empty()) return;
  trial.vectorize(loops.back());
  if (trial.ok()) s = std::move(trial);
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
  for (BlockRv e : epilogues) move_epilogue(s, e, jo[1], epilogues.size());
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

std::vector<std::string> unmet_conditions_of_amx(const Kernel& kernel, const target::Target& target) {
  std::vector<std::string> unmet;
  if (!target.cpu.features.amx_tile)
    unmet.push_back(fmt::format("{} has no matrix unit (AMX)", target.name));
  else if (std::none_of(std::begin(kOperands), std::end(kOperands), [&](Type t) { return has_unit(target, t); }))
    unmet.push_back(fmt::format("the matrix unit of {} multiplies neither bf16 nor i8", target.name));
  std::optional<NaiveNest> nest;
  for (const Block* block : collect_blocks(kernel.root))
    if (std::optional<NaiveNest> found = sum_of_products(kernel, *block); found && !nest) nest = found;
  if (!nest) {
    unmet.push_back("the task holds no sum of products of two tensors");
    return unmet;
  }
  const std::optional<AmxDot> dot = dot_of(kernel, *nest);
  if (!dot) {
    const auto type = [&](Id buffer) { return type_name(kernel.buffer(buffer)->type); };
    unmet.push_back(fmt::format("it multiplies {} by {} into {}; AMX multiplies bf16 into f32 and i8 into i32",
                                type(nest->loads[0]->buffer), type(nest->loads[1]->buffer), type(nest->store->buffer)));
  } else if (!has_unit(target, dot->operand) && target.cpu.features.amx_tile) {
    unmet.push_back(fmt::format("the matrix unit of {} does not multiply {}", target.name, type_name(dot->operand)));
  }
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
