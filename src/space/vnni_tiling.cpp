// Matrix products by dot products of vectors: bf16 into f32 (vdpbf16ps), and u8 times i8 into i32 by VNNI (vpdpbusd)
// or, without it, by pairs widened to 16 bits (vpmaddwd).
//
//   parallel (i0, j0) { i1 { j1 { d = 0; k { unrolled i2, j2 { d[i2, j2] += a[i2] . b[j2] } }; out = f(d) } } }
//
// As matmul_tiling.cpp, with a group of two or four terms for each lane and step: a group of A is broadcast, B holds
// the groups of 16 columns side by side, packed ahead where it is a constant and in front of the nest otherwise.
// Extents that are not whole tiles are padded with zeros.
#include <algorithm>
#include <array>

#include "space/cpu_product.h"
#include "tcc/ir/instr.h"
#include "tcc/space/space.h"
#include "tcc/target/features.h"

namespace tcc::space {
namespace {

constexpr int64_t kMaxRows = 12;
constexpr int64_t kRowsForTiles = 8;  // fewer fill less than half of a tile of AMX
constexpr int64_t kShortSum = 64;     // of fewer terms, lanes along rows or plain products may be as fast

struct VnniProduct : CpuProductNest {
  VectorDot dot;
};

std::optional<VnniProduct> match_vnni_product(const Kernel& k, const target::Target& target) {
  for (const Block* block : collect_blocks(k.root)) {
    std::optional<NaiveNest> nest = sum_of_products(k, *block);
    std::optional<CpuProductNest> p = nest ? as_product(k, *nest) : std::nullopt;
    if (!p) continue;
    const std::vector<Id> reads = schedule::read_buffers(k, block->id);
    auto type = [&](int read) { return k.buffer(reads[static_cast<size_t>(read)])->type; };
    // Tiles of AMX do the same work in an eighth of the time (amx_tiling.cpp).
    if (type_bytes(type(p->a)) == 1 && has_byte_tiles(target) && nest->extents[p->m] >= kRowsForTiles) continue;
    const std::vector<VectorDot> dots =
        vector_dots(type(p->a), type(p->b), k.buffer(nest->store->buffer)->type, target);
    if (!dots.empty()) return VnniProduct{*p, dots[0]};
  }
  return std::nullopt;
}

// Rows written out, lanes along the columns. `vectors`: 0 where the columns are one loop.
bool mark_tile(Schedule& s, BlockRv block, int64_t vectors, int64_t vector) {
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() < 3) return false;
  std::vector<LoopRv> lanes = {loops[loops.size() - 2], loops.back()};
  size_t row = loops.size() - 3;
  if (vectors == 0) lanes = s.split(loops.back(), {ExprRv{}, lit(vector)}), row = loops.size() - 2;
  if (!s.ok()) return false;
  s.unroll(loops[row]);
  s.unroll(lanes[0]);
  s.vectorize(lanes[1]);
  return s.ok();
}

bool schedule_rows(Schedule& s, const VnniProduct& p, int64_t most, int64_t vectors, const SpaceOptions& options) {
  BlockRv block = s.get_block(p.nest.name);
  const int64_t lanes = p.dot.lanes;
  // Rows that divide, or a tile that fits with zeros around.
  const int64_t divisor = best_divisor(p.nest.extents[p.m], most), rows = 2 * divisor > most ? divisor : most;
  std::vector<int64_t> multiples(p.nest.extents.size(), 1);
  multiples[p.m] = rows, multiples[p.n] = vectors * lanes, multiples[p.k] = p.dot.group;
  if (!pack_operands(s, p, block, multiples, lanes, p.dot.group)) return false;
  const std::vector<BlockRv> epilogues = s.get_consumers(block);
  BlockRv store = s.cache_write(block, Scope::kLocal);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != p.nest.extents.size()) return false;
  std::vector<LoopRv> i = s.split(loops[p.m], {ExprRv{}, lit(rows)});
  std::vector<LoopRv> j = s.split(loops[p.n], {ExprRv{}, lit(vectors), lit(lanes)});
  std::vector<LoopRv> k = s.split(loops[p.k], {ExprRv{}, lit(p.dot.group)});
  if (!s.ok()) return false;
  std::vector<LoopRv> io = s.split(i[0], s.sample_perfect_tile(i[0], 2, options.max_innermost));
  std::vector<LoopRv> jo = s.split(j[0], s.sample_perfect_tile(j[0], 2, options.max_innermost));
  if (!s.ok()) return false;
  const std::vector<LoopRv> outer = joined(std::span(loops).first(p.m), io[0], jo[0]);
  s.reorder(outer, io[1], jo[1], k[0], i[1], j[1], j[2], k[1]);
  s.reverse_compute_at(store, jo[1]);
  move_epilogue(s, epilogues, jo[1]);
  BlockRv zero = s.decompose_reduction(block, k[0]);
  s.annotate(k[0], AnnotationKey::kUnrollMax, s.sample_categorical({1, 64, 256}, {0.4, 0.3, 0.3}));
  s.unroll(i[1]);
  s.unroll(j[1]);
  s.tensorize(j[2], p.dot.instruction);
  return s.ok() && mark_tile(s, zero, vectors, lanes) && mark_tile(s, store, 0, lanes) &&
         (fuse_parallel(s, outer), s.ok());
}

}  // namespace

std::vector<VectorDot> vector_dots(Type a, Type b, Type result, const target::Target& target) {
  const target::CpuFeatures& have = target.cpu.features;
  std::vector<VectorDot> out;
  // As above: for bf16 at any number of rows.
  if (a == Type::kBF16 && have.amx_tile && have.amx_bf16) return out;
  for (int32_t number : find_products(a, Participants::kThread)) {
    const Instruction& row = instruction(number);
    if (row.family != Family::kVector || row.operands[2].type != b || row.operands[0].type != result) continue;
    const int64_t lanes = row.operands[0].tile[0];
    if (!target::has_feature(have, row.feature) || lanes * type_bytes(result) * 8 > target.cpu.vector_bits) continue;
    out.push_back({a, b, result, row.operands[1].tile[0], lanes, row.name});
  }
  return out;
}

Ways vnni_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<VnniProduct> p = match_vnni_product(state.kernel(), target);
  if (!p) return {state};
  Ways ways;
  for (int64_t vectors : {2, 1, 4}) {
    if (vectors > 1 && (vectors - 1) * p->dot.lanes >= p->nest.extents[p->n]) continue;
    // The sums, a vector of B for each of their columns, and one of A.
    const int64_t most = std::min<int64_t>((target.cpu.num_vector_registers - vectors - 1) / vectors, kMaxRows);
    ways.attempt(state, [&](Schedule& s) {
      return schedule_rows(s, *p, std::min(most, p->nest.extents[p->m]), vectors, options);
    });
  }
  return p->nest.extents[p->k] < kShortSum ? ways.or_also(state) : ways.or_else(state);
}

}  // namespace tcc::space
