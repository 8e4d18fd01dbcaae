// Use-tensor-core: a product of matrices through the matrix instructions of a warp (MetaSchedule, section 4.1 and the
// trace of appendix A.4). Extents that tiles of the instruction do not divide are padded; operands go through shared
// memory, whose rows are set apart against bank conflicts, into fragments; sums stay in fragments.
//
//   grid.x (S0...) { grid.y S1... { warps S2... {
//     R0 { As = A; Bs = B                           shared, fetched by all threads together
//          R1... { Af = As; Bf = Bs                 fragments
//                  S3... R2... S4... { mma } } }
//     C = Cf } } }
#include <array>

#include "space/gpu.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

using namespace ir;
using schedule::BlockRv;
using schedule::ExprRv;
using schedule::lit;
using schedule::LoopRv;
using schedule::Schedule;

// The rows to try: the first one that tensorize accepts is taken. Tiles are i, j, k.
struct Row {
  std::string_view name, feature;
  Type type;
  int64_t i, j, k;
};
constexpr Row kRows[] = {
    {"mma.m16n8k16.f32.f16", "mma_m16n8k16", Type::kF16, 16, 8, 16},
    {"mma.m16n8k16.f32.f16.bt", "mma_m16n8k16", Type::kF16, 16, 8, 16},
    {"mma.m16n8k16.f32.bf16", "bf16", Type::kBF16, 16, 8, 16},
    {"mma.m16n8k16.f32.bf16.bt", "bf16", Type::kBF16, 16, 8, 16},
    {"mma.m16n8k8.f32.tf32", "tf32", Type::kF32, 16, 8, 8},
    {"mma.m16n8k8.f32.tf32.bt", "tf32", Type::kF32, 16, 8, 8},
    {"mma.m16n8k32.i32.i8", "mma_int8", Type::kI8, 16, 8, 32},
    {"mma.m16n8k32.i32.i8.bt", "mma_int8", Type::kI8, 16, 8, 32},
};

bool has_feature(const target::CudaFeatures& f, std::string_view name) {
#define TCC_FEATURE(field) \
  if (name == #field) return f.field;
  TCC_CUDA_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
  return false;
}

// Iterators of a product: i and j are the last two spatial ones, k the only reduction, of two operands of one type.
struct Product {
  NaiveNest nest;
  Type type;
  size_t i = 0, j = 0, k = 0;
};

std::optional<Product> find_product(const Kernel& k) {
  std::optional<NaiveNest> nest = find_reuse(k);
  if (!nest || nest->loads.size() != 2 || nest->loads[0]->type != nest->loads[1]->type) return std::nullopt;
  Product p{*nest, nest->loads[0]->type, 0, 0, 0};
  std::vector<size_t> spatial, reduce;
  for (size_t i = 0; i < nest->extents.size(); ++i) (nest->reduce[i] ? reduce : spatial).push_back(i);
  if (spatial.size() < 2 || reduce.size() != 1) return std::nullopt;
  p.i = spatial[spatial.size() - 2], p.j = spatial.back(), p.k = reduce[0];
  return p;
}

class GpuTensorCore : public Module {
 public:
  const char* name() const override { return "gpu_tensor_core"; }

  std::vector<Schedule> apply(const Schedule& state, const target::Target& target,
                              const SpaceOptions& options) const override {
    std::optional<Product> product = find_product(state.kernel());
    if (product)
      for (const Row& row : kRows) {
        if (row.type != product->type || !has_feature(target.cuda.features, row.feature)) continue;
        // Single precision rounds to 10 bits of mantissa there: only where the user allows it.
        if (row.type == Type::kF32 && !options.gpu.allow_tf32) continue;
        Schedule s = state;
        if (tile(s, *product, row, options.gpu)) return {std::move(s), state};
      }
    return {state};
  }

 private:
  static bool pad(Schedule& s, BlockRv block, const Product& p, const Row& row) {
    std::vector<int64_t> multiples(p.nest.extents.size(), 1);
    multiples[p.i] = row.i, multiples[p.j] = row.j, multiples[p.k] = row.k;
    bool divides = true;
    for (size_t i = 0; i < multiples.size(); ++i) divides &= p.nest.extents[i] % multiples[i] == 0;
    if (!divides) s.pad_einsum(block, multiples);
    return s.ok();
  }

  static bool tile(Schedule& s, const Product& p, const Row& row, const GpuSpaceOptions& options) {
    BlockRv block = s.get_block(p.nest.name);
    if (!pad(s, block, p, row)) return false;
    BlockRv result = s.cache_write(block, Scope::kLocal);
    std::vector<LoopRv> loops = s.get_loops(block), order, batch, s0, s1, s2, s3, s4, r, unit;
    if (!s.ok() || loops.size() != p.nest.extents.size()) return false;
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
    batch.insert(batch.end(), s0.begin(), s0.end());
    s.bind(fuse_all(s, batch), Axis::kGridX);
    s.bind(fuse_all(s, s1), Axis::kGridY);
    s.bind(s2[0], Axis::kThreadZ);
    s.bind(s2[1], Axis::kThreadY);
    s.reverse_compute_at(result, s2[1]);
    // Step 2. Operands: shared memory at R0, fragments at R1.
    for (int operand = 0; operand < 2 && s.ok(); ++operand) {
      BlockRv shared = s.cache_read(block, operand, Scope::kShared);
      BlockRv fragment = s.cache_read(block, operand, Scope::kLocal);
      s.compute_at(fragment, r[1]);
      s.compute_at(shared, r[0]);
      const int64_t bytes = type_bytes(p.type);
      const size_t rank =
          s.ok() ? s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(shared)))->shape.size() : 0;
      if (rank < 2) return false;
      s.storage_align(shared, static_cast<int>(rank) - 2, 128 / bytes, options.shared_padding / bytes);
      std::vector<int64_t> lengths;
      for (int64_t b : options.tensor_vector_bytes) lengths.push_back(std::max<int64_t>(b / bytes, 1));
      fetch_together(s, shared, 5, lengths);
    }
    s.decompose_reduction(block, r[0]);
    s.tensorize(unit[0], row.name);
    return s.ok();
  }
};

}  // namespace

std::unique_ptr<Module> make_gpu_tensor_core() {
  return std::make_unique<GpuTensorCore>();
}

}  // namespace tcc::space
