// Matrix products by the dot products of AVX-512: bf16 into f32 (vdpbf16ps) and u8 times i8 into s32 (VNNI, vpdpbusd).
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

namespace tcc::space {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kMaxRows = 12;

struct VnniDot {
  Type a, b, result;
  int64_t group;
  std::string_view instruction;
};
// Multiplies groups of values of `a` for each lane.
VnniDot vnni_dot(Type a) {
  for (int32_t number : find_products(a, Participants::kThread)) {
    const Instruction& row = instruction(number);
    if (row.family == Family::kVector)
      return {a, row.operands[2].type, row.operands[0].type, row.operands[1].tile[0], row.name};
  }
  TCC_UNREACHABLE("no dot products of {}", type_name(a));
}

struct VnniProduct : CpuProductNest {
  VnniDot dot;
};

std::optional<VnniProduct> match_vnni_product(const Kernel& k, const target::Target& target) {
  const target::CpuFeatures& have = target.cpu.features;
  for (const Block* block : collect_blocks(k.root)) {
    std::optional<NaiveNest> nest = sum_of_products(k, *block);
    std::optional<CpuProductNest> p = nest ? as_product(k, *nest) : std::nullopt;
    if (!p) continue;
    const std::vector<Id> reads = schedule::read_buffers(k, block->id);
    auto type = [&](int read) { return k.buffer(reads[static_cast<size_t>(read)])->type; };
    for (const VnniDot& dot : {vnni_dot(Type::kBF16), vnni_dot(Type::kU8)}) {
      // Tiles of AMX do the same work in an eighth of the time (amx_tiling.cpp).
      const bool unit = dot.a == Type::kBF16 ? have.avx512_bf16 && !(have.amx_tile && have.amx_bf16) : have.avx512_vnni;
      if (unit && type(p->a) == dot.a && type(p->b) == dot.b && k.buffer(nest->store->buffer)->type == dot.result)
        return VnniProduct{*p, dot};
    }
  }
  return std::nullopt;
}

// Rows written out, lanes along the columns. `vectors`: 0 where the columns are one loop.
bool mark_tile(Schedule& s, BlockRv block, int64_t vectors) {
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() < 3) return false;
  std::vector<LoopRv> lanes = {loops[loops.size() - 2], loops.back()};
  size_t row = loops.size() - 3;
  if (vectors == 0) lanes = s.split(loops.back(), {ExprRv{}, lit(kLanes)}), row = loops.size() - 2;
  if (!s.ok()) return false;
  s.unroll(loops[row]);
  s.unroll(lanes[0]);
  s.vectorize(lanes[1]);
  return s.ok();
}

bool schedule_rows(Schedule& s, const VnniProduct& p, int64_t most, int64_t vectors, const SpaceOptions& options) {
  BlockRv block = s.get_block(p.nest.name);
  // Rows that divide, or a tile that fits with zeros around.
  const int64_t divisor = best_divisor(p.nest.extents[p.m], most), rows = 2 * divisor > most ? divisor : most;
  std::vector<int64_t> multiples(p.nest.extents.size(), 1);
  multiples[p.m] = rows, multiples[p.n] = vectors * kLanes, multiples[p.k] = p.dot.group;
  if (!pack_operands(s, p, block, multiples, kLanes, p.dot.group)) return false;
  BlockRv store = s.cache_write(block, Scope::kLocal);
  std::vector<LoopRv> loops = s.get_loops(block);
  if (!s.ok() || loops.size() != p.nest.extents.size()) return false;
  std::vector<LoopRv> i = s.split(loops[p.m], {ExprRv{}, lit(rows)});
  std::vector<LoopRv> j = s.split(loops[p.n], {ExprRv{}, lit(vectors), lit(kLanes)});
  std::vector<LoopRv> k = s.split(loops[p.k], {ExprRv{}, lit(p.dot.group)});
  if (!s.ok()) return false;
  std::vector<LoopRv> io = s.split(i[0], s.sample_perfect_tile(i[0], 2, options.max_innermost));
  std::vector<LoopRv> jo = s.split(j[0], s.sample_perfect_tile(j[0], 2, options.max_innermost));
  if (!s.ok()) return false;
  const std::vector<LoopRv> outer = joined(std::span(loops).first(p.m), io[0], jo[0]);
  s.reorder(outer, io[1], jo[1], k[0], i[1], j[1], j[2], k[1]);
  s.reverse_compute_at(store, jo[1]);
  BlockRv zero = s.decompose_reduction(block, k[0]);
  s.annotate(k[0], AnnotationKey::kUnrollMax, s.sample_categorical({1, 64, 256}, {0.4, 0.3, 0.3}));
  s.unroll(i[1]);
  s.unroll(j[1]);
  s.tensorize(j[2], p.dot.instruction);
  return s.ok() && mark_tile(s, zero, vectors) && mark_tile(s, store, 0) && (fuse_parallel(s, outer), s.ok());
}

}  // namespace

Ways vnni_tiling(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  std::optional<VnniProduct> p = match_vnni_product(state.kernel(), target);
  if (!p) return {state};
  Ways ways;
  for (int64_t vectors : {2, 1, 4}) {
    if (vectors > 1 && (vectors - 1) * kLanes >= p->nest.extents[p->n]) continue;
    // The sums, a vector of B for each of their columns, and one of A.
    const int64_t most = std::min<int64_t>((target.cpu.num_vector_registers - vectors - 1) / vectors, kMaxRows);
    ways.attempt(state, [&](Schedule& s) {
      return schedule_rows(s, *p, std::min(most, p->nest.extents[p->m]), vectors, options);
    });
  }
  return ways.or_also(state);
}

}  // namespace tcc::space
