// Products by warpgroups (Hopper: NVIDIA H100 whitepaper, "asynchronous execution"; CUTLASS, warp-specialized GEMM).
// Operands go to shared memory by tensor copies that warps of their own start, several iterations ahead, and the
// instructions read them there; sums stay in the registers of one or two warpgroups (lower/gpu/expand_roles.h). The
// copies round single precision to tf32, where the kernel allows it.
//
//   grid (batch, I0, J, I1) { cluster (I2, J1) { warpgroups W {          persistent_blocks
//     K0 { As = A; Bs = B                           pipeline_depth, pipeline_role
//          K1 { M { wgmma 64 x n x 16 } } }
//     C = acc } } }
//
// Blocks of a cluster fetch together what they share: rows of A along columns, columns of B along rows. Of a large
// grid either each tile has a block of its own, or as many blocks as run at a time walk over all tiles; then the sums
// of tiles that do not fill the last wave of walkers may be made in parts (annotation tree of K0,
// lower/gpu/split_last_wave.h).
//
// A block makes 64 or 128 rows, by one warpgroup or two, and the n columns of one instruction: each pair that the
// results are large enough for is a design space of its own.
#include <algorithm>
#include <array>

#include "space/gpu_product.h"
#include "tcc/analysis/roles.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/space/matrix_instruction.h"
#include "tcc/target/limits.h"

namespace tcc::space {
namespace {

constexpr int64_t kRows = 64, kTermBytes = 32;  // of the instruction
constexpr int64_t kMinExtent = 32;              // rows and columns that are worth a tile
constexpr int64_t kSharedReserve = 2048;        // bytes of shared memory for barriers and alignment
constexpr std::array<std::pair<int64_t, int64_t>, 4> kTiles = {{{128, 256}, {128, 128}, {64, 128}, {64, 64}}};

const Load& operand(const ProductForm& form, bool first) {
  const Id row = form.nest.block->iters[form.rows[0]].id;
  const Load& load = *form.nest.loads[0];
  const bool moves = std::any_of(load.indices.begin(), load.indices.end(), [&](Expr e) { return mentions(e, row); });
  return moves == first ? load : *form.nest.loads[1];
}

class GpuWgmma {
 public:
  static Ways apply(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
    if (!has_warpgroups(target)) return {state};
    const std::optional<ProductForm> form = match_gpu_product(state.kernel());
    const bool allow_tf32 = options.gpu.allow_tf32 || state.kernel().tf32;
    if (!unmet_conditions_of_warpgroups(state.kernel(), form, allow_tf32).empty()) return {state};
    Ways ways;
    const int64_t m = form->nest.extents[form->rows[0]], n = form->nest.extents[form->columns[0]];
    for (const auto& [rows, columns] : kTiles) {
      // Half of a tile at least has to be there.
      if ((rows > kRows && m <= rows / 2) || (columns > kRows && n <= columns / 2)) continue;
      ways.attempt(state, [&](Schedule& s) { return tile(s, *form, rows, columns, target, options.gpu); });
    }
    return ways.or_also(state);
  }

 private:
  // How many of a grid of tiles of `size` results run at a time: numbers that leave some block several tiles, and 0,
  // which is all; for each number of blocks that a cluster may have, what the device holds of it. Empty: the grid is
  // too small for a choice.
  static std::vector<int64_t> walkers(const ProductForm& form, int64_t size, const target::Target& target,
                                      const GpuSpaceOptions& options) {
    int64_t results = 1;
    for (const std::vector<size_t>* group : {&form.batch, &form.rows, &form.columns})
      for (size_t i : *group) results *= form.nest.extents[i];
    std::vector<int64_t> out;
    for (int64_t n : options.wgmma_walkers) {
      if (n == 0) out.push_back(0);
      // Clusters do not fill every group of multiprocessors: those that find no place would begin when others end.
      for (int64_t cluster = 1; n > 0 && cluster <= options.wgmma_cluster * options.wgmma_cluster; cluster *= 2) {
        const int64_t blocks = cluster * target::resident_clusters(target, cluster, n);
        if (results / size > blocks && std::find(out.begin(), out.end(), blocks) == out.end()) out.push_back(blocks);
      }
    }
    return out == std::vector<int64_t>{0} ? std::vector<int64_t>{} : out;
  }

