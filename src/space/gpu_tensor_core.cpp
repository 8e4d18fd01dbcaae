// Use-tensor-core: a product of matrices through the matrix instructions of a warp (MetaSchedule, section 4.1 and the
// trace of appendix A.4). Operands go through shared memory, whose copies run ahead (lower/gpu/expand_pipeline.h), into
// fragments; sums stay in fragments.
//
//   grid (S0... S1...) { warps S2... {
//     R0 { As = A; Bs = B                           shared, a pipeline, fetched by all threads together
//          R1... { Af = As; Bf = Bs                 fragments
//                  S3... R2... S4... { mma } } }
//     C = Cf } }
//
// What an opaque fragment holds can be computed on when it is in shared memory, by all threads of the block together:
//
//   grid { warps { ...; Cs = Cf }; C = f(Cs) }
#include <array>

#include "space/gpu_product.h"

namespace tcc::space {
namespace {

bool tile(Schedule& s, const GpuProductNest& p, const MatrixRow& row, const GpuSpaceOptions& options) {
  BlockRv block = s.get_block(p.name);
  const bool opaque = row.opaque;
  BlockRv out;
  if (opaque) out = s.cache_write(block, Scope::kShared);
  BlockRv result = s.cache_write(block, Scope::kLocal);
  std::vector<LoopRv> loops = s.get_loops(block), order, batch, s0, s1, s2, s3, s4, r, unit;
  if (!s.ok() || loops.size() != p.iterators) return false;
  // Step 1. Tiles of the instruction, and tiles of those.
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i != p.i && i != p.j && i != p.k) {
      batch.push_back(loops[i]);
      continue;
    }
    std::vector<LoopRv> parts = s.split(loops[i], std::array{ExprRv{}, lit(i == p.i   ? row.i
                                                                           : i == p.j ? row.j
                                                                                      : row.k)});
    if (!s.ok()) return false;
    std::vector<LoopRv> tiles =
        s.split(parts[0], s.sample_perfect_tile(parts[0], i == p.k ? 3 : 5, options.tensor_max_innermost));
    if (!s.ok()) return false;
    unit.push_back(parts[1]);
    if (i == p.k) {
      r = tiles;
      continue;
    }
    size_t level = 0;
    for (std::vector<LoopRv>* to : {&s0, &s1, &s2, &s3, &s4}) to->push_back(tiles[level++]);
  }
  for (const std::vector<LoopRv>& level :
       {batch, s0, s1, s2, std::vector{r[0]}, std::vector{r[1]}, s3, std::vector{r[2]}, s4, unit})
    order.insert(order.end(), level.begin(), level.end());
  s.reorder(order);
  // Blocks of one S0 follow each other, so that those that run at a time share rows and columns in the cache.
  for (const std::vector<LoopRv>& level : {s0, s1}) batch.insert(batch.end(), level.begin(), level.end());
  LoopRv grid = fuse_all(s, batch);
  s.bind(grid, Axis::kGridX);
  s.bind(s2[0], Axis::kThreadZ);
  s.bind(s2[1], Axis::kThreadY);
  s.reverse_compute_at(result, s2[1]);
  if (opaque) {
    s.reverse_compute_at(out, grid);
    cooperative_fetch(s, out, 1, {16 / type_bytes(Type::kF32)});
  }
  // Step 2. Operands: shared memory at R0, fragments at R1.
  for (int operand = 0; operand < 2 && s.ok(); ++operand) {
    BlockRv shared = s.cache_read(block, operand, Scope::kShared);
    BlockRv fragment;
    if (operand == p.transposed && !opaque)
      s.set_scope(fragment = s.reindex(block, operand), Scope::kLocal);
    else
      fragment = s.cache_read(block, operand, Scope::kLocal);
    s.compute_at(fragment, r[1]);
    s.compute_at(shared, r[0]);
    const int64_t bytes = type_bytes(p.type);
    std::vector<int64_t> lengths;
    for (int64_t b : options.tensor_vector_bytes) lengths.push_back(std::max<int64_t>(b / bytes, 1));
    cooperative_fetch(s, shared, 4, lengths);
  }
  s.decompose_reduction(block, r[0]);
  s.annotate(r[0], AnnotationKey::kPipelineDepth, sample_uniform(s, options.tensor_stages));
  s.tensorize(unit[0], row.name);
  return s.ok();
}

}  // namespace

Ways gpu_tensor_core(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  Schedule found = state;
  Ways ways;
  if (const std::optional<ProductForm> form = match_gpu_product(found))
    for (const MatrixRow& row : matrix_rows(form->type, target, options.gpu.allow_tf32 || found.kernel().tf32)) {
      // The first one that tensorize accepts is taken.
      const bool made = ways.attempt(found, [&](Schedule& s) {
        // No instruction transposes tiles of bytes as it loads them: their terms stay side by side.
        const std::optional<GpuProductNest> product = make_product(s, *form, row, type_bytes(form->type) == 1);
        return product && tile(s, *product, row, options.gpu);
      });
      if (made) break;
    }
  return ways.or_also(state);
}

}  // namespace tcc::space
