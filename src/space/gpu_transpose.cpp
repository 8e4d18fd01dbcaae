// Results that transpose an operand: tiles go through shared memory, so that both sides have vectors of neighbors.
//
//   for p { for q { y[p, q] = g(x[q, p]) } }
//
//   grid (p0, q0) {
//     f @cooperative_fetch { s[q, p] = x[q0 + q, p0 + p] }                        all threads, vectors along p
//     thread.y tp { thread.x tq { u unrolled { v vectorized { y[p0 + u*Tp + tp, q0 + tq*V + v] = g(s[..]) } } } } }
//
// The layout of the tile in shared memory is a matter of lowering (swizzle_shared): rows stay whole for the copy, and
// columns meet different banks. Beside it the schedule as it was, for the small dimensions that a tile would not fill.
#include <algorithm>

#include "space/gpu.h"
#include "space/transposed.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kMinTile = 16;  // elements of a dimension: shorter ones fill no sector of memory

class GpuTranspose {
 public:
  static Ways apply(const Schedule& state, const target::Target&, const SpaceOptions& options) {
    Ways ways;
    Schedule tiled = state;
    bool any = false;
    for (const std::string& name : unscheduled_blocks(state.kernel())) {
      const Block* block = find_block(tiled.kernel().root, schedule::find_block_by_name(tiled.kernel(), name));
      std::optional<NaiveNest> nest = block != nullptr ? naive_nest(tiled.kernel(), *block) : std::nullopt;
      std::optional<Transposed> found = nest ? find_transposed(*nest, kMinTile, kMinTile) : std::nullopt;
      if (!found) continue;
      Schedule trial = tiled;
      if (tile(trial, *nest, *found, options.gpu)) {
        tiled = std::move(trial);
        any = true;
      } else if (!trial.ok()) {
        ways.rejects.add(trial.reject());
      }
    }
    if (any) ways.states.push_back(std::move(tiled));
    return std::move(ways.or_also(state));
  }

 private:
  static bool tile(Schedule& s, const NaiveNest& nest, const Transposed& found, const GpuSpaceOptions& options) {
    const Kernel& k = s.kernel();
    BlockRv block = s.get_block(nest.name);
    std::vector<BlockRv> copies;
    int64_t narrowest = type_bytes(k.buffer(nest.store->buffer)->type);
    for (Id operand : found.operands) {
      const std::vector<Id> reads = schedule::read_buffers(s.kernel(), s.id(block));
      const auto at = std::find(reads.begin(), reads.end(), operand);
      if (at == reads.end()) return false;
      copies.push_back(s.cache_read(block, static_cast<int>(at - reads.begin()), Scope::kShared));
      if (!s.ok()) return false;
    }
    std::vector<LoopRv> loops = s.get_loops(block), order;
    if (!s.ok() || loops.size() != nest.extents.size()) return false;
    const ExprRv vector = sample_widths(s, kMaxAccessBytes / std::min(narrowest, kMaxAccessBytes));
    std::vector<LoopRv> q =
        s.split(loops[found.inner], std::vector<ExprRv>{{}, sample_uniform(s, options.transpose_lanes), vector});
    std::vector<LoopRv> p = s.split(
        loops[found.outer],
        std::vector<ExprRv>{{}, sample_uniform(s, options.transpose_steps), sample_uniform(s, options.transpose_rows)});
    if (!s.ok()) return false;
    for (size_t i = 0; i < loops.size(); ++i)
      if (i != found.inner && i != found.outer) order.push_back(loops[i]);
    order.push_back(p[0]);
    order.push_back(q[0]);
    const size_t grid_loops = order.size();
    for (LoopRv l : {p[2], q[1], p[1], q[2]}) order.push_back(l);
    s.reorder(order);
    LoopRv grid = fuse_all(s, std::span(order).first(grid_loops));
    s.bind(grid, Axis::kGridX);
    s.bind(p[2], Axis::kThreadY);
    s.bind(q[1], Axis::kThreadX);
    s.unroll(p[1]);
    s.vectorize(q[2]);
    s.annotate(grid, AnnotationKey::kMinThreads, lit(options.stream_threads.front()));
    for (BlockRv copy : copies) {
      s.compute_at(copy, grid);
      if (!s.ok()) return false;
      std::vector<LoopRv> fetched = s.get_loops(copy);
      const Buffer* out = s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(copy)));
      if (!s.ok() || fetched.size() < 2 || out == nullptr) return false;
      LoopRv all = fuse_all(s, std::span(fetched).subspan(1));
      s.annotate(all, AnnotationKey::kCooperativeFetch,
                 sample_widths(s, kMaxAccessBytes / std::min<int64_t>(type_bytes(out->type), kMaxAccessBytes)));
    }
    return s.ok();
  }
};

}  // namespace

Ways gpu_transpose(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuTranspose::apply(state, target, options);
}

}  // namespace tcc::space