  static bool tile(Schedule& s, const ProductForm& form, int64_t rows, int64_t columns, const target::Target& target,
                   const GpuSpaceOptions& options) {
    const int64_t terms = kTermBytes / type_bytes(form.type), step = warpgroup_terms(form.type);
    const Id last = form.nest.block->iters[form.columns[0]].id;
    const bool trans_b = mentions(operand(form, false).indices.back(), last);
    const std::vector<int32_t> products = find_products(form.type, Participants::kWarpgroup);
    const auto product = std::find_if(products.begin(), products.end(), [&](int32_t number) {
      const OperandSpec& b = instruction(number).operands[2];
      return b.tile[0] == (trans_b ? terms : columns) && b.tile[1] == (trans_b ? columns : terms);
    });
    if (product == products.end()) return false;
    const std::string_view name = instruction(*product).name;
    const int64_t stage = (rows + columns) * step * type_bytes(form.type);
    const int64_t results = rows / kRows * analysis::kStagedPieces * analysis::kStagedRows * analysis::kStagedBytes;
    std::vector<int64_t> depths;
    for (int64_t d : options.wgmma_stages)
      if (d * stage + results + kSharedReserve <= target.cuda.shared_per_block_optin) depths.push_back(d);
    if (depths.empty()) return false;
    const std::optional<GpuProductNest> p = make_product(s, form, {name, form.type, rows, columns, step}, true);
    if (!p) return false;
    BlockRv block = s.get_block(p->name);
    BlockRv result = s.cache_write(block, Scope::kLocal);
    std::vector<LoopRv> loops = s.get_loops(block), grid;
    if (!s.ok() || loops.size() != p->iterators) return false;
    std::vector<LoopRv> i = s.split(loops[p->i], std::array{ExprRv{}, lit(rows / kRows), lit(kRows)});
    std::vector<LoopRv> j = s.split(loops[p->j], std::array{ExprRv{}, lit(columns)});
    std::vector<LoopRv> k = s.split(loops[p->k], std::array{ExprRv{}, lit(step / terms), lit(terms)});
    if (!s.ok()) return false;
    std::vector<LoopRv> across = s.split(i[0], s.sample_perfect_tile(i[0], 2, options.wgmma_cluster));
    std::vector<LoopRv> along = s.split(j[0], s.sample_perfect_tile(j[0], 2, options.wgmma_cluster));
    if (!s.ok()) return false;
    std::vector<LoopRv> outer = s.split(across[0], s.sample_perfect_tile(across[0], 2, options.wgmma_group));
    std::vector<LoopRv> groups = s.split(i[1], s.sample_perfect_tile(i[1], 2, 2));
    if (!s.ok()) return false;
    for (size_t l = 0; l < loops.size(); ++l)
      if (l != p->i && l != p->j && l != p->k) grid.push_back(loops[l]);
    // Rows of blocks in groups, column by column: those that run at a time share both operands in the cache.
    grid.insert(grid.end(), {outer[0], along[0], outer[1]});
    std::vector<LoopRv> order = grid;
    order.insert(order.end(), {across[1], along[1], groups[0], k[0], k[1], groups[1], i[2], j[1], k[2]});
    s.reorder(order);
    LoopRv tiles = fuse_all(s, grid);
    s.bind(tiles, Axis::kGridX);
    const std::vector<int64_t> at_a_time = walkers(form, rows * columns, target, options);
    if (!at_a_time.empty()) s.annotate(tiles, AnnotationKey::kPersistentBlocks, sample_uniform(s, at_a_time));
    s.bind(across[1], Axis::kClusterX);
    s.bind(along[1], Axis::kClusterY);
    s.bind(groups[0], Axis::kWarpgroup);
    s.reverse_compute_at(result, groups[0]);
    for (int read = 0; read < 2 && s.ok(); ++read) {
      BlockRv shared = s.cache_read(block, read, Scope::kShared);
      s.compute_at(shared, k[0]);
      std::vector<LoopRv> copy = s.get_loops(shared);
      if (!s.ok() || copy.size() < 2) return false;
      s.annotate(copy[copy.size() - 2], AnnotationKey::kCooperativeFetch,
                 lit(target::kSwizzleBytes / type_bytes(p->type)));
    }
    s.decompose_reduction(block, k[0]);
    s.annotate(k[0], AnnotationKey::kPipelineDepth, sample_uniform(s, depths));
    s.annotate(k[0], AnnotationKey::kPipelineRole, lit(1));
    if (!at_a_time.empty() && !options.wgmma_parts.empty())
      s.annotate(k[0], AnnotationKey::kTreeReduce, sample_uniform(s, options.wgmma_parts));
    s.unroll(k[1]);
    s.tensorize(i[2], name);
    return s.ok();
  }
};

}  // namespace

bool has_warpgroups(const target::Target& target) {
  return target.cuda.features.wgmma && target.cuda.features.tma;
}

std::vector<std::string> unmet_conditions_of_warpgroups(const Kernel& k, const std::optional<ProductForm>& form,
                                                        bool allow_tf32) {
  if (!form || !form->boxes) return {"the task does not read its operands as two matrices, or as batches of them"};
  const bool single = form->type == Type::kF32;
  if (single && !allow_tf32) return {"instructions of warpgroups round f32 to tf32: allow it with --precision tf32"};
  if (!single && form->type != Type::kF16 && form->type != Type::kBF16)
    return {fmt::format("instructions of warpgroups multiply f16, bf16 and tf32 here, not {}", type_name(form->type))};
  const int64_t step = warpgroup_terms(form->type);
  std::vector<std::string> unmet;
  const NaiveNest& nest = form->nest;
  const int64_t rows = nest.extents[form->rows[0]], columns = nest.extents[form->columns[0]],
                terms = nest.extents[form->sums[0]];
  if (rows < kMinExtent || columns < kMinExtent)
    unmet.push_back(
        fmt::format("{} x {} results are less than half of a tile of {} x {}", rows, columns, kRows, kRows));
  if (terms <= step) unmet.push_back(fmt::format("sums of {} terms are one step: nothing runs ahead", terms));
  if (!form->plain && terms % step != 0)
    unmet.push_back(fmt::format("sums have {} terms, expected a multiple of {}: other terms follow them", terms, step));
  if (mentions(operand(*form, true).indices.back(), nest.block->iters[form->rows[0]].id))
    unmet.push_back("the first operand is stored transposed: a warpgroup reads it with its terms side by side");
  if (single && !mentions(operand(*form, false).indices.back(), nest.block->iters[form->sums[0]].id))
    unmet.push_back("the second operand has its columns side by side: a warpgroup reads tf32 with terms side by side");
  for (const Load* load : nest.loads) {
    const Buffer& b = *k.buffer(load->buffer);
    if (b.role == BufferRole::kTemp || b.layout != nullptr)
      unmet.push_back(fmt::format("tensor copies read parameters, and '{}' is computed first", name_hint(k, b.id)));
    else if (!is_int(b.shape.back()) || int_value(b.shape.back()) * type_bytes(b.type) % kTmaStrideAlign != 0)
      unmet.push_back(fmt::format("the rows of '{}' are not multiples of {} bytes, which tensor copies need",
                                  name_hint(k, b.id), kTmaStrideAlign));
  }
  return unmet;
}

std::vector<std::string> unmet_conditions_of_warpgroup_instruction(const Kernel& kernel, const target::Target& target) {
  if (!has_warpgroups(target)) return {};
  return unmet_conditions_of_warpgroups(kernel, match_gpu_product(kernel), kernel.tf32);
}

Ways gpu_wgmma(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuWgmma::apply(state, target, options);
}

}  // namespace tcc::space
